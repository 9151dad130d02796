//! Files that the command writes: each is whole or not there at all.
//!
//! ```text
//!   page.html  ── resolve symbolic links ──►  /there/page.html        kept as it is until …
//!                                             /there/.allotment-…     written, synced, and then renamed to it
//! ```
//!
//! What is no regular file (a device, a fifo, `/dev/stdout`, `/dev/fd/3`) cannot be replaced and is written directly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// As many as Linux follows.
const MOST_LINKS: usize = 40;

/// Of a file, on Windows and on nearly all file systems.
const LONGEST_NAME: usize = 255;

/// A file that is to be written later, and that could be written when this was made.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// As it was given.
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// What a temporary file is renamed to: the given path with its symbolic links followed.
    Replaced(PathBuf),
    /// What is written directly.
    Direct(PathBuf),
    StandardOutput,
}

impl OutputFile {
    /// Finds out whether the file can be written, and changes nothing: an hour's replay shall not end with a folder that
    /// is not there. A temporary file is made beside it and removed, so that a command that is killed leaves none.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let failure = |error| Failure::write(path, error);
        let target = resolve(path).map_err(failure)?;
        if let Target::Replaced(to) = &target {
            // Not truncated, and not made: a file that may not be written is not replaced either.
            match OpenOptions::new().write(true).open(to) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(failure(error)),
                _ => {}
            }
            Temporary::beside(to).map_err(failure)?;
        }
        Ok(Self { path: path.to_owned(), target })
    }

    /// Whether both are the same file.
    pub(crate) fn is(&self, other: &Path) -> bool {
        match (&self.target, resolve(other)) {
            (Target::Replaced(this), Ok(Target::Replaced(other))) => *this == other,
            _ => false,
        }
    }

    /// Writes the file. An older one is replaced when the new one is safe on the disk, and stays as it was where that
    /// fails.
    pub(crate) fn write(&self, contents: &[u8]) -> Result<(), Failure> {
        let written = match &self.target {
            Target::Replaced(to) => replace(to, contents),
            // Appended, as what is behind `/dev/fd/3` may be a file with something in it.
            Target::Direct(to) => OpenOptions::new().append(true).open(to).and_then(|mut file| {
                file.write_all(contents)?;
                file.flush()
            }),
            Target::StandardOutput => {
                output::check(|| io::stdout().write_all(contents));
                return Ok(());
            }
        };
        written.map_err(|error| Failure::write(&self.path, error))
    }
}

/// What a path leads to.
fn resolve(path: &Path) -> io::Result<Target> {
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        if is_special(&at) {
            let names = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
            return Ok(if names.iter().any(|name| at == Path::new(name)) {
                Target::StandardOutput
            } else {
                Target::Direct(at)
            });
        }
        match fs::symlink_metadata(&at) {
            Ok(metadata) if metadata.is_symlink() => {
                let link = fs::read_link(&at)?;
                at = folder_of(&at).join(link);
            }
            Ok(metadata) if metadata.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => return Ok(Target::Direct(at)),
            Ok(_) => return Ok(Target::Replaced(in_its_folder(&at)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Target::Replaced(in_its_folder(&at)?));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links, one after the other"))
}

/// Devices, and the process's own open files, which are links to what they are and yet not to be replaced.
fn is_special(path: &Path) -> bool {
    if cfg!(windows) {
        let name = path.file_name().unwrap_or_default();
        return ["NUL", "CON"].iter().any(|device| name.eq_ignore_ascii_case(device));
    }
    path.starts_with("/dev") || path.starts_with("/proc")
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// The same file, with the links in the way to its folder followed.
fn in_its_folder(path: &Path) -> io::Result<PathBuf> {
    let folder = folder_of(path).canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => io::Error::new(ErrorKind::NotFound, "its folder does not exist"),
        _ => error,
    })?;
    let ends_in_a_separator =
        path.as_os_str().as_encoded_bytes().last().is_some_and(|&last| std::path::is_separator(last.into()));
    match path.file_name() {
        // Where names are shorter the system says so. Not so on Windows: it calls a file of such a name one that is not there.
        Some(name) if name.to_string_lossy().encode_utf16().count() > LONGEST_NAME => Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("its name has more than {LONGEST_NAME} characters"),
        )),
        Some(name) if !ends_in_a_separator => Ok(folder.join(name)),
        _ => Err(ErrorKind::IsADirectory.into()),
    }
}

fn replace(target: &Path, contents: &[u8]) -> io::Result<()> {
    let mut temporary = Temporary::beside(target)?;
    if let Ok(old) = fs::metadata(target) {
        temporary.file.set_permissions(old.permissions())?;
    }
    temporary.file.write_all(contents)?;
    // Before the rename: otherwise a machine that stops in between could be left with neither.
    temporary.file.sync_all()?;
    fs::rename(&temporary.path, target)?;
    temporary.renamed = true;
    Ok(())
}

/// A file that is removed again, unless it was renamed.
#[derive(Debug)]
struct Temporary {
    file: File,
    path: PathBuf,
    renamed: bool,
}

impl Temporary {
    /// In the same folder, as a file is only renamed within a file system. The name does not depend on the target's,
    /// which may be as long as names can be.
    fn beside(target: &Path) -> io::Result<Self> {
        let folder = folder_of(target);
        let mut number = 0;
        loop {
            let path = folder.join(format!(".allotment-{}-{number}.tmp", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, renamed: false }),
                // Left by a process of the same number that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // There is nothing to be done about one that cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

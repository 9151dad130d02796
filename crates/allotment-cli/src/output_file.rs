//! Files that a command writes: each is written completely or not at all.
//!
//! ```text
//!   page.html  ── resolve symbolic links ──►  /there/page.html        unchanged until …
//!                                             /there/.allotment-…     written, synced, then renamed to it
//! ```
//!
//! A special file (a device, a FIFO, `/dev/stdout`, `/dev/fd/3`) cannot be replaced and is written directly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// The limit of Linux.
const MOST_LINKS: usize = 40;

/// The limit of Windows and of nearly all file systems.
const LONGEST_NAME: usize = 255;

/// A file to be written later; it was found writable when this was created.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// The path as the user gave it.
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// Replaced by renaming a temporary file: the path with its symbolic links resolved.
    Replaced(PathBuf),
    /// Written directly.
    Direct(PathBuf),
    StandardOutput,
}

impl OutputFile {
    /// Checks that the file can be written, without changing it, so that a replay of an hour does not end with a
    /// missing directory. A temporary file is created beside it and removed at once, so that a killed command
    /// leaves none.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let failure = |error| Failure::write(path, error);
        let target = resolve(path).map_err(failure)?;
        if let Target::Replaced(to) = &target {
            // Neither truncated nor created: a file without write permission must not be replaced either.
            match OpenOptions::new().write(true).open(to) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(failure(error)),
                _ => {}
            }
            Temporary::beside(to).map_err(failure)?;
        }
        Ok(Self { path: path.to_owned(), target })
    }

    /// Returns whether both are the same file.
    pub(crate) fn is(&self, other: &Path) -> bool {
        match (&self.target, resolve(other)) {
            (Target::Replaced(this), Ok(Target::Replaced(other))) => *this == other,
            _ => false,
        }
    }

    /// Writes the file. An older file is replaced once the new one is safe on disk, and stays unchanged if that
    /// fails.
    pub(crate) fn write(&self, contents: &[u8]) -> Result<(), Failure> {
        let written = match &self.target {
            Target::Replaced(to) => replace(to, contents),
            // Appended: `/dev/fd/3` may refer to a file that already has contents.
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

/// Follows symbolic links, and returns how the file is written.
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
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Returns whether a path is a device or one of the process's open files: links that must not be replaced.
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

/// Resolves the symbolic links of the path's directory.
fn in_its_folder(path: &Path) -> io::Result<PathBuf> {
    let folder = folder_of(path).canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => io::Error::new(ErrorKind::NotFound, "its directory does not exist"),
        _ => error,
    })?;
    let ends_in_a_separator =
        path.as_os_str().as_encoded_bytes().last().is_some_and(|&last| std::path::is_separator(last.into()));
    match path.file_name() {
        // Checked here, since Windows reports a name that is too long as a missing file. Other systems report
        // shorter limits themselves.
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
    // Before the rename: otherwise a power loss could leave neither file.
    temporary.file.sync_all()?;
    fs::rename(&temporary.path, target)?;
    temporary.renamed = true;
    Ok(())
}

/// A file that is removed when dropped, unless it was renamed.
#[derive(Debug)]
struct Temporary {
    file: File,
    path: PathBuf,
    renamed: bool,
}

impl Temporary {
    /// Creates it in the same directory, since a rename works only within a file system. Its name is independent of
    /// the target's, which may already have the greatest length.
    fn beside(target: &Path) -> io::Result<Self> {
        let folder = folder_of(target);
        let mut number = 0;
        loop {
            let path = folder.join(format!(".allotment-{}-{number}.tmp", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, renamed: false }),
                // Left behind by a killed process with the same id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // A failure to remove it cannot be handled here.
            let _ = fs::remove_file(&self.path);
        }
    }
}

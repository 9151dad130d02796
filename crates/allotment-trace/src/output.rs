//! Files that are written whole, or that grow while they are read: nothing is lost before everything that can refuse has
//! agreed.
//!
//! ```text
//!   town.altr  ── resolve symbolic links ──►  /there/town.altr        unchanged until …
//!                                             /there/.allotment-…     written, then renamed to it
//! ```
//!
//! Everything that this library and its command write goes through here: recordings, reports, exports, dumps.
//!
//! | | the file gets its name | read meanwhile |
//! |---|---|---|
//! | [`OutputFile::replace`]: a report, an export, a ring | once it is whole and safe on the disk | no |
//! | [`OutputFile::create`]: a recording of a running program | once nothing can refuse any more; then it grows | yes, also after a crash |
//!
//! A file that grows is locked as long as it is open, so that a second one under its name, by whatever spelling and from
//! whichever process, is refused rather than that either loses its data ([`ErrorKind::ResourceBusy`]). Where the file
//! system has no locks, there is no such check.
//!
//! A special file (a device, a FIFO, `/dev/fd/3`) cannot be replaced and is written directly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::recorder::RecordError;

/// The limit of Linux.
const MOST_LINKS: usize = 40;

/// The limit of Windows and of nearly all file systems, in characters.
const LONGEST_NAME: usize = 255;

/// The most names that are tried for a temporary file, and the most times that a name is looked at again because another
/// process has changed what it names.
const MOST_TRIES: u32 = 100;

/// How often, and how long after another, a lock is looked at before a file is said to be in use: a quarter of a second.
#[cfg(unix)]
const LOOKS_AT_A_LOCK: u32 = 50;
#[cfg(unix)]
const BETWEEN_LOOKS: core::time::Duration = core::time::Duration::from_millis(5);

/// A path to which a file can be written.
///
/// ```
/// use allotment_trace::output::OutputFile;
/// use std::io::Write;
///
/// # let path = std::env::temp_dir().join(format!("allotment-doc-output-{}.txt", std::process::id()));
/// std::fs::write(&path, "what was there")?;
/// let output = OutputFile::new(&path)?;
/// output.check()?; // an error if it could not be written later
/// let refused = output.replace(|_| Err::<(), _>(std::io::Error::other("no luck")));
/// assert!(refused.is_err());
/// assert_eq!(std::fs::read_to_string(&path)?, "what was there");
/// output.replace(|file| file.write_all(b"something new"))?;
/// assert_eq!(std::fs::read_to_string(&path)?, "something new");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OutputFile(Target);

#[derive(Clone, Debug)]
enum Target {
    /// Replaced by renaming a temporary file: the path with its symbolic links resolved.
    Named(PathBuf),
    /// Written directly.
    Special(PathBuf),
}

/// A file that does not have its name yet, which [`take_name`](Self::take_name) gives it. Removed if this is dropped before.
#[derive(Debug)]
#[must_use = "the file is removed when this is dropped"]
pub struct UnnamedFile {
    /// The temporary name and that to come; `None` for a special file, and once it has its name.
    names: Option<(PathBuf, PathBuf)>,
    /// The file that has the name now, locked, if there is one.
    before: Option<File>,
}

impl OutputFile {
    /// Follows the symbolic links of a path. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::IsADirectory`], [`ErrorKind::InvalidInput`] for an empty path, and those of the system for a directory that
    /// does not exist.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        resolve(path.as_ref()).map(Self)
    }

    /// Checks that the file can be written now, and changes nothing: a temporary file is created beside it and removed at
    /// once. So that an hour of work does not end with a directory that must not be written.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create).
    pub fn check(&self) -> io::Result<()> {
        match self.0 {
            Target::Named(_) => self.create().map(drop),
            Target::Special(_) => Ok(()),
        }
    }

    /// Returns the path of a special file, which is written directly. A program may have a handle of its own for it, as for
    /// `/dev/stdout`.
    #[must_use]
    pub fn special(&self) -> Option<&Path> {
        match &self.0 {
            Target::Named(_) => None,
            Target::Special(path) => Some(path),
        }
    }

    /// Returns whether a path leads to this file.
    #[must_use]
    pub fn is(&self, other: &Path) -> bool {
        match (&self.0, resolve(other)) {
            (Target::Named(this), Ok(Target::Named(other))) => *this == other,
            _ => false,
        }
    }

    /// Writes the file whole. One that is there is replaced once the new one is safe on the disk, and keeps its permissions;
    /// it stays as it is if anything fails.
    ///
    /// # Errors
    ///
    /// What `write` fails with, and those of [`create`](Self::create).
    pub fn replace<T>(&self, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let (mut file, unnamed) = self.create()?;
        let written = write(&mut file)?;
        unnamed.take_name_of_whole(&file)?;
        Ok(written)
    }

    /// Creates the file under a temporary name. It is locked until it is closed.
    ///
    /// ```
    /// use allotment_trace::output::OutputFile;
    /// use std::io::Write;
    ///
    /// # let path = std::env::temp_dir().join(format!("allotment-doc-create-{}.txt", std::process::id()));
    /// let (mut file, unnamed) = OutputFile::new(&path)?.create()?;
    /// file.write_all(b"its beginning")?; // what can fail comes before
    /// unnamed.take_name()?;
    /// file.write_all(b", and what follows")?; // others read it meanwhile
    /// assert_eq!(std::fs::read_to_string(&path)?, "its beginning, and what follows");
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ResourceBusy`] while a recording grows there; and those of the system, for a file that must not be
    /// written or a directory in which none may be created.
    pub fn create(&self) -> io::Result<(File, UnnamedFile)> {
        let to = match &self.0 {
            // Appended: `/dev/fd/3` may refer to a file that already has contents.
            Target::Special(path) => {
                let file = OpenOptions::new().append(true).open(path)?;
                return Ok((file, UnnamedFile { names: None, before: None }));
            }
            Target::Named(to) => to,
        };
        // A file without write permission must not be replaced either.
        let before = lock_at(to)?;
        let (file, temporary) = temporary_beside(to)?;
        let unnamed = UnnamedFile { names: Some((temporary, to.clone())), before };
        // Now, so that it is locked as soon as it has the name.
        if !try_lock(&file)? {
            return Err(is_busy());
        }
        if let Some(before) = &unnamed.before {
            file.set_permissions(before.metadata()?.permissions())?;
        }
        Ok((file, unnamed))
    }
}

impl UnnamedFile {
    /// Gives the file its name. One that had it is gone then.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ResourceBusy`] where a recording has begun under that name meanwhile, and those of the system. The file
    /// is removed, and the name is that of the file that had it.
    pub fn take_name(mut self) -> io::Result<()> {
        let Some((temporary, to)) = &self.names else { return Ok(()) };
        if self.before.is_none() {
            // Unlike a rename, this does not replace a file that another process has put there since.
            match fs::hard_link(temporary, to) {
                // The temporary name goes as this is dropped.
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => self.before = lock_at(to)?,
                // Not every file system has links.
                Err(_) => {}
            }
        }
        if cfg!(windows) {
            // An open file cannot be replaced there.
            self.before = None;
        }
        fs::rename(temporary, to)?;
        self.names = None;
        Ok(())
    }

    /// Gives the file its name, once all of it is on the disk.
    fn take_name_of_whole(self, file: &File) -> io::Result<()> {
        if self.names.is_some() {
            // Before the rename: otherwise a power loss could leave neither file.
            file.sync_all()?;
        }
        self.take_name()
    }
}

/// Writes a recording whole, as [`OutputFile::replace`] does.
pub(crate) fn replace_recording<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<T>,
) -> Result<T, RecordError> {
    let created = OutputFile::new(path).and_then(|output| output.create());
    let (mut file, unnamed) = created.map_err(|error| RecordError::create(path, error))?;
    let written = write(&mut file).and_then(|written| unnamed.take_name_of_whole(&file).map(|()| written));
    written.map_err(|error| RecordError::Write { path: path.to_owned(), error })
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.names {
            // A failure to remove it cannot be handled here.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn is_busy() -> io::Error {
    io::Error::new(ErrorKind::ResourceBusy, "a recording is being written there: finish that one first")
}

/// Opens the file at a path and locks it, without a change of it. `None` if there is none.
fn lock_at(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..MOST_TRIES {
        let file = match lockable().write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if is_sharing_violation(&error) => return Err(is_busy()),
            Err(error) => return Err(error),
        };
        if !try_lock(&file)? {
            return Err(is_busy());
        }
        if has_name(&file, path) {
            return Ok(Some(file));
        }
        // Another file has got the name between the two calls: it is that one which must not be lost.
    }
    Err(is_busy())
}

/// Creates a file in the same directory as another, since a rename works only within a file system. Its name is
/// independent of the other's, which may already have the greatest length.
fn temporary_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let folder = folder_of(target);
    let mut number = 0;
    loop {
        let path = folder.join(format!(".allotment-{}-{number}.tmp", std::process::id()));
        match lockable().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            // Another thread's, or left behind by a killed process with the same id.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MOST_TRIES => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Follows symbolic links, and returns how the file is written.
fn resolve(path: &Path) -> io::Result<Target> {
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        if is_special(&at) {
            return Ok(Target::Special(at));
        }
        match fs::symlink_metadata(&at) {
            Ok(metadata) if metadata.is_symlink() => {
                let link = fs::read_link(&at)?;
                at = folder_of(&at).join(link);
            }
            Ok(metadata) if metadata.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => return Ok(Target::Special(at)),
            Ok(_) => return Ok(Target::Named(in_its_folder(&at)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Target::Named(in_its_folder(&at)?));
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
    path.starts_with("/dev") && !path.starts_with("/dev/shm") || path.starts_with("/proc")
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
        None if path.as_os_str().is_empty() => {
            Err(io::Error::new(ErrorKind::InvalidInput, "its path is empty, name a file"))
        }
        _ => Err(ErrorKind::IsADirectory.into()),
    }
}

/// Returns how to open a file so that no second one is opened to write it, where the system does that.
fn lockable() -> OpenOptions {
    #[allow(unused_mut, reason = "on Windows it is changed")]
    let mut options = OpenOptions::new();
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        const FILE_SHARE_READ: u32 = 1;
        const FILE_SHARE_DELETE: u32 = 4;
        options.share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE);
    }
    options
}

fn is_sharing_violation(error: &io::Error) -> bool {
    const ERROR_SHARING_VIOLATION: i32 = 32;
    cfg!(windows) && error.raw_os_error() == Some(ERROR_SHARING_VIOLATION)
}

/// Locks a file as long as it is open. Returns false where another open file has the lock.
#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;
    for _ in 0..LOOKS_AT_A_LOCK {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            // A program that another thread starts has all open files of this one, and their locks, until it begins: also
            // those that are closed here meanwhile.
            Err(Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN_LOOKS),
            // The file system has no locks.
            Err(_) => return Ok(true),
        }
    }
    Ok(false)
}

/// As it was opened, it is locked.
#[cfg(not(unix))]
fn try_lock(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// Returns whether a path still leads to an open file.
#[cfg(unix)]
fn has_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let named = fs::metadata(path).map(identity);
    file.metadata().map(identity).is_ok_and(|open| named.is_ok_and(|named| named == open))
}

/// An open file keeps its name there.
#[cfg(not(unix))]
fn has_name(_: &File, _: &Path) -> bool {
    true
}

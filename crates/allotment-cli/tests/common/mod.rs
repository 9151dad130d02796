//! Runs the command as a process.

#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod defragmentation_page;
pub(crate) mod drivers;

use core::time::Duration;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{io, thread};

use serde_json::Value;
use tempfile::TempDir;

/// Runs the command in an empty directory.
pub(crate) fn allotment(folder: &TempDir, args: &[impl AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allotment-under-test"));
    command.args(args).current_dir(folder).env_remove("COLUMNS");
    started(|| command.output())
}

/// As [`allotment`], in a terminal of so many columns.
pub(crate) fn allotment_within(folder: &TempDir, args: &[impl AsRef<OsStr>], columns: u16) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allotment-under-test"));
    command.args(args).current_dir(folder).env("COLUMNS", columns.to_string());
    started(|| command.output())
}

/// Returns what `start` returns, a process or its output, and calls it again where Wine could not start one.
///
/// On a busy machine a process of Wine sometimes ends before it reaches its program. Wine then reports
/// `ERROR_INTERNAL_ERROR` from `CreateProcess`, which Windows itself does not return. No line of the command has
/// run by then, so another attempt hides nothing that the command does.
pub(crate) fn started<T>(mut start: impl FnMut() -> io::Result<T>) -> T {
    const ERROR_INTERNAL_ERROR: i32 = 1359;
    for _ in 0..4 {
        match start() {
            Err(error) if cfg!(windows) && error.raw_os_error() == Some(ERROR_INTERNAL_ERROR) => {
                thread::sleep(Duration::from_millis(200));
            }
            result => return result.unwrap(),
        }
    }
    start().unwrap()
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces").join(format!("{name}.csv.gz"))
}

pub(crate) fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON object and nothing else")
}

/// Returns the one line of a failure.
pub(crate) fn error_line(output: &Output) -> String {
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(errors.trim_end().lines().count(), 1, "one line: {errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(output.stdout.is_empty(), "nothing on standard output");
    errors
}

//! Runs the command as a process.

#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod defragmentation_page;
pub(crate) mod drivers;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Runs the command in an empty directory.
pub(crate) fn allotment(folder: &TempDir, args: &[impl AsRef<OsStr>]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_allotment")).args(args).current_dir(folder).output().unwrap()
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(format!("{name}.csv.gz"))
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

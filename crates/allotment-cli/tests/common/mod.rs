//! The command as a process, and what it says.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Runs the command in an empty folder.
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

/// The one line that a failure is told in.
pub(crate) fn complaint(output: &Output) -> String {
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(errors.trim_end().lines().count(), 1, "one line: {errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(output.stdout.is_empty(), "nothing on standard output");
    errors
}

/// The same arguments with those that choose the Vulkan device: the one that `ALLOTMENT_VULKAN` names by a
/// part of its name, else the best.
pub(crate) fn on_vulkan(args: &[&str]) -> Vec<String> {
    let mut args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    args.extend(["--device".to_owned(), "vulkan".to_owned()]);
    if let Ok(name) = std::env::var("ALLOTMENT_VULKAN") {
        args.extend(["--gpu".to_owned(), name]);
    }
    args
}

/// The same under the validation layer, unless `ALLOTMENT_VALIDATION` is `off`.
pub(crate) fn validated(args: &[&str]) -> Vec<String> {
    let mut args = on_vulkan(args);
    if std::env::var("ALLOTMENT_VALIDATION").as_deref() != Ok("off") {
        args.push("--validate".to_owned());
    }
    args
}

/// Whether there is a Vulkan device to test on, and the layer to watch it. Says so where there is not; fails
/// instead where `ALLOTMENT_REQUIRE` asks for it.
pub(crate) fn vulkan_is_here(test: &str) -> bool {
    let folder = folder();
    // A trace of nothing: the device is opened, with the layer if it is wanted.
    let trace = folder.path().join("nothing.csv");
    std::fs::write(&trace, "op,id,size,alignment,kind,name\n").unwrap();
    let output = allotment(&folder, &validated(&["replay", trace.to_str().unwrap(), "--bytes", "none"]));
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let missing = ["no Vulkan", "no such Vulkan", "find a Vulkan driver", "is not installed"];
    if output.status.success() || !missing.iter().any(|part| why.contains(part)) {
        return true;
    }
    let required = std::env::var("ALLOTMENT_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|kind| kind.trim() == "vulkan"), "vulkan is required: {why}");
    // Not by `eprintln!`, which nobody sees of a test that passes.
    let _ = writeln!(std::io::stderr(), "{test}: skipped: {why}");
    false
}

//! On success all output was written; on failure older files are unchanged.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::fs;
use std::process::{Command, Output, Stdio};

#[cfg(unix)]
use common::recorded;
use common::{allotment, error_line, folder, json, started};
use tempfile::TempDir;

/// A trace whose replay takes no time.
fn small(folder: &TempDir) -> String {
    let path = folder.path().join("small.csv");
    fs::write(&path, "op,id,size,alignment,kind,name\na,1,4096,16,buffer,128\nf,1,,,,\n").unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the names in the directory.
fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn refused(output: &Output, expected: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let line = error_line(output);
    assert!(line.contains(expected), "{line}");
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_a_full_disk_loses_is_a_failure() {
    let folder = folder();
    let trace = small(&folder);
    for args in [
        &["info", "--json"][..],
        &["info"],
        &["profiles"],
        &["profiles", "--json"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["--version"],
        &["replay", "--help"],
        &["replay", &trace],
        &["replay", &trace, "--json"],
        &["compare", &trace],
        &["compare", &trace, "--json"],
        &["defragment", &trace],
        &["defragment", &trace, "--json"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_allotment-under-test"));
        let child = command.args(args).current_dir(&folder).stdout(full).stderr(Stdio::piped()).spawn();
        let output = child.unwrap().wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        let expected = "allotment: cannot write to standard output: No space left on device";
        assert!(errors.starts_with(expected) && errors.lines().count() == 1, "{args:?}: {errors}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_failure_that_cannot_be_told_is_still_a_failure() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_allotment-under-test"));
    let status = command.args(["replay", "nowhere.csv"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    for args in [&["profiles"][..], &["profiles", "--json"], &["--help"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_allotment-under-test"));
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = started(|| command.spawn());
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[cfg(unix)]
#[test]
fn an_older_file_survives_a_write_that_fails() {
    let folder = folder();
    let trace = small(&folder);
    for (command, option) in [("replay", "--report"), ("replay", "--dump"), ("defragment", "--report")] {
        fs::write(folder.path().join("old"), "what was there").unwrap();
        // Files cannot grow beyond about one block; the writer gets an error.
        let limited = r#"trap "" XFSZ; ulimit -f 1; exec "$0" "$@""#;
        let mut args = vec![command, &trace, option, "old"];
        if option == "--dump" {
            args.extend(["--report", "/dev/null"]);
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", limited, env!("CARGO_BIN_EXE_allotment-under-test")])
            .args(args)
            .current_dir(&folder);
        refused(&shell.output().unwrap(), "cannot write old: File too large");
        assert_eq!(fs::read_to_string(folder.path().join("old")).unwrap(), "what was there");
        assert_eq!(names(&folder), ["old", "small.csv"], "no temporary file is left");
    }
}

#[test]
fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
    let folder = folder();
    let trace = small(&folder);
    fs::write(folder.path().join("page.html"), "x".repeat(1 << 20)).unwrap();
    for command in ["replay", "defragment"] {
        json(&allotment(&folder, &[command, &trace, "--json", "--report", "page.html"]));
        let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
        assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
        assert!(page.trim_end().ends_with("</html>"), "nothing of the older file is left");
        assert_eq!(names(&folder), ["page.html", "small.csv"]);
    }
}

#[test]
fn a_path_that_cannot_be_written_is_told_before_the_trace_is_read() {
    let folder = folder();
    fs::create_dir(folder.path().join("folder")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let long = "x".repeat(300);
    for (path, expected) in [
        ("no/such/folder/page.html", "cannot write no/such/folder/page.html: its directory does not exist"),
        ("folder", "cannot write folder: it is a directory, not a file"),
        ("new/", "cannot write new/: it is a directory, not a file"),
        (".", "cannot write .: it is a directory, not a file"),
        ("file/page.html", "cannot write file/page.html: "),
        (&long, "cannot write xxx"),
    ] {
        for args in [
            &["replay", "nowhere.csv", "--report", path][..],
            &["replay", "nowhere.csv", "--dump", path],
            &["defragment", "nowhere.csv", "--report", path],
        ] {
            refused(&allotment(&folder, args), expected);
        }
    }
    assert_eq!(names(&folder), ["file", "folder"]);
    if cfg!(target_os = "linux") {
        // A directory in which even root cannot create files.
        refused(
            &allotment(&folder, &["replay", "nowhere.csv", "--report", "/sys/page.html"]),
            "cannot write /sys/",
        );
    }
}

#[test]
fn the_trace_is_not_written_over_and_two_outputs_are_two_files() {
    let folder = folder();
    let trace = small(&folder);
    let before = fs::read(&trace).unwrap();
    for args in [
        &["replay", &trace, "--report", "./small.csv"][..],
        &["replay", &trace, "--dump", "small.csv"],
        &["replay", &trace, "--dump", "same", "--report", "./same"],
        &["defragment", &trace, "--report", "small.csv"],
    ] {
        let output = allotment(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        error_line(&output);
    }
    assert_eq!(fs::read(&trace).unwrap(), before);
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay_as_they_are() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder();
    let trace = small(&folder);
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("there")).unwrap();
    fs::write(at("there/page.html"), "old").unwrap();
    fs::set_permissions(at("there/page.html"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("there/page.html", at("link")).unwrap();
    symlink("there/new.html", at("dangling")).unwrap();
    for (link, file) in [("link", "there/page.html"), ("dangling", "there/new.html")] {
        json(&allotment(&folder, &["replay", &trace, "--json", "--report", link]));
        assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
        assert!(fs::read_to_string(at(file)).unwrap().contains("</html>"), "{file}");
    }
    let mode = fs::metadata(at("there/page.html")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    symlink("round", at("round")).unwrap();
    refused(&allotment(&folder, &["replay", &trace, "--report", "round"]), "symbolic links");
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_written_directly() {
    let folder = folder();
    let trace = small(&folder);
    json(&allotment(&folder, &["replay", &trace, "--json", "--report", "/dev/null"]));
    let output = allotment(&folder, &["replay", &trace, "--report", "/dev/stdout"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (page, rest) = text.split_once("</html>").unwrap();
    assert!(page.contains("small") && rest.contains("Peak live"), "{rest}");
    if cfg!(target_os = "linux") {
        refused(
            &allotment(&folder, &["replay", &trace, "--report", "/dev/full"]),
            "cannot write /dev/full: No space left on device",
        );
    }
    assert!(Command::new("mkfifo").arg(folder.path().join("fifo")).status().unwrap().success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_allotment-under-test"))
        .args(["replay", &trace, "--json", "--report", "fifo"])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let page = fs::read_to_string(folder.path().join("fifo")).unwrap();
    assert!(child.wait().unwrap().success() && page.contains("</html>"));
    assert_eq!(names(&folder), ["fifo", "small.csv"]);
    // A file that standard output is redirected to is not overwritten.
    let file = fs::File::create(folder.path().join("both")).unwrap();
    let args =
        ["replay", recorded("supertuxkart-race").to_str().unwrap(), "--bytes", "none"].map(str::to_owned);
    let mut command = Command::new(env!("CARGO_BIN_EXE_allotment-under-test"));
    let status = command.args(args).args(["--report", "/dev/stdout"]).stdout(file).status().unwrap();
    let text = fs::read_to_string(folder.path().join("both")).unwrap();
    assert!(status.success() && text.contains("</html>") && text.contains("Peak reserved"));
}

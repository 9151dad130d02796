//! What of a file was not read: a line of each text, and a list in each JSON output.

use std::io::{Write, stderr};

use allotment_trace::recording::Unread;
use serde::Serialize;

use super::columns::say_wrapped;
use super::table::shown;
use crate::failure::Failure;

/// Prints a line for each thing that was not read, after the first line of a text.
pub(super) fn say_unread(unread: &[Unread]) {
    for it in unread {
        say_wrapped(&line(it));
    }
}

/// Tells it on standard error, where standard output is the file itself.
pub(super) fn warn_unread(unread: &[Unread]) {
    for it in unread {
        // Not `eprintln!`, which panics if standard error cannot be written.
        let _ = writeln!(stderr(), "allotment: {}", line(it));
    }
}

fn line(it: &Unread) -> String {
    format!("not read: {}", shown(&it.to_string()))
}

/// Prints an object, with what was not read as its last member.
pub(super) fn say_json(unread: &[Unread], object: &impl Serialize) -> Result<(), Failure> {
    let unread = unread.iter().map(|it| UnreadJson { kind: it.kind.name(), count: it.count, text: &it.text });
    say!("{}", serde_json::to_string(&WithUnread { object, unread: unread.collect() })?);
    Ok(())
}

#[derive(Serialize)]
struct WithUnread<'a, T> {
    #[serde(flatten)]
    object: &'a T,
    unread: Vec<UnreadJson<'a>>,
}

#[derive(Serialize)]
struct UnreadJson<'a> {
    kind: &'static str,
    count: u64,
    text: &'a str,
}

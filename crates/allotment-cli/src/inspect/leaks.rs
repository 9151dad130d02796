//! `allotment leaks`: allocations that still exist at a moment, by what made them.

use allotment_analyze::{Cursor, Leaks};
use serde::Serialize;

use super::args::LeaksArgs;
use super::groups::{self, GroupJson};
use super::json::MomentJson;
use super::load::{index, load, need_history};
use super::table::{self, shown};
use super::unread::{say_json, say_unread};
use super::when::words;
use crate::failure::Failure;

pub(crate) fn run(args: &LeaksArgs) -> Result<(), Failure> {
    let loaded = load(&args.shown.file)?;
    need_history(&loaded, "what was never freed")?;
    let timeline = index(&loaded);
    let cursor = Cursor::at(&timeline, args.shown.at.position(&timeline)?);
    let since = args.since.as_ref().map(|since| since.position(&timeline)).transpose()?;
    let leaks = Leaks::since(&cursor, args.by.grouping(), since.unwrap_or(0));
    if args.shown.json {
        let groups = groups::json(&leaks.groups, &timeline, leaks.at);
        let leaks = LeaksJson {
            file: &loaded.title,
            at: MomentJson::of(&timeline, leaks.at),
            since: since.unwrap_or(0),
            count: leaks.count,
            bytes: leaks.bytes,
            library_count: leaks.library_count,
            library_bytes: leaks.library_bytes,
            groups,
        };
        return say_json(&timeline.unread(), &leaks);
    }
    say!("{} at {}", shown(&loaded.title), words(&timeline, leaks.at));
    say_unread(&timeline.unread());
    table::print(&leaks.table(&timeline, args.by.grouping()));
    Ok(())
}

/// The JSON output.
#[derive(Serialize)]
struct LeaksJson<'a> {
    file: &'a str,
    at: Option<MomentJson>,
    since: u64,
    count: u64,
    bytes: u64,
    library_count: u64,
    library_bytes: u64,
    groups: Vec<GroupJson<'a>>,
}

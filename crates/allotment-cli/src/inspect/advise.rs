//! `allotment advise`: what could be better, with the numbers behind it.

use allotment_analyze::{AdviceThresholds, Cursor, advice};
use serde::Serialize;

use super::args::AdviseArgs;
use super::columns::say_wrapped;
use super::json::MomentJson;
use super::load::{index, load};
use super::table::shown;
use super::unread::{say_json, say_unread};
use super::when::words;
use crate::failure::Failure;

pub(crate) fn run(args: &AdviseArgs) -> Result<(), Failure> {
    let loaded = load(&args.shown.file)?;
    let timeline = index(&loaded);
    let cursor = Cursor::at(&timeline, args.shown.at.position(&timeline)?);
    let advice = advice(&cursor, &AdviceThresholds::default());
    if args.shown.json {
        let advice = advice
            .iter()
            .map(|it| ItemJson { text: it.sentence(&timeline), bytes: it.bytes(), call_site: it.call_site() })
            .collect();
        let advice =
            AdviceJson { file: &loaded.title, at: MomentJson::of(&timeline, cursor.moment()), advice };
        return say_json(&timeline.unread(), &advice);
    }
    say!("{} at {}", shown(&loaded.title), words(&timeline, cursor.moment()));
    say_unread(&timeline.unread());
    if advice.is_empty() {
        say!("Nothing stands out.");
    }
    for it in &advice {
        say_wrapped(&format!("- {}", shown(&it.sentence(&timeline))));
    }
    Ok(())
}

/// The JSON output.
#[derive(Serialize)]
struct AdviceJson<'a> {
    file: &'a str,
    at: Option<MomentJson>,
    advice: Vec<ItemJson<'a>>,
}

#[derive(Serialize)]
struct ItemJson<'a> {
    text: String,
    /// Bytes that it is about.
    bytes: u64,
    /// The call site that it names, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_site: Option<&'a str>,
}

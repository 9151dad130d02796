//! The call stacks, as columns of the page: the tree of calls as it was recorded, each function and place once.
//! `assets/calls.js` reads them.

use std::collections::HashMap;
use std::io::{self, Write};

use allotment::AllocationOptions;
use allotment_analyze::Call;
use allotment_trace::recording::{CallRole, Recording, TextId};

use crate::columns::ColumnWriter;
use crate::lives::RangeLife;
use crate::payload::text;

/// Writes the calls, and the stack of each range.
pub(crate) fn write<W: Write>(
    recording: &Recording,
    ranges: &[RangeLife],
    out: &mut ColumnWriter<W>,
) -> io::Result<()> {
    let stacks = &recording.stacks;
    let words = |text: TextId| recording.text(text).unwrap_or("");
    let mut names: Vec<Call> = Vec::new();
    let mut known = HashMap::new();
    let numbers: Vec<_> = stacks
        .frames()
        .iter()
        .map(|frame| {
            let call = Call::from(frame);
            *known.entry(call).or_insert_with(|| {
                names.push(call);
                names.len() as u64 - 1
            })
        })
        .collect();
    // How many calls before it the caller is: most often 1. Of the outermost 0.
    let before = |(index, parent): (usize, u64)| if parent == 0 { 0 } else { index as u64 + 1 - parent };
    let parents = stacks.frames().iter().map(|frame| u64::from(frame.parent.0));
    out.plain("call.before", parents.enumerate().map(before))?;
    out.plain("call.name", numbers)?;
    out.texts("callname.label", names.iter().map(|call| call.label(words)).collect::<Vec<_>>())?;
    out.plain("callname.function", names.iter().map(|call| text(call.function)))?;
    out.plain("callname.place", names.iter().map(|call| text(call.place)))?;
    let role = |call: &Call| CallRole::of(words(call.function), words(call.place));
    out.plain("callname.folded", names.iter().map(|call| (role(call) == CallRole::Machinery).into()))?;
    out.texts("call.unknown", [Call::UNKNOWN])?;
    out.texts("library.category", [AllocationOptions::LIBRARY_CATEGORY])?;
    let stack =
        |range: &RangeLife| if range.stack.0 as usize > stacks.len() { 0 } else { range.stack.0.into() };
    out.plain("range.stack", ranges.iter().map(stack))
}

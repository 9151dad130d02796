//! The traffic format of this crate: what the program requested, without where it was placed.
//!
//! Frees are written where the memory became free, not where the program released it. What the library did by itself, a
//! destination of a move, is left out. Where events were lost, all that was live is freed, and what the recording then
//! says exists is allocated anew.

use core::fmt::{self, Write as _};
use std::collections::{BTreeMap, HashMap};
use std::io;

use allotment::ResourceKind;

use super::text::{Field, Text};
use super::{Export, is_reservation};
use crate::recording::{Allocated, AllocationKey, Api, Event, Library, State};
use crate::{HEADER, MAX_ALIGNMENT, MAX_SIZE, usage_flags};

/// Bytes of a name that are written: doubled quotation marks and the other fields fit a line with it.
const MAX_NAME_BYTES: usize = 16 << 10;

pub(super) fn write(export: Export<'_>, out: &mut impl io::Write) -> io::Result<()> {
    let mut refused = None;
    let result = Text::new(out).with(|text| write_lines(&export, text, &mut refused));
    match refused {
        Some(reason) => Err(io::Error::new(io::ErrorKind::InvalidData, reason)),
        None => result,
    }
}

/// An allocation that was written.
struct Written {
    id: u64,
    size: u64,
}

fn write_lines<W: io::Write>(
    export: &Export<'_>,
    out: &mut Text<'_, W>,
    refused: &mut Option<String>,
) -> fmt::Result {
    let mut state = State::default();
    let mut live: HashMap<AllocationKey, Written> = HashMap::new();
    let (mut next_id, mut live_bytes) = (0_u64, 0_u64);
    writeln!(out, "{HEADER}")?;
    for (index, event) in export.events.iter().enumerate() {
        if state.apply(event).is_err() {
            continue;
        }
        match *event {
            Event::FrameEnd { .. } => writeln!(out, "m,,,,,")?,
            Event::Allocated(is) => {
                if is_reservation(export.events, index, &is) {
                    continue;
                }
                // The format has no resources of 0 bytes, and neither have graphics APIs.
                let (size, alignment) = (is.requested.max(1), is.alignment.get());
                let bytes = live_bytes.checked_add(size);
                let (Some(bytes), ..=MAX_SIZE, ..=MAX_ALIGNMENT) = (bytes, size, alignment) else {
                    *refused = Some(format!(
                        "event {index}: {size} bytes aligned to {alignment}, with {live_bytes} live, are more than \
                         a trace can have"
                    ));
                    return Err(fmt::Error);
                };
                live_bytes = bytes;
                let kind = match is.kind {
                    ResourceKind::LinearImage | ResourceKind::OptimalImage => "image",
                    ResourceKind::Buffer | ResourceKind::Unknown => "buffer",
                };
                let text = |text| export.recording.text(text).unwrap_or_default();
                let usage = usage(export, &is);
                let name = usage.map_or_else(|| name(text(is.name)), |flags| flags.to_string());
                writeln!(out, "a,{next_id},{size},{alignment},{kind},{}", Field(&name))?;
                live.insert(is.allocation, Written { id: next_id, size });
                next_id += 1;
            }
            Event::Freed { allocation } | Event::Reserved { reservation: allocation, .. } => {
                if let Some(Written { id, size }) = live.remove(&allocation) {
                    live_bytes -= size;
                    writeln!(out, "f,{id},,,,")?;
                }
            }
            Event::Lost => {
                let ended: BTreeMap<_, _> = live.drain().map(|(_, written)| (written.id, ())).collect();
                ended.into_keys().try_for_each(|id| writeln!(out, "f,{id},,,,"))?;
                live_bytes = 0;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the usage flags of a buffer whose recording has them in words: by the number, a replay chooses its memory.
fn usage(export: &Export<'_>, is: &Allocated) -> Option<u32> {
    let (recording, header) = (export.recording, &export.recording.header);
    let text = |text| usage_flags::from_text(header.api, is.kind, recording.text(text)?);
    let has_words = header.api == Api::Vulkan && header.library != Library::Allotment;
    let flags = || text(is.name).or_else(|| text(is.category));
    let flags = if has_words && is.kind == ResourceKind::Buffer { flags()? } else { return None };
    u32::try_from(flags).ok()
}

/// Returns a name as the format has it: in one line, of limited length, and no number that it would take for more usage
/// flags than there are.
fn name(text: &str) -> String {
    let mut end = text.len().min(MAX_NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let name = text[..end].replace('\n', " ");
    let number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if number && name.parse::<u32>().is_err() { format!("_{name}") } else { name }
}

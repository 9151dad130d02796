//! Parses lines into a checked trace.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;

use crate::error::{TraceError, TraceErrorKind, excerpt};
use crate::event::{Event, Op};
use crate::fields::{Column, Fields};
use crate::format;
use crate::resource::{Resource, ResourceIndex, ResourceKind};
use crate::text::Text;
use crate::trace::Trace;

/// The largest size of a resource, in bytes: 2^48.
///
/// No GPU addresses more, and a replayer can add thousands of such numbers in a `u64`.
pub const MAX_SIZE: u64 = 1 << 48;

/// The largest alignment of a resource, in bytes: 2^48.
pub const MAX_ALIGNMENT: u64 = 1 << 48;

/// Reads a whole trace, of at most `limit` bytes of text.
pub(crate) fn read(source: &mut dyn Read, limit: u64) -> Result<Trace, TraceError> {
    let mut text = Text::new(source, limit)?;

    let first = match text.next_line() {
        Err(error) if matches!(error.kind(), TraceErrorKind::LineTooLong | TraceErrorKind::NotUtf8) => {
            return Err(other_format(text.line_bytes()).unwrap_or(error));
        }
        first => first?,
    };
    let Some((line, header)) = first else {
        return Err(TraceError::new(None, TraceErrorKind::Empty));
    };
    if !Fields::split(header).is_ok_and(|fields| fields.are_header()) {
        if let Some(error) = other_format(header.as_bytes()) {
            return Err(error);
        }
        return Err(TraceError::new(Some(line), TraceErrorKind::Header { found: excerpt(header) }));
    }

    let mut builder = Builder::default();
    while let Some((line, event)) = text.next_line()? {
        Fields::split(event)
            .and_then(|fields| builder.push(line, &fields))
            .map_err(|kind| TraceError::new(Some(line), kind))?;
    }
    Ok(builder.finish())
}

/// Returns the error for text that begins like a known other format.
fn other_format(start: &[u8]) -> Option<TraceError> {
    format::seen(start).map(|format| TraceError::new(None, TraceErrorKind::OtherFormat { format }))
}

/// The part of a trace that has been read so far.
#[derive(Default)]
struct Builder {
    resources: Vec<Resource>,
    events: Vec<Event>,
    /// Same length and order as `resources`.
    lines: Vec<Lines>,
    /// Every id seen so far. Deliberately with the default hasher: ids come from a file, which could make all of
    /// them collide under a faster one.
    by_id: HashMap<u64, ResourceIndex>,
    frames: usize,
    /// The sum of the sizes of all resources without a `freed` line.
    live_bytes: u64,
    peak_live_bytes: u64,
}

/// Where a resource was allocated and freed.
struct Lines {
    allocated: u64,
    freed: Option<u64>,
}

impl Builder {
    fn push(&mut self, line: u64, fields: &Fields<'_>) -> Result<(), TraceErrorKind> {
        let op = match fields.get(Column::Op) {
            "a" => self.allocate(line, fields)?,
            "f" => {
                require_empty(fields, 'f', &[Column::Size, Column::Alignment, Column::Kind, Column::Name])?;
                self.free(line, fields)?
            }
            "m" => {
                require_empty(fields, 'm', &Column::ALL[1..])?;
                self.frames += 1;
                Op::FrameEnd
            }
            other => return Err(TraceErrorKind::UnknownOp { op: excerpt(other) }),
        };
        self.events.push(Event { line, op });
        Ok(())
    }

    fn allocate(&mut self, line: u64, fields: &Fields<'_>) -> Result<Op, TraceErrorKind> {
        let id = number(fields, Column::Id, u64::MAX)?;
        let size = number(fields, Column::Size, MAX_SIZE)?;
        if size == 0 {
            return Err(TraceErrorKind::ZeroSize);
        }
        let alignment = number(fields, Column::Alignment, MAX_ALIGNMENT)?;
        if !alignment.is_power_of_two() {
            return Err(TraceErrorKind::AlignmentNotPowerOfTwo { alignment });
        }
        let kind = match fields.get(Column::Kind) {
            "buffer" => ResourceKind::Buffer { usage: usage(fields)? },
            "image" => ResourceKind::Image,
            other => return Err(TraceErrorKind::UnknownKind { kind: excerpt(other) }),
        };

        let Ok(index) = u32::try_from(self.resources.len()) else {
            // Cannot happen within the limit on the text: 2^32 lines of this kind do not fit into it.
            return Err(TraceErrorKind::TooManyResources);
        };
        let index = ResourceIndex::new(index);
        match self.by_id.entry(id) {
            Entry::Occupied(first) => {
                let first = self.lines[first.get().as_usize()].allocated;
                return Err(TraceErrorKind::IdReused { id, first });
            }
            Entry::Vacant(place) => {
                // Checked before anything is stored, so that an error needs no rollback.
                self.live_bytes =
                    self.live_bytes.checked_add(size).ok_or(TraceErrorKind::TooManyLiveBytes)?;
                place.insert(index);
            }
        }
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        self.resources.push(Resource { id, size, alignment, kind, name: fields.get(Column::Name).into() });
        self.lines.push(Lines { allocated: line, freed: None });
        Ok(Op::Allocate(index))
    }

    fn free(&mut self, line: u64, fields: &Fields<'_>) -> Result<Op, TraceErrorKind> {
        let id = number(fields, Column::Id, u64::MAX)?;
        let Some(&index) = self.by_id.get(&id) else {
            return Err(TraceErrorKind::FreeOfUnknown { id });
        };
        let freed = &mut self.lines[index.as_usize()].freed;
        if let Some(first) = *freed {
            return Err(TraceErrorKind::FreedTwice { id, first });
        }
        *freed = Some(line);
        // No underflow: the size was added by the allocation, and is subtracted only here, once.
        self.live_bytes -= self.resources[index.as_usize()].size;
        Ok(Op::Free(index))
    }

    fn finish(mut self) -> Trace {
        self.resources.shrink_to_fit();
        self.events.shrink_to_fit();
        // `u32` holds every index, or `allocate` would have refused it.
        let live_at_end = (0u32..)
            .zip(&self.lines)
            .filter(|(_, lines)| lines.freed.is_none())
            .map(|(index, _)| ResourceIndex::new(index))
            .collect();
        Trace {
            resources: self.resources,
            events: self.events,
            live_at_end,
            frames: self.frames,
            peak_live_bytes: self.peak_live_bytes,
        }
    }
}

/// Checks that fields without use for an op are empty: the writer of such a field meant something that would be
/// lost.
fn require_empty(fields: &Fields<'_>, op: char, columns: &[Column]) -> Result<(), TraceErrorKind> {
    for &column in columns {
        let text = fields.get(column);
        if !text.is_empty() {
            return Err(TraceErrorKind::UnusedField { op, column, text: excerpt(text) });
        }
    }
    Ok(())
}

/// Parses the number in a column, at most `max`.
fn number(fields: &Fields<'_>, column: Column, max: u64) -> Result<u64, TraceErrorKind> {
    let text = fields.get(column);
    if !is_number(text) {
        return Err(TraceErrorKind::NotANumber { column, text: excerpt(text) });
    }
    match text.parse() {
        Ok(number) if number <= max => Ok(number),
        // All digits but no `u64`: the number is too large.
        _ => Err(TraceErrorKind::NumberTooLarge { column, text: excerpt(text), max }),
    }
}

/// Parses the usage flags of a buffer from its name, which may also be empty or plain text.
fn usage(fields: &Fields<'_>) -> Result<Option<u32>, TraceErrorKind> {
    let name = fields.get(Column::Name);
    if !is_number(name) {
        return Ok(None);
    }
    // A number with more bits is an error rather than a plain name: flags would be lost.
    match name.parse() {
        Ok(usage) => Ok(Some(usage)),
        Err(_) => Err(TraceErrorKind::NumberTooLarge {
            column: Column::Name,
            text: excerpt(name),
            max: u32::MAX.into(),
        }),
    }
}

/// Returns whether the text is digits only. `str::parse` also accepts a leading plus, which no writer of this
/// format emits.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;

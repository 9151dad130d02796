//! A state as chunks: the steps that lead to it, each with its moment.
//!
//! A large state has several chunks, its *parts*. Each part has a context of its own, as every chunk does.

use allotment::events::{BlockId, Event, StackId, TextId};

use super::bytes::{Input, Wrong, put_difference, put_number};
use super::chunk::Start;
use super::decode::{Decoder, Record};
use super::encode::Encoder;
use super::kind;
use crate::recording::{Moment, State, Step};

/// The first part of a snapshot.
pub(super) const FIRST: u8 = 1;
/// The last part of a snapshot.
pub(super) const LAST: u8 = 1 << 1;

/// How long a part's records grow before the next part begins.
const PART_BYTES: usize = 1 << 20;

/// Calls `emit` with the payload of each part, and whether it is the first.
pub(super) fn write<E>(
    state: &State,
    encoder: &mut Encoder,
    mut visit: impl FnMut(&Step),
    mut emit: impl FnMut(&[u8], bool, Start) -> Result<(), E>,
) -> Result<(), E> {
    let start = Start { moment: state.now, events: state.allocations.len() as u64 };
    let mut payload = Vec::new();
    let mut first = FIRST;
    let mut result = Ok(());
    let mut flush = |records: &[u8], last: u8| {
        payload.clear();
        payload.push(first | last);
        start.put(&mut payload);
        payload.extend_from_slice(records);
        let result = emit(&payload, first == FIRST, start);
        first = 0;
        result
    };
    encoder.begin();
    let mut at = state.now;
    state.for_each_step(|moment, step| {
        if result.is_err() {
            return;
        }
        if encoder.out.len() >= PART_BYTES {
            result = flush(&encoder.out, 0);
            encoder.begin();
            at = state.now;
        }
        if moment != at {
            encoder.other(kind::MOMENT, |out| {
                put_difference(out, at.event, moment.event);
                put_difference(out, at.frame, moment.frame);
                put_difference(out, at.nanoseconds, moment.nanoseconds);
            });
            at = moment;
        }
        visit(&step);
        match step {
            Step::Event(event) => {
                encoder.event(&event);
            }
            Step::EmptySince(block) => encoder.other(kind::EMPTY_SINCE, |out| put_number(out, block.0)),
        }
    });
    result.and_then(|()| flush(&encoder.out, LAST))
}

/// A snapshot that is being read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    state: State,
    /// A first part was there, and no last one yet.
    open: bool,
    /// What the parts until now have, each of which takes memory.
    count: usize,
}

impl Reading {
    /// Adds a part. Returns the state after the last one. At most `max` pools, blocks, allocations and so on in all.
    pub(super) fn part(&mut self, payload: &[u8], max: usize) -> Result<Option<State>, Wrong> {
        self.part_with(payload, max, |text| text, |stack| stack)
    }

    /// Adds a part, with other numbers for its texts and its stacks.
    pub(super) fn part_with(
        &mut self,
        payload: &[u8],
        max: usize,
        text: impl Fn(TextId) -> TextId,
        stack: impl Fn(StackId) -> StackId,
    ) -> Result<Option<State>, Wrong> {
        let mut input = Input::new(payload);
        let flags = input.byte()?;
        if flags & FIRST != 0 {
            *self = Self { open: true, ..Self::default() };
        }
        if !self.open {
            return Err("a snapshot has no first part");
        }
        let now = Start::read(&mut input)?.moment;
        let mut at = now;
        let mut decoder = Decoder::new(input);
        while let Some(record) = decoder.next()? {
            let step = match record {
                Record::Event(event) => Step::Event(event.map_texts(&text).map_stack(&stack)),
                Record::Other { kind: kind::MOMENT, payload } => {
                    at = difference(at, payload)?;
                    continue;
                }
                Record::Other { kind: kind::EMPTY_SINCE, mut payload } => {
                    Step::EmptySince(BlockId(payload.number()?))
                }
                Record::Other { .. } => continue,
            };
            self.count += usize::from(!is_of_allocation(&step));
            self.state.take_step(at, step)?;
            if self.count > max {
                return Err("a snapshot has more blocks, allocations and so on than the limit of events");
            }
        }
        self.state.now = now;
        if flags & LAST == 0 {
            return Ok(None);
        }
        self.open = false;
        Ok(Some(core::mem::take(&mut self.state)))
    }
}

/// Returns true for the steps that add to an allocation or a block which has been counted.
const fn is_of_allocation(step: &Step) -> bool {
    matches!(
        step,
        Step::EmptySince(_)
            | Step::Event(
                Event::Requested { .. }
                    | Event::CallSite { .. }
                    | Event::Stack { .. }
                    | Event::Mapped { .. }
                    | Event::Reserved { .. }
                    | Event::FreeRequested { .. }
            )
    )
}

fn difference(from: Moment, mut payload: Input<'_>) -> Result<Moment, Wrong> {
    Ok(Moment {
        event: payload.difference(from.event)?,
        frame: payload.difference(from.frame)?,
        nanoseconds: payload.difference(from.nanoseconds)?,
    })
}

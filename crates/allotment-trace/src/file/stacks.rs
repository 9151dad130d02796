//! The call stacks of a recording: each distinct call has one number.

use allotment::events::{StackId, TextId};

use super::bytes::{Input, Wrong, put_difference, put_number};
use super::error::DamageKind;
use crate::recording::{StackFrame, StackNumbers, Stacks};

/// How long a payload grows before the next one begins.
const PAYLOAD_BYTES: usize = 1 << 20;

/// Numbers calls while a recording is written. They are never forgotten: a program has few different ones.
#[derive(Debug, Default)]
pub(super) struct WrittenStacks {
    stacks: Stacks,
    numbers: StackNumbers,
    /// How many calls have been written out.
    written: usize,
}

impl WrittenStacks {
    pub(super) fn number(&mut self, frame: StackFrame) -> StackId {
        self.numbers.number(frame, &mut self.stacks)
    }

    pub(super) fn frames(&self) -> &[StackFrame] {
        self.stacks.frames()
    }

    /// Calls `emit` with payloads of all calls that have not been written out.
    pub(super) fn write_new<E>(&mut self, emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let from = core::mem::replace(&mut self.written, self.stacks.len());
        self.write(from, emit)
    }

    /// As [`write_new`](Self::write_new), and they are new still.
    pub(super) fn write_unwritten<E>(&self, emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.write(self.written, emit)
    }

    /// Calls `emit` with payloads of all calls.
    pub(super) fn write_all<E>(&self, emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.write(0, emit)
    }

    fn write<E>(&self, from: usize, mut emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut payload = Vec::new();
        let mut last = StackFrame::default();
        for (number, frame) in self.stacks.frames().iter().enumerate().skip(from).map(|(i, it)| (i + 1, it)) {
            if payload.is_empty() {
                put_number(&mut payload, number as u64);
                last = StackFrame::default();
            }
            // Most often the call before: a stack that is new is written from the outermost new call in.
            let before = if frame.parent.is_none() { 0 } else { number as u64 - u64::from(frame.parent.0) };
            put_number(&mut payload, before);
            put_difference(&mut payload, last.function.0.into(), frame.function.0.into());
            put_difference(&mut payload, last.place.0.into(), frame.place.0.into());
            last = *frame;
            if payload.len() >= PAYLOAD_BYTES {
                emit(&payload)?;
                payload.clear();
            }
        }
        if payload.is_empty() { Ok(()) } else { emit(&payload) }
    }
}

/// Reads the calls of a payload. Calls `add` with each and with its number; `count` are known before them.
pub(super) fn read(
    payload: &[u8],
    count: usize,
    mut add: impl FnMut(StackFrame) -> bool,
) -> Result<(), DamageKind> {
    let mut read = || -> Result<(), Wrong> {
        let mut input = Input::new(payload);
        if input.number()? != count as u64 + 1 {
            return Err("calls are missing before these");
        }
        let mut number = count as u64 + 1;
        let mut last = StackFrame::default();
        while !input.is_empty() {
            let parent = match input.number()? {
                0 => 0,
                before => number.checked_sub(before).filter(|&it| it > 0).ok_or("a call has no caller")?,
            };
            let frame = StackFrame {
                parent: StackId(u32::try_from(parent).map_err(|_| "a call has no caller")?),
                function: text(&mut input, last.function)?,
                place: text(&mut input, last.place)?,
            };
            if !add(frame) {
                return Err("there are more calls, or deeper stacks, than a recording may have");
            }
            last = frame;
            number += 1;
        }
        Ok(())
    };
    read().map_err(DamageKind::Contents)
}

fn text(input: &mut Input<'_>, last: TextId) -> Result<TextId, Wrong> {
    let number = input.difference(last.0.into())?;
    u32::try_from(number).map(TextId).map_err(|_| "a call names a text that cannot be")
}

/// The stacks of a stream, with other numbers here than there: after a restart all come again.
#[derive(Debug, Default)]
pub(super) struct StreamStacks {
    pub(super) stacks: Stacks,
    numbers: StackNumbers,
    /// The number here of each call of the stream, by its number there less one.
    numbers_here: Vec<StackId>,
}

impl StreamStacks {
    /// Returns the stack here of one of the stream. Of one that it lacks, none.
    pub(super) fn number(&self, stack: StackId) -> StackId {
        let index = (stack.0 as usize).checked_sub(1);
        index.and_then(|index| self.numbers_here.get(index)).copied().unwrap_or(StackId::NONE)
    }

    /// Forgets the numbers of the stream; its stacks come again.
    pub(super) fn forget_numbers(&mut self) {
        self.numbers_here.clear();
    }

    pub(super) fn read(&mut self, payload: &[u8], text: impl Fn(TextId) -> TextId) -> Result<(), DamageKind> {
        read(payload, self.numbers_here.len(), |frame| {
            let frame = StackFrame {
                parent: self.number(frame.parent),
                function: text(frame.function),
                place: text(frame.place),
            };
            self.numbers_here.push(self.numbers.number(frame, &mut self.stacks));
            self.numbers_here.len() <= Stacks::MAX_CALLS
        })
    }
}

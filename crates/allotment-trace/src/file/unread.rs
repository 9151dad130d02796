//! What was not read of the file that a recording was made from.

use super::bytes::{Input, Wrong, put_number, put_text};
use super::codes;
use super::texts::{MAX_TEXT_BYTES, cut};
use crate::recording::Unread;

/// The most of them. Importers merge what is alike.
const MAX_COUNT: usize = 1024;

/// Returns the payload of their chunk.
pub(super) fn payload(all: &[Unread]) -> Vec<u8> {
    let mut out = Vec::new();
    for unread in &all[..all.len().min(MAX_COUNT)] {
        out.push(codes::of_unread(unread.kind));
        put_number(&mut out, unread.count);
        put_text(&mut out, cut(&unread.text, MAX_TEXT_BYTES));
    }
    out
}

/// Adds those of a chunk to `all`.
pub(super) fn read(payload: &[u8], all: &mut Vec<Unread>) -> Result<(), Wrong> {
    let mut input = Input::new(payload);
    while !input.is_empty() {
        if all.len() == MAX_COUNT {
            return Err("it says of more than 1024 things that they were not read");
        }
        let kind = codes::unread(input.byte()?);
        all.push(Unread { kind, count: input.number()?.max(1), text: input.text()?.to_owned() });
    }
    Ok(())
}

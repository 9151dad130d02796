//! A new allocator that is filled, and then emptied: blocks, tables and lists are made on the way.

use crate::clock::thread_cpu_time;
use crate::contender::Contender;
use crate::device::sequence::Sequence;
use crate::failure::Failure;

/// Nanoseconds for each allocation of a fill, and for each free after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cold {
    pub(crate) fill: f64,
    pub(crate) clear: f64,
}

/// Fills a new contender with the live set of a sequence, and empties it.
pub(crate) fn fill_and_clear<C: Contender>(contender: &C, sequence: &Sequence) -> Result<Cold, Failure> {
    let refused = |refusal| Failure::Refused { contender: contender.name(), refusal };
    let mut tokens = Vec::with_capacity(sequence.live());
    let began = thread_cpu_time();
    for request in sequence.fill() {
        tokens.push(contender.allocate(&request).map_err(refused)?);
    }
    let filled = thread_cpu_time();
    tokens.into_iter().try_for_each(|token| contender.free(token)).map_err(refused)?;
    let cleared = thread_cpu_time();
    let each = |time: core::time::Duration| time.as_nanos() as f64 / sequence.live() as f64;
    Ok(Cold { fill: each(filled - began), clear: each(cleared - filled) })
}

//! Fills all live resources with distinct bytes, and verifies them.

use std::collections::HashSet;

use allotment::device::{MemoryDevice as _, MemoryProperties};
use allotment::memory::{ResourceError, Transfer, TransferError};
use allotment_trace::ResourceIndex;

use super::playback::{Living, Playback};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::replay::pattern::{Pattern, chunks};
use crate::replay::{Live, STAGING, copy_queue, unexpected};
use crate::target::Target;

/// The filled resources.
#[derive(Debug)]
pub(super) struct Contents {
    /// Images over which no buffer can be created, in memory that the CPU cannot access.
    not_filled: HashSet<ResourceIndex>,
}

/// Bytes that were verified, and bytes that could not be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verified {
    pub(crate) bytes: u64,
    pub(crate) bytes_not_verified: u64,
}

impl Contents {
    /// Fills all live resources: a buffer through its handle, all others through a buffer that aliases their memory.
    pub(super) fn fill<T: Target>(playback: &Playback<'_, T>) -> Result<Self, Failure> {
        let mut transfer = transfer(playback)?;
        let mut pattern = Pattern::default();
        let mut not_filled = HashSet::new();
        let (mut progress, mut done) = (progress("filling", playback), 0);
        for Living { index, recorded, live } in playback.with_lifetime() {
            let id = recorded.id();
            for chunk in chunks(0..size(playback, live)?) {
                done += chunk.end - chunk.start;
                progress.reach(done);
                match (live.write(&mut transfer, chunk.start, pattern.bytes(id, chunk)), live) {
                    (Ok(()), _) => {}
                    // Fails for the first chunk, before anything is written.
                    (Err(TransferError::Buffer(ResourceError::Access(_))), Live::Image(_)) => {
                        not_filled.insert(index);
                        break;
                    }
                    (Err(error), _) => return Err(Failure::Transfer { id, error }),
                }
            }
        }
        Ok(Self { not_filled })
    }

    /// Reads all filled resources back and compares. The bytes of a buffer in host-visible memory are compared twice, as
    /// the buffer's handle has them and as the memory has them: both must be in the same place.
    pub(super) fn verify<T: Target>(&self, playback: &Playback<'_, T>) -> Result<Verified, Failure> {
        let mut transfer = transfer(playback)?;
        let mut pattern = Pattern::default();
        let (mut progress, mut verified) = (progress("verifying", playback), Verified::default());
        for Living { index, recorded, live } in playback.with_lifetime() {
            let (id, size) = (recorded.id(), size(playback, live)?);
            if self.not_filled.contains(&index) {
                verified.bytes_not_verified += size;
                continue;
            }
            let memory_type = playback.allocator.location(live.allocation()).map_err(unexpected)?.memory_type;
            let found = playback.allocator.device().properties().memory_type(memory_type);
            let visible =
                found.is_some_and(|found| found.properties.contains(MemoryProperties::HOST_VISIBLE));
            let twice = visible && matches!(live, Live::Buffer(_));
            for chunk in chunks(0..size) {
                for by_the_cpu in if twice { &[false, true][..] } else { &[false] } {
                    let (expected, back) = pattern.bytes_and_room(id, chunk.clone());
                    let received = live.read(&mut transfer, *by_the_cpu, chunk.start, back);
                    received.map_err(|error| Failure::Transfer { id, error })?;
                    if expected != back {
                        let at = expected.iter().zip(back.iter()).take_while(|(a, b)| a == b).count();
                        return Err(Failure::Corrupt { id, offset: chunk.start + at as u64 });
                    }
                }
                verified.bytes += chunk.end - chunk.start;
                progress.reach(verified.bytes);
            }
        }
        Ok(verified)
    }
}

/// Returns the bytes of a resource: of a buffer those of its description, which its memory may exceed.
fn size<T: Target>(playback: &Playback<'_, T>, live: &Live<T::Device>) -> Result<u64, Failure> {
    match live {
        Live::Buffer(buffer) => Ok(buffer.size()),
        Live::Memory(_) | Live::Image(_) => {
            playback.allocator.location(live.allocation()).map(|place| place.size).map_err(unexpected)
        }
    }
}

/// Returns a progress bar over all live bytes.
fn progress<T: Target>(what: &str, playback: &Playback<'_, T>) -> Progress {
    let sizes = playback.with_lifetime().map(|living| living.recorded.size());
    Progress::new(what.to_owned(), sizes.fold(0, u64::saturating_add))
}

/// Creates a transfer for temporary use: its staging buffers must not take part in the defragmentation.
fn transfer<'a, T: Target>(playback: &Playback<'a, T>) -> Result<Transfer<'a, T::Device>, Failure> {
    let allocator = playback.allocator;
    let transfer = Transfer::new(allocator, copy_queue(allocator.device()), STAGING);
    let transfer = transfer.map_err(|error| Failure::Unexpected(format!("staging buffers: {error}")))?;
    Ok(transfer.with_usage(playback.target.overlay_usage()).through_the_queue())
}

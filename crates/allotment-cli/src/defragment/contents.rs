//! Fills all live allocations with distinct bytes, and verifies them.

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::Transfer;

use super::playback::{Living, Playback};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::replay::pattern::{Pattern, chunks};
use crate::replay::{STAGING, copy_queue, unexpected};

/// Fills all live allocations.
pub(super) fn fill(playback: &Playback<'_>) -> Result<(), Failure> {
    let mut transfer = transfer(playback)?;
    let mut pattern = Pattern::default();
    let (mut progress, mut done) = (progress("filling", playback), 0);
    for Living { recorded, allocation, .. } in playback.with_lifetime() {
        let (id, size) = (recorded.id(), playback.allocator.location(allocation).map_err(unexpected)?.size);
        for chunk in chunks(0..size) {
            done += chunk.end - chunk.start;
            progress.reach(done);
            let sent = transfer.upload(allocation, chunk.start, pattern.bytes(id, chunk));
            sent.map_err(|error| Failure::Transfer { id, error })?;
        }
    }
    Ok(())
}

/// Reads all live allocations back and compares. Returns the number of bytes.
pub(super) fn verify(playback: &Playback<'_>) -> Result<u64, Failure> {
    let mut transfer = transfer(playback)?;
    let mut pattern = Pattern::default();
    let (mut progress, mut verified) = (progress("verifying", playback), 0);
    for Living { recorded, allocation, .. } in playback.with_lifetime() {
        let (id, size) = (recorded.id(), playback.allocator.location(allocation).map_err(unexpected)?.size);
        for chunk in chunks(0..size) {
            let (expected, back) = pattern.bytes_and_room(id, chunk.clone());
            let received = transfer.download(allocation, chunk.start, back);
            received.map_err(|error| Failure::Transfer { id, error })?;
            if expected != back {
                let at = expected.iter().zip(back.iter()).take_while(|(a, b)| a == b).count();
                return Err(Failure::Corrupt { id, offset: chunk.start + at as u64 });
            }
            verified += chunk.end - chunk.start;
            progress.reach(verified);
        }
    }
    Ok(verified)
}

/// Returns a progress bar over all live bytes.
fn progress(what: &str, playback: &Playback<'_>) -> Progress {
    let sizes = playback.with_lifetime().map(|living| living.recorded.size());
    Progress::new(what.to_owned(), sizes.fold(0, u64::saturating_add))
}

/// Creates a transfer for temporary use: its staging buffers must not take part in the defragmentation.
fn transfer<'a>(playback: &Playback<'a>) -> Result<Transfer<'a, SimulatedGpu>, Failure> {
    let allocator = playback.allocator;
    let transfer = Transfer::new(allocator, copy_queue(allocator.device()), STAGING);
    let transfer = transfer.map_err(|error| Failure::Unexpected(format!("staging buffers: {error}")))?;
    Ok(transfer.with_usage(SimulatedGpu::ANYWHERE))
}

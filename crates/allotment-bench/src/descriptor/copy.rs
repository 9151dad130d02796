//! `copy`: 10,000 descriptors from a staging heap to where shaders see them, beside `memcpy` of as many bytes.

use core::hint::black_box;

use super::Dimensions;
use super::rig::Rig;
use crate::failure::Failure;
use crate::race::Racer;

/// That are copied in all.
pub(super) const COUNT: u32 = 10_000;
/// Tables of which `copy-tables` has as many.
pub(super) const TABLES: u32 = 8;

/// The ways to copy so many tables that have all descriptors together.
pub(super) fn racers(tables: u32, dimensions: &Dimensions) -> Result<Vec<Racer>, Failure> {
    Ok(vec![ours(tables, dimensions.batches)?, plain(tables, dimensions.batches)?])
}

/// Each time in a recording, with room that is taken and comes back.
fn ours(tables: u32, times: u32) -> Result<Racer, Failure> {
    let rig = Rig::new()?;
    let staging = rig.staging()?;
    let each = COUNT / tables;
    let ranges = (0..tables).map(|_| Rig::null_range(&staging, each)).collect::<Result<Vec<_>, _>>()?;
    Ok(Racer::alone("allotment copy_from", move || {
        for _ in 0..times {
            rig.recording(|transient| {
                for range in &ranges {
                    let Ok(mut table) = transient.allocate(each) else {
                        unreachable!("recordings come back")
                    };
                    let copied = table.copy_from(0, &staging, range);
                    debug_assert!(copied.is_ok(), "it is this heap's");
                    black_box(table.place());
                }
            });
        }
        u64::from(times) * u64::from(COUNT)
    }))
}

fn plain(tables: u32, times: u32) -> Result<Racer, Failure> {
    let bytes = (COUNT * Rig::new()?.stride()) as usize;
    let (from, mut to) = (vec![1_u8; bytes], vec![2_u8; bytes]);
    let each = bytes / tables as usize;
    Ok(Racer::alone("memcpy", move || {
        for _ in 0..times {
            let from = black_box(from.as_slice());
            from.chunks_exact(each).zip(to.chunks_exact_mut(each)).for_each(|(from, to)| {
                to.copy_from_slice(from);
                black_box(to);
            });
        }
        u64::from(times) * u64::from(COUNT)
    }))
}

//! `copy`: copies 10,000 descriptors from a CPU heap to a shader-visible heap, compared with `memcpy` of as many
//! bytes.

use core::hint::black_box;

use super::Dimensions;
use super::rig::Rig;
use crate::failure::Failure;
use crate::race::Racer;

/// Descriptors copied in total.
pub(super) const COUNT: u32 = 10_000;
/// Number of tables in `copy-tables`.
pub(super) const TABLES: u32 = 8;

/// Returns the ways to copy all descriptors into a number of tables.
pub(super) fn racers(tables: u32, dimensions: &Dimensions) -> Result<Vec<Racer>, Failure> {
    Ok(vec![ours(tables, dimensions.batches)?, plain(tables, dimensions.batches)?])
}

/// Copies in a new recording each time, with a range that is freed with it.
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
                        unreachable!("recordings have completed")
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

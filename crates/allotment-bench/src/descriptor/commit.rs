//! `commit`: binds the descriptors of a draw, two shared and four of its own, for 10,000 draws per recording.

use core::hint::black_box;
use std::sync::Arc;

use allotment::descriptor::{Binding, BindingLayout, BindingSet, TransientDescriptors};
use allotment::device::DescriptorDevice;
use allotment::device::simulated::{SimulatedDescriptor, SimulatedGpu};

use super::Dimensions;
use super::locked_ranges::LockedRanges;
use super::rig::{Rig, refused};
use crate::failure::Failure;
use crate::race::Racer;

/// Draws per recording.
pub(super) const DRAWS: u32 = 10_000;
pub(super) const MUTABLE: u32 = 2;
pub(super) const DYNAMIC: u32 = 4;

pub(super) fn racers(dimensions: &Dimensions) -> Result<Vec<Racer>, Failure> {
    let recordings = dimensions.batches.div_ceil(10);
    Ok(vec![set(recordings)?, one_by_one(recordings)?, locked(recordings, dimensions)?])
}

fn racer(contender: &'static str, recordings: u32, mut recording: impl FnMut() + Send + 'static) -> Racer {
    Racer::alone(contender, move || {
        (0..recordings).for_each(|_| recording());
        u64::from(recordings) * u64::from(DRAWS)
    })
}

fn set(recordings: u32) -> Result<Racer, Failure> {
    let rig = Rig::new()?;
    let bindings = [Binding::mutable("material").array(MUTABLE), Binding::dynamic("draw").array(DYNAMIC)];
    let layout = BindingLayout::new(&rig.heap, &rig.staging()?, &bindings).map_err(refused)?;
    let mut set = BindingSet::new(&layout).map_err(refused)?;
    for (binding, count) in [(0, MUTABLE), (1, DYNAMIC)] {
        for at in 0..count {
            set.bind(binding, at, &rig.descriptor(), Some(rig.buffer.clone())).map_err(refused)?;
        }
    }
    Ok(racer("allotment BindingSet", recordings, move || {
        rig.recording(|transient| draw_sets(transient, &set));
    }))
}

#[inline(never)]
fn draw_sets(transient: &mut TransientDescriptors<SimulatedGpu>, set: &BindingSet<SimulatedGpu>) {
    for _ in 0..DRAWS {
        let committed = set.commit(transient);
        debug_assert!(committed.is_ok(), "recordings have completed");
        let _ = black_box(committed);
    }
}

fn one_by_one(recordings: u32) -> Result<Racer, Failure> {
    let rig = Rig::new()?;
    Ok(racer("allotment one by one", recordings, move || {
        rig.recording(|transient| write_tables(transient, &rig.descriptor()));
    }))
}

#[inline(never)]
fn write_tables(transient: &mut TransientDescriptors<SimulatedGpu>, descriptor: &SimulatedDescriptor<'_>) {
    for _ in 0..DRAWS {
        let Ok(mut table) = transient.allocate(DYNAMIC) else { unreachable!("recordings have completed") };
        for at in 0..DYNAMIC {
            let written = table.write(at, black_box(descriptor));
            debug_assert!(written.is_ok(), "it is of the heap's kind");
        }
        black_box(table.place());
    }
}

/// Ranges of the transient region, which no other code uses in this benchmark. One call copies all four.
fn locked(recordings: u32, dimensions: &Dimensions) -> Result<Racer, Failure> {
    let rig = Rig::new()?;
    let staging = rig.staging()?;
    let range = Rig::null_range(&staging, DYNAMIC)?;
    let (ranges, mut taken) = (LockedRanges::new(dimensions.transient_region), Vec::new());
    let heap = Arc::clone(&rig.heap);
    let region = heap.statistics().capacity - dimensions.transient_region;
    Ok(racer("mutex + TLSF, one copy", recordings, move || {
        rig.recording(|transient| {
            let to = transient.heap();
            let copied = staging.with_heap(&range, |from, first| {
                for _ in 0..DRAWS {
                    let (range, at) = ranges.allocate(DYNAMIC);
                    taken.push(range);
                    let at = black_box(region + at);
                    // SAFETY: both heaps are live and of one device and type; the source range is written, and
                    // this thread owns it; the destination lies in the region from which no other code allocates here.
                    unsafe { rig.device.copy_descriptors(from, first, to, at, DYNAMIC) };
                }
            });
            debug_assert!(copied.is_ok(), "it is this heap's");
        });
        ranges.free_all(&mut taken);
    }))
}

//! `compact`: tables are brought together after some of them were exchanged, at once or a part of it.

use std::sync::Arc;

use allotment::descriptor::{DescriptorRange, ShaderVisibleHeap, ShaderVisibleHeapDesc};
use allotment::device::simulated::SimulatedGpu;

use super::Dimensions;
use super::rig::{Rig, refused};
use crate::failure::Failure;
use crate::race::Racer;
use crate::rng::Rng;

/// Tables of 1 to 15 descriptors: as many sets as a large scene has.
pub(super) const TABLES: u32 = 7_300;
/// Tables that are replaced by others before each call.
const EXCHANGED: u32 = 200;
const LARGEST: u32 = 15;
/// The most descriptors that a step moves, but for the last table's.
const MOST: u32 = 1_000;

type Heap = ShaderVisibleHeap<SimulatedGpu>;

/// Brings tables together.
type Compact = fn(&Heap);

fn at_once(heap: &Heap) {
    let done = heap.compact();
    debug_assert!(done.is_ok(), "nothing is in flight");
}

fn a_step(heap: &Heap) {
    let done = heap.compact_step(MOST);
    debug_assert!(done.is_ok(), "nothing is poisoned");
}

fn not_at_all(_: &Heap) {}

/// An operation is one call, and the exchange of tables before it, which one contender does alone.
pub(super) fn racers(dimensions: &Dimensions) -> Result<Vec<Racer>, Failure> {
    Ok(vec![
        racer("allotment compact", dimensions, at_once)?,
        racer("allotment compact_step 1000", dimensions, a_step)?,
        racer("exchange of tables alone", dimensions, not_at_all)?,
    ])
}

fn racer(contender: &'static str, dimensions: &Dimensions, compact: Compact) -> Result<Racer, Failure> {
    let rig = Rig::new()?;
    let desc = ShaderVisibleHeapDesc::resources().with_regions(16_384, TABLES * 10, 16_384);
    let heap = Arc::new(ShaderVisibleHeap::new(&rig.allocator, &rig.tracker, desc).map_err(refused)?);
    let mut rng = Rng::new(9);
    let mut tables = Vec::new();
    for _ in 0..TABLES {
        tables.push(heap.allocate(1 + rng.below(LARGEST)).map_err(refused)?);
    }
    let calls = u64::from(dimensions.batches);
    Ok(Racer::alone(contender, move || {
        for _ in 0..calls {
            exchange(&heap, &mut tables, &mut rng);
            compact(&heap);
        }
        calls
    }))
}

fn exchange(heap: &Heap, tables: &mut Vec<DescriptorRange<SimulatedGpu>>, rng: &mut Rng) {
    for _ in 0..EXCHANGED {
        tables.swap_remove(rng.below(tables.len() as u32) as usize);
    }
    heap.reclaim();
    for _ in 0..EXCHANGED {
        // Where no range is large enough, there is one of a descriptor.
        let table = heap.allocate(1 + rng.below(LARGEST)).or_else(|_| heap.allocate(1));
        tables.extend(table);
    }
}

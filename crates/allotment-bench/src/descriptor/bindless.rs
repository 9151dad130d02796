//! `bindless`: fills a slot and frees another; a recording is opened and closed for each 1,000 pairs. `sampler`:
//! acquires a cached sampler and drops it.

use core::hint::black_box;
use std::sync::Arc;

use allotment::descriptor::{
    DescriptorSlot, KeepAlive, SamplerCache, ShaderVisibleHeap, ShaderVisibleHeapDesc,
};
use allotment::device::SamplerDesc;

use super::rig::{Rig, refused};
use super::{BATCH, Dimensions};
use crate::failure::Failure;
use crate::race::Racer;
use crate::rng::Rng;

/// Number of different samplers.
pub(super) const SAMPLERS: u16 = 64;

pub(super) fn racers(dimensions: &Dimensions) -> Result<Vec<Racer>, Failure> {
    Ok(vec![
        racer("allotment insert, remove", dimensions, None, two_calls)?,
        racer("allotment replace", dimensions, None, one_call)?,
        racer("allotment with a keep", dimensions, Some(Arc::new(0_u64)), two_calls)?,
    ])
}

/// Fills a slot and gives another one back. Returns the new one.
type Pair = fn(&Rig, DescriptorSlot, Option<KeepAlive>) -> DescriptorSlot;

fn two_calls(rig: &Rig, old: DescriptorSlot, keep: Option<KeepAlive>) -> DescriptorSlot {
    let Ok(new) = rig.heap.insert(&rig.descriptor(), keep) else { unreachable!("there is room") };
    let removed = rig.heap.remove(old);
    debug_assert!(removed.is_ok(), "it is removed once");
    new
}

fn one_call(rig: &Rig, old: DescriptorSlot, keep: Option<KeepAlive>) -> DescriptorSlot {
    let Ok(new) = rig.heap.replace(old, &rig.descriptor(), keep) else { unreachable!("there is room") };
    new
}

fn racer(
    contender: &'static str,
    dimensions: &Dimensions,
    keep: Option<KeepAlive>,
    pair: Pair,
) -> Result<Racer, Failure> {
    let rig = Rig::new()?;
    let mut live = (0..dimensions.live)
        .map(|_| rig.heap.insert(&rig.descriptor(), keep.clone()).map_err(refused))
        .collect::<Result<Vec<_>, _>>()?;
    let (batches, mut rng) = (dimensions.batches, Rng::new(5));
    let sequence: Vec<usize> =
        (0..u64::from(batches) * BATCH).map(|_| rng.below(dimensions.live) as usize).collect();
    Ok(Racer::alone(contender, move || {
        for batch in sequence.chunks(BATCH as usize) {
            rig.recording(|_| {
                batch.iter().for_each(|&at| live[at] = pair(&rig, live[at], keep.clone()));
            });
        }
        sequence.len() as u64
    }))
}

pub(super) fn samplers(dimensions: &Dimensions) -> Result<Vec<Racer>, Failure> {
    let rig = Rig::new()?;
    let heap = ShaderVisibleHeap::new(&rig.allocator, &rig.tracker, ShaderVisibleHeapDesc::samplers());
    let cache = SamplerCache::new(heap.map_err(refused)?).map_err(refused)?;
    let descs: Vec<_> =
        (0..SAMPLERS).map(|at| SamplerDesc { min_lod: f32::from(at), ..SamplerDesc::default() }).collect();
    // Materials that keep one sampler each.
    let kept = descs.iter().map(|desc| cache.get(desc).map_err(refused)).collect::<Result<Vec<_>, _>>()?;
    let (batches, mut rng) = (dimensions.batches, Rng::new(6));
    let sequence: Vec<usize> = (0..BATCH).map(|_| rng.below(SAMPLERS.into()) as usize).collect();
    Ok(vec![Racer::alone("allotment SamplerCache", move || {
        for _ in 0..batches {
            for &at in &sequence {
                let Ok(sampler) = cache.get(black_box(&descs[at])) else { unreachable!("it is cached") };
                debug_assert_eq!(sampler.index(), kept[at].index(), "it is the same one");
                black_box(sampler.index());
            }
        }
        u64::from(batches) * BATCH
    })])
}

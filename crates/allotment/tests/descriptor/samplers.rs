//! `SamplerCache`: one slot for each sampler that differs.

use allotment::descriptor::{CachedSampler, DescriptorError, SamplerCache, ShaderVisibleHeapDesc};
use allotment::device::simulated::SimulatedGpu;
use allotment::device::{AddressMode, SamplerDesc};
use allotment::lifetime::WaitFor;

use crate::rig::{Rig, numbers_of};

fn cache(rig: &Rig, slots: u32) -> SamplerCache<SimulatedGpu> {
    let heap = rig.heap(ShaderVisibleHeapDesc::samplers().with_regions(slots, 0, 0));
    SamplerCache::new(heap).unwrap()
}

/// As many as are wanted, no two the same.
fn distinct(i: u32) -> SamplerDesc {
    SamplerDesc { lod_bias: (i % 1024) as f32 / 128.0, min_lod: (i / 1024) as f32, ..SamplerDesc::default() }
}

#[test]
fn ten_thousand_sets_of_eight_samplers_are_in_eight_slots() {
    let rig = Rig::new();
    let cache = cache(&rig, 2048);
    let sets: Vec<Vec<CachedSampler<_>>> =
        (0..10_000).map(|_| (0..8).map(|i| cache.get(&distinct(i)).unwrap()).collect()).collect();
    assert_eq!((cache.len(), cache.heap().statistics().slots.used), (8, 8));
    let indices: Vec<_> = sets[0].iter().map(CachedSampler::index).collect();
    assert!(sets.iter().all(|set| set.iter().map(CachedSampler::index).eq(indices.iter().copied())));
    assert_eq!(rig.device.usage().samplers, 8);
}

#[test]
fn the_2049th_distinct_sampler_is_refused_with_nothing_free_and_served_when_one_is_over() {
    let rig = Rig::new();
    let cache = cache(&rig, 2048);
    let mut held: Vec<_> = (0..2048).map(|i| cache.get(&distinct(i)).unwrap()).collect();
    assert_eq!(numbers_of(cache.get(&distinct(2048))), [1, 0, 0, 0]);
    assert_eq!(rig.device.usage().samplers, 2048, "what was refused left nothing behind");

    let recording = rig.record();
    let freed = held.swap_remove(100);
    let index = freed.index();
    drop(freed);
    assert_eq!(numbers_of(cache.get(&distinct(2048))), [1, 0, 0, 1], "a recording may use it");
    rig.device.pause_queues();
    let point = rig.submit(recording);
    let refused = cache.get(&distinct(2048)).unwrap_err();
    let DescriptorError::Exhausted { free: 0, retiring: 1, wait, .. } = refused else { panic!("{refused}") };
    assert_eq!(wait, Some(WaitFor::Point(point)));
    rig.device.resume_queues();
    rig.wait(point);
    let served = cache.get(&distinct(2048)).unwrap();
    assert_eq!(served.index(), index);
    assert_eq!(rig.device.usage().samplers, 2048);
    rig.assert_no_complaints();
}

#[test]
fn a_sampler_that_is_wanted_again_while_it_is_on_its_way_is_the_same_one() {
    let rig = Rig::new();
    let cache = cache(&rig, 1);
    let first = cache.get(&SamplerDesc::default()).unwrap();
    let index = first.index();
    let recording = rig.record();
    drop(first);
    let again = cache.get(&SamplerDesc::default()).unwrap();
    assert_eq!(again.index(), index);
    drop(recording);
    cache.reclaim();
    assert_eq!(cache.len(), 1, "it has a user");
    let third = again.clone();
    drop(again);
    cache.reclaim();
    assert_eq!((cache.len(), third.index()), (1, index));
    drop(third);
    cache.reclaim();
    assert!(cache.is_empty());
    assert_eq!((rig.device.usage().samplers, cache.heap().statistics().slots.used), (0, 0));
}

#[test]
fn shaders_find_the_sampler_that_was_asked_for() {
    let rig = Rig::new();
    let cache = cache(&rig, 64);
    let descs: Vec<_> = (0..64).map(distinct).collect();
    let samplers: Vec<_> = descs.iter().map(|desc| cache.get(desc).unwrap()).collect();
    let indices: Vec<_> = samplers.iter().map(CachedSampler::index).collect();
    let marks: Vec<_> = descs.iter().map(SimulatedGpu::sampler_mark).collect();
    assert_eq!(rig.read(cache.heap(), &indices), marks);
}

#[test]
fn a_sampler_that_is_none_is_refused() {
    let rig = Rig::new();
    let cache = cache(&rig, 64);
    let wrong = SamplerDesc { lod_bias: f32::NAN, ..SamplerDesc::default() };
    let why = DescriptorError::InvalidSampler(wrong.check().unwrap_err());
    assert_eq!(cache.get(&wrong).unwrap_err(), why);
    let border = SamplerDesc { address: [AddressMode::ClampToBorder; 3], ..SamplerDesc::default() };
    assert!(cache.get(&border).is_ok());
    let resources = rig.resources(1, 0, 0);
    assert!(matches!(SamplerCache::new(resources), Err(DescriptorError::WrongKind { .. })));
}

#[test]
fn samplers_that_outlive_their_cache_are_destroyed_with_the_last_of_them() {
    let rig = Rig::new();
    let cache = cache(&rig, 8);
    let held = cache.get(&SamplerDesc::default()).unwrap();
    drop(cache);
    assert_eq!(rig.device.usage().samplers, 1);
    drop(held);
    assert_eq!((rig.device.usage().samplers, rig.device.usage().descriptor_heaps), (0, 0));
    rig.assert_no_complaints();
}

//! The events of resources that share memory: applied one after another they give what is bound where, and which resources
//! have their bytes, whenever the reader came.

use std::collections::BTreeMap;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, DeviceError, ImageDesc, ResourceKind};
use allotment::events::{AllocationKey, BoundResource, Event, EventSubscription, SubscriptionDesc, TextId};
use allotment::memory::names::Name;
use allotment::memory::reports::CallSites;
use allotment::memory::{Buffer, Memory, ResourceError};
use allotment::{Gpu, GpuDesc, MemoryUsage, Requirements};

use super::{KIB, Random, Reader};

type SharedBuffer = Buffer<SimulatedGpu>;

fn gpu() -> Gpu<SimulatedGpu> {
    let mut desc = GpuDesc::default();
    desc.allocator.call_sites = CallSites::Location;
    Gpu::new(SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap()), desc).unwrap()
}

fn memory(gpu: &Gpu<SimulatedGpu>, size: u64) -> Memory<SimulatedGpu> {
    let needs = Requirements { kind: ResourceKind::Unknown, ..Requirements::new(size) };
    gpu.allocate_memory(&needs, &MemoryUsage::GpuOnly.with_name("targets")).unwrap()
}

fn buffer_in(
    gpu: &Gpu<SimulatedGpu>,
    memory: &Memory<SimulatedGpu>,
    offset: u64,
    size: u64,
    name: &'static str,
) -> SharedBuffer {
    gpu.create_buffer_in(memory, offset, &BufferDesc::new(size), name).unwrap()
}

fn subscribe(gpu: &Gpu<SimulatedGpu>) -> EventSubscription {
    gpu.subscribe(&SubscriptionDesc::default()).unwrap()
}

fn rename(gpu: &Gpu<SimulatedGpu>, buffer: &SharedBuffer, name: Option<Name>) {
    buffer.with_raw(|raw| gpu.allocator().set_name(raw.allocation(), name)).unwrap();
}

/// Destroys what was dropped.
fn settle(gpu: &Gpu<SimulatedGpu>) {
    gpu.wait_idle().unwrap();
    gpu.allocator().end_frame();
}

impl Reader {
    /// Reads, and returns the events of resources.
    fn of_resources(&mut self, events: &mut EventSubscription) -> Vec<Event> {
        self.read(events);
        let is_of_resource = |event: &&Event| {
            matches!(
                event,
                Event::Bound(_)
                    | Event::Labelled { .. }
                    | Event::Unbound { .. }
                    | Event::Displaced { .. }
                    | Event::Activated { .. }
            )
        };
        self.batch.events().iter().filter(is_of_resource).copied().collect()
    }

    /// Panics unless the bound resources are these buffers.
    fn compare_bound<'a>(
        &self,
        live: impl Iterator<Item = (&'a Memory<SimulatedGpu>, u64, &'a SharedBuffer)>,
    ) {
        let bound: BTreeMap<_, _> = self.state.bound.iter().map(|(&key, bound)| (key, bound.is)).collect();
        let mut count = 0;
        for (memory, offset, buffer) in live {
            let is = bound[&buffer.id().key()];
            assert_eq!((is.memory, is.offset, is.size), (memory.id().key(), offset, buffer.size()));
            assert_eq!(is.active, buffer.is_active(), "{is:?}");
            let info = buffer.info();
            assert_eq!(self.text(is.name), info.name.as_ref().map_or("", |name| name.as_str()));
            assert_eq!(is.kind, ResourceKind::Buffer);
            count += 1;
        }
        assert_eq!(bound.len(), count);
        let listed: usize = self.state.memories.values().map(|resources| resources.len()).sum();
        assert_eq!(listed, count);
    }
}

#[test]
fn a_resource_is_bound_activated_displaced_and_unbound() {
    let gpu = gpu();
    let mut events = subscribe(&gpu);
    let mut reader = Reader::default();
    let memory = memory(&gpu, 64 * KIB);
    let culled = buffer_in(&gpu, &memory, 4 * KIB, 4000, "culled");
    let bound = reader.of_resources(&mut events);
    let [Event::Bound(is)] = bound[..] else { panic!("{bound:?}") };
    let (call_site, name) = (reader.text(is.call_site), reader.text(is.name));
    assert!(call_site.contains("placed.rs:"), "{call_site}");
    assert_eq!(name, "culled");
    let expected = BoundResource {
        resource: culled.id().key(),
        memory: memory.id().key(),
        offset: 4 * KIB,
        size: culled.info().size,
        kind: ResourceKind::Buffer,
        active: true,
        ..is
    };
    assert_eq!(is, expected);

    let sorted = buffer_in(&gpu, &memory, 0, 6 * KIB, "sorted");
    let low = buffer_in(&gpu, &memory, 0, KIB, "low");
    let bound = reader.of_resources(&mut events);
    let [Event::Bound(second), Event::Bound(third)] = bound[..] else { panic!("{bound:?}") };
    assert!(!second.active && third.active, "only the first of them overlaps one that is active");

    let [culled_key, sorted_key, low_key] = [&culled, &sorted, &low].map(|buffer| buffer.id().key());
    assert!(sorted.activate().unwrap().needs_barrier);
    let mut activated = reader.of_resources(&mut events);
    assert_eq!(activated.pop(), Some(Event::Activated { resource: sorted_key }));
    let displaced = |resource| Event::Displaced { resource, by: sorted_key };
    assert!(activated.contains(&displaced(culled_key)) && activated.contains(&displaced(low_key)));
    assert_eq!(activated.len(), 2);
    assert!(!sorted.activate().unwrap().needs_barrier);
    assert_eq!(reader.of_resources(&mut events), [], "it is active already");

    drop(memory);
    drop(sorted);
    settle(&gpu);
    assert_eq!(reader.of_resources(&mut events), [Event::Unbound { resource: sorted_key }]);
    assert!(!culled.is_active(), "nothing is activated by itself");
    assert_eq!(reader.state.allocations.len(), 1, "two resources keep the memory");
    drop((culled, low));
    settle(&gpu);
    reader.read(&mut events);
    assert!(reader.state.allocations.is_empty() && reader.state.bound.is_empty());
}

#[test]
fn a_new_label_of_a_placed_resource_is_an_event_between_the_others_of_it() {
    let gpu = gpu();
    let mut events = subscribe(&gpu);
    let mut reader = Reader::default();
    let memory = memory(&gpu, 64 * KIB);
    let [culled, sorted] = ["culled", "sorted"].map(|name| buffer_in(&gpu, &memory, 0, KIB, name));
    let [culled_key, sorted_key] = [&culled, &sorted].map(|buffer| buffer.id().key());
    let _ = reader.of_resources(&mut events);
    rename(&gpu, &sorted, Some("drawn".into()));
    let _ = sorted.activate().unwrap();
    rename(&gpu, &culled, None);
    culled.with_raw(|raw| gpu.allocator().set_user_data(raw.allocation(), 4711)).unwrap();
    drop(culled);
    settle(&gpu);
    let told = reader.of_resources(&mut events);
    let [
        Event::Labelled { allocation, name, user_data: 0, .. },
        Event::Displaced { .. },
        Event::Activated { resource },
        Event::Labelled { allocation: first, name: TextId::NONE, .. },
        Event::Labelled { allocation: second, user_data: 4711, .. },
        Event::Unbound { .. },
    ] = told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!((allocation, resource, first, second), (sorted_key, sorted_key, culled_key, culled_key));
    assert_eq!(reader.batch.text(name).as_deref(), Some("drawn"));
    reader.compare_bound([(&memory, 0, &sorted)].into_iter());
    // One that comes now hears the new name at once.
    drop(events);
    let (mut events, mut reader) = (subscribe(&gpu), Reader::default());
    reader.read(&mut events);
    reader.compare_bound([(&memory, 0, &sorted)].into_iter());
    assert_eq!(sorted.info().name.unwrap().as_str(), "drawn");
}

#[test]
fn memory_is_released_with_the_last_that_keeps_it() {
    let gpu = gpu();
    let mut events = subscribe(&gpu);
    let mut reader = Reader::default();
    // The memory first, in between, and last.
    for dropped_at in 0..3 {
        let mut memory = Some(memory(&gpu, 64 * KIB));
        let key = memory.as_ref().unwrap().id().key();
        let mut buffers: Vec<_> =
            [0, 4 * KIB].map(|at| buffer_in(&gpu, memory.as_ref().unwrap(), at, KIB, "one")).into();
        reader.read(&mut events);
        for step in 0..3 {
            if step == dropped_at {
                drop(memory.take());
            } else {
                drop(buffers.pop());
            }
            reader.read(&mut events);
            let is_released = reader.batch.events().contains(&Event::FreeRequested { allocation: key });
            assert_eq!(is_released, step == 2, "{dropped_at}, {step}");
            settle(&gpu);
        }
        reader.read(&mut events);
        assert!(reader.state.allocations.is_empty() && reader.state.bound.is_empty());
    }
}

#[test]
fn a_creation_that_is_refused_is_no_event() {
    let gpu = gpu();
    let memory = memory(&gpu, 64 * KIB);
    let mut events = subscribe(&gpu);
    let mut reader = Reader::default();
    reader.read(&mut events);
    let refused =
        |offset, size| gpu.create_buffer_in(&memory, offset, &BufferDesc::new(size), "no").unwrap_err();
    let beyond = refused(60 * KIB, 8 * KIB);
    assert!(matches!(beyond, ResourceError::Placed { .. }), "{beyond}");
    let foreign = self::gpu().create_buffer_in(&memory, 0, &BufferDesc::new(KIB), "no").unwrap_err();
    assert!(matches!(foreign, ResourceError::Placed { .. }), "{foreign}");
    gpu.allocator().device().fail_call(1, DeviceError::OutOfHostMemory);
    let error = refused(0, KIB);
    assert!(matches!(error, ResourceError::Device { .. }), "{error}");
    assert_eq!(reader.of_resources(&mut events), []);
    // The same place serves the next one.
    let image = gpu.create_image_in(&memory, 0, &ImageDesc::new(16, 16, 4), "image").unwrap();
    let bound = reader.of_resources(&mut events);
    assert!(matches!(bound[..], [Event::Bound(is)] if is.kind == ResourceKind::OptimalImage), "{bound:?}");
    drop(image);
}

#[test]
fn a_reader_that_comes_late_hears_of_resources_after_their_memory() {
    let gpu = gpu();
    let memories = [memory(&gpu, 64 * KIB), memory(&gpu, 16 * KIB)];
    let low = buffer_in(&gpu, &memories[0], 0, 8 * KIB, "low");
    let high = buffer_in(&gpu, &memories[0], 4 * KIB, 8 * KIB, "high");
    let other = buffer_in(&gpu, &memories[1], 0, 16 * KIB, "other");
    gpu.uploads().submit().unwrap();
    let _ = high.activate().unwrap();
    let mut events = subscribe(&gpu);
    let mut reader = Reader::default();
    // Each event is applied: a resource whose memory is not known would be refused.
    reader.read(&mut events);
    reader.compare_bound(
        [(&memories[0], 0, &low), (&memories[0], 4 * KIB, &high), (&memories[1], 0, &other)].into_iter(),
    );
    assert!(!reader.state.bound[&low.id().key()].is.active);
    drop(other);
    settle(&gpu);
    reader.read(&mut events);
    reader.compare_bound([(&memories[0], 0, &low), (&memories[0], 4 * KIB, &high)].into_iter());
}

/// Random calls, with a reader that comes and goes, or one that loses events.
fn random_calls(seed: u64, waiting: usize, comes_late: bool) -> u32 {
    let gpu = gpu();
    let mut random = Random(seed);
    let mut desc = SubscriptionDesc::default();
    desc.max_waiting_events = waiting;
    let mut memories = vec![memory(&gpu, 64 * KIB)];
    let mut live: Vec<(AllocationKey, u64, SharedBuffer)> = Vec::new();
    let (mut events, mut reader) = (None, Reader::default());
    let mut lost = 0;
    for round in 0..400 {
        match random.below(10) {
            0 if memories.len() < 4 => memories.push(memory(&gpu, 64 * KIB)),
            0..3 => {
                let at = &memories[random.below(memories.len() as u64) as usize];
                let (offset, size) = (random.below(48) * KIB, (1 + random.below(16)) * KIB);
                let buffer = buffer_in(&gpu, at, offset, size, "random");
                live.push((at.id().key(), offset, buffer));
            }
            3..5 if !live.is_empty() => {
                let (.., buffer) = live.swap_remove(random.below(live.len() as u64) as usize);
                drop(buffer);
            }
            5..8 if !live.is_empty() => {
                let (.., buffer) = &live[random.below(live.len() as u64) as usize];
                let _ = buffer.activate().unwrap();
            }
            8 if !live.is_empty() => {
                let (.., buffer) = &live[random.below(live.len() as u64) as usize];
                rename(&gpu, buffer, Some(format!("renamed {}", random.below(100)).into()));
            }
            _ => settle(&gpu),
        }
        if events.is_none() && (!comes_late || round % 50 == 49) {
            (events, reader) = (Some(gpu.subscribe(&desc).unwrap()), Reader::default());
        }
        let Some(read) = events.as_mut().filter(|_| random.below(20) == 0) else { continue };
        settle(&gpu);
        reader.catch_up(read, gpu.allocator());
        let listed: BTreeMap<_, _> = memories.iter().map(|memory| (memory.id().key(), memory)).collect();
        reader.compare_bound(live.iter().map(|(memory, at, buffer)| (listed[memory], *at, buffer)));
        reader.compare(gpu.allocator());
        lost += reader.lost;
        if comes_late && random.below(3) == 0 {
            events = None;
        }
    }
    // The memory goes with the last of what keeps it, whichever that is.
    let mut events = events.unwrap_or_else(|| gpu.subscribe(&desc).unwrap());
    while !live.is_empty() || !memories.is_empty() {
        if memories.is_empty() || !live.is_empty() && random.below(2) == 0 {
            live.swap_remove(random.below(live.len() as u64) as usize);
        } else {
            memories.swap_remove(random.below(memories.len() as u64) as usize);
        }
        settle(&gpu);
    }
    let mut last = Reader::default();
    core::mem::swap(&mut last, &mut reader);
    last.catch_up(&mut events, gpu.allocator());
    assert!(last.state.bound.is_empty() && last.state.allocations.is_empty());
    lost
}

#[test]
fn random_calls_with_a_reader_that_comes_at_any_time_give_what_is_bound() {
    for seed in 1..9 {
        assert_eq!(random_calls(seed, 1 << 16, false), 0);
        assert_eq!(random_calls(seed, 1 << 16, true), 0);
    }
}

#[test]
fn a_reader_that_lost_events_hears_of_all_resources_again() {
    let lost: u32 = (1..9).map(|seed| random_calls(seed, 16, false)).sum();
    assert!(lost > 5, "{lost}");
}

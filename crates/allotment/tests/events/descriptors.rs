//! The events of descriptor heaps: applied one after another they give the slots, tables, chunks and pages that are in
//! use, whenever the reader came and whatever several threads do.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use allotment::descriptor::{
    Binding, BindingLayout, BindingSet, CachedSampler, CpuDescriptorHeap, CpuDescriptorHeapDesc,
    CpuDescriptorRange, DescriptorError, DescriptorHeapStatistics, DescriptorRange, DescriptorSlot,
    ShaderVisibleHeap, ShaderVisibleHeapDesc, TransientDescriptors,
};
use allotment::device::simulated::{Profile, SimulatedDescriptor, SimulatedGpu};
use allotment::device::{BufferDesc, BufferUse, DescriptorDevice, DescriptorHeapType, SamplerDesc};
use allotment::events::{DescriptorKind, Event, EventSubscription, ObjectId, SubscriptionDesc};
use allotment::lifetime::Recording;
use allotment::memory::Buffer;
use allotment::{Gpu, GpuDesc, MemoryUsage};
use allotment_trace::recording::DescriptorHeap;

use super::{Random, Reader};

type Heap = ShaderVisibleHeap<SimulatedGpu>;
type CpuHeap = CpuDescriptorHeap<SimulatedGpu>;

fn sampler(number: u64) -> SamplerDesc {
    SamplerDesc { lod_bias: number as f32 / 4.0, ..SamplerDesc::default() }
}

/// The heaps of a program, which threads share.
struct Heaps {
    gpu: Gpu<SimulatedGpu>,
    lights: Arc<Buffer<SimulatedGpu>>,
    /// A heap of render targets with small pages, beside the one of the `Gpu`.
    targets: Arc<CpuHeap>,
}

/// A program with descriptors of each sort.
struct Program {
    heaps: Heaps,
    layout: BindingLayout<SimulatedGpu>,
    slots: Vec<DescriptorSlot>,
    tables: Vec<DescriptorRange<SimulatedGpu>>,
    sets: Vec<BindingSet<SimulatedGpu>>,
    samplers: Vec<CachedSampler<SimulatedGpu>>,
    ranges: Vec<CpuDescriptorRange>,
    /// What the GPU has not completed, as the library sees it.
    recordings: Vec<(TransientDescriptors<SimulatedGpu>, Recording)>,
}

impl Heaps {
    fn new(profile: &str) -> Self {
        let device = SimulatedGpu::new(Profile::named(profile).unwrap());
        let resources = ShaderVisibleHeapDesc::resources().with_regions(70, 60, 96).with_chunk(8);
        let samplers = ShaderVisibleHeapDesc::samplers().with_regions(8, 4, 0);
        let desc = GpuDesc::default().with_resource_descriptors(resources).with_sampler_descriptors(samplers);
        let gpu = Gpu::new(device, desc).unwrap();
        let lights = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("lights"));
        let pages = CpuDescriptorHeapDesc::new(DescriptorHeapType::RenderTarget).with_page_size(64);
        let targets = CpuDescriptorHeap::new(gpu.allocator(), gpu.tracker(), pages.with_reserve(0)).unwrap();
        gpu.descriptors().unwrap();
        Self { gpu, lights: Arc::new(lights.unwrap()), targets: Arc::new(targets) }
    }

    fn resources(&self) -> &Heap {
        self.gpu.descriptors().unwrap().resources()
    }

    fn with_descriptor<R>(&self, f: impl FnOnce(&SimulatedDescriptor<'_>) -> R) -> R {
        let handle = self.lights.handle();
        // SAFETY: the buffer lives as long as the heaps, which nothing reads, and the range lies in it.
        f(&unsafe { self.gpu.device().buffer_descriptor(&handle, 0..256, BufferUse::ReadOnly) })
    }

    fn insert(&self) -> Result<DescriptorSlot, DescriptorError> {
        self.with_descriptor(|it| self.resources().insert(it, Some(self.lights.clone())))
    }

    /// Panics unless the reader knows how many descriptors are in use. Returns the shader-visible heaps.
    fn compare<'a>(&self, reader: &'a Reader) -> [&'a DescriptorHeap; 2] {
        let descriptors = self.gpu.descriptors().unwrap();
        let heaps = &reader.state.descriptor_heaps;
        let cpu = |heap_type| descriptors.cpu_heap(heap_type).statistics();
        let both = [cpu(DescriptorHeapType::RenderTarget), self.targets.statistics()];
        compare_cpu(heaps, DescriptorKind::RenderTargets, &both);
        compare_cpu(heaps, DescriptorKind::CpuResources, &[cpu(DescriptorHeapType::Resource)]);
        compare_cpu(heaps, DescriptorKind::CpuSamplers, &[cpu(DescriptorHeapType::Sampler)]);
        compare_cpu(heaps, DescriptorKind::DepthStencils, &[cpu(DescriptorHeapType::DepthStencil)]);
        let limits = self.gpu.device().descriptor_limits();
        let alignments = [limits.resources.table_alignment, limits.samplers.table_alignment];
        let kinds = [DescriptorKind::ShaderVisibleResources, DescriptorKind::ShaderVisibleSamplers];
        let of_gpu = [self.resources(), descriptors.samplers().heap()];
        core::array::from_fn(|at| compare_shader_visible(heaps, kinds[at], of_gpu[at], alignments[at]))
    }
}

impl Program {
    fn new(profile: &str) -> Self {
        let heaps = Heaps::new(profile);
        let bindings = [
            Binding::static_("shadows"),
            Binding::mutable("albedo").array(3),
            Binding::dynamic("instance").array(2),
        ];
        let layout = heaps.gpu.descriptors().unwrap().binding_layout(&bindings).unwrap();
        heaps.with_descriptor(|it| layout.bind_static(0, 0, it, None)).unwrap();
        Self {
            heaps,
            layout,
            slots: Vec::new(),
            tables: Vec::new(),
            sets: Vec::new(),
            samplers: Vec::new(),
            ranges: Vec::new(),
            recordings: Vec::new(),
        }
    }

    /// One random call, or two. What is refused changes nothing.
    fn step(&mut self, random: &mut Random) {
        let heaps = &self.heaps;
        match random.below(25) {
            0..4 => self.slots.extend(self.heaps.insert()),
            4 => {
                let count = 1 + random.below(6) as usize;
                let all = heaps.with_descriptor(|it| {
                    heaps.resources().insert_all((0..count).map(|_| (it.clone(), None)))
                });
                self.slots.extend(all.unwrap_or_default());
            }
            5 | 6 => {
                if let Some(slot) = pick(&mut self.slots, random) {
                    heaps.resources().remove(slot).unwrap();
                }
            }
            7 => {
                let Some(old) = pick(&mut self.slots, random) else { return };
                let new = heaps.with_descriptor(|it| heaps.resources().replace(old, it, None));
                self.slots.push(new.unwrap_or(old));
            }
            8 | 9 => self.tables.extend(heaps.resources().allocate(1 + random.below(9) as u32)),
            10 => drop(pick(&mut self.tables, random)),
            11 => {
                if let Some(mut table) = pick(&mut self.tables, random) {
                    let _ = table.renew();
                    self.tables.push(table);
                }
            }
            12 => self.sets.extend(BindingSet::new(&self.layout)),
            13 => drop(pick(&mut self.sets, random)),
            14 => self.draw(random),
            15 => {
                let recording = heaps.gpu.record("random");
                let view = heaps.resources().begin(&recording).unwrap();
                self.recordings.push((view, recording));
            }
            16 => drop(pick(&mut self.recordings, random)),
            17 => {
                let samplers = heaps.gpu.descriptors().unwrap().samplers();
                self.samplers.extend(samplers.get(&sampler(random.below(12))));
            }
            18 => drop(pick(&mut self.samplers, random)),
            19 | 20 => {
                let count = if random.below(3) == 0 { 1 + random.below(90) as u32 } else { 1 };
                self.ranges.extend(heaps.targets.allocate(count));
            }
            21 => pick(&mut self.ranges, random)
                .into_iter()
                .for_each(|range| heaps.targets.free(range).unwrap()),
            22 => pick(&mut self.ranges, random)
                .into_iter()
                .for_each(|range| heaps.targets.retire(range).unwrap()),
            23 => self.replace(random),
            _ => self.end_frame(random),
        }
    }

    /// Binds something to a set, and draws with it.
    fn draw(&mut self, random: &mut Random) {
        let Some(mut set) = pick(&mut self.sets, random) else { return };
        let binding = 1 + random.below(2) as usize;
        let _ = self.heaps.with_descriptor(|it| set.bind(binding, random.below(2) as u32, it, None));
        if let Some((view, _)) = self.recordings.last_mut() {
            let _ = set.commit(view);
            let _ = view.allocate(1 + random.below(20) as u32);
        }
        self.sets.push(set);
    }

    /// Grows a heap, or compacts it, where the previous one is gone.
    fn replace(&mut self, random: &mut Random) {
        let descriptors = self.heaps.gpu.descriptors().unwrap();
        let now = descriptors.resources().statistics();
        let _ = match random.below(4) {
            0 if now.slots.capacity < 200 => {
                let [slots, tables, transient] = [now.slots, now.tables, now.transient].map(|it| it.capacity);
                descriptors.resources().grow(slots + 3, tables + 5, transient + 8)
            }
            1 => descriptors.samplers().heap().compact(),
            _ => descriptors.resources().compact(),
        };
    }

    fn end_frame(&mut self, random: &mut Random) {
        self.heaps.gpu.reclaim();
        self.heaps.targets.reclaim();
        if random.below(8) == 0 {
            self.heaps.targets.trim();
        }
        self.heaps.gpu.allocator().end_frame();
    }

    /// Panics unless the reader knows what is in use: how much, and each of what the program has.
    fn compare(&self, reader: &Reader) {
        let [resources, samplers] = self.heaps.compare(reader);
        assert!(self.slots.iter().all(|slot| resources.ranges.get(&slot.index()) == Some(&1)));
        assert!(self.samplers.iter().all(|sampler| samplers.ranges.get(&sampler.index()) == Some(&1)));
        let recording = self.heaps.gpu.record("compares");
        let view = self.heaps.resources().begin(&recording).unwrap();
        for table in &self.tables {
            let place = view.place(table).unwrap();
            assert_eq!(resources.ranges.get(&place.first), Some(&place.count));
        }
    }
}

/// Takes out one of some, at random.
fn pick<T>(from: &mut Vec<T>, random: &mut Random) -> Option<T> {
    let last = from.len().checked_sub(1)?;
    Some(from.swap_remove(random.below(last as u64 + 1) as usize))
}

fn of_kind(
    heaps: &BTreeMap<ObjectId, DescriptorHeap>,
    kind: DescriptorKind,
) -> impl Iterator<Item = &DescriptorHeap> {
    heaps.values().filter(move |heap| heap.kind == kind).inspect(|heap| {
        let mut end = 0;
        for (&first, &count) in &heap.ranges {
            assert!(first >= end && count > 0, "no two ranges share a slot");
            end = first + count;
        }
        assert!(end <= heap.capacity);
    })
}

/// Compares one shader-visible heap, which is the only one of its kind. Returns the driver's heap that it is now.
fn compare_shader_visible<'a>(
    heaps: &'a BTreeMap<ObjectId, DescriptorHeap>,
    kind: DescriptorKind,
    heap: &Heap,
    alignment: u32,
) -> &'a DescriptorHeap {
    let is = heap.statistics();
    // By their ids, and so by their age.
    let mut found: Vec<_> = of_kind(heaps, kind).collect();
    let now = found.pop().expect("the heap exists");
    assert_eq!(now.capacity, is.capacity);
    let used =
        |of: &DescriptorHeap, region: Range<u32>| of.ranges.range(region).map(|(_, count)| count).sum();
    let tables = is.slots.capacity.next_multiple_of(alignment);
    let chunks = (tables + is.tables.capacity).next_multiple_of(alignment);
    let counted: [u32; 3] = [0..tables, tables..chunks, chunks..u32::MAX].map(|region| used(now, region));
    assert_eq!(counted, [is.slots.used, is.tables.used, is.transient.used]);
    assert!(found.len() <= 1, "a heap is replaced once its predecessor is gone");
    for old in found {
        assert!(!old.ranges.is_empty() || heap.retiring().pending > 0, "it waits for its recordings");
    }
    now
}

/// Compares all CPU descriptor heaps of a kind.
fn compare_cpu(
    heaps: &BTreeMap<ObjectId, DescriptorHeap>,
    kind: DescriptorKind,
    are: &[DescriptorHeapStatistics],
) {
    let (mut pages, mut capacity, mut used) = (0, 0, 0);
    for page in of_kind(heaps, kind) {
        pages += 1;
        capacity += page.capacity;
        used += page.ranges.values().sum::<u32>();
    }
    let sum = |of: fn(&DescriptorHeapStatistics) -> u32| are.iter().map(of).sum::<u32>();
    let expected = (sum(|is| is.pages), sum(|is| is.capacity), sum(|is| is.used));
    assert_eq!((pages, capacity, used), expected, "{kind}");
}

fn subscribe(gpu: &Gpu<SimulatedGpu>, waiting: usize) -> EventSubscription {
    let mut desc = SubscriptionDesc::default();
    desc.max_waiting_events = waiting;
    gpu.subscribe(&desc).unwrap()
}

#[test]
fn the_events_lead_to_the_descriptors_in_use_after_every_step() {
    for seed in 1..=24 {
        // Tables of the other are aligned.
        let mut program = Program::new(if seed % 2 == 0 { "discrete-large-bar" } else { "mobile" });
        let (mut random, mut reader) = (Random(seed * 0x9e37_79b9), Reader::default());
        // The reader comes after a while.
        (0..random.below(600)).for_each(|_| program.step(&mut random));
        let mut events = subscribe(&program.heaps.gpu, 1 << 19);
        for _ in 0..1200 {
            program.step(&mut random);
            reader.read(&mut events);
            program.compare(&reader);
        }
        assert_eq!(reader.lost, 0);
        let allocator = Arc::clone(program.heaps.gpu.allocator());
        drop(program);
        reader.read(&mut events);
        assert!(reader.state.descriptor_heaps.is_empty(), "{:?}", reader.state.descriptor_heaps);
        drop(allocator);
    }
}

#[test]
fn a_reader_that_lost_events_hears_of_all_descriptors_again() {
    for seed in 1..=12 {
        let mut program = Program::new("discrete-large-bar");
        let (mut random, mut reader) = (Random(seed * 0x51_ed27), Reader::default());
        let mut events = subscribe(&program.heaps.gpu, 32);
        for _ in 0..40 {
            (0..200).for_each(|_| program.step(&mut random));
            reader.catch_up(&mut events, program.heaps.gpu.allocator());
            program.compare(&reader);
        }
        assert!(reader.lost > 5);
    }
}

#[test]
fn a_heap_that_is_replaced_is_another_one_and_the_old_one_stays_for_its_recordings() {
    let heaps = Heaps::new("discrete-large-bar");
    let mut events = subscribe(&heaps.gpu, 1 << 19);
    let mut reader = Reader::default();
    let heap = heaps.resources();
    let (gone, _kept) = (heap.allocate(4).unwrap(), heap.allocate(4).unwrap());
    heaps.insert().unwrap();
    let recording = heaps.gpu.record("began before");
    let mut view = heap.begin(&recording).unwrap();
    view.allocate(5).unwrap();
    drop(gone);
    heap.compact().unwrap();
    reader.read(&mut events);
    heaps.compare(&reader);
    let found = |reader: &Reader| -> Vec<(String, Vec<(u32, u32)>)> {
        let found = of_kind(&reader.state.descriptor_heaps, DescriptorKind::ShaderVisibleResources);
        found.map(|heap| (reader.text(heap.name).into(), heap.ranges.clone().into_iter().collect())).collect()
    };
    let (old, new) = (vec![(130, 8)], vec![(0, 1), (70, 4), (74, 4)]);
    assert_eq!(found(&reader), [(String::new(), old), ("generation 1".into(), new)], "a chunk stays");
    drop((view, recording));
    heaps.gpu.reclaim();
    reader.read(&mut events);
    assert_eq!(found(&reader), [("generation 1".into(), vec![(0, 1), (74, 4)])]);
    heaps.compare(&reader);
}

#[test]
fn a_heap_that_is_dropped_is_destroyed_when_its_last_recording_is_complete() {
    let heaps = Heaps::new("discrete-large-bar");
    let desc = ShaderVisibleHeapDesc::resources().with_regions(8, 8, 16).with_chunk(8);
    let heap = ShaderVisibleHeap::new(heaps.gpu.allocator(), heaps.gpu.tracker(), desc).unwrap();
    let table = heap.allocate(3).unwrap();
    heaps.with_descriptor(|it| heap.insert(it, None)).unwrap();
    let recording = heaps.gpu.record("uses the heap");
    let mut view = heap.begin(&recording).unwrap();
    view.allocate(1).unwrap();
    let found = |reader: &Reader| -> Option<Vec<(u32, u32)>> {
        let found = reader.state.descriptor_heaps.values().find(|heap| heap.capacity == 32)?;
        Some(found.ranges.clone().into_iter().collect())
    };
    let mut events = subscribe(&heaps.gpu, 1 << 19);
    let mut reader = Reader::default();
    reader.read(&mut events);
    assert_eq!(found(&reader).unwrap(), [(0, 1), (8, 3), (16, 8)]);
    drop(heap);
    reader.read(&mut events);
    assert_eq!(found(&reader).unwrap(), [(16, 8)], "its slots and tables are in no heap any more");
    // A reader that comes now finds the same.
    drop(events);
    let mut events = subscribe(&heaps.gpu, 1 << 19);
    let mut reader = Reader::default();
    reader.read(&mut events);
    assert_eq!(found(&reader).unwrap(), [(16, 8)]);
    drop((table, view, recording));
    heaps.gpu.reclaim();
    reader.read(&mut events);
    assert_eq!(found(&reader), None);
}

#[test]
fn each_descriptor_is_allocated_and_freed_in_one_event() {
    let heaps = Heaps::new("discrete-large-bar");
    let mut events = subscribe(&heaps.gpu, 1 << 19);
    let mut reader = Reader::default();
    reader.read(&mut events);
    for _ in 0..3 {
        let single = heaps.targets.allocate(1).unwrap();
        let slot = heaps.insert().unwrap();
        heaps.targets.free(single).unwrap();
        heaps.resources().remove(slot).unwrap();
        heaps.resources().reclaim();
    }
    reader.read(&mut events);
    let count = |is: fn(&Event) -> bool| reader.batch.events().iter().filter(|event| is(event)).count();
    assert_eq!(count(|event| matches!(event, Event::DescriptorHeapCreated { .. })), 1, "a page");
    assert_eq!(count(|event| matches!(event, Event::DescriptorsAllocated { count: 1, .. })), 6);
    assert_eq!(count(|event| matches!(event, Event::DescriptorsFreed { count: 1, .. })), 6);
}

/// Stops the threads when it is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a thread does to the heaps that all share, until it is told to stop.
fn hammer(heaps: &Heaps, mut random: Random, kept: &mut Vec<CpuDescriptorRange>, stop: &AtomicBool) {
    let mut slots = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match random.below(8) {
            0..3 if kept.len() < 200 => {
                let count = if random.below(6) == 0 { 2 + random.below(30) as u32 } else { 1 };
                kept.extend(heaps.targets.allocate(count));
            }
            0..5 => {
                let gone = pick(kept, &mut random);
                gone.into_iter().for_each(|range| heaps.targets.free(range).unwrap());
            }
            5 => slots.extend(heaps.insert()),
            6 => {
                let gone = pick(&mut slots, &mut random);
                gone.into_iter().for_each(|slot| heaps.resources().remove(slot).unwrap());
            }
            _ => {
                let one = heaps.targets.allocate(1).unwrap();
                heaps.targets.free(one).unwrap();
                if random.below(16) == 0 {
                    heaps.targets.trim();
                    let _ = heaps.resources().compact();
                }
            }
        }
    }
    slots.into_iter().for_each(|slot| heaps.resources().remove(slot).unwrap());
}

#[test]
fn the_events_of_several_threads_lead_to_the_descriptors_in_use() {
    for (seed, waiting) in [(1_u64, 1 << 19), (2, 1 << 19), (3, 400), (4, 64)] {
        let heaps = &Heaps::new("discrete-large-bar");
        let mut kept: Vec<Vec<_>> = (0..2).map(|_| Vec::new()).collect();
        for round in 0..2 {
            let stop = &AtomicBool::new(false);
            let mut reader = Reader::default();
            let mut events = std::thread::scope(|scope| {
                for (thread, kept) in (1_u64..).zip(&mut kept) {
                    let random = Random(seed << 32 | round << 8 | thread);
                    scope.spawn(move || hammer(heaps, random, kept, stop));
                }
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        heaps.gpu.reclaim();
                        std::thread::yield_now();
                    }
                });
                // In the midst of it, again and again: the last reader stays.
                // Also where this panics: the threads would run for ever.
                let _stops = StopOnDrop(stop);
                for _ in 0..20 {
                    Reader::default().read(&mut subscribe(&heaps.gpu, waiting));
                    std::thread::yield_now();
                }
                let mut events = subscribe(&heaps.gpu, waiting);
                for _ in 0..8 {
                    reader.read(&mut events);
                    std::thread::yield_now();
                }
                events
            });
            reader.catch_up(&mut events, heaps.gpu.allocator());
            heaps.compare(&reader);
        }
        kept.into_iter().flatten().for_each(|range| heaps.targets.free(range).unwrap());
    }
}

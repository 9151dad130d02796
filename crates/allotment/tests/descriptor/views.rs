//! Views with owners under generated operations: views, slots and sets of resources that move, made and dropped in any order,
//! with work in flight. What work reads is what a model says, and at the end nothing is left.

use std::collections::HashSet;
use std::sync::Arc;

use allotment::descriptor::{
    Binding, BindingLayout, BindingSet, BufferView, DescriptorSlot, ImageView, TexelBufferView,
};
use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferDesc, BufferUse, BufferViewDesc, ImageDesc, ImageViewDesc, TexelBufferDesc, TexelBufferUse,
};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, PassLimits,
};
use allotment::memory::{Buffer, Image};
use allotment::{AllocationOptions, MemoryUsage};

use crate::amount::{first_seed, scaled};
use crate::bytes::Random;
use crate::rig::{Heap, Reading, Rig, Staging};

/// Four of them fill a block.
const SIZE: u64 = 1 << 20;
/// The descriptors of the set: those of its table, and a dynamic one.
const BOUND: usize = 5;

/// A resource. A buffer holds a number at its start, and the next one at byte 256.
enum Resource {
    Buffer(Arc<Buffer<SimulatedGpu>>, u32),
    Image(Arc<Image<SimulatedGpu>>),
}

/// A view, and what work reads through it.
enum View {
    Bytes(Arc<BufferView<SimulatedGpu>>, u32),
    Texels(Arc<TexelBufferView<SimulatedGpu>>, u32),
    Image(Arc<ImageView<SimulatedGpu>>),
}

impl View {
    fn cpu_descriptor(&self) -> u64 {
        match self {
            Self::Bytes(view, _) => view.cpu_descriptor(),
            Self::Texels(view, _) => view.cpu_descriptor(),
            Self::Image(view) => view.cpu_descriptor(),
        }
        .unwrap()
    }

    /// What is read; nothing of images, which work samples.
    fn number(&self) -> Option<u32> {
        match self {
            Self::Bytes(_, number) | Self::Texels(_, number) => Some(*number),
            Self::Image(_) => None,
        }
    }

    fn moves(&self) -> u32 {
        match self {
            Self::Bytes(view, _) => view.buffer().moves(),
            Self::Texels(view, _) => view.buffer().moves(),
            Self::Image(view) => view.image().moves(),
        }
    }
}

struct World<'r> {
    rig: &'r Rig,
    random: Random,
    defragmenter: Defragmenter<SimulatedGpu>,
    heap: Arc<Heap>,
    cpu_heap: Arc<Staging>,
    layout: BindingLayout<SimulatedGpu>,
    next: u32,
    resources: Vec<Resource>,
    views: Vec<View>,
    /// Of each view, how often its resource had been moved when its descriptor was asked for, and where that was.
    looked: Vec<Option<(u32, u64)>>,
    slots: Vec<(DescriptorSlot, Option<u32>)>,
    set: BindingSet<SimulatedGpu>,
    bound: [Option<u32>; BOUND],
    in_flight: Vec<(Reading, Vec<u32>)>,
    moves: u32,
    reads: usize,
    /// Descriptors that were asked for after a move of their resource.
    made_anew: usize,
}

impl<'r> World<'r> {
    fn new(rig: &'r Rig, seed: u64) -> Self {
        let desc = DefragmenterDesc::new(DefragmentationDesc::new(DefragmentationStrategy::Full));
        let defragmenter = Defragmenter::new(&rig.memory, desc).unwrap();
        let (heap, cpu_heap) = (Arc::new(rig.resources(128, 512, 512)), rig.staging(64));
        let bindings = [Binding::mutable("seen").array(BOUND as u32 - 1), Binding::dynamic("of a draw")];
        let layout = BindingLayout::new(&heap, &cpu_heap, &bindings).unwrap();
        let set = BindingSet::new(&layout).unwrap();
        Self {
            rig,
            random: Random::new(seed),
            defragmenter,
            heap,
            cpu_heap,
            layout,
            next: 1,
            resources: Vec::new(),
            views: Vec::new(),
            looked: Vec::new(),
            slots: Vec::new(),
            set,
            // Descriptors of nothing read zeros.
            bound: [Some(0); BOUND],
            in_flight: Vec::new(),
            moves: 0,
            reads: 0,
            made_anew: 0,
        }
    }

    fn index(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| self.random.below(count.max(1) as u64) as usize)
    }

    fn create(&mut self) {
        if self.resources.len() >= 16 {
            return;
        }
        let options = AllocationOptions::new(MemoryUsage::DeviceUpload).with_name("seen");
        let resource = if self.random.below(4) == 0 {
            let image = self.defragmenter.create_image(&ImageDesc::new(512, 512, 4), &options).unwrap();
            // SAFETY: the simulated device has one state.
            unsafe { image.set_state(()) };
            Resource::Image(Arc::new(image))
        } else {
            let desc = BufferDesc::new(SIZE);
            let buffer = if self.random.below(8) == 0 {
                self.rig.memory.create_buffer(&desc, &options)
            } else {
                self.defragmenter.create_buffer(&desc, &options)
            };
            let (buffer, number) = (buffer.unwrap(), 2 * self.next);
            buffer.write(0, &number.to_le_bytes()).unwrap();
            buffer.write(256, &(number + 1).to_le_bytes()).unwrap();
            self.next += 1;
            Resource::Buffer(Arc::new(buffer), number)
        };
        self.resources.push(resource);
    }

    fn create_view(&mut self) {
        let Some(at) = self.index(self.resources.len()) else { return };
        let (second, kind) = (self.random.below(2), self.random.below(4));
        let (memory, cpu_heap) = (&self.rig.memory, Some(&self.cpu_heap));
        let range = 256 * second..256 * second + 256;
        let view = match &self.resources[at] {
            Resource::Image(image) => {
                let view = ImageView::new(memory, cpu_heap, image, &ImageViewDesc::sampled());
                View::Image(Arc::new(view.unwrap()))
            }
            Resource::Buffer(buffer, number) if kind == 0 => {
                let desc = TexelBufferDesc::new(range, 16, TexelBufferUse::Uniform);
                let view = TexelBufferView::new(memory, cpu_heap, buffer, &desc).unwrap();
                View::Texels(Arc::new(view), number + second as u32)
            }
            Resource::Buffer(buffer, number) => {
                let desc = BufferViewDesc::new(range, BufferUse::ReadOnly);
                let desc = if kind == 1 { desc.with_stride(32) } else { desc };
                let view = BufferView::new(memory, cpu_heap, buffer, &desc).unwrap();
                View::Bytes(Arc::new(view), number + second as u32)
            }
        };
        self.views.push(view);
        self.looked.push(None);
    }

    fn insert(&mut self) {
        let Some(at) = self.index(self.views.len()).filter(|_| self.slots.len() < 32) else { return };
        let slot = match &self.views[at] {
            View::Bytes(view, _) => self.heap.insert_buffer_view(view),
            View::Texels(view, _) => self.heap.insert_texel_buffer(view),
            View::Image(view) => self.heap.insert_view(view),
        };
        self.slots.push((slot.unwrap(), self.views[at].number()));
    }

    fn bind(&mut self) {
        let Some(at) = self.index(self.views.len()) else { return };
        let place = self.random.below(BOUND as u64) as usize;
        let (binding, element) = if place + 1 == BOUND { (1, 0) } else { (0, place as u32) };
        match &self.views[at] {
            View::Bytes(view, _) => self.set.bind_buffer_view(binding, element, view),
            View::Texels(view, _) => self.set.bind_texel_buffer(binding, element, view),
            View::Image(view) => self.set.bind_view(binding, element, view),
        }
        .unwrap();
        self.bound[place] = self.views[at].number();
    }

    /// Each view has a descriptor of its own, which stays where it is until the resource moves, and not after that.
    fn look_at_descriptors(&mut self) {
        let found: Vec<_> = self.views.iter().map(|view| (view.moves(), view.cpu_descriptor())).collect();
        assert_eq!(found.iter().map(|it| it.1).collect::<HashSet<_>>().len(), found.len(), "{found:x?}");
        for (before, now) in self.looked.iter_mut().zip(found) {
            if let Some((moves, address)) = before.replace(now) {
                assert_eq!(moves == now.0, address == now.1, "moved {moves} times, and now {}", now.0);
                self.made_anew += usize::from(moves != now.0);
            }
        }
    }

    /// Submits work that reads through all slots and the set.
    fn read(&mut self) {
        let recording = self.rig.record().only_reads();
        let mut view = self.heap.begin(&recording).unwrap();
        // A table that is newer than the heap of the recording has no place in it.
        let Ok(draw) = self.set.commit(&mut view) else { return };
        let (table, dynamic) = (draw.table.unwrap().first, draw.dynamic.unwrap().first);
        let places = (table..).take(BOUND - 1).chain([dynamic]).zip(self.bound);
        let slots = self.slots.iter().map(|(slot, number)| (slot.index(), *number));
        let known = places.chain(slots).filter_map(|(index, number)| Some((index, number?)));
        let (indices, expected): (Vec<_>, Vec<_>) = known.unzip();
        let reading = self.rig.submit_reads(recording, view.heap(), &indices);
        self.reads += expected.len();
        self.in_flight.push((reading, expected));
        if self.in_flight.len() > 3 {
            self.compare();
        }
    }

    fn compare(&mut self) {
        let (reading, expected) = self.in_flight.remove(0);
        assert_eq!(reading.wait(), expected);
    }

    fn operate(&mut self) {
        match self.random.below(20) {
            0..=1 => self.create(),
            2..=4 => self.create_view(),
            5..=6 => self.insert(),
            7 => self.bind(),
            8 | 16 => {
                let at = self.index(self.views.len());
                if let Some(at) = at {
                    self.looked.swap_remove(at);
                    self.views.swap_remove(at);
                }
            }
            9..=10 => {
                let at = self.index(self.resources.len());
                at.into_iter().for_each(|at| drop(self.resources.swap_remove(at)));
                if self.random.below(12) == 0 {
                    // So that blocks get holes: what is seen by nothing but views goes with them.
                    self.views.clear();
                    self.looked.clear();
                }
            }
            11 => {
                let at = self.index(self.slots.len());
                at.into_iter().for_each(|at| self.heap.remove(self.slots.swap_remove(at).0).unwrap());
            }
            12 | 19 => self.moves += self.defragmenter.step(PassLimits::NONE).unwrap().statistics.moves,
            13 => self.read(),
            14 | 17 | 18 => self.look_at_descriptors(),
            _ => self.reclaim(),
        }
    }

    fn reclaim(&self) {
        self.rig.memory.deletion_queue().reclaim();
        self.heap.reclaim();
        self.cpu_heap.reclaim();
    }

    /// Drops all in some order. Returns the moves, and what was read.
    fn finish(mut self) -> [usize; 3] {
        while !self.in_flight.is_empty() {
            self.compare();
        }
        let first = self.random.below(3);
        for at in first..first + 3 {
            match at % 3 {
                0 => self.views.clear(),
                1 => self.resources.clear(),
                _ => self.slots.drain(..).for_each(|(slot, _)| self.heap.remove(slot).unwrap()),
            }
        }
        let Self { rig, defragmenter, heap, cpu_heap, layout, set, moves, reads, made_anew, .. } = self;
        drop((set, layout, defragmenter));
        rig.wait_idle();
        // A slot keeps a view, the view its resource.
        for _ in 0..4 {
            rig.memory.deletion_queue().reclaim();
            heap.reclaim();
            cpu_heap.reclaim();
        }
        assert_eq!(rig.memory.deletion_queue().statistics().pending, 0);
        let left = heap.statistics();
        assert_eq!((left.slots.used, left.tables.used), (0, 0));
        cpu_heap.trim();
        assert_eq!((cpu_heap.statistics().used, cpu_heap.statistics().pages), (0, 0));
        [moves as usize, reads, made_anew]
    }
}

#[test]
fn views_moves_and_drops_in_any_order_read_what_a_model_says_and_leave_nothing() {
    let mut all = [0; 3];
    for seed in 0..scaled(60).max(6) {
        let rig = Rig::new();
        let allocations = rig.allocator.statistics().allocations;
        let mut world = World::new(&rig, first_seed() + seed);
        (0..2000).for_each(|_| world.operate());
        let counts = world.finish();
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        assert_eq!(rig.allocator.statistics().allocations, allocations, "seed {seed}");
        rig.assert_no_complaints();
    }
    let [moves, reads, made_anew] = all;
    assert!(
        moves > 20 && reads > 1000 && made_anew > 5,
        "{moves} moves, {reads} reads, {made_anew} made anew"
    );
}

//! Random recordings that are consistent: every event applies to the state that the events before it lead to.

use allotment::device::{MemoryHeapIndex, MemoryTypeIndex, QueueIndex};
use allotment::memory::MemoryUsage;
use allotment::{Algorithm, Alignment, ResourceKind};
use allotment_trace::recording::{
    Allocated, AllocationKey, Api, BlockId, BlockKind, DeletionQueueKind, DescriptorKind, Event, Header,
    Heap, Live, MemoryType, ObjectId, Placement, PoolId, Recording, RefusalReason, RingKind, StallKind,
    State, TextId,
};

/// Names that formats could stumble over. The first is an ordinary one.
pub(crate) const NAMES: [&str; 12] = [
    "mesh",
    "a \"quoted\" name",
    "with, commas; and\ttabs",
    "two\nlines\r\nor three",
    "</script><script>alert(1)</script>",
    "back\\slash \u{1}\u{1f}\u{7f} \u{2028}\u{feff}",
    "ünïcödé 🎮",
    "17",
    "99999999999999999999",
    "VK_FORMAT_R8G8B8A8_UNORM 64x64x1",
    "=1+1",
    " \r",
];

/// What a generated recording has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How many steps: a step is one to six events.
    pub(crate) steps: usize,
    /// Allocations may share bytes.
    pub(crate) aliasing: bool,
    /// Events may be lost, after which the whole state follows.
    pub(crate) lost: bool,
    pub(crate) api: Api,
}

impl Default for Shape {
    fn default() -> Self {
        Self { steps: 300, aliasing: false, lost: false, api: Api::Vulkan }
    }
}

/// `SplitMix64`: enough for tests, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }
}

struct Generator {
    random: Random,
    shape: Shape,
    recording: Recording,
    state: State,
    nanoseconds: u64,
    next_block: u64,
    next_allocation: u64,
}

/// Generates a recording. The same seed and shape give the same one.
pub(crate) fn recording(seed: u64, shape: Shape) -> Recording {
    let mut texts: Vec<String> = NAMES.map(String::from).into();
    texts
        .extend((0..20).map(|i| format!("src/scene/{}.rs:{}:9", ["mesh", "light", "ui"][i % 3], 10 + i * 7)));
    let memory_types = vec![
        MemoryType { heap: 0, properties: 1 },
        MemoryType { heap: 1, properties: 0b110 },
        MemoryType { heap: 0, properties: 0b111 },
    ];
    let header = Header {
        producer: "a generator of recordings".into(),
        api: shape.api,
        device: "a \"device\"".into(),
        heaps: vec![Heap { size: 1 << 30, device_local: true }, Heap { size: 4 << 30, device_local: false }],
        memory_types,
        buffer_image_granularity: 1024,
        non_coherent_atom_size: 64,
        max_memory_objects: 4096,
        ..Header::default()
    };
    let recording = Recording { header, texts, ..Recording::default() };
    let (random, state) = (Random(seed), State::default());
    let mut generator =
        Generator { random, shape, recording, state, nanoseconds: 0, next_block: 0, next_allocation: 0 };
    for pool in 0..3 {
        generator.create_pool(pool);
    }
    for _ in 0..shape.steps {
        generator.step();
    }
    generator.recording
}

impl Generator {
    fn push(&mut self, event: Event) {
        self.state.apply(&event).unwrap();
        self.recording.events.push(event);
    }

    fn text(&mut self) -> TextId {
        TextId(self.random.below(NAMES.len() as u64 + 1) as u32)
    }

    fn allocations(&self) -> Vec<AllocationKey> {
        let mut keys: Vec<_> = self.state.allocations.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    fn blocks(&self) -> Vec<BlockId> {
        let mut ids: Vec<_> = self.state.blocks.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn create_pool(&mut self, index: u64) {
        let name = self.text();
        let algorithm = Algorithm::ALL.get(index as usize % 4).copied();
        self.push(Event::PoolCreated { pool: PoolId(index as u32), name, algorithm, custom: index > 0 });
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => {
                self.nanoseconds += self.random.below(3_000_000);
                self.push(Event::Time { nanoseconds: self.nanoseconds });
            }
            1 => self.push(Event::FrameEnd { number: self.state.now.frame }),
            2 => {
                let text = self.text();
                self.push(Event::Mark { text });
            }
            3..=4 => {
                self.allocate_block(BlockKind::Shared);
            }
            5 => self.free_block(),
            6 => self.allocate_dedicated(),
            7..=18 => self.allocate_shared(),
            19..=20 => self.alias(),
            21..=24 => {
                if let Some(allocation) = self.random.pick(&self.allocations()) {
                    self.push(Event::FreeRequested { allocation });
                }
            }
            25..=31 => {
                if let Some(allocation) = self.random.pick(&self.allocations()) {
                    self.push(Event::Freed { allocation });
                }
            }
            32..=33 => self.relocate(),
            34 => self.label_and_map(),
            35 => {
                let heap = MemoryHeapIndex(self.random.below(2) as u8);
                let (usage, budget) = (self.random.below(1 << 30), self.random.below(1 << 30));
                self.push(Event::Budget { heap, usage, budget });
            }
            36 => {
                let reason = self.random.pick(RefusalReason::ALL).unwrap();
                let (requested, name) = (self.random.below(1 << 40), self.text());
                self.push(Event::Refused { reason, requested, available: 4096, largest_free: 1024, name });
                let kind = self.random.pick(StallKind::ALL).unwrap();
                self.push(Event::Stalled { kind, nanoseconds: self.random.0 % 1_000_000 });
            }
            37 => {
                let value = self.state.now.event;
                self.push(Event::Submitted { queue: QueueIndex(0), value });
                self.push(Event::Completed { queue: QueueIndex(0), value: value / 2 });
            }
            38 => {
                self.other_objects();
                self.resize_block();
            }
            _ if self.shape.lost => self.lose(),
            _ => {}
        }
    }

    fn allocate_block(&mut self, kind: BlockKind) -> BlockId {
        let block = BlockId(self.next_block);
        self.next_block += 1;
        let pool = PoolId(self.random.below(3) as u32);
        let size = (1 + self.random.below(64)) << 16;
        let memory_type = MemoryTypeIndex(self.random.below(3) as u8);
        self.push(Event::BlockAllocated { block, pool, memory_type, kind, size });
        block
    }

    fn free_block(&mut self) {
        let empty = |block: &BlockId| self.state.blocks[block].allocations.is_empty();
        let empty: Vec<_> = self.blocks().into_iter().filter(empty).collect();
        if let Some(block) = self.random.pick(&empty) {
            self.push(Event::BlockFreed { block });
        }
    }

    fn allocate_dedicated(&mut self) {
        let block = self.allocate_block(BlockKind::Dedicated);
        let size = self.state.blocks[&block].size;
        let requested = size - self.random.below(2) * self.random.below(size);
        self.allocate(block, 0, requested, size, Placement::DedicatedBlock);
    }

    fn allocate_shared(&mut self) {
        let occupied = (1 + self.random.below(100)) << 8;
        if let Some((block, offset)) = self.hole(occupied) {
            let requested = occupied - self.random.below(2) * self.random.below(occupied);
            self.allocate(block, offset, requested, occupied, Placement::ExistingBlock);
        }
    }

    fn alias(&mut self) {
        let Some(key) = self.random.pick(&self.allocations()) else { return };
        let of = self.state.allocations[&key].is;
        if self.shape.aliasing {
            let offset = of.offset + self.random.below(of.occupied);
            let occupied = 1 + self.random.below(self.state.blocks[&of.block].size - offset);
            self.allocate(of.block, offset, occupied, occupied, Placement::Unknown);
        }
    }

    /// Returns where an allocation fits, if there is such a place in a shared block.
    fn hole(&mut self, size: u64) -> Option<(BlockId, u64)> {
        let mut holes = Vec::new();
        for id in self.blocks() {
            let block = &self.state.blocks[&id];
            if block.kind != BlockKind::Shared {
                continue;
            }
            let fits = |end: u64, begin: u64| begin.checked_sub(end).is_some_and(|hole| hole >= size);
            let mut end = 0;
            for (offset, key) in &block.allocations {
                if fits(end, *offset) {
                    holes.push((id, *offset - size));
                }
                end = end.max(offset + self.state.allocations[key].is.occupied);
            }
            if fits(end, block.size) {
                holes.push((id, end));
            }
        }
        self.random.pick(&holes)
    }

    fn allocate(
        &mut self,
        block: BlockId,
        offset: u64,
        requested: u64,
        occupied: u64,
        placement: Placement,
    ) -> AllocationKey {
        // Keys are used again, as in recordings of the library.
        let mut key = AllocationKey(self.random.below(1 << 10));
        if self.state.allocations.contains_key(&key) {
            self.next_allocation += 1;
            key = AllocationKey((1 << 10) + self.next_allocation);
        }
        let kinds = [
            ResourceKind::Buffer,
            ResourceKind::LinearImage,
            ResourceKind::OptimalImage,
            ResourceKind::Unknown,
        ];
        let (name, category) = (self.text(), self.text());
        let usages: Vec<_> = MemoryUsage::ALL.map(Some).into_iter().chain([None]).collect();
        let (usage, kind) = (self.random.pick(&usages).unwrap(), self.random.pick(&kinds).unwrap());
        let log2_alignment = u64::from(offset.trailing_zeros()).min(self.random.below(9));
        self.push(Event::Allocated(Allocated {
            allocation: key,
            block,
            offset,
            requested,
            occupied,
            user_data: self.random.0 % 3,
            name,
            category,
            alignment: Alignment::new(1 << log2_alignment).unwrap(),
            usage,
            kind,
            placement,
            second_choice: self.random.0 % 7 == 0,
            movable: self.random.0 % 2 == 0,
        }));
        if placement != Placement::Destination && self.random.below(4) > 0 {
            let site = TextId(1 + NAMES.len() as u32 + self.random.below(20) as u32);
            self.push(Event::CallSite { allocation: key, site });
        }
        key
    }

    /// A move: the destination is reserved, exchanged, and the old range is freed, now or later.
    fn relocate(&mut self) {
        let keys = self.allocations();
        let Some(allocation) = self.random.pick(&keys).filter(|key| !self.state.allocations[key].reservation)
        else {
            return;
        };
        let of = self.state.allocations[&allocation].is;
        if let Some((block, offset)) = self.hole(of.occupied) {
            let reservation = self.allocate(block, offset, of.occupied, of.occupied, Placement::Destination);
            self.push(Event::Reserved { reservation, allocation });
            self.push(Event::Exchanged { allocation, reservation });
            if self.random.below(2) == 0 {
                self.push(Event::Freed { allocation: reservation });
            }
        }
    }

    fn label_and_map(&mut self) {
        let Some(allocation) = self.random.pick(&self.allocations()) else { return };
        let (name, category) = (self.text(), self.text());
        self.push(Event::Labelled { allocation, name, category, user_data: 7 });
        let count = self.random.below(3) as u32;
        self.push(Event::Mapped { allocation, count });
        self.push(Event::Movable { allocation, movable: count == 0 });
    }

    /// A shared block gets another size, which all of its allocations fit.
    fn resize_block(&mut self) {
        let blocks = self.blocks();
        let shared = blocks.into_iter().filter(|block| self.state.blocks[block].kind == BlockKind::Shared);
        let shared: Vec<_> = shared.collect();
        if let Some(block) = self.random.pick(&shared) {
            let end = |live: &Live| live.is.offset + live.is.occupied;
            let of_block = self.state.allocations.values().filter(|live| live.is.block == block);
            let size = of_block.map(end).max().unwrap_or(1) + self.random.below(1 << 20);
            self.push(Event::BlockResized { block, size });
        }
    }

    fn other_objects(&mut self) {
        let id = ObjectId(self.random.below(4) as u32);
        let name = self.text();
        if !self.state.descriptor_heaps.contains_key(&id) {
            let kind = self.random.pick(DescriptorKind::ALL).unwrap();
            self.push(Event::DescriptorHeapCreated { heap: id, kind, capacity: 1000, name });
            self.push(Event::RingCreated { ring: id, kind: RingKind::Upload, capacity: 1 << 20, name });
        }
        let first = self.state.now.event as u32;
        self.push(Event::DescriptorsAllocated { heap: id, first, count: 10 });
        self.push(Event::RingUsed { ring: id, used: first.into() });
        self.push(Event::DeletionQueue { queue: id, kind: DeletionQueueKind::Objects, waiting: first % 100 });
    }

    /// Events are lost, and the whole state follows, with other allocations gone than those that were freed.
    fn lose(&mut self) {
        let (was, blocks, allocations) = (self.state.clone(), self.blocks(), self.allocations());
        self.push(Event::Lost);
        for (&pool, of) in &was.pools {
            let (name, algorithm, custom) = (of.name, of.algorithm, of.custom);
            self.push(Event::PoolCreated { pool, name, algorithm, custom });
        }
        for block in blocks {
            let of = &was.blocks[&block];
            let (pool, memory_type, kind, size) = (of.pool, of.memory_type, of.kind, of.size);
            self.push(Event::BlockAllocated { block, pool, memory_type, kind, size });
        }
        for live in allocations.iter().map(|key| &was.allocations[key]) {
            if self.random.below(4) > 0 {
                let placement = if live.reservation { Placement::Destination } else { Placement::Existing };
                let is = Allocated { placement, ..live.is };
                self.push(Event::Allocated(is));
                if live.reservation {
                    let allocation = live.is.allocation;
                    self.push(Event::Reserved { reservation: allocation, allocation });
                }
            }
        }
    }
}

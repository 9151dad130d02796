//! Recordings for the tests: made by a small allocator that places requests at the first hole that is large enough.

use std::collections::BTreeMap;

use allotment::Algorithm;
use allotment::Alignment;
use allotment::device::{MemoryHeapIndex, MemoryTypeIndex, QueueIndex, ResourceKind};
use allotment_trace::recording::{
    Allocated, AllocationKey, Api, BlockId, BlockKind, BoundResource, DeletionQueueKind, DescriptorKind,
    Event, Header, Heap, MemoryType, ObjectId, Placement, PoolId, Recording, RefusalReason, RingKind,
    StallKind, TextId,
};

pub(crate) const MIB: u64 = 1 << 20;

/// A name that would end the script that it were in.
pub(crate) const HOSTILE: &str =
    "</script><script>document.title='harmed'</script><img src=x onerror=\"document.title='harmed'\">";

/// Random numbers: a step of xorshift.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Makes a recording event by event.
#[derive(Default)]
pub(crate) struct Maker {
    pub(crate) recording: Recording,
    texts: BTreeMap<String, TextId>,
    /// Block, and by offset the end of what is allocated there.
    blocks: Vec<(BlockId, PoolId, u64, BTreeMap<u64, u64>)>,
    live: Vec<(AllocationKey, usize, u64)>,
    last_block: u64,
    last_key: u64,
    bound: Vec<BoundResource>,
}

impl Maker {
    pub(crate) fn text(&mut self, text: &str) -> TextId {
        if let Some(&id) = self.texts.get(text) {
            return id;
        }
        self.recording.texts.push(text.to_owned());
        let id = TextId(self.recording.texts.len() as u32);
        self.texts.insert(text.to_owned(), id);
        id
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.recording.events.push(event);
    }

    pub(crate) fn pool(&mut self, id: u32, name: &str, algorithm: Algorithm) {
        let name = if name.is_empty() { TextId::NONE } else { self.text(name) };
        self.event(Event::PoolCreated {
            pool: PoolId(id),
            name,
            algorithm: Some(algorithm),
            custom: !name.is_none(),
        });
    }

    pub(crate) fn block(&mut self, pool: u32, memory_type: u8, size: u64) -> usize {
        self.last_block += 1;
        let (block, pool) = (BlockId(self.last_block), PoolId(pool));
        let (memory_type, kind) = (MemoryTypeIndex(memory_type), BlockKind::Shared);
        self.event(Event::BlockAllocated { block, pool, memory_type, kind, size });
        self.blocks.push((block, pool, size, BTreeMap::new()));
        self.blocks.len() - 1
    }

    /// Allocates in a block, and returns the key; `None` if there is no room.
    pub(crate) fn allocate(
        &mut self,
        block: usize,
        name: &str,
        requested: u64,
        occupied: u64,
    ) -> Option<AllocationKey> {
        let (_, _, size, taken) = &mut self.blocks[block];
        let mut offset = 0;
        for (&low, &high) in taken.iter() {
            if low - offset >= occupied {
                break;
            }
            offset = high;
        }
        if *size - offset < occupied {
            return None;
        }
        taken.insert(offset, offset + occupied);
        Some(self.allocate_at(block, name, offset, requested, occupied, 256))
    }

    /// Allocates at an offset, whatever is there.
    pub(crate) fn allocate_at(
        &mut self,
        block: usize,
        name: &str,
        offset: u64,
        requested: u64,
        occupied: u64,
        alignment: u64,
    ) -> AllocationKey {
        let id = self.blocks[block].0;
        self.last_key += 1;
        let allocation = AllocationKey(self.last_key);
        let (name, category) = (self.text(name), self.text(name.split(' ').next().unwrap_or_default()));
        self.live.push((allocation, block, offset));
        self.event(Event::Allocated(Allocated {
            allocation,
            block: id,
            offset,
            requested,
            occupied,
            user_data: 0xfeed_0000_0000_0000 | self.last_key,
            name,
            category,
            alignment: Alignment::new(alignment).unwrap(),
            usage: Some(allotment::memory::MemoryUsage::GpuOnly),
            kind: ResourceKind::Buffer,
            placement: Placement::ExistingBlock,
            second_choice: false,
            movable: true,
        }));
        allocation
    }

    /// The targets of a frame graph: some share bytes, and one leaves padding before it.
    fn targets(&mut self, block: usize, turn: u64) -> Vec<AllocationKey> {
        let half = MIB / 2;
        let mut targets = vec![
            self.allocate_at(block, "target shadow map", 0, 3 * MIB - 100, 3 * MIB, 256),
            self.allocate_at(block, "target ssao", 7 * half, 3 * half, 3 * half, 256),
            self.allocate_at(block, "target smoke", 5 * MIB + 20_000, MIB, MIB, 32_768),
        ];
        if turn % 3 != 2 {
            targets.push(self.allocate_at(block, "target gbuffer", MIB, 4 * MIB, 4 * MIB, 256));
            targets.push(self.allocate_at(block, "target bloom", 5 * half, 3 * half, 3 * half, 256));
        }
        targets
    }

    /// Places a resource in the memory of an allocation.
    pub(crate) fn bind(
        &mut self,
        memory: AllocationKey,
        name: &str,
        offset: u64,
        size: u64,
        active: bool,
    ) -> AllocationKey {
        self.last_key += 1;
        let (resource, name) = (AllocationKey(self.last_key), self.text(name));
        let (kind, call_site) = (ResourceKind::OptimalImage, TextId::NONE);
        let is = BoundResource { resource, memory, offset, size, name, call_site, kind, active };
        self.bound.push(is);
        self.event(Event::Bound(is));
        resource
    }

    /// Gives a resource its bytes, unless it has them.
    pub(crate) fn activate(&mut self, by: AllocationKey) {
        let it = *self.bound.iter().find(|one| one.resource == by).unwrap();
        if it.active {
            return;
        }
        let mut displaced = Vec::new();
        for one in &mut self.bound {
            let overlaps = one.offset < it.offset + it.size && it.offset < one.offset + one.size;
            if one.resource != by && one.memory == it.memory && one.active && overlaps {
                one.active = false;
                displaced.push(one.resource);
            }
            one.active |= one.resource == by;
        }
        displaced.into_iter().for_each(|resource| self.event(Event::Displaced { resource, by }));
        self.event(Event::Activated { resource: by });
    }

    pub(crate) fn unbind(&mut self, resource: AllocationKey) {
        self.bound.retain(|one| one.resource != resource);
        self.event(Event::Unbound { resource });
    }

    /// Gives a block another size: at least what its allocations need.
    pub(crate) fn resize(&mut self, block: usize, size: u64) {
        let (block, _, now, taken) = &mut self.blocks[block];
        *now = size.max(taken.last_key_value().map_or(1, |(_, &end)| end));
        let event = Event::BlockResized { block: *block, size: *now };
        self.event(event);
    }

    pub(crate) fn free(&mut self, allocation: AllocationKey) {
        let at = self.live.iter().position(|live| live.0 == allocation).unwrap();
        let (_, block, offset) = self.live.swap_remove(at);
        self.blocks[block].3.remove(&offset);
        self.event(Event::Freed { allocation });
    }

    /// Moves an allocation into another block.
    pub(crate) fn relocate(&mut self, allocation: AllocationKey, to: usize, occupied: u64) {
        let Some(reservation) = self.allocate(to, "move", 0, occupied) else { return };
        self.event(Event::Reserved { reservation, allocation });
        self.event(Event::FrameEnd { number: 0 });
        self.event(Event::Exchanged { allocation, reservation });
        let place = |live: &[(AllocationKey, usize, u64)], key| live.iter().position(|l| l.0 == key).unwrap();
        let (a, b) = (place(&self.live, allocation), place(&self.live, reservation));
        let (here, there) = (self.live[a], self.live[b]);
        (self.live[a].1, self.live[a].2) = (there.1, there.2);
        (self.live[b].1, self.live[b].2) = (here.1, here.2);
        self.free(reservation);
    }
}

fn header() -> Header {
    Header {
        producer: "tests".into(),
        api: Api::Simulated,
        device: "Test device".into(),
        heaps: vec![
            Heap { size: 512 * MIB, device_local: true },
            Heap { size: 2048 * MIB, device_local: false },
        ],
        memory_types: vec![MemoryType { heap: 0, properties: 1 }, MemoryType { heap: 1, properties: 6 }],
        ..Header::default()
    }
}

/// Some seconds of a program with everything that a report shows.
pub(crate) fn program(frames: u64) -> Recording {
    let (mut maker, mut random) = (Maker::default(), Random(42));
    maker.recording.header = header();
    maker.pool(0, "", Algorithm::Tlsf);
    maker.pool(1, "particles", Algorithm::Buddy);
    maker.pool(2, "", Algorithm::Tlsf);
    let mut blocks: Vec<usize> = (0..3).map(|_| maker.block(0, 0, 16 * MIB)).collect();
    let buddy = maker.block(1, 0, 8 * MIB);
    let upload = maker.block(2, 1, 8 * MIB);
    maker.block(0, 0, 16 * MIB); // stays empty
    maker.pool(3, "frame graph", Algorithm::Linear);
    let (graph, mut targets) = (maker.block(3, 0, 8 * MIB), Vec::new());
    let heap = ObjectId(1);
    let name = maker.text("resources");
    maker.event(Event::DescriptorHeapCreated {
        heap,
        kind: DescriptorKind::ShaderVisibleResources,
        capacity: 4096,
        name,
    });
    let (ring, name) = (ObjectId(2), maker.text("upload ring"));
    maker.event(Event::RingCreated { ring, kind: RingKind::Upload, capacity: 4 * MIB, name });
    let hostile = maker.allocate(upload, HOSTILE, 300_000, 300_288).unwrap();
    let site = maker.text("src/loader.rs:42:9");
    maker.event(Event::CallSite { allocation: hostile, site });
    let mut live: Vec<(AllocationKey, u64)> = Vec::new();
    let mut pending: Vec<AllocationKey> = Vec::new();
    // Released, and from which frame on free.
    let mut late: Vec<(u64, AllocationKey)> = Vec::new();
    for frame in 0..frames {
        maker.event(Event::Time { nanoseconds: frame * 16_600_000 });
        for key in core::mem::take(&mut pending) {
            maker.free(key);
        }
        for _ in 0..random.below(12) {
            let kind = ["texture", "mesh", "constants", "target"][random.below(4) as usize];
            let requested = 1 + (1 << (8 + random.below(12))) + random.below(4000);
            let occupied = requested.next_multiple_of(256);
            let name = format!("{kind} {}", random.below(500));
            let block = blocks[random.below(blocks.len() as u64) as usize];
            match maker.allocate(block, &name, requested, occupied) {
                Some(key) => {
                    let site = maker.text(&format!("src/{kind}.rs:{}:5", 10 + random.below(3)));
                    maker.event(Event::CallSite { allocation: key, site });
                    live.push((key, occupied));
                }
                None if blocks.len() < 6 => blocks.push(maker.block(0, 0, 16 * MIB)),
                None => {
                    let name = maker.text(&name);
                    let (reason, available, largest_free) = (RefusalReason::OverBudget, 4096, 8192);
                    maker.event(Event::Refused { reason, requested, available, largest_free, name });
                }
            }
        }
        let size = 3000 << random.below(6);
        if let Some(key) = maker.allocate(buddy, "particles", size, size.next_power_of_two()) {
            live.push((key, size.next_power_of_two()));
        }
        for _ in 0..random.below(if live.len() > 250 { 18 } else { 9 }) {
            if live.is_empty() {
                break;
            }
            let (key, _) = live.swap_remove(random.below(live.len() as u64) as usize);
            maker.event(Event::FreeRequested { allocation: key });
            pending.push(key);
        }
        if frame % 10 == 3 && !live.is_empty() {
            let (key, occupied) = live[random.below(live.len() as u64) as usize];
            maker.relocate(key, blocks[0], occupied);
        }
        if frame % 20 == 5 {
            for key in core::mem::take(&mut targets) {
                maker.event(Event::FreeRequested { allocation: key });
                late.push((frame + 1 + random.below(4), key));
            }
            targets = maker.targets(graph, frame / 20);
        }
        late.retain(|&(free_at, key)| {
            if free_at <= frame {
                maker.free(key);
            }
            free_at > frame
        });
        if frame % 25 == 20 {
            maker.resize(upload, (4 + random.below(12)) * MIB);
        }
        if frame % 40 == 9 {
            maker.event(Event::Stalled { kind: StallKind::DriverCall, nanoseconds: 300_000 + frame * 1000 });
        }
        if frame % 100 == 50 {
            let text = maker.text(&format!("level {}", frame / 100));
            maker.event(Event::Mark { text });
        }
        let first = (frame as u32 * 37) % 4000;
        maker.event(Event::DescriptorsAllocated { heap, first, count: 20 });
        if frame > 30 {
            maker.event(Event::DescriptorsFreed {
                heap,
                first: ((frame as u32 - 30) * 37) % 4000,
                count: 20,
            });
        }
        maker.event(Event::RingUsed { ring, used: random.below(4 * MIB) });
        let waiting = pending.len() as u32;
        maker.event(Event::DeletionQueue { queue: ObjectId(3), kind: DeletionQueueKind::Resources, waiting });
        let (usage, budget) = (64 * MIB, 128 * MIB - (frame / 50) * 4 * MIB);
        maker.event(Event::Budget { heap: MemoryHeapIndex(0), usage, budget });
        maker.event(Event::Submitted { queue: QueueIndex(0), value: frame });
        maker.event(Event::FrameEnd { number: frame });
    }
    maker.recording
}

/// Targets of a frame that share memory: five that take turns in each frame, of which one is created anew when half of the frames
/// are over; those of a plan, of which none is ever active; and memory that is freed early.
pub(crate) fn shared(frames: u64) -> Recording {
    let mut maker = Maker::default();
    maker.recording.header = header();
    maker.pool(0, "", Algorithm::Tlsf);
    let block = maker.block(0, 0, 128 * MIB);
    let early = maker.allocate(block, "loading screen", 2 * MIB, 2 * MIB).unwrap();
    let logo = maker.bind(early, "logo", 0, MIB, true);
    let targets = maker.allocate(block, "targets", 24 * MIB, 24 * MIB).unwrap();
    let shadows = maker.bind(targets, "shadow map", 0, 8 * MIB, true);
    let gbuffer = maker.bind(targets, "gbuffer", 4 * MIB, 14 * MIB, false);
    let occlusion = maker.bind(targets, "occlusion", 18 * MIB, 3 * MIB, true);
    let mut bloom = maker.bind(targets, "bloom", 10 * MIB, 9 * MIB, false);
    maker.bind(targets, "exposure", 24 * MIB - 4096, 4096, true);
    let plan = maker.allocate(block, "transient heap", 8 * MIB, 8 * MIB).unwrap();
    for at in 0..6 {
        maker.bind(plan, &format!("planned {at}"), at * MIB, (8 - at) * MIB / 2 + 100, false);
    }
    for frame in 0..frames {
        maker.event(Event::Time { nanoseconds: frame * 16_600_000 });
        for resource in [shadows, gbuffer, occlusion, bloom] {
            maker.activate(resource);
            maker.event(Event::RingUsed { ring: ObjectId(2), used: frame });
        }
        if frame == frames / 4 {
            maker.unbind(logo);
            maker.free(early);
        }
        if frame == frames / 2 {
            maker.unbind(bloom);
            bloom = maker.bind(targets, "bloom", 12 * MIB, 7 * MIB, false);
        }
        maker.event(Event::FrameEnd { number: frame });
    }
    maker.recording
}

/// A million events of ten thousand resources in one memory, each of which overlaps its neighbours.
pub(crate) fn large_shared(resources: u64, events: usize) -> Recording {
    let mut maker = Maker::default();
    maker.recording.header = header();
    maker.pool(0, "", Algorithm::Tlsf);
    let block = maker.block(0, 0, 256 * MIB);
    let each = 256 * MIB / resources / 2;
    let memory = maker.allocate(block, "streamed", 256 * MIB, 256 * MIB).unwrap();
    // Pairs at the same bytes, which take turns.
    let pairs: Vec<_> = (0..resources / 2)
        .map(|pair| {
            let mut bind =
                |active| maker.bind(memory, &format!("tile {pair}"), pair * 4 * each, 4 * each, active);
            [bind(true), bind(false)]
        })
        .collect();
    let (mut random, mut active) = (Random(5), vec![0; pairs.len()]);
    while maker.recording.events.len() < events {
        let pair = random.below(pairs.len() as u64) as usize;
        let (resource, by) = (pairs[pair][active[pair]], pairs[pair][1 - active[pair]]);
        maker.event(Event::Displaced { resource, by });
        maker.event(Event::Activated { resource: by });
        active[pair] = 1 - active[pair];
    }
    maker.recording
}

/// Very many allocations, of which half are alive at the end.
pub(crate) fn large(allocations: u64) -> Recording {
    let (mut recording, mut random) = (Recording::default(), Random(7));
    recording.header = header();
    let (per_block, blocks) = (10_000, allocations.div_ceil(2) / 10_000 + 1);
    recording.texts = (0..5000).map(|i| format!("resource {i}")).collect();
    let pool = PoolId(0);
    recording.events.push(Event::PoolCreated {
        pool,
        name: TextId::NONE,
        algorithm: Some(Algorithm::Tlsf),
        custom: false,
    });
    for block in 0..blocks {
        let (block, memory_type, kind) = (BlockId(block), MemoryTypeIndex(0), BlockKind::Shared);
        recording.events.push(Event::BlockAllocated {
            block,
            pool,
            memory_type,
            kind,
            size: per_block * 1024,
        });
    }
    let slots = blocks * per_block;
    let mut owner = vec![None; slots as usize];
    for key in 0..allocations {
        let slot = random.below(slots);
        if let Some(allocation) = owner[slot as usize].take() {
            recording.events.push(Event::Freed { allocation });
        }
        let allocation = AllocationKey(key);
        owner[slot as usize] = Some(allocation);
        let occupied = 256 * (1 + random.below(4));
        recording.events.push(Event::Allocated(Allocated {
            allocation,
            block: BlockId(slot / per_block),
            offset: slot % per_block * 1024,
            requested: occupied - random.below(256),
            occupied,
            user_data: 0,
            name: TextId(1 + random.below(5000) as u32),
            category: TextId::NONE,
            alignment: Alignment::new(256).unwrap(),
            usage: None,
            kind: ResourceKind::Buffer,
            placement: Placement::ExistingBlock,
            second_choice: false,
            movable: false,
        }));
        if key % 1000 == 999 {
            recording.events.push(Event::FrameEnd { number: key / 1000 });
        }
    }
    recording
}

/// A thousand blocks in three pools of one name: a third are empty, and the others full to different parts.
pub(crate) fn thousand_blocks() -> Recording {
    let mut maker = Maker::default();
    for pool in 0..3 {
        maker.pool(pool, "textures", Algorithm::Tlsf);
    }
    for number in 0..1000u64 {
        let (block, bytes) = (maker.block(number as u32 % 3, 0, 4 * MIB), 4096 * (1 + number % 500));
        if number % 3 > 0 {
            maker.allocate(block, "mesh", bytes, bytes).unwrap();
        }
    }
    maker.recording
}

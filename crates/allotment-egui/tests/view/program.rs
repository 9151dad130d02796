//! The recording of a small game: it loads, runs for sixty frames, streams, leaks a little, and always does the same.

use std::collections::VecDeque;

use allotment::device::{MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, ResourceKind};
use allotment::memory::MemoryUsage;
use allotment::{Algorithm, Alignment};
use allotment_suballoc::{Handle, Request, VirtualBlock};
use allotment_trace::recording::{
    Allocated, AllocationKey, Api, BlockId, BlockKind, BoundResource, DescriptorKind, Event, Header, Heap,
    MemoryType, ObjectId, Placement, PoolId, Recording, RefusalReason, StallKind, TextId,
};

const MIB: u64 = 1 << 20;

/// A block of the game.
struct Block {
    ranges: VirtualBlock<()>,
    pool: PoolId,
}

/// An allocation of the game.
#[derive(Clone, Copy)]
struct Live {
    key: AllocationKey,
    block: usize,
    handle: Handle,
}

/// What a request asks for.
struct Ask<'a> {
    pool: u32,
    name: &'a str,
    category: &'a str,
    site: &'a str,
    size: u64,
    alignment: u64,
    kind: ResourceKind,
    usage: MemoryUsage,
}

#[derive(Default)]
struct Game {
    recording: Recording,
    blocks: Vec<Block>,
    keys: u64,
    random: u64,
}

impl Game {
    fn text(&mut self, text: &str) -> TextId {
        let texts = &mut self.recording.texts;
        let index = texts.iter().position(|known| known == text).unwrap_or_else(|| {
            texts.push(text.to_owned());
            texts.len() - 1
        });
        TextId(index as u32 + 1)
    }

    fn push(&mut self, event: Event) {
        self.recording.events.push(event);
    }

    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn pool(&mut self, pool: u32, name: &str) {
        let name = if name.is_empty() { TextId::NONE } else { self.text(name) };
        let custom = !name.is_none();
        self.push(Event::PoolCreated { pool: PoolId(pool), name, algorithm: Some(Algorithm::Tlsf), custom });
    }

    fn block(&mut self, pool: u32, memory_type: u8, size: u64) {
        let (pool, memory_type) = (PoolId(pool), MemoryTypeIndex(memory_type));
        let block = BlockId(u64::from(pool.0) << 32 | self.blocks.len() as u64);
        self.push(Event::BlockAllocated { block, pool, memory_type, kind: BlockKind::Shared, size });
        self.blocks.push(Block { ranges: VirtualBlock::new(size, Algorithm::Tlsf).unwrap(), pool });
    }

    fn id(&self, block: usize) -> BlockId {
        BlockId(u64::from(self.blocks[block].pool.0) << 32 | block as u64)
    }

    fn allocate(&mut self, ask: &Ask<'_>) -> Live {
        let alignment = Alignment::new(ask.alignment).unwrap();
        // What the algorithm hands out is a multiple of 256 bytes, so some of it is overhead.
        let occupied = ask.size.next_multiple_of(256);
        let pool = PoolId(ask.pool);
        let found = (0..self.blocks.len()).find_map(|index| {
            let block = &mut self.blocks[index];
            let fits = (block.pool == pool)
                .then(|| block.ranges.allocate(Request::new(occupied).aligned(alignment), ()));
            fits?.ok().map(|range| (index, range))
        });
        let (block, range) = found.expect("the game's blocks are large enough");
        let key = AllocationKey(self.keys);
        self.keys += 1;
        let (name, category, site) = (self.text(ask.name), self.text(ask.category), self.text(ask.site));
        let id = self.id(block);
        self.push(Event::Allocated(Allocated {
            allocation: key,
            block: id,
            offset: range.offset,
            requested: ask.size,
            occupied,
            user_data: 0,
            name,
            category,
            alignment,
            usage: Some(ask.usage),
            kind: ask.kind,
            placement: Placement::ExistingBlock,
            second_choice: false,
            movable: false,
        }));
        self.push(Event::CallSite { allocation: key, site });
        Live { key, block, handle: range.handle }
    }

    fn release(&mut self, live: Live) {
        self.push(Event::FreeRequested { allocation: live.key });
    }

    fn free(&mut self, live: Live) {
        self.blocks[live.block].ranges.free(live.handle).unwrap();
        self.push(Event::Freed { allocation: live.key });
    }
}

fn texture(name: &str, size: u64) -> Ask<'_> {
    let (category, site) = ("textures", "/home/dev/town/src/textures.rs:88:9");
    let (kind, usage) = (ResourceKind::OptimalImage, MemoryUsage::GpuOnly);
    Ask { pool: 0, name, category, site, size, alignment: 65536, kind, usage }
}

fn mesh(name: &str, size: u64) -> Ask<'_> {
    let (category, site) = ("meshes", "/home/dev/town/src/meshes.rs:41:5");
    let (kind, usage) = (ResourceKind::Buffer, MemoryUsage::GpuOnly);
    Ask { pool: 0, name, category, site, size, alignment: 256, kind, usage }
}

fn upload(name: &str, size: u64) -> Ask<'_> {
    let (category, site) = ("uploads", "/home/dev/town/src/streaming.rs:120:13");
    let (kind, usage) = (ResourceKind::Buffer, MemoryUsage::Upload);
    Ask { pool: 1, name, category, site, size, alignment: 256, kind, usage }
}

fn particles(name: &str, size: u64) -> Ask<'_> {
    let (category, site) = ("particles", "/home/dev/town/src/particles.rs:57:17");
    let (kind, usage) = (ResourceKind::Buffer, MemoryUsage::GpuOnly);
    Ask { pool: 2, name, category, site, size, alignment: 64, kind, usage }
}

fn header() -> Header {
    let properties = |properties: MemoryProperties| properties.bits();
    let local = MemoryProperties::DEVICE_LOCAL;
    let visible = MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT;
    Header {
        producer: "town".to_owned(),
        api: Api::Vulkan,
        device: "Radeon RX 7800 XT".to_owned(),
        heaps: vec![Heap { size: 8 << 30, device_local: true }, Heap { size: 16 << 30, device_local: false }],
        memory_types: vec![
            MemoryType { heap: 0, properties: properties(local) },
            MemoryType { heap: 1, properties: properties(visible) },
            MemoryType { heap: 0, properties: properties(local | visible) },
        ],
        settings: vec![
            ("block_sizes.largest".to_owned(), (64 * MIB).to_string()),
            ("algorithm".to_owned(), "tlsf".to_owned()),
        ],
        ..Header::default()
    }
}

/// Records the game.
pub(crate) fn game() -> Recording {
    let mut game = Game { random: 0x9E37_79B9_7F4A_7C15, ..Game::default() };
    game.recording.header = header();
    game.pool(0, "");
    game.pool(1, "");
    game.pool(2, "particles");
    game.block(0, 0, 64 * MIB);
    game.block(0, 0, 64 * MIB);
    game.block(1, 1, 16 * MIB);
    game.block(2, 2, 8 * MIB);
    game.block(0, 0, 32 * MIB);
    let name = game.text("materials");
    let (heap, kind) = (ObjectId(0), DescriptorKind::ALL[0]);
    game.push(Event::DescriptorHeapCreated { heap, kind, capacity: 4096, name });
    load(&mut game);
    frames(&mut game);
    game.recording
}

/// The transient images of a frame, two of which share bytes: one is used before the other.
pub(crate) fn aliased() -> Recording {
    let mut game = Game { random: 1, ..Game::default() };
    game.recording.header = header();
    game.pool(0, "transient");
    game.block(0, 0, 16 * MIB);
    game.allocate(&texture("shadows", 8 * MIB));
    // The place of what is allocated below, beyond the shadows' bytes.
    let free = game.allocate(&texture("bloom's rest", 4 * MIB));
    game.allocate(&texture("lighting", 2 * MIB));
    game.free(free);
    let is_shadows = |event: &Event| match event {
        Event::Allocated(is) if is.requested == 8 * MIB => Some(*is),
        _ => None,
    };
    let shadows = game.recording.events.iter().find_map(is_shadows).expect("it was allocated");
    let (allocation, name) = (AllocationKey(game.keys), game.text("bloom"));
    game.push(Event::Allocated(Allocated { allocation, name, offset: shadows.offset + 4 * MIB, ..shadows }));
    game.recording
}

/// The loading phase: textures and meshes of the town.
fn load(game: &mut Game) {
    let text = game.text("town is being loaded");
    game.push(Event::Mark { text });
    for (name, mib) in
        [("sky cube map", 12), ("terrain albedo", 16), ("terrain normals", 8), ("shadow atlas", 16)]
    {
        game.allocate(&texture(name, mib * MIB));
    }
    for number in 0..24 {
        let size = 300_000 + game.below(2_000_000);
        game.allocate(&texture(&format!("facade {number}"), size));
        let size = 20_000 + game.below(600_000);
        game.allocate(&mesh(&format!("house {number}"), size));
        let (first, count) = (number as u32 * 40, 24 + game.below(16) as u32);
        game.push(Event::DescriptorsAllocated { heap: ObjectId(0), first, count });
    }
    // A single byte in an empty block, which no zoom may hide.
    game.allocate(&Ask { pool: 2, ..mesh("one byte", 1) });
    let text = game.text("town is loaded");
    game.push(Event::Mark { text });
}

/// Sixty frames: each uploads, streams a district, and makes particles.
fn frames(game: &mut Game) {
    let mut waiting: VecDeque<(u64, Live)> = VecDeque::new();
    let mut streamed: VecDeque<Live> = VecDeque::new();
    for frame in 0..60u64 {
        while let Some(&(released, live)) = waiting.front().filter(|(released, _)| released + 3 <= frame) {
            let _ = released;
            waiting.pop_front();
            game.free(live);
        }
        for slice in 0..3 {
            let size = 200_000 + game.below(400_000);
            let live = game.allocate(&upload(&format!("staging {slice}"), size));
            game.release(live);
            waiting.push_back((frame, live));
        }
        if frame % 2 == 0 {
            let size = 500_000 + game.below(3_000_000);
            streamed.push_back(game.allocate(&texture(&format!("district {}", frame / 2), size)));
        }
        if streamed.len() > 9 {
            let live = streamed.remove(game.below(9) as usize).unwrap();
            game.release(live);
            waiting.push_back((frame, live));
        }
        if frame % 3 == 0 {
            // These are never freed.
            let size = 30_000 + game.below(60_000);
            game.allocate(&particles(&format!("sparks {frame}"), size));
        }
        if frame == 21 || frame == 44 {
            game.push(Event::Stalled { kind: StallKind::ALL[0], nanoseconds: 2_400_000 });
        }
        if frame == 30 {
            let name = game.text("reflection probe");
            let (requested, available) = (96 * MIB, 32 * MIB);
            game.push(Event::Refused {
                reason: RefusalReason::ALL[0],
                requested,
                available,
                largest_free: 20 * MIB,
                name,
            });
        }
        let usage = (160 + frame / 10) * MIB;
        game.push(Event::Budget { heap: MemoryHeapIndex(0), usage, budget: 200 * MIB });
        game.push(Event::Time { nanoseconds: (frame + 1) * 16_600_000 });
        game.push(Event::FrameEnd { number: frame });
    }
}

/// A memory of 24 MiB, named "targets", in which three resources share bytes in four frames: of "g-buffer" (16 MiB at 0), "bloom"
/// (8 MiB at 0) and "history" (8 MiB at 16 MiB), the first two take turns, and the last one is always active.
pub(crate) fn shared() -> Recording {
    let mut game = Game { random: 1, ..Game::default() };
    game.recording.header = header();
    game.pool(0, "transient");
    game.block(0, 0, 32 * MIB);
    let memory = game.allocate(&texture("targets", 24 * MIB)).key;
    let [g_buffer, bloom, history] = [100, 101, 102].map(AllocationKey);
    let call_site = TextId::NONE;
    let kind = ResourceKind::OptimalImage;
    for (resource, name, offset, size) in
        [(g_buffer, "g-buffer", 0, 16), (bloom, "bloom", 0, 8), (history, "history", 16, 8)]
    {
        let name = game.text(name);
        let (offset, size, active) = (offset * MIB, size * MIB, resource == history);
        game.push(Event::Bound(BoundResource {
            resource,
            memory,
            offset,
            size,
            name,
            call_site,
            kind,
            active,
        }));
    }
    for number in 0..4 {
        if number > 0 {
            game.push(Event::Displaced { resource: bloom, by: g_buffer });
        }
        game.push(Event::Activated { resource: g_buffer });
        game.push(Event::Budget { heap: MemoryHeapIndex(0), usage: 32 * MIB, budget: 200 * MIB });
        game.push(Event::Displaced { resource: g_buffer, by: bloom });
        game.push(Event::Activated { resource: bloom });
        game.push(Event::FrameEnd { number });
    }
    game.recording
}

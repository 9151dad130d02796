//! The frames of the town, on any device.

use core::error::Error;
use core::fmt::Debug;
use core::num::NonZero;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use allotment::device::{BufferCopy, BufferDesc, Device, QueueIndex, Submission, TimelinePoint};
use allotment::lifetime::{DeletionQueue, FramesInFlight, SubmissionTracker};
use allotment::memory::{
    BlockSizes, DefragmentationDesc, DefragmentationStrategy, EmptyBlockPolicy, MovableBuffer, MovableSet,
    MovableSetDesc, OwningAllocator, PassLimits,
};
use allotment::upload::{ReadbackRing, ReadbackTicket, RingDesc, Uploader, UploaderDesc};
use allotment::{Alignment, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};

const IN_FLIGHT: NonZero<usize> = NonZero::new(3).unwrap();

/// The queue that looks at houses. The set copies on the first that can draw, which is this one.
const QUEUE: QueueIndex = QueueIndex(0);

/// Longer than anything takes that is not broken.
const TIMEOUT: Duration = Duration::from_secs(10);

const BLOCK: u64 = 2 << 20;

/// Bytes that live at most and at least; the town grows and shrinks from the one to the other and back in so many
/// frames.
const MOST: u64 = 320 << 20;
const LEAST: u64 = 160 << 20;
const SEASON: u64 = 400;

/// After so many frames the town is there, and its memory is measured.
const SETTLED: u64 = 100;

/// Houses that are looked at in a frame, beside those that go.
const LOOKS: u64 = 4;

/// What a frame may cost.
const LIMITS: PassLimits =
    PassLimits::NONE.with_bytes(8 << 20).with_moves(128).with_time(Duration::from_millis(2));

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

struct House<D: Device> {
    number: u64,
    buffer: MovableBuffer<D>,
    /// Bytes that it takes at least, as the device says: on Direct3D 12 whole pages of 64 KiB.
    takes: u64,
}

/// What comes back of a frame: of which houses, and where.
struct Coming {
    looks: Vec<(u64, u64)>,
    ticket: ReadbackTicket,
}

/// Everything that a frame needs.
pub(crate) struct Town<D: Device> {
    memory: OwningAllocator<D>,
    tracker: SubmissionTracker,
    pacer: FramesInFlight,
    uploader: Uploader<D>,
    results: ReadbackRing<D>,
    set: MovableSet<D>,
    defragmented: bool,
    houses: Vec<House<D>>,
    /// Bytes that they take at least.
    live: u64,
    next: u64,
    random: u64,
    coming: VecDeque<Coming>,
    bytes: Vec<u8>,
    found: Vec<u8>,
    idle: f64,
    summary: Summary,
}

/// What was seen of the town.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) frames: u64,
    pub(crate) built: u64,
    /// Bytes, and how many of them were wrong.
    pub(crate) compared: u64,
    pub(crate) corrupted: u64,
    pub(crate) live: u64,
    pub(crate) blocks: u32,
    pub(crate) most_blocks: u32,
    /// What part of the blocks nothing lives in.
    pub(crate) idle_at_end: f64,
    pub(crate) idle_on_average: f64,
    pub(crate) most_idle: f64,
    pub(crate) moves: u32,
    pub(crate) bytes_moved: u64,
    pub(crate) blocks_emptied: u32,
    pub(crate) longest_step: Duration,
}

impl<D: Device + Clone + Debug> Town<D> {
    pub(crate) fn new(device: D, defragmented: bool) -> Outcome<Self> {
        let tracker = SubmissionTracker::new(device.clone())?;
        let mut desc = AllocatorDesc::default();
        desc.block_sizes = BlockSizes::fixed(BLOCK);
        // What is empty is given back, with or without defragmentation.
        desc.empty_blocks = EmptyBlockPolicy::NONE;
        let allocator = Arc::new(Allocator::new(device, desc)?);
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker));
        let strategy = DefragmentationDesc::new(DefragmentationStrategy::Full);
        Ok(Self {
            pacer: FramesInFlight::new(&tracker, IN_FLIGHT),
            uploader: Uploader::new(&memory, UploaderDesc::default())?,
            results: ReadbackRing::new(&allocator, &tracker, &RingDesc::readback(64 << 20))?,
            set: MovableSet::new(&memory, MovableSetDesc::new(strategy).on_queue(QUEUE))?,
            memory,
            tracker,
            defragmented,
            houses: Vec::new(),
            live: 0,
            next: 0,
            random: 1,
            coming: VecDeque::new(),
            bytes: Vec::new(),
            found: Vec::new(),
            idle: 0.0,
            summary: Summary::default(),
        })
    }

    /// One frame.
    pub(crate) fn frame(&mut self) -> Outcome {
        self.pacer.begin(TIMEOUT)?;
        if self.coming.len() == IN_FLIGHT.get() {
            self.compare_oldest()?;
        }
        let target = self.target(self.pacer.frame());
        let mut looks = Vec::new();
        let mut gone = Vec::new();
        // Some go for others to come, and some because the town shrinks.
        for _ in 0..4 {
            self.tear_down(&mut gone);
        }
        while self.live > target {
            self.tear_down(&mut gone);
        }
        looks.extend(gone.iter().map(|house| (house.number, house.buffer.handle())));
        for _ in 0..LOOKS {
            let at = self.below(self.houses.len() as u64);
            // None while the town is empty.
            looks.extend(self.houses.get(at as usize).map(|house| (house.number, house.buffer.handle())));
        }
        self.look(&looks)?;
        // The device has not looked yet, and need not have: they go when it has.
        drop(gone);
        while self.live < target {
            self.build()?;
        }
        self.uploader.submit()?;
        if self.defragmented {
            let began = Instant::now();
            self.set.defragment_step(LIMITS)?;
            self.summary.longest_step = self.summary.longest_step.max(began.elapsed());
        }
        self.pacer.end();
        self.memory.deletion_queue().reclaim();
        self.memory.allocator().end_frame();
        self.measure();
        Ok(())
    }

    /// Bytes that shall live in a frame.
    fn target(&self, frame: u64) -> u64 {
        let part = frame % (2 * SEASON);
        let grown = if part < SEASON { part } else { 2 * SEASON - part };
        // The first frames build the whole town, some houses at a time.
        let there = LEAST + (MOST - LEAST) * grown / SEASON;
        there.min((frame + 1) * MOST / SETTLED)
    }

    /// A house comes: 4 KiB to 256 KiB, of each order as many.
    fn build(&mut self) -> Outcome {
        let number = self.next;
        self.next += 1;
        let size = size_of(number);
        let desc = BufferDesc::new(size).into();
        let requirements = self.memory.allocator().device().buffer_requirements(&desc)?;
        let takes = requirements.alignment.align_up(requirements.size);
        let buffer = self.set.create_buffer(desc, &wanted())?;
        fill(number, size, &mut self.bytes);
        buffer.with(|owned| self.uploader.initialize(owned, 0, &self.bytes))?;
        self.live += takes;
        self.houses.push(House { number, buffer, takes });
        Ok(())
    }

    /// Any house goes.
    fn tear_down(&mut self, gone: &mut Vec<House<D>>) {
        if self.houses.is_empty() {
            return;
        }
        let at = self.below(self.houses.len() as u64);
        let house = self.houses.swap_remove(at as usize);
        self.live -= house.takes;
        gone.push(house);
    }

    /// The device copies houses to where the CPU reads them.
    fn look(&mut self, houses: &[(u64, D::Buffer)]) -> Outcome {
        let size = houses.iter().map(|(number, _)| size_of(*number)).sum::<u64>();
        if size == 0 {
            return Ok(());
        }
        let recording = self.tracker.record("a frame");
        let ticket = self.results.allocate(size, Alignment::new(16)?)?;
        let (to, mut to_offset) = (self.results.buffer(), ticket.offset());
        let copies: Vec<_> = houses
            .iter()
            .map(|(number, from)| {
                let copy = BufferCopy { from, from_offset: 0, to, to_offset, size: size_of(*number) };
                to_offset += copy.size;
                copy
            })
            .collect();
        // Their bytes may be on their way over another queue.
        let waits: Vec<TimelinePoint> = self.uploader.submit()?.points().collect();
        let work = Submission { waits: &waits, copies: &copies, ..Submission::default() };
        let device = self.memory.allocator().device();
        // SAFETY: the houses are alive, so their buffers live until this recording is over, whether they go or move;
        // the ring has given the room, and they lie in it one behind the other.
        let drawn = recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) })?;
        self.results.close(drawn);
        let looks = houses.iter().map(|(number, _)| (*number, size_of(*number))).collect();
        self.coming.push_back(Coming { looks, ticket });
        Ok(())
    }

    fn compare_oldest(&mut self) -> Outcome {
        let Some(Coming { looks, ticket }) = self.coming.pop_front() else { return Ok(()) };
        self.found.resize(ticket.size() as usize, 0);
        self.results.read(&ticket, &mut self.found)?;
        let mut rest = &self.found[..];
        for (number, size) in looks {
            let (part, others) = rest.split_at_checked(size as usize).ok_or("a part is missing")?;
            fill(number, size, &mut self.bytes);
            let wrong = part.iter().zip(&self.bytes).filter(|(one, other)| one != other).count() as u64;
            if wrong > 0 {
                eprintln!("{wrong} of the {size} bytes of house {number} are wrong");
            }
            self.summary.corrupted += wrong;
            rest = others;
        }
        self.summary.compared += ticket.size();
        Ok(())
    }

    fn measure(&mut self) {
        let frame = self.pacer.frame();
        // Rings have memory of their own.
        let blocks = self.memory.allocator().blocks().iter().filter(|block| !block.dedicated).count() as u32;
        let idle = 1.0 - self.live as f64 / (u64::from(blocks) * BLOCK) as f64;
        let summary = &mut self.summary;
        summary.blocks = blocks;
        if frame > 2 * SETTLED {
            summary.frames += 1;
            summary.most_blocks = summary.most_blocks.max(blocks);
            summary.idle_at_end = idle;
            summary.most_idle = summary.most_idle.max(idle);
            self.idle += idle;
        }
    }

    /// Numbers below `n`, the same in each run.
    fn below(&mut self, n: u64) -> u64 {
        self.random = mixed(self.random.wrapping_add(0x9e37_79b9_7f4a_7c15));
        if n == 0 { 0 } else { self.random % n }
    }

    /// After the last frame every house is looked at once more, and goes.
    pub(crate) fn leave(mut self) -> Outcome<Summary> {
        let statistics = self.set.statistics();
        let mut summary = Summary {
            built: self.next,
            live: self.live,
            idle_on_average: self.idle / self.summary.frames as f64,
            moves: statistics.moves,
            bytes_moved: statistics.bytes_moved,
            blocks_emptied: statistics.blocks_emptied,
            ..self.summary
        };
        let houses = core::mem::take(&mut self.houses);
        for some in houses.chunks(64) {
            let looks: Vec<_> = some.iter().map(|house| (house.number, house.buffer.handle())).collect();
            self.look(&looks)?;
            self.tracker.wait_idle(TIMEOUT)?;
            while !self.coming.is_empty() {
                self.compare_oldest()?;
            }
        }
        (summary.compared, summary.corrupted) = (self.summary.compared, self.summary.corrupted);
        drop(houses);
        let Self { memory, uploader, results, set, .. } = self;
        drop((uploader, results, set));
        let left = memory.deletion_queue().drain(TIMEOUT);
        let statistics = memory.allocator().statistics();
        if left.pending > 0 || statistics.allocations > 0 {
            let (things, allocations) = (left.pending, statistics.allocations);
            return Err(format!("{things} things and {allocations} allocations are left").into());
        }
        Ok(summary)
    }
}

/// Memory of the device, for a buffer; the buffer itself says how much.
fn wanted() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("house")
}

fn size_of(number: u64) -> u64 {
    let random = mixed(number.wrapping_add(77));
    let order = (4 << 10) << (random % 6);
    order + (random >> 8) % order / 4 * 4
}

/// The bytes of a house. No two have the same.
fn fill(number: u64, size: u64, bytes: &mut Vec<u8>) {
    bytes.resize(size as usize, 0);
    for (i, word) in (0..).zip(bytes.chunks_mut(8)) {
        word.copy_from_slice(&mixed(number << 24 | i).to_le_bytes()[..word.len()]);
    }
}

/// Numbers that follow each other become numbers that do not.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

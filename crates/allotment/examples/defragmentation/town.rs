//! The frames of the town, on any device.

use core::error::Error;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use allotment::device::{BufferCopy, BufferDesc, Device, QueueIndex, Submission};
use allotment::gpu::{Frame, Gpu, GpuDesc};
use allotment::memory::{
    BlockSizes, Buffer, DefragmentationDesc, DefragmentationStrategy, DefragmenterDesc, EmptyBlockPolicy,
    PassLimits,
};
use allotment::upload::{ReadbackTicket, RingDesc};
use allotment::{Alignment, AllocatorDesc, MemoryUsage};

const IN_FLIGHT: usize = 3;

/// The queue that looks at houses, and that copies those that move.
const QUEUE: QueueIndex = QueueIndex(0);

const BLOCK: u64 = 2 << 20;

/// The largest and the smallest size of the town in bytes, and the number of frames in which it shrinks from the one to
/// the other and grows back.
const MOST: u64 = 320 << 20;
const LEAST: u64 = 160 << 20;
const SEASON: u64 = 400;

/// The frame after which the town is complete and its memory is measured.
const SETTLED: u64 = 100;

/// Houses that are looked at in a frame, beside those that go.
const LOOKS: u64 = 4;

/// The limits of a frame's step.
const LIMITS: PassLimits =
    PassLimits::NONE.with_bytes(8 << 20).with_moves(128).with_time(Duration::from_millis(2));

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

struct House<D: Device> {
    number: u64,
    buffer: Buffer<D>,
    /// Bytes that it takes at least, as the device says: on Direct3D 12 whole pages of 64 KiB.
    takes: u64,
}

/// The copies of a frame that the CPU has not read: the numbers of the houses, in order, and the ticket.
type Copies = (Vec<u64>, ReadbackTicket);

/// Everything that a frame needs.
pub(crate) struct Town<D: Device> {
    gpu: Gpu<D>,
    houses: Vec<House<D>>,
    /// Bytes that they take at least.
    live: u64,
    next: u64,
    random: u64,
    coming: VecDeque<Copies>,
    bytes: Vec<u8>,
    found: Vec<u8>,
    idle: f64,
    summary: Summary,
}

/// The figures that the example prints.
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
    /// The free part of the blocks.
    pub(crate) idle_at_end: f64,
    pub(crate) idle_on_average: f64,
    pub(crate) most_idle: f64,
    pub(crate) moves: u32,
    pub(crate) bytes_moved: u64,
    pub(crate) blocks_emptied: u32,
    pub(crate) longest_end: Duration,
}

impl<D: Device + Clone> Town<D> {
    pub(crate) fn new(device: D, defragmented: bool) -> Outcome<Self> {
        let mut allocator = AllocatorDesc::default();
        allocator.block_sizes = BlockSizes::fixed(BLOCK);
        // Empty blocks are freed, with or without defragmentation.
        allocator.empty_blocks = EmptyBlockPolicy::NONE;
        let desc = GpuDesc::default().with_frames_in_flight(IN_FLIGHT).with_allocator(allocator);
        let mut desc = desc.with_readback(RingDesc::readback(64 << 20));
        if defragmented {
            let strategy = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(LIMITS);
            desc = desc.with_defragmentation(DefragmenterDesc::new(strategy).with_queue(QUEUE));
        }
        Ok(Self {
            gpu: Gpu::new(device, desc)?,
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

    pub(crate) fn frame(&mut self) -> Outcome {
        let frame = self.gpu.begin_frame()?; // waits while three frames are in flight
        if self.coming.len() == IN_FLIGHT {
            self.compare_oldest()?;
        }
        let target = target(frame.number());
        // Four go for others to come, and more where the town shrinks.
        let mut gone = Vec::new();
        while !self.houses.is_empty() && (gone.len() < 4 || self.live > target) {
            let house = self.below(self.houses.len());
            let house = self.houses.swap_remove(house);
            self.live -= house.takes;
            gone.push(house);
        }
        let looks = if self.houses.is_empty() { 0 } else { LOOKS };
        let looks: Vec<_> = (0..looks).map(|_| self.below(self.houses.len())).collect();
        let looks: Vec<_> =
            gone.iter().chain(looks.into_iter().map(|at| &self.houses[at])).map(House::look).collect();
        self.look(&frame, &looks)?;
        // The GPU need not have copied them yet: they are destroyed once it has.
        drop(gone);
        while self.live < target {
            self.build()?;
        }
        let (number, began) = (frame.number(), Instant::now());
        frame.end()?; // with a step of defragmentation
        self.summary.longest_end = self.summary.longest_end.max(began.elapsed());
        self.measure(number);
        Ok(())
    }

    /// Builds a house: 4 KiB to 256 KiB, of each order as many.
    fn build(&mut self) -> Outcome {
        let number = self.next;
        self.next += 1;
        let desc = BufferDesc::new(size_of(number)).into();
        let requirements = self.gpu.device().buffer_requirements(&desc)?;
        let takes = requirements.alignment.align_up(requirements.size);
        let options = MemoryUsage::GpuOnly.with_name("house").relocatable();
        let buffer = self.gpu.create_buffer(&desc, &options)?;
        fill(number, &mut self.bytes);
        self.gpu.uploads().write_buffer(&buffer, 0, &self.bytes)?;
        self.live += takes;
        self.houses.push(House { number, buffer, takes });
        Ok(())
    }

    /// The GPU copies houses to where the CPU reads them.
    fn look(&mut self, frame: &Frame<D>, houses: &[(u64, D::Buffer)]) -> Outcome {
        if houses.is_empty() {
            return Ok(());
        }
        let mut ring = self.gpu.readback()?;
        let size = houses.iter().map(|(number, _)| size_of(*number)).sum();
        let ticket = ring.allocate(size, Alignment::new(16)?)?;
        let (to, mut to_offset) = (ring.buffer(), ticket.offset());
        let copies = houses.iter().map(|(number, from)| {
            let copy = BufferCopy { from, from_offset: 0, to, to_offset, size: size_of(*number) };
            to_offset += copy.size;
            copy
        });
        let copies: Vec<_> = copies.collect();
        let copied = frame.submit(QUEUE, |queue, waits| {
            let work = Submission { waits, copies: &copies, ..Submission::default() };
            // SAFETY: the houses are alive, so their buffers live until the GPU has completed the frame, whether they are
            // dropped or moved. The ring gave the range, and the copies lie in it one behind the other.
            unsafe { self.gpu.device().submit(queue, &work) }
        })?;
        ring.close(copied);
        self.coming.push_back((houses.iter().map(|(number, _)| *number).collect(), ticket));
        Ok(())
    }

    fn compare_oldest(&mut self) -> Outcome {
        let Some((houses, ticket)) = self.coming.pop_front() else { return Ok(()) };
        self.found.resize(ticket.size() as usize, 0);
        self.gpu.readback()?.read(&ticket, &mut self.found)?;
        let mut rest = &self.found[..];
        for number in houses {
            fill(number, &mut self.bytes);
            let (part, others) = rest.split_at_checked(self.bytes.len()).ok_or("a part is missing")?;
            let wrong = part.iter().zip(&self.bytes).filter(|(one, other)| one != other).count() as u64;
            if wrong > 0 {
                eprintln!("{wrong} of the {} bytes of house {number} are wrong", part.len());
            }
            self.summary.corrupted += wrong;
            rest = others;
        }
        self.summary.compared += ticket.size();
        Ok(())
    }

    fn measure(&mut self, frame: u64) {
        // Rings have dedicated memory.
        let blocks = self.gpu.allocator().blocks().iter().filter(|block| !block.dedicated).count() as u32;
        let idle = 1.0 - self.live as f64 / (u64::from(blocks) * BLOCK) as f64;
        let summary = &mut self.summary;
        summary.blocks = blocks;
        if frame >= 2 * SETTLED {
            summary.frames += 1;
            summary.most_blocks = summary.most_blocks.max(blocks);
            summary.idle_at_end = idle;
            summary.most_idle = summary.most_idle.max(idle);
            self.idle += idle;
        }
    }

    /// Returns a number below `n`, which is not 0: the same in each run.
    fn below(&mut self, n: usize) -> usize {
        self.random = mixed(self.random.wrapping_add(0x9e37_79b9_7f4a_7c15));
        (self.random % n as u64) as usize
    }

    /// After the last frame every house is compared once more and dropped, and nothing may be left.
    pub(crate) fn leave(mut self) -> Outcome<Summary> {
        let statistics = self.gpu.defragmenter().statistics();
        (self.summary.built, self.summary.live) = (self.next, self.live);
        self.summary.idle_on_average = self.idle / self.summary.frames as f64;
        self.summary.moves = statistics.moves;
        self.summary.bytes_moved = statistics.bytes_moved;
        self.summary.blocks_emptied = statistics.blocks_emptied;
        let houses = core::mem::take(&mut self.houses);
        for some in houses.chunks(64) {
            let frame = self.gpu.begin_frame()?;
            self.look(&frame, &some.iter().map(House::look).collect::<Vec<_>>())?;
            frame.end()?;
            self.gpu.wait_idle()?;
            while !self.coming.is_empty() {
                self.compare_oldest()?;
            }
        }
        drop(houses);
        let Self { gpu, summary, .. } = self;
        gpu.wait_idle()?;
        let (pending, allocator) = (gpu.deletion_queue().statistics().pending, Arc::clone(gpu.allocator()));
        drop(gpu);
        let left = allocator.statistics().allocations;
        if pending > 0 || left > 0 {
            return Err(format!("{pending} resources are pending, and {left} allocations are left").into());
        }
        Ok(summary)
    }
}

impl<D: Device> House<D> {
    /// Returns what a frame copies. The handle is that of this frame: a step of defragmentation may change it.
    fn look(&self) -> (u64, D::Buffer) {
        (self.number, self.buffer.handle())
    }
}

/// Returns the bytes that shall live in a frame.
fn target(frame: u64) -> u64 {
    let part = frame % (2 * SEASON);
    let grown = if part < SEASON { part } else { 2 * SEASON - part };
    // The first frames build the whole town, some houses at a time.
    let there = LEAST + (MOST - LEAST) * grown / SEASON;
    there.min((frame + 1) * MOST / SETTLED)
}

fn size_of(number: u64) -> u64 {
    let random = mixed(number.wrapping_add(77));
    let order = (4 << 10) << (random % 6);
    order + (random >> 8) % order / 4 * 4
}

/// Writes the bytes of a house. No two have the same.
fn fill(number: u64, bytes: &mut Vec<u8>) {
    bytes.resize(size_of(number) as usize, 0);
    for (i, word) in (0..).zip(bytes.chunks_mut(8)) {
        word.copy_from_slice(&mixed(number << 24 | i).to_le_bytes()[..word.len()]);
    }
}

/// Numbers that follow each other become numbers that do not.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

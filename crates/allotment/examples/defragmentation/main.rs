//! A town in which houses come and go for two thousand frames, all of different sizes: without defragmentation its
//! memory becomes a comb; with a step of it in each frame the blocks stay full.
//!
//! ```sh
//! cargo run --release --example defragmentation -p allotment             # on the simulated device
//! cargo run --release --example defragmentation -p allotment -- vulkan   # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example defragmentation -p allotment -- d3d12    # on Windows
//! ```
//!
//! Some houses are looked at in each frame, and every house before it goes: what a queue copies out of it then is compared
//! byte by byte, wherever it has been moved to meanwhile.

#[path = "../common/mod.rs"]
mod common;

use core::time::Duration;
use std::time::Instant;

use allotment::memory::{
    BlockSizes, DefragmentationDesc, DefragmentationStrategy, DefragmenterDesc, EmptyBlockPolicy, PassLimits,
};
use allotment::prelude::*;
use allotment::upload::RingDesc;

use common::comparisons::Comparisons;
use common::known_bytes::{Seed, mixed};
use common::report::{check_that_nothing_is_left, mib, row};
use common::{Outcome, plain_device as device};

const FRAMES: u64 = 2_000;

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
const LOOKS: usize = 4;

/// The limits of a frame's step.
const LIMITS: PassLimits =
    PassLimits::NONE.with_bytes(8 << 20).with_moves(128).with_time(Duration::from_millis(2));

/// The largest part of the blocks that may be idle at any time, with defragmentation.
const MOST_IDLE: f64 = 0.1;

/// What was found, and how much of it.
type Figures = Vec<(&'static str, String)>;

device::main!("defragmentation", defragmentation);

/// Runs the same frames twice: without and with a step of defragmentation in each.
fn defragmentation<D: Device + Clone>(device: D) -> Outcome {
    row("device", &device.properties().name);
    let without = live_in(device.clone(), false)?;
    let with = live_in(device, true)?;
    row("", format_args!("{:>16}{:>16}", "without", "with"));
    for ((what, without), (_, with)) in without.into_iter().zip(with) {
        row(what, format_args!("{without:>16}{with:>16}"));
    }
    Ok(())
}

fn live_in<D: Device + Clone>(device: D, defragmented: bool) -> Outcome<Figures> {
    let mut town = Town::new(device, defragmented)?;
    for _ in 0..FRAMES {
        town.frame()?;
    }
    town.leave()
}

struct House<D: Device> {
    number: u64,
    buffer: Buffer<D>,
    /// Bytes that it takes at least, as the device says: on Direct3D 12 whole pages of 64 KiB.
    takes: u64,
}

struct Town<D: Device> {
    gpu: Gpu<D>,
    houses: Vec<House<D>>,
    /// Bytes that they take at least.
    live: u64,
    next: u64,
    random: u64,
    bytes: Vec<u8>,
    comparisons: Comparisons<D>,
    /// Since the town is complete: the most blocks, and the free part of the blocks after each frame.
    most_blocks: u32,
    idle: Vec<f64>,
    longest_end: Duration,
}

impl<D: Device + Clone> Town<D> {
    fn new(device: D, defragmented: bool) -> Outcome<Self> {
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
        let gpu = Gpu::new(device, desc)?;
        common::trace::record(&gpu)?;
        Ok(Self {
            comparisons: Comparisons::new(&gpu),
            gpu,
            houses: Vec::new(),
            live: 0,
            next: 0,
            random: 1,
            bytes: Vec::new(),
            most_blocks: 0,
            idle: Vec::new(),
            longest_end: Duration::ZERO,
        })
    }

    fn frame(&mut self) -> Outcome {
        let frame = self.gpu.begin_frame()?; // waits while three frames are in flight
        self.comparisons.compare_completed(frame.number())?;
        let target = target(frame.number());
        // Four go for others to come, and more where the town shrinks.
        let mut gone = 0;
        while !self.houses.is_empty() && (gone < 4 || self.live > target) {
            let house = self.below(self.houses.len());
            let house = self.houses.swap_remove(house);
            look(&frame, &house, &mut self.comparisons)?;
            self.live -= house.takes;
            gone += 1;
            // The GPU need not have copied it yet: it is destroyed once it has.
            drop(house);
        }
        for _ in 0..LOOKS.min(self.houses.len()) {
            let house = self.below(self.houses.len());
            look(&frame, &self.houses[house], &mut self.comparisons)?;
        }
        while self.live < target {
            self.build()?;
        }
        let (number, began) = (frame.number(), Instant::now());
        frame.end()?; // with a step of defragmentation
        self.longest_end = self.longest_end.max(began.elapsed());
        if number >= 2 * SETTLED {
            let blocks = self.blocks();
            self.most_blocks = self.most_blocks.max(blocks);
            self.idle.push(1.0 - self.live as f64 / (u64::from(blocks) * BLOCK) as f64);
        }
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
        let bytes = seed(number).bytes(size_of(number), &mut self.bytes);
        self.gpu.uploads().write_buffer(&buffer, 0, bytes)?;
        self.live += takes;
        self.houses.push(House { number, buffer, takes });
        Ok(())
    }

    fn blocks(&self) -> u32 {
        // Rings have dedicated memory.
        self.gpu.allocator().blocks().iter().filter(|block| !block.dedicated).count() as u32
    }

    /// Returns a number below `n`, which is not 0: the same in each run.
    fn below(&mut self, n: usize) -> usize {
        self.random = mixed(self.random.wrapping_add(0x9e37_79b9_7f4a_7c15));
        (self.random % n as u64) as usize
    }

    /// After the last frame every house is compared once more and dropped, and nothing may be left.
    fn leave(mut self) -> Outcome<Figures> {
        let moved = self.gpu.defragmenter().statistics();
        for some in self.houses.chunks(64) {
            let frame = self.gpu.begin_frame()?;
            some.iter().try_for_each(|house| look(&frame, house, &mut self.comparisons))?;
            frame.end()?;
            self.comparisons.compare_all()?;
        }
        let most_idle = self.idle.iter().copied().fold(0.0, f64::max);
        if self.gpu.desc().defragmentation.is_some() && most_idle >= MOST_IDLE {
            return Err(format!("{} of the memory was idle at most", percent(most_idle)).into());
        }
        let figures = vec![
            ("frames", self.idle.len().to_string()),
            ("houses built", self.next.to_string()),
            ("compared, all right", mib(self.comparisons.compared)),
            ("lives at the end", mib(self.live)),
            ("blocks at the end", self.blocks().to_string()),
            ("most blocks", self.most_blocks.to_string()),
            ("idle memory, at the end", percent(self.idle.last().copied().unwrap_or_default())),
            ("idle memory, on average", percent(self.idle.iter().sum::<f64>() / self.idle.len() as f64)),
            ("idle memory, at most", percent(most_idle)),
            ("moved", moved.moves.to_string()),
            ("copied for it", mib(moved.bytes_moved)),
            ("blocks emptied", moved.blocks_emptied.to_string()),
            ("longest end of a frame", format!("{:.1?}", self.longest_end)),
        ];
        drop((self.houses, self.comparisons));
        check_that_nothing_is_left(self.gpu)?;
        Ok(figures)
    }
}

/// The GPU copies a house to where the CPU reads it. Its handle is that of this frame: a step of defragmentation may
/// change it.
fn look<D: Device>(frame: &Frame<D>, house: &House<D>, comparisons: &mut Comparisons<D>) -> Outcome {
    let part = (seed(house.number), size_of(house.number));
    let ticket = frame.read_back(QUEUE, &house.buffer, 0, part.1)?;
    comparisons.expect(frame.number(), ticket, [part]);
    Ok(())
}

/// Returns the bytes that shall live in a frame.
fn target(frame: u64) -> u64 {
    let part = frame % (2 * SEASON);
    let grown = if part < SEASON { part } else { 2 * SEASON - part };
    // The first frames build the whole town, some houses at a time.
    let there = LEAST + (MOST - LEAST) * grown / SEASON;
    there.min((frame + 1) * MOST / SETTLED)
}

/// Returns what the bytes of a house follow from. No two have the same.
fn seed(number: u64) -> Seed {
    Seed(number << 24)
}

fn size_of(number: u64) -> u64 {
    let random = mixed(number.wrapping_add(77));
    let order = (4 << 10) << (random % 6);
    order + (random >> 8) % order / 4 * 4
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

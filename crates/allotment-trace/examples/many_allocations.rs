//! Writes a recording with many allocations, to measure what shows it: names, categories, call sites, call stacks, frames,
//! two heaps, four pools, names of levels.
//!
//! ```text
//! cargo run --release -p allotment-trace --example many_allocations -- many.altr 1000000
//! cargo run --release -p allotment-trace --example many_allocations -- live.altr 1000000 live
//! ```
//!
//! Requests of many sizes go through an allocator on the simulated GPU, a thousand a frame. Most are freed a few frames
//! later, some stay for long, and one in a hundred is never freed. With `live` none is freed. The numbers are
//! always the same.

use core::error::Error;
use std::collections::BTreeMap;

use allotment::device::MemoryTypeIndex;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::PoolDesc;
use allotment::{
    Allocation, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements, ResourceKind,
};
use allotment_trace::Collector;
use allotment_trace::recording::{Event, Recording, RecordingWriter, StackFrame, StackId, WriterDesc};

const PER_FRAME: u64 = 1000;
/// Call sites; each has one stack in so many callers.
const SITES: u64 = 400;
const CALLERS: u64 = 25;
/// Frames of a level, which has a mark and names of its own.
const LEVEL: u64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: many_allocations FILE [ALLOCATIONS] [live]")?;
    let count = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;
    let live = arguments.next().is_some_and(|how| how == "live");
    let recording = make(count, live)?;
    let summary = write(&recording, std::io::BufWriter::new(std::fs::File::create(&path)?))?;
    println!("{path}: {} events, {} texts", summary.events, summary.texts);
    Ok(())
}

/// Numbers that look random: `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn make(count: u64, live: bool) -> Result<Recording, Box<dyn Error>> {
    let profile = Profile::named("discrete-large-bar").ok_or("there is no such profile")?;
    let allocator = Allocator::new(SimulatedGpu::new(profile), AllocatorDesc::default())?;
    let mut collector = Collector::new(&allocator)?;
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    desc.name = Some("streamed".into());
    let streamed = allocator.create_pool(desc)?;
    let mut random = Random(1);
    let mut ends: BTreeMap<u64, Vec<Allocation>> = BTreeMap::new();
    for number in 0..count {
        let frame = number / PER_FRAME;
        let site = random.below(SITES);
        let usage = match random.below(20) {
            0..=2 => MemoryUsage::Upload,
            3 => MemoryUsage::Readback,
            _ => MemoryUsage::GpuOnly,
        };
        let category = ["mesh", "texture", "target", "staging"][(site % 4) as usize];
        let name = match site % 5 {
            // A name of its own, as an asset has.
            0 => format!("level {}/{category} {number}", frame / LEVEL),
            _ => format!("{category} {site}"),
        };
        let options =
            AllocationOptions::new(usage).with_name(name).with_category(category).with_user_data(site);
        let in_pool = usage == MemoryUsage::GpuOnly && random.below(4) == 0;
        let options = if in_pool { options.with_pool(&streamed) } else { options };
        // Few are large: the bytes are spread evenly over the powers of two.
        let power = random.below(if live { 6 } else { 12 });
        let size = 256 + random.below(256 << power);
        let image = category == "texture" && usage == MemoryUsage::GpuOnly;
        let kind = if image { ResourceKind::OptimalImage } else { ResourceKind::Buffer };
        let made = allocator.allocate(&Requirements::new(size).with_kind(kind), &options)?;
        let stays = match random.below(100) {
            0 => count,
            1..=9 => 10 + random.below(300),
            _ => random.below(4),
        };
        let until = if live { u64::MAX } else { frame + stays };
        ends.entry(until).or_default().push(made);
        if (number + 1) % PER_FRAME == 0 {
            end_frame(&allocator, &mut collector, &mut ends, frame)?;
        }
    }
    collector.read();
    let recording = collector.into_recording();
    for left in ends.into_values().flatten() {
        allocator.free(left)?;
    }
    Ok(recording)
}

/// Frees what ends with a frame: the program releases it, and the GPU has done with it at once.
fn end_frame(
    allocator: &Allocator<SimulatedGpu>,
    collector: &mut Collector,
    ends: &mut BTreeMap<u64, Vec<Allocation>>,
    frame: u64,
) -> Result<(), Box<dyn Error>> {
    if frame % LEVEL == 0 {
        collector.read();
        collector.mark(&format!("level {}", frame / LEVEL));
    }
    for ended in ends.remove(&frame).unwrap_or_default() {
        allocator.free(ended)?;
    }
    allocator.end_frame();
    collector.read();
    collector.event(&Event::Time { nanoseconds: (frame + 1) * 16_666_667 });
    Ok(())
}

/// Writes a recording, and with each allocation a call stack and the call site at its end.
fn write(
    recording: &Recording,
    to: impl std::io::Write,
) -> std::io::Result<allotment_trace::recording::Summary> {
    let mut writer = RecordingWriter::new(to, &recording.header, &WriterDesc::default())?;
    for text in &recording.texts {
        writer.text(text);
    }
    let mut random = Random(2);
    for event in &recording.events {
        writer.event(event)?;
        let Event::Allocated(allocated) = event else { continue };
        let allocation = allocated.allocation;
        let (site, caller) = (allocated.user_data, random.below(CALLERS));
        let mut stack = StackId::NONE;
        // main, eight levels of callers that branch, the function that creates the resource.
        for level in 0..10 {
            let (function, place) = match level {
                0 => ("engine::main".to_owned(), "src/main.rs:12".to_owned()),
                9 => {
                    (format!("engine::assets::create_{site}"), format!("src/assets/{}.rs:{site}", site % 40))
                }
                _ => {
                    let branch = caller >> (8 - level) & 3;
                    (
                        format!("engine::level{level}::load_{branch}"),
                        format!("src/level{level}.rs:{}", 10 + branch),
                    )
                }
            };
            let (function, place) = (writer.text(&function), writer.text(&place));
            stack = writer.stack(StackFrame { parent: stack, function, place });
        }
        writer.event(&Event::Stack { allocation, stack })?;
        let site = writer.text(&format!("src/assets/{}.rs:{site}", site % 40));
        writer.event(&Event::CallSite { allocation, site })?;
    }
    Ok(writer.finish()?.1)
}

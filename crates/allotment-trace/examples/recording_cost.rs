//! What a recording costs: bytes, and nanoseconds an event of each step, on one thread.
//!
//! ```text
//! cargo run --release -p allotment-trace --example recording_cost -- traces/supertuxkart-race.csv.gz 10000000
//! ```
//!
//! A trace is played through an allocator until there are so many events (once, if no number is given), with the names of
//! the trace, call sites, and a release before each free. Its events are collected in memory.

use core::error::Error;
use core::time::Duration;
use std::collections::HashMap;
use std::io::Cursor;
use std::time::Instant;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::reports::CallSites;
use allotment::{
    Alignment, Allocation, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements,
    ResourceKind,
};
use allotment_trace::recording::{Event, Recording, RecordingReader, RecordingWriter, State, WriterDesc};
use allotment_trace::{Collector, Op, Trace};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "traces/supertuxkart-race.csv.gz".to_owned());
    let wanted = arguments.next().map_or(Ok(0), |number| number.parse())?;
    let recording = play(&Trace::open(&path)?, wanted)?;
    let count = recording.events.len();
    println!("{path}: {count} events, {} texts", recording.texts.len());
    let per_event = |time: Duration| format!("{:6.1} ns an event", time.as_secs_f64() * 1e9 / count as f64);

    for (what, desc) in [
        ("encoded", WriterDesc::default().with_snapshot_every(0)),
        ("written with snapshots", WriterDesc::default()),
    ] {
        let mut writer = RecordingWriter::new(Vec::new(), &recording.header, &desc)?;
        for text in &recording.texts {
            writer.text(text);
        }
        let time = Instant::now();
        for event in &recording.events {
            writer.event(event)?;
        }
        let (file, summary) = writer.finish()?;
        println!(
            "{what}: {}, {:.2} bytes an event ({} snapshots)",
            per_event(time.elapsed()),
            file.len() as f64 / count as f64,
            summary.snapshots
        );
        if summary.snapshots == 0 {
            continue;
        }
        let time = Instant::now();
        let mut reader = RecordingReader::new(Cursor::new(&file))?;
        let middle = reader.snapshots().len() / 2;
        let state = reader.begin_at(middle)?;
        println!(
            "opened and begun at the middle, {} allocations: {:?}",
            state.allocations.len(),
            time.elapsed()
        );
        let late = reader.snapshots().get(middle + 1).map_or(count as u64, |next| next.moment.event) - 1;
        let time = Instant::now();
        reader.state_at(late)?;
        println!("state just before a snapshot: {:?}", time.elapsed());
    }

    let mut file = Vec::new();
    recording.write(&mut file)?;
    let time = Instant::now();
    let (read, damage) = Recording::read(&*file)?;
    let elapsed = time.elapsed();
    println!("read whole: {}, {:.2} s in all", per_event(elapsed), elapsed.as_secs_f64());
    let mut reader = RecordingReader::new(Cursor::new(&file))?;
    let mut events = Vec::new();
    let time = Instant::now();
    while reader.read_events(&mut events)? {
        events.clear();
    }
    println!("decoded chunk by chunk: {}", per_event(time.elapsed()));
    if read != recording || damage.is_some() {
        return Err("what was read is not what was written".into());
    }
    let time = Instant::now();
    let mut state = State::default();
    for event in &read.events {
        state.apply(event)?;
    }
    println!(
        "applied to a state: {}, {} allocations left",
        per_event(time.elapsed()),
        state.allocations.len()
    );

    let mut kinds = HashMap::<String, usize>::new();
    for event in &recording.events {
        let name = format!("{event:?}");
        let end = name.find([' ', '(']).unwrap_or(name.len());
        *kinds.entry(name[..end].to_owned()).or_default() += 1;
    }
    println!("{kinds:?}");
    Ok(())
}

/// Plays a trace until there are enough events. Returns them.
fn play(trace: &Trace, wanted: usize) -> Result<Recording, Box<dyn Error>> {
    let profile = Profile::named("discrete-large-bar").ok_or("there is no such profile")?;
    let mut desc = AllocatorDesc::default();
    desc.call_sites = CallSites::Location;
    let allocator = Allocator::new(SimulatedGpu::new(profile), desc)?;
    let mut collector = Collector::new(&allocator)?;
    loop {
        let mut live: HashMap<_, Allocation> = HashMap::new();
        for (number, event) in trace.events().iter().enumerate() {
            match event.op {
                Op::Allocate(index) => {
                    let resource = trace.resource(index);
                    let image = resource.image_shape().is_some();
                    let kind = if image { ResourceKind::OptimalImage } else { ResourceKind::Buffer };
                    let requirements = Requirements::new(resource.size())
                        .with_alignment(Alignment::new(resource.alignment())?)
                        .with_kind(kind);
                    let options = AllocationOptions::new(MemoryUsage::GpuOnly);
                    // As an engine does: a name for each texture, none for the many small buffers.
                    let options = match resource.name() {
                        name if image => options.with_name(format!("{name} {}", index.as_usize())),
                        _ => options,
                    };
                    live.insert(index, allocator.allocate(&requirements, &options)?);
                }
                Op::Free(index) => {
                    let token = live.remove(&index).ok_or("a resource is freed twice")?;
                    collector.event(&Event::FreeRequested { allocation: token.id().key() });
                    allocator.free(token)?;
                }
                Op::FrameEnd => allocator.end_frame(),
            }
            if number % 1000 == 0 {
                collector.read();
            }
        }
        for (_, token) in live {
            allocator.free(token)?;
        }
        collector.read();
        if collector.recording().events.len() >= wanted {
            return Ok(collector.into_recording());
        }
    }
}

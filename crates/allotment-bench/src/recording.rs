//! `recording`: an allocation and a free, alone and while a recorder writes what happens. Without a GPU.
//!
//! The recorder has a thread of its own, whose time is not counted: on two cores it runs beside.

use std::path::PathBuf;
use std::sync::Arc;
use std::{env, process};

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::Allocation;
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};
use allotment_trace::{Recorder, RingDesc};
use serde::Serialize;

use crate::args::RecordingArgs;
use crate::failure::Failure;
use crate::race::{Clock, Racer, Rows, race};
use crate::start_barrier::processors;

/// Allocations that live while one after the other is exchanged.
const LIVE: usize = 1000;
const SIZE: u64 = 4096;
/// Allocations and frees between two ends of a frame.
const BATCH: u64 = 1000;

#[derive(Serialize)]
struct Report {
    /// Threads that can run at once.
    processors: usize,
    repetitions: u32,
    rows: Rows,
}

/// Who reads the events.
#[derive(Clone, Copy)]
enum Reader {
    Nobody,
    File,
    Ring,
}

pub(crate) fn run(args: &RecordingArgs) -> Result<(), Failure> {
    let report = measure(args)?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        say!("An operation is an allocation of {SIZE} bytes and a free of another one, of {LIVE}.");
        report.rows.print(report.processors);
    }
    Ok(())
}

fn measure(args: &RecordingArgs) -> Result<Report, Failure> {
    let mut rows = Rows::default();
    for &threads in &args.threads {
        for (workload, name) in [("pair", None), ("pair-named", Some("a mesh"))] {
            let racers = [
                racer("alone", Reader::Nobody, name, threads, args.batches)?,
                racer("recorder to a file", Reader::File, name, threads, args.batches)?,
                racer("recorder to a ring", Reader::Ring, name, threads, args.batches)?,
            ];
            rows.add(workload, Clock::ThreadCpu, &race(&racers, args.repetitions)?);
        }
    }
    Ok(Report { processors: processors(), repetitions: args.repetitions, rows })
}

fn racer(
    contender: &'static str,
    reader: Reader,
    name: Option<&'static str>,
    threads: u16,
    batches: u64,
) -> Result<Racer, Failure> {
    let failed = |error: &dyn core::error::Error| Failure::Setup { contender, error: error.to_string() };
    let Some(profile) = Profile::named("discrete-large-bar") else { unreachable!("a built-in profile") };
    let allocator = Allocator::new(SimulatedGpu::new(profile), AllocatorDesc::default());
    let allocator = Arc::new(allocator.map_err(|error| failed(&error))?);
    let mut options: AllocationOptions = MemoryUsage::GpuOnly.into();
    options.name = name.map(Into::into);
    let name = name.unwrap_or("none").len();
    let file = format!("allotment-bench-{}-{name}-{threads}.altr", process::id());
    let file = TemporaryFile(env::temp_dir().join(file));
    let recorder = match reader {
        Reader::Nobody => None,
        Reader::File => Some(Recorder::to_file(&*allocator, &file.0)),
        Reader::Ring => Some(Recorder::ring(&*allocator, &RingDesc::default())),
    };
    let recorder = recorder.transpose().map_err(|error| failed(&error))?;
    // Kept as long as the racer.
    let recording = Arc::new(Recorded { _recorder: recorder, _file: file });
    let lane = |thread| {
        let allocator = allocator.clone();
        let mut pairs = Pairs { live: Vec::new(), next: 0, allocator, options: options.clone() };
        let recording = recording.clone();
        move || {
            let _recording = &recording;
            // By the thread itself, so that its memory is in the shard that it uses.
            while pairs.live.len() < LIVE {
                let new = pairs.allocate();
                pairs.live.push(new);
            }
            for _ in 0..batches {
                (0..BATCH).for_each(|_| pairs.exchange());
                if thread == 0 {
                    pairs.allocator.end_frame();
                }
            }
            batches * BATCH
        }
    };
    Ok(Racer::together(contender, (0..threads).map(lane)))
}

/// What records, and where to; dropped in this order.
struct Recorded {
    _recorder: Option<Recorder>,
    _file: TemporaryFile,
}

/// A file that is removed with this, if there is one.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Pairs {
    live: Vec<Allocation>,
    next: usize,
    allocator: Arc<Allocator<SimulatedGpu>>,
    options: AllocationOptions,
}

impl Pairs {
    #[inline]
    fn allocate(&self) -> Allocation {
        let Ok(new) = self.allocator.allocate(&Requirements::new(SIZE), &self.options) else {
            unreachable!("there is memory")
        };
        new
    }

    #[inline]
    fn exchange(&mut self) {
        let new = self.allocate();
        self.next = (self.next * 5 + 7) % LIVE;
        let old = core::mem::replace(&mut self.live[self.next], new);
        let freed = self.allocator.free(old);
        debug_assert!(freed.is_ok(), "it is freed once");
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        for allocation in self.live.drain(..) {
            let _ = self.allocator.free(allocation);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_row_has_a_time_alone_and_with_a_recorder() {
        let args = RecordingArgs { json: true, repetitions: 2, batches: 3, threads: vec![1, 2] };
        let report = serde_json::to_value(measure(&args).unwrap()).unwrap();
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 12);
        assert!(rows.iter().all(|row: &Value| row["ns_per_op"].as_f64().unwrap() > 0.0), "{report}");
    }
}

//! A trace through an allocator.
//!
//! Each resource of the trace is allocated, filled with bytes of its own, verified before it is freed (or
//! at the end), and freed: with the requirements that the device has for its kind, for the intent that
//! its recorded usage tells.

mod history;
mod pattern;
mod timing;

use allotment::device::QueueIndex;
use allotment::device::host::HostDevice;
use allotment::memory::{DeviceCalls, Place, Statistics, Transfer};
use allotment::{
    Alignment, Allocation, AllocationDesc, Allocator, AllocatorDesc, Intent, Requirements, ResourceKind,
};
use allotment_trace::{Op, Resource, ResourceIndex, ResourceKind as RecordedKind, Trace};

use crate::args::{Bytes, Setup};
use crate::failure::Failure;
pub(crate) use history::{Block, History, Sample};
use pattern::Pattern;
pub(crate) use timing::{Percentiles, Stopwatch};

/// Bytes of each of the two staging buffers.
const STAGING: u64 = 8 << 20;

/// What to do beside allocating and freeing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// How much of each resource is filled and verified.
    pub(crate) bytes: Bytes,
    /// Keep what a report needs.
    pub(crate) history: bool,
    /// Keep a dump of the state at the peak.
    pub(crate) dump: bool,
    /// End at the first refusal, rather than count it and go on.
    pub(crate) stop_at_refusal: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) failed: u64,
    pub(crate) bytes_uploaded: u64,
    pub(crate) bytes_verified: u64,
    pub(crate) peak_live: u64,
    /// The statistics when most bytes were reserved, and the index of that event.
    pub(crate) peak: Statistics,
    pub(crate) peak_event: usize,
    /// Calls that got memory or gave it back, up to the end of the trace.
    pub(crate) device_calls: u64,
    /// The most such calls in a frame that needed no more live bytes than some frame before it.
    pub(crate) max_calls_in_steady_frame: u64,
    pub(crate) timing: Percentiles,
    pub(crate) history: History,
    pub(crate) dump: Option<String>,
}

/// Replays a trace. `progress` is told the index of every event.
pub(crate) fn replay(
    trace: &Trace,
    setup: &Setup,
    options: Options,
    progress: impl FnMut(usize),
) -> Result<Outcome, Failure> {
    let device = HostDevice::new(setup.profile.clone());
    let mut desc = AllocatorDesc::default();
    desc.algorithm = setup.algorithm;
    (desc.block_sizes, desc.retention) = (setup.block_sizes, setup.retention);
    let allocator = Allocator::new(device.clone(), desc)?;
    // Copies go to the last queue, which is the one for transfers where there is one.
    let queue = QueueIndex(setup.profile.queues.len().saturating_sub(1) as u8);
    let transfer = Transfer::new(&allocator, queue, STAGING)
        .map_err(|error| Failure::Unexpected(format!("staging buffers: {error}")))?
        .with_usage(HostDevice::ANYWHERE);
    let run = Run {
        trace,
        options,
        staging: Baseline { statistics: allocator.statistics(), calls: allocator.device_calls() },
        allocator: &allocator,
        device: &device,
        transfer,
        live: trace.resources().iter().map(|_| None).collect(),
        live_bytes: 0,
        pattern: Pattern::default(),
        stopwatch: Stopwatch::new(trace.allocations() + trace.frees()),
        steady: SteadyFrames::default(),
        outcome: Outcome {
            allocations: 0,
            frees: 0,
            failed: 0,
            bytes_uploaded: 0,
            bytes_verified: 0,
            peak_live: 0,
            peak: Statistics::default(),
            peak_event: 0,
            device_calls: 0,
            max_calls_in_steady_frame: 0,
            timing: Percentiles::default(),
            history: History::hiding(&allocator.blocks()),
            dump: None,
        },
    };
    let outcome = run.all(progress)?;
    match device.complaints().first() {
        Some(complaint) => Err(Failure::Unexpected(format!("the device complains: {complaint}"))),
        None => Ok(outcome),
    }
}

/// What was there before the trace began: the staging buffers.
#[derive(Debug)]
struct Baseline {
    statistics: Statistics,
    calls: DeviceCalls,
}

struct Run<'a> {
    trace: &'a Trace,
    options: Options,
    allocator: &'a Allocator<HostDevice>,
    device: &'a HostDevice,
    transfer: Transfer<'a, HostDevice>,
    staging: Baseline,
    /// By resource index; `None` where it was not allocated yet, refused, or freed.
    live: Vec<Option<Allocation>>,
    live_bytes: u64,
    pattern: Pattern,
    stopwatch: Stopwatch,
    steady: SteadyFrames,
    outcome: Outcome,
}

/// Finds the frames that needed no more than some frame before them: they should not call the driver.
#[derive(Debug, Default)]
struct SteadyFrames {
    /// The most live bytes up to the end of the frame before.
    seen: u64,
    /// The most live bytes in this frame.
    here: u64,
    calls_before: u64,
    most_calls: u64,
}

impl SteadyFrames {
    fn live(&mut self, bytes: u64) {
        self.here = self.here.max(bytes);
    }

    fn end(&mut self, live: u64, calls: u64) {
        if self.here <= self.seen {
            self.most_calls = self.most_calls.max(calls - self.calls_before);
        }
        self.seen = self.seen.max(self.here);
        (self.here, self.calls_before) = (live, calls);
    }
}

impl Run<'_> {
    fn all(mut self, mut progress: impl FnMut(usize)) -> Result<Outcome, Failure> {
        for (index, event) in self.trace.events().iter().enumerate() {
            match event.op {
                Op::Allocate(resource) => self.allocate(index, event.line, resource)?,
                Op::Free(resource) => self.free(index, resource)?,
                Op::FrameEnd => {
                    self.allocator.end_frame();
                    self.steady.end(self.live_bytes, self.calls());
                }
            }
            self.observe(index);
            progress(index);
        }
        self.outcome.device_calls = self.calls();
        self.outcome.max_calls_in_steady_frame = self.steady.most_calls;
        self.outcome.timing = self.stopwatch.percentiles();
        for resource in self.trace.live_at_end() {
            if let Some(allocation) = self.live[resource.as_usize()].take() {
                self.verify(*resource, &allocation)?;
                self.give_back(allocation)?;
            }
        }
        Ok(self.outcome)
    }

    fn desc(&self, resource: &Resource) -> Result<AllocationDesc, Failure> {
        let (kind, intent, category) = roles(resource);
        let own = Requirements::new(resource.size()).aligned(Alignment::new(resource.alignment())?);
        let desc = AllocationDesc::new(self.device.requirements(kind, own), intent);
        Ok(desc.of_kind(kind).in_category(category))
    }

    fn allocate(&mut self, index: usize, line: u64, resource: ResourceIndex) -> Result<(), Failure> {
        let recorded = self.trace.resource(resource);
        let mut desc = self.desc(recorded)?;
        desc.user_data = recorded.id() + 1;
        if self.options.dump {
            desc = desc.named(display_name(recorded));
        }
        let allocator = self.allocator;
        let allocation = match self.stopwatch.time(|| allocator.allocate(&desc)) {
            Ok(allocation) => allocation,
            Err(error) if self.options.stop_at_refusal => {
                return Err(Failure::Allocation { line, id: recorded.id(), error });
            }
            Err(_) => {
                self.outcome.failed += 1;
                return Ok(());
            }
        };
        self.outcome.allocations += 1;
        self.live_bytes += recorded.size();
        self.outcome.peak_live = self.outcome.peak_live.max(self.live_bytes);
        self.steady.live(self.live_bytes);
        if self.options.history {
            let place = self.place(&allocation)?;
            let info = allocator.info(allocation.id()).map_err(unexpected)?;
            self.outcome.history.allocated(index, resource, &place, info.occupied, desc.category);
        }
        self.fill(resource, &allocation)?;
        self.live[resource.as_usize()] = Some(allocation);
        Ok(())
    }

    fn free(&mut self, index: usize, resource: ResourceIndex) -> Result<(), Failure> {
        // One that was refused is not there to be freed.
        let Some(allocation) = self.live[resource.as_usize()].take() else { return Ok(()) };
        self.verify(resource, &allocation)?;
        let allocator = self.allocator;
        self.stopwatch.time(|| allocator.free(allocation)).map_err(unexpected)?;
        self.outcome.frees += 1;
        self.live_bytes -= self.trace.resource(resource).size();
        if self.options.history {
            self.outcome.history.freed(index, resource);
        }
        Ok(())
    }

    fn give_back(&self, allocation: Allocation) -> Result<(), Failure> {
        self.allocator.free(allocation).map_err(unexpected)
    }

    fn place(&self, allocation: &Allocation) -> Result<Place<HostDevice>, Failure> {
        self.allocator.place(allocation).map_err(unexpected)
    }

    /// The parts of a resource that carry bytes.
    fn parts(&self, size: u64) -> Vec<core::ops::Range<u64>> {
        const END: u64 = 64 << 10;
        match self.options.bytes {
            Bytes::All => core::iter::once(0..size).collect(),
            Bytes::Ends if size > 2 * END => vec![0..END, size - END..size],
            Bytes::Ends => core::iter::once(0..size).collect(),
            Bytes::None => Vec::new(),
        }
    }

    fn fill(&mut self, resource: ResourceIndex, allocation: &Allocation) -> Result<(), Failure> {
        let recorded = self.trace.resource(resource);
        for part in self.parts(recorded.size()) {
            for chunk in pattern::chunks(part) {
                let bytes = self.pattern.bytes(recorded.id(), chunk.clone());
                let moved = self.transfer.upload(allocation, chunk.start, bytes);
                moved.map_err(|error| Failure::Transfer { id: recorded.id(), error })?;
                self.outcome.bytes_uploaded += chunk.end - chunk.start;
            }
        }
        Ok(())
    }

    fn verify(&mut self, resource: ResourceIndex, allocation: &Allocation) -> Result<(), Failure> {
        let recorded = self.trace.resource(resource);
        let id = recorded.id();
        for part in self.parts(recorded.size()) {
            for chunk in pattern::chunks(part) {
                let (expected, back) = self.pattern.bytes_and_room(id, chunk.clone());
                let moved = self.transfer.download(allocation, chunk.start, back);
                moved.map_err(|error| Failure::Transfer { id, error })?;
                if expected != back {
                    let at = expected.iter().zip(back.iter()).take_while(|(a, b)| a == b).count();
                    return Err(Failure::Corrupt { id, offset: chunk.start + at as u64 });
                }
                self.outcome.bytes_verified += chunk.end - chunk.start;
            }
        }
        Ok(())
    }

    /// Driver calls that the trace caused so far.
    fn calls(&self) -> u64 {
        self.allocator.device_calls().memory() - self.staging.calls.memory()
    }

    /// Statistics without the staging buffers.
    fn statistics(&self) -> Statistics {
        let (all, staging) = (self.allocator.statistics(), &self.staging.statistics);
        let mut own = all;
        own.dedicated -= staging.dedicated;
        own.block_bytes -= staging.block_bytes;
        own.allocations -= staging.allocations;
        own.allocation_bytes -= staging.allocation_bytes;
        own.rounding -= staging.rounding;
        own
    }

    fn observe(&mut self, index: usize) {
        let statistics = self.statistics();
        if statistics.block_bytes > self.outcome.peak.block_bytes {
            (self.outcome.peak, self.outcome.peak_event) = (statistics, index);
            if self.options.dump {
                self.outcome.dump = Some(self.allocator.dump_json());
            }
        }
        if self.options.history {
            let calls = self.calls();
            let allocator = self.allocator;
            self.outcome.history.observe(index, &statistics, calls, || allocator.blocks());
        }
    }
}

/// A refusal of the library that a sound replay never sees.
fn unexpected(error: impl core::fmt::Display) -> Failure {
    Failure::Unexpected(error.to_string())
}

const TRANSFER_SRC: u32 = 1;
const TRANSFER_DST: u32 = 1 << 1;
const UNIFORM: u32 = 1 << 4;
const STORAGE: u32 = 1 << 5;
const INDEX: u32 = 1 << 6;
const VERTEX: u32 = 1 << 7;
const INDIRECT: u32 = 1 << 8;

/// What a resource is called where people look: an image by its format and extent, as recorded, a buffer
/// by what it may be used for.
pub(crate) fn display_name(resource: &Resource) -> String {
    let RecordedKind::Buffer { usage: Some(usage) } = resource.kind() else {
        return resource.name().to_owned();
    };
    let flags = [
        (VERTEX, "vertex"),
        (INDEX, "index"),
        (UNIFORM, "uniform"),
        (STORAGE, "storage"),
        (INDIRECT, "indirect"),
        (TRANSFER_SRC, "copied from"),
        (TRANSFER_DST, "copied to"),
    ];
    let named: Vec<_> = flags.iter().filter(|(flag, _)| usage & flag != 0).map(|(_, name)| *name).collect();
    if named.is_empty() {
        format!("buffer, usage {usage:#x}")
    } else {
        format!("{} buffer", named.join(", "))
    }
}

/// What a recorded resource is, what its memory is for, and what to call that.
///
/// A buffer's usage tells: one that is only copied from is how a program uploads, one that is only copied
/// to is how it reads back.
fn roles(resource: &Resource) -> (ResourceKind, Intent, &'static str) {
    match resource.kind() {
        RecordedKind::Image => (ResourceKind::OptimalImage, Intent::Device, "image"),
        RecordedKind::Buffer { usage } => match usage {
            Some(TRANSFER_SRC) => (ResourceKind::Buffer, Intent::Upload, "staging"),
            Some(TRANSFER_DST) => (ResourceKind::Buffer, Intent::Readback, "readback"),
            // The CPU has no other way into a buffer that is not copied to.
            Some(usage) if usage & TRANSFER_DST == 0 => {
                (ResourceKind::Buffer, Intent::DeviceHostWrite, "dynamic buffer")
            }
            Some(usage) if usage & (INDEX | VERTEX) != 0 => (ResourceKind::Buffer, Intent::Device, "mesh"),
            Some(usage) if usage & (UNIFORM | STORAGE) != 0 => {
                (ResourceKind::Buffer, Intent::Device, "shader data")
            }
            _ => (ResourceKind::Buffer, Intent::Device, "buffer"),
        },
    }
}

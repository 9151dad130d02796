//! A trace through an allocator.
//!
//! Each resource of the trace is made as its device has it (`target/`), filled with bytes of its own, verified
//! before it is destroyed (or at the end), and destroyed: for the memory usage that its recorded usage tells.
//!
//! ```text
//!   roles      what a recorded resource was for
//!   live       what it became, and the bytes in it
//!   pattern    bytes that tell where they belong
//!   steady     frames that should not call the driver
//!   timing     how long single operations take
//!   history    what a report needs to know
//! ```

mod history;
mod live;
pub(crate) mod pattern;
mod roles;
mod steady;
#[cfg(test)]
mod tests;
mod timing;

use allotment::device::{Device, QueueIndex};
use allotment::memory::{
    DriverCallStatistics, MemoryLocation, ResourceError, Statistics, Transfer, TransferError,
};
use allotment::{AllocationOptions, Allocator};
use allotment_trace::{Op, Resource, ResourceIndex, Trace};

use crate::args::{Bytes, Setup};
use crate::failure::Failure;
use crate::progress::{self, EVENT};
use crate::target::{Plan, Target, close_after};
pub(crate) use history::{Block, History, Sample};
use live::Live;
use pattern::Pattern;
pub(crate) use roles::{display_name, roles};
use steady::SteadyFrames;
pub(crate) use timing::{Percentiles, Stopwatch};

/// Bytes of each of the two staging buffers.
pub(crate) const STAGING: u64 = 8 << 20;

/// Bytes at either end of a resource that are filled where not all are.
const END: u64 = 64 << 10;

/// What to do beside allocating and freeing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// How much of each resource is filled and verified.
    pub(crate) bytes: Bytes,
    /// Keep what a report needs.
    pub(crate) history: bool,
    /// Keep a dump of the state at the peak.
    pub(crate) dump: bool,
    /// Give resources names, for a dump or for the device's own checks.
    pub(crate) names: bool,
    /// End at the first refusal, rather than count it and go on.
    pub(crate) stop_at_refusal: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) failed: u64,
    pub(crate) bytes_uploaded: u64,
    pub(crate) bytes_verified: u64,
    pub(crate) images: Images,
    /// The most bytes that live resources needed at one moment: as recorded where they are memory alone, as
    /// the device says where it made them.
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

/// What became of recorded images, on a device that makes resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Images {
    /// Real images.
    pub(crate) made: u64,
    /// Buffers of the recorded size, since the device cannot make such an image.
    pub(crate) as_buffers: u64,
    /// Real images whose memory was filled and verified.
    pub(crate) verified: u64,
    /// Bytes that were not, since the CPU cannot reach the memory and no buffer may be laid over it: it is the
    /// image's alone, or the image stands where no buffer may begin.
    pub(crate) bytes_not_verified: u64,
}

/// The work of a replay, as [`Progress`](crate::progress::Progress) counts it.
pub(crate) fn work(trace: &Trace, bytes: Bytes) -> u64 {
    progress::work(trace, |resource| carried(bytes, resource.size()))
}

/// How many bytes of a resource are filled.
fn carried(bytes: Bytes, size: u64) -> u64 {
    match bytes {
        Bytes::All => size,
        Bytes::Ends => size.min(2 * END),
        Bytes::None => 0,
    }
}

/// Replays a trace. `progress` is told after every event how much of the [`work`] is done.
pub(crate) fn replay<T: Target>(
    trace: &Trace,
    target: T,
    setup: &Setup,
    options: Options,
    progress: impl FnMut(u64),
) -> Result<Outcome, Failure> {
    let outcome = replay_on(target.device(), trace, &target, setup, options, progress);
    close_after(target, outcome)
}

fn replay_on<T: Target>(
    device: T::Device,
    trace: &Trace,
    target: &T,
    setup: &Setup,
    options: Options,
    progress: impl FnMut(u64),
) -> Result<Outcome, Failure> {
    let allocator = Allocator::new(device, setup.allocator())?;
    let transfer = Transfer::new(&allocator, copy_queue(allocator.device()), STAGING)
        .map_err(|error| Failure::Unexpected(format!("staging buffers: {error}")))?
        .with_usage(target.overlay_usage())
        .through_the_queue();
    let run = Run {
        trace,
        target,
        options,
        staging: Baseline { statistics: allocator.statistics(), calls: allocator.device_calls() },
        allocator: &allocator,
        transfer,
        slots: trace.resources().iter().map(|_| None).collect(),
        live_bytes: 0,
        pattern: Pattern::default(),
        stopwatch: Stopwatch::new(trace.allocations() + trace.frees()),
        steady: SteadyFrames::default(),
        outcome: Outcome { history: History::hiding(&allocator.blocks()), ..Outcome::default() },
    };
    run.all(progress)
}

/// The last queue, which is the one for transfers where there is one.
pub(crate) fn copy_queue(device: &impl Device) -> QueueIndex {
    QueueIndex(device.properties().queues.len().saturating_sub(1) as u8)
}

/// What was there before the trace began: the staging buffers.
#[derive(Debug)]
struct Baseline {
    statistics: Statistics,
    calls: DriverCallStatistics,
}

struct Run<'a, T: Target> {
    trace: &'a Trace,
    target: &'a T,
    options: Options,
    allocator: &'a Allocator<T::Device>,
    transfer: Transfer<'a, T::Device>,
    staging: Baseline,
    /// By resource index; `None` where it was not made yet, refused, or destroyed.
    slots: Vec<Option<Slot<T::Device>>>,
    live_bytes: u64,
    pattern: Pattern,
    stopwatch: Stopwatch,
    steady: SteadyFrames,
    outcome: Outcome,
}

/// A live resource.
struct Slot<D: Device> {
    live: Live<D>,
    /// Bytes that it needs.
    size: u64,
    /// Bytes from its start on that are filled and verified; 0 where nobody can get at them.
    filled: u64,
}

impl<T: Target> Run<'_, T> {
    fn all(mut self, progress: impl FnMut(u64)) -> Result<Outcome, Failure> {
        let played = self.play(progress);
        // However it went, nothing is left behind for the device to complain of.
        let mut left = self.slots.iter_mut().filter_map(Option::take);
        let destroyed = left.try_for_each(|slot| known(slot.live.destroy(self.allocator)));
        played.and(destroyed).map(|()| self.outcome)
    }

    fn play(&mut self, mut progress: impl FnMut(u64)) -> Result<(), Failure> {
        let (trace, bytes) = (self.trace, self.options.bytes);
        let carried = |resource| carried(bytes, trace.resource(resource).size());
        let mut done = 0_u64;
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
            let bytes = match event.op {
                Op::Allocate(resource) | Op::Free(resource) => carried(resource),
                Op::FrameEnd => 0,
            };
            done = done.saturating_add(EVENT).saturating_add(bytes);
            progress(done);
        }
        self.outcome.device_calls = self.calls();
        self.outcome.max_calls_in_steady_frame = self.steady.most_calls;
        self.outcome.timing = self.stopwatch.percentiles();
        for &resource in self.trace.live_at_end() {
            self.verify(resource)?;
            done = done.saturating_add(carried(resource));
            progress(done);
        }
        Ok(())
    }

    /// What a resource becomes, and what for.
    fn plan(&self, recorded: &Resource) -> Result<(Plan, AllocationOptions), Failure> {
        let (kind, memory_usage, category) = roles(recorded);
        let plan = self.target.plan(self.allocator.device(), recorded, kind)?;
        // User data 0 would be none; the last id of all shares its number with the one before.
        let mut options =
            AllocationOptions::new(memory_usage).with_user_data(recorded.id().saturating_add(1));
        if self.options.names {
            options = options.with_name(display_name(recorded));
        }
        Ok((plan, options.with_category(category)))
    }

    fn allocate(&mut self, index: usize, line: u64, resource: ResourceIndex) -> Result<(), Failure> {
        let recorded = self.trace.resource(resource);
        let (plan, options) = self.plan(recorded)?;
        let allocator = self.allocator;
        let live = match self.stopwatch.time(|| Live::create(allocator, &plan, &options)) {
            Ok(live) => live,
            Err(error) if self.options.stop_at_refusal => return Err(refused(line, recorded, error)),
            Err(_) => {
                self.outcome.failed += 1;
                return Ok(());
            }
        };
        let place = self.place(&live)?;
        let info = allocator.info(live.allocation()).map_err(unexpected)?;
        let mut slot = Slot { live, size: place.size, filled: recorded.size() };
        match &plan {
            Plan::Memory { .. } => slot.size = recorded.size(),
            Plan::Buffer(_) => {}
            Plan::BufferForImage(_) => self.outcome.images.as_buffers += 1,
            Plan::Image(_) => {
                self.outcome.images.made += 1;
                // No buffer may be laid over such memory, to bring bytes there.
                let out_of_reach = info.exclusive && place.mapped_ptr.is_none();
                slot.filled = if out_of_reach { 0 } else { place.size };
            }
        }
        self.outcome.allocations += 1;
        self.live_bytes += slot.size;
        self.outcome.peak_live = self.outcome.peak_live.max(self.live_bytes);
        self.steady.live(self.live_bytes);
        if self.options.history {
            let history = &mut self.outcome.history;
            history.allocated(index, resource, &place, slot.size, info.occupied, options.category);
        }
        let filled = self.fill(resource, &mut slot);
        self.slots[resource.as_usize()] = Some(slot);
        filled
    }

    fn free(&mut self, index: usize, resource: ResourceIndex) -> Result<(), Failure> {
        self.verify(resource)?;
        // One that was refused is not there to be freed.
        let Some(slot) = self.slots[resource.as_usize()].take() else { return Ok(()) };
        let allocator = self.allocator;
        known(self.stopwatch.time(|| slot.live.destroy(allocator)))?;
        self.outcome.frees += 1;
        self.live_bytes -= slot.size;
        if self.options.history {
            self.outcome.history.freed(index, resource);
        }
        Ok(())
    }

    fn place(&self, live: &Live<T::Device>) -> Result<MemoryLocation<T::Device>, Failure> {
        self.allocator.location(live.allocation()).map_err(unexpected)
    }

    /// The parts of a resource that carry bytes.
    fn parts(&self, size: u64) -> Vec<core::ops::Range<u64>> {
        match self.options.bytes {
            Bytes::All => core::iter::once(0..size).collect(),
            Bytes::Ends if size > 2 * END => vec![0..END, size - END..size],
            Bytes::Ends => core::iter::once(0..size).collect(),
            Bytes::None => Vec::new(),
        }
    }

    /// Fills a resource with bytes of its own, unless it is an image and nobody can get at its memory.
    fn fill(&mut self, resource: ResourceIndex, slot: &mut Slot<T::Device>) -> Result<(), Failure> {
        let id = self.trace.resource(resource).id();
        match (self.fill_parts(id, slot), &slot.live) {
            (Ok(()), _) => {}
            // No buffer may be laid over it, which is found out before anything is written.
            (Err(TransferError::Buffer(ResourceError::Access(_))), Live::Image(_)) => slot.filled = 0,
            (Err(error), _) => return Err(Failure::Transfer { id, error }),
        }
        if slot.filled == 0 {
            let bytes = self.parts(slot.size).iter().map(|part| part.end - part.start).sum::<u64>();
            self.outcome.images.bytes_not_verified += bytes;
        }
        Ok(())
    }

    fn fill_parts(&mut self, id: u64, slot: &Slot<T::Device>) -> Result<(), TransferError> {
        for part in self.parts(slot.filled) {
            for chunk in pattern::chunks(part) {
                let bytes = self.pattern.bytes(id, chunk.clone());
                slot.live.write(&mut self.transfer, chunk.start, bytes)?;
                self.outcome.bytes_uploaded += chunk.end - chunk.start;
            }
        }
        Ok(())
    }

    /// Verifies the bytes of a resource that is live.
    fn verify(&mut self, resource: ResourceIndex) -> Result<(), Failure> {
        let Some(slot) = &self.slots[resource.as_usize()] else { return Ok(()) };
        let id = self.trace.resource(resource).id();
        let mapped = self.place(&slot.live)?.mapped_ptr.is_some();
        let parts = self.parts(slot.filled);
        let is_verified_image = matches!(slot.live, Live::Image(_)) && !parts.is_empty() && slot.filled != 0;
        for part in parts {
            for chunk in pattern::chunks(part) {
                let (expected, back) = self.pattern.bytes_and_room(id, chunk.clone());
                let moved = slot.live.read(&mut self.transfer, mapped, chunk.start, back);
                moved.map_err(|error| Failure::Transfer { id, error })?;
                if expected != back {
                    let at = expected.iter().zip(back.iter()).take_while(|(a, b)| a == b).count();
                    return Err(Failure::Corrupt { id, offset: chunk.start + at as u64 });
                }
                self.outcome.bytes_verified += chunk.end - chunk.start;
            }
        }
        self.outcome.images.verified += u64::from(is_verified_image);
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

/// Why a resource was not made.
fn refused(line: u64, recorded: &Resource, error: ResourceError) -> Failure {
    let id = recorded.id();
    match error {
        ResourceError::Allocation(error) => Failure::Allocation { line, id, error },
        error => Failure::Resource { line, id, error },
    }
}

/// An allocator knows what it made.
fn known(known: bool) -> Result<(), Failure> {
    if known { Ok(()) } else { Err(unexpected("the allocator does not know what it made")) }
}

/// A refusal of the library that a sound replay never sees.
pub(crate) fn unexpected(error: impl core::fmt::Display) -> Failure {
    Failure::Unexpected(error.to_string())
}

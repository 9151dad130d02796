//! Replays a trace through an allocator.
//!
//! Each resource of the trace is created as its device requires (`target/`), filled with distinct bytes, verified
//! before it is destroyed (or at the end), and destroyed. Its memory usage follows from its recorded usage.
//!
//! ```text
//!   roles      the purpose of a recorded resource
//!   live       a live resource and the bytes in it
//!   pattern    bytes that identify their resource and offset
//!   steady     frames that should not call the driver
//!   timing     the time of single operations
//!   record     the events of the allocator, as a recording
//! ```

mod live;
pub(crate) mod pattern;
mod record;
mod roles;
mod steady;
#[cfg(test)]
mod tests;
mod timing;

use allotment::device::{Device, MemoryDevice as _, MemoryProperties, MemoryTypeIndex, QueueIndex};
use allotment::memory::reports::{DriverCallStatistics, Statistics};
use allotment::memory::{MemoryLocation, ResourceError, Transfer, TransferError};
use allotment::{AllocationOptions, Allocator};
use allotment_trace::recording::Recording;
use allotment_trace::{Op, Resource, ResourceIndex, Trace};

use crate::args::{Bytes, Setup};
use crate::failure::Failure;
use crate::progress::{self, EVENT};
use crate::target::{Plan, Target, close_after};
pub(crate) use live::Live;
use pattern::Pattern;
pub(crate) use record::Record;
use record::Recordings;
pub(crate) use roles::{display_name, roles};
use steady::SteadyFrames;
pub(crate) use timing::{Percentiles, Stopwatch};

/// Size of each of the two staging buffers.
pub(crate) const STAGING: u64 = 8 << 20;

/// Bytes that are filled at either end of a resource if not all of it is.
const END: u64 = 64 << 10;

/// What to do besides allocating and freeing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// The part of each resource that is filled and verified.
    pub(crate) bytes: Bytes,
    /// Record a dump of the state at the peak.
    pub(crate) dump: bool,
    /// Name resources, for a dump or for validation messages.
    pub(crate) names: bool,
    /// Stop at the first failed allocation instead of counting it.
    pub(crate) stop_at_refusal: bool,
    /// Where the events of the allocator go.
    pub(crate) record: Record<'a>,
}

/// The outcome of a replay.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) failed: u64,
    pub(crate) bytes_uploaded: u64,
    pub(crate) bytes_verified: u64,
    pub(crate) images: Images,
    /// The most bytes that live resources needed at once: the recorded size for plain memory, the device's
    /// requirements for created resources.
    pub(crate) peak_live: u64,
    /// The statistics when most bytes were reserved.
    pub(crate) peak: Statistics,
    /// Driver calls that allocate or free memory, up to the end of the trace.
    pub(crate) device_calls: u64,
    /// The most such calls in a frame that needed no more live bytes than an earlier frame.
    pub(crate) max_calls_in_steady_frame: u64,
    pub(crate) timing: Percentiles,
    pub(crate) dump: Option<String>,
    /// The events, if they were recorded into memory.
    pub(crate) recording: Option<Recording>,
}

/// Statistics of recorded images, on a device that creates resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Images {
    /// Images created.
    pub(crate) made: u64,
    /// Buffers of the recorded size created instead, since the device does not support the image.
    pub(crate) as_buffers: u64,
    /// Images whose memory was filled and verified.
    pub(crate) verified: u64,
    /// Bytes that could not be verified: the memory is not host-visible and no buffer can alias it, because it is
    /// dedicated to the image, or because its offset violates a buffer's alignment.
    pub(crate) bytes_not_verified: u64,
}

/// Returns the work of a replay, as counted by [`Progress`](crate::progress::Progress).
pub(crate) fn work(trace: &Trace, bytes: Bytes) -> u64 {
    progress::work(trace, |resource| carried(bytes, resource.size()))
}

/// Returns how many bytes of a resource are filled.
fn carried(bytes: Bytes, size: u64) -> u64 {
    match bytes {
        Bytes::All => size,
        Bytes::Ends => size.min(2 * END),
        Bytes::None => 0,
    }
}

/// Replays a trace. Calls `progress` after every event with the finished part of the [`work`].
pub(crate) fn replay<T: Target>(
    trace: &Trace,
    target: T,
    setup: &Setup,
    options: Options<'_>,
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
    options: Options<'_>,
    progress: impl FnMut(u64),
) -> Result<Outcome, Failure> {
    let allocator = Allocator::new(device, setup.allocator())?;
    let mut recordings = Recordings::begin(options.record, &allocator)?;
    // Without bytes to fill there are no staging buffers either, which a recording file would show.
    let transfer = (options.bytes != Bytes::None).then(|| {
        Transfer::new(&allocator, copy_queue(allocator.device()), STAGING)
            .map_err(|error| Failure::Unexpected(format!("staging buffers: {error}")))
    });
    let transfer = transfer.transpose()?.map(|transfer| {
        // Through the queue: uploads then exercise the GPU's access to the memory, not only the CPU's.
        transfer.with_usage(target.overlay_usage()).through_the_queue()
    });
    recordings.hide();
    let run = Run {
        trace,
        target,
        options,
        staging: Baseline { statistics: allocator.statistics(), calls: allocator.reports().device_calls() },
        allocator: &allocator,
        transfer,
        recordings,
        slots: trace.resources().iter().map(|_| None).collect(),
        live_bytes: 0,
        pattern: Pattern::default(),
        stopwatch: Stopwatch::new(trace.allocations() + trace.frees()),
        steady: SteadyFrames::default(),
        outcome: Outcome::default(),
    };
    run.all(progress)
}

/// Returns the last queue, which is the transfer queue if there is one.
pub(crate) fn copy_queue(device: &impl Device) -> QueueIndex {
    QueueIndex(device.properties().queues.len().saturating_sub(1) as u8)
}

/// The statistics before the trace begins: the staging buffers.
#[derive(Debug)]
struct Baseline {
    statistics: Statistics,
    calls: DriverCallStatistics,
}

struct Run<'a, T: Target> {
    trace: &'a Trace,
    target: &'a T,
    options: Options<'a>,
    allocator: &'a Allocator<T::Device>,
    /// `None` if no bytes are filled.
    transfer: Option<Transfer<'a, T::Device>>,
    recordings: Recordings,
    staging: Baseline,
    /// By resource index; `None` if not created yet, failed, or destroyed.
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
    /// Filled and verified bytes from its start; 0 if its memory is not accessible.
    filled: u64,
}

impl<T: Target> Run<'_, T> {
    fn all(mut self, progress: impl FnMut(u64)) -> Result<Outcome, Failure> {
        let played = self.play(progress);
        // Now: what exists when the trace ends is still there, and not what the replay itself destroys.
        let recorded = self.recordings.end();
        // On every path, so that validation does not report leaked objects.
        let mut left = self.slots.iter_mut().filter_map(Option::take);
        let destroyed = left.try_for_each(|slot| known(slot.live.destroy(self.allocator)));
        played.and(destroyed)?;
        self.outcome.recording = recorded?;
        Ok(self.outcome)
    }

    fn play(&mut self, mut progress: impl FnMut(u64)) -> Result<(), Failure> {
        let (trace, bytes) = (self.trace, self.options.bytes);
        let carried = |resource| carried(bytes, trace.resource(resource).size());
        let mut done = 0_u64;
        for event in self.trace.events() {
            match event.op {
                Op::Allocate(resource) => self.allocate(event.line, resource)?,
                Op::Free(resource) => self.free(resource)?,
                Op::FrameEnd => {
                    self.allocator.end_frame();
                    self.steady.end(self.live_bytes, self.calls());
                }
            }
            self.observe();
            self.recordings.after_event();
            let bytes = match event.op {
                Op::Allocate(resource) | Op::Free(resource) => carried(resource),
                Op::FrameEnd => 0,
            };
            done = done.saturating_add(EVENT).saturating_add(bytes);
            progress(done);
        }
        // Taken before the final verification, which is no part of the recorded traffic.
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

    fn allocate(&mut self, line: u64, resource: ResourceIndex) -> Result<(), Failure> {
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
        // Plain memory counts with its recorded size, so that all devices report the same live bytes; a created
        // resource counts with what its device requires.
        match &plan {
            Plan::Memory { .. } => slot.size = recorded.size(),
            Plan::Buffer(_) => {}
            Plan::BufferForImage(_) => self.outcome.images.as_buffers += 1,
            Plan::Image(_) => {
                self.outcome.images.made += 1;
                // No buffer may be laid over such memory, to bring bytes there.
                let out_of_reach = info.dedicated_to_resource && !self.is_host_visible(place.memory_type);
                slot.filled = if out_of_reach { 0 } else { place.size };
            }
        }
        self.outcome.allocations += 1;
        self.live_bytes += slot.size;
        self.outcome.peak_live = self.outcome.peak_live.max(self.live_bytes);
        self.steady.live(self.live_bytes);
        let filled = self.fill(resource, &mut slot);
        // Filled outside of the timing, and stored even if that fails, so that the resource is destroyed.
        self.slots[resource.as_usize()] = Some(slot);
        filled
    }

    fn free(&mut self, resource: ResourceIndex) -> Result<(), Failure> {
        self.verify(resource)?;
        // A resource that failed cannot be freed.
        let Some(slot) = self.slots[resource.as_usize()].take() else { return Ok(()) };
        let allocator = self.allocator;
        known(self.stopwatch.time(|| slot.live.destroy(allocator)))?;
        self.outcome.frees += 1;
        self.live_bytes -= slot.size;
        Ok(())
    }

    fn place(&self, live: &Live<T::Device>) -> Result<MemoryLocation<T::Device>, Failure> {
        self.allocator.location(live.allocation()).map_err(unexpected)
    }

    /// Returns the parts of a resource that are filled.
    fn parts(&self, size: u64) -> Vec<core::ops::Range<u64>> {
        match self.options.bytes {
            Bytes::All => core::iter::once(0..size).collect(),
            Bytes::Ends if size > 2 * END => vec![0..END, size - END..size],
            Bytes::Ends => core::iter::once(0..size).collect(),
            Bytes::None => Vec::new(),
        }
    }

    /// Fills a resource with distinct bytes, unless it is an image whose memory is not accessible.
    fn fill(&mut self, resource: ResourceIndex, slot: &mut Slot<T::Device>) -> Result<(), Failure> {
        let id = self.trace.resource(resource).id();
        match (self.fill_parts(id, slot), &slot.live) {
            (Ok(()), _) => {}
            // No buffer can alias it; this fails before anything is written.
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
        let parts = self.parts(slot.filled);
        let Some(transfer) = &mut self.transfer else { return Ok(()) };
        for part in parts {
            for chunk in pattern::chunks(part) {
                let bytes = self.pattern.bytes(id, chunk.clone());
                slot.live.write(transfer, chunk.start, bytes)?;
                self.outcome.bytes_uploaded += chunk.end - chunk.start;
            }
        }
        Ok(())
    }

    /// Returns true if the CPU can reach memory of a type, which is mapped once it does.
    fn is_host_visible(&self, memory_type: MemoryTypeIndex) -> bool {
        let found = self.allocator.device().properties().memory_type(memory_type);
        found.is_some_and(|found| found.properties.contains(MemoryProperties::HOST_VISIBLE))
    }

    /// Verifies the bytes of a live resource.
    fn verify(&mut self, resource: ResourceIndex) -> Result<(), Failure> {
        let Some(slot) = &self.slots[resource.as_usize()] else { return Ok(()) };
        let id = self.trace.resource(resource).id();
        let mapped = self.is_host_visible(self.place(&slot.live)?.memory_type);
        let parts = self.parts(slot.filled);
        let Some(transfer) = &mut self.transfer else { return Ok(()) };
        let is_verified_image = matches!(slot.live, Live::Image(_)) && !parts.is_empty() && slot.filled != 0;
        for part in parts {
            for chunk in pattern::chunks(part) {
                let (expected, back) = self.pattern.bytes_and_room(id, chunk.clone());
                let moved = slot.live.read(transfer, mapped, chunk.start, back);
                moved.map_err(|error| Failure::Transfer { id, error })?;
                if expected != back {
                    // Compared as slices first: finding the position byte by byte is needed only for the error.
                    let at = expected.iter().zip(back.iter()).take_while(|(a, b)| a == b).count();
                    return Err(Failure::Corrupt { id, offset: chunk.start + at as u64 });
                }
                self.outcome.bytes_verified += chunk.end - chunk.start;
            }
        }
        self.outcome.images.verified += u64::from(is_verified_image);
        Ok(())
    }

    /// Returns the driver calls that the trace caused so far.
    fn calls(&self) -> u64 {
        self.allocator.reports().device_calls().memory() - self.staging.calls.memory()
    }

    /// Returns the statistics without the staging buffers.
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

    fn observe(&mut self) {
        let statistics = self.statistics();
        // Strictly greater: the first of equal peaks is reported.
        if statistics.block_bytes > self.outcome.peak.block_bytes {
            self.outcome.peak = statistics;
            if self.options.dump {
                self.outcome.dump = Some(self.allocator.reports().dump_json());
            }
        }
    }
}

/// Returns the failure of a resource that could not be created.
pub(crate) fn refused(line: u64, recorded: &Resource, error: ResourceError) -> Failure {
    let id = recorded.id();
    match error {
        ResourceError::Allocation(error) => Failure::Allocation { line, id, error },
        error => Failure::Resource { line, id, error: Box::new(error) },
    }
}

/// Fails if the allocator does not know a resource that it created.
pub(crate) fn known(known: bool) -> Result<(), Failure> {
    if known { Ok(()) } else { Err(unexpected("the allocator does not know a resource that it created")) }
}

/// Wraps an error of the library that a correct replay never sees.
pub(crate) fn unexpected(error: impl core::fmt::Display) -> Failure {
    Failure::Unexpected(error.to_string())
}

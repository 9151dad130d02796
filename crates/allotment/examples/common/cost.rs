//! The cost of frames in driver calls and heap allocations: none, once the frames repeat themselves.

use core::error::Error;
use core::fmt;
use core::time::Duration;
use std::backtrace::Backtrace;
use std::time::Instant;

use allotment::device::Device;
use allotment::gpu::{Frame, FrameError, Gpu};
use allotment::memory::Allocator;
use allotment::memory::reports::DriverCallStatistics;

use super::counting;

/// Frames in which everything grows to the size that it keeps. The last to do so are the device's own command pools:
/// there are two of 32 submissions each, and the transfer queue may get one submission a frame.
pub(crate) const WARM_UP: u64 = 80;

/// The counters at one moment.
#[derive(Clone, Copy, Default)]
struct Counters {
    calls: DriverCallStatistics,
    heap: u64,
    heap_elsewhere: u64,
}

impl Counters {
    fn now<D: Device>(allocator: &Allocator<D>) -> Self {
        let heap = counting::of_this_thread();
        Self {
            calls: allocator.reports().device_calls(),
            heap,
            heap_elsewhere: counting::of_all_threads() - heap,
        }
    }
}

/// The cost of the frames so far.
#[derive(Default)]
pub(crate) struct Cost {
    began: Counters,
    warm_up: Sum,
    steady: Sum,
    /// The first steady frame that cost something.
    first: Option<u64>,
    /// Where the first allocation of a steady frame was made.
    backtrace: Option<Backtrace>,
    /// The time for which frames waited for the GPU before they began.
    waited: Duration,
    /// The processor time of the thread before the first frame.
    before: Option<Duration>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    frames: u64,
    memory_calls: u64,
    heap: u64,
    heap_elsewhere: u64,
}

impl Cost {
    /// Begins a frame of a `Gpu`.
    #[allow(dead_code, reason = "one example has no `Gpu`")]
    pub(crate) fn begin_frame<D: Device>(&mut self, gpu: &Gpu<D>) -> Result<Frame<D>, FrameError> {
        self.begin(gpu.allocator());
        let began = Instant::now();
        let frame = gpu.begin_frame(); // waits while three frames are in flight
        self.waited += began.elapsed();
        frame
    }

    /// Ends the frame.
    #[allow(dead_code, reason = "as above")]
    pub(crate) fn end_frame<D: Device>(&mut self, frame: Frame<D>) -> Result<(), FrameError> {
        let (number, gpu) = (frame.number(), frame.gpu().clone());
        frame.end()?;
        self.end(number, gpu.allocator());
        Ok(())
    }

    /// After the last frame: prints the cost, and refuses where steady frames have cost something.
    #[allow(dead_code, reason = "as above")]
    pub(crate) fn finish(&self) -> Result<(), Box<dyn Error>> {
        println!("{:32}{:.1?}", "waited for frames in flight", self.waited);
        if let (Some(before), Some(now)) = (self.before, processor_time()) {
            println!("{:32}{:.3?}", "processor time of all frames", now.saturating_sub(before));
        }
        println!("{self}");
        Ok(self.check()?)
    }

    /// A frame begins.
    pub(crate) fn begin<D: Device>(&mut self, allocator: &Allocator<D>) {
        if self.warm_up.frames == 0 {
            self.before = processor_time();
        }
        self.began = Counters::now(allocator);
        if self.warm_up.frames >= WARM_UP && self.backtrace.is_none() {
            counting::watch();
        }
    }

    /// The frame of this number is over.
    pub(crate) fn end<D: Device>(&mut self, frame: u64, allocator: &Allocator<D>) {
        let (now, began) = (Counters::now(allocator), self.began);
        self.backtrace = self.backtrace.take().or_else(counting::end_watch);
        let sum = if frame < WARM_UP { &mut self.warm_up } else { &mut self.steady };
        sum.frames += 1;
        sum.memory_calls += now.calls.memory() - began.calls.memory();
        sum.heap += now.heap - began.heap;
        sum.heap_elsewhere += now.heap_elsewhere - began.heap_elsewhere;
        if !self.is_nothing() {
            self.first.get_or_insert(frame);
        }
    }

    /// Whether steady frames have made no call for memory, and not taken anything from the heap.
    fn is_nothing(&self) -> bool {
        (self.steady.memory_calls, self.steady.heap) == (0, 0)
    }

    /// Refuses where steady frames have cost something.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.first {
            None => Ok(()),
            // The list of events grows while the thread that reads them is late.
            Some(_) if events_are_read() => Ok(()),
            Some(frame) => {
                if let Some(backtrace) = &self.backtrace {
                    eprintln!("a steady frame allocates at\n{backtrace}");
                }
                Err(format!("a steady frame costs something; the first that did is {frame}"))
            }
        }
    }
}

/// Returns true if the events of the example are recorded, or served to viewers.
fn events_are_read() -> bool {
    std::env::args().any(|argument| argument == "--trace" || argument == "--live")
        || ["ALLOTMENT_TRACE", "ALLOTMENT_LIVE"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Returns the time for which this thread has run, where the system says so in a file.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { warm_up, steady, .. } = self;
        writeln!(f, "{:32}first {} frames   {} frames after them", "", warm_up.frames, steady.frames)?;
        let mut row = |what, warm_up, steady| writeln!(f, "{what:32}{warm_up:>15}   {steady:>21}");
        row("calls for device memory", warm_up.memory_calls, steady.memory_calls)?;
        row("allocations of Rust code", warm_up.heap, steady.heap)?;
        row("the same on other threads", warm_up.heap_elsewhere, steady.heap_elsewhere)
    }
}

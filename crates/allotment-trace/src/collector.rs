//! Collects the events of a running program in memory.

use allotment::events::{AlreadySubscribed, Event, EventBatch, EventSubscription, SubscriptionDesc};

use crate::recorder::Observed;
use crate::recorder::backtrace;
use crate::recording::{Recording, StackId, StackNumbers, TextNumbers};

/// Collects the events of a [`Gpu`](allotment::Gpu) or an [`Allocator`](allotment::Allocator) in memory, as a
/// [`Recording`]: for a test, a benchmark or a tool that analyzes them in the same program.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment_trace::Collector;
/// use allotment_trace::recording::{Event, State};
///
/// let mut collector = Collector::new(&allocator)?; // from here on, and what there was before
///
/// let mesh = allocator.allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// collector.mark("the mesh is loaded");
/// allocator.free(mesh)?;
///
/// let recording = collector.into_recording();
/// let (mut state, mut then) = (State::default(), Vec::new());
/// for event in &recording.events {
///     state.apply(event)?;
///     if matches!(event, Event::Mark { .. }) {
///         then.extend(state.allocations.values().map(|live| recording.text(live.is.name)));
///     }
/// }
/// assert_eq!(then, [Some("mesh")]);
/// assert!(state.allocations.is_empty(), "it is freed in the end");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A program that runs for long, and one that may end suddenly, is recorded by a [`Recorder`](crate::Recorder), which
/// writes a file of 3 to 5 bytes an event.
///
/// # Cost
///
/// No event is lost or forgotten: each takes 72 bytes of host memory, and each distinct text is kept twice. Until it is
/// read an event waits in the library, with 28 bytes on average. The thread that reads needs 72 more for each event that
/// it takes out at once, so a program with millions of events [reads](Self::read) now and then.
///
/// On one core of a shared server reading takes 50 ns an event where it is done every two thousand events, and 90 where two
/// million are read at once.
#[derive(Debug)]
pub struct Collector {
    events: EventSubscription,
    batch: EventBatch,
    numbers: TextNumbers,
    stacks: StackNumbers,
    recording: Recording,
}

impl Collector {
    /// Begins to collect. What exists already comes first.
    ///
    /// # Errors
    ///
    /// [`AlreadySubscribed`], if another reader has the events, for example a recorder.
    pub fn new(of: &impl Observed) -> Result<Self, AlreadySubscribed> {
        let mut desc = SubscriptionDesc::default();
        // All of them are kept in the end, where they take more than while they wait.
        desc.max_waiting_events = usize::MAX;
        Ok(Self {
            events: of.subscribe(&desc)?,
            batch: EventBatch::new(),
            numbers: TextNumbers::default(),
            stacks: StackNumbers::default(),
            recording: Recording { header: of.header(), ..Recording::default() },
        })
    }

    /// Takes the events out of the library that happened until now, and the time.
    ///
    /// Returns false when the allocator is gone and all its events have been read.
    pub fn read(&mut self) -> bool {
        let Self { events, batch, numbers, stacks, recording } = self;
        let more = events.read(batch);
        let Recording { texts, stacks: known, .. } = recording;
        recording.events.extend(batch.events().iter().map(|event| {
            numbers.renumber(event, batch, texts).map_stack(|stack| {
                let Some(backtrace) = batch.backtrace(stack) else { return StackId::NONE };
                let text = |numbers: &mut TextNumbers, text: &str| numbers.number(text, texts);
                backtrace::stack(backtrace, numbers, text, |_, frame| stacks.number(frame, known))
            })
        }));
        more
    }

    /// Marks this moment in the recording.
    pub fn mark(&mut self, text: &str) {
        let text = self.numbers.number(text, &mut self.recording.texts);
        self.event(&Event::Mark { text });
    }

    /// Adds an event that the library cannot know of, after all that happened until now: that a program with a deletion
    /// queue of its own has released an allocation ([`Event::FreeRequested`]). Its texts are numbers of the
    /// [recording](Self::recording)'s.
    pub fn event(&mut self, event: &Event) {
        self.read();
        self.recording.events.push(*event);
    }

    /// Returns what has been [read](Self::read).
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Reads what happened until now, and returns all of it. The library's events end.
    #[must_use]
    pub fn into_recording(mut self) -> Recording {
        self.read();
        self.recording
    }
}

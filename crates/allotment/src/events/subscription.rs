//! The reader of a log.

use core::fmt;
use core::time::Duration;

use super::EventBatch;
use super::log::EventLog;
use crate::choices::Name;

/// Options of a subscription.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::events::{Event, EventBatch, SubscriptionDesc};
///
/// let mut desc = SubscriptionDesc::default();
/// desc.max_waiting_events = 64; // for a reader that comes often, or may lose events
/// let mut events = allocator.subscribe(&desc)?;
/// for _ in 0..100 {
///     let short = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
///     allocator.free(short)?;
/// }
/// let mut batch = EventBatch::new();
/// events.read(&mut batch);
/// assert!(batch.events().contains(&Event::Lost), "two events an allocation are too many");
/// let _ = allocator.end_frame(); // announces the whole state again
/// events.read(&mut batch);
/// assert!(batch.events().iter().any(|event| matches!(event, Event::PoolCreated { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubscriptionDesc {
    /// The most events that wait for the reader, 8 to 80 bytes of host memory each, 28 on average. When there are more,
    /// the library drops events until it has announced its whole state again ([`Event::Lost`](super::Event::Lost)). Where several
    /// threads write at once, they are counted a few at a time: 2 % more may wait.
    pub max_waiting_events: usize,
}

impl Default for SubscriptionDesc {
    /// Half a million events, about 15 MiB if the reader never comes.
    fn default() -> Self {
        Self { max_waiting_events: 1 << 19 }
    }
}

/// Reads the events of an allocator and of what works with it. Dropped, it ends the events.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::events::{Event, EventBatch, SubscriptionDesc};
///
/// let early = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("early"))?;
/// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
/// let late = allocator.allocate(&Requirements::new(2000), &MemoryUsage::GpuOnly.with_name("late"))?;
/// allocator.free(early)?;
///
/// let mut batch = EventBatch::new();
/// events.read(&mut batch);
/// let names: Vec<_> = batch
///     .events()
///     .iter()
///     .filter_map(|event| match event {
///         Event::Allocated(allocated) => batch.text(allocated.name),
///         _ => None,
///     })
///     .collect();
/// assert_eq!(names, ["early", "late"], "the state first, then the changes");
/// # allocator.free(late)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventSubscription {
    log: EventLog,
}

impl EventSubscription {
    /// Attaches a reader to a log. The caller then announces the state.
    pub(crate) fn new(log: &EventLog, desc: &SubscriptionDesc) -> Result<Self, AlreadySubscribed> {
        // Eight, so that an eighth of it is an event.
        if log.attach(desc.max_waiting_events.max(8)) {
            Ok(Self { log: log.clone() })
        } else {
            Err(AlreadySubscribed)
        }
    }

    /// Takes out the events that wait, in their order, and the time. The batch is cleared before.
    ///
    /// Returns false when the allocator is gone and all its events have been read.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::events::{EventBatch, SubscriptionDesc};
    ///
    /// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
    /// let mut batch = EventBatch::new();
    /// assert!(events.read(&mut batch), "there may be more");
    /// drop(allocator);
    /// let mut count = 0;
    /// while events.read(&mut batch) {
    ///     count += batch.events().len();
    /// }
    /// println!("{count} events until the allocator was gone");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(&mut self, batch: &mut EventBatch) -> bool {
        self.log.take(batch, Duration::ZERO)
    }

    /// Waits until many events wait, the allocator is gone, or `timeout` is over; then does what [`read`](Self::read)
    /// does. For a thread that only reads:
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::events::{EventBatch, SubscriptionDesc};
    /// use core::time::Duration;
    ///
    /// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
    /// let reader = std::thread::spawn(move || {
    ///     let (mut batch, mut count) = (EventBatch::new(), 0);
    ///     while events.wait(&mut batch, Duration::from_millis(100)) {
    ///         count += batch.events().len();
    ///     }
    ///     count
    /// });
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// allocator.free(mesh)?;
    /// drop(allocator); // ends the loop
    /// assert!(reader.join().unwrap() > 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&mut self, batch: &mut EventBatch, timeout: Duration) -> bool {
        self.log.take(batch, timeout)
    }
}

impl EventSubscription {
    /// Returns a handle by which any thread marks moments among the events.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::events::{Event, EventBatch, SubscriptionDesc};
    ///
    /// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
    /// events.marker().mark("the level is loaded");
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// let mut batch = EventBatch::new();
    /// events.read(&mut batch);
    /// let mark = batch.events().iter().position(|event| matches!(event, Event::Mark { .. }));
    /// let mesh_is = batch.events().iter().position(|event| matches!(event, Event::Allocated(_)));
    /// assert!(mark.is_some() && mark < mesh_is, "in the order in which things happened");
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn marker(&self) -> Marker {
        Marker { log: self.log.clone() }
    }
}

/// Marks moments among the events that a subscription reads; see [`EventSubscription::marker`].
///
/// `Send + Sync`, and cheap to clone. Without a reader a mark does nothing.
#[derive(Clone, Debug)]
pub struct Marker {
    log: EventLog,
}

impl Marker {
    /// Writes [`Event::Mark`](super::Event::Mark) after all that has happened until now, with the time.
    pub fn mark(&self, text: impl Into<Name>) {
        self.log.mark(&text.into());
    }
}

impl Drop for EventSubscription {
    fn drop(&mut self) {
        self.log.detach();
    }
}

/// The error of subscribing to events that another subscription reads. Drop that one first, or share what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadySubscribed;

impl fmt::Display for AlreadySubscribed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the events are read by another subscription already: drop that one, or share its events")
    }
}

impl core::error::Error for AlreadySubscribed {}

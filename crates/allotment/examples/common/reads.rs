//! Work that reads through descriptors, frame by frame: it is submitted, comes back, and every value is compared.

use core::error::Error;
use core::num::NonZero;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use allotment::descriptor::TransientDescriptors;
use allotment::device::{BufferCopy, DescriptorDevice, QueueIndex, Submission, TimelinePoint};
use allotment::lifetime::{DeletionQueue, FramesInFlight, Recording, SubmissionTracker};
use allotment::memory::{Buffer, MappedBuffer, OwningAllocator};
use allotment::upload::{ReadbackRing, ReadbackTicket, RingDesc};
use allotment::{Alignment, Allocator, MemoryUsage};
use allotment_headless::{DescriptorReader, Read};

/// Frames in flight.
pub(crate) const IN_FLIGHT: NonZero<usize> = NonZero::new(3).unwrap();

/// Longer than anything takes that is not broken.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Lists that a frame submits at most.
const LISTS: usize = 2;

const QUEUE: QueueIndex = QueueIndex(0);

/// What a list of indices and what is compared with it begin at.
const ALIGNMENT: u64 = 256;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Through which descriptors something is read, and what must be found there.
#[derive(Default)]
pub(crate) struct List {
    indices: Vec<u8>,
    values: Vec<u32>,
}

impl List {
    pub(crate) fn push(&mut self, index: u32, value: u32) {
        self.indices.extend_from_slice(&index.to_ne_bytes());
        self.values.push(value);
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// A list on its way back.
struct Coming {
    frame: u64,
    list: List,
    ticket: ReadbackTicket,
}

pub(crate) struct Reads<D: DescriptorDevice, R> {
    allocator: Arc<Allocator<D>>,
    tracker: SubmissionTracker,
    pacer: FramesInFlight,
    reader: R,
    /// Lists of indices, for each frame in flight.
    indices: Vec<MappedBuffer<D>>,
    /// Lists that this frame has submitted.
    submitted: usize,
    /// What the device writes, until it is copied to where the CPU reads it.
    results: Buffer<D>,
    ring: ReadbackRing<D>,
    last: Option<TimelinePoint>,
    coming: VecDeque<Coming>,
    /// Of the past, to be used again.
    lists: Vec<List>,
    found: Vec<u8>,
    most: usize,
    /// The device's work can read through descriptors.
    is_read: bool,
    compared: u64,
    pub(crate) waited: Duration,
}

impl<D: DescriptorDevice, R: DescriptorReader<D>> Reads<D, R> {
    /// For lists of at most so many.
    pub(crate) fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        reader: R,
        most: usize,
        is_read: bool,
    ) -> Outcome<Self> {
        let size = (4 * most as u64).next_multiple_of(ALIGNMENT);
        let upload = MemoryUsage::Upload.with_name("indices");
        let info = reader.buffer_info(LISTS as u64 * size, false);
        let indices = (0..IN_FLIGHT.get()).map(|_| MappedBuffer::new(allocator, &info, &upload));
        let indices = indices.collect::<Result<_, _>>()?;
        let device = MemoryUsage::GpuOnly.with_name("results");
        let memory = OwningAllocator::new(allocator, &DeletionQueue::new(tracker));
        let results = memory.create_buffer(&reader.buffer_info(size, true), &device)?;
        let lists = || List { indices: Vec::with_capacity(4 * most), values: Vec::with_capacity(most) };
        Ok(Self {
            allocator: Arc::clone(allocator),
            tracker: tracker.clone(),
            pacer: FramesInFlight::new(tracker, IN_FLIGHT),
            reader,
            indices,
            submitted: 0,
            results,
            ring: ReadbackRing::new(
                allocator,
                tracker,
                &RingDesc::readback((IN_FLIGHT.get() as u64 + 2) * size),
            )?,
            last: None,
            coming: VecDeque::with_capacity((IN_FLIGHT.get() + 1) * LISTS),
            lists: (0..IN_FLIGHT.get() + LISTS).map(|_| lists()).collect(),
            found: vec![0; 4 * most],
            most,
            is_read,
            compared: 0,
            waited: Duration::ZERO,
        })
    }

    /// The frame that is made now.
    pub(crate) fn frame(&self) -> u64 {
        self.pacer.frame()
    }

    /// Whether the GPU is busy with what was submitted last.
    pub(crate) fn is_busy(&self) -> bool {
        self.last.is_some_and(|last| !self.tracker.is_reached(last))
    }

    /// An empty list.
    pub(crate) fn list(&mut self) -> List {
        self.lists.pop().unwrap_or_default()
    }

    /// Waits until one more frame may be in flight, and compares what came back.
    pub(crate) fn begin(&mut self) -> Outcome {
        let began = Instant::now();
        self.pacer.begin(TIMEOUT)?;
        self.waited += began.elapsed();
        self.submitted = 0;
        let over = (self.pacer.frame() + 1).saturating_sub(IN_FLIGHT.get() as u64);
        while self.coming.front().is_some_and(|coming| coming.frame < over) {
            self.compare_oldest()?;
        }
        Ok(())
    }

    /// The frame is submitted.
    pub(crate) fn end(&mut self) {
        self.pacer.end();
    }

    /// Has the GPU read, and what it read brought back. The recording is the one that `transient` is for: all that its
    /// descriptors name lives until that is over.
    pub(crate) fn submit(
        &mut self,
        recording: Recording,
        transient: &TransientDescriptors<D>,
        list: List,
    ) -> Outcome {
        let count = list.len();
        if count == 0 || count > self.most || self.submitted == LISTS {
            return Err(format!("a list of {count} is not one").into());
        }
        let indices = &self.indices[self.pacer.slot()];
        let first = self.submitted as u64 * (indices.size() / LISTS as u64);
        self.submitted += 1;
        indices.write(first, &list.indices)?;
        let reads = [Read {
            heap: transient.heap(),
            indices: indices.handle(),
            indices_offset: first,
            count: u32::try_from(count)?,
            to: self.results.handle(),
            to_offset: 0,
        }];
        // SAFETY: what is named by this lives as long as `self`, and longer than any submission. What the descriptors
        // name lives until the recording is over, by their owners. The list lies in its half, which no frame in flight
        // uses, and the results are copied away in the order of the queue.
        let read = recording.submit(QUEUE, |queue| unsafe { self.reader.submit(queue, &[], &reads) })?;

        let size = 4 * count as u64;
        let ticket = self.ring.allocate(size, Alignment::new(16)?)?;
        let (from, to) = (self.results.handle(), self.ring.buffer());
        let back = [BufferCopy { from, from_offset: 0, to, to_offset: ticket.offset(), size }];
        let waits = [read];
        let work = Submission { waits: &waits, copies: &back, ..Submission::default() };
        let recording = self.tracker.record("the way back");
        let device = self.allocator.device();
        // SAFETY: as above; the ring has given the room.
        let back = recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) })?;
        self.ring.close(back);
        self.last = Some(back);
        self.coming.push_back(Coming { frame: self.pacer.frame(), list, ticket });
        Ok(())
    }

    fn compare_oldest(&mut self) -> Outcome {
        let Some(Coming { frame, mut list, ticket }) = self.coming.pop_front() else { return Ok(()) };
        let found = &mut self.found[..4 * list.len()];
        self.ring.read(&ticket, found)?;
        let pairs = list.indices.chunks_exact(4).zip(found.chunks_exact(4)).zip(&list.values);
        for ((index, found), expected) in pairs {
            if self.is_read && found != expected.to_ne_bytes() {
                let [index, found] = [index, found].map(|bytes| bytes.try_into().map(u32::from_ne_bytes));
                let (index, found) = (index?, found?);
                let what =
                    format!("frame {frame}: descriptor {index} is of {found:#x}, not of {expected:#x}");
                return Err(what.into());
            }
        }
        self.compared += list.len() as u64;
        list.indices.clear();
        list.values.clear();
        self.lists.push(list);
        Ok(())
    }

    /// How many values were compared, where the device can read them.
    pub(crate) fn summary(&self) -> String {
        match self.is_read {
            true => format!("{} values, all as they must be", self.compared),
            false => "nothing: nothing was read".into(),
        }
    }

    /// After the last frame: everything comes back.
    pub(crate) fn finish(&mut self) -> Outcome {
        self.tracker.wait_idle(TIMEOUT)?;
        while !self.coming.is_empty() {
            self.compare_oldest()?;
        }
        Ok(())
    }
}

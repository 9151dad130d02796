//! Work that reads through descriptors, frame by frame: it is submitted, comes back, and every value is compared.

use core::error::Error;
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use allotment::descriptor::{ShaderVisibleHeapDesc, TransientDescriptors};
use allotment::device::{BufferCopy, DescriptorDevice, QueueIndex, Submission, TimelinePoint};
use allotment::gpu::{Frame, Gpu, GpuDesc};
use allotment::lifetime::Recording;
use allotment::memory::{Buffer, MappedBuffer};
use allotment::upload::{ReadbackTicket, RingDesc};
use allotment::{Alignment, AllocatorDesc, MemoryUsage};
use allotment_readers::{DescriptorReader, Read};

/// Frames in flight.
pub(crate) const IN_FLIGHT: usize = 3;

/// Longer than anything takes that is not broken.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Lists that a frame submits at most.
const LISTS: usize = 2;

const QUEUE: QueueIndex = QueueIndex(0);

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

/// A list whose readback is pending.
struct Coming {
    frame: u64,
    list: List,
    ticket: ReadbackTicket,
}

/// Creates a `Gpu` for lists of at most `most`.
pub(crate) fn gpu<D: DescriptorDevice + Clone>(
    device: D,
    resources: ShaderVisibleHeapDesc,
    most: usize,
) -> Outcome<Gpu<D>> {
    let mut allocator = AllocatorDesc::default();
    // Blocks that are allocated ahead stay for all frames, not only for the next two seconds.
    allocator.empty_blocks.frames = u32::MAX;
    let desc = GpuDesc::default()
        .with_frames_in_flight(IN_FLIGHT)
        .with_timeout(TIMEOUT)
        .with_allocator(allocator)
        .with_resource_descriptors(resources)
        .with_readback(RingDesc::readback((IN_FLIGHT as u64 + 2) * size_of_list(most)));
    Ok(Gpu::new(device, desc)?)
}

/// Bytes of a list of indices or values: a multiple of what copies and descriptors begin at.
fn size_of_list(most: usize) -> u64 {
    (4 * most as u64).next_multiple_of(256)
}

pub(crate) struct Reads<D: DescriptorDevice, R> {
    gpu: Gpu<D>,
    reader: R,
    /// Lists of indices, for each frame in flight.
    indices: Vec<MappedBuffer<D>>,
    /// Lists that this frame has submitted.
    submitted: usize,
    /// The values that the GPU writes, until they are copied to the readback ring.
    results: Buffer<D>,
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
    /// Creates buffers for lists of at most `most` reads.
    pub(crate) fn new(gpu: &Gpu<D>, reader: R, most: usize, is_read: bool) -> Outcome<Self> {
        let upload = MemoryUsage::Upload.with_name("indices");
        let info = reader.buffer_info(LISTS as u64 * size_of_list(most), false);
        let indices = (0..IN_FLIGHT).map(|_| MappedBuffer::new(gpu.allocator(), &info, &upload));
        let indices = indices.collect::<Result<_, _>>()?;
        let results = MemoryUsage::GpuOnly.with_name("results");
        let results = gpu.create_buffer(&reader.buffer_info(size_of_list(most), true), &results)?;
        let list = || List { indices: Vec::with_capacity(4 * most), values: Vec::with_capacity(most) };
        Ok(Self {
            gpu: gpu.clone(),
            reader,
            indices,
            submitted: 0,
            results,
            last: None,
            coming: VecDeque::with_capacity((IN_FLIGHT + 1) * LISTS),
            lists: (0..IN_FLIGHT + LISTS).map(|_| list()).collect(),
            found: vec![0; 4 * most],
            most,
            is_read,
            compared: 0,
            waited: Duration::ZERO,
        })
    }

    /// Whether the GPU has not completed what was submitted last.
    pub(crate) fn is_busy(&self) -> bool {
        self.last.is_some_and(|last| !self.gpu.tracker().is_reached(last))
    }

    /// An empty list.
    pub(crate) fn list(&mut self) -> List {
        self.lists.pop().unwrap_or_default()
    }

    /// Begins a frame, and compares what came back.
    pub(crate) fn begin(&mut self) -> Outcome<Frame<D>> {
        let began = Instant::now();
        let frame = self.gpu.begin_frame()?; // waits while three frames are in flight
        self.waited += began.elapsed();
        self.submitted = 0;
        let completed = (frame.number() + 1).saturating_sub(IN_FLIGHT as u64);
        while self.coming.front().is_some_and(|coming| coming.frame < completed) {
            self.compare_oldest()?;
        }
        // What the wait was for comes back at once: the heaps have room for no frame more.
        self.gpu.reclaim();
        Ok(frame)
    }

    /// Has the GPU read, and what it read brought back. `transient` is of the frame, or of a recording that was opened in
    /// an earlier one: what its descriptors name lives until the GPU has completed it.
    pub(crate) fn submit(
        &mut self,
        frame: &Frame<D>,
        late: Option<Recording>,
        transient: &TransientDescriptors<D>,
        list: List,
    ) -> Outcome {
        let count = list.len();
        if count == 0 || count > self.most || self.submitted == LISTS {
            return Err(format!("a list of {count} is not one").into());
        }
        let indices = &self.indices[frame.slot()];
        let first = self.submitted as u64 * (indices.size() / LISTS as u64);
        self.submitted += 1;
        indices.write(first, &list.indices)?;
        let reads = [Read {
            heap: transient.heap(),
            indices: indices.handle(),
            indices_offset: first,
            count: u32::try_from(count)?,
            to: &self.results.handle(),
            to_offset: 0,
        }];
        let read = |queue, waits: &[TimelinePoint]| {
            // SAFETY: what is named by this lives as long as `self`, and longer than any submission. What the descriptors
            // name lives until the GPU has completed the recording, by their owners. The list lies in its half, which no
            // frame in flight uses, and the results are copied away in the order of the queue.
            unsafe { self.reader.submit(queue, waits, &reads) }
        };
        let read = match late {
            None => frame.submit(QUEUE, read)?,
            Some(recording) => self.gpu.submit(recording, QUEUE, read)?,
        };

        let size = 4 * count as u64;
        let mut ring = self.gpu.readback()?;
        let ticket = ring.allocate(size, Alignment::new(16)?)?;
        let (from, to) = (&self.results.handle(), ring.buffer());
        let copies = [BufferCopy { from, from_offset: 0, to, to_offset: ticket.offset(), size }];
        let back = frame.submit_after(QUEUE, &[read], |queue, waits| {
            let work = Submission { waits, copies: &copies, ..Submission::default() };
            // SAFETY: as above; the ring gave the range.
            unsafe { self.gpu.device().submit(queue, &work) }
        })?;
        ring.close(back);
        self.last = Some(back);
        self.coming.push_back(Coming { frame: frame.number(), list, ticket });
        Ok(())
    }

    fn compare_oldest(&mut self) -> Outcome {
        let Some(Coming { frame, mut list, ticket }) = self.coming.pop_front() else { return Ok(()) };
        let found = &mut self.found[..4 * list.len()];
        self.gpu.readback()?.read(&ticket, found)?;
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
        self.gpu.wait_idle()?;
        while !self.coming.is_empty() {
            self.compare_oldest()?;
        }
        Ok(())
    }
}

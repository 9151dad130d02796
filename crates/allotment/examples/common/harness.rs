//! What surrounds an example whose work reads through descriptors: the `Gpu`, the cells that are read, and the lists of
//! reads, each of whose values comes back and is compared.

use std::collections::VecDeque;
use std::sync::Arc;

use core::time::Duration;

use allotment::descriptor::{ShaderVisibleHeap, ShaderVisibleHeapDesc, TransientDescriptors};
use allotment::device::{DescriptorDevice, DescriptorHeapType, QueueIndex, TimelinePoint};
use allotment::gpu::{Frame, Gpu, GpuDesc};
use allotment::lifetime::Recording;
use allotment::memory::{Buffer, MappedBuffer};
use allotment::upload::ReadHandle;
use allotment::{AllocatorDesc, MemoryUsage};
use allotment_readers::{DescriptorReader, Read};

use super::Outcome;
use super::cells::Cells;
use super::cost::Cost;
use super::report::{check_that_nothing_is_left, row};

/// Frames in flight.
pub(crate) const IN_FLIGHT: usize = 3;

/// Longer than anything takes that is not broken.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Lists that a frame submits at most.
const LISTS: usize = 2;

const QUEUE: QueueIndex = QueueIndex(0);

/// Through which descriptors something is read, and what must be found there.
#[derive(Default)]
pub(crate) struct List {
    indices: Vec<u8>,
    values: Vec<u32>,
}

impl List {
    /// Adds reads: the index of each descriptor, and the value.
    pub(crate) fn extend(&mut self, reads: impl IntoIterator<Item = (u32, u32)>) {
        for (index, value) in reads {
            self.indices.extend_from_slice(&index.to_ne_bytes());
            self.values.push(value);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// A list whose values the GPU may not have read.
struct Coming {
    frame: u64,
    list: List,
    read: ReadHandle,
}

/// Bytes of a list of indices or values: a multiple of what copies and descriptors begin at.
fn size_of_list(most: usize) -> u64 {
    (4 * most as u64).next_multiple_of(256)
}

pub(crate) struct Harness<D: DescriptorDevice, R> {
    pub(crate) gpu: Gpu<D>,
    /// The heap that shaders see.
    pub(crate) heap: Arc<ShaderVisibleHeap<D>>,
    pub(crate) cells: Cells<D>,
    reader: R,
    /// Lists of indices, for each frame in flight.
    indices: Vec<MappedBuffer<D>>,
    /// Lists that this frame has submitted.
    submitted: usize,
    /// The values that the GPU writes, until they are copied to where the CPU reads them.
    results: Buffer<D>,
    /// When the values of the last list are there.
    last: Option<TimelinePoint>,
    coming: VecDeque<Coming>,
    /// Of the past, to be used again.
    lists: Vec<List>,
    found: Vec<u8>,
    most: usize,
    /// The device's work can read through descriptors.
    is_read: bool,
    compared: u64,
    cost: Cost,
}

impl<D: DescriptorDevice + Clone, R: DescriptorReader<D>> Harness<D, R> {
    /// Creates a `Gpu` with such a heap, as many cells, and buffers for lists of at most `most` reads.
    pub(crate) fn new(
        device: D,
        heap: ShaderVisibleHeapDesc,
        cell_count: u64,
        most: usize,
        is_read: bool,
    ) -> Outcome<Self> {
        let mut allocator = AllocatorDesc::default();
        // Blocks that are allocated ahead stay for all frames, not only for the next two seconds.
        allocator.empty_blocks.frames = u32::MAX;
        let desc = GpuDesc::default()
            .with_frames_in_flight(IN_FLIGHT)
            .with_timeout(TIMEOUT)
            .with_allocator(allocator)
            .with_resource_descriptors(heap);
        let gpu = Gpu::new(device, desc)?;
        super::trace::record(&gpu)?;
        let heap = Arc::clone(gpu.descriptors()?.resources());
        let reader = R::new(gpu.device(), heap.statistics().capacity)?;
        let mut cells = Cells::new();
        cells.reserve(cell_count, gpu.allocator(), &reader)?;

        let upload = MemoryUsage::Upload.with_name("indices");
        let info = reader.buffer_info(LISTS as u64 * size_of_list(most), false);
        let indices = (0..IN_FLIGHT).map(|_| MappedBuffer::new(gpu.allocator(), &info, &upload));
        let indices = indices.collect::<Result<_, _>>()?;
        let results = MemoryUsage::GpuOnly.with_name("results");
        let results = gpu.create_buffer(&reader.buffer_info(size_of_list(most), true), &results)?;
        let list = || List { indices: Vec::with_capacity(4 * most), values: Vec::with_capacity(most) };
        Ok(Self {
            gpu,
            heap,
            cells,
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
            cost: Cost::default(),
        })
    }
}

impl<D: DescriptorDevice, R: DescriptorReader<D>> Harness<D, R> {
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
        let frame = self.cost.begin_frame(&self.gpu)?;
        self.submitted = 0;
        let completed = (frame.number() + 1).saturating_sub(IN_FLIGHT as u64);
        while self.coming.front().is_some_and(|coming| coming.frame < completed) {
            self.compare_oldest()?;
        }
        // What the wait was for comes back at once: the heaps have room for no frame more.
        self.gpu.reclaim();
        self.cells.reclaim()?;
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
            indices: &indices.handle(),
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
        match late {
            None => frame.submit(QUEUE, read)?,
            Some(recording) => self.gpu.submit(recording, QUEUE, read)?,
        };
        let read = self.gpu.reads().read_buffer(&self.results, 0, 4 * count as u64)?;
        // Now, and not at the end of the frame: its next list has its results in the same place.
        self.last = self.gpu.reads().submit()?;
        self.coming.push_back(Coming { frame: frame.number(), list, read });
        Ok(())
    }

    /// Ends the frame.
    pub(crate) fn end(&mut self, frame: Frame<D>) -> Outcome {
        Ok(self.cost.end_frame(frame)?)
    }

    fn compare_oldest(&mut self) -> Outcome {
        let Some(Coming { frame, mut list, read }) = self.coming.pop_front() else { return Ok(()) };
        let found = &mut self.found[..4 * list.len()];
        read.read(found)?;
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

    /// After the last frame: waits until the GPU has read everything, and compares it.
    pub(crate) fn wait(&mut self) -> Outcome {
        self.gpu.wait_idle()?;
        while !self.coming.is_empty() {
            self.compare_oldest()?;
        }
        self.heap.drain(TIMEOUT);
        Ok(())
    }

    /// When the example has released all that it has: prints what every example prints, and refuses where anything is
    /// left, or where steady frames cost something.
    pub(crate) fn finish(mut self) -> Outcome {
        let pending = self.heap.drain(TIMEOUT).pending;
        self.cells.reclaim()?;
        let heap = self.heap.statistics();
        let cpu = self.gpu.descriptors()?.cpu_heap(DescriptorHeapType::Resource).statistics();
        let used = heap.slots.used + heap.tables.used + heap.transient.used + cpu.used;
        let kept = self.cells.kept();
        row("in flight", format_args!("{IN_FLIGHT} frames"));
        match self.is_read {
            true => row("compared on the way back", format_args!("{} values, all right", self.compared)),
            false => row("compared on the way back", "nothing: nothing was read"),
        }
        self.cost.finish()?;
        if pending > 0 || used > 0 || kept > 0 {
            let what = format!("{pending} objects are pending, {used} descriptors and {kept} cells are left");
            return Err(what.into());
        }
        let gpu = self.gpu.clone();
        drop(self);
        check_that_nothing_is_left(gpu)
    }
}

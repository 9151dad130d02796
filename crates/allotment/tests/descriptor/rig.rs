//! Shared by the tests: a simulated device, a buffer of known numbers to refer to, and queues that read.

use core::time::Duration;
use std::sync::Arc;

use allotment::descriptor::{
    CpuDescriptorHeap, CpuDescriptorHeapDesc, DescriptorError, DescriptorRange, ShaderVisibleHeap,
    ShaderVisibleHeapDesc, TransientDescriptors,
};
use allotment::device::simulated::{
    Profile, SimulatedBuffer, SimulatedDescriptor, SimulatedDescriptorHeap, SimulatedGpu, SimulatedRead,
};
use allotment::device::{
    BufferDesc, BufferUse, DescriptorDevice, DescriptorHeapType, QueueDevice as _, QueueIndex, TimelinePoint,
};
use allotment::lifetime::{DeletionQueue, Recording, SubmissionTracker};
use allotment::memory::{MappedBuffer, OwningAllocator};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};

pub(crate) const QUEUE: QueueIndex = QueueIndex(0);
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Numbers that there are descriptors of.
pub(crate) const NUMBERS: u32 = 4096;

/// Bytes from one to the next.
const STEP: u64 = 4;

pub(crate) type Heap = ShaderVisibleHeap<SimulatedGpu>;
pub(crate) type Range = DescriptorRange<SimulatedGpu>;
pub(crate) type Staging = CpuDescriptorHeap<SimulatedGpu>;
pub(crate) type Transient = TransientDescriptors<SimulatedGpu>;

pub(crate) struct Rig {
    pub(crate) device: SimulatedGpu,
    pub(crate) tracker: SubmissionTracker,
    pub(crate) allocator: Arc<Allocator<SimulatedGpu>>,
    pub(crate) memory: OwningAllocator<SimulatedGpu>,
    /// At `STEP * n` stands the number `value(n)`.
    /// Keeps the buffer of numbers, whose handle is the next.
    _numbers: MappedBuffer<SimulatedGpu>,
    handle: SimulatedBuffer,
}

/// Returns what a shader reads through a descriptor of the number.
pub(crate) fn value(number: u32) -> u32 {
    number * 7 + 100
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::on(Profile::named("discrete-large-bar").unwrap())
    }

    pub(crate) fn on(profile: Profile) -> Self {
        let device = SimulatedGpu::new(profile);
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
        let numbers = mapped(&allocator, u64::from(NUMBERS) * STEP, MemoryUsage::Upload);
        let bytes: Vec<u8> = (0..NUMBERS).flat_map(|number| value(number).to_le_bytes()).collect();
        numbers.write(0, &bytes).unwrap();
        let handle = numbers.handle();
        Self { device, tracker, allocator, memory, _numbers: numbers, handle }
    }

    /// A descriptor of a number.
    pub(crate) fn number(&self, number: u32) -> SimulatedDescriptor<'_> {
        let start = u64::from(number % NUMBERS) * STEP;
        // SAFETY: the buffer lives as long as the rig, and the range lies in it.
        unsafe { self.device.buffer_descriptor(&self.handle, start..start + STEP, BufferUse::ReadOnly) }
    }

    pub(crate) fn heap(&self, desc: ShaderVisibleHeapDesc) -> Heap {
        ShaderVisibleHeap::new(&self.allocator, &self.tracker, desc).unwrap()
    }

    /// A heap of resources with this number of slots, descriptors in tables and in chunks of 16.
    pub(crate) fn resources(&self, slots: u32, tables: u32, transient: u32) -> Heap {
        let desc = ShaderVisibleHeapDesc::resources().with_regions(slots, tables, transient);
        self.heap(desc.with_chunk(16))
    }

    pub(crate) fn staging(&self, page_size: u32) -> Arc<Staging> {
        let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource).with_page_size(page_size);
        Arc::new(CpuDescriptorHeap::new(&self.allocator, &self.tracker, desc).unwrap())
    }

    pub(crate) fn record(&self) -> Recording {
        self.tracker.record("a test")
    }

    /// Submits work that reads nothing.
    pub(crate) fn submit(&self, recording: Recording) -> TimelinePoint {
        use allotment::device::Submission;
        // SAFETY: it copies nothing.
        recording.submit(QUEUE, |queue| unsafe { self.device.submit(queue, &Submission::default()) }).unwrap()
    }

    /// Submits a recording that reads through descriptors, and returns what comes of it.
    pub(crate) fn submit_reads(
        &self,
        recording: Recording,
        heap: &SimulatedDescriptorHeap,
        indices: &[u32],
    ) -> Reading {
        let size = (indices.len().max(1) * 4) as u64;
        let list = mapped(&self.allocator, size, MemoryUsage::Upload);
        let to = mapped(&self.allocator, size, MemoryUsage::Readback);
        let bytes: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        list.write(0, &bytes).unwrap();
        let read = SimulatedRead {
            heap,
            indices: &list.handle(),
            indices_offset: 0,
            count: indices.len() as u32,
            to: &to.handle(),
            to_offset: 0,
        };
        let submitted = recording.submit(QUEUE, |queue| {
            // SAFETY: the buffers live in the reading, which waits; the heap lives until the recording is over.
            unsafe { self.device.submit_reads(queue, &[], &[read]) }
        });
        Reading {
            point: submitted.unwrap(),
            count: indices.len(),
            _list: list,
            to,
            device: self.device.clone(),
        }
    }

    /// Reads through these descriptors of the heap, as work on the GPU does.
    pub(crate) fn read(&self, heap: &Heap, indices: &[u32]) -> Vec<u32> {
        let recording = self.record();
        let transient = heap.begin(&recording).unwrap();
        self.submit_reads(recording, transient.heap(), indices).wait()
    }

    pub(crate) fn wait(&self, point: TimelinePoint) {
        assert_eq!(self.tracker.wait(point, PATIENCE), Ok(()));
    }

    pub(crate) fn wait_idle(&self) {
        assert_eq!(self.tracker.wait_idle(PATIENCE), Ok(()));
    }

    pub(crate) fn assert_no_complaints(&self) {
        assert_eq!(self.device.validation_errors(), Vec::<String>::new());
    }
}

/// Work in flight.
pub(crate) struct Reading {
    pub(crate) point: TimelinePoint,
    count: usize,
    _list: MappedBuffer<SimulatedGpu>,
    to: MappedBuffer<SimulatedGpu>,
    device: SimulatedGpu,
}

impl Reading {
    /// Returns what the work has read.
    pub(crate) fn wait(self) -> Vec<u32> {
        assert_eq!(self.device.wait(self.point, PATIENCE), Ok(()));
        let mut bytes = vec![0; self.count * 4];
        self.to.read(0, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }
}

pub(crate) fn mapped(
    allocator: &Arc<Allocator<SimulatedGpu>>,
    size: u64,
    memory_usage: MemoryUsage,
) -> MappedBuffer<SimulatedGpu> {
    let desc = AllocationOptions::new(memory_usage);
    MappedBuffer::new(allocator, &BufferDesc::new(size), &desc).unwrap()
}

/// The counts of an `Exhausted` error: requested, free, largest, retiring.
pub(crate) fn numbers_of<T: core::fmt::Debug>(refused: Result<T, DescriptorError>) -> [u32; 4] {
    match refused {
        Err(DescriptorError::Exhausted { requested, free, largest, retiring, .. }) => {
            [requested, free, largest, retiring]
        }
        other => panic!("{other:?} is no exhaustion"),
    }
}

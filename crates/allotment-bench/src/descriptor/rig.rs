//! What the library's ways stand on: the simulated device, whose queue is done at once.

use core::convert::Infallible;
use core::error::Error;
use core::hint::black_box;
use std::sync::Arc;

use allotment::descriptor::{
    CpuDescriptorHeap, CpuDescriptorHeapDesc, CpuDescriptorRange, DescriptorFill, ShaderVisibleHeap,
    ShaderVisibleHeapDesc, TransientDescriptors,
};
use allotment::device::simulated::{HostDescriptor, Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferUse, DescriptorDevice, DescriptorHeapType, Device, QueueIndex, ShaderVisibleHeapType,
};
use allotment::lifetime::SubmissionTracker;
use allotment::memory::MappedBuffer;
use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};

use crate::failure::Failure;

const QUEUE: QueueIndex = QueueIndex(0);

/// A device with a heap that shaders see, and something to describe.
pub(super) struct Rig {
    pub(super) device: SimulatedGpu,
    pub(super) tracker: SubmissionTracker,
    pub(super) allocator: Arc<Allocator<SimulatedGpu>>,
    pub(super) heap: Arc<ShaderVisibleHeap<SimulatedGpu>>,
    pub(super) buffer: Arc<MappedBuffer<SimulatedGpu>>,
}

/// What a heap or a device says when it is made.
pub(super) fn refused(error: impl Error) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}

impl Rig {
    pub(super) fn new() -> Result<Arc<Self>, Failure> {
        let Some(profile) = Profile::named("discrete-large-bar") else { unreachable!("it is built in") };
        let device = SimulatedGpu::new(profile);
        let tracker = SubmissionTracker::new(device.clone()).map_err(refused)?;
        let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).map_err(refused)?);
        let heap_desc = Self::heap_desc();
        let heap = Arc::new(ShaderVisibleHeap::new(&allocator, &tracker, heap_desc).map_err(refused)?);
        let desc = AllocationDesc::new(Requirements::new(0), MemoryUsage::Upload);
        let buffer = MappedBuffer::new(&allocator, &BufferDesc::new(256), &desc).map_err(refused)?;
        Ok(Arc::new(Self { device, tracker, allocator, heap, buffer: Arc::new(buffer) }))
    }

    /// A heap whose transient region holds what two threads have in flight, a frame of ten thousand draws each, twice.
    pub(super) fn heap_desc() -> ShaderVisibleHeapDesc {
        ShaderVisibleHeapDesc::resources().with_regions(131_072, 16_384, 524_288)
    }

    pub(super) fn staging(&self) -> Result<Arc<CpuDescriptorHeap<SimulatedGpu>>, Failure> {
        let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource);
        Ok(Arc::new(CpuDescriptorHeap::new(&self.allocator, &self.tracker, desc).map_err(refused)?))
    }

    /// A range of descriptors of nothing.
    pub(super) fn null_range(
        staging: &CpuDescriptorHeap<SimulatedGpu>,
        count: u32,
    ) -> Result<CpuDescriptorRange, Failure> {
        let mut range = staging.allocate(count).map_err(refused)?;
        staging.fill(&mut range, DescriptorFill::Null).map_err(refused)?;
        Ok(range)
    }

    pub(super) fn descriptor(&self) -> HostDescriptor<'_> {
        // SAFETY: the buffer is live as long as this, is good for anything, and has these bytes.
        unsafe { self.device.buffer_descriptor(self.buffer.handle(), 0..256, BufferUse::ReadOnly) }
    }

    /// Bytes of a descriptor of a resource.
    pub(super) fn stride(&self) -> u32 {
        self.device.descriptor_limits().stride(ShaderVisibleHeapType::Resource.into())
    }

    /// A recording with so much in it, which is submitted to a queue that is done at once. What it had is taken back.
    pub(super) fn recording<R>(&self, fill: impl FnOnce(&mut TransientDescriptors<SimulatedGpu>) -> R) -> R {
        let recording = self.tracker.record("a batch");
        let Ok(mut transient) = self.heap.begin(&recording) else { unreachable!("one tracker is for both") };
        let result = fill(&mut transient);
        drop(transient);
        // Nothing was submitted before, so all of it is done.
        let submitted = recording.submit(QUEUE, |queue| Ok::<_, Infallible>(self.device.submitted(queue)));
        let _ = black_box(submitted);
        self.heap.reclaim();
        result
    }
}

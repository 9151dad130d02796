//! The simulated GPU, whose queue completes at once, and the objects that the library's ways need.

use core::convert::Infallible;
use core::error::Error;
use core::hint::black_box;
use std::sync::Arc;

use allotment::descriptor::{
    CpuDescriptorHeap, CpuDescriptorHeapDesc, CpuDescriptorRange, DescriptorFill, ShaderVisibleHeap,
    ShaderVisibleHeapDesc, TransientDescriptors,
};
use allotment::device::simulated::{Profile, SimulatedBuffer, SimulatedDescriptor, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferUse, DescriptorDevice, DescriptorHeapType, QueueDevice as _, QueueIndex,
    ShaderVisibleHeapType,
};
use allotment::lifetime::SubmissionTracker;
use allotment::memory::MappedBuffer;
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};

use crate::failure::Failure;

const QUEUE: QueueIndex = QueueIndex(0);

/// A device with a shader-visible heap and a buffer to describe.
pub(super) struct Rig {
    pub(super) device: SimulatedGpu,
    pub(super) tracker: SubmissionTracker,
    pub(super) allocator: Arc<Allocator<SimulatedGpu>>,
    pub(super) heap: Arc<ShaderVisibleHeap<SimulatedGpu>>,
    pub(super) buffer: Arc<MappedBuffer<SimulatedGpu>>,
    handle: SimulatedBuffer,
}

/// Wraps an error of creating a heap or a device.
pub(super) fn refused(error: impl Error) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}

impl Rig {
    pub(super) fn new() -> Result<Arc<Self>, Failure> {
        let Some(profile) = Profile::named("discrete-large-bar") else { unreachable!("a built-in profile") };
        let device = SimulatedGpu::new(profile);
        let tracker = SubmissionTracker::new(device.clone()).map_err(refused)?;
        let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).map_err(refused)?);
        let heap_desc = Self::heap_desc();
        let heap = Arc::new(ShaderVisibleHeap::new(&allocator, &tracker, heap_desc).map_err(refused)?);
        let desc = AllocationOptions::new(MemoryUsage::Upload);
        let buffer = MappedBuffer::new(&allocator, &BufferDesc::new(256), &desc).map_err(refused)?;
        let handle = buffer.handle();
        Ok(Arc::new(Self { device, tracker, allocator, heap, buffer: Arc::new(buffer), handle }))
    }

    /// Returns the description of a heap whose transient region holds what two threads have in flight: two frames
    /// of ten thousand draws each.
    pub(super) fn heap_desc() -> ShaderVisibleHeapDesc {
        ShaderVisibleHeapDesc::resources().with_regions(131_072, 16_384, 524_288)
    }

    pub(super) fn staging(&self) -> Result<Arc<CpuDescriptorHeap<SimulatedGpu>>, Failure> {
        let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource);
        Ok(Arc::new(CpuDescriptorHeap::new(&self.allocator, &self.tracker, desc).map_err(refused)?))
    }

    /// Creates a range of null descriptors.
    pub(super) fn null_range(
        staging: &CpuDescriptorHeap<SimulatedGpu>,
        count: u32,
    ) -> Result<CpuDescriptorRange, Failure> {
        let mut range = staging.allocate(count).map_err(refused)?;
        staging.fill(&mut range, DescriptorFill::Null).map_err(refused)?;
        Ok(range)
    }

    pub(super) fn descriptor(&self) -> SimulatedDescriptor<'_> {
        // SAFETY: the buffer lives as long as this, allows every use, and has these bytes.
        unsafe { self.device.buffer_descriptor(&self.handle, 0..256, BufferUse::ReadOnly) }
    }

    /// Returns the size of a resource descriptor in bytes.
    pub(super) fn stride(&self) -> u32 {
        self.device.descriptor_limits().stride(ShaderVisibleHeapType::Resource.into())
    }

    /// Runs `fill` within a recording, which is submitted to a queue that completes at once. Frees its descriptors.
    pub(super) fn recording<R>(&self, fill: impl FnOnce(&mut TransientDescriptors<SimulatedGpu>) -> R) -> R {
        let recording = self.tracker.record("a batch");
        let Ok(mut transient) = self.heap.begin(&recording) else {
            unreachable!("both use the same tracker")
        };
        let result = fill(&mut transient);
        drop(transient);
        // Nothing else was submitted, so everything has completed.
        let submitted = recording.submit(QUEUE, |queue| Ok::<_, Infallible>(self.device.submitted(queue)));
        let _ = black_box(submitted);
        self.heap.reclaim();
        result
    }
}

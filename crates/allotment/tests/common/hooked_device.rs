//! A simulated device with a hook at many of its calls, so that a test can make a call wait or panic there.

use core::fmt::Debug;
use core::ops::Range;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Arc;

use allotment::device::simulated::{
    SimulatedBuffer, SimulatedDescriptor, SimulatedDescriptorHeap, SimulatedGpu, SimulatedImage,
    SimulatedImageUse, SimulatedMemory, SimulatedSampler,
};
use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice, BufferUse, BufferViewUses, CopyDirection, DescriptorDevice,
    DescriptorHeapAddress, DescriptorHeapBacking, DescriptorHeapDesc, DescriptorHeapType, DescriptorLimits,
    DeviceError, DeviceProperties, HostImageWrite, ImageCopy, ImageDesc, ImageDevice, ImageShape, MemoryDesc,
    MemoryDevice, MemoryHeapBudget, MemoryHeapIndex, OwnedPart, OwnershipTransfer, QueueDevice, QueueIndex,
    Requirements, ResourceKind, SamplerDesc, Submission, TexelBufferDesc, TimelinePoint, TimelineValue,
    TransferUsage,
};

/// A point of a call at which the hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before memory is allocated.
    BeforeAllocate,
    /// After memory was freed, before the allocator knows of it.
    AfterFree,
    /// Before bytes are flushed.
    BeforeFlush,
    /// Before a buffer is bound to its memory.
    BeforeBind,
    /// After that, when the buffer is named.
    BeforeName,
    /// After a buffer was destroyed, before its memory is freed.
    AfterDestroyBuffer,
    /// Before work is submitted.
    BeforeSubmit,
    /// After the queue has it, before the caller knows.
    AfterSubmit,
    /// Before the device says what was submitted.
    BeforeSubmitted,
    /// Before the device says what was completed.
    BeforeCompleted,
    /// After a descriptor was written.
    AfterWrite,
    /// Before null descriptors are written.
    BeforeWriteNull,
    /// After descriptors were copied.
    AfterCopy,
    /// Before a view of an image is destroyed.
    BeforeDestroyView,
}

/// What a test does at the points.
pub(crate) trait Hook: Debug + Send + Sync + 'static {
    /// Is called when a call reaches a point, with no lock held.
    fn reached(&self, point: Point);

    /// Is called before work is submitted, with the points that it waits for.
    fn submits(&self, _queue: QueueIndex, _waits: &[TimelinePoint]) {}

    /// Is called before that, with what the submission says of its bytes.
    fn aliases(&self, _aliases: bool) {}

    /// Returns whether images keep their states when they lose their bytes, and begin with a write of a whole mip level then: as
    /// the render targets of Direct3D 12.
    fn keeps_states(&self) -> bool {
        false
    }

    /// Returns whether new buffers are said to need whole pages of 4 KiB in memory that they share.
    fn rounds_buffers(&self) -> bool {
        false
    }

    /// Is called before a submission copies texels to an image, with the box of each copy.
    fn writes_box(&self, _extent: [u32; 3]) {}

    /// Is called when a wait has timed out, with its time.
    fn timed_out(&self, _timeout: Duration) {}
}

/// A simulated device with a hook. A clone is the same device.
#[derive(Debug)]
pub(crate) struct HookedDevice<H> {
    pub(crate) inner: SimulatedGpu,
    pub(crate) hook: Arc<H>,
}

impl<H: Hook + Default> HookedDevice<H> {
    pub(crate) fn new(inner: SimulatedGpu) -> Self {
        Self { inner, hook: Arc::default() }
    }
}

impl<H> Clone for HookedDevice<H> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), hook: Arc::clone(&self.hook) }
    }
}

/// A transfer of resources, which are the inner device's.
fn transfer_of_inner<'a, H: Hook>(
    transfer: &OwnershipTransfer<'a, HookedDevice<H>>,
) -> OwnershipTransfer<'a, SimulatedGpu> {
    let part = match transfer.part {
        OwnedPart::Buffer { buffer, offset, size } => OwnedPart::Buffer { buffer, offset, size },
        OwnedPart::Image { image, texels, mip_level, array_layer, state } => {
            OwnedPart::Image { image, texels, mip_level, array_layer, state }
        }
    };
    OwnershipTransfer { part, from: transfer.from, to: transfer.to }
}

// SAFETY: all promises are the inner device's, to which every call is passed on.
unsafe impl<H: Hook> MemoryDevice for HookedDevice<H> {
    type Memory = SimulatedMemory;
    type MemoryOptions = ();

    fn properties(&self) -> &DeviceProperties {
        self.inner.properties()
    }

    fn id(&self) -> u64 {
        self.inner.id()
    }

    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        self.inner.heap_budget(heap)
    }

    fn allocate_memory(&self, desc: &MemoryDesc<'_, ()>) -> Result<SimulatedMemory, DeviceError> {
        self.hook.reached(Point::BeforeAllocate);
        self.inner.allocate_memory(desc)
    }

    unsafe fn free_memory(&self, memory: SimulatedMemory) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.free_memory(memory) };
        self.hook.reached(Point::AfterFree);
    }

    unsafe fn map_memory(&self, memory: SimulatedMemory) -> Result<NonNull<u8>, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.map_memory(memory) }
    }

    unsafe fn unmap_memory(&self, memory: SimulatedMemory) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.unmap_memory(memory) };
    }

    unsafe fn flush_memory(&self, memory: SimulatedMemory, range: Range<u64>) -> Result<(), DeviceError> {
        self.hook.reached(Point::BeforeFlush);
        // SAFETY: the caller's promise.
        unsafe { self.inner.flush_memory(memory, range) }
    }

    unsafe fn invalidate_memory(
        &self,
        memory: SimulatedMemory,
        range: Range<u64>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.invalidate_memory(memory, range) }
    }
}

// SAFETY: as above.
unsafe impl<H: Hook> BufferDevice for HookedDevice<H> {
    type Buffer = SimulatedBuffer;
    type BufferInfo<'a> = BufferDesc;

    fn buffer_size(&self, desc: &BufferDesc) -> u64 {
        self.inner.buffer_size(desc)
    }

    fn buffer_transfer_usage(&self, desc: &BufferDesc) -> TransferUsage {
        self.inner.buffer_transfer_usage(desc)
    }

    fn buffer_view_uses(&self, desc: &BufferDesc) -> BufferViewUses {
        self.inner.buffer_view_uses(desc)
    }

    fn queues_share_buffer(&self, desc: &BufferDesc) -> bool {
        self.inner.queues_share_buffer(desc)
    }

    fn relocatable_buffer_info(&self, desc: &BufferDesc) -> Option<BufferDesc> {
        self.inner.relocatable_buffer_info(desc)
    }

    fn buffer_requirements(&self, desc: &BufferDesc) -> Result<Requirements, DeviceError> {
        self.inner.buffer_requirements(desc)
    }

    fn new_buffer_requirements(&self, desc: &BufferDesc) -> Result<Requirements, DeviceError> {
        let mut found = self.inner.buffer_requirements(desc)?;
        if self.hook.rounds_buffers() {
            found.size = found.size.next_multiple_of(4096);
        }
        Ok(found)
    }

    unsafe fn create_buffer(
        &self,
        desc: &BufferDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedBuffer, DeviceError> {
        self.hook.reached(Point::BeforeBind);
        // SAFETY: the caller's promise.
        unsafe { self.inner.create_buffer(desc, memory, offset) }
    }

    fn create_dedicated_buffer(
        &self,
        desc: &BufferDesc,
        memory: &MemoryDesc<'_, ()>,
    ) -> Result<(SimulatedMemory, SimulatedBuffer), DeviceError> {
        self.inner.create_dedicated_buffer(desc, memory)
    }

    unsafe fn destroy_buffer(&self, buffer: SimulatedBuffer) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.destroy_buffer(buffer) };
        self.hook.reached(Point::AfterDestroyBuffer);
    }

    unsafe fn name_buffer(&self, buffer: &SimulatedBuffer, name: &str) {
        self.hook.reached(Point::BeforeName);
        // SAFETY: the caller's promise.
        unsafe { self.inner.name_buffer(buffer, name) };
    }
}

// SAFETY: as above.
unsafe impl<H: Hook> ImageDevice for HookedDevice<H> {
    type Image = SimulatedImage;
    type ImageInfo<'a> = ImageDesc;
    type ImageState = ();

    fn image_kind(&self, desc: &ImageDesc) -> ResourceKind {
        self.inner.image_kind(desc)
    }

    fn image_shape(&self, desc: &ImageDesc) -> ImageShape {
        let mut shape = self.inner.image_shape(desc);
        shape.begins_whole = self.hook.keeps_states();
        shape
    }

    fn discards_from_any_state(&self) -> bool {
        self.inner.discards_from_any_state() && !self.hook.keeps_states()
    }

    fn can_write_from_host(&self, shape: &ImageShape, after: ()) -> bool {
        self.inner.can_write_from_host(shape, after)
    }

    unsafe fn write_image_from_host(&self, write: &HostImageWrite<'_, Self>) -> Result<(), DeviceError> {
        let HostImageWrite { bytes, image, region, texels, before, after } = *write;
        // SAFETY: the caller's promise.
        unsafe {
            self.inner.write_image_from_host(&HostImageWrite { bytes, image, region, texels, before, after })
        }
    }

    fn queues_share_image(&self, desc: &ImageDesc) -> bool {
        self.inner.queues_share_image(desc)
    }

    fn relocatable_image_info(&self, desc: &ImageDesc) -> Option<ImageDesc> {
        self.inner.relocatable_image_info(desc)
    }

    fn image_requirements(&self, desc: &ImageDesc) -> Result<Requirements, DeviceError> {
        self.inner.image_requirements(desc)
    }

    unsafe fn create_image(
        &self,
        desc: &ImageDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedImage, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.create_image(desc, memory, offset) }
    }

    fn create_dedicated_image(
        &self,
        desc: &ImageDesc,
        memory: &MemoryDesc<'_, ()>,
    ) -> Result<(SimulatedMemory, SimulatedImage), DeviceError> {
        self.inner.create_dedicated_image(desc, memory)
    }

    unsafe fn destroy_image(&self, image: SimulatedImage) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.destroy_image(image) };
    }
}

// SAFETY: as above.
unsafe impl<H: Hook> QueueDevice for HookedDevice<H> {
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError> {
        assert_eq!(submission.full_images.len(), 0, "no images are moved here");
        self.hook.reached(Point::BeforeSubmit);
        self.hook.aliases(submission.aliases);
        self.hook.submits(queue, submission.waits);
        let writes = submission.image_copies.iter().filter(|copy| copy.direction == CopyDirection::IntoImage);
        writes.for_each(|copy| self.hook.writes_box(copy.extent));
        let copies: Vec<BufferCopy<'_, SimulatedGpu>> = submission
            .copies
            .iter()
            .map(|&BufferCopy { from, from_offset, to, to_offset, size }| BufferCopy {
                from,
                from_offset,
                to,
                to_offset,
                size,
            })
            .collect();
        let image_copies: Vec<ImageCopy<'_, SimulatedGpu>> = submission
            .image_copies
            .iter()
            .map(|copy| ImageCopy {
                buffer: copy.buffer,
                buffer_offset: copy.buffer_offset,
                row_pitch: copy.row_pitch,
                rows: copy.rows,
                image: copy.image,
                mip_level: copy.mip_level,
                array_layer: copy.array_layer,
                aspect: copy.aspect,
                origin: copy.origin,
                extent: copy.extent,
                texels: copy.texels,
                direction: copy.direction,
                before: copy.before,
                after: copy.after,
            })
            .collect();
        let releases: Vec<_> = submission.releases.iter().map(transfer_of_inner).collect();
        let acquires: Vec<_> = submission.acquires.iter().map(transfer_of_inner).collect();
        let work = Submission {
            waits: submission.waits,
            copies: &copies,
            image_copies: &image_copies,
            releases: &releases,
            acquires: &acquires,
            aliases: submission.aliases,
            ..Submission::default()
        };
        // SAFETY: the caller's promise.
        let submitted = unsafe { self.inner.submit(queue, &work) };
        self.hook.reached(Point::AfterSubmit);
        submitted
    }

    fn queue_family(&self, queue: QueueIndex) -> u32 {
        self.inner.queue_family(queue)
    }

    fn copies_any_box(&self, queue: QueueIndex) -> bool {
        self.inner.copies_any_box(queue)
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.hook.reached(Point::BeforeSubmitted);
        self.inner.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.hook.reached(Point::BeforeCompleted);
        self.inner.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        let waited = self.inner.wait(point, timeout);
        if waited.is_err_and(DeviceError::is_timeout) {
            self.hook.timed_out(timeout);
        }
        waited
    }
}

// SAFETY: as above.
unsafe impl<H: Hook> DescriptorDevice for HookedDevice<H> {
    type DescriptorHeap = SimulatedDescriptorHeap;
    type Descriptor<'a> = SimulatedDescriptor<'a>;
    type Sampler = SimulatedSampler;
    type StaticSamplers = Box<[SamplerDesc]>;
    type TexelBufferView = TexelBufferDesc;
    type ImageViewInfo = SimulatedImageUse;
    type ImageView = SimulatedImageUse;

    fn descriptor_limits(&self) -> DescriptorLimits {
        self.inner.descriptor_limits()
    }

    fn descriptor_kind(descriptor: &SimulatedDescriptor<'_>) -> DescriptorHeapType {
        SimulatedGpu::descriptor_kind(descriptor)
    }

    fn descriptor_heap_buffer(&self, desc: &DescriptorHeapDesc) -> Option<BufferDesc> {
        self.inner.descriptor_heap_buffer(desc)
    }

    unsafe fn create_descriptor_heap(
        &self,
        desc: &DescriptorHeapDesc,
        _: Option<DescriptorHeapBacking<'_, Self>>,
    ) -> Result<SimulatedDescriptorHeap, DeviceError> {
        // SAFETY: the caller's promise; these heaps are in no buffer.
        unsafe { self.inner.create_descriptor_heap(desc, None) }
    }

    unsafe fn destroy_descriptor_heap(&self, heap: SimulatedDescriptorHeap) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.destroy_descriptor_heap(heap) };
    }

    fn descriptor_heap_address(&self, heap: &SimulatedDescriptorHeap) -> DescriptorHeapAddress {
        self.inner.descriptor_heap_address(heap)
    }

    unsafe fn write_descriptor(
        &self,
        heap: &SimulatedDescriptorHeap,
        at: u32,
        descriptor: &SimulatedDescriptor<'_>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.write_descriptor(heap, at, descriptor) };
        self.hook.reached(Point::AfterWrite);
    }

    unsafe fn write_null_descriptors(&self, heap: &SimulatedDescriptorHeap, at: Range<u32>) {
        self.hook.reached(Point::BeforeWriteNull);
        // SAFETY: the caller's promise.
        unsafe { self.inner.write_null_descriptors(heap, at) };
    }

    unsafe fn poison_descriptors(&self, heap: &SimulatedDescriptorHeap, at: Range<u32>) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.poison_descriptors(heap, at) };
    }

    unsafe fn copy_descriptors(
        &self,
        from: &SimulatedDescriptorHeap,
        from_at: u32,
        to: &SimulatedDescriptorHeap,
        to_at: u32,
        count: u32,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.copy_descriptors(from, from_at, to, to_at, count) };
        self.hook.reached(Point::AfterCopy);
    }

    fn create_sampler(&self, desc: &SamplerDesc) -> Result<SimulatedSampler, DeviceError> {
        self.inner.create_sampler(desc)
    }

    unsafe fn destroy_sampler(&self, sampler: SimulatedSampler) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.destroy_sampler(sampler) };
    }

    fn create_static_samplers(&self, samplers: &[SamplerDesc]) -> Result<Box<[SamplerDesc]>, DeviceError> {
        self.inner.create_static_samplers(samplers)
    }

    unsafe fn destroy_static_samplers(&self, samplers: Box<[SamplerDesc]>) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.destroy_static_samplers(samplers) };
    }

    unsafe fn create_texel_buffer_view(
        &self,
        buffer: &SimulatedBuffer,
        desc: &TexelBufferDesc,
    ) -> Result<TexelBufferDesc, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.create_texel_buffer_view(buffer, desc) }
    }

    unsafe fn destroy_texel_buffer_view(&self, view: TexelBufferDesc) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.destroy_texel_buffer_view(view) };
    }

    unsafe fn texel_buffer_descriptor<'a>(
        &self,
        buffer: &'a SimulatedBuffer,
        view: &'a TexelBufferDesc,
    ) -> SimulatedDescriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.texel_buffer_descriptor(buffer, view) }
    }

    unsafe fn create_image_view(
        &self,
        image: &SimulatedImage,
        info: &SimulatedImageUse,
    ) -> Result<SimulatedImageUse, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.create_image_view(image, info) }
    }

    unsafe fn destroy_image_view(&self, view: SimulatedImageUse) {
        self.hook.reached(Point::BeforeDestroyView);
        // SAFETY: the caller's promise.
        unsafe { self.inner.destroy_image_view(view) };
    }

    unsafe fn image_descriptor<'a>(
        &self,
        image: &'a SimulatedImage,
        view: &'a SimulatedImageUse,
    ) -> SimulatedDescriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.image_descriptor(image, view) }
    }

    unsafe fn sampler_descriptor<'a>(&self, sampler: &'a SimulatedSampler) -> SimulatedDescriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.sampler_descriptor(sampler) }
    }

    unsafe fn buffer_descriptor<'a>(
        &self,
        buffer: &'a SimulatedBuffer,
        range: Range<u64>,
        usage: BufferUse,
    ) -> SimulatedDescriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.buffer_descriptor(buffer, range, usage) }
    }
}

//! The device for tests: the trait without `unsafe`, and nothing left behind.
//!
//! Memory and buffers have owners here that give them back, after waiting for all that was submitted. So
//! the trait's contract is kept whatever a test does, except that the CPU must not touch mapped bytes
//! while a queue or another thread does; the tests see to that.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice, DeviceError, DeviceProperties, FullImageCopy, ImageCopy, ImageDesc,
    ImageDevice, MemoryDesc, MemoryDevice, MemoryProperties, MemoryTypeIndex, QueueDevice as _, QueueIndex,
    Requirements, Submission, TimelinePoint, TimelineValue,
};

use crate::fixture::Fixture;

/// How long a device may take for anything that a test asks of it. A test that hangs says nothing, one
/// that fails does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Memory of a device, which the fixture's device names so.
pub(crate) type RawMemory<F> = <<F as Fixture>::Device as MemoryDevice>::Memory;

/// A copy between two buffers of a fixture's device.
pub(crate) type Copy<'a, F> = BufferCopy<'a, <F as Fixture>::Device>;

/// A copy between a buffer and an image of a fixture's device.
pub(crate) type TexelCopy<'a, F> = ImageCopy<'a, <F as Fixture>::Device>;

/// A copy of a whole image of a fixture's device.
pub(crate) type WholeCopy<'a, F> = FullImageCopy<'a, <F as Fixture>::Device>;

/// The image descriptions of a fixture's device.
pub(crate) type ImageInfo<F> = <<F as Fixture>::Device as ImageDevice>::ImageInfo<'static>;

/// The image states of a fixture's device.
pub(crate) type ImageState<F> = <<F as Fixture>::Device as ImageDevice>::ImageState;

/// A device and what a test did with it.
pub(crate) struct Gpu<F: Fixture> {
    fixture: F,
    /// By queue, the last value that a submission was given.
    submitted: Vec<AtomicU64>,
}

impl<F: Fixture> Gpu<F> {
    pub(crate) fn new(fixture: F) -> Self {
        let submitted = fixture.device().properties().queues.iter().map(|_| AtomicU64::new(0)).collect();
        Self { fixture, submitted }
    }

    pub(crate) fn fixture(&self) -> &F {
        &self.fixture
    }

    pub(crate) fn device(&self) -> &F::Device {
        self.fixture.device()
    }

    pub(crate) fn properties(&self) -> &DeviceProperties {
        self.device().properties()
    }

    pub(crate) fn finish(self) -> Result<(), String> {
        self.settle();
        self.fixture.finish()
    }

    /// The memory types that every program may allocate: protected memory is for protected queues, and
    /// device-coherent memory for devices with that feature enabled.
    pub(crate) fn types(&self) -> Vec<MemoryTypeIndex> {
        let special = MemoryProperties::PROTECTED | MemoryProperties::DEVICE_COHERENT;
        let types = self.properties().indexed_types();
        types.filter(|(_, t)| !t.properties.intersects(special)).map(|(index, _)| index).collect()
    }

    pub(crate) fn has(&self, memory_type: MemoryTypeIndex, properties: MemoryProperties) -> bool {
        self.properties().memory_type(memory_type).unwrap().properties.contains(properties)
    }

    /// The memory types that the CPU can map.
    pub(crate) fn visible_types(&self) -> Vec<MemoryTypeIndex> {
        let mut types = self.types();
        types.retain(|&t| self.has(t, MemoryProperties::HOST_VISIBLE));
        types
    }

    /// The memory types that take buffers.
    pub(crate) fn buffer_types(&self) -> Vec<MemoryTypeIndex> {
        let allowed = self.requirements(1).memory_types;
        let mut types = self.types();
        types.retain(|&t| allowed.contains(t));
        types
    }

    /// True where queues can read: buffers in memory of the type can be copied from.
    pub(crate) fn can_read_from(&self, memory_type: MemoryTypeIndex) -> bool {
        !self.has(memory_type, MemoryProperties::DEVICE_WRITE_ONLY)
    }

    /// True where queues can write: buffers in memory of the type can be copied to.
    pub(crate) fn can_write_to(&self, memory_type: MemoryTypeIndex) -> bool {
        !self.has(memory_type, MemoryProperties::DEVICE_READ_ONLY)
    }

    /// The memory types whose buffers queues can read from.
    pub(crate) fn source_types(&self) -> Vec<MemoryTypeIndex> {
        let mut types = self.buffer_types();
        types.retain(|&t| self.can_read_from(t));
        types
    }

    /// The memory types whose buffers queues can write to.
    pub(crate) fn target_types(&self) -> Vec<MemoryTypeIndex> {
        let mut types = self.buffer_types();
        types.retain(|&t| self.can_write_to(t));
        types
    }

    /// The memory types whose buffers queues can read from and write to.
    pub(crate) fn two_way_types(&self) -> Vec<MemoryTypeIndex> {
        let mut types = self.source_types();
        types.retain(|&t| self.can_write_to(t));
        types
    }

    /// The first memory type where queues do all that they can.
    pub(crate) fn two_way_type(&self) -> MemoryTypeIndex {
        *self.two_way_types().first().expect("queues read and write some memory that takes buffers")
    }

    /// Where a buffer stands that is copied from in a test about memory of the type: there, if that is
    /// possible.
    pub(crate) fn source_for(&self, memory_type: MemoryTypeIndex) -> MemoryTypeIndex {
        if self.can_read_from(memory_type) { memory_type } else { self.two_way_type() }
    }

    /// Where a buffer stands that is copied to in a test about memory of the type: there, if that is
    /// possible.
    pub(crate) fn target_for(&self, memory_type: MemoryTypeIndex) -> MemoryTypeIndex {
        if self.can_write_to(memory_type) { memory_type } else { self.two_way_type() }
    }

    /// The memory in which the CPU writes bytes for queues to read.
    pub(crate) fn upload_type(&self) -> MemoryTypeIndex {
        let mut types = self.visible_buffer_types();
        types.retain(|&t| self.can_read_from(t));
        *types.first().expect("queues read some buffers that the CPU can map")
    }

    /// Where queues write bytes for the CPU.
    pub(crate) fn readback_type(&self) -> MemoryTypeIndex {
        let mut types = self.visible_buffer_types();
        types.retain(|&t| self.can_write_to(t));
        let cached = types.iter().find(|&&t| self.has(t, MemoryProperties::HOST_CACHED));
        *cached.or(types.first()).expect("queues write to some buffers that the CPU can map")
    }

    /// The memory types that the CPU can map and that take buffers.
    pub(crate) fn visible_buffer_types(&self) -> Vec<MemoryTypeIndex> {
        let mut types = self.buffer_types();
        types.retain(|&t| self.has(t, MemoryProperties::HOST_VISIBLE));
        types
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueIndex> + '_ {
        (0..self.properties().queues.len()).map(|queue| QueueIndex(queue.try_into().unwrap()))
    }

    pub(crate) fn requirements(&self, size: u64) -> Requirements {
        self.device().buffer_requirements(&BufferDesc::new(size).into()).unwrap()
    }

    pub(crate) fn try_allocate(
        &self,
        memory_type: MemoryTypeIndex,
        size: u64,
    ) -> Result<Arc<Memory<'_, F>>, DeviceError> {
        let handle = self.device().allocate_memory(&MemoryDesc::new(memory_type, size))?;
        Ok(self.own(handle, memory_type, size))
    }

    pub(crate) fn allocate(&self, memory_type: MemoryTypeIndex, size: u64) -> Arc<Memory<'_, F>> {
        match self.try_allocate(memory_type, size) {
            Ok(memory) => memory,
            Err(error) => panic!("{size} bytes of memory type {memory_type}: {error}"),
        }
    }

    fn own(&self, handle: RawMemory<F>, memory_type: MemoryTypeIndex, size: u64) -> Arc<Memory<'_, F>> {
        let (ours, mapped) = (AtomicBool::new(true), Mutex::new(Weak::new()));
        Arc::new(Memory { gpu: self, handle, memory_type, size, ours, mapped })
    }

    /// A buffer at the start of memory that has exactly what the buffer needs.
    pub(crate) fn buffer(&self, memory_type: MemoryTypeIndex, size: u64) -> Buffer<'_, F> {
        self.allocate(memory_type, self.requirements(size).size).buffer(0, size)
    }

    /// A buffer with memory that the device made along with it.
    pub(crate) fn try_dedicated_buffer(
        &self,
        memory_type: MemoryTypeIndex,
        size: u64,
    ) -> Result<Buffer<'_, F>, DeviceError> {
        let (memory, raw) = {
            let memory = MemoryDesc::new(memory_type, 1);
            self.device().create_dedicated_buffer(&BufferDesc::new(size).into(), &memory)?
        };
        let memory = self.own(memory, memory_type, self.requirements(size).size);
        Ok(Buffer { raw: Some(raw), memory, offset: 0, size })
    }

    /// An image with memory that the device made along with it.
    pub(crate) fn try_dedicated_image(
        &self,
        memory_type: MemoryTypeIndex,
        desc: ImageDesc,
    ) -> Result<Image<'_, F>, DeviceError> {
        let memory = MemoryDesc::new(memory_type, 1);
        let (memory, raw) = self.device().create_dedicated_image(&desc.into(), &memory)?;
        let size = self.device().image_requirements(&desc.into()).unwrap().size;
        Ok(Image { raw: Some(raw), memory: self.own(memory, memory_type, size) })
    }

    /// An image at the start of memory that has exactly what the image needs, of the first type that takes it.
    pub(crate) fn image(&self, desc: ImageDesc) -> Image<'_, F> {
        let needs = self.device().image_requirements(&desc.into()).unwrap();
        let mut types = self.types();
        types.retain(|&t| needs.memory_types.contains(t));
        self.allocate(*types.first().expect("some memory takes the image"), needs.size).image(0, desc)
    }

    pub(crate) fn try_submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        copies: &[Copy<'_, F>],
    ) -> Result<TimelinePoint, DeviceError> {
        self.try_submit_all(queue, &Submission { waits, copies, ..Submission::default() })
    }

    pub(crate) fn try_submit_all(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, F::Device>,
    ) -> Result<TimelinePoint, DeviceError> {
        // SAFETY: buffers, images and memory wait for the device before they go; see `settle`.
        let value = unsafe { self.device().submit(queue, submission) }?;
        Ok(self.submitted(queue, value))
    }

    /// Submits copies of images, which the test has in the states that it says.
    pub(crate) fn submit_images(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        image_copies: &[TexelCopy<'_, F>],
    ) -> TimelinePoint {
        self.try_submit_all(queue, &Submission { waits, image_copies, ..Submission::default() }).unwrap()
    }

    /// Submits copies of whole images, which the test has in the states that it says.
    pub(crate) fn submit_whole(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        full_images: &[WholeCopy<'_, F>],
    ) -> TimelinePoint {
        self.try_submit_all(queue, &Submission { waits, full_images, ..Submission::default() }).unwrap()
    }

    pub(crate) fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        copies: &[Copy<'_, F>],
    ) -> TimelinePoint {
        self.try_submit(queue, waits, copies).unwrap()
    }

    /// Remembers what a test itself submitted, so that everything waits for it before it goes.
    pub(crate) fn submitted(&self, queue: QueueIndex, value: TimelineValue) -> TimelinePoint {
        self.submitted[usize::from(queue.0)].fetch_max(value.0, Relaxed);
        TimelinePoint { queue, value }
    }

    /// Waits for a point that must be reached.
    pub(crate) fn wait(&self, point: TimelinePoint) {
        let began = Instant::now();
        assert_eq!(self.device().wait(point, PATIENCE), Ok(()), "{point:?}");
        assert!(began.elapsed() < PATIENCE, "{point:?} was reached, and no thread was woken");
    }

    /// Submits copies to the first queue and waits for them.
    pub(crate) fn run(&self, copies: &[Copy<'_, F>]) {
        self.wait(self.submit(QueueIndex(0), &[], copies));
    }

    pub(crate) fn completed(&self, queue: QueueIndex) -> TimelineValue {
        self.device().completed(queue).unwrap()
    }

    /// Waits for all that was submitted, so that no queue uses anything any more. Nothing does on a lost
    /// device.
    pub(crate) fn settle(&self) {
        for (queue, submitted) in self.queues().zip(&self.submitted) {
            let point = TimelinePoint { queue, value: TimelineValue(submitted.load(Relaxed)) };
            let settled = point.value.0 == 0
                || matches!(self.device().wait(point, PATIENCE), Ok(()) | Err(DeviceError::Lost));
            assert!(settled, "{point:?} was not reached, so nothing can be given back");
        }
    }

    /// Writes bytes into a buffer in any memory, by a queue; by the CPU where queues only read.
    pub(crate) fn put(&self, buffer: &Buffer<'_, F>, offset: u64, bytes: &[u8]) {
        if !self.can_write_to(buffer.memory.memory_type) {
            buffer.memory.map().put(buffer.offset + offset, bytes);
            return;
        }
        let staging = self.buffer(self.upload_type(), bytes.len() as u64);
        staging.memory().map().put(0, bytes);
        self.run(&[copy(&staging, 0, buffer, offset, bytes.len() as u64)]);
    }

    /// Reads all bytes of a buffer in any memory, by a queue; by the CPU where queues only write.
    pub(crate) fn get(&self, buffer: &Buffer<'_, F>) -> Vec<u8> {
        if !self.can_read_from(buffer.memory.memory_type) {
            return buffer.memory.map().get(buffer.offset..buffer.offset + buffer.size);
        }
        let staging = self.buffer(self.readback_type(), buffer.size);
        self.run(&[copy(buffer, 0, &staging, 0, buffer.size)]);
        staging.memory().map().get(0..buffer.size)
    }
}

/// A memory object; given back when it goes.
pub(crate) struct Memory<'g, F: Fixture> {
    gpu: &'g Gpu<F>,
    handle: RawMemory<F>,
    memory_type: MemoryTypeIndex,
    size: u64,
    ours: AtomicBool,
    /// Where the memory is mapped, while it is.
    mapped: Mutex<Weak<Mapped<'g, F>>>,
}

impl<'g, F: Fixture> Memory<'g, F> {
    pub(crate) fn handle(&self) -> RawMemory<F> {
        self.handle
    }

    /// Leaves it to the test to give the memory back.
    pub(crate) fn disown(&self) -> RawMemory<F> {
        self.ours.store(false, Relaxed);
        self.handle
    }

    /// Maps the memory until the mapping goes. Where the test has a mapping of it already, it is the same.
    pub(crate) fn map(self: &Arc<Self>) -> Mapping<'g, F> {
        let mut mapped = self.mapped.lock().unwrap();
        if let Some(mapped) = mapped.upgrade() {
            return Mapping(mapped);
        }
        // SAFETY: live, and the caller maps only what is visible; it is not mapped, as was seen.
        let first = unsafe { self.gpu.device().map_memory(self.handle) }.unwrap();
        let mapping = Arc::new(Mapped { first, memory: Arc::clone(self) });
        *mapped = Arc::downgrade(&mapping);
        Mapping(mapping)
    }

    pub(crate) fn try_buffer(self: &Arc<Self>, offset: u64, size: u64) -> Result<Buffer<'g, F>, DeviceError> {
        let desc = BufferDesc::new(size).into();
        // SAFETY: live, and kept alive by the buffer; the caller keeps to the requirements.
        let raw = unsafe { self.gpu.device().create_buffer(&desc, self.handle, offset) }?;
        Ok(Buffer { raw: Some(raw), memory: Arc::clone(self), offset, size })
    }

    /// A buffer in this memory.
    pub(crate) fn buffer(self: &Arc<Self>, offset: u64, size: u64) -> Buffer<'g, F> {
        self.try_buffer(offset, size).unwrap()
    }

    /// An image in this memory.
    pub(crate) fn image(self: &Arc<Self>, offset: u64, desc: ImageDesc) -> Image<'g, F> {
        // SAFETY: live, and kept alive by the image; the caller keeps to the requirements.
        let raw = unsafe { self.gpu.device().create_image(&desc.into(), self.handle, offset) }.unwrap();
        Image { raw: Some(raw), memory: Arc::clone(self) }
    }

    /// The whole atoms around a range.
    fn atoms(&self, range: &Range<u64>) -> Range<u64> {
        let atom = self.gpu.properties().limits.non_coherent_atom_size;
        atom.align_down(range.start)..atom.align_up(range.end).min(self.size)
    }

    /// Flushes the atoms around a range.
    pub(crate) fn flush(&self, range: &Range<u64>) {
        // SAFETY: live, mapped by the caller, and whole atoms inside the memory.
        unsafe { self.gpu.device().flush_memory(self.handle, self.atoms(range)) }.unwrap();
    }

    /// Invalidates the atoms around a range.
    pub(crate) fn invalidate(&self, range: &Range<u64>) {
        // SAFETY: live, mapped by the caller, and whole atoms inside the memory.
        unsafe { self.gpu.device().invalidate_memory(self.handle, self.atoms(range)) }.unwrap();
    }
}

impl<F: Fixture> Drop for Memory<'_, F> {
    fn drop(&mut self) {
        // After a failure no thread waits for the queues, which may use the memory still: it is leaked.
        if *self.ours.get_mut() && !std::thread::panicking() {
            self.gpu.settle();
            // SAFETY: live, and no queue uses it any more.
            unsafe { self.gpu.device().free_memory(self.handle) };
        }
    }
}

/// The bytes of mapped memory.
pub(crate) struct Mapping<'g, F: Fixture>(Arc<Mapped<'g, F>>);

/// Mapped memory; unmapped when it goes. No thread begins to map it while the last mapping goes on another.
struct Mapped<'g, F: Fixture> {
    first: NonNull<u8>,
    memory: Arc<Memory<'g, F>>,
}

// SAFETY: the trait lets any thread use the pointer of mapped memory.
unsafe impl<F: Fixture> Send for Mapped<'_, F> {}
// SAFETY: as above; threads that write have bytes of their own.
unsafe impl<F: Fixture> Sync for Mapped<'_, F> {}

impl<F: Fixture> Mapping<'_, F> {
    pub(crate) fn first(&self) -> NonNull<u8> {
        self.0.first
    }

    fn at(&self, offset: u64, len: usize) -> NonNull<u8> {
        assert!(offset + len as u64 <= self.0.memory.size, "the test reaches beyond its memory");
        // SAFETY: `offset` lies in the memory, all of which is mapped.
        unsafe { self.0.first.add(offset as usize) }
    }

    /// Writes for the CPU to see; the device may see it after a flush.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len()).as_ptr();
        // SAFETY: inside the mapped memory, as was checked; nothing else accesses these bytes now.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Reads what the CPU sees, which is what the device wrote after an invalidate.
    pub(crate) fn read(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let from = self.at(range.start, bytes.len()).as_ptr();
        // SAFETY: inside the mapped memory, as was checked; nothing writes to these bytes now.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// Writes for the device to see.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        self.write(offset, bytes);
        self.0.memory.flush(&(offset..offset + bytes.len() as u64));
    }

    /// Gives the memory back as it is, mapped.
    pub(crate) fn free_mapped(self) {
        let memory = self.0.memory.disown();
        self.0.memory.gpu.settle();
        // SAFETY: live, no queue uses it any more, and disowning it ended all other use.
        unsafe { self.0.memory.gpu.device().free_memory(memory) };
    }

    /// Reads what the device wrote.
    pub(crate) fn get(&self, range: Range<u64>) -> Vec<u8> {
        self.0.memory.invalidate(&range);
        self.read(range)
    }
}

impl<F: Fixture> Drop for Mapped<'_, F> {
    fn drop(&mut self) {
        if self.memory.ours.load(Relaxed) && !std::thread::panicking() {
            // SAFETY: live and mapped; the pointer goes.
            unsafe { self.memory.gpu.device().unmap_memory(self.memory.handle) };
        }
    }
}

/// A buffer, which keeps its memory; destroyed when it goes.
pub(crate) struct Buffer<'g, F: Fixture> {
    raw: Option<<F::Device as BufferDevice>::Buffer>,
    memory: Arc<Memory<'g, F>>,
    /// In the memory.
    offset: u64,
    size: u64,
}

impl<'g, F: Fixture> Buffer<'g, F> {
    pub(crate) fn memory(&self) -> &Arc<Memory<'g, F>> {
        &self.memory
    }

    pub(crate) fn raw(&self) -> &<F::Device as BufferDevice>::Buffer {
        self.raw.as_ref().unwrap()
    }

    /// Leaves it to the test to destroy the buffer. Its memory stays owned.
    pub(crate) fn disown(mut self) -> <F::Device as BufferDevice>::Buffer {
        self.raw.take().unwrap()
    }
}

impl<F: Fixture> Drop for Buffer<'_, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Some(raw) = self.raw.take() {
            self.memory.gpu.settle();
            // SAFETY: from this device, and no queue uses it any more.
            unsafe { self.memory.gpu.device().destroy_buffer(raw) };
        }
    }
}

/// An image, which keeps its memory; destroyed when it goes.
pub(crate) struct Image<'g, F: Fixture> {
    raw: Option<<F::Device as ImageDevice>::Image>,
    memory: Arc<Memory<'g, F>>,
}

impl<'g, F: Fixture> Image<'g, F> {
    pub(crate) fn memory(&self) -> &Arc<Memory<'g, F>> {
        &self.memory
    }

    pub(crate) fn raw(&self) -> &<F::Device as ImageDevice>::Image {
        self.raw.as_ref().unwrap()
    }

    /// Leaves it to the test to destroy the image. Its memory stays owned.
    pub(crate) fn disown(mut self) -> <F::Device as ImageDevice>::Image {
        self.raw.take().unwrap()
    }
}

impl<F: Fixture> Drop for Image<'_, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Some(raw) = self.raw.take() {
            self.memory.gpu.settle();
            // SAFETY: from this device, and no queue uses it any more.
            unsafe { self.memory.gpu.device().destroy_image(raw) };
        }
    }
}

/// A copy of `size` bytes.
pub(crate) fn copy<'a, F: Fixture>(
    from: &'a Buffer<'_, F>,
    from_offset: u64,
    to: &'a Buffer<'_, F>,
    to_offset: u64,
    size: u64,
) -> Copy<'a, F> {
    BufferCopy { from: from.raw(), from_offset, to: to.raw(), to_offset, size }
}

//! A device that waits in the middle of a call until the test lets it go on, so that a race is run in the
//! one order that would go wrong; or that panics there, as another implementation of the trait may.

use core::ops::Range;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex};

use allotment::device::simulated::{SimulatedBuffer, SimulatedGpu, SimulatedImage, SimulatedMemory};
use allotment::device::{
    BufferCopy, BufferDesc, Device, DeviceError, DeviceProperties, ImageDesc, MemoryDesc, MemoryHeapBudget,
    MemoryHeapIndex, QueueIndex, Requirements, ResourceKind, Submission, TimelinePoint, TimelineValue,
    TransferUsage,
};

/// Where a call can be made to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Before memory is allocated.
    BeforeAllocate,
    /// After memory was given back, before the allocator knows of it.
    AfterFree,
    /// Before bytes are flushed.
    BeforeFlush,
    /// Before a buffer is bound to its memory.
    BeforeBind,
    /// After that, when the buffer is named.
    BeforeName,
    /// Before work is submitted.
    BeforeSubmit,
    /// After the queue has it, before the caller knows.
    AfterSubmit,
}

#[derive(Debug, Default)]
struct State {
    closed: Option<Gate>,
    /// Where this number of calls panic.
    panics: Option<(Gate, u32)>,
    waiting: Vec<Gate>,
    frees: u32,
}

/// A simulated device with a gate. A clone is the same device.
#[derive(Clone, Debug)]
pub(crate) struct GatedDevice {
    pub(crate) inner: SimulatedGpu,
    state: Arc<(Mutex<State>, Condvar)>,
}

/// So long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

impl GatedDevice {
    pub(crate) fn new(inner: SimulatedGpu) -> Self {
        Self { inner, state: Arc::default() }
    }

    /// Stops all calls that reach this point from now on. Those that wait at another point continue.
    pub(crate) fn close(&self, gate: Gate) {
        self.state.0.lock().unwrap().closed = Some(gate);
        self.state.1.notify_all();
    }

    /// Lets all go on.
    pub(crate) fn open(&self) {
        self.state.0.lock().unwrap().closed = None;
        self.state.1.notify_all();
    }

    /// Makes the next `calls` that pass this point panic there; calls that wait there first.
    pub(crate) fn panic_at(&self, gate: Gate, calls: u32) {
        self.state.0.lock().unwrap().panics = Some((gate, calls));
    }

    /// Waits until this number of calls wait at the point.
    pub(crate) fn wait_for(&self, calls: usize) {
        let state = self.state.0.lock().unwrap();
        let few = |state: &mut State| {
            state.waiting.iter().filter(|&&gate| Some(gate) == state.closed).count() < calls
        };
        let waited = self.state.1.wait_timeout_while(state, PATIENCE, few);
        assert!(!waited.unwrap().1.timed_out(), "fewer than {calls} calls reached the point");
    }

    /// True when memory is given back within `time`.
    pub(crate) fn frees_within(&self, time: Duration) -> bool {
        let state = self.state.0.lock().unwrap();
        let waited = self.state.1.wait_timeout_while(state, time, |state| state.frees == 0);
        !waited.unwrap().1.timed_out()
    }

    fn pass(&self, gate: Gate) {
        let mut state = self.state.0.lock().unwrap();
        if state.closed == Some(gate) {
            state.waiting.push(gate);
            self.state.1.notify_all();
            // A test that failed releases no call, and its threads are joined all the same.
            let closed = |state: &mut State| state.closed == Some(gate);
            state = self.state.1.wait_timeout_while(state, PATIENCE, closed).unwrap().0;
            let at = state.waiting.iter().position(|&waits_at| waits_at == gate);
            at.map(|at| state.waiting.swap_remove(at));
        }
        if let Some((at, calls)) = state.panics.filter(|&(at, calls)| at == gate && calls != 0) {
            state.panics = Some((at, calls - 1));
            drop(state);
            panic!("the device panics: {gate:?}");
        }
    }
}

// SAFETY: all promises are the inner device's, to which every call is passed on.
unsafe impl Device for GatedDevice {
    type Memory = SimulatedMemory;
    type Buffer = SimulatedBuffer;
    type Image = SimulatedImage;
    type BufferInfo<'a> = BufferDesc;
    type ImageInfo<'a> = ImageDesc;
    type MemoryOptions = ();
    type ImageState = ();

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
        self.pass(Gate::BeforeAllocate);
        self.inner.allocate_memory(desc)
    }

    unsafe fn free_memory(&self, memory: SimulatedMemory) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.free_memory(memory) };
        self.state.0.lock().unwrap().frees += 1;
        self.state.1.notify_all();
        self.pass(Gate::AfterFree);
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
        self.pass(Gate::BeforeFlush);
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

    fn buffer_size(&self, desc: &BufferDesc) -> u64 {
        self.inner.buffer_size(desc)
    }

    fn buffer_transfer_usage(&self, desc: &BufferDesc) -> TransferUsage {
        self.inner.buffer_transfer_usage(desc)
    }

    fn relocatable_buffer_info(&self, desc: &BufferDesc) -> Option<BufferDesc> {
        self.inner.relocatable_buffer_info(desc)
    }

    fn buffer_requirements(&self, desc: &BufferDesc) -> Result<Requirements, DeviceError> {
        self.inner.buffer_requirements(desc)
    }

    unsafe fn create_buffer(
        &self,
        desc: &BufferDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedBuffer, DeviceError> {
        self.pass(Gate::BeforeBind);
        // SAFETY: the caller's promise.
        unsafe { self.inner.create_buffer(desc, memory, offset) }
    }

    unsafe fn name_buffer(&self, buffer: &SimulatedBuffer, name: &str) {
        self.pass(Gate::BeforeName);
        // SAFETY: the caller's promise.
        unsafe { self.inner.name_buffer(buffer, name) };
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

    fn image_kind(&self, desc: &ImageDesc) -> ResourceKind {
        self.inner.image_kind(desc)
    }

    fn relocatable_image_info(&self, desc: &ImageDesc) -> Option<ImageDesc> {
        self.inner.relocatable_image_info(desc)
    }

    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError> {
        let images = submission.image_copies.len() + submission.full_images.len();
        assert_eq!(images, 0, "no images are copied here");
        self.pass(Gate::BeforeSubmit);
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
        let work = Submission { waits: submission.waits, copies: &copies, ..Submission::default() };
        // SAFETY: the caller's promise.
        let submitted = unsafe { self.inner.submit(queue, &work) };
        self.pass(Gate::AfterSubmit);
        submitted
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.inner.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.inner.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        self.inner.wait(point, timeout)
    }
}

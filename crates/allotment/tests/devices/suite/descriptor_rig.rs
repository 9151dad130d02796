//! The common part of the tests of descriptors: heaps that free themselves, buffers to name, and work that tells
//! what it finds.

use std::sync::Arc;

use allotment::device::{
    BufferDevice, BufferUse, DescriptorDevice, DescriptorHeapBacking, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorHeapVisibility, DeviceError, MemoryProperties, QueueIndex, ShaderVisibleHeapType,
    TimelinePoint,
};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{MappedBuffer, RawBuffer, Transfer};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};
use allotment_readers::{DescriptorReader, Read};

use crate::fixture::{DescriptorFixture, Fixture, Outcome};
use crate::gpu::Gpu;

pub(crate) const FIRST: QueueIndex = QueueIndex(0);
pub(crate) const RESOURCES: DescriptorHeapVisibility =
    DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Resource);
pub(crate) const STAGING: DescriptorHeapVisibility =
    DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Resource);

/// Ranges of all uses may begin at multiples of this, on every device.
const CELL: u64 = 256;

/// The largest heap that work reads in these tests.
const MOST: u32 = 1 << 17;

/// The descriptor heap of the fixture's device.
pub(crate) type RawHeap<F> = <<F as Fixture>::Device as DescriptorDevice>::DescriptorHeap;
pub(crate) type Descriptor<'a, F> = <<F as Fixture>::Device as DescriptorDevice>::Descriptor<'a>;
pub(crate) type Sampler<F> = <<F as Fixture>::Device as DescriptorDevice>::Sampler;

/// A device with descriptors, and what reads through them.
pub(crate) struct Rig<'g, F: DescriptorFixture> {
    pub(crate) gpu: &'g Gpu<F>,
    pub(crate) allocator: Arc<Allocator<F::Device>>,
    pub(crate) reader: F::Reader,
}

impl<'g, F: DescriptorFixture> Rig<'g, F> {
    pub(crate) fn new(gpu: &'g Gpu<F>) -> Self {
        let mut desc = AllocatorDesc::default();
        desc.on_leak = LeakHandler::Ignore;
        let allocator = Arc::new(Allocator::new(gpu.device().clone(), desc).unwrap());
        let most = gpu.device().descriptor_limits().resources.max_capacity.min(MOST);
        Self { gpu, allocator, reader: F::Reader::new(gpu.device(), most).unwrap() }
    }

    /// Runs a test where the device has what it is about.
    pub(crate) fn run<R: Into<Outcome>>(gpu: &'g Gpu<F>, test: impl FnOnce(&Rig<'g, F>) -> R) -> Outcome {
        if gpu.device().descriptor_limits().resources.max_capacity == 0 {
            return Outcome::DoesNotApply("the device has no descriptors that shaders index");
        }
        test(&Self::new(gpu)).into()
    }

    pub(crate) fn device(&self) -> &F::Device {
        self.gpu.device()
    }

    /// The most descriptors of a shader-visible heap that are not the driver's.
    pub(crate) fn usable(&self, kind: ShaderVisibleHeapType) -> u32 {
        let limits = self.device().descriptor_limits();
        let limits = limits.shader_visible(kind);
        limits.max_capacity.saturating_sub(limits.reserved)
    }

    /// The capacity of a heap with this number of descriptors, beside those that the driver reserves.
    fn capacity(&self, usage: DescriptorHeapVisibility, usable: u32) -> u32 {
        match usage {
            DescriptorHeapVisibility::CpuOnly(_) => usable,
            DescriptorHeapVisibility::ShaderVisible(kind) => {
                usable + self.device().descriptor_limits().shader_visible(kind).reserved
            }
        }
    }

    /// A heap exactly as described, with its memory.
    pub(crate) fn try_heap(&self, desc: DescriptorHeapDesc) -> Result<Heap<'_, 'g, F>, DeviceError> {
        let memory = self.device().descriptor_heap_buffer(&desc).and_then(|info| {
            let mut wanted = AllocationOptions::new(MemoryUsage::DeviceUpload);
            wanted.required = MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT;
            // A heap that cannot be made may be too large for a buffer as well: the device says why.
            MappedBuffer::new(&self.allocator, &info, &wanted).ok()
        });
        let handle = memory.as_ref().map(MappedBuffer::handle);
        let stands_in =
            memory.as_ref().zip(handle.as_ref()).map(|(memory, buffer)| DescriptorHeapBacking::<F::Device> {
                buffer,
                address: memory.address(),
            });
        // SAFETY: the buffer is as the device described it, coherent and mapped, and goes after the heap.
        let raw = unsafe { self.device().create_descriptor_heap(&desc, stands_in) }?;
        Ok(Heap { rig: self, raw: Some(raw), desc, memory })
    }

    /// A heap with this number of descriptors, beside those that the driver reserves.
    pub(crate) fn heap(&self, usage: DescriptorHeapVisibility, usable: u32) -> Heap<'_, 'g, F> {
        let desc = DescriptorHeapDesc { usage, capacity: self.capacity(usage, usable) };
        self.try_heap(desc).unwrap_or_else(|error| panic!("{desc:?}: {error}"))
    }

    /// A buffer of this number of cells, which hold `first`, `first + 1` and so on.
    pub(crate) fn cells(&self, first: u32, count: u32) -> Cells<'_, 'g, F> {
        let mut bytes = vec![0xEE; (u64::from(count) * CELL) as usize];
        for (cell, number) in bytes.chunks_exact_mut(CELL as usize).zip(first..) {
            cell[..4].copy_from_slice(&number.to_ne_bytes());
        }
        let buffer = self.written(&bytes);
        Cells { rig: self, handle: buffer.handle(), buffer, first, count }
    }

    /// A buffer that the CPU has written and work reads.
    pub(crate) fn written(&self, bytes: &[u8]) -> MappedBuffer<F::Device> {
        let wanted = AllocationOptions::new(MemoryUsage::Upload);
        let info = self.reader.buffer_info(bytes.len() as u64, false);
        let buffer = MappedBuffer::new(&self.allocator, &info, &wanted).unwrap();
        buffer.write(0, bytes).unwrap();
        buffer
    }

    /// Submits reads of whole lists of indices, each through one heap.
    pub(crate) fn submit<'r>(
        &'r self,
        waits: &[TimelinePoint],
        reads: &[(&'r Heap<'r, 'g, F>, &[u32])],
    ) -> Reading<'r, 'g, F> {
        let reads: Vec<_> = reads.iter().map(|&(heap, list)| (heap.raw(), list)).collect();
        self.submit_raw(waits, &reads)
    }

    /// Reads through raw heaps of the API, which live until the work is done.
    pub(crate) fn submit_raw<'r>(
        &'r self,
        waits: &[TimelinePoint],
        reads: &[(&RawHeap<F>, &[u32])],
    ) -> Reading<'r, 'g, F> {
        // Parts begin where all devices can begin.
        let mut indices: Vec<u8> = Vec::new();
        let mut parts = Vec::new();
        for &(heap, list) in reads {
            indices.resize(indices.len().next_multiple_of(CELL as usize), 0);
            parts.push((heap, indices.len() as u64, u32::try_from(list.len()).unwrap()));
            indices.extend(list.iter().flat_map(|index| index.to_ne_bytes()));
        }
        let (size, indices) = (indices.len() as u64, self.written(&indices));
        let wanted = AllocationOptions::new(MemoryUsage::GpuOnly);
        let results = self.allocator.create_buffer(&self.reader.buffer_info(size, true), &wanted).unwrap();
        let handle = indices.handle();
        let submitted: Vec<_> = parts
            .iter()
            .map(|&(heap, offset, count)| Read {
                heap,
                indices: &handle,
                indices_offset: offset,
                count,
                to: results.handle(),
                to_offset: offset,
            })
            .collect();
        // SAFETY: the buffers and heaps wait for the work before they go; see `settle`.
        let value = unsafe { self.reader.submit(FIRST, waits, &submitted) }.unwrap();
        let point = self.gpu.submitted(FIRST, value);
        let parts = parts.into_iter().map(|(_, offset, count)| (offset as usize, count as usize)).collect();
        Reading { rig: self, results: Some(results), size, _indices: indices, parts, point }
    }

    /// Returns the values that work reads through these descriptors.
    pub(crate) fn read(&self, heap: &Heap<'_, 'g, F>, indices: &[u32]) -> Vec<u32> {
        self.submit(&[], &[(heap, indices)]).results().remove(0)
    }
}

impl<F: DescriptorFixture> Drop for Rig<'_, F> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.gpu.settle();
            self.allocator.check_invariants();
            assert_eq!(self.allocator.statistics().allocations, 0, "the test gave everything back");
        }
    }
}

/// A heap; destroyed when it goes.
pub(crate) struct Heap<'r, 'g, F: DescriptorFixture> {
    rig: &'r Rig<'g, F>,
    raw: Option<RawHeap<F>>,
    pub(crate) desc: DescriptorHeapDesc,
    /// Goes after the heap.
    pub(crate) memory: Option<MappedBuffer<F::Device>>,
}

impl<F: DescriptorFixture> Heap<'_, '_, F> {
    pub(crate) fn raw(&self) -> &RawHeap<F> {
        self.raw.as_ref().unwrap()
    }

    pub(crate) fn write(&self, at: u32, descriptor: &Descriptor<'_, F>) {
        // SAFETY: tests write slots that no work reads and no other thread touches, but for those that are about
        // this, on a device that says so.
        unsafe { self.rig.device().write_descriptor(self.raw(), at, descriptor) };
    }

    pub(crate) fn write_null(&self, at: core::ops::Range<u32>) {
        // SAFETY: as above.
        unsafe { self.rig.device().write_null_descriptors(self.raw(), at) };
    }

    pub(crate) fn poison(&self, at: core::ops::Range<u32>) {
        // SAFETY: as above.
        unsafe { self.rig.device().poison_descriptors(self.raw(), at) };
    }

    /// Copies descriptors from here.
    pub(crate) fn copy_to(&self, from_at: u32, to: &Self, to_at: u32, count: u32) {
        // SAFETY: as above; the tests copy what they have written, from staging heaps, between those of a kind.
        unsafe { self.rig.device().copy_descriptors(self.raw(), from_at, to.raw(), to_at, count) };
    }

    /// Gives it up without waiting for work.
    pub(crate) fn disown(mut self) -> RawHeap<F> {
        self.raw.take().unwrap()
    }
}

impl<F: DescriptorFixture> Drop for Heap<'_, '_, F> {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        self.rig.gpu.settle();
        // SAFETY: all work is done, and no other code has it.
        unsafe { self.rig.device().destroy_descriptor_heap(raw) };
    }
}

/// A buffer of cells that descriptors can name.
pub(crate) struct Cells<'r, 'g, F: DescriptorFixture> {
    rig: &'r Rig<'g, F>,
    pub(crate) buffer: MappedBuffer<F::Device>,
    handle: <F::Device as BufferDevice>::Buffer,
    first: u32,
    count: u32,
}

impl<F: DescriptorFixture> Cells<'_, '_, F> {
    /// A descriptor of a cell.
    pub(crate) fn descriptor(&self, cell: u32) -> Descriptor<'_, F> {
        assert!(cell < self.count);
        let start = u64::from(cell) * CELL;
        // SAFETY: the cell lies in the buffer, which the descriptor borrows.
        unsafe { self.rig.device().buffer_descriptor(&self.handle, start..start + 16, BufferUse::ReadOnly) }
    }

    /// Returns the value that work reads through such a descriptor.
    pub(crate) fn number(&self, cell: u32) -> u32 {
        self.first + cell
    }
}

impl<F: DescriptorFixture> Drop for Cells<'_, '_, F> {
    fn drop(&mut self) {
        self.rig.gpu.settle();
    }
}

/// Work in flight, and the values that it reads.
pub(crate) struct Reading<'r, 'g, F: DescriptorFixture> {
    rig: &'r Rig<'g, F>,
    results: Option<RawBuffer<F::Device>>,
    size: u64,
    _indices: MappedBuffer<F::Device>,
    /// Where each list begins, in bytes, and how long it is.
    parts: Vec<(usize, usize)>,
    pub(crate) point: TimelinePoint,
}

impl<F: DescriptorFixture> Reading<'_, '_, F> {
    /// Waits, and says what was read, list by list.
    pub(crate) fn results(&self) -> Vec<Vec<u32>> {
        self.rig.gpu.wait(self.point);
        let mut transfer = Transfer::new(&self.rig.allocator, FIRST, 1 << 20).unwrap().through_the_queue();
        let mut bytes = vec![0; self.size as usize];
        transfer.download_from(self.results.as_ref().unwrap(), 0, &mut bytes).unwrap();
        drop(transfer);
        let numbers =
            |bytes: &[u8]| bytes.chunks_exact(4).map(|n| u32::from_ne_bytes(n.try_into().unwrap())).collect();
        self.parts.iter().map(|&(start, count)| numbers(&bytes[start..start + 4 * count])).collect()
    }
}

impl<F: DescriptorFixture> Drop for Reading<'_, '_, F> {
    fn drop(&mut self) {
        self.rig.gpu.settle();
        let _ = self.rig.allocator.destroy_buffer(self.results.take().unwrap());
    }
}

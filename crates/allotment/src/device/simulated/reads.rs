//! Queue work that reads through descriptors: the simulated GPU's replacement for a shader.

use core::ops::Range;
use std::sync::Arc;

use super::descriptors::{Found, HeapInUse};
use super::memory::MemoryObject;
use super::names::{Name, Named, NamedBytes, Names};
use super::queues::Task;
use super::resources::InUse;
use super::{SimulatedBuffer, SimulatedDescriptorHeap, SimulatedGpu, ValidationErrors};
use crate::device::{
    CopyError, DescriptorHeapVisibility, DeviceError, MemoryProperties, QueueIndex, TimelinePoint,
    TimelineValue,
};

/// A series of reads through descriptors.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRead<'a> {
    /// A shader-visible descriptor heap.
    pub heap: &'a SimulatedDescriptorHeap,
    /// 32-bit numbers, one per read: the index of a descriptor in the heap.
    pub indices: &'a SimulatedBuffer,
    /// Offset of the first index in bytes.
    pub indices_offset: u64,
    /// The number of indices.
    pub count: u32,
    /// The destination: four bytes per read, in the order of the indices.
    pub to: &'a SimulatedBuffer,
    /// Offset of the first byte that is written.
    pub to_offset: u64,
}

/// A [`SimulatedRead`] on a queue. Offsets are relative to the memory.
#[derive(Debug)]
pub(super) struct DescriptorRead {
    heap: HeapInUse,
    indices: InUse,
    indices_offset: u64,
    count: u32,
    to: InUse,
    to_offset: u64,
}

impl DescriptorRead {
    pub(super) fn memories(&self) -> [&Arc<MemoryObject>; 2] {
        [self.indices.memory(), self.to.memory()]
    }

    /// Returns the ranges that are read and written, without what the descriptors name.
    pub(super) fn accesses(&self) -> [(&Arc<MemoryObject>, Range<u64>); 2] {
        let range = |first: u64| first..first + 4 * u64::from(self.count);
        [(self.indices.memory(), range(self.indices_offset)), (self.to.memory(), range(self.to_offset))]
    }

    /// Executes the reads. Indices and descriptors are read only now. Calls `reads` with what descriptors name.
    pub(super) fn run(
        &self,
        names: &Names,
        validation_errors: &ValidationErrors,
        reads: impl Fn(&MemoryObject, Range<u64>),
    ) {
        for i in (0..u64::from(self.count)).map(|i| 4 * i) {
            // The index is read when the work runs, since earlier work on the queue may have written it.
            let mut index = [0; 4];
            self.indices.memory().read(self.indices_offset + i, &mut index);
            let index = u32::from_ne_bytes(index);
            // An error does not stop the others: a shader would go on as well, and tests compare all results.
            let bytes = read(self.heap.slots().find(index), names, &reads).unwrap_or_else(|wrong| {
                validation_errors
                    .add(format!("read: descriptor {index} of {:?} {wrong}", self.heap.slots().desc));
                SimulatedGpu::NOT_READ.to_ne_bytes()
            });
            self.to.memory().write(self.to_offset + i, &bytes);
        }
    }
}

/// Returns the first 4 bytes of what a descriptor names, or the validation error.
fn read(
    found: Found,
    names: &Names,
    reads: &impl Fn(&MemoryObject, Range<u64>),
) -> Result<[u8; 4], &'static str> {
    match found {
        Found::Null => Ok([0; 4]),
        Found::Invalid(wrong) => Err(wrong),
        Found::Sampler(name, mark) => {
            // A null sampler has no name and is always valid.
            if name.is_some_and(|name| names.get(name).is_none()) {
                return Err("names a destroyed sampler");
            }
            Ok(mark.to_ne_bytes())
        }
        Found::Bytes { name, offset, size, .. } => {
            let NamedBytes { memory, offset: start, size: whole, .. } = named_bytes(name, names)?;
            let mut bytes = [0; 4];
            // Fewer if an image has fewer. A written descriptor's range lies in its resource.
            let there = size.min(whole.saturating_sub(offset)).min(4) as usize;
            // The name's offset is where the resource starts in its memory, the descriptor's is relative to that.
            reads(&memory, start + offset..start + offset + there as u64);
            memory.read(start + offset, &mut bytes[..there]);
            Ok(bytes)
        }
    }
}

/// Returns the bytes of a resource that a descriptor names, or the validation error.
pub(super) fn named_bytes(name: Name, names: &Names) -> Result<NamedBytes, &'static str> {
    let Some(Named::Bytes(bytes)) = names.get(name) else {
        return Err("names a destroyed resource");
    };
    if bytes.memory.is_freed() {
        return Err("names freed memory");
    }
    if bytes.memory.properties().contains(MemoryProperties::DEVICE_WRITE_ONLY) {
        return Err("names memory that queues can only write");
    }
    Ok(bytes)
}

impl SimulatedGpu {
    /// The value that [`submit_reads`](Self::submit_reads) writes if it cannot read.
    pub const NOT_READ: u32 = 0xDEAD_DEAD;

    /// Submits work that reads through descriptors, as a shader does: the counterpart of
    /// [`submit`](crate::device::QueueDevice::submit), on the same timeline. For each index it writes the first 4 bytes
    /// of what the descriptor names; zeros for a null descriptor, and a sampler's [mark](Self::sampler_mark).
    ///
    /// Indices and descriptors are read when the work runs. An invalid descriptor is a validation error, which
    /// begins with `read: `, and [`NOT_READ`](Self::NOT_READ) is written.
    ///
    /// # Errors
    ///
    /// The errors of [`submit`](crate::device::QueueDevice::submit).
    ///
    /// # Safety
    ///
    /// The ranges lie in their buffers. The heap, the buffers and what the descriptors name live until the
    /// returned value is reached, and nothing else writes to them, or reads what is written, in that time.
    pub unsafe fn submit_reads(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        reads: &[SimulatedRead<'_>],
    ) -> Result<TimelineValue, DeviceError> {
        self.shared.faults.check()?;
        let tasks = reads.iter().map(|read| match check_read(read) {
            Ok(()) => {
                let (indices, to) = (&read.indices.range, &read.to.range);
                Ok(Task::Read(DescriptorRead {
                    heap: HeapInUse::new(read.heap),
                    indices: InUse::new(indices),
                    indices_offset: indices.offset + read.indices_offset,
                    count: read.count,
                    to: InUse::new(to),
                    to_offset: to.offset + read.to_offset,
                }))
            }
            Err(wrong) => {
                self.report(format!("submit_reads: {read:?}: {wrong}"));
                Err(wrong)
            }
        });
        self.shared.queues.submit(queue, waits, tasks)
    }
}

/// Checks reads that are being submitted.
fn check_read(read: &SimulatedRead<'_>) -> Result<(), DeviceError> {
    let bytes = Some(4 * u64::from(read.count));
    check_heap(read.heap)?;
    check_buffer(READS, read.indices, read.indices_offset, bytes)?;
    check_buffer(WRITES, read.to, read.to_offset, bytes)
}

/// Checks a heap that work reads.
pub(super) fn check_heap(heap: &SimulatedDescriptorHeap) -> Result<(), DeviceError> {
    if matches!(heap.slots.desc.usage, DescriptorHeapVisibility::CpuOnly(_)) {
        Err(DeviceError::NotShaderVisible)
    } else if heap.slots.is_destroyed() {
        Err(DeviceError::Destroyed)
    } else {
        Ok(())
    }
}

/// How work accesses a buffer: the memory in which it cannot, and the error there.
type Access = (MemoryProperties, CopyError);

pub(super) const READS: Access = (MemoryProperties::DEVICE_WRITE_ONLY, CopyError::QueueCannotRead);
pub(super) const WRITES: Access = (MemoryProperties::DEVICE_READ_ONLY, CopyError::QueueCannotWrite);

/// Checks memory that work accesses.
pub(super) fn check_memory((never, wrong): Access, memory: &MemoryObject) -> Result<(), DeviceError> {
    if memory.is_freed() {
        Err(DeviceError::Destroyed)
    } else if memory.properties().contains(never) {
        Err(wrong.into())
    } else {
        Ok(())
    }
}

/// Checks `size` bytes of a buffer that work accesses. A size of `None` is more than buffers have.
pub(super) fn check_buffer(
    access: Access,
    buffer: &SimulatedBuffer,
    offset: u64,
    size: Option<u64>,
) -> Result<(), DeviceError> {
    let range = &buffer.range;
    range.check_alive()?;
    range.check(offset, size)?;
    check_memory(access, range.memory())
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::device::simulated::{Profile, SimulatedMemory};
    use crate::device::{
        BufferDesc, BufferDevice as _, BufferUse, DescriptorDevice, DescriptorHeapDesc, MemoryDesc,
        MemoryDevice as _, MemoryTypeIndex, QueueDevice as _, SamplerDesc, ShaderVisibleHeapType,
    };

    struct Rig {
        device: SimulatedGpu,
        memory: SimulatedMemory,
        /// The indices 0 to 7, at byte 0; what is named, at byte 256; results, at byte 512.
        buffer: SimulatedBuffer,
    }

    impl Rig {
        fn new() -> Self {
            let device = SimulatedGpu::new(Profile::named("lavapipe").unwrap());
            let memory = device.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(0), 4096)).unwrap();
            // SAFETY: the memory is live and large enough.
            let buffer = unsafe { device.create_buffer(&BufferDesc::new(4096), memory, 0) }.unwrap();
            let object = buffer.range.memory();
            for i in 0u32..8 {
                object.write(u64::from(4 * i), &i.to_ne_bytes());
                object.write(u64::from(256 + 4 * i), &(100 + i).to_ne_bytes());
            }
            Self { device, memory, buffer }
        }

        fn heap(&self, kind: ShaderVisibleHeapType) -> SimulatedDescriptorHeap {
            let desc =
                DescriptorHeapDesc { usage: DescriptorHeapVisibility::ShaderVisible(kind), capacity: 4 };
            // SAFETY: the device has no buffers for heaps.
            unsafe { self.device.create_descriptor_heap(&desc, None) }.unwrap()
        }

        /// Has slot `at` name the number `100 + number`.
        fn write(&self, heap: &SimulatedDescriptorHeap, at: u32, number: u64) {
            let first = 256 + 4 * number;
            // SAFETY: the buffer is live, the range lies in it.
            let descriptor =
                unsafe { self.device.buffer_descriptor(&self.buffer, first..first + 4, BufferUse::ReadOnly) };
            // SAFETY: the slot is one of the heap; whether a queue reads it is the subject of some tests.
            unsafe { self.device.write_descriptor(heap, at, &descriptor) };
        }

        fn submit(&self, heap: &SimulatedDescriptorHeap) -> TimelinePoint {
            let (indices, to) = (&self.buffer, &self.buffer);
            let read = SimulatedRead { heap, indices, indices_offset: 0, count: 5, to, to_offset: 512 };
            // SAFETY: the ranges lie in the buffer, which lives on.
            let value = unsafe { self.device.submit_reads(QueueIndex(0), &[], &[read]) }.unwrap();
            TimelinePoint { queue: QueueIndex(0), value }
        }

        fn results(&self, point: TimelinePoint) -> [u32; 5] {
            assert_eq!(self.device.wait(point, Duration::from_secs(10)), Ok(()));
            [0, 1, 2, 3, 4].map(|i| {
                let mut bytes = [0; 4];
                self.buffer.range.memory().read(512 + 4 * i, &mut bytes);
                u32::from_ne_bytes(bytes)
            })
        }
    }

    #[test]
    fn descriptors_are_looked_at_when_the_work_runs() {
        let rig = Rig::new();
        let heap = rig.heap(ShaderVisibleHeapType::Resource);
        rig.write(&heap, 0, 0);
        rig.device.pause_queues();
        let point = rig.submit(&heap);
        rig.write(&heap, 0, 7);
        // SAFETY: they are slots of the heap.
        unsafe { rig.device.write_null_descriptors(&heap, 1..2) };
        // SAFETY: as above.
        unsafe { rig.device.poison_descriptors(&heap, 2..3) };
        rig.device.resume_queues();
        let missing = SimulatedGpu::NOT_READ;
        assert_eq!(rig.results(point), [107, 0, missing, missing, missing]);
        let validation_errors = rig.device.validation_errors();
        assert_eq!(
            validation_errors.len(),
            3,
            "poison, never written, beyond the heap: {validation_errors:?}"
        );
        assert!(validation_errors.iter().all(|error| error.starts_with("read: ")));
    }

    #[test]
    fn samplers_are_told_apart() {
        let rig = Rig::new();
        let heap = rig.heap(ShaderVisibleHeapType::Sampler);
        let desc = SamplerDesc { max_anisotropy: 4, ..SamplerDesc::default() };
        let sampler = rig.device.create_sampler(&desc).unwrap();
        // SAFETY: the sampler and the heap are of this device.
        let written = unsafe { rig.device.sampler_descriptor(&sampler) };
        // SAFETY: they are slots of the heap, and no queue reads it.
        unsafe { rig.device.write_null_descriptors(&heap, 0..4) };
        // SAFETY: as above.
        unsafe { rig.device.write_descriptor(&heap, 1, &written) };
        let of_nothing = SimulatedGpu::sampler_mark(&SamplerDesc::default());
        let found = rig.results(rig.submit(&heap));
        assert_eq!(found[..3], [of_nothing, SimulatedGpu::sampler_mark(&desc), of_nothing]);
        // SAFETY: no queue reads through it.
        unsafe { rig.device.destroy_sampler(sampler) };
        assert_eq!(rig.results(rig.submit(&heap))[1], SimulatedGpu::NOT_READ, "it was destroyed");
    }

    #[test]
    fn what_was_destroyed_or_freed_is_not_read() {
        for frees in [false, true] {
            let rig = Rig::new();
            let heap = rig.heap(ShaderVisibleHeapType::Resource);
            let memory = rig.device.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(0), 4096)).unwrap();
            // SAFETY: the memory is live and large enough.
            let other = unsafe { rig.device.create_buffer(&BufferDesc::new(64), memory, 0) }.unwrap();
            // SAFETY: the buffer is live, the range lies in it.
            let named = unsafe { rig.device.buffer_descriptor(&other, 0..64, BufferUse::ReadWrite) };
            // SAFETY: it is a slot of the heap.
            unsafe { rig.device.write_descriptor(&heap, 0, &named) };
            if frees {
                // SAFETY: live; what is read through descriptors then is what the test is about.
                unsafe { rig.device.free_memory(memory) };
            } else {
                // SAFETY: as above.
                unsafe { rig.device.destroy_buffer(other) };
                // The same slot of the table of names.
                // SAFETY: the memory is live and large enough.
                unsafe { rig.device.create_buffer(&BufferDesc::new(64), rig.memory, 0) }.unwrap();
            }
            assert_eq!(rig.results(rig.submit(&heap))[0], SimulatedGpu::NOT_READ);
        }
    }

    #[test]
    fn a_heap_that_is_read_is_not_destroyed_in_silence() {
        let rig = Rig::new();
        let heap = rig.heap(ShaderVisibleHeapType::Resource);
        (0..4).for_each(|at| rig.write(&heap, at, 1));
        rig.device.pause_queues();
        let point = rig.submit(&heap);
        // SAFETY: that a queue uses it is what the device shall say.
        unsafe { rig.device.destroy_descriptor_heap(heap) };
        assert!(rig.device.validation_errors()[0].starts_with("destroy_descriptor_heap: "));
        rig.device.resume_queues();
        assert_eq!(rig.results(point)[..4], [101; 4], "its bytes live as long as they are read");
        assert_eq!(rig.device.usage().descriptor_heaps, 0);
    }
}

//! Reserved buffers: addresses, to ranges of which memory is bound.
//!
//! ```text
//!   the addresses    0 ──── 1 ──── 2 ──── 3 ──── 4 ──── 5      pages, of the profile's granularity
//!                    │      │      ╳      │      ╳
//!   memory objects   a, 0   a, 1          b, 4                 the bytes are there
//! ```
//!
//! A submission that touches a page without memory, or with memory that was freed, is a validation error; so is a binding
//! that replaces what a queue may still be using, one call with the same page twice, and freeing memory that is still bound.

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use allotment_suballoc::Alignment;

use super::memory::{Memories, MemoryObject};
use super::{SimulatedBuffer, SimulatedGpu, SimulatedMemory};
use crate::device::{BufferDesc, DescriptionLimit, DeviceError, RangeBinding, Requirements, ResourceKind};
use crate::sync::locked;

/// What is bound to the addresses of a reserved buffer.
#[derive(Debug)]
pub(super) struct RangeTable {
    page: Alignment,
    /// By the page's number.
    pages: Mutex<BTreeMap<u64, (Arc<MemoryObject>, u64)>>,
}

/// Where bytes are.
#[derive(Debug)]
pub(super) enum Located {
    /// In the object itself.
    Here(u64),
    /// In the memory that is bound there.
    Bound(Arc<MemoryObject>, u64),
    /// No memory is bound there.
    Nowhere,
}

impl RangeTable {
    /// Returns where the bytes from `offset` on are, and how many of `size` are together.
    pub(super) fn locate(&self, offset: u64, size: u64) -> (Located, u64) {
        let page = self.page.get();
        let within = offset % page;
        let found = locked(&self.pages).get(&(offset / page)).cloned();
        let located = found.map_or(Located::Nowhere, |(memory, at)| Located::Bound(memory, at + within));
        (located, size.min(page - within))
    }

    /// Binds memory to the pages of a range, or takes it away.
    fn bind(&self, range: Range<u64>, memory: Option<(&Arc<MemoryObject>, u64)>) {
        let size = self.page.get();
        let mut pages = locked(&self.pages);
        for page in range.start / size..range.end / size {
            let at = page * size - range.start;
            let before = match memory {
                Some((memory, offset)) => {
                    memory.bound_pages.fetch_add(1, Relaxed);
                    pages.insert(page, (Arc::clone(memory), offset + at))
                }
                None => pages.remove(&page),
            };
            before.into_iter().for_each(|(memory, _)| _ = memory.bound_pages.fetch_sub(1, Relaxed));
        }
    }

    /// Returns the pages of a range to which memory is bound, as ranges of bytes.
    fn bound(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let size = self.page.get();
        let pages = locked(&self.pages);
        let found = pages.range(range.start / size..range.end.div_ceil(size));
        found.map(|(page, _)| page * size..(page + 1) * size).collect()
    }

    /// Takes all memory away, since the buffer is destroyed.
    pub(super) fn clear(&self) {
        for (memory, _) in core::mem::take(&mut *locked(&self.pages)).into_values() {
            memory.bound_pages.fetch_sub(1, Relaxed);
        }
    }
}

impl MemoryObject {
    /// Returns the validation error of an access to addresses without memory.
    pub(super) fn unbound(&self, range: &Range<u64>) -> Option<String> {
        let ranges = self.ranges.as_ref()?;
        if range.is_empty() {
            return None;
        }
        let (size, pages) = (ranges.page.get(), locked(&ranges.pages));
        let wrong = (range.start / size..range.end.div_ceil(size)).find_map(|page| match pages.get(&page) {
            None => Some((page, "to which no memory is bound")),
            Some((memory, _)) if memory.is_freed() => Some((page, "whose memory was freed")),
            Some(_) => None,
        });
        wrong.map(|(page, what)| {
            let start = page * size;
            format!("reserved: a submission uses the bytes {range:?} of a buffer, {what} at {start}")
        })
    }
}

impl SimulatedGpu {
    /// Returns what has to be bound to a reserved buffer; an error where the device has none.
    fn reserved_requirements(&self, desc: &BufferDesc) -> Result<Requirements, DeviceError> {
        let page = self.shared.profile.reserved_buffers.ok_or(DeviceError::Unsupported)?;
        DescriptionLimit::check_buffer(desc.size, u64::MAX, None)?;
        let whole = Requirements::new(page.align_up(desc.size)).with_alignment(page);
        Ok(self.requirements(ResourceKind::Buffer, whole))
    }

    pub(super) fn reserved_buffer(
        &self,
        desc: &BufferDesc,
    ) -> Result<(SimulatedBuffer, Requirements), DeviceError> {
        self.shared.faults.check()?;
        let requirements = self.reserved_requirements(desc)?;
        let table = RangeTable { page: requirements.alignment, pages: Mutex::default() };
        let addresses = Memories::addresses(requirements.size, table).ok_or(DeviceError::OutOfHostMemory)?;
        let buffer = self.buffer_of_addresses(desc, Arc::new(addresses));
        Ok((buffer, requirements))
    }

    pub(super) fn bind_to_reserved(
        &self,
        buffer: &SimulatedBuffer,
        bindings: &[RangeBinding<SimulatedMemory>],
    ) -> Result<(), DeviceError> {
        self.shared.memories.count_bind_call();
        self.shared.faults.check()?;
        let addresses = buffer.range.memory();
        let Some(table) = &addresses.ranges else {
            self.report("bind_ranges: the buffer is not reserved");
            return Err(DeviceError::Unsupported);
        };
        let mut checked = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let wrong = |wrong: DeviceError| {
                self.report(format!("bind_ranges: {binding:?}: {wrong}"));
                wrong
            };
            checked.push(self.check_binding(buffer, table, binding).map_err(wrong)?);
            let range = binding.offset..binding.offset + binding.size;
            if table.bound(&range).iter().any(|page| self.shared.queues.may_use(addresses, page)) {
                self.report(format!("bind_ranges: {range:?} may still be in use by a queue"));
            }
        }
        self.check_overlaps(bindings);
        // First what is taken away: the same memory may be bound elsewhere.
        let taken_first = || checked.iter().zip(bindings);
        for (_, binding) in taken_first().filter(|(memory, _)| memory.is_none()) {
            table.bind(binding.offset..binding.offset + binding.size, None);
        }
        for (memory, binding) in taken_first() {
            if let (Some(memory), Some((_, offset))) = (memory, binding.memory) {
                table.bind(binding.offset..binding.offset + binding.size, Some((memory, offset)));
            }
        }
        Ok(())
    }

    /// Reports pages of addresses, or of memory, that are in two of these bindings, whose order no driver promises.
    fn check_overlaps(&self, bindings: &[RangeBinding<SimulatedMemory>]) {
        for (at, first) in bindings.iter().enumerate() {
            let meets = |a: u64, b: u64, second: &RangeBinding<_>| a < b + second.size && b < a + first.size;
            let wrong = bindings[at + 1..].iter().find(|second| {
                let same_memory = first
                    .memory
                    .zip(second.memory)
                    .is_some_and(|((memory, a), (other, b))| memory == other && meets(a, b, second));
                same_memory || meets(first.offset, second.offset, second)
            });
            if let Some(second) = wrong {
                self.report(format!("bind_ranges: {first:?} and {second:?} overlap"));
            }
        }
    }

    fn check_binding(
        &self,
        buffer: &SimulatedBuffer,
        table: &RangeTable,
        binding: &RangeBinding<SimulatedMemory>,
    ) -> Result<Option<Arc<MemoryObject>>, DeviceError> {
        let &RangeBinding { offset, size, memory } = binding;
        let aligned = |offset: u64| {
            let alignment = table.page;
            let wrong = DeviceError::Misaligned { offset, alignment: alignment.get() };
            if alignment.is_aligned(offset) { Ok(()) } else { Err(wrong) }
        };
        buffer.range.check_alive()?;
        aligned(offset)?;
        aligned(size)?;
        let within = |available: u64, offset: u64| {
            let inside = offset.checked_add(size).is_some_and(|end| end <= available);
            if inside { Ok(()) } else { Err(DeviceError::OutOfRange { offset, size, available }) }
        };
        within(buffer.range.memory().size(), offset)?;
        let Some((memory, at)) = memory else { return Ok(None) };
        let object = self.object(memory, "bind_ranges")?;
        aligned(at)?;
        within(object.size(), at)?;
        let allowed = self.shared.profile.buffers;
        if !allowed.contains(object.memory_type()) {
            return Err(self.shared.properties.wrong_memory_type(object.memory_type(), allowed));
        }
        Ok(Some(object))
    }
}

impl SimulatedBuffer {
    /// Takes the memory away from a reserved buffer that is destroyed.
    pub(super) fn unbind_ranges(&self) {
        if let Some(table) = &self.range.memory().ranges {
            table.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::device::simulated::Profile;
    use crate::device::{
        BufferCopy, BufferDevice as _, MemoryDesc, MemoryDevice as _, MemoryTypeIndex, QueueDevice as _,
        QueueIndex, Submission, TimelinePoint,
    };

    const PAGE: u64 = 64 << 10;

    struct Rig {
        device: SimulatedGpu,
        reserved: SimulatedBuffer,
        memory: SimulatedMemory,
    }

    impl Rig {
        /// A buffer of eight pages, and memory of four.
        fn new() -> Self {
            let device = SimulatedGpu::new(Profile::named("lavapipe").unwrap());
            let (reserved, _) = device.create_reserved_buffer(&BufferDesc::new(8 * PAGE)).unwrap();
            let memory = device.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(0), 4 * PAGE)).unwrap();
            Self { device, reserved, memory }
        }

        fn bind(&self, at: u64, from: Option<u64>) -> Result<(), DeviceError> {
            let memory = from.map(|page| (self.memory, page * PAGE));
            let binding = RangeBinding { offset: at * PAGE, size: PAGE, memory };
            // SAFETY: live, and whether the ranges are right is the subject of the tests.
            unsafe { self.device.bind_ranges(&self.reserved, &[binding]) }
        }

        /// Copies a few bytes in the buffer.
        fn copy(&self, from_offset: u64, to_offset: u64, size: u64) -> TimelinePoint {
            let (from, to) = (&self.reserved, &self.reserved);
            let copies = [BufferCopy { from, from_offset, to, to_offset, size }];
            // SAFETY: live, and whether the bytes have memory is the subject of the tests.
            let value = unsafe {
                let submission = Submission { copies: &copies, ..Submission::default() };
                self.device.submit(QueueIndex(0), &submission)
            };
            TimelinePoint { queue: QueueIndex(0), value: value.unwrap() }
        }

        fn copied(&self, from: u64, to: u64, size: u64) {
            self.device.wait(self.copy(from, to, size), Duration::from_secs(10)).unwrap();
        }

        fn memory_object(&self) -> Arc<MemoryObject> {
            self.device.object(self.memory, "test").unwrap()
        }
    }

    #[test]
    fn bytes_stay_with_the_memory_that_is_bound_elsewhere() {
        let rig = Rig::new();
        rig.bind(5, Some(3)).unwrap();
        rig.bind(6, Some(0)).unwrap();
        rig.memory_object().write(4 * PAGE - 4, &[1, 2, 3, 4]);
        rig.memory_object().write(0, &[5, 6, 7, 8]);
        // Over the boundary of two pages that are not neighbours in memory.
        rig.copied(6 * PAGE - 4, 5 * PAGE, 8);
        let mut found = [0; 8];
        rig.memory_object().read(3 * PAGE, &mut found);
        assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8]);
        rig.bind(5, None).unwrap();
        rig.bind(1, Some(3)).unwrap();
        rig.bind(2, Some(1)).unwrap();
        rig.copied(PAGE, 2 * PAGE, 8);
        rig.memory_object().read(PAGE, &mut found);
        assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(rig.device.validation_errors(), [""; 0]);
        assert_eq!(rig.device.usage().bind_calls, 5);
    }

    #[test]
    fn what_has_no_memory_is_not_used_in_silence() {
        let rig = Rig::new();
        rig.bind(0, Some(0)).unwrap();
        rig.copied(0, PAGE - 4, 8);
        rig.bind(0, None).unwrap();
        rig.copied(0, 8, 8);
        rig.bind(0, Some(0)).unwrap();
        // SAFETY: live; that it is bound is what the device shall say.
        unsafe { rig.device.free_memory(rig.memory) };
        rig.copied(0, 8, 8);
        let errors = rig.device.validation_errors();
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(errors[0].contains("no memory is bound at 65536"), "{errors:?}");
        assert!(errors[1].contains("no memory is bound at 0"), "{errors:?}");
        assert!(errors[2].contains("still bound"), "{errors:?}");
        assert!(errors[3].contains("was freed"), "{errors:?}");
    }

    #[test]
    fn a_range_that_a_queue_uses_is_not_rebound_in_silence() {
        let rig = Rig::new();
        (0..2).for_each(|page| rig.bind(page, Some(page)).unwrap());
        rig.device.pause_queues();
        let point = rig.copy(0, 8, 8);
        rig.bind(1, None).unwrap();
        assert_eq!(rig.device.validation_errors(), [""; 0], "the queue uses another page");
        rig.bind(0, None).unwrap();
        assert_eq!(rig.device.validation_errors().len(), 1);
        rig.device.resume_queues();
        rig.device.wait(point, Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn a_wrong_binding_is_refused_and_changes_nothing() {
        let rig = Rig::new();
        let bind = |offset, size, from| {
            let memory = Some((rig.memory, from));
            // SAFETY: live, and refused if it is wrong.
            unsafe { rig.device.bind_ranges(&rig.reserved, &[RangeBinding { offset, size, memory }]) }
        };
        assert!(matches!(bind(1, PAGE, 0), Err(DeviceError::Misaligned { offset: 1, .. })));
        assert!(matches!(bind(0, 100, 0), Err(DeviceError::Misaligned { offset: 100, .. })));
        assert!(matches!(bind(0, PAGE, 256), Err(DeviceError::Misaligned { offset: 256, .. })));
        assert!(matches!(bind(8 * PAGE, PAGE, 0), Err(DeviceError::OutOfRange { .. })));
        assert!(matches!(bind(0, PAGE, 4 * PAGE), Err(DeviceError::OutOfRange { .. })));
        assert_eq!(rig.device.validation_errors().len(), 5);
        rig.device.fail_call(1, DeviceError::OutOfDeviceMemory);
        assert_eq!(bind(0, PAGE, 0), Err(DeviceError::OutOfDeviceMemory));
        assert_eq!(rig.memory_object().bound_pages.load(Relaxed), 0);
        let mut profile = Profile::named("lavapipe").unwrap();
        profile.reserved_buffers = None;
        let without = SimulatedGpu::new(profile);
        assert!(!without.has_reserved_buffers());
        assert_eq!(
            without.create_reserved_buffer(&BufferDesc::new(PAGE)).map(|_| ()),
            Err(DeviceError::Unsupported)
        );
    }

    #[test]
    fn one_call_does_not_bind_a_page_twice_in_silence() {
        let rig = Rig::new();
        let of = |at: u64, pages: u64, from: Option<u64>| {
            let memory = from.map(|page| (rig.memory, page * PAGE));
            RangeBinding { offset: at * PAGE, size: pages * PAGE, memory }
        };
        // SAFETY: live, and whether the ranges overlap is the subject of the test.
        let bind =
            |both: [RangeBinding<_>; 2]| unsafe { rig.device.bind_ranges(&rig.reserved, &both) }.unwrap();
        bind([of(0, 2, Some(0)), of(2, 2, Some(2))]);
        bind([of(0, 2, None), of(5, 2, Some(0))]);
        assert_eq!(rig.device.validation_errors(), [""; 0]);
        bind([of(5, 2, None), of(6, 1, Some(0))]);
        bind([of(0, 2, Some(0)), of(4, 1, Some(1))]);
        let errors = rig.device.validation_errors();
        assert!(errors.len() == 2 && errors.iter().all(|error| error.contains("overlap")), "{errors:?}");
    }

    #[test]
    fn a_destroyed_buffer_gives_its_memory_back() {
        let rig = Rig::new();
        rig.bind(0, Some(0)).unwrap();
        // SAFETY: no queue uses it.
        unsafe { rig.device.destroy_buffer(rig.reserved) };
        // SAFETY: nothing is bound to it any more.
        unsafe { rig.device.free_memory(rig.memory) };
        assert_eq!(rig.device.validation_errors(), [""; 0]);
        assert_eq!(rig.device.usage().buffers, 0);
    }
}

//! What is known of the memory requirements of buffers, so that the driver is asked once for each class of buffers and not for each
//! buffer: a driver may create one to answer.
//!
//! Where the feature maintenance4 is enabled, Vulkan guarantees that buffers of the same usage and flags have the same alignment and
//! memory types, and that none needs more than its size, rounded up to the alignment ("Resource Memory Association"). It says nothing
//! of dedicated memory, which a driver may prefer for large buffers. So an answer counts for buffers that are no larger than the
//! largest one for which the driver wanted none.
//!
//! # Cost
//!
//! Some comparisons, with no lock: a program has few classes.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use ash::vk;

use super::properties::alignment;
use crate::device::{DedicatedNeed, MemoryTypeMask, Requirements, ResourceKind};
use crate::sync::locked;

/// More classes than these are asked for each time.
const MOST_CLASSES: usize = 16;

/// The classes of buffers of which the driver was asked.
#[derive(Default)]
pub(super) struct BufferClasses {
    classes: [Known; MOST_CLASSES],
    /// Locked while a class is added.
    adding: Mutex<()>,
}

/// A class. Written once, but for `largest`.
#[derive(Default)]
struct Known {
    /// Usage and flags; 0 where there is no class yet, nor any after it. Written last.
    class: AtomicU64,
    /// The memory types, above the alignment's binary logarithm in the lowest 8 bits.
    answer: AtomicU64,
    /// The size of the largest buffer for which the driver wanted no dedicated memory.
    largest: AtomicU64,
}

impl BufferClasses {
    /// Returns the class of a buffer; `None` for one whose description has more than its usage and flags.
    pub(super) fn of(info: &vk::BufferCreateInfo<'_>) -> Option<u64> {
        let class = u64::from(info.flags.as_raw()) << 32 | u64::from(info.usage.as_raw());
        // A sparse buffer may be of any size, which is not rounded up here, and is bound page by page.
        let is_sparse = info.flags.contains(vk::BufferCreateFlags::SPARSE_BINDING);
        (info.p_next.is_null() && !is_sparse && class != 0).then_some(class)
    }

    fn find(&self, class: u64) -> Option<&Known> {
        let mut known = self.classes.iter().map(|known| (known, known.class.load(Ordering::Acquire)));
        known.find(|&(_, it)| it == class || it == 0).filter(|&(_, it)| it == class).map(|(known, _)| known)
    }

    /// Returns what memory for a buffer of a class has to meet, if it is known.
    pub(super) fn requirements(&self, class: u64, size: u64) -> Option<Requirements> {
        let known = self.find(class)?;
        // Relaxed: the answer was written before the class, and the largest size guards no data.
        let answer = known.answer.load(Ordering::Relaxed);
        let alignment = alignment(1 << (answer & 0xff));
        (size <= known.largest.load(Ordering::Relaxed)).then(|| Requirements {
            size: alignment.align_up(size),
            alignment,
            memory_types: MemoryTypeMask((answer >> 8) as u32),
            dedicated: DedicatedNeed::None,
            kind: ResourceKind::Buffer,
        })
    }

    /// Notes the driver's answer for a buffer of a class. Returns what memory for it has to meet: the same as for the next buffer of
    /// this size.
    pub(super) fn learn(&self, class: u64, size: u64, found: Requirements) -> Requirements {
        let rounded = found.alignment.align_up(size);
        // The guarantee is broken where it needs more; that is not relied on for this size, at least.
        if found.dedicated != DedicatedNeed::None || found.size > rounded {
            return found;
        }
        let answer = u64::from(found.memory_types.0) << 8 | u64::from(found.alignment.get().trailing_zeros());
        let _adding = locked(&self.adding);
        let vacant = || self.classes.iter().find(|known| known.class.load(Ordering::Relaxed) == 0);
        match self.find(class) {
            Some(known) if known.answer.load(Ordering::Relaxed) == answer => {
                known.largest.fetch_max(size, Ordering::Relaxed);
            }
            Some(_) => return found,
            None => {
                let Some(known) = vacant() else { return found };
                known.answer.store(answer, Ordering::Relaxed);
                known.largest.store(size, Ordering::Relaxed);
                known.class.store(class, Ordering::Release);
            }
        }
        Requirements { size: rounded, ..found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Requirements = Requirements::new(1000).with_memory_types(MemoryTypeMask(0b101));

    #[test]
    fn an_answer_counts_for_buffers_of_the_class_that_are_no_larger() {
        let classes = BufferClasses::default();
        let found = Requirements { alignment: alignment(64), ..NEEDS };
        assert_eq!(classes.requirements(7, 1000), None);
        assert_eq!(classes.learn(7, 1000, found).size, 1024, "as it is told from now on");
        let known = classes.requirements(7, 1000).unwrap();
        assert_eq!((known.size, known.alignment.get(), known.memory_types.0), (1024, 64, 0b101));
        assert_eq!(classes.requirements(7, 1).unwrap().size, 64);
        assert_eq!((classes.requirements(7, 1001), classes.requirements(8, 1000)), (None, None));
        classes.learn(7, 5000, Requirements { size: 5000, ..found });
        assert_eq!(classes.requirements(7, 4096).unwrap().size, 4096);
    }

    #[test]
    fn what_wants_dedicated_memory_or_more_than_its_size_is_asked_for_each_time() {
        let classes = BufferClasses::default();
        let preferred = Requirements { dedicated: DedicatedNeed::Preferred, ..NEEDS };
        for found in [preferred, Requirements { size: 1001, ..NEEDS }] {
            assert_eq!(classes.learn(7, 1000, found), found);
            assert_eq!(classes.requirements(7, 1000), None);
        }
        for class in 1..100 {
            classes.learn(class, 1000, NEEDS);
        }
        let known = (1..100).filter(|&class| classes.requirements(class, 1000).is_some()).count();
        assert_eq!(known, MOST_CLASSES);
    }
}

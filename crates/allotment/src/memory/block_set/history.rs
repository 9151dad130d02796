//! Which large sizes came back: what a pool remembers of its traffic, to tell memory worth keeping from memory that is
//! in the way.
//!
//! Sizes above 1 MiB are sorted into classes, eight an octave, as a freed dedicated block serves requests down to eight
//! ninths of its size. A class has two marks: one of its sizes was freed, and one was requested after that.
//!
//! ```text
//!   free 20 MiB         freed: 20            a request of 20 MiB would be the first that comes back
//!   request 20 MiB      freed: 20            came back: 20      an empty block of 20 MiB is worth keeping
//!   request 33 MiB      freed: 20            came back: 20      never freed: nothing says that it comes again
//! ```
//!
//! Marks are forgotten after one to two periods of the empty-block policy, as the peak usage is, so that a program that
//! goes on to other work is judged by that. Cost: 128 bytes a block set in which a large size was freed; a few instructions
//! for each large request and free.

use allotment_suballoc::SizeClasses;

/// Eight for each octave.
type OfSizes = SizeClasses<3>;
/// Sizes up to this are not told apart: they share blocks, whatever came back.
const SMALL: u64 = 1 << 20;
/// Words of 64 classes: eight octaves each, up to 2^52, beyond every size.
const WORDS: usize = 4;

/// A mark for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Classes([u64; WORDS]);

impl Classes {
    fn mark(&mut self, class: usize) {
        self.0[class / 64] |= 1 << (class % 64);
    }

    fn contains(&self, class: usize) -> bool {
        self.0[class / 64] & (1 << (class % 64)) != 0
    }
}

/// Returns the class of a size; `None` for small ones.
fn class_of(size: u64) -> Option<usize> {
    // The marks begin with the first class that has large sizes.
    let marked = |size| (OfSizes::class_of(size) - OfSizes::class_of(SMALL)).min(WORDS * 64 - 1);
    (size > SMALL).then(|| marked(size))
}

/// The marks of this period and of the one before.
#[derive(Debug, Default)]
struct Marks {
    freed: [Classes; 2],
    came_back: [Classes; 2],
}

/// What came back. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct SizeHistory {
    /// `None` until a large size is freed: most pools, of a thousand, never have one.
    marks: Option<Box<Marks>>,
    /// When the period began, in ticks.
    period: u64,
}

impl SizeHistory {
    /// Notes that an allocation of a size, or a block of it, is free.
    pub(super) fn note_freed(&mut self, size: u64) {
        if let Some(class) = class_of(size) {
            self.marks.get_or_insert_default().freed[0].mark(class);
        }
    }

    /// Notes a request.
    pub(crate) fn note_request(&mut self, size: u64) {
        let (Some(class), Some(marks)) = (class_of(size), &mut self.marks) else { return };
        if Self::in_either(&marks.freed, class) {
            marks.came_back[0].mark(class);
        }
    }

    /// Returns true if an allocation of about this size was freed lately, so that such requests come more than once. True
    /// for small sizes.
    pub(crate) fn was_freed(&self, size: u64) -> bool {
        class_of(size).is_none_or(|class| self.is_marked(class, |marks| &marks.freed))
    }

    /// Returns true if about this size was requested again lately after it had been freed. True for small sizes.
    pub(super) fn came_back(&self, size: u64) -> bool {
        class_of(size).is_none_or(|class| self.is_marked(class, |marks| &marks.came_back))
    }

    /// Forgets what is older than the period before the one that began at this tick.
    pub(crate) fn begin_period(&mut self, period: u64) {
        if self.period != period {
            self.period = period;
            if let Some(marks) = &mut self.marks {
                marks.freed = [Classes::default(), marks.freed[0]];
                marks.came_back = [Classes::default(), marks.came_back[0]];
            }
        }
    }

    fn is_marked(&self, class: usize, which: impl FnOnce(&Marks) -> &[Classes; 2]) -> bool {
        self.marks.as_ref().is_some_and(|marks| Self::in_either(which(marks), class))
    }

    fn in_either(marks: &[Classes; 2], class: usize) -> bool {
        marks.iter().any(|marks| marks.contains(class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_size_comes_back_when_it_is_requested_after_it_was_freed() {
        let mut history = SizeHistory::default();
        history.note_request(20 * MIB);
        assert!(!history.was_freed(20 * MIB) && !history.came_back(20 * MIB), "requested only");
        history.note_freed(20 * MIB);
        assert!(
            history.was_freed(20 * MIB) && !history.came_back(20 * MIB),
            "freed, and not requested since"
        );
        history.note_request(20 * MIB);
        assert!(history.came_back(20 * MIB));
        assert!(!history.came_back(33 * MIB) && !history.was_freed(33 * MIB), "another size");
    }

    #[test]
    fn marks_are_forgotten_after_the_period_that_follows_theirs() {
        let mut history = SizeHistory::default();
        history.note_freed(20 * MIB);
        history.note_request(20 * MIB);
        history.begin_period(120);
        history.begin_period(120);
        assert!(history.came_back(20 * MIB), "the period before counts");
        history.begin_period(240);
        assert!(!history.came_back(20 * MIB) && !history.was_freed(20 * MIB));
    }

    #[test]
    fn classes_are_an_eighth_of_an_octave_and_every_size_has_one() {
        assert_eq!(class_of(MIB), None);
        for octave in 20..=48 {
            for step in 0..8 {
                let size = (1u64 << octave) + (step << (octave - 3)) + 1;
                assert_eq!(class_of(size), Some(((octave - 20) * 8 + step) as usize));
                assert_eq!(class_of(size), class_of(size + (1 << (octave - 4))));
            }
        }
    }
}

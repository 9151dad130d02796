//! What the driver or a budget refused, until something changes.
//!
//! ```text
//!   4 MiB of type 0 refused ──► remembered, with the heap's number of changes
//!     a request that needs 4 MiB or more ──► refused again, without a call
//!     one that needs 3 MiB               ──► asks the driver
//!     memory of the heap is freed, or the figures improve ──► the number differs: forgotten
//! ```
//!
//! A full heap would otherwise cost each request that suits it best some failing driver calls, for ever: up to some 10 µs
//! each. What other programs free is seen in the driver's figures only, so these are looked at again after a quarter of a
//! second, or after many answers. Some drivers report no figures, and may refuse for other reasons than a full heap: so
//! after ten seconds a refusal is forgotten, whatever the figures say. And where nothing else serves a request, the driver
//! is asked once more before that is refused: a remembered refusal sends requests elsewhere, but refuses none.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Mutex;

use crate::device::{DeviceError, Mapping, MemoryTypeIndex};
use crate::memory::request::Remembered;
use crate::memory::{AllocationError, BudgetPolicy};
use crate::sync::locked;

/// Ticks (sixtieths of a second) after which the driver's figures are looked at again.
const LOOK_AGAIN_TICKS: u64 = 15;

/// Answers after which they are, where no time passes: a replay may stop the clock. A query takes a driver some
/// microseconds, so each answer costs a hundredth of one.
const ANSWERS_PER_LOOK: u32 = 256;

/// Ticks after which a refusal is forgotten.
const FORGOTTEN_TICKS: u64 = 600;

/// Numbers that advance when a refusal may no longer hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    /// Of the heap: the driver may have got memory.
    pub(super) gains: u64,
    /// Of the heap: the figures that budgets are checked by have fallen.
    pub(super) refunds: u64,
    /// Memory objects that were freed, of all heaps.
    pub(super) frees: u64,
    /// The time.
    pub(super) tick: u64,
}

/// On what terms memory is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) budget: BudgetPolicy,
    pub(crate) mapping: Mapping,
    pub(crate) remembered: Remembered,
    /// It is more than is needed now.
    pub(crate) ahead: bool,
}

impl From<BudgetPolicy> for Terms {
    fn from(budget: BudgetPolicy) -> Self {
        Self { budget, mapping: Mapping::OnDemand, remembered: Remembered::Holds, ahead: false }
    }
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Nothing: the driver has to be asked.
    No,
    /// It was refused, but the driver's figures are old: look at them, and ask again.
    LookAgain,
    /// The driver would refuse it.
    ByDriver(DeviceError),
    /// It would exceed the budget.
    ForBudget,
}

/// A refusal of a memory type.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    /// The smallest size that was refused.
    size: u64,
    /// `None` for the budget.
    source: Option<DeviceError>,
    seen: Changes,
    /// The tick at which the driver's figures were last looked at, and the answers since.
    looked: u64,
    answers: u32,
}

impl Refusal {
    fn new(size: u64, source: Option<DeviceError>, seen: Changes) -> Self {
        Self { size, source, seen, looked: seen.tick, answers: 0 }
    }

    fn holds(&self, now: Changes) -> bool {
        let unchanged = match self.source {
            // The limit of memory objects holds for all heaps together, and so does the space for addresses.
            Some(DeviceError::TooManyAllocations | DeviceError::MapFailed) => self.seen.frees == now.frees,
            Some(_) => self.seen.gains == now.gains,
            None => self.seen.refunds == now.refunds,
        };
        unchanged && now.tick.saturating_sub(self.seen.tick) < FORGOTTEN_TICKS
    }

    fn answer(&mut self, now: Changes) -> Refused {
        self.answers += 1;
        if self.answers >= ANSWERS_PER_LOOK || now.tick.saturating_sub(self.looked) >= LOOK_AGAIN_TICKS {
            (self.answers, self.looked) = (0, now.tick);
            return Refused::LookAgain;
        }
        self.source.map_or(Refused::ForBudget, Refused::ByDriver)
    }
}

/// The refusals of one memory type.
#[derive(Debug, Default)]
struct OfType {
    /// One of `refusals` is there. Read without the lock: most programs are never refused.
    any: AtomicBool,
    /// By the driver; for the budget; since the driver could not map the memory.
    refusals: Mutex<[Option<Refusal>; 3]>,
}

/// The refusals of all memory types.
#[derive(Debug)]
pub(super) struct Refusals {
    of_types: Vec<OfType>,
}

impl Refusals {
    pub(super) fn new(types: usize) -> Self {
        Self { of_types: (0..types).map(|_| OfType::default()).collect() }
    }

    fn of(&self, memory_type: MemoryTypeIndex) -> Option<&OfType> {
        self.of_types.get(usize::from(memory_type.0))
    }

    /// Returns true where nothing of this type was refused.
    pub(super) fn are_none(&self, memory_type: MemoryTypeIndex) -> bool {
        self.of(memory_type).is_none_or(|of| !of.any.load(Relaxed))
    }

    /// Remembers a refusal. `seen` was read before the call, or the figures, that it comes from.
    pub(super) fn add(
        &self,
        memory_type: MemoryTypeIndex,
        size: u64,
        error: &AllocationError,
        seen: Changes,
    ) {
        let (at, source) = match *error {
            AllocationError::OutOfMemory { source, .. } => (0, Some(source)),
            // Whatever the size.
            AllocationError::TooManyAllocations { .. } => (0, Some(DeviceError::TooManyAllocations)),
            AllocationError::OverBudget { .. } => (1, None),
            AllocationError::Device { source: source @ DeviceError::MapFailed, .. } => (2, Some(source)),
            _ => return,
        };
        let size = if source == Some(DeviceError::TooManyAllocations) { 0 } else { size };
        let Some(of) = self.of(memory_type) else { return };
        let mut refusals = locked(&of.refusals);
        // Of two that hold, the one that answers more requests.
        let larger = refusals[at].filter(|known| known.size <= size && known.holds(seen));
        refusals[at] = larger.or(Some(Refusal::new(size, source, seen)));
        of.any.store(true, Relaxed);
    }

    /// Returns what is known of a request of `size` bytes.
    pub(super) fn find(
        &self,
        memory_type: MemoryTypeIndex,
        size: u64,
        Terms { budget, mapping, remembered, .. }: Terms,
        now: Changes,
    ) -> Refused {
        let of = self.of(memory_type).filter(|_| remembered == Remembered::Holds);
        let Some(of) = of else { return Refused::No };
        let mut refusals = locked(&of.refusals);
        for refusal in refusals.iter_mut() {
            if refusal.is_some_and(|refusal| !refusal.holds(now)) {
                *refusal = None;
            }
        }
        if refusals.iter().all(Option::is_none) {
            of.any.store(false, Relaxed);
            return Refused::No;
        }
        let applies = |refusal: &&mut Refusal| {
            let concerned = match refusal.source {
                None => budget == BudgetPolicy::WithinBudget,
                Some(DeviceError::MapFailed) => mapping == Mapping::Required,
                Some(_) => true,
            };
            refusal.size <= size && concerned
        };
        refusals.iter_mut().flatten().find(applies).map_or(Refused::No, |refusal| refusal.answer(now))
    }

    /// Returns the bytes of the smallest memory that the driver could not map.
    pub(super) fn unmappable_from(&self, memory_type: MemoryTypeIndex, now: Changes) -> Option<u64> {
        let refusal = locked(&self.of(memory_type)?.refusals)[2];
        Some(refusal.filter(|refusal| refusal.holds(now))?.size)
    }

    /// Forgets what `size` bytes, which the driver has just allocated or mapped, show to be over.
    pub(super) fn forget(&self, memory_type: MemoryTypeIndex, size: u64, mapping: Mapping) {
        let Some(of) = self.of(memory_type) else { return };
        let mut refusals = locked(&of.refusals);
        let [by_driver, _, of_mapping] = &mut *refusals;
        *by_driver = by_driver.filter(|refusal| refusal.size > size);
        if mapping == Mapping::Required {
            *of_mapping = of_mapping.filter(|refusal| refusal.size > size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::MemoryHeapIndex;
    use crate::memory::ShortName;

    const TYPE: MemoryTypeIndex = MemoryTypeIndex(1);
    const START: Changes = Changes { gains: 0, refunds: 0, frees: 0, tick: 0 };
    const FULL: Refused = Refused::ByDriver(DeviceError::OutOfDeviceMemory);

    fn full(requested: u64) -> AllocationError {
        let (memory_type, source, name) = (TYPE, DeviceError::OutOfDeviceMemory, ShortName::NONE);
        AllocationError::OutOfMemory { memory_type, requested, reserved: 0, source, name }
    }

    fn over_budget(requested: u64) -> AllocationError {
        let (heap, name) = (MemoryHeapIndex(0), ShortName::NONE);
        AllocationError::OverBudget { heap, requested, usage: 0, budget: 0, name }
    }

    fn find(refusals: &Refusals, size: u64, now: Changes) -> Refused {
        refusals.find(TYPE, size, BudgetPolicy::AllowOverBudget.into(), now)
    }

    #[test]
    fn what_was_refused_answers_requests_of_its_size_and_more_until_the_heap_gains_memory() {
        let refusals = Refusals::new(2);
        assert!(refusals.are_none(TYPE));
        refusals.add(TYPE, 100, &full(100), START);
        assert_eq!((find(&refusals, 99, START), find(&refusals, 100, START)), (Refused::No, FULL));
        refusals.add(TYPE, 200, &full(200), START);
        assert_eq!(find(&refusals, 100, START), FULL, "the smaller of the two stays");
        assert_eq!(find(&refusals, 100, Changes { frees: 9, refunds: 9, ..START }), FULL);
        assert_eq!(find(&refusals, 1000, Changes { gains: 1, ..START }), Refused::No);
        assert!(refusals.are_none(TYPE) && refusals.are_none(MemoryTypeIndex(0)));
    }

    #[test]
    fn a_refusal_for_the_budget_answers_only_requests_that_stay_within_it() {
        let refusals = Refusals::new(2);
        refusals.add(TYPE, 100, &over_budget(100), START);
        assert_eq!(find(&refusals, 100, START), Refused::No);
        let strict = |now| refusals.find(TYPE, 100, BudgetPolicy::WithinBudget.into(), now);
        assert_eq!(strict(START), Refused::ForBudget);
        assert_eq!(strict(Changes { refunds: 1, ..START }), Refused::No);
    }

    #[test]
    fn memory_that_cannot_be_mapped_serves_whoever_needs_no_mapping() {
        let refusals = Refusals::new(2);
        refusals.add(TYPE, 100, &DeviceError::MapFailed.into(), START);
        assert_eq!(refusals.unmappable_from(TYPE, START), Some(100));
        assert_eq!(find(&refusals, 100, START), Refused::No);
        let mapped = Terms { mapping: Mapping::Required, ..BudgetPolicy::AllowOverBudget.into() };
        let answer = Refused::ByDriver(DeviceError::MapFailed);
        assert_eq!(refusals.find(TYPE, 100, mapped, START), answer);
        assert_eq!(refusals.unmappable_from(TYPE, Changes { frees: 1, ..START }), None);
    }

    #[test]
    fn the_limit_of_objects_answers_every_size_until_one_is_freed() {
        let refusals = Refusals::new(2);
        refusals.add(
            TYPE,
            100,
            &AllocationError::TooManyAllocations { limit: 4, name: ShortName::NONE },
            START,
        );
        let answer = Refused::ByDriver(DeviceError::TooManyAllocations);
        assert_eq!(find(&refusals, 1, Changes { gains: 3, ..START }), answer);
        assert_eq!(find(&refusals, 1, Changes { frees: 1, ..START }), Refused::No);
    }

    #[test]
    fn the_figures_are_looked_at_again_after_some_time_or_many_answers_and_then_all_is_forgotten() {
        let refusals = Refusals::new(2);
        refusals.add(TYPE, 100, &full(100), START);
        let later = |tick| Changes { tick, ..START };
        assert_eq!(find(&refusals, 100, later(LOOK_AGAIN_TICKS - 1)), FULL);
        assert_eq!(find(&refusals, 100, later(LOOK_AGAIN_TICKS)), Refused::LookAgain);
        let answers = (0..ANSWERS_PER_LOOK).map(|_| find(&refusals, 100, later(LOOK_AGAIN_TICKS)));
        assert_eq!(answers.filter(|&answer| answer == Refused::LookAgain).count(), 1);
        assert_eq!(find(&refusals, 100, later(FORGOTTEN_TICKS)), Refused::No);
    }

    #[test]
    fn what_the_driver_allocates_makes_its_refusals_of_as_much_void() {
        let refusals = Refusals::new(2);
        refusals.add(TYPE, 100, &full(100), START);
        refusals.forget(TYPE, 99, Mapping::Required);
        assert_eq!(find(&refusals, 100, START), FULL);
        refusals.forget(TYPE, 100, Mapping::OnDemand);
        assert_eq!(find(&refusals, 100, START), Refused::No);
    }

    #[test]
    fn a_request_that_nothing_else_would_serve_is_not_refused_by_what_is_remembered() {
        let refusals = Refusals::new(2);
        refusals.add(TYPE, 100, &full(100), START);
        let last = Terms { remembered: Remembered::AskAgain, ..BudgetPolicy::AllowOverBudget.into() };
        assert_eq!(refusals.find(TYPE, 100, last, START), Refused::No);
        assert_eq!(find(&refusals, 100, START), FULL, "others are answered still");
    }
}

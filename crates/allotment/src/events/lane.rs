//! Where some threads write events: a list of them, and the texts that they name.
//!
//! Threads that wrote into one list would wait for each other, and all for the slowest way of a cache line. So there are
//! several lists, each behind a lock of its own, and a thread writes into one that it finds free:
//!
//! ```text
//!   lane 0    a b c     e f         i
//!   lane 1    k     D       g h   J   l       the runs of the lanes are numbered: see [`order`](super::order)
//!
//!   reader    a b c k D e f g h J i l
//! ```
//!
//! **Order.** An allocation, its free and what else is told of it belong to a pool, which writes into the lane of the thread that
//! changes it. A thread has the same lane as long as nobody else has it, so the threads of a program seldom meet in anything.
//! All other events, and those of a pool that another lane was written for last, are turns: what happened before and after them
//! is read before and after them.
//!
//! **Taking all.** The reader holds the locks of all lanes while it exchanges them, some microseconds. So of two events it never
//! gets the later one without the earlier.

use core::panic::Location;
use std::backtrace::Backtrace;
use std::sync::Arc;

use super::order::Order;
use super::packed::{PackedEvents, Unpacker};
use super::{Allocated, AllocationKey, Event, StackId, TextId};
use crate::choices::Name;
use crate::choices::call_site::CallSite;
use crate::chunks::Chunks;
use crate::sync::TryLockGuard;
use crate::sync::shards::Shards;

/// The bits of a text's or a stack's number that are its place in its lane. The lane has the upper ones.
const PLACE_BITS: u32 = 28;
const MAX_PLACE: u32 = (1 << PLACE_BITS) - 1;

/// All lanes of a log. See the [module](self).
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Shards<EventLane>,
    order: Order,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self { lanes: Shards::numbered(EventLane::new), order: Order::new() }
    }

    /// Locks a lane for the next event of the calling thread. Returns also whether it is another one than usual.
    #[inline(always)]
    pub(super) fn lock(&self) -> (TryLockGuard<'_, EventLane>, bool) {
        self.lanes.any_or_other()
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// Locks all lanes.
    pub(super) fn lock_all(&self) -> AllLanes<'_> {
        AllLanes { lanes: self.lanes.each().collect(), order: &self.order }
    }
}

/// Holds the locks of all lanes.
pub(super) struct AllLanes<'a> {
    lanes: Vec<TryLockGuard<'a, EventLane>>,
    order: &'a Order,
}

impl AllLanes<'_> {
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut EventLane> {
        self.lanes.iter_mut().map(|lane| &mut **lane)
    }

    /// Adds an event after all others.
    pub(crate) fn push(&mut self, event: Event) {
        if let Some(lane) = self.lanes.first_mut() {
            lane.begin(self.order, true);
            lane.push(event);
        }
    }
}

/// Returns true for events about one allocation, which no event of another pool or part is about. Where the bytes of an
/// allocation are another shard's, its free is a turn all the same.
const fn belongs_to_pool(event: &Event) -> bool {
    matches!(
        event,
        Event::Allocated(_)
            | Event::Requested { .. }
            | Event::CallSite { .. }
            | Event::Stack { .. }
            | Event::Labelled { .. }
            | Event::Movable { .. }
            | Event::Mapped { .. }
            | Event::FreeRequested { .. }
            | Event::Freed { .. }
    )
}

/// Events of some threads in their order, and the texts that they name.
#[derive(Clone, Debug)]
pub(crate) struct EventLane {
    /// The number of the last run; 0 while there is none.
    run: u64,
    index: u32,
    packed: PackedEvents,
    /// In chunks, as the packed events.
    texts: Chunks<Text>,
    /// As the threads captured them: the reader's thread finds the names of their functions.
    stacks: Vec<Arc<Backtrace>>,
    recent: RecentNames,
}

/// The names that were added last, by where their bytes are: most programs name thousands of allocations by a few
/// literals, and to find one here is cheaper than to store it again.
#[derive(Clone, Copy, Debug, Default)]
struct RecentNames([RecentName; 16]);

#[derive(Clone, Copy, Debug, Default)]
struct RecentName {
    address: usize,
    len: usize,
    text: TextId,
}

impl RecentNames {
    /// Returns the place of a name that is where `address` says.
    #[inline]
    fn place_of(&mut self, address: usize) -> &mut RecentName {
        // The upper bits of a product depend on all bits of the address; literals follow each other without alignment.
        let mixed = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.0[(mixed >> 60) as usize]
    }
}

/// A text as the thread that wrote the event had it at hand: nothing is copied or formatted before it is read.
#[derive(Clone, Debug)]
pub(super) enum Text {
    Name(Name),
    CallSite(&'static Location<'static>),
}

impl EventLane {
    pub(super) fn new(index: usize) -> Self {
        Self {
            run: 0,
            // Lanes are a few.
            index: index as u32,
            packed: PackedEvents::new(),
            texts: Chunks::new(),
            stacks: Vec::new(),
            recent: RecentNames::default(),
        }
    }

    /// Begins a run, if the next event does: a `turn` always.
    #[inline]
    pub(super) fn begin(&mut self, order: &Order, turn: bool) {
        if let Some(run) = order.begins(self.run, turn) {
            self.run = run;
            self.packed.push_run(run);
        }
    }

    /// Removes all events and texts. Their host memory is kept for the next ones.
    pub(super) fn clear(&mut self) {
        self.run = 0;
        self.packed.clear();
        self.texts.clear();
        self.stacks.clear();
        // They name texts that are gone.
        self.recent = RecentNames::default();
    }

    /// Adds an event, packed.
    #[inline]
    pub(crate) fn push(&mut self, event: Event) {
        self.packed.push(event);
    }

    /// Adds an event that is made with texts of this lane, and begins a run if it is a turn, as it is unless it belongs to
    /// a pool.
    #[inline]
    pub(super) fn push_made(&mut self, order: &Order, turn: bool, event: impl FnOnce(&mut Self) -> Event) {
        let event = event(self);
        self.begin(order, turn || !belongs_to_pool(&event));
        self.push(event);
    }

    /// Adds [`Event::Allocated`].
    #[inline(always)]
    pub(crate) fn push_allocated(&mut self, allocated: &Allocated) {
        self.packed.push_allocated(allocated);
    }

    /// Adds [`Event::Freed`].
    #[inline]
    pub(crate) fn push_freed(&mut self, allocation: AllocationKey) {
        self.packed.push_freed(allocation);
    }

    /// Returns how many events were added and not unpacked.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.packed.len()
    }

    /// Reads the events.
    pub(super) fn unpacker(&self) -> Unpacker<impl Iterator<Item = u64>, impl Iterator<Item = Event>> {
        self.packed.unpacker()
    }

    /// Removes the events, and keeps the texts that they name.
    pub(super) fn forget_events(&mut self) {
        self.packed.clear();
    }

    /// Returns a text of this lane.
    pub(super) fn text(&self, text: TextId) -> Option<&Text> {
        self.texts.get((text.0 & MAX_PLACE).checked_sub(1)? as usize)
    }

    /// Returns a stack of this lane.
    pub(super) fn stack(&self, stack: StackId) -> Option<&Backtrace> {
        self.stacks.get((stack.0 & MAX_PLACE).checked_sub(1)? as usize).map(|backtrace| &**backtrace)
    }

    /// Returns the index of the lane that has a text or a stack, by its number.
    pub(super) const fn index_of(number: u32) -> usize {
        (number >> PLACE_BITS) as usize
    }

    /// Returns the index of this lane.
    pub(super) const fn index(&self) -> usize {
        self.index as usize
    }

    /// Adds a text. Bytes are not compared: a text may be there twice.
    #[inline]
    pub(crate) fn add_text(&mut self, text: Option<&Name>) -> TextId {
        let Some(name) = text else { return TextId::NONE };
        let (address, len) = (name.as_str().as_ptr() as usize, name.as_str().len());
        let recent = *self.recent.place_of(address);
        // The texts hold a clone of the name, so no other bytes are where its own are.
        if (recent.address, recent.len) == (address, len) {
            return recent.text;
        }
        self.add_name(name)
    }

    #[cold]
    fn add_name(&mut self, name: &Name) -> TextId {
        let text = self.add(Text::Name(name.clone()));
        let (address, len) = (name.as_str().as_ptr() as usize, name.as_str().len());
        *self.recent.place_of(address) = RecentName { address, len, text };
        text
    }

    /// Adds a call site as a text.
    pub(crate) fn add_call_site(&mut self, site: &CallSite) -> TextId {
        self.add(Text::CallSite(site.location()))
    }

    /// Adds the calls that led to a call site as a stack, where they are known.
    pub(crate) fn add_stack(&mut self, site: &CallSite) -> StackId {
        let Some(backtrace) = site.shared_backtrace() else { return StackId::NONE };
        self.stacks.push(backtrace.clone());
        StackId(self.number(self.stacks.len()))
    }

    fn add(&mut self, text: Text) -> TextId {
        self.texts.push(text);
        TextId(self.number(self.texts.len()))
    }

    /// Returns the number of a text or a stack of this lane.
    const fn number(&self, place: usize) -> u32 {
        // The log is full long before a lane has 2^28 of them: memory would be, too.
        self.index << PLACE_BITS | place as u32 & MAX_PLACE
    }

    /// Adds a text that is part of the program.
    pub(crate) fn add_static(&mut self, text: &'static str) -> TextId {
        if text.is_empty() { TextId::NONE } else { self.add_text(Some(&Name::Static(text))) }
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::events::EventBatch;

    fn name(lane: &EventLane, text: TextId) -> String {
        match lane.text(text) {
            Some(Text::Name(name)) => name.as_str().to_owned(),
            found => panic!("{found:?} is no name"),
        }
    }

    #[test]
    fn a_name_that_is_given_again_is_one_text() {
        let mut lane = EventLane::new(3);
        let names: [Name; 2] = ["mesh".into(), String::from("texture").into()];
        for _ in 0..100 {
            let texts = names.each_ref().map(|name| lane.add_text(Some(name)));
            assert_eq!(texts.map(|text| name(&lane, text)), ["mesh", "texture"]);
        }
        let one = lane.add_text(Some(&names[0]));
        assert_eq!((lane.add_text(Some(&names[0])), EventLane::index_of(one.0)), (one, 3));
        lane.clear();
        assert_eq!(lane.add_text(Some(&names[0])), TextId(3 << PLACE_BITS | 1), "its first text again");
    }

    #[test]
    fn a_name_that_is_gone_does_not_lend_its_text_to_the_next_one_there() {
        let mut lane = EventLane::new(0);
        // Of one length, so that the host allocator gives each the memory of the one before if it may.
        let texts: Vec<_> = (0..1000).map(|i| lane.add_text(Some(&format!("{i:08}").into()))).collect();
        for (i, text) in texts.into_iter().enumerate() {
            assert_eq!(name(&lane, text), format!("{i:08}"));
        }
    }

    proptest! {
        /// What is written, to which lane, for which pool, and after how many events the reader comes.
        #[test]
        fn a_batch_has_the_events_of_all_lanes_in_their_order(
            writes in prop::collection::vec((0..3_usize, 0..4_usize, 0..9_u8), 0..200),
            every in 1..50_usize,
        ) {
            let order = Order::new();
            let mut lanes: Vec<_> = (0..3).map(EventLane::new).collect();
            let mut last = [0; 4];
            let (mut batch, mut read) = (EventBatch::new(), Vec::new());
            for (number, &(at, pool, what)) in writes.iter().enumerate() {
                let lane = &mut lanes[at];
                let elsewhere = core::mem::replace(&mut last[pool], at) != at;
                let text = Name::from(number.to_string());
                lane.push_made(&order, elsewhere, |lane| match what {
                    0 => Event::Mark { text: lane.add_text(Some(&text)) },
                    _ => Event::Freed { allocation: AllocationKey(number as u64) },
                });
                if number % every == 0 || number + 1 == writes.len() {
                    batch.clear();
                    lanes.iter_mut().for_each(|lane| batch.take(lane));
                    batch.unpack();
                    read.extend(batch.events().iter().map(|event| match event {
                        Event::Mark { text } => batch.text(*text).unwrap_or_default().parse().unwrap_or(usize::MAX),
                        Event::Freed { allocation } => allocation.0 as usize,
                        event => panic!("{event:?} was not written"),
                    }));
                }
            }
            let mut place = vec![usize::MAX; writes.len()];
            read.iter().enumerate().for_each(|(at, &number)| place[number] = at);
            prop_assert!(read.len() == writes.len() && !place.contains(&usize::MAX), "{read:?}");
            for (earlier, a) in writes.iter().enumerate() {
                for (later, b) in writes.iter().enumerate().skip(earlier + 1) {
                    if a.0 == b.0 || a.1 == b.1 || a.2 == 0 || b.2 == 0 {
                        prop_assert!(place[earlier] < place[later], "{earlier} and {later}: {read:?}");
                    }
                }
            }
        }
    }
}

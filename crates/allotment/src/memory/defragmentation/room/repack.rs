//! Room by placing everything movable anew: the last way, which finds room wherever a simple packing has it.

use core::cmp::Reverse;

use super::layout::{At, Layout, Place};
use super::plan::{RoomPlan, Wanted, hole_for};
use crate::memory::defragmentation::pace::Pace;

/// The order in which items are placed.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// The largest first, which leaves the small ones for the small holes.
    BySize,
    /// The most aligned first, so that no padding is left between them.
    ByAlignment,
    /// As they are now, which moves the fewest bytes where all have one alignment.
    AsTheyAre,
}

/// Places the request, and then all movable items: first those of as few blocks as possible.
pub(super) async fn by_repack(layout: &mut Layout, wanted: Wanted, pace: &mut Pace) -> Option<RoomPlan> {
    let all = (0..layout.item_count()).filter(|&item| layout.item(item).cost.is_some());
    let all = pace.collect(all).await;
    // All three are tried: none is best for all blocks, and the cost is known only once the steps are.
    let orders = [Order::AsTheyAre, Order::BySize, Order::ByAlignment];
    let mut packed = Vec::new();
    for order in orders {
        packed.extend(repacked(layout, wanted, &all, order, pace).await);
    }
    if packed.is_empty() {
        packed.extend(search(layout, wanted, &all, pace).await);
    }
    let mut best: Option<RoomPlan> = None;
    for (at, targets) in packed {
        let Some((steps, cost)) = in_steps(layout, targets, pace).await else { continue };
        if best.as_ref().is_none_or(|best| cost < best.cost) {
            best = Some(RoomPlan { at, steps, cost });
        }
    }
    best
}

/// Returns a place for the request and for each item, without regard to where the items are now.
async fn repacked(
    layout: &Layout,
    wanted: Wanted,
    items: &[u32],
    order: Order,
    pace: &mut Pace,
) -> Option<(At, Vec<(u32, At)>)> {
    let mut items = items.to_vec();
    match order {
        Order::BySize => {
            pace.sort_by_key(&mut items, |&item| Reverse(layout.item(item).bytes)).await;
        }
        Order::ByAlignment => {
            let key = |&item: &u32| Reverse((layout.item(item).alignment, layout.item(item).bytes));
            pace.sort_by_key(&mut items, key).await;
        }
        Order::AsTheyAre => pace.sort_by_key(&mut items, |&item| layout.place(item)).await,
    }
    // The request is placed like an item, in its turn.
    let turn = match order {
        Order::BySize => items.partition_point(|&item| layout.item(item).bytes > wanted.bytes),
        Order::ByAlignment => items.partition_point(|&item| {
            let Wanted { bytes, alignment, .. } = wanted;
            (layout.item(item).alignment, layout.item(item).bytes) > (alignment, bytes)
        }),
        // Last: the items keep their order, and what is free comes together behind them.
        Order::AsTheyAre => items.len(),
    };
    // Pinned items only: they are in the way in whatever order the others come.
    let mut empty = layout.copy(true, pace).await;
    let found = placed(&mut empty, wanted, (&items, turn), pace).await;
    empty.discard(pace).await;
    found
}

/// Takes the smallest hole for each item, and for the request in its turn.
async fn placed(
    empty: &mut Layout,
    wanted: Wanted,
    (items, turn): (&[u32], usize),
    pace: &mut Pace,
) -> Option<(At, Vec<(u32, At)>)> {
    let mut targets = Vec::with_capacity(items.len());
    let mut room = None;
    for (at, &item) in items.iter().enumerate() {
        if at == turn {
            room = Some(take_hole(empty, wanted)?);
        }
        let to = take_hole(empty, needs(empty, item))?;
        targets.push((item, to));
        pace.step().await;
    }
    let at = room.map_or_else(|| take_hole(empty, wanted), Some)?;
    Some((at, targets))
}

/// How many of the largest items are searched for a packing, in turn. The others fit into what is left, or the next
/// number is tried.
const LARGEST: [usize; 4] = [32, 24, 16, 8];

/// A set of the ranges that are searched, with a bit for each.
type RangeSet = u32;

const _: () = assert!(LARGEST[0] <= RangeSet::BITS as usize, "each range that is searched has a bit");

/// Places that are tried in a search: a few milliseconds.
const WORK: u32 = 100_000;

/// A search for a packing of the largest items, where the simple orders find none, as they leave padding or the wrong
/// remainders: the holes are filled from their starts up, with each item in turn as the next one.
struct Search<'a> {
    /// The holes that there are without the items, as place and end.
    holes: &'a [(At, u64)],
    /// The items, and the request; the largest first, equal ones side by side.
    ranges: &'a [(Option<u32>, Wanted)],
    /// Of each range: where it is, as far as it is placed.
    places: Vec<Option<At>>,
    /// The ranges that are not placed: where `places` has `None`.
    waiting: RangeSet,
    /// The ranges that have the size and alignment of the one before them.
    repeated: RangeSet,
    work: u32,
}

async fn search(
    layout: &Layout,
    wanted: Wanted,
    items: &[u32],
    pace: &mut Pace,
) -> Option<(At, Vec<(u32, At)>)> {
    let empty = layout.copy(true, pace).await;
    let holes: Vec<_> = empty.holes_from(1).collect();
    let ranges = items.iter().map(|&item| (Some(item), needs(layout, item))).chain([(None, wanted)]);
    let mut ranges: Vec<_> = ranges.collect();
    pace.sort_by_key(&mut ranges, |(_, range)| Reverse((range.bytes, range.alignment))).await;
    let counts = LARGEST.into_iter().map(|count| count.min(ranges.len()));
    let (mut found, mut last) = (None, usize::MAX);
    for count in counts {
        if found.is_none() && core::mem::replace(&mut last, count) != count {
            let mut layout = empty.copy(true, pace).await;
            found = search_largest(&mut layout, &holes, &ranges, count, pace).await;
            layout.discard(pace).await;
        }
    }
    empty.discard(pace).await;
    found
}

/// A moment of a search: a range is to be placed in a hole, from an offset up.
#[derive(Clone, Copy, Debug)]
struct Branch {
    hole: usize,
    from: u64,
    /// The ranges before this one were tried.
    next: usize,
}

/// Places the largest ranges by a search, and the others after them.
async fn search_largest(
    empty: &mut Layout,
    holes: &[(At, u64)],
    ranges: &[(Option<u32>, Wanted)],
    count: usize,
    pace: &mut Pace,
) -> Option<(At, Vec<(u32, At)>)> {
    let (largest, others) = ranges.split_at(count);
    let mut search = Search::new(holes, largest);
    if !search.fill(pace).await {
        return None;
    }
    let (mut room, mut targets) = (None, Vec::with_capacity(ranges.len()));
    let mut note = |item: Option<u32>, at| match item {
        Some(item) => targets.push((item, at)),
        None => room = Some(at),
    };
    for (&(item, range), at) in largest.iter().zip(search.places) {
        let at = at?;
        empty.add(range.bytes, at);
        note(item, at);
    }
    for &(item, range) in others {
        note(item, take_hole(empty, range)?);
        pace.step().await;
    }
    Some((room?, targets))
}

impl<'a> Search<'a> {
    fn new(holes: &'a [(At, u64)], ranges: &'a [(Option<u32>, Wanted)]) -> Self {
        let shape = |at: usize| (ranges[at].1.bytes, ranges[at].1.alignment);
        let (mut waiting, mut repeated) = (0, 0);
        for at in 0..ranges.len() {
            waiting |= 1 << at;
            repeated |= RangeSet::from(at > 0 && shape(at) == shape(at - 1)) << at;
        }
        Self { holes, ranges, places: vec![None; ranges.len()], waiting, repeated, work: WORK }
    }

    /// Places all ranges in the holes. Returns false where there is no way, or none was found by so much work.
    async fn fill(&mut self, pace: &mut Pace) -> bool {
        let Some(mut now) = self.start_of(0) else { return false };
        // One entry for each range that is placed: a recursion that pauses would allocate for each of its calls.
        let mut placed: Vec<Branch> = Vec::with_capacity(self.ranges.len());
        while placed.len() < self.ranges.len() {
            pace.step().await;
            if let Some(end) = self.place_next(&mut now) {
                let Some(work) = self.work.checked_sub(1) else { return false };
                self.work = work;
                placed.push(now);
                now = Branch { from: end, next: 0, ..now };
            } else if let Some(next) = self.start_of(now.hole + 1) {
                now = next;
            } else {
                // Back to the range that was placed last: another one comes in its place.
                let Some(last) = placed.pop() else { return false };
                self.places[last.next] = None;
                self.waiting |= 1 << last.next;
                now = Branch { next: last.next + 1, ..last };
            }
        }
        true
    }

    fn start_of(&self, hole: usize) -> Option<Branch> {
        self.holes.get(hole).map(|(at, _)| Branch { hole, from: at.offset, next: 0 })
    }

    /// Places the next range that fits, from the one that a branch names on, which it names then. Returns its end.
    fn place_next(&mut self, now: &mut Branch) -> Option<u64> {
        let (At { block, .. }, end) = self.holes[now.hole];
        // Of equal ranges, which are neighbours, the first that is not placed stands for all.
        //   ranges, largest first    A    B    B    C        A is placed
        //   waiting                       B    B    C
        //   waiting, but repeated              B             the one before it waits too, and a search from either finds the same
        //   open                          B         C
        let mut open = self.waiting & !((self.waiting << 1) & self.repeated);
        open &= RangeSet::MAX.checked_shl(now.next as u32).unwrap_or(0);
        // The last open range is the smallest. If it does not fit, as in most calls, none does.
        if open == 0 || self.ranges[open.ilog2() as usize].1.bytes > end - now.from {
            return None;
        }
        while open != 0 {
            let next = open.trailing_zeros() as usize;
            open &= open - 1;
            let Wanted { bytes, alignment, .. } = self.ranges[next].1;
            let start = alignment.align_up(now.from);
            if start + bytes <= end {
                self.places[next] = Some(At { block, offset: start });
                self.waiting &= !(1 << next);
                now.next = next;
                return Some(start + bytes);
            }
        }
        None
    }
}

fn needs(layout: &Layout, item: u32) -> Wanted {
    Wanted { bytes: layout.item(item).bytes, alignment: layout.item(item).alignment, missing: None }
}

/// Takes the smallest hole for a range.
fn take_hole(layout: &mut Layout, wanted: Wanted) -> Option<At> {
    let at = hole_for(layout, wanted, None)?;
    layout.add(wanted.bytes, at);
    Some(at)
}

/// Returns the steps by which items come to their places, in an order in which each finds its place free, and the bytes
/// that they copy. Where all places wait for each other, an item goes aside; `None` where it may not.
async fn in_steps(
    layout: &Layout,
    mut targets: Vec<(u32, At)>,
    pace: &mut Pace,
) -> Option<(Vec<(u32, Place)>, u64)> {
    let mut layout = layout.copy(false, pace).await;
    let (mut steps, mut cost) = (Vec::new(), 0_u64);
    targets.retain(|&(item, to)| layout.place(item) != Some(to));
    // From the lowest place up, so that items that move down make room for the next.
    pace.sort_by_key(&mut targets, |&(_, to)| to).await;
    while !targets.is_empty() {
        let before = targets.len();
        let mut waiting = Vec::with_capacity(before);
        for (item, to) in targets {
            if layout.is_free(to, layout.item(item).bytes) {
                layout.step(item, Place::At(to));
                steps.push((item, Place::At(to)));
                cost = cost.saturating_add(layout.item(item).cost.unwrap_or(0));
            } else {
                waiting.push((item, to));
            }
            pace.step().await;
        }
        targets = waiting;
        if targets.len() == before {
            // No place is free, so the items that are left wait for each other in circles. One of them goes aside, and the
            // others of its circle follow one after the other, until its own place is free:
            //   B wants A's place, A wants B's     A ► aside    B ► where A was    A ► where B was
            // The cheapest that is in its own way only, or else the cheapest.
            let mut cheapest = None;
            for &(item, to) in &targets {
                pace.step().await;
                let Some(at) = layout.place(item) else { continue };
                let bytes = layout.item(item).bytes;
                let in_its_own_way = at.block == to.block && at.offset.abs_diff(to.offset) < bytes;
                let price = (!in_its_own_way, layout.item(item).cost);
                if cheapest.is_none_or(|(least, _)| price < least) {
                    cheapest = Some((price, item));
                }
            }
            let Some((_, item)) = cheapest.filter(|_| layout.aside) else {
                layout.discard(pace).await;
                return None;
            };
            layout.step(item, Place::Aside);
            steps.push((item, Place::Aside));
            cost = cost.saturating_add(layout.item(item).cost.unwrap_or(0));
        }
    }
    layout.discard(pace).await;
    Some((steps, cost))
}

//! The groups of allocations that have a colour each.

use core::cmp::Reverse;
use std::borrow::Cow;
use std::collections::HashMap;

use allotment_trace::recording::Event;

use super::ColourBy;
use crate::call_site::short_call_site;
use crate::cursor::Cursor;
use crate::grouping::name_prefix;
use crate::scope::Scope;
use crate::tables::kind;
use crate::timeline::{AllocationIndex, NONE, Status, Timeline};

/// Sizes in bytes from which on the next group begins.
const SIZES: [u64; 5] = [(4 << 10) + 1, (64 << 10) + 1, (1 << 20) + 1, (16 << 20) + 1, (256 << 20) + 1];
const SIZE_NAMES: [&str; 6] =
    ["up to 4 KiB", "up to 64 KiB", "up to 1 MiB", "up to 16 MiB", "up to 256 MiB", "more than 256 MiB"];

/// Frames or events from which on the next group begins.
const TIMES: [u64; 4] = [1, 10, 100, 1000];
const FRAME_NAMES: [&str; 5] =
    ["within a frame", "1 to 9 frames", "10 to 99 frames", "100 to 999 frames", "1,000 frames or more"];
const EVENT_NAMES: [&str; 5] = [
    "up to 99 events",
    "up to 999 events",
    "up to 9,999 events",
    "up to 99,999 events",
    "100,000 events or more",
];
/// Events that count as one frame does: a recording without frames has nothing else to go by.
const EVENTS_A_FRAME: u64 = 100;

/// Some allocations with one colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColourGroup {
    /// What they have in common.
    pub name: String,
    /// How many there are.
    pub count: u64,
    /// Bytes that were requested for them.
    pub bytes: u64,
}

/// A few groups of the allocations of a recording, each with a colour of its own. They are the same at every moment, so that a
/// colour means one thing while the cursor moves.
///
/// ```
/// use allotment_analyze::{ColourBy, ColourGroups, Timeline};
/// use allotment_trace::recording::Recording;
///
/// let recording = Recording::default();
/// let groups = ColourGroups::new(&Timeline::new(&recording), ColourBy::Size);
/// assert_eq!(groups.names().next(), Some("up to 4 KiB"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColourGroups {
    by: ColourBy,
    names: Vec<String>,
    /// The group of each allocation, where it does not depend on the moment.
    fixed: Box<[u8]>,
    has_others: bool,
}

impl ColourGroups {
    /// The most groups. The last of so many has all that the largest others do not have.
    pub const MOST: usize = 11;

    /// Groups the allocations of a recording. The groups with the most bytes at once have a colour each; what is left is one
    /// more. Costs some 100 ns an allocation.
    #[must_use]
    pub fn new(timeline: &Timeline<'_>, by: ColourBy) -> Self {
        let all = |of: fn(&Timeline<'_>, AllocationIndex) -> usize| {
            timeline.allocations().map(|allocation| of(timeline, allocation) as u8).collect()
        };
        let (names, fixed): (&[&str], Box<[u8]>) = match by {
            ColourBy::State => (&["used", "pending release", "moving"], Box::default()),
            ColourBy::Size => (&SIZE_NAMES, all(|timeline, one| step(&SIZES, timeline.requested(one)))),
            ColourBy::Age if timeline.frame_count() > 0 => (&FRAME_NAMES, Box::default()),
            ColourBy::Age => (&EVENT_NAMES, Box::default()),
            ColourBy::Lifetime => return Self::of_lifetimes(timeline),
            ColourBy::Movability => (&["was moved", "may be moved", "stays"], all(movability)),
            ColourBy::Kind
            | ColourBy::Category
            | ColourBy::Pool
            | ColourBy::NameGroup
            | ColourBy::CallSite => return Self::of_keys(timeline, by),
        };
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Self { by, names, fixed, has_others: false }
    }

    fn of_lifetimes(timeline: &Timeline<'_>) -> Self {
        let names = if timeline.frame_count() > 0 { FRAME_NAMES } else { EVENT_NAMES };
        let never = names.len() as u8;
        let of = |allocation| {
            let life = timeline.lifetime(allocation);
            life.freed.map_or(never, |freed| step(&TIMES, elapsed(timeline, life.allocated, freed)) as u8)
        };
        let fixed = timeline.allocations().map(of).collect();
        let names = names.into_iter().chain(["never freed"]).map(str::to_owned).collect();
        Self { by: ColourBy::Lifetime, names, fixed, has_others: false }
    }

    /// Groups by texts, of which there may be any number.
    fn of_keys(timeline: &Timeline<'_>, by: ColourBy) -> Self {
        let mut numbers: HashMap<Cow<'_, str>, u32> = HashMap::new();
        let mut keys = Vec::with_capacity(timeline.allocation_count());
        for allocation in timeline.allocations() {
            let next = numbers.len() as u32;
            keys.push(*numbers.entry(key(timeline, by, allocation)).or_insert(next));
        }
        let peaks = peaks(timeline, &keys, numbers.len());
        let mut texts = vec![Cow::default(); numbers.len()];
        for (text, number) in numbers {
            texts[number as usize] = text;
        }
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&key| (Reverse(peaks[key]), key));
        let own = if order.len() > Self::MOST { Self::MOST - 1 } else { order.len() };
        let mut groups = vec![own as u8; order.len()];
        for (group, &key) in order[..own].iter().enumerate() {
            groups[key] = group as u8;
        }
        let mut names: Vec<_> = order[..own].iter().map(|&key| shown(by, &texts[key])).collect();
        let has_others = own < order.len();
        if has_others {
            names.push(format!("{} others", order.len() - own));
        }
        let fixed = keys.into_iter().map(|key| groups[key as usize]).collect();
        Self { by, names, fixed, has_others }
    }

    /// Returns what the groups tell apart.
    #[must_use]
    pub const fn by(&self) -> ColourBy {
        self.by
    }

    /// Returns how many groups there are: at most [`MOST`](Self::MOST).
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns true if there is no group, as in a recording without allocations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the names of the groups, in their order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns true for the group of all that has no group of its own.
    #[must_use]
    pub fn is_others(&self, group: usize) -> bool {
        self.has_others && group + 1 == self.names.len()
    }

    /// Returns the group of an allocation at a position where it exists: the last one where it came after the groups were made, of
    /// a recording that goes on.
    #[must_use]
    pub fn of(&self, timeline: &Timeline<'_>, allocation: AllocationIndex, position: u64) -> usize {
        match self.by {
            ColourBy::State => match timeline.status_at(allocation, position) {
                Status::Used => 0,
                Status::Pending => 1,
                Status::Reserved => 2,
            },
            ColourBy::Age => {
                step(&TIMES, elapsed(timeline, timeline.lifetime(allocation).allocated, position))
            }
            _ => match self.fixed.get(allocation.0 as usize) {
                Some(&group) => group.into(),
                None => self.names.len().saturating_sub(1),
            },
        }
    }

    /// Returns each group with the allocations that exist where a cursor is, in the order of the groups. What a move has
    /// reserved counts only by [`ColourBy::State`], since it is a second place of an allocation. Some 50 ns an allocation.
    #[must_use]
    pub fn legend(&self, cursor: &Cursor<'_, '_>, scope: Scope) -> Vec<ColourGroup> {
        let mut groups: Vec<_> =
            self.names.iter().map(|name| ColourGroup { name: name.clone(), count: 0, bytes: 0 }).collect();
        let (timeline, position) = (cursor.timeline(), cursor.position());
        for allocation in cursor.allocations() {
            if let Some((group, bytes)) = self.counted(timeline, allocation, position, scope) {
                groups[group].count += 1;
                groups[group].bytes = groups[group].bytes.saturating_add(bytes);
            }
        }
        groups
    }

    /// The group of an allocation that exists and the bytes that it adds to it; `None` where it is not counted.
    pub(super) fn counted(
        &self,
        timeline: &Timeline<'_>,
        allocation: AllocationIndex,
        position: u64,
        scope: Scope,
    ) -> Option<(usize, u64)> {
        let is_reserved = timeline.status_at(allocation, position) == Status::Reserved;
        if is_reserved && self.by != ColourBy::State {
            return None;
        }
        if scope != Scope::All && !scope.contains(timeline, timeline.place_at(allocation, position).block) {
            return None;
        }
        Some((self.of(timeline, allocation, position), timeline.requested(allocation)))
    }

    /// The next position, after one, at which an allocation that exists is of another age; `None` where it stays.
    pub(super) fn next_age(
        &self,
        timeline: &Timeline<'_>,
        allocation: AllocationIndex,
        position: u64,
    ) -> Option<u64> {
        if self.by != ColourBy::Age {
            return None;
        }
        let allocated = timeline.lifetime(allocation).allocated;
        let limit = *TIMES.get(step(&TIMES, elapsed(timeline, allocated, position)))?;
        Some(if timeline.frame_count() > 0 {
            // The first position at which so many frames have ended.
            timeline.position_of_frame(timeline.moment(allocated).frame + limit - 1).saturating_add(1)
        } else {
            allocated + limit * EVENTS_A_FRAME
        })
    }
}

/// The number of limits that a value has reached.
fn step(limits: &[u64], value: u64) -> usize {
    limits.partition_point(|&limit| limit <= value)
}

/// The frames between two positions, or what stands for them in a recording without frames.
fn elapsed(timeline: &Timeline<'_>, from: u64, to: u64) -> u64 {
    if timeline.frame_count() > 0 {
        timeline.moment(to).frame.saturating_sub(timeline.moment(from).frame)
    } else {
        to.saturating_sub(from) / EVENTS_A_FRAME
    }
}

fn movability(timeline: &Timeline<'_>, allocation: AllocationIndex) -> usize {
    let is_movable = || {
        let live = timeline.allocation_at(allocation, timeline.lifetime(allocation).allocated + 1);
        live.is_some_and(|live| live.is.movable)
    };
    if timeline.moves_of(allocation).next().is_some() {
        0
    } else if is_movable() {
        1
    } else {
        2
    }
}

/// What the allocations of a group have in common; empty where they have no such text.
fn key<'a>(timeline: &Timeline<'a>, by: ColourBy, allocation: AllocationIndex) -> Cow<'a, str> {
    let text = |id| timeline.recording().text(id).unwrap_or("");
    let texts = || timeline.texts(allocation);
    match by {
        ColourBy::Kind => timeline.allocated(allocation.0).map_or("", |is| kind(is.kind)).into(),
        ColourBy::Category => text(texts().category).into(),
        ColourBy::NameGroup => name_prefix(text(texts().name)).into(),
        ColourBy::CallSite => text(texts().call_site).into(),
        ColourBy::Pool => {
            let block = timeline.place_at(allocation, timeline.lifetime(allocation).allocated + 1).block;
            timeline.block_info(block).pool.map_or_else(Cow::default, |pool| {
                let name = timeline.pool_info(pool).map_or("", |(_, is)| text(is.name));
                let label = timeline.pool_label(pool);
                if name == label { name.into() } else { label.to_owned().into() }
            })
        }
        ColourBy::State | ColourBy::Size | ColourBy::Age | ColourBy::Lifetime | ColourBy::Movability => {
            Cow::default()
        }
    }
}

/// The name of a group in the legend.
fn shown(by: ColourBy, key: &str) -> String {
    match (by, key) {
        (ColourBy::Kind, "") => "kind not known".to_owned(),
        (ColourBy::CallSite, "") => "no call site".to_owned(),
        (_, "") => format!("no {}", if by == ColourBy::NameGroup { "name" } else { by.name() }),
        (ColourBy::CallSite, site) => short_call_site(site).to_string(),
        (_, key) => key.to_owned(),
    }
}

/// The most requested bytes that the allocations of each key had at once.
fn peaks(timeline: &Timeline<'_>, keys: &[u32], count: usize) -> Vec<u64> {
    let (mut now, mut most) = (vec![0u64; count], vec![0u64; count]);
    // What exists is counted by its own flag, so that a loss of events takes exactly what had been added.
    let mut exists = vec![false; keys.len()];
    for position in 0..timeline.end() as u32 {
        let row = timeline.target(position);
        match timeline.event(position) {
            Event::Allocated(_) if row != NONE => {
                let key = keys[row as usize] as usize;
                exists[row as usize] = true;
                now[key] = now[key].saturating_add(timeline.requested(AllocationIndex(row)));
                most[key] = most[key].max(now[key]);
            }
            Event::Freed { .. } if row != NONE && exists[row as usize] => {
                let key = keys[row as usize] as usize;
                exists[row as usize] = false;
                now[key] = now[key].saturating_sub(timeline.requested(AllocationIndex(row)));
            }
            Event::Lost => {
                exists.fill(false);
                now.fill(0);
            }
            _ => {}
        }
    }
    most
}

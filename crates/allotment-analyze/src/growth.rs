//! What groups of allocations needed in two recordings of one program, and which need more than they may.
//!
//! Two runs are compared by their peaks, since their ends may have nothing left. Groups are paired by their texts. A call
//! site has the number of a line, which moves with every change of the file above it:
//!
//! ```text
//!   old   sky.rs:10  sky.rs:40              fog.rs:7
//!   new   sky.rs:12  sky.rs:43              fog.rs:7  fog.rs:20
//!         as many in both: paired in order  else: the file is one group
//! ```

use core::cmp::Reverse;
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use allotment_trace::recording::{Event, Extent};

use crate::call_site::{file_and_line, short_path};
use crate::grouping::Grouping;
use crate::groups::{CommonName, NameCounts};
use crate::scope::Scope;
use crate::series::{Peak, Peaks};
use crate::timeline::{AllocationIndex, NONE, Status, Timeline};

/// What allocations needed over a whole recording.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Need {
    /// The most bytes that were requested for those that existed at once.
    pub peak: Peak,
    /// How many were made.
    pub allocations: u64,
    /// How many were made a frame, in the second half of the frames, so that what a program loads first does not count.
    /// `None` where the recording has no frames.
    pub per_frame: Option<f64>,
}

/// What one group needed in both recordings.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupGrowth {
    /// The group: as [`Grouping::of`] says, in the new recording where it is there; or a file, whose call sites are not
    /// equally many in both.
    pub key: String,
    /// The name that most of its allocations have.
    pub name: CommonName,
    /// In the old recording; `None` where it is not there.
    pub old: Option<Need>,
    /// In the new recording; `None` where it is not there.
    pub new: Option<Need>,
}

/// What each group needed in two recordings. Reservations of defragmentation are left out.
///
/// ```
/// use allotment_analyze::{Growth, Grouping, Timeline};
/// use allotment_trace::recording::Recording;
///
/// let recording = Recording::default();
/// let timeline = Timeline::new(&recording);
/// assert!(Growth::between(&timeline, &timeline, Grouping::Name).groups.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    /// The peaks of the bytes of all blocks, in the old and in the new recording.
    pub blocks: [Peak; 2],
    /// All allocations together, in the old and in the new recording.
    pub all: [Need; 2],
    /// The groups, the largest growth of the peak first, the largest shrinkage last.
    pub groups: Vec<GroupGrowth>,
}

/// How much more a new recording may need than an old one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MostGrowth {
    /// A share of what the old one needed: 0.05 is 5 %.
    Share(f64),
    /// Bytes.
    Bytes(u64),
}

/// How much more each group may need.
///
/// A group of a few bytes that doubles is noise, so that a group may always grow by some bytes, however few it had. They are
/// a tenth of what all together may grow by, unless `least` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrowthBound {
    /// The bound of each group, and of all together.
    pub most: MostGrowth,
    /// The bytes by which each group may grow at least; `None` for a tenth of what all together may grow by.
    pub least: Option<u64>,
}

impl Need {
    /// Returns what all allocations of a recording needed. Costs a walk over its events.
    #[must_use]
    pub fn of(timeline: &Timeline<'_>) -> Self {
        Sums::of(timeline, |_| "").all.need
    }
}

impl GrowthBound {
    /// The allocations a frame by which each group may grow at least. One more in every frame is a change; one in ten
    /// frames may be another length of the run.
    pub const LEAST_PER_FRAME: f64 = 0.5;

    /// Returns by how many bytes all together may grow.
    #[must_use]
    pub fn of_all(&self, old: u64) -> u64 {
        match self.most {
            // Rounded down: the sum of a few bytes is not the matter.
            MostGrowth::Share(share) => (old as f64 * share) as u64,
            MostGrowth::Bytes(bytes) => bytes,
        }
    }

    /// Returns by how many bytes a group may grow that had `old` at its peak, where all together had `all`.
    #[must_use]
    pub fn of_group(&self, old: u64, all: u64) -> u64 {
        self.of_all(old).max(self.least.unwrap_or(self.of_all(all) / 10))
    }

    /// Returns how many allocations a frame may be made where `old` were made. `None` where the bound is of bytes alone.
    #[must_use]
    pub fn per_frame(&self, old: f64) -> Option<f64> {
        match self.most {
            MostGrowth::Share(share) => Some(old + (old * share).max(Self::LEAST_PER_FRAME)),
            MostGrowth::Bytes(_) => None,
        }
    }
}

impl GroupGrowth {
    /// Returns how many more bytes it needs at its peak in the new recording.
    #[must_use]
    pub fn grown(&self) -> i128 {
        let bytes = |need: Option<Need>| need.map_or(0, |need| i128::from(need.peak.bytes));
        bytes(self.new) - bytes(self.old)
    }

    /// Returns true if it grew by more bytes than it may. `all` is the peak of all together in the old recording.
    #[must_use]
    pub fn has_too_many_bytes(&self, bound: &GrowthBound, all: u64) -> bool {
        let old = self.old.map_or(0, |need| need.peak.bytes);
        self.grown() > i128::from(bound.of_group(old, all))
    }

    /// Returns true if more allocations a frame are made than may be. False where the old recording has no frames, which
    /// `all` of it tells.
    #[must_use]
    pub fn has_too_many_allocations(&self, bound: &GrowthBound, all: &Need) -> bool {
        let old = self.old.unwrap_or_default().per_frame.unwrap_or(0.0);
        let new = self.new.and_then(|need| need.per_frame);
        let most = bound.per_frame(old).filter(|_| all.per_frame.is_some());
        matches!((new, most), (Some(new), Some(most)) if new > most)
    }
}

impl Growth {
    /// Compares two recordings. Costs a walk over the events of each.
    #[must_use]
    pub fn between(old: &Timeline<'_>, new: &Timeline<'_>, grouping: Grouping) -> Self {
        let keys = [old, new].map(|timeline| keys(timeline, grouping));
        let pairs = Pairs::of(&keys[0], &keys[1], grouping);
        let mut groups: BTreeMap<&str, [Option<(Need, CommonName)>; 2]> = BTreeMap::new();
        let mut growth = Self::default();
        for (side, timeline) in [old, new].into_iter().enumerate() {
            let sums = Sums::of(timeline, |row| pairs.group(side, grouping.of(timeline, row)));
            growth.blocks[side] = Peaks::of(timeline, Scope::All).blocks;
            growth.all[side] = sums.all.need;
            for (key, sum) in sums.of_each {
                groups.entry(key).or_default()[side] = Some((sum.need, sum.names.commonest()));
            }
        }
        let group = |(key, [old, new]): (&str, [Option<(Need, CommonName)>; 2])| GroupGrowth {
            key: key.to_owned(),
            old: old.as_ref().map(|it| it.0),
            new: new.as_ref().map(|it| it.0),
            name: new.or(old).map(|it| it.1).unwrap_or_default(),
        };
        growth.groups = groups.into_iter().map(group).collect();
        growth.groups.sort_by_key(|group| Reverse(group.grown()));
        growth
    }
}

/// The groups that a recording has.
fn keys<'a>(timeline: &Timeline<'a>, grouping: Grouping) -> BTreeSet<&'a str> {
    timeline.allocations().map(|row| grouping.of(timeline, row)).collect()
}

/// Which groups of two recordings are one.
#[derive(Debug, Default)]
struct Pairs<'k> {
    /// The common group of a group of each, where it is another.
    of: [HashMap<&'k str, &'k str>; 2],
}

impl<'k> Pairs<'k> {
    fn of(old: &BTreeSet<&'k str>, new: &BTreeSet<&'k str>, grouping: Grouping) -> Self {
        let mut pairs = Self::default();
        if grouping != Grouping::CallSite {
            return pairs;
        }
        let (mut in_old, in_new) = (files(old), files(new));
        for (file, new) in in_new {
            let old = in_old.remove(file).unwrap_or_default();
            if old.len() == new.len() {
                pairs.of[0].extend(old.iter().zip(&new).map(|(old, new)| (old.1, new.1)));
            } else if !old.is_empty() {
                pairs.of[0].extend(old.iter().map(|(_, site)| (*site, file)));
                pairs.of[1].extend(new.iter().map(|(_, site)| (*site, file)));
            }
        }
        pairs
    }

    fn group<'a>(&self, side: usize, key: &'a str) -> &'a str
    where
        'k: 'a,
    {
        self.of[side].get(key).copied().unwrap_or(key)
    }
}

/// The call sites of each file, in the order of their lines.
fn files<'k>(keys: &BTreeSet<&'k str>) -> BTreeMap<&'k str, Vec<([u64; 2], &'k str)>> {
    let mut files: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for &site in keys {
        if let Some((file, place)) = file_and_line(site) {
            files.entry(short_path(file)).or_default().push((place, site));
        }
    }
    files.values_mut().for_each(|sites| sites.sort_unstable());
    files
}

/// What a group has at a moment of the walk, and what it needed up to there.
#[derive(Debug, Default)]
struct Sum<'a> {
    need: Need,
    now: u128,
    /// Allocations of the second half of the frames.
    late: u64,
    names: NameCounts<'a>,
}

struct Sums<'a, 'k> {
    of_each: BTreeMap<&'k str, Sum<'a>>,
    all: Sum<'a>,
}

impl<'a, 'k> Sums<'a, 'k> {
    fn of(timeline: &Timeline<'a>, group: impl Fn(AllocationIndex) -> &'k str) -> Self {
        let mut walk = Walk::new(timeline, group);
        for position in 0..timeline.end() {
            walk.step(position as u32);
        }
        walk.finish()
    }
}

struct Walk<'t, 'a, 'k> {
    timeline: &'t Timeline<'a>,
    keys: Vec<&'k str>,
    groups: Vec<u32>,
    sums: Vec<Sum<'a>>,
    all: Sum<'a>,
    /// Whether an allocation is counted now.
    counted: Vec<bool>,
    /// The events of the second half of the frames, and how many frames those are.
    late: Range<u64>,
    late_frames: u64,
}

impl<'t, 'a, 'k> Walk<'t, 'a, 'k> {
    fn new(timeline: &'t Timeline<'a>, group: impl Fn(AllocationIndex) -> &'k str) -> Self {
        let mut index = HashMap::new();
        let mut keys = Vec::new();
        let mut number = |row| {
            let key = group(row);
            *index.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() as u32 - 1
            })
        };
        let groups: Vec<_> = timeline.allocations().map(&mut number).collect();
        let is_history = timeline.recording().header.extent == Extent::History;
        let frames = if is_history { timeline.frame_count() } else { 0 };
        let end_of = |frame| timeline.position_of_frame(frame);
        Self {
            timeline,
            groups,
            sums: keys.iter().map(|_| Sum::default()).collect(),
            keys,
            all: Sum::default(),
            counted: vec![false; timeline.allocation_count()],
            late: if frames > 1 { end_of(frames / 2 - 1) } else { 0 }..end_of(frames.saturating_sub(1)),
            late_frames: frames - frames / 2,
        }
    }

    /// Applies the event at a position.
    fn step(&mut self, event: u32) {
        let target = self.timeline.target(event);
        match self.timeline.event(event) {
            Event::Lost => {
                self.counted.fill(false);
                self.sums.iter_mut().chain([&mut self.all]).for_each(|sum| sum.now = 0);
            }
            _ if target == NONE => {}
            Event::Allocated(_) => {
                let row = AllocationIndex(target);
                // What becomes a reservation is one from its first moment on: nothing happens between the two events.
                if self.timeline.status_at(row, self.timeline.end()) != Status::Reserved {
                    self.add(row, u64::from(event));
                }
            }
            Event::Freed { .. } => self.remove(AllocationIndex(target)),
            _ => {}
        }
    }

    fn add(&mut self, row: AllocationIndex, event: u64) {
        let sum = &mut self.sums[self.groups[row.0 as usize] as usize];
        sum.names.add(self.timeline, row);
        let (bytes, moment) = (self.timeline.requested(row), self.timeline.moment(event + 1));
        for sum in [sum, &mut self.all] {
            sum.now += u128::from(bytes);
            sum.need.allocations += 1;
            sum.late += u64::from(self.late.contains(&event));
            let now = u64::try_from(sum.now).unwrap_or(u64::MAX);
            if now > sum.need.peak.bytes {
                sum.need.peak = Peak { bytes: now, moment };
            }
        }
        self.counted[row.0 as usize] = true;
    }

    fn remove(&mut self, row: AllocationIndex) {
        if core::mem::take(&mut self.counted[row.0 as usize]) {
            let bytes = u128::from(self.timeline.requested(row));
            self.sums[self.groups[row.0 as usize] as usize].now -= bytes;
            self.all.now -= bytes;
        }
    }

    fn finish(mut self) -> Sums<'a, 'k> {
        if self.late_frames > 0 {
            for sum in self.sums.iter_mut().chain([&mut self.all]) {
                sum.need.per_frame = Some(sum.late as f64 / self.late_frames as f64);
            }
        }
        let made = |sum: &Sum<'_>| sum.need.allocations > 0;
        let of_each = self.keys.into_iter().zip(self.sums).filter(|(_, sum)| made(sum)).collect();
        Sums { of_each, all: self.all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_sites_that_moved_by_some_lines_stay_one_group_and_those_that_cannot_be_paired_are_their_file() {
        let old = ["/a/game/src/sky.rs:10:5", "/a/game/src/sky.rs:9:5", "/a/game/src/fog.rs:7:1", "mesh"];
        let new = ["/b/game/src/sky.rs:12:5", "/b/game/src/sky.rs:43:9", "/b/game/src/fog.rs:7:1"];
        let new: BTreeSet<_> = new.into_iter().chain(["/b/game/src/fog.rs:20:1", "sea.rs:1"]).collect();
        let old = old.into_iter().collect();
        let pairs = Pairs::of(&old, &new, Grouping::CallSite);
        // Line 9 comes before line 10, and each machine has its own folders.
        assert_eq!(pairs.group(0, "/a/game/src/sky.rs:9:5"), "/b/game/src/sky.rs:12:5");
        assert_eq!(pairs.group(0, "/a/game/src/sky.rs:10:5"), "/b/game/src/sky.rs:43:9");
        for (side, site) in [(0, "/a/game/src/fog.rs:7:1"), (1, "/b/game/src/fog.rs:7:1")] {
            assert_eq!(pairs.group(side, site), "game/src/fog.rs");
        }
        for alone in ["mesh", "sea.rs:1"] {
            assert_eq!([pairs.group(0, alone), pairs.group(1, alone)], [alone; 2]);
        }
        let pairs = Pairs::of(&old, &new, Grouping::Name);
        assert_eq!(pairs.group(0, "/a/game/src/sky.rs:9:5"), "/a/game/src/sky.rs:9:5");
    }

    #[test]
    fn a_small_group_may_grow_by_a_tenth_of_what_all_may_grow_by() {
        let bound = GrowthBound { most: MostGrowth::Share(0.05), least: None };
        assert_eq!((bound.of_group(10, 100_000), bound.of_group(50_000, 100_000)), (500, 2500));
        let bound = GrowthBound { least: Some(7), ..bound };
        assert_eq!((bound.of_group(10, 100_000), bound.of_group(0, 100_000)), (7, 7));
        let bound = GrowthBound { most: MostGrowth::Bytes(64), least: None };
        assert_eq!((bound.of_group(0, 0), bound.of_all(1 << 40)), (64, 64));
        assert_eq!(bound.per_frame(3.0), None);
    }
}

//! Allocations in groups, with what each group has in all and when its allocations came.

use core::cmp::Reverse;
use core::fmt;
use std::collections::HashMap;

use allotment_trace::recording::Moment;

use crate::grouping::Grouping;
use crate::timeline::{AllocationIndex, Timeline};

/// Allocations of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationGroup {
    /// The call site, the name or what the allocations were grouped by. Empty where they have none.
    pub key: String,
    /// How many there are.
    pub count: u64,
    /// Bytes that were requested for them.
    pub bytes: u64,
    /// When the first of them was allocated.
    pub first: Moment,
    /// When the last of them was allocated.
    pub last: Moment,
    /// In how many frames one or more of them was allocated.
    pub frames: u64,
    /// The name that most of them have.
    pub name: CommonName,
    /// Some of them, the oldest first: at most [`AllocationGroup::EXAMPLES`].
    pub examples: Vec<AllocationIndex>,
}

impl AllocationGroup {
    /// How many allocations a group names.
    pub const EXAMPLES: usize = 16;

    /// What [`is_steady`](Self::is_steady) means, as a sentence.
    pub const STEADY: &'static str = "Steady where allocations came in 8 frames or more, in at least a quarter of all \
                                      frames since the first, and recently. A leak looks like that.";

    /// Returns how many of them came a frame, from the first to the last.
    #[must_use]
    pub fn per_frame(&self) -> f64 {
        self.count as f64 / (self.last.frame.saturating_sub(self.first.frame) + 1) as f64
    }

    /// Returns true if they look like a leak that goes on: they came in at least 8 different frames, in a quarter or
    /// more of all frames from the first on, and the last of them not long ago.
    #[must_use]
    pub fn is_steady(&self, now: Moment) -> bool {
        let span = now.frame.saturating_sub(self.first.frame) + 1;
        let quiet = now.frame.saturating_sub(self.last.frame);
        self.frames >= 8 && self.frames.saturating_mul(4) >= span && quiet.saturating_mul(4) <= span
    }
}

/// The name that most allocations of a group have.
///
/// [`Display`](fmt::Display) writes the name and how many others there are: `shadow map and 3 others`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonName {
    /// The name; of several that are equally common, the one that came first. Empty where no allocation has a name.
    pub name: String,
    /// How many other names there are.
    pub others: u64,
}

impl fmt::Display for CommonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.others {
            0 => Ok(()),
            1 => f.write_str(" and 1 other"),
            others => write!(f, " and {others} others"),
        }
    }
}

/// Counts names.
#[derive(Debug, Default)]
pub(crate) struct NameCounts<'a> {
    /// Of each name: how many have it, and how many names came before it.
    counts: HashMap<&'a str, (u64, usize)>,
}

impl<'a> NameCounts<'a> {
    /// Counts the name of an allocation, if it has one.
    pub(crate) fn add(&mut self, timeline: &Timeline<'a>, allocation: AllocationIndex) {
        let name = timeline.recording().text(timeline.texts(allocation).name).unwrap_or("");
        if !name.is_empty() {
            let order = self.counts.len();
            self.counts.entry(name).or_insert((0, order)).0 += 1;
        }
    }

    /// Returns the commonest name.
    pub(crate) fn commonest(&self) -> CommonName {
        let commonest = self.counts.iter().max_by_key(|&(_, &(count, order))| (count, Reverse(order)));
        commonest.map_or_else(CommonName::default, |(&name, _)| CommonName {
            name: name.to_owned(),
            others: self.counts.len() as u64 - 1,
        })
    }
}

/// Some allocations of a recording, in groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocationGroups {
    /// How many allocations there are.
    pub count: u64,
    /// Bytes that were requested for them.
    pub bytes: u64,
    /// The allocations by group, most bytes first.
    pub groups: Vec<AllocationGroup>,
}

impl AllocationGroups {
    /// Groups allocations. They must be in the order in which they were allocated, as [`AllocationIndex`] sorts them, so
    /// that each group sees its frames one after another.
    #[must_use]
    pub fn of(
        timeline: &Timeline<'_>,
        grouping: Grouping,
        allocations: impl IntoIterator<Item = AllocationIndex>,
    ) -> Self {
        let mut all = Self::default();
        let mut index = HashMap::new();
        let mut names = Vec::<NameCounts<'_>>::new();
        for allocation in allocations {
            let key = grouping.of(timeline, allocation);
            let bytes = timeline.requested(allocation);
            let moment = timeline.moment(timeline.lifetime(allocation).allocated);
            all.count += 1;
            all.bytes = all.bytes.saturating_add(bytes);
            let group = *index.entry(key).or_insert_with(|| {
                all.groups.push(AllocationGroup {
                    key: key.to_owned(),
                    count: 0,
                    bytes: 0,
                    first: moment,
                    last: moment,
                    frames: 0,
                    name: CommonName::default(),
                    examples: Vec::new(),
                });
                names.push(NameCounts::default());
                all.groups.len() - 1
            });
            names[group].add(timeline, allocation);
            let group = &mut all.groups[group];
            if group.count == 0 || moment.frame != group.last.frame {
                group.frames += 1;
            }
            group.count += 1;
            group.bytes = group.bytes.saturating_add(bytes);
            group.last = moment;
            if group.examples.len() < AllocationGroup::EXAMPLES {
                group.examples.push(allocation);
            }
        }
        for (group, names) in all.groups.iter_mut().zip(&names) {
            group.name = names.commonest();
        }
        all.groups.sort_by(|a, b| (b.bytes, b.count, &a.key).cmp(&(a.bytes, a.count, &b.key)));
        all
    }
}

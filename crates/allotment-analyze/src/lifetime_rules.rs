//! Fourteen questions about when allocations began and ended, as Unreal's Memory Insights asks them.
//!
//! Each compares the two ends of an allocation's life with up to four moments A ≤ B ≤ C ≤ D, and so each is the same
//! predicate: the allocation began in one range of positions and ended in another.
//!
//! ```text
//!                      A         B         C         D
//! active               ●━━━━━━━━━━━━━▸ any end
//! short living         │ ┣━━━━━┫ │
//! long living       ┣━━┿━━━━━━━━━┿━━┫
//! leaks                │ ┣━━━━━━━┿━━━━━━━━━┿━━▸
//! specific lifetime    │ ┣━━━━━━━┿━━━━━━━━━┿━━━━┫    │
//! ```

use core::ops::Range;

use crate::timeline::{AllocationIndex, Status, Timeline};

/// A question about the lifetime of allocations. The moments are positions: what an event at or after one does, happens
/// after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LifetimeRule {
    /// Exists at A.
    Active,
    /// Was allocated and freed before A.
    Before,
    /// Was allocated after A.
    After,
    /// Existed at A, and was freed by B.
    Decline,
    /// Was allocated between A and B, and existed at B.
    Growth,
    /// [`Growth`](Self::Growth), and as negative numbers [`Decline`](Self::Decline).
    GrowthAndDecline,
    /// Was freed between A and B.
    Frees,
    /// Was allocated between A and B.
    Allocations,
    /// Was allocated and freed between A and B.
    ShortLiving,
    /// Was allocated before A, and existed at B.
    LongLiving,
    /// Was allocated between A and B, and existed at C.
    Leaks,
    /// Was allocated between A and B, and freed between B and C.
    LimitedLifetime,
    /// Was allocated before A, and freed between B and C.
    DeclineOfLongLiving,
    /// Was allocated between A and B, and freed between C and D.
    SpecificLifetime,
}

/// The moment that counts as the end of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LifetimeEnd {
    /// The moment at which its range could be allocated again.
    #[default]
    Freed,
    /// The moment at which the program released it; where that is not known, the moment at which it was freed.
    Requested,
}

impl LifetimeRule {
    /// All rules.
    pub const ALL: [Self; 14] = [
        Self::Active,
        Self::Before,
        Self::After,
        Self::Decline,
        Self::Growth,
        Self::GrowthAndDecline,
        Self::Frees,
        Self::Allocations,
        Self::ShortLiving,
        Self::LongLiving,
        Self::Leaks,
        Self::LimitedLifetime,
        Self::DeclineOfLongLiving,
        Self::SpecificLifetime,
    ];

    /// Returns the rule's name: small letters, with hyphens between words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Before => "before",
            Self::After => "after",
            Self::Decline => "decline",
            Self::Growth => "growth",
            Self::GrowthAndDecline => "growth-and-decline",
            Self::Frees => "frees",
            Self::Allocations => "allocations",
            Self::ShortLiving => "short-living",
            Self::LongLiving => "long-living",
            Self::Leaks => "leaks",
            Self::LimitedLifetime => "limited-lifetime",
            Self::DeclineOfLongLiving => "decline-of-long-living",
            Self::SpecificLifetime => "specific-lifetime",
        }
    }

    /// Returns what the rule asks, as one sentence.
    #[must_use]
    pub const fn question(self) -> &'static str {
        match self {
            Self::Active => "Which allocations exist at A?",
            Self::Before => "Which allocations were freed before A?",
            Self::After => "Which allocations were made after A?",
            Self::Decline => "Which allocations existed at A, and were freed by B?",
            Self::Growth => "Which allocations were made between A and B, and exist at B?",
            Self::GrowthAndDecline => {
                "Which allocations were made between A and B, and exist at B; and which existed at A, and were freed by B?"
            }
            Self::Frees => "Which allocations were freed between A and B?",
            Self::Allocations => "Which allocations were made between A and B?",
            Self::ShortLiving => "Which allocations were made and freed between A and B?",
            Self::LongLiving => "Which allocations were made before A, and exist at B?",
            Self::Leaks => "Which allocations were made between A and B, and exist at C?",
            Self::LimitedLifetime => {
                "Which allocations were made between A and B, and freed between B and C?"
            }
            Self::DeclineOfLongLiving => "Which allocations were made before A, and freed between B and C?",
            Self::SpecificLifetime => {
                "Which allocations were made between A and B, and freed between C and D?"
            }
        }
    }

    /// Returns how many moments the rule looks at: 1 for A only, up to 4.
    #[must_use]
    pub const fn markers(self) -> usize {
        match self {
            Self::Active | Self::Before | Self::After => 1,
            Self::Leaks | Self::LimitedLifetime | Self::DeclineOfLongLiving => 3,
            Self::SpecificLifetime => 4,
            _ => 2,
        }
    }

    /// Returns whether an allocation that lived from one event to another is meant: `None` where not, else its sign,
    /// which is −1 for a decline of [`GrowthAndDecline`](Self::GrowthAndDecline) and 1 for all else. `ended` is the
    /// number of an event, or `None` for what exists to the end.
    ///
    /// Of `markers`, those that the rule looks at must be in their order; the others are ignored.
    ///
    /// ```
    /// use allotment_analyze::LifetimeRule;
    ///
    /// let leak = LifetimeRule::Leaks;
    /// assert_eq!(leak.matches(15, None, [10, 20, 30, 0]), Some(1));
    /// assert_eq!(leak.matches(15, Some(25), [10, 20, 30, 0]), None);
    /// ```
    #[must_use]
    pub fn matches(self, began: u64, ended: Option<u64>, markers: [u64; 4]) -> Option<i8> {
        if let Self::GrowthAndDecline = self {
            let negative = || Self::Decline.matches(began, ended, markers).map(|_| -1);
            return Self::Growth.matches(began, ended, markers).or_else(negative);
        }
        let (begin, end) = self.ranges(markers);
        // What never ends, ends after every event.
        let ended = ended.unwrap_or(u64::MAX);
        (begin.contains(&began) && (end.contains(&ended) || end.end == u64::MAX && ended == u64::MAX))
            .then_some(1)
    }

    /// Returns the events in which an allocation began, and those in which it ended; of
    /// [`GrowthAndDecline`](Self::GrowthAndDecline), those of the growth. `u64::MAX` is the end of time.
    #[must_use]
    pub const fn ranges(self, [a, b, c, d]: [u64; 4]) -> (Range<u64>, Range<u64>) {
        const END: u64 = u64::MAX;
        match self {
            Self::Active => (0..a, a..END),
            Self::Before => (0..a, 0..a),
            Self::After => (a..END, 0..END),
            Self::Decline => (0..a, a..b),
            Self::Growth | Self::GrowthAndDecline => (a..b, b..END),
            Self::Frees => (0..END, a..b),
            Self::Allocations => (a..b, 0..END),
            Self::ShortLiving => (a..b, a..b),
            Self::LongLiving => (0..a, b..END),
            Self::Leaks => (a..b, c..END),
            Self::LimitedLifetime => (a..b, b..c),
            Self::DeclineOfLongLiving => (0..a, b..c),
            Self::SpecificLifetime => (a..b, c..d),
        }
    }

    /// Returns the allocations that the rule means, in the order in which they were allocated, each with its sign.
    /// Reservations of defragmentation are none of the program's, and left out. Linear in all allocations of the
    /// recording, at a few nanoseconds each.
    ///
    /// ```
    /// use allotment_analyze::{AllocationGroups, Grouping, LifetimeEnd, LifetimeRule, Timeline};
    /// use allotment_trace::recording::Recording;
    ///
    /// let recording = Recording::default();
    /// let timeline = Timeline::new(&recording);
    /// let (a, b) = (0, timeline.end());
    /// let grown = LifetimeRule::Growth.query(&timeline, [a, b, 0, 0], LifetimeEnd::Freed);
    /// let groups = AllocationGroups::of(&timeline, Grouping::CallSite, grown.map(|(allocation, _)| allocation));
    /// assert_eq!(groups.count, 0);
    /// ```
    pub fn query(
        self,
        timeline: &Timeline<'_>,
        markers: [u64; 4],
        end: LifetimeEnd,
    ) -> impl Iterator<Item = (AllocationIndex, i8)> {
        let lives = timeline.lifetimes();
        let is_reservation = |allocation| timeline.status_at(allocation, timeline.end()) == Status::Reserved;
        lives.filter(move |&(allocation, _)| !is_reservation(allocation)).filter_map(
            move |(allocation, life)| {
                let ended = match end {
                    LifetimeEnd::Freed => life.freed,
                    LifetimeEnd::Requested => life.free_requested.or(life.freed),
                };
                Some((allocation, self.matches(life.allocated, ended, markers)?))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_name_of_its_own_and_a_question_with_all_its_moments() {
        for (k, rule) in LifetimeRule::ALL.into_iter().enumerate() {
            assert!(LifetimeRule::ALL[..k].iter().all(|other| other.name() != rule.name()), "{rule:?}");
            let named = ["A", "B", "C", "D"].map(|marker| {
                rule.question().split(|c: char| !c.is_alphanumeric()).any(|word| word == marker)
            });
            assert_eq!(named, [0, 1, 2, 3].map(|marker| marker < rule.markers()), "{rule:?}");
        }
    }
}

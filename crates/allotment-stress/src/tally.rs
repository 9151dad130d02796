//! What came of the calls.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use crate::Call;

/// Findings that are kept; one is enough, and a fault may show in each call after it.
const MOST_FINDINGS: usize = 40;

/// How many calls there were, how many were refused and why, and what was found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Worlds that were made and torn down.
    pub worlds: u64,
    /// Bytes that were read back and compared.
    pub bytes_checked: u64,
    /// Allocations and resources that passes and steps moved.
    pub moves: u64,
    /// Which calls took longest, and how long.
    longest: BTreeMap<Call, Duration>,
    made: BTreeMap<Call, u64>,
    refused: BTreeMap<(Call, String), u64>,
    findings: Vec<String>,
    more_findings: u64,
}

impl Tally {
    /// Counts a call that did what it was asked.
    pub(crate) fn made(&mut self, call: Call) {
        *self.made.entry(call).or_default() += 1;
    }

    /// Notes how long a call took, those within it included.
    pub(crate) fn took(&mut self, call: Call, time: Duration) {
        let longest = self.longest.entry(call).or_default();
        *longest = time.max(*longest);
    }

    /// Counts a call that was refused. A device that is lost, or refuses in its own words, is a finding.
    pub(crate) fn refused(&mut self, call: Call, error: &dyn fmt::Debug) {
        let all = format!("{error:?}");
        if all.contains("Lost") || all.contains("Other {") {
            self.find(format!("{call:?} was answered {all}"));
        }
        let why = all.split([' ', '{']).next().unwrap_or_default().to_owned();
        *self.refused.entry((call, why)).or_default() += 1;
    }

    /// Notes what must not be, of which more than a few are only counted.
    pub fn find(&mut self, finding: String) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }

    /// What must not have been: wrong bytes, panics, leaks, messages.
    #[must_use]
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Calls that did what they were asked.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.made.values().sum()
    }

    /// Calls of one kind that did what they were asked.
    #[must_use]
    pub fn calls_of(&self, call: Call) -> u64 {
        self.made.get(&call).copied().unwrap_or_default()
    }

    /// Calls that were refused.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Refusals of one kind of call, by the first word of their error.
    #[must_use]
    pub fn refusals_of(&self, call: Call) -> Vec<(&str, u64)> {
        let of_call = self.refused.iter().filter(|((found, _), _)| *found == call);
        of_call.map(|((_, why), count)| (why.as_str(), *count)).collect()
    }

    /// Adds what another thread or world came to.
    pub fn add(&mut self, other: Self) {
        self.worlds += other.worlds;
        self.bytes_checked += other.bytes_checked;
        self.moves += other.moves;
        for (call, count) in other.made {
            *self.made.entry(call).or_default() += count;
        }
        for (call, time) in other.longest {
            self.took(call, time);
        }
        for (why, count) in other.refused {
            *self.refused.entry(why).or_default() += count;
        }
        other.findings.into_iter().for_each(|finding| self.find(finding));
        self.more_findings += other.more_findings;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:16} {:>10} {:>10} {:>9}  refusals by error", "call", "made", "refused", "longest")?;
        for &call in Call::ALL {
            let refusals = self.refusals_of(call);
            let sum: u64 = refusals.iter().map(|(_, count)| count).sum();
            let (made, longest) = (self.calls_of(call), self.longest.get(&call).copied().unwrap_or_default());
            write!(f, "{:16} {made:>10} {sum:>10} {:>6} ms ", format!("{call:?}"), longest.as_millis())?;
            for (why, count) in refusals {
                write!(f, " {why} {count}")?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "{} worlds, {} calls, {} refusals, {} bytes compared, {} moves, {} findings",
            self.worlds,
            self.calls(),
            self.refusals(),
            self.bytes_checked,
            self.moves,
            self.findings.len() as u64 + self.more_findings
        )?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "FOUND: {finding}"))
    }
}

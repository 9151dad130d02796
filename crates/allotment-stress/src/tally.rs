//! Statistics of the calls.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use crate::Call;

/// Most findings that are kept; one is enough, and a bug may show in every call after it.
const MOST_FINDINGS: usize = 40;

/// The number of calls, the number of refusals by error, and the findings.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Worlds created and torn down.
    pub worlds: u64,
    /// Bytes read back and compared.
    pub bytes_checked: u64,
    /// Allocations and resources moved by passes and steps.
    pub moves: u64,
    /// The longest duration of each kind of call.
    longest: BTreeMap<Call, Duration>,
    made: BTreeMap<Call, u64>,
    refused: BTreeMap<(Call, String), u64>,
    findings: Vec<String>,
    more_findings: u64,
}

impl Tally {
    /// Counts a successful call.
    pub(crate) fn made(&mut self, call: Call) {
        *self.made.entry(call).or_default() += 1;
    }

    /// Records the duration of a call, including the calls within it.
    pub(crate) fn took(&mut self, call: Call, time: Duration) {
        let longest = self.longest.entry(call).or_default();
        *longest = time.max(*longest);
    }

    /// Counts a refused call. A lost device or a driver-specific error is a finding.
    pub(crate) fn refused(&mut self, call: Call, error: &dyn fmt::Debug) {
        let all = format!("{error:?}");
        if all.contains("Lost") || all.contains("Other {") {
            self.find(format!("{call:?} was answered {all}"));
        }
        let why = all.split([' ', '{']).next().unwrap_or_default().to_owned();
        *self.refused.entry((call, why)).or_default() += 1;
    }

    /// Adds a finding. Beyond a limit findings are only counted.
    pub fn find(&mut self, finding: String) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }

    /// Returns the findings: wrong bytes, panics, leaks, messages.
    #[must_use]
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Returns the number of successful calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.made.values().sum()
    }

    /// Returns the number of successful calls of one kind.
    #[must_use]
    pub fn calls_of(&self, call: Call) -> u64 {
        self.made.get(&call).copied().unwrap_or_default()
    }

    /// Returns the number of refused calls.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Returns the refusals of one kind of call, by the first word of their error.
    #[must_use]
    pub fn refusals_of(&self, call: Call) -> Vec<(&str, u64)> {
        let of_call = self.refused.iter().filter(|((found, _), _)| *found == call);
        of_call.map(|((_, why), count)| (why.as_str(), *count)).collect()
    }

    /// Adds the tally of another thread or world.
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

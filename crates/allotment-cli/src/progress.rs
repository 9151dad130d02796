//! The progress bar: on standard error if that is a terminal, otherwise hidden.
//!
//! Progress is counted in work, mostly bytes: the events of a trace differ too much in cost. The remaining time is
//! shown only while the rate is steady: when both halves of the recent past were about equally fast.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use allotment_trace::{Op, Resource, Trace};
use indicatif::{ProgressBar, ProgressStyle};

/// The work of an event itself, expressed in bytes filled or verified in the same time.
pub(crate) const EVENT: u64 = 2 << 10;

/// Minimum length of the recent past from which the rate is computed. It is at least a quarter of the elapsed time.
const WINDOW: Duration = Duration::from_secs(10);

/// Time that must be covered before an estimate is shown.
const LEAST: Duration = Duration::from_secs(3);

/// Interval between two samples of the rate.
const STEP: Duration = Duration::from_millis(250);

/// A progress bar; removed when dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    rate: Rate,
}

impl Progress {
    /// Shows a bar for `work` units.
    pub(crate) fn new(what: String, work: u64) -> Self {
        let bar = ProgressBar::new(work);
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {percent} %{prefix}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what);
        Self { bar, started: Instant::now(), rate: Rate::default() }
    }

    /// Sets the finished work.
    pub(crate) fn reach(&mut self, done: u64) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(done);
        let total = self.bar.length().unwrap_or(done);
        if self.rate.note(self.started.elapsed(), done) {
            let left = self.rate.left(total);
            self.bar
                .set_prefix(left.map_or_else(String::new, |left| format!(", about {} left", rounded(left))));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the work of a trace; `part` is the number of bytes of a resource that are filled and verified.
pub(crate) fn work(trace: &Trace, part: impl Fn(&Resource) -> u64) -> u64 {
    let of = |index| part(trace.resource(index));
    let events = trace.events().iter().map(|event| match event.op {
        Op::Allocate(index) | Op::Free(index) => EVENT.saturating_add(of(index)),
        Op::FrameEnd => EVENT,
    });
    let verified_at_end = trace.live_at_end().iter().map(|&index| of(index));
    events.chain(verified_at_end).fold(0, u64::saturating_add)
}

/// The rate of progress.
#[derive(Debug, Default)]
struct Rate {
    /// Recent samples: elapsed time and finished work.
    recent: VecDeque<(Duration, u64)>,
}

impl Rate {
    /// Adds a sample. Returns true if the display is due.
    fn note(&mut self, after: Duration, done: u64) -> bool {
        if self.recent.back().is_some_and(|&(last, _)| after < last + STEP) {
            return false;
        }
        self.recent.push_back((after, done));
        let window = WINDOW.max(after / 4);
        while self.recent.get(1).is_some_and(|&(second, _)| second + window <= after) {
            self.recent.pop_front();
        }
        true
    }

    /// Returns the remaining time at the recent rate; `None` while the rate is not steady.
    fn left(&self, total: u64) -> Option<Duration> {
        let (&(from, before), &(to, done)) = (self.recent.front()?, self.recent.back()?);
        if to - from < LEAST {
            return None;
        }
        let rate = |from: (Duration, u64), to: (Duration, u64)| {
            (to.1 - from.1) as f64 / (to.0 - from.0).as_secs_f64()
        };
        let half = from + (to - from) / 2;
        let middle = *self.recent.iter().find(|&&(at, _)| at >= half)?;
        let halves = [rate((from, before), middle), rate(middle, (to, done))];
        let steady = halves[0] <= 1.5 * halves[1] && halves[1] <= 1.5 * halves[0];
        let left = total.saturating_sub(done) as f64 / rate((from, before), (to, done));
        Duration::try_from_secs_f64(left).ok().filter(|_| steady)
    }
}

/// Formats a duration, rounded up to the precision of the estimate.
fn rounded(left: Duration) -> String {
    match left.as_secs() {
        0..10 => "10 s".to_owned(),
        seconds @ 10..90 => format!("{} s", seconds.next_multiple_of(10)),
        seconds @ 90..5400 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimates shown while pieces of work proceed, with the time that was really left; one per tick.
    fn said(pieces: &[(u64, Duration)]) -> Vec<(Duration, Duration)> {
        let total = pieces.iter().map(|piece| piece.0).sum();
        let end: Duration = pieces.iter().map(|piece| piece.1).sum();
        let (mut rate, mut done, mut now, mut said) = (Rate::default(), 0, Duration::ZERO, Vec::new());
        for &(work, time) in pieces {
            (done, now) = (done + work, now + time);
            if rate.note(now, done) {
                said.extend(rate.left(total).map(|left| (left, end - now)));
            }
        }
        said
    }

    fn assert_close(said: &[(Duration, Duration)], factor: f64) {
        for &(left, really) in said.iter().filter(|(_, really)| really.as_secs() > 1) {
            let ratio = left.as_secs_f64() / really.as_secs_f64();
            assert!(ratio < factor && ratio > 1.0 / factor, "{left:?} for {really:?}");
        }
    }

    #[test]
    fn even_work_is_estimated_to_the_point() {
        let said = said(&[(1000, Duration::from_millis(20)); 3000]);
        assert!(said.len() > 200);
        assert_close(&said, 1.02);
    }

    #[test]
    fn nothing_is_said_before_it_is_known() {
        assert_eq!(said(&[(1000, Duration::from_millis(100)); 30]), []);
        let stuck =
            [[(1000, Duration::from_millis(100)); 40], [(0, Duration::from_millis(100)); 40]].concat();
        assert!(said(&stuck).iter().all(|(left, _)| *left < Duration::from_secs(60)));
    }

    #[test]
    fn nothing_is_said_while_the_pace_changes() {
        // Fast, then fifteen times as slow.
        let fast = vec![(1000, Duration::from_millis(10)); 1500];
        let slow = vec![(1000, Duration::from_millis(150)); 1500];
        let said = said(&[fast, slow].concat());
        let after = |at: &&(Duration, Duration)| at.1 < Duration::from_secs(215);
        let late: Vec<_> = said.iter().filter(after).copied().collect();
        assert!(!late.is_empty(), "after a steady period the estimate is shown again");
        assert_close(&late, 1.5);
    }

    #[test]
    fn times_are_told_no_more_exactly_than_they_are_known() {
        let text = |seconds| rounded(Duration::from_secs(seconds));
        assert_eq!([text(3), text(41), text(295), text(9000)], ["10 s", "50 s", "5 min", "3 h"]);
    }

    #[test]
    fn the_bytes_of_a_trace_are_its_work() {
        let text = "op,id,size,alignment,kind,name\na,1,100,1,buffer,\na,2,50,1,buffer,\nm,,,,,\nf,1,,,,\n";
        let trace = Trace::read(text.as_bytes()).unwrap();
        // One is filled and verified, the other too, at the end.
        assert_eq!(work(&trace, Resource::size), 4 * EVENT + 300);
        assert_eq!(work(&trace, |_| 0), 4 * EVENT);
    }
}

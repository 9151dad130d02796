//! A rule of the check, and what was measured.

use allotment_analyze::Timeline;
use allotment_trace::recording::Unread;
use serde::Serialize;

use crate::inspect::args::Accepted;
use crate::inspect::load::does_not_say;
use crate::units::{bytes, count};

/// A measured value, or its limit.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    Whole(u64),
    Share(f64),
}

/// A rule and what was measured.
#[derive(Serialize)]
pub(super) struct Rule {
    pub(super) rule: &'static str,
    pub(super) ok: bool,
    /// `None` where the file does not say it.
    measured: Option<Value>,
    limit: Value,
    /// Both as text.
    #[serde(skip)]
    pub(super) texts: [String; 2],
    #[serde(skip)]
    pub(super) about: String,
}

impl Rule {
    pub(super) fn new(
        rule: &'static str,
        measured: Value,
        limit: Value,
        texts: [String; 2],
        about: String,
    ) -> Self {
        Self { rule, ok: measured <= limit, measured: Some(measured), limit, texts, about }
    }

    /// A rule about time. A dump of one moment fails it, since nothing shows that it holds: it does not say `what`.
    pub(super) fn about_time(self, timeline: &Timeline<'_>, what: &str) -> Self {
        if timeline.has_history() { self } else { self.not_known(what) }
    }

    /// A rule that fails since a dump of one moment does not say `what`.
    pub(super) fn not_known(self, what: &str) -> Self {
        let [_, limit] = self.texts;
        let texts = ["not known".to_owned(), limit];
        Self { ok: false, measured: None, texts, about: format!("the file {}", does_not_say(what)), ..self }
    }

    pub(super) fn bytes(rule: &'static str, measured: u64, limit: u64, about: String) -> Self {
        let texts = [bytes(measured), bytes(limit)];
        Self::new(rule, Value::Whole(measured), Value::Whole(limit), texts, about)
    }

    /// The rule that always holds or fails: that the file was read, or what of it was not is accepted.
    pub(super) fn unread(rule: &'static str, unread: &[Unread], accepted: &[Accepted]) -> Self {
        let sum = |is_accepted: bool| {
            let of_kind = |it: &&Unread| accepted.iter().any(|accepted| accepted.has(it.kind)) == is_accepted;
            unread.iter().filter(of_kind).fold(0, |sum: u64, it| sum.saturating_add(it.count.max(1)))
        };
        let (found, accepted) = (sum(false), sum(true));
        let about = match (found, accepted) {
            (0, 0) => "all of the file was read".to_owned(),
            (_, 0) => "parts of the file that were not read".to_owned(),
            _ => format!("parts of the file that were not read, and {} that are accepted", count(accepted)),
        };
        let texts = [count(found), count(0)];
        Self::new(rule, Value::Whole(found), Value::Whole(0), texts, about)
    }

    pub(super) const fn outcome(&self) -> &'static str {
        if self.ok { "ok" } else { "FAILED" }
    }
}

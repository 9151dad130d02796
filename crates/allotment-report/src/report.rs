//! The report: takes events one by one, so that a recording of any length need not be in memory, and writes the page.

use std::io::{self, Write};

use allotment_trace::recording::{Event, Header, Recording, State};

use crate::lives::Lives;
use crate::page;
use crate::payload::Content;

/// A report in the making.
///
/// It needs about 150 bytes for each allocation of the recording.
pub struct Report {
    title: String,
    header: Header,
    /// The model: it says which events are consistent.
    state: State,
    lives: Lives,
    /// Texts, and the moments that they are about.
    advice: Vec<(String, Option<u64>)>,
}

impl Report {
    /// Creates a report without events. The title is shown at the top of the page.
    #[must_use]
    pub fn new(title: &str, header: &Header) -> Self {
        let (title, header) = (title.to_owned(), header.clone());
        Self { title, header, state: State::default(), lives: Lives::default(), advice: Vec::new() }
    }

    /// Adds the next event.
    ///
    /// An event that contradicts those before it changes nothing; the page says how many there were.
    pub fn push(&mut self, event: &Event) {
        match self.state.apply(event) {
            Ok(()) => self.lives.accepted(event, self.state.now.frame),
            Err(_) => self.lives.contradicted(),
        }
    }

    /// Adds a piece of advice: a sentence about the recording, and the number of events before the moment that it is
    /// about, if any. The page lists them in this order.
    pub fn advise(&mut self, text: &str, moment: Option<u64>) {
        self.advice.push((text.to_owned(), moment));
    }

    /// Writes the page. `texts` are the recording's: [`TextId`](allotment_trace::recording::TextId) `n` is
    /// `texts[n - 1]`.
    ///
    /// Sizes, offsets and times above 2^53 − 1 are shown as that number.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(mut self, texts: &[String], out: impl Write) -> io::Result<()> {
        self.lives.sort_ranges();
        let Self { title, header, lives, advice, .. } = self;
        page::write(&Content { title, header, lives, advice, texts }, out)
    }
}

/// Writes the page of a recording in memory. The title is shown at its top.
///
/// # Errors
///
/// Those of `out`.
pub fn write_report(title: &str, recording: &Recording, out: impl Write) -> io::Result<()> {
    let mut report = Report::new(title, &recording.header);
    for event in &recording.events {
        report.push(event);
    }
    report.write(&recording.texts, out)
}

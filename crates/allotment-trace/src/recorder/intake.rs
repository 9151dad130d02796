//! The way of events from the library to those who keep them: the texts of each batch get numbers that stay.

use core::panic::Location;
use std::io;

use allotment::events::{Event, EventBatch, StackId, TextId};

use super::backtrace;
use crate::recording::{IdMap, StackFrame};

/// Something that keeps events: a file, a ring in memory, the viewers of a running program.
pub(crate) trait TakesEvents {
    /// Returns the number of a text.
    fn text(&mut self, text: &str) -> TextId;

    /// Returns the stack of a call, whose texts are numbers of [`text`](Self::text). It is never forgotten.
    fn stack(&mut self, frame: StackFrame) -> StackId;

    /// Takes an event, whose texts are numbers of [`text`](Self::text).
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Forgets texts that nothing names any more, if it is time to. Returns true if some number may be another text's
    /// from now on.
    fn forget(&mut self) -> io::Result<bool>;
}

/// Passes batches on.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    /// What the subscription reads into.
    pub(crate) batch: EventBatch,
    /// The texts of call sites, by the address of the place: they are made into text once.
    sites: IdMap<usize, TextId>,
}

impl Intake {
    /// Passes the events of the batch on, and clears it.
    pub(crate) fn pass_on<T: TakesEvents>(&mut self, to: &mut T) -> io::Result<()> {
        let Self { batch, sites } = self;
        for event in batch.events() {
            let event = event.map_texts(|text| {
                if let Some(site) = batch.call_site(text) {
                    let address = core::ptr::from_ref::<Location<'_>>(site).addr();
                    *sites.entry(address).or_insert_with(|| to.text(&site.to_string()))
                } else {
                    batch.text(text).map_or(TextId::NONE, |text| to.text(&text))
                }
            });
            let event = event.map_stack(|stack| {
                let Some(backtrace) = batch.backtrace(stack) else { return StackId::NONE };
                backtrace::stack(backtrace, to, T::text, T::stack)
            });
            to.event(&event)?;
            if to.forget()? {
                // Their numbers may be other texts' now.
                sites.clear();
            }
        }
        batch.clear();
        Ok(())
    }
}

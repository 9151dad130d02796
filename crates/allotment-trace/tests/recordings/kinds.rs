//! Every kind of event is encoded and comes back. An event that was added to the library, and not to the format or to
//! the generated events, fails here: `Event` is `#[non_exhaustive]`, so the compiler does not ask for it.

use std::collections::BTreeMap;

use allotment::events::EventKind;
use allotment_trace::recording::{Event, Recording, WriterDesc};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use crate::events::{any_event, header, texts, with_stacks};
use crate::files::file;

/// Enough that each kind is among them: the rarest is one in 160. They are the same in each run.
const SAMPLES: usize = 5000;

#[test]
fn every_kind_of_event_is_encoded_and_comes_back() {
    let mut runner = TestRunner::deterministic();
    let strategy = any_event(9);
    let mut by_kind: BTreeMap<EventKind, Vec<Event>> = BTreeMap::new();
    for _ in 0..SAMPLES {
        let event = strategy.new_tree(&mut runner).unwrap().current();
        by_kind.entry(event.kind()).or_default().push(event);
    }
    for kind in EventKind::ALL {
        let events = by_kind.remove(kind).unwrap_or_else(|| panic!("no event is generated of {kind:?}"));
        let recording = Recording { header: header(), texts: texts(9), events, ..with_stacks(9) };
        // The file's summary counts the events, so an event that the format does not have is noticed there.
        let file = file(&recording, usize::MAX, &WriterDesc::default());
        assert_eq!(Recording::read(&*file).unwrap(), (recording, None), "{kind:?}");
    }
}

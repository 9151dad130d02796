//! The server without sockets: whole scripts, and what each mechanism does.

use proptest::collection::vec;
use proptest::prelude::{any, proptest};

use super::in_memory::{Outcome, run};

/// The bytes of a script: a step, and its operand.
fn script(steps: &[(u8, u8)]) -> Vec<u8> {
    steps.iter().map(|(step, operand)| step | operand << 3).collect()
}

const FEW: u8 = 0;
const MANY: u8 = 1;
const COME: u8 = 2;
const READ: u8 = 4;
const HANG_UP: u8 = 5;

#[test]
fn a_late_viewer_gets_the_whole_state_and_what_follows() {
    let outcome = run(&script(&[(FEW, 31), (COME, 0), (FEW, 31), (READ, 30), (FEW, 31)]));
    assert_eq!((outcome.viewers, outcome.ended, outcome.dropped), (1, 1, 0));
}

#[test]
fn a_viewer_that_stops_reading_misses_events_and_then_gets_the_state() {
    let mut steps = vec![(COME, 0), (READ, 30)];
    steps.extend([(MANY, 31); 8]);
    steps.extend([(READ, 30), (READ, 30), (FEW, 3)]);
    let outcome = run(&script(&steps));
    assert_eq!((outcome.viewers, outcome.ended), (1, 1));
    assert!(outcome.dropped > 500, "{outcome:?}");
}

#[test]
fn a_slow_viewer_costs_another_one_nothing() {
    // The second reads all that there is, the first nothing before the end.
    let mut steps = vec![(COME, 0), (COME, 0)];
    for _ in 0..20 {
        steps.extend([(MANY, 10), (READ, 31)]); // 31 is viewer 1
    }
    let with_slow = run(&script(&steps));
    steps.push((HANG_UP, 0));
    let without_it = run(&script(&steps));
    assert!(with_slow.dropped > 0, "{with_slow:?}");
    assert_eq!((without_it.ended, without_it.dropped), (1, 0));
}

#[test]
fn old_names_are_forgotten_whether_somebody_views_or_not() {
    let unseen = run(&script(&[(MANY, 31); 40]));
    assert!(unseen.events > 10_000 && unseen.texts < 300, "{unseen:?}");
    let mut steps = vec![(COME, 0)];
    for _ in 0..40 {
        steps.extend([(MANY, 31), (READ, 30)]);
    }
    let seen = run(&script(&steps));
    assert!(seen.events > 10_000 && seen.texts < 300 && seen.viewers == 1, "{seen:?}");
}

#[test]
fn a_script_of_nothing_leads_to_nothing() {
    assert_eq!(Outcome { events: 2, texts: 1, ..Outcome::default() }, run(&[]));
}

proptest! {
    #[test]
    fn every_viewer_knows_the_state_in_the_end(bytes in vec(any::<u8>(), 0..300)) {
        let _ = run(&bytes);
    }
}

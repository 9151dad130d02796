//! Checks that all figures are produced, and that the checker catches what it is for.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Parser;
use serde_json::Value;

use super::check::{Fault, Reject, check};
use super::contender::{Ranges, Space};
use super::workload::{Scale, all};
use super::*;
use crate::args::{Args, Command};

fn args(command: &str) -> RangesArgs {
    let command = format!("allotment-bench ranges {command}");
    let Command::Ranges(args) = Args::parse_from(command.split(' ')).command else { panic!("{command}") };
    args
}

fn run_quick(command: &str) -> Value {
    let args = args(&format!("{command} --json --quick --repetitions 2 --limit 60"));
    serde_json::to_value(measure(&args).unwrap()).unwrap()
}

fn rows<'a>(json: &'a Value, workload: &str) -> Vec<&'a Value> {
    let all = json["rows"].as_array().unwrap();
    let found: Vec<_> = all.iter().filter(|row| row["workload"] == workload).collect();
    assert!(!found.is_empty(), "{workload}");
    found
}

fn contenders(rows: &[&Value]) -> Vec<String> {
    rows.iter().map(|row| row["contender"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_workload_has_a_time_for_each_contender_that_can_do_it() {
    let json = run_quick("time");
    let workloads: BTreeSet<_> =
        json["rows"].as_array().unwrap().iter().map(|row| row["workload"].as_str().unwrap()).collect();
    let plans = all();
    assert_eq!(workloads, plans.iter().map(|plan| plan.name.as_str()).collect());
    let in_order = rows(&json, "frames");
    assert_eq!(in_order.len(), 17, "all contenders: {:?}", contenders(&in_order));
    for row in rows(&json, "churn-1e4") {
        assert!(row["laps"] == 2 && row["ns_per_op"].is_number() && row["refused"] == 0, "{row}");
        assert_eq!(row["ratio"].is_number(), row["contender"] != "empty", "{row}");
    }
    let omitted = json["omitted"].as_array().unwrap();
    let buddy =
        |omitted: &&Value| omitted["contender"] == "gpu-alloc-buddy" && omitted["workload"] == "tight-1e4";
    assert!(omitted.iter().any(|omitted| buddy(&omitted)), "its space is no power of two: {omitted:?}");
}

#[test]
fn requests_that_fit_nowhere_are_refused_by_all_and_never_counted_as_ones_that_fit() {
    let json = run_quick(
        "fragmentation --workload holes-1025-full-2e4,holes-fail --contender allotment-tlsf,vk-mem,offset",
    );
    for workload in ["holes-1025-full-2e4", "holes-fail"] {
        for row in rows(&json, workload) {
            assert!(row["refused"].as_u64().unwrap() > 0 && row["refused_that_fit"] == 0, "{row}");
        }
    }
}

#[test]
fn the_other_modes_have_their_figures() {
    let json = run_quick(
        "latency fragmentation memory threads --workload churn-1e3,full-small --contender allotment-tlsf,vk-mem,off",
    );
    let of = |mode: &str| -> Vec<&Value> {
        json["rows"].as_array().unwrap().iter().filter(|row| row["mode"] == mode).collect()
    };
    let latency = of("latency");
    assert_eq!(contenders(&latency), ["empty", "allotment-tlsf", "offset-allocator", "vk-mem"]);
    for row in latency {
        let at = |key: &str| row[key].as_u64().unwrap();
        assert!(at("p50_ns") <= at("p99_ns") && at("p99_ns") <= at("max_ns") && at("replays") == 2, "{row}");
    }
    let fragmentation = of("fragmentation");
    assert_eq!(fragmentation.len(), 6);
    for row in fragmentation {
        if row["workload"] == "full-small-8mib" {
            let share = |key: &str| row[key].as_f64().unwrap();
            assert!(
                (0.5..1.0).contains(&share("first_failure")) && (0.5..1.0).contains(&share("sustained")),
                "{row}"
            );
        } else {
            assert!(row["high_water_over_live"].as_f64().unwrap() >= 1.0, "{row}");
        }
    }
    for row in of("memory") {
        // What C++ allocates is counted with what all other tests do meanwhile.
        let is_counted = row["contender"] != "vk-mem";
        let at = |key: &str| row[key].as_f64().unwrap();
        assert!(!is_counted || (8.0..10_000.0).contains(&at("bytes_per_live")), "{row}");
        assert!(at("clear_ns") > 0.0, "{row}");
    }
    assert_eq!((of("memory").len(), of("threads").len()), (3, 12));
}

#[test]
fn a_name_that_nothing_has_is_a_failure() {
    for (command, what) in [("--workload chrun", "workload"), ("--contender vma", "contender")] {
        let failure = measure(&args(&format!("{command} --quick"))).unwrap_err().to_string();
        assert!(failure.contains(what), "{failure}");
    }
}

#[test]
fn the_table_has_a_line_for_each_workload() {
    let rows = times_of_table(&args("--table --quick --repetitions 1 --limit 60")).unwrap();
    let lines = table::markdown(&rows, 20_782);
    assert!(lines[0].contains("2026-11-25"), "{}", lines[0]);
    let cells = |line: &String| line.matches('|').count();
    let table = &lines[3..];
    assert_eq!(table.len(), 2 + table::WORKLOADS.len());
    assert!(table.iter().all(|line| cells(line) == table::CONTENDERS.len() + 2), "{table:#?}");
}

#[test]
fn sequences_are_the_same_each_time_and_can_be_repeated() {
    for plan in all() {
        let [one, other] = [(), ()].map(|()| plan.generate(Scale::Quick));
        assert_eq!((&one.fill, &one.lap, one.space), (&other.fill, &other.lap, other.space), "{}", one.name);
        let mut live = vec![false; one.slots as usize];
        let mut at_begin_of_lap = Vec::new();
        for (i, op) in one.fill.iter().chain(&one.lap).enumerate() {
            if i == one.fill.len() {
                at_begin_of_lap = live.clone();
            }
            let is_live = core::mem::replace(&mut live[op.slot as usize], op.size != 0);
            assert_eq!(is_live, op.size == 0, "{}: a slot is filled once and freed once", one.name);
            assert!(u64::from(op.size) % one.space.unit == 0, "{}", one.name);
            let alignment = u64::from(op.alignment);
            assert!(
                op.size == 0 || alignment >= one.space.unit && alignment.is_power_of_two(),
                "{}",
                one.name
            );
        }
        assert_eq!(live, at_begin_of_lap, "{}", one.name);
    }
}

/// Returns offsets that are wrong in one way or another after some requests.
struct Broken<const WAY: u8> {
    next: u64,
    space: u64,
}

impl<const WAY: u8> Ranges for Broken<WAY> {
    type Handle = u64;

    const NAME: &'static str = "broken";

    fn new(space: &Space) -> Option<Self> {
        Some(Self { next: 0, space: space.size })
    }

    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(u64, u64)> {
        let offset = self.next.next_multiple_of(alignment);
        self.next = offset + size;
        let is_late = offset > self.space / 100;
        let offset = match WAY {
            0 if is_late => offset - alignment,
            1 if is_late => offset + 1,
            2 if is_late => self.space - size + alignment,
            _ => offset,
        };
        Some((offset, offset))
    }

    fn free(&mut self, _: u64) {}
}

#[test]
fn an_allocator_whose_ranges_overlap_or_are_misaligned_or_outside_is_caught() {
    fn fault<C: Ranges>() -> Fault {
        let plan = all().into_iter().find(|plan| plan.name == "churn-1e4").unwrap();
        let workload = plan.generate(Scale::Quick);
        let mut ranges = C::new(&workload.space).unwrap();
        match check(&mut ranges, &workload, Duration::from_secs(60)) {
            Err(Reject::Fault(fault)) => fault,
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(fault::<Broken<0>>(), Fault::Overlap { .. }));
    assert!(matches!(fault::<Broken<1>>(), Fault::Misaligned { .. }));
    assert!(matches!(fault::<Broken<2>>(), Fault::Outside { .. }));
    // Never reuses anything, and ends outside of the space at last.
    assert!(matches!(fault::<Broken<3>>(), Fault::Outside { .. }));
    let plan = all().into_iter().find(|plan| plan.name == "churn-1e4").unwrap();
    let failure =
        run::verdict::<Broken<0>>(&plan.generate(Scale::Quick), Duration::from_secs(60)).unwrap_err();
    assert!(failure.to_string().contains("broken in churn-1e4"), "{failure}");
}

#[test]
fn a_contender_that_is_too_slow_or_refuses_too_much_is_omitted_with_the_reason() {
    let plan = all().into_iter().find(|plan| plan.name == "churn-1e3").unwrap();
    let workload = Arc::new(plan.generate(Scale::Quick));
    let reason = run::verdict::<Broken<3>>(&workload, Duration::ZERO).unwrap().unwrap_err();
    assert!(reason.contains("more than 0 s"), "{reason}");

    struct Refuses;
    impl Ranges for Refuses {
        type Handle = ();
        const NAME: &'static str = "refuses";
        fn new(_: &Space) -> Option<Self> {
            Some(Self)
        }
        fn allocate(&mut self, _: u64, _: u64) -> Option<((), u64)> {
            None
        }
        fn free(&mut self, (): ()) {}
    }
    let reason = run::verdict::<Refuses>(&workload, Duration::from_secs(60)).unwrap().unwrap_err();
    assert!(reason.contains("of the fill"), "{reason}");
}

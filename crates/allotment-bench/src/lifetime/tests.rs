//! Checks that contenders behave alike, and that all figures are produced.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::collections::BTreeSet;
use std::sync::Arc;

use allotment::lifetime::{DeletionQueue, ReleaseQueue};
use clap::Parser;
use serde_json::Value;

use super::deferred::{AtOnce, DeferredDestruction};
use super::ours::{Ours, Owners};
use super::two_stage::TwoStage;
use super::*;
use crate::args::{Args, Command};

/// Counts the drops of each object.
struct Witness {
    drops: Arc<[AtomicU32]>,
    index: usize,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.drops[self.index].fetch_add(1, Relaxed);
    }
}

/// Returns how often each was dropped: before the queue has completed anything, after it has, and after the
/// contender was dropped with more objects inside.
fn drops<K: DeferredDestruction<Witness>>() -> [Vec<u32>; 3] {
    let drops: Arc<[AtomicU32]> = (0..40).map(|_| AtomicU32::new(0)).collect();
    let witness = |index| Witness { drops: Arc::clone(&drops), index };
    let seen = || drops.iter().map(|count| count.load(Relaxed)).collect();
    let contender = K::new();
    let recording = contender.record();
    (0..10).for_each(|i| contender.retire(witness(i)));
    (10..20).for_each(|i| contender.retire_with(&recording, witness(i)));
    contender.submit(recording);
    (20..30).for_each(|i| contender.retire(witness(i)));
    contender.submit_other();
    contender.reclaim();
    let in_flight = seen();
    contender.complete();
    contender.reclaim();
    contender.reclaim();
    let completed = seen();
    (30..40).for_each(|i| contender.retire(witness(i)));
    drop(contender);
    [in_flight, completed, seen()]
}

#[test]
fn each_contender_drops_everything_once_and_only_when_the_queue_is_done() {
    let thirty: Vec<u32> = [vec![1; 30], vec![0; 10]].concat();
    let right = [vec![0; 40], thirty, vec![1; 40]];
    assert_eq!(drops::<Ours<ReleaseQueue<Witness>>>(), right);
    assert_eq!(drops::<Ours<DeletionQueue>>(), right);
    assert_eq!(drops::<Ours<Owners>>(), right);
    assert_eq!(drops::<TwoStage>(), right);
}

#[test]
fn what_is_dropped_at_once_is_dropped_once() {
    assert_eq!(drops::<AtOnce>()[2], vec![1; 40]);
}

fn rows() -> Vec<Value> {
    let command = "allotment-bench lifetime --json --repetitions 2 --batches 3 --threads 1,3";
    let Command::Lifetime(args) = Args::parse_from(command.split(' ')).command else { panic!("{command}") };
    assert!(args.json);
    let json: Value = serde_json::from_str(&measure(&args).unwrap().json().unwrap()).unwrap();
    json["rows"].as_array().unwrap().clone()
}

#[test]
fn all_workloads_come_out_with_all_contenders() {
    let rows = rows();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap();
    let workloads: BTreeSet<_> = rows.iter().map(|row| text(row, "workload")).collect();
    let wanted = [
        "reclaim-waiting",
        "reclaim-waiting-after",
        "reclaim-waiting-with",
        "record-submit",
        "retire-reclaim",
        "retire-reclaim-recorded",
        "retire-threads",
        "retire-with",
        "ring-allocate",
        "ring-allocate-apart",
        "upload",
    ];
    assert!(workloads.iter().eq(wanted), "{workloads:?}");
    for row in &rows {
        assert!(number(row, "ns_per_op") > 0.0 && number(row, "laps") == 2.0, "{row}");
        // Boxes allocate for every object that is retired; the others have the capacity after the first recordings.
        let workload = text(row, "workload");
        let retires = workload != "record-submit" && !workload.starts_with("reclaim-waiting");
        let boxes = text(row, "contender") == "two-stage boxed" && retires;
        if boxes {
            assert_eq!(number(row, "heap_allocations_per_op").floor(), 1.0, "{row}");
        } else if number(row, "threads") == 1.0 {
            assert!(number(row, "heap_allocations_per_op") < 0.01, "{row}");
        }
    }
    let threads = |row: &&Value| text(row, "workload") == "retire-threads" && number(row, "threads") == 3.0;
    assert_eq!(rows.iter().filter(threads).count(), 4);
}

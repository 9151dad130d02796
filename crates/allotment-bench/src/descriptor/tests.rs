//! Checks that all figures are produced.

use std::collections::BTreeMap;

use clap::Parser;
use serde_json::Value;

use super::*;
use crate::args::{Args, Command};

fn run_small() -> Value {
    let command = "allotment-bench descriptor --json --repetitions 2 --batches 2 --live 100 --threads 1,2";
    let Command::Descriptor(args) = Args::parse_from(command.split(' ')).command else { panic!("{command}") };
    assert!(args.json);
    serde_json::from_str(&measure(&args).unwrap().json().unwrap()).unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap()
}

#[test]
fn all_workloads_come_out_with_all_contenders_and_their_ratios() {
    let json = run_small();
    let mut rows = BTreeMap::<_, u32>::new();
    for row in json["rows"].as_array().unwrap() {
        *rows.entry((text(row, "workload"), row["threads"].as_u64().unwrap())).or_default() += 1;
        assert!(number(row, "ns_per_op") > 0.0 && number(row, "laps") == 2.0, "{row}");
    }
    let mut wanted = BTreeMap::from(
        [("commit", 3), ("copy", 2), ("copy-tables", 2), ("bindless", 3), ("sampler", 1), ("compact", 3)]
            .map(|(workload, rows)| ((workload, 1), rows)),
    );
    for threads in [1, 2] {
        let rows = [("transient", 3), ("transient-apart", 3), ("staging-lifo", 3), ("staging-random", 3)];
        wanted.extend(rows.map(|(workload, rows)| ((workload, threads), rows)));
    }
    assert_eq!(rows, wanted);
    let ratios = |key: &str, workload: &str| {
        let all = json[key].as_array().unwrap();
        all.iter().filter(|ratio| text(ratio, "workload") == workload).count()
    };
    assert_eq!(ratios("ratios", "transient"), 4, "two peers, on one thread and on two");
    assert_eq!(ratios("ratios", "staging-random"), 4, "two peers, on one thread and on two");
    assert_eq!(ratios("ratios", "copy"), 1);
    assert_eq!(ratios("beside_others", "transient"), 3);
    assert_eq!(json["rates"].as_array().unwrap().len(), 4);
    assert_eq!(json["dimensions"]["live"], 100);
}

//! `pressure`: what the driver is asked for where a heap is full, and where the requests end up.
//!
//! On made-up memory (`vulkan/tight.rs`), in the same situations for each contender. Nothing is timed: the counts are exact and the
//! same at each run.

mod sides;

use std::collections::BTreeMap;

use serde::Serialize;

use self::sides::{Allotment, Refused, Side, Vma};
use crate::args::PressureArgs;
use crate::failure::Failure;
use crate::vulkan::{Gpu, Reading, tight};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Who accesses the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// The GPU alone.
    Gpu,
    /// The CPU too: in the window if possible.
    Both,
}

/// What a contender is asked for.
struct Situation {
    name: &'static str,
    /// The heap of which others leave something.
    heap: usize,
    left: u64,
    steps: fn(&dyn Side, &mut Row) -> Result<(), Failure>,
}

const SITUATIONS: [Situation; 6] = [
    Situation {
        name: "5,000 of 256 B; 2 MiB of the best heap are left",
        heap: 0,
        left: 2 * MIB,
        steps: |side, row| allocate(side, row, Access::Gpu, 5_000, 256).map(drop),
    },
    Situation {
        name: "1,000 replacements of 1 KiB; the best heap is full",
        heap: 0,
        left: 0,
        steps: |side, row| replace(side, row, Access::Gpu, KIB),
    },
    Situation {
        name: "1,000 replacements of 100 KiB; the best heap is full",
        heap: 0,
        left: 0,
        steps: |side, row| replace(side, row, Access::Gpu, 100 * KIB),
    },
    Situation {
        name: "1,000 replacements of 1 KiB by the CPU; the window is full",
        heap: 2,
        left: 0,
        steps: |side, row| replace(side, row, Access::Both, KIB),
    },
    Situation {
        name: "1,000 replacements of 100 KiB by the CPU; the window is full",
        heap: 2,
        left: 0,
        steps: |side, row| replace(side, row, Access::Both, 100 * KIB),
    },
    Situation {
        name: "a pool with a block of 1000 MiB, after 900 MiB were freed",
        heap: 0,
        left: 1024 * MIB,
        steps: |side, row| {
            allocate(side, row, Access::Gpu, 15, 60 * MIB)?.into_iter().for_each(|index| side.free(index));
            row.refused += u64::from(side.pool_with_a_block(1000 * MIB).is_err());
            Ok(())
        },
    },
];

/// What came of a situation.
#[derive(Debug, Default, Serialize)]
struct Row {
    situation: &'static str,
    contender: &'static str,
    /// Requests that were served, by memory type.
    served: BTreeMap<u32, u64>,
    /// Requests that were refused.
    refused: u64,
    /// Calls that allocate memory, those among them that the driver refused, and calls that free it.
    allocate_calls: u64,
    refused_calls: u64,
    free_calls: u64,
}

pub(crate) fn run(args: &PressureArgs) -> Result<(), Failure> {
    let gpu = Gpu::open_tight(&args.common)?;
    let mut rows = Vec::new();
    for situation in &SITUATIONS {
        rows.push(of(situation, || Ok(Box::new(Allotment::new(&gpu)?)))?);
        rows.push(of(situation, || Ok(Box::new(Vma::new(&gpu)?)))?);
    }
    if args.common.json {
        say!("{}", serde_json::to_string(&rows)?);
        return Ok(());
    }
    say!(
        "{:<62} {:<10} {:>7} {:>7} {:>7} {:>7}  served by type",
        "",
        "",
        "allocs",
        "refused",
        "frees",
        "errors"
    );
    for row in &rows {
        let served: Vec<_> = row.served.iter().map(|(ty, count)| format!("{ty}: {count}")).collect();
        say!(
            "{:<62} {:<10} {:>7} {:>7} {:>7} {:>7}  {}",
            row.situation,
            row.contender,
            row.allocate_calls,
            row.refused_calls,
            row.free_calls,
            row.refused,
            served.join(", ")
        );
    }
    Ok(())
}

/// Brings one contender into a situation.
fn of(situation: &Situation, side: impl FnOnce() -> Result<Box<dyn Side>, Failure>) -> Result<Row, Failure> {
    tight::begin(situation.heap, situation.left);
    let side = side()?;
    let mut row = Row { situation: situation.name, contender: side.name(), ..Row::default() };
    (situation.steps)(&*side, &mut row)?;
    let Reading { allocate_calls, free_calls, .. } = side.reading();
    (row.allocate_calls, row.free_calls, row.refused_calls) = (allocate_calls, free_calls, tight::refused());
    side.free_all();
    Ok(row)
}

/// Allocates some, and returns those that were served.
fn allocate(
    side: &dyn Side,
    row: &mut Row,
    access: Access,
    count: u32,
    size: u64,
) -> Result<Vec<usize>, Failure> {
    let mut served = Vec::new();
    for _ in 0..count {
        match side.allocate(access, size) {
            Ok((index, memory_type)) => {
                served.push(index);
                *row.served.entry(memory_type).or_default() += 1;
            }
            Err(Refused) => row.refused += 1,
        }
    }
    Ok(served)
}

/// Frees and allocates one after the other, of a hundred.
fn replace(side: &dyn Side, row: &mut Row, access: Access, size: u64) -> Result<(), Failure> {
    let mut live: std::collections::VecDeque<_> = allocate(side, row, access, 100, size)?.into();
    for _ in 0..1_000 {
        if let Some(index) = live.pop_front() {
            side.free(index);
        }
        live.extend(allocate(side, row, access, 1, size)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::ALONE;

    #[test]
    fn each_contender_is_asked_the_same_and_no_request_of_ours_costs_a_refused_call_again_and_again() {
        let _alone = ALONE.lock();
        let Some(gpu) = Gpu::open_for_test() else { return };
        drop(gpu);
        let gpu = Gpu::open_tight(&crate::args::Common::default()).unwrap();
        for situation in &SITUATIONS {
            let ours = of(situation, || Ok(Box::new(Allotment::new(&gpu)?))).unwrap();
            let vma = of(situation, || Ok(Box::new(Vma::new(&gpu)?))).unwrap();
            let asked = |row: &Row| row.served.values().sum::<u64>() + row.refused;
            assert_eq!(asked(&ours) - ours.refused, asked(&ours), "{}: all are served", situation.name);
            assert!(asked(&vma) >= asked(&ours), "{}", situation.name);
            assert!(ours.refused_calls <= 16, "{}: {}", situation.name, ours.refused_calls);
        }
    }
}

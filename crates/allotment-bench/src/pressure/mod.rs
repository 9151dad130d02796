//! `pressure`: what the driver is asked for where a heap is full, and where the requests end up.
//!
//! On made-up memory (`vulkan/tight.rs`), in the same situations for each contender. Nothing is timed: the counts are exact
//! and the same at each run.

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
#[derive(Clone, Copy, Debug)]
enum Steps {
    /// So many allocations of the GPU's alone, of a size.
    Allocate(u32, u64),
    /// One frees and allocates in turn among a hundred.
    Replace(Access, u64),
    /// A pool that begins with one block of a size, where memory in blocks of the default pools was just freed.
    Pool(u64),
}

struct Situation {
    name: &'static str,
    /// The heap of which others leave something.
    heap: usize,
    left: u64,
    steps: Steps,
}

const fn of_heap(heap: usize, left: u64, steps: Steps, name: &'static str) -> Situation {
    Situation { name, heap, left, steps }
}

const BEST: usize = 0;
const WINDOW: usize = 2;

const SITUATIONS: [Situation; 6] = [
    of_heap(BEST, 2 * MIB, Steps::Allocate(5_000, 256), "5,000 of 256 B; 2 MiB of the best heap are left"),
    of_heap(BEST, 0, Steps::Replace(Access::Gpu, KIB), "1,000 replacements of 1 KiB; the best heap is full"),
    of_heap(
        BEST,
        0,
        Steps::Replace(Access::Gpu, 100 * KIB),
        "1,000 replacements of 100 KiB; the best heap is full",
    ),
    of_heap(
        WINDOW,
        0,
        Steps::Replace(Access::Both, KIB),
        "1,000 replacements of 1 KiB by the CPU; the window is full",
    ),
    of_heap(
        WINDOW,
        0,
        Steps::Replace(Access::Both, 100 * KIB),
        "1,000 replacements of 100 KiB by the CPU; the window is full",
    ),
    of_heap(
        BEST,
        1024 * MIB,
        Steps::Pool(1000 * MIB),
        "a pool with a block of 1000 MiB, after 900 MiB were freed",
    ),
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

impl Steps {
    fn run(self, side: &dyn Side, row: &mut Row) -> Result<(), Failure> {
        match self {
            Self::Allocate(count, size) => drop(allocate(side, row, Access::Gpu, count, size)?),
            Self::Replace(access, size) => replace(side, row, access, size)?,
            Self::Pool(size) => {
                let freed = allocate(side, row, Access::Gpu, 15, 60 * MIB)?;
                freed.into_iter().for_each(|index| side.free(index));
                row.refused += u64::from(side.pool_with_a_block(size).is_err());
            }
        }
        Ok(())
    }
}

/// Brings one contender into a situation.
fn of(situation: &Situation, side: impl FnOnce() -> Result<Box<dyn Side>, Failure>) -> Result<Row, Failure> {
    tight::begin(situation.heap, situation.left);
    let side = side()?;
    let mut row = Row { situation: situation.name, contender: side.name(), ..Row::default() };
    situation.steps.run(&*side, &mut row)?;
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
            let served = |row: &Row| row.served.values().sum::<u64>();
            assert_eq!((ours.refused, served(&ours)), (0, served(&vma)), "{}", situation.name);
            assert!(ours.refused_calls <= 16, "{}: {}", situation.name, ours.refused_calls);
        }
    }
}

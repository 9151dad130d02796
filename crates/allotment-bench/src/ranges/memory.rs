//! `memory`: host memory of the allocator itself, and the time to create it and to clear it.

use std::sync::Arc;
use std::thread;

use serde::Serialize;

use super::check::Verdict;
use super::contender::{EMPTY, Ranges};
use super::play::Player;
use super::run::{Measure, Run};
use super::workload::Workload;
use crate::clock::thread_cpu_time;
use crate::failure::Failure;

/// A contender in a workload. Times in nanoseconds of processor time.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) contender: &'static str,
    live: u32,
    /// Host memory divided by the live ranges, without the caller's handles. `None` if it is not known.
    bytes_per_live: Option<f64>,
    /// Host memory after all ranges were freed, one by one.
    bytes_when_empty: Option<u64>,
    /// Size of a handle of the caller, or none.
    handle_bytes: usize,
    create_ns: u64,
    /// Time to free all ranges at once, and to do so again when there are none. `None` if there is no such call.
    clear_ns: Option<u64>,
    clear_empty_ns: Option<u64>,
}

/// Measures a workload.
pub(super) fn measure(run: &mut Run<'_>, workload: &Arc<Workload>) -> Result<Vec<Row>, Failure> {
    let mut rows = Memories { workload, rows: Vec::new() };
    run.each(workload, &mut rows)?;
    Ok(rows.rows)
}

struct Memories<'a> {
    workload: &'a Arc<Workload>,
    rows: Vec<Row>,
}

impl Measure for Memories<'_> {
    fn contender<C: Ranges>(&mut self, _: &Verdict) -> Result<(), Failure> {
        if C::NAME != EMPTY {
            let workload = Arc::clone(self.workload);
            // A thread of its own: it allocates nothing else.
            let row = thread::spawn(move || row::<C>(&workload)).join().map_err(|_| Failure::Thread)?;
            self.rows.push(row);
        }
        Ok(())
    }
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let start = thread_cpu_time();
    let result = work();
    (result, (thread_cpu_time() - start).as_nanos() as u64)
}

fn row<C: Ranges>(workload: &Arc<Workload>) -> Row {
    let mut slots = Vec::new();
    slots.resize_with(workload.slots as usize, || None);
    let before = C::host_bytes();
    let (created, create_ns) = timed(|| C::new(&workload.space));
    let Some(ranges) = created else { unreachable!("it was created for the check") };
    let bytes = || C::host_bytes().zip(before).map(|(now, before)| now.wrapping_sub(before));
    let mut player = Player { ranges, slots, workload: Arc::clone(workload) };
    player.fill();
    player.lap();
    let live = player.slots.iter().filter(|slot| slot.is_some()).count() as u32;
    let bytes_per_live = bytes().map(|bytes| bytes as f64 / f64::from(live));
    let mut clear_ns = None;
    let mut clear_empty_ns = None;
    let (has_clear, time) = timed(|| player.ranges.clear());
    if has_clear {
        // The handles are not used any more.
        player.slots.fill_with(|| None);
        clear_ns = Some(time);
        clear_empty_ns = Some(timed(|| player.ranges.clear()).1);
        // Filled again, to be freed one by one.
        player.fill();
    }
    player.free_all();
    Row {
        workload: workload.name.clone(),
        contender: C::NAME,
        live,
        bytes_per_live,
        bytes_when_empty: bytes(),
        handle_bytes: size_of::<Option<C::Handle>>(),
        create_ns,
        clear_ns,
        clear_empty_ns,
    }
}

/// Prints the rows of one workload.
pub(super) fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    say!();
    say!("{}: {} live", first.workload, first.live);
    let [name, bytes, empty] = ["contender", "bytes/live", "bytes when empty"];
    say!(
        "  {name:28} {bytes:>10} {empty:>16} {:>6} {:>11} {:>11} {:>14}",
        "handle",
        "create us",
        "clear us",
        "clear empty us"
    );
    let us = |ns: Option<u64>| ns.map_or_else(String::new, |ns| format!("{:.1}", ns as f64 / 1e3));
    for row in rows {
        say!(
            "  {:28} {:>10} {:>16} {:>6} {:>11} {:>11} {:>14}",
            row.contender,
            row.bytes_per_live.map_or_else(String::new, |bytes| format!("{bytes:.1}")),
            row.bytes_when_empty.map_or_else(String::new, |bytes| bytes.to_string()),
            row.handle_bytes,
            us(Some(row.create_ns)),
            us(row.clear_ns),
            us(row.clear_empty_ns)
        );
    }
}

//! Budgets before, with and after many allocations: from the driver, and from the library.

use allotment::device::{MemoryDevice as _, MemoryHeapIndex};
use allotment::{Alignment, Allocator, AllocatorDesc, MemoryUsage, Requirements};

use crate::failure::Failure;
use crate::units::bytes;
use crate::vulkan::Gpu;

/// Size of each allocation in bytes: sixteen per block of the largest size.
const EACH: u64 = 16 << 20;
/// Frames after which all unused memory should be freed to the driver.
const FRAMES: u32 = 300;
/// GiB allocated by default, if the budget is four times as much.
const GIB: u64 = 32;

pub(super) fn print(gpu: &Gpu, gib: Option<u32>) -> Result<(), Failure> {
    let failed =
        |error: &dyn core::fmt::Display| Failure::Setup { contender: "allotment", error: error.to_string() };
    let device = gpu.library();
    let allocator =
        Allocator::new(device.clone(), AllocatorDesc::default()).map_err(|error| failed(&error))?;
    let heads = ["heap", "driver: used", "of budget", "library: used", "of budget", "reserved"];
    let [heap, used, budget, own_used, own_budget, reserved] = heads;
    let row = |when: &str| {
        say!();
        say!("{when}");
        say!("  {heap:4} {used:>14} {budget:>12} {own_used:>14} {own_budget:>12} {reserved:>12}");
        allocator.refresh_budgets();
        for (index, report) in (0..).zip(allocator.reports().memory_heaps()) {
            let told = device.heap_budget(MemoryHeapIndex(index));
            say!(
                "  {:4} {:>14} {:>12} {:>14} {:>12} {:>12}",
                index,
                bytes(told.usage),
                bytes(told.budget),
                bytes(report.usage),
                bytes(report.budget),
                bytes(report.reserved)
            );
        }
    };

    let alignment = Alignment::new(65536).unwrap_or(Alignment::ONE);
    let requirements = Requirements::new(EACH).with_alignment(alignment);
    let options = MemoryUsage::GpuOnly.into();
    let heap =
        allocator.explain(&requirements, &options).first().map_or(MemoryHeapIndex(0), |choice| choice.heap);
    let budget = device.heap_budget(heap);
    let room = budget.budget.saturating_sub(budget.usage);
    let wanted = gib.map_or((GIB << 30).min(room / 4), |gib| u64::from(gib) << 30) / EACH * EACH;

    say!("{} by allocations of {} from heap {heap}", bytes(wanted), bytes(EACH));
    row("before");
    let start = std::time::Instant::now();
    let mut tokens = Vec::new();
    let mut refused = None;
    for _ in 0..wanted / EACH {
        match allocator.allocate(&requirements, &options) {
            Ok(token) => tokens.push(token),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    row(&format!("with {} ({took:.0} ms)", bytes(tokens.len() as u64 * EACH)));
    if let Some(error) = refused {
        say!("  the next one was refused: {error}");
    }
    // Free everything before looking at the outcome.
    let freed: Result<(), _> = tokens.into_iter().try_for_each(|token| allocator.free(token));
    freed.map_err(|error| failed(&error))?;
    row("after the frees");
    (0..FRAMES).for_each(|_| allocator.end_frame());
    row(&format!("{FRAMES} frames later"));
    let calls = allocator.reports().device_calls();
    say!();
    say!("{} driver calls allocated memory, {} freed it", calls.allocate, calls.free);
    Ok(())
}

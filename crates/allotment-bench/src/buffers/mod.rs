//! `buffers`: what it costs to create a buffer with memory, and to destroy it, from the call that a program writes to the driver.
//!
//! Batches of buffers of random sizes are created and destroyed beside a thousand that live. Contenders alternate, batch by batch.
//!
//! ```text
//!   ways     each contender's own calls
//! ```

mod ways;

use serde::Serialize;

use crate::args::BuffersArgs;
use crate::contender::{Blocks, GpuAllocator, VkMem};
use crate::failure::Failure;
use crate::rng::Rng;
use crate::units::median;
use crate::vulkan::Gpu;
use ways::Way;

/// Buffers of a batch.
const BATCH: usize = 256;

/// Medians of all batches, in nanoseconds of the thread's processor time for a buffer.
#[derive(Serialize)]
struct Report {
    device: String,
    notes: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    way: &'static str,
    create_ns: f64,
    destroy_ns: f64,
    /// Both, by those of VMA.
    of_vma: f64,
}

pub(crate) fn run(args: &BuffersArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let vma = VkMem::new(&gpu, Blocks::Default)?;
    let gpu_allocator = GpuAllocator::new(&gpu, Blocks::Default)?;
    let mut ways = ways::all(&gpu, &vma, &gpu_allocator)?;
    let mut rng = Rng::new(1);
    let mut times = vec![Vec::new(); ways.len()];
    for round in 0..args.batches as usize + 1 {
        let sizes: Vec<u64> = (0..BATCH).map(|_| ways::size(&mut rng)).collect();
        for turn in 0..ways.len() {
            let at = (round + turn) % ways.len();
            let [create, destroy] = ways[at].batch(&sizes)?.map(|time| time.as_nanos() as f64 / BATCH as f64);
            // The first one warms up.
            if round != 0 {
                times[at].push([create, destroy]);
            }
        }
    }
    let medians = |times: &[[f64; 2]]| [0, 1].map(|of| median(times.iter().map(|time| time[of])));
    let sums: Vec<[f64; 2]> = times.iter().map(|times| medians(times)).collect();
    let of_vma: f64 = sums[ways::VMA].iter().sum();
    let row = |(way, &[create_ns, destroy_ns]): (&Way<'_>, &[f64; 2])| Row {
        way: way.name,
        create_ns,
        destroy_ns,
        of_vma: (create_ns + destroy_ns) / of_vma,
    };
    let rows = ways.iter().zip(&sums).map(row).collect();
    ways.into_iter().try_for_each(Way::finish)?;
    let report = Report { device: gpu.info.name.clone(), notes: gpu.info.notes(), rows };
    if args.common.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        report.print();
    }
    Ok(())
}

impl Report {
    fn print(&self) {
        say!("{}", self.device);
        self.notes.iter().for_each(|note| say!("note: {note}"));
        say!("{:<36} {:>10} {:>10} {:>8}", "a buffer, CPU ns", "create", "destroy", "of VMA");
        for Row { way, create_ns, destroy_ns, of_vma } in &self.rows {
            say!("{way:<36} {create_ns:>10.0} {destroy_ns:>10.0} {of_vma:>8.2}");
        }
    }
}

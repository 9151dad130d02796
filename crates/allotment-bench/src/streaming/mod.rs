//! `streaming`: streams a scene through device memory, and measures how long its frames wait for the allocator.
//!
//! ```text
//!   scene      the requests of each frame, generated beforehand, the same for all set-ups
//!   set_up     the thread that allocates blocks, and when
//!   player     plays the frames at their pace, and times each call
//!   report     the waits of the frames, as a table and as JSON
//! ```

mod player;
mod report;
mod scene;
mod set_up;

use crate::args::StreamingArgs;
use crate::failure::Failure;
use crate::vulkan::Gpu;
use report::Report;
use scene::Scene;
use set_up::SetUp;

/// MiB that stay resident by default: on a GPU, and on a software device.
const RESIDENT_MIB: [u32; 2] = [2048, 512];

pub(crate) fn run(args: &StreamingArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let default = RESIDENT_MIB[usize::from(gpu.info.software)];
    let scene = Scene::new(args.frames, u64::from(args.resident_mib.unwrap_or(default)) << 20);
    let mut report = Report::new(&gpu, args, &scene);
    for set_up in SetUp::ALL {
        report.add(set_up, player::play(&gpu, set_up, &scene, args.pace())?);
    }
    report.print(args.common.json)
}

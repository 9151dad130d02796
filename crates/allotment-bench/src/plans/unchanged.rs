//! Frames that are described as the one before: what it costs to find that out.

use core::time::Duration;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, QueueIndex};
use allotment::memory::names::Name;
use allotment::transient::{TransientDesc, TransientPass, TransientPlanner};
use allotment::{Gpu, GpuDesc};
use serde::Serialize;

use super::timed;
use crate::failure::Failure;

const FRAMES: usize = 51;

/// Nanoseconds for each resource of a frame, the median of many frames.
#[derive(Serialize)]
pub(super) struct Unchanged {
    pub(super) resources: usize,
    /// Of `TransientPlanner`.
    pub(super) planner_ns: f64,
    /// Of `TransientHeap`, whose resources have names and descriptions.
    pub(super) heap_ns: f64,
}

fn median(mut times: Vec<Duration>, resources: usize) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e9 / resources as f64
}

/// Measures frames with so many resources, each used by three passes in a row, of which every fourth is on a second queue.
pub(super) fn measure(resources: usize) -> Result<Unchanged, Failure> {
    let setup =
        |error: &dyn core::fmt::Display| Failure::Setup { contender: "allotment", error: error.to_string() };
    let passes = resources / 4 + 3;
    let uses = |at: usize| at / 4..at / 4 + 3;
    let queue = |at: usize| QueueIndex(u8::from(at % 4 == 3));

    let mut planner = TransientPlanner::default();
    let mut times = Vec::new();
    for _ in 0..FRAMES {
        let mut planned = Ok(());
        times.push(timed(|| {
            planned = (|| {
                planner.begin();
                let mut last = None;
                let mut all = Vec::with_capacity(passes);
                for at in 0..passes {
                    let waits: &[TransientPass] = last.as_slice();
                    let pass = planner.pass(queue(at), waits)?;
                    last = Some(pass);
                    all.push(pass);
                }
                for at in 0..resources {
                    let desc = TransientDesc::new(at as u64, 65536 * (1 + at as u64 % 7));
                    planner.resource(&desc, &all[uses(at)])?;
                }
                planner.plan().map(|_| ())
            })();
        }));
        planned.map_err(|error: allotment::transient::TransientError| setup(&error))?;
    }
    let planner_ns = median(times, resources);

    let profile = Profile::named("discrete-large-bar").ok_or_else(|| setup(&"no such profile"))?;
    let gpu = Gpu::new(SimulatedGpu::new(profile), GpuDesc::default()).map_err(|error| setup(&error))?;
    let names: Vec<Name> = (0..resources).map(|at| format!("target {at}").into()).collect();
    let mut heap = gpu.transient_heap(Default::default());
    let mut times = Vec::new();
    for _ in 0..FRAMES {
        let frame = gpu.begin_frame().map_err(|error| setup(&error))?;
        let mut planned = Ok(());
        times.push(timed(|| {
            planned = (|| {
                let mut graph = frame.transient(&mut heap)?;
                let mut last = None;
                let mut all = Vec::with_capacity(passes);
                for at in 0..passes {
                    let waits: &[TransientPass] = last.as_slice();
                    let pass = graph.pass(queue(at), waits)?;
                    last = Some(pass);
                    all.push(pass);
                }
                for (at, name) in names.iter().enumerate() {
                    let desc = BufferDesc::new(65536 * (1 + at as u64 % 7));
                    graph.buffer(name.clone(), &desc, &all[uses(at)])?;
                }
                graph.plan().map(|_| ())
            })();
        }));
        planned.map_err(|error: allotment::gpu::TransientHeapError| setup(&error))?;
        frame.end().map_err(|error| setup(&error))?;
    }
    Ok(Unchanged { resources, planner_ns, heap_ns: median(times, resources) })
}

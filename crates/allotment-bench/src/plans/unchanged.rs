//! Frames that are described as the one before, or as the one before that: what it costs to find that out.

use core::time::Duration;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, QueueIndex};
use allotment::gpu::TransientHeapError;
use allotment::memory::names::Name;
use allotment::transient::{TransientDesc, TransientError, TransientPass, TransientPlanner};
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
    /// The same, of two kinds of frames in turn: every second one has another resource.
    pub(super) in_turn_ns: f64,
}

fn setup(error: &dyn core::fmt::Display) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}

/// Returns the median time of a frame for each resource. `frame` is told its number, and returns how long it took.
fn median<E: core::fmt::Display>(
    resources: usize,
    frame: impl FnMut(usize) -> Result<Duration, E>,
) -> Result<f64, Failure> {
    let times: Result<Vec<Duration>, E> = (0..FRAMES).map(frame).collect();
    let mut times = times.map_err(|error| setup(&error))?;
    times.sort_unstable();
    Ok(times[times.len() / 2].as_secs_f64() * 1e9 / resources as f64)
}

/// The shape of a frame: each resource is used by three passes in a row, of which every fourth is on a second queue. Each pass
/// waits for the one before.
struct Shape {
    resources: usize,
    passes: Vec<TransientPass>,
}

impl Shape {
    fn add_passes<E>(
        &mut self,
        mut add: impl FnMut(QueueIndex, &[TransientPass]) -> Result<TransientPass, E>,
    ) -> Result<(), E> {
        self.passes.clear();
        for at in 0..self.resources / 4 + 3 {
            let waits = self.passes.len().saturating_sub(1)..self.passes.len();
            let pass = add(QueueIndex(u8::from(at % 4 == 3)), &self.passes[waits])?;
            self.passes.push(pass);
        }
        Ok(())
    }

    fn uses(&self, at: usize) -> &[TransientPass] {
        &self.passes[at / 4..at / 4 + 3]
    }
}

fn bytes(at: usize) -> u64 {
    65536 * (1 + at as u64 % 7)
}

/// Measures frames with so many resources.
pub(super) fn measure(resources: usize) -> Result<Unchanged, Failure> {
    let mut shape = Shape { resources, passes: Vec::new() };
    let mut planner = TransientPlanner::default();
    let planner_ns = median(resources, |_| {
        let mut planned = Ok(());
        let time = timed(|| {
            planned = (|| {
                planner.begin();
                shape.add_passes(|queue, waits| planner.pass(queue, waits))?;
                for at in 0..resources {
                    planner.resource(&TransientDesc::new(at as u64, bytes(at)), shape.uses(at))?;
                }
                planner.plan().map(|_| ())
            })();
        });
        planned.map(|()| time).map_err(|error: TransientError| error)
    });
    let planner_ns = planner_ns?;

    let profile = Profile::named("discrete-large-bar").ok_or_else(|| setup(&"no such profile"))?;
    let gpu = Gpu::new(SimulatedGpu::new(profile), GpuDesc::default()).map_err(|error| setup(&error))?;
    let names: Vec<Name> = (0..=resources).map(|at| format!("target {at}").into()).collect();
    let mut of_heap = |is_in_turn: bool| {
        let mut heap = gpu.transient_heap(Default::default());
        median(resources, |number| {
            let count = resources + usize::from(is_in_turn && number % 2 == 0);
            let frame = gpu.begin_frame().map_err(|error| error.to_string())?;
            let mut planned = Ok(());
            let time = timed(|| {
                planned = (|| {
                    let mut graph = frame.transient(&mut heap)?;
                    shape.add_passes(|queue, waits| graph.pass(queue, waits))?;
                    for (at, name) in names.iter().take(count).enumerate() {
                        let uses = shape.uses(at.min(resources - 1));
                        graph.buffer(name.clone(), &BufferDesc::new(bytes(at)), uses)?;
                    }
                    graph.plan().map(|_| ())
                })();
            });
            planned.map_err(|error: TransientHeapError| error.to_string())?;
            frame.end().map_err(|error| error.to_string())?;
            Ok::<Duration, String>(time)
        })
    };
    let (heap_ns, in_turn_ns) = (of_heap(false)?, of_heap(true)?);
    Ok(Unchanged { resources, planner_ns, heap_ns, in_turn_ns })
}

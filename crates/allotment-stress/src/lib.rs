//! Makes random safe calls over one shared world, from several threads, and checks every byte.
//!
//! ```text
//!   Input      the source of choices: a seed, or a fuzzer's bytes
//!   World      the allocator, the descriptor heaps, the queues, and the resources that threads exchange
//!   Player     one thread: makes one Call after another and checks its outcome
//!   Tally      the number of calls and errors, and the findings
//!   mix        other calls, of one `Gpu`, whose queues and steps meet in the same buffers and images
//!   images     writes and reads of parts of images, and the texels that they should have
//!   tenants    which of the resources in one memory should have their bytes
//! ```
//!
//! Each buffer and image holds a pattern that no other has. Patterns are written through mapped memory, transfers and
//! uploads, read back through another of these, also after moves, and compared. An error is counted as a refusal.
//! Wrong bytes, panics, a lost device, leaks and validation messages are findings.
//!
//! `unsafe` code is confined to the module `raw`: submitting work, creating descriptors, and copying for a manual
//! pass, which safe code cannot do.
#![deny(unsafe_code)]

mod calls;
mod images;
mod input;
mod kinds;
mod mix;
mod raw;
mod seeds;
mod shadow;
mod tally;
mod tenants;
mod texels;
mod world;

pub use calls::{Call, Player};
pub use images::ImageFormat;
pub use input::Input;
pub use kinds::{Stressed, simulated_findings};
#[cfg(feature = "vulkan")]
pub use kinds::{Watched, watched};
pub use mix::{MixTally, mix};
pub use seeds::{Seed, seeds};
pub use tally::Tally;
pub use texels::TexelValues;
pub use world::{World, WorldDesc};

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::time::Instant;

use allotment::device::simulated::{Profile, SimulatedGpu};

/// The options of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunDesc {
    /// Number of threads that make calls.
    pub threads: u32,
    /// Duration of the run.
    pub time: Duration,
    /// The seed of all choices; on one thread, runs with the same seed make the same calls.
    pub seed: u64,
    /// Number of calls after which the world is torn down and a new one is created.
    pub calls_a_world: u64,
}

impl RunDesc {
    /// Returns the default options for a number of threads.
    #[must_use]
    pub const fn new(threads: u32, time: Duration, seed: u64) -> Self {
        Self { threads, time, seed, calls_a_world: 20_000 }
    }
}

/// Makes calls over one world after another on a device until the time is up. After each world, `check` returns the
/// device's findings.
pub fn run<D: Stressed>(device: &D, desc: &RunDesc, check: impl Fn() -> Vec<String>) -> Tally {
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut round = 0;
    while round == 0 || (began.elapsed() < desc.time && tally.findings().is_empty()) {
        let seed = desc.seed.wrapping_add(round);
        let mut of_round = run_world(device, seed, desc, began);
        check().into_iter().for_each(|finding| of_round.find(finding));
        if !of_round.findings().is_empty() {
            let mut input = Input::of_seed(seed);
            of_round.find(format!("the seed was {seed}, the world {:?}", WorldDesc::random(&mut input)));
        }
        tally.add(of_round);
        round += 1;
    }
    tally.worlds = round;
    tally
}

fn run_world<D: Stressed>(device: &D, seed: u64, desc: &RunDesc, began: Instant) -> Tally {
    let mut input = Input::of_seed(seed);
    let world_desc = WorldDesc::random(&mut input);
    let world = match World::new(device, &world_desc) {
        Ok(world) => world,
        Err(error) => {
            let mut tally = Tally::default();
            tally.find(format!("no world: {error}"));
            return tally;
        }
    };
    let calls = desc.calls_a_world / u64::from(desc.threads.max(1));
    let play = |thread: u32| {
        let input = Input::of_seed(seed ^ u64::from(thread + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut player = Player::new(&world, input);
        let played = catch_unwind(AssertUnwindSafe(|| {
            for made in 0..calls {
                // Reading the clock costs more than some calls.
                if made % 64 == 0 && began.elapsed() >= desc.time {
                    break;
                }
                player.play();
            }
        }));
        if played.is_err() {
            player.find_panic();
        }
        player.finish()
    };
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..desc.threads).map(|thread| scope.spawn(move || play(thread))).collect();
        for thread in threads {
            match thread.join() {
                Ok(of_thread) => tally.add(of_thread),
                Err(_) => tally.find("a thread panicked while it was cleaning up".to_owned()),
            }
        }
    });
    match catch_unwind(AssertUnwindSafe(|| world.finish(&mut input))) {
        Ok(at_the_end) => tally.add(at_the_end),
        Err(_) => tally.find("the teardown panicked".to_owned()),
    }
    tally
}

/// Plays a fuzzer's bytes over a world on a simulated GPU, on as many threads, and returns the tally. The first bytes
/// choose the profile and the allocator; each call takes one byte, and as many as its arguments need. Each thread plays
/// a part of the calls.
#[must_use]
pub fn play_bytes(bytes: &[u8], threads: usize) -> Tally {
    let mut input = Input::of_bytes(bytes);
    let profiles = Profile::all();
    let profile = profiles[input.index(profiles.len())].clone();
    let device = SimulatedGpu::new(profile);
    let desc = WorldDesc::random(&mut input);
    let mut tally = Tally::default();
    match World::new(&device, &desc) {
        Ok(world) => {
            let play = |input| {
                let mut player = Player::new(&world, input);
                while !player.is_over() {
                    player.play();
                }
                player.finish()
            };
            match <[_; 1]>::try_from(input.split(threads)) {
                // On this thread: its calls are made in the same order each time, and a backtrace begins here.
                Ok([input]) => tally.add(play(input)),
                Err(inputs) => std::thread::scope(|scope| {
                    let threads: Vec<_> =
                        inputs.into_iter().map(|input| scope.spawn(|| play(input))).collect();
                    for thread in threads {
                        match thread.join() {
                            Ok(of_thread) => tally.add(of_thread),
                            Err(panic) => std::panic::resume_unwind(panic),
                        }
                    }
                }),
            }
            tally.add(world.finish(&mut Input::of_seed(bytes.len() as u64)));
        }
        Err(error) => tally.find(format!("no world: {error}")),
    }
    simulated_findings(&device).into_iter().for_each(|finding| tally.find(finding));
    tally
}

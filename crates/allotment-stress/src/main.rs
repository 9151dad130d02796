//! Makes random safe calls for a while and prints the tally. The exit code is 1 if anything was found.
//!
//! ```text
//! allotment-stress --device simulated|vulkan [--threads N] [--seconds S] [--seed X] [--profile NAME]
//!                  [--world all|gpu]           gpu: buffers of one `Gpu`, moved and used on all queues at once
//! allotment-stress --write-seeds FOLDER        write the initial corpus of the fuzz target
//! allotment-stress --play FILE [--threads N]   play an input of the fuzz target, on one thread or on as many
//! ```

use core::time::Duration;
use std::path::Path;
use std::process::ExitCode;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment_stress::{MixTally, RunDesc, Tally, mix, play_bytes, run, seeds, simulated_findings};

const USAGE: &str = "usage: allotment-stress --device simulated|vulkan [--threads N] [--seconds S] [--seed X] \
                     [--calls-a-world N] [--profile NAME, or part of a Vulkan device's] [--world all|gpu]\n       \
                     allotment-stress --write-seeds FOLDER\n       allotment-stress --play FILE [--threads N]\n";

struct Args {
    device: String,
    profile: Option<String>,
    /// Only calls of one `Gpu`.
    is_mix: bool,
    run: RunDesc,
    write_seeds: Option<String>,
    play: Option<String>,
    /// A file is played on one thread where nothing else is said: so it does the same each time.
    play_threads: usize,
}

fn args() -> Option<Args> {
    let mut args = Args {
        device: "simulated".to_owned(),
        profile: None,
        is_mix: false,
        run: RunDesc::new(4, Duration::from_secs(10), 1),
        write_seeds: None,
        play: None,
        play_threads: 1,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--device" => args.device = value,
            "--profile" => args.profile = Some(value),
            "--world" => args.is_mix = ["all", "gpu"].iter().position(|world| *world == value)? == 1,
            "--threads" => {
                args.run.threads = value.parse().ok()?;
                args.play_threads = args.run.threads as usize;
            }
            "--seconds" => args.run.time = Duration::from_secs(value.parse().ok()?),
            "--seed" => args.run.seed = value.parse().ok()?,
            "--calls-a-world" => args.run.calls_a_world = value.parse().ok()?,
            "--play" => args.play = Some(value),
            "--write-seeds" => args.write_seeds = Some(value),
            _ => return None,
        }
    }
    Some(args)
}

fn main() -> ExitCode {
    let Some(args) = args() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    if let Some(folder) = &args.write_seeds {
        return write_seeds(Path::new(folder));
    }
    if args.is_mix {
        return mixed(&args);
    }
    let tally = match (&args.play, args.device.as_str()) {
        (Some(file), _) => {
            let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"));
            bytes.map(|bytes| play_bytes(&bytes, args.play_threads))
        }
        (None, "simulated") => on_simulated_gpu(&args),
        (None, "vulkan") => on_vulkan(&args),
        (None, other) => Err(format!("unknown device {other}")),
    };
    let tally = match tally {
        Ok(tally) => tally,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    print!("{tally}");
    println!("device {}, threads {}, seed {}", args.device, args.run.threads, args.run.seed);
    ExitCode::from(u8::from(!tally.findings().is_empty()))
}

/// Makes the calls of one `Gpu`.
fn mixed(args: &Args) -> ExitCode {
    let tally = match args.device.as_str() {
        "simulated" => mixed_on_simulated_gpu(args),
        "vulkan" => mixed_on_vulkan(args),
        other => Err(format!("unknown device {other}")),
    };
    match tally {
        Ok(tally) => {
            print!("{tally}");
            println!("device {}, threads {}, seed {}", args.device, args.run.threads, args.run.seed);
            ExitCode::from(u8::from(!tally.findings().is_empty()))
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn mixed_on_simulated_gpu(args: &Args) -> Result<MixTally, String> {
    let name = args.profile.as_deref().unwrap_or("discrete-large-bar");
    let profile = Profile::named(name).ok_or("unknown profile")?;
    let device = SimulatedGpu::new(profile);
    // Later than the threads submit what comes next, so that the order is not that of a host that has seen everything.
    device.set_latency(Duration::from_micros(200));
    Ok(mix(&device, &args.run, || simulated_findings(&device)))
}

#[cfg(feature = "vulkan")]
fn mixed_on_vulkan(args: &Args) -> Result<MixTally, String> {
    let watched = allotment_stress::watched(args.profile.as_deref()).map_err(|error| error.to_string())?;
    println!("on {}", watched.name());
    let mut tally = mix(watched.device(), &args.run, || watched.findings());
    watched.close().into_iter().for_each(|message| tally.find(message));
    Ok(tally)
}

#[cfg(not(feature = "vulkan"))]
fn mixed_on_vulkan(_: &Args) -> Result<MixTally, String> {
    Err("built without Vulkan".to_owned())
}

/// Runs on one profile, or on all of them in turn, with an equal share of the time each.
fn on_simulated_gpu(args: &Args) -> Result<Tally, String> {
    let mut profiles = Profile::all();
    if let Some(name) = &args.profile {
        profiles.retain(|profile| profile.name == *name);
    }
    let parts = u32::try_from(profiles.len()).unwrap_or(1);
    let mut tally = Tally::default();
    for profile in profiles {
        let name = profile.name;
        let device = SimulatedGpu::new(profile);
        let mut desc = args.run;
        desc.time = args.run.time / parts;
        let of_profile = run(&device, &desc, || simulated_findings(&device));
        if !of_profile.findings().is_empty() {
            println!("findings on {name}");
        }
        tally.add(of_profile);
    }
    if parts == 0 || tally.worlds == 0 {
        return Err("unknown profile".to_owned());
    }
    Ok(tally)
}

#[cfg(feature = "vulkan")]
fn on_vulkan(args: &Args) -> Result<Tally, String> {
    let watched = allotment_stress::watched(args.profile.as_deref()).map_err(|error| error.to_string())?;
    println!("on {}", watched.name());
    let mut tally = run(watched.device(), &args.run, || watched.findings());
    watched.close().into_iter().for_each(|message| tally.find(message));
    Ok(tally)
}

#[cfg(not(feature = "vulkan"))]
fn on_vulkan(_: &Args) -> Result<Tally, String> {
    Err("built without Vulkan".to_owned())
}

fn write_seeds(folder: &Path) -> ExitCode {
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        seeds().iter().try_for_each(|seed| std::fs::write(folder.join(seed.name), &seed.bytes))
    });
    if let Err(error) = written {
        eprintln!("{}: {error}", folder.display());
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

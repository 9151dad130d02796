//! Runs `allotment attach` as a process, on a program that serves its events.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::process::{Command, Stdio};
use std::thread;

use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::{Gpu, GpuDesc, MemoryUsage};
use allotment_trace::live::LiveServer;
use allotment_trace::recording::{Event, Recording};
use common::{allotment, error_line, folder, json, started};

fn gpu() -> Gpu<SimulatedGpu> {
    Gpu::new(SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap()), GpuDesc::default()).unwrap()
}

#[test]
fn a_running_program_is_recorded_from_its_state_to_its_end() {
    let (folder, gpu) = (folder(), gpu());
    let server = LiveServer::bind(&gpu, "127.0.0.1:0").unwrap();
    let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("early")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_allotment-under-test"));
    command
        .args(["attach", &server.address().to_string(), "-o", "live.altr", "--json"])
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = started(|| command.spawn());
    while server.viewers() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it is attached");
        thread::yield_now();
    }
    let late = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("late")).unwrap();
    drop(server);
    let written = json(&child.wait_with_output().unwrap());
    let (recording, damage) = Recording::open(folder.path().join("live.altr")).unwrap();
    assert_eq!(damage, None);
    assert_eq!(written["events"].as_u64(), Some(recording.events.len() as u64));
    assert_eq!((written["missing"].as_u64(), written["ended"].as_bool()), (Some(0), Some(true)));
    let names: Vec<_> = recording
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Allocated(allocated) => recording.text(allocated.name),
            _ => None,
        })
        .collect();
    assert!(names.contains(&"early") && names.ends_with(&["late"]), "{names:?}");
    let report = allotment(&folder, &["report", "live.altr", "--json"]);
    assert!(json(&report)["bytes"].as_u64().unwrap() > 10_000);
    drop((mesh, late));
}

#[test]
fn a_recording_ends_after_its_seconds_and_the_program_runs_on() {
    let (folder, gpu) = (folder(), gpu());
    let server = LiveServer::bind(&gpu, "127.0.0.1:0").unwrap();
    let address = server.address().to_string();
    let output = allotment(&folder, &["attach", &address, "--seconds", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(text.starts_with("Attached to a program on simulated discrete-large-bar."), "{text}");
    assert!(text.contains("The time is over; the program runs on."), "{text}");
    assert!(text.contains("allotment report allotment-live.altr"), "{text}");
    let (_, damage) = Recording::open(folder.path().join("allotment-live.altr")).unwrap();
    assert_eq!(damage, None);
}

#[test]
fn what_serves_nothing_cannot_be_attached_to() {
    let folder = folder();
    let token = "00112233445566778899aabbccddeeff";
    for (address, says) in [
        ("127.0.0.1:80".to_owned(), "no address of a running program"),
        (format!("allotment://127.0.0.1:1/{token}"), "127.0.0.1:1 cannot be reached"),
    ] {
        let output = allotment(&folder, &["attach", &address]);
        assert_eq!(output.status.code(), Some(2));
        let line = error_line(&output);
        assert!(line.contains(says), "{line}");
    }
    assert!(std::fs::read_dir(&folder).unwrap().next().is_none(), "no file is created");
}

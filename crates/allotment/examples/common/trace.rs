//! `--trace FILE`: records what an example does, for `allotment report FILE`. `--live ADDRESS`: serves it to viewers while it
//! runs, at `127.0.0.1:0` for example; with `--wait` it begins once there is a viewer.

use core::error::Error;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use allotment::{Device, Gpu};
use allotment_trace::Recorder;
use allotment_trace::live::LiveServer;

/// What reads the events.
enum Reader {
    Recorder(Recorder),
    Server(LiveServer),
}

/// Finished when the example has dropped everything, so that the recording has that, too.
static READER: Mutex<Option<Reader>> = Mutex::new(None);

const OPTIONS: [&str; 2] = ["--trace", "--live"];

const WAIT: &str = "--wait";

/// Returns the program's arguments without `--trace FILE`, `--live ADDRESS` and `--wait`, and without other options that have
/// a value.
pub(crate) fn other_arguments(options: &[&str]) -> Vec<String> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let is_option = |argument: &String| OPTIONS.iter().chain(options).any(|option| option == argument);
    while let Some(at) = arguments.iter().position(is_option) {
        arguments.drain(at..(at + 2).min(arguments.len()));
    }
    arguments.retain(|argument| argument != WAIT);
    arguments
}

/// Returns the argument after an option.
pub(crate) fn value_of(option: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != option).nth(1)
}

/// Records or serves from here on, if the arguments or the environment variables `ALLOTMENT_TRACE` and `ALLOTMENT_LIVE` say so.
pub(crate) fn record<D: Device>(gpu: &Gpu<D>) -> Result<(), Box<dyn Error>> {
    let recorder = match value_of("--trace") {
        Some(path) => Some(Recorder::to_file(gpu, path)?),
        None => Recorder::from_env(gpu)?,
    };
    let server = match value_of("--live") {
        Some(address) => Some(LiveServer::bind(gpu, &address)?),
        None => LiveServer::from_env(gpu)?,
    };
    if let Some(server) = &server {
        println!("served at {}", server.address());
        while std::env::args().any(|argument| argument == WAIT) && server.viewers() == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let reader = recorder.map(Reader::Recorder).or(server.map(Reader::Server));
    *READER.lock().unwrap_or_else(PoisonError::into_inner) = reader;
    Ok(())
}

/// Writes the rest of the recording, if there is one, and lets viewers go.
pub(crate) fn finish() -> Result<(), Box<dyn Error>> {
    match READER.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(Reader::Recorder(recorder)) => {
            let summary = recorder.finish()?;
            println!("recorded {} events in {} bytes", summary.events, summary.bytes);
        }
        Some(Reader::Server(server)) => {
            let statistics = server.statistics();
            println!("served {} viewers, dropped {} events", statistics.accepted, statistics.dropped_events);
        }
        None => {}
    }
    Ok(())
}

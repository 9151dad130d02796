//! `--trace FILE`: records what an example does, for `allotment report FILE`.

use core::error::Error;
use std::sync::{Mutex, PoisonError};

use allotment::{Device, Gpu};
use allotment_trace::Recorder;

/// Finished when the example has dropped everything, so that the recording has that, too.
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

/// Returns the program's arguments without `--trace FILE`.
pub(crate) fn other_arguments() -> Vec<String> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--trace") {
        arguments.drain(at..(at + 2).min(arguments.len()));
    }
    arguments
}

/// Records from here on, if the arguments or the environment variable `ALLOTMENT_TRACE` say so.
pub(crate) fn record<D: Device>(gpu: &Gpu<D>) -> Result<(), Box<dyn Error>> {
    let path = std::env::args().skip_while(|argument| argument != "--trace").nth(1);
    let recorder = match path {
        Some(path) => Some(Recorder::to_file(gpu, path)?),
        None => Recorder::from_env(gpu)?,
    };
    *RECORDER.lock().unwrap_or_else(PoisonError::into_inner) = recorder;
    Ok(())
}

/// Writes the rest of the recording, if there is one.
pub(crate) fn finish() -> Result<(), Box<dyn Error>> {
    let recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(summary) = recorder.map(Recorder::finish).transpose()? {
        println!("recorded {} events in {} bytes", summary.events, summary.bytes);
    }
    Ok(())
}

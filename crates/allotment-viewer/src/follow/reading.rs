//! The thread that connects and reads.

use core::time::Duration;
use std::sync::Arc;
use std::thread;

use allotment_trace::live::{LiveAddress, LiveError, LiveProgress, LiveRecording};
use allotment_trace::recording::ReadOptions;

use super::indexing::Indexing;
use super::{Limits, Phase, Shared};

/// Between two attempts to connect: a person does not notice it, and an attempt costs next to nothing.
const RETRY: Duration = Duration::from_millis(250);

/// The thread waits this long for events, and then checks whether it was stopped.
const PATIENCE: Duration = Duration::from_millis(20);

/// The allocations that exist may need more events than [`Limits::events`]. Above this multiple of the limit, following ends
/// with an error.
const MOST_TIMES: usize = 4;

/// Follows a program to its end.
pub(super) fn follow(address: &LiveAddress, limits: Limits, shared: &Arc<Shared>) {
    let options = ReadOptions::default().with_max_text_bytes(limits.text_bytes);
    let options = options.with_max_events(limits.events.saturating_mul(MOST_TIMES));
    let Some(mut live) = connect(address, &options, shared) else { return };
    shared.tell(|status| status.phase = Phase::Connected);
    let mut indexing = Indexing::new(Arc::clone(shared));
    // Beyond so many events, the older half is forgotten.
    let mut most = limits.events;
    while !shared.is_stopped() {
        let polled = live.poll(PATIENCE);
        if let Ok(progress) = &polled {
            indexing.behind |= progress.events != 0;
            tell_drops(progress, shared);
        }
        let count = live.recording().events.len();
        if let Some(forgotten) = (count > most).then(|| live.keep_last(limits.events / 2)).flatten() {
            indexing.forget(forgotten);
            // What still existed after them may be more events than they were.
            let fewer = forgotten.events.saturating_sub(forgotten.replaced_by) as u64;
            shared.tell(|status| status.forgotten += fewer);
            // What exists may be more than the half that was to be saved: then it is worth while later.
            most = limits.events.max(live.recording().events.len() * 2);
        }
        if let Some(phase) = end(polled, &live) {
            shared.tell(|status| status.phase = phase);
            indexing.finish(live.into_recording());
            return;
        }
        indexing.advance(live.recording());
    }
}

/// Connects once the program is there. `None` if it is not to be followed.
fn connect(address: &LiveAddress, options: &ReadOptions, shared: &Shared) -> Option<LiveRecording> {
    while !shared.is_stopped() {
        match LiveRecording::connect_with(address, options) {
            Ok(live) => return Some(live),
            // What is there is another program, or another start of it.
            Err(
                error @ (LiveError::WrongToken
                | LiveError::Version { .. }
                | LiveError::Refused { .. }
                | LiveError::Recording(_)
                | LiveError::Damaged(_)
                | LiveError::TooMuch { .. }),
            ) => {
                shared.tell(|status| status.phase = Phase::Failed(error.to_string()));
                return None;
            }
            // A program that begins or ends just now hangs up.
            Err(error) => {
                shared.tell(|status| status.phase = Phase::Waiting { why: Some(error.to_string()) });
            }
        }
        thread::park_timeout(RETRY);
    }
    None
}

/// Returns how it has ended, if it has.
fn end(polled: Result<LiveProgress, LiveError>, live: &LiveRecording) -> Option<Phase> {
    match polled {
        Ok(_) => live.has_ended().then_some(Phase::Ended),
        Err(LiveError::Disconnected | LiveError::Io(_)) => Some(Phase::Lost),
        Err(error) => Some(Phase::Failed(error.to_string())),
    }
}

fn tell_drops(progress: &LiveProgress, shared: &Shared) {
    // The first time, the state begins the recording.
    if let Some(dropped) = progress.restarted.filter(|&dropped| dropped != 0) {
        shared.tell(|status| {
            status.dropped += dropped;
            status.resynchronised += 1;
        });
    }
}

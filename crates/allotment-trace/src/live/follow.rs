//! A recording that grows with the program that it is of.

use core::time::Duration;
use std::io::{BufWriter, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

use super::address::LiveAddress;
use super::error::LiveError;
use super::reader::{LiveReader, LiveUpdate};
use crate::output::replace_recording;
use crate::recorder::RecordError;
use crate::recording::{Event, ReadOptions, Recording, State, Summary};

/// What a call of [`LiveRecording::poll`] has added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveProgress {
    /// Events of the recording.
    pub events: usize,
    /// The recording has begun, or events were dropped before these: how many.
    pub restarted: Option<u64>,
}

/// What [`LiveRecording::keep_last`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveForgotten {
    /// The oldest events, which are gone.
    pub events: usize,
    /// The events that took their place: what still existed, and a mark. The event that was number `events` has this
    /// number now.
    pub replaced_by: usize,
}

/// Views a running program and keeps all that it says as a [`Recording`], to look into and to save.
///
/// What existed already comes first, as events that lead to it, and a mark. Where events were dropped because the viewer
/// was too slow, the recording has [`Event::Lost`], events that lead to the state then, and a mark that says how many were
/// dropped.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::{Gpu, GpuDesc};
/// # let gpu = Gpu::new(SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap()), GpuDesc::default())?;
/// # let server = allotment_trace::live::LiveServer::bind(&gpu, "127.0.0.1:0")?;
/// # let address = server.address();
/// # let path = std::env::temp_dir().join(format!("allotment-doc-live-{}.altr", std::process::id()));
/// use allotment_trace::live::LiveRecording;
/// use std::time::Duration;
///
/// let mut live = LiveRecording::connect(address)?;
/// live.poll(Duration::from_millis(100))?; // now and then
/// let used: u64 = live.state().blocks.values().map(|block| block.size).sum();
/// println!("{used} bytes of blocks after {} events", live.recording().events.len());
/// live.save(&path)?; // for `allotment report`, now or at the end
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// 72 bytes an event and two copies of each distinct text, up to the limits of the [`ReadOptions`]; then
/// [`LiveError::TooMuch`], and what came before stays. A viewer that runs for long forgets old events with
/// [`keep_last`](Self::keep_last).
#[derive(Debug)]
pub struct LiveRecording<S = TcpStream> {
    reader: LiveReader<S>,
    recording: Recording,
    state: State,
    began: bool,
    dropped: u64,
    max_events: usize,
    /// Some events were taken out, so those that are here do not begin with what existed.
    taken: bool,
    /// The program's events that were forgotten, and how many events of the recording took their place.
    forgotten: u64,
    in_their_place: usize,
}

impl LiveRecording {
    /// Connects to a running program. Waits up to five seconds for its answer.
    ///
    /// # Errors
    ///
    /// [`LiveError`], if the program cannot be reached, or refuses.
    pub fn connect(address: &LiveAddress) -> Result<Self, LiveError> {
        Self::connect_with(address, &ReadOptions::default())
    }

    /// Connects to a running program, with other limits on the recording than the default ones.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    pub fn connect_with(address: &LiveAddress, options: &ReadOptions) -> Result<Self, LiveError> {
        LiveReader::connect_with(address, options).map(|reader| Self::new(reader, options))
    }

    /// Adds what comes within `timeout`: returns after the first that does, with what came with it, and not later for a
    /// program that never rests.
    ///
    /// # Errors
    ///
    /// [`LiveError`], if the connection fails, what comes is no recording, or it is too much. What came before stays.
    pub fn poll(&mut self, timeout: Duration) -> Result<LiveProgress, LiveError> {
        let mut progress = LiveProgress::default();
        let began = Instant::now();
        let mut patience = timeout;
        while let Some(update) = self.reader.poll(patience)? {
            self.add(update, &mut progress)?;
            if began.elapsed() >= timeout {
                break;
            }
            patience = Duration::ZERO;
        }
        Ok(progress)
    }
}

impl<S: Read + Write> LiveRecording<S> {
    /// Begins a recording of what a reader brings, of at most as many events as the options say.
    #[must_use]
    pub fn new(reader: LiveReader<S>, options: &ReadOptions) -> Self {
        Self {
            recording: Recording { header: reader.header().clone(), ..Recording::default() },
            reader,
            state: State::default(),
            began: false,
            dropped: 0,
            max_events: options.max_events,
            taken: false,
            forgotten: 0,
            in_their_place: 0,
        }
    }

    /// Adds what one read of the stream brings. Returns `None` if that is no whole update, and after the end.
    ///
    /// # Errors
    ///
    /// As of a stream of TCP.
    pub fn read(&mut self) -> Result<Option<LiveProgress>, LiveError> {
        let Some(update) = self.reader.next_update()? else { return Ok(None) };
        let mut progress = LiveProgress::default();
        self.add(update, &mut progress)?;
        Ok(Some(progress))
    }

    fn add(&mut self, update: LiveUpdate, progress: &mut LiveProgress) -> Result<(), LiveError> {
        let before = self.recording.events.len();
        let added = match update {
            LiveUpdate::Restarted { state, dropped } => {
                progress.restarted = Some(progress.restarted.unwrap_or(0) + dropped);
                self.restart(&state, dropped)
            }
            LiveUpdate::Events(events) => events.iter().try_for_each(|event| self.push(event)),
            LiveUpdate::Ended => Ok(()),
        };
        self.keep_texts();
        progress.events += self.recording.events.len() - before;
        added
    }

    /// Forgets the oldest events, so that the last `events` stay. What existed before them comes first, as events that lead
    /// to it, and a mark. `None` if there are no more than these, or if [`take_events`](Self::take_events) has taken some that came
    /// before. All texts stay.
    ///
    /// Cost: applies every event once, about 50 ns for each.
    pub fn keep_last(&mut self, events: usize) -> Option<LiveForgotten> {
        if self.taken {
            return None;
        }
        let forgotten = self.recording.events.len().checked_sub(events).filter(|&count| count != 0)?;
        // Those that took the place of others were none of the program's.
        self.forgotten += forgotten.saturating_sub(self.in_their_place) as u64;
        let (old, last) = self.recording.events.split_at(forgotten);
        let mut kept = state_after(old).to_events();
        let text = format!("here the recording begins: {} events before were forgotten", self.forgotten);
        kept.push(Event::Mark { text: self.reader.number(&text) });
        let replaced_by = kept.len();
        self.in_their_place = replaced_by + self.in_their_place.saturating_sub(forgotten);
        kept.extend_from_slice(last);
        // Its moments count events, and these have other numbers now.
        self.state = state_after(&kept);
        self.recording.events = kept;
        self.keep_texts();
        Some(LiveForgotten { events: forgotten, replaced_by })
    }

    fn restart(&mut self, state: &State, dropped: u64) -> Result<(), LiveError> {
        let mark = if self.began {
            self.dropped += dropped;
            self.push(&Event::Lost)?;
            // They are of no pool, and so are not forgotten with the pools.
            let rings: Vec<_> = self.state.rings.keys().copied().collect();
            for ring in rings.into_iter().filter(|ring| !state.rings.contains_key(ring)) {
                self.push(&Event::RingDestroyed { ring })?;
            }
            format!("{dropped} events before are missing: the viewer was too slow")
        } else {
            "here the recording begins: before, what still existed".to_owned()
        };
        self.began = true;
        for event in state.to_events_after(self.state.now) {
            self.push(&event)?;
        }
        let text = self.reader.number(&mark);
        self.push(&Event::Mark { text })
    }

    fn push(&mut self, event: &Event) -> Result<(), LiveError> {
        if self.recording.events.len() >= self.max_events {
            return Err(LiveError::TooMuch { of: "events", limit: self.max_events as u64 });
        }
        // What contradicts the events before changes nothing, as when it was recorded.
        let _ = self.state.apply(event);
        self.recording.events.push(*event);
        Ok(())
    }

    /// Copies the texts and the stacks that are new.
    fn keep_texts(&mut self) {
        let new = &self.reader.texts()[self.recording.texts.len()..];
        self.recording.texts.extend_from_slice(new);
        for frame in &self.reader.stacks().frames()[self.recording.stacks.len()..] {
            // Those of the reader are within the bounds.
            let _ = self.recording.stacks.push(*frame);
        }
    }
}

/// What contradicts the events before changes nothing, as when it was recorded.
fn state_after(events: &[Event]) -> State {
    let mut state = State::default();
    for event in events {
        let _ = state.apply(event);
    }
    state
}

impl<S> LiveRecording<S> {
    /// Returns the recording until now.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Returns the state after its last event.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns how many events were dropped because the viewer was too slow.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns true after the program has ended its recording, and after an error.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.reader.has_ended()
    }

    /// Takes the events out of the recording, for a viewer that keeps them elsewhere: a long one takes no more memory then
    /// than its texts and the state. The next ones follow them, and name the same texts.
    #[must_use]
    pub fn take_events(&mut self) -> Vec<Event> {
        self.taken |= !self.recording.events.is_empty();
        core::mem::take(&mut self.recording.events)
    }

    /// Returns the recording, and hangs up.
    #[must_use]
    pub fn into_recording(self) -> Recording {
        self.recording
    }

    /// Writes the recording until now to a file. A file that exists is replaced once the new one is whole.
    ///
    /// # Errors
    ///
    /// [`RecordError::Create`], [`RecordError::InUse`] and [`RecordError::Write`]. A file that exists is unchanged then.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Summary, RecordError> {
        replace_recording(path.as_ref(), |file| self.recording.write(BufWriter::new(file)))
    }
}

//! `allotment attach`: records a program that runs and serves its events.
//!
//! The file grows as the program runs and can be read after each second, so that Ctrl-C loses no more than that.

use core::time::Duration;
use std::fs::File;
use std::time::Instant;

use allotment_trace::live::{LiveAddress, LiveError, LiveRecording};
use allotment_trace::output::OutputFile;
use allotment_trace::recording::{RecordingWriter, StackFrame, StackId, Summary, TextId, WriterDesc};
use serde::Serialize;

use crate::args::AttachArgs;
use crate::failure::Failure;
use crate::units::bytes;

/// How often the file is written and a line is printed.
const EVERY: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &AttachArgs) -> Result<(), Failure> {
    let address: LiveAddress =
        args.address.parse().map_err(|error: LiveError| Failure::Usage(error.to_string()))?;
    let live = LiveRecording::connect(&address).map_err(|error| Failure::Input(error.to_string()))?;
    let failed = |error| Failure::write(&args.output, error);
    let (file, unnamed) = OutputFile::new(&args.output).and_then(|output| output.create()).map_err(failed)?;
    let header = &live.recording().header;
    let writer = RecordingWriter::new(file, header, &WriterDesc::default()).map_err(failed)?;
    unnamed.take_name().map_err(failed)?;
    if !args.json {
        say!("Attached to a program on {}.", header.device);
    }
    let mut attached =
        Attached { live, writer, texts: Vec::new(), stacks: Vec::new(), began: Instant::now() };
    let ended = attached.follow(args)?;

    let Attached { live, writer, .. } = attached;
    let (_, summary) = writer.finish().map_err(|error| Failure::write(&args.output, error))?;
    let output = args.output.display().to_string();
    if args.json {
        let json = AttachJson::new(&output, &summary, live.dropped(), matches!(ended, End::Program));
        say!("{}", serde_json::to_string(&json)?);
    } else {
        say!("{}", ended.text());
        let size = bytes(summary.bytes);
        say!(
            "The recording is in {output} ({size}, {} events): see `allotment report {output}`.",
            summary.events
        );
    }
    Ok(())
}

/// Why a recording is over.
#[derive(Clone, Copy, Debug)]
enum End {
    Program,
    Connection,
    Time,
}

impl End {
    const fn text(self) -> &'static str {
        match self {
            Self::Program => "The program has ended.",
            Self::Connection => "The connection has ended before the recording: the program was killed.",
            Self::Time => "The time is over; the program runs on.",
        }
    }
}

struct Attached {
    live: LiveRecording,
    writer: RecordingWriter<File>,
    /// The numbers in the file of the texts that have come.
    texts: Vec<TextId>,
    /// And those of the calls of stacks.
    stacks: Vec<StackId>,
    began: Instant,
}

impl Attached {
    /// Records until the program ends or the time is over.
    fn follow(&mut self, args: &AttachArgs) -> Result<End, Failure> {
        let limit = args.seconds.map(Duration::from_secs);
        let mut next = EVERY;
        loop {
            let now = self.began.elapsed();
            let until = limit.map_or(next, |limit| limit.min(next));
            let polled = self.live.poll(until.saturating_sub(now));
            self.write().map_err(|error| Failure::write(&args.output, error))?;
            match polled {
                Ok(_) if self.live.has_ended() => return Ok(End::Program),
                Ok(_) => {}
                Err(LiveError::Disconnected) => return Ok(End::Connection),
                Err(error) => return Err(Failure::Input(error.to_string())),
            }
            let now = self.began.elapsed();
            if limit.is_some_and(|limit| now >= limit) {
                return Ok(End::Time);
            }
            if now >= next {
                self.writer.flush().map_err(|error| Failure::write(&args.output, error))?;
                if !args.json {
                    self.say_state(now);
                }
                next = now + EVERY;
            }
        }
    }

    /// Moves what has come to the file.
    fn write(&mut self) -> std::io::Result<()> {
        let new = &self.live.recording().texts[self.texts.len()..];
        self.texts.extend(new.iter().map(|text| self.writer.text(text)));
        let number = |texts: &[TextId], text: TextId| {
            let index = (text.0 as usize).checked_sub(1);
            index.and_then(|index| texts.get(index)).copied().unwrap_or_default()
        };
        let stack = |stacks: &[StackId], stack: StackId| {
            let index = (stack.0 as usize).checked_sub(1);
            index.and_then(|index| stacks.get(index)).copied().unwrap_or_default()
        };
        for frame in &self.live.recording().stacks.frames()[self.stacks.len()..] {
            let parent = stack(&self.stacks, frame.parent);
            let [function, place] = [frame.function, frame.place].map(|text| number(&self.texts, text));
            self.stacks.push(self.writer.stack(StackFrame { parent, function, place }));
        }
        for event in self.live.take_events() {
            let event = event.map_texts(|text| number(&self.texts, text));
            self.writer.event(&event.map_stack(|of| stack(&self.stacks, of)))?;
        }
        Ok(())
    }

    fn say_state(&self, now: Duration) {
        let state = self.live.state();
        let used: u64 = state.allocations.values().map(|live| live.is.occupied).sum();
        let all: u64 = state.blocks.values().map(|block| block.size).sum();
        let dropped = match self.live.dropped() {
            0 => String::new(),
            dropped => format!(", {dropped} events missing"),
        };
        say!(
            "{:>5.0?}  frame {}: {} allocations, {} in use of {} in {} blocks{dropped}",
            now,
            state.now.frame,
            state.allocations.len(),
            bytes(used),
            bytes(all),
            state.blocks.len(),
        );
    }
}

/// The JSON output.
#[derive(Serialize)]
struct AttachJson<'a> {
    output: &'a str,
    bytes: u64,
    events: u64,
    /// Events that are missing because this command was too slow.
    missing: u64,
    /// The program has ended its recording.
    ended: bool,
}

impl<'a> AttachJson<'a> {
    const fn new(output: &'a str, summary: &Summary, missing: u64, ended: bool) -> Self {
        Self { output, bytes: summary.bytes, events: summary.events, missing, ended }
    }
}

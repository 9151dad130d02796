//! `allotment whatif`: what an allocator with other settings does with the requests of a recording.

use allotment_analyze::{PeakFigures, Timeline, WhatIf, WhatIfError, recorded_settings, what_if};
use allotment_trace::allocator_settings;
use allotment_trace::recording::Recording;
use serde::Serialize;

use super::args::WhatIfArgs;
use super::json::{FiguresJson, PeakJson};
use super::load::{load, need_history};
use super::table::{self, shown};
use super::unread::{say_json, say_unread};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::units::{bytes, count, percent};

pub(crate) fn run(args: &WhatIfArgs) -> Result<(), Failure> {
    let output = args.output.as_deref().map(OutputFile::new).transpose()?;
    let file = args.file();
    if output.as_ref().is_some_and(|output| output.is(&file.path)) {
        let file = file.path.display();
        return Err(Failure::Usage(format!("{file} is the recording and would be overwritten")));
    }
    let loaded = load(&file)?;
    need_history(&loaded, "in which order anything was requested")?;
    let mut settings = recorded_settings(&loaded.recording);
    args.changes().apply(&mut settings);
    let other = what_if(&loaded.recording, &settings).map_err(refused)?;
    if let (Some(file), Some(path)) = (&output, &args.output) {
        // Whole in memory before it is written, as every file of this command is.
        let mut recording = Vec::new();
        other.recording.write(&mut recording).map_err(|error| Failure::write(path, error))?;
        file.write(&recording)?;
    }
    let [recorded, played] = [&loaded.recording, &other.recording].map(Timeline::new);
    let (was, is) = (PeakFigures::of(&recorded), PeakFigures::of(&played));
    let unread = recorded.unread();
    let changed = changed(&allocator_settings(&recorded_settings(&loaded.recording)), &other.recording);
    if args.json {
        let what_if = WhatIfJson {
            file: &loaded.title,
            changed: &changed,
            requests: other.requests,
            at_the_same_place: other.at_the_same_place,
            refused: other.refused,
            refused_before: other.refused_before,
            served_now: other.served_now,
            moves_left_out: other.moves_left_out,
            recorded: SideJson::new(&was, &recorded),
            what_if: SideJson::new(&is, &played),
        };
        say_json(&unread, &what_if)?;
    } else {
        say_unread(&unread);
        print(&loaded.title, &changed, &other, &was, &is);
    }
    Ok(())
}

fn refused(error: WhatIfError) -> Failure {
    let WhatIfError::Allocator(why) = &error else { return Failure::Usage(error.to_string()) };
    Failure::Usage(format!("{error}: {why}"))
}

/// A setting that differs: its name, what it was, what it is.
#[derive(Serialize)]
struct Changed {
    setting: String,
    recorded: String,
    what_if: String,
}

/// Returns the settings of a recording that differ from others.
fn changed(from: &[(String, String)], to: &Recording) -> Vec<Changed> {
    let differing = from.iter().zip(&to.header.settings).filter(|(was, is)| was != is);
    let changed = differing.map(|((setting, was), (_, is))| Changed {
        setting: setting.clone(),
        recorded: was.clone(),
        what_if: is.clone(),
    });
    changed.collect()
}

/// Returns the value of a setting as a person reads it.
fn value_of(setting: &str, value: &str) -> String {
    let is_size = (setting.contains("block") || setting.contains("bytes")) && !setting.contains("divisor");
    match value.parse() {
        Ok(size) if is_size && !setting.contains("frames") => bytes(size),
        _ => shown(value),
    }
}

fn print(title: &str, changed: &[Changed], other: &WhatIf, was: &PeakFigures, is: &PeakFigures) {
    if changed.is_empty() {
        say!("{} again, with the settings that it was recorded with", shown(title));
    } else {
        say!("{} with other settings:", shown(title));
        for Changed { setting, recorded, what_if } in changed {
            let value = |value| value_of(setting, value);
            say!("  {}: {}, not {}", shown(setting), value(what_if), value(recorded));
        }
    }
    table::print(&PeakFigures::table(["Recorded", "What if"], [was, is]));
    say!();
    let WhatIf { requests, at_the_same_place, refused, refused_before, served_now, moves_left_out, .. } =
        other;
    let same = percent(*at_the_same_place, *requests);
    say!("{} requests, {same} of them at the same place", count(*requests));
    if *refused != 0 {
        say!("{} requests are refused with these settings", count(*refused));
    }
    if *refused_before != 0 {
        let (before, now) = (count(*refused_before), count(*served_now));
        say!("{before} requests were refused in the recording; {now} of them get memory with these settings");
    }
    if *moves_left_out != 0 {
        say!("{} moves of defragmentation are left out", count(*moves_left_out));
    }
}

/// The JSON output.
#[derive(Serialize)]
struct WhatIfJson<'a> {
    file: &'a str,
    changed: &'a [Changed],
    requests: u64,
    at_the_same_place: u64,
    refused: u64,
    refused_before: u64,
    served_now: u64,
    moves_left_out: u64,
    recorded: SideJson,
    what_if: SideJson,
}

#[derive(Serialize)]
struct SideJson {
    peak_blocks: PeakJson,
    peak_used: PeakJson,
    at_peak: FiguresJson,
    allocated_blocks: u64,
}

impl SideJson {
    fn new(figures: &PeakFigures, timeline: &Timeline<'_>) -> Self {
        let peak = |peak| PeakJson::of(timeline, peak);
        Self {
            peak_blocks: peak(figures.peaks.blocks),
            peak_used: peak(figures.peaks.used),
            at_peak: (&figures.at_peak).into(),
            allocated_blocks: figures.allocated_blocks,
        }
    }
}

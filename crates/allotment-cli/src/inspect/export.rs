//! `allotment export`: a recording as a file for another tool.

use std::io;
use std::path::Path;

use allotment_trace::export::{Export, Format};
use serde::Serialize;

use super::args::{ExportArgs, ExportFormat};
use super::load::{index, load, need_history};
use super::unread::{say_json, say_unread, warn_unread};
use crate::failure::Failure;
use crate::output;
use crate::output_file::OutputFile;
use crate::units::bytes;

/// Where an export is written if nobody says where.
const STANDARD_OUTPUT: &str = "standard output";

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let output = args.output.as_deref().map(OutputFile::new).transpose()?;
    if output.as_ref().is_some_and(|output| output.is(&args.file.path)) {
        let file = args.file.path.display();
        return Err(Failure::Usage(format!("{file} is the recording and would be overwritten")));
    }
    let loaded = load(&args.file)?;
    match args.format {
        ExportFormat::Chrome => need_history(&loaded, "what happened before")?,
        ExportFormat::Traffic => need_history(&loaded, "in which order anything was requested")?,
        ExportFormat::Vma | ExportFormat::Firefox | ExportFormat::Csv => {}
    }
    let timeline = index(&loaded);
    let (until, unread) = (args.at.position(&timeline)?, timeline.unread());
    let format = match args.format {
        ExportFormat::Vma => Format::VmaJson,
        ExportFormat::Chrome => Format::ChromeJson,
        ExportFormat::Firefox => Format::FirefoxJson,
        ExportFormat::Csv => Format::AllocationsCsv,
        ExportFormat::Traffic => Format::TrafficCsv,
    };
    // Whole in memory before it is written, as every file of this command is.
    let mut text = Vec::new();
    let path = args.output.as_deref().unwrap_or(Path::new(STANDARD_OUTPUT));
    let written = Export::of(&loaded.recording).up_to(until).write(format, &mut text);
    written.map_err(|error| Failure::write(path, error))?;
    let Some(file) = output else {
        warn_unread(&unread);
        output::check(|| io::Write::write_all(&mut io::stdout(), &text));
        return Ok(());
    };
    file.write(&text)?;
    let (path, size) = (path.display().to_string(), text.len() as u64);
    if args.json {
        let export = ExportJson { file: &loaded.title, format: format.name(), output: &path, bytes: size };
        say_json(&unread, &export)?;
    } else {
        say!("{path}: {}", bytes(size));
        say_unread(&unread);
    }
    Ok(())
}

/// The JSON output.
#[derive(Serialize)]
struct ExportJson<'a> {
    file: &'a str,
    format: &'a str,
    output: &'a str,
    bytes: u64,
}

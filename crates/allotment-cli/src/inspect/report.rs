//! `allotment report`: a recording as one HTML page.

use allotment_analyze::{AdviceThresholds, Cursor, advice};
use allotment_report::Report;
use serde::Serialize;

use super::args::ReportArgs;
use super::load::{Loaded, index, load};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::units::bytes;

pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let output = OutputFile::new(&args.output)?;
    if output.is(&args.file.path) {
        let file = args.file.path.display();
        return Err(Failure::Usage(format!("{file} is the recording and would be overwritten")));
    }
    let loaded = load(&args.file)?;
    // Whole in memory before it is written, as every file of this command is.
    let mut page = Vec::new();
    let Loaded { title, recording } = &loaded;
    let mut report = Report::new(title, &recording.header);
    recording.events.iter().for_each(|event| report.push(event));
    let timeline = index(&loaded);
    let cursor = Cursor::at(&timeline, timeline.end());
    for advice in advice(&cursor, &AdviceThresholds::default()) {
        report.advise(&advice.to_string(), None);
    }
    let written = report.write(&recording.texts, &mut page);
    written.map_err(|error| Failure::write(&args.output, error))?;
    output.write(&page)?;
    let (path, size) = (args.output.display().to_string(), page.len() as u64);
    if args.json {
        let report = ReportJson { file: &loaded.title, output: &path, bytes: size };
        say!("{}", serde_json::to_string(&report)?);
    } else {
        say!("The report is in {path} ({}): open it in a browser.", bytes(size));
    }
    Ok(())
}

/// The JSON output.
#[derive(Serialize)]
struct ReportJson<'a> {
    file: &'a str,
    output: &'a str,
    bytes: u64,
}

//! `allotment report`: a recording as one HTML page.

use serde::Serialize;

use super::args::ReportArgs;
use super::load::{index, load};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::report::page;
use crate::units::bytes;

pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let output = OutputFile::new(&args.output)?;
    if output.is(&args.file.path) {
        let file = args.file.path.display();
        return Err(Failure::Usage(format!("{file} is the recording and would be overwritten")));
    }
    let loaded = load(&args.file)?;
    // The page is about what makes sense, and the warning about the rest.
    index(&loaded);
    // Whole in memory before it is written, as every file of this command is.
    let page = page(&loaded.title, &loaded.recording)?;
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

//! `allotment report`: a recording as one HTML page.

use serde::Serialize;

use super::args::ReportArgs;
use super::load::{index, load};
use super::unread::{say_json, say_unread};
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
    let unread = index(&loaded).unread();
    // Whole in memory before it is written, as every file of this command is.
    let page = page(&loaded.title, &loaded.recording)?;
    output.write(&page)?;
    let (path, size) = (args.output.display().to_string(), page.len() as u64);
    if args.json {
        let report = ReportJson { file: &loaded.title, output: &path, bytes: size };
        say_json(&unread, &report)?;
    } else {
        say!("The report is in {path} ({}): open it in a browser.", bytes(size));
        say_unread(&unread);
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

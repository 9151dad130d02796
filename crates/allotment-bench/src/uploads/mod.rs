//! `uploads`: what streamed textures cost frames, and how much of a queue's rate they reach.
//!
//! ```text
//!   frames    on the simulated GPU, 20 ms a submission: 16 MiB through 1 MiB, beside frames and small writes
//!   streams   on Vulkan: textures from several threads over the transfer queue, beside plain copies of the same texels
//!   plain     those plain copies
//!   report    both as a table and as JSON
//! ```
//!
//! That the bytes are right is what the library's tests are for.

mod frames;
mod plain;
mod report;
mod streams;

use core::fmt::Display;

use crate::args::UploadsArgs;
use crate::failure::Failure;
use crate::vulkan::Gpu;
use report::Report;

pub(crate) fn run(args: &UploadsArgs) -> Result<(), Failure> {
    let chosen = |part: &str| args.only.as_deref().is_none_or(|only| part.starts_with(only));
    let mut report = Report::default();
    if chosen("frames") {
        report.frames = Some(frames::measure()?);
    }
    if chosen("streams") {
        let gpu = Gpu::open(&args.common)?;
        report.streams = Some(streams::measure(&gpu, args)?);
    }
    report.print(args.common.json)
}

fn failed(error: impl Display) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}

//! `textures`: the first upload of textures, staged and copied by the CPU into the images, in one run.
//!
//! ```text
//!   images     new for each repetition, half of them with the usage for copies by the CPU
//!   write      what the thread spends that has the bytes
//!   there      until the GPU can use them: with the submission and its end, where they are staged
//!   report     both as a table and as JSON
//! ```
//!
//! The two ways take turns, so that both meet the machine in the same state. That the bytes are right is what the library's
//! tests are for.

mod report;
mod work;

use allotment::device::ImageDesc;
use ash::vk;
use serde::Serialize;

use crate::args::TexturesArgs;
use crate::failure::Failure;
use crate::units::median;
use crate::vulkan::Gpu;
use report::Report;
use work::{Bench, Times};

/// Bytes of one repetition, unless one texture has more.
const BYTES: u64 = 32 << 20;

/// Most textures of one repetition.
const MOST: u64 = 256;

/// Textures of one format and size, with all mip levels.
#[derive(Clone, Debug, Serialize)]
struct Row {
    format: &'static str,
    side: u32,
    /// Bytes of one texture.
    bytes: u64,
    textures: u64,
    /// Medians for one texture, in microseconds.
    staged_write_us: f64,
    staged_there_us: f64,
    /// `None` where the CPU cannot copy into such images.
    copied_write_us: Option<f64>,
    copied_there_us: Option<f64>,
    /// Images of such a description are copied into without being asked for it.
    by_itself: bool,
}

pub(crate) fn run(args: &TexturesArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let bench = Bench::new(&gpu)?;
    let mut report = Report::new(&gpu, args);
    let formats = [("RGBA8", vk::Format::R8G8B8A8_UNORM), ("BC7", vk::Format::BC7_UNORM_BLOCK)];
    for (format, raw) in formats {
        for side in [64, 256, 1024, 4096] {
            let desc = ImageDesc::new(side, side, raw.as_raw().unsigned_abs()).with_full_mips();
            if let Some(row) = measure(&bench, args, format, side, &desc)? {
                report.add(row);
            }
        }
    }
    report.print(args.common.json)
}

/// Measures both ways in turns; `None` where the device has no such images.
fn measure(
    bench: &Bench,
    args: &TexturesArgs,
    format: &'static str,
    side: u32,
    desc: &ImageDesc,
) -> Result<Option<Row>, Failure> {
    let Some(bytes) = bench.bytes(desc) else { return Ok(None) };
    let textures = (BYTES / bytes).clamp(1, MOST);
    let copied_into = bench.with_host_usage(desc);
    let source = bench.source(bytes);
    let (mut staged, mut copied): (Vec<Times>, Vec<Times>) = Default::default();
    for _ in 0..args.repetitions {
        staged.push(bench.upload(desc, textures, &source, false)?);
        if let Some(desc) = &copied_into {
            copied.push(bench.upload(desc, textures, &source, true)?);
        }
    }
    let of = |times: &[Times], what: fn(&Times) -> f64| {
        (!times.is_empty()).then(|| median(times.iter().map(what)) / textures as f64)
    };
    Ok(Some(Row {
        format,
        side,
        bytes,
        textures,
        staged_write_us: of(&staged, |it| it.write_us).unwrap_or(0.0),
        staged_there_us: of(&staged, |it| it.there_us).unwrap_or(0.0),
        copied_write_us: of(&copied, |it| it.write_us),
        copied_there_us: of(&copied, |it| it.there_us),
        by_itself: bench.is_host_writable(desc),
    }))
}

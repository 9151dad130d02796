//! A window onto the GPU memory of a program: opens recordings and the files of other tools, in Allotment's analyzer.
//!
//! `allotment-viewer FILE` opens a file; others are dropped onto the window, or chosen with Open.

#![forbid(unsafe_code)]

mod app;
mod open;
mod open_dialog;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: allotment-viewer [FILE]

Shows a recording of GPU memory (.altr), or what another tool recorded: GFXReconstruct's JSON lines, JSON dumps of VMA
and D3D12MA, snapshots of PyTorch. Each may be compressed with gzip.";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next();
    let is_help = path.as_ref().is_some_and(|path| path == "--help" || path == "-h");
    if is_help || arguments.next().is_some() {
        println!("{USAGE}");
        return if is_help { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    let viewport =
        eframe::egui::ViewportBuilder::default().with_inner_size([1440.0, 960.0]).with_drag_and_drop(true);
    let options = eframe::NativeOptions { viewport, ..eframe::NativeOptions::default() };
    let path = path.map(PathBuf::from);
    let run =
        eframe::run_native("Allotment viewer", options, Box::new(|cc| Ok(Box::new(app::App::new(cc, path)))));
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the window cannot be opened: {error}");
            ExitCode::FAILURE
        }
    }
}

//! A window onto the GPU memory of a program: opens recordings and the files of other tools, and follows programs that
//! run, in Allotment's analyzer.
//!
//! `allotment-viewer FILE` opens a file; others are dropped onto the window, or chosen with Open.
//! `allotment-viewer attach ADDRESS` follows a program.

#![forbid(unsafe_code)]

mod app;
mod attach_dialog;
mod file_dialog;
mod follow;
mod live_bar;
mod notice;
mod open;
mod pointer;
mod save;
mod start;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use start::{Start, USAGE};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let start = match Start::of_arguments(&arguments) {
        Ok(start) => start,
        Err(error) => {
            eprintln!("{}", if error.is_empty() { USAGE } else { &error });
            return ExitCode::from(2);
        }
    };
    let viewport =
        eframe::egui::ViewportBuilder::default().with_inner_size([1440.0, 960.0]).with_drag_and_drop(true);
    let options = eframe::NativeOptions { viewport, ..eframe::NativeOptions::default() };
    let app = |cc: &eframe::CreationContext<'_>| -> Result<Box<dyn eframe::App>, _> {
        Ok(Box::new(app::App::new(&cc.egui_ctx, cc.storage, start)))
    };
    match eframe::run_native("Allotment viewer", options, Box::new(app)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the window cannot be opened: {error}");
            ExitCode::FAILURE
        }
    }
}

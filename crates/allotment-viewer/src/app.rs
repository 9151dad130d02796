//! The window: a recording, or how one gets one.

use std::path::PathBuf;

use allotment_egui::{AnalyzerView, Layout};
use eframe::egui::{self, Align2, CentralPanel, Frame, Panel, RichText, Ui};

use crate::open::{Opened, Opening};
use crate::open_dialog::OpenDialog;

/// What is kept from one start to the next: under this name.
const LAYOUT: &str = "layout";
const RECENT: &str = "recent files";
/// Files that are offered at the start.
const OFFERED: usize = 10;

/// The application.
pub(crate) struct App {
    view: Option<AnalyzerView>,
    path: Option<PathBuf>,
    opening: Option<Opening>,
    dialog: Option<OpenDialog>,
    /// What could not be opened, or not whole.
    notice: Option<String>,
    /// The layout of the recording before, or of the start before.
    layout: Layout,
    recent: Vec<PathBuf>,
}

impl App {
    pub(crate) fn new(creation: &eframe::CreationContext<'_>, path: Option<PathBuf>) -> Self {
        let kept = |key| creation.storage.and_then(|storage| eframe::get_value(storage, key));
        let mut app = Self {
            view: None,
            path: None,
            opening: None,
            dialog: None,
            notice: None,
            layout: creation
                .storage
                .and_then(|storage| eframe::get_value(storage, LAYOUT))
                .unwrap_or_default(),
            recent: kept(RECENT).unwrap_or_default(),
        };
        if let Some(path) = path {
            app.open(path, &creation.egui_ctx);
        }
        app
    }

    fn open(&mut self, path: PathBuf, ctx: &egui::Context) {
        (self.notice, self.dialog) = (None, None);
        self.opening = Some(Opening::new(path, ctx.clone()));
    }

    /// Takes what the thread has read.
    fn take_answer(&mut self, ctx: &egui::Context) {
        let Some(opening) = &self.opening else { return };
        let Some(answer) = opening.poll() else { return };
        let path = opening.path().to_owned();
        self.opening = None;
        match answer {
            Ok(Opened { mut view, damage }) => {
                if let Some(before) = &self.view {
                    self.layout = before.layout();
                }
                view.set_layout(self.layout.clone());
                ctx.send_viewport_cmd(egui::ViewportCommand::Title(format!(
                    "{} – Allotment viewer",
                    view.title()
                )));
                self.view = Some(view);
                self.notice = damage.map(|damage| format!("Only a part could be read: {damage}"));
                let path = path.canonicalize().unwrap_or(path);
                self.recent.retain(|known| *known != path);
                self.recent.insert(0, path.clone());
                self.recent.truncate(OFFERED);
                self.path = Some(path);
            }
            Err(error) => self.notice = Some(error),
        }
    }

    fn menu(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        ui.horizontal(|ui| {
            let shortcut = egui::KeyboardShortcut::new(egui::Modifiers::COMMAND, egui::Key::O);
            let pressed = ui.input_mut(|input| input.consume_shortcut(&shortcut));
            if ui.button("Open…").on_hover_text("Ctrl O, or drop a file here").clicked() || pressed {
                let folder = self.path.as_ref().and_then(|path| path.parent()).map(PathBuf::from);
                let folder = folder.or_else(|| std::env::current_dir().ok()).unwrap_or_default();
                self.dialog = Some(OpenDialog::new(&folder));
            }
            ui.menu_button("Recent", |ui| {
                if self.recent.is_empty() {
                    ui.weak("No file was opened so far.");
                }
                if let Some(path) = recent(ui, &self.recent) {
                    self.open(path, &ctx);
                    ui.close();
                }
            });
            if let Some(view) = &mut self.view
                && ui.button("Reset layout").clicked()
            {
                view.set_layout(Layout::default());
            }
            if let Some(opening) = &self.opening {
                ui.spinner();
                ui.label(format!("Reading {}", opening.path().display()));
            }
            if let Some(notice) = &self.notice {
                ui.label(RichText::new(notice).color(ui.visuals().error_fg_color));
            }
        });
    }

    /// Before a recording is open.
    fn welcome(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        ui.vertical_centered(|ui| {
            ui.add_space(ui.available_height() * 0.3);
            ui.heading("A window onto the GPU memory of a program");
            ui.add_space(8.0);
            ui.label("Open a recording, or drop a file here.");
            ui.weak("Recordings (.altr), GFXReconstruct's JSON lines, JSON dumps of VMA and D3D12MA, PyTorch snapshots");
            ui.add_space(16.0);
            if let Some(path) = recent(ui, &self.recent) {
                self.open(path, &ctx);
            }
        });
    }
}

/// Files that were opened before. Returns one that is clicked.
fn recent(ui: &mut Ui, paths: &[PathBuf]) -> Option<PathBuf> {
    let mut chosen = None;
    for path in paths {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        if ui.button(name).on_hover_text(path.display().to_string()).clicked() {
            chosen = Some(path.clone());
        }
    }
    chosen
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut Ui, _: &mut eframe::Frame) {
        let ctx = ui.ctx().clone();
        self.take_answer(&ctx);
        let dropped = ui.input(|input| input.raw.dropped_files.first().map(|file| file.path().to_owned()));
        if let Some(path) = dropped {
            self.open(path, &ctx);
        }
        Panel::top("menu").show(ui, |ui| self.menu(ui));
        CentralPanel::default().frame(Frame::new().fill(ui.visuals().panel_fill)).show(ui, |ui| {
            match &mut self.view {
                Some(view) => view.ui(ui),
                None => self.welcome(ui),
            }
        });
        if let Some(dialog) = &mut self.dialog {
            match dialog.show(&ctx) {
                Some(Some(path)) => self.open(path, &ctx),
                Some(None) => self.dialog = None,
                None => {}
            }
        }
        if ui.input(|input| !input.raw.hovered_files.is_empty()) {
            let painter =
                ctx.layer_painter(egui::LayerId::new(egui::Order::Foreground, egui::Id::unique("drop")));
            let (screen, font) = (ctx.content_rect(), egui::FontId::proportional(28.0));
            painter.rect_filled(screen, 0.0, egui::Color32::from_black_alpha(160));
            painter.text(screen.center(), Align2::CENTER_CENTER, "Drop to open", font, egui::Color32::WHITE);
        }
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        let layout = self.view.as_ref().map_or_else(|| self.layout.clone(), AnalyzerView::layout);
        eframe::set_value(storage, LAYOUT, &layout);
        eframe::set_value(storage, RECENT, &self.recent);
    }
}

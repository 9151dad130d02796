//! The window: a recording, or how one gets one.

use std::path::PathBuf;
use std::time::Instant;

use allotment_egui::{AnalyzerView, Layout};
use allotment_trace::live::LiveAddress;
use eframe::egui::{
    self, Align2, CentralPanel, Frame, Key, KeyboardShortcut, Modifiers, Panel, Ui, ViewportCommand,
};

use crate::attach_dialog::{self, AttachDialog};
use crate::file_dialog::{self, FileDialog, FileUse};
use crate::follow::{Following, Limits, Phase};
use crate::live_bar::{self, Wish};
use crate::notice::{self, Notice};
use crate::open::{Opened, Opening};
use crate::pointer::OneChange;
use crate::save::Saving;
use crate::start::Start;

/// The names under which the layout and the recent files are stored between two starts.
const LAYOUT: &str = "layout";
const RECENT: &str = "recent files";
/// Files that are offered at the start.
const OFFERED: usize = 10;
/// The name that a recording of a program has first when it is saved.
const SAVED: &str = "allotment-live.altr";

const OPEN: KeyboardShortcut = KeyboardShortcut::new(Modifiers::COMMAND, Key::O);
const ATTACH: KeyboardShortcut = KeyboardShortcut::new(Modifiers::COMMAND, Key::L);
const SAVE: KeyboardShortcut = KeyboardShortcut::new(Modifiers::COMMAND, Key::S);

/// A window of its own in front.
enum Dialog {
    File(FileDialog),
    Attach(AttachDialog),
}

/// The application.
#[derive(Default)]
pub(crate) struct App {
    pub(crate) view: Option<AnalyzerView>,
    path: Option<PathBuf>,
    opening: Option<Opening>,
    saving: Option<Saving>,
    pub(crate) following: Option<Following>,
    pub(crate) limits: Limits,
    /// The view shows what is followed, and no recording before it.
    shows_program: bool,
    dialog: Option<Dialog>,
    notice: Option<Notice>,
    /// The end of the connection whose message a person has dismissed.
    dismissed: Option<Phase>,
    /// The layout of the recording before, or of the start before.
    layout: Layout,
    recent: Vec<PathBuf>,
    /// The last address that was attached to, for the next time.
    address: String,
    /// The address for a program that starts later: the same while this window is open.
    pub(crate) offered: Option<Result<LiveAddress, String>>,
    title: String,
    clicks: OneChange,
}

impl App {
    pub(crate) fn new(ctx: &egui::Context, storage: Option<&dyn eframe::Storage>, start: Start) -> Self {
        let layout = storage.and_then(|storage| eframe::get_value(storage, LAYOUT));
        let recent = storage.and_then(|storage| eframe::get_value(storage, RECENT));
        let mut app = Self {
            layout: layout.unwrap_or_default(),
            recent: recent.unwrap_or_default(),
            ..Self::default()
        };
        app.begin(start, ctx);
        app
    }

    pub(crate) fn begin(&mut self, start: Start, ctx: &egui::Context) {
        match start {
            Start::Nothing => {}
            Start::File(path) => self.open(path, ctx),
            Start::Program(address) => self.attach(address, ctx),
        }
    }

    fn open(&mut self, path: PathBuf, ctx: &egui::Context) {
        (self.notice, self.dialog) = (None, None);
        self.opening = Some(Opening::new(path, ctx.clone()));
    }

    /// Follows a program, or waits for it.
    fn attach(&mut self, address: LiveAddress, ctx: &egui::Context) {
        // A file that is being read would take the program's place.
        (self.notice, self.dialog, self.opening) = (None, None, None);
        self.address = address.to_string();
        // One goes before the next one comes: a program may allow one viewer alone.
        self.following = None;
        self.following = Some(Following::new(address, self.limits, ctx.clone()));
        (self.shows_program, self.dismissed) = (false, None);
    }

    /// Shows another recording, in the panes of the one before.
    fn show(&mut self, mut view: AnalyzerView) {
        if let Some(before) = &self.view {
            self.layout = before.layout();
        }
        view.set_layout(self.layout.clone());
        self.view = Some(view);
    }

    /// Takes what the threads have read and written.
    fn take_answers(&mut self) {
        if let Some((path, answer)) =
            self.opening.as_ref().and_then(|of| Some((of.path().to_owned(), of.poll()?)))
        {
            self.opening = None;
            match answer {
                Ok(Opened { view, damage }) => {
                    (self.following, self.shows_program) = (None, false);
                    self.show(view);
                    self.notice =
                        damage.map(|damage| Notice::error(format!("Only a part could be read: {damage}")));
                    self.remember(path);
                }
                Err(text) => self.notice = Some(Notice::error(text)),
            }
        }
        if let Some((path, answer)) =
            self.saving.as_ref().and_then(|of| Some((of.path().to_owned(), of.poll()?)))
        {
            self.saving = None;
            self.notice = Some(match answer {
                Ok(summary) => {
                    let text = format!("{} events are in {}", summary.events, path.display());
                    self.remember(path);
                    Notice::done(text)
                }
                Err(text) => Notice::error(text),
            });
        }
    }

    fn remember(&mut self, path: PathBuf) {
        let path = path.canonicalize().unwrap_or(path);
        self.recent.retain(|known| *known != path);
        self.recent.insert(0, path.clone());
        self.recent.truncate(OFFERED);
        self.path = Some(path);
    }

    /// Takes what the program has done. Returns true if there is more to show than before.
    fn take_program(&mut self) -> bool {
        let Some(following) = &self.following else { return false };
        let Some(indexed) = following.take() else { return false };
        match &mut self.view {
            Some(view) if self.shows_program => {
                let before = view.replace_indexed(indexed);
                // To give much memory back takes as long as some frames.
                std::thread::spawn(move || drop(before));
            }
            _ => {
                let view = AnalyzerView::of_indexed(following.address().host(), indexed);
                (self.shows_program, self.path) = (true, None);
                self.show(view);
            }
        }
        true
    }

    /// The folder of the file that is shown, or of the start.
    fn folder(&self) -> PathBuf {
        let folder = self.path.as_ref().and_then(|path| path.parent()).map(PathBuf::from);
        folder.or_else(|| std::env::current_dir().ok()).unwrap_or_default()
    }

    fn ask_for_program(&mut self) {
        let offered = self.offered.get_or_insert_with(attach_dialog::offer).clone();
        self.dialog = Some(Dialog::Attach(AttachDialog::new(self.address.clone(), offered)));
    }

    fn menu(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        let pressed = |ui: &Ui, shortcut| ui.input_mut(|input| input.consume_shortcut(&shortcut));
        ui.horizontal_wrapped(|ui| {
            let open = ui.button("Open…").on_hover_text("Ctrl O, or drop a file here").clicked();
            if open || pressed(ui, OPEN) {
                self.dialog = Some(Dialog::File(FileDialog::open(&self.folder())));
            }
            let attach = ui.button("Attach…").on_hover_text("Ctrl L: follow a program that runs").clicked();
            if attach || pressed(ui, ATTACH) {
                self.ask_for_program();
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
            let save = pressed(ui, SAVE);
            if let Some(view) = &mut self.view {
                let tip = "Ctrl S: write what is shown as a recording (.altr)";
                // One at a time: two could write the same file.
                let may_save = self.saving.is_none();
                let button = ui.add_enabled(may_save, egui::Button::new("Save…")).on_hover_text(tip);
                if button.clicked() || (save && may_save) {
                    let file = self.folder().join(SAVED);
                    self.dialog = Some(Dialog::File(FileDialog::save(&file)));
                } else if ui.button("Reset layout").clicked() {
                    view.set_layout(Layout::default());
                }
            }
            let wish = self.following.as_ref().and_then(|following| {
                ui.separator();
                live_bar::ui(ui, following)
            });
            match (wish, self.following.as_ref().map(Following::address)) {
                (Some(Wish::Again), Some(address)) => self.attach(address.clone(), &ctx),
                (Some(Wish::Detach), _) => self.following = None,
                _ => {}
            }
            let opening = self.opening.as_ref().map(|of| ("Reading", of.path()));
            for (word, path) in
                opening.into_iter().chain(self.saving.as_ref().map(|of| ("Writing", of.path())))
            {
                ui.spinner();
                ui.label(format!("{word} {}", path.display()));
            }
        });
    }

    /// Says what went wrong, or was written, below the menu bar: above all panes, and until it is dismissed.
    fn notices(&mut self, ui: &mut Ui) {
        let lost = self.following.as_ref().and_then(|following| {
            let status = following.status();
            let text = live_bar::failure(&status.phase, following.address().host())?;
            (self.dismissed.as_ref() != Some(&status.phase)).then_some((Notice::error(text), status.phase))
        });
        if let Some((lost, phase)) = lost
            && notice::ui(ui, "connection", &lost)
        {
            self.dismissed = Some(phase);
        }
        if self.notice.as_ref().is_some_and(|notice| notice::ui(ui, "notice", notice)) {
            self.notice = None;
        }
    }

    /// Before a recording is open.
    fn welcome(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        ui.vertical_centered(|ui| {
            ui.add_space(ui.available_height() * 0.3);
            ui.heading("A window onto the GPU memory of a program");
            ui.add_space(8.0);
            if ui.button("Attach to a program that runs, or starts later…").clicked() {
                self.ask_for_program();
            }
            ui.add_space(8.0);
            ui.label("Or open a recording, or drop a file here.");
            ui.weak("Recordings (.altr), GFXReconstruct's JSON lines, JSON dumps of VMA and D3D12MA, PyTorch snapshots");
            ui.add_space(16.0);
            if let Some(path) = recent(ui, &self.recent) {
                self.open(path, &ctx);
            }
        });
    }

    fn show_dialog(&mut self, ctx: &egui::Context) {
        match &mut self.dialog {
            None => {}
            Some(Dialog::File(dialog)) => match (dialog.show(ctx), dialog.to()) {
                (Some(file_dialog::Chosen::File(path)), FileUse::Open) => self.open(path, ctx),
                (Some(file_dialog::Chosen::File(path)), FileUse::Save) => self.save_to(path, ctx),
                (Some(file_dialog::Chosen::Nothing), _) => self.dialog = None,
                (None, _) => {}
            },
            Some(Dialog::Attach(dialog)) => match dialog.show(ctx) {
                Some(attach_dialog::Chosen::Program(address)) => self.attach(address, ctx),
                Some(attach_dialog::Chosen::Nothing) => self.dialog = None,
                None => {}
            },
        }
    }

    pub(crate) fn save_to(&mut self, path: PathBuf, ctx: &egui::Context) {
        (self.notice, self.dialog) = (None, None);
        if self.saving.is_some() {
            return;
        }
        let view = self.view.as_ref();
        self.saving = view.map(|view| Saving::new(view.recording(), path, ctx.clone()));
    }

    /// Names what is selected and what is shown in the title.
    fn name_window(&mut self, ctx: &egui::Context) {
        let Some(view) = &self.view else { return };
        let parts = [view.selected_name(), Some(view.title()), Some("Allotment viewer")];
        let title = parts.into_iter().flatten().map(for_title).collect::<Vec<_>>().join(" – ");
        if title != self.title {
            ctx.send_viewport_cmd(ViewportCommand::Title(title.clone()));
            self.title = title;
        }
    }

    /// Draws the window.
    pub(crate) fn draw(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        self.take_answers();
        let began = Instant::now();
        let is_new = self.take_program();
        let dropped = ui.input(|input| input.raw.dropped_files.first().map(|file| file.path().to_owned()));
        if let Some(path) = dropped {
            self.open(path, &ctx);
        }
        Panel::top("menu").show(ui, |ui| self.menu(ui));
        self.notices(ui);
        // Before the view, which knows Escape as well.
        self.show_dialog(&ctx);
        if self.dialog.is_some() {
            // Nor are keys for a dialog the view's, whichever part of it has the focus.
            ui.input_mut(|input| input.events.retain(|event| !matches!(event, egui::Event::Key { .. })));
        }
        CentralPanel::default().frame(Frame::new().fill(ui.visuals().panel_fill)).show(ui, |ui| {
            match &mut self.view {
                Some(view) => view.ui(ui),
                None => self.welcome(ui),
            }
        });
        if let Some(following) = self.following.as_ref().filter(|_| is_new) {
            following.shown_in(began.elapsed());
        }
        self.name_window(&ctx);
        if ui.input(|input| !input.raw.hovered_files.is_empty()) {
            let painter =
                ctx.layer_painter(egui::LayerId::new(egui::Order::Foreground, egui::Id::unique("drop")));
            let (screen, font) = (ctx.content_rect(), egui::FontId::proportional(28.0));
            painter.rect_filled(screen, 0.0, egui::Color32::from_black_alpha(160));
            painter.text(screen.center(), Align2::CENTER_CENTER, "Drop to open", font, egui::Color32::WHITE);
        }
    }
}

/// A text as a part of a title. A recording may have any text, and systems take no control characters and no book.
pub(crate) fn for_title(text: &str) -> String {
    const MOST: usize = 100;
    text.chars().filter(|letter| !letter.is_control()).take(MOST).collect()
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
        self.draw(ui);
    }

    fn raw_input_hook(&mut self, ctx: &egui::Context, input: &mut egui::RawInput) {
        self.clicks.limit(input, ctx);
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        let layout = self.view.as_ref().map_or_else(|| self.layout.clone(), AnalyzerView::layout);
        eframe::set_value(storage, LAYOUT, &layout);
        eframe::set_value(storage, RECENT, &self.recent);
    }
}

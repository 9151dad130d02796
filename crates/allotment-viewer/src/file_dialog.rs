//! A window to choose a file, to open or to write: a path, and what is in its folder. It needs no toolkit of the desktop,
//! so it is the same over a network and on every system.

use std::path::{Path, PathBuf};

use eframe::egui::{Align2, Button, Context, Key, Modifiers, ScrollArea, TextEdit, Window};

/// Endings that a file may have which the viewer opens.
const ENDINGS: [&str; 6] = ["altr", "gz", "json", "jsonl", "pickle", "pkl"];

/// Whether the file is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    Open,
    Save,
}

/// The result of the dialog.
#[derive(Debug)]
pub(crate) enum Chosen {
    Nothing,
    File(PathBuf),
}

/// What a folder has, by name, and which of it are folders; or why that cannot be said.
type Listing = Result<Vec<(String, bool)>, String>;

/// The window.
#[derive(Debug)]
pub(crate) struct FileDialog {
    to: FileUse,
    path: String,
    /// The folder whose entries are listed, and those.
    listed: Option<(PathBuf, Listing)>,
    focus: bool,
    /// Why what was entered is not taken.
    error: Option<String>,
}

impl FileDialog {
    /// Begins in a folder.
    pub(crate) fn open(folder: &Path) -> Self {
        Self { to: FileUse::Open, path: with_separator(folder), listed: None, focus: true, error: None }
    }

    /// Begins with the name of a file that need not exist.
    pub(crate) fn save(file: &Path) -> Self {
        Self { to: FileUse::Save, path: file.display().to_string(), listed: None, focus: true, error: None }
    }

    pub(crate) const fn to(&self) -> FileUse {
        self.to
    }

    /// Draws the window. Returns what was decided, once it is.
    pub(crate) fn show(&mut self, ctx: &Context) -> Option<Chosen> {
        let mut open = true;
        let mut chosen = None;
        let (title, what) = match self.to {
            FileUse::Open => (
                "Open a recording",
                "A recording (.altr), GFXReconstruct's JSON lines, a JSON dump of VMA or D3D12MA, a PyTorch snapshot",
            ),
            FileUse::Save => {
                ("Save the recording", "A recording (.altr), for this window and for the command allotment")
            }
        };
        let window = Window::new(title).collapsible(false).default_width(620.0);
        window.open(&mut open).anchor(Align2::CENTER_CENTER, [0.0, 0.0]).show(ctx, |ui| {
            ui.label(what);
            ui.horizontal(|ui| {
                let field =
                    ui.add(TextEdit::singleline(&mut self.path).desired_width(520.0).hint_text("Path"));
                if core::mem::take(&mut self.focus) {
                    field.request_focus();
                }
                let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
                let path = Path::new(&self.path);
                let (action, allowed) = match self.to {
                    FileUse::Open => ("Open", path.is_file()),
                    FileUse::Save if path.is_file() => ("Replace", true),
                    FileUse::Save => ("Save", path.file_name().is_some() && !path.is_dir()),
                };
                if (ui.add_enabled(allowed, Button::new(action)).clicked() || entered) && allowed {
                    chosen = Some(path.to_owned());
                } else if entered {
                    self.error = Some(format!("{} is no file.", path.display()));
                    // Enter has ended the editing, and the path is to be edited further.
                    self.focus = true;
                } else if field.changed() {
                    self.error = None;
                }
            });
            if let Some(error) = &self.error {
                ui.colored_label(ui.visuals().error_fg_color, error);
            }
            let (folder, begins) = parts(&self.path);
            if self.listed.as_ref().is_none_or(|(listed, _)| *listed != folder) {
                self.listed = Some((folder.clone(), entries(&folder)));
            }
            ui.separator();
            ScrollArea::vertical().max_height(320.0).auto_shrink([false, true]).show(ui, |ui| {
                // The folder above a relative one has no name of its own.
                let above = std::path::absolute(&folder).ok();
                if let Some(above) = above.as_deref().and_then(Path::parent)
                    && ui.selectable_label(false, "Folder above").clicked()
                {
                    self.path = with_separator(above);
                }
                let entries = match &self.listed {
                    Some((_, Ok(entries))) => entries,
                    Some((_, Err(why))) => {
                        ui.colored_label(ui.visuals().error_fg_color, why);
                        return;
                    }
                    None => return,
                };
                let mut none = true;
                for (name, is_folder) in entries.iter().filter(|(name, _)| name.starts_with(&begins)) {
                    none = false;
                    let label = if *is_folder {
                        format!("{name}{}", std::path::MAIN_SEPARATOR)
                    } else {
                        name.clone()
                    };
                    if ui.selectable_label(false, label).clicked() {
                        let path = folder.join(name);
                        match self.to {
                            _ if *is_folder => self.path = with_separator(&path),
                            FileUse::Open => chosen = Some(path),
                            // A click alone replaces no file.
                            FileUse::Save => self.path = path.display().to_string(),
                        }
                    }
                }
                if none {
                    ui.weak("No file here that the viewer opens.");
                }
            });
        });
        match chosen {
            Some(path) => Some(Chosen::File(path)),
            None if !open || ctx.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Escape)) => {
                Some(Chosen::Nothing)
            }
            None => None,
        }
    }
}

fn with_separator(folder: &Path) -> String {
    let path = folder.display().to_string();
    if path.ends_with(std::path::MAIN_SEPARATOR) {
        path
    } else {
        format!("{path}{}", std::path::MAIN_SEPARATOR)
    }
}

/// The folder of a path that is being typed, and what names in it begin with.
fn parts(path: &str) -> (PathBuf, String) {
    let split = path.rfind(std::path::is_separator).map_or(0, |at| at + 1);
    (PathBuf::from(if split == 0 { "." } else { &path[..split] }), path[split..].to_owned())
}

/// The folders and the files of a folder that may be opened: folders first.
fn entries(folder: &Path) -> Listing {
    let read = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten();
    let mut entries: Vec<_> = read
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_folder = entry.path().is_dir();
            let known =
                Path::new(&name).extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known));
            (!name.starts_with('.') && (is_folder || known)).then_some((name, is_folder))
        })
        .collect();
    entries.sort_by(|a, b| (!a.1, &a.0).cmp(&(!b.1, &b.0)));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_typed_lists_its_folder() {
        assert_eq!(parts("/traces/su"), (PathBuf::from("/traces/"), "su".to_owned()));
        assert_eq!(parts("su"), (PathBuf::from("."), "su".to_owned()));
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        let entries = entries(&traces).unwrap_or_else(|error| panic!("{error}"));
        assert!(entries.iter().any(|(name, _)| name == "supertuxkart-race.gfxr.jsonl.gz"));
        assert!(entries.iter().all(|(name, _)| name != "README.md"), "it is none that the viewer opens");
        assert!(super::entries(Path::new("no such folder")).is_err());
    }
}

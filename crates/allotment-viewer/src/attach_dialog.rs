//! A window to attach to a program: one that runs already, by the address that it prints; or one that starts later, at an
//! address that this window offers.

use core::hash::{BuildHasher as _, Hasher as _};
use core::net::Ipv4Addr;
use std::collections::hash_map::RandomState;
use std::net::TcpListener;

use allotment_trace::live::{LIVE_ENVIRONMENT_VARIABLE, LiveAddress};
use eframe::egui::{Align2, Button, Context, Key, Modifiers, RichText, TextEdit, Window};

/// Below the ports that systems give to connections, which could take the offered one before the program does.
const PORTS: core::ops::Range<u16> = 20_000..32_000;

/// The result of the dialog.
#[derive(Debug)]
pub(crate) enum Chosen {
    Nothing,
    Program(LiveAddress),
}

/// The window.
pub(crate) struct AttachDialog {
    address: String,
    /// Why the address is none.
    error: Option<String>,
    offered: Result<LiveAddress, String>,
    focus: bool,
}

impl AttachDialog {
    /// Begins with an address, which may be empty, and one for a program that starts later.
    pub(crate) fn new(address: String, offered: Result<LiveAddress, String>) -> Self {
        Self { address, error: None, offered, focus: true }
    }

    /// Draws the window. Returns what was decided, once it is.
    pub(crate) fn show(&mut self, ctx: &Context) -> Option<Chosen> {
        let mut open = true;
        let mut chosen = None;
        let window = Window::new("Attach to a program").collapsible(false).default_width(660.0);
        window.open(&mut open).anchor(Align2::CENTER_CENTER, [0.0, 0.0]).show(ctx, |ui| {
            ui.label(RichText::new("It runs already").strong());
            ui.label("The address that it prints, as LiveServer::address returns it:");
            ui.horizontal(|ui| {
                let hint = "allotment://127.0.0.1:40123/…";
                let field =
                    ui.add(TextEdit::singleline(&mut self.address).desired_width(520.0).hint_text(hint));
                if core::mem::take(&mut self.focus) {
                    field.request_focus();
                }
                let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
                if ui.button("Attach").clicked() || entered {
                    match self.address.trim().parse() {
                        Ok(address) => chosen = Some(address),
                        Err(error) => self.error = Some(format!("{error}.")),
                    }
                }
            });
            if let Some(error) = &self.error {
                ui.label(RichText::new(error).color(ui.visuals().error_fg_color));
            }
            ui.add_space(12.0);
            ui.label(RichText::new("It starts later").strong());
            ui.label("Start it with this in its environment, now or at any time:");
            match &self.offered {
                Ok(address) => {
                    let line = format!("{LIVE_ENVIRONMENT_VARIABLE}={address}");
                    ui.horizontal(|ui| {
                        let mut shown = line.as_str();
                        let field = TextEdit::singleline(&mut shown);
                        ui.add(field.desired_width(560.0));
                        if ui.button("Copy").clicked() {
                            ui.copy_text(line.clone());
                        }
                    });
                    ui.horizontal(|ui| {
                        if ui.add(Button::new("Wait for it")).clicked() {
                            chosen = Some(address.clone());
                        }
                        ui.weak("The program serves its events with LiveServer::from_env(&gpu)?");
                    });
                }
                Err(error) => {
                    ui.label(RichText::new(error).color(ui.visuals().error_fg_color));
                }
            }
        });
        match chosen {
            Some(address) => Some(Chosen::Program(address)),
            None if !open || ctx.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Escape)) => {
                Some(Chosen::Nothing)
            }
            None => None,
        }
    }
}

/// Returns an address of this machine for a program that starts later.
pub(crate) fn offer() -> Result<LiveAddress, String> {
    // Few ports are taken, so that one of several is free.
    let free = (0..64).find_map(|_| {
        let random = RandomState::new().build_hasher().finish();
        let port = PORTS.start + (random % u64::from(PORTS.end - PORTS.start)) as u16;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
    });
    let port = free.ok_or("no port of this machine is free")?;
    LiveAddress::with_new_token(&format!("{}:{port}", Ipv4Addr::LOCALHOST)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offered_address_is_of_this_machine_and_another_each_time() {
        let (one, other) =
            (offer().unwrap_or_else(|e| panic!("{e}")), offer().unwrap_or_else(|e| panic!("{e}")));
        assert!(one.host().starts_with("127.0.0.1:") && one != other);
    }
}

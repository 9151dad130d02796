//! The part of the menu bar about the program that is followed: its state and buttons.

use eframe::egui::{Color32, RichText, Ui};

use crate::follow::{Following, Phase, Status};

/// The button that was clicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To follow the next program at the same address.
    Again,
    /// To let the program go.
    Detach,
}

/// Draws it. Returns a button that was clicked.
pub(crate) fn ui(ui: &mut Ui, following: &Following) -> Option<Wish> {
    let status = following.status();
    let host = following.address().host();
    let mut wish = None;
    let (text, colour) = words(&status, host, following.is_paused(), ui);
    ui.label(RichText::new(text).color(colour));
    if let Some(text) = losses(&status) {
        ui.label(RichText::new(text).color(ui.visuals().warn_fg_color)).on_hover_text(
            "The program never waits for this window. Where events were dropped, the recording has a mark.",
        );
    }
    let paused = following.is_paused();
    // Also after the end: what came last is shown when the pause is over.
    if status.phase == Phase::Connected || paused {
        let (word, tip) = if paused {
            ("Resume", "Show what the program does")
        } else {
            ("Pause", "Stay at this moment; the program is recorded all the same")
        };
        if ui.button(word).on_hover_text(tip).clicked() {
            following.set_paused(!paused);
        }
    }
    if status.is_following() {
        let word = if status.phase == Phase::Connected { "Detach" } else { "Cancel" };
        if ui.button(word).on_hover_text("What was seen stays").clicked() {
            wish = Some(Wish::Detach);
        }
    } else {
        let again = ui.button("Wait for its next start");
        let tip = "At the same address: its next recording takes the place of this one once it begins";
        if again.on_hover_text(tip).clicked() {
            wish = Some(Wish::Again);
        }
    }
    wish
}

fn words(status: &Status, host: &str, paused: bool, ui: &Ui) -> (String, Color32) {
    let visuals = ui.visuals();
    match &status.phase {
        Phase::Waiting { why: None } => (format!("Waiting for the program at {host}"), visuals.text_color()),
        Phase::Waiting { why: Some(why) } => {
            (format!("Waiting for the program at {host}: {why}"), visuals.text_color())
        }
        Phase::Connected if paused => (format!("Paused; {host} is recorded"), visuals.warn_fg_color),
        Phase::Connected => (format!("Connected to {host}"), visuals.hyperlink_color),
        Phase::Ended => ("The program has ended.".to_owned(), visuals.text_color()),
        Phase::Lost => (format!("Not connected to {host} any more"), visuals.error_fg_color),
        Phase::Failed(_) => (format!("Not connected to {host}"), visuals.error_fg_color),
    }
}

/// Returns why nothing comes any more, unless the program has ended by itself.
pub(crate) fn failure(phase: &Phase, host: &str) -> Option<String> {
    match phase {
        Phase::Lost => Some(format!(
            "The connection to {host} was lost: the program was killed, or the network failed. What came before is shown."
        )),
        Phase::Failed(why) => Some(format!("{host} cannot be followed: {why}.")),
        Phase::Waiting { .. } | Phase::Connected | Phase::Ended => None,
    }
}

/// Returns the text about events that the recording lacks.
fn losses(status: &Status) -> Option<String> {
    let mut parts = Vec::new();
    if status.dropped > 0 {
        let times = if status.resynchronised > 1 {
            format!(" {} times", status.resynchronised)
        } else {
            String::new()
        };
        parts.push(format!("{} events dropped, resynchronised{times}", status.dropped));
    }
    if status.forgotten > 0 {
        parts.push(format!("the oldest {} events forgotten here", status.forgotten));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_words() {
        let mut status = Status { phase: Phase::Connected, dropped: 0, resynchronised: 0, forgotten: 0 };
        assert_eq!(losses(&status), None);
        (status.dropped, status.resynchronised) = (1_234_567, 1);
        assert_eq!(losses(&status).as_deref(), Some("1234567 events dropped, resynchronised"));
        (status.resynchronised, status.forgotten) = (2, 12);
        let text = "1234567 events dropped, resynchronised 2 times; the oldest 12 events forgotten here";
        assert_eq!(losses(&status).as_deref(), Some(text));
    }
}

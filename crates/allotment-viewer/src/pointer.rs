//! Clicks that a slow frame would lose.

use std::collections::VecDeque;

use eframe::egui::{Context, Event, RawInput};

/// Gives egui one change of a button in each frame.
///
/// egui looks for what is under the pointer once a frame, at the pointer's last place. What was pressed and released since the
/// frame before, or pressed before the pointer went elsewhere, would be a click on the wrong place or none. So what follows a
/// change of a button waits for the next frame, in its order.
#[derive(Debug, Default)]
pub(crate) struct OneChange {
    later: VecDeque<Event>,
}

impl OneChange {
    /// Takes the input of a frame, and leaves what that frame may have.
    pub(crate) fn limit(&mut self, input: &mut RawInput, ctx: &Context) {
        let mut events = core::mem::take(&mut self.later);
        events.extend(input.events.drain(..));
        while let Some(event) = events.pop_front() {
            let is_change = matches!(event, Event::PointerButton { .. });
            input.events.push(event);
            if is_change && events.iter().any(is_of_pointer) {
                break;
            }
        }
        self.later = events;
        if !self.later.is_empty() {
            ctx.request_repaint();
        }
    }
}

const fn is_of_pointer(event: &Event) -> bool {
    matches!(event, Event::PointerButton { .. } | Event::PointerMoved(_) | Event::PointerGone)
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Key, Modifiers, PointerButton, Pos2, pos2};

    use super::*;

    fn button(pos: Pos2, pressed: bool) -> Event {
        Event::PointerButton { pos, button: PointerButton::Primary, pressed, modifiers: Modifiers::NONE }
    }

    const fn key(key: Key) -> Event {
        Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers: Modifiers::NONE }
    }

    /// The events of each frame, the first of which brings all.
    fn frames(events: &[Event]) -> Vec<Vec<Event>> {
        let (ctx, mut limit) = (Context::default(), OneChange::default());
        let mut input = RawInput { events: events.to_vec(), ..RawInput::default() };
        let mut frames = Vec::new();
        loop {
            limit.limit(&mut input, &ctx);
            if input.events.is_empty() {
                return frames;
            }
            frames.push(core::mem::take(&mut input.events));
        }
    }

    #[test]
    fn a_press_a_release_and_where_the_pointer_went_then_are_three_frames() {
        let (here, there) = (pos2(1.0, 2.0), pos2(300.0, 2.0));
        let moved = [Event::PointerMoved(here), Event::PointerMoved(there)];
        let all = [moved[0].clone(), button(here, true), button(here, false), moved[1].clone()];
        let expected = vec![all[..2].to_vec(), vec![all[2].clone()], vec![all[3].clone()]];
        assert_eq!(frames(&all), expected);
    }

    #[test]
    fn keys_wait_behind_a_click_and_for_nothing_else() {
        let here = pos2(1.0, 2.0);
        let typed = [key(Key::A), key(Key::B)];
        assert_eq!(frames(&typed), vec![typed.to_vec()]);
        let last = [button(here, false), key(Key::A)];
        assert_eq!(frames(&last), vec![last.to_vec()]);
        let all = [button(here, true), key(Key::A), button(here, false)];
        assert_eq!(frames(&all), vec![vec![all[0].clone()], all[1..].to_vec()]);
    }
}

//! The states of an image's subresources, as far as the library knows them.
//!
//! ```text
//!                     mip levels
//!                  0        1        2
//!   layer 0    [ shader | shader | copied ]      a subresource is one mip level of one array layer
//!   layer 1    [ shader |   ?    | initial]      `?`: not known any more
//! ```
//!
//! Nearly every image has one state in all of them: then there is no list. One that is written level by level gets a list, and
//! loses it with the last of them.

use core::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::device::TimelinePoint;
use crate::lifetime::TimelinePoints;
use crate::sync::locked;

/// What is known of the state of a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubresourceState<S> {
    /// That of a newly created image: nothing has been written by way of the library, and no state was set. There are no
    /// texels that a transition could lose.
    Initial,
    /// As `Initial`, but a write has begun that stages its texels, so no other one may copy texels without staging.
    Staging,
    /// As `Initial` before, but a thread copies texels into it without staging, and will set its state.
    Copying,
    /// The state, once all submitted work has completed.
    Known(S),
    /// In this state, and without texels: the image is placed, and its bytes were those of another resource since. Where an image
    /// keeps its state through that.
    Lost(S),
    /// Not known: the application said that it changes. A copy of a whole subresource may still discard what is there.
    Unknown,
}

/// Mip levels and array layers.
pub(crate) type Subresources = (Range<u32>, Range<u32>);

/// The states of an image, which staged uploads refer to as well.
pub(crate) type SharedStates<S> = Arc<Mutex<ImageStates<S>>>;

/// The states of the subresources of an image.
#[derive(Debug)]
pub struct ImageStates<S> {
    mip_levels: u32,
    array_layers: u32,
    states: States<S>,
    /// There once a thread has waited.
    changed: Option<Arc<Condvar>>,
    /// What later copies wait for, since it reads the texels.
    read_at: TimelinePoints,
}

#[derive(Debug)]
enum States<S> {
    /// All have the same.
    Same(SubresourceState<S>),
    /// By layer, and in a layer by mip level.
    Each(Box<[SubresourceState<S>]>),
}

impl<S: Copy + PartialEq> ImageStates<S> {
    /// Describes a newly created image.
    pub(super) fn new(mip_levels: u32, array_layers: u32) -> Self {
        let states = States::Same(SubresourceState::Initial);
        let read_at = TimelinePoints::EMPTY;
        Self { mip_levels, array_layers, states, changed: None, read_at }
    }

    /// Notes that texels are read until a point.
    pub(crate) fn note_read(&mut self, point: TimelinePoint) {
        self.read_at.insert(point);
    }

    /// Returns the points until which texels are read.
    pub(crate) fn read_at(&self) -> TimelinePoints {
        self.read_at
    }

    /// Returns what is known of a subresource. One that the image does not have is not known.
    pub(crate) fn of(&self, mip_level: u32, array_layer: u32) -> SubresourceState<S> {
        if mip_level >= self.mip_levels || array_layer >= self.array_layers {
            return SubresourceState::Unknown;
        }
        match &self.states {
            States::Same(state) => *state,
            States::Each(states) => states[self.index(mip_level, array_layer)],
        }
    }

    /// Returns the state of the whole image; `None` where parts differ, or where it is not known.
    pub(super) fn whole(&self) -> Option<S> {
        // A list always has two that differ: `set` drops it otherwise.
        match self.states {
            States::Same(SubresourceState::Known(state) | SubresourceState::Lost(state)) => Some(state),
            _ => None,
        }
    }

    /// Sets what is known of a box of subresources. Those that the image does not have are left out.
    pub(crate) fn set(&mut self, levels: Range<u32>, layers: Range<u32>, state: SubresourceState<S>) {
        let (levels, layers) = (within(levels, self.mip_levels), within(layers, self.array_layers));
        if levels.is_empty() || layers.is_empty() {
            return;
        }
        if levels == (0..self.mip_levels) && layers == (0..self.array_layers) {
            self.states = States::Same(state);
            return;
        }
        let count = self.index(0, self.array_layers);
        match &mut self.states {
            States::Same(same) if *same == state => return,
            States::Same(same) => self.states = States::Each(vec![*same; count].into()),
            States::Each(_) => {}
        }
        let at = |layer| self.index(levels.start, layer)..self.index(levels.end, layer);
        let ranges: Vec<_> = layers.map(at).collect();
        let States::Each(states) = &mut self.states else { return };
        ranges.into_iter().for_each(|range| states[range].fill(state));
        if states.iter().all(|other| *other == state) {
            self.states = States::Same(state);
        }
    }

    /// Sets what is known of the whole image.
    pub(super) fn set_all(&mut self, state: SubresourceState<S>) {
        self.states = States::Same(state);
    }

    /// Says that the texels of the whole image are lost, though not its states.
    pub(super) fn lose_texels(&mut self) {
        let lose = |state: &mut SubresourceState<S>| {
            if let SubresourceState::Known(known) = *state {
                *state = SubresourceState::Lost(known);
            }
        };
        match &mut self.states {
            States::Same(state) => lose(state),
            States::Each(states) => {
                states.iter_mut().for_each(lose);
                if let Some(&first) = states.first().filter(|first| states.iter().all(|it| it == *first)) {
                    self.states = States::Same(first);
                }
            }
        }
    }

    /// Returns whether all subresources of a box are in this state, or any of them.
    fn are(&self, (levels, layers): &Subresources, state: SubresourceState<S>) -> [bool; 2] {
        let mut of_all =
            layers.clone().flat_map(|layer| levels.clone().map(move |level| self.of(level, layer)));
        if let States::Same(same) = self.states {
            return [same == state; 2];
        }
        [of_all.clone().all(|other| other == state), of_all.any(|other| other == state)]
    }

    /// Sets the state of those subresources of a box that are in the state `from`.
    pub(crate) fn replace(&mut self, of: &Subresources, from: SubresourceState<S>, to: SubresourceState<S>) {
        match self.are(of, from) {
            [true, _] => self.set(of.0.clone(), of.1.clone(), to),
            [_, false] => {}
            _ => {
                for layer in of.1.clone() {
                    for level in
                        of.0.clone().filter(|&level| self.of(level, layer) == from).collect::<Vec<_>>()
                    {
                        self.set(level..level + 1, layer..layer + 1, to);
                    }
                }
            }
        }
        if let Some(changed) = &self.changed {
            changed.notify_all();
        }
    }

    fn index(&self, mip_level: u32, array_layer: u32) -> usize {
        array_layer as usize * self.mip_levels as usize + mip_level as usize
    }
}

/// Begins a write of a box of subresources that copies its texels without staging, once no other thread does so with one of
/// them, and sets their states. Returns false, and changes nothing, where it has to stage them.
pub(crate) fn begin_copying<S: Copy + PartialEq>(states: &SharedStates<S>, of: &Subresources) -> bool {
    let mut known = until_copied(states, of);
    let copies = known.are(of, SubresourceState::Initial)[0];
    if copies {
        known.replace(of, SubresourceState::Initial, SubresourceState::Copying);
    }
    copies
}

/// Begins a write of a box of subresources that stages its texels, once no other thread copies texels into one of them.
pub(crate) fn begin_staging<S: Copy + PartialEq>(states: &SharedStates<S>, of: &Subresources) {
    until_copied(states, of).replace(of, SubresourceState::Initial, SubresourceState::Staging);
}

/// Waits until no thread copies texels into a box of subresources without staging.
fn until_copied<'a, S: Copy + PartialEq>(
    states: &'a SharedStates<S>,
    of: &Subresources,
) -> MutexGuard<'a, ImageStates<S>> {
    let mut known = locked(states);
    while let [_, true] = known.are(of, SubresourceState::Copying) {
        let changed = Arc::clone(known.changed.get_or_insert_default());
        known = changed.wait(known).unwrap_or_else(PoisonError::into_inner);
    }
    known
}

fn within(range: Range<u32>, end: u32) -> Range<u32> {
    range.start.min(end)..range.end.min(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state() -> impl Strategy<Value = SubresourceState<u8>> {
        prop_oneof![
            Just(SubresourceState::Initial),
            (0..3_u8).prop_map(SubresourceState::Known),
            (0..3_u8).prop_map(SubresourceState::Lost),
            Just(SubresourceState::Unknown),
        ]
    }

    proptest! {
        #[test]
        fn states_are_those_that_were_set_last(
            (levels, layers) in (1..5_u32, 1..5_u32),
            sets in prop::collection::vec((0..6_u32, 0..6_u32, 0..6_u32, 0..6_u32, state()), 0..12),
        ) {
            let mut states = ImageStates::new(levels, layers);
            let mut model = vec![SubresourceState::Initial; (levels * layers) as usize];
            for (level, level_end, layer, layer_end, state) in sets {
                if level == level_end && layer == layer_end {
                    states.lose_texels();
                    for known in &mut model {
                        if let SubresourceState::Known(state) = *known {
                            *known = SubresourceState::Lost(state);
                        }
                    }
                }
                states.set(level..level_end, layer..layer_end, state);
                for (at, known) in model.iter_mut().enumerate() {
                    let (at_level, at_layer) = (at as u32 % levels, at as u32 / levels);
                    if (level..level_end).contains(&at_level) && (layer..layer_end).contains(&at_layer) {
                        *known = state;
                    }
                }
                for (at, known) in model.iter().enumerate() {
                    prop_assert_eq!(states.of(at as u32 % levels, at as u32 / levels), *known);
                }
                let whole = match model[0] {
                    SubresourceState::Known(state) | SubresourceState::Lost(state)
                        if model.iter().all(|other| *other == model[0]) =>
                    {
                        Some(state)
                    }
                    _ => None,
                };
                prop_assert_eq!(states.whole(), whole);
                // A list is there only where two differ.
                let has_list = matches!(states.states, States::Each(_));
                prop_assert_eq!(has_list, model.iter().any(|other| *other != model[0]));
            }
            prop_assert_eq!(states.of(levels, 0), SubresourceState::Unknown);
            prop_assert_eq!(states.of(0, layers), SubresourceState::Unknown);
        }
    }
}

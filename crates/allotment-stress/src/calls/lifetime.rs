//! Recordings and deferred destruction.

use core::num::NonZero;
use core::time::Duration;
use std::sync::Arc;

use allotment::lifetime::{FramesInFlight, Recording};

use super::{Open, Player};
use crate::shadow::pattern;
use crate::world::{Marked, device_local};
use crate::{Stressed, raw};

impl<D: Stressed> Player<'_, D> {
    pub(super) fn record(&mut self) {
        let explicit = self.input.once_in(4);
        let tracker = &self.world.tracker;
        let recording =
            if explicit { tracker.record_explicit("explicit") } else { tracker.record("ordinary") };
        let arena = self.input.once_in(2).then(|| self.world.pages.arena(recording.id()));
        let transient = match &self.world.descriptors {
            Some(descriptors) if self.input.below(2) == 0 => {
                let begun = descriptors.heap.begin(&recording);
                self.done(begun)
            }
            _ => None,
        };
        self.tally.made(self.call);
        self.open.push(Open { recording, arena, transient });
        if self.open.len() > 4 {
            self.drop_recording();
        }
    }

    pub(super) fn use_arena(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let index = self.input.index(self.open.len());
        let Some(mut arena) = self.open[index].arena.take() else { return };
        let (size, alignment) = (self.small_size(), self.alignment());
        let (at, len) = self.range(size);
        match arena.allocate(size, alignment) {
            Ok(mut slice) => {
                let written = slice.write(at, &pattern(len.min(1 << 16)));
                self.done(written);
            }
            Err(error) => drop(self.done::<(), _>(Err(error))),
        }
        if !self.input.once_in(8) {
            self.open[index].arena = Some(arena);
        }
    }

    fn take_open(&mut self) -> Option<Open<D>> {
        if self.open.is_empty() {
            return None;
        }
        let index = self.input.index(self.open.len());
        Some(self.open.swap_remove(index))
    }

    pub(super) fn submit(&mut self) {
        let Some(Open { mut recording, arena, transient }) = self.take_open() else { return };
        let queue = self.real_queue();
        let device = &self.world.device;
        // Points submitted by now, so that no queue waits forever.
        let waits: Vec<_> = match self.input.below(2) {
            0 => Vec::new(),
            _ => self.world.tracker.submitted().points().filter(|point| point.queue != queue).collect(),
        };
        match self.input.below(4) {
            0 => {
                let submitted =
                    recording.submit_and_keep(queue, |it| raw::submit_nothing(device, it, &waits));
                self.done(submitted);
                self.open.push(Open { recording, arena, transient });
            }
            1 => {
                let mut together: Vec<Recording> = vec![recording];
                let mut others = Vec::new();
                for Open { recording, arena, transient } in self.open.drain(..) {
                    together.push(recording);
                    others.push((arena, transient));
                }
                let submitted = Recording::submit_together(&mut together, queue, |it| {
                    raw::submit_nothing(device, it, &waits)
                });
                self.done(submitted);
                // The arena and the transient descriptors are dropped after the recording here, and before it
                // below.
                drop((together, others, arena, transient));
            }
            2 => {
                drop((arena, transient));
                let submitted = recording.submit(queue, |it| raw::submit_nothing(device, it, &waits));
                self.done(submitted.map_err(|refused| refused.error));
            }
            _ => {
                let submitted = recording.submit(queue, |it| raw::submit_nothing(device, it, &waits));
                self.done(submitted.map_err(|refused| refused.error));
                drop((arena, transient));
            }
        }
    }

    pub(super) fn drop_recording(&mut self) {
        let Some(Open { recording, arena, transient }) = self.take_open() else { return };
        if self.input.once_in(2) {
            drop(recording);
            drop(arena);
            drop(transient);
        } else {
            drop(transient);
            drop(arena);
            drop(recording);
        }
        self.tally.made(self.call);
    }

    pub(super) fn retire(&mut self) {
        let world = self.world;
        let of_recording = self.open.last().map(|open| open.recording.id());
        match self.input.below(8) {
            0 => world.recycler.release(vec![0; 16]),
            1 => {
                let point = self.some_point();
                point.into_iter().for_each(|point| world.recycler.release_after(point, vec![1; 16]));
            }
            2 => of_recording.into_iter().for_each(|it| world.recycler.release_with(it, vec![2; 16])),
            3 => {
                let Some(marked) = world.owned.take(&mut self.input) else { return };
                let shared = Arc::new(marked.it);
                if let Some(open) = self.open.last() {
                    world.memory.deletion_queue().keep(&open.recording, &shared);
                }
            }
            4 => {
                let Some(marked) = world.owned.take(&mut self.input) else { return };
                match of_recording {
                    Some(id) if self.input.once_in(2) => world.retired.retire_with(id, marked.it),
                    _ => world.retired.retire(marked.it),
                }
            }
            5 => {
                let made = world.memory.create_buffer(&world.describable(), &device_local());
                let (Some(buffer), Some(point)) = (self.done(made), self.some_point()) else { return };
                world.retired.retire_after(point, buffer);
            }
            6 => {
                let Some(marked) = world.movables.take(&mut self.input) else { return };
                world.memory.deletion_queue().retire(marked.it);
            }
            _ => drop(world.recycler.acquire()),
        }
        self.tally.made(self.call);
    }

    pub(super) fn reclaim(&mut self) {
        let world = self.world;
        match self.input.below(8) {
            0 => drop(world.retired.reclaim(|buffer| drop(world.owned.put(Marked::new(buffer))))),
            1 => drop(world.retired.reclaim(drop)),
            2 => world.recycler.collect(),
            3 => drop(world.pages.reclaim()),
            4 => {
                let left = world.memory.deletion_queue().drain(Duration::from_millis(1));
                let _ = (left, world.memory.deletion_queue().statistics());
            }
            5 => {
                world.retired.trim();
                world.memory.deletion_queue().trim();
                world.recycler.trim();
            }
            _ => drop(world.memory.deletion_queue().reclaim()),
        }
        self.tally.made(self.call);
    }

    pub(super) fn wait(&mut self) {
        let tracker = &self.world.tracker;
        match self.input.below(8) {
            0 => self.wait_for_all(),
            1 => {
                let mut pacer = FramesInFlight::new(tracker, NonZero::<usize>::MIN);
                for _ in 0..2 {
                    let begun = pacer.begin(Duration::from_secs(10));
                    self.done(begun);
                    self.some_point();
                    pacer.end();
                }
            }
            2 => {
                let points = tracker.submitted();
                let _ = tracker.are_reached(&points);
                self.wait_for(&points);
            }
            3 => {
                let _ = (tracker.statistics(), tracker.open_recordings());
            }
            _ => tracker.poll(),
        }
        self.tally.made(self.call);
    }
}

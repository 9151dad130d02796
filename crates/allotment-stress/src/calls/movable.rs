//! Moves, by manual passes and by a set.

use core::time::Duration;
use std::sync::PoisonError;

use allotment::device::BufferDesc;
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationError, DefragmentationStrategy, JoinThreads,
    NextPass, Pass, PassLimits, StepOutcome,
};
use allotment::memory::{Buffer, Movability};

use super::Player;
use crate::shadow::Shadow;
use crate::world::Marked;
use crate::{Stressed, raw};

/// How long a request waits for the GPU to release memory that others were moved out of.
pub(super) const SHORT: Duration = Duration::from_millis(20);

impl<D: Stressed> Player<'_, D> {
    pub(super) fn limits(&mut self) -> PassLimits {
        match self.input.below(4) {
            0 => PassLimits::NONE,
            1 => PassLimits::default().with_moves(1 + self.input.below(8) as u32),
            2 => PassLimits::default().with_bytes(self.input.below(100_000)),
            _ => PassLimits::default(),
        }
    }

    pub(super) fn desc(&mut self) -> DefragmentationDesc {
        let strategy = match self.input.below(4) {
            0 => DefragmentationStrategy::Fast,
            1 => DefragmentationStrategy::WithinBytes(self.input.below(1 << 20)),
            _ => DefragmentationStrategy::Full,
        };
        let limits = self.limits();
        // Over all shards as one in half of the runs, whatever their threads do.
        let join = match strategy {
            DefragmentationStrategy::Full => JoinThreads::Always,
            _ => JoinThreads::WhenIdle,
        };
        DefragmentationDesc::new(strategy).with_limits(limits).with_join_threads(join)
    }

    pub(super) fn defragment(&mut self) {
        let desc = self.desc();
        let world = self.world;
        let allocator = &world.allocator;
        let owned = self.input.once_in(2);
        let begun = if owned {
            Defragmentation::new(allocator, None, desc)
        } else {
            Defragmentation::new(&**allocator, None, desc)
        };
        self.passes(begun, true);
    }

    pub(super) fn defragment_pool(&mut self) {
        let Some(pool) = self.some_pool() else { return };
        let desc = self.desc();
        let world = self.world;
        let allocator = &world.allocator;
        let begun = if self.input.once_in(2) {
            Defragmentation::new(allocator, Some(&pool), desc)
        } else {
            Defragmentation::new(&**allocator, Some(&pool), desc)
        };
        // A concurrent reset of the pool frees the memory during a copy, so nothing is copied.
        self.passes(begun, false);
    }

    /// Runs a few passes, with other calls between begin and end.
    fn passes(&mut self, begun: Result<Defragmentation<'_, D>, DefragmentationError>, carries: bool) {
        let Some(mut run) = self.done(begun) else { return };
        if self.input.once_in(4) {
            run.plan();
        }
        for _ in 0..=self.input.below(6) {
            match run.next_pass() {
                NextPass::Done => break,
                NextPass::LimitReached => {}
                NextPass::Moves(pass) => self.execute(pass, carries),
            }
        }
    }

    /// Makes other calls, then copies what the pass moves, and ends it.
    pub(super) fn execute(&mut self, mut pass: Pass<'_, D>, carries: bool) {
        let call = self.call;
        self.make_some_within();
        let mut moved = Vec::new();
        for index in 0..pass.moves().len() {
            match self.input.below(16) {
                1 => pass.ignore(index),
                2 => {
                    let wanted = pass.moves()[index].id();
                    let mut all = self.world.tokens.all();
                    let found = all.iter().position(|token| token.it.id() == wanted);
                    let token = found.map(|index| all.swap_remove(index));
                    drop(all);
                    if let Some(token) = token {
                        let freed = pass.destroy(index, token.it);
                        self.done(freed.map_err(|refused| format!("{refused:?}")));
                    }
                }
                _ => {}
            }
            let one = &pass.moves()[index];
            let carried = carries && !one.is_ignored() && raw::carry(&self.world.device, one);
            if !carried && !one.is_ignored() {
                // Recorded before the pass ends, so that a thread which reads other bytes afterwards knows the reason.
                moved.push(one.id());
            }
        }
        self.world.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(moved);
        self.tally.moves += pass.moves().len() as u64;
        match self.input.below(8) {
            1 => drop(pass),
            2 => core::mem::forget(pass),
            3 | 4 => {
                let memory = &self.world.memory;
                pass.end_with(|place| drop(memory.own_allocation(place)));
            }
            _ => {
                pass.end();
            }
        }
        self.tally.made(call);
    }

    pub(super) fn create_movable(&mut self) {
        for _ in 0..=self.input.below(6) {
            self.create_one_movable();
        }
    }

    fn create_one_movable(&mut self) {
        let size = self.small_size();
        let mut options = self.options();
        // Bytes that need not be copied cannot be compared.
        options.movability = Movability::Copied;
        let info = if self.input.once_in(16) {
            D::buffer_info(size, allotment::device::TransferUsage::SRC)
        } else {
            BufferDesc::new(size).into()
        };
        let set = &self.world.set;
        let made = if self.input.once_in(8) {
            set.making_room(SHORT).create_buffer(&info, &options)
        } else {
            set.create_buffer(&info, &options)
        };
        if let Some(buffer) = self.done(made) {
            drop(self.world.movables.put(Marked::new(buffer)));
        }
    }

    pub(super) fn use_movable(&mut self) {
        let Some(Marked { it, mut bytes }) = self.world.movables.take(&mut self.input) else { return };
        let writes = self.input.once_in(2);
        if self.input.once_in(8) {
            let _ = (it.handle(), it.moves(), it.size());
            let _ = (it.location(), it.info(), it.is_relocatable());
            self.tally.made(self.call);
        }
        self.use_movable_bytes(&it, &mut bytes, writes);
        drop(self.world.movables.put(Marked { it, bytes }));
    }

    /// Reads or writes bytes, wherever a step that runs beside this has moved them.
    pub(super) fn use_movable_bytes(&mut self, it: &Buffer<D>, bytes: &mut Shadow, writes: bool) {
        it.with_raw(|buffer| {
            // The buffer stays where it is until the end of this; the copy that brought its bytes there may not be
            // complete.
            self.wait_for_moves();
            self.use_bytes(buffer, bytes, writes);
        });
    }

    pub(super) fn drop_movable(&mut self) {
        for _ in 0..=self.input.below(8) {
            if self.world.movables.take(&mut self.input).is_some() {
                self.tally.made(self.call);
            }
        }
    }

    pub(super) fn step(&mut self) {
        let limits = self.limits();
        for _ in 0..=self.input.below(4) {
            let stepped = self.world.set.step(limits);
            if let Some(step) = self.done(stepped) {
                self.tally.moves += u64::from(step.statistics.moves);
                if step.outcome == StepOutcome::Idle {
                    break;
                }
            }
        }
    }

    pub(super) fn stop_set(&mut self) {
        self.world.set.stop();
        self.tally.made(self.call);
    }
}

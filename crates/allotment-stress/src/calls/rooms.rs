//! Requests that get their room by moves, and moves that an owner accepts.

use allotment::memory::defragmentation::{AcceptedMove, NextPass, PassLimits, RequestDefragmentation};
use allotment::memory::{Movability, NewBlocks};
use allotment::{MemoryUsage, Requirements};

use super::Player;
use super::movable::SHORT;
use crate::Stressed;
use crate::world::Marked;

impl<D: Stressed> Player<'_, D> {
    /// Makes room for a request, with other calls between the passes. At times the thread gives up.
    pub(super) fn make_room(&mut self) {
        let (size, mut options) = (self.size(), self.options());
        let pool = if self.input.once_in(2) { self.some_pool() } else { None };
        options = pool.iter().fold(options, |options, pool| options.with_pool(pool));
        if self.input.once_in(2) {
            options = options.with_new_blocks(NewBlocks::NeverAllocate);
        }
        // A reset of a pool frees the memory during a copy, so nothing is copied there; nor where a new block may be made, for
        // which allocations of any pool move.
        let carries = options.pool.is_none() && options.new_blocks == NewBlocks::NeverAllocate;
        let desc = self.desc();
        let world = self.world;
        let (allocator, wanted) = (&world.allocator, Requirements::new(size));
        let begun = if self.input.once_in(2) {
            RequestDefragmentation::new(allocator, &wanted, &options, desc)
        } else {
            RequestDefragmentation::new(&**allocator, &wanted, &options, desc)
        };
        let Some(mut room) = self.done(begun) else { return };
        for _ in 0..=self.input.below(16) {
            match room.next_pass() {
                NextPass::Done => break,
                NextPass::LimitReached => self.make_some_within(),
                NextPass::Moves(pass) => self.execute(pass, carries),
            }
        }
        match self.input.below(8) {
            0 => drop(room),
            _ => {
                if let Some(token) = self.done(room.finish()) {
                    self.keep_token(Marked::new(token));
                }
            }
        }
    }

    pub(super) fn make_free_range(&mut self) {
        let Some(pool) = self.some_pool() else { return };
        let (bytes, desc) = (self.size(), self.desc());
        let world = self.world;
        let options = MemoryUsage::GpuOnly.with_pool(&pool).with_new_blocks(NewBlocks::NeverAllocate);
        let begun = RequestDefragmentation::new(&*world.allocator, &Requirements::new(bytes), &options, desc);
        let made = begun.and_then(|room| room.run(|pass| self.execute(pass, false)));
        if let Some(range) = self.done(made) {
            // Refused where the pool was reset meanwhile.
            drop(world.allocator.free(range));
        }
    }

    pub(super) fn create_movable_mapped(&mut self) {
        let info = self.buffer_info();
        let mut options = self.options();
        // Bytes that need not be copied cannot be compared.
        options.movability = Movability::Copied;
        let made = self.world.set.create_mapped_buffer(&info, &options);
        if let Some(mapped) = self.done(made) {
            drop(self.world.mapped.put(Marked::new(mapped)));
        }
    }

    /// Accepts moves of a few buffers, at times before and after a step that offers some.
    pub(super) fn accept_moves(&mut self) {
        for _ in 0..self.input.below(8) {
            self.accept_move();
        }
        if self.input.once_in(2) {
            // Offers moves to those who accepted before.
            _ = self.world.set.step(PassLimits::NONE);
            for _ in 0..self.input.below(8) {
                self.accept_move();
            }
        }
    }

    fn accept_move(&mut self) {
        let Some(Marked { mut it, bytes }) = self.world.mapped.take(&mut self.input) else { return };
        let before = (it.moves(), it.address());
        let accepted = if self.input.once_in(2) { it.accept_move() } else { it.accept_move_within(SHORT) };
        if let Ok(accepted) = accepted {
            let moved = (it.moves(), it.address()) != before;
            if moved != (accepted == AcceptedMove::Moved) {
                self.tally
                    .find(format!("a mapped buffer of which a move was {accepted:?}: moved is {moved}"));
            }
            self.tally.moves += u64::from(moved);
        }
        // What did not move counts as refused, so that the table shows whether anything moves.
        self.done(match accepted {
            Ok(AcceptedMove::Moved) => Ok(()),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(format!("{error:?}")),
        });
        drop(self.world.mapped.put(Marked { it, bytes }));
    }
}

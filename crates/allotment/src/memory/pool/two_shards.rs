//! The locks of two shards, for a move from one to the other.
//!
//! A thread that holds the lock of a shard takes that of another one only here, in the reset of a pool, in the
//! announcement of its state and where a new shard is installed; always in the order of their indices.

use std::sync::MutexGuard;

use super::{PoolSlot, PoolState};
use crate::device::Device;
use crate::memory::pool::pools::Pools;
use crate::sync::locked;

type LockedState<'a, D> = (&'a PoolSlot<D>, MutexGuard<'a, Option<PoolState<D>>>);

/// Two shards of a pool, or one twice, locked.
#[derive(Debug)]
pub(crate) struct TwoShards<'a, D: Device> {
    /// Their indices: `one`, `other`.
    indices: (u32, u32),
    one: LockedState<'a, D>,
    /// `None` where both are the same.
    other: Option<LockedState<'a, D>>,
}

impl<D: Device> Pools<D> {
    /// Locks two shards of a pool, or one. Returns `None` where the pool is gone.
    pub(crate) fn lock_two(&self, one: u32, other: u32) -> Option<TwoShards<'_, D>> {
        let lock = |index| {
            let slot = self.slots.get(index)?;
            let guard = locked(&slot.state);
            guard.is_some().then_some((slot, guard))
        };
        let indices = (one, other);
        if one == other {
            return Some(TwoShards { indices, one: lock(one)?, other: None });
        }
        let (lower, upper) = (lock(one.min(other))?, lock(one.max(other))?);
        let (one, other) = if one < other { (lower, upper) } else { (upper, lower) };
        Some(TwoShards { indices, one, other: Some(other) })
    }
}

impl<D: Device> TwoShards<'_, D> {
    /// Returns true if these are the two.
    pub(crate) fn are(&self, one: u32, other: u32) -> bool {
        self.indices == (one, other)
    }

    /// Returns the first one.
    pub(super) fn one(&mut self) -> (&mut PoolState<D>, &PoolSlot<D>) {
        Self::state(&mut self.one)
    }

    /// Returns the second one, which may be the first.
    pub(super) fn other(&mut self) -> (&mut PoolState<D>, &PoolSlot<D>) {
        Self::state(self.other.as_mut().unwrap_or(&mut self.one))
    }

    /// Returns one of them by its index; `None` for a third.
    pub(super) fn locked(&mut self, index: u32) -> Option<(&mut PoolState<D>, &PoolSlot<D>)> {
        if index == self.indices.0 {
            Some(self.one())
        } else if index == self.indices.1 {
            Some(self.other())
        } else {
            None
        }
    }

    fn state<'s>((slot, guard): &'s mut LockedState<'_, D>) -> (&'s mut PoolState<D>, &'s PoolSlot<D>) {
        match guard.as_mut() {
            Some(state) => (state, slot),
            None => unreachable!("the shard had a state when it was locked"),
        }
    }
}

//! The passes of a step: one run after the other, until the limits leave nothing or there is nothing to gain.
//!
//! ```text
//!   step n      default pools: pass │ signs: pass, done │ harbour: done     all within the limits of the step
//!   step n+1    default pools: pass, done │ …
//! ```
//!
//! Each pool has a run of its own, and each pass of a run is a submission of its own. A run that ends without moves, or
//! with few, leaves its limits to the next one: otherwise each pool would take two steps, the second of which moves nothing.

use std::time::Instant;

use crate::device::Device;
use crate::log::event;
use crate::memory::DefragmentationError;
use crate::memory::defragmentation::{Found, Run, Scope, Spent};
use crate::memory::resource::relocation::defragmenter::{Defragmenter, State};
use crate::memory::resource::relocation::desc::{DefragmentationStep, StepOutcome};
use crate::memory::{Pass, PassLimits, Pool};
use crate::sync::locked;

impl<D: Device> Defragmenter<D> {
    /// Executes the passes of a step.
    pub(super) fn execute_passes(
        &self,
        state: &mut State<D>,
        limits: PassLimits,
    ) -> Result<DefragmentationStep, DefragmentationError> {
        // Before anything else: a resource whose copy has completed is pinned no longer, and can move again.
        state.pending.retain(|resource| !resource.is_complete());
        state.followers.append(&mut locked(&self.reports.followers));
        // A pass now would give up the blocks of all resources that such a heap has in its slots.
        if !state.followers_are_ready() {
            return Ok(DefragmentationStep::new(StepOutcome::LimitReached));
        }
        let (began, mut spent) = (Instant::now(), Spent::default());
        let mut sum = self.continue_run(state, limits, &mut spent)?;
        let mut last = sum.outcome;
        loop {
            let goes_on = match last {
                StepOutcome::Moved => true,
                // A run is done, and another one is next.
                StepOutcome::LimitReached => state.run.is_none() && !state.waiting.is_empty(),
                StepOutcome::RecordingIsOpen | StepOutcome::Idle => false,
            };
            spent.time = began.elapsed();
            if !goes_on || !spent.leaves_some(&limits) || !state.followers_are_ready() {
                return Ok(sum);
            }
            match self.continue_run(state, limits, &mut spent) {
                Ok(step) => (sum, last) = (sum.and(step), step.outcome),
                // What was moved before has moved. If the device still refuses the rest, the next step says so.
                Err(_) if sum.outcome == StepOutcome::Moved => return Ok(sum),
                Err(error) => return Err(error),
            }
        }
    }

    /// Continues a run by a pass, or begins one.
    fn continue_run(
        &self,
        state: &mut State<D>,
        limits: PassLimits,
        spent: &mut Spent,
    ) -> Result<DefragmentationStep, DefragmentationError> {
        let allocator = self.memory.allocator();
        // The list of moves is that of one pass.
        self.keep_moved(state);
        let at_rest = state.run.is_none() && state.waiting.is_empty();
        // Also in steps without a run: offers that no owner accepts keep room.
        allocator.withdraw_old_offers();
        locked(&self.reports.statistics).blocks_kept += allocator.offers.take_kept(self.mover);
        let now = at_rest.then(|| allocator.statistics());
        if now.is_some_and(|now| state.rest.goes_on(now)) {
            return Ok(DefragmentationStep::new(StepOutcome::Idle));
        }
        if state.run.is_none() {
            if let Some(now) = now {
                state.rest.end(now);
                state.waiting = self.pools();
            }
            state.run = self.begin_next_run(&mut state.waiting)?;
        }
        let Some((run, _)) = &mut state.run else {
            // None of the pools that were left can be defragmented at present.
            state.rest.begin(allocator.statistics());
            return Ok(DefragmentationStep::new(StepOutcome::Idle));
        };
        let Some(in_progress) = self.memory.deletion_queue().tracker().begin_pass() else {
            return Ok(DefragmentationStep::new(StepOutcome::RecordingIsOpen));
        };
        // The run may have begun with the limits of an earlier step.
        run.limit(limits);
        // A run counts from its beginning, so only the difference belongs to this step.
        let before = run.statistics;
        let found = run.find(allocator, &mut state.moves, spent);
        let mut done = match found {
            Found::Moves => {
                run.statistics.passes += 1;
                let pass = Pass::new(allocator, run, &mut state.moves);
                self.execute_pass(pass, &mut state.created, &mut state.pending, &mut state.followers)
            }
            Found::LimitReached => Ok(DefragmentationStep::new(StepOutcome::LimitReached)),
            Found::Done => Ok(DefragmentationStep::new(StepOutcome::Idle)),
        };
        drop(in_progress);
        let sums = run.statistics - before;
        self.reports.add(sums);
        state.rest.note_moves(sums.moves);
        done.iter_mut().for_each(|step| step.statistics = sums);
        // Ended here, not with the defragmenter: the blocks that an open run is going to empty are kept from others.
        if found == Found::Done {
            allocator.end_run(run);
            state.run = None;
            if state.waiting.is_empty() {
                state.rest.begin(allocator.statistics());
            } else {
                // Other pools come next.
                done.iter_mut().for_each(|step| step.outcome = StepOutcome::LimitReached);
            }
        }
        if sums.moves != 0 {
            event!(DEBUG, "memory", step = ?done, "moved resources");
        }
        done.map_err(DefragmentationError::Device)
    }

    /// Returns the pools to defragment: the default pools, and each custom pool that has relocatable resources. The
    /// last one comes first.
    fn pools(&self) -> Vec<Option<Pool>> {
        let members = self.members.lock();
        let mut pools: Vec<Option<Pool>> = Vec::new();
        for (_, pool) in members.values() {
            if pool.is_some() && !pools.contains(pool) {
                pools.push(pool.clone());
            }
        }
        pools.push(None);
        pools
    }

    /// Begins to defragment the next pool that can be defragmented. `None` where there is no other.
    fn begin_next_run(
        &self,
        waiting: &mut Vec<Option<Pool>>,
    ) -> Result<Option<(Run, Option<Pool>)>, DefragmentationError> {
        while let Some(pool) = waiting.pop() {
            let scope = pool.as_ref().map_or(Scope::DefaultPools, |pool| Scope::Pool(pool.shards()));
            match self.memory.allocator().begin_run(self.desc, scope, Some(self.mover)) {
                Ok(run) => return Ok(Some((run, pool))),
                Err(error) if pool.is_none() => {
                    // The next step begins with the default pools again.
                    waiting.clear();
                    return Err(error);
                }
                // A linear pool, or one that the program defragments itself, must not hold up the others.
                Err(_) => {}
            }
        }
        Ok(None)
    }
}

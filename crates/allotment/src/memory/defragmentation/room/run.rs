//! Making room for a request: survey, plan, execution, and the request in the room.
//!
//! ```text
//!   survey ──► plan ──► execution ──► the request is placed ──► finished
//!     ▲                     │
//!     └── the pool changed ─┘        up to eight times
//! ```

use std::collections::HashSet;

use allotment_suballoc::{Algorithm, Request};

use super::error::Asked;
use super::execution::{Execution, Progress, layout_of};
use super::pace::{Pace, Paced};
use super::plan::{Wanted, plan};
use super::replace::by_replacement;
use crate::device::{Device, Requirements};
use crate::memory::AllocationOptions;
use crate::memory::allocator::{Allocation, AllocationId, Allocator};
use crate::memory::block_set::Role;
use crate::memory::defragmentation::desc::Spent;
use crate::memory::defragmentation::movers::{MovedBy, Mover};
use crate::memory::defragmentation::moves::SurveyedAllocation;
use crate::memory::defragmentation::pass::Move;
use crate::memory::defragmentation::run::{Ended, Found, Outcome};
use crate::memory::defragmentation::stopwatch::Stopwatch;
use crate::memory::defragmentation::survey::{Arena, Survey, SurveyedArena, SurveyedBlock, SurveyedPool};
use crate::memory::defragmentation::{DefragmentationDesc, JoinShards, PassLimits};
use crate::memory::pool::shards::PoolShards;
use crate::memory::request::desc::AllocationRequest;
use crate::sync::locked;

/// Plans of a run at most. Pools that change all the time would otherwise keep it going for ever.
const MAX_PLANS: u32 = 8;

/// Why there is no room in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum NoRoom {
    /// It would not fit wherever the movable allocations were placed.
    NothingHelps,
    /// It would fit once so many bytes were copied, which are more than allowed.
    TooManyBytes(u64),
    /// Other threads took the room each time.
    Changed,
    /// The run is not finished.
    Unfinished,
}

/// A request that outlives its call.
#[derive(Debug)]
struct OwnedRequest {
    requirements: Requirements,
    options: AllocationOptions,
    among_movable: bool,
}

impl OwnedRequest {
    fn request(&self) -> AllocationRequest<'_> {
        let Self { requirements, options, among_movable, .. } = self;
        AllocationRequest { among_movable: *among_movable, ..AllocationRequest::new(requirements, options) }
    }
}

/// A run that makes room for a request.
#[derive(Debug)]
pub(in crate::memory) struct RoomRun {
    wanted: OwnedRequest,
    /// The pools of each memory type that suits, the best first: the shards and the set.
    pools: Vec<(PoolShards, u8)>,
    mover: Mover,
    join_shards: JoinShards,
    /// Allocations whose moves were ignored.
    ignored: HashSet<AllocationId>,
    /// Memory may be allocated for what has to go aside.
    aside: bool,
    /// Bytes that may be copied in all, and that were copied.
    allowed: u64,
    copied: u64,
    plans: u32,
    stage: Stage,
    /// Whether the last step found that old places were passed on and are still allocated, in the way of the next moves.
    waits: bool,
    result: Option<Result<Allocation, NoRoom>>,
}

#[derive(Debug)]
enum Stage {
    Surveying(Survey),
    /// What the survey saw may change meanwhile, as it may until the last move: each step checks it.
    Planning(Paced<Result<Box<Execution>, NoRoom>>),
    Moving(Box<Execution>),
    /// The execution ends, since the pool changed.
    Ending(Box<Execution>),
    /// The execution has ended, and is dropped in pieces.
    Dropping(Box<Execution>),
    Finished,
}

/// Plans the room in the first pools that can have it: by pool, `wanted` has what each arena of the survey needs.
async fn planned(
    survey: &Survey,
    wanted: Vec<Vec<(usize, Wanted)>>,
    (aside, mover): (bool, Mover),
    (copied, allowed): (u64, u64),
    pace: &mut Pace,
) -> Result<Box<Execution>, NoRoom> {
    let mut too_many = None;
    for wanted in wanted {
        let mut best: Option<(u64, Execution)> = None;
        let mut replaceable = Vec::new();
        for (at, wanted) in wanted {
            let arena = &survey.arenas[at];
            let (mut layout, blocks, items) = layout_of(arena, SurveyedBlock::may_take, pace).await;
            layout.aside = aside;
            let Some(plan) = plan(&mut layout, wanted, pace).await else {
                layout.discard(pace).await;
                replaceable.push((at, wanted));
                continue;
            };
            // With what earlier plans copied, of which some was ignored or freed.
            let cost = copied.saturating_add(plan.cost);
            if cost > allowed {
                too_many = Some(too_many.map_or(cost, |least: u64| least.min(cost)));
            } else if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                let parts = (&layout, &blocks[..], &items[..]);
                best = Some((cost, Execution::new(arena, parts, (plan, false), mover, pace).await));
            }
            layout.discard(pace).await;
        }
        // Only where no block has the room: a new one is a call of the driver.
        if best.is_some() {
            replaceable.clear();
        }
        for (at, Wanted { missing, .. }) in replaceable.drain(..) {
            let (Some(missing), arena) = (missing, &survey.arenas[at]) else { continue };
            let (mut layout, blocks, items) = layout_of(arena, SurveyedBlock::may_leave, pace).await;
            let only_sources: Vec<_> = blocks.iter().map(|&at| !arena.blocks[at].shared).collect();
            if let Some(plan) = by_replacement(&mut layout, missing, &only_sources, pace).await {
                let cost = copied.saturating_add(plan.cost);
                if cost > allowed {
                    too_many = Some(too_many.map_or(cost, |least: u64| least.min(cost)));
                } else if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    let parts = (&layout, &blocks[..], &items[..]);
                    best = Some((cost, Execution::new(arena, parts, (plan, true), mover, pace).await));
                }
            }
            layout.discard(pace).await;
        }
        if let Some((_, execution)) = best {
            return Ok(Box::new(execution));
        }
    }
    Err(too_many.map_or(NoRoom::NothingHelps, NoRoom::TooManyBytes))
}

impl RoomRun {
    /// Begins to make room for a request that was refused.
    pub(in crate::memory::defragmentation) fn new<D: Device>(
        allocator: &Allocator<D>,
        request: &AllocationRequest<'_>,
        desc: DefragmentationDesc,
        mover: Mover,
    ) -> Self {
        let mut run = Self {
            wanted: OwnedRequest {
                requirements: request.requirements,
                options: request.options.clone(),
                among_movable: request.among_movable,
            },
            pools: allocator.pools_for(request),
            mover,
            join_shards: desc.join_shards,
            ignored: HashSet::new(),
            aside: true,
            allowed: desc.strategy.bytes(),
            copied: 0,
            plans: 0,
            stage: Stage::Finished,
            waits: false,
            result: None,
        };
        run.survey(desc.limits.bytes);
        run
    }

    pub(in crate::memory::defragmentation) fn asked(&self) -> Asked {
        Asked::of(&self.wanted.request())
    }

    /// Returns whether nothing moves until old places are freed that the ends of passes passed on.
    pub(in crate::memory::defragmentation) fn waits_for_old_places(&self) -> bool {
        self.waits
    }

    /// Takes the result; `None` before the run is finished.
    pub(in crate::memory::defragmentation) fn take_result(&mut self) -> Option<Result<Allocation, NoRoom>> {
        self.result.take()
    }

    fn survey(&mut self, largest: u64) {
        let pools = self.pools.iter().map(|&(shards, set)| SurveyedPool { shards, set: Some(set) });
        self.stage = Stage::Surveying(Survey::new(pools.collect(), self.join_shards, largest));
    }

    /// Finds the next moves.
    pub(in crate::memory::defragmentation) fn find<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        limits: &PassLimits,
        found: &mut Vec<Move<D>>,
    ) -> Found {
        let mut time = Stopwatch::new(limits.time);
        let mut spent = Spent::default();
        while self.advance(allocator, limits, found, &mut spent, &mut time) && !time.is_over_now() {}
        match self.stage {
            _ if !found.is_empty() => Found::Moves,
            Stage::Finished => Found::Done,
            _ => Found::LimitReached,
        }
    }

    /// Executes the next small step. Returns false where the pass is complete, or nothing is left to do at present.
    fn advance<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        limits: &PassLimits,
        found: &mut Vec<Move<D>>,
        spent: &mut Spent,
        time: &mut Stopwatch,
    ) -> bool {
        match &mut self.stage {
            Stage::Surveying(survey) => {
                let others = allocator.movers.others(self.mover, allocator.time.now().tick);
                let ignored = &self.ignored;
                // A run that makes room moves what is its mover's own.
                let moved_by = |seen: &SurveyedAllocation| {
                    let id = seen.id(allocator.id);
                    let own = others.of(id, seen) == MovedBy::Own && !ignored.contains(&id);
                    if own { MovedBy::Own } else { MovedBy::None }
                };
                if survey.step(allocator, &others, moved_by, time) {
                    let survey = survey.take();
                    self.plan(allocator, survey);
                }
                true
            }
            Stage::Planning(planning) => match planning.go_on(time.end()) {
                // The time is over.
                None => false,
                Some(Ok(execution)) => {
                    self.plans += 1;
                    self.stage = Stage::Moving(execution);
                    true
                }
                Some(Err(reason)) => {
                    self.finish(Err(reason));
                    true
                }
            },
            Stage::Moving(execution) => {
                let progress = execution.advance(allocator, found, (limits, spent), time);
                self.waits = matches!(progress, Progress::Waiting);
                match progress {
                    Progress::Continue => true,
                    Progress::PassIsComplete | Progress::Waiting => false,
                    Progress::Done if execution.replaces() => self.replace(allocator),
                    Progress::Done => self.place(allocator),
                    Progress::NoMemory => {
                        self.aside = false;
                        self.change()
                    }
                    Progress::Changed => self.change(),
                }
            }
            Stage::Ending(_) => {
                // Moves that are handed out end before.
                if !found.is_empty() {
                    return false;
                }
                let Stage::Ending(mut execution) = core::mem::replace(&mut self.stage, Stage::Finished)
                else {
                    return false;
                };
                execution.end(allocator);
                self.stage = Stage::Dropping(execution);
                true
            }
            Stage::Dropping(execution) => {
                while execution.drop_piece() {
                    if time.is_over() {
                        return false;
                    }
                }
                self.stage = Stage::Finished;
                self.result.is_none() && self.again(allocator, limits)
            }
            Stage::Finished => false,
        }
    }

    /// Begins to plan the room in the first pools that can have it, in the shard where the fewest bytes are copied.
    fn plan<D: Device>(&mut self, allocator: &Allocator<D>, survey: Survey) {
        // By pool, the best first: what the plan needs of them, since it has no lock and outlives this call.
        let mut wanted = Vec::new();
        for &(shards, set) in &self.pools {
            let of = |arena: &SurveyedArena| {
                let Arena { pool, set: of } = arena.members.first()?.arena;
                self.wanted(allocator, pool, set).filter(|_| of == set && shards.contain(pool))
            };
            let arenas = (0..).zip(&survey.arenas);
            wanted.push(arenas.filter_map(|(at, arena)| Some((at, of(arena)?))).collect::<Vec<_>>());
        }
        let (aside, mover, copied, allowed) = (self.aside, self.mover, self.copied, self.allowed);
        self.stage = Stage::Planning(Paced::new(|mut pace| async move {
            let mut survey = survey;
            let planned = planned(&survey, wanted, (aside, mover), (copied, allowed), &mut pace).await;
            while survey.drop_piece() {
                pace.step().await;
            }
            planned
        }));
    }

    /// Returns the range of a block that the request needs in a pool; `None` where it cannot share a block there.
    fn wanted<D: Device>(&self, allocator: &Allocator<D>, pool: u32, set: u8) -> Option<Wanted> {
        let guard = locked(&allocator.pools.get(pool)?.state);
        let state = guard.as_ref()?;
        let request = self.wanted.request();
        let rounded = allocator.round_request(state, usize::from(set), &request).ok()?;
        if rounded.role == Role::DedicatedToAllocation || state.rules.algorithm == Algorithm::Linear {
            return None;
        }
        let Request { size, alignment, .. } = rounded.request;
        let missing = allocator.missing_for_block(state, usize::from(set), &rounded, &request);
        let (bytes, alignment) = state.range_of(usize::from(set), size, alignment);
        Some(Wanted { bytes, alignment, missing })
    }

    /// Places the request in the room that was made.
    fn place<D: Device>(&mut self, allocator: &Allocator<D>) -> bool {
        let Stage::Moving(execution) = &mut self.stage else { return false };
        let Arena { pool, set } = execution.arena();
        let Some(slot) = allocator.pools.get(pool) else { return self.change() };
        let request = self.wanted.request();
        let at = execution.room(allocator);
        let mut guard = locked(&slot.state);
        let Some(state) = guard.as_mut() else { return self.change() };
        let Ok(rounded) = allocator.round_request(state, usize::from(set), &request) else {
            return self.change();
        };
        let placed = state.place_request_at(slot, usize::from(set), at, &rounded, &request);
        state.store_counters(slot);
        let Some(record) = placed else {
            drop(guard);
            // The old places of the last moves may still be in use.
            self.waits = execution.waits_for_places(allocator);
            return if self.waits { false } else { self.change() };
        };
        let (token, changed_priority) = (allocator.token(pool, record, slot), state.changed_priority.take());
        drop(guard);
        allocator.set_priority(&token, changed_priority);
        if !allocator.map_new(&token, &request) {
            allocator.free_own(token);
            return self.change();
        }
        execution.end(allocator);
        self.result = Some(Ok(token));
        self.stage = match core::mem::replace(&mut self.stage, Stage::Finished) {
            Stage::Moving(execution) => Stage::Dropping(execution),
            other => other,
        };
        true
    }

    /// Ends the execution, whose blocks are empty: the request is tried again, which frees them for a new one.
    fn replace<D: Device>(&mut self, allocator: &Allocator<D>) -> bool {
        let Stage::Moving(execution) = &mut self.stage else { return false };
        // The old places of the last moves may still be in use.
        self.waits = execution.waits_for_places(allocator);
        if self.waits { false } else { self.change() }
    }

    /// Ends the execution: the pool changed.
    fn change(&mut self) -> bool {
        self.stage = match core::mem::replace(&mut self.stage, Stage::Finished) {
            Stage::Moving(execution) => Stage::Ending(execution),
            other => other,
        };
        true
    }

    /// Tries the request as it is, and then plans anew.
    fn again<D: Device>(&mut self, allocator: &Allocator<D>, limits: &PassLimits) -> bool {
        match allocator.allocate_for_request(&self.wanted.request()) {
            Ok(token) => self.finish(Ok(token)),
            Err(refused) => {
                if self.plans < MAX_PLANS && refused.falls_through() {
                    self.survey(limits.bytes);
                    return true;
                }
                self.finish(Err(NoRoom::Changed));
            }
        }
        false
    }

    fn finish(&mut self, result: Result<Allocation, NoRoom>) {
        self.result = Some(result);
        self.stage = Stage::Finished;
    }

    /// Records the end of a move. Its places are released already.
    pub(in crate::memory::defragmentation) fn ended(&mut self, ended: &Ended) {
        if let Stage::Moving(execution) | Stage::Ending(execution) = &mut self.stage {
            execution.ended();
        }
        match ended.outcome {
            Outcome::Moved => self.copied += ended.copied,
            Outcome::Freed { .. } => {}
            Outcome::Stays => {
                // What stays only since another allocation of the pass does can move by the next plan.
                if !ended.with_others {
                    self.ignored.insert(ended.id);
                }
                self.change();
            }
        }
    }

    /// Frees all reserved places, opens the blocks, and frees the room if nobody took it.
    pub(in crate::memory::defragmentation) fn cancel<D: Device>(&mut self, allocator: &Allocator<D>) {
        if let Stage::Moving(mut execution) | Stage::Ending(mut execution) =
            core::mem::replace(&mut self.stage, Stage::Finished)
        {
            execution.end(allocator);
        }
        if let Some(Ok(room)) = self.result.take() {
            allocator.free_own(room);
        }
    }
}

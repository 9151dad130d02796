//! Making room for a request: survey, plan, execution, and the request in the room.
//!
//! ```text
//!   survey ──► plan ──► execution ──► the request is placed ──► finished
//!     ▲   ▲     │             │
//!     │   └─────┘ none        │      once more, with all pools over the heap (`whole_heap.rs`)
//!     └─── the pool changed ──┘      up to eight times
//! ```

use std::collections::HashSet;

use super::error::Asked;
use super::execution::{Execution, Progress, Seen, layout_of};
use super::plan::{Wanted, plan};
use super::replace::{Freeable, by_replacement};
use super::whole_heap::{EmptyBytes, MissingInHeap};
use crate::device::{Device, MemoryHeapIndex, Requirements};
use crate::memory::AllocationOptions;
use crate::memory::allocator::Allocator;
use crate::memory::defragmentation::desc::Spent;
use crate::memory::defragmentation::pace::{Pace, Paced};
use crate::memory::defragmentation::pass::Move;
use crate::memory::defragmentation::run::{Ended, Found};
use crate::memory::defragmentation::stopwatch::Stopwatch;
use crate::memory::defragmentation::survey::{
    Arena, Scope, Survey, SurveyedArena, SurveyedBlock, SurveyedPool,
};
use crate::memory::defragmentation::{DefragmentationDesc, JoinThreads, PassLimits};
use crate::memory::mover::{MovedBy, Mover};
use crate::memory::pool::{MoveEnd, Needed, SurveyedAllocation};
use crate::memory::request::{AllocationRequest, Moves, PoolShards};
use crate::memory::token::{Allocation, AllocationId};

/// Plans of a run at most. Pools that change all the time would otherwise keep it going for ever.
const MAX_PLANS: u32 = 8;

/// Why there is no room in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory::defragmentation) enum NoRoom {
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
    moves: Moves,
}

impl OwnedRequest {
    fn request(&self) -> AllocationRequest<'_> {
        let Self { requirements, options, moves } = self;
        AllocationRequest { moves: *moves, ..AllocationRequest::new(requirements, options) }
    }
}

/// A run that makes room for a request.
#[derive(Debug)]
pub(in crate::memory::defragmentation) struct RoomRun {
    wanted: OwnedRequest,
    /// The pools of each memory type that suits, the best first: the shards and the set.
    pools: Vec<(PoolShards, u8)>,
    mover: Mover,
    join_threads: JoinThreads,
    /// The pools that the run was begun for.
    scope: Scope,
    /// Others that a run with passes may move allocations of, until it ends.
    pub(super) other_scopes: Vec<Scope>,
    taking_part: TakingPart,
    /// Blocks of all pools were emptied before, and the request was refused all the same: why, the figures do not tell.
    heaps_did_not_help: bool,
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

/// The pools whose allocations may move.
#[derive(Debug)]
enum TakingPart {
    /// Those that suit the request.
    OwnPools,
    /// All over some heaps, since no plan for the request's own pools was allowed, for this reason.
    Heaps(Vec<MissingInHeap>, NoRoom),
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

/// Returns the lesser of two refusals.
fn least(one: NoRoom, other: NoRoom) -> NoRoom {
    match (one, other) {
        (NoRoom::TooManyBytes(one), NoRoom::TooManyBytes(other)) => NoRoom::TooManyBytes(one.min(other)),
        (NoRoom::TooManyBytes(_), _) => one,
        _ => other,
    }
}

/// Plans to empty blocks of some arenas, in which `missing` bytes are, for a new one. Returns the bytes that are copied in
/// all.
async fn replaced(
    arenas: &[&SurveyedArena],
    missing: u64,
    mover: Mover,
    (copied, allowed): (u64, u64),
    pace: &mut Pace,
) -> Result<(u64, Execution), NoRoom> {
    let (mut layout, blocks, items) = layout_of(arenas, SurveyedBlock::may_leave, pace).await;
    let plan = by_replacement(&mut layout, missing, &freeable(arenas, &blocks), pace).await;
    let replaced = match plan.map(|plan| (copied.saturating_add(plan.cost), plan)) {
        None => Err(NoRoom::NothingHelps),
        Some((cost, _)) if cost > allowed => Err(NoRoom::TooManyBytes(cost)),
        Some((cost, plan)) => {
            let parts = (&layout, &blocks[..], &items[..]);
            Ok((cost, Execution::new(arenas, parts, (plan, true), mover, pace).await))
        }
    };
    layout.discard(pace).await;
    replaced
}

/// Returns which of the blocks that take part in a plan can be freed.
fn freeable(arenas: &[&SurveyedArena], blocks: &[Seen]) -> Freeable {
    let (mut first, mut spare) = (Vec::new(), Vec::new());
    for arena in arenas {
        first.push(spare.len());
        spare.extend(arena.spare_blocks());
    }
    let set_of = |&(arena, at): &Seen| {
        let block = &arenas[arena as usize].blocks[at as usize];
        block.shared.then_some(first[arena as usize] + block.member)
    };
    Freeable { sets: blocks.iter().map(set_of).collect(), spare }
}

/// Plans to empty blocks of all pools over a heap, for the best memory type for which that is enough: `missing` has the bytes
/// for each, and the arenas of its heap.
async fn planned_in_heaps(
    survey: &Survey,
    missing: Vec<(u64, Vec<usize>)>,
    mover: Mover,
    bytes: (u64, u64),
    pace: &mut Pace,
) -> Result<Box<Execution>, NoRoom> {
    let mut refused = NoRoom::NothingHelps;
    for (missing, arenas) in missing {
        let arenas: Vec<_> = arenas.into_iter().map(|at| &survey.arenas[at]).collect();
        match replaced(&arenas, missing, mover, bytes, pace).await {
            Ok((_, execution)) => return Ok(Box::new(execution)),
            Err(reason) => refused = least(refused, reason),
        }
    }
    Err(refused)
}

/// Plans the room in the first pools that can have it: by pool, `wanted` has what each arena of the survey needs.
async fn planned(
    survey: &Survey,
    wanted: Vec<Vec<(usize, Wanted)>>,
    (aside, mover): (bool, Mover),
    (copied, allowed): (u64, u64),
    pace: &mut Pace,
) -> Result<Box<Execution>, NoRoom> {
    // The pools come in the order of their memory types, best first, and the first that can have the room gets it: a better
    // type is worth more than fewer bytes copied. Within a pool all arenas are planned, each a shard or shards that are joined:
    //   pool A    arena 0: 3 MiB     arena 1: –           arena 2: 1 MiB   ◄── this one
    //   pool B    arena 0: 0.1 MiB                                             not looked at
    let mut refused = NoRoom::NothingHelps;
    for wanted in wanted {
        let mut best: Option<(u64, Execution)> = None;
        let mut replaceable = Vec::new();
        for (at, wanted) in wanted {
            let arena = &survey.arenas[at];
            let (mut layout, blocks, items) = layout_of(&[arena], SurveyedBlock::may_take, pace).await;
            layout.aside = aside;
            // A plan holds no lock and sees what the survey saw. If that has changed when it is executed, the run surveys and
            // plans anew.
            let Some(plan) = plan(&mut layout, wanted, pace).await else {
                layout.discard(pace).await;
                replaceable.push((at, wanted));
                continue;
            };
            // With what earlier plans copied, of which some was ignored or freed.
            let cost = copied.saturating_add(plan.cost);
            if cost > allowed {
                refused = least(refused, NoRoom::TooManyBytes(cost));
            } else if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                let parts = (&layout, &blocks[..], &items[..]);
                // Made at once, since the layout that it is made of is dropped before the next arena is planned.
                best = Some((cost, Execution::new(&[arena], parts, (plan, false), mover, pace).await));
            }
            layout.discard(pace).await;
        }
        // Only where no block has the room: a new one is a call of the driver.
        if best.is_some() {
            replaceable.clear();
        }
        for (at, Wanted { missing, .. }) in replaceable.drain(..) {
            let Some(missing) = missing else { continue };
            match replaced(&[&survey.arenas[at]], missing, mover, (copied, allowed), pace).await {
                Err(reason) => refused = least(refused, reason),
                Ok(found) if best.as_ref().is_none_or(|best| found.0 < best.0) => best = Some(found),
                Ok(_) => {}
            }
        }
        if let Some((_, execution)) = best {
            return Ok(Box::new(execution));
        }
    }
    Err(refused)
}

impl RoomRun {
    /// Begins to make room for a request that was refused.
    pub(in crate::memory::defragmentation) fn new<D: Device>(
        allocator: &Allocator<D>,
        request: &AllocationRequest<'_>,
        desc: DefragmentationDesc,
        (scope, mover): (Scope, Mover),
    ) -> Self {
        let mut run = Self {
            wanted: OwnedRequest {
                requirements: request.requirements,
                options: request.options.clone(),
                moves: request.moves,
            },
            pools: allocator.pools_for(request),
            mover,
            join_threads: desc.join_threads,
            scope,
            other_scopes: Vec::new(),
            taking_part: TakingPart::OwnPools,
            heaps_did_not_help: false,
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

    /// Takes the pools that the run took beside those that it was begun for.
    pub(in crate::memory::defragmentation) fn take_other_scopes(&mut self) -> Vec<Scope> {
        core::mem::take(&mut self.other_scopes)
    }

    pub(super) fn request(&self) -> AllocationRequest<'_> {
        self.wanted.request()
    }

    pub(super) fn pools(&self) -> &[(PoolShards, u8)] {
        &self.pools
    }

    pub(super) fn mover(&self) -> Mover {
        self.mover
    }

    fn survey(&mut self, largest: u64) {
        self.taking_part = TakingPart::OwnPools;
        let pools = self.pools.iter().map(|&(shards, set)| SurveyedPool { shards, set: Some(set) });
        self.stage = Stage::Surveying(Survey::new(pools.collect(), self.join_threads, largest, self.mover));
    }

    /// Begins to survey all pools over the heaps in which a new block would serve the request. Returns false where there is
    /// none, or that was done.
    fn survey_heaps<D: Device>(&mut self, allocator: &Allocator<D>, refused: NoRoom, largest: u64) -> bool {
        if matches!(self.taking_part, TakingPart::Heaps(..)) || self.heaps_did_not_help {
            return false;
        }
        let mut missing = self.missing_in_heaps(allocator);
        // Where empty blocks are enough, nothing has to move.
        if missing.iter().any(|missing| missing.bytes == 0) {
            if let Ok(token) = allocator.allocate_for_request(&self.request()) {
                self.finish(Ok(token));
                return true;
            }
        }
        missing.retain(|missing| missing.bytes != 0);
        if missing.is_empty() {
            return false;
        }
        let pools = self.pools_over(allocator, &missing, self.scope);
        self.taking_part = TakingPart::Heaps(missing, refused);
        self.stage = Stage::Surveying(Survey::new(pools, self.join_threads, largest, self.mover));
        true
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
                let (mover, ignored) = (self.mover, &self.ignored);
                // A run that makes room moves what is its mover's own, and waits for no owner to accept an offer.
                let moved_by = |seen: &SurveyedAllocation| {
                    let own = mover.moves(seen.mover) == MovedBy::Own
                        && !ignored.contains(&seen.id(allocator.id()));
                    own.then_some(MovedBy::Own)
                };
                if survey.step(allocator, moved_by, time) {
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
                    if !self.survey_heaps(allocator, reason, limits.bytes) {
                        self.finish(Err(match self.taking_part {
                            TakingPart::OwnPools => reason,
                            TakingPart::Heaps(_, of_own_pools) => least(of_own_pools, reason),
                        }));
                    }
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
                        // The next plan does without: it may find another way, or copy more.
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
        let (aside, mover, bytes) = (self.aside, self.mover, (self.copied, self.allowed));
        if let TakingPart::Heaps(missing, _) = &self.taking_part {
            let heaps: Vec<_> = survey
                .arenas
                .iter()
                .map(|arena| allocator.heap_of_arena(arena.members.first()?.arena))
                .collect();
            let of = |missing: &MissingInHeap| {
                let of_heap = (0..heaps.len()).filter(|&at| heaps[at] == Some(missing.heap));
                (missing.bytes, of_heap.collect::<Vec<_>>())
            };
            let missing: Vec<_> = missing.iter().map(of).collect();
            self.stage = Stage::Planning(Paced::new(|mut pace| async move {
                let mut survey = survey;
                let planned = planned_in_heaps(&survey, missing, mover, bytes, &mut pace).await;
                while survey.drop_piece() {
                    pace.step().await;
                }
                planned
            }));
            return;
        }
        // By pool, the best first: what the plan needs of them, since it has no lock and outlives this call.
        let mut wanted = Vec::new();
        let mut empty_bytes = EmptyBytes::default();
        for &(shards, set) in &self.pools {
            let mut of = |arena: &SurveyedArena| {
                let Arena { pool, set: of } = arena.members.first()?.arena;
                if of != set || !shards.contain(pool) {
                    return None;
                }
                let (mut wanted, heap) = self.wanted(allocator, pool, set)?;
                // An execution that only frees them asks for something all the same.
                wanted.missing =
                    wanted.missing.map(|missing| empty_bytes.but(allocator, heap, missing).max(1));
                Some(wanted)
            };
            let arenas = (0..).zip(&survey.arenas);
            wanted.push(arenas.filter_map(|(at, arena)| Some((at, of(arena)?))).collect::<Vec<_>>());
        }
        self.stage = Stage::Planning(Paced::new(|mut pace| async move {
            let mut survey = survey;
            let planned = planned(&survey, wanted, (aside, mover), bytes, &mut pace).await;
            while survey.drop_piece() {
                pace.step().await;
            }
            planned
        }));
    }

    /// Returns the range of a block that the request needs in a pool, and its heap; `None` where it cannot share a block there.
    fn wanted<D: Device>(
        &self,
        allocator: &Allocator<D>,
        pool: u32,
        set: u8,
    ) -> Option<(Wanted, MemoryHeapIndex)> {
        let Needed { bytes, alignment, missing, heap } =
            allocator.pools.needed_in(pool, set.into(), &self.wanted.request())?;
        Some((Wanted { bytes, alignment, missing }, heap))
    }

    /// Places the request in the room that was made.
    fn place<D: Device>(&mut self, allocator: &Allocator<D>) -> bool {
        let Stage::Moving(execution) = &mut self.stage else { return false };
        let Arena { pool, set } = execution.arena();
        let at = execution.room(allocator);
        let request = self.wanted.request();
        let Some(placed) = allocator.pools.place_in_room((pool, set.into()), at, &request) else {
            // The old places of the last moves may still be in use.
            self.waits = execution.waits_for_places(allocator);
            return if self.waits { false } else { self.change() };
        };
        let token = allocator.accept(pool, placed);
        // A driver call, so after the lock of the pool. The range is the request's by then, and is freed where the call fails.
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

    /// Ends the execution, whose blocks are empty: the request is tried again, and they are freed for a new one.
    fn replace<D: Device>(&mut self, allocator: &Allocator<D>) -> bool {
        let Stage::Moving(execution) = &mut self.stage else { return false };
        // The old places of the last moves may still be in use.
        self.waits = execution.waits_for_places(allocator);
        if self.waits {
            return false;
        }
        // If the request is refused in spite of the emptied blocks, the sum was not what it lacked, and other blocks of the
        // heap would be emptied for nothing as well.
        self.heaps_did_not_help |= matches!(self.taking_part, TakingPart::Heaps(..));
        self.change()
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
        // Whatever ended the execution may have made room: another thread's free, or the blocks that this run emptied.
        match allocator.allocate_for_request(&self.request()) {
            Ok(token) => self.finish(Ok(token)),
            Err(refused) => {
                // A refusal that no room would change (a lost device, a wrong pool) ends the run, however few plans there were.
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
            MoveEnd::Moved => self.copied += ended.copied,
            // More room than planned. The steps that are left skip what is gone.
            MoveEnd::Freed { .. } => {}
            MoveEnd::Stays => {
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

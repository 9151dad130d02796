//! Plans of several problems in one limited time.
//!
//! ```text
//!   time     0 ─────── greedy ─────── all
//!   first    a b  c c c│             a search may not end: without shares the first one would take all
//!   then               │b b │c c c c │   a was optimal and needs none, so b and c share what is left
//! ```

use allotment_suballoc::plan::{Plan, Problem, Solver};

/// A search of more items would begin with the greedy solver once more, and hardly come to an end of anything else.
const MOST_SEARCHED: usize = 50_000;

/// How much memory plans may take, and how long they may take to make.
///
/// The unit of time is that of the caller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    /// The bytes of each plan; what does not fit is left out. `u64::MAX` is no limit.
    pub capacity: u64,
    /// When the first plans of all problems must be made. Sooner, if they are made by then.
    pub greedy: u64,
    /// When the search for better plans must end.
    pub all: u64,
}

/// Plans problems, one after the other. Each has a plan by the greedy solver before a search improves any; each has its share of
/// the time that is left, and the smaller problems come first, which seldom need all of it. Of more than 50,000 items the plan is
/// that of the greedy solver.
///
/// `clock` returns a time since the call. One that counts its own calls makes the plans the same at each call, on all machines:
/// there are some thousand calls in a second.
///
/// ```
/// use allotment_analyze::{PlanLimits, plan_all};
/// use allotment_suballoc::plan::{Item, Problem};
/// use std::time::Instant;
///
/// let targets = Problem::from_intervals([(Item::new(8), 0..3), (Item::new(4), 2..5), (Item::new(8), 3..6)])?;
/// let tensors = Problem::from_intervals([(Item::new(64), 0..1), (Item::new(32), 1..2)])?;
/// let start = Instant::now();
/// let limits = PlanLimits { capacity: u64::MAX, greedy: 1_000, all: 5_000 };
/// let plans = plan_all(&[&targets, &tensors], &limits, || start.elapsed().as_millis() as u64);
/// assert_eq!((plans[0].peak(), plans[1].peak()), (12, 64));
/// # Ok::<(), allotment_suballoc::plan::ProblemError>(())
/// ```
#[must_use]
pub fn plan_all(problems: &[&Problem], limits: &PlanLimits, mut clock: impl FnMut() -> u64) -> Vec<Plan> {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|&at| problems[at].len());
    let mut solver = Solver::new();
    let mut plans = vec![Plan::new(); problems.len()];
    in_shares(&order, limits.greedy, &mut clock, |at, stop| {
        solver.greedy_until(problems[at], limits.capacity, stop, &mut plans[at]);
    });
    order.retain(|&at| !plans[at].is_optimal() && problems[at].len() <= MOST_SEARCHED);
    let mut found = Plan::new();
    in_shares(&order, limits.all, &mut clock, |at, stop| {
        solver.search(problems[at], limits.capacity, stop, &mut found);
        // A search that is stopped early has tried fewer orders.
        if cost(problems[at], &found) <= cost(problems[at], &plans[at]) {
            core::mem::swap(&mut plans[at], &mut found);
        }
    });
    plans
}

/// Says what is proved of a plan.
#[must_use]
pub fn proved(plan: &Plan) -> String {
    if plan.is_optimal() {
        return "optimal".to_owned();
    }
    match plan.not_placed().count() {
        0 => format!("within {:.1} % of the least that is possible", (plan.ratio() - 1.0) * 100.0),
        _ => "not all have a place".to_owned(),
    }
}

/// Does something for each problem, which is to stop when its share of the time until `end` is over.
fn in_shares(
    order: &[usize],
    end: u64,
    clock: &mut dyn FnMut() -> u64,
    mut work: impl FnMut(usize, &mut dyn FnMut() -> bool),
) {
    for (done, &at) in order.iter().enumerate() {
        let now = clock();
        let until = now.saturating_add(end.saturating_sub(now) / (order.len() - done) as u64);
        work(at, &mut || clock() >= until);
    }
}

/// What a plan leaves out, then what it takes.
fn cost(problem: &Problem, plan: &Plan) -> (u64, u64) {
    (plan.not_placed().map(|item| problem.item(item).size).sum(), plan.peak())
}

#[cfg(test)]
mod tests {
    use allotment_suballoc::plan::Item;

    use super::*;

    /// Items that no greedy order places optimally, and a search takes long for: a rectangle cut into pieces.
    fn hard(seed: u64, count: usize) -> Problem {
        let mut pieces = vec![(0_u64, 1_u64 << 16, 1_u64 << 16)];
        let mut number = seed;
        while pieces.len() < count {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = number >> 33;
            let at = (drawn % pieces.len() as u64) as usize;
            let (start, end, size) = pieces[at];
            if drawn % 2 == 0 && end - start > 1 {
                let middle = start + 1 + drawn / 100 % (end - start - 1);
                pieces[at] = (start, middle, size);
                pieces.push((middle, end, size));
            } else if size > 1 {
                let part = 1 + drawn / 100 % (size - 1);
                pieces[at] = (start, end, part);
                pieces.push((start, end, size - part));
            }
        }
        let items = pieces.into_iter().map(|(start, end, size)| (Item::new(size), start..end));
        Problem::from_intervals(items).expect("the pieces are small")
    }

    /// Counts its calls, as if each came a unit of time later.
    fn counter() -> impl FnMut() -> u64 {
        let mut calls = 0;
        move || {
            calls += 1;
            calls
        }
    }

    #[test]
    fn every_problem_has_its_share_of_the_time() {
        // The first and the third never end by themselves, and the second needs no time.
        let mut used = [0; 3];
        in_shares(&[0, 1, 2], 90, &mut counter(), |at, stop| {
            while at != 1 && !stop() {
                used[at] += 1;
            }
        });
        assert!((25..=30).contains(&used[0]), "a third: {used:?}");
        assert!((50..=60).contains(&used[2]), "all that is left: {used:?}");
        // Whoever comes when the time is over is asked to stop at once.
        in_shares(&[0, 1], 0, &mut counter(), |_, stop| assert!(stop()));
    }

    #[test]
    fn a_search_improves_every_plan() {
        let problems = [hard(1, 200), hard(2, 150), hard(3, 250)];
        let limits = PlanLimits { capacity: u64::MAX, greedy: 100, all: 0 };
        let greedy = plan_all(&problems.each_ref(), &limits, counter());
        let limits = PlanLimits { all: 60_000, ..limits };
        let plans = plan_all(&problems.each_ref(), &limits, counter());
        for (at, problem) in problems.iter().enumerate() {
            plans[at].check(problem).unwrap();
            assert!(!greedy[at].is_optimal(), "otherwise nothing is searched");
            assert!(plans[at].peak() < greedy[at].peak(), "problem {at}: {}", plans[at].ratio());
        }
    }

    #[test]
    fn what_is_too_large_to_search_has_the_greedy_plan() {
        // The greedy orders are not optimal, since alignments differ, and they end by themselves.
        let items = (0..MOST_SEARCHED as u64 + 1).map(|at| {
            let alignment = allotment_suballoc::Alignment::new(1 << (at % 3)).unwrap_or_default();
            (Item::new(1 + at % 2).aligned(alignment), at / 4..at / 4 + 2)
        });
        let problem = Problem::from_intervals(items).unwrap();
        let mut calls = 0;
        let limits = PlanLimits { capacity: u64::MAX, greedy: u64::MAX, all: u64::MAX };
        let plan = &plan_all(&[&problem], &limits, || {
            calls += 1;
            calls
        })[0];
        let mut greedy = Plan::new();
        let mut greedy_calls = 0;
        let stop = || {
            greedy_calls += 1;
            false
        };
        Solver::new().greedy_until(&problem, u64::MAX, stop, &mut greedy);
        assert!(plan.offsets().eq(greedy.offsets()) && !plan.is_optimal());
        assert_eq!(calls, greedy_calls + 1, "and no search");
    }

    #[test]
    fn a_clock_that_counts_makes_the_same_plans() {
        let problems = [hard(4, 300), hard(5, 300)];
        let limits = PlanLimits { capacity: u64::MAX, greedy: 100, all: 2_000 };
        let [first, second] = [(); 2].map(|()| plan_all(&problems.each_ref(), &limits, counter()));
        for (a, b) in first.iter().zip(&second) {
            assert!(a.offsets().eq(b.offsets()));
            assert_eq!(a.lower_bound(), b.lower_bound());
        }
    }

    #[test]
    fn without_time_all_is_placed_and_no_worse_than_by_the_greedy_solver() {
        let problems = [hard(6, 200), Problem::default(), hard(7, 200)];
        let limits = PlanLimits { capacity: u64::MAX, greedy: 0, all: 0 };
        for (plan, problem) in plan_all(&problems.each_ref(), &limits, counter()).iter().zip(&problems) {
            plan.check(problem).unwrap();
            let mut greedy = Plan::new();
            Solver::new().greedy(problem, u64::MAX, &mut greedy);
            assert_eq!(plan.not_placed().count(), 0);
            assert!(plan.peak() <= greedy.peak(), "so few items need no question whether to stop");
        }
    }

    #[test]
    fn a_capacity_is_exceeded_by_none() {
        let problems = [hard(8, 300), hard(9, 300)];
        let limits = PlanLimits { capacity: 1 << 15, greedy: 100, all: 500 };
        for (plan, problem) in plan_all(&problems.each_ref(), &limits, counter()).iter().zip(&problems) {
            plan.check(problem).unwrap();
            assert!(plan.peak() <= 1 << 15 && plan.not_placed().count() > 0);
        }
    }
}

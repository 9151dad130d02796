//! Placement of items whose lifetimes are known in advance, so that those that are never live together share memory.
//!
//! A [`Problem`] has items, each with a size, an alignment and a lifetime; a [`Solver`] finds offsets; a [`Plan`] has them, the
//! peak, and a bound below which no plan can stay. Render targets of a frame graph and the tensors of a network are such items.
//!
//! ```
//! use allotment_suballoc::plan::{Item, Plan, Problem, Solver};
//!
//! // Size, first pass, end of the last pass.
//! let targets = [(8, 0..3), (4, 1..2), (4, 2..5), (8, 3..6), (4, 4..6)];
//! let problem = Problem::from_intervals(targets.map(|(size, passes)| (Item::new(size << 20), passes)))?;
//! let (mut solver, mut plan) = (Solver::new(), Plan::new());
//! solver.greedy(&problem, u64::MAX, &mut plan);
//! plan.check(&problem)?;
//! assert!(plan.is_optimal());
//! assert_eq!((plan.peak() >> 20, problem.total_size() >> 20), (16, 28));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Which solver should I use?
//!
//! | | [`Solver::greedy`] | [`Solver::search`] |
//! |---|---|---|
//! | use it for | every frame; any number of items | frame graphs when they change; traces and networks, once |
//! | time | for each of one to six orders: 0.05 ms for 100 items, 1 ms for 1,000, 0.3 s for 10^5 | until optimal, or until the caller stops it |
//! | result | one plan | the best plan so far, and the best proof |
//! | lowest possible peak | 94 % of frame graphs | 99 % of them within 2 ms |
//! | hard instances[^hard] | 1.09 to 1.25 times the bound | 1.00 to 1.15 within 5 ms, 1.00 to 1.06 within a second |
//! | limit | some plan within it, or items left out | a plan of all items within it, where there is time to find one |
//!
//! [`Solver::greedy_until`] is the greedy solver with a limit of its time, for input of any kind: each order of a million items, of
//! which half are live all the time, takes it minutes.
//!
//! # What is proved
//!
//! Items of which each two conflict lie above each other. So no peak is below the largest sum of the sizes of such a set,
//! [`Problem::lower_bound`]: the most that is live at once, or more, where items have several ranges. Nearly all frame graphs have a
//! plan that is no higher. If the search has tried everything within a capacity, the bound rises: [`Plan::lower_bound`]. A plan whose
//! peak is the bound [is optimal](Plan::is_optimal), and another one says [how far it can be from that](Plan::ratio).
//!
//! # Where it comes from
//!
//! The problem is known as dynamic storage allocation with known lifetimes, and is NP-hard (Garey and Johnson, SR2). If all items
//! are small compared with the bound, plans near it exist (Buchsbaum, Karloff, Kenyon, Reingold and Thorup, 2004). Compilers of
//! neural networks place by size, largest first, each at the lowest or tightest gap: `TFLite`, XLA; so does AMD's Render Pipeline
//! Shaders. On the hard instances that takes 1.35 times the bound on average, and placing in the order of first use, as engines do,
//! 1.57 times. `MiniMalloc` (Moffitt, ASPLOS 2023) enumerates placements from the lowest offset upwards, and proves what it prunes;
//! sections and the pruning by their sums are from there. The search here does not go upwards everywhere at once: it chooses the
//! section that leaves the least choice.
//!
//! [^hard]: Six of the "challenging" ones that Google's `MiniMalloc` is measured with; it takes seconds for each.

mod cliques;
mod error;
mod floors;
mod greedy;
mod item;
mod problem;
mod queues;
mod result;
mod search;
mod solver;
mod work;

pub use error::{PlanError, ProblemError};
pub use item::Item;
pub use problem::Problem;
pub use result::Plan;
pub use solver::Solver;

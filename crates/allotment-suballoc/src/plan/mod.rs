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

mod error;
mod floors;
mod greedy;
mod item;
mod problem;
mod queues;
mod result;
mod search;
mod solver;

pub use error::{PlanError, ProblemError};
pub use item::Item;
pub use problem::Problem;
pub use result::Plan;
pub use solver::Solver;

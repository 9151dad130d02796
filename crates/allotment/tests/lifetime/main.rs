//! Lifetimes: the rule as the article draws it, edge cases, an oracle that knows every use, many threads, and the
//! bytes that a device copies.
//!
//! With `--cfg allotment_rule_off`, and `recordings` or `completion` in the environment as `ALLOTMENT_RULE_OFF`, the
//! library breaks one half of its rule, and `oracle`, `threads` and `bytes` fail: `.ci/rules-off`.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

#[path = "../common/amount.rs"]
mod amount;
mod bytes;
#[path = "../common/counting.rs"]
mod counting;
mod destructors;
mod device_lost;
mod diagrams;
mod numbers;
mod oracle;
mod order;
mod recordings;
mod reuse;
mod rig;
mod shutdown;
mod steady;
mod threads;

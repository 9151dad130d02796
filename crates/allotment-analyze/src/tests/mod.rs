//! Tests of every analysis against naive versions, on generated recordings.

mod generated;
mod metrics;
mod over_time;
mod queries;
mod timeline;

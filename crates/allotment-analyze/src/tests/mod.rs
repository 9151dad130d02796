//! Tests of every analysis against naive versions, on generated recordings.

mod advice;
mod calls;
mod colour;
mod defragmentation;
mod generated;
mod growth;
mod metrics;
mod offline;
mod over_time;
mod queries;
mod shared_memory;
mod timeline;
mod what_if;

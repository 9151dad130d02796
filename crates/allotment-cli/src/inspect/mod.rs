//! The commands that inspect recordings: one file a command.
//!
//! ```text
//!   args     their arguments
//!   load     a recording file, a file of another tool, or a CSV trace that is replayed into a recording
//!   when     moments, as the command line names them
//!   descriptor_heaps  how full descriptor heaps are
//!   groups   groups of allocations, as a table and as JSON
//!   table    tables of text
//!   unread   what of a file was not read
//!   columns  the width of a line, and texts that are made to fit it
//!   json     what several of the JSON outputs have
//!   lanes    allocations that resources share, a line for each resource
//!   stats, map, leaks, calls, lifetimes, diff, export, check, report, advise, what_if, alias   the commands
//! ```

pub(crate) mod advise;
pub(crate) mod alias;
pub(crate) mod args;
pub(crate) mod calls;
pub(crate) mod check;
mod columns;
mod descriptor_heaps;
pub(crate) mod diff;
pub(crate) mod export;
mod groups;
mod json;
mod lanes;
pub(crate) mod leaks;
pub(crate) mod lifetimes;
mod load;
pub(crate) mod map;
pub(crate) mod report;
pub(crate) mod stats;
mod table;
mod unread;
pub(crate) mod what_if;
mod when;

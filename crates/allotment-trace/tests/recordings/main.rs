//! Recordings in files: what is written is read, whatever happens to the file on the way.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod damage;
mod events;
mod files;
mod golden;
mod kinds;
mod shared_memory;
mod snapshots;

//! Live attach: a running program serves its events, and viewers come and go.
//!
//! ```text
//!   threads of the program ──events──▶ log ──batches──▶ the server's thread ──┬─ queue ─▶ viewer
//!                                                       one state,            ├─ queue ─▶ viewer
//!                                                       one encoding          └─ queue ✗  viewer that is too slow:
//!                                                                                         the whole state again, later
//! ```
//!
//! A program serves with one line, [`LiveServer::bind`], and prints the [address](LiveServer::address). A viewer is a
//! [`LiveRecording`], which keeps everything, or a [`LiveReader`], which passes it on.
//!
//! | what happens | what a viewer sees |
//! |---|---|
//! | it comes late | the whole state first |
//! | it is too slow, or reads nothing for a while | [`LiveUpdate::Restarted`]: how many events were dropped, and the whole state |
//! | the program ends | [`LiveUpdate::Ended`] |
//! | the program is killed, or the network fails | [`LiveError::Disconnected`] |
//! | it is there before the program | [`LiveError::Connect`]: it tries again, at an [address that both know](LiveAddress::with_new_token) |
//! | another viewer comes, goes, or is slow | nothing |
//!
//! The program's threads never wait for a viewer, nor does the server's thread: its sockets take what they can, and what
//! they cannot waits in a queue of bounded size. (A thread for each viewer, which would wait for its socket, could not be
//! ended on all systems without a time-out after which a connection is in no known state.)
//!
//! The protocol is a handshake with a version, and then the chunks of a recording; `docs/recording-format.md` describes
//! each byte.
//!
//! # Who can see what
//!
//! By default the server listens on the loopback interface alone, and a viewer must show the token of the address, 128
//! random bits. Other users of the machine who do not have it are refused. What is sent is not encrypted.
//!
//! A program has one reader of its events at a time: a server beside a [`Recorder`](crate::Recorder) is an error. A viewer
//! can [save](LiveRecording::save) what it has seen.

mod address;
mod connection;
mod error;
mod follow;
mod handshake;
mod hub;
#[cfg(any(test, fuzzing))]
pub mod in_memory;
mod queue;
mod reader;
mod server;

pub use address::LiveAddress;
pub use error::LiveError;
pub use follow::{LiveForgotten, LiveProgress, LiveRecording};
pub use handshake::PROTOCOL_VERSION;
pub use reader::{LiveReader, LiveUpdate};
pub use server::{LIVE_ENVIRONMENT_VARIABLE, LiveDesc, LiveReach, LiveServer, LiveStatistics};

#[cfg(test)]
mod tests;

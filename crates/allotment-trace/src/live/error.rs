//! Errors of serving and of viewing.

use core::error::Error;
use core::fmt;
use core::net::SocketAddr;
use std::io;

use allotment::events::AlreadySubscribed;

use crate::recording::{Damage, DamageKind, ReadError};

/// The error of serving a program's events, or of viewing them.
#[derive(Debug)]
#[non_exhaustive]
pub enum LiveError {
    /// The text is no address of a server. One is `allotment://127.0.0.1:40123/` and 32 hexadecimal digits.
    Address {
        /// The text.
        address: String,
    },
    /// Other machines could reach the address, and the [options](super::LiveDesc) do not allow it.
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The server cannot listen there, for example because another program does.
    Bind {
        /// Where.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// Another subscription reads the events, for example a recorder. Finish that one first.
    AlreadySubscribed(AlreadySubscribed),
    /// The operating system has no random bytes for the token.
    Random(io::Error),
    /// The system cannot start a thread.
    Thread(io::Error),
    /// The server cannot be reached: the program has ended, or the address is another's.
    Connect {
        /// Where.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// What answers is no server of events; or it is one whose program ended before it answered.
    NotAServer,
    /// The server speaks another version of the protocol. Update the older of the two programs.
    Version {
        /// The version of the server.
        found: u32,
    },
    /// The token is not the server's: it draws another one each time it starts, unless it is given one.
    WrongToken,
    /// The server has as many viewers as its [options](super::LiveDesc) allow.
    TooManyViewers,
    /// The server has too many connections that have not shown the token, and gave the place of this one to another before
    /// it could. Try again.
    TooManyConnections,
    /// The server refused, for a reason of a later version.
    Refused {
        /// The number of the reason.
        reason: u8,
    },
    /// The connection ended without an end of the recording: the program was killed, or the network failed. Connect again.
    Disconnected,
    /// The connection failed, or the server did not answer in time.
    Io(io::Error),
    /// What the server sends is no recording that this version reads.
    Recording(ReadError),
    /// What the server sends is damaged. Nothing after it can be read.
    Damaged(Damage),
    /// The recording is as large as the [options](crate::recording::ReadOptions) allow. What came before stays.
    TooMuch {
        /// The name of the values that are too many.
        of: &'static str,
        /// How much is allowed.
        limit: u64,
    },
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address } => write!(
                f,
                "{address:?} is no address of a running program, which has the form allotment://HOST:PORT/TOKEN"
            ),
            Self::NotLoopback { address } => {
                write!(
                    f,
                    "other machines could reach {address}, which the options of the server do not allow"
                )
            }
            Self::Bind { address, error } => write!(f, "the server cannot listen at {address}: {error}"),
            Self::AlreadySubscribed(error) => error.fmt(f),
            Self::Random(error) => write!(f, "the system has no random bytes for a token: {error}"),
            Self::Thread(error) => write!(f, "the server's thread cannot be started: {error}"),
            Self::Connect { address, error } => write!(f, "{address} cannot be reached: {error}"),
            Self::NotAServer => f.write_str("what answers there is no program that serves its events, or the program has just ended"),
            Self::Version { found } => write!(
                f,
                "the program serves version {found} of the protocol, and this one reads version {}: update the older",
                super::PROTOCOL_VERSION
            ),
            Self::WrongToken => {
                f.write_str("the token is not the running program's, which draws a new one at each start unless it is given one")
            }
            Self::TooManyViewers => f.write_str("the program has as many viewers as it allows"),
            Self::TooManyConnections => {
                f.write_str("the program has too many connections that do not show its token: try again")
            }
            Self::Refused { reason } => write!(f, "the program refused the viewer, for reason {reason}"),
            Self::Disconnected => f.write_str("the connection ended before the recording"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::Recording(error) => error.fmt(f),
            Self::Damaged(damage) => damage.fmt(f),
            Self::TooMuch { of, limit } => {
                write!(f, "the recording has more than {limit} {of}, which is the limit")
            }
        }
    }
}

impl Error for LiveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Bind { error, .. }
            | Self::Connect { error, .. }
            | Self::Random(error)
            | Self::Thread(error)
            | Self::Io(error) => Some(error),
            Self::AlreadySubscribed(error) => Some(error),
            Self::Recording(error) => Some(error),
            Self::Damaged(damage) => Some(damage),
            _ => None,
        }
    }
}

impl From<AlreadySubscribed> for LiveError {
    fn from(error: AlreadySubscribed) -> Self {
        Self::AlreadySubscribed(error)
    }
}

impl From<io::Error> for LiveError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // A program that is killed resets its connections.
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Self::Disconnected,
            _ => Self::Io(error),
        }
    }
}

impl From<ReadError> for LiveError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error.into(),
            ReadError::Header(Damage { what: DamageKind::TooMuch { of, limit }, .. }) => {
                Self::TooMuch { of, limit }
            }
            ReadError::Header(damage) => Self::Damaged(damage),
            error => Self::Recording(error),
        }
    }
}

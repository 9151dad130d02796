//! What a viewer and a server say to each other before the recording.
//!
//! ```text
//!   viewer:  magic (8) │ version (4) │ token (16)
//!   server:  magic (8) │ version (4) │ answer (1) │ the recording …
//! ```
//!
//! Both lengths are fixed, so neither side allocates by what the other says.

use std::io::{self, ErrorKind, Read, Write};

use super::address::Token;
use super::error::LiveError;

const MAGIC: [u8; 8] = *b"\x89ALTLIVE";

/// The version of the protocol: of the handshake, and of what follows it. The chunks have their own.
pub const PROTOCOL_VERSION: u32 = 1;

/// The magic number and the version.
const VERSIONED: usize = MAGIC.len() + size_of::<u32>();

/// What a viewer says.
const REQUEST: usize = VERSIONED + Token::BYTES;

/// What a server says.
pub(super) type Answer = [u8; VERSIONED + 1];

const ACCEPTED: u8 = 0;

/// Why a server does not serve a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    WrongToken = 1,
    Version = 2,
    TooManyViewers = 3,
    /// The viewer has not shown the token yet, and others that have not either want its place.
    TooManyConnections = 4,
}

/// Returns what a server says.
pub(super) fn answer(refusal: Option<Refusal>) -> Answer {
    let mut bytes = [0; VERSIONED + 1];
    bytes[..VERSIONED].copy_from_slice(&versioned());
    bytes[VERSIONED] = refusal.map_or(ACCEPTED, |refusal| refusal as u8);
    bytes
}

fn versioned() -> [u8; VERSIONED] {
    let mut bytes = [0; VERSIONED];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    bytes
}

/// What a viewer has said until now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    bytes: [u8; REQUEST],
    length: usize,
}

/// What a server makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More of it comes.
    Unfinished,
    Accepted,
    Refused(Refusal),
    /// The peer speaks another protocol, and would not understand an answer; or it is gone.
    NotAViewer,
}

impl Request {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; REQUEST], length: 0 }
    }

    /// Reads what has come, and no more than belongs to the request.
    pub(super) fn read(&mut self, from: &mut impl Read, token: Token) -> Verdict {
        loop {
            let verdict = self.verdict(token);
            if verdict != Verdict::Unfinished {
                return verdict;
            }
            match from.read(&mut self.bytes[self.length..]) {
                Ok(0) => return Verdict::NotAViewer,
                Ok(count) => self.length += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Verdict::Unfinished,
                Err(_) => return Verdict::NotAViewer,
            }
        }
    }

    fn verdict(&self, token: Token) -> Verdict {
        let said = &self.bytes[..self.length];
        let magic = &said[..said.len().min(MAGIC.len())];
        if !MAGIC.starts_with(magic) {
            return Verdict::NotAViewer;
        }
        // Another version may have a token of another length.
        let Some((before, shown)) = said.split_at_checked(VERSIONED) else { return Verdict::Unfinished };
        if before != versioned() {
            return Verdict::Refused(Refusal::Version);
        }
        match <[u8; Token::BYTES]>::try_from(shown) {
            Ok(shown) if Token(shown) == token => Verdict::Accepted,
            Ok(_) => Verdict::Refused(Refusal::WrongToken),
            Err(_) => Verdict::Unfinished,
        }
    }
}

/// Returns what a viewer says.
pub(super) fn request(token: Token) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..VERSIONED].copy_from_slice(&versioned());
    bytes[VERSIONED..].copy_from_slice(&token.0);
    bytes
}

/// The viewer's half. Waits for the answer as long as the stream does.
pub(super) fn shake_hands(stream: &mut (impl Read + Write), token: Token) -> Result<(), LiveError> {
    stream.write_all(&request(token))?;
    stream.flush()?;

    let mut answer = Answer::default();
    stream.read_exact(&mut answer).map_err(|error| match error.kind() {
        // A server of another protocol hangs up.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => LiveError::NotAServer,
        ErrorKind::WouldBlock => LiveError::Io(io::Error::from(ErrorKind::TimedOut)),
        _ => error.into(),
    })?;
    let (magic, rest) = answer.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(LiveError::NotAServer);
    }
    let [a, b, c, d, reason] = [rest[0], rest[1], rest[2], rest[3], rest[4]];
    let found = u32::from_le_bytes([a, b, c, d]);
    if found != PROTOCOL_VERSION {
        return Err(LiveError::Version { found });
    }
    const WRONG_TOKEN: u8 = Refusal::WrongToken as u8;
    const TOO_MANY: u8 = Refusal::TooManyViewers as u8;
    const NO_PLACE: u8 = Refusal::TooManyConnections as u8;
    match reason {
        ACCEPTED => Ok(()),
        WRONG_TOKEN => Err(LiveError::WrongToken),
        TOO_MANY => Err(LiveError::TooManyViewers),
        NO_PLACE => Err(LiveError::TooManyConnections),
        reason => Err(LiveError::Refused { reason }),
    }
}

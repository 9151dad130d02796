//! The viewer's half of a connection.

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

use super::address::LiveAddress;
use super::error::LiveError;
use super::handshake::shake_hands;
use crate::file::{StreamItem, StreamReader};
use crate::recording::{Event, Header, ReadOptions, Stacks, State, TextId};

/// How long a server has time to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long one read waits; then it is repeated.
const LONGEST_READ: Duration = Duration::from_secs(3600);

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// What a running program has told a viewer. The texts in it are numbers of [`LiveReader::text`].
#[derive(Debug)]
#[non_exhaustive]
pub enum LiveUpdate {
    /// The whole state: what a viewer gets first, and again when it was too slow.
    Restarted {
        /// The state now, which takes the place of what the viewer knows.
        state: Box<State>,
        /// How many events the viewer did not get; 0 the first time.
        dropped: u64,
    },
    /// What has happened since the last update.
    Events(Vec<Event>),
    /// The program serves no longer: it has ended, its allocator is gone, or its server was dropped.
    Ended,
}

/// Views a running program: the whole state first, then the events, as they happen.
///
/// A [`LiveRecording`](super::LiveRecording) keeps them all. This one keeps texts alone, for a viewer that keeps a
/// [`State`] or counts something:
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::{Gpu, GpuDesc};
/// # let gpu = Gpu::new(SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap()), GpuDesc::default())?;
/// # let server = allotment_trace::live::LiveServer::bind(&gpu, "127.0.0.1:0")?;
/// # let address = server.address().to_string();
/// use allotment_trace::live::{LiveReader, LiveUpdate};
/// use allotment_trace::recording::State;
///
/// let mut viewer = LiveReader::connect(&address.parse()?)?;
/// # drop(server);
/// let mut state = State::default();
/// loop {
///     match viewer.poll(std::time::Duration::from_millis(100))? {
///         Some(LiveUpdate::Restarted { state: whole, .. }) => state = *whole,
///         Some(LiveUpdate::Events(events)) => {
///             for event in &events {
///                 state.apply(event)?;
///             }
///         }
///         Some(_) => break,
///         None => println!("nothing has happened"),
///     }
/// }
/// println!("{} allocations at the end", state.allocations.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Hostile servers
///
/// Nothing that a server sends makes a reader panic, and it takes no more memory than the [`ReadOptions`] say, with 16 MiB
/// for the chunk that comes and 150 MiB for the events of one on top. Texts take twice what the options count.
#[derive(Debug)]
pub struct LiveReader<S = TcpStream> {
    stream: S,
    reader: StreamReader,
    header: Header,
    piece: Vec<u8>,
    ended: bool,
}

impl LiveReader {
    /// Connects to a running program. Waits up to five seconds for its answer.
    ///
    /// # Errors
    ///
    /// [`LiveError`], if the program cannot be reached, or refuses.
    pub fn connect(address: &LiveAddress) -> Result<Self, LiveError> {
        Self::connect_with(address, &ReadOptions::default())
    }

    /// Connects to a running program, with other limits on what it may send than the default ones.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    pub fn connect_with(address: &LiveAddress, options: &ReadOptions) -> Result<Self, LiveError> {
        let failed = |error| LiveError::Connect { address: address.host().to_owned(), error };
        let mut last = ErrorKind::NotFound.into();
        for socket in address.host().to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&socket, TIMEOUT) {
                // Where no program listens at a port that the system also gives to connections, a viewer that waits for one
                // is connected to itself now and then, and would keep the port from the program.
                Ok(stream) if stream.local_addr()? == socket => last = ErrorKind::ConnectionRefused.into(),
                Ok(stream) => {
                    stream.set_write_timeout(Some(TIMEOUT))?;
                    let stream = WithTimeout { stream, began: Instant::now(), timeout: TIMEOUT };
                    let reader = LiveReader::over(stream, address, options)?;
                    let LiveReader { stream, reader, header, piece, ended } = reader;
                    return Ok(Self { stream: stream.stream, reader, header, piece, ended });
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Returns the next update. Waits up to `timeout` for it. `None` if nothing has come, and after the end.
    ///
    /// # Errors
    ///
    /// [`LiveError`], if the connection fails, or what comes is no recording. The reader has ended then.
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<LiveUpdate>, LiveError> {
        let began = Instant::now();
        loop {
            let left = timeout.saturating_sub(began.elapsed());
            // Zero would be forever, and not every system takes the largest.
            self.stream.set_read_timeout(Some(left.clamp(Duration::from_millis(1), LONGEST_READ)))?;
            let update = self.next_update()?;
            if update.is_some() || self.ended || left.is_zero() {
                return Ok(update);
            }
        }
    }
}

impl<S: Read + Write> LiveReader<S> {
    /// Connects over a stream that leads to the host of an address, for example a tunnel.
    ///
    /// # Errors
    ///
    /// [`LiveError`], if the program refuses, or the stream ends or fails.
    pub fn over(mut stream: S, address: &LiveAddress, options: &ReadOptions) -> Result<Self, LiveError> {
        shake_hands(&mut stream, address.token())?;
        let mut reader = StreamReader::new(options);
        let mut piece = vec![0; PIECE_BYTES];
        let header = loop {
            if let Some(StreamItem::Header(header)) = reader.next()? {
                break header;
            }
            let count = stream.read(&mut piece)?;
            if count == 0 {
                return Err(LiveError::Disconnected);
            }
            reader.feed(&piece[..count]);
        };
        Ok(Self { stream, reader, header, piece, ended: false })
    }

    /// Returns the next update, if it has come, or one read of the stream brings it. `None` if not, and after the end.
    ///
    /// # Errors
    ///
    /// [`LiveError`], if the stream fails, or what comes is no recording. The reader has ended then.
    pub fn next_update(&mut self) -> Result<Option<LiveUpdate>, LiveError> {
        let update = self.try_update();
        self.ended |= update.is_err();
        update
    }

    fn try_update(&mut self) -> Result<Option<LiveUpdate>, LiveError> {
        if self.ended {
            return Ok(None);
        }
        if let Some(update) = self.whole_update()? {
            return Ok(Some(update));
        }
        match self.stream.read(&mut self.piece) {
            Ok(0) => return Err(LiveError::Disconnected),
            Ok(count) => self.reader.feed(&self.piece[..count]),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        self.whole_update()
    }

    /// Returns the next update of what has been read.
    fn whole_update(&mut self) -> Result<Option<LiveUpdate>, LiveError> {
        Ok(match self.reader.next()? {
            Some(StreamItem::State { state, dropped }) => {
                Some(LiveUpdate::Restarted { state: Box::new(state), dropped })
            }
            Some(StreamItem::Events(events)) => Some(LiveUpdate::Events(events)),
            Some(StreamItem::End) => {
                self.ended = true;
                Some(LiveUpdate::Ended)
            }
            Some(StreamItem::Header(_)) | None => None,
        })
    }
}

impl<S> LiveReader<S> {
    /// Returns where the recording is made.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns a text of an update. A text keeps its number for good. `None` for [`TextId::NONE`].
    #[must_use]
    pub fn text(&self, text: TextId) -> Option<&str> {
        let index = (text.0 as usize).checked_sub(1)?;
        self.texts().get(index).map(String::as_str)
    }

    /// Returns all texts that have come: number `n` is `texts[n - 1]`.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        self.reader.texts()
    }

    /// Returns all call stacks that have come. A stack keeps its number for good.
    #[must_use]
    pub fn stacks(&self) -> &Stacks {
        self.reader.stacks()
    }

    /// Returns true after the end, and after an error.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the number of a text, which is added if it is new.
    pub(super) fn number(&mut self, text: &str) -> TextId {
        self.reader.text(text)
    }
}

/// A stream whose reads are over after a time, however few bytes each brings.
struct WithTimeout {
    stream: TcpStream,
    began: Instant,
    timeout: Duration,
}

impl Read for WithTimeout {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.timeout.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

impl Write for WithTimeout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

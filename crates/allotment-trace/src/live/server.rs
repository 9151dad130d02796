//! The server's thread and its handle.

use core::fmt;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;
use std::{env, thread};

use allotment::events::{EventSubscription, Marker, SubscriptionDesc};
use allotment::memory::names::Name;

use super::address::{LiveAddress, Token};
use super::error::LiveError;
use super::hub::{Counts, Hub, HubDesc};
use crate::recorder::{Intake, Observed};

/// The environment variable that [`LiveServer::from_env`] reads: where to serve, as `127.0.0.1:0`.
pub const LIVE_ENVIRONMENT_VARIABLE: &str = "ALLOTMENT_LIVE";

/// How long the thread waits for events while there is nothing else to do: at most so old is what viewers see, so long
/// takes a connection, and so long waits a drop of the server.
const LONGEST_PATIENCE: Duration = Duration::from_millis(20);

/// How long it waits while a viewer takes bytes.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(1);

/// How long the end of a program waits for a viewer that takes no bytes, and for one that goes on taking them.
const END_WITHOUT_PROGRESS: Duration = Duration::from_millis(100);
const END_AT_ALL: Duration = Duration::from_secs(1);

/// The most connections that are taken between two looks at the others.
const MOST_AT_ONCE: usize = 64;

/// To look which texts are needed takes as long as to encode the state: not for fewer than these.
const SPARE_TEXTS: u64 = 4096;

/// Who may reach a [`LiveServer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiveReach {
    /// Programs on this machine.
    #[default]
    Loopback,
    /// Other machines, too. What the server sends is not encrypted, and the token neither: only on a network whose
    /// machines are trusted. An SSH tunnel to a loopback address is safe anywhere.
    Network,
}

/// Options of a [`LiveServer`].
///
/// ```
/// use allotment_trace::live::{LiveDesc, LiveReach};
///
/// let desc = LiveDesc::default().with_address("0.0.0.0:4100").with_reach(LiveReach::Network);
/// assert_eq!(desc.queue_bytes, 4 << 20); // bytes
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveDesc {
    /// Where to listen: a host and a port, 0 for any free one; the server draws a token. Or a whole
    /// [`LiveAddress`], whose token is taken: a viewer that knows it can wait for the program, and for its next start.
    pub address: String,
    /// Who may reach it.
    pub reach: LiveReach,
    /// Bytes of events that may wait for each viewer. When there are more, they are dropped, and the viewer gets the whole
    /// state once it reads again.
    pub queue_bytes: usize,
    /// The most viewers at once. Others are refused.
    pub max_viewers: usize,
    /// How long a connection may take to show the token. `Duration::MAX` is without end.
    pub handshake_timeout: Duration,
}

impl Default for LiveDesc {
    /// Any free port of 127.0.0.1, for programs of this machine; 4 MiB, about a million events, for each of 8 viewers; five
    /// seconds.
    fn default() -> Self {
        Self {
            address: "127.0.0.1:0".to_owned(),
            reach: LiveReach::Loopback,
            queue_bytes: 4 << 20,
            max_viewers: 8,
            handshake_timeout: Duration::from_secs(5),
        }
    }
}

impl LiveDesc {
    /// Sets where to listen.
    #[must_use]
    pub fn with_address(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Sets who may reach it.
    #[must_use]
    pub const fn with_reach(mut self, reach: LiveReach) -> Self {
        self.reach = reach;
        self
    }

    /// Sets the bytes that may wait for each viewer.
    #[must_use]
    pub const fn with_queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// Sets the most viewers.
    #[must_use]
    pub const fn with_max_viewers(mut self, viewers: usize) -> Self {
        self.max_viewers = viewers;
        self
    }

    /// Sets how long a connection may take to show the token.
    #[must_use]
    pub const fn with_handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }
}

/// Counts of a [`LiveServer`] since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveStatistics {
    /// Viewers at the moment.
    pub viewers: usize,
    /// Viewers that were served, those at the moment too.
    pub accepted: u64,
    /// Connections that were not: without the token, of another version, or too many. One that has not shown the token
    /// yet makes place where there are 64 such and another comes.
    pub refused: u64,
    /// Events that some viewer did not get because it was too slow, counted for each viewer.
    pub dropped_events: u64,
    /// Whole states that were sent because of them.
    pub restarts: u64,
}

/// Serves the events of a running program to viewers, over TCP.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::device::BufferDesc;
/// # use allotment::{Gpu, GpuDesc, MemoryUsage};
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device, GpuDesc::default())?;
/// use allotment_trace::live::{LiveRecording, LiveServer};
///
/// let server = LiveServer::bind(&gpu, "127.0.0.1:0")?;
/// println!("{}", server.address()); // allotment://127.0.0.1:40123/ and a token
///
/// // In a viewer, which may come at any time.
/// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let mut viewer = LiveRecording::connect(server.address())?;
/// drop(server); // ends the recording, as the end of the program does
/// while !viewer.has_ended() {
///     viewer.poll(std::time::Duration::from_millis(100))?;
/// }
/// let names = viewer.state().allocations.values().map(|live| viewer.recording().text(live.is.name));
/// assert!(names.into_iter().any(|name| name == Some("mesh")));
/// # drop(mesh);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it sends what has happened until now, hangs up, and ends its thread: in 20 ms, and in a second at most where a
/// viewer is slow. Viewers see an end also when the allocator is gone.
///
/// # Cost
///
/// None without a server. With one, each event costs the program's threads what it costs them under a
/// [`Recorder`](crate::Recorder); the server's thread does all else, and never waits for a viewer. Host memory: about 300
/// bytes for each allocation that exists, and for each viewer [`queue_bytes`](LiveDesc::queue_bytes) and a whole state,
/// about 30 bytes an allocation, at most.
pub struct LiveServer {
    address: LiveAddress,
    local: SocketAddr,
    marker: Marker,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    counts: Arc<Counts>,
}

impl LiveServer {
    /// Serves at an address of this machine alone, for example `127.0.0.1:0`: 0 is any free port. A whole address with a
    /// token is taken as it is, so that a viewer can [wait](LiveAddress::with_new_token) for the program.
    ///
    /// # Errors
    ///
    /// [`LiveError`]: other machines could reach the address, another program listens there, or another reader has the
    /// events.
    pub fn bind(of: &impl Observed, address: &str) -> Result<Self, LiveError> {
        Self::bind_with(of, &LiveDesc::default().with_address(address))
    }

    /// Serves as the options say.
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind).
    pub fn bind_with(of: &impl Observed, desc: &LiveDesc) -> Result<Self, LiveError> {
        let (host, token) = LiveAddress::of_server(&desc.address)?;
        let listener = listen(&host, desc.reach)?;
        let local = listener.local_addr()?;
        let token = token.map_or_else(Token::random, Ok)?;
        let hub = HubDesc {
            token,
            queue_bytes: desc.queue_bytes,
            max_viewers: desc.max_viewers,
            handshake_timeout: desc.handshake_timeout,
            spare_texts: SPARE_TEXTS,
        };
        let events = of.subscribe(&SubscriptionDesc::default())?;
        let marker = events.marker();
        let shared = Arc::new(Shared::default());
        let hub = Hub::new(&of.header(), hub, shared.counts.clone());
        let worker = Worker { listener, hub, intake: Intake::default(), shared: shared.clone() };
        let thread = Builder::new().name("allotment-live".to_owned());
        let thread = thread.spawn(move || worker.run(events)).map_err(LiveError::Thread)?;
        Ok(Self { address: LiveAddress::new(local, token), local, marker, shared, thread: Some(thread) })
    }

    /// Serves where the environment variable `ALLOTMENT_LIVE` says, for example `127.0.0.1:0`, an address of this machine
    /// alone, or a whole address with a token, as `allotment-viewer` offers one. `None` where it is not set, or empty. The
    /// caller prints the [address](Self::address).
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind).
    pub fn from_env(of: &impl Observed) -> Result<Option<Self>, LiveError> {
        let address = env::var_os(LIVE_ENVIRONMENT_VARIABLE).filter(|address| !address.is_empty());
        address.map(|address| Self::bind(of, &address.to_string_lossy())).transpose()
    }

    /// Returns the address for viewers, with the token. For a listener at all addresses of the machine (`0.0.0.0`), other
    /// machines put its name in their place.
    #[must_use]
    pub const fn address(&self) -> &LiveAddress {
        &self.address
    }

    /// Returns where the server listens.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns how many viewers there are.
    #[must_use]
    pub fn viewers(&self) -> usize {
        self.statistics().viewers
    }

    /// Returns the counts since the server began.
    #[must_use]
    pub fn statistics(&self) -> LiveStatistics {
        self.shared.counts.statistics()
    }

    /// Marks this moment for viewers, with a text of up to 4 KiB: after all that has happened until now.
    pub fn mark(&self, text: impl Into<Name>) {
        self.marker.mark(text);
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; if it did, the program would go on.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LiveServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveServer")
            .field("address", &self.local)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

/// Listens where the options say, if others may reach it there.
fn listen(host: &str, reach: LiveReach) -> Result<TcpListener, LiveError> {
    let failed = |error| LiveError::Bind { address: host.to_owned(), error };
    let addresses: Vec<_> = host.to_socket_addrs().map_err(failed)?.collect();
    let reachable = addresses.iter().find(|address| !address.ip().is_loopback());
    if let (Some(&address), LiveReach::Loopback) = (reachable, reach) {
        return Err(LiveError::NotLoopback { address });
    }
    let listener = TcpListener::bind(&*addresses).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// The thread's own.
struct Worker {
    listener: TcpListener,
    hub: Hub<TcpStream>,
    intake: Intake,
    shared: Arc<Shared>,
}

impl Worker {
    fn run(mut self, mut events: EventSubscription) {
        let mut patience = SHORTEST_PATIENCE;
        loop {
            let alive = events.wait(&mut self.intake.batch, patience);
            let stop = self.shared.stop.load(Ordering::Acquire);
            if self.round().map(|busy| patience = next_patience(patience, busy)).is_err() {
                return;
            }
            if stop || !alive {
                break;
            }
        }
        // What happened before the server was dropped.
        events.read(&mut self.intake.batch);
        drop(events);
        // Takes the last batch. Composing into memory does not fail.
        let _ = self.round();
        self.hub.end();
        self.say_goodbye();
        for stream in self.hub.streams() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.shared.counts.viewers.store(0, Ordering::Relaxed);
    }

    /// Passes the batch on, and gives viewers what their connections take. Returns true if there was something to do.
    fn round(&mut self) -> io::Result<bool> {
        self.intake.pass_on(self.hub.source())?;
        let now = Instant::now();
        let connected = self.accept(now);
        Ok(self.hub.advance(now)? || connected)
    }

    fn accept(&mut self, now: Instant) -> bool {
        let mut connected = false;
        // Not for ever, however fast they come: viewers wait meanwhile.
        for _ in 0..MOST_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // A stream that cannot be set so would let the thread wait.
                    if stream.set_nonblocking(true).is_ok() {
                        // Chunks are whole: nothing is gained by waiting for more.
                        let _ = stream.set_nodelay(true);
                        self.hub.connect(stream, now);
                        connected = true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // None waits; or the process has too many files open, and tries again.
                Err(_) => break,
            }
        }
        connected
    }

    /// Sends what waits, and the end, to viewers that take it.
    fn say_goodbye(&mut self) {
        let began = Instant::now();
        let mut progressed = began;
        while self.hub.has_viewers() {
            let now = Instant::now();
            match self.hub.advance(now) {
                Ok(true) => progressed = now,
                Ok(false) if now - progressed < END_WITHOUT_PROGRESS => thread::sleep(SHORTEST_PATIENCE),
                _ => return,
            }
            if now - began > END_AT_ALL {
                return;
            }
        }
    }
}

/// Returns how long to wait after a round: as long as viewers take bytes, not long; then longer and longer, so that a
/// viewer that takes none costs little.
fn next_patience(last: Duration, busy: bool) -> Duration {
    if busy { SHORTEST_PATIENCE } else { (last * 2).min(LONGEST_PATIENCE) }
}

//! The frames of the flight, on any device.
//!
//! ```text
//!   transfer queue   meshes of a new tile ► a page of each field ──╮      ╭► …     pages wait for the picture before
//!   queue 0                                                        ╰► picture ► readback
//! ```
//!
//! The device puts the picture of a frame together from all that is visible, and copies it to where the CPU reads it
//! when the frame is over.

use core::array;
use core::error::Error;
use core::fmt::Debug;
use core::num::NonZero;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use allotment::device::{BufferCopy, BufferDesc, Device, QueueIndex, Submission, TimelinePoint};
use allotment::lifetime::{
    DeletionQueue, FramesInFlight, Recording, ReleaseStatistics, SubmissionTracker, TimelinePoints,
    TrackerStatistics,
};
use allotment::memory::{Buffer, OwningAllocator};
use allotment::upload::{
    ReadbackRing, ReadbackTicket, RingDesc, UploadPool, UploadPoolDesc, Uploader, UploaderDesc,
};
use allotment::{Alignment, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};

use crate::cost::Cost;
use crate::world::{self, CONSTANTS, FIELDS, MOST_VISIBLE, PAGE};

const IN_FLIGHT: NonZero<usize> = NonZero::new(3).unwrap();

/// The queue that draws.
const QUEUE: QueueIndex = QueueIndex(0);

/// Longer than anything takes that is not broken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Commands that are recorded in one frame and submitted in a later one.
const LATE_OPENED: u64 = 10;
const LATE_SUBMITTED: u64 = 15;

/// More meshes than are ever visible or pending at once, and as many holes between them.
const CROWD: u64 = 80;

/// What a picture is put together from: constants, fields, meshes.
const PARTS: usize = 1 + FIELDS.len() + MOST_VISIBLE;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Everything that a frame needs.
pub(crate) struct Flight<D: Device> {
    memory: OwningAllocator<D>,
    tracker: SubmissionTracker,
    pacer: FramesInFlight,
    uploader: Uploader<D>,
    /// For the constants of frames.
    pages: UploadPool<D>,
    results: ReadbackRing<D>,
    /// The meshes that can be seen, and the number of the next one.
    meshes: VecDeque<Buffer<D>>,
    next_mesh: u64,
    fields: Vec<Buffer<D>>,
    picture: Buffer<D>,
    /// When the last picture is drawn.
    drawn: Option<TimelinePoint>,
    /// What comes back, oldest first: of which frame, and where.
    coming: VecDeque<(u64, ReadbackTicket)>,
    late: Late<D>,
    /// Room, used again in each frame.
    bytes: Vec<u8>,
    found: Vec<u8>,
    waits: Vec<TimelinePoint>,
    cost: Cost,
    seen: Seen,
}

/// A command list that takes its time.
enum Late<D: Device> {
    NotYet,
    /// The mesh, which will be gone by the time that this is submitted, and what brought it there.
    Recorded {
        recording: Recording,
        number: u64,
        mesh: D::Buffer,
        there: TimelinePoints,
    },
    Submitted {
        number: u64,
        ticket: ReadbackTicket,
    },
    Compared,
}

/// What was seen on the way.
#[derive(Default)]
struct Seen {
    compared: u64,
    most_pending: ReleaseStatistics,
    longest_open: (Duration, &'static str),
    waited: Duration,
}

impl<D: Device + Clone + Debug> Flight<D> {
    /// Before the first frame: what lives as long as the world, and memory ahead of need.
    pub(crate) fn new(device: D) -> Outcome<Self> {
        let tracker = SubmissionTracker::new(device.clone())?;
        let mut desc = AllocatorDesc::default();
        // What is got ahead of need is there for all frames, not only for the next two seconds.
        desc.empty_blocks.frames = u32::MAX;
        let allocator = Arc::new(Allocator::new(device, desc)?);
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker));
        let mut uploader = Uploader::new(&memory, UploaderDesc::default())?;
        let pages = UploadPool::new(&allocator, &tracker, UploadPoolDesc::default());

        let mesh = allocator.device().buffer_requirements(&BufferDesc::new(PAGE).into())?;
        allocator.reserve(&mesh, &wanted("mesh"), world::most_bytes(CROWD))?;
        // A page of constants for each frame in flight, and for the one that is made.
        let recording = tracker.record("load");
        let mut arenas: Vec<_> = (0..=IN_FLIGHT.get()).map(|_| pages.arena(recording.id())).collect();
        arenas.iter_mut().try_for_each(|arena| arena.allocate(1, Alignment::ONE).map(drop))?;
        drop((arenas, recording));

        // More than there will be at once, so that no list of anybody's has to grow later.
        let mut crowd = Vec::new();
        for number in 0..CROWD {
            let desc = BufferDesc::new(world::mesh_size(number)).into();
            crowd.push(memory.create_buffer(&desc, &wanted("crowd"))?);
        }
        drop(crowd);
        memory.deletion_queue().reclaim();

        let (mut fields, mut bytes) = (Vec::new(), Vec::new());
        for (field, pages) in FIELDS.into_iter().enumerate() {
            let made = memory.create_buffer(&BufferDesc::new(pages * PAGE).into(), &wanted("field"))?;
            for page in 0..pages {
                let seed = world::page(field, page, None);
                uploader.initialize(&made, page * PAGE, seed.bytes(PAGE, &mut bytes))?;
            }
            fields.push(made);
        }
        let picture = world::most_bytes_of_picture();
        Ok(Self {
            pacer: FramesInFlight::new(&tracker, IN_FLIGHT),
            results: ReadbackRing::new(
                &allocator,
                &tracker,
                &RingDesc::readback((IN_FLIGHT.get() as u64 + 2) * picture),
            )?,
            picture: memory.create_buffer(&BufferDesc::new(picture).into(), &wanted("picture"))?,
            memory,
            tracker,
            uploader,
            pages,
            meshes: VecDeque::new(),
            next_mesh: 0,
            fields,
            drawn: None,
            coming: VecDeque::new(),
            late: Late::NotYet,
            bytes,
            found: Vec::new(),
            waits: Vec::new(),
            cost: Cost::default(),
            seen: Seen::default(),
        })
    }

    /// One frame.
    pub(crate) fn frame(&mut self) -> Outcome {
        let frame = self.pacer.frame();
        self.cost.begin(self.memory.allocator());
        let began = Instant::now();
        self.pacer.begin(TIMEOUT)?;
        self.seen.waited += began.elapsed();
        if self.coming.len() == IN_FLIGHT.get() {
            self.compare_oldest()?;
        }

        self.stream(frame)?;
        let there = self.update(frame)?;
        self.late(frame, there)?;
        self.draw(frame, there)?;
        self.pacer.end();

        self.look();
        self.memory.deletion_queue().reclaim();
        self.memory.allocator().end_frame();
        self.cost.end(frame, self.memory.allocator());
        Ok(())
    }

    /// Meshes come into sight, and others leave it.
    fn stream(&mut self, frame: u64) -> Outcome {
        let visible = world::visible(frame);
        while self.next_mesh - (self.meshes.len() as u64) < visible.start {
            // This is all: it goes when no frame in flight and no open recording can use it any more.
            drop(self.meshes.pop_front());
        }
        for number in self.next_mesh..visible.end {
            let size = world::mesh_size(number);
            let mesh = self.memory.create_buffer(&BufferDesc::new(size).into(), &wanted("mesh"))?;
            self.uploader.initialize(&mesh, 0, world::mesh(number).bytes(size, &mut self.bytes))?;
            self.meshes.push_back(mesh);
        }
        self.next_mesh = visible.end;
        // They wait for nobody, so they are on their way before what has to.
        self.uploader.submit()?;
        Ok(())
    }

    /// A page of each field gets new bytes, once the picture before does not read the old ones any more. Returns when
    /// all bytes of the frame are there.
    fn update(&mut self, frame: u64) -> Outcome<TimelinePoints> {
        self.drawn.map_or(Ok(()), |drawn| self.uploader.wait_for(drawn))?;
        for (index, (field, pages)) in self.fields.iter().zip(FIELDS).enumerate() {
            let page = world::page_of(frame, pages);
            let seed = world::page(index, page, Some(frame));
            self.uploader.update(field, page * PAGE, seed.bytes(PAGE, &mut self.bytes))?;
        }
        Ok(self.uploader.submit()?)
    }

    /// The device puts the picture together.
    fn draw(&mut self, frame: u64, there: TimelinePoints) -> Outcome {
        let recording = self.tracker.record("a frame");
        let mut arena = self.pages.arena(recording.id());
        let mut constants = arena.allocate(CONSTANTS, Alignment::new(256)?)?;
        constants.write(0, world::constants(frame).bytes(CONSTANTS, &mut self.bytes))?;
        let constants = constants.place();

        let picture = self.picture.handle();
        let constants = arena.buffer(constants.page).map(|page| (page, constants.offset, CONSTANTS));
        let mut parts =
            constants.into_iter().chain(self.fields.iter().map(part)).chain(self.meshes.iter().map(part));
        let mut size = 0;
        let copies: [_; PARTS] = array::from_fn(|_| {
            // Of the first frames, with less to see, the last copies copy nothing.
            let (from, from_offset, bytes) = parts.next().unwrap_or((picture, 0, 0));
            let to_offset = size;
            size += bytes;
            BufferCopy { from, from_offset, to: picture, to_offset, size: bytes }
        });
        let ticket = self.results.allocate(size, Alignment::new(16)?)?;
        let (to, to_offset) = (self.results.buffer(), ticket.offset());
        let back = [BufferCopy { from: picture, from_offset: 0, to, to_offset, size }];

        // Not before the last picture is copied away, which is in the same place.
        self.waits.clear();
        self.waits.extend(there.points().chain(self.drawn));
        let device = self.memory.allocator().device();
        let work = Submission { waits: &self.waits, copies: &copies, ..Submission::default() };
        let put_together = recording.submit(QUEUE, |queue| {
            // SAFETY: the parts lie in the picture, one behind the other; and their owners are alive, so they live
            // until this recording is over, even if they are dropped right now.
            unsafe { device.submit(queue, &work) }
        })?;
        // A submission of its own, since the copies of one run in any order; and so a recording of its own.
        let recording = self.tracker.record("the way back");
        let waits = [put_together];
        let work = Submission { waits: &waits, copies: &back, ..Submission::default() };
        // SAFETY: as above; the ring has given the room for this.
        let drawn = recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) })?;
        // Once a frame, for all tickets since the last time.
        self.results.close(drawn);
        self.drawn = Some(drawn);
        self.coming.push_back((frame, ticket));
        Ok(())
    }

    /// A list is recorded in one frame, and submitted when the mesh that it copies has been dropped for long.
    fn late(&mut self, frame: u64, there: TimelinePoints) -> Outcome {
        if frame == LATE_OPENED {
            // The first to leave.
            let Some(mesh) = self.meshes.front() else { return Err("there is nothing to see".into()) };
            let (recording, number) = (self.tracker.record("a late list"), world::visible(frame).start);
            self.late = Late::Recorded { recording, number, mesh: mesh.handle().clone(), there };
        } else if frame == LATE_SUBMITTED {
            let late = core::mem::replace(&mut self.late, Late::NotYet);
            let Late::Recorded { recording, number, mesh, there } = late else { return Ok(()) };
            let size = world::mesh_size(number);
            let ticket = self.results.allocate(size, Alignment::new(16)?)?;
            let (to, to_offset) = (self.results.buffer(), ticket.offset());
            let copies = [BufferCopy { from: &mesh, from_offset: 0, to, to_offset, size }];
            let waits: Vec<_> = there.points().collect();
            let work = Submission { waits: &waits, copies: &copies, ..Submission::default() };
            let device = self.memory.allocator().device();
            // SAFETY: the mesh's owner was dropped while the recording was open, so the mesh lives until that is over;
            // the ring has given the room.
            recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) })?;
            self.late = Late::Submitted { number, ticket };
        }
        Ok(())
    }

    /// Compares the oldest picture that comes back, which the device is done with.
    fn compare_oldest(&mut self) -> Outcome {
        let Some((frame, ticket)) = self.coming.pop_front() else { return Ok(()) };
        let Self { found, bytes, .. } = self;
        found.resize(ticket.size() as usize, 0);
        self.results.read(&ticket, found)?;
        let mut rest = &found[..];
        for (seed, size) in world::picture(frame) {
            let (part, others) = rest.split_at_checked(size as usize).ok_or("a part is missing")?;
            if part != seed.bytes(size, bytes) {
                return Err(format!("frame {frame}: {size} bytes are not what they must be").into());
            }
            rest = others;
        }
        self.seen.compared += ticket.size();
        drop(ticket);

        if frame == LATE_SUBMITTED {
            let late = core::mem::replace(&mut self.late, Late::Compared);
            let Late::Submitted { number, ticket } = late else { return Err("there is no late list".into()) };
            found.resize(ticket.size() as usize, 0);
            self.results.read(&ticket, found)?;
            if found != world::mesh(number).bytes(ticket.size(), bytes) {
                return Err("what the late list copied is not what it must be".into());
            }
            self.seen.compared += ticket.size();
        }
        Ok(())
    }

    /// Notes what is pending, and what is open.
    fn look(&mut self) {
        let pending = self.memory.deletion_queue().statistics();
        if pending.pending > self.seen.most_pending.pending {
            self.seen.most_pending = pending;
        }
        if let TrackerStatistics { longest_open: Some(open), .. } = self.tracker.statistics() {
            self.seen.longest_open = self.seen.longest_open.max((open.age, open.label));
        }
    }

    /// After the last frame: everything goes, and all of it is seen to have gone.
    pub(crate) fn land(mut self) -> Outcome {
        self.tracker.wait_idle(TIMEOUT)?;
        while !self.coming.is_empty() {
            self.compare_oldest()?;
        }
        let Self { memory, uploader, cost, seen, .. } = self;
        drop((self.meshes, self.fields, self.picture));
        let left = memory.deletion_queue().drain(TIMEOUT);
        let uploaded = uploader.statistics();
        drop((uploader, self.pages, self.results));

        let allocator = memory.allocator();
        let (frames, calls, driver) = (self.pacer.frame(), allocator.device_calls(), allocator.stalls());
        let row = |what: &str, how_much: String| println!("{what:32}{how_much}");
        row("frames", format!("{frames}, {IN_FLIGHT} in flight"));
        row("meshes", format!("{} streamed, {MOST_VISIBLE} visible", self.next_mesh));
        row("written by the CPU in place", mib(uploaded.direct_bytes));
        row(
            "staged and copied",
            format!("{}, in {} submissions", mib(uploaded.staged_bytes), uploaded.submissions),
        );
        row("compared on the way back", format!("{}, all as it must be", mib(seen.compared)));
        row("retired and reclaimed", format!("{}, {} left", left.reclaimed.count, left.pending));
        row("most pending", format!("{}, {}", seen.most_pending.pending, mib(seen.most_pending.bytes)));
        row("longest open", format!("{}, for {:.1?}", seen.longest_open.1, seen.longest_open.0));
        row("waited for frames in flight", format!("{:.1?}", seen.waited));
        row("waited for staging memory", format!("{} times", uploaded.waits));
        row("waited for the driver's memory", format!("{} times, {:.1?}", driver.count, driver.total));
        row("memory objects made", format!("{}", calls.allocate));
        println!("{cost}");

        let statistics = allocator.statistics();
        if left.pending > 0 || statistics.allocations > 0 {
            return Err(format!(
                "{} things and {} allocations are left",
                left.pending, statistics.allocations
            )
            .into());
        }
        Ok(cost.check()?)
    }
}

/// Memory of the device, for a buffer; the buffer itself says how much.
fn wanted(name: &'static str) -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name(name)
}

/// All of a buffer, to copy from.
fn part<D: Device>(buffer: &Buffer<D>) -> (&D::Buffer, u64, u64) {
    (buffer.handle(), 0, buffer.size())
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

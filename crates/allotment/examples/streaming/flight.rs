//! The frames of the flight, on any device.
//!
//! ```text
//!   transfer queue   meshes of a new tile ► a page of each field ──╮      ╭► …     pages wait for the picture before
//!   queue 0                                                        ╰► picture ► readback
//! ```
//!
//! In each frame the GPU copies all that is visible into one buffer, the picture, and the picture to where the CPU reads
//! it three frames later.

use core::array;
use core::error::Error;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use allotment::device::{BufferCopy, BufferDesc, Device, QueueIndex, Submission, TimelinePoint};
use allotment::gpu::{Frame, Gpu, GpuDesc};
use allotment::lifetime::Recording;
use allotment::memory::Buffer;
use allotment::upload::{ReadbackTicket, RingDesc};
use allotment::{Alignment, AllocatorDesc, MemoryUsage};

use crate::cost::Cost;
use crate::world::{self, CONSTANTS, FIELDS, MOST_VISIBLE, PAGE, Seed};

const IN_FLIGHT: usize = 3;

/// The queue that draws.
const QUEUE: QueueIndex = QueueIndex(0);

/// Commands that are recorded in one frame and submitted in a later one.
const LATE_OPENED: u64 = 10;
const LATE_SUBMITTED: u64 = 15;

/// More meshes than are visible or wait for the GPU at once, and as many holes between them.
const CROWD: u64 = 80;

/// The sources of a picture: constants, fields, meshes.
const PARTS: usize = 1 + FIELDS.len() + MOST_VISIBLE;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub(crate) struct Flight<D: Device> {
    gpu: Gpu<D>,
    /// The visible meshes, and the number of the next one.
    meshes: VecDeque<Buffer<D>>,
    next_mesh: u64,
    fields: Vec<Buffer<D>>,
    picture: Buffer<D>,
    /// When the last picture is copied to where the CPU reads it.
    drawn: Option<TimelinePoint>,
    /// Pictures that the CPU has not read, oldest first, and of which frame each is.
    pictures: VecDeque<(u64, ReadbackTicket)>,
    /// Commands that are recorded and not submitted: of which mesh, which is dropped meanwhile, and its handle.
    late: Option<(Recording, u64, D::Buffer)>,
    late_copy: Option<(u64, ReadbackTicket)>,
    /// Room, used again in each frame.
    bytes: Vec<u8>,
    found: Vec<u8>,
    cost: Cost,
    compared: u64,
    waited: Duration,
}

impl<D: Device + Clone> Flight<D> {
    /// Loads what lives as long as the world, and lets memory and lists grow to what the flight will need.
    pub(crate) fn new(device: D) -> Outcome<Self> {
        let picture = world::most_bytes_of_picture();
        let mut allocator = AllocatorDesc::default();
        // Blocks that are allocated ahead stay for all frames, not only for the next two seconds.
        allocator.empty_blocks.frames = u32::MAX;
        let ring = RingDesc::readback((IN_FLIGHT as u64 + 2) * picture);
        let desc = GpuDesc::default().with_allocator(allocator).with_readback(ring);
        let gpu = Gpu::new(device, desc.with_frames_in_flight(IN_FLIGHT))?;

        let loading = gpu.begin_frame()?;
        let mesh = gpu.device().buffer_requirements(&BufferDesc::new(PAGE).into())?;
        gpu.allocator().reserve(&mesh, &MemoryUsage::GpuOnly.into(), world::most_bytes(CROWD))?;
        let create = |size, name| {
            gpu.create_buffer(&BufferDesc::new(size).into(), &MemoryUsage::GpuOnly.with_name(name))
        };
        drop(
            (0..CROWD)
                .map(|number| create(world::mesh_size(number), "crowd"))
                .collect::<Result<Vec<_>, _>>()?,
        );
        // A page of constants for each frame in flight, and for the one that is recorded.
        let mut arenas: Vec<_> = (0..=IN_FLIGHT).map(|_| loading.upload_arena()).collect();
        arenas.iter_mut().try_for_each(|arena| arena.allocate(1, Alignment::ONE).map(drop))?;

        let mut bytes = Vec::new();
        let mut fields = Vec::new();
        for (field, pages) in FIELDS.into_iter().enumerate() {
            fields.push(create(pages * PAGE, "field")?);
            for page in 0..pages {
                let seed = world::page(field, page, None);
                gpu.uploads().write_buffer(&fields[field], page * PAGE, seed.bytes(PAGE, &mut bytes))?;
            }
        }
        let picture = create(picture, "picture")?;
        drop(arenas);
        loading.end()?;
        Ok(Self {
            gpu,
            meshes: VecDeque::new(),
            next_mesh: 0,
            fields,
            picture,
            drawn: None,
            pictures: VecDeque::new(),
            late: None,
            late_copy: None,
            bytes,
            found: Vec::new(),
            cost: Cost::default(),
            compared: 0,
            waited: Duration::ZERO,
        })
    }

    pub(crate) fn frame(&mut self) -> Outcome {
        self.cost.begin(self.gpu.allocator());
        let began = Instant::now();
        let frame = self.gpu.begin_frame()?; // waits while three frames are in flight
        self.waited += began.elapsed();
        let number = frame.number() - 1; // the first was for loading
        if self.pictures.len() == IN_FLIGHT {
            self.compare_oldest()?;
        }
        self.stream(number)?;
        self.update(number)?;
        self.late(number)?;
        self.draw(&frame, number)?;
        frame.end()?;
        self.cost.end(number, self.gpu.allocator());
        Ok(())
    }

    /// Meshes come into sight, and others leave it.
    fn stream(&mut self, frame: u64) -> Outcome {
        let visible = world::visible(frame);
        while self.next_mesh - (self.meshes.len() as u64) < visible.start {
            // Destroyed when no frame in flight and no open recording can use it any more.
            drop(self.meshes.pop_front());
        }
        for number in self.next_mesh..visible.end {
            let size = world::mesh_size(number);
            let options = MemoryUsage::GpuOnly.with_name("mesh");
            let mesh = self.gpu.create_buffer(&BufferDesc::new(size).into(), &options)?;
            self.gpu.uploads().write_buffer(&mesh, 0, world::mesh(number).bytes(size, &mut self.bytes))?;
            self.meshes.push_back(mesh);
        }
        self.next_mesh = visible.end;
        // The GPU copies these at once. Updates wait for the picture before.
        self.gpu.uploads().submit()?;
        Ok(())
    }

    /// A page of each field gets new bytes, once the picture before does not read the old ones any more.
    fn update(&mut self, frame: u64) -> Outcome {
        for (index, (field, pages)) in self.fields.iter().zip(FIELDS).enumerate() {
            let page = world::page_of(frame, pages);
            let bytes = world::page(index, page, Some(frame)).bytes(PAGE, &mut self.bytes);
            self.gpu.uploads().update_buffer(field, page * PAGE, bytes)?;
        }
        Ok(())
    }

    /// The GPU puts the picture together, and copies it to where the CPU reads it.
    fn draw(&mut self, frame: &Frame<D>, number: u64) -> Outcome {
        let constants = frame.upload(world::constants(number).bytes(CONSTANTS, &mut self.bytes))?;
        let picture = self.picture.handle();
        let whole = |buffer: &'_ Buffer<D>| (buffer.handle().clone(), 0, buffer.size());
        let parts = self.fields.iter().chain(&self.meshes).map(whole);
        let mut parts = core::iter::once((constants.buffer, constants.offset, CONSTANTS)).chain(parts);
        let mut size = 0;
        // Of the first frames, with fewer meshes, the last copies copy nothing.
        let parts: [_; PARTS] = array::from_fn(|_| parts.next().unwrap_or((picture.clone(), 0, 0)));
        let copies = parts.each_ref().map(|(from, from_offset, bytes)| {
            let to_offset = size;
            size += bytes;
            BufferCopy { from, from_offset: *from_offset, to: &picture, to_offset, size: *bytes }
        });
        let mut ring = self.gpu.readback()?;
        let ticket = ring.allocate(size, Alignment::new(16)?)?;
        let (to, to_offset) = (ring.buffer(), ticket.offset());
        let back = [BufferCopy { from: &picture, from_offset: 0, to, to_offset, size }];

        // Both after the copy before: the last picture is read before this one overwrites it.
        for copies in [&copies[..], &back] {
            let drawn = frame.submit_after(QUEUE, self.drawn.as_slice(), |queue, waits| {
                let work = Submission { waits, copies, ..Submission::default() };
                // SAFETY: the parts lie in the picture, one behind the other. The buffers live until the GPU has completed
                // the frame, even if they are dropped right now. The ring gave the range.
                unsafe { self.gpu.device().submit(queue, &work) }
            })?;
            self.drawn = Some(drawn);
        }
        self.drawn.into_iter().for_each(|drawn| ring.close(drawn));
        self.pictures.push_back((number, ticket));
        Ok(())
    }

    /// Commands that are recorded in one frame and submitted when the mesh that they copy was dropped long ago.
    fn late(&mut self, frame: u64) -> Outcome {
        if frame == LATE_OPENED {
            // The first to leave.
            let mesh = self.meshes.front().ok_or("no mesh is visible")?;
            self.late = Some((self.gpu.record("late"), world::visible(frame).start, mesh.handle().clone()));
        } else if let Some((recording, number, mesh)) = self.late.take_if(|_| frame == LATE_SUBMITTED) {
            let size = world::mesh_size(number);
            let mut ring = self.gpu.readback()?;
            let ticket = ring.allocate(size, Alignment::new(16)?)?;
            let (to, to_offset) = (ring.buffer(), ticket.offset());
            let copies = [BufferCopy { from: &mesh, from_offset: 0, to, to_offset, size }];
            let copied = self.gpu.submit(recording, QUEUE, |queue, waits| {
                let work = Submission { waits, copies: &copies, ..Submission::default() };
                // SAFETY: the mesh was dropped while the recording was open, so it lives until the GPU has completed
                // this; the ring gave the range.
                unsafe { self.gpu.device().submit(queue, &work) }
            })?;
            ring.close(copied);
            self.late_copy = Some((number, ticket));
        }
        Ok(())
    }

    /// Compares the oldest picture, which the GPU has completed.
    fn compare_oldest(&mut self) -> Outcome {
        let Some((frame, ticket)) = self.pictures.pop_front() else { return Ok(()) };
        self.compare(&ticket, world::picture(frame))?;
        if frame == LATE_SUBMITTED {
            let (mesh, ticket) = self.late_copy.take().ok_or("the late commands were not submitted")?;
            self.compare(&ticket, core::iter::once((world::mesh(mesh), world::mesh_size(mesh))))?;
        }
        Ok(())
    }

    fn compare(&mut self, ticket: &ReadbackTicket, parts: impl Iterator<Item = (Seed, u64)>) -> Outcome {
        self.found.resize(ticket.size() as usize, 0);
        self.gpu.readback()?.read(ticket, &mut self.found)?;
        let mut rest = &self.found[..];
        for (seed, size) in parts {
            let (part, others) = rest.split_at_checked(size as usize).ok_or("a part is missing")?;
            if part != seed.bytes(size, &mut self.bytes) {
                return Err(format!("{size} bytes are not what they must be").into());
            }
            rest = others;
        }
        self.compared += ticket.size();
        Ok(())
    }

    /// After the last frame: everything is dropped, and nothing may be left.
    pub(crate) fn land(mut self) -> Outcome {
        self.gpu.wait_idle()?;
        while !self.pictures.is_empty() {
            self.compare_oldest()?;
        }
        let Self { gpu, cost, .. } = self;
        drop((self.meshes, self.fields, self.picture));
        gpu.wait_idle()?;
        let pending = gpu.deletion_queue().statistics().pending;
        let (uploaded, allocator) = (gpu.uploads().statistics(), Arc::clone(gpu.allocator()));
        drop(gpu); // and with it pages, rings and staging memory

        let row = |what: &str, how_much: String| println!("{what:32}{how_much}");
        row("meshes", format!("{} streamed, {MOST_VISIBLE} visible", self.next_mesh));
        row("written by the CPU in place", mib(uploaded.direct_bytes));
        row("staged", format!("{}, in {} submissions", mib(uploaded.staged_bytes), uploaded.submissions));
        row("compared on the way back", format!("{}, all as it must be", mib(self.compared)));
        row("waited for frames in flight", format!("{:.1?}", self.waited));
        row("waited for staging memory", format!("{} times", uploaded.waits));
        row("memory objects allocated", allocator.device_calls().allocate.to_string());
        println!("{cost}");
        let left = allocator.statistics().allocations;
        if pending > 0 || left > 0 {
            return Err(format!("{pending} resources are pending, and {left} allocations are left").into());
        }
        Ok(cost.check()?)
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

//! A camera flies through a world that does not fit into memory: meshes come in before it and are dropped behind it.
//!
//! ```sh
//! cargo run --release --example streaming -p allotment-examples               # on the simulated device
//! cargo run --release --example streaming -p allotment-examples -- vulkan     # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example streaming -p allotment-examples -- d3d12      # on Windows
//! cargo run --release --example streaming -p allotment-examples -- --live 127.0.0.1:0   # for viewers (--wait: for one)
//! ```
//!
//! Nothing waits before it drops something, or remembers until when. What each frame puts together on the device comes
//! back, and the CPU compares every byte. Once the sizes of the meshes have come round, a frame gets no memory from the
//! driver and none from the heap, or this fails.
//!
//! ```text
//!   transfer queue   meshes of a new tile ► a page of each field ──╮      ╭► …     pages wait for the picture before
//!   queue 0                                                        ╰► picture ► readback
//! ```
//!
//! In each frame the GPU copies all that is visible into one buffer, the picture, and the picture to where the CPU reads
//! it three frames later.

#[path = "../common/mod.rs"]
mod common;
mod world;

use core::{array, iter};
use std::collections::VecDeque;

use allotment::lifetime::Recording;
use allotment::prelude::*;
use allotment::upload::ReadHandle;

use common::comparisons::Comparisons;
use common::cost::Cost;
use common::report::{check_that_nothing_is_left, mib, row};
use common::{Outcome, plain_device as device};
use world::{CONSTANTS, FIELDS, MOST_VISIBLE, PAGE};

const FRAMES: u64 = 300;

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

device::main!("streaming", fly);

fn fly<D: Device + Clone>(device: D) -> Outcome {
    row("device", &device.properties().name);
    let mut flight = Flight::new(device)?;
    for _ in 0..FRAMES {
        flight.frame()?;
    }
    flight.land()
}

struct Flight<D: Device> {
    gpu: Gpu<D>,
    /// The visible meshes, and the number of the next one.
    meshes: VecDeque<Buffer<D>>,
    next_mesh: u64,
    fields: Vec<Buffer<D>>,
    picture: Buffer<D>,
    /// The read of the last picture.
    copied: Option<ReadHandle>,
    /// Commands that are recorded and not submitted: of which mesh, which is dropped meanwhile, and its handle.
    late: Option<(Recording, u64, D::Buffer)>,
    /// Room, used again for all that is uploaded.
    bytes: Vec<u8>,
    comparisons: Comparisons<D>,
    cost: Cost,
}

impl<D: Device + Clone> Flight<D> {
    /// Loads what lives as long as the world, and lets memory and lists grow to what the flight will need.
    fn new(device: D) -> Outcome<Self> {
        let picture = world::most_bytes_of_picture();
        let mut allocator = AllocatorDesc::default();
        // Blocks that are allocated ahead stay for all frames, not only for the next two seconds.
        allocator.empty_blocks.frames = u32::MAX;
        let desc = GpuDesc::default().with_allocator(allocator);
        let gpu = Gpu::new(device, desc.with_frames_in_flight(IN_FLIGHT))?;
        common::trace::record(&gpu)?;

        let loading = gpu.record("loading");
        let mesh = gpu.device().buffer_requirements(&BufferDesc::new(PAGE).into())?;
        gpu.allocator().reserve(&mesh, &MemoryUsage::GpuOnly.into(), world::most_bytes(CROWD))?;
        let create = |size, name| create(&gpu, size, name);
        let crowd = (0..CROWD).map(|number| create(world::mesh_size(number), "crowd"));
        drop(crowd.collect::<Outcome<Vec<_>>>()?);
        // A page of constants for each frame in flight, and for the one that is recorded.
        let mut arenas: Vec<_> = (0..=IN_FLIGHT).map(|_| gpu.upload_pool().arena(loading.id())).collect();
        arenas.iter_mut().try_for_each(|arena| arena.allocate(1, Alignment::ONE).map(drop))?;
        drop((arenas, loading));

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
        let comparisons = Comparisons::new(&gpu);
        Ok(Self {
            gpu,
            meshes: VecDeque::new(),
            next_mesh: 0,
            fields,
            picture,
            copied: None,
            late: None,
            bytes,
            comparisons,
            cost: Cost::default(),
        })
    }

    fn frame(&mut self) -> Outcome {
        let frame = self.cost.begin_frame(&self.gpu)?; // waits while three frames are in flight
        self.comparisons.compare_completed(frame.number())?;
        self.stream(frame.number())?;
        self.update(frame.number())?;
        self.late(&frame)?;
        self.draw(&frame)?;
        Ok(self.cost.end_frame(frame)?)
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
            let mesh = create(&self.gpu, size, "mesh")?;
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

    /// Commands that are recorded in one frame and submitted when the mesh that they copy was dropped long ago.
    fn late(&mut self, frame: &Frame<D>) -> Outcome {
        if frame.number() == LATE_OPENED {
            // The first to leave.
            let mesh = self.meshes.front().ok_or("no mesh is visible")?;
            self.late = Some((self.gpu.record("late"), world::visible(LATE_OPENED).start, mesh.handle()));
        } else if let Some((recording, number, mesh)) =
            self.late.take_if(|_| frame.number() == LATE_SUBMITTED)
        {
            let size = world::mesh_size(number);
            let copy = create(&self.gpu, size, "late copy")?;
            let to = &copy.handle();
            let copies = [BufferCopy { from: &mesh, from_offset: 0, to, to_offset: 0, size }];
            self.gpu.submit(recording, QUEUE, |queue, waits| {
                let work = Submission { waits, copies: &copies, ..Submission::default() };
                // SAFETY: the mesh was dropped while the recording was open, so it lives until the GPU has completed
                // this, as the copy does; both have this size.
                unsafe { self.gpu.device().submit(queue, &work) }
            })?;
            let read = self.gpu.reads().read_buffer(&copy, 0, size)?;
            self.comparisons.expect(LATE_SUBMITTED, read, [(world::mesh(number), size)]);
        }
        Ok(())
    }

    /// The GPU puts the picture together, and copies it to where the CPU reads it.
    fn draw(&mut self, frame: &Frame<D>) -> Outcome {
        let constants = world::constants(frame.number()).bytes(CONSTANTS, &mut self.bytes);
        let constants = frame.upload(constants)?;
        let picture = self.picture.handle();
        let whole = |buffer: &Buffer<D>| (buffer.handle(), 0, buffer.size());
        let parts = self.fields.iter().chain(&self.meshes).map(whole);
        let mut parts = iter::once((constants.buffer, constants.offset, CONSTANTS)).chain(parts);
        let mut size = 0;
        // Of the first frames, with fewer meshes, the last copies copy nothing.
        let parts: [_; PARTS] = array::from_fn(|_| parts.next().unwrap_or((picture.clone(), 0, 0)));
        let copies = parts.each_ref().map(|(from, from_offset, bytes)| {
            let to_offset = size;
            size += bytes;
            BufferCopy { from, from_offset: *from_offset, to: &picture, to_offset, size: *bytes }
        });
        // After the copy of the last picture, which this one overwrites.
        let copied = self.copied.take().and_then(|read| read.point());
        frame.submit_after(QUEUE, copied.as_slice(), |queue, waits| {
            let work = Submission { waits, copies: &copies, ..Submission::default() };
            // SAFETY: the parts lie in the picture, one behind the other. The buffers live until the GPU has completed the
            // frame, even if they are dropped right now.
            unsafe { self.gpu.device().submit(queue, &work) }
        })?;
        let read = self.gpu.reads().read_buffer(&self.picture, 0, size)?;
        self.copied = Some(read.clone());
        self.comparisons.expect(frame.number(), read, world::picture(frame.number()));
        Ok(())
    }

    /// After the last frame: everything is dropped, and nothing may be left.
    fn land(mut self) -> Outcome {
        self.comparisons.compare_all()?;
        let uploaded = self.gpu.uploads().statistics();
        row("meshes", format_args!("{} streamed, {MOST_VISIBLE} visible", self.next_mesh));
        row("written by the CPU in place", mib(uploaded.direct_bytes));
        row(
            "staged",
            format_args!("{}, in {} submissions", mib(uploaded.staged_bytes), uploaded.submissions),
        );
        row("compared on the way back", format_args!("{}, all right", mib(self.comparisons.compared)));
        row("waited for staging memory", format_args!("{} times", uploaded.waits));
        row("memory objects allocated", self.gpu.allocator().reports().device_calls().allocate);
        self.cost.finish()?;
        drop((self.meshes, self.fields, self.picture, self.comparisons, self.copied));
        check_that_nothing_is_left(self.gpu)
    }
}

fn create<D: Device>(gpu: &Gpu<D>, size: u64, name: &'static str) -> Outcome<Buffer<D>> {
    Ok(gpu.create_buffer(&BufferDesc::new(size).into(), &MemoryUsage::GpuOnly.with_name(name))?)
}

//! Ten thousand draws a frame, each with tables of its own: the material's, which lives long, and the draw's, which is
//! copied to where the recording has room.
//!
//! ```sh
//! cargo run --release --example draw_tables -p allotment-examples                 # on the simulated device
//! cargo run --release --example draw_tables -p allotment-examples -- vulkan       # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example draw_tables -p allotment-examples -- vulkan sets  # without descriptor buffers
//! cargo run --release --example draw_tables -p allotment-examples -- d3d12        # on Windows
//! ```
//!
//! What the GPU read through each descriptor of each draw comes back, and the CPU compares every value with what was bound
//! when the draw was recorded: materials change between draws, and while earlier frames are in flight. A steady frame gets
//! no memory from the driver and none from Rust's heap, or this fails. `samplers.rs` gives samplers to ten thousand sets,
//! which have room for all of them in eight slots.
//!
//! ```text
//!   a material's set   albedo  normals   instance  light
//!   changes            now and then      with each draw
//!   what a draw reads  [  0  ][  1  ]    [  0  ][  1  ]
//!                      ╰ long-lived ╯    ╰ copied to the recording's chunk ╯
//! ```

#[path = "../common/mod.rs"]
mod common;
mod samplers;

use core::time::Duration;
use std::time::Instant;

use allotment::descriptor::{ShaderVisibleHeapDesc, TableLocation, TransientDescriptors};
use allotment::device::BufferUse;
use allotment::lifetime::Recording;
use allotment::prelude::{Binding, BindingSet, DescriptorDevice, Frame};
use allotment_readers::DescriptorReader;

use common::cells::{CELL, KnownCell};
use common::harness::{Harness, IN_FLIGHT};
use common::report::row;
use common::{Outcome, device};

/// More than it takes everything to grow to the size that it keeps.
const FRAMES: u64 = if cfg!(debug_assertions) { 100 } else { 200 };

/// Draws of a frame; fewer on a device whose heaps are too small.
const DRAWS: usize = if cfg!(debug_assertions) { 2_000 } else { 10_000 };

const MATERIALS: usize = 64;
const LIGHTS: usize = 128;

/// Materials that change in a frame.
const CHANGES: usize = 8;

/// The bindings, by number.
const BINDINGS: [Binding; 4] = [
    Binding::mutable("albedo"),
    Binding::mutable("normals"),
    Binding::dynamic("instance"),
    Binding::dynamic("light"),
];
const INSTANCE: usize = 2;
const LIGHT: usize = 3;

/// Descriptors for tables of materials.
const TABLES: u32 = 4096;

/// Descriptors of a chunk, and those that a draw copies to it.
const CHUNK: u32 = 256;
const DYNAMIC: u32 = 2;

/// A recording is opened in one frame and discarded in a later one: until then, nothing that it may use is released.
/// More descriptors are pending release then than at any later time.
const HELD: core::ops::Range<u64> = 8..16;

/// More than the textures of the materials, the lights and the descriptors that are pending release.
const CELLS: u64 = 4096;

device::main!("draw_tables", draw_tables);

fn draw_tables<D: DescriptorDevice + Clone, R: DescriptorReader<D>>(device: D, is_read: bool) -> Outcome {
    samplers::share(device.clone())?;
    let mut scene = Scene::<D, R>::new(device, is_read)?;
    for _ in 0..FRAMES {
        scene.frame()?;
    }
    scene.finish()
}

/// The descriptors that a draw reads, by index, and the values that must be found there.
type Reads = [(u32, u32); BINDINGS.len()];

struct Material<D: DescriptorDevice> {
    set: BindingSet<D>,
    /// The material's own bindings.
    textures: [KnownCell<D>; 2],
}

struct Scene<D: DescriptorDevice, R> {
    harness: Harness<D, R>,
    /// Of a frame.
    draws: usize,
    materials: Vec<Material<D>>,
    lights: Vec<KnownCell<D>>,
    held: Option<Recording>,
    /// Materials that changed while the frame before was not over.
    in_flight: u64,
    drawing: Duration,
}

impl<D: DescriptorDevice + Clone, R: DescriptorReader<D>> Scene<D, R> {
    /// Before the first frame: all materials are there.
    fn new(device: D, is_read: bool) -> Outcome<Self> {
        // Room for the draws of the frames in flight and of the one that is made, each in chunks of its own, and a quarter
        // more, which may be taken ahead of need. A device whose heaps have less makes fewer draws.
        let limits = device.descriptor_limits().resources;
        let (frames, each) = (IN_FLIGHT as u32 + 1, DYNAMIC.next_multiple_of(limits.table_alignment));
        let room = (DRAWS as u32 * each / 4 * 5 + CHUNK) * frames;
        let desc = ShaderVisibleHeapDesc::resources().with_regions(0, TABLES, room).with_chunk(CHUNK);
        let desc = desc.within(&limits);
        let draws = DRAWS.min(((desc.transient / frames).saturating_sub(CHUNK) / 5 * 4 / each) as usize);
        let mut harness = Harness::<D, R>::new(device, desc, CELLS, draws * BINDINGS.len(), is_read)?;
        let Harness { gpu, cells, .. } = &mut harness;

        // As many chunks and upload pages as there will ever be at once, so that no list of them has to grow later.
        let loading = (0..frames).map(|_| gpu.begin_frame()).collect::<Result<Vec<_>, _>>()?;
        for frame in &loading {
            let mut transient = frame.transient_descriptors()?;
            for _ in 0..draws {
                transient.allocate(DYNAMIC)?;
                frame.upload([0; 4])?;
            }
        }
        drop(loading);

        let lights = (0..LIGHTS).map(|_| cells.take()).collect::<Result<_, _>>()?;
        let layout = gpu.descriptors()?.binding_layout(&BINDINGS)?;
        let mut materials = Vec::new();
        for _ in 0..MATERIALS {
            let mut set = BindingSet::new(&layout)?;
            let textures = [cells.take()?, cells.take()?];
            for (binding, (cell, _)) in textures.iter().enumerate() {
                set.bind(binding, 0, &cell.descriptor(gpu.device()), cell.keep())?;
            }
            materials.push(Material { set, textures });
        }
        Ok(Self { harness, draws, materials, lights, held: None, in_flight: 0, drawing: Duration::ZERO })
    }

    fn frame(&mut self) -> Outcome {
        let frame = self.harness.begin()?;
        if frame.number() == HELD.start {
            self.held = Some(self.harness.gpu.record("never submitted"));
        } else if frame.number() == HELD.end {
            self.held = None;
        }

        let (mut transient, mut list) = (frame.transient_descriptors()?, self.harness.list());
        let first = frame.number() as usize * self.draws;
        let began = Instant::now();
        for draw in 0..self.draws {
            if draw % (self.draws / CHANGES) == 0 {
                self.change((first + draw) / (self.draws / CHANGES))?;
            }
            list.extend(self.draw(&frame, first + draw, &mut transient)?);
        }
        self.drawing += began.elapsed();
        self.harness.submit(&frame, None, &transient, list)?;
        self.harness.end(frame)
    }

    /// A material gets another texture. Its set gets another table where draws may read the one that it has: those that
    /// are recorded already, and those of the frames in flight, go on with that.
    fn change(&mut self, number: usize) -> Outcome {
        self.in_flight += u64::from(self.harness.is_busy());
        let Harness { gpu, cells, .. } = &mut self.harness;
        let material = &mut self.materials[number % MATERIALS];
        let binding = number / MATERIALS % 2;
        let (cell, value) = cells.take()?;
        material.set.bind(binding, 0, &cell.descriptor(gpu.device()), cell.keep())?;
        let (old, _) = core::mem::replace(&mut material.textures[binding], (cell, value));
        cells.leave(old);
        Ok(())
    }

    /// A draw: what is its own is bound, and all of it goes to where shaders see it.
    fn draw(&mut self, frame: &Frame<D>, number: usize, to: &mut TransientDescriptors<D>) -> Outcome<Reads> {
        let device = self.harness.gpu.device();
        // No cell has such a value.
        let instance = 1 << 31 | number as u32;
        let upload = frame.upload(instance.to_ne_bytes())?;
        let bytes = upload.offset..upload.offset + CELL;
        // SAFETY: the bytes stay until the GPU has completed the frame, and the next 252 belong to them.
        let descriptor = unsafe { device.buffer_descriptor(&upload.buffer, bytes, BufferUse::ReadOnly) };
        let (light, light_value) = &self.lights[number * 31 % LIGHTS];

        let Material { set, textures } = &mut self.materials[number * 7 % MATERIALS];
        set.bind(INSTANCE, 0, &descriptor, None)?;
        set.bind(LIGHT, 0, &light.descriptor(device), None)?;
        let committed = set.commit(to)?;

        let tables = committed.table.into_iter().chain(committed.dynamic);
        let mut indices = tables.flat_map(|TableLocation { first, count, .. }| first..first + count);
        let mut read = |value| indices.next().map(|index| (index, value)).ok_or("no descriptor");
        Ok([read(textures[0].1)?, read(textures[1].1)?, read(instance)?, read(*light_value)?])
    }

    /// After the last frame: everything goes, and all of it is seen to have gone.
    fn finish(mut self) -> Outcome {
        self.harness.wait()?;
        let Self { mut harness, draws, materials, lights, .. } = self;
        row("draws", format_args!("{draws} a frame, of {MATERIALS} materials"));
        row("a draw takes the CPU", format_args!("{:.0?}", self.drawing / (FRAMES as u32 * draws as u32)));
        let heap = harness.heap.statistics();
        row("transient descriptors at most", heap.transient.peak);
        row("descriptors in tables at most", heap.tables.peak);
        row("materials changed in flight", self.in_flight);
        let textures = materials.into_iter().flat_map(|material| material.textures);
        textures.chain(lights).for_each(|(cell, _)| harness.cells.leave(cell));
        harness.finish()
    }
}

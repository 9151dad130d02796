//! The frames, on any device.
//!
//! ```text
//!   a material's set   albedo  normals   instance  light
//!   changes            now and then      with each draw
//!   what a draw reads  [  0  ][  1  ]    [  0  ][  1  ]
//!                      ╰ long-lived ╯    ╰ copied to the recording's chunk ╯
//! ```

use core::error::Error;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use allotment::MemoryUsage;
use allotment::descriptor::{
    Binding, BindingSet, ShaderVisibleHeap, ShaderVisibleHeapDesc, TableLocation, TransientDescriptors,
};
use allotment::device::{BufferUse, DescriptorDevice, DescriptorHeapType};
use allotment::gpu::Gpu;
use allotment::lifetime::Recording;
use allotment::memory::MappedBuffer;
use allotment_readers::DescriptorReader;

use crate::cells::{CELL, Cell, Cells};
use crate::cost::Cost;
use crate::reads::{self, IN_FLIGHT, List, Reads, TIMEOUT};

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

/// Descriptors of a chunk.
const CHUNK: u32 = 256;

/// Descriptors that a draw copies.
const DYNAMIC: u32 = 2;

/// A recording is opened in one frame and discarded in a later one: until then, nothing that it may use is released.
/// More descriptors are pending release then than at any later time.
const HELD: core::ops::Range<u64> = 4..12;

/// More than the textures of the materials, the lights and the descriptors that are pending release.
const CELLS: u64 = 4096;

/// Commits that are timed alone.
const TIMED: u32 = 100_000;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The resources that shaders read.
type Read<D> = (Arc<Cell<D>>, u32);

struct Material<D: DescriptorDevice> {
    set: BindingSet<D>,
    /// The material's own bindings.
    textures: [Read<D>; 2],
}

/// Everything that a frame needs.
pub(crate) struct Frames<D: DescriptorDevice, R> {
    /// Of a frame.
    draws: usize,
    gpu: Gpu<D>,
    heap: Arc<ShaderVisibleHeap<D>>,
    cells: Cells<D>,
    materials: Vec<Material<D>>,
    lights: Vec<Read<D>>,
    /// The data of each draw, for each frame in flight.
    instances: Vec<MappedBuffer<D>>,
    reads: Reads<D, R>,
    held: Option<Recording>,
    cost: Cost,
    seen: Seen,
}

/// The figures that the example prints.
#[derive(Default)]
struct Seen {
    draws: u64,
    chunks: u64,
    changed: u64,
    /// Of these, while the frame before was not over.
    in_flight: u64,
    drawing: Duration,
    most_tables: u32,
}

impl<D: DescriptorDevice + Clone, R: DescriptorReader<D>> Frames<D, R> {
    /// Before the first frame: all materials are there.
    pub(crate) fn new(device: D, is_read: bool) -> Outcome<Self> {
        // Room for the draws of the frames in flight and of the one that is made, each in chunks of its own; and a 64th
        // of it for each frame, which may be taken ahead of need.
        let limits = device.descriptor_limits().resources;
        let room = limits.max_capacity.saturating_sub(limits.reserved + TABLES);
        let frames = IN_FLIGHT as u32 + 1;
        let each = DYNAMIC.next_multiple_of(limits.table_alignment);
        let draws = (room / 16 * 15 / frames / CHUNK * CHUNK / each).min(DRAWS as u32);
        let transient = (draws * each).next_multiple_of(CHUNK) * frames / 15 * 16 + frames * CHUNK;
        let transient = transient.min(room / CHUNK * CHUNK);
        let draws = draws as usize;
        let desc = ShaderVisibleHeapDesc::resources().with_regions(0, TABLES, transient).with_chunk(CHUNK);
        let gpu = reads::gpu(device, desc, draws * BINDINGS.len())?;
        let heap = Arc::clone(gpu.descriptors()?.resources());
        let reader = R::new(gpu.device(), heap.statistics().capacity)?;
        // As many chunks as there will ever be at once, so that no list of them has to grow later.
        let recordings: Vec<_> = (0..=IN_FLIGHT).map(|_| gpu.record("load")).collect();
        let mut rooms: Vec<_> = recordings.iter().map(|open| heap.begin(open)).collect::<Result<_, _>>()?;
        for room in &mut rooms {
            (0..draws).try_for_each(|_| room.allocate(DYNAMIC).map(drop))?;
        }
        drop((rooms, recordings));

        let mut cells = Cells::new();
        cells.reserve(CELLS, gpu.allocator(), &reader)?;
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
        let upload = MemoryUsage::Upload.with_name("instances");
        let info = reader.buffer_info(draws as u64 * CELL, false);
        let instances = (0..IN_FLIGHT).map(|_| MappedBuffer::new(gpu.allocator(), &info, &upload));
        let instances = instances.collect::<Result<_, _>>()?;
        let reads = Reads::new(&gpu, reader, draws * BINDINGS.len(), is_read)?;
        let (held, cost, seen) = (None, Cost::default(), Seen::default());
        Ok(Self { draws, gpu, heap, cells, materials, lights, instances, reads, held, cost, seen })
    }

    /// One frame.
    pub(crate) fn frame(&mut self) -> Outcome {
        self.cost.begin(self.gpu.allocator());
        let frame = self.reads.begin()?;
        let number = frame.number();
        self.cells.reclaim()?;

        if number == HELD.start {
            self.held = Some(self.gpu.record("never submitted"));
        } else if number == HELD.end {
            self.held = None;
        }

        let in_use = self.heap.statistics().transient.used;
        let (mut transient, mut list) = (frame.transient_descriptors()?, self.reads.list());
        let is_busy = self.reads.is_busy();
        let numbers = number as usize * self.draws..(number as usize + 1) * self.draws;
        let began = Instant::now();
        for (draw, number) in numbers.enumerate() {
            if draw % (self.draws / CHANGES) == 0 {
                self.change(number / (self.draws / CHANGES))?;
                self.seen.in_flight += u64::from(is_busy);
            }
            self.draw(draw, number, &mut transient, &mut list)?;
        }
        self.seen.drawing += began.elapsed();
        self.seen.draws += self.draws as u64;
        let statistics = self.heap.statistics();
        self.seen.chunks += u64::from((statistics.transient.used - in_use) / CHUNK);
        self.seen.most_tables = self.seen.most_tables.max(statistics.tables.used);

        self.reads.submit(&frame, None, &transient, list)?;
        drop(transient);
        frame.end()?;
        self.cost.end(number, self.gpu.allocator());
        Ok(())
    }

    /// A material gets another texture. Its set gets another table where draws may read the one that it has: those that
    /// are recorded already, and those of the frames in flight, go on with that.
    fn change(&mut self, number: usize) -> Outcome {
        let material = &mut self.materials[number % MATERIALS];
        let binding = number / MATERIALS % 2;
        let (cell, value) = self.cells.take()?;
        material.set.bind(binding, 0, &cell.descriptor(self.gpu.device()), cell.keep())?;
        let (old, _) = core::mem::replace(&mut material.textures[binding], (cell, value));
        self.cells.leave(old);
        self.seen.changed += 1;
        Ok(())
    }

    /// A draw: what is its own is bound, and all of it goes to where shaders see it.
    fn draw(
        &mut self,
        draw: usize,
        number: usize,
        transient: &mut TransientDescriptors<D>,
        list: &mut List,
    ) -> Outcome {
        let device = self.gpu.device();
        let instances = &self.instances[number / self.draws % IN_FLIGHT];
        let first = draw as u64 * CELL;
        // No cell has such a value.
        let instance = 1 << 31 | number as u32;
        instances.write(first, &instance.to_ne_bytes())?;
        // SAFETY: the buffer lives longer than any submission, was made for this use, and the range lies in it.
        let descriptor =
            unsafe { device.buffer_descriptor(instances.handle(), first..first + CELL, BufferUse::ReadOnly) };
        let (light, light_value) = &self.lights[number * 31 % LIGHTS];

        let Material { set, textures } = &mut self.materials[number * 7 % MATERIALS];
        set.bind(INSTANCE, 0, &descriptor, None)?;
        set.bind(LIGHT, 0, &light.descriptor(device), None)?;
        let committed = set.commit(transient)?;

        let values = [textures[0].1, textures[1].1, instance, *light_value];
        let tables = committed.table.into_iter().chain(committed.dynamic);
        let indices = tables.flat_map(|TableLocation { first, count, .. }| first..first + count);
        indices.zip(values).for_each(|(index, value)| list.push(index, value));
        Ok(())
    }

    /// How long a commit takes alone, for draws that are never submitted.
    fn time_commits(&self) -> Outcome<Duration> {
        let mut spent = Duration::ZERO;
        let mut left = TIMED;
        while left > 0 {
            let recording = self.gpu.record("never submitted");
            let mut transient = self.heap.begin(&recording)?;
            let count = left.min(self.draws as u32);
            let began = Instant::now();
            for material in self.materials.iter().cycle().take(count as usize) {
                material.set.commit(&mut transient)?;
            }
            spent += began.elapsed();
            left -= count;
            drop((transient, recording));
            self.heap.reclaim();
        }
        Ok(spent / TIMED)
    }

    /// After the last frame: everything goes, and all of it is seen to have gone.
    pub(crate) fn finish(mut self) -> Outcome {
        self.reads.finish()?;
        self.heap.drain(TIMEOUT);
        let commit = self.time_commits()?;
        let full = self.heap.statistics();
        for Material { set, textures } in self.materials.drain(..) {
            drop(set);
            textures.into_iter().for_each(|(cell, _)| self.cells.leave(cell));
        }
        self.lights.drain(..).for_each(|(cell, _)| self.cells.leave(cell));
        let left = self.heap.drain(TIMEOUT);
        self.cells.reclaim()?;
        let empty = self.heap.statistics();
        let used = empty.tables.used
            + empty.transient.used
            + self.gpu.descriptors()?.cpu_heap(DescriptorHeapType::Resource).statistics().used;

        let Self { draws, gpu, heap, cells, instances, reads, cost, seen, .. } = self;
        let allocator = Arc::clone(gpu.allocator());
        let row = |what: &str, how_much: String| println!("{what:32}{how_much}");
        let each = seen.drawing / seen.draws as u32;
        row("in flight", format!("{IN_FLIGHT} frames"));
        row("draws", format!("{}, {draws} a frame, of {MATERIALS} materials", seen.draws));
        row("a draw takes the CPU", format!("{each:.0?}, of which the commit is {commit:.0?}"));
        row("chunks", format!("{} a frame of {CHUNK}", seen.chunks * draws as u64 / seen.draws));
        row(
            "transient descriptors at most",
            format!("{} of {}", full.transient.peak, full.transient.capacity),
        );
        row("descriptors in tables at most", format!("{} of {}", seen.most_tables, full.tables.capacity));
        row("materials changed", format!("{}, {} of them in flight", seen.changed, seen.in_flight));
        row("compared on the way back", reads.summary());
        row("waited for frames in flight", format!("{:.1?}", reads.waited));
        println!("{cost}");

        let kept = cells.kept();
        drop((heap, cells, instances, reads, gpu));
        let allocations = allocator.statistics().allocations;
        if left.pending > 0 || used > 0 || kept > 0 || allocations > 0 {
            let pending = left.pending;
            let what =
                format!("{pending} things, {used} descriptors, {kept} cells and {allocations} allocations");
            return Err((what + " are left").into());
        }
        Ok(cost.check()?)
    }
}

//! The frames, on any device.
//!
//! ```text
//!   slots     ▓▓▓▓▒▓▓▓▒▓▓▓▓▓░░░░     ▒ replaced or removed; comes back when nothing in flight can read it
//!   CPU       frame 7: writes ░, forgets ▒          frame 8 …
//!   GPU       frame 5: reads ▓▒      frame 6: reads ▓▒       frame 7: reads ▓ and the new ░
//! ```

use core::error::Error;
use std::sync::Arc;

use allotment::descriptor::{DescriptorSlot, ShaderVisibleHeap, ShaderVisibleHeapDesc, TransientDescriptors};
use allotment::device::DescriptorDevice;
use allotment::gpu::{Frame, Gpu};
use allotment::lifetime::Recording;
use allotment_readers::DescriptorReader;

use crate::cells::{Cell, Cells};
use crate::cost::Cost;
use crate::reads::{self, IN_FLIGHT, List, Reads, TIMEOUT};

/// Textures from the start.
const TEXTURES: usize = 100_000;

/// When the heap grows, to how many slots at most, and how many textures come with each frame from then on, until there
/// are enough of them.
const GROWS: u64 = 24;
const GROWN: u32 = 163_840;
const COME: usize = 4_000;
const MOST_TEXTURES: usize = 140_000;

/// A list that is recorded before the heap grows and submitted long after that.
const LATE_OPENED: u64 = GROWS - 3;
const LATE_SUBMITTED: u64 = GROWS + 4;

/// Textures that get other contents in a frame.
const REPLACED: usize = 256;

/// Textures that go in a frame, and as many come.
const MOVED: usize = 64;

/// Textures that the GPU reads in a frame.
const READS: usize = if cfg!(debug_assertions) { 4_000 } else { 20_000 };

/// More than the textures and the slots that are pending release at one time.
const CELLS: u64 = 147_456;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A texture, which shaders find by the index of its slot.
struct Texture<D: DescriptorDevice> {
    slot: DescriptorSlot,
    cell: Arc<Cell<D>>,
    value: u32,
}

/// A list that takes its time.
struct Late<D: DescriptorDevice> {
    recording: Recording,
    /// The heap as it was when it was opened.
    transient: TransientDescriptors<D>,
    list: List,
}

/// How many there are of what: less on a device whose heaps have less.
#[derive(Clone, Copy)]
struct Sizes {
    slots: u32,
    textures: usize,
    /// Once the heap has grown.
    most_slots: u32,
    most_textures: usize,
}

impl Sizes {
    fn on<D: DescriptorDevice>(device: &D) -> Self {
        let limits = device.descriptor_limits().resources;
        let most_slots = GROWN.min(limits.max_capacity.saturating_sub(limits.reserved));
        let slots = most_slots / 5 * 4;
        // Room is left for slots that are pending release.
        let textures = TEXTURES.min(slots as usize / 32 * 25);
        let most_textures = MOST_TEXTURES.min(most_slots as usize / 8 * 7);
        Self { slots, textures, most_slots, most_textures }
    }
}

/// Everything that a frame needs.
pub(crate) struct Frames<D: DescriptorDevice, R> {
    sizes: Sizes,
    gpu: Gpu<D>,
    heap: Arc<ShaderVisibleHeap<D>>,
    cells: Cells<D>,
    textures: Vec<Texture<D>>,
    reads: Reads<D, R>,
    late: Option<Late<D>>,
    cost: Cost,
    seen: Seen,
}

/// The figures that the example prints.
#[derive(Default)]
struct Seen {
    replaced: u64,
    removed: u64,
    /// Of both, while the frame before was not over.
    in_flight: u64,
    most_retiring: u32,
    late: usize,
}

impl<D: DescriptorDevice + Clone, R: DescriptorReader<D>> Frames<D, R> {
    /// Before the first frame: all textures are there.
    pub(crate) fn new(device: D, is_read: bool) -> Outcome<Self> {
        let sizes = Sizes::on(&device);
        let desc = ShaderVisibleHeapDesc::resources().with_regions(sizes.slots, 0, 0);
        let gpu = reads::gpu(device, desc, READS)?;
        let heap = Arc::clone(gpu.descriptors()?.resources());
        let reader = R::new(gpu.device(), heap.statistics().capacity)?;

        let mut cells = Cells::new();
        cells.reserve(CELLS, gpu.allocator(), &reader)?;
        let mut textures = Vec::with_capacity(sizes.most_textures);
        for _ in 0..sizes.textures {
            textures.push(new_texture(&heap, &mut cells)?);
        }
        let reads = Reads::new(&gpu, reader, READS, is_read)?;
        let (late, cost, seen) = (None, Cost::default(), Seen::default());
        Ok(Self { sizes, gpu, heap, cells, textures, reads, late, cost, seen })
    }

    /// One frame.
    pub(crate) fn frame(&mut self) -> Outcome {
        self.cost.begin(self.gpu.allocator());
        let frame = self.reads.begin()?;
        let number = frame.number();
        self.cells.reclaim()?;

        self.change(number)?;
        self.late(&frame)?;
        // The GPU reads what has just changed, what the next frame changes, and some of all others in turn.
        let (transient, mut list) = (frame.transient_descriptors()?, self.reads.list());
        self.write(number, &mut list);
        self.reads.submit(&frame, None, &transient, list)?;
        let retiring = self.heap.statistics().slots.retiring;
        self.seen.most_retiring = self.seen.most_retiring.max(retiring);
        drop(transient);
        frame.end()?;
        self.cost.end(number, self.gpu.allocator());
        Ok(())
    }

    /// Changes, removes and adds textures while frames in flight read them.
    fn change(&mut self, frame: u64) -> Outcome {
        let is_busy = self.reads.is_busy();
        let (device, count) = (self.gpu.device(), self.textures.len());
        for at in changing(frame, count) {
            let (cell, value) = self.cells.take()?;
            let texture = &mut self.textures[at];
            // What is in flight goes on reading the old one, in its old slot.
            texture.slot = self.heap.replace(texture.slot, &cell.descriptor(device), cell.keep())?;
            self.cells.leave(core::mem::replace(&mut texture.cell, cell));
            texture.value = value;
        }
        for at in 0..MOVED {
            let gone = self.textures.swap_remove((frame as usize * MOVED + at) * 97 % self.textures.len());
            self.heap.remove(gone.slot)?;
            self.cells.leave(gone.cell);
        }
        for _ in 0..MOVED {
            self.textures.push(new_texture(&self.heap, &mut self.cells)?);
        }
        self.seen.replaced += REPLACED as u64;
        self.seen.removed += MOVED as u64;
        self.seen.in_flight += if is_busy { (REPLACED + MOVED) as u64 } else { 0 };

        if frame == GROWS {
            // Slots keep their index. A recording that is open goes on with the heap that it began with.
            self.heap.grow(self.sizes.most_slots, 0, 0)?;
        }
        let come = if frame < GROWS { 0 } else { COME.min(self.sizes.most_textures - self.textures.len()) };
        for _ in 0..come {
            self.textures.push(new_texture(&self.heap, &mut self.cells)?);
        }
        Ok(())
    }

    fn write(&self, frame: u64, list: &mut List) {
        let count = self.textures.len();
        let changing = changing(frame, count).chain(changing(frame + 1, count));
        let others = (frame as usize * READS..).map(|at| at % count);
        for at in changing.chain(others).take(READS) {
            let texture = &self.textures[at];
            list.push(texture.slot.index(), texture.value);
        }
    }

    /// A list is recorded in one frame, and submitted when many of its textures have been replaced, and the heap as well.
    fn late(&mut self, frame: &Frame<D>) -> Outcome {
        if frame.number() == LATE_OPENED {
            let (recording, mut list) = (self.gpu.record("late"), self.reads.list());
            let transient = self.heap.begin(&recording)?;
            self.write(frame.number(), &mut list);
            self.late = Some(Late { recording, transient, list });
        } else if let Some(late) = self.late.take_if(|_| frame.number() == LATE_SUBMITTED) {
            self.seen.late = late.list.len();
            self.reads.submit(frame, Some(late.recording), &late.transient, late.list)?;
        }
        Ok(())
    }

    /// After the last frame: everything goes, and all of it is seen to have gone.
    pub(crate) fn finish(mut self) -> Outcome {
        self.reads.finish()?;
        let full = self.heap.statistics();
        for texture in self.textures.drain(..) {
            self.heap.remove(texture.slot)?;
            self.cells.leave(texture.cell);
        }
        let left = self.heap.drain(TIMEOUT);
        self.cells.reclaim()?;
        let empty = self.heap.statistics();

        let Self { sizes, gpu, heap, cells, reads, cost, seen, .. } = self;
        let allocator = Arc::clone(gpu.allocator());
        let row = |what: &str, how_much: String| println!("{what:32}{how_much}");
        row("in flight", format!("{IN_FLIGHT} frames"));
        row("textures", format!("{}, then {}", sizes.textures, sizes.most_textures));
        let Sizes { slots, most_slots, .. } = sizes;
        row("slots", format!("{slots}, then {most_slots}: the heap was replaced in frame {GROWS}"));
        row("slots in use at most", full.slots.peak.to_string());
        row("slots pending release at most", seen.most_retiring.to_string());
        row("replaced", seen.replaced.to_string());
        row("removed, and as many added", seen.removed.to_string());
        row("of both, frames in flight", seen.in_flight.to_string());
        row("compared on the way back", reads.summary());
        row("of the late list", format!("{}, through the heap that was replaced", seen.late));
        row("waited for frames in flight", format!("{:.1?}", reads.waited));
        println!("{cost}");

        let kept = cells.kept();
        drop((heap, cells, reads, gpu));
        let allocations = allocator.statistics().allocations;
        if left.pending > 0 || empty.slots.used > 0 || kept > 0 || allocations > 0 {
            let (pending, used) = (left.pending, empty.slots.used);
            let what =
                format!("{pending} things, {used} slots, {kept} textures and {allocations} allocations");
            return Err((what + " are left").into());
        }
        Ok(cost.check()?)
    }
}

/// A texture with contents of its own, in a slot that keeps it.
fn new_texture<D: DescriptorDevice>(
    heap: &ShaderVisibleHeap<D>,
    cells: &mut Cells<D>,
) -> Outcome<Texture<D>> {
    let (cell, value) = cells.take()?;
    let slot = heap.insert(&cell.descriptor(heap.allocator().device()), cell.keep())?;
    Ok(Texture { slot, cell, value })
}

/// Returns which textures change in a frame.
fn changing(frame: u64, count: usize) -> impl Iterator<Item = usize> {
    (0..REPLACED).map(move |at| (frame as usize * REPLACED + at) * 7919 % count)
}

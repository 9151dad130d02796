//! A hundred thousand textures that shaders find by a number, while hundreds of them come, go and change in each frame.
//!
//! ```sh
//! cargo run --release --example bindless -p allotment-examples                 # on the simulated device
//! cargo run --release --example bindless -p allotment-examples -- vulkan       # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example bindless -p allotment-examples -- vulkan sets  # without descriptor buffers
//! cargo run --release --example bindless -p allotment-examples -- d3d12        # on Windows
//! ```
//!
//! Nothing waits before it changes something. What the GPU read through each descriptor comes back, and the CPU compares
//! every value with what that frame must have seen. In mid-flight the heap is replaced by a larger one. A steady frame
//! gets no memory from the driver and none from Rust's heap, or this fails.
//!
//! ```text
//!   slots     ▓▓▓▓▒▓▓▓▒▓▓▓▓▓░░░░     ▒ replaced or removed; comes back when nothing in flight can read it
//!   CPU       frame 7: writes ░, forgets ▒          frame 8 …
//!   GPU       frame 5: reads ▓▒      frame 6: reads ▓▒       frame 7: reads ▓ and the new ░
//! ```

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;

use allotment::descriptor::{DescriptorSlot, ShaderVisibleHeapDesc, TransientDescriptors};
use allotment::device::DescriptorDevice;
use allotment::gpu::Frame;
use allotment::lifetime::Recording;
use allotment_readers::DescriptorReader;

use common::cells::Cell;
use common::harness::{Harness, List};
use common::report::row;
use common::{Outcome, device};

/// More than it takes everything to grow to the size that it keeps.
const FRAMES: u64 = if cfg!(debug_assertions) { 120 } else { 300 };

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

device::main!("bindless", bindless);

fn bindless<D: DescriptorDevice + Clone, R: DescriptorReader<D>>(device: D, is_read: bool) -> Outcome {
    let mut scene = Scene::<D, R>::new(device, is_read)?;
    for _ in 0..FRAMES {
        scene.frame()?;
    }
    scene.finish()
}

/// A texture, which shaders find by the index of its slot.
struct Texture<D: DescriptorDevice> {
    slot: DescriptorSlot,
    cell: Arc<Cell<D>>,
    value: u32,
}

struct Scene<D: DescriptorDevice, R> {
    harness: Harness<D, R>,
    textures: Vec<Texture<D>>,
    /// How many slots and textures there are once the heap has grown.
    most_slots: u32,
    most_textures: usize,
    /// A list that is recorded and not submitted, and the heap as it was when that began.
    late: Option<(Recording, TransientDescriptors<D>, List)>,
    /// Textures that were replaced or removed while frames in flight read them.
    changed_in_flight: usize,
}

impl<D: DescriptorDevice + Clone, R: DescriptorReader<D>> Scene<D, R> {
    /// Before the first frame: all textures are there.
    fn new(device: D, is_read: bool) -> Outcome<Self> {
        // A device whose heaps have fewer slots gets fewer textures. Room is left for slots that are pending release.
        let desc = ShaderVisibleHeapDesc::resources().with_regions(GROWN, 0, 0);
        let most_slots = desc.within(&device.descriptor_limits().resources).slots;
        let most_textures = MOST_TEXTURES.min(most_slots as usize / 8 * 7);
        let slots = most_slots / 5 * 4;
        let count = TEXTURES.min(slots as usize / 32 * 25);
        row("textures", format_args!("{count}, then {most_textures}"));
        row("slots", format_args!("{slots}, then {most_slots}: the heap is replaced in frame {GROWS}"));

        let harness = Harness::new(device, desc.with_regions(slots, 0, 0), CELLS, READS, is_read)?;
        let textures = Vec::with_capacity(most_textures);
        let (late, changed_in_flight) = (None, 0);
        let mut scene = Self { harness, textures, most_slots, most_textures, late, changed_in_flight };
        scene.add(count)?;
        Ok(scene)
    }

    /// Adds textures with contents of their own, each in a slot that keeps its texture.
    fn add(&mut self, count: usize) -> Outcome {
        let Harness { gpu, heap, cells, .. } = &mut self.harness;
        for _ in 0..count {
            let (cell, value) = cells.take()?;
            let slot = heap.insert(&cell.descriptor(gpu.device()), cell.keep())?;
            self.textures.push(Texture { slot, cell, value });
        }
        Ok(())
    }

    fn frame(&mut self) -> Outcome {
        let frame = self.harness.begin()?;
        self.change(frame.number())?;
        self.late(&frame)?;
        let (transient, list) = (frame.transient_descriptors()?, self.list(frame.number()));
        self.harness.submit(&frame, None, &transient, list)?;
        self.harness.end(frame)
    }

    /// Changes, removes and adds textures while frames in flight read them.
    fn change(&mut self, frame: u64) -> Outcome {
        self.changed_in_flight += if self.harness.is_busy() { REPLACED + MOVED } else { 0 };
        let Harness { gpu, heap, cells, .. } = &mut self.harness;
        for at in changing(frame, self.textures.len()) {
            let (cell, value) = cells.take()?;
            let texture = &mut self.textures[at];
            // What is in flight goes on reading the old one, in its old slot.
            texture.slot = heap.replace(texture.slot, &cell.descriptor(gpu.device()), cell.keep())?;
            cells.leave(core::mem::replace(&mut texture.cell, cell));
            texture.value = value;
        }
        for at in 0..MOVED {
            let gone = self.textures.swap_remove((frame as usize * MOVED + at) * 97 % self.textures.len());
            heap.remove(gone.slot)?;
            cells.leave(gone.cell);
        }
        if frame == GROWS {
            // Slots keep their index. A recording that is open goes on with the heap that it began with.
            heap.grow(self.most_slots, 0, 0)?;
        }
        self.add(MOVED)?;
        self.add(if frame < GROWS { 0 } else { COME.min(self.most_textures - self.textures.len()) })
    }

    /// Returns what the GPU reads: what has just changed, what the next frame changes, and some of all others in turn.
    fn list(&mut self, frame: u64) -> List {
        let (mut list, count) = (self.harness.list(), self.textures.len());
        let changing = changing(frame, count).chain(changing(frame + 1, count));
        let others = (frame as usize * READS..).map(|at| at % count);
        let read = |at: usize| (self.textures[at].slot.index(), self.textures[at].value);
        list.extend(changing.chain(others).take(READS).map(read));
        list
    }

    /// A list is recorded in one frame, and submitted when many of its textures have been replaced, and the heap as well.
    fn late(&mut self, frame: &Frame<D>) -> Outcome {
        if frame.number() == LATE_OPENED {
            let recording = self.harness.gpu.record("late");
            let transient = self.harness.heap.begin(&recording)?;
            self.late = Some((recording, transient, self.list(LATE_OPENED)));
        } else if let Some((recording, heap, list)) = self.late.take_if(|_| frame.number() == LATE_SUBMITTED)
        {
            row("of the late list", format_args!("{}, through the heap that was replaced", list.len()));
            self.harness.submit(frame, Some(recording), &heap, list)?;
        }
        Ok(())
    }

    /// After the last frame: everything goes, and all of it is seen to have gone.
    fn finish(self) -> Outcome {
        let Self { mut harness, textures, changed_in_flight, .. } = self;
        row("slots pending release", harness.heap.statistics().slots.retiring);
        harness.wait()?;
        row("slots in use at most", harness.heap.statistics().slots.peak);
        row("replaced and removed in flight", changed_in_flight);
        for texture in textures {
            harness.heap.remove(texture.slot)?;
            harness.cells.leave(texture.cell);
        }
        harness.finish()
    }
}

/// Returns which textures change in a frame.
fn changing(frame: u64, count: usize) -> impl Iterator<Item = usize> {
    (0..REPLACED).map(move |at| (frame as usize * REPLACED + at) * 7919 % count)
}

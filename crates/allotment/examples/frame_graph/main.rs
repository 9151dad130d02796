//! The frame graph of a deferred renderer: 35 passes, three of which run beside the others on a queue for compute, and 41
//! targets, in memory that they share. The screen is resized while frames are in flight.
//!
//! ```sh
//! cargo run --example frame_graph -p allotment-examples                    # on the simulated GPU
//! cargo run --example frame_graph -p allotment-examples -- vulkan
//! cargo run --example frame_graph -p allotment-examples -- d3d12           # on Windows
//! cargo run --example frame_graph -p allotment-examples -- --divide 4     # a screen of a quarter of the sides
//! ```
//!
//! ```text
//!   graphics   depth ─ geometry ─┬─ cascades ─ shadow mask ─ sky ──┬─ lighting ─ … ─ presentation
//!   compute                      ╰─ occlusion ─ blur ─ lights ─────╯
//! ```
//!
//! A pass here is a submission that copies: into what it draws to, texels that are known; out of what it reads, some rows, which
//! are compared when the frame is through. A target that shared bytes with another one at the wrong time, a wait that is not
//! there, or contents that a resize has lost would show as other texels.

#[path = "../common/mod.rs"]
mod common;
mod pattern;
mod renderer;

use std::collections::{HashMap, VecDeque};

use allotment::device::{
    BufferCopy, BufferDesc, CopyDirection, DescriptorDevice, ImageAspect, ImageCopy, ImageDesc, ImageShape,
    QueueIndex, QueueKind, SharingMode, Submission, TexelBlock, TimelinePoint,
};
use allotment::gpu::{TransientBuffer, TransientHeap, TransientImage, TransientResources};
use allotment::lifetime::TimelinePoints;
use allotment::memory::{AllocationId, MappedBuffer};
use allotment::transient::{HeapLimits, TransientPass, TransientPlan, TransientResource};
use allotment::{Frame, Gpu, GpuDesc, MemoryUsage};
use allotment_readers::DescriptorReader;

use common::report::{check_that_nothing_is_left, mib, row};
use common::{Outcome, device, trace};
use pattern::{Pattern, Words};
use renderer::{Format, HISTORIES, Kind, PASSES, Side, TARGETS};

const GRAPHICS: QueueIndex = QueueIndex(0);
const IN_FLIGHT: usize = 3;

/// Frames with a screen of each size.
const FRAMES: u32 = 4;

/// Width and height of the screen, one after the other.
const SCREENS: [[u32; 2]; 4] = [[1920, 1080], [2560, 1440], [3840, 2160], [1920, 1080]];

/// Rows of each input that are compared.
const ROWS: u32 = 8;

/// A target of a frame.
#[derive(Clone, Copy)]
enum Handle {
    Image(TransientImage),
    Buffer(TransientBuffer),
}

/// Bytes that a pass has read.
struct Found {
    pass: &'static str,
    target: &'static str,
    words: Words,
    /// Where they are in the frame's readback buffer.
    at: u64,
    /// Where the write that they come from has read them.
    expected: u64,
    bytes: u64,
}

/// A frame that the GPU may not have completed.
struct InFlight<D: DescriptorDevice> {
    point: TimelinePoint,
    readback: MappedBuffer<D>,
    found: Vec<Found>,
}

struct Renderer<D: DescriptorDevice, R> {
    gpu: Gpu<D>,
    heap: TransientHeap<D>,
    compute: QueueIndex,
    patterns: [Pattern<D>; 2],
    /// The state that each image was left in.
    states: HashMap<AllocationId, D::ImageState>,
    /// Where the last write to each target has read.
    written: HashMap<&'static str, u64>,
    writes: u64,
    in_flight: VecDeque<InFlight<D>>,
    compared: u64,
    reader: core::marker::PhantomData<R>,
}

/// A copy between rows of an image and a buffer, from an offset on.
struct CopyOfImage<D: DescriptorDevice> {
    image: D::Image,
    place: ImagePlace,
    buffer: D::Buffer,
    offset: u64,
    direction: CopyDirection,
    /// Before and after.
    states: [D::ImageState; 2],
}

/// The copies of a pass, with the handles that they name.
struct Copies<D: DescriptorDevice> {
    images: Vec<CopyOfImage<D>>,
    buffers: Vec<[(D::Buffer, u64); 2]>,
    sizes: Vec<u64>,
}

/// Rows of an image and how they lie in a buffer.
#[derive(Clone, Copy)]
struct ImagePlace {
    shape: ImageShape,
    aspect: ImageAspect,
    pitch: u64,
    first_row: u32,
    rows: u32,
}

impl<D: DescriptorDevice + Clone, R: DescriptorReader<D>> Renderer<D, R> {
    fn new(gpu: &Gpu<D>, divisor: u32) -> Outcome<Self> {
        let queues = &gpu.device().properties().queues;
        let compute = queues.iter().position(|&kind| kind == QueueKind::Compute).unwrap_or(0);
        let [width, height] = largest_screen(divisor);
        let largest = u64::from(width) * 8 * u64::from(height) + (1 << 20);
        let patterns = [
            Pattern::new(gpu, Words::Any, largest.max(4 << 20))?,
            Pattern::new(gpu, Words::Depth, largest / 2 + (4 << 20))?,
        ];
        Ok(Self {
            gpu: gpu.clone(),
            heap: gpu.transient_heap(HeapLimits::default()),
            // There are no more than 16.
            compute: QueueIndex(compute as u8),
            patterns,
            states: HashMap::new(),
            written: HashMap::new(),
            writes: 0,
            in_flight: VecDeque::new(),
            compared: 0,
            reader: core::marker::PhantomData,
        })
    }

    /// Describes the frame's passes and targets, and plans them.
    fn describe<'a>(
        heap: &'a mut TransientHeap<D>,
        frame: &'a Frame<D>,
        compute: QueueIndex,
        screen: [u32; 2],
    ) -> Outcome<(TransientResources<'a, D>, Vec<TransientPass>, Vec<Handle>)> {
        let mut graph = frame.transient(heap)?;
        let mut passes: Vec<TransientPass> = Vec::new();
        for pass in PASSES {
            let queue = if pass.is_async { compute } else { GRAPHICS };
            let waits = PASSES.iter().zip(&passes).filter(|(it, _)| pass.waits_for.contains(&it.name));
            let waits: Vec<TransientPass> = waits.map(|(_, &it)| it).collect();
            passes.push(graph.pass(queue, &waits)?);
        }
        let mut targets = Vec::new();
        for target in TARGETS {
            let of = |uses: fn(&renderer::Pass) -> [&'static [&'static str]; 2]| {
                let users = PASSES.iter().zip(&passes);
                let users = users.filter(|(it, _)| uses(it).iter().any(|list| list.contains(&target.name)));
                users.map(|(_, &pass)| pass).collect::<Vec<_>>()
            };
            let (uses, reads_before) = (of(|it| [it.reads, it.writes]), of(|it| [it.reads_before, &[]]));
            let is_history = HISTORIES.contains(&target.name);
            targets.push(match target.kind {
                Kind::Buffer(bytes) => {
                    let desc = BufferDesc::new(bytes).with_sharing_mode(SharingMode::Concurrent).into();
                    Handle::Buffer(graph.buffer(target.name, &desc, &uses)?)
                }
                Kind::Image(format, side) => {
                    let desc = image_desc::<D, R>(format, side, screen).into();
                    Handle::Image(match is_history {
                        true => graph.history_image(target.name, &desc, &uses, &reads_before)?,
                        false => graph.image(target.name, &desc, &uses)?,
                    })
                }
            });
        }
        Ok((graph.plan()?, passes, targets))
    }

    /// Draws a frame.
    fn draw(&mut self, screen: [u32; 2]) -> Outcome {
        let frame = self.gpu.begin_frame()?;
        let (transient, passes, targets) = Self::describe(&mut self.heap, &frame, self.compute, screen)?;
        let limits = &self.gpu.device().properties().limits;
        let readback = MemoryUsage::Readback.with_name("readback");
        let readback =
            self.gpu.create_mapped_buffer(&BufferDesc::new(readback_bytes(screen)).into(), &readback)?;
        let mut found = Vec::new();
        let mut end = 0;
        let mut points: Vec<TimelinePoint> = Vec::new();
        for (pass, &handle) in PASSES.iter().zip(&passes) {
            let mut copies = Copies::<D> { images: Vec::new(), buffers: Vec::new(), sizes: Vec::new() };
            let queue = if pass.is_async { self.compute } else { GRAPHICS };
            let firsts: Vec<TransientResource> =
                transient.first_uses(handle).map(|first| first.resource).collect();
            for (target, &handle) in TARGETS.iter().zip(&targets) {
                let resource = match handle {
                    Handle::Image(image) => image.resource(),
                    Handle::Buffer(buffer) => buffer.resource(),
                };
                let reads_before = pass.reads_before.contains(&target.name) && transient.is_kept(resource);
                let is_read = pass.reads.contains(&target.name) || reads_before;
                let is_written = pass.writes.contains(&target.name);
                if !is_read && !is_written {
                    continue;
                }
                let words = match target.kind {
                    Kind::Image(Format::Depth, _) => Words::Depth,
                    _ => Words::Any,
                };
                let source = if is_written {
                    self.writes += 1;
                    self.written.insert(target.name, Pattern::<D>::offset_of(self.writes));
                    self.written[target.name]
                } else {
                    // A history that was never filled is none.
                    let Some(&source) = self.written.get(target.name) else { continue };
                    source
                };
                let pattern = &self.patterns[usize::from(words == Words::Depth)].buffer;
                match handle {
                    Handle::Buffer(buffer) => {
                        let buffer = transient.buffer(buffer);
                        let size = buffer.size();
                        if is_written {
                            copies.buffers.push([(pattern.handle(), source), (buffer.handle(), 0)]);
                            copies.sizes.push(size);
                        } else {
                            let bytes = size.min(4096);
                            copies.buffers.push([(buffer.handle(), size - bytes), (readback.handle(), end)]);
                            copies.sizes.push(bytes);
                            let expected = source + size - bytes;
                            found.push(Found {
                                pass: pass.name,
                                target: target.name,
                                words,
                                at: end,
                                expected,
                                bytes,
                            });
                            end += bytes.next_multiple_of(512);
                        }
                    }
                    Handle::Image(image) => {
                        let image = transient.image(image);
                        let Kind::Image(format, side) = target.kind else { continue };
                        let desc = image_desc::<D, R>(format, side, screen);
                        let shape = self.gpu.device().image_shape(&desc.into());
                        let aspect =
                            if format == Format::Depth { ImageAspect::Depth } else { ImageAspect::Color };
                        let block = TexelBlock::new(bytes_of(format));
                        // A multiple of the words that are compared, too.
                        let pitch = block.row_pitch(desc.extent[0], limits).next_multiple_of(256);
                        let height = desc.extent[1];
                        let whole = ImagePlace { shape, aspect, pitch, first_row: 0, rows: height };
                        let known = self.states.get(&image.id()).copied().unwrap_or_default();
                        let discards =
                            firsts.contains(&resource) && self.gpu.device().discards_from_any_state();
                        let before = if discards { D::ImageState::default() } else { known };
                        // A change of the layout is a write, and two queues read some of the targets at the same time.
                        let after = R::COPIED_FROM;
                        self.states.insert(image.id(), after);
                        if is_written {
                            copies.images.push(CopyOfImage {
                                image: image.handle(),
                                place: whole,
                                buffer: pattern.handle(),
                                offset: source,
                                direction: CopyDirection::IntoImage,
                                states: [before, after],
                            });
                            continue;
                        }
                        // Direct3D 12 copies depths as a whole.
                        let places: Vec<ImagePlace> = match aspect {
                            ImageAspect::Depth => vec![whole],
                            _ => rows_of(height)
                                .map(|first_row| ImagePlace { first_row, rows: 1, ..whole })
                                .collect(),
                        };
                        let mut before = before;
                        for place in places {
                            copies.images.push(CopyOfImage {
                                image: image.handle(),
                                place,
                                buffer: readback.handle(),
                                offset: end,
                                direction: CopyDirection::OutOfImage,
                                states: [before, after],
                            });
                            before = after;
                            let bytes = block.row_bytes(desc.extent[0]);
                            let compared = rows_of(height)
                                .filter(|at| (place.first_row..place.first_row + place.rows).contains(at));
                            for at in compared {
                                let (at_row, expected) =
                                    (u64::from(at - place.first_row), source + u64::from(at) * pitch);
                                let at = end + at_row * pitch;
                                found.push(Found {
                                    pass: pass.name,
                                    target: target.name,
                                    words,
                                    at,
                                    expected,
                                    bytes,
                                });
                            }
                            end = (end + u64::from(place.rows) * pitch).next_multiple_of(512);
                        }
                    }
                }
            }
            let mut waits = transient.waits(&[handle]);
            let own = PASSES.iter().zip(&points).filter(|(it, _)| pass.waits_for.contains(&it.name));
            own.for_each(|(_, &point)| waits.insert(point));
            let mut room = TimelinePoints::ROOM;
            let point = frame.submit_after(queue, waits.as_slice(&mut room), |queue, waits| {
                copies.submit(&self.gpu, queue, waits)
            })?;
            transient.submitted(&[handle], point);
            points.push(point);
        }
        assert!(end <= readback.size(), "{end} bytes are read");
        let point = points[points.len() - 1];
        frame.end()?;
        self.in_flight.push_back(InFlight { point, readback, found });
        if self.in_flight.len() >= IN_FLIGHT {
            self.compare_oldest()?;
        }
        Ok(())
    }

    /// Waits for the oldest frame in flight, and compares what its passes have read.
    fn compare_oldest(&mut self) -> Outcome {
        let Some(InFlight { point, readback, found }) = self.in_flight.pop_front() else { return Ok(()) };
        self.gpu.wait(point)?;
        let mut bytes = Vec::new();
        for Found { pass, target, words, at, expected, bytes: size } in found {
            bytes.resize(size as usize, 0);
            readback.read(at, &mut bytes)?;
            if !words.are(expected, &bytes) {
                return Err(format!("{pass:?} reads other texels from {target:?} than were written").into());
            }
            self.compared += size;
        }
        Ok(())
    }
}

impl<D: DescriptorDevice> Copies<D> {
    fn submit(
        &self,
        gpu: &Gpu<D>,
        queue: QueueIndex,
        waits: &[TimelinePoint],
    ) -> Result<allotment::device::TimelineValue, allotment::device::DeviceError> {
        let images = self.images.iter().map(|copy| ImageCopy {
            buffer: &copy.buffer,
            buffer_offset: copy.offset,
            row_pitch: copy.place.pitch,
            rows: copy.place.rows,
            image: &copy.image,
            mip_level: 0,
            array_layer: 0,
            aspect: copy.place.aspect,
            origin: [0, copy.place.first_row, 0],
            extent: [copy.place.shape.extent[0], copy.place.rows, 1],
            texels: copy.place.shape.texels,
            direction: copy.direction,
            before: copy.states[0],
            after: copy.states[1],
        });
        let images: Vec<ImageCopy<'_, D>> = images.collect();
        let buffers = self.buffers.iter().zip(&self.sizes).map(|([from, to], &size)| BufferCopy {
            from: &from.0,
            from_offset: from.1,
            to: &to.0,
            to_offset: to.1,
            size,
        });
        let buffers: Vec<BufferCopy<'_, D>> = buffers.collect();
        // What a pass is the first to use is told to the device as a whole: these are copies, with barriers before them.
        let work = Submission { waits, copies: &buffers, image_copies: &images, ..Submission::default() };
        // SAFETY: the targets, the patterns and the readback buffer live until the frame is through, the boxes lie in them, and the
        // states are those that the passes before have left.
        unsafe { gpu.device().submit(queue, &work) }
    }
}

fn rows_of(height: u32) -> impl Iterator<Item = u32> {
    (0..ROWS)
        .map(move |at| at * (height - 1) / (ROWS - 1))
        .scan(None, |last, row| {
            let is_new = *last != Some(row);
            *last = Some(row);
            Some(is_new.then_some(row))
        })
        .flatten()
}

fn bytes_of(format: Format) -> u32 {
    match format {
        Format::R8 => 1,
        Format::Rgba8 | Format::R32F | Format::Depth => 4,
        Format::Rgba16F => 8,
    }
}

fn image_desc<D: DescriptorDevice, R: DescriptorReader<D>>(
    format: Format,
    side: Side,
    screen: [u32; 2],
) -> ImageDesc {
    let number = match format {
        Format::R8 => R::TARGETS.r8,
        Format::Rgba8 => R::TARGETS.rgba8,
        Format::Rgba16F => R::TARGETS.rgba16f,
        Format::R32F => R::TARGETS.r32f,
        Format::Depth => R::TARGETS.depth,
    };
    let [width, height] = match side {
        Side::Screen(divisor) => screen.map(|side| side.div_ceil(divisor)),
        Side::Square(side) => [side; 2],
    };
    let usage = if format == Format::Depth { R::TARGETS.depth_usage } else { R::TARGETS.color_usage };
    // Both queues use some of them.
    ImageDesc::new(width, height, number).with_usage(usage).with_sharing_mode(SharingMode::Concurrent)
}

fn largest_screen(divisor: u32) -> [u32; 2] {
    SCREENS.iter().max().map_or([0; 2], |screen| screen.map(|side| side.div_ceil(divisor)))
}

/// Bytes that the passes of a frame read at most.
fn readback_bytes([width, height]: [u32; 2]) -> u64 {
    let row = u64::from(width) * 8 + 512;
    let inputs: usize = PASSES.iter().map(|pass| pass.reads.len() + pass.reads_before.len()).sum();
    let depths = u64::from(height) * row / 2 + 6 * 1024 * 4096;
    inputs as u64 * u64::from(ROWS) * row + depths + (1 << 20)
}

fn frame_graph<D: DescriptorDevice + Clone, R: DescriptorReader<D>>(device: D) -> Outcome {
    let divisor = trace::value_of("--divide").map_or(Ok(1), |value| value.parse::<u32>())?.max(1);
    let gpu = Gpu::new(device, GpuDesc::default().with_frames_in_flight(IN_FLIGHT))?;
    trace::record(&gpu)?;
    let mut renderer = Renderer::<D, R>::new(&gpu, divisor)?;
    row("passes", PASSES.len());
    row("targets", TARGETS.len());
    for screen in SCREENS {
        let screen = screen.map(|side| side.div_ceil(divisor));
        for _ in 0..FRAMES {
            renderer.draw(screen)?;
        }
        report(renderer.heap.plan(), screen);
    }
    while !renderer.in_flight.is_empty() {
        renderer.compare_oldest()?;
    }
    row("bytes compared", mib(renderer.compared));
    let planned = renderer.heap.size();
    let allocated = |gpu: &Gpu<D>| -> Outcome<u64> {
        gpu.wait_idle()?;
        gpu.reclaim();
        Ok(gpu.allocator().statistics().allocation_bytes)
    };
    let before = allocated(&gpu)?;
    renderer.heap.release();
    let freed = before - allocated(&gpu)?;
    row("allocated for the targets", mib(freed));
    if freed != planned {
        return Err(format!("{freed} bytes were allocated instead of {planned}").into());
    }
    drop(renderer);
    check_that_nothing_is_left(gpu)
}

/// Prints what the targets take.
fn report(plan: &TransientPlan, [width, height]: [u32; 2]) {
    let saved = 100 - plan.size() * 100 / plan.total_size().max(1);
    let (size, total, bound) = (mib(plan.size()), mib(plan.total_size()), mib(plan.lower_bound()));
    row(
        &format!("{width} × {height}"),
        format!("{size} instead of {total}, {saved} % less; at least {bound}"),
    );
}

struct Main;

impl device::Example for Main {
    const NAME: &'static str = "frame_graph";
    const OPTIONS: &'static [[&'static str; 2]] = &[["--divide", "NUMBER"]];
    const NEEDS_DESCRIPTORS: bool = false;

    fn run<D, R>(device: D, _: bool) -> Outcome
    where
        D: DescriptorDevice + Clone,
        R: DescriptorReader<D>,
    {
        frame_graph::<D, R>(device)
    }
}

fn main() -> Outcome {
    device::run::<Main>()
}

//! A scene with textures: KTX2 and PNG files that two threads stream to the GPU while frames run. Each frame draws what has
//! arrived, and its picture is read back.
//!
//! ```sh
//! cargo run --example textured_scene -p allotment-examples                  # on the simulated GPU
//! cargo run --example textured_scene -p allotment-examples -- vulkan        # with descriptor indexing or descriptor buffers
//! cargo run --example textured_scene -p allotment-examples -- d3d12         # on Windows
//! cargo run --example textured_scene -p allotment-examples -- --out scene.png
//! ```
//!
//! ```text
//!   loader 1   floor.ktx2 ► image, view ► write ──╮     sky.ktx2 ► …
//!   loader 2   crate.png  ► image, view ► write ──┤
//!                                                 ╰► UploadHandle: arrived? ─► a slot in the descriptor heap
//!   frames     ┄┄ draws nothing ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┴┄ draws what has arrived ┄┄
//!                    ╰► read back ► compared, three frames later
//! ```
//!
//! The shader is one of `allotment-readers`: it samples a texture at a list of coordinates, which `scene.rs` computes. Where a
//! device lacks BC7, the files are decoded on their way to the GPU.

#[path = "../common/mod.rs"]
mod common;
mod files;
mod scene;

use core::error::Error;
use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use allotment::descriptor::{CachedSampler, DescriptorSlot, ImageView};
use allotment::device::{
    DescriptorDevice, Filter, ImageViewDesc, ImageViewDimension, QueueIndex, QueueKind, SamplerDesc,
};
use allotment::memory::Buffer;
use allotment::upload::{ReadHandle, UploadHandle, UploadStatus, UploaderDesc};
use allotment::{Frame, Gpu, GpuDesc, MemoryUsage};
use allotment_readers::{DescriptorReader, SampleAt, SampleList};

use common::report::{check_that_nothing_is_left, row};
use common::{Outcome, device, trace};
use files::{FILES, Formats, Level, Loader};
use scene::{PICTURE, SKY, Seen};

/// An error that a thread can return to another.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const QUEUE: QueueIndex = QueueIndex(0);
const IN_FLIGHT: usize = 3;

/// Threads that load files.
const LOADERS: usize = 2;

/// Staging memory in bytes: less than the files, so that several submissions have them.
const STAGING: u64 = 64 << 10;

/// What is drawn where a texture has not arrived.
const NOTHING: [u8; 4] = [96, 96, 104, 255];

/// Frames with all textures that are drawn before the program ends.
const LAST_FRAMES: u32 = 5;

/// What the threads share.
struct Shared<D: DescriptorDevice, R> {
    gpu: Gpu<D>,
    formats: Formats,
    reader: R,
    /// What the picture shows, texel by texel.
    seen: Vec<Seen>,
}

/// A texture on its way to the GPU.
struct Coming<D: DescriptorDevice> {
    number: usize,
    view: Arc<ImageView<D>>,
    /// Where the picture shows it: a list for the shader, and the number of its entries.
    list: Buffer<D>,
    count: u32,
    arrives: UploadHandle,
}

/// What the loaders send to the frames.
type Loaded<D> = mpsc::Receiver<Result<Coming<D>, Failure>>;

impl<D: DescriptorDevice + Clone, R: DescriptorReader<D>> Shared<D, R> {
    fn new(gpu: &Gpu<D>) -> Outcome<Self> {
        let formats = Formats::of::<D, R>(gpu.device())?;
        let reader = R::new(gpu.device(), gpu.descriptors()?.resources().statistics().capacity)?;
        Ok(Self { gpu: gpu.clone(), formats, reader, seen: scene::seen() })
    }

    /// Creates the texture of a file and its view. A full staging memory has this thread wait, and no frame.
    fn load(&self, number: usize) -> Result<Coming<D>, Failure> {
        // The first frame that finds the texture there draws it.
        let (gpu, arrives) = (&self.gpu, UploadHandle::streamed());
        let loader = Loader { gpu, formats: self.formats, arrives: &arrives };
        let image = Arc::new(loader.load(&FILES[number])?);
        let desc = match number {
            SKY => ImageViewDesc::sampled().with_dimension(ImageViewDimension::Cube),
            _ => ImageViewDesc::sampled(),
        };
        let view = Arc::new(gpu.create_image_view(&image, &desc)?); // of all mip levels; it keeps the image alive

        let shown = (0..).zip(&self.seen).filter(|(_, seen)| seen.texture == number);
        let entries: Vec<u8> = shown.flat_map(|(to, seen)| seen.entry(to).to_bytes()).collect();
        let info = self.reader.buffer_info(entries.len() as u64, false);
        let list = gpu.create_buffer(&info, &MemoryUsage::GpuOnly.with_name("list"))?;
        gpu.uploads().with_handle(&arrives).write_buffer(&list, 0, &entries)?;
        let count = u32::try_from(entries.len() as u64 / SampleAt::SIZE)?;
        Ok(Coming { number, view, list, count, arrives })
    }
}

fn run<D: DescriptorDevice + Clone, R: DescriptorReader<D>>(device: D, is_read: bool) -> Outcome {
    let queues = &device.properties().queues;
    let transfer = queues.iter().position(|&kind| kind == QueueKind::Transfer);
    let mut uploader = UploaderDesc::default();
    uploader.staging = STAGING;
    // Images too, beside the frames. Where the queue is of another family, the library hands them over.
    uploader.image_queue = transfer.and_then(|at| u8::try_from(at).ok()).map(QueueIndex);
    match uploader.image_queue {
        Some(queue) => row("textures are copied by", format_args!("{queue:?}, the transfer queue")),
        None => row("textures are copied by", "the graphics queue: there is no transfer queue"),
    }
    let desc = GpuDesc::default().with_frames_in_flight(IN_FLIGHT).with_uploader(uploader);
    let gpu = Gpu::new(device, desc)?;
    trace::record(&gpu)?; // with --trace FILE
    let shared = Shared::<D, R>::new(&gpu)?;
    match shared.formats.bc7 {
        Some(_) => row("BC7", "the files go to the GPU as they are"),
        None => row("BC7", "the device lacks it: the files are decoded to RGBA8"),
    }

    let mut renderer = Renderer::new(&shared, is_read)?;
    let last = thread::scope(|threads| {
        let (send, receive) = mpsc::channel();
        for loader in 0..LOADERS {
            let (send, shared) = (send.clone(), &shared);
            threads.spawn(move || {
                for number in (loader..FILES.len()).step_by(LOADERS) {
                    // Where the frames have ended with an error, nobody receives it.
                    let _ = send.send(shared.load(number));
                }
            });
        }
        drop(send);
        renderer.draw_all(&receive)
    })?;

    if let Some(file) = trace::value_of("--out") {
        write_png(&file, &last)?;
        row("written to", &file);
    }
    renderer.finish()?;
    drop(shared);
    check_that_nothing_is_left(gpu)
}

struct Renderer<'a, D: DescriptorDevice, R> {
    shared: &'a Shared<D, R>,
    sampler: CachedSampler<D>,
    picture: Buffer<D>,
    /// The textures as the GPU must show them.
    decoded: Vec<Vec<Level>>,
    coming: Vec<Coming<D>>,
    /// The textures that have arrived, each with its slot in the descriptor heap.
    drawn: [Option<(Coming<D>, DescriptorSlot)>; FILES.len()],
    /// Pictures that the GPU may not have completed: the frame, and which textures it has.
    pictures: VecDeque<(u64, [bool; FILES.len()], ReadHandle)>,
    found: Vec<u8>,
    compared: u32,
    is_read: bool,
}

impl<'a, D: DescriptorDevice + Clone, R: DescriptorReader<D>> Renderer<'a, D, R> {
    fn new(shared: &'a Shared<D, R>, is_read: bool) -> Outcome<Self> {
        let (gpu, filter) = (&shared.gpu, Filter::Nearest);
        let nearest =
            SamplerDesc { mag_filter: filter, min_filter: filter, mip_filter: filter, ..Default::default() };
        let sampler = gpu.descriptors()?.samplers().get(&nearest)?;
        let texels = shared.seen.len();
        let picture = shared.reader.buffer_info(4 * texels as u64, true);
        let picture = gpu.create_buffer(&picture, &MemoryUsage::GpuOnly.with_name("picture"))?;
        gpu.uploads().write_buffer(&picture, 0, &NOTHING.repeat(texels))?;
        let decoded: Result<_, _> = FILES.iter().map(files::decoded).collect();
        Ok(Self {
            shared,
            sampler,
            picture,
            decoded: decoded.map_err(|error| error as Box<dyn Error>)?,
            coming: Vec::new(),
            drawn: [const { None }; FILES.len()],
            pictures: VecDeque::new(),
            found: vec![0; 4 * texels],
            compared: 0,
            is_read,
        })
    }

    /// Draws frames until several of them have all textures, and returns the last picture.
    fn draw_all(&mut self, loaded: &Loaded<D>) -> Outcome<Vec<u8>> {
        let mut complete = 0;
        while complete < LAST_FRAMES {
            let frame = self.shared.gpu.begin_frame()?; // waits while three frames are in flight
            self.compare_completed(frame.number())?;
            self.receive(loaded)?;
            self.take_what_has_arrived(frame.number())?;
            self.draw(&frame)?;
            frame.end()?;
            complete += u32::from(self.drawn.iter().all(Option::is_some));
        }
        self.shared.gpu.wait_idle()?;
        self.compare_completed(u64::MAX)?;
        Ok(self.found.clone())
    }

    /// Takes the textures whose texels are staged. Never waits for a loader.
    fn receive(&mut self, loaded: &Loaded<D>) -> Outcome {
        loop {
            match loaded.try_recv() {
                Ok(texture) => self.coming.push(texture.map_err(|error| error as Box<dyn Error>)?),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => {
                    let count = self.coming.len() + self.drawn.iter().flatten().count();
                    return if count == FILES.len() { Ok(()) } else { Err("a loader has panicked".into()) };
                }
            }
        }
    }

    /// Gives each texture a slot of the descriptor heap, once the GPU has all of its texels: no frame waits for them.
    fn take_what_has_arrived(&mut self, frame: u64) -> Outcome {
        let heap = self.shared.gpu.descriptors()?.resources();
        let has_arrived = |texture: &mut Coming<D>| texture.arrives.status() == UploadStatus::Arrived;
        while let Some(at) = self.coming.iter_mut().position(has_arrived) {
            let texture = self.coming.swap_remove(at);
            let slot = heap.insert_view(&texture.view)?;
            let number = texture.number;
            row(FILES[number].name, format_args!("arrived before frame {frame}"));
            self.drawn[number] = Some((texture, slot));
        }
        Ok(())
    }

    /// Draws the textures that are there, and has the picture read back.
    fn draw(&mut self, frame: &Frame<D>) -> Outcome {
        let Shared { gpu, reader, .. } = self.shared;
        let resources = frame.transient_descriptors()?; // the heaps as this frame sees them
        let samplers = gpu.descriptors()?.samplers().heap().begin(frame.recording())?;
        for (texture, slot) in self.drawn.iter().flatten() {
            let list = SampleList {
                resources: resources.heap(),
                texture: slot.index(),
                dimension: texture.view.parameters().dimension,
                samplers: samplers.heap(),
                sampler: self.sampler.index(),
                list: &texture.list.handle(),
                count: texture.count,
                to: &self.picture.handle(),
            };
            // SAFETY: everything is alive until the GPU has completed the frame. The texels of the list lie in the picture,
            // which is copied away in the order of the queue.
            frame.submit(QUEUE, |queue, waits| unsafe { reader.sample_list(queue, waits, &list) })?;
        }
        let read = gpu.reads().read_buffer(&self.picture, 0, self.picture.size())?; // the end of the frame copies it
        self.pictures.push_back((frame.number(), self.drawn.each_ref().map(Option::is_some), read));
        Ok(())
    }

    /// Compares the pictures that the GPU has completed, since `frame` has begun.
    fn compare_completed(&mut self, frame: u64) -> Outcome {
        let is_complete = |(number, ..): &(u64, _, _)| number + (IN_FLIGHT as u64) <= frame;
        while self.pictures.front().is_some_and(is_complete) {
            let Some((number, textures, read)) = self.pictures.pop_front() else { break };
            read.read(&mut self.found)?;
            if self.is_read {
                self.compare(number, textures)?;
            }
            self.compared += 1;
        }
        Ok(())
    }

    /// Compares the picture of a frame with the texels that the textures have on the CPU.
    fn compare(&self, frame: u64, textures: [bool; FILES.len()]) -> Outcome {
        let expected = |seen: &Seen| match textures[seen.texture] {
            true => self.decoded[seen.texture][seen.level as usize].texel(seen.face, seen.texel),
            false => NOTHING,
        };
        let all = self.found.chunks_exact(4).zip(&self.shared.seen);
        let mut wrong = all.filter(|(found, seen)| **found != expected(seen));
        let Some((found, seen)) = wrong.next() else { return Ok(()) };
        let (file, others) = (FILES[seen.texture].name, wrong.count());
        let what = format!(
            "frame {frame}: {found:?} and not {:?}, texel {:?} of face {} of level {} of {file}, and {others} others",
            expected(seen),
            seen.texel,
            seen.face,
            seen.level,
        );
        Err(what.into())
    }

    /// Says what was done, and drops everything.
    fn finish(self) -> Outcome {
        let gpu = &self.shared.gpu;
        let how =
            if self.is_read { "all as they must be" } else { "not compared: shaders see no descriptors" };
        row("pictures", format_args!("{}, {how}", self.compared));
        let uploaded = gpu.uploads().statistics();
        let direct = uploaded.direct_bytes + uploaded.host_copied_bytes;
        row(
            "staged",
            format_args!("{} bytes, in {} submissions", uploaded.staged_bytes, uploaded.submissions),
        );
        row("written by the CPU in place", format_args!("{direct} bytes"));
        row("loaders waited", format_args!("{} times for staging memory", uploaded.waits));
        for (_, slot) in self.drawn.into_iter().flatten() {
            // With it goes the view, and with that the image, once the GPU is done with them.
            gpu.descriptors()?.resources().remove(slot)?;
        }
        Ok(())
    }
}

fn write_png(file: &str, texels: &[u8]) -> Outcome {
    let mut encoder = png::Encoder::new(fs::File::create(file)?, PICTURE[0], PICTURE[1]);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(texels)?;
    Ok(())
}

struct Main;

impl device::Example for Main {
    const NAME: &'static str = "textured_scene";
    const OPTIONS: &'static [[&'static str; 2]] = &[["--out", "FILE"]];

    fn run<D, R>(device: D, is_read: bool) -> Outcome
    where
        D: DescriptorDevice + Clone,
        R: DescriptorReader<D>,
    {
        run::<D, R>(device, is_read)
    }
}

fn main() -> Outcome {
    device::run::<Main>()
}

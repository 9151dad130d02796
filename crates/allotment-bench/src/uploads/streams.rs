//! Textures that several threads stream over the transfer queue, while frames go on.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use allotment::MemoryUsage;
use allotment::device::vulkan::Device;
use allotment::device::{
    BufferDesc, ImageDesc, MemoryDevice as _, QueueDevice as _, QueueIndex, QueueKind, Submission,
    TimelinePoint,
};
use allotment::gpu::GpuDesc;
use allotment::memory::{Buffer, Image};
use allotment::upload::{ImageWrite, UploadHandle, UploadStatus, UploaderDesc, UploaderStatistics};
use ash::vk;
use serde::Serialize;

use super::failed;
use super::plain::Plain;
use crate::args::UploadsArgs;
use crate::failure::Failure;
use crate::units::median;
use crate::vulkan::Gpu;

/// Time from one frame to the next.
const PACE: Duration = Duration::from_millis(2);

/// A frame that took longer waits for something.
const LATE: Duration = Duration::from_micros(500);

/// Bytes that a frame reads.
const COUNTERS: u64 = 4096;

/// What was streamed, and at which rate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Streams {
    pub(super) device: String,
    /// The kind of each queue.
    pub(super) queues: Vec<String>,
    /// The queue that copies.
    pub(super) queue: String,
    pub(super) mib: u32,
    pub(super) repetitions: u32,
    pub(super) rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) side: u32,
    pub(super) way: &'static str,
    pub(super) threads: u32,
    pub(super) bytes_per_second: f64,
    /// The rate divided by that of plain copies.
    pub(super) share: f64,
    pub(super) frames: u64,
    /// Frames whose submission took longer than half a millisecond, or that the GPU completed so much later.
    pub(super) late_submits: u64,
    pub(super) late_frames: u64,
    pub(super) longest_submit_us: f64,
    pub(super) longest_frame_us: f64,
    pub(super) median_frame_us: f64,
}

/// How the bytes come into staging memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing is uploaded: only frames.
    Idle,
    Plain,
    /// From a slice.
    Copied,
    /// A closure that writes nothing: what the library costs without the CPU's copy.
    InPlace,
    /// As that, while each frame reads a small buffer back.
    FramesRead,
}

type Front = allotment::gpu::Gpu<Device>;

struct Bench {
    front: Front,
    device: Device,
    plain: Plain,
}

pub(super) fn measure(gpu: &Arc<Gpu>, args: &UploadsArgs) -> Result<Streams, Failure> {
    let device = gpu.library().clone();
    let mut uploader = UploaderDesc::default();
    (uploader.image_queue, uploader.copies_from_host) = (Some(gpu.queue), false);
    uploader.staging = u64::from(args.staging_mib) << 20;
    let front = Front::new(device.clone(), GpuDesc::default().with_uploader(uploader)).map_err(failed)?;
    let mut bench = Bench { front, device, plain: Plain::new(gpu)? };
    let mib = args.mib.unwrap_or(if gpu.info.software { 64 } else { 1024 });
    let kinds = &bench.device.properties().queues;
    let queues = kinds.iter().map(|kind: &QueueKind| format!("{kind:?}").to_lowercase()).collect();
    let (device, queue) = (gpu.info.name.clone(), gpu.info.queue.clone());
    let mut streams = Streams { device, queues, queue, mib, repetitions: args.repetitions, rows: Vec::new() };
    // Staging memory is there afterwards: the driver takes tens of milliseconds for it, once.
    bench.round(Way::Copied, 1, 256, 16)?;
    for side in [2048, 256] {
        let mut ways = vec![("frames alone", Way::Idle, 1), ("plain copies", Way::Plain, 1)];
        ways.extend(args.threads.iter().map(|threads| ("from a slice", Way::Copied, *threads)));
        ways.extend(args.threads.iter().map(|threads| ("in place", Way::InPlace, *threads)));
        ways.extend(args.threads.iter().map(|threads| ("frames read", Way::FramesRead, *threads)));
        let mut results: Vec<Vec<Round>> = vec![Vec::new(); ways.len()];
        for _ in 0..args.repetitions {
            for ((_, way, threads), results) in ways.iter().zip(&mut results) {
                results.push(bench.round(*way, *threads, side, mib)?);
            }
        }
        let rate = |rounds: &[Round]| median(rounds.iter().map(|round| round.bytes_per_second));
        let plain = rate(&results[1]);
        for ((way, _, threads), rounds) in ways.into_iter().zip(&results) {
            let frames: Vec<Frame> = rounds.iter().flat_map(|round| round.frames.iter().copied()).collect();
            let late = |of: fn(&Frame) -> Duration| frames.iter().filter(|it| of(it) > LATE).count() as u64;
            let longest = |of: fn(&Frame) -> Duration| us(frames.iter().map(of).max().unwrap_or_default());
            streams.rows.push(Row {
                side,
                way,
                threads,
                bytes_per_second: rate(rounds),
                share: rate(rounds) / plain,
                frames: frames.len() as u64,
                late_submits: late(|it| it.submit),
                late_frames: late(|it| it.done),
                longest_submit_us: longest(|it| it.submit),
                longest_frame_us: longest(|it| it.done),
                median_frame_us: median(frames.iter().map(|it| us(it.done))),
            });
        }
    }
    Ok(streams)
}

#[derive(Clone, Debug, Default)]
struct Round {
    bytes_per_second: f64,
    frames: Vec<Frame>,
}

/// The times of a frame: of its submission, and from there until the GPU has completed it.
#[derive(Clone, Copy, Debug)]
struct Frame {
    submit: Duration,
    done: Duration,
}

impl Bench {
    /// Uploads all bytes once, to new images.
    fn round(&mut self, way: Way, threads: u32, side: u32, mib: u32) -> Result<Round, Failure> {
        let desc = ImageDesc::new(side, side, vk::Format::R8G8B8A8_UNORM.as_raw().unsigned_abs());
        let count = ((u64::from(mib) << 20) / (u64::from(side) * u64::from(side) * 4)).max(1);
        let options = MemoryUsage::GpuOnly.with_name("texture");
        let images = (0..count).map(|_| self.front.create_image(&desc.into(), &options));
        let images: Vec<_> = images.collect::<Result<_, _>>().map_err(failed)?;
        let counters = (way == Way::FramesRead).then(|| {
            let options = MemoryUsage::GpuOnly.with_name("counters");
            self.front.create_buffer(&BufferDesc::new(COUNTERS).into(), &options)
        });
        let counters = counters.transpose().map_err(failed)?;
        let is_over = AtomicBool::new(false);
        let (front, device, plain) = (&self.front, &self.device, &mut self.plain);
        let reads = counters.as_ref();
        let round = std::thread::scope(|scope| {
            let frames = scope.spawn(|| frames(front, device, reads, &is_over));
            let took = match way {
                Way::Idle => {
                    std::thread::sleep(Duration::from_millis(100));
                    Ok(Duration::from_millis(100))
                }
                Way::Plain => {
                    let images: Vec<_> = images.iter().map(|image| image.handle()).collect();
                    // SAFETY: they are new and live on; nobody else uses them.
                    unsafe { plain.copy(&images, side) }
                }
                Way::Copied | Way::InPlace | Way::FramesRead => stream(front, &images, threads, side, way),
            };
            is_over.store(true, Relaxed);
            let frames = frames.join().map_err(|_| Failure::Thread)??;
            let bytes = if way == Way::Idle { 0 } else { count * u64::from(side) * u64::from(side) * 4 };
            Ok::<_, Failure>(Round { bytes_per_second: bytes as f64 / took?.as_secs_f64(), frames })
        });
        drop((images, counters));
        self.front.wait_idle().map_err(failed)?;
        round
    }
}

/// Uploads from several threads, and waits until all of it has arrived.
fn stream(
    front: &Front,
    images: &[Image<Device>],
    threads: u32,
    side: u32,
    way: Way,
) -> Result<Duration, Failure> {
    let source = vec![7; (side * side * 4) as usize];
    let (next, handle) = (AtomicUsize::new(0), UploadHandle::streamed());
    let before: UploaderStatistics = front.uploads().statistics();
    let began = Instant::now();
    let done: Result<Vec<()>, Failure> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(image) = images.get(next.fetch_add(1, Relaxed)) {
                        let uploads = front.uploads();
                        let uploads = uploads.with_handle(&handle);
                        match way {
                            Way::Copied => uploads.write_image(image, &source).map_err(failed),
                            _ => uploads
                                .write_image_with(image, &ImageWrite::default(), |_| Ok(()))
                                .map_err(failed),
                        }?;
                    }
                    Ok(())
                })
            })
            .collect();
        writers.into_iter().map(|it| it.join().map_err(|_| Failure::Thread)?).collect()
    });
    done?;
    // As a program without frames does: what is left is submitted, and the handle looks.
    front.uploads().submit().map_err(failed)?;
    while !handle.status().is_final() {
        front.reclaim();
        std::thread::sleep(Duration::from_micros(20));
    }
    if handle.status() != UploadStatus::Arrived {
        return Err(failed("the texels did not arrive"));
    }
    let took = began.elapsed();
    let staged = front.uploads().statistics().staged_bytes - before.staged_bytes;
    if staged < images.len() as u64 * source.len() as u64 {
        return Err(failed("the texels came another way than the one that is measured"));
    }
    Ok(took)
}

/// Submits frames until it is over. Each of them reads the counters, if there are any.
fn frames(
    front: &Front,
    device: &Device,
    counters: Option<&Buffer<Device>>,
    is_over: &AtomicBool,
) -> Result<Vec<Frame>, Failure> {
    let mut frames = Vec::with_capacity(4096);
    while frames.is_empty() || !is_over.load(Relaxed) {
        let frame = front.begin_frame().map_err(failed)?;
        let began = Instant::now();
        let submit = |queue, waits: &[TimelinePoint]| {
            // SAFETY: the submission is empty.
            unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
        };
        let drawn = frame.submit(QueueIndex(0), submit).map_err(failed)?;
        let submitted = began.elapsed();
        front.wait(drawn).map_err(failed)?;
        let done = began.elapsed() - submitted;
        let read = counters.map(|counters| front.reads().read_buffer(counters, 0, COUNTERS));
        let read = read.transpose().map_err(failed)?;
        frame.end().map_err(failed)?;
        drop(read);
        frames.push(Frame { submit: submitted, done });
        std::thread::sleep(PACE.saturating_sub(began.elapsed()));
    }
    Ok(frames)
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

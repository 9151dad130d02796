//! Random calls of one `Gpu` from several threads: workers that create buffers and images, fill them, copy between them on any
//! queue, read them back and drop them, while each of them also steps, on its own or at the end of its frames.
//!
//! ```text
//!   Mix      a `Gpu` with a defragmenter of its own, until it is dropped and the next one is made
//!   Worker   one thread, its buffers and images, and the bytes that they should have
//! ```
//!
//! Each buffer and image belongs to one worker, which orders its own uses of it as an application does. The steps of all of
//! them move all of them. So a message about a hazard, and a byte that is not what was written, is the library's. A write that
//! is refused since the buffer is moved is a finding too: nobody could wait for its end.

mod images;

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::time::Instant;

use allotment::device::{BufferDesc, QueueIndex};
use allotment::gpu::{Frame, Gpu, GpuDesc};
use allotment::lifetime::TimelinePoints;
use allotment::memory::Buffer;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, PassLimits};
use allotment::upload::{ReadError, ReadHandle, UploadError, Uploader, UploaderDesc, WhenFull};
use allotment::{AllocationOptions, AllocatorDesc, MemoryUsage};

use crate::images::{PendingRead, PendingUpload, TestImage};
use crate::shadow::{Shadow, pattern};
use crate::{Input, RunDesc, Stressed, Tally, raw};

/// Buffers that a worker keeps at most.
const BUFFERS: usize = 48;

/// Most bytes of a buffer.
const SIZE: u64 = 48 << 10;

/// What the workers did.
#[derive(Clone, Debug, Default)]
pub struct MixTally {
    made: BTreeMap<&'static str, u64>,
    refused: BTreeMap<String, u64>,
    moves: u64,
    tally: Tally,
}

impl MixTally {
    /// Returns the findings: wrong bytes, refused writes, panics, leaks, messages.
    #[must_use]
    pub fn findings(&self) -> &[String] {
        self.tally.findings()
    }

    /// Adds a finding.
    pub fn find(&mut self, finding: String) {
        self.tally.find(finding);
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.made.values().sum()
    }

    /// Returns the buffers that were moved.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Adds what another thread or round did.
    pub fn add(&mut self, other: Self) {
        other.made.into_iter().for_each(|(call, count)| *self.made.entry(call).or_default() += count);
        other.refused.into_iter().for_each(|(why, count)| *self.refused.entry(why).or_default() += count);
        self.moves += other.moves;
        self.tally.add(other.tally);
    }
}

impl fmt::Display for MixTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} calls, {} moves, {} bytes of images compared",
            self.calls(),
            self.moves,
            self.tally.bytes_checked
        )?;
        self.made.iter().try_for_each(|(call, count)| writeln!(f, "  {call:24} {count}"))?;
        self.refused.iter().try_for_each(|(why, count)| writeln!(f, "  refused: {why} {count}"))?;
        self.findings().iter().try_for_each(|finding| writeln!(f, "FINDING {finding}"))
    }
}

/// Makes calls over one `Gpu` after another on a device until the time is up. After each of them, `check` returns the
/// device's findings.
pub fn mix<D: Stressed>(device: &D, desc: &RunDesc, check: impl Fn() -> Vec<String>) -> MixTally {
    let end = Instant::now() + desc.time;
    let mut tally = MixTally::default();
    let mut round = 0;
    while round == 0 || (Instant::now() < end && tally.findings().is_empty()) {
        let seed = desc.seed.wrapping_add(round);
        let mut of_round = mix_once(device, seed, desc, end);
        check().into_iter().for_each(|finding| of_round.find(finding));
        if !of_round.findings().is_empty() {
            of_round.find(format!("the seed was {seed}"));
        }
        tally.add(of_round);
        round += 1;
    }
    tally
}

fn mix_once<D: Stressed>(device: &D, seed: u64, desc: &RunDesc, end: Instant) -> MixTally {
    let mut tally = MixTally::default();
    let mut input = Input::of_seed(seed);
    let mut allocator = AllocatorDesc::default();
    allocator.block_sizes = BlockSizes::fixed(input.pick(&[64 << 10, 256 << 10, 1 << 20]));
    allocator.threads = input.pick(&[1, 2, 4]);
    allocator.empty_blocks = EmptyBlockPolicy::NONE;
    let strategy = input.pick(&[
        DefragmentationStrategy::Full,
        DefragmentationStrategy::Full,
        DefragmentationDesc::default().strategy,
    ]);
    let mut uploader = UploaderDesc::default();
    uploader.staging = input.pick(&[32 << 20, 256 << 10, 1 << 20]);
    let waits = WhenFull::Wait(Duration::from_secs(60));
    uploader.when_full = input.pick(&[waits, waits, WhenFull::Refuse]);
    if uploader.when_full == WhenFull::Refuse {
        // So that much is refused.
        uploader.staging = input.pick(&[256 << 10, 64 << 10]);
    }
    if input.once_in(2) {
        uploader.image_queue = Some(QueueIndex(input.index(device.properties().queues.len()) as u8));
    }
    let gpu = GpuDesc::default()
        .with_allocator(allocator)
        .with_uploader(uploader)
        .with_defragmentation(DefragmentationDesc::new(strategy).with_limits(PassLimits::NONE));
    let gpu = match Gpu::new(device.clone(), gpu) {
        Ok(gpu) => gpu,
        Err(error) => {
            tally.find(format!("no gpu: {error}"));
            return tally;
        }
    };
    let calls = desc.calls_a_world / u64::from(desc.threads.max(1));
    std::thread::scope(|scope| {
        let begin = |input| {
            let gpu = &gpu;
            scope.spawn(move || {
                let mut worker = Worker::new(gpu, input);
                let worked = catch_unwind(AssertUnwindSafe(|| {
                    let goes_on = |made: u64| made % 64 != 0 || Instant::now() < end;
                    (0..calls).take_while(|made| goes_on(*made)).for_each(|_| worker.call());
                    worker.finish();
                }));
                if worked.is_err() {
                    worker.tally.find("a call panicked".to_owned());
                }
                worker.tally
            })
        };
        let threads: Vec<_> = input.split(desc.threads as usize).into_iter().map(begin).collect();
        for thread in threads {
            match thread.join() {
                Ok(of_thread) => tally.add(of_thread),
                Err(_) => tally.find("a thread panicked while it was cleaning up".to_owned()),
            }
        }
    });
    tally.moves = u64::from(gpu.defragmenter().statistics().moves);
    if let Err(error) = gpu.wait_idle() {
        tally.find(format!("the queues do not become idle: {error}"));
    }
    tally
}

/// A buffer of a worker.
struct Held<D: Stressed> {
    buffer: Buffer<D>,
    bytes: Shadow,
}

struct Worker<'a, D: Stressed> {
    gpu: &'a Gpu<D>,
    input: Input<'static>,
    uploader: Option<Uploader<D>>,
    buffers: Vec<Held<D>>,
    frame: Option<Frame<D>>,
    reads: Vec<(ReadHandle, Vec<u8>)>,
    images: Vec<TestImage<D>>,
    image_reads: Vec<PendingRead>,
    image_writes: Vec<PendingUpload>,
    /// What this worker has submitted by itself: the other queues wait for it.
    submitted: TimelinePoints,
    tally: MixTally,
}

impl<'a, D: Stressed> Worker<'a, D> {
    fn new(gpu: &'a Gpu<D>, input: Input<'static>) -> Self {
        let mut worker = Self {
            gpu,
            input,
            uploader: None,
            buffers: Vec::new(),
            frame: None,
            reads: Vec::new(),
            images: Vec::new(),
            image_reads: Vec::new(),
            image_writes: Vec::new(),
            submitted: TimelinePoints::EMPTY,
            tally: MixTally::default(),
        };
        let mut desc = UploaderDesc::default();
        (desc.staging, desc.queue) = (256 << 10, Some(worker.queue()));
        desc.when_full = gpu.desc().uploader.when_full;
        if desc.when_full == WhenFull::Refuse {
            desc.staging = 64 << 10;
        }
        if worker.input.once_in(2) {
            desc.image_queue = Some(worker.queue());
        }
        match Uploader::new(gpu.memory(), desc) {
            Ok(uploader) => worker.uploader = Some(uploader),
            Err(error) => worker.tally.find(format!("no uploader: {error}")),
        }
        worker
    }

    fn queue(&mut self) -> QueueIndex {
        QueueIndex(self.input.index(self.gpu.device().properties().queues.len()) as u8)
    }

    /// Makes a random call.
    fn call(&mut self) {
        const CALLS: [(&str, u64); 20] = [
            ("create", 12),
            ("write_buffer", 14),
            ("update_buffer", 6),
            ("own uploader", 6),
            ("Buffer::write", 4),
            ("submit uploads", 4),
            ("step", 14),
            ("copy on a queue", 6),
            ("read_buffer", 2),
            ("frame", 6),
            ("read_later", 5),
            ("drop", 10),
            ("reclaim", 5),
            ("create image", 8),
            ("write image", 24),
            ("own image upload", 4),
            ("read image", 10),
            ("compare image", 3),
            ("forget state", 2),
            ("drop image", 4),
        ];
        let mut at = self.input.below(CALLS.iter().map(|(_, weight)| weight).sum());
        let mut chosen = CALLS[0].0;
        for (call, weight) in CALLS {
            if at < weight {
                chosen = call;
                break;
            }
            at -= weight;
        }
        *self.tally.made.entry(chosen).or_default() += 1;
        let done = match chosen {
            "create" => self.create(),
            "write_buffer" => self.write(|worker, at, bytes| {
                // The first contents: nothing that was submitted uses the buffer.
                let to = &worker.buffers[at].buffer;
                worker.gpu.uploads().write_buffer(to, 0, bytes).map_err(|error| format!("{error:?}"))
            }),
            "update_buffer" => self.update(),
            "own uploader" => self.upload(),
            "Buffer::write" => self.write_directly(),
            "submit uploads" => self.gpu.uploads().submit().map(drop).map_err(|error| format!("{error:?}")),
            "step" => self.step(),
            "copy on a queue" => self.copy(),
            "read_buffer" => self.read(),
            "frame" => self.next_frame(),
            "read_later" => self.read_later(),
            "create image" => self.create_image(),
            "write image" => self.write_image(),
            "own image upload" => self.upload_image(),
            "read image" => self.read_image(),
            "compare image" => self.compare_image(),
            "forget state" => {
                self.forget_image_state();
                Ok(())
            }
            "drop image" => {
                self.drop_image();
                Ok(())
            }
            "drop" => {
                if let Some(at) = self.any() {
                    self.buffers.swap_remove(at);
                }
                Ok(())
            }
            _ => {
                self.gpu.reclaim();
                Ok(())
            }
        };
        if let Err(why) = done {
            if ["Lost", "Moving", "Other {"].iter().any(|wrong| why.contains(wrong)) {
                self.tally.find(format!("{chosen} was answered {why}"));
            }
            let word = why.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
            *self.tally.refused.entry(format!("{chosen}: {word}")).or_default() += 1;
        }
    }

    fn any(&mut self) -> Option<usize> {
        let count = self.buffers.len();
        (count != 0).then(|| self.input.index(count))
    }

    fn create(&mut self) -> Result<(), String> {
        if self.buffers.len() >= BUFFERS {
            // A few at once, so that blocks get holes.
            let from = self.input.index(4);
            let mut index = from;
            self.buffers.retain(|_| (index % 4 == 0, index += 1).0);
        }
        let usage = self.input.pick(&[MemoryUsage::GpuOnly, MemoryUsage::GpuOnly, MemoryUsage::DeviceUpload]);
        let mut options: AllocationOptions = usage.with_name("mixed");
        if !self.input.once_in(5) {
            options = options.relocatable();
        }
        let size = 1 + self.input.below(SIZE);
        let buffer = self.gpu.create_buffer(&BufferDesc::new(size).into(), &options);
        let buffer = buffer.map_err(|error| format!("{error:?}"))?;
        self.buffers.push(Held { buffer, bytes: Shadow::default() });
        Ok(())
    }

    /// Writes all bytes of a buffer that was not written yet, and of a new one if there is none.
    fn write(
        &mut self,
        write: impl FnOnce(&mut Self, usize, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let unwritten = |held: &Held<D>| held.bytes.expected().is_none();
        let at = match self.buffers.iter().position(unwritten) {
            Some(at) => at,
            None => {
                self.create()?;
                match self.buffers.iter().position(unwritten) {
                    Some(at) => at,
                    None => return Ok(()),
                }
            }
        };
        let size = self.buffers[at].buffer.size();
        let bytes = pattern(size);
        match write(self, at, &bytes) {
            Ok(()) => self.buffers[at].bytes.write(size, 0, &bytes),
            Err(error) => {
                // Some of the bytes may be on their way.
                self.buffers.swap_remove(at);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes some bytes of a buffer that submitted work may use.
    fn update(&mut self) -> Result<(), String> {
        let Some(at) = self.any() else { return Ok(()) };
        if self.buffers[at].bytes.expected().is_none() {
            return Ok(());
        }
        let size = self.buffers[at].buffer.size();
        let offset = self.input.below(size);
        let bytes = pattern(1 + self.input.below((size - offset).min(4096)));
        let updated = self.gpu.uploads().update_buffer(&self.buffers[at].buffer, offset, &bytes);
        match updated {
            Ok(()) => self.buffers[at].bytes.write(size, offset, &bytes),
            // Nothing is staged: its bytes are compared later on.
            Err(error @ UploadError::Full { .. }) => return Err(format!("{error:?}")),
            Err(error) => {
                self.buffers.swap_remove(at);
                return Err(format!("{error:?}"));
            }
        }
        Ok(())
    }

    /// Fills a new buffer by the worker's own uploader.
    fn upload(&mut self) -> Result<(), String> {
        let submits = self.input.once_in(2);
        self.write(|worker, at, bytes| {
            let Some(uploader) = &mut worker.uploader else { return Ok(()) };
            let to = &worker.buffers[at].buffer;
            let (first, rest) = bytes.split_at(bytes.len() / 2);
            let written = uploader.initialize(to, 0, first);
            if submits {
                uploader.submit().map_err(|error| format!("{error:?}"))?;
            }
            written.map_err(|error| format!("{error:?}"))?;
            let written = uploader.initialize(to, first.len() as u64, rest);
            written.map_err(|error| format!("{error:?}"))?;
            let points = uploader.submit().map_err(|error| format!("{error:?}"))?;
            points.points().for_each(|point| worker.submitted.insert(point));
            Ok(())
        })
    }

    /// Writes to memory that the CPU can access, where nothing that was submitted uses it.
    fn write_directly(&mut self) -> Result<(), String> {
        self.write(|worker, at, bytes| {
            let is_mapped = worker.buffers[at].buffer.location().mapped_ptr.is_some();
            let to = &worker.buffers[at].buffer;
            match to.write(0, bytes) {
                Ok(()) => Ok(()),
                // The copy of a move is on its way, which can be waited for.
                Err(_) if is_mapped && to.is_relocatable() => {
                    worker
                        .gpu
                        .wait(worker.gpu.defragmenter().copied_at())
                        .map_err(|error| format!("{error:?}"))?;
                    worker.gpu.uploads().write_buffer(to, 0, bytes).map_err(|error| format!("{error:?}"))
                }
                Err(_) => {
                    worker.gpu.uploads().write_buffer(to, 0, bytes).map_err(|error| format!("{error:?}"))
                }
            }
        })
    }

    fn step(&mut self) -> Result<(), String> {
        let mut limits = PassLimits::NONE;
        if self.input.once_in(3) {
            limits.bytes = 1 + self.input.below(4 * SIZE);
        }
        self.gpu.defragmenter().step(limits).map(drop).map_err(|error| format!("{error:?}"))
    }

    /// Copies the start of one buffer to another one on any queue.
    fn copy(&mut self) -> Result<(), String> {
        let (Some(from), Some(to)) = (self.any(), self.any()) else { return Ok(()) };
        // Not to one without bytes: its first contents wait for nothing.
        if from == to || [from, to].iter().any(|at| self.buffers[*at].bytes.expected().is_none()) {
            return Ok(());
        }
        let queue = self.queue();
        let recording = self.gpu.record("copy");
        let [source, target] = [from, to].map(|at| self.buffers[at].buffer.handle());
        let [source_size, size] = [from, to].map(|at| self.buffers[at].buffer.size());
        let copied = source_size.min(size);
        let own = self.submitted;
        let point = self.gpu.submit(recording, queue, |queue, waits| {
            // What this worker submitted to other queues uses the same buffers.
            let all = waits.iter().copied().chain(own.points()).collect::<TimelinePoints>();
            raw::copy(self.gpu.device(), queue, &all, (&source, &target), copied)
        });
        let point = point.map_err(|error| format!("{:?}", error.error))?;
        self.submitted.insert(point);
        let bytes = self.buffers[from].bytes.expected().map(|bytes| bytes[..copied as usize].to_vec());
        bytes.into_iter().for_each(|bytes| self.buffers[to].bytes.write(size, 0, &bytes));
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let Some(at) = self.any() else { return Ok(()) };
        let Held { buffer, bytes } = &self.buffers[at];
        let mut found = vec![0; buffer.size() as usize];
        self.gpu.read_buffer(buffer, 0, &mut found).map_err(|error| format!("{error:?}"))?;
        let wrong = bytes.expected().is_some_and(|expected| expected != found);
        if wrong {
            self.tally.find(format!("read_buffer: wrong bytes of {buffer:?}"));
        }
        Ok(())
    }

    fn next_frame(&mut self) -> Result<(), String> {
        if let Some(frame) = self.frame.take() {
            frame.end().map_err(|error| format!("{error:?}"))?;
            return Ok(());
        }
        self.compare_reads();
        let frame = self.gpu.begin_frame().map_err(|error| format!("{error:?}"))?;
        self.frame = Some(if self.input.once_in(2) { frame.only_reads() } else { frame });
        Ok(())
    }

    fn read_later(&mut self) -> Result<(), String> {
        let Some(at) = self.any() else { return Ok(()) };
        let Held { buffer, bytes } = &self.buffers[at];
        let Some(expected) = bytes.expected() else { return Ok(()) };
        let size = buffer.size().min(2048);
        let read = self.gpu.reads().read_buffer(buffer, 0, size).map_err(|error| format!("{error:?}"))?;
        // Now, since this worker may write the buffer before the frame ends.
        let read_at = self.gpu.reads().submit().map_err(|error| format!("{error:?}"))?;
        read_at.into_iter().for_each(|point| self.submitted.insert(point));
        self.reads.push((read, expected[..size as usize].to_vec()));
        Ok(())
    }

    /// Compares what was read by frames that have ended.
    fn compare_reads(&mut self) {
        self.reads.retain(|(read, expected)| match read.bytes() {
            Ok(found) => {
                if found != *expected {
                    self.tally.find("reads: wrong bytes".to_owned());
                }
                false
            }
            // The GPU has not completed it.
            Err(ReadError::NotYet) => true,
            Err(_) => false,
        });
    }

    /// Compares all buffers, and drops them.
    fn finish(&mut self) {
        let _ = self.next_frame();
        self.frame = None;
        self.finish_images();
        let began = Instant::now();
        while let Some(Held { buffer, bytes }) = self.buffers.pop() {
            let Some(expected) = bytes.expected() else { continue };
            let mut found = vec![0; expected.len()];
            match self.gpu.read_buffer(&buffer, 0, &mut found) {
                Ok(()) if found != expected => {
                    self.tally.find(format!("at the end: wrong bytes of {buffer:?}"));
                }
                Ok(()) => {}
                Err(error) => self.tally.find(format!("at the end: {error:?}")),
            }
            if began.elapsed() > Duration::from_secs(20) {
                break;
            }
        }
        self.buffers.clear();
        self.reads.clear();
        self.uploader = None;
    }
}

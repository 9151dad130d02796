//! A compute shader works on numbers that stream in, frame after frame, and the CPU checks every result.
//!
//! `cargo run --release --example vulkan_streaming_compute -p allotment-examples`; with `-- --validate` the validation layer
//! watches, and what it says of rules is a failure. `ALLOTMENT_VULKAN` names a device by a part of its name.
//!
//! Each frame makes buffers, writes them, records commands that use them, and drops them as soon as these are
//! submitted. Command buffers, descriptor sets and the shader are the application's own, and are used again, or
//! destroyed, by the same rule. After the first frames nothing of it gets memory from the driver or from the heap.

#[path = "../common/cost.rs"]
mod cost;
#[path = "../../tests/common/counting.rs"]
mod counting;
mod shader;

use core::error::Error;
use core::num::NonZero;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use allotment::device::{BufferDesc, CommandDevice as _, QueueIndex, TimelinePoint, vulkan};
use allotment::lifetime::{
    CommandAllocatorPool, DeletionQueue, FramesInFlight, Owned, Recycler, SubmissionTracker,
};
use allotment::memory::{Buffer, OwningAllocator, ResourceError};
use allotment::upload::{ReadbackRing, ReadbackTicket, RingDesc, Uploader, UploaderDesc};
use allotment::{Alignment, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};
use allotment_headless::DeviceChoice;
use allotment_headless::vulkan::{Headless, HeadlessDesc};
use ash::vk;

use cost::Cost;
use shader::{RUNS, Sets, Shader, expected};

const FRAMES: u64 = 300;

const IN_FLIGHT: NonZero<usize> = NonZero::new(3).unwrap();

/// More buffers than there are ever at once, and as many holes between them.
const CROWD: u64 = 80;

const QUEUE: QueueIndex = QueueIndex(0);

/// Longer than anything takes that is not broken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How many numbers there are to a run: around the size of a work group, and around one of a page.
const COUNTS: [u32; 11] = [64, 100_000, 1024, 65, 65_536, 1000, 63, 262_144, 1, 10_007, 4096];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let choice = std::env::var("ALLOTMENT_VULKAN").map_or(DeviceChoice::Best, DeviceChoice::Named);
    let desc = HeadlessDesc::default().with_device(choice);
    let validate = std::env::args().any(|argument| argument == "--validate");
    let headless = Headless::open(&if validate { desc.with_validation() } else { desc })?;
    println!("device: {}", headless.name());
    let messages = Arc::clone(headless.messages());

    let mut stream = Stream::new(headless.device())?;
    for _ in 0..FRAMES {
        stream.frame()?;
    }
    let cost = stream.finish()?;
    drop(headless);

    // What it says is kept as strings, so what validated frames take from the heap says nothing of others.
    if !validate {
        return Ok(cost.check()?);
    }
    // Advice is left to the tests of the library, which look at each piece of it.
    let (advice, rules): (Vec<_>, Vec<_>) =
        messages.take().into_iter().partition(|message| message.id.contains("BestPractices"));
    println!(
        "the validation layer says {} things about rules, {} about practices",
        rules.len(),
        advice.len()
    );
    rules.first().map_or(Ok(()), |message| Err(message.to_string().into()))
}

struct Stream {
    device: vulkan::Device,
    memory: OwningAllocator<vulkan::Device>,
    tracker: SubmissionTracker,
    pacer: FramesInFlight,
    uploader: Uploader<vulkan::Device>,
    commands: CommandAllocatorPool<vulkan::CommandAllocator>,
    sets: Recycler<Sets>,
    shader: Owned<Shader>,
    results: ReadbackRing<vulkan::Device>,
    /// Pending readbacks, oldest first: the run, and the range.
    coming: VecDeque<(u64, ReadbackTicket)>,
    /// Room, used again in each frame.
    numbers: Vec<u32>,
    bytes: Vec<u8>,
    waits: Vec<TimelinePoint>,
    compared: u64,
    cost: Cost,
}

impl Stream {
    fn new(device: &vulkan::Device) -> Outcome<Self> {
        let tracker = SubmissionTracker::new(device.clone())?;
        let mut desc = AllocatorDesc::default();
        // Blocks that are allocated ahead stay for all frames, not only for the next two seconds.
        desc.empty_blocks.frames = u32::MAX;
        let allocator = Arc::new(Allocator::new(device.clone(), desc)?);
        let deletion_queue = DeletionQueue::new(&tracker);
        let memory = OwningAllocator::new(&allocator, &deletion_queue)?;
        let shader = deletion_queue.own(Shader::new(device)?);

        // Creates ahead of demand what frames in flight use.
        let most = IN_FLIGHT.get() + 1;
        let (commands, sets) =
            (CommandAllocatorPool::new(&tracker, QUEUE, most), Recycler::new(&tracker, most));
        let load = tracker.record("load");
        let mut made = Vec::new();
        for _ in 0..most {
            let memory = commands.begin(&load, || device.create_command_allocator(QUEUE))?;
            memory.next()?;
            made.push(memory);
            sets.release_with(load.id(), Sets::new(&shader)?);
        }
        drop((made, load));
        let numbers = allotment::device::BufferDevice::buffer_requirements(device, &storage(1))?;
        allocator.reserve(&numbers, &wanted("numbers"), 64 << 20)?;
        // So no list has to grow later.
        let crowd = (0..CROWD).map(|id| memory.create_buffer(&storage(count_of(id)), &wanted("crowd")));
        drop(crowd.collect::<Result<Vec<_>, _>>()?);
        deletion_queue.reclaim();

        Ok(Self {
            device: device.clone(),
            pacer: FramesInFlight::new(&tracker, IN_FLIGHT),
            uploader: Uploader::new(&memory, UploaderDesc::default())?,
            results: ReadbackRing::new(&allocator, &tracker, &RingDesc::readback(16 << 20))?,
            memory,
            tracker,
            commands,
            sets,
            shader,
            coming: VecDeque::new(),
            numbers: Vec::new(),
            bytes: Vec::new(),
            waits: Vec::new(),
            compared: 0,
            cost: Cost::default(),
        })
    }

    fn frame(&mut self) -> Outcome {
        let frame = self.pacer.frame();
        self.cost.begin(self.memory.allocator());
        self.pacer.begin(TIMEOUT)?;
        if self.coming.len() == RUNS * IN_FLIGHT.get() {
            (0..RUNS).try_for_each(|_| self.check_oldest())?;
        }

        let recording = self.tracker.record("a frame");
        // One buffer is all that is wanted of it. The memory comes back to its pool when the recording is over.
        let commands =
            self.commands.begin(&recording, || self.device.create_command_allocator(QUEUE))?.next()?;
        // As many as were made ahead are enough, since no more frames are in flight.
        let mut sets = self.sets.acquire().ok_or("more sets are in use than there are frames in flight")?;
        let device = self.device.clone();
        let raw = device.raw();
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer is in the initial state.
        unsafe { raw.begin_command_buffer(commands, &info) }?;
        for run in 0..RUNS {
            self.record(frame * RUNS as u64 + run as u64, run, commands, &mut sets)?;
        }
        // SAFETY: the commands are being recorded.
        unsafe { raw.end_command_buffer(commands) }?;
        // As the sets do.
        self.sets.release_with(recording.id(), sets);

        self.waits.clear();
        self.waits.extend(self.uploader.submit()?.points());
        let done = recording.submit(QUEUE, |_| {
            // SAFETY: the commands are recorded, and what they use was retired while the recording was open, or is
            // alive; so it lives until that is over.
            unsafe { device.submit_commands(QUEUE, &self.waits, &[commands]) }
        })?;
        self.results.close(done);
        self.pacer.end();
        self.memory.deletion_queue().reclaim();
        self.memory.allocator().end_frame();
        self.cost.end(frame, self.memory.allocator());
        Ok(())
    }

    /// Streams numbers in, records what becomes of them, and lets go of everything: the recording is open.
    fn record(&mut self, id: u64, run: usize, commands: vk::CommandBuffer, sets: &mut Sets) -> Outcome {
        numbers_of(id, &mut self.numbers);
        let count = count_of(id);
        let size = u64::from(count) * 4;
        let numbers = self.make(count, "numbers")?;
        let results = self.make(count, "results")?;
        self.bytes.clear();
        self.bytes.extend(self.numbers.iter().flat_map(|number| number.to_le_bytes()));
        self.uploader.initialize(&numbers, 0, &self.bytes)?;

        let set = sets.write(run, numbers.handle(), results.handle());
        self.shader.record(commands, set, seed_of(id), count);
        let ticket = self.results.allocate(size, Alignment::new(4)?)?;
        let raw = self.device.raw();
        // What the shader wrote is copied, and what is copied is read by the CPU.
        let (shader, copy, host) = (
            (vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_WRITE),
            (vk::PipelineStageFlags::TRANSFER, vk::AccessFlags::TRANSFER_READ),
            (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ),
        );
        barrier(raw, commands, shader, copy);
        let region = [vk::BufferCopy { src_offset: 0, dst_offset: ticket.offset(), size }];
        // SAFETY: the commands are being recorded; the results are as large, and the ring has given the room.
        unsafe { raw.cmd_copy_buffer(commands, results.handle(), *self.results.buffer(), &region) };
        barrier(raw, commands, (vk::PipelineStageFlags::TRANSFER, vk::AccessFlags::TRANSFER_WRITE), host);
        self.coming.push_back((id, ticket));
        Ok(())
    }

    fn make(&self, count: u32, name: &'static str) -> Result<Buffer<vulkan::Device>, ResourceError> {
        self.memory.create_buffer(&storage(count), &wanted(name))
    }

    /// Checks the oldest results, which the device is done with.
    fn check_oldest(&mut self) -> Outcome {
        let Some((id, ticket)) = self.coming.pop_front() else { return Ok(()) };
        self.bytes.resize(ticket.size() as usize, 0);
        self.results.read(&ticket, &mut self.bytes)?;
        numbers_of(id, &mut self.numbers);
        for (i, bytes) in self.bytes.chunks_exact(4).enumerate() {
            if bytes != expected(&self.numbers, seed_of(id), i).to_le_bytes() {
                return Err(format!("run {id}: result {i} of {} is wrong", self.numbers.len()).into());
            }
        }
        self.compared += self.numbers.len() as u64;
        Ok(())
    }

    fn finish(mut self) -> Outcome<Cost> {
        self.tracker.wait_idle(TIMEOUT)?;
        while !self.coming.is_empty() {
            self.check_oldest()?;
        }
        // The shader goes as buffers do.
        drop((self.shader, self.uploader, self.results, self.commands, self.sets));
        let left = self.memory.deletion_queue().drain(TIMEOUT);
        let allocations = self.memory.allocator().statistics().allocations;
        println!("{} frames of {RUNS} runs: all {} results are right", self.pacer.frame(), self.compared);
        println!(
            "{} buffers and a shader retired, {} left\n{}",
            left.reclaimed.count - 1,
            left.pending,
            self.cost
        );
        if left.pending > 0 || allocations > 0 {
            return Err(format!("{} things and {allocations} allocations are left", left.pending).into());
        }
        Ok(self.cost)
    }
}

/// How many numbers a run has.
fn count_of(id: u64) -> u32 {
    COUNTS[(id % COUNTS.len() as u64) as usize]
}

fn seed_of(id: u64) -> u32 {
    id as u32 + 1
}

/// The numbers of a run: no other has the same.
fn numbers_of(id: u64, numbers: &mut Vec<u32>) {
    numbers.clear();
    numbers.extend((0..count_of(id)).map(|i| (i ^ (id as u32) << 18).wrapping_mul(0x85eb_ca6b)));
}

/// Memory of the device; the buffer itself says how much.
fn wanted(name: &'static str) -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name(name)
}

/// Creates a buffer of numbers for shaders.
fn storage(count: u32) -> vulkan::BufferInfo<'static> {
    let usage = vk::BufferUsageFlags::STORAGE_BUFFER.as_raw().into();
    BufferDesc::new(u64::from(count) * 4).with_usage(usage).into()
}

fn barrier(
    raw: &ash::Device,
    commands: vk::CommandBuffer,
    (before, written): (vk::PipelineStageFlags, vk::AccessFlags),
    (after, read): (vk::PipelineStageFlags, vk::AccessFlags),
) {
    let memory = [vk::MemoryBarrier::default().src_access_mask(written).dst_access_mask(read)];
    // SAFETY: the commands are being recorded.
    unsafe {
        raw.cmd_pipeline_barrier(commands, before, after, vk::DependencyFlags::empty(), &memory, &[], &[]);
    };
}

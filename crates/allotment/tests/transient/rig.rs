//! A transient heap of a simulated GPU, and frames that are executed there: each pass writes what it is the first to use, and the
//! others find it there.

use allotment::Alignment;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, DeviceError, ImageDesc, QueueDevice as _, QueueIndex, SharingMode, Submission, TimelinePoint,
    TimelineValue,
};
use allotment::gpu::{Frame as GpuFrame, TransientBuffer, TransientHeap, TransientHeapError};
use allotment::lifetime::TimelinePoints;
use allotment::memory::AllocationId;
use allotment::transient::{HeapLimits, TransientPass};
use allotment::upload::ReadbackTicket;
use allotment::{Gpu, GpuDesc};

use crate::frames::Frame;
use crate::unrolled::Unrolled;

pub(crate) const QUEUE: QueueIndex = QueueIndex(0);

pub(crate) struct Rig {
    pub(crate) device: SimulatedGpu,
    pub(crate) gpu: Gpu<SimulatedGpu>,
    pub(crate) heap: TransientHeap<SimulatedGpu>,
    /// What each resource of the frame before was filled with.
    pub(crate) filled: Vec<Option<u8>>,
    next_fill: u8,
    reads: Vec<(ReadbackTicket, u8)>,
}

impl Rig {
    pub(crate) fn new(limits: HeapLimits) -> Self {
        Self::on("discrete-large-bar", limits)
    }

    pub(crate) fn on(profile: &str, limits: HeapLimits) -> Self {
        Self::of(Profile::named(profile).unwrap(), limits)
    }

    pub(crate) fn of(profile: Profile, limits: HeapLimits) -> Self {
        let device = SimulatedGpu::new(profile);
        let gpu = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
        let heap = gpu.transient_heap(limits);
        Self { device, gpu, heap, filled: Vec::new(), next_fill: 0, reads: Vec::new() }
    }

    /// Plans and executes a frame. Notes when its passes were submitted if `is_noted`.
    pub(crate) fn execute(&mut self, described: &Frame, is_noted: bool) {
        let order = Unrolled::new(described, &[]);
        let frame = self.gpu.begin_frame().unwrap();
        let mut graph = frame.transient(&mut self.heap).unwrap();
        let mut passes: Vec<TransientPass> = Vec::new();
        for pass in &described.passes {
            let waits: Vec<TransientPass> = pass.waits.iter().map(|&at| passes[at]).collect();
            passes.push(graph.pass(QueueIndex(pass.queue), &waits).unwrap());
        }
        let all = |list: &[usize]| list.iter().map(|&at| passes[at]).collect::<Vec<_>>();
        let buffers: Vec<TransientBuffer> = (described.resources.iter())
            .map(|it| {
                let name = format!("{}", it.desc.key);
                let desc = BufferDesc::new(it.desc.size).with_sharing_mode(SharingMode::Concurrent);
                match it.reads.is_empty() {
                    true => graph.buffer(name, &desc, &all(&it.uses)).unwrap(),
                    false => graph.history_buffer(name, &desc, &all(&it.uses), &all(&it.reads)).unwrap(),
                }
            })
            .collect();
        let transient = graph.plan().unwrap();
        let before = core::mem::take(&mut self.filled);
        let mut filled: Vec<Option<u8>> = vec![None; buffers.len()];
        let mut points = Vec::new();
        for (number, (&pass, at)) in passes.iter().zip(&described.passes).enumerate() {
            let queue = QueueIndex(at.queue);
            let commands = frame.command_allocator(queue).unwrap();
            let mut ring = self.gpu.readback().unwrap();
            for (index, (resource, &buffer)) in described.resources.iter().zip(&buffers).enumerate() {
                let handle = transient.buffer(buffer).handle();
                let size = resource.desc.size;
                let firsts: Vec<usize> = (0..passes.len()).filter(|&it| order.is_first(index, it)).collect();
                let mut read = |fill: u8| {
                    let ticket = ring.allocate(size, Alignment::new(16).unwrap()).unwrap();
                    commands.copy_buffer((&handle, 0), (ring.buffer(), ticket.offset()), size);
                    self.reads.push((ticket, fill));
                };
                let is_first = transient.first_uses(pass).any(|first| first.resource == buffer.resource());
                assert_eq!(is_first, firsts.contains(&number));
                if firsts == [number] {
                    self.next_fill = self.next_fill.wrapping_add(1);
                    let upload = frame.upload(vec![self.next_fill; size as usize]).unwrap();
                    commands.copy_buffer((&upload.buffer, upload.offset), (&handle, 0), size);
                    filled[index] = Some(self.next_fill);
                } else if resource.uses.contains(&number)
                    && firsts.len() == 1
                    && order.is_pass_before(firsts[0], number)
                {
                    read(filled[index].unwrap());
                }
                let kept = before.get(index).copied().flatten();
                let kept = kept.filter(|_| transient.is_kept(buffer.resource()));
                if let (true, Some(fill)) = (resource.reads.contains(&number), kept) {
                    read(fill);
                }
            }
            let mut waits: TimelinePoints = transient.waits(&[pass]);
            at.waits.iter().for_each(|&other| waits.insert(points[other]));
            let mut room = TimelinePoints::ROOM;
            let submit = |queue, waits: &[_]| {
                // SAFETY: what was recorded is alive until its submission has completed.
                unsafe { self.device.submit_commands(queue, waits, &[&commands]) }
            };
            let point = frame.submit_after(queue, waits.as_slice(&mut room), submit).unwrap();
            ring.close(point);
            points.push(point);
            if is_noted {
                transient.submitted(&[pass], point);
            }
        }
        self.filled = filled;
        frame.end().unwrap();
    }

    /// Compares what the passes have found.
    pub(crate) fn compare(&mut self) {
        self.gpu.wait_idle().unwrap();
        let ring = self.gpu.readback().unwrap();
        for (ticket, fill) in self.reads.drain(..) {
            let mut bytes = vec![0; ticket.size() as usize];
            ring.read(&ticket, &mut bytes).unwrap();
            assert_eq!(bytes, vec![fill; bytes.len()]);
        }
        assert_eq!(self.device.validation_errors(), Vec::<String>::new());
    }

    /// Drops all. Nothing is left.
    pub(crate) fn finish(self) {
        drop(self.heap);
        self.gpu.wait_idle().unwrap();
        drop(self.gpu);
        assert_eq!(self.device.validation_errors(), Vec::<String>::new());
        let usage = self.device.usage();
        assert_eq!((usage.memory_objects, usage.buffers, usage.images), (0, 0, 0));
    }

    pub(crate) fn frame(&self) -> GpuFrame<SimulatedGpu> {
        self.gpu.begin_frame().unwrap()
    }
}

/// Returns a submission with nothing in it, for a frame.
pub(crate) fn empty_submission(
    device: &SimulatedGpu,
) -> impl FnOnce(QueueIndex, &[TimelinePoint]) -> Result<TimelineValue, DeviceError> {
    // SAFETY: there is nothing in it.
    |queue, waits| unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
}

/// Describes a frame with one resource of each description, in passes one after the other, and plans it.
pub(crate) fn plan_of(
    rig: &mut Rig,
    images: &[(&'static str, ImageDesc)],
    buffers: &[(&'static str, u64)],
) -> Result<Vec<AllocationId>, TransientHeapError> {
    let frame = rig.gpu.begin_frame().unwrap();
    let mut graph = frame.transient(&mut rig.heap)?;
    let pass = graph.pass(QUEUE, &[])?;
    let mut ids = Vec::new();
    let images = images.iter().map(|(name, desc)| graph.image(*name, desc, &[pass]));
    let images = images.collect::<Result<Vec<_>, _>>()?;
    let buffers = buffers.iter().map(|&(name, size)| graph.buffer(name, &BufferDesc::new(size), &[pass]));
    let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
    let transient = graph.plan()?;
    for image in images {
        ids.push(transient.image(image).id());
    }
    for buffer in buffers {
        ids.push(transient.buffer(buffer).id());
    }
    frame.end().unwrap();
    Ok(ids)
}

//! One frame: what its commands are recorded into and read, how they are submitted, and what the end of a frame does.
//!
//! ```text
//!   begin_frame   waits until fewer than `frames_in_flight` frames are in flight; opens the frame's recording
//!     upload, command_allocator, transient_descriptors      tied to the recording, from any thread
//!     submit                                                 any number of times, on any queue
//!   end           closes the recording ── reclaims ── end of the allocator's frame ── maintenance ── defragmentation
//! ```
//!
//! # When the memory of a frame is reused
//!
//! Everything that a frame lends belongs to its recording. How the recording is closed says when it comes back:
//!
//! | submissions of the frame | reused |
//! |---|---|
//! | none | at once |
//! | one or several on one queue | when the last of them has completed, since a queue completes them in order |
//! | on several queues | when every queue has completed what it was given before the frame was closed |
//! | one whose closure panicked | likewise, since a queue may have the commands |

use core::convert::Infallible;
use core::fmt;
use std::sync::Mutex;

use allotment_suballoc::Alignment;

use super::{FrameError, Gpu, SubmitError};
use crate::device::{CommandDevice, Device, DeviceError, QueueIndex, TimelinePoint, TimelineValue};
use crate::lifetime::{PooledCommandAllocator, Reclaimed, Recording, TimelinePoints};
use crate::memory::DefragmentationStep;
use crate::sync::locked;
use crate::upload::{SharedArenas, UploadArena, UploadError};

/// One frame, from [`Gpu::begin_frame`] to [`end`](Self::end).
///
/// A frame is `Send` and `Sync`. Threads that record at the same time share a reference; one that uploads much takes an
/// [`upload_arena`](Self::upload_arena) of its own, which shares nothing.
///
/// A frame that is dropped is closed as [`end`](Self::end) closes it, without the work of the end: what was submitted
/// stays submitted, what was lent comes back, and pending uploads stay pending. A frame that is leaked
/// ([`core::mem::forget`]) keeps its recording open, so nothing that is retired afterwards is ever reclaimed;
/// `gpu.tracker().statistics().longest_open` names it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let frame = gpu.begin_frame()?;
/// std::thread::scope(|scope| {
///     for number in 0..4_u8 {
///         let frame = &frame;
///         scope.spawn(move || frame.upload([number; 64])); // from any thread
///     }
/// });
/// frame.submit(QueueIndex(0), |queue, waits| {
///     // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
///     unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
/// })?;
/// println!("{} objects reclaimed", frame.end()?.reclaimed.count);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a frame that is dropped reclaims nothing; call `end`"]
pub struct Frame<D: Device> {
    gpu: Gpu<D>,
    number: u64,
    /// Taken when the frame is closed.
    recording: Option<Recording>,
    /// The memory of [`Frame::upload`].
    arenas: SharedArenas<D>,
    submissions: Mutex<Submissions>,
}

/// The submissions of a frame.
#[derive(Default)]
struct Submissions {
    /// The last submission on each queue.
    last: TimelinePoints,
    /// A closure panicked, and a queue may have its commands.
    is_uncertain: bool,
}

/// Bytes in transient memory of a frame, for its commands to read. Returned by [`Frame::upload`].
///
/// They stay until the frame's submissions have completed. Commands of another frame must not read them.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let vertices: Vec<u8> = [0.0_f32, 1.0, 0.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
/// let frame = gpu.begin_frame()?;
/// let upload = frame.upload(&vertices)?;
/// // What a draw binds: `vkCmdBindVertexBuffers(…, &upload.buffer, &upload.offset)`.
/// println!("{} bytes of {:?} from {} on", upload.size, upload.buffer, upload.offset);
/// assert_eq!(upload.size, 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FrameUpload<D: Device> {
    /// The buffer that the bytes are in.
    pub buffer: D::Buffer,
    /// The first byte in the buffer.
    pub offset: u64,
    /// Bytes that were written.
    pub size: u64,
}

/// The work that the end of a frame did.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// for _ in 0..3 {
///     let report = gpu.begin_frame()?.end()?;
///     println!("frame {}: {} bytes reclaimed", report.number, report.reclaimed.bytes);
///     assert!(report.defragmentation.is_none(), "the description asks for none");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FrameReport {
    /// The number of the frame that ended, counted from 0.
    pub number: u64,
    /// Objects that were reclaimed, in all layers.
    pub reclaimed: Reclaimed,
    /// The step of defragmentation; `None` where [`GpuDesc::defragmentation`](super::GpuDesc::defragmentation) asks for
    /// none.
    pub defragmentation: Option<DefragmentationStep>,
}

/// Sets [`Submissions::is_uncertain`] when it is dropped, unless the closure has returned.
struct Uncertain<'a> {
    submissions: &'a Mutex<Submissions>,
    has_returned: bool,
}

impl Drop for Uncertain<'_> {
    fn drop(&mut self) {
        if !self.has_returned {
            locked(self.submissions).is_uncertain = true;
        }
    }
}

impl<D: Device> Frame<D> {
    pub(super) fn new(gpu: Gpu<D>, number: u64) -> Self {
        // Open from the beginning, not from the first command: the program may record the use of any object in between,
        // so what it releases from now on has to wait for this frame.
        let recording = Some(gpu.tracker().record("frame"));
        Self { gpu, number, recording, arenas: SharedArenas::new(), submissions: Mutex::default() }
    }

    /// Returns the `Gpu` that the frame belongs to.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let shadows = |frame: &Frame<SimulatedGpu>| {
    ///     let options = MemoryUsage::GpuOnly.with_name("shadow map");
    ///     frame.gpu().create_image(&ImageDesc::new(512, 512, 4), &options) // a pass needs the frame alone
    /// };
    /// let frame = gpu.begin_frame()?;
    /// drop(shadows(&frame)?);
    /// frame.end()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn gpu(&self) -> &Gpu<D> {
        &self.gpu
    }

    /// Returns the number of the frame, counted from 0.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// assert_eq!(gpu.begin_frame()?.number(), 0);
    /// assert_eq!(gpu.begin_frame()?.number(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the frame's number modulo the frames in flight: the index of what a program has once per frame in
    /// flight. As long as frames do not overlap, the GPU has completed the last frame with the same index.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// // Written by the CPU, and read by the GPU while the CPU records the frames after it.
    /// let options = MemoryUsage::Upload.with_name("camera");
    /// let mut cameras = Vec::new();
    /// for _ in 0..gpu.desc().frames_in_flight.get() {
    ///     cameras.push(gpu.create_buffer(&BufferDesc::new(64), &options)?);
    /// }
    /// for _ in 0..10 {
    ///     let frame = gpu.begin_frame()?;
    ///     cameras[frame.slot()].write(0, &[7; 64])?;
    ///     frame.end()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn slot(&self) -> usize {
        (self.number % self.gpu.desc().frames_in_flight.get() as u64) as usize
    }

    /// Returns the recording that everything in this frame belongs to, for layers that ask for one.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let mut arena = gpu.upload_pool().arena(frame.recording().id()); // its pages come back with the frame's
    /// let particles = arena.allocate(1 << 16, Alignment::new(256)?)?;
    /// assert_eq!(particles.size(), 1 << 16);
    /// frame.end()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recording(&self) -> &Recording {
        match &self.recording {
            Some(recording) => recording,
            None => unreachable!("taken only by what consumes the frame"),
        }
    }

    /// Declares that the frame's commands write to no relocatable resource, so that steps may move resources while the
    /// frame is open, those of other threads too. See [`Recording::only_reads`]. [Uploads](Gpu::uploads) are no part of the
    /// frame, and may write.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::defragmentation::StepOutcome;
    ///
    /// let frame = gpu.begin_frame()?;
    /// let step = || gpu.defragmenter().step(Default::default()); // of another thread, say
    /// assert_eq!(step()?.outcome, StepOutcome::RecordingIsOpen);
    /// let frame = frame.only_reads(); // it draws into images that are pinned
    /// assert_ne!(step()?.outcome, StepOutcome::RecordingIsOpen);
    /// frame.end()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only_reads(mut self) -> Self {
        self.recording = self.recording.take().map(Recording::only_reads);
        self
    }

    /// Copies bytes to transient memory that the frame's commands read: constants, vertices, indirect arguments. The
    /// offset is a multiple of [`Limits::buffer_offset_alignment`](crate::device::Limits::buffer_offset_alignment), so the
    /// bytes can be bound in every way; those up to the next multiple belong to the range, too, since constant buffers of
    /// Direct3D 12 end at one.
    ///
    /// [`upload_aligned`](Self::upload_aligned) takes less memory where less alignment will do: 64 bytes of vertices are 64
    /// bytes there, and 256 here on Direct3D 12.
    ///
    /// On Vulkan, pages can be bound as uniform, storage, index, vertex and indirect buffers unless
    /// [`GpuDesc::upload_pages`](super::GpuDesc::upload_pages) says otherwise.
    ///
    /// Costs an addition and the copy for the thread that uploads first to the frame, and an atomic exchange more for all
    /// others. Threads that upload to one frame at the same time take a page each.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let constants = frame.upload([7; 64])?;
    /// let alignment = gpu.device().properties().limits.buffer_offset_alignment;
    /// assert_eq!((constants.offset % alignment.get(), constants.size), (0, 64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError::ZeroSize`], or [`UploadError::Resource`] where there is no memory for another page.
    pub fn upload(&self, bytes: impl AsRef<[u8]>) -> Result<FrameUpload<D>, UploadError> {
        let bytes = bytes.as_ref();
        let alignment = self.gpu.device().properties().limits.buffer_offset_alignment;
        // A slice has at most `isize::MAX` bytes, and an alignment fits beside that, so this does not overflow.
        let size = (bytes.len() as u64).next_multiple_of(alignment.get());
        self.upload_bytes(bytes, size, alignment)
    }

    /// Copies bytes as [`upload`](Self::upload) does, to a multiple of `alignment` bytes, and takes no more than these bytes.
    /// What the bytes are for says the alignment:
    ///
    /// | bytes | alignment |
    /// |---|---|
    /// | vertices, indices, indirect arguments | 4, or the size of the largest component |
    /// | what commands copy to a buffer | [`Alignment::ONE`]; queues that only copy: 4 |
    /// | what commands copy to an image | [`Limits::image_copy_offset_alignment`](crate::device::Limits::image_copy_offset_alignment) |
    /// | constants, storage buffers, texels | that of [`upload`](Self::upload) |
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let vertices = frame.upload_aligned([0; 60], Alignment::new(4)?)?;
    /// let indices = frame.upload_aligned([0; 12], Alignment::new(4)?)?;
    /// assert_eq!(indices.offset - vertices.offset, 60); // of one thread, and in one page
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError::ZeroSize`], or [`UploadError::Resource`] where there is no memory for another page.
    pub fn upload_aligned(
        &self,
        bytes: impl AsRef<[u8]>,
        alignment: Alignment,
    ) -> Result<FrameUpload<D>, UploadError> {
        let bytes = bytes.as_ref();
        self.upload_bytes(bytes, bytes.len() as u64, alignment)
    }

    /// Copies bytes to a range of `size` bytes, which may be more.
    #[inline(never)]
    pub(crate) fn upload_bytes(
        &self,
        bytes: &[u8],
        size: u64,
        alignment: Alignment,
    ) -> Result<FrameUpload<D>, UploadError> {
        let of = (self.gpu.upload_pool(), self.recording().id());
        let written = bytes.len() as u64;
        self.arenas.upload(of, bytes, (size, alignment), |buffer, offset| FrameUpload {
            buffer: buffer.clone(),
            offset,
            size: written,
        })
    }

    /// Returns an arena of transient memory of this frame for one thread, which allocates from it without a lock. It
    /// may be dropped before or after the frame.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// std::thread::scope(|scope| {
    ///     for number in 0..4 {
    ///         let mut arena = frame.upload_arena();
    ///         scope.spawn(move || {
    ///             let mut constants = arena.allocate(256, Alignment::new(256).unwrap()).unwrap();
    ///             constants.write(0, &[number; 256]).unwrap();
    ///         });
    ///     }
    /// });
    /// frame.end()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn upload_arena(&self) -> UploadArena<D> {
        self.gpu.upload_pool().arena(self.recording().id())
    }

    /// Returns a command allocator for a queue: from the pool, reset, or created where none is free. A frame may have
    /// several, one for each thread that records.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("numbers");
    /// let from = gpu.create_buffer(&BufferDesc::new(256), &options)?;
    /// let to = gpu.create_buffer(&BufferDesc::new(256), &options)?;
    /// gpu.uploads().write_buffer(&from, 0, &[7; 256])?;
    ///
    /// let frame = gpu.begin_frame()?;
    /// let commands = frame.command_allocator(QueueIndex(0))?;
    /// commands.copy_buffer((&from.handle(), 0), (&to.handle(), 0), 256);
    /// frame.submit(QueueIndex(0), |queue, waits| {
    ///     // SAFETY: the buffers are alive until the GPU has completed the frame, and the range lies in them.
    ///     unsafe { device.submit_commands(queue, waits, &[&commands]) }
    /// })?;
    /// drop(commands);
    /// frame.end()?;
    /// # let mut bytes = [0; 256];
    /// # gpu.read_buffer(&to, 0, &mut bytes)?;
    /// # assert_eq!(bytes, [7; 256]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoSuchQueue`] where the device has no such queue, else the driver's refusal to create one.
    #[inline(never)]
    pub fn command_allocator(
        &self,
        queue: QueueIndex,
    ) -> Result<PooledCommandAllocator<D::CommandAllocator>, DeviceError>
    where
        D: CommandDevice,
    {
        self.gpu.acquire_commands(queue, self.recording().id())
    }

    /// Submits commands of this frame. `submit` hands them to the queue, which waits for the points that it is given,
    /// and returns the value that the queue's timeline has when they are completed. The points are those of the uploads
    /// that were written before, and of resources that defragmentation moved.
    ///
    /// A frame may submit several times and on several queues, from several threads. No lock is held while `submit`
    /// runs.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let drawn = frame.submit(QueueIndex(0), |queue, waits| {
    ///     // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
    ///     unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    /// })?;
    /// frame.end()?;
    /// gpu.wait(drawn)?; // a program that draws does not wait: `begin_frame` does
    /// assert!(gpu.tracker().is_reached(drawn));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SubmitError`]; what `submit` fails with is taken to mean that no queue has the commands. Repeat the
    /// submission, or drop the frame.
    pub fn submit<E>(
        &self,
        queue: QueueIndex,
        submit: impl FnOnce(QueueIndex, &[TimelinePoint]) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, SubmitError<E>> {
        self.submit_after(queue, &[], submit)
    }

    /// Submits commands as [`submit`](Self::submit) does, which wait for `waits` as well: for the frame's submission on
    /// another queue, say.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let submit = |queue, waits: &[TimelinePoint]| {
    ///     // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
    ///     unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    /// };
    /// let computed = frame.submit(QueueIndex(1), submit)?;
    /// let drawn = frame.submit_after(QueueIndex(0), &[computed], submit)?;
    /// frame.end()?;
    /// gpu.wait(drawn)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SubmitError`], with the consequences that [`submit`](Self::submit) describes.
    pub fn submit_after<E>(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        submit: impl FnOnce(QueueIndex, &[TimelinePoint]) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, SubmitError<E>> {
        let points = self.gpu.submission_waits(queue, waits).map_err(SubmitError::Uploads)?;
        self.submit_with(queue, &points, submit).map_err(SubmitError::Commands)
    }

    /// Submits commands, which wait for these points.
    pub(super) fn submit_with<E>(
        &self,
        queue: QueueIndex,
        points: &TimelinePoints,
        submit: impl FnOnce(QueueIndex, &[TimelinePoint]) -> Result<TimelineValue, E>,
    ) -> Result<TimelinePoint, E> {
        let submitted = self.gpu.submit_with(queue, points, |queue, waits| {
            let mut uncertain = Uncertain { submissions: &self.submissions, has_returned: false };
            let submitted = submit(queue, waits);
            uncertain.has_returned = true;
            submitted
        });
        let point = TimelinePoint { queue, value: submitted? };
        // One point per queue is enough, since a queue completes its submissions in order.
        locked(&self.submissions).last.insert(point);
        Ok(point)
    }

    /// Ends the frame: closes it, submits pending [reads](Gpu::reads), reclaims what the GPU has completed (resources, upload
    /// pages, descriptors, samplers, readback ranges, command allocators), ends the allocator's frame, does maintenance, and a
    /// step of defragmentation where [`GpuDesc::defragmentation`](super::GpuDesc::defragmentation) asks for one.
    ///
    /// Defragmentation is skipped while another recording is open that may write; one that [only
    /// reads](Self::only_reads) keeps nothing from moving. Where another thread opens one during the call, nothing is moved
    /// either. [Uploads](Gpu::uploads) wait until the call is over. A program in which another frame or an
    /// [`Uploader`](crate::upload::Uploader) with staged bytes is open at the end of each frame moves nothing at all:
    /// each step returns [`RecordingIsOpen`](crate::memory::defragmentation::StepOutcome::RecordingIsOpen).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// drop(mesh); // the frame may use it
    /// let report = frame.end()?;
    /// assert_eq!((report.number, report.reclaimed.count), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FrameError::Uploads`] and [`FrameError::Defragmentation`], both from the last of these steps: the frame has
    /// ended in any case.
    #[inline(never)]
    pub fn end(mut self) -> Result<FrameReport, FrameError> {
        // After the frame's own submissions, and a part of it: the frame that waits for this one has the bytes. Where it fails,
        // the handles say so.
        let _ = self.gpu.reads().submit();
        self.gpu.uploads().next_frame();
        // Before all else, since the frame's own recording holds back both what is reclaimed and a step of defragmentation.
        self.close();
        let reclaimed = self.gpu.reclaim_of_frame();
        // After reclaiming, which may have emptied blocks: their empty-block policy counts this frame already.
        self.gpu.emit_end_of_frame();
        self.gpu.allocator().end_frame();
        self.gpu.maintain();
        // Last, since only this can fail: after an error nothing else of the frame's end is left to do.
        let defragmentation = self.gpu.defragment_step()?;
        Ok(FrameReport { number: self.number, reclaimed, defragmentation })
    }

    /// Closes the recording, so that what the frame lent comes back, and counts the frame as in flight.
    #[inline(never)]
    fn close(&mut self) {
        let Some(mut recording) = self.recording.take() else { return };
        // Its pages are tied to the recording, so its end below decides when another frame may have them.
        self.arenas.close(self.gpu.upload_pool());
        let Submissions { last, is_uncertain } = core::mem::take(&mut *locked(&self.submissions));
        let mut points = last.points();
        match (points.next(), points.next()) {
            // Its commands never run.
            (None, _) if !is_uncertain => drop(recording),
            // The exact point, so that a recording that stays open for long does not hold back the frame's pages.
            (Some(point), None) if !is_uncertain => {
                let _ = recording.submit(point.queue, |_| Ok::<_, Infallible>(point.value));
            }
            // A recording has one point, and here there are several or an unknown one. A recording that was submitted and
            // kept waits for all that queues were given.
            (first, _) => {
                let TimelinePoint { queue, value } =
                    first.unwrap_or(TimelinePoint { queue: QueueIndex(0), value: TimelineValue(0) });
                let _ = recording.submit_and_keep(queue, |_| Ok::<_, Infallible>(value));
                drop(recording);
            }
        }
        // After the last submission of the frame: what the queues have by now is what a later frame waits for.
        self.gpu.note_end_of_frame();
    }
}

impl<D: Device> Drop for Frame<D> {
    #[inline(never)]
    fn drop(&mut self) {
        self.close();
    }
}

impl<D: Device> fmt::Debug for Frame<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("number", &self.number)
            .field("submitted", &locked(&self.submissions).last)
            .finish_non_exhaustive()
    }
}

//! Reads of buffers and images: copies into memory that the CPU reads, many in one submission.
//!
//! ```text
//!   read_buffer, read_image    the source is checked, a recording is open     ─┐ pending
//!   submit                     memory for all of them, one submission         ─┘ in flight
//!   poll                       batches that have completed: tasks are woken, callbacks called
//! ```
//!
//! # Memory
//!
//! A batch has one buffer, which its handles share. It comes back when the last of them is dropped, and is used again or, after
//! a thousand frames without use, freed. So a handle that is kept for long holds up its batch alone, and a large image needs
//! no ring of its size. Where there is no memory for a buffer of all reads, each half of them gets one, and so on: a read that
//! is too large fails alone.
//!
//! # States of images
//!
//! A copy names the state that a subresource is in, and leaves it there. The states are those after all that is staged, so they
//! are looked at while no thread can stage more, with all of it submitted but what is streamed to other resources: the `Gpu`'s
//! uploads are paused, and uploaders of the program's own wait while an image is being read, from the look at its states until
//! the queue has the copy.
//!
//! # Locks
//!
//! `pending` comes before that of opening recordings, and that before the lock of a relocatable source. `submitting` comes
//! before all of them and before the uploader's.

mod error;
mod handle;

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::completion::Panics;
use super::copied_part::{CopiedPart, check_states};
use super::lane::{Streamed, reuse_capacity};
use super::ring_desc::RingDesc;
use super::uploader::Uploader;
use crate::device::{
    BufferCopy, BufferDesc, CopyDirection, Device, DeviceError, ImageCopy, ImageCopyError, ImagePart,
    ImageShape, MemoryProperties, PartRegion, QueueIndex, Submission, TimelinePoint, TransferUsage,
};
use crate::lifetime::{Recording, SubmissionTracker, TimelinePoints, WrongTracker};
use crate::memory::resource::{SharedStates, SubresourceState};
use crate::memory::{
    AllocationId, Buffer, Dedicated, Image, MappedBuffer, OtherWriter, OwningAllocator, ReadMark, ShortName,
};
use crate::sync::locked;

pub use error::ReadError;
pub use handle::{ReadHandle, ReadStatus};

use handle::{ReadMemory, Rows, Shared, finish};

/// Where a copy begins: copies between multiples of 16 are fast on every device.
const COPY_ALIGNMENT: u64 = 16;

/// Least bytes of a buffer for a batch.
const LEAST: u64 = 64 << 10;

/// How many times [`ReadQueue::poll`] sees a buffer unused before it is freed: ten to twenty seconds of frames.
const UNUSED: u32 = 1024;

/// Reads over one queue.
pub(crate) struct ReadQueue<D: Device> {
    memory: OwningAllocator<D>,
    queue: QueueIndex,
    pending: Mutex<Pending<D>>,
    /// Locked by one thread that submits, or looks what has completed.
    submitting: Mutex<Batches<D>>,
}

/// How many buffers may be refused before the reads of a batch that have none fail. A read that is too large among a thousand
/// costs eleven.
const MOST_REFUSED: u32 = 32;

/// How long the queue of a `Gpu` that is dropped waits for the GPU.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Most that are kept of what reads share, to be used again.
const SPARE: usize = 256;

/// Reads that are not submitted.
struct Pending<D: Device> {
    /// Keeps their sources from being destroyed, and from moving; open while there are any.
    recording: Option<Recording>,
    reads: Vec<Read<D>>,
    /// Of reads that are over, though some may have a handle: oldest first.
    spare: VecDeque<Arc<Shared>>,
}

struct Read<D: Device> {
    shared: Arc<Shared>,
    source: Source<D>,
    /// Where the copy goes, while it is submitted.
    buffer: Option<Arc<MappedBuffer<D>>>,
}

#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each image that is read")]
enum Source<D: Device> {
    Buffer {
        buffer: D::Buffer,
        id: AllocationId,
        is_shared: bool,
        offset: u64,
        name: ShortName,
    },
    Image {
        image: D::Image,
        id: AllocationId,
        states: SharedStates<D::ImageState>,
        shape: ImageShape,
        /// Of the shape, which was checked.
        part: ImagePart,
        name: ShortName,
    },
}

struct Batches<D: Device> {
    in_flight: VecDeque<InFlight<D>>,
    /// The reads of those, batch by batch.
    reads: VecDeque<Arc<Shared>>,
    buffers: Vec<Kept<D>>,
    submissions: u64,
    /// Room for the reads that are submitted, for their marks and the states of their regions, and for the description of the
    /// submission.
    scratch: Vec<Read<D>>,
    marks: Vec<ReadMark>,
    states: Vec<D::ImageState>,
    copies: Vec<BufferCopy<'static, D>>,
    image_copies: Vec<ImageCopy<'static, D>>,
}

/// The reads of a submission that go to one buffer.
struct InFlight<D: Device> {
    point: TimelinePoint,
    reads: usize,
    /// Until the queue has written it.
    buffer: Option<Arc<MappedBuffer<D>>>,
}

/// A buffer that is used again once nothing else refers to it.
struct Kept<D: Device> {
    buffer: Arc<MappedBuffer<D>>,
    unused: u32,
}

/// Waits for the GPU for some seconds, as all that is dropped with a `Gpu` does: tasks are woken, and callbacks called.
impl<D: Device> Drop for ReadQueue<D> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        let last = {
            let batches = self.submitting.get_mut().unwrap_or_else(PoisonError::into_inner);
            batches.in_flight.back().map(|batch| batch.point)
        };
        if let Some(last) = last {
            // What has not completed by then never will.
            let _ = self.tracker().wait(last, LAST_WAIT);
            panics.catch(|| self.poll());
        }
        let batches = self.submitting.get_mut().unwrap_or_else(PoisonError::into_inner);
        for shared in core::mem::take(&mut batches.reads) {
            shared.abandon();
            finish(&shared, &mut panics);
        }
    }
}

/// A read whose copy was not submitted has no bytes, whatever the reason.
impl<D: Device> Drop for Read<D> {
    fn drop(&mut self) {
        if self.shared.fail(ReadError::GivenUp) {
            finish(&self.shared, &mut Panics::default());
        }
    }
}

/// Counts of reads. Returned by [`Reads::statistics`](crate::gpu::Reads::statistics).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let counters = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("counters"))?;
/// let reads = [0, 64].map(|offset| gpu.reads().read_buffer(&counters, offset, 64).unwrap());
/// assert_eq!(gpu.reads().statistics().pending, 2);
/// gpu.begin_frame()?.end()?;
/// let counts = gpu.reads().statistics();
/// assert_eq!((counts.pending, counts.submissions), (0, 1), "both are one submission");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadStatistics {
    /// Reads whose copy is not submitted.
    pub pending: u64,
    /// Reads that the GPU may not have completed.
    pub in_flight: u64,
    /// Submissions so far.
    pub submissions: u64,
    /// Bytes of memory that is read into, used or kept.
    pub bytes: u64,
}

impl<D: Device> ReadQueue<D> {
    /// Creates a queue of reads. No memory is allocated.
    pub(crate) fn new(memory: &OwningAllocator<D>, queue: QueueIndex) -> Self {
        Self {
            memory: memory.clone(),
            queue,
            pending: Mutex::new(Pending { recording: None, reads: Vec::new(), spare: VecDeque::new() }),
            submitting: Mutex::new(Batches {
                in_flight: VecDeque::new(),
                reads: VecDeque::new(),
                buffers: Vec::new(),
                submissions: 0,
                scratch: Vec::new(),
                marks: Vec::new(),
                states: Vec::new(),
                copies: Vec::new(),
                image_copies: Vec::new(),
            }),
        }
    }

    fn tracker(&self) -> &SubmissionTracker {
        self.memory.deletion_queue().tracker()
    }

    /// Adds a read of a range of a buffer.
    pub(crate) fn read_buffer(
        &self,
        buffer: &Buffer<D>,
        offset: u64,
        size: u64,
    ) -> Result<ReadHandle, ReadError> {
        self.add(|| self.buffer_source(buffer, offset, size)).map_err(|error| error.of(buffer.short_name()))
    }

    /// Adds a read of a part of an image.
    pub(crate) fn read_image(&self, image: &Image<D>, part: &ImagePart) -> Result<ReadHandle, ReadError> {
        self.add(|| self.image_source(image, part)).map_err(|error| error.of(image.short_name()))
    }

    /// Adds a read of what `source` returns, with the size, while a recording is open.
    fn add(
        &self,
        source: impl FnOnce() -> Result<(Source<D>, u64), ReadError>,
    ) -> Result<ReadHandle, ReadError> {
        let added = {
            let mut pending = locked(&self.pending);
            if pending.recording.is_none() {
                // Before the lock of a relocatable source is taken, which keeps steps from moving it.
                pending.recording = Some(self.tracker().record("reads").leaving_orphans());
            }
            let added = source().map(|(source, size)| {
                let shared = pending.shared(self.tracker(), size);
                let handle = ReadHandle::of(&shared);
                pending.reads.push(Read { shared, source, buffer: None });
                handle
            });
            if pending.reads.is_empty() {
                // A recording without a read would hold back what other code releases.
                pending.recording = None;
            }
            added
        };
        self.tracker().visit_orphans();
        added
    }

    fn buffer_source(
        &self,
        buffer: &Buffer<D>,
        offset: u64,
        size: u64,
    ) -> Result<(Source<D>, u64), ReadError> {
        let allocator = self.memory.allocator();
        let (id, name) = (buffer.id(), buffer.short_name());
        buffer.with_owned(|buffer, _| {
            let place = allocator.place_of_bound(buffer.allocation()).map_err(ReadError::Access)?;
            self.check_tracker(buffer.tracker())?;
            if size == 0 {
                return Err(ReadError::ZeroSize { name: ShortName::NONE });
            }
            buffer.check_bytes(offset, size, place.size).map_err(ReadError::Access)?;
            buffer.check_usage(TransferUsage::SRC).map_err(ReadError::Access)?;
            buffer.check_queue(allocator.device(), self.queue).map_err(ReadError::Access)?;
            let found = allocator.device().properties().memory_type(place.memory_type);
            if found.is_some_and(|found| found.properties.contains(MemoryProperties::DEVICE_WRITE_ONLY)) {
                return Err(ReadError::WriteOnly { memory_type: place.memory_type, name: ShortName::NONE });
            }
            let (handle, is_shared) = (buffer.handle().clone(), buffer.is_shared());
            Ok((Source::Buffer { buffer: handle, id, is_shared, offset, name }, size))
        })
    }

    fn image_source(&self, image: &Image<D>, part: &ImagePart) -> Result<(Source<D>, u64), ReadError> {
        let device = self.memory.allocator().device();
        let (handle, shape) = image.with_owned(|owned, _| {
            self.memory.allocator().place_of_bound(owned.allocation()).map_err(ReadError::Access)?;
            self.check_tracker(owned.tracker())?;
            // Only a texture has a shape: on Direct3D 12 a token may be of a buffer.
            let shape = owned.shape().copied().ok_or(ImageCopyError::NotAnImage)?;
            Ok::<_, ReadError>((owned.handle().clone(), shape))
        })?;
        let states = image.with_states(Arc::clone);
        let copied = CopiedPart::new(&shape, &states, part)?;
        // Known by now: an image without texels is refused at once.
        let size = copied.check(device, self.queue, TransferUsage::SRC, |found| {
            let state = state_to_read(&copied, found)?;
            Ok::<_, ReadError>([state, state])
        })?;
        if size == 0 {
            return Err(ReadError::ZeroSize { name: ShortName::NONE });
        }
        let (part, name) = (part.clone(), image.short_name());
        Ok((Source::Image { image: handle, id: image.id(), states, shape, part, name }, size))
    }

    fn check_tracker(&self, tracker: &SubmissionTracker) -> Result<(), ReadError> {
        let same = self.tracker().check_same(tracker);
        same.map_err(|WrongTracker| ReadError::WrongTracker { name: ShortName::NONE })
    }

    /// Submits the pending reads, after the pending uploads. The copies wait for all that any queue was given before, except
    /// what is streamed to other resources. Returns the point at which all reads so far have their bytes; `None` where no
    /// queue has any to do.
    ///
    /// Reads whose handles are all dropped are left out. Where this fails, the reads fail with the error.
    pub(crate) fn submit(&self, uploader: &Uploader<D>) -> Result<Option<TimelinePoint>, ReadError> {
        // Dropped last, also where the driver panics: callbacks of what is over are called, and uploads go on, with no lock
        // held.
        let (mut reads, mut over) = (Vec::new(), Vec::new());
        // Before anything is held: a read of what another resource is about to get comes after that.
        self.memory.allocator().writers().let_activations_pass();
        // What no handle is left of keeps no thread from uploading.
        let is_wanted = locked(&self.pending).reads.iter().any(|read| read.shared.is_wanted());
        let pause = || uploader.pause(Streamed::Left).map_err(ReadError::Uploads);
        let mut paused = is_wanted.then(pause);
        // Dropped first: until then, uploaders of the program's own wait, and a callback may write what was to be read.
        let mut marks = Vec::new();
        let submitted = {
            let mut batches = locked(&self.submitting);
            core::mem::swap(&mut reads, &mut batches.scratch);
            core::mem::swap(&mut marks, &mut batches.marks);
            let recording = {
                let mut pending = locked(&self.pending);
                core::mem::swap(&mut pending.reads, &mut reads);
                pending.recording.take()
            };
            over.extend(take_out(&mut reads, |read| !read.shared.is_wanted()));
            let submitted = match recording {
                Some(recording) if !reads.is_empty() => {
                    // Where another thread added them just now, uploads are paused just now.
                    let now = paused.get_or_insert_with(pause);
                    now.as_ref().map_err(|error| *error).and_then(|paused| {
                        let is_streamed = reads.iter().any(|it| uploader.is_streaming(it.source.id()));
                        if is_streamed {
                            paused.submit_streamed().map_err(ReadError::Uploads)?;
                        }
                        over.extend(self.prepare(&mut batches, uploader, &mut reads, &mut marks)?);
                        if reads.is_empty() {
                            return Ok(());
                        }
                        let points = self.tracker().submitted();
                        let points = if is_streamed { points } else { uploader.without_streamed(points) };
                        self.submit_reads(&mut batches, recording, &points, &mut reads)
                    })
                }
                _ => Ok(()),
            };
            if let Err(error) = submitted {
                reads.iter().for_each(|read| _ = read.shared.fail(error));
            }
            over.append(&mut reads);
            core::mem::swap(&mut reads, &mut batches.scratch);
            marks.clear();
            core::mem::swap(&mut marks, &mut batches.marks);
            submitted.map(|()| batches.in_flight.back().map(|batch| batch.point))
        };
        drop((paused, over, reads));
        self.tracker().visit_orphans();
        submitted
    }

    /// Finds memory for reads and the states of their regions, while no thread can stage an upload. Takes those out that fail.
    fn prepare(
        &self,
        batches: &mut Batches<D>,
        uploader: &Uploader<D>,
        reads: &mut Vec<Read<D>>,
        marks: &mut Vec<ReadMark>,
    ) -> Result<Vec<Read<D>>, ReadError> {
        let mut refusals = MOST_REFUSED;
        self.find_memory(batches, reads, &mut refusals)?;
        let states = &mut batches.states;
        states.clear();
        Ok(take_out(reads, |read| {
            if read.buffer.is_none() {
                // It has failed.
                return true;
            }
            let before = states.len();
            match self.find_states(uploader, read, states, marks) {
                Ok(()) => false,
                Err(error) => {
                    states.truncate(before);
                    read.shared.fail(error)
                }
            }
        }))
    }

    /// Gives reads memory: one buffer for all of them or, where the allocator refuses that, for each half. Those for which
    /// there is none fail. `refusals` are left. Returns an error where the device is lost.
    fn find_memory(
        &self,
        batches: &mut Batches<D>,
        reads: &mut [Read<D>],
        refusals: &mut u32,
    ) -> Result<(), ReadError> {
        let mut size = 0;
        let placed = reads.iter().try_for_each(|read| self.place(read, &mut size));
        let error = match placed.and_then(|()| batches.buffer(&self.memory, size)) {
            Ok(buffer) => {
                reads.iter_mut().for_each(|read| read.buffer = Some(Arc::clone(&buffer)));
                return Ok(());
            }
            Err(error) => error,
        };
        if self.tracker().is_lost() {
            return Err(ReadError::Device(DeviceError::Lost));
        }
        *refusals = refusals.saturating_sub(1);
        if reads.len() == 1 || *refusals == 0 {
            reads.iter().for_each(|read| _ = read.shared.fail(error));
            return Ok(());
        }
        let (first, second) = reads.split_at_mut(reads.len() / 2);
        self.find_memory(batches, first, refusals)?;
        self.find_memory(batches, second, refusals)
    }

    /// Adds the states of a read's regions to a list, in which the copies find them and leave them. Checks that they are known,
    /// and that the levels belong to the family of the queue.
    fn find_states(
        &self,
        uploader: &Uploader<D>,
        read: &Read<D>,
        list: &mut Vec<D::ImageState>,
        marks: &mut Vec<ReadMark>,
    ) -> Result<(), ReadError> {
        let (id, name, is_marked) = match read.source {
            Source::Buffer { id, is_shared, name, .. } => {
                (id, name, !is_shared || self.memory.allocator().is_placed(id))
            }
            Source::Image { id, name, .. } => (id, name, true),
        };
        if is_marked {
            // Another uploader could submit between the look at the states and the copy.
            let mark = self.memory.allocator().writers().read(id, uploader.id());
            marks.push(mark.map_err(|OtherWriter| ReadError::OtherUploader { name })?);
            // Since the read was added, the bytes may have become those of another resource.
            self.memory.allocator().check_active(id).map_err(ReadError::Access)?;
        }
        let Source::Image { states, shape, part, .. } = &read.source else { return Ok(()) };
        let copied = CopiedPart::<D>::new(shape, states, part)?;
        let device = self.memory.allocator().device();
        let found = copied.regions_with_texels().try_for_each(|found| {
            let (mip_level, array_layer) = (found.region.mip_level, found.region.array_layer);
            // Another queue has it until the write that goes on is over.
            if uploader.is_held((id, array_layer, mip_level)) {
                return Err(ReadError::BeingWritten { mip_level, array_layer, name: ShortName::NONE });
            }
            let state = state_to_read(&copied, &found)?;
            check_states(device, self.queue, [state, state])?;
            list.push(state);
            Ok(())
        });
        found.map_err(|error| error.of(name))
    }

    /// Submits reads that have memory, after these points, while no thread can stage an upload. Those whose copies were
    /// submitted are removed from the list.
    fn submit_reads(
        &self,
        batches: &mut Batches<D>,
        recording: Recording,
        points: &TimelinePoints,
        reads: &mut Vec<Read<D>>,
    ) -> Result<(), ReadError> {
        let device = self.memory.allocator().device();
        let mut copies = reuse_capacity(core::mem::take(&mut batches.copies));
        let mut image_copies = reuse_capacity(core::mem::take(&mut batches.image_copies));
        // What is placed may have its bytes since a moment ago.
        let aliases = reads.iter().any(|read| self.memory.allocator().is_placed(read.source.id()));
        let mut states = batches.states.iter().copied();
        for read in &*reads {
            add_copies(read, &mut states, &mut copies, &mut image_copies)?;
        }
        let mut room = TimelinePoints::ROOM;
        let waits = points.as_slice(&mut room);
        let work = Submission {
            waits,
            aliases,
            copies: &copies,
            image_copies: &image_copies,
            ..Submission::default()
        };
        let submitted = recording.submit(self.queue, |queue| {
            // SAFETY: the sources were checked with the recording open, which keeps them from being destroyed and from
            // moving. The states are those after all that is submitted, which the copies wait for as far as it is of their
            // sources, and no thread can stage more. The ranges of the buffers do not overlap, and these are kept until the
            // queue has completed the copies.
            unsafe { device.submit(queue, &work) }
        });
        batches.copies = reuse_capacity(copies);
        batches.image_copies = reuse_capacity(image_copies);
        let point = submitted.map_err(|refused| ReadError::Device(refused.error))?;
        batches.submissions += 1;
        // Writes of the images, on other queues, come after the copies.
        for read in &*reads {
            if let Source::Image { states, .. } = &read.source {
                locked(states).note_read(point);
            }
        }
        for mut read in reads.drain(..) {
            let Some(buffer) = read.buffer.take() else { continue };
            read.shared.submitted(point, Arc::clone(&buffer) as Arc<dyn ReadMemory>);
            batches.note_submitted(point, Arc::clone(&read.shared), buffer);
        }
        Ok(())
    }

    /// Places the rows of a read behind the first `size` bytes of a batch, and adds their bytes to it.
    fn place(&self, read: &Read<D>, size: &mut u64) -> Result<(), ReadError> {
        let mut all = read.shared.rows();
        all.clear();
        let limits = &self.memory.allocator().device().properties().limits;
        // Handles make whole atoms visible to the CPU: two threads that read neighbours have none in common.
        *size = limits.non_coherent_atom_size.align_up(*size);
        let Source::Image { shape, states, part, .. } = &read.source else {
            let (offset, row) = (size.next_multiple_of(COPY_ALIGNMENT), read.shared.size());
            *size = offset + row;
            all.push(Rows { offset, row, pitch: row, count: 1 });
            return Ok(());
        };
        for found in CopiedPart::<D>::new(shape, states, part)?.regions_with_texels() {
            let [width, _, depth] = found.region.extent;
            let rows = Rows {
                offset: found.texel.offset(*size, limits),
                row: found.row_bytes(),
                pitch: found.texel.row_pitch(width, limits),
                count: u64::from(found.rows()) * u64::from(depth),
            };
            // With the padding of the last row, which some layers take for a part of the copy.
            *size = rows.offset + rows.pitch * rows.count;
            all.push(rows);
        }
        Ok(())
    }

    /// Looks which reads are there: wakes the tasks that wait for them, and calls their callbacks. Frees buffers that were not
    /// used for long.
    pub(crate) fn poll(&self) {
        let mut panics = Panics::default();
        let mut batches = locked(&self.submitting);
        batches
            .buffers
            .iter_mut()
            .for_each(|kept| kept.unused = if kept.is_free() { kept.unused + 1 } else { 0 });
        // One in a frame.
        let unused = batches.buffers.iter().position(|kept| kept.unused >= UNUSED);
        let unused = unused.map(|index| batches.buffers.swap_remove(index));
        // A queue completes batches in order: the first pending one ends the search.
        while let Some(batch) = batches.in_flight.front_mut() {
            if !self.tracker().is_reached(batch.point) {
                break;
            }
            if batch.reads == 0 {
                batches.in_flight.pop_front();
                continue;
            }
            batch.reads -= 1;
            let Some(shared) = batches.reads.pop_front() else { continue };
            drop(batches);
            finish(&shared, &mut panics);
            let mut pending = locked(&self.pending);
            if pending.spare.len() < SPARE {
                pending.spare.push_back(shared);
            }
            drop(pending);
            batches = locked(&self.submitting);
        }
        // Without the lock, since a destructor may read.
        drop(batches);
        drop(unused);
    }

    /// Returns counts. Asks no driver.
    pub(crate) fn statistics(&self) -> ReadStatistics {
        let pending = locked(&self.pending).reads.len() as u64;
        let batches = locked(&self.submitting);
        ReadStatistics {
            pending,
            in_flight: batches.reads.len() as u64,
            submissions: batches.submissions,
            bytes: batches.buffers.iter().map(|kept| kept.buffer.size()).sum(),
        }
    }
}

impl<D: Device> Source<D> {
    fn id(&self) -> AllocationId {
        match self {
            Self::Buffer { id, .. } | Self::Image { id, .. } => *id,
        }
    }
}

/// Returns the state that a region's subresource is in.
fn state_to_read<D: Device>(
    copied: &CopiedPart<'_, D>,
    found: &PartRegion,
) -> Result<D::ImageState, ReadError> {
    let (mip_level, array_layer, name) = (found.region.mip_level, found.region.array_layer, ShortName::NONE);
    match copied.known(found) {
        // Also while the first write of another thread is under way.
        SubresourceState::Initial
        | SubresourceState::Staging
        | SubresourceState::Copying
        | SubresourceState::Lost(_) => Err(ReadError::NoTexels { mip_level, array_layer, name }),
        SubresourceState::Unknown => Err(ReadError::UnknownState { mip_level, array_layer, name }),
        SubresourceState::Known(state) => Ok(state),
    }
}

/// Adds the copies of a read that has memory. `states` are those of its regions, and of the reads after it.
fn add_copies<'a, D: Device>(
    read: &'a Read<D>,
    states: &mut impl Iterator<Item = D::ImageState>,
    copies: &mut Vec<BufferCopy<'a, D>>,
    image_copies: &mut Vec<ImageCopy<'a, D>>,
) -> Result<(), ReadError> {
    let Some(buffer) = &read.buffer else { return Ok(()) };
    let all = read.shared.rows();
    match &read.source {
        Source::Buffer { buffer: from, offset, .. } => copies.extend(all.iter().map(|rows| BufferCopy {
            from,
            from_offset: *offset,
            to: buffer.handle_ref(),
            to_offset: rows.offset,
            size: rows.row,
        })),
        Source::Image { image, states: of, shape, part, .. } => {
            let copied = CopiedPart::<D>::new(shape, of, part)?;
            // The states come last: the iterator has more, for the reads after this one.
            let placed = copied.regions_with_texels().zip(&*all);
            image_copies.extend(placed.zip(states).map(|((found, rows), state)| ImageCopy {
                buffer: buffer.handle_ref(),
                buffer_offset: rows.offset,
                row_pitch: rows.pitch,
                rows: found.rows(),
                image,
                mip_level: found.region.mip_level,
                array_layer: found.region.array_layer,
                aspect: found.region.aspect,
                origin: found.region.origin,
                extent: found.region.extent,
                texels: copied.texels,
                direction: CopyDirection::OutOfImage,
                before: state,
                after: state,
            }));
        }
    }
    Ok(())
}

/// Takes the elements out of a list of which `is_out` is true, in any order. The others stay in theirs.
fn take_out<T>(list: &mut Vec<T>, mut is_out: impl FnMut(&mut T) -> bool) -> Vec<T> {
    let mut kept = 0;
    for at in 0..list.len() {
        if !is_out(&mut list[at]) {
            list.swap(kept, at);
            kept += 1;
        }
    }
    list.split_off(kept)
}

impl<D: Device> Pending<D> {
    /// Returns what a read and its handles share: that of a read that is over, or a new one.
    fn shared(&mut self, tracker: &SubmissionTracker, size: u64) -> Arc<Shared> {
        // The oldest may have a handle that is kept for long; a few more are looked at.
        for _ in 0..self.spare.len().min(4) {
            let Some(mut oldest) = self.spare.pop_front() else { break };
            if oldest.reset(size) {
                return oldest;
            }
            self.spare.push_back(oldest);
        }
        Shared::new(tracker, size)
    }
}

impl<D: Device> Batches<D> {
    /// Returns a buffer of at least `size` bytes that nothing uses, which is kept.
    fn buffer(&mut self, memory: &OwningAllocator<D>, size: u64) -> Result<Arc<MappedBuffer<D>>, ReadError> {
        let wanted = size.max(LEAST);
        // Also where nothing polls, as in a tool that waits for each read.
        let tracker = memory.deletion_queue().tracker();
        for batch in self.in_flight.iter_mut().take_while(|batch| tracker.is_reached(batch.point)) {
            batch.buffer = None;
        }
        // Not one that is far too large, which a large read could use again.
        let fits = |kept: &mut Kept<D>| (wanted..=4 * wanted).contains(&kept.buffer.size()) && kept.is_free();
        let found = self.buffers.iter_mut().filter_map(|kept| fits(kept).then_some(kept));
        if let Some(kept) = found.min_by_key(|kept| kept.buffer.size()) {
            kept.unused = 0;
            return Ok(Arc::clone(&kept.buffer));
        }
        let create = |capacity, dedicated| {
            let desc = RingDesc::readback(capacity);
            let info = BufferDesc::new(desc.capacity).with_usage(desc.usage).into();
            let options = desc.memory.with_name("reads").with_dedicated(dedicated);
            memory.create_mapped_buffer(&info, &options).map(Arc::new)
        };
        // A power of two, so that the batches of a program, which are about as large as each other, find it again. Where the
        // heap is full, as little as will do, and no block around it.
        let rounded = wanted.checked_next_power_of_two().unwrap_or(wanted);
        let buffer = create(rounded, Dedicated::default())
            .or_else(|_| create(size, Dedicated::Always))
            .map_err(ReadError::Memory)?;
        self.buffers.push(Kept { buffer: Arc::clone(&buffer), unused: 0 });
        Ok(buffer)
    }

    /// Adds a read that was submitted, behind all others.
    fn note_submitted(&mut self, point: TimelinePoint, shared: Arc<Shared>, buffer: Arc<MappedBuffer<D>>) {
        self.reads.push_back(shared);
        let is_same = |last: &&mut InFlight<D>| {
            last.point == point && last.buffer.as_ref().is_some_and(|it| Arc::ptr_eq(it, &buffer))
        };
        match self.in_flight.back_mut().filter(is_same) {
            Some(last) => last.reads += 1,
            None => self.in_flight.push_back(InFlight { point, reads: 1, buffer: Some(buffer) }),
        }
    }
}

impl<D: Device> Kept<D> {
    /// No handle refers to it, and no queue writes it. What handles read of it before, on any thread, they have read.
    fn is_free(&mut self) -> bool {
        Arc::get_mut(&mut self.buffer).is_some()
    }
}

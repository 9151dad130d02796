//! Several `Gpu`s over one device: frames, uploads, read-backs and steps of each, buffers that outlive theirs, and buffers
//! that another one must refuse.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use allotment::device::BufferDesc;
use allotment::gpu::{Frame, Gpu, GpuDesc, Maintenance};
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, DefragmenterDesc};
use allotment::upload::{RingDesc, UploadError, WhenFull};
use allotment::{AllocatorDesc, MemoryUsage};

use super::Player;
use crate::shadow::pattern;
use crate::world::{Marked, OwnGpu, TheirBuffer};
use crate::{Stressed, raw};

/// Most `Gpu`s of a world: each has threads and rings.
const MOST: usize = 3;

/// Most frames that a thread has open.
const FRAMES: usize = 2;

impl<D: Stressed> Player<'_, D> {
    /// A `Gpu` with small blocks, so that steps have something to move.
    pub(super) fn create_gpu(&mut self) {
        // What is dropped while waits fail is leaked, since a queue may use it: as every `Gpu` here would be at some time.
        if self.world.is_disturbed() || self.world.gpus.all().len() >= MOST {
            return;
        }
        let mut allocator = AllocatorDesc::default();
        allocator.block_sizes = BlockSizes::fixed(self.input.pick(&[64 << 10, 16 << 10, 256 << 10]));
        allocator.threads = self.input.pick(&[1, 2]);
        allocator.on_leak = self.world.leak_handler();
        if self.input.once_in(2) {
            allocator.empty_blocks = EmptyBlockPolicy::NONE;
        }
        let mut desc = GpuDesc::default().with_allocator(allocator).with_timeout(Duration::from_secs(60));
        desc =
            desc.with_frames_in_flight(1 + self.input.index(3)).with_readback(RingDesc::readback(64 << 10));
        desc.uploader.staging = self.input.pick(&[64 << 10, 16 << 10]);
        if self.input.once_in(2) {
            let full = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(self.limits());
            desc = desc.with_defragmentation(DefragmenterDesc::new(full));
        }
        if self.input.once_in(8) {
            desc = desc.with_maintenance(Maintenance::Thread);
        }
        if self.input.once_in(3) {
            desc.uploader.when_full = WhenFull::Refuse;
        }
        let made = Gpu::new(self.world.device.clone(), desc);
        if let Some(gpu) = self.done(made) {
            let own = Arc::new(OwnGpu { gpu });
            let callback = self.callback_of(&own);
            own.gpu.defragmenter().on_moved(callback);
            drop(self.world.gpus.put(own));
        }
    }

    /// Drops a `Gpu`, or the world's reference to it: threads may have frames, and buffers outlive it.
    pub(super) fn drop_gpu(&mut self) {
        // Rarely: what outlives it can only be dropped.
        if self.input.once_in(16) && self.world.gpus.take(&mut self.input).is_some() {
            self.tally.made(self.call);
        }
    }

    pub(super) fn some_gpu(&mut self) -> Option<Arc<OwnGpu<D>>> {
        let all = self.world.gpus.all();
        let index = if all.is_empty() { return None } else { self.input.index(all.len()) };
        all.get(index).cloned()
    }

    pub(super) fn gpu_frame(&mut self) {
        if self.input.once_in(2) && !self.frames.is_empty() {
            let index = self.input.index(self.frames.len());
            let frame = self.frames.swap_remove(index);
            if self.input.once_in(4) {
                drop(frame);
                self.tally.made(self.call);
            } else {
                self.done(frame.end());
            }
            return;
        }
        let Some(own) = self.some_gpu() else { return };
        if self.frames.len() >= FRAMES {
            return;
        }
        let begun = own.gpu.begin_frame();
        let Some(frame) = self.done(begun) else { return };
        let uploaded = frame.upload(pattern(1 + self.input.below(3000)));
        self.done(uploaded);
        let frame = if self.input.once_in(2) { frame.only_reads() } else { frame };
        if self.input.once_in(2) {
            let (queue, device) = (self.real_queue(), &self.world.device);
            let submitted = frame.submit(queue, |queue, waits| raw::submit_nothing(device, queue, waits));
            self.done(submitted);
        }
        self.frames.push(frame);
    }

    pub(super) fn create_gpu_buffer(&mut self) {
        let Some(own) = self.some_gpu() else { return };
        for _ in 0..=self.input.below(4) {
            let size = 512 + self.small_size();
            let memory_usage = self.input.pick(&[MemoryUsage::GpuOnly, MemoryUsage::DeviceUpload]);
            let mut options = memory_usage.with_name("of a gpu");
            if !self.input.once_in(4) {
                options = options.relocatable();
            }
            let info = BufferDesc::new(size).with_usage(D::DESCRIPTOR_USAGE).into();
            let made = if self.input.once_in(8) {
                own.gpu.making_room().create_buffer(&info, &options)
            } else {
                own.gpu.create_buffer(&info, &options)
            };
            if let Some(buffer) = self.done(made) {
                let of = Arc::downgrade(&own);
                drop(self.world.gpu_buffers.put(Marked::new(TheirBuffer { buffer: Arc::new(buffer), of })));
            }
        }
    }

    pub(super) fn use_gpu_buffer(&mut self) {
        let Some(Marked { it, mut bytes }) = self.world.gpu_buffers.take(&mut self.input) else { return };
        // Without its `Gpu` a buffer can only be dropped.
        let Some(own) = it.of.upgrade() else { return };
        let (gpu, size) = (&own.gpu, it.buffer.size());
        match self.input.below(8) {
            0 => {
                drop(it);
                self.tally.made(self.call);
                return;
            }
            1 => {
                let limits = self.limits();
                if let Some(step) = self.done(gpu.defragmenter().step(limits)) {
                    self.tally.moves += u64::from(step.statistics.moves);
                }
            }
            2..=4 => {
                let (offset, len) = if bytes.expected().is_none() { (0, size) } else { self.range(size) };
                let new = pattern(len);
                let written = if self.input.once_in(2) {
                    gpu.uploads().write_buffer(&it.buffer, offset, &new)
                } else {
                    gpu.uploads().update_buffer(&it.buffer, offset, &new)
                };
                let is_refused = matches!(written, Err(UploadError::Full { .. }));
                match self.done(written) {
                    Some(()) => bytes.write(size, offset, &new),
                    None if is_refused => {}
                    // Some of it may have been written.
                    None => bytes.forget(),
                }
            }
            5 => self.read_later(&own, &it, bytes.expected()),
            _ => {
                let mut found = vec![0; size as usize];
                if self.done(gpu.read_buffer(&it.buffer, 0, &mut found)).is_some()
                    && let Some(expected) = bytes.expected()
                {
                    self.compare("a buffer of a gpu", expected, &found);
                }
            }
        }
        drop(self.world.gpu_buffers.put(Marked { it, bytes }));
    }

    /// Reads a buffer without a wait in the call: the bytes are there after the end of a frame, or at once where the program
    /// submits. Some reads are dropped before.
    fn read_later(&mut self, own: &Arc<OwnGpu<D>>, it: &TheirBuffer<D>, expected: Option<&[u8]>) {
        let size = it.buffer.size();
        let read = own.gpu.reads().read_buffer(&it.buffer, 0, size);
        let Some(read) = self.done(read) else { return };
        match self.input.below(4) {
            0 => return,
            1 => _ = self.done(own.gpu.reads().submit()),
            _ => {}
        }
        let found = own.gpu.reads().wait(&read);
        if let Some(found) = self.done(found)
            && let Some(expected) = expected
        {
            self.compare("a buffer that was read later", expected, &found);
        }
    }

    /// Whatever another `Gpu` or the world is asked to do with a buffer of one, it refuses.
    pub(super) fn misuse_gpu_buffer(&mut self) {
        let Some(marked) = self.world.gpu_buffers.take(&mut self.input) else { return };
        let buffer = &marked.it.buffer;
        let other = self.some_gpu().filter(|other| marked.it.of.as_ptr() != Arc::as_ptr(other));
        let accepted: Option<(&str, Result<(), String>)> = match (self.input.below(6), &other) {
            (0, Some(other)) => {
                Some(("uploads", answer(other.gpu.uploads().write_buffer(buffer, 0, &[1; 4]))))
            }
            (1, Some(other)) => Some(("read_buffer", answer(other.gpu.read_buffer(buffer, 0, &mut [0; 4])))),
            (2, Some(other)) => {
                // A heap that cannot be created refuses as well.
                let inserted = other.gpu.descriptors().map_err(|error| error.to_string()).and_then(|own| {
                    let heap = own.resources();
                    let slot = raw::insert_buffer(heap, buffer, 0..256).map_err(|error| error.to_string())?;
                    heap.remove(slot).map_err(|error| error.to_string())
                });
                Some(("a slot", inserted))
            }
            (3, Some(other)) => Some(("reads", answer(other.gpu.reads().read_buffer(buffer, 0, 4)))),
            (4, _) => self.world.descriptors.as_ref().and_then(|descriptors| {
                let mut set = descriptors.sets.take(&mut self.input)?;
                let bound = answer(raw::bind_buffer(&mut set, 1, 0, buffer, 0..256));
                drop(descriptors.sets.put(set));
                Some(("a set", bound))
            }),
            _ => self.world.descriptors.as_ref().map(|descriptors| {
                let inserted = raw::insert_buffer(&descriptors.heap, buffer, 0..256);
                ("a slot of the world", answer(inserted.and_then(|slot| descriptors.heap.remove(slot))))
            }),
        };
        match accepted {
            Some((what, Ok(()))) => self.tally.find(format!("{what}: a buffer of another Gpu was accepted")),
            Some((_, Err(why))) => self.tally.refused(self.call, &why),
            None => {}
        }
        drop(self.world.gpu_buffers.put(marked));
    }

    /// What a `Gpu`'s defragmenter calls for each move: more calls of the same `Gpu`, which may be its end.
    fn callback_of(
        &mut self,
        own: &Arc<OwnGpu<D>>,
    ) -> impl Fn(&allotment::memory::defragmentation::Move<D>) + Send + Sync + 'static + use<D> {
        let (own, tracker) = (Arc::downgrade(own), own.gpu.tracker().clone());
        let what = self.input.below(8);
        let kept = Mutex::new(Vec::new());
        move |one| {
            // Whoever drops it meanwhile leaves the last reference to this callback.
            let Some(own) = own.upgrade() else { return };
            let gpu = &own.gpu;
            match what {
                0 => drop(gpu.allocator().reports().info(one.id())),
                1 => {
                    let _ = (gpu.allocator().statistics(), gpu.allocator().reports().leaks());
                }
                2 => {
                    let recording = tracker.record("within a callback");
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.push(recording);
                    if kept.len() > 2 {
                        kept.clear();
                    }
                }
                3 => drop(gpu.begin_frame().map(Frame::end)),
                4 | 5 => {
                    let info = BufferDesc::new(one.size().max(1)).with_usage(D::DESCRIPTOR_USAGE);
                    let options = MemoryUsage::GpuOnly.with_name("of a callback").relocatable();
                    let Ok(buffer) = gpu.create_buffer(&info.into(), &options) else { return };
                    let _ = gpu.uploads().write_buffer(&buffer, 0, &[1]);
                    let _ = gpu.uploads().submit();
                    if what == 5 {
                        let _ = gpu.read_buffer(&buffer, 0, &mut [0]);
                    }
                }
                6 => drop(gpu.wait_idle()),
                _ => {
                    // Which does nothing in a callback.
                    let _ = (
                        gpu.defragmenter().step(allotment::memory::defragmentation::PassLimits::NONE),
                        gpu.reclaim(),
                    );
                }
            }
        }
    }
}

/// What a call has answered, in words.
fn answer<T, E: fmt::Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

//! Uploaders and rings.

use core::time::Duration;

use allotment::device::{DeviceError, TimelinePoint};
use allotment::lifetime::TimelinePoints;
use allotment::upload::{ReadbackRing, RingDesc, UploadError, UploadRing, Uploader, UploaderDesc, WhenFull};

use super::Player;
use crate::shadow::pattern;
use crate::world::Marked;
use crate::{Stressed, raw};

/// No queue is ever this late here.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

impl<D: Stressed> Player<'_, D> {
    /// Waits for submitted points.
    pub(super) fn wait_for(&mut self, points: &TimelinePoints) {
        self.wait_until(|this| this.world.tracker.wait_all(points, PATIENCE));
    }

    pub(super) fn wait_for_all(&mut self) {
        self.wait_until(|this| this.world.tracker.wait_idle(PATIENCE));
    }

    /// Repeats a wait while injected failures interrupt it.
    fn wait_until(&mut self, wait: impl Fn(&Self) -> Result<(), DeviceError>) {
        for _ in 0..100 {
            let waited = wait(self);
            if waited.is_err_and(|error| error.is_timeout()) {
                break;
            }
            if self.done(waited).is_some() {
                return;
            }
        }
        self.tally.find(format!("{:?} waited for {PATIENCE:?}", self.call));
    }

    /// Waits until the copies of steps are complete.
    pub(super) fn wait_for_moves(&mut self) {
        let copied = self.world.set.copied_at();
        self.wait_for(&copied);
    }

    fn new_ring(&mut self) -> Option<UploadRing<D>> {
        let capacity = self.input.pick(&[4096, 256, 65_536, 1]);
        let made = UploadRing::new(&self.world.allocator, &self.world.tracker, &RingDesc::upload(capacity));
        self.done(made)
    }

    fn uploader(&mut self) -> Option<Uploader<D>> {
        if let Some(uploader) = self.uploader.take() {
            return Some(uploader);
        }
        let mut desc = UploaderDesc::default();
        desc.staging = if self.input.once_in(64) { 0 } else { self.input.pick(&[64 << 10, 16 << 10, 4096]) };
        desc.queue = if self.input.once_in(2) { Some(self.queue()) } else { None };
        desc.when_full = self.input.pick(&[WhenFull::Wait(Duration::from_secs(20)), WhenFull::Refuse]);
        let made = Uploader::new(&self.world.memory, desc);
        self.done(made)
    }

    pub(super) fn upload(&mut self) {
        let again = !self.uploaded.is_empty() && self.input.once_in(3);
        let taken = if again {
            let index = self.input.index(self.uploaded.len());
            Some(self.uploaded.swap_remove(index))
        } else {
            self.world.owned.take(&mut self.input)
        };
        let Some(Marked { it, mut bytes }) = taken else { return };
        let Some(uploader) = self.uploader() else {
            drop(self.world.owned.put(Marked { it, bytes }));
            return;
        };
        let size = it.size();
        let (offset, len) =
            if bytes.expected().is_none() { (0, size.min(1 << 19)) } else { self.range(size) };
        let new = pattern(len.min(1 << 19));
        let written = if self.input.once_in(3) {
            it.with_raw(|raw| self.see_before_writing(raw.allocation(), offset, new.len() as u64));
            uploader.initialize(&it, offset, &new)
        } else {
            uploader.update(&it, offset, &new)
        };
        self.uploader = Some(uploader);
        let is_refused = matches!(written, Err(UploadError::Full { .. }));
        if self.done(written).is_some() {
            if offset.checked_add(new.len() as u64).is_none_or(|end| end > size) {
                self.tally.find(format!("{:?} at {offset} of {size} bytes was accepted", self.call));
            } else {
                bytes.write(size, offset, &new);
            }
        } else if !is_refused {
            // Some of the bytes may be pending.
            bytes.forget();
        }
        self.uploaded.push(Marked { it, bytes });
        if self.uploaded.len() > 16 {
            self.submit_uploads();
        }
    }

    pub(super) fn upload_movable(&mut self) {
        let Some(Marked { it, mut bytes }) = self.world.movables.take(&mut self.input) else { return };
        let Some(uploader) = self.uploader() else {
            drop(self.world.movables.put(Marked { it, bytes }));
            return;
        };
        let size = it.size();
        let (offset, len) = if bytes.expected().is_none() { (0, size) } else { self.range(size) };
        let new = pattern(len);
        let written = if self.input.once_in(3) {
            it.with_raw(|raw| self.see_before_writing(raw.allocation(), offset, new.len() as u64));
            uploader.initialize(&it, offset, &new)
        } else {
            uploader.update(&it, offset, &new)
        };
        let submitted = uploader.submit();
        self.uploader = Some(uploader);
        let is_refused = matches!(written, Err(UploadError::Full { .. }));
        let written = self.done(written).is_some();
        let submitted = self.done(submitted);
        if let Some(points) = &submitted {
            self.wait_for(points);
        } else {
            // Earlier uploads may be pending, and staged data would be written later.
            self.forget_uploads();
            self.world.device.calm();
            self.uploader = None;
            self.wait_for_all();
        }
        if !(written || is_refused) || submitted.is_none() {
            bytes.forget();
        } else {
            if written {
                // There, wherever a step has moved the buffer since the upload was recorded.
                bytes.write(size, offset, &new);
            }
            self.use_movable_bytes(&it, &mut bytes, false);
        }
        drop(self.world.movables.put(Marked { it, bytes }));
    }

    fn forget_uploads(&mut self) {
        self.uploaded.iter_mut().for_each(|marked| marked.bytes.forget());
    }

    fn put_uploaded_back(&mut self) {
        for marked in core::mem::take(&mut self.uploaded) {
            drop(self.world.owned.put(marked));
        }
    }

    pub(super) fn submit_uploads(&mut self) {
        let Some(uploader) = self.uploader() else { return };
        let submitted = uploader.submit();
        self.uploader = Some(uploader);
        match self.done(submitted) {
            Some(points) => {
                // Sometimes the next uploads follow while these are pending.
                if self.input.once_in(4) {
                    return;
                }
                self.wait_for(&points);
                for mut marked in core::mem::take(&mut self.uploaded) {
                    if self.input.once_in(2) {
                        marked.it.with_raw(|raw| self.use_bytes(raw, &mut marked.bytes, false));
                    }
                    drop(self.world.owned.put(marked));
                }
            }
            None => {
                // Otherwise staged data would be written later.
                self.world.device.calm();
                self.uploader = None;
                self.forget_uploads();
                self.wait_for_all();
                self.put_uploaded_back();
            }
        }
    }

    pub(super) fn discard_uploads(&mut self) {
        let Some(uploader) = self.uploader.take() else { return };
        self.forget_uploads();
        if self.input.once_in(2) {
            uploader.discard();
            self.uploader = Some(uploader);
        } else {
            self.world.device.calm();
            drop(uploader);
        }
        self.tally.made(self.call);
        self.wait_for_all();
        self.put_uploaded_back();
    }

    pub(super) fn drop_uploaded(&mut self) {
        if self.uploaded.pop().is_some() {
            self.tally.made(self.call);
        }
    }

    /// Submits empty work, and returns its point.
    pub(super) fn some_point(&mut self) -> Option<TimelinePoint> {
        let queue = self.real_queue();
        let recording = self.world.tracker.record("a point");
        let device = &self.world.device;
        let submitted = recording.submit(queue, |queue| raw::submit_nothing(device, queue, &[]));
        self.done(submitted.map_err(|refused| refused.error))
    }

    pub(super) fn use_ring(&mut self) {
        let Some(mut ring) = self.ring.take().or_else(|| self.new_ring()) else { return };
        match self.input.below(8) {
            0 => ring.discard(),
            1 => drop(ring.reclaim()),
            2 | 3 => {
                if let Some(point) = self.some_point() {
                    ring.close(point);
                }
            }
            4 if self.input.once_in(4) => {
                self.world.device.calm();
                return;
            }
            _ => {
                let (size, alignment) = (self.small_size(), self.alignment());
                let (at, len) = self.range(size);
                let allocated = ring.allocate(size, alignment);
                match allocated {
                    Ok(mut slice) => {
                        let written = slice.write(at, &pattern(len.min(1 << 16)));
                        self.done(written);
                    }
                    Err(error) => drop(self.done::<(), _>(Err(error))),
                }
            }
        }
        self.tally.made(self.call);
        self.ring = Some(ring);
    }

    fn new_readback(&mut self) -> Option<ReadbackRing<D>> {
        let capacity = self.input.pick(&[4096, 256, 65_536, 1]);
        let made =
            ReadbackRing::new(&self.world.allocator, &self.world.tracker, &RingDesc::readback(capacity));
        self.done(made)
    }

    pub(super) fn use_readback(&mut self) {
        let Some(mut ring) = self.readback.take().or_else(|| self.new_readback()) else { return };
        match self.input.below(8) {
            0 => ring.discard(),
            1 => drop(ring.reclaim()),
            2 => {
                if let Some(point) = self.some_point() {
                    ring.close(point);
                }
            }
            3 => drop(self.tickets.pop()),
            4 | 5 => {
                if let Some(ticket) = self.tickets.first() {
                    let (at, mut bytes) = (self.input.below(300), vec![0; 16]);
                    let read = ring.read_at(ticket, at, &mut bytes);
                    let point = ring.point(ticket);
                    self.done(read);
                    self.done(point);
                }
            }
            6 if self.input.once_in(4) => {
                self.world.device.calm();
                return;
            }
            _ => {
                let (size, alignment) = (self.small_size(), self.alignment());
                let allocated = ring.allocate(size, alignment);
                if let Some(ticket) = self.done(allocated)
                    && self.tickets.len() < 8
                {
                    self.tickets.push(ticket);
                }
            }
        }
        self.tally.made(self.call);
        self.readback = Some(ring);
    }
}

//! Memory that resources are placed in: creation, activation, and their bytes.
//!
//! Each thread has memory of its own, so that it knows which of its resources is active; all threads share the allocator's table.

use core::ops::Range;

use allotment::Requirements;
use allotment::device::{BufferDesc, ResourceKind};
use allotment::memory::{AccessError, Buffer, Image, Memory, TransferError};
use allotment::upload::UploadError;

use super::Player;
use crate::Stressed;
use crate::shadow::{Shadow, pattern};

/// Memory, and what is placed there.
pub(crate) struct PlacedSet<D: Stressed> {
    memory: Memory<D>,
    buffers: Vec<PlacedBuffer<D>>,
    images: Vec<Image<D>>,
}

struct PlacedBuffer<D: Stressed> {
    it: Buffer<D>,
    /// In the memory.
    range: Range<u64>,
    bytes: Shadow,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl<D: Stressed> Player<'_, D> {
    fn some_placed(&mut self) -> Option<usize> {
        (!self.placed.is_empty()).then(|| self.input.index(self.placed.len()))
    }

    /// Allocates memory, or places something in it.
    pub(super) fn place(&mut self) {
        if self.placed.len() < 3 && (self.placed.is_empty() || self.input.once_in(8)) {
            self.allocate_placed();
            return;
        }
        let Some(at) = self.some_placed() else { return };
        let size = self.placed[at].memory.size();
        let device = &self.world.device;
        if self.input.once_in(8) {
            let desc = self.image_desc();
            let offset = self.input.pick(&[0, 0, 4096, 7, u64::MAX]);
            let made =
                self.world.memory.create_image_in(&self.placed[at].memory, offset, &desc.into(), "placed");
            if let Some(image) = self.done(made) {
                self.placed[at].images.push(image);
            }
            return;
        }
        let len = if self.input.once_in(16) { self.size() } else { 1 + self.input.below(size) };
        let desc = BufferDesc::new(len);
        let alignment = device.buffer_requirements(&desc.into()).map_or(1, |needs| needs.alignment.get());
        let offset = match self.input.below(16) {
            0 => self.input.pick(&[1, size, u64::MAX, u64::MAX - 4096]),
            1..=8 => 0,
            _ => self.input.below(size) / alignment * alignment,
        };
        let made =
            self.world.memory.create_buffer_in(&self.placed[at].memory, offset, &desc.into(), "placed");
        let Some(it) = self.done(made) else { return };
        let Some(end) = offset.checked_add(len).filter(|&end| end <= size) else {
            self.tally.find(format!("{len} bytes at {offset} were placed in {size}"));
            return;
        };
        let set = &mut self.placed[at];
        let range = offset..end;
        let active = |other: &&PlacedBuffer<D>| other.it.is_active() && overlap(&other.range, &range);
        if it.is_active() && set.buffers.iter().any(|other| active(&other)) {
            self.tally.find("a new buffer is active, and so is one that it overlaps".to_owned());
        }
        set.buffers.push(PlacedBuffer { it, range, bytes: Shadow::default() });
    }

    fn allocate_placed(&mut self) {
        let size = self.input.pick(&[64 << 10, 4096, 256 << 10]);
        let device = &self.world.device;
        let Ok(needs) = device.buffer_requirements(&BufferDesc::new(size).into()) else { return };
        let mut requirements = Requirements { kind: ResourceKind::Unknown, ..needs };
        if self.input.once_in(2) {
            let desc = self.image_desc();
            if let Ok(image) = device.image_requirements(&desc.into()) {
                // Types that both allow, where there are any.
                let both = requirements.or(image);
                if both.memory_types.0 != 0 {
                    requirements =
                        Requirements { size: requirements.size, kind: ResourceKind::Unknown, ..both };
                }
            }
        }
        let options = self.options();
        let made = self.world.memory.allocate_memory(&requirements, &options);
        if let Some(memory) = self.done(made) {
            let (buffers, images) = (Vec::new(), Vec::new());
            self.placed.push(PlacedSet { memory, buffers, images });
        }
    }

    pub(super) fn activate(&mut self) {
        let Some(at) = self.some_placed() else { return };
        let set = &self.placed[at];
        if !set.images.is_empty() && self.input.once_in(4) {
            let image = self.input.index(set.images.len());
            let activated = self.placed[at].images[image].activate();
            if self.done(activated).is_some() {
                let set = &mut self.placed[at];
                set.buffers.iter_mut().filter(|it| !it.it.is_active()).for_each(|it| it.bytes.forget());
                if !set.images[image].is_active() {
                    self.tally.find("an activated image is not active".to_owned());
                }
            }
            return;
        }
        if set.buffers.is_empty() {
            return;
        }
        let buffer = self.input.index(set.buffers.len());
        let activated = self.placed[at].buffers[buffer].it.activate();
        let Some(activation) = self.done(activated) else { return };
        let set = &mut self.placed[at];
        if activation.needs_barrier {
            set.buffers[buffer].bytes.forget();
        }
        let range = set.buffers[buffer].range.clone();
        let is_wrong = |(other, it): (usize, &PlacedBuffer<D>)| {
            it.it.is_active() != (other == buffer) && overlap(&it.range, &range)
        };
        let wrong = set.buffers.iter().enumerate().any(is_wrong);
        set.buffers.iter_mut().filter(|it| !it.it.is_active()).for_each(|it| it.bytes.forget());
        if wrong {
            self.tally.find("after an activation, another one is active at the same bytes".to_owned());
        }
    }

    pub(super) fn use_placed(&mut self) {
        let Some(at) = self.some_placed() else { return };
        if self.placed[at].buffers.is_empty() {
            return;
        }
        let index = self.input.index(self.placed[at].buffers.len());
        let PlacedBuffer { it, range, mut bytes } = self.placed[at].buffers.swap_remove(index);
        if it.is_active() {
            let writes = self.input.once_in(2);
            it.with_raw(|raw| self.use_bytes(raw, &mut bytes, writes));
        } else {
            self.misuse_inactive(&it);
        }
        self.placed[at].buffers.push(PlacedBuffer { it, range, bytes });
    }

    /// Calls that reach the bytes of a buffer to which they do not belong.
    fn misuse_inactive(&mut self, it: &Buffer<D>) {
        let new = pattern(it.size().min(64));
        let mut found = new.clone();
        let is_refused = match self.input.below(4) {
            0 => {
                let written = it.write(0, &new);
                self.done(written).is_none()
            }
            1 => {
                let read = it.read(0, &mut found);
                self.done(read).is_none()
            }
            2 => {
                let Some(transfer) = self.transfer(super::memory::Way::Queue) else { return };
                let sent = it.with_raw(|raw| transfer.upload_to(raw, 0, &new));
                let inactive = matches!(&sent, Err(TransferError::Access(AccessError::Inactive { .. })));
                self.done(sent).is_none() && inactive
            }
            _ => {
                let Some(uploader) = self.uploader.take() else { return };
                let sent = uploader.update(it, 0, &new);
                self.uploader = Some(uploader);
                let lost = matches!(&sent, Err(UploadError::Device { .. }));
                let inactive = matches!(&sent, Err(UploadError::Access(AccessError::Inactive { .. })));
                self.done(sent).is_none() && (inactive || lost)
            }
        };
        if !is_refused {
            self.tally.find("a buffer that is not active was accessed".to_owned());
        }
    }

    pub(super) fn drop_placed(&mut self) {
        let Some(at) = self.some_placed() else { return };
        if self.input.once_in(6) {
            drop(self.placed.swap_remove(at));
        } else if self.input.once_in(3) && !self.placed[at].images.is_empty() {
            let image = self.input.index(self.placed[at].images.len());
            drop(self.placed[at].images.swap_remove(image));
        } else if !self.placed[at].buffers.is_empty() {
            let buffer = self.input.index(self.placed[at].buffers.len());
            drop(self.placed[at].buffers.swap_remove(buffer));
        } else {
            return;
        }
        self.tally.made(self.call);
    }
}

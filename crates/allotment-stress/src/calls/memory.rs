//! Allocations, buffers, images, owners.

use core::fmt;
use std::sync::PoisonError;

use allotment::device::{BufferDesc, ImageDesc, Tiling, TransferUsage};
use allotment::memory::reports::LeakReport;
use allotment::memory::{
    AccessError, AllocationId, MappedBuffer, RawBuffer, Transfer, TransferError, WrongAllocator,
};
use allotment::{Allocation, Allocator, Requirements};

use super::Player;
use super::movable::SHORT;
use crate::shadow::{Shadow, pattern};
use crate::world::Marked;
use crate::{Stressed, raw};

/// An error that tells whether bytes may have changed.
pub(super) trait Refusal: fmt::Debug {
    fn may_have_written(&self) -> bool;
}

impl Refusal for AccessError {
    fn may_have_written(&self) -> bool {
        // Bytes that are being moved count as unknown until they are written again.
        matches!(self, Self::Device { .. } | Self::Moving { .. })
    }
}

impl Refusal for TransferError {
    fn may_have_written(&self) -> bool {
        match self {
            // A pass may have moved the buffer after some of the chunks.
            Self::Access(error) => error.may_have_written() || matches!(error, AccessError::Moved { .. }),
            _ => true,
        }
    }
}

/// The path of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Cpu,
    Shortest,
    Queue,
}

impl<'w, D: Stressed> Player<'w, D> {
    pub(super) fn keep_token(&mut self, token: Marked<Allocation>) {
        if let Some(token) = self.world.tokens.put(token) {
            self.give_back(token.it);
        }
    }

    pub(super) fn give_back(&mut self, token: Allocation) {
        let freed = self.world.allocator.free(token);
        self.done(freed.map_err(|WrongAllocator(token)| format!("WrongAllocator {token:?}")));
    }

    pub(super) fn allocate(&mut self) {
        let size = self.size();
        let options = self.options();
        let requirements = Requirements::new(size).with_kind(self.kind());
        let made = if self.input.once_in(8) {
            let memory_options = D::memory_options(&mut self.input);
            self.world.allocator.with_memory_options(&memory_options).allocate(&requirements, &options)
        } else {
            self.world.allocator.allocate(&requirements, &options)
        };
        if let Some(token) = self.done(made) {
            self.keep_token(Marked::new(token));
        }
    }

    pub(super) fn free(&mut self) {
        let Some(token) = self.world.tokens.take(&mut self.input) else { return };
        if self.input.once_in(8) {
            match self.world.other.free(token.it) {
                Ok(()) => self.tally.find("another allocator took a token that it never gave".to_owned()),
                Err(WrongAllocator(token)) => self.give_back(token),
            }
        } else {
            self.give_back(token.it);
        }
    }

    pub(super) fn allocate_many(&mut self) {
        let size = self.small_size();
        let (requirements, options) = (Requirements::new(size), self.options());
        let count = self.input.below(24) as usize;
        let made = self.world.allocator.allocate_many(&requirements, &options, count);
        for token in self.done(made).into_iter().flatten() {
            self.keep_token(Marked::new(token));
        }
    }

    pub(super) fn free_many(&mut self) {
        let count = self.input.below(16);
        let taken: Vec<_> = (0..count).filter_map(|_| self.world.tokens.take(&mut self.input)).collect();
        let left = self.world.allocator.free_many(taken.into_iter().map(|token| token.it));
        self.done(if left.is_empty() { Ok(()) } else { Err(format!("WrongAllocator {left:?}")) });
    }

    fn way(&mut self) -> Way {
        self.input.pick(&[Way::Cpu, Way::Shortest, Way::Queue])
    }

    /// Returns the transfer of this path; occasionally a new one.
    pub(super) fn transfer(&mut self, way: Way) -> Option<&mut Transfer<'w, D>> {
        let by_queue = way == Way::Queue;
        if self.transfers[usize::from(by_queue)].is_none() || self.input.once_in(256) {
            let chunk = self.input.pick(&[4096, 65_536, 1000]);
            let queue = if self.input.once_in(32) { self.queue() } else { self.real_queue() };
            if usize::from(queue.0) >= self.world.device.properties().queues.len() {
                return None;
            }
            let made = Transfer::new(&self.world.allocator, queue, chunk);
            let made = self.done(made)?;
            self.transfers[usize::from(by_queue)] =
                Some(if by_queue { made.through_the_queue() } else { made });
        }
        self.transfers[usize::from(by_queue)].as_mut()
    }

    fn forget_lost(&mut self, id: AllocationId) -> bool {
        self.world.lost.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    /// Invalidates the range before a write: in memory that is not host-coherent, bytes written by queues may share
    /// an atom with the range, and the atom is flushed as a whole.
    pub(super) fn see_before_writing(&self, allocation: &Allocation, offset: u64, len: u64) {
        // Again while injected failures refuse it. Memory that cannot be invalidated is coherent, or cannot be written
        // either.
        while let Err(AccessError::Device { .. }) =
            self.world.allocator.invalidate(allocation, offset..offset.saturating_add(len))
        {}
    }

    /// Writes some bytes, and records them.
    fn write_some<E: Refusal>(
        &mut self,
        (id, size, strict): (AllocationId, u64, bool),
        bytes: &mut Shadow,
        write: impl FnOnce(&mut Self, u64, &[u8]) -> Option<Result<(), E>>,
    ) {
        // All bytes if they are unknown, so that they become known.
        let (offset, len) =
            if bytes.expected().is_none() { (0, size.min(1 << 19)) } else { self.range(size) };
        let new = pattern(len.min(1 << 19));
        if self.forget_lost(id) {
            bytes.forget();
        }
        let Some(result) = write(self, offset, &new) else { return };
        if result.as_ref().is_err_and(Refusal::may_have_written) {
            bytes.forget();
        }
        if self.done(result).is_some() {
            // Bytes beyond the buffer's end still belong to its allocation.
            let left = size.saturating_sub(offset).min(new.len() as u64) as usize;
            if left < new.len() && strict {
                self.tally.find(format!("{:?} at {offset} of {size} bytes was accepted", self.call));
            }
            if left > 0 {
                bytes.write(size, offset, &new[..left]);
            }
        }
    }

    /// Reads some bytes, and compares them.
    fn read_some<E: Refusal>(
        &mut self,
        (id, size, strict): (AllocationId, u64, bool),
        bytes: &mut Shadow,
        read: impl FnOnce(&mut Self, u64, &mut [u8]) -> Option<Result<(), E>>,
    ) {
        let (offset, len) = self.range(size);
        let mut found = vec![0; len.min(1 << 19) as usize];
        let Some(result) = read(self, offset, &mut found) else { return };
        // Checked after the read: a pass that ended before has recorded its losses by then.
        if self.forget_lost(id) {
            bytes.forget();
        }
        if self.done(result).is_some() {
            let left = size.saturating_sub(offset).min(found.len() as u64) as usize;
            if left < found.len() && strict {
                self.tally.find(format!("{:?} at {offset} of {size} bytes was accepted", self.call));
            }
            if let (Some(expected), 1..) = (bytes.expected(), left) {
                let expected = expected[offset as usize..][..left].to_vec();
                self.compare(&format!("{id:?} at {offset}"), &expected, &found[..left]);
            }
        }
    }

    pub(super) fn write_token(&mut self) {
        let Some(Marked { it, mut bytes }) = self.world.tokens.take(&mut self.input) else { return };
        let way = self.way();
        let size = self.world.allocator.location(&it).map_or(0, |place| place.size);
        self.write_some((it.id(), size, true), &mut bytes, |this, offset, new| {
            this.see_before_writing(&it, offset, new.len() as u64);
            match way {
                Way::Cpu => Some(this.world.allocator.write(&it, offset, new).map_err(TransferError::from)),
                _ => Some(this.transfer(way)?.upload(&it, offset, new)),
            }
        });
        self.keep_token(Marked { it, bytes });
    }

    pub(super) fn read_token(&mut self) {
        let Some(Marked { it, mut bytes }) = self.world.tokens.take(&mut self.input) else { return };
        let way = self.way();
        let size = self.world.allocator.location(&it).map_or(0, |place| place.size);
        self.read_some((it.id(), size, true), &mut bytes, |this, offset, found| match way {
            Way::Cpu => Some(this.world.allocator.read(&it, offset, found).map_err(TransferError::from)),
            _ => Some(this.transfer(way)?.download(&it, offset, found)),
        });
        self.keep_token(Marked { it, bytes });
    }

    pub(super) fn map(&mut self) {
        let Some(token) = self.world.tokens.take(&mut self.input) else { return };
        let allocator = &self.world.allocator;
        let (offset, len) = self.range(4096);
        let range = offset..offset.saturating_add(len);
        match self.input.below(5) {
            0 => drop(self.done(allocator.map(&token.it))),
            1 => drop(self.done(allocator.unmap(&token.it))),
            2 => drop(self.done(allocator.flush(&token.it, range))),
            3 => drop(self.done(allocator.invalidate(&token.it, range))),
            _ => drop(self.done(self.world.other.map(&token.it))),
        }
        self.keep_token(token);
    }

    pub(super) fn name(&mut self) {
        let Some(token) = self.world.tokens.take(&mut self.input) else { return };
        let allocator = &self.world.allocator;
        match self.input.below(3) {
            0 => drop(self.done(allocator.set_name(&token.it, Some("another \0 name".into())))),
            1 => drop(self.done(allocator.set_name(&token.it, None))),
            _ => drop(self.done(allocator.set_user_data(&token.it, 7))),
        }
        self.keep_token(token);
    }

    /// Returns the description of a buffer, sometimes an invalid one.
    pub(super) fn buffer_info(&mut self) -> D::BufferInfo<'static> {
        let size = self.size();
        match self.input.below(16) {
            0 => BufferDesc::new(size).with_usage(self.input.below(u64::MAX)).into(),
            1 => BufferDesc::new(size).with_usage(1 << self.input.below(64)).into(),
            2..=5 => D::buffer_info(size, TransferUsage::from_bits_truncate(self.input.below(4) as _)),
            _ => BufferDesc::new(size).into(),
        }
    }

    pub(super) fn create_buffer(&mut self) {
        let info = self.buffer_info();
        let options = self.options();
        let made = if self.input.once_in(8) {
            let memory_options = D::memory_options(&mut self.input);
            self.world.allocator.with_memory_options(&memory_options).create_buffer(&info, &options)
        } else {
            self.world.allocator.create_buffer(&info, &options)
        };
        if let Some(buffer) = self.done(made) {
            self.keep_buffer(Marked::new(buffer));
        }
    }

    pub(super) fn keep_buffer(&mut self, buffer: Marked<RawBuffer<D>>) {
        if let Some(buffer) = self.world.buffers.put(buffer) {
            self.destroy(buffer.it);
        }
    }

    fn destroy(&mut self, buffer: RawBuffer<D>) {
        let destroyed = self.world.allocator.destroy_buffer(buffer);
        self.done(destroyed.map_err(|_| "WrongAllocator"));
    }

    pub(super) fn destroy_buffer(&mut self) {
        let Some(buffer) = self.world.buffers.take(&mut self.input) else { return };
        if self.input.once_in(8) {
            match self.world.other.destroy_buffer(buffer.it) {
                Ok(()) => self.tally.find("another allocator took a buffer that it never gave".to_owned()),
                Err(WrongAllocator(buffer)) => self.destroy(buffer),
            }
        } else {
            self.destroy(buffer.it);
        }
    }

    /// Writes to a buffer or reads from it.
    pub(super) fn use_bytes(&mut self, buffer: &RawBuffer<D>, bytes: &mut Shadow, writes: bool) {
        let (way, id, size) = (self.way(), buffer.allocation().id(), buffer.size());
        let allocator: &Allocator<D> = &self.world.allocator;
        if writes {
            self.write_some((id, size, way != Way::Cpu), bytes, |this, offset, new| {
                this.see_before_writing(buffer.allocation(), offset, new.len() as u64);
                match way {
                    Way::Cpu => {
                        Some(allocator.write(buffer.allocation(), offset, new).map_err(TransferError::from))
                    }
                    _ => Some(this.transfer(way)?.upload_to(buffer, offset, new)),
                }
            });
        } else {
            self.read_some((id, size, way != Way::Cpu), bytes, |this, offset, found| match way {
                Way::Cpu => {
                    Some(allocator.read(buffer.allocation(), offset, found).map_err(TransferError::from))
                }
                _ => Some(this.transfer(way)?.download_from(buffer, offset, found)),
            });
        }
    }

    pub(super) fn use_buffer(&mut self, writes: bool) {
        let Some(Marked { it, mut bytes }) = self.world.buffers.take(&mut self.input) else { return };
        self.use_bytes(&it, &mut bytes, writes);
        self.keep_buffer(Marked { it, bytes });
    }

    pub(super) fn image_desc(&mut self) -> ImageDesc {
        let mut side = |hostile| match hostile {
            false => 1 + self.input.below(64) as u32,
            true => self.input.pick(&[0, 1, 300, 70_000, u32::MAX]),
        };
        let mut desc = ImageDesc::new(side(false), side(false), D::IMAGE_FORMAT);
        if self.input.once_in(4) {
            desc.mip_levels = self.input.below(9) as u32;
        }
        if self.input.once_in(4) {
            desc.array_layers = self.input.below(5) as u32;
        }
        if self.input.once_in(8) {
            desc.extent[self.input.index(3)] = self.input.pick(&[0, 1, 7, 300, 70_000, u32::MAX]);
        }
        if self.input.once_in(8) {
            desc.tiling = Tiling::Linear;
        }
        if self.input.once_in(16) {
            desc.samples = self.input.pick(&[0, 2, 3, 4, 8, u32::MAX]);
        }
        if self.input.once_in(16) {
            desc.format = self.input.below(185) as u32;
        }
        if self.input.once_in(16) {
            desc.usage = 1 << self.input.below(10);
        }
        desc
    }

    pub(super) fn create_in(&mut self) {
        let Some(token) = self.world.tokens.take(&mut self.input) else { return };
        let offset = self.input.pick(&[0, 0, 0, 256, 4096, 7, u64::MAX]);
        if self.input.once_in(3) {
            let info = self.image_desc().into();
            let made = self.world.allocator.create_aliasing_image(&token.it, offset, &info);
            if let Some(image) = self.done(made) {
                raw::destroy_new_image(&self.world.device, image);
            }
        } else {
            let info = self.buffer_info();
            let made = self.world.allocator.create_aliasing_buffer(&token.it, offset, &info);
            if let Some(buffer) = self.done(made) {
                raw::destroy_new_buffer(&self.world.device, buffer);
            }
        }
        self.keep_token(token);
    }

    pub(super) fn create_image(&mut self) {
        let info = self.image_desc().into();
        let options = self.options();
        let made = if self.input.once_in(8) {
            let memory_options = D::memory_options(&mut self.input);
            self.world.allocator.with_memory_options(&memory_options).create_image(&info, &options)
        } else {
            self.world.allocator.create_image(&info, &options)
        };
        if let Some(image) = self.done(made)
            && let Some(image) = self.world.images.put(image)
        {
            let destroyed = self.world.allocator.destroy_image(image);
            self.done(destroyed.map_err(|_| "WrongAllocator"));
        }
    }

    pub(super) fn destroy_image(&mut self) {
        let Some(image) = self.world.images.take(&mut self.input) else { return };
        let destroyed = self.world.allocator.destroy_image(image);
        self.done(destroyed.map_err(|_| "WrongAllocator"));
    }

    pub(super) fn create_mapped(&mut self) {
        let info = self.buffer_info();
        let options = self.options();
        let made = MappedBuffer::new(&self.world.allocator, &info, &options);
        if let Some(mapped) = self.done(made) {
            drop(self.world.mapped.put(Marked::new(mapped)));
        }
    }

    pub(super) fn use_mapped(&mut self) {
        let Some(Marked { it, mut bytes }) = self.world.mapped.take(&mut self.input) else { return };
        let id = it.id();
        if self.input.once_in(2) {
            self.write_some((id, it.size(), true), &mut bytes, |_, offset, new| Some(it.write(offset, new)));
        } else {
            self.read_some((id, it.size(), true), &mut bytes, |_, offset, found| {
                Some(it.read(offset, found))
            });
        }
        drop(self.world.mapped.put(Marked { it, bytes }));
    }

    pub(super) fn drop_mapped(&mut self) {
        if self.world.mapped.take(&mut self.input).is_some() {
            self.tally.made(self.call);
        }
    }

    pub(super) fn create_owned(&mut self) {
        let info = self.buffer_info();
        let options = self.options();
        let made = self.world.memory.create_buffer(&info, &options);
        if let Some(buffer) = self.done(made) {
            drop(self.world.owned.put(Marked::new(buffer)));
        }
    }

    pub(super) fn create_owned_image(&mut self) {
        let info = self.image_desc().into();
        let options = self.options();
        let made = match self.input.below(4) {
            0 => self.world.set.create_image(&info, &options),
            1 => self.world.set.making_room(SHORT).create_image(&info, &options),
            _ => self.world.memory.create_image(&info, &options),
        };
        if let Some(image) = self.done(made) {
            drop(self.world.owned_images.put(image));
        }
    }

    pub(super) fn own(&mut self) {
        let memory = &self.world.memory;
        match self.input.below(4) {
            0 => {
                let size = self.size();
                let (requirements, options) = (Requirements::new(size), self.options());
                let owned = self.done(memory.allocate(&requirements, &options));
                owned.into_iter().for_each(|owned| drop(self.world.owned_memory.put(owned)));
            }
            1 => {
                let Some(Marked { it, mut bytes }) = self.world.buffers.take(&mut self.input) else { return };
                let id = it.allocation().id();
                let owned = self.done(memory.own_buffer(it).map_err(|_| "WrongAllocator"));
                // Pinned by now, so no pass that ends later takes its bytes.
                if self.forget_lost(id) {
                    bytes.forget();
                }
                owned
                    .into_iter()
                    .for_each(|it| drop(self.world.owned.put(Marked { it, bytes: bytes.clone() })));
            }
            2 => {
                let Some(token) = self.world.tokens.take(&mut self.input) else { return };
                let owned = self.done(memory.own_allocation(token.it).map_err(|_| "WrongAllocator"));
                owned.into_iter().for_each(|owned| drop(self.world.owned_memory.put(owned)));
            }
            _ => {
                let Some(image) = self.world.images.take(&mut self.input) else { return };
                let owned = self.done(memory.own_image(image).map_err(|_| "WrongAllocator"));
                owned.into_iter().for_each(|owned| drop(self.world.owned_images.put(owned)));
            }
        }
    }

    pub(super) fn use_owned(&mut self) {
        let Some(Marked { it, mut bytes }) = self.world.owned.take(&mut self.input) else { return };
        let writes = self.input.once_in(2);
        it.with_raw(|buffer| self.use_bytes(buffer, &mut bytes, writes));
        drop(self.world.owned.put(Marked { it, bytes }));
    }

    pub(super) fn drop_owned(&mut self) {
        let dropped = match self.input.below(4) {
            0 | 1 => self.world.owned.take(&mut self.input).is_some(),
            2 => self.world.owned_images.take(&mut self.input).is_some(),
            _ => self.world.owned_memory.take(&mut self.input).is_some(),
        };
        if dropped {
            self.tally.made(self.call);
        }
    }

    pub(super) fn maintain(&mut self) {
        let allocator = &self.world.allocator;
        match self.input.below(6) {
            0 => allocator.end_frame(),
            1 => drop(allocator.trim()),
            2 => drop(allocator.maintain()),
            3 => allocator.refresh_budgets(),
            4 => {
                let size = self.small_size();
                let (requirements, options) = (Requirements::new(size), self.options());
                // Room for a few: in a pool of tiny blocks a megabyte takes more memory objects than a driver has.
                let bytes = self.input.pick(&[0, 1, 16 * size, 64 * size]);
                self.done(allocator.reserve(&requirements, &options, bytes));
                return;
            }
            _ => {
                allocator.trim();
                self.world.pages.trim();
            }
        }
        self.tally.made(self.call);
    }

    pub(super) fn look(&mut self) {
        let allocator = &self.world.allocator;
        match self.input.below(11) {
            0 => drop(allocator.statistics()),
            1 => drop(allocator.reports().detailed_statistics()),
            2 => drop(allocator.reports().categories()),
            3 => drop(allocator.reports().blocks()),
            4 => drop(allocator.reports().memory_heaps()),
            5 => drop(allocator.reports().dump_json()),
            6 => drop(allocator.reports().leaks()),
            7 => {
                let size = self.size();
                let (requirements, options) = (Requirements::new(size), self.options());
                drop(allocator.explain(&requirements, &options));
                self.done(allocator.preview(&requirements, &options));
                return;
            }
            8 => {
                let Some(token) = self.world.tokens.take(&mut self.input) else { return };
                self.done(allocator.info(&token.it));
                self.keep_token(token);
                return;
            }
            9 => drop(LeakReport::of_device(&self.world.device)),
            _ => {
                if let Some(pool) = self.some_pool() {
                    self.done(allocator.reports().pool_statistics(&pool));
                    return;
                }
            }
        }
        self.tally.made(self.call);
    }
}

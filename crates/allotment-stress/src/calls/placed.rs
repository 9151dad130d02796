//! Memory that resources are placed in: creation, activation, their names and their bytes.
//!
//! Each thread has memory of its own, so that it knows which of its resources is active; all threads share the allocator's table.

use allotment::Requirements;
use allotment::device::{BufferDesc, ImageDesc, ResourceKind};
use allotment::memory::{
    AccessError, Activation, AllocationId, AllocationInfo, Buffer, Image, Memory, ResourceError,
    TransferError,
};
use allotment::upload::UploadError;

use super::Player;
use crate::shadow::pattern;
use crate::tenants::Tenants;
use crate::world::Marked;
use crate::{Stressed, World};

/// Memory, and what is placed there.
pub(crate) struct PlacedSet<D: Stressed> {
    /// Until it is dropped, perhaps before what is placed there.
    memory: Option<Memory<D>>,
    buffers: Vec<Marked<Buffer<D>>>,
    images: Vec<Image<D>>,
    tenants: Tenants,
}

impl<D: Stressed> PlacedSet<D> {
    pub(super) fn new(world: &World<D>, memory: Memory<D>) -> Self {
        let properties = world.device.properties();
        let of_type = properties.memory_type(memory.info().memory_type);
        let needs_flush = of_type.is_some_and(|found| found.properties.needs_flush());
        let atom = if needs_flush { properties.limits.non_coherent_atom_size.get() } else { 1 };
        let tenants = Tenants::new(properties.limits.buffer_image_granularity.get(), atom);
        Self { memory: Some(memory), buffers: Vec::new(), images: Vec::new(), tenants }
    }
}

/// What is created in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Placeable {
    Buffer(BufferDesc),
    Image(ImageDesc),
}

/// Returns what says whether a placed resource is not destroyed yet.
fn exists<D: Stressed>(world: &World<D>) -> impl Fn(AllocationId) -> bool {
    |id| world.allocator.reports().info(id).is_ok()
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
        let Some(memory) = &self.placed[at].memory else { return };
        let size = memory.size();
        let device = &self.world.device;
        if self.input.once_in(8) {
            let desc = self.image_desc();
            let offset = self.input.pick(&[0, 0, 4096, 7, u64::MAX]);
            let made = self.create_in_set(at, offset, Placeable::Image(desc));
            self.done(made);
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
        let made = self.create_in_set(at, offset, Placeable::Buffer(desc));
        if self.done(made).is_some() && offset.checked_add(len).is_none_or(|end| end > size) {
            self.tally.find(format!("{len} bytes at {offset} were placed in {size}"));
        }
    }

    /// Creates something in the memory of a set that has it. Returns whether it is active.
    pub(super) fn create_in_set(
        &mut self,
        at: usize,
        offset: u64,
        what: Placeable,
    ) -> Result<bool, ResourceError> {
        let (world, set) = (self.world, &mut self.placed[at]);
        let Some(memory) = &set.memory else { return Ok(true) };
        set.tenants.remove_destroyed(exists(world));
        let (id, info, is_active) = match what {
            Placeable::Buffer(desc) => {
                let it = world.memory.create_buffer_in(memory, offset, &desc.into(), "placed")?;
                let made = (it.id(), it.info(), it.is_active());
                set.buffers.push(Marked::new(it));
                made
            }
            Placeable::Image(desc) => {
                let it = world.memory.create_image_in(memory, offset, &desc.into(), "placed")?;
                let made = (it.id(), it.info(), it.is_active());
                set.images.push(it);
                made
            }
        };
        let AllocationInfo { kind, offset, size, .. } = info;
        let wrong = set.tenants.created((id, kind), (offset, size), is_active, exists(world));
        wrong.into_iter().for_each(|wrong| self.tally.find(wrong));
        Ok(is_active)
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
            self.placed.push(PlacedSet::new(self.world, memory));
        }
    }

    pub(super) fn activate(&mut self) {
        let Some(at) = self.some_placed() else { return };
        let world = self.world;
        let set = &mut self.placed[at];
        set.tenants.remove_destroyed(exists(world));
        let (id, activated) = if !set.images.is_empty() && self.input.once_in(4) {
            let image = &set.images[self.input.index(set.images.len())];
            (image.id(), image.activate())
        } else if !set.buffers.is_empty() {
            let index = self.input.index(set.buffers.len());
            let buffer = &mut set.buffers[index];
            let activated = buffer.it.activate();
            if let Ok(Activation { needs_barrier: true, .. }) = activated {
                buffer.bytes.forget();
            }
            (buffer.it.id(), activated)
        } else {
            return;
        };
        if let Ok(activation) = activated {
            let wrong = set.tenants.activated(id, activation, exists(world));
            wrong.into_iter().for_each(|wrong| self.tally.find(wrong));
        }
        self.done(activated);
        self.check_tenants(at);
    }

    /// Compares which resources of a set are active with what should be, and forgets the bytes of the others.
    fn check_tenants(&mut self, at: usize) {
        let PlacedSet { buffers, images, tenants, .. } = &mut self.placed[at];
        let buffers_are = buffers.iter().map(|buffer| (buffer.it.id(), buffer.it.is_active()));
        let are = buffers_are.chain(images.iter().map(|image| (image.id(), image.is_active())));
        for (id, is_active) in are {
            if is_active != tenants.is_active(id) {
                self.tally.find(format!("{id:?} is active: {is_active}; of {tenants:?}"));
            }
        }
        buffers.iter_mut().filter(|it| !it.it.is_active()).for_each(|it| it.bytes.forget());
    }

    pub(super) fn use_placed(&mut self) {
        let Some(at) = self.some_placed() else { return };
        if self.placed[at].buffers.is_empty() {
            return;
        }
        let index = self.input.index(self.placed[at].buffers.len());
        let Marked { it, mut bytes } = self.placed[at].buffers.swap_remove(index);
        if it.is_active() {
            let writes = self.input.once_in(2);
            it.with_raw(|raw| self.use_bytes(raw, &mut bytes, writes));
        } else {
            self.misuse_inactive(&it);
        }
        self.placed[at].buffers.push(Marked { it, bytes });
    }

    /// Gives something that is placed another name, or none.
    pub(super) fn name_placed(&mut self) {
        let Some(at) = self.some_placed() else { return };
        let allocator = &self.world.allocator;
        let name = self.input.pick(&[Some("another \0 name"), None, Some("")]);
        let (buffers, images) = (&self.placed[at].buffers, &self.placed[at].images);
        let (named, info) = if !images.is_empty() && self.input.once_in(4) {
            let it = &images[self.input.index(images.len())];
            let named = it.with_raw(|raw| allocator.set_name(raw.allocation(), name.map(Into::into)));
            (named, it.info())
        } else if !buffers.is_empty() {
            let it = &buffers[self.input.index(buffers.len())].it;
            let number = self.input.below(1 << 32);
            let numbered = it.with_raw(|raw| allocator.set_user_data(raw.allocation(), number));
            let named = it.with_raw(|raw| allocator.set_name(raw.allocation(), name.map(Into::into)));
            (numbered.and(named), it.info())
        } else {
            return;
        };
        if self.done(named).is_none() || info.name.as_ref().map(|it| it.as_str()) != name {
            self.tally.find(format!("a placed resource was named {name:?}, and has {:?}", info.name));
        }
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
        let set = &mut self.placed[at];
        if self.input.once_in(6) {
            drop(self.placed.swap_remove(at));
        } else if self.input.once_in(8) {
            // What is placed there keeps it.
            set.memory = None;
        } else if self.input.once_in(3) && !set.images.is_empty() {
            let image = set.images.swap_remove(self.input.index(set.images.len()));
            set.tenants.dropped(image.id());
        } else if !set.buffers.is_empty() {
            let buffer = set.buffers.swap_remove(self.input.index(set.buffers.len()));
            set.tenants.dropped(buffer.it.id());
        } else {
            return;
        }
        self.tally.made(self.call);
    }
}

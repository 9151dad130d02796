//! Creates relocatable buffers and images.

use std::sync::{Arc, Mutex};

use crate::device::{Device, TransferUsage};
use crate::lifetime::Owned;
use crate::memory::request::Moves;
use crate::memory::resource::relocation::Defragmenter;
use crate::memory::resource::relocation::accept::{Acceptor, queues_write};
use crate::memory::resource::relocation::cell::Cell;
use crate::memory::resource::{BufferOrImage, Buffers, Images, Resource, Unique};
use crate::memory::{AllocationOptions, Buffer, Image, MappedBuffer, Movability, ResourceError};

impl<D: Device> Defragmenter<D> {
    /// Creates a relocatable buffer, as
    /// [`OwningAllocator::create_buffer`](crate::memory::OwningAllocator::create_buffer) creates a pinned one. It is movable
    /// whatever the options say; with [`Movability::Recreated`], a move does not copy its bytes.
    ///
    /// On Vulkan, an [exclusive](crate::device::SharingMode::Exclusive) buffer is refused where the defragmenter's queue is of
    /// another family than the first graphics queue. It belongs to that family whenever it may move.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::Movability;
    ///
    /// let defragmenter = gpu.defragmenter();
    /// let mesh = defragmenter.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let options = MemoryUsage::GpuOnly.with_name("histogram").with_movability(Movability::Recreated);
    /// let histogram = defragmenter.create_buffer(&BufferDesc::new(1024), &options)?; // written anew in each frame
    /// assert!(mesh.is_relocatable() && histogram.is_relocatable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError::NotRelocatable`], and the errors of any buffer.
    #[inline(never)]
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create::<Buffers>(info, options)
    }

    /// Creates a persistently mapped buffer that steps offer to move. Its owner [accepts](MappedBuffer::accept_move) each
    /// move, so the address stays valid until then. With [`Movability::Recreated`], a move does not copy the bytes.
    ///
    /// The buffer need not have copy usages, since the CPU copies it.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::Upload.with_name("particles");
    /// let particles = gpu.defragmenter().create_mapped_buffer(&BufferDesc::new(4096), &options)?;
    /// particles.write(0, &[7; 64])?;
    /// assert!(particles.is_relocatable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError::NotRelocatable`] where such a buffer cannot be created again, and the errors of
    /// [`MappedBuffer::new`].
    #[inline(never)]
    #[track_caller]
    pub fn create_mapped_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<MappedBuffer<D>, ResourceError> {
        let device = self.memory.allocator().device();
        let own = device.remappable_buffer_info(info).ok_or_else(|| {
            // A second one cannot be created, whatever its usages are.
            ResourceError::NotRelocatable { missing: TransferUsage::empty(), name: options.short_name() }
        })?;
        let queues_may_write = device.queues_may_write(info);
        let owner = self.members.mover().owners();
        // Pinned until its owner shows that it accepts moves.
        let moves = Moves::once_bound(Some(owner), movable(options));
        let options = MappedBuffer::<D>::mapped(options);
        let (buffer, Moves { at_last: movability, .. }) =
            self.memory.create_new::<Buffers>(&own, &options, moves)?;
        let buffer = Arc::new(self.adopt(own, buffer, Moves::NONE, &options));
        let memory_type = device.properties().memory_type(buffer.location().memory_type);
        let acceptor = Acceptor {
            memory: self.memory.clone(),
            mover: owner,
            reports: Arc::clone(&self.reports),
            movability,
            may_be_written: queues_may_write && memory_type.is_none_or(|it| queues_write(it.properties)),
            buffer,
            refused: Mutex::default(),
        };
        MappedBuffer::relocatable(self.memory.allocator(), acceptor)
    }

    /// Creates a relocatable image, as [`create_buffer`](Self::create_buffer) creates a buffer. Until its
    /// [state](Image::state) is known, it stays where it is, since its texels could not be copied. One with
    /// [`Movability::Recreated`] moves without its texels, and has the state of a newly created image then.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("albedo");
    /// let albedo = gpu.defragmenter().create_image(&ImageDesc::new(64, 64, 4), &options)?;
    /// assert_eq!(albedo.state(), None, "it moves only once its state is known");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`create_buffer`](Self::create_buffer); [`ResourceError::NotRelocatable`] also when the
    /// defragmenter's queue is not a graphics queue, or is of another family than the first one and the image is exclusive.
    #[inline(never)]
    #[track_caller]
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Image<D>, ResourceError> {
        self.create::<Images>(info, options)
    }

    /// Returns the description from which a move creates the resource again.
    pub(super) fn relocatable_info<C: BufferOrImage<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
    ) -> Result<C::Info<'static>, ResourceError> {
        C::relocatable_info(self.memory.allocator().device(), self.queue, info)
            .map_err(|missing| ResourceError::NotRelocatable { missing, name: options.short_name() })
    }

    /// Returns how this defragmenter moves a resource, whatever the options say of it.
    pub(super) fn moves<C: BufferOrImage<D>>(&self, options: &AllocationOptions) -> Moves {
        let at_last = movable(options);
        // An image that is to keep its texels stays where it is until its state is known. All others may be moved before they
        // are bound: a step leaves what is not in its list yet.
        let waits = C::NEEDS_STATE && at_last == Movability::Copied;
        let mover = self.members.mover();
        if waits { Moves::once_bound(Some(mover), at_last) } else { Moves::at_once(mover, at_last) }
    }

    #[track_caller]
    pub(super) fn create<C: BufferOrImage<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
    ) -> Result<Resource<D, C>, ResourceError> {
        self.create_again::<C>(self.relocatable_info::<C>(info, options)?, options)
    }

    /// Creates a resource from a description from which it can be created again.
    #[track_caller]
    pub(super) fn create_again<C: BufferOrImage<D>>(
        &self,
        info: C::Info<'static>,
        options: &AllocationOptions,
    ) -> Result<Resource<D, C>, ResourceError> {
        let (resource, moves) = self.memory.create_new::<C>(&info, options, self.moves::<C>(options))?;
        Ok(self.adopt(info, resource, moves, options))
    }

    /// Makes a resource one that this defragmenter moves.
    pub(super) fn adopt<C: BufferOrImage<D>>(
        &self,
        info: C::Info<'static>,
        resource: Owned<Unique<D, C>>,
        moves: Moves,
        options: &AllocationOptions,
    ) -> Resource<D, C> {
        let pool = options.pool.clone();
        Resource::relocatable(Cell::new(&self.members, info, resource, moves, pool))
    }
}

/// Returns how a resource moves that a defragmenter is to move.
fn movable(options: &AllocationOptions) -> Movability {
    match options.movability {
        Movability::Pinned => Movability::Copied,
        movability => movability,
    }
}

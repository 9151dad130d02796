//! [`Memory`]: an allocation that several resources are placed in, and buffers and images in it.
//!
//! ```text
//!   Memory ──clone──► Memory           the program's; the last one retires the allocation
//!      └── Owned ─► Arc ◄───────┐
//!                    │          │      each resource keeps it until it is destroyed itself
//!                allocation   Buffer, Image
//! ```
//!
//! The owner and each resource go through the deletion queue by themselves, and what they share is freed at once with the last of
//! them: by then the GPU is done with all.

use core::fmt;
use std::sync::Arc;

use super::unique::Allocations;
use super::{
    Buffer, BufferOrImage, Buffers, Image, Images, OwningAllocator, Resource, ResourceError, Unique,
};
use crate::choices::call_site::CallSite;
use crate::device::{Device, Requirements};
use crate::lifetime::Owned;
use crate::memory::allocator::{Activation, Allocator, Placement, Tenancy};
use crate::memory::request::AllocationRequest;
use crate::memory::token::AllocationId;
use crate::memory::{
    AccessError, AllocationError, AllocationInfo, AllocationOptions, MemoryUsage, Name, OtherName, ShortName,
};

/// Memory that resources are placed in, at offsets that the program chooses: one beside the other, or several over the same
/// bytes. A clone is another reference to the same memory.
///
/// It owns one allocation. Not to be confused with a device's handle of a memory object
/// ([`MemoryDevice::Memory`](crate::device::MemoryDevice::Memory)), which many allocations share.
///
/// Buffers and images in it are made by [`Gpu::create_buffer_in`](crate::Gpu::create_buffer_in) and
/// [`Gpu::create_image_in`](crate::Gpu::create_image_in). They are used as all others are, and keep the memory. It is freed once
/// the last clone and the last resource in it are dropped, and the GPU is done with them. Nothing in it is ever moved.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::Memory;
///
/// let options = MemoryUsage::GpuOnly.with_name("passes");
/// let passes: Memory<SimulatedGpu> = gpu.allocate_memory(&Requirements::new(1 << 20), &options)?;
/// let culled = gpu.create_buffer_in(&passes, 0, &BufferDesc::new(4096), "culled")?;
/// let sorted = gpu.create_buffer_in(&passes, 4096, &BufferDesc::new(4096), "sorted")?;
/// assert_eq!(sorted.location().offset, culled.location().offset + 4096);
/// drop(passes); // the two keep it
/// gpu.uploads().write_buffer(&culled, 0, &[7; 4096])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Memory<D: Device> {
    owner: Arc<Owner<D>>,
}

/// The program's references to memory, all of them.
struct Owner<D: Device>(Owned<Arc<Kept<D>>>);

/// What the owner and the resources in the memory keep.
pub(super) struct Kept<D: Device> {
    memory: Unique<D, Allocations>,
    /// A plan says to whom the bytes belong, within each frame.
    is_planned: bool,
}

impl<D: Device> Drop for Owner<D> {
    fn drop(&mut self) {
        let Kept { memory, .. } = &**self.0;
        // What is placed there, and alive, keeps the bytes, and releases them with the last of it.
        let is_last = memory.allocator().release_memory(memory.id());
        if is_last {
            memory.allocator().note_released(memory.id());
        }
        let bytes = if is_last { memory.bytes() } else { 0 };
        self.0.set_bytes(bytes);
    }
}

// Not derived, since it is cloned whether or not the device can be.
impl<D: Device> Clone for Memory<D> {
    fn clone(&self) -> Self {
        Self { owner: Arc::clone(&self.owner) }
    }
}

impl<D: Device> fmt::Debug for Memory<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl<D: Device> Memory<D> {
    fn kept(&self) -> &Arc<Kept<D>> {
        &self.owner.0
    }

    fn unique(&self) -> &Unique<D, Allocations> {
        &self.kept().memory
    }

    /// Returns the id of the allocation.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let passes = gpu.allocate_memory(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("passes"))?;
    /// assert_eq!(gpu.allocator().reports().info(passes.id())?.size, 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> AllocationId {
        self.unique().id()
    }

    /// Returns the size in bytes, as requested. Takes no lock.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let passes = gpu.allocate_memory(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("passes"))?;
    /// assert_eq!(passes.size(), 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> u64 {
        let memory = self.unique();
        memory.allocator().location(memory).map_or(0, |location| location.size)
    }

    /// Returns everything that is known of the memory. Locks its pool.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let passes = gpu.allocate_memory(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("passes"))?;
    /// println!("{} bytes of memory type {}", passes.info().occupied, passes.info().memory_type);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn info(&self) -> AllocationInfo<D> {
        let memory = self.unique();
        match memory.allocator().info(memory) {
            Ok(info) => info,
            // A pool with such memory is not reset.
            Err(_) => unreachable!("memory lives as long as its owner"),
        }
    }

    fn name_in_error(&self) -> OtherName {
        OtherName::new(self.unique().allocator().name_of(self.unique()).as_str())
    }
}

impl<D: Device> OwningAllocator<D> {
    /// Allocates memory for [resources that are placed in it](Memory). [`Requirements::or`] describes what serves several of them
    /// in turn; memory of the kind [`Unknown`](crate::ResourceKind::Unknown) takes buffers and images on every device. The memory
    /// stays where it is: an option that it may be [moved](AllocationOptions::with_movability) is ignored.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let (shadows, bloom) = (ImageDesc::new(512, 512, 4), ImageDesc::new(256, 256, 8));
    /// let needs = device.image_requirements(&shadows)?.or(device.image_requirements(&bloom)?);
    /// let targets = gpu.memory().allocate_memory(&needs, &MemoryUsage::GpuOnly.with_name("targets"))?;
    /// let shadows = gpu.create_image_in(&targets, 0, &shadows, "shadows")?;
    /// let bloom = gpu.create_image_in(&targets, 0, &bloom, "bloom")?; // the same bytes, later
    /// assert_eq!(gpu.allocator().statistics().allocations, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::allocate`].
    #[inline(never)]
    #[track_caller]
    pub fn allocate_memory(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<Memory<D>, AllocationError> {
        self.allocate_memory_for(requirements, options, false)
    }

    /// Allocates memory whose resources get their bytes by a plan: none of them is ever active, so that no copy of the library
    /// comes in between.
    #[inline(never)]
    #[track_caller]
    pub(crate) fn allocate_planned_memory(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<Memory<D>, AllocationError> {
        self.allocate_memory_for(requirements, options, true)
    }

    #[track_caller]
    fn allocate_memory_for(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
        is_planned: bool,
    ) -> Result<Memory<D>, AllocationError> {
        let allocator = self.allocator();
        loop {
            let allocation = allocator.allocate(requirements, options)?;
            // Resources are bound to it, whose places are known to the program.
            allocator.pin(&allocation);
            if options.pool.is_some() {
                // Safe calls copy to and from what is placed there, so the pool is not reset meanwhile.
                let noted = allocator.hold(&allocation).map(|_held| allocator.note_resource(&allocation));
                if noted.is_err() {
                    // Another thread has reset the pool since, which freed the allocation.
                    continue;
                }
            }
            let memory = Kept { memory: Unique::of_own(allocator, allocation), is_planned };
            let owned = self.deletion_queue().own(Arc::new(memory));
            return Ok(Memory { owner: Arc::new(Owner(owned)) });
        }
    }

    /// Creates a buffer `offset` bytes into [memory](Memory). It is as every other buffer, but for its memory: it keeps that, and
    /// is never moved. The CPU reaches it by [`Buffer::write`] and [`Buffer::read`] where the memory is
    /// [for that](MemoryUsage::Upload). There is no [`MappedBuffer`](super::MappedBuffer) in memory: its bytes are written without
    /// a look at whose they are.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("passes");
    /// let passes = gpu.memory().allocate_memory(&Requirements::new(8192), &options)?;
    /// let culled = gpu.memory().create_buffer_in(&passes, 4096, &BufferDesc::new(1000), "culled")?;
    /// assert_eq!(culled.info().name.ok_or("named")?.as_str(), "culled");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError::Placed`] where the buffer cannot be in this place: of an allocator or a submission tracker that is not
    /// this one's, outside of the memory, not aligned, of another memory type or kind, or where the device requires that the
    /// buffer has dedicated memory. Or the driver refuses the buffer. Nothing is left behind.
    #[inline(never)]
    #[track_caller]
    pub fn create_buffer_in(
        &self,
        memory: &Memory<D>,
        offset: u64,
        info: &D::BufferInfo<'_>,
        name: impl Into<Name>,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create_in::<Buffers>(memory, offset, info, name.into())
    }

    /// Creates an image `offset` bytes into [memory](Memory), as [`create_buffer_in`](Self::create_buffer_in) creates a buffer.
    /// On Direct3D 12 the first upload to each mip level of a render target or a depth buffer there writes all of it; it is staged,
    /// in one piece.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let desc = ImageDesc::new(64, 64, 4);
    /// let needs = device.image_requirements(&desc)?;
    /// let targets = gpu.memory().allocate_memory(&needs, &MemoryUsage::GpuOnly.with_name("targets"))?;
    /// let bloom = gpu.memory().create_image_in(&targets, 0, &desc, "bloom")?;
    /// gpu.uploads().write_image(&bloom, &[7; 64 * 64 * 4])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of that call.
    #[inline(never)]
    #[track_caller]
    pub fn create_image_in(
        &self,
        memory: &Memory<D>,
        offset: u64,
        info: &D::ImageInfo<'_>,
        name: impl Into<Name>,
    ) -> Result<Image<D>, ResourceError> {
        self.create_in::<Images>(memory, offset, info, name.into())
    }

    #[track_caller]
    fn create_in<C: BufferOrImage<D>>(
        &self,
        memory: &Memory<D>,
        offset: u64,
        info: &C::Info<'_>,
        name: Name,
    ) -> Result<Resource<D, C>, ResourceError> {
        let short_name = ShortName::of(Some(&name));
        let allocator = self.allocator();
        // Another tracker does not know of the work that may use the bytes.
        let is_known = self.deletion_queue().tracker().check_same(memory.owner.0.tracker()).is_ok();
        if !is_known || !Arc::ptr_eq(allocator, memory.unique().allocator()) {
            let source = AccessError::WrongAllocator { name: short_name };
            return Err(ResourceError::Placed { source, memory: memory.name_in_error() });
        }
        let call_site = allocator.capture_call_site();
        let created = allocator.create_in_memory::<C>(memory, offset, info, (name, call_site));
        let (resource, tenancy) = created.map_err(|error| error.of(short_name))?;
        let id = resource.allocation().id();
        // The bytes are its memory's.
        let owned = self.own_new::<C>(resource, 0);
        if tenancy == Tenancy::Unsettled {
            settle_later(&owned, id);
        }
        Ok(Resource::pinned(owned))
    }
}

impl<D: Device> Allocator<D> {
    fn create_in_memory<C: BufferOrImage<D>>(
        &self,
        memory: &Memory<D>,
        offset: u64,
        info: &C::Info<'_>,
        (name, call_site): (Name, Option<CallSite>),
    ) -> Result<(C::Token, Tenancy), ResourceError> {
        let requirements = C::requirements(self.device(), info).map_err(ResourceError::from)?;
        let allocation = &**memory.unique();
        let refused = |source| ResourceError::Placed { source, memory: memory.name_in_error() };
        self.check_kind(allocation, requirements.kind).map_err(refused)?;
        // Nothing has to be held: the memory is pinned, and its pool is not reset.
        let location = self.place_unnamed(allocation, offset, &requirements).map_err(refused)?;
        // SAFETY: the memory lives as long as what keeps it, and the requirements were just checked.
        let created = unsafe { C::create(self.device(), info, location.memory, location.offset) };
        let handle = created.map_err(ResourceError::from)?;
        let kept = Arc::clone(memory.kept());
        let (kind, name) = (requirements.kind, Some(name));
        let mut options = AllocationOptions::new(MemoryUsage::GpuOnly);
        options.name.clone_from(&name);
        let is_planned = kept.is_planned;
        let placement = Placement { memory: allocation, kept, location, kind, name, call_site, is_planned };
        let entered = self.enter_placed(placement);
        match entered {
            Ok((allocation, tenancy)) => {
                let request = AllocationRequest::new(&requirements, &options);
                Ok((self.resource_of::<C>(handle, allocation, info, &request), tenancy))
            }
            Err(error) => {
                // SAFETY: created just now, and no queue has seen it.
                unsafe { C::destroy(self.device(), handle) };
                Err(ResourceError::Allocation(error))
            }
        }
    }
}

impl<D: Device, C: BufferOrImage<D>> Resource<D, C> {
    /// Returns true if the bytes of the resource are its own: always, unless it is placed in [memory](Memory) together with
    /// others.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let memory = gpu.allocate_memory(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("passes"))?;
    /// let culled = gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4096), "culled")?;
    /// let sorted = gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4096), "sorted")?;
    /// assert!(culled.is_active() && !sorted.is_active());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.with_owned(|owned, _| owned.allocator().is_active(owned.allocation().id()))
    }

    /// Gives the resource the bytes of its place in [memory](Memory), and takes them from those that overlap it. Returns which
    /// barrier the program records before it uses the resource. Its contents are undefined then, and an image cannot be read until
    /// it is written, or its state is [set](Image::set_state): its [state](Image::state) is that of a new one. On Direct3D 12 an
    /// image keeps its state, as the API has it, and the first upload to a render target or a depth buffer is again one of a whole
    /// mip level.
    ///
    /// A new resource is active unless one that overlaps it is. The library's own copies and the CPU's writes and reads are refused
    /// while a resource is [inactive](AccessError::Inactive). After an activation, reads are served at once, and writes
    /// are refused until [the GPU is done](AccessError::Unsettled) with what was recorded and submitted before: uploads are
    /// submitted ahead of the recording that has the barrier, and would overwrite what it still uses. So a resource that is activated
    /// anew in every frame, with frames in flight, never gets to the point where it is written by an upload: the program's own
    /// commands write it. Until an activation is over, [statistics](crate::lifetime::DeletionQueue::statistics) of the deletion
    /// queue count it as one object without bytes.
    ///
    /// Waits for calls of other threads that access the bytes of what would lose them: the CPU's writes and reads, a
    /// [`Transfer`](super::Transfer), reads that are being submitted. Those that begin meanwhile wait for the activation, for a
    /// second at most. What does not overlap is not waited for.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let memory = gpu.allocate_memory(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("passes"))?;
    /// let culled = gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4096), "culled")?;
    /// let sorted = gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4096), "sorted")?;
    /// gpu.uploads().write_buffer(&culled, 0, &[7; 64])?;
    /// let refused = gpu.uploads().write_buffer(&sorted, 0, &[7; 64]).unwrap_err();
    /// assert!(refused.to_string().contains("its bytes belong to \"culled\""));
    /// gpu.uploads().submit()?;
    /// if sorted.activate()?.needs_barrier {
    ///     // `vkCmdPipelineBarrier2` with a memory barrier, or an aliasing barrier, before the first pass that uses it
    /// }
    /// gpu.wait_idle()?;
    /// gpu.uploads().write_buffer(&sorted, 0, &[7; 64])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::BeingWritten`] while uploads to a resource that would lose its bytes are not submitted, or what was written of
    /// an exclusive one is not handed over. Nothing has changed.
    pub fn activate(&self) -> Result<Activation, AccessError> {
        self.with_owned(|owned, _| {
            let (allocator, id) = (owned.allocator(), owned.allocation().id());
            if !allocator.is_placed(id) {
                return Ok(Activation::NONE);
            }
            let discards = allocator.device().discards_from_any_state();
            let activation = allocator.activate_placed(id, || self.forget_contents(discards))?;
            if activation.needs_barrier {
                settle_later(owned, id);
            }
            Ok(activation)
        })
    }
}

/// Says, once the GPU is done with what it was given until now, that it does not use the bytes of a resource for another one.
fn settle_later<D: Device, C: BufferOrImage<D>>(owned: &Owned<Unique<D, C>>, id: AllocationId) {
    let allocator = Arc::clone(owned.allocator());
    // Dropped at once: it waits in the deletion queue as a resource does that is retired now.
    drop(owned.own_beside(Settles { allocator, id }));
}

/// Settles a resource when it is dropped.
struct Settles<D: Device> {
    allocator: Arc<Allocator<D>>,
    id: AllocationId,
}

impl<D: Device> Drop for Settles<D> {
    fn drop(&mut self) {
        self.allocator.settle_placed(self.id);
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::AllocatorDesc;
    use crate::device::BufferDesc;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::lifetime::{DeletionQueue, SubmissionTracker};
    use crate::memory::token::Traits;

    fn never() {
        panic!("nothing is lost");
    }

    #[test]
    fn contents_are_forgotten_before_the_bytes_are_those_of_the_resource() {
        let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
        let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
        let queue = DeletionQueue::new(&SubmissionTracker::new(device).unwrap());
        let memory = OwningAllocator::new(&allocator, &queue).unwrap();
        let options = MemoryUsage::GpuOnly.with_name("shared");
        let shared = memory.allocate_memory(&Requirements::new(4096), &options).unwrap();
        let [first, second] = ["first", "second"]
            .map(|name| memory.create_buffer_in(&shared, 0, &BufferDesc::new(4096), name).unwrap());
        let is_inactive = |of: &Buffer<SimulatedGpu>| {
            // Read as other threads do, which record copies: without the lock that is held now.
            of.with_owned(|owned, _| {
                let (slot, record) = allocator.slot_and_record(owned.allocation()).unwrap();
                record.read(&slot.objects).traits.has(Traits::INACTIVE)
            })
        };
        let forgotten = Cell::new(0);
        let forget = || {
            forgotten.set(forgotten.get() + 1);
            assert!(!is_inactive(&first) && is_inactive(&second));
        };
        assert!(allocator.activate_placed(second.id(), forget).unwrap().needs_barrier);
        assert!(is_inactive(&first) && !is_inactive(&second));
        assert_eq!(forgotten.get(), 1);
        // Neither by one that is active already nor by one that is refused.
        assert!(!allocator.activate_placed(second.id(), never).unwrap().needs_barrier);
        let writers = allocator.writers();
        let written = writers.write(second.id(), writers.new_writer());
        assert!(matches!(
            allocator.activate_placed(first.id(), never),
            Err(AccessError::BeingWritten { .. })
        ));
        drop(written);
    }
}

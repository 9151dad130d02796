//! [`Buffer`] and [`Image`]: resources that are destroyed once the GPU is done with them, and may be relocatable.

use core::fmt;
use std::sync::Arc;

use super::image_states::{SharedStates, SubresourceState};
use super::{BufferOrImage, Buffers, Images, RawResource, Unique};
use crate::device::{Device, ImageViewSupport, TimelinePoint};
use crate::lifetime::{Owned, Recording, RecordingId, SubmissionTracker};
use crate::memory::resource::relocation::{Cell, CellKey, Follower};
use crate::memory::token::AllocationId;
use crate::memory::{AccessError, AllocationInfo, MemoryLocation, ShortName};
use crate::sync::locked;

/// A buffer or an image with its memory. Dropping it, on any thread, retires it: it is destroyed, and its memory freed,
/// once no open recording and no submission in flight can reference it. Put it in an [`Arc`] to share it.
///
/// It is pinned to its place, unless its options say that defragmentation may
/// [move](crate::memory::AllocationOptions::relocatable) it. The handle of a relocatable resource changes with each
/// move: get it anew for each recording. Binding sets and bindless slots that hold the resource
/// [follow by themselves](crate::memory::Defragmenter#descriptors); compare [`moves`](Self::moves) where the application
/// stores the handle, or a descriptor of its own.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let options = MemoryUsage::GpuOnly.with_name("mesh").relocatable();
/// let mesh: Buffer<SimulatedGpu> = gpu.create_buffer(&BufferDesc::new(4096), &options)?;
/// let mut seen = (mesh.moves(), mesh.handle());
/// // In each frame, where a table of the program has the handle:
/// if mesh.moves() != seen.0 {
///     seen = (mesh.moves(), mesh.handle());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Resource<D: Device, C: BufferOrImage<D>> {
    owner: Owner<D, C>,
}

/// A buffer that is destroyed, and its memory freed, once it is dropped and the GPU is done with it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// struct Mesh<D: Device> {
///     vertices: Buffer<D>,
///     indices: Buffer<D>,
/// }
/// let buffer = |size, name| gpu.create_buffer(&BufferDesc::new(size), &MemoryUsage::GpuOnly.with_name(name));
/// let mesh = Mesh { vertices: buffer(4096, "vertices")?, indices: buffer(1024, "indices")? };
/// drop(mesh); // no `Drop` of its own: each buffer waits for the GPU by itself
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Buffer<D> = Resource<D, Buffers>;
/// An image that is destroyed, and its memory freed, once it is dropped and the GPU is done with it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// fn checkers<D: Device>(gpu: &Gpu<D>) -> Result<Image<D>, Box<dyn std::error::Error>> {
///     let desc = ImageDesc::new(64, 64, 4); // converts to each API's description
///     Ok(gpu.create_image(&desc.into(), &MemoryUsage::GpuOnly.with_name("checkers"))?)
/// }
/// assert!(checkers(&gpu)?.size() >= 64 * 64 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Image<D> = Resource<D, Images>;

/// Two kinds, so that a pinned resource has no lock.
enum Owner<D: Device, C: BufferOrImage<D>> {
    Pinned(Owned<Unique<D, C>>, C::States),
    Relocatable(Arc<Cell<D, C>>),
}

impl<D: Device, C: BufferOrImage<D>> Resource<D, C> {
    pub(super) fn pinned(resource: Owned<Unique<D, C>>) -> Self {
        let states = C::initial_states(&resource);
        Self { owner: Owner::Pinned(resource, states) }
    }

    pub(super) fn relocatable(cell: Arc<Cell<D, C>>) -> Self {
        Self { owner: Owner::Relocatable(cell) }
    }

    /// Returns the API's handle. Never destroy it. The handle of a relocatable resource is valid for recordings that
    /// are open now, and for others until the next [step](crate::memory::Defragmenter::step).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// println!("vkCmdBindVertexBuffers(…, {:?}, …)", mesh.handle());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn handle(&self) -> C::Handle {
        // A clone, since a move may replace the handle as soon as the lock is released.
        self.with_contents(|raw, _| raw.handle().clone())
    }

    /// Returns the size in bytes: of a buffer, as described; of an image, of its memory.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// assert_eq!(mesh.size(), 1000);
    /// let albedo = gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("albedo"))?;
    /// assert!(albedo.size() >= 64 * 64 * 4, "with the driver's padding");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> u64 {
        self.with_owned(|raw, _| raw.size())
    }

    /// Returns the id of the allocation, which a move does not change.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let id = mesh.id(); // for a table of the program, or a memory window
    /// assert_eq!(gpu.allocator().reports().info(id)?.size, 4096);
    /// drop(mesh);
    /// gpu.reclaim();
    /// assert!(gpu.allocator().reports().info(id).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> AllocationId {
        match &self.owner {
            Owner::Pinned(resource, _) => resource.allocation().id(),
            // Without the lock, since a move exchanges what the id names, and never the id.
            Owner::Relocatable(cell) => cell.id(),
        }
    }

    /// Returns everything that is known of the resource's memory: memory object, offset, size, mapped pointer, memory
    /// type, name, block. Locks the pool.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let info = mesh.info();
    /// println!("{} bytes at offset {} of {:?}", info.size, info.offset, info.memory);
    /// assert_eq!(info.name.unwrap().as_str(), "mesh");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn info(&self) -> AllocationInfo<D> {
        self.with_owned(|resource, _| resource.info())
    }

    /// Returns where the resource is. Takes no lock of the allocator.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let constants = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::Upload.with_name("constants"))?;
    /// let place = constants.location();
    /// println!("byte {} of {:?}, mapped at {:?}", place.offset, place.memory, place.mapped_ptr);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn location(&self) -> MemoryLocation<D> {
        self.with_owned(|resource, _| resource.location())
    }

    /// Returns whether defragmentation may move the resource.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("mesh");
    /// assert!(!gpu.create_buffer(&BufferDesc::new(256), &options)?.is_relocatable());
    /// assert!(gpu.create_buffer(&BufferDesc::new(256), &options.relocatable())?.is_relocatable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_relocatable(&self) -> bool {
        matches!(self.owner, Owner::Relocatable(_))
    }

    /// Returns how often the resource was moved. While this number is unchanged, so is the handle.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// # use allotment::memory::defragmentation::PassLimits;
    /// let options = MemoryUsage::GpuOnly.with_name("tile").relocatable();
    /// let mut tiles = Vec::new();
    /// for _ in 0..5 {
    ///     tiles.push(gpu.create_buffer(&BufferDesc::new(1 << 20), &options)?);
    /// }
    /// drop(tiles.remove(0));
    /// gpu.reclaim(); // now four tiles of 1 MiB are in two blocks of 4 MiB
    /// let before = tiles[3].location();
    /// gpu.defragmenter().step(PassLimits::NONE)?;
    /// assert_eq!(tiles[3].moves(), 1);
    /// assert_ne!(tiles[3].location().memory, before.memory); // and its handle is another
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn moves(&self) -> u32 {
        match &self.owner {
            Owner::Pinned(..) => 0,
            Owner::Relocatable(cell) => cell.moves(),
        }
    }

    /// Calls `work` with the token of the resource, whose handle stays valid meanwhile: for calls of the allocator, and
    /// for [`Transfer`](crate::memory::Transfer). No lock is held. Of a relocatable resource, this waits for a step of
    /// another thread, and nothing is moved until `work` returns, as while a recording is open.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::Transfer;
    ///
    /// let mesh = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let mut transfer = Transfer::new(gpu.allocator(), QueueIndex(0), 1 << 16)?;
    /// mesh.with_raw(|raw| transfer.upload_to(raw, 0, &[7; 256]))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_raw<T>(&self, work: impl FnOnce(&RawResource<C::Handle>) -> T) -> T {
        match &self.owner {
            Owner::Pinned(resource, _) => work(resource),
            Owner::Relocatable(cell) => {
                let _in_place = KeptInPlace::new(cell.with(|it| it.resource().tracker().clone()));
                // A token of its own, since a step that begins meanwhile takes the lock, and `work` is the caller's code.
                let token = cell.with_contents(|it| it.resource().borrowed());
                work(&token)
            }
        }
    }

    /// Returns the tracker that decides when the resource may be destroyed.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// assert!(mesh.tracker().ptr_eq(gpu.tracker()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tracker(&self) -> SubmissionTracker {
        self.with_owned(|resource, _| resource.tracker().clone())
    }

    /// Retires the resource together with the only recording that uses it: it is destroyed when that recording is
    /// discarded, or submitted and completed, whatever other recordings are open. A relocatable resource is dropped as
    /// any other, since copies of defragmentation use it too.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let streaming = gpu.record("a level, over many frames"); // stays open
    /// let recording = gpu.record("one picture");
    /// let scratch = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("scratch"))?;
    /// // SAFETY: only `recording` uses it.
    /// unsafe { scratch.retire_with(recording.id()) };
    /// drop(recording);
    /// assert_eq!(gpu.reclaim().count, 1, "it does not wait for the other one");
    /// drop(streaming);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// No other recording uses the resource, nor does an uploader that was given it as a target.
    pub unsafe fn retire_with(mut self, recording: RecordingId) {
        if let Owner::Pinned(resource, _) = &mut self.owner {
            release(resource);
            // SAFETY: as the caller promises.
            unsafe { resource.retire_value_with(recording) };
        }
    }

    /// Returns the beginning of the resource's name, for an error. Takes the lock of a relocatable resource, and its
    /// pool's.
    #[cold]
    pub(crate) fn short_name(&self) -> ShortName {
        self.with_owned(|resource, _| resource.allocator().name_of(resource.allocation()))
    }

    /// Says that the contents of a pinned resource are lost. Its state stays where the API keeps it.
    pub(super) fn forget_contents(&self, and_state: bool) {
        match &self.owner {
            Owner::Pinned(_, states) if and_state => C::reset_states(states),
            Owner::Pinned(_, states) => C::lose_contents(states),
            // Only a pinned one is placed.
            Owner::Relocatable(_) => {}
        }
    }

    /// Returns what a relocatable resource shares with its defragmenter.
    pub(super) fn cell(&self) -> Option<&Arc<Cell<D, C>>> {
        match &self.owner {
            Owner::Pinned(..) => None,
            Owner::Relocatable(cell) => Some(cell),
        }
    }

    /// Lets a descriptor heap follow the moves of a relocatable resource. Returns the name by which it knows the
    /// resource; `None` for one that never moves.
    pub(crate) fn follow(&self, follower: &Arc<dyn Follower<D>>) -> Option<CellKey> {
        match &self.owner {
            Owner::Pinned(..) => None,
            Owner::Relocatable(cell) => {
                // A descriptor is about to name it.
                cell.with_contents(|_| ());
                cell.follow(follower);
                Some(cell.key())
            }
        }
    }

    /// Calls `work` with the owner, and with the point at which a move has brought the bytes to its place, if that is
    /// not known to be reached.
    pub(crate) fn with_owned<T>(
        &self,
        work: impl FnOnce(&Owned<Unique<D, C>>, Option<TimelinePoint>) -> T,
    ) -> T {
        match &self.owner {
            Owner::Pinned(resource, _) => work(resource, None),
            Owner::Relocatable(cell) => cell.with(|current| work(current.resource(), current.copied_at())),
        }
    }

    /// Calls `work` as [`with_owned`](Self::with_owned) does, where the resource may get contents by that.
    pub(crate) fn with_contents<T>(
        &self,
        work: impl FnOnce(&Owned<Unique<D, C>>, Option<TimelinePoint>) -> T,
    ) -> T {
        match &self.owner {
            Owner::Pinned(resource, _) => work(resource, None),
            Owner::Relocatable(cell) => {
                cell.with_contents(|current| work(current.resource(), current.copied_at()))
            }
        }
    }
}

/// While it lives, no step moves anything: it is an open recording that may write.
struct KeptInPlace {
    _recording: Recording,
}

impl KeptInPlace {
    /// Waits for steps that have begun to move something. No lock is held.
    fn new(tracker: SubmissionTracker) -> Self {
        let recording = tracker.record_explicit("beside steps");
        tracker.wait_for_passes();
        Self { _recording: recording }
    }
}

impl<D: Device> Buffer<D> {
    /// Copies `bytes` into the buffer from byte `offset` on, and makes them visible to the GPU. Writing bytes that the
    /// GPU reads at the same time gives wrong bytes, never undefined behaviour.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let constants = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::Upload.with_name("constants"))?;
    /// constants.write(16, &[1, 2, 3])?;
    /// let mut bytes = [0; 3];
    /// constants.read(16, &mut bytes)?;
    /// assert_eq!(bytes, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfRange`]; [`AccessError::NotHostVisible`] where the CPU cannot reach the memory, which
    /// [`MemoryUsage::Upload`](crate::MemoryUsage::Upload) rules out; [`AccessError::Moving`] until the points
    /// [`Defragmenter::copied_at`](crate::memory::Defragmenter::copied_at) are reached, where a step has moved the buffer;
    /// or the driver refuses to flush. Unless the driver refused, nothing was written.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        // Under the lock of a relocatable buffer, so that no step replaces it during the write.
        let write = || self.with_contents(|buffer, _| buffer.write(offset, bytes));
        match (write(), &self.owner) {
            // Of a step that is about to move the buffer, or of a copy that is not complete. The first is waited for here,
            // since the caller could not.
            (Err(AccessError::Moving { .. }), Owner::Relocatable(_)) => {
                let _in_place = KeptInPlace::new(self.tracker());
                write()
            }
            (written, _) => written,
        }
    }

    /// Copies bytes out of the buffer from byte `offset` on, with what the GPU wrote. Slow in memory that is not
    /// cached: create buffers that are read with [`MemoryUsage::Readback`](crate::MemoryUsage::Readback).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let picture = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::Readback.with_name("picture"))?;
    /// // Once the GPU has copied to it, and the program has waited for that:
    /// let mut texel = [0; 4];
    /// picture.read(128, &mut texel)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write), where the driver may refuse to invalidate. `bytes` is unchanged then.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), AccessError> {
        self.with_owned(|buffer, _| buffer.read(offset, bytes))
    }

    /// Returns the address of the buffer's first byte for shaders and commands: `VkDeviceAddress`,
    /// `D3D12_GPU_VIRTUAL_ADDRESS`. That of a relocatable buffer is valid as long as its [handle](Self::handle).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// // On Vulkan with `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT` among its usages.
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let vertices = mesh.device_address()?;
    /// println!("the shader reads indices at {:#x}", vertices + 1024);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::NoAddress`], with the reason: the device has none, a feature was not enabled, or the buffer was created
    /// without the usage.
    pub fn device_address(&self) -> Result<u64, AccessError> {
        // As the handle does: what has the address may write there.
        self.with_contents(|buffer, _| buffer.device_address())
    }
}

impl<D: Device> Image<D> {
    /// Returns the state of the whole image between recordings, as far as the library knows it: that in which
    /// [uploads](crate::upload::Uploader) left it, or that which was [set](Self::set_state). `None` where it is not known:
    /// where nothing was written or set since the image was created or was moved without its contents
    /// ([`Movability::Recreated`](crate::memory::Movability::Recreated)), where parts of it are in different states, or
    /// where the application [said so](Self::forget_state). A relocatable image is not moved then.
    ///
    /// A placed image that was [activated](super::Resource::activate) is as one that was created at that moment: `None`. On
    /// Direct3D 12 it is in the state that it was in when it lost its bytes, and has no texels.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("albedo").relocatable();
    /// let albedo = gpu.create_image(&ImageDesc::new(64, 64, 4), &options)?;
    /// assert_eq!(albedo.state(), None, "it is not moved yet");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn state(&self) -> Option<D::ImageState> {
        self.with_states(|states| locked(states).whole())
    }

    /// Says which state the whole image is in from now on, after the application changed it by barriers or render passes of
    /// its own. Uploads then expect it there, and a step may move a relocatable image.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("target").relocatable();
    /// let target = gpu.create_image(&ImageDesc::new(64, 64, 4), &options)?;
    /// // A render pass draws to it here, and leaves it in this state:
    /// let state = (); // on Vulkan `SHADER_READ_ONLY_OPTIMAL`, say; the simulated GPU has one state
    /// // SAFETY: nothing brings the image into another state from now on.
    /// unsafe { target.set_state(state) };
    /// assert_eq!(target.state(), Some(state), "a move copies the texels");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// Until the next call of this function, of [`forget_state`](Self::forget_state) or an upload to the image, the whole
    /// image is in this state whenever an upload to it is submitted or a [step](crate::memory::Defragmenter::step) is done,
    /// or will be once all submitted work has completed; and a recording that is not submitted by then neither leaves it in
    /// another state, nor, if the image is relocatable, uses it on another queue than the defragmenter's. Later uses on
    /// another queue wait for [`copied_at`](crate::memory::DefragmentationStep::copied_at). On Vulkan an
    /// [exclusive](crate::device::SharingMode::Exclusive) image belongs to the family of the first graphics queue then.
    pub unsafe fn set_state(&self, state: D::ImageState) {
        self.with_states(|states| locked(states).set_all(SubresourceState::Known(state)));
    }

    /// Returns what descriptions of its views are checked against.
    pub(crate) fn view_support(&self) -> ImageViewSupport {
        self.with_owned(|raw, _| match raw.view_support() {
            Some(support) => *support,
            None => unreachable!("an image has them"),
        })
    }

    /// Says that the state of the image is not known from now on, since the application changes it: a relocatable image stays
    /// where it is, and uploads are refused that would keep some texels of a mip level. The same before the application hands
    /// an
    /// [exclusive](crate::device::SharingMode::Exclusive) image over to another queue family.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let target = gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("target"))?;
    /// target.forget_state(); // before its first use as a render target, whose passes change it to and fro
    /// assert_eq!(target.state(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget_state(&self) {
        self.with_states(|states| locked(states).set_all(SubresourceState::Unknown));
    }

    /// Calls `work` with the states of the image, which it may change. Locks a relocatable image.
    pub(crate) fn with_states<T>(&self, work: impl FnOnce(&SharedStates<D::ImageState>) -> T) -> T {
        match &self.owner {
            Owner::Pinned(_, states) => work(states),
            Owner::Relocatable(cell) => cell.with_states(work),
        }
    }
}

impl<D: Device, C: BufferOrImage<D>> Drop for Resource<D, C> {
    #[inline(never)]
    fn drop(&mut self) {
        // Before the owner retires it. That of a relocatable resource is dropped with its cell, which does the same.
        if let Owner::Pinned(resource, _) = &mut self.owner {
            release(resource);
        }
    }
}

/// Notes that the program released a pinned resource, whose owner retires it next.
fn release<D: Device, C: BufferOrImage<D>>(resource: &mut Owned<Unique<D, C>>) {
    // Without a value, it was retired with a recording.
    let Some(raw) = resource.value() else { return };
    let (allocator, allocation) = (raw.allocator(), raw.allocation());
    allocator.note_released(allocation.id());
    if allocator.is_placed(allocation.id()) {
        let bytes = allocator.release_placed(allocation.id());
        resource.set_bytes(bytes);
    }
}

impl<D: Device, C: BufferOrImage<D>> fmt::Debug for Resource<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Resource");
        self.with_owned(|raw, _| out.field("handle", raw.handle()).field("size", &raw.size()));
        out.field("id", &self.id()).field("moves", &self.moves()).finish_non_exhaustive()
    }
}

//! Buffers or images: what differs between the two, so that everything else stands once.

use core::fmt;
use std::sync::{Arc, Mutex, Weak};

use super::image_states::{ImageStates, SharedStates, SubresourceState};
use super::{Kind, RawBuffer, RawImage, RawResource};

use crate::device::{
    AddressError, BufferViewUses, Device, DeviceError, ImageShape, ImageViewSupport, MemoryDesc, QueueIndex,
    QueueKind, Requirements, TransferUsage, is_of_home_family,
};
use crate::memory::resource::relocation::{Cell, Member};
use crate::sync::locked;

/// What safe calls check their arguments against, of an image.
#[derive(Debug)]
pub struct ImageFacts {
    /// For copies of texels.
    pub(super) shape: ImageShape,
    /// For views.
    pub(super) views: ImageViewSupport,
}

/// Buffers or images: the functions of the device that differ between the two.
pub trait Class<D: Device> {
    /// The API's description of a resource.
    type Info<'a>: Clone + fmt::Debug + Send + Sync;
    /// The API's handle.
    type Handle: Clone + fmt::Debug + Send + Sync;

    /// Returns the size in bytes.
    fn size(device: &D, info: &Self::Info<'_>, requirements: &Requirements) -> u64;
    /// Returns what is known of an image.
    fn facts(device: &D, info: &Self::Info<'_>) -> Option<Arc<ImageFacts>>;
    /// Returns the copies between buffers that it may take part in.
    fn transfer_usage(device: &D, info: &Self::Info<'_>) -> TransferUsage;
    /// Returns what shaders may see it as, if it is a buffer.
    fn view_uses(device: &D, info: &Self::Info<'_>) -> BufferViewUses;
    /// Returns why it has no device address; `None` if it has one.
    fn no_address(device: &D, info: &Self::Info<'_>) -> Option<AddressError>;
    /// Returns true if all queues may use it without a transfer of ownership.
    fn is_shared(device: &D, info: &Self::Info<'_>) -> bool;
    /// Returns a description from which moves can create the resource again, where `queue` copies it; or the copies that
    /// it would have to allow, none of which is missing where that does not help.
    fn relocatable_info(
        device: &D,
        queue: QueueIndex,
        info: &Self::Info<'_>,
    ) -> Result<Self::Info<'static>, TransferUsage>;
    /// Returns the memory requirements.
    fn requirements(device: &D, info: &Self::Info<'_>) -> Result<Requirements, DeviceError>;
    /// Returns what memory for a new resource has to meet.
    fn new_requirements(device: &D, info: &Self::Info<'_>) -> Result<Requirements, DeviceError> {
        Self::requirements(device, info)
    }
    /// Returns the memory requirements where `told` is what [`new_requirements`](Self::new_requirements) said.
    fn exact_requirements(
        device: &D,
        info: &Self::Info<'_>,
        told: Requirements,
    ) -> Result<Requirements, DeviceError> {
        let _ = (device, info);
        Ok(told)
    }
    /// Creates a resource bound to existing memory.
    ///
    /// # Safety
    ///
    /// The promises of [`create_buffer`](crate::device::BufferDevice::create_buffer).
    unsafe fn create(
        device: &D,
        info: &Self::Info<'_>,
        memory: D::Memory,
        offset: u64,
    ) -> Result<Self::Handle, DeviceError>;
    /// Creates a resource together with dedicated memory.
    fn create_dedicated(
        device: &D,
        info: &Self::Info<'_>,
        memory: &MemoryDesc<'_, D::MemoryOptions>,
    ) -> Result<(D::Memory, Self::Handle), DeviceError>;
    /// Destroys a resource.
    ///
    /// # Safety
    ///
    /// The promises of [`destroy_buffer`](crate::device::BufferDevice::destroy_buffer).
    unsafe fn destroy(device: &D, handle: Self::Handle);
    /// Sets the debug name for the API's tools.
    ///
    /// # Safety
    ///
    /// `handle` is live and from this device.
    unsafe fn name(device: &D, handle: &Self::Handle, name: &str);
}

/// Either [buffers](Buffers) or [images](Images). Nothing else implements it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::Resource;
/// use allotment::memory::kinds::BufferOrImage;
///
/// fn bytes_of<D: Device, C: BufferOrImage<D>>(resource: &Resource<D, C>) -> u64 {
///     resource.info().occupied // of a buffer or an image
/// }
/// let mesh = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// assert!(bytes_of(&mesh) >= 256);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait BufferOrImage<D: Device>:
    Class<D, Handle: 'static> + Kind<D, Token = RawResource<<Self as Class<D>>::Handle>> + 'static
{
    /// The state of an image, which a copy needs beside the description.
    type State: Copy + fmt::Debug + Send + Sync;
    /// The states of an image's subresources, as far as they are known.
    #[doc(hidden)]
    type States: fmt::Debug + Send + Sync;

    /// A copy needs the state, so that a resource whose state is not known stays where it is.
    const NEEDS_STATE: bool;

    /// Returns the states of a newly created resource.
    #[doc(hidden)]
    fn initial_states(token: &Self::Token) -> Self::States;

    /// Returns the state of a whole image, if it is known.
    #[doc(hidden)]
    fn whole_state(states: &Self::States) -> Option<Self::State>;

    /// Says that the resource was created anew, without its contents.
    #[doc(hidden)]
    fn reset_states(states: &Self::States);

    /// Says that the contents are lost, though not the states.
    #[doc(hidden)]
    fn lose_contents(states: &Self::States);

    /// Wraps a relocatable resource for the list of its defragmenter.
    #[doc(hidden)]
    fn member(cell: Weak<Cell<D, Self>>) -> Member<D>
    where
        Self: Sized;
}

impl<D: Device> BufferOrImage<D> for Buffers {
    type State = ();
    type States = ();
    const NEEDS_STATE: bool = false;

    fn initial_states(_: &RawBuffer<D>) {}

    fn whole_state((): &()) -> Option<()> {
        None
    }

    fn reset_states((): &()) {}

    fn lose_contents((): &()) {}

    fn member(cell: Weak<Cell<D, Self>>) -> Member<D> {
        Member::Buffer(cell)
    }
}

impl<D: Device> BufferOrImage<D> for Images {
    type State = D::ImageState;
    // In a lock of its own, since a pinned image has no other. Shared with uploads that are staged: where these are
    // discarded, the image keeps the states that it was in before.
    type States = SharedStates<D::ImageState>;
    const NEEDS_STATE: bool = true;

    fn initial_states(token: &RawImage<D>) -> Self::States {
        // A token without a shape is that of a buffer, of which no state is ever asked.
        let shape = token.shape();
        let (levels, layers) = shape.map_or((1, 1), |shape| (shape.mip_levels, shape.array_layers));
        Arc::new(Mutex::new(ImageStates::new(levels, layers)))
    }

    fn whole_state(states: &Self::States) -> Option<D::ImageState> {
        locked(states).whole()
    }

    fn reset_states(states: &Self::States) {
        locked(states).set_all(SubresourceState::Initial);
    }

    fn lose_contents(states: &Self::States) {
        locked(states).lose_texels();
    }

    fn member(cell: Weak<Cell<D, Self>>) -> Member<D> {
        Member::Image(cell)
    }
}

/// Marks buffers.
#[derive(Debug)]
pub enum Buffers {}

impl<D: Device> Class<D> for Buffers {
    type Info<'a> = D::BufferInfo<'a>;
    type Handle = D::Buffer;

    // The size that the application asked for: a copy beyond it is invalid, even where the memory is larger.
    fn size(device: &D, info: &D::BufferInfo<'_>, _: &Requirements) -> u64 {
        device.buffer_size(info)
    }

    fn facts(_: &D, _: &D::BufferInfo<'_>) -> Option<Arc<ImageFacts>> {
        None
    }

    fn transfer_usage(device: &D, info: &D::BufferInfo<'_>) -> TransferUsage {
        device.buffer_transfer_usage(info)
    }

    fn view_uses(device: &D, info: &D::BufferInfo<'_>) -> BufferViewUses {
        device.buffer_view_uses(info)
    }

    fn no_address(device: &D, info: &D::BufferInfo<'_>) -> Option<AddressError> {
        device.check_device_address(info).err()
    }

    fn is_shared(device: &D, info: &D::BufferInfo<'_>) -> bool {
        device.queues_share_buffer(info)
    }

    fn relocatable_info(
        device: &D,
        queue: QueueIndex,
        info: &D::BufferInfo<'_>,
    ) -> Result<D::BufferInfo<'static>, TransferUsage> {
        // Another family would find its bytes undefined.
        if !device.queues_share_buffer(info) && !is_of_home_family(device, queue) {
            return Err(TransferUsage::empty());
        }
        device.relocatable_buffer_info(info).ok_or_else(|| device.buffer_transfer_usage(info).complement())
    }

    fn requirements(device: &D, info: &D::BufferInfo<'_>) -> Result<Requirements, DeviceError> {
        device.buffer_requirements(info)
    }

    fn new_requirements(device: &D, info: &D::BufferInfo<'_>) -> Result<Requirements, DeviceError> {
        device.new_buffer_requirements(info)
    }

    fn exact_requirements(
        device: &D,
        info: &D::BufferInfo<'_>,
        _: Requirements,
    ) -> Result<Requirements, DeviceError> {
        device.buffer_requirements(info)
    }

    unsafe fn create(
        device: &D,
        info: &D::BufferInfo<'_>,
        memory: D::Memory,
        offset: u64,
    ) -> Result<D::Buffer, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { device.create_buffer(info, memory, offset) }
    }

    fn create_dedicated(
        device: &D,
        info: &D::BufferInfo<'_>,
        memory: &MemoryDesc<'_, D::MemoryOptions>,
    ) -> Result<(D::Memory, D::Buffer), DeviceError> {
        device.create_dedicated_buffer(info, memory)
    }

    unsafe fn destroy(device: &D, handle: D::Buffer) {
        // SAFETY: the caller's promise.
        unsafe { device.destroy_buffer(handle) };
    }

    unsafe fn name(device: &D, handle: &D::Buffer, name: &str) {
        // SAFETY: the caller's promise.
        unsafe { device.name_buffer(handle, name) };
    }
}

/// Marks images.
#[derive(Debug)]
pub enum Images {}

impl<D: Device> Class<D> for Images {
    type Info<'a> = D::ImageInfo<'a>;
    type Handle = D::Image;

    // An image has no size of its own: how many bytes its texels take is the driver's choice.
    fn size(_: &D, _: &D::ImageInfo<'_>, requirements: &Requirements) -> u64 {
        requirements.size
    }

    // Behind a pointer, so that the token of a buffer, of which there are many more, has no room for it.
    fn facts(device: &D, info: &D::ImageInfo<'_>) -> Option<Arc<ImageFacts>> {
        let (shape, views) = (device.image_shape(info), device.image_view_support(info));
        Some(Arc::new(ImageFacts { shape, views }))
    }

    // Of copies between buffers: those of texels have their usage in the shape.
    fn transfer_usage(_: &D, _: &D::ImageInfo<'_>) -> TransferUsage {
        TransferUsage::empty()
    }

    // Its own are among the facts.
    fn view_uses(_: &D, _: &D::ImageInfo<'_>) -> BufferViewUses {
        BufferViewUses::empty()
    }

    fn no_address(_: &D, _: &D::ImageInfo<'_>) -> Option<AddressError> {
        Some(AddressError::Unsupported)
    }

    fn is_shared(device: &D, info: &D::ImageInfo<'_>) -> bool {
        device.queues_share_image(info)
    }

    fn relocatable_info(
        device: &D,
        queue: QueueIndex,
        info: &D::ImageInfo<'_>,
    ) -> Result<D::ImageInfo<'static>, TransferUsage> {
        let kind = device.properties().queues.get(usize::from(queue.0));
        // Compute and transfer queues cannot copy every image: multisampled or depth images, for example.
        let draws = kind == Some(&QueueKind::Graphics);
        // Another family would find its texels undefined.
        let draws = draws && (device.queues_share_image(info) || is_of_home_family(device, queue));
        device.relocatable_image_info(info).filter(|_| draws).ok_or(TransferUsage::empty())
    }

    fn requirements(device: &D, info: &D::ImageInfo<'_>) -> Result<Requirements, DeviceError> {
        device.image_requirements(info)
    }

    unsafe fn create(
        device: &D,
        info: &D::ImageInfo<'_>,
        memory: D::Memory,
        offset: u64,
    ) -> Result<D::Image, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { device.create_image(info, memory, offset) }
    }

    fn create_dedicated(
        device: &D,
        info: &D::ImageInfo<'_>,
        memory: &MemoryDesc<'_, D::MemoryOptions>,
    ) -> Result<(D::Memory, D::Image), DeviceError> {
        device.create_dedicated_image(info, memory)
    }

    unsafe fn destroy(device: &D, handle: D::Image) {
        // SAFETY: the caller's promise.
        unsafe { device.destroy_image(handle) };
    }

    unsafe fn name(device: &D, handle: &D::Image, name: &str) {
        // SAFETY: the caller's promise.
        unsafe { device.name_image(handle, name) };
    }
}

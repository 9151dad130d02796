//! What a descriptor shows of a buffer or an image: enough to describe the resource again under another handle.

use std::sync::Arc;

use super::error::DescriptorError;
use super::shader_visible_heap::Shared;
use super::slots::KeepAlive;
use crate::device::{BufferUse, BufferViewDesc, BufferViewUses, DescriptorDevice, TexelBufferDesc};
use crate::lifetime::SubmissionTracker;
use crate::memory::resource::{CellKey, Follower, NewHandle};
use crate::memory::{Allocator, Buffer, Image, ShortName};

/// A part of a resource that shaders see.
pub(super) enum Shown<D: DescriptorDevice> {
    Buffer { buffer: Arc<Buffer<D>>, desc: BufferViewDesc },
    Texels { buffer: Arc<Buffer<D>>, desc: TexelBufferDesc },
    Image { image: Arc<Image<D>>, info: D::ImageViewInfo },
}

impl<D: DescriptorDevice> Clone for Shown<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Buffer { buffer, desc } => Self::Buffer { buffer: Arc::clone(buffer), desc: desc.clone() },
            Self::Texels { buffer, desc } => Self::Texels { buffer: Arc::clone(buffer), desc: desc.clone() },
            Self::Image { image, info } => Self::Image { image: Arc::clone(image), info: info.clone() },
        }
    }
}

impl<D: DescriptorDevice> Shown<D> {
    /// Checks it for what an allocator and a tracker are of, and a buffer for the description. Whatever makes a view or a
    /// descriptor of it calls this first.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`]; and of a buffer [`DescriptorError::BufferUsage`],
    /// [`DescriptorError::NoAddress`], [`DescriptorError::BadStride`] or [`DescriptorError::TexelFormat`],
    /// [`DescriptorError::BadRange`], [`DescriptorError::Misaligned`].
    pub(super) fn checked(
        self,
        allocator: &Allocator<D>,
        tracker: &SubmissionTracker,
    ) -> Result<Self, DescriptorError> {
        self.check_for(allocator, tracker)?;
        let device = allocator.device();
        match &self {
            Self::Buffer { buffer, desc } => {
                check_use(device, buffer, desc.usage.flag())?;
                check_bytes(device, buffer, desc)?;
            }
            Self::Texels { buffer, desc } => {
                check_use(device, buffer, desc.usage.flag())?;
                check_texels(device, buffer, desc)?;
            }
            // Its description is an API's own, or was resolved.
            Self::Image { .. } => {}
        }
        Ok(self)
    }

    /// Returns the image that a view of an image shows.
    pub(super) fn image(&self) -> &Arc<Image<D>> {
        match self {
            Self::Image { image, .. } => image,
            Self::Buffer { .. } | Self::Texels { .. } => unreachable!("made of an image"),
        }
    }

    /// Returns the buffer that a view of a buffer shows.
    pub(super) fn buffer(&self) -> &Arc<Buffer<D>> {
        match self {
            Self::Buffer { buffer, .. } | Self::Texels { buffer, .. } => buffer,
            Self::Image { .. } => unreachable!("made of a buffer"),
        }
    }

    /// Checks that the resource is of the device of an allocator, and that its owner waits for what the tracker tracks.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`].
    pub(super) fn check_for(
        &self,
        allocator: &Allocator<D>,
        tracker: &SubmissionTracker,
    ) -> Result<(), DescriptorError> {
        let checked = match self {
            Self::Buffer { buffer, .. } | Self::Texels { buffer, .. } => buffer
                .with_owned(|owned, _| check_owner(allocator, tracker, owned.allocator(), owned.tracker())),
            Self::Image { image, .. } => image
                .with_owned(|owned, _| check_owner(allocator, tracker, owned.allocator(), owned.tracker())),
        };
        checked.map_err(|error| error.of(self.short_name()))
    }

    /// Returns the name of the resource.
    pub(super) fn short_name(&self) -> ShortName {
        match self {
            Self::Buffer { buffer, .. } | Self::Texels { buffer, .. } => buffer.short_name(),
            Self::Image { image, .. } => image.short_name(),
        }
    }

    /// Lets a heap follow the moves of the resource. Returns the name by which it knows the resource; `None` for one
    /// that never moves.
    pub(super) fn follow(&self, heap: &Arc<Shared<D>>) -> Option<CellKey> {
        // A pinned one is not asked: it has no lock.
        if !self.is_relocatable() {
            return None;
        }
        let heap: Arc<dyn Follower<D>> = Arc::clone(heap) as _;
        match self {
            Self::Buffer { buffer, .. } | Self::Texels { buffer, .. } => buffer.follow(&heap),
            Self::Image { image, .. } => image.follow(&heap),
        }
    }

    pub(super) fn is_relocatable(&self) -> bool {
        match self {
            Self::Buffer { buffer, .. } | Self::Texels { buffer, .. } => buffer.is_relocatable(),
            Self::Image { image, .. } => image.is_relocatable(),
        }
    }

    /// Returns how often the resource was moved.
    pub(super) fn moves(&self) -> u32 {
        match self {
            Self::Buffer { buffer, .. } | Self::Texels { buffer, .. } => buffer.moves(),
            Self::Image { image, .. } => image.moves(),
        }
    }

    /// Calls `work` while nothing moves the resource, which then counts as one that has contents. Waits for a step of another
    /// thread: not for calls with a lock of a heap.
    pub(super) fn kept_in_place<R>(&self, work: impl FnOnce() -> R) -> R {
        match self {
            Self::Buffer { buffer, .. } | Self::Texels { buffer, .. } => buffer.with_raw(|_| work()),
            Self::Image { image, .. } => image.with_raw(|_| work()),
        }
    }

    /// Creates the view that the descriptor needs, of the resource as it is now.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Device`].
    pub(super) fn create_view(&self, allocator: &Arc<Allocator<D>>) -> Result<View<D>, DescriptorError> {
        // Within the lock of a relocatable resource, under which its moves are counted: a move could destroy the handle before
        // the view is created.
        let created = match self {
            Self::Buffer { buffer, .. } => {
                return Ok(View { allocator: Arc::clone(allocator), raw: None, moves: buffer.moves() });
            }
            Self::Texels { buffer, .. } => buffer.with_owned(|owned, _| {
                self.create_view_of(allocator, &NewHandle::Buffer(owned.handle()), buffer.moves())
            }),
            Self::Image { image, .. } => image.with_owned(|owned, _| {
                self.create_view_of(allocator, &NewHandle::Image(owned.handle()), image.moves())
            }),
        };
        created.map(|view| view.unwrap_or_else(|| unreachable!("the handle is of the resource")))
    }

    /// Creates the view of another handle of the resource: of the one that it has after its next move. `None` where its
    /// descriptor needs no view.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Device`].
    pub(super) fn create_next_view(
        &self,
        allocator: &Arc<Allocator<D>>,
        handle: &NewHandle<'_, D>,
    ) -> Result<Option<View<D>>, DescriptorError> {
        self.create_view_of(allocator, handle, self.moves().wrapping_add(1))
    }

    fn create_view_of(
        &self,
        allocator: &Arc<Allocator<D>>,
        handle: &NewHandle<'_, D>,
        moves: u32,
    ) -> Result<Option<View<D>>, DescriptorError> {
        let device = allocator.device();
        let raw = match (self, handle) {
            (Self::Texels { desc, .. }, NewHandle::Buffer(handle)) => {
                // SAFETY: the buffer is live and from this device; its use, the range and the format were checked.
                RawView::Texels(unsafe { device.create_texel_buffer_view(handle, desc) }?)
            }
            (Self::Image { info, .. }, NewHandle::Image(handle)) => {
                // SAFETY: the image is live and from this device; that it allows such a view is the promise of the caller that
                // bound it.
                RawView::Image(unsafe { device.create_image_view(handle, info) }?)
            }
            _ => return Ok(None),
        };
        Ok(Some(View { allocator: Arc::clone(allocator), raw: Some(raw), moves }))
    }

    /// Returns whether the view is of the resource as it is now.
    pub(super) fn is_shown_by(&self, view: &View<D>) -> bool {
        view.moves == self.moves()
    }

    /// Calls `work` with the descriptor of the resource as it is now. Returns `work`, not called, where the view is of a
    /// resource that was moved since.
    pub(super) fn with_descriptor<R, W: FnOnce(&D::Descriptor<'_>) -> R>(
        &self,
        view: &View<D>,
        work: W,
    ) -> Result<R, W> {
        let device = view.allocator.device();
        match (self, &view.raw) {
            (Self::Buffer { buffer, desc }, _) => {
                let handle = buffer.handle();
                let (range, usage) = (desc.range.clone(), desc.usage);
                let descriptor = match desc.stride {
                    // SAFETY: the buffer is live, and its use and the range were checked.
                    None => unsafe { device.buffer_descriptor(&handle, range, usage) },
                    // SAFETY: as above, and so was the stride.
                    Some(stride) => unsafe {
                        device.structured_buffer_descriptor(&handle, range, usage, stride)
                    },
                };
                Ok(work(&descriptor))
            }
            (Self::Texels { buffer, .. }, Some(RawView::Texels(raw))) => {
                let handle = buffer.handle();
                if !self.is_shown_by(view) {
                    return Err(work);
                }
                // SAFETY: the view was created from this handle: the buffer has been moved as often as it was then.
                let descriptor = unsafe { device.texel_buffer_descriptor(&handle, raw) };
                Ok(work(&descriptor))
            }
            (Self::Image { image, .. }, Some(RawView::Image(raw))) => {
                let handle = image.handle();
                if !self.is_shown_by(view) {
                    return Err(work);
                }
                // SAFETY: as above.
                let descriptor = unsafe { device.image_descriptor(&handle, raw) };
                Ok(work(&descriptor))
            }
            _ => unreachable!("the view was made of the resource"),
        }
    }

    /// Returns what keeps the resource alive.
    pub(super) fn keep(&self) -> KeepAlive {
        match self {
            Self::Buffer { buffer, .. } | Self::Texels { buffer, .. } => Arc::clone(buffer) as _,
            Self::Image { image, .. } => Arc::clone(image) as _,
        }
    }

    /// Returns what keeps the resource and its view alive, where the resource never moves.
    pub(super) fn keep_with(&self, view: View<D>) -> KeepAlive {
        match self {
            Self::Buffer { buffer, .. } => Arc::clone(buffer) as _,
            // In this order, so that the view is dropped first.
            Self::Texels { buffer, .. } => Arc::new((view, Arc::clone(buffer))),
            Self::Image { image, .. } => Arc::new((view, Arc::clone(image))),
        }
    }
}

/// Checks that a buffer was created to be seen so.
fn check_use<D: DescriptorDevice>(
    device: &D,
    buffer: &Buffer<D>,
    usage: BufferViewUses,
) -> Result<(), DescriptorError> {
    let name = buffer.short_name();
    let (found, no_address) = buffer.with_owned(|owned, _| (owned.view_uses(), owned.no_address()));
    if !found.contains(usage) {
        return Err(DescriptorError::BufferUsage { missing: usage, found, name });
    }
    match no_address {
        Some(reason) if device.descriptors_have_addresses() => {
            Err(DescriptorError::NoAddress { reason, name })
        }
        _ => Ok(()),
    }
}

fn check_bytes<D: DescriptorDevice>(
    device: &D,
    buffer: &Buffer<D>,
    desc: &BufferViewDesc,
) -> Result<(), DescriptorError> {
    let &BufferViewDesc { ref range, usage, stride } = desc;
    let name = buffer.short_name();
    if let Some(stride) = stride {
        let is_stride = stride % 4 == 0 && (4..=BufferViewDesc::MAX_STRIDE).contains(&stride);
        if !is_stride || usage == BufferUse::Constants {
            return Err(DescriptorError::BadStride { stride, usage, name });
        }
    }
    let limits = device.descriptor_limits();
    let (start, end, available) = (range.start, range.end, buffer.size());
    let most = limits.max_buffer_range(usage);
    if start >= end || end > available || end - start > most {
        return Err(DescriptorError::BadRange { start, end, available, most, name });
    }
    // Rules of Direct3D 12, applied on each API: a constant buffer view has a multiple of 256 bytes, a raw view
    // whole words, a structured one whole structures.
    let unit: u64 = match (usage, stride) {
        (BufferUse::Constants, _) => 256,
        (_, Some(stride)) => stride.into(),
        (_, None) => 4,
    };
    let alignment = limits.buffer_alignment(usage).get();
    // The least common multiple: of the alignment, a power of two, only what the structure does not have yet.
    let start_alignment = stride
        .map_or(alignment, |_| unit << alignment.trailing_zeros().saturating_sub(unit.trailing_zeros()));
    if end % unit != 0 || start % start_alignment != 0 {
        return Err(DescriptorError::Misaligned { start, end, start_alignment, end_alignment: unit, name });
    }
    Ok(())
}

fn check_texels<D: DescriptorDevice>(
    device: &D,
    buffer: &Buffer<D>,
    desc: &TexelBufferDesc,
) -> Result<(), DescriptorError> {
    let &TexelBufferDesc { ref range, format, usage } = desc;
    let name = buffer.short_name();
    let Some(limits) = device.texel_buffer_limits(format, usage) else {
        return Err(DescriptorError::TexelFormat { format, usage, name });
    };
    let (start, end, available) = (range.start, range.end, buffer.size());
    let most = limits.max_texels.saturating_mul(limits.texel);
    if start >= end || end > available || end - start > most {
        return Err(DescriptorError::BadRange { start, end, available, most, name });
    }
    if start % limits.alignment != 0 || (end - start) % limits.texel != 0 {
        let (start_alignment, end_alignment) = (limits.alignment, limits.texel);
        return Err(DescriptorError::Misaligned { start, end, start_alignment, end_alignment, name });
    }
    Ok(())
}

/// Checks the owner of a resource against an allocator of the device, and a tracker.
fn check_owner<D: DescriptorDevice>(
    allocator: &Allocator<D>,
    tracker: &SubmissionTracker,
    of_resource: &Allocator<D>,
    tracker_of_resource: &SubmissionTracker,
) -> Result<(), DescriptorError> {
    if of_resource.device().id() != allocator.device().id() {
        return Err(DescriptorError::WrongDevice { name: ShortName::NONE });
    }
    Ok(tracker.check_same(tracker_of_resource)?)
}

/// A view of a resource, destroyed when dropped; nothing, for a range of bytes of a buffer.
pub(super) struct View<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    raw: Option<RawView<D>>,
    /// How often the resource was moved before it had the handle that this is a view of.
    moves: u32,
}

/// The device's view.
enum RawView<D: DescriptorDevice> {
    Texels(D::TexelBufferView),
    Image(D::ImageView),
}

impl<D: DescriptorDevice> View<D> {
    /// Returns the device's view of an image.
    pub(super) fn image(&self) -> Option<&D::ImageView> {
        match &self.raw {
            Some(RawView::Image(raw)) => Some(raw),
            _ => None,
        }
    }

    /// Returns the device's view of a buffer as texels.
    pub(super) fn texels(&self) -> Option<&D::TexelBufferView> {
        match &self.raw {
            Some(RawView::Texels(raw)) => Some(raw),
            _ => None,
        }
    }
}

impl<D: DescriptorDevice> Drop for View<D> {
    fn drop(&mut self) {
        let device = self.allocator.device();
        match self.raw.take() {
            // SAFETY: created by this device. A view that a descriptor had is retired with the descriptor, so no queue
            // uses it.
            Some(RawView::Texels(raw)) => unsafe { device.destroy_texel_buffer_view(raw) },
            // SAFETY: as above.
            Some(RawView::Image(raw)) => unsafe { device.destroy_image_view(raw) },
            None => {}
        }
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use super::*;
    use crate::device::ImageDesc;
    use crate::device::simulated::{Profile, SimulatedGpu, SimulatedImageUse};
    use crate::memory::{MemoryUsage, PassLimits};
    use crate::{Gpu, GpuDesc};

    #[test]
    fn a_view_of_where_an_image_was_before_a_move_describes_nothing_any_more() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let gpu = Gpu::new(device, GpuDesc::default()).unwrap();
        let options = MemoryUsage::GpuOnly.with_name("albedo").relocatable();
        let create = |_| {
            let image = gpu.create_image(&ImageDesc::new(512, 512, 4), &options).unwrap();
            // SAFETY: the simulated device has one state.
            unsafe { image.set_state(()) };
            Arc::new(image)
        };
        let mut images: Vec<_> = (0..5).map(create).collect();
        let shown = Shown::Image { image: Arc::clone(&images[4]), info: SimulatedImageUse::Sampled };
        let shown = shown.checked(gpu.allocator(), gpu.tracker()).unwrap();
        let before = shown.create_view(gpu.allocator()).unwrap();
        assert!(shown.with_descriptor(&before, |_| ()).is_ok());

        drop(images.remove(0));
        gpu.reclaim();
        assert_eq!(gpu.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves, 1);
        assert_eq!(shown.moves(), 1);
        assert!(shown.with_descriptor(&before, |_| unreachable!("the handle is another one")).is_err());
        let after = shown.create_view(gpu.allocator()).unwrap();
        assert!(shown.with_descriptor(&after, |_| ()).is_ok());
    }
}

//! What a descriptor shows of a buffer or an image: enough to describe the resource again under another handle.

use core::ops::Range;
use std::sync::Arc;

use super::error::DescriptorError;
use super::shader_visible_heap::{ShaderVisibleHeap, Shared};
use super::slots::KeepAlive;
use crate::device::{BufferUse, DescriptorDevice};
use crate::lifetime::SubmissionTracker;
use crate::memory::resource::{CellKey, Follower};
use crate::memory::{Allocator, Buffer, Image, ShortName};

/// A part of a resource that shaders see.
pub(super) enum Shown<D: DescriptorDevice> {
    Buffer { buffer: Arc<Buffer<D>>, range: Range<u64>, usage: BufferUse },
    Image { image: Arc<Image<D>>, info: D::ImageViewInfo },
}

impl<D: DescriptorDevice> Clone for Shown<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Buffer { buffer, range, usage } => {
                Self::Buffer { buffer: Arc::clone(buffer), range: range.clone(), usage: *usage }
            }
            Self::Image { image, info } => Self::Image { image: Arc::clone(image), info: info.clone() },
        }
    }
}

impl<D: DescriptorDevice> Shown<D> {
    /// Checks a range of a buffer, for a heap.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`], [`DescriptorError::BadRange`],
    /// [`DescriptorError::Misaligned`].
    pub(super) fn buffer(
        heap: &ShaderVisibleHeap<D>,
        buffer: &Arc<Buffer<D>>,
        range: Range<u64>,
        usage: BufferUse,
    ) -> Result<Self, DescriptorError> {
        let shown = Self::Buffer { buffer: Arc::clone(buffer), range: range.clone(), usage };
        shown.check_for(heap.allocator(), heap.tracker())?;
        let limits = heap.allocator().device().descriptor_limits();
        let (start, end, available) = (range.start, range.end, buffer.size());
        let most = limits.max_buffer_range(usage);
        if start >= end || end > available || end - start > most {
            return Err(DescriptorError::BadRange { start, end, available, most, name: buffer.short_name() });
        }
        // Rules of Direct3D 12, applied on each API: a constant buffer view has a multiple of 256 bytes, a raw view
        // whole words.
        let unit = if usage == BufferUse::Constants { 256 } else { 4 };
        let alignment = limits.buffer_alignment(usage);
        if end % unit != 0 || !alignment.is_aligned(start) {
            return Err(DescriptorError::Misaligned {
                start,
                end,
                start_alignment: alignment.get(),
                end_alignment: unit,
                name: buffer.short_name(),
            });
        }
        Ok(shown)
    }

    /// Checks an image, for a heap.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`].
    pub(super) fn image(
        heap: &ShaderVisibleHeap<D>,
        image: &Arc<Image<D>>,
        info: &D::ImageViewInfo,
    ) -> Result<Self, DescriptorError> {
        let shown = Self::Image { image: Arc::clone(image), info: info.clone() };
        shown.check_for(heap.allocator(), heap.tracker())?;
        Ok(shown)
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
        match self {
            Self::Buffer { buffer, .. } => buffer
                .with_owned(|owned, _| check_owner(allocator, tracker, owned.allocator(), owned.tracker()))
                .map_err(|error| error.of(buffer.short_name())),
            Self::Image { image, .. } => image
                .with_owned(|owned, _| check_owner(allocator, tracker, owned.allocator(), owned.tracker()))
                .map_err(|error| error.of(image.short_name())),
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
            Self::Buffer { buffer, .. } => buffer.follow(&heap),
            Self::Image { image, .. } => image.follow(&heap),
        }
    }

    pub(super) fn is_relocatable(&self) -> bool {
        match self {
            Self::Buffer { buffer, .. } => buffer.is_relocatable(),
            Self::Image { image, .. } => image.is_relocatable(),
        }
    }

    /// Returns how often the resource was moved.
    pub(super) fn moves(&self) -> u32 {
        match self {
            Self::Buffer { buffer, .. } => buffer.moves(),
            Self::Image { image, .. } => image.moves(),
        }
    }

    /// Creates the view that the descriptor needs, of the resource as it is now.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Device`].
    pub(super) fn create_view(&self, allocator: &Arc<Allocator<D>>) -> Result<View<D>, DescriptorError> {
        match self {
            Self::Buffer { .. } => Ok(View::none(allocator)),
            // Within the lock of a relocatable image: a move could destroy the handle before the view is created.
            Self::Image { image, .. } => image.with_owned(|owned, _| {
                // Moves are counted under this lock.
                self.create_view_of(allocator, owned.handle(), image.moves())
            }),
        }
    }

    /// Creates the view of another handle of the image: of the one that it has after its next move.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Device`].
    pub(super) fn create_next_view(
        &self,
        allocator: &Arc<Allocator<D>>,
        handle: &D::Image,
    ) -> Result<View<D>, DescriptorError> {
        self.create_view_of(allocator, handle, self.moves().wrapping_add(1))
    }

    fn create_view_of(
        &self,
        allocator: &Arc<Allocator<D>>,
        handle: &D::Image,
        moves: u32,
    ) -> Result<View<D>, DescriptorError> {
        let Self::Image { info, .. } = self else { return Ok(View::none(allocator)) };
        // SAFETY: the image is live and from this device; that it allows such a view is the promise of the caller that
        // bound it.
        let raw = unsafe { allocator.device().create_image_view(handle, info) }?;
        Ok(View { allocator: Arc::clone(allocator), raw: Some(raw), moves })
    }

    /// Returns whether the view is of the resource as it is now.
    pub(super) fn is_shown_by(&self, view: &View<D>) -> bool {
        view.raw.is_none() || view.moves == self.moves()
    }

    /// Calls `work` with the descriptor of the resource as it is now. Returns `work`, not called, where the view is of an
    /// image that was moved since.
    pub(super) fn with_descriptor<R, W: FnOnce(&D::Descriptor<'_>) -> R>(
        &self,
        view: &View<D>,
        work: W,
    ) -> Result<R, W> {
        let device = view.allocator.device();
        match (self, &view.raw) {
            (Self::Buffer { buffer, range, usage }, _) => {
                let handle = buffer.handle();
                // SAFETY: the buffer is live, and the range was checked; the rest is the promise of the caller that bound
                // it.
                let descriptor = unsafe { device.buffer_descriptor(&handle, range.clone(), *usage) };
                Ok(work(&descriptor))
            }
            (Self::Image { image, .. }, Some(raw)) => {
                // Locked until the descriptor is written, so the image is not moved meanwhile.
                let handle = image.handle();
                if !self.is_shown_by(view) {
                    return Err(work);
                }
                // SAFETY: the view was created from this handle: the image has been moved as often as it was then.
                let descriptor = unsafe { device.image_descriptor(&handle, raw) };
                Ok(work(&descriptor))
            }
            (Self::Image { .. }, None) => unreachable!("an image has a view"),
        }
    }

    /// Returns what keeps the resource alive.
    pub(super) fn keep(&self) -> KeepAlive {
        match self {
            Self::Buffer { buffer, .. } => Arc::clone(buffer) as _,
            Self::Image { image, .. } => Arc::clone(image) as _,
        }
    }

    /// Returns what keeps the resource and its view alive, where the resource never moves.
    pub(super) fn keep_with(&self, view: View<D>) -> KeepAlive {
        match self {
            Self::Buffer { buffer, .. } => Arc::clone(buffer) as _,
            // In this order, so that the view is dropped first.
            Self::Image { image, .. } => Arc::new((view, Arc::clone(image))),
        }
    }
}

/// Checks the owner of a resource against an allocator of the device, and a tracker.
pub(super) fn check_owner<D: DescriptorDevice>(
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

/// A view of an image, destroyed when dropped; nothing, for a buffer.
pub(super) struct View<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    raw: Option<D::ImageView>,
    /// How often the image was moved before it had the handle that this is a view of.
    moves: u32,
}

impl<D: DescriptorDevice> View<D> {
    /// Returns the device's view; `None` for a buffer.
    pub(super) fn raw(&self) -> Option<&D::ImageView> {
        self.raw.as_ref()
    }

    fn none(allocator: &Arc<Allocator<D>>) -> Self {
        Self { allocator: Arc::clone(allocator), raw: None, moves: 0 }
    }
}

impl<D: DescriptorDevice> Drop for View<D> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            // SAFETY: created by this device. A view that a descriptor had is retired with the descriptor, so no queue
            // uses it.
            unsafe { self.allocator.device().destroy_image_view(raw) };
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
        let shown =
            Shown::image(gpu.descriptors().unwrap().resources(), &images[4], &SimulatedImageUse::Sampled)
                .unwrap();
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

//! Views and bindless slots of transient resources: as long as a plan keeps the resource, it keeps them.

use core::any::Any;
use std::sync::Arc;

use super::made::{Cached, Made};
use super::resources::{TransientBuffer, TransientImage, TransientResources};
use crate::descriptor::{BufferView, DescriptorError, DescriptorSlot, ImageView, ShaderVisibleHeap};
use crate::device::{BufferViewDesc, DescriptorDevice, ImageViewDesc};
use crate::sync::locked;

/// A slot that is removed with the resource.
struct Slot<D: DescriptorDevice> {
    heap: Arc<ShaderVisibleHeap<D>>,
    slot: DescriptorSlot,
}

impl<D: DescriptorDevice> Drop for Slot<D> {
    fn drop(&mut self) {
        // The program may have removed it.
        let _ = self.heap.remove(self.slot);
    }
}

/// What a slot was asked for.
#[derive(Clone, PartialEq)]
struct SlotOf<T>(T);

/// Returns what was made before for `desc`, or makes it. No lock is held meanwhile.
fn cached<D: DescriptorDevice, K: Clone + PartialEq + Any + Send + Sync, V: Any + Send + Sync>(
    made: &Made<D>,
    desc: &K,
    make: impl FnOnce() -> Result<V, DescriptorError>,
) -> Result<Arc<V>, DescriptorError> {
    let find = |views: &[Cached]| {
        let found = views.iter().find(|(key, _)| key.downcast_ref::<K>() == Some(desc))?;
        Arc::clone(&found.1).downcast::<V>().ok()
    };
    if let Some(view) = find(&locked(&made.views)) {
        return Ok(view);
    }
    let view = Arc::new(make()?);
    let mut views = locked(&made.views);
    // Another thread may have made one meanwhile.
    if let Some(other) = find(&views) {
        drop(views);
        return Ok(other);
    }
    views.push((Box::new(desc.clone()), Arc::clone(&view) as Arc<dyn Any + Send + Sync>));
    Ok(view)
}

impl<D: DescriptorDevice> TransientResources<'_, D> {
    /// Returns a view of an image: the one that was made before for the same description, as long as the image stays.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use std::sync::Arc;
    /// use allotment::device::ImageViewDesc;
    ///
    /// let mut heap = gpu.transient_heap(Default::default());
    /// let mut views = Vec::new();
    /// for _ in 0..2 {
    ///     let frame = gpu.begin_frame()?;
    ///     let mut graph = frame.transient(&mut heap)?;
    ///     let lighting = graph.pass(QueueIndex(0), &[])?;
    ///     let lit = graph.image("lit", &ImageDesc::new(64, 64, 4), &[lighting])?;
    ///     let transient = graph.plan()?;
    ///     views.push(transient.image_view(lit, &ImageViewDesc::render_target())?);
    ///     frame.end()?;
    /// }
    /// assert!(Arc::ptr_eq(&views[0], &views[1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Gpu::create_image_view`](crate::Gpu::create_image_view).
    ///
    /// # Panics
    ///
    /// With a handle of another frame.
    #[track_caller]
    pub fn image_view(
        &self,
        image: TransientImage,
        desc: &ImageViewDesc,
    ) -> Result<Arc<ImageView<D>>, DescriptorError> {
        let made = self.made(image.resource, image.frame);
        cached(made, desc, || self.frame.gpu().create_image_view(self.image(image), desc))
    }

    /// Returns a view of a buffer, as [`image_view`](Self::image_view) returns one of an image.
    ///
    /// # Errors
    ///
    /// The errors of [`Gpu::create_buffer_view`](crate::Gpu::create_buffer_view).
    ///
    /// # Panics
    ///
    /// With a handle of another frame.
    #[track_caller]
    pub fn buffer_view(
        &self,
        buffer: TransientBuffer,
        desc: &BufferViewDesc,
    ) -> Result<Arc<BufferView<D>>, DescriptorError> {
        let made = self.made(buffer.resource, buffer.frame);
        cached(made, desc, || self.frame.gpu().create_buffer_view(self.buffer(buffer), desc))
    }

    /// Returns a slot of the shader-visible heap with a descriptor of an image: the one that was made before for the same
    /// description, as long as the image stays. It is removed when the heap retires the image, and not by the program.
    ///
    /// # Errors
    ///
    /// The errors of [`image_view`](Self::image_view) and of
    /// [`ShaderVisibleHeap::insert_view`](crate::descriptor::ShaderVisibleHeap::insert_view).
    ///
    /// # Panics
    ///
    /// With a handle of another frame.
    #[track_caller]
    pub fn image_slot(
        &self,
        image: TransientImage,
        desc: &ImageViewDesc,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let made = self.made(image.resource, image.frame);
        let slot = cached(made, &SlotOf(desc.clone()), || {
            let view = self.image_view(image, desc)?;
            let heap = Arc::clone(self.frame.gpu().descriptors()?.resources());
            let slot = heap.insert_view(&view)?;
            Ok(Slot { heap, slot })
        });
        Ok(slot?.slot)
    }

    /// Returns a slot with a descriptor of a buffer, as [`image_slot`](Self::image_slot) returns one of an image.
    ///
    /// # Errors
    ///
    /// The errors of [`buffer_view`](Self::buffer_view) and of
    /// [`ShaderVisibleHeap::insert_buffer_view`](crate::descriptor::ShaderVisibleHeap::insert_buffer_view).
    ///
    /// # Panics
    ///
    /// With a handle of another frame.
    #[track_caller]
    pub fn buffer_slot(
        &self,
        buffer: TransientBuffer,
        desc: &BufferViewDesc,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let made = self.made(buffer.resource, buffer.frame);
        let slot = cached(made, &SlotOf(desc.clone()), || {
            let view = self.buffer_view(buffer, desc)?;
            let heap = Arc::clone(self.frame.gpu().descriptors()?.resources());
            let slot = heap.insert_buffer_view(&view)?;
            Ok(Slot { heap, slot })
        });
        Ok(slot?.slot)
    }
}

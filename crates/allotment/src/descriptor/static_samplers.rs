//! Samplers that are a part of a pipeline layout: immutable samplers on Vulkan, static samplers on Direct3D 12. Shaders see
//! them by their number, without a heap, a descriptor or an index.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use super::error::DescriptorError;
use crate::device::{DescriptorDevice, SamplerDesc};
use crate::lifetime::Owned;
use crate::memory::{Allocator, OwningAllocator};

/// Samplers that are a part of a pipeline layout. Dropping them, on any thread, retires them: they are destroyed once no open
/// recording and no submission in flight can use them.
///
/// For the few samplers that a renderer has at all times. Others are found by an index: [`SamplerCache`](super::SamplerCache).
///
/// It dereferences to what the API needs: on Vulkan the layout of a descriptor set, which `Device::cmd_bind_static_samplers`
/// binds; on Direct3D 12 the descriptions for a root signature.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::{AddressMode, Filter};
///
/// let linear = SamplerDesc::default();
/// let pixels = SamplerDesc { min_filter: Filter::Nearest, mag_filter: Filter::Nearest, ..linear };
/// let clamped = SamplerDesc { address: [AddressMode::ClampToEdge; 3], ..linear };
/// let samplers = gpu.create_static_samplers(&[linear, pixels, clamped])?;
/// // On Vulkan `samplers.layout()` becomes a set of the pipeline layout; on Direct3D 12 `samplers.descs(space)` a part of the
/// // root signature. Shaders see them as numbers 0 to 2.
/// assert_eq!(samplers.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StaticSamplers<D: DescriptorDevice> {
    made: Owned<Made<D>>,
}

struct Made<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    /// `None` only while it is dropped.
    raw: Option<D::StaticSamplers>,
}

impl<D: DescriptorDevice> StaticSamplers<D> {
    /// Creates samplers, whose numbers are their places in the list.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::InvalidSampler`], or [`DescriptorError::Device`] where there are more than a pipeline can have, or
    /// the device refuses one. None exists in that case.
    #[inline(never)]
    pub fn new(memory: &OwningAllocator<D>, samplers: &[SamplerDesc]) -> Result<Self, DescriptorError> {
        samplers.iter().try_for_each(SamplerDesc::check).map_err(DescriptorError::InvalidSampler)?;
        let allocator = memory.allocator();
        let raw = allocator.device().create_static_samplers(samplers)?;
        let made = Made { allocator: Arc::clone(allocator), raw: Some(raw) };
        Ok(Self { made: memory.deletion_queue().own(made) })
    }
}

impl<D: DescriptorDevice> Deref for StaticSamplers<D> {
    type Target = D::StaticSamplers;

    fn deref(&self) -> &D::StaticSamplers {
        match &self.made.raw {
            Some(raw) => raw,
            None => unreachable!("taken only when dropped"),
        }
    }
}

impl<D: DescriptorDevice> Drop for Made<D> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            // SAFETY: created by this device, and retired: no queue uses them.
            unsafe { self.allocator.device().destroy_static_samplers(raw) };
        }
    }
}

impl<D: DescriptorDevice> fmt::Debug for StaticSamplers<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StaticSamplers").field(&self.made.raw).finish()
    }
}

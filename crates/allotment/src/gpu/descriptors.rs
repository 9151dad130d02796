//! Descriptor heaps of a [`Gpu`](super::Gpu), created on first use.

use core::fmt;

use super::part::Layer;
use super::{Frame, Gpu};
use crate::descriptor::{
    CpuDescriptorHeap, CpuDescriptorHeapDesc, DescriptorError, SamplerCache, ShaderVisibleHeap,
    TransientDescriptors,
};
use crate::device::{DescriptorDevice, DescriptorHeapType};
use crate::lifetime::Reclaimed;

/// The descriptor heaps of a device: one shader-visible heap for buffers and images, one for samplers, and a CPU
/// descriptor heap per type. Returned by [`Gpu::descriptors`].
pub struct Descriptors<D: DescriptorDevice> {
    resources: ShaderVisibleHeap<D>,
    samplers: SamplerCache<D>,
    /// In the order of [`DescriptorHeapType::ALL`].
    cpu: [CpuDescriptorHeap<D>; DescriptorHeapType::ALL.len()],
}

impl<D: DescriptorDevice> Descriptors<D> {
    fn new(gpu: &Gpu<D>) -> Result<Self, DescriptorError> {
        let (allocator, tracker, desc) = (gpu.allocator(), gpu.tracker(), gpu.desc());
        let cpu = |kind| CpuDescriptorHeap::new(allocator, tracker, CpuDescriptorHeapDesc::new(kind));
        let [resource, sampler, render_target, depth_stencil] = DescriptorHeapType::ALL;
        Ok(Self {
            resources: ShaderVisibleHeap::new(allocator, tracker, desc.resource_descriptors)?,
            samplers: SamplerCache::new(ShaderVisibleHeap::new(
                allocator,
                tracker,
                desc.sampler_descriptors,
            )?)?,
            cpu: [cpu(resource)?, cpu(sampler)?, cpu(render_target)?, cpu(depth_stencil)?],
        })
    }

    /// Returns the shader-visible heap of buffers and images.
    #[must_use]
    pub fn resources(&self) -> &ShaderVisibleHeap<D> {
        &self.resources
    }

    /// Returns the samplers: one descriptor for each description that differs.
    #[must_use]
    pub fn samplers(&self) -> &SamplerCache<D> {
        &self.samplers
    }

    /// Returns the CPU descriptor heap of a type. Descriptors are copied from there to where shaders see them.
    #[must_use]
    pub fn cpu_heap(&self, kind: DescriptorHeapType) -> &CpuDescriptorHeap<D> {
        let [resource, sampler, render_target, depth_stencil] = &self.cpu;
        match kind {
            DescriptorHeapType::Resource => resource,
            DescriptorHeapType::Sampler => sampler,
            DescriptorHeapType::RenderTarget => render_target,
            DescriptorHeapType::DepthStencil => depth_stencil,
        }
    }
}

impl<D: DescriptorDevice> Layer for Descriptors<D> {
    fn reclaim(&self) -> Reclaimed {
        let mut reclaimed = self.resources.reclaim();
        // Samplers first: what the cache no longer needs comes back to its heap.
        reclaimed += self.samplers.reclaim();
        reclaimed += self.samplers.heap().reclaim();
        self.cpu.iter().for_each(|heap| reclaimed += heap.reclaim());
        reclaimed
    }
}

impl<D: DescriptorDevice> fmt::Debug for Descriptors<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptors")
            .field("resources", &self.resources)
            .field("samplers", &self.samplers)
            .finish_non_exhaustive()
    }
}

impl<D: DescriptorDevice> Gpu<D> {
    /// Returns the descriptor heaps, which the first call creates as [`GpuDesc`](super::GpuDesc) says.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::OverLimit`] where the device supports no heaps of that size, or the device's refusal. The
    /// next call tries again.
    pub fn descriptors(&self) -> Result<&Descriptors<D>, DescriptorError> {
        self.shared.descriptors.get_or_try_init(|| Descriptors::new(self))
    }
}

impl<D: DescriptorDevice> Frame<D> {
    /// Returns descriptors of buffers and images that live as long as the frame's submissions. Each thread that records
    /// calls this once and allocates from what it returns without a lock.
    ///
    /// # Errors
    ///
    /// [`DescriptorError`] where the heaps cannot be created, or where the heap has no room for another recording.
    pub fn transient_descriptors(&self) -> Result<TransientDescriptors<D>, DescriptorError> {
        self.gpu().descriptors()?.resources().begin(self.recording())
    }
}

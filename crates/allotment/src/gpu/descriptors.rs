//! Descriptor heaps of a [`Gpu`](super::Gpu), created on first use.

use core::fmt;
use std::sync::Arc;

use super::part::Layer;
use super::{Frame, Gpu};
use crate::descriptor::{
    Binding, BindingLayout, BufferView, CpuDescriptorHeap, CpuDescriptorHeapDesc, DescriptorError, ImageView,
    SamplerCache, ShaderVisibleHeap, ShaderVisibleHeapDesc, StaticSamplers, TexelBufferView,
    TransientDescriptors,
};
use crate::device::{
    BufferViewDesc, DescriptorDevice, DescriptorHeapType, ImageViewDesc, SamplerDesc, TexelBufferDesc,
};
use crate::lifetime::Reclaimed;
use crate::memory::{Buffer, Image};

/// The descriptor heaps of a device: one shader-visible heap for buffers and images, one for samplers, and a CPU
/// descriptor heap per type. Returned by [`Gpu::descriptors`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::DescriptorHeapType;
///
/// let descriptors = gpu.descriptors()?;
/// let linear = descriptors.samplers().get(&SamplerDesc::default())?;
/// println!("shaders sample with {}", linear.index());
/// let target = descriptors.cpu_heap(DescriptorHeapType::RenderTarget).allocate(1)?;
/// println!("{} slots for shaders", descriptors.resources().statistics().capacity);
/// descriptors.cpu_heap(DescriptorHeapType::RenderTarget).free(target)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Descriptors<D: DescriptorDevice> {
    /// Shared with binding layouts, as those of [`cpu`](Self::cpu) are.
    resources: Arc<ShaderVisibleHeap<D>>,
    samplers: SamplerCache<D>,
    /// In the order of [`DescriptorHeapType::ALL`].
    cpu: [Arc<CpuDescriptorHeap<D>>; DescriptorHeapType::ALL.len()],
}

impl<D: DescriptorDevice> Descriptors<D> {
    fn new(gpu: &Gpu<D>) -> Result<Self, DescriptorError> {
        let (allocator, tracker, desc) = (gpu.allocator(), gpu.tracker(), gpu.desc());
        let limits = gpu.device().descriptor_limits();
        // A default must work on every device. What the program described is not changed.
        let resources = desc.resource_descriptors;
        let resources =
            resources.unwrap_or_else(|| ShaderVisibleHeapDesc::resources().within(&limits.resources));
        let samplers = desc.sampler_descriptors;
        let samplers = samplers.unwrap_or_else(|| ShaderVisibleHeapDesc::samplers().within(&limits.samplers));
        let shader_visible = |desc| ShaderVisibleHeap::new(allocator, tracker, desc);
        let cpu =
            |kind| CpuDescriptorHeap::new(allocator, tracker, CpuDescriptorHeapDesc::new(kind)).map(Arc::new);
        // All four at once, since a CPU descriptor heap creates its first page on first use: an unused type costs no
        // memory.
        let [resource, sampler, render_target, depth_stencil] = DescriptorHeapType::ALL;
        Ok(Self {
            resources: Arc::new(shader_visible(resources)?),
            samplers: SamplerCache::new(shader_visible(samplers)?)?,
            cpu: [cpu(resource)?, cpu(sampler)?, cpu(render_target)?, cpu(depth_stencil)?],
        })
    }

    /// Returns the shader-visible heap of buffers and images.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::BufferUse;
    ///
    /// let lights = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("lights"))?;
    /// let lights = std::sync::Arc::new(lights);
    /// let handle = lights.handle();
    /// // SAFETY: the buffer is alive as long as the slot, which keeps it, and the range lies in it.
    /// let descriptor = unsafe { device.buffer_descriptor(&handle, 0..256, BufferUse::ReadOnly) };
    /// let slot = gpu.descriptors()?.resources().insert(&descriptor, Some(lights.clone()))?;
    /// println!("shaders read the lights at index {}", slot.index());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn resources(&self) -> &Arc<ShaderVisibleHeap<D>> {
        &self.resources
    }

    /// Returns the samplers: one descriptor for each description that differs.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let samplers = gpu.descriptors()?.samplers();
    /// let (first, second) = (samplers.get(&SamplerDesc::default())?, samplers.get(&SamplerDesc::default())?);
    /// assert_eq!(first.index(), second.index(), "one description, one descriptor");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn samplers(&self) -> &SamplerCache<D> {
        &self.samplers
    }

    /// Returns the CPU descriptor heap of a type. Descriptors are copied from there to where shaders see them.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::DescriptorHeapType;
    ///
    /// let depth = gpu.descriptors()?.cpu_heap(DescriptorHeapType::DepthStencil);
    /// let views = depth.allocate(4)?; // the cascades of a shadow map
    /// assert_eq!((views.count(), depth.statistics().used), (4, 4));
    /// depth.retire(views)?; // free once the GPU has completed what uses them
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cpu_heap(&self, kind: DescriptorHeapType) -> &Arc<CpuDescriptorHeap<D>> {
        let [resource, sampler, render_target, depth_stencil] = &self.cpu;
        match kind {
            DescriptorHeapType::Resource => resource,
            DescriptorHeapType::Sampler => sampler,
            DescriptorHeapType::RenderTarget => render_target,
            DescriptorHeapType::DepthStencil => depth_stencil,
        }
    }

    /// Creates the layout of [binding sets](crate::descriptor::BindingSet) over the heaps of buffers and images.
    ///
    /// ```
    /// use allotment::descriptor::{Binding, BindingSet};
    /// use allotment::device::simulated::{Profile, SimulatedGpu};
    /// use allotment::gpu::{Gpu, GpuDesc};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let gpu = Gpu::new(device, GpuDesc::default())?;
    /// let bindings = [Binding::mutable("albedo"), Binding::dynamic("instance")];
    /// let layout = gpu.descriptors()?.binding_layout(&bindings)?;
    /// let material = BindingSet::new(&layout)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`BindingLayout::new`].
    #[inline(never)]
    pub fn binding_layout(&self, bindings: &[Binding]) -> Result<BindingLayout<D>, DescriptorError> {
        let cpu_heap = self.cpu_heap(DescriptorHeapType::Resource);
        BindingLayout::new(&self.resources, cpu_heap, bindings)
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
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// assert_eq!(gpu.allocator().statistics().allocations, 0);
    /// let heap = gpu.descriptors()?.resources(); // the first call allocates the heaps
    /// assert!(heap.statistics().capacity > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoHeaps`] where shaders of the device see none (on Vulkan, descriptor indexing and descriptor
    /// buffers are both off), [`DescriptorError::OverLimit`] where the description of a heap exceeds the device's limit,
    /// or the device's refusal. The next call tries again.
    #[inline(never)]
    pub fn descriptors(&self) -> Result<&Descriptors<D>, DescriptorError> {
        self.shared.descriptors.get_or_try_init(|| Descriptors::new(self))
    }
}

impl<D: DescriptorDevice> Gpu<D> {
    /// Creates samplers that are a part of a pipeline layout: immutable samplers on Vulkan, static samplers on Direct3D 12.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let samplers = gpu.create_static_samplers(&[SamplerDesc::default()])?;
    /// assert_eq!(samplers.len(), 1); // on Vulkan: `samplers.layout()`, on Direct3D 12: `samplers.descs(0)`
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`StaticSamplers::new`].
    #[inline(never)]
    pub fn create_static_samplers(
        &self,
        samplers: &[SamplerDesc],
    ) -> Result<StaticSamplers<D>, DescriptorError> {
        StaticSamplers::new(self.memory(), samplers)
    }

    /// Returns the CPU heap of a type; `None` on a device whose shaders see no heaps.
    fn cpu_heap_of(
        &self,
        kind: DescriptorHeapType,
    ) -> Result<Option<&Arc<CpuDescriptorHeap<D>>>, DescriptorError> {
        match self.descriptors() {
            Ok(descriptors) => Ok(Some(descriptors.cpu_heap(kind))),
            Err(DescriptorError::NoHeaps) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a view of a range of a buffer (constants, raw bytes, structures), with a descriptor in the CPU heap of
    /// resources. Dropping it retires it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::{BufferUse, BufferViewDesc};
    ///
    /// let scene = Arc::new(gpu.create_buffer(&BufferDesc::new(1 << 16), &MemoryUsage::GpuOnly.with_name("scene"))?);
    /// let camera = gpu.create_buffer_view(&scene, &BufferViewDesc::new(0..256, BufferUse::Constants))?;
    /// let lights = BufferViewDesc::new(1024..9216, BufferUse::ReadOnly).with_stride(64);
    /// let lights = gpu.create_buffer_view(&scene, &lights)?;
    /// let refused = gpu.create_buffer_view(&scene, &BufferViewDesc::new(0..1 << 20, BufferUse::ReadOnly));
    /// println!("{}", refused.unwrap_err()); // "scene": bytes 0..1048576 exceed the buffer of 65536 bytes, …
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`BufferView::new`], and of [`descriptors`](Self::descriptors). On a device whose shaders see no heaps,
    /// the view has no descriptor.
    #[inline(never)]
    #[track_caller]
    pub fn create_buffer_view(
        &self,
        buffer: &Arc<Buffer<D>>,
        desc: &BufferViewDesc,
    ) -> Result<BufferView<D>, DescriptorError> {
        BufferView::new(self.memory(), self.cpu_heap_of(DescriptorHeapType::Resource)?, buffer, desc)
    }

    /// Creates a view of a buffer as texels, with a descriptor in the CPU heap of resources. Dropping it retires it.
    ///
    /// # Errors
    ///
    /// The errors of [`TexelBufferView::new`], and of [`descriptors`](Self::descriptors). On a device whose shaders see no
    /// heaps, the view has a handle and no descriptor.
    #[inline(never)]
    #[track_caller]
    pub fn create_texel_buffer_view(
        &self,
        buffer: &Arc<Buffer<D>>,
        desc: &TexelBufferDesc,
    ) -> Result<TexelBufferView<D>, DescriptorError> {
        TexelBufferView::new(self.memory(), self.cpu_heap_of(DescriptorHeapType::Resource)?, buffer, desc)
    }

    /// Creates a view of an image, with a descriptor in the CPU heap of its type. Dropping it retires it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::{ImageViewDesc, ImageViewDimension};
    ///
    /// let desc = ImageDesc::new(512, 512, 4).with_array_layers(6);
    /// let sky = Arc::new(gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("sky"))?);
    /// let cube = ImageViewDesc::sampled().with_dimension(ImageViewDimension::Cube);
    /// let cube = gpu.create_image_view(&sky, &cube)?;
    /// let mut faces = Vec::new();
    /// for face in 0..6 {
    ///     faces.push(gpu.create_image_view(&sky, &ImageViewDesc::render_target().with_array_layers(face..face + 1))?);
    /// }
    /// let refused = gpu.create_image_view(&sky, &ImageViewDesc::sampled().with_mip_levels(0..2));
    /// println!("{}", refused.unwrap_err()); // "sky": mip levels 0..2 are none or exceed the 1 mip levels of the image, …
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`ImageView::new`], and of [`descriptors`](Self::descriptors). On a device whose shaders see no heaps, the
    /// view has a handle and no descriptor.
    #[inline(never)]
    #[track_caller]
    pub fn create_image_view(
        &self,
        image: &Arc<Image<D>>,
        desc: &ImageViewDesc,
    ) -> Result<ImageView<D>, DescriptorError> {
        let heap = match desc.usage.heap_type() {
            Some(kind) => self.cpu_heap_of(kind)?,
            None => None,
        };
        ImageView::new(self.memory(), heap, image, desc)
    }
}

impl<D: DescriptorDevice> Frame<D> {
    /// Returns descriptors of buffers and images that live as long as the frame's submissions. Each thread that records
    /// calls this once and allocates from what it returns without a lock.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::BufferUse;
    ///
    /// let constants = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::DeviceUpload.with_name("constants"))?;
    /// let frame = gpu.begin_frame()?;
    /// let mut transient = frame.transient_descriptors()?;
    /// let mut table = transient.allocate(1)?;
    /// let handle = constants.handle();
    /// // SAFETY: the buffer is alive until the GPU has completed the frame, and the range lies in it.
    /// let descriptor = unsafe { device.buffer_descriptor(&handle, 0..256, BufferUse::Constants) };
    /// table.write(0, &descriptor)?;
    /// println!("the table begins at descriptor {}", table.place().first);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DescriptorError`] where the heaps cannot be created, or where the heap has no room for another recording.
    #[inline(never)]
    pub fn transient_descriptors(&self) -> Result<TransientDescriptors<D>, DescriptorError> {
        self.gpu().descriptors()?.resources().begin(self.recording())
    }
}

//! What is drawn: a vertex buffer, a texture, uniforms, and the pipeline with its own descriptor sets.

use std::io::Cursor;

use allotment::device::vulkan::Device;
use allotment::device::{BufferDesc, ImageDesc};
use allotment::lifetime::Owned;
use allotment::memory::MappedBuffer;
use allotment::{Buffer, Gpu, Image, MemoryUsage};
use ash::vk;

use crate::Outcome;
use crate::picture::{TEXTURE, TRIANGLES, texel};
use crate::target::{DEPTH, whole};

/// Bytes of a vertex: a position and a place in the texture.
const VERTEX: u32 = 20;

pub(crate) struct Scene {
    pub(crate) vertices: Buffer<Device>,
    /// One for each frame in flight: the CPU writes one while the GPU reads the others.
    pub(crate) uniforms: Vec<MappedBuffer<Device>>,
    pub(crate) objects: Owned<Objects>,
    _texture: Image<Device>,
}

/// Objects that Allotment did not create.
pub(crate) struct Objects {
    device: ash::Device,
    /// One for each frame in flight, which refers to that frame's uniforms.
    pub(crate) sets: Vec<vk::DescriptorSet>,
    pub(crate) layout: vk::PipelineLayout,
    pub(crate) pipeline: vk::Pipeline,
    /// One for each frame in flight, for the image of a swapchain.
    pub(crate) acquired: Vec<vk::Semaphore>,
    pool: vk::DescriptorPool,
    set_layout: vk::DescriptorSetLayout,
    view: vk::ImageView,
    sampler: vk::Sampler,
}

impl Scene {
    pub(crate) fn new(gpu: &Gpu<Device>, format: vk::Format) -> Outcome<Self> {
        let size = size_of_val(&TRIANGLES) as u64;
        let desc = BufferDesc::new(size).with_usage(vk::BufferUsageFlags::VERTEX_BUFFER.as_raw().into());
        let vertices = gpu.create_buffer(&desc.into(), &MemoryUsage::GpuOnly.with_name("triangles"))?;
        let bytes: Vec<u8> = TRIANGLES.iter().flatten().flatten().flat_map(|x| x.to_ne_bytes()).collect();
        gpu.uploads().write_buffer(&vertices, 0, &bytes)?;

        let desc = ImageDesc::new(TEXTURE, TEXTURE, vk::Format::R8G8B8A8_UNORM.as_raw() as u32);
        let texture = gpu.create_image(&desc.into(), &MemoryUsage::GpuOnly.with_name("checks"))?;
        let texels: Vec<u8> = (0..TEXTURE * TEXTURE).flat_map(|i| texel(i % TEXTURE, i / TEXTURE)).collect();
        gpu.uploads().write_image(&texture, &texels)?;

        let desc = BufferDesc::new(16).with_usage(vk::BufferUsageFlags::UNIFORM_BUFFER.as_raw().into());
        let options = MemoryUsage::DeviceUpload.with_name("view");
        let mut uniforms = Vec::new();
        for _ in 0..gpu.desc().frames_in_flight.get() {
            uniforms.push(gpu.create_mapped_buffer(&desc.into(), &options)?);
        }
        let buffers: Vec<vk::Buffer> = uniforms.iter().map(|uniforms| uniforms.handle()).collect();
        // SAFETY: the handles are of the device, and live as long as the sets.
        let objects = unsafe { Objects::new(gpu.device().raw(), &buffers, texture.handle(), format) }?;
        Ok(Self { vertices, uniforms, objects: gpu.deletion_queue().own(objects), _texture: texture })
    }
}

impl Objects {
    /// # Safety
    ///
    /// The buffers and the texture are live, and of the device.
    unsafe fn new(
        device: &ash::Device,
        uniforms: &[vk::Buffer],
        texture: vk::Image,
        format: vk::Format,
    ) -> Outcome<Self> {
        let count = uniforms.len() as u32;
        let types = [
            vk::DescriptorType::UNIFORM_BUFFER,
            vk::DescriptorType::SAMPLED_IMAGE,
            vk::DescriptorType::SAMPLER,
        ];
        // SAFETY: valid descriptions, and the caller's promise.
        unsafe {
            let info = vk::ImageViewCreateInfo::default()
                .image(texture)
                .view_type(vk::ImageViewType::TYPE_2D)
                .format(vk::Format::R8G8B8A8_UNORM)
                .subresource_range(whole(vk::ImageAspectFlags::COLOR));
            let view = device.create_image_view(&info, None)?;
            let sampler = device.create_sampler(&vk::SamplerCreateInfo::default(), None)?;

            let stages = [vk::ShaderStageFlags::VERTEX, vk::ShaderStageFlags::FRAGMENT];
            let binding = |(number, ty)| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(number)
                    .descriptor_type(ty)
                    .descriptor_count(1)
                    .stage_flags(stages[usize::from(number > 0)])
            };
            let bindings: Vec<_> = (0..).zip(types).map(binding).collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let set_layout = device.create_descriptor_set_layout(&info, None)?;
            let sizes = types.map(|ty| vk::DescriptorPoolSize { ty, descriptor_count: count });
            let info = vk::DescriptorPoolCreateInfo::default().max_sets(count).pool_sizes(&sizes);
            let pool = device.create_descriptor_pool(&info, None)?;
            let layouts = vec![set_layout; uniforms.len()];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            let sets = device.allocate_descriptor_sets(&info)?;
            for (&set, &buffer) in sets.iter().zip(uniforms) {
                let buffer = [vk::DescriptorBufferInfo { buffer, offset: 0, range: vk::WHOLE_SIZE }];
                let image_layout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
                let image = [vk::DescriptorImageInfo { sampler, image_view: view, image_layout }];
                let write = |(number, ty)| {
                    let write = vk::WriteDescriptorSet::default()
                        .dst_set(set)
                        .dst_binding(number)
                        .descriptor_type(ty);
                    if number == 0 { write.buffer_info(&buffer) } else { write.image_info(&image) }
                };
                let writes: Vec<_> = (0..).zip(types).map(write).collect();
                device.update_descriptor_sets(&writes, &[]);
            }

            let layouts = [set_layout];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
            let layout = device.create_pipeline_layout(&info, None)?;
            let pipeline = pipeline(device, layout, format)?;
            let semaphores = uniforms.iter().map(|_| device.create_semaphore(&Default::default(), None));
            let acquired = semaphores.collect::<Result<_, _>>()?;
            let device = device.clone();
            Ok(Self { device, sets, layout, pipeline, acquired, pool, set_layout, view, sampler })
        }
    }
}

/// # Safety
///
/// The layout is of the device.
unsafe fn pipeline(
    device: &ash::Device,
    layout: vk::PipelineLayout,
    format: vk::Format,
) -> Outcome<vk::Pipeline> {
    let code = ash::util::read_spv(&mut Cursor::new(include_bytes!("renderer.spv")))?;
    let info = vk::ShaderModuleCreateInfo::default().code(&code);
    // SAFETY: what naga made of the shader.
    let module = unsafe { device.create_shader_module(&info, None) }?;
    let stage =
        |stage, name| vk::PipelineShaderStageCreateInfo::default().stage(stage).module(module).name(name);
    let stages =
        [stage(vk::ShaderStageFlags::VERTEX, c"vertex"), stage(vk::ShaderStageFlags::FRAGMENT, c"fragment")];
    let bindings = [vk::VertexInputBindingDescription { stride: VERTEX, ..Default::default() }];
    let attribute = |location, format, offset| vk::VertexInputAttributeDescription {
        location,
        format,
        offset,
        ..Default::default()
    };
    let attributes =
        [attribute(0, vk::Format::R32G32B32_SFLOAT, 0), attribute(1, vk::Format::R32G32_SFLOAT, 12)];
    let vertices = vk::PipelineVertexInputStateCreateInfo::default()
        .vertex_binding_descriptions(&bindings)
        .vertex_attribute_descriptions(&attributes);
    let assembly =
        vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
    let viewports = vk::PipelineViewportStateCreateInfo::default().viewport_count(1).scissor_count(1);
    let raster = vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0);
    let samples =
        vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(vk::SampleCountFlags::TYPE_1);
    let depth = vk::PipelineDepthStencilStateCreateInfo::default()
        .depth_test_enable(true)
        .depth_write_enable(true)
        .depth_compare_op(vk::CompareOp::LESS);
    let attachments =
        [vk::PipelineColorBlendAttachmentState::default().color_write_mask(vk::ColorComponentFlags::RGBA)];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&attachments);
    let states = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
    let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&states);
    let formats = [format];
    let mut rendering = vk::PipelineRenderingCreateInfo::default()
        .color_attachment_formats(&formats)
        .depth_attachment_format(DEPTH);
    let info = vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&vertices)
        .input_assembly_state(&assembly)
        .viewport_state(&viewports)
        .rasterization_state(&raster)
        .multisample_state(&samples)
        .depth_stencil_state(&depth)
        .color_blend_state(&blend)
        .dynamic_state(&dynamic)
        .layout(layout)
        .push_next(&mut rendering);
    // SAFETY: a valid description; the module is needed only until the pipeline exists.
    unsafe {
        let made = device.create_graphics_pipelines(vk::PipelineCache::null(), &[info], None);
        device.destroy_shader_module(module, None);
        Ok(made.map_err(|(_, error)| error)?[0])
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: the deletion queue drops this when the GPU has completed all that was submitted.
        unsafe {
            self.acquired.iter().for_each(|&acquired| self.device.destroy_semaphore(acquired, None));
            self.device.destroy_pipeline(self.pipeline, None);
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_descriptor_pool(self.pool, None);
            self.device.destroy_descriptor_set_layout(self.set_layout, None);
            self.device.destroy_sampler(self.sampler, None);
            self.device.destroy_image_view(self.view, None);
        }
    }
}

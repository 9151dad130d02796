//! The shaders of a reader, and their pipeline layouts.

use std::io::Cursor;

use allotment::device::vulkan::{DescriptorModel, DescriptorSetLayout, Device};
use allotment::device::{DeviceError, ShaderVisibleHeapType};
use ash::vk;

/// Bytes of the push constants: two addresses and a number for a read, one address and four numbers for a sample, two
/// addresses and three numbers for a list of samples.
pub(super) const CONSTANTS: usize = 28;

/// The compiled shaders; their sources are in the same folder.
const READ: &[u8] = include_bytes!("read.spv");
/// Those that sample are there twice: for descriptors in buffers, and in sets.
const SAMPLE: [&[u8]; 2] = [include_bytes!("sample.spv"), include_bytes!("sample_sets.spv")];
const SAMPLE_LIST: [&[u8]; 2] =
    [include_bytes!("sample_list_2d.spv"), include_bytes!("sample_list_2d_sets.spv")];
const SAMPLE_LIST_OF_CUBE: [&[u8]; 2] =
    [include_bytes!("sample_list_cube.spv"), include_bytes!("sample_list_cube_sets.spv")];

/// The binding of sampled images in a set, as in the shaders for sets.
const IMAGES: usize = 2;

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shader {
    /// Reads buffers.
    Read,
    /// Samples a texture texel for texel.
    Sample,
    /// Samples a 2D texture at a list of coordinates.
    SampleList,
    /// Samples a cube at a list of directions.
    SampleListOfCube,
}

/// The shader for heaps of these capacities. Destroyed with the reader.
#[derive(Debug)]
pub(super) struct Program {
    shader: Shader,
    resources: u32,
    /// `None` for the shader that reads buffers.
    samplers: Option<u32>,
    /// Vulkan does not need them any more, but the validation layer does (seen in 1.4.309): for commands that bind
    /// descriptor buffers it queries the set layouts of the pipeline layout.
    _set_layouts: Vec<DescriptorSetLayout>,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl Program {
    pub(super) fn new(
        device: &Device,
        shader: Shader,
        resources: u32,
        samplers: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let code = code(device, shader).ok_or(DeviceError::Unsupported)?;
        let raw = device.raw();
        let mut set_layouts = vec![device.descriptor_set_layout(ShaderVisibleHeapType::Resource, resources)?];
        if let Some(samplers) = samplers {
            set_layouts.push(device.descriptor_set_layout(ShaderVisibleHeapType::Sampler, samplers)?);
        }
        let constants = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(CONSTANTS as u32)];
        let handles: Vec<_> = set_layouts.iter().map(DescriptorSetLayout::handle).collect();
        let info =
            vk::PipelineLayoutCreateInfo::default().set_layouts(&handles).push_constant_ranges(&constants);
        // SAFETY: the description is valid.
        let layout = unsafe { raw.create_pipeline_layout(&info, None) }?;
        let made = pipeline(device, layout, code).inspect_err(|_| {
            // SAFETY: created above and used by no other code.
            unsafe { raw.destroy_pipeline_layout(layout, None) };
        });
        Ok(Self { shader, resources, samplers, _set_layouts: set_layouts, layout, pipeline: made? })
    }

    pub(super) fn is_for(&self, shader: Shader, resources: u32, samplers: Option<u32>) -> bool {
        (self.shader, self.resources, self.samplers) == (shader, resources, samplers)
    }

    pub(super) fn handles(&self) -> (vk::PipelineLayout, vk::Pipeline) {
        (self.layout, self.pipeline)
    }

    /// # Safety
    ///
    /// It was created on this device, whose queues do not use it any more.
    pub(super) unsafe fn destroy(self, device: &Device) {
        // SAFETY: the caller's promise.
        unsafe { device.raw().destroy_pipeline(self.pipeline, None) };
        // SAFETY: as above.
        unsafe { device.raw().destroy_pipeline_layout(self.layout, None) };
    }
}

/// Returns the code of a shader for a device, or `None` if there is none for its descriptors.
fn code(device: &Device, shader: Shader) -> Option<&'static [u8]> {
    const IMAGE: vk::DescriptorType = vk::DescriptorType::SAMPLED_IMAGE;
    let [in_buffers, in_sets] = match shader {
        Shader::Read => return Some(READ),
        Shader::Sample => SAMPLE,
        Shader::SampleList => SAMPLE_LIST,
        Shader::SampleListOfCube => SAMPLE_LIST_OF_CUBE,
    };
    let types = device.descriptor_types();
    match device.descriptor_model()? {
        DescriptorModel::Buffer => types.contains(&IMAGE).then_some(in_buffers),
        DescriptorModel::Sets => (types.get(IMAGES) == Some(&IMAGE)).then_some(in_sets),
    }
}

fn pipeline(device: &Device, layout: vk::PipelineLayout, code: &[u8]) -> Result<vk::Pipeline, DeviceError> {
    let raw = device.raw();
    // Whole words, as glslangValidator writes them.
    let code = ash::util::read_spv(&mut Cursor::new(code)).map_err(|_| DeviceError::Unsupported)?;
    let info = vk::ShaderModuleCreateInfo::default().code(&code);
    // SAFETY: the shader is valid, and its features are enabled on devices that have heaps.
    let module = unsafe { raw.create_shader_module(&info, None) }?;
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main");
    let flags = match device.descriptor_model() {
        Some(DescriptorModel::Buffer) => vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT,
        Some(DescriptorModel::Sets) | None => vk::PipelineCreateFlags::empty(),
    };
    let info = [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout)];
    // SAFETY: the description is valid.
    let made = unsafe { raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
    // SAFETY: the pipeline exists, and does not need the module any more.
    unsafe { raw.destroy_shader_module(module, None) };
    Ok(made.map_err(|(_, error)| error)?[0])
}

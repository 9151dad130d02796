//! The shader, the sets that say which buffers it works on, and commands that run it.

use std::io::Cursor;

use allotment::device::vulkan::Device;
use ash::{util, vk};

use crate::Outcome;

/// Numbers that a work group computes.
const GROUP: u32 = 64;

/// Runs of the shader that a frame records.
pub(crate) const RUNS: usize = 3;

/// Returns the value that the shader computes at an index.
pub(crate) fn expected(numbers: &[u32], seed: u32, i: usize) -> u32 {
    let mirrored = numbers[numbers.len() - 1 - i];
    let x = (numbers[i] ^ seed).wrapping_mul(0x9e37_79b1).wrapping_add(mirrored);
    x ^ x >> 15
}

/// The shader. Destroyed when it is dropped, so no queue may run it then.
pub(crate) struct Shader {
    device: Device,
    sets: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl Shader {
    /// (A program that runs for longer would also give back what it made when something in between fails.)
    pub(crate) fn new(device: &Device) -> Outcome<Self> {
        let raw = device.raw();
        let code = util::read_spv(&mut Cursor::new(include_bytes!("mirror.spv")))?;
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: what glslangValidator made.
        let module = unsafe { raw.create_shader_module(&info, None) }?;
        let bindings = [0, 1].map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        });
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: a valid description, as are those below.
        let sets = unsafe { raw.create_descriptor_set_layout(&info, None) }?;
        let constants = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(8)];
        let set_layouts = [sets];
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&set_layouts)
            .push_constant_ranges(&constants);
        // SAFETY: as above.
        let layout = unsafe { raw.create_pipeline_layout(&info, None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        // SAFETY: as above.
        let made = unsafe { raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        let pipeline = made.map_err(|(_, error)| error)?[0];
        // SAFETY: the pipeline is made, and needs the module no more.
        unsafe { raw.destroy_shader_module(module, None) };
        Ok(Self { device: device.clone(), sets, layout, pipeline })
    }

    /// Commands that run it over `count` numbers of the buffers of a set.
    pub(crate) fn record(&self, commands: vk::CommandBuffer, set: vk::DescriptorSet, seed: u32, count: u32) {
        let (raw, point) = (self.device.raw(), vk::PipelineBindPoint::COMPUTE);
        // SAFETY: the commands are being recorded; all handles are live, here and below.
        unsafe { raw.cmd_bind_pipeline(commands, point, self.pipeline) };
        // SAFETY: as above.
        unsafe { raw.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &[set], &[]) };
        let mut constants = [0; 8];
        constants[..4].copy_from_slice(&seed.to_ne_bytes());
        constants[4..].copy_from_slice(&count.to_ne_bytes());
        let stage = vk::ShaderStageFlags::COMPUTE;
        // SAFETY: as above; the layout has eight bytes of constants.
        unsafe { raw.cmd_push_constants(commands, self.layout, stage, 0, &constants) };
        // SAFETY: as above; the shader looks at `count` before it reads and writes.
        unsafe { raw.cmd_dispatch(commands, count.div_ceil(GROUP), 1, 1) };
    }
}

impl Drop for Shader {
    fn drop(&mut self) {
        let raw = self.device.raw();
        // SAFETY: who drops it knows that no queue uses it; each is destroyed once.
        unsafe { raw.destroy_pipeline(self.pipeline, None) };
        // SAFETY: as above.
        unsafe { raw.destroy_pipeline_layout(self.layout, None) };
        // SAFETY: as above.
        unsafe { raw.destroy_descriptor_set_layout(self.sets, None) };
    }
}

/// Sets for the runs of one frame, written anew by each frame that gets them.
pub(crate) struct Sets {
    device: Device,
    pool: vk::DescriptorPool,
    sets: [vk::DescriptorSet; RUNS],
}

impl Sets {
    pub(crate) fn new(shader: &Shader) -> Outcome<Self> {
        let raw = shader.device.raw();
        let kind = vk::DescriptorType::STORAGE_BUFFER;
        let sizes = [vk::DescriptorPoolSize::default().ty(kind).descriptor_count(2 * RUNS as u32)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(RUNS as u32).pool_sizes(&sizes);
        // SAFETY: a valid description.
        let pool = unsafe { raw.create_descriptor_pool(&info, None) }?;
        let mut made = Self { device: shader.device.clone(), pool, sets: Default::default() };
        let layouts = [shader.sets; RUNS];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: the pool has room for as many.
        made.sets.copy_from_slice(&unsafe { raw.allocate_descriptor_sets(&info) }?);
        Ok(made)
    }

    /// The set of a run, over these buffers from now on. No queue uses it.
    pub(crate) fn write(
        &mut self,
        run: usize,
        numbers: vk::Buffer,
        results: vk::Buffer,
    ) -> vk::DescriptorSet {
        let range = |buffer| [vk::DescriptorBufferInfo::default().buffer(buffer).range(vk::WHOLE_SIZE)];
        let ranges = [range(numbers), range(results)];
        let write = |binding: usize| {
            vk::WriteDescriptorSet::default()
                .dst_set(self.sets[run])
                .dst_binding(binding as u32)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(&ranges[binding])
        };
        // SAFETY: set and buffers are live, and no queue uses the set.
        unsafe { self.device.raw().update_descriptor_sets(&[write(0), write(1)], &[]) };
        self.sets[run]
    }
}

impl Drop for Sets {
    fn drop(&mut self) {
        // SAFETY: who drops it knows that no queue uses the sets.
        unsafe { self.device.raw().destroy_descriptor_pool(self.pool, None) };
    }
}

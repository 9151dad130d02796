//! Reads through descriptors with a compute shader.

use core::time::Duration;
use std::io::Cursor;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allotment::device::vulkan::{
    BufferInfo, CommandAllocator, DescriptorModel, DescriptorSetLayout, Device, EnabledFeatures,
};
use allotment::device::{
    BufferDesc, CommandAllocator as _, CommandDevice as _, DeviceError, QueueDevice as _, QueueIndex,
    ShaderVisibleHeapType, TimelinePoint, TimelineValue,
};
use ash::vk;

use crate::{DescriptorReader, Read};

/// Invocations per work group, as in the shader.
const GROUP: u32 = 64;

/// Work groups that every device supports in one dispatch.
const MOST_GROUPS: u32 = 65_535;

/// Bytes of the push constants: two addresses and a number.
const CONSTANTS: u32 = 20;

/// Command allocators that a queue gets before the first one is reused: as many as frames in flight need, so
/// that a steady program creates no more, however late its queue finishes.
const SPARE: usize = 8;

/// How long a dropped reader waits for its work. Programs have normally waited for their submissions before.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// A compute shader that reads through descriptors, on devices with [`EnabledFeatures::BUFFER_DEVICE_ADDRESS`]
/// whose first descriptor type is storage buffers.
#[derive(Debug)]
pub struct VulkanReader {
    device: Device,
    /// One program for each heap capacity so far: a set's layout contains its descriptor count.
    programs: Mutex<Vec<Program>>,
    /// Command allocators with commands, each with the point of its submission.
    used: Mutex<Vec<(TimelinePoint, CommandAllocator)>>,
}

/// The shader for heaps of one capacity. Destroyed with the reader.
#[derive(Debug)]
struct Program {
    capacity: u32,
    /// Vulkan does not need it any more, but the validation layer does (seen in 1.4.309): for commands that bind
    /// descriptor buffers it queries the set layouts of the pipeline layout.
    _set_layout: DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl VulkanReader {
    /// Returns the shader for heaps of a capacity, which lives as long as the reader.
    fn program(&self, capacity: u32) -> Result<(vk::PipelineLayout, vk::Pipeline), DeviceError> {
        let mut programs = locked(&self.programs);
        if let Some(program) = programs.iter().find(|program| program.capacity == capacity) {
            return Ok((program.layout, program.pipeline));
        }
        let raw = self.device.raw();
        let set_layout = self.device.descriptor_set_layout(ShaderVisibleHeapType::Resource, capacity)?;
        let constants =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(CONSTANTS)];
        let set_layouts = [set_layout.handle()];
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&set_layouts)
            .push_constant_ranges(&constants);
        // SAFETY: the description is valid.
        let layout = unsafe { raw.create_pipeline_layout(&info, None) }?;
        let made = self.pipeline(layout).inspect_err(|_| {
            // SAFETY: created above and used by no other code.
            unsafe { raw.destroy_pipeline_layout(layout, None) };
        });
        let pipeline = made?;
        programs.push(Program { capacity, _set_layout: set_layout, layout, pipeline });
        Ok((layout, pipeline))
    }

    fn pipeline(&self, layout: vk::PipelineLayout) -> Result<vk::Pipeline, DeviceError> {
        let raw = self.device.raw();
        // Whole words, as glslangValidator writes them.
        let code = ash::util::read_spv(&mut Cursor::new(include_bytes!("read.spv")));
        let code = code.map_err(|_| DeviceError::Unsupported)?;
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: the shader is valid, and its features are enabled on devices that have heaps.
        let module = unsafe { raw.create_shader_module(&info, None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let flags = match self.device.descriptor_model() {
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

    /// Returns a command allocator of a queue: a used one that the queue has executed, or a new one.
    fn commands(&self, queue: QueueIndex) -> Result<CommandAllocator, DeviceError> {
        let completed = self.device.completed(queue)?;
        let mut used = locked(&self.used);
        let mut here = used.iter().enumerate().filter(|(_, (point, _))| point.queue == queue);
        let done = here.clone().find(|(_, (point, _))| point.value <= completed).map(|(at, _)| at);
        let done = done.filter(|_| here.nth(SPARE - 1).is_some()).map(|done| used.swap_remove(done));
        drop(used);
        match done {
            None => self.device.create_command_allocator(queue),
            Some((_, mut memory)) => {
                memory.reset()?;
                Ok(memory)
            }
        }
    }

    fn record(&self, commands: vk::CommandBuffer, reads: &[Read<'_, Device>]) -> Result<(), DeviceError> {
        let raw = self.device.raw();
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: new, or reset.
        unsafe { raw.begin_command_buffer(commands, &info) }?;
        self.barrier(commands);
        for read in reads {
            let (layout, pipeline) = self.program(read.heap.capacity())?;
            let mut constants = [0; CONSTANTS as usize];
            let places = [(*read.indices, read.indices_offset), (*read.to, read.to_offset)];
            for ((buffer, offset), to) in places.into_iter().zip(constants.chunks_exact_mut(8)) {
                // SAFETY: live and created with a device address, as the caller of `submit` promises.
                let first = unsafe { self.device.buffer_address(buffer) }.ok_or(DeviceError::Unsupported)?;
                to.copy_from_slice(&(first + offset).to_ne_bytes());
            }
            constants[16..].copy_from_slice(&read.count.to_ne_bytes());
            let point = vk::PipelineBindPoint::COMPUTE;
            // SAFETY: the commands are being recorded, as in all that follows.
            unsafe { raw.cmd_bind_pipeline(commands, point, pipeline) };
            // SAFETY: the heap is live, and the layout was created for its capacity.
            unsafe {
                self.device.cmd_bind_descriptor_heaps(commands, point, layout, 0, &[read.heap]);
            };
            let stage = vk::ShaderStageFlags::COMPUTE;
            // SAFETY: the layout has that many bytes of push constants.
            unsafe { raw.cmd_push_constants(commands, layout, stage, 0, &constants) };
            let groups = read.count.div_ceil(GROUP).min(MOST_GROUPS);
            // SAFETY: the shader reads `count` indices, and the ranges lie in their buffers by the same promise.
            unsafe { raw.cmd_dispatch(commands, groups, 1, 1) };
            self.barrier(commands);
        }
        // SAFETY: as above.
        unsafe { raw.end_command_buffer(commands) }?;
        Ok(())
    }

    /// Makes everything written before visible to all later work and to the CPU.
    fn barrier(&self, commands: vk::CommandBuffer) {
        let barrier =
            [vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::MEMORY_WRITE).dst_access_mask(
                vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE | vk::AccessFlags::HOST_READ,
            )];
        let (from, none) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
        let to = from | vk::PipelineStageFlags::HOST;
        // SAFETY: the commands are being recorded.
        unsafe { self.device.raw().cmd_pipeline_barrier(commands, from, to, none, &barrier, &[], &[]) };
    }
}

impl DescriptorReader<Device> for VulkanReader {
    fn new(device: &Device, capacity: u32) -> Result<Self, DeviceError> {
        let first = device.descriptor_types().first();
        if !device.enabled().contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS)
            || first != Some(&vk::DescriptorType::STORAGE_BUFFER)
        {
            return Err(DeviceError::Unsupported);
        }
        let made = Self { device: device.clone(), programs: Mutex::default(), used: Mutex::default() };
        made.program(capacity)?;
        Ok(made)
    }

    fn buffer_info(&self, size: u64, _: bool) -> BufferInfo<'static> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        BufferDesc::new(size).with_usage(usage.as_raw().into()).into()
    }

    unsafe fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        reads: &[Read<'_, Device>],
    ) -> Result<TimelineValue, DeviceError> {
        let mut memory = self.commands(queue)?;
        let commands = memory.next()?;
        self.record(commands, reads)?;
        // SAFETY: recorded for this queue; the allocator is kept until the value is reached, everything else by
        // the caller.
        let value = unsafe { self.device.submit_commands(queue, waits, &[commands]) }?;
        locked(&self.used).push((TimelinePoint { queue, value }, memory));
        Ok(value)
    }
}

impl Drop for VulkanReader {
    fn drop(&mut self) {
        let raw = self.device.raw();
        for (point, memory) in locked(&self.used).drain(..) {
            match self.device.wait(point, LAST_WAIT) {
                Ok(()) | Err(DeviceError::Lost) => drop(memory),
                // Leaked rather than destroyed while a queue may still use them.
                Err(_) => core::mem::forget(memory),
            }
        }
        for program in locked(&self.programs).drain(..) {
            // SAFETY: created by this reader, whose work is complete.
            unsafe { raw.destroy_pipeline(program.pipeline, None) };
            // SAFETY: as above.
            unsafe { raw.destroy_pipeline_layout(program.layout, None) };
        }
    }
}

/// Locks the list. It is intact even if a thread panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

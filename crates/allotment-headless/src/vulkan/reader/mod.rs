//! Work that reads through descriptors: a compute shader.

use core::time::Duration;
use std::io::Cursor;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allotment::device::vulkan::{
    BufferInfo, CommandAllocator, DescriptorModel, DescriptorSetLayout, Device, EnabledFeatures,
};
use allotment::device::{
    BufferDesc, CommandAllocator as _, Device as _, DeviceError, QueueIndex, ShaderVisibleHeapType,
    TimelinePoint, TimelineValue,
};
use ash::vk;

use crate::{DescriptorReader, Read};

/// Invocations of a work group, as the shader says.
const GROUP: u32 = 64;

/// Work groups that every device can run at once.
const MOST_GROUPS: u32 = 65_535;

/// Bytes of what the shader is told: two addresses and a number.
const CONSTANTS: u32 = 20;

/// Command memory that a queue has before any of it is used again: as much as frames in flight take, so that a steady
/// program makes no more of it, however late its queue comes to be.
const SPARE: usize = 8;

/// How long the end of a reader waits for its work, for which whoever submitted it has waited already.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// A compute shader that reads through descriptors, on devices with [`EnabledFeatures::BUFFER_DEVICE_ADDRESS`] whose first type
/// of descriptors is storage buffers.
#[derive(Debug)]
pub struct VulkanReader {
    device: Device,
    /// One for each capacity that heaps had so far: a set's layout says how many descriptors it has.
    programs: Mutex<Vec<Program>>,
    /// Command memory that was recorded into, each with what it was submitted as.
    used: Mutex<Vec<(TimelinePoint, CommandAllocator)>>,
}

/// The shader, for heaps of one capacity. Destroyed with the reader.
#[derive(Debug)]
struct Program {
    capacity: u32,
    /// Vulkan does not need it any more, but the validation layer does (seen in 1.4.309): for commands that bind
    /// descriptor buffers it asks the driver about the set layouts of the pipeline layout.
    _set_layout: DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl VulkanReader {
    /// The shader for heaps of a capacity, which stays as long as the reader.
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
        // SAFETY: a valid description.
        let layout = unsafe { raw.create_pipeline_layout(&info, None) }?;
        let made = self.pipeline(layout).inspect_err(|_| {
            // SAFETY: made above, and used by nobody.
            unsafe { raw.destroy_pipeline_layout(layout, None) };
        });
        let pipeline = made?;
        programs.push(Program { capacity, _set_layout: set_layout, layout, pipeline });
        Ok((layout, pipeline))
    }

    fn pipeline(&self, layout: vk::PipelineLayout) -> Result<vk::Pipeline, DeviceError> {
        let raw = self.device.raw();
        // Whole words, as glslangValidator made them.
        let code = ash::util::read_spv(&mut Cursor::new(include_bytes!("read.spv")));
        let code = code.map_err(|_| DeviceError::Unsupported)?;
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: a valid shader, whose features are enabled where heaps can be made.
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
        // SAFETY: a valid description.
        let made = unsafe { raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        // SAFETY: the pipeline is made, and needs the module no more.
        unsafe { raw.destroy_shader_module(module, None) };
        Ok(made.map_err(|(_, error)| error)?[0])
    }

    /// Command memory of a queue: what was used there before and is done with, else new.
    fn commands(&self, queue: QueueIndex) -> Result<CommandAllocator, DeviceError> {
        let completed = self.device.completed(queue)?;
        let mut used = locked(&self.used);
        let mut here = used.iter().enumerate().filter(|(_, (point, _))| point.queue == queue);
        let done = here.clone().find(|(_, (point, _))| point.value <= completed).map(|(at, _)| at);
        let done = done.filter(|_| here.nth(SPARE - 1).is_some()).map(|done| used.swap_remove(done));
        drop(used);
        match done {
            None => self.device.command_memory(queue),
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
                // SAFETY: live, and made to have an address, by the promise of who submits.
                let first = unsafe { self.device.buffer_address(buffer) }.ok_or(DeviceError::Unsupported)?;
                to.copy_from_slice(&(first + offset).to_ne_bytes());
            }
            constants[16..].copy_from_slice(&read.count.to_ne_bytes());
            let point = vk::PipelineBindPoint::COMPUTE;
            // SAFETY: the commands are being recorded, as in all that follows.
            unsafe { raw.cmd_bind_pipeline(commands, point, pipeline) };
            // SAFETY: the heap is live, and the layout was made for its capacity.
            unsafe {
                self.device.cmd_bind_descriptor_heaps(commands, point, layout, 0, &[read.heap]);
            };
            let stage = vk::ShaderStageFlags::COMPUTE;
            // SAFETY: the layout has so many bytes of constants.
            unsafe { raw.cmd_push_constants(commands, layout, stage, 0, &constants) };
            let groups = read.count.div_ceil(GROUP).min(MOST_GROUPS);
            // SAFETY: the shader keeps to `count`, and the ranges lie in their buffers by the same promise.
            unsafe { raw.cmd_dispatch(commands, groups, 1, 1) };
            self.barrier(commands);
        }
        // SAFETY: as above.
        unsafe { raw.end_command_buffer(commands) }?;
        Ok(())
    }

    /// All that was written before, by whatever, is seen by all that comes, and by the CPU.
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
        // SAFETY: recorded for this queue; the memory is kept until the value is reached, the rest by the caller.
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
                // Leaked rather than pulled from under a queue that is not done with it.
                Err(_) => core::mem::forget(memory),
            }
        }
        for program in locked(&self.programs).drain(..) {
            // SAFETY: made by this reader, whose work is done.
            unsafe { raw.destroy_pipeline(program.pipeline, None) };
            // SAFETY: as above.
            unsafe { raw.destroy_pipeline_layout(program.layout, None) };
        }
    }
}

/// A thread that panicked left a list that is whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

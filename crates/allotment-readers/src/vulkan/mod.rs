//! Reads through descriptors with compute shaders.

mod program;
mod texture;

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allotment::device::vulkan::{
    BufferInfo, CommandAllocator, Descriptor, DescriptorHeap, Device, EnabledFeatures, ImageViewDesc,
};
use allotment::device::{
    BufferDesc, CommandAllocator as _, CommandDevice as _, DeviceError, ImageViewDimension, QueueDevice as _,
    QueueIndex, TimelinePoint, TimelineValue,
};
use ash::vk;

use crate::{DescriptorReader, Read, Sample, SampleList, TargetFormats};
use program::{CONSTANTS, Program, Shader};
use texture::TextureView;

/// Invocations per work group of the shaders that read and that sample at a list of coordinates, as in the shaders.
const GROUP: u32 = 64;

/// Invocations per work group of the shader that samples, along each axis.
const TILE: u32 = 8;

/// Work groups that every device supports in one dispatch.
const MOST_GROUPS: u32 = 65_535;

/// Command allocators that a queue gets before the first one is reused: as many as frames in flight need, so
/// that a steady program creates no more, however late its queue finishes.
const SPARE: usize = 8;

/// How long a dropped reader waits for its work. Programs have normally waited for their submissions before.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Compute shaders that read through descriptors, on devices with [`EnabledFeatures::BUFFER_DEVICE_ADDRESS`]
/// whose first descriptor type is storage buffers.
#[derive(Debug)]
pub struct VulkanReader {
    device: Device,
    /// One program for each heap capacity so far, and of each that samples one for each two of resources and samplers: a
    /// set's layout contains its descriptor count.
    programs: Mutex<Vec<Program>>,
    /// Command allocators with commands, each with the point of its submission.
    used: Mutex<Vec<(TimelinePoint, CommandAllocator)>>,
}

impl VulkanReader {
    /// Returns a program for heaps of these capacities, which lives as long as the reader.
    fn program(
        &self,
        shader: Shader,
        resources: u32,
        samplers: Option<u32>,
    ) -> Result<(vk::PipelineLayout, vk::Pipeline), DeviceError> {
        let mut programs = locked(&self.programs);
        if let Some(program) = programs.iter().find(|program| program.is_for(shader, resources, samplers)) {
            return Ok(program.handles());
        }
        let program = Program::new(&self.device, shader, resources, samplers)?;
        let handles = program.handles();
        programs.push(program);
        Ok(handles)
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

    /// Submits the commands that `record` records.
    ///
    /// # Safety
    ///
    /// The recorded commands are valid on the queue, and what they use lives until the value is reached.
    unsafe fn run(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        record: impl FnOnce(vk::CommandBuffer) -> Result<(), DeviceError>,
    ) -> Result<TimelineValue, DeviceError> {
        let raw = self.device.raw();
        let memory = self.commands(queue)?;
        let commands = memory.next()?;
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: new, or reset.
        unsafe { raw.begin_command_buffer(commands, &info) }?;
        self.barrier(commands);
        record(commands)?;
        // SAFETY: it is being recorded.
        unsafe { raw.end_command_buffer(commands) }?;
        // SAFETY: recorded for this queue; the allocator is kept until the value is reached, everything else by
        // the caller.
        let value = unsafe { self.device.submit_commands(queue, waits, &[commands]) }?;
        locked(&self.used).push((TimelinePoint { queue, value }, memory));
        Ok(value)
    }

    fn record_read(&self, commands: vk::CommandBuffer, read: &Read<'_, Device>) -> Result<(), DeviceError> {
        let program = self.program(Shader::Read, read.heap.capacity(), None)?;
        let mut constants = [0; CONSTANTS];
        let indices = self.address(*read.indices)? + read.indices_offset;
        constants[..8].copy_from_slice(&indices.to_ne_bytes());
        let to = self.address(*read.to)? + read.to_offset;
        constants[8..16].copy_from_slice(&to.to_ne_bytes());
        constants[16..20].copy_from_slice(&read.count.to_ne_bytes());
        let groups = read.count.div_ceil(GROUP).min(MOST_GROUPS);
        self.dispatch(commands, program, &[read.heap], &constants, [groups, 1]);
        Ok(())
    }

    fn record_sample(
        &self,
        commands: vk::CommandBuffer,
        sample: &Sample<'_, Device>,
    ) -> Result<(), DeviceError> {
        let [resources, samplers] = [sample.resources, sample.samplers];
        let program = self.program(Shader::Sample, resources.capacity(), Some(samplers.capacity()))?;
        let mut constants = [0; CONSTANTS];
        constants[..8].copy_from_slice(&self.address(*sample.to)?.to_ne_bytes());
        let numbers = [sample.texture, sample.sampler, sample.extent[0], sample.extent[1]];
        for (to, number) in constants[8..].chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        let groups = sample.extent.map(|length| length.div_ceil(TILE));
        if groups.iter().any(|&groups| groups > MOST_GROUPS) {
            return Err(DeviceError::Unsupported);
        }
        self.dispatch(commands, program, &[resources, samplers], &constants, groups);
        Ok(())
    }

    fn record_sample_list(
        &self,
        commands: vk::CommandBuffer,
        list: &SampleList<'_, Device>,
    ) -> Result<(), DeviceError> {
        let [resources, samplers] = [list.resources, list.samplers];
        let shader = match list.dimension {
            ImageViewDimension::D2 => Shader::SampleList,
            ImageViewDimension::Cube => Shader::SampleListOfCube,
            _ => return Err(DeviceError::Unsupported),
        };
        let groups = list.count.div_ceil(GROUP);
        if groups > MOST_GROUPS {
            return Err(DeviceError::Unsupported);
        }
        let program = self.program(shader, resources.capacity(), Some(samplers.capacity()))?;
        let mut constants = [0; CONSTANTS];
        constants[..8].copy_from_slice(&self.address(*list.list)?.to_ne_bytes());
        constants[8..16].copy_from_slice(&self.address(*list.to)?.to_ne_bytes());
        let numbers = [list.texture, list.sampler, list.count];
        for (to, number) in constants[16..].chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        self.dispatch(commands, program, &[resources, samplers], &constants, [groups, 1]);
        Ok(())
    }

    /// Returns the address of a buffer.
    fn address(&self, buffer: vk::Buffer) -> Result<u64, DeviceError> {
        // SAFETY: live and created with a device address, as the caller of `submit`, `sample` or `sample_list` promises.
        unsafe { self.device.buffer_address(buffer) }.ok_or(DeviceError::Unsupported)
    }

    fn dispatch(
        &self,
        commands: vk::CommandBuffer,
        (layout, pipeline): (vk::PipelineLayout, vk::Pipeline),
        heaps: &[&DescriptorHeap],
        constants: &[u8],
        [width, height]: [u32; 2],
    ) {
        let raw = self.device.raw();
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the commands are being recorded, as in all that follows.
        unsafe { raw.cmd_bind_pipeline(commands, point, pipeline) };
        // SAFETY: the heaps are live, and the layout was created for their capacities.
        unsafe { self.device.cmd_bind_descriptor_heaps(commands, point, layout, 0, heaps) };
        // SAFETY: the layout has that many bytes of push constants.
        unsafe { raw.cmd_push_constants(commands, layout, vk::ShaderStageFlags::COMPUTE, 0, constants) };
        // SAFETY: what the shader accesses lies in its buffers, by the promises to `submit`, `sample` and `sample_list`.
        unsafe { raw.cmd_dispatch(commands, width, height, 1) };
        self.barrier(commands);
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
    type TextureView = TextureView;

    const SAMPLED: vk::ImageLayout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;

    const COPIED_FROM: vk::ImageLayout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;

    const RGBA8: u32 = texture::FORMAT.as_raw().unsigned_abs();

    const BC7: Option<u32> = Some(vk::Format::BC7_UNORM_BLOCK.as_raw().unsigned_abs());

    const TARGETS: TargetFormats = TargetFormats {
        r8: vk::Format::R8_UNORM.as_raw().unsigned_abs(),
        rgba8: Self::RGBA8,
        rgba16f: vk::Format::R16G16B16A16_SFLOAT.as_raw().unsigned_abs(),
        r32f: vk::Format::R32_SFLOAT.as_raw().unsigned_abs(),
        depth: vk::Format::D32_SFLOAT.as_raw().unsigned_abs(),
        color_usage: vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw() as u64,
        depth_usage: vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw() as u64,
    };

    fn new(device: &Device, capacity: u32) -> Result<Self, DeviceError> {
        let first = device.descriptor_types().first();
        if !device.enabled().contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS)
            || first != Some(&vk::DescriptorType::STORAGE_BUFFER)
        {
            return Err(DeviceError::Unsupported);
        }
        let made = Self { device: device.clone(), programs: Mutex::default(), used: Mutex::default() };
        made.program(Shader::Read, capacity, None)?;
        Ok(made)
    }

    fn buffer_info(&self, size: u64, _: bool) -> BufferInfo<'static> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        BufferDesc::new(size).with_usage(usage.as_raw().into()).into()
    }

    fn texture_view_info() -> ImageViewDesc {
        ImageViewDesc { layout: Self::SAMPLED, ..ImageViewDesc::sampled(texture::FORMAT) }
    }

    unsafe fn texture_view(&self, image: &vk::Image) -> Result<TextureView, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { TextureView::new(&self.device, *image) }
    }

    unsafe fn texture_descriptor<'a>(_: &'a vk::Image, view: &'a TextureView) -> Descriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { Descriptor::sampled_image(view.handle(), Self::SAMPLED) }
    }

    unsafe fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        reads: &[Read<'_, Device>],
    ) -> Result<TimelineValue, DeviceError> {
        let record = |commands| reads.iter().try_for_each(|read| self.record_read(commands, read));
        // SAFETY: the caller's promise.
        unsafe { self.run(queue, waits, record) }
    }

    unsafe fn sample(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        sample: &Sample<'_, Device>,
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.run(queue, waits, |commands| self.record_sample(commands, sample)) }
    }

    unsafe fn sample_list(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        list: &SampleList<'_, Device>,
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.run(queue, waits, |commands| self.record_sample_list(commands, list)) }
    }
}

impl Drop for VulkanReader {
    fn drop(&mut self) {
        for (point, memory) in locked(&self.used).drain(..) {
            match self.device.wait(point, LAST_WAIT) {
                Ok(()) | Err(DeviceError::Lost) => drop(memory),
                // Leaked rather than destroyed while a queue may still use them.
                Err(_) => core::mem::forget(memory),
            }
        }
        for program in locked(&self.programs).drain(..) {
            // SAFETY: created by this reader, whose work is complete.
            unsafe { program.destroy(&self.device) };
        }
    }
}

/// Locks the list. It is intact even if a thread panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A compute shader fills buffers that share blocks of memory, and the CPU checks every number.
//!
//! `cargo run --example vulkan_compute -p allotment-examples`; `ALLOTMENT_VULKAN` names a device by a part of its name.
//! The shader is `fill.comp`, which has the command that compiled it to `fill.spv`.

use core::error::Error;
use std::io::Cursor;

use allotment::device::{BufferDesc, MemoryHandle as _, QueueIndex, vulkan};
use allotment::memory::{RawBuffer, Transfer};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};
use allotment_headless::DeviceChoice;
use allotment_headless::vulkan::{Headless, HeadlessDesc};
use ash::vk;

/// How many numbers each buffer has: around the size of a work group, and around one of a page.
const COUNTS: [u32; 12] = [1, 63, 64, 65, 1000, 1024, 4096, 10_007, 65_536, 100_000, 262_144, 1_000_003];

const GROUP: u32 = 64;

/// The value that the shader computes.
fn expected(seed: u32, i: u32) -> u32 {
    let x = (i ^ seed).wrapping_mul(0x9e37_79b1);
    x ^ (x >> 15)
}

fn main() -> Result<(), Box<dyn Error>> {
    let choice = std::env::var("ALLOTMENT_VULKAN").map_or(DeviceChoice::Best, DeviceChoice::Named);
    let headless = Headless::open(&HeadlessDesc::default().with_device(choice))?;
    println!("device: {}", headless.name());
    let allocator = Allocator::new(headless.device().clone(), AllocatorDesc::default())?;

    let usage = vk::BufferUsageFlags::STORAGE_BUFFER.as_raw().into();
    let wanted = AllocationOptions::new(MemoryUsage::GpuOnly).with_category("numbers");
    let mut buffers: Vec<(RawBuffer<vulkan::Device>, u32)> = Vec::new();
    for count in COUNTS {
        let info = BufferDesc::new(u64::from(count) * 4).with_usage(usage).into();
        buffers.push((
            allocator.create_buffer(&info, &wanted.clone().with_name(format!("{count} numbers")))?,
            count,
        ));
    }
    for (buffer, count) in &buffers {
        let place = allocator.location(buffer.allocation())?;
        println!(
            "{count:>9} numbers in memory {:#x}, type {}, from byte {}",
            place.memory.to_raw(),
            place.memory_type,
            place.offset
        );
    }

    let fill = Fill::new(headless.raw(), headless.queue_families()[0], buffers.len())?;
    for (seed, (buffer, count)) in (1..).zip(&buffers) {
        fill.record(*buffer.handle(), seed, *count)?;
    }
    fill.run(headless.device())?;

    let mut wrong = 0;
    let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 20)?;
    for (seed, (buffer, count)) in (1..).zip(&buffers) {
        let mut bytes = vec![0; *count as usize * 4];
        transfer.download_from(buffer, 0, &mut bytes)?;
        let numbers = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        wrong += (0..).zip(numbers).filter(|&(i, number)| number != expected(seed, i)).count();
    }
    drop(transfer);
    drop(fill);
    let statistics = allocator.statistics();
    println!("{} buffers in {} memory objects", buffers.len(), statistics.blocks);
    for (buffer, _) in buffers {
        allocator.destroy_buffer(buffer)?;
    }
    let all: u64 = COUNTS.iter().map(|&count| u64::from(count)).sum();
    if wrong > 0 {
        return Err(format!("{wrong} of {all} numbers are wrong").into());
    }
    println!("all {all} numbers are right");
    Ok(())
}

/// The shader, and commands that run it over one buffer after the other.
struct Fill {
    device: ash::Device,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    descriptors: vk::DescriptorPool,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
}

impl Fill {
    /// Commands for `sets` buffers, on a queue of `family`. (A program that runs for longer would also give
    /// back what it made when something in between fails.)
    fn new(device: &ash::Device, family: u32, sets: usize) -> Result<Self, Box<dyn Error>> {
        let sets = u32::try_from(sets)?;
        let code = ash::util::read_spv(&mut Cursor::new(include_bytes!("fill.spv")))?;
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: what glslangValidator made.
        let module = unsafe { device.create_shader_module(&info, None) }?;

        let binding = [vk::DescriptorSetLayoutBinding::default()
            .binding(0)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
        // SAFETY: a valid description, as are those below.
        let set_layout = unsafe { device.create_descriptor_set_layout(&info, None) }?;
        let constants = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(8)];
        let set_layouts = [set_layout];
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&set_layouts)
            .push_constant_ranges(&constants);
        // SAFETY: as above.
        let layout = unsafe { device.create_pipeline_layout(&info, None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        // SAFETY: as above.
        let made = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        let pipeline = made.map_err(|(_, error)| error)?[0];
        // SAFETY: the pipeline is made, and needs the module no more.
        unsafe { device.destroy_shader_module(module, None) };

        let sizes =
            [vk::DescriptorPoolSize::default().ty(vk::DescriptorType::STORAGE_BUFFER).descriptor_count(sets)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: as above.
        let descriptors = unsafe { device.create_descriptor_pool(&info, None) }?;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: as above.
        let pool = unsafe { device.create_command_pool(&info, None) }?;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: as above.
        let commands = unsafe { device.allocate_command_buffers(&info) }?[0];
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: new.
        unsafe { device.begin_command_buffer(commands, &info) }?;
        // SAFETY: the buffer is being recorded.
        unsafe { device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline) };
        let device = device.clone();
        Ok(Self { device, set_layout, layout, pipeline, descriptors, pool, commands })
    }

    /// Fills `count` numbers of a buffer.
    fn record(&self, buffer: vk::Buffer, seed: u32, count: u32) -> Result<(), vk::Result> {
        let layouts = [self.set_layout];
        let info =
            vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.descriptors).set_layouts(&layouts);
        // SAFETY: the pool has room for a set for each buffer.
        let sets = unsafe { self.device.allocate_descriptor_sets(&info) }?;
        let range = [vk::DescriptorBufferInfo::default().buffer(buffer).range(vk::WHOLE_SIZE)];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(sets[0])
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(&range);
        // SAFETY: set and buffer are live, and no queue uses the set yet.
        unsafe { self.device.update_descriptor_sets(&[write], &[]) };
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the commands are being recorded.
        unsafe { self.device.cmd_bind_descriptor_sets(self.commands, point, self.layout, 0, &sets, &[]) };
        let mut constants = [0; 8];
        constants[..4].copy_from_slice(&seed.to_ne_bytes());
        constants[4..].copy_from_slice(&count.to_ne_bytes());
        let stage = vk::ShaderStageFlags::COMPUTE;
        // SAFETY: as above; the layout has eight bytes of constants.
        unsafe { self.device.cmd_push_constants(self.commands, self.layout, stage, 0, &constants) };
        // SAFETY: as above; the shader looks at `count` before it writes.
        unsafe { self.device.cmd_dispatch(self.commands, count.div_ceil(GROUP), 1, 1) };
        Ok(())
    }

    /// Runs what was recorded, and waits for it.
    fn run(&self, device: &vulkan::Device) -> Result<(), Box<dyn Error>> {
        // What shaders wrote is read by copies, and by the CPU.
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::HOST_READ);
        let (from, to) = (
            vk::PipelineStageFlags::COMPUTE_SHADER,
            vk::PipelineStageFlags::TRANSFER | vk::PipelineStageFlags::HOST,
        );
        let none = vk::DependencyFlags::empty();
        // SAFETY: the commands are being recorded.
        unsafe { self.device.cmd_pipeline_barrier(self.commands, from, to, none, &[barrier], &[], &[]) };
        // SAFETY: as above.
        unsafe { self.device.end_command_buffer(self.commands) }?;
        let commands = [self.commands];
        let info = vk::SubmitInfo::default().command_buffers(&commands);
        let queue = device.lock_queue(QueueIndex(0)).ok_or("there is no queue")?;
        // SAFETY: the queue is locked, and all that the commands use lives until the wait below is over.
        unsafe { self.device.queue_submit(*queue, &[info], vk::Fence::null()) }?;
        // SAFETY: as above.
        unsafe { self.device.queue_wait_idle(*queue) }?;
        Ok(())
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        // SAFETY: `run` has waited, or nothing was ever submitted; each is destroyed once.
        unsafe { self.device.destroy_command_pool(self.pool, None) };
        // SAFETY: as above.
        unsafe { self.device.destroy_descriptor_pool(self.descriptors, None) };
        // SAFETY: as above.
        unsafe { self.device.destroy_pipeline(self.pipeline, None) };
        // SAFETY: as above.
        unsafe { self.device.destroy_pipeline_layout(self.layout, None) };
        // SAFETY: as above.
        unsafe { self.device.destroy_descriptor_set_layout(self.set_layout, None) };
    }
}

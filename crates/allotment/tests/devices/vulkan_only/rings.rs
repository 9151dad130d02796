//! Ranges of rings and pools are bound as their documentation says, without a message of the validation layer.

use core::time::Duration;
use std::sync::Arc;

use allotment::device::CommandDevice as _;
use allotment::device::QueueIndex;
use allotment::device::vulkan::Device;
use allotment::lifetime::SubmissionTracker;
use allotment::memory::reports::LeakHandler;
use allotment::upload::{RingDesc, RingError, UploadPool, UploadPoolDesc, UploadRing, WaitFor};
use allotment::{Alignment, Allocator, AllocatorDesc, MemoryUsage};
use ash::vk;

use super::Vulkan;
use crate::fixture::{Outcome, Test, tests};
use crate::kinds::vulkan::VulkanFixture;

pub(super) fn all() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        slices_of_a_ring_are_bound_as_constants_frame_after_frame,
        slices_of_an_arena_are_bound_as_constants,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);
const PATIENCE: Duration = Duration::from_secs(20);
const CONSTANTS: u64 = 256;
const UNIFORM: vk::BufferUsageFlags = vk::BufferUsageFlags::UNIFORM_BUFFER;

fn allocator(gpu: &Vulkan) -> Arc<Allocator<Device>> {
    let mut desc = AllocatorDesc::default();
    desc.on_leak = LeakHandler::Ignore;
    Arc::new(Allocator::new(gpu.device().clone(), desc).unwrap())
}

/// Sets of one dynamic uniform buffer, and a pipeline layout to bind them with.
struct Binder<'g> {
    gpu: &'g Vulkan,
    layout: vk::DescriptorSetLayout,
    pool: vk::DescriptorPool,
    pipeline: vk::PipelineLayout,
}

impl<'g> Binder<'g> {
    fn new(gpu: &'g Vulkan) -> Self {
        let raw = gpu.device().raw();
        let kind = vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC;
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(kind)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: a valid description.
        let layout = unsafe { raw.create_descriptor_set_layout(&info, None) }.unwrap();
        let sizes = [vk::DescriptorPoolSize { ty: kind, descriptor_count: 100 }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(100).pool_sizes(&sizes);
        // SAFETY: a valid description.
        let pool = unsafe { raw.create_descriptor_pool(&info, None) }.unwrap();
        let layouts = [layout];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        // SAFETY: a valid description.
        let pipeline = unsafe { raw.create_pipeline_layout(&info, None) }.unwrap();
        Self { gpu, layout, pool, pipeline }
    }

    /// A set of the first constants of a buffer; others are reached by a dynamic offset.
    fn set(&self, buffer: vk::Buffer) -> vk::DescriptorSet {
        let raw = self.gpu.device().raw();
        let layouts = [self.layout];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pool).set_layouts(&layouts);
        // SAFETY: the pool has room.
        let set = unsafe { raw.allocate_descriptor_sets(&info) }.unwrap()[0];
        let range = [vk::DescriptorBufferInfo { buffer, offset: 0, range: CONSTANTS }];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC)
            .buffer_info(&range);
        // SAFETY: all is live, and nothing uses the set yet.
        unsafe { raw.update_descriptor_sets(&[write], &[]) };
        set
    }

    /// Records a binding of a set.
    fn record(&self, commands: vk::CommandBuffer, set: vk::DescriptorSet, offset: u64) {
        let raw = self.gpu.device().raw();
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: new, or reset.
        unsafe { raw.begin_command_buffer(commands, &begin) }.unwrap();
        let offset = u32::try_from(offset).unwrap();
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the set is of the layout, and its buffer has as many bytes behind the offset.
        unsafe { raw.cmd_bind_descriptor_sets(commands, point, self.pipeline, 0, &[set], &[offset]) };
        // SAFETY: the commands are being recorded.
        unsafe { raw.end_command_buffer(commands) }.unwrap();
    }
}

impl Drop for Binder<'_> {
    fn drop(&mut self) {
        let raw = self.gpu.device().raw();
        // SAFETY: the tests wait for the queue.
        unsafe { raw.destroy_pipeline_layout(self.pipeline, None) };
        // SAFETY: as above.
        unsafe { raw.destroy_descriptor_pool(self.pool, None) };
        // SAFETY: as above.
        unsafe { raw.destroy_descriptor_set_layout(self.layout, None) };
    }
}

fn slices_of_a_ring_are_bound_as_constants_frame_after_frame(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    let tracker = SubmissionTracker::new(gpu.device().clone()).unwrap();
    for memory_usage in [MemoryUsage::Upload, MemoryUsage::DeviceUpload] {
        let binder = Binder::new(gpu);
        let memory = gpu.device().create_command_allocator(FIRST).unwrap();
        let desc = RingDesc::upload(8 * CONSTANTS)
            .with_usage(UNIFORM.as_raw().into())
            .with_memory_usage(memory_usage);
        let mut ring = UploadRing::new(&allocator, &tracker, &desc).unwrap();
        let set = binder.set(*ring.buffer());
        for frame in 0..60 {
            let offset = loop {
                match ring.allocate(CONSTANTS, Alignment::new(CONSTANTS).unwrap()) {
                    Ok(mut constants) => {
                        constants.write(0, &[frame; CONSTANTS as usize]).unwrap();
                        break constants.offset();
                    }
                    Err(RingError::FullForNow { wait: WaitFor::Point(point), .. }) => {
                        assert_eq!(tracker.wait(point, PATIENCE), Ok(()));
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            let recording = tracker.record("a frame");
            let commands = memory.next().unwrap();
            binder.record(commands, set, offset);
            let submitted = recording.submit(FIRST, |queue| {
                // SAFETY: recorded for the queue; the test waits before it gives anything back.
                unsafe { gpu.device().submit_commands(queue, &[], &[commands]) }
            });
            ring.close(submitted.unwrap());
        }
        assert_eq!(tracker.wait_idle(PATIENCE), Ok(()));
    }
}

fn slices_of_an_arena_are_bound_as_constants(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    let tracker = SubmissionTracker::new(gpu.device().clone()).unwrap();
    let binder = Binder::new(gpu);
    let memory = gpu.device().create_command_allocator(FIRST).unwrap();
    let desc = UploadPoolDesc::default().with_page_size(4 * CONSTANTS).with_usage(UNIFORM.as_raw().into());
    let pool = UploadPool::new(&allocator, &tracker, desc).unwrap();
    for frame in 0..4 {
        let recording = tracker.record("a frame");
        let mut arena = pool.arena(recording.id());
        for _ in 0..6 {
            let mut constants = arena.allocate(CONSTANTS, Alignment::new(CONSTANTS).unwrap()).unwrap();
            constants.write(0, &[frame; CONSTANTS as usize]).unwrap();
            let (buffer, offset) = (*constants.buffer(), constants.offset());
            let commands = memory.next().unwrap();
            binder.record(commands, binder.set(buffer), offset);
            // SAFETY: recorded for the queue; the test waits before it gives anything back.
            unsafe { gpu.device().submit_commands(FIRST, &[], &[commands]) }.unwrap();
        }
        drop((arena, recording));
        assert_eq!(tracker.wait_idle(PATIENCE), Ok(()));
    }
}

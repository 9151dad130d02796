//! Commands of the application's own, which the queue's timeline counts.

use core::time::Duration;

use allotment::device::vulkan::CommandAllocator;
use allotment::device::{
    CommandAllocator as _, CommandDevice as _, DeviceError, QueueDevice as _, QueueIndex, TimelinePoint,
    TimelineValue,
};
use ash::vk;

use super::Vulkan;
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Buffer, copy};
use crate::kinds::vulkan::VulkanFixture;

pub(super) fn all() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        commands_of_the_application_are_counted_and_waited_for,
        commands_wait_for_points_of_other_queues,
        a_submission_without_commands_reaches_its_value,
        commands_that_would_wait_for_themselves_are_refused,
        what_the_application_submits_to_a_locked_queue_is_counted,
        command_memory_hands_out_the_same_buffers_after_a_reset,
        command_memory_outlives_what_opened_the_device,
        there_is_no_command_memory_for_a_queue_that_does_not_exist,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

/// Records a fill of a buffer with a word, seen by later commands and by the CPU.
fn fill(
    gpu: &Vulkan,
    memory: &mut CommandAllocator,
    to: &Buffer<'_, VulkanFixture>,
    word: u32,
) -> vk::CommandBuffer {
    let raw = gpu.device().raw();
    let commands = memory.next().unwrap();
    let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
    // SAFETY: new, or reset.
    unsafe { raw.begin_command_buffer(commands, &begin) }.unwrap();
    let transfer = vk::PipelineStageFlags::TRANSFER;
    let copied = vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE;
    let written = vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::TRANSFER_WRITE);
    let (before, none) = ([written.dst_access_mask(copied)], vk::DependencyFlags::empty());
    // SAFETY: the commands are being recorded.
    unsafe { raw.cmd_pipeline_barrier(commands, transfer, transfer, none, &before, &[], &[]) };
    // SAFETY: as above; the buffer is live, and its size a multiple of 4.
    unsafe { raw.cmd_fill_buffer(commands, *to.raw(), 0, vk::WHOLE_SIZE, word) };
    let after = [written.dst_access_mask(copied | vk::AccessFlags::HOST_READ)];
    let seen_by = transfer | vk::PipelineStageFlags::HOST;
    // SAFETY: as above.
    unsafe { raw.cmd_pipeline_barrier(commands, transfer, seen_by, none, &after, &[], &[]) };
    // SAFETY: as above.
    unsafe { raw.end_command_buffer(commands) }.unwrap();
    commands
}

/// Submits recorded commands, whose buffers and memory the test keeps until they are done.
fn submit(
    gpu: &Vulkan,
    queue: QueueIndex,
    waits: &[TimelinePoint],
    commands: &[vk::CommandBuffer],
) -> Result<TimelinePoint, DeviceError> {
    // SAFETY: recorded for the queue; the test waits before it gives anything back.
    let value = unsafe { gpu.device().submit_commands(queue, waits, commands) }?;
    assert_eq!(gpu.device().submitted(queue), value);
    Ok(TimelinePoint { queue, value })
}

fn words(word: u32, bytes: usize) -> Vec<u8> {
    word.to_ne_bytes().into_iter().cycle().take(bytes).collect()
}

fn commands_of_the_application_are_counted_and_waited_for(gpu: &Vulkan) {
    for queue in gpu.queues() {
        let mut memory = gpu.device().create_command_allocator(queue).unwrap();
        let [from, to] = [(); 2].map(|()| gpu.buffer(gpu.two_way_type(), 4096));
        let before = gpu.device().submitted(queue).0;
        // By turns with copies of the device, each after the other.
        let mut last = None;
        for round in 0..40 {
            let commands = [fill(gpu, &mut memory, &from, round), fill(gpu, &mut memory, &to, !round)];
            let filled = submit(gpu, queue, last.as_slice(), &commands).unwrap();
            let copied = gpu.submit(queue, &[filled], &[copy(&from, 0, &to, 0, 2048)]);
            assert_eq!(filled.value.0, before + 2 * u64::from(round) + 1);
            assert_eq!(copied.value.0, filled.value.0 + 1);
            last = Some(copied);
        }
        gpu.wait(last.unwrap());
        assert_same(&gpu.get(&to), &[words(39, 2048), words(!39, 2048)].concat(), queue);
    }
}

fn commands_wait_for_points_of_other_queues(gpu: &Vulkan) -> Outcome {
    let Some(other) = gpu.queues().nth(1) else {
        return Outcome::DoesNotApply("the device has one queue");
    };
    let mut memory = gpu.device().create_command_allocator(FIRST).unwrap();
    let to = gpu.buffer(gpu.two_way_type(), 256);
    let awaited = TimelinePoint { queue: other, value: TimelineValue(gpu.device().submitted(other).0 + 1) };
    let filled = submit(gpu, FIRST, &[awaited], &[fill(gpu, &mut memory, &to, 7)]).unwrap();
    let soon = Duration::from_millis(20);
    assert!(
        gpu.device().wait(filled, soon).is_err_and(DeviceError::is_timeout),
        "what it waits for was not submitted"
    );
    assert_eq!(gpu.submit(other, &[], &[]), awaited);
    gpu.wait(filled);
    assert_same(&gpu.get(&to), &words(7, 256), "filled in the end");
    Outcome::Ran
}

fn a_submission_without_commands_reaches_its_value(gpu: &Vulkan) {
    for queue in gpu.queues() {
        for value in 1..=3 {
            let point = submit(gpu, queue, &[], &[]).unwrap();
            assert_eq!(point.value, TimelineValue(value));
            gpu.wait(point);
        }
    }
}

fn commands_that_would_wait_for_themselves_are_refused(gpu: &Vulkan) {
    for bad in [(FIRST, 1), (FIRST, u64::MAX), (QueueIndex(u8::MAX), 1)] {
        let point = TimelinePoint { queue: bad.0, value: TimelineValue(bad.1) };
        let why = match bad.0 {
            FIRST => DeviceError::WaitsForItself { point },
            queue => DeviceError::NoSuchQueue { queue },
        };
        assert_eq!(submit(gpu, FIRST, &[point], &[]), Err(why));
    }
    assert!(submit(gpu, QueueIndex(u8::MAX), &[], &[]).is_err());
    assert_eq!(gpu.device().submitted(FIRST), TimelineValue(0));
}

fn what_the_application_submits_to_a_locked_queue_is_counted(gpu: &Vulkan) {
    for index in gpu.queues() {
        let mut memory = gpu.device().create_command_allocator(index).unwrap();
        let to = gpu.buffer(gpu.two_way_type(), 4096);
        gpu.put(&to, 0, &pattern(1, 4096));
        let commands = [fill(gpu, &mut memory, &to, 9)];
        let queue = gpu.device().lock_queue(index).unwrap();
        let next = queue.next_value();
        assert_eq!(next.0, gpu.device().submitted(index).0 + 1, "seen while the queue is held");
        let (semaphores, values) = ([gpu.device().timeline(index).unwrap()], [next.0]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&semaphores)
            .push_next(&mut timeline);
        // SAFETY: the queue is locked, and what the commands use lives until the wait below is over.
        unsafe { gpu.device().raw().queue_submit(*queue, &[info], vk::Fence::null()) }.unwrap();
        // SAFETY: this work signals that value, as the line above says.
        assert_eq!(unsafe { queue.submitted() }, next);
        assert_eq!(gpu.device().submitted(index), next);
        let point = TimelinePoint { queue: index, value: next };
        gpu.wait(point);
        assert_eq!(gpu.completed(index), next);
        assert_same(&gpu.get(&to), &words(9, 4096), index);
        // A queue that was held and not used goes on where it was.
        let now = gpu.device().submitted(index).0;
        drop(gpu.device().lock_queue(index).unwrap());
        assert_eq!(gpu.submit(index, &[point], &[]).value.0, now + 1);
    }
}

fn command_memory_hands_out_the_same_buffers_after_a_reset(gpu: &Vulkan) {
    let mut memory = gpu.device().create_command_allocator(FIRST).unwrap();
    let to = gpu.buffer(gpu.two_way_type(), 64);
    let first: Vec<_> = (0..5).map(|word| fill(gpu, &mut memory, &to, word)).collect();
    let mut different = first.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), first.len());
    for commands in &first {
        gpu.wait(submit(gpu, FIRST, &[], &[*commands]).unwrap());
    }
    assert_same(&gpu.get(&to), &words(4, 64), "the last of them");
    memory.reset().unwrap();
    let again: Vec<_> = (0..7).map(|word| fill(gpu, &mut memory, &to, 10 + word)).collect();
    assert_eq!(again[..5], first, "used again, and two more");
    gpu.wait(submit(gpu, FIRST, &[], &again).unwrap());
    assert_same(&gpu.get(&to), &words(16, 64), "in their order");
    // Nothing was recorded since; a reset of what is new is no mistake.
    memory.reset().unwrap();
    memory.reset().unwrap();
}

fn command_memory_outlives_what_opened_the_device(gpu: &Vulkan) {
    let desc = allotment_headless::vulkan::HeadlessDesc::default();
    let name = gpu.fixture().headless().name().to_owned();
    let headless = allotment_headless::vulkan::Headless::open(
        &desc.with_device(allotment_headless::DeviceChoice::Named(name)).with_validation(),
    );
    // A machine without the layer has told so already.
    let Ok(headless) = headless else { return };
    let messages = headless.messages().clone();
    let mut memory = headless.device().create_command_allocator(FIRST).unwrap();
    drop(headless);
    memory.next().unwrap();
    memory.reset().unwrap();
    drop(memory);
    let errors: Vec<_> =
        messages.take().into_iter().filter(|m| m.severity == allotment_headless::Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

fn there_is_no_command_memory_for_a_queue_that_does_not_exist(gpu: &Vulkan) {
    for queue in [gpu.properties().queues.len() as u8, u8::MAX].map(QueueIndex) {
        let refused = gpu.device().create_command_allocator(queue);
        assert_eq!(refused.err(), Some(DeviceError::NoSuchQueue { queue }));
    }
}

//! Command lists of the application's own, which the queue's timeline counts.

use allotment::device::d3d12::CommandAllocator;
use allotment::device::{
    CommandAllocator as _, CommandDevice as _, CopyDirection, CopyError, DeviceError, ImageAspect, ImageCopy,
    ImageDesc, QueueDevice as _, QueueIndex, QueueKind, Submission, TexelBlock, TimelinePoint, TimelineValue,
};
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface as _;

use super::D3d12;
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Buffer, copy};
use crate::kinds::d3d12::D3d12Fixture;

pub(super) fn all() -> Vec<Test<D3d12Fixture>> {
    tests![D3d12Fixture:
        lists_of_the_application_are_counted_and_waited_for,
        a_submission_without_lists_reaches_its_value,
        lists_that_would_wait_for_themselves_are_refused,
        command_memory_hands_out_the_same_lists_after_a_reset,
        there_is_no_command_memory_for_a_queue_that_does_not_exist,
        texels_off_their_alignment_are_refused,
        images_are_in_no_other_state_than_common_on_a_queue_for_copies,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

/// Records a copy of all bytes of a buffer.
fn record(
    memory: &mut CommandAllocator,
    from: &Buffer<'_, D3d12Fixture>,
    to: &Buffer<'_, D3d12Fixture>,
    size: u64,
) -> Option<ID3D12CommandList> {
    let list = memory.next().unwrap();
    // SAFETY: the list is open, and the buffers have that many bytes.
    unsafe { list.CopyBufferRegion(to.raw(), 0, from.raw(), 0, size) };
    // SAFETY: the list is open.
    unsafe { list.Close() }.unwrap();
    Some(list.cast().unwrap())
}

/// Submits closed lists, whose buffers and memory the test keeps until they are done.
fn submit(
    gpu: &D3d12,
    queue: QueueIndex,
    waits: &[TimelinePoint],
    lists: &[Option<ID3D12CommandList>],
) -> Result<TimelinePoint, DeviceError> {
    // SAFETY: recorded for the queue; the test waits before it gives anything back.
    let value = unsafe { gpu.device().submit_lists(queue, waits, lists) }?;
    assert_eq!(gpu.device().submitted(queue), value);
    Ok(TimelinePoint { queue, value })
}

fn lists_of_the_application_are_counted_and_waited_for(gpu: &D3d12) {
    const SIZE: u64 = 4096;
    for queue in gpu.queues() {
        let mut memory = gpu.device().create_command_allocator(queue).unwrap();
        let [from, between, to] = [(); 3].map(|()| gpu.buffer(gpu.two_way_type(), SIZE));
        // By turns with copies of the device, each after the other.
        for round in 0..20 {
            gpu.put(&from, 0, &pattern(round, SIZE));
            let value = gpu.device().submitted(queue).0;
            let recorded = record(&mut memory, &from, &between, SIZE);
            let copied = submit(gpu, queue, &[], &[recorded]).unwrap();
            let last = gpu.submit(queue, &[copied], &[copy(&between, 0, &to, 0, SIZE)]);
            assert_eq!((copied.value.0, last.value.0), (value + 1, value + 2));
            gpu.wait(last);
            assert_same(&gpu.get(&to), &pattern(round, SIZE), (queue, round));
        }
    }
}

fn a_submission_without_lists_reaches_its_value(gpu: &D3d12) {
    for queue in gpu.queues() {
        for value in 1..=3 {
            let point = submit(gpu, queue, &[], &[]).unwrap();
            assert_eq!(point.value, TimelineValue(value));
            gpu.wait(point);
        }
    }
}

fn lists_that_would_wait_for_themselves_are_refused(gpu: &D3d12) {
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

fn command_memory_hands_out_the_same_lists_after_a_reset(gpu: &D3d12) {
    let mut memory = gpu.device().create_command_allocator(FIRST).unwrap();
    let buffers: Vec<_> = (0..6).map(|_| gpu.buffer(gpu.two_way_type(), 256)).collect();
    gpu.put(&buffers[0], 0, &pattern(1, 256));
    // One submission of several lists, again and again.
    let mut first = Vec::new();
    for round in 1..=3 {
        gpu.put(&buffers[0], 0, &pattern(round, 256));
        let lists: Vec<_> = buffers[1..].iter().map(|to| record(&mut memory, &buffers[0], to, 256)).collect();
        gpu.wait(submit(gpu, FIRST, &[], &lists).unwrap());
        for to in &buffers {
            assert_same(&gpu.get(to), &pattern(round, 256), round);
        }
        if round == 1 {
            first = lists;
        } else {
            assert_eq!(lists, first, "used again, in their order");
        }
        memory.reset().unwrap();
    }
}

fn there_is_no_command_memory_for_a_queue_that_does_not_exist(gpu: &D3d12) {
    for queue in [gpu.properties().queues.len() as u8, u8::MAX].map(QueueIndex) {
        let refused = gpu.device().create_command_allocator(queue);
        assert_eq!(refused.err(), Some(DeviceError::NoSuchQueue { queue }));
    }
}

/// An image of 16 × 16 texels with a buffer, and what a copy of all of it is.
fn with_a_copy(gpu: &D3d12, test: impl FnOnce(ImageCopy<'_, allotment::device::d3d12::Device>)) {
    let format = crate::fixture::Fixture::image_format(gpu.fixture());
    let (buffer, image) = (gpu.buffer(gpu.upload_type(), 1 << 16), gpu.image(ImageDesc::new(16, 16, format)));
    test(ImageCopy {
        buffer: buffer.raw(),
        buffer_offset: 0,
        row_pitch: 256,
        rows: 16,
        image: image.raw(),
        mip_level: 0,
        array_layer: 0,
        origin: [0; 3],
        extent: [16, 16, 1],
        aspect: ImageAspect::Color,
        texels: TexelBlock::new(4).into(),
        direction: CopyDirection::IntoImage,
        before: D3D12_RESOURCE_STATE_COMMON,
        after: D3D12_RESOURCE_STATE_COMMON,
    });
}

fn try_images(
    gpu: &D3d12,
    queue: QueueIndex,
    copy: ImageCopy<'_, allotment::device::d3d12::Device>,
) -> Result<(), DeviceError> {
    let image_copies = [copy];
    let submission = Submission { image_copies: &image_copies, ..Submission::default() };
    gpu.try_submit_all(queue, &submission).map(|point| gpu.wait(point))
}

fn texels_off_their_alignment_are_refused(gpu: &D3d12) {
    with_a_copy(gpu, |good| {
        assert_eq!(try_images(gpu, FIRST, good), Ok(()));
        let rows = |row_pitch| CopyError::Rows { row_pitch, rows: good.rows }.into();
        for (bad, why) in [
            (
                ImageCopy { buffer_offset: 256, ..good },
                DeviceError::Misaligned { offset: 256, alignment: 512 },
            ),
            (ImageCopy { row_pitch: 128, ..good }, rows(128)),
            (ImageCopy { row_pitch: 300, ..good }, rows(300)),
            (ImageCopy { row_pitch: 1 << 32, ..good }, rows(1 << 32)),
            (ImageCopy { texels: TexelBlock::new(0).into(), ..good }, CopyError::WrongTexel.into()),
        ] {
            assert_eq!(try_images(gpu, FIRST, bad), Err(why), "{bad:?}");
        }
    });
}

fn images_are_in_no_other_state_than_common_on_a_queue_for_copies(gpu: &D3d12) -> Outcome {
    let mut queues = gpu.queues();
    let kind = |queue: &QueueIndex| gpu.properties().queues[usize::from(queue.0)];
    let Some(queue) = queues.find(|queue| kind(queue) == QueueKind::Transfer) else {
        return Outcome::DoesNotApply("the device has no queue for copies alone");
    };
    with_a_copy(gpu, |good| {
        assert_eq!(try_images(gpu, queue, good), Ok(()));
        let bad = ImageCopy { after: D3D12_RESOURCE_STATE_COPY_SOURCE, ..good };
        assert_eq!(try_images(gpu, queue, bad), Err(CopyError::States.into()));
        assert_eq!(try_images(gpu, FIRST, bad), Ok(()));
        let back = ImageCopy { before: D3D12_RESOURCE_STATE_COPY_SOURCE, ..good };
        assert_eq!(try_images(gpu, FIRST, back), Ok(()));
    });
    Outcome::Ran
}

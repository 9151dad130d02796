//! Copies of whole images that begin in states of their own, and what Direct3D 12 does not copy so.

use allotment::device::d3d12::{Device, ResourceInfo};
use allotment::device::{
    BufferDesc, BufferDevice as _, CopyDirection, CopyError, DeviceError, FullImageCopy, ImageAspect,
    ImageDesc, ImageDevice as _, QueueIndex, QueueKind, Submission, TexelBlock, TransferUsage,
};
use allotment::memory::Dedicated;
use allotment::{Allocator, MemoryUsage};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use super::{D3d12, allocator, texture, wanted};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture as _, Outcome, Test, tests};
use crate::gpu::TexelCopy;
use crate::kinds::d3d12::D3d12Fixture;

pub(super) fn all() -> Vec<Test<D3d12Fixture>> {
    tests![D3d12Fixture:
        a_target_is_copied_whole_whatever_state_it_begins_in,
        depth_and_several_samples_are_copied_whole,
        whole_images_are_in_no_other_state_than_common_on_a_queue_for_copies,
        what_copy_resource_does_not_take_is_not_moved,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

const COMMON: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COMMON;
const TARGET: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_RENDER_TARGET;

fn try_whole(
    gpu: &D3d12,
    queue: QueueIndex,
    from: &ID3D12Resource,
    to: &ID3D12Resource,
    info: &ResourceInfo<'static>,
    [before, after]: [D3D12_RESOURCE_STATES; 2],
) -> Result<(), DeviceError> {
    let full_images = [FullImageCopy::<Device> { from, to, info, before, after }];
    let work = Submission { full_images: &full_images, ..Submission::default() };
    gpu.try_submit_all(queue, &work).map(|point| gpu.wait(point))
}

/// Creates images with dedicated memory and placed images, and destroys them again.
fn with_images(
    gpu: &D3d12,
    info: &ResourceInfo<'static>,
    test: impl FnOnce([&ID3D12Resource; 2], [&ID3D12Resource; 2]),
) {
    let allocator: Allocator<Device> = allocator(gpu);
    let make = |dedicated| {
        allocator.create_image(info, &wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated)).unwrap()
    };
    let committed = [(); 2].map(|()| make(Dedicated::Always));
    let placed = [(); 2].map(|()| make(Dedicated::Never));
    test(committed.each_ref().map(|image| image.handle()), placed.each_ref().map(|image| image.handle()));
    for image in committed.into_iter().chain(placed) {
        allocator.destroy_image(image).unwrap();
    }
}

fn a_target_is_copied_whole_whatever_state_it_begins_in(gpu: &D3d12) {
    let size = 64 * 64 * 4;
    let up = gpu.buffer(gpu.upload_type(), size);
    let down = gpu.buffer(gpu.readback_type(), size);
    gpu.put(&up, 0, &pattern(1, size));
    let target = texture(64, 64, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET);
    let info = ResourceInfo::new(target).with_initial_state(TARGET);
    with_images(gpu, &info, |committed, placed| {
        let texels = |image, direction, states: [D3D12_RESOURCE_STATES; 2]| TexelCopy::<D3d12Fixture> {
            buffer: if direction == CopyDirection::IntoImage { up.raw() } else { down.raw() },
            buffer_offset: 0,
            row_pitch: 256,
            rows: 64,
            image,
            mip_level: 0,
            array_layer: 0,
            origin: [0; 3],
            extent: [64, 64, 1],
            aspect: ImageAspect::Color,
            texels: TexelBlock::new(4).into(),
            direction,
            before: states[0],
            after: states[1],
        };
        let into = texels(committed[0], CopyDirection::IntoImage, [TARGET, TARGET]);
        gpu.wait(gpu.submit_images(FIRST, &[], &[into]));
        // From one to the next, in and out of the state that they begin in.
        let ways = [(committed[0], placed[0], TARGET), (placed[0], placed[1], COMMON)];
        for (from, to, before) in ways {
            assert_eq!(try_whole(gpu, FIRST, from, to, &info, [before, COMMON]), Ok(()));
        }
        let last = [COMMON, TARGET];
        assert_eq!(try_whole(gpu, FIRST, placed[1], committed[1], &info, last), Ok(()));
        let out = texels(committed[1], CopyDirection::OutOfImage, [TARGET, TARGET]);
        gpu.wait(gpu.submit_images(FIRST, &[], &[out]));
    });
    assert_same(&gpu.get(&down), &pattern(1, size), "the last of them");
}

fn depth_and_several_samples_are_copied_whole(gpu: &D3d12) -> Outcome {
    let several = DXGI_SAMPLE_DESC { Count: 4, Quality: 0 };
    let target = texture(64, 64, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET);
    let depth = D3D12_RESOURCE_DESC {
        Format: DXGI_FORMAT_D32_FLOAT_S8X24_UINT,
        ..texture(64, 64, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL)
    };
    let mut ran = false;
    for (desc, state) in [
        (depth, D3D12_RESOURCE_STATE_DEPTH_WRITE),
        (D3D12_RESOURCE_DESC { SampleDesc: several, ..target }, TARGET),
        (D3D12_RESOURCE_DESC { SampleDesc: several, ..depth }, D3D12_RESOURCE_STATE_DEPTH_WRITE),
    ] {
        let info = ResourceInfo::new(desc).with_initial_state(state);
        assert!(gpu.device().relocatable_image_info(&info).is_some(), "{info:?}");
        if gpu.device().image_requirements(&info).is_err() {
            continue;
        }
        ran = true;
        with_images(gpu, &info, |committed, placed| {
            for to in placed {
                assert_eq!(try_whole(gpu, FIRST, committed[0], to, &info, [state; 2]), Ok(()), "{info:?}");
            }
        });
    }
    if ran { Outcome::Ran } else { Outcome::DoesNotApply("the device has no such textures") }
}

fn whole_images_are_in_no_other_state_than_common_on_a_queue_for_copies(gpu: &D3d12) -> Outcome {
    let mut queues = gpu.queues();
    let kind = |queue: &QueueIndex| gpu.properties().queues[usize::from(queue.0)];
    let Some(queue) = queues.find(|queue| kind(queue) == QueueKind::Transfer) else {
        return Outcome::DoesNotApply("the device has no queue for copies alone");
    };
    let info = ResourceInfo::from(ImageDesc::new(16, 16, gpu.fixture().image_format()));
    with_images(gpu, &info, |[from, to], [other, _]| {
        let refused = Err(CopyError::States.into());
        let source = D3D12_RESOURCE_STATE_COPY_SOURCE;
        assert_eq!(try_whole(gpu, queue, from, to, &info, [COMMON, source]), refused);
        assert_eq!(try_whole(gpu, queue, from, to, &info, [source, COMMON]), refused);
        let begun = info.with_initial_state(D3D12_RESOURCE_STATE_COPY_DEST);
        assert_eq!(try_whole(gpu, queue, from, to, &begun, [COMMON; 2]), refused);
        assert_eq!(try_whole(gpu, queue, from, to, &info, [COMMON; 2]), Ok(()));
        assert_eq!(try_whole(gpu, FIRST, from, other, &info, [COMMON, source]), Ok(()));
    });
    Outcome::Ran
}

fn what_copy_resource_does_not_take_is_not_moved(gpu: &D3d12) {
    let movable = |info: ResourceInfo<'_>| gpu.device().relocatable_image_info(&info).is_some();
    let plain = texture(16, 16, D3D12_RESOURCE_FLAG_NONE);
    let info = ResourceInfo::new(plain);
    assert!(movable(info) && movable(info.with_initial_layout(D3D12_BARRIER_LAYOUT_COMMON)));
    for bad in [
        info.with_initial_layout(D3D12_BARRIER_LAYOUT_RENDER_TARGET),
        texture(16, 16, D3D12_RESOURCE_FLAG_VIDEO_DECODE_REFERENCE_ONLY).into(),
        texture(16, 16, D3D12_RESOURCE_FLAG_VIDEO_ENCODE_REFERENCE_ONLY).into(),
        D3D12_RESOURCE_DESC { Format: DXGI_FORMAT_SAMPLER_FEEDBACK_MIN_MIP_OPAQUE, ..plain }.into(),
        BufferDesc::new(64).into(),
    ] {
        assert!(!movable(bad), "{bad:?}");
    }
    let buffer = ResourceInfo::from(BufferDesc::new(64));
    let structures = D3D12_RESOURCE_FLAG_RAYTRACING_ACCELERATION_STRUCTURE;
    let structures = D3D12_RESOURCE_DESC { Flags: structures, ..*buffer.desc() };
    assert!(gpu.device().relocatable_buffer_info(&buffer).is_some());
    assert_eq!(gpu.device().buffer_transfer_usage(&buffer), TransferUsage::all());
    assert_eq!(gpu.device().buffer_transfer_usage(&structures.into()), TransferUsage::empty());
    assert!(gpu.device().relocatable_buffer_info(&structures.into()).is_none());
    assert!(gpu.device().relocatable_buffer_info(&info).is_none());
}

//! Views on the simulated GPU: as many as a program makes in an hour, those of resources that move, and those that are
//! refused.

use std::sync::Arc;

use allotment::descriptor::{Binding, BindingSet, DescriptorError, ImageView};
use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferDesc, BufferUse, BufferViewDesc, DescriptorHeapType, ImageDesc, ImageViewDesc, TexelBufferDesc,
    TexelBufferUse,
};
use allotment::gpu::GpuDesc;
use allotment::memory::defragmentation::PassLimits;
use allotment::memory::{Image, MemoryUsage};

use crate::amount::scaled;
use crate::rig::Rig;

fn image(rig: &Rig, relocatable: bool) -> Arc<Image<SimulatedGpu>> {
    let options = MemoryUsage::GpuOnly.with_name("seen");
    let options = if relocatable { options.relocatable() } else { options };
    let image = rig.gpu.create_image(&ImageDesc::new(512, 512, 4), &options).unwrap();
    // SAFETY: the simulated device has one state.
    unsafe { image.set_state(()) };
    Arc::new(image)
}

#[test]
fn a_million_views_made_and_dropped_with_frames_in_flight_leave_nothing() {
    let rig = Rig::new();
    let image = image(&rig, false);
    let buffer = Arc::new(rig.buffer(4096));
    let bytes = [
        BufferViewDesc::new(0..256, BufferUse::Constants),
        BufferViewDesc::new(256..1024, BufferUse::ReadWrite),
        BufferViewDesc::new(0..4096, BufferUse::ReadOnly).with_stride(64),
    ];
    let texels = TexelBufferDesc::new(0..4096, 16, TexelBufferUse::Storage);
    let kinds = [
        (DescriptorHeapType::RenderTarget, ImageViewDesc::render_target()),
        (DescriptorHeapType::DepthStencil, ImageViewDesc::depth_stencil()),
        (DescriptorHeapType::Resource, ImageViewDesc::sampled()),
        (DescriptorHeapType::Resource, ImageViewDesc::storage()),
    ];
    let mut pages = 0;
    for frame_number in 0..scaled(1000).max(30) {
        let frame = rig.gpu.begin_frame().unwrap();
        let commands = frame.command_allocator(crate::rig::QUEUE).unwrap();
        let point = rig.submit(&frame, &commands);
        for _ in 0..125 {
            for (_, desc) in &kinds {
                drop(rig.gpu.create_image_view(&image, desc).unwrap());
            }
            for desc in &bytes {
                drop(rig.gpu.create_buffer_view(&buffer, desc).unwrap());
            }
            drop(rig.gpu.create_texel_buffer_view(&buffer, &texels).unwrap());
        }
        point.unwrap();
        frame.end().unwrap();
        if frame_number == 20 {
            pages = rig.device.usage().descriptor_heaps;
        }
    }
    assert!(rig.device.usage().descriptor_heaps <= pages, "as many as after the first frames");
    drop((image, buffer));
    for _ in 0..3 {
        rig.gpu.wait_idle().unwrap();
    }
    assert_eq!(rig.gpu.deletion_queue().statistics().pending, 0);
    for (kind, _) in kinds {
        let heap = rig.gpu.descriptors().unwrap().cpu_heap(kind);
        heap.trim();
        assert_eq!((heap.statistics().used, heap.statistics().pages), (0, 0));
    }
    rig.finish();
}

#[test]
fn views_of_an_image_that_moves_are_made_anew_and_the_old_ones_wait_for_the_gpu() {
    let rig = Rig::on("discrete-large-bar", GpuDesc::default());
    let mut images: Vec<_> = (0..5).map(|_| image(&rig, true)).collect();
    let target = rig.gpu.create_image_view(&images[4], &ImageViewDesc::render_target()).unwrap();
    let sampled = Arc::new(rig.gpu.create_image_view(&images[4], &ImageViewDesc::sampled()).unwrap());
    let descriptors = rig.gpu.descriptors().unwrap();
    let slot = descriptors.resources().insert_view(&sampled).unwrap();
    let layout =
        descriptors.binding_layout(&[Binding::mutable("albedo"), Binding::dynamic("other")]).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    set.bind_view(0, 0, &sampled).unwrap();
    set.bind_view(1, 0, &sampled).unwrap();
    let before = (target.cpu_descriptor().unwrap(), sampled.cpu_descriptor().unwrap());
    assert_eq!(before, (target.cpu_descriptor().unwrap(), sampled.cpu_descriptor().unwrap()), "they stay");

    drop(images.remove(0));
    rig.gpu.reclaim();
    assert_eq!(rig.gpu.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves, 1);
    assert_eq!(images[3].moves(), 1);
    let recording = rig.gpu.record("a frame");
    let after = (target.cpu_descriptor().unwrap(), sampled.cpu_descriptor().unwrap());
    assert!(after.0 != before.0 && after.1 != before.1, "the descriptors are of the new handle");
    let used = |kind| descriptors.cpu_heap(kind).statistics().used;
    assert_eq!(used(DescriptorHeapType::RenderTarget), 2, "the old one waits for the recording");
    drop(recording);
    let frame = rig.gpu.begin_frame().unwrap();
    set.commit(&mut frame.transient_descriptors().unwrap()).unwrap();
    frame.end().unwrap();
    rig.gpu.wait_idle().unwrap();
    assert_eq!(used(DescriptorHeapType::RenderTarget), 1);
    descriptors.resources().remove(slot).unwrap();
    drop((set, layout, target, sampled, images));
    for _ in 0..4 {
        rig.gpu.wait_idle().unwrap();
    }
    assert_eq!((used(DescriptorHeapType::RenderTarget), used(DescriptorHeapType::Resource)), (0, 0));
    rig.finish();
}

#[test]
fn views_of_a_buffer_that_moves_are_made_anew_and_the_old_ones_wait_for_the_gpu() {
    let rig = Rig::on("discrete-large-bar", GpuDesc::default());
    let options = MemoryUsage::GpuOnly.with_name("seen").relocatable();
    let create = |_| {
        let buffer = Arc::new(rig.gpu.create_buffer(&BufferDesc::new(1 << 20), &options).unwrap());
        rig.gpu.uploads().write_buffer(&buffer, 0, &[7; 256]).unwrap();
        buffer
    };
    let mut buffers: Vec<_> = (0..5).map(create).collect();
    let bytes = BufferViewDesc::new(0..256, BufferUse::ReadOnly);
    let bytes = Arc::new(rig.gpu.create_buffer_view(&buffers[4], &bytes).unwrap());
    let texels = TexelBufferDesc::new(0..256, 16, TexelBufferUse::Uniform);
    let texels = Arc::new(rig.gpu.create_texel_buffer_view(&buffers[4], &texels).unwrap());
    let descriptors = rig.gpu.descriptors().unwrap();
    let heap = descriptors.resources();
    let slots = [heap.insert_buffer_view(&bytes).unwrap(), heap.insert_texel_buffer(&texels).unwrap()];
    let layout =
        descriptors.binding_layout(&[Binding::mutable("bytes"), Binding::dynamic("texels")]).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    set.bind_buffer_view(0, 0, &bytes).unwrap();
    set.bind_texel_buffer(1, 0, &texels).unwrap();
    let of_both = || [bytes.cpu_descriptor().unwrap(), texels.cpu_descriptor().unwrap()];
    let before = of_both();
    assert_eq!(before, of_both(), "they stay");

    rig.gpu.wait_idle().unwrap();
    drop(buffers.remove(0));
    rig.gpu.reclaim();
    assert_eq!(rig.gpu.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves, 1);
    assert_eq!(buffers[3].moves(), 1);
    let used = || descriptors.cpu_heap(DescriptorHeapType::Resource).statistics().used;
    let of_sets = used() - 2;
    let recording = rig.gpu.record("a frame");
    let after = of_both();
    assert!(after[0] != before[0] && after[1] != before[1], "the descriptors are of the new handle");
    assert_eq!(used() - of_sets, 4, "the old ones wait for the recording");
    drop(recording);
    let frame = rig.gpu.begin_frame().unwrap();
    set.commit(&mut frame.transient_descriptors().unwrap()).unwrap();
    frame.end().unwrap();
    rig.gpu.wait_idle().unwrap();
    assert_eq!((used() - of_sets, of_both()), (2, after));
    slots.into_iter().for_each(|slot| heap.remove(slot).unwrap());
    drop((set, layout, bytes, texels, buffers));
    for _ in 0..4 {
        rig.gpu.wait_idle().unwrap();
    }
    assert_eq!(used(), 0);
    rig.finish();
}

#[test]
fn a_refused_view_leaves_nothing_and_the_next_call_may_succeed() {
    let rig = Rig::new();
    let image = image(&rig, false);
    drop(rig.gpu.create_image_view(&image, &ImageViewDesc::render_target()).unwrap());
    rig.gpu.wait_idle().unwrap();
    rig.device.fail_call(1, allotment::device::DeviceError::OutOfHostMemory);
    let refused = rig.gpu.create_image_view(&image, &ImageViewDesc::render_target()).unwrap_err();
    assert!(matches!(refused, DescriptorError::Device(_)), "{refused}");
    let heap = rig.gpu.descriptors().unwrap().cpu_heap(DescriptorHeapType::RenderTarget);
    assert_eq!(heap.statistics().used, 0);
    let again: Result<ImageView<_>, _> = rig.gpu.create_image_view(&image, &ImageViewDesc::render_target());
    drop((again.unwrap(), image));
    rig.finish();
}

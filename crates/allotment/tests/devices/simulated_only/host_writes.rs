//! Writes of images by the CPU that the simulated device refuses or reports, and those that are staged after all.

use allotment::MemoryUsage;
use allotment::device::{
    CopyDirection, DeviceError, HostImageWrite, ImageAspect, ImageDesc, ImageDevice as _, ImageRegion,
    QueueIndex, TexelBlock,
};
use allotment::upload::{ImageWrite, Uploader, UploaderDesc};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Gpu, TexelCopy};
use crate::kinds::simulated::SimulatedFixture;
use crate::suite::stage::Stage;

type Simulated = Gpu<SimulatedFixture>;

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        what_the_driver_fails_to_copy_is_staged,
        a_write_by_the_cpu_of_what_a_queue_uses_is_a_complaint,
        a_write_by_the_cpu_of_too_few_bytes_or_beyond_the_image_is_refused,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);
const TEXEL: TexelBlock = TexelBlock::new(4);

fn what_the_driver_fails_to_copy_is_staged(gpu: &Simulated) {
    // One that grows row by row, of 6 MiB: its layers go in two pieces each.
    let desc = ImageDesc::new(256, 6 << 10, 4).with_array_layers(3);
    let layer = 6_u64 << 20;
    let bytes = pattern(1, 3 * layer);
    for failing in 1..=6_u64 {
        let stage = Stage::new(gpu);
        let mut whole = UploaderDesc::default();
        whole.staging = 64 << 20;
        let uploader = Uploader::new(&stage.memory, whole).unwrap();
        let image = stage.memory.create_image(&desc, &MemoryUsage::GpuOnly.with_name("image")).unwrap();
        gpu.device().fail_call(failing, DeviceError::OutOfHostMemory);
        let written = uploader.write_image(&image, &ImageWrite::default(), &bytes);
        gpu.device().clear_faults();
        let sums = uploader.statistics();
        if failing % 2 == 0 {
            // A piece that follows others of its layer, which cannot be kept.
            assert!(written.is_err(), "{failing}");
            assert_eq!(sums.host_copied_bytes, failing / 2 * layer - (2 << 20));
            assert_eq!(image.state(), None, "the layer is not there");
            uploader.write_image(&image, &ImageWrite::default(), &bytes).unwrap();
        } else {
            written.unwrap();
            assert_eq!(sums.host_copied_bytes, failing / 2 * layer);
            assert!(sums.host_copied_bytes + sums.staged_bytes >= 3 * layer);
        }
        assert_eq!(image.state(), Some(()));
        uploader.submit().unwrap();
        stage.wait_idle();
        for array_layer in 0..3 {
            let down = gpu.buffer(gpu.readback_type(), layer);
            let copy = TexelCopy::<SimulatedFixture> {
                buffer: down.raw(),
                buffer_offset: 0,
                row_pitch: 1024,
                rows: 6 << 10,
                image: &image.handle(),
                mip_level: 0,
                array_layer,
                origin: [0; 3],
                extent: [256, 6 << 10, 1],
                aspect: ImageAspect::Color,
                texels: TEXEL.into(),
                direction: CopyDirection::OutOfImage,
                before: (),
                after: (),
            };
            gpu.wait(gpu.submit_images(FIRST, &[], &[copy]));
            let expected = &bytes[(u64::from(array_layer) * layer) as usize..][..layer as usize];
            assert_same(&gpu.get(&down), expected, (failing, array_layer));
        }
        stage.wait_idle();
    }
}

fn a_write_by_the_cpu_of_what_a_queue_uses_is_a_complaint(gpu: &Simulated) {
    let image = gpu.image(ImageDesc::new(16, 8, 4).with_mip_levels(2));
    let buffer = gpu.buffer(gpu.two_way_type(), 512);
    let copy = TexelCopy::<SimulatedFixture> {
        buffer: buffer.raw(),
        buffer_offset: 0,
        row_pitch: 64,
        rows: 8,
        image: image.raw(),
        mip_level: 0,
        array_layer: 0,
        origin: [0; 3],
        extent: [16, 8, 1],
        aspect: ImageAspect::Color,
        texels: TEXEL.into(),
        direction: CopyDirection::OutOfImage,
        before: (),
        after: (),
    };
    let bytes = pattern(1, 512);
    let write = |mip_level, extent: [u32; 3]| {
        let region = ImageRegion { mip_level, ..ImageRegion::new(ImageAspect::Color, extent) };
        let bytes = &bytes[..(extent[0] * extent[1] * 4) as usize];
        let (image, texels) = (image.raw(), TEXEL.into());
        let write = HostImageWrite { bytes, image, region, texels, before: (), after: () };
        // SAFETY: the image lives; that nothing uses it is what the device is to notice.
        unsafe { gpu.device().write_image_from_host(&write) }.unwrap();
    };
    let complaints = || gpu.fixture().complaints_about("hazard: the CPU");
    write(0, [16, 8, 1]);
    gpu.device().pause_queues();
    let point = gpu.submit_images(FIRST, &[], &[copy]);
    write(1, [8, 4, 1]);
    assert_eq!(complaints(), 0, "the queue reads the other level");
    write(0, [1, 1, 1]);
    assert_eq!(complaints(), 1, "the queue will read it");
    gpu.device().resume_queues();
    while gpu.completed(FIRST) < point.value {
        std::thread::yield_now();
    }
    write(0, [1, 1, 1]);
    assert_eq!(complaints(), 1, "the host has seen that the queue is done");
}

fn a_write_by_the_cpu_of_too_few_bytes_or_beyond_the_image_is_refused(gpu: &Simulated) {
    let image = gpu.image(ImageDesc::new(16, 8, 4));
    let bytes = pattern(1, 16 * 8 * 4);
    for (extent, length) in [([16, 8, 1], 511), ([16, 9, 1], 512), ([17, 8, 1], 512), ([16, 8, 1], 0)] {
        let region = ImageRegion::new(ImageAspect::Color, extent);
        let (bytes, image, texels) = (&bytes[..length], image.raw(), TEXEL.into());
        let write = HostImageWrite { bytes, image, region, texels, before: (), after: () };
        // SAFETY: this device checks what other devices are promised.
        let refused = unsafe { gpu.device().write_image_from_host(&write) };
        assert!(refused.is_err(), "{extent:?}, {length} bytes");
    }
    assert_eq!(gpu.fixture().complaints_about("write_image_from_host: "), 4);
}

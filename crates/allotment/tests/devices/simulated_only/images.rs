//! Copies of images that the simulated device reports, and that run later than they were submitted.

use allotment::device::{
    CopyDirection, CopyError, DescriptionError, DescriptionLimit, DeviceError, ImageAspect, ImageDesc,
    ImageDevice as _, MemoryDevice as _, QueueDevice as _, QueueIndex, Submission, TexelBlock,
};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Buffer, Gpu, Image, TexelCopy, copy};
use crate::kinds::simulated::SimulatedFixture;

type Simulated = Gpu<SimulatedFixture>;

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        a_copy_beyond_an_image_or_its_buffer_is_refused,
        a_copy_of_other_texels_than_the_images_is_refused,
        an_image_of_several_samples_is_not_copied,
        an_image_is_not_copied_onto_itself,
        an_image_that_is_destroyed_too_early_is_a_complaint,
        an_images_memory_that_is_freed_too_early_is_a_complaint,
        texels_are_read_when_the_queue_comes_to_them,
        bytes_that_the_same_submission_copies_to_a_buffer_are_too_late_for_an_image,
        an_image_needs_memory_for_all_of_its_subresources,
        an_image_has_no_more_mip_levels_than_it_can_be_halved,
        an_image_that_no_device_has_is_refused_by_its_rule,
    ]
}

/// Tests for a device that wants texels in buffers aligned, and knows one-way memory.
pub(super) fn about_limits() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        texels_off_their_alignment_in_a_buffer_are_refused,
        an_image_is_not_copied_into_memory_that_queues_only_read_or_out_of_such_that_they_only_write,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

/// An image of 16 × 8 texels with 3 mip levels and 2 layers.
fn image(gpu: &Simulated) -> Image<'_, SimulatedFixture> {
    let mut desc = ImageDesc::new(16, 8, 4);
    (desc.mip_levels, desc.array_layers) = (3, 2);
    gpu.image(desc)
}

/// A copy of the first subresource of such an image.
fn whole<'a>(
    gpu: &Simulated,
    buffer: &'a Buffer<'_, SimulatedFixture>,
    image: &'a Image<'_, SimulatedFixture>,
) -> TexelCopy<'a, SimulatedFixture> {
    let texel = TexelBlock::new(4);
    TexelCopy::<SimulatedFixture> {
        buffer: buffer.raw(),
        buffer_offset: 0,
        row_pitch: texel.row_pitch(16, &gpu.properties().limits),
        rows: 8,
        image: image.raw(),
        mip_level: 0,
        array_layer: 0,
        origin: [0; 3],
        extent: [16, 8, 1],
        aspect: ImageAspect::Color,
        texels: texel.into(),
        direction: CopyDirection::IntoImage,
        before: (),
        after: (),
    }
}

fn rows(row_pitch: u64, rows: u32) -> DeviceError {
    CopyError::Rows { row_pitch, rows }.into()
}

fn buffer(gpu: &Simulated, bytes: u64) -> Buffer<'_, SimulatedFixture> {
    gpu.buffer(gpu.two_way_type(), bytes)
}

/// Each copy is refused with a validation error, alone and with a good one before it.
#[track_caller]
fn assert_refused<'a>(
    gpu: &Simulated,
    good: TexelCopy<'a, SimulatedFixture>,
    bad: impl IntoIterator<Item = (TexelCopy<'a, SimulatedFixture>, DeviceError)>,
) {
    let before = gpu.device().submitted(FIRST);
    for (count, (bad, why)) in (1..).zip(bad) {
        let image_copies = [good, bad];
        let submission = Submission { image_copies: &image_copies, ..Submission::default() };
        let refused = gpu.try_submit_all(FIRST, &submission);
        assert_eq!(refused, Err(why), "{bad:?}");
        assert_eq!(
            gpu.fixture().complaints_about("submit: "),
            count,
            "{:#?}",
            gpu.device().validation_errors()
        );
    }
    assert_eq!(gpu.device().submitted(FIRST), before);
}

fn a_copy_beyond_an_image_or_its_buffer_is_refused(gpu: &Simulated) {
    let (buffer, image) = (buffer(gpu, 512), image(gpu));
    let good = whole(gpu, &buffer, &image);
    let small = TexelCopy::<SimulatedFixture> { mip_level: 2, extent: [4, 2, 1], ..good };
    gpu.wait(gpu.submit_images(FIRST, &[], &[good, small]));
    let outside = |mip_level| CopyError::OutsideLevel { mip_level }.into();
    let no_such = |mip_level, array_layer| CopyError::NoSuchSubresource { mip_level, array_layer }.into();
    let beyond = |offset, size| DeviceError::OutOfRange { offset, size, available: 512 };
    assert_refused(
        gpu,
        good,
        [
            (TexelCopy::<SimulatedFixture> { extent: [17, 8, 1], row_pitch: 68, ..good }, outside(0)),
            (TexelCopy::<SimulatedFixture> { extent: [16, 9, 1], rows: 9, ..good }, outside(0)),
            (TexelCopy::<SimulatedFixture> { extent: [4, 2, 2], ..good }, outside(0)),
            (TexelCopy::<SimulatedFixture> { origin: [1, 0, 0], ..good }, outside(0)),
            (TexelCopy::<SimulatedFixture> { origin: [0, 0, 1], ..good }, outside(0)),
            (TexelCopy::<SimulatedFixture> { origin: [u32::MAX, 0, 0], ..good }, outside(0)),
            (TexelCopy::<SimulatedFixture> { mip_level: 3, extent: [1, 1, 1], ..good }, no_such(3, 0)),
            (TexelCopy::<SimulatedFixture> { array_layer: 2, ..good }, no_such(0, 2)),
            (TexelCopy::<SimulatedFixture> { extent: [5, 2, 1], ..small }, outside(2)),
            (TexelCopy::<SimulatedFixture> { buffer_offset: 1, ..good }, beyond(1, 512)),
            (TexelCopy::<SimulatedFixture> { buffer_offset: u64::MAX, ..good }, beyond(u64::MAX, 512)),
            (TexelCopy::<SimulatedFixture> { row_pitch: 65, ..good }, beyond(0, 519)),
            (TexelCopy::<SimulatedFixture> { row_pitch: u64::MAX, ..good }, beyond(0, u64::MAX)),
            (TexelCopy::<SimulatedFixture> { row_pitch: 63, ..good }, rows(63, 8)),
            (TexelCopy::<SimulatedFixture> { rows: 7, ..good }, rows(64, 7)),
        ],
    );
}

fn a_copy_of_other_texels_than_the_images_is_refused(gpu: &Simulated) {
    let (buffer, image) = (buffer(gpu, 4096), image(gpu));
    let good = whole(gpu, &buffer, &image);
    let pair = TexelBlock { bytes: 4, width: 2, height: 1 };
    assert_refused(
        gpu,
        good,
        [
            (
                TexelCopy::<SimulatedFixture> { texels: TexelBlock::new(3).into(), row_pitch: 48, ..good },
                CopyError::WrongTexel.into(),
            ),
            (
                TexelCopy::<SimulatedFixture> { texels: TexelBlock::new(0).into(), ..good },
                CopyError::WrongTexel.into(),
            ),
            (TexelCopy::<SimulatedFixture> { texels: pair.into(), ..good }, CopyError::WrongTexel.into()),
        ],
    );
}

fn an_image_of_several_samples_is_not_copied(gpu: &Simulated) {
    let (buffer, image) = (buffer(gpu, 4096), image(gpu));
    let mut desc = ImageDesc::new(16, 8, 4);
    desc.samples = 4;
    let many = gpu.image(desc);
    assert_refused(
        gpu,
        whole(gpu, &buffer, &image),
        [(whole(gpu, &buffer, &many), CopyError::Multisampled.into())],
    );
}

fn an_image_is_not_copied_onto_itself(gpu: &Simulated) {
    let (apart, good) = (buffer(gpu, 4096), image(gpu));
    let memory = gpu.allocate(gpu.two_way_type(), 8192);
    let (inside, image) = (memory.buffer(1000, 4096), memory.image(0, ImageDesc::new(16, 8, 4)));
    let later = TexelCopy::<SimulatedFixture> { buffer_offset: 512, ..whole(gpu, &inside, &image) };
    // The image's 512 bytes end before the buffer begins.
    gpu.wait(gpu.submit_images(FIRST, &[], &[later]));
    let across = memory.buffer(500, 4096);
    assert_refused(
        gpu,
        whole(gpu, &apart, &good),
        [(whole(gpu, &across, &image), CopyError::Overlap.into())],
    );
}

fn an_image_that_is_destroyed_too_early_is_a_complaint(gpu: &Simulated) {
    let buffer = buffer(gpu, 512);
    gpu.device().pause_queues();
    let image = image(gpu);
    let memory = image.memory().clone();
    let submitted = gpu.submit_images(FIRST, &[], &[whole(gpu, &buffer, &image)]);
    // SAFETY: from this device; that a queue uses it is what the device shall say.
    unsafe { gpu.device().destroy_image(image.disown()) };
    assert_eq!(gpu.fixture().complaints_about("destroy_image: "), 1);
    gpu.device().resume_queues();
    gpu.wait(submitted);
    drop(memory);
}

fn an_images_memory_that_is_freed_too_early_is_a_complaint(gpu: &Simulated) {
    for (count, direction) in [(1, CopyDirection::IntoImage), (2, CopyDirection::OutOfImage)] {
        let (buffer, image) = (buffer(gpu, 512), image(gpu));
        gpu.device().pause_queues();
        let copy = TexelCopy::<SimulatedFixture> { direction, ..whole(gpu, &buffer, &image) };
        let submitted = gpu.submit_images(FIRST, &[], &[copy]);
        // SAFETY: live; that a queue uses it is what the device shall say.
        unsafe { gpu.device().free_memory(image.memory().disown()) };
        assert_eq!(gpu.fixture().complaints_about("free: "), count);
        gpu.device().resume_queues();
        gpu.wait(submitted);
        assert_refused_once_freed(gpu, &buffer, &image, count);
    }
}

/// The memory of the image was freed, so no queue copies it.
#[track_caller]
fn assert_refused_once_freed(
    gpu: &Simulated,
    buffer: &Buffer<'_, SimulatedFixture>,
    image: &Image<'_, SimulatedFixture>,
    count: usize,
) {
    let image_copies = [whole(gpu, buffer, image)];
    let submission = Submission { image_copies: &image_copies, ..Submission::default() };
    assert!(gpu.try_submit_all(FIRST, &submission).is_err());
    assert_eq!(gpu.fixture().complaints_about("submit: "), count);
}

fn texels_are_read_when_the_queue_comes_to_them(gpu: &Simulated) {
    let (up, down, image) = (gpu.buffer(gpu.upload_type(), 512), buffer(gpu, 512), image(gpu));
    let source = up.memory().map();
    source.put(0, &pattern(1, 512));
    gpu.device().pause_queues();
    let into = whole(gpu, &up, &image);
    let out =
        TexelCopy::<SimulatedFixture> { direction: CopyDirection::OutOfImage, ..whole(gpu, &down, &image) };
    let submitted = gpu.submit_images(FIRST, &[], &[into, out]);
    source.put(100, &pattern(2, 50));
    gpu.device().resume_queues();
    gpu.wait(submitted);
    let mut expected = pattern(1, 512);
    expected[100..150].copy_from_slice(&pattern(2, 50));
    assert_same(&gpu.get(&down), &expected, "what was there when the queue came to it");
}

fn bytes_that_the_same_submission_copies_to_a_buffer_are_too_late_for_an_image(gpu: &Simulated) {
    let [from, staging, down] = [(); 3].map(|()| buffer(gpu, 512));
    let image = image(gpu);
    gpu.put(&from, 0, &pattern(1, 512));
    gpu.put(&staging, 0, &pattern(2, 512));
    let copies = [copy(&from, 0, &staging, 0, 512)];
    let image_copies = [whole(gpu, &staging, &image)];
    let submission = Submission { copies: &copies, image_copies: &image_copies, ..Submission::default() };
    let submitted = gpu.try_submit_all(FIRST, &submission).unwrap();
    let out =
        TexelCopy::<SimulatedFixture> { direction: CopyDirection::OutOfImage, ..whole(gpu, &down, &image) };
    gpu.wait(gpu.submit_images(FIRST, &[submitted], &[out]));
    assert_same(&gpu.get(&down), &pattern(2, 512), "a wait was forgotten");
    assert_eq!(gpu.fixture().complaints_about("hazard: "), 1, "a real GPU may copy either bytes");
}

fn an_image_needs_memory_for_all_of_its_subresources(gpu: &Simulated) {
    for extent in [[1, 1, 1], [1, 300, 1], [3, 5, 1], [255, 255, 1], [17, 9, 33], [64, 64, 64]] {
        let mut desc = ImageDesc::new(1, 1, 3);
        desc.extent = extent;
        desc.array_layers = if extent[2] == 1 { 5 } else { 1 };
        desc.mip_levels = extent.iter().max().unwrap().ilog2() + 1;
        let level =
            |level: u32| extent.map(|length| u64::from((length >> level).max(1))).iter().product::<u64>();
        let texels: u64 = (0..desc.mip_levels).map(level).sum();
        let needs = gpu.device().image_requirements(&desc).unwrap();
        assert!(needs.size >= texels * 3 * u64::from(desc.array_layers), "{desc:?}: {needs:?}");
    }
}

fn an_image_has_no_more_mip_levels_than_it_can_be_halved(gpu: &Simulated) {
    for (extent, most) in [([1, 1, 1], 1), ([2, 1, 1], 2), ([3, 3, 1], 2), ([1, 256, 1], 9), ([4, 4, 9], 4)] {
        let mut desc = ImageDesc::new(1, 1, 4);
        desc.extent = extent;
        for mip_levels in [most, most + 1, u32::MAX] {
            desc.mip_levels = mip_levels;
            let needs = gpu.device().image_requirements(&desc);
            let limit = DescriptionLimit::MipLevels;
            let above =
                DescriptionError::AboveLimit { limit, requested: mip_levels.into(), most: most.into() };
            assert_eq!(needs.err(), (mip_levels != most).then_some(above.into()), "{desc:?}");
        }
    }
}

fn an_image_that_no_device_has_is_refused_by_its_rule(gpu: &Simulated) {
    let most = gpu.properties().limits.max_allocation_size;
    let large = |requested| -> DeviceError {
        let limit = DescriptionLimit::AllocationSize;
        DescriptionError::AboveLimit { limit, requested, most }.into()
    };
    let refused = |change: fn(&mut ImageDesc)| {
        let mut desc = ImageDesc::new(16, 8, 4);
        change(&mut desc);
        gpu.device().image_requirements(&desc).unwrap_err()
    };
    assert_eq!(refused(|desc| desc.format = 0), DescriptionError::UnknownFormat { format: 0 }.into());
    assert_eq!(refused(|desc| desc.samples = 0), DescriptionError::Samples { samples: 0 }.into());
    assert_eq!(refused(|desc| desc.samples = 3), DescriptionError::Samples { samples: 3 }.into());
    assert_eq!(refused(|desc| desc.extent = [1 << 30, 1 << 30, 1]), large(1 << 62));
    assert_eq!(refused(|desc| desc.extent = [u32::MAX; 3]), large(u64::MAX));
}

fn texels_off_their_alignment_in_a_buffer_are_refused(gpu: &Simulated) {
    let limits = gpu.properties().limits;
    let (row, offset) = (limits.image_copy_row_alignment.get(), limits.image_copy_offset_alignment.get());
    assert!(row > 1 && offset > 1, "what this test is about");
    let (buffer, image) = (buffer(gpu, 8 * (2 * row + offset)), image(gpu));
    let good = TexelCopy::<SimulatedFixture> { buffer_offset: offset, ..whole(gpu, &buffer, &image) };
    let misaligned = |at| DeviceError::Misaligned { offset: at, alignment: offset };
    assert_refused(
        gpu,
        good,
        [
            (TexelCopy::<SimulatedFixture> { buffer_offset: 4, ..good }, misaligned(4)),
            (TexelCopy::<SimulatedFixture> { buffer_offset: offset / 2, ..good }, misaligned(offset / 2)),
            (TexelCopy::<SimulatedFixture> { row_pitch: 64, ..good }, rows(64, 8)),
            (TexelCopy::<SimulatedFixture> { row_pitch: row + 4, ..good }, rows(row + 4, 8)),
        ],
    );
}

fn an_image_is_not_copied_into_memory_that_queues_only_read_or_out_of_such_that_they_only_write(
    gpu: &Simulated,
) {
    let image = image(gpu);
    let both = buffer(gpu, 4096);
    let types = gpu.buffer_types();
    let read_only = types.iter().find(|&&t| !gpu.can_write_to(t)).expect("what this test is about");
    let write_only = types.iter().find(|&&t| !gpu.can_read_from(t)).expect("what this test is about");
    let [read_only, write_only] = [*read_only, *write_only].map(|t| gpu.buffer(t, 4096));
    let out = CopyDirection::OutOfImage;
    assert_refused(
        gpu,
        whole(gpu, &both, &image),
        [
            (whole(gpu, &write_only, &image), CopyError::QueueCannotRead.into()),
            (
                TexelCopy::<SimulatedFixture> { direction: out, ..whole(gpu, &read_only, &image) },
                CopyError::QueueCannotWrite.into(),
            ),
        ],
    );
}

//! Copies of whole images that the simulated device complains of, and those of several samples, whose bytes can
//! be seen there.

use allotment::device::{
    CopyDirection, CopyError, DeviceError, ImageAspect, ImageDesc, ImageDevice as _, MemoryDevice as _,
    QueueDevice as _, QueueIndex, Submission, TexelBlock,
};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Gpu, Image, TexelCopy, WholeCopy};
use crate::kinds::simulated::SimulatedFixture;

type Simulated = Gpu<SimulatedFixture>;

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        whole_images_of_different_descriptions_are_refused,
        a_whole_image_is_not_copied_onto_itself,
        an_image_is_in_one_copy_of_a_submission,
        a_whole_image_that_is_destroyed_too_early_is_a_complaint,
        a_whole_image_that_was_destroyed_is_refused,
        a_whole_images_memory_that_was_freed_is_refused,
        all_samples_of_a_whole_image_are_copied,
        a_whole_image_is_read_when_the_queue_comes_to_it,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

/// An image of 16 × 8 texels with 3 mip levels and 2 layers.
fn desc() -> ImageDesc {
    let mut desc = ImageDesc::new(16, 8, 4);
    (desc.mip_levels, desc.array_layers) = (3, 2);
    desc
}

fn whole<'a>(
    from: &'a Image<'_, SimulatedFixture>,
    to: &'a Image<'_, SimulatedFixture>,
    info: &'a ImageDesc,
) -> WholeCopy<'a, SimulatedFixture> {
    WholeCopy::<SimulatedFixture> { from: from.raw(), to: to.raw(), info, before: (), after: () }
}

/// The last of these copies is refused with one validation error, and nothing is submitted.
#[track_caller]
fn assert_refused(
    gpu: &Simulated,
    full_images: &[WholeCopy<'_, SimulatedFixture>],
    why: impl Into<DeviceError>,
) {
    let why = why.into();
    let before = (gpu.device().submitted(FIRST), gpu.fixture().complaints_about("submit: "));
    let work = Submission { full_images, ..Submission::default() };
    assert_eq!(gpu.try_submit_all(FIRST, &work), Err(why));
    let after = (gpu.device().submitted(FIRST), gpu.fixture().complaints_about("submit: "));
    assert_eq!(after, (before.0, before.1 + 1));
    let validation_errors = gpu.device().validation_errors();
    assert!(validation_errors.last().unwrap().contains(&why.to_string()), "{validation_errors:#?}");
}

fn whole_images_of_different_descriptions_are_refused(gpu: &Simulated) {
    let (from, to) = (gpu.image(desc()), gpu.image(desc()));
    let [mut wide, mut high, mut levels, mut layers, mut samples, mut texels] = [desc(); 6];
    wide.extent[0] += 1;
    high.extent[1] += 1;
    levels.mip_levels = 2;
    layers.array_layers = 1;
    (samples.samples, samples.mip_levels) = (2, 1);
    texels.format = 8;
    for other in [wide, high, levels, layers, samples, texels] {
        let image = gpu.image(other);
        let why = CopyError::DifferentImages;
        assert_refused(gpu, &[whole(&from, &image, &desc())], why);
        assert_refused(gpu, &[whole(&image, &to, &desc())], why);
        assert_refused(gpu, &[whole(&from, &to, &other)], why);
        assert_refused(gpu, &[whole(&from, &image, &other)], why);
    }
    gpu.wait(gpu.submit_whole(FIRST, &[], &[whole(&from, &to, &desc())]));
}

fn a_whole_image_is_not_copied_onto_itself(gpu: &Simulated) {
    let needs = gpu.device().image_requirements(&desc()).unwrap();
    let step = needs.alignment.get();
    let apart = needs.alignment.align_up(needs.size);
    let memory = gpu.allocate(gpu.two_way_type(), apart + needs.size);
    let [from, over, behind] = [0, step, apart].map(|at| memory.image(at, desc()));
    assert!(step < needs.size, "what this test is about");
    let why = CopyError::Overlap;
    assert_refused(gpu, &[whole(&from, &from, &desc())], why);
    assert_refused(gpu, &[whole(&from, &over, &desc())], why);
    assert_refused(gpu, &[whole(&over, &from, &desc())], why);
    gpu.wait(gpu.submit_whole(FIRST, &[], &[whole(&from, &behind, &desc())]));
}

fn an_image_is_in_one_copy_of_a_submission(gpu: &Simulated) {
    let [a, b, c, d] = [(); 4].map(|()| gpu.image(desc()));
    let of = desc();
    let first = whole(&a, &b, &of);
    for second in [whole(&a, &c, &of), whole(&c, &a, &of), whole(&b, &c, &of), whole(&c, &b, &of)] {
        assert_refused(gpu, &[first, second], CopyError::ImageTwice);
    }
    let buffer = gpu.buffer(gpu.two_way_type(), 4096);
    let texel = TexelBlock::new(4);
    for image in [&a, &b] {
        let in_part = TexelCopy::<SimulatedFixture> {
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
            direction: CopyDirection::OutOfImage,
            before: (),
            after: (),
        };
        let (image_copies, full_images) = ([in_part], [first]);
        let work =
            Submission { image_copies: &image_copies, full_images: &full_images, ..Submission::default() };
        assert_eq!(gpu.try_submit_all(FIRST, &work), Err(CopyError::ImageTwice.into()));
    }
    gpu.wait(gpu.submit_whole(FIRST, &[], &[first, whole(&c, &d, &of)]));
}

fn a_whole_image_that_is_destroyed_too_early_is_a_complaint(gpu: &Simulated) {
    gpu.device().pause_queues();
    let (from, to) = (gpu.image(desc()), gpu.image(desc()));
    let kept = [from.memory().clone(), to.memory().clone()];
    let submitted = gpu.submit_whole(FIRST, &[], &[whole(&from, &to, &desc())]);
    for (count, image) in [(1, from), (2, to)] {
        // SAFETY: from this device; that a queue uses it is what the device shall say.
        unsafe { gpu.device().destroy_image(image.disown()) };
        assert_eq!(gpu.fixture().complaints_about("destroy_image: "), count);
    }
    gpu.device().resume_queues();
    gpu.wait(submitted);
    drop(kept);
}

fn a_whole_image_that_was_destroyed_is_refused(gpu: &Simulated) {
    let (from, to) = (gpu.image(desc()), gpu.image(desc()));
    let (kept, gone) = (from.memory().clone(), from.raw().clone());
    // SAFETY: from this device, and not used by a queue.
    unsafe { gpu.device().destroy_image(from.disown()) };
    let of = desc();
    let copy = WholeCopy::<SimulatedFixture> { from: &gone, to: to.raw(), info: &of, before: (), after: () };
    assert_refused(gpu, &[copy], DeviceError::Destroyed);
    drop(kept);
}

fn a_whole_images_memory_that_was_freed_is_refused(gpu: &Simulated) {
    let (from, to) = (gpu.image(desc()), gpu.image(desc()));
    // SAFETY: live, and not used by a queue.
    unsafe { gpu.device().free_memory(to.memory().disown()) };
    assert_refused(gpu, &[whole(&from, &to, &desc())], DeviceError::Destroyed);
}

fn all_samples_of_a_whole_image_are_copied(gpu: &Simulated) {
    let mut several = desc();
    (several.samples, several.mip_levels) = (8, 1);
    let needs = gpu.device().image_requirements(&several).unwrap();
    // Buffers over the images: nothing else gets at samples.
    let [from, to] = [(); 2].map(|()| gpu.allocate(gpu.two_way_type(), needs.size));
    let bytes = [from.buffer(0, needs.size), to.buffer(0, needs.size)];
    let images = [from.image(0, several), to.image(0, several)];
    gpu.put(&bytes[0], 0, &pattern(1, needs.size));
    gpu.put(&bytes[1], 0, &pattern(2, needs.size));
    gpu.wait(gpu.submit_whole(FIRST, &[], &[whole(&images[0], &images[1], &several)]));
    assert_same(&gpu.get(&bytes[1]), &pattern(1, needs.size), "the copy");
    assert_same(&gpu.get(&bytes[0]), &pattern(1, needs.size), "the source");
}

fn a_whole_image_is_read_when_the_queue_comes_to_it(gpu: &Simulated) {
    let needs = gpu.device().image_requirements(&desc()).unwrap();
    let [from, to] = [(); 2].map(|()| gpu.allocate(gpu.upload_type(), needs.size));
    let images = [from.image(0, desc()), to.image(0, desc())];
    let (read, written) = (from.map(), to.map());
    read.put(0, &pattern(1, needs.size));
    gpu.device().pause_queues();
    let submitted = gpu.submit_whole(FIRST, &[], &[whole(&images[0], &images[1], &desc())]);
    read.put(100, &pattern(2, 50));
    gpu.device().resume_queues();
    gpu.wait(submitted);
    let mut expected = pattern(1, needs.size);
    expected[100..150].copy_from_slice(&pattern(2, 50));
    assert_same(&written.get(0..needs.size), &expected, "what was there when the queue came to it");
}

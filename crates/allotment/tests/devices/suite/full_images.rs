//! Copies of whole images by queues: all texels of one arrive in another one of the same description.

use allotment::device::{
    BufferDesc, BufferDevice as _, CopyDirection, CopyError, DeviceError, ImageDesc, ImageDevice as _,
    QueueDevice as _, QueueIndex, QueueKind, Submission, TimelinePoint, TimelineValue,
};
use core::time::Duration;
use std::collections::BTreeSet;

use super::image_copies::{FIRST, Model, Part, TEXEL, desc, split, state, subresources};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, Image, ImageInfo, ImageState, WholeCopy, copy};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        each_mip_level_and_array_layer_arrives_and_the_source_keeps_its_texels,
        an_image_with_depth_arrives_whole,
        blocks_of_a_compressed_image_arrive_whole,
        all_whole_images_of_a_submission_arrive_beside_its_other_copies,
        every_queue_copies_whole_images,
        an_image_moves_again_and_again,
        whole_images_are_left_in_any_state_and_copied_with_buffers_again,
        whole_images_wait_for_what_they_are_told_to,
        an_image_of_several_samples_is_for_queues_that_draw,
        a_whole_image_for_a_queue_that_does_not_exist_is_refused,
        what_a_plain_description_makes_can_be_moved,
    ]
}

use CopyDirection::{IntoImage, OutOfImage};

/// An image, and what its texels should be.
struct Filled<'g, F: Fixture> {
    image: Image<'g, F>,
    info: ImageInfo<F>,
    /// All subresources, in a buffer.
    parts: Vec<Part>,
    model: Model,
}

impl<'g, F: Fixture> Filled<'g, F> {
    /// A new image with a pattern in all subresources, in the first state.
    fn new(gpu: &'g Gpu<F>, queue: QueueIndex, desc: ImageDesc, parts: Vec<Part>, seed: u64) -> Self {
        let (image, mut model) = (gpu.image(desc), Model::new(&desc));
        let size = parts.last().map_or(0, Part::end);
        let up = gpu.buffer(gpu.upload_type(), size);
        let mut sent = pattern(seed, size);
        parts.iter().for_each(|part| part.settle(&mut sent));
        gpu.put(&up, 0, &sent);
        let states = [ImageState::<F>::default(), state(gpu)];
        // The first aspect of a subresource finds it new, the others find it in the state that this one left it in.
        let mut written = BTreeSet::new();
        let mut copy = |part: &Part| {
            let is_new = written.insert((part.mip_level, part.array_layer));
            part.copy(&up, &image, IntoImage, if is_new { states } else { [states[1]; 2] })
        };
        let copies: Vec<_> = parts.iter().map(&mut copy).collect();
        gpu.wait(gpu.submit_images(queue, &[], &copies));
        parts.iter().for_each(|part| model.run(part, &mut sent, IntoImage));
        Self { image, info: desc.into(), parts, model }
    }

    fn copy_to<'a>(&'a self, to: &'a Image<'_, F>, [before, after]: [ImageState<F>; 2]) -> WholeCopy<'a, F> {
        WholeCopy::<F> { from: self.image.raw(), to: to.raw(), info: &self.info, before, after }
    }

    fn change_state(&self, gpu: &Gpu<F>, states: [ImageState<F>; 2]) {
        let none = gpu.buffer(gpu.upload_type(), 64);
        let changed = |part: &Part| part.empty().copy(&none, &self.image, IntoImage, states);
        let copies: Vec<_> = self.parts.iter().map(changed).collect();
        gpu.wait(gpu.submit_images(FIRST, &[], &copies));
    }

    /// Writes another pattern into the first subresource.
    fn write_first(&mut self, gpu: &Gpu<F>, now: ImageState<F>, seed: u64) {
        let part = self.parts[0];
        let up = gpu.buffer(gpu.upload_type(), part.end());
        let mut sent = pattern(seed, part.end());
        gpu.put(&up, 0, &sent);
        gpu.wait(gpu.submit_images(FIRST, &[], &[part.copy(&up, &self.image, IntoImage, [now; 2])]));
        self.model.run(&part, &mut sent, IntoImage);
    }

    /// Reads all texels of an image that is in a state, and stays in it. They are those of this one.
    #[track_caller]
    fn assert_same_as(
        &self,
        gpu: &Gpu<F>,
        queue: QueueIndex,
        image: &Image<'_, F>,
        now: ImageState<F>,
        what: &str,
    ) {
        let size = self.parts.last().map_or(0, Part::end);
        let down = gpu.buffer(gpu.readback_type(), size);
        let (mut expected, mut model) = (pattern(99, size), self.model.clone());
        gpu.put(&down, 0, &expected);
        let out = |part: &Part| part.copy(&down, image, OutOfImage, [now; 2]);
        let copies: Vec<_> = self.parts.iter().map(out).collect();
        gpu.wait(gpu.submit_images(queue, &[], &copies));
        self.parts.iter().for_each(|part| model.run(part, &mut expected, OutOfImage));
        let mut found = gpu.get(&down);
        for part in &self.parts {
            part.settle(&mut found);
            part.settle(&mut expected);
        }
        assert_same(&found, &expected, (what, queue));
    }
}

/// Copies an image into another one, and reads both.
#[track_caller]
pub(super) fn assert_arrives<F: Fixture>(gpu: &Gpu<F>, queue: QueueIndex, desc: ImageDesc, parts: Vec<Part>) {
    assert!(gpu.device().relocatable_image_info(&desc.into()).is_some(), "{desc:?}");
    let from = Filled::new(gpu, queue, desc, parts, 1);
    let to = gpu.image(desc);
    let now = state(gpu);
    gpu.wait(gpu.submit_whole(queue, &[], &[from.copy_to(&to, [now; 2])]));
    from.assert_same_as(gpu, queue, &to, now, "the copy");
    from.assert_same_as(gpu, queue, &from.image, now, "the source");
}

#[track_caller]
fn assert_texels_arrive<F: Fixture>(gpu: &Gpu<F>, queue: QueueIndex, desc: ImageDesc) {
    assert_arrives(gpu, queue, desc, subresources(gpu, &desc, TEXEL));
}

fn each_mip_level_and_array_layer_arrives_and_the_source_keeps_its_texels<F: Fixture>(gpu: &Gpu<F>) {
    for (extent, mip_levels, array_layers) in [
        ([1, 1, 1], 1, 1),
        ([501, 77, 1], 1, 1),
        ([64, 64, 1], 7, 1),
        ([33, 20, 1], 1, 6),
        ([37, 90, 1], 6, 4),
    ] {
        assert_texels_arrive(gpu, FIRST, split(desc(gpu, extent), mip_levels, array_layers));
    }
}

fn an_image_with_depth_arrives_whole<F: Fixture>(gpu: &Gpu<F>) {
    for (extent, mip_levels) in [([20, 12, 9], 1), ([20, 12, 9], 5), ([3, 2, 40], 3)] {
        assert_texels_arrive(gpu, FIRST, split(desc(gpu, extent), mip_levels, 1));
    }
}

fn blocks_of_a_compressed_image_arrive_whole<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let none = Outcome::DoesNotApply("the device has no compressed images");
    let Some((format, block)) = gpu.fixture().compressed_format() else { return none };
    let desc = split(ImageDesc::new(52, 20, format), 5, 2);
    if gpu.device().image_requirements(&desc.into()).is_err() {
        return none;
    }
    assert_arrives(gpu, FIRST, desc, subresources(gpu, &desc, block));
    Outcome::Ran
}

fn all_whole_images_of_a_submission_arrive_beside_its_other_copies<F: Fixture>(gpu: &Gpu<F>) {
    const IMAGES: u32 = 20;
    const APART: [u32; 3] = [16, 16, 1];
    let now = state(gpu);
    let make = |i: u32| {
        let desc = split(desc(gpu, [1 + 7 * i, 8 + i % 3, 1]), 1 + i % 4, 1 + i % 3);
        let parts = subresources(gpu, &desc, TEXEL);
        (Filled::new(gpu, FIRST, desc, parts, i.into()), gpu.image(desc))
    };
    let pairs: Vec<_> = (0..IMAGES).map(make).collect();
    let full_images: Vec<_> = pairs.iter().map(|(from, to)| from.copy_to(to, [now; 2])).collect();

    let apart = Part::new(gpu, TEXEL, APART, 0);
    let size = apart.end();
    let [up, from] = [(); 2].map(|()| gpu.buffer(gpu.upload_type(), size));
    let to = gpu.buffer(gpu.readback_type(), size);
    gpu.put(&up, 0, &pattern(1, size));
    gpu.put(&from, 0, &pattern(2, size));
    let image = gpu.image(desc(gpu, APART));
    // Into the image and over it again, so that there is more than one wave.
    let into = apart.copy(&up, &image, IntoImage, [ImageState::<F>::default(), now]);
    let again = apart.copy(&up, &image, IntoImage, [now; 2]);
    let (copies, image_copies) = ([copy(&from, 0, &to, 0, size)], [into, again]);
    let work = Submission {
        copies: &copies,
        image_copies: &image_copies,
        full_images: &full_images,
        ..Submission::default()
    };
    gpu.wait(gpu.try_submit_all(FIRST, &work).unwrap());

    for (from, to) in &pairs {
        from.assert_same_as(gpu, FIRST, to, now, "the copy");
        from.assert_same_as(gpu, FIRST, &from.image, now, "the source");
    }
    assert_same(&gpu.get(&to), &pattern(2, size), "bytes");
    let mut model = Model::new(&desc(gpu, APART));
    model.run(&apart, &mut pattern(1, size), IntoImage);
    let info = desc(gpu, APART).into();
    let apart = Filled { image, info, parts: vec![apart], model };
    apart.assert_same_as(gpu, FIRST, &apart.image, now, "texels");
}

fn every_queue_copies_whole_images<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        assert_texels_arrive(gpu, queue, split(desc(gpu, [48, 31, 1]), 3, 2));
        assert_texels_arrive(gpu, queue, split(desc(gpu, [9, 31, 5]), 2, 1));
    }
}

fn an_image_moves_again_and_again<F: Fixture>(gpu: &Gpu<F>) {
    let desc = split(desc(gpu, [40, 24, 1]), 3, 2);
    let now = state(gpu);
    let mut from = Filled::new(gpu, FIRST, desc, subresources(gpu, &desc, TEXEL), 1);
    for _ in 0..10 {
        let to = gpu.image(desc);
        gpu.wait(gpu.submit_whole(FIRST, &[], &[from.copy_to(&to, [now; 2])]));
        // The image before goes, and with it its memory.
        from.image = to;
    }
    from.assert_same_as(gpu, FIRST, &from.image, now, "the last of them");
}

fn whole_images_are_left_in_any_state_and_copied_with_buffers_again<F: Fixture>(gpu: &Gpu<F>) {
    let desc = split(desc(gpu, [30, 22, 1]), 3, 2);
    let states = gpu.fixture().image_states();
    let mut from = Filled::new(gpu, FIRST, desc, subresources(gpu, &desc, TEXEL), 1);
    let mut now = state(gpu);
    for (seed, &before) in (2..).zip(states) {
        for &after in states {
            from.change_state(gpu, [now, before]);
            let to = gpu.image(desc);
            gpu.wait(gpu.submit_whole(FIRST, &[], &[from.copy_to(&to, [before, after])]));
            from.assert_same_as(gpu, FIRST, &to, after, "the copy");
            from.assert_same_as(gpu, FIRST, &from.image, before, "the source");
            now = before;
            if before == after {
                // The next copies are of this one, written to after it was made.
                from.image = to;
                from.write_first(gpu, now, seed);
                from.assert_same_as(gpu, FIRST, &from.image, now, "the copy, written to");
            }
        }
    }
}

fn whole_images_wait_for_what_they_are_told_to<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let Some(other) = gpu.queues().nth(1) else {
        return Outcome::DoesNotApply("the device has one queue");
    };
    let desc = split(desc(gpu, [40, 24, 1]), 3, 2);
    let now = state(gpu);
    let from = Filled::new(gpu, FIRST, desc, subresources(gpu, &desc, TEXEL), 1);
    let to = gpu.image(desc);
    let awaited = TimelinePoint { queue: other, value: TimelineValue(gpu.device().submitted(other).0 + 1) };
    let copied = gpu.submit_whole(FIRST, &[awaited], &[from.copy_to(&to, [now; 2])]);
    let soon = Duration::from_millis(20);
    assert!(
        gpu.device().wait(copied, soon).is_err_and(DeviceError::is_timeout),
        "what it waits for was not submitted"
    );
    assert_eq!(gpu.submit(other, &[], &[]), awaited);
    gpu.wait(copied);
    from.assert_same_as(gpu, FIRST, &to, now, "the copy");
    Outcome::Ran
}

fn an_image_of_several_samples_is_for_queues_that_draw<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    gpu.fixture().expect_complaints("submit: ");
    let mut desc = desc(gpu, [32, 32, 1]);
    desc.samples = 4;
    if gpu.device().image_requirements(&desc.into()).is_err() {
        return Outcome::DoesNotApply("the device has no images of several samples");
    }
    let queues = &gpu.properties().queues;
    let others: Vec<_> =
        gpu.queues().filter(|queue| queues[usize::from(queue.0)] != QueueKind::Graphics).collect();
    if others.is_empty() {
        return Outcome::DoesNotApply("all queues draw");
    }
    let (from, to) = (gpu.image(desc), gpu.image(desc));
    let (info, now): (ImageInfo<F>, _) = (desc.into(), state(gpu));
    for queue in others {
        let full_images =
            [WholeCopy::<F> { from: from.raw(), to: to.raw(), info: &info, before: now, after: now }];
        let work = Submission { full_images: &full_images, ..Submission::default() };
        assert_eq!(gpu.try_submit_all(queue, &work), Err(CopyError::NeedsGraphicsQueue.into()), "{queue:?}");
        assert_eq!(gpu.device().submitted(queue), TimelineValue(0));
    }
    Outcome::Ran
}

fn a_whole_image_for_a_queue_that_does_not_exist_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    gpu.fixture().expect_complaints("submit: ");
    let desc = desc(gpu, [8, 8, 1]);
    let from = Filled::new(gpu, FIRST, desc, subresources(gpu, &desc, TEXEL), 1);
    let to = gpu.image(desc);
    let full_images = [from.copy_to(&to, [state(gpu); 2])];
    let work = Submission { full_images: &full_images, ..Submission::default() };
    let queue = QueueIndex(u8::MAX);
    assert_eq!(gpu.try_submit_all(queue, &work), Err(DeviceError::NoSuchQueue { queue }));
}

fn what_a_plain_description_makes_can_be_moved<F: Fixture>(gpu: &Gpu<F>) {
    assert!(gpu.device().relocatable_buffer_info(&BufferDesc::new(1).into()).is_some());
    assert!(gpu.device().buffer_transfer_usage(&BufferDesc::new(1).into()).is_all());
    let flat = desc(gpu, [16, 16, 1]);
    let mut several = flat;
    several.samples = 4;
    for desc in [flat, split(flat, 5, 3), desc(gpu, [4, 5, 6]), several] {
        assert!(gpu.device().relocatable_image_info(&desc.into()).is_some(), "{desc:?}");
    }
}

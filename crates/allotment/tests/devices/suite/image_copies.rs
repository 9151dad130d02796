//! Copies of images by queues: the right texels to the right place, and no others.

use std::collections::BTreeMap;

use allotment::device::{
    CopyDirection, CopyError, Device, ImageAspect, ImageCopy, ImageDesc, ImageDevice, QueueDevice as _,
    QueueIndex, Submission, TexelBlock, TexelLayout, TimelineValue,
};

use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, Values, tests};
use crate::gpu::{Buffer, Gpu, Image, ImageState, TexelCopy, copy};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        whole_images_come_back_as_they_went_up,
        a_box_of_an_image_is_copied_and_nothing_beside_it,
        each_mip_level_is_copied,
        each_array_layer_is_copied,
        an_image_with_depth_is_copied,
        rows_and_slices_may_be_further_apart_than_they_need,
        blocks_of_a_compressed_image_are_copied,
        every_queue_copies_images,
        boxes_of_one_subresource_are_written_in_their_order,
        what_one_copy_writes_the_next_reads_in_the_same_submission,
        images_and_buffers_are_copied_by_the_same_submission,
        more_images_are_copied_at_once_than_one_barrier_takes,
        a_box_without_texels_only_changes_the_state,
        rows_and_texel_blocks_that_no_copy_has_are_refused,
        any_sequence_of_image_copies_does_what_a_model_does,
    ]
}

use CopyDirection::{IntoImage, OutOfImage};

pub(super) const FIRST: QueueIndex = QueueIndex(0);

/// Of the format that all fixtures have.
pub(super) const TEXEL: TexelBlock = TexelBlock::new(4);

/// A box of texels of an aspect of a subresource, and where it lies in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) mip_level: u32,
    pub(super) array_layer: u32,
    pub(super) aspect: ImageAspect,
    pub(super) origin: [u32; 3],
    pub(super) extent: [u32; 3],
    pub(super) texels: TexelLayout,
    /// The texel block of the aspect.
    pub(super) texel: TexelBlock,
    pub(super) values: Values,
    pub(super) offset: u64,
    pub(super) row_pitch: u64,
    pub(super) rows: u32,
}

impl Part {
    /// A box that lies in a buffer as close to `at` as the device takes it.
    pub(super) fn new<F: Fixture>(gpu: &Gpu<F>, texel: TexelBlock, extent: [u32; 3], at: u64) -> Self {
        Self::of_aspect(gpu, texel.into(), ImageAspect::Color, extent, at)
    }

    /// A box of an aspect that the format has.
    pub(super) fn of_aspect<F: Fixture>(
        gpu: &Gpu<F>,
        texels: TexelLayout,
        aspect: ImageAspect,
        extent: [u32; 3],
        at: u64,
    ) -> Self {
        let (limits, texel) = (&gpu.properties().limits, texels.block(aspect).unwrap());
        Self {
            mip_level: 0,
            array_layer: 0,
            aspect,
            origin: [0; 3],
            extent,
            texels,
            texel,
            values: Values::Any,
            offset: texel.offset(at, limits),
            row_pitch: texel.row_pitch(extent[0], limits),
            rows: texel.rows(extent[1]),
        }
    }

    pub(super) fn of(self, mip_level: u32, array_layer: u32) -> Self {
        Self { mip_level, array_layer, ..self }
    }

    /// The same box, further on in the buffer by as many bytes.
    pub(super) fn moved(self, by: u64) -> Self {
        Self { offset: self.offset + by, ..self }
    }

    /// The same box at the start of a buffer, without bytes between rows and slices.
    pub(super) fn tight(self) -> Self {
        let (row_pitch, rows) = (self.texel.row_bytes(self.extent[0]), self.texel.rows(self.extent[1]));
        Self { offset: 0, row_pitch, rows, ..self }
    }

    /// The offset of a row of blocks in the buffer, of those of the first slice.
    pub(super) fn line(&self, line: usize) -> usize {
        self.offset as usize + line * self.row_pitch as usize
    }

    pub(super) fn with(self, values: Values) -> Self {
        Self { values, ..self }
    }

    /// Makes the bytes of the part in a buffer ones that come back from the image as they went up.
    pub(super) fn settle(&self, buffer: &mut [u8]) {
        if self.aspect != ImageAspect::Depth || self.values == Values::Any || self.extent.contains(&0) {
            return;
        }
        let size = self.texel.row_bytes(self.extent[0]) as usize;
        for slice in 0..u64::from(self.extent[2]) {
            for line in 0..u64::from(self.texel.rows(self.extent[1])) {
                let at = self.offset + (slice * u64::from(self.rows) + line) * self.row_pitch;
                for texel in buffer[at as usize..][..size].chunks_exact_mut(4) {
                    let word = self.values.settled(u32::from_le_bytes(texel.try_into().unwrap()));
                    texel.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
    }

    pub(super) fn at(self, origin: [u32; 3]) -> Self {
        Self { origin, ..self }
    }

    /// None of its texels, so that a copy only changes the state.
    pub(super) fn empty(self) -> Self {
        Self { extent: [0; 3], offset: 0, ..self }
    }

    /// The first byte behind it in the buffer.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.texel.span(self.extent, self.row_pitch, self.rows).unwrap()
    }

    /// A copy out of an image that stays in the state.
    pub(super) fn copy_raw<'a, F: Fixture>(
        &self,
        buffer: &'a Buffer<'_, F>,
        image: &'a <F::Device as ImageDevice>::Image,
        state: ImageState<F>,
    ) -> TexelCopy<'a, F> {
        self.between(buffer.raw(), image, OutOfImage, [state; 2])
    }

    pub(super) fn copy<'a, F: Fixture>(
        &self,
        buffer: &'a Buffer<'_, F>,
        image: &'a Image<'_, F>,
        direction: CopyDirection,
        states: [ImageState<F>; 2],
    ) -> TexelCopy<'a, F> {
        self.between(buffer.raw(), image.raw(), direction, states)
    }

    fn between<'a, D: Device>(
        &self,
        buffer: &'a D::Buffer,
        image: &'a D::Image,
        direction: CopyDirection,
        [before, after]: [D::ImageState; 2],
    ) -> ImageCopy<'a, D> {
        ImageCopy {
            buffer,
            buffer_offset: self.offset,
            row_pitch: self.row_pitch,
            rows: self.rows,
            image,
            mip_level: self.mip_level,
            array_layer: self.array_layer,
            origin: self.origin,
            extent: self.extent,
            aspect: self.aspect,
            texels: self.texels,
            direction,
            before,
            after,
        }
    }
}

/// The bytes of an image, aspect by aspect of each subresource, in rows without gaps.
#[derive(Clone)]
pub(super) struct Model {
    extent: [u32; 3],
    /// By mip level, array layer and aspect.
    subresources: BTreeMap<(u32, u32, ImageAspect), Vec<u8>>,
}

impl Model {
    pub(super) fn new(desc: &ImageDesc) -> Self {
        Self { extent: desc.extent, subresources: BTreeMap::new() }
    }

    /// Does in memory what a copy does.
    pub(super) fn run(&mut self, part: &Part, buffer: &mut [u8], direction: CopyDirection) {
        let texel = part.texel;
        let [width, height, depth] = level(self.extent, part.mip_level, &part.texels, part.aspect);
        let (row, rows) = (texel.row_bytes(width) as usize, texel.rows(height) as usize);
        let subresource = self.subresources.entry((part.mip_level, part.array_layer, part.aspect));
        let image = subresource.or_insert_with(|| vec![0; row * rows * depth as usize]);
        let [x, y, z] = part.origin;
        let first = (y / texel.height) as usize;
        let size = texel.row_bytes(part.extent[0]) as usize;
        for slice in 0..part.extent[2] as usize {
            for line in 0..texel.rows(part.extent[1]) as usize {
                let in_image = ((z as usize + slice) * rows + first + line) * row
                    + (x / texel.width * texel.bytes) as usize;
                let in_buffer =
                    part.offset as usize + (slice * part.rows as usize + line) * part.row_pitch as usize;
                let (image, buffer) = (&mut image[in_image..][..size], &mut buffer[in_buffer..][..size]);
                match direction {
                    IntoImage => image.copy_from_slice(buffer),
                    OutOfImage => buffer.copy_from_slice(image),
                }
            }
        }
    }
}

/// The extent of an aspect of a mip level: a plane may have a texel for several of the image's.
fn level(extent: [u32; 3], mip_level: u32, texels: &TexelLayout, aspect: ImageAspect) -> [u32; 3] {
    let [width, height, depth] = extent.map(|length| (length >> mip_level).max(1));
    let [wide, high] = texels.subsampling(aspect);
    [width.div_ceil(wide), height.div_ceil(high), depth]
}

pub(super) fn state<F: Fixture>(gpu: &Gpu<F>) -> ImageState<F> {
    gpu.fixture().image_states()[0]
}

pub(super) fn desc<F: Fixture>(gpu: &Gpu<F>, extent: [u32; 3]) -> ImageDesc {
    let mut desc = ImageDesc::new(extent[0], extent[1], gpu.fixture().image_format());
    desc.extent = extent;
    desc
}

/// Sets the number of mip levels and array layers.
pub(super) fn split(mut desc: ImageDesc, mip_levels: u32, array_layers: u32) -> ImageDesc {
    (desc.mip_levels, desc.array_layers) = (mip_levels, array_layers);
    desc
}

/// Copies parts into a new image by one submission, and parts out of it by another that waits for it. What
/// arrives is what a model says, between the parts too.
#[track_caller]
pub(super) fn assert_round_trip<F: Fixture>(
    gpu: &Gpu<F>,
    queue: QueueIndex,
    desc: ImageDesc,
    into: &[Part],
    out: &[Part],
) {
    let end = |parts: &[Part]| parts.iter().map(Part::end).max().unwrap();
    let up = gpu.buffer(gpu.upload_type(), end(into));
    let down = gpu.buffer(gpu.readback_type(), end(out));
    let (mut sent, mut expected) = (pattern(1, end(into)), pattern(2, end(out)));
    into.iter().for_each(|part| part.settle(&mut sent));
    gpu.put(&up, 0, &sent);
    gpu.put(&down, 0, &expected);
    let mut model = Model::new(&desc);
    let image = gpu.image(desc);
    let mut copies = Vec::new();
    for part in into {
        // All aspects of a subresource are in one state.
        let subresource = |&(level, layer, _): &_| (level, layer) == (part.mip_level, part.array_layer);
        let begun = model.subresources.keys().any(subresource);
        let before = if begun { state(gpu) } else { ImageState::<F>::default() };
        copies.push(part.copy(&up, &image, IntoImage, [before, state(gpu)]));
        model.run(part, &mut sent, IntoImage);
    }
    let uploaded = gpu.submit_images(queue, &[], &copies);
    copies.clear();
    for part in out {
        copies.push(part.copy(&down, &image, OutOfImage, [state(gpu); 2]));
        model.run(part, &mut expected, OutOfImage);
    }
    gpu.wait(gpu.submit_images(queue, &[uploaded], &copies));
    let mut found = gpu.get(&down);
    for part in out {
        part.settle(&mut found);
        part.settle(&mut expected);
    }
    assert_same(&found, &expected, (queue, desc, into, out));
}

fn whole_images_come_back_as_they_went_up<F: Fixture>(gpu: &Gpu<F>) {
    for extent in [[1, 1, 1], [17, 3, 1], [64, 64, 1], [3, 100, 1], [501, 77, 1]] {
        let whole = Part::new(gpu, TEXEL, extent, 0);
        let later = Part::new(gpu, TEXEL, extent, 1);
        assert_round_trip(gpu, FIRST, desc(gpu, extent), &[whole], &[whole]);
        assert_round_trip(gpu, FIRST, desc(gpu, extent), &[later], &[later]);
    }
}

fn a_box_of_an_image_is_copied_and_nothing_beside_it<F: Fixture>(gpu: &Gpu<F>) {
    let whole = Part::new(gpu, TEXEL, [40, 30, 1], 0);
    for (origin, extent) in [
        ([0, 0, 0], [1, 1, 1]),
        ([39, 29, 0], [1, 1, 1]),
        ([5, 7, 0], [9, 4, 1]),
        ([0, 11, 0], [40, 2, 1]),
        ([33, 0, 0], [7, 30, 1]),
    ] {
        let part = Part::new(gpu, TEXEL, extent, whole.end()).at(origin);
        assert_round_trip(gpu, FIRST, desc(gpu, [40, 30, 1]), &[whole, part], &[whole]);
        assert_round_trip(gpu, FIRST, desc(gpu, [40, 30, 1]), &[whole], &[part]);
    }
}

/// Every subresource as a part, one after the other in the buffer.
pub(super) fn subresources<F: Fixture>(gpu: &Gpu<F>, desc: &ImageDesc, texel: TexelBlock) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for layer in 0..desc.array_layers {
        for level in 0..desc.mip_levels {
            let extent = desc.extent.map(|length| (length >> level).max(1));
            let at = parts.last().map_or(0, Part::end);
            parts.push(Part::new(gpu, texel, extent, at).of(level, layer));
        }
    }
    parts
}

/// Every aspect of every subresource as a part, one after the other in the buffer.
pub(super) fn aspects<F: Fixture>(gpu: &Gpu<F>, desc: &ImageDesc, values: Values) -> Vec<Part> {
    let texels = gpu.device().image_shape(&(*desc).into()).texels;
    let mut parts: Vec<Part> = Vec::new();
    for layer in 0..desc.array_layers {
        for mip_level in 0..desc.mip_levels {
            for aspect in texels.aspects() {
                let extent = level(desc.extent, mip_level, &texels, aspect);
                let at = parts.last().map_or(0, Part::end);
                let part = Part::of_aspect(gpu, texels, aspect, extent, at).with(values);
                parts.push(part.of(mip_level, layer));
            }
        }
    }
    parts
}

/// Copies all subresources at once, and each alone back.
#[track_caller]
fn assert_all_come_back<F: Fixture>(gpu: &Gpu<F>, desc: ImageDesc, texel: TexelBlock) {
    let parts = subresources(gpu, &desc, texel);
    assert_round_trip(gpu, FIRST, desc, &parts, &parts);
    for part in &parts {
        assert_round_trip(gpu, FIRST, desc, &parts, &[*part]);
    }
}

fn each_mip_level_is_copied<F: Fixture>(gpu: &Gpu<F>) {
    for (extent, mip_levels) in [([64, 64, 1], 7), ([37, 90, 1], 6), ([128, 3, 1], 8)] {
        assert_all_come_back(gpu, split(desc(gpu, extent), mip_levels, 1), TEXEL);
    }
}

fn each_array_layer_is_copied<F: Fixture>(gpu: &Gpu<F>) {
    assert_all_come_back(gpu, split(desc(gpu, [33, 20, 1]), 1, 6), TEXEL);
    let both = split(desc(gpu, [50, 20, 1]), 4, 3);
    assert_all_come_back(gpu, both, TEXEL);
}

fn an_image_with_depth_is_copied<F: Fixture>(gpu: &Gpu<F>) {
    let deep = split(desc(gpu, [20, 12, 9]), 3, 1);
    assert_all_come_back(gpu, deep, TEXEL);
    let whole = Part::new(gpu, TEXEL, deep.extent, 0);
    let part = Part::new(gpu, TEXEL, [5, 4, 3], whole.end()).at([7, 8, 6]);
    assert_round_trip(gpu, FIRST, deep, &[whole, part], &[whole]);
    assert_round_trip(gpu, FIRST, deep, &[whole], &[part]);
}

fn rows_and_slices_may_be_further_apart_than_they_need<F: Fixture>(gpu: &Gpu<F>) {
    let step = TEXEL.row_pitch(1, &gpu.properties().limits);
    for extent in [[33, 5, 1], [1, 7, 1], [13, 6, 5]] {
        let tight = Part::new(gpu, TEXEL, extent, 0);
        let wide = Part { row_pitch: tight.row_pitch + 3 * step, ..tight };
        let high = Part { rows: tight.rows + 3, ..tight };
        for (into, out) in [(wide, tight), (tight, wide), (high, tight), (tight, high), (high, wide)] {
            assert_round_trip(gpu, FIRST, desc(gpu, extent), &[into], &[out]);
        }
    }
}

fn blocks_of_a_compressed_image_are_copied<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let none = Outcome::DoesNotApply("the device has no compressed images");
    let Some((format, block)) = gpu.fixture().compressed_format() else { return none };
    let desc = split(ImageDesc::new(52, 20, format), 5, 2);
    if gpu.device().image_requirements(&desc.into()).is_err() {
        return none;
    }
    // The smaller levels are no whole blocks.
    assert_all_come_back(gpu, desc, block);
    let parts = subresources(gpu, &desc, block);
    let part = Part::new(gpu, block, [8, 12, 1], parts.last().unwrap().end()).at([12, 8, 0]).of(0, 1);
    let into: Vec<_> = parts.iter().copied().chain([part]).collect();
    assert_round_trip(gpu, FIRST, desc, &into, &parts);
    Outcome::Ran
}

fn every_queue_copies_images<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        // Whole images: the smallest part that a queue for copies moves may be larger than a texel.
        let desc = split(desc(gpu, [48, 31, 1]), 3, 2);
        let parts = subresources(gpu, &desc, TEXEL);
        assert_round_trip(gpu, queue, desc, &parts, &parts);
    }
}

fn boxes_of_one_subresource_are_written_in_their_order<F: Fixture>(gpu: &Gpu<F>) {
    let whole = Part::new(gpu, TEXEL, [64, 64, 1], 0);
    let mut parts = vec![whole];
    // Side by side, then across all of them, so that the last to be written shows.
    for (origin, extent) in [
        ([0, 0, 0], [20, 20, 1]),
        ([20, 0, 0], [20, 20, 1]),
        ([10, 10, 0], [20, 20, 1]),
        ([0, 0, 0], [64, 15, 1]),
        ([13, 2, 0], [1, 1, 1]),
    ] {
        let at = parts.last().map_or(0, Part::end);
        parts.push(Part::new(gpu, TEXEL, extent, at).at(origin));
    }
    for _ in 0..5 {
        assert_round_trip(gpu, FIRST, desc(gpu, [64, 64, 1]), &parts, &[whole]);
    }
}

fn what_one_copy_writes_the_next_reads_in_the_same_submission<F: Fixture>(gpu: &Gpu<F>) {
    let extent = [100, 50, 1];
    let whole = Part::new(gpu, TEXEL, extent, 0);
    let part = Part::new(gpu, TEXEL, [10, 5, 1], whole.end()).at([30, 20, 0]);
    let second = Part::new(gpu, TEXEL, extent, whole.end());
    let up = gpu.buffer(gpu.upload_type(), part.end());
    let down = gpu.buffer(gpu.readback_type(), second.end());
    let (mut sent, mut expected) = (pattern(1, part.end()), pattern(2, second.end()));
    gpu.put(&up, 0, &sent);
    gpu.put(&down, 0, &expected);
    let image = gpu.image(desc(gpu, extent));
    let mut model = Model::new(&desc(gpu, extent));
    let (new, same) = ([ImageState::<F>::default(), state(gpu)], [state(gpu); 2]);
    let copies = [
        whole.copy(&up, &image, IntoImage, new),
        whole.copy(&down, &image, OutOfImage, same),
        part.copy(&up, &image, IntoImage, same),
        second.copy(&down, &image, OutOfImage, same),
    ];
    model.run(&whole, &mut sent, IntoImage);
    model.run(&whole, &mut expected, OutOfImage);
    model.run(&part, &mut sent, IntoImage);
    model.run(&second, &mut expected, OutOfImage);
    gpu.wait(gpu.submit_images(FIRST, &[], &copies));
    assert_same(&gpu.get(&down), &expected, "up, down, a part up, down");
}

fn images_and_buffers_are_copied_by_the_same_submission<F: Fixture>(gpu: &Gpu<F>) {
    let whole = Part::new(gpu, TEXEL, [32, 32, 1], 0);
    let size = whole.end();
    let [up, from] = [(); 2].map(|()| gpu.buffer(gpu.upload_type(), size));
    let [down, to] = [(); 2].map(|()| gpu.buffer(gpu.readback_type(), size));
    gpu.put(&up, 0, &pattern(1, size));
    gpu.put(&from, 0, &pattern(2, size));
    gpu.put(&down, 0, &pattern(3, size));
    let image = gpu.image(desc(gpu, [32, 32, 1]));
    let into = [whole.copy(&up, &image, IntoImage, [ImageState::<F>::default(), state(gpu)])];
    let out = [whole.copy(&down, &image, OutOfImage, [state(gpu); 2])];
    let half = size / 2;
    let first = [copy(&from, 0, &to, half, size - half)];
    let second = [copy(&from, size - half, &to, 0, half)];
    let submission = Submission { copies: &first, image_copies: &into, ..Submission::default() };
    let uploaded = gpu.try_submit_all(FIRST, &submission).unwrap();
    let waits = [uploaded];
    let submission =
        Submission { waits: &waits, copies: &second, image_copies: &out, ..Submission::default() };
    gpu.wait(gpu.try_submit_all(FIRST, &submission).unwrap());

    let mut model = Model::new(&desc(gpu, [32, 32, 1]));
    let mut expected = pattern(3, size);
    model.run(&whole, &mut pattern(1, size), IntoImage);
    model.run(&whole, &mut expected, OutOfImage);
    assert_same(&gpu.get(&down), &expected, "texels");
    let mut halves = pattern(2, size);
    halves.rotate_left((size - half) as usize);
    assert_same(&gpu.get(&to), &halves, "bytes");
}

fn more_images_are_copied_at_once_than_one_barrier_takes<F: Fixture>(gpu: &Gpu<F>) {
    const IMAGES: usize = 150;
    let mut parts: Vec<Part> = Vec::new();
    for i in 0..IMAGES as u32 {
        let at = parts.last().map_or(0, Part::end);
        parts.push(Part::new(gpu, TEXEL, [1 + i % 7, 1 + i % 5, 1], at));
    }
    let size = parts.last().unwrap().end();
    let up = gpu.buffer(gpu.upload_type(), size);
    let down = gpu.buffer(gpu.readback_type(), size);
    let (mut sent, mut expected) = (pattern(1, size), pattern(2, size));
    gpu.put(&up, 0, &sent);
    gpu.put(&down, 0, &expected);
    let images: Vec<_> = parts.iter().map(|part| gpu.image(desc(gpu, part.extent))).collect();
    let each = || parts.iter().zip(&images);
    let new = [ImageState::<F>::default(), state(gpu)];
    let into: Vec<_> = each().map(|(part, image)| part.copy(&up, image, IntoImage, new)).collect();
    let out: Vec<_> =
        each().map(|(part, image)| part.copy(&down, image, OutOfImage, [state(gpu); 2])).collect();
    for part in &parts {
        let mut model = Model::new(&desc(gpu, part.extent));
        model.run(part, &mut sent, IntoImage);
        model.run(part, &mut expected, OutOfImage);
    }
    let uploaded = gpu.submit_images(FIRST, &[], &into);
    gpu.wait(gpu.submit_images(FIRST, &[uploaded], &out));
    assert_same(&gpu.get(&down), &expected, "all images");
}

fn a_box_without_texels_only_changes_the_state<F: Fixture>(gpu: &Gpu<F>) {
    let whole = Part::new(gpu, TEXEL, [16, 16, 1], 0);
    let empty = Part { extent: [0, 16, 1], ..whole };
    let up = gpu.buffer(gpu.upload_type(), whole.end());
    let down = gpu.buffer(gpu.readback_type(), whole.end());
    gpu.put(&up, 0, &pattern(1, whole.end()));
    let mut expected = pattern(2, whole.end());
    gpu.put(&down, 0, &expected);
    let image = gpu.image(desc(gpu, [16, 16, 1]));
    let mut model = Model::new(&desc(gpu, [16, 16, 1]));
    model.run(&whole, &mut pattern(1, whole.end()), IntoImage);
    model.run(&whole, &mut expected, OutOfImage);
    let mut last = gpu.submit_images(
        FIRST,
        &[],
        &[whole.copy(&up, &image, IntoImage, [ImageState::<F>::default(), state(gpu)])],
    );
    let mut now = state(gpu);
    for &next in gpu.fixture().image_states() {
        let copies = [empty.copy(&up, &image, IntoImage, [now, next])];
        last = gpu.submit_images(FIRST, &[last], &copies);
        now = next;
    }
    let copies = [whole.copy(&down, &image, OutOfImage, [now, state(gpu)])];
    gpu.wait(gpu.submit_images(FIRST, &[last], &copies));
    assert_same(&gpu.get(&down), &expected, "what was there before the states changed");
}

fn rows_and_texel_blocks_that_no_copy_has_are_refused<F: Fixture>(gpu: &Gpu<F>) {
    gpu.fixture().expect_complaints("submit: ");
    let whole = Part::new(gpu, TEXEL, [16, 16, 1], 0);
    let (buffer, image) = (gpu.buffer(gpu.upload_type(), whole.end()), gpu.image(desc(gpu, [16, 16, 1])));
    let rows = CopyError::Rows { row_pitch: 1, rows: whole.rows };
    for (wrong, why) in [
        (Part { row_pitch: 1, ..whole }, rows),
        (Part { texels: TexelBlock { bytes: 0, ..TEXEL }.into(), ..whole }, CopyError::WrongTexel),
        (Part { texels: TexelBlock { width: 0, ..TEXEL }.into(), ..whole }, CopyError::WrongTexel),
        (
            Part { aspect: ImageAspect::Stencil, ..whole },
            CopyError::NoSuchAspect { aspect: ImageAspect::Stencil },
        ),
    ] {
        let states = [ImageState::<F>::default(), state(gpu)];
        let image_copies =
            [whole.copy(&buffer, &image, IntoImage, states), wrong.copy(&buffer, &image, IntoImage, states)];
        let work = Submission { image_copies: &image_copies, ..Submission::default() };
        assert_eq!(gpu.try_submit_all(FIRST, &work), Err(why.into()), "{wrong:?}");
    }
    assert_eq!(gpu.device().submitted(FIRST), TimelineValue(0), "the good ones neither");
}

fn any_sequence_of_image_copies_does_what_a_model_does<F: Fixture>(gpu: &Gpu<F>) {
    const IMAGES: usize = 3;
    let states = gpu.fixture().image_states();
    let mut random = Random::new(5);
    let shape = split(desc(gpu, [30, 22, 1]), 3, 2);
    let all = subresources(gpu, &shape, TEXEL);
    let images = [(); IMAGES].map(|()| gpu.image(shape));
    let mut models = [(); IMAGES].map(|()| Model::new(&shape));
    let mut now = BTreeMap::new();
    let mut last = Vec::new();
    for round in 0..60 {
        // The first rounds fill all of the images.
        let filling = images.get(round as usize).is_some();
        let mut chosen: Vec<(usize, Part, CopyDirection)> = Vec::new();
        let mut ends = [0, 0];
        let count = if filling { all.len() } else { 1 + random.below(8) as usize };
        for i in 0..count {
            let into = filling || random.below(2) == 0;
            let end = &mut ends[usize::from(into)];
            let whole = all[if filling { i } else { random.below(all.len() as u64) as usize }];
            let mut part = Part::new(gpu, TEXEL, whole.extent, *end).of(whole.mip_level, whole.array_layer);
            if !filling {
                let extent = whole.extent.map(|length| 1 + random.below(length.into()) as u32);
                let origin = |axis: usize| whole.extent[axis] - extent[axis];
                let origin = [0, 1, 2].map(|axis| random.below(u64::from(origin(axis)) + 1) as u32);
                part = Part::new(gpu, TEXEL, extent, *end).of(whole.mip_level, whole.array_layer).at(origin);
            }
            *end = part.end();
            let image = if filling { round as usize } else { random.below(IMAGES as u64) as usize };
            chosen.push((image, part, if into { IntoImage } else { OutOfImage }));
        }
        let [down_size, up_size] = ends.map(|end| end.max(1));
        let up = gpu.buffer(gpu.upload_type(), up_size);
        let down = gpu.buffer(gpu.readback_type(), down_size);
        let (mut sent, mut expected) = (pattern(2 * round + 1, up_size), pattern(2 * round + 2, down_size));
        gpu.put(&up, 0, &sent);
        gpu.put(&down, 0, &expected);
        let mut copies = Vec::new();
        for (image, part, direction) in &chosen {
            let next = states[random.below(states.len() as u64) as usize];
            let before = now.insert((*image, part.mip_level, part.array_layer), next).unwrap_or_default();
            let (buffer, bytes) = match direction {
                IntoImage => (&up, &mut sent),
                OutOfImage => (&down, &mut expected),
            };
            copies.push(part.copy(buffer, &images[*image], *direction, [before, next]));
            models[*image].run(part, bytes, *direction);
        }
        let submitted = gpu.submit_images(FIRST, &last, &copies);
        gpu.wait(submitted);
        last = vec![submitted];
        assert_same(&gpu.get(&down), &expected, (round, chosen));
    }
}

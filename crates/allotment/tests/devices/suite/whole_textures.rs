//! Whole textures in one call, and boxes of them: every byte of every mip level, layer and aspect, whatever the bytes come from.

use allotment::MemoryUsage;
use allotment::device::{CopyDirection, ImageDataOrder, ImageDesc, ImagePart, ImageRegion, QueueIndex};
use allotment::memory::{Dedicated, Image};
use allotment::upload::{ImageWrite, UploadError, Uploader, UploaderDesc, WhenFull};
use core::time::Duration;

use super::exclusive::foreign;
use super::image_copies::{Model, Part, aspects, state};
use super::image_formats::{boxed, graphics, shapes, supported};
use super::stage::Stage;
use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Fixture, Format, FormatClass, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        textures_of_colors_are_written_whole_from_everywhere,
        textures_of_blocks_are_written_whole_from_everywhere,
        textures_of_several_aspects_are_written_whole_from_everywhere,
        boxes_of_textures_are_written_and_nothing_beside_them,
        a_texture_in_no_known_state_is_written_level_by_level_or_not_at_all,
        textures_are_written_over_queues_of_other_families,
        a_texture_is_handed_over_when_all_of_it_is_written,
    ]
}

/// Where the texels come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Bytes,
    BytesByLevel,
    Reader,
    InPlace,
}

const SOURCES: [Source; 4] = [Source::Bytes, Source::BytesByLevel, Source::Reader, Source::InPlace];

/// An image, its uploader, and what its texels have to be.
pub(super) struct Texture<'s, 'g, F: Fixture> {
    pub(super) stage: &'s Stage<'g, F>,
    pub(super) uploader: Uploader<F::Device>,
    pub(super) image: Image<F::Device>,
    pub(super) parts: Vec<Part>,
    pub(super) model: Model,
}

impl<'s, 'g, F: Fixture> Texture<'s, 'g, F> {
    fn new(
        stage: &'s Stage<'g, F>,
        queue: QueueIndex,
        desc: &ImageDesc,
        format: &Format,
        staging: u64,
    ) -> Self {
        let mut uploads = UploaderDesc::default();
        uploads.staging = staging;
        Self::with(stage, queue, desc, format, uploads)
    }

    pub(super) fn with(
        stage: &'s Stage<'g, F>,
        queue: QueueIndex,
        desc: &ImageDesc,
        format: &Format,
        mut on_queue: UploaderDesc,
    ) -> Self {
        // In memory of its own: the validation layer of Debian 13 takes the bytes of a copy in the buffer, with the padding of
        // rows, for those in the image, and says that they overlap a buffer behind a small image (VUID 00173).
        let options = MemoryUsage::GpuOnly.with_name("texture").with_dedicated(Dedicated::Always);
        let image = stage.memory.create_image(&(*desc).into(), &options).unwrap();
        on_queue.image_queue = Some(queue);
        on_queue.when_full = WhenFull::Wait(Duration::from_secs(30));
        let uploader = Uploader::new(&stage.memory, on_queue).unwrap();
        let (parts, model) = (aspects(stage.gpu, desc, format.values), Model::new(desc));
        Self { stage, uploader, image, parts, model }
    }

    /// Writes a part of all levels, layers and aspects, or a box, with texels of its own.
    pub(super) fn write(&mut self, part: &Part, write: &ImageWrite<crate::gpu::ImageState<F>>, seed: u64) {
        let bytes = self.bytes_of(part, seed);
        self.uploader.write_image(&self.image, write, &bytes).unwrap();
    }

    /// Returns the texels of a part without padding, and gives them to the model.
    pub(super) fn bytes_of(&mut self, part: &Part, seed: u64) -> Vec<u8> {
        let tight = part.tight();
        let mut bytes = pattern(seed, tight.end());
        tight.settle(&mut bytes);
        self.model.run(&tight, &mut bytes, CopyDirection::IntoImage);
        bytes
    }

    pub(super) fn write_whole(&mut self, source: Source, seed: u64) {
        let parts = self.parts.clone();
        let mut all: Vec<_> =
            parts.iter().zip(seed..).map(|(part, seed)| self.bytes_of(part, seed)).collect();
        let mut write = ImageWrite::default().with_after(state(self.stage.gpu));
        if let Source::BytesByLevel = source {
            write.part = write.part.with_order(ImageDataOrder::MipMajor);
            let mut by_level: Vec<_> = parts.iter().zip(all).collect();
            by_level.sort_by_key(|(part, _)| (part.mip_level, part.array_layer));
            all = by_level.into_iter().map(|(_, bytes)| bytes).collect();
        }
        let bytes = all.concat();
        let (uploader, image) = (&self.uploader, &self.image);
        match source {
            Source::Bytes | Source::BytesByLevel => uploader.write_image(image, &write, &bytes).unwrap(),
            Source::Reader => {
                let mut left = &bytes[..];
                uploader.write_image_from(image, &write, &mut left).unwrap();
                assert!(left.is_empty());
            }
            Source::InPlace => {
                let mut left = &bytes[..];
                let fill = |rows: &mut allotment::upload::ImageRows<'_>| {
                    for row in rows.rows_mut() {
                        let (now, later) = left.split_at(row.len());
                        row.copy_from_slice(now);
                        left = later;
                    }
                    Ok(())
                };
                uploader.write_image_with(image, &write, fill).unwrap();
                assert!(left.is_empty());
            }
        }
        assert_eq!(image.state(), Some(state(self.stage.gpu)));
    }

    /// Reads all of it back, and compares it with the model.
    #[track_caller]
    pub(super) fn assert_arrived(&mut self, what: impl core::fmt::Debug) {
        let gpu = self.stage.gpu;
        let uploaded: Vec<_> = self.uploader.submit().unwrap().points().collect();
        let size = self.parts.last().map_or(0, Part::end);
        let down = gpu.buffer(gpu.readback_type(), size);
        let mut expected = pattern(3, size);
        gpu.put(&down, 0, &expected);
        let handle = self.image.handle();
        let copies: Vec<_> =
            self.parts.iter().map(|part| part.copy_raw::<F>(&down, &handle, state(gpu))).collect();
        // Where the image belongs afterwards.
        let Some(home) = graphics(gpu) else { unreachable!("there is one where textures are tested") };
        gpu.wait(gpu.submit_images(home, &uploaded, &copies));
        let mut found = gpu.get(&down);
        for part in &self.parts {
            self.model.run(part, &mut expected, CopyDirection::OutOfImage);
            part.settle(&mut found);
            part.settle(&mut expected);
        }
        assert_same(&found, &expected, what);
        drop(handle);
        self.stage.wait_idle();
    }
}

fn assert_classes<F: Fixture>(
    gpu: &Gpu<F>,
    is_of: impl Fn(FormatClass) -> bool,
    none: &'static str,
) -> Outcome {
    let formats = supported(gpu, is_of);
    let (Some(queue), false) = (graphics(gpu), formats.is_empty()) else {
        return Outcome::DoesNotApply(none);
    };
    let stage = Stage::new(gpu);
    for format in &formats {
        for (number, desc) in (0..).zip(shapes(gpu, format)) {
            // All sources for each format, and one for each shape: in pieces, or at once.
            let source = SOURCES[number % SOURCES.len()];
            for staging in [64 << 10, 4 << 20] {
                let mut texture = Texture::new(&stage, queue, &desc, format, staging);
                texture.write_whole(source, 1);
                texture.assert_arrived((format, &desc, source, staging));
                // Once more, where it has been used.
                texture.write_whole(SOURCES[(number + 1) % SOURCES.len()], 100);
                texture.assert_arrived((format, &desc, "again", staging));
            }
        }
        stage.deletion_queue.reclaim();
    }
    Outcome::Ran
}

fn textures_of_colors_are_written_whole_from_everywhere<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_classes(gpu, |class| class == FormatClass::Texels, "the device has no graphics queue")
}

fn textures_of_blocks_are_written_whole_from_everywhere<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let blocks = |class| matches!(class, FormatClass::Bc | FormatClass::Etc2 | FormatClass::Astc);
    assert_classes(gpu, blocks, "the device has no compressed images")
}

fn textures_of_several_aspects_are_written_whole_from_everywhere<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let others = |class| {
        matches!(
            class,
            FormatClass::Depth | FormatClass::Stencil | FormatClass::DepthStencil | FormatClass::Planes
        )
    };
    assert_classes(gpu, others, "the device has no images of depth, stencil or planes")
}

fn boxes_of_textures_are_written_and_nothing_beside_them<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let Some(queue) = graphics(gpu) else {
        return Outcome::DoesNotApply("the device has no graphics queue");
    };
    let stage = Stage::new(gpu);
    let mut random = Random::new(5);
    for format in supported(gpu, |_| true) {
        for desc in shapes(gpu, &format) {
            let mut texture = Texture::new(&stage, queue, &desc, &format, 64 << 10);
            texture.write_whole(Source::Bytes, 1);
            for seed in 0..6 {
                let part = texture.parts[random.below(texture.parts.len() as u64) as usize];
                let part = boxed(gpu, &part, &desc, 0, &mut random);
                if ends_in_part_of_a_block(&part) && !gpu.fixture().parts_of_blocks_are_understood() {
                    continue;
                }
                let Part { mip_level, array_layer, aspect, origin, extent, .. } = part;
                let region = ImageRegion { aspect, mip_level, array_layer, origin, extent };
                let write = ImageWrite::new(region.into()).with_after(state(gpu));
                texture.write(&part, &write, 200 + seed);
                let has_blocks = part.texels.block(aspect).is_some_and(|texel| texel.width > 1);
                if has_blocks && !gpu.fixture().parts_of_blocks_are_understood() {
                    // Of boxes of a compressed image in one submission, Debian 12's validation layer reports hazards,
                    // though barriers are the same as for other formats.
                    texture.uploader.submit().unwrap();
                    stage.wait_idle();
                }
            }
            texture.assert_arrived((&format, &desc));
        }
        stage.deletion_queue.reclaim();
    }
    Outcome::Ran
}

fn a_texture_in_no_known_state_is_written_level_by_level_or_not_at_all<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let Some(queue) = graphics(gpu) else {
        return Outcome::DoesNotApply("the device has no graphics queue");
    };
    let stage = Stage::new(gpu);
    let Some(format) = supported(gpu, |class| class == FormatClass::Texels).into_iter().next() else {
        return Outcome::DoesNotApply("the device has no images of colors");
    };
    let desc = ImageDesc::new(8, 8, format.number).with_usage(format.usage).with_mip_levels(2);
    let mut texture = Texture::new(&stage, queue, &desc, &format, 64 << 10);
    texture.write_whole(Source::Bytes, 1);
    texture.image.forget_state();
    let part = texture.parts[0];
    let texel = part.texels.block(part.aspect).unwrap();
    let corner = ImagePart::default().with_mip_levels(0..1).with_region([0; 3], [1, 1, 1]);
    let refused =
        texture.uploader.write_image(&texture.image, &corner.into(), &pattern(1, texel.bytes.into()));
    assert!(
        matches!(refused, Err(UploadError::UnknownState { mip_level: 0, array_layer: 0, .. })),
        "{refused:?}"
    );
    let level = ImagePart::default().with_mip_levels(0..1);
    let write = ImageWrite::new(level).with_after(state(gpu));
    let bytes = pattern(9, part.tight().end());
    match texture.uploader.write_image(&texture.image, &write, &bytes) {
        // Some APIs can name no state that an image may be in.
        Err(UploadError::UnknownState { .. }) => {
            // SAFETY: the last write left it so, and nothing has used it since.
            unsafe { texture.image.set_state(state(gpu)) };
        }
        done => {
            done.unwrap();
            let mut bytes = bytes;
            texture.model.run(&part.tight(), &mut bytes, CopyDirection::IntoImage);
            assert_eq!(texture.image.state(), None, "the other level is in no known state");
            // SAFETY: as above, for that one.
            unsafe { texture.image.set_state(state(gpu)) };
        }
    }
    texture.assert_arrived("after its state was not known");
    Outcome::Ran
}

/// Returns whether a box ends in blocks that lie in the image only partly. Where these are not understood
/// ([`Fixture::parts_of_blocks_are_understood`]), what is said of a box beside them is wrong.
fn ends_in_part_of_a_block(part: &Part) -> bool {
    let texel = part.texels.block(part.aspect).unwrap();
    part.extent[0] % texel.width != 0 || part.extent[1] % texel.height != 0
}

/// The formats that queues without graphics copy.
fn plain<F: Fixture>(gpu: &Gpu<F>) -> Vec<Format> {
    let is_plain =
        |class| !matches!(class, FormatClass::Depth | FormatClass::Stencil | FormatClass::DepthStencil);
    supported(gpu, is_plain)
}

fn textures_are_written_over_queues_of_other_families<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let (queues, formats) = (foreign(gpu), plain(gpu));
    if queues.is_empty() || graphics(gpu).is_none() || formats.is_empty() {
        return Outcome::DoesNotApply("the device has queues of one family, or no images of colors");
    }
    let stage = Stage::new(gpu);
    let mut random = Random::new(9);
    for queue in queues {
        for (number, format) in formats.iter().enumerate() {
            for (of_format, desc) in shapes(gpu, format).into_iter().enumerate() {
                let (source, staging) =
                    (SOURCES[(number + of_format) % SOURCES.len()], [64 << 10, 4 << 20][of_format % 2]);
                let mut texture = Texture::new(&stage, queue, &desc, format, staging);
                texture.write_whole(source, 1);
                texture.assert_arrived((queue, format, &desc, source));
                for seed in 0..3 {
                    // Boxes of what its family owns, and all of it again, handed over in between or not.
                    let part = texture.parts[random.below(texture.parts.len() as u64) as usize];
                    let part = boxed(gpu, &part, &desc, 0, &mut random);
                    if ends_in_part_of_a_block(&part) && !gpu.fixture().parts_of_blocks_are_understood() {
                        continue;
                    }
                    let Part { mip_level, array_layer, aspect, origin, extent, .. } = part;
                    let region = ImageRegion { aspect, mip_level, array_layer, origin, extent };
                    let write = ImageWrite::new(region.into()).with_after(state(gpu));
                    texture.write(&part, &write, 200 + seed);
                    if random.below(2) == 0 {
                        texture.uploader.submit().unwrap();
                    }
                    if random.below(3) == 0 {
                        texture.write_whole(SOURCES[random.below(4) as usize], 300 + seed);
                    }
                }
                texture.assert_arrived((queue, format, &desc, "boxes"));
            }
            stage.deletion_queue.reclaim();
        }
    }
    Outcome::Ran
}

fn a_texture_is_handed_over_when_all_of_it_is_written<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let (queues, formats) = (foreign(gpu), plain(gpu));
    let (false, Some(format), Some(_)) = (queues.is_empty(), formats.first(), graphics(gpu)) else {
        return Outcome::DoesNotApply("the device has queues of one family, or no images of colors");
    };
    let stage = Stage::new(gpu);
    for queue in queues {
        let desc = ImageDesc::new(256, 200, format.number).with_usage(format.usage).with_mip_levels(3);
        let mut texture = Texture::new(&stage, queue, &desc, format, 16 << 10);
        for seed in [1, 50] {
            let parts = texture.parts.clone();
            let all: Vec<_> = (seed..).zip(&parts).map(|(seed, part)| texture.bytes_of(part, seed)).collect();
            let bytes = all.concat();
            let mut left = &bytes[..];
            let write = ImageWrite::default().with_after(state(gpu));
            let mut pieces = 0;
            let uploader = &texture.uploader;
            let fill = |rows: &mut allotment::upload::ImageRows<'_>| {
                // A frame that is submitted meanwhile.
                uploader.submit().unwrap();
                pieces += 1;
                for row in rows.rows_mut() {
                    let (now, later) = left.split_at(row.len());
                    row.copy_from_slice(now);
                    left = later;
                }
                Ok(())
            };
            uploader.write_image_with(&texture.image, &write, fill).unwrap();
            assert!(pieces > 10, "{pieces}");
            texture.assert_arrived((queue, seed));
        }
        // It goes before it is handed over.
        texture.write_whole(Source::Bytes, 9);
        let Texture { uploader, image, .. } = texture;
        drop(image);
        stage.deletion_queue.reclaim();
        uploader.submit().unwrap();
        stage.wait_idle();
        stage.deletion_queue.reclaim();
        assert_eq!(stage.deletion_queue.statistics().pending, 0);
    }
    Outcome::Ran
}

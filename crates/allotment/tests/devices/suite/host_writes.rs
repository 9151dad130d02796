//! Texels that the CPU copies into images, without staging memory and without a queue, beside the same texels staged.

use allotment::device::{CopyDirection, ImageDesc, ImageDevice as _, ImagePart, ImageRegion};
use allotment::memory::Image;
use allotment::upload::{ImageWrite, Interruption, UploadError, UploadHandle, UploadStatus, UploaderDesc};

use super::image_copies::{Part, state};
use super::image_formats::{boxed, graphics, shapes, supported};
use super::stage::Stage;
use super::whole_textures::{Source, Texture};
use crate::bytes::{Random, assert_same};
use crate::fixture::{Fixture, Format, FormatClass, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        textures_have_the_same_texels_copied_by_the_cpu_and_staged,
        boxes_are_copied_by_the_cpu_into_levels_that_were_never_used,
        threads_write_parts_of_one_texture_by_the_cpu_and_staged,
        a_write_by_the_cpu_ends_as_its_handle_says,
    ]
}

const NONE: Outcome = Outcome::DoesNotApply("the CPU copies no texels into images of the device");

/// Returns whether the CPU can copy texels into such images, which are then in the state that tests use.
fn is_host_writable<F: Fixture>(gpu: &Gpu<F>, desc: &ImageDesc) -> bool {
    let device = gpu.device();
    device.can_write_from_host(&device.image_shape(&(*desc).into()), state(gpu))
}

/// Returns the shapes of a format into which the CPU can copy texels, by themselves or with the usage for it.
fn writable<F: Fixture>(gpu: &Gpu<F>, format: &Format) -> Vec<ImageDesc> {
    let usage = format.usage | gpu.fixture().host_write_usage();
    let with_usage = Format { usage, ..*format };
    let mut found = shapes(gpu, format);
    if usage != format.usage && !supported(gpu, |class| class == format.class).is_empty() {
        let has = |desc: &ImageDesc| gpu.device().image_requirements(&(*desc).into()).is_ok();
        if has(&ImageDesc::new(64, 64, format.number).with_usage(usage)) {
            found.extend(shapes(gpu, &with_usage));
        }
    }
    found.retain(|desc| is_host_writable(gpu, desc));
    found
}

fn uploads(copies_from_host: bool) -> UploaderDesc {
    let mut desc = UploaderDesc::default();
    (desc.staging, desc.copies_from_host) = (64 << 10, copies_from_host);
    desc
}

fn textures_have_the_same_texels_copied_by_the_cpu_and_staged<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let Some(queue) = graphics(gpu) else { return NONE };
    let (stage, mut count) = (Stage::new(gpu), 0);
    for format in supported(gpu, |_| true) {
        for desc in writable(gpu, &format) {
            for copies in [true, false] {
                let source = if count % 2 == 0 { Source::Bytes } else { Source::BytesByLevel };
                let mut texture = Texture::with(&stage, queue, &desc, &format, uploads(copies));
                texture.write_whole(source, 1);
                let size: u64 = texture.parts.iter().map(|part| part.tight().end()).sum();
                let sums = texture.uploader.statistics();
                assert_eq!(sums.host_copied_bytes, if copies { size } else { 0 }, "{format:?} {desc:?}");
                assert_eq!(sums.staged_bytes == 0, copies, "{format:?} {desc:?}");
                texture.assert_arrived((&format, &desc, copies));
                // The GPU has used it.
                texture.write_whole(source, 100);
                assert_eq!(texture.uploader.statistics().host_copied_bytes, sums.host_copied_bytes);
                texture.assert_arrived((&format, &desc, copies, "again"));
            }
            count += 1;
        }
        stage.deletion_queue.reclaim();
    }
    if count == 0 { NONE } else { Outcome::Ran }
}

/// Reads a box back.
fn read<F: Fixture>(stage: &Stage<'_, F>, image: &Image<F::Device>, part: &Part) -> Vec<u8> {
    let gpu = stage.gpu;
    let down = gpu.buffer(gpu.readback_type(), part.end());
    gpu.put(&down, 0, &vec![0; part.end() as usize]);
    let queue = graphics(gpu).unwrap();
    let handle = image.handle();
    gpu.wait(gpu.submit_images(queue, &[], &[part.copy_raw::<F>(&down, &handle, state(gpu))]));
    let bytes = gpu.get(&down);
    drop(handle);
    stage.wait_idle();
    bytes
}

fn has_whole_blocks(level: &Part) -> bool {
    let block = level.texels.block(level.aspect).unwrap();
    level.extent[0] % block.width == 0 && level.extent[1] % block.height == 0
}

fn boxes_are_copied_by_the_cpu_into_levels_that_were_never_used<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let Some(queue) = graphics(gpu) else { return NONE };
    let (stage, mut random, mut count) = (Stage::new(gpu), Random::new(7), 0);
    for format in supported(gpu, |_| true) {
        for desc in writable(gpu, &format) {
            let mut texture = Texture::with(&stage, queue, &desc, &format, uploads(true));
            let parts = texture.parts.clone();
            for (seed, level) in (1..).zip(&parts) {
                let part = boxed(gpu, level, &desc, 0, &mut random);
                let Part { mip_level, array_layer, aspect, origin, extent, .. } = part;
                let region = ImageRegion { aspect, mip_level, array_layer, origin, extent };
                let write = ImageWrite::new(region.into()).with_after(state(gpu));
                let before = texture.uploader.statistics().host_copied_bytes;
                texture.write(&part, &write, seed);
                let copied = texture.uploader.statistics().host_copied_bytes - before;
                // A second aspect finds the subresource in a state in which the GPU may use it.
                let is_first = part.texels.aspects().next() == Some(aspect);
                let is_copied = is_first
                    && (gpu.fixture().host_copies_end_in_parts_of_blocks()
                        || part.extent == level.extent
                        || has_whole_blocks(level));
                assert_eq!(copied, if is_copied { part.tight().end() } else { 0 }, "{format:?} {desc:?}");
                texture.uploader.submit().unwrap();
                stage.wait_idle();
                let mut found = read(&stage, &texture.image, &part);
                let mut expected = vec![0; found.len()];
                texture.model.run(&part, &mut expected, CopyDirection::OutOfImage);
                part.settle(&mut found);
                part.settle(&mut expected);
                assert_same(&found, &expected, (&format, &desc, &part));
            }
            count += 1;
        }
        stage.deletion_queue.reclaim();
    }
    if count == 0 { NONE } else { Outcome::Ran }
}

/// A texture of colors, of four array layers and one mip level, that the CPU can copy texels into.
fn layered<F: Fixture>(gpu: &Gpu<F>) -> Option<(Format, ImageDesc)> {
    let format = supported(gpu, |class| class == FormatClass::Texels).into_iter().next()?;
    let usage = format.usage | gpu.fixture().host_write_usage();
    let desc = ImageDesc::new(64, 64, format.number).with_usage(usage).with_array_layers(4);
    let has = gpu.device().image_requirements(&desc.into()).is_ok();
    (has && is_host_writable(gpu, &desc)).then_some((format, desc))
}

fn threads_write_parts_of_one_texture_by_the_cpu_and_staged<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let (Some(queue), Some((format, desc))) = (graphics(gpu), layered(gpu)) else { return NONE };
    let stage = Stage::new(gpu);
    for round in 0..20_u64 {
        let mut texture = Texture::with(&stage, queue, &desc, &format, uploads(true));
        let parts = texture.parts.clone();
        // Each thread writes two rows of all layers: all threads come to each layer.
        let mut writes = Vec::new();
        for first in (0..64).step_by(16) {
            let boxes = parts.iter().map(|part| Part { extent: [64, 16, 1], ..part.at([0, first, 0]) });
            let boxes: Vec<_> = boxes.collect();
            let seed = round * 100 + u64::from(first);
            let bytes: Vec<_> =
                boxes.iter().zip(seed..).map(|(part, seed)| texture.bytes_of(part, seed)).collect();
            writes.push((first, bytes.concat()));
        }
        let (uploader, image, after) = (&texture.uploader, &texture.image, state(gpu));
        std::thread::scope(|scope| {
            for (first, bytes) in &writes {
                scope.spawn(move || {
                    let part = ImagePart::default().with_region([0, *first, 0], [64, 16, 1]);
                    let write = ImageWrite::new(part).with_after(after);
                    // One of them stages its texels from the start.
                    if *first == 16 {
                        uploader.write_image_from(image, &write, &bytes[..]).unwrap();
                    } else {
                        uploader.write_image(image, &write, bytes).unwrap();
                    }
                });
            }
        });
        assert_eq!(image.state(), Some(after));
        let sums = uploader.statistics();
        assert!(sums.staged_bytes > 0, "only one can be the first");
        texture.assert_arrived(round);
    }
    Outcome::Ran
}

fn a_write_by_the_cpu_ends_as_its_handle_says<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let (Some(queue), Some((format, desc))) = (graphics(gpu), layered(gpu)) else { return NONE };
    let stage = Stage::new(gpu);
    let mut texture = Texture::with(&stage, queue, &desc, &format, uploads(true));
    let parts = texture.parts.clone();
    let bytes: Vec<_> = parts.iter().zip(1..).map(|(part, seed)| texture.bytes_of(part, seed)).collect();
    let bytes = bytes.concat();
    let (uploader, image) = (&texture.uploader, &texture.image);
    let write = ImageWrite::default().with_after(state(gpu));

    let cancelled = UploadHandle::new();
    cancelled.cancel();
    let refused = uploader.with_handle(&cancelled).write_image(image, &write, &bytes);
    assert!(
        matches!(refused, Err(UploadError::Interrupted { by: Interruption::Cancelled, .. })),
        "{refused:?}"
    );
    assert_eq!((image.state(), cancelled.status()), (None, UploadStatus::Cancelled));
    uploader.stop();
    let refused = uploader.write_image(image, &write, &bytes);
    assert!(
        matches!(refused, Err(UploadError::Interrupted { by: Interruption::Stopped, .. })),
        "{refused:?}"
    );
    uploader.resume();
    assert_eq!(uploader.statistics(), Default::default(), "nothing was written");

    let handle = UploadHandle::new();
    uploader.with_handle(&handle).write_image(image, &write, &bytes).unwrap();
    assert_eq!(handle.status(), UploadStatus::Arrived, "there is nothing to submit");
    assert_eq!(uploader.statistics().host_copied_bytes, bytes.len() as u64);
    texture.assert_arrived("after it was refused");
    Outcome::Ran
}

//! Copies of images of all classes of formats, aspect by aspect: the right bytes to the right place, and no others.

use allotment::MemoryUsage;
use allotment::device::{
    CopyDirection, CopyError, ImageAspect, ImageDesc, ImageDevice as _, ImagePart, QueueDevice as _,
    QueueIndex, QueueKind, Submission, TexelBlock, TexelLayout,
};
use allotment::upload::{ImageWrite, Uploader, UploaderDesc};

use super::full_images::assert_arrives;
use super::image_copies::{Part, aspects, assert_round_trip, split, state};
use super::stage::Stage;
use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Fixture, Format, FormatClass, Outcome, Test, tests};
use crate::gpu::{Gpu, ImageState, TexelCopy};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        texels_of_each_size_are_copied,
        blocks_of_bc_formats_are_copied,
        blocks_of_etc2_formats_are_copied,
        blocks_of_astc_formats_are_copied,
        depth_is_copied,
        stencil_is_copied,
        depth_and_stencil_are_copied_apart_from_each_other,
        planes_are_copied_apart_from_each_other,
        aspects_of_one_image_are_copied_in_their_order,
        each_aspect_is_uploaded,
        images_of_each_format_arrive_whole,
        depth_and_stencil_are_for_queues_that_draw,
        an_aspect_that_a_format_does_not_have_is_refused,
        a_part_of_depth_is_refused_where_only_all_of_it_is_copied,
    ]
}

use CopyDirection::{IntoImage, OutOfImage};

/// The queue that copies every aspect.
pub(super) fn graphics<F: Fixture>(gpu: &Gpu<F>) -> Option<QueueIndex> {
    let kind = |queue: QueueIndex| gpu.properties().queues[usize::from(queue.0)];
    gpu.queues().find(|&queue| kind(queue) == QueueKind::Graphics)
}

fn desc(format: &Format, extent: [u32; 3]) -> ImageDesc {
    let mut desc = ImageDesc::new(extent[0], extent[1], format.number).with_usage(format.usage);
    desc.extent = extent;
    desc
}

/// The formats of a class of which the device has images, of those that are two-dimensional and have one mip level.
pub(super) fn supported<F: Fixture>(gpu: &Gpu<F>, class: impl Fn(FormatClass) -> bool) -> Vec<Format> {
    let mut formats = gpu.fixture().formats();
    formats.retain(|format| class(format.class) && has(gpu, &desc(format, [64, 64, 1])));
    formats
}

fn has<F: Fixture>(gpu: &Gpu<F>, desc: &ImageDesc) -> bool {
    gpu.device().image_requirements(&(*desc).into()).is_ok()
}

/// Images of a format in all shapes that the device has of it.
pub(super) fn shapes<F: Fixture>(gpu: &Gpu<F>, format: &Format) -> Vec<ImageDesc> {
    let of = |extent, mip_levels, array_layers| split(desc(format, extent), mip_levels, array_layers);
    let mut shapes = vec![
        of([64, 64, 1], 1, 1),
        of([40, 24, 1], 1, 1),
        of([4, 4, 1], 1, 1),
        // The smaller levels are no whole blocks, and a level of an odd side is rounded down.
        of([100, 60, 1], 7, 1),
        of([48, 20, 1], 1, 5),
        of([56, 36, 1], 5, 3),
        of([20, 12, 9], 1, 1),
        of([20, 12, 9], 4, 1),
    ];
    let usage = format.usage;
    let line = ImageDesc::new_1d(120, format.number).with_usage(usage);
    let cube = ImageDesc::new_cube(40, format.number).with_usage(usage);
    shapes.extend([
        line,
        line.with_full_mips().with_array_layers(3),
        cube,
        // No more subresources than are copied in one wave: the validation layer (1.4.309) takes the last blocks of a level
        // for texels of the next layer, and reports them where a wave has the one and not the other.
        cube.with_mip_levels(4).with_array_layers(12),
        of([20, 12, 1], 1, 1).with_view_formats([format.number]),
    ]);
    // Three-dimensional, and two-dimensional, whatever their depth is.
    shapes.push(ImageDesc::new_3d(16, 8, 1, format.number).with_usage(usage));
    shapes.retain(|desc| has(gpu, desc));
    assert!(!shapes.is_empty(), "no images of {}", format.name);
    shapes
}

/// A box of whole blocks inside a part, or nothing where only whole levels are copied.
pub(super) fn boxed<F: Fixture>(
    gpu: &Gpu<F>,
    part: &Part,
    desc: &ImageDesc,
    at: u64,
    random: &mut Random,
) -> Part {
    let texel = part.texels.block(part.aspect).unwrap();
    let whole_levels = gpu.device().image_shape(&(*desc).into()).whole_levels;
    let sides = [texel.width, texel.height, 1];
    let (mut origin, mut extent) = ([0; 3], part.extent);
    for axis in 0..3 {
        let blocks = part.extent[axis].div_ceil(sides[axis]);
        let first = random.below(blocks.into()) as u32;
        let last = first + 1 + random.below(u64::from(blocks - first)) as u32;
        if !whole_levels {
            origin[axis] = first * sides[axis];
            extent[axis] = (last * sides[axis]).min(part.extent[axis]) - origin[axis];
        }
    }
    Part::of_aspect(gpu, part.texels, part.aspect, extent, at)
        .with(part.values)
        .of(part.mip_level, part.array_layer)
        .at(origin)
}

/// Writes all aspects of all subresources and boxes of them, and reads all back, and boxes.
fn assert_copied<F: Fixture>(gpu: &Gpu<F>, queue: QueueIndex, format: &Format) {
    let mut random = Random::new(format.number.into());
    for desc in shapes(gpu, format) {
        let parts = aspects(gpu, &desc, format.values);
        assert_round_trip(gpu, queue, desc, &parts, &parts);
        let (mut into, mut out) = (parts.clone(), Vec::new());
        for part in &parts {
            into.push(boxed(gpu, part, &desc, into.last().map_or(0, Part::end), &mut random));
            out.push(boxed(gpu, part, &desc, out.last().map_or(0, Part::end), &mut random));
        }
        assert_round_trip(gpu, queue, desc, &into, &parts);
        assert_round_trip(gpu, queue, desc, &into, &out);
    }
}

fn assert_class_is_copied<F: Fixture>(gpu: &Gpu<F>, class: FormatClass, none: &'static str) -> Outcome {
    let formats = supported(gpu, |it| it == class);
    let (Some(queue), false) = (graphics(gpu), formats.is_empty()) else {
        return Outcome::DoesNotApply(none);
    };
    formats.iter().for_each(|format| assert_copied(gpu, queue, format));
    Outcome::Ran
}

fn texels_of_each_size_are_copied<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_class_is_copied(gpu, FormatClass::Texels, "the device has no graphics queue")
}

fn blocks_of_bc_formats_are_copied<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_class_is_copied(gpu, FormatClass::Bc, "the device has no images of BC formats")
}

fn blocks_of_etc2_formats_are_copied<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_class_is_copied(gpu, FormatClass::Etc2, "the device has no images of ETC2 formats")
}

fn blocks_of_astc_formats_are_copied<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_class_is_copied(gpu, FormatClass::Astc, "the device has no images of ASTC formats")
}

fn depth_is_copied<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_class_is_copied(gpu, FormatClass::Depth, "the device has no images of depth")
}

fn stencil_is_copied<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_class_is_copied(gpu, FormatClass::Stencil, "the device has no images of stencil alone")
}

fn depth_and_stencil_are_copied_apart_from_each_other<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_class_is_copied(gpu, FormatClass::DepthStencil, "the device has no images of depth and stencil")
}

fn planes_are_copied_apart_from_each_other<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_class_is_copied(gpu, FormatClass::Planes, "the device has no images of several planes")
}

/// Formats of more than one aspect.
fn of_several_aspects<F: Fixture>(gpu: &Gpu<F>) -> Vec<Format> {
    supported(gpu, |class| matches!(class, FormatClass::DepthStencil | FormatClass::Planes))
}

fn aspects_of_one_image_are_copied_in_their_order<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let (Some(queue), formats) = (graphics(gpu), of_several_aspects(gpu)) else {
        return Outcome::DoesNotApply("the device has no graphics queue");
    };
    if formats.is_empty() {
        return Outcome::DoesNotApply("the device has no images of several aspects");
    }
    for format in formats {
        // Written twice in turn, and read in turn, by one submission: what is read is what was written last.
        let desc = desc(&format, [32, 16, 1]);
        let parts = aspects(gpu, &desc, format.values);
        let size = parts.last().map_or(0, Part::end);
        let (up, down) =
            (gpu.buffer(gpu.upload_type(), 2 * size + 512), gpu.buffer(gpu.readback_type(), size));
        let limits = &gpu.properties().limits;
        let second: Vec<_> = parts
            .iter()
            .map(|part| part.moved(part.texels.block(part.aspect).unwrap().offset(size, limits)))
            .collect();
        let mut sent = pattern(3, 2 * size + 512);
        parts.iter().chain(&second).for_each(|part| part.settle(&mut sent));
        gpu.put(&up, 0, &sent);
        let mut expected = pattern(4, size);
        gpu.put(&down, 0, &expected);
        let image = gpu.image(desc);
        let mut model = super::image_copies::Model::new(&desc);
        let (mut copies, mut before) = (Vec::<TexelCopy<'_, F>>::new(), ImageState::<F>::default());
        for part in parts.iter().chain(&second) {
            copies.push(part.copy(&up, &image, IntoImage, [before, state(gpu)]));
            model.run(part, &mut sent, IntoImage);
            before = state(gpu);
        }
        for part in &parts {
            copies.push(part.copy(&down, &image, OutOfImage, [before; 2]));
            model.run(part, &mut expected, OutOfImage);
        }
        gpu.wait(gpu.submit_images(queue, &[], &copies));
        let mut found = gpu.get(&down);
        for part in &parts {
            part.settle(&mut found);
            part.settle(&mut expected);
        }
        assert_same(&found, &expected, format);
    }
    Outcome::Ran
}

fn each_aspect_is_uploaded<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let Some(queue) = graphics(gpu) else {
        return Outcome::DoesNotApply("the device has no graphics queue");
    };
    let stage = Stage::new(gpu);
    for format in supported(gpu, |_| true) {
        let desc = desc(&format, [48, 40, 1]);
        let parts = aspects(gpu, &desc, format.values);
        let image =
            stage.memory.create_image(&desc.into(), &MemoryUsage::GpuOnly.with_name("image")).unwrap();
        let mut on_queue = UploaderDesc::default();
        on_queue.image_queue = Some(queue);
        let uploader = Uploader::new(&stage.memory, on_queue).unwrap();
        let down = gpu.buffer(gpu.readback_type(), parts.last().map_or(0, Part::end));
        let mut expected = pattern(6, parts.last().map_or(0, Part::end));
        gpu.put(&down, 0, &expected);
        let before = state(gpu);
        for (seed, part) in (0..).zip(&parts) {
            // Rows without gaps, as the uploader takes them.
            let texel = part.texels.block(part.aspect).unwrap();
            let tight = part.tight();
            let mut bytes = pattern(seed, tight.end());
            tight.settle(&mut bytes);
            let aspect = ImagePart::default().with_aspect(part.aspect);
            let write = ImageWrite::new(aspect).with_after(state(gpu));
            uploader.write_image(&image, &write, &bytes).unwrap();
            let row = texel.row_bytes(part.extent[0]) as usize;
            for (line, bytes) in bytes.chunks(row).enumerate() {
                expected[part.line(line)..][..row].copy_from_slice(bytes);
            }
        }
        let uploaded: Vec<_> = uploader.submit().unwrap().points().collect();
        let handle = image.handle();
        let copies: Vec<_> = parts.iter().map(|part| part.copy_raw::<F>(&down, &handle, before)).collect();
        gpu.wait(gpu.submit_images(queue, &uploaded, &copies));
        let mut found = gpu.get(&down);
        for part in &parts {
            part.settle(&mut found);
            part.settle(&mut expected);
        }
        assert_same(&found, &expected, format);
        drop(handle);
        drop((image, uploader));
        stage.wait_idle();
    }
    Outcome::Ran
}

fn images_of_each_format_arrive_whole<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let Some(queue) = graphics(gpu) else {
        return Outcome::DoesNotApply("the device has no graphics queue");
    };
    for format in supported(gpu, |_| true) {
        for desc in shapes(gpu, &format) {
            assert_arrives(gpu, queue, desc, aspects(gpu, &desc, format.values));
        }
    }
    Outcome::Ran
}

fn depth_and_stencil_are_for_queues_that_draw<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    gpu.fixture().expect_complaints("submit: ");
    let formats = supported(gpu, |class| {
        matches!(class, FormatClass::Depth | FormatClass::Stencil | FormatClass::DepthStencil)
    });
    let kind = |queue: QueueIndex| gpu.properties().queues[usize::from(queue.0)];
    let others: Vec<_> = gpu.queues().filter(|&queue| kind(queue) != QueueKind::Graphics).collect();
    if formats.is_empty() || others.is_empty() {
        return Outcome::DoesNotApply("the device has no depth, or no queue without graphics");
    }
    for format in formats {
        let desc = desc(&format, [16, 16, 1]);
        let image = gpu.image(desc);
        for part in aspects(gpu, &desc, format.values) {
            let buffer = gpu.buffer(gpu.upload_type(), part.end());
            assert!(gpu.device().can_copy_aspect(QueueKind::Graphics, part.aspect));
            for &queue in &others {
                assert!(!gpu.device().can_copy_aspect(kind(queue), part.aspect));
                let submitted = gpu.device().submitted(queue);
                let states = [ImageState::<F>::default(), state(gpu)];
                let image_copies = [part.copy(&buffer, &image, IntoImage, states)];
                let work = Submission { image_copies: &image_copies, ..Submission::default() };
                assert_eq!(gpu.try_submit_all(queue, &work), Err(CopyError::NeedsGraphicsQueue.into()));
                assert_eq!(gpu.device().submitted(queue), submitted);
            }
        }
    }
    Outcome::Ran
}

fn an_aspect_that_a_format_does_not_have_is_refused<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    gpu.fixture().expect_complaints("submit: ");
    let Some(queue) = graphics(gpu) else {
        return Outcome::DoesNotApply("the device has no graphics queue");
    };
    let every =
        TexelLayout::Color(TexelBlock::new(4)).aspects().chain([ImageAspect::Depth, ImageAspect::Stencil]);
    let every: Vec<_> = every.chain(ImageAspect::PLANES).collect();
    for format in supported(gpu, |_| true) {
        let desc = desc(&format, [16, 16, 1]);
        let image = gpu.image(desc);
        let parts = aspects(gpu, &desc, format.values);
        let buffer = gpu.buffer(gpu.upload_type(), parts[0].end());
        for &aspect in &every {
            if parts.iter().any(|part| part.aspect == aspect) {
                continue;
            }
            let states = [ImageState::<F>::default(), state(gpu)];
            let image_copies = [Part { aspect, ..parts[0] }.copy(&buffer, &image, IntoImage, states)];
            let work = Submission { image_copies: &image_copies, ..Submission::default() };
            let refused = CopyError::NoSuchAspect { aspect };
            assert_eq!(gpu.try_submit_all(queue, &work), Err(refused.into()), "{format:?}");
        }
    }
    Outcome::Ran
}

fn a_part_of_depth_is_refused_where_only_all_of_it_is_copied<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let formats = supported(gpu, |class| matches!(class, FormatClass::Depth | FormatClass::DepthStencil));
    let whole_levels =
        |format: &Format| gpu.device().image_shape(&desc(format, [16, 16, 1]).into()).whole_levels;
    let (Some(queue), Some(format)) = (graphics(gpu), formats.into_iter().find(whole_levels)) else {
        return Outcome::DoesNotApply("the device copies parts of depth");
    };
    let desc = desc(&format, [16, 16, 1]);
    let image = gpu.image(desc);
    let part = aspects(gpu, &desc, format.values)[0];
    let buffer = gpu.buffer(gpu.upload_type(), part.end());
    let states = [ImageState::<F>::default(), state(gpu)];
    let image_copies = [Part { extent: [16, 8, 1], ..part }.copy(&buffer, &image, IntoImage, states)];
    let work = Submission { image_copies: &image_copies, ..Submission::default() };
    let refused = CopyError::PartOfLevel { mip_level: 0 };
    assert_eq!(gpu.try_submit_all(queue, &work), Err(refused.into()));
    Outcome::Ran
}

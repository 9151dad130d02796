//! Images: the memory that they need, and their places.

use allotment::ResourceKind;
use allotment::device::{
    DescriptionError, DeviceError, ImageDesc, ImageDevice as _, ImageDimension, MemoryDesc, MemoryTypeIndex,
    Requirements, Tiling,
};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        image_requirements_hold_the_texels,
        image_requirements_stay_the_same,
        an_image_without_texels_is_refused,
        an_image_is_of_the_dimension_that_its_description_says,
        shapes_that_no_device_has_are_refused_by_name,
        views_have_the_formats_of_the_description,
        an_image_larger_than_any_heap_is_refused,
        the_tiling_says_what_stands_in_memory,
        images_stand_at_their_offsets,
        a_dedicated_image_is_made_in_every_memory_type_that_takes_images,
        a_refused_dedicated_image_leaves_nothing,
        images_are_made_and_destroyed_again_and_again,
        an_image_and_a_buffer_stand_in_the_same_memory_by_turns,
    ]
}

fn desc<F: Fixture>(gpu: &Gpu<F>, width: u32, height: u32) -> ImageDesc {
    ImageDesc::new(width, height, gpu.fixture().image_format())
}

fn requirements<F: Fixture>(gpu: &Gpu<F>, desc: ImageDesc) -> Requirements {
    gpu.device().image_requirements(&desc.into()).unwrap()
}

/// The memory types that every program may allocate and that the requirements name.
fn types<F: Fixture>(gpu: &Gpu<F>, requirements: &Requirements) -> Vec<MemoryTypeIndex> {
    let mut types = gpu.types();
    types.retain(|&t| requirements.memory_types.contains(t));
    types
}

/// Images of many shapes.
fn shapes<F: Fixture>(gpu: &Gpu<F>) -> Vec<ImageDesc> {
    let mut shapes = vec![desc(gpu, 1, 1), desc(gpu, 17, 3), desc(gpu, 256, 256), desc(gpu, 1000, 1000)];
    let mut mipped = desc(gpu, 256, 256);
    mipped.mip_levels = 9;
    let mut layered = desc(gpu, 64, 64);
    layered.array_layers = 6;
    let mut deep = desc(gpu, 32, 32);
    deep.extent[2] = 32;
    shapes.extend([mipped, layered, deep]);
    let format = gpu.fixture().image_format();
    let line = ImageDesc::new_1d(300, format);
    let cube = ImageDesc::new_cube(32, format);
    shapes.extend([line, line.with_full_mips(), line.with_array_layers(4)]);
    shapes.extend([cube, cube.with_full_mips(), cube.with_array_layers(18)]);
    shapes
        .extend([ImageDesc::new_3d(20, 10, 5, format).with_full_mips(), ImageDesc::new_3d(8, 8, 1, format)]);
    shapes.push(desc(gpu, 40, 20).with_view_formats([format]));
    if gpu.fixture().has_linear_images() {
        let mut linear = desc(gpu, 64, 64);
        linear.tiling = Tiling::Linear;
        shapes.push(linear);
    }
    shapes
}

/// Texels of the first level, of 4 bytes each.
fn texels(desc: &ImageDesc) -> u64 {
    desc.extent.iter().map(|&length| u64::from(length)).product::<u64>() * u64::from(desc.array_layers)
}

fn image_requirements_hold_the_texels<F: Fixture>(gpu: &Gpu<F>) {
    let existing = u32::MAX >> (32 - gpu.properties().memory_types.len());
    for desc in shapes(gpu) {
        let requirements = requirements(gpu, desc);
        assert!(requirements.size >= 4 * texels(&desc), "{desc:?}: {requirements:?}");
        assert_ne!(requirements.memory_types.0, 0, "{desc:?}: {requirements:?}");
        assert_eq!(requirements.memory_types.0 & !existing, 0, "{desc:?}: only types that exist");
        assert!(!types(gpu, &requirements).is_empty(), "{desc:?}: {requirements:?}");
    }
}

fn image_requirements_stay_the_same<F: Fixture>(gpu: &Gpu<F>) {
    let before: Vec<_> = shapes(gpu).into_iter().map(|desc| requirements(gpu, desc)).collect();
    let after: Vec<_> = shapes(gpu).into_iter().map(|desc| requirements(gpu, desc)).collect();
    assert_eq!(before, after);
}

fn an_image_without_texels_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    let mut without_levels = desc(gpu, 4, 4);
    without_levels.mip_levels = 0;
    let mut without_layers = desc(gpu, 4, 4);
    without_layers.array_layers = 0;
    let mut without_format = desc(gpu, 4, 4);
    without_format.format = 0;
    assert!(gpu.device().image_requirements(&without_format.into()).is_err());
    for desc in [desc(gpu, 0, 4), desc(gpu, 4, 0), without_levels, without_layers] {
        let refused = gpu.device().image_requirements(&desc.into());
        let ImageDesc { extent, mip_levels, array_layers, .. } = desc;
        let rule = DescriptionError::ZeroExtent { extent, mip_levels, array_layers };
        assert_eq!(refused, Err(DeviceError::InvalidDescription(rule)), "{desc:?}");
    }
}

fn an_image_is_of_the_dimension_that_its_description_says<F: Fixture>(gpu: &Gpu<F>) {
    for desc in shapes(gpu) {
        let shape = gpu.device().image_shape(&desc.into());
        let dimension = if desc.extent[2] > 1 { ImageDimension::D3 } else { desc.dimension };
        assert_eq!((shape.dimension, shape.format, shape.samples), (dimension, desc.format, 1), "{desc:?}");
        assert_eq!((shape.extent, shape.mip_levels), (desc.extent, desc.mip_levels), "{desc:?}");
        assert_eq!(shape.array_layers, desc.array_layers, "{desc:?}");
    }
}

fn shapes_that_no_device_has_are_refused_by_name<F: Fixture>(gpu: &Gpu<F>) {
    let format = gpu.fixture().image_format();
    let line = ImageDesc::new_1d(16, format);
    let cube = ImageDesc::new_cube(16, format);
    let sized = |mut desc: ImageDesc, extent| {
        desc.extent = extent;
        desc
    };
    let not_a_line = |extent| DescriptionError::OneDimensional { extent };
    let no_cube = |extent, array_layers| DescriptionError::Cube { extent, array_layers };
    for (desc, rule) in [
        (sized(line, [16, 2, 1]), not_a_line([16, 2, 1])),
        (sized(line, [16, 1, 3]), not_a_line([16, 1, 3])),
        (line.with_samples(4), DescriptionError::Multisampled),
        (sized(cube, [16, 8, 1]), no_cube([16, 8, 1], 6)),
        (sized(cube, [16, 16, 2]), no_cube([16, 16, 2], 6)),
        (cube.with_array_layers(1), no_cube([16, 16, 1], 1)),
        (cube.with_array_layers(8), no_cube([16, 16, 1], 8)),
        (cube.with_samples(4), DescriptionError::Multisampled),
        (ImageDesc::new_3d(8, 8, 8, format).with_array_layers(2), DescriptionError::ArrayOf3d),
        (ImageDesc::new_3d(8, 8, 8, format).with_samples(2), DescriptionError::Multisampled),
        (desc(gpu, 8, 8).with_samples(4).with_mip_levels(2), DescriptionError::Multisampled),
    ] {
        let refused = gpu.device().image_requirements(&desc.into());
        assert_eq!(refused, Err(DeviceError::InvalidDescription(rule)), "{desc:?}");
        assert!(gpu.try_dedicated_image(gpu.types()[0], desc).is_err(), "{desc:?}");
    }
}

fn views_have_the_formats_of_the_description<F: Fixture>(gpu: &Gpu<F>) {
    let plain = desc(gpu, 16, 16);
    let same = plain.with_view_formats([plain.format, plain.format]);
    drop(gpu.image(same));
    for wrong in [3_000_000_000, u32::MAX] {
        let refused = gpu.device().image_requirements(&plain.with_view_formats([plain.format, wrong]).into());
        let rule = DescriptionError::ViewFormat { format: wrong };
        assert_eq!(refused, Err(DeviceError::InvalidDescription(rule)));
    }
}

fn an_image_larger_than_any_heap_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    let huge = desc(gpu, u32::MAX, u32::MAX);
    assert!(gpu.device().image_requirements(&huge.into()).is_err());
}

fn the_tiling_says_what_stands_in_memory<F: Fixture>(gpu: &Gpu<F>) {
    let mut image = desc(gpu, 64, 64);
    assert_eq!(gpu.device().image_kind(&image.into()), ResourceKind::OptimalImage);
    if gpu.fixture().has_linear_images() {
        image.tiling = Tiling::Linear;
        assert_eq!(gpu.device().image_kind(&image.into()), ResourceKind::LinearImage);
    }
}

fn images_stand_at_their_offsets<F: Fixture>(gpu: &Gpu<F>) {
    for desc in shapes(gpu) {
        let needs = requirements(gpu, desc);
        let stride = needs.alignment.align_up(needs.size);
        for memory_type in types(gpu, &needs) {
            let memory = gpu.allocate(memory_type, 3 * stride + needs.size);
            let images: Vec<_> = [3, 0, 2].map(|at| memory.image(at * stride, desc)).into();
            drop(images);
        }
    }
}

fn a_dedicated_image_is_made_in_every_memory_type_that_takes_images<F: Fixture>(gpu: &Gpu<F>) {
    for desc in shapes(gpu) {
        for memory_type in types(gpu, &requirements(gpu, desc)) {
            drop(gpu.try_dedicated_image(memory_type, desc).unwrap());
        }
    }
}

fn a_refused_dedicated_image_leaves_nothing<F: Fixture>(gpu: &Gpu<F>) {
    gpu.fixture().expect_complaints("allocate: ");
    // That nothing is left is seen when the fixture finishes.
    let beyond = MemoryTypeIndex(gpu.properties().memory_types.len() as u8);
    let memory = MemoryDesc::new(beyond, 1);
    for desc in shapes(gpu) {
        assert!(gpu.device().create_dedicated_image(&desc.into(), &memory).is_err());
    }
    assert!(gpu.try_dedicated_image(gpu.types()[0], desc(gpu, 0, 0)).is_err());
}

fn images_are_made_and_destroyed_again_and_again<F: Fixture>(gpu: &Gpu<F>) {
    let desc = desc(gpu, 64, 64);
    let needs = requirements(gpu, desc);
    let memory = gpu.allocate(types(gpu, &needs)[0], needs.size);
    for _ in 0..200 {
        let images = [memory.image(0, desc), memory.image(0, desc)];
        drop(images);
    }
}

fn an_image_and_a_buffer_stand_in_the_same_memory_by_turns<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let mut image = desc(gpu, 64, 64);
    if gpu.fixture().has_linear_images() {
        image.tiling = Tiling::Linear;
    } else if gpu.properties().limits.buffer_image_granularity.get() > 1 {
        return Outcome::DoesNotApply("no image may share a page with a buffer");
    }
    let either = requirements(gpu, image).or(gpu.requirements(4096));
    let Some(&memory_type) = types(gpu, &either).first() else {
        return Outcome::DoesNotApply("no memory type takes both buffers and images");
    };
    let shift = either.alignment.align_up(4096);
    let memory = gpu.allocate(memory_type, shift + either.size);
    for round in 0..3 {
        let buffer = memory.buffer(shift, 4096);
        gpu.put(&buffer, 0, &pattern(round, 4096));
        assert_same(&gpu.get(&buffer), &pattern(round, 4096), (memory_type, round));
        drop(buffer);
        drop(memory.image(shift, image));
    }
    Outcome::Ran
}

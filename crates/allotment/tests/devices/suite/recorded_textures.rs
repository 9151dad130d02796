//! The textures of a recorded race: written whole with their mip levels, as a game loads them, and read back level by level.
//!
//! A tenth of them, and with `ALLOTMENT_PERCENT=100` all.

use std::path::Path;

use allotment::MemoryUsage;
use allotment::device::{ImageDesc, ImageDevice as _, ImagePart};
use allotment::gpu::GpuDesc;
use allotment_trace::Trace;

use super::image_copies::aspects;
use super::image_formats::{graphics, supported};
use crate::amount::drawn;
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Format, FormatClass, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        textures_of_a_race_are_written_with_their_mips_and_read_back,
    ]
}

/// Textures that are written before they are read and dropped.
const BATCH: usize = 16;

/// Describes a recorded image with a format of the device that has as large blocks; `None` where it has none.
fn desc<F: Fixture>(gpu: &Gpu<F>, shape: &allotment_trace::ImageShape<'_>) -> Option<(ImageDesc, Format)> {
    let (class, bytes) = match shape.format {
        "VK_FORMAT_BC3_UNORM_BLOCK" => (FormatClass::Bc, 16),
        "VK_FORMAT_R8G8B8A8_UNORM" => (FormatClass::Texels, 4),
        "VK_FORMAT_R8_UNORM" => (FormatClass::Texels, 1),
        "VK_FORMAT_D32_SFLOAT" => (FormatClass::Depth, 4),
        other => panic!("a format that was not in the race: {other}"),
    };
    gpu.fixture().formats().into_iter().filter(|format| format.class == class).find_map(|format| {
        let [width, height, depth] = shape.extent;
        let mut desc = ImageDesc::new(width, height, format.number).with_usage(format.usage);
        (desc.extent[2], desc.mip_levels, desc.array_layers) = (depth, shape.mip_levels, shape.array_layers);
        let texels = gpu.device().image_shape(&desc.into()).texels;
        let block = texels.block(texels.aspects().next()?).filter(|block| block.bytes == bytes)?;
        if gpu.device().image_requirements(&desc.into()).is_err() {
            // Direct3D 12 has compressed images of whole blocks only.
            desc.extent[0] = width.next_multiple_of(block.width);
            desc.extent[1] = height.next_multiple_of(block.height);
            gpu.device().image_requirements(&desc.into()).ok()?;
        }
        Some((desc, format))
    })
}

fn textures_of_a_race_are_written_with_their_mips_and_read_back<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    if graphics(gpu).is_none() {
        return Outcome::DoesNotApply("the device has no graphics queue");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces");
    let trace = Trace::open(folder.join("supertuxkart-race.csv.gz")).unwrap();
    let shapes: Vec<_> = trace.resources().iter().filter_map(|resource| resource.image_shape()).collect();
    assert_eq!(shapes.len(), 307);
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let (mut textures, mut lacking) = (0, 0);
    let drawn: Vec<_> = (0..).zip(&shapes).filter(|(number, _)| drawn(*number)).collect();
    for batch in drawn.chunks(BATCH) {
        let mut written = Vec::new();
        for &(number, shape) in batch {
            let Some((desc, format)) = desc(gpu, shape) else {
                lacking += 1;
                continue;
            };
            let image =
                front.create_image(&desc.into(), &MemoryUsage::GpuOnly.with_name("of the race")).unwrap();
            let parts = aspects(gpu, &desc, format.values);
            let levels: Vec<_> = (number << 8..)
                .zip(&parts)
                .map(|(seed, part)| {
                    let mut bytes = pattern(seed, part.tight().end());
                    part.tight().settle(&mut bytes);
                    bytes
                })
                .collect();
            front.uploads().write_image(&image, &levels.concat()).unwrap();
            written.push((image, parts, levels));
        }
        front.begin_frame().unwrap().end().unwrap();
        let mut reads = Vec::new();
        for (image, parts, levels) in &written {
            for (part, level) in parts.iter().zip(levels) {
                let (mip_level, layer) = (part.mip_level, part.array_layer);
                let of_level = ImagePart::default()
                    .with_mip_levels(mip_level..mip_level + 1)
                    .with_array_layers(layer..layer + 1);
                reads.push((front.reads().read_image(image, &of_level).unwrap(), part, level));
            }
        }
        front.begin_frame().unwrap().end().unwrap();
        front.wait_idle().unwrap();
        for (read, part, level) in reads {
            let mut found = read.bytes().unwrap();
            part.tight().settle(&mut found);
            assert_same(&found, level, (part.mip_level, part.array_layer, part.extent));
        }
        textures += written.len();
    }
    if textures == 0 {
        return Outcome::DoesNotApply("the device has no compressed images");
    }
    let has_blocks = !supported(gpu, |class| class == FormatClass::Bc).is_empty();
    assert!(lacking == 0 || !has_blocks, "{lacking} textures were left out");
    Outcome::Ran
}

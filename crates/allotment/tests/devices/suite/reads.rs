//! Buffers and images that are read in one call, over any device: every byte of every mip level, layer and aspect, and of boxes.

use allotment::device::{BufferDesc, CopyDirection, ImageDevice as _, ImagePart, ImageRegion, QueueKind};
use allotment::gpu::GpuDesc;
use allotment::memory::{Dedicated, Image};
use allotment::upload::{ReadError, ReadHandle};
use allotment::{AllocationOptions, MemoryUsage};

use super::image_copies::{Model, Part, aspects};
use super::image_formats::{boxed, graphics, shapes, supported};
use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        images_of_every_format_are_read_whole_and_in_boxes,
        many_reads_of_a_frame_are_one_submission,
    ]
}

/// Returns the texels of a part without padding, as the model has them.
fn texels_of(model: &mut Model, part: &Part) -> Vec<u8> {
    let tight = part.tight();
    let mut bytes = vec![0; tight.end() as usize];
    model.run(&tight, &mut bytes, CopyDirection::OutOfImage);
    tight.settle(&mut bytes);
    bytes
}

/// What a read brings, of parts that may have bits without a meaning.
fn found(read: &ReadHandle, parts: &[Part]) -> Vec<u8> {
    let bytes = read.bytes().unwrap();
    let mut rest = &bytes[..];
    let mut settled = Vec::new();
    for part in parts {
        let (now, later) = rest.split_at(part.tight().end() as usize);
        let mut now = now.to_vec();
        part.tight().settle(&mut now);
        settled.extend(now);
        rest = later;
    }
    assert!(rest.is_empty());
    settled
}

fn images_of_every_format_are_read_whole_and_in_boxes<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    if graphics(gpu).is_none() {
        return Outcome::DoesNotApply("the device has no graphics queue");
    }
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let mut random = Random::new(11);
    for format in supported(gpu, |_| true) {
        for desc in shapes(gpu, &format) {
            // In memory of its own, as for the tests of whole textures.
            let options = MemoryUsage::GpuOnly.with_name("texture").with_dedicated(Dedicated::Always);
            let image: Image<F::Device> = front.create_image(&desc.into(), &options).unwrap();
            let refused = front.reads().read_image(&image, &ImagePart::default()).unwrap_err();
            assert!(matches!(refused, ReadError::NoTexels { mip_level: 0, array_layer: 0, .. }), "{refused}");

            let (parts, mut model) = (aspects(gpu, &desc, format.values), Model::new(&desc));
            let mut bytes = Vec::new();
            for (part, seed) in parts.iter().zip(1..) {
                let mut of_part = pattern(seed, part.tight().end());
                part.tight().settle(&mut of_part);
                model.run(&part.tight(), &mut of_part.clone(), CopyDirection::IntoImage);
                bytes.extend(of_part);
            }
            // In the state in which descriptors of views have it: also of depth that is no attachment.
            front.uploads().write_image(&image, &bytes).unwrap();

            let whole = front.reads().read_image(&image, &ImagePart::default()).unwrap();
            let boxes: Vec<_> = (0..4)
                .map(|_| {
                    let part = parts[random.below(parts.len() as u64) as usize];
                    let part = boxed(gpu, &part, &desc, 0, &mut random);
                    let Part { mip_level, array_layer, aspect, origin, extent, .. } = part;
                    let region = ImageRegion { aspect, mip_level, array_layer, origin, extent };
                    (front.reads().read_image(&image, &region.into()).unwrap(), part)
                })
                .collect();
            front.begin_frame().unwrap().end().unwrap();
            front.wait_idle().unwrap();
            assert_same(&found(&whole, &parts), &bytes, (&format, &desc));
            for (read, part) in boxes {
                let expected = texels_of(&mut model, &part);
                assert_same(&found(&read, &[part]), &expected, (&format, &desc, part.origin, part.extent));
            }
            let shape = gpu.device().image_shape(&desc.into());
            let sampled = gpu.device().state_to_read(QueueKind::Graphics, &shape);
            assert_eq!(image.state(), Some(sampled), "it stays in its state");
        }
        front.wait_idle().unwrap();
    }
    Outcome::Ran
}

fn many_reads_of_a_frame_are_one_submission<F: Fixture>(gpu: &Gpu<F>) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("counters");
    let buffers: Vec<_> = (0..40)
        .map(|number| {
            let buffer = front.create_buffer(&BufferDesc::new(4096).into(), &options).unwrap();
            front.uploads().write_buffer(&buffer, 0, &pattern(number, 4096)).unwrap();
            buffer
        })
        .collect();
    for round in 0..6_u64 {
        let reads: Vec<_> = buffers
            .iter()
            .zip(0..)
            .map(|(buffer, number)| {
                let (offset, size) = (number * 7 + round, 1 + number * 13);
                (number, offset as usize, front.reads().read_buffer(buffer, offset, size).unwrap())
            })
            .collect();
        front.begin_frame().unwrap().end().unwrap();
        assert_eq!(front.reads().statistics().submissions, round + 1);
        front.wait_idle().unwrap();
        for (number, offset, read) in reads {
            let expected = &pattern(number, 4096)[offset..][..read.size() as usize];
            assert_same(&read.bytes().unwrap(), expected, (round, number));
        }
    }
}

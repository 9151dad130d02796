//! Textures that work samples through descriptors, with samplers of a sampler cache.

use std::sync::Arc;

use allotment::descriptor::ImageView;
use allotment::device::{AddressMode, Filter, ImageDesc, ImageViewDesc, ImageViewDimension, SamplerDesc};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::Image;
use allotment::upload::ImageWrite;
use allotment::{AllocationOptions, MemoryUsage};
use allotment_readers::{DescriptorReader as _, Sample, SampleAt, SampleList};

use super::descriptor_rig::{FIRST, Rig};
use crate::fixture::{DescriptorFixture, Fixture};

type Reader<F> = <F as DescriptorFixture>::Reader;
type Front<F> = Gpu<<F as Fixture>::Device>;

/// Odd, and not square, so that rows, columns and sizes are not mistaken for each other.
const TEXTURE: [u32; 2] = [5, 3];
/// More than twice the texture.
const PICTURE: [u32; 2] = [13, 7];
const TEXTURES: u32 = 3;

fn wanted() -> AllocationOptions {
    AllocationOptions::new(MemoryUsage::GpuOnly).with_name("of the test")
}

fn texel(texture: u32, x: u32, y: u32) -> [u8; 4] {
    [texture, x, y, 200 + texture + x + y].map(|channel| channel as u8)
}

/// Returns the texels of an extent, of which `at` says what is there.
fn texels([width, height]: [u32; 2], at: impl Fn(u32, u32) -> [u8; 4]) -> Vec<u8> {
    (0..width * height).flat_map(|i| at(i % width, i / width)).collect()
}

fn texture<F: DescriptorFixture>(front: &Front<F>, number: u32) -> Image<F::Device> {
    let image = front.create_image(&Reader::<F>::texture_desc(TEXTURE).into(), &wanted()).unwrap();
    let write = ImageWrite::default().with_after(Reader::<F>::SAMPLED);
    let bytes = texels(TEXTURE, |x, y| texel(number, x, y));
    front.uploads().write_image_part(&image, &write, &bytes).unwrap();
    image
}

/// Returns the texel along an axis that a sampler takes for the one at `at`.
fn addressed(mode: AddressMode, at: u32, length: u32) -> u32 {
    match mode {
        AddressMode::Repeat => at % length,
        AddressMode::MirroredRepeat if at / length % 2 == 1 => length - 1 - at % length,
        AddressMode::MirroredRepeat => at % length,
        AddressMode::ClampToEdge => at.min(length - 1),
        AddressMode::ClampToBorder => unreachable!("not sampled here"),
    }
}

pub(crate) fn textures_are_sampled_through_their_descriptors_and_samplers<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) {
    let front = Gpu::new(rig.device().clone(), GpuDesc::default()).unwrap();
    let descriptors = front.descriptors().unwrap();
    let heap = descriptors.resources();
    let reader = Reader::<F>::new(rig.device(), heap.statistics().capacity).unwrap();
    let slots: Vec<_> = (0..TEXTURES)
        .map(|number| {
            let image = texture::<F>(&front, number);
            let handle = image.handle();
            // SAFETY: the image is of that description, and destroyed after its view.
            let albedo = Arc::new((unsafe { reader.texture_view(&handle) }.unwrap(), image));
            // SAFETY: the slot keeps the view and the image alive.
            let descriptor = unsafe { Reader::<F>::texture_descriptor(&handle, &albedo.0) };
            heap.insert(&descriptor, Some(albedo.clone())).unwrap()
        })
        .collect();
    let size = u64::from(PICTURE[0] * PICTURE[1] * 4);
    let picture = front.create_buffer(&reader.buffer_info(size, true), &wanted()).unwrap();

    let modes = [AddressMode::Repeat, AddressMode::MirroredRepeat, AddressMode::ClampToEdge];
    for [u, v] in modes.into_iter().flat_map(|u| modes.map(|v| [u, v])) {
        let nearest = SamplerDesc {
            mag_filter: Filter::Nearest,
            min_filter: Filter::Nearest,
            address: [u, v, AddressMode::Repeat],
            ..SamplerDesc::default()
        };
        let sampler = descriptors.samplers().get(&nearest).unwrap();
        for (number, slot) in (0..).zip(&slots) {
            let frame = front.begin_frame().unwrap();
            let resources = frame.transient_descriptors().unwrap();
            let samplers = descriptors.samplers().heap().begin(frame.recording()).unwrap();
            let sample = Sample {
                resources: resources.heap(),
                texture: slot.index(),
                samplers: samplers.heap(),
                sampler: sampler.index(),
                extent: PICTURE,
                to: &picture.handle(),
            };
            // SAFETY: everything is alive until the GPU has completed the frame, and the picture lies in its buffer.
            frame.submit(FIRST, |queue, waits| unsafe { reader.sample(queue, waits, &sample) }).unwrap();
            drop((resources, samplers));
            frame.end().unwrap();
            let mut found = vec![0; size as usize];
            front.read_buffer(&picture, 0, &mut found).unwrap();
            let [width, height] = TEXTURE;
            let expected =
                texels(PICTURE, |x, y| texel(number, addressed(u, x, width), addressed(v, y, height)));
            assert_eq!(found, expected, "texture {number}, {u:?} and {v:?}");
        }
    }
    for slot in slots {
        heap.remove(slot).unwrap();
    }
    drop(picture);
    front.wait_idle().unwrap();
}

/// The side of the mipmapped texture and of the faces of the cube, and their mip levels.
const SIDE: u32 = 8;
const LEVELS: u32 = 4;

/// The texel of a level of a face.
fn level_texel(level: u32, face: u32, x: u32, y: u32) -> [u8; 4] {
    [level, face, x, y].map(|number| 10 + 20 * number as u8)
}

/// Creates an image of which each texel of each level and face differs, and a view of all of it.
fn view<F: DescriptorFixture>(
    front: &Front<F>,
    desc: ImageDesc,
    dimension: ImageViewDimension,
) -> Arc<ImageView<F::Device>> {
    let image = Arc::new(front.create_image(&desc.with_full_mips().into(), &wanted()).unwrap());
    let levels = (0..desc.array_layers).flat_map(|face| (0..LEVELS).map(move |level| (face, level)));
    let bytes: Vec<u8> = levels
        .flat_map(|(face, level)| texels([SIDE >> level; 2], |x, y| level_texel(level, face, x, y)))
        .collect();
    let write = ImageWrite::default().with_after(Reader::<F>::SAMPLED);
    front.uploads().write_image_part(&image, &write, &bytes).unwrap();
    let sampled = ImageViewDesc::sampled().with_dimension(dimension);
    Arc::new(front.create_image_view(&image, &sampled).unwrap())
}

/// Returns the direction from the middle of a cube to a point of a face, as both graphics APIs have it.
fn direction(face: u32, [s, t]: [f32; 2]) -> [f32; 3] {
    match face {
        0 => [1.0, -t, -s],
        1 => [-1.0, -t, s],
        2 => [s, 1.0, t],
        3 => [s, -1.0, -t],
        4 => [s, -t, 1.0],
        _ => [-s, -t, -1.0],
    }
}

/// Each texel of each mip level of each face, in an order that is not that of memory.
fn entries(dimension: ImageViewDimension, faces: u32) -> (Vec<SampleAt>, Vec<[u8; 4]>) {
    let (mut entries, mut expected) = (Vec::new(), Vec::new());
    for (level, face) in (0..LEVELS).rev().flat_map(|level| (0..faces).map(move |face| (level, face))) {
        let side = SIDE >> level;
        for (x, y) in (0..side).flat_map(|x| (0..side).map(move |y| (x, y))) {
            let [u, v] = [x, y].map(|at| (at as f32 + 0.5) / side as f32);
            let coordinates = match dimension {
                ImageViewDimension::Cube => direction(face, [u, v].map(|at| 2.0 * at - 1.0)),
                // Repeated: the same texel, twice to the left and once down.
                _ => [u - 2.0, v + 1.0, 0.0],
            };
            entries.push(SampleAt { coordinates, level: level as f32, to: 0 });
            expected.push(level_texel(level, face, x, y));
        }
    }
    // The last entry writes the first texel of the picture.
    let last = entries.len() as u32 - 1;
    entries.iter_mut().zip((0..=last).rev()).for_each(|(entry, to)| entry.to = to);
    expected.reverse();
    (entries, expected)
}

pub(crate) fn each_texel_of_each_mip_level_and_face_is_sampled_through_views<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) {
    let front = Gpu::new(rig.device().clone(), GpuDesc::default()).unwrap();
    let descriptors = front.descriptors().unwrap();
    let heap = descriptors.resources();
    let reader = Reader::<F>::new(rig.device(), heap.statistics().capacity).unwrap();
    let nearest = Filter::Nearest;
    let nearest =
        SamplerDesc { mag_filter: nearest, min_filter: nearest, mip_filter: nearest, ..Default::default() };
    let sampler = descriptors.samplers().get(&nearest).unwrap();
    let format = Reader::<F>::RGBA8;
    for (desc, dimension) in [
        (ImageDesc::new(SIDE, SIDE, format), ImageViewDimension::D2),
        (ImageDesc::new_cube(SIDE, format), ImageViewDimension::Cube),
    ] {
        let slot = heap.insert_view(&view::<F>(&front, desc, dimension)).unwrap();
        let (entries, expected) = entries(dimension, desc.array_layers);
        let bytes: Vec<u8> = entries.iter().flat_map(SampleAt::to_bytes).collect();
        let list = front.create_buffer(&reader.buffer_info(bytes.len() as u64, false), &wanted()).unwrap();
        front.uploads().write_buffer(&list, 0, &bytes).unwrap();
        let size = 4 * entries.len() as u64;
        let picture = front.create_buffer(&reader.buffer_info(size, true), &wanted()).unwrap();

        let frame = front.begin_frame().unwrap();
        let resources = frame.transient_descriptors().unwrap();
        let samplers = descriptors.samplers().heap().begin(frame.recording()).unwrap();
        let samples = SampleList {
            resources: resources.heap(),
            texture: slot.index(),
            dimension,
            samplers: samplers.heap(),
            sampler: sampler.index(),
            list: &list.handle(),
            count: entries.len() as u32,
            to: &picture.handle(),
        };
        // SAFETY: everything is alive until the GPU has completed the frame, and the texels lie in the picture.
        frame.submit(FIRST, |queue, waits| unsafe { reader.sample_list(queue, waits, &samples) }).unwrap();
        drop((resources, samplers));
        frame.end().unwrap();
        let mut found = vec![0; size as usize];
        front.read_buffer(&picture, 0, &mut found).unwrap();
        let found: Vec<[u8; 4]> = found.chunks_exact(4).map(|texel| texel.try_into().unwrap()).collect();
        assert_eq!(found, expected, "{dimension:?}");
        heap.remove(slot).unwrap();
    }
    front.wait_idle().unwrap();
}

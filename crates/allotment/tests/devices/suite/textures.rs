//! Textures that work samples through descriptors, with samplers of a sampler cache.

use std::sync::Arc;

use allotment::device::{AddressMode, Filter, SamplerDesc};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::Image;
use allotment::upload::ImageWrite;
use allotment::{AllocationOptions, MemoryUsage};
use allotment_readers::{DescriptorReader as _, Sample};

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

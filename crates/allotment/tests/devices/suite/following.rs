//! Descriptors follow moves: work reads through sets and slots what their resources hold, wherever those were moved, and
//! no test writes a descriptor twice.

use std::collections::VecDeque;
use std::sync::Arc;

use allotment::descriptor::{
    Binding, BindingSet, DescriptorSlot, ShaderVisibleHeapDesc, TransientDescriptors,
};
use allotment::device::{BufferUse, BufferViewDesc, ImageViewDesc, SamplerDesc};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::lifetime::Recording;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, PassLimits};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{Buffer, Image, Transfer};
use allotment::upload::ImageWrite;
use allotment::{AllocationOptions, MemoryUsage};
use allotment_readers::{DescriptorReader as _, Sample};

use super::allocator::{KIB, MIB};
use super::descriptor_rig::{FIRST, Reading, Rig};
use crate::bytes::Random;
use crate::fixture::{DescriptorFixture, Fixture};

type Device<F> = <F as Fixture>::Device;
type Reader<F> = <F as DescriptorFixture>::Reader;
type Front<F> = Gpu<Device<F>>;

/// 16 of them fill a block.
const SIZE: u64 = 60 * KIB;
/// A texture of about that size.
const TEXTURE: [u32; 2] = [128, 120];
/// A part of it.
const PICTURE: [u32; 2] = [3, 2];

fn front<F: DescriptorFixture>(rig: &Rig<'_, F>, change: impl FnOnce(GpuDesc) -> GpuDesc) -> Front<F> {
    let heap = ShaderVisibleHeapDesc::resources().with_regions(128, 192, 128).with_chunk(16);
    let mut desc = GpuDesc::default().with_resource_descriptors(heap);
    desc.allocator.block_sizes = BlockSizes::fixed(MIB);
    desc.allocator.empty_blocks = EmptyBlockPolicy::NONE;
    desc.allocator.on_leak = LeakHandler::Ignore;
    Gpu::new(rig.device().clone(), change(desc)).unwrap()
}

fn wanted() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("followed").relocatable()
}

/// A buffer that holds a number at its start, and the next one at byte 256.
fn buffer<F: DescriptorFixture>(rig: &Rig<'_, F>, front: &Front<F>, number: u32) -> Arc<Buffer<Device<F>>> {
    let buffer = front.create_buffer(&rig.reader.buffer_info(SIZE, false), &wanted()).unwrap();
    write_numbers::<F>(front, &buffer, number);
    Arc::new(buffer)
}

fn write_numbers<F: DescriptorFixture>(front: &Front<F>, buffer: &Buffer<Device<F>>, number: u32) {
    for (offset, number) in [(0, number), (256, number + 1)] {
        front.uploads().write_buffer(buffer, offset, &number.to_ne_bytes()).unwrap();
    }
}

/// An image whose texels are all a number.
fn image<F: DescriptorFixture>(front: &Front<F>, number: u32) -> Arc<Image<Device<F>>> {
    let image = front.create_image(&Reader::<F>::texture_desc(TEXTURE).into(), &wanted()).unwrap();
    write_texels::<F>(front, &image, number);
    Arc::new(image)
}

fn write_texels<F: DescriptorFixture>(front: &Front<F>, image: &Image<Device<F>>, number: u32) {
    let bytes: Vec<_> = (0..TEXTURE[0] * TEXTURE[1]).flat_map(|_| number.to_ne_bytes()).collect();
    let write = ImageWrite::default().with_after(Reader::<F>::SAMPLED);
    front.uploads().write_image_part(image, &write, &bytes).unwrap();
}

/// A material and bindless slots of the same resources.
struct Material<F: DescriptorFixture> {
    set: BindingSet<Device<F>>,
    slots: [DescriptorSlot; 2],
    buffer: Arc<Buffer<Device<F>>>,
    image: Arc<Image<Device<F>>>,
}

impl<F: DescriptorFixture> Material<F> {
    fn new(front: &Front<F>, buffer: Arc<Buffer<Device<F>>>, image: Arc<Image<Device<F>>>) -> Self {
        let descriptors = front.descriptors().unwrap();
        let (heap, view) = (descriptors.resources(), Reader::<F>::texture_view_info());
        // The third descriptor stays null, and the dynamic one is copied at each draw.
        let bindings =
            [Binding::mutable("numbers").array(3), Binding::mutable("albedo"), Binding::dynamic("instance")];
        let mut set = BindingSet::new(&descriptors.binding_layout(&bindings).unwrap()).unwrap();
        set.bind_buffer(0, 0, &buffer, 0..256, BufferUse::ReadOnly).unwrap();
        let seen = |range| {
            let desc = BufferViewDesc::new(range, BufferUse::ReadOnly);
            Arc::new(front.create_buffer_view(&buffer, &desc).unwrap())
        };
        for (binding, at, range) in [(0, 1, 256..512), (2, 0, 256..272)] {
            set.bind_buffer_view(binding, at, &seen(range)).unwrap();
        }
        let of_image = Arc::new(front.create_image_view(&image, &ImageViewDesc::sampled()).unwrap());
        set.bind_view(1, 0, &of_image).unwrap();
        let of_buffer = heap.insert_buffer_view(&seen(0..256)).unwrap();
        // SAFETY: the reader described the image for this use.
        let of_image = unsafe { heap.insert_image(&image, &view) }.unwrap();
        Self { set, slots: [of_buffer, of_image], buffer, image }
    }

    /// What is read with a recording: the descriptors of numbers, and those of textures.
    fn commit(&self, view: &mut TransientDescriptors<Device<F>>) -> [Vec<u32>; 2] {
        let draw = self.set.commit(view).unwrap();
        let (table, dynamic) = (draw.table.unwrap().first, draw.dynamic.unwrap().first);
        let [of_buffer, of_image] = self.slots.map(DescriptorSlot::index);
        [vec![table, table + 1, of_buffer, dynamic], vec![table + 3, of_image]]
    }

    fn remove(self, front: &Front<F>) {
        let heap = front.descriptors().unwrap().resources();
        self.slots.into_iter().for_each(|slot| heap.remove(slot).unwrap());
    }
}

/// What a recording reads.
struct Work<'r, 'g, F: DescriptorFixture> {
    numbers: Reading<'r, 'g, F>,
    pictures: Vec<Buffer<Device<F>>>,
}

/// Submits reads of numbers and textures.
fn submit<'r, 'g, F: DescriptorFixture>(
    rig: &'r Rig<'g, F>,
    front: &Front<F>,
    recording: Recording,
    view: &TransientDescriptors<Device<F>>,
    [numbers, textures]: [&[u32]; 2],
) -> Work<'r, 'g, F> {
    let descriptors = front.descriptors().unwrap();
    let sampler = descriptors.samplers().get(&SamplerDesc::default()).unwrap();
    let samplers = descriptors.samplers().heap().begin(&recording).unwrap();
    let size = u64::from(PICTURE[0] * PICTURE[1] * 4);
    let pictures: Vec<_> = textures
        .iter()
        .map(|_| {
            let pinned = MemoryUsage::GpuOnly.with_name("picture");
            front.create_buffer(&rig.reader.buffer_info(size, true), &pinned).unwrap()
        })
        .collect();
    let mut reading = None;
    let point = recording.submit(FIRST, |queue| {
        for (&texture, picture) in textures.iter().zip(&pictures) {
            let sample = Sample {
                resources: view.heap(),
                texture,
                samplers: samplers.heap(),
                sampler: sampler.index(),
                extent: PICTURE,
                to: &picture.handle(),
            };
            // SAFETY: the recording keeps everything alive, and the picture lies in its buffer.
            unsafe { rig.reader.sample(queue, &[], &sample) }?;
        }
        let submitted = rig.submit_raw(&[], &[(view.heap(), numbers)]);
        let value = submitted.point.value;
        reading = Some(submitted);
        Ok::<_, allotment::device::DeviceError>(value)
    });
    point.unwrap();
    Work { numbers: reading.unwrap(), pictures }
}

impl<F: DescriptorFixture> Work<'_, '_, F> {
    fn assert_reads(&self, front: &Front<F>, numbers: &[u32], textures: &[u32], what: &str) {
        assert_eq!(self.numbers.results(), [numbers], "{what}");
        for (i, (picture, number)) in self.pictures.iter().zip(textures).enumerate() {
            let mut found = vec![0; picture.size() as usize];
            let mut transfer = Transfer::new(front.allocator(), FIRST, 1 << 16).unwrap();
            picture.with_raw(|raw| transfer.download_from(raw, 0, &mut found)).unwrap();
            let expected: Vec<_> = (0..PICTURE[0] * PICTURE[1]).flat_map(|_| number.to_ne_bytes()).collect();
            assert_eq!(found, expected, "{what}: texture {i}");
        }
    }
}

fn finish<F: DescriptorFixture>(front: Front<F>) {
    for _ in 0..3 {
        front.wait_idle().unwrap();
    }
    let statistics = front.descriptors().unwrap().resources().statistics();
    assert_eq!((statistics.slots.used, statistics.tables.used), (0, 0));
    front.allocator().check_invariants();
    front.defragmenter().stop();
    assert!(front.defragmenter().statistics().moves > 0);
}

pub(crate) fn a_binding_set_and_a_bindless_slot_follow_what_defragmentation_moves<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) {
    let front = front(rig, |desc| desc);
    let mut buffers: Vec<_> = (0..32).map(|i| buffer(rig, &front, 1000 * i)).collect();
    let mut images: Vec<_> = (0..32).map(|i| image::<F>(&front, 1000 * i)).collect();
    front.wait_idle().unwrap();
    // One of four stays, so that there are holes.
    let mut index = 0;
    buffers.retain(|_| (index % 4 == 0, index += 1).0);
    index = 0;
    images.retain(|_| (index % 4 == 0, index += 1).0);
    let materials: Vec<_> = buffers
        .drain(..)
        .zip(images.drain(..))
        .map(|(buffer, image)| Material::<F>::new(&front, buffer, image))
        .collect();
    front.wait_idle().unwrap();
    let first = |i: usize| 4000 * i as u32;
    let all = |of: &dyn Fn(usize) -> u32| -> [Vec<u32>; 2] {
        let numbers = (0..materials.len()).flat_map(|i| [of(i), of(i) + 1, of(i), of(i) + 1]).collect();
        [numbers, (0..materials.len()).flat_map(|i| [of(i); 2]).collect()]
    };
    let commit = |view: &mut TransientDescriptors<Device<F>>| {
        let mut all = [Vec::new(), Vec::new()];
        for material in &materials {
            let [numbers, textures] = material.commit(view);
            all[0].extend(numbers);
            all[1].extend(textures);
        }
        all
    };
    let heap = front.descriptors().unwrap().resources();

    // A frame that is recorded before the move, and submitted afterwards.
    let early = front.record("before the move").only_reads();
    let mut early_view = heap.begin(&early).unwrap();
    let [numbers, textures] = commit(&mut early_view);
    let mut moves = 0;
    for _ in 0..200 {
        moves += front.defragmenter().step(PassLimits::NONE).unwrap().statistics.moves;
    }
    assert!(moves > 0, "there is something to gain");
    let generation = heap.statistics().generation;
    assert_eq!(generation, 1, "one heap for all moves of a step");
    // What is written now goes to the new places, and must not be seen by the frame before.
    let has_moved = |i: usize| [materials[i].buffer.moves() > 0, materials[i].image.moves() > 0];
    assert!((0..materials.len()).any(|i| has_moved(i)[0]));
    let new = |i: usize| 500_000 + first(i);
    for (i, material) in materials.iter().enumerate() {
        let [buffer, image] = has_moved(i);
        if buffer {
            write_numbers::<F>(&front, &material.buffer, new(i));
        }
        if image {
            write_texels::<F>(&front, &material.image, new(i));
        }
    }
    front.wait(front.uploads().submit().unwrap()).unwrap();
    front.reclaim();
    let work = submit(rig, &front, early, &early_view, [&numbers, &textures]);
    let [old_numbers, old_textures] = all(&first);
    work.assert_reads(&front, &old_numbers, &old_textures, "before the move");
    drop((work, early_view));

    // A frame that begins after the move: by the same indices of slots, and the sets as they are.
    let later = |i: usize, class: usize| if has_moved(i)[class] { new(i) } else { first(i) };
    for round in 0..2 {
        let recording = front.record("after the move");
        let mut view = heap.begin(&recording).unwrap();
        let [numbers, textures] = commit(&mut view);
        let work = submit(rig, &front, recording, &view, [&numbers, &textures]);
        let [expected, _] = all(&|i| later(i, 0));
        let [_, expected_textures] = all(&|i| later(i, 1));
        work.assert_reads(&front, &expected, &expected_textures, "after the move");
        drop((work, view));
        front.wait_idle().unwrap();
        // The old places are gone the second time, and the heap is a copy of what is left.
        if round == 0 {
            heap.compact().unwrap();
            front.wait_idle().unwrap();
        }
    }
    materials.into_iter().for_each(|material| material.remove(&front));
    finish::<F>(front);
}

pub(crate) fn descriptors_follow_through_many_frames_of_moves_creations_and_drops<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) {
    let full =
        DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE.with_moves(6));
    let front = front(rig, |desc| desc.with_defragmentation(full));
    let heap = front.descriptors().unwrap().resources();
    let layout =
        front.descriptors().unwrap().binding_layout(&[Binding::mutable("numbers").array(2)]).unwrap();
    let mut random = Random::new(7);
    let mut live: Vec<(BindingSet<_>, Option<DescriptorSlot>, u32, Arc<Buffer<_>>)> = Vec::new();
    let mut in_flight: VecDeque<(Reading<'_, '_, F>, Vec<u32>, TransientDescriptors<_>)> = VecDeque::new();
    for frame_number in 0_u32.. {
        // How soon a step finds something to gain depends on how far the queue is.
        if frame_number >= 120 && front.defragmenter().statistics().moves >= 20 {
            break;
        }
        assert!(frame_number < 5000, "there is something to gain");
        // Full of life, then sparse, and again.
        let few = if frame_number % 40 < 20 { 28 } else { 6 };
        for i in 0..6 {
            if live.len() < few {
                let number = 10 * (frame_number * 6 + i);
                let buffer = buffer(rig, &front, number);
                let mut set = BindingSet::new(&layout).unwrap();
                for (at, range) in [(0, 0..256), (1, 256..512)] {
                    set.bind_buffer(0, at, &buffer, range, BufferUse::ReadOnly).unwrap();
                }
                let slot = (number % 30 == 0)
                    .then(|| heap.insert_buffer(&buffer, 0..256, BufferUse::ReadOnly).unwrap());
                live.push((set, slot, number, buffer));
            } else if !live.is_empty() {
                let (set, slot, ..) = live.swap_remove(random.below(live.len() as u64) as usize);
                drop(set);
                slot.into_iter().for_each(|slot| heap.remove(slot).unwrap());
            }
        }
        // A set of one is bound to another, while its table may be in flight.
        if live.len() > 2 {
            let (from, to) = (live.len() - 1, random.below(live.len() as u64 - 1) as usize);
            let (buffer, number) = (Arc::clone(&live[from].3), live[from].2);
            for (at, range) in [(0, 0..256), (1, 256..512)] {
                live[to].0.bind_buffer(0, at, &buffer, range, BufferUse::ReadOnly).unwrap();
            }
            if live[to].1.is_none() {
                (live[to].2, live[to].3) = (number, buffer);
            } else {
                let own = Arc::clone(&live[to].3);
                live[to].0.bind_buffer(0, 0, &own, 0..256, BufferUse::ReadOnly).unwrap();
                live[to].0.bind_buffer(0, 1, &own, 256..512, BufferUse::ReadOnly).unwrap();
            }
        }
        let frame = front.begin_frame().unwrap();
        let mut view = frame.transient_descriptors().unwrap();
        let (mut indices, mut expected) = (Vec::new(), Vec::new());
        for (set, slot, number, _) in &live {
            let table = set.commit(&mut view).unwrap().table.unwrap();
            indices.extend([table.first, table.first + 1]);
            expected.extend([*number, number + 1]);
            indices.extend(slot.map(DescriptorSlot::index));
            expected.extend(slot.map(|_| *number));
        }
        let mut reading = None;
        let submitted = frame.submit(FIRST, |_, waits| {
            let submitted = rig.submit_raw(waits, &[(view.heap(), &indices)]);
            let value = submitted.point.value;
            reading = Some(submitted);
            Ok::<_, allotment::device::DeviceError>(value)
        });
        submitted.unwrap();
        in_flight.push_back((reading.unwrap(), expected, view));
        frame.end().unwrap();
        while in_flight.len() > 2 {
            let (reading, expected, _view) = in_flight.pop_front().unwrap();
            assert_eq!(reading.results(), [expected], "read after frame {frame_number}");
        }
    }
    for (reading, expected, _view) in in_flight {
        assert_eq!(reading.results(), [expected]);
    }
    for (set, slot, ..) in live {
        drop(set);
        slot.into_iter().for_each(|slot| heap.remove(slot).unwrap());
    }
    drop(layout);
    finish::<F>(front);
}

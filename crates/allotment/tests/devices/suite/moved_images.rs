//! Images that are moved keep every subresource, and the state that they were in.

use allotment::device::{
    CopyDirection, ImageAspect, ImageCopy, ImageDesc, ImageDevice as _, ImagePart, QueueDevice as _,
    Submission, TexelBlock,
};
use allotment::memory::blocks::BlockSize;
use allotment::memory::defragmentation::{Defragmenter, PassLimits, StepOutcome};
use allotment::memory::{Dedicated, Image, Movability};
use allotment::upload::{ImageWrite, Uploader, UploaderDesc};
use allotment::{AllocationOptions, MemoryUsage, PoolDesc};

use super::allocator::MIB;
use super::image_copies::{TEXEL, desc, split};
use super::moves::{defragmenter, stage, wanted};
use super::stage::{FIRST, Stage};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, ImageState};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        moved_mip_levels_and_array_layers_hold_their_texels_in_every_state,
        moved_images_with_depth_hold_their_texels_in_every_state,
        moved_compressed_images_hold_their_blocks_in_every_state,
        moved_images_of_a_custom_pool_hold_their_texels,
        an_image_whose_state_is_not_known_stays_until_it_is,
        an_upload_that_is_discarded_leaves_the_image_in_the_states_before_it,
        an_image_with_a_part_in_another_state_stays_where_it_is,
        an_image_whose_contents_are_not_kept_is_moved_without_a_state,
    ]
}

/// The box of a subresource.
#[derive(Clone, Copy)]
struct Subresource {
    mip_level: u32,
    array_layer: u32,
    extent: [u32; 3],
    texel: TexelBlock,
}

impl Subresource {
    fn all(desc: &ImageDesc, texel: TexelBlock) -> Vec<Self> {
        let layers = 0..desc.array_layers;
        let of_layer = |array_layer| {
            (0..desc.mip_levels).map(move |mip_level| {
                let extent = desc.extent.map(|length| (length >> mip_level).max(1));
                Self { mip_level, array_layer, extent, texel }
            })
        };
        layers.flat_map(of_layer).collect()
    }

    /// Bytes of its texels, row after row.
    fn size(&self) -> u64 {
        let [width, height, depth] = self.extent;
        self.texel.row_bytes(width) * u64::from(self.texel.rows(height)) * u64::from(depth)
    }

    /// Describes a write of all of it.
    fn write<S>(&self, after: S) -> ImageWrite<S> {
        let (level, layer) = (self.mip_level, self.array_layer);
        let part = ImagePart::default().with_mip_levels(level..level + 1).with_array_layers(layer..layer + 1);
        ImageWrite::new(part).with_after(after)
    }

    fn pattern(&self, seed: u64) -> Vec<u8> {
        pattern(seed << 16 | u64::from(self.array_layer << 8 | self.mip_level), self.size())
    }
}

/// An image, its subresources, the number of its pattern, and the state that it was left in.
struct Filled<F: Fixture> {
    image: Image<F::Device>,
    parts: Vec<Subresource>,
    seed: u64,
    state: ImageState<F>,
}

/// Creates images and writes all subresources, each with other texels, and leaves each image in the next state.
fn filled<F: Fixture>(
    stage: &Stage<'_, F>,
    defragmenter: &Defragmenter<F::Device>,
    desc: &ImageDesc,
    texel: TexelBlock,
    options: &AllocationOptions,
    count: u64,
) -> Vec<Filled<F>> {
    let mut on_first = UploaderDesc::default();
    on_first.image_queue = Some(FIRST);
    let uploader = Uploader::new(&stage.memory, on_first).unwrap();
    let states = stage.gpu.fixture().image_states();
    let mut all = Vec::new();
    for seed in 0..count {
        let image = defragmenter.create_image(&(*desc).into(), options).unwrap();
        let parts = Subresource::all(desc, texel);
        // Four times each, so that one of each is kept.
        let state = states[(seed / 4) as usize % states.len()];
        for part in &parts {
            uploader.write_image(&image, &part.write(state), &part.pattern(seed)).unwrap();
        }
        // Known without a word of the program: all of it was written by way of the library.
        assert_eq!(image.state(), Some(state));
        all.push(Filled { image, parts, seed, state });
    }
    uploader.submit().unwrap();
    stage.wait_idle();
    all
}

/// Reads all subresources, in the state that the image was left in, and compares them.
#[track_caller]
fn assert_whole<F: Fixture>(stage: &Stage<'_, F>, images: &[Filled<F>]) {
    let gpu = stage.gpu;
    let limits = &gpu.properties().limits;
    for Filled { image, parts, seed, state } in images {
        assert_eq!(image.state(), Some(*state));
        let handle = image.handle();
        let mut end = 0;
        let places: Vec<_> = parts
            .iter()
            .map(|part| {
                let offset = part.texel.offset(end, limits);
                let pitch = part.texel.row_pitch(part.extent[0], limits);
                let rows = part.texel.rows(part.extent[1]);
                end = offset + part.texel.span(part.extent, pitch, rows).unwrap();
                (offset, pitch, rows)
            })
            .collect();
        let back = stage.buffer(end, MemoryUsage::Readback);
        let name = back.handle();
        let copies: Vec<_> = parts
            .iter()
            .zip(&places)
            .map(|(part, &(buffer_offset, row_pitch, rows))| ImageCopy {
                buffer: &name,
                buffer_offset,
                row_pitch,
                rows,
                image: &handle,
                mip_level: part.mip_level,
                array_layer: part.array_layer,
                origin: [0; 3],
                extent: part.extent,
                aspect: ImageAspect::Color,
                texels: part.texel.into(),
                direction: CopyDirection::OutOfImage,
                before: *state,
                after: *state,
            })
            .collect();
        let work = Submission { image_copies: &copies, ..Submission::default() };
        let recording = stage.tracker.record("reads an image");
        // SAFETY: the buffer has room for all rows, the image is in this state, and both live until it is done.
        let point = recording.submit(FIRST, |_| unsafe { gpu.device().submit(FIRST, &work) }).unwrap();
        stage.wait(point);
        let mut found = vec![0; end as usize];
        back.read(0, &mut found).unwrap();
        for (part, &(offset, pitch, _)) in parts.iter().zip(&places) {
            let row = part.texel.row_bytes(part.extent[0]) as usize;
            for (line, expected) in part.pattern(*seed).chunks(row).enumerate() {
                let at = offset as usize + line * pitch as usize;
                let what = (seed, part.mip_level, part.array_layer, line, state);
                assert_same(&found[at..][..row], expected, what);
            }
        }
    }
}

/// Moves images until there is nothing to gain. Returns how many moved.
fn moved<F: Fixture>(
    stage: &Stage<'_, F>,
    defragmenter: &Defragmenter<F::Device>,
    images: &mut Vec<Filled<F>>,
) -> u32 {
    let mut index = 0;
    images.retain(|_| (index % 4 == 0, index += 1).0);
    stage.deletion_queue.reclaim();
    for _ in 0..1000 {
        let step = defragmenter.step(PassLimits::NONE).unwrap();
        stage.wait_idle();
        stage.deletion_queue.reclaim();
        if step.outcome == StepOutcome::Idle {
            break;
        }
    }
    images.iter().map(|filled| filled.image.moves()).sum()
}

/// Moves images of a kind, in a pool, where the device has them.
fn assert_moves<F: Fixture>(gpu: &Gpu<F>, desc: ImageDesc, texel: TexelBlock, in_pool: bool) -> Outcome {
    if gpu.device().image_requirements(&desc.into()).is_err() {
        return Outcome::DoesNotApply("the device has no such images");
    }
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let states = gpu.fixture().image_states().len() as u64;
    let mut options = wanted().with_dedicated(Dedicated::Never);
    let mut pool = None;
    if in_pool {
        let needs = gpu.device().image_requirements(&desc.into()).unwrap();
        let types = stage.memory.allocator().explain(&needs, &options);
        let mut desc = PoolDesc::new([types[0].memory_type]);
        desc.sizing = Some(BlockSize::Fixed(MIB));
        let made = stage.memory.allocator().create_pool(desc).unwrap();
        options = options.with_pool(&made);
        pool = Some(made);
    }
    let mut images = filled(&stage, &defragmenter, &desc, texel, &options, 16 * states.max(3));
    let places: Vec<_> = images.iter().map(|filled| filled.image.location()).collect();
    assert!(places.iter().any(|it| it.memory != places[0].memory), "they are in several blocks");
    let moves = moved(&stage, &defragmenter, &mut images);
    assert!(moves > 0, "no image was moved");
    assert_whole(&stage, &images);
    drop(images);
    drop(defragmenter);
    stage.wait_idle();
    stage.deletion_queue.reclaim();
    drop(pool);
    Outcome::Ran
}

fn layered<F: Fixture>(gpu: &Gpu<F>) -> ImageDesc {
    // Six layers, as a cube has.
    split(desc(gpu, [65, 41, 1]), 5, 6)
}

fn moved_mip_levels_and_array_layers_hold_their_texels_in_every_state<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_moves(gpu, layered(gpu), TEXEL, false)
}

fn moved_images_with_depth_hold_their_texels_in_every_state<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_moves(gpu, split(desc(gpu, [33, 40, 17]), 4, 1), TEXEL, false)
}

fn moved_compressed_images_hold_their_blocks_in_every_state<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let none = Outcome::DoesNotApply("the device has no compressed images");
    let Some((format, block)) = gpu.fixture().compressed_format() else { return none };
    assert_moves(gpu, split(ImageDesc::new(256, 132, format), 7, 3), block, false)
}

fn moved_images_of_a_custom_pool_hold_their_texels<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    assert_moves(gpu, layered(gpu), TEXEL, true)
}

/// Twelve images of 48, whose blocks could be emptied if they moved.
fn scattered<F: Fixture>(
    stage: &Stage<'_, F>,
    defragmenter: &Defragmenter<F::Device>,
    options: &AllocationOptions,
) -> Vec<Image<F::Device>> {
    let desc = layered(stage.gpu);
    let create = |_| defragmenter.create_image(&desc.into(), options).unwrap();
    let images = (0..48).map(create).collect::<Vec<_>>().into_iter().step_by(4).collect();
    stage.deletion_queue.reclaim();
    images
}

fn an_image_whose_state_is_not_known_stays_until_it_is<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let options = wanted().with_dedicated(Dedicated::Never);
    let images = scattered(&stage, &defragmenter, &options);
    // More than those for which a defragmenter rests whose pools look the same.
    let steps = || (0..300).for_each(|_| _ = defragmenter.step(PassLimits::NONE).unwrap());
    steps();
    assert_eq!(defragmenter.statistics().moves, 0, "their texels would be lost");
    assert!(images.iter().all(|image| image.state().is_none() && image.moves() == 0));
    let state = gpu.fixture().image_states()[0];
    let uploader = Uploader::new(&stage.memory, UploaderDesc::default()).unwrap();
    for image in &images {
        for part in Subresource::all(&layered(gpu), TEXEL) {
            assert_eq!(image.state(), None, "an upload of a part does not tell the state of the whole");
            write::<F>(&uploader, image, &part, state);
        }
        assert_eq!(image.state(), Some(state), "all parts are in it");
    }
    uploader.submit().unwrap();
    stage.wait_idle();
    steps();
    assert!(defragmenter.statistics().moves > 0);
}

/// Writes a subresource.
fn write<F: Fixture>(
    uploader: &Uploader<F::Device>,
    image: &Image<F::Device>,
    part: &Subresource,
    after: ImageState<F>,
) {
    uploader.write_image(image, &part.write(after), &part.pattern(1)).unwrap();
}

fn an_upload_that_is_discarded_leaves_the_image_in_the_states_before_it<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let desc = layered(gpu);
    let image = stage.memory.create_image(&desc.into(), &wanted()).unwrap();
    let states = gpu.fixture().image_states();
    let (first, last) = (states[0], states[states.len() - 1]);
    let parts = Subresource::all(&desc, TEXEL);
    let mut staged = UploaderDesc::default();
    staged.copies_from_host = false;
    let uploader = Uploader::new(&stage.memory, staged).unwrap();
    parts.iter().for_each(|part| write::<F>(&uploader, &image, part, first));
    assert_eq!(image.state(), Some(first));
    uploader.discard();
    assert_eq!(image.state(), None, "nothing was written");

    parts.iter().for_each(|part| write::<F>(&uploader, &image, part, first));
    uploader.submit().unwrap();
    // One of them twice: the state of the first write comes back last.
    write::<F>(&uploader, &image, &parts[1], last);
    write::<F>(&uploader, &image, &parts[1], first);
    write::<F>(&uploader, &image, &parts[2], last);
    assert_eq!(image.state(), (first == last).then_some(first));
    uploader.discard();
    assert_eq!(image.state(), Some(first));
    write::<F>(&uploader, &image, &parts[1], last);
    drop(uploader);
    assert_eq!(image.state(), Some(first), "an uploader that is dropped discards");

    image.forget_state();
    assert_eq!(image.state(), None);
    // SAFETY: it is in this state, as no work has been submitted that changes it.
    unsafe { image.set_state(first) };
    assert_eq!(image.state(), Some(first));
    stage.wait_idle();
}

fn an_image_with_a_part_in_another_state_stays_where_it_is<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let states = gpu.fixture().image_states();
    if states.len() < 2 {
        return Outcome::DoesNotApply("images have one state");
    }
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let options = wanted().with_dedicated(Dedicated::Never);
    let mut images = filled(&stage, &defragmenter, &layered(gpu), TEXEL, &options, 48);
    let mut index = 0;
    images.retain(|_| (index % 4 == 0, index += 1).0);
    stage.deletion_queue.reclaim();
    let mut on_first = UploaderDesc::default();
    on_first.image_queue = Some(FIRST);
    let uploader = Uploader::new(&stage.memory, on_first).unwrap();
    for filled in &images {
        let after = *states.iter().find(|state| **state != filled.state).unwrap();
        let write = filled.parts[0].write(after);
        let wrong = &filled.parts[0].pattern(7)[1..];
        assert!(uploader.write_image(&filled.image, &write, wrong).is_err());
        assert_eq!(filled.image.state(), Some(filled.state), "a refused write changes nothing");
        uploader.write_image(&filled.image, &write, &filled.parts[0].pattern(7)).unwrap();
        assert_eq!(filled.image.state(), None);
    }
    uploader.submit().unwrap();
    stage.wait_idle();
    (0..100).for_each(|_| _ = defragmenter.step(PassLimits::NONE).unwrap());
    assert_eq!(defragmenter.statistics().moves, 0, "no copy could name the state of all parts");
    Outcome::Ran
}

fn an_image_whose_contents_are_not_kept_is_moved_without_a_state<F: Fixture>(gpu: &Gpu<F>) {
    let stage = stage(gpu);
    let defragmenter = defragmenter(&stage);
    let options = wanted().with_dedicated(Dedicated::Never).with_movability(Movability::Recreated);
    let images = scattered(&stage, &defragmenter, &options);
    for _ in 0..100 {
        defragmenter.step(PassLimits::NONE).unwrap();
    }
    let sums = defragmenter.statistics();
    assert!(sums.moves > 0 && sums.bytes_moved == 0, "{sums:?}");
    assert!(images.iter().all(|image| image.state().is_none()), "as of new images");
}

//! Resources that are placed in memory which they share, over any device: beside each other, and over the same bytes by turns.

use allotment::device::{
    BufferDesc, BufferDevice as _, Device, ImageDesc, ImageDevice as _, ImagePart, ImageViewUse,
    Requirements, ResourceKind,
};
use allotment::gpu::GpuDesc;
use allotment::memory::{AccessError, Buffer, Image, Memory, ResourceError};
use allotment::upload::{ImageWrite, UploadError, UploaderDesc};
use allotment::{Alignment, AllocationOptions, MemoryUsage};

use super::image_formats::{graphics, supported};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, FormatClass, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        buffers_and_images_in_one_memory_hold_their_bytes,
        resources_over_the_same_bytes_hold_theirs_by_turns,
        render_targets_in_memory_begin_with_a_whole_level,
        what_does_not_fit_its_memory_is_refused_and_leaves_nothing,
    ]
}

const SIZE: u64 = 5000;
const SIDE: u32 = 64;

type Front<F> = allotment::Gpu<<F as Fixture>::Device>;

fn front<F: Fixture>(gpu: &Gpu<F>) -> Front<F> {
    allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap()
}

fn options() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("shared")
}

/// A buffer or an image, to be written and read as a whole.
enum Placed<D: Device> {
    Buffer(Buffer<D>),
    Image(Image<D>),
}

impl<D: Device> Placed<D> {
    fn activate(&self) -> bool {
        let activation = match self {
            Self::Buffer(buffer) => buffer.activate(),
            Self::Image(image) => image.activate(),
        };
        activation.unwrap().needs_barrier
    }

    fn size(&self) -> u64 {
        match self {
            Self::Buffer(_) => SIZE,
            Self::Image(_) => u64::from(SIDE * SIDE * 4),
        }
    }

    fn write(&self, front: &allotment::Gpu<D>, seed: u64) -> Result<(), UploadError> {
        let bytes = pattern(seed, self.size());
        match self {
            Self::Buffer(buffer) => front.uploads().write_buffer(buffer, 0, &bytes),
            Self::Image(image) => front.uploads().write_image(image, &bytes),
        }
    }

    fn assert_holds(&self, front: &allotment::Gpu<D>, seed: u64) {
        let read = match self {
            Self::Buffer(buffer) => front.reads().read_buffer(buffer, 0, SIZE),
            Self::Image(image) => front.reads().read_image(image, &ImagePart::default()),
        };
        let read = read.unwrap();
        front.begin_frame().unwrap().end().unwrap();
        front.wait_idle().unwrap();
        assert_same(&read.bytes().unwrap(), &pattern(seed, self.size()), seed);
    }
}

/// An image of four bytes a texel that is copied; `None` where the device has none.
fn image_desc<F: Fixture>(gpu: &Gpu<F>) -> Option<ImageDesc> {
    graphics(gpu)?;
    let number = gpu.fixture().image_format();
    // Images of single texels have the same usages.
    let format = supported(gpu, |class| class == FormatClass::Texels).into_iter().next()?;
    Some(ImageDesc::new(SIDE, SIDE, number).with_usage(format.usage))
}

/// What a buffer and an image need.
fn needs<F: Fixture>(gpu: &Gpu<F>, image: Option<&ImageDesc>) -> Vec<Requirements> {
    let buffer = gpu.device().buffer_requirements(&BufferDesc::new(SIZE).into()).unwrap();
    let image = image.map(|image| gpu.device().image_requirements(&(*image).into()).unwrap());
    [buffer].into_iter().chain(image).collect()
}

fn place<F: Fixture>(
    front: &Front<F>,
    memory: &Memory<F::Device>,
    offset: u64,
    image: Option<&ImageDesc>,
    name: &'static str,
) -> Placed<F::Device> {
    match image {
        None => Placed::Buffer(
            front.create_buffer_in(memory, offset, &BufferDesc::new(SIZE).into(), name).unwrap(),
        ),
        Some(image) => Placed::Image(front.create_image_in(memory, offset, &(*image).into(), name).unwrap()),
    }
}

/// Groups of resources that one memory serves: all, or on a device that keeps buffers and images apart, each kind for itself.
fn groups<F: Fixture>(gpu: &Gpu<F>, image: &Option<ImageDesc>) -> Vec<Vec<Option<ImageDesc>>> {
    let Some(image) = *image else { return vec![vec![None, None]] };
    let needs = needs(gpu, Some(&image));
    if needs[0].memory_types.0 & needs[1].memory_types.0 == 0 {
        return vec![vec![None, None], vec![Some(image), Some(image)]];
    }
    vec![vec![None, Some(image), Some(image), None]]
}

fn requirements_of<F: Fixture>(gpu: &Gpu<F>, of: &Option<ImageDesc>) -> Requirements {
    *needs(gpu, of.as_ref()).last().unwrap()
}

fn buffers_and_images_in_one_memory_hold_their_bytes<F: Fixture>(gpu: &Gpu<F>) {
    let front = front(gpu);
    let image = image_desc(gpu);
    for group in groups(gpu, &image) {
        let needs: Vec<_> = group.iter().map(|of| requirements_of(gpu, of)).collect();
        let (memory, offsets) = front.allocate_group(&needs, &options()).unwrap();
        let before = front.allocator().statistics();
        let resources: Vec<_> = group
            .iter()
            .zip(&offsets)
            .map(|(of, &at)| place::<F>(&front, &memory, at, of.as_ref(), "one"))
            .collect();
        assert_eq!(front.allocator().statistics(), before, "the bytes count once");
        drop(memory);
        let is_active = |resource: &Placed<_>| match resource {
            Placed::Buffer(buffer) => buffer.is_active(),
            Placed::Image(image) => image.is_active(),
        };
        assert!(resources.iter().all(is_active), "none has bytes of another");
        for (resource, seed) in resources.iter().zip(1..) {
            resource.write(&front, seed).unwrap();
        }
        for (resource, seed) in resources.iter().zip(1..) {
            resource.assert_holds(&front, seed);
        }
        drop(resources);
        front.wait_idle().unwrap();
        front.reclaim();
    }
    assert_eq!(front.deletion_queue().statistics().pending, 0);
}

fn resources_over_the_same_bytes_hold_theirs_by_turns<F: Fixture>(gpu: &Gpu<F>) {
    let front = front(gpu);
    let image = image_desc(gpu);
    for group in groups(gpu, &image) {
        let all = group.iter().map(|of| requirements_of(gpu, of)).reduce(|all, of| all.or(of)).unwrap();
        let requirements = Requirements { kind: ResourceKind::Unknown, ..all };
        let memory = front.allocate_memory(&requirements, &options()).unwrap();
        let resources: Vec<_> =
            group.iter().map(|of| place::<F>(&front, &memory, 0, of.as_ref(), "one")).collect();
        let mut seed = 0;
        for round in 0..3 {
            for (at, resource) in resources.iter().enumerate() {
                seed += 1;
                let is_first = round == 0 && at == 0;
                assert_eq!(resource.activate(), !is_first);
                if !is_first {
                    let recording = front.record("beside the activation");
                    drop(recording);
                    // Whatever still waits for the GPU is over then.
                    front.wait_idle().unwrap();
                    front.reclaim();
                }
                resource.write(&front, seed).unwrap();
                resource.assert_holds(&front, seed);
                let other = &resources[(at + 1) % resources.len()];
                let refused = other.write(&front, seed).unwrap_err();
                assert!(matches!(refused, UploadError::Access(AccessError::Inactive { .. })), "{refused}");
            }
        }
        let id = memory.id();
        assert!(front.allocator().reports().info(id).is_ok());
        drop((memory, resources));
        front.wait_idle().unwrap();
        front.reclaim();
        assert!(front.allocator().reports().info(id).is_err(), "it is freed");
    }
}

/// By turns in the same memory, with less staging memory at once than a level has.
fn render_targets_in_memory_begin_with_a_whole_level<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    const TALL: u32 = 256;
    let Some(plain) = image_desc(gpu) else { return Outcome::DoesNotApply("no queue copies images") };
    let mut uploads = UploaderDesc::default();
    uploads.staging = 1 << 20;
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default().with_uploader(uploads)).unwrap();
    let Some((number, usage)) = gpu.fixture().image_for_views(ImageViewUse::RenderTarget) else {
        return Outcome::DoesNotApply("the device has no render targets");
    };
    let desc = ImageDesc::new(TALL, TALL, number).with_usage(usage | plain.usage);
    let shape = gpu.device().image_shape(&desc.into());
    let needs = gpu.device().image_requirements(&desc.into()).unwrap();
    let memory = front.allocate_memory(&needs, &options()).unwrap();
    let images =
        ["first", "second"].map(|name| front.create_image_in(&memory, 0, &desc.into(), name).unwrap());
    let part = ImageWrite::from(ImagePart::default().with_region([0; 3], [1; 3]));
    for (seed, image) in (1..).zip([&images[0], &images[1], &images[0]]) {
        if image.activate().unwrap().needs_barrier {
            front.wait_idle().unwrap();
            front.reclaim();
        }
        let first = front.uploads().write_image_part(image, &part, &[9; 4]);
        assert_eq!(first.is_err(), shape.begins_whole, "{first:?}");
        if let Err(refused) = first {
            assert!(matches!(refused, UploadError::UnknownState { .. }), "{refused}");
        }
        let bytes = pattern(seed, u64::from(TALL * TALL * 4));
        front.uploads().write_image(image, &bytes).unwrap();
        let read = front.reads().read_image(image, &ImagePart::default()).unwrap();
        front.begin_frame().unwrap().end().unwrap();
        front.wait_idle().unwrap();
        assert_same(&read.bytes().unwrap(), &bytes, seed);
    }
    Outcome::Ran
}

fn what_does_not_fit_its_memory_is_refused_and_leaves_nothing<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let front = front(gpu);
    let needs = requirements_of(gpu, &None);
    let memory = front.allocate_memory(&needs, &options()).unwrap();
    let refused = |offset| {
        let desc = BufferDesc::new(SIZE).into();
        let error = front.create_buffer_in(&memory, offset, &desc, "sky").expect_err("it does not fit");
        let ResourceError::Placed { source, .. } = error else { panic!("{error:?}") };
        source
    };
    assert!(matches!(refused(needs.size), AccessError::OutOfRange { .. }));
    assert!(matches!(refused(1), AccessError::OutOfRange { .. }));
    let twice = Requirements { size: 2 * needs.size, ..needs };
    let memory = front.allocate_memory(&twice, &options()).unwrap();
    if needs.alignment == Alignment::ONE {
        return Outcome::DoesNotApply("buffers have no alignment");
    }
    let desc = BufferDesc::new(SIZE).into();
    let error = front.create_buffer_in(&memory, 1, &desc, "sky").expect_err("it is not aligned");
    assert!(matches!(error, ResourceError::Placed { source: AccessError::Misaligned { .. }, .. }), "{error}");
    Outcome::Ran
}

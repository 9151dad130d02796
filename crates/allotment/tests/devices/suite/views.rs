//! Views: of images, of each use and dimension, of their parts; of all kinds at once, and nothing left of them.

use core::ops::Range;
use std::sync::Arc;

use allotment::descriptor::{
    Binding, BindingSet, DescriptorError, DescriptorSlot, ImageView, ShaderVisibleHeap,
};
use allotment::device::{
    BufferDesc, BufferUse, BufferViewDesc, BufferViewUses, DescriptorDevice, DescriptorHeapType, Device,
    ImageDesc, ImageViewDesc, ImageViewDimension, ImageViewError, ImageViewUse, SamplerDesc, TexelBufferDesc,
    TexelBufferUse,
};
use allotment::gpu::GpuDesc;
use allotment::memory::{Buffer, Image};
use allotment::{AllocationOptions, MemoryUsage};

use crate::amount::scaled;
use crate::fixture::{DescriptorFixture, Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

/// Where the device has no heaps for shaders, too.
pub(super) fn all<F: DescriptorFixture>() -> Vec<Test<F>> {
    tests![F:
        views_of_each_use_see_each_part_of_an_image_and_no_other,
        views_keep_their_image_and_wait_for_the_gpu,
        views_of_each_kind_come_and_go_with_frames_in_flight,
        what_slots_do_not_have_is_refused_with_the_reason,
    ]
}

type Front<F> = allotment::Gpu<<F as Fixture>::Device>;

fn front<F: DescriptorFixture>(gpu: &Gpu<F>) -> Front<F> {
    allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap()
}

fn image<F: Fixture>(front: &Front<F>, desc: ImageDesc) -> Arc<Image<F::Device>> {
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("seen");
    Arc::new(front.create_image(&desc.into(), &options).unwrap())
}

/// Waits for the GPU, and checks that nothing is left of the views.
fn finish<F: DescriptorFixture>(front: &Front<F>) {
    // With what keeps an image, the image.
    front.wait_idle().unwrap();
    assert_eq!(front.deletion_queue().statistics().pending, 0);
    for kind in DescriptorHeapType::ALL {
        assert_eq!(used(front, kind), 0, "{kind}");
    }
}

/// The CPU descriptors in use, those that wait for the GPU among them; 0 where the device has no heaps for shaders, and views
/// no descriptors.
fn used<D: DescriptorDevice>(front: &allotment::Gpu<D>, kind: DescriptorHeapType) -> u32 {
    front.descriptors().map_or(0, |all| all.cpu_heap(kind).statistics().used)
}

/// An image for views of a use; `None` where the device has none.
fn desc_for<F: Fixture>(fixture: &F, usage: ImageViewUse, extent: [u32; 2]) -> Option<ImageDesc> {
    let (format, flags) = fixture.image_for_views(usage)?;
    Some(ImageDesc::new(extent[0], extent[1], format).with_usage(flags))
}

fn views_of_each_use_see_each_part_of_an_image_and_no_other<F: DescriptorFixture>(gpu: &Gpu<F>) {
    let front = front(gpu);
    let mut made = 0;
    for usage in ImageViewUse::ALL {
        let Some(desc) = desc_for(gpu.fixture(), usage, [16, 16]) else {
            let other = desc_for(gpu.fixture(), ImageViewUse::Sampled, [16, 16]).unwrap();
            let refused = front.create_image_view(&image::<F>(&front, other), &ImageViewDesc::new(usage));
            let error = ImageViewError::Use { usage };
            let expected =
                |it: &_| matches!(it, DescriptorError::InvalidView { error: found, .. } if *found == error);
            assert!(refused.as_ref().is_err_and(expected), "{refused:?}");
            continue;
        };
        // Depth of three dimensions, or of several levels, not every device has.
        let levels = if usage == ImageViewUse::DepthStencil { 1 } else { 3 };
        for layers in [1, 7] {
            let image = image::<F>(&front, desc.with_mip_levels(levels).with_array_layers(layers));
            let mut views = Vec::new();
            for_each_part(usage, |part| {
                let view = front.create_image_view(&image, part);
                if is_seen(part, levels, layers) {
                    let view = view.unwrap_or_else(|error| panic!("{part:?}: {error}"));
                    assert_eq!(view.usage(), usage);
                    view.with(|_| ()).unwrap();
                    views.push(view);
                } else if part.dimension.is_some_and(is_cube) {
                    // A cube, where the image is large enough: on Vulkan the image has to be made for it.
                    views.extend(view.ok());
                } else {
                    let refused =
                        view.map(|_| panic!("{part:?} of {levels} levels and {layers} layers")).unwrap_err();
                    assert!(matches!(refused, DescriptorError::InvalidView { .. }), "{part:?}: {refused}");
                    assert_eq!(refused.name(), Some("seen"));
                }
            });
            made += views.len();
            has_descriptors_of_its_own(&front, usage, &views);
        }
    }
    assert!(made > 100, "{made}");
    finish::<F>(&front);
}

/// Checks that each view has a descriptor, where the device has addresses of them, and that no two have the same.
fn has_descriptors_of_its_own<D: DescriptorDevice>(
    front: &allotment::Gpu<D>,
    usage: ImageViewUse,
    views: &[ImageView<D>],
) {
    let (heaps, kind) = (front.descriptors(), usage.heap_type());
    let (Ok(heaps), Some(kind)) = (heaps, kind) else {
        let refused = views.first().map(ImageView::cpu_descriptor);
        assert!(refused.is_none_or(|it| matches!(it, Err(DescriptorError::NoDescriptor { .. }))));
        return;
    };
    // Those of the image before wait in the deletion queue.
    front.reclaim();
    assert_eq!(heaps.cpu_heap(kind).statistics().used as usize, views.len());
    let mut addresses: Vec<_> = views.iter().map(|view| view.cpu_descriptor().unwrap()).collect();
    addresses.retain(|&address| address != 0);
    let count = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), count);
    assert!(count == 0 || count == views.len());
}

fn is_cube(dimension: ImageViewDimension) -> bool {
    matches!(dimension, ImageViewDimension::Cube | ImageViewDimension::CubeArray)
}

/// Calls `see` with descriptions of views of each dimension, of mip levels and array layers within an image and beyond it.
fn for_each_part(usage: ImageViewUse, mut see: impl FnMut(&ImageViewDesc)) {
    let levels: [Option<Range<u32>>; 6] = [None, Some(0..1), Some(1..3), Some(2..3), Some(3..4), Some(1..1)];
    let layers: [Option<Range<u32>>; 6] = [None, Some(0..1), Some(2..5), Some(0..6), Some(6..7), Some(6..8)];
    for dimension in ImageViewDimension::ALL.map(Some).into_iter().chain([None]) {
        for mip_levels in &levels {
            for array_layers in &layers {
                let mut desc = ImageViewDesc::new(usage);
                desc.dimension = dimension;
                desc.mip_levels = mip_levels.clone();
                desc.array_layers = array_layers.clone();
                see(&desc);
            }
        }
    }
}

/// Whether a 2D image has such a view, leaving cubes out.
fn is_seen(view: &ImageViewDesc, levels: u32, layers: u32) -> bool {
    let several = view.usage == ImageViewUse::Sampled;
    let part =
        |part: &Option<Range<u32>>, of: u32| part.as_ref().is_none_or(|it| it.start < it.end && it.end <= of);
    let levels_fit = part(&view.mip_levels, levels)
        && (several || view.mip_levels.as_ref().is_none_or(|levels| levels.len() == 1));
    let layers_fit = part(&view.array_layers, layers)
        && match view.dimension {
            Some(ImageViewDimension::D2) => view.array_layers.as_ref().is_none_or(|layers| layers.len() == 1),
            Some(ImageViewDimension::D2Array) | None => true,
            Some(_) => false,
        };
    levels_fit && layers_fit
}

fn views_keep_their_image_and_wait_for_the_gpu<F: DescriptorFixture>(gpu: &Gpu<F>) {
    let front = front(gpu);
    let desc = desc_for(gpu.fixture(), ImageViewUse::RenderTarget, [16, 16]).unwrap();
    let image = image::<F>(&front, desc);
    let target = front.create_image_view(&image, &ImageViewDesc::render_target()).unwrap();
    let sampled = Arc::new(front.create_image_view(&image, &ImageViewDesc::sampled()).unwrap());
    drop(image);
    let target = Arc::new(target);
    let slot = front.descriptors().ok().map(|descriptors| {
        let refused = descriptors.resources().insert_view(&target).unwrap_err();
        assert!(matches!(refused, DescriptorError::NotForShaders { usage: ImageViewUse::RenderTarget, .. }));
        assert_eq!(refused.name(), Some("seen"));
        let slot = descriptors.resources().insert_view(&sampled).unwrap();
        assert_eq!(Arc::strong_count(&sampled), 2, "the slot keeps the view");
        slot
    });
    let made =
        [DescriptorHeapType::RenderTarget, DescriptorHeapType::Resource].map(|kind| used(&front, kind));
    let recording = front.record("uses them");
    drop(target);
    if let Some(slot) = slot {
        front.descriptors().unwrap().resources().remove(slot).unwrap();
        assert_eq!(made, [1, 1]);
    }
    drop(sampled);
    for _ in 0..3 {
        front.reclaim();
    }
    let left =
        [DescriptorHeapType::RenderTarget, DescriptorHeapType::Resource].map(|kind| used(&front, kind));
    assert_eq!(left, made, "the recording may use them");
    assert!(front.deletion_queue().statistics().pending > 0);
    drop(recording);
    finish::<F>(&front);
    front.wait_idle().unwrap();
    // Those of the heaps came with the first view, and stay.
    let heaps = front.allocator().statistics().allocations;
    let image = self::image::<F>(&front, desc);
    let view = front.create_image_view(&image, &ImageViewDesc::render_target()).unwrap();
    drop(image);
    assert_eq!(front.allocator().statistics().allocations, heaps + 1, "the view keeps its image");
    drop(view);
    finish::<F>(&front);
    assert_eq!(front.allocator().statistics().allocations, heaps);
}

/// How many views are made: a million by hand, with `ALLOTMENT_VIEWS=1000000`.
fn count() -> u64 {
    let count = std::env::var("ALLOTMENT_VIEWS");
    count.map_or_else(|_| scaled(100_000), |count| count.parse().expect("ALLOTMENT_VIEWS is a number"))
}

/// Descriptions of views of each kind, each with what it is of.
struct Kinds<D: Device> {
    images: Vec<(Arc<Image<D>>, ImageViewDesc)>,
    bytes: Vec<(Arc<Buffer<D>>, BufferViewDesc)>,
    texels: Vec<(Arc<Buffer<D>>, TexelBufferDesc)>,
}

impl<D: DescriptorDevice> Kinds<D> {
    fn new<F: DescriptorFixture<Device = D>>(gpu: &Gpu<F>, front: &Front<F>) -> Self {
        let fixture = gpu.fixture();
        let images = ImageViewUse::ALL.into_iter().filter_map(|usage| {
            Some((image::<F>(front, desc_for(fixture, usage, [16, 16])?), ImageViewDesc::new(usage)))
        });
        let buffer = |uses, options: AllocationOptions| {
            let desc = BufferDesc::new(4096).with_usage(fixture.buffer_for_views(uses));
            Arc::new(front.create_buffer(&desc.into(), &options.with_name("seen")).unwrap())
        };
        let pinned = || AllocationOptions::new(MemoryUsage::GpuOnly);
        let raw = |usage| BufferViewDesc::new(0..1024, usage);
        let (format, texel) = fixture.texel_format();
        let texels = |usage| TexelBufferDesc::new(0..16 * texel, format, usage);
        Self {
            images: images.collect(),
            bytes: vec![
                (buffer(BufferViewUses::CONSTANTS, pinned()), raw(BufferUse::Constants)),
                (buffer(BufferViewUses::READ_ONLY, pinned()), raw(BufferUse::ReadOnly)),
                (buffer(BufferViewUses::READ_WRITE, pinned()), raw(BufferUse::ReadWrite)),
                (buffer(BufferViewUses::READ_ONLY, pinned()), raw(BufferUse::ReadOnly).with_stride(32)),
                (buffer(BufferViewUses::READ_ONLY, pinned().relocatable()), raw(BufferUse::ReadOnly)),
            ],
            texels: vec![
                (buffer(BufferViewUses::UNIFORM_TEXELS, pinned()), texels(TexelBufferUse::Uniform)),
                (buffer(BufferViewUses::STORAGE_TEXELS, pinned()), texels(TexelBufferUse::Storage)),
            ],
        }
    }

    /// Makes a view of each kind, puts those for shaders into slots where the device has any, and drops all of them. Returns
    /// how many.
    fn make(&self, front: &allotment::Gpu<D>) -> u64 {
        let heap = front.descriptors().ok().map(|all| all.resources());
        let seen = |slot: &dyn Fn(&ShaderVisibleHeap<D>) -> Result<DescriptorSlot, DescriptorError>| {
            if let Some(heap) = heap {
                heap.remove(slot(heap).unwrap()).unwrap();
            }
        };
        for (image, desc) in &self.images {
            let view = Arc::new(front.create_image_view(image, desc).unwrap());
            match desc.usage {
                ImageViewUse::Sampled | ImageViewUse::Storage => seen(&|heap| heap.insert_view(&view)),
                usage => {
                    // With its reason: such a view is bound by its CPU descriptor or its handle.
                    let refused = heap.map(|heap| heap.insert_view(&view).unwrap_err());
                    let expected = |it: DescriptorError| matches!(it, DescriptorError::NotForShaders { usage: found, .. } if found == usage);
                    assert!(refused.is_none_or(expected));
                }
            }
        }
        for (buffer, desc) in &self.bytes {
            let view = Arc::new(front.create_buffer_view(buffer, desc).unwrap());
            seen(&|heap| heap.insert_buffer_view(&view));
        }
        for (buffer, desc) in &self.texels {
            let view = Arc::new(front.create_texel_buffer_view(buffer, desc).unwrap());
            seen(&|heap| heap.insert_texel_buffer(&view));
        }
        (self.images.len() + self.bytes.len() + self.texels.len()) as u64
    }
}

fn views_of_each_kind_come_and_go_with_frames_in_flight<F: DescriptorFixture>(gpu: &Gpu<F>) {
    const OF_A_FRAME: u64 = 500;
    let front = front(gpu);
    let kinds = Kinds::new(gpu, &front);
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("written");
    let written = front.create_buffer(&BufferDesc::new(64).into(), &options).unwrap();
    let (mut made, mut most, mut waiting) = (0, 0, 0);
    while made < count() {
        let frame = front.begin_frame().unwrap();
        // What is submitted with the frame is work in flight, for which the views wait.
        front.uploads().write_buffer(&written, 0, &[7; 64]).unwrap();
        let mut of_frame = 0;
        while of_frame < OF_A_FRAME {
            of_frame += kinds.make(&front);
        }
        made += of_frame;
        waiting = waiting.max(front.deletion_queue().statistics().pending);
        frame.end().unwrap();
        most = most.max(DescriptorHeapType::ALL.into_iter().map(|kind| used(&front, kind)).sum());
    }
    assert!(waiting >= OF_A_FRAME, "those of a frame wait for it at least: {waiting}");
    assert!(u64::from(most) <= OF_A_FRAME * 16, "{most}");
    drop((kinds, written));
    for _ in 0..3 {
        front.wait_idle().unwrap();
    }
    finish::<F>(&front);
    for kind in DescriptorHeapType::ALL {
        let Ok(all) = front.descriptors() else { break };
        all.cpu_heap(kind).trim();
        let left = all.cpu_heap(kind).statistics();
        assert_eq!((left.used, left.pages, left.retiring), (0, 0, 0), "{kind}");
    }
    if let Ok(all) = front.descriptors() {
        let left = all.resources().statistics();
        assert_eq!((left.slots.used, left.slots.retiring, left.tables.used), (0, 0, 0));
    }
    println!(
        "{made} views, of which at most {most} had descriptors and {waiting} objects waited for the GPU"
    );
}

fn what_slots_do_not_have_is_refused_with_the_reason<F: DescriptorFixture>(gpu: &Gpu<F>) -> Outcome {
    let front = front(gpu);
    let Ok(descriptors) = front.descriptors() else {
        return Outcome::DoesNotApply("the device has no descriptors that shaders index");
    };
    let layout = descriptors.binding_layout(&[Binding::mutable("one"), Binding::dynamic("two")]).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    for usage in [ImageViewUse::RenderTarget, ImageViewUse::DepthStencil, ImageViewUse::InputAttachment] {
        // Without such views, the view itself is refused (`views_of_each_use_…`).
        let Some(desc) = desc_for(gpu.fixture(), usage, [16, 16]) else { continue };
        let image = image::<F>(&front, desc);
        let view = Arc::new(front.create_image_view(&image, &ImageViewDesc::new(usage)).unwrap());
        let refused = [
            descriptors.resources().insert_view(&view).unwrap_err(),
            set.bind_view(0, 0, &view).unwrap_err(),
            set.bind_view(1, 0, &view).unwrap_err(),
        ];
        for refused in refused {
            assert!(matches!(refused, DescriptorError::NotForShaders { usage: found, .. } if found == usage));
            assert!(refused.to_string().contains("descriptor set of your own"), "{refused}");
        }
    }
    // Samplers stand in a heap of their own, and nothing is combined with them.
    let sampler = gpu.device().create_sampler(&SamplerDesc::default()).unwrap();
    // SAFETY: the sampler is of this device, and is written nowhere.
    let descriptor = unsafe { gpu.device().sampler_descriptor(&sampler) };
    let refused = [
        descriptors.resources().insert(&descriptor, None).unwrap_err(),
        set.bind(0, 0, &descriptor, None).unwrap_err(),
    ];
    let (expected, found) = (DescriptorHeapType::Resource, DescriptorHeapType::Sampler);
    assert_eq!(refused, [DescriptorError::WrongKind { expected, found }; 2]);
    drop(descriptor);
    // SAFETY: no heap has it.
    unsafe { gpu.device().destroy_sampler(sampler) };
    drop((set, layout));
    for _ in 0..2 {
        front.wait_idle().unwrap();
    }
    finish::<F>(&front);
    assert_eq!(descriptors.resources().statistics().slots.used, 0);
    Outcome::Ran
}

//! Views of images: of each use and dimension, of parts of images, and nothing left of them.

use core::ops::Range;
use std::sync::Arc;

use allotment::descriptor::{DescriptorError, ImageView};
use allotment::device::{
    DescriptorDevice, DescriptorHeapType, ImageDesc, ImageViewDesc, ImageViewDimension, ImageViewError,
    ImageViewUse,
};
use allotment::gpu::GpuDesc;
use allotment::memory::Image;
use allotment::{AllocationOptions, MemoryUsage};

use crate::amount::scaled;
use crate::fixture::{DescriptorFixture, Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

/// Where the device has no heaps for shaders, too.
pub(super) fn all<F: DescriptorFixture>() -> Vec<Test<F>> {
    tests![F:
        views_of_each_use_see_each_part_of_an_image_and_no_other,
        views_keep_their_image_and_wait_for_the_gpu,
        views_come_and_go_with_frames_in_flight,
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

fn views_come_and_go_with_frames_in_flight<F: DescriptorFixture>(gpu: &Gpu<F>) {
    let front = front(gpu);
    let desc = desc_for(gpu.fixture(), ImageViewUse::RenderTarget, [16, 16]).unwrap();
    let image = image::<F>(&front, desc);
    let mut most = 0;
    for _ in 0..scaled(200) {
        let frame = front.begin_frame().unwrap();
        for _ in 0..50 {
            drop(front.create_image_view(&image, &ImageViewDesc::render_target()).unwrap());
            let sampled = Arc::new(front.create_image_view(&image, &ImageViewDesc::sampled()).unwrap());
            if let Ok(descriptors) = front.descriptors() {
                let heap = descriptors.resources();
                heap.remove(heap.insert_view(&sampled).unwrap()).unwrap();
            }
        }
        frame.end().unwrap();
        most = most.max(used(&front, DescriptorHeapType::RenderTarget));
    }
    assert!(most <= 50 * 8, "{most}");
    drop(image);
    finish::<F>(&front);
}

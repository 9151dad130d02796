//! Views of images that only Vulkan's own description can ask for: cubes, slices, other formats, aspects.

use std::sync::Arc;

use allotment::descriptor::DescriptorError;
use allotment::device::vulkan::{Device, EnabledFeatures, ImageInfo};
use allotment::device::{ImageViewAspect, ImageViewDesc, ImageViewDimension, ImageViewError};
use allotment::gpu::GpuDesc;
use allotment::memory::Image;
use allotment::{AllocationOptions, MemoryUsage};
use ash::vk;

use super::Vulkan;
use crate::fixture::{Outcome, Test, tests};
use crate::kinds::vulkan::VulkanFixture;

pub(super) fn all() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        cubes_slices_formats_and_aspects_have_views_where_the_image_allows_them,
    ]
}

type Front = allotment::Gpu<Device>;

fn image(front: &Front, info: vk::ImageCreateInfo<'static>) -> Arc<Image<Device>> {
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("seen");
    // SAFETY: the tests describe images that every device has, or ask first.
    let info = unsafe { ImageInfo::from_raw(info) };
    Arc::new(front.create_image(&info, &options).unwrap())
}

fn info(usage: vk::ImageUsageFlags) -> vk::ImageCreateInfo<'static> {
    vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(vk::Format::R8G8B8A8_UNORM)
        .extent(vk::Extent3D { width: 16, height: 16, depth: 1 })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .usage(usage)
}

fn number(format: vk::Format) -> u32 {
    format.as_raw().unsigned_abs()
}

fn cubes_slices_formats_and_aspects_have_views_where_the_image_allows_them(gpu: &Vulkan) {
    use vk::{ImageCreateFlags as Flags, ImageUsageFlags as Usage};
    let front = Front::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let view = |image: &Arc<Image<Device>>, desc: ImageViewDesc| {
        front.create_image_view(image, &desc).map_err(|refused| match refused {
            DescriptorError::InvalidView { error, .. } => error,
            other => panic!("{desc:?}: {other}"),
        })
    };
    let sampled = ImageViewDesc::sampled;
    let mut views = Vec::new();

    let sky = info(Usage::SAMPLED).flags(Flags::CUBE_COMPATIBLE).array_layers(12).mip_levels(3);
    let sky = image(&front, sky);
    let cube = sampled().with_dimension(ImageViewDimension::Cube);
    views.push(view(&sky, cube.clone()).unwrap());
    views.push(view(&sky, cube.clone().with_array_layers(6..12).with_mip_levels(1..3)).unwrap());
    let refused = view(&sky, cube.clone().with_array_layers(0..7)).unwrap_err();
    assert_eq!(refused, ImageViewError::LayerCount { dimension: ImageViewDimension::Cube, count: 7 });
    match view(&sky, sampled().with_dimension(ImageViewDimension::CubeArray)) {
        Ok(cubes) => views.push(cubes),
        Err(error) => {
            assert_eq!(error, ImageViewError::NoCubeArrays);
            assert!(!gpu.device().enabled().contains(EnabledFeatures::IMAGE_CUBE_ARRAY));
        }
    }
    let plain = image(&front, info(Usage::SAMPLED).array_layers(6));
    assert_eq!(view(&plain, cube).unwrap_err(), ImageViewError::NotCubeCompatible);

    let volume = info(Usage::SAMPLED | Usage::COLOR_ATTACHMENT)
        .image_type(vk::ImageType::TYPE_3D)
        .extent(vk::Extent3D { width: 16, height: 16, depth: 8 })
        .mip_levels(2);
    let solid = image(&front, volume);
    views.push(view(&solid, sampled()).unwrap());
    assert_eq!(view(&solid, ImageViewDesc::render_target()).unwrap_err(), ImageViewError::Slices);
    let sliced = image(&front, volume.flags(Flags::TYPE_2D_ARRAY_COMPATIBLE));
    views.push(view(&sliced, ImageViewDesc::render_target()).unwrap());
    views.push(view(&sliced, ImageViewDesc::render_target().with_array_layers(2..5)).unwrap());
    views.push(
        view(&sliced, ImageViewDesc::render_target().with_mip_levels(1..2).with_array_layers(3..4)).unwrap(),
    );
    let beyond = ImageViewDesc::render_target().with_mip_levels(1..2).with_array_layers(3..5);
    assert_eq!(view(&sliced, beyond).unwrap_err(), ImageViewError::Layers { first: 3, end: 5, available: 4 });

    let line = info(Usage::SAMPLED).image_type(vk::ImageType::TYPE_1D).extent(vk::Extent3D {
        width: 16,
        height: 1,
        depth: 1,
    });
    views.push(view(&image(&front, line), sampled()).unwrap());
    views.push(view(&image(&front, line.array_layers(4)), sampled().with_array_layers(1..3)).unwrap());

    let fixed = image(&front, info(Usage::SAMPLED));
    let srgb = number(vk::Format::R8G8B8A8_SRGB);
    let own = number(vk::Format::R8G8B8A8_UNORM);
    let refused = view(&fixed, sampled().with_format(srgb)).unwrap_err();
    assert_eq!(refused, ImageViewError::OtherFormat { format: srgb, own });
    let mutable = image(&front, info(Usage::SAMPLED).flags(Flags::MUTABLE_FORMAT));
    for format in [srgb, own] {
        views.push(view(&mutable, sampled().with_format(format)).unwrap());
    }
    // Whatever the number is, what is refused reaches no driver, and what is not is valid.
    for format in (0..200).chain([1_000_156_003, u32::MAX]) {
        match view(&mutable, sampled().with_format(format)) {
            Ok(view) => views.push(view),
            Err(error) => assert_eq!(error, ImageViewError::IncompatibleFormat { format, own }),
        }
    }
    let wide = number(vk::Format::R32G32B32A32_SFLOAT);
    assert!(view(&mutable, sampled().with_format(wide)).is_err());

    for format in [vk::Format::D24_UNORM_S8_UINT, vk::Format::D32_SFLOAT_S8_UINT] {
        let headless = gpu.fixture().headless();
        // SAFETY: the physical device is of this instance.
        let found = unsafe {
            headless.instance().get_physical_device_format_properties(headless.physical_device(), format)
        };
        let needed = vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT | vk::FormatFeatureFlags::SAMPLED_IMAGE;
        if !found.optimal_tiling_features.contains(needed) {
            continue;
        }
        let usage = Usage::DEPTH_STENCIL_ATTACHMENT | Usage::SAMPLED | Usage::INPUT_ATTACHMENT;
        let shadow = image(&front, info(usage).format(format).array_layers(4));
        views.push(view(&shadow, ImageViewDesc::depth_stencil()).unwrap());
        views.push(view(&shadow, ImageViewDesc::depth_stencil().with_array_layers(2..3)).unwrap());
        views.push(view(&shadow, sampled()).unwrap());
        for aspect in [ImageViewAspect::Depth, ImageViewAspect::Stencil] {
            views.push(view(&shadow, sampled().with_aspect(aspect)).unwrap());
            views.push(view(&shadow, ImageViewDesc::input_attachment().with_aspect(aspect)).unwrap());
            let refused = view(&shadow, ImageViewDesc::depth_stencil().with_aspect(aspect)).unwrap_err();
            assert_eq!(refused, ImageViewError::PartOfDepthStencil { aspect });
        }
    }
    for view in &views {
        assert_ne!(view.with(|view| view.handle()).unwrap(), vk::ImageView::null());
    }
    drop((views, sky, plain, solid, sliced, fixed, mutable));
    for _ in 0..3 {
        front.wait_idle().unwrap();
    }
    assert_eq!(front.deletion_queue().statistics().pending, 0);
}

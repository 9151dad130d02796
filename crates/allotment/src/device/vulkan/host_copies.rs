//! Copies of texels by the CPU into images (`VK_EXT_host_image_copy`, core since Vulkan 1.4), and which images are created for
//! them.
//!
//! An image needs a usage for that, which may make the GPU's own accesses slower, and may allow other memory types: on NVIDIA's
//! discrete GPUs only those that the CPU can map. So images of an [`ImageDesc`](crate::device::ImageDesc) get it by themselves
//! only where neither is the case. The driver is asked once for each combination of format, dimension, usage and flags.

use core::ffi::CStr;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{PoisonError, RwLock};

use ash::vk;

use super::copies::UNUSABLE_LAYOUTS;
use super::formats::{aspect_flag, barrier_aspects, texel_layout};
use super::images::ImageInfo;
use super::{Device, EnabledFeatures, Shared, refused};
use crate::device::{DeviceError, HostImageWrite, ImageRegion, TexelLayout};

/// The functions of the extension, and what is known of images.
pub(super) struct HostCopies {
    functions: ash::ext::host_image_copy::DeviceFn,
    /// Those in which the CPU can write images.
    layouts: Vec<vk::ImageLayout>,
    /// By what is asked of the driver. `None` where images are better off without the usage.
    chosen: RwLock<HashMap<Question, Option<vk::ImageFormatProperties>>>,
}

/// What decides whether images are created for such copies.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Question {
    format: vk::Format,
    image_type: vk::ImageType,
    usage: vk::ImageUsageFlags,
    flags: vk::ImageCreateFlags,
}

const HOST_TRANSFER: vk::ImageUsageFlags = vk::ImageUsageFlags::HOST_TRANSFER_EXT;

impl HostCopies {
    /// Loads the functions, if the feature is enabled.
    ///
    /// # Safety
    ///
    /// The handles belong together, and what is named as enabled is.
    pub(super) unsafe fn new(
        instance: &ash::Instance,
        physical_device: vk::PhysicalDevice,
        device: &ash::Device,
        enabled: EnabledFeatures,
    ) -> Option<Self> {
        if !enabled.contains(EnabledFeatures::HOST_IMAGE_COPY) {
            return None;
        }
        let handle = device.handle();
        // SAFETY: the caller's promise.
        let find = |name: &CStr| unsafe { instance.get_device_proc_addr(handle, name.as_ptr()) };
        // Where the feature is that of Vulkan 1.4, its functions have no suffix.
        let find = |name: &CStr| {
            let core = || CString::new(name.to_bytes().strip_suffix(b"EXT")?).ok();
            find(name).or_else(|| find(&core()?))
        };
        // `ash` puts a function that panics in the place of a missing one.
        let needed = [c"vkCopyMemoryToImageEXT", c"vkTransitionImageLayoutEXT"];
        if needed.into_iter().any(|name| find(name).is_none()) {
            return None;
        }
        let functions = ash::ext::host_image_copy::DeviceFn::load(|name| {
            find(name).map_or(core::ptr::null(), |function| function as *const _)
        });
        let mut layouts = Vec::new();
        // The first answer is how many there are.
        for _ in 0..2 {
            let mut own = vk::PhysicalDeviceHostImageCopyPropertiesEXT::default();
            if !layouts.is_empty() {
                own = own.copy_dst_layouts(&mut layouts);
            }
            let mut answer = vk::PhysicalDeviceProperties2::default().push_next(&mut own);
            // SAFETY: the caller's promise; the structure is that of an enabled feature, which needs Vulkan 1.1.
            unsafe { instance.get_physical_device_properties2(physical_device, &mut answer) };
            let count = own.copy_dst_layout_count as usize;
            layouts.resize(count, vk::ImageLayout::UNDEFINED);
        }
        layouts.retain(|layout| !UNUSABLE_LAYOUTS.contains(layout));
        Some(Self { functions, layouts, chosen: RwLock::default() })
    }

    pub(super) fn can_write_in(&self, layout: vk::ImageLayout) -> bool {
        self.layouts.contains(&layout)
    }

    /// Copies texels, and transitions the subresource first unless it is in the layout.
    ///
    /// # Safety
    ///
    /// As for [`write_image_from_host`](crate::device::ImageDevice::write_image_from_host), for an image of `device`.
    pub(super) unsafe fn write(
        &self,
        device: vk::Device,
        write: &HostImageWrite<'_, Device>,
    ) -> Result<(), DeviceError> {
        let HostImageWrite { bytes, image, region, texels, before, after } = *write;
        let ImageRegion { aspect, mip_level, array_layer, origin, extent } = region;
        if before != after {
            let all = vk::ImageSubresourceRange {
                aspect_mask: barrier_aspects(&texels),
                base_mip_level: mip_level,
                level_count: 1,
                base_array_layer: array_layer,
                layer_count: 1,
            };
            let transition = vk::HostImageLayoutTransitionInfoEXT::default()
                .image(*image)
                .old_layout(before)
                .new_layout(after)
                .subresource_range(all);
            // SAFETY: nothing uses the subresource, as the caller promises, and it is in the layout.
            unsafe { (self.functions.transition_image_layout_ext)(device, 1, &transition) }
                .result()
                .map_err(refused)?;
        }
        let ([x, y, z], [width, height, depth]) = (origin.map(|at| at as i32), extent);
        // Rows without padding: both lengths are 0.
        let regions = [vk::MemoryToImageCopyEXT::default()
            .host_pointer(bytes.as_ptr().cast())
            .image_subresource(vk::ImageSubresourceLayers {
                aspect_mask: aspect_flag(aspect),
                mip_level,
                base_array_layer: array_layer,
                layer_count: 1,
            })
            .image_offset(vk::Offset3D { x, y, z })
            .image_extent(vk::Extent3D { width, height, depth })];
        let copy = vk::CopyMemoryToImageInfoEXT::default()
            .dst_image(*image)
            .dst_image_layout(after)
            .regions(&regions);
        // SAFETY: as above; the bytes are those of the box, which lies in the subresource.
        unsafe { (self.functions.copy_memory_to_image_ext)(device, &copy) }.result().map_err(refused)
    }
}

/// Returns true for formats of several planes. They are left to staging: NVIDIA's driver (580 on an H200) copies the bytes of
/// each plane to where the first one is.
pub(super) fn is_planar(format: vk::Format) -> bool {
    matches!(texel_layout(format), TexelLayout::Planar(_))
}

impl Shared {
    /// Returns the usages with which an image is created: those of its description, and that for copies by the CPU where it
    /// costs nothing.
    pub(super) fn created_usage(&self, info: &ImageInfo<'_>) -> vk::ImageUsageFlags {
        let usage = info.raw().usage;
        if self.host_copies.as_ref().is_some_and(|copies| self.is_better_written(copies, info)) {
            usage | HOST_TRANSFER
        } else {
            usage
        }
    }

    /// Returns true for images that the CPU can write if they are created for it, while nothing else changes.
    fn is_better_written(&self, copies: &HostCopies, info: &ImageInfo<'_>) -> bool {
        let raw = info.raw();
        // What an image of the application's own description is created with is the application's choice, as is what other
        // processes must describe in the same way. Others are not copied into from the CPU.
        if !info.is_unchecked_and_unshared()
            || raw.tiling != vk::ImageTiling::OPTIMAL
            || raw.samples != vk::SampleCountFlags::TYPE_1
            || !raw.usage.contains(vk::ImageUsageFlags::TRANSFER_DST)
            || raw.usage.contains(HOST_TRANSFER)
            || is_planar(raw.format)
        {
            return false;
        }
        let question =
            Question { format: raw.format, image_type: raw.image_type, usage: raw.usage, flags: raw.flags };
        let known = copies.chosen.read().unwrap_or_else(PoisonError::into_inner).get(&question).copied();
        let Some(most) = known.or_else(|| self.ask(copies, question, info)) else {
            // The description is refused, so that nothing may be asked.
            return false;
        };
        let vk::Extent3D { width, height, depth } = raw.extent;
        most.is_some_and(|most| {
            width <= most.max_extent.width
                && height <= most.max_extent.height
                && depth <= most.max_extent.depth
                && raw.mip_levels <= most.max_mip_levels
                && raw.array_layers <= most.max_array_layers
        })
    }

    /// Asks the driver, unless the description is refused anyway, and keeps the answer.
    fn ask(
        &self,
        copies: &HostCopies,
        question: Question,
        info: &ImageInfo<'_>,
    ) -> Option<Option<vk::ImageFormatProperties>> {
        self.check_unchecked(info).ok()?;
        let answer = self.limits_if_better(info.raw());
        copies.chosen.write().unwrap_or_else(PoisonError::into_inner).insert(question, answer);
        Some(answer)
    }

    /// Returns the limits of images with the usage; `None` where they are slower to access, or need other memory.
    fn limits_if_better(&self, raw: &vk::ImageCreateInfo<'_>) -> Option<vk::ImageFormatProperties> {
        if !self.has_host_transfer(raw.format, raw.tiling) {
            return None;
        }
        let usage = raw.usage | HOST_TRANSFER;
        let wanted = vk::PhysicalDeviceImageFormatInfo2::default()
            .format(raw.format)
            .ty(raw.image_type)
            .tiling(raw.tiling)
            .usage(usage)
            .flags(raw.flags);
        let mut speed = vk::HostImageCopyDevicePerformanceQueryEXT::default();
        let mut answer = vk::ImageFormatProperties2::default().push_next(&mut speed);
        // SAFETY: the physical device is of the instance, the description was checked, and the feature is enabled, which needs
        // Vulkan 1.1.
        let asked = unsafe {
            self.instance.get_physical_device_image_format_properties2(
                self.physical_device,
                &wanted,
                &mut answer,
            )
        };
        let most = answer.image_format_properties;
        let types_of = |usage| {
            let raw = raw.usage(usage);
            let wanted = vk::DeviceImageMemoryRequirements::default().create_info(&raw);
            let mut answer = vk::MemoryRequirements2::default();
            // SAFETY: the description was checked, and with the usage the driver has just allowed it.
            unsafe { self.maintenance4.as_ref()?.image(&self.raw, &wanted, &mut answer) };
            Some(answer.memory_requirements.memory_type_bits)
        };
        let is_better = asked.is_ok()
            && speed.optimal_device_access == vk::TRUE
            && types_of(raw.usage)? == types_of(usage)?;
        is_better.then_some(most)
    }

    /// Returns whether the CPU can copy texels of a format.
    pub(super) fn has_host_transfer(&self, format: vk::Format, tiling: vk::ImageTiling) -> bool {
        let mut flags = vk::FormatProperties3::default();
        let mut answer = vk::FormatProperties2::default().push_next(&mut flags);
        // SAFETY: the physical device is of the instance, the format is one of the version, and the feature is enabled, which
        // needs `VK_KHR_format_feature_flags2`.
        unsafe {
            self.instance.get_physical_device_format_properties2(self.physical_device, format, &mut answer);
        }
        let found = if tiling == vk::ImageTiling::LINEAR {
            flags.linear_tiling_features
        } else {
            flags.optimal_tiling_features
        };
        found.contains(vk::FormatFeatureFlags2::HOST_IMAGE_TRANSFER_EXT)
    }
}

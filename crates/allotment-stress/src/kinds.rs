//! Differences between kinds of devices.

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferDesc, DescriptorDevice, DeviceError, MemoryDevice as _, MemoryHeapIndex, TexelBlock, TexelLayout,
    TexelPlane, TransferUsage,
};

use crate::{ImageFormat, Input};

/// A device under test.
pub trait Stressed: DescriptorDevice + Clone {
    /// A format with four bytes per texel.
    const IMAGE_FORMAT: u32;
    /// The usage of buffers with descriptors.
    const DESCRIPTOR_USAGE: u64;

    /// Returns the description of a buffer with exactly these transfer usages.
    fn buffer_info(size: u64, copies: TransferUsage) -> Self::BufferInfo<'static>;

    /// Returns random memory options of the API.
    fn memory_options(input: &mut Input<'_>) -> Self::MemoryOptions;

    /// Makes one of the next calls fail, if the device supports failure injection.
    fn disturb(&self, input: &mut Input<'_>);

    /// Stops failure injection.
    fn calm(&self);

    /// Changes the budget of a heap. Returns false if the device cannot be told.
    fn move_budget(&self, input: &mut Input<'_>) -> bool;

    /// Gives all heaps the budgets that they have without a change.
    fn reset_budgets(&self);

    /// Returns formats of images, some of which the device may not have.
    fn image_formats(&self) -> Vec<ImageFormat>;

    /// Returns the usage flags of images that the CPU can copy texels into.
    fn host_write_usage(&self) -> u64 {
        0
    }

    /// Returns false where the validation layer takes the last blocks of a mip level for texels of the next one.
    fn copies_parts_of_blocks(&self) -> bool {
        true
    }
}

impl Stressed for SimulatedGpu {
    const IMAGE_FORMAT: u32 = 4;
    const DESCRIPTOR_USAGE: u64 = 0;

    fn buffer_info(size: u64, copies: TransferUsage) -> BufferDesc {
        let flag = |usage, flag| if copies.contains(usage) { 0 } else { flag };
        let usage =
            flag(TransferUsage::SRC, Self::NO_TRANSFER_SRC) | flag(TransferUsage::DST, Self::NO_TRANSFER_DST);
        BufferDesc::new(size).with_usage(usage)
    }

    fn memory_options(_: &mut Input<'_>) {}

    fn disturb(&self, input: &mut Input<'_>) {
        const ERRORS: [DeviceError; 3] =
            [DeviceError::OutOfDeviceMemory, DeviceError::OutOfHostMemory, DeviceError::TooManyAllocations];
        self.fail_call(1 + input.below(16), input.pick(&ERRORS));
    }

    fn calm(&self) {
        self.clear_faults();
    }

    fn move_budget(&self, input: &mut Input<'_>) -> bool {
        let heaps = &self.properties().heaps;
        let heap = MemoryHeapIndex(input.index(heaps.len()) as u8);
        let (size, used) = (heaps[heap.get()].size, self.heap_budget(heap).usage);
        // As other programs take memory and give it back: all of it, what is in use, a little more, or nothing.
        let budgets = [size, size / 10 * 9, used, used + (32 << 10), used / 2, 0];
        self.set_budget(heap, input.pick(&budgets).min(size));
        true
    }

    fn reset_budgets(&self) {
        for (heap, found) in (0..).map(MemoryHeapIndex).zip(&self.properties().heaps) {
            self.set_budget(heap, found.size / 10 * 9);
        }
    }

    fn image_formats(&self) -> Vec<ImageFormat> {
        let blocks = |bytes, width, height| TexelBlock { bytes, width, height }.into();
        let aspects = |depth: Option<u32>, stencil: Option<u32>| TexelLayout::DepthStencil {
            depth: depth.map(TexelBlock::new),
            stencil: stencil.map(TexelBlock::new),
        };
        let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
        let planes = [plane(1, [1, 1]), plane(2, [2, 2]), None];
        [
            blocks(1, 1, 1),
            blocks(3, 1, 1),
            blocks(4, 1, 1),
            blocks(8, 1, 1),
            blocks(4, 2, 1),
            blocks(8, 4, 4),
            blocks(16, 4, 4),
            blocks(16, 10, 5),
            aspects(Some(2), None),
            aspects(None, Some(1)),
            aspects(Some(4), Some(1)),
            TexelLayout::Planar(planes),
        ]
        .into_iter()
        .filter_map(|texels| Self::format(texels).map(ImageFormat::new))
        .collect()
    }
}

/// Returns the findings of a simulated GPU without any remaining resource: validation errors and leaks.
#[must_use]
pub fn simulated_findings(device: &SimulatedGpu) -> Vec<String> {
    let mut findings: Vec<_> =
        device.validation_errors().into_iter().map(|it| format!("complaint: {it}")).collect();
    let usage = device.usage();
    let left = [usage.memory_bytes, usage.buffers, usage.images, usage.descriptor_heaps];
    if usage.memory_objects != 0 || usage.samplers != 0 || left != [0; 4] {
        findings.push(format!("leaked: {usage:?}"));
    }
    findings
}

#[cfg(feature = "vulkan")]
pub use of_vulkan::{Watched, watched};

#[cfg(feature = "vulkan")]
mod of_vulkan {
    use allotment::device::MemoryDevice as _;
    use allotment::device::vulkan::{BufferInfo, Device, EnabledFeatures, MemoryOptions};
    use allotment::device::{MemoryHeapIndex, TransferUsage};
    use allotment_headless::vulkan::{Headless, HeadlessDesc, OpenError};
    use allotment_headless::{DeviceChoice, Message, Severity};
    use ash::vk;

    use super::Stressed;
    use crate::{ImageFormat, Input, TexelValues, raw};

    impl Stressed for Device {
        const IMAGE_FORMAT: u32 = vk::Format::R8G8B8A8_UNORM.as_raw().unsigned_abs();
        const DESCRIPTOR_USAGE: u64 = vk::BufferUsageFlags::STORAGE_BUFFER.as_raw() as u64
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS.as_raw() as u64;

        fn buffer_info(size: u64, copies: TransferUsage) -> BufferInfo<'static> {
            let mut usage = vk::BufferUsageFlags::VERTEX_BUFFER;
            if copies.contains(TransferUsage::SRC) {
                usage |= vk::BufferUsageFlags::TRANSFER_SRC;
            }
            if copies.contains(TransferUsage::DST) {
                usage |= vk::BufferUsageFlags::TRANSFER_DST;
            }
            raw::vulkan_buffer(size, usage)
        }

        fn memory_options(input: &mut Input<'_>) -> MemoryOptions {
            let kinds = [0, 1, 1, 0x200, 8].map(vk::ExternalMemoryHandleTypeFlags::from_raw);
            MemoryOptions::new().with_export_handle_types(input.pick(&kinds))
        }

        fn disturb(&self, _: &mut Input<'_>) {}

        fn calm(&self) {}

        fn move_budget(&self, _: &mut Input<'_>) -> bool {
            false
        }

        fn reset_budgets(&self) {}

        fn image_formats(&self) -> Vec<ImageFormat> {
            use TexelValues::{Any, Float, Low24};
            [
                (vk::Format::R8_UNORM, Any),
                (vk::Format::R8G8B8A8_SRGB, Any),
                (vk::Format::R16G16B16A16_UINT, Any),
                (vk::Format::R32G32B32A32_UINT, Any),
                (vk::Format::BC1_RGBA_UNORM_BLOCK, Any),
                (vk::Format::BC7_UNORM_BLOCK, Any),
                (vk::Format::ETC2_R8G8B8_UNORM_BLOCK, Any),
                (vk::Format::ASTC_4X4_UNORM_BLOCK, Any),
                (vk::Format::D16_UNORM, Any),
                (vk::Format::X8_D24_UNORM_PACK32, Low24),
                (vk::Format::D32_SFLOAT, Float),
                (vk::Format::S8_UINT, Any),
                (vk::Format::D24_UNORM_S8_UINT, Low24),
                (vk::Format::D32_SFLOAT_S8_UINT, Float),
                (vk::Format::G8_B8R8_2PLANE_420_UNORM, Any),
            ]
            .map(|(format, values)| ImageFormat::new(format.as_raw().unsigned_abs()).with_values(values))
            .into()
        }

        fn host_write_usage(&self) -> u64 {
            let has = self.enabled().contains(EnabledFeatures::HOST_IMAGE_COPY);
            if has { vk::ImageUsageFlags::HOST_TRANSFER_EXT.as_raw().into() } else { 0 }
        }

        fn copies_parts_of_blocks(&self) -> bool {
            false
        }
    }

    /// An open device with the validation layer and synchronization validation.
    #[derive(Debug)]
    pub struct Watched {
        headless: Headless,
    }

    /// Opens the device with this name, or the best one, with the validation layer.
    ///
    /// # Errors
    ///
    /// [`OpenError`], also if the layer is not installed.
    pub fn watched(name: Option<&str>) -> Result<Watched, OpenError> {
        let choice = name.map_or(DeviceChoice::Best, |name| DeviceChoice::Named(name.to_owned()));
        let headless = Headless::open(&HeadlessDesc::default().with_validation().with_device(choice))?;
        Ok(Watched { headless })
    }

    impl Watched {
        /// Returns the device.
        #[must_use]
        pub fn device(&self) -> &Device {
            self.headless.device()
        }

        /// Returns the name of the physical device.
        #[must_use]
        pub fn name(&self) -> &str {
            self.headless.name()
        }

        /// Returns the validation messages since the last call, and the leaks of a device without any remaining
        /// resource.
        #[must_use]
        pub fn findings(&self) -> Vec<String> {
            let messages = self.headless.messages().take();
            let mut findings: Vec<_> = messages.iter().filter(is_wrong).map(ToString::to_string).collect();
            for heap in (0..).map(MemoryHeapIndex).take(self.device().properties().heaps.len()) {
                let left = self.device().allocated_bytes(heap);
                if left != 0 {
                    findings.push(format!("leaked: {left} bytes of heap {heap}"));
                }
            }
            findings
        }

        /// Closes the device, and returns the validation messages of its destruction.
        #[must_use]
        pub fn close(self) -> Vec<String> {
            let messages = self.headless.messages().clone();
            drop(self);
            messages.take().iter().filter(is_wrong).map(ToString::to_string).collect()
        }
    }

    /// Performance advice is ignored: the calls are random. So are messages of older layers about resources of a
    /// manual pass whose memory is freed before they are destroyed: Vulkan allows that as long as nothing uses
    /// them. And the layer of Vulkan 1.4 takes the bytes of a copy in the buffer, with the padding of rows, for those in the
    /// image, and says that they overlap a buffer behind a small image; bytes that did would be found by the comparison.
    fn is_wrong(message: &&Message) -> bool {
        let is_advice = message.id.contains("BestPractices");
        let is_left_behind = message.text.contains("still has a reference to mem obj");
        let is_overlap = ["pRegions-00173", "pRegions-00184"].iter().any(|rule| message.id.ends_with(rule));
        !is_overlap && (message.severity == Severity::Error || !(is_advice || is_left_behind))
    }
}

//! The simulated device, as each of the machines that it can be.

use std::sync::Mutex;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferViewUses, ImageViewUse, TexelBlock, TexelLayout, TexelPlane};
use allotment_readers::SimulatedReader;

use crate::fixture::{DescriptorFixture, Fixture, Format, FormatClass, Values};
use crate::runner::{Kind, Share};
use crate::simulated_only;

pub(super) fn kind() -> Kind {
    let mut kind = Kind::new("simulated");
    for profile in Profile::all() {
        let name = profile.name;
        // The usual one, and the one that differs most: one queue, memory that is not coherent.
        let share = if matches!(name, "discrete-large-bar" | "mobile") { Share::All } else { Share::Drawn };
        let make = move || SimulatedFixture::new(profile.clone());
        kind.conformance(name, share, make.clone());
        kind.descriptors(name, share, make);
    }
    for (profile, test) in simulated_only::all() {
        kind.add(profile, test, move || SimulatedFixture::new(Profile::named(profile).unwrap()));
    }
    kind
}

/// A simulated device, whose validation errors and leaks are failures.
pub(crate) struct SimulatedFixture {
    device: SimulatedGpu,
    expected: Mutex<Vec<&'static str>>,
}

impl SimulatedFixture {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { device: SimulatedGpu::new(profile), expected: Mutex::default() }
    }

    /// How many validation errors begin with `about`. They are expected from now on.
    pub(crate) fn complaints_about(&self, about: &'static str) -> usize {
        self.expect_complaints(about);
        self.device
            .validation_errors()
            .iter()
            .filter(|validation_error| validation_error.starts_with(about))
            .count()
    }
}

impl Fixture for SimulatedFixture {
    type Device = SimulatedGpu;

    fn device(&self) -> &SimulatedGpu {
        &self.device
    }

    fn budgets_are_exact(&self) -> bool {
        true
    }

    fn image_format(&self) -> u32 {
        // Bytes a texel.
        4
    }

    fn no_address_usage(&self) -> Option<u64> {
        Some(SimulatedGpu::NO_DEVICE_ADDRESS)
    }

    fn image_for_views(&self, usage: ImageViewUse) -> Option<(u32, u64)> {
        (usage != ImageViewUse::InputAttachment).then_some((4, 0))
    }

    fn texel_format(&self) -> (u32, u64) {
        (16, 16)
    }

    fn buffer_for_views(&self, _: BufferViewUses) -> u64 {
        0
    }

    fn buffer_without_views(&self, usage: BufferViewUses) -> Option<u64> {
        let written = BufferViewUses::READ_WRITE | BufferViewUses::STORAGE_TEXELS;
        usage.intersects(written).then_some(SimulatedGpu::NO_UNORDERED_ACCESS)
    }

    fn image_states(&self) -> &'static [()] {
        &[()]
    }

    fn has_linear_images(&self) -> bool {
        // As on the machines that these profiles are like, so that the suite is run both ways.
        !self.device.profile().name.starts_with("d3d12")
    }

    fn formats(&self) -> Vec<Format> {
        use FormatClass::{Astc, Bc, Depth, DepthStencil, Etc2, Planes, Stencil, Texels};
        let texels = |bytes| TexelBlock::new(bytes).into();
        let blocks = |bytes, width, height| TexelBlock { bytes, width, height }.into();
        let depth_stencil = |depth: Option<u32>, stencil: Option<u32>| TexelLayout::DepthStencil {
            depth: depth.map(TexelBlock::new),
            stencil: stencil.map(TexelBlock::new),
        };
        let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
        let planar = TexelLayout::Planar;
        [
            ("1 byte", Texels, texels(1)),
            ("2 bytes", Texels, texels(2)),
            ("3 bytes", Texels, texels(3)),
            ("4 bytes", Texels, texels(4)),
            ("8 bytes", Texels, texels(8)),
            ("12 bytes", Texels, texels(12)),
            ("16 bytes", Texels, texels(16)),
            ("2 texels of 4 bytes", Texels, blocks(4, 2, 1)),
            ("BC1", Bc, blocks(8, 4, 4)),
            ("BC7", Bc, blocks(16, 4, 4)),
            ("ETC2", Etc2, blocks(8, 4, 4)),
            ("ASTC 10x5", Astc, blocks(16, 10, 5)),
            ("D16", Depth, depth_stencil(Some(2), None)),
            ("D32", Depth, depth_stencil(Some(4), None)),
            ("S8", Stencil, depth_stencil(None, Some(1))),
            ("D16 S8", DepthStencil, depth_stencil(Some(2), Some(1))),
            ("D32 S8", DepthStencil, depth_stencil(Some(4), Some(1))),
            ("two planes 4:2:0", Planes, planar([plane(1, [1, 1]), plane(2, [2, 2]), None])),
            ("two planes 4:1:1", Planes, planar([plane(2, [1, 1]), plane(4, [4, 1]), None])),
            ("three planes 4:2:2", Planes, planar([plane(1, [1, 1]), plane(1, [2, 1]), plane(1, [2, 1])])),
        ]
        .map(|(name, class, texels)| {
            let number = SimulatedGpu::format(texels).unwrap();
            Format { name, class, number, usage: 0, values: Values::Any }
        })
        .into()
    }

    fn expect_complaints(&self, about: &'static str) {
        self.expected.lock().unwrap().push(about);
    }

    fn finish(self) -> Result<(), String> {
        let expected = self.expected.into_inner().unwrap();
        let mut validation_errors = self.device.validation_errors();
        validation_errors
            .retain(|validation_error| !expected.iter().any(|about| validation_error.starts_with(about)));
        if !validation_errors.is_empty() {
            return Err(format!("validation errors: {validation_errors:#?}"));
        }
        let usage = self.device.usage();
        let left = [usage.memory_bytes, usage.buffers, usage.images, usage.descriptor_heaps];
        if usage.memory_objects != 0 || usage.samplers != 0 || left != [0; 4] {
            return Err(format!("something was left behind: {usage:?}"));
        }
        Ok(())
    }
}

impl DescriptorFixture for SimulatedFixture {
    type Reader = SimulatedReader;
}

//! What memory a resource needs, at the smallest alignment that the device allows.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_SAMPLE_DESC;
use windows::core::Interface as _;

use super::properties::{Takes, USE_TIGHT_ALIGNMENT, types_that_take};
use super::resources::newer;
use super::{ResourceInfo, Shared, images};
use crate::Alignment;
use crate::device::{DedicatedNeed, DeviceError, Requirements, ResourceKind};

const TARGETS: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(
    D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET.0 | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL.0,
);

/// Where every view of a buffer may begin. A tight alignment can be as little as 8 bytes, which no view of
/// constants, shader tables or structures of ray tracing takes, and the runtime does not know yet which of
/// them there will be. A buffer that is described with an alignment of its own keeps that.
const VIEWS: u64 = D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT as u64;

impl Shared {
    /// The description that the driver gets, with the alignment that was chosen, and what memory it needs.
    pub(super) fn placed(
        &self,
        info: &ResourceInfo<'_>,
    ) -> Result<(D3D12_RESOURCE_DESC, Requirements), DeviceError> {
        if let Some(rule) = info.broken {
            return Err(rule.into());
        }
        let mut desc = info.desc;
        let target = desc.Flags.0 & TARGETS.0 != 0;
        if info.has_clear_value() && (info.is_buffer() || !target) {
            // There is nothing that could be cleared so.
            return Err(DeviceError::Unsupported);
        }
        if !info.castable().is_empty() && !info.begins_in_a_layout() {
            // The calls that take states take no list of formats.
            return Err(DeviceError::Unsupported);
        }
        if info.is_buffer() {
            self.check_buffer(&desc)?;
        } else if info.unchecked {
            self.check_image(&desc)?;
        } else {
            images::check_extent(&desc)?;
        }
        let told = self.at_smallest_alignment(info, &mut desc)?;
        let wanted = if info.is_buffer() {
            Takes::BUFFERS
        } else if target {
            Takes::TARGETS
        } else {
            Takes::TEXTURES
        };
        // What shaders write to changes its state.
        let changes_state = desc.Flags.0 & !USE_TIGHT_ALIGNMENT.0 != 0;
        let tight = info.is_buffer() && desc.Flags.contains(USE_TIGHT_ALIGNMENT);
        let alignment = if tight { told.Alignment.max(VIEWS) } else { told.Alignment };
        let requirements = Requirements {
            size: told.SizeInBytes,
            alignment: Alignment::new(alignment).map_err(|_| DeviceError::Unsupported)?,
            memory_types: types_that_take(&self.classes, wanted, changes_state),
            dedicated: DedicatedNeed::None,
            kind: if info.is_buffer() { ResourceKind::Buffer } else { images::kind(info) },
        };
        Ok((desc, requirements))
    }

    /// Size and alignment, with `desc` changed to say which alignment was chosen.
    fn at_smallest_alignment(
        &self,
        info: &ResourceInfo<'_>,
        desc: &mut D3D12_RESOURCE_DESC,
    ) -> Result<D3D12_RESOURCE_ALLOCATION_INFO, DeviceError> {
        let given = desc.Alignment != 0;
        let swizzled =
            [D3D12_TEXTURE_LAYOUT_64KB_STANDARD_SWIZZLE, D3D12_TEXTURE_LAYOUT_64KB_UNDEFINED_SWIZZLE]
                .contains(&desc.Layout);
        let between_adapters = desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_CROSS_ADAPTER);
        if !given && self.features.tight_alignment && !swizzled && !between_adapters {
            desc.Flags |= USE_TIGHT_ALIGNMENT;
        } else if let Some(small) = (!given).then(|| self.small_alignment(desc)).flatten() {
            desc.Alignment = small;
            match self.ask_requirements(info, desc) {
                Ok(told) if told.Alignment == small => return Ok(told),
                // The device would have it at the larger alignment all the same.
                _ => desc.Alignment = 0,
            }
        }
        self.ask_requirements(info, desc)
    }

    fn ask_requirements(
        &self,
        info: &ResourceInfo<'_>,
        desc: &D3D12_RESOURCE_DESC,
    ) -> Result<D3D12_RESOURCE_ALLOCATION_INFO, DeviceError> {
        let castable = info.castable();
        let told = if castable.is_empty() {
            // SAFETY: the device is live; it answers whatever the description says.
            unsafe { self.raw.GetResourceAllocationInfo(0, &[*desc]) }
        } else {
            let device: ID3D12Device12 = self.raw.cast().map_err(|_| DeviceError::Unsupported)?;
            let (desc, count, formats) = (newer(desc), castable.len() as u32, castable.as_ptr());
            // SAFETY: as above; there is one description, and one list of formats of this length.
            unsafe { device.GetResourceAllocationInfo3(0, 1, &desc, Some(&count), Some(&formats), None) }
        };
        // All ones are how a runtime says no.
        let sizes = 1..=allotment_suballoc::MAX_SIZE;
        if sizes.contains(&told.SizeInBytes) { Ok(told) } else { Err(DeviceError::Unsupported) }
    }

    /// The smaller alignment that a small texture may ask for: 4 KiB, or 64 KiB for several samples a texel.
    /// Who asks for it without being small hears of it from the debug layer, so this is worked out first, as
    /// the runtime does: in tiles of the smaller alignment, the most detailed level must not be larger than
    /// the larger alignment.
    fn small_alignment(&self, desc: &D3D12_RESOURCE_DESC) -> Option<u64> {
        let samples = desc.SampleDesc.Count;
        let flat = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE2D;
        let target = desc.Flags.0 & TARGETS.0 != 0;
        let one_plane = !images::has_planes(desc.Format);
        if !flat || !one_plane || desc.Layout != D3D12_TEXTURE_LAYOUT_UNKNOWN || (samples == 1 && target) {
            return None;
        }
        let (small, large) = if samples > 1 {
            (D3D12_SMALL_MSAA_RESOURCE_PLACEMENT_ALIGNMENT, D3D12_DEFAULT_MSAA_RESOURCE_PLACEMENT_ALIGNMENT)
        } else {
            (D3D12_SMALL_RESOURCE_PLACEMENT_ALIGNMENT, D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT)
        };
        // The first level alone, as a description that every runtime takes.
        let level = D3D12_RESOURCE_DESC {
            Flags: D3D12_RESOURCE_FLAG_NONE,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            MipLevels: 1,
            DepthOrArraySize: 1,
            ..*desc
        };
        let (mut rows, mut row_bytes) = (0, 0);
        let (rows_at, row_bytes_at) = (Some(&raw mut rows), Some(&raw mut row_bytes));
        // SAFETY: the device is live; it writes the rows of the first level, and their length.
        unsafe {
            self.raw.GetCopyableFootprints(&level, 0, 1, 0, None, rows_at, row_bytes_at, None);
        }
        let columns = if images::is_compressed(desc.Format) { desc.Width.div_ceil(4) } else { desc.Width };
        let level = Level { columns, rows: rows.into(), element_bytes: row_bytes.checked_div(columns)? };
        let tiles = level.tiles(small.into(), samples)?;
        (tiles <= u64::from(large / small)).then_some(small.into())
    }
}

/// The most detailed level of a texture, in texels or blocks.
struct Level {
    columns: u64,
    rows: u64,
    element_bytes: u64,
}

impl Level {
    /// How many tiles of so many bytes it takes, in the shapes of the standard swizzle: square, or twice as
    /// wide as high. `None` for formats that have no such tiles.
    fn tiles(&self, tile_bytes: u64, samples: u32) -> Option<u64> {
        if !self.element_bytes.is_power_of_two() || !samples.is_power_of_two() {
            return None;
        }
        let elements = (tile_bytes / self.element_bytes).checked_ilog2()?;
        let samples = samples.ilog2();
        let width = 1 << elements.div_ceil(2).checked_sub(samples.div_ceil(2))?;
        let height = 1 << (elements / 2).checked_sub(samples / 2)?;
        Some(self.columns.div_ceil(width) * self.rows.div_ceil(height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiles(columns: u64, rows: u64, element_bytes: u64) -> Option<u64> {
        Level { columns, rows, element_bytes }.tiles(4096, 1)
    }

    #[test]
    fn a_level_is_counted_in_the_tiles_of_the_standard_swizzle() {
        // 4 KiB are 64 by 64 texels of a byte, 64 by 32 of two, 32 by 32 of four, 32 by 16 of eight.
        assert_eq!(tiles(256, 256, 1), Some(16));
        assert_eq!(tiles(256, 128, 2), Some(16));
        assert_eq!(tiles(128, 128, 4), Some(16));
        assert_eq!(tiles(128, 64, 8), Some(16));
        assert_eq!(tiles(129, 128, 4), Some(20));
    }

    #[test]
    fn a_long_thin_level_takes_more_tiles_than_its_bytes_say() {
        assert_eq!(tiles(1, 1024, 4), Some(32), "4 KiB of texels");
    }

    #[test]
    fn formats_of_odd_size_have_no_tiles() {
        assert_eq!(tiles(16, 16, 12), None);
        assert_eq!(tiles(16, 16, 0), None);
    }

    #[test]
    fn samples_make_a_tile_narrower_first() {
        // 64 KiB of four bytes: 128 by 128, with two samples 64 by 128, with four 64 by 64.
        let level = Level { columns: 512, rows: 512, element_bytes: 4 };
        assert_eq!(level.tiles(65536, 1), Some(16));
        assert_eq!(level.tiles(65536, 2), Some(32));
        assert_eq!(level.tiles(65536, 4), Some(64));
    }
}

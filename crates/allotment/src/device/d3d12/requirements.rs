//! Memory requirements of resources, at the smallest alignment that the device supports.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_SAMPLE_DESC;
use windows::core::Interface as _;

use super::host_copies::is_host_writable;
use super::properties::{ResourceClasses, USE_TIGHT_ALIGNMENT, types_that_support};
use super::resources::to_desc1;
use super::{Multisampled, PlacementAlignment, ResourceInfo, Shared, images};
use crate::device::{DedicatedNeed, DescriptionError, DeviceError, Requirements, ResourceKind};
use allotment_suballoc::Alignment;

const TARGETS: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(
    D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET.0 | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL.0,
);

/// The alignment at which every view of a buffer can start. A tight alignment can be as small as 8 bytes, which
/// is too small for views of constants, shader tables and ray tracing structures, and the later views are not
/// known yet. A buffer whose description has an alignment keeps that.
const VIEWS: u64 = D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT as u64;

impl Shared {
    /// Returns the description for the driver, with the selected alignment, and the memory requirements.
    pub(super) fn describe_placed(
        &self,
        info: &ResourceInfo<'_>,
    ) -> Result<(D3D12_RESOURCE_DESC, Requirements), DeviceError> {
        self.check_description(info)?;
        let mut desc = info.desc;
        let target = desc.Flags.0 & TARGETS.0 != 0;
        let allocation = self.at_smallest_alignment(info, &mut desc)?;
        let class = if info.is_buffer() {
            ResourceClasses::BUFFERS
        } else if target {
            ResourceClasses::TARGETS
        } else {
            ResourceClasses::TEXTURES
        };
        // Resources that the GPU can write have to change their state.
        let changes_state = desc.Flags.0 & !USE_TIGHT_ALIGNMENT.0 != 0;
        let tight = info.is_buffer() && desc.Flags.contains(USE_TIGHT_ALIGNMENT);
        let alignment = if tight { allocation.Alignment.max(VIEWS) } else { allocation.Alignment };
        let requirements = Requirements {
            size: allocation.SizeInBytes,
            alignment: Alignment::new(alignment).map_err(|_| DeviceError::Unsupported)?,
            memory_types: types_that_support(&self.classes, class, changes_state, is_host_writable(info)),
            // Direct3D 12 reports no preference for dedicated memory; the allocator decides by size.
            dedicated: match self.multisampled {
                Multisampled::Committed if desc.SampleDesc.Count > 1 => DedicatedNeed::Required,
                _ => DedicatedNeed::None,
            },
            kind: if info.is_buffer() { ResourceKind::Buffer } else { images::kind(info) },
        };
        Ok((desc, requirements))
    }

    /// Returns an error for a description of which the library knows that the device has no such resource.
    pub(super) fn check_description(&self, info: &ResourceInfo<'_>) -> Result<(), DeviceError> {
        // The API's description has fewer bits for some numbers, so broken rules were noted before the conversion.
        if let Some(rule) = info.broken {
            return Err(rule.into());
        }
        let desc = &info.desc;
        let target = desc.Flags.0 & TARGETS.0 != 0;
        if info.has_clear_value() && (info.is_buffer() || !target) {
            // Only render targets and depth buffers can be cleared.
            return Err(DescriptionError::ClearValue.into());
        }
        if !info.castable().is_empty() && !info.has_initial_layout() {
            // The creation functions with states have no parameter for castable formats.
            return Err(DescriptionError::CastableFormats.into());
        }
        // Each of the three checks what the runtime does not promise to check itself.
        if info.is_buffer() {
            self.check_buffer(desc)?;
        } else if info.unchecked {
            // What a typeless format supports is not what its views do.
            let typed = D3D12_RESOURCE_DESC { Format: info.typed.unwrap_or(desc.Format), ..*desc };
            self.check_image(&typed, info.is_cube)?;
        } else {
            images::check_extent(desc)?;
        }
        Ok(())
    }

    /// Returns size and alignment, and sets the selected alignment in `desc`.
    fn at_smallest_alignment(
        &self,
        info: &ResourceInfo<'_>,
        desc: &mut D3D12_RESOURCE_DESC,
    ) -> Result<D3D12_RESOURCE_ALLOCATION_INFO, DeviceError> {
        // An alignment in the description is the application's wish and stays.
        let given = desc.Alignment != 0;
        if self.placement == PlacementAlignment::Standard {
            return self.query_allocation(info, desc);
        }
        let is_tight = self.features.tight_alignment && self.placement == PlacementAlignment::Smallest;
        let swizzled =
            [D3D12_TEXTURE_LAYOUT_64KB_STANDARD_SWIZZLE, D3D12_TEXTURE_LAYOUT_64KB_UNDEFINED_SWIZZLE]
                .contains(&desc.Layout);
        // Neither layout nor sharing between adapters is allowed with tight alignment.
        let between_adapters = desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_CROSS_ADAPTER);
        if !given && is_tight && !swizzled && !between_adapters {
            desc.Flags |= USE_TIGHT_ALIGNMENT;
        } else if let Some(small) = (!given).then(|| self.small_alignment(desc)).flatten() {
            desc.Alignment = small;
            match self.query_allocation(info, desc) {
                Ok(allocation) if allocation.Alignment == small => return Ok(allocation),
                // The device requires the larger alignment nevertheless.
                _ => desc.Alignment = 0,
            }
        }
        self.query_allocation(info, desc)
    }

    fn query_allocation(
        &self,
        info: &ResourceInfo<'_>,
        desc: &D3D12_RESOURCE_DESC,
    ) -> Result<D3D12_RESOURCE_ALLOCATION_INFO, DeviceError> {
        let castable = info.castable();
        // The older call exists in every runtime; the newer one only takes the list of formats.
        let allocation = if castable.is_empty() {
            // SAFETY: the device is live; the call accepts any description.
            unsafe { self.raw.GetResourceAllocationInfo(0, &[*desc]) }
        } else {
            let device: ID3D12Device12 = self.raw.cast().map_err(|_| DeviceError::Unsupported)?;
            let (desc, count, formats) = (to_desc1(desc), castable.len() as u32, castable.as_ptr());
            // SAFETY: as above; there is one description, and one list of formats with this length.
            unsafe { device.GetResourceAllocationInfo3(0, 1, &desc, Some(&count), Some(&formats), None) }
        };
        // Runtimes report an invalid description with a size of all ones.
        let sizes = 1..=allotment_suballoc::MAX_SIZE;
        if sizes.contains(&allocation.SizeInBytes) { Ok(allocation) } else { Err(DeviceError::Unsupported) }
    }

    /// Returns the smaller alignment that a small texture may request: 4 KiB, or 64 KiB if multisampled. The
    /// debug layer reports an error if a texture that is too large requests it, so the condition is evaluated
    /// first, as the runtime does: the number of tiles of the smaller alignment in the most detailed level must
    /// not exceed the larger alignment.
    fn small_alignment(&self, desc: &D3D12_RESOURCE_DESC) -> Option<u64> {
        let samples = desc.SampleDesc.Count;
        let is_buffer = desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER;
        let target = desc.Flags.0 & TARGETS.0 != 0;
        let one_plane = !images::has_planes(desc.Format);
        if is_buffer || !one_plane || desc.Layout != D3D12_TEXTURE_LAYOUT_UNKNOWN || (samples == 1 && target)
        {
            return None;
        }
        let (small, large) = if samples > 1 {
            (D3D12_SMALL_MSAA_RESOURCE_PLACEMENT_ALIGNMENT, D3D12_DEFAULT_MSAA_RESOURCE_PLACEMENT_ALIGNMENT)
        } else {
            (D3D12_SMALL_RESOURCE_PLACEMENT_ALIGNMENT, D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT)
        };
        // The first level only, as a description that every runtime accepts.
        let level = D3D12_RESOURCE_DESC {
            Flags: D3D12_RESOURCE_FLAG_NONE,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            MipLevels: 1,
            DepthOrArraySize: 1,
            ..*desc
        };
        // `GetCopyableFootprints` knows the size of each format's texel, so no table of formats is needed here.
        let (mut rows, mut row_bytes) = (0, 0);
        let (rows_at, row_bytes_at) = (Some(&raw mut rows), Some(&raw mut row_bytes));
        // SAFETY: the device is live; it writes the row count of the first level, and the row size.
        unsafe {
            self.raw.GetCopyableFootprints(&level, 0, 1, 0, None, rows_at, row_bytes_at, None);
        }
        let columns = if images::is_compressed(desc.Format) { desc.Width.div_ceil(4) } else { desc.Width };
        let is_3d = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
        let level = Level {
            dimension: desc.Dimension,
            columns,
            rows: rows.into(),
            slices: if is_3d { desc.DepthOrArraySize.into() } else { 1 },
            element_bytes: row_bytes.checked_div(columns)?,
        };
        let tiles = level.tiles(small.into(), samples)?;
        (tiles <= u64::from(large / small)).then_some(small.into())
    }
}

/// The most detailed level of a texture, in texels or blocks.
struct Level {
    dimension: D3D12_RESOURCE_DIMENSION,
    columns: u64,
    rows: u64,
    slices: u64,
    element_bytes: u64,
}

impl Level {
    /// Returns the number of tiles of a size, in the shapes of the standard swizzle: as long in each dimension, or twice as long
    /// in the first ones. `None` for formats without such tiles.
    fn tiles(&self, tile_bytes: u64, samples: u32) -> Option<u64> {
        if !self.element_bytes.is_power_of_two() || !samples.is_power_of_two() {
            return None;
        }
        let elements = (tile_bytes / self.element_bytes).checked_ilog2()?;
        let samples = samples.ilog2();
        // Each as a power of two.
        let [width, height, depth] = match self.dimension {
            D3D12_RESOURCE_DIMENSION_TEXTURE1D => [elements, 0, 0],
            D3D12_RESOURCE_DIMENSION_TEXTURE3D => {
                let depth = elements / 3;
                let height = (elements - depth) / 2;
                [elements - depth - height, height, depth]
            }
            _ => {
                let height = (elements / 2).checked_sub(samples / 2)?;
                [elements.div_ceil(2).checked_sub(samples.div_ceil(2))?, height, 0]
            }
        };
        let [width, height, depth] = [width, height, depth].map(|power| 1 << power);
        Some(self.columns.div_ceil(width) * self.rows.div_ceil(height) * self.slices.div_ceil(depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAT: Level = Level {
        dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        columns: 512,
        rows: 512,
        slices: 1,
        element_bytes: 4,
    };

    fn tiles(columns: u64, rows: u64, element_bytes: u64) -> Option<u64> {
        Level { columns, rows, element_bytes, ..FLAT }.tiles(4096, 1)
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
        assert_eq!(FLAT.tiles(65536, 1), Some(16));
        assert_eq!(FLAT.tiles(65536, 2), Some(32));
        assert_eq!(FLAT.tiles(65536, 4), Some(64));
    }

    #[test]
    fn a_level_of_a_line_or_a_volume_has_tiles_of_its_own_shapes() {
        let line = |columns, element_bytes| {
            let dimension = D3D12_RESOURCE_DIMENSION_TEXTURE1D;
            Level { dimension, columns, rows: 1, element_bytes, ..FLAT }.tiles(4096, 1)
        };
        assert_eq!([line(4096, 1), line(16384, 4), line(16384, 16)], [Some(1), Some(16), Some(64)]);
        // 4 KiB are 16 by 16 by 16 texels of a byte, 16 by 16 by 8 of two, then 16 by 8 by 8, 8 by 8 by 8, 8 by 8 by 4.
        let dimension = D3D12_RESOURCE_DIMENSION_TEXTURE3D;
        for (texel_bytes, [columns, rows, slices]) in
            [(1, [16, 16, 16]), (2, [16, 16, 8]), (4, [16, 8, 8]), (8, [8, 8, 8]), (16, [8, 8, 4])]
        {
            let of = |[columns, rows, slices]: [u64; 3]| {
                Level { dimension, columns, rows, slices, element_bytes: texel_bytes }.tiles(4096, 1)
            };
            assert_eq!(of([columns, rows, slices]), Some(1));
            assert_eq!(of([columns + 1, rows, slices]), Some(2));
            assert_eq!(of([columns, rows + 1, slices]), Some(2));
            assert_eq!(of([columns, rows, slices + 1]), Some(2));
        }
    }
}

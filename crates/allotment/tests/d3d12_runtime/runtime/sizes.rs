//! The sizes and alignments of resources.
//!
//! Sizes are the machine's, rounded as this runtime's alignments want it.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use super::{KIB, MIB, Runtime, TIGHT};

/// The answer for a resource that cannot exist.
const IMPOSSIBLE: D3D12_RESOURCE_ALLOCATION_INFO =
    D3D12_RESOURCE_ALLOCATION_INFO { SizeInBytes: u64::MAX, Alignment: 64 * KIB };

pub(super) const TARGETS: i32 =
    D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET.0 | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL.0;

pub(super) fn is_buffer(desc: &D3D12_RESOURCE_DESC) -> bool {
    desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER
}

/// Width and height of a 4 KiB tile of the standard swizzle, in texels, as the documentation's table has it
/// (there for 64 KiB, a quarter of it each way here).
fn tile(format: DXGI_FORMAT) -> Option<[u64; 2]> {
    Some(match format {
        DXGI_FORMAT_R8_UNORM => [64, 64],
        DXGI_FORMAT_R8G8_UNORM => [64, 32],
        DXGI_FORMAT_R8G8B8A8_UNORM | DXGI_FORMAT_D32_FLOAT | DXGI_FORMAT_R32_FLOAT => [32, 32],
        DXGI_FORMAT_R16G16B16A16_FLOAT => [32, 16],
        DXGI_FORMAT_R32G32B32A32_FLOAT => [16, 16],
        DXGI_FORMAT_BC1_UNORM => [128, 64],
        DXGI_FORMAT_BC7_UNORM => [64, 64],
        _ => return None,
    })
}

/// Width, height and depth of a 4 KiB tile of a 3D texture, in texels, as the same table has it for 64 KiB.
fn volume_tile(format: DXGI_FORMAT) -> Option<[u64; 3]> {
    Some(match format {
        DXGI_FORMAT_R8_UNORM => [16, 16, 16],
        DXGI_FORMAT_R8G8_UNORM => [16, 16, 8],
        DXGI_FORMAT_R8G8B8A8_UNORM | DXGI_FORMAT_R32_FLOAT => [16, 8, 8],
        DXGI_FORMAT_R16G16B16A16_FLOAT => [8, 8, 8],
        DXGI_FORMAT_R32G32B32A32_FLOAT => [8, 8, 4],
        DXGI_FORMAT_BC1_UNORM => [32, 32, 8],
        DXGI_FORMAT_BC7_UNORM => [32, 32, 4],
        _ => return None,
    })
}

/// Returns true for textures of one dimension or three that may have the smaller alignment.
fn is_small_line_or_volume(desc: &D3D12_RESOURCE_DESC) -> bool {
    let tiles = match desc.Dimension {
        // As many texels in a row as the 2D tile has.
        D3D12_RESOURCE_DIMENSION_TEXTURE1D => {
            tile(desc.Format).map(|[width, height]| desc.Width.div_ceil(width * height))
        }
        _ => volume_tile(desc.Format).map(|[width, height, depth]| {
            let across = desc.Width.div_ceil(width) * u64::from(desc.Height).div_ceil(height);
            across * u64::from(desc.DepthOrArraySize).div_ceil(depth)
        }),
    };
    desc.Layout == D3D12_TEXTURE_LAYOUT_UNKNOWN
        && desc.Flags.0 & TARGETS == 0
        && tiles.is_some_and(|tiles| tiles <= 16)
}

/// Returns true for textures that may have the smaller alignment.
fn is_small(desc: &D3D12_RESOURCE_DESC) -> bool {
    if [D3D12_RESOURCE_DIMENSION_TEXTURE1D, D3D12_RESOURCE_DIMENSION_TEXTURE3D].contains(&desc.Dimension) {
        return is_small_line_or_volume(desc);
    }
    let Some([mut width, mut height]) = tile(desc.Format) else { return false };
    let limit = match desc.SampleDesc.Count {
        1 => 16,
        samples => {
            // 64 KiB tiles are four times as wide and high; samples halve the width first.
            let [across, down] = match samples {
                2 => [2, 1],
                4 => [2, 2],
                8 => [4, 2],
                _ => [4, 4],
            };
            (width, height) = (width * 4 / across, height * 4 / down);
            64
        }
    };
    let tiles = desc.Width.div_ceil(width) * u64::from(desc.Height).div_ceil(height);
    desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE2D
        && desc.Layout == D3D12_TEXTURE_LAYOUT_UNKNOWN
        && (desc.SampleDesc.Count > 1 || desc.Flags.0 & TARGETS == 0)
        && tiles <= limit
}

impl Runtime {
    /// Returns the rule that the alignment of a description breaks.
    pub(super) fn alignment_mistake(&self, desc: &D3D12_RESOURCE_DESC) -> Option<String> {
        if desc.Flags.contains(TIGHT) {
            if self.config.tight.is_none() {
                return Some("tight alignment is not there".into());
            }
            if desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_CROSS_ADAPTER) {
                return Some("tight alignment of what is shared between adapters".into());
            }
            let swizzled =
                [D3D12_TEXTURE_LAYOUT_64KB_STANDARD_SWIZZLE, D3D12_TEXTURE_LAYOUT_64KB_UNDEFINED_SWIZZLE];
            if swizzled.contains(&desc.Layout) {
                return Some("tight alignment of a layout of 64 KiB tiles".into());
            }
            // Later runtimes take it as the least; the first that had the flag took 0 only.
            return (desc.Alignment != 0).then(|| "tight alignment beside another".into());
        }
        let [small, large] =
            if desc.SampleDesc.Count > 1 { [64 * KIB, 4 * MIB] } else { [4 * KIB, 64 * KIB] };
        match desc.Alignment {
            0 => None,
            given if given == large => None,
            given if given == small && !is_buffer(desc) => {
                (!is_small(desc)).then(|| format!("alignment {given} of a texture that is not small"))
            }
            given => Some(format!("alignment {given}")),
        }
    }

    pub(super) fn allocation_info(&self, desc: &D3D12_RESOURCE_DESC) -> D3D12_RESOURCE_ALLOCATION_INFO {
        if let Some(mistake) = self.alignment_mistake(desc) {
            self.report(format!("GetResourceAllocationInfo: {mistake}"));
            return IMPOSSIBLE;
        }
        let known = below(desc);
        // SAFETY: the device is live; it answers whatever the description says.
        let told = unsafe { self.below.GetResourceAllocationInfo(0, &[known]) };
        if told.SizeInBytes == u64::MAX {
            return IMPOSSIBLE;
        }
        let alignment = match self.config.tight.filter(|_| desc.Flags.contains(TIGHT)) {
            Some(tight) if is_buffer(desc) => tight,
            Some(_) if desc.SampleDesc.Count > 1 => 64 * KIB,
            Some(_) if is_small(desc) => 4 * KIB,
            Some(_) => 64 * KIB,
            None if desc.Alignment != 0 => desc.Alignment,
            None if desc.SampleDesc.Count > 1 => 4 * MIB,
            None => 64 * KIB,
        };
        let bytes = if is_buffer(desc) { desc.Width } else { told.SizeInBytes };
        D3D12_RESOURCE_ALLOCATION_INFO {
            SizeInBytes: bytes.next_multiple_of(alignment),
            Alignment: alignment,
        }
    }
}

/// Returns the description without what the machine's runtime may not know.
pub(super) fn below(desc: &D3D12_RESOURCE_DESC) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC { Flags: D3D12_RESOURCE_FLAGS(desc.Flags.0 & !TIGHT.0), ..*desc }
}

//! Views of buffers as texels: typed views.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

use super::super::formats::layout_of_format;
use super::super::properties::query;
use super::descriptor::Descriptor;
use crate::device::{TexelBlock, TexelBufferDesc, TexelBufferLimits, TexelBufferUse, TexelLayout};

/// The number of texels that a view can have at most.
const MOST_TEXELS: u64 = 1 << D3D12_REQ_BUFFER_RESOURCE_TEXEL_COUNT_2_TO_EXP;

/// A view of a buffer as texels: a description, since Direct3D 12 has no view objects.
#[derive(Clone, Debug)]
pub struct TexelBufferView {
    desc: TexelBufferDesc,
    /// Bytes per texel.
    texel: u64,
}

/// Returns the limits of typed views of a format, if the device has any.
pub(super) fn limits(device: &ID3D12Device, format: u32, usage: TexelBufferUse) -> Option<TexelBufferLimits> {
    let format = DXGI_FORMAT(i32::try_from(format).ok()?);
    let texel = texel_of(format)?;
    let wanted = D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: format, ..Default::default() };
    let found = query(device, wanted)?;
    let needed = match usage {
        TexelBufferUse::Uniform => D3D12_FORMAT_SUPPORT1_SHADER_LOAD,
        TexelBufferUse::Storage => D3D12_FORMAT_SUPPORT1_TYPED_UNORDERED_ACCESS_VIEW,
    };
    let has_all = found.Support1.contains(needed) && found.Support1.contains(D3D12_FORMAT_SUPPORT1_BUFFER);
    // A view begins at a whole texel.
    has_all.then_some(TexelBufferLimits { texel, alignment: texel, max_texels: MOST_TEXELS })
}

fn texel_of(format: DXGI_FORMAT) -> Option<u64> {
    match layout_of_format(format) {
        TexelLayout::Color(TexelBlock { bytes, width: 1, height: 1 }) => Some(bytes.into()),
        _ => None,
    }
}

impl TexelBufferView {
    pub(super) fn new(desc: &TexelBufferDesc) -> Self {
        let format = DXGI_FORMAT(desc.format as i32);
        // The limits were asked before, so that the format has texels.
        Self { desc: desc.clone(), texel: texel_of(format).unwrap_or(1) }
    }

    /// # Safety
    ///
    /// The buffer is live, was created for this use, and the description is within the limits.
    pub(super) unsafe fn descriptor<'a>(&self, buffer: &'a ID3D12Resource) -> Descriptor<'a> {
        let TexelBufferDesc { range, format, usage } = &self.desc;
        let format = DXGI_FORMAT(*format as i32);
        let first = range.start / self.texel;
        // At most 2^27.
        let count = ((range.end - range.start) / self.texel) as u32;
        match usage {
            TexelBufferUse::Uniform => {
                let desc = D3D12_SHADER_RESOURCE_VIEW_DESC {
                    Format: format,
                    ViewDimension: D3D12_SRV_DIMENSION_BUFFER,
                    Shader4ComponentMapping: D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING,
                    Anonymous: D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                        Buffer: D3D12_BUFFER_SRV {
                            FirstElement: first,
                            NumElements: count,
                            StructureByteStride: 0,
                            Flags: D3D12_BUFFER_SRV_FLAG_NONE,
                        },
                    },
                };
                // SAFETY: the caller's promise.
                unsafe { Descriptor::shader_resource(Some(buffer), Some(desc)) }
            }
            TexelBufferUse::Storage => {
                let desc = D3D12_UNORDERED_ACCESS_VIEW_DESC {
                    Format: format,
                    ViewDimension: D3D12_UAV_DIMENSION_BUFFER,
                    Anonymous: D3D12_UNORDERED_ACCESS_VIEW_DESC_0 {
                        Buffer: D3D12_BUFFER_UAV {
                            FirstElement: first,
                            NumElements: count,
                            StructureByteStride: 0,
                            CounterOffsetInBytes: 0,
                            Flags: D3D12_BUFFER_UAV_FLAG_NONE,
                        },
                    },
                };
                // SAFETY: the caller's promise.
                unsafe { Descriptor::unordered_access(Some(buffer), None, Some(desc)) }
            }
        }
    }
}

//! The shaders of a reader, and their root signatures.

use allotment::device::{DeviceError, ImageViewDimension};
use windows::Win32::Foundation::E_POINTER;
use windows::Win32::Graphics::Direct3D::ID3DBlob;
use windows::Win32::Graphics::Direct3D12::*;

use super::refused;

/// The compiled shaders; their sources are in the same folder.
const WHOLE_HEAP: &[u8] = include_bytes!("whole_heap.dxbc");
const ONE_BY_ONE: &[u8] = include_bytes!("one_by_one.dxbc");
const SAMPLE: &[u8] = include_bytes!("sample.dxbc");
const SAMPLE_LIST: &[u8] = include_bytes!("sample_list_2d.dxbc");
const SAMPLE_LIST_OF_CUBE: &[u8] = include_bytes!("sample_list_cube.dxbc");

/// Threads per group of the shaders that see a whole heap or sample at a list of coordinates.
pub(super) const GROUP: u32 = 64;

/// Threads per group of the shader that samples, along each axis.
pub(super) const TILE: u32 = 8;

/// Parameters of the root signature that reads, by index: the heap, or the part of it that a shader sees,
pub(super) const HEAP: u32 = 0;
/// the indices, for the shader that sees a whole heap,
pub(super) const INDICES: u32 = 1;
/// the destination,
pub(super) const TO: u32 = 2;
/// and the number of indices, or the index of the result.
pub(super) const NUMBER: u32 = 3;

/// Parameters of the root signature that samples, by index: the texture,
pub(super) const TEXTURE: u32 = 0;
/// the sampler,
pub(super) const SAMPLER: u32 = 1;
/// the picture,
pub(super) const PICTURE: u32 = 2;
/// and its width and height.
pub(super) const EXTENT: u32 = 3;

/// Parameters of the root signature that samples at a list of coordinates, by index: the texture and the sampler as above, the
/// picture,
pub(super) const LIST_PICTURE: u32 = 2;
/// the list,
pub(super) const LIST: u32 = 3;
/// and the number of its entries.
pub(super) const COUNT: u32 = 4;

/// The shader that samples, with its root signature and pipeline state.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    pub(super) signature: ID3D12RootSignature,
    pub(super) state: ID3D12PipelineState,
}

impl Sampling {
    pub(super) fn new(device: &ID3D12Device) -> Result<Self, DeviceError> {
        let texture = range(D3D12_DESCRIPTOR_RANGE_TYPE_SRV, 1);
        let sampler = range(D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER, 1);
        // In the order of the constants above.
        let parameters =
            [table(&texture), table(&sampler), buffer(D3D12_ROOT_PARAMETER_TYPE_UAV, [0, 0]), constants(2)];
        let signature = root_signature(device, &parameters)?;
        let state = compute(device, &signature, SAMPLE)?;
        Ok(Self { signature, state })
    }
}

/// The shaders that sample at a list of coordinates, with their root signature and pipeline states.
#[derive(Clone, Debug)]
pub(super) struct ListSampling {
    pub(super) signature: ID3D12RootSignature,
    texture: ID3D12PipelineState,
    cube: ID3D12PipelineState,
}

impl ListSampling {
    pub(super) fn new(device: &ID3D12Device) -> Result<Self, DeviceError> {
        let texture = range(D3D12_DESCRIPTOR_RANGE_TYPE_SRV, 1);
        let sampler = range(D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER, 1);
        // In the order of the constants above.
        let parameters = [
            table(&texture),
            table(&sampler),
            buffer(D3D12_ROOT_PARAMETER_TYPE_UAV, [0, 0]),
            buffer(D3D12_ROOT_PARAMETER_TYPE_SRV, [1, 0]),
            constants(1),
        ];
        let signature = root_signature(device, &parameters)?;
        let texture = compute(device, &signature, SAMPLE_LIST)?;
        let cube = compute(device, &signature, SAMPLE_LIST_OF_CUBE)?;
        Ok(Self { signature, texture, cube })
    }

    /// Returns the pipeline state for textures of a dimension.
    pub(super) fn state(&self, dimension: ImageViewDimension) -> Option<&ID3D12PipelineState> {
        match dimension {
            ImageViewDimension::D2 => Some(&self.texture),
            ImageViewDimension::Cube => Some(&self.cube),
            _ => None,
        }
    }
}

/// A shader that reads, with its root signature and pipeline state.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) signature: ID3D12RootSignature,
    pub(super) state: ID3D12PipelineState,
    /// Whether the shader reads the indices itself.
    pub(super) sees_whole_heaps: bool,
}

impl Pipeline {
    pub(super) fn new(device: &ID3D12Device, sees_whole_heaps: bool) -> Result<Self, DeviceError> {
        if sees_whole_heaps && binding_tier(device).0 < D3D12_RESOURCE_BINDING_TIER_2.0 {
            return Err(DeviceError::Unsupported);
        }
        let (descriptors, shader) = if sees_whole_heaps { (u32::MAX, WHOLE_HEAP) } else { (1, ONE_BY_ONE) };
        let heap = range(D3D12_DESCRIPTOR_RANGE_TYPE_SRV, descriptors);
        // In the order of the constants above.
        let parameters = [
            table(&heap),
            buffer(D3D12_ROOT_PARAMETER_TYPE_SRV, [0, 1]),
            buffer(D3D12_ROOT_PARAMETER_TYPE_UAV, [0, 0]),
            constants(1),
        ];
        let signature = root_signature(device, &parameters)?;
        let state = compute(device, &signature, shader)?;
        Ok(Self { signature, state, sees_whole_heaps })
    }
}

/// Returns the resource binding tier. From tier 2 on, shaders support unbounded tables.
fn binding_tier(device: &ID3D12Device) -> D3D12_RESOURCE_BINDING_TIER {
    let mut options = D3D12_FEATURE_DATA_D3D12_OPTIONS::default();
    let (data, size) = ((&raw mut options).cast(), size_of_val(&options) as u32);
    // SAFETY: the structure is the feature's, with its size. A runtime that fails leaves it unchanged.
    let _ = unsafe { device.CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS, data, size) };
    options.ResourceBindingTier
}

/// Describes the descriptors of a table.
fn range(kind: D3D12_DESCRIPTOR_RANGE_TYPE, descriptors: u32) -> D3D12_DESCRIPTOR_RANGE {
    D3D12_DESCRIPTOR_RANGE { RangeType: kind, NumDescriptors: descriptors, ..Default::default() }
}

/// Describes a parameter that is a table of one range, which lives as long as the parameter is used.
fn table(range: &D3D12_DESCRIPTOR_RANGE) -> D3D12_ROOT_PARAMETER {
    let table = D3D12_ROOT_DESCRIPTOR_TABLE { NumDescriptorRanges: 1, pDescriptorRanges: range };
    let table = D3D12_ROOT_PARAMETER_0 { DescriptorTable: table };
    parameter(D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE, table)
}

/// Describes a parameter that is a buffer, at a register of a space.
fn buffer(kind: D3D12_ROOT_PARAMETER_TYPE, [register, space]: [u32; 2]) -> D3D12_ROOT_PARAMETER {
    let descriptor = D3D12_ROOT_DESCRIPTOR { ShaderRegister: register, RegisterSpace: space };
    parameter(kind, D3D12_ROOT_PARAMETER_0 { Descriptor: descriptor })
}

/// Describes a parameter that is this number of 32-bit constants.
fn constants(count: u32) -> D3D12_ROOT_PARAMETER {
    let constants = D3D12_ROOT_CONSTANTS { Num32BitValues: count, ..Default::default() };
    parameter(D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS, D3D12_ROOT_PARAMETER_0 { Constants: constants })
}

fn parameter(kind: D3D12_ROOT_PARAMETER_TYPE, what: D3D12_ROOT_PARAMETER_0) -> D3D12_ROOT_PARAMETER {
    let visibility = D3D12_SHADER_VISIBILITY_ALL;
    D3D12_ROOT_PARAMETER { ParameterType: kind, Anonymous: what, ShaderVisibility: visibility }
}

/// Creates a root signature. The ranges of its tables are live.
fn root_signature(
    device: &ID3D12Device,
    parameters: &[D3D12_ROOT_PARAMETER],
) -> Result<ID3D12RootSignature, DeviceError> {
    let desc = D3D12_ROOT_SIGNATURE_DESC {
        NumParameters: parameters.len() as u32,
        pParameters: parameters.as_ptr(),
        ..Default::default()
    };
    let mut blob: Option<ID3DBlob> = None;
    // In this version, descriptors may be written until the list is executed.
    // SAFETY: the description lives in this function, and what it points to longer.
    unsafe { D3D12SerializeRootSignature(&desc, D3D_ROOT_SIGNATURE_VERSION_1, &mut blob, None) }
        .map_err(|error| refused(&error))?;
    let blob = blob.ok_or(DeviceError::Other { code: E_POINTER.0 })?;
    // SAFETY: the blob is live.
    let first = unsafe { blob.GetBufferPointer() };
    // SAFETY: as above.
    let length = unsafe { blob.GetBufferSize() };
    // SAFETY: the blob has that many bytes at the address, for as long as it lives.
    let bytes = unsafe { core::slice::from_raw_parts(first.cast::<u8>(), length) };
    // SAFETY: the device is live.
    unsafe { device.CreateRootSignature(0, bytes) }.map_err(|error| refused(&error))
}

fn compute(
    device: &ID3D12Device,
    signature: &ID3D12RootSignature,
    shader: &[u8],
) -> Result<ID3D12PipelineState, DeviceError> {
    let desc = D3D12_COMPUTE_PIPELINE_STATE_DESC {
        // SAFETY: the interface is borrowed without a reference, and not released with the description.
        pRootSignature: unsafe { core::mem::transmute_copy(signature) },
        CS: D3D12_SHADER_BYTECODE { pShaderBytecode: shader.as_ptr().cast(), BytecodeLength: shader.len() },
        ..Default::default()
    };
    // SAFETY: the device, the signature and the shader are live.
    unsafe { device.CreateComputePipelineState(&desc) }.map_err(|error| refused(&error))
}

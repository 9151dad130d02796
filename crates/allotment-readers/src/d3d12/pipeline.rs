//! The shaders of a reader, and their root signatures.

use allotment::device::DeviceError;
use windows::Win32::Foundation::E_POINTER;
use windows::Win32::Graphics::Direct3D::ID3DBlob;
use windows::Win32::Graphics::Direct3D12::*;

use super::refused;

/// The compiled shaders; their sources are in the same folder.
const WHOLE_HEAP: &[u8] = include_bytes!("whole_heap.dxbc");
const ONE_BY_ONE: &[u8] = include_bytes!("one_by_one.dxbc");

/// Threads per group of the shader that sees a whole heap.
pub(super) const GROUP: u32 = 64;

/// Parameters of the root signature, by index: the heap, or the part of it that a shader sees,
pub(super) const HEAP: u32 = 0;
/// the indices, for the shader that sees a whole heap,
pub(super) const INDICES: u32 = 1;
/// the destination,
pub(super) const TO: u32 = 2;
/// and the number of indices, or the index of the result.
pub(super) const NUMBER: u32 = 3;

/// A shader with its root signature and pipeline state.
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
        let signature = root_signature(device, descriptors)?;
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

/// Creates a root signature with a table of that many descriptors.
fn root_signature(device: &ID3D12Device, descriptors: u32) -> Result<ID3D12RootSignature, DeviceError> {
    let seen = D3D12_DESCRIPTOR_RANGE {
        RangeType: D3D12_DESCRIPTOR_RANGE_TYPE_SRV,
        NumDescriptors: descriptors,
        ..Default::default()
    };
    let table = D3D12_ROOT_DESCRIPTOR_TABLE { NumDescriptorRanges: 1, pDescriptorRanges: &raw const seen };
    let parameter = |kind, what| D3D12_ROOT_PARAMETER {
        ParameterType: kind,
        Anonymous: what,
        ShaderVisibility: D3D12_SHADER_VISIBILITY_ALL,
    };
    let buffer = |space| D3D12_ROOT_PARAMETER_0 {
        Descriptor: D3D12_ROOT_DESCRIPTOR { ShaderRegister: 0, RegisterSpace: space },
    };
    let number = D3D12_ROOT_CONSTANTS { Num32BitValues: 1, ..Default::default() };
    // In the order of the constants above.
    let parameters = [
        parameter(
            D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE,
            D3D12_ROOT_PARAMETER_0 { DescriptorTable: table },
        ),
        parameter(D3D12_ROOT_PARAMETER_TYPE_SRV, buffer(1)),
        parameter(D3D12_ROOT_PARAMETER_TYPE_UAV, buffer(0)),
        parameter(D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS, D3D12_ROOT_PARAMETER_0 { Constants: number }),
    ];
    let desc = D3D12_ROOT_SIGNATURE_DESC {
        NumParameters: parameters.len() as u32,
        pParameters: parameters.as_ptr(),
        ..Default::default()
    };
    let mut blob: Option<ID3DBlob> = None;
    // In this version, descriptors may be written until the list is executed.
    // SAFETY: the description and everything that it points to live in this function.
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

//! Samples a texture with a compute shader, which sees one table of textures and one of samplers: texel for texel, or at a list
//! of coordinates.

use allotment::device::DeviceError;
use allotment::device::d3d12::Device;
use windows::Win32::Graphics::Direct3D12::*;

use super::pipeline::{
    COUNT, EXTENT, GROUP, LIST, LIST_PICTURE, ListSampling, PICTURE, SAMPLER, Sampling, TEXTURE, TILE,
};
use super::{D3d12Reader, MOST_GROUPS, address, written};
use crate::{Sample, SampleList};

/// The tables of the texture and of the sampler.
type Tables = [D3D12_GPU_DESCRIPTOR_HANDLE; 2];

impl D3d12Reader {
    /// Returns the tables, or `None` if a heap is not shader-visible or the picture is too large.
    pub(super) fn tables(&self, sample: &Sample<'_, Device>) -> Option<Tables> {
        if sample.extent.iter().any(|length| length.div_ceil(TILE) > MOST_GROUPS) {
            return None;
        }
        Some([sample.resources.gpu_handle(sample.texture)?, sample.samplers.gpu_handle(sample.sampler)?])
    }

    pub(super) fn sampling(&self) -> Result<&Sampling, DeviceError> {
        if let Some(sampling) = self.sampling.get() {
            return Ok(sampling);
        }
        let sampling = Sampling::new(self.device.raw())?;
        Ok(self.sampling.get_or_init(|| sampling))
    }

    pub(super) fn list_sampling(&self) -> Result<&ListSampling, DeviceError> {
        if let Some(sampling) = self.list_sampling.get() {
            return Ok(sampling);
        }
        let sampling = ListSampling::new(self.device.raw())?;
        Ok(self.list_sampling.get_or_init(|| sampling))
    }
}

impl Sampling {
    pub(super) fn record(
        &self,
        list: &ID3D12GraphicsCommandList,
        [texture, sampler]: Tables,
        sample: &Sample<'_, Device>,
    ) {
        let heaps = [sample.resources, sample.samplers].map(|heap| Some(heap.raw().clone()));
        // SAFETY: the list is open, here and below, and all arguments live until it was executed.
        unsafe { list.SetDescriptorHeaps(&heaps) };
        // SAFETY: as above.
        unsafe { list.SetPipelineState(&self.state) };
        // SAFETY: as above.
        unsafe { list.SetComputeRootSignature(&self.signature) };
        // SAFETY: as above; the tables are in the heaps that were set.
        unsafe { list.SetComputeRootDescriptorTable(TEXTURE, texture) };
        // SAFETY: as above.
        unsafe { list.SetComputeRootDescriptorTable(SAMPLER, sampler) };
        // SAFETY: as above; the picture lies in its buffer, by the promise to `sample`.
        unsafe { list.SetComputeRootUnorderedAccessView(PICTURE, address(sample.to)) };
        let [width, height] = sample.extent;
        // SAFETY: as above.
        unsafe { list.SetComputeRoot32BitConstant(EXTENT, width, 0) };
        // SAFETY: as above.
        unsafe { list.SetComputeRoot32BitConstant(EXTENT, height, 1) };
        // SAFETY: as above; all parameters of the shader are set.
        unsafe { list.Dispatch(width.div_ceil(TILE), height.div_ceil(TILE), 1) };
        written(list, sample.to);
    }
}

impl ListSampling {
    pub(super) fn record(
        &self,
        list: &ID3D12GraphicsCommandList,
        state: &ID3D12PipelineState,
        (texture, sampler): (D3D12_GPU_DESCRIPTOR_HANDLE, D3D12_GPU_DESCRIPTOR_HANDLE),
        sample: &SampleList<'_, Device>,
    ) {
        let heaps = [sample.resources, sample.samplers].map(|heap| Some(heap.raw().clone()));
        // SAFETY: the list is open, here and below, and all arguments live until it was executed.
        unsafe { list.SetDescriptorHeaps(&heaps) };
        // SAFETY: as above.
        unsafe { list.SetPipelineState(state) };
        // SAFETY: as above.
        unsafe { list.SetComputeRootSignature(&self.signature) };
        // SAFETY: as above; the tables are in the heaps that were set.
        unsafe { list.SetComputeRootDescriptorTable(TEXTURE, texture) };
        // SAFETY: as above.
        unsafe { list.SetComputeRootDescriptorTable(SAMPLER, sampler) };
        // SAFETY: as above; the texels lie in the picture, by the promise to `sample_list`.
        unsafe { list.SetComputeRootUnorderedAccessView(LIST_PICTURE, address(sample.to)) };
        // SAFETY: as above; the entries lie in the list.
        unsafe { list.SetComputeRootShaderResourceView(LIST, address(sample.list)) };
        // SAFETY: as above.
        unsafe { list.SetComputeRoot32BitConstant(COUNT, sample.count, 0) };
        // SAFETY: as above; all parameters of the shader are set.
        unsafe { list.Dispatch(sample.count.div_ceil(GROUP), 1, 1) };
        written(list, sample.to);
    }
}

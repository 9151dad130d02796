//! Descriptor values: a view of a resource, or a sampler.

use core::fmt;
use core::num::NonZero;
use core::ops::Range;

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{
    DXGI_FORMAT, DXGI_FORMAT_D32_FLOAT, DXGI_FORMAT_R8G8B8A8_UNORM, DXGI_FORMAT_R32_TYPELESS,
    DXGI_FORMAT_UNKNOWN,
};

use super::sampler;
use crate::device::{BufferUse, DescriptorHeapType};

/// The maximum size in bytes of a range of constants in one descriptor.
pub(super) const MOST_CONSTANTS: u64 = D3D12_REQ_CONSTANT_BUFFER_ELEMENT_COUNT as u64 * 16;
/// The granularity of constants in bytes.
const CONSTANTS: u64 = D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT as u64;

/// A view of a resource or a sampler, with Direct3D 12's own description, which can be
/// [written](crate::device::DescriptorDevice::write_descriptor) into a slot of a heap.
///
/// The resource lives at least for as long as this does, and need not live for as long as the slot: copies
/// between heaps copy bytes. Resources that shaders access through a descriptor must be kept alive until all
/// work that uses them is complete.
///
/// For the runtime, a view that is not valid for its resource is undefined behaviour, which mostly removes the
/// device. So the code that creates a descriptor promises that it is valid; writing it needs no such promise.
///
/// ```no_run
/// use allotment::device::d3d12::{Descriptor, Device};
/// use allotment::device::{DescriptorDevice as _, DescriptorHeapDesc, DescriptorHeapType, DescriptorHeapVisibility};
/// use windows::Win32::Graphics::Direct3D12::ID3D12Resource;
/// # fn example(device: &Device, texture: &ID3D12Resource) -> Result<(), Box<dyn std::error::Error>> {
///
/// let desc = DescriptorHeapDesc { usage: DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Resource), capacity: 16 };
/// // SAFETY: the device provides the memory of heaps.
/// let heap = unsafe { device.create_descriptor_heap(&desc, None) }?;
/// // SAFETY: shaders may read the texture, and the view is of all of it in its own format.
/// let view = unsafe { Descriptor::shader_resource(Some(texture), None) };
/// // SAFETY: the slot exists, is for resources, and no other code uses it.
/// unsafe { device.write_descriptor(&heap, 3, &view) };
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Descriptor<'a>(View<'a>);

#[derive(Clone, Copy)]
enum View<'a> {
    ShaderResource(Option<&'a ID3D12Resource>, Option<D3D12_SHADER_RESOURCE_VIEW_DESC>),
    UnorderedAccess(
        Option<&'a ID3D12Resource>,
        Option<&'a ID3D12Resource>,
        Option<D3D12_UNORDERED_ACCESS_VIEW_DESC>,
    ),
    ConstantBuffer(D3D12_CONSTANT_BUFFER_VIEW_DESC),
    Sampler(D3D12_SAMPLER_DESC),
    RenderTarget(Option<&'a ID3D12Resource>, Option<D3D12_RENDER_TARGET_VIEW_DESC>),
    DepthStencil(Option<&'a ID3D12Resource>, Option<D3D12_DEPTH_STENCIL_VIEW_DESC>),
}

impl<'a> Descriptor<'a> {
    /// Creates a shader resource view: without a description, of the whole resource in its own format; without a
    /// resource, a null descriptor.
    ///
    /// # Safety
    ///
    /// At least one of the two is `Some`, and the description is one that `CreateShaderResourceView` allows for
    /// the resource. Memory that is described by an address is live for as long as `'a`.
    #[must_use]
    pub unsafe fn shader_resource(
        resource: Option<&'a ID3D12Resource>,
        desc: Option<D3D12_SHADER_RESOURCE_VIEW_DESC>,
    ) -> Self {
        Self(View::ShaderResource(resource, desc))
    }

    /// Creates the shader resource view of an acceleration structure, which is described by its address and names no resource.
    /// Pass the owner of its buffer to the slot or set, which keeps it alive then.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use allotment::Gpu;
    /// use allotment::device::d3d12::{Descriptor, Device};
    /// use allotment::memory::Buffer;
    /// # fn example(gpu: &Gpu<Device>, scene: Arc<Buffer<Device>>) -> Result<(), Box<dyn std::error::Error>> {
    /// let address = scene.device_address()?;
    /// // SAFETY: the buffer is pinned and holds an acceleration structure, and the device traces rays.
    /// let descriptor = unsafe { Descriptor::acceleration_structure(address) };
    /// let slot = gpu.descriptors()?.resources().insert(&descriptor, Some(scene))?;
    /// println!("shaders trace rays in the scene at index {}", slot.index());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    ///
    /// The address is that of an acceleration structure, or of where one will be built, in a buffer that was created in
    /// `D3D12_RESOURCE_STATE_RAYTRACING_ACCELERATION_STRUCTURE` and is live for as long as `'a`; a multiple of 256. The device
    /// has `D3D12_RAYTRACING_TIER_1_0`.
    #[must_use]
    pub const unsafe fn acceleration_structure(address: u64) -> Self {
        let desc = D3D12_SHADER_RESOURCE_VIEW_DESC {
            // No other format is allowed.
            Format: DXGI_FORMAT_UNKNOWN,
            ViewDimension: D3D12_SRV_DIMENSION_RAYTRACING_ACCELERATION_STRUCTURE,
            Shader4ComponentMapping: D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING,
            Anonymous: D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                RaytracingAccelerationStructure: D3D12_RAYTRACING_ACCELERATION_STRUCTURE_SRV {
                    Location: address,
                },
            },
        };
        Self(View::ShaderResource(None, Some(desc)))
    }

    /// Creates an unordered access view, optionally with a counter in another resource: without a description,
    /// of the whole resource in its own format; without a resource, a null descriptor.
    ///
    /// # Safety
    ///
    /// At least one of resource and description is `Some`, and the description is one that
    /// `CreateUnorderedAccessView` allows for the resource and the counter.
    #[must_use]
    pub unsafe fn unordered_access(
        resource: Option<&'a ID3D12Resource>,
        counter: Option<&'a ID3D12Resource>,
        desc: Option<D3D12_UNORDERED_ACCESS_VIEW_DESC>,
    ) -> Self {
        Self(View::UnorderedAccess(resource, counter, desc))
    }

    /// Creates a constant buffer view by address; a null descriptor if address and size are 0.
    ///
    /// # Safety
    ///
    /// The range lies in a buffer that is live for as long as `'a`. It starts at a multiple of 256, and its size
    /// is one too and at most 65,536.
    #[must_use]
    pub unsafe fn constant_buffer(desc: D3D12_CONSTANT_BUFFER_VIEW_DESC) -> Self {
        Self(View::ConstantBuffer(desc))
    }

    /// Creates a sampler descriptor.
    ///
    /// # Safety
    ///
    /// The description is one that `CreateSampler` allows.
    #[must_use]
    pub unsafe fn sampler(desc: D3D12_SAMPLER_DESC) -> Self {
        Self(View::Sampler(desc))
    }

    /// Creates a render target view: without a description, of the first mip level in its own format; without a
    /// resource, a null descriptor.
    ///
    /// # Safety
    ///
    /// At least one of the two is `Some`, and the description is one that `CreateRenderTargetView` allows for
    /// the resource.
    #[must_use]
    pub unsafe fn render_target(
        resource: Option<&'a ID3D12Resource>,
        desc: Option<D3D12_RENDER_TARGET_VIEW_DESC>,
    ) -> Self {
        Self(View::RenderTarget(resource, desc))
    }

    /// Creates a depth-stencil view: without a description, of the first mip level in its own format; without a
    /// resource, a null descriptor.
    ///
    /// # Safety
    ///
    /// At least one of the two is `Some`, and the description is one that `CreateDepthStencilView` allows for
    /// the resource.
    #[must_use]
    pub unsafe fn depth_stencil(
        resource: Option<&'a ID3D12Resource>,
        desc: Option<D3D12_DEPTH_STENCIL_VIEW_DESC>,
    ) -> Self {
        Self(View::DepthStencil(resource, desc))
    }

    /// Returns the type of the descriptor.
    #[must_use]
    pub fn kind(&self) -> DescriptorHeapType {
        match self.0 {
            View::ShaderResource(..) | View::UnorderedAccess(..) | View::ConstantBuffer(_) => {
                DescriptorHeapType::Resource
            }
            View::Sampler(_) => DescriptorHeapType::Sampler,
            View::RenderTarget(..) => DescriptorHeapType::RenderTarget,
            View::DepthStencil(..) => DescriptorHeapType::DepthStencil,
        }
    }

    /// Creates a view of a buffer range: of structures of `stride` bytes, else of raw bytes or constants.
    ///
    /// # Safety
    ///
    /// The conditions of [`buffer_descriptor`](crate::device::DescriptorDevice::buffer_descriptor) and of
    /// [`structured_buffer_descriptor`](crate::device::DescriptorDevice::structured_buffer_descriptor) apply.
    pub(super) unsafe fn of_buffer(
        buffer: &'a ID3D12Resource,
        range: Range<u64>,
        usage: BufferUse,
        stride: Option<NonZero<u32>>,
    ) -> Self {
        // The end is exclusive, and a view takes a length.
        let bytes = range.end - range.start;
        Self(match usage {
            BufferUse::ReadOnly => {
                View::ShaderResource(Some(buffer), Some(readable(range.start, bytes, stride)))
            }
            BufferUse::ReadWrite => {
                View::UnorderedAccess(Some(buffer), None, Some(writable(range.start, bytes, stride)))
            }
            BufferUse::Constants => {
                // SAFETY: the buffer is live, by the caller's promise.
                let address = unsafe { buffer.GetGPUVirtualAddress() };
                View::ConstantBuffer(D3D12_CONSTANT_BUFFER_VIEW_DESC {
                    BufferLocation: address + range.start,
                    // A view cannot contain more; the rest of a larger range is not accessible.
                    // `SizeInBytes` must be a multiple of 256 (`D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT`).
                    SizeInBytes: bytes.min(MOST_CONSTANTS).next_multiple_of(CONSTANTS) as u32,
                })
            }
        })
    }

    /// Creates a null descriptor.
    pub(super) fn null(kind: DescriptorHeapType) -> Self {
        // A null view needs a description: without a resource the runtime cannot derive dimension and format.
        Self(match kind {
            DescriptorHeapType::Resource => View::ShaderResource(None, Some(readable(0, 4, None))),
            // Direct3D 12 has no null sampler, so a harmless one takes its place.
            DescriptorHeapType::Sampler => View::Sampler(sampler::default()),
            DescriptorHeapType::RenderTarget => View::RenderTarget(
                None,
                // Any format that all devices can render to serves: nothing is written through it.
                Some(D3D12_RENDER_TARGET_VIEW_DESC {
                    Format: DXGI_FORMAT_R8G8B8A8_UNORM,
                    ViewDimension: D3D12_RTV_DIMENSION_TEXTURE2D,
                    ..Default::default()
                }),
            ),
            DescriptorHeapType::DepthStencil => View::DepthStencil(
                None,
                Some(D3D12_DEPTH_STENCIL_VIEW_DESC {
                    Format: DXGI_FORMAT_D32_FLOAT,
                    ViewDimension: D3D12_DSV_DIMENSION_TEXTURE2D,
                    ..Default::default()
                }),
            ),
        })
    }

    /// Writes the descriptor into a slot.
    ///
    /// # Safety
    ///
    /// The slot is of a live heap of the same type and device, and no other thread uses it during this call.
    pub(super) unsafe fn write(&self, device: &ID3D12Device, slot: D3D12_CPU_DESCRIPTOR_HANDLE) {
        /// Returns a pointer to the description if there is one.
        fn at<T>(desc: &Option<T>) -> Option<*const T> {
            desc.as_ref().map(core::ptr::from_ref)
        }
        match &self.0 {
            View::ShaderResource(resource, desc) => {
                // SAFETY: the caller owns the slot; the description is valid for the resource, as promised at
                // the descriptor's creation.
                unsafe { device.CreateShaderResourceView(*resource, at(desc), slot) };
            }
            View::UnorderedAccess(resource, counter, desc) => {
                // SAFETY: as above.
                unsafe { device.CreateUnorderedAccessView(*resource, *counter, at(desc), slot) };
            }
            // Described by address alone: a constant buffer view names no resource.
            View::ConstantBuffer(desc) => {
                // SAFETY: as above.
                unsafe { device.CreateConstantBufferView(Some(desc), slot) };
            }
            View::Sampler(desc) => {
                // SAFETY: as above.
                unsafe { device.CreateSampler(desc, slot) };
            }
            View::RenderTarget(resource, desc) => {
                // SAFETY: as above.
                unsafe { device.CreateRenderTargetView(*resource, at(desc), slot) };
            }
            View::DepthStencil(resource, desc) => {
                // SAFETY: as above.
                unsafe { device.CreateDepthStencilView(*resource, at(desc), slot) };
            }
        }
    }
}

/// Returns the format of a view of a buffer, its elements from byte `start` on, their number, and their size, which is 0 for
/// words of raw bytes.
fn elements(start: u64, bytes: u64, stride: Option<NonZero<u32>>) -> (DXGI_FORMAT, u64, u32, u32) {
    // Raw views must have the format `R32_TYPELESS` and no stride, structured ones no format.
    let format = if stride.is_some() { DXGI_FORMAT_UNKNOWN } else { DXGI_FORMAT_R32_TYPELESS };
    let size: u64 = stride.map_or(4, |stride| stride.get().into());
    // Clamped to the maximum of a view, which is more than resources have.
    let count = u32::try_from(bytes / size).unwrap_or(u32::MAX);
    (format, start / size, count, stride.map_or(0, NonZero::get))
}

/// Describes a buffer view for reading: of structures, or of raw bytes.
fn readable(start: u64, bytes: u64, stride: Option<NonZero<u32>>) -> D3D12_SHADER_RESOURCE_VIEW_DESC {
    let (format, first, count, size) = elements(start, bytes, stride);
    let raw = if size == 0 { D3D12_BUFFER_SRV_FLAG_RAW } else { D3D12_BUFFER_SRV_FLAG_NONE };
    D3D12_SHADER_RESOURCE_VIEW_DESC {
        Format: format,
        ViewDimension: D3D12_SRV_DIMENSION_BUFFER,
        Shader4ComponentMapping: D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING,
        Anonymous: D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
            Buffer: D3D12_BUFFER_SRV {
                FirstElement: first,
                NumElements: count,
                StructureByteStride: size,
                Flags: raw,
            },
        },
    }
}

/// Describes a buffer view for reading and writing: of structures, or of raw bytes.
fn writable(start: u64, bytes: u64, stride: Option<NonZero<u32>>) -> D3D12_UNORDERED_ACCESS_VIEW_DESC {
    let (format, first, count, size) = elements(start, bytes, stride);
    let raw = if size == 0 { D3D12_BUFFER_UAV_FLAG_RAW } else { D3D12_BUFFER_UAV_FLAG_NONE };
    D3D12_UNORDERED_ACCESS_VIEW_DESC {
        Format: format,
        ViewDimension: D3D12_UAV_DIMENSION_BUFFER,
        Anonymous: D3D12_UNORDERED_ACCESS_VIEW_DESC_0 {
            Buffer: D3D12_BUFFER_UAV {
                FirstElement: first,
                NumElements: count,
                StructureByteStride: size,
                CounterOffsetInBytes: 0,
                Flags: raw,
            },
        },
    }
}

impl fmt::Debug for Descriptor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The resource and the format of a view: the rest is a union.
        let mut view = |name, resource: &Option<&ID3D12Resource>, format| {
            f.debug_struct(name).field("resource", resource).field("format", &format).finish_non_exhaustive()
        };
        match &self.0 {
            View::ShaderResource(resource, desc) => {
                view("ShaderResource", resource, desc.map(|desc| desc.Format))
            }
            View::UnorderedAccess(resource, _, desc) => {
                view("UnorderedAccess", resource, desc.map(|desc| desc.Format))
            }
            View::RenderTarget(resource, desc) => {
                view("RenderTarget", resource, desc.map(|desc| desc.Format))
            }
            View::DepthStencil(resource, desc) => {
                view("DepthStencil", resource, desc.map(|desc| desc.Format))
            }
            View::ConstantBuffer(desc) => desc.fmt(f),
            View::Sampler(desc) => desc.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_descriptors_are_of_their_kind_and_of_no_resource() {
        for kind in DescriptorHeapType::ALL {
            let null = Descriptor::null(kind);
            assert_eq!(null.kind(), kind);
            let resource = match null.0 {
                View::ShaderResource(resource, Some(_))
                | View::RenderTarget(resource, Some(_))
                | View::DepthStencil(resource, Some(_)) => resource,
                View::Sampler(_) => None,
                other => panic!("{:?}", Descriptor(other)),
            };
            assert_eq!(resource, None);
        }
    }

    #[test]
    fn an_acceleration_structure_is_described_by_its_address_alone() {
        // SAFETY: it is written nowhere.
        let descriptor = unsafe { Descriptor::acceleration_structure(0x1_0000) };
        assert_eq!(descriptor.kind(), DescriptorHeapType::Resource);
        let View::ShaderResource(None, Some(desc)) = descriptor.0 else { panic!("{descriptor:?}") };
        assert_eq!(desc.ViewDimension, D3D12_SRV_DIMENSION_RAYTRACING_ACCELERATION_STRUCTURE);
        // SAFETY: it was made as an acceleration structure.
        assert_eq!(unsafe { desc.Anonymous.RaytracingAccelerationStructure.Location }, 0x1_0000);
    }

    #[test]
    fn a_raw_view_is_counted_in_words_and_a_structured_one_in_structures() {
        let counted = |view: D3D12_SHADER_RESOURCE_VIEW_DESC| {
            // SAFETY: it was made as a buffer.
            let buffer = unsafe { view.Anonymous.Buffer };
            (view.Format, buffer.FirstElement, buffer.NumElements, buffer.StructureByteStride, buffer.Flags)
        };
        let raw = counted(readable(4096, 1000, None));
        assert_eq!(raw, (DXGI_FORMAT_R32_TYPELESS, 1024, 250, 0, D3D12_BUFFER_SRV_FLAG_RAW));
        let structured = counted(readable(4800, 960, NonZero::new(48)));
        assert_eq!(structured, (DXGI_FORMAT_UNKNOWN, 100, 20, 48, D3D12_BUFFER_SRV_FLAG_NONE));
        let writable = writable(4800, 960, NonZero::new(48));
        // SAFETY: as above.
        let buffer = unsafe { writable.Anonymous.Buffer };
        assert_eq!(
            (buffer.FirstElement, buffer.NumElements, buffer.Flags),
            (100, 20, D3D12_BUFFER_UAV_FLAG_NONE)
        );
        assert_eq!(elements(0, u64::MAX, None).2, u32::MAX);
    }
}

//! Texels go up to a texture, are copied to a second one, come back and are compared.
//!
//! `cargo run --example d3d12_upload -p allotment-examples`, on Windows.
//!
//! The device, the queue and the command list are the application's own, as in an engine: the library makes
//! resources with memory for them, says where it put them and why, and takes them back.

#[cfg(not(windows))]
fn main() {
    println!("Direct3D 12 is for Windows.");
}

#[cfg(windows)]
fn main() -> Result<(), Box<dyn core::error::Error>> {
    example::run()
}

#[cfg(windows)]
mod example {
    use core::error::Error;
    use core::mem::ManuallyDrop;

    use allotment::device::BufferDesc;
    use allotment::device::BufferDevice as _;
    use allotment::device::ImageDevice as _;
    use allotment::device::MemoryDevice as _;
    use allotment::device::d3d12::{Device, DeviceDesc, ResourceInfo};
    use allotment::memory::d3d12::AllocatorExt as _;
    use allotment::{Allocator, AllocatorDesc, MemoryUsage};
    use windows::Win32::Foundation::HANDLE;
    use windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_11_0;
    use windows::Win32::Graphics::Direct3D12::*;
    use windows::Win32::Graphics::Dxgi::Common::*;
    use windows::Win32::Graphics::Dxgi::*;
    use windows::core::Interface as _;

    /// Texels of a side. A row of them is a multiple of 256 bytes, as copies to and from buffers want it.
    const SIDE: u32 = 512;

    const ROW: u32 = 4 * SIDE;

    const BYTES: u64 = ROW as u64 * SIDE as u64;

    type Resource = allotment::memory::RawResource<ID3D12Resource>;

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        // SAFETY: there are no arguments.
        let factory: IDXGIFactory1 = unsafe { CreateDXGIFactory1() }?;
        // SAFETY: the factory is live.
        let adapter: IDXGIAdapter3 = unsafe { factory.EnumAdapters1(0) }?.cast()?;
        let mut device = None;
        // SAFETY: the adapter is live, and the device is written where it is wanted.
        unsafe { D3D12CreateDevice(&adapter, D3D_FEATURE_LEVEL_11_0, &mut device) }?;
        let raw: ID3D12Device = device.ok_or("no device")?;
        // SAFETY: the device is live.
        let queue: ID3D12CommandQueue = unsafe { raw.CreateCommandQueue(&Default::default()) }?;

        let device = Device::new(DeviceDesc::new(raw.clone(), adapter))?;
        let allocator = Allocator::new(device, AllocatorDesc::default())?;
        println!("device: {}", allocator.device().properties().name);

        let texture = ResourceInfo::new(D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
            Width: SIDE.into(),
            Height: SIDE,
            DepthOrArraySize: 1,
            MipLevels: 1,
            Format: DXGI_FORMAT_R8G8B8A8_UNORM,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            ..Default::default()
        });
        let buffer = BufferDesc::new(BYTES).into();
        let albedo = make(&allocator, &texture, MemoryUsage::GpuOnly, "albedo")?;
        let copy = make(&allocator, &texture, MemoryUsage::GpuOnly, "copy of the albedo")?;
        let staging = make(&allocator, &buffer, MemoryUsage::Upload, "staging")?;
        let back = make(&allocator, &buffer, MemoryUsage::Readback, "what comes back")?;

        let texels: Vec<u8> =
            (0..BYTES).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        allocator.write(staging.allocation(), 0, &texels)?;

        let list = Commands::begin(&raw)?;
        list.copy(&rows(&staging), &whole(&albedo));
        list.transition(&albedo, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_COPY_SOURCE);
        list.copy(&whole(&albedo), &whole(&copy));
        list.transition(&copy, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_COPY_SOURCE);
        list.copy(&whole(&copy), &rows(&back));
        list.run(&raw, &queue)?;

        let mut found = vec![0; texels.len()];
        allocator.read(back.allocation(), 0, &mut found)?;
        if found != texels {
            return Err("what came back is not what went up".into());
        }
        println!("all {BYTES} bytes went up, from texture to texture, and came back as they were");

        for resource in [albedo, copy, staging, back] {
            allocator.destroy_resource(resource)?;
        }
        println!("{:#?}", allocator.reports().memory_heaps());
        Ok(())
    }

    /// Makes a resource, and says where it stands and why.
    fn make(
        allocator: &Allocator<Device>,
        info: &ResourceInfo<'_>,
        memory_usage: MemoryUsage,
        name: &'static str,
    ) -> Result<Resource, Box<dyn Error>> {
        let device = allocator.device();
        let requirements = if info.is_buffer() {
            device.buffer_requirements(info)?
        } else {
            device.image_requirements(info)?
        };
        let options = memory_usage.with_name(name);
        let made = allocator.create_resource(info, &options)?;
        let place = allocator.location(made.allocation())?;
        println!("{name}, for {memory_usage}: type {} at byte {}", place.memory_type, place.offset);
        for choice in allocator.explain(&requirements, &options) {
            println!("    {choice}");
        }
        Ok(made)
    }

    /// A place to copy from or to, which borrows its resource.
    struct Place<'a> {
        raw: D3D12_TEXTURE_COPY_LOCATION,
        _resource: &'a Resource,
    }

    fn place(
        resource: &Resource,
        kind: D3D12_TEXTURE_COPY_TYPE,
        what: D3D12_TEXTURE_COPY_LOCATION_0,
    ) -> Place<'_> {
        // SAFETY: the interface is borrowed as it is, and not released with the place.
        let borrowed: ManuallyDrop<Option<ID3D12Resource>> =
            unsafe { core::mem::transmute_copy(resource.handle()) };
        let raw = D3D12_TEXTURE_COPY_LOCATION { pResource: borrowed, Type: kind, Anonymous: what };
        Place { raw, _resource: resource }
    }

    /// A texture, all of it.
    fn whole(texture: &Resource) -> Place<'_> {
        let what = D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: 0 };
        place(texture, D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX, what)
    }

    /// A buffer of rows of texels.
    fn rows(buffer: &Resource) -> Place<'_> {
        let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
            Format: DXGI_FORMAT_R8G8B8A8_UNORM,
            Width: SIDE,
            Height: SIDE,
            Depth: 1,
            RowPitch: ROW,
        };
        let footprint = D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: 0, Footprint: footprint };
        let what = D3D12_TEXTURE_COPY_LOCATION_0 { PlacedFootprint: footprint };
        place(buffer, D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT, what)
    }

    /// A command list that is recorded and run once.
    struct Commands {
        list: ID3D12GraphicsCommandList,
        _allocator: ID3D12CommandAllocator,
    }

    impl Commands {
        fn begin(device: &ID3D12Device) -> Result<Self, Box<dyn Error>> {
            let kind = D3D12_COMMAND_LIST_TYPE_DIRECT;
            // SAFETY: the device is live.
            let allocator: ID3D12CommandAllocator = unsafe { device.CreateCommandAllocator(kind) }?;
            let nothing = None::<&ID3D12PipelineState>;
            // SAFETY: as above; the allocator is of the same kind.
            let list = unsafe { device.CreateCommandList(0, kind, &allocator, nothing) }?;
            Ok(Self { list, _allocator: allocator })
        }

        fn copy(&self, from: &Place<'_>, to: &Place<'_>) {
            // SAFETY: both are live and as large as the whole texture.
            unsafe { self.list.CopyTextureRegion(&to.raw, 0, 0, 0, &from.raw, None) };
        }

        fn transition(&self, resource: &Resource, from: D3D12_RESOURCE_STATES, to: D3D12_RESOURCE_STATES) {
            let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
                // SAFETY: the interface is borrowed as it is, and not released with the barrier.
                pResource: unsafe { core::mem::transmute_copy(resource.handle()) },
                Subresource: D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
                StateBefore: from,
                StateAfter: to,
            };
            let barrier = D3D12_RESOURCE_BARRIER {
                Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
                Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: ManuallyDrop::new(transition) },
                ..Default::default()
            };
            // SAFETY: the resource is live, and in the given state.
            unsafe { self.list.ResourceBarrier(&[barrier]) };
        }

        /// Runs the commands and waits until they are done.
        fn run(self, device: &ID3D12Device, queue: &ID3D12CommandQueue) -> Result<(), Box<dyn Error>> {
            // SAFETY: the list is being recorded.
            unsafe { self.list.Close() }?;
            // SAFETY: the list is closed, and what it uses lives until the wait is over.
            unsafe { queue.ExecuteCommandLists(&[Some(self.list.cast()?)]) };
            // SAFETY: the device is live.
            let fence: ID3D12Fence = unsafe { device.CreateFence(0, D3D12_FENCE_FLAG_NONE) }?;
            // SAFETY: both are live until the wait is over.
            unsafe { queue.Signal(&fence, 1) }?;
            // SAFETY: the fence is live; without an event, this waits.
            unsafe { fence.SetEventOnCompletion(1, HANDLE::default()) }?;
            Ok(())
        }
    }
}

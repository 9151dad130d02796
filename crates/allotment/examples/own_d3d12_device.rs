//! A program with its own Direct3D 12 device: uploads a texture, copies a part of it into a picture in each of a hundred
//! frames, and reads every picture back while three frames are in flight.
//!
//! `cargo run --example own_d3d12_device -p allotment-examples`, on Windows. `own_device` is all that Allotment needs of a
//! program that has a device and a queue already.

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
    use core::mem::{ManuallyDrop, transmute_copy};
    use std::collections::VecDeque;

    use allotment::device::MemoryDevice as _;
    use allotment::device::d3d12::{Device, DeviceDesc};
    use allotment::device::{ImageDesc, QueueIndex};
    use allotment::upload::{ImageWrite, ReadbackTicket};
    use allotment::{Alignment, Gpu, GpuDesc, MemoryUsage};
    use windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_11_0;
    use windows::Win32::Graphics::Direct3D12::*;
    use windows::Win32::Graphics::Dxgi::Common::*;
    use windows::core::Interface as _;

    type Outcome<T = ()> = Result<T, Box<dyn Error>>;

    const QUEUE: QueueIndex = QueueIndex(0);
    const FORMAT: DXGI_FORMAT = DXGI_FORMAT_R8G8B8A8_UNORM;
    const TEXTURE: u32 = 256;
    /// A row of them has 256 bytes: what copies to buffers ask of a row.
    const PICTURE: u32 = 64;

    /// Opens a device with a queue, and describes them to Allotment, which holds references to both.
    fn own_device() -> Outcome<Device> {
        let mut device = None;
        // SAFETY: the device is written where it is wanted.
        unsafe { D3D12CreateDevice(None, D3D_FEATURE_LEVEL_11_0, &mut device) }?;
        let device: ID3D12Device = device.ok_or("no device")?;
        // SAFETY: the device is live.
        let queue: ID3D12CommandQueue = unsafe { device.CreateCommandQueue(&Default::default()) }?;
        // The device's adapter is found, to query budgets.
        Ok(Device::new(DeviceDesc::from_device(device)?.with_queue(queue))?)
    }

    /// The texel of the texture in a row and a column.
    fn texel(x: u32, y: u32) -> [u8; 4] {
        [x as u8, y as u8, (x ^ y) as u8, 255]
    }

    /// The part of the texture that a frame copies.
    fn corner(frame: u64) -> u32 {
        (frame * 7 % u64::from(TEXTURE - PICTURE)) as u32
    }

    /// Returns the interface without a reference of its own, for descriptions that do not release it.
    fn borrowed(resource: &ID3D12Resource) -> ManuallyDrop<Option<ID3D12Resource>> {
        // SAFETY: an interface is one pointer, which is not released here.
        unsafe { transmute_copy(resource) }
    }

    fn whole(texture: &ID3D12Resource) -> D3D12_TEXTURE_COPY_LOCATION {
        D3D12_TEXTURE_COPY_LOCATION {
            pResource: borrowed(texture),
            Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: 0 },
        }
    }

    fn rows(buffer: &ID3D12Resource, offset: u64) -> D3D12_TEXTURE_COPY_LOCATION {
        let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
            Format: FORMAT,
            Width: PICTURE,
            Height: PICTURE,
            Depth: 1,
            RowPitch: 4 * PICTURE,
        };
        let placed = D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: offset, Footprint: footprint };
        D3D12_TEXTURE_COPY_LOCATION {
            pResource: borrowed(buffer),
            Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { PlacedFootprint: placed },
        }
    }

    fn transition(
        list: &ID3D12GraphicsCommandList,
        texture: &ID3D12Resource,
        from: D3D12_RESOURCE_STATES,
        to: D3D12_RESOURCE_STATES,
    ) {
        let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
            pResource: borrowed(texture),
            Subresource: D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
            StateBefore: from,
            StateAfter: to,
        };
        let barrier = D3D12_RESOURCE_BARRIER {
            Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
            Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: ManuallyDrop::new(transition) },
            ..Default::default()
        };
        // SAFETY: the list is open, and the texture is alive until the list has completed.
        unsafe { list.ResourceBarrier(&[barrier]) };
    }

    /// Records the copy of a part of the texture to the picture, and of the picture to the readback buffer.
    fn record(
        list: &ID3D12GraphicsCommandList,
        (texture, picture): (&ID3D12Resource, &ID3D12Resource),
        corner: u32,
        (readback, offset): (&ID3D12Resource, u64),
    ) -> Outcome {
        let (common, destination, source) =
            (D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_COPY_SOURCE);
        let end = corner + PICTURE;
        let part = D3D12_BOX { left: corner, top: corner, front: 0, right: end, bottom: end, back: 1 };
        transition(list, picture, common, destination);
        // The runtime promotes the texture, in the common state, to the source of a copy.
        // SAFETY: the part lies in the texture and is as large as the picture; both are alive until the list has completed.
        unsafe { list.CopyTextureRegion(&whole(picture), 0, 0, 0, &whole(texture), Some(&part)) };
        transition(list, picture, destination, source);
        // SAFETY: as above; the ring gave the range.
        unsafe { list.CopyTextureRegion(&rows(readback, offset), 0, 0, 0, &whole(picture), None) };
        transition(list, picture, source, common);
        // SAFETY: the list is open.
        unsafe { list.Close() }?;
        Ok(())
    }

    /// Compares a picture with the part of the texture that it was copied from.
    fn check(gpu: &Gpu<Device>, (frame, ticket): (u64, ReadbackTicket)) -> Outcome {
        let mut found = vec![0; (PICTURE * PICTURE * 4) as usize];
        gpu.readback()?.read(&ticket, &mut found)?;
        let first = corner(frame);
        let expected = (0..PICTURE * PICTURE).flat_map(|i| texel(first + i % PICTURE, first + i / PICTURE));
        if expected.eq(found) { Ok(()) } else { Err(format!("the picture of frame {frame} is wrong").into()) }
    }

    pub(super) fn run() -> Outcome {
        let gpu = Gpu::new(own_device()?, GpuDesc::default())?;
        let device = gpu.device().clone();

        let image = |size| ImageDesc::new(size, size, FORMAT.0 as u32).into();
        let texture = gpu.create_image(&image(TEXTURE), &MemoryUsage::GpuOnly.with_name("texture"))?;
        let picture = gpu.create_image(&image(PICTURE), &MemoryUsage::GpuOnly.with_name("picture"))?;
        println!("device: {}; the texture has {} bytes", device.properties().name, texture.info().size);

        let texels: Vec<u8> = (0..TEXTURE * TEXTURE).flat_map(|i| texel(i % TEXTURE, i / TEXTURE)).collect();
        let write = ImageWrite::default().with_after(D3D12_RESOURCE_STATE_COMMON);
        gpu.uploads().write_image_part(&texture, &write, &texels)?;

        let mut pictures = VecDeque::new();
        for _ in 0..100 {
            let frame = gpu.begin_frame()?; // waits while three frames are in flight
            if pictures.len() == gpu.desc().frames_in_flight.get() {
                pictures.pop_front().map_or(Ok(()), |oldest| check(&gpu, oldest))?;
            }

            let commands = frame.command_allocator(QUEUE)?;
            let list = commands.next()?;
            let mut readback = gpu.readback()?;
            // Copies of texels to a buffer begin at multiples of 512.
            let ticket = readback.allocate(u64::from(PICTURE * PICTURE * 4), Alignment::new(512)?)?;
            let images = (&texture.handle(), &picture.handle());
            record(&list, images, corner(frame.number()), (readback.buffer(), ticket.offset()))?;
            let lists = [Some(list.cast()?)];
            // The submission waits for the upload of the texture.
            let point = frame.submit(QUEUE, |queue, waits| {
                // SAFETY: recorded above, and what it uses is alive until the GPU has completed it.
                unsafe { device.submit_lists(queue, waits, &lists) }
            })?;
            readback.close(point);
            drop(readback);
            pictures.push_back((frame.number(), ticket));
            frame.end()?; // reclaims what earlier frames have freed
        }
        gpu.wait_idle()?;
        pictures.into_iter().try_for_each(|picture| check(&gpu, picture))?;
        println!("100 pictures, every texel as it must be");
        Ok(())
    }
}

//! Placed resources on a device whose images keep their states when they lose their bytes, as on Direct3D 12.

use std::sync::Mutex;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, ImageDesc, ImageDevice as _, ImagePart, QueueIndex};
use allotment::gpu::GpuDesc;
use allotment::memory::{Image, Transfer};
use allotment::upload::{ImageWrite, ReadError, UploadError, UploaderDesc};
use allotment::{AllocationOptions, Gpu, MemoryUsage, Requirements};

use crate::hooked_device::{Hook, HookedDevice, Point};

/// Notes what submissions say of their bytes, and which boxes of images they write.
#[derive(Debug, Default)]
struct Keeping {
    aliases: Mutex<Vec<bool>>,
    boxes: Mutex<Vec<[u32; 3]>>,
}

impl Hook for Keeping {
    fn reached(&self, _: Point) {}

    fn aliases(&self, aliases: bool) {
        self.aliases.lock().unwrap().push(aliases);
    }

    fn writes_box(&self, extent: [u32; 3]) {
        self.boxes.lock().unwrap().push(extent);
    }

    fn keeps_states(&self) -> bool {
        true
    }
}

type Device = HookedDevice<Keeping>;

const SIDE: u32 = 16;
const BYTES: usize = (SIDE * SIDE * 4) as usize;

fn gpu() -> (Device, Gpu<Device>) {
    // Whose usual memory the CPU does not reach.
    gpu_on("discrete-no-bar", UploaderDesc::default())
}

fn gpu_on(profile: &str, uploads: UploaderDesc) -> (Device, Gpu<Device>) {
    let device = Device::new(SimulatedGpu::new(Profile::named(profile).unwrap()));
    (device.clone(), Gpu::new(device, GpuDesc::default().with_uploader(uploads)).unwrap())
}

fn staging(bytes: u64) -> UploaderDesc {
    let mut desc = UploaderDesc::default();
    desc.staging = bytes;
    desc
}

fn options() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("shared")
}

fn settle(gpu: &Gpu<Device>) {
    gpu.uploads().submit().unwrap();
    gpu.wait_idle().unwrap();
    gpu.reclaim();
}

fn read(gpu: &Gpu<Device>, image: &Image<Device>) -> Result<Vec<u8>, ReadError> {
    let read = gpu.reads().read_image(image, &ImagePart::default())?;
    gpu.reads().submit()?;
    gpu.wait_idle().unwrap();
    read.bytes()
}

#[test]
fn an_image_that_keeps_its_state_has_no_texels_once_it_is_activated() {
    let (device, gpu) = gpu();
    let desc = ImageDesc::new(SIDE, SIDE, 4);
    let needs = device.image_requirements(&desc).unwrap();
    let memory = gpu.allocate_memory(&needs, &options()).unwrap();
    let [first, second] =
        ["first", "second"].map(|name| gpu.create_image_in(&memory, 0, &desc, name).unwrap());
    let part = ImageWrite::from(ImagePart::default().with_region([0; 3], [1; 3]));
    for (fill, [image, other]) in (1..).zip([[&first, &second], [&second, &first], [&first, &second]]) {
        gpu.uploads().write_image(image, &[fill; BYTES]).unwrap();
        assert_eq!(read(&gpu, image).unwrap(), [fill; BYTES]);
        settle(&gpu);
        assert!(other.activate().unwrap().needs_barrier);
        settle(&gpu);
        let was_used = fill > 1;
        assert_eq!(other.state(), was_used.then_some(()), "as the API has it");
        let refused = read(&gpu, other).unwrap_err();
        assert!(matches!(refused, ReadError::NoTexels { .. }), "{refused}");
        let refused = gpu.uploads().write_image_part(other, &part, &[9; 4]).unwrap_err();
        assert!(matches!(refused, UploadError::UnknownState { .. }), "{refused}");
    }
    gpu.uploads().write_image(&second, &[7; BYTES]).unwrap();
    gpu.uploads().write_image_part(&second, &part, &[9; 4]).unwrap();
    assert_eq!(read(&gpu, &second).unwrap()[..8], [9, 9, 9, 9, 7, 7, 7, 7]);
    assert_eq!(device.inner.validation_errors(), [""; 0]);
}

/// Width and height of an image that is larger than what is staged at once.
const TALL: [u32; 2] = [256, 256];

#[test]
fn the_first_write_of_what_begins_whole_is_one_copy_of_all_texels_by_a_queue() {
    // Without copies by the CPU, and with them: one of those is not a first write.
    for profile in ["d3d12-tier-1", "integrated"] {
        let (device, gpu) = gpu_on(profile, staging(1 << 20));
        let boxes = || core::mem::take(&mut *device.hook.boxes.lock().unwrap());
        let desc = ImageDesc::new(TALL[0], TALL[1], 4);
        let bytes = desc_bytes(TALL);
        let needs = device.image_requirements(&desc).unwrap();
        let memory = gpu.allocate_memory(&needs, &options()).unwrap();
        let images = ["first", "second"].map(|name| gpu.create_image_in(&memory, 0, &desc, name).unwrap());
        let part = ImageWrite::from(ImagePart::default().with_region([0; 3], [1; 3]));
        for (fill, image) in (1..).zip([&images[0], &images[1], &images[0]]) {
            if fill > 1 {
                assert!(image.activate().unwrap().needs_barrier);
                settle(&gpu);
            }
            let refused = gpu.uploads().write_image_part(image, &part, &[9; 4]).unwrap_err();
            assert!(matches!(refused, UploadError::UnknownState { .. }), "{profile}: {refused}");
            gpu.uploads().write_image(image, &vec![fill; bytes]).unwrap();
            settle(&gpu);
            assert_eq!(boxes(), [[TALL[0], TALL[1], 1]], "{profile}");
            assert!(read(&gpu, image).unwrap() == vec![fill; bytes]);
            // From then on it is as every other.
            gpu.uploads().write_image_part(image, &part, &[9; 4]).unwrap();
            gpu.uploads().write_image(image, &vec![fill; bytes]).unwrap();
            settle(&gpu);
            assert!(boxes().len() > 2, "{profile}: the later write is split");
        }
        // One that shares its memory with nothing is written as before.
        let alone = gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("alone")).unwrap();
        gpu.uploads().write_image_part(&alone, &part, &[9; 4]).unwrap();
        assert_eq!(device.inner.validation_errors(), [""; 0]);
    }
}

#[test]
fn a_first_write_that_does_not_fit_the_staging_memory_in_one_piece_is_refused() {
    let (device, gpu) = gpu_on("d3d12-tier-1", staging(128 << 10));
    let desc = ImageDesc::new(TALL[0], TALL[1], 4);
    let memory = gpu.allocate_memory(&device.image_requirements(&desc).unwrap(), &options()).unwrap();
    let image = gpu.create_image_in(&memory, 0, &desc, "tall").unwrap();
    let refused = gpu.uploads().write_image(&image, &vec![1; desc_bytes(TALL)]).unwrap_err();
    assert!(matches!(refused, UploadError::Full { .. }), "{refused}");
    assert!(refused.to_string().contains("tall"), "{refused}");
    settle(&gpu);
    assert_eq!(*device.hook.boxes.lock().unwrap(), [[0; 3]; 0]);
    let refused = read(&gpu, &image).unwrap_err();
    assert!(matches!(refused, ReadError::NoTexels { .. }), "{refused}");
    assert_eq!(device.inner.validation_errors(), [""; 0]);
}

fn desc_bytes([width, height]: [u32; 2]) -> usize {
    (width * height * 4) as usize
}

#[test]
fn copies_of_what_is_placed_are_submitted_as_those_of_bytes_that_others_had() {
    let (device, gpu) = gpu();
    let taken = || core::mem::take(&mut *device.hook.aliases.lock().unwrap());
    let memory = gpu.allocate_memory(&Requirements::new(4096), &options()).unwrap();
    let placed = gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4096), "placed").unwrap();
    let alone = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("alone")).unwrap();
    taken();
    for (buffer, expected) in [(&alone, false), (&placed, true)] {
        gpu.uploads().write_buffer(buffer, 0, &[1; 64]).unwrap();
        settle(&gpu);
        assert_eq!(taken(), [expected], "upload");
        let read = gpu.reads().read_buffer(buffer, 0, 64).unwrap();
        gpu.reads().submit().unwrap();
        gpu.wait_idle().unwrap();
        assert_eq!(read.bytes().unwrap(), [1; 64]);
        assert_eq!(taken(), [expected], "read");
        let mut transfer = Transfer::new(gpu.allocator(), QueueIndex(0), 4096).unwrap();
        buffer.with_raw(|raw| transfer.upload_to(raw, 0, &[2; 64])).unwrap();
        assert_eq!(taken(), [expected], "transfer");
        // Through a buffer that is created over the bytes of the other one.
        buffer.with_raw(|raw| transfer.upload(raw.allocation(), 0, &[3; 64])).unwrap();
        assert_eq!(taken(), [true], "transfer to an allocation");
    }
    assert_eq!(device.inner.validation_errors(), [""; 0]);
}

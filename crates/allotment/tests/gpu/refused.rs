//! Writes by uploads that refuse what does not fit: all of a write is staged, or nothing of it.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::io;
use std::thread;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{DeviceError, ImageDesc, ImagePart, QueueIndex, SharingMode};
use allotment::gpu::GpuDesc;
use allotment::lifetime::WaitFor;
use allotment::memory::{Buffer, Image};
use allotment::upload::{RingError, UploadError, UploadHandle, UploadStatus, UploaderDesc, WhenFull};
use allotment::{AllocationOptions, MemoryUsage};

use crate::amount::{first_seed, scaled};
use crate::rig::{QUEUE, Rig};

const KIB: u64 = 1 << 10;
const SIDE: u32 = 64;

/// A queue of a family of its own.
const TRANSFER: QueueIndex = QueueIndex(2);

fn rig(profile: &str, staging: u64, queue: QueueIndex) -> Rig {
    let mut uploader = UploaderDesc::default();
    (uploader.staging, uploader.when_full) = (staging, WhenFull::Refuse);
    (uploader.queue, uploader.image_queue) = (Some(queue), Some(queue));
    Rig::on(profile, GpuDesc::default().with_uploader(uploader))
}

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn bytes(&mut self, size: usize) -> Vec<u8> {
        let seed = self.below(251) as usize;
        (0..size).map(|at| (at % 241 + seed) as u8).collect()
    }
}

/// An image with three mip levels, and the texels that it has to have, by layer and level; none before the first write.
struct Picture {
    image: Image<SimulatedGpu>,
    texels: Vec<Vec<u8>>,
}

const LEVELS: u32 = 3;

impl Picture {
    fn new(rig: &Rig, layers: u32, sharing: SharingMode) -> Self {
        let desc = ImageDesc::new(SIDE, SIDE, 4).with_mip_levels(LEVELS).with_array_layers(layers);
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("picture").relocatable();
        let image = rig.gpu.create_image(&desc.with_sharing_mode(sharing), &options).unwrap();
        let level = |at: u32| ((SIDE >> (at % LEVELS)).pow(2) * 4) as usize;
        Self { image, texels: (0..layers * LEVELS).map(|at| vec![0; level(at)]).collect() }
    }

    fn new_texels(&self, random: &mut Random) -> Vec<Vec<u8>> {
        self.texels.iter().map(|texels| random.bytes(texels.len())).collect()
    }

    fn assert_holds(&self, rig: &Rig, what: impl core::fmt::Debug) {
        let read = rig.gpu.reads().read_image(&self.image, &ImagePart::default()).unwrap();
        let found = rig.bytes(&read);
        let is_other = |(a, b): (&u8, &u8)| a != b;
        let other = found.iter().zip(&self.texels.concat()).position(is_other);
        assert_eq!(other, None, "{what:?}: the first other byte of {}", found.len());
    }
}

/// Does what the error of a refused write names.
fn make_room(rig: &Rig, refused: UploadError) {
    match refused {
        UploadError::Full { source: RingError::FullForNow { wait: WaitFor::Point(point), .. }, .. } => {
            rig.gpu.wait(point).unwrap();
        }
        UploadError::Full { source: RingError::FullForNow { wait: WaitFor::Submission, .. }, .. } => {
            rig.gpu.uploads().submit().unwrap();
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_write_of_several_mip_levels_that_is_refused_stages_none_of_them() {
    for queue in [QUEUE, TRANSFER] {
        let rig = rig("discrete-no-bar", 64 * KIB, queue);
        let mut random = Random(1);
        let mut picture = Picture::new(&rig, 1, SharingMode::Exclusive);
        picture.texels = picture.new_texels(&mut random);
        let uploads = rig.gpu.uploads();
        uploads.write_image(&picture.image, &picture.texels.concat()).unwrap();
        rig.gpu.wait(uploads.submit().unwrap()).unwrap();
        // The largest level fits beside these bytes, and the others do not.
        let buffer = rig.buffer(39 * KIB);
        uploads.update_buffer(&buffer, 0, &vec![1; 39 << 10]).unwrap();
        let before = uploads.statistics();
        let texels = picture.new_texels(&mut random);
        let handle = UploadHandle::new();
        let refused = uploads.with_handle(&handle).write_image(&picture.image, &texels.concat());
        let Err(refused @ UploadError::Full { .. }) = refused else { panic!("{refused:?}") };
        let after = uploads.statistics();
        assert_eq!((after.copies, after.open_bytes), (before.copies, before.open_bytes), "queue {}", queue.0);
        assert_eq!(after.refusals, before.refusals + 1);
        assert_eq!((handle.status(), picture.image.state()), (UploadStatus::Lost, Some(())));
        // A reader is not asked for anything.
        let mut reader = Counted(0);
        let refused_again = uploads.write_image_from(&picture.image, &Default::default(), &mut reader);
        assert!(matches!(refused_again, Err(UploadError::Full { .. })) && reader.0 == 0, "{refused_again:?}");
        uploads.submit().unwrap();
        picture.assert_holds(&rig, "refused");
        // What the error names helps.
        make_room(&rig, refused);
        while let Err(refused) = uploads.write_image(&picture.image, &texels.concat()) {
            make_room(&rig, refused);
        }
        picture.texels = texels;
        picture.assert_holds(&rig, "written");
        drop((picture, buffer));
        rig.finish();
    }
}

/// A reader that counts its calls.
struct Counted(u32);

impl io::Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0 += 1;
        to.fill(7);
        Ok(to.len())
    }
}

#[test]
fn a_write_larger_than_all_staging_memory_is_refused_before_anything_is_staged() {
    let rig = rig("discrete-no-bar", 20 * KIB, QUEUE);
    let picture = Picture::new(&rig, 1, SharingMode::Exclusive);
    let uploads = rig.gpu.uploads();
    let refused = uploads.write_image(&picture.image, &picture.texels.concat());
    let Err(UploadError::Full { source: RingError::NeverFits { requested, capacity }, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(requested >= 21 * KIB && capacity == 20 * KIB, "{requested} of {capacity} bytes");
    assert_eq!((uploads.statistics().copies, uploads.statistics().open_bytes), (0, 0));
    // Its levels do fit, one after the other.
    for level in 0..LEVELS {
        let part = ImagePart::default().with_mip_levels(level..level + 1);
        uploads.write_image_part(&picture.image, &part.into(), &picture.texels[level as usize]).unwrap();
        rig.gpu.wait(uploads.submit().unwrap()).unwrap();
    }
    picture.assert_holds(&rig, "level by level");
    drop(picture);
    rig.finish();
}

#[test]
fn an_image_is_new_again_where_the_cpu_cannot_copy_all_levels_and_the_rest_is_refused() {
    // The second level, or the last: the driver has no memory for it, and there is too little staging memory.
    for (failing, copied) in [(2, 16 * KIB), (6, 41 * KIB)] {
        let rig = rig("integrated", 512, QUEUE);
        let mut picture = Picture::new(&rig, 2, SharingMode::Exclusive);
        picture.texels = picture.new_texels(&mut Random(failing));
        let uploads = rig.gpu.uploads();
        rig.device.fail_call(failing, DeviceError::OutOfHostMemory);
        let refused = uploads.write_image(&picture.image, &picture.texels.concat());
        rig.device.clear_faults();
        assert!(matches!(refused, Err(UploadError::Full { .. })), "{refused:?}");
        let sums = uploads.statistics();
        assert_eq!((sums.host_copied_bytes, sums.copies), (copied, 0));
        assert_eq!(picture.image.state(), None);
        // As new: the CPU copies all of it.
        uploads.write_image(&picture.image, &picture.texels.concat()).unwrap();
        assert_eq!(uploads.statistics().host_copied_bytes, copied + 42 * KIB);
        picture.assert_holds(&rig, "copied");
        drop(picture);
        rig.finish();
    }
}

/// Writes parts of images near the limit until each is written.
fn work(rig: &Rig, random: &mut Random, layers: u32) {
    let mut pictures = [SharingMode::Exclusive, SharingMode::Concurrent]
        .map(|sharing| (Picture::new(rig, layers, sharing), false));
    for round in 0..20 {
        let (picture, is_written) = &mut pictures[random.below(2) as usize];
        let was_written = *is_written;
        let mut texels = picture.texels.clone();
        let (part, bytes) = match random.below(4) {
            // Some rows of one level, which is copied at home where the image is exclusive.
            0 if *is_written => {
                let at = random.below(texels.len() as u64) as u32;
                let (level, layer) = (at % LEVELS, at / LEVELS);
                let (side, row) = (SIDE >> level, ((SIDE >> level) * 4) as usize);
                let rows = random.bytes(row * 3);
                texels[at as usize][row..row * 4].copy_from_slice(&rows);
                let part = ImagePart::default().with_mip_levels(level..level + 1);
                let part = part.with_array_layers(layer..layer + 1);
                (part.with_region([0, 1, 0], [side, 3, 1]), rows)
            }
            1 if *is_written => {
                let level = random.below(LEVELS.into()) as u32;
                let mut bytes = Vec::new();
                for (_, texels) in (0_u32..).zip(&mut texels).filter(|(at, _)| at % LEVELS >= level) {
                    *texels = random.bytes(texels.len());
                    bytes.extend_from_slice(texels);
                }
                (ImagePart::default().with_mip_levels(level..LEVELS), bytes)
            }
            _ => {
                texels = picture.new_texels(random);
                *is_written = true;
                (ImagePart::default(), texels.concat())
            }
        };
        let write = part.into();
        loop {
            let handle = UploadHandle::new();
            let uploads = rig.gpu.uploads().with_handle(&handle);
            let written = if random.below(3) == 0 {
                uploads.write_image_from(&picture.image, &write, &bytes[..])
            } else {
                uploads.write_image_part(&picture.image, &write, &bytes)
            };
            let Err(refused) = written else { break };
            assert_eq!(handle.status(), UploadStatus::Lost);
            if was_written && random.below(4) == 0 {
                picture.assert_holds(rig, ("refused", round));
            }
            make_room(rig, refused);
        }
        picture.texels = texels;
        if random.below(4) == 0 {
            picture.assert_holds(rig, ("written", round));
        }
    }
    pictures
        .iter()
        .filter(|(_, is_written)| *is_written)
        .for_each(|(picture, _)| picture.assert_holds(rig, "end"));
}

#[test]
fn writes_of_several_threads_near_the_limit_are_staged_or_refused_as_a_whole() {
    for case in 0..scaled(100) {
        let mut random = Random(first_seed() + case);
        let queue = [QUEUE, TRANSFER][random.below(2) as usize];
        let layers = 1 + random.below(2) as u32;
        let rig = rig("discrete-no-bar", (22 * u64::from(layers) + random.below(60)) * KIB, queue);
        thread::scope(|scope| {
            for _ in 0..3 {
                let mut random = Random(random.below(u64::MAX >> 33));
                let rig = &rig;
                scope.spawn(move || work(rig, &mut random, layers));
            }
        });
        assert!(rig.gpu.uploads().statistics().refusals > 0, "{case}");
        rig.finish();
    }
}

#[test]
fn a_large_write_in_place_goes_on_in_place_when_another_thread_stages_bytes_for_the_buffer() {
    const SIZE: u64 = 4 << 20;
    let rig = rig("discrete-large-bar", 4 * KIB, QUEUE);
    let options = AllocationOptions::new(MemoryUsage::DeviceUpload).with_name("shared").relocatable();
    let desc = allotment::device::BufferDesc::new(SIZE + 64);
    let buffer: Buffer<SimulatedGpu> = rig.gpu.create_buffer(&desc, &options).unwrap();
    for round in 1..=scaled(200) {
        let bytes = vec![(round % 250) as u8; SIZE as usize];
        let is_done = AtomicBool::new(false);
        let written = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    // Full, at times.
                    _ = rig.gpu.uploads().update_buffer(&buffer, SIZE, &[1; 64]);
                    rig.gpu.wait(rig.gpu.uploads().submit().unwrap()).unwrap();
                }
            });
            let written = rig.gpu.uploads().write_buffer(&buffer, 0, &bytes);
            is_done.store(true, Relaxed);
            written
        });
        let mut found = vec![0; SIZE as usize];
        rig.gpu.read_buffer(&buffer, 0, &mut found).unwrap();
        let expected = match written {
            Ok(()) => bytes,
            // Bytes were staged already, and this write is too large for that: nothing of it is written.
            Err(UploadError::Full { .. }) => vec![found[0]; SIZE as usize],
            Err(other) => panic!("{other}"),
        };
        assert!(found == expected, "{round}: {written:?}");
        if written.is_err() {
            assert_ne!(found[0], (round % 250) as u8, "{round}");
        }
    }
    drop(buffer);
    rig.finish();
}

//! Buffers that belong to one family of queues at a time: what the library copies from and to them, it copies there.

use core::ops::Range;
use core::time::Duration;
use std::thread;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferDesc, CopyDirection, DeviceError, ImageAspect, ImageCopy, ImageDesc, ImageDevice as _, ImagePart,
    QueueDevice as _, QueueIndex, QueueKind, SharingMode, Submission, TimelinePoint, TimelineValue,
};
use allotment::gpu::GpuDesc;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, PassLimits};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, Buffer, Image, Transfer, TransferError};
use allotment::upload::{
    ImageWrite, ReadError, UploadError, UploadHandle, UploadStatus, Uploader, UploaderDesc, WhenFull,
};
use allotment::{AllocationOptions, AllocatorDesc, MemoryUsage};

use crate::amount::{first_seed, scaled};
use crate::rig::{QUEUE, Rig};

const SIZE: u64 = 4096;

fn exclusive(rig: &Rig, options: &AllocationOptions) -> Buffer<SimulatedGpu> {
    let desc = BufferDesc::new(SIZE).with_sharing_mode(SharingMode::Exclusive);
    rig.gpu.create_buffer(&desc, options).unwrap()
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|at| (at % 251) as u8 ^ seed).collect()
}

#[test]
fn an_exclusive_buffer_is_written_and_read_on_the_queue_that_it_belongs_to() {
    let rig = Rig::new();
    let pinned = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let relocatable = pinned.clone().relocatable();
    for options in [pinned, relocatable] {
        let buffer = exclusive(&rig, &options);
        let shared = rig.buffer(SIZE);
        for round in 0..4 {
            rig.gpu.uploads().write_buffer(&buffer, 0, &pattern(round)).unwrap();
            rig.gpu.uploads().write_buffer(&shared, 0, &pattern(100 + round)).unwrap();
            rig.gpu.uploads().update_buffer(&buffer, 0, &pattern(round + 1)).unwrap();
            let mut found = vec![0; SIZE as usize];
            rig.gpu.read_buffer(&buffer, 0, &mut found).unwrap();
            assert!(found == pattern(round + 1), "{round}");
            rig.gpu.read_buffer(&shared, 0, &mut found).unwrap();
            assert!(found == pattern(100 + round), "{round}");
        }
        let read = rig.gpu.reads().read_buffer(&buffer, 0, SIZE).unwrap();
        rig.gpu.begin_frame().unwrap().end().unwrap();
        assert!(rig.bytes(&read) == pattern(4));
    }
    rig.finish();
}

#[test]
fn a_copy_of_an_exclusive_buffer_on_a_queue_of_another_family_is_refused() {
    let rig = Rig::new();
    let queue = rig.other_queue();
    assert_ne!(rig.gpu.device().profile().queues[usize::from(queue.0)], QueueKind::Graphics);
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let name = ShortName::new("exclusive");
    let buffer = exclusive(&rig, &options);
    let refused = AccessError::OtherFamily { queue, name }.to_string();
    assert!(refused.contains("graphics queue"), "{refused}");
    let desc = BufferDesc::new(SIZE).with_sharing_mode(SharingMode::Exclusive);
    let raw = rig.gpu.allocator().create_buffer(&desc, &options).unwrap();
    let mut transfer = Transfer::new(rig.gpu.allocator(), queue, SIZE).unwrap();
    let refused = TransferError::Access(AccessError::OtherFamily { queue, name });
    assert_eq!(transfer.upload_to(&raw, 0, &pattern(1)), Err(refused));
    assert_eq!(transfer.download_from(&raw, 0, &mut [0; 64]), Err(refused));
    drop(transfer);
    rig.gpu.allocator().destroy_buffer(raw).unwrap();
    drop(buffer);
    rig.finish();
}

#[test]
fn what_an_uploader_has_not_handed_over_no_other_one_writes_and_no_read_reads() {
    let rig = Rig::new();
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let (buffer, picture) = (exclusive(&rig, &options), Picture::new(&rig, &options));
    let mut desc = UploaderDesc::default();
    (desc.queue, desc.image_queue) = (Some(TRANSFER), Some(TRANSFER));
    let [one, other] = [(); 2].map(|()| Uploader::new(rig.gpu.memory(), desc).unwrap());
    let name = ShortName::new("exclusive");
    let write = ImageWrite::default();
    let texels = vec![9; picture.texels.concat().len()];
    let mut found = vec![0; SIZE as usize];
    for round in 0..4 {
        one.update(&buffer, 0, &pattern(round)).unwrap();
        one.write_image(&picture.image, &write, &texels).unwrap();
        if round % 2 == 1 {
            // Submitted, and not handed over.
            one.update(&buffer, 0, &pattern(round)).unwrap();
        }
        let refused = other.update(&buffer, 64, &[1; 64]).unwrap_err();
        assert_eq!(refused, UploadError::OtherUploader { name });
        assert!(refused.to_string().contains("call its `submit` first"), "{refused}");
        assert_eq!(rig.gpu.uploads().update_buffer(&buffer, 64, &[1; 64]), Err(refused));
        assert_eq!(other.write_image(&picture.image, &write, &texels), Err(refused));
        assert_eq!(rig.gpu.uploads().write_image(&picture.image, &texels), Err(refused));
        let refused = Err(ReadError::OtherUploader { name });
        assert_eq!(rig.gpu.read_buffer(&buffer, 0, &mut found), refused);
        let read = rig.gpu.reads().read_image(&picture.image, &ImagePart::default()).unwrap();
        assert_eq!(rig.gpu.reads().wait(&read).map(drop), refused);
        rig.gpu.wait(one.submit().unwrap()).unwrap();
        rig.gpu.read_buffer(&buffer, 0, &mut found).unwrap();
        assert!(found == pattern(round));
        other.update(&buffer, 64, &[1; 64]).unwrap();
        other.write_image(&picture.image, &write, &texels).unwrap();
        if round < 2 {
            rig.gpu.wait(other.submit().unwrap()).unwrap();
        } else {
            other.discard();
        }
    }
    let read = rig.gpu.reads().read_image(&picture.image, &ImagePart::default()).unwrap();
    assert!(rig.gpu.reads().wait(&read).unwrap() == texels);
    drop((buffer, picture, one, other, read));
    rig.finish();
}

#[test]
fn a_whole_image_is_written_after_the_box_that_was_streamed_to_it_on_the_queue_of_its_owner() {
    let mut uploader = UploaderDesc::default();
    uploader.image_queue = Some(TRANSFER);
    let rig = Rig::with(GpuDesc::default().with_uploader(uploader));
    let Picture { image, texels } = Picture::new(&rig, &AllocationOptions::new(MemoryUsage::GpuOnly));
    let (uploads, size) = (rig.gpu.uploads(), texels.concat().len());
    uploads.write_image(&image, &vec![1; size]).unwrap();
    rig.gpu.wait(uploads.submit().unwrap()).unwrap();
    for round in 0..4 {
        rig.device.pause_queues();
        let part = ImagePart::default().with_mip_levels(0..1).with_array_layers(0..1);
        let part = ImageWrite::new(part.with_region([8, 8, 0], [8, 8, 1]));
        uploads.with_handle(&UploadHandle::streamed()).write_image_part(&image, &part, &[2; 256]).unwrap();
        uploads.submit().unwrap();
        uploads.write_image(&image, &vec![3 + round; size]).unwrap();
        rig.device.resume_queues();
        let read = rig.gpu.reads().read_image(&image, &ImagePart::default()).unwrap();
        assert!(rig.gpu.reads().wait(&read).unwrap() == vec![3 + round; size], "{round}");
    }
    drop(image);
    rig.finish();
}

/// A queue of a family of its own, over which everything is uploaded here.
const TRANSFER: QueueIndex = QueueIndex(2);

const SIDE: u32 = 64;

/// Uploads over the transfer queue, through little staging memory, and moves everything that it may at each end of a frame.
fn over_transfer_queue() -> Rig {
    let mut uploader = UploaderDesc::default();
    (uploader.queue, uploader.image_queue) = (Some(TRANSFER), Some(TRANSFER));
    (uploader.staging, uploader.when_full) = (32 << 10, WhenFull::Wait(Duration::from_secs(60)));
    let mut allocator = AllocatorDesc::default();
    (allocator.block_sizes, allocator.empty_blocks, allocator.threads) =
        (BlockSizes::fixed(256 << 10), EmptyBlockPolicy::NONE, 1);
    let full = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
    let desc = GpuDesc::default().with_uploader(uploader).with_allocator(allocator);
    Rig::with(desc.with_defragmentation(full))
}

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Returns a handle for a write. No frame waits for half of them.
    fn handle(&mut self) -> UploadHandle {
        if self.below(2) == 0 { UploadHandle::streamed() } else { UploadHandle::new() }
    }

    fn bytes(&mut self, size: u64) -> Vec<u8> {
        let seed = self.below(251);
        (0..size).map(|at| (at % 241 + seed) as u8).collect()
    }
}

/// An exclusive image of two mip levels and two layers, and the texels that it has to have.
struct Picture {
    image: Image<SimulatedGpu>,
    texels: Vec<Vec<u8>>,
}

impl Picture {
    fn new(rig: &Rig, options: &AllocationOptions) -> Self {
        let desc = ImageDesc::new(SIDE, SIDE, 4).with_mip_levels(2).with_array_layers(2);
        let image = rig.gpu.create_image(&desc, options).unwrap();
        let level = |level: u32| vec![0; ((SIDE >> level) * (SIDE >> level) * 4) as usize];
        Self { image, texels: vec![level(0), level(1), level(0), level(1)] }
    }

    /// Writes all of it.
    fn write(&mut self, rig: &Rig, random: &mut Random) {
        for texels in &mut self.texels {
            *texels = random.bytes(texels.len() as u64);
        }
        let (uploads, handle) = (rig.gpu.uploads(), random.handle());
        uploads.with_handle(&handle).write_image(&self.image, &self.texels.concat()).unwrap();
    }

    /// Writes a level, or rows of one.
    fn write_rows(&mut self, rig: &Rig, random: &mut Random, rows: Range<u32>) {
        let (layer, level) = (random.below(2) as u32, random.below(2) as u32);
        write_rows(rig, &self.image, random, (layer, level, rows), &mut self.texels);
    }

    /// Reads all of it, on the queue to whose family it belongs.
    fn assert_holds(&self, rig: &Rig, what: impl core::fmt::Debug) {
        let read = rig.gpu.reads().read_image(&self.image, &ImagePart::default()).unwrap();
        assert!(rig.bytes(&read) == self.texels.concat(), "{what:?}");
    }
}

fn write_rows(
    rig: &Rig,
    image: &Image<SimulatedGpu>,
    random: &mut Random,
    (layer, level, rows): (u32, u32, Range<u32>),
    texels: &mut [Vec<u8>],
) {
    let side = SIDE >> level;
    let rows = rows.start >> level..rows.end >> level;
    let row = (side * 4) as usize;
    let bytes = random.bytes(u64::from(rows.end - rows.start) * row as u64);
    let part = ImagePart::default().with_mip_levels(level..level + 1).with_array_layers(layer..layer + 1);
    let part = part.with_region([0, rows.start, 0], [side, rows.end - rows.start, 1]);
    let handle = random.handle();
    rig.gpu.uploads().with_handle(&handle).write_image_part(image, &part.into(), &bytes).unwrap();
    texels[(layer * 2 + level) as usize][rows.start as usize * row..rows.end as usize * row]
        .copy_from_slice(&bytes);
}

#[test]
fn an_exclusive_buffer_lives_until_its_family_has_acquired_it() {
    let rig = over_transfer_queue();
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let buffer = exclusive(&rig, &options);
    rig.gpu.uploads().write_buffer(&buffer, 0, &pattern(1)).unwrap();
    // The family's queue waits for work that comes later, so the acquire is not executed yet.
    let later = TimelinePoint { queue: rig.other_queue(), value: TimelineValue(1) };
    // SAFETY: there is nothing in it.
    unsafe { rig.device.submit(QUEUE, &Submission { waits: &[later], ..Submission::default() }) }.unwrap();
    drop(buffer);
    let copied = rig.device.submitted(TRANSFER).0 + 1;
    rig.gpu.uploads().submit().unwrap();
    rig.gpu.wait(TimelinePoint { queue: TRANSFER, value: TimelineValue(copied) }).unwrap();
    assert_eq!(rig.gpu.reclaim().count, 0, "its bytes have arrived, and it is not acquired");
    assert_eq!(rig.device.usage().buffers, 2, "with the staging memory");
    // SAFETY: as above.
    unsafe { rig.device.submit(later.queue, &Submission::default()) }.unwrap();
    assert_eq!(rig.gpu.wait_idle().unwrap().count, 1);
    rig.finish();
}

#[test]
fn frames_wait_for_the_acquire_on_their_own_queue_and_for_nothing_else() {
    let rig = over_transfer_queue();
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let buffer = exclusive(&rig, &options);
    let frame = |number| {
        let frame = rig.gpu.begin_frame().unwrap();
        let submit = |queue, waits: &[TimelinePoint]| {
            // SAFETY: there is nothing in it.
            let value = unsafe { rig.device.submit(queue, &Submission { waits, ..Submission::default() }) };
            value.map(|value| (value, waits.len()))
        };
        let before = rig.device.submitted(QUEUE).0;
        let mut waited = 0;
        frame
            .submit(QUEUE, |queue, waits| {
                submit(queue, waits).map(|(value, count)| (waited = count, value).1)
            })
            .unwrap();
        frame.end().unwrap();
        (number, rig.device.submitted(QUEUE).0 - before, waited)
    };
    assert_eq!(frame(0), (0, 1, 0), "nothing was uploaded");
    rig.gpu.uploads().write_buffer(&buffer, 0, &pattern(1)).unwrap();
    assert_eq!(frame(1), (1, 2, 2), "the acquire, and the frame, which waits for both halves");
    assert_eq!(frame(2), (2, 1, 2), "nothing new");
    // What is shared is not handed over.
    let shared = rig.buffer(100);
    rig.gpu.uploads().write_buffer(&shared, 0, &[1; 100]).unwrap();
    assert_eq!(frame(3), (3, 1, 2));
    // Batches that submit themselves hand nothing over.
    let before = rig.device.submitted(QUEUE);
    for _ in 0..20 {
        rig.gpu.uploads().update_buffer(&buffer, 0, &pattern(2)).unwrap();
    }
    assert_eq!(rig.device.submitted(QUEUE), before);
    assert_eq!(frame(4), (4, 2, 2));
    drop((buffer, shared));
    rig.finish();
}

#[test]
fn an_acquire_that_a_queue_refuses_is_submitted_with_the_next_frame() {
    let rig = over_transfer_queue();
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let buffer = exclusive(&rig, &options);
    rig.gpu.uploads().write_buffer(&buffer, 0, &pattern(1)).unwrap();
    // The batch with the release is the first submission, the acquire the second.
    rig.device.fail_call(2, DeviceError::OutOfDeviceMemory);
    rig.gpu.uploads().submit().unwrap_err();
    // Other bytes, which may not come before the acquire.
    rig.gpu.uploads().write_buffer(&buffer, 100, &pattern(2)[..1000]).unwrap();
    rig.device.fail_call(1, DeviceError::OutOfDeviceMemory);
    rig.gpu.uploads().submit().unwrap_err();
    let mut found = vec![0; SIZE as usize];
    rig.gpu.read_buffer(&buffer, 0, &mut found).unwrap();
    let mut expected = pattern(1);
    expected[100..1100].copy_from_slice(&pattern(2)[..1000]);
    assert!(found == expected);
    drop(buffer);
    rig.finish();
}

/// Submits a frame without commands. Returns how many submissions it made on its queue, with hand-overs, and the points that it
/// waits for.
fn draw(rig: &Rig) -> (u64, Vec<TimelinePoint>) {
    let before = rig.device.submitted(QUEUE).0;
    let waited = rig.draw();
    (rig.device.submitted(QUEUE).0 - before, waited)
}

#[test]
fn frames_hand_over_what_was_streamed_once_it_is_there_and_wait_for_nothing() {
    let mut uploader = UploaderDesc::default();
    (uploader.queue, uploader.image_queue) = (Some(TRANSFER), Some(TRANSFER));
    (uploader.staging, uploader.when_full) = (32 << 10, WhenFull::Wait(Duration::from_secs(60)));
    let rig = Rig::with(GpuDesc::default().with_uploader(uploader));
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let buffer = exclusive(&rig, &options);
    let mut picture = Picture::new(&rig, &options);
    let mut random = Random(first_seed());
    picture.texels = (0..4).map(|at| random.bytes(u64::from(SIDE * SIDE * 4) >> (at % 2 * 2))).collect();
    let handle = UploadHandle::streamed();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let uploads = rig.gpu.uploads();
            uploads.with_handle(&handle).write_buffer(&buffer, 0, &pattern(3)).unwrap();
            // More than fits.
            uploads.with_handle(&handle).write_image(&picture.image, &picture.texels.concat()).unwrap();
        });
        // No frame waits, whatever is on its way.
        while !writer.is_finished() {
            let (_, waited) = draw(&rig);
            assert!(
                waited.iter().all(|point| point.queue == QUEUE),
                "{waited:?}: for what its own queue has acquired"
            );
        }
    });
    rig.gpu.wait(rig.gpu.tracker().submitted()).unwrap();
    rig.device.pause_queues();
    let more = UploadHandle::streamed();
    rig.gpu.uploads().with_handle(&more).update_buffer(&buffer, 0, &pattern(4)[..100]).unwrap();
    for _ in 0..2 {
        let frame = rig.gpu.begin_frame().unwrap();
        let submit = |queue, waits: &[TimelinePoint]| {
            assert_eq!(waits.iter().filter(|point| point.queue == TRANSFER).count(), 0);
            // SAFETY: there is nothing in it.
            unsafe { rig.device.submit(queue, &Submission { waits, ..Submission::default() }) }
        };
        frame.submit(QUEUE, submit).unwrap();
        assert!(!more.status().is_final());
        drop(frame);
    }
    rig.device.resume_queues();
    while more.status() != UploadStatus::Arrived || handle.status() != UploadStatus::Arrived {
        draw(&rig);
    }
    let (made, waited) = draw(&rig);
    assert!(made >= 1 && waited.iter().all(|point| point.queue == QUEUE), "{waited:?}");
    assert_eq!(draw(&rig).0, 1, "all is handed over");
    // By a copy of the program's own: nothing else hands it over now.
    let frame = rig.gpu.begin_frame().unwrap();
    let ticket = rig.read(&frame, (&buffer.handle(), 0), SIZE);
    frame.end().unwrap();
    let mut expected = pattern(3);
    expected[..100].copy_from_slice(&pattern(4)[..100]);
    assert!(rig.copied(&ticket) == expected);
    picture.assert_holds(&rig, "streamed");
    // One that is dropped on its way goes once it is handed over.
    rig.gpu.uploads().with_handle(&UploadHandle::streamed()).update_buffer(&buffer, 0, &pattern(5)).unwrap();
    drop((buffer, picture));
    rig.gpu.uploads().submit().unwrap();
    while rig.gpu.deletion_queue().statistics().pending > 0 {
        draw(&rig);
    }
    rig.finish();
}

/// Writes an image with a handle, in pieces, and reads it in the first frame that finds the handle arrived, by commands of the
/// program's own: the simulated device reports a read of what the queue's family has not acquired.
fn stream_and_read(rig: &Rig, random: &mut Random, others: bool) {
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let side = 32 << random.below(3);
    let desc = ImageDesc::new(side, side, 4).with_mip_levels(1 + random.below(4) as u32);
    let image = rig.gpu.create_image(&desc, &options).unwrap();
    let size: u64 = (0..desc.mip_levels).map(|level| u64::from(side >> level).pow(2) * 4).sum();
    let shared = rig.buffer(4096);
    let texels = random.bytes(size);
    let handle = UploadHandle::streamed();
    let (row, down) = (u64::from(side) * 4, rig.buffer(u64::from(side) * u64::from(side) * 4));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            if others {
                // Bytes of the same batches, for which frames wait.
                rig.gpu.uploads().write_buffer(&shared, 0, &pattern(1)).unwrap();
            }
            rig.gpu.uploads().with_handle(&handle).write_image(&image, &texels).unwrap();
        });
        let mut is_there = false;
        while !is_there {
            let frame = rig.gpu.begin_frame().unwrap();
            is_there = writer.is_finished() && handle.status() == UploadStatus::Arrived;
            let (from, to) = (image.handle(), down.handle());
            let copy = ImageCopy {
                buffer: &to,
                buffer_offset: 0,
                row_pitch: row,
                rows: side,
                image: &from,
                mip_level: 0,
                array_layer: 0,
                aspect: ImageAspect::Color,
                origin: [0; 3],
                extent: [side, side, 1],
                texels: rig.device.image_shape(&desc).texels,
                direction: CopyDirection::OutOfImage,
                before: Default::default(),
                after: Default::default(),
            };
            let copies = if is_there { vec![copy] } else { Vec::new() };
            let submit = |queue, waits: &[_]| {
                let work = Submission { waits, image_copies: &copies, ..Submission::default() };
                // SAFETY: the image and the buffer live on, and the box is in both.
                unsafe { rig.device.submit(queue, &work) }
            };
            frame.submit(QUEUE, submit).unwrap();
            frame.end().unwrap();
        }
    });
    let mut found = vec![0; (row * u64::from(side)) as usize];
    rig.gpu.read_buffer(&down, 0, &mut found).unwrap();
    assert!(found == texels[..found.len()], "{side}");
    drop((image, shared, down));
}

#[test]
fn an_image_is_handed_over_when_its_handle_says_that_it_has_arrived() {
    let mut uploader = UploaderDesc::default();
    (uploader.queue, uploader.image_queue) = (Some(TRANSFER), Some(TRANSFER));
    (uploader.staging, uploader.when_full) = (32 << 10, WhenFull::Wait(Duration::from_secs(60)));
    let rig = Rig::with(GpuDesc::default().with_uploader(uploader));
    let mut random = Random(first_seed());
    for round in 0..scaled(300) {
        stream_and_read(&rig, &mut random, round % 2 == 1);
    }
    rig.finish();
}

/// What a thread writes: resources of its own, and rows of an image that all of them write.
struct Writer<'a> {
    rig: &'a Rig,
    random: Random,
    options: [&'a AllocationOptions; 2],
    buffers: Vec<(Buffer<SimulatedGpu>, Vec<u8>)>,
    pictures: Vec<Picture>,
    shared: &'a Image<SimulatedGpu>,
    rows: Range<u32>,
    shared_texels: Vec<Vec<u8>>,
}

fn blank() -> Vec<Vec<u8>> {
    (0..4).map(|at| vec![0; (SIDE * SIDE * 4) as usize >> (at % 2 * 2)]).collect()
}

impl<'a> Writer<'a> {
    fn new(
        rig: &'a Rig,
        shared: &'a Image<SimulatedGpu>,
        options: [&'a AllocationOptions; 2],
        number: u32,
    ) -> Self {
        let mut random = Random(first_seed() + u64::from(number));
        let buffers = options.map(|options| {
            let buffer = exclusive(rig, options);
            rig.gpu.uploads().write_buffer(&buffer, 0, &pattern(1)).unwrap();
            (buffer, pattern(1))
        });
        let mut pictures = options.map(|options| Picture::new(rig, options));
        pictures.iter_mut().for_each(|it| it.write(rig, &mut random));
        let rows = number * 16..number * 16 + 16;
        let (buffers, pictures) = (buffers.into(), pictures.into());
        Self { rig, random, options, buffers, pictures, shared, rows, shared_texels: blank() }
    }

    fn write_shared(&mut self, layer: u32, level: u32) {
        let rows = (layer, level, self.rows.clone());
        write_rows(self.rig, self.shared, &mut self.random, rows, &mut self.shared_texels);
    }

    fn act(&mut self) {
        let (rig, random) = (self.rig, &mut self.random);
        let at = random.below(2) as usize;
        match random.below(8) {
            0 => self.pictures[at].write(rig, random),
            1 | 2 => {
                let first = random.below(u64::from(SIDE / 2)) as u32 * 2;
                let end = first + 2 + random.below(u64::from((SIDE - first) / 2)) as u32 * 2;
                self.pictures[at].write_rows(rig, random, first..end);
            }
            3 => self.pictures[at].write_rows(rig, random, 0..SIDE),
            4 => {
                let (layer, level) = (random.below(2) as u32, random.below(2) as u32);
                self.write_shared(layer, level);
            }
            5 => {
                // The one before goes while it may be on its way.
                let (buffer, bytes) = (exclusive(rig, self.options[at]), pattern(random.below(200) as u8));
                let handle = random.handle();
                rig.gpu.uploads().with_handle(&handle).write_buffer(&buffer, 0, &bytes).unwrap();
                self.buffers[at] = (buffer, bytes);
            }
            _ => {
                let offset = random.below(SIZE);
                let size = 1 + random.below(SIZE - offset);
                let bytes = random.bytes(size);
                let (buffer, expected) = &mut self.buffers[at];
                let handle = random.handle();
                rig.gpu.uploads().with_handle(&handle).update_buffer(buffer, offset, &bytes).unwrap();
                expected[offset as usize..(offset + size) as usize].copy_from_slice(&bytes);
            }
        }
    }
}

#[test]
fn exclusive_resources_hold_their_last_bytes_whatever_threads_frames_and_moves_do() {
    let rig = over_transfer_queue();
    let pinned = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("exclusive");
    let relocatable = pinned.clone().relocatable();
    let mut shared = Picture::new(&rig, &pinned);
    let (image, rig_of, options) = (&shared.image, &rig, [&pinned, &relocatable]);
    let writers: Vec<_> = thread::scope(|scope| {
        let write = move |number| {
            let mut writer = Writer::new(rig_of, image, options, number);
            (0..scaled(1500)).for_each(|_| writer.act());
            for (layer, level) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                writer.write_shared(layer, level);
            }
            writer
        };
        let threads: Vec<_> = (0..3).map(|number| scope.spawn(move || write(number))).collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            let frame = rig.gpu.begin_frame().unwrap();
            let submit = |queue, waits: &[_]| {
                // SAFETY: there is nothing in it.
                unsafe { rig.device.submit(queue, &Submission { waits, ..Submission::default() }) }
            };
            frame.submit(QUEUE, submit).unwrap();
            frame.end().unwrap();
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut texels = blank();
    for (layer, level) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        write_rows(&rig, &shared.image, &mut Random(9), (layer, level, 48..64), &mut texels);
    }
    for writer in &writers {
        for (at, (to, from)) in texels.iter_mut().zip(&writer.shared_texels).enumerate() {
            let row = (SIDE * 4) as usize >> (at % 2);
            let rows =
                (writer.rows.start as usize >> (at % 2)) * row..(writer.rows.end as usize >> (at % 2)) * row;
            to[rows.clone()].copy_from_slice(&from[rows]);
        }
        for (buffer, expected) in &writer.buffers {
            let mut found = vec![0; SIZE as usize];
            rig.gpu.read_buffer(buffer, 0, &mut found).unwrap();
            assert!(&found == expected, "a buffer");
        }
        writer.pictures.iter().for_each(|picture| picture.assert_holds(&rig, "a picture"));
    }
    drop(writers);
    shared.texels = texels;
    shared.assert_holds(&rig, "rows of all threads");
    drop(shared);
    rig.finish();
}

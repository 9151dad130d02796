//! Bytes that are uploaded arrive, whichever way they take.

use allotment::device::{
    BufferCopy, CopyDirection, ImageAspect, ImageCopy, ImageDesc, ImageDevice as _, ImagePart, ImageRegion,
    MemoryProperties, QueueDevice as _, QueueIndex, Submission, TexelBlock, TimelinePoint, TimelineValue,
};
use allotment::lifetime::{DeletionQueue, ManualTimelines, SubmissionTracker};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, Buffer, Dedicated, OwningAllocator};
use allotment::upload::{
    ImageWrite, ReadbackRing, RingDesc, RingError, UploadError, UploadPool, UploadPoolDesc, UploadRing,
    Uploader, UploaderDesc, WaitFor, WhenFull,
};
use allotment::{Alignment, MemoryUsage};

use super::allocator::KIB;
use super::stage::{FIRST, Stage};
use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, PATIENCE};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        what_is_initialized_arrives_in_every_memory,
        updates_of_the_same_bytes_arrive_in_their_order,
        small_writes_go_together_in_one_submission,
        more_bytes_than_staging_memory_go_in_pieces,
        a_full_uploader_that_may_not_wait_refuses_and_says_what_to_wait_for,
        a_target_that_is_dropped_before_its_bytes_go_does_no_harm,
        a_batch_waits_for_what_it_was_told,
        images_are_written_box_by_box,
        an_image_larger_than_staging_memory_goes_row_by_row,
        boxes_that_an_image_does_not_have_are_refused_and_all_others_are_written,
        bad_targets_and_ranges_are_refused_and_change_nothing,
        bytes_go_up_a_ring_and_come_back_down_another,
        bytes_come_after_those_of_the_same_buffer_that_are_on_their_way,
        any_number_of_small_updates_arrives_in_any_order,
        a_wait_for_what_cannot_be_is_refused_and_changes_nothing,
        what_is_discarded_does_not_arrive_and_keeps_nothing_alive,
        arenas_of_recordings_give_their_pages_to_the_next,
    ]
}

fn uploader<F: Fixture>(stage: &Stage<'_, F>, staging: u64, when_full: WhenFull) -> Uploader<F::Device> {
    let mut desc = UploaderDesc::default();
    (desc.staging, desc.when_full) = (staging, when_full);
    Uploader::new(&stage.memory, desc).unwrap()
}

fn waiting<F: Fixture>(stage: &Stage<'_, F>, staging: u64) -> Uploader<F::Device> {
    uploader(stage, staging, WhenFull::Wait(PATIENCE))
}

fn submit<F: Fixture>(stage: &Stage<'_, F>, uploader: &Uploader<F::Device>) {
    let there = uploader.submit().unwrap();
    stage.tracker.wait_all(&there, PATIENCE).unwrap();
    assert!(stage.tracker.are_reached(&there));
}

fn is_read_only<F: Fixture>(stage: &Stage<'_, F>, buffer: &Buffer<F::Device>) -> bool {
    let place = buffer.location();
    stage.gpu.has(place.memory_type, MemoryProperties::DEVICE_READ_ONLY)
}

fn what_is_initialized_arrives_in_every_memory<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 256 * KIB);
    for memory_usage in MemoryUsage::ALL {
        let buffer = stage.buffer(100_003, memory_usage);
        let mut expected = pattern(1, 100_003);
        uploader.initialize(&buffer, 0, &expected).unwrap();
        submit(&stage, &uploader);
        for (offset, size) in [(99_999, 4), (1, 66_000), (65_535, 2), (50_000, 0)] {
            let part = pattern(offset, size);
            match uploader.update(&buffer, offset, &part) {
                Err(UploadError::ReadOnly { .. }) => {
                    assert!(is_read_only(&stage, &buffer), "{memory_usage}");
                    uploader.initialize(&buffer, offset, &part).unwrap();
                }
                written => written.unwrap(),
            }
            expected[offset as usize..][..size as usize].copy_from_slice(&part);
        }
        submit(&stage, &uploader);
        stage.assert_holds(&buffer, &expected, memory_usage);
    }
    let statistics = uploader.statistics();
    assert!(statistics.staged_bytes >= 66_006, "updates are staged: {statistics:?}");
}

fn updates_of_the_same_bytes_arrive_in_their_order<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 1 << 20);
    let buffer = stage.buffer(4096, MemoryUsage::GpuOnly);
    let mut expected = pattern(0, 4096);
    uploader.update(&buffer, 0, &expected).unwrap();
    for i in 0..200 {
        let (offset, size) = ((i * 997) % 3000, 1 + (i * 31) % 1000);
        let part = pattern(i, size);
        uploader.update(&buffer, offset, &part).unwrap();
        expected[offset as usize..][..size as usize].copy_from_slice(&part);
    }
    submit(&stage, &uploader);
    stage.assert_holds(&buffer, &expected, "the last update of each byte");
}

fn small_writes_go_together_in_one_submission<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 1 << 20);
    let buffers: Vec<_> = (0..20).map(|_| stage.buffer(1000, MemoryUsage::GpuOnly)).collect();
    for (i, buffer) in (0..).zip(&buffers) {
        // Not in the order of their places.
        for part in [3, 1, 4, 0, 2] {
            uploader.update(buffer, part * 200, &pattern(i + part, 200)).unwrap();
        }
    }
    assert_eq!(uploader.statistics().submissions, 0);
    submit(&stage, &uploader);
    assert_eq!((uploader.statistics().submissions, uploader.statistics().copies), (1, 100));
    for (i, buffer) in (0..).zip(&buffers) {
        let expected: Vec<u8> = (0..5).flat_map(|part| pattern(i + part, 200)).collect();
        stage.assert_holds(buffer, &expected, i);
    }
}

fn more_bytes_than_staging_memory_go_in_pieces<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 64 * KIB);
    let buffer = stage.buffer(700_001, MemoryUsage::GpuOnly);
    let bytes = pattern(1, 700_001);
    uploader.update(&buffer, 0, &bytes).unwrap();
    submit(&stage, &uploader);
    stage.assert_holds(&buffer, &bytes, "all pieces");
    assert!(uploader.statistics().submissions >= 700_001 / (64 * KIB));
}

fn a_full_uploader_that_may_not_wait_refuses_and_says_what_to_wait_for<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = uploader(&stage, 64 * KIB, WhenFull::Refuse);
    let buffer = stage.buffer(100_000, MemoryUsage::GpuOnly);
    let (first, second) = (pattern(1, 40_000), pattern(2, 40_000));
    uploader.update(&buffer, 0, &first).unwrap();
    let refused = uploader.update(&buffer, 50_000, &second);
    let wait = WaitFor::Submission;
    assert!(
        matches!(refused, Err(UploadError::Full { source: RingError::FullForNow { wait: found, .. }, .. }) if found == wait),
        "{refused:?}"
    );
    let large = uploader.update(&buffer, 0, &pattern(3, 66_000));
    assert!(matches!(large, Err(UploadError::Full { source: RingError::NeverFits { .. }, .. })), "{large:?}");
    let there = uploader.submit().unwrap();
    match uploader.update(&buffer, 50_000, &second) {
        Err(UploadError::Full {
            source: RingError::FullForNow { wait: WaitFor::Point(point), .. }, ..
        }) => {
            assert!(there.points().any(|there| there == point));
            stage.wait(point);
            uploader.update(&buffer, 50_000, &second).unwrap();
        }
        written => written.unwrap(),
    }
    submit(&stage, &uploader);
    let mut expected = vec![0; 90_000];
    let mut transfer = allotment::memory::Transfer::new(stage.memory.allocator(), FIRST, 64 * KIB).unwrap();
    buffer.with_raw(|raw| transfer.download_from(raw, 0, &mut expected)).unwrap();
    assert_same(&expected[..40_000], &first, "before");
    assert_same(&expected[50_000..], &second, "after");
}

fn a_target_that_is_dropped_before_its_bytes_go_does_no_harm<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 1 << 20);
    let kept = stage.buffer(5000, MemoryUsage::GpuOnly);
    uploader.update(&kept, 0, &pattern(1, 5000)).unwrap();
    for i in 0..20 {
        let gone = stage.buffer(5000, MemoryUsage::GpuOnly);
        uploader.update(&gone, 0, &pattern(i, 5000)).unwrap();
        drop(gone);
        assert_eq!(stage.deletion_queue.reclaim().count, 0, "its bytes have not gone");
    }
    submit(&stage, &uploader);
    assert_eq!(stage.deletion_queue.reclaim().count, 20);
    stage.assert_holds(&kept, &pattern(1, 5000), "what was not dropped");
    // One that is never submitted holds nothing when the uploader goes.
    let gone = stage.buffer(5000, MemoryUsage::GpuOnly);
    uploader.update(&gone, 0, &pattern(1, 5000)).unwrap();
    drop((gone, uploader));
    assert_eq!(stage.deletion_queue.reclaim().count, 1);
}

fn a_batch_waits_for_what_it_was_told<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    if gpu.queues().count() < 2 {
        return Outcome::DoesNotApply("the device has one queue");
    }
    let stage = Stage::new(gpu);
    let mut desc = UploaderDesc::default();
    (desc.staging, desc.queue) = (1 << 20, Some(QueueIndex(1)));
    let uploader = Uploader::new(&stage.memory, desc).unwrap();
    let buffer = stage.buffer(500_000, MemoryUsage::GpuOnly);
    let mut old = pattern(0, 500_000);
    uploader.update(&buffer, 0, &old).unwrap();
    submit(&stage, &uploader);
    for round in 1..10 {
        let target = stage.buffer(500_000, MemoryUsage::Readback);
        let recording = stage.tracker.record("reads the old bytes");
        let point = stage.submit_copy(FIRST, recording, &[], [&buffer.handle(), &target.handle()], 500_000);
        uploader.wait_for(point).unwrap();
        let new = pattern(round, 500_000);
        uploader.update(&buffer, 0, &new).unwrap();
        submit(&stage, &uploader);
        stage.assert_holds(&target, &old, round);
        stage.assert_holds(&buffer, &new, round);
        old = new;
    }
    Outcome::Ran
}

const TEXEL: TexelBlock = TexelBlock::new(4);

/// Writes an image of this extent in two boxes, one above the other, and compares what comes back.
fn write_an_image<F: Fixture>(gpu: &Gpu<F>, [width, height]: [u32; 2], staging: u64) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, staging);
    let info = ImageDesc::new(width, height, gpu.fixture().image_format());
    // In memory of its own: see the tests of whole textures.
    let desc = MemoryUsage::GpuOnly.with_name("image").with_dedicated(Dedicated::Always);
    let image = stage.memory.create_image(&info.into(), &desc).unwrap();
    let states = gpu.fixture().image_states();
    let state = states[0];
    // Another one, where the device has more: so a box that takes several copies finds the image in one state, and its later
    // copies find it in another.
    let between = states[states.len() - 1];
    let row = TEXEL.row_bytes(width) as usize;
    let bytes = pattern(1, row as u64 * u64::from(height));
    let upper = height / 3;
    for (first, rows, after) in [(0, upper, between), (upper, height - upper, state)] {
        let part = ImagePart::default().with_region([0, first, 0], [width, rows, 1]);
        let write = ImageWrite::new(part).with_after(after);
        let part = &bytes[first as usize * row..][..rows as usize * row];
        let found = part.len() as u64 - 1;
        let refused = uploader.write_image(&image, &write, &part[1..]);
        let (wanted, ends_in, name) = (part.len() as u64, Some([0, 0]), ShortName::new("image"));
        assert_eq!(refused, Err(UploadError::Size { wanted, found, ends_in, name }));
        uploader.write_image(&image, &write, part).unwrap();
    }
    submit(&stage, &uploader);

    let pitch = TEXEL.row_pitch(width, &gpu.properties().limits);
    let back = stage.buffer(pitch * u64::from(height), MemoryUsage::Readback);
    let copies = [ImageCopy {
        buffer: &back.handle(),
        buffer_offset: 0,
        row_pitch: pitch,
        rows: height,
        image: &image.handle(),
        mip_level: 0,
        array_layer: 0,
        origin: [0; 3],
        extent: [width, height, 1],
        aspect: ImageAspect::Color,
        texels: TEXEL.into(),
        direction: CopyDirection::OutOfImage,
        before: state,
        after: state,
    }];
    let work = Submission { image_copies: &copies, ..Submission::default() };
    let queue = uploader.queues()[1];
    let recording = stage.tracker.record("reads the image");
    // SAFETY: as above, and the buffer has room for all rows.
    let point = recording.submit(queue, |_| unsafe { gpu.device().submit(queue, &work) }).unwrap();
    stage.wait(point);
    let mut found = vec![0; (pitch * u64::from(height)) as usize];
    back.read(0, &mut found).unwrap();
    for (y, (found, expected)) in found.chunks(pitch as usize).zip(bytes.chunks(row)).enumerate() {
        assert_same(&found[..row], expected, y);
    }
}

fn images_are_written_box_by_box<F: Fixture>(gpu: &Gpu<F>) {
    // Rows that need padding where a device wants it, and rows that need none.
    for extent in [[61, 40], [64, 64], [3, 3], [1, 50]] {
        write_an_image(gpu, extent, 1 << 20);
    }
}

fn an_image_larger_than_staging_memory_goes_row_by_row<F: Fixture>(gpu: &Gpu<F>) {
    write_an_image(gpu, [300, 200], 64 * KIB);
}

/// Writes random boxes of random subresources, of which a part does not exist.
fn write_random_boxes<F: Fixture>(gpu: &Gpu<F>, desc: ImageDesc, texel: TexelBlock, seed: u64) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 1 << 20);
    let options = MemoryUsage::GpuOnly.with_name("image");
    let image = stage.memory.create_image(&desc.into(), &options).unwrap();
    let after = gpu.fixture().image_states()[0];
    let mut random = Random::new(seed);
    let mut written = [0; 2];
    for _ in 0..400 {
        let (mip_level, array_layer) = (
            random.below(u64::from(desc.mip_levels) + 1) as u32,
            random.below(u64::from(desc.array_layers) + 1) as u32,
        );
        let sides = [texel.width, texel.height, 1];
        let level = desc.extent.map(|side| (side >> mip_level).max(1));
        // Mostly whole blocks up to the end of the level, and one more now and then.
        let mut below = |end: u32| random.below(u64::from(end) + 1) as u32;
        let (mut origin, mut extent) = ([0; 3], [0; 3]);
        for axis in 0..3 {
            let [side, length] = [sides[axis], level[axis]];
            origin[axis] = below(length / side) * side;
            extent[axis] = match below(3) {
                0 => below(length),
                1 => length.saturating_sub(origin[axis]),
                2 => length.saturating_sub(origin[axis]) / side * side,
                _ => below(length / side + 1) * side,
            }
            .max(1);
        }
        let fits = (0..3).all(|axis| {
            let end = origin[axis] + extent[axis];
            end <= level[axis] && (end % sides[axis] == 0 || end == level[axis])
        });
        let fits = fits && mip_level < desc.mip_levels && array_layer < desc.array_layers;
        let region = ImageRegion { aspect: ImageAspect::Color, mip_level, array_layer, origin, extent };
        let write = ImageWrite::new(region.into()).with_after(after);
        let bytes = texel.row_bytes(extent[0]) * u64::from(texel.rows(extent[1])) * u64::from(extent[2]);
        let statistics = uploader.statistics();
        let done = uploader.write_image(&image, &write, &pattern(seed, bytes));
        written[usize::from(fits)] += 1;
        if fits {
            assert_eq!(done, Ok(()), "{write:?} of {desc:?}");
            if texel.width > 1 {
                // Of boxes of a compressed image in one submission, Debian 12's validation layer reports hazards, though
                // barriers are the same as for other formats.
                submit(&stage, &uploader);
            }
        } else {
            let refused = done.unwrap_err();
            assert!(matches!(refused, UploadError::ImageCopy { .. }), "{write:?} of {desc:?}: {refused:?}");
            assert_eq!(refused.name(), Some("image"));
            assert_eq!(uploader.statistics(), statistics);
        }
    }
    assert!(written.iter().all(|&count| count > 20), "{written:?}");
    submit(&stage, &uploader);
}

fn boxes_that_an_image_does_not_have_are_refused_and_all_others_are_written<F: Fixture>(gpu: &Gpu<F>) {
    let format = gpu.fixture().image_format();
    let flat = ImageDesc::new(20, 13, format).with_mip_levels(5).with_array_layers(3);
    let mut deep = ImageDesc::new(9, 8, format).with_mip_levels(3);
    deep.extent[2] = 5;
    write_random_boxes(gpu, flat, TEXEL, 1);
    write_random_boxes(gpu, deep, TEXEL, 2);
    let Some((format, block)) = gpu.fixture().compressed_format() else { return };
    let blocks = ImageDesc::new(52, 20, format).with_mip_levels(6).with_array_layers(2);
    if gpu.device().image_requirements(&blocks.into()).is_ok() {
        write_random_boxes(gpu, blocks, block, 3);
    }
}

fn bad_targets_and_ranges_are_refused_and_change_nothing<F: Fixture>(gpu: &Gpu<F>) {
    let (stage, other) = (Stage::new(gpu), Stage::new(gpu));
    let uploader = waiting(&stage, 64 * KIB);
    let buffer = stage.buffer(1000, MemoryUsage::GpuOnly);
    for (offset, size) in [(0, 1001), (1000, 1), (999, 2), (u64::MAX, 1), (u64::MAX - 3, 8)] {
        let bytes = pattern(0, size);
        let refused = Err(UploadError::Access(AccessError::OutOfRange {
            offset,
            size,
            available: 1000,
            name: ShortName::new("of the test"),
        }));
        assert_eq!(uploader.update(&buffer, offset, &bytes), refused);
        assert_eq!(uploader.initialize(&buffer, offset, &bytes), refused);
    }
    let foreign = other.buffer(1000, MemoryUsage::GpuOnly);
    let refused = Err(UploadError::WrongTracker { name: ShortName::new("of the test") });
    assert_eq!(uploader.update(&foreign, 0, &[1]), refused);
    assert_eq!(uploader.initialize(&foreign, 0, &[1]), refused);
    assert_eq!(uploader.statistics(), Default::default());
    let mut desc = UploaderDesc::default();
    desc.queue = Some(QueueIndex(200));
    assert!(matches!(
        Uploader::new(&stage.memory, desc),
        Err(UploadError::NoSuchQueue { queue: QueueIndex(200) })
    ));
    let others = SubmissionTracker::new(ManualTimelines::new(1)).unwrap();
    let elsewhere = OwningAllocator::new(stage.memory.allocator(), &DeletionQueue::new(&others)).unwrap();
    let foreign = Uploader::new(&elsewhere, UploaderDesc::default());
    assert!(matches!(foreign, Err(UploadError::WrongDevice)), "{foreign:?}");
}

fn bytes_come_after_those_of_the_same_buffer_that_are_on_their_way<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 1 << 20);
    for memory_usage in MemoryUsage::ALL {
        let buffer = stage.buffer(4096, memory_usage);
        if is_read_only(&stage, &buffer) {
            continue;
        }
        for submitted in [false, true] {
            uploader.update(&buffer, 0, &pattern(1, 4096)).unwrap();
            if submitted {
                uploader.submit().unwrap();
            }
            uploader.initialize(&buffer, 1000, &pattern(2, 2000)).unwrap();
            submit(&stage, &uploader);
            let mut expected = pattern(1, 4096);
            expected[1000..3000].copy_from_slice(&pattern(2, 2000));
            stage.assert_holds(&buffer, &expected, (memory_usage, submitted));
        }
    }
}

fn any_number_of_small_updates_arrives_in_any_order<F: Fixture>(gpu: &Gpu<F>) {
    const COUNT: u64 = 3000;
    let stage = Stage::new(gpu);
    let buffer = stage.buffer(COUNT * 64, MemoryUsage::GpuOnly);
    let place = |order, i| match order {
        0 => i,
        1 => COUNT - 1 - i,
        _ => (i * 1009) % COUNT,
    };
    for order in 0..3 {
        let uploader = waiting(&stage, 1 << 20);
        let bytes = pattern(order, COUNT * 64);
        for i in 0..COUNT {
            let at = place(order, i) * 64;
            uploader.update(&buffer, at, &bytes[at as usize..][..64]).unwrap();
        }
        submit(&stage, &uploader);
        stage.assert_holds(&buffer, &bytes, order);
        let statistics = uploader.statistics();
        assert!(order != 0 || statistics.copies <= statistics.submissions * 2, "neighbours go together");
    }
}

fn a_wait_for_what_cannot_be_is_refused_and_changes_nothing<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 1 << 20);
    let buffer = stage.buffer(1000, MemoryUsage::GpuOnly);
    let queue = QueueIndex(200);
    let point = TimelinePoint { queue, value: TimelineValue(1) };
    assert_eq!(uploader.wait_for(point), Err(UploadError::NoSuchQueue { queue }));
    for queue in gpu.queues() {
        let point = TimelinePoint { queue, value: TimelineValue(u64::MAX) };
        assert_eq!(uploader.wait_for(point), Err(UploadError::NotSubmitted { point }));
    }
    uploader.update(&buffer, 0, &pattern(1, 1000)).unwrap();
    submit(&stage, &uploader);
    stage.assert_holds(&buffer, &pattern(1, 1000), "as if it had not been requested");
}

fn what_is_discarded_does_not_arrive_and_keeps_nothing_alive<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let uploader = waiting(&stage, 1 << 20);
    let (kept, gone) = (stage.buffer(5000, MemoryUsage::GpuOnly), stage.buffer(5000, MemoryUsage::GpuOnly));
    uploader.update(&kept, 0, &pattern(1, 5000)).unwrap();
    submit(&stage, &uploader);
    uploader.update(&kept, 0, &pattern(2, 4000)).unwrap();
    uploader.update(&gone, 0, &pattern(3, 5000)).unwrap();
    drop(gone);
    assert_eq!(uploader.statistics().open_bytes, 9000);
    assert_eq!(stage.deletion_queue.reclaim().count, 0);
    uploader.discard();
    assert_eq!(uploader.statistics().open_bytes, 0);
    assert_eq!(stage.deletion_queue.reclaim().count, 1);
    uploader.update(&kept, 4500, &pattern(4, 500)).unwrap();
    submit(&stage, &uploader);
    let statistics = uploader.statistics();
    assert_eq!((statistics.batches_in_flight, statistics.bytes_in_flight), (0, 0));
    let mut expected = pattern(1, 5000);
    expected[4500..].copy_from_slice(&pattern(4, 500));
    stage.assert_holds(&kept, &expected, "nothing of what was discarded");
}

fn bytes_go_up_a_ring_and_come_back_down_another<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let allocator = stage.memory.allocator();
    let mut up = UploadRing::new(allocator, &stage.tracker, &RingDesc::upload(64 * KIB)).unwrap();
    let mut down = ReadbackRing::new(allocator, &stage.tracker, &RingDesc::readback(64 * KIB)).unwrap();
    let mut pending = std::collections::VecDeque::new();
    for frame in 0..40 {
        let size = 5000 + frame * 101;
        let bytes = pattern(frame, size);
        let mut slice = loop {
            // Twice, for the borrow checker: a slice is returned by one arm only.
            match up.allocate(size, Alignment::ONE) {
                Ok(_) => up.discard(),
                Err(RingError::FullForNow { wait: WaitFor::Point(point), .. }) => {
                    stage.wait(point);
                    continue;
                }
                Err(error) => panic!("{error}"),
            }
            break up.allocate(size, Alignment::ONE).unwrap();
        };
        slice.write(0, &bytes).unwrap();
        let from_offset = slice.offset();
        while pending.len() >= 3 {
            let (ticket, point, expected): (_, _, Vec<u8>) = pending.pop_front().unwrap();
            stage.wait(point);
            let mut found = vec![0; expected.len()];
            down.read(&ticket, &mut found).unwrap();
            assert_same(&found, &expected, frame);
        }
        let ticket = down.allocate(size, Alignment::ONE).unwrap();
        let copies = [BufferCopy {
            from: up.buffer(),
            from_offset,
            to: down.buffer(),
            to_offset: ticket.offset(),
            size,
        }];
        let work = Submission { copies: &copies, ..Submission::default() };
        let recording = stage.tracker.record("a frame");
        // SAFETY: both ranges lie in the rings, which wait for their queues when they go.
        let point = recording.submit(FIRST, |queue| unsafe { gpu.device().submit(queue, &work) }).unwrap();
        up.close(point);
        down.close(point);
        pending.push_back((ticket, point, bytes));
    }
}

fn arenas_of_recordings_give_their_pages_to_the_next<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let mut desc = UploadPoolDesc::default();
    (desc.page_size, desc.kept_bytes) = (64 * KIB, 256 * KIB);
    let pool = UploadPool::new(stage.memory.allocator(), &stage.tracker, desc).unwrap();
    let mut targets = Vec::new();
    for frame in 0..30 {
        let recording = stage.tracker.record("a frame");
        let mut arena = pool.arena(recording.id());
        let bytes = pattern(frame, 50_000);
        let mut slice = arena.allocate(50_000, Alignment::ONE).unwrap();
        slice.write(0, &bytes).unwrap();
        let (from, from_offset) = (slice.buffer().clone(), slice.offset());
        let target = stage.buffer(50_000, MemoryUsage::Readback);
        // Before its recording is submitted: it makes no difference.
        drop(arena);
        let copies =
            [BufferCopy { from: &from, from_offset, to: &target.handle(), to_offset: 0, size: 50_000 }];
        let work = Submission { copies: &copies, ..Submission::default() };
        // SAFETY: the page is released with the recording; the target is kept by the test.
        let point = recording.submit(FIRST, |queue| unsafe { gpu.device().submit(queue, &work) }).unwrap();
        if frame % 3 == 2 {
            stage.wait(point);
        }
        targets.push((target, bytes));
    }
    stage.wait_idle();
    for (i, (target, bytes)) in targets.iter().enumerate() {
        stage.assert_holds(target, bytes, i);
    }
    assert!(pool.statistics().made <= 4, "three frames in flight, and one being made");
}

//! Pieces of a buffer whose memory grows and shrinks page by page, against a shadow that knows what each piece holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, DeviceError};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::{
    AccessError, AllocationError, BufferPiece, ExpandableBuffer, PoolDesc, ResourceError,
};
use allotment::{Alignment, AllocationOptions, MemoryUsage};

use crate::amount::{first_seed, scaled};
use crate::rig::Rig;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 2 * MIB;
/// Of the bytes that are written at each end of a piece.
const END: u64 = 48;

type Piece = BufferPiece<SimulatedGpu>;

fn options() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("tensors")
}

fn aligned(alignment: u64) -> Alignment {
    Alignment::new(alignment).unwrap()
}

fn rig() -> Rig {
    Rig::on("discrete-large-bar", GpuDesc::default())
}

fn expandable(gpu: &Gpu<SimulatedGpu>, addresses: u64) -> ExpandableBuffer<SimulatedGpu> {
    ExpandableBuffer::new(gpu.memory(), BufferDesc::new(addresses), options()).unwrap()
}

/// The parts of a piece that are written: both ends.
fn ends(piece: &Piece) -> [(u64, u64); 2] {
    let size = piece.size().min(END);
    [(piece.offset(), size), (piece.offset() + piece.size() - size, size)]
}

fn write(gpu: &Gpu<SimulatedGpu>, piece: &Piece, mark: u8) {
    for (offset, size) in ends(piece) {
        gpu.uploads().write_buffer(piece.buffer(), offset, &vec![mark; size as usize]).unwrap();
    }
}

fn check(gpu: &Gpu<SimulatedGpu>, piece: &Piece, mark: u8) {
    for (offset, size) in ends(piece) {
        let mut found = vec![0; size as usize];
        gpu.read_buffer(piece.buffer(), offset, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == mark), "{piece:?} lost its bytes");
    }
}

/// Lets the GPU finish, and takes back what was dropped.
fn settle(gpu: &Gpu<SimulatedGpu>) {
    gpu.wait_idle().unwrap();
    gpu.reclaim();
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Small ones mostly, and some of many pages.
    fn size(&mut self) -> u64 {
        let most = [300, 70_000, MIB, 3 * PAGE, 9 * PAGE][self.below(5) as usize];
        1 + self.below(most)
    }
}

#[test]
fn pieces_hold_their_bytes_whatever_is_created_dropped_trimmed_and_refused() {
    for seed in first_seed()..first_seed() + scaled(40) {
        play(seed);
    }
}

fn play(seed: u64) {
    const ADDRESSES: u64 = 200 * MIB;
    let (mut random, rig) = (Random(seed), rig());
    let (device, gpu) = (&rig.device, &rig.gpu);
    let whole = expandable(gpu, ADDRESSES);
    let mut live: BTreeMap<u64, (Piece, u8)> = BTreeMap::new();
    let mut refused = 0;
    for step in 0..150_u64 {
        match random.below(16) {
            0..=7 => {
                let (size, alignment) = (random.size(), 1 << random.below(18));
                let fails = random.below(4) == 0;
                if fails {
                    let errors = [DeviceError::OutOfDeviceMemory, DeviceError::OutOfHostMemory];
                    device.fail_call(1 + random.below(2), errors[random.below(2) as usize]);
                }
                let before = whole.statistics();
                let created = whole.create(size, aligned(alignment));
                device.clear_faults();
                match created {
                    Ok(piece) => {
                        let (start, end) = (piece.offset(), piece.offset() + size);
                        assert!(start % alignment == 0 && end <= ADDRESSES, "{piece:?}");
                        let below = live.range(..end).next_back();
                        let overlaps = below.is_some_and(|(at, (other, _))| at + other.size() > start);
                        assert!(!overlaps, "{piece:?} in step {step} of seed {seed}");
                        let mark = step as u8;
                        write(gpu, &piece, mark);
                        live.insert(start, (piece, mark));
                    }
                    Err(ResourceError::Allocation(AllocationError::NoAddresses { .. })) => {}
                    Err(error) => {
                        refused += 1;
                        assert!(fails && error.name() == Some("tensors"), "{error}");
                        // But for what the GPU was found to have finished with.
                        let after = whole.statistics();
                        assert_eq!(after.memory_bytes, before.memory_bytes);
                        assert!(after.pieces <= before.pieces && after.idle_bytes >= before.idle_bytes);
                    }
                }
            }
            8..=12 => {
                let nth = random.below(1 + live.len() as u64) as usize;
                if let Some(&at) = live.keys().nth(nth) {
                    live.remove(&at);
                }
            }
            13 => settle(gpu),
            14 => {
                let before = whole.statistics();
                if random.below(3) == 0 {
                    device.fail_call(1, DeviceError::OutOfDeviceMemory);
                }
                let freed = whole.trim().unwrap_or(0);
                device.clear_faults();
                let after = whole.statistics();
                assert_eq!(before.memory_bytes - after.memory_bytes, freed);
                assert_eq!(before.idle_bytes - after.idle_bytes, freed);
            }
            _ => live.values().for_each(|(piece, mark)| check(gpu, piece, *mark)),
        }
        let found = whole.statistics();
        let bytes: u64 = live.values().map(|(piece, _)| piece.size()).sum();
        assert!(found.bytes >= bytes && found.memory_bytes - found.idle_bytes >= bytes.min(1), "{found:?}");
        let needed: u64 =
            live.values().map(|(piece, _)| pages_of(piece)).sum::<u64>().min(found.memory_bytes);
        assert!(found.memory_bytes >= needed.min(bytes), "{found:?}");
    }
    live.values().for_each(|(piece, mark)| check(gpu, piece, *mark));
    drop(live);
    settle(gpu);
    whole.trim().unwrap();
    let end = whole.statistics();
    assert_eq!((end.pieces, end.memory_bytes, end.idle_bytes, end.allocations), (0, PAGE, PAGE, 1));
    drop(whole);
    settle(gpu);
    assert_eq!(own_allocations(gpu), 0, "seed {seed}");
    assert_eq!(device.validation_errors(), [""; 0], "seed {seed}, with {refused} refusals");
}

fn pages_of(piece: &Piece) -> u64 {
    let (start, end) = (piece.offset() / PAGE, (piece.offset() + piece.size()).div_ceil(PAGE));
    (end - start) * PAGE
}

/// Returns the allocations that the buffers of these tests have.
fn own_allocations(gpu: &Gpu<SimulatedGpu>) -> usize {
    let all = gpu.allocator().reports().allocations();
    all.iter().filter(|it| it.info.name.as_ref().is_some_and(|name| name.as_str() == "tensors")).count()
}

#[test]
fn a_hole_gives_its_memory_to_a_piece_that_does_not_fit_in_it() {
    let rig = rig();
    let whole = expandable(&rig.gpu, 1 << 30);
    let [first, second] = [10, 4].map(|mib| whole.create(mib * MIB, Alignment::ONE).unwrap());
    write(&rig.gpu, &second, 7);
    drop(first);
    settle(&rig.gpu);
    let calls = rig.device.usage().allocate_calls;
    let third = whole.create(11 * MIB, Alignment::ONE).unwrap();
    // The first page stays where it is, so 8 MiB of the 12 that are missing come from the hole.
    assert_eq!((third.offset(), whole.statistics().memory_bytes), (14 * MIB, 18 * MIB));
    assert_eq!(rig.device.usage().allocate_calls, calls + 1);
    write(&rig.gpu, &third, 8);
    check(&rig.gpu, &second, 7);
    check(&rig.gpu, &third, 8);
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn what_a_queue_still_uses_is_not_bound_elsewhere() {
    let rig = rig();
    let whole = expandable(&rig.gpu, 1 << 30);
    let first = whole.create(8 * MIB, Alignment::ONE).unwrap();
    rig.device.pause_queues();
    write(&rig.gpu, &first, 1);
    rig.gpu.uploads().submit().unwrap();
    drop(first);
    let second = whole.create(20 * MIB, Alignment::ONE).unwrap();
    assert_eq!((second.offset(), whole.statistics().memory_bytes), (8 * MIB, 28 * MIB));
    assert_eq!(whole.trim().unwrap(), 0);
    rig.device.resume_queues();
    settle(&rig.gpu);
    assert_eq!(whole.statistics().idle_bytes, 8 * MIB);
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn the_memory_lives_as_long_as_the_buffer_that_someone_keeps() {
    let rig = rig();
    let whole = expandable(&rig.gpu, 1 << 30);
    let piece = whole.create(8 * MIB, Alignment::ONE).unwrap();
    let (kept, offset) = (Arc::clone(piece.buffer()), piece.offset());
    drop((piece, whole));
    settle(&rig.gpu);
    let in_use = rig.device.usage().memory_bytes;
    let refused = rig.gpu.uploads().write_buffer(&kept, offset, &[3; 100]).unwrap_err();
    assert!(refused.to_string().contains("of no piece"), "{refused}");
    drop(kept);
    settle(&rig.gpu);
    assert!(rig.device.usage().memory_bytes <= in_use - 8 * MIB);
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn bytes_of_no_piece_are_neither_written_nor_read() {
    let rig = rig();
    let whole = expandable(&rig.gpu, 1 << 30);
    let piece = whole.create(3 * MIB, Alignment::ONE).unwrap();
    let refuse = |offset: u64, size: u64| {
        let mut bytes = vec![0; size as usize];
        let write = rig.gpu.uploads().write_buffer(whole.buffer(), offset, &bytes).unwrap_err();
        let update = rig.gpu.uploads().update_buffer(whole.buffer(), offset, &bytes).unwrap_err();
        let read = rig.gpu.read_buffer(whole.buffer(), offset, &mut bytes).unwrap_err();
        for refused in [write.to_string(), update.to_string(), read.to_string()] {
            assert!(refused.contains("tensors") && refused.contains("of no piece"), "{refused}");
        }
    };
    refuse(4 * MIB, 8);
    refuse(4 * MIB - 4, 8);
    refuse((1 << 30) - 8, 8);
    write(&rig.gpu, &piece, 1);
    settle(&rig.gpu);
    drop(piece);
    settle(&rig.gpu);
    // They have memory, which others may be given at any time.
    refuse(0, 8);
    refuse(2 * MIB, 8);
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn bytes_of_a_piece_that_was_dropped_are_refused_also_before_the_gpu_is_done_with_it() {
    let rig = rig();
    let gpu = &rig.gpu;
    let whole = expandable(gpu, 64 * MIB);
    let piece = whole.create(8 * MIB, Alignment::ONE).unwrap();
    let (buffer, at) = (Arc::clone(piece.buffer()), piece.offset() + 4 * MIB);
    gpu.uploads().write_buffer(&buffer, at, &[3; 100]).unwrap();
    settle(gpu);
    drop(piece);
    // The piece waits in the deletion queue for the recordings that were open when it was dropped, and for no later one.
    let refused = gpu.uploads().write_buffer(&buffer, at, &[4; 100]).unwrap_err();
    assert!(refused.to_string().contains("piece"), "{refused}");
    gpu.reclaim();
    assert!(whole.trim().unwrap() > 0);
    gpu.uploads().submit().unwrap();
    settle(gpu);
}

#[test]
fn what_is_taken_from_behind_a_piece_is_not_bound_there_again() {
    let rig = rig();
    let whole = expandable(&rig.gpu, 1 << 30);
    let create = |mib: u64| whole.create(mib * MIB, Alignment::ONE).unwrap();
    let first = create(400);
    let [second, third, fourth] = [6, 2, 2].map(create);
    drop(second);
    settle(&rig.gpu);
    whole.trim().unwrap();
    drop(third);
    settle(&rig.gpu);
    // At the second one's place, whose three pages have no memory. The third one's, behind it, is bound there.
    let fifth = create(6);
    assert_eq!(fifth.offset(), 400 * MIB);
    for (piece, mark) in [(&first, 1), (&fourth, 4), (&fifth, 5)] {
        write(&rig.gpu, piece, mark);
    }
    for (piece, mark) in [(&first, 1), (&fourth, 4), (&fifth, 5)] {
        check(&rig.gpu, piece, mark);
    }
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn the_cpu_reaches_no_memory_that_is_bound_by_ranges() {
    // All memory is host-visible there.
    let rig = Rig::on("integrated", GpuDesc::default());
    let whole = expandable(&rig.gpu, 1 << 30);
    let piece = whole.create(3 * MIB, Alignment::ONE).unwrap();
    let refused = piece.buffer().write(0, &[1]).unwrap_err();
    assert!(matches!(refused, AccessError::NotHostVisible { .. }), "{refused}");
    write(&rig.gpu, &piece, 5);
    check(&rig.gpu, &piece, 5);
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn refusals_say_what_is_missing() {
    let rig = rig();
    let whole = expandable(&rig.gpu, 16 * MIB);
    let piece = whole.create(10 * MIB, Alignment::ONE).unwrap();
    let refused = whole.create(7 * MIB, Alignment::ONE).unwrap_err();
    let ResourceError::Allocation(AllocationError::NoAddresses { requested, free, largest_free, .. }) =
        refused
    else {
        panic!("{refused}")
    };
    assert_eq!((requested, free, largest_free), (7 * MIB, 6 * MIB, 6 * MIB));
    let zero = whole.create(0, Alignment::ONE).unwrap_err();
    assert!(matches!(zero, ResourceError::Allocation(AllocationError::ZeroSize { .. })), "{zero}");
    drop(piece);

    let mut small = Profile::named("discrete-large-bar").unwrap();
    small.heaps.iter_mut().for_each(|heap| heap.size = 64 * MIB);
    let small = SimulatedGpu::new(small);
    let gpu = Gpu::new(small.clone(), GpuDesc::default()).unwrap();
    let whole = expandable(&gpu, 1 << 30);
    let calls = small.usage().allocate_calls;
    let refused = whole.create(65 * MIB, Alignment::ONE).unwrap_err();
    let ResourceError::Allocation(AllocationError::TooLargeForHeap { requested, heap_size, .. }) = refused
    else {
        panic!("{refused}")
    };
    assert_eq!((requested, heap_size), (65 * MIB, 64 * MIB));
    assert_eq!(small.usage().allocate_calls, calls, "nothing is allocated for it");

    // Pages that are larger than those of the library.
    let mut coarse = Profile::named("discrete-large-bar").unwrap();
    coarse.reserved_buffers = Some(aligned(2 * PAGE));
    let device = SimulatedGpu::new(coarse);
    let coarse = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let refused = ExpandableBuffer::new(coarse.memory(), BufferDesc::new(16 * MIB), options()).unwrap_err();
    assert!(matches!(refused, ResourceError::Device { source: DeviceError::Unsupported, .. }), "{refused}");
    assert_eq!((refused.name(), device.validation_errors()), (Some("tensors"), Vec::new()));

    let mut profile = Profile::named("discrete-large-bar").unwrap();
    profile.reserved_buffers = None;
    let without = Gpu::new(SimulatedGpu::new(profile), GpuDesc::default()).unwrap();
    let refused = ExpandableBuffer::new(without.memory(), BufferDesc::new(16 * MIB), options()).unwrap_err();
    assert!(matches!(refused, ResourceError::Device { source: DeviceError::Unsupported, .. }), "{refused}");
}

#[test]
fn a_device_that_was_lost_while_it_bound_memory_binds_no_more_and_keeps_what_it_was_about_to_bind() {
    let rig = rig();
    let whole = expandable(&rig.gpu, 1 << 30);
    let [first, second] = [6, 6].map(|mib| whole.create(mib * MIB, Alignment::ONE).unwrap());
    drop(first);
    settle(&rig.gpu);
    // The first call allocates memory, the second binds it.
    rig.device.fail_call(2, DeviceError::Lost);
    let lost = |refused: ResourceError| {
        let is_lost = matches!(refused, ResourceError::Device { source: DeviceError::Lost, .. });
        assert!(is_lost && refused.name() == Some("tensors"), "{refused}");
    };
    lost(whole.create(12 * MIB, Alignment::ONE).unwrap_err());
    rig.device.clear_faults();
    let left = rig.device.usage();
    lost(whole.create(12 * MIB, Alignment::ONE).unwrap_err());
    lost(whole.trim().unwrap_err());
    assert_eq!(rig.device.usage().bind_calls, left.bind_calls, "the driver is not asked again");
    // Where memory is known to be, pieces are as before.
    let third = whole.create(MIB, Alignment::ONE).unwrap();
    for (piece, mark) in [(&second, 2), (&third, 3)] {
        write(&rig.gpu, piece, mark);
        check(&rig.gpu, piece, mark);
    }
    drop((second, third, whole));
    settle(&rig.gpu);
    assert_eq!(own_allocations(&rig.gpu), 0);
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn a_pool_whose_memory_is_bound_is_not_reset() {
    let rig = rig();
    let found = rig.buffer(100).info().memory_type;
    let pool = rig.gpu.allocator().create_pool(PoolDesc::new([found])).unwrap();
    let options = options().with_pool(&pool);
    let whole = ExpandableBuffer::new(rig.gpu.memory(), BufferDesc::new(1 << 30), options).unwrap();
    let piece = whole.create(9 * MIB, Alignment::ONE).unwrap();
    let refused = rig.gpu.allocator().reset_pool(&pool).unwrap_err();
    assert!(matches!(refused, AllocationError::ResourcesInPool { .. }), "{refused}");
    write(&rig.gpu, &piece, 9);
    check(&rig.gpu, &piece, 9);
    drop((piece, whole));
    settle(&rig.gpu);
    rig.gpu.allocator().reset_pool(&pool).unwrap();
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let rig = rig();
    let before = rig.device.usage();
    for call in 1..=3 {
        // From then on all of them, since memory of another type would do.
        rig.device.fail_from(call, DeviceError::OutOfHostMemory);
        let refused =
            ExpandableBuffer::new(rig.gpu.memory(), BufferDesc::new(1 << 30), options()).unwrap_err();
        assert_eq!(refused.name(), Some("tensors"), "{refused}");
        rig.device.clear_faults();
        let after = rig.device.usage();
        assert_eq!((after.buffers, after.memory_bytes), (before.buffers, before.memory_bytes), "call {call}");
    }
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

#[test]
fn threads_share_pages_of_one_buffer() {
    let rig = rig();
    let whole = expandable(&rig.gpu, 1 << 30);
    thread::scope(|threads| {
        for seed in 0..4 {
            let (whole, gpu) = (whole.clone(), &rig.gpu);
            threads.spawn(move || {
                let (mut random, mut live) = (Random(seed), Vec::new());
                for step in 0..60 {
                    // A quarter of a page, so that threads meet in pages that are being bound.
                    let piece = whole.create(1 + random.below(PAGE / 2), Alignment::ONE).unwrap();
                    let mark = (seed * 60 + step) as u8;
                    write(gpu, &piece, mark);
                    live.push((piece, mark));
                    if random.below(3) == 0 {
                        let (piece, mark) = live.swap_remove(random.below(live.len() as u64) as usize);
                        check(gpu, &piece, mark);
                    }
                    if random.below(20) == 0 {
                        whole.trim().unwrap();
                    }
                }
                live.iter().for_each(|(piece, mark)| check(gpu, piece, *mark));
            });
        }
    });
    settle(&rig.gpu);
    whole.trim().unwrap();
    assert_eq!(whole.statistics().memory_bytes, PAGE);
    assert_eq!(rig.device.validation_errors(), [""; 0]);
}

//! `allotment::gpu::Gpu` and its frames, over any device.

use allotment::device::{
    AddressError, BufferCopy, BufferDesc, BufferDevice as _, Device, DeviceError, QueueDevice as _,
    Submission,
};
use allotment::gpu::GpuDesc;
use allotment::memory::{AccessError, Buffer, BufferPiece, BufferPieces, ExpandableBuffer, ResourceError};
use allotment::{Alignment, AllocationError, AllocationOptions, MemoryUsage};

use super::stage::FIRST;
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

const SIZE: u64 = 1000;

/// Frames: more than are in flight, so that memory of the first ones is used again.
const FRAMES: u64 = 12;

type Front<F> = allotment::Gpu<<F as Fixture>::Device>;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        bytes_that_a_gpu_uploads_without_a_frame_are_read_back,
        buffers_have_an_address_of_their_own_or_say_why_not,
        frames_read_their_own_bytes_and_those_that_were_uploaded_before,
        pieces_of_a_buffer_hold_their_own_bytes,
        a_piece_is_nobody_elses_while_a_recording_may_use_it,
        pieces_keep_their_bytes_while_memory_is_bound_elsewhere,
    ]
}

fn buffer<F: Fixture>(front: &Front<F>, size: u64) -> Buffer<F::Device> {
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("of the test");
    front.create_buffer(&BufferDesc::new(size).into(), &options).unwrap()
}

fn bytes_that_a_gpu_uploads_without_a_frame_are_read_back<F: Fixture>(gpu: &Gpu<F>) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let target = buffer::<F>(&front, SIZE);
    front.uploads().write_buffer(&target, 0, &pattern(1, SIZE)).unwrap();
    let mut found = vec![0; SIZE as usize];
    front.read_buffer(&target, 0, &mut found).unwrap();
    assert_same(&found, &pattern(1, SIZE), "uploaded");
    drop(target);
    front.wait_idle().unwrap();
    assert_eq!(front.deletion_queue().statistics().pending, 0);
}

fn buffers_have_an_address_of_their_own_or_say_why_not<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let create = |usage, options: &AllocationOptions| {
        front.create_buffer(&BufferDesc::new(SIZE).with_usage(usage).into(), options).unwrap()
    };
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("mesh");
    if let Some(usage) = gpu.fixture().no_address_usage() {
        let refused = create(usage, &options).device_address().unwrap_err();
        let AccessError::NoAddress { reason, .. } = refused else { panic!("{refused}") };
        assert_eq!(refused.name(), Some("mesh"));
        match reason {
            AddressError::MissingUsage => {}
            AddressError::NotEnabled => {
                let described = BufferDesc::new(SIZE).with_usage(gpu.fixture().address_usage());
                let refused = front.create_buffer(&described.into(), &options).unwrap_err();
                assert!(refused.to_string().contains("usage flags"), "{refused}");
                front.wait_idle().unwrap();
                return Outcome::DoesNotApply("bufferDeviceAddress is not enabled");
            }
            other => panic!("{other}"),
        }
    }
    let usage = gpu.fixture().address_usage();
    let upload = AllocationOptions::new(MemoryUsage::Upload).with_name("upload");
    let all = [&options, &options, &options.clone().relocatable(), &upload].map(|it| create(usage, it));
    let mut addresses: Vec<_> = all.iter().map(|buffer| buffer.device_address().unwrap()).collect();
    assert!(all.iter().zip(&addresses).all(|(buffer, &address)| buffer.device_address() == Ok(address)));
    let desc = BufferDesc::new(SIZE).with_usage(usage);
    let mapped = front.create_mapped_buffer(&desc.into(), &upload).unwrap();
    addresses.push(mapped.device_address().unwrap());
    addresses.sort_unstable();
    assert!(addresses[0] > 0 && addresses.windows(2).all(|pair| pair[1] - pair[0] >= SIZE), "{addresses:x?}");
    drop((all, mapped));
    front.wait_idle().unwrap();
    Outcome::Ran
}

fn frames_read_their_own_bytes_and_those_that_were_uploaded_before<F: Fixture>(gpu: &Gpu<F>) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let results = buffer::<F>(&front, 2 * SIZE * FRAMES);
    for number in 0..FRAMES {
        let frame = front.begin_frame().unwrap();
        let mesh = buffer::<F>(&front, SIZE);
        front.uploads().write_buffer(&mesh, 0, &pattern(number, SIZE)).unwrap();
        let upload = frame.upload(pattern(number + 100, SIZE)).unwrap();
        let (from, to) = (&mesh.handle(), &results.handle());
        let (own, own_offset) = (&upload.buffer, upload.offset);
        let to_offset = 2 * SIZE * number;
        let copies = [
            BufferCopy { from, from_offset: 0, to, to_offset, size: SIZE },
            BufferCopy { from: own, from_offset: own_offset, to, to_offset: to_offset + SIZE, size: SIZE },
        ];
        let submit = |queue, waits: &[_]| {
            // SAFETY: the ranges lie in the buffers, which are alive until the frame's submission has completed.
            unsafe {
                gpu.device().submit(queue, &Submission { waits, copies: &copies, ..Submission::default() })
            }
        };
        frame.submit(FIRST, submit).unwrap();
        drop(mesh);
        frame.end().unwrap();
    }
    let mut found = vec![0; (2 * SIZE * FRAMES) as usize];
    front.read_buffer(&results, 0, &mut found).unwrap();
    for (number, found) in (0..).zip(found.chunks(2 * SIZE as usize)) {
        let (uploaded, own) = found.split_at(SIZE as usize);
        assert_same(uploaded, &pattern(number, SIZE), "uploaded");
        assert_same(own, &pattern(number + 100, SIZE), "of the frame");
    }
    drop(results);
    front.wait_idle().unwrap();
    assert_eq!(front.deletion_queue().statistics().pending, 0);
}

/// Returns what pieces are whole multiples of: a flush of one leaves its neighbours alone.
fn atom<D: Device>(device: &D) -> u64 {
    let properties = device.properties();
    let needs_flush = properties.memory_types.iter().any(|it| it.properties.needs_flush());
    if needs_flush { properties.limits.non_coherent_atom_size.get() } else { 1 }
}

/// Pieces of buffers of 16 units, and a unit: 256 bytes or an atom.
fn pieces<F: Fixture>(front: &Front<F>) -> (BufferPieces<F::Device>, u64) {
    let unit = atom(front.device()).max(256);
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("of pieces");
    (BufferPieces::new(front.memory(), BufferDesc::new(16 * unit), options), unit)
}

fn pieces_of_a_buffer_hold_their_own_bytes<F: Fixture>(gpu: &Gpu<F>) {
    const BYTES: u64 = 100;
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let (pieces, unit) = pieces::<F>(&front);
    let (page, each) = (16 * unit, BYTES.next_multiple_of(atom(front.device())));
    let refused = pieces.create(0, Alignment::ONE).unwrap_err();
    assert!(matches!(refused, ResourceError::Allocation(AllocationError::ZeroSize { .. })), "{refused}");
    assert_eq!(refused.name(), Some("of pieces"));

    let aligned = Alignment::new(unit).unwrap();
    let create = |seed: u64| {
        let piece = pieces.create(BYTES, aligned).unwrap();
        assert_eq!((piece.size(), piece.offset() % unit), (BYTES, 0));
        front.uploads().write_buffer(piece.buffer(), piece.offset(), &pattern(seed, BYTES)).unwrap();
        (seed, piece)
    };
    let check = |all: &[(u64, BufferPiece<F::Device>)]| {
        for (seed, piece) in all {
            let mut found = vec![0; BYTES as usize];
            front.read_buffer(piece.buffer(), piece.offset(), &mut found).unwrap();
            assert_same(&found, &pattern(*seed, BYTES), seed);
        }
    };
    let mut all: Vec<_> = (0..40).map(create).collect();
    check(&all);
    let statistics = pieces.statistics();
    assert_eq!((statistics.pieces, statistics.bytes), (40, 40 * each));
    assert_eq!((statistics.pages, statistics.page_bytes), (3, 3 * page), "16 in each");

    // Others take the places of those that are gone, and leave those beside them as they are.
    let mut number = 0;
    all.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    front.wait_idle().unwrap();
    front.reclaim();
    all.extend((100..120).map(create));
    check(&all);
    assert_eq!(pieces.statistics().pages, 3);

    // A large one has a page of its own, and pages without pieces go but for one.
    let large = pieces.create(2 * page + BYTES, Alignment::ONE).unwrap();
    assert_eq!((large.offset(), pieces.statistics().page_bytes), (0, 3 * page + 2 * page + each));
    drop((all, large));
    front.wait_idle().unwrap();
    front.reclaim();
    let statistics = pieces.statistics();
    assert_eq!((statistics.pieces, statistics.bytes, statistics.pages), (0, 0, 1));
    drop(pieces);
    front.wait_idle().unwrap();
    assert_eq!(front.deletion_queue().statistics().pending, 0);
}

fn a_piece_is_nobody_elses_while_a_recording_may_use_it<F: Fixture>(gpu: &Gpu<F>) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let (pieces, unit) = pieces::<F>(&front);
    let create = || pieces.create(4 * unit, Alignment::ONE).unwrap();
    let places = [4, 8, 12, 0].map(|units| units * unit);
    let first = create();
    let recording = front.record("uses the first");
    drop(first);
    let others = [(); 4].map(|()| create());
    assert_eq!(others.each_ref().map(BufferPiece::offset), places);
    assert_eq!(pieces.statistics().pages, 2, "the first still has its place");
    drop(recording);
    // Nobody has to ask for it: what the GPU has finished with comes before a new page.
    let fill = [(); 4].map(|()| create());
    assert_eq!(fill.each_ref().map(BufferPiece::offset), places);
    assert_eq!(pieces.statistics().pages, 2);
    drop((others, fill, pieces));
    front.wait_idle().unwrap();
    assert_eq!(front.deletion_queue().statistics().pending, 0);
}

fn pieces_keep_their_bytes_while_memory_is_bound_elsewhere<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    const MIB: u64 = 1 << 20;
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("expandable");
    let whole = ExpandableBuffer::new(front.memory(), BufferDesc::new(256 * MIB), options);
    if !gpu.device().has_reserved_buffers() {
        let refused = whole.unwrap_err();
        let unsupported = matches!(refused, ResourceError::Device { source: DeviceError::Unsupported, .. });
        assert!(unsupported, "{refused}");
        return Outcome::DoesNotApply("the device has no reserved buffers");
    }
    let whole = whole.unwrap();
    let create = |seed: u64, size: u64| {
        let piece = whole.create(size, Alignment::new(256).unwrap()).unwrap();
        front.uploads().write_buffer(piece.buffer(), piece.offset(), &pattern(seed, size)).unwrap();
        (seed, piece)
    };
    let check = |(seed, piece): &(u64, BufferPiece<F::Device>)| {
        let mut found = vec![0; piece.size() as usize];
        front.read_buffer(piece.buffer(), piece.offset(), &mut found).unwrap();
        assert_same(&found, &pattern(*seed, piece.size()), seed);
    };
    let [first, second, third] =
        [(1, 7 * MIB), (2, 1000), (3, 5 * MIB)].map(|(seed, size)| create(seed, size));
    drop(first);
    front.wait_idle().unwrap();
    front.reclaim();
    let before = whole.statistics();
    let fourth = create(4, 9 * MIB);
    let after = whole.statistics();
    assert!(fourth.1.offset() > third.1.offset(), "it does not fit in front of the others");
    assert!(after.memory_bytes < before.memory_bytes + 9 * MIB, "some of it comes from there");
    [&second, &third, &fourth].into_iter().for_each(check);
    drop(third);
    front.wait_idle().unwrap();
    front.reclaim();
    let freed = whole.trim().unwrap();
    assert_eq!(whole.statistics().memory_bytes + freed, after.memory_bytes);
    [&second, &fourth].into_iter().for_each(check);
    drop((second, fourth, whole));
    front.wait_idle().unwrap();
    assert_eq!(front.deletion_queue().statistics().pending, 0);
    Outcome::Ran
}

//! `allotment::gpu::Gpu` and its frames, over any device.

use allotment::device::{AddressError, BufferCopy, BufferDesc, QueueDevice as _, Submission};
use allotment::gpu::GpuDesc;
use allotment::memory::{AccessError, Buffer};
use allotment::{AllocationOptions, MemoryUsage};

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

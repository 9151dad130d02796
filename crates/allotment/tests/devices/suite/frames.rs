//! `allotment::gpu::Gpu` and its frames, over any device.

use allotment::device::{BufferCopy, BufferDesc, QueueDevice as _, Submission};
use allotment::gpu::GpuDesc;
use allotment::memory::Buffer;
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

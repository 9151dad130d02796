//! Resources of the program's own, which passes of its own move: their new handles.

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, BufferDevice as _, QueueIndex};
use allotment::memory::defragmentation::{Defragmentation, NextPass};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, Movability, RawBuffer, Transfer, TransferError};
use allotment::{AllocationOptions, MemoryUsage};

use crate::gains::{FULL, small_rig, unlimited};
use crate::rig::{DISCRETE, KIB, Rig};

const SIZE: u64 = 20 * KIB;

fn bytes_of(number: usize) -> Vec<u8> {
    (0..SIZE as usize).map(|at| (at * 7 + number) as u8).collect()
}

/// Buffers in device memory, one left in each of several blocks, each with bytes of its own.
fn one_a_block(rig: &Rig) -> Vec<RawBuffer<SimulatedGpu>> {
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_movability(Movability::Copied);
    let all: Vec<_> = (0..12).map(|_| rig.create_buffer(&BufferDesc::new(SIZE), &options).unwrap()).collect();
    let mut transfer = Transfer::new(rig, QueueIndex(0), SIZE).unwrap();
    let mut kept = Vec::new();
    for (number, buffer) in all.into_iter().enumerate() {
        if number % 3 == 0 {
            transfer.upload_to(&buffer, 0, &bytes_of(kept.len())).unwrap();
            kept.push(buffer);
        } else {
            rig.destroy_buffer(buffer).unwrap();
        }
    }
    kept
}

#[test]
fn a_buffer_that_a_pass_moved_is_used_by_its_new_handle_and_by_no_old_one() {
    let rig = small_rig(DISCRETE);
    let mut buffers = one_a_block(&rig);
    let mut transfer = Transfer::new(&rig, QueueIndex(0), SIZE).unwrap();
    let place = rig.location(buffers[0].allocation()).unwrap();
    // SAFETY: the place is live, and has room for such a buffer.
    let other =
        unsafe { rig.device().create_buffer(&BufferDesc::new(SIZE), place.memory, place.offset) }.unwrap();
    // SAFETY: it is refused.
    let early = unsafe { rig.set_handle(&mut buffers[0], other.clone()) };
    // SAFETY: no queue has seen it.
    unsafe { rig.device().destroy_buffer(other) };
    assert_eq!(early.err(), Some(AccessError::NotMoved { name: ShortName::NONE }));

    let mut run = Defragmentation::new(&rig, None, unlimited(FULL)).unwrap();
    let mut moves = 0;
    loop {
        let pass = match run.next_pass() {
            NextPass::Moves(pass) => pass,
            NextPass::LimitReached => continue,
            NextPass::Done => break,
        };
        let mut created = Vec::new();
        for moved in pass.moves() {
            let at = buffers.iter().position(|it| it.allocation().id() == moved.id()).unwrap();
            let bytes = bytes_of(at);
            // SAFETY: the place was chosen for such a buffer, and stays while the pass is open and after its end.
            let handle = unsafe {
                rig.device()
                    .create_buffer(&BufferDesc::new(SIZE), moved.to().memory, moved.to().offset)
                    .unwrap()
            };
            created.push((at, handle, bytes));
        }
        pass.end();
        for (at, handle, bytes) in created {
            moves += 1;
            let refused = transfer.upload_to(&buffers[at], 0, &bytes);
            assert!(matches!(refused, Err(TransferError::Access(AccessError::Moved { .. }))), "{refused:?}");
            let was = format!("{:?}", buffers[at].handle());
            // SAFETY: created above, where the allocation is now.
            let old = unsafe { rig.set_handle(&mut buffers[at], handle.clone()).unwrap() };
            assert_eq!(
                (format!("{old:?}"), format!("{handle:?}")),
                (was, format!("{:?}", buffers[at].handle()))
            );
            // SAFETY: no queue uses it any more.
            unsafe { rig.device().destroy_buffer(old) };
            // SAFETY: it is refused.
            let again = unsafe { rig.set_handle(&mut buffers[at], handle.clone()) };
            assert_eq!(again.err(), Some(AccessError::NotMoved { name: ShortName::NONE }));
            transfer.upload_to(&buffers[at], 0, &bytes).unwrap();
        }
    }
    drop(run);
    assert!(moves > 0 && rig.statistics().blocks < 4, "{moves}");
    for (number, buffer) in buffers.iter().enumerate() {
        let mut bytes = vec![0; SIZE as usize];
        transfer.download_from(buffer, 0, &mut bytes).unwrap();
        assert_eq!(bytes, bytes_of(number));
    }
    for buffer in buffers {
        rig.destroy_buffer(buffer).unwrap();
    }
    rig.check_invariants();
}

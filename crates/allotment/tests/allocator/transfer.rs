//! Bytes in and out of anything.

use allotment::Intent;
use allotment::device::{BufferDesc, QueueIndex};
use allotment::memory::{AccessError, Dedicated, Transfer, TransferError};

use crate::rig::{COARSE, DISCRETE, KIB, MOBILE, Rig, wanted};

/// Less than what is moved, and no divisor of it.
const CHUNK: u64 = 3 * KIB + 5;

#[test]
fn bytes_go_through_the_buffer_itself_and_arrive_where_its_memory_is() {
    for profile in [DISCRETE, COARSE, MOBILE] {
        for intent in Intent::ALL {
            for (dedicated, by_queue) in
                [(Dedicated::Automatic, true), (Dedicated::Always, true), (Dedicated::Automatic, false)]
            {
                let rig = Rig::new(profile);
                let transfer = Transfer::new(&rig, QueueIndex(0), CHUNK).unwrap();
                let mut transfer = if by_queue { transfer.through_the_queue() } else { transfer };
                let desc = wanted(1, intent).dedicated(dedicated);
                let buffer = rig.create_buffer(&BufferDesc::new(10_000), &desc).unwrap();
                let bytes: Vec<u8> = (0..9001).map(|i| (i % 251) as u8).collect();
                transfer.upload_to(&buffer, 999, &bytes).unwrap();
                let mut back = vec![0; 9001];
                transfer.download(buffer.allocation(), 999, &mut back).unwrap();
                assert_eq!(back, bytes, "{profile}, {intent}: through the memory");
                back.fill(0);
                transfer.download_from(&buffer, 999, &mut back).unwrap();
                assert_eq!(back, bytes, "{profile}, {intent}: through the buffer");
                drop(transfer);
                rig.destroy_buffer(buffer).unwrap();
            }
        }
    }
}

#[test]
fn a_range_beyond_the_memory_is_refused_and_moves_nothing() {
    let rig = Rig::new(DISCRETE);
    let mut transfer = Transfer::new(&rig, QueueIndex(0), CHUNK).unwrap();
    let buffer = rig.create_buffer(&BufferDesc::new(1000), &wanted(1, Intent::Device)).unwrap();
    let beyond = AccessError::OutOfRange { offset: 990, size: 11, available: 1000 };
    assert_eq!(transfer.upload_to(&buffer, 990, &[0; 11]), Err(TransferError::Access(beyond)));
    assert_eq!(transfer.download_from(&buffer, 990, &mut [0; 11]), Err(TransferError::Access(beyond)));
    drop(transfer);
    rig.destroy_buffer(buffer).unwrap();
}

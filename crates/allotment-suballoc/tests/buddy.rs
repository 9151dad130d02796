//! Buddy blocks, one behaviour each.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use allotment_suballoc::{Algorithm, AllocateError, Request, VirtualBlock};

fn block(size: u64) -> VirtualBlock<()> {
    VirtualBlock::new(size, Algorithm::Buddy).unwrap()
}

#[test]
fn a_range_is_placed_only_at_a_multiple_of_its_cell() {
    let mut block = block(64);
    for (size, offset) in [(2, 1), (3, 2), (5, 4), (33, 8)] {
        let refused = block.allocate_at(Request::new(size), offset, None, ()).unwrap_err().error;
        assert_eq!(refused, AllocateError::NotFree { offset, size });
        assert!(block.is_empty());
    }
    assert_eq!(block.allocate_at(Request::new(3), 4, None, ()).unwrap().offset, 4);
    block.check_invariants();
}

#[test]
fn a_block_of_more_than_32_bits_serves_small_requests_and_knows_what_is_free() {
    let mut block = block(1 << 40);
    assert_eq!(block.largest_free(), 1 << 40);
    assert!(block.may_fit(1 << 40));
    assert_eq!(block.allocate(Request::new(1), ()).unwrap().offset, 0);
    assert_eq!(block.largest_free(), 1 << 39);
    block.check_invariants();
}

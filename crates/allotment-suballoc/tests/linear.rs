//! Linear blocks: stacks, double stacks and rings, one behaviour each.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use allotment_suballoc::{Algorithm, AllocateError, Handle, Request, ResizeError, StackSide, VirtualBlock};

fn block() -> VirtualBlock<()> {
    VirtualBlock::new(100, Algorithm::Linear).unwrap()
}

fn lower(block: &mut VirtualBlock<()>, size: u64) -> Handle {
    block.allocate(Request::new(size), ()).unwrap().handle
}

fn upper(block: &mut VirtualBlock<()>, size: u64) -> Handle {
    block.allocate(Request::new(size).with_side(StackSide::Upper), ()).unwrap().handle
}

/// Free units, the largest free range, and how many there are.
fn free(block: &VirtualBlock<()>) -> (u64, u64, u32) {
    block.check_invariants();
    (block.statistics().free, block.largest_free(), block.statistics().free_range_count)
}

#[test]
fn a_ring_goes_on_at_the_start_with_a_range_of_exactly_the_hole_there() {
    let mut ring = block();
    let first = lower(&mut ring, 60);
    lower(&mut ring, 40);
    ring.free(first).unwrap();
    let refused = ring.allocate(Request::new(61), ()).unwrap_err().error;
    assert!(matches!(refused, AllocateError::NoSpace { largest_free: 60, .. }), "{refused}");
    assert!(ring.would_fit(&Request::new(60)));
    assert_eq!(ring.allocate(Request::new(60), ()).unwrap().offset, 0);
    assert_eq!(free(&ring), (0, 0, 0));
}

#[test]
fn the_newest_ranges_of_the_upper_side_are_freed_in_any_order() {
    let mut stacks = block();
    let ranges = [90, 80, 70].map(|offset| {
        let range = upper(&mut stacks, 10);
        assert_eq!(stacks.get(range).unwrap().offset, offset);
        range
    });
    stacks.free(ranges[0]).unwrap();
    assert_eq!(free(&stacks), (80, 70, 2));
    stacks.free(ranges[1]).unwrap();
    assert_eq!(free(&stacks), (90, 70, 2));
    assert_eq!(stacks.allocate(Request::new(70), ()).unwrap().offset, 0);
}

#[test]
fn a_ring_whose_newest_ranges_are_freed_is_a_stack_again() {
    let mut ring = block();
    let [first, second, third] = [(); 3].map(|()| lower(&mut ring, 30));
    ring.free(first).unwrap();
    let wrapped = lower(&mut ring, 20);
    assert_eq!(ring.get(wrapped).unwrap().offset, 0);
    ring.free(wrapped).unwrap();
    ring.free(third).unwrap();
    assert_eq!(free(&ring).0, 70);
    ring.free(second).unwrap();
    assert_eq!(free(&ring), (100, 100, 1));
}

#[test]
fn a_range_grows_into_all_that_is_free_behind_it_and_no_further() {
    let mut stack = block();
    let [a, b, c] = [(); 3].map(|()| lower(&mut stack, 10));
    assert_eq!(stack.resize(c, 81), Err(ResizeError::NoRoom { size: 81, largest: 80 }));
    stack.resize(c, 80).unwrap();
    assert_eq!(free(&stack), (0, 0, 0));
    stack.resize(c, 10).unwrap();
    stack.free(b).unwrap();
    assert_eq!(stack.resize(a, 21), Err(ResizeError::NoRoom { size: 21, largest: 20 }));
    stack.resize(a, 15).unwrap();
    assert_eq!(free(&stack), (75, 70, 2));
    stack.resize(a, 20).unwrap();
    assert_eq!(free(&stack), (70, 70, 1));
}

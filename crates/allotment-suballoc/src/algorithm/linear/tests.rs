//! What tests of the whole block do not reach.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::queue::CHUNK;
use super::{Linear, Ranges};
use crate::{Request, StackSide};

fn allocate(linear: &mut Linear<u32>, request: Request) -> u32 {
    linear.allocate(&request).unwrap().unwrap().index
}

#[test]
fn an_entry_is_as_small_as_its_numbers() {
    assert_eq!(size_of::<super::Entry<u32>>(), 20);
    assert_eq!(size_of::<super::Entry<u64>>(), 32);
}

#[test]
fn a_ring_uses_as_many_entries_as_it_is_long_and_two_chunks_more() {
    let mut ring = Linear::<u32>::new(1 << 20);
    let mut live = VecDeque::new();
    for _ in 0..20 * CHUNK {
        live.push_back(allocate(&mut ring, Request::new(1000)));
        if live.len() as u32 > 3 * CHUNK {
            ring.free(live.pop_front().unwrap());
        }
        ring.check_invariants();
    }
    assert!(ring.capacity() as u32 <= 6 * CHUNK, "{} entries", ring.capacity());
}

#[test]
fn a_stack_that_goes_up_and_down_and_two_that_meet_use_the_same_entries_again() {
    let mut stacks = Linear::<u32>::new(1 << 20);
    let mut entries = None;
    for _ in 0..5 {
        let sides = [StackSide::Lower, StackSide::Upper];
        let ranges = sides.map(|side| -> Vec<_> {
            let requests = (0..5 * CHUNK).map(|_| Request::new(100).with_side(side));
            requests.map(|request| allocate(&mut stacks, request)).collect()
        });
        assert_eq!(*entries.get_or_insert(stacks.capacity()), stacks.capacity());
        ranges.concat().into_iter().rev().for_each(|range| stacks.free(range));
        stacks.check_invariants();
    }
}

#[test]
fn the_entries_of_a_long_run_of_freed_ranges_are_used_again_once_the_gap_has_come_to_it() {
    let mut stack = Linear::<u32>::new(1 << 20);
    let ranges: Vec<_> = (0..10 * CHUNK).map(|_| allocate(&mut stack, Request::new(10))).collect();
    let entries = stack.capacity();
    let (&newest, others) = ranges[1..].split_last().unwrap();
    // From both ends, so that two runs become one.
    let half = others.len() / 2;
    others[..half].iter().rev().chain(&others[half..]).for_each(|&range| stack.free(range));
    stack.check_invariants();
    stack.free(newest);
    stack.check_invariants();
    for _ in 1..10 * CHUNK {
        allocate(&mut stack, Request::new(10));
    }
    assert_eq!(stack.capacity(), entries);
}

#[test]
fn no_host_memory_is_allocated_for_ranges_that_were_reserved() {
    for sides in [[StackSide::Lower; 2], [StackSide::Upper; 2], [StackSide::Lower, StackSide::Upper]] {
        let mut linear = Linear::<u32>::new(1 << 20);
        let count = 5 * CHUNK as usize + 3;
        let bound = linear.capacity_with(count);
        linear.reserve(count);
        for i in 0..count {
            allocate(&mut linear, Request::new(1).with_side(sides[i % 2]));
        }
        assert!(linear.capacity() <= bound, "{} of {bound} entries", linear.capacity());
    }
}

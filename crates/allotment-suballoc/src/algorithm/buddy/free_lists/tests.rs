//! What debug builds catch at each push and removal.

use super::*;

/// A chain of three free regions, of which the lists contain the first two, in list 3.
fn lists_of_two() -> (Chain, FreeLists, [u32; 3]) {
    let mut chain = Chain::new(30);
    let regions = [chain.split_front(0, 10), chain.split_front(0, 10), 0];
    let mut lists = FreeLists::new();
    for &region in &regions[..2] {
        lists.push(&mut chain, 3, region);
    }
    (chain, lists, regions)
}

#[test]
#[should_panic(expected = "the region after links back")]
fn a_broken_link_of_a_free_list_is_caught_when_its_region_is_removed() {
    let (mut chain, mut lists, [first, second, other]) = lists_of_two();
    chain.set_link(first, PREV, other);
    lists.remove(&mut chain, 3, second);
}

#[test]
#[should_panic(expected = "the first region is the head of its list")]
fn a_region_that_is_in_no_list_is_caught_when_it_is_removed() {
    let (mut chain, mut lists, [_, _, other]) = lists_of_two();
    lists.remove(&mut chain, 3, other);
}

#[test]
#[should_panic(expected = "a region is listed once")]
fn a_region_that_is_listed_twice_is_caught() {
    let (mut chain, mut lists, [_, second, _]) = lists_of_two();
    lists.push(&mut chain, 3, second);
}

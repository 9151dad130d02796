//! What debug builds catch at each link and unlink.

use super::*;

#[test]
#[should_panic(expected = "the region before links back")]
fn a_broken_link_is_caught_when_its_region_is_unlinked() {
    let mut chain = Chain::new(100);
    let front = chain.split_front(0, 40);
    chain.node_mut(0).before = 0;
    chain.absorb_after(front);
}

#[test]
#[should_panic(expected = "the region before ends where this one begins")]
fn a_hole_between_two_regions_is_caught_when_one_is_unlinked() {
    let mut chain = Chain::new(100);
    let front = chain.split_front(0, 40);
    chain.node_mut(front).size = 39;
    chain.absorb_after(front);
}

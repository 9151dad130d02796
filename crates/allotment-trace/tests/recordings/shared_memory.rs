//! Resources that share an allocation, in the state that events lead to, and what contradicts it.

use allotment::device::{MemoryTypeIndex, ResourceKind};
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, BoundResource, Event, PoolId, State, TextId,
};

use crate::golden::allocation;

const MEMORY: AllocationKey = AllocationKey(7);

/// The state with an allocation of 1000 bytes, and events of two resources in it: the second one is not active.
fn begin() -> (State, [BoundResource; 2]) {
    let Event::Allocated(like) = allocation() else { unreachable!() };
    let (block, pool, kind) = (BlockId(1), PoolId(1), BlockKind::Shared);
    let allocated = Allocated { allocation: MEMORY, block, offset: 0, ..like };
    let mut state = State::default();
    let memory_type = MemoryTypeIndex(0);
    state.apply(&Event::BlockAllocated { block, pool, memory_type, kind, size: 4096 }).unwrap();
    state.apply(&Event::Allocated(allocated)).unwrap();
    let resource = |number: u64, offset, active| BoundResource {
        resource: AllocationKey(100 + number),
        memory: MEMORY,
        offset,
        size: 600,
        name: TextId::NONE,
        call_site: TextId::NONE,
        kind: ResourceKind::Buffer,
        active,
    };
    (state, [resource(0, 0, true), resource(1, 400, false)])
}

#[test]
fn resources_are_listed_by_the_allocation_that_they_share() {
    let (mut state, [low, high]) = begin();
    for event in [Event::Bound(high), Event::Bound(low)] {
        state.apply(&event).unwrap();
    }
    let of_memory: Vec<_> = state.memories[&MEMORY].iter().map(|&(_, resource)| resource).collect();
    assert_eq!(of_memory, [low.resource, high.resource], "in the order of their offsets");
    state.apply(&Event::Displaced { resource: low.resource, by: high.resource }).unwrap();
    state.apply(&Event::Activated { resource: high.resource }).unwrap();
    let active = [low, high].map(|resource| state.bound[&resource.resource].is.active);
    assert_eq!(active, [false, true]);
    for resource in [low, high] {
        state.apply(&Event::Unbound { resource: resource.resource }).unwrap();
    }
    assert!(state.memories.is_empty() && state.bound.is_empty());
    state.apply(&Event::Freed { allocation: MEMORY }).unwrap();
}

#[test]
fn a_bound_resource_gets_another_name_and_its_memory_keeps_its_own() {
    let (mut state, [low, high]) = begin();
    for event in [Event::Bound(low), Event::Bound(high)] {
        state.apply(&event).unwrap();
    }
    let memory = state.allocations[&MEMORY].is;
    let (name, category) = (TextId(5), TextId(6));
    let renamed = Event::Labelled { allocation: low.resource, name, category, user_data: 7 };
    state.apply(&renamed).unwrap();
    let now = [low, high].map(|resource| state.bound[&resource.resource].is);
    assert_eq!(now, [BoundResource { name, ..low }, high]);
    assert_eq!(state.allocations[&MEMORY].is, memory);
}

#[test]
fn events_of_resources_that_contradict_others_change_nothing_and_say_why() {
    let (mut state, [low, high]) = begin();
    state.apply(&Event::Bound(low)).unwrap();
    let (resource, missing) = (low.resource, high.resource);
    let of_another = BoundResource { memory: AllocationKey(8), ..high };
    let beyond = BoundResource { offset: 401, ..high };
    let beyond_numbers = BoundResource { offset: u64::MAX, ..high };
    let (name, category) = (TextId::NONE, TextId::NONE);
    let label = Event::Labelled { allocation: missing, name, category, user_data: 0 };
    for (event, reason) in [
        (Event::Bound(BoundResource { resource, ..high }), "it binds a resource that exists"),
        (Event::Bound(of_another), "it binds to an allocation that does not exist"),
        (Event::Bound(beyond), "a resource reaches beyond its memory"),
        (Event::Bound(beyond_numbers), "a resource reaches beyond its memory"),
        (Event::Unbound { resource: missing }, "it destroys a resource that is not bound"),
        (label, "it names an allocation that does not exist"),
        (Event::Activated { resource: missing }, "it names a resource that is not bound"),
        (Event::Displaced { resource: missing, by: resource }, "it names a resource that is not bound"),
        (Event::Displaced { resource, by: missing }, "it names a resource that is not bound"),
        (Event::Freed { allocation: MEMORY }, "it frees an allocation that resources are bound to"),
    ] {
        let (before, number) = (state.clone(), state.now.event);
        let error = state.apply(&event).unwrap_err();
        assert_eq!((error.event, error.reason), (number, reason), "{event:?}");
        state.now = before.now;
        assert_eq!(state, before, "{event:?}");
    }
    // Nothing is known of resources whose memory is not known.
    state.apply(&Event::Lost).unwrap();
    assert_eq!((state.bound.len(), state.memories.len()), (0, 0));
}

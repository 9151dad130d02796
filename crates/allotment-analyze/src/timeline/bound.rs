//! The resources that are bound to allocations which several share: when each began and ended, when it was active, and
//! its names.

use std::collections::HashMap;

use allotment_trace::recording::{AllocationKey, Bound, BoundResource, Event, State, TextId};

use super::grouped::Grouped;
use super::key_hasher::KeyHasher;
use super::moments::before;
use super::rows::{event_number, exists};
use super::{AllocationIndex, NONE, Timeline};

/// A resource of a recording that is bound to a shared allocation. Each is one of its own, also where a program used the same
/// key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceIndex(pub u32);

/// When such a resource began and ended.
#[derive(Clone, Copy, Debug)]
struct Row {
    bound: u32,
    unbound: u32,
    /// The allocation that it is bound to.
    memory: u32,
}

/// The bound resources of a recording.
#[derive(Debug, Default)]
pub(super) struct BoundResources {
    rows: Vec<Row>,
    /// The rows of each shared allocation, in their order.
    of_allocation: HashMap<u32, Vec<u32>>,
    /// Events that activated, displaced or renamed a resource.
    changes: Grouped,
}

/// What the walk that makes the rows needs besides them.
#[derive(Default)]
pub(super) struct OpenResources {
    by_key: HashMap<AllocationKey, u32, KeyHasher>,
    /// How many are bound to each allocation, of those that have any.
    counts: HashMap<u32, u32>,
    changes: Vec<(u32, u32)>,
}

impl OpenResources {
    /// Returns true if resources are bound to an allocation.
    pub(super) fn has(&self, allocation: u32) -> bool {
        self.counts.contains_key(&allocation)
    }

    /// Returns true if a resource of a key is bound.
    pub(super) fn is_bound(&self, resource: AllocationKey) -> bool {
        self.by_key.contains_key(&resource)
    }

    fn find(&self, resource: AllocationKey) -> Result<u32, &'static str> {
        self.by_key.get(&resource).copied().ok_or("it names a resource that is not bound")
    }

    /// Adds an event that activates a resource, displaces it by another one, or renames it.
    pub(super) fn change(
        &mut self,
        resource: AllocationKey,
        by: Option<AllocationKey>,
        number: u32,
    ) -> Result<u32, &'static str> {
        if let Some(by) = by {
            self.find(by)?;
        }
        let row = self.find(resource)?;
        self.changes.push((row, number));
        Ok(row)
    }
}

impl BoundResources {
    /// Adds a resource that is bound to the allocation of a row, which has so many bytes. `None` where there is no such one.
    pub(super) fn bind(
        &mut self,
        open: &mut OpenResources,
        is: &BoundResource,
        memory: Option<(u32, u64)>,
        number: u32,
    ) -> Result<u32, &'static str> {
        if open.by_key.contains_key(&is.resource) {
            return Err("it binds a resource that exists");
        }
        let (memory, size) = memory.ok_or("it binds to an allocation that does not exist")?;
        if is.offset.checked_add(is.size).is_none_or(|end| end > size) {
            return Err("a resource reaches beyond its memory");
        }
        let row = self.rows.len() as u32;
        self.rows.push(Row { bound: number, unbound: NONE, memory });
        self.of_allocation.entry(memory).or_default().push(row);
        open.by_key.insert(is.resource, row);
        *open.counts.entry(memory).or_default() += 1;
        Ok(row)
    }

    pub(super) fn unbind(
        &mut self,
        open: &mut OpenResources,
        resource: AllocationKey,
        number: u32,
    ) -> Result<u32, &'static str> {
        let row = open.by_key.remove(&resource).ok_or("it destroys a resource that is not bound")?;
        let Row { unbound, memory, .. } = &mut self.rows[row as usize];
        *unbound = number;
        if let Some(count) = open.counts.get_mut(memory) {
            *count -= 1;
            if *count == 0 {
                open.counts.remove(memory);
            }
        }
        Ok(row)
    }

    /// Ends every resource: nothing is known of them from here on.
    pub(super) fn lose(&mut self, open: &mut OpenResources, number: u32) {
        for (_, row) in open.by_key.drain() {
            self.rows[row as usize].unbound = number;
        }
        open.counts.clear();
    }

    pub(super) fn finish(&mut self, open: &OpenResources) {
        self.changes = Grouped::new(self.rows.len(), &open.changes);
    }
}

impl Timeline<'_> {
    /// Returns the allocations that resources were bound to at some moment, in the order in which they were allocated.
    #[must_use]
    pub fn shared_allocations(&self) -> Vec<AllocationIndex> {
        let mut shared: Vec<_> = self.bound.of_allocation.keys().map(|&row| AllocationIndex(row)).collect();
        shared.sort_unstable();
        shared
    }

    /// Returns the resources that were ever bound to an allocation, in the order in which they were.
    pub fn resources_of(&self, allocation: AllocationIndex) -> impl ExactSizeIterator<Item = ResourceIndex> {
        let rows = self.bound.of_allocation.get(&allocation.0).map(Vec::as_slice).unwrap_or_default();
        rows.iter().map(|&row| ResourceIndex(row))
    }

    /// Returns the events by which a resource was bound and destroyed, or after which nothing was known of it.
    #[must_use]
    pub fn resource_lifetime(&self, resource: ResourceIndex) -> (u64, Option<u64>) {
        let Row { bound, unbound, .. } = self.bound.rows[resource.0 as usize];
        (u64::from(bound), event_number(unbound))
    }

    /// Returns true if a resource exists at a position.
    #[must_use]
    pub fn resource_exists(&self, resource: ResourceIndex, position: u64) -> bool {
        let Row { bound, unbound, .. } = self.bound.rows[resource.0 as usize];
        exists(bound, unbound, self.clamp(position))
    }

    /// Returns a resource as it is at a position; before its first event, as it begins.
    #[must_use]
    pub fn resource_at(&self, resource: ResourceIndex, position: u64) -> BoundResource {
        let mut is = self.resource_began(resource.0);
        let changes = self.bound.changes.of(resource.0);
        for &change in &changes[..before(changes, self.clamp(position))] {
            match *self.event(change) {
                Event::Activated { .. } => is.active = true,
                Event::Displaced { .. } => is.active = false,
                Event::Labelled { name, .. } => is.name = name,
                _ => {}
            }
        }
        is
    }

    /// Returns the events from which on a resource was active, and those from which on it was not, in turns. The first of a pair
    /// is the event that bound or activated it; the second displaced or destroyed it, and is [`end`](Self::end) where none did.
    #[must_use]
    pub fn active_spans(&self, resource: ResourceIndex) -> Vec<(u64, u64)> {
        let (bound, unbound) = self.resource_lifetime(resource);
        let mut spans = Vec::new();
        let mut since = self.resource_began(resource.0).active.then_some(bound);
        for &change in self.bound.changes.of(resource.0) {
            match self.event(change) {
                Event::Activated { .. } => since = since.or(Some(change.into())),
                Event::Displaced { .. } => spans.extend(since.take().map(|since| (since, change.into()))),
                _ => {}
            }
        }
        spans.extend(since.map(|since| (since, unbound.unwrap_or(self.end()))));
        spans
    }

    fn resource_began(&self, row: u32) -> BoundResource {
        match *self.event(self.bound.rows[row as usize].bound) {
            Event::Bound(is) => is,
            // A row is made from such an event only.
            _ => BoundResource {
                resource: AllocationKey(0),
                memory: AllocationKey(0),
                offset: 0,
                size: 0,
                name: TextId::NONE,
                call_site: TextId::NONE,
                kind: allotment::device::ResourceKind::Unknown,
                active: false,
            },
        }
    }

    /// Adds the resources that are bound at a position to a state.
    pub(super) fn add_bound(&self, state: &mut State, position: u32) {
        for (row, at) in self.bound.rows.iter().enumerate() {
            if exists(at.bound, at.unbound, position) {
                let is = self.resource_at(ResourceIndex(row as u32), u64::from(position));
                state.memories.entry(is.memory).or_default().insert((is.offset, is.resource));
                state.bound.insert(is.resource, Bound { is, bound: self.moment(u64::from(at.bound)) });
            }
        }
    }
}

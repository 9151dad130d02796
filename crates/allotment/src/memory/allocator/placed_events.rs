//! The events of placed resources: bound, labelled, activated and displaced, and destroyed.
//!
//! # Invariants
//!
//! - What the reader knows of a resource is what the lock of the placed resources guards: a change and its event are under one
//!   hold of it.
//! - A resource is announced after its memory, in the same epoch. It keeps the memory, and so it leaves before that is freed.

use crate::device::ResourceKind;
use crate::events::{AllocationKey, BoundResource, Event, EventLane, EventLog, EventSource};
use crate::memory::pool::Label;

/// Where the placed resources of an allocator write their events.
#[derive(Debug)]
pub(super) struct PlacedEvents {
    source: EventSource,
}

/// A placed resource, as an event describes it.
#[derive(Debug)]
pub(super) struct Described<'a> {
    pub(super) memory: AllocationKey,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) kind: ResourceKind,
    pub(super) active: bool,
    pub(super) label: &'a Label,
}

impl Described<'_> {
    fn event(&self, resource: AllocationKey, texts: &mut EventLane) -> Event {
        let &Self { memory, offset, size, kind, active, label } = self;
        Event::Bound(BoundResource {
            resource,
            memory,
            offset,
            size,
            name: texts.add_text(label.name.as_ref()),
            call_site: label.call_site.as_ref().map(|site| texts.add_call_site(site)).unwrap_or_default(),
            kind,
            active,
        })
    }
}

impl PlacedEvents {
    pub(super) fn new(log: &EventLog) -> Self {
        Self { source: EventSource::new(log) }
    }

    /// Announces all resources in an epoch in which their memory was announced, unless the reader knows them.
    pub(super) fn announce<'a>(
        &mut self,
        epoch: u64,
        resources: impl Iterator<Item = (AllocationKey, Described<'a>)>,
    ) {
        if self.source.is_announced_in(epoch) {
            return;
        }
        let Some(announcement) = self.source.announce_in(epoch) else { return };
        resources.for_each(|(key, described)| announcement.emit(|texts| described.event(key, texts)));
    }

    /// Writes that a resource was bound. Describes it only where there is a reader.
    #[inline]
    pub(super) fn bound<'a>(&mut self, key: AllocationKey, describe: impl FnOnce() -> Described<'a>) {
        self.source.emit(|texts| describe().event(key, texts));
    }

    /// Writes that the label of a resource changed.
    #[inline]
    pub(super) fn labelled(&mut self, resource: AllocationKey, label: &Label) {
        self.source.emit(|texts| Event::Labelled {
            allocation: resource,
            name: texts.add_text(label.name.as_ref()),
            category: texts.add_static(label.category),
            user_data: label.user_data,
        });
    }

    /// Writes that a resource was destroyed.
    #[inline]
    pub(super) fn unbound(&mut self, resource: AllocationKey) {
        self.source.emit(|_| Event::Unbound { resource });
    }

    /// Writes that a resource took its bytes from others.
    #[inline]
    pub(super) fn activated(&mut self, by: AllocationKey, displaced: impl Iterator<Item = AllocationKey>) {
        if self.source.is_read() {
            // They first, so that no two resources that overlap are active after any event.
            displaced.for_each(|resource| self.source.emit(|_| Event::Displaced { resource, by }));
            self.source.emit(|_| Event::Activated { resource: by });
        }
    }
}

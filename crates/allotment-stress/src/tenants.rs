//! Which of the resources that are placed in one memory have their bytes: as the documentation of the library says, without
//! its code.
//!
//! A resource that the program dropped is there until it is destroyed, which another thread may do at any time. So each check
//! asks before a call and after it which of those exist: what does not exist before is not there, and what exists after it was
//! there. Of what was destroyed meanwhile, either is right.

use core::ops::Range;

use allotment::device::ResourceKind;
use allotment::memory::{Activation, AllocationId};

/// A placed resource.
#[derive(Clone, Debug)]
struct Tenant {
    id: AllocationId,
    /// In the memory object, in whole atoms.
    bytes: Range<u64>,
    is_optimal: bool,
    is_active: bool,
    is_dropped: bool,
}

/// The resources in one memory.
#[derive(Debug)]
pub(crate) struct Tenants {
    /// The granularity between linear and optimal resources.
    page: u64,
    /// The multiple of what a flush writes back.
    atom: u64,
    all: Vec<Tenant>,
}

impl Tenants {
    pub(crate) fn new(page: u64, atom: u64) -> Self {
        Self { page, atom, all: Vec::new() }
    }

    /// Removes those that were destroyed. Called before each call that is checked.
    pub(crate) fn remove_destroyed(&mut self, exists: impl Fn(AllocationId) -> bool) {
        self.all.retain(|it| !it.is_dropped || exists(it.id));
    }

    /// Adds a resource that was created. `exists` says which of the others do, after the creation. Returns what is wrong.
    pub(crate) fn created(
        &mut self,
        (id, kind): (AllocationId, ResourceKind),
        (offset, size): (u64, u64),
        is_active: bool,
        exists: impl Fn(AllocationId) -> bool,
    ) -> Option<String> {
        let atom = self.atom;
        let bytes = offset / atom * atom..(offset + size.max(1)).next_multiple_of(atom);
        let is_optimal = kind == ResourceKind::OptimalImage;
        let new = Tenant { id, bytes, is_optimal, is_active, is_dropped: false };
        let others: Vec<_> = self.active_over(&new).collect();
        let is_taken = others.iter().any(|other| !other.is_dropped || exists(other.id));
        let is_wrong = if is_active { is_taken } else { others.is_empty() };
        let wrong = is_wrong.then(|| format!("a new resource {new:?} is wrong beside {others:?}"));
        self.all.push(new);
        wrong
    }

    /// Notes an activation. `exists` says which resources do after it. Returns what is wrong.
    pub(crate) fn activated(
        &mut self,
        id: AllocationId,
        activation: Activation,
        exists: impl Fn(AllocationId) -> bool,
    ) -> Option<String> {
        let own = self.all.iter().find(|it| it.id == id)?.clone();
        let Activation { needs_barrier, before, .. } = activation;
        if own.is_active {
            return before.map(|_| format!("{own:?} was active, and others are said to be before it"));
        }
        let others: Vec<_> = self.active_over(&own).cloned().collect();
        let is_one = |other: &Tenant| before == Some(other.id);
        let is_right = if others.iter().all(|other| !other.is_dropped || exists(other.id)) {
            let only = match &others[..] {
                // Of what it had only some bytes of, others may have had the rest.
                [other] if other.bytes.start <= own.bytes.start && own.bytes.end <= other.bytes.end => {
                    Some(other.id)
                }
                _ => None,
            };
            before == only
        } else {
            before.is_none() || others.iter().any(is_one)
        };
        let is_wrong = !needs_barrier || !is_right;
        for it in &mut self.all {
            it.is_active = it.id == id || it.is_active && others.iter().all(|other| other.id != it.id);
        }
        is_wrong.then(|| format!("{activation:?} of {own:?}, when these were active: {others:?}"))
    }

    /// Notes that the program dropped a resource.
    pub(crate) fn dropped(&mut self, id: AllocationId) {
        self.all.iter_mut().filter(|it| it.id == id).for_each(|it| it.is_dropped = true);
    }

    /// Returns true if a resource has its bytes.
    pub(crate) fn is_active(&self, id: AllocationId) -> bool {
        self.all.iter().any(|it| it.id == id && it.is_active)
    }

    /// Returns the active resources that overlap one.
    fn active_over<'a>(&'a self, of: &'a Tenant) -> impl Iterator<Item = &'a Tenant> {
        let others = self.all.iter().filter(|it| it.id != of.id && it.is_active);
        others.filter(|it| {
            let unit = if it.is_optimal == of.is_optimal { 1 } else { self.page };
            let last = |it: &Tenant| (it.bytes.end - 1) / unit;
            it.bytes.start / unit <= last(of) && of.bytes.start / unit <= last(it)
        })
    }
}

#[cfg(test)]
mod tests {
    use allotment::device::simulated::{Profile, SimulatedGpu};
    use allotment::device::{BufferDesc, ResourceKind};
    use allotment::{Gpu, GpuDesc, MemoryUsage, Requirements};

    use super::*;

    const BUFFER: ResourceKind = ResourceKind::Buffer;

    /// Real ids, and the activation of the second, which takes its bytes from the first. Where they are, each test says itself.
    fn activation() -> ([AllocationId; 3], Activation) {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let gpu = Gpu::new(device, GpuDesc::default()).unwrap();
        let memory = gpu.allocate_memory(&Requirements::new(4096), &MemoryUsage::GpuOnly.into()).unwrap();
        let buffers =
            [(); 3].map(|()| gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4096), "one").unwrap());
        (buffers.each_ref().map(|buffer| buffer.id()), buffers[1].activate().unwrap())
    }

    #[test]
    fn an_activation_that_names_another_one_than_was_active_is_wrong() {
        let ([before, id, third], activation) = activation();
        assert_eq!(activation.before, Some(before));
        // Of 100 bytes each, the one that is activated at byte 0.
        let is_right = |offset: u64, third_offset: Option<u64>, exists: bool| {
            let mut tenants = Tenants::new(1, 1);
            _ = tenants.created((before, BUFFER), (offset, 100), true, |_| true);
            _ = tenants.created((id, BUFFER), (0, 100), false, |_| true);
            if let Some(offset) = third_offset {
                _ = tenants.created((third, BUFFER), (offset, 100), true, |_| true);
            }
            tenants.dropped(before);
            let wrong = tenants.activated(id, activation, |_| exists);
            assert!(tenants.is_active(id));
            assert_eq!(tenants.is_active(before), offset >= 100);
            wrong.is_none()
        };
        assert!(is_right(0, None, true));
        assert!(!is_right(50, None, true), "it had half of the bytes");
        assert!(!is_right(100, None, true), "it had none of them");
        assert!(is_right(0, Some(100), true), "the third one had none");
        assert!(!is_right(0, Some(50), true), "two had some");
        assert!(is_right(50, None, false), "it was destroyed, perhaps before");
    }

    #[test]
    fn a_new_resource_is_active_unless_another_one_is_within_its_atoms_or_its_pages() {
        let ([first, new, inactive], _) = activation();
        let is_right = |page, atom, (kind, offset), is_active| {
            let mut tenants = Tenants::new(page, atom);
            assert_eq!(tenants.created((first, BUFFER), (0, 100), true, |_| true), None);
            assert_eq!(tenants.created((inactive, BUFFER), (0, 100), false, |_| true), None);
            tenants.created((new, kind), (offset, 100), is_active, |_| true).is_none()
        };
        let image = ResourceKind::OptimalImage;
        for (page, atom, place, is_active) in [
            (1, 1, (BUFFER, 99), false),
            (1, 1, (BUFFER, 100), true),
            (1, 64, (BUFFER, 100), false),
            (1024, 1, (BUFFER, 100), true),
            (1024, 1, (image, 1000), false),
            (1024, 1, (image, 1024), true),
        ] {
            assert!(is_right(page, atom, place, is_active) && !is_right(page, atom, place, !is_active));
        }
    }

    #[test]
    fn a_dropped_resource_has_its_bytes_until_it_is_destroyed() {
        let ([first, new, _], _) = activation();
        let is_right = |exists: bool, is_active| {
            let mut tenants = Tenants::new(1, 1);
            _ = tenants.created((first, BUFFER), (0, 100), true, |_| true);
            tenants.dropped(first);
            tenants.remove_destroyed(|_| exists);
            tenants.created((new, BUFFER), (0, 100), is_active, |_| true).is_none()
        };
        assert!(is_right(true, false) && !is_right(true, true));
        assert!(is_right(false, true) && !is_right(false, false));
    }
}

//! Resources that are placed in memory which they share: their records, and to which of them the bytes belong.
//!
//! ```text
//!   memory     |<───────────────────── one allocation ─────────────────────>|
//!   shadows    [==================]            active
//!   bloom      [ - - - - - - ]                 inactive: its bytes are those of "shadows"
//!   exposure                       [====]      active: nothing overlaps it
//! ```
//!
//! A placed resource has an [`Allocation`] as every other has, so that all that is done by a token (names, bytes, checks, leak
//! reports) is done by it too. Its record lies in a slot without a pool, since no block has a range for it: pools, statistics
//! and defragmentation know the memory alone, which stays where it is.
//!
//! # Invariants
//!
//! - Of resources that overlap, at most one is active. What overlaps is what the APIs call aliased: bytes, the atoms of memory
//!   that is not coherent, and pages of `bufferImageGranularity` between linear and optimal resources.
//! - A flag in the record says that a resource is inactive or unsettled. A resource becomes inactive while no thread accesses its
//!   bytes by the CPU, and while no copy to it or out of it is on its way.
//! - The states of an image are those of a new one before the flag says that it is active. So no copy is recorded for an image
//!   that just got its bytes with the state that it was in before it lost them.
//!
//! # Locks
//!
//! That of the placed resources comes first, then that of the [marks](crate::memory::writers), then that of an image's states. No
//! other is taken under the last two; events are written under the first.
//!
//! # Cost
//!
//! Creation and activation look at the resources that [overlap](crate::memory::allocator::by_place), and destruction at itself
//! alone. A write takes the lock of the placed resources once, for each that is written and placed. A resource that is not placed
//! pays one comparison where its token is looked up under a lock, and nothing elsewhere.

use core::any::Any;
use core::ops::Range;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::choices::call_site::CallSite;
use crate::device::{Device, ResourceKind};
use crate::events::{AllocationKey, EventLog};
use crate::memory::allocator::Allocator;
use crate::memory::allocator::by_place::ByPlace;
use crate::memory::allocator::placed_events::{Described, PlacedEvents};
use crate::memory::leak_report::Leak;
use crate::memory::pool::{Label, PoolSlot};
use crate::memory::token::{Allocation, AllocationId, RawPlace, Record, Traits};
use crate::memory::writers::{Busy, WantMark};
use crate::memory::{
    AccessError, AllocationError, AllocationInfo, MemoryLocation, Movability, Name, OtherName, ShortName,
};
use crate::slab::Slab;
use crate::sync::locked;
use crate::table::Ahead;

/// The placed resources of an allocator.
#[derive(Debug)]
pub(crate) struct Placed {
    /// The slot with their records; none inside where there are no slots left.
    slot: OnceLock<Option<u32>>,
    state: Mutex<State>,
}

impl Placed {
    pub(super) fn new(log: &EventLog) -> Self {
        let state = State {
            tenants: Slab::new(),
            next_records: Ahead::new(),
            by_memory: HashMap::new(),
            displaced: Vec::new(),
            events: PlacedEvents::new(log),
        };
        Self { slot: OnceLock::new(), state: Mutex::new(state) }
    }
}

#[derive(Debug)]
struct State {
    /// By record.
    tenants: Slab<Tenant>,
    next_records: Ahead<Record>,
    /// Those in each memory.
    by_memory: HashMap<AllocationId, InMemory>,
    /// Those that an activation takes the bytes from. Kept, so that none allocates host memory.
    displaced: Vec<(u32, u32)>,
    /// Each event is written under the lock of this, at its change.
    events: PlacedEvents,
}

/// The resources in one memory.
#[derive(Debug, Default)]
struct InMemory {
    resources: ByPlace,
    /// Those that the program has not released. The last that is released is the one with which statistics count the bytes.
    kept_by: usize,
    /// The program has released the memory itself.
    is_released: bool,
}

/// A placed resource.
#[derive(Debug)]
struct Tenant {
    generation: u32,
    memory: AllocationId,
    /// Keeps the memory.
    _kept: Arc<dyn Any + Send + Sync>,
    /// In the memory object, in whole atoms.
    bytes: Range<u64>,
    /// From the start of the memory, as the program said.
    offset: u64,
    size: u64,
    kind: ResourceKind,
    label: Label,
    /// A plan gives it its bytes within each frame, and it is never active.
    is_planned: bool,
    active: bool,
    /// Nothing is left to say of a barrier: it was created alone in its bytes, an activation has said it, or the library wrote it.
    is_announced: bool,
    /// Activations since which the GPU may still use the bytes for other resources.
    unsettled: u32,
}

/// Where a resource is placed, and what it is.
#[derive(Debug)]
pub(in crate::memory) struct Placement<'a, D: Device> {
    pub(in crate::memory) memory: &'a Allocation,
    pub(in crate::memory) kept: Arc<dyn Any + Send + Sync>,
    pub(in crate::memory) location: MemoryLocation<D>,
    pub(in crate::memory) kind: ResourceKind,
    pub(in crate::memory) name: Option<Name>,
    pub(in crate::memory) call_site: Option<CallSite>,
    /// All that is placed there gets its bytes by a plan.
    pub(in crate::memory) is_planned: bool,
}

/// Whether the bytes of a new resource are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum Tenancy {
    /// They are, and no queue uses them.
    Settled,
    /// They are, and queues may still use them: [`Allocator::settle_placed`] is called once they are done.
    Unsettled,
    /// They belong to another one.
    Inactive,
}

/// What the program records before it uses a resource that was [activated](crate::memory::Resource::activate).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let memory = gpu.allocate_memory(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("passes"))?;
/// let culled = gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4096), "culled")?;
/// let sorted = gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4096), "sorted")?;
/// let activation = sorted.activate()?;
/// assert!(activation.needs_barrier);
/// assert_eq!(activation.before, Some(culled.id()));
/// assert!(!sorted.activate()?.needs_barrier, "it is active by now");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the program records a barrier where one is needed"]
#[non_exhaustive]
pub struct Activation {
    /// A barrier is needed before the first use, and nothing that the bytes hold may be read: also by the first activation of a
    /// resource that was created active over others that are inactive or on their way out, unless an upload or the CPU has written
    /// it before. Where this is false, the resource was active already, and has its contents.
    ///
    /// On Vulkan a memory barrier, from all commands and their writes to all commands and accesses; for an image it is the one
    /// that changes its layout from `UNDEFINED`. On Direct3D 12 an aliasing barrier to the resource, and after that a discard, a
    /// clear or a copy of the whole of a render target or a depth buffer.
    ///
    /// A barrier orders the work of one queue. Where another queue used the bytes before, the submission also waits for the points
    /// of those uses, on the GPU: those that the program got when it submitted them, or all that
    /// [`SubmissionTracker::submitted`](crate::lifetime::SubmissionTracker::submitted) returns once they are submitted. A
    /// [`Frame`](crate::gpu::Frame) does not know of them: what it waits for by itself are uploads.
    ///
    /// No barrier has to be recorded where the first use is an upload: it is accepted only once the GPU is done with what was
    /// there, and it brings the barrier with it. From then on the image is in the state that the upload leaves it in, and a
    /// barrier from `UNDEFINED`, or a discard, would lose the texels.
    pub needs_barrier: bool,
    /// The only resource to which the bytes belonged, for an aliasing barrier from that one. `None` where they belonged to none
    /// or to several: from any.
    pub before: Option<AllocationId>,
}

impl Activation {
    /// That of a resource which is active.
    pub(in crate::memory) const NONE: Self = Self { needs_barrier: false, before: None };
}

impl State {
    fn tenant(&self, id: AllocationId) -> Option<&Tenant> {
        self.tenants.get(id.record).filter(|tenant| tenant.generation == id.generation)
    }

    fn tenant_mut(&mut self, id: AllocationId) -> Option<&mut Tenant> {
        self.tenants.get_mut(id.record).filter(|tenant| tenant.generation == id.generation)
    }

    /// Iterates over the resources in the same memory that overlap one, with their records. The one itself, once it is entered,
    /// is not among them.
    fn overlapping<'a>(
        &'a self,
        of: &'a Tenant,
        granularity: u64,
    ) -> impl Iterator<Item = (u32, &'a Tenant)> {
        let of_memory = self.by_memory.get(&of.memory).into_iter();
        // Of another kind, whole pages count.
        let pages = of.bytes.start / granularity * granularity..of.bytes.end.next_multiple_of(granularity);
        let near = of_memory.flat_map(move |in_memory| in_memory.resources.near(pages.clone()));
        let tenants = near.filter_map(|record| Some((record, self.tenants.get(record)?)));
        tenants.filter(move |&(_, other)| !core::ptr::eq(other, of) && of.overlaps(other, granularity))
    }
}

impl Placed {
    /// Announces all placed resources to a reader that has heard of their memory in an epoch, unless it knows them.
    pub(super) fn announce(&self, epoch: u64) {
        // Without a resource the slot may not exist, and is not needed.
        let pool = self.slot.get().copied().flatten().unwrap_or(0);
        let mut state = locked(&self.state);
        let state = &mut *state;
        let tenants = state.tenants.iter().map(|(record, tenant)| (key(pool, record), tenant.describe()));
        state.events.announce(epoch, tenants);
    }
}

/// Returns the key of a placed resource in events: no pool is in the slot of these.
const fn key(pool: u32, record: u32) -> AllocationKey {
    AllocationKey((pool as u64) << 32 | record as u64)
}

impl Tenant {
    fn describe(&self) -> Described<'_> {
        Described {
            memory: self.memory.key(),
            offset: self.offset,
            size: self.size,
            kind: self.kind,
            active: self.active,
            label: &self.label,
        }
    }

    /// Returns true if the two may not be active at once: of a linear and an optimal resource, whole pages of the granularity
    /// count, as Vulkan defines aliases.
    fn overlaps(&self, other: &Self, granularity: u64) -> bool {
        let page = if other.kind.is_optimal() == self.kind.is_optimal() { 1 } else { granularity };
        let pages = |bytes: &Range<u64>| (bytes.start / page, (bytes.end - 1) / page);
        let ((first, last), (other_first, other_last)) = (pages(&self.bytes), pages(&other.bytes));
        first <= other_last && other_first <= last
    }
}

/// Why an activation has to wait, or is refused.
enum Refusal {
    /// For an access by the CPU, or a read that is being submitted.
    Accessed(AllocationId),
    Access(AccessError),
}

impl<D: Device> Allocator<D> {
    /// Returns the bytes of a page that linear and optimal resources may not share.
    fn granularity(&self) -> u64 {
        self.device().properties().limits.buffer_image_granularity.get()
    }

    /// Returns true if an id is one of a placed resource.
    pub(crate) fn is_placed(&self, id: AllocationId) -> bool {
        // Of another allocator's the slot may be the same.
        id.allocator == self.id() && self.placed.slot.get().is_some_and(|slot| *slot == Some(id.pool))
    }

    /// Enters a resource that was created in its place. Returns its token.
    pub(in crate::memory) fn enter_placed(
        &self,
        placement: Placement<'_, D>,
    ) -> Result<(Allocation, Tenancy), AllocationError> {
        let Placement { memory, kept, location, kind, name, call_site, is_planned } = placement;
        let none_left = AllocationError::TooManyAllocations { limit: u32::MAX, name: ShortName::NONE };
        let pool = *self.placed.slot.get_or_init(|| self.pools.take_slot_of_placed());
        let pool = pool.ok_or(none_left)?;
        let slot = self.pools.get(pool).ok_or(none_left)?;
        // The caller keeps the memory, so its token is live.
        let of_memory = self.raw_place(memory).map_err(|_| none_left)?;
        // A flush writes whole atoms back, so what shares one with another resource overlaps it.
        let atom = self.pools.flush_multiple(location.memory_type).get();
        let start = location.offset / atom * atom;
        let bytes = start..(location.offset + location.size.max(1)).div_ceil(atom) * atom;
        // Read without the lock of the placed resources, which is taken last.
        let category = self.info(memory).map_or("", |info| info.category);
        let memory = memory.id();
        let mut state = locked(&self.placed.state);
        let state = &mut *state;
        let record = loop {
            let index = state.tenants.next_index();
            let record = slot.records.get_or_append(index, &mut state.next_records).ok_or(none_left)?;
            if !record.is_spent() {
                break record;
            }
            state.tenants.skip();
        };
        let generation = record.generation();
        let label = Label { name, user_data: 0, category, call_site };
        let mut tenant = Tenant {
            generation,
            memory,
            _kept: kept,
            bytes,
            offset: location.offset - of_memory.offset,
            size: location.size,
            kind,
            label,
            is_planned,
            active: true,
            is_announced: true,
            unsettled: 0,
        };
        let others = || state.overlapping(&tenant, self.granularity());
        let is_alone = others().next().is_none();
        let active = !is_planned && others().all(|(_, other)| !other.active);
        // What overlapped it, and lives, may have been used until now.
        let unsettled = u32::from(active && !is_alone);
        (tenant.active, tenant.is_announced, tenant.unsettled) = (active, unsettled == 0, unsettled);
        record.write(&RawPlace {
            offset: location.offset,
            size: location.size,
            traits: Traits::new(location.memory_type)
                .with(Traits::INACTIVE, !active)
                .with(Traits::UNSETTLED, unsettled != 0),
            ..of_memory
        });
        let bytes = tenant.bytes.clone();
        let record = state.tenants.insert(tenant);
        let in_memory = state.by_memory.entry(memory).or_default();
        in_memory.resources.insert(&bytes, record);
        in_memory.kept_by += 1;
        if let Some(tenant) = state.tenants.get(record) {
            state.events.bound(key(pool, record), || tenant.describe());
        }
        let tenancy = match (active, unsettled) {
            (false, _) => Tenancy::Inactive,
            (true, 0) => Tenancy::Settled,
            (true, _) => Tenancy::Unsettled,
        };
        Ok((Allocation { allocator: self.id(), pool, record, generation }, tenancy))
    }

    /// Gives a placed resource its bytes. The caller sees to it that they are [settled](Self::settle_placed) once the GPU is done
    /// with what it was given until now, if a barrier is needed. `forget` says that the contents are lost: it is called where a
    /// barrier is needed, before the bytes are the resource's own. It locks nothing but the states of an image.
    pub(in crate::memory) fn activate_placed(
        &self,
        id: AllocationId,
        forget: impl Fn(),
    ) -> Result<Activation, AccessError> {
        let slot = self.slot_of(id)?;
        // Until this returns, accesses that begin wait for it: where several threads access the bytes all the time, there is no
        // moment else at which none does.
        let mut wanted: Vec<WantMark<'_>> = Vec::new();
        loop {
            let accessed = match self.try_to_activate(slot, id, &forget) {
                Err(Refusal::Access(error)) => return Err(error),
                Ok(activation) => return Ok(activation),
                Err(Refusal::Accessed(accessed)) => accessed,
            };
            if !wanted.iter().any(|mark| mark.resource() == accessed) {
                wanted.push(self.writers.want(accessed));
            }
            // A call of the driver submits a read, and a transfer waits for the GPU. With no lock held, since the thread that
            // does so may take them.
            self.writers.wait_until_accessed(accessed);
        }
    }

    fn try_to_activate(
        &self,
        slot: &PoolSlot<D>,
        id: AllocationId,
        forget: impl Fn(),
    ) -> Result<Activation, Refusal> {
        let mut state = locked(&self.placed.state);
        let state = &mut *state;
        let tenant = state.tenant_mut(id).ok_or(Refusal::Access(AccessError::Stale))?;
        if tenant.active && tenant.is_announced {
            return Ok(Activation::NONE);
        }
        if tenant.is_planned {
            let name = ShortName::of(tenant.label.name.as_ref());
            return Err(Refusal::Access(AccessError::Transient { name }));
        }
        tenant.is_announced = true;
        if tenant.active {
            forget();
            tenant.unsettled += 1;
            let entry = slot.records.get(id.record).ok_or(Refusal::Access(AccessError::Stale))?;
            entry.set_tenancy(false, true);
            return Ok(Activation { needs_barrier: true, before: None });
        }
        let mut displaced = core::mem::take(&mut state.displaced);
        displaced.clear();
        let tenant = state.tenant(id).ok_or(Refusal::Access(AccessError::Stale))?;
        let active = state.overlapping(tenant, self.granularity()).filter(|(_, other)| other.active);
        displaced.extend(active.map(|(record, other)| (record, other.generation)));
        let id_of = |&(record, generation): &(u32, u32)| AllocationId { record, generation, ..id };
        // No upload to one of them and no read is on its way, which would come after the activation, or begins in between; and no
        // thread writes or reads their bytes by the CPU.
        let given = self.writers.while_unmarked(displaced.iter().map(id_of), || {
            // First: from the change on, copies of other threads are recorded with the states.
            forget();
            let set = |(record, change): (u32, fn(&mut Tenant))| {
                let (tenant, entry) = (state.tenants.get_mut(record)?, slot.records.get(record)?);
                change(tenant);
                entry.set_tenancy(!tenant.active, tenant.unsettled != 0);
                Some(())
            };
            let losers = displaced
                .iter()
                .map(|&(record, _)| -> (u32, fn(&mut Tenant)) { (record, |other| other.active = false) });
            let own: (u32, fn(&mut Tenant)) = (id.record, |own| {
                own.active = true;
                own.unsettled += 1;
            });
            losers.chain([own]).filter_map(set).count()
        });
        let covers = |(record, _): &(u32, u32)| {
            let (own, other) = (state.tenants.get(id.record), state.tenants.get(*record));
            let [own, other] = [own?, other?].map(|tenant| &tenant.bytes);
            (other.start <= own.start && own.end <= other.end).then_some(())
        };
        // Where it had some of the bytes, others may have had the rest.
        let before = match &displaced[..] {
            [before] => covers(before).map(|()| id_of(before)),
            _ => None,
        };
        state.displaced = displaced;
        match given {
            Ok(_) => {
                state.events.activated(id.key(), state.displaced.iter().map(|other| id_of(other).key()));
                Ok(Activation { needs_barrier: true, before })
            }
            Err(Busy::Accessed(other)) => Err(Refusal::Accessed(other)),
            Err(Busy::Written(other)) => {
                let name_of = |id| state.tenant(id).and_then(|tenant| tenant.label.name.as_ref());
                let other = name_of(other).map_or(OtherName::NONE, |name| OtherName::new(name.as_str()));
                let name = ShortName::of(name_of(id));
                Err(Refusal::Access(AccessError::BeingWritten { other, name }))
            }
        }
    }

    /// Notes that the GPU is done with what it was given before an activation.
    pub(in crate::memory) fn settle_placed(&self, id: AllocationId) {
        let Ok(slot) = self.slot_of(id) else { return };
        let mut state = locked(&self.placed.state);
        let Some(tenant) = state.tenant_mut(id) else { return };
        tenant.unsettled = tenant.unsettled.saturating_sub(1);
        let (active, unsettled) = (tenant.active, tenant.unsettled != 0);
        slot.records.get(id.record).into_iter().for_each(|entry| entry.set_tenancy(!active, unsettled));
    }

    /// Returns why the bytes of a placed resource, which is inactive, are not accessed.
    #[cold]
    pub(super) fn inactive(&self, id: AllocationId) -> AccessError {
        let state = locked(&self.placed.state);
        let Some(tenant) = state.tenant(id) else { return AccessError::Stale };
        if tenant.is_planned {
            return AccessError::Transient { name: ShortName::of(tenant.label.name.as_ref()) };
        }
        let active = state.overlapping(tenant, self.granularity()).find(|(_, other)| other.active);
        let name = active.and_then(|(_, other)| other.label.name.as_ref());
        let active = name.map_or(OtherName::NONE, |name| OtherName::new(name.as_str()));
        AccessError::Inactive { active, name: ShortName::of(tenant.label.name.as_ref()) }
    }

    /// Returns true if the bytes of a resource are its own: those of every resource that is not placed.
    pub(crate) fn is_active(&self, id: AllocationId) -> bool {
        !self.is_placed(id) || locked(&self.placed.state).tenant(id).is_some_and(|tenant| tenant.active)
    }

    /// Refuses a resource that no safe call may write to: whose bytes belong to another one, or are still used for one. A write that
    /// is not refused has the barrier with it, so the program needs none from then on, and an activation must not forget the
    /// contents.
    pub(crate) fn check_settled(&self, id: AllocationId) -> Result<(), AccessError> {
        if !self.is_placed(id) {
            return Ok(());
        }
        let settled = {
            let mut state = locked(&self.placed.state);
            state.tenant_mut(id).filter(|tenant| tenant.active).map(|tenant| {
                let is_settled = tenant.unsettled == 0;
                tenant.is_announced |= is_settled;
                is_settled
            })
        };
        match settled {
            Some(true) => Ok(()),
            Some(false) => Err(AccessError::Unsettled { name: ShortName::NONE }),
            None => Err(self.inactive(id)),
        }
    }

    /// Refuses a resource whose bytes belong to another one.
    pub(crate) fn check_active(&self, id: AllocationId) -> Result<(), AccessError> {
        if self.is_active(id) { Ok(()) } else { Err(self.inactive(id)) }
    }

    /// Notes that the program released a placed resource. Returns the bytes that are freed with it: those of the memory, if nothing
    /// else keeps that, which is then released with it.
    pub(in crate::memory) fn release_placed(&self, id: AllocationId) -> u64 {
        let memory = {
            let mut state = locked(&self.placed.state);
            let Some(memory) = state.tenant(id).map(|tenant| tenant.memory) else { return 0 };
            let Some(in_memory) = state.by_memory.get_mut(&memory) else { return 0 };
            in_memory.kept_by = in_memory.kept_by.saturating_sub(1);
            (in_memory.is_released && in_memory.kept_by == 0).then_some(memory)
        };
        let Some(memory) = memory else { return 0 };
        self.note_released(memory);
        self.info_of(memory).map_or(0, |info| info.size)
    }

    /// Notes that the program released memory. Returns true if no resource keeps it that the program has not released.
    pub(in crate::memory) fn release_memory(&self, memory: AllocationId) -> bool {
        let mut state = locked(&self.placed.state);
        let Some(in_memory) = state.by_memory.get_mut(&memory) else { return true };
        in_memory.is_released = true;
        in_memory.kept_by == 0
    }

    /// Removes the memory that the program has released from a list of leaks, though resources keep it.
    pub(super) fn retain_held_memory(&self, leaks: &mut Vec<Leak>) {
        let state = locked(&self.placed.state);
        leaks.retain(|leak| state.by_memory.get(&leak.id).is_none_or(|in_memory| !in_memory.is_released));
    }

    /// Ends a placed resource, which is destroyed. Does nothing with an id of anything else.
    #[cold]
    pub(super) fn free_placed(&self, id: AllocationId) {
        if !self.is_placed(id) {
            return;
        }
        let Some(slot) = self.pools.get(id.pool) else { return };
        // Dropped without the lock: it may be the last that keeps the memory, whose end calls the driver.
        let _ended = {
            let mut state = locked(&self.placed.state);
            let Some(tenant) = state.tenant(id) else { return };
            let (memory, bytes) = (tenant.memory, tenant.bytes.clone());
            state.events.unbound(id.key());
            if let Some(of_memory) = state.by_memory.get_mut(&memory) {
                of_memory.resources.remove(&bytes, id.record);
                if of_memory.resources.is_empty() {
                    state.by_memory.remove(&memory);
                }
            }
            let record = slot.records.get(id.record);
            record.into_iter().for_each(Record::retire);
            if record.is_none_or(Record::is_spent) {
                state.tenants.remove_for_good(id.record)
            } else {
                state.tenants.remove(id.record)
            }
        };
    }

    /// Returns what is known of a placed resource.
    pub(super) fn placed_info(&self, id: AllocationId) -> Result<AllocationInfo<D>, AccessError> {
        let (memory, kind, label, place, maps) = {
            let state = locked(&self.placed.state);
            let tenant = state.tenant(id).ok_or(AccessError::Stale)?;
            let slot = self.pools.get(id.pool).ok_or(AccessError::Stale)?;
            let record = slot.records.get(id.record).ok_or(AccessError::Stale)?;
            let place = record.read(&slot.objects);
            (tenant.memory, tenant.kind, tenant.label.clone(), place, record.maps())
        };
        let Label { name, user_data, category, call_site } = label;
        let of_memory = self.info_of(memory)?;
        Ok(AllocationInfo {
            offset: place.offset,
            size: place.size,
            mapped_ptr: place.address,
            occupied: place.size,
            kind,
            name,
            call_site,
            user_data,
            category,
            // Others may be placed beside it.
            dedicated: false,
            dedicated_to_resource: false,
            maps,
            movability: Movability::Pinned,
            moving: false,
            ..of_memory
        })
    }

    /// Changes the label of a placed resource, and writes an event of that. Returns what `change` returned; `None` where the
    /// resource was destroyed.
    pub(super) fn change_placed_label<T>(
        &self,
        id: AllocationId,
        change: impl FnOnce(&mut Label) -> T,
    ) -> Option<T> {
        let mut state = locked(&self.placed.state);
        let state = &mut *state;
        let tenant = state.tenants.get_mut(id.record).filter(|tenant| tenant.generation == id.generation)?;
        let changed = change(&mut tenant.label);
        state.events.labelled(id.key(), &tenant.label);
        Some(changed)
    }

    /// Returns the beginning of the name of a placed resource; `None` where it was destroyed.
    pub(super) fn short_name_of_placed(&self, id: AllocationId) -> Option<ShortName> {
        locked(&self.placed.state).tenant(id).map(|tenant| ShortName::of(tenant.label.name.as_ref()))
    }

    /// Adds the live placed resources whose records `shows` wants to a list of leaks.
    pub(super) fn add_placed_leaks(&self, leaks: &mut Vec<Leak>, shows: impl Fn(&Record) -> bool) {
        let Some(pool) = self.placed.slot.get().copied().flatten() else { return };
        let Some(slot) = self.pools.get(pool) else { return };
        let mut of_memory = Vec::new();
        {
            let state = locked(&self.placed.state);
            for (record, tenant) in state.tenants.iter() {
                let Some(entry) = slot.records.get(record).filter(|it| shows(it)) else { continue };
                let Label { name, user_data, category, call_site } = tenant.label.clone();
                let place = entry.read(&slot.objects);
                of_memory.push(tenant.memory);
                leaks.push(Leak {
                    name,
                    size: entry.size(),
                    kind: tenant.kind,
                    category,
                    user_data,
                    pool: None,
                    memory_type: place.memory_type(),
                    call_site,
                    placed_in: None,
                    id: AllocationId { allocator: self.id(), pool, record, generation: tenant.generation },
                    place: Some((tenant.memory, place.offset)),
                });
            }
        }
        // The names after that lock: that of a pool is never taken under it.
        let first = leaks.len() - of_memory.len();
        for (leak, memory) in leaks[first..].iter_mut().zip(of_memory) {
            let name = self.info_of(memory).ok().and_then(|info| info.name);
            leak.placed_in = Some(name.unwrap_or(Name::Static("(no name)")));
        }
    }
}

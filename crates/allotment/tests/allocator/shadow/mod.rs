//! A second, naive picture of an allocator that the real one is held against after every operation.
//!
//! The model knows what is live and what its bytes are; where things stand it only looks at. Any bytes
//! are a test: twelve of them are one operation.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    DeviceError, MemoryDevice as _, MemoryHandle, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex,
};
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::memory::names::ShortName;
use allotment::memory::preview::AllocationPreview;
use allotment::memory::reports::Statistics;
use allotment::memory::{
    AccessError, BudgetPolicy, CreatePoolError, Dedicated, DestroyPoolError, ExpectedLifetime,
    MemoryLocation, Movability, NewBlocks,
};
use allotment::memory::{FitStrategy, StackSide};
use allotment::{
    Algorithm, Alignment, Allocation, AllocationError, MemoryUsage, Pool, PoolDesc, Requirements,
    ResourceKind,
};

mod checks;

use crate::rig::{AllocateWanted as _, KIB, MIB, Rig, Wanted, small_blocks};

/// One operation. Numbers are folded into a useful range by [`Op::decode`].
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Allocate { pool: Option<usize>, wish: Wish },
    Free { which: usize },
    TouchStale,
    Write { which: usize, at: u64, seed: u8 },
    Map { which: usize },
    Unmap { which: usize },
    Rename { which: usize },
    EndFrames { count: u8 },
    Trim,
    CreatePool { shape: [u8; 8] },
    ResetPool { which: usize },
    DestroyPool { which: usize },
    SetBudget { heap: u8, mib: u8 },
}

/// The request, without what only the device knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    size: u64,
    alignment: u64,
    memory_usage: MemoryUsage,
    kind: ResourceKind,
    lifetime: ExpectedLifetime,
    dedicated: Dedicated,
    new_blocks: NewBlocks,
    budget: BudgetPolicy,
    strategy: FitStrategy,
    side: StackSide,
    /// Ask the device what such a resource needs, rather than take any memory type.
    real: bool,
    /// Which call of the driver's fails meanwhile.
    fault: Option<u64>,
}

const KINDS: [ResourceKind; 4] =
    [ResourceKind::Buffer, ResourceKind::LinearImage, ResourceKind::OptimalImage, ResourceKind::Unknown];

const STRATEGIES: [FitStrategy; 4] =
    [FitStrategy::Balanced, FitStrategy::LeastTime, FitStrategy::LeastMemory, FitStrategy::LowestOffset];

fn pick<T: Copy, const N: usize>(values: [T; N], byte: u8) -> T {
    values[usize::from(byte) % N]
}

/// `rare` in one case of sixteen.
fn seldom<T>(byte: u8, usual: T, rare: T) -> T {
    if byte % 16 == 15 { rare } else { usual }
}

impl Op {
    /// `[kind, a, b, c, …]`: the kind, then what it needs.
    pub(crate) fn decode(bytes: [u8; 12]) -> Self {
        let [kind, a, b, c, d, e, f, g, h, ..] = bytes;
        let which = usize::from(u16::from_le_bytes([a, b]));
        match kind % 32 {
            0..12 => Self::Allocate { pool: None, wish: Wish::decode(bytes) },
            12..16 => Self::Allocate { pool: Some(which), wish: Wish::decode(bytes) },
            16..22 => Self::Free { which },
            22 => Self::TouchStale,
            23 | 24 => Self::Write { which, at: u64::from(c) << (d % 16), seed: e },
            25 => Self::Map { which },
            26 => Self::Unmap { which },
            27 if kind < 128 => Self::Rename { which },
            27 => Self::Trim,
            28 => Self::EndFrames { count: 1 + a % 4 },
            29 => Self::CreatePool { shape: [a, b, c, d, e, f, g, h] },
            30 if kind < 128 => Self::ResetPool { which },
            30 => Self::DestroyPool { which },
            _ => Self::SetBudget { heap: a, mib: b },
        }
    }
}

impl Wish {
    fn decode([_, _, _, c, d, e, f, g, h, i, j, k]: [u8; 12]) -> Self {
        let wide = u64::from(u32::from_le_bytes([c, d, h, 0]));
        let size = match e % 16 {
            0..4 => wide % 256,
            4..8 => wide % (4 * KIB),
            8..12 => wide % (64 * KIB),
            12 | 13 => wide % MIB,
            14 => wide % (3 * MIB),
            _ => ((1 << (wide % 21)) + u64::from(e / 16)).saturating_sub(8),
        };
        Self {
            size: size.max(1),
            alignment: 1 << if f < 160 { f % 9 } else { f % 17 },
            memory_usage: pick(MemoryUsage::ALL, g),
            kind: pick(KINDS, g / 5),
            lifetime: if h % 3 == 0 { ExpectedLifetime::Short } else { ExpectedLifetime::Long },
            dedicated: seldom(h / 3, seldom(i, Dedicated::Automatic, Dedicated::Always), Dedicated::Never),
            new_blocks: seldom(i / 16, NewBlocks::Allowed, NewBlocks::NeverAllocate),
            budget: if j % 4 == 0 { BudgetPolicy::WithinBudget } else { BudgetPolicy::AllowOverBudget },
            strategy: pick(STRATEGIES, j / 4),
            side: seldom(j / 16, StackSide::Lower, StackSide::Upper),
            real: k % 4 != 0,
            fault: (k >= 236).then_some(1 + u64::from(k % 3)),
        }
    }

    fn desc(&self, device: &SimulatedGpu) -> Wanted {
        let alignment = Alignment::new(self.alignment).unwrap();
        let own = Requirements::new(self.size).with_alignment(alignment);
        let needs = if self.real { device.requirements(self.kind, own) } else { own };
        let mut desc = Wanted::new(needs, self.memory_usage);
        desc.requirements.kind = self.kind;
        (desc.lifetime, desc.dedicated) = (self.lifetime, self.dedicated);
        (desc.new_blocks, desc.budget) = (self.new_blocks, self.budget);
        (desc.strategy, desc.side) = (self.strategy, self.side);
        desc.user_data = self.size;
        // No defragmentation runs here: it only says beside which allocations this one is placed.
        desc.movability = if self.size % 3 == 0 { Movability::Copied } else { Movability::Pinned };
        desc
    }
}

/// Bytes at each end of an allocation that the model keeps.
const WINDOW: usize = 128;

/// The model's state of a live allocation.
struct Live {
    token: Allocation,
    place: MemoryLocation<SimulatedGpu>,
    desc: Wanted,
    /// Index of its custom pool.
    pool: Option<usize>,
    maps: u32,
    /// The bytes at its two ends, where the CPU can access them.
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Live {
    /// The name as errors have it.
    fn short_name(&self) -> ShortName {
        self.desc.name.as_ref().map_or(ShortName::NONE, |name| ShortName::new(name.as_str()))
    }

    fn tail_offset(&self) -> u64 {
        self.place.size - self.tail.len() as u64
    }

    fn range(&self) -> (u64, u64, u64) {
        (self.place.memory.to_raw(), self.place.offset, self.place.offset + self.place.size)
    }
}

struct CustomPool {
    pool: Pool,
    desc: PoolDesc,
}

/// An allocator, and what the model knows of it.
pub(crate) struct Pair {
    rig: Rig,
    live: Vec<Live>,
    pools: Vec<Option<CustomPool>>,
    stale: Vec<Allocation>,
    peak: Vec<u64>,
    serial: u8,
    /// A driver call failed once: since then the driver may be thought to be unable to map.
    faulted: bool,
}

/// All that a caller can see, counters of calls apart.
#[derive(Debug, PartialEq)]
struct Picture {
    statistics: Statistics,
    objects: u32,
    bytes: u64,
    empty_blocks: u32,
    map_calls: u64,
    dump: String,
}

/// A machine with enough memory for every request, or with little.
fn machine(which: u8, tight: bool) -> Profile {
    let all = Profile::all();
    let mut profile = all[usize::from(which) % all.len()].clone();
    if tight {
        for (i, heap) in profile.heaps.iter_mut().enumerate() {
            heap.size = (6 + 5 * i as u64) * MIB + u64::from(which) * 4 * KIB;
        }
        profile.limits.max_allocation_count = 24;
    }
    profile
}

/// Returns true where a request gets an address with host-visible memory. What may be staged gets none where the driver
/// does not map.
fn needs_address(desc: &Wanted, faulted: bool) -> bool {
    let of_host =
        MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT | MemoryProperties::HOST_CACHED;
    let must = matches!(desc.usage, MemoryUsage::Upload | MemoryUsage::Readback | MemoryUsage::DeviceMapped);
    let may = desc.usage == MemoryUsage::DeviceUpload || desc.preferred.intersects(of_host);
    must || desc.required.intersects(of_host) || (may && !faulted)
}

/// Runs the operations and panics at the first difference between the allocator and its model.
pub(crate) fn run(algorithm: Algorithm, empty_blocks: EmptyBlockPolicy, which: u8, tight: bool, ops: &[Op]) {
    let rig = Rig::with(machine(which, tight), |desc| {
        desc.algorithm = algorithm;
        desc.empty_blocks = empty_blocks;
        if which % 2 == 0 {
            desc.block_sizes = small_blocks(128 * KIB, 2 * MIB);
        }
    });
    let heaps = rig.device.properties().heaps.len();
    let mut pair = Pair {
        rig,
        live: Vec::new(),
        pools: Vec::new(),
        stale: Vec::new(),
        peak: vec![0; heaps],
        serial: 0,
        faulted: false,
    };
    for op in ops {
        pair.step(op);
        pair.check();
    }
    pair.finish();
}

impl Pair {
    fn step(&mut self, op: &Op) {
        match *op {
            Op::Allocate { pool: None, wish } => self.allocate(&wish),
            Op::Allocate { pool: Some(which), wish } => {
                if let Some(at) = self.pick_pool(which) {
                    self.allocate_in(at, &wish);
                }
            }
            Op::Free { which } => {
                if let Some(at) = which.checked_rem(self.live.len()) {
                    let live = self.live.swap_remove(at);
                    self.rig.free(live.token).unwrap();
                }
            }
            Op::TouchStale => self.touch_stale(),
            Op::Write { which, at, seed } => self.write(which, at, seed),
            Op::Map { which } => self.map(which),
            Op::Unmap { which } => self.unmap(which),
            Op::Rename { which } => self.rename(which),
            Op::EndFrames { count } => (0..count).for_each(|_| self.rig.end_frame()),
            Op::Trim => self.trim(),
            Op::CreatePool { shape } => self.create_pool(shape),
            Op::ResetPool { which } => {
                if let Some(at) = self.pick_pool(which) {
                    self.reset_pool(at);
                }
            }
            Op::DestroyPool { which } => {
                if let Some(at) = self.pick_pool(which) {
                    self.destroy_pool(at);
                }
            }
            Op::SetBudget { heap, mib } => {
                let heap = MemoryHeapIndex(heap % self.peak.len() as u8);
                self.rig.device.set_budget(heap, u64::from(mib % 32) * MIB);
                self.rig.refresh_budgets();
            }
        }
    }

    fn pick_pool(&self, which: usize) -> Option<usize> {
        let there: Vec<usize> = (0..self.pools.len()).filter(|&at| self.pools[at].is_some()).collect();
        which.checked_rem(there.len()).map(|at| there[at])
    }

    fn pool(&self, at: usize) -> &CustomPool {
        self.pools[at].as_ref().unwrap()
    }

    fn picture(&self) -> Picture {
        let usage = self.rig.device.usage();
        Picture {
            statistics: self.rig.statistics(),
            objects: usage.memory_objects,
            bytes: usage.memory_bytes,
            empty_blocks: self
                .rig
                .reports()
                .detailed_statistics()
                .iter()
                .map(|detailed| detailed.empty_blocks)
                .sum(),
            map_calls: usage.map_calls,
            dump: self.rig.reports().dump_json(),
        }
    }

    fn reserved(&self) -> Vec<u64> {
        self.rig.reports().memory_heaps().iter().map(|report| report.reserved).collect()
    }

    /// Calls `call` while the driver fails as the wish says.
    fn with_fault<T>(&mut self, wish: &Wish, call: impl FnOnce(&Self) -> T) -> T {
        self.faulted |= wish.fault.is_some();
        if let Some(k) = wish.fault {
            let error =
                [DeviceError::OutOfDeviceMemory, DeviceError::OutOfHostMemory, DeviceError::MapFailed];
            self.rig.device.fail_call(k, error[k as usize % 3]);
        }
        let result = call(self);
        self.rig.device.clear_faults();
        result
    }

    fn allocate(&mut self, wish: &Wish) {
        let desc = wish.desc(&self.rig.device);
        let (before, reserved) = (self.picture(), self.reserved());
        let forecast = self.rig.preview_wanted(&desc);
        assert_eq!(self.picture(), before, "a forecast changes nothing");
        let calls = self.rig.device.usage().allocate_calls;
        let result = self.with_fault(wish, |this| this.rig.allocate_wanted(&desc));
        let called = self.rig.device.usage().allocate_calls - calls;
        // Blocks that were kept may make room that the forecast does not count on, and a driver that
        // refuses is no rule of the allocator's.
        let exact = before.empty_blocks == 0 && wish.fault.is_none();
        match (forecast, &result) {
            (Ok(AllocationPreview::Fits { .. }), Ok(_)) if !exact => {}
            (Ok(AllocationPreview::Fits { memory_type }), Ok(token)) => {
                assert_eq!((self.rig.type_of(token), called), (memory_type, 0));
            }
            (Ok(AllocationPreview::Fits { .. }), Err(error)) if wish.fault.is_none() => {
                panic!("{desc:?} fits, yet: {error}")
            }
            (Ok(AllocationPreview::Grows { memory_type, heap, bytes }), result) => {
                let size = self.rig.device.properties().heaps[heap.get()].size;
                if exact && reserved[heap.get()] + bytes <= size {
                    let token = result.as_ref().unwrap();
                    assert_eq!(self.rig.type_of(token), memory_type);
                    assert_eq!(self.rig.taken(heap) - reserved[heap.get()], bytes);
                }
            }
            (Err(error), result) if exact => assert_eq!(result.as_ref().err(), Some(&error)),
            (Ok(AllocationPreview::Fits { .. }) | Err(_), _) => {}
            (forecast, _) => panic!("an unknown forecast: {forecast:?}"),
        }
        self.allocated(result, None, &desc, &before, &reserved, called);
    }

    fn allocate_in(&mut self, at: usize, wish: &Wish) {
        let desc = wish.desc(&self.rig.device);
        let (before, reserved) = (self.picture(), self.reserved());
        let calls = self.rig.device.usage().allocate_calls;
        let result = self.with_fault(wish, |this| this.rig.allocate_wanted_in(&this.pool(at).pool, &desc));
        let called = self.rig.device.usage().allocate_calls - calls;
        self.allocated(result, Some(at), &desc, &before, &reserved, called);
    }

    /// Takes note of what came of a request.
    fn allocated(
        &mut self,
        result: Result<Allocation, AllocationError>,
        pool: Option<usize>,
        desc: &Wanted,
        before: &Picture,
        reserved: &[u64],
        called: u64,
    ) {
        assert!(desc.new_blocks == NewBlocks::Allowed || called == 0, "{desc:?} must not call the driver");
        let minds = desc.budget == BudgetPolicy::WithinBudget
            || pool.is_some_and(|at| self.pool(at).desc.budget == BudgetPolicy::WithinBudget);
        if minds {
            for (heap, report) in self.rig.reports().memory_heaps().iter().enumerate() {
                assert!(
                    report.reserved <= reserved[heap] || report.usage <= report.budget,
                    "{desc:?} within the budget led to {report:?}"
                );
            }
        }
        match result {
            Ok(token) => self.take_note(token, pool, desc),
            Err(error) => self.check_refusal(error, pool, desc, before),
        }
    }

    fn take_note(&mut self, token: Allocation, pool: Option<usize>, desc: &Wanted) {
        let place = self.rig.location(&token).unwrap();
        let needs = &desc.requirements;
        assert_eq!(place.size, needs.size);
        assert!(needs.alignment.is_aligned(place.offset), "{desc:?} at {}", place.offset);
        assert!(needs.memory_types.contains(place.memory_type), "{desc:?} in {}", place.memory_type);
        let (mapped, visible) = (place.mapped_ptr.is_some(), self.is_visible(&place));
        assert!(visible || !mapped);
        if visible && needs_address(desc, self.faulted) {
            assert!(mapped, "{desc:?} at {place:?}");
        }
        if let Some(at) = pool {
            let rules = &self.pool(at).desc;
            assert!(rules.memory_types.contains(&place.memory_type));
            assert!(rules.alignment.is_aligned(place.offset));
        }
        let dedicated = self.rig.is_dedicated(&token);
        match desc.dedicated {
            Dedicated::Always => assert!(dedicated && place.offset == 0),
            Dedicated::Never => assert!(!dedicated),
            Dedicated::Automatic => {}
        }
        let mut live =
            Live { token, place, desc: desc.clone(), pool, maps: 0, head: Vec::new(), tail: Vec::new() };
        if mapped {
            self.fill(&mut live);
        }
        self.live.push(live);
    }

    fn is_visible(&self, place: &MemoryLocation<SimulatedGpu>) -> bool {
        self.properties_of(place.memory_type).contains(MemoryProperties::HOST_VISIBLE)
    }

    /// Accesses an allocation that the CPU can reach for the first time.
    fn begin_access(&mut self, which: usize) {
        let Some(at) = which.checked_rem(self.live.len()) else { return };
        if self.live[at].head.is_empty() && self.is_visible(&self.live[at].place) {
            let mut live = self.live.remove(at);
            self.fill(&mut live);
            self.live.insert(at, live);
        }
    }

    /// Writes new bytes to both ends.
    fn fill(&mut self, live: &mut Live) {
        let size = live.place.size as usize;
        live.head = vec![0; size.min(WINDOW)];
        live.tail = vec![0; size.saturating_sub(WINDOW).min(WINDOW)];
        for byte in live.head.iter_mut().chain(&mut live.tail) {
            self.serial = self.serial.wrapping_add(37);
            *byte = self.serial;
        }
        self.rig.write(&live.token, 0, &live.head).unwrap();
        self.rig.write(&live.token, live.tail_offset(), &live.tail).unwrap();
    }

    fn check_refusal(&self, error: AllocationError, pool: Option<usize>, desc: &Wanted, before: &Picture) {
        match error {
            AllocationError::OverBudget { requested, usage, budget, .. } => {
                assert!(usage + requested > budget, "{error}");
            }
            AllocationError::PoolFull { requested, max_blocks, free, largest_free, .. } => {
                assert_eq!(requested, desc.requirements.size);
                assert_eq!(max_blocks, self.pool(pool.unwrap()).desc.max_blocks);
                assert!(largest_free <= free);
            }
            AllocationError::WouldGrow { requested, .. } => {
                assert_eq!((requested, desc.new_blocks), (desc.requirements.size, NewBlocks::NeverAllocate));
            }
            AllocationError::DedicatedInFixedPool { .. } => {
                assert_eq!(desc.dedicated, Dedicated::Always);
                assert!(matches!(self.pool(pool.unwrap()).desc.sizing, Some(BlockSize::Fixed(_))));
            }
            AllocationError::UpperSide { name: ShortName::NONE } => assert_eq!(desc.side, StackSide::Upper),
            AllocationError::NoMemoryType { .. }
            | AllocationError::NotInPool { .. }
            | AllocationError::NoTypeWithProperties { .. }
            | AllocationError::TooManyAllocations { .. }
            | AllocationError::OutOfMemory { .. }
            | AllocationError::Device { .. }
            | AllocationError::TooLargeForBlock { .. } => {}
            error => panic!("unexpected: {error}"),
        }
        let asked_driver = desc.new_blocks == NewBlocks::Allowed
            && !matches!(
                error,
                AllocationError::UpperSide { .. } | AllocationError::DedicatedInFixedPool { .. }
            );
        self.check_unchanged(asked_driver, before, &format!("a refused call changes nothing: {error}"));
    }

    fn check_unchanged(&self, asked_driver: bool, before: &Picture, why: &str) {
        let after = self.picture();
        if asked_driver && before.empty_blocks != after.empty_blocks {
            // Blocks that were kept were given back to make room, in vain.
            assert_eq!(before.empty_blocks - after.empty_blocks, before.objects - after.objects);
            assert_eq!(before.statistics.allocation_bytes, after.statistics.allocation_bytes);
        } else if before.map_calls == after.map_calls {
            assert_eq!(&after, before, "{why}");
        } else {
            // A block that the request was placed in could not be mapped. It may have been an empty one.
            let seen =
                |it: &Picture| (it.statistics.allocations, it.statistics.block_bytes, it.objects, it.bytes);
            assert_eq!(seen(&after), seen(before), "{why}");
        }
    }

    fn touch_stale(&mut self) {
        let before = self.picture();
        let Some(token) = self.stale.pop() else { return };
        assert_eq!(self.rig.location(&token).unwrap_err(), AccessError::Stale);
        assert_eq!(self.rig.info(&token).unwrap_err(), AccessError::Stale);
        assert_eq!(self.rig.write(&token, 0, &[1]), Err(AccessError::Stale));
        assert_eq!(self.rig.map(&token), Err(AccessError::Stale));
        assert_eq!(self.rig.set_name(&token, Some("stale".into())), Err(AccessError::Stale));
        self.rig.free(token).unwrap();
        assert_eq!(self.picture(), before, "a token of a pool that was reset is stale");
    }

    fn pick(&mut self, which: usize) -> Option<(&mut Live, &Rig)> {
        let at = which.checked_rem(self.live.len())?;
        Some((&mut self.live[at], &self.rig))
    }

    fn write(&mut self, which: usize, at: u64, seed: u8) {
        self.begin_access(which);
        let Some((live, rig)) = self.pick(which) else { return };
        if live.head.is_empty() {
            let refused = rig.write(&live.token, 0, &[seed]);
            assert_eq!(
                refused,
                Err(AccessError::NotHostVisible {
                    memory_type: live.place.memory_type,
                    name: live.short_name()
                })
            );
            return;
        }
        let tail_offset = live.tail_offset();
        let (window, base) = if at % 2 == 0 { (&mut live.head, 0) } else { (&mut live.tail, tail_offset) };
        let Some(from) = (at as usize / 2).checked_rem(window.len()) else { return };
        window[from..].iter_mut().enumerate().for_each(|(i, byte)| *byte = seed.wrapping_add(i as u8));
        rig.write(&live.token, base + from as u64, &window[from..]).unwrap();
        let beyond = live.place.size - 1;
        let out = AccessError::OutOfRange {
            offset: beyond,
            size: 2,
            available: live.place.size,
            name: live.short_name(),
        };
        assert_eq!(rig.write(&live.token, beyond, &[0; 2]), Err(out));
    }

    fn map(&mut self, which: usize) {
        let Some((live, rig)) = self.pick(which) else { return };
        let memory_type = live.place.memory_type;
        let mapped = rig.map(&live.token);
        let expected = rig.location(&live.token).unwrap().mapped_ptr;
        let expected = expected.ok_or(AccessError::NotHostVisible { memory_type, name: live.short_name() });
        assert_eq!(mapped, expected);
        live.maps += u32::from(mapped.is_ok());
        assert_eq!(mapped.is_ok(), self.is_visible(&self.live[which % self.live.len()].place));
        self.begin_access(which);
    }

    fn unmap(&mut self, which: usize) {
        let Some((live, rig)) = self.pick(which) else { return };
        let expected =
            if live.maps == 0 { Err(AccessError::NotMapped { name: live.short_name() }) } else { Ok(()) };
        assert_eq!(rig.unmap(&live.token), expected);
        live.maps -= u32::from(expected.is_ok());
    }

    fn rename(&mut self, which: usize) {
        let Some((live, rig)) = self.pick(which) else { return };
        live.desc.name = if live.desc.name.is_some() { None } else { Some("renamed".into()) };
        live.desc.user_data += 1;
        rig.set_name(&live.token, live.desc.name.clone()).unwrap();
        rig.set_user_data(&live.token, live.desc.user_data).unwrap();
    }

    fn trim(&mut self) {
        let before = self.picture();
        let any = self.rig.trim();
        let after = self.picture();
        assert_eq!(any, before.objects != after.objects);
        let kept: u32 = self.pools.iter().flatten().map(|custom| custom.desc.min_blocks).sum();
        assert!(after.empty_blocks <= kept, "{} empty blocks survive a trim", after.empty_blocks);
    }

    fn create_pool(&mut self, [a, b, c, d, e, f, g, h]: [u8; 8]) {
        let types = self.rig.device.properties().memory_types.len() as u8;
        let count = usize::from(if b < 128 { 1 } else { types.min(2 + b % 2) });
        let memory_types = (0..types).cycle().skip(usize::from(a % types)).take(count);
        let mut desc = PoolDesc::new(memory_types.map(MemoryTypeIndex));
        desc.algorithm = pick(Algorithm::ALL, c);
        desc.sizing = Some(match d % 4 {
            0 => BlockSize::Fixed(256 * KIB),
            1 => BlockSize::Fixed(1 + u64::from(e) * 777),
            2 => BlockSize::Growing(small_blocks(64 * KIB, MIB)),
            _ => BlockSize::Growing(small_blocks(16 * KIB, 128 * KIB)),
        });
        desc.min_blocks = u32::from(d / 4 % 3);
        desc.max_blocks = pick([u32::MAX, 1, 2, 3], d / 16);
        desc.alignment = Alignment::new(1 << (f % 13)).unwrap();
        desc.ignore_granularity = f >= 208;
        desc.separate_movable = h >= 160;
        desc.empty_blocks = if g < 128 { EmptyBlockPolicy::NONE } else { EmptyBlockPolicy::default() };
        desc.budget = if h % 3 == 0 { BudgetPolicy::WithinBudget } else { BudgetPolicy::AllowOverBudget };
        if self.pools.iter().flatten().count() == 4 {
            return;
        }
        let before = self.picture();
        match self.rig.create_pool(desc.clone()) {
            Ok(pool) => {
                let statistics = self.rig.reports().pool_statistics(&pool).unwrap();
                assert_eq!((statistics.blocks, statistics.dedicated), (desc.min_blocks, 0));
                self.pools.push(Some(CustomPool { pool, desc }));
                // Idle blocks may have been freed for the second block, after the first.
                self.reset_peaks();
            }
            Err(CreatePoolError::BlockCounts { min, max, .. }) => assert!(min > max),
            Err(CreatePoolError::FirstBlocks(_)) => {
                assert!(desc.min_blocks > 0);
                self.check_unchanged(true, &before, "a pool that is not made changes nothing");
                self.reset_peaks();
            }
            Err(error) => panic!("unexpected: {error}"),
        }
    }

    /// Blocks that were there for a moment, before the next one was refused, are in the peak.
    fn reset_peaks(&mut self) {
        let peaks = self.rig.reports().memory_heaps();
        self.peak = peaks.iter().map(|report| report.peak_reserved).collect();
    }

    fn reset_pool(&mut self, at: usize) {
        self.rig.reset_pool(&self.pool(at).pool).unwrap();
        let (gone, live) =
            core::mem::take(&mut self.live).into_iter().partition(|live: &Live| live.pool == Some(at));
        self.live = live;
        self.stale = gone.into_iter().map(|live| live.token).collect();
    }

    fn destroy_pool(&mut self, at: usize) {
        let before = self.picture();
        let CustomPool { pool, desc } = self.pools[at].take().unwrap();
        let held = self.rig.reports().pool_statistics(&pool).unwrap();
        match self.rig.destroy_pool(pool) {
            Ok(()) => {
                assert_eq!(held.allocations, 0);
                let objects = self.rig.device.usage().memory_objects;
                assert_eq!(before.objects - objects, held.blocks + held.dedicated);
            }
            Err(DestroyPoolError::InUse { pool, allocations }) => {
                assert_eq!(allocations, held.allocations);
                assert_eq!(self.picture(), before, "a pool that is in use is left alone");
                self.pools[at] = Some(CustomPool { pool, desc });
            }
            Err(error) => panic!("unexpected: {error}"),
        }
    }

    fn properties_of(&self, memory_type: MemoryTypeIndex) -> MemoryProperties {
        self.rig.device.properties().memory_type(memory_type).unwrap().properties
    }

    /// Frees everything; the rig checks what is left.
    fn finish(mut self) {
        self.rig.free_all(self.live.drain(..).map(|live| live.token));
        for CustomPool { pool, .. } in self.pools.drain(..).flatten() {
            self.rig.destroy_pool(pool).unwrap();
        }
        self.check();
    }
}

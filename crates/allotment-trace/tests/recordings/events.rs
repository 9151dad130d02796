//! Events that make sense to nobody, and events that mostly make sense.

use allotment::device::{
    DedicatedNeed, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, MemoryTypeMask, QueueIndex,
    ResourceKind,
};
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use allotment::memory::{BudgetPolicy, Dedicated, ExpectedLifetime, NewBlocks};
use allotment::memory::{FitStrategy, StackSide};
use allotment::{Algorithm, Alignment, MemoryUsage};
use allotment_trace::recording::{
    Allocated, AllocationKey, Api, BlockId, BlockKind, BoundResource, DeletionQueueKind, DescriptorKind,
    Event, Header, Heap, MemoryType, ObjectId, Placement, PoolId, Recording, RefusalReason, RefusedRequest,
    RequestedOptions, RingKind, StackFrame, StackId, StallKind, TextId,
};
use proptest::prelude::*;
use proptest::sample::select;

/// How many kinds of events there are.
pub(crate) const KINDS: u32 = 48;

const RESOURCES: [ResourceKind; 4] =
    [ResourceKind::Buffer, ResourceKind::LinearImage, ResourceKind::OptimalImage, ResourceKind::Unknown];

/// The numbers that an event is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    kind: u32,
    /// Ids and the like.
    ids: [u64; 3],
    sizes: [u64; 4],
    codes: [u8; 4],
    texts: [u32; 2],
    flags: [bool; 2],
}

fn code<T: Copy>(all: &[T], code: u8) -> T {
    all[usize::from(code) % all.len()]
}

impl Numbers {
    pub(crate) fn event(self) -> Event {
        let Self { kind, ids, sizes, codes, texts, flags } = self;
        let allocation = AllocationKey(ids[0]);
        let reservation = AllocationKey(ids[1]);
        let block = BlockId(ids[2]);
        let pool = PoolId(ids[1] as u32);
        let object = ObjectId(ids[0] as u32);
        let [name, category] = texts.map(TextId);
        let [a, b, c, d] = sizes;
        match kind % KINDS {
            0 => Event::Time { nanoseconds: a },
            1 => Event::FrameEnd { number: a },
            2 => Event::Mark { text: name },
            3 => Event::Lost,
            4 => Event::PoolCreated {
                pool,
                name,
                algorithm: code(
                    &[Some(Algorithm::Tlsf), Some(Algorithm::Buddy), Some(Algorithm::Linear), None],
                    codes[0],
                ),
                custom: flags[0],
            },
            5 => Event::PoolDestroyed { pool },
            6 => Event::BlockAllocated {
                block,
                pool,
                memory_type: MemoryTypeIndex(codes[1]),
                kind: code(BlockKind::ALL, codes[0]),
                size: a,
            },
            7 => Event::BlockFreed { block },
            8 => {
                let usages = MemoryUsage::ALL.map(Some);
                Event::Allocated(Allocated {
                    allocation,
                    block,
                    offset: a,
                    requested: b,
                    occupied: c,
                    user_data: d,
                    name,
                    category,
                    alignment: Alignment::new(1 << (codes[0] % 49)).unwrap(),
                    usage: if flags[0] && flags[1] { None } else { code(&usages, codes[1]) },
                    kind: code(&RESOURCES, codes[2]),
                    placement: code(Placement::ALL, codes[3]),
                    second_choice: flags[0],
                    movable: flags[1],
                })
            }
            9 => Event::CallSite { allocation, site: name },
            10 => Event::Labelled { allocation, name, category, user_data: a },
            11 => Event::FreeRequested { allocation },
            12 => Event::Freed { allocation },
            13 => Event::Exchanged { allocation, reservation },
            14 => Event::Reserved { reservation, allocation },
            15 => Event::Mapped { allocation, count: b as u32 },
            16 => Event::Movable { allocation, movable: flags[0] },
            17 => Event::BlockShared { block },
            30 => Event::BlockResized { block, size: a },
            18 => Event::Budget { heap: MemoryHeapIndex(codes[0]), usage: a, budget: b },
            19 => Event::Refused {
                reason: code(RefusalReason::ALL, codes[0]),
                requested: a,
                available: b,
                largest_free: c,
                name,
            },
            20 => Event::Stalled { kind: code(StallKind::ALL, codes[0]), nanoseconds: a },
            21 => Event::Submitted { queue: QueueIndex(codes[0]), value: a },
            22 => Event::Completed { queue: QueueIndex(codes[0]), value: a },
            23 => Event::DescriptorHeapCreated {
                heap: object,
                kind: code(DescriptorKind::ALL, codes[0]),
                capacity: a as u32,
                name,
            },
            24 => Event::DescriptorHeapDestroyed { heap: object },
            25 => Event::DescriptorsAllocated { heap: object, first: a as u32, count: b as u32 },
            26 => Event::DescriptorsFreed { heap: object, first: a as u32, count: b as u32 },
            27 => Event::RingCreated { ring: object, kind: code(RingKind::ALL, codes[0]), capacity: a, name },
            28 => Event::RingUsed { ring: object, used: a },
            29 => Event::RingDestroyed { ring: object },
            31 => Event::DeletionQueue {
                queue: object,
                kind: code(DeletionQueueKind::ALL, codes[0]),
                waiting: a as u32,
            },
            _ => self.sized(),
        }
    }

    /// An event whose record has its length.
    fn sized(self) -> Event {
        let Self { kind, ids, sizes: [a, b, c, d], codes, flags, texts } = self;
        let (pool, memory_type) = (PoolId(ids[1] as u32), MemoryTypeIndex(codes[1]));
        let properties = |number| MemoryProperties::from_bits_truncate(number as u32);
        let budget = code(&[BudgetPolicy::AllowOverBudget, BudgetPolicy::WithinBudget], codes[0]);
        let options = RequestedOptions {
            dedicated: code(&[Dedicated::Automatic, Dedicated::Always, Dedicated::Never], codes[1]),
            need: code(&[DedicatedNeed::None, DedicatedNeed::Preferred, DedicatedNeed::Required], codes[2]),
            new_blocks: code(&[NewBlocks::Allowed, NewBlocks::NeverAllocate], codes[3]),
            budget,
            strategy: code(
                &[
                    FitStrategy::Balanced,
                    FitStrategy::LeastTime,
                    FitStrategy::LeastMemory,
                    FitStrategy::LowestOffset,
                ],
                codes[1],
            ),
            side: code(&[StackSide::Lower, StackSide::Upper], codes[2]),
            skips_quick_lists: flags[1],
            with_resource: flags[0],
            required: properties(c),
            preferred: properties(d),
            avoided: properties(a),
            last_heap: false,
        };
        match kind % KINDS {
            32 => Event::PoolServes {
                pool,
                first: PoolId(ids[0] as u32),
                shard: a as u32,
                memory_types: MemoryTypeMask(b as u32),
                first_type: memory_type,
                lifetime: code(&[ExpectedLifetime::Long, ExpectedLifetime::Short], codes[0]),
                optimal_images: flags[0],
                movers: codes[1],
            },
            33 => {
                let mut sizes = BlockSizes::fixed(a);
                (sizes.largest, sizes.growth_divisor, sizes.dedicated_threshold_divisor) = (b, c, d);
                let sizing = if flags[0] { BlockSize::Fixed(a) } else { BlockSize::Growing(sizes) };
                Event::PoolSized { pool, sizing, min_blocks: b as u32, max_blocks: c as u32 }
            }
            34 => {
                let mut empty_blocks = EmptyBlockPolicy::NONE;
                (empty_blocks.frames, empty_blocks.kept_bytes, empty_blocks.kept_divisor) = (a as u32, b, c);
                empty_blocks.keeps_peak = codes[3] % 2 == 0;
                let alignment = Alignment::new(1 << (codes[0] % 49)).unwrap();
                Event::PoolRules {
                    pool,
                    empty_blocks,
                    alignment,
                    budget,
                    ignores_granularity: flags[0],
                    separate_movable: flags[1],
                }
            }
            35 => Event::PoolReset { pool },
            36 => Event::Joined { pool },
            37 => Event::TimePassed { sixtieths: a },
            38 => Event::Trimmed,
            39 => Event::Maintained,
            40 => Event::RoomReserved { pool, memory_type, requested: a, bytes: b },
            41 => {
                let options = RequestedOptions { last_heap: flags[0] != flags[1], ..options };
                Event::Requested { allocation: AllocationKey(ids[0]), options }
            }
            42..46 => self.of_resource(),
            46 => Event::Stack { allocation: AllocationKey(ids[0]), stack: StackId(texts[0]) },
            // Never of a request that was placed.
            _ => Event::RefusedRequest(RefusedRequest {
                size: a,
                alignment: Alignment::new(1 << (codes[0] % 49)).unwrap(),
                kind: code(&RESOURCES, codes[2]),
                memory_types: MemoryTypeMask(b as u32),
                usage: code(&MemoryUsage::ALL, codes[1]),
                lifetime: code(&[ExpectedLifetime::Long, ExpectedLifetime::Short], codes[3]),
                movers: codes[2],
                pool: flags[0].then_some(pool),
                shard: d as u32,
                options,
            }),
        }
    }
}

impl Numbers {
    /// An event of a resource that is bound to an allocation.
    fn of_resource(self) -> Event {
        let Self { kind, ids, sizes: [a, b, ..], codes, texts, flags } = self;
        let [resource, other] = [ids[0], ids[1]].map(AllocationKey);
        let [name, call_site] = texts.map(TextId);
        match kind % KINDS {
            42 => Event::Bound(BoundResource {
                resource,
                memory: other,
                offset: a,
                size: b,
                name,
                call_site,
                kind: code(&RESOURCES, codes[2]),
                active: flags[0],
            }),
            43 => Event::Unbound { resource },
            44 => Event::Displaced { resource, by: other },
            _ => Event::Activated { resource },
        }
    }
}

fn numbers(
    ids: impl Strategy<Value = u64> + Clone + 'static,
    sizes: impl Strategy<Value = u64> + Clone + 'static,
    texts: u32,
) -> impl Strategy<Value = Numbers> {
    let ids = [ids.clone(), ids.clone(), ids];
    let sizes = [sizes.clone(), sizes.clone(), sizes.clone(), sizes];
    // An allocation more often than anything else.
    let kind = prop_oneof![0..KINDS, Just(8), Just(8), Just(12)];
    (kind, ids, sizes, any::<[u8; 4]>(), [0..=texts, 0..=texts], any::<[bool; 2]>())
        .prop_map(|(kind, ids, sizes, codes, texts, flags)| Numbers { kind, ids, sizes, codes, texts, flags })
}

/// Any event at all. Its texts are up to `texts`.
pub(crate) fn any_event(texts: u32) -> impl Strategy<Value = Event> {
    let number = || (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift).boxed();
    numbers(number(), number(), texts).prop_map(Numbers::event)
}

/// An event about few things, so that many follow from those before.
pub(crate) fn likely_event(texts: u32) -> impl Strategy<Value = Event> {
    let ids = (0..4_u64).boxed();
    let sizes = select(vec![0_u64, 1, 64, 100, 256, 4096, 1 << 20]).boxed();
    numbers(ids, sizes, texts).prop_map(|numbers| match numbers.event() {
        // As in a program: the clock of a state does not go back.
        Event::FrameEnd { .. } => Event::FrameEnd { number: 0 },
        Event::BlockAllocated { block, pool, memory_type, kind, .. } => {
            Event::BlockAllocated { block, pool, memory_type, kind, size: 1 << 20 }
        }
        Event::Allocated(it) => Event::Allocated(Allocated {
            offset: it.offset & 0xffff,
            occupied: it.requested.max(it.occupied),
            ..it
        }),
        event => event,
    })
}

/// A header in which nothing is as by default.
pub(crate) fn header() -> Header {
    Header {
        producer: "a test".to_owned(),
        api: Api::Direct3D12,
        device: "Gerät № 1".to_owned(),
        driver: "1.2.3".to_owned(),
        heaps: vec![Heap { size: 8 << 30, device_local: true }, Heap { size: u64::MAX, device_local: false }],
        memory_types: vec![
            MemoryType { heap: 1, properties: 0b110 },
            MemoryType { heap: 0, properties: u32::MAX },
        ],
        buffer_image_granularity: 1024,
        non_coherent_atom_size: 64,
        max_memory_objects: 4096,
        settings: vec![("algorithm".to_owned(), "tlsf".to_owned())],
        ..Header::default()
    }
}

/// `count` texts, all different.
pub(crate) fn texts(count: u32) -> Vec<String> {
    (1..=count).map(|number| format!("text {number} é")).collect()
}

/// A recording of nothing but stacks: `count` calls, all different, which name as many texts.
pub(crate) fn with_stacks(count: u32) -> Recording {
    let mut recording = Recording::default();
    for number in 1..=count {
        let (parent, function) = (StackId(number / 2), TextId(number));
        recording.stacks.push(StackFrame { parent, function, place: TextId(count - number) }).unwrap();
    }
    recording
}

//! Which memory type serves an memory usage, in which order, and why.
//!
//! A type is excluded for a reason or has a cost: the sum over what it lacks of the properties preferred
//! and has of those avoided. Cheaper types come first; equal ones in the device's own order, which
//! drivers use to say which is faster.
//!
//! | weight | property | because |
//! |---|---|---|
//! | 16 | lazily allocated | a transient attachment without it costs real memory |
//! | 8 | device-local | the wrong side of the bus costs most |
//! | 4 | host-cached | reads without it are some hundred times slower |
//! | 2 | host-visible | else the caller stages |
//! | 1 | host-coherent | else the caller flushes |
//!
//! What queues only read or only write (Direct3D 12's upload and readback heaps) is neither preferred nor
//! avoided: an memory usage can live with it or not. One that can pays nothing for it; for the others such a type
//! is reserved, as protected memory is, since a resource there could not be used as the memory usage says.

use core::fmt;

use super::desc::AllocationRequest;
use super::{AllocationOptions, MemoryUsage};
use crate::device::{
    DeviceProperties, MemoryHeapIndex, MemoryProperties as P, MemoryTypeIndex, MemoryTypeMask, Requirements,
};

/// What was thought of one memory type for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTypeCandidate {
    /// The memory type.
    pub memory_type: MemoryTypeIndex,
    /// The heap that it takes from.
    pub heap: MemoryHeapIndex,
    /// What it can do.
    pub properties: P,
    /// What was thought of it.
    pub verdict: Suitability,
}

/// Why a memory type is tried early, late, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suitability {
    /// The allocator tries this type; the smaller the cost, the earlier.
    Suitable {
        /// The sum of the weights of `missing` and `unwanted`.
        cost: u32,
        /// Preferred properties that the type lacks.
        missing: P,
        /// Avoided properties that the type has.
        unwanted: P,
    },
    /// The resource's memory type bits do not allow this type.
    NotAllowed,
    /// The type lacks these required properties.
    Lacks(P),
    /// The type has properties that a request must require by name: lazily allocated, protected or
    /// device-coherent memory; memory that queues only read or only write, where the memory usage has them do
    /// both.
    Reserved(P),
}

impl fmt::Display for MemoryTypeCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type {} ({}; heap {}): {}", self.memory_type, self.properties, self.heap, self.verdict)
    }
}

impl fmt::Display for Suitability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suitable { cost: 0, .. } => f.write_str("suitable"),
            Self::Suitable { cost, missing, unwanted } => {
                write!(f, "will do, at cost {cost}")?;
                if !missing.is_empty() {
                    write!(f, ", is not {missing}")?;
                }
                if !unwanted.is_empty() {
                    write!(f, ", needlessly {unwanted}")?;
                }
                Ok(())
            }
            Self::NotAllowed => f.write_str("the resource cannot stand there"),
            Self::Lacks(missing) => write!(f, "must be {missing} and is not"),
            Self::Reserved(reserved) => write!(f, "is {reserved}, which must be asked for by name"),
        }
    }
}

const WEIGHTS: [(P, u32); 5] = [
    (P::LAZILY_ALLOCATED, 16),
    (P::DEVICE_LOCAL, 8),
    (P::HOST_CACHED, 4),
    (P::HOST_VISIBLE, 2),
    (P::HOST_COHERENT, 1),
];

/// What queues cannot do. Whoever names one of these allows it; a type without it lacks nothing.
const ONE_WAY: P = P::DEVICE_READ_ONLY.union(P::DEVICE_WRITE_ONLY);

/// Never chosen unless named, or tolerated by the memory usage.
const RESERVED: P = P::LAZILY_ALLOCATED.union(P::PROTECTED).union(P::DEVICE_COHERENT).union(ONE_WAY);

/// What an memory usage requires, prefers and avoids, and which reserved properties it can live with.
struct Wish {
    required: P,
    preferred: P,
    avoided: P,
    tolerated: P,
}

impl Wish {
    fn of(options: &AllocationOptions) -> Self {
        let none = P::empty();
        let (required, preferred, avoided) = match options.usage {
            // Mappable device memory is scarce on many machines, so it is left to those who map it.
            MemoryUsage::GpuOnly => (none, P::DEVICE_LOCAL, P::HOST_VISIBLE | P::HOST_CACHED),
            MemoryUsage::Upload => (P::HOST_VISIBLE, P::HOST_COHERENT, P::DEVICE_LOCAL | P::HOST_CACHED),
            MemoryUsage::Readback => (P::HOST_VISIBLE, P::HOST_CACHED | P::HOST_COHERENT, P::DEVICE_LOCAL),
            // To write directly, through a cache if need be, beats staging.
            MemoryUsage::DeviceUpload => (none, P::DEVICE_LOCAL | P::HOST_VISIBLE | P::HOST_COHERENT, none),
            MemoryUsage::Transient => {
                (none, P::LAZILY_ALLOCATED | P::DEVICE_LOCAL, P::HOST_VISIBLE | P::HOST_CACHED)
            }
        };
        let one_way = match options.usage {
            // The CPU writes what the device only reads.
            MemoryUsage::Upload | MemoryUsage::DeviceUpload => P::DEVICE_READ_ONLY,
            MemoryUsage::Readback => P::DEVICE_WRITE_ONLY,
            // Either is filled by copies and read by the device.
            MemoryUsage::GpuOnly | MemoryUsage::Transient => none,
        };
        let named = (preferred | options.preferred) - options.avoided;
        Self {
            required: required | options.required,
            preferred: named - ONE_WAY,
            avoided: (avoided | options.avoided) - options.required - options.preferred,
            tolerated: named | (one_way - options.avoided) | options.required,
        }
    }
}

fn weigh(properties: P) -> u32 {
    WEIGHTS.iter().filter(|(property, _)| properties.contains(*property)).map(|(_, weight)| weight).sum()
}

/// What is thought of each memory type for `request`, in the device's order, where only those in `usable` may
/// be used at all.
pub(super) fn judge(
    properties: &DeviceProperties,
    request: &AllocationRequest<'_>,
    usable: MemoryTypeMask,
) -> impl Iterator<Item = MemoryTypeCandidate> {
    let wish = Wish::of(request.options);
    let allowed = MemoryTypeMask(request.requirements.memory_types.0 & usable.0);
    properties.indexed_types().map(move |(index, memory_type)| {
        let has = memory_type.properties;
        let reserved = (has & RESERVED) - wish.tolerated;
        let verdict = if !allowed.contains(index) {
            Suitability::NotAllowed
        } else if !has.contains(wish.required) {
            Suitability::Lacks(wish.required - has)
        } else if !reserved.is_empty() {
            Suitability::Reserved(reserved)
        } else {
            let (missing, unwanted) = (wish.preferred - has, wish.avoided & has);
            Suitability::Suitable { cost: weigh(missing) + weigh(unwanted), missing, unwanted }
        };
        MemoryTypeCandidate { memory_type: index, heap: memory_type.heap, properties: has, verdict }
    })
}

/// The memory types that suit, in the order in which they are tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranking {
    /// Cheapest first; a device has at most 32 types.
    types: [MemoryTypeIndex; 32],
    count: u8,
}

impl Ranking {
    pub(super) fn new(
        properties: &DeviceProperties,
        request: &AllocationRequest<'_>,
        usable: MemoryTypeMask,
    ) -> Self {
        let mut ranked = [(0, MemoryTypeIndex(0)); 32];
        let mut count = 0;
        for choice in judge(properties, request, usable) {
            if let Suitability::Suitable { cost, .. } = choice.verdict {
                ranked[count] = (cost, choice.memory_type);
                count += 1;
            }
        }
        // Equal costs stay in the device's order, since the index breaks the tie.
        ranked[..count].sort_unstable();
        Self { types: ranked.map(|(_, memory_type)| memory_type), count: count as u8 }
    }

    /// For each memory usage, in the order of [`MemoryUsage::ALL`], what suits requests that wish for nothing beside.
    pub(super) fn of_intents(
        properties: &DeviceProperties,
        usable: MemoryTypeMask,
    ) -> [Self; MemoryUsage::ALL.len()] {
        let anywhere = Requirements::new(1);
        MemoryUsage::ALL
            .map(|usage| Self::new(properties, &AllocationRequest::new(&anywhere, &usage.into()), usable))
    }

    /// The types that the resource may stand in.
    pub(super) fn types(&self, allowed: MemoryTypeMask) -> impl Iterator<Item = MemoryTypeIndex> + '_ {
        let types = self.types[..usize::from(self.count)].iter().copied();
        types.filter(move |&memory_type| allowed.contains(memory_type))
    }
}

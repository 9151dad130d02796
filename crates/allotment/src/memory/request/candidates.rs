//! Ranks the memory types for a memory usage, and explains the ranking.
//!
//! A memory type is either excluded, for a reason, or has a cost: the sum of the weights of the preferred properties
//! that it lacks and of the avoided properties that it has. Cheaper types are tried first. Types of equal cost keep the
//! device's own order, in which drivers list faster types first.
//!
//! | weight | property | because |
//! |---|---|---|
//! | 16 | lazily allocated | a transient attachment without it costs real memory |
//! | 8 | device-local | the wrong side of the bus costs most |
//! | 4 | host-cached | reads without it are some hundred times slower |
//! | 2 | host-visible | else the caller stages |
//! | 1 | host-coherent | else the caller flushes |
//!
//! Memory that queues only read or only write (Direct3D 12's upload and readback heaps) is neither preferred nor
//! avoided: a memory usage tolerates it or does not. A usage that tolerates it pays no cost. For every other usage the
//! type is reserved, as protected memory is, since a resource there could not be used as the memory usage says.

use core::fmt;

use crate::device::{
    DeviceProperties, MemoryHeapIndex, MemoryProperties as P, MemoryTypeIndex, MemoryTypeMask, Requirements,
};
use crate::memory::request::desc::AllocationRequest;
use crate::memory::request::pool::Pool;
use crate::memory::{AllocationOptions, MemoryUsage};

/// A memory type that was considered for a request, and how well it suits.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::device::MemoryProperties;
///
/// let candidates = allocator.explain(&Requirements::new(256), &MemoryUsage::DeviceUpload.into());
/// let best = candidates[0];
/// println!("type {} of heap {}", best.memory_type, best.heap);
/// let wanted = MemoryProperties::DEVICE_LOCAL | MemoryProperties::HOST_VISIBLE;
/// assert!(best.properties.contains(wanted));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTypeCandidate {
    /// The memory type.
    pub memory_type: MemoryTypeIndex,
    /// The memory heap of the type.
    pub heap: MemoryHeapIndex,
    /// The properties of the type.
    pub properties: P,
    /// Whether the allocator tries the type, and at what cost.
    pub suitability: Suitability,
}

/// Why a memory type is tried early, late, or not at all.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::preview::Suitability;
///
/// for candidate in allocator.explain(&Requirements::new(256), &MemoryUsage::Readback.into()) {
///     match candidate.suitability {
///         Suitability::Suitable { cost, .. } => println!("type {} costs {cost}", candidate.memory_type),
///         Suitability::Lacks(needed) => println!("type {} lacks {needed}", candidate.memory_type),
///         reason => println!("type {} is not tried: {reason:?}", candidate.memory_type),
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// The custom pool that the request names does not have this type.
    NotInPool,
    /// The type lacks these required properties.
    Lacks(P),
    /// The type has properties that a request must require explicitly: lazily allocated, protected or device-coherent
    /// memory, or memory that queues only read or only write, where the memory usage needs both.
    Reserved(P),
}

impl fmt::Display for MemoryTypeCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type {} ({}; heap {}): {}", self.memory_type, self.properties, self.heap, self.suitability)
    }
}

impl fmt::Display for Suitability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suitable { cost: 0, .. } => f.write_str("suitable"),
            Self::Suitable { cost, missing, unwanted } => {
                write!(f, "suitable at cost {cost}")?;
                if !missing.is_empty() {
                    write!(f, ", lacks {missing}")?;
                }
                if !unwanted.is_empty() {
                    write!(f, ", has unwanted {unwanted}")?;
                }
                Ok(())
            }
            Self::NotAllowed => f.write_str("not allowed by the resource's memory type bits"),
            Self::NotInPool => f.write_str("not one of the pool's memory types"),
            Self::Lacks(missing) => write!(f, "lacks required {missing}"),
            Self::Reserved(reserved) => write!(f, "is {reserved}, which a request must require explicitly"),
        }
    }
}

// Powers of two, so that each property outweighs all those below it together.
const WEIGHTS: [(P, u32); 5] = [
    (P::LAZILY_ALLOCATED, 16),
    (P::DEVICE_LOCAL, 8),
    (P::HOST_CACHED, 4),
    (P::HOST_VISIBLE, 2),
    (P::HOST_COHERENT, 1),
];

/// Operations that queues cannot do in the memory. A request that names one allows it; a type without it lacks nothing.
const ONE_WAY: P = P::DEVICE_READ_ONLY.union(P::DEVICE_WRITE_ONLY);

/// Properties of memory that no request gets unless it names them or its memory usage tolerates them.
const RESERVED: P = P::LAZILY_ALLOCATED.union(P::PROTECTED).union(P::DEVICE_COHERENT).union(ONE_WAY);

/// The properties that a request requires, prefers and avoids, and the reserved properties that it tolerates.
struct WantedProperties {
    required: P,
    preferred: P,
    avoided: P,
    tolerated: P,
}

impl WantedProperties {
    fn new(options: &AllocationOptions) -> Self {
        let none = P::empty();
        let (required, preferred, avoided) = match options.usage {
            // Mappable device memory is scarce on many machines, so it is left to those who map it.
            MemoryUsage::GpuOnly => (none, P::DEVICE_LOCAL, P::HOST_VISIBLE | P::HOST_CACHED),
            // The CPU only writes upload memory, for which a cache is no help; it reads readback memory, for which it
            // is the point. Both leave device memory to what the GPU uses more than once.
            MemoryUsage::Upload => (P::HOST_VISIBLE, P::HOST_COHERENT, P::DEVICE_LOCAL | P::HOST_CACHED),
            MemoryUsage::Readback => (P::HOST_VISIBLE, P::HOST_CACHED | P::HOST_COHERENT, P::DEVICE_LOCAL),
            // Writing device memory directly, if need be through a cache, is cheaper than staging and a copy.
            MemoryUsage::DeviceUpload => (none, P::DEVICE_LOCAL | P::HOST_VISIBLE | P::HOST_COHERENT, none),
            MemoryUsage::DeviceMapped => (P::HOST_VISIBLE, P::DEVICE_LOCAL | P::HOST_COHERENT, none),
            MemoryUsage::Transient => {
                (none, P::LAZILY_ALLOCATED | P::DEVICE_LOCAL, P::HOST_VISIBLE | P::HOST_CACHED)
            }
        };
        let one_way = match options.usage {
            // The CPU writes what the device only reads.
            MemoryUsage::Upload | MemoryUsage::DeviceUpload | MemoryUsage::DeviceMapped => {
                P::DEVICE_READ_ONLY
            }
            MemoryUsage::Readback => P::DEVICE_WRITE_ONLY,
            // The memory must take copies from a queue and be read by a queue.
            MemoryUsage::GpuOnly | MemoryUsage::Transient => none,
        };
        let named = (preferred | options.preferred) - options.avoided;
        Self {
            required: required | options.required,
            preferred: named - ONE_WAY,
            // What the request itself asks for wins over what its memory usage avoids.
            avoided: (avoided | options.avoided) - options.required - options.preferred,
            tolerated: named | (one_way - options.avoided) | options.required,
        }
    }
}

fn weigh(properties: P) -> u32 {
    WEIGHTS.iter().filter(|(property, _)| properties.contains(*property)).map(|(_, weight)| weight).sum()
}

/// Returns the suitability of each memory type for `request`, in the device's order, where only those in `usable` may
/// be used at all.
pub(crate) fn judge(
    properties: &DeviceProperties,
    request: &AllocationRequest<'_>,
    usable: MemoryTypeMask,
) -> impl Iterator<Item = MemoryTypeCandidate> {
    let wanted = WantedProperties::new(request.options);
    let allowed = MemoryTypeMask(request.requirements.memory_types.0 & usable.0);
    properties.indexed_types().map(move |(index, memory_type)| {
        let has = memory_type.properties;
        let reserved = (has & RESERVED) - wanted.tolerated;
        // The order of the checks decides the reason that a report shows: the hardest one first.
        let suitability = if !allowed.contains(index) {
            Suitability::NotAllowed
        } else if !has.contains(wanted.required) {
            Suitability::Lacks(wanted.required - has)
        } else if !reserved.is_empty() {
            Suitability::Reserved(reserved)
        } else {
            let (missing, unwanted) = (wanted.preferred - has, wanted.avoided & has);
            Suitability::Suitable { cost: weigh(missing) + weigh(unwanted), missing, unwanted }
        };
        MemoryTypeCandidate { memory_type: index, heap: memory_type.heap, properties: has, suitability }
    })
}

impl MemoryTypeCandidate {
    /// Judges a type for a custom pool of `types`, which tries those of them that the resource allows in the pool's
    /// order, whatever the memory usage.
    pub(in crate::memory) fn judge_in_pool(&mut self, pool: &Pool, request: &AllocationRequest<'_>) {
        let required = request.options.required;
        self.suitability = match pool.memory_types().position(|entry| entry == self.memory_type) {
            None => Suitability::NotInPool,
            Some(_) if !request.requirements.memory_types.contains(self.memory_type) => {
                Suitability::NotAllowed
            }
            Some(_) if !self.properties.contains(required) => Suitability::Lacks(required - self.properties),
            Some(at) => Suitability::Suitable { cost: at as u32, missing: P::empty(), unwanted: P::empty() },
        };
    }
}

/// The suitable memory types, in the order in which the allocator tries them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranking {
    /// Cheapest first; a device has at most 32 types.
    types: [MemoryTypeIndex; 32],
    count: u8,
}

impl Ranking {
    pub(crate) fn new(
        properties: &DeviceProperties,
        request: &AllocationRequest<'_>,
        usable: MemoryTypeMask,
    ) -> Self {
        // An array, so that a request with properties of its own allocates no host memory either.
        let mut ranked = [(0, MemoryTypeIndex(0)); 32];
        let mut count = 0;
        for choice in judge(properties, request, usable) {
            if let Suitability::Suitable { cost, .. } = choice.suitability {
                ranked[count] = (cost, choice.memory_type);
                count += 1;
            }
        }
        // Equal costs stay in the device's order, since the index breaks the tie.
        ranked[..count].sort_unstable();
        Self { types: ranked.map(|(_, memory_type)| memory_type), count: count as u8 }
    }

    /// Ranks the types for each memory usage, in the order of [`MemoryUsage::ALL`], for requests without extra
    /// properties.
    pub(crate) fn for_memory_usages(
        properties: &DeviceProperties,
        usable: MemoryTypeMask,
    ) -> [Self; MemoryUsage::ALL.len()] {
        // Any requirements: a ranking does not depend on the size, and `types` applies each request's memory type bits.
        let anywhere = Requirements::new(1);
        MemoryUsage::ALL
            .map(|usage| Self::new(properties, &AllocationRequest::new(&anywhere, &usage.into()), usable))
    }

    /// Returns the suitable types that `allowed` contains, in order.
    pub(crate) fn types(&self, allowed: MemoryTypeMask) -> impl Iterator<Item = MemoryTypeIndex> + '_ {
        let types = self.types[..usize::from(self.count)].iter().copied();
        types.filter(move |&memory_type| allowed.contains(memory_type))
    }
}

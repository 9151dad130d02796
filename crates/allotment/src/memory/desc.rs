//! What a caller asks for.

use core::fmt;
use std::sync::Arc;

use allotment_suballoc::{Side, Strategy};

use super::quick_lists::LARGEST_WAITING;
use crate::device::{DedicatedNeed, MemoryProperties, Priority, Requirements, ResourceKind};

/// What memory is for. The allocator turns it into a memory type; [`Allocator::explain`] says why.
///
/// [`Allocator::explain`]: super::Allocator::explain
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryUsage {
    /// The GPU reads and writes the memory and the CPU never does: textures, render targets, static meshes.
    #[default]
    GpuOnly,
    /// The CPU writes the memory once, in order, and the GPU reads it once: staging. The memory type may be
    /// one that queues cannot write to.
    Upload,
    /// The GPU writes the memory and the CPU reads it: screenshots, query results. The memory type may be one
    /// that queues can only copy into.
    Readback,
    /// The CPU writes the memory often and the GPU reads it often: constants, dynamic vertices. Selects
    /// device-local memory that the CPU can map, where the GPU has some; else device-local memory that is not
    /// mapped, and the caller stages its writes. A mapped type may be one that queues cannot write to.
    DeviceUpload,
    /// An attachment that never leaves the tile: lazily allocated memory, where the GPU has some.
    Transient,
}

impl MemoryUsage {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 5] =
        [Self::GpuOnly, Self::Upload, Self::Readback, Self::DeviceUpload, Self::Transient];
}

impl fmt::Display for MemoryUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::GpuOnly => "gpu-only",
            Self::Upload => "upload",
            Self::Readback => "readback",
            Self::DeviceUpload => "device-upload",
            Self::Transient => "transient",
        })
    }
}

/// How long an allocation will live. The two do not share blocks, so that one forgotten small buffer
/// does not keep 256 MiB of a level's memory from being given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// Many frames.
    #[default]
    Long,
    /// A few frames.
    Short,
}

/// Whether [defragmentation](super::Allocator::defragmentation) may give an allocation another place.
///
/// Who says that it may asks for its place again after each pass, and writes to it in no other way while one is open.
/// Mapped memory ([`Allocator::map`](super::Allocator::map)) stays while it is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Movability {
    /// It stays where it is: nobody knows who keeps its address.
    #[default]
    Pinned,
    /// It may move, and its bytes with it.
    Copied,
    /// It may move, and its bytes need not: whoever owns it makes them anew, as with render targets and caches. That
    /// costs no copy, so such allocations are moved before others.
    Recreated,
}

/// Whether an allocation gets a memory object of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dedicated {
    /// When its resource requires it, or when it is large for a block.
    #[default]
    Automatic,
    /// Always.
    Always,
    /// Never: in a block or not at all.
    Never,
}

/// Whether an allocation may make the driver hand out more memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NewBlocks {
    /// A request may allocate a block from the driver.
    #[default]
    Allowed,
    /// A request uses existing blocks only, as `VMA_ALLOCATION_CREATE_NEVER_ALLOCATE_BIT` says.
    NeverAllocate,
}

/// Whether an allocation minds its heap's budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BudgetPolicy {
    /// Allocates although the heap goes over its budget. The operating system may then move memory out.
    #[default]
    AllowOverBudget,
    /// Refuses a request that would take the heap over its budget, however it would be served.
    WithinBudget,
}

/// A name for people. Cheap to clone; a static one needs no host memory at all.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// Written in the program.
    Static(&'static str),
    /// Made at run time, shared.
    Shared(Arc<str>),
}

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Static(name) => name,
            Self::Shared(name) => name,
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self::Static(name)
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self::Shared(name.into())
    }
}

impl From<Arc<str>> for Name {
    fn from(name: Arc<str>) -> Self {
        Self::Shared(name)
    }
}

/// An allocation that is wanted.
///
/// ```
/// use allotment::memory::{BudgetPolicy, Lifetime};
/// use allotment::{AllocationDesc, MemoryUsage, Requirements};
///
/// let desc = AllocationDesc::new(Requirements::new(1 << 20), MemoryUsage::GpuOnly)
///     .named("terrain tile")
///     .with_category("terrain")
///     .with_lifetime(Lifetime::Long)
///     .within_budget();
/// assert_eq!(desc.budget, BudgetPolicy::WithinBudget);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AllocationDesc {
    /// What the resource needs, as its device says.
    pub requirements: Requirements,
    /// What the memory is for.
    pub memory_usage: MemoryUsage,
    /// What will stand there.
    pub kind: ResourceKind,
    /// How long it will live.
    pub lifetime: Lifetime,
    /// Whether it gets memory of its own.
    pub dedicated: Dedicated,
    /// Whether the driver may be asked for more.
    pub new_blocks: NewBlocks,
    /// Whether the heap's budget is minded.
    pub budget: BudgetPolicy,
    /// Whether memory of its own goes early or late when there is too little.
    pub priority: Priority,
    /// Where in a block, where there is a choice.
    pub strategy: Strategy,
    /// From which end of a linear pool's block.
    pub side: Side,
    /// Properties that the memory type must have, beside what the memory usage asks for. Naming
    /// `DEVICE_COHERENT` or `PROTECTED` here is what makes such types eligible, and naming
    /// `DEVICE_READ_ONLY` or `DEVICE_WRITE_ONLY` those that queues only read or only write.
    pub required: MemoryProperties,
    /// Properties that the memory type should have. What makes types eligible when it is required does so
    /// here as well: a buffer that is only read prefers `DEVICE_READ_ONLY`.
    pub preferred: MemoryProperties,
    /// Properties that the memory type should not have. Avoiding `DEVICE_READ_ONLY` or `DEVICE_WRITE_ONLY`
    /// rules out such types for the memory usages that can live with them.
    pub avoided: MemoryProperties,
    /// Whether it may get another place later.
    pub movability: Movability,
    /// For people: in dumps, statistics and leak reports.
    pub name: Option<Name>,
    /// For programs: the caller's own number.
    pub user_data: u64,
    /// For sums: "texture", "mesh", "ui". Empty for none.
    pub category: &'static str,
}

impl AllocationDesc {
    /// What `requirements` need, for `memory_usage`, with the defaults for everything else.
    #[must_use]
    pub const fn new(requirements: Requirements, memory_usage: MemoryUsage) -> Self {
        Self {
            requirements,
            memory_usage,
            kind: ResourceKind::Buffer,
            lifetime: Lifetime::Long,
            dedicated: Dedicated::Automatic,
            new_blocks: NewBlocks::Allowed,
            budget: BudgetPolicy::AllowOverBudget,
            priority: Priority::NORMAL,
            strategy: Strategy::Balanced,
            side: Side::Lower,
            required: MemoryProperties::empty(),
            preferred: MemoryProperties::empty(),
            avoided: MemoryProperties::empty(),
            movability: Movability::Pinned,
            name: None,
            user_data: 0,
            category: "",
        }
    }

    /// True when the request is small, and has no wish beside its requirements and memory usage that decides over
    /// its place.
    pub(super) fn is_ordinary(&self) -> bool {
        (self.required | self.preferred | self.avoided).is_empty()
            && (1..=LARGEST_WAITING).contains(&self.requirements.size)
            && self.requirements.dedicated == DedicatedNeed::None
            && self.dedicated != Dedicated::Always
            && matches!(self.strategy, Strategy::Balanced | Strategy::LeastTime)
            && self.side == Side::Lower
    }

    /// The same for a resource that needs `needs`. Those replace the request's own requirements, save that memory types
    /// that the request rules out stay ruled out, and that an alignment that it asks for beside is honoured.
    pub(super) fn for_resource(&self, mut needs: Requirements) -> Self {
        let asked = &self.requirements;
        needs.memory_types.0 &= asked.memory_types.0;
        needs.alignment = needs.alignment.max(asked.alignment);
        Self { requirements: needs, ..self.clone() }
    }

    /// True when a person or a program calls the request something.
    pub(super) fn is_labelled(&self) -> bool {
        self.name.is_some() || self.user_data != 0 || !self.category.is_empty()
    }

    /// The same with a name for people.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Name>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same in a category.
    #[must_use]
    pub fn with_category(mut self, category: &'static str) -> Self {
        self.category = category;
        self
    }

    /// The same for another kind of resource.
    #[must_use]
    pub fn with_kind(mut self, kind: ResourceKind) -> Self {
        self.kind = kind;
        self
    }

    /// The same with another lifetime.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Lifetime) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// The same, which defragmentation may give another place.
    #[must_use]
    pub fn movable(mut self, movability: Movability) -> Self {
        self.movability = movability;
        self
    }

    /// The same, refused where it would take its heap beyond the budget.
    #[must_use]
    pub fn within_budget(mut self) -> Self {
        self.budget = BudgetPolicy::WithinBudget;
        self
    }

    /// The same with another wish for memory of its own.
    #[must_use]
    pub fn with_dedicated(mut self, dedicated: Dedicated) -> Self {
        self.dedicated = dedicated;
        self
    }

    /// The same, served from memory that is there already or refused.
    #[must_use]
    pub fn without_new_blocks(mut self) -> Self {
        self.new_blocks = NewBlocks::NeverAllocate;
        self
    }
}

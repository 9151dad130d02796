//! Options of an allocation, and the request that they make together with a resource's requirements.

use core::cell::Cell;

use allotment_suballoc::{Alignment, FitStrategy, MAX_SIZE, StackSide};

use super::short_name::ShortName;
use crate::choices::name::Name;
use crate::choices::{BudgetPolicy, Dedicated, ExpectedLifetime, MemoryUsage, Movability, NewBlocks};
use crate::device::{DedicatedNeed, Mapping, MemoryProperties, MemoryTypeMask, Priority, Requirements};
use crate::memory::mover::MoverId;
use crate::memory::request::pool::Pool;

/// Ranges up to this size wait. Above it, the search costs little beside the use of the memory, and joining free
/// neighbours matters more.
pub(crate) const LARGEST_WAITING: u64 = 1 << 20;

/// What a caller wants of an allocation, beside the [`Requirements`] of the resource. Converts from a
/// [`MemoryUsage`] where the defaults serve for everything else.
///
/// ```
/// use allotment::memory::{BudgetPolicy, ExpectedLifetime};
/// use allotment::{AllocationOptions, MemoryUsage};
///
/// let tile = MemoryUsage::GpuOnly
///     .with_name("terrain tile")
///     .with_category("terrain")
///     .with_lifetime(ExpectedLifetime::Long)
///     .with_budget(BudgetPolicy::WithinBudget);
/// assert_eq!(tile.usage, MemoryUsage::GpuOnly);
/// let staging: AllocationOptions = MemoryUsage::Upload.into();
/// assert_eq!(staging.budget, BudgetPolicy::AllowOverBudget);
/// ```
#[doc(alias("VmaAllocationCreateInfo", "ALLOCATION_DESC", "AllocationCreateInfo", "AllocationCreateDesc"))]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AllocationOptions {
    /// What the memory is for. Ignored by custom pools, which have memory types of their own.
    pub usage: MemoryUsage,
    /// The custom pool; `None` for the default pools. The pool's memory types are tried in its order.
    pub pool: Option<Pool>,
    /// How long the allocation will live.
    pub lifetime: ExpectedLifetime,
    /// Whether the allocation gets dedicated memory.
    pub dedicated: Dedicated,
    /// Whether the request may allocate a block from the driver.
    pub new_blocks: NewBlocks,
    /// Whether the request may take its heap over the budget.
    pub budget: BudgetPolicy,
    /// Residency priority of a dedicated allocation.
    pub priority: Priority,
    /// How a free range is chosen within a block.
    pub strategy: FitStrategy,
    /// From which end of a linear pool's block.
    #[doc(alias("VMA_ALLOCATION_CREATE_UPPER_ADDRESS_BIT", "ALLOCATION_FLAG_UPPER_ADDRESS"))]
    pub side: StackSide,
    /// The least alignment, in bytes. The larger of this and the resource's own holds.
    pub min_alignment: Alignment,
    /// Memory types that are allowed. Those that the resource itself excludes stay excluded.
    pub memory_types: MemoryTypeMask,
    /// Properties that the memory type must have, beside those that the usage requires. Naming
    /// `DEVICE_COHERENT` or `PROTECTED` here is what makes such types eligible, and naming
    /// `DEVICE_READ_ONLY` or `DEVICE_WRITE_ONLY` those that queues only read or only write.
    pub required: MemoryProperties,
    /// Properties that the memory type should have. A property that makes types eligible where it is required
    /// does so here as well: a buffer that is only read prefers `DEVICE_READ_ONLY`.
    pub preferred: MemoryProperties,
    /// Properties that the memory type should not have. Avoiding `DEVICE_READ_ONLY` or `DEVICE_WRITE_ONLY`
    /// excludes such types for the usages that would accept them.
    pub avoided: MemoryProperties,
    /// Whether defragmentation may move the allocation.
    pub movability: Movability,
    /// Debug name, shown in dumps, statistics, errors and leak reports.
    pub name: Option<Name>,
    /// User data, passed through unchanged.
    pub user_data: u64,
    /// Category by which reports sum up, such as "texture", "mesh" or "ui". Empty for none.
    pub category: &'static str,
    /// Who moves the allocation, if it is movable.
    mover: MoverId,
}

impl AllocationOptions {
    /// The category of what the library allocates for itself: upload rings and pages, descriptor heaps.
    ///
    /// Tools leave them out where they look for leaks, since they are freed with the `Gpu` that has them.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device, GpuDesc::default())?;
    /// let buffer = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let listed = gpu.allocator().reports().allocations();
    /// let own = listed.iter().filter(|one| one.info.category != AllocationOptions::LIBRARY_CATEGORY);
    /// assert_eq!(own.count(), 1, "the others are the library's");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const LIBRARY_CATEGORY: &'static str = "allotment";

    /// Returns the beginning of the name, for an error.
    #[cold]
    pub(in crate::memory) fn short_name(&self) -> ShortName {
        ShortName::of(self.name.as_ref())
    }

    /// Creates options for `usage`, with the defaults for everything else.
    #[must_use]
    pub const fn new(usage: MemoryUsage) -> Self {
        Self::new_with_name(usage, None)
    }

    // A `const fn` cannot overwrite the name, since that would drop the old one.
    pub(super) const fn new_with_name(usage: MemoryUsage, name: Option<Name>) -> Self {
        Self {
            usage,
            pool: None,
            lifetime: ExpectedLifetime::Long,
            dedicated: Dedicated::Automatic,
            new_blocks: NewBlocks::Allowed,
            budget: BudgetPolicy::AllowOverBudget,
            priority: Priority::NORMAL,
            strategy: FitStrategy::Balanced,
            side: StackSide::Lower,
            min_alignment: Alignment::ONE,
            memory_types: MemoryTypeMask::ALL,
            required: MemoryProperties::empty(),
            preferred: MemoryProperties::empty(),
            avoided: MemoryProperties::empty(),
            movability: Movability::Pinned,
            name,
            user_data: 0,
            category: "",
            mover: MoverId::PASSES,
        }
    }

    /// Returns who is going to move the allocation; `None` for a pinned one.
    pub(in crate::memory) fn mover(&self) -> Option<MoverId> {
        (self.movability != Movability::Pinned).then_some(self.mover)
    }

    /// Sets who moves the allocation, which is movable from now on.
    pub(in crate::memory) fn moved_by(mut self, mover: MoverId) -> Self {
        self.mover = mover;
        if self.movability == Movability::Pinned { self.with_movability(Movability::Copied) } else { self }
    }

    /// Places the allocation where a recording says: in the default pools of a group of movers. Hidden, and no part of the
    /// stable interface: it is public for the replay of recordings, which is another crate.
    #[doc(hidden)]
    #[must_use]
    pub fn in_mover_group(self, group: u8) -> Self {
        match MoverId::of_group(group) {
            Some(mover) => self.moved_by(mover),
            None => self.with_movability(Movability::Pinned),
        }
    }

    /// True when the allocation has a name, user data or a category.
    pub(in crate::memory) fn is_labelled(&self) -> bool {
        self.name.is_some() || self.user_data != 0 || !self.category.is_empty()
    }

    /// Sets the debug name: a `&'static str`, a `String`, or an `Arc<str>`, which many allocations can share.
    ///
    /// ```
    /// use allotment::{AllocationOptions, MemoryUsage};
    ///
    /// let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(format!("mesh/{}", 7));
    /// assert_eq!(options.name.unwrap().as_str(), "mesh/7");
    /// ```
    #[doc(alias = "VMA_ALLOCATION_CREATE_USER_DATA_COPY_STRING_BIT")]
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Name>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the category.
    #[must_use]
    pub fn with_category(mut self, category: &'static str) -> Self {
        self.category = category;
        self
    }

    /// Sets the user data.
    #[must_use]
    pub fn with_user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// Sets the custom pool. The options hold a clone of it.
    #[must_use]
    pub fn with_pool(mut self, pool: &Pool) -> Self {
        self.pool = Some(pool.clone());
        self
    }

    /// Sets the lifetime.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: ExpectedLifetime) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Sets whether defragmentation may move the allocation.
    #[must_use]
    pub fn with_movability(mut self, movability: Movability) -> Self {
        self.movability = movability;
        self
    }

    /// Lets defragmentation move the allocation, with its contents: [`Movability::Copied`]. A
    /// [`Gpu`](crate::gpu::Gpu) moves such buffers and images at the end of its frames, if
    /// [`with_defragmentation`](crate::GpuDesc::with_defragmentation) is set.
    ///
    /// The texels of an image are copied out of a known state alone: that in which uploads left the whole image. Where a
    /// frame leaves it in another layout, say so with [`Image::set_state`](crate::memory::Image::set_state), or with
    /// [`Image::forget_state`](crate::memory::Image::forget_state), with which it stays where it is.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("mesh").relocatable();
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &options)?;
    /// assert!(mesh.is_relocatable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn relocatable(self) -> Self {
        self.with_movability(Movability::Copied)
    }

    /// Sets the budget policy.
    #[must_use]
    pub fn with_budget(mut self, budget: BudgetPolicy) -> Self {
        self.budget = budget;
        self
    }

    /// Sets when the allocation gets dedicated memory.
    #[must_use]
    pub fn with_dedicated(mut self, dedicated: Dedicated) -> Self {
        self.dedicated = dedicated;
        self
    }

    /// Sets whether the request may allocate a block from the driver.
    #[must_use]
    pub fn with_new_blocks(mut self, new_blocks: NewBlocks) -> Self {
        self.new_blocks = new_blocks;
        self
    }

    /// Sets the residency priority of a dedicated allocation.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how a free range is chosen within a block.
    #[must_use]
    pub fn with_strategy(mut self, strategy: FitStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the least alignment. The larger of this and the resource's own holds.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_min_alignment(Alignment::new(4096)?);
    /// let table = allocator.allocate(&Requirements::new(1000), &options)?; // binding tables of a driver, say
    /// assert_eq!(allocator.location(&table)?.offset % 4096, 0);
    /// # allocator.free(table)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("vmaCreateBufferWithAlignment", "create_buffer_with_alignment"))]
    #[must_use]
    pub fn with_min_alignment(mut self, min_alignment: Alignment) -> Self {
        self.min_alignment = min_alignment;
        self
    }

    /// Sets the memory types that are allowed. Those that the resource itself excludes stay excluded.
    #[must_use]
    pub fn with_memory_types(mut self, memory_types: MemoryTypeMask) -> Self {
        self.memory_types = memory_types;
        self
    }

    /// Sets the properties that the memory type must have.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::device::MemoryProperties;
    ///
    /// // The GPU writes it, and the CPU reads it many times.
    /// let options = AllocationOptions::new(MemoryUsage::GpuOnly)
    ///     .with_required(MemoryProperties::HOST_VISIBLE)
    ///     .with_preferred(MemoryProperties::HOST_CACHED)
    ///     .with_avoided(MemoryProperties::DEVICE_LOCAL);
    /// let best = allocator.explain(&Requirements::new(256), &options)[0];
    /// assert!(best.properties.contains(MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_CACHED));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "VMA_MEMORY_USAGE_UNKNOWN")]
    #[must_use]
    pub fn with_required(mut self, required: MemoryProperties) -> Self {
        self.required = required;
        self
    }

    /// Sets the properties that the memory type should have.
    #[must_use]
    pub fn with_preferred(mut self, preferred: MemoryProperties) -> Self {
        self.preferred = preferred;
        self
    }

    /// Sets the properties that the memory type should not have.
    #[doc(alias("VMA_MEMORY_USAGE_AUTO_PREFER_HOST", "VMA_MEMORY_USAGE_CPU_COPY"))]
    #[must_use]
    pub fn with_avoided(mut self, avoided: MemoryProperties) -> Self {
        self.avoided = avoided;
        self
    }
}

impl Default for AllocationOptions {
    fn default() -> Self {
        Self::new(MemoryUsage::default())
    }
}

impl From<MemoryUsage> for AllocationOptions {
    fn from(usage: MemoryUsage) -> Self {
        Self::new(usage)
    }
}

/// Properties of a memory type that say how the CPU accesses it.
const OF_HOST: MemoryProperties = MemoryProperties::HOST_VISIBLE
    .union(MemoryProperties::HOST_COHERENT)
    .union(MemoryProperties::HOST_CACHED);

/// What a refusal that is remembered means for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remembered {
    /// It is refused.
    Holds,
    /// Nothing else would serve the request, so the driver is asked once more.
    AskAgain,
}

/// A request as the allocator handles it: what the resource requires and what the caller wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationRequest<'a> {
    /// The resource's own, narrowed by the options' alignment and memory types.
    pub requirements: Requirements,
    pub options: &'a AllocationOptions,
    /// Memory types that suit better were tried, and refused.
    pub second_choice: bool,
    /// Only the memory type that suits best is tried.
    pub best_type_only: bool,
    /// All memory types were tried, and refused: now last resorts are allowed.
    pub at_last: bool,
    /// Set where a refusal that was remembered answered the request, so that the driver's figures may be old.
    pub answered: Option<&'a Cell<bool>>,
    /// The program's own budget policy: trying one memory type after another makes that of the options stricter.
    pub budget: BudgetPolicy,
    /// The quick path does not look in the quick lists of the shard that the request is placed in: it is not the
    /// thread's own, or the memory type is not the best.
    pub without_quick_lists: bool,
    /// What the driver refused before.
    pub remembered: Remembered,
    /// Blocks that are not mapped do not serve it: the driver has just refused to map one.
    pub mapped_blocks_only: bool,
    /// The memory is allocated together with its resource, or with options of the API.
    pub with_resource: bool,
    /// The memory is more than is needed now: no idle block of others is freed for it.
    pub ahead: bool,
    pub moves: Moves,
}

/// Who moves an allocation, and from when on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moves {
    /// Who is going to move it, if anyone does. It is placed among those of the same mover.
    pub mover: Option<MoverId>,
    /// Whether it may be moved from the first moment on, before a resource is bound to it.
    pub at_once: Movability,
    /// Who may, from the first moment on.
    pub by: MoverId,
    /// Whether it may be moved in the end.
    pub at_last: Movability,
}

impl Moves {
    /// An allocation that stays where it is.
    pub(in crate::memory) const NONE: Self =
        Self { mover: None, at_once: Movability::Pinned, by: MoverId::PASSES, at_last: Movability::Pinned };

    /// An allocation to which the allocator binds no resource: passes may move it at once, where the options allow that.
    fn of(options: &AllocationOptions) -> Self {
        let movability = options.movability;
        Self { mover: options.mover(), at_once: movability, by: MoverId::PASSES, at_last: movability }
    }

    /// An allocation that is pinned until its resource is bound. A pass that moved it earlier would free the memory that the
    /// resource is being bound to.
    pub(in crate::memory) fn once_bound(mover: Option<MoverId>, at_last: Movability) -> Self {
        Self { mover, at_once: Movability::Pinned, by: MoverId::PASSES, at_last }
    }

    /// An allocation that its mover may move at once, since it looks by itself whether the resource is there.
    pub(in crate::memory) fn at_once(mover: MoverId, movability: Movability) -> Self {
        Self { mover: Some(mover), at_once: movability, by: mover, at_last: movability }
    }

    /// Returns who may move the allocation from the first moment on, if anyone does.
    #[inline]
    pub(in crate::memory) fn now(&self) -> Option<MoverId> {
        (self.at_once != Movability::Pinned).then_some(self.by)
    }
}

impl<'a> AllocationRequest<'a> {
    pub(crate) fn new(requirements: &Requirements, options: &'a AllocationOptions) -> Self {
        // Field by field: the caller has most often just written them, and a copy as a whole would wait until all of these
        // writes are in the cache.
        let Requirements { size, alignment, memory_types, dedicated, kind } = *requirements;
        Self {
            requirements: Requirements {
                size,
                // Narrowed once here, so that no later step can forget the options' part.
                alignment: alignment.max(options.min_alignment),
                memory_types: MemoryTypeMask(memory_types.0 & options.memory_types.0),
                dedicated,
                kind,
            },
            options,
            second_choice: false,
            best_type_only: false,
            at_last: false,
            answered: None,
            budget: options.budget,
            without_quick_lists: false,
            remembered: Remembered::Holds,
            mapped_blocks_only: false,
            with_resource: false,
            ahead: false,
            moves: Moves::of(options),
        }
    }

    /// Returns the same request with other options.
    pub(crate) fn with_options<'b>(&self, options: &'b AllocationOptions) -> AllocationRequest<'b>
    where
        'a: 'b,
    {
        AllocationRequest { options, ..*self }
    }

    /// Returns when the memory has to be mapped.
    #[inline]
    pub(crate) fn mapping(&self) -> Mapping {
        let AllocationOptions { usage, required, .. } = *self.options;
        let is_needed = match usage {
            MemoryUsage::Upload | MemoryUsage::Readback | MemoryUsage::DeviceMapped => true,
            // Its caller can do without: at last it is served where nothing can be mapped.
            MemoryUsage::DeviceUpload | MemoryUsage::GpuOnly | MemoryUsage::Transient => {
                required.intersects(OF_HOST) || !self.at_last && self.wants_address()
            }
        };
        if is_needed { Mapping::Required } else { Mapping::OnDemand }
    }

    /// Returns true if the memory is mapped where that is possible.
    #[inline]
    pub(crate) fn wants_address(&self) -> bool {
        let AllocationOptions { usage, required, preferred, .. } = *self.options;
        !matches!(usage, MemoryUsage::GpuOnly | MemoryUsage::Transient)
            || (required | preferred).intersects(OF_HOST)
    }

    /// Notes that a refusal that was remembered answered the request.
    pub(crate) fn note_answered(&self) {
        // The last resorts are answered by what the driver has refused to this request itself.
        self.answered.filter(|_| !self.at_last).into_iter().for_each(|answered| answered.set(true));
    }

    /// True when nothing but its requirements and usage decides where the request is placed: in a shared block, if it is no larger
    /// than what always shares one.
    pub(crate) fn is_ordinary(&self) -> bool {
        let options = self.options;
        // Each exclusion asks for a choice that the quick path does not make: another ranking, dedicated memory, the
        // best of all places; and only linear blocks have an upper side.
        (options.required | options.preferred | options.avoided).is_empty()
            && (1..=MAX_SIZE).contains(&self.requirements.size)
            && self.requirements.dedicated == DedicatedNeed::None
            && options.dedicated != Dedicated::Always
            && matches!(options.strategy, FitStrategy::Balanced | FitStrategy::LeastTime)
            && options.side == StackSide::Lower
    }
}

impl MemoryUsage {
    /// Returns options for this usage in a custom pool, with the defaults for everything else.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// let pool = allocator.create_pool(PoolDesc::new([best]))?;
    /// let tile = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_pool(&pool))?;
    /// # allocator.free(tile)?;
    /// # allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_pool(self, pool: &Pool) -> AllocationOptions {
        AllocationOptions::new(self).with_pool(pool)
    }

    /// Returns options for this usage with a debug name, and the defaults for everything else.
    ///
    /// The name is known at compile time, which lets this function be `const`. A name that is made at run time is given
    /// to [`AllocationOptions::with_name`]:
    ///
    /// ```
    /// use allotment::{AllocationOptions, MemoryUsage};
    ///
    /// let mesh = MemoryUsage::GpuOnly.with_name("mesh");
    /// let meshes = (0..3).map(|i| AllocationOptions::new(MemoryUsage::GpuOnly).with_name(format!("mesh/{i}")));
    /// # assert_eq!(meshes.last().unwrap().name.unwrap().as_str(), "mesh/2");
    /// ```
    #[must_use]
    pub const fn with_name(self, name: &'static str) -> AllocationOptions {
        AllocationOptions::new_with_name(self, Some(Name::Static(name)))
    }
}

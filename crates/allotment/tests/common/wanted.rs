//! A request that tests pass around as one value: what a resource requires, and what the caller wants.

#![allow(dead_code, reason = "no test binary uses all of it")]

use core::ops::{Deref, DerefMut};

use allotment::memory::names::Name;
use allotment::memory::preview::{AllocationPreview, MemoryTypeCandidate};
use allotment::memory::{BudgetPolicy, Dedicated, ExpectedLifetime, Movability, NewBlocks};
use allotment::{
    Allocation, AllocationError, AllocationOptions, Allocator, Device, MemoryUsage, Pool, Requirements,
    ResourceKind,
};

/// Requirements and options. Serves as the options alone wherever those are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) requirements: Requirements,
    pub(crate) options: AllocationOptions,
}

impl Deref for Wanted {
    type Target = AllocationOptions;

    fn deref(&self) -> &AllocationOptions {
        &self.options
    }
}

impl DerefMut for Wanted {
    fn deref_mut(&mut self) -> &mut AllocationOptions {
        &mut self.options
    }
}

impl Wanted {
    pub(crate) fn new(requirements: Requirements, usage: MemoryUsage) -> Self {
        Self { requirements, options: usage.into() }
    }

    pub(crate) fn with_kind(mut self, kind: ResourceKind) -> Self {
        self.requirements.kind = kind;
        self
    }

    fn with(self, change: impl FnOnce(AllocationOptions) -> AllocationOptions) -> Self {
        Self { options: change(self.options), ..self }
    }

    pub(crate) fn with_name(self, name: impl Into<Name>) -> Self {
        self.with(|options| options.with_name(name))
    }

    pub(crate) fn with_pool(self, pool: &Pool) -> Self {
        self.with(|options| options.with_pool(pool))
    }

    pub(crate) fn with_category(self, category: &'static str) -> Self {
        self.with(|options| options.with_category(category))
    }

    pub(crate) fn with_lifetime(self, lifetime: ExpectedLifetime) -> Self {
        self.with(|options| options.with_lifetime(lifetime))
    }

    pub(crate) fn with_dedicated(self, dedicated: Dedicated) -> Self {
        self.with(|options| options.with_dedicated(dedicated))
    }

    pub(crate) fn with_movability(self, movability: Movability) -> Self {
        self.with(|options| options.with_movability(movability))
    }

    pub(crate) fn within_budget(self) -> Self {
        self.with(|options| options.with_budget(BudgetPolicy::WithinBudget))
    }

    pub(crate) fn without_new_blocks(self) -> Self {
        self.with(|options| options.with_new_blocks(NewBlocks::NeverAllocate))
    }
}

/// The calls of an allocator that take requirements and options, with both in one value.
pub(crate) trait AllocateWanted {
    fn allocate_wanted(&self, wanted: &Wanted) -> Result<Allocation, AllocationError>;
    fn allocate_wanted_in(&self, pool: &Pool, wanted: &Wanted) -> Result<Allocation, AllocationError>;
    fn allocate_wanted_many(&self, wanted: &Wanted, count: usize)
    -> Result<Vec<Allocation>, AllocationError>;
    fn preview_wanted(&self, wanted: &Wanted) -> Result<AllocationPreview, AllocationError>;
    fn reserve_wanted(&self, wanted: &Wanted, bytes: u64) -> Result<u64, AllocationError>;
    fn explain_wanted(&self, wanted: &Wanted) -> Vec<MemoryTypeCandidate>;
}

impl<D: Device> AllocateWanted for Allocator<D> {
    fn allocate_wanted(&self, wanted: &Wanted) -> Result<Allocation, AllocationError> {
        self.allocate(&wanted.requirements, &wanted.options)
    }

    fn allocate_wanted_in(&self, pool: &Pool, wanted: &Wanted) -> Result<Allocation, AllocationError> {
        self.allocate(&wanted.requirements, &wanted.options.clone().with_pool(pool))
    }

    fn allocate_wanted_many(
        &self,
        wanted: &Wanted,
        count: usize,
    ) -> Result<Vec<Allocation>, AllocationError> {
        self.allocate_many(&wanted.requirements, &wanted.options, count)
    }

    fn preview_wanted(&self, wanted: &Wanted) -> Result<AllocationPreview, AllocationError> {
        self.preview(&wanted.requirements, &wanted.options)
    }

    fn reserve_wanted(&self, wanted: &Wanted, bytes: u64) -> Result<u64, AllocationError> {
        self.reserve(&wanted.requirements, &wanted.options, bytes)
    }

    fn explain_wanted(&self, wanted: &Wanted) -> Vec<MemoryTypeCandidate> {
        self.explain(&wanted.requirements, &wanted.options)
    }
}

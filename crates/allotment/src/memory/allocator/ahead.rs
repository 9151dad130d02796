//! Blocks that are allocated before a request needs them: by maintenance, and for a reservation. What a pool wants:
//! `pool/growth_ahead.rs`.

use crate::device::{Device, MemoryDesc, Requirements};
use crate::memory::allocator::Allocator;
use crate::memory::allocator::ladder::{IdleBlocks, MayHelp};
use crate::memory::pool::PoolSlot;
use crate::memory::request::AllocationRequest;
use crate::memory::{AllocationError, AllocationOptions, BudgetPolicy};

impl<D: Device> Allocator<D> {
    /// Allocates one block for a pool that has less room than its watermark. Returns its bytes; `None` when no block is
    /// needed or the driver refused it.
    pub(super) fn grow_ahead(&self, slot: &PoolSlot<D>) -> Option<u64> {
        let wanted = slot.block_wanted_ahead()?;
        // The refresh makes the budget current: memory allocated ahead must not evict that of other programs.
        self.refresh_budgets();
        let got = self.grow_by(slot, wanted, BudgetPolicy::WithinBudget, IdleBlocks::Keep);
        got.inspect_err(|_| slot.note_refused_ahead()).ok()
    }

    /// Allocates a shared block for one memory type of a pool. Returns its bytes.
    fn grow_by(
        &self,
        slot: &PoolSlot<D>,
        (set, size): (usize, u64),
        budget: BudgetPolicy,
        idle: IdleBlocks<'_, D>,
    ) -> Result<u64, AllocationError> {
        let (pending, source) = slot.expect_block(set, budget)?;
        let memory = MemoryDesc::new(source.memory_type, size)
            .with_priority(source.priority)
            .with_options(source.options.as_ref());
        let got = self.object_of_driver(&memory, (source.terms.budget, source.terms.mapping), idle);
        let got = got.inspect(|memory| self.name_block(memory, &source));
        let inserted = pending.insert_empty(got, || self.pools.now());
        self.pools.placed_or_freed(inserted).map(|()| size)
    }

    /// Makes sure that requests like this find room for `bytes` in all, in blocks of the memory type that suits
    /// them best, or of the first type of their pool that they allow: for the start of a level, where waiting for the
    /// driver is no harm. Returns how many bytes the driver allocated for that.
    ///
    /// For the next [`EmptyBlockPolicy::frames`](crate::memory::blocks::EmptyBlockPolicy::frames) frames the pool frees no
    /// block by itself, and large requests use its blocks, too.
    ///
    /// # Errors
    ///
    /// [`AllocationError`] when the driver or a limit refused a block; the blocks allocated before remain. Nothing is
    /// allocated where no block of a pool with a fixed block size can hold such a request
    /// ([`AllocationError::TooLargeForBlock`]).
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let (mesh, options) = (Requirements::new(1 << 20), MemoryUsage::GpuOnly.into());
    /// assert!(allocator.reserve(&mesh, &options, 100 << 20)? >= 100 << 20);
    /// let calls = allocator.reports().device_calls();
    /// let meshes: Vec<_> = (0..100).map(|_| allocator.allocate(&mesh, &options)).collect::<Result<_, _>>()?;
    /// assert_eq!(allocator.reports().device_calls(), calls);
    /// # meshes.into_iter().for_each(|mesh| allocator.free(mesh).unwrap());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn reserve(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
        bytes: u64,
    ) -> Result<u64, AllocationError> {
        let request = &AllocationRequest::new(requirements, options);
        let (slot, set) =
            self.would_serve(request, |of, _| Ok((self.pools.shard(of.shards, of.shards.own())?, of.set)))?;
        let (mut allocated, mut first) = (0, true);
        let reserved = self.or_refuse(
            |refused: &AllocationError| MayHelp::against(*refused),
            || {
                // Decided anew for each block, since other threads allocate and free between two of them.
                loop {
                    let now = self.pools.now();
                    let wanted = slot.block_wanted_for(
                        (set, bytes),
                        request,
                        now,
                        core::mem::replace(&mut first, false),
                    );
                    let Some(size) = wanted? else { return Ok(allocated) };
                    // Not those of the pool itself: its empty blocks are part of the room that is reserved.
                    let idle = IdleBlocks::FreeBut(slot);
                    allocated += self.grow_by(slot, (set, size), options.budget, idle)?;
                }
            },
        );
        reserved.map_err(|error| error.of(options.short_name()))
    }
}

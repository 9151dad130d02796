//! `VirtualBlock` with each algorithm, and TLSF with each strategy.

use core::marker::PhantomData;

use allotment_suballoc::{Algorithm, Alignment, FitStrategy, Handle, Request, VirtualBlock};

use super::{Ranges, Space};

/// An algorithm with a strategy.
pub(in crate::ranges) trait Kind: Send + 'static {
    const NAME: &'static str;
    const ALGORITHM: Algorithm;
    const STRATEGY: FitStrategy;
    /// Whether the numbers are the units of the workload, as the documentation advises, and not bytes. Then most
    /// requests need no alignment.
    const IN_UNITS: bool;
}

macro_rules! kinds {
    ($($kind:ident, $name:literal, $algorithm:ident, $strategy:ident, $in_units:literal;)*) => {
        $(
            pub(in crate::ranges) enum $kind {}

            impl Kind for $kind {
                const NAME: &'static str = $name;
                const ALGORITHM: Algorithm = Algorithm::$algorithm;
                const STRATEGY: FitStrategy = FitStrategy::$strategy;
                const IN_UNITS: bool = $in_units;
            }
        )*
    };
}

kinds! {
    Balanced, "allotment-tlsf", Tlsf, Balanced, false;
    BalancedInUnits, "allotment-tlsf-in-units", Tlsf, Balanced, true;
    LeastTime, "allotment-tlsf-least-time", Tlsf, LeastTime, false;
    LeastMemory, "allotment-tlsf-least-memory", Tlsf, LeastMemory, false;
    LowestOffset, "allotment-tlsf-lowest-offset", Tlsf, LowestOffset, false;
    Linear, "allotment-linear", Linear, Balanced, false;
    Buddy, "allotment-buddy", Buddy, Balanced, false;
}

/// A block without data of the caller.
pub(in crate::ranges) struct Ours<K> {
    block: VirtualBlock<()>,
    /// Its numbers are multiples of 2^shift bytes; unused where they are bytes.
    shift: u32,
    kind: PhantomData<K>,
}

impl<K: Kind> Ranges for Ours<K> {
    type Handle = Handle;

    const NAME: &'static str = K::NAME;
    const IS_LINEAR: bool = matches!(K::ALGORITHM, Algorithm::Linear);

    fn new(space: &Space) -> Option<Self> {
        let shift = if K::IN_UNITS { space.unit.ilog2() } else { 0 };
        let block = VirtualBlock::new(space.size >> shift, K::ALGORITHM).ok()?;
        Some(Self { block, shift, kind: PhantomData })
    }

    #[inline(always)]
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(Handle, u64)> {
        // A constant for those in bytes.
        let shift = if K::IN_UNITS { self.shift } else { 0 };
        let (size, alignment) = (size >> shift, alignment >> shift);
        let request = Request::new(size).aligned(Alignment::new(alignment).ok()?).with_strategy(K::STRATEGY);
        let range = self.block.allocate(request, ()).ok()?;
        Some((range.handle, range.offset << shift))
    }

    #[inline(always)]
    fn free(&mut self, handle: Handle) {
        let freed = self.block.free(handle);
        debug_assert!(freed.is_ok(), "the handle is used once");
    }

    fn clear(&mut self) -> bool {
        self.block.clear();
        true
    }
}

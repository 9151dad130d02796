//! `VirtualBlock` with each algorithm, and TLSF with each strategy.

use core::marker::PhantomData;

use allotment_suballoc::{Algorithm, Alignment, Handle, Request, Strategy, VirtualBlock};

use super::{Ranges, Space};

/// An algorithm with a strategy.
pub(in crate::ranges) trait Kind: Send + 'static {
    const NAME: &'static str;
    const ALGORITHM: Algorithm;
    const STRATEGY: Strategy = Strategy::Balanced;
}

macro_rules! kinds {
    ($($kind:ident, $name:literal, $algorithm:ident, $strategy:ident;)*) => {
        $(
            pub(in crate::ranges) enum $kind {}

            impl Kind for $kind {
                const NAME: &'static str = $name;
                const ALGORITHM: Algorithm = Algorithm::$algorithm;
                const STRATEGY: Strategy = Strategy::$strategy;
            }
        )*
    };
}

kinds! {
    Balanced, "allotment-tlsf", Tlsf, Balanced;
    LeastTime, "allotment-tlsf-least-time", Tlsf, LeastTime;
    LeastMemory, "allotment-tlsf-least-memory", Tlsf, LeastMemory;
    LowestOffset, "allotment-tlsf-lowest-offset", Tlsf, LowestOffset;
    Linear, "allotment-linear", Linear, Balanced;
    Buddy, "allotment-buddy", Buddy, Balanced;
}

/// A block in bytes, without data of the caller.
pub(in crate::ranges) struct Ours<K> {
    block: VirtualBlock<()>,
    kind: PhantomData<K>,
}

impl<K: Kind> Ranges for Ours<K> {
    type Handle = Handle;

    const NAME: &'static str = K::NAME;

    fn new(space: &Space) -> Option<Self> {
        Some(Self { block: VirtualBlock::new(space.size, K::ALGORITHM).ok()?, kind: PhantomData })
    }

    #[inline]
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(Handle, u64)> {
        let request = Request::new(size).aligned(Alignment::new(alignment).ok()?).with_strategy(K::STRATEGY);
        let range = self.block.allocate(request, ()).ok()?;
        Some((range.handle, range.offset))
    }

    #[inline]
    fn free(&mut self, handle: Handle) {
        let freed = self.block.free(handle);
        debug_assert!(freed.is_ok(), "the handle is used once");
    }

    fn clear(&mut self) -> bool {
        self.block.clear();
        true
    }
}

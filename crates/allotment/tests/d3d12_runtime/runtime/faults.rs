//! Calls that are refused because a test says so.

use std::collections::BTreeMap;

use windows::Win32::Foundation::E_OUTOFMEMORY;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{Error, HRESULT, Result};

use super::Runtime;

/// Calls that can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    CreateHeap,
    CreatePlacedResource,
    CreateCommittedResource,
    CreateReservedResource,
    CreateFence,
    CreateDescriptorHeap,
    CreateCommandAllocator,
    CreateCommandList,
    MakeResident,
    Evict,
    EnqueueMakeResident,
    SetResidencyPriority,
    OpenSharedHandle,
    CreateSharedHandle,
    GetDesc,
    QueryVideoMemoryInfo,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    /// How many calls of a kind there were.
    counts: BTreeMap<Kind, u64>,
    /// How many calls there were of all kinds.
    total: u64,
    planned: Vec<Plan>,
    /// Heap types of which there is no more.
    full: Vec<D3D12_HEAP_TYPE>,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    /// `None` for a call of any kind.
    kind: Option<Kind>,
    /// Counted as the runtime does.
    at: u64,
    code: HRESULT,
    /// That call alone, or all from there on.
    ever_after: bool,
}

impl Faults {
    fn count(&self, kind: Option<Kind>) -> u64 {
        match kind {
            Some(kind) => self.counts.get(&kind).copied().unwrap_or(0),
            None => self.total,
        }
    }
}

impl Runtime {
    /// Counts a call, and refuses it where that was planned.
    pub(super) fn enter(&self, kind: Kind) -> Result<()> {
        let mut state = self.state();
        let faults = &mut state.faults;
        *faults.counts.entry(kind).or_default() += 1;
        faults.total += 1;
        let hit = faults.planned.iter().find(|plan| {
            let count = faults.count(plan.kind);
            let concerns = plan.kind.is_none_or(|planned| planned == kind);
            concerns && (count == plan.at || plan.ever_after && count > plan.at)
        });
        hit.map_or(Ok(()), |plan| Err(Error::from_hresult(plan.code)))
    }

    /// Refuses memory of heap types of which there is no more.
    pub(super) fn has_room(&self, heap: &D3D12_HEAP_PROPERTIES) -> Result<()> {
        if self.state().faults.full.contains(&heap.Type) { Err(E_OUTOFMEMORY.into()) } else { Ok(()) }
    }

    /// Lets there be no more memory of these heap types, whatever the budget says.
    pub(crate) fn set_full(&self, heap_types: &[D3D12_HEAP_TYPE]) {
        self.state().faults.full = heap_types.to_vec();
    }

    /// Refuses the `k`-th call of a kind from now on, the first being 1.
    pub(crate) fn refuse(&self, kind: Kind, k: u64, code: HRESULT) {
        self.plan(Some(kind), k, code, false);
    }

    /// Refuses the `k`-th call from now on, whatever it is, and all that come after it.
    pub(crate) fn refuse_from(&self, k: u64, code: HRESULT) {
        self.plan(None, k, code, true);
    }

    /// Refuses all calls of a kind from now on.
    pub(crate) fn refuse_all(&self, kind: Kind, code: HRESULT) {
        self.plan(Some(kind), 1, code, true);
    }

    fn plan(&self, kind: Option<Kind>, k: u64, code: HRESULT, ever_after: bool) {
        let faults = &mut self.state().faults;
        let at = faults.count(kind) + k;
        faults.planned.push(Plan { kind, at, code, ever_after });
    }

    /// Refuses nothing any more. True where every planned refusal has happened.
    pub(crate) fn refuse_nothing(&self) -> bool {
        let faults = &mut self.state().faults;
        let planned = core::mem::take(&mut faults.planned);
        planned.iter().all(|plan| faults.count(plan.kind) >= plan.at)
    }
}

//! A Direct3D 12 runtime and an adapter that tests can shape, over the machine's own.
//!
//! Only the device, the adapter and queues are objects of this folder's; heaps, resources, fences and lists are the
//! machine's, made by its device at the bidding of ours, so they can be handed to each other.

mod adapter;
pub(crate) mod calls;
pub(crate) mod checks;
mod device;
pub(crate) mod faults;
mod features;
mod fence;
mod forward;
pub(crate) mod live;
mod objects;
mod queue;
mod sizes;
mod tiles;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::IDXGIAdapter3;

use calls::Call;
use faults::Faults;
use live::Live;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// The flag of tight alignment, which the bindings do not name yet.
pub(crate) const TIGHT: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(0x400);
/// The feature of tight alignment.
pub(crate) const FEATURE_TIGHT_ALIGNMENT: D3D12_FEATURE = D3D12_FEATURE(54);

/// The features of a runtime.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) tier: D3D12_RESOURCE_HEAP_TIER,
    /// All memory is the adapter's own.
    pub(crate) uma: bool,
    /// Its caches are the processor's too.
    pub(crate) coherent: bool,
    /// GPU upload heaps.
    pub(crate) gpu_upload: bool,
    /// The alignment that buffers have where they ask for a tight one; `None` where it is not supported.
    pub(crate) tight: Option<u64>,
    /// The seventh options are known, and with them heaps that are not zeroed.
    pub(crate) not_zeroed: bool,
    /// Initial layouts.
    pub(crate) enhanced_barriers: bool,
    /// Views and samplers that a heap can have, those along with static ones; `None` where it is not supported.
    pub(crate) descriptors: Option<[u32; 2]>,
    /// Buffers with addresses and no memory.
    pub(crate) tiled: bool,
    /// Interfaces up to `ID3D12Device12`, rather than `ID3D12Device` alone.
    pub(crate) interfaces: Interfaces,
    /// Bytes of the adapter's memory, and of the system's.
    pub(crate) sizes: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interfaces {
    First,
    UpTo12,
}

impl Config {
    /// The first Direct3D 12, on a discrete card with the least features that hardware had.
    pub(crate) fn oldest() -> Self {
        Self {
            tier: D3D12_RESOURCE_HEAP_TIER_1,
            uma: false,
            coherent: false,
            gpu_upload: false,
            tight: None,
            not_zeroed: false,
            enhanced_barriers: false,
            descriptors: None,
            tiled: false,
            interfaces: Interfaces::First,
            sizes: [8 << 30, 16 << 30],
        }
    }

    /// All features, on a discrete card.
    pub(crate) fn newest() -> Self {
        Self {
            tier: D3D12_RESOURCE_HEAP_TIER_2,
            gpu_upload: true,
            tight: Some(256),
            not_zeroed: true,
            enhanced_barriers: true,
            descriptors: Some([1 << 20, 4000]),
            tiled: true,
            interfaces: Interfaces::UpTo12,
            ..Self::oldest()
        }
    }

    /// A common machine: heaps of tier 2, new interfaces, no GPU upload heaps, no tight alignment.
    pub(crate) fn usual() -> Self {
        Self { gpu_upload: false, tight: None, ..Self::newest() }
    }

    /// A common machine with unified memory.
    pub(crate) fn integrated(self) -> Self {
        Self { uma: true, sizes: [128 * MIB, 16 << 30], ..self }
    }

    /// A machine with unified memory and caches.
    pub(crate) fn coherent(self) -> Self {
        Self { coherent: true, ..self.integrated() }
    }
}

/// The runtime between the backend and the machine's runtime.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) config: Config,
    below: ID3D12Device,
    adapter_below: IDXGIAdapter3,
    /// All memory of the machine is one.
    uma_below: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    validation_errors: Vec<String>,
    faults: Faults,
    live: Vec<Live>,
    mappings: tiles::Mappings,
    /// The usage of both segment groups by other code of the process, and their budgets.
    elsewhere: [u64; 2],
    budgets: Option<[u64; 2]>,
    /// Fences of memory that is being made resident, while a test delays that.
    held_up: Option<Vec<(ID3D12Fence, u64)>>,
    /// The device is gone, as fences say that are made from now on.
    removed: bool,
}

impl Runtime {
    pub(crate) fn new(config: Config, below: &ID3D12Device, adapter_below: &IDXGIAdapter3) -> Arc<Self> {
        let mut architecture = D3D12_FEATURE_DATA_ARCHITECTURE::default();
        let size = size_of_val(&architecture) as u32;
        // SAFETY: the device is live, and the structure is that of the feature.
        unsafe {
            below.CheckFeatureSupport(D3D12_FEATURE_ARCHITECTURE, (&raw mut architecture).cast(), size)
        }
        .unwrap();
        Arc::new(Self {
            config,
            below: below.clone(),
            adapter_below: adapter_below.clone(),
            uma_below: architecture.UMA.as_bool(),
            state: Mutex::default(),
        })
    }

    /// The device that the backend gets.
    pub(crate) fn device(self: &Arc<Self>) -> ID3D12Device {
        device::device(self)
    }

    /// A queue of the machine's as the backend gets it.
    pub(crate) fn queue(self: &Arc<Self>, below: ID3D12CommandQueue) -> ID3D12CommandQueue {
        queue::queue(self, below)
    }

    /// The adapter that the backend gets.
    pub(crate) fn adapter(self: &Arc<Self>) -> IDXGIAdapter3 {
        adapter::adapter(self)
    }

    /// A test that failed in the middle of something is no reason for others to fail.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a message, as the debug layer does.
    fn report(&self, validation_error: impl Into<String>) {
        self.state().validation_errors.push(validation_error.into());
    }

    /// Takes the messages since the last time.
    pub(crate) fn validation_errors(&self) -> Vec<String> {
        core::mem::take(&mut self.state().validation_errors)
    }

    /// Sets what the process should use of both segment groups, and what others in it use.
    pub(crate) fn set_budgets(&self, budgets: [u64; 2], elsewhere: [u64; 2]) {
        let mut state = self.state();
        (state.budgets, state.elsewhere) = (Some(budgets), elsewhere);
    }

    /// Has fences that are made from now on say that the device was removed.
    pub(crate) fn remove(&self) {
        self.state().removed = true;
    }

    /// Delays memory that is being made resident until [`let_back`](Self::let_back).
    pub(crate) fn hold_up(&self) {
        self.state().held_up = Some(Vec::new());
    }

    /// Lets memory arrive that was held up.
    pub(crate) fn let_back(&self) {
        let held = self.state().held_up.take();
        for (fence, value) in held.into_iter().flatten() {
            // SAFETY: the fence is live.
            unsafe { fence.Signal(value) }.unwrap();
        }
    }
}

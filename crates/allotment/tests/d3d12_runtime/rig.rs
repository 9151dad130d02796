//! The tests' common parts: an allocator over a runtime of their own, which is checked when it is dropped, and short
//! ways to say what is asked of it.

use core::ops::Deref;
use core::time::Duration;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use allotment::device::d3d12::{Device, DeviceDesc, ResourceInfo};
use allotment::device::{DeviceError, MemoryDevice as _, MemoryProperties, MemoryTypeIndex, MemoryTypeMask};
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::reports::LeakHandler;
use allotment::memory::{Dedicated, RawResource};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};
use allotment_headless::d3d12::{Headless, HeadlessDesc};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use crate::runtime::Runtime;
use crate::runtime::live::Counts;
pub(crate) use crate::runtime::{Config, KIB, MIB};

/// Says why a test does not run; with `ALLOTMENT_REQUIRE=d3d12`, that is a failure.
pub(crate) fn skip(why: &str) {
    let required = std::env::var("ALLOTMENT_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|kind| kind.trim() == "d3d12"), "d3d12 is required: {why}");
    say_skipped(why);
}

/// Says why a test does not run, past the harness, which keeps to itself what tests that pass have printed.
pub(crate) fn say_skipped(why: &str) {
    std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).unwrap();
}

/// The machine's own device, opened once, since naming the adapters takes long. `None` where there is none.
fn machine() -> Option<&'static Headless> {
    static MACHINE: OnceLock<Result<Headless, String>> = OnceLock::new();
    // The debug layer is not asked for: the runtime in between stands in for it everywhere.
    let open = || Headless::open(&HeadlessDesc::default()).map_err(|error| error.to_string());
    let opened = MACHINE.get_or_init(open);
    match opened {
        Ok(headless) => Some(headless),
        Err(why) => {
            skip(why);
            None
        }
    }
}

/// A runtime, not yet a device: for tests of how a device is made.
pub(crate) fn runtime(config: Config) -> Option<Arc<Runtime>> {
    let machine = machine()?.device();
    let runtime = Runtime::new(config, machine.raw(), machine.adapter());
    if runtime.config.tier.0 > runtime.tier_below().0 {
        skip("the machine's heaps are of tier 1, and cannot hold what the test has in them");
        return None;
    }
    Some(runtime)
}

/// A queue of the machine's.
fn queue(kind: D3D12_COMMAND_LIST_TYPE) -> ID3D12CommandQueue {
    let desc = D3D12_COMMAND_QUEUE_DESC { Type: kind, ..Default::default() };
    // SAFETY: the device is live.
    unsafe { machine().unwrap().device().raw().CreateCommandQueue(&desc) }.unwrap()
}

/// A device over the runtime, with two queues: one that draws, one that copies.
pub(crate) fn device(
    runtime: &Arc<Runtime>,
    change: impl FnOnce(DeviceDesc) -> DeviceDesc,
) -> Result<Device, DeviceError> {
    let desc = DeviceDesc::new(runtime.device(), runtime.adapter())
        .with_queue(runtime.queue(queue(D3D12_COMMAND_LIST_TYPE_DIRECT)))
        .with_queue(runtime.queue(queue(D3D12_COMMAND_LIST_TYPE_COPY)));
    Device::new(change(desc))
}

/// An allocator and its runtime. When it goes, everything must have been freed and given back, and the
/// runtime must have had nothing to complain about.
pub(crate) struct Rig {
    pub(crate) runtime: Arc<Runtime>,
    allocator: Option<Allocator<Device>>,
}

impl Rig {
    pub(crate) fn new(config: Config) -> Option<Self> {
        Self::with(config, |desc| desc, |_| {})
    }

    pub(crate) fn with(
        config: Config,
        device_desc: impl FnOnce(DeviceDesc) -> DeviceDesc,
        change: impl FnOnce(&mut AllocatorDesc),
    ) -> Option<Self> {
        let runtime = runtime(config)?;
        let device = device(&runtime, device_desc).unwrap();
        let mut desc = AllocatorDesc::default();
        // Small, so that tests can fill them; and given back at once, so that tests see what is left.
        desc.block_sizes = BlockSizes::fixed(4 * MIB);
        desc.empty_blocks = EmptyBlockPolicy::NONE;
        desc.on_leak = LeakHandler::Ignore;
        change(&mut desc);
        let allocator = Some(Allocator::new(device, desc).unwrap());
        runtime.calls();
        Some(Self { runtime, allocator })
    }

    /// The memory type that an allocation got, of a resource that was made.
    pub(crate) fn type_of(&self, resource: &RawResource<ID3D12Resource>) -> MemoryTypeIndex {
        self.location(resource.allocation()).unwrap().memory_type
    }

    /// How heaps of a resource's memory type are made.
    pub(crate) fn heap_of(&self, resource: &RawResource<ID3D12Resource>) -> D3D12_HEAP_PROPERTIES {
        self.device().heap_properties(self.type_of(resource)).unwrap()
    }

    /// The memory types whose heaps suit.
    pub(crate) fn types(&self, suits: impl Fn(&D3D12_HEAP_PROPERTIES) -> bool) -> Vec<MemoryTypeIndex> {
        let types = self.device().properties().indexed_types().map(|(index, _)| index);
        types.filter(|&index| suits(&self.device().heap_properties(index).unwrap())).collect()
    }

    /// Sets the budgets of both segment groups, and what other programs use of them, and has the allocator
    /// ask.
    pub(crate) fn set_budgets(&self, budgets: [u64; 2], elsewhere: [u64; 2]) {
        self.runtime.set_budgets(budgets, elsewhere);
        // The device asks the system again once its last answer is a millisecond old.
        std::thread::sleep(Duration::from_millis(5));
        self.refresh_budgets();
    }

    pub(crate) fn destroy(&self, resources: impl IntoIterator<Item = RawResource<ID3D12Resource>>) {
        resources.into_iter().for_each(|resource| self.destroy_resource(resource).unwrap());
    }
}

impl Deref for Rig {
    type Target = Allocator<Device>;

    fn deref(&self) -> &Self::Target {
        self.allocator.as_ref().unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.check_invariants();
        assert_eq!(self.statistics().allocations, 0, "the test has forgotten {:?}", self.reports().leaks());
        self.allocator = None;
        assert_clean(&self.runtime);
    }
}

/// Nothing is alive, and there was nothing to complain about.
pub(crate) fn assert_clean(runtime: &Arc<Runtime>) {
    assert_eq!(runtime.live(), Counts::default(), "something was leaked");
    assert_eq!(runtime.validation_errors(), Vec::<String>::new());
    assert_eq!(Arc::strong_count(runtime), 1, "the device or the adapter was leaked");
}

/// A buffer's description.
pub(crate) fn buffer(size: u64) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
        Width: size,
        Height: 1,
        DepthOrArraySize: 1,
        MipLevels: 1,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
        ..Default::default()
    }
}

/// The description of a texture of four bytes a texel.
pub(crate) fn texture(width: u64, height: u32) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Width: width,
        Height: height,
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
        ..buffer(0)
    }
}

/// Describes it as a render target.
pub(crate) fn target(width: u64, height: u32) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC { Flags: D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET, ..texture(width, height) }
}

/// A depth buffer.
pub(crate) fn depth(width: u64, height: u32) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Format: DXGI_FORMAT_D32_FLOAT,
        Flags: D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL,
        ..texture(width, height)
    }
}

/// A render target of four samples a texel.
pub(crate) fn several_samples(width: u64, height: u32) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC { SampleDesc: DXGI_SAMPLE_DESC { Count: 4, Quality: 0 }, ..target(width, height) }
}

pub(crate) fn info(desc: D3D12_RESOURCE_DESC) -> ResourceInfo<'static> {
    ResourceInfo::new(desc)
}

/// A wish for memory for a resource, whose own requirements count.
pub(crate) fn wish(memory_usage: MemoryUsage) -> AllocationOptions {
    AllocationOptions::new(memory_usage)
}

/// Allocates in one memory type only.
pub(crate) fn wish_in(memory_type: MemoryTypeIndex) -> AllocationOptions {
    let mut desc = wish(MemoryUsage::GpuOnly);
    desc.memory_types = MemoryTypeMask(1 << memory_type.0);
    // Named, since some types are for those only who ask for them.
    desc.preferred = MemoryProperties::DEVICE_READ_ONLY | MemoryProperties::DEVICE_WRITE_ONLY;
    desc
}

/// Creates it placed in a block, or committed.
pub(crate) fn both_ways(desc: &AllocationOptions) -> [AllocationOptions; 2] {
    [Dedicated::Never, Dedicated::Always].map(|dedicated| desc.clone().with_dedicated(dedicated))
}

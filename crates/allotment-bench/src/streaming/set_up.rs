//! The thread that allocates blocks, and when.

use std::sync::Arc;

use allotment::device::MemoryDevice as _;
use allotment::device::vulkan::Device;
use allotment::memory::blocks::{BlockGrowth, MaintenanceThread, Watermark};
use allotment::{Allocator, AllocatorDesc};
use serde::Serialize;

use super::scene::{Scene, buffer, image, staging};
use crate::failure::Failure;
use crate::vulkan::Gpu;

/// Up to this granularity buffers and images share pools, and the library rounds sizes up instead.
const SHARED_GRANULARITY: u64 = 4096;

/// A policy that keeps frames from waiting, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SetUp {
    /// The thread that needs a block allocates it.
    Caller,
    /// A maintenance thread allocates blocks ahead of demand.
    MaintenanceThread,
    /// A maintenance thread; in addition, the memory of the scene is reserved before its first frame.
    MaintenanceThreadAndReserve,
}

/// An allocator and its maintenance thread.
pub(super) struct Stage {
    /// Before the allocator, so that it is dropped first.
    _maintenance: Option<MaintenanceThread<Device>>,
    pub(super) allocator: Arc<Allocator<Device>>,
}

impl SetUp {
    pub(super) const ALL: [Self; 3] =
        [Self::Caller, Self::MaintenanceThread, Self::MaintenanceThreadAndReserve];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::MaintenanceThread => "thread",
            Self::MaintenanceThreadAndReserve => "thread, reserve",
        }
    }

    /// Creates the allocator as it is when the first frame begins.
    pub(super) fn stage(self, gpu: &Arc<Gpu>, scene: &Scene) -> Result<Stage, Failure> {
        let failed = |error: &dyn core::fmt::Display| Failure::Setup {
            contender: "allotment",
            error: error.to_string(),
        };
        let mut desc = AllocatorDesc::default();
        if self != Self::Caller {
            desc.block_growth = BlockGrowth::Ahead(Watermark::default());
        }
        let device = gpu.metered(gpu.usable())?;
        let allocator = Arc::new(Allocator::new(device, desc).map_err(|error| failed(&error))?);
        let mut maintenance = None;
        if self != Self::Caller {
            maintenance =
                Some(MaintenanceThread::spawn(Arc::clone(&allocator)).map_err(|error| failed(&error))?);
        }
        if self == Self::MaintenanceThreadAndReserve {
            // If images have pools of their own, all of the resident bytes may be images.
            let images = images_are_apart(&allocator).then(|| (image(1), scene.resident));
            let wanted = [(buffer(1), scene.resident), (staging(1), scene.upload_bytes())];
            for ((requirements, options), bytes) in wanted.into_iter().chain(images) {
                allocator.reserve(&requirements, &options, bytes).map_err(|error| failed(&error))?;
            }
        }
        Ok(Stage { _maintenance: maintenance, allocator })
    }
}

/// Returns whether images of optimal tiling have pools of their own.
fn images_are_apart(allocator: &Allocator<Device>) -> bool {
    allocator.device().properties().limits.buffer_image_granularity.get() > SHARED_GRANULARITY
}

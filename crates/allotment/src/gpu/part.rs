//! A layer that is created on first use, and that not every device has.
//!
//! `Gpu<D>` exists for each [`Device`](crate::device::Device), while descriptors and command allocators need a device
//! that has them. So the field that holds such a layer does not name its type: the methods that create and use it do,
//! and there is one type for each device.

use core::any::Any;
use std::sync::{Mutex, OnceLock};

use crate::lifetime::Reclaimed;
use crate::sync::locked;

/// A layer that gives back what the GPU has completed.
pub(super) trait Layer: Any + Send + Sync {
    fn reclaim(&self) -> Reclaimed;
}

struct Made {
    layer: Box<dyn Any + Send + Sync>,
    reclaim: fn(&(dyn Any + Send + Sync)) -> Reclaimed,
}

/// The place of one layer.
#[derive(Default)]
pub(super) struct Part {
    made: OnceLock<Made>,
    /// Held by the thread that creates the layer, so that no second thread allocates a second heap meanwhile.
    making: Mutex<()>,
}

impl Part {
    /// Returns the layer, which `make` creates where this is the first call. Each part has one type of layer.
    pub(super) fn get_or_try_init<L: Layer, E>(&self, make: impl FnOnce() -> Result<L, E>) -> Result<&L, E> {
        // The standard library's `OnceLock` has no stable initializer that can fail, so a lock and a second look do it.
        // Every call but the first finds the layer without the lock.
        if self.made.get().is_none() {
            let _making = locked(&self.making);
            if self.made.get().is_none() {
                let layer = Box::new(make()?);
                // The type of the layer is known here only, so the call that needs the type is stored beside the layer.
                let reclaim = |layer: &(dyn Any + Send + Sync)| {
                    layer.downcast_ref::<L>().map_or_else(Reclaimed::default, L::reclaim)
                };
                // No other thread sets it while the lock is held.
                let _ = self.made.set(Made { layer, reclaim });
            }
        }
        match self.made.get().and_then(|made| made.layer.downcast_ref()) {
            Some(layer) => Ok(layer),
            None => unreachable!("set above, and of one type for each part"),
        }
    }

    /// Gives back what the GPU has completed, where the layer exists.
    pub(super) fn reclaim(&self) -> Reclaimed {
        self.made.get().map_or_else(Reclaimed::default, |made| (made.reclaim)(&*made.layer))
    }
}

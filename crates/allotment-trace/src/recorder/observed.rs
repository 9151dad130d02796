//! The objects that can be recorded, and the header of their recording.

use allotment::device::{Api, Device, DeviceProperties};
use allotment::events::{AlreadySubscribed, EventSubscription, SubscriptionDesc};
use allotment::{Allocator, Gpu};

use super::settings::allocator_settings;
use crate::recording::{self, Extent, Header, Heap, Library, MemoryType};

/// Something whose events can be recorded: a [`Gpu`], or an [`Allocator`].
pub trait Observed {
    /// Attaches a reader to its events.
    ///
    /// # Errors
    ///
    /// [`AlreadySubscribed`] while another reader is attached.
    fn subscribe(&self, desc: &SubscriptionDesc) -> Result<EventSubscription, AlreadySubscribed>;

    /// Returns what a recording of it says about where it was made.
    fn header(&self) -> Header;
}

impl<D: Device> Observed for Allocator<D> {
    fn subscribe(&self, desc: &SubscriptionDesc) -> Result<EventSubscription, AlreadySubscribed> {
        Self::subscribe(self, desc)
    }

    /// Returns the device, and the settings of the allocator.
    fn header(&self) -> Header {
        Header { settings: allocator_settings(self.desc()), ..device_header(self.device().properties()) }
    }
}

impl<D: Device> Observed for Gpu<D> {
    fn subscribe(&self, desc: &SubscriptionDesc) -> Result<EventSubscription, AlreadySubscribed> {
        Self::subscribe(self, desc)
    }

    /// Returns the device, and the settings of the allocator.
    fn header(&self) -> Header {
        Observed::header(&**self.allocator())
    }
}

/// Returns the header of a recording that is made on a device.
#[must_use]
pub fn device_header(properties: &DeviceProperties) -> Header {
    let limits = &properties.limits;
    Header {
        producer: concat!("allotment ", env!("CARGO_PKG_VERSION")).to_owned(),
        api: match properties.api {
            Api::Simulated => recording::Api::Simulated,
            Api::Vulkan => recording::Api::Vulkan,
            Api::Direct3D12 => recording::Api::Direct3D12,
            _ => recording::Api::Other,
        },
        device: properties.name.clone(),
        driver: String::new(),
        heaps: properties
            .heaps
            .iter()
            .map(|heap| Heap { size: heap.size, device_local: heap.device_local })
            .collect(),
        memory_types: properties
            .memory_types
            .iter()
            .map(|it| MemoryType { heap: it.heap.0, properties: it.properties.bits() })
            .collect(),
        buffer_image_granularity: limits.buffer_image_granularity.get(),
        non_coherent_atom_size: limits.non_coherent_atom_size.get(),
        max_memory_objects: limits.max_allocation_count,
        settings: Vec::new(),
        library: Library::Allotment,
        extent: Extent::History,
    }
}

//! What a graphics API offers to this crate: one trait for each concern, so that each file of a backend contains its
//! own implementation.

mod buffer;
mod command;
mod descriptor;
mod image;
mod memory;
mod queue;

pub use buffer::BufferDevice;
pub use command::CommandDevice;
pub use descriptor::DescriptorDevice;
pub use image::ImageDevice;
pub use memory::MemoryDevice;
pub use queue::QueueDevice;

/// A graphics API's memory, resources and queues: what an [`Allocator`](crate::Allocator) needs.
///
/// It has no methods of its own and is implemented for every [`QueueDevice`]. A generic function that has a
/// `D: Device` can call the methods of all four traits: [`MemoryDevice`], [`BufferDevice`], [`ImageDevice`] and
/// [`QueueDevice`].
///
/// ```
/// use allotment::Device;
///
/// fn device_name<D: Device>(device: &D) -> &str {
///     &device.properties().name
/// }
/// ```
pub trait Device: QueueDevice {}

impl<D: QueueDevice> Device for D {}

//! The Vulkan device that all contenders share, and direct access to it for reference measurements.

mod gpu;
mod granularity;
mod heap;
mod meter;
mod resource;
pub(crate) mod tight;
mod transfer;

pub(crate) use gpu::{API_VERSION, Gpu, MemoryTypeInfo};
#[cfg(test)]
pub(crate) use meter::ALONE;
pub(crate) use meter::{Meter, Reading, own_allocate_calls};
pub(crate) use resource::Buffer;
pub(crate) use transfer::Transfer;

//! The Vulkan device that all contenders share, and what is needed to measure it by itself.

mod gpu;
mod granularity;
mod heap;
mod meter;
mod resource;
mod transfer;

pub(crate) use gpu::{API_VERSION, Gpu, MemoryTypeInfo};
pub(crate) use meter::{Meter, Reading, own_allocate_calls};
pub(crate) use resource::Buffer;
pub(crate) use transfer::Transfer;

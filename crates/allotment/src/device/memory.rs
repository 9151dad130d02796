//! What is asked of a driver's memory.

use core::fmt::Debug;

use super::MemoryTypeIndex;

/// A graphics API's own name for a memory object, as it can be kept in 64 bits.
///
/// `VkDeviceMemory` is such a number; of a D3D12 heap it is the address.
pub trait MemoryHandle: Copy + Eq + Debug + Send + Sync + 'static {
    /// The handle as a number; [`from_raw`](Self::from_raw) gives the same handle back.
    fn to_raw(self) -> u64;
    /// The handle that [`to_raw`](Self::to_raw) made `raw` from.
    fn from_raw(raw: u64) -> Self;
}

/// Which memory objects the system shall move out last when there is too little: 0 first, 1 last, ½ where
/// nothing is said. Heeded where the API has a word for it (`VK_EXT_memory_priority`,
/// `ID3D12Device1::SetResidencyPriority`).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Priority(f32);

impl Priority {
    /// Where nothing is said.
    pub const NORMAL: Self = Self(0.5);
    /// For what every frame needs: render targets.
    pub const HIGH: Self = Self(1.0);

    /// `priority` clamped to 0..=1; NaN becomes the default.
    #[must_use]
    pub fn new(priority: f32) -> Self {
        if priority.is_nan() { Self::default() } else { Self(priority.clamp(0.0, 1.0)) }
    }

    /// The number, from 0 to 1.
    #[must_use]
    pub const fn get(self) -> f32 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// When a device takes the [`Priority`] of a memory object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrioritySupport {
    /// Never: all memory is alike to it.
    #[default]
    Ignored,
    /// When the memory is allocated, and never after (`VK_EXT_memory_priority` alone).
    WhenAllocated,
    /// At any time (`VK_EXT_pageable_device_local_memory`, `ID3D12Device1::SetResidencyPriority`).
    AnyTime,
}

/// Memory that is wanted from a driver. `O` is the API's [`MemoryOptions`](super::Device::MemoryOptions).
#[derive(Debug)]
#[non_exhaustive]
pub struct MemoryDesc<'a, O> {
    /// Of which type.
    pub memory_type: MemoryTypeIndex,
    /// Bytes, at least 1.
    pub size: u64,
    /// Whether it goes early or late when there is too little.
    pub priority: Priority,
    /// What the API is told beside; `None` for nothing.
    pub options: Option<&'a O>,
}

impl<'a, O> MemoryDesc<'a, O> {
    /// `size` bytes of a memory type.
    #[must_use]
    pub fn new(memory_type: MemoryTypeIndex, size: u64) -> Self {
        Self { memory_type, size, priority: Priority::default(), options: None }
    }

    /// The same with a priority.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// The same, and what the API is told beside.
    #[must_use]
    pub fn with_options(self, options: Option<&'a O>) -> Self {
        Self { options, ..self }
    }
}

// Not derived, since it is copied whether or not the options can be.
impl<O> Clone for MemoryDesc<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for MemoryDesc<'_, O> {}

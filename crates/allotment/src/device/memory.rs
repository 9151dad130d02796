//! Memory objects: handles, residency priorities, and the description of a driver allocation.

use core::fmt::Debug;

use super::MemoryTypeIndex;

/// A graphics API's memory object as a 64-bit handle.
///
/// For Vulkan this is `VkDeviceMemory`; for Direct3D 12, the address of the heap object.
pub trait MemoryHandle: Copy + Eq + Debug + Send + Sync + 'static {
    /// Returns the handle as a number, from which [`from_raw`](Self::from_raw) restores it.
    fn to_raw(self) -> u64;
    /// Returns the handle for which [`to_raw`](Self::to_raw) returned `raw`.
    fn from_raw(raw: u64) -> Self;
}

/// The residency priority of a memory object, from 0 to 1; 0.5 by default. When device memory is short, the
/// system evicts low priorities first. Used where the API supports it (`VK_EXT_memory_priority`,
/// `ID3D12Device1::SetResidencyPriority`).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Priority(f32);

impl Priority {
    /// The default.
    pub const NORMAL: Self = Self(0.5);
    /// For memory that every frame needs, such as render targets.
    pub const HIGH: Self = Self(1.0);

    /// Creates a priority, clamped to 0..=1; NaN becomes the default.
    #[must_use]
    pub fn new(priority: f32) -> Self {
        // `clamp` keeps a NaN, which drivers need not accept.
        if priority.is_nan() { Self::default() } else { Self(priority.clamp(0.0, 1.0)) }
    }

    /// Returns the priority as a number from 0 to 1.
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

/// When a device accepts the [`Priority`] of a memory object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrioritySupport {
    /// Never: the device ignores priorities.
    #[default]
    Ignored,
    /// Only when the memory is allocated (`VK_EXT_memory_priority` alone).
    WhenAllocated,
    /// At any time (`VK_EXT_pageable_device_local_memory`, `ID3D12Device1::SetResidencyPriority`).
    AnyTime,
}

/// A range of a [reserved buffer](super::BufferDevice::create_reserved_buffer), and the memory that is bound to it from now on.
/// All three numbers are multiples of the alignment that the buffer requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeBinding<M> {
    /// Where the range begins in the buffer, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// A memory object, and where the range begins in it, in bytes. `None` takes the memory away.
    pub memory: Option<(M, u64)>,
}

/// A memory object to allocate from a driver. `O` is the API's [`MemoryOptions`](super::MemoryDevice::MemoryOptions).
#[derive(Debug)]
#[non_exhaustive]
pub struct MemoryDesc<'a, O> {
    /// The memory type.
    pub memory_type: MemoryTypeIndex,
    /// Size in bytes, at least 1.
    pub size: u64,
    /// The residency priority.
    pub priority: Priority,
    /// API-specific options, such as export and import; `None` for none.
    pub options: Option<&'a O>,
}

impl<'a, O> MemoryDesc<'a, O> {
    /// Describes `size` bytes of a memory type, with the default priority and no options.
    #[must_use]
    pub fn new(memory_type: MemoryTypeIndex, size: u64) -> Self {
        Self { memory_type, size, priority: Priority::default(), options: None }
    }

    /// Sets the residency priority.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Sets the API-specific options.
    #[must_use]
    pub fn with_options(self, options: Option<&'a O>) -> Self {
        Self { options, ..self }
    }
}

// Implemented by hand: a derive would require `O: Clone`, though only a reference to the options is copied.
impl<O> Clone for MemoryDesc<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for MemoryDesc<'_, O> {}

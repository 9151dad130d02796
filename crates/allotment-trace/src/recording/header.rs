//! Where a recording was made: the device, its memory, and the settings of the allocator.

/// The device and the program that a recording was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The program or the importer that made it, with its version.
    pub producer: String,
    /// The graphics API.
    pub api: Api,
    /// The device's name. Empty where it is not known.
    pub device: String,
    /// The driver's name and version. Empty where they are not known.
    pub driver: String,
    /// The heaps, by index. Empty where they are not known.
    pub heaps: Vec<Heap>,
    /// The memory types, by index. Empty where they are not known.
    pub memory_types: Vec<MemoryType>,
    /// Bytes that must lie between linear and optimal resources; 1 where it is not known.
    pub buffer_image_granularity: u64,
    /// Bytes of a flush of memory that is not coherent; 1 where it is not known.
    pub non_coherent_atom_size: u64,
    /// The most memory objects at once; 0 where it is not known.
    pub max_memory_objects: u32,
    /// The settings of the allocator, by name.
    pub settings: Vec<(String, String)>,
    /// The library whose memory it is.
    pub library: Library,
    /// Whether it has a history, or one moment.
    pub extent: Extent,
}

/// A library that manages memory, or an API whose calls were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Library {
    /// Not known.
    #[default]
    Unknown,
    /// This library.
    Allotment,
    /// The Vulkan Memory Allocator.
    Vma,
    /// The D3D12 Memory Allocator.
    D3d12MemoryAllocator,
    /// The crate `gpu-allocator`.
    GpuAllocator,
    /// wgpu.
    Wgpu,
    /// The allocator of PyTorch.
    PyTorch,
    /// Calls to the driver: whose allocator made them is not known.
    Driver,
}

/// How much of a program's time a recording is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// What happened, one after the other.
    #[default]
    History,
    /// What existed at one moment. The order of its events means nothing: there is no time, no curve and no lifetime.
    Moment,
}

/// A graphics API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Api {
    /// Another, or none.
    #[default]
    Other,
    /// The simulated GPU.
    Simulated,
    /// Vulkan.
    Vulkan,
    /// Direct3D 12.
    Direct3D12,
    /// CUDA, or what PyTorch calls so.
    Cuda,
}

/// A heap of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Bytes; 0 where they are not known.
    pub size: u64,
    /// It is memory of the GPU.
    pub device_local: bool,
}

/// A memory type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryType {
    /// Its heap.
    pub heap: u8,
    /// Its properties, as [`MemoryProperties`](allotment::device::MemoryProperties) numbers them.
    pub properties: u32,
}

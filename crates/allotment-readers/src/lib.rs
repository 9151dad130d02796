//! GPU work that reads through descriptors, with one interface for every device: for tests and examples.
//!
//! On Vulkan and Direct3D 12 a compute shader reads; the simulated GPU executes the reads itself. Buffers are
//! [read](DescriptorReader::submit), and textures are sampled: [texel for texel](DescriptorReader::sample), or at [a list of
//! coordinates](DescriptorReader::sample_list).

#[cfg(windows)]
mod d3d12;
mod simulated;
mod vulkan;

#[cfg(windows)]
pub use d3d12::D3d12Reader;
pub use simulated::SimulatedReader;
pub use vulkan::VulkanReader;

use allotment::device::{
    DescriptorDevice, DeviceError, ImageDesc, ImageViewDimension, QueueIndex, TimelinePoint, TimelineValue,
};

/// A series of reads through descriptors.
#[derive(Debug)]
pub struct Read<'a, D: DescriptorDevice> {
    /// A shader-visible descriptor heap of resources. Each descriptor that is read names a buffer range of at
    /// least 4 bytes with [`BufferUse::ReadOnly`](allotment::device::BufferUse::ReadOnly).
    pub heap: &'a D::DescriptorHeap,
    /// 32-bit numbers, one per read: the index of a descriptor in the heap, read when the work runs.
    pub indices: &'a D::Buffer,
    /// Offset of the first index in bytes; a multiple of 256.
    pub indices_offset: u64,
    /// The number of indices; at least 1.
    pub count: u32,
    /// The destination: the first 4 bytes of what each descriptor names, in the order of the indices.
    pub to: &'a D::Buffer,
    /// Offset of the first byte that is written; a multiple of 256.
    pub to_offset: u64,
}

/// A texture that is sampled through descriptors into a picture: texel for texel, each in its middle. What lies beyond
/// the texture is as the sampler says.
#[derive(Debug)]
pub struct Sample<'a, D: DescriptorDevice> {
    /// A shader-visible descriptor heap of resources.
    pub resources: &'a D::DescriptorHeap,
    /// The index of the [descriptor of a texture](DescriptorReader::texture_descriptor) in it.
    pub texture: u32,
    /// A shader-visible descriptor heap of samplers.
    pub samplers: &'a D::DescriptorHeap,
    /// The index of a sampler in it, which does not compare.
    pub sampler: u32,
    /// Width and height of the picture in texels, at least 1 each.
    pub extent: [u32; 2],
    /// The destination, from its first byte on: four bytes a texel, row after row.
    pub to: &'a D::Buffer,
}

/// A texture that is sampled through descriptors at a list of coordinates, as HLSL's `SampleLevel` and GLSL's `textureLod` do.
#[derive(Debug)]
pub struct SampleList<'a, D: DescriptorDevice> {
    /// A shader-visible descriptor heap of resources.
    pub resources: &'a D::DescriptorHeap,
    /// The index of the descriptor of a texture in it.
    pub texture: u32,
    /// What the view of the texture is: [`D2`](ImageViewDimension::D2) or [`Cube`](ImageViewDimension::Cube). There is no
    /// shader for others.
    pub dimension: ImageViewDimension,
    /// A shader-visible descriptor heap of samplers.
    pub samplers: &'a D::DescriptorHeap,
    /// The index of a sampler in it, which does not compare.
    pub sampler: u32,
    /// The [entries](SampleAt::to_bytes), from the buffer's first byte on.
    pub list: &'a D::Buffer,
    /// The number of entries, at least 1.
    pub count: u32,
    /// The picture, from the buffer's first byte on: four bytes a texel.
    pub to: &'a D::Buffer,
}

/// An entry of a [`SampleList`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleAt {
    /// Where: `u` and `v` of a 2D texture; the direction of a cube.
    pub coordinates: [f32; 3],
    /// The mip level of the view. Between two levels, the sampler says what is there; the simulated GPU takes the nearer one,
    /// and the nearest texel of it.
    pub level: f32,
    /// The number of the texel of the picture that is written.
    pub to: u32,
}

impl SampleAt {
    /// Bytes of an entry.
    pub const SIZE: u64 = 20;

    /// Returns the entry as the GPU reads it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE as usize] {
        let [u, v, w] = self.coordinates;
        let words = [u.to_bits(), v.to_bits(), w.to_bits(), self.level.to_bits(), self.to];
        let mut bytes = [0; Self::SIZE as usize];
        bytes.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
        bytes
    }
}

/// The numbers of formats of render targets, and the usages of their descriptions: for
/// [`ImageDesc::format`](allotment::device::ImageDesc::format) and [`usage`](allotment::device::ImageDesc::usage).
#[derive(Clone, Copy, Debug)]
pub struct TargetFormats {
    /// One byte a texel.
    pub r8: u32,
    /// Four bytes.
    pub rgba8: u32,
    /// Four numbers of 16 bits.
    pub rgba16f: u32,
    /// One number of 32 bits.
    pub r32f: u32,
    /// A depth of 32 bits.
    pub depth: u32,
    /// The usage of targets with colors.
    pub color_usage: u64,
    /// The usage of targets with depths.
    pub depth_usage: u64,
}

/// Reads through descriptors on the GPU: with a compute shader, or with the simulated GPU's replacement for one.
pub trait DescriptorReader<D: DescriptorDevice>: Sized + Send + Sync {
    /// The object that a descriptor of a texture names beside the image: an image view on Vulkan. Destroyed when dropped.
    type TextureView: Send + Sync + 'static;

    /// The state in which textures are sampled.
    const SAMPLED: D::ImageState;

    /// The state that images are copied from in. Several queues may copy from one at the same time.
    const COPIED_FROM: D::ImageState;

    /// The number of the format of textures with four bytes a texel, for red, green, blue and alpha.
    const RGBA8: u32;

    /// The number of the format BC7, which a device may lack nevertheless. `None` on the simulated GPU, which samples no
    /// compressed textures.
    const BC7: Option<u32>;

    /// The formats of render targets.
    const TARGETS: TargetFormats;

    /// Prepares to read through heaps of up to `capacity` descriptors.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    fn new(device: &D, capacity: u32) -> Result<Self, DeviceError>;

    /// Returns the description of a buffer of this size that can be read through descriptors, contain indices,
    /// or (if `written`) be written by reads. It can be copied from and to as well.
    fn buffer_info(&self, size: u64, written: bool) -> D::BufferInfo<'static>;

    /// Returns the description of a texture that can be sampled and copied to, of a width and a height, in the format
    /// [`RGBA8`](Self::RGBA8).
    fn texture_desc([width, height]: [u32; 2]) -> ImageDesc {
        ImageDesc::new(width, height, Self::RGBA8)
    }

    /// Returns the description of the view of a texture, for descriptors that the library writes.
    fn texture_view_info() -> D::ImageViewInfo;

    /// Creates the view of a texture.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Safety
    ///
    /// The image was created from [`texture_desc`](Self::texture_desc), and lives longer than the view.
    unsafe fn texture_view(&self, image: &D::Image) -> Result<Self::TextureView, DeviceError>;

    /// Returns the descriptor of a texture.
    ///
    /// # Safety
    ///
    /// The view is of the image. Both live as long as [`D::Descriptor`](DescriptorDevice::Descriptor) requires.
    unsafe fn texture_descriptor<'a>(image: &'a D::Image, view: &'a Self::TextureView) -> D::Descriptor<'a>;

    /// Submits reads, in order. They begin after everything that was submitted to the queue before, and later
    /// submissions see what they wrote.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted in that case.
    ///
    /// # Safety
    ///
    /// All named objects live until the value is reached, and so do the buffers that the read descriptors name.
    /// Nothing else writes to them, or reads what is written, in that time. The ranges lie in their buffers.
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        reads: &[Read<'_, D>],
    ) -> Result<TimelineValue, DeviceError>;

    /// Submits the sampling of a texture. It begins after everything that was submitted to the queue before, and later
    /// submissions see the picture.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted in that case.
    ///
    /// # Safety
    ///
    /// All named objects live until the value is reached, and so do the texture and the sampler that the descriptors
    /// name. The texture is in the state [`SAMPLED`](Self::SAMPLED). Nothing else writes to it, or uses the picture, in
    /// that time. The picture lies in its buffer, which is one that is [written](Self::buffer_info).
    unsafe fn sample(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        sample: &Sample<'_, D>,
    ) -> Result<TimelineValue, DeviceError>;

    /// Submits the sampling of a texture at a list of coordinates. It begins after everything that was submitted to the queue
    /// before, and later submissions see the picture.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted in that case.
    ///
    /// # Safety
    ///
    /// All named objects live until the value is reached, and so do the texture and the sampler that the descriptors
    /// name. The texture is in the state [`SAMPLED`](Self::SAMPLED), and its view of the dimension. Nothing else writes to it
    /// or to the list, or uses the picture, in that time. The list lies in its buffer, a [buffer](Self::buffer_info) that is
    /// not written, and the texels that it names lie in the picture, whose buffer is one that is written.
    unsafe fn sample_list(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        list: &SampleList<'_, D>,
    ) -> Result<TimelineValue, DeviceError>;
}

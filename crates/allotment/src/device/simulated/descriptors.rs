//! Descriptor heaps as bytes, and the encoding of a descriptor.
//!
//! ```text
//!   word 0    the type: a magic number and a tag
//!   word 1    the name of the buffer, image or sampler
//!   word 2    offset in bytes from its start; for a sampler, its mark
//!   word 3    size in bytes
//! ```
//!
//! Queue work decodes descriptors when it runs ([`SimulatedRead`](super::SimulatedRead)), and never before. So a slot
//! that is overwritten too early shows as wrong bytes, and one that names a destroyed object as a validation error.
//!
//! A descriptor that was never written is all zeros, which is recognised as such.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::hash::DefaultHasher;
use std::sync::Arc;

use super::memory::Bytes;
use super::names::{Name, Named};
use super::resources::ResourceRange;
use super::{SimulatedBuffer, SimulatedGpu, SimulatedImage};
use crate::device::{
    BufferUse, DescriptionError, DescriptionLimit, DescriptorDevice, DescriptorHeapAddress,
    DescriptorHeapBacking, DescriptorHeapDesc, DescriptorHeapType, DescriptorHeapVisibility,
    DescriptorLimits, DeviceError, ImageViewError, ImageViewParameters, ImageViewSupport, ImageViewUse,
    SamplerDesc, TexelBufferDesc, TexelBufferLimits, TexelBufferUse, copy_bytes,
};

/// Bytes per descriptor.
pub(super) const STRIDE: u32 = 32;

/// The byte that poisoned descriptors are filled with.
const POISON: u8 = 0xDB;

/// The upper bits of word 0 of each descriptor, above its tag.
const MAGIC: u64 = 0x616C_6C6F_745F_0000;

/// Added to the address of a heap or a buffer, so that code which confuses the GPU's with the CPU's address fails.
pub(super) const GPU_ADDRESS: u64 = 1 << 62;

/// A descriptor heap of the simulated GPU. A clone refers to the same heap.
#[derive(Clone)]
pub struct SimulatedDescriptorHeap {
    pub(super) slots: Arc<Slots>,
}

impl fmt::Debug for SimulatedDescriptorHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DescriptorHeapDesc { usage, capacity } = self.slots.desc;
        write!(f, "SimulatedDescriptorHeap({usage:?}, {capacity})")
    }
}

/// The descriptors of a heap, which queues may keep alive for longer than the heap.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) desc: DescriptorHeapDesc,
    /// The number of descriptors before those that the driver reserves.
    usable: u32,
    bytes: Bytes,
    /// Reads on queues that are not complete.
    readers: AtomicU32,
    destroyed: AtomicBool,
}

/// A heap that queue work reads.
#[derive(Debug)]
pub(super) struct HeapInUse(Arc<Slots>);

impl HeapInUse {
    // `Relaxed`: the count is read for a report only, and orders no other access.
    pub(super) fn new(heap: &SimulatedDescriptorHeap) -> Self {
        heap.slots.readers.fetch_add(1, Relaxed);
        Self(Arc::clone(&heap.slots))
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.0
    }
}

impl Drop for HeapInUse {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Relaxed);
    }
}

/// A sampler of the simulated GPU.
#[derive(Debug)]
pub struct SimulatedSampler {
    desc: SamplerDesc,
    name: Name,
}

impl SimulatedSampler {
    /// Returns the description that it was created from.
    #[must_use]
    pub fn desc(&self) -> &SamplerDesc {
        &self.desc
    }
}

/// How shaders access an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimulatedImageUse {
    /// It is sampled.
    Sampled,
    /// Texels are read and written.
    Storage,
    /// It is rendered to.
    RenderTarget,
    /// It has depth and stencil.
    DepthStencil,
}

/// A descriptor to write into a slot.
#[derive(Clone, Debug)]
pub enum SimulatedDescriptor<'a> {
    /// A range of a buffer.
    Buffer {
        /// The buffer.
        buffer: &'a SimulatedBuffer,
        /// The range in bytes.
        range: Range<u64>,
        /// How shaders access it.
        usage: BufferUse,
    },
    /// An image that shaders read or write.
    Image {
        /// The image.
        image: &'a SimulatedImage,
        /// How shaders access it.
        usage: SimulatedImageUse,
    },
    /// A sampler.
    Sampler(&'a SimulatedSampler),
    /// A render target.
    RenderTarget(&'a SimulatedImage),
    /// A depth-stencil image.
    DepthStencil(&'a SimulatedImage),
}

/// The tag in word 0, below [`MAGIC`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Tag {
    Null = 1,
    ReadOnly,
    ReadWrite,
    Constants,
    Sampled,
    Storage,
    Sampler,
    NullSampler,
    RenderTarget,
    DepthStencil,
}

/// A decoded slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Null,
    /// A range of bytes of a resource.
    Bytes {
        name: Name,
        offset: u64,
        size: u64,
        /// Whether it is of an image that is sampled.
        sampled: bool,
    },
    /// A sampler with its mark; without a name for a null sampler.
    Sampler(Option<Name>, u32),
    /// A descriptor that shaders cannot read.
    Invalid(&'static str),
}

impl Slots {
    fn kind(&self) -> DescriptorHeapType {
        self.desc.usage.kind()
    }

    pub(super) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Relaxed)
    }

    /// Writes a descriptor of the heap.
    fn put(&self, at: u32, words: [u64; 4]) {
        // Through relaxed atomics like all bytes here: a queue thread may decode the slot at the same moment.
        self.bytes.write_words(offset(at), &words);
    }

    /// Decodes a slot's current descriptor.
    pub(super) fn find(&self, at: u32) -> Found {
        // The index comes from a buffer that the program wrote, so it may be anything.
        if at >= self.desc.capacity {
            return Found::Invalid("is out of the heap's bounds");
        }
        if at >= self.usable {
            return Found::Invalid("is reserved by the driver");
        }
        let mut bytes = [0; STRIDE as usize];
        self.bytes.read(offset(at), &mut bytes);
        let mut words = [0; 4];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut part = [0; 8];
            part.copy_from_slice(from);
            *word = u64::from_ne_bytes(part);
        }
        decode(words)
    }
}

/// Returns the offset of a descriptor in bytes.
fn offset(at: u32) -> u64 {
    u64::from(at) * u64::from(STRIDE)
}

fn word(tag: Tag) -> u64 {
    MAGIC | tag as u64
}

fn encode(descriptor: &SimulatedDescriptor<'_>) -> [u64; 4] {
    let whole = |tag, image: &SimulatedImage| [word(tag), image.range.name.0, 0, image.range.size];
    match descriptor {
        SimulatedDescriptor::Buffer { buffer, range, usage } => {
            let tag = match usage {
                BufferUse::ReadOnly => Tag::ReadOnly,
                BufferUse::ReadWrite => Tag::ReadWrite,
                BufferUse::Constants => Tag::Constants,
            };
            [word(tag), buffer.range.name.0, range.start, range.end - range.start]
        }
        SimulatedDescriptor::Image { image, usage: SimulatedImageUse::Sampled } => whole(Tag::Sampled, image),
        SimulatedDescriptor::Image { image, usage: SimulatedImageUse::Storage } => whole(Tag::Storage, image),
        SimulatedDescriptor::Sampler(sampler) => {
            [word(Tag::Sampler), sampler.name.0, SimulatedGpu::sampler_mark(&sampler.desc).into(), 0]
        }
        SimulatedDescriptor::Image { image, usage: SimulatedImageUse::RenderTarget } => {
            whole(Tag::RenderTarget, image)
        }
        SimulatedDescriptor::Image { image, usage: SimulatedImageUse::DepthStencil } => {
            whole(Tag::DepthStencil, image)
        }
        SimulatedDescriptor::RenderTarget(image) => whole(Tag::RenderTarget, image),
        SimulatedDescriptor::DepthStencil(image) => whole(Tag::DepthStencil, image),
    }
}

fn null(kind: DescriptorHeapType) -> [u64; 4] {
    match kind {
        DescriptorHeapType::Sampler => {
            [word(Tag::NullSampler), 0, SimulatedGpu::sampler_mark(&SamplerDesc::default()).into(), 0]
        }
        _ => [word(Tag::Null), 0, 0, 0],
    }
}

fn decode([first, name, offset, size]: [u64; 4]) -> Found {
    // The whole word is compared: with wrong bytes in it, a tag alone might still look valid.
    let is = |tag| first == word(tag);
    if is(Tag::Null) {
        Found::Null
    } else if [Tag::ReadOnly, Tag::ReadWrite, Tag::Constants, Tag::Sampled, Tag::Storage].into_iter().any(is)
    {
        Found::Bytes { name: Name(name), offset, size, sampled: is(Tag::Sampled) }
    } else if is(Tag::Sampler) {
        Found::Sampler(Some(Name(name)), offset as u32)
    } else if is(Tag::NullSampler) {
        Found::Sampler(None, offset as u32)
    } else if is(Tag::RenderTarget) || is(Tag::DepthStencil) {
        Found::Invalid("is a render target or depth-stencil descriptor")
    // Told apart from other invalid bytes, since each points at a different mistake of the layer above.
    } else if first == u64::from_ne_bytes([POISON; 8]) {
        Found::Invalid("is poisoned: it was freed and not written since")
    } else if first == 0 {
        Found::Invalid("was never written")
    } else {
        Found::Invalid("is not a descriptor")
    }
}

/// Returns the validation error of a buffer range that shaders access, if any.
fn range_error(buffer: &ResourceRange, range: &Range<u64>, usage: BufferUse) -> Option<&'static str> {
    let multiple = match usage {
        // The strictest rules of the real APIs: words for raw access, 256 bytes for constants in Direct3D 12.
        BufferUse::ReadOnly | BufferUse::ReadWrite => 4,
        BufferUse::Constants => 256,
    };
    if range.is_empty() || range.end > buffer.size {
        Some("is empty or exceeds the buffer")
    } else if range.start % multiple != 0 || range.end % multiple != 0 {
        Some("has a misaligned range")
    } else {
        None
    }
}

impl SimulatedGpu {
    /// Returns the value that [reads](Self::submit_reads) get for a sampler of this description: a number that
    /// is equal for equal descriptions, and almost never for different ones.
    #[must_use]
    pub fn sampler_mark(desc: &SamplerDesc) -> u32 {
        // `DefaultHasher::new` has fixed keys, so marks are equal in all threads and runs.
        let mut hasher = DefaultHasher::new();
        desc.hash(&mut hasher);
        hasher.finish() as u32
    }

    /// Returns whether a range of slots may be accessed; reports a validation error if not.
    #[inline]
    fn check_slots(&self, call: &str, heap: &SimulatedDescriptorHeap, at: u32, count: u32) -> bool {
        // In 64 bits, since the sum of two 32-bit numbers may overflow.
        let end = u64::from(at) + u64::from(count);
        // The usable ones are within the capacity.
        let allowed = !heap.slots.is_destroyed() && end <= heap.slots.usable.into();
        if !allowed {
            self.report_slots(call, heap, at, end);
        }
        allowed
    }

    /// Reports why a range of slots may not be accessed.
    #[cold]
    fn report_slots(&self, call: &str, heap: &SimulatedDescriptorHeap, at: u32, end: u64) {
        if heap.slots.is_destroyed() {
            self.report(format!("{call}: {heap:?} was destroyed"));
        } else if end > heap.slots.desc.capacity.into() {
            self.report(format!("{call}: {at}..{end} exceeds {heap:?}"));
        } else {
            self.report(format!(
                "{call}: {at}..{end} of {heap:?} includes descriptors that the driver reserves"
            ));
        }
    }

    /// Reports a copy of descriptors that name something that was destroyed: what they are copied to would name it.
    fn check_copied(&self, from: &SimulatedDescriptorHeap, at: u32, count: u32) {
        let is_gone = |&at: &u32| match from.slots.find(at) {
            Found::Bytes { name, .. } | Found::Sampler(Some(name), _) => !self.shared.names.contains(name),
            Found::Null | Found::Sampler(None, _) | Found::Invalid(_) => false,
        };
        if let Some(at) = (at..at + count).find(is_gone) {
            self.report(format!("copy_descriptors: descriptor {at} of {from:?} names a destroyed object"));
        }
    }

    /// Returns the validation error of a descriptor that is being written, if any.
    fn descriptor_error(&self, descriptor: &SimulatedDescriptor<'_>) -> Option<&'static str> {
        let resource = |range: &ResourceRange| {
            // Real drivers store the address without a check. Reported when written, where the mistake is made.
            if range.users.destroyed.load(Relaxed) {
                Some("names a destroyed resource")
            } else if range.memory().is_freed() {
                Some("names freed memory")
            } else {
                None
            }
        };
        match descriptor {
            SimulatedDescriptor::Buffer { buffer, range, usage } => {
                resource(&buffer.range).or_else(|| range_error(&buffer.range, range, *usage))
            }
            SimulatedDescriptor::Image { image, .. }
            | SimulatedDescriptor::RenderTarget(image)
            | SimulatedDescriptor::DepthStencil(image) => resource(&image.range),
            SimulatedDescriptor::Sampler(_) => None,
        }
    }
}

// SAFETY: a heap has as many descriptors as requested, with bytes of their own, and the limits are never
// written.
unsafe impl DescriptorDevice for SimulatedGpu {
    type DescriptorHeap = SimulatedDescriptorHeap;
    type Descriptor<'a> = SimulatedDescriptor<'a>;
    type Sampler = SimulatedSampler;
    /// Their descriptions: work here reads samplers through heaps.
    type StaticSamplers = Box<[SamplerDesc]>;
    type TexelBufferView = TexelBufferDesc;
    type ImageViewInfo = SimulatedImageUse;
    type ImageView = SimulatedImageUse;

    fn descriptor_limits(&self) -> DescriptorLimits {
        DescriptorLimits { strides: [STRIDE; 4], ..self.shared.profile.descriptors }
    }

    fn descriptor_kind(descriptor: &SimulatedDescriptor<'_>) -> DescriptorHeapType {
        match descriptor {
            SimulatedDescriptor::Image { usage: SimulatedImageUse::RenderTarget, .. } => {
                DescriptorHeapType::RenderTarget
            }
            SimulatedDescriptor::Image { usage: SimulatedImageUse::DepthStencil, .. } => {
                DescriptorHeapType::DepthStencil
            }
            SimulatedDescriptor::Buffer { .. } | SimulatedDescriptor::Image { .. } => {
                DescriptorHeapType::Resource
            }
            SimulatedDescriptor::Sampler(_) => DescriptorHeapType::Sampler,
            SimulatedDescriptor::RenderTarget(_) => DescriptorHeapType::RenderTarget,
            SimulatedDescriptor::DepthStencil(_) => DescriptorHeapType::DepthStencil,
        }
    }

    fn descriptor_heap_buffer(&self, _: &DescriptorHeapDesc) -> Option<crate::device::BufferDesc> {
        // Like Direct3D 12, where the runtime provides the memory; Vulkan's case is tested on Vulkan.
        None
    }

    unsafe fn create_descriptor_heap(
        &self,
        desc: &DescriptorHeapDesc,
        _: Option<DescriptorHeapBacking<'_, Self>>,
    ) -> Result<SimulatedDescriptorHeap, DeviceError> {
        self.shared.faults.check()?;
        let limits = self.descriptor_limits();
        let (most, reserved) = match desc.usage {
            DescriptorHeapVisibility::CpuOnly(_) => (u32::MAX, 0),
            DescriptorHeapVisibility::ShaderVisible(kind) => {
                let limits = limits.shader_visible(kind);
                (limits.max_capacity, limits.reserved)
            }
        };
        DescriptionLimit::check_descriptors(desc.capacity, most)?;
        let bytes = Bytes::new(offset(desc.capacity)).ok_or(DeviceError::OutOfHostMemory)?;
        self.shared.memories.count_descriptor_heap(1);
        // The last slots belong to the driver, where the profile says so.
        let (usable, readers) = (desc.capacity.saturating_sub(reserved), AtomicU32::new(0));
        let slots = Slots { desc: *desc, usable, bytes, readers, destroyed: AtomicBool::new(false) };
        Ok(SimulatedDescriptorHeap { slots: Arc::new(slots) })
    }

    unsafe fn destroy_descriptor_heap(&self, heap: SimulatedDescriptorHeap) {
        // Swapped in one step: of two threads that destroy the heap, exactly one gets the error.
        if heap.slots.destroyed.swap(true, Relaxed) {
            self.report(format!("destroy_descriptor_heap: {heap:?} was already destroyed"));
            return;
        }
        // On a lost device no queue reads anything more, so destroying is allowed.
        if heap.slots.readers.load(Relaxed) > 0 && !self.shared.queues.is_lost() {
            self.report(format!("destroy_descriptor_heap: {heap:?} is still in use by a queue"));
        }
        self.shared.memories.count_descriptor_heap(-1);
    }

    fn descriptor_heap_address(&self, heap: &SimulatedDescriptorHeap) -> DescriptorHeapAddress {
        let cpu = heap.slots.bytes.at(0).addr().get() as u64;
        let gpu = match heap.slots.desc.usage {
            DescriptorHeapVisibility::CpuOnly(_) => 0,
            DescriptorHeapVisibility::ShaderVisible(_) => cpu | GPU_ADDRESS,
        };
        DescriptorHeapAddress { cpu, gpu }
    }

    unsafe fn write_descriptor(
        &self,
        heap: &SimulatedDescriptorHeap,
        at: u32,
        descriptor: &SimulatedDescriptor<'_>,
    ) {
        if !self.check_slots("write_descriptor", heap, at, 1) {
            return;
        }
        let kind = Self::descriptor_kind(descriptor);
        if kind != heap.slots.kind() {
            self.report(format!("write_descriptor: a {kind} descriptor does not belong in {heap:?}"));
            return;
        }
        if let Some(wrong) = self.descriptor_error(descriptor) {
            self.report(format!("write_descriptor: {descriptor:?} {wrong}"));
            return;
        }
        heap.slots.put(at, encode(descriptor));
    }

    unsafe fn write_null_descriptors(&self, heap: &SimulatedDescriptorHeap, at: Range<u32>) {
        if self.check_slots("write_null_descriptors", heap, at.start, at.end.saturating_sub(at.start)) {
            let words = null(heap.slots.kind());
            at.for_each(|at| heap.slots.put(at, words));
        }
    }

    unsafe fn poison_descriptors(&self, heap: &SimulatedDescriptorHeap, at: Range<u32>) {
        // Poison is no descriptor of any type, so a read of a freed slot is recognised as one.
        if self.check_slots("poison_descriptors", heap, at.start, at.end.saturating_sub(at.start)) {
            at.for_each(|at| heap.slots.bytes.write(offset(at), &[POISON; STRIDE as usize]));
        }
    }

    unsafe fn copy_descriptors(
        &self,
        from: &SimulatedDescriptorHeap,
        from_at: u32,
        to: &SimulatedDescriptorHeap,
        to_at: u32,
        count: u32,
    ) {
        if !self.check_slots("copy_descriptors", from, from_at, count)
            || !self.check_slots("copy_descriptors", to, to_at, count)
        {
            return;
        }
        // Each descriptor costs a lock, which would distort what a benchmark measures.
        if cfg!(debug_assertions) {
            self.check_copied(from, from_at, count);
        }
        // `CopyDescriptorsSimple` has undefined results for overlapping ranges.
        let overlaps = Arc::ptr_eq(&from.slots, &to.slots) && from_at.abs_diff(to_at) < count;
        // Shader-visible heaps are slow to read for the CPU, and Direct3D 12 forbids them as the source.
        let wrong = if matches!(from.slots.desc.usage, DescriptorHeapVisibility::ShaderVisible(_)) {
            "reads a shader-visible heap"
        } else if from.slots.kind() != to.slots.kind() {
            "copies between heaps of different types"
        } else if overlaps {
            "copies descriptors onto themselves"
        } else {
            let size = offset(count) as usize;
            let (source, target) = (from.slots.bytes.at(offset(from_at)), to.slots.bytes.at(offset(to_at)));
            // SAFETY: the ranges lie in their heaps and do not overlap, and all accesses to heaps are atomic.
            unsafe { copy_bytes(source, target, size) };
            self.shared.memories.count_descriptor_copy();
            return;
        };
        self.report(format!("copy_descriptors: {count} from {from:?} to {to:?} {wrong}"));
    }

    fn create_sampler(&self, desc: &SamplerDesc) -> Result<SimulatedSampler, DeviceError> {
        self.shared.faults.check()?;
        desc.check().map_err(DescriptionError::Sampler)?;
        // Real devices have a limit of sampler objects, 4000 for example, which the sampler cache has to respect.
        if !self.shared.memories.count_sampler(self.shared.profile.descriptors.max_samplers) {
            return Err(DeviceError::TooManyAllocations);
        }
        Ok(SimulatedSampler { desc: *desc, name: self.shared.names.add(Named::Sampler(*desc)) })
    }

    unsafe fn destroy_sampler(&self, sampler: SimulatedSampler) {
        self.shared.names.remove(sampler.name);
        self.shared.memories.uncount_sampler();
    }

    unsafe fn sampler_descriptor<'a>(&self, sampler: &'a SimulatedSampler) -> SimulatedDescriptor<'a> {
        SimulatedDescriptor::Sampler(sampler)
    }

    fn create_static_samplers(&self, samplers: &[SamplerDesc]) -> Result<Box<[SamplerDesc]>, DeviceError> {
        self.shared.faults.check()?;
        // As many as each Vulkan device has.
        DescriptionLimit::StaticSamplers.check(samplers.len() as u64, 16)?;
        samplers.iter().try_for_each(SamplerDesc::check).map_err(DescriptionError::Sampler)?;
        Ok(samplers.into())
    }

    unsafe fn destroy_static_samplers(&self, _: Box<[SamplerDesc]>) {}

    /// Views are of whole images here, whatever part of the image they are described for.
    fn image_view_info(
        &self,
        _: &ImageViewSupport,
        view: &ImageViewParameters,
    ) -> Result<SimulatedImageUse, ImageViewError> {
        match view.usage {
            ImageViewUse::Sampled => Ok(SimulatedImageUse::Sampled),
            ImageViewUse::Storage => Ok(SimulatedImageUse::Storage),
            ImageViewUse::RenderTarget => Ok(SimulatedImageUse::RenderTarget),
            ImageViewUse::DepthStencil => Ok(SimulatedImageUse::DepthStencil),
            usage @ ImageViewUse::InputAttachment => Err(ImageViewError::Use { usage }),
        }
    }

    unsafe fn create_image_view(
        &self,
        _: &SimulatedImage,
        info: &SimulatedImageUse,
    ) -> Result<SimulatedImageUse, DeviceError> {
        // A call that can fail, as on Vulkan, where a view is a driver object.
        self.shared.faults.check()?;
        Ok(*info)
    }

    unsafe fn destroy_image_view(&self, _: SimulatedImageUse) {}

    unsafe fn image_descriptor<'a>(
        &self,
        image: &'a SimulatedImage,
        view: &'a SimulatedImageUse,
    ) -> SimulatedDescriptor<'a> {
        SimulatedDescriptor::Image { image, usage: *view }
    }

    /// A format is its bytes per texel, and shaders read whole words.
    fn texel_buffer_limits(&self, format: u32, _: TexelBufferUse) -> Option<TexelBufferLimits> {
        let has_words = format % 4 == 0 && (4..=16).contains(&format);
        has_words.then_some(TexelBufferLimits { texel: format.into(), alignment: 16, max_texels: 1 << 27 })
    }

    unsafe fn create_texel_buffer_view(
        &self,
        _: &SimulatedBuffer,
        desc: &TexelBufferDesc,
    ) -> Result<TexelBufferDesc, DeviceError> {
        self.shared.faults.check()?;
        Ok(desc.clone())
    }

    unsafe fn destroy_texel_buffer_view(&self, _: TexelBufferDesc) {}

    unsafe fn texel_buffer_descriptor<'a>(
        &self,
        buffer: &'a SimulatedBuffer,
        view: &'a TexelBufferDesc,
    ) -> SimulatedDescriptor<'a> {
        let usage = match view.usage {
            TexelBufferUse::Uniform => BufferUse::ReadOnly,
            TexelBufferUse::Storage => BufferUse::ReadWrite,
        };
        SimulatedDescriptor::Buffer { buffer, range: view.range.clone(), usage }
    }

    unsafe fn buffer_descriptor<'a>(
        &self,
        buffer: &'a SimulatedBuffer,
        range: Range<u64>,
        usage: BufferUse,
    ) -> SimulatedDescriptor<'a> {
        SimulatedDescriptor::Buffer { buffer, range, usage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_word_is_told_apart() {
        let resource = |sampled| Found::Bytes { name: Name(7), offset: 16, size: 64, sampled };
        for (tag, found) in [
            (Tag::Null, Found::Null),
            (Tag::ReadOnly, resource(false)),
            (Tag::ReadWrite, resource(false)),
            (Tag::Constants, resource(false)),
            (Tag::Sampled, resource(true)),
            (Tag::Storage, resource(false)),
            (Tag::Sampler, Found::Sampler(Some(Name(7)), 16)),
            (Tag::NullSampler, Found::Sampler(None, 16)),
        ] {
            assert_eq!(decode([word(tag), 7, 16, 64]), found);
        }
        for first in [0, 1, MAGIC, word(Tag::RenderTarget), word(Tag::DepthStencil), u64::MAX] {
            assert!(matches!(decode([first, 7, 16, 64]), Found::Invalid(_)), "{first:#x}");
        }
        assert!(matches!(decode([u64::from_ne_bytes([POISON; 8]); 4]), Found::Invalid(_)));
    }

    #[test]
    fn equal_samplers_have_one_mark_and_others_another() {
        let desc = SamplerDesc::default();
        let other = SamplerDesc { max_anisotropy: 2, ..desc };
        assert_eq!(SimulatedGpu::sampler_mark(&desc), SimulatedGpu::sampler_mark(&SamplerDesc::default()));
        assert_ne!(SimulatedGpu::sampler_mark(&desc), SimulatedGpu::sampler_mark(&other));
    }
}

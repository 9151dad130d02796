//! Errors of descriptor heaps, with the information that helps to resolve them.

use core::error::Error;
use core::fmt;

use crate::device::{
    AddressError, BufferUse, BufferViewUses, DescriptorHeapType, DeviceError, ImageViewError, ImageViewUse,
    SamplerError, TexelBufferUse,
};
use crate::lifetime::{WaitFor, WrongTracker};
use crate::memory::{ResourceError, ShortName};

/// A region of a shader-visible heap. Each sort of request is served by one of them.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::descriptor::{DescriptorError, Region, ShaderVisibleHeapDesc};
///
/// let small = ShaderVisibleHeapDesc::resources().with_regions(64, 8, 256);
/// let gpu = Gpu::new(device, GpuDesc::default().with_resource_descriptors(small))?;
/// let tables = gpu.descriptors()?.resources();
/// let first = tables.allocate(8)?;
/// let refused = tables.allocate(1).err();
/// assert!(matches!(refused, Some(DescriptorError::Exhausted { region: Region::Tables, free: 0, .. })));
/// # drop(first);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Region {
    /// Slots with a constant index.
    Slots,
    /// Long-lived ranges.
    Tables,
    /// Chunks for recordings.
    Transient,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slots => "slots",
            Self::Tables => "tables",
            Self::Transient => "transient",
        })
    }
}

/// The reason why a descriptor operation was refused. Nothing has changed except a counter of failures.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::descriptor::DescriptorError;
///
/// match gpu.descriptors()?.resources().allocate(1 << 24) {
///     Err(DescriptorError::NeverFits { capacity, .. }) => println!("the region has {capacity}: grow the heap"),
///     Err(DescriptorError::Exhausted { wait, .. }) => println!("once this has happened: {wait:?}"),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The request is for no descriptors. Ask for at least one.
    Empty,
    /// Not enough descriptors are free now.
    Exhausted {
        /// The type of the heap.
        heap_type: DescriptorHeapType,
        /// The region that serves the request.
        region: Region,
        /// The requested descriptors.
        requested: u32,
        /// The free descriptors of the region.
        free: u32,
        /// The largest free range of the region. If it is less than `requested` and `free` is not,
        /// [compact](super::ShaderVisibleHeap::compact) the heap.
        largest: u32,
        /// Descriptors that were released and become free once the GPU has finished with them.
        retiring: u32,
        /// The event after which some of these become free. `None` if no release is pending: release some, or
        /// [grow](super::ShaderVisibleHeap::grow) the heap.
        wait: Option<WaitFor>,
    },
    /// The region is too small for this request even when it is empty.
    NeverFits {
        /// The requested descriptors.
        requested: u32,
        /// The size of the region, in descriptors.
        capacity: u32,
    },
    /// Shaders of this device see no descriptor heaps. On Vulkan, enable descriptor indexing or
    /// `VK_EXT_descriptor_buffer`.
    NoHeaps,
    /// The regions exceed the largest heap of the device.
    OverLimit {
        /// The requested descriptors, including those that align the regions.
        requested: u64,
        /// Of these, the descriptors that the driver reserves.
        reserved: u32,
        /// The largest heap of the device, in descriptors.
        limit: u32,
    },
    /// The accessed part exceeds the range.
    OutOfRange {
        /// The first descriptor accessed.
        first: u32,
        /// The number of descriptors accessed.
        count: u32,
        /// The size of the range, in descriptors.
        available: u32,
    },
    /// The descriptor and the heap are of different types.
    WrongKind {
        /// The type of the heap.
        expected: DescriptorHeapType,
        /// The type of the descriptor.
        found: DescriptorHeapType,
    },
    /// The device was created without this type of resource descriptor, so slots are too small for it. List the type
    /// (`vulkan::DeviceDesc::with_descriptor_types`).
    TypeNotListed,
    /// The handle is stale: its slot was removed.
    Stale,
    /// The handle belongs to another heap.
    WrongHeap,
    /// The heap, the resource or the tracker belongs to another device.
    WrongDevice {
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The recording or the resource belongs to another tracker, such as that of another
    /// [`Gpu`](crate::Gpu) over the same device, which does not wait for what uses this heap.
    WrongTracker {
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// A recording may use the range already, so its descriptors must not change.
    /// [Renew](super::DescriptorRange::renew) it first.
    InUse,
    /// The heap was dropped.
    HeapGone,
    /// The device panicked while descriptors were cleared, so the heap may hold descriptors of destroyed
    /// resources and is not copied any more. Create a new heap.
    Poisoned,
    /// The heap was replaced while this recording was open, and the heap that the recording began with is full.
    /// Submit the recording and begin another.
    Replaced,
    /// The heap was replaced 2<sup>32</sup> - 1 times, the maximum. Create another heap.
    TooManyReplacements,
    /// The allocator's descriptor heaps have taken 2<sup>32</sup> - 1 heaps of the device so far, the maximum. Create
    /// another allocator.
    TooManyHeaps,
    /// Recordings still use the heap that was replaced last. Wait for them first.
    StillReplacing {
        /// The event to wait for.
        wait: Option<WaitFor>,
    },
    /// The recording is [explicit](crate::lifetime::SubmissionTracker::record_explicit), so descriptors that
    /// are released do not wait for it. Use an ordinary recording.
    ExplicitRecording,
    /// The CPU descriptors were not written, so they cannot be copied.
    Unwritten,
    /// The layout has no such binding. Look it up by its name: [`BindingLayout::binding`](super::BindingLayout::binding).
    NoSuchBinding {
        /// The binding in question.
        binding: usize,
        /// How many bindings the layout has.
        count: usize,
    },
    /// The binding has no such element.
    NoSuchElement {
        /// The binding in question.
        binding: usize,
        /// The name of the binding.
        name: &'static str,
        /// The element.
        element: u32,
        /// How many elements the binding has.
        count: u32,
    },
    /// The binding has another frequency than the operation requires: static bindings are bound in the
    /// [layout](super::BindingLayout::bind_static), all others in a set.
    WrongBinding {
        /// The binding in question.
        binding: usize,
        /// The name of the binding.
        name: &'static str,
    },
    /// The static binding was bound before, and cannot change. Make it mutable.
    AlreadySet {
        /// The binding in question.
        binding: usize,
        /// The name of the binding.
        name: &'static str,
    },
    /// A static binding was not bound. [Bind](super::BindingLayout::bind_static) it before the first set is created.
    Missing {
        /// The binding in question.
        binding: usize,
        /// The name of the binding.
        name: &'static str,
    },
    /// Two bindings of a layout have one name, by which only the first could be found. Rename one of them.
    DuplicateBinding {
        /// The first binding.
        first: usize,
        /// The second one.
        second: usize,
        /// The name of both.
        name: &'static str,
    },
    /// The range of a buffer is empty, exceeds the buffer, or is larger than a descriptor can have.
    BadRange {
        /// The first byte.
        start: u64,
        /// The end of the range, exclusive.
        end: u64,
        /// The size of the buffer, in bytes.
        available: u64,
        /// The largest range of a descriptor of this use, in bytes.
        most: u64,
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The range of a buffer is not aligned as its use requires.
    Misaligned {
        /// The first byte.
        start: u64,
        /// The end of the range, exclusive.
        end: u64,
        /// What the first byte must be a multiple of.
        start_alignment: u64,
        /// What the end must be a multiple of.
        end_alignment: u64,
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The description of a view breaks a rule, or the image does not allow it. No view was created.
    InvalidView {
        /// The rule, and what to do.
        error: ImageViewError,
        /// Name of the image, if it has one.
        name: ShortName,
    },
    /// The view is not one that shaders see through a heap: it is rendered to, and bound by its CPU descriptor or its handle,
    /// or it is an input attachment, and bound by a descriptor set of the application's own.
    NotForShaders {
        /// What the view is for.
        usage: ImageViewUse,
        /// Name of the image, if it has one.
        name: ShortName,
    },
    /// The view has no CPU descriptor: it was created without a heap of its type, or the device has no descriptors of this
    /// type. Use its handle.
    NoDescriptor {
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The buffer was not created to be seen by shaders in this way. Add the usage to its description.
    BufferUsage {
        /// What is missing.
        missing: BufferViewUses,
        /// What it was created to be seen as.
        found: BufferViewUses,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// Descriptors of this device contain addresses of buffers, and the buffer has none.
    NoAddress {
        /// The reason.
        reason: AddressError,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// An array has no structures of this size: they have a multiple of 4 bytes and at most
    /// [`MAX_STRIDE`](crate::device::BufferViewDesc::MAX_STRIDE). Constants have none at all.
    BadStride {
        /// The size of a structure, in bytes.
        stride: u32,
        /// How shaders would see the buffer.
        usage: BufferUse,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// The device has no texel buffers of this format for this use. Choose another one of those that it has to have.
    TexelFormat {
        /// The graphics API's format number.
        format: u32,
        /// How shaders would see it.
        usage: TexelBufferUse,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// A number of the sampler is out of its range, or is none.
    InvalidSampler(SamplerError),
    /// The device returned an error.
    Device(DeviceError),
    /// The memory of a descriptor heap could not be allocated.
    Memory(ResourceError),
}

impl From<WrongTracker> for DescriptorError {
    fn from(_: WrongTracker) -> Self {
        Self::WrongTracker { name: ShortName::NONE }
    }
}

impl DescriptorError {
    /// Returns the debug name of the resource that was refused, cut to 47 bytes, or the name of the binding. `None` where
    /// it has no name, or the error is about neither.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::WrongDevice { name }
            | Self::WrongTracker { name }
            | Self::BadRange { name, .. }
            | Self::Misaligned { name, .. }
            | Self::InvalidView { name, .. }
            | Self::NotForShaders { name, .. }
            | Self::NoDescriptor { name }
            | Self::BufferUsage { name, .. }
            | Self::NoAddress { name, .. }
            | Self::BadStride { name, .. }
            | Self::TexelFormat { name, .. } => name.get(),
            Self::NoSuchElement { name, .. }
            | Self::WrongBinding { name, .. }
            | Self::AlreadySet { name, .. }
            | Self::Missing { name, .. }
            | Self::DuplicateBinding { name, .. } => Some(name),
            Self::Memory(error) => error.name(),
            _ => None,
        }
    }

    /// Adds the name of a resource of another owner.
    #[cold]
    pub(super) fn of(self, name: ShortName) -> Self {
        match self {
            Self::WrongDevice { .. } => Self::WrongDevice { name },
            Self::WrongTracker { .. } => Self::WrongTracker { name },
            other => other,
        }
    }
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the number of descriptors is 0, ask for at least 1"),
            Self::Exhausted { heap_type, region, requested, free, largest, retiring, wait } => {
                write!(
                    f,
                    "no free range of {requested} {heap_type} descriptors ({region}): {free} are free, the largest range \
                     has {largest}, and {retiring} are pending release"
                )?;
                match wait {
                    Some(wait) => write!(f, "; {wait}"),
                    None if largest < requested && free >= requested => f.write_str("; compact the heap"),
                    None => f.write_str("; release some, or grow the heap"),
                }
            }
            Self::NeverFits { requested, capacity } => {
                write!(
                    f,
                    "{requested} descriptors exceed the capacity of {capacity} descriptors, make the region larger"
                )
            }
            Self::NoHeaps => f.write_str(
                "shaders of this device see no descriptor heaps; on Vulkan, enable descriptor indexing or \
                 VK_EXT_descriptor_buffer (`EnabledFeatures`)",
            ),
            Self::OverLimit { requested, reserved, limit } => write!(
                f,
                "{requested} descriptors, {reserved} of them reserved by the driver, exceed the device's limit {limit}"
            ),
            Self::OutOfRange { first, count, available } => {
                write!(f, "descriptors {first}..+{count} exceed the {available} descriptors of the range")
            }
            Self::WrongKind { expected, found } => {
                write!(f, "a {found} descriptor cannot be written to a heap of {expected} descriptors")
            }
            Self::TypeNotListed => f.write_str(
                "the device was created without this type of descriptor, list it in `DeviceDesc::with_descriptor_types`",
            ),
            Self::Stale => f.write_str("the handle is stale: its slot was removed, insert again"),
            Self::WrongHeap => f.write_str("the handle belongs to another heap, call that one"),
            Self::WrongDevice { name } => {
                name.begin(f)?;
                f.write_str("the heap, the resource or the tracker belongs to another device, use those of one device")
            }
            Self::WrongTracker { name } => {
                name.begin(f)?;
                f.write_str(
                    "the recording or the resource belongs to another `Gpu` or tracker, use those of the heap's own",
                )
            }
            Self::InUse => f.write_str("a recording may use the range; renew it first"),
            Self::HeapGone => f.write_str("the descriptor heap was dropped, keep it as long as its ranges"),
            Self::Poisoned => {
                f.write_str("the device panicked while descriptors were cleared; create a new heap")
            }
            Self::Replaced => f.write_str("the heap was replaced; submit the recording and begin another"),
            Self::TooManyHeaps => f.write_str(
                "the allocator has created 4294967295 descriptor heaps of the device, the most it can: create another allocator",
            ),
            Self::TooManyReplacements => {
                f.write_str("the heap was replaced the maximum number of times; create another heap")
            }
            Self::StillReplacing { wait } => {
                f.write_str("recordings still use the heap that was replaced last")?;
                wait.map_or(Ok(()), |wait| write!(f, "; {wait}"))
            }
            Self::ExplicitRecording => f.write_str(
                "explicit recordings do not keep descriptors alive; use SubmissionTracker::record",
            ),
            Self::Unwritten => {
                f.write_str("the CPU descriptors were not written, write or fill them before they are copied")
            }
            Self::NoSuchBinding { binding, count } => write!(
                f,
                "the layout has {count} bindings and none of index {binding}, look it up by its name with `BindingLayout::binding`"
            ),
            Self::NoSuchElement { binding, name, element, count } => write!(
                f,
                "{name:?}: binding {binding} has {count} elements and none of index {element}, declare more with `Binding::array`"
            ),
            Self::WrongBinding { binding, name } => write!(
                f,
                "{name:?}: binding {binding} has another frequency: bind static bindings in the layout, all others in a set"
            ),
            Self::AlreadySet { binding, name } => write!(
                f,
                "{name:?}: the static binding {binding} is bound already, make it mutable to bind it again"
            ),
            Self::Missing { binding, name } => write!(
                f,
                "{name:?}: the static binding {binding} is not bound, call `bind_static` before the first set is created"
            ),
            Self::DuplicateBinding { first, second, name } => write!(
                f,
                "{name:?}: bindings {first} and {second} have one name, by which only the first could be found: rename one"
            ),
            Self::BadRange { start, end, available, most, name } => {
                name.begin(f)?;
                if start >= end {
                    write!(f, "bytes {start}..{end} are an empty range, bind at least 1 byte")
                } else if end > available {
                    write!(
                        f,
                        "bytes {start}..{end} exceed the buffer of {available} bytes, end the range there"
                    )
                } else {
                    write!(
                        f,
                        "bytes {start}..{end} exceed the {most} bytes that one descriptor of this use can have, bind fewer"
                    )
                }
            }
            Self::Misaligned { start, end, start_alignment, end_alignment, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "bytes {start}..{end} cannot be bound: for this use the start must be a multiple of {start_alignment} \
                     bytes and the end of {end_alignment} bytes"
                )
            }
            Self::InvalidView { error, name } => {
                name.begin(f)?;
                error.fmt(f)
            }
            Self::NotForShaders { usage, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "shaders see no {usage} through a heap, bind the view by its CPU descriptor, or its handle in a descriptor set of your own"
                )
            }
            Self::NoDescriptor { name } => {
                name.begin(f)?;
                f.write_str("the view has no CPU descriptor, use its handle or create it with a heap of its type")
            }
            Self::BufferUsage { missing, found, name } => {
                name.begin(f)?;
                if found.contains(BufferViewUses::ACCELERATION_STRUCTURE) {
                    return write!(
                        f,
                        "the buffer has an acceleration structure and was not created as {missing}: slots and sets have no \
                         acceleration structures on Vulkan, bind it in a descriptor set of your own; on Direct3D 12, describe it \
                         by its address with `d3d12::Descriptor::acceleration_structure`"
                    );
                }
                write!(f, "the buffer was not created as {missing}, add this to the usage in its description")
            }
            Self::NoAddress { reason, name } => {
                name.begin(f)?;
                write!(f, "descriptors contain addresses of buffers, and the buffer has none: {reason}")
            }
            Self::BadStride { stride, usage, name } => {
                name.begin(f)?;
                if *usage == BufferUse::Constants {
                    return f.write_str("constants are no array of structures, leave the stride out");
                }
                write!(
                    f,
                    "structures of {stride} bytes cannot be bound, their size must be a multiple of 4 from 4 to 2048 bytes"
                )
            }
            Self::TexelFormat { format, usage, name } => {
                name.begin(f)?;
                write!(f, "the device has no {usage} of format {format}, choose another format")
            }
            Self::InvalidSampler(error) => error.fmt(f),
            Self::Device(error) if error.is_callers() => error.fmt(f),
            Self::Device(error) => write!(f, "the device refused the descriptors: {error}"),
            Self::Memory(error) => write!(f, "no memory for a descriptor heap: {error}"),
        }
    }
}

impl Error for DescriptorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::InvalidView { error, .. } => Some(error),
            Self::NoAddress { reason, .. } => Some(reason),
            Self::Memory(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DeviceError> for DescriptorError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// Checks that `count` descriptors from `first` on lie in a range of `available`.
pub(super) fn check_range(first: u32, count: u32, available: u32) -> Result<(), DescriptorError> {
    match first.checked_add(count) {
        Some(end) if end <= available => Ok(()),
        _ => Err(DescriptorError::OutOfRange { first, count, available }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_an_acceleration_structure_is_refused_with_what_binds_it() {
        let refused = |found| {
            let missing = BufferViewUses::READ_ONLY;
            DescriptorError::BufferUsage { missing, found, name: ShortName::NONE }.to_string()
        };
        let structure = refused(BufferViewUses::ACCELERATION_STRUCTURE);
        assert!(structure.contains("descriptor set of your own"), "{structure}");
        assert!(structure.contains("d3d12::Descriptor::acceleration_structure"), "{structure}");
        let other = refused(BufferViewUses::CONSTANTS);
        assert!(
            other.contains("VK_BUFFER_USAGE_STORAGE_BUFFER_BIT") && !other.contains("acceleration"),
            "{other}"
        );
    }
}

//! Buffers: descriptions, memory requirements and creation.

use ash::vk;

use super::buffer_classes::BufferClasses;
use super::families::{Families, ROOM};
use super::resources::{shared_by_chain, transfer_usage};
use super::{Device, EnabledFeatures, MemoryOptions, Shared, refused};
use crate::device::{
    AddressError, BufferDesc, BufferDevice, BufferViewUses, DescriptionError, DescriptionLimit, DeviceError,
    MemoryDesc, RangeBinding, Requirements, ResourceKind, SharingMode, TransferUsage,
};

/// A buffer to create.
///
/// Sparse buffers (`VK_BUFFER_CREATE_SPARSE_BINDING_BIT`) support
/// [queries](crate::device::BufferDevice::buffer_requirements) only, since they are not bound at a single offset.
/// Create them with Vulkan, and bind allocations as their pages.
#[derive(Clone, Copy, Debug)]
pub struct BufferInfo<'a> {
    raw: vk::BufferCreateInfo<'a>,
    /// Handle types of the shared memory that it will be bound to.
    shared_as: vk::ExternalMemoryHandleTypeFlags,
    /// All queue families of the device may use it without ownership transfers.
    every_queue: bool,
    /// The families that may, of a description that borrows no list of them.
    families: Families,
    /// The usage flags of a [`BufferDesc`], which were not promised to be valid for the device.
    unchecked: Option<u64>,
}

impl<'a> BufferInfo<'a> {
    /// Wraps Vulkan's own description of a buffer.
    ///
    /// # Safety
    ///
    /// `info` and everything that its chain and its lists point to are valid for the device that the buffer is
    /// created with. They are not written while the description or a copy of it is used, and may be read from
    /// any thread.
    #[must_use]
    pub const unsafe fn from_raw(info: vk::BufferCreateInfo<'a>) -> Self {
        let shared_as = vk::ExternalMemoryHandleTypeFlags::empty();
        Self { raw: info, shared_as, every_queue: false, families: Families::NONE, unchecked: None }
    }

    /// Returns the usage flags. A chained `VkBufferUsageFlags2CreateInfo` replaces them, as in Vulkan.
    fn usage(&self) -> vk::BufferUsageFlags {
        let mut usage = self.raw.usage;
        let mut next = self.raw.p_next.cast::<vk::BaseInStructure<'_>>();
        // SAFETY: each structure of the chain is live and starts as a base structure, as promised to `from_raw`.
        while let Some(structure) = unsafe { next.as_ref() } {
            // `maintenance5` lets a chained structure replace the 32-bit flags, which may then be 0.
            if structure.s_type == vk::StructureType::BUFFER_USAGE_FLAGS_2_CREATE_INFO_KHR {
                let usage_2 = next.cast::<vk::BufferUsageFlags2CreateInfoKHR<'_>>();
                // SAFETY: `s_type` names its type.
                let flags = unsafe { (*usage_2).usage };
                // The lower 32 bits of both kinds of flags are the same.
                usage = vk::BufferUsageFlags::from_raw(flags.as_raw() as u32);
            }
            next = structure.p_next;
        }
        usage
    }

    /// Returns the copies that the usage flags allow.
    fn transfer_usage(&self) -> TransferUsage {
        let usage = self.usage();
        transfer_usage(
            usage.contains(vk::BufferUsageFlags::TRANSFER_SRC),
            usage.contains(vk::BufferUsageFlags::TRANSFER_DST),
        )
    }

    /// Returns what shaders may see the buffer as.
    fn view_uses(&self) -> BufferViewUses {
        let usage = self.usage();
        let of = |flag, uses| if usage.contains(flag) { uses } else { BufferViewUses::empty() };
        of(vk::BufferUsageFlags::UNIFORM_BUFFER, BufferViewUses::CONSTANTS)
            | of(vk::BufferUsageFlags::STORAGE_BUFFER, BufferViewUses::READ_ONLY | BufferViewUses::READ_WRITE)
            | of(vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER, BufferViewUses::UNIFORM_TEXELS)
            | of(vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER, BufferViewUses::STORAGE_TEXELS)
            | of(
                vk::BufferUsageFlags::ACCELERATION_STRUCTURE_STORAGE_KHR,
                BufferViewUses::ACCELERATION_STRUCTURE,
            )
    }

    /// Returns true if queues of all these families may use the buffer without ownership transfers.
    fn is_shared_by(&self, families: &[u32]) -> bool {
        let (list, count) = (self.raw.p_queue_family_indices, self.raw.queue_family_index_count);
        // SAFETY: the description is valid, as promised to `from_raw`.
        let own = unsafe { self.families.or(self.raw.sharing_mode, list, count) };
        // A list with a family that is not stored counts as none: the safe side.
        self.every_queue || own.is_some_and(|own| own.includes(families))
    }

    /// Returns the description of a buffer to whose ranges memory is bound; `None` for one that is shared with others,
    /// or protected.
    pub(super) fn reserved(&self) -> Option<Self> {
        let mut reserved = *self;
        reserved.raw.flags |= vk::BufferCreateFlags::SPARSE_BINDING | vk::BufferCreateFlags::SPARSE_RESIDENCY;
        // Vulkan has no sparse buffer that is protected.
        let is_protected = self.raw.flags.contains(vk::BufferCreateFlags::PROTECTED);
        (self.sharing().is_empty() && !is_protected).then_some(reserved)
    }

    /// Returns the handle types of shared memory that it may be bound to.
    // Both sources count: the application may have chained `VkExternalMemoryBufferCreateInfo` itself.
    fn sharing(&self) -> vk::ExternalMemoryHandleTypeFlags {
        // SAFETY: each structure of the chain is live and starts as a base structure, as promised to `from_raw`.
        self.shared_as | unsafe { shared_by_chain(self.raw.p_next) }
    }

    /// Returns a description that borrows nothing, if a copy of the buffer's bytes in another buffer of the same
    /// description is equivalent. Not so with a chain, whose meaning is not known here, and with shared memory, which
    /// other processes access in place.
    fn relocatable(&self) -> Option<BufferInfo<'static>> {
        self.repeatable().filter(|own| own.raw.usage.contains(COPIED))
    }

    /// Returns such a description, whoever copies the bytes.
    fn repeatable(&self) -> Option<BufferInfo<'static>> {
        let Self { raw, shared_as, every_queue, unchecked, .. } = *self;
        let copyable = !raw.usage.intersects(NON_RELOCATABLE_USAGE)
            // Flags such as `DEVICE_ADDRESS_CAPTURE_REPLAY` or `PROTECTED` tie a buffer to its memory.
            && raw.flags.is_empty()
            && raw.p_next.is_null()
            && shared_as.is_empty();
        if !copyable {
            return None;
        }
        let (list, count) = (raw.p_queue_family_indices, raw.queue_family_index_count);
        // A list that the description borrows may be gone when the defragmenter creates the new buffer.
        // SAFETY: the description is valid, as promised to `from_raw`.
        let families = unsafe { self.families.or(raw.sharing_mode, list, count) }?;
        let raw =
            vk::BufferCreateInfo::default().size(raw.size).usage(raw.usage).sharing_mode(raw.sharing_mode);
        Some(BufferInfo { raw, shared_as, every_queue, families, unchecked })
    }

    /// Sets exactly these usages, which the device supports.
    pub(super) fn used_exactly(mut self, usage: vk::BufferUsageFlags) -> Self {
        self.raw.usage = usage;
        self.unchecked = None;
        self
    }

    /// Adds handle types as which the buffer's memory is shared, both when it is
    /// [exported](MemoryOptions::with_export_handle_types) and when it is imported.
    #[must_use]
    pub fn with_external_handle_types(mut self, handle_types: vk::ExternalMemoryHandleTypeFlags) -> Self {
        self.shared_as |= handle_types;
        self
    }
}

/// What is chained, and lists of queue families, are equal where they are the same ones: nothing writes them while the description
/// is used.
impl PartialEq for BufferInfo<'_> {
    fn eq(&self, other: &Self) -> bool {
        let of = |info: &Self| {
            let Self { raw, shared_as, every_queue, families, unchecked } = *info;
            let list = (raw.p_queue_family_indices, raw.queue_family_index_count);
            let described = (raw.flags, raw.size, raw.usage, raw.sharing_mode, list, raw.p_next);
            (described, shared_as, every_queue, families, unchecked)
        };
        of(self) == of(other)
    }
}

// SAFETY: the pointers are only read, and `from_raw` was promised that any thread may read them.
unsafe impl Send for BufferInfo<'_> {}
// SAFETY: as above.
unsafe impl Sync for BufferInfo<'_> {}

/// A buffer that can be copied from and to, with the description's additional flags (`VkBufferUsageFlags`). Unless it is
/// [exclusive](SharingMode::Exclusive), all queues of the device may use it without ownership transfers.
///
/// The flags are those of Vulkan 1.0, and those of [features that are enabled](EnabledFeatures): for device addresses and
/// descriptor buffers. A buffer with others is refused with
/// [`DescriptionError::UnknownUsage`](crate::device::DescriptionError::UnknownUsage), and needs
/// [Vulkan's own description](BufferInfo::from_raw).
impl From<BufferDesc> for BufferInfo<'_> {
    fn from(desc: BufferDesc) -> Self {
        // Without the upper 32 bits, which exist in `VkBufferUsageFlags2CreateInfo` only: a description with one of
        // them is refused before it is used.
        let flags = vk::BufferUsageFlags::from_raw(desc.usage as u32);
        let raw = vk::BufferCreateInfo::default().size(desc.size).usage(COPIED | flags);
        let shared_as = vk::ExternalMemoryHandleTypeFlags::empty();
        let every_queue = desc.sharing_mode == SharingMode::Concurrent;
        Self { raw, shared_as, every_queue, families: Families::NONE, unchecked: Some(desc.usage) }
    }
}

const COPIED: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw() | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// Usages whose bytes are only valid at the address where they were written: acceleration structures and
/// micromaps have copy commands of their own.
const NON_RELOCATABLE_USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::ACCELERATION_STRUCTURE_STORAGE_KHR.as_raw()
        | vk::BufferUsageFlags::MICROMAP_STORAGE_EXT.as_raw(),
);

/// Usages by which no command writes to a buffer.
const READ_ONLY_USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER.as_raw()
        | vk::BufferUsageFlags::UNIFORM_BUFFER.as_raw()
        | vk::BufferUsageFlags::INDEX_BUFFER.as_raw()
        | vk::BufferUsageFlags::VERTEX_BUFFER.as_raw()
        | vk::BufferUsageFlags::INDIRECT_BUFFER.as_raw(),
);

/// All usages of Vulkan 1.0, which every device supports.
const USAGES: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(0x1ff);

/// Usages that need a feature.
const USAGES_OF_FEATURES: [(EnabledFeatures, vk::BufferUsageFlags); 2] = [
    (EnabledFeatures::BUFFER_DEVICE_ADDRESS, vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS),
    (
        EnabledFeatures::DESCRIPTOR_BUFFER,
        vk::BufferUsageFlags::from_raw(
            vk::BufferUsageFlags::SAMPLER_DESCRIPTOR_BUFFER_EXT.as_raw()
                | vk::BufferUsageFlags::RESOURCE_DESCRIPTOR_BUFFER_EXT.as_raw(),
        ),
    ),
];

/// A buffer with transfer usages only.
pub(super) const PLAIN: vk::BufferCreateInfo<'static> = vk::BufferCreateInfo {
    s_type: vk::StructureType::BUFFER_CREATE_INFO,
    p_next: core::ptr::null(),
    flags: vk::BufferCreateFlags::empty(),
    size: 1,
    usage: COPIED,
    sharing_mode: vk::SharingMode::EXCLUSIVE,
    queue_family_index_count: 0,
    p_queue_family_indices: core::ptr::null(),
    _marker: core::marker::PhantomData,
};

/// Whether a resource has dedicated memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dedication {
    /// Depends on the resource's memory requirements.
    ByRequirements,
    /// The memory may contain other resources.
    No,
}

/// The function that returns a buffer's device address: core in 1.2, from an extension before.
pub(super) enum Addresses {
    Core,
    Extension(ash::khr::buffer_device_address::Device),
}

impl Addresses {
    /// Returns `None` if the feature is not enabled.
    pub(super) fn of(
        instance: &ash::Instance,
        device: &ash::Device,
        version: u32,
        enabled: EnabledFeatures,
        // Loaded only where it is used: for an extension that is not enabled, `ash` stores functions that panic.
    ) -> Option<Self> {
        let extension = || Self::Extension(ash::khr::buffer_device_address::Device::new(instance, device));
        let on = enabled.contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS);
        on.then(|| if version >= vk::API_VERSION_1_2 { Self::Core } else { extension() })
    }
}

impl Shared {
    /// # Safety
    ///
    /// The conditions of [`Device::buffer_address`](super::Device::buffer_address) apply.
    pub(super) unsafe fn buffer_address(&self, buffer: vk::Buffer) -> Option<vk::DeviceAddress> {
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        match self.addresses.as_ref()? {
            // SAFETY: the caller's promise, and the feature is enabled.
            Addresses::Core => Some(unsafe { self.raw.get_buffer_device_address(&info) }),
            // SAFETY: as above.
            Addresses::Extension(functions) => Some(unsafe { functions.get_buffer_device_address(&info) }),
        }
    }

    /// Refuses usage flags that come without a promise and that the device may not support. Without them the buffer would
    /// not be what its user asked for.
    fn check_usage(&self, flags: u64) -> Result<(), DescriptionError> {
        let of_features =
            USAGES_OF_FEATURES.into_iter().filter(|&(feature, _)| self.enabled.contains(feature));
        let usages = of_features.fold(USAGES, |all, (_, usages)| all | usages);
        DescriptionError::check_usage(flags, usages.as_raw().into())
    }

    /// Validates the description and calls `f` with the structure for the driver.
    pub(super) fn with_buffer_info<R>(
        &self,
        info: &BufferInfo<'_>,
        f: impl FnOnce(&vk::BufferCreateInfo<'_>) -> R,
    ) -> Result<R, DeviceError> {
        let BufferInfo { mut raw, shared_as, every_queue, families, unchecked } = *info;
        // Drivers need not validate sizes. Only a sparse buffer can be larger than a single memory object.
        let sparse = raw.flags.contains(vk::BufferCreateFlags::SPARSE_BINDING);
        let largest = (!sparse).then_some(self.properties.limits.max_allocation_size);
        DescriptionLimit::check_buffer(raw.size, self.max_buffer_size, largest)?;
        self.check_usage(unchecked.unwrap_or(0))?;
        let mut room;
        if families != Families::NONE {
            room = ROOM;
            raw = raw.queue_family_indices(families.list(&mut room));
        }
        if every_queue && self.families.len() > 1 {
            raw = raw.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&self.families);
        }
        // The structure is left out without shared memory: it does not exist below Vulkan 1.1.
        if shared_as.is_empty() {
            return Ok(f(&raw));
        }
        self.check_shareable(shared_as)?;
        self.check_shared_buffer(&raw, shared_as, Dedication::ByRequirements)?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(shared_as);
        Ok(f(&raw.push_next(&mut external)))
    }

    /// Queries whether a buffer can be shared as each of these types, and as all of them together.
    pub(super) fn check_shared_buffer(
        &self,
        raw: &vk::BufferCreateInfo<'_>,
        shared_as: vk::ExternalMemoryHandleTypeFlags,
        dedication: Dedication,
    ) -> Result<(), DeviceError> {
        // `VkPhysicalDeviceExternalBufferInfo::handleType` is one bit, so each type has a query of its own.
        let bits =
            (0..u32::BITS).map(|bit| shared_as & vk::ExternalMemoryHandleTypeFlags::from_raw(1 << bit));
        for handle_type in bits.filter(|bit| !bit.is_empty()) {
            let wanted = vk::PhysicalDeviceExternalBufferInfo::default()
                .flags(raw.flags)
                .usage(raw.usage)
                .handle_type(handle_type);
            let mut answer = vk::ExternalBufferProperties::default();
            // SAFETY: the physical device is of this instance, the flags are a buffer's, and the function
            // exists: nothing is shared below Vulkan 1.1.
            unsafe {
                self.instance.get_physical_device_external_buffer_properties(
                    self.physical_device,
                    &wanted,
                    &mut answer,
                );
            }
            let properties = &answer.external_memory_properties;
            let dedicated_only =
                properties.external_memory_features.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY);
            if !self.shares(properties, shared_as) || dedicated_only && dedication == Dedication::No {
                return Err(DeviceError::Unsupported);
            }
        }
        Ok(())
    }

    pub(super) fn create_unbound_buffer(
        &self,
        raw: &vk::BufferCreateInfo<'_>,
    ) -> Result<vk::Buffer, DeviceError> {
        // SAFETY: the description is valid, as promised to `from_raw`.
        unsafe { self.raw.create_buffer(raw, None) }.map_err(refused)
    }

    /// Creates a buffer that can be bound to one range of memory.
    fn bindable_buffer(&self, info: &BufferInfo<'_>) -> Result<vk::Buffer, DeviceError> {
        // A sparse buffer is bound page by page, which one offset cannot express.
        if info.raw.flags.contains(vk::BufferCreateFlags::SPARSE_BINDING) {
            return Err(DescriptionError::SeveralBindings.into());
        }
        self.with_buffer_info(info, |raw| self.create_unbound_buffer(raw))?
    }
}

// SAFETY: sizes and usages are those of the description that the driver gets, and requirements are the driver's own.
unsafe impl BufferDevice for Device {
    type Buffer = vk::Buffer;
    type BufferInfo<'a> = BufferInfo<'a>;

    fn buffer_size(&self, info: &BufferInfo<'_>) -> u64 {
        info.raw.size
    }

    fn buffer_transfer_usage(&self, info: &BufferInfo<'_>) -> TransferUsage {
        info.transfer_usage()
    }

    fn buffer_view_uses(&self, info: &BufferInfo<'_>) -> BufferViewUses {
        info.view_uses()
    }

    fn relocatable_buffer_info(&self, info: &BufferInfo<'_>) -> Option<BufferInfo<'static>> {
        info.relocatable()
    }

    fn remappable_buffer_info(&self, info: &BufferInfo<'_>) -> Option<BufferInfo<'static>> {
        info.repeatable()
    }

    fn queues_share_buffer(&self, info: &BufferInfo<'_>) -> bool {
        info.is_shared_by(&self.shared.families)
    }

    fn queues_may_write(&self, info: &BufferInfo<'_>) -> bool {
        // A chain may replace the flags. Of flags that are not known here, any may allow writes.
        !info.raw.p_next.is_null() || !READ_ONLY_USAGE.contains(info.raw.usage)
    }

    fn check_device_address(&self, info: &BufferInfo<'_>) -> Result<(), AddressError> {
        if self.shared.addresses.is_none() {
            return Err(AddressError::NotEnabled);
        }
        let has_usage = info.usage().contains(vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS);
        if has_usage { Ok(()) } else { Err(AddressError::MissingUsage) }
    }

    unsafe fn device_address(&self, buffer: &vk::Buffer) -> u64 {
        // SAFETY: the buffer is live and was created with the usage, by the caller's promise.
        unsafe { self.shared.buffer_address(*buffer) }.unwrap_or(0)
    }

    fn buffer_requirements(&self, info: &BufferInfo<'_>) -> Result<Requirements, DeviceError> {
        let device = &*self.shared;
        device.with_buffer_info(info, |raw| {
            // The query of maintenance4 needs no object that is created and destroyed again.
            if let Some(functions) = &device.maintenance4 {
                let wanted = vk::DeviceBufferMemoryRequirements::default().create_info(raw);
                // SAFETY: the description is valid, as as promised to `from_raw`.
                return Ok(device.query_requirements(ResourceKind::Buffer, |answer| unsafe {
                    functions.buffer(&device.raw, &wanted, answer);
                }));
            }
            // Without maintenance4, only an existing object has requirements to query.
            Ok(device.temporary_requirements(device.create_unbound_buffer(raw)?))
        })?
    }

    fn new_buffer_requirements(&self, info: &BufferInfo<'_>) -> Result<Requirements, DeviceError> {
        let device = &*self.shared;
        let class = BufferClasses::of(&info.raw).filter(|_| info.shared_as.is_empty());
        // Vulkan 1.3 has the query without the feature, and its guarantees with it.
        let is_guaranteed = device.enabled.contains(EnabledFeatures::MAINTENANCE4);
        let Some(class) = class.filter(|_| is_guaranteed) else {
            return self.buffer_requirements(info);
        };
        let size = info.raw.size;
        let Some(known) = device.buffer_classes.requirements(class, size) else {
            return Ok(device.buffer_classes.learn(class, size, self.buffer_requirements(info)?));
        };
        // What is refused is refused each time.
        device.with_buffer_info(info, |_| ())?;
        debug_assert!(
            self.buffer_requirements(info).is_ok_and(|it| it.alignment == known.alignment
                && it.memory_types == known.memory_types
                && it.size <= known.size),
            "the driver does not keep to the guarantees of maintenance4"
        );
        Ok(known)
    }

    unsafe fn create_buffer(
        &self,
        info: &BufferInfo<'_>,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<vk::Buffer, DeviceError> {
        let device = &*self.shared;
        // Checked before the object exists, so that a refusal has nothing to destroy.
        device.check_memory_sharing(memory, info.sharing())?;
        // SAFETY: the buffer is new, and the memory satisfies its requirements by the caller's promise.
        unsafe { device.bind(device.bindable_buffer(info)?, memory, offset) }
    }

    fn create_dedicated_buffer(
        &self,
        info: &BufferInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, vk::Buffer), DeviceError> {
        let device = &*self.shared;
        // `VkMemoryDedicatedAllocateInfo` names the buffer, so it exists before its memory.
        device
            .check_sharing(memory.options.map(MemoryOptions::sharing).unwrap_or_default(), info.sharing())?;
        device.bind_dedicated(device.bindable_buffer(info)?, memory)
    }

    fn has_reserved_buffers(&self) -> bool {
        self.shared.binding_queue.is_some()
    }

    fn create_reserved_buffer(
        &self,
        info: &BufferInfo<'_>,
    ) -> Result<(vk::Buffer, Requirements), DeviceError> {
        self.shared.reserved_buffer(info)
    }

    unsafe fn bind_ranges(
        &self,
        buffer: &vk::Buffer,
        ranges: &[RangeBinding<vk::DeviceMemory>],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.bind_ranges(*buffer, ranges) }
    }

    unsafe fn destroy_buffer(&self, buffer: vk::Buffer) {
        let addresses = self.shared.reserved.remove(buffer);
        // SAFETY: the caller's promise.
        unsafe { self.shared.raw.destroy_buffer(buffer, None) };
        self.shared.reserved.give_back(addresses);
    }

    unsafe fn name_buffer(&self, buffer: &vk::Buffer, name: &str) {
        self.shared.name(*buffer, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shaders_see_a_buffer_as_its_usage_says() {
        use BufferViewUses as Uses;
        use vk::BufferUsageFlags as Usage;
        for (usage, uses) in [
            (Usage::TRANSFER_SRC | Usage::VERTEX_BUFFER, Uses::empty()),
            (Usage::UNIFORM_BUFFER, Uses::CONSTANTS),
            (Usage::STORAGE_BUFFER, Uses::READ_ONLY | Uses::READ_WRITE),
            (
                Usage::UNIFORM_TEXEL_BUFFER | Usage::STORAGE_TEXEL_BUFFER,
                Uses::UNIFORM_TEXELS | Uses::STORAGE_TEXELS,
            ),
            (Usage::ACCELERATION_STRUCTURE_STORAGE_KHR, Uses::ACCELERATION_STRUCTURE),
        ] {
            // SAFETY: the description is given to no device.
            let info = unsafe { BufferInfo::from_raw(vk::BufferCreateInfo::default().size(64).usage(usage)) };
            assert_eq!(info.view_uses(), uses, "{usage:?}");
            // These replace the others.
            let mut flags = vk::BufferUsageFlags2CreateInfoKHR::default()
                .usage(vk::BufferUsageFlags2KHR::from_raw(usage.as_raw().into()));
            let info =
                vk::BufferCreateInfo::default().size(64).usage(Usage::UNIFORM_BUFFER).push_next(&mut flags);
            // SAFETY: as above.
            assert_eq!(unsafe { BufferInfo::from_raw(info) }.view_uses(), uses, "{usage:?}");
        }
    }
}

//! Buffers: their descriptions, what they need, and how they are made.

use ash::vk;

use super::resources::shared_by_chain;
use super::{EnabledFeatures, MemoryOptions, Shared, refused};
use crate::device::{
    BufferDesc, DescriptionLimit, DeviceError, MemoryDesc, Requirements, ResourceKind, TransferUsage,
};

/// A buffer that is wanted.
///
/// Sparse ones (`VK_BUFFER_CREATE_SPARSE_BINDING_BIT`) can be [asked about](crate::Device::buffer_requirements)
/// only: they have no single place. Make them yourself, and bind allocations as their pages.
#[derive(Clone, Copy, Debug)]
pub struct BufferInfo<'a> {
    raw: vk::BufferCreateInfo<'a>,
    /// Handle types of memory that it will stand in.
    shared_as: vk::ExternalMemoryHandleTypeFlags,
    /// All queues of the device may use it in turn, without passing it on.
    every_queue: bool,
    /// Nobody promised that the device knows all usages.
    unchecked: bool,
}

impl<'a> BufferInfo<'a> {
    /// A buffer as Vulkan describes it.
    ///
    /// # Safety
    ///
    /// `info` and what its chain and its lists point at are valid for the device that the buffer is made with. Nobody
    /// writes there while the description or a copy of it is used, and it may be read from any thread.
    #[must_use]
    pub const unsafe fn from_raw(info: vk::BufferCreateInfo<'a>) -> Self {
        let shared_as = vk::ExternalMemoryHandleTypeFlags::empty();
        Self { raw: info, shared_as, every_queue: false, unchecked: false }
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.raw.size
    }

    /// The copies that the usages allow: those of a chained `VkBufferUsageFlags2CreateInfo`, where there is one, as
    /// Vulkan has it.
    pub(super) fn transfer_usage(&self) -> TransferUsage {
        let mut usage = self.raw.usage;
        let mut next = self.raw.p_next.cast::<vk::BaseInStructure<'_>>();
        // SAFETY: each structure of the chain lives and begins so, as `from_raw` was promised.
        while let Some(structure) = unsafe { next.as_ref() } {
            if structure.s_type == vk::StructureType::BUFFER_USAGE_FLAGS_2_CREATE_INFO_KHR {
                let usage_2 = next.cast::<vk::BufferUsageFlags2CreateInfoKHR<'_>>();
                // SAFETY: it is of the type that it names.
                let flags = unsafe { (*usage_2).usage };
                // The bits of both are the same as far as the older ones go.
                usage = vk::BufferUsageFlags::from_raw(flags.as_raw() as u32);
            }
            next = structure.p_next;
        }
        const PAIRS: [(vk::BufferUsageFlags, TransferUsage); 2] = [
            (vk::BufferUsageFlags::TRANSFER_SRC, TransferUsage::SRC),
            (vk::BufferUsageFlags::TRANSFER_DST, TransferUsage::DST),
        ];
        PAIRS.into_iter().filter(|&(flag, _)| usage.contains(flag)).map(|(_, copies)| copies).collect()
    }

    /// What memory it may stand in that is shared.
    fn sharing(&self) -> vk::ExternalMemoryHandleTypeFlags {
        // SAFETY: each structure of the chain lives and begins so, as `from_raw` was promised.
        self.shared_as | unsafe { shared_by_chain(self.raw.p_next) }
    }

    /// True where the buffer's bytes are as good in another one of the same description. Of a chain nobody knows what
    /// it says, and memory that is shared stays where it is.
    pub(super) fn is_copyable(&self) -> bool {
        let BufferInfo { raw, shared_as, .. } = self;
        raw.usage.contains(COPIED)
            && !raw.usage.intersects(AT_HOME)
            && raw.flags.is_empty()
            && raw.p_next.is_null()
            && shared_as.is_empty()
    }

    /// The same for these usages alone, which the device knows.
    pub(super) fn used_exactly(mut self, usage: vk::BufferUsageFlags) -> Self {
        self.raw.usage = usage;
        self.unchecked = false;
        self
    }

    /// The same for memory that is shared as handles of these types, both when it is
    /// [exported](MemoryOptions::exported_as) and when it is imported.
    #[must_use]
    pub fn shared_as(mut self, handle_types: vk::ExternalMemoryHandleTypeFlags) -> Self {
        self.shared_as |= handle_types;
        self
    }
}

// SAFETY: what the pointers lead to is only read here, and its maker promised that any thread may.
unsafe impl Send for BufferInfo<'_> {}
// SAFETY: as above.
unsafe impl Sync for BufferInfo<'_> {}

/// A buffer that can be copied from and to, and what the description's flags (`VkBufferUsageFlags`) add to
/// that. All queues of the device may use it in turn.
///
/// Of the flags, those of Vulkan 1.0 count, and that for device addresses where the device has them; a buffer
/// with others is described [as Vulkan does](BufferInfo::from_raw).
impl From<BufferDesc> for BufferInfo<'_> {
    fn from(desc: BufferDesc) -> Self {
        // Flags beyond 32 bits are of another structure.
        let flags = vk::BufferUsageFlags::from_raw(desc.usage as u32);
        let raw = vk::BufferCreateInfo::default().size(desc.size).usage(COPIED | flags);
        let shared_as = vk::ExternalMemoryHandleTypeFlags::empty();
        Self { raw, shared_as, every_queue: true, unchecked: true }
    }
}

const COPIED: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw() | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// What holds bytes that mean something only where they were written: acceleration structures and micromaps have
/// copies of their own.
const AT_HOME: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::ACCELERATION_STRUCTURE_STORAGE_KHR.as_raw()
        | vk::BufferUsageFlags::MICROMAP_STORAGE_EXT.as_raw(),
);

/// All usages of Vulkan 1.0, which every device allows.
const USAGES: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(0x1ff);

/// A buffer that can be copied from and to.
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

/// Whether a resource has its memory for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// As its requirements say.
    Perhaps,
    /// Others stand there.
    No,
}

/// The function that tells a buffer's address: core in 1.2, else of an extension.
pub(super) enum Addresses {
    Core,
    Extension(ash::khr::buffer_device_address::Device),
}

impl Addresses {
    /// `None` where the feature is off.
    pub(super) fn of(
        instance: &ash::Instance,
        device: &ash::Device,
        version: u32,
        enabled: EnabledFeatures,
    ) -> Option<Self> {
        let extension = || Self::Extension(ash::khr::buffer_device_address::Device::new(instance, device));
        let on = enabled.contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS);
        on.then(|| if version >= vk::API_VERSION_1_2 { Self::Core } else { extension() })
    }
}

impl Shared {
    /// # Safety
    ///
    /// As for [`Device::buffer_address`](super::Device::buffer_address).
    pub(super) unsafe fn buffer_address(&self, buffer: vk::Buffer) -> Option<vk::DeviceAddress> {
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        match self.addresses.as_ref()? {
            // SAFETY: the caller's promise, and the feature is enabled.
            Addresses::Core => Some(unsafe { self.raw.get_buffer_device_address(&info) }),
            // SAFETY: as above.
            Addresses::Extension(functions) => Some(unsafe { functions.get_buffer_device_address(&info) }),
        }
    }

    /// Calls `f` with the description that the driver gets.
    fn with_buffer_info<R>(
        &self,
        info: &BufferInfo<'_>,
        f: impl FnOnce(&vk::BufferCreateInfo<'_>) -> R,
    ) -> Result<R, DeviceError> {
        let BufferInfo { mut raw, shared_as, every_queue, unchecked } = *info;
        // What the driver need not look at. Only a sparse buffer can be larger than its memory objects.
        let sparse = raw.flags.contains(vk::BufferCreateFlags::SPARSE_BINDING);
        let largest = (!sparse).then_some(self.properties.limits.max_allocation_size);
        DescriptionLimit::check_buffer(raw.size, self.max_buffer_size, largest)?;
        if unchecked {
            // Made from a description without a promise: what the device may not know is left out.
            raw.usage &= if self.enabled.contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS) {
                USAGES | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
            } else {
                USAGES
            };
        }
        if every_queue && self.families.len() > 1 {
            raw = raw.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&self.families);
        }
        if shared_as.is_empty() {
            return Ok(f(&raw));
        }
        self.check_shareable(shared_as)?;
        self.check_shared_buffer(&raw, shared_as, Alone::Perhaps)?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(shared_as);
        Ok(f(&raw.push_next(&mut external)))
    }

    /// Asks whether a buffer can be shared as each of these types, and as all of them.
    pub(super) fn check_shared_buffer(
        &self,
        raw: &vk::BufferCreateInfo<'_>,
        shared_as: vk::ExternalMemoryHandleTypeFlags,
        alone: Alone,
    ) -> Result<(), DeviceError> {
        let bits =
            (0..u32::BITS).map(|bit| shared_as & vk::ExternalMemoryHandleTypeFlags::from_raw(1 << bit));
        for handle_type in bits.filter(|bit| !bit.is_empty()) {
            let wanted = vk::PhysicalDeviceExternalBufferInfo::default()
                .flags(raw.flags)
                .usage(raw.usage)
                .handle_type(handle_type);
            let mut answer = vk::ExternalBufferProperties::default();
            // SAFETY: the physical device is of this instance, the values are a buffer's, and the function is there:
            // nothing is shared below Vulkan 1.1.
            unsafe {
                self.instance.get_physical_device_external_buffer_properties(
                    self.physical_device,
                    &wanted,
                    &mut answer,
                );
            }
            let told = &answer.external_memory_properties;
            let must_be_alone =
                told.external_memory_features.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY);
            if !self.shares(told, shared_as) || must_be_alone && alone == Alone::No {
                return Err(DeviceError::Unsupported);
            }
        }
        Ok(())
    }

    pub(super) fn buffer_requirements(&self, info: &BufferInfo<'_>) -> Result<Requirements, DeviceError> {
        self.with_buffer_info(info, |raw| {
            if let Some(functions) = &self.maintenance4 {
                let wanted = vk::DeviceBufferMemoryRequirements::default().create_info(raw);
                // SAFETY: the description is valid, as its maker promised.
                return Ok(self.asked(ResourceKind::Buffer, |answer| unsafe {
                    functions.buffer(&self.raw, &wanted, answer);
                }));
            }
            Ok(self.needs_of_temporary(self.bare_buffer(raw)?))
        })?
    }

    fn bare_buffer(&self, raw: &vk::BufferCreateInfo<'_>) -> Result<vk::Buffer, DeviceError> {
        // SAFETY: the description is valid, as its maker promised.
        unsafe { self.raw.create_buffer(raw, None) }.map_err(refused)
    }

    /// A buffer that is bound once, as a whole.
    fn bindable_buffer(&self, info: &BufferInfo<'_>) -> Result<vk::Buffer, DeviceError> {
        if info.raw.flags.contains(vk::BufferCreateFlags::SPARSE_BINDING) {
            return Err(DeviceError::Unsupported);
        }
        self.with_buffer_info(info, |raw| self.bare_buffer(raw))?
    }

    /// # Safety
    ///
    /// As for [`create_buffer`](crate::Device::create_buffer).
    pub(super) unsafe fn create_buffer(
        &self,
        info: &BufferInfo<'_>,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<vk::Buffer, DeviceError> {
        self.check_placed(memory, info.sharing())?;
        // SAFETY: the buffer is new, the memory suits it by the caller's promise.
        unsafe { self.bound(self.bindable_buffer(info)?, memory, offset) }
    }

    pub(super) fn create_dedicated_buffer(
        &self,
        info: &BufferInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, vk::Buffer), DeviceError> {
        self.check_sharing(memory.options.map(MemoryOptions::sharing).unwrap_or_default(), info.sharing())?;
        self.bound_alone(self.bindable_buffer(info)?, memory)
    }
}

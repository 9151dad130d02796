//! Descriptor set layouts of shader-visible heaps.

use core::fmt;

use ash::vk;

use super::super::{Device, Shared, refused};
use super::{DescriptorModel, Descriptors};
use crate::device::{DeviceError, ShaderVisibleHeapType};

/// The layout of a shader-visible heap, or of a table in one, for pipelines. Destroyed when dropped; pipeline
/// layouts that were created with it stay valid.
///
/// | | resources | samplers |
/// |---|---|---|
/// | [`Buffer`](DescriptorModel::Buffer) | binding 0: mutable, of the device's types (the type itself, where that is only one) | binding 0: samplers |
/// | [`Sets`](DescriptorModel::Sets) | one binding for each of the device's types, numbered in the order of the list | binding 0: samplers |
///
/// Each binding is an array of the layout's descriptor count, for the device's
/// [stages](super::super::DeviceDesc::with_descriptor_stages). So with sets, a shader that reads slot 7 as a
/// storage buffer uses index 7 of the storage buffer binding.
pub struct DescriptorSetLayout {
    handle: vk::DescriptorSetLayout,
    device: Device,
}

impl DescriptorSetLayout {
    /// Returns the Vulkan handle.
    #[must_use]
    pub fn handle(&self) -> vk::DescriptorSetLayout {
        self.handle
    }
}

impl Drop for DescriptorSetLayout {
    fn drop(&mut self) {
        // SAFETY: created below, and destroyed once; pipeline layouts created with it do not need it any more.
        unsafe { self.device.raw().destroy_descriptor_set_layout(self.handle, None) };
    }
}

impl fmt::Debug for DescriptorSetLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DescriptorSetLayout").field(&self.handle).finish()
    }
}

impl Device {
    /// Creates the layout of a heap or table of `count` descriptors. With sets, it must have the heap's whole
    /// capacity; with descriptor buffers it may have less.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] if the device has no shader-visible heaps, [`DeviceError::InvalidDescription`] if it has
    /// none of that capacity; otherwise the driver's error.
    pub fn descriptor_set_layout(
        &self,
        kind: ShaderVisibleHeapType,
        count: u32,
    ) -> Result<DescriptorSetLayout, DeviceError> {
        self.shared.descriptors.check_capacity(kind, count)?;
        let handle = self.shared.set_layout(kind, count)?;
        Ok(DescriptorSetLayout { handle, device: self.clone() })
    }
}

impl Shared {
    /// Creates a layout, which the caller has to destroy.
    pub(super) fn set_layout(
        &self,
        kind: ShaderVisibleHeapType,
        count: u32,
    ) -> Result<vk::DescriptorSetLayout, DeviceError> {
        let Descriptors { model, types, stages, .. } = &self.descriptors;
        let shape = Shape { model: model.ok_or(DeviceError::Unsupported)?, types, stages: *stages };
        shape.create(&self.raw, kind, count)
    }
}

/// The common properties of a device's layouts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) model: DescriptorModel,
    pub(super) types: &'a [vk::DescriptorType],
    pub(super) stages: vk::ShaderStageFlags,
}

impl Shape<'_> {
    /// Returns the maximum number of descriptors, up to `most`, for which the driver supports a layout, or at
    /// least half of it: drivers check more than their limits document.
    pub(super) fn most(
        self,
        raw: &ash::Device,
        kind: ShaderVisibleHeapType,
        most: u32,
    ) -> Result<u32, DeviceError> {
        let mut most = most;
        while most > 0 {
            // A layout may fail although all counts are within the limits: `vkGetDescriptorSetLayoutSupport`
            // exists for that.
            // Halving needs at most 32 attempts; the exact maximum is not worth more driver calls.
            match self.create(raw, kind, most) {
                Ok(layout) => {
                    // SAFETY: created above and used by no other code.
                    unsafe { raw.destroy_descriptor_set_layout(layout, None) };
                    return Ok(most);
                }
                Err(DeviceError::Unsupported) => most /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    /// Creates a layout, which the caller has to destroy.
    pub(super) fn create(
        self,
        raw: &ash::Device,
        kind: ShaderVisibleHeapType,
        count: u32,
    ) -> Result<vk::DescriptorSetLayout, DeviceError> {
        let types = match kind {
            ShaderVisibleHeapType::Resource => self.types,
            ShaderVisibleHeapType::Sampler => &[vk::DescriptorType::SAMPLER],
        };
        let binding = |number: u32, ty| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(number)
                .descriptor_type(ty)
                .descriptor_count(count)
                .stage_flags(self.stages)
        };
        match (self.model, types) {
            (DescriptorModel::Sets, _) => {
                let bindings: Vec<_> = (0..).zip(types).map(|(number, &ty)| binding(number, ty)).collect();
                let flags = vec![
                    // Partially bound: most slots of a heap are empty. Unused while pending: the library writes
                    // free slots while the GPU reads others.
                    vk::DescriptorBindingFlags::PARTIALLY_BOUND
                        | vk::DescriptorBindingFlags::UPDATE_AFTER_BIND
                        | vk::DescriptorBindingFlags::UPDATE_UNUSED_WHILE_PENDING;
                    bindings.len()
                ];
                let mut flags =
                    vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&flags);
                let info = vk::DescriptorSetLayoutCreateInfo::default()
                    .bindings(&bindings)
                    // `UPDATE_AFTER_BIND` on a binding requires this flag on the layout (VUID 03000).
                    .flags(vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL)
                    .push_next(&mut flags);
                supported(raw, &info)
            }
            // One type needs no mutable binding, so the extension is not needed either.
            (DescriptorModel::Buffer, &[only]) => {
                let bindings = [binding(0, only)];
                let info = vk::DescriptorSetLayoutCreateInfo::default()
                    .bindings(&bindings)
                    .flags(vk::DescriptorSetLayoutCreateFlags::DESCRIPTOR_BUFFER_EXT);
                supported(raw, &info)
            }
            (DescriptorModel::Buffer, _) => {
                let bindings = [binding(0, vk::DescriptorType::MUTABLE_EXT)];
                let lists = [vk::MutableDescriptorTypeListEXT::default().descriptor_types(types)];
                let mut mutable =
                    vk::MutableDescriptorTypeCreateInfoEXT::default().mutable_descriptor_type_lists(&lists);
                let info = vk::DescriptorSetLayoutCreateInfo::default()
                    .bindings(&bindings)
                    .flags(vk::DescriptorSetLayoutCreateFlags::DESCRIPTOR_BUFFER_EXT)
                    .push_next(&mut mutable);
                supported(raw, &info)
            }
        }
    }
}

/// Creates a layout if the driver reports it as supported.
fn supported(
    raw: &ash::Device,
    info: &vk::DescriptorSetLayoutCreateInfo<'_>,
) -> Result<vk::DescriptorSetLayout, DeviceError> {
    // Vulkan guarantees creation only up to `maxPerSetDescriptors`; beyond that, this query decides.
    let mut answer = vk::DescriptorSetLayoutSupport::default();
    // SAFETY: a valid description of types and flags whose features are enabled.
    unsafe { raw.get_descriptor_set_layout_support(info, &mut answer) };
    if answer.supported == vk::FALSE {
        return Err(DeviceError::Unsupported);
    }
    // SAFETY: as above.
    unsafe { raw.create_descriptor_set_layout(info, None) }.map_err(refused)
}

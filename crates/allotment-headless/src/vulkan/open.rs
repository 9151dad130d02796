//! Opens an instance and a device.

use core::ffi::{CStr, c_char};
use std::sync::{Arc, OnceLock};

use allotment::device::vulkan::{Device, DeviceDesc, EnabledFeatures};
use ash::vk;

use super::context::{Base, Context};
use super::descriptors::Descriptors;
use super::messenger::messenger;
use super::{Extensions, HeadlessDesc, OpenError};
use crate::{DeviceChoice, Messages, Validation};

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

pub(super) fn open(desc: &HeadlessDesc) -> Result<(Device, Arc<Context>), OpenError> {
    // SAFETY: the loader is the system's own, and as trustworthy as its other libraries.
    let entry = unsafe { ash::Entry::load() }.map_err(OpenError::NoLoader)?;
    keep_drivers_loaded(&entry);
    let base = open_instance(entry, desc)?;
    let physical_device = choose(&base.instance, &desc.device)?;
    open_device(base, physical_device, desc)
}

/// A loader and an instance that live until the process ends.
struct KeepAlive {
    _entry: ash::Entry,
    _instance: ash::Instance,
}

/// Creates an instance once, without layers, that is never destroyed. With the last instance the loader unloads
/// the drivers' libraries, and loads them again with the next one; some libraries survive that only a few dozen
/// times, because each time they take static thread-local storage, of which the process has little.
fn keep_drivers_loaded(entry: &ash::Entry) {
    static KEEP_ALIVE: OnceLock<Option<KeepAlive>> = OnceLock::new();
    KEEP_ALIVE.get_or_init(|| {
        // SAFETY: the description is valid: no layers, no extensions, the oldest version.
        let made = unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) };
        // If this fails, the caller's own instance fails too, with an error.
        made.ok().map(|instance| KeepAlive { _entry: entry.clone(), _instance: instance })
    });
}

fn open_instance(entry: ash::Entry, desc: &HeadlessDesc) -> Result<Base, OpenError> {
    // SAFETY: queries the loader only.
    let version = unsafe { entry.try_enumerate_instance_version() }?.unwrap_or(vk::API_VERSION_1_0);
    // A loader of Vulkan 1.0 accepts no other version.
    let newest = version >= vk::API_VERSION_1_1;
    // SAFETY: as above.
    let mut offered = unsafe { entry.enumerate_instance_extension_properties(None) }?;
    let mut layers = Vec::new();
    if desc.validation == Validation::On {
        // SAFETY: as above.
        let installed = unsafe { entry.enumerate_instance_layer_properties() }?;
        if !installed.iter().any(|layer| layer.layer_name_as_c_str() == Ok(LAYER)) {
            return Err(OpenError::NoValidationLayer);
        }
        layers.push(LAYER.as_ptr());
        // SAFETY: as above.
        offered.extend(unsafe { entry.enumerate_instance_extension_properties(Some(LAYER)) }?);
    }
    let mut extensions: Vec<*const c_char> = Vec::new();
    for wanted in [ash::ext::debug_utils::NAME, ash::ext::validation_features::NAME] {
        // Both are only useful together with the messenger.
        if desc.validation == Validation::On && has(&offered, wanted) {
            extensions.push(wanted.as_ptr());
        }
    }

    let messages = Arc::new(Messages::default());
    let mut listening = messenger(&messages);
    let enabled = [
        vk::ValidationFeatureEnableEXT::BEST_PRACTICES,
        vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION,
    ];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
    let application = vk::ApplicationInfo::default()
        .application_name(c"allotment-headless")
        .api_version(if newest { desc.api_version } else { vk::API_VERSION_1_0 });
    let mut info = vk::InstanceCreateInfo::default()
        .application_info(&application)
        .enabled_layer_names(&layers)
        .enabled_extension_names(&extensions);
    if desc.validation == Validation::On {
        info = info.push_next(&mut listening).push_next(&mut features);
    }
    // SAFETY: the layers and extensions are available, and the chain is valid.
    let instance = unsafe { entry.create_instance(&info, None) }?;
    let mut base = Base { instance, messenger: None, messages, entry };
    if desc.validation == Validation::On {
        let functions = ash::ext::debug_utils::Instance::new(&base.entry, &base.instance);
        // SAFETY: the messages are on the heap and dropped after the messenger.
        let made = unsafe { functions.create_debug_utils_messenger(&messenger(&base.messages), None) }?;
        base.messenger = Some((functions, made));
    }
    Ok(base)
}

fn has(offered: &[vk::ExtensionProperties], wanted: &CStr) -> bool {
    offered.iter().any(|extension| extension.extension_name_as_c_str() == Ok(wanted))
}

fn choose(instance: &ash::Instance, choice: &DeviceChoice) -> Result<vk::PhysicalDevice, OpenError> {
    // SAFETY: the instance is live.
    let devices = unsafe { instance.enumerate_physical_devices() }?;
    // SAFETY: the devices are of the instance.
    let properties = |&device: &_| unsafe { instance.get_physical_device_properties(device) };
    let is_gpu = |device: &_| properties(device).device_type != vk::PhysicalDeviceType::CPU;
    let name = |device: &_| {
        let properties = properties(device);
        properties.device_name_as_c_str().unwrap_or_default().to_string_lossy().into_owned()
    };
    let found = choice.among(&devices, is_gpu, name);
    found.map(|index| devices[index]).ok_or_else(|| OpenError::NoDevice(devices.iter().map(name).collect()))
}

/// Returns one family for each kind of queue: graphics, compute without graphics, transfer only.
fn families(instance: &ash::Instance, physical_device: vk::PhysicalDevice) -> Vec<u32> {
    // SAFETY: the physical device is of the instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical_device) };
    let (graphics, compute) = (vk::QueueFlags::GRAPHICS, vk::QueueFlags::COMPUTE);
    let kinds: [(vk::QueueFlags, vk::QueueFlags); 3] = [
        (graphics, vk::QueueFlags::empty()),
        (compute, graphics),
        (vk::QueueFlags::TRANSFER, graphics | compute),
    ];
    let find = |(with, without)| {
        let fits = |family: &vk::QueueFamilyProperties| {
            family.queue_count > 0
                && family.queue_flags.contains(with)
                && !family.queue_flags.intersects(without)
        };
        families.iter().position(fits).and_then(|index| u32::try_from(index).ok())
    };
    kinds.into_iter().filter_map(find).collect()
}

fn open_device(
    base: Base,
    physical_device: vk::PhysicalDevice,
    desc: &HeadlessDesc,
) -> Result<(Device, Arc<Context>), OpenError> {
    let instance = &base.instance;
    // SAFETY: the physical device is of the instance.
    let supported = unsafe { instance.get_physical_device_properties(physical_device) }.api_version;
    let api_version = desc.api_version.min(supported);
    // SAFETY: as above.
    let mut supported = unsafe { EnabledFeatures::supported(instance, physical_device, api_version) }
        .map_err(OpenError::Device)?
        .only(desc.wanted());
    // SAFETY: as above.
    let has = unsafe { instance.get_physical_device_features(physical_device) };
    // Features that the library does not use are not enabled.
    let sparse_binding = desc.extensions == Extensions::All && has.sparse_binding == vk::TRUE;
    let sparse_residency = supported.enabled().contains(EnabledFeatures::SPARSE_BUFFERS);
    supported.core_features().sparse_binding = sparse_binding.into();

    let families = families(instance, physical_device);
    let one = [1.0];
    let queue_infos: Vec<_> = families
        .iter()
        .map(|&family| vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&one))
        .collect();
    let names: Vec<_> = supported.extension_names().into_iter().map(CStr::as_ptr).collect();
    let info =
        vk::DeviceCreateInfo::default().queue_create_infos(&queue_infos).enabled_extension_names(&names);
    let info = supported.push_features(info);
    // SAFETY: the physical device supports the extensions and features.
    let device = unsafe { instance.create_device(physical_device, &info, None) }?;
    let debug_utils =
        if base.messenger.is_some() { EnabledFeatures::DEBUG_UTILS } else { EnabledFeatures::empty() };
    let context = Arc::new(Context {
        device,
        physical_device,
        families,
        api_version,
        sparse_binding,
        sparse_residency,
        base,
    });

    let owner = Arc::clone(&context);
    let (instance, device) = (context.instance.clone(), context.device.clone());
    let mut described = DeviceDesc::new(instance, physical_device, device)
        .with_api_version(api_version)
        .with_supported(&supported)
        .with_enabled(debug_utils)
        .with_keep_alive(owner);
    if let Descriptors::Model(model) = desc.descriptors {
        described = described.with_descriptor_model(model);
    }
    // Queues need timeline semaphores here.
    let has_queues = supported.enabled().contains(EnabledFeatures::TIMELINE_SEMAPHORE);
    for &family in context.families.iter().filter(|_| has_queues) {
        // SAFETY: the device was created with one queue of each of these families.
        let queue = unsafe { context.device.get_device_queue(family, 0) };
        described = described.with_queue(queue, family);
    }
    // SAFETY: the handles belong together and are kept alive by the owner, the listed features were enabled
    // above, and each queue is listed once.
    let device = unsafe { Device::new(described) }.map_err(OpenError::Device)?;
    Ok((device, context))
}

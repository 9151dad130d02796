//! The program's own instance, device and surface, and what Allotment is told of them.

use core::error::Error;
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use allotment::device::vulkan::{Device, DeviceDesc, EnabledFeatures};
use ash::vk;

use crate::Outcome;

const VERSION: u32 = vk::API_VERSION_1_3;
const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// The program's objects. Allotment keeps them alive, and drops them after everything that it created with them.
pub(crate) struct Vulkan {
    pub(crate) device: ash::Device,
    /// None where the instance has no surface without a window.
    pub(crate) surface: Option<(ash::khr::surface::Instance, vk::SurfaceKHR)>,
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    pub(crate) instance: ash::Instance,
    /// Warnings and errors of the validation layer. Also read after the rest is dropped.
    pub(crate) messages: Arc<AtomicUsize>,
    _entry: ash::Entry,
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: Allotment has destroyed what it made, and what the program made was dropped before.
        unsafe {
            self.device.destroy_device(None);
            if let Some((functions, surface)) = &self.surface {
                functions.destroy_surface(*surface, None);
            }
            if let Some((functions, messenger)) = &self.messenger {
                functions.destroy_debug_utils_messenger(*messenger, None);
            }
            self.instance.destroy_instance(None);
        }
    }
}

/// Opens an instance, a device and a surface, and describes them to Allotment.
pub(crate) fn open(validate: bool) -> Outcome<(Device, Arc<Vulkan>)> {
    // SAFETY: the loader is the system's, the descriptions are valid, and each handle is of the one before.
    unsafe {
        let entry = ash::Entry::load()?;
        let layers = if validate { vec![LAYER.as_ptr()] } else { Vec::new() };
        let mut offered = entry.enumerate_instance_extension_properties(None)?;
        if validate {
            offered.extend(entry.enumerate_instance_extension_properties(Some(LAYER))?);
        }
        let offers = |name| offered.iter().any(|offered| offered.extension_name_as_c_str() == Ok(name));

        let mut extensions = Vec::new();
        // Without it, the layer's messages have numbers in place of the names that resources are given.
        let debug_utils = offers(ash::ext::debug_utils::NAME);
        if debug_utils {
            extensions.push(ash::ext::debug_utils::NAME.as_ptr());
        }
        // A program with a window has those of its window system here, as `ash-window` lists them.
        let headless = offers(ash::khr::surface::NAME) && offers(ash::ext::headless_surface::NAME);
        if headless {
            extensions.extend([ash::khr::surface::NAME.as_ptr(), ash::ext::headless_surface::NAME.as_ptr()]);
        }
        let synchronization = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut checks = vk::ValidationFeaturesEXT::default().enabled_validation_features(&synchronization);
        let application = vk::ApplicationInfo::default().api_version(VERSION);
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if validate {
            extensions.push(ash::ext::validation_features::NAME.as_ptr());
            info = info.push_next(&mut checks);
        }
        let info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions);
        let instance = entry.create_instance(&info, None)?;

        let messages = Arc::new(AtomicUsize::new(0));
        let messenger = if debug_utils { Some(listen(&entry, &instance, &messages)?) } else { None };
        let surface = if headless {
            let create = ash::ext::headless_surface::Instance::new(&entry, &instance);
            let surface =
                create.create_headless_surface(&vk::HeadlessSurfaceCreateInfoEXT::default(), None)?;
            Some((ash::khr::surface::Instance::new(&entry, &instance), surface))
        } else {
            None
        };

        let (physical_device, family) = choose(&instance, surface.as_ref())?;
        let mut supported = EnabledFeatures::supported(&instance, physical_device, VERSION)?;
        // The program's own features, which every device of Vulkan 1.3 has; what Allotment uses is added to them.
        let mut vulkan_12 =
            vk::PhysicalDeviceVulkan12Features::default().uniform_buffer_standard_layout(true);
        let mut vulkan_13 =
            vk::PhysicalDeviceVulkan13Features::default().dynamic_rendering(true).synchronization2(true);
        supported.merge_into(&mut vulkan_12);
        supported.merge_into(&mut vulkan_13);

        let mut extensions: Vec<_> = supported.extension_names().into_iter().map(CStr::as_ptr).collect();
        if surface.is_some() {
            extensions.push(ash::khr::swapchain::NAME.as_ptr());
        }
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .push_next(&mut vulkan_12)
            .push_next(&mut vulkan_13);
        let device = instance.create_device(physical_device, &supported.push_features(info), None)?;
        let queue = device.get_device_queue(family, 0);

        let mut desc = DeviceDesc::new(instance.clone(), physical_device, device.clone())
            .with_supported(&supported)
            .with_queue(queue, family);
        // The instance has it, of which `supported` knows nothing.
        desc.enabled.set(EnabledFeatures::DEBUG_UTILS, debug_utils);
        let vulkan = Arc::new(Vulkan { device, surface, messenger, instance, messages, _entry: entry });
        let owner = Arc::clone(&vulkan);
        Ok((Device::new(desc.with_keep_alive(owner))?, vulkan))
    }
}

/// Returns the first device of Vulkan 1.3 and its first queue family that draws and presents. `ALLOTMENT_VULKAN` is a part
/// of a device's name.
fn choose(
    instance: &ash::Instance,
    surface: Option<&(ash::khr::surface::Instance, vk::SurfaceKHR)>,
) -> Outcome<(vk::PhysicalDevice, u32)> {
    let wanted = std::env::var("ALLOTMENT_VULKAN").unwrap_or_default().to_lowercase();
    // SAFETY: the devices and the surface are of the instance.
    unsafe {
        for physical_device in instance.enumerate_physical_devices()? {
            let properties = instance.get_physical_device_properties(physical_device);
            let name = properties.device_name_as_c_str()?.to_string_lossy().to_lowercase();
            if properties.api_version < VERSION || !name.contains(&wanted) {
                continue;
            }
            let families = instance.get_physical_device_queue_family_properties(physical_device);
            for (family, properties) in (0..).zip(families) {
                let presents = match surface {
                    Some((functions, surface)) => {
                        functions.get_physical_device_surface_support(physical_device, family, *surface)?
                    }
                    None => true,
                };
                if presents && properties.queue_flags.contains(vk::QueueFlags::GRAPHICS) {
                    return Ok((physical_device, family));
                }
            }
        }
    }
    Err(Box::<dyn Error>::from("no device of Vulkan 1.3 draws"))
}

/// Prints and counts the warnings and errors of the validation layer.
///
/// # Safety
///
/// The instance was created with `VK_EXT_debug_utils`, and `messages` lives as long as it.
unsafe fn listen(
    entry: &ash::Entry,
    instance: &ash::Instance,
    messages: &Arc<AtomicUsize>,
) -> Result<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT), vk::Result> {
    let severities =
        vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR;
    let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(severities)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(print))
        .user_data(Arc::as_ptr(messages).cast_mut().cast());
    let functions = ash::ext::debug_utils::Instance::new(entry, instance);
    // SAFETY: the caller's promise.
    let messenger = unsafe { functions.create_debug_utils_messenger(&info, None) }?;
    Ok((functions, messenger))
}

unsafe extern "system" fn print(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    messages: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: valid for the call, as the layer promises, and what `listen` was given.
    unsafe {
        if let Some(text) = (*data).message_as_c_str() {
            eprintln!("{}", text.to_string_lossy());
        }
        (*messages.cast::<AtomicUsize>()).fetch_add(1, Relaxed);
    }
    vk::FALSE
}

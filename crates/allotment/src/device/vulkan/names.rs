//! Names for people, passed on to `VK_EXT_debug_utils`.

use std::ffi::CString;

use ash::vk;

use super::Shared;

impl Shared {
    /// Tells debuggers and validation layers what an object is called. A name ends where it has a NUL. A
    /// name that cannot be kept is no reason to fail.
    pub(super) fn name(&self, object: impl vk::Handle + Copy, name: &str) {
        let Some(debug_utils) = self.debug_utils.as_ref().filter(|_| !object.is_null()) else { return };
        let name: Vec<u8> = name.bytes().take_while(|&byte| byte != 0).collect();
        let Ok(name) = CString::new(name) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&name);
        // SAFETY: the object is live and of this device, and the extension is enabled.
        let _ = unsafe { debug_utils.set_debug_utils_object_name(&info) };
    }
}

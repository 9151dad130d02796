//! Debug names, passed on to `VK_EXT_debug_utils`.

use core::ffi::CStr;
use std::ffi::CString;

use ash::vk;

use super::Shared;

/// Names from this length in bytes on are copied to the heap; shorter ones to the stack.
const LONG: usize = 128;

impl Shared {
    /// Sets the debug name of an object. The name ends at its first NUL. Errors are ignored: a missing debug
    /// name is no reason to fail.
    pub(super) fn name(&self, object: impl vk::Handle + Copy, name: &str) {
        // Vulkan forbids naming a null handle.
        let Some(debug_utils) = self.debug_utils.as_ref().filter(|_| !object.is_null()) else { return };
        // A Rust string may have NULs inside, at which C ends.
        let end = name.bytes().position(|byte| byte == 0).unwrap_or(name.len());
        let name = &name.as_bytes()[..end];
        let (mut here, elsewhere);
        let name = if end < LONG {
            here = [0; LONG];
            here[..end].copy_from_slice(name);
            CStr::from_bytes_until_nul(&here).ok()
        } else {
            elsewhere = CString::new(name);
            elsewhere.as_deref().ok()
        };
        let Some(name) = name else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(name);
        // SAFETY: the object is live and of this device, and the extension is enabled.
        let _ = unsafe { debug_utils.set_debug_utils_object_name(&info) };
    }
}

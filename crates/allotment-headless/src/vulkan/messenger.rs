//! How the validation layer is listened to.

use core::ffi::{CStr, c_void};

use ash::vk;

use crate::{Message, Messages, Severity};

/// How messages are told. The address of `messages` must stay valid while something made with it lives.
pub(super) fn messenger(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    let user: *const Messages = messages;
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
        )
        .message_type(
            vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
        )
        .pfn_user_callback(Some(said))
        .user_data(user.cast_mut().cast())
}

/// Text of the layer's; empty where it has none.
///
/// # Safety
///
/// `text` is null, or a text that ends with a NUL and lives during the call.
unsafe fn owned(text: *const core::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe extern "system" fn said(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes valid data, and lets go of it only after this call.
    let data = unsafe { data.as_ref() };
    // SAFETY: what `messenger` passed, which outlives the messenger.
    let messages = unsafe { user.cast::<Messages>().as_ref() };
    if let (Some(data), Some(messages)) = (data, messages) {
        let severity = if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) {
            Severity::Error
        } else {
            Severity::Warning
        };
        // SAFETY: texts of the layer's, which live during this call.
        let id = unsafe { owned(data.p_message_id_name) };
        // SAFETY: as above.
        let text = unsafe { owned(data.p_message) };
        messages.say(Message { severity, id, text });
    }
    vk::FALSE
}

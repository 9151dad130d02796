//! The debug messenger, which records the validation layer's messages.

use core::ffi::{CStr, c_void};

use ash::vk;

use crate::{Message, Messages, Severity};

/// Describes a messenger that records into `messages`, whose address must stay valid while an object created
/// with it lives.
pub(super) fn messenger(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    let user: *const Messages = messages;
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
        )
        .message_type(
            vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
        )
        .pfn_user_callback(Some(record))
        .user_data(user.cast_mut().cast())
}

/// Copies a string of the layer; an absent one becomes empty.
///
/// # Safety
///
/// `text` is null, or a string that ends with a NUL and lives during the call.
unsafe fn owned(text: *const core::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe extern "system" fn record(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes valid data, which lives during this call.
    let data = unsafe { data.as_ref() };
    // SAFETY: the pointer that `messenger` passed, whose target outlives the messenger.
    let messages = unsafe { user.cast::<Messages>().as_ref() };
    if let (Some(data), Some(messages)) = (data, messages) {
        let severity = if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) {
            Severity::Error
        } else {
            Severity::Warning
        };
        // SAFETY: strings of the layer, which live during this call.
        let id = unsafe { owned(data.p_message_id_name) };
        // SAFETY: as above.
        let text = unsafe { owned(data.p_message) };
        messages.add(Message { severity, id, text });
    }
    vk::FALSE
}

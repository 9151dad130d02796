//! What the validation layer says.

use core::ffi::{CStr, c_void};
use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Bad for speed, or likely a mistake.
    Warning,
    /// Against the rules.
    Error,
}

/// One thing that was said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// How bad it is.
    pub severity: Severity,
    /// Which rule it is about: `VUID-…`, `SYNC-HAZARD-…`, `UNASSIGNED-BestPractices-…`.
    pub id: String,
    /// The whole text.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.severity, self.id, self.text)
    }
}

/// What was said of rules and speed so far. What the loader says of itself is not kept.
#[derive(Debug, Default)]
pub struct Messages(Mutex<Vec<Message>>);

impl Messages {
    fn locked(&self) -> MutexGuard<'_, Vec<Message>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All messages, in the order in which they were said.
    #[must_use]
    pub fn all(&self) -> Vec<Message> {
        self.locked().clone()
    }

    /// All messages, which are forgotten.
    #[must_use]
    pub fn take(&self) -> Vec<Message> {
        core::mem::take(&mut *self.locked())
    }

    /// How to be told. The address of `self` must stay valid while something made with it lives.
    pub(crate) fn messenger(&self) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
        let user: *const Self = self;
        vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(
                vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
            )
            .message_type(
                vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION
                    | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
            )
            .pfn_user_callback(Some(said))
            .user_data(user.cast_mut().cast())
    }
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
        messages.locked().push(Message { severity, id, text });
    }
    vk::FALSE
}

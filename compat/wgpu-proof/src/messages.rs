//! What wgpu and the validation layer log.

use std::sync::{Mutex, Once, PoisonError};

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::requires;

/// Errors that are known to be false, by a part of their text.
///
/// The layer of Vulkan 1.4.309 works out the range of an image by the row pitch of the buffer, so that a staging buffer
/// just behind the image seems to overlap it. Wine has no factory for video surfaces, of which these programs show none.
/// lavapipe says for itself that it has no memory, as it is asked for more than there is.
const FALSE: [&str; 3] = [
    "VUID-vkCmdCopyBufferToImage-pRegions-00173",
    "create_factory_media failed",
    "VK_ERROR_OUT_OF_DEVICE_MEMORY",
];

struct Messages {
    errors: Mutex<Vec<String>>,
}

static MESSAGES: Messages = Messages { errors: Mutex::new(Vec::new()) };

impl Log for Messages {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        // wgpu logs the objects of a message after it, in lines that begin so.
        let is_detail = text.starts_with('\t');
        let is_false = is_detail || FALSE.iter().any(|known| text.contains(known));
        let is_error = record.level() == Level::Error && !is_false;
        // wgpu says so at the level of debugging alone, which is listened to where it matters.
        let no_layer = text.contains("unable to find layer");
        if is_error || no_layer {
            self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    }

    fn flush(&self) {}
}

/// Collects errors from now on.
pub(crate) fn collect() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&MESSAGES).expect("no other logger is set");
        // Where the layer must be there, or nothing would be checked.
        log::set_max_level(if requires("validation") { LevelFilter::Debug } else { LevelFilter::Error });
    });
}

/// Returns the errors of all devices of the process so far.
pub(crate) fn errors() -> Vec<String> {
    MESSAGES.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

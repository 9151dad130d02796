//! What wgpu and the validation layer log.

use std::sync::{Mutex, Once, PoisonError};

use log::{Level, LevelFilter, Log, Metadata, Record};

/// Errors that are known to be false, by a part of their text.
///
/// The layer of Vulkan 1.4.309 works out the range of an image by the row pitch of the buffer, so that a staging buffer
/// just behind the image seems to overlap it. Wine has no factory for video surfaces, of which these programs show none.
const FALSE: [&str; 2] = ["VUID-vkCmdCopyBufferToImage-pRegions-00173", "create_factory_media failed"];

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
        let is_error = record.level() == Level::Error && !FALSE.iter().any(|known| text.contains(known));
        // wgpu says so at the level of debugging alone, which is listened to where it matters.
        let no_layer = text.contains("unable to find layer");
        if is_error || no_layer {
            self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    }

    fn flush(&self) {}
}

/// Returns true where the validation layer must be there, or nothing would be checked.
fn requires_validation() -> bool {
    std::env::var("ALLOTMENT_REQUIRE").is_ok_and(|required| required.contains("validation"))
}

/// Collects errors from now on.
pub(crate) fn collect() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&MESSAGES).expect("no other logger is set");
        log::set_max_level(if requires_validation() { LevelFilter::Debug } else { LevelFilter::Error });
    });
}

/// Returns the errors of all devices of the process so far.
pub(crate) fn errors() -> Vec<String> {
    MESSAGES.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

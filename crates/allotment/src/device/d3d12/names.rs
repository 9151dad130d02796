//! Names for people, passed on to the runtime: PIX, the debug layer and DRED show them.

use windows::Win32::Graphics::Direct3D12::ID3D12Object;
use windows::core::{Interface, PCWSTR};

/// Tells the runtime what an object is called. A name that cannot be kept is no reason to fail.
pub(super) fn name(object: &impl Interface, name: &str) {
    let Ok(object) = object.cast::<ID3D12Object>() else { return };
    let name: Vec<u16> = name.encode_utf16().take_while(|&unit| unit != 0).chain([0]).collect();
    // SAFETY: the object is live, and the text ends with a zero.
    let _ = unsafe { object.SetName(PCWSTR(name.as_ptr())) };
}

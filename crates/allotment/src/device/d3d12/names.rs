//! Debug names, passed on to the runtime: PIX, the debug layer and DRED show them.

use windows::Win32::Graphics::Direct3D12::ID3D12Object;
use windows::core::{Interface, PCWSTR};

/// Names from this length in UTF-16 units on are copied to the heap; shorter ones to the stack.
const LONG: usize = 128;

/// Sets the debug name of an object. Errors are ignored: a missing debug name is no reason to fail.
pub(super) fn name(object: &impl Interface, name: &str) {
    let Ok(object) = object.cast::<ID3D12Object>() else { return };
    // The runtime expects UTF-16 that ends with a zero; a zero in the name would end it early.
    let units = || name.encode_utf16().take_while(|&unit| unit != 0);
    // There are at most as many units as bytes.
    if name.len() < LONG {
        let mut text = [0; LONG];
        text.iter_mut().zip(units()).for_each(|(to, unit)| *to = unit);
        set(&object, &text);
    } else {
        set(&object, &units().chain([0]).collect::<Vec<_>>());
    }
}

/// Sets the name `text`, which ends with a zero.
fn set(object: &ID3D12Object, text: &[u16]) {
    debug_assert_eq!(text.last(), Some(&0));
    // SAFETY: the object is live, and the text ends with a zero.
    let _ = unsafe { object.SetName(PCWSTR(text.as_ptr())) };
}

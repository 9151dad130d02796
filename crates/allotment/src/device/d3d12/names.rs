//! Names for people, passed on to the runtime: PIX, the debug layer and DRED show them.

use windows::Win32::Graphics::Direct3D12::ID3D12Object;
use windows::core::{Interface, PCWSTR};

/// A name of so many units is a long one; shorter ones are not put on the heap.
const LONG: usize = 128;

/// Tells the runtime what an object is called. A name that cannot be kept is no reason to fail.
pub(super) fn name(object: &impl Interface, name: &str) {
    let Ok(object) = object.cast::<ID3D12Object>() else { return };
    let units = || name.encode_utf16().take_while(|&unit| unit != 0);
    // There are no more units than bytes.
    if name.len() < LONG {
        let mut text = [0; LONG];
        text.iter_mut().zip(units()).for_each(|(to, unit)| *to = unit);
        set(&object, &text);
    } else {
        set(&object, &units().chain([0]).collect::<Vec<_>>());
    }
}

/// `text` ends with a zero.
fn set(object: &ID3D12Object, text: &[u16]) {
    debug_assert_eq!(text.last(), Some(&0));
    // SAFETY: the object is live, and the text ends with a zero.
    let _ = unsafe { object.SetName(PCWSTR(text.as_ptr())) };
}

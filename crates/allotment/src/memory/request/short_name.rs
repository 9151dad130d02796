//! The debug name inside an error.

use core::fmt;

/// The debug name of the allocation that an error is about, cut to 47 bytes. Stored inline, so that errors need no
/// host memory.
///
/// ```
/// use allotment::memory::ShortName;
///
/// let name = ShortName::new("a name of more than forty-seven bytes is cut at a character");
/// assert_eq!(name.as_str(), "a name of more than forty-seven bytes is cut at");
/// assert_eq!(ShortName::NONE.as_str(), "");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortName {
    /// UTF-8. Invariant: zeros from `len` on.
    bytes: [u8; Self::ROOM],
    len: u8,
}

impl ShortName {
    /// The empty name.
    pub const NONE: Self = Self { bytes: [0; Self::ROOM], len: 0 };

    const ROOM: usize = 47;

    /// Cuts `name` to as many characters as fit.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut len = name.len().min(Self::ROOM);
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; Self::ROOM];
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        Self { bytes, len: len as u8 }
    }

    /// Returns the name as text; empty for none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // `new` cut it between two characters, so the conversion never fails.
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl Default for ShortName {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

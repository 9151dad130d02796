//! The debug name inside an error.

use core::fmt;

use crate::choices::name::Name;

/// The debug name of the allocation that an error is about, cut to 47 bytes.
///
/// ```
/// use allotment::memory::names::ShortName;
///
/// let name = ShortName::new("a name of more than forty-seven bytes is cut at a character");
/// assert_eq!(name.as_str(), "a name of more than forty-seven bytes is cut at");
/// assert_eq!(ShortName::NONE.as_str(), "");
/// ```
pub type ShortName = CutName<47>;

/// The debug name of a second resource in an error, cut to 23 bytes, so that both fit.
///
/// ```
/// use allotment::memory::names::OtherName;
///
/// assert_eq!(OtherName::new("a name of more than 23 bytes").as_str(), "a name of more than 23 ");
/// assert_eq!(OtherName::NONE.as_str(), "");
/// ```
pub type OtherName = CutName<23>;

/// A debug name, cut to some bytes, up to 255. Stored inline, so that errors need no host memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CutName<const BYTES: usize> {
    /// UTF-8. Invariant: zeros from `len` on.
    bytes: [u8; BYTES],
    len: u8,
}

impl<const BYTES: usize> CutName<BYTES> {
    /// The empty name.
    pub const NONE: Self = Self { bytes: [0; BYTES], len: 0 };

    const ROOM: usize = if BYTES < 255 { BYTES } else { 255 };

    /// Cuts `name` to as many characters as fit.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut len = name.len().min(Self::ROOM);
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; BYTES];
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        Self { bytes, len: len as u8 }
    }

    /// Returns the beginning of a name; [`NONE`](Self::NONE) for none.
    pub(crate) fn of(name: Option<&Name>) -> Self {
        name.map_or(Self::NONE, |name| Self::new(name.as_str()))
    }

    /// Returns the name as text, or `None` for the empty one.
    pub(crate) fn get(&self) -> Option<&str> {
        Some(self.as_str()).filter(|name| !name.is_empty())
    }

    /// Writes the name, quoted, and a colon: what the text of an error begins with. Writes nothing for the empty name.
    pub(crate) fn begin(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().map_or(Ok(()), |name| write!(f, "{name:?}: "))
    }

    /// Returns the name as text; empty for none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // `new` cut it between two characters, so the conversion never fails.
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl<const BYTES: usize> Default for CutName<BYTES> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<const BYTES: usize> fmt::Debug for CutName<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<const BYTES: usize> fmt::Display for CutName<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Gives an error its name. The `own` variants have a field `name`; the `inner` ones contain an error that has one.
///
/// All errors about a resource have their name in this way: where an error arises, deep inside, nobody knows it; the
/// function that the application called knows it and adds it. Only a refused call pays for that.
macro_rules! name_in_error {
    ($error:ident, own: [$($own:ident),*], inner: [$($inner:ident),*]) => {
        $crate::memory::name_in_error!($error, own: [$($own),*], inner: [$($inner),*], source: []);
    };
    ($error:ident, own: [$($own:ident),*], inner: [$($inner:ident),*], source: [$($source:ident),*]) => {
        impl $error {
            /// Returns the debug name of the resource that was refused, cut to 47 bytes. `None` where it has no name, or
            /// the error is about no resource.
            #[must_use]
            pub fn name(&self) -> Option<&str> {
                match self {
                    $(Self::$own { name, .. } => name.get(),)*
                    $(Self::$inner(error) => error.name(),)*
                    $(Self::$source { source, .. } => source.name(),)*
                    #[allow(unreachable_patterns, reason = "some errors have a name in each variant")]
                    _ => None,
                }
            }

            /// Adds the name of the resource, unless the error has one.
            #[cold]
            #[must_use]
            #[allow(dead_code, reason = "some errors are created where the name is known")]
            pub(crate) fn of(mut self, found: $crate::memory::ShortName) -> Self {
                match &mut self {
                    $(Self::$own { name, .. } if name.get().is_none() => *name = found,)*
                    $(Self::$inner(error) => *error = error.of(found),)*
                    $(Self::$source { source, .. } => *source = source.of(found),)*
                    #[allow(unreachable_patterns, reason = "some errors have a name in each variant")]
                    _ => {}
                }
                self
            }
        }
    };
}

pub(crate) use name_in_error;

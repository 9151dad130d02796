//! The debug name of an allocation.

use core::fmt;
use std::sync::Arc;

/// A debug name. Cheap to clone; a static one needs no host memory.
///
/// ```
/// use allotment::MemoryUsage;
/// use allotment::memory::names::Name;
///
/// let fixed: Name = "shadow map".into(); // no host memory
/// let numbered: Name = format!("shadow map {}", 3).into();
/// let options = MemoryUsage::GpuOnly.with_name("").with_name(numbered.clone());
/// assert_eq!((fixed.as_str(), options.name), ("shadow map", Some(numbered)));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// A string literal.
    Static(&'static str),
    /// Made at run time and shared.
    Shared(Arc<str>),
}

impl Name {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Static(name) => name,
            Self::Shared(name) => name,
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self::Static(name)
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self::Shared(name.into())
    }
}

impl From<Arc<str>> for Name {
    fn from(name: Arc<str>) -> Self {
        Self::Shared(name)
    }
}

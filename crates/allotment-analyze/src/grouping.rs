//! Allocations in groups: by call site, by name, by what a name begins with, by category.

use allotment_trace::recording::TextId;

use crate::timeline::{AllocationIndex, Texts, Timeline};

/// The property by which allocations are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// The call site; of an allocation without one, what its name begins with.
    #[default]
    CallSite,
    /// The whole name.
    Name,
    /// The beginning of the name, up to its first digit, so that `shadow map 3` and `shadow map 17` are one group.
    NamePrefix,
    /// The category.
    Category,
}

impl Grouping {
    /// All groupings.
    pub const ALL: [Self; 4] = [Self::CallSite, Self::Name, Self::NamePrefix, Self::Category];

    /// Returns what allocations are grouped by, in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CallSite => "call site",
            Self::Name => "name",
            Self::NamePrefix => "name before digits",
            Self::Category => "category",
        }
    }

    /// Returns the group of an allocation. Empty for one that lacks the text.
    #[must_use]
    pub fn of<'a>(self, timeline: &Timeline<'a>, allocation: AllocationIndex) -> &'a str {
        self.key(timeline.texts(allocation), |id| timeline.recording().text(id).unwrap_or(""))
    }

    /// Returns the group of an allocation with some texts.
    pub fn key<'a>(self, texts: Texts, text: impl Fn(TextId) -> &'a str) -> &'a str {
        match self {
            Self::CallSite if texts.call_site.is_none() => name_prefix(text(texts.name)),
            Self::CallSite => text(texts.call_site),
            Self::Name => text(texts.name),
            Self::NamePrefix => name_prefix(text(texts.name)),
            Self::Category => text(texts.category),
        }
    }
}

/// Returns all of a name up to its first digit, without the separators at the end. The whole name where nothing would be
/// left.
///
/// ```
/// use allotment_analyze::name_prefix;
///
/// assert_eq!(name_prefix("shadow map 17"), "shadow map");
/// assert_eq!(name_prefix("tex_0_20"), "tex");
/// assert_eq!(name_prefix("4K buffer"), "4K buffer");
/// ```
#[must_use]
pub fn name_prefix(name: &str) -> &str {
    let end = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let prefix = name[..end].trim_end_matches([' ', '_', '-', '.', ':', '#', '/', '[', '(']);
    if prefix.is_empty() { name } else { prefix }
}

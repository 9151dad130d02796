//! The API's usage flags of a buffer or image, as the category of an allocation: JSON dumps have them, and recordings
//! have no number for them. As text, the import of a dump keeps them, and the export writes them again, so that VMA's
//! viewer colours both alike.

const PREFIX: &str = "usage 0x";

/// Returns the category for usage flags.
pub(crate) fn to_text(flags: u64) -> String {
    format!("{PREFIX}{flags:x}")
}

/// Returns the usage flags that a category says, if it says any.
pub(crate) fn from_text(category: &str) -> Option<u64> {
    u64::from_str_radix(category.strip_prefix(PREFIX)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_back_and_other_categories_have_none() {
        for flags in [1, 0x22, u64::MAX] {
            assert_eq!(from_text(&to_text(flags)), Some(flags));
        }
        assert_eq!(["", "usage", "usage 0x", "usage 0x-1", "textures"].map(from_text), [None; 5]);
    }
}

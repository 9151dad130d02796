//! The search of a list of allocations: words and numbers that all must hold.

use allotment_trace::recording::{Recording, TextId};

use crate::timeline::{AllocationIndex, Timeline};

/// A search for allocations, of parts that are separated by spaces and must all hold:
///
/// | part | holds for allocations |
/// |---|---|
/// | `sky` | with the text in their name, category or call site; capitals are the same as small letters |
/// | `#12`, `#4:0` | in block 12; in block 0 of pool 4 |
/// | `0x1000`, `0x1000-0x1fff` | with bytes at that offset of their block, or in that range of offsets |
/// | `>64k`, `<=2MiB` | of which more, or so many bytes at most, were requested |
///
/// ```
/// use allotment_analyze::{AllocationSearch, Timeline};
/// use allotment_trace::recording::Recording;
///
/// let recording = Recording::default();
/// let search = AllocationSearch::new(&recording, "shadow >64k");
/// assert_eq!(Timeline::new(&recording).allocations().count(), 0);
/// assert!(!search.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationSearch {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// For each text of the recording, whether it has the part.
    Text(Box<[bool]>),
    Block(String),
    /// First and last offset.
    Offsets(u64, u64),
    Size(Comparison, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl AllocationSearch {
    /// Reads a search. Every text is one, so there is no error: what is no number is looked for in the texts. Costs one
    /// look at each text of the recording for each part.
    #[must_use]
    pub fn new(recording: &Recording, text: &str) -> Self {
        let part = |part: &str| {
            size(part).or_else(|| block(part)).or_else(|| offsets(part)).unwrap_or_else(|| {
                let part = part.to_lowercase();
                Part::Text(recording.texts.iter().map(|text| text.to_lowercase().contains(&part)).collect())
            })
        };
        Self { parts: text.split_whitespace().map(part).collect() }
    }

    /// Returns true for a search without parts, which every allocation matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns true if all parts hold for an allocation where it is at a position.
    #[must_use]
    pub fn matches(&self, timeline: &Timeline<'_>, allocation: AllocationIndex, position: u64) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Text(has) => {
                let texts = timeline.texts(allocation);
                let in_text = |id: TextId| (id.0 as usize).checked_sub(1).and_then(|index| has.get(index));
                [texts.name, texts.category, texts.call_site].into_iter().any(|id| in_text(id) == Some(&true))
            }
            Part::Block(name) => {
                let place = timeline.place_at(allocation, position);
                timeline.block_info(place.block).id.to_string() == *name
            }
            &Part::Offsets(first, last) => {
                let place = timeline.place_at(allocation, position);
                place.offset <= last && place.offset.saturating_add(place.occupied) > first
            }
            &Part::Size(comparison, limit) => {
                let size = timeline.requested(allocation);
                match comparison {
                    Comparison::Less => size < limit,
                    Comparison::AtMost => size <= limit,
                    Comparison::More => size > limit,
                    Comparison::AtLeast => size >= limit,
                }
            }
        })
    }
}

/// `>64k`, `<=2MiB`, `>1.5m`.
fn size(part: &str) -> Option<Part> {
    let orders = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Less),
        (">", Comparison::More),
    ];
    let (comparison, rest) =
        orders.into_iter().find_map(|(sign, comparison)| Some((comparison, part.strip_prefix(sign)?)))?;
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match rest[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    let plain =
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.ends_with(|c: char| c.is_ascii_digit());
    let number: f64 = digits.parse().ok().filter(|_| plain)?;
    // A size between two bytes is rounded down, and one beyond all numbers is the largest.
    Some(Part::Size(comparison, (number * f64::from(1u32 << shift)) as u64))
}

/// `#12`, `#4:0`.
fn block(part: &str) -> Option<Part> {
    let name = part.strip_prefix('#')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once(':')
        .map_or(is_number(name), |(pool, block)| is_number(pool) && is_number(block))
        .then(|| Part::Block(name.to_owned()))
}

/// `0x1000`, `0x1000-0x1fff`, `4096-8191`.
fn offsets(part: &str) -> Option<Part> {
    let hexadecimal = |text: &str| {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
    };
    let decimal = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
    let number = |text: &str| hexadecimal(text).or_else(|| decimal(text));
    if let Some((first, last)) = part.split_once('-') {
        return Some(Part::Offsets(number(first)?, number(last)?));
    }
    hexadecimal(part).map(|offset| Part::Offsets(offset, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(part: &str) -> Option<Part> {
        size(part).or_else(|| block(part)).or_else(|| offsets(part))
    }

    #[test]
    fn sizes_blocks_and_offsets_are_told_from_texts() {
        let size = |comparison, bytes| Some(Part::Size(comparison, bytes));
        assert_eq!(numbers(">64k"), size(Comparison::More, 64 << 10));
        assert_eq!(numbers("<=2MiB"), size(Comparison::AtMost, 2 << 20));
        assert_eq!(numbers(">=1.5m"), size(Comparison::AtLeast, 3 << 19));
        assert_eq!(numbers("<100"), size(Comparison::Less, 100));
        assert_eq!(numbers("#12"), Some(Part::Block("12".into())));
        assert_eq!(numbers("#4:0"), Some(Part::Block("4:0".into())));
        assert_eq!(numbers("0x1000"), Some(Part::Offsets(0x1000, 0x1000)));
        assert_eq!(numbers("0x10-0x1F"), Some(Part::Offsets(0x10, 0x1f)));
        assert_eq!(numbers("16-31"), Some(Part::Offsets(16, 31)));
        for text in [
            "sky",
            "1024",
            ">",
            ">k",
            ">1.k",
            ">5x",
            "#",
            "#a",
            "#1:",
            "0x",
            "0xg",
            "a-b",
            "-",
            "shadow-map",
            "<inf",
        ] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }
}

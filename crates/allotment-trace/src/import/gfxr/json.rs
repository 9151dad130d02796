//! The values of a call's JSON: numbers in each of the forms that `gfxrecon-convert` writes, and chains of structures.

use core::fmt;
use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::value::RawValue;

use super::super::ImportErrorKind;
use super::super::limits::Budget;

/// A number, a handle or a truth value: decimal, or hexadecimal in a string (`--hex-handles`). Null is 0, by JSON's name
/// or by Vulkan's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Num(pub(super) u64);

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl Visitor<'_> for Any {
            type Value = Num;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number that is not negative")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Num, E> {
                Ok(Num(u64::from(value)))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Num, E> {
                Ok(Num(value))
            }

            fn visit_unit<E: Error>(self) -> Result<Num, E> {
                Ok(Num(0))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Num, E> {
                let parsed = match value.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16),
                    None if matches!(value, "VK_NULL_HANDLE" | "NULL" | "nullptr") => Ok(0),
                    None => value.parse(),
                };
                parsed.map(Num).map_err(|_| E::custom("a string is not a number"))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// Reads a number that may be missing. Null is one.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Num>, D::Error> {
    Num::deserialize(deserializer).map(Some)
}

/// Flags: a number, or the names of the bits (`--expand-flags`).
#[derive(Clone, Debug)]
pub(super) enum Flags {
    Bits(u64),
    Names(String),
}

impl Default for Flags {
    fn default() -> Self {
        Self::Bits(0)
    }
}

impl Flags {
    /// Returns the bits, whose names are given by position.
    pub(super) fn bits(&self, names: &[&str]) -> u64 {
        match self {
            Self::Bits(bits) => *bits,
            Self::Names(text) => names.iter().enumerate().fold(0, |bits, (i, name)| {
                let named = text.split('|').any(|part| part.trim() == *name);
                bits | u64::from(named) << i
            }),
        }
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(bits) => write!(f, "{bits}"),
            Self::Names(names) => f.write_str(names),
        }
    }
}

impl<'de> Deserialize<'de> for Flags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl Visitor<'_> for Any {
            type Value = Flags;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("flags as a number or as names")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Flags, E> {
                Ok(Flags::Bits(value))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Flags, E> {
                let hex = value.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
                Ok(hex
                    .map_or_else(|| Flags::Names(super::super::builder::cut(value).to_owned()), Flags::Bits))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// The most structures of a chain that are looked at. Real chains have a handful; each looks through the rest again.
const MAX_CHAIN: usize = 32;

#[derive(serde::Deserialize)]
struct Link<'a> {
    #[serde(borrow, rename = "sType", default)]
    s_type: Cow<'a, str>,
    #[serde(borrow, rename = "pNext", default)]
    next: Option<&'a RawValue>,
}

/// Returns the structure of a type in a chain, if it is there and has the form.
pub(super) fn find<'a, T: Deserialize<'a>>(
    mut next: Option<&'a RawValue>,
    s_type: &str,
    budget: &Budget,
) -> Result<Option<T>, ImportErrorKind> {
    for _ in 0..MAX_CHAIN {
        let Some(raw) = next else { break };
        // Each structure has the rest of the chain in it, which is read again.
        budget.look_at(raw.get())?;
        let Ok(link) = serde_json::from_str::<Link<'a>>(raw.get()) else { break };
        if link.s_type == s_type {
            return Ok(serde_json::from_str(raw.get()).ok());
        }
        next = link.next;
    }
    Ok(None)
}

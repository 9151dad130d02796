//! The JSON of a dump, parsed: only what is imported, and free ranges left out, so that it takes little more than the
//! text.

use core::fmt;
use core::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Dump {
    pub(super) general: General,
    #[serde(default)]
    pub(super) memory_info: Pairs<HeapInfo, FEW>,
    pub(super) default_pools: Option<Pairs<Pool, FEW>>,
    pub(super) custom_pools: Option<Pairs<Vec<Pool>, FEW>>,
}

#[derive(serde::Deserialize)]
pub(super) struct General {
    #[serde(rename = "API")]
    pub(super) api: Box<str>,
    #[serde(rename = "GPU", default)]
    pub(super) gpu: Box<str>,
    #[serde(rename = "bufferImageGranularity", default)]
    pub(super) granularity: u64,
    #[serde(rename = "nonCoherentAtomSize", default)]
    pub(super) atom: u64,
    #[serde(rename = "maxMemoryAllocationCount", default)]
    pub(super) most_objects: u64,
    /// Bytes of the GPU's own memory, in D3D12MA's dumps.
    #[serde(rename = "DedicatedVideoMemory", default)]
    pub(super) video: u64,
    /// Bytes of the system's memory that the GPU may use.
    #[serde(rename = "SharedSystemMemory", default)]
    pub(super) shared: u64,
    #[serde(rename = "UMA", default)]
    pub(super) uma: bool,
}

/// The most heaps, the most memory types and the most keys of pools. Vulkan has at most 32 of each.
const FEW: usize = 64;

/// A heap.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct HeapInfo {
    #[serde(deserialize_with = "flags")]
    pub(super) flags: Vec<Box<str>>,
    pub(super) size: u64,
    pub(super) budget: Option<Budget>,
    #[serde(rename = "MemoryPools")]
    pub(super) types: Pairs<TypeInfo, FEW>,
}

/// A memory type.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct TypeInfo {
    #[serde(deserialize_with = "flags")]
    pub(super) flags: Vec<Box<str>>,
}

impl HeapInfo {
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|found| **found == *flag)
    }
}

#[derive(serde::Deserialize)]
pub(super) struct Budget {
    #[serde(rename = "BudgetBytes")]
    pub(super) budget: u64,
    #[serde(rename = "UsageBytes")]
    pub(super) usage: u64,
}

/// A pool. Both lists are required, so that no shorter text makes one.
#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Pool {
    pub(super) name: Option<Box<str>>,
    pub(super) blocks: Pairs<Block>,
    #[serde(rename = "DedicatedAllocations", deserialize_with = "dedicated")]
    pub(super) dedicated: Vec<Suballocation>,
}

/// A block.
#[derive(serde::Deserialize)]
#[serde(try_from = "RawBlock")]
pub(super) struct Block {
    pub(super) size: u64,
    pub(super) allocations: u64,
    /// The ranges that are not free, in the order of the dump. None reaches beyond the block.
    pub(super) ranges: Vec<Suballocation>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawBlock {
    total_bytes: u64,
    allocations: Option<u64>,
    #[serde(deserialize_with = "used")]
    suballocations: Vec<Suballocation>,
}

impl TryFrom<RawBlock> for Block {
    type Error = &'static str;

    fn try_from(raw: RawBlock) -> Result<Self, &'static str> {
        let size = raw.total_bytes;
        let fits =
            |range: &Suballocation| range.offset.checked_add(range.size).is_some_and(|end| end <= size);
        if !raw.suballocations.iter().all(fits) {
            return Err("a suballocation reaches beyond its block");
        }
        let allocations = raw.allocations.unwrap_or(raw.suballocations.len() as u64);
        Ok(Self { size, allocations, ranges: raw.suballocations })
    }
}

/// A range of a block, or a dedicated allocation.
#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Suballocation {
    #[serde(default)]
    pub(super) offset: u64,
    pub(super) size: u64,
    #[serde(rename = "Type")]
    pub(super) kind: Kind,
    /// Required of a range that is not free, so that no shorter text makes one.
    pub(super) usage: Option<u64>,
    #[serde(default)]
    pub(super) layout: u8,
    pub(super) name: Option<Box<str>>,
    #[serde(default)]
    pub(super) custom_data: Option<Box<str>>,
}

impl Suballocation {
    /// Returns true for what this library's dumps write for padding. An allocation can look the same: only the counts
    /// of a block tell.
    pub(super) fn is_padding(&self) -> bool {
        self.kind == Kind::Unknown && self.usage == Some(0) && self.name.as_deref() == Some("padding")
    }
}

/// The type of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Free,
    Buffer,
    LinearImage,
    OptimalImage,
    /// Of Direct3D 12, whose layout says whether it is linear.
    Texture,
    Unknown,
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the type of a suballocation")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Kind, E> {
                Ok(match name {
                    "FREE" => Kind::Free,
                    "BUFFER" => Kind::Buffer,
                    "IMAGE_LINEAR" => Kind::LinearImage,
                    "IMAGE_OPTIMAL" => Kind::OptimalImage,
                    "TEXTURE1D" | "TEXTURE2D" | "TEXTURE3D" => Kind::Texture,
                    _ => Kind::Unknown,
                })
            }
        }

        deserializer.deserialize_str(Name)
    }
}

/// The ranges that are not free.
fn used<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Suballocation>, D::Error> {
    deserializer.deserialize_seq(Used)
}

struct Used;

impl<'de> Visitor<'de> for Used {
    type Value = Vec<Suballocation>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of suballocations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found: Vec<Suballocation> = Vec::new();
        while let Some(range) = list.next_element()? {
            let range: Suballocation = range;
            if range.kind != Kind::Free {
                if range.usage.is_none() {
                    return Err(Error::missing_field("Usage"));
                }
                found.push(range);
            }
        }
        Ok(found)
    }
}

fn dedicated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Suballocation>, D::Error> {
    let mut found = used(deserializer)?;
    // A dedicated allocation begins where its memory does, whatever else is written.
    found.iter_mut().for_each(|range| range.offset = 0);
    Ok(found)
}

/// The members of an object, in their order.
pub(super) struct Pairs<T, const MOST: usize = { usize::MAX }>(pub(super) Vec<(Box<str>, T)>);

impl<T, const MOST: usize> Default for Pairs<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Pairs<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Members<T, MOST> {
            type Value = Pairs<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    if found.len() == MOST {
                        return Err(Error::custom("an object has more members than any device has"));
                    }
                    found.push(pair);
                }
                Ok(Pairs(found))
            }
        }

        deserializer.deserialize_map(Members::<T, MOST>(PhantomData))
    }
}

/// The flags that have names. Those without are written as one number, which says nothing here.
fn flags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Box<str>>, D::Error> {
    struct Flag(Option<Box<str>>);

    impl<'de> Deserialize<'de> for Flag {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Any;

            impl Visitor<'_> for Any {
                type Value = Flag;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("the name of a flag, or a number")
                }

                fn visit_str<E: Error>(self, name: &str) -> Result<Flag, E> {
                    Ok(Flag(Some(name.into())))
                }

                fn visit_u64<E: Error>(self, _: u64) -> Result<Flag, E> {
                    Ok(Flag(None))
                }
            }

            deserializer.deserialize_any(Any)
        }
    }

    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = Vec<Box<str>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of flags")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some(Flag(name)) = list.next_element()? {
                found.extend(name);
            }
            Ok(found)
        }
    }

    deserializer.deserialize_seq(List)
}

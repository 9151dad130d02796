//! JSON dumps of VMA 2 and 3 (`vmaBuildStatsString` with the detailed map, `vmaBuildVirtualBlockStatsString`), of D3D12MA
//! (`BuildStatsString`) and of this library
//! ([`Reports::dump_json`](allotment::memory::reports::Reports::dump_json)): one moment becomes the events that lead to it.
//!
//! | in the dump | in that of VMA 2 | becomes |
//! |---|---|---|
//! | an entry of `DefaultPools`, of `CustomPools` | of `DefaultPools`, of `Pools` | a pool; custom ones can have a name |
//! | an entry of `Blocks`, of `DedicatedAllocations` | of `Blocks`, of `DedicatedAllocations` beside the pools | a block, shared or dedicated |
//! | a suballocation that is not `FREE` | the same | an allocation that was there before the recording began |
//! | its `Usage`, the API's flags | the same | its category, in words: `uniform buffer, transfer destination` |
//! | `Name`, `CustomData` | `UserData`, a text or a pointer | its name, its user data |
//! | `Budget` of a heap | the same, from 2.3 | a budget |
//! | `General`, `MemoryInfo` | `Heap 0` … | the header |
//! | `Details` of a virtual block | | one pool of one block |
//!
//! A dump does not say what was requested of an allocator, only what an allocation occupies, and only VMA 2 says which
//! algorithm a pool has. This library's dumps show padding as ranges of their own; it is counted to the allocation before
//! it. Direct3D 12 has no memory types: D3D12MA's heap types take their place, in the order of [`HEAP_TYPES`].
//!
//! # What is checked
//!
//! A dump says most of it twice. The ranges of a block lie side by side and cover it, and what `Total`, each heap, each
//! memory type and each block state of themselves is what was read of them: counts, bytes, the smallest and the largest.
//! A difference is told as what [contradicts](UnreadKind::Contradicts) itself, and a key, a type or a flag that is not
//! known as what was [not understood](UnreadKind::NotUnderstood).

mod heaps;
mod sums;

use std::collections::BTreeMap;

use allotment::device::MemoryTypeIndex;
use allotment::events::{Allocated, BlockId, BlockKind, Event, Placement, PoolId, TextId};
use allotment::{Algorithm, Alignment, ResourceKind};

use super::builder::Builder;
use super::json::{Fields, Json, cut_key};
use super::limits::Budget;
use super::source::Source;
use super::text::Document;
use super::{ImportError, ImportErrorKind};
use crate::recording::{Extent, Library, Recording, UnreadKind};
use crate::usage_flags;
use heaps::{Heaps, memory_type};
use sums::{Ranges, Sums};

/// Of the limit of memory, the part that text may have: it takes three times its size while it is read, and its values are
/// counted as they are.
pub(super) const TEXT_SHARE: u64 = 8;

const D3D12_TEXTURE_LAYOUT_ROW_MAJOR: u64 = 1;

pub(super) fn read(source: &mut Source<'_>, budget: &Budget) -> Result<Recording, ImportError> {
    let limits = budget.limits();
    source.limit(u64::min(limits.document_bytes, limits.memory_bytes / TEXT_SHARE));
    let whole = |kind| ImportError::new(None, kind);
    let document = Document::read(source, budget)?;
    let mended;
    let (document, tree) = match Json::parse(&document.text, budget) {
        Ok(tree) => (&document, tree),
        Err(error) => {
            mended = document.mended(budget).map_err(whole)?.ok_or(error)?;
            (&mended, Json::parse(&mended.text, budget)?)
        }
    };
    let mut builder = Builder::new(budget);
    builder.recording.header.extent = Extent::Moment;
    document.tell(&mut builder).map_err(whole)?;
    import(&tree, &mut builder).map_err(whole)?;
    Ok(builder.recording)
}

fn import(tree: &Json<'_>, builder: &mut Builder<'_>) -> Result<(), ImportErrorKind> {
    if tree.member("Details").is_some() || (tree.member("Stats").is_some() && tree.member("Total").is_none())
    {
        return virtual_block(tree, builder);
    }
    let mut top = Fields::new(tree, "the dump");
    let (general, total, info) = (top.group("General"), top.group("Total"), top.group("MemoryInfo"));
    let (default, custom) = (top.group("DefaultPools"), top.group("CustomPools"));
    // In VMA 2, these are beside the default pools.
    let (pools, dedicated) = (top.group("Pools"), top.group("DedicatedAllocations"));
    let mut heaps: Vec<(&str, &Json<'_>)> = info.into_iter().flat_map(Json::entries).collect();
    top.rest(builder, |key, value| {
        let is_heap = key.starts_with("Heap ");
        if is_heap {
            heaps.push((key, value));
        }
        is_heap
    })?;
    if general.is_none() && total.is_none() && heaps.is_empty() {
        return Err(ImportErrorKind::UnknownFormat);
    }
    let heaps = Heaps::read(general, &heaps, builder)?;
    if default.is_none() && custom.is_none() && pools.is_none() && dedicated.is_none() {
        without_details(total)?;
    }
    let own = builder.recording.header.library == Library::Allotment;
    let mut dump = Dump { builder, own, pools: 0, by_type: BTreeMap::new(), custom: BTreeMap::new() };
    dump.default_pools(default, dedicated)?;
    for (key, of_type) in custom.into_iter().flat_map(Json::entries) {
        for pool in of_type.list() {
            let name = pool_name(text_of(pool, "Name"));
            dump.pool(Some(key), name, true, pool, pool.member("DedicatedAllocations"))?;
        }
        if !matches!(of_type, Json::List(_)) {
            dump.not_understood("the custom pools of a memory type are no list")?;
        }
    }
    for (_, pool) in pools.into_iter().flat_map(Json::entries) {
        dump.pool(None, text_of(pool, "Name"), true, pool, None)?;
    }
    let (by_type, custom_by_type) = (dump.by_type, dump.custom);
    if let Some(stated) = total {
        let mut all = Sums::default();
        by_type.values().for_each(|sums| all.add(*sums));
        all.compare(stated, "in total", builder)?;
    }
    heaps.finish(&by_type, &custom_by_type, builder)
}

/// Refuses a dump that has statistics alone, unless nothing is allocated: then VMA 2 writes no more than those.
fn without_details(total: Option<&Json<'_>>) -> Result<(), ImportErrorKind> {
    let sum = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| total?.member(key));
        if let Some(Json::Number(sum)) = found { Some(*sum) } else { None }
    };
    let blocks = sum(&["Blocks", "BlockCount"]);
    if blocks == Some(0) {
        return Ok(());
    }
    let (used, unused) = (sum(&["UsedBytes", "AllocationBytes"]), sum(&["UnusedBytes"]));
    Err(ImportErrorKind::DumpWithoutDetails {
        blocks: blocks.unwrap_or(0),
        block_bytes: sum(&["BlockBytes"])
            .unwrap_or_else(|| used.unwrap_or(0).saturating_add(unused.unwrap_or(0))),
        allocations: sum(&["Allocations", "AllocationCount"]).unwrap_or(0),
        allocation_bytes: used.unwrap_or(0),
    })
}

/// Imports the dump of one virtual block, whose sizes have whatever unit the program chose.
fn virtual_block(tree: &Json<'_>, builder: &mut Builder<'_>) -> Result<(), ImportErrorKind> {
    let mut top = Fields::new(tree, "the dump");
    let (stated, details) = (top.group("Stats"), top.group("Details"));
    top.end(builder)?;
    let Some(details) = details else { return without_details(stated) };
    // D3D12MA writes the number of the program, and VMA its pointer.
    let ranges = details.member("Suballocations").map_or(&[][..], Json::list);
    let of_d3d12 = ranges.iter().any(|range| matches!(range.member("CustomData"), Some(Json::Number(_))));
    builder.recording.header.library = if of_d3d12 { Library::D3d12MemoryAllocator } else { Library::Vma };
    builder.recording.header.producer = "a JSON dump of a virtual block".to_owned();
    builder.setting("virtual block", "of no memory: its sizes have the unit that the program chose");
    let name = builder.text("virtual block")?;
    let pool = PoolId(0);
    builder.push(Event::PoolCreated { pool, name, algorithm: None, custom: true })?;
    let mut dump = Dump { builder, own: false, pools: 1, by_type: BTreeMap::new(), custom: BTreeMap::new() };
    let sums = dump.block(pool, MemoryTypeIndex(0), details, "of the virtual block")?;
    match stated {
        Some(stated) => sums.compare(stated, "of the virtual block", builder),
        None => Ok(()),
    }
}

/// The dump while its pools are read.
struct Dump<'d, 'b> {
    builder: &'d mut Builder<'b>,
    /// It is one of this library, which shows padding.
    own: bool,
    pools: u32,
    by_type: BTreeMap<u8, Sums>,
    /// Of those, what is in custom pools.
    custom: BTreeMap<u8, Sums>,
}

/// A range of a block, or a dedicated allocation.
struct Range<'j> {
    offset: u64,
    size: u64,
    kind: Kind,
    usage: u64,
    name: &'j str,
    user_data: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Free,
    Used(ResourceKind),
}

impl Range<'_> {
    /// Returns true for what this library's dumps write for padding. An allocation can look the same: only the counts
    /// of a block tell.
    fn is_padding(&self) -> bool {
        self.kind == Kind::Used(ResourceKind::Unknown) && self.usage == 0 && self.name == "padding"
    }
}

impl Dump<'_, '_> {
    fn not_understood(&mut self, text: &str) -> Result<(), ImportErrorKind> {
        self.builder.unread(UnreadKind::NotUnderstood, 1, text)
    }

    fn contradicts(&mut self, text: &str) -> Result<(), ImportErrorKind> {
        self.builder.unread(UnreadKind::Contradicts, 1, text)
    }

    /// Reads the default pools, and the dedicated allocations that VMA 2 has beside them.
    fn default_pools(
        &mut self,
        default: Option<&Json<'_>>,
        dedicated: Option<&Json<'_>>,
    ) -> Result<(), ImportErrorKind> {
        // Heap tier 1 has three pools for each heap type, and D3D12MA writes the dedicated allocations of the heap type
        // with each of them.
        let mut of_heap_type: Option<(&str, &Json<'_>)> = None;
        for (key, pool) in default.into_iter().flat_map(Json::entries) {
            let mut own = pool.member("DedicatedAllocations");
            let mut name = "";
            if let Some((heap_type, _)) = key.split_once(" - ") {
                name = key;
                match (of_heap_type, own) {
                    (Some((known, list)), Some(same)) if known == heap_type && list == same => own = None,
                    (_, Some(list)) if !list.list().is_empty() => of_heap_type = Some((heap_type, list)),
                    _ => {}
                }
            }
            if own.is_none() {
                own = dedicated.and_then(|all| all.member(key));
            }
            self.pool(Some(key), name, false, pool, own)?;
        }
        for (key, list) in dedicated.into_iter().flat_map(Json::entries) {
            if default.is_none_or(|default| default.member(key).is_none()) {
                self.pool(Some(key), "", false, &Json::Null, Some(list))?;
            }
        }
        Ok(())
    }

    /// Reads a pool. `key` is its memory type; without one, the pool says it itself, as in VMA 2.
    fn pool(
        &mut self,
        key: Option<&str>,
        name: &str,
        custom: bool,
        pool: &Json<'_>,
        dedicated: Option<&Json<'_>>,
    ) -> Result<(), ImportErrorKind> {
        let mut fields = Fields::new(pool, "a pool");
        let blocks = fields.group("Blocks");
        let index = fields.number("MemoryTypeIndex").and_then(|index| u8::try_from(index).ok());
        let flags = fields.group("Flags");
        let counts = fields.group("BlockCount");
        let linear = fields.flag("LinearAlgorithm");
        let algorithm = match (linear, fields.text("Algorithm")) {
            (Some(true), _) | (_, Some("Linear")) => Some(Algorithm::Linear),
            (_, Some("Buddy")) => Some(Algorithm::Buddy),
            (_, None | Some("Default")) => None,
            (_, Some(other)) => {
                self.not_understood(&format!("algorithm `{}` of a pool is not known", cut_key(other)))?;
                None
            }
        };
        fields.skip(&["Name", "PreferredBlockSize", "BlockSize", "FrameInUseCount", "DedicatedAllocations"]);
        fields.end(self.builder)?;
        let found = match key {
            Some(key) => memory_type(key),
            None => index.filter(|&index| index < 32).map(MemoryTypeIndex),
        };
        let Some(memory_type) = found else {
            let key = cut_key(key.unwrap_or("none"));
            return self.not_understood(&format!(
                "`{key}` is neither a memory type nor a heap type, and its pool is left out"
            ));
        };
        heaps::known_flags(flags, &heaps::POOL_FLAGS, "a pool", self.builder)?;

        let id = PoolId(self.pools);
        self.pools += 1;
        let name = self.builder.text(name)?;
        self.builder.push(Event::PoolCreated { pool: id, name, algorithm, custom })?;
        let mut sums = Sums::default();
        for (number, (key, block)) in blocks.into_iter().flat_map(Json::entries).enumerate() {
            let number = number.to_string();
            let key = if key.is_empty() { &number } else { key };
            let whose = format!("of block {} of pool {}", cut_key(key), id.0);
            sums.add(self.block(id, memory_type, block, &whose)?);
        }
        if let Some(counts) = counts {
            let mut fields = Fields::new(counts, "the number of blocks");
            fields.skip(&["Min", "Max"]);
            if let Some(stated) = fields.number("Cur") {
                self.builder.differ("BlockCount.Cur", &format!("of pool {}", id.0), stated, sums.blocks)?;
            }
            fields.end(self.builder)?;
        }
        for found in dedicated.map_or(&[][..], Json::list) {
            let Some(range) = self.range(found, "a dedicated allocation")? else { continue };
            let block = self.builder.new_block();
            let (kind, size) = (BlockKind::Dedicated, range.size);
            self.builder.push(Event::BlockAllocated { block, pool: id, memory_type, kind, size })?;
            // It begins where its memory does, whatever else is written.
            self.allocation(block, &Range { offset: 0, ..range }, size)?;
            sums.add(Sums::dedicated(size));
        }
        self.by_type.entry(memory_type.0).or_default().add(sums);
        if custom {
            self.custom.entry(memory_type.0).or_default().add(sums);
        }
        Ok(())
    }

    /// Reads a block, and returns its sums.
    fn block(
        &mut self,
        pool: PoolId,
        memory_type: MemoryTypeIndex,
        block: &Json<'_>,
        whose: &str,
    ) -> Result<Sums, ImportErrorKind> {
        let mut fields = Fields::new(block, "a block");
        let (size, unused) = (fields.number("TotalBytes"), fields.number("UnusedBytes"));
        let (allocations, unused_ranges) = (fields.number("Allocations"), fields.number("UnusedRanges"));
        let list = fields.group("Suballocations").map_or(&[][..], Json::list);
        fields.skip(&["MapRefCount"]);
        fields.end(self.builder)?;
        let Some(size) = size else {
            self.contradicts(&format!("a block has no size, and is left out: that {whose}"))?;
            return Ok(Sums::default());
        };

        let bytes = size_of_val(list) / size_of::<Json<'_>>() * size_of::<Range<'_>>();
        self.builder.budget.charge(bytes)?;
        let mut ranges = Vec::with_capacity(list.len());
        for found in list {
            ranges.extend(self.range(found, "an allocation")?);
        }
        if !ranges.is_sorted_by_key(|range| range.offset) {
            ranges.sort_by_key(|range| range.offset);
        }
        let id = self.builder.new_block();
        let kind = BlockKind::Shared;
        self.builder.push(Event::BlockAllocated { block: id, pool, memory_type, kind, size })?;
        let sums = self.ranges(id, size, &ranges, allocations, whose)?;
        self.builder.budget.refund(bytes);
        for (key, stated, read) in [
            ("UnusedBytes", unused, sums.free.bytes),
            ("Allocations", allocations, sums.used.count),
            ("UnusedRanges", unused_ranges, sums.free.count),
        ] {
            if let Some(stated) = stated {
                self.builder.differ(key, whose, stated, read)?;
            }
        }
        Ok(sums)
    }

    /// Reads the ranges of a block, by offset. They lie side by side and cover it; those that do not are left out.
    fn ranges(
        &mut self,
        block: BlockId,
        size: u64,
        ranges: &[Range<'_>],
        allocations: Option<u64>,
        whose: &str,
    ) -> Result<Sums, ImportErrorKind> {
        let mut sums = Sums { blocks: 1, block_bytes: size, ..Sums::default() };
        // Our own dumps show padding as what looks like allocations, which the count does not include.
        let used = ranges.iter().filter(|range| range.kind != Kind::Free).count() as u64;
        let padding = if self.own { used.saturating_sub(allocations.unwrap_or(used)) } else { 0 };
        let (mut padding, mut covered, mut uncovered) = (padding, 0, 0);
        let mut ranges = ranges.iter().peekable();
        while let Some(range) = ranges.next() {
            let Some(end) = range.offset.checked_add(range.size).filter(|&end| end <= size) else {
                self.contradicts(&format!("a range reaches beyond its block, and is left out: one {whose}"))?;
                continue;
            };
            if range.offset < covered {
                self.contradicts(&format!("ranges overlap, and one is left out: {whose}"))?;
                continue;
            }
            uncovered += range.offset - covered;
            covered = end;
            if range.kind == Kind::Free {
                sums.free.add(Ranges::of(range.size));
                continue;
            }
            if padding > 0 && range.is_padding() {
                padding -= 1;
                continue;
            }
            sums.used.add(Ranges::of(range.size));
            while padding > 0 {
                let Some(next) = ranges.peek().filter(|next| next.is_padding() && next.offset == covered)
                else {
                    break;
                };
                let Some(end) = covered.checked_add(next.size).filter(|&end| end <= size) else { break };
                covered = end;
                padding -= 1;
                ranges.next();
            }
            self.allocation(block, range, covered - range.offset)?;
        }
        uncovered += size - covered;
        if uncovered > 0 {
            self.contradicts(&format!("{uncovered} bytes {whose} are in no range"))?;
        }
        Ok(sums)
    }

    /// Reads a range. `None` of one that has no size.
    fn range<'j>(
        &mut self,
        found: &'j Json<'_>,
        what: &'static str,
    ) -> Result<Option<Range<'j>>, ImportErrorKind> {
        let mut fields = Fields::new(found, what);
        let (offset, size) = (fields.number("Offset").unwrap_or(0), fields.number("Size"));
        // Allocations of virtual blocks have no type.
        let kind = fields.text("Type").unwrap_or("UNKNOWN");
        let linear = fields.number("Layout") == Some(D3D12_TEXTURE_LAYOUT_ROW_MAJOR);
        let usage = fields.number("Usage").unwrap_or(0);
        let mut name = fields.text("Name").unwrap_or_default();
        let mut user_data = 0;
        match fields.take("CustomData") {
            Some(Json::Number(number)) => user_data = *number,
            Some(Json::Text(text)) => match pointer(text) {
                Some(number) => user_data = number,
                None => name = text,
            },
            Some(_) => self.not_understood("`CustomData` is neither a number nor a text")?,
            None => {}
        }
        // A text is a copy that VMA 2 keeps for the program: it is its name.
        if let Some(text) = fields.text("UserData") {
            match pointer(text).filter(|_| is_printed_pointer(text)) {
                Some(number) => user_data = number,
                None => name = text,
            }
        }
        fields.skip(&["CreationFrameIndex", "LastUseFrameIndex"]);
        fields.end(self.builder)?;
        let kind = match kind {
            "FREE" => Kind::Free,
            "BUFFER" => Kind::Used(ResourceKind::Buffer),
            "IMAGE_LINEAR" => Kind::Used(ResourceKind::LinearImage),
            "IMAGE_OPTIMAL" => Kind::Used(ResourceKind::OptimalImage),
            "TEXTURE1D" | "TEXTURE2D" | "TEXTURE3D" if linear => Kind::Used(ResourceKind::LinearImage),
            "TEXTURE1D" | "TEXTURE2D" | "TEXTURE3D" => Kind::Used(ResourceKind::OptimalImage),
            "UNKNOWN" | "IMAGE_UNKNOWN" => Kind::Used(ResourceKind::Unknown),
            other => {
                self.not_understood(&format!("type `{}` of {what} is not known", cut_key(other)))?;
                Kind::Used(ResourceKind::Unknown)
            }
        };
        let Some(size) = size else {
            self.contradicts(&format!("{what} has no size, and is left out"))?;
            return Ok(None);
        };
        Ok(Some(Range { offset, size, kind, usage, name, user_data }))
    }

    fn allocation(
        &mut self,
        block: BlockId,
        range: &Range<'_>,
        occupied: u64,
    ) -> Result<(), ImportErrorKind> {
        let builder = &mut *self.builder;
        let name = builder.text(range.name)?;
        let kind = if let Kind::Used(kind) = range.kind { kind } else { ResourceKind::Unknown };
        let category = match range.usage {
            0 => TextId::NONE,
            usage => builder.text(&usage_flags::to_text(builder.recording.header.api, kind, usage))?,
        };
        let allocation = builder.new_allocation();
        builder.push(Event::Allocated(Allocated {
            allocation,
            block,
            offset: range.offset,
            requested: range.size,
            occupied,
            user_data: range.user_data,
            name,
            category,
            alignment: Alignment::ONE,
            usage: None,
            kind,
            placement: Placement::Existing,
            second_choice: false,
            movable: false,
        }))
    }
}

/// Returns the number of a pointer in hexadecimal digits.
fn pointer(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Returns true for what C prints of a pointer: `0x5581` on Linux, `000000000000BEEF` on Windows. A name can be `beef`.
fn is_printed_pointer(text: &str) -> bool {
    let all = |digits: &str| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    text.starts_with("0x") || (matches!(text.len(), 8 | 16) && all(text))
}

fn text_of<'j>(object: &'j Json<'_>, key: &str) -> &'j str {
    if let Some(Json::Text(text)) = object.member(key) { text } else { "" }
}

/// Returns the name of a custom pool without the number that dumps put before it: `0 - frames`, or `0` where it has no
/// name. Exports number the pools again.
fn pool_name(name: &str) -> &str {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    match name.split_at(digits) {
        ("", name) => name,
        (_, "") => "",
        (_, rest) => rest.strip_prefix(" - ").unwrap_or(name),
    }
}

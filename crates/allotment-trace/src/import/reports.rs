//! Reports of gpu-allocator (`generate_report`) and wgpu (`Device::generate_allocator_report`), which have no form in a file:
//! this is that of their structures in JSON, under the name of the library.
//!
//! ```json
//! {"gpu-allocator": {
//!     "total_allocated_bytes": 4096, "total_capacity_bytes": 65536,
//!     "blocks": [{"size": 65536, "allocations": [0, 1]}],
//!     "allocations": [{"name": "mesh", "offset": 0, "size": 4096}]
//! }}
//! ```
//!
//! `"wgpu"` is the other name. `total_reserved_bytes` is an older name of `total_capacity_bytes`, and the range of a block's
//! allocations may be `{"start": 0, "end": 1}`, as `serde` writes it.
//!
//! A report says neither the memory type of a block nor the API, and there is one pool. Blocks of one allocation that fills
//! them are dedicated.

use allotment::device::MemoryTypeIndex;
use allotment::events::{Allocated, BlockKind, Event, Placement, PoolId, TextId};
use allotment::{Alignment, ResourceKind};

use super::builder::Builder;
use super::json::{Fields, Json};
use super::limits::Budget;
use super::source::Source;
use super::text::Document;
use super::{ImportError, ImportErrorKind};
use crate::recording::{Extent, Library, Recording, UnreadKind};

/// The names of the libraries, as the one key of a report.
pub(super) const NAMES: [(&str, Library); 2] =
    [("gpu-allocator", Library::GpuAllocator), ("wgpu", Library::Wgpu)];

pub(super) fn read(source: &mut Source<'_>, budget: &Budget) -> Result<Recording, ImportError> {
    let limits = budget.limits();
    source.limit(u64::min(limits.document_bytes, limits.memory_bytes / super::vma::TEXT_SHARE));
    let whole = |kind| ImportError::new(None, kind);
    let document = Document::read(source, budget)?;
    let tree = Json::parse(&document.text, budget)?;
    let mut builder = Builder::new(budget);
    document.tell(&mut builder).map_err(whole)?;
    import(&tree, &mut builder).map_err(whole)?;
    Ok(builder.recording)
}

/// An allocation of a report.
struct Allocation<'j> {
    name: &'j str,
    offset: u64,
    size: u64,
}

fn import(tree: &Json<'_>, builder: &mut Builder<'_>) -> Result<(), ImportErrorKind> {
    let mut top = Fields::new(tree, "the file");
    let found = NAMES.iter().find_map(|(name, library)| Some((*name, *library, top.group(name)?)));
    let Some((name, library, report)) = found else {
        return Err(ImportErrorKind::Invalid { what: "the report of an allocator is no object" });
    };
    top.end(builder)?;
    let header = &mut builder.recording.header;
    (header.library, header.extent) = (library, Extent::Moment);
    header.producer = format!("a report of {name}");
    (header.buffer_image_granularity, header.non_coherent_atom_size) = (1, 1);

    let mut fields = Fields::new(report, "the report");
    let allocated = fields.number("total_allocated_bytes");
    let capacity = fields.number("total_capacity_bytes");
    let capacity = fields.number("total_reserved_bytes").or(capacity);
    let blocks = fields.group("blocks").map_or(&[][..], Json::list);
    let allocations = fields.group("allocations").map_or(&[][..], Json::list);
    fields.end(builder)?;

    let pool = PoolId(0);
    builder.push(Event::PoolCreated { pool, name: TextId::NONE, algorithm: None, custom: false })?;
    let (mut block_bytes, mut allocation_bytes, mut read) = (0_u64, 0_u64, 0_u64);
    for block in blocks {
        let mut fields = Fields::new(block, "a block");
        let size = fields.number("size");
        let range = fields.group("allocations").and_then(range);
        fields.end(builder)?;
        let (Some(size), Some((first, end))) = (size, range) else {
            let text = "a block has no size or no range of allocations, and is left out";
            builder.unread(UnreadKind::NotUnderstood, 1, text)?;
            continue;
        };
        let Some(of_block) = allocations.get(first..end) else {
            let text = "a block has more allocations than the report, and is left out";
            builder.unread(UnreadKind::Contradicts, 1, text)?;
            continue;
        };
        let mut found = Vec::new();
        for allocation in of_block {
            builder.budget.work(1)?;
            let mut fields = Fields::new(allocation, "an allocation");
            let name = fields.text("name").unwrap_or_default();
            let (offset, size) = (fields.number("offset"), fields.number("size"));
            fields.end(builder)?;
            match (offset, size) {
                (Some(offset), Some(size)) => found.push(Allocation { name, offset, size }),
                _ => builder.unread(
                    UnreadKind::NotUnderstood,
                    1,
                    "an allocation has no offset or no size, and is left out",
                )?,
            }
        }
        found.sort_by_key(|allocation| allocation.offset);
        let dedicated = matches!(&*found, [only] if only.size == size);
        let kind = if dedicated { BlockKind::Dedicated } else { BlockKind::Shared };
        let id = builder.new_block();
        let memory_type = MemoryTypeIndex(0);
        builder.push(Event::BlockAllocated { block: id, pool, memory_type, kind, size })?;
        block_bytes = block_bytes.saturating_add(size);
        let mut covered = 0;
        for Allocation { name, offset, size: bytes } in found {
            let end = offset.checked_add(bytes).filter(|&end| end <= size);
            let Some(end) = end.filter(|_| offset >= covered) else {
                let text = "allocations overlap or reach beyond their block, and are left out";
                builder.unread(UnreadKind::Contradicts, 1, text)?;
                continue;
            };
            covered = end;
            (allocation_bytes, read) = (allocation_bytes.saturating_add(bytes), read + 1);
            let name = builder.text(name)?;
            let allocation = builder.new_allocation();
            builder.push(Event::Allocated(Allocated {
                allocation,
                block: id,
                offset,
                requested: bytes,
                occupied: bytes,
                user_data: 0,
                name,
                category: TextId::NONE,
                alignment: Alignment::ONE,
                usage: None,
                kind: ResourceKind::Unknown,
                placement: Placement::Existing,
                second_choice: false,
                movable: false,
            }))?;
        }
    }
    builder.differ("allocations", "of the report", allocations.len() as u64, read)?;
    if let Some(stated) = allocated {
        builder.differ("total_allocated_bytes", "of the report", stated, allocation_bytes)?;
    }
    if let Some(stated) = capacity {
        builder.differ("total_capacity_bytes", "of the report", stated, block_bytes)?;
    }
    Ok(())
}

/// Returns the range of a list that a block says is its own: `[0, 1]`, or `{"start": 0, "end": 1}`.
fn range(value: &Json<'_>) -> Option<(usize, usize)> {
    let (first, end) = match value {
        Json::List(list) => (list.first()?, list.get(1)?),
        _ => (value.member("start")?, value.member("end")?),
    };
    match (first, end) {
        (Json::Number(first), Json::Number(end)) => {
            Some(((*first).try_into().ok()?, (*end).try_into().ok()?))
        }
        _ => None,
    }
}

//! Numbers and names as people read them: the words are those of the HTML report.

use allotment::Algorithm;
use allotment::device::MemoryTypeIndex;
use allotment::memory::MemoryUsage;
pub(crate) use allotment_analyze::tables::kind;
pub(crate) use allotment_analyze::units::{bytes, count, duration, percent, plural, signed_bytes as signed};
use allotment_analyze::{AllocationIndex, BlockIndex, Timeline};
use allotment_trace::recording::Moment;

use crate::loaded::Loaded;

/// Bytes, exactly.
pub(crate) fn exact(bytes: u64) -> String {
    format!("{} B", count(bytes))
}

pub(crate) fn hex(offset: u64) -> String {
    format!("0x{offset:x}")
}

/// A moment in words.
pub(crate) fn moment(timeline: &Timeline<'_>, moment: Moment) -> String {
    timeline.when(moment)
}

/// Two events between which something exists.
pub(crate) fn life(timeline: &Timeline<'_>, began: u64, ended: Option<u64>) -> String {
    let when = |event| moment(timeline, timeline.moment(event));
    let end = ended.map_or_else(|| "the end".to_owned(), when);
    format!("{} to {end}", sentence(&when(began)))
}

/// The name of an allocation, as the recording has it last.
pub(crate) fn name<'a>(timeline: &Timeline<'a>, allocation: AllocationIndex) -> &'a str {
    let name = timeline.recording().text(timeline.texts(allocation).name).unwrap_or("");
    if name.is_empty() { "(no name)" } else { name }
}

/// A block: the number that the events know it by.
pub(crate) fn block(timeline: &Timeline<'_>, block: BlockIndex) -> String {
    format!("#{}", timeline.block_info(block).id)
}

pub(crate) const fn usage(usage: MemoryUsage) -> &'static str {
    match usage {
        MemoryUsage::GpuOnly => "GPU only",
        MemoryUsage::Upload => "upload",
        MemoryUsage::Readback => "readback",
        MemoryUsage::DeviceUpload => "device upload",
        MemoryUsage::Transient => "transient",
        MemoryUsage::DeviceMapped => "device mapped",
    }
}

pub(crate) fn algorithm(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Tlsf => "TLSF",
        Algorithm::Buddy => "buddy",
        Algorithm::Linear => "linear",
    }
    .to_owned()
}

/// The pool of a block, and its algorithm.
pub(crate) fn pool(loaded: &Loaded, block: BlockIndex) -> String {
    let timeline = loaded.timeline();
    let Some(pool) = timeline.block_info(block).pool else { return "no pool".to_owned() };
    let is = timeline.pool_info(pool).and_then(|(_, is)| is.algorithm);
    let algorithm = is.map_or_else(String::new, |is| format!(", {}", algorithm(is)));
    format!("{}{algorithm}", timeline.pool_label(pool))
}

/// A memory type with its properties and its heap.
pub(crate) fn memory_type(loaded: &Loaded, memory_type: MemoryTypeIndex) -> String {
    let index = memory_type.get();
    match loaded.recording().header.memory_types.get(index) {
        Some(known) => {
            let properties = allotment::device::MemoryProperties::from_bits_truncate(known.properties);
            format!("type {index}, {}, heap {}", properties.to_string().to_lowercase(), known.heap)
        }
        None => format!("type {index}"),
    }
}

/// A heap with its size.
pub(crate) fn heap(loaded: &Loaded, heap: u8) -> String {
    match loaded.recording().header.heaps.get(usize::from(heap)) {
        Some(known) => {
            let whose = if known.device_local { "GPU" } else { "system" };
            let size = if known.size > 0 { format!(", {}", bytes(known.size)) } else { String::new() };
            format!("heap {heap}, {whose}{size}")
        }
        None => format!("heap {heap}"),
    }
}

/// A sentence begins with a capital.
pub(crate) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

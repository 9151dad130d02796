//! The settings of an allocator as texts of a recording, and back.

use core::fmt::Display;
use core::str::FromStr;

use allotment::Algorithm;
use allotment::device::{MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask};
use allotment::memory::AllocatorDesc;
use allotment::memory::blocks::{BlockGrowth, BlockSizes, Watermark};

/// Returns the settings of an allocator that decide where allocations are, as recordings name them.
/// [`desc_of_settings`] is the way back.
#[must_use]
pub fn allocator_settings(desc: &AllocatorDesc) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut add = |name: &str, value: &dyn Display| settings.push((name.to_owned(), value.to_string()));
    add("algorithm", &desc.algorithm);
    let mut sizes = desc.block_sizes;
    for (name, value) in block_sizes(&mut sizes) {
        add(name, value);
    }
    for (at, (memory_type, sizes)) in desc.block_sizes_of_types.iter().enumerate() {
        if desc.block_sizes_of_types[..at].iter().any(|(index, _)| index == memory_type) {
            continue; // the first entry counts
        }
        for (name, value) in block_sizes(&mut sizes.clone()) {
            add(&format!("{TYPE}{memory_type}: {name}"), value);
        }
    }
    add("shards", &desc.threads);
    add("memory types", &format_args!("{:#x}", desc.memory_types.0));
    add("empty blocks freed after frames", &desc.empty_blocks.frames);
    add("empty bytes kept", &desc.empty_blocks.kept_bytes);
    add("empty bytes kept, divisor", &desc.empty_blocks.kept_divisor);
    if !desc.empty_blocks.keeps_peak {
        add(PEAK, &false);
    }
    if let BlockGrowth::Ahead(room) = desc.block_growth {
        add("room ahead, bytes", &room.bytes);
        add("room ahead, block divisor", &room.block_divisor);
        add("room ahead, frames", &room.frames);
    }
    for (heap, bytes) in &desc.heap_limits {
        add(&format!("{LIMIT}{heap}"), bytes);
    }
    settings
}

const LIMIT: &str = "limit of heap ";

const PEAK: &str = "peak usage kept";

const TYPE: &str = "memory type ";

fn block_sizes(sizes: &mut BlockSizes) -> [(&'static str, &mut u64); 4] {
    [
        ("smallest block", &mut sizes.smallest),
        ("largest block", &mut sizes.largest),
        ("growth divisor", &mut sizes.growth_divisor),
        ("dedicated threshold divisor", &mut sizes.dedicated_threshold_divisor),
    ]
}

/// Returns the description of an allocator with the settings of a recording. What they do not say is as by default, and
/// what they say and this version does not know is left out.
///
/// ```
/// use allotment::memory::AllocatorDesc;
/// use allotment_trace::{allocator_settings, desc_of_settings};
///
/// let mut desc = AllocatorDesc::default();
/// desc.block_sizes.largest = 64 << 20; // bytes
/// assert_eq!(desc_of_settings(&allocator_settings(&desc)).block_sizes, desc.block_sizes);
/// ```
#[must_use]
pub fn desc_of_settings(settings: &[(String, String)]) -> AllocatorDesc {
    let mut desc = AllocatorDesc::default();
    let mut room = None;
    for (name, value) in settings {
        match of_type(name) {
            None => read_sizes(name, value, &mut desc.block_sizes),
            Some((memory_type, name)) => {
                let all = &mut desc.block_sizes_of_types;
                let at = all.iter().position(|(index, _)| *index == memory_type).unwrap_or_else(|| {
                    all.push((memory_type, BlockSizes::default()));
                    all.len() - 1
                });
                read_sizes(name, value, &mut all[at].1);
            }
        }
        let ahead: &mut Watermark = match name.strip_prefix("room ahead") {
            Some(_) => room.get_or_insert_with(Watermark::default),
            None => &mut Watermark::default(),
        };
        match name.as_str() {
            "algorithm" => {
                let named = Algorithm::ALL.into_iter().find(|algorithm| algorithm.to_string() == *value);
                desc.algorithm = named.unwrap_or(desc.algorithm);
            }
            "shards" => read(value, &mut desc.threads),
            "memory types" => {
                let digits = value.strip_prefix("0x").unwrap_or(value);
                desc.memory_types = u32::from_str_radix(digits, 16).map_or(desc.memory_types, MemoryTypeMask);
            }
            "empty blocks freed after frames" => read(value, &mut desc.empty_blocks.frames),
            "empty bytes kept" => read(value, &mut desc.empty_blocks.kept_bytes),
            "empty bytes kept, divisor" => read(value, &mut desc.empty_blocks.kept_divisor),
            PEAK => read(value, &mut desc.empty_blocks.keeps_peak),
            "room ahead, bytes" => read(value, &mut ahead.bytes),
            "room ahead, block divisor" => read(value, &mut ahead.block_divisor),
            "room ahead, frames" => read(value, &mut ahead.frames),
            _ => {
                let heap = name.strip_prefix(LIMIT).and_then(|heap| heap.parse().ok());
                if let (Some(heap), Ok(bytes)) = (heap, value.parse()) {
                    desc.heap_limits.push((MemoryHeapIndex(heap), bytes));
                }
            }
        }
    }
    if let Some(room) = room {
        desc.block_growth = BlockGrowth::Ahead(room);
    }
    desc
}

/// Returns the memory type that a setting is of, and the rest of the setting's name.
fn of_type(name: &str) -> Option<(MemoryTypeIndex, &str)> {
    let (memory_type, name) = name.strip_prefix(TYPE)?.split_once(": ")?;
    Some((MemoryTypeIndex(memory_type.parse().ok()?), name))
}

fn read_sizes(name: &str, value: &str, sizes: &mut BlockSizes) {
    for (of, size) in block_sizes(sizes) {
        if of == name {
            read(value, size);
        }
    }
}

fn read<T: FromStr>(value: &str, into: &mut T) {
    if let Ok(value) = value.parse() {
        *into = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_went() {
        let mut desc = AllocatorDesc::default();
        desc.algorithm = Algorithm::Buddy;
        (desc.block_sizes.smallest, desc.block_sizes.largest) = (1 << 20, 2 << 30);
        (desc.block_sizes.growth_divisor, desc.block_sizes.dedicated_threshold_divisor) = (7, 3);
        let mut small = BlockSizes::fixed(1 << 16);
        small.growth_divisor = 5;
        desc.block_sizes_of_types =
            vec![(MemoryTypeIndex(4), small), (MemoryTypeIndex(31), desc.block_sizes)];
        (desc.threads, desc.memory_types) = (5, MemoryTypeMask(0b1011));
        desc.empty_blocks.frames = 9;
        (desc.empty_blocks.kept_bytes, desc.empty_blocks.kept_divisor) = (12345, 6);
        desc.empty_blocks.keeps_peak = false;
        let mut room = Watermark::default();
        (room.bytes, room.block_divisor, room.frames) = (1, 2, 3);
        desc.block_growth = BlockGrowth::Ahead(room);
        desc.heap_limits = vec![(MemoryHeapIndex(0), 99), (MemoryHeapIndex(3), 1 << 40)];
        let settings = allocator_settings(&desc);
        let back = desc_of_settings(&settings);
        assert_eq!(allocator_settings(&back), settings);
        assert_eq!((back.algorithm, back.threads, back.memory_types), (desc.algorithm, 5, desc.memory_types));
        assert_eq!((back.block_sizes, back.empty_blocks), (desc.block_sizes, desc.empty_blocks));
        assert_eq!(back.block_sizes_of_types, desc.block_sizes_of_types);
        assert_eq!((back.block_growth, back.heap_limits), (desc.block_growth, desc.heap_limits));
    }

    #[test]
    fn settings_of_another_version_are_left_out() {
        let settings =
            [("algorithm", "of tomorrow"), ("colour", "red"), ("shards", "many"), ("limit of heap x", "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let desc = desc_of_settings(&settings);
        assert_eq!(allocator_settings(&desc), allocator_settings(&AllocatorDesc::default()));
    }
}

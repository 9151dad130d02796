//! The header as bytes.

use super::bytes::{Input, Wrong, put_number, put_text};
use super::codes;
use crate::recording::{Extent, Header, Heap, Library, MemoryType};

/// The most heaps, memory types and settings. A memory type of an event is a byte.
const MAX_COUNT: u64 = 256;

/// The most bytes of a text of the header. A writer cuts longer ones.
const MAX_HEADER_TEXT: usize = 64 << 10;

pub(super) fn put(out: &mut Vec<u8>, header: &Header) {
    out.push(codes::of_api(header.api));
    for text in [&header.producer, &header.device, &header.driver] {
        put_text(out, super::texts::cut(text, MAX_HEADER_TEXT));
    }
    let heaps = &header.heaps[..header.heaps.len().min(MAX_COUNT as usize)];
    put_number(out, heaps.len() as u64);
    for heap in heaps {
        out.push(heap.device_local.into());
        put_number(out, heap.size);
    }
    let types = &header.memory_types[..header.memory_types.len().min(MAX_COUNT as usize)];
    put_number(out, types.len() as u64);
    for memory_type in types {
        out.push(memory_type.heap);
        put_number(out, memory_type.properties.into());
    }
    put_number(out, header.buffer_image_granularity);
    put_number(out, header.non_coherent_atom_size);
    put_number(out, header.max_memory_objects.into());
    // A quarter of a MiB at most, so that all fit a chunk.
    let settings = &header.settings[..header.settings.len().min(64)];
    put_number(out, settings.len() as u64);
    for (name, value) in settings {
        put_text(out, super::texts::cut(name, MAX_HEADER_TEXT));
        put_text(out, super::texts::cut(value, MAX_HEADER_TEXT));
    }
    let known = (header.library, header.extent);
    // A reader assumes the rest, and files of this library stay as they were.
    if known != (assumed_library(&header.producer), Extent::History) {
        out.extend([codes::of_library(known.0), codes::of_extent(known.1)]);
    }
}

/// Reads a header. Bytes after it are of a later version, and ignored.
pub(super) fn read(mut input: Input<'_>) -> Result<Header, Wrong> {
    let api = codes::api(input.byte()?);
    let [producer, device, driver] = [input.text()?, input.text()?, input.text()?].map(str::to_owned);
    let mut heaps = Vec::new();
    for _ in 0..count(&mut input)? {
        heaps.push(Heap { device_local: input.byte()? != 0, size: input.number()? });
    }
    let mut memory_types = Vec::new();
    for _ in 0..count(&mut input)? {
        memory_types.push(MemoryType { heap: input.byte()?, properties: input.number32()? });
    }
    let buffer_image_granularity = input.number()?;
    let non_coherent_atom_size = input.number()?;
    let max_memory_objects = input.number32()?;
    let mut settings = Vec::new();
    for _ in 0..count(&mut input)? {
        settings.push((input.text()?.to_owned(), input.text()?.to_owned()));
    }
    let library = input.byte().map_or_else(|_| assumed_library(&producer), codes::library);
    let extent = input.byte().map_or(Extent::History, codes::extent);
    Ok(Header {
        producer,
        api,
        device,
        driver,
        heaps,
        memory_types,
        buffer_image_granularity,
        non_coherent_atom_size,
        max_memory_objects,
        settings,
        library,
        extent,
    })
}

/// Returns the library of a header that does not name one.
fn assumed_library(producer: &str) -> Library {
    if producer.starts_with("allotment ") { Library::Allotment } else { Library::Unknown }
}

fn count(input: &mut Input<'_>) -> Result<u64, Wrong> {
    Some(input.number()?)
        .filter(|&count| count <= MAX_COUNT)
        .ok_or("the header has more than 256 of something")
}

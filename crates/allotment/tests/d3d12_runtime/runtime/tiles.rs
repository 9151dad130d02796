//! Reserved resources, and which tiles of heaps are mapped to theirs. Their bytes are in a resource of the machine's that stands in
//! for them, since that may have no such resources: they stay with the tiles of the buffer, not with those of the heap.

use core::slice;
use std::collections::{BTreeMap, BTreeSet};

use windows::Win32::Foundation::E_INVALIDARG;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Result;

use super::calls::{Begins, Call, Made};
use super::checks::CLASS;
use super::faults::Kind;
use super::live::{What, id};
use super::sizes::is_buffer;
use super::{KIB, Runtime, TIGHT};

const TILE: u64 = 64 * KIB;

/// Tiles of resources, and the tiles of heaps that are mapped to them; by the objects' identity.
pub(super) type Mappings = BTreeMap<(usize, u64), (usize, u64)>;

/// The arguments of a call.
pub(super) struct Update<'a> {
    pub(super) starts: &'a [D3D12_TILED_RESOURCE_COORDINATE],
    pub(super) sizes: &'a [D3D12_TILE_REGION_SIZE],
    pub(super) kinds: &'a [D3D12_TILE_RANGE_FLAGS],
    pub(super) offsets: &'a [u32],
    pub(super) counts: &'a [u32],
}

/// Returns the list of this length at an address.
///
/// # Safety
///
/// There are as many at the address, unless it is none.
pub(super) unsafe fn list<'a, T>(at: *const T, count: u32) -> &'a [T] {
    if at.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(at, count as usize) }
}

impl Runtime {
    pub(super) fn create_reserved(&self, wanted: Made) -> Result<ID3D12Resource> {
        self.enter(Kind::CreateReservedResource)?;
        let desc = wanted.desc;
        let none_or_undefined = match wanted.begins {
            Begins::State(state) => state == D3D12_RESOURCE_STATE_COMMON,
            Begins::Layout(layout) => layout == D3D12_BARRIER_LAYOUT_UNDEFINED,
        };
        let mistake = if !self.config.tiled {
            Some("there are no tiled resources")
        } else if !is_buffer(&desc) || desc.Layout != D3D12_TEXTURE_LAYOUT_ROW_MAJOR || !none_or_undefined {
            Some("no buffer as buffers are")
        } else if ![0, TILE].contains(&desc.Alignment) || desc.Flags.contains(TIGHT) {
            Some("an alignment of its own")
        } else {
            None
        };
        if let Some(mistake) = mistake {
            self.report(format!("CreateReservedResource: {mistake}"));
            return Err(E_INVALIDARG.into());
        }
        let default = D3D12_HEAP_PROPERTIES { Type: D3D12_HEAP_TYPE_DEFAULT, ..Default::default() };
        let resource = self.commit_below(&default, &wanted, None)?;
        self.born(resource.clone().into(), What::Reserved(desc.Width.div_ceil(TILE)));
        self.record(Call::Reserved(wanted));
        Ok(resource)
    }

    pub(super) fn update_tiles(
        &self,
        resource: &ID3D12Resource,
        heap: Option<&ID3D12Heap>,
        update: &Update<'_>,
    ) {
        if let Err(mistake) = self.try_to_update_tiles(resource, heap, update) {
            self.report(format!("UpdateTileMappings: {mistake}"));
        }
    }

    fn try_to_update_tiles(
        &self,
        resource: &ID3D12Resource,
        heap: Option<&ID3D12Heap>,
        update: &Update<'_>,
    ) -> core::result::Result<(), String> {
        let tiles = self.tiles_of(resource).ok_or("of no reserved resource")?;
        let in_heap = match heap {
            Some(heap) => {
                let desc = self.heap_desc(heap).ok_or("of a heap that is not this runtime's")?;
                let buffers = desc.Flags.0 & CLASS & D3D12_HEAP_FLAG_DENY_BUFFERS.0 == 0;
                let of_gpu =
                    ![D3D12_HEAP_TYPE_UPLOAD, D3D12_HEAP_TYPE_READBACK].contains(&desc.Properties.Type);
                if !buffers || !of_gpu {
                    return Err("of a heap for others".into());
                }
                Some((id(heap), desc.SizeInBytes / TILE))
            }
            None => None,
        };
        let Update { starts, sizes, kinds, offsets, counts } = *update;
        let mut regions = Vec::new();
        for (start, size) in starts.iter().zip(sizes) {
            if size.UseBox.as_bool() || (start.Y, start.Z, start.Subresource) != (0, 0, 0) {
                return Err("a box of a buffer".into());
            }
            let first = u64::from(start.X);
            regions.extend(first..first + u64::from(size.NumTiles));
        }
        let mut ranges = Vec::new();
        for ((&kind, &offset), &count) in kinds.iter().zip(offsets).zip(counts) {
            let (first, count) = (u64::from(offset), u64::from(count));
            match (kind, in_heap) {
                (D3D12_TILE_RANGE_FLAG_NULL, _) => ranges.extend((0..count).map(|_| None)),
                (D3D12_TILE_RANGE_FLAG_NONE, Some((heap, all))) if first + count <= all => {
                    ranges.extend((first..first + count).map(|tile| Some((heap, tile))));
                }
                _ => return Err(format!("{count} tiles from {first} of {in_heap:?}, flags {}", kind.0)),
            }
        }
        if regions.len() != ranges.len() || regions.iter().any(|tile| *tile >= tiles) {
            return Err(format!("{} tiles to {} of {tiles}", ranges.len(), regions.len()));
        }
        self.bury();
        let mappings = &mut self.state().mappings;
        for (tile, range) in regions.into_iter().zip(ranges) {
            let at = (id(resource), tile);
            // Neither is a mistake in Direct3D 12, but the library does neither.
            match range {
                Some(range) => {
                    if mappings.insert(at, range).is_some() {
                        return Err(format!("tile {tile} has memory already"));
                    }
                }
                None => {
                    mappings.remove(&at).ok_or_else(|| format!("tile {tile} has no memory"))?;
                }
            }
        }
        let different: BTreeSet<_> = mappings.values().collect();
        if different.len() < mappings.len() { Err("a tile of a heap at two places".into()) } else { Ok(()) }
    }

    /// The tiles that have memory, of all resources.
    pub(crate) fn mapped_tiles(&self) -> Vec<u64> {
        self.bury();
        self.state().mappings.keys().map(|(_, tile)| *tile).collect()
    }
}

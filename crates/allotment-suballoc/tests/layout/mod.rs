//! TLSF blocks with ranges and holes at known places.

use allotment_suballoc::{Algorithm, Alignment, Handle, Request, VirtualBlock};

/// A block of `size` units that begins with ranges of these sizes, and their handles.
pub(crate) fn with_ranges(
    size: u64,
    sizes: impl IntoIterator<Item = u64>,
) -> (VirtualBlock<()>, Vec<Handle>) {
    let mut block = VirtualBlock::new(size, Algorithm::Tlsf).unwrap();
    let mut end = 0;
    let handles = sizes.into_iter().map(|size| {
        let range = block.allocate(Request::new(size), ()).unwrap();
        assert_eq!(range.offset, end, "an empty block is filled in order");
        end += size;
        range.handle
    });
    let handles = handles.collect();
    (block, handles)
}

/// A full block of ranges of these sizes. Those at the given positions are freed, in this order.
pub(crate) fn with_holes(sizes: &[u64], holes: impl IntoIterator<Item = usize>) -> VirtualBlock<()> {
    let (mut block, ranges) = with_ranges(sizes.iter().sum(), sizes.iter().copied());
    holes.into_iter().for_each(|at| block.free(ranges[at]).unwrap());
    block
}

pub(crate) fn aligned(size: u64, alignment: u64) -> Request {
    Request::new(size).aligned(Alignment::new(alignment).unwrap())
}

/// Cells of 256 units, in each of which a hole of 100 begins at 1. That of one cell, if any, begins at 28.
pub(crate) fn cells(count: u64, fits: Option<u64>) -> VirtualBlock<()> {
    let before = |cell| if Some(cell) == fits { 28 } else { 1 };
    let sizes: Vec<_> = (0..count).flat_map(|cell| [before(cell), 100, 156 - before(cell)]).collect();
    with_holes(&sizes, (1..sizes.len()).step_by(3))
}

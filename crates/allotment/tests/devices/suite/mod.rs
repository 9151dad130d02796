//! The promises of `Device`, as generic tests, and those of an allocator over any device.

mod allocator;
mod allocator_bytes;
mod allocator_limits;
mod buffers;
mod copies;
mod decisions;
mod images;
mod mapping;
mod memory;
mod properties;
mod timelines;

use crate::fixture::{Fixture, Test};

/// All tests, for a device of a fixture.
pub(crate) fn all<F: Fixture>() -> Vec<Test<F>> {
    let groups = [
        properties::all(),
        memory::all(),
        mapping::all(),
        buffers::all(),
        images::all(),
        copies::all(),
        timelines::all(),
        allocator_bytes::all(),
        allocator_limits::all(),
        decisions::all(),
    ];
    groups.into_iter().flatten().collect()
}

/// The names of all tests.
pub(crate) fn names<F: Fixture>() -> Vec<&'static str> {
    all::<F>().into_iter().map(|(name, _)| name).collect()
}

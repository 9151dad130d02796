//! The promises of `Device`, as generic tests, and those of an allocator over any device.

mod allocator;
mod allocator_bytes;
mod allocator_limits;
mod buffer_views;
mod buffers;
mod copies;
mod decisions;
pub(crate) mod descriptor_heaps;
pub(crate) mod descriptor_rig;
pub(crate) mod descriptors;
mod exclusive;
mod following;
mod frames;
mod full_images;
mod host_writes;
mod image_copies;
mod image_formats;
mod images;
mod lifetimes;
mod mapped;
mod mapping;
mod memory;
mod moved_images;
mod moves;
mod placed;
mod properties;
mod reads;
mod recorded_textures;
mod room;
pub(crate) mod stage;
mod textures;
mod timelines;
mod uploads;
pub(crate) mod views;
mod whole_textures;

use crate::fixture::{DescriptorFixture, Fixture, Test};

/// All tests, for a device of a fixture. Those about descriptors are [apart](descriptors::all).
pub(crate) fn all<F: Fixture>() -> Vec<Test<F>> {
    let groups = [
        properties::all(),
        memory::all(),
        mapping::all(),
        buffers::all(),
        images::all(),
        copies::all(),
        image_copies::all(),
        image_formats::all(),
        placed::all(),
        whole_textures::all(),
        host_writes::all(),
        full_images::all(),
        timelines::all(),
        lifetimes::all(),
        uploads::all(),
        exclusive::all(),
        frames::all(),
        reads::all(),
        recorded_textures::all(),
        moves::all(),
        moved_images::all(),
        mapped::all(),
        room::all(),
        allocator_bytes::all(),
        allocator_limits::all(),
        decisions::all(),
    ];
    groups.into_iter().flatten().collect()
}

/// The names of all tests, of those about descriptors as well.
pub(crate) fn names<F: DescriptorFixture>() -> Vec<&'static str> {
    all::<F>().into_iter().chain(descriptors::all::<F>()).map(|(name, _)| name).collect()
}

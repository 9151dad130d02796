//! Kinds of devices, a file each. To add one: write its file, with a [`Fixture`](crate::fixture::Fixture)
//! for its device, and name it in [`all`].

pub(crate) mod d3d12;
pub(crate) mod simulated;
mod turns;
pub(crate) mod vulkan;

use crate::runner::Kind;

/// All kinds, in the order of the summary.
pub(crate) fn all() -> Vec<Kind> {
    vec![simulated::kind(), vulkan::kind(), d3d12::kind()]
}

//! Direct3D 12, on Windows.

mod dxgi;
#[cfg(all(feature = "d3d12", windows))]
mod open;
mod resources;

#[cfg(all(feature = "d3d12", windows))]
pub(super) use open::open;

//! `Gpu` and `Frame` on the simulated GPU, with every byte checked.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]
#![allow(clippy::disallowed_methods, reason = "a test counts what is kept")]

#[path = "../common/amount.rs"]
mod amount;
mod custom_pools;
mod descriptors;
mod exclusive;
mod expandable;
mod frames;
#[path = "../common/hooked_device.rs"]
mod hooked_device;
mod hung;
mod leaks;
mod mapped;
mod moved;
mod observed;
mod other_gpu;
mod placed;
mod placed_states;
mod races;
mod reads;
mod refused;
mod rig;
mod room;
mod shared_uploads;
mod streamed;
mod threads;
mod together;
mod upload_handles;
mod uploads;
mod views;

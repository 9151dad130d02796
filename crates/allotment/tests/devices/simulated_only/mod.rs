//! The promises of the simulated device beyond the trait: that its queues work later than they are submitted to,
//! that it says what its user does wrong, and that it fails where a test wants it to.
//!
//! Some of these tests break the trait's contract on purpose. On this device that is a validation error, and
//! never undefined behaviour: handles are looked up, and bytes live as long as a queue needs them.

mod coherence;
mod descriptors;
mod failures;
mod full_images;
mod heaps;
mod host_writes;
mod images;
mod queues;
mod validation_errors;

use crate::fixture::Test;
use crate::kinds::simulated::SimulatedFixture;

/// All tests, each with the profile that it runs on.
pub(crate) fn all() -> Vec<(&'static str, Test<SimulatedFixture>)> {
    let on = |profile: &'static str, tests: Vec<Test<SimulatedFixture>>| {
        tests.into_iter().map(move |test| (profile, test))
    };
    let of_each_atom = ["mobile", "mobile-atom-1", "mobile-atom-256", "mobile-atom-4096"];
    let coherence = of_each_atom.into_iter().flat_map(|profile| on(profile, coherence::all()));
    coherence
        .chain(on("discrete-large-bar", validation_errors::all()))
        .chain(on("d3d12-tier-1", validation_errors::about_placement()))
        .chain(on("d3d12-tier-2", validation_errors::about_directions()))
        .chain(on("discrete-large-bar", descriptors::all()))
        .chain(on("integrated", descriptors::about_what_the_driver_keeps()))
        .chain(on("discrete-large-bar", failures::all()))
        .chain(on("discrete-no-bar", heaps::all()))
        .chain(on("discrete-large-bar", images::all()))
        .chain(on("d3d12-tier-2", images::about_limits()))
        .chain(on("integrated", host_writes::all()))
        .chain(on("discrete-large-bar", queues::all()))
        .chain(on("discrete-large-bar", full_images::all()))
        .collect()
}

//! `allotment profiles`: the profiles of the simulated GPU.

use allotment::device::simulated::Profile;
use serde::Serialize;

use crate::args::ProfilesArgs;
use crate::failure::Failure;
use crate::info::property_names;
use crate::units::bytes;

#[derive(Serialize)]
struct Profiles {
    profiles: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    about: &'static str,
    heaps: Vec<HeapRow>,
    memory_types: Vec<TypeRow>,
    buffer_image_granularity: u64,
    non_coherent_atom_size: u64,
    max_allocation_count: u32,
}

#[derive(Serialize)]
struct HeapRow {
    size: u64,
    device_local: bool,
}

#[derive(Serialize)]
struct TypeRow {
    heap: u8,
    properties: Vec<String>,
}

impl From<&Profile> for Row {
    fn from(profile: &Profile) -> Self {
        let heaps = profile.heaps.iter();
        let types = profile.memory_types.iter();
        Self {
            name: profile.name,
            about: profile.about,
            heaps: heaps.map(|heap| HeapRow { size: heap.size, device_local: heap.device_local }).collect(),
            memory_types: types
                .map(|memory_type| TypeRow {
                    heap: memory_type.heap.0,
                    properties: property_names(memory_type.properties),
                })
                .collect(),
            buffer_image_granularity: profile.limits.buffer_image_granularity.get(),
            non_coherent_atom_size: profile.limits.non_coherent_atom_size.get(),
            max_allocation_count: profile.limits.max_allocation_count,
        }
    }
}

pub(crate) fn run(args: &ProfilesArgs) -> Result<(), Failure> {
    let profiles = Profile::all();
    if args.json {
        let profiles = Profiles { profiles: profiles.iter().map(Row::from).collect() };
        say!("{}", serde_json::to_string(&profiles)?);
        return Ok(());
    }
    for profile in &profiles {
        say!("{}: {}", profile.name, profile.about);
        for (i, heap) in profile.heaps.iter().enumerate() {
            let kind = if heap.device_local { "device-local" } else { "host" };
            say!("  heap {i}: {} {kind}", bytes(heap.size));
        }
        for (i, memory_type) in profile.memory_types.iter().enumerate() {
            say!("  type {i}: heap {}, {}", memory_type.heap, memory_type.properties);
        }
        say!("  granularity {}", bytes(profile.limits.buffer_image_granularity.get()));
        say!();
    }
    Ok(())
}

//! Names, as the runtime's tools see them.

use allotment::MemoryUsage;
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::{Dedicated, RawResource};
use windows::Win32::Graphics::Direct3D::WKPDID_D3DDebugObjectNameW;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{Interface as _, w};

use crate::rig::{Config, Rig, buffer, info, say_skipped, target, wish};

/// Returns the name of an object, where the machine's runtime returns names.
fn name_of(object: &ID3D12Object) -> Option<String> {
    let mut units = [0_u16; 128];
    let mut bytes = size_of_val(&units) as u32;
    let place = Some(units.as_mut_ptr().cast());
    // SAFETY: the object is live, and there is room for this many bytes.
    unsafe { object.GetPrivateData(&WKPDID_D3DDebugObjectNameW, &mut bytes, place) }.ok()?;
    let said = &units[..bytes as usize / 2];
    Some(String::from_utf16_lossy(said).trim_end_matches('\0').to_owned())
}

fn keeps_names(rig: &Rig) -> bool {
    let raw = rig.device().raw();
    let kind = D3D12_COMMAND_LIST_TYPE_COPY;
    // SAFETY: the device is live.
    let object: ID3D12CommandAllocator = unsafe { raw.CreateCommandAllocator(kind) }.unwrap();
    // SAFETY: the object is live, and the text ends with a zero.
    unsafe { object.SetName(w!("a name")) }.unwrap();
    let keeps = name_of(&object.cast().unwrap()).as_deref() == Some("a name");
    if !keeps {
        // No failure where Direct3D 12 is required: without names it is that all the same.
        say_skipped("this runtime keeps no names that can be asked for");
    }
    keeps
}

fn memory_name(rig: &Rig, resource: &RawResource<ID3D12Resource>) -> Option<String> {
    let memory = rig.location(resource.allocation()).unwrap().memory;
    // SAFETY: the memory lives as long as the resource, and is this device's.
    let memory = unsafe { rig.device().pageable(memory) };
    name_of(&memory.cast().unwrap())
}

#[test]
fn resources_and_their_memory_are_called_what_the_caller_calls_them() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    if !keeps_names(&rig) {
        return;
    }
    for described in [buffer(1000), target(64, 64)] {
        for name in ["albedo", "Farbe, grün", "色 🎨"] {
            let desc = wish(MemoryUsage::GpuOnly).with_name(name.to_owned());
            let placed = rig.create_resource(&info(described), &desc).unwrap();
            assert_eq!(name_of(&placed.handle().cast().unwrap()).as_deref(), Some(name));
            assert_eq!(memory_name(&rig, &placed).as_deref(), Some("block of memory type 0"));
            let own = rig.create_resource(&info(described), &desc.with_dedicated(Dedicated::Always)).unwrap();
            assert_eq!(name_of(&own.handle().cast().unwrap()).as_deref(), Some(name));
            assert_eq!(memory_name(&rig, &own).as_deref(), Some(name));
            rig.destroy([placed, own]);
        }
    }
}

//! The machine's adapters.

use std::sync::OnceLock;

use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_ADAPTER_FLAG_SOFTWARE, IDXGIAdapter1, IDXGIAdapter3, IDXGIFactory1,
};
use windows::core::Interface as _;

use super::OpenError;
use crate::DeviceChoice;

/// Returns the chosen adapter.
pub(super) fn choose(choice: &DeviceChoice) -> Result<IDXGIAdapter3, OpenError> {
    static ADAPTERS: OnceLock<windows::core::Result<Vec<Adapter>>> = OnceLock::new();
    let adapters = ADAPTERS.get_or_init(all).as_ref().map_err(Clone::clone)?;
    let found = choice.among(adapters, |adapter| !adapter.software, |adapter| adapter.name.clone());
    let found = found.ok_or_else(|| OpenError::NoDevice(adapters.iter().map(|a| a.name.clone()).collect()));
    Ok(adapters[found?].raw.clone())
}

struct Adapter {
    raw: IDXGIAdapter3,
    name: String,
    software: bool,
}

fn all() -> windows::core::Result<Vec<Adapter>> {
    // SAFETY: there are no arguments.
    let factory: IDXGIFactory1 = unsafe { CreateDXGIFactory1() }?;
    // The first index that does not exist ends the list.
    // SAFETY: the factory is live.
    let adapters = (0..).map_while(|index| unsafe { factory.EnumAdapters1(index) }.ok());
    adapters.map(|adapter| Adapter::of(&adapter)).collect()
}

impl Adapter {
    fn of(adapter: &IDXGIAdapter1) -> windows::core::Result<Self> {
        // SAFETY: the adapter is live.
        let desc = unsafe { adapter.GetDesc1() }?;
        let end = desc.Description.iter().position(|&unit| unit == 0).unwrap_or(desc.Description.len());
        Ok(Self {
            raw: adapter.cast()?,
            name: String::from_utf16_lossy(&desc.Description[..end]),
            software: desc.Flags & DXGI_ADAPTER_FLAG_SOFTWARE.0 as u32 != 0,
        })
    }
}

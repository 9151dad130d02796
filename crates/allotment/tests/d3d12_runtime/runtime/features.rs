//! The features that the runtime reports.

use core::ffi::c_void;

use windows::Win32::Foundation::E_INVALIDARG;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Result;

use super::{FEATURE_TIGHT_ALIGNMENT, Runtime};

/// Writes an answer where one is wanted. A structure of another size is the caller's mistake.
fn answer<T>(data: *mut c_void, size: u32, answer: T) -> Result<()> {
    if size as usize != size_of::<T>() || data.is_null() {
        return Err(E_INVALIDARG.into());
    }
    // SAFETY: the caller has a structure of this size there.
    unsafe { data.cast::<T>().write(answer) };
    Ok(())
}

impl Runtime {
    pub(super) fn check_feature_support(
        &self,
        feature: D3D12_FEATURE,
        data: *mut c_void,
        size: u32,
    ) -> Result<()> {
        let config = &self.config;
        let unknown = || Err(E_INVALIDARG.into());
        match feature {
            D3D12_FEATURE_D3D12_OPTIONS => {
                self.ask_below(feature, data, size)?;
                // SAFETY: the machine's runtime has just written the structure of this feature there.
                let options = unsafe { &mut *data.cast::<D3D12_FEATURE_DATA_D3D12_OPTIONS>() };
                options.ResourceHeapTier = config.tier;
                options.TiledResourcesTier = if config.tiled {
                    D3D12_TILED_RESOURCES_TIER_1
                } else {
                    D3D12_TILED_RESOURCES_TIER_NOT_SUPPORTED
                };
                Ok(())
            }
            D3D12_FEATURE_ARCHITECTURE => answer(
                data,
                size,
                D3D12_FEATURE_DATA_ARCHITECTURE {
                    UMA: config.uma.into(),
                    CacheCoherentUMA: config.coherent.into(),
                    ..Default::default()
                },
            ),
            D3D12_FEATURE_D3D12_OPTIONS7 if config.not_zeroed => {
                answer(data, size, D3D12_FEATURE_DATA_D3D12_OPTIONS7::default())
            }
            D3D12_FEATURE_D3D12_OPTIONS7 => unknown(),
            D3D12_FEATURE_D3D12_OPTIONS12 if config.enhanced_barriers => {
                let barriers = D3D12_FEATURE_DATA_D3D12_OPTIONS12 {
                    EnhancedBarriersSupported: true.into(),
                    ..Default::default()
                };
                answer(data, size, barriers)
            }
            D3D12_FEATURE_D3D12_OPTIONS12 => unknown(),
            D3D12_FEATURE_D3D12_OPTIONS16 if config.gpu_upload => {
                let upload = D3D12_FEATURE_DATA_D3D12_OPTIONS16 {
                    GPUUploadHeapSupported: true.into(),
                    ..Default::default()
                };
                answer(data, size, upload)
            }
            D3D12_FEATURE_D3D12_OPTIONS16 => unknown(),
            D3D12_FEATURE_D3D12_OPTIONS19 => match config.descriptors {
                Some([views, samplers]) => {
                    let heaps = D3D12_FEATURE_DATA_D3D12_OPTIONS19 {
                        MaxViewDescriptorHeapSize: views,
                        MaxSamplerDescriptorHeapSize: samplers.saturating_mul(2),
                        MaxSamplerDescriptorHeapSizeWithStaticSamplers: samplers,
                        AnisoFilterWithPointMipSupported: true.into(),
                        ..Default::default()
                    };
                    answer(data, size, heaps)
                }
                None => unknown(),
            },
            FEATURE_TIGHT_ALIGNMENT if config.tight.is_some() => answer(data, size, 1_i32),
            FEATURE_TIGHT_ALIGNMENT => unknown(),
            _ => self.ask_below(feature, data, size),
        }
    }

    /// The machine's own resource heap tier: heaps of a higher one cannot be had of it.
    pub(crate) fn tier_below(&self) -> D3D12_RESOURCE_HEAP_TIER {
        let mut options = D3D12_FEATURE_DATA_D3D12_OPTIONS::default();
        let size = size_of_val(&options) as u32;
        self.ask_below(D3D12_FEATURE_D3D12_OPTIONS, (&raw mut options).cast(), size).unwrap();
        options.ResourceHeapTier
    }

    fn ask_below(&self, feature: D3D12_FEATURE, data: *mut c_void, size: u32) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.below.CheckFeatureSupport(feature, data, size) }
    }

    /// Returns the properties of heaps of a type, as on hardware of this kind.
    pub(super) fn custom_heap_properties(&self, heap_type: D3D12_HEAP_TYPE) -> D3D12_HEAP_PROPERTIES {
        let own = if self.config.uma { D3D12_MEMORY_POOL_L0 } else { D3D12_MEMORY_POOL_L1 };
        let (page, pool) = match heap_type {
            D3D12_HEAP_TYPE_DEFAULT => (D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE, own),
            D3D12_HEAP_TYPE_UPLOAD => (D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE, D3D12_MEMORY_POOL_L0),
            D3D12_HEAP_TYPE_READBACK => (D3D12_CPU_PAGE_PROPERTY_WRITE_BACK, D3D12_MEMORY_POOL_L0),
            D3D12_HEAP_TYPE_GPU_UPLOAD if self.config.gpu_upload => {
                (D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE, own)
            }
            other => {
                self.report(format!("GetCustomHeapProperties of heap type {}", other.0));
                Default::default()
            }
        };
        D3D12_HEAP_PROPERTIES {
            Type: D3D12_HEAP_TYPE_CUSTOM,
            CPUPageProperty: page,
            MemoryPoolPreference: pool,
            CreationNodeMask: 1,
            VisibleNodeMask: 1,
        }
    }
}

//! Direct3D 12, with the debug layer watching where the runtime has one: any message fails the test that it
//! was said in.
//!
//! `ALLOTMENT_D3D12` names another adapter than the best by a part of its name.

#[cfg(not(windows))]
pub(super) fn kind() -> crate::runner::Kind {
    use super::simulated::SimulatedFixture;
    use crate::runner::Kind;
    use crate::suite;
    Kind::missing("d3d12", "Direct3D 12 is for Windows", &suite::names::<SimulatedFixture>())
}

#[cfg(windows)]
pub(super) use real::kind;
#[cfg(windows)]
pub(crate) use real::{D3d12Fixture, no_tables};

#[cfg(windows)]
mod real {
    use core::ffi::{c_char, c_void};

    use allotment::device::d3d12::{Device, DeviceDesc};
    use allotment::device::{BufferViewUses, ImageViewUse, MemoryHeapIndex, TexelBlock};
    use allotment_headless::DeviceChoice;
    use allotment_headless::d3d12::{Headless, HeadlessDesc};
    use allotment_readers::{D3d12Reader, DescriptorReader as _};
    use windows::Win32::Graphics::Direct3D12::*;
    use windows::Win32::Graphics::Dxgi::Common::*;

    use crate::d3d12_only;
    use crate::fixture::{DescriptorFixture, Fixture, Format, FormatClass, Outcome, Values};
    use crate::kinds::simulated::SimulatedFixture;
    use crate::kinds::turns::{Turn, Turns};
    use crate::runner::{Kind, Share};
    use crate::suite;
    use allotment::device::MemoryDevice as _;

    pub(crate) fn kind() -> Kind {
        let (watched, reads) = match Headless::open(&desc()) {
            Ok(headless) => (headless.messages().is_some(), D3d12Reader::new(headless.device(), 1).is_ok()),
            Err(why) => {
                let mut tests = suite::names::<SimulatedFixture>();
                let own = d3d12_only::all().into_iter().chain(d3d12_only::host_writes::all());
                tests.extend(own.map(|(name, _)| name));
                return Kind::missing("d3d12", &why.to_string(), &tests);
            }
        };
        let mut kind = Kind::new("d3d12");
        kind.note(if watched {
            "the debug layer watched"
        } else {
            "not watched: this runtime has no debug layer"
        });
        kind.conformance("", Share::All, || D3d12Fixture::new(|desc| desc));
        if reads {
            kind.descriptors("", Share::All, || D3d12Fixture::new(|desc| desc));
        } else {
            let without_shaders = suite::descriptors::without_shaders::<D3d12Fixture>();
            for (name, _) in suite::descriptors::all::<D3d12Fixture>() {
                let found = without_shaders.iter().find(|test| test.0 == name);
                let test = found.copied().unwrap_or((name, |_| no_tables()));
                kind.add("", test, || D3d12Fixture::new(|desc| desc));
            }
        }
        // As on older hardware: buffers, render targets and other textures do not share heaps.
        kind.conformance("tier 1", Share::Drawn, || {
            D3d12Fixture::new(|desc| desc.with_max_tier(D3D12_RESOURCE_HEAP_TIER_1))
        });
        kind.conformance("custom heaps", Share::Drawn, || D3d12Fixture::new(with_custom_heaps));
        let host_written = || D3d12Fixture::new(DeviceDesc::with_host_written_textures);
        kind.conformance("host-written textures", Share::All, host_written);
        for test in d3d12_only::host_writes::all() {
            kind.add("host-written textures", test, host_written);
        }
        if reads {
            kind.descriptors("host-written textures", Share::Drawn, host_written);
        }
        for test in d3d12_only::all() {
            kind.add("", test, || D3d12Fixture::new(|desc| desc));
        }
        kind
    }

    /// Why a test that has shaders read through descriptors does not run.
    pub(crate) fn no_tables() -> Outcome {
        Outcome::DoesNotApply("shaders see no descriptor tables on this runtime")
    }

    /// Whether this is Wine rather than Windows: its system library says so.
    fn is_wine() -> bool {
        #[link(name = "kernel32")]
        unsafe extern "system" {
            fn GetModuleHandleA(name: *const c_char) -> *mut c_void;
            fn GetProcAddress(module: *mut c_void, name: *const c_char) -> *mut c_void;
        }
        // SAFETY: the name ends with a zero.
        let library = unsafe { GetModuleHandleA(c"ntdll.dll".as_ptr()) };
        // SAFETY: as above, and every process has that library.
        !unsafe { GetProcAddress(library, c"wine_get_version".as_ptr()) }.is_null()
    }

    /// Reads the choice from the environment.
    fn desc() -> HeadlessDesc {
        let choice = std::env::var("ALLOTMENT_D3D12").map_or(DeviceChoice::Best, DeviceChoice::Named);
        HeadlessDesc::default().with_device(choice).with_validation()
    }

    /// The system's memory as a custom heap sees it: with each kind of page.
    fn with_custom_heaps(desc: DeviceDesc) -> DeviceDesc {
        let pages = [
            D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE,
            D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE,
            D3D12_CPU_PAGE_PROPERTY_WRITE_BACK,
        ];
        pages.into_iter().fold(desc, |desc, page| {
            desc.with_custom_heap(D3D12_HEAP_PROPERTIES {
                Type: D3D12_HEAP_TYPE_CUSTOM,
                CPUPageProperty: page,
                MemoryPoolPreference: D3D12_MEMORY_POOL_L0,
                CreationNodeMask: 1,
                VisibleNodeMask: 1,
            })
        })
    }

    /// One Direct3D 12 test runs at a time: to the runtime, all devices on an adapter are one, and what its
    /// debug layer says must be known to be about the test.
    static TURNS: Turns = Turns::new();

    /// A Direct3D 12 device, whose messages are failures.
    pub(crate) struct D3d12Fixture {
        headless: Headless,
        /// Given up last.
        _turn: Turn,
    }

    impl D3d12Fixture {
        pub(crate) fn new(adapt: impl FnOnce(DeviceDesc) -> DeviceDesc) -> Self {
            let turn = TURNS.take();
            Self { headless: Headless::open_as(&desc(), adapt).unwrap(), _turn: turn }
        }
    }

    impl D3d12Fixture {
        /// The number of descriptors at the end of a heap of a million that are not written.
        ///
        /// Wine's Direct3D 12 makes a Vulkan set with 32 descriptors fewer than the driver can have at most, and a heap
        /// with more all the same. Lavapipe can have a million; what is written at the end of such a heap goes beyond
        /// the set's memory. Where nothing is mapped there, Wine ends the driver's call halfway and says nothing, and
        /// the next shader faults at descriptors that were never written.
        pub(crate) fn missing_of_a_million(&self) -> u32 {
            if is_wine() { 32 } else { 0 }
        }
    }

    impl Fixture for D3d12Fixture {
        type Device = Device;

        fn device(&self) -> &Device {
            self.headless.device()
        }

        fn budgets_are_exact(&self) -> bool {
            false
        }

        fn image_format(&self) -> u32 {
            DXGI_FORMAT_R8G8B8A8_UNORM.0.unsigned_abs()
        }

        fn no_address_usage(&self) -> Option<u64> {
            None
        }

        fn host_copies_end_in_parts_of_blocks(&self) -> bool {
            false
        }

        fn image_for_views(&self, usage: ImageViewUse) -> Option<(u32, u64)> {
            let (format, flags) = match usage {
                ImageViewUse::Sampled => (DXGI_FORMAT_R8G8B8A8_UNORM, D3D12_RESOURCE_FLAG_NONE),
                ImageViewUse::Storage => {
                    (DXGI_FORMAT_R8G8B8A8_UNORM, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS)
                }
                ImageViewUse::RenderTarget => {
                    (DXGI_FORMAT_R8G8B8A8_UNORM, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET)
                }
                ImageViewUse::DepthStencil => {
                    (DXGI_FORMAT_D32_FLOAT, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL)
                }
                ImageViewUse::InputAttachment => return None,
            };
            Some((format.0.unsigned_abs(), flags.0.unsigned_abs().into()))
        }

        fn texel_format(&self) -> (u32, u64) {
            (DXGI_FORMAT_R32G32B32A32_FLOAT.0.unsigned_abs(), 16)
        }

        fn buffer_for_views(&self, uses: BufferViewUses) -> u64 {
            let written = BufferViewUses::READ_WRITE | BufferViewUses::STORAGE_TEXELS;
            let flag = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS.0.unsigned_abs();
            if uses.intersects(written) { flag.into() } else { 0 }
        }

        fn buffer_without_views(&self, usage: BufferViewUses) -> Option<u64> {
            usage.intersects(BufferViewUses::READ_WRITE | BufferViewUses::STORAGE_TEXELS).then_some(0)
        }

        fn image_states(&self) -> &'static [D3D12_RESOURCE_STATES] {
            const STATES: [D3D12_RESOURCE_STATES; 4] = [
                D3D12_RESOURCE_STATE_COMMON,
                D3D12_RESOURCE_STATE_NON_PIXEL_SHADER_RESOURCE,
                D3D12_RESOURCE_STATE_COPY_SOURCE,
                D3D12_RESOURCE_STATE_COPY_DEST,
            ];
            &STATES
        }

        fn compressed_format(&self) -> Option<(u32, TexelBlock)> {
            let bc1 = TexelBlock { bytes: 8, width: 4, height: 4 };
            Some((DXGI_FORMAT_BC1_UNORM.0.unsigned_abs(), bc1))
        }

        fn has_linear_images(&self) -> bool {
            false
        }

        fn formats(&self) -> Vec<Format> {
            use FormatClass::{Bc, Depth, DepthStencil, Planes, Texels};
            use Values::{Any, Float, Low24};
            [
                ("R8_UNORM", Texels, Any, DXGI_FORMAT_R8_UNORM),
                ("R8G8_UINT", Texels, Any, DXGI_FORMAT_R8G8_UINT),
                ("R8G8B8A8_UNORM_SRGB", Texels, Any, DXGI_FORMAT_R8G8B8A8_UNORM_SRGB),
                ("R16G16B16A16_UINT", Texels, Any, DXGI_FORMAT_R16G16B16A16_UINT),
                ("R32G32B32A32_UINT", Texels, Any, DXGI_FORMAT_R32G32B32A32_UINT),
                ("BC1_UNORM", Bc, Any, DXGI_FORMAT_BC1_UNORM),
                ("BC7_UNORM", Bc, Any, DXGI_FORMAT_BC7_UNORM),
                ("D16_UNORM", Depth, Any, DXGI_FORMAT_D16_UNORM),
                ("D32_FLOAT", Depth, Float, DXGI_FORMAT_D32_FLOAT),
                ("R32_TYPELESS", Depth, Float, DXGI_FORMAT_R32_TYPELESS),
                ("D24_UNORM_S8_UINT", DepthStencil, Low24, DXGI_FORMAT_D24_UNORM_S8_UINT),
                ("D32_FLOAT_S8X24_UINT", DepthStencil, Float, DXGI_FORMAT_D32_FLOAT_S8X24_UINT),
                ("NV12", Planes, Any, DXGI_FORMAT_NV12),
                ("P010", Planes, Any, DXGI_FORMAT_P010),
            ]
            .into_iter()
            // Wine's Direct3D copies neither aspect of such an image alone: it writes past the rows.
            .filter(|(_, class, ..)| *class != DepthStencil || !is_wine())
            .map(|(name, class, values, format)| {
                let is_depth = matches!(class, Depth | DepthStencil);
                let usage = if is_depth { D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL.0 } else { 0 };
                let (number, usage) = (format.0.unsigned_abs(), u64::from(usage.unsigned_abs()));
                Format { name, class, number, usage, values }
            })
            .collect()
        }

        fn expect_complaints(&self, _: &'static str) {
            // What cannot be had is refused before a layer sees it.
        }

        fn finish(self) -> Result<(), String> {
            for heap in (0..).map(MemoryHeapIndex).take(self.device().properties().heaps.len()) {
                let left = self.device().allocated_bytes(heap);
                if left != 0 {
                    return Err(format!("{left} bytes of heap {heap} were left behind"));
                }
            }
            // Taken while it is still this test's turn.
            let said = self.headless.messages().map(|messages| messages.take()).unwrap_or_default();
            let said: Vec<_> = said.iter().map(ToString::to_string).collect();
            if said.is_empty() { Ok(()) } else { Err(format!("the debug layer said: {said:#?}")) }
        }
    }
    impl DescriptorFixture for D3d12Fixture {
        type Reader = D3d12Reader;

        /// Wine hands a descriptor of nothing to Vulkan as it is, and lavapipe's shaders fault at that.
        fn null_reads_zeros(&self) -> bool {
            !is_wine()
        }
    }
}

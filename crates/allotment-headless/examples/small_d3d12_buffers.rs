//! Measures what small buffers take on Direct3D 12: committed, placed by an allocator, and as pieces of larger ones.
//!
//! `cargo run --release -p allotment-headless --example small_d3d12_buffers -- [COUNT]`, on Windows. Each line is of buffers that are
//! alive together: what the runtime says that one takes, what the process uses of the adapter's memory and of the system's, and the
//! time of a creation and of a destruction.

#[cfg(not(windows))]
fn main() {
    println!("Direct3D 12 is for Windows.");
}

#[cfg(windows)]
fn main() -> Result<(), Box<dyn core::error::Error>> {
    measure::run()
}

#[cfg(windows)]
mod measure {
    use core::error::Error;
    use std::time::Instant;

    use allotment::device::BufferDesc;
    use allotment::device::d3d12::{Device, DeviceDesc, ResourceInfo};
    use allotment::memory::{AllocationOptions, BufferPieces, Dedicated};
    use allotment::{Alignment, Gpu, GpuDesc, MemoryUsage};
    use allotment_headless::d3d12::{Headless, HeadlessDesc};
    use windows::Win32::Graphics::Direct3D12::*;
    use windows::Win32::Graphics::Dxgi::Common::DXGI_SAMPLE_DESC;
    use windows::Win32::Graphics::Dxgi::*;

    type Outcome<T = ()> = Result<T, Box<dyn Error>>;

    const KIB: u64 = 1 << 10;
    const PAGE: u64 = 1 << 20;

    /// `VM_COUNTERS`.
    #[repr(C)]
    #[derive(Default)]
    struct ProcessMemory {
        peak_virtual_size: usize,
        virtual_size: usize,
        page_faults: u32,
        peak_working_set: usize,
        working_set: usize,
        quotas: [usize; 4],
        page_file: [usize; 2],
    }

    /// `ProcessVmCounters`.
    const MEMORY_OF_PROCESS: u32 = 3;

    #[link(name = "ntdll")]
    unsafe extern "system" {
        fn NtQueryInformationProcess(
            process: isize,
            class: u32,
            to: *mut ProcessMemory,
            size: u32,
            written: *mut u32,
        ) -> i32;
    }

    /// Bytes in use, as the runtime and the system see them.
    #[derive(Clone, Copy)]
    struct Usage {
        adapter: u64,
        working_set: u64,
        address_space: u64,
    }

    struct Machine {
        device: ID3D12Device,
        adapter: IDXGIAdapter3,
        gpu: Gpu<Device>,
    }

    impl Machine {
        fn open() -> Outcome<(Self, Headless)> {
            let mut parts = None;
            let headless = Headless::open_as(&HeadlessDesc::default(), |desc: DeviceDesc| {
                parts = Some((desc.device.clone(), desc.adapter.clone()));
                desc
            })?;
            let (device, adapter) = parts.ok_or("the device was not described")?;
            let gpu = Gpu::new(headless.device().clone(), GpuDesc::default())?;
            Ok((Self { device, adapter, gpu }, headless))
        }

        fn usage(&self) -> Outcome<Usage> {
            let mut adapter = 0;
            for group in [DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_MEMORY_SEGMENT_GROUP_NON_LOCAL] {
                let mut info = DXGI_QUERY_VIDEO_MEMORY_INFO::default();
                // SAFETY: the adapter is live, and the runtime writes the numbers.
                unsafe { self.adapter.QueryVideoMemoryInfo(0, group, &mut info) }?;
                adapter += info.CurrentUsage;
            }
            let mut memory = ProcessMemory::default();
            let size = size_of::<ProcessMemory>() as u32;
            let written = core::ptr::null_mut();
            // SAFETY: -1 is the process itself, and the system writes as many bytes as the structure has.
            let status =
                unsafe { NtQueryInformationProcess(-1, MEMORY_OF_PROCESS, &mut memory, size, written) };
            if status != 0 {
                return Err(format!("the process's memory is not known: {status:#x}").into());
            }
            Ok(Usage {
                adapter,
                working_set: memory.working_set as u64,
                address_space: memory.virtual_size as u64,
            })
        }

        /// Returns size and alignment of a buffer, as the runtime says.
        fn allocation(&self, size: u64) -> (u64, u64) {
            // SAFETY: the device is live.
            let info = unsafe { self.device.GetResourceAllocationInfo(0, &[description(size)]) };
            (info.SizeInBytes, info.Alignment)
        }

        fn commit(&self, size: u64) -> Outcome<ID3D12Resource> {
            let heap = D3D12_HEAP_PROPERTIES { Type: D3D12_HEAP_TYPE_DEFAULT, ..Default::default() };
            let (desc, state) = (description(size), D3D12_RESOURCE_STATE_COMMON);
            let mut resource = None;
            // SAFETY: the device is live, and the runtime checks the description.
            unsafe {
                self.device.CreateCommittedResource(
                    &heap,
                    D3D12_HEAP_FLAG_CREATE_NOT_ZEROED,
                    &desc,
                    state,
                    None,
                    &mut resource,
                )
            }?;
            resource.ok_or_else(|| "no resource".into())
        }

        /// Makes `count` of a kind and destroys them, and says what they took.
        fn row<T>(&self, what: &str, count: u32, mut make: impl FnMut() -> Outcome<T>) -> Outcome {
            // What the first of a kind makes for all of them.
            drop(make()?);
            self.gpu.reclaim();
            let before = self.usage()?;
            let began = Instant::now();
            let mut all = Vec::with_capacity(count as usize);
            for _ in 0..count {
                all.push(make()?);
            }
            let creation = began.elapsed() / count;
            let after = self.usage()?;
            let reserved = self.gpu.allocator().statistics().block_bytes;
            let began = Instant::now();
            drop(all);
            self.gpu.reclaim();
            let destruction = began.elapsed() / count;
            let mib = |bytes: u64| bytes as f64 / (KIB * KIB) as f64;
            let grown = |of: fn(Usage) -> u64| mib(of(after)) - mib(of(before));
            println!(
                "{what:<22} {:>9.1} {:>9.1} {:>12.1} {:>10.1} {:>12.2} {:>12.2}",
                mib(reserved),
                grown(|usage| usage.adapter),
                grown(|usage| usage.working_set),
                grown(|usage| usage.address_space),
                creation.as_secs_f64() * 1e6,
                destruction.as_secs_f64() * 1e6,
            );
            Ok(())
        }
    }

    fn description(size: u64) -> D3D12_RESOURCE_DESC {
        D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
            Width: size,
            Height: 1,
            DepthOrArraySize: 1,
            MipLevels: 1,
            SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
            Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
            ..Default::default()
        }
    }

    pub(super) fn run() -> Outcome {
        let count = std::env::args().nth(1).map_or(Ok(10_000), |count| count.parse())?;
        let (_, headless) = Machine::open()?;
        println!("{}, {count} buffers at a time", headless.name());
        for size in [KIB, 4 * KIB, 16 * KIB, 32 * KIB] {
            // Another device for each row, so that none has the blocks of another.
            let machine = || Machine::open().map(|(machine, _headless)| machine);
            let one = machine()?;
            let (bytes, alignment) = one.allocation(size);
            println!("\n{} KiB each; the runtime says {bytes} bytes, at {alignment}", size / KIB);
            println!(
                "{:<22} {:>9} {:>9} {:>12} {:>10} {:>12} {:>12}",
                "MiB", "reserved", "adapter", "working set", "addresses", "µs to create", "to destroy"
            );
            one.row("committed, no library", count, || one.commit(size))?;
            let each = |what: &str, dedicated: Dedicated| -> Outcome {
                let machine = machine()?;
                let info = ResourceInfo::new(description(size));
                let options = AllocationOptions::from(MemoryUsage::GpuOnly).with_dedicated(dedicated);
                machine.row(what, count, || Ok(machine.gpu.create_buffer(&info, &options)?))
            };
            each("committed", Dedicated::Always)?;
            each("placed", Dedicated::Automatic)?;
            let machine = machine()?;
            let pieces =
                BufferPieces::new(machine.gpu.memory(), BufferDesc::new(PAGE), MemoryUsage::GpuOnly.into());
            machine.row("pieces of 1 MiB", count, || Ok(pieces.create(size, Alignment::ONE)?))?;
        }
        Ok(())
    }
}

//! What the programs in `tests` share: a device of wgpu, bytes that can be told apart, and the allocator's report.

mod messages;
pub mod texels;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A device, its queue, and the errors that nobody has caught.
pub struct Gpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    errors: Arc<AtomicU32>,
}

impl Gpu {
    /// Opens a device of the first adapter of Vulkan, or of Direct3D 12 on Windows.
    pub fn open() -> Self {
        messages::collect();
        let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
        desc.backends = if cfg!(windows) { wgpu::Backends::DX12 } else { wgpu::Backends::VULKAN };
        // Validation by a layer, and what else the environment asks for: `WGPU_VALIDATION=0`, and its like.
        desc.flags = desc.flags.with_env();
        let instance = wgpu::Instance::new(desc);
        let adapter = pollster::block_on(instance.request_adapter(&Default::default()));
        let adapter = adapter.expect("wgpu finds an adapter");
        #[cfg(feature = "stand-in")]
        let before = gpu_allocator::allocators_created();
        let (device, queue) = pollster::block_on(adapter.request_device(&Default::default()))
            .expect("the adapter opens a device");
        #[cfg(feature = "stand-in")]
        assert!(gpu_allocator::allocators_created() > before, "the device's memory is Allotment's");
        let errors = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&errors);
        device.on_uncaptured_error(Arc::new(move |error| {
            eprintln!("{error}");
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        Self { device, queue, errors }
    }

    pub fn wait(&self) {
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
    }

    pub fn buffer(&self, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let desc = wgpu::BufferDescriptor { label: Some("buffer"), size, usage, mapped_at_creation: false };
        self.device.create_buffer(&desc)
    }

    /// Records commands with `record`, and submits them.
    pub fn submit(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        record(&mut encoder);
        self.queue.submit([encoder.finish()]);
    }

    /// Returns the bytes of a buffer that can be copied from.
    pub fn read(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        let size = buffer.size();
        let back = self.buffer(size, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        self.submit(|encoder| encoder.copy_buffer_to_buffer(buffer, 0, &back, 0, size));
        self.mapped(&back)
    }

    /// Returns the bytes of a buffer that can be mapped to be read.
    pub fn mapped(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        buffer.slice(..).map_async(wgpu::MapMode::Read, |mapped| mapped.expect("the buffer can be mapped"));
        self.wait();
        let bytes = buffer.slice(..).get_mapped_range().expect("the buffer is mapped").to_vec();
        buffer.unmap();
        bytes
    }

    /// Returns what the allocator holds, in which no allocation overlaps another.
    pub fn report(&self) -> wgpu::AllocatorReport {
        let report = self.device.generate_allocator_report().expect("wgpu reports its allocator");
        for block in &report.blocks {
            let mut inside: Vec<_> = report.allocations[block.allocations.clone()]
                .iter()
                .map(|one| (one.offset, one.size))
                .collect();
            inside.sort_unstable();
            assert!(inside.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{inside:?}");
            assert!(inside.iter().all(|(offset, size)| offset + size <= block.size));
        }
        let bytes: u64 = report.allocations.iter().map(|one| one.size).sum();
        assert_eq!(bytes, report.total_allocated_bytes);
        assert!(report.total_allocated_bytes <= report.total_reserved_bytes);
        report
    }

    /// Asserts that neither wgpu nor the validation layer had anything to complain about.
    pub fn check(&self) {
        assert_eq!(self.errors.load(Ordering::Relaxed), 0, "errors of wgpu, above");
        assert_eq!(messages::errors(), Vec::<String>::new());
    }
}

/// Returns true where the environment does not let a check be left out: `ALLOTMENT_REQUIRE=validation,refusal`.
pub fn requires(what: &str) -> bool {
    std::env::var("ALLOTMENT_REQUIRE").is_ok_and(|required| required.contains(what))
}

/// A xorshift generator.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Bytes that differ between seeds and from one another.
pub fn pattern(seed: u64, size: u64) -> Vec<u8> {
    (0..size).map(|i| (i.wrapping_mul(31).wrapping_add(seed.wrapping_mul(101)) >> 3 ^ i) as u8).collect()
}

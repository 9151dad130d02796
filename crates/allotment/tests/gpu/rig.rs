//! The tests' shared set-up: a `Gpu` over a simulated device, and a frame that copies bytes to a readback range.

use allotment::device::simulated::{CommandAllocator, Profile, SimulatedBuffer, SimulatedGpu};
use allotment::device::{BufferDesc, DeviceError, QueueDevice as _, QueueIndex, Submission, TimelinePoint};
use allotment::gpu::{Frame, Gpu, GpuDesc, SubmitError};
use allotment::lifetime::PooledCommandAllocator;
use allotment::memory::Buffer;
use allotment::upload::{ReadHandle, ReadbackTicket};
use allotment::{Alignment, AllocationOptions, MemoryUsage};

pub(crate) const QUEUE: QueueIndex = QueueIndex(0);

pub(crate) type Commands = PooledCommandAllocator<CommandAllocator>;

pub(crate) struct Rig {
    pub(crate) device: SimulatedGpu,
    pub(crate) gpu: Gpu<SimulatedGpu>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(GpuDesc::default())
    }

    pub(crate) fn with(desc: GpuDesc) -> Self {
        Self::on("discrete-no-bar", desc)
    }

    pub(crate) fn on(profile: &str, desc: GpuDesc) -> Self {
        let device = SimulatedGpu::new(Profile::named(profile).unwrap());
        let gpu = Gpu::new(device.clone(), desc).unwrap();
        Self { device, gpu }
    }

    /// A queue beside [`QUEUE`].
    pub(crate) fn other_queue(&self) -> QueueIndex {
        assert!(self.gpu.device().profile().queues.len() > 1, "the profile has one queue");
        QueueIndex(1)
    }

    pub(crate) fn buffer(&self, size: u64) -> Buffer<SimulatedGpu> {
        self.gpu.create_buffer(&BufferDesc::new(size), &options()).unwrap()
    }

    /// Submits a frame without commands. Returns the points that it waits for.
    pub(crate) fn draw(&self) -> Vec<TimelinePoint> {
        let frame = self.gpu.begin_frame().unwrap();
        let mut waited = Vec::new();
        let submit = |queue, waits: &[TimelinePoint]| {
            waited = waits.to_vec();
            // SAFETY: there is nothing in it.
            unsafe { self.device.submit(queue, &Submission { waits, ..Submission::default() }) }
        };
        frame.submit(QUEUE, submit).unwrap();
        frame.end().unwrap();
        waited
    }

    /// Submits commands of a frame.
    pub(crate) fn submit(
        &self,
        frame: &Frame<SimulatedGpu>,
        commands: &Commands,
    ) -> Result<TimelinePoint, SubmitError<DeviceError>> {
        // SAFETY: what was recorded is alive until its submission has completed, by the deletion queue; and the
        // commands are of this frame.
        let submit = |queue, waits: &[_]| unsafe { self.device.submit_commands(queue, waits, &[commands]) };
        frame.submit(commands.queue(), submit)
    }

    /// Copies bytes to a readback range in a submission of the frame.
    pub(crate) fn read(
        &self,
        frame: &Frame<SimulatedGpu>,
        from: (&SimulatedBuffer, u64),
        size: u64,
    ) -> ReadbackTicket {
        let commands = frame.command_allocator(QUEUE).unwrap();
        let mut ring = self.gpu.readback().unwrap();
        let ticket = ring.allocate(size, Alignment::new(16).unwrap()).unwrap();
        commands.copy_buffer(from, (ring.buffer(), ticket.offset()), size);
        let point = self.submit(frame, &commands).unwrap();
        ring.close(point);
        ticket
    }

    /// Waits for what a ticket of the ring is for.
    pub(crate) fn copied(&self, ticket: &ReadbackTicket) -> Vec<u8> {
        self.gpu.wait_idle().unwrap();
        let mut bytes = vec![0; ticket.size() as usize];
        self.gpu.readback().unwrap().read(ticket, &mut bytes).unwrap();
        bytes
    }

    /// Waits for what is read.
    pub(crate) fn bytes(&self, read: &ReadHandle) -> Vec<u8> {
        self.gpu.wait_idle().unwrap();
        read.bytes().unwrap()
    }

    /// Drops the `Gpu`. Nothing is left, and the device found no mistake.
    pub(crate) fn finish(self) {
        self.gpu.wait_idle().unwrap();
        drop(self.gpu);
        assert_eq!(self.device.validation_errors(), Vec::<String>::new());
        let usage = self.device.usage();
        assert_eq!((usage.memory_objects, usage.buffers), (0, 0));
    }
}

pub(crate) fn options() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("test")
}

use super::*;
use crate::MemoryUsage;
use crate::device::DeviceError;
use crate::device::simulated::{Profile, SimulatedGpu};
use crate::gpu::{Gpu, GpuDesc};

#[test]
fn each_page_of_memory_is_at_one_address_whatever_is_created_dropped_trimmed_and_refused() {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let gpu = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let options = MemoryUsage::GpuOnly.into();
    let whole = ExpandableBuffer::new(gpu.memory(), BufferDesc::new(1 << 30), options).unwrap();
    let (mut live, mut number) = (Vec::new(), 1_u64);
    let mut below = |end: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) % end
    };
    for _ in 0..2000 {
        if below(5) == 0 {
            device.fail_call(1 + below(2), DeviceError::OutOfDeviceMemory);
        }
        match below(8) {
            0..=3 => {
                let most = 1 << (10 + below(15));
                live.extend(whole.create(1 + below(most), Alignment::ONE).ok());
            }
            4..=6 if !live.is_empty() => drop(live.swap_remove(below(live.len() as u64) as usize)),
            4..=6 => _ = gpu.reclaim(),
            _ => _ = whole.trim(),
        }
        device.clear_faults();
        locked(&whole.space.state).check_invariants();
    }
    assert_eq!(device.validation_errors(), [""; 0]);
}

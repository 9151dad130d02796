//! Which device an example runs on, as its arguments say.

use core::error::Error;
use core::time::Duration;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::vulkan::DescriptorModel;
use allotment::device::{DescriptorDevice, MemoryDevice as _};
use allotment_headless::DeviceChoice;
use allotment_headless::vulkan::{Descriptors, Headless, HeadlessDesc};
use allotment_readers::{DescriptorReader, SimulatedReader, VulkanReader};

use super::trace;

/// An example that runs on any device.
pub(crate) trait Example {
    /// The name of the example.
    const NAME: &'static str;

    /// How long a submission takes the simulated device at least. By default, frames are in flight when the next ones are
    /// made.
    const LATENCY: Duration = Duration::from_millis(1);

    /// Options of its own, each with what its value is: `--out FILE`.
    const OPTIONS: &'static [[&'static str; 2]] = &[];

    /// The example has nothing to show on a device without descriptors that shaders index.
    const NEEDS_DESCRIPTORS: bool = true;

    /// Runs, and compares what was read where `is_read`.
    fn run<D, R>(device: D, is_read: bool) -> Result<(), Box<dyn Error>>
    where
        D: DescriptorDevice + Clone,
        R: DescriptorReader<D>;
}

/// Writes the function `main`, which calls a function with the device that the arguments name. The caller has this module as
/// `device`.
macro_rules! main {
    ($name:literal, $run:ident) => {
        struct Main;

        impl device::Example for Main {
            const NAME: &'static str = $name;

            fn run<D, R>(device: D, is_read: bool) -> Result<(), Box<dyn core::error::Error>>
            where
                D: allotment::device::DescriptorDevice + Clone,
                R: allotment_readers::DescriptorReader<D>,
            {
                $run::<D, R>(device, is_read)
            }
        }

        fn main() -> Result<(), Box<dyn core::error::Error>> {
            device::run::<Main>()
        }
    };
}
pub(crate) use main;

pub(crate) fn run<E: Example>() -> Result<(), Box<dyn Error>> {
    let options: Vec<_> = E::OPTIONS.iter().map(|[option, _]| *option).collect();
    let arguments = trace::other_arguments(&options);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    run_on::<E>(&arguments)?;
    trace::finish()
}

fn run_on<E: Example>(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match *arguments {
        [] | ["simulated"] => simulated::<E>("discrete-no-bar"),
        ["simulated", profile] => simulated::<E>(profile),
        ["vulkan"] => vulkan::<E>(Descriptors::Best),
        ["vulkan", "sets"] => vulkan::<E>(Descriptors::Model(DescriptorModel::Sets)),
        ["d3d12"] => d3d12::<E>(true),
        ["d3d12", "unread"] => d3d12::<E>(false),
        _ => Err(format!(
            "{} [simulated [PROFILE] | vulkan [sets] | d3d12 [unread]]{} [--trace FILE | --live ADDRESS [--wait]]",
            E::NAME,
            E::OPTIONS.iter().map(|[option, value]| format!(" [{option} {value}]")).collect::<String>()
        )
        .into()),
    }
}

fn simulated<E: Example>(profile: &str) -> Result<(), Box<dyn Error>> {
    let device = SimulatedGpu::new(Profile::named(profile).ok_or("there is no such profile")?);
    device.set_latency(E::LATENCY);
    println!("device: {}", device.properties().name);
    E::run::<_, SimulatedReader>(device.clone(), true)?;
    // It watches as a validation layer does.
    if device.validation_errors().is_empty() {
        Ok(())
    } else {
        Err(device.validation_errors().join("\n").into())
    }
}

fn vulkan<E: Example>(descriptors: Descriptors) -> Result<(), Box<dyn Error>> {
    let choice = std::env::var("ALLOTMENT_VULKAN").map_or(DeviceChoice::Best, DeviceChoice::Named);
    let headless =
        Headless::open(&HeadlessDesc::default().with_device(choice).with_descriptors(descriptors))?;
    let device = headless.device().clone();
    let model = match device.descriptor_model() {
        Some(DescriptorModel::Buffer) => "descriptors in buffers",
        Some(DescriptorModel::Sets) => "descriptors in sets",
        None if !E::NEEDS_DESCRIPTORS => "without descriptors that shaders index",
        None => return Err("the device has no descriptors that shaders index".into()),
    };
    println!("device: {}, {model}", device.properties().name);
    let is_read = device.descriptor_model().is_some();
    E::run::<_, VulkanReader>(device, is_read)
}

/// Where shaders do not see descriptors (Wine's, over some Vulkan), all else is tried without reading.
#[cfg(windows)]
fn d3d12<E: Example>(is_read: bool) -> Result<(), Box<dyn Error>> {
    use allotment_headless::d3d12::{Headless, HeadlessDesc};
    use allotment_readers::D3d12Reader;
    let device = Headless::open(&HeadlessDesc::default())?.device().clone();
    println!("device: {}", device.properties().name);
    if is_read { E::run::<_, D3d12Reader>(device, true) } else { E::run::<_, unread::Unread>(device, false) }
}

#[cfg(not(windows))]
fn d3d12<E: Example>(_: bool) -> Result<(), Box<dyn Error>> {
    Err(format!("{}: Direct3D 12 is for Windows", E::NAME).into())
}

#[cfg(windows)]
mod unread {
    use allotment::device::QueueDevice as _;
    use allotment::device::d3d12::{Descriptor, Device, ImageViewDesc, ResourceInfo};
    use allotment::device::{BufferDesc, DeviceError, QueueIndex, Submission, TimelinePoint, TimelineValue};
    use allotment_readers::{D3d12Reader, DescriptorReader, Read, Sample, SampleList, TargetFormats};
    use windows::Win32::Graphics::Direct3D12::{D3D12_RESOURCE_STATES, ID3D12Resource};

    /// Reads nothing.
    pub(super) struct Unread(Device);

    impl DescriptorReader<Device> for Unread {
        type TextureView = ();

        const SAMPLED: D3D12_RESOURCE_STATES = D3d12Reader::SAMPLED;
        const COPIED_FROM: D3D12_RESOURCE_STATES = D3d12Reader::COPIED_FROM;
        const RGBA8: u32 = D3d12Reader::RGBA8;
        const BC7: Option<u32> = D3d12Reader::BC7;
        const TARGETS: TargetFormats = D3d12Reader::TARGETS;

        fn new(device: &Device, _: u32) -> Result<Self, DeviceError> {
            Ok(Self(device.clone()))
        }

        fn buffer_info(&self, size: u64, _: bool) -> ResourceInfo<'static> {
            BufferDesc::new(size).into()
        }

        fn texture_view_info() -> ImageViewDesc {
            D3d12Reader::texture_view_info()
        }

        unsafe fn texture_view(&self, _: &ID3D12Resource) -> Result<(), DeviceError> {
            Ok(())
        }

        unsafe fn texture_descriptor<'a>(image: &'a ID3D12Resource, view: &'a ()) -> Descriptor<'a> {
            // SAFETY: the caller's promise.
            unsafe { D3d12Reader::texture_descriptor(image, view) }
        }

        unsafe fn submit(
            &self,
            queue: QueueIndex,
            waits: &[TimelinePoint],
            _: &[Read<'_, Device>],
        ) -> Result<TimelineValue, DeviceError> {
            // SAFETY: there is nothing in it.
            unsafe { self.0.submit(queue, &Submission { waits, ..Submission::default() }) }
        }

        unsafe fn sample(
            &self,
            queue: QueueIndex,
            waits: &[TimelinePoint],
            _: &Sample<'_, Device>,
        ) -> Result<TimelineValue, DeviceError> {
            // SAFETY: there are no reads.
            unsafe { self.submit(queue, waits, &[]) }
        }

        unsafe fn sample_list(
            &self,
            queue: QueueIndex,
            waits: &[TimelinePoint],
            _: &SampleList<'_, Device>,
        ) -> Result<TimelineValue, DeviceError> {
            // SAFETY: as above.
            unsafe { self.submit(queue, waits, &[]) }
        }
    }
}

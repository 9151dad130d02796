//! `allotment info`: a device's properties, and how its memory types rank for each memory usage.

mod text;

use allotment::device::{
    BufferDesc, BufferDevice as _, DedicatedNeed, Device, DeviceError, ImageDevice as _, MemoryProperties,
    QueueKind, Requirements,
};
use allotment::memory::preview::{MemoryTypeCandidate, Suitability};
use allotment::{Allocator, AllocatorDesc, MemoryUsage, ResourceKind};
use serde::Serialize;

use crate::args::InfoArgs;
use crate::failure::Failure;
use crate::target::{Machine, Target, Task, on_device};

/// Size of the sample buffer. The candidates do not depend on it.
const BUFFER: u64 = 64 << 10;

/// The JSON output.
#[derive(Serialize)]
struct Info<'a> {
    device: &'static str,
    /// The name that the device reports.
    device_name: &'a str,
    /// The profile of the simulated GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'static str>,
    heaps: Vec<HeapRow>,
    memory_types: Vec<TypeRow>,
    limits: LimitsRow,
    queues: Vec<&'static str>,
    memory_usages: Vec<UsageRow>,
}

/// Sizes in bytes.
#[derive(Serialize)]
struct HeapRow {
    size: u64,
    device_local: bool,
    /// The bytes that this process should stay within.
    budget: u64,
    /// The bytes that this process uses.
    usage: u64,
}

#[derive(Serialize)]
struct TypeRow {
    heap: u8,
    properties: Vec<String>,
}

/// Sizes in bytes.
#[derive(Serialize)]
struct LimitsRow {
    buffer_image_granularity: u64,
    non_coherent_atom_size: u64,
    max_allocation_count: u32,
    max_allocation_size: u64,
    image_copy_offset_alignment: u64,
    image_copy_row_alignment: u64,
    buffer_offset_alignment: u64,
}

/// The candidates for one memory usage and one kind of resource.
#[derive(Serialize)]
struct UsageRow {
    memory_usage: String,
    /// `buffer` or `optimal image`.
    resource: &'static str,
    /// The memory types that the device allows for such a resource; bit `i` is type `i`.
    allowed: u32,
    /// Whether the device needs or prefers dedicated memory for such a resource.
    dedicated: &'static str,
    /// The memory type that is tried first; `None` if none is suitable.
    chosen: Option<u8>,
    /// All memory types: the suitable ones in the order in which they are tried, then the others.
    types: Vec<CandidateRow>,
}

#[derive(Serialize)]
struct CandidateRow {
    memory_type: u8,
    heap: u8,
    /// Whether the type is suitable.
    suits: bool,
    /// Suitable types are tried in the order of their costs; `None` for others.
    cost: Option<u32>,
    why: String,
}

pub(crate) fn run(args: &InfoArgs) -> Result<(), Failure> {
    on_device(args.device.chosen(false)?, args)
}

impl Task for &InfoArgs {
    type Output = ();

    fn run(self, target: impl Target) -> Result<(), Failure> {
        run_on(&target, self)
    }
}

fn run_on<T: Target>(target: &T, args: &InfoArgs) -> Result<(), Failure> {
    let allocator = Allocator::new(target.device(), AllocatorDesc::default())?;
    let machine = target.machine();
    let info = Info::new(machine, memory_usages(target, &allocator)?);
    if args.json {
        say!("{}", serde_json::to_string(&info)?);
    } else {
        text::print(&machine.about, &info);
    }
    Ok(())
}

/// Returns the candidates for each memory usage, for a buffer and for an image.
fn memory_usages<T: Target>(target: &T, allocator: &Allocator<T::Device>) -> Result<Vec<UsageRow>, Failure> {
    let device = allocator.device();
    let refused =
        |error: DeviceError| Failure::Unexpected(format!("cannot query memory requirements: {error}"));
    let mut rows = Vec::new();
    for memory_usage in MemoryUsage::ALL {
        let buffer = device.buffer_requirements(&BufferDesc::new(BUFFER).into()).map_err(refused)?;
        rows.push(UsageRow::new(allocator, memory_usage, ResourceKind::Buffer, buffer));
        let image = device.image_requirements(&target.sample_image(memory_usage).into()).map_err(refused)?;
        rows.push(UsageRow::new(allocator, memory_usage, ResourceKind::OptimalImage, image));
    }
    Ok(rows)
}

impl<'a> Info<'a> {
    fn new(machine: &'a Machine, memory_usages: Vec<UsageRow>) -> Self {
        let properties = &machine.properties;
        let heaps = properties.heaps.iter().zip(&machine.budgets);
        let limits = properties.limits;
        Self {
            device: machine.device,
            device_name: &properties.name,
            profile: machine.profile,
            heaps: heaps
                .map(|(heap, budget)| HeapRow {
                    size: heap.size,
                    device_local: heap.device_local,
                    budget: budget.budget,
                    usage: budget.usage,
                })
                .collect(),
            memory_types: properties
                .memory_types
                .iter()
                .map(|memory_type| TypeRow {
                    heap: memory_type.heap.0,
                    properties: property_names(memory_type.properties),
                })
                .collect(),
            limits: LimitsRow {
                buffer_image_granularity: limits.buffer_image_granularity.get(),
                non_coherent_atom_size: limits.non_coherent_atom_size.get(),
                max_allocation_count: limits.max_allocation_count,
                max_allocation_size: limits.max_allocation_size,
                image_copy_offset_alignment: limits.image_copy_offset_alignment.get(),
                image_copy_row_alignment: limits.image_copy_row_alignment.get(),
                buffer_offset_alignment: limits.buffer_offset_alignment.get(),
            },
            queues: properties.queues.iter().map(|&kind| queue_name(kind)).collect(),
            memory_usages,
        }
    }
}

impl UsageRow {
    fn new<D: Device>(
        allocator: &Allocator<D>,
        memory_usage: MemoryUsage,
        kind: ResourceKind,
        requirements: Requirements,
    ) -> Self {
        let choices = allocator.explain(&requirements.with_kind(kind), &memory_usage.into());
        let types: Vec<_> = choices.iter().map(CandidateRow::from).collect();
        Self {
            memory_usage: memory_usage.to_string(),
            resource: if kind == ResourceKind::Buffer { "buffer" } else { "optimal image" },
            allowed: requirements.memory_types.0,
            dedicated: match requirements.dedicated {
                DedicatedNeed::None => "none",
                DedicatedNeed::Preferred => "preferred",
                DedicatedNeed::Required => "required",
            },
            chosen: types.first().filter(|first| first.suits).map(|first| first.memory_type),
            types,
        }
    }
}

impl From<&MemoryTypeCandidate> for CandidateRow {
    fn from(candidate: &MemoryTypeCandidate) -> Self {
        let cost = match candidate.suitability {
            Suitability::Suitable { cost, .. } => Some(cost),
            _ => None,
        };
        Self {
            memory_type: candidate.memory_type.0,
            heap: candidate.heap.0,
            suits: cost.is_some(),
            cost,
            why: candidate.suitability.to_string(),
        }
    }
}

/// Returns the names of properties, such as `device-local`.
pub(crate) fn property_names(properties: MemoryProperties) -> Vec<String> {
    properties.iter_names().map(|(name, _)| name.to_ascii_lowercase().replace('_', "-")).collect()
}

fn queue_name(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::Graphics => "graphics",
        QueueKind::Compute => "compute",
        QueueKind::Transfer => "transfer",
        _ => "other",
    }
}

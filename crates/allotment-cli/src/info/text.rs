//! The text output of `allotment info`.

use super::{CandidateRow, Info, UsageRow};
use crate::units::{bytes, count, percent};

pub(super) fn print(about: &str, info: &Info<'_>) {
    say!("{about}");
    say!();
    for (i, heap) in info.heaps.iter().enumerate() {
        let kind = if heap.device_local { "device-local" } else { "host" };
        let used = percent(heap.usage, heap.budget);
        let (size, budget) = (bytes(heap.size), bytes(heap.budget));
        say!("  heap {i}   {size:>10} {kind}, budget {budget}, {} ({used}) in use", bytes(heap.usage));
    }
    say!();
    for (i, memory_type) in info.memory_types.iter().enumerate() {
        let properties = match memory_type.properties.join(", ") {
            none if none.is_empty() => "no properties".to_owned(),
            properties => properties,
        };
        say!("  type {i:<2}  heap {}: {properties}", memory_type.heap);
    }
    say!();
    let limits = &info.limits;
    say!("  buffer-image granularity           {}", bytes(limits.buffer_image_granularity));
    say!("  non-coherent atom size             {}", bytes(limits.non_coherent_atom_size));
    let objects = match limits.max_allocation_count {
        u32::MAX => "no limit".to_owned(),
        most => count(most.into()),
    };
    say!("  max memory allocations             {objects}");
    say!("  max allocation size                {}", bytes(limits.max_allocation_size));
    say!("  image copy offset alignment        {}", bytes(limits.image_copy_offset_alignment));
    say!("  image copy row pitch alignment     {}", bytes(limits.image_copy_row_alignment));
    say!("  buffer offset alignment            {}", bytes(limits.buffer_offset_alignment));
    say!("  queues                             {}", info.queues.join(", "));
    say!();
    say!("Memory types for each memory usage, in the order in which the allocator tries them:");
    for of_usage in info.memory_usages.chunk_by(|a, b| a.memory_usage == b.memory_usage) {
        say!();
        say!("  {}", of_usage[0].memory_usage);
        match of_usage {
            [first, rest @ ..] if rest.iter().all(|other| same(first, other)) => {
                let both: Vec<_> = of_usage.iter().map(|row| row.resource).collect();
                print_types(&both.join(", "), first);
            }
            rows => rows.iter().for_each(|row| print_types(row.resource, row)),
        }
    }
}

/// Returns whether both rows print the same lines.
fn same(a: &UsageRow, b: &UsageRow) -> bool {
    let whys = |row: &UsageRow| -> Vec<_> {
        row.types.iter().map(|candidate| (candidate.memory_type, candidate.why.clone())).collect()
    };
    a.dedicated == b.dedicated && whys(a) == whys(b)
}

fn print_types(resources: &str, row: &UsageRow) {
    let dedicated = match row.dedicated {
        "none" => String::new(),
        need => format!(" (dedicated memory {need})"),
    };
    say!("    {resources}{dedicated}");
    if row.chosen.is_none() {
        say!("      no suitable memory type");
    }
    for (i, CandidateRow { memory_type, suits, why, .. }) in row.types.iter().enumerate() {
        let order = if *suits { format!("{}.", i + 1) } else { "–".to_owned() };
        say!("      {order:3} type {memory_type}: {why}");
    }
}

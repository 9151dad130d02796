//! What a device has, for people.

use super::{ChoiceRow, Info, IntentRow};
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
    say!("  granularity of buffers and images  {}", bytes(limits.buffer_image_granularity));
    say!("  atom of memory not host-coherent   {}", bytes(limits.non_coherent_atom_size));
    let objects = match limits.max_allocation_count {
        u32::MAX => "no limit".to_owned(),
        most => count(most.into()),
    };
    say!("  memory objects, at most            {objects}");
    say!("  bytes of one, at most              {}", bytes(limits.max_allocation_size));
    say!("  texels in a buffer begin at        {}", bytes(limits.image_copy_offset_alignment));
    say!("  and their rows are apart           {}", bytes(limits.image_copy_row_alignment));
    say!("  queues                             {}", info.queues.join(", "));
    say!();
    say!("Memory types for each memory usage, in the order in which they are tried:");
    for of_intent in info.memory_usages.chunk_by(|a, b| a.memory_usage == b.memory_usage) {
        say!();
        say!("  {}", of_intent[0].memory_usage);
        match of_intent {
            [first, rest @ ..] if rest.iter().all(|other| same(first, other)) => {
                let both: Vec<_> = of_intent.iter().map(|row| row.resource).collect();
                print_types(&both.join(", "), first);
            }
            rows => rows.iter().for_each(|row| print_types(row.resource, row)),
        }
    }
}

/// True when there is the same to say of both.
fn same(a: &IntentRow, b: &IntentRow) -> bool {
    let whys = |row: &IntentRow| -> Vec<_> {
        row.types.iter().map(|choice| (choice.memory_type, choice.why.clone())).collect()
    };
    a.dedicated == b.dedicated && whys(a) == whys(b)
}

fn print_types(resources: &str, row: &IntentRow) {
    let alone = match row.dedicated {
        "no matter" => String::new(),
        wish => format!(" (memory of its own: {wish})"),
    };
    say!("    {resources}{alone}");
    if row.chosen.is_none() {
        say!("      no memory type will do");
    }
    for (i, ChoiceRow { memory_type, suits, why, .. }) in row.types.iter().enumerate() {
        let order = if *suits { format!("{}.", i + 1) } else { "–".to_owned() };
        say!("      {order:3} type {memory_type}: {why}");
    }
}

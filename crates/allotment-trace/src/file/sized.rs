//! Events whose records have their length: what a program asked for, what else it did that decides where allocations
//! are, and the resources that share one.
//!
//! They are rare, and a reader that does not know one skips it. A later version may add fields to the end of each.

use allotment::device::{MemoryProperties, MemoryTypeIndex, MemoryTypeMask};
use allotment::events::{
    AllocationKey, BoundResource, Event, PoolId, RefusedRequest, RequestedOptions, StackId, TextId,
};
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use allotment::{Alignment, MemoryUsage};

use super::bytes::{Input, Wrong, put_difference, put_number};
use super::{codes, kind};

/// Appends the fields of an event. Returns the kind of its record; `None` for other events.
pub(super) fn put(event: &Event, out: &mut Vec<u8>) -> Option<u8> {
    Some(match *event {
        Event::PoolServes {
            pool,
            first,
            shard,
            memory_types,
            first_type,
            lifetime,
            optimal_images,
            movers,
        } => {
            put_numbers(out, &[pool.0.into(), first.0.into(), shard.into(), memory_types.0.into()]);
            out.extend([first_type.0, codes::of_lifetime(lifetime), optimal_images.into(), movers]);
            kind::POOL_SERVES
        }
        Event::PoolSized { pool, sizing, min_blocks, max_blocks } => {
            put_numbers(out, &[pool.0.into(), min_blocks.into(), max_blocks.into()]);
            match sizing {
                BlockSize::Fixed(bytes) => put_numbers(out, &[0, bytes]),
                BlockSize::Growing(sizes) => put_numbers(
                    out,
                    &[
                        1,
                        sizes.smallest,
                        sizes.largest,
                        sizes.growth_divisor,
                        sizes.dedicated_threshold_divisor,
                    ],
                ),
            }
            kind::POOL_SIZED
        }
        Event::PoolRules { pool, empty_blocks, alignment, budget, ignores_granularity, separate_movable } => {
            let EmptyBlockPolicy { frames, kept_bytes, kept_divisor, keeps_peak, .. } = empty_blocks;
            put_numbers(out, &[pool.0.into(), frames.into(), kept_bytes, kept_divisor]);
            out.extend([alignment.log2() as u8, codes::of_budget(budget)]);
            out.extend([u8::from(ignores_granularity), u8::from(separate_movable)]);
            // Hardly any pool does not, and recordings of before it was known end here.
            if !keeps_peak {
                out.push(0);
            }
            kind::POOL_RULES
        }
        Event::PoolReset { pool } => {
            put_number(out, pool.0.into());
            kind::POOL_RESET
        }
        Event::Joined { pool } => {
            put_number(out, pool.0.into());
            kind::JOINED
        }
        Event::TimePassed { sixtieths } => {
            put_number(out, sixtieths);
            kind::TIME_PASSED
        }
        Event::Trimmed => kind::TRIMMED,
        Event::Maintained => kind::MAINTAINED,
        Event::RoomReserved { pool, memory_type, requested, bytes } => {
            put_number(out, pool.0.into());
            out.push(memory_type.0);
            put_numbers(out, &[requested, bytes]);
            kind::ROOM_RESERVED
        }
        Event::Requested { allocation, options } => {
            put_number(out, allocation.0);
            out.extend(bytes_of_options(options));
            let RequestedOptions { required, preferred, avoided, last_heap, .. } = options;
            // Few requests name any, and recordings of before it was known end here.
            if last_heap || !(required | preferred | avoided).is_empty() {
                put_properties(out, &options);
                out.push(last_heap.into());
            }
            kind::REQUESTED
        }
        Event::RefusedRequest(asked) => {
            let pool = asked.pool.map_or(0, |pool| u64::from(pool.0) + 1);
            put_numbers(out, &[asked.size, asked.memory_types.0.into(), pool, asked.shard.into()]);
            put_properties(out, &asked.options);
            let (usage, kind) = (codes::of_usage(Some(asked.usage)), codes::of_resource(asked.kind));
            let lifetime = codes::of_lifetime(asked.lifetime);
            out.extend([asked.alignment.log2() as u8, usage, kind, lifetime, asked.movers]);
            out.extend(bytes_of_options(asked.options));
            kind::REFUSED_REQUEST
        }
        Event::Bound(bound) => {
            let BoundResource { resource, memory, offset, size, name, call_site, kind, active } = bound;
            put_numbers(out, &[resource.0, memory.0, offset, size, name.0.into(), call_site.0.into()]);
            out.extend([codes::of_resource(kind), active.into()]);
            kind::BOUND
        }
        Event::Unbound { resource } => {
            put_number(out, resource.0);
            kind::UNBOUND
        }
        Event::Displaced { resource, by } => {
            put_number(out, resource.0);
            put_difference(out, resource.0, by.0);
            kind::DISPLACED
        }
        Event::Activated { resource } => {
            put_number(out, resource.0);
            kind::ACTIVATED
        }
        Event::Stack { allocation, stack } => {
            put_numbers(out, &[allocation.0, stack.0.into()]);
            kind::STACK
        }
        _ => return None,
    })
}

/// Reads the fields of an event. `None` for a kind that is not one of these.
pub(super) fn read(kind: u8, mut input: Input<'_>) -> Result<Option<Event>, Wrong> {
    Ok(Some(match kind {
        kind::POOL_SERVES => Event::PoolServes {
            pool: pool(&mut input)?,
            first: pool(&mut input)?,
            shard: input.number32()?,
            memory_types: MemoryTypeMask(input.number32()?),
            first_type: MemoryTypeIndex(input.byte()?),
            lifetime: codes::lifetime(input.byte()?),
            optimal_images: input.byte()? != 0,
            // Before movable allocations had pools of their own, records ended here.
            movers: if input.is_empty() { 0 } else { input.byte()? },
        },
        kind::STACK => {
            Event::Stack { allocation: AllocationKey(input.number()?), stack: StackId(input.number32()?) }
        }
        kind::POOL_SIZED => Event::PoolSized {
            pool: pool(&mut input)?,
            min_blocks: input.number32()?,
            max_blocks: input.number32()?,
            sizing: sizing(&mut input)?,
        },
        kind::POOL_RULES => {
            let pool = pool(&mut input)?;
            let mut empty_blocks = EmptyBlockPolicy::NONE;
            empty_blocks.frames = input.number32()?;
            (empty_blocks.kept_bytes, empty_blocks.kept_divisor) = (input.number()?, input.number()?);
            let alignment = alignment(&mut input)?;
            let budget = codes::budget(input.byte()?);
            let ignores_granularity = input.byte()? != 0;
            // Before pools could keep movable allocations apart, records ended here.
            let separate_movable = !input.is_empty() && input.byte()? != 0;
            empty_blocks.keeps_peak = input.is_empty() || input.byte()? != 0;
            Event::PoolRules { pool, empty_blocks, alignment, budget, ignores_granularity, separate_movable }
        }
        kind::POOL_RESET => Event::PoolReset { pool: pool(&mut input)? },
        kind::JOINED => Event::Joined { pool: pool(&mut input)? },
        kind::TIME_PASSED => Event::TimePassed { sixtieths: input.number()? },
        kind::TRIMMED => Event::Trimmed,
        kind::MAINTAINED => Event::Maintained,
        kind::ROOM_RESERVED => Event::RoomReserved {
            pool: pool(&mut input)?,
            memory_type: MemoryTypeIndex(input.byte()?),
            requested: input.number()?,
            bytes: input.number()?,
        },
        kind::REQUESTED => {
            let allocation = AllocationKey(input.number()?);
            let mut options = options(&mut input)?;
            // Before their properties were known, records ended here.
            if !input.is_empty() {
                read_properties(&mut input, &mut options)?;
                options.last_heap = input.byte()? != 0;
            }
            Event::Requested { allocation, options }
        }
        kind::REFUSED_REQUEST => Event::RefusedRequest(refused_request(&mut input)?),
        kind::BOUND => Event::Bound(BoundResource {
            resource: allocation(&mut input)?,
            memory: allocation(&mut input)?,
            offset: input.number()?,
            size: input.number()?,
            name: text(&mut input)?,
            call_site: text(&mut input)?,
            kind: codes::resource(input.byte()?),
            active: input.byte()? != 0,
        }),
        kind::UNBOUND => Event::Unbound { resource: allocation(&mut input)? },
        kind::DISPLACED => {
            let resource = allocation(&mut input)?;
            Event::Displaced { resource, by: AllocationKey(input.difference(resource.0)?) }
        }
        kind::ACTIVATED => Event::Activated { resource: allocation(&mut input)? },
        _ => return Ok(None),
    }))
}

fn bytes_of_options(options: RequestedOptions) -> [u8; 8] {
    [
        codes::of_dedicated(options.dedicated),
        codes::of_need(options.need),
        codes::of_new_blocks(options.new_blocks),
        codes::of_budget(options.budget),
        codes::of_strategy(options.strategy),
        codes::of_side(options.side),
        options.skips_quick_lists.into(),
        options.with_resource.into(),
    ]
}

fn options(input: &mut Input<'_>) -> Result<RequestedOptions, Wrong> {
    Ok(RequestedOptions {
        dedicated: codes::dedicated(input.byte()?),
        need: codes::need(input.byte()?),
        new_blocks: codes::new_blocks(input.byte()?),
        budget: codes::budget(input.byte()?),
        strategy: codes::strategy(input.byte()?),
        side: codes::side(input.byte()?),
        skips_quick_lists: input.byte()? != 0,
        with_resource: input.byte()? != 0,
        ..RequestedOptions::default()
    })
}

fn put_properties(out: &mut Vec<u8>, options: &RequestedOptions) {
    let properties = [options.required, options.preferred, options.avoided];
    put_numbers(out, &properties.map(|properties| properties.bits().into()));
}

fn read_properties(input: &mut Input<'_>, options: &mut RequestedOptions) -> Result<(), Wrong> {
    for properties in [&mut options.required, &mut options.preferred, &mut options.avoided] {
        *properties = MemoryProperties::from_bits_truncate(input.number32()?);
    }
    Ok(())
}

fn refused_request(input: &mut Input<'_>) -> Result<RefusedRequest, Wrong> {
    let (size, memory_types) = (input.number()?, MemoryTypeMask(input.number32()?));
    let (pool, shard) = (input.number()?, input.number32()?);
    let pool = pool.checked_sub(1).map(|pool| u32::try_from(pool).map(PoolId)).transpose();
    let mut named = RequestedOptions::default();
    read_properties(input, &mut named)?;
    let RequestedOptions { required, preferred, avoided, .. } = named;
    Ok(RefusedRequest {
        size,
        memory_types,
        pool: pool.map_err(|_| "a pool's number is above 2^32")?,
        shard,
        alignment: alignment(input)?,
        // Every writer knows it; that of a later version may know another.
        usage: codes::usage(input.byte()?).unwrap_or(MemoryUsage::GpuOnly),
        kind: codes::resource(input.byte()?),
        lifetime: codes::lifetime(input.byte()?),
        movers: input.byte()?,
        options: RequestedOptions { required, preferred, avoided, ..options(input)? },
    })
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    for &number in numbers {
        put_number(out, number);
    }
}

fn pool(input: &mut Input<'_>) -> Result<PoolId, Wrong> {
    input.number32().map(PoolId)
}

fn allocation(input: &mut Input<'_>) -> Result<AllocationKey, Wrong> {
    input.number().map(AllocationKey)
}

fn text(input: &mut Input<'_>) -> Result<TextId, Wrong> {
    input.number32().map(TextId)
}

fn alignment(input: &mut Input<'_>) -> Result<Alignment, Wrong> {
    let bytes = 1_u64.checked_shl(input.byte()?.into()).unwrap_or(0);
    Alignment::new(bytes).map_err(|_| "an alignment is above 2^48")
}

fn sizing(input: &mut Input<'_>) -> Result<BlockSize, Wrong> {
    match input.number()? {
        0 => Ok(BlockSize::Fixed(input.number()?)),
        1 => {
            let mut sizes = BlockSizes::default();
            (sizes.smallest, sizes.largest) = (input.number()?, input.number()?);
            (sizes.growth_divisor, sizes.dedicated_threshold_divisor) = (input.number()?, input.number()?);
            Ok(BlockSize::Growing(sizes))
        }
        _ => Err("a pool's blocks have sizes of an unknown kind"),
    }
}

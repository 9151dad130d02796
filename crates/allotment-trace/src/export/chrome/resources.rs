//! Resources that share an allocation as asynchronous slices: a track each, with a slice inside of its own while the resource is
//! active.

use core::fmt;
use std::collections::BTreeMap;
use std::io;

use super::{FIRST_TYPE, Json, Writer, writer_text};
use crate::recording::{AllocationKey, BoundResource, Event, State, TextId};

/// The name of the slices inside.
const ACTIVE: &str = "active";

/// The slices that are open.
#[derive(Default)]
pub(super) struct Resources(BTreeMap<AllocationKey, Open>);

struct Open {
    process: u32,
    name: String,
    last_name: TextId,
    active: bool,
}

impl Resources {
    /// Writes what an event changed, which has been applied.
    pub(super) fn after<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        state: &State,
        event: &Event,
    ) -> fmt::Result {
        match *event {
            Event::Bound(is) => self.begin(writer, state, is),
            Event::Unbound { resource } => self.close(writer, resource),
            Event::Labelled { allocation, name, .. } => {
                self.0.entry(allocation).and_modify(|open| open.last_name = name);
                Ok(())
            }
            Event::Activated { resource } => self.set_active(writer, resource, true),
            Event::Displaced { resource, .. } => self.set_active(writer, resource, false),
            Event::Lost => self.end(writer),
            _ => Ok(()),
        }
    }

    /// Closes all slices.
    pub(super) fn end<W: io::Write>(&mut self, writer: &mut Writer<'_, '_, '_, W>) -> fmt::Result {
        while let Some((&resource, _)) = self.0.first_key_value() {
            self.close(writer, resource)?;
        }
        Ok(())
    }

    fn begin<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        state: &State,
        is: BoundResource,
    ) -> fmt::Result {
        let recording = writer.recording;
        let memory = state.allocations.get(&is.memory);
        let block = memory.and_then(|memory| state.blocks.get(&memory.is.block));
        let process = FIRST_TYPE + block.map_or(0, |block| u32::from(block.memory_type.0));
        let of_memory = memory.and_then(|memory| recording.text(memory.is.name)).unwrap_or("shared memory");
        // With the memory's, since viewers merge tracks of one name.
        let name = match recording.text(is.name) {
            Some(name) => format!("{name} in {of_memory}"),
            None => format!("resource {} in {of_memory}", is.resource.0),
        };
        slice(writer, "b", (process, is.resource), &name, |o| {
            o.object("args", |args| {
                args.number("resource", is.resource.0)?;
                args.number("allocation", is.memory.0)?;
                args.number("offset", is.offset)?;
                args.number("size", is.size)?;
                args.text("kind", super::super::kind_name(is.kind))?;
                writer_text(args, recording, "call site", is.call_site)
            })
        })?;
        self.0.insert(is.resource, Open { process, name, last_name: is.name, active: false });
        if is.active { self.set_active(writer, is.resource, true) } else { Ok(()) }
    }

    fn set_active<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        resource: AllocationKey,
        active: bool,
    ) -> fmt::Result {
        let Some(open) = self.0.get_mut(&resource).filter(|open| open.active != active) else {
            return Ok(());
        };
        open.active = active;
        slice(writer, if active { "b" } else { "e" }, (open.process, resource), ACTIVE, |_| Ok(()))
    }

    fn close<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        resource: AllocationKey,
    ) -> fmt::Result {
        self.set_active(writer, resource, false)?;
        let Some(open) = self.0.remove(&resource) else { return Ok(()) };
        let recording = writer.recording;
        slice(writer, "e", (open.process, resource), &open.name, |o| {
            o.object("args", |args| writer_text(args, recording, "last name", open.last_name))
        })
    }
}

/// Writes an event of the track of a resource.
fn slice<W: io::Write>(
    writer: &mut Writer<'_, '_, '_, W>,
    phase: &str,
    (process, resource): (u32, AllocationKey),
    name: &str,
    fill: impl FnOnce(&mut Json<'_, '_, W>) -> fmt::Result,
) -> fmt::Result {
    let now = writer.now;
    writer.at(now, phase, process, 0, name, |o| {
        o.text("cat", "memory")?;
        o.object("id2", |id| id.text("local", format_args!("resource {}", resource.0)))?;
        fill(o)
    })
}

//! GFXReconstruct: the calls of any captured program, as `gfxrecon-convert --format jsonl` prints them: those of Vulkan
//! here, those of Direct3D 12 in [`d3d12`].
//!
//! | call | becomes |
//! |---|---|
//! | `vkAllocateMemory`, `vkFreeMemory` | a block; dedicated, if its chain says so |
//! | `vkBindBufferMemory`, `vkBindImageMemory` and `…2` | an allocation, with the size and alignment that the driver required |
//! | `vkDestroyBuffer`, `vkDestroyImage` | the end of its allocation, unless its memory was freed before |
//! | `vkMapMemory`, `vkUnmapMemory` and `…2` | mappings of the allocations in the range |
//! | `vkSetDebugUtilsObjectNameEXT`, `vkDebugMarkerSetObjectNameEXT` | names; else an allocation is named as in CSV [traces](crate::Trace) |
//! | `vkQueuePresentKHR` | the end of a frame |
//! | `vkQueueSubmit` and `…2` | a submission; waits for fences, queues and devices: its completion |
//! | `vkGetPhysicalDevice…Properties` and `…2`, `vkCreateDevice` | the header; budgets |
//! | an allocation with an error code | a refusal |
//!
//! All other calls are skipped without being looked into. A call whose arguments have another form than all versions of the
//! converter write is left out, and [told](UnreadKind::NotUnderstood); handles that are null are numbers, JSON's null or
//! `VK_NULL_HANDLE`. The program's own allocator is not in a capture: what it
//! loses to alignment and rounding is free in the recording, its pools are not known, and there is one pool for each
//! memory type. Sparse bindings are not imported, which is told. A program that maps and unmaps a memory object of many resources in each
//! frame would fill the recording with that: after a million resources have been mapped so, the mappings of that object
//! are no longer followed, which a mark says.

mod d3d12;
mod d3d12_methods;
mod device;
mod json;
mod memory;
mod queues;
mod resources;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use allotment::events::Event;

use super::builder::{Builder, cut};
use super::limits::Budget;
use super::source::Source;
use super::{ImportError, ImportErrorKind, Position};
use crate::recording::{Recording, UnreadKind};
use d3d12::{Direct3D12, Method};
use device::Devices;
use memory::MemoryObjects;
use queues::Queues;

/// One line.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default, rename = "vkFunc", alias = "function")]
    call: Option<Call<'a>>,
    #[serde(borrow, default)]
    method: Option<Method<'a>>,
    #[serde(borrow, default)]
    meta: Option<Meta<'a>>,
    #[serde(borrow, default)]
    header: Option<FileHeader<'a>>,
}

/// What the capture says beside calls.
#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FileHeader<'a> {
    #[serde(borrow, default, rename = "gfxrecon-version")]
    version: Cow<'a, str>,
}

/// A call. Its arguments are parsed only if it matters.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default, rename = "return")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

impl Call<'_> {
    /// Returns the result code, without its quotation marks.
    fn result(&self) -> &str {
        self.result.map_or("", |raw| raw.get().trim_matches('"'))
    }

    fn failed(&self) -> bool {
        self.result().starts_with("VK_ERROR")
    }

    /// Returns true for a result of Vulkan: a code as a word or a number, an address, or none.
    fn has_known_result(&self) -> bool {
        let result = self.result();
        result.starts_with("VK_")
            || result.starts_with("0x")
            || matches!(result, "" | "null" | "true" | "false")
            || result.parse::<i128>().is_ok()
    }

    fn args(&self) -> &str {
        self.args.map_or("{}", RawValue::get)
    }
}

/// Why a call cannot be imported.
enum CallError {
    Json(serde_json::Error),
    /// The call has something that no version of the converter writes, or lacks what all write.
    Form(&'static str),
    Kind(ImportErrorKind),
}

impl From<serde_json::Error> for CallError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl From<ImportErrorKind> for CallError {
    fn from(kind: ImportErrorKind) -> Self {
        Self::Kind(kind)
    }
}

#[derive(Default)]
struct Import {
    devices: Devices,
    objects: MemoryObjects,
    queues: Queues,
    d3d12: Direct3D12,
    frames: u64,
}

pub(super) fn read(source: &mut Source<'_>, budget: &Budget) -> Result<Recording, ImportError> {
    let limits = budget.limits();
    source.limit(limits.text_bytes);
    let mut builder = Builder::new(budget);
    let mut import = Import::default();
    let mut producer = "GFXReconstruct".to_owned();
    while let Some((number, text)) = source.next_line(limits.line_bytes)? {
        let at = |kind| ImportError::new(Some(Position::Line(number)), kind);
        let line: Line<'_> = serde_json::from_str(text).map_err(|e| at(ImportErrorKind::json(&e)))?;
        if let Some(header) = &line.header {
            producer = format!("GFXReconstruct {}", cut(&header.version));
        }
        let (name, read) = match (&line.call, &line.method, &line.meta) {
            (Some(call), ..) => (&call.name, import.call(call, &mut builder)),
            (_, Some(call), _) => (&call.name, import.method(call, &mut builder)),
            (.., Some(meta)) => (&meta.name, import.meta(meta)),
            _ if line.header.is_some() || is_known(text) => continue,
            _ => {
                let text = "lines that are no call and nothing else that is known";
                let at_line = Some(Position::Line(number));
                builder.unread_at(UnreadKind::NotUnderstood, 1, text, at_line).map_err(at)?;
                continue;
            }
        };
        // The line as a whole is JSON, and the others can be read without it.
        let why = match read {
            Ok(()) => continue,
            Err(CallError::Json(error)) => ImportErrorKind::json_value(&error).to_string(),
            Err(CallError::Form(why)) => why.to_owned(),
            Err(CallError::Kind(kind)) => return Err(at(kind)),
        };
        let text = format!("arguments of `{}` have an unknown form, and it is left out: {why}", cut(name));
        builder.unread_at(UnreadKind::NotUnderstood, 1, &text, Some(Position::Line(number))).map_err(at)?;
    }
    let header = import.devices.into_header();
    builder.recording.header = import.d3d12.header(&header).unwrap_or(header);
    builder.recording.header.producer = producer;
    Ok(builder.recording)
}

/// Calls with "Memory" in their name that begin so say nothing about what is allocated.
const ASKS_OR_COPIES: [&str; 6] =
    ["vkGet", "vkCmd", "vkCopy", "vkFlush", "vkInvalidate", "vkSetDeviceMemoryPriority"];

/// Returns true for a line that says something of the capture and no call.
fn is_known(line: &str) -> bool {
    let keys: Option<BTreeMap<Cow<'_, str>, IgnoredAny>> = serde_json::from_str(line).ok();
    keys.is_some_and(|keys| ["annotation", "frame", "state"].iter().any(|&key| keys.contains_key(key)))
}

impl Import {
    /// Reads a call of Direct3D 12 or DXGI.
    fn method(&mut self, call: &Method<'_>, builder: &mut Builder<'_>) -> Result<(), CallError> {
        if self.d3d12.call(call, &mut self.queues, builder)? {
            self.frame_end(builder)?;
        }
        Ok(())
    }

    fn meta(&mut self, meta: &Meta<'_>) -> Result<(), CallError> {
        match (&*meta.name, meta.args) {
            ("DxgiAdapterInfo", Some(args)) => self.d3d12.adapter(args.get()),
            _ => Ok(()),
        }
    }

    fn frame_end(&mut self, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let number = self.frames;
        self.frames += 1;
        Ok(builder.push(Event::FrameEnd { number })?)
    }

    fn call(&mut self, call: &Call<'_>, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let (args, objects, queues) = (call.args(), &mut self.objects, &mut self.queues);
        match &*call.name {
            _ if call.result().starts_with("Unhandled") => {
                Err(CallError::Form("the converter did not know its result"))
            }
            _ if !call.has_known_result() => Err(CallError::Form("its result is none of Vulkan's")),
            "vkAllocateMemory" => objects.allocate(call, builder),
            // It did not complete, so that it may have no arguments of its end.
            _ if call.failed() && &*call.name != "vkQueuePresentKHR" => Ok(()),
            "vkGetPhysicalDeviceProperties"
            | "vkGetPhysicalDeviceProperties2"
            | "vkGetPhysicalDeviceProperties2KHR" => self.devices.properties(args, builder),
            "vkGetPhysicalDeviceMemoryProperties"
            | "vkGetPhysicalDeviceMemoryProperties2"
            | "vkGetPhysicalDeviceMemoryProperties2KHR" => self.devices.memory(args, builder),
            "vkCreateDevice" => Ok(self.devices.created(args)?),
            "vkCreateBuffer" => objects.create_buffer(args, builder),
            "vkCreateImage" => objects.create_image(args, builder),
            "vkDestroyBuffer" | "vkDestroyImage" => objects.destroy_one(args, builder),
            "vkGetBufferMemoryRequirements"
            | "vkGetBufferMemoryRequirements2"
            | "vkGetBufferMemoryRequirements2KHR"
            | "vkGetImageMemoryRequirements"
            | "vkGetImageMemoryRequirements2"
            | "vkGetImageMemoryRequirements2KHR" => objects.requirements(args),
            "vkFreeMemory" => objects.free(args, builder),
            "vkBindBufferMemory" | "vkBindImageMemory" => objects.bind(call, builder),
            "vkBindBufferMemory2"
            | "vkBindBufferMemory2KHR"
            | "vkBindImageMemory2"
            | "vkBindImageMemory2KHR" => objects.bind_several(call, builder),
            "vkMapMemory" => objects.map(args, builder),
            "vkUnmapMemory" => objects.unmap(args, builder),
            "vkMapMemory2" | "vkMapMemory2KHR" => objects.map2(args, true, builder),
            "vkUnmapMemory2" | "vkUnmapMemory2KHR" => objects.map2(args, false, builder),
            "vkSetDebugUtilsObjectNameEXT" | "vkDebugMarkerSetObjectNameEXT" => objects.name(args, builder),
            "vkQueueSubmit" | "vkQueueSubmit2" | "vkQueueSubmit2KHR" => queues.submit(args, builder),
            "vkWaitForFences" if call.result() == "VK_SUCCESS" => queues.waited(args, builder),
            "vkGetFenceStatus" if call.result() == "VK_SUCCESS" => queues.fence_status(args, builder),
            "vkDestroyFence" => queues.fence_destroyed(args, builder),
            "vkQueueWaitIdle" => queues.queue_idle(args, builder),
            "vkDeviceWaitIdle" => queues.device_idle(builder),
            "vkQueuePresentKHR" => self.frame_end(builder),
            "vkQueueBindSparse" => {
                Ok(builder.unread(UnreadKind::NotUnderstood, 1, "sparse bindings are not imported")?)
            }
            name if name.contains("Memory")
                && !ASKS_OR_COPIES.iter().any(|start| name.starts_with(start)) =>
            {
                let text = format!("`{}` is about memory, and is not imported", cut(name));
                Ok(builder.unread(UnreadKind::NotUnderstood, 1, &text)?)
            }
            _ => Ok(()),
        }
    }
}

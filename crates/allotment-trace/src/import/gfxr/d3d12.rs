//! Direct3D 12 calls of a capture: heaps become blocks, committed resources dedicated blocks, placed resources allocations
//! in their heap.
//!
//! | call | becomes |
//! |---|---|
//! | `CreateHeap`, `CreateHeap1` | a block |
//! | `CreateCommittedResource` … `3` | a dedicated block and its allocation |
//! | `CreatePlacedResource` … `2` | an allocation at its offset |
//! | `Release` that returns 0 | the end of a heap or resource; a heap stays as long as a resource that is placed in it |
//! | `GetResourceAllocationInfo` … `3` | the size and alignment of resources with the same description |
//! | `Map`, `Unmap`, `SetName` | mappings, names |
//! | `ExecuteCommandLists`, `Signal` of a queue, `GetCompletedValue` | submissions, and their completion |
//! | `Present`, `Present1` | the end of a frame |
//! | `GetDesc` of an adapter, `QueryVideoMemoryInfo`, `CheckFeatureSupport` | the header; budgets |
//!
//! A capture has the size of a heap and not that of a resource. Where the program never asked for it, a buffer has its width
//! rounded up to 64 KiB, as Direct3D 12 says; the size of a texture is not known then, and it is left out, which
//! [`Recording::unread`](crate::recording::Recording::unread) tells.
//!
//! Direct3D 12 has no memory types: the heap types take their place, in the order in which dumps of D3D12MA have them.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;

use allotment::device::{MemoryHeapIndex, MemoryTypeIndex};
use allotment::events::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, RefusalReason, TextId,
};
use allotment::{Alignment, ResourceKind};

use super::super::builder::{Builder, cut};
use super::super::d3d12_heaps::{HEAP_TYPES, heaps_of};
use super::json::{Flags, Num, present};
use super::queues::Queues;
use super::{CallError, d3d12_methods};
use crate::recording::{Api, Header, MemoryType, UnreadKind};
use crate::usage_flags;

/// The memory of an object in the tables, about; of a description with its size; and of a signal.
const OBJECT_BYTES: usize = 320;
const DESCRIPTION_BYTES: usize = 320;
const SIGNAL_BYTES: usize = 96;

/// The alignment of a resource, and what the sizes of buffers and heaps are rounded up to.
const RESOURCE_ALIGNMENT: u64 = 65536;

/// A call of a method.
#[derive(Deserialize)]
pub(super) struct Method<'a> {
    #[serde(borrow)]
    pub(super) name: std::borrow::Cow<'a, str>,
    #[serde(default)]
    object: Option<Object>,
    #[serde(borrow, default, rename = "return")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    #[serde(rename = "type")]
    kind: String,
    handle: Num,
}

impl<'a> Method<'a> {
    fn args<T: Deserialize<'a>>(&self) -> Result<T, CallError> {
        Ok(serde_json::from_str(self.args.map_or("{}", RawValue::get))?)
    }

    /// Returns the result code, without its quotation marks.
    fn result(&self) -> &str {
        self.result.map_or("", |raw| raw.get().trim_matches('"'))
    }

    fn failed(&self) -> bool {
        !matches!(self.result(), "S_OK" | "S_FALSE" | "" | "0" | "0x0")
    }

    /// Returns an error for a result that is neither success nor a failure, as a word or a number.
    fn check_result(&self) -> Result<(), CallError> {
        let result = self.result();
        let is_failure =
            ["E_", "DXGI_", "D3D12_", "D3D10_", "D3D11_", "0x"].iter().any(|start| result.starts_with(start));
        if !self.failed() || is_failure || result.parse::<i64>().is_ok() {
            Ok(())
        } else {
            Err(CallError::Form("its result is none of Direct3D's"))
        }
    }

    fn of(&self, kind: &str) -> bool {
        self.object.as_ref().is_some_and(|object| object.kind.starts_with(kind))
    }

    /// Returns an error for a call about memory without what each version of the converter writes.
    fn check_form(&self, of_device: bool) -> Result<(), CallError> {
        let name = &*self.name;
        let creates = ["CreateHeap", "CreateCommittedResource", "CreatePlacedResource"];
        let creates = creates.iter().any(|start| name.starts_with(start));
        let others =
            ["Release", "SetName", "Map", "Unmap", "ExecuteCommandLists", "Signal", "GetCompletedValue"];
        if !creates && !others.contains(&name) {
            return Ok(());
        }
        if creates && !of_device {
            return Err(CallError::Form("its object is no device"));
        }
        if !["ID3D", "IDXGI", "IUnknown"].iter().any(|start| self.of(start)) {
            return Err(CallError::Form("its object is of no interface of Direct3D 12 or DXGI"));
        }
        if self.handle() == 0 {
            return Err(CallError::Form("its object has no handle"));
        }
        // `Release` and `GetCompletedValue` return numbers.
        if creates || matches!(name, "Map" | "Signal" | "SetName") { self.check_result() } else { Ok(()) }
    }

    /// Returns true for a method of a device of any version. Other interfaces begin with the same word, such as those of DRED.
    fn of_device(&self) -> bool {
        let kind = self.object.as_ref().and_then(|object| object.kind.strip_prefix("ID3D12Device"));
        kind.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Returns the object whose method it is; 0 where the capture has none.
    fn handle(&self) -> u64 {
        self.object.as_ref().map_or(0, |object| object.handle.0)
    }
}

#[derive(Default)]
pub(super) struct Direct3D12 {
    /// A call of Direct3D 12 was there.
    used: bool,
    objects: HashMap<u64, Live>,
    heaps: HashMap<BlockId, Heap>,
    /// Size and alignment, by description.
    sizes: HashMap<String, (u64, Alignment)>,
    /// By fence and value: the queue, and how many submissions there were before the signal.
    signals: HashMap<u64, BTreeMap<u64, (u64, u64)>>,
    pools: u8,
    device: String,
    /// Bytes of the GPU's own memory, and of the system's; whether it is one.
    video: u64,
    shared: u64,
    uma: bool,
}

/// A heap or a resource.
enum Live {
    Heap(BlockId),
    Resource { allocation: AllocationKey, category: TextId, maps: u32, memory: Memory },
}

/// What a resource is in.
enum Memory {
    /// A block of its own.
    Committed(BlockId),
    /// That of a heap, whose handle may be another's by now.
    Placed(BlockId),
}

/// A heap that exists, or had resources placed in it when it was released.
struct Heap {
    size: u64,
    placed: u64,
    released: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateHeap {
    p_desc: Option<HeapDesc>,
    #[serde(default, deserialize_with = "present")]
    ppv_heap: Option<Num>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HeapDesc {
    size_in_bytes: Num,
    #[serde(default)]
    properties: HeapProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct HeapProperties {
    #[serde(rename = "Type")]
    kind: String,
}

#[derive(Deserialize)]
struct CreateResource {
    #[serde(rename = "pHeapProperties")]
    properties: Option<HeapProperties>,
    #[serde(rename = "pHeap", default)]
    heap: Num,
    #[serde(rename = "HeapOffset", default, deserialize_with = "present")]
    offset: Option<Num>,
    #[serde(rename = "pDesc")]
    desc: Option<Desc>,
    #[serde(rename = "ppvResource", default, deserialize_with = "present")]
    resource: Option<Num>,
}

/// The description of a resource.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Desc {
    #[serde(default)]
    dimension: String,
    #[serde(default)]
    alignment: Num,
    width: Num,
    #[serde(default)]
    height: Num,
    #[serde(default)]
    depth_or_array_size: Num,
    #[serde(default)]
    mip_levels: Num,
    #[serde(default)]
    format: String,
    #[serde(default)]
    sample_desc: SampleDesc,
    #[serde(default)]
    layout: String,
    #[serde(default)]
    flags: Flags,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct SampleDesc {
    count: Num,
    quality: Num,
}

#[derive(Deserialize)]
struct AllocationInfoArgs {
    #[serde(rename = "pResourceDescs", default)]
    descs: Several<Desc>,
    #[serde(rename = "pResourceAllocationInfo1", default)]
    each: Option<Several<AllocationInfo>>,
}

/// An array, or the one structure that a pointer points to.
#[derive(Deserialize)]
#[serde(untagged)]
enum Several<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T> Several<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Self::Many(many) => many,
            Self::One(one) => vec![one],
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AllocationInfo {
    size_in_bytes: Num,
    #[serde(default)]
    alignment: Num,
}

#[derive(Deserialize)]
struct SetName {
    #[serde(rename = "Name", default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct Signal {
    #[serde(rename = "pFence", default)]
    fence: Num,
    #[serde(rename = "Value", default)]
    value: Num,
}

#[derive(Deserialize)]
struct AdapterArgs {
    #[serde(rename = "pDesc", alias = "adapter_desc", default)]
    desc: Option<AdapterDesc>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct AdapterDesc {
    description: String,
    dedicated_video_memory: Num,
    shared_system_memory: Num,
}

#[derive(Deserialize)]
struct FeatureArgs {
    #[serde(rename = "Feature", default)]
    feature: String,
    #[serde(rename = "pFeatureSupportData", default)]
    data: Option<Architecture>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Architecture {
    #[serde(rename = "UMA")]
    uma: Num,
}

#[derive(Deserialize)]
struct MemoryInfoArgs {
    #[serde(rename = "MemorySegmentGroup", default)]
    group: String,
    #[serde(rename = "pVideoMemoryInfo")]
    info: Option<MemoryInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MemoryInfo {
    budget: Num,
    current_usage: Num,
}

#[derive(Deserialize)]
struct Present {
    #[serde(rename = "Flags", alias = "PresentFlags", default)]
    flags: Flags,
}

impl Present {
    /// Returns true for a call that shows nothing, and asks whether it could.
    fn is_test(&self) -> bool {
        self.flags.bits(&["DXGI_PRESENT_TEST"]) & 1 != 0
    }
}

impl Desc {
    fn is_buffer(&self) -> bool {
        // Each texture has a height.
        self.dimension == "D3D12_RESOURCE_DIMENSION_BUFFER"
            || (self.dimension.is_empty() && self.height.0 == 0)
    }

    /// Returns what resources of the same size have in common.
    fn key(&self) -> String {
        let Self { dimension, alignment, format, sample_desc, layout, flags, .. } = self;
        let extent = (self.width.0, self.height.0, self.depth_or_array_size.0, self.mip_levels.0);
        let samples = (sample_desc.count.0, sample_desc.quality.0);
        format!("{dimension} {} {extent:?} {format} {samples:?} {layout} {flags}", alignment.0)
    }

    /// Returns what a reader is told of the resource.
    fn shape(&self) -> String {
        if self.is_buffer() {
            return match &self.flags {
                Flags::Bits(0) => String::new(),
                Flags::Bits(bits) => usage_flags::to_text(Api::Direct3D12, ResourceKind::Buffer, *bits),
                Flags::Names(names) if names == "D3D12_RESOURCE_FLAG_NONE" => String::new(),
                Flags::Names(names) => names.clone(),
            };
        }
        format!(
            "{} {}x{}x{} mips={}",
            cut(&self.format),
            self.width.0,
            self.height.0,
            self.depth_or_array_size.0,
            self.mip_levels.0
        )
    }

    fn kind(&self) -> ResourceKind {
        match (self.is_buffer(), &*self.layout) {
            (true, _) => ResourceKind::Buffer,
            (false, "D3D12_TEXTURE_LAYOUT_ROW_MAJOR") => ResourceKind::LinearImage,
            (false, _) => ResourceKind::OptimalImage,
        }
    }
}

impl Direct3D12 {
    /// Reads a call of a method. Returns true for the end of a frame.
    pub(super) fn call(
        &mut self,
        call: &Method<'_>,
        queues: &mut Queues,
        builder: &mut Builder<'_>,
    ) -> Result<bool, CallError> {
        self.used |= call.of("ID3D12");
        let device = call.of_device();
        call.check_form(device)?;
        match &*call.name {
            "CreateHeap" | "CreateHeap1" if device => self.create_heap(call, builder)?,
            "CreateCommittedResource"
            | "CreateCommittedResource1"
            | "CreateCommittedResource2"
            | "CreateCommittedResource3"
                if device =>
            {
                self.create_resource(call, false, builder)?;
            }
            "CreatePlacedResource" | "CreatePlacedResource1" | "CreatePlacedResource2" if device => {
                self.create_resource(call, true, builder)?;
            }
            // Others are memory that the capture does not describe: of another process, or a part of the program's.
            name if device && (name.starts_with("OpenExistingHeap") || name == "OpenSharedHandle") => {
                let text = format!("memory that `{name}` opens is not in the capture");
                builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
            }
            "UpdateTileMappings" | "CopyTileMappings" => {
                builder.unread(
                    UnreadKind::NotUnderstood,
                    1,
                    "tiles of reserved resources are not imported",
                )?;
            }
            name if name.starts_with("GetResourceAllocationInfo") && device => {
                self.allocation_info(call, builder)?;
            }
            "Release" if call.result() == "0" => self.released(call.handle(), builder)?,
            "SetName" => self.name(call, builder)?,
            "Map" if !call.failed() => self.map(call.handle(), true, builder)?,
            "Unmap" => self.map(call.handle(), false, builder)?,
            "ExecuteCommandLists" => queues.submitted(call.handle(), 0, builder)?,
            "Signal" if call.of("ID3D12CommandQueue") && !call.failed() => {
                self.signal(call, queues, builder)?;
            }
            "GetCompletedValue" => self.completed(call, queues, builder)?,
            "Present" | "Present1" if call.of("IDXGISwapChain") => {
                let args: Present = call.args()?;
                return Ok(!call.failed() && !args.is_test());
            }
            "GetDesc" | "GetDesc1" | "GetDesc2" | "GetDesc3" if call.of("IDXGIAdapter") => {
                self.adapter(call.args.map_or("{}", RawValue::get))?;
            }
            "CheckFeatureSupport" if device => {
                let args: FeatureArgs = match call.args() {
                    Ok(args) => args,
                    // Of a feature that has other data.
                    Err(_) => return Ok(false),
                };
                if args.feature.starts_with("D3D12_FEATURE_ARCHITECTURE") {
                    self.uma = args.data.is_some_and(|data| data.uma.0 != 0);
                }
            }
            "QueryVideoMemoryInfo" if !call.failed() => {
                let args: MemoryInfoArgs = call.args()?;
                if let Some(info) = args.info {
                    let local = args.group.ends_with("GROUP_LOCAL") || args.group == "0";
                    let heap = MemoryHeapIndex(u8::from(local && !self.uma));
                    let (usage, budget) = (info.current_usage.0, info.budget.0);
                    // A GPU without memory of its own has one heap, the local one.
                    if local || !self.uma {
                        builder.push(Event::Budget { heap, usage, budget })?;
                    }
                }
            }
            name if device && !d3d12_methods::is_known(name) => {
                let text = format!("`{}` is a method of the device that is not known", cut(name));
                builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
            }
            _ => {}
        }
        Ok(false)
    }

    /// Notes what a capture says of the adapter.
    pub(super) fn adapter(&mut self, args: &str) -> Result<(), CallError> {
        let args: AdapterArgs = serde_json::from_str(args)?;
        // The first one with memory of its own, unless there is none: the program chooses in the same way.
        let is_first = self.device.is_empty();
        let has_own = |desc: &AdapterDesc| self.video == 0 && desc.dedicated_video_memory.0 > 0;
        if let Some(desc) = args.desc.filter(|desc| is_first || has_own(desc)) {
            self.device = cut(&desc.description).to_owned();
            (self.video, self.shared) = (desc.dedicated_video_memory.0, desc.shared_system_memory.0);
        }
        Ok(())
    }

    /// Returns the header, if the capture is one of Direct3D 12.
    pub(super) fn header(&self, of_vulkan: &Header) -> Option<Header> {
        if !self.used {
            return None;
        }
        let types = HEAP_TYPES.iter().map(|(name, properties)| {
            let in_video = matches!(*name, "DEFAULT" | "GPU_UPLOAD" | "CUSTOM") && !self.uma;
            MemoryType { heap: u8::from(in_video), properties: properties.bits() }
        });
        let mut header = of_vulkan.clone();
        header.api = Api::Direct3D12;
        header.device.clone_from(&self.device);
        header.memory_types = types.collect();
        header.heaps = heaps_of(self.video, self.shared, self.uma);
        Some(header)
    }

    fn refused(call: &Method<'_>, size: u64, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let reason = match call.result() {
            "E_OUTOFMEMORY" => RefusalReason::OutOfMemory,
            _ => RefusalReason::Other,
        };
        let name = builder.text(call.result())?;
        Ok(builder.push(Event::Refused { reason, requested: size, available: 0, largest_free: 0, name })?)
    }

    /// Returns the pool of a heap type, and the heap type as a memory type.
    fn pool(
        &mut self,
        properties: &HeapProperties,
        builder: &mut Builder<'_>,
    ) -> Result<(PoolId, MemoryTypeIndex), CallError> {
        let name = properties.kind.strip_prefix("D3D12_HEAP_TYPE_").unwrap_or_default();
        let index = HEAP_TYPES.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            // In the order of Direct3D 12, from 1.
            properties.kind.parse::<usize>().ok().and_then(|i| i.checked_sub(1)).unwrap_or(HEAP_TYPES.len())
        });
        let index = u8::try_from(index).unwrap_or(u8::MAX);
        if usize::from(index) >= HEAP_TYPES.len() {
            let text = format!("heap type `{}` is not known", cut(&properties.kind));
            builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
        }
        let index = u8::min(index, HEAP_TYPES.len() as u8);
        let pool = PoolId(u32::from(index));
        if self.pools & 1 << index == 0 {
            self.pools |= 1 << index;
            let name = builder.text(name)?;
            builder.push(Event::PoolCreated { pool, name, algorithm: None, custom: false })?;
        }
        Ok((pool, MemoryTypeIndex(index)))
    }

    fn create_heap(&mut self, call: &Method<'_>, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: CreateHeap = call.args()?;
        if call.failed() {
            let size = args.p_desc.map_or(0, |desc| desc.size_in_bytes.0);
            return Self::refused(call, size, builder);
        }
        let (Some(desc), Some(Num(handle))) = (args.p_desc, args.ppv_heap) else {
            return Err(CallError::Form("it has no description or no heap"));
        };
        // Direct3D 12 rounds it up.
        let stated = desc.size_in_bytes.0;
        let size = stated.checked_next_multiple_of(RESOURCE_ALIGNMENT).unwrap_or(stated);
        if handle == 0 {
            // The program asked whether it could.
            return Ok(());
        }
        self.released(handle, builder)?;
        let (pool, memory_type) = self.pool(&desc.properties, builder)?;
        let block = builder.new_block();
        let kind = BlockKind::Shared;
        builder.push(Event::BlockAllocated { block, pool, memory_type, kind, size })?;
        builder.budget.charge(OBJECT_BYTES)?;
        self.objects.insert(handle, Live::Heap(block));
        self.heaps.insert(block, Heap { size, placed: 0, released: false });
        Ok(())
    }

    fn create_resource(
        &mut self,
        call: &Method<'_>,
        placed: bool,
        builder: &mut Builder<'_>,
    ) -> Result<(), CallError> {
        let args: CreateResource = call.args()?;
        let Some(desc) = args.desc else {
            return if call.failed() {
                Self::refused(call, 0, builder)
            } else {
                Err(CallError::Form("it has no description"))
            };
        };
        let known = self.sizes.get(&desc.key()).copied();
        let rounded = desc.width.0.checked_next_multiple_of(RESOURCE_ALIGNMENT);
        let of_buffer = rounded.filter(|_| desc.is_buffer());
        let of_buffer = of_buffer.and_then(|size| Some((size, Alignment::new(RESOURCE_ALIGNMENT).ok()?)));
        let found = known.or(of_buffer);
        if call.failed() {
            return Self::refused(call, found.map_or(0, |(size, _)| size), builder);
        }
        let Some(Num(handle)) = args.resource else {
            return Err(CallError::Form("it has no resource"));
        };
        if handle == 0 {
            // The program asked whether it could.
            return Ok(());
        }
        // A capture that was cut can lack the end of the resource that had this handle.
        self.released(handle, builder)?;
        let Some((size, alignment)) = found else {
            let text = "textures whose size the capture does not say, as the program never called \
                        `GetResourceAllocationInfo` for them, are left out";
            return Ok(builder.unread(UnreadKind::NotUnderstood, 1, text)?);
        };
        let (block, offset, memory) = if placed {
            let block = match self.objects.get(&args.heap.0) {
                Some(&Live::Heap(block)) => Some(block),
                _ => None,
            };
            let heap = block.and_then(|block| Some((block, self.heaps.get_mut(&block)?)));
            let Some((block, heap)) = heap else {
                let text = "a resource was placed in a heap that was not created, and is left out";
                return Ok(builder.unread(UnreadKind::Contradicts, 1, text)?);
            };
            let Some(Num(offset)) = args.offset else {
                return Err(CallError::Form("it has no offset"));
            };
            if offset.checked_add(size).is_none_or(|end| end > heap.size) {
                let text = "a resource was placed beyond its heap, and is left out";
                return Ok(builder.unread(UnreadKind::Contradicts, 1, text)?);
            }
            heap.placed += 1;
            (block, offset, Memory::Placed(block))
        } else {
            let Some(properties) = &args.properties else {
                return Err(CallError::Form("it has no properties of a heap"));
            };
            let (pool, memory_type) = self.pool(properties, builder)?;
            let block = builder.new_block();
            let kind = BlockKind::DedicatedToResource;
            builder.push(Event::BlockAllocated { block, pool, memory_type, kind, size })?;
            (block, 0, Memory::Committed(block))
        };
        let category = builder.text(&desc.shape())?;
        let allocation = builder.new_allocation();
        builder.push(Event::Allocated(Allocated {
            allocation,
            block,
            offset,
            requested: size,
            occupied: size,
            user_data: 0,
            name: category,
            category,
            alignment,
            usage: None,
            kind: desc.kind(),
            placement: if placed { Placement::Unknown } else { Placement::DedicatedToResource },
            second_choice: false,
            movable: false,
        }))?;
        builder.budget.charge(OBJECT_BYTES)?;
        self.objects.insert(handle, Live::Resource { allocation, category, maps: 0, memory });
        Ok(())
    }

    fn allocation_info(&mut self, call: &Method<'_>, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: AllocationInfoArgs = call.args()?;
        let descs = args.descs.into_vec();
        let each = match (args.each, &*descs) {
            (Some(each), _) => each.into_vec(),
            // Of several, the call without a list returns their sum.
            (None, [_]) => {
                let Some(raw) = call.result else { return Ok(()) };
                vec![serde_json::from_str::<AllocationInfo>(raw.get())?]
            }
            (None, _) => return Ok(()),
        };
        for (desc, info) in descs.iter().zip(each) {
            // What cannot be created has the largest number as its size.
            let (size, Ok(alignment)) = (info.size_in_bytes.0, Alignment::new(info.alignment.0)) else {
                continue;
            };
            if size == u64::MAX {
                continue;
            }
            let key = desc.key();
            let bytes = DESCRIPTION_BYTES + key.len();
            if self.sizes.insert(key, (size, alignment)).is_none() {
                builder.budget.charge(bytes)?;
            }
        }
        Ok(())
    }

    /// The last reference to an object was released, or its handle is another's from now on.
    fn released(&mut self, handle: u64, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let Some(object) = self.objects.remove(&handle) else { return Ok(()) };
        builder.budget.refund(OBJECT_BYTES);
        match object {
            Live::Heap(block) => {
                self.heaps.entry(block).and_modify(|heap| heap.released = true);
                self.freed_if_unused(block, builder)
            }
            Live::Resource { allocation, memory, .. } => {
                builder.push(Event::Freed { allocation })?;
                match memory {
                    Memory::Committed(block) => Ok(builder.push(Event::BlockFreed { block })?),
                    Memory::Placed(block) => {
                        self.heaps.entry(block).and_modify(|heap| heap.placed -= 1);
                        self.freed_if_unused(block, builder)
                    }
                }
            }
        }
    }

    /// Ends a heap that was released, unless resources are placed in it.
    fn freed_if_unused(&mut self, block: BlockId, builder: &mut Builder<'_>) -> Result<(), CallError> {
        if self.heaps.get(&block).is_some_and(|heap| heap.released && heap.placed == 0) {
            self.heaps.remove(&block);
            builder.push(Event::BlockFreed { block })?;
        }
        Ok(())
    }

    fn name(&mut self, call: &Method<'_>, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let Some(&Live::Resource { allocation, category, .. }) = self.objects.get(&call.handle()) else {
            return Ok(());
        };
        let args: SetName = call.args()?;
        let name = match args.name.as_deref().unwrap_or_default() {
            "" => category,
            name => builder.text(name)?,
        };
        Ok(builder.push(Event::Labelled { allocation, name, category, user_data: 0 })?)
    }

    fn map(&mut self, handle: u64, is: bool, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let Some(Live::Resource { allocation, maps, .. }) = self.objects.get_mut(&handle) else {
            return Ok(());
        };
        // Programs unmap more often than they map, which Direct3D 12 allows.
        let count = if is { maps.saturating_add(1) } else { maps.saturating_sub(1) };
        if count != *maps {
            *maps = count;
            builder.push(Event::Mapped { allocation: *allocation, count })?;
        }
        Ok(())
    }

    /// A queue will signal a fence once its submissions until now are complete.
    fn signal(
        &mut self,
        call: &Method<'_>,
        queues: &Queues,
        builder: &mut Builder<'_>,
    ) -> Result<(), CallError> {
        let args: Signal = call.args()?;
        let queue = call.handle();
        if let Some(value) = queues.last(queue) {
            builder.budget.charge(SIGNAL_BYTES)?;
            self.signals.entry(args.fence.0).or_default().insert(args.value.0, (queue, value));
        }
        Ok(())
    }

    /// The program saw the value of a fence.
    fn completed(
        &mut self,
        call: &Method<'_>,
        queues: &mut Queues,
        builder: &mut Builder<'_>,
    ) -> Result<(), CallError> {
        // A lost device has the largest number.
        let Ok(value) = call.result().parse::<u64>() else { return Ok(()) };
        let Some(of_fence) = self.signals.get_mut(&call.handle()).filter(|_| value != u64::MAX) else {
            return Ok(());
        };
        let later = of_fence.split_off(&(value + 1));
        for (_, (queue, value)) in core::mem::replace(of_fence, later) {
            builder.budget.refund(SIGNAL_BYTES);
            queues.completed_of(queue, value, builder)?;
        }
        Ok(())
    }
}

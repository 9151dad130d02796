//! What the library says to a program that asks for something wrong. Each text names the resource, gives each size its unit, and
//! says what to do.
//!
//! A case is a call that is refused, the name that the text must contain, and words of the remedy. New refusals belong in here.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use core::fmt::Display;
use core::time::Duration;
use std::sync::Arc;

use allotment::descriptor::{Binding, BindingSet, ShaderVisibleHeapDesc};
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferUse, BufferViewDesc, CopyError, DescriptionError, DescriptionLimit,
    DescriptorTypeReason, DeviceError, ImageAspect, ImageDesc, ImagePart, MemoryHeapIndex, MemoryTypeIndex,
    MemoryTypeMask, QueueDevice as _, QueueIndex, SamplerDesc, SamplerError, Submission, TexelBlock,
    TexelBufferDesc, TexelBufferUse, TransferUsage,
};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::StackSide;
use allotment::memory::blocks::{BlockSize, BlockSizes};
use allotment::memory::defragmentation::{Defragmenter, DefragmenterDesc};
use allotment::memory::{BudgetPolicy, Dedicated, MappedBuffer, NewBlocks, PoolDesc, Transfer};
use allotment::upload::{ImageWrite, Uploader, UploaderDesc, WhenFull};
use allotment::{Alignment, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};

/// The name of every resource here. It is quoted in texts.
const NAME: &str = "mesh/tree";

const MIB: u64 = 1 << 20;

/// The cases, and what is wrong with the texts so far.
#[derive(Default)]
struct Cases {
    count: usize,
    wrong: Vec<String>,
}

impl Cases {
    /// Checks the text of a refusal. `name` is empty where there is no resource to name.
    fn refuses<T, E: Display>(&mut self, about: &str, result: Result<T, E>, name: &str, remedy: &str) {
        self.count += 1;
        let mut say = |why: &str, text: &str| self.wrong.push(format!("{about}: {why}\n        {text}"));
        let text = match result {
            Ok(_) => return say("it was accepted", ""),
            Err(error) => error.to_string(),
        };
        if text.matches(name).count() == 0 {
            say(&format!("{name:?} is missing"), &text);
        }
        // Once is enough: errors inside errors must not repeat it.
        if !name.is_empty() && text.matches(name).count() > 1 {
            say(&format!("{name:?} stands there twice"), &text);
        }
        if !text.contains(remedy) {
            say(&format!("it does not say {remedy:?}"), &text);
        }
        if let Some(number) = without_unit(&text) {
            say(&format!("{number} has no unit"), &text);
        }
        for phrase in ["the device does not support", "refused the resource", "tracker than the uploader's\n"]
        {
            if text.contains(phrase) {
                say("the library's own check blames the device", &text);
            }
        }
    }
}

/// Returns a number of three or more digits with no unit after it, and none before the range that it ends.
fn without_unit(text: &str) -> Option<&str> {
    const UNITS: [&str; 12] = [
        "bytes",
        "byte",
        "more bytes",
        "bytes,",
        "memory objects",
        "descriptors",
        "elements",
        "ms",
        "rows",
        "texels",
        "queues",
        "memory types",
    ];
    let words: Vec<_> = text.split(' ').collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let number = word.trim_matches(|c: char| c.is_ascii_punctuation());
        let digits =
            number.split("..").all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        let rest = words[at + 1..].join(" ");
        let measured = UNITS.iter().any(|unit| rest.starts_with(unit))
            || rest.starts_with("of ")
            || rest.starts_with("or ");
        let before = at.checked_sub(1).is_some_and(|at| ["bytes", "offset", "format"].contains(&words[at]));
        (digits && number.len() > 2 && !measured && !before).then_some(*word)
    })
}

fn named() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name(NAME)
}

fn gpu(profile: &str, desc: GpuDesc) -> (SimulatedGpu, Gpu<SimulatedGpu>) {
    let device = SimulatedGpu::new(Profile::named(profile).unwrap());
    let gpu = Gpu::new(device.clone(), desc).unwrap();
    (device, gpu)
}

fn finish(cases: &Cases, at_least: usize) {
    assert!(
        cases.wrong.is_empty(),
        "{} of {}:\n    {}",
        cases.wrong.len(),
        cases.count,
        cases.wrong.join("\n    ")
    );
    assert!(cases.count >= at_least, "{} cases", cases.count);
}

#[test]
fn a_number_of_bytes_needs_its_unit() {
    assert_eq!(without_unit("17592186044416 exceeds the limit"), Some("17592186044416"));
    assert_eq!(without_unit("exceeds the limit of 4096"), Some("4096"));
    assert_eq!(without_unit("4096 bytes exceed 17 bytes; heap 0, bytes 100..8192 of queue 50"), None);
}

#[test]
fn a_refused_description_is_named_with_units_and_a_remedy() {
    let (_device, gpu) = gpu("discrete-no-bar", GpuDesc::default());
    let o = named();
    let mut is = Cases::default();
    let buffer = |size| BufferDesc::new(size);
    is.refuses("a buffer of 0 bytes", gpu.create_buffer(&buffer(0), &o), NAME, "at least 1 byte");
    is.refuses(
        "a buffer larger than the card",
        gpu.create_buffer(&buffer(1 << 44), &o),
        NAME,
        "request less",
    );
    is.refuses("a buffer larger than all", gpu.create_buffer(&buffer(1 << 60), &o), NAME, "request less");
    is.refuses(
        "a mapped buffer of 0 bytes",
        gpu.create_mapped_buffer(&buffer(0), &o),
        NAME,
        "at least 1 byte",
    );
    is.refuses("an image of no width", gpu.create_image(&ImageDesc::new(0, 64, 4), &o), NAME, "at least 1");
    let image = |change: fn(&mut ImageDesc)| {
        let mut desc = ImageDesc::new(64, 64, 4);
        change(&mut desc);
        gpu.create_image(&desc, &o)
    };
    is.refuses("too many mip levels", image(|desc| desc.mip_levels = 9), NAME, "request less");
    is.refuses("three samples", image(|desc| desc.samples = 3), NAME, "choose 1, 2");
    is.refuses("texels of no bytes", image(|desc| desc.format = 0), NAME, "API's own description");
    is.refuses("an image larger than all", image(|desc| desc.extent = [1 << 30; 3]), NAME, "request less");
    let no_source = BufferDesc::new(4096).with_usage(SimulatedGpu::NO_TRANSFER_SRC);
    let relocatable = o.clone().relocatable();
    let refused = gpu.create_buffer(&no_source, &relocatable);
    is.refuses("a relocatable buffer without copies", refused, NAME, "VK_BUFFER_USAGE_TRANSFER_SRC_BIT");
    let mut mapped = o.clone();
    mapped.memory_types = MemoryTypeMask(1);
    let refused = gpu.create_mapped_buffer(&buffer(64), &mapped);
    is.refuses("a mapped buffer in memory that is not mapped", refused, NAME, "prefer");
    let allocator = gpu.allocator();
    is.refuses("a raw buffer of 0 bytes", allocator.create_buffer(&buffer(0), &o), NAME, "at least 1 byte");
    is.refuses(
        "a raw image of no width",
        allocator.create_image(&ImageDesc::new(0, 1, 4), &o),
        NAME,
        "at least 1",
    );
    is.refuses(
        "a unique mapped buffer",
        MappedBuffer::new(allocator, &buffer(0), &o),
        NAME,
        "at least 1 byte",
    );
    is.refuses("an alignment that is no power of two", Alignment::new(48), "", "power of two");
    finish(&is, 15);
}

#[test]
fn what_the_device_layer_refuses_has_units_and_a_remedy() {
    let mut is = Cases::default();
    let memory_type = MemoryTypeIndex(31);
    for (error, remedy) in [
        (DeviceError::QueueCannotCopy { queue: QueueIndex(3) }, "list only"),
        (DeviceError::WrongMemoryType { memory_type, allowed: MemoryTypeMask(7) }, "choose one"),
        (DeviceError::OutOfRange { offset: 4096, size: 200, available: 4200 }, "inside them"),
        (DeviceError::Misaligned { offset: 4100, alignment: 4096 }, "choose one"),
        (DeviceError::DedicatedRequired, "create both together"),
        (DeviceError::Destroyed, "keep it alive"),
        (DeviceError::AlreadyImported, "use that"),
        (DeviceError::HandleType { handle_types: 0x201, allowed: 0x200 }, "exactly one"),
        (DeviceError::NotShaderVisible, "copy the descriptors"),
        (CopyError::NoSuchSubresource { mip_level: 9, array_layer: 0 }.into(), "choose one"),
        (CopyError::OutsideLevel { mip_level: 2 }.into(), "a box inside it"),
        (CopyError::WrongTexel.into(), "pass that"),
        (CopyError::Rows { row_pitch: 1000, rows: 128 }.into(), "TexelBlock::row_pitch"),
        (CopyError::Multisampled.into(), "resolve it"),
        (CopyError::States.into(), "choose others"),
        (CopyError::NeedsGraphicsQueue.into(), "submit it to one"),
        (CopyError::NotCopyable.into(), "relocatable_image_info"),
        (CopyError::DifferentImages.into(), "create both"),
        (CopyError::Overlap.into(), "do not overlap"),
        (CopyError::ImageTwice.into(), "one after the other"),
        (CopyError::MissingUsage { missing: TransferUsage::SRC }.into(), "VK_BUFFER_USAGE_TRANSFER_SRC_BIT"),
        (CopyError::OtherFamily.into(), "release on the family"),
        (CopyError::QueueCannotRead.into(), "with the CPU"),
        (CopyError::QueueCannotWrite.into(), "with the CPU"),
        (DescriptionError::SampleCount { samples: 64, supported: 0b101 }.into(), "choose 1 or 4"),
        (DescriptionError::SeveralBindings.into(), "for each part"),
        (DescriptionError::ZeroDescriptors.into(), "at least 1"),
        (DescriptionError::DescriptorHeapBuffer.into(), "descriptor_heap_buffer"),
        (DescriptionError::DescriptorTypes.into(), "listed once"),
        (
            DescriptionError::DescriptorType { ty: 1, reason: DescriptorTypeReason::CombinedImageSampler }
                .into(),
            "from a `SamplerCache`",
        ),
        (
            DescriptionError::DescriptorType { ty: 10, reason: DescriptorTypeReason::InputAttachment }.into(),
            "ImageView",
        ),
        (DescriptionError::Sampler(wrong_sampler()).into(), "from 1 to 16"),
        (above(DescriptionLimit::DescriptorHeapCapacity), "request less"),
        (above(DescriptionLimit::SamplerAnisotropy), "request less"),
        (above(DescriptionLimit::SamplerLodBias), "request less"),
        (above(DescriptionLimit::Queues), "request less"),
    ] {
        is.refuses(&format!("{error:?}"), Err::<(), _>(error), "", remedy);
    }
    finish(&is, 36);
}

/// The error for a sampler of 17 samples.
fn wrong_sampler() -> SamplerError {
    SamplerDesc { max_anisotropy: 17, ..SamplerDesc::default() }.check().unwrap_err()
}

/// The error for 17 of something of which there are 16.
fn above(limit: DescriptionLimit) -> DeviceError {
    DescriptionError::AboveLimit { limit, requested: 17, most: 16 }.into()
}

#[test]
fn a_refused_allocation_is_named_with_units_and_a_remedy() {
    let (device, gpu) = gpu("discrete-no-bar", GpuDesc::default());
    let (_other_device, other) = self::gpu("discrete-no-bar", GpuDesc::default());
    let (allocator, o) = (gpu.allocator(), named());
    let mut is = Cases::default();
    let req = Requirements::new;
    is.refuses("0 bytes", allocator.allocate(&req(0), &o), NAME, "ask for at least 1");
    is.refuses("2^60 bytes", allocator.allocate(&req(1 << 60), &o), NAME, "bytes");
    is.refuses("2^40 bytes", allocator.allocate(&req(1 << 40), &o), NAME, "");
    is.refuses("a preview of 0 bytes", allocator.preview(&req(0), &o), NAME, "ask for at least 1");
    let none = req(64).with_memory_types(MemoryTypeMask(0));
    is.refuses("no memory type", allocator.allocate(&none, &o), NAME, "allow more");
    let never = o.clone().with_new_blocks(NewBlocks::NeverAllocate);
    is.refuses("no block", allocator.allocate(&req(64), &never), NAME, "allow new blocks");
    let mut upper = o.clone();
    upper.side = StackSide::Upper;
    is.refuses("the upper side", allocator.allocate(&req(64), &upper), NAME, "Algorithm::Linear");

    let memory_type = allocator.explain(&req(1), &o)[0].memory_type;
    let mut desc = PoolDesc::new([memory_type]);
    (desc.sizing, desc.max_blocks, desc.name) = (Some(BlockSize::Fixed(MIB)), 1, Some("signs".into()));
    let pool = allocator.create_pool(desc.clone()).unwrap();
    let inside = o.clone().with_pool(&pool);
    let first = gpu.create_buffer(&BufferDesc::new(600 << 10), &inside).unwrap();
    let make = |size| gpu.create_buffer(&BufferDesc::new(size), &inside);
    is.refuses("a full pool", make(600 << 10), NAME, "free something");
    is.refuses("larger than a block", make(2 << 20), NAME, "choose larger blocks");
    let dedicated = inside.clone().with_dedicated(Dedicated::Always);
    is.refuses("dedicated", gpu.create_buffer(&BufferDesc::new(64), &dedicated), NAME, "outside the pool");
    let relocatable = inside.clone().relocatable();
    let refused = gpu.making_room().create_buffer(&BufferDesc::new(900 << 10), &relocatable);
    is.refuses("nothing to gain", refused, NAME, "free something first");
    is.refuses(
        "a pool of another Gpu",
        other.create_buffer(&BufferDesc::new(64), &inside),
        NAME,
        "create one",
    );
    is.refuses("reset with a buffer in it", allocator.reset_pool(&pool), "signs", "destroy them");
    is.refuses("reset by another", other.allocator().reset_pool(&pool), "signs", "create one");
    is.refuses("destroy in use", allocator.destroy_pool(pool.clone()), "signs", "");
    is.refuses("destroy by another", other.allocator().destroy_pool(pool.clone()), "signs", "call the one");
    let pool_of = |types: &[u8], change: &dyn Fn(&mut PoolDesc)| {
        let mut desc = PoolDesc::new(types.iter().copied().map(MemoryTypeIndex));
        desc.name = Some("signs".into());
        change(&mut desc);
        allocator.create_pool(desc)
    };
    is.refuses("a pool of no type", pool_of(&[], &|_| ()), "signs", "one to 4");
    is.refuses("a pool of a type that is not there", pool_of(&[31], &|_| ()), "signs", "explain");
    let blocks = |desc: &mut PoolDesc| desc.sizing = Some(BlockSize::Fixed(0));
    is.refuses("a pool of blocks of 0 bytes", pool_of(&[0], &blocks), "signs", "at least 1 byte");
    let counts = |desc: &mut PoolDesc| (desc.min_blocks, desc.max_blocks) = (3, 2);
    is.refuses("a pool of too few blocks", pool_of(&[0], &counts), "signs", "lower the minimum");

    let mut limited = GpuDesc::default();
    limited.allocator.heap_limits = vec![(MemoryHeapIndex(0), 4 * MIB), (MemoryHeapIndex(1), 4 * MIB)];
    let (_limited_device, limited) = self::gpu("discrete-no-bar", limited);
    is.refuses(
        "a heap limit",
        limited.create_buffer(&BufferDesc::new(32 * MIB), &o),
        NAME,
        "raise the limit",
    );
    let tight_device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    tight_device.set_budget(MemoryHeapIndex(0), MIB);
    let tight = Gpu::new(tight_device, GpuDesc::default()).unwrap();
    let within = o.clone().with_budget(BudgetPolicy::WithinBudget);
    is.refuses("a budget", tight.create_buffer(&BufferDesc::new(64 * MIB), &within), NAME, "free something");
    device.lose_device();
    is.refuses("a lost device", gpu.create_buffer(&BufferDesc::new(8 * MIB), &o), NAME, "create a new one");
    let refused = allocator.allocate(&req(64 * MIB), &o);
    is.refuses("memory of a lost device", refused, NAME, "create a new one");
    drop(first);
    finish(&is, 24);
}

#[test]
fn a_refused_access_is_named_with_units_and_a_remedy() {
    let (device, gpu) = gpu("discrete-no-bar", GpuDesc::default());
    let (_other_device, other) = self::gpu("discrete-no-bar", GpuDesc::default());
    let (_same_device, same) = (device.clone(), Gpu::new(device.clone(), GpuDesc::default()).unwrap());
    let (allocator, o) = (gpu.allocator(), named());
    let up = MemoryUsage::Upload.with_name(NAME);
    let mut is = Cases::default();
    let b = gpu.create_buffer(&BufferDesc::new(4096), &o).unwrap();
    let visible = gpu.create_buffer(&BufferDesc::new(4096), &up).unwrap();
    let moves = gpu.create_buffer(&BufferDesc::new(4096), &o.clone().relocatable()).unwrap();
    let mapped = gpu.create_mapped_buffer(&BufferDesc::new(4096), &up).unwrap();
    for (about, b) in [("pinned", &b), ("relocatable", &moves), ("visible", &visible)] {
        let refused = gpu.uploads().write_buffer(b, 4000, &[0; 200]);
        is.refuses(&format!("upload past the end, {about}"), refused, NAME, "fewer");
        is.refuses("write past the end", b.write(4000, &[0; 200]), NAME, "fewer");
        is.refuses("read past the end", b.read(4000, &mut [0; 200]), NAME, "fewer");
        let refused = gpu.read_buffer(b, 4000, &mut [0; 200]);
        is.refuses("Gpu::read_buffer past the end", refused, NAME, "fewer");
        is.refuses("a read past the end", gpu.reads().read_buffer(b, 4090, 16), NAME, "fewer");
        is.refuses("a read of another Gpu's", other.reads().read_buffer(b, 0, 16), NAME, "another");
        is.refuses("read another Gpu's", other.read_buffer(b, 0, &mut [0; 16]), NAME, "another");
        is.refuses("upload to another Gpu's", other.uploads().write_buffer(b, 0, &[1]), NAME, "another");
        is.refuses(
            "upload to a Gpu's of the same device",
            same.uploads().write_buffer(b, 0, &[1]),
            NAME,
            "created it",
        );
    }
    is.refuses("the CPU writes to GpuOnly memory", b.write(0, &[1]), NAME, "upload the bytes");
    is.refuses("the CPU reads GpuOnly memory", moves.read(0, &mut [1]), NAME, "upload the bytes");
    is.refuses("mapped: write past the end", mapped.write(4096, &[0; 100]), NAME, "fewer");
    is.refuses("mapped: read past the end", mapped.read(4096, &mut [0; 100]), NAME, "fewer");

    let token = allocator.allocate(&Requirements::new(256), &o).unwrap();
    let host = allocator.allocate(&Requirements::new(256), &up).unwrap();
    is.refuses("token: write past the end", allocator.write(&host, 200, &[0; 100]), NAME, "fewer");
    is.refuses("token: read past the end", allocator.read(&host, 200, &mut [0; 100]), NAME, "fewer");
    is.refuses("token: flush past the end", allocator.flush(&host, 200..300), NAME, "fewer");
    is.refuses("token: invalidate past the end", allocator.invalidate(&host, 200..300), NAME, "fewer");
    is.refuses("token: map of GpuOnly memory", allocator.map(&token), NAME, "upload the bytes");
    is.refuses("token: unmap too often", allocator.unmap(&host), NAME, "call `map`");
    let needs = Requirements::new(512);
    is.refuses("a place past the end", allocator.place_within(&token, 0, &needs), NAME, "fewer");
    let refused = allocator.create_aliasing_buffer(&token, 0, &BufferDesc::new(512));
    is.refuses("an aliasing buffer past the end", refused, NAME, "fewer");
    let refused = allocator.create_aliasing_buffer(&token, 0, &BufferDesc::new(0));
    is.refuses("an aliasing buffer of 0 bytes", refused, NAME, "at least 1 byte");
    let mut transfer = Transfer::new(allocator, QueueIndex(0), 4096).unwrap();
    is.refuses("a transfer past the end", transfer.upload(&token, 200, &[0; 100]), NAME, "fewer");
    is.refuses("a transfer from past the end", transfer.download(&token, 200, &mut [0; 100]), NAME, "fewer");
    drop(transfer);
    allocator.free(token).unwrap();
    allocator.free(host).unwrap();

    let no_source = BufferDesc::new(4096).with_usage(SimulatedGpu::NO_TRANSFER_SRC);
    let silent = gpu.create_buffer(&no_source, &o).unwrap();
    let refused = gpu.reads().read_buffer(&silent, 0, 16);
    is.refuses("a read of what cannot be copied from", refused, NAME, "VK_BUFFER_USAGE_TRANSFER_SRC_BIT");
    is.refuses("a read of nothing", gpu.reads().read_buffer(&b, 0, 0), NAME, "at least 1");
    let refused = gpu.read_buffer(&silent, 0, &mut [0; 16]);
    is.refuses("read what cannot be copied from", refused, NAME, "VK_BUFFER_USAGE_TRANSFER_SRC_BIT");

    let image = gpu.create_image(&ImageDesc::new(64, 64, 4), &o).unwrap();
    let part = ImagePart::default;
    is.refuses("too few texels", gpu.uploads().write_image(&image, &[0; 100]), NAME, "without padding");
    let mut write_part = |about, part: ImagePart, remedy| {
        let refused = gpu.uploads().write_image_part(&image, &part.into(), &[0; 64 * 64 * 4]);
        is.refuses(about, refused, NAME, remedy);
    };
    write_part("a mip level that is not there", part().with_mip_levels(1..2), "choose one of them");
    write_part("an array layer that is not there", part().with_array_layers(6..7), "choose one of them");
    write_part("a box past the end", part().with_region([1, 0, 0], [64, 64, 1]), "a box inside it");
    write_part("a slice that is not there", part().with_region([0; 3], [64, 64, 2]), "a box inside it");
    let texel = TexelBlock { bytes: 16, width: 4, height: 4 };
    // SAFETY: the library knows the format.
    write_part("another format's blocks", unsafe { part().with_texel(texel) }, "those of the format");
    let texel = TexelBlock { bytes: 0, width: 0, height: 0 };
    // SAFETY: as above.
    write_part("no blocks at all", unsafe { part().with_texel(texel) }, "those of the format");
    write_part("an aspect that is not there", part().with_aspect(ImageAspect::Stencil), "those that it has");
    let levels = gpu.create_image(&ImageDesc::new(64, 64, 4).with_mip_levels(2), &o).unwrap();
    let region = part().with_region([0; 3], [32, 32, 1]);
    let refused = gpu.uploads().write_image_part(&levels, &region.into(), &[0; 32 * 32 * 4]);
    is.refuses("a box of several levels", refused, NAME, "choose one mip level");
    let refused = gpu.uploads().write_image_from(&levels, &ImageWrite::default(), &[0; 100][..]);
    is.refuses("a file that ends early", refused, NAME, "could not be read");
    levels.forget_state();
    let corner = part().with_mip_levels(0..1).with_region([0; 3], [32, 32, 1]);
    let refused = gpu.uploads().write_image_part(&levels, &corner.into(), &[0; 32 * 32 * 4]);
    is.refuses("a part in no known state", refused, NAME, "Image::set_state");
    let mut several = ImageDesc::new(64, 64, 4);
    several.samples = 4;
    let image = gpu.create_image(&several, &o).unwrap();
    let refused = gpu.uploads().write_image(&image, &[0; 64 * 64 * 4]);
    is.refuses("texels with samples", refused, NAME, "resolve it");
    is.refuses("a read of that", gpu.reads().read_image(&image, &part()), NAME, "resolve it");
    is.refuses(
        "a read in no known state",
        gpu.reads().read_image(&levels, &part()),
        NAME,
        "Image::set_state",
    );
    let blank = gpu.create_image(&ImageDesc::new(64, 64, 4), &o).unwrap();
    is.refuses("a read of no texels", gpu.reads().read_image(&blank, &part()), NAME, "write it");
    let beyond = part().with_mip_levels(0..9);
    is.refuses("a read of a level beyond", gpu.reads().read_image(&blank, &beyond), NAME, "mip level 8");
    // With staging memory, so that it is the queue which refuses.
    gpu.uploads().update_buffer(&b, 0, &[1; 4]).unwrap();
    device.lose_device();
    is.refuses("upload on a lost device", gpu.uploads().write_buffer(&b, 0, &[1]), NAME, "create a new one");
    finish(&is, 44);
}

#[test]
fn a_refused_descriptor_is_named_with_units_and_a_remedy() {
    let small = ShaderVisibleHeapDesc::resources().with_regions(64, 8, 256);
    let (_device, gpu) = gpu("discrete-no-bar", GpuDesc::default().with_resource_descriptors(small));
    let (_other_device, other) = self::gpu("discrete-no-bar", GpuDesc::default());
    let mut is = Cases::default();
    let d = gpu.descriptors().unwrap();
    let bindings = [Binding::mutable("textures").array(4), Binding::dynamic("constants")];
    let layout = d.binding_layout(&bindings).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    let b = Arc::new(gpu.create_buffer(&BufferDesc::new(4096), &named()).unwrap());
    let foreign = Arc::new(other.create_buffer(&BufferDesc::new(4096), &named()).unwrap());
    let mut bind = |binding, at, b: &Arc<_>, range, usage| set.bind_buffer(binding, at, b, range, usage);
    let (read, constants) = (BufferUse::ReadOnly, BufferUse::Constants);
    is.refuses(
        "a binding that is not there",
        bind(7, 0, &b, 0..256, read),
        "2 bindings",
        "BindingLayout::binding",
    );
    is.refuses(
        "an element that is not there",
        bind(0, 4, &b, 0..256, read),
        "\"textures\"",
        "Binding::array",
    );
    is.refuses("an odd start", bind(0, 0, &b, 3..256, constants), NAME, "multiple of 256 bytes");
    is.refuses("an odd end", bind(0, 0, &b, 0..103, read), NAME, "4 bytes");
    is.refuses("a range past the end", bind(0, 0, &b, 0..8192, read), NAME, "end the range there");
    is.refuses("an empty range", bind(1, 0, &b, 256..256, read), NAME, "at least 1 byte");
    is.refuses("a buffer of another device", bind(0, 0, &foreign, 0..256, read), NAME, "of one device");
    let heap = d.resources();
    let insert = |b: &Arc<_>, range| heap.insert_buffer(b, range, read);
    is.refuses("a slot past the end", insert(&b, 0..8192), NAME, "end the range there");
    is.refuses("a slot of another device", insert(&foreign, 0..256), NAME, "of one device");
    let seen = |b: &Arc<_>, desc: BufferViewDesc| gpu.create_buffer_view(b, &desc);
    let structures = |usage, stride| BufferViewDesc::new(0..256, usage).with_stride(stride);
    is.refuses("odd structures", seen(&b, structures(read, 6)), NAME, "4 to 2048 bytes");
    is.refuses("constants of a stride", seen(&b, structures(constants, 16)), NAME, "leave the stride out");
    is.refuses("a part of a structure", seen(&b, structures(read, 48)), NAME, "the end of 48 bytes");
    is.refuses("a view of another device", seen(&foreign, structures(read, 16)), NAME, "of one device");
    let read_only = BufferDesc::new(4096).with_usage(SimulatedGpu::NO_UNORDERED_ACCESS);
    let read_only = Arc::new(gpu.create_buffer(&read_only, &named()).unwrap());
    let written = BufferViewDesc::new(0..256, BufferUse::ReadWrite);
    is.refuses("a buffer that is only read", seen(&read_only, written), NAME, "ALLOW_UNORDERED_ACCESS");
    let texels = TexelBufferDesc::new(0..256, 16, TexelBufferUse::Storage);
    let texels = gpu.create_texel_buffer_view(&read_only, &texels);
    is.refuses("texels that are only read", texels, NAME, "VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT");
    let mut slots = Vec::new();
    let full = loop {
        match insert(&b, 0..256) {
            Ok(slot) => slots.push(slot),
            Err(error) => break error,
        }
    };
    is.refuses("no more slots", Err::<(), _>(full), "", "grow");
    let slot = slots.pop().unwrap();
    heap.remove(slot).unwrap();
    is.refuses("a slot is removed twice", heap.remove(slot), "", "insert again");
    let twins = [Binding::mutable("a"), Binding::mutable("b"), Binding::dynamic("a")];
    is.refuses("two bindings of a name", d.binding_layout(&twins), "\"a\"", "rename one");
    let shadow = d.binding_layout(&[Binding::static_("shadow map")]).unwrap();
    is.refuses("a set before its static bindings", BindingSet::new(&shadow), "\"shadow map\"", "bind_static");
    let sampler = SamplerDesc { lod_bias: f32::NAN, ..SamplerDesc::default() };
    is.refuses(
        "a sampler of NaN",
        d.samplers().get(&sampler),
        "`lod_bias` of the sampler is NaN",
        "choose a number",
    );
    finish(&is, 20);
    drop(slots);
}

#[test]
fn a_queue_that_is_not_there_is_named_by_its_number() {
    let (device, gpu) = gpu("discrete-no-bar", GpuDesc::default());
    let mut is = Cases::default();
    let frame = gpu.begin_frame().unwrap();
    // SAFETY: the submission is empty.
    let submit =
        |queue, waits: &[_]| unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) };
    is.refuses("a submission", frame.submit(QueueIndex(9), submit), "queue 9", "queues");
    is.refuses("commands", frame.command_allocator(QueueIndex(9)), "queue 9", "queues");
    let mut desc = UploaderDesc::default();
    desc.queue = Some(QueueIndex(50));
    is.refuses("an uploader", Uploader::new(gpu.memory(), desc), "queue 50", "queues");
    let desc = DefragmenterDesc::default().with_queue(QueueIndex(9));
    is.refuses("a defragmenter", Defragmenter::new(gpu.memory(), desc), "queue 9", "queues");
    drop(frame);
    finish(&is, 4);
}

#[test]
fn what_must_be_waited_for_or_made_larger_is_said() {
    let (device, gpu) = gpu("discrete-no-bar", GpuDesc::default());
    let mut is = Cases::default();
    let b = gpu.create_buffer(&BufferDesc::new(4096), &named()).unwrap();
    let frame = gpu.begin_frame().unwrap();
    device.pause_queues();
    let early = gpu.reads().read_buffer(&b, 0, 16).unwrap();
    is.refuses("bytes are read too early", early.read(&mut [0; 16]), "", "end a frame");
    is.refuses("an upload of nothing", frame.upload([]), "", "ask for at least 1");
    let mut desc = UploaderDesc::default();
    (desc.staging, desc.when_full) = (4096, WhenFull::Refuse);
    let uploader = Uploader::new(gpu.memory(), desc).unwrap();
    uploader.update(&b, 0, &[0; 4096]).unwrap();
    is.refuses("a write into full staging", uploader.update(&b, 0, &[0; 4096]), NAME, "wait until");
    let large = gpu.create_buffer(&BufferDesc::new(8192), &named()).unwrap();
    let refused = uploader.update(&large, 0, &[0; 8192]);
    is.refuses("a write larger than staging", refused, NAME, "make the ring larger");
    let slow = WhenFull::Wait(Duration::from_millis(1));
    let mut desc = UploaderDesc::default();
    (desc.staging, desc.when_full) = (4096, slow);
    let waiting = Uploader::new(gpu.memory(), desc).unwrap();
    let refused = (0..8).try_for_each(|_| waiting.update(&b, 0, &[0; 4096]));
    is.refuses("a write that waits in vain", refused, NAME, "wait longer");
    device.resume_queues();
    drop((early, uploader, waiting));
    frame.end().unwrap();

    let mut desc = AllocatorDesc::default();
    desc.block_sizes = BlockSizes::fixed(0);
    is.refuses("blocks of 0 bytes", Allocator::new(device.clone(), desc), "", "powers of two");
    let desc = GpuDesc::default().with_timeout(Duration::from_millis(30)).with_frames_in_flight(1);
    let (device, gpu) = self::gpu("discrete-no-bar", desc);
    device.pause_queues();
    let frame = gpu.begin_frame().unwrap();
    // SAFETY: the submission is empty.
    let submit =
        |queue, waits: &[_]| unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) };
    frame.submit(QueueIndex(0), submit).unwrap();
    frame.end().unwrap();
    is.refuses("the GPU hangs", gpu.begin_frame(), "queue 0", "wait longer");
    device.resume_queues();
    finish(&is, 5);
}

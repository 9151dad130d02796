//! The state that all threads share, and its teardown.

use core::error::Error;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use allotment::descriptor::{
    Binding, BindingLayout, BindingSet, CpuDescriptorHeap, CpuDescriptorHeapDesc, CpuDescriptorRange,
    DescriptorRange, DescriptorSlot, SamplerCache, ShaderVisibleHeap, ShaderVisibleHeapDesc,
};
use allotment::device::{BufferDesc, DescriptorHeapType, SamplerDesc};
use allotment::lifetime::{DeletionQueue, Recycler, ReleaseQueue, SubmissionTracker};
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, JoinThreads, PassLimits,
};
use allotment::memory::reports::{LeakHandler, LeakMoment};
use allotment::memory::{Buffer, Image, MappedBuffer, OwnedAllocation, OwningAllocator, RawBuffer, RawImage};
use allotment::upload::{UploadPool, UploadPoolDesc};
use allotment::{Algorithm, Allocation, AllocationOptions, Allocator, AllocatorDesc, Gpu, MemoryUsage, Pool};

use crate::calls::{Observer, TheirImage};
use crate::shadow::Shadow;
use crate::{Input, Stressed, Tally, raw};

/// Most objects of a kind that are available to threads; further ones are dropped.
const SHELF: usize = 64;

/// The options of a world.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WorldDesc {
    /// Block size of the allocator in bytes.
    pub block_size: u64,
    /// Most shards of a pool.
    pub shards: u32,
    /// Algorithm of the default pools.
    pub algorithm: Algorithm,
    /// Whether empty blocks are freed at once.
    pub keeps_nothing: bool,
    /// Descriptors of each region of the shader-visible heap.
    pub descriptors: u32,
    /// Whether device failures are injected, if the device supports it.
    pub disturbed: bool,
}

impl WorldDesc {
    /// Returns random options.
    #[must_use]
    pub fn random(input: &mut Input<'_>) -> Self {
        Self {
            block_size: input.pick(&[16 << 10, 64 << 10, 256 << 10]),
            shards: input.pick(&[1, 2, 4]),
            algorithm: input.pick(&[Algorithm::Tlsf, Algorithm::Tlsf, Algorithm::Buddy]),
            keeps_nothing: input.pick(&[true, false]),
            descriptors: input.pick(&[16, 64, 256]),
            disturbed: input.pick(&[false, true, false]),
        }
    }
}

/// An object with bytes, and their expected values.
#[derive(Debug)]
pub(crate) struct Marked<T> {
    pub(crate) it: T,
    pub(crate) bytes: Shadow,
}

impl<T> Marked<T> {
    pub(crate) fn new(it: T) -> Self {
        Self { it, bytes: Shadow::default() }
    }
}

/// Objects that threads exchange: a thread takes one while it uses it.
pub(crate) struct Shelf<T>(Mutex<Vec<T>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Shelf<T> {
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a random object.
    pub(crate) fn take(&self, input: &mut Input<'_>) -> Option<T> {
        let mut all = self.all();
        let index = if all.is_empty() { return None } else { input.index(all.len()) };
        Some(all.swap_remove(index))
    }

    /// Adds an object. Returns it if the shelf is full, to be dropped.
    pub(crate) fn put(&self, thing: T) -> Option<T> {
        let mut all = self.all();
        if all.len() < SHELF {
            all.push(thing);
            return None;
        }
        Some(thing)
    }
}

/// A `Gpu` over the world's device.
pub(crate) struct OwnGpu<D: Stressed> {
    pub(crate) gpu: Gpu<D>,
}

/// A buffer of a `Gpu`, which it outlives at times.
pub(crate) struct TheirBuffer<D: Stressed> {
    pub(crate) buffer: Arc<Buffer<D>>,
    pub(crate) of: Weak<OwnGpu<D>>,
}

/// The descriptor heaps and sets, if the device has descriptors.
pub(crate) struct Descriptors<D: Stressed> {
    pub(crate) heap: Arc<ShaderVisibleHeap<D>>,
    pub(crate) staging: Arc<CpuDescriptorHeap<D>>,
    pub(crate) layout: BindingLayout<D>,
    pub(crate) slots: Shelf<DescriptorSlot>,
    pub(crate) ranges: Shelf<DescriptorRange<D>>,
    pub(crate) staged: Shelf<CpuDescriptorRange>,
    pub(crate) sets: Shelf<BindingSet<D>>,
}

/// The state that all threads share. Other worlds may use the same device.
pub struct World<D: Stressed> {
    pub(crate) device: D,
    pub(crate) disturbed: AtomicBool,
    pub(crate) tracker: SubmissionTracker,
    pub(crate) allocator: Arc<Allocator<D>>,
    /// Another allocator, whose allocations the first one must refuse.
    pub(crate) other: Arc<Allocator<D>>,
    pub(crate) memory: OwningAllocator<D>,
    pub(crate) set: Arc<Defragmenter<D>>,
    pub(crate) pages: UploadPool<D>,
    pub(crate) recycler: Recycler<Vec<u8>>,
    pub(crate) retired: ReleaseQueue<Buffer<D>>,
    pub(crate) descriptors: Option<Descriptors<D>>,
    pub(crate) samplers: Option<Arc<SamplerCache<D>>>,
    /// A sampler without a descriptor in any heap.
    pub(crate) odd_sampler: Option<D::Sampler>,
    /// What descriptors name that nobody keeps. Goes after all heaps.
    pub(crate) named: Option<Arc<Buffer<D>>>,
    /// Allocations that a manual pass moved without their bytes.
    pub(crate) lost: Mutex<HashSet<allotment::memory::AllocationId>>,
    pub(crate) leaks: Arc<AtomicU64>,
    pub(crate) tokens: Shelf<Marked<Allocation>>,
    pub(crate) buffers: Shelf<Marked<RawBuffer<D>>>,
    pub(crate) images: Shelf<RawImage<D>>,
    pub(crate) mapped: Shelf<Marked<MappedBuffer<D>>>,
    pub(crate) owned: Shelf<Marked<Buffer<D>>>,
    pub(crate) owned_images: Shelf<Image<D>>,
    pub(crate) owned_memory: Shelf<OwnedAllocation<D>>,
    pub(crate) movables: Shelf<Marked<Buffer<D>>>,
    pub(crate) pools: Shelf<Pool>,
    pub(crate) gpus: Shelf<Arc<OwnGpu<D>>>,
    pub(crate) gpu_buffers: Shelf<Marked<TheirBuffer<D>>>,
    pub(crate) gpu_images: Shelf<TheirImage<D>>,
    pub(crate) observers: Shelf<Observer>,
}

impl<D: Stressed> World<D> {
    /// Creates an empty world.
    ///
    /// # Errors
    ///
    /// Returns the device's errors.
    pub fn new(device: &D, desc: &WorldDesc) -> Result<Self, Box<dyn Error>> {
        let tracker = SubmissionTracker::new(device.clone())?;
        let leaks = Arc::new(AtomicU64::new(0));
        let mut wanted = AllocatorDesc::default();
        wanted.block_sizes = BlockSizes::fixed(desc.block_size);
        wanted.threads = desc.shards;
        wanted.algorithm = desc.algorithm;
        wanted.on_leak = counting(&leaks);
        if desc.keeps_nothing {
            wanted.empty_blocks = EmptyBlockPolicy::NONE;
        }
        let allocator = Arc::new(Allocator::new(device.clone(), wanted.clone())?);
        let other = Arc::new(Allocator::new(device.clone(), wanted)?);
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker))?;
        let limits = PassLimits::default().with_time(Duration::from_millis(5));
        let strategy = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(limits);
        let strategy = strategy.with_join_threads(JoinThreads::Always);
        let set = Arc::new(Defragmenter::new(&memory, DefragmenterDesc::new(strategy))?);
        let mut pages = UploadPoolDesc::default();
        (pages.page_size, pages.kept_bytes) = (16 << 10, 64 << 10);
        let mut world = Self {
            device: device.clone(),
            disturbed: AtomicBool::new(desc.disturbed),
            set,
            pages: UploadPool::new(&allocator, &tracker, pages)?,
            recycler: Recycler::new(&tracker, 8),
            retired: ReleaseQueue::new(&tracker),
            descriptors: None,
            samplers: None,
            odd_sampler: None,
            named: None,
            lost: Mutex::default(),
            leaks,
            tokens: Shelf::default(),
            buffers: Shelf::default(),
            images: Shelf::default(),
            mapped: Shelf::default(),
            owned: Shelf::default(),
            owned_images: Shelf::default(),
            owned_memory: Shelf::default(),
            movables: Shelf::default(),
            pools: Shelf::default(),
            gpus: Shelf::default(),
            gpu_buffers: Shelf::default(),
            gpu_images: Shelf::default(),
            observers: Shelf::default(),
            tracker,
            allocator,
            other,
            memory,
        };
        let limits = device.descriptor_limits();
        if limits.resources.max_capacity > 0 {
            world.make_descriptors(desc.descriptors)?;
        }
        if limits.samplers.max_capacity > 0 {
            let desc = ShaderVisibleHeapDesc::samplers().with_regions(64, 0, 16).with_chunk(16);
            let heap = ShaderVisibleHeap::new(&world.allocator, &world.tracker, desc)?;
            world.samplers = Some(Arc::new(SamplerCache::new(heap)?));
            world.odd_sampler = Some(device.create_sampler(&SamplerDesc::default())?);
        }
        Ok(world)
    }

    fn make_descriptors(&mut self, each: u32) -> Result<(), Box<dyn Error>> {
        let desc = ShaderVisibleHeapDesc::resources().with_regions(each, each, each).with_chunk(4);
        let heap = Arc::new(ShaderVisibleHeap::new(&self.allocator, &self.tracker, desc)?);
        let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource).with_page_size(64);
        let staging = Arc::new(CpuDescriptorHeap::new(&self.allocator, &self.tracker, desc)?);
        let bindings = [Binding::static_("all"), Binding::mutable("some").array(3), Binding::dynamic("one")];
        let layout = BindingLayout::new(&heap, &staging, &bindings)?;
        let named = Arc::new(self.memory.create_buffer(&self.describable(), &device_local())?);
        {
            let handle = named.handle();
            let descriptor = raw::buffer_descriptor(&self.device, &handle, 0..256);
            layout.bind_static(0, 0, &descriptor, Some(named.clone()))?;
        }
        self.named = Some(named);
        self.descriptors = Some(Descriptors {
            heap,
            staging,
            layout,
            slots: Shelf::default(),
            ranges: Shelf::default(),
            staged: Shelf::default(),
            sets: Shelf::default(),
        });
        Ok(())
    }

    /// Returns the description of a buffer that can have descriptors.
    pub(crate) fn describable(&self) -> D::BufferInfo<'static> {
        BufferDesc::new(512).with_usage(D::DESCRIPTOR_USAGE).into()
    }

    /// Returns what counts the leaks of another allocator among the world's.
    pub(crate) fn leak_handler(&self) -> LeakHandler {
        counting(&self.leaks)
    }

    /// Returns whether calls of the device may fail.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.disturbed.load(Relaxed)
    }

    /// Makes one of the device's next calls fail, unless a thread has finished already: objects that are dropped
    /// while waits fail are leaked, since a queue may still use them.
    pub(crate) fn disturb(&self, input: &mut Input<'_>) -> bool {
        if !self.disturbed.load(Relaxed) {
            return false;
        }
        self.device.disturb(input);
        if !self.disturbed.load(Relaxed) {
            self.device.calm();
        }
        true
    }

    /// Stops failure injection.
    pub(crate) fn calm(&self) {
        self.disturbed.store(false, Relaxed);
        self.device.calm();
    }

    /// Tears the world down in a random order. Returns the findings, such as leaks.
    #[must_use]
    pub fn finish(self, input: &mut Input<'_>) -> Tally {
        self.calm();
        self.device.reset_budgets();
        let Self { device, tracker, allocator, other, memory, leaks, .. } = self;
        let mut ends: Vec<Box<dyn FnOnce()>> = Vec::new();
        // Allocations and buffers have no destructor: they must be freed explicitly.
        let (freeing, destroying, images_of) =
            (Arc::clone(&allocator), Arc::clone(&allocator), Arc::clone(&allocator));
        let (tokens, buffers, images) = (self.tokens, self.buffers, self.images);
        ends.push(Box::new(move || {
            tokens.all().drain(..).for_each(|token| drop(freeing.free(token.it)));
        }));
        ends.push(Box::new(move || {
            buffers.all().drain(..).for_each(|buffer| drop(destroying.destroy_buffer(buffer.it)));
        }));
        ends.push(Box::new(move || {
            images.all().drain(..).for_each(|image| drop(images_of.destroy_image(image)));
        }));
        let (mapped, owned, owned_images) = (self.mapped, self.owned, self.owned_images);
        let (owned_memory, movables, pools) = (self.owned_memory, self.movables, self.pools);
        let (set, pages, recycler, retired) = (self.set, self.pages, self.recycler, self.retired);
        ends.push(Box::new(move || drop(mapped)));
        ends.push(Box::new(move || drop(owned)));
        ends.push(Box::new(move || drop(owned_images)));
        ends.push(Box::new(move || drop(owned_memory)));
        ends.push(Box::new(move || drop(movables)));
        let (gpus, gpu_buffers, observers) = (self.gpus, self.gpu_buffers, self.observers);
        let gpu_images = self.gpu_images;
        ends.push(Box::new(move || drop(pools)));
        ends.push(Box::new(move || drop(gpus)));
        ends.push(Box::new(move || drop(gpu_buffers)));
        ends.push(Box::new(move || drop(gpu_images)));
        ends.push(Box::new(move || drop(observers)));
        ends.push(Box::new(move || drop(set)));
        ends.push(Box::new(move || drop(pages)));
        ends.push(Box::new(move || drop(recycler)));
        ends.push(Box::new(move || drop(retired)));
        ends.push(Box::new(move || drop(allocator)));
        ends.push(Box::new(move || drop(other)));
        ends.push(Box::new(move || drop(tracker)));
        // The buffer of descriptors without keep-alive outlives the heaps.
        let named = self.named;
        if let Some(Descriptors { heap, staging, layout, slots, ranges, staged, sets }) = self.descriptors {
            let named = named.clone();
            let _ = slots;
            let mut of_descriptors: Vec<Box<dyn FnOnce()>> = vec![
                Box::new(move || drop(heap)),
                Box::new(move || drop(staging)),
                Box::new(move || drop(layout)),
                Box::new(move || drop(ranges)),
                Box::new(move || drop(staged)),
                Box::new(move || drop(sets)),
            ];
            ends.push(Box::new(move || {
                while !of_descriptors.is_empty() {
                    of_descriptors.swap_remove(0)();
                }
                drop(named);
            }));
        }
        drop(named);
        let samplers = self.samplers;
        ends.push(Box::new(move || drop(samplers)));
        let odd_sampler = self.odd_sampler;
        ends.push(Box::new(move || {
            odd_sampler.into_iter().for_each(|sampler| raw::destroy_sampler(&device, sampler));
        }));
        // If nothing is retired afterwards, the pending objects are released at once; otherwise with the last
        // queue.
        ends.push(Box::new(move || drop(memory)));
        while !ends.is_empty() {
            ends.swap_remove(input.index(ends.len()))();
        }
        let mut tally = Tally::default();
        let leaked = leaks.load(Relaxed);
        if leaked > 0 {
            tally.find(format!("{leaked} allocations were live when their allocator was dropped"));
        }
        tally
    }
}

impl<D: Stressed> core::fmt::Debug for World<D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("World").field("statistics", &self.allocator.statistics()).finish_non_exhaustive()
    }
}

fn counting(leaks: &Arc<AtomicU64>) -> LeakHandler {
    let leaks = Arc::clone(leaks);
    LeakHandler::Call(Arc::new(move |report| {
        // What is live when a `Gpu` goes may outlive it.
        if report.moment == LeakMoment::AllocatorDropped {
            leaks.fetch_add(report.leaks.len() as u64, Relaxed);
        }
    }))
}

/// A resource in device memory, described by nothing else.
pub(crate) fn device_local() -> AllocationOptions {
    AllocationOptions::new(MemoryUsage::GpuOnly)
}

//! The calls that a thread makes.

mod descriptors;
mod gpus;
mod groups;
mod images;
mod lifetime;
mod memory;
mod movable;
mod observers;
mod placed;
mod pools;
mod rooms;
mod transient;
mod uploads;

use core::fmt;
use std::time::Instant;

use allotment::descriptor::TransientDescriptors;
use allotment::device::{MemoryProperties, MemoryTypeMask, QueueIndex, ResourceKind};
use allotment::gpu::Frame;
use allotment::lifetime::Recording;
use allotment::memory::FitStrategy;
use allotment::memory::{BudgetPolicy, Buffer, Dedicated, ExpectedLifetime, Movability, NewBlocks, Transfer};
use allotment::upload::{ReadbackRing, ReadbackTicket, UploadArena, UploadRing, Uploader};
use allotment::{Alignment, AllocationOptions, MemoryUsage};

pub(crate) use images::TheirImage;
pub(crate) use observers::Observer;

use self::placed::PlacedSet;
use self::transient::TheirHeap;
use crate::world::{Marked, World};
use crate::{Input, Stressed, Tally};

macro_rules! calls {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// A kind of call. A fuzzer's byte is its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Call {
            $($(#[$meta])* $name,)*
        }

        impl Call {
            /// All kinds, by their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

calls! {
    /// `Allocator::allocate`, `WithMemoryOptions::allocate`.
    Allocate,
    /// `Allocator::free`, of another allocator's token as well.
    Free,
    /// `Allocator::allocate_many`.
    AllocateMany,
    /// `Allocator::free_many`.
    FreeMany,
    /// `Allocator::write`, `Transfer::upload` to a token.
    WriteToken,
    /// `Allocator::read`, `Transfer::download` from a token.
    ReadToken,
    /// `map`, `unmap`, `flush`, `invalidate`.
    Map,
    /// `set_name`, `set_user_data`.
    Name,
    /// `Allocator::create_buffer`, `WithMemoryOptions::create_buffer`.
    CreateBuffer,
    /// `Allocator::destroy_buffer`.
    DestroyBuffer,
    /// `write`, `Transfer::upload_to`.
    WriteBuffer,
    /// `read`, `Transfer::download_from`.
    ReadBuffer,
    /// `Allocator::create_aliasing_buffer`, `create_aliasing_image`.
    CreateIn,
    /// `Allocator::create_image`, `WithMemoryOptions::create_image`.
    CreateImage,
    /// `Allocator::destroy_image`.
    DestroyImage,
    /// `MappedBuffer::new`.
    CreateMapped,
    /// `MappedBuffer::write`, `read`.
    UseMapped,
    /// Drops a `MappedBuffer`.
    DropMapped,
    /// `OwningAllocator::create_buffer`.
    CreateOwned,
    /// `OwningAllocator::create_image`, `Defragmenter::create_image`, `MakingRoom::create_image`.
    CreateOwnedImage,
    /// `OwningAllocator::allocate`, `own_buffer`, `own_image`, `own_allocation`.
    Own,
    /// Transfers to and from owned buffers.
    UseOwned,
    /// Drops what is owned.
    DropOwned,
    /// `Allocator::create_pool`, `WithMemoryOptions::create_pool`.
    CreatePool,
    /// `Allocator::allocate` with `AllocationOptions::pool`.
    AllocateInPool,
    /// `Allocator::reset_pool`.
    ResetPool,
    /// `Allocator::destroy_pool`.
    DestroyPool,
    /// `end_frame`, `trim`, `maintain`, `reserve`, `refresh_budgets`.
    Maintain,
    /// Statistics, reports, dumps.
    Look,
    /// A manual defragmentation of the default pools.
    Defragment,
    /// A manual defragmentation of a custom pool.
    DefragmentPool,
    /// `Defragmenter::create_buffer`, `MakingRoom::create_buffer`.
    CreateMovable,
    /// Transfers to and from movable buffers.
    UseMovable,
    /// Drops a movable buffer.
    DropMovable,
    /// `Defragmenter::step`.
    Step,
    /// `Defragmenter::stop`.
    StopSet,
    /// `Uploader::initialize`, `update` of an owned buffer.
    Upload,
    /// `Uploader::update` of a movable buffer.
    UploadMovable,
    /// `Uploader::submit`, then a comparison of the bytes.
    SubmitUploads,
    /// `Uploader::discard`, or another uploader.
    DiscardUploads,
    /// Drops a buffer with a pending upload.
    DropUploaded,
    /// `UploadRing`: `allocate`, `close`, `discard`, `reclaim`.
    Ring,
    /// `ReadbackRing`: the same calls, and tickets.
    Readback,
    /// `SubmissionTracker::record`, `record_explicit`, `UploadPool::arena`, `ShaderVisibleHeap::begin`.
    Record,
    /// `UploadArena::allocate`.
    Arena,
    /// `Recording::submit`, `submit_and_keep`, `submit_together`.
    Submit,
    /// Drops a recording.
    DropRecording,
    /// `ReleaseQueue`, `Recycler`, `DeletionQueue`: `retire`, `retire_with`, `retire_after`, `keep`.
    Retire,
    /// `reclaim`, `drain`, `collect`, `trim`.
    Reclaim,
    /// `wait`, `wait_idle`, `poll`.
    Wait,
    /// `ShaderVisibleHeap::insert`.
    Insert,
    /// `ShaderVisibleHeap::insert_all`, of which some may be wrong.
    InsertAll,
    /// `remove`, `replace`.
    Remove,
    /// `ShaderVisibleHeap::allocate`, `DescriptorRange::write`, `copy_from`, `renew`.
    Table,
    /// `TransientDescriptors::allocate`, `place`, `TransientTable::write`, `copy_from`, `fill`.
    Transient,
    /// `BindingSet::new`, `bind`, `bind_buffer`, `commit`.
    Bind,
    /// `CpuDescriptorHeap`: `allocate`, `write`, `fill`, `free`, `retire`, `trim`.
    Staging,
    /// `ShaderVisibleHeap::grow`, `compact`, `compact_step`.
    Grow,
    /// `SamplerCache::get`.
    Sampler,
    /// `RequestDefragmentation::new`, `finish`.
    MakeRoom,
    /// `RequestDefragmentation::run`, without a new block.
    MakeFreeRange,
    /// `Defragmenter::create_mapped_buffer`.
    CreateMovableMapped,
    /// `MappedBuffer::accept_move`, `accept_move_within`.
    AcceptMove,
    /// Makes a later call of the device fail, if it supports failure injection.
    Disturb,
    /// Changes the budget of a heap, if the device can be told.
    MoveBudget,
    /// `Allocator::subscribe`, `Gpu::subscribe`, `EventSubscription::read`, `Recorder`, `LiveServer`, `LiveRecording`.
    Observe,
    /// `Defragmenter::on_moved`, and objects whose destructors call the library.
    CallBack,
    /// `Gpu::new` over the same device.
    CreateGpu,
    /// Drops a `Gpu`.
    DropGpu,
    /// `Gpu::begin_frame`, `Frame::upload`, `submit`, `end`.
    GpuFrame,
    /// `Gpu::create_buffer`, `making_room`.
    CreateGpuBuffer,
    /// `Uploads::write_buffer`, `update_buffer`, `Gpu::read_buffer`, `Reads::read_buffer`; steps.
    UseGpuBuffer,
    /// The same, and descriptors, of a buffer of another `Gpu`.
    MisuseGpuBuffer,
    /// `Gpu::create_image`, `making_room`.
    CreateGpuImage,
    /// `Uploads::write_image`, `write_image_part`, `write_image_from`, `write_image_with`, of parts that are there or not.
    WriteGpuImage,
    /// `Reads::read_image`, `submit`, `wait`.
    ReadGpuImage,
    /// Drops an image, or `Image::forget_state`, `set_state`.
    DropGpuImage,
    /// `OwningAllocator::allocate_memory`, `create_buffer_in`, `create_image_in`.
    Place,
    /// `Resource::activate`.
    Activate,
    /// Transfers to and from placed buffers, of which some are not active.
    UsePlaced,
    /// Drops memory that something is placed in, or what is placed there.
    DropPlaced,
    /// `Gpu::transient_heap`, `Frame::transient`, `TransientGraph`, `TransientResources`.
    TransientHeap,
    /// `OwningAllocator::allocate_group`, and the creation of its members.
    AllocateGroup,
    /// `set_name`, `set_user_data` of what is placed.
    NamePlaced,
}

/// An open recording of this thread, and its memory and descriptors.
pub(crate) struct Open<D: Stressed> {
    recording: Recording,
    arena: Option<UploadArena<D>>,
    transient: Option<TransientDescriptors<D>>,
}

/// One thread, and its own state.
pub struct Player<'w, D: Stressed> {
    world: &'w World<D>,
    input: Input<'w>,
    tally: Tally,
    /// The current call.
    call: Call,
    /// The number of calls that the current one is nested in.
    depth: u32,
    /// One that takes the shortest path, and one that always uses a queue.
    transfers: [Option<Transfer<'w, D>>; 2],
    uploader: Option<Uploader<D>>,
    /// Their uploads are on their way.
    uploaded: Vec<Marked<Buffer<D>>>,
    ring: Option<UploadRing<D>>,
    readback: Option<ReadbackRing<D>>,
    tickets: Vec<ReadbackTicket>,
    open: Vec<Open<D>>,
    /// Open frames of any `Gpu`s.
    frames: Vec<Frame<D>>,
    placed: Vec<PlacedSet<D>>,
    heaps: Vec<TheirHeap<D>>,
}

impl<'w, D: Stressed> Player<'w, D> {
    /// Creates a player.
    #[must_use]
    pub fn new(world: &'w World<D>, input: Input<'w>) -> Self {
        Self {
            world,
            input,
            tally: Tally::default(),
            call: Call::Look,
            depth: 0,
            transfers: [None, None],
            uploader: None,
            uploaded: Vec::new(),
            ring: None,
            readback: None,
            tickets: Vec::new(),
            open: Vec::new(),
            frames: Vec::new(),
            placed: Vec::new(),
            heaps: Vec::new(),
        }
    }

    /// Returns whether its bytes are used up.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.input.is_over()
    }

    /// Returns its tally.
    #[must_use]
    pub fn finish(mut self) -> Tally {
        self.world.calm();
        core::mem::take(&mut self.tally)
    }

    /// Records a panic of the current call.
    pub(crate) fn find_panic(&mut self) {
        let finding = format!("{:?} panicked", self.call);
        self.tally.find(finding);
    }

    /// Makes the next call.
    pub fn play(&mut self) {
        if self.depth == 0 {
            self.input.next_chunk();
        }
        let call = self.input.pick(Call::ALL);
        let began = Instant::now();
        self.make(call);
        self.tally.took(call, began.elapsed());
    }

    fn make(&mut self, call: Call) {
        self.call = call;
        match call {
            Call::Allocate => self.allocate(),
            Call::Free => self.free(),
            Call::AllocateMany => self.allocate_many(),
            Call::FreeMany => self.free_many(),
            Call::WriteToken => self.write_token(),
            Call::ReadToken => self.read_token(),
            Call::Map => self.map(),
            Call::Name => self.name(),
            Call::CreateBuffer => self.create_buffer(),
            Call::DestroyBuffer => self.destroy_buffer(),
            Call::WriteBuffer => self.use_buffer(true),
            Call::ReadBuffer => self.use_buffer(false),
            Call::CreateIn => self.create_in(),
            Call::CreateImage => self.create_image(),
            Call::DestroyImage => self.destroy_image(),
            Call::CreateMapped => self.create_mapped(),
            Call::UseMapped => self.use_mapped(),
            Call::DropMapped => self.drop_mapped(),
            Call::CreateOwned => self.create_owned(),
            Call::CreateOwnedImage => self.create_owned_image(),
            Call::Own => self.own(),
            Call::UseOwned => self.use_owned(),
            Call::DropOwned => self.drop_owned(),
            Call::CreatePool => self.create_pool(),
            Call::AllocateInPool => self.allocate_in_pool(),
            Call::ResetPool => self.reset_pool(),
            Call::DestroyPool => self.destroy_pool(),
            Call::Maintain => self.maintain(),
            Call::Look => self.look(),
            Call::Defragment => self.defragment(),
            Call::DefragmentPool => self.defragment_pool(),
            Call::CreateMovable => self.create_movable(),
            Call::UseMovable => self.use_movable(),
            Call::DropMovable => self.drop_movable(),
            Call::Step => self.step(),
            Call::StopSet => self.stop_set(),
            Call::Upload => self.upload(),
            Call::UploadMovable => self.upload_movable(),
            Call::SubmitUploads => self.submit_uploads(),
            Call::DiscardUploads => self.discard_uploads(),
            Call::DropUploaded => self.drop_uploaded(),
            Call::Ring => self.use_ring(),
            Call::Readback => self.use_readback(),
            Call::Record => self.record(),
            Call::Arena => self.use_arena(),
            Call::Submit => self.submit(),
            Call::DropRecording => self.drop_recording(),
            Call::Retire => self.retire(),
            Call::Reclaim => self.reclaim(),
            Call::Wait => self.wait(),
            Call::Insert => self.insert(),
            Call::InsertAll => self.insert_all(),
            Call::Remove => self.remove(),
            Call::Table => self.use_table(),
            Call::Transient => self.use_transient(),
            Call::Bind => self.bind(),
            Call::Staging => self.use_staging(),
            Call::Grow => self.grow(),
            Call::Sampler => self.use_sampler(),
            Call::MakeRoom => self.make_room(),
            Call::MakeFreeRange => self.make_free_range(),
            Call::CreateMovableMapped => self.create_movable_mapped(),
            Call::AcceptMove => self.accept_moves(),
            Call::Disturb => {
                if self.world.disturb(&mut self.input) {
                    self.tally.made(call);
                }
            }
            Call::MoveBudget => {
                if self.world.device.move_budget(&mut self.input) {
                    self.tally.made(call);
                }
            }
            Call::Observe => self.observe(),
            Call::CallBack => self.call_back(),
            Call::CreateGpu => self.create_gpu(),
            Call::DropGpu => self.drop_gpu(),
            Call::GpuFrame => self.gpu_frame(),
            Call::CreateGpuBuffer => self.create_gpu_buffer(),
            Call::UseGpuBuffer => self.use_gpu_buffer(),
            Call::MisuseGpuBuffer => self.misuse_gpu_buffer(),
            Call::CreateGpuImage => self.create_gpu_image(),
            Call::WriteGpuImage => self.write_gpu_image(),
            Call::ReadGpuImage => self.read_gpu_image(),
            Call::DropGpuImage => self.drop_gpu_image(),
            Call::Place => self.place(),
            Call::Activate => self.activate(),
            Call::UsePlaced => self.use_placed(),
            Call::DropPlaced => self.drop_placed(),
            Call::TransientHeap => self.use_transient_heap(),
            Call::AllocateGroup => self.allocate_group(),
            Call::NamePlaced => self.name_placed(),
        }
    }

    /// Makes a few calls within the current one.
    fn make_some_within(&mut self) {
        if self.depth > 0 {
            return;
        }
        let outer = self.call;
        self.depth += 1;
        for _ in 0..self.input.below(8) {
            self.play();
        }
        self.depth -= 1;
        self.call = outer;
    }

    /// Counts the outcome of a call.
    fn done<T, E: fmt::Debug>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(done) => {
                self.tally.made(self.call);
                Some(done)
            }
            Err(error) => {
                self.tally.refused(self.call, &error);
                None
            }
        }
    }

    fn queue(&mut self) -> QueueIndex {
        let queues = self.world.device.properties().queues.len();
        // Sometimes one more than exist.
        let last = if self.input.once_in(64) { queues } else { queues - 1 };
        QueueIndex(self.input.below(last as u64 + 1) as u8)
    }

    /// Returns an existing queue.
    fn real_queue(&mut self) -> QueueIndex {
        QueueIndex(self.input.index(self.world.device.properties().queues.len()) as u8)
    }

    /// Returns a size in bytes, sometimes an invalid one.
    fn size(&mut self) -> u64 {
        match self.input.below(64) {
            0..=39 => 1 + self.input.below(4096),
            40..=57 => 4096 << self.input.below(5),
            58..=59 => 1 + self.input.below(300_000),
            60 => 0,
            61 => u64::MAX - self.input.below(256),
            // No sizes between the largest that a device may have and those that none has: they would take real
            // memory.
            62 => 1 << self.input.pick(&[0, 7, 19, 40, 47, 48, 49, 62, 63]),
            _ => (1 << self.input.pick(&[3, 12, 18, 45, 48, 49, 63])) - 1,
        }
    }

    /// Returns a valid size in bytes.
    fn small_size(&mut self) -> u64 {
        match self.input.below(4) {
            0 => 1 + self.input.below(256),
            1 => 1 + self.input.below(4096),
            2 => 1024 << self.input.below(6),
            _ => 16 << 10,
        }
    }

    fn alignment(&mut self) -> Alignment {
        let shift = if self.input.once_in(32) { self.input.below(64) } else { self.input.below(12) };
        Alignment::new(1 << shift).unwrap_or(Alignment::ONE)
    }

    /// Returns a range of `size` bytes, or an invalid one.
    fn range(&mut self, size: u64) -> (u64, u64) {
        if self.input.once_in(32) {
            let offset = self.input.pick(&[size, size.wrapping_add(1), u64::MAX, u64::MAX - 7, size / 2]);
            return (offset, 1 + self.input.below(size.min(1 << 20)));
        }
        if self.input.once_in(3) {
            return (0, size);
        }
        let offset = self.input.below(size.max(1));
        (offset, self.input.below(size - offset + 1))
    }

    fn memory_usage(&mut self) -> MemoryUsage {
        // Mostly one memory usage, so that there are blocks worth emptying.
        if self.input.below(4) < 3 { MemoryUsage::GpuOnly } else { self.input.pick(&MemoryUsage::ALL) }
    }

    /// Random options, with an alignment at times.
    fn options(&mut self) -> AllocationOptions {
        let min_alignment = if self.input.once_in(2) { self.alignment() } else { Alignment::ONE };
        let mut options = AllocationOptions::new(self.memory_usage()).with_min_alignment(min_alignment);
        let shape = self.input.below(256);
        if shape & 1 != 0 {
            options = options.with_movability(self.input.pick(&[Movability::Copied, Movability::Recreated]));
        }
        if shape & 0b110 == 0b110 && self.input.once_in(4) {
            options = options.with_lifetime(ExpectedLifetime::Short);
        }
        match shape >> 3 & 0b111 {
            6 => options = options.with_dedicated(Dedicated::Always),
            7 => options = options.with_dedicated(Dedicated::Never),
            5 => options = options.with_name(format!("number {shape} \0 \u{fffd}")).with_category("stress"),
            _ => {}
        }
        if shape >> 6 == 3 {
            match self.input.below(8) {
                0 => options = options.with_new_blocks(NewBlocks::NeverAllocate),
                1 => options = options.with_budget(BudgetPolicy::WithinBudget),
                2 => options.required = MemoryProperties::from_bits_truncate(self.input.below(1 << 9) as _),
                3 => options.memory_types = MemoryTypeMask(self.input.below(1 << 16) as u32),
                4 => options.preferred = MemoryProperties::HOST_VISIBLE,
                5 => {
                    options.strategy =
                        self.input.pick(&[FitStrategy::LeastMemory, FitStrategy::LowestOffset]);
                }
                6 => options.user_data = self.input.below(1 << 32),
                _ => options.avoided = MemoryProperties::HOST_CACHED,
            }
        }
        if self.input.once_in(8)
            && let Some(pool) = self.some_pool()
        {
            options = options.with_pool(&pool);
        }
        options
    }

    fn kind(&mut self) -> ResourceKind {
        use ResourceKind::{Buffer, LinearImage, OptimalImage, Unknown};
        self.input.pick(&[Buffer, Unknown, Buffer, OptimalImage, LinearImage])
    }

    /// Compares bytes with the expected ones.
    fn compare(&mut self, what: &str, expected: &[u8], found: &[u8]) {
        self.tally.bytes_checked += found.len() as u64;
        if let Some(difference) = crate::shadow::difference(expected, found) {
            let finding = format!("{:?} of {what}: {difference}", self.call);
            self.tally.find(finding);
        }
    }
}

impl<D: Stressed> Drop for Player<'_, D> {
    fn drop(&mut self) {
        // The staging buffers of transfers are dropped with them, and the rest in the order of its fields.
        self.transfers = [None, None];
    }
}

impl<D: Stressed> fmt::Debug for Player<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player").field("call", &self.call).finish_non_exhaustive()
    }
}

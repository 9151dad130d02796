//! Descriptors: views of buffers, images and samplers in descriptor heaps, with one interface for all APIs.
//!
//! ```text
//!                  ╭ CpuDescriptorHeap ╮        ╭ ShaderVisibleHeap ─────────────────────╮
//!   views of       │ pages of          │  copy  │ slots │ tables │ chunks │ driver's     │◄── shaders
//!   resources ────►│ descriptors       │ ──────►│       │        │        │ reserved     │
//!                  ╰───────────────────╯        ╰───▲───┴───▲────┴───▲────┴──────────────╯
//!   SamplerCache, bindless ─────────────────────────╯       │        ╰── TransientDescriptors
//!   BindingSet ─────────────────────────────────────────────╯
//! ```
//!
//! The design follows Direct3D 12, as Diligent Engine's article *Managing Descriptor Heaps* describes it: views
//! of resources live in heaps that only the CPU reads, and are copied to the one heap that the GPU reads. On
//! Vulkan, `VK_EXT_descriptor_buffer` provides the same, or one large descriptor set that is updated after it
//! is bound. A table, a descriptor set or a descriptor array of an API is a range here; a bindless descriptor
//! is a slot.
//!
//! The idea, its figures and what was tried: `docs/design/descriptors.md`.
//!
//! # Which type to use
//!
//! | for | use |
//! |---|---|
//! | a view of an image: to render to, to sample, for descriptor sets of your own | [`ImageView`], an owner of it and of its descriptor |
//! | constants, bytes or structures of a buffer | [`BufferView`] |
//! | a buffer that shaders see as texels | [`TexelBufferView`] |
//! | a view with the API's own description | a [`CpuDescriptorHeap`] of its type |
//! | a texture that shaders access by index (bindless) | [`ShaderVisibleHeap::insert_view`], [`insert_image`](ShaderVisibleHeap::insert_image), or [`insert`](ShaderVisibleHeap::insert) with a descriptor of your own: a [`DescriptorSlot`] |
//! | a sampler | [`SamplerCache`]: an index, the same for equal samplers |
//! | the few samplers of every pipeline | [`StaticSamplers`]: a part of the pipeline layout |
//! | per-material or per-pass bindings | [`BindingSet`]; or a [`DescriptorRange`], which you own |
//! | the bindings of one draw | [`TransientDescriptors::allocate`], or a set's dynamic bindings |
//!
//! # Guarantees
//!
//! - A descriptor that a recording can read does not change until the recording's submission is complete:
//!   slots, tables and chunks are reused by the rules of [`lifetime`](crate::lifetime), in whatever order and
//!   on whatever thread they are dropped. A descriptor in flight is never written.
//! - CPU descriptors that are dropped come back the same way, also on a thread that knows nothing of their heap.
//! - Slots and binding sets keep the resource of their descriptor alive for as long, if the caller passes it.
//! - Sets and slots of a relocatable resource follow its moves, where the library describes the resource
//!   ([`BindingSet::bind_buffer`], [`BindingSet::bind_image`], [`ShaderVisibleHeap::insert_buffer`],
//!   [`ShaderVisibleHeap::insert_image`]): recordings that begin after the move read the new place, and those before it
//!   the old one.
//! - A heap without space returns an error with the requested count, the free count, the largest free range,
//!   the count pending release and the timeline point to wait for. Nothing has changed then, and requests for
//!   several descriptors succeed or fail as a whole.
//! - A descriptor heap never exceeds the device's own limit, which is queried and not a constant.
//!
//! Writing, copying and moving descriptors is safe: the code that creates an API's descriptor guarantees that
//! the resource lives until no heap holds the descriptor any more, and slots and sets keep the resource alive
//! for that purpose. A released descriptor is overwritten before its resource is destroyed, so no descriptor of
//! a destroyed resource is ever copied. Whether submitted work reads valid descriptors is up to the caller that
//! submits it, which is `unsafe` for this reason.
//!
//! # Cost
//!
//! | | |
//! |---|---|
//! | descriptors for a draw | an addition and a comparison, 1.4 to 2.4 ns; a new chunk now and then, under a lock |
//! | committing a set | the same, and one bulk copy: some 60 ns for four descriptors |
//! | a single CPU slot | 7 to 15 ns to allocate and free; 24 if a random one of 10,000 is freed |
//! | a bindless slot | 57 to 82 ns from insertion to reuse |
//! | growth, compaction | a heap of the driver, and a copy of the mirror, for which writers wait |
//! | a move of a resource in sets | a range and a copy of the descriptors for each set; nothing when sets are committed |
//! | moves of resources in slots | as growth, once for all moves of a step |

mod binding_layout;
mod binding_set;
mod buffer_view;
mod cpu_heap;
mod device_heap;
mod error;
mod events;
mod fill;
mod free_chunks;
mod free_slots;
mod generation;
mod heap_desc;
mod heap_regions;
mod image_view;
mod owned_view;
mod range;
mod relocatable_bindings;
mod sampler_cache;
mod sampler_key;
mod shader_visible_heap;
mod shown;
mod slots;
mod static_samplers;
mod statistics;
mod tables;
mod texel_view;
mod transient;

pub use binding_layout::{BindFrequency, Binding, BindingLayout};
pub use binding_set::{BindingSet, BoundSet};
pub use buffer_view::BufferView;
pub use cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
pub use error::{DescriptorError, Region};
pub use fill::DescriptorFill;
pub use heap_desc::{CpuDescriptorHeapDesc, ShaderVisibleHeapDesc};
pub use image_view::ImageView;
pub use range::DescriptorRange;
pub use sampler_cache::{CachedSampler, SamplerCache};
pub use shader_visible_heap::{CompactionStep, ShaderVisibleHeap, ShaderVisibleStatistics};
pub use slots::{DescriptorSlot, KeepAlive};
pub use static_samplers::StaticSamplers;
pub use statistics::DescriptorHeapStatistics;
pub use texel_view::TexelBufferView;
pub use transient::{TableLocation, TransientDescriptors, TransientTable};

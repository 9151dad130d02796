//! Descriptors: what shaders are told of resources and samplers, in heaps of equal slots, on every API alike.
//!
//! ```text
//!               ╭ CpuDescriptorHeap ╮  copy  ╭ ShaderVisibleHeap ──────────────────╮
//!   a new view ►│ pages       │ ──────►│ slots │ tables │ chunks │ driver's  │◄ shaders
//!               ╰─────────────╯        ╰───▲───┴───▲────┴───▲────┴───────────╯
//!         SamplerCache, bindless ──────────╯       │        ╰── TransientDescriptors
//!         BindingSet ──────────────────────────────╯
//! ```
//!
//! The idea is that of Direct3D 12, as Diligent Engine's article *Managing Descriptor Heaps* describes it: views of
//! resources lie in heaps that only the CPU reads, and are copied to the one heap that the GPU sees. Vulkan is given the
//! same by `VK_EXT_descriptor_buffer`, or by one large set that is updated after it is bound. What an API calls a table,
//! a set or an array is a range here, and what it calls bindless is a slot.
//!
//! # Which one?
//!
//! | what you have | what you use |
//! |---|---|
//! | a view of a resource that was just made, a render target | a [`CpuDescriptorHeap`] of its kind; a [`CpuDescriptorCache`] where one thread makes many |
//! | a texture that shaders find by a number | [`ShaderVisibleHeap::insert`]: a [`DescriptorSlot`] |
//! | a sampler | [`SamplerCache`]: an index, the same for all who want the same |
//! | a material, a pass: a table that changes seldom | [`BindingSet`]; or a [`DescriptorRange`], whose owner you are |
//! | what one draw wants | [`TransientDescriptors::allocate`], or a set's dynamic bindings |
//!
//! # What is promised
//!
//! - What a recording may read stays as it is until that recording's submission is over: slots, tables and chunks come
//!   back by [`lifetime`](crate::lifetime), whoever drops them whenever. A descriptor in flight is never written.
//! - Slots and binding sets own what they point at, if they are told what that is, for as long.
//! - A heap that is full says so: what was asked, what is free, the largest range, what is on its way back, and what to
//!   wait for. Nothing has changed then, and many at once are all or none.
//! - A heap of the device is never larger than the device's own limit, which is asked and not known by heart.
//!
//! To write, copy and move descriptors is safe: whoever makes an API's descriptor promises that what it names lives until
//! no heap holds the descriptor any more, and to keep it alive is what slots and sets are for. What came back is cleared
//! before what it pointed at goes, so that nothing is copied that points at what is gone. That work which reads through
//! descriptors is right is a matter of who submits it, which is `unsafe` for this reason.
//!
//! # Cost
//!
//! | | |
//! |---|---|
//! | descriptors for a draw | an addition and a comparison, 1.4 to 2.4 ns; chunks now and then, under a lock |
//! | a set's commit | that, and one bulk copy: some 60 ns for four descriptors |
//! | a single staging slot | 7 to 12 ns there and back from a cache, 50 to 90 ns from the heap itself |
//! | a bindless slot | some 180 ns, until it has come back |
//! | growth, compaction | a heap of the driver, and a copy of all that is kept, for which writers wait |

mod binding_layout;
mod binding_set;
mod cpu_cache;
mod cpu_heap;
mod device_heap;
mod error;
mod fill;
mod free_chunks;
mod free_slots;
mod generation;
mod heap_desc;
mod heap_regions;
mod range;
mod sampler_cache;
mod shader_visible_heap;
mod slots;
mod statistics;
mod tables;
mod transient;

pub use binding_layout::{BindFrequency, Binding, BindingLayout, BindingLocation};
pub use binding_set::{BindingSet, BoundSet};
pub use cpu_cache::CpuDescriptorCache;
pub use cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
pub use error::{DescriptorError, Region};
pub use fill::DescriptorFill;
pub use heap_desc::{CpuDescriptorHeapDesc, ShaderVisibleHeapDesc};
pub use range::DescriptorRange;
pub use sampler_cache::{CachedSampler, SamplerCache};
pub use shader_visible_heap::{ShaderVisibleHeap, ShaderVisibleStatistics};
pub use slots::{DescriptorSlot, KeepAlive};
pub use statistics::DescriptorHeapStatistics;
pub use transient::{TableLocation, TransientDescriptors, TransientTable};

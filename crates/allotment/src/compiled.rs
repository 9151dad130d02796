//! Compiles the library for each of its own devices once, with this crate.
//!
//! Nearly everything here is generic over the device, so every program would compile it again: each test, each example,
//! an engine after each change. A program takes what a crate below it has compiled already, if something there has asked
//! for it: in a debug build all of it, in a release build the functions that are `#[inline(never)]`. The others are compiled
//! anew in a release build, to be inlined. (A compiler that does not do so for `#[inline(never)]` compiles more, and the
//! program is the same.)
//!
//! So in a release build these are where the library begins, and they are the ones that are listed:
//!
//! - public functions that do more than read a field or two;
//! - the destructors of what programs own.
//!
//! What they call is inlined into them as ever, and the call itself is a few instructions of hundreds. A function that is
//! not listed works all the same; it is compiled in the program, as far as the next one that is.

macro_rules! compiled_for {
    ($name:ident, $device:ty) => {
        /// Names what most programs call. Nobody calls this.
        #[inline(never)]
        pub fn $name() {
            use crate::descriptor::{
                BindingLayout, BindingSet, CpuDescriptorHeap, SamplerCache, ShaderVisibleHeap,
            };
            use crate::device::CommandDevice;
            use crate::gpu::{Descriptors, Frame, Gpu, Reads, Uploads};
            use crate::lifetime::PooledCommandAllocator;
            use crate::memory::blocks::MaintenanceThread;
            use crate::memory::defragmentation::{
                Defragmentation, Defragmenter, MakingRoom, Pass, RequestDefragmentation,
            };
            use crate::memory::reports::Reports;
            use crate::memory::{
                Allocator, Buffer, Image, MappedBuffer, OwningAllocator, Transfer, WithMemoryOptions,
            };
            use crate::upload::{ReadbackRing, UploadPool, UploadRing, Uploader};

            let functions = [
                Gpu::<$device>::new as *const (),
                Gpu::<$device>::begin_frame as *const (),
                Gpu::<$device>::wait_idle as *const (),
                Gpu::<$device>::reclaim as *const (),
                Gpu::<$device>::create_buffer as *const (),
                Gpu::<$device>::create_image as *const (),
                Gpu::<$device>::create_mapped_buffer as *const (),
                Gpu::<$device>::read_buffer as *const (),
                Gpu::<$device>::subscribe as *const (),
                Gpu::<$device>::descriptors as *const (),
                Gpu::<$device>::create_image_view as *const (),
                Gpu::<$device>::create_static_samplers as *const (),
                Gpu::<$device>::readback as *const (),
                Reads::<'static, $device>::read_buffer as *const (),
                Reads::<'static, $device>::read_image as *const (),
                Reads::<'static, $device>::submit as *const (),
                Reads::<'static, $device>::wait as *const (),
                Uploads::<'static, $device>::write_buffer as *const (),
                Uploads::<'static, $device>::write_image as *const (),
                Uploads::<'static, $device>::submit as *const (),
                Uploads::<'static, $device>::update_buffer as *const (),
                Frame::<$device>::end as *const (),
                Frame::<$device>::upload_arena as *const (),
                Frame::<$device>::upload_bytes as *const (),
                Frame::<$device>::command_allocator as *const (),
                Frame::<$device>::transient_descriptors as *const (),
                Allocator::<$device>::new as *const (),
                Allocator::<$device>::allocate_many as *const (),
                Allocator::<$device>::allocate as *const (),
                Allocator::<$device>::explain as *const (),
                Allocator::<$device>::preview as *const (),
                Allocator::<$device>::free as *const (),
                Allocator::<$device>::end_frame as *const (),
                Allocator::<$device>::trim as *const (),
                Allocator::<$device>::create_buffer as *const (),
                Allocator::<$device>::create_image as *const (),
                Allocator::<$device>::destroy_buffer as *const (),
                Allocator::<$device>::destroy_image as *const (),
                WithMemoryOptions::<'static, $device>::allocate as *const (),
                Allocator::<$device>::info as *const (),
                Reports::<'static, $device>::info as *const (),
                Allocator::<$device>::set_name as *const (),
                Allocator::<$device>::set_user_data as *const (),
                Allocator::<$device>::write as *const (),
                Allocator::<$device>::read as *const (),
                Allocator::<$device>::map as *const (),
                Allocator::<$device>::unmap as *const (),
                Defragmentation::<'static, $device>::begin as *const (),
                RequestDefragmentation::<'static, $device>::begin as *const (),
                Allocator::<$device>::maintain as *const (),
                Allocator::<$device>::create_pool as *const (),
                Allocator::<$device>::destroy_pool as *const (),
                Reports::<'static, $device>::dump_json as *const (),
                Reports::<'static, $device>::leaks as *const (),
                Allocator::<$device>::statistics as *const (),
                Reports::<'static, $device>::blocks as *const (),
                Reports::<'static, $device>::detailed_statistics as *const (),
                Reports::<'static, $device>::memory_heaps as *const (),
                Allocator::<$device>::subscribe as *const (),
                Reports::<'static, $device>::allocations as *const (),
                Allocator::<$device>::check_invariants as *const (),
                WithMemoryOptions::<'static, $device>::create_buffer as *const (),
                WithMemoryOptions::<'static, $device>::create_image as *const (),
                Allocator::<$device>::create_aliasing_buffer as *const (),
                Allocator::<$device>::create_aliasing_image as *const (),
                WithMemoryOptions::<'static, $device>::create_pool as *const (),
                Allocator::<$device>::reset_pool as *const (),
                Allocator::<$device>::reserve as *const (),
                Reports::<'static, $device>::categories as *const (),
                Defragmentation::<'static, $device>::next_pass as *const (),
                Pass::<'static, $device>::end as *const (),
                Defragmenter::<$device>::step as *const (),
                Defragmenter::<$device>::new as *const (),
                Defragmenter::<$device>::stop as *const (),
                Defragmenter::<$device>::create_buffer as *const (),
                Defragmenter::<$device>::create_mapped_buffer as *const (),
                Defragmenter::<$device>::create_image as *const (),
                MakingRoom::<'static, $device>::create_buffer as *const (),
                MakingRoom::<'static, $device>::create_image as *const (),
                OwningAllocator::<$device>::create_buffer as *const (),
                OwningAllocator::<$device>::create_mapped_buffer as *const (),
                OwningAllocator::<$device>::create_image as *const (),
                OwningAllocator::<$device>::allocate as *const (),
                OwningAllocator::<$device>::allocate_memory as *const (),
                Transfer::<'static, $device>::new as *const (),
                Transfer::<'static, $device>::upload as *const (),
                Transfer::<'static, $device>::upload_to as *const (),
                Transfer::<'static, $device>::download as *const (),
                Transfer::<'static, $device>::download_from as *const (),
                Uploader::<$device>::new as *const (),
                Uploader::<$device>::initialize as *const (),
                Uploader::<$device>::update as *const (),
                Uploader::<$device>::write_image as *const (),
                Uploader::<$device>::submit as *const (),
                Uploader::<$device>::wait_for as *const (),
                ReadbackRing::<$device>::new as *const (),
                ReadbackRing::<$device>::allocate as *const (),
                ReadbackRing::<$device>::close as *const (),
                ReadbackRing::<$device>::read as *const (),
                ShaderVisibleHeap::<$device>::new as *const (),
                ShaderVisibleHeap::<$device>::insert as *const (),
                ShaderVisibleHeap::<$device>::insert_buffer as *const (),
                ShaderVisibleHeap::<$device>::insert_image as *const (),
                ShaderVisibleHeap::<$device>::replace as *const (),
                ShaderVisibleHeap::<$device>::remove as *const (),
                ShaderVisibleHeap::<$device>::allocate as *const (),
                ShaderVisibleHeap::<$device>::begin as *const (),
                ShaderVisibleHeap::<$device>::reclaim as *const (),
                Descriptors::<$device>::binding_layout as *const (),
                SamplerCache::<$device>::get as *const (),
                SamplerCache::<$device>::new as *const (),
                BindingSet::<$device>::new as *const (),
                BindingSet::<$device>::bind as *const (),
                BindingSet::<$device>::bind_buffer as *const (),
                BindingSet::<$device>::bind_image as *const (),
                BindingSet::<$device>::commit as *const (),
                BindingLayout::<$device>::new as *const (),
                BindingLayout::<$device>::bind_static as *const (),
                CpuDescriptorHeap::<$device>::new as *const (),
                MaintenanceThread::<$device>::spawn as *const (),
                MappedBuffer::<$device>::new as *const (),
                MappedBuffer::<$device>::accept_move as *const (),
                MappedBuffer::<$device>::accept_move_within as *const (),
                UploadPool::<$device>::new as *const (),
                UploadRing::<$device>::new as *const (),
            ];
            core::hint::black_box(functions);
            let dropped = [
                core::ptr::drop_in_place::<Gpu<$device>> as *const (),
                core::ptr::drop_in_place::<Allocator<$device>> as *const (),
                core::ptr::drop_in_place::<Buffer<$device>> as *const (),
                core::ptr::drop_in_place::<Image<$device>> as *const (),
                core::ptr::drop_in_place::<MappedBuffer<$device>> as *const (),
                core::ptr::drop_in_place::<BindingSet<$device>> as *const (),
                core::ptr::drop_in_place::<ShaderVisibleHeap<$device>> as *const (),
                core::ptr::drop_in_place::<SamplerCache<$device>> as *const (),
                core::ptr::drop_in_place::<PooledCommandAllocator<<$device as CommandDevice>::CommandAllocator>> as *const (),
                core::ptr::drop_in_place::<Frame<$device>> as *const (),
                core::ptr::drop_in_place::<Defragmenter<$device>> as *const (),
                core::ptr::drop_in_place::<UploadPool<$device>> as *const (),
                core::ptr::drop_in_place::<Uploader<$device>> as *const (),
            ];
            core::hint::black_box(dropped);
        }
    };
}

#[cfg(feature = "simulated")]
compiled_for!(for_simulated, crate::device::simulated::SimulatedGpu);
#[cfg(feature = "vulkan")]
compiled_for!(for_vulkan, crate::device::vulkan::Device);
#[cfg(all(feature = "d3d12", windows))]
compiled_for!(for_d3d12, crate::device::d3d12::Device);

//! Compiles the library for each of its own devices once, with this crate.
//!
//! Nearly everything here is generic over the device, so every program would compile it again: each test, each example,
//! an engine after each change. In a debug build a program takes what a crate below it has compiled already, if something
//! there has asked for it. A release build compiles anew for each program, to inline; there this would be for nothing.

macro_rules! compiled_for {
    ($name:ident, $device:ty) => {
        /// Names what most programs call. Nobody calls this.
        pub fn $name() {
            use crate::gpu::{Frame, Gpu, Uploads};
            use crate::memory::{Allocator, Buffer, Defragmentation, Defragmenter, Image, Pass};
            use crate::upload::{UploadPool, Uploader};

            let functions = [
                Gpu::<$device>::new as *const (),
                Gpu::<$device>::begin_frame as *const (),
                Gpu::<$device>::wait_idle as *const (),
                Gpu::<$device>::reclaim as *const (),
                Gpu::<$device>::create_buffer as *const (),
                Gpu::<$device>::create_image as *const (),
                Gpu::<$device>::create_mapped_buffer as *const (),
                Gpu::<$device>::create_buffer_or_defragment as *const (),
                Gpu::<$device>::create_image_or_defragment as *const (),
                Gpu::<$device>::read_buffer as *const (),
                Gpu::<$device>::subscribe as *const (),
                Uploads::<'static, $device>::write_buffer as *const (),
                Uploads::<'static, $device>::write_image as *const (),
                Uploads::<'static, $device>::submit as *const (),
                Frame::<$device>::end as *const (),
                Frame::<$device>::upload_arena as *const (),
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
                Allocator::<$device>::allocate_with as *const (),
                Allocator::<$device>::location as *const (),
                Allocator::<$device>::info as *const (),
                Allocator::<$device>::info_of as *const (),
                Allocator::<$device>::set_name as *const (),
                Allocator::<$device>::set_user_data as *const (),
                Allocator::<$device>::write as *const (),
                Allocator::<$device>::read as *const (),
                Allocator::<$device>::map as *const (),
                Allocator::<$device>::unmap as *const (),
                Allocator::<$device>::defragmentation as *const (),
                Allocator::<$device>::defragmentation_owned as *const (),
                Allocator::<$device>::make_room as *const (),
                Allocator::<$device>::maintain as *const (),
                Allocator::<$device>::create_pool as *const (),
                Allocator::<$device>::destroy_pool as *const (),
                Allocator::<$device>::dump_json as *const (),
                Allocator::<$device>::leaks as *const (),
                Allocator::<$device>::statistics as *const (),
                Allocator::<$device>::blocks as *const (),
                Allocator::<$device>::detailed_statistics as *const (),
                Allocator::<$device>::memory_heap_reports as *const (),
                Allocator::<$device>::subscribe as *const (),
                Allocator::<$device>::allocations as *const (),
                Allocator::<$device>::check_invariants as *const (),
                Defragmentation::<'static, $device>::next_pass as *const (),
                Pass::<'static, $device>::end as *const (),
                Defragmenter::<$device>::step as *const (),
            ];
            core::hint::black_box(functions);
            let dropped = [
                core::ptr::drop_in_place::<Gpu<$device>> as *const (),
                core::ptr::drop_in_place::<Allocator<$device>> as *const (),
                core::ptr::drop_in_place::<Buffer<$device>> as *const (),
                core::ptr::drop_in_place::<Image<$device>> as *const (),
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
compiled_for!(for_simulated, super::simulated::SimulatedGpu);
#[cfg(feature = "vulkan")]
compiled_for!(for_vulkan, super::vulkan::Device);
#[cfg(all(feature = "d3d12", windows))]
compiled_for!(for_d3d12, super::d3d12::Device);

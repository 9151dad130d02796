//! Buffers that shaders see as texels: what is viewed, what is refused, and nothing left.

use std::sync::Arc;

use allotment::descriptor::DescriptorError;
use allotment::device::{BufferDesc, DescriptorDevice as _, TexelBufferDesc, TexelBufferUse};
use allotment::gpu::GpuDesc;
use allotment::{AllocationOptions, MemoryUsage};

use crate::fixture::{DescriptorFixture, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: DescriptorFixture>() -> Vec<Test<F>> {
    tests![F:
        buffers_are_seen_as_texels_within_the_limits_of_their_format,
    ]
}

const SIZE: u64 = 1 << 16;

fn buffers_are_seen_as_texels_within_the_limits_of_their_format<F: DescriptorFixture>(gpu: &Gpu<F>) {
    let front = allotment::Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let (format, texel) = gpu.fixture().texel_format();
    for usage in [TexelBufferUse::Uniform, TexelBufferUse::Storage] {
        let desc = BufferDesc::new(SIZE).with_usage(gpu.fixture().texel_usage(usage));
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("grid");
        let buffer = Arc::new(front.create_buffer(&desc.into(), &options).unwrap());
        let movable = Arc::new(front.create_buffer(&desc.into(), &options.clone().relocatable()).unwrap());
        let limits = gpu.device().texel_buffer_limits(format, usage).unwrap();
        assert_eq!(limits.texel, texel);
        let view = |buffer, range, format| {
            // SAFETY: the buffers were created for this use.
            unsafe { front.create_texel_buffer_view(buffer, &TexelBufferDesc::new(range, format, usage)) }
        };
        let start = limits.alignment.next_multiple_of(texel);
        let views =
            [0..SIZE, start..start + 4 * texel, 0..texel].map(|range| view(&buffer, range, format).unwrap());
        // Whatever the number is, what is refused reaches no driver, and what is not is valid.
        for number in 0..200 {
            match gpu.device().texel_buffer_limits(number, usage) {
                Some(limits) => drop(view(&buffer, 0..limits.texel, number).unwrap()),
                None => {
                    let refused = view(&buffer, 0..texel, number).unwrap_err();
                    assert!(matches!(refused, DescriptorError::TexelFormat { .. }), "{number}: {refused}");
                }
            }
        }
        for (refused, what) in [
            (view(&buffer, 0..SIZE + texel, format), "beyond the buffer"),
            (view(&buffer, texel..texel, format), "nothing"),
            (view(&buffer, 0..texel + 1, format), "a part of a texel"),
            (view(&movable, 0..texel, format), "of a buffer that moves"),
        ] {
            let refused = refused.map(|_| panic!("{what}")).unwrap_err();
            let expected = match what {
                "a part of a texel" => matches!(refused, DescriptorError::Misaligned { .. }),
                "of a buffer that moves" => matches!(refused, DescriptorError::Relocatable { .. }),
                _ => matches!(refused, DescriptorError::BadRange { .. }),
            };
            assert!(expected, "{what}: {refused}");
            assert_eq!(refused.name(), Some("grid"));
        }
        if let Ok(descriptors) = front.descriptors() {
            for view in views.map(Arc::new) {
                let slot = descriptors.resources().insert_texel_buffer(&view).unwrap();
                assert_eq!(Arc::strong_count(&view), 2);
                descriptors.resources().remove(slot).unwrap();
            }
        }
        drop((buffer, movable));
        for _ in 0..3 {
            front.wait_idle().unwrap();
        }
        assert_eq!(front.deletion_queue().statistics().pending, 0);
    }
}

//! The stand-in has each public item of gpu-allocator, and answers each call as it does.
//!
//! `items.rs`, `calls.rs` and `d3d12.rs` are compiled twice, over either crate. What only one of them has does not compile;
//! what they answer is compared.

macro_rules! over {
    ($name:ident) => {
        mod $name {
            pub(crate) mod items {
                use ::$name as api;
                include!("items.rs");
            }
            pub(crate) mod calls {
                use ::$name as api;
                include!("calls.rs");
            }
            #[cfg(windows)]
            pub(crate) mod d3d12 {
                use ::$name as api;
                include!("d3d12.rs");
            }
        }
    };
}

over!(real);
over!(compat);

use allotment_headless::vulkan::{Headless, HeadlessDesc};

/// Returns an API's device, or says that there is none, where the environment does not require one.
fn opened<D, E: core::fmt::Display>(api: &str, device: Result<D, E>) -> Option<D> {
    device
        .inspect_err(|error| {
            let required = std::env::var("ALLOTMENT_REQUIRE").unwrap_or_default();
            assert!(!required.contains(api), "{api} is required: {error}");
            eprintln!("skipped: {error}");
        })
        .ok()
}

fn assert_same(expected: &[String], answered: &[String]) {
    for (expected, answered) in expected.iter().zip(answered) {
        assert_eq!(answered, expected);
    }
    assert_eq!(answered.len(), expected.len());
}

#[test]
fn every_type_and_function_is_there_with_the_same_traits_and_signatures() {
    assert_eq!(compat::items::default_debug_settings(), real::items::default_debug_settings());
    assert_eq!(compat::items::displayed_errors(), real::items::displayed_errors());
    assert_eq!(compat::items::displayed_reports(), real::items::displayed_reports());
}

#[test]
fn every_call_is_answered_as_gpu_allocator_answers_it() {
    let Some(vulkan) = opened("vulkan", Headless::open(&HeadlessDesc::default())) else { return };
    let handles = || (vulkan.instance().clone(), vulkan.raw().clone(), vulkan.physical_device());
    let expected = real::calls::answers(handles());
    assert!(expected.len() > 200, "{} answers", expected.len());
    assert_same(&expected, &compat::calls::answers(handles()));
}

#[cfg(windows)]
mod d3d12 {
    use allotment_headless::d3d12::{Headless, HeadlessDesc};

    use super::{assert_same, compat, opened, real};

    #[test]
    fn resources_are_told_apart_in_the_same_way() {
        assert_same(&real::d3d12::categories(), &compat::d3d12::categories());
    }

    #[test]
    fn every_call_of_direct3d_12_is_answered_as_gpu_allocator_answers_it() {
        let Some(headless) = opened("d3d12", Headless::open(&HeadlessDesc::default())) else { return };
        let device = headless.device().raw();
        let expected = real::d3d12::answers(device);
        assert!(expected.len() > 200, "{} answers", expected.len());
        assert_same(&expected, &compat::d3d12::answers(device));
    }

    /// The difference that the README names.
    #[test]
    fn textures_have_no_memory_that_the_cpu_reaches() {
        let Some(headless) = opened("d3d12", Headless::open(&HeadlessDesc::default())) else { return };
        let device = headless.device().raw();
        assert_eq!(real::d3d12::mapped_textures(device), [true; 4]);
        assert_eq!(compat::d3d12::mapped_textures(device), [false; 4]);
    }
}

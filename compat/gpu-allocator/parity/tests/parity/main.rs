//! The stand-in has each public item of gpu-allocator, and answers each call as it does.
//!
//! `items.rs` and `calls.rs` are compiled twice, over either crate. What only one of them has does not compile; what they
//! answer is compared.

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
        }
    };
}

over!(real);
over!(compat);

use allotment_headless::vulkan::{Headless, HeadlessDesc};

#[test]
fn every_type_and_function_is_there_with_the_same_traits_and_signatures() {
    assert_eq!(compat::items::sizes_of_options(), real::items::sizes_of_options());
    assert_eq!(compat::items::displayed_errors(), real::items::displayed_errors());
    assert_eq!(compat::items::displayed_reports(), real::items::displayed_reports());
}

#[test]
fn every_call_is_answered_as_gpu_allocator_answers_it() {
    let vulkan = match Headless::open(&HeadlessDesc::default()) {
        Ok(vulkan) => vulkan,
        Err(error) => {
            let required = std::env::var("ALLOTMENT_REQUIRE").unwrap_or_default();
            assert!(!required.contains("vulkan"), "Vulkan is required: {error}");
            return eprintln!("skipped: {error}");
        }
    };
    let handles = || (vulkan.instance().clone(), vulkan.raw().clone(), vulkan.physical_device());
    let (expected, answered) = (real::calls::answers(handles()), compat::calls::answers(handles()));
    for (expected, answered) in expected.iter().zip(&answered) {
        assert_eq!(answered, expected);
    }
    assert_eq!(answered.len(), expected.len());
    assert!(expected.len() > 200, "{} answers", expected.len());
}

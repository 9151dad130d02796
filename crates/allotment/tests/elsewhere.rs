//! Says where the tests are: `cargo test -p allotment` would otherwise run the examples of the documentation and look as if there
//! were no others. The tests' `Cargo.toml` says why they are a package of their own.

#[test]
#[ignore = "the tests are the package allotment-tests: cargo test -p allotment-tests, or cargo test in the root"]
fn the_tests_are_in_another_package() {}

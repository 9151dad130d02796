//! Tests of real drivers, the same for Vulkan and Direct3D 12.
//!
//! They run under the validation layer or the debug layer: any message fails the command. `ALLOTMENT_VULKAN` and
//! `ALLOTMENT_D3D12` select the device by a part of its name, `ALLOTMENT_VALIDATION=off` disables the layer.
//! Without a device the tests report that they were skipped, and fail if `ALLOTMENT_REQUIRE` contains `vulkan` or
//! `d3d12`.

use std::io::Write;

use serde_json::Value;

use super::{allotment, error_line, folder, json, recorded};

/// A kind of real driver.
pub(crate) struct Driver {
    /// The value of `--device`, also used in `ALLOTMENT_REQUIRE`.
    name: &'static str,
    /// The name in messages.
    title: &'static str,
    /// The environment variable that names a device.
    variable: &'static str,
    /// Parts of the command's message if there is no device.
    missing: &'static [&'static str],
    /// Parts of the command's message if there is a device without a validation layer; tests then run without it.
    unwatched: &'static [&'static str],
}

pub(crate) const VULKAN: Driver = Driver {
    name: "vulkan",
    title: "Vulkan",
    variable: "ALLOTMENT_VULKAN",
    missing: &["no Vulkan", "no such Vulkan", "find a Vulkan driver", "is not installed"],
    unwatched: &[],
};

pub(crate) const D3D12: Driver = Driver {
    name: "d3d12",
    title: "Direct3D 12",
    variable: "ALLOTMENT_D3D12",
    missing: &["no Direct3D 12", "Direct3D 12 refused"],
    // An optional part of Windows that few machines have.
    unwatched: &["no debug layer"],
};

/// An available driver.
pub(crate) struct Here {
    driver: &'static Driver,
    validate: bool,
}

impl Driver {
    /// Returns the driver if there is a device with its validation layer. Otherwise prints a note, or fails if
    /// `ALLOTMENT_REQUIRE` demands the driver.
    pub(crate) fn here(&'static self, test: &str) -> Option<Here> {
        let mut here =
            Here { driver: self, validate: std::env::var("ALLOTMENT_VALIDATION").as_deref() != Ok("off") };
        let among = |parts: &[&str], why: &str| parts.iter().any(|part| why.contains(part));
        let mut failure = here.try_out();
        if failure.as_ref().is_some_and(|why| among(self.unwatched, why)) {
            here.validate = false;
            failure = here.try_out();
        }
        // Other failures are detected by the test.
        let Some(why) = failure.filter(|why| among(self.missing, why)) else { return Some(here) };
        let required = std::env::var("ALLOTMENT_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|kind| kind.trim() == self.name);
        assert!(!is_required, "{} is required: {why}", self.name);
        // Not `eprintln!`, whose output is hidden for tests that pass.
        let _ = writeln!(std::io::stderr(), "{test}: skipped: {why}");
        None
    }
}

impl Here {
    /// Opens the device with an empty trace, with its layer if validation is on. Returns the error message if that
    /// fails.
    fn try_out(&self) -> Option<String> {
        let folder = folder();
        let trace = folder.path().join("nothing.csv");
        std::fs::write(&trace, "op,id,size,alignment,kind,name\n").unwrap();
        let args = self.watched(&["replay", trace.to_str().unwrap(), "--bytes", "none"]);
        let output = allotment(&folder, &args);
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }

    /// Returns the arguments with those that select the device.
    pub(crate) fn args(&self, args: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        args.extend(["--device".to_owned(), self.driver.name.to_owned()]);
        if let Ok(name) = std::env::var(self.driver.variable) {
            args.extend(["--gpu".to_owned(), name]);
        }
        args
    }

    /// Returns the arguments with those that select the device and its validation layer.
    pub(crate) fn watched(&self, args: &[&str]) -> Vec<String> {
        let mut args = self.args(args);
        args.extend(self.validate.then(|| "--validate".to_owned()));
        args
    }

    /// Returns the output of `info`.
    pub(crate) fn info(&self) -> Value {
        let info = json(&allotment(&folder(), &self.args(&["info", "--json"])));
        assert_eq!((&info["device"], &info["profile"]), (&self.driver.name.into(), &Value::Null));
        assert!(!info["device_name"].as_str().unwrap().is_empty());
        info
    }

    /// Replays the race with every byte verified, and returns the summary.
    pub(crate) fn race(&self) -> Value {
        let folder = folder();
        let summary = json(&allotment(&folder, &self.watched(&["replay", "--json"])));
        assert_eq!((&summary["device"], &summary["profile"]), (&self.driver.name.into(), &Value::Null));
        assert_eq!((&summary["allocations"], &summary["frees"]), (&858.into(), &587.into()));
        let name = summary["device_name"].as_str().unwrap();
        let page = std::fs::read_to_string(folder.path().join("allotment-report.html")).unwrap();
        assert!(!name.is_empty() && page.starts_with("<!doctype html>"));

        let images = &summary["images"];
        // Most are BC3, which is an optional format.
        assert_eq!(number(&images["made"]) + number(&images["as_buffers"]), 307);
        assert_eq!(summary["bytes_verified"], summary["bytes_uploaded"]);
        assert!(number(&summary["bytes_verified"]) > 0);
        assert!(number(&summary["peak_reserved_bytes"]) >= number(&summary["peak_live_bytes"]));
        summary
    }

    /// Replays a trace of buffers with the ends of each verified: all bytes would be hundreds of gigabytes.
    pub(crate) fn ends_are_verified(&self, trace: &str, allocations: u64) {
        let path = recorded(trace);
        let args = self.watched(&["replay", path.to_str().unwrap(), "--bytes", "ends", "--json"]);
        let summary = json(&allotment(&folder(), &args));
        assert_eq!(summary["allocations"], allocations);
        assert_eq!(summary["bytes_verified"], summary["bytes_uploaded"]);
        assert!(summary["bytes_verified"].as_u64().unwrap() > 100 << 20);
        assert_eq!(summary["images"]["made"], 0);
    }

    /// Compares every algorithm on the device.
    pub(crate) fn algorithms_are_compared(&self) {
        let compared = json(&allotment(&folder(), &self.args(&["compare", "--json"])));
        assert_eq!((&compared["device"], &compared["profile"]), (&self.driver.name.into(), &Value::Null));
        let rows = compared["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 15);
        let mut tlsf = rows.iter().filter(|row| row["algorithm"] == "tlsf");
        assert!(tlsf.all(|row| row["failed"] == 0 && number(&row["peak_live_bytes"]) > 80_000_000));
    }

    /// Defragments the race early on, with real buffers and images, and returns the summary.
    pub(crate) fn race_is_defragmented(&self) -> Value {
        let folder = folder();
        let args = self.watched(&["defragment", "--strategy", "full", "--at", "25", "--json"]);
        let summary = json(&allotment(&folder, &args));
        assert_eq!((&summary["device"], &summary["profile"]), (&self.driver.name.into(), &Value::Null));
        let value = |key: &str| number(&summary[key]);
        assert!(value("block_bytes_after") <= value("block_bytes_before"), "{summary}");
        assert!(value("ideal_block_bytes") <= value("block_bytes_after"), "{summary}");
        // The memory of a buffer can be larger than the buffer.
        let known = value("bytes_verified") + value("bytes_not_verified");
        assert!(value("bytes_verified") > 0 && known <= value("live_bytes"), "{summary}");
        let page = std::fs::read_to_string(folder.path().join("allotment-defragmentation.html")).unwrap();
        assert!(page.contains(summary["device_name"].as_str().unwrap()));
        summary
    }

    /// Defragments buffers of one memory usage, most of which were freed: all that is left fits into one block.
    pub(crate) fn buffers_are_moved_together(&self) {
        const UPLOAD: u32 = 1;
        const READBACK: u32 = 2;
        const VERTEX: u32 = 128 | 2;
        let folder = folder();
        for usage in [UPLOAD, READBACK, VERTEX] {
            let mut lines = "op,id,size,alignment,kind,name\n".to_owned();
            (0..40).for_each(|id| lines += &format!("a,{id},500000,256,buffer,{usage}\n"));
            (0..40).filter(|id| id % 8 != 0).for_each(|id| lines += &format!("f,{id},,,,\n"));
            let trace = folder.path().join("trace.csv");
            std::fs::write(&trace, lines).unwrap();
            let trace = trace.to_str().unwrap();
            let args = self.watched(&["defragment", trace, "--json", "--at", "75", "--block-size", "4M"]);
            let summary = json(&allotment(&folder, &args));
            let value = |key: &str| number(&summary[key]);
            assert_eq!((value("moves"), value("moves_ignored")), (4, 0), "{summary}");
            assert_eq!((value("blocks_after"), value("ideal_block_bytes")), (1, 4 << 20), "{summary}");
            assert_eq!((value("bytes_verified"), value("bytes_not_verified")), (5 * 500_000, 0), "{summary}");
        }
    }

    pub(crate) fn the_summary_names_it(&self) {
        let folder = folder();
        let info = json(&allotment(&folder, &self.args(&["info", "--json"])));
        let output = allotment(&folder, &self.args(&["replay", "--bytes", "none"]));
        let text = String::from_utf8(output.stdout).unwrap();
        let (name, title) = (info["device_name"].as_str().unwrap(), self.driver.title);
        assert_eq!(
            text.lines().next(),
            Some(format!("supertuxkart-race on {name}, through {title}").as_str())
        );
        assert!(text.contains("Images created"), "{text}");
    }

    pub(crate) fn one_that_is_not_there_is_told_with_those_that_are(&self) {
        let folder = folder();
        for command in ["replay", "info", "compare", "defragment"] {
            let output = allotment(&folder, &[command, "--device", self.driver.name, "--gpu", "voodoo 9"]);
            assert_eq!(output.status.code(), Some(2), "{command}");
            let line = error_line(&output);
            let expected = format!("no {} device is named \"voodoo 9\"; the devices are ", self.driver.title);
            assert!(line.contains(&expected), "{line}");
        }
    }
}

/// The tests of every driver.
#[allow(unused_macros, reason = "each test file uses some of this module")]
macro_rules! suite {
    ($driver:expr) => {
        $crate::common::drivers::suite! {
            $driver;
            training_resnet50_is_replayed_with_real_buffers(|it| it.ends_are_verified("resnet50-train", 10_671));
            training_gpt2_is_replayed_with_real_buffers(|it| it.ends_are_verified("gpt2-train", 10_216));
            inference_is_replayed_with_real_buffers(|it| it.ends_are_verified("fasterrcnn-infer", 3_435));
            buffers_of_every_usage_are_moved_by_a_defragmentation(|it| it.buffers_are_moved_together());
            the_race_is_defragmented_with_real_buffers_and_images(|it| {
                it.race_is_defragmented();
            });
            algorithms_are_compared_on_it(|it| it.algorithms_are_compared());
            the_summary_names_the_device(|it| it.the_summary_names_it());
            a_device_that_is_not_there_is_told_with_those_that_are(
                |it| it.one_that_is_not_there_is_told_with_those_that_are()
            );
        }
    };
    ($driver:expr; $($name:ident($test:expr);)*) => {
        $(#[test]
        fn $name() {
            let test: fn(&$crate::common::drivers::Here) = $test;
            if let Some(here) = $driver.here(stringify!($name)) {
                test(&here);
            }
        })*
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use suite;

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

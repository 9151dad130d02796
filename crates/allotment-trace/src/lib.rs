//! Records what a program does with GPU memory: to a file, or in memory.
//!
//! A [`Recorder`] writes every event of a [`Gpu`](allotment::Gpu) or an [`Allocator`](allotment::Allocator) to a file, and
//! [`Recording::open`](recording::Recording::open) reads the file:
//!
//! ```
//! # use allotment::device::simulated::{Profile, SimulatedGpu};
//! # use allotment::device::BufferDesc;
//! # use allotment::{Gpu, GpuDesc, MemoryUsage};
//! # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! # let path = std::env::temp_dir().join(format!("allotment-doc-front-{}.altr", std::process::id()));
//! use allotment_trace::Recorder;
//! use allotment_trace::recording::{Event, Recording};
//!
//! let gpu = Gpu::new(device, GpuDesc::default())?;
//! let recorder = Recorder::to_file(&gpu, &path)?; // from here on, and what exists already
//! let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
//! drop(mesh);
//! drop(gpu); // frees all memory, so that what is left in the recording leaks
//! recorder.finish()?;
//!
//! let (recording, damage) = Recording::open(&path)?;
//! assert!(damage.is_none(), "the whole file can be read");
//! let freed = recording.events.iter().filter(|event| matches!(event, Event::Freed { .. })).count();
//! assert!(freed > 0);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Recordings and traces
//!
//! | | what it has | written by | read by |
//! |---|---|---|---|
//! | *recording*, a file `.altr` or a [`Recording`](recording::Recording) | every event of the library, with offsets, times and names | [`Recorder`], [`Collector`], [`import`] | the crates `allotment-analyze` and `allotment-report`, the command `allotment` |
//! | *trace*, a CSV file or a [`Trace`] | the requests of a program alone: sizes and alignments, in the order of the calls | [`export`], other programs | `allotment replay`, any allocator's benchmark |
//!
//! The option `--trace FILE` of the examples and of `allotment replay`, and the environment variable `ALLOTMENT_TRACE` that
//! [`Recorder::from_env`] reads, write a *recording*, in spite of their names.
//!
//! # Which one should I use?
//!
//! | task | what does it |
//! |---|---|
//! | record a program from its start to its end | [`Recorder::to_file`], [`Recorder::from_env`] |
//! | keep the last events, and write them after a panic or a lost device | [`Recorder::ring`] |
//! | look at the events in the same program: tests, benchmarks, tools | [`Collector`] |
//! | look at a program while it runs, from another one | [`LiveServer`](live::LiveServer), [`LiveRecording`](live::LiveRecording); see [`live`] |
//! | look at memory that another tool recorded: VMA, D3D12MA, GFXReconstruct, PyTorch | [`import`] |
//! | look at a recording in another tool: Perfetto, Firefox Profiler, spreadsheets | [`export`] |
//! | run the requests of a program through an allocator | [`Trace`] |
//!
//! A program has one reader of its events at a time: a second `Recorder`, `Collector` or `LiveServer` of the same `Gpu` gets the error
//! [`AlreadySubscribed`](allotment::events::AlreadySubscribed).
//!
//! # CSV traces
//!
//! An allocator is judged by the requests of real programs, and real programs are hard to run twice in the same
//! way. A trace is such a run, written down once. It has the size and alignment of every resource that was bound to
//! memory, in the order of the calls, and no times, addresses or driver. So a trace can be replayed through any
//! allocator on any machine, and two replays differ only in what the allocators did.
//!
//! CSV as in [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180), in UTF-8, plain or gzip-compressed,
//! with the header `op,id,size,alignment,kind,name`. Each further line is one event:
//!
//! | `op` | meaning | `id` | `size` | `alignment` | `kind` | `name` |
//! |---|---|---|---|---|---|---|
//! | `a` | a resource was bound to memory | a number never used before | bytes, 1 to 2^48 | bytes, a power of two up to 2^48 | `buffer` or `image` | see below |
//! | `f` | a resource was destroyed | of a live resource | – | – | – | – |
//! | `m` | a frame ended (present) | – | – | – | – | – |
//!
//! A dash is an empty field; its comma is still required. The name of an image is its format and extent, as text
//! ([`ImageShape`] parses it). The name of a buffer is its Vulkan usage flags as a decimal number, or empty if the
//! writer of the trace did not know them; other text is kept as a plain name. Resources that are never freed were live when
//! the program ended.
//!
//! Lines end with `\n` or `\r\n`, blank lines are ignored, and a line break inside a quoted field is not allowed:
//! one event is one line, so a line number always identifies an event.
//!
//! ## How do I replay a trace?
//!
//! Resources are stored once and events point at them by a dense [`ResourceIndex`], so a replayer keeps
//! its own state in a `Vec` and needs no hash map:
//!
//! ```
//! use allotment_trace::{Op, Trace};
//!
//! let csv = "\
//! op,id,size,alignment,kind,name
//! a,70,307200,16,image,VK_FORMAT_D32_SFLOAT 320x240x1
//! a,71,16,64,buffer,1
//! m,,,,,
//! f,71,,,,
//! ";
//! let trace = Trace::read(csv.as_bytes())?;
//!
//! let mut places = vec![None; trace.resource_count()];
//! let mut next = 0;
//! for event in trace.events() {
//!     match event.op {
//!         Op::Allocate(index) => {
//!             let resource = trace.resource(index);
//!             let offset = u64::next_multiple_of(next, resource.alignment());
//!             places[index.as_usize()] = Some(offset);
//!             next = offset + resource.size();
//!         }
//!         Op::Free(index) => places[index.as_usize()] = None,
//!         Op::FrameEnd => println!("line {}: {next} bytes used", event.line),
//!     }
//! }
//! assert_eq!(places, [Some(0), None]);
//! # Ok::<(), allotment_trace::TraceError>(())
//! ```
//!
//! ## How are errors reported?
//!
//! Everything is checked while a trace is read, and nothing is corrected silently: every [`Trace`] obeys the table above.
//! Anything else is a [`TraceError`], which is displayed as one line with the location, the error and often a
//! remedy:
//!
//! ```
//! use allotment_trace::{Trace, TraceErrorKind};
//!
//! let csv = "op,id,size,alignment,kind,name\na,0,12x,16,buffer,\n";
//! let error = Trace::read(csv.as_bytes()).unwrap_err();
//! assert_eq!(error.to_string(), r#"line 2: size "12x" is not a whole number of bytes"#);
//! assert!(matches!(error.kind(), TraceErrorKind::NotANumber { .. }));
//! ```
//!
//! ## Cost, and hostile files
//!
//! Reading is linear in the text. It takes memory in proportion to the text: 16 bytes per event and 48 per
//! resource, plus the names, and during reading the table of ids. The worst text, made of allocations in the
//! shortest form, took 8 times its own size at the peak, measured. Text is read and decompressed piece by piece,
//! and never more than [`MAX_TEXT_BYTES`] of it: a small file that decompresses endlessly is an error, but one that
//! decompresses into a gigabyte of valid events is a valid trace and takes those gigabytes. No input panics.
//!
//! ## Why not the `csv` crate?
//!
//! Its line numbers are off by one after `\r\n` and after blank lines, and it takes a quotation mark that is never
//! closed as one field up to the end of the file. Here the line number is half of every error. The tests use it as
//! an independent reference.

#![forbid(unsafe_code)]

mod bytes;
mod collector;
mod error;
mod error_text;
mod event;
pub mod export;
mod fields;
mod file;
mod format;
mod image;
pub mod import;
pub mod live;
pub mod output;
mod reader;
mod recorder;
pub mod recording;
mod resource;
mod text;
mod trace;
mod usage_flags;

pub use collector::Collector;
pub use error::{TraceError, TraceErrorKind};
pub use event::{Event, Op};
pub use fields::{Column, HEADER};
pub use image::ImageShape;
pub use reader::{MAX_ALIGNMENT, MAX_SIZE};
pub use recorder::{
    ENVIRONMENT_VARIABLE, Observed, RecordError, Recorder, RingDesc, allocator_settings, desc_of_settings,
    device_header,
};
pub use resource::{Resource, ResourceIndex, ResourceKind};
pub use text::{MAX_LINE_BYTES, MAX_TEXT_BYTES};
pub use trace::Trace;

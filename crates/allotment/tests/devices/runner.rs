//! Runs the tests of all kinds of devices, and says at the end how many ran on each.
//!
//! A test is counted as run only where its body ran to its end or failed. A kind that is not there shows
//! its tests as ignored. A test that hangs ends the run, and is named.
//!
//! Further profiles of the simulated device, older versions of Vulkan, and Direct3D 12's tier 1 and custom heaps are inputs of the
//! suite, as random numbers are of other tests. On those, a run of all tests runs the part that [`amount`](crate::amount) says. A
//! run with a filter runs every test that the filter matches.

use core::fmt::Write as _;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use libtest_mimic::{Arguments, Completion, Failed, FormatSetting, Trial};

use crate::amount::drawn;
use crate::fixture::{DescriptorFixture, Fixture, Outcome, Test};
use crate::gpu::Gpu;
use crate::suite;

/// How long a test may take. None should take seconds; but machines that test many things at once are slow.
const LIMIT: Duration = Duration::from_secs(120);

/// How many tests run at a time on Windows, unless the command line says another number: one, on the main thread.
///
/// With several, threads of tests still end while the process exits: `std::thread::scope` waits until a thread's function has
/// returned, and not until the thread has ended. A thread that used a driver takes milliseconds to end. Wine does not wait for
/// it and kills it with a signal, while it gives back what the driver keeps for the thread; and a run ended with a segmentation
/// fault after all of its tests had passed. One at a time takes as long: the tests on Direct3D 12 take turns in any case.
const WINDOWS_THREADS: usize = 1;

/// Kinds of devices, separated by commas, that must not be skipped.
const REQUIRE: &str = "ALLOTMENT_REQUIRE";

/// What else [`REQUIRE`] may name. The tests of pages read the same variable: a command that runs all tests sets it once.
const OF_OTHER_TESTS: [&str; 1] = ["chromium"];

/// A kind of device and the tests for it.
pub(crate) struct Kind {
    name: &'static str,
    /// Why none of its tests can run, where that is so.
    missing: Option<String>,
    /// More lines for its summary at the end.
    note: Option<&'static str>,
    trials: Vec<Trial>,
    /// The same again on other variants of the device.
    more_trials: Vec<Trial>,
    /// How many of those a run left out.
    left_out: usize,
    tally: Arc<Tally>,
}

/// How much of a suite is run on a device.
#[derive(Clone, Copy)]
pub(crate) enum Share {
    All,
    /// As much as [`amount`](crate::amount) says, since another variant of the device has all of it.
    Drawn,
}

/// The results of the tests of a kind.
#[derive(Default)]
struct Tally {
    ran: AtomicU64,
    /// How many tests did not apply, by reason.
    inapplicable: Mutex<BTreeMap<&'static str, u64>>,
}

impl Kind {
    /// A kind that is there.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            missing: None,
            note: None,
            trials: Vec::new(),
            more_trials: Vec::new(),
            left_out: 0,
            tally: Arc::default(),
        }
    }

    /// A kind that is not there, and why; with tests of these names, none of which can run.
    pub(crate) fn missing(name: &'static str, why: &str, tests: &[&'static str]) -> Self {
        let trial = |test: &&str| {
            let skipped = format!("skipped: {why}");
            let runner = move || Ok(Completion::ignored_with(skipped));
            Trial::ignorable_test(format!("{name}::{test}"), runner).with_ignored_flag(true)
        };
        Self { missing: Some(why.to_owned()), trials: tests.iter().map(trial).collect(), ..Self::new(name) }
    }

    /// Has the summary say something beside.
    #[cfg_attr(not(windows), expect(dead_code, reason = "only Direct3D 12 has something to say"))]
    pub(crate) fn note(&mut self, note: &'static str) {
        self.note = Some(note);
    }

    /// Adds a test, which runs on a device of its own. `variant` says which device of the kind it is.
    pub(crate) fn add<F: Fixture>(
        &mut self,
        variant: &str,
        test: Test<F>,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        let trial = self.trial(variant, test, make);
        self.trials.push(trial);
    }

    fn trial<F: Fixture>(
        &self,
        variant: &str,
        (name, test): Test<F>,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Trial {
        let tally = Arc::clone(&self.tally);
        let name = match variant {
            "" => format!("{}::{name}", self.name),
            _ => format!("{}({variant})::{name}", self.name),
        };
        let watched = name.clone();
        let runner = move || {
            let _watched = Watched::begin(watched);
            let gpu = Gpu::new(make());
            let counted = CountedAsRan(&tally);
            match test(&gpu) {
                Outcome::Ran => drop(counted),
                Outcome::DoesNotApply(why) => {
                    core::mem::forget(counted);
                    *tally.inapplicable.lock().unwrap().entry(why).or_default() += 1;
                    return Ok(Completion::ignored_with(format!("does not apply: {why}")));
                }
            }
            gpu.finish().map_err(Failed::from)?;
            Ok(Completion::Completed)
        };
        Trial::ignorable_test(name, runner)
    }

    /// The list that a share of a suite belongs to.
    fn list(&mut self, share: Share) -> &mut Vec<Trial> {
        match share {
            Share::All => &mut self.trials,
            Share::Drawn => &mut self.more_trials,
        }
    }

    /// Returns the tests that a run has, and leaves the others out.
    fn take_trials(&mut self, draws: bool) -> Vec<Trial> {
        let mut trials = core::mem::take(&mut self.trials);
        let more = core::mem::take(&mut self.more_trials);
        let all = trials.len() + more.len();
        trials.extend((0..).zip(more).filter(|&(number, _)| !draws || drawn(number)).map(|(_, trial)| trial));
        self.left_out = all - trials.len();
        trials
    }

    /// Adds the conformance suite for a device that `make` makes.
    pub(crate) fn conformance<F: Fixture>(
        &mut self,
        variant: &str,
        share: Share,
        make: impl Fn() -> F + Clone + Send + 'static,
    ) {
        for test in suite::all::<F>() {
            let trial = self.trial(variant, test, make.clone());
            self.list(share).push(trial);
        }
    }

    /// Adds the suite about descriptors for a device that `make` makes.
    pub(crate) fn descriptors<F: DescriptorFixture>(
        &mut self,
        variant: &str,
        share: Share,
        make: impl Fn() -> F + Clone + Send + 'static,
    ) {
        for test in suite::descriptors::all::<F>() {
            let trial = self.trial(variant, test, make.clone());
            self.list(share).push(trial);
        }
    }

    /// Returns the summary of the kind. `skipped` tests of it were chosen and did not run.
    fn summary(&self, skipped: usize) -> String {
        let ran = self.tally.ran.load(Relaxed);
        let plural = if ran == 1 { "" } else { "s" };
        let mut line = format!("device {}: {ran} test{plural} ran, {skipped} skipped", self.name);
        if let Some(why) = self.missing.as_ref().filter(|_| skipped > 0) {
            write!(line, ": {why}").unwrap();
        }
        for (why, count) in &*self.tally.inapplicable.lock().unwrap() {
            write!(line, "; {count} do not apply: {why}").unwrap();
        }
        if self.left_out > 0 {
            write!(line, "; {} left out, which ALLOTMENT_PERCENT=100 runs", self.left_out).unwrap();
        }
        if let Some(note) = self.note {
            write!(line, "; {note}").unwrap();
        }
        line
    }
}

/// Counts a test as run when dropped, which a panic does as well.
struct CountedAsRan<'a>(&'a Tally);

impl Drop for CountedAsRan<'_> {
    fn drop(&mut self) {
        self.0.ran.fetch_add(1, Relaxed);
    }
}

/// The tests that run now, and since when.
static RUNNING: Mutex<Vec<(String, Instant)>> = Mutex::new(Vec::new());

/// A test that runs.
struct Watched(String);

impl Watched {
    fn begin(test: String) -> Self {
        RUNNING.lock().unwrap().push((test.clone(), Instant::now()));
        Self(test)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        RUNNING.lock().unwrap().retain(|(test, _)| *test != self.0);
    }
}

/// Ends the run when a test hangs: a thread that waits for a driver cannot be ended by itself. Returns when the sender is
/// dropped, after the last test.
fn watch(ended: &Receiver<()>) {
    while ended.recv_timeout(LIMIT / 100) == Err(RecvTimeoutError::Timeout) {
        let running = RUNNING.lock().unwrap();
        if let Some((test, _)) = running.iter().find(|(_, began)| began.elapsed() > LIMIT) {
            eprintln!("error: {test} has run for more than {LIMIT:?} and hangs");
            std::process::exit(101);
        }
    }
}

/// Which kinds must not be skipped, out of what [`REQUIRE`] says.
fn required(said: &str, known: &[&'static str]) -> Result<Vec<&'static str>, String> {
    let named =
        said.split(',').map(str::trim).filter(|name| !name.is_empty() && !OF_OTHER_TESTS.contains(name));
    let find = |name: &str| known.iter().copied().find(|known| *known == name).ok_or(name.to_owned());
    named.map(find).collect::<Result<_, _>>().map_err(|name| {
        format!("{REQUIRE} names {name:?}, and the kinds of devices are {}", known.join(", "))
    })
}

/// Direct3D 12 is held against no fewer tests than Vulkan, less those that do not apply to it for a reason
/// that is printed; where both must run.
fn fewer(kinds: &[Kind], required: &[&str]) -> Option<String> {
    let counted = |name| {
        let kind = kinds.iter().find(|kind| kind.name == name && required.contains(&name))?;
        let excused: u64 = kind.tally.inapplicable.lock().unwrap().values().sum();
        Some((kind.tally.ran.load(Relaxed), excused))
    };
    let ((vulkan, _), (d3d12, excused)) = (counted("vulkan")?, counted("d3d12")?);
    (d3d12 + excused < vulkan)
        .then(|| format!("{d3d12} tests ran on d3d12 and {excused} do not apply, but {vulkan} ran on vulkan"))
}

/// A test that fails because of a skip.
fn failing_skip(kind: &str, why: &str) -> Trial {
    let failure = format!("{REQUIRE} names {kind}, and {kind} was skipped: {why}");
    Trial::test(format!("{kind}::is_required_and_must_not_be_skipped"), move || Err(failure.into()))
}

/// Tests of the runner.
fn own_trials() -> Vec<Trial> {
    let known = ["simulated", "vulkan"];
    let same = |said: &'static str, kinds: &'static [&'static str]| {
        move || {
            let found = required(said, &known).map_err(Failed::from)?;
            if found == kinds { Ok(()) } else { Err(Failed::from(format!("{said:?} is {found:?}"))) }
        }
    };
    vec![
        Trial::test("runner::no_kind_is_required_unless_it_is_named", same(" , ", &[])),
        Trial::test(
            "runner::the_named_kinds_are_required",
            same("vulkan, simulated", &["vulkan", "simulated"]),
        ),
        Trial::test(
            "runner::what_other_tests_require_is_no_kind_and_no_error",
            same("simulated,chromium", &["simulated"]),
        ),
        Trial::test("runner::a_kind_that_does_not_exist_cannot_be_required", move || {
            match required("simulated,glide", &known) {
                Err(message) if message.contains("\"glide\"") => Ok(()),
                other => Err(Failed::from(format!("{other:?}"))),
            }
        }),
    ]
}

/// Runs what the command line asks for.
pub(crate) fn run(mut kinds: Vec<Kind>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if cfg!(windows) {
        arguments.test_threads.get_or_insert(WINDOWS_THREADS);
    }
    let known: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    let required = match required(&std::env::var(REQUIRE).unwrap_or_default(), &known) {
        Ok(required) => required,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::FAILURE;
        }
    };

    let mut trials = own_trials();
    let mut skipped = Vec::new();
    let draws = arguments.filter.is_none() && !arguments.list;
    for kind in &mut kinds {
        let chosen = |trial: &&Trial| kind.missing.is_some() && !arguments.is_filtered_out(trial);
        skipped.push(kind.trials.iter().filter(chosen).count());
        trials.append(&mut kind.take_trials(draws));
        if let Some(why) = kind.missing.as_ref().filter(|_| required.contains(&kind.name)) {
            trials.push(failing_skip(kind.name, why));
        }
    }

    let (last_test, ended) = channel();
    let watcher = std::thread::spawn(move || watch(&ended));
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(last_test);
    watcher.join().expect("it does not panic");
    // A list is read by programs, and so is JSON.
    if !arguments.list && arguments.format != Some(FormatSetting::Json) {
        for (kind, skipped) in kinds.iter().zip(skipped) {
            println!("{}", kind.summary(skipped));
        }
        println!();
    }
    // Tests of the simulated device may be left out: they are not counted here.
    let skips_others = arguments.skip.iter().all(|skip| skip.starts_with("simulated("));
    let whole = arguments.filter.is_none() && skips_others && !arguments.list;
    if let Some(validation_error) = fewer(&kinds, &required).filter(|_| whole) {
        eprintln!("error: {validation_error}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

//! What recorders do to files: nothing is lost that was recorded before, nor what another recorder writes.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::{env, fs, thread};

use allotment::device::simulated::SimulatedGpu;
use allotment::{Allocator, MemoryUsage, Requirements};
use allotment_trace::output::OutputFile;
use allotment_trace::recording::{Event, Recording};
use allotment_trace::{RecordError, Recorder, RingDesc};

use super::allocator;

/// The directory of a test, removed with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("allotment-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the names in it.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Allocates and frees.
fn work(allocator: &Allocator<SimulatedGpu>, times: u64) {
    for number in 0..times {
        let token =
            allocator.allocate(&Requirements::new(100 + number % 50), &MemoryUsage::GpuOnly.into()).unwrap();
        allocator.free(token).unwrap();
    }
}

/// Returns how many allocations a file has, and whether it is whole.
fn allocations_in(path: &Path) -> (usize, bool) {
    let Ok((recording, damage)) = Recording::open(path) else { return (0, false) };
    let count = recording.events.iter().filter(|event| matches!(event, Event::Allocated(_))).count();
    (count, damage.is_none())
}

/// Waits until a file has so many allocations.
fn until_it_has(path: &Path, allocations: usize) {
    let mut patience = 0;
    while allocations_in(path).0 < allocations {
        thread::sleep(Duration::from_millis(10));
        patience += 1;
        assert!(patience < 6000, "{:?}", allocations_in(path));
    }
}

#[test]
#[cfg(unix)]
fn a_file_that_is_finished_is_free_at_once_though_another_thread_starts_programs() {
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::process::Command;

    let (allocator, folder, done) = (allocator(), Folder::new("programs"), AtomicBool::new(false));
    let path = folder.at("often.altr");
    thread::scope(|scope| {
        // Each has the open files of this process until it begins.
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    Command::new("true").status().unwrap();
                }
            });
        }
        let written = (0..60).try_for_each(|_| {
            let recorder = Recorder::to_file(&allocator, &path)?;
            recorder.finish().unwrap();
            Ok::<_, RecordError>(())
        });
        done.store(true, Relaxed);
        written.unwrap();
    });
}

#[test]
fn a_recorder_that_is_refused_changes_no_file() {
    let (allocator, folder) = (allocator(), Folder::new("refused"));
    let path = folder.at("earlier.altr");
    let first = Recorder::to_file(&allocator, &path).unwrap();
    work(&allocator, 100);
    first.finish().unwrap();
    let before = fs::read(&path).unwrap();

    let ring = Recorder::ring(&allocator, &RingDesc::default()).unwrap();
    let error = Recorder::to_file(&allocator, &path).unwrap_err();
    assert!(matches!(error, RecordError::AlreadySubscribed(_)), "{error}");
    let missing = folder.at("no such directory").join("x.altr");
    fs::create_dir(folder.at("a directory")).unwrap();
    for wrong in [folder.at("a directory"), missing, folder.at("new/"), path.join("x")] {
        for error in [Recorder::to_file(&allocator, &wrong).unwrap_err(), ring.write_to(&wrong).unwrap_err()]
        {
            assert!(matches!(&error, RecordError::Create { path, .. } if *path == wrong), "{error}");
            assert!(error.to_string().contains(&*wrong.to_string_lossy()), "{error}");
        }
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(folder.names(), ["a directory", "earlier.altr"]);
    ring.finish().unwrap();

    let again = Recorder::to_file(&allocator, &path).unwrap();
    work(&allocator, 7);
    again.finish().unwrap();
    assert_eq!(allocations_in(&path), (7, true));
    assert_eq!(folder.names(), ["a directory", "earlier.altr"]);
}

#[cfg(target_os = "linux")]
#[test]
fn where_no_file_may_be_created_the_error_says_where() {
    // A directory in which even root cannot create files.
    let (allocator, path) = (allocator(), Path::new("/sys/recording.altr"));
    let error = Recorder::to_file(&allocator, path).unwrap_err();
    assert!(matches!(&error, RecordError::Create { path: of, .. } if of == path), "{error}");
    Recorder::ring(&allocator, &RingDesc::default()).unwrap().finish().unwrap();
}

#[test]
fn an_empty_path_is_said_to_be_empty() {
    let refused = Recorder::to_file(&allocator(), "").unwrap_err().to_string();
    assert!(refused.contains("its path is empty"), "{refused}");
}

#[test]
fn a_file_that_a_recorder_writes_is_refused_to_others_by_any_name() {
    let (one, other, folder) = (allocator(), allocator(), Folder::new("two"));
    let path = folder.at("the recording.altr");
    let mut names = vec![path.clone(), folder.at(".").join("the recording.altr")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("the recording.altr", folder.at("link")).unwrap();
        std::os::unix::fs::symlink(&folder.0, folder.at("here")).unwrap();
        names.extend([folder.at("link"), folder.at("here").join("link")]);
    }
    let first = Recorder::to_file(&one, &path).unwrap();
    work(&one, 1000);
    let ring = Recorder::ring(&other, &RingDesc::default()).unwrap();
    for name in &names {
        let errors = [Recorder::to_file(&one, name).unwrap_err(), ring.write_to(name).unwrap_err()];
        for error in errors {
            assert!(matches!(&error, RecordError::InUse { path } if path == name), "{error}");
        }
        assert!(OutputFile::new(name).unwrap().check().is_err(), "nor is anything else written there");
    }
    ring.finish().unwrap();
    let error = Recorder::to_file(&other, &path).unwrap_err();
    assert!(matches!(&error, RecordError::InUse { .. }), "{error}");
    // The other allocator has a reader no more.
    let second = Recorder::to_file(&other, folder.at("another.altr")).unwrap();
    work(&one, 1000);
    work(&other, 10);
    first.finish().unwrap();
    second.finish().unwrap();
    assert_eq!(allocations_in(&path), (2000, true));
    assert_eq!(allocations_in(&folder.at("another.altr")), (10, true));
    // It is free again.
    for name in &names {
        Recorder::to_file(&other, name).unwrap().finish().unwrap();
    }
    assert!(fs::symlink_metadata(folder.at("link")).is_ok_and(|it| it.is_symlink()) == cfg!(unix));
}

#[test]
fn of_recorders_that_begin_at_once_on_one_path_one_gets_it() {
    const THREADS: u64 = 6;
    let folder = Folder::new("race");
    for round in 0..20 {
        let path = folder.at(if round % 2 == 0 { "old.altr" } else { "new.altr" });
        if round % 2 == 1 {
            let _ = fs::remove_file(&path);
        }
        let barrier = Barrier::new(THREADS as usize);
        let winners: Vec<u64> = thread::scope(|scope| {
            let record = |number: u64| {
                let (path, barrier) = (&path, &barrier);
                move || {
                    let allocator = allocator();
                    barrier.wait();
                    let recorder = Recorder::to_file(&allocator, path);
                    work(&allocator, number);
                    // None ends before all have begun.
                    barrier.wait();
                    match recorder {
                        Ok(recorder) => recorder.finish().map(|_| Some(number)).unwrap(),
                        Err(RecordError::InUse { .. }) => None,
                        Err(error) => panic!("{error}"),
                    }
                }
            };
            let threads: Vec<_> = (1..=THREADS).map(|number| scope.spawn(record(number))).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        let [winner] = winners[..] else { panic!("{winners:?}") };
        assert_eq!(allocations_in(&path), (winner as usize, true));
    }
    assert_eq!(folder.names(), ["new.altr", "old.altr"]);
}

/// What a program of its own does, which the tests below run themselves as.
const ROLE: &str = "ALLOTMENT_TEST_ROLE";
const PATH: &str = "ALLOTMENT_TEST_PATH";

#[test]
fn role() {
    let (Some(role), Some(path)) = (env::var_os(ROLE), env::var_os(PATH)) else { return };
    let (allocator, path) = (allocator(), PathBuf::from(path));
    match role.to_str().unwrap() {
        "crashes" => {
            let _recorder = Recorder::to_file(&allocator, &path).unwrap();
            work(&allocator, 500);
            until_it_has(&path, 500);
            std::process::abort();
        }
        "is refused" => {
            let error = Recorder::to_file(&allocator, &path).unwrap_err();
            assert!(matches!(error, RecordError::InUse { .. }), "{error}");
        }
        "has no room" => {
            let error = Recorder::to_file(&allocator, &path).unwrap_err();
            assert!(matches!(error, RecordError::Write { .. }), "{error}");
            let ring = Recorder::ring(&allocator, &RingDesc::default()).unwrap();
            work(&allocator, 1000);
            let error = ring.write_to(&path).unwrap_err();
            assert!(matches!(error, RecordError::Write { .. }), "{error}");
        }
        role => panic!("{role}"),
    }
}

fn run_as(role: &str, path: &Path, command: Option<&str>) -> bool {
    let this = env::current_exe().unwrap();
    let mut command = match command {
        Some(shell) => {
            let mut command = Command::new("sh");
            command.args(["-c", shell]).arg(this);
            command
        }
        None => Command::new(this),
    };
    let run = command.args(["--exact", "files::role"]).env(ROLE, role).env(PATH, path).output().unwrap();
    if !run.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&run.stderr));
    }
    run.status.success()
}

#[test]
fn what_a_program_recorded_is_in_its_file_when_it_crashes() {
    let folder = Folder::new("crash");
    let path = folder.at("crash.altr");
    assert!(!run_as("crashes", &path, None));
    assert_eq!(allocations_in(&path), (500, false));
    assert_eq!(folder.names(), ["crash.altr"]);
    // The file of a program that is gone is nobody's.
    let allocator = allocator();
    Recorder::to_file(&allocator, &path).unwrap().finish().unwrap();
    assert_eq!(allocations_in(&path), (0, true));
}

#[test]
fn a_file_that_one_process_records_to_is_refused_to_another() {
    let (allocator, folder) = (allocator(), Folder::new("process"));
    let path = folder.at("mine.altr");
    let recorder = Recorder::to_file(&allocator, &path).unwrap();
    work(&allocator, 100);
    assert!(run_as("is refused", &path, None));
    work(&allocator, 100);
    recorder.finish().unwrap();
    assert_eq!(allocations_in(&path), (200, true));
}

#[cfg(unix)]
#[test]
fn a_full_disk_costs_no_earlier_recording() {
    let (allocator, folder) = (allocator(), Folder::new("full"));
    let path = folder.at("earlier.altr");
    Recorder::to_file(&allocator, &path).unwrap().finish().unwrap();
    let before = fs::read(&path).unwrap();
    // Files cannot grow at all, and the writer gets an error.
    assert!(run_as("has no room", &path, Some(r#"trap "" XFSZ; ulimit -f 0; exec "$0" "$@""#)));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(folder.names(), ["earlier.altr"]);
}

#[test]
fn a_writer_that_panics_leaves_the_file_as_it_was() {
    let folder = Folder::new("panic");
    let path = folder.at("page.html");
    fs::write(&path, "what was there").unwrap();
    let output = OutputFile::new(&path).unwrap();
    let panicked = std::panic::catch_unwind(|| {
        output.replace(|file| {
            std::io::Write::write_all(file, b"half of")?;
            if env::args().len() < 1_000_000 { panic!("as the test wants") } else { Ok(()) }
        })
    });
    assert!(panicked.is_err());
    assert_eq!(
        (fs::read_to_string(&path).unwrap().as_str(), folder.names()),
        ("what was there", vec!["page.html".to_owned()])
    );
}

#[cfg(unix)]
#[test]
fn a_recording_keeps_the_permissions_of_the_file_that_it_replaces() {
    use std::os::unix::fs::PermissionsExt;
    let (allocator, folder) = (allocator(), Folder::new("permissions"));
    let path = folder.at("mine.altr");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    Recorder::to_file(&allocator, &path).unwrap().finish().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(allocations_in(&path), (0, true));
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_the_program_has_open_is_recorded_to_whole() {
    use std::os::fd::AsRawFd as _;

    let path = env::temp_dir().join(format!("allotment-open-{}.altr", std::process::id()));
    let file = fs::File::create(&path).unwrap();
    let allocator = allocator();
    let recorder = Recorder::to_file(&allocator, format!("/dev/fd/{}", file.as_raw_fd())).unwrap();
    // Each time is longer than the recorder keeps events before it writes them.
    for _ in 0..3 {
        work(&allocator, 10);
        thread::sleep(Duration::from_millis(150));
    }
    recorder.finish().unwrap();
    let (recording, damage) = Recording::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!((damage, recording.unread.len()), (None, 0));
    let allocated = recording.events.iter().filter(|event| matches!(event, Event::Allocated(_))).count();
    assert!(allocated >= 30, "{allocated}");
}

//! `allotment alias`: how little memory would do if all lifetimes were known: of a planning benchmark, or of a recording.

mod benchmark;
mod picture;

use core::fmt::{self, Write as _};
use core::ops::Range;
use std::time::Instant;

use allotment_analyze::{OfflineMemory, PlanLimits, PlanPicture, plan_all, proved};
use allotment_suballoc::plan::{Plan, Problem};
use allotment_trace::recording::Unread;
use serde::Serialize;

use self::benchmark::quoted;
use self::picture::{Part, svg};
use super::args::AliasArgs;
use super::load::{Input, index, load_input, need_history};
use super::table::{Align, Table, print_pairs, shown};
use super::unread::{say_json, say_unread};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::units::{bytes, count, percent};

/// The first plans may take as long, in seconds, even if less is asked for: without an order that is complete, a plan has nothing
/// that shares memory.
const FIRST_PLANS: f64 = 1.0;

pub(crate) fn run(args: &AliasArgs) -> Result<(), Failure> {
    let path = &args.file.path;
    let [output, picture] = [&args.output, &args.picture].map(|path| path.as_deref().map(OutputFile::new));
    let (output, picture) = (output.transpose()?, picture.transpose()?);
    if [&output, &picture].into_iter().flatten().any(|output| output.is(path)) {
        return Err(Failure::Usage(format!("{} would be overwritten", path.display())));
    }
    if let (Some(file), Some(path)) = (&output, &args.picture)
        && (file.is(path) || args.output.as_ref() == Some(path))
    {
        return Err(Failure::Usage(format!("{} cannot have both the plan and the picture", path.display())));
    }
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let input = Input::open(path)?;
    let (memories, unread) = match benchmark::read(&input)? {
        Some(memory) => (vec![memory], Vec::new()),
        None => of_recording(&input, args)?,
    };
    let began = Instant::now();
    let problems: Vec<_> = memories.iter().map(|memory| &memory.problem).collect();
    let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
    let limits = PlanLimits {
        capacity: args.capacity.unwrap_or(u64::MAX),
        greedy: nanoseconds(args.seconds.max(FIRST_PLANS)),
        all: nanoseconds(args.seconds),
    };
    let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let plans = plan_all(&problems, &limits, clock);
    let planned: Vec<_> =
        memories.into_iter().zip(plans).map(|(memory, plan)| Planned { memory, plan }).collect();
    let seconds = began.elapsed().as_secs_f64();
    if let Some(file) = output {
        let mut text = String::from("id,lower,upper,size,offset\n");
        planned.iter().try_for_each(|it| it.write(&mut text)).map_err(unexpected)?;
        file.write(text.as_bytes())?;
    }
    if let Some(file) = picture {
        let parts: Vec<_> = planned.iter().map(|it| it.drawn(&title)).collect();
        file.write(svg(&parts).map_err(unexpected)?.as_bytes())?;
    }
    if args.json {
        say_json(&unread, &AliasJson::new(&title, seconds, &planned))?;
    } else {
        print(&title, &unread, seconds, &planned);
    }
    match planned.iter().map(|it| it.plan.not_placed().count()).sum() {
        0 => Ok(()),
        missing => {
            Err(Failure::NotPlaced { items: missing, of: planned.iter().map(|it| it.problem().len()).sum() })
        }
    }
}

/// A string takes all that is written to it.
fn unexpected(error: fmt::Error) -> Failure {
    Failure::Unexpected(error.to_string())
}

/// Items that may share one range of memory.
struct Memory {
    /// Of a recording.
    memory_type: Option<u8>,
    /// The most bytes of blocks that the recorded program had at once.
    recorded_peak: Option<u64>,
    /// In the order of the problem's.
    items: Vec<NamedItem>,
    problem: Problem,
}

struct NamedItem {
    /// What the file calls it; of a recording, the number of the allocation.
    id: String,
    /// What a picture calls it.
    name: String,
    life: Range<u64>,
}

struct Planned {
    memory: Memory,
    plan: Plan,
}

impl Planned {
    fn problem(&self) -> &Problem {
        &self.memory.problem
    }

    fn drawn<'a>(&'a self, title: &str) -> Part<'a> {
        let (peak, lower_bound) = (self.plan.peak(), self.plan.lower_bound());
        let memory = self.memory.memory_type.map_or_else(String::new, |it| format!(", memory type {it}"));
        let title = format!(
            "{title}{memory}: {} for {}, at least {} (dashed); {}",
            bytes(peak),
            bytes(self.problem().total_size()),
            bytes(lower_bound),
            proved(&self.plan)
        );
        let lives = self.memory.items.iter().map(|item| item.life.clone());
        let picture = PlanPicture::new(self.problem(), &self.plan, lives);
        Part { title, picture, items: &self.memory.items }
    }

    /// Writes the items with their offsets, which are empty where there is no room.
    fn write(&self, out: &mut String) -> fmt::Result {
        for (at, NamedItem { id, life, .. }) in self.memory.items.iter().enumerate() {
            let size = self.problem().item(at).size;
            write!(out, "{},{},{},{size},", quoted(id), life.start, life.end)?;
            if let Some(offset) = self.plan.offset(at) {
                write!(out, "{offset}")?;
            }
            out.push('\n');
        }
        Ok(())
    }
}

/// Reads a recording: what each memory type has is planned alone.
fn of_recording(input: &Input, args: &AliasArgs) -> Result<(Vec<Memory>, Vec<Unread>), Failure> {
    let loaded = load_input(input, &args.file.replayed)?;
    need_history(&loaded, "how long anything lived")?;
    let timeline = index(&loaded);
    let memories =
        OfflineMemory::of(&timeline).map_err(|error| Failure::Input(format!("{}: {error}", loaded.title)))?;
    let memories = memories.into_iter().map(|memory| {
        let items = memory.allocations.iter().zip(memory.lives).map(|(&allocation, life)| {
            let id = allocation.0.to_string();
            let name = loaded.recording.text(timeline.texts(allocation).name).filter(|name| !name.is_empty());
            NamedItem { name: name.map_or_else(|| id.clone(), str::to_owned), id, life }
        });
        Memory {
            memory_type: Some(memory.memory_type.0),
            recorded_peak: Some(memory.recorded_peak),
            items: items.collect(),
            problem: memory.problem,
        }
    });
    Ok((memories.collect(), timeline.unread()))
}

fn print(title: &str, unread: &[Unread], seconds: f64, planned: &[Planned]) {
    say!("{}", shown(title));
    say_unread(unread);
    if let [only @ Planned { memory: Memory { memory_type: None, .. }, plan }] = planned {
        let missing = plan.not_placed().count();
        let mut pairs = vec![
            ("items", count(only.problem().len() as u64)),
            ("if none shared memory", bytes(only.problem().total_size())),
            ("peak", bytes(plan.peak())),
            ("lower bound", bytes(plan.lower_bound())),
            ("proved", proved(&only.plan)),
        ];
        if missing > 0 {
            pairs.push(("not placed", count(missing as u64)));
        }
        pairs.push(("time", format!("{seconds:.3} s")));
        let pairs: Vec<_> = pairs.into_iter().map(|(label, value)| (label.to_owned(), value)).collect();
        print_pairs(&pairs);
        return;
    }
    let mut table = Table::new(&[
        ("memory type", Align::Right),
        ("allocations", Align::Right),
        ("blocks at the peak", Align::Right),
        ("planned peak", Align::Right),
        ("lower bound", Align::Right),
        ("proved", Align::Left),
    ]);
    for it in planned {
        table.row([
            it.memory.memory_type.map_or_else(String::new, |it| it.to_string()),
            count(it.problem().len() as u64),
            bytes(it.memory.recorded_peak.unwrap_or(0)),
            bytes(it.plan.peak()),
            bytes(it.plan.lower_bound()),
            proved(&it.plan),
        ]);
    }
    table.print();
    say!("  planned in {seconds:.3} s");
}

#[derive(Serialize)]
struct AliasJson<'a> {
    file: &'a str,
    items: usize,
    peak_bytes: u64,
    lower_bound_bytes: u64,
    unshared_bytes: u64,
    /// `optimal`, or how far from the least that is possible at most.
    proved: String,
    optimal: bool,
    /// The peak by the lower bound; none where not all has a place.
    ratio: Option<f64>,
    not_placed: usize,
    seconds: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    memory_types: Vec<MemoryTypeJson>,
}

#[derive(Serialize)]
struct MemoryTypeJson {
    memory_type: u8,
    allocations: usize,
    recorded_peak_bytes: u64,
    peak_bytes: u64,
    lower_bound_bytes: u64,
    proved: String,
    optimal: bool,
    ratio: Option<f64>,
    not_placed: usize,
}

impl<'a> AliasJson<'a> {
    fn new(file: &'a str, seconds: f64, planned: &[Planned]) -> Self {
        // Each is at most some 2^61, and there may be 256 of them.
        let sum = |of: fn(&Planned) -> u64| planned.iter().map(of).fold(0, u64::saturating_add);
        let (peak, bound) = (sum(|it| it.plan.peak()), sum(|it| it.plan.lower_bound()));
        let not_placed = planned.iter().map(|it| it.plan.not_placed().count()).sum();
        let all_proved = match planned {
            [only] => proved(&only.plan),
            _ if not_placed > 0 => "not all have a place".to_owned(),
            _ if peak == bound => "optimal".to_owned(),
            _ => format!("within {} of the least that is possible", percent(peak - bound, bound)),
        };
        let of_type = |it: &Planned| {
            Some(MemoryTypeJson {
                memory_type: it.memory.memory_type?,
                allocations: it.problem().len(),
                recorded_peak_bytes: it.memory.recorded_peak?,
                peak_bytes: it.plan.peak(),
                lower_bound_bytes: it.plan.lower_bound(),
                proved: proved(&it.plan),
                optimal: it.plan.is_optimal(),
                ratio: ratio(it.plan.peak(), it.plan.lower_bound(), it.plan.not_placed().count()),
                not_placed: it.plan.not_placed().count(),
            })
        };
        Self {
            file,
            items: planned.iter().map(|it| it.problem().len()).sum(),
            peak_bytes: peak,
            lower_bound_bytes: bound,
            unshared_bytes: sum(|it| it.problem().total_size()),
            proved: all_proved,
            optimal: planned.iter().all(|it| it.plan.is_optimal()),
            ratio: ratio(peak, bound, not_placed),
            not_placed,
            seconds,
            memory_types: planned.iter().filter_map(of_type).collect(),
        }
    }
}

/// Returns the peak by the lower bound, if all items have a place.
fn ratio(peak: u64, bound: u64, not_placed: usize) -> Option<f64> {
    match (not_placed, peak == bound) {
        (0, true) => Some(1.0),
        (0, false) => Some(peak as f64 / bound as f64),
        _ => None,
    }
}

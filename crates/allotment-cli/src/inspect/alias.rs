//! `allotment alias`: how little memory would do if all lifetimes were known: of a planning benchmark, or of a recording.

use core::fmt::{self, Write as _};
use core::ops::Range;
use core::time::Duration;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

use allotment_analyze::OfflineMemory;
use allotment_suballoc::plan::{Item, Plan, Problem, Solver};
use serde::Serialize;

use super::alias_picture::{Drawn, Part, svg};
use super::args::AliasArgs;
use super::load::{index, load};
use super::table::{Align, Table, print_pairs, shown};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::units::{bytes, count, percent};

/// The columns of a planning benchmark, in any order, in its first line.
const COLUMNS: [&str; 4] = ["id", "lower", "upper", "size"];

pub(crate) fn run(args: &AliasArgs) -> Result<(), Failure> {
    let path = &args.file.path;
    let [output, picture] = [&args.output, &args.picture].map(|path| path.as_deref().map(OutputFile::new));
    let (output, picture) = (output.transpose()?, picture.transpose()?);
    if [&output, &picture].into_iter().flatten().any(|output| output.is(path)) {
        return Err(Failure::Usage(format!("{} would be overwritten", path.display())));
    }
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let memories = match read_benchmark(path)? {
        Some(memory) => vec![memory],
        None => of_recording(args)?,
    };
    let began = Instant::now();
    let stop = || began.elapsed() >= Duration::from_secs_f64(args.seconds);
    let mut planned = Vec::new();
    for memory in memories {
        let mut plan = Plan::new();
        let limit = args.capacity.unwrap_or(u64::MAX);
        Solver::new().search(&memory.problem, limit, stop, &mut plan);
        planned.push(Planned { memory, plan });
    }
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
        say!("{}", serde_json::to_string(&AliasJson::new(&title, seconds, &planned))?);
    } else {
        print(&title, seconds, &planned);
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

    /// What is proved of the plan, in words.
    fn proved(&self) -> String {
        let plan = &self.plan;
        if plan.is_optimal() {
            return "optimal".to_owned();
        }
        match plan.not_placed().count() {
            0 => format!(
                "within {} of the least that is possible",
                percent(plan.peak() - plan.lower_bound(), plan.lower_bound())
            ),
            _ => "not all have a place".to_owned(),
        }
    }

    fn drawn<'a>(&'a self, title: &str) -> Part<'a> {
        let (peak, lower_bound) = (self.plan.peak(), self.plan.lower_bound());
        let memory = self.memory.memory_type.map_or_else(String::new, |it| format!(", memory type {it}"));
        let title = format!(
            "{title}{memory}: {} for {}, at least {} (dashed); {}",
            bytes(peak),
            bytes(self.problem().total_size()),
            bytes(lower_bound),
            self.proved()
        );
        let items = self.memory.items.iter().enumerate().filter_map(|(at, item)| {
            let (offset, size) = (self.plan.offset(at)?, self.problem().item(at).size);
            Some(Drawn { name: &item.name, life: &item.life, offset, size })
        });
        Part { title, items: items.collect(), peak, lower_bound }
    }

    /// Writes the items with their offsets, which are empty where there is no room.
    fn write(&self, out: &mut String) -> fmt::Result {
        for (at, NamedItem { id, life, .. }) in self.memory.items.iter().enumerate() {
            let size = self.problem().item(at).size;
            write!(out, "{id},{},{},{size},", life.start, life.end)?;
            if let Some(offset) = self.plan.offset(at) {
                write!(out, "{offset}")?;
            }
            out.push('\n');
        }
        Ok(())
    }
}

/// Reads a planning benchmark; `None` where the first line says that the file is something else.
fn read_benchmark(path: &Path) -> Result<Option<Memory>, Failure> {
    let failure = |line: usize, what: &dyn fmt::Display| match line {
        0 => Failure::Input(format!("{}: {what}", path.display())),
        line => Failure::Input(format!("{}, line {line}: {what}", path.display())),
    };
    let file = File::open(path).map_err(|error| failure(0, &error))?;
    // The first line of a binary file may be all of it.
    let mut first = Vec::new();
    let mut file = BufReader::new(file);
    file.by_ref().take(1000).read_until(b'\n', &mut first).map_err(|error| failure(0, &error))?;
    let first = String::from_utf8_lossy(&first).into_owned();
    let columns: Vec<&str> = first.trim_start_matches('\u{feff}').trim().split(',').map(str::trim).collect();
    let found = COLUMNS.map(|name| columns.iter().position(|column| column.eq_ignore_ascii_case(name)));
    let [Some(id), Some(lower), Some(upper), Some(size)] = found else { return Ok(None) };
    let mut items = Vec::new();
    let mut problem = Vec::new();
    for (number, line) in (2..).zip(file.lines()) {
        let line = line.map_err(|error| failure(number, &error))?;
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |at: usize| {
            fields
                .get(at)
                .copied()
                .ok_or_else(|| failure(number, &format_args!("there is no field {}", at + 1)))
        };
        let read = |at: usize| {
            let text = field(at)?;
            let wrong =
                |_| failure(number, &format_args!("{}: \"{text}\" is not a whole number", columns[at]));
            text.parse::<u64>().map_err(wrong)
        };
        let life = read(lower)?..read(upper)?;
        if life.is_empty() {
            let what = format_args!("upper, {}, is not above lower, {}", life.end, life.start);
            return Err(failure(number, &what));
        }
        match read(size)? {
            0 => return Err(failure(number, &"the size is 0")),
            size => problem.push((Item::new(size), life.clone())),
        }
        let id = field(id)?.to_owned();
        items.push(NamedItem { name: id.clone(), id, life });
    }
    let problem = Problem::from_intervals(problem).map_err(|error| failure(0, &error))?;
    Ok(Some(Memory { memory_type: None, recorded_peak: None, items, problem }))
}

/// Reads a recording: what each memory type has is planned alone.
fn of_recording(args: &AliasArgs) -> Result<Vec<Memory>, Failure> {
    let loaded = load(&args.file)?;
    let timeline = index(&loaded);
    let memories =
        OfflineMemory::of(&timeline).map_err(|error| Failure::Input(format!("{}: {error}", loaded.title)))?;
    let memories = memories.into_iter().map(|memory| {
        let items = memory.allocations.iter().map(|&allocation| {
            let life = timeline.lifetime(allocation);
            let end = life.freed.unwrap_or_else(|| timeline.end() + 1).max(life.allocated + 1);
            let id = allocation.0.to_string();
            let name = loaded.recording.text(timeline.texts(allocation).name).filter(|name| !name.is_empty());
            NamedItem { name: name.map_or_else(|| id.clone(), str::to_owned), id, life: life.allocated..end }
        });
        Memory {
            memory_type: Some(memory.memory_type.0),
            recorded_peak: Some(memory.recorded_peak),
            items: items.collect(),
            problem: memory.problem,
        }
    });
    Ok(memories.collect())
}

fn print(title: &str, seconds: f64, planned: &[Planned]) {
    say!("{}", shown(title));
    if let [only @ Planned { memory: Memory { memory_type: None, .. }, plan }] = planned {
        let missing = plan.not_placed().count();
        let mut pairs = vec![
            ("items", count(only.problem().len() as u64)),
            ("if none shared memory", bytes(only.problem().total_size())),
            ("peak", bytes(plan.peak())),
            ("lower bound", bytes(plan.lower_bound())),
            ("proved", only.proved()),
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
            it.proved(),
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
}

impl<'a> AliasJson<'a> {
    fn new(file: &'a str, seconds: f64, planned: &[Planned]) -> Self {
        let sum = |of: fn(&Planned) -> u64| planned.iter().map(of).sum::<u64>();
        let (peak, bound) = (sum(|it| it.plan.peak()), sum(|it| it.plan.lower_bound()));
        let not_placed = planned.iter().map(|it| it.plan.not_placed().count()).sum();
        let proved = match planned {
            [only] => only.proved(),
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
                proved: it.proved(),
            })
        };
        Self {
            file,
            items: planned.iter().map(|it| it.problem().len()).sum(),
            peak_bytes: peak,
            lower_bound_bytes: bound,
            unshared_bytes: sum(|it| it.problem().total_size()),
            proved,
            not_placed,
            seconds,
            memory_types: planned.iter().filter_map(of_type).collect(),
        }
    }
}

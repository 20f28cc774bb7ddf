//! Rows of the export's tables, as events of the PyTorch profiler.
//!
//! A report may hold several processes, whose calls are counted from one in each: the one that had
//! a device do the most counts, unless another is asked for. Ranges of NVTX are of a thread; a thread that launches and has none
//! of its own, as autograd's, is taken to work within those of the thread that has the most.
//! Invariant: what an event says is what its row says; nothing is made up for a column without a
//! value.

use super::super::events::{Args, Category, Event};
use super::super::tables::{Kind, Range, Source, Tables};
use super::super::values::Id;
use super::database::{Cells, Database};
use super::words::{self, Words};
use crate::import::names::told;
use crate::trace::tables::ReadBudget;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const FILLS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const WAITS: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
const EVENTS: &str = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
const MEMORY: &str = "CUDA_GPU_MEMORY_USAGE_EVENTS";
const RANGES: &str = "NVTX_EVENTS";
const STRINGS: &str = "StringIds";
const GPUS: &str = "TARGET_INFO_GPU";
const CUDA_DEVICES: &str = "TARGET_INFO_CUDA_DEVICE";
const START: &str = "TARGET_INFO_SESSION_START_TIME";

/// Tables whose absence is said.
const WANTED: [&str; 9] = [KERNELS, COPIES, FILLS, CALLS, WAITS, MEMORY, RANGES, STRINGS, GPUS];

/// Of a name as much as is ever kept of it, and the sizes of an op's inputs behind it.
const MOST_TEXT: usize = 4096;

/// `ENUM_NSYS_EVENT_TYPE`: ranges that were pushed and popped, or started and ended.
const NVTX_RANGES: [i64; 2] = [59, 60];

/// `CUpti_ActivitySynchronizationType`.
const EVENT_WAIT: i64 = 1;
const STREAM_EVENT_WAIT: i64 = 2;
const STREAM_WAIT: i64 = 3;

/// Columns of a kernel's name, the fullest first.
const NAMES: [&str; 4] = ["demangledName", "shortName", "mangledName", "name"];

/// The processes that run kernels of NCCL or RCCL, in the order of the devices that they do so on.
///
/// # Errors
/// What is wrong with the database.
pub(super) fn meeting(path: &Path) -> Result<Vec<i64>, Diagnostics> {
    let database = Database::open(path)?;
    let mut reading = Reading::default();
    let bytes = usize::try_from(database.bytes).unwrap_or(usize::MAX);
    let refused = |rule| Diagnostics::one(path, None, rule, "", "check what the file is");
    reading.budget.take(bytes, 0).map_err(refused)?;
    reading.strings(&database)?;
    let mut found: BTreeMap<i64, i64> = BTreeMap::new();
    database.rows(KERNELS, &[&["globalPid", "deviceId"], &NAMES[..]].concat(), |cells| {
        let (Some(global), Some(device)) = (cells.number(0), cells.number(1)) else {
            return Ok(());
        };
        let Entry::Vacant(of) = found.entry(process(global)) else { return Ok(()) };
        let name = (2..6).find_map(|at| reading.text(cells, at)).unwrap_or_default();
        if name.to_ascii_lowercase().contains("nccl") {
            of.insert(device);
        }
        Ok(())
    })?;
    let mut all: Vec<(i64, i64)> = found.into_iter().map(|(of, device)| (device, of)).collect();
    all.sort_unstable();
    Ok(all.into_iter().map(|(_, of)| of).collect())
}

/// Reads the tables of an export, of a process or else of the one that did the most.
///
/// # Errors
/// What is wrong with the database, or that nothing in it ran on a device.
pub(super) fn read(path: &Path, wanted: Option<i64>) -> Result<Tables, Diagnostics> {
    let database = Database::open(path)?;
    let mut reading = Reading::default();
    reading.tables.source = Source::Nsight;
    reading.tables.missing = WANTED.into_iter().filter(|table| !database.has(table)).collect();
    // What is kept is measured by the file, of which a row is a small part.
    let bytes = usize::try_from(database.bytes).unwrap_or(usize::MAX);
    let refused = |rule| Diagnostics::one(path, None, rule, "", "check what the file is");
    reading.budget.take(bytes, 0).map_err(refused)?;
    reading.strings(&database)?;
    reading.numbers(&database)?;
    reading.devices(&database)?;
    match wanted {
        None => reading.choose(&database)?,
        Some(_) => reading.process = wanted,
    }
    reading.activities(&database)?;
    if reading.tables.activities.is_empty() {
        let rule = "an export of Nsight Systems holds kernels, copies or fills of a device";
        let remedy = "profile with `nsys profile --trace=cuda,nvtx`, and export that report with `nsys \
                      export --type sqlite`";
        return Err(Diagnostics::one(path, None, rule, database.some_names(), remedy));
    }
    reading.calls(&database)?;
    reading.waits(&database)?;
    reading.ranges(&database)?;
    reading.memory(&database)?;
    reading.lend_ranges();
    Ok(reading.tables)
}

#[derive(Default)]
struct Reading {
    tables: Tables,
    budget: ReadBudget,
    strings: BTreeMap<i64, Box<str>>,
    numbers: words::Numbers,
    /// The process that counts; none where rows do not say theirs.
    process: Option<i64>,
}

/// The process of a global thread or process: all but the number of the thread.
fn process(global: i64) -> i64 {
    global >> 24
}

/// Picoseconds of a time in nanoseconds.
fn ps(ns: i64) -> i128 {
    i128::from(ns) * 1000
}

/// An event from the columns `start` and `end`, which begin every row.
fn event(category: Category, cells: &Cells<'_>) -> Event {
    let (start, end) = (cells.number(0), cells.number(1));
    let span = start.zip(end).map(|(start, end)| ps(end) - ps(start)).filter(|&span| span >= 0);
    // What ends before it starts has no time.
    let start = start.filter(|_| span.is_some()).map(ps);
    Event { phase: b'X', category, start, span, ..Event::default() }
}

impl Reading {
    fn take(&mut self, event: &Event) -> Result<(), String> {
        let kept = self.tables.take(event);
        self.budget.take(0, kept)
    }

    fn strings(&mut self, database: &Database) -> Result<(), Diagnostics> {
        database.rows(STRINGS, &["id", "value"], |cells| {
            let (Some(id), Some(text)) = (cells.number(0), cells.text(1)) else { return Ok(()) };
            let text = cut(text);
            self.strings.insert(id, text.into());
            self.budget.take(0, text.len() + 64)
        })
    }

    /// Which numbers stand for what, where the export says it.
    fn numbers(&mut self, database: &Database) -> Result<(), Diagnostics> {
        for (index, table) in words::Numbers::TABLES.into_iter().enumerate() {
            database.rows(table, &["id", "label"], |cells| {
                if let (Some(id), Some(label)) = (cells.number(0), cells.text(1)) {
                    self.numbers.take(index, id, label);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The text of a column that has it, or its number among the strings.
    fn text<'a>(&'a self, cells: &'a Cells<'_>, at: usize) -> Option<&'a str> {
        let known = || self.strings.get(&cells.number(at)?).map(|text| &**text);
        known().or_else(|| cells.text(at).map(cut)).filter(|text| !text.is_empty())
    }

    fn devices(&mut self, database: &Database) -> Result<(), Diagnostics> {
        let mut gpus = BTreeMap::new();
        database.rows(GPUS, &["id", "name", "totalMemory"], |cells| {
            let memory = cells.number(2).and_then(|bytes| u64::try_from(bytes).ok());
            let name = cells.text(1).unwrap_or_default().chars().take(64).collect::<String>();
            let name = told(&name);
            if let Some(id) = cells.number(0).filter(|_| gpus.len() < 64) {
                gpus.insert(id, (name, memory.filter(|&bytes| bytes > 0)));
            }
            Ok(())
        })?;
        // Activities name a device as CUDA numbers it, which may leave some of the machine's out.
        let mut numbers = BTreeMap::new();
        database.rows(CUDA_DEVICES, &["cudaId", "gpuId"], |cells| {
            if let (Some(cuda), Some(gpu)) = (cells.number(0), cells.number(1)) {
                numbers.entry(cuda).or_insert(gpu);
            }
            Ok(())
        })?;
        for (id, gpu) in &gpus {
            let named = numbers.get(id).and_then(|id| gpus.get(id)).unwrap_or(gpu);
            self.tables.devices.insert(*id, named.clone());
        }
        database.rows(START, &["utcEpochNs"], |cells| {
            self.tables.epoch = cells.number(0).or(self.tables.epoch);
            Ok(())
        })
    }

    /// Finds the process that had a device do the most.
    fn choose(&mut self, database: &Database) -> Result<(), Diagnostics> {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for table in [KERNELS, COPIES, FILLS, GRAPHS] {
            database.rows(table, &["globalPid"], |cells| {
                if let Some(global) = cells.number(0) {
                    *counts.entry(process(global)).or_default() += 1;
                }
                Ok(())
            })?;
        }
        let most = counts.iter().max_by_key(|&(of, count)| (count, std::cmp::Reverse(of)));
        self.process = most.map(|(of, _)| *of);
        self.tables.elsewhere = counts.values().sum::<u64>() - most.map_or(0, |(_, count)| *count);
        Ok(())
    }

    fn is_ours(&self, global: Option<i64>) -> bool {
        global.is_none_or(|global| self.process.is_none_or(|ours| ours == process(global)))
    }

    fn activities(&mut self, database: &Database) -> Result<(), Diagnostics> {
        const COLUMNS: [&str; 6] =
            ["start", "end", "globalPid", "deviceId", "streamId", "correlationId"];
        let columns = |more: &[&'static str]| [&COLUMNS[..], more].concat();
        let names = columns(&NAMES);
        database.rows(KERNELS, &names, |cells| {
            let name = (6..10).find_map(|at| self.text(cells, at)).unwrap_or("kernel").to_owned();
            self.activity(Category::Kernel, cells, name, None)
        })?;
        // Graphs are recorded as a whole unless their nodes are asked for.
        database.rows(GRAPHS, &columns(&["graphId"]), |cells| {
            let graph = cells.number(6).map_or_else(String::new, |graph| format!(" {graph}"));
            self.activity(Category::Kernel, cells, format!("CUDA graph{graph}"), None)
        })?;
        let kinds = columns(&["bytes", "copyKind", "srcKind", "dstKind"]);
        database.rows(COPIES, &kinds, |cells| {
            let kind = self.numbers.of(Words::Copies, cells.number(7));
            let memory = |at: usize| self.numbers.of(Words::Memory, cells.number(at));
            let name = words::copy(kind, memory(8), memory(9));
            self.activity(Category::Copy, cells, name, cells.number(6))
        })?;
        database.rows(FILLS, &columns(&["bytes", "memKind"]), |cells| {
            let name = words::fill(self.numbers.of(Words::Memory, cells.number(7)));
            self.activity(Category::Fill, cells, name, cells.number(6))
        })
    }

    fn activity(
        &mut self,
        category: Category,
        cells: &Cells<'_>,
        name: String,
        bytes: Option<i64>,
    ) -> Result<(), String> {
        if !self.is_ours(cells.number(2)) {
            return Ok(());
        }
        let (device, stream) = (cells.number(3), cells.number(4));
        let args = Args { device, stream, correlation: cells.number(5), bytes, ..Args::default() };
        self.take(&Event { name, args, ..event(category, cells) })
    }

    /// An event of a thread of ours, which is in the column behind its times.
    fn threaded(&self, category: Category, cells: &Cells<'_>) -> Option<Event> {
        let global = cells.number(2);
        let number = global.unwrap_or(0);
        let (of, thread) = (Id::Number(process(number)), Id::Number(number & 0xFF_FFFF));
        let event = Event { process: of, thread, ..event(category, cells) };
        self.is_ours(global).then_some(event)
    }

    fn calls(&mut self, database: &Database) -> Result<(), Diagnostics> {
        let columns = ["start", "end", "globalTid", "correlationId"];
        database.rows(CALLS, &columns, |cells| {
            let Some(event) = self.threaded(Category::Runtime, cells) else { return Ok(()) };
            let args = Args { correlation: cells.number(3), ..Args::default() };
            self.take(&Event { args, ..event })
        })
    }

    /// What waited for what. Of an event that is waited for the last call counts that recorded it
    /// before. Where streams wait for events and no call recorded any, waits are not known.
    fn waits(&mut self, database: &Database) -> Result<(), Diagnostics> {
        // Event and the call that recorded it: the stream.
        let mut recorded: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        let columns = ["globalPid", "eventId", "correlationId", "streamId"];
        database.rows(EVENTS, &columns, |cells| {
            let said = (cells.number(1), cells.number(2), cells.number(3));
            if let (true, (Some(event), Some(call), Some(stream))) =
                (self.is_ours(cells.number(0)), said)
            {
                recorded.insert((event, call), stream);
                self.budget.take(0, 48)?;
            }
            Ok(())
        })?;
        let columns =
            ["start", "end", "globalPid", "syncType", "streamId", "correlationId", "eventId"];
        let mut lost = false;
        let mut waits = Vec::new();
        database.rows(WAITS, &columns, |cells| {
            if !self.is_ours(cells.number(2)) {
                return Ok(());
            }
            let kind = cells.number(3).unwrap_or(0);
            let (stream, correlation) = (cells.number(4), cells.number(5));
            let last = cells.number(6).zip(correlation).and_then(|(event, call)| {
                let last = recorded.range((event, i64::MIN)..(event, call)).next_back();
                last.map(|(&(_, call), &stream)| (stream, call))
            });
            let mut args = Args { correlation, ..Args::default() };
            let mut name = "";
            match (kind, last) {
                (EVENT_WAIT, Some((of, call))) => {
                    (args.stream, args.wait_on_record) = (Some(of), Some(call));
                }
                (STREAM_EVENT_WAIT, Some((of, call))) => {
                    name = "Stream Wait Event";
                    (args.stream, args.wait_on_stream) = (stream, Some(of));
                    args.wait_on_record = Some(call);
                }
                (STREAM_EVENT_WAIT, None) => {
                    lost |= recorded.is_empty();
                    return Ok(());
                }
                (EVENT_WAIT, None) => return Ok(()),
                (STREAM_WAIT, _) => args.stream = stream,
                // A context waits for all of its streams.
                _ => {}
            }
            self.budget.take(0, size_of::<Event>())?;
            waits.push(Event { name: name.to_owned(), args, ..event(Category::Sync, cells) });
            Ok(())
        })?;
        for wait in waits.iter().filter(|_| !lost) {
            self.tables.take(wait);
        }
        if lost {
            self.tables.missing.push(EVENTS);
        }
        Ok(())
    }

    fn ranges(&mut self, database: &Database) -> Result<(), Diagnostics> {
        let columns = ["start", "end", "globalTid", "eventType", "text", "textId"];
        database.rows(RANGES, &columns, |cells| {
            let is_range = cells.number(3).is_none_or(|kind| NVTX_RANGES.contains(&kind));
            let Some(text) = self.text(cells, 4).or_else(|| self.text(cells, 5)) else {
                return Ok(());
            };
            if !is_range {
                return Ok(());
            }
            let words::Said { name, op, sequence, shapes } = words::said(text);
            let category = if op { Category::Op } else { Category::Annotation };
            let Some(event) = self.threaded(category, cells) else { return Ok(()) };
            let args = Args { sequence, shapes, ..Args::default() };
            self.take(&Event { name, args, ..event })
        })
    }

    /// What was allocated and freed, with the sum so far of each memory.
    fn memory(&mut self, database: &Database) -> Result<(), Diagnostics> {
        let columns = [
            "start",
            "start",
            "globalPid",
            "deviceId",
            "address",
            "bytes",
            "memKind",
            "memoryOperationType",
        ];
        let mut rows = Vec::new();
        database.rows(MEMORY, &columns, |cells| {
            let bytes = cells.number(5).filter(|&bytes| bytes > 0);
            let sign = match self.numbers.of(Words::Operations, cells.number(7)) {
                Some(0) => 1,
                Some(1) => -1,
                _ => 0,
            };
            if !self.is_ours(cells.number(2)) || sign == 0 {
                return Ok(());
            }
            let host = words::is_host(self.numbers.of(Words::Memory, cells.number(6)));
            let args = Args {
                bytes: bytes.map(|bytes| sign * bytes),
                address: cells.number(4),
                device_type: Some(i64::from(!host)),
                device_id: cells.number(3),
                ..Args::default()
            };
            let name = "[memory]".to_owned();
            self.budget.take(0, size_of::<Event>())?;
            rows.push(Event { name, args, ..event(Category::Other, cells) });
            Ok(())
        })?;
        rows.sort_by_key(|row| row.start);
        let mut sums: BTreeMap<(Option<i64>, Option<i64>), i64> = BTreeMap::new();
        for (index, mut row) in rows.into_iter().enumerate() {
            let sum = sums.entry((row.args.device_type, row.args.device_id)).or_default();
            *sum = sum.saturating_add(row.args.bytes.unwrap_or(0));
            // What is freed and was not allocated here was there before.
            *sum = (*sum).max(0);
            (row.args.total_allocated, row.args.index) = (Some(*sum), Some(index as i64));
            self.tables.take(&row);
        }
        Ok(())
    }

    /// Lends the ranges that a program named on the thread with the most of them to threads that
    /// call and have none.
    fn lend_ranges(&mut self) {
        let named =
            |range: &&Range| matches!(range.kind, Kind::Forward | Kind::Backward | Kind::Label);
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for range in &self.tables.ranges {
            *counts.entry(range.thread).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|&(of, count)| (count, std::cmp::Reverse(of)));
        let Some((&lender, _)) = most else { return };
        let calling: BTreeSet<u32> = self.tables.calls.iter().map(|call| call.thread).collect();
        let of_lender = |range: &&Range| range.thread == lender;
        let lent: Vec<Range> =
            self.tables.ranges.iter().filter(of_lender).filter(named).copied().collect();
        let more = 2 * size_of::<Range>() * lent.len();
        for thread in calling.into_iter().filter(|thread| !counts.contains_key(thread)) {
            if self.budget.take(0, more).is_err() {
                return;
            }
            self.tables.ranges.extend(lent.iter().map(|range| Range { thread, ..*range }));
        }
    }
}

/// As much of a text as is kept, in whole letters.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MOST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

//! Memory timelines of the PyTorch profiler: what `export_memory_timeline("NAME.raw.json.gz")` wrote.
//!
//! A row is `[time in ns, action, bytes, category]`, sorted by time. An action is 1 for what was there
//! before (time -1), 2 for what is made, 3 for a new version of a tensor (two rows: what it was, with
//! negative bytes, and what it is), 4 for what is taken back (negative bytes). A category is a number
//! from 0 to 7, in the order of [`CATEGORIES`]. Objects have no names: which of several of one size
//! and category is taken back is not in the file, and the youngest is taken.
//! Invariant: bytes that are taken back were there.

use super::build::{Event, Footprint, MOST_BYTES};
use super::{Account, Imported};
use crate::import::profiler::day;
use crate::import::repaired::Passed;
use crate::import::stream::{open, refused};
use crate::trace::tables::{Findings, unpacked_name};
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{ObjectKind, Phase, Recorded, TraceMeta};

/// Categories by number, and the kinds that they become. What autograd keeps for itself, inputs and
/// temporaries are no activations.
const CATEGORIES: [(&str, ObjectKind); 8] = [
    ("parameter", ObjectKind::Weight),
    ("optimizer state", ObjectKind::Optimizer),
    ("input", ObjectKind::Buffer),
    ("temporary", ObjectKind::Buffer),
    ("activation", ObjectKind::Activation),
    ("gradient", ObjectKind::Gradient),
    ("autograd detail", ObjectKind::Buffer),
    ("unknown", ObjectKind::Buffer),
];
/// The category that says nothing.
const UNKNOWN: u8 = 7;

/// Makes a trace of a memory timeline, packed or not.
///
/// # Errors
/// What is wrong with the file, with line, column and row.
pub fn import_timeline(path: &Path) -> Result<Imported, Diagnostics> {
    let (text, passed) = open(path)?;
    let mut reading = Reading::new(passed);
    let mut parser = serde_json::Deserializer::from_reader(text);
    let result = parser.deserialize_seq(Rows(&mut reading)).and_then(|()| parser.end());
    if let Err(error) = result {
        if reading.rows == 0 && is_sums(path) {
            let rule = "a raw memory timeline is a list of rows [time, action, bytes, category]";
            let remedy = "a timeline of sums by category, or a page, does not say which memory is whose: \
                          export it with `profiler.export_memory_timeline(\"NAME.raw.json.gz\")`";
            return Err(Diagnostics::one(path, None, rule, error.to_string(), remedy));
        }
        return Err(refused(path, error, &format!("row {}", reading.rows)));
    }
    if reading.footprint.count() == 0 {
        let rule = "a memory timeline has rows of memory that is given";
        let remedy = "profile with profile_memory=True, record_shapes=True and with_stack=True";
        return Err(Diagnostics::one(path, None, rule, "none", remedy));
    }
    let first = reading.first;
    let mut footprint = reading.footprint;
    for (id, known) in reading.known.iter().enumerate() {
        let from_before = (id as u64) < footprint.account.before.0;
        if *known == UNKNOWN && from_before {
            footprint.is_of(id as u32, ObjectKind::State);
        }
    }
    footprint.account = Account {
        rows: reading.rows,
        rows_are: "rows",
        // It begins with all that is there.
        has_segments: true,
        device: "a device that the file does not name".to_owned(),
        kinds_by: "the file's category, of several the last that says something",
        pairs_by: "of several of one size and category the youngest",
        ..footprint.account
    };
    let (trace, account) = footprint.finish(meta(path, first));
    let mut findings = Findings::default();
    findings.unsound(path, &trace);
    findings.finish().into_result(Imported { trace, account })
}

/// Whether a file is what `export_memory_timeline("NAME.json")` writes: a list of times, and behind it
/// one of lists of sums.
fn is_sums(path: &Path) -> bool {
    let Ok((file, _)) = open(path) else { return false };
    let mut head = Vec::new();
    let _ = file.take(4096).read_to_end(&mut head);
    let text = String::from_utf8_lossy(&head);
    let Some(text) = text.trim_start().strip_prefix('[') else { return false };
    match text.split_once(']') {
        Some((_, rest)) => {
            let rest = rest.trim_start().trim_start_matches(',').trim_start();
            rest.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with('['))
        }
        // No row of four numbers is that long.
        None => head.len() == 4096,
    }
}

fn meta(path: &Path, first: u64) -> TraceMeta {
    let name = unpacked_name(path);
    let name = name.trim_end_matches(".json").trim_end_matches(".raw");
    let name = if name.is_empty() { "timeline" } else { name };
    let about =
        "Imported from a memory timeline of the PyTorch profiler: objects, sizes, lifetimes and \
                 categories. Ops are events of the host, and durations are the host's."
            .to_owned();
    let recorded = Recorded {
        how: "torch.profiler export_memory_timeline".to_owned(),
        when: day(i128::from(first) * 1000).unwrap_or_default(),
        on: String::new(),
    };
    let (batch, sequence, precision) = (1, 1, "recorded".to_owned());
    TraceMeta { name: name.to_owned(), about, precision, batch, sequence, recorded }
}

/// One row.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: i64,
    action: i64,
    bytes: i64,
    category: u8,
}

struct Reading {
    footprint: Footprint,
    /// Objects that are there, by size and category, the youngest last.
    live: BTreeMap<(u64, u8), Vec<u32>>,
    /// By object: the last category that says something.
    known: Vec<u8>,
    rows: u64,
    /// When the first event was.
    first: u64,
    /// When the latest event was.
    now: i64,
    /// The first of two rows of a new version.
    old: Option<Row>,
    passed: Passed,
    /// Bytes of text that the budget knows of.
    told: u64,
}

impl Reading {
    fn new(passed: Passed) -> Reading {
        let (footprint, live, known) = Default::default();
        let (rows, first, now, old, told) = (0, 0, 0, None, 0);
        Reading { footprint, live, known, rows, first, now, old, passed, told }
    }

    fn take(&mut self, [at, action, bytes, category]: [i64; 4]) -> Result<(), String> {
        let text = self.passed.bytes.get();
        self.footprint.read(usize::try_from(text - self.told).unwrap_or(usize::MAX))?;
        self.told = text;
        let category = u8::try_from(category).ok().filter(|&number| number <= UNKNOWN);
        let Some(category) = category else {
            return Err(format!("a category is from 0 to {UNKNOWN}"));
        };
        if bytes.unsigned_abs() >= MOST_BYTES {
            return Err("bytes are less than 2^57".to_owned());
        }
        let row = Row { at, action, bytes, category };
        if let Some(old) = self.old.take() {
            return self.version(old, row);
        }
        match action {
            1 => return self.preexisting(row),
            2..=4 => {}
            _ => return Err("an action is from 1 to 4".to_owned()),
        }
        if at < self.now {
            return Err("a time is not before that of the row before".to_owned());
        }
        if self.now == 0 {
            self.first = at.unsigned_abs();
        }
        self.now = at;
        match action {
            2 => self.create(row),
            3 if bytes <= 0 => {
                self.old = Some(row);
                Ok(())
            }
            3 => Err("a new version is two rows, the first with negative bytes".to_owned()),
            _ => self.destroy(row),
        }
    }

    fn preexisting(&mut self, row: Row) -> Result<(), String> {
        if row.at != -1 || self.now != 0 {
            return Err("what was there before has the time -1 and stands first".to_owned());
        }
        if row.bytes < 0 {
            return Err("what was there before has no negative bytes".to_owned());
        }
        if row.bytes == 0 {
            self.footprint.account.empty += 1;
            return Ok(());
        }
        let (name, kind) = CATEGORIES[usize::from(row.category)];
        let id = self.footprint.before(name, kind, row.bytes.unsigned_abs())?;
        self.keep(id, row);
        Ok(())
    }

    fn keep(&mut self, id: u32, row: Row) {
        self.live.entry((row.bytes.unsigned_abs(), row.category)).or_default().push(id);
        self.known.push(row.category);
    }

    fn create(&mut self, row: Row) -> Result<(), String> {
        if row.bytes < 0 {
            return Err("what is made has no negative bytes".to_owned());
        }
        if row.bytes == 0 {
            self.footprint.account.empty += 1;
            return Ok(());
        }
        let (name, kind) = CATEGORIES[usize::from(row.category)];
        let event = event(&row, "new", name);
        let id = self.footprint.made(&event.as_event(), (name, kind), row.bytes.unsigned_abs())?;
        self.keep(id, row);
        Ok(())
    }

    /// The youngest object of a size and category.
    fn youngest(&mut self, row: Row) -> Result<u32, String> {
        let key = (row.bytes.unsigned_abs(), row.category);
        let found = self.live.get_mut(&key).and_then(Vec::pop);
        let name = CATEGORIES[usize::from(row.category)].0;
        found.ok_or_else(|| format!("{} bytes of category {name:?} are there", key.0))
    }

    fn version(&mut self, old: Row, new: Row) -> Result<(), String> {
        if (new.action, new.at, new.bytes) != (3, old.at, -old.bytes) {
            let rule = "the second row of a new version has the time and the bytes of the first";
            return Err(rule.to_owned());
        }
        if new.bytes == 0 {
            self.footprint.account.empty += 1;
            return Ok(());
        }
        let id = self.youngest(old)?;
        let (name, kind) = CATEGORIES[usize::from(new.category)];
        let event = event(&new, "change", name);
        self.footprint.changed(&event.as_event(), id)?;
        self.live.entry((new.bytes.unsigned_abs(), new.category)).or_default().push(id);
        if new.category != UNKNOWN {
            self.known[id as usize] = new.category;
            self.footprint.is_of(id, kind);
        }
        Ok(())
    }

    fn destroy(&mut self, row: Row) -> Result<(), String> {
        if row.bytes > 0 {
            return Err("what is taken back has negative bytes".to_owned());
        }
        if row.bytes == 0 {
            self.footprint.account.empty += 1;
            return Ok(());
        }
        let id = self.youngest(row)?;
        let event = event(&row, "free", CATEGORIES[usize::from(row.category)].0);
        self.footprint.given_back(&event.as_event(), id)?;
        self.footprint.freed(id);
        Ok(())
    }
}

/// An event with its name.
struct Named {
    name: String,
    at: u64,
    phase: Phase,
}

fn event(row: &Row, what: &str, category: &str) -> Named {
    let name = format!("{what} {category}");
    Named { name, at: row.at.unsigned_abs(), phase: Phase::Other }
}

impl Named {
    fn as_event(&self) -> Event<'_> {
        Event { name: &self.name, phase: self.phase, at: Some(self.at), unit_ps: 1000 }
    }
}

struct Rows<'a>(&'a mut Reading);

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rows [time, action, bytes, category]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element::<[i64; 4]>()? {
            self.0.take(row).map_err(A::Error::custom)?;
            self.0.rows += 1;
        }
        match self.0.old {
            Some(_) => {
                Err(A::Error::custom("a new version is two rows, and the file ends behind one"))
            }
            None => Ok(()),
        }
    }
}

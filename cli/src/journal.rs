//! What of a sweep is finished, in a file that survives whatever ends the process.
//!
//! One line per finished case: a checksum (CRC-32, eight hexadecimal digits), a blank, and JSON. The
//! first line says what the sweep is; nothing of another sweep, or of another version of the command,
//! is ever taken. Lines are only added. A line that was cut off by the end of the process is removed
//! when the file is opened again, and one whose checksum is wrong is as if it was not there: its
//! case runs again.
//! Invariant: a case that the file has is never run, so no case has two lines with right checksums.

mod points;

pub(crate) use points::Points;

use crate::folder::no_link;
use crate::messages::say_note;
use crate::output::Failure;
use crate::progress::Progress;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
#[cfg(feature = "serve")]
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tiersim_models::results::{AxisValue, CaseRecord, Conditions, Params};
use tiersim_sim::sweep::{Journal, Stop};

/// The file's name in an output folder.
pub(crate) const JOURNAL: &str = "points.journal";

/// The first line: what the cases are of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Version of this format.
    pub(crate) journal: u32,
    /// Version of the command, whose next one may find other figures.
    pub(crate) tiersim: String,
    /// The sweep's fingerprint.
    pub(crate) sweep: String,
    /// What the fingerprint leaves out and results say: names of machines, where numbers come from.
    pub(crate) words: String,
    /// How the bound of each case is worked out.
    pub(crate) bound: String,
    /// All cases of the sweep.
    pub(crate) cases: usize,
    /// Which part of them this is, and of how many.
    pub(crate) shard: Option<(usize, usize)>,
    /// The scenario as it was named; it may be called otherwise elsewhere.
    pub(crate) scenario: PathBuf,
    /// Values that were put into it.
    pub(crate) set: Vec<(String, String)>,
}

impl Head {
    /// How the sweep of the other one differs: what, here, there.
    pub(crate) fn other(&self, other: &Head) -> Option<(&'static str, String, String)> {
        let Head { journal, tiersim, sweep, words, bound, cases: _, shard: _, scenario: _, set: _ } =
            self;
        let all = [
            ("version of the journal", journal.to_string(), other.journal.to_string()),
            ("tiersim", tiersim.clone(), other.tiersim.clone()),
            ("--bound", bound.clone(), other.bound.clone()),
            ("scenario, machine or trace", sweep.clone(), other.sweep.clone()),
            ("name or source of a machine's numbers", words.clone(), other.words.clone()),
        ];
        all.into_iter().find(|(_, own, other)| own != other)
    }
}

/// One of the other lines.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Conditions {
        bench: usize,
        conditions: Box<Conditions>,
    },
    Case {
        case: usize,
        is: Box<CaseRecord>,
    },
    /// It came to the same as a case of an earlier line.
    Like {
        case: usize,
        like: usize,
        label: String,
        details: String,
        params: Params,
    },
}

/// The same, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Written<'a> {
    Conditions {
        bench: usize,
        conditions: &'a Conditions,
    },
    Case {
        case: usize,
        is: &'a CaseRecord,
    },
    Like {
        case: usize,
        like: usize,
        label: &'a str,
        details: &'a str,
        params: &'a [(String, AxisValue)],
    },
}

/// What a journal holds.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) cases: BTreeMap<usize, CaseRecord>,
    pub(crate) conditions: BTreeMap<usize, Conditions>,
    /// Lines whose checksum is wrong, from 1.
    pub(crate) damaged: Vec<usize>,
}

impl Known {
    fn take(&mut self, line: Line, cases: usize) -> bool {
        match line {
            Line::Conditions { bench, conditions } => {
                self.conditions.insert(bench, *conditions);
                true
            }
            Line::Case { case, is } if case < cases => {
                self.cases.insert(case, *is);
                true
            }
            Line::Like { case, like, label, details, params } if case < cases => {
                let Some(like) = self.cases.get(&like) else { return false };
                let record = CaseRecord { label, details, params, ..like.clone() };
                self.cases.insert(case, record);
                true
            }
            Line::Case { .. } | Line::Like { .. } => false,
        }
    }

    /// Adds what another journal of the same sweep holds.
    pub(crate) fn extend(&mut self, other: Known) {
        self.cases.extend(other.cases);
        self.conditions.extend(other.conditions);
        self.damaged.extend(other.damaged);
    }
}

/// A journal as it lies there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) head: Head,
    pub(crate) known: Known,
    /// Bytes of its whole lines.
    whole: u64,
}

/// Reads a journal, if there is one.
pub(crate) fn read(path: &Path) -> Result<Option<Found>, Failure> {
    no_link(path)?;
    let wrong =
        |error: &io::Error| Failure::Input(format!("{}: cannot read: {error}", path.display()));
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| wrong(&error))?,
    };
    let mut lines = BufReader::new(file);
    let (mut whole, mut number) = (0, 0);
    let mut head: Option<Head> = None;
    let mut known = Known::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line).map_err(|error| wrong(&error))?;
        // What has no end was cut off.
        if line.pop() != Some(b'\n') {
            break;
        }
        (whole, number) = (whole + read as u64, number + 1);
        let Some(head) = &head else {
            let Some(first) = json(&line).and_then(|text| serde_json::from_slice(text).ok()) else {
                return Err(Failure::Input(format!(
                    "{}, line 1: this is no journal of a sweep; move it away, or choose another \
                     folder with --out",
                    path.display()
                )));
            };
            head = Some(first);
            continue;
        };
        let found = json(&line).and_then(|text| serde_json::from_slice(text).ok());
        if !found.is_some_and(|line| known.take(line, head.cases)) {
            known.damaged.push(number);
        }
    }
    // Not even its first line was written.
    Ok(head.map(|head| Found { head, known, whole }))
}

/// How far a journal is, without what it holds.
#[cfg(feature = "serve")]
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    pub(crate) head: Head,
    /// Cases that it has.
    pub(crate) cases: usize,
    /// Bytes that were looked at.
    whole: u64,
}

/// Bytes of a line at most: the record of a case has some thousands.
#[cfg(feature = "serve")]
const MOST_LINE: u64 = 64 << 20;

/// Counts the cases of a journal that somebody else writes, on from `before` if it is the same one;
/// `None` as long as it has no first line.
#[cfg(feature = "serve")]
pub(crate) fn reached(path: &Path, before: Option<&Reached>) -> io::Result<Option<Reached>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    let next = |lines: &mut BufReader<File>, line: &mut Vec<u8>| {
        line.clear();
        let read = lines.by_ref().take(MOST_LINE).read_until(b'\n', line)?;
        // What has no end is still being written.
        Ok::<_, io::Error>((line.pop() == Some(b'\n')).then_some(read as u64))
    };
    let Some(first) = next(&mut lines, &mut line)? else { return Ok(None) };
    let head = json(&line).and_then(|text| serde_json::from_slice::<Head>(text).ok());
    let head = head.ok_or_else(|| io::Error::other("this is no journal of a sweep"))?;
    let before = before.filter(|before| before.head == head && before.whole <= length);
    let mut reached = match before {
        Some(before) => before.clone(),
        None => Reached { head, cases: 0, whole: first },
    };
    lines.seek(SeekFrom::Start(reached.whole))?;
    while let Some(read) = next(&mut lines, &mut line)? {
        let text = json(&line);
        let has = |begins: &&[u8]| text.is_some_and(|text| text.starts_with(begins));
        let case = [&b"{\"case\":"[..], b"{\"like\":"].iter().any(has);
        (reached.cases, reached.whole) = (reached.cases + usize::from(case), reached.whole + read);
    }
    Ok(Some(reached))
}

/// What a line says, if its checksum is right.
fn json(line: &[u8]) -> Option<&[u8]> {
    let (sum, text) = line.split_at_checked(9)?;
    let sum = std::str::from_utf8(sum.strip_suffix(b" ")?).ok()?;
    (u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(text)).then_some(text)
}

/// The checksum of some text, as lines have it.
pub(crate) fn checksum(text: &[u8]) -> String {
    Checksum::of(text).end()
}

/// A checksum of text that comes in parts.
#[derive(Default)]
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// That of one part.
    pub(crate) fn of(text: &[u8]) -> Checksum {
        let mut sum = Checksum::default();
        sum.add(text);
        sum
    }

    pub(crate) fn add(&mut self, text: &[u8]) {
        self.0.update(text);
    }

    /// Adds all parts of another one.
    pub(crate) fn append(&mut self, other: &Checksum) {
        self.0.combine(&other.0);
    }

    pub(crate) fn end(self) -> String {
        format!("{:08x}", self.0.finalize())
    }
}

impl fmt::Write for Checksum {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

fn line(what: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(what)?;
    let mut line = (checksum(&text) + " ").into_bytes();
    line.extend(text);
    line.push(b'\n');
    Ok(line)
}

/// Says which lines are of no use.
pub(crate) fn note_damaged(path: &Path, damaged: &[usize]) {
    let (count, first) = (damaged.len(), damaged[0]);
    let note = format!("lines that are damaged and not used: {count}, the first is line {first}");
    say_note(&path.display().to_string(), &note);
}

/// What journals hold of a sweep. A case is asked for once, and then it is the asker's: there may be
/// too many to have them twice. Nothing is written.
pub(crate) struct Taken {
    cases: Mutex<BTreeMap<usize, CaseRecord>>,
    conditions: BTreeMap<usize, Conditions>,
}

impl Taken {
    pub(crate) fn new(known: Known) -> Taken {
        let Known { cases, conditions, damaged: _ } = known;
        Taken { cases: Mutex::new(cases), conditions }
    }
}

impl Journal for Taken {
    fn case(&self, case: usize) -> Option<CaseRecord> {
        self.cases.lock().expect("nobody panics with it").remove(&case)
    }

    fn conditions(&self, bench: usize) -> Option<Conditions> {
        self.conditions.get(&bench).cloned()
    }
}

/// Nothing is kept but the count.
pub(crate) struct Counted<'a>(pub(crate) &'a Progress);

impl Journal for Counted<'_> {
    fn keep_case(&self, _: usize, _: &CaseRecord) -> Result<(), Stop> {
        self.0.inc(1);
        Ok(())
    }
}

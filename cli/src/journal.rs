//! What of a sweep is finished, in a file that survives whatever ends the process.
//!
//! One line per finished case: a checksum (CRC-32, eight hexadecimal digits), a blank, and JSON. The
//! first line says what the sweep is; nothing of another sweep, or of another version of the command,
//! is ever taken. Lines are only added. A line that was cut off by the end of the process is removed
//! when the file is opened again, and one whose checksum is wrong is as if it was not there: its
//! case runs again.
//! Invariant: a case that the file has is never run, so no case has two lines with right checksums.

use crate::folder::no_link;
use crate::messages::say_note;
use crate::output::{Failure, cannot};
use crate::progress::Progress;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tiersim_models::results::{AxisValue, CaseRecord, Conditions, Figures, Outcome};
use tiersim_sim::sweep::{Journal, Stop};

/// The file's name in an output folder.
pub(crate) const JOURNAL: &str = "points.journal";

/// Longest time after which what was written is on the drive.
const SYNCED: Duration = Duration::from_secs(1);

/// The first line: what the cases are of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Version of this format.
    pub(crate) journal: u32,
    /// Version of the command, whose next one may find other figures.
    pub(crate) tiersim: String,
    /// The sweep's fingerprint.
    pub(crate) sweep: String,
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
        let Head { journal, tiersim, sweep, bound, cases: _, shard: _, scenario: _, set: _ } = self;
        let all = [
            ("version of the journal", journal.to_string(), other.journal.to_string()),
            ("tiersim", tiersim.clone(), other.tiersim.clone()),
            ("--bound", bound.clone(), other.bound.clone()),
            ("scenario, machine or trace", sweep.clone(), other.sweep.clone()),
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
        params: Vec<(String, AxisValue)>,
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
    let wrong = |error: &io::Error| cannot(path.display(), error);
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

/// What a line says, if its checksum is right.
fn json(line: &[u8]) -> Option<&[u8]> {
    let (sum, text) = line.split_at_checked(9)?;
    let sum = std::str::from_utf8(sum.strip_suffix(b" ")?).ok()?;
    (u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(text)).then_some(text)
}

fn line(what: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(what)?;
    let mut line = format!("{:08x} ", crc32fast::hash(&text)).into_bytes();
    line.extend(text);
    line.push(b'\n');
    Ok(line)
}

/// A journal that is being written.
pub(crate) struct Points<'a, W = File> {
    path: PathBuf,
    known: Taken,
    /// Whether it held cases when it was opened.
    goes_on: bool,
    out: Mutex<Out<W>>,
    progress: &'a Progress,
}

struct Out<W> {
    to: W,
    /// When all was on the drive, from the beginning of the sweep.
    synced: Duration,
    failed: Option<io::Error>,
    /// Cases that were added.
    written: u64,
    /// Cases by the address of their figures, which are held so that no others take their place.
    cases: BTreeMap<usize, (usize, Arc<Figures>)>,
}

/// What can be made to last.
trait Lasting: Write {
    /// Returns when all that was written is on the drive.
    fn sync(&mut self) -> io::Result<()>;
}

impl Lasting for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl<'a> Points<'a> {
    /// Goes on with the journal that lies in a folder, or begins one.
    ///
    /// # Errors
    /// One of another sweep, if it is to be gone on with; one of this sweep, if it is not.
    pub(crate) fn open(
        folder: &Path,
        head: &Head,
        resume: bool,
        progress: &'a Progress,
    ) -> Result<Points<'a>, Failure> {
        let path = folder.join(JOURNAL);
        let wrong = |error: &io::Error| cannot(path.display(), error);
        let found = read(&path)?;
        let other = found.as_ref().and_then(|found| found.head.other(head));
        let found = match (found, other) {
            (Some(_), Some((what, there, here))) if resume => {
                return Err(Failure::Input(format!(
                    "{}: was begun with another {what} ({there}; now {here}), so nothing of it can be \
                     gone on with; leave out --resume to begin anew",
                    path.display()
                )));
            }
            (Some(found), None) if found.head.shard != head.shard => {
                return Err(other_shard(&path, &found.head, head));
            }
            (Some(found), None) if resume => Some(found),
            (Some(found), None) if !found.known.cases.is_empty() => {
                return Err(Failure::Input(format!(
                    "{}: holds {} of {} cases of this very sweep, which did not come to its end; go \
                     on with it by --resume, or remove the file to begin anew",
                    path.display(),
                    found.known.cases.len(),
                    head.cases
                )));
            }
            // What it holds is of no use for this sweep.
            _ => None,
        };
        let options = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(|error| wrong(&error))?;
        let (whole, known) =
            found.map_or((0, Known::default()), |found| (found.whole, found.known));
        file.set_len(whole).map_err(|error| wrong(&error))?;
        file.seek(SeekFrom::End(0)).map_err(|error| wrong(&error))?;
        if whole == 0 {
            let head = line(head).map_err(|error| wrong(&error))?;
            file.write_all(&head).map_err(|error| wrong(&error))?;
        }
        if !known.damaged.is_empty() {
            note_damaged(&path, &known.damaged);
        }
        progress.set_position(known.cases.len() as u64);
        Ok(Points::on(file, path, known, progress))
    }

    /// Removes it: its results are where they belong.
    pub(crate) fn remove(self) -> Result<(), Failure> {
        fs::remove_file(&self.path).map_err(|error| cannot(self.path.display(), &error))
    }
}

impl<'a, W> Points<'a, W> {
    fn on(to: W, path: PathBuf, known: Known, progress: &'a Progress) -> Points<'a, W> {
        let out =
            Out { to, synced: Duration::ZERO, failed: None, written: 0, cases: BTreeMap::new() };
        let goes_on = !known.cases.is_empty();
        Points { path, known: Taken::new(known), goes_on, out: Mutex::new(out), progress }
    }

    /// Ends it early, for this reason unless no more could be written: what it holds stays, if that
    /// is anything.
    pub(crate) fn broken(self, why: Failure) -> Failure {
        let failure = self.failure().unwrap_or(why);
        let none = self.out.lock().expect("nobody panics with it").written == 0;
        if none && !self.goes_on {
            let _ = fs::remove_file(&self.path);
        }
        failure
    }

    /// Why no more could be written, if that is so.
    fn failure(&self) -> Option<Failure> {
        let failed = self.out.lock().expect("nobody panics with it").failed.take()?;
        let cannot = cannot(self.path.display(), &failed).to_string();
        let said = cannot.strip_prefix("error: ").unwrap_or(&cannot);
        Some(Failure::Input(format!(
            "{said}; what was finished before is kept, and --resume goes on with it"
        )))
    }
}

impl<W: Lasting> Out<W> {
    fn add(&mut self, written: &Written<'_>, now: Duration) -> Result<(), Stop> {
        let add = |out: &mut Out<W>| {
            out.to.write_all(&line(written)?)?;
            if now.saturating_sub(out.synced) >= SYNCED {
                out.to.sync()?;
                out.synced = now;
            }
            Ok(())
        };
        add(self).map_err(|error| {
            self.failed.get_or_insert(error);
            Stop
        })
    }

    fn case(&mut self, case: usize, record: &CaseRecord, now: Duration) -> Result<(), Stop> {
        self.written += 1;
        let Outcome::Done(figures) = &record.outcome else {
            return self.add(&Written::Case { case, is: record }, now);
        };
        let address = Arc::as_ptr(figures).addr();
        match self.cases.get(&address) {
            Some((like, _)) => {
                let CaseRecord { label, details, params, .. } = record;
                let like = *like;
                self.add(&Written::Like { case, like, label, details, params }, now)
            }
            None => {
                self.add(&Written::Case { case, is: record }, now)?;
                self.cases.insert(address, (case, Arc::clone(figures)));
                Ok(())
            }
        }
    }
}

impl<W: Lasting + Send> Journal for Points<'_, W> {
    fn case(&self, case: usize) -> Option<CaseRecord> {
        self.known.case(case)
    }

    fn conditions(&self, bench: usize) -> Option<Conditions> {
        self.known.conditions(bench)
    }

    fn keep_case(&self, case: usize, record: &CaseRecord) -> Result<(), Stop> {
        self.out.lock().expect("nobody panics with it").case(
            case,
            record,
            self.progress.elapsed(),
        )?;
        self.progress.inc(1);
        Ok(())
    }

    fn keep_conditions(&self, bench: usize, conditions: &Conditions) -> Result<(), Stop> {
        let written = Written::Conditions { bench, conditions };
        self.out.lock().expect("nobody panics with it").add(&written, self.progress.elapsed())
    }
}

/// Says which lines are of no use.
pub(crate) fn note_damaged(path: &Path, damaged: &[usize]) {
    let (count, first) = (damaged.len(), damaged[0]);
    let note = format!("lines that are damaged and not used: {count}, the first is line {first}");
    say_note(&path.display().to_string(), &note);
}

fn other_shard(path: &Path, there: &Head, here: &Head) -> Failure {
    let words = |head: &Head| match head.shard {
        Some((index, of)) => format!("shard {index}/{of}"),
        None => "the whole sweep".to_owned(),
    };
    let (there, here) = (words(there), words(here));
    Failure::Input(format!(
        "{}: is of {there} and not of {here}; choose another folder with --out",
        path.display()
    ))
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

//! The journal of a sweep that is on its way.

use super::{Head, JOURNAL, Known, Taken, Written, line, note_damaged, read};
use crate::output::{Failure, cannot};
use crate::progress::Progress;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tiersim_models::results::{CaseRan, CaseRecord, Conditions};
use tiersim_sim::sweep::{Journal, Stop};

/// Longest time after which what was written is on the drive.
const SYNCED: Duration = Duration::from_secs(1);

/// A journal that is being written.
pub(crate) struct Points<'a> {
    path: PathBuf,
    known: Taken,
    /// Whether it held cases when it was opened.
    goes_on: bool,
    out: Mutex<Out>,
    progress: &'a Progress,
}

struct Out {
    to: File,
    /// When all was on the drive, from the beginning of the sweep.
    synced: Duration,
    failed: Option<io::Error>,
    /// Cases that were added.
    written: u64,
    /// Cases by the address of what came of them, which is held so that nothing takes its place.
    cases: BTreeMap<usize, (usize, Arc<CaseRan>)>,
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
        let out = Out {
            to: file,
            synced: progress.elapsed(),
            failed: None,
            written: 0,
            cases: BTreeMap::new(),
        };
        let goes_on = !known.cases.is_empty();
        Ok(Points { path, known: Taken::new(known), goes_on, out: Mutex::new(out), progress })
    }

    /// Removes it: its results are where they belong.
    pub(crate) fn remove(self) -> Result<(), Failure> {
        fs::remove_file(&self.path).map_err(|error| cannot(self.path.display(), &error))
    }

    /// Ends it early, for this reason unless no more could be written: what it holds stays, if that
    /// is anything.
    pub(crate) fn broken(self, why: Failure) -> Failure {
        let failure = self.failure().unwrap_or(why);
        let none = self.out().written == 0;
        if none && !self.goes_on {
            let _ = fs::remove_file(&self.path);
        }
        failure
    }

    /// Why no more could be written, if that is so.
    fn failure(&self) -> Option<Failure> {
        let failed = self.out().failed.take()?;
        let cannot = cannot(self.path.display(), &failed).to_string();
        let said = cannot.strip_prefix("error: ").unwrap_or(&cannot);
        Some(Failure::Input(format!(
            "{said}; what was finished before is kept, and --resume goes on with it"
        )))
    }
}

impl Out {
    fn add(&mut self, line: io::Result<Vec<u8>>, now: Duration) -> Result<(), Stop> {
        // Behind part of a line nothing could be read again.
        if self.failed.is_some() {
            return Err(Stop);
        }
        let add = |out: &mut Out| -> io::Result<()> {
            out.to.write_all(&line?)?;
            if now.saturating_sub(out.synced) >= SYNCED {
                out.to.sync_data()?;
                out.synced = now;
            }
            Ok(())
        };
        add(self).map_err(|error| {
            self.failed = Some(error);
            Stop
        })
    }

    /// The line of a case that came to the same as an earlier one.
    fn alike(&self, case: usize, record: &CaseRecord) -> Option<io::Result<Vec<u8>>> {
        let (like, _) = self.cases.get(&Arc::as_ptr(&record.ran).addr())?;
        let CaseRecord { label, details, params, conditions: _, ran: _ } = record;
        Some(line(&Written::Like { case, like: *like, label, details, params }))
    }
}

impl Points<'_> {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().expect("nobody panics with it")
    }

    fn keep(&self, case: usize, record: &CaseRecord) -> Result<(), Stop> {
        let now = self.progress.elapsed();
        let alike = self.out().alike(case, record);
        // A line is long, so nobody waits for its making.
        let whole = alike.is_none().then(|| line(&Written::Case { case, is: record }));
        let mut out = self.out();
        out.written += 1;
        match (out.alike(case, record), whole) {
            (None, Some(whole)) => {
                out.add(whole, now)?;
                let address = Arc::as_ptr(&record.ran).addr();
                out.cases.insert(address, (case, Arc::clone(&record.ran)));
                Ok(())
            }
            // Perhaps just now.
            (alike, _) => out.add(alike.expect("what is there stays"), now),
        }
    }
}

impl Journal for Points<'_> {
    fn case(&self, case: usize) -> Option<CaseRecord> {
        self.known.case(case)
    }

    fn conditions(&self, bench: usize) -> Option<Conditions> {
        self.known.conditions(bench)
    }

    fn keep_case(&self, case: usize, record: &CaseRecord) -> Result<(), Stop> {
        self.keep(case, record)?;
        self.progress.inc(1);
        Ok(())
    }

    fn keep_conditions(&self, bench: usize, conditions: &Conditions) -> Result<(), Stop> {
        let line = line(&Written::Conditions { bench, conditions });
        self.out().add(line, self.progress.elapsed())
    }
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

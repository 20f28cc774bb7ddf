//! A folder of results whose files are those of one run: locked while it is worked on, and replaced
//! at once.
//!
//! The new files are written into a folder beside it, which then changes places with it, so that
//! whoever looks, or pulls the plug, finds all of the old results or all of the new ones. What else
//! lies in the folder moves along. Where the file system cannot swap two folders, or the folder is
//! a mount, files are renamed into it one by one.
//! Invariant: nothing that lies in the folder is opened or followed; only names of results are
//! replaced.

use crate::output::{Failure, cannot};
use rayon::prelude::*;
use std::fs::OpenOptions;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tiersim_reports::{ChartError, Draft, Workers, is_artefact};

/// A folder that nobody else writes to.
#[derive(Debug)]
pub(crate) struct Folder {
    /// As it was named.
    named: PathBuf,
    path: PathBuf,
    /// Holds the lock, which ends with the process however that ends.
    lock: File,
    /// Folders that were made for it, the innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Makes and locks the folder that was chosen with `--out`, or else this one below `out`.
    pub(crate) fn open(chosen: Option<PathBuf>, name: &str) -> Result<Folder, Failure> {
        let path = match chosen {
            Some(path) => path,
            None => {
                let path = Path::new("out").join(name);
                no_link(Path::new("out"))?;
                no_link(&path)?;
                path
            }
        };
        let wrong = |error: &io::Error| cannot(path.display(), error);
        let made: Vec<PathBuf> = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        fs::create_dir_all(&path).map_err(|error| wrong(&error))?;
        let whole = fs::canonicalize(&path).map_err(|error| wrong(&error))?;
        let lock = File::open(&whole).map_err(|error| wrong(&error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let said = "another tiersim writes its results there; wait for it, or choose another folder with --out";
                return Err(Failure::Input(format!("{}: {said}", path.display())));
            }
            Err(TryLockError::Error(error)) => return Err(wrong(&error)),
        }
        let folder = Folder { named: path.clone(), path: whole, lock, made };
        folder.take_back().map_err(|error| wrong(&error))?;
        Ok(folder)
    }

    /// As people are told where it is.
    pub(crate) fn shown(&self) -> &Path {
        &self.named
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes these files, several at a time, and replaces all results in it by them.
    pub(crate) fn replace<'d>(
        self,
        files: impl IntoIterator<Item: Into<Draft<'d>>>,
    ) -> Result<Vec<String>, Failure> {
        let files: Vec<Draft<'_>> = files.into_iter().map(Into::into).collect();
        self.replace_sets(files.into_par_iter().map(|file| Ok(vec![file])))
    }

    /// The same of sets of files, each of which is written before its thread makes the next. Gives
    /// the names of all, in their order.
    pub(crate) fn replace_sets<'d>(
        mut self,
        sets: impl IndexedParallelIterator<Item = Result<Vec<Draft<'d>>, Failure>>,
    ) -> Result<Vec<String>, Failure> {
        let new = self.beside().map_err(|error| cannot(self.path.display(), &error))?;
        let write = |file: Draft<'_>| {
            let (name, shown) = (file.name().to_owned(), self.path.join(file.name()));
            // A folder of that name is not ours to remove.
            if fs::symlink_metadata(&shown).is_ok_and(|found| found.is_dir()) {
                return Err(cannot(shown.display(), &ErrorKind::IsADirectory.into()));
            }
            write_draft(&new.join(&name), file).map_err(|error| match error {
                Unwritten::File(error) => cannot(shown.display(), &error),
                Unwritten::Draft(error) => error.into(),
            })?;
            Ok(name)
        };
        // Each on its own: one of a long sweep takes longer than all others.
        let written: Vec<Result<Vec<_>, Failure>> = sets
            .with_max_len(1)
            .map(|set| Ok(set?.into_par_iter().with_max_len(1).map(write).collect()))
            .collect();
        // The first in their order, whichever thread failed first.
        let written: Result<Vec<String>, Failure> = written.into_iter().flat_map(each_of).collect();
        if written.is_err() {
            // What is left of the attempt is of no use; failing to remove it changes nothing.
            let _ = fs::remove_dir_all(&new);
            return written;
        }
        // From here on `new` may be the old folder with what is no result: nothing is removed
        // unseen.
        self.made.clear();
        self.publish(&new).map_err(|error| cannot(self.path.display(), &error))?;
        written
    }

    /// Where this and only this process writes, in the folder that the folder is in.
    fn beside(&self) -> io::Result<PathBuf> {
        let parent = self.path.parent().unwrap_or(&self.path);
        for number in 0..100 {
            let name = format!("{}{}-{number}", self.temporary(), std::process::id());
            match fs::create_dir(parent.join(&name)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| parent.join(name)),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// How the names of folders beside this one begin that hold the results of one attempt.
    fn temporary(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!(".{name}.tiersim-")
    }

    fn publish(&self, new: &Path) -> io::Result<()> {
        fs::set_permissions(new, fs::metadata(&self.path)?.permissions())?;
        File::open(new)?.sync_all()?;
        if swap(new, &self.path).is_ok() {
            self.empty(new)?;
        } else {
            self.move_in(new)?;
        }
        // Some file systems cannot sync a folder; the results are there all the same.
        let _ = self.path.parent().map(|parent| File::open(parent).and_then(|it| it.sync_all()));
        Ok(())
    }

    /// Takes what is no result from the folder that was in this one's place, and removes that.
    fn empty(&self, old: &Path) -> io::Result<()> {
        for entry in fs::read_dir(old)? {
            let entry = entry?;
            if is_result(&entry)? {
                fs::remove_file(entry.path())?;
                continue;
            }
            let place = self.path.join(entry.file_name());
            if fs::symlink_metadata(&place).is_err() {
                fs::rename(entry.path(), place)?;
            }
        }
        match fs::remove_dir(old) {
            // What has the name of something in the folder stays where it is: it is somebody's.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }

    /// The same where two folders cannot change places.
    fn move_in(&self, new: &Path) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if is_result(&entry)? && !new.join(entry.file_name()).exists() {
                fs::remove_file(entry.path())?;
            }
        }
        for entry in fs::read_dir(new)? {
            let entry = entry?;
            fs::rename(entry.path(), self.path.join(entry.file_name()))?;
        }
        fs::remove_dir(new)
    }

    /// Ends what a run began that was killed: the folder beside this one holds old results, or
    /// unfinished ones.
    fn take_back(&self) -> io::Result<()> {
        let (Some(parent), start) = (self.path.parent(), self.temporary()) else { return Ok(()) };
        for entry in fs::read_dir(parent)? {
            let entry = entry?;
            let named = entry.file_name().to_string_lossy().starts_with(&start);
            if named && entry.file_type()?.is_dir() {
                self.empty(&entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    /// A folder that got nothing goes again.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
        for made in &self.made {
            if fs::remove_dir(made).is_err() {
                break;
            }
        }
    }
}

/// What became of each file of a set, or why none was made.
fn each_of<T>(set: Result<Vec<Result<T, Failure>>, Failure>) -> Vec<Result<T, Failure>> {
    set.unwrap_or_else(|failure| vec![Err(failure)])
}

/// Threads of this process.
struct Threads;

impl Workers for Threads {
    fn each<T: Send>(&self, pieces: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
        (0..pieces).into_par_iter().map(&of).collect()
    }
}

/// Why a file is not there.
enum Unwritten {
    /// It could not be written.
    File(io::Error),
    /// It could not be made.
    Draft(ChartError),
}

/// Makes a file where none is; it is on the drive when this returns.
fn write_draft(path: &Path, draft: Draft<'_>) -> Result<(), Unwritten> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut to = Told { to: BufWriter::new(file.map_err(Unwritten::File)?), failed: None };
    let made = draft.write(&mut to, &Threads);
    match (to.failed, made) {
        // Encoders tell the system's error in words of their own.
        (Some(error), _) => Err(Unwritten::File(error)),
        (None, Err(error)) => Err(Unwritten::Draft(error)),
        (None, Ok(())) => {
            let file = to.to.into_inner().map_err(|error| Unwritten::File(error.into_error()))?;
            file.sync_all().map_err(Unwritten::File)
        }
    }
}

/// A file that keeps the first error of writing to it.
struct Told {
    to: BufWriter<File>,
    failed: Option<io::Error>,
}

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes).map_err(|error| {
            let kind = error.kind();
            // What is asked again is no failure.
            if kind != ErrorKind::Interrupted {
                self.failed.get_or_insert(error);
            }
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn is_result(entry: &fs::DirEntry) -> io::Result<bool> {
    let named = entry.file_name().to_str().is_some_and(is_artefact);
    Ok(named && !entry.file_type()?.is_dir())
}

/// Results go where nobody chose only if that is where they seem to go.
pub(crate) fn no_link(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            let said =
                "is a link, which may lead anywhere; remove it, or name the folder with --out";
            Err(Failure::Input(format!("{} {said}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Two folders change places.
#[cfg(target_os = "linux")]
fn swap(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn swap(_: &Path, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

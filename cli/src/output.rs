//! How the command fails, and how it writes files: whole or not at all.

use clap::ValueEnum;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{fmt, fs};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::printed::clean_lines;
use tiersim_reports::words::clean;
use tiersim_reports::{Artefact, ChartError};
use tiersim_sim::run::RunError;
use tiersim_validation::fault::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    Text,
    /// The summary for programs.
    Json,
}

/// Exit code of a mistake in this program.
pub(crate) const INTERNAL: u8 = 3;

/// Why the command ends with something other than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was expected of a run does not hold: exit 1.
    Expectation(Vec<String>),
    /// Results have warnings, and these are denied: exit 1. With them what else does not hold.
    Denied {
        /// The warnings.
        warnings: Denied,
        /// Expectations that do not hold.
        failed: Vec<String>,
    },
    /// Bad input: exit 2.
    Input(String),
    /// The same, with the place of each problem.
    Problems(Diagnostics),
    /// A mistake in this program: exit 3.
    Internal(String),
}

/// Warnings that are denied: how many, and their lines, in which many alike are one.
#[derive(Debug, Default)]
pub(crate) struct Denied {
    pub(crate) count: usize,
    pub(crate) lines: Vec<String>,
}

impl Denied {
    /// Adds those of another scenario.
    pub(crate) fn extend(&mut self, more: Denied) {
        self.count += more.count;
        self.lines.extend(more.lines);
    }
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Expectation(_) | Failure::Denied { .. } => 1,
            Failure::Input(_) | Failure::Problems(_) => 2,
            Failure::Internal(_) => INTERNAL,
        }
    }

    /// What is wrong with the input, or the failure if it is another.
    pub(crate) fn input(self) -> Result<String, Failure> {
        match self {
            Failure::Input(said) => Ok(said),
            Failure::Problems(all) => Ok(together(&all)),
            other => Err(other),
        }
    }
}

/// Problems as lines behind one `error: `.
fn together(all: &Diagnostics) -> String {
    let lines: Vec<String> = all.0.iter().map(ToString::to_string).collect();
    lines.join("\nerror: ")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Expectation(failed) => {
                list(f, failed.len(), failed, "expectation(s) do not hold")
            }
            Failure::Denied { warnings, failed } => {
                if !failed.is_empty() {
                    list(f, failed.len(), failed, "expectation(s) do not hold")?;
                    writeln!(f)?;
                }
                let Denied { count, lines } = warnings;
                list(f, *count, lines, "warning(s) of the results are denied")
            }
            Failure::Input(problem) => write!(f, "error: {problem}"),
            Failure::Problems(all) => write!(f, "error: {}", together(all)),
            Failure::Internal(fault) => {
                write!(f, "internal fault: {fault}\nplease report this with the scenario")
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, n: usize, lines: &[String], heading: &str) -> fmt::Result {
    write!(f, "{n} {heading}:\n  {}", lines.join("\n  "))
}

impl From<Diagnostics> for Failure {
    fn from(problems: Diagnostics) -> Failure {
        Failure::Problems(problems)
    }
}

impl From<ChartError> for Failure {
    fn from(error: ChartError) -> Failure {
        Failure::Internal(error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Input(problem) => Failure::Input(problem),
            RunError::Stopped => {
                Failure::Internal("a sweep was stopped without a reason".to_owned())
            }
            RunError::Internal { case, seed, what } => {
                Failure::Internal(format!("case {case:?} (seed {seed}): {what}"))
            }
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::Input(fault.to_string())
    }
}

/// Prints for people: what would drive their terminal is shown, not sent.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_exact(&clean_lines(text))
}

/// Prints an answer in the form that was asked for.
pub(crate) fn print_as(format: Format, text: &str) -> Result<(), Failure> {
    match format {
        Format::Text => print(text),
        Format::Json => print_exact(text),
    }
}

/// Prints to stdout for programs, or what is kept as a file. Nobody is left to print to once
/// `| head` has seen enough: no failure.
pub(crate) fn print_exact(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(cannot("stdout", &error)),
        _ => Ok(()),
    }
}

/// Writes files into a folder; they appear under their names only when all are complete.
pub(crate) fn write_all(folder: &Path, files: &[Artefact]) -> Result<(), Failure> {
    let path = |file: &Artefact| folder.join(&file.name);
    write_each(&files.iter().map(|file| (path(file), &file.bytes[..])).collect::<Vec<_>>())
}

/// Writes files, each into a folder of its own; they appear under their names only when all are
/// complete.
pub(crate) fn write_each(files: &[(PathBuf, &[u8])]) -> Result<(), Failure> {
    for folder in files.iter().filter_map(|(path, _)| path.parent()) {
        fs::create_dir_all(folder).map_err(|error| cannot(folder.display(), &error))?;
    }
    write_together(files)
}

/// Writes one file; it appears under its name only when it is complete.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_together(&[(path.to_owned(), bytes)])
}

/// The files that were written, and where: `written to FOLDER: a, b`.
pub(crate) fn written(folder: &Path, files: &[Artefact]) -> String {
    written_names(folder, files.iter().map(|file| file.name.as_str()))
}

/// The same of files by name.
pub(crate) fn written_names<'a>(folder: &Path, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    format!("written to {}: {}", folder.display(), names.join(", "))
}

fn write_together(files: &[(PathBuf, &[u8])]) -> Result<(), Failure> {
    files.iter().for_each(|(path, _)| remove_left(path));
    let written = files.iter().map(|(path, bytes)| {
        // Renaming onto a folder fails, and by then other files would have their names.
        let free = if path.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(()) };
        free.and_then(|()| write_part(&partial(path), bytes)).map_err(|error| (path, error))
    });
    // Each is held until it has its name.
    let written: Result<Vec<File>, _> = written.collect();
    let renamed = written.and_then(|_held| {
        files.iter().try_for_each(|(path, _)| {
            fs::rename(partial(path), path).map_err(|error| (path, error))
        })
    });
    renamed.map_err(|(path, error)| {
        for (path, _) in files {
            // What is left of the attempt is of no use; failing to remove it changes nothing.
            let _ = fs::remove_file(partial(path));
        }
        cannot(path.display(), &error)
    })
}

/// Writes a file where none is, and locks it: who finds it without a lock knows that nobody will
/// give it its name.
fn write_part(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::create_new(path)?;
    // Where files cannot be locked, none is taken for left over.
    let _ = file.try_lock();
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(file)
}

/// Removes what a command that was killed has left of an attempt at this file.
fn remove_left(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return };
    let start = temporary(path);
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(&start).unwrap_or_default();
        let is_part = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        // A link may lead anywhere.
        if is_part && entry.file_type().is_ok_and(|found| found.is_file()) {
            let free = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            // What is left is of no use; failing to remove it changes nothing.
            let _ = free.then(|| fs::remove_file(entry.path()));
        }
    }
}

/// A name beside the file that no other process uses; what has it all the same is not overwritten.
fn partial(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}{}", temporary(path), std::process::id()))
}

/// How such names begin.
fn temporary(path: &Path) -> String {
    format!(".{}.tiersim-", path.file_name().unwrap_or_default().to_string_lossy())
}

/// A file's name without its endings, or else `other`.
pub(crate) fn stem(path: &Path, other: &str) -> String {
    let name = path.file_name().map(|name| clean(&name.to_string_lossy())).unwrap_or_default();
    name.split('.').find(|part| !part.is_empty()).unwrap_or(other).to_owned()
}

pub(crate) fn cannot(place: impl fmt::Display, error: &std::io::Error) -> Failure {
    let remedy = match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            "; something else is there: name another place, or move it away"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; name a place that you may write to"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room, or name another drive",
        _ => "",
    };
    Failure::Input(format!("{place}: cannot write: {error}{remedy}"))
}

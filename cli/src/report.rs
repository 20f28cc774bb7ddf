//! `report`: one page of result folders that exist.
//!
//! Invariant: only plain files are opened, links and pipes are not; nothing is written unless every
//! folder could be read.

use crate::output::{Failure, print, write_all, written};
use clap::Args as ClapArgs;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use tiersim_reports::words::wrapped;
use tiersim_reports::{
    Artefact, REPORT, ReportError, ResultFolder, SUMMARY, WHAT_IF_FILES, WHAT_IF_MODULE, is_chart,
    report_page,
};

/// Bytes of a summary: those of the largest sweep that ships are a tenth of it.
pub(crate) const MOST_SUMMARY: u64 = 64 << 20;
/// Bytes of a chart.
const MOST_CHART: u64 = 8 << 20;
/// Bytes of a simulator or of its files.
const MOST_WHAT_IF: u64 = 64 << 20;
/// Folders of one page.
const MOST_FOLDERS: usize = 16;

#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    /// Folders that `run` or `sweep` wrote.
    #[arg(required = true, value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// Folder to write report.html to [default: DIR, or out/report for several].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Show every figure in which two results differ.
    #[arg(long)]
    pub(crate) compare: bool,
    /// Print nothing but problems.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Makes the page of folders.
pub(crate) fn report(args: &ReportArgs) -> Result<(), Failure> {
    if args.folders.len() > MOST_FOLDERS {
        let all = args.folders.len();
        return Err(Failure::Input(format!(
            "{all} folders are more than the {MOST_FOLDERS} that a page can hold; name fewer"
        )));
    }
    let folders = args.folders.iter().map(|folder| read(folder)).collect::<Result<Vec<_>, _>>()?;
    let page = report_page(&folders, args.compare)?;
    let out = match (&args.out, &args.folders[..]) {
        (Some(out), _) => out.clone(),
        (None, [folder]) => folder.clone(),
        (None, _) => Path::new("out").join("report"),
    };
    let files = [Artefact::new(REPORT, page)];
    write_all(&out, &files)?;
    if args.quiet {
        return Ok(());
    }
    print(&format!("{}\n", wrapped(&written(&out, &files), 80).join("\n")))
}

/// The files of a folder that a page is made of.
pub(crate) fn read(folder: &Path) -> Result<ResultFolder, Failure> {
    let name = folder.display().to_string();
    let mut files = vec![Artefact::new(SUMMARY, plain(&folder.join(SUMMARY), MOST_SUMMARY)?)];
    let wrong = |error| Failure::Input(format!("{name}: cannot read: {error}"));
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let Ok(file) = entry.file_name().into_string() else { continue };
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && [WHAT_IF_MODULE, WHAT_IF_FILES].contains(&file.as_str()) {
            files.push(Artefact::new(file, plain(&entry.path(), MOST_WHAT_IF)?));
        } else if is_file && is_chart(&file) {
            files.push(Artefact::new(file, plain(&entry.path(), MOST_CHART)?));
        }
    }
    Ok(ResultFolder { name, files })
}

/// The bytes of a plain file of at most `most`.
pub(crate) fn plain(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let said = |what: &str| Failure::Input(format!("{}: {what}", path.display()));
    let found = fs::symlink_metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            said("there is none; name a folder that tiersim run or tiersim sweep wrote")
        }
        _ => said(&format!("cannot read: {error}")),
    })?;
    if !found.is_file() {
        return Err(said("is no plain file; name a folder that tiersim run or sweep wrote"));
    }
    let too_large = || said(&format!("is larger than the {} MiB that are read", most >> 20));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| said(&format!("cannot read: {error}")))?;
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| said(&format!("cannot read: {error}")))?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Failure {
        match error {
            ReportError::Summary { .. } => Failure::Input(format!(
                "{error}; make the folder again with tiersim run or tiersim sweep"
            )),
            ReportError::NotTwo(_) => {
                Failure::Input(format!("--compare: {error}; name two folders"))
            }
            ReportError::Chart(error) => error.into(),
        }
    }
}

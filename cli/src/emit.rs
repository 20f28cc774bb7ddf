//! The files of a run: made, several at a time, and written.

use crate::args::Common;
use crate::folder::Folder;
use crate::output::{Failure, Format, written_names};
use crate::{VERSION, what_if};
use rayon::prelude::*;
use std::path::PathBuf;
use tiersim_models::results::RunRecord;
use tiersim_reports::words::wrapped;
use tiersim_reports::{
    Artefact, ChartError, Detail, Draft, SETS, drafts_of, report_artefact, summary_json, text,
};

/// For each scenario the files of a simulator, if they are asked for.
pub(crate) fn simulators(
    what_if: &Option<Option<PathBuf>>,
    scenarios: &[PathBuf],
    overrides: &[(String, String)],
) -> Result<Vec<Vec<Artefact>>, Failure> {
    let Some(named) = what_if else { return Ok(Vec::new()) };
    let module = what_if::module(named.as_deref())?;
    let both = |path: &PathBuf| Ok(vec![module.clone(), what_if::files(path, overrides)?]);
    scenarios.iter().map(both).collect()
}

/// Writes a record's files and those of a simulator; gives back what is to be printed.
pub(crate) fn emit(
    record: &RunRecord,
    common: &Common,
    folder: Folder,
    simulator: Vec<Artefact>,
) -> Result<String, Failure> {
    let shown = folder.shown().to_owned();
    let of = |set| drafts_of(set, record, common.style.made(), common.pictures());
    let sets = (0..SETS).into_par_iter().with_max_len(1).map(of);
    let names = if common.report {
        // The page holds the others.
        let sets = sets.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>, ChartError>>()?;
        let drafts: Vec<Draft<'_>> = sets.into_iter().flatten().collect();
        let made: Vec<_> = drafts.into_par_iter().map(Draft::artefact).collect();
        let mut files = made.into_iter().collect::<Result<Vec<Artefact>, ChartError>>()?;
        files.extend(simulator);
        files.push(report_artefact(&files)?);
        folder.replace(files)?
    } else {
        let simulator = Ok(simulator.into_iter().map(Draft::from).collect());
        let sets = sets.map(|set| Ok(set?));
        folder.replace_sets(sets.chain(rayon::iter::once(simulator)))?
    };
    match (common.quiet, common.format) {
        (true, _) => Ok(String::new()),
        (false, Format::Json) => Ok(summary_json(record, VERSION)?),
        (false, Format::Text) => {
            let detail = if common.wide { Detail::Wide } else { Detail::Narrow };
            let written =
                wrapped(&written_names(&shown, names.iter().map(String::as_str)), 80).join("\n");
            Ok(format!("{}\n{written}\n", text(record, VERSION, detail)))
        }
    }
}

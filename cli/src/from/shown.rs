//! What every framework's reader has in common: the text, and the scenario shown and run.
//!
//! Invariant: what is printed is what is run.

use crate::check::checked;
use crate::new::{measured, report, settings_text};
use crate::output::{Failure, print, print_exact};
use crate::runs::{RunArgs, run};
use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};
use tiersim_input::guide::Guide;
use tiersim_input::handed::hand;
use tiersim_models::diagnostic::{Diagnostic, Diagnostics};
use tiersim_policies::zoo::Registry;

/// Of numbers, as options say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Precision {
    Bf16,
    Fp16,
    Fp32,
}

impl Precision {
    /// The scenario's word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Precision::Bf16 => "bf16",
            Precision::Fp16 => "fp16",
            Precision::Fp32 => "fp32",
        }
    }
}

/// The options of a run that are not said.
#[derive(Parser)]
struct Plain {
    #[command(flatten)]
    run: RunArgs,
}

/// A command line, and what results and problems call it.
pub(super) struct Line {
    pub(super) file: PathBuf,
    pub(super) text: String,
    pub(super) stem: String,
}

/// What was typed, or the text of the file that it names; `own` is what the former is called.
pub(super) fn command_line(words: &str, own: &str) -> Result<Line, Failure> {
    let file = Path::new(words);
    match file.file_stem().filter(|_| file.is_file()) {
        Some(stem) => Ok(Line {
            file: file.to_owned(),
            text: settings_text(file)?,
            stem: stem.to_string_lossy().into_owned(),
        }),
        None => Ok(Line { file: own.into(), text: words.to_owned(), stem: own.to_owned() }),
    }
}

/// Problems of a scenario that is shown nowhere: its lines stand in the place of their numbers.
/// Those of other files, such as its machine's, have places of their own.
fn of_settings(problems: Diagnostics, file: &Path, path: &Path, scenario: &str) -> Diagnostics {
    let told = |problem: Diagnostic| {
        if problem.file != path {
            return problem;
        }
        let at = problem.place.map_or(0, |place| place.line.saturating_sub(1));
        let line = scenario.lines().nth(at as usize).unwrap_or_default();
        let line = line.trim().trim_end_matches(',');
        let rule = format!("what it comes to, `{line}`, does not hold: {}", problem.rule);
        Diagnostic { file: file.to_owned(), place: None, rule, ..problem }
    };
    Diagnostics(problems.0.into_iter().map(told).collect())
}

/// Prints what became of each key and the scenario, and runs it unless that is not wanted.
pub(super) fn shown(
    found: Guide,
    (file, stem): (&Path, &str),
    no_run: bool,
    out: Option<&Path>,
    registry: &Registry,
) -> Result<(), Failure> {
    let found = measured(found);
    let told: String = report(&found.rows).lines().map(|line| format!("// {line}\n")).collect();
    let scenario = format!("{told}{}", found.scenario);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = stem.chars().take(60).map(plain).collect();
    let path = format!("{}.ron", name.trim_start_matches(['.', '-']));
    hand(Path::new(&path), scenario.clone().into_bytes());
    checked(Path::new(&path), registry)
        .map_err(|said| of_settings(said, file, Path::new(&path), &scenario))?;
    print_exact(&scenario)?;
    if no_run {
        return Ok(());
    }
    let mut words = vec!["tiersim".into(), path.into()];
    words.extend(out.iter().flat_map(|out| ["--out".into(), out.as_os_str().to_owned()]));
    let Plain { run: plain } = Plain::parse_from(words);
    print("\n")?;
    run(&plain, registry)
}

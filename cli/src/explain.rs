//! `explain`: where the time of a case's step goes, why, and what would change it.

mod switches;

use crate::args::{BoundName, Question};
use crate::folder::Folder;
use crate::output::{Failure, Format, print, print_exact, written};
use crate::runs::{Instead, read_all, seeded, use_threads};
use crate::{VERSION, progress};
use clap::Args;
use std::path::Path;
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_input::scenario::read::read_scenario_with;
use tiersim_input::scenario::sweep::written_at;
use tiersim_input::traces::read_traces;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::scenario::{Case, Scenario};
use tiersim_policies::zoo::Registry;
use tiersim_reports::words::wrapped;
use tiersim_reports::{
    Artefact, ChartError, explain_artefacts, explain_json, explain_text, switches_artefacts,
    switches_json, switches_text,
};
use tiersim_sim::explain::answers::{answer, numbers};
use tiersim_sim::explain::{chosen, explained};
use tiersim_sim::run::{CaseRunner, Kin, Options, RunError};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    instead: Instead,
    /// The policy's name in the scenario [default: the first that is not `AllHbm`].
    #[arg(long, value_name = "LABEL")]
    case: Option<String>,
    /// By how many per cent each number of the machine is changed, down and up; 0 for no re-runs.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = per_cent)]
    change: f64,
    /// How the bound is worked out: by linear program it also says what more memory and quicker
    /// links would take off it.
    #[arg(long, value_enum, default_value_t = BoundName::Quick)]
    bound: BoundName,
    /// What every optimisation of training saves and costs, alone and behind those before it, in
    /// the place of an explanation.
    #[arg(long, conflicts_with = "change")]
    switches: bool,
}

/// A change that leaves a number above zero.
fn per_cent(text: &str) -> Result<f64, String> {
    let change = text.parse().ok().filter(|change| (0.0..=50.0).contains(change));
    change.ok_or("from 0 to 50".to_owned())
}

/// Runs the case, and again with other numbers; prints, writes.
pub(crate) fn explain(args: &ExplainArgs, registry: &Registry) -> Result<(), Failure> {
    use_threads(args.question.jobs)?;
    let overrides = seeded(&args.question.set, args.question.seed)?;
    let files = std::slice::from_ref(&args.question.scenario);
    let (scenarios, traces) = read_all(files, &overrides, registry, &args.instead)?;
    let scenario = &scenarios[0];
    let case = chosen(scenario, args.case.as_deref()).map_err(Failure::Input)?;
    let stamp = fingerprint(scenario, traces.hash(scenario));
    let options = Options { audit: false, bound: args.bound.method(), ..Options::default() };
    let again = Again {
        file: &args.question.scenario,
        overrides: &overrides,
        instead: &args.instead,
        traces: &traces,
        registry,
        kin: Kin::default(),
    };
    if args.switches {
        return turned(args, &again, (scenario, case, stamp), options);
    }
    let folder = Folder::open(args.question.out.clone(), &format!("{}-explain", scenario.name))?;
    let mut of = explained(scenario, traces.of(scenario), stamp, case, options)?;
    if args.change > 0.0 {
        let numbers = numbers(&scenario.hardware);
        let bar = progress::bar(2 * numbers.len(), args.question.quiet);
        answer(&mut of, &numbers, args.change / 100.0, |path, value| {
            let judged = again.judged(&case.label, path, value, options);
            bar.inc(1);
            judged
        });
        bar.finish_and_clear();
    }
    let files = explain_artefacts(&of, args.question.style.made())?;
    let text = || explain_text(&of, VERSION);
    finished(args, folder, &files, text, || explain_json(&of, VERSION))
}

/// Writes the files, and prints what was found.
fn finished(
    args: &ExplainArgs,
    folder: Folder,
    files: &[Artefact],
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> Result<String, ChartError>,
) -> Result<(), Failure> {
    let out = folder.shown().to_owned();
    folder.replace(files)?;
    match args.question.format {
        _ if args.question.quiet => Ok(()),
        Format::Json => print_exact(&json()?),
        Format::Text => {
            let written = wrapped(&written(&out, files), 80).join("\n");
            print(&format!("{}\n{written}\n", text()))
        }
    }
}

/// Turns every switch of a scenario that trains.
fn turned(
    args: &ExplainArgs,
    again: &Again<'_>,
    (scenario, case, stamp): (&Scenario, &Case, String),
    options: Options,
) -> Result<(), Failure> {
    let Some(job) = switches::trained(scenario) else {
        return Err(Failure::Input(format!(
            "--switches turns optimisations of training, and scenario {:?} trains no Model(...) in \
             steps of one length; leave it out",
            scenario.name
        )));
    };
    let folder = Folder::open(args.question.out.clone(), &format!("{}-switches", scenario.name))?;
    let index = scenario.cases.iter().position(|known| known.label == case.label).unwrap_or(0);
    let written = |path| written_at(again.file, again.overrides, again.registry, path);
    let is_there = |path| matches!(written(path), Ok(Some(_)));
    let (card, formats) = (is_there("workload.card.layers"), is_there("workload.formats"));
    let written = switches::Written { case: index, card, formats };
    let all = switches::switches(job, &scenario.hardware, written);
    let bar = progress::bar(2 * all.len() + 1, args.question.quiet);
    let of = again.switches((scenario, case, stamp), (&job.zero, &all), options, || bar.inc(1));
    bar.finish_and_clear();
    let files = switches_artefacts(&of, args.question.style.made())?;
    let text = || switches_text(&of, VERSION);
    finished(args, folder, &files, text, || switches_json(&of, VERSION))
}

/// The same scenario with more values of its own.
struct Again<'a> {
    file: &'a Path,
    overrides: &'a [(String, String)],
    instead: &'a Instead,
    traces: &'a Traces,
    registry: &'a Registry,
    /// What its runs have in common.
    kin: Kin<'a>,
}

impl Again<'_> {
    /// What a case is compared by, as `run` with the same `--set` has it; `None` if it runs out of
    /// memory.
    fn judged(
        &self,
        label: &str,
        path: &str,
        value: &str,
        options: Options,
    ) -> Result<Option<Span>, String> {
        let own = [(path.to_owned(), value.to_owned())];
        self.with(&own, |scenario, workload, kin| {
            let bench = CaseRunner::among(kin, scenario, workload, options)?;
            let case = scenario.cases.iter().find(|case| case.label == label);
            bench.judged(case.expect("a number does not rename cases"), options)
        })
    }

    /// What `answer` has of the scenario with these values of its own.
    fn with<T>(
        &self,
        own: &[(String, String)],
        answer: impl for<'w> FnOnce(&Scenario, &'w Workload, &Kin<'w>) -> Result<T, RunError>,
    ) -> Result<T, String> {
        let overrides: Vec<_> = self.overrides.iter().chain(own).cloned().collect();
        let said = |problems: tiersim_models::diagnostic::Diagnostics| {
            problems.0.first().map_or_else(String::new, ToString::to_string)
        };
        let read = read_scenario_with(self.file, &overrides, self.registry);
        let mut scenario = read.map_err(said)?;
        self.instead.put(&mut scenario).map_err(said)?;
        let found = match self.traces.has(&scenario) {
            true => answer(&scenario, self.traces.of(&scenario), &self.kin),
            false => {
                let traces = read_traces([&scenario]).map_err(said)?;
                answer(&scenario, traces.of(&scenario), &Kin::default())
            }
        };
        found.map_err(|error| error.to_string())
    }
}

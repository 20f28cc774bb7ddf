//! `solve`: the least or the largest value of a path, or the best values of several, for which
//! conditions hold; and the least changes with which a scenario fits.

mod least;
mod question;
mod trials;

use crate::VERSION;
use crate::args::Question;
use crate::folder::Folder;
use crate::output::{Failure, Format, print, print_exact, written};
use crate::progress::{self, Progress};
use clap::Args as ClapArgs;
use question::{Asking, Sought};
use tiersim_models::results::metrics::unit_of;
use tiersim_models::results::solved::{Optimum, Solved};
use tiersim_policies::zoo::Registry;
use tiersim_reports::words::wrapped;
use tiersim_reports::{SolvedRecord, solved_artefacts, solved_json, solved_text};
use tiersim_sim::solve::one::solve as along_one;
use tiersim_sim::solve::several::optimize;
use trials::Trials;

#[derive(Debug, ClapArgs)]
pub(crate) struct SolveArgs {
    #[command(flatten)]
    question: Question,
    /// The path whose least value is looked for, such as tiers.hbm.capacity or policies.*.hbm; or,
    /// with --vary, a metric, such as cost_usd.
    #[arg(long, value_name = "WHAT", required_unless_present_any = ["maximize", "fit"])]
    minimize: Option<String>,
    /// The path, or with --vary the metric, whose largest value is looked for.
    #[arg(long, value_name = "WHAT", conflicts_with = "minimize")]
    maximize: Option<String>,
    /// A path that may have any value of a range, in the unit that it is written in or in one that
    /// is named: tiers.hbm.capacity, links.pcie.read=16..128, 'policies.*.hbm=gib(16..80)'. May be
    /// given up to 8 times.
    #[arg(long, value_name = "PATH[=FROM..TO]", value_parser = question::vary)]
    vary: Vec<question::Vary>,
    /// What is the least change with which the scenario fits, and meets the conditions? Each number
    /// and choice that takes memory, by itself.
    #[arg(long, conflicts_with_all = ["minimize", "maximize", "vary", "range", "unit", "whole"])]
    fit: bool,
    /// A condition, such as 'slowdown <= 1.05'; all must hold for one and the same case, which must
    /// fit. Names: slowdown, step, step_p95, gap_to_bound, tokens_per_s, latency,
    /// latency_p95, latency_slowdown, ttft, ttft_p95, tpot, tpot_p95, energy_j, cost_usd,
    /// tokens_per_usd, peak_gib.
    #[arg(long = "such-that", value_name = "CONDITION")]
    such_that: Vec<String>,
    /// The case that must meet them [default: any].
    #[arg(long, value_name = "LABEL")]
    case: Option<String>,
    /// Where to look, in the unit that the value is written in [default: from an eighth to eight
    /// times of what is there].
    #[arg(long, value_name = "FROM..TO", value_parser = question::ends)]
    range: Option<(f64, f64)>,
    /// The unit of values, such as gib, where nothing is written at the path.
    #[arg(long, value_name = "WORD")]
    unit: Option<String>,
    /// Whole numbers only.
    #[arg(long)]
    whole: bool,
    /// How near a value for which conditions do not hold must be, as a share of the answer; with
    /// --vary how near neighbours must be, as a share of their ranges.
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = share)]
    resolution: f64,
}

fn share(text: &str) -> Result<f64, String> {
    let read = text.parse::<f64>().ok().filter(|share| (1e-7..=0.5).contains(share));
    read.ok_or_else(|| "a share between 1e-7 and 0.5".to_owned())
}

/// Looks for what is asked, and writes what was found.
pub(crate) fn solve(args: &SolveArgs, registry: &Registry) -> Result<(), Failure> {
    let asking = Asking::open(args, registry)?;
    let sought = if args.fit { None } else { Some(asking.sought()?) };
    let folder = Folder::open(args.question.out.clone(), &asking.folder_name())?;
    let bar = progress::spinner("points tried", args.question.quiet);
    let found = find(&asking, sought, &bar)?;
    bar.finish_and_clear();
    let files = solved_artefacts(&found, args.question.style.made())?;
    let out = folder.shown().to_owned();
    folder.replace(&files)?;
    match (args.question.quiet, args.question.format) {
        (true, _) => Ok(()),
        (false, Format::Json) => print_exact(&solved_json(&found, VERSION)?),
        (false, Format::Text) => {
            let written = wrapped(&written(&out, &files), 80).join("\n");
            print(&format!("{}\n{written}\n", solved_text(&found, VERSION)))
        }
    }?;
    unanswered(&found).map_or(Ok(()), |why| Err(Failure::Expectation(vec![why])))
}

fn find(
    asking: &Asking<'_>,
    sought: Option<Sought>,
    bar: &Progress,
) -> Result<SolvedRecord, Failure> {
    let mut trials = Trials::new(asking, bar);
    let Some(Sought { objective, variables, ranges, largest }) = sought else {
        return least::least(asking, &mut trials).map(SolvedRecord::Least);
    };
    let asked = asking.asked(largest);
    let mut found = match (objective, &variables[..], &ranges[..]) {
        (None, [variable], [range]) => {
            let question = Solved { asked, variable: variable.clone(), tried: Vec::new() };
            SolvedRecord::One(along_one(question, *range, |values| {
                let points: Vec<Vec<f64>> = values.iter().map(|&value| vec![value]).collect();
                let all = trials.numbers(&variables, &points)?;
                Ok::<_, Failure>(all.into_iter().map(|measured| measured.tried).collect())
            })?)
        }
        (objective, ..) => {
            let objective = objective.unwrap_or_else(|| variables[0].path.clone());
            let question =
                Optimum { asked, objective, variables: variables.clone(), ..Optimum::default() };
            let evaluate = |points: &[Vec<f64>]| trials.numbers(&variables, points);
            SolvedRecord::Several(optimize(question, &ranges, evaluate)?)
        }
    };
    let asked = match &mut found {
        SolvedRecord::One(solved) => &mut solved.asked,
        SolvedRecord::Several(optimum) => &mut optimum.asked,
        SolvedRecord::Least(changes) => &mut changes.asked,
    };
    asked.fingerprint = trials.fingerprint();
    Ok(found)
}

/// Why there is no answer, if there is none.
fn unanswered(found: &SolvedRecord) -> Option<String> {
    match found {
        SolvedRecord::One(solved) if solved.answer().is_none() => {
            let ends = solved.tried.first().zip(solved.tried.last());
            let (from, to) = ends.map_or((f64::NAN, f64::NAN), |(a, b)| (a.value(), b.value()));
            Some(format!(
                "{}: no value of {} between {from} and {to} meets all conditions",
                solved.asked.scenario, solved.variable.path
            ))
        }
        SolvedRecord::Several(found) if found.answer().is_none() => Some(format!(
            "{}: none of {} points {} all conditions",
            found.asked.scenario,
            found.tried.len(),
            match unit_of(&found.objective) {
                Some(_) => format!("has {} and meets", found.objective),
                None => "meets".to_owned(),
            }
        )),
        SolvedRecord::Least(found)
            if found.now.is_err() && found.changes.iter().all(|change| change.least.is_none()) =>
        {
            Some(format!("{}: no change that was tried is enough", found.asked.scenario))
        }
        _ => None,
    }
}

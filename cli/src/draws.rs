//! `--uncertainty`: the cases of a run at many draws of the numbers that are not known exactly.

use crate::args::Common;
use crate::output::Failure;
use crate::points::scenarios;
use crate::progress;
use clap::Args as ClapArgs;
use rayon::prelude::*;
use std::path::Path;
use tiersim_input::scenario::unknowns::{LEAST_DRAWS, MOST_DRAWS, Redrawn, Unknowns};
use tiersim_input::traces::read_traces;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::results::RunRecord;
use tiersim_models::results::uncertainty::{DrawnCase, UncertaintyRecord};
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::zoo::Registry;
use tiersim_sim::draws::{Places, drawn};
use tiersim_sim::run::{Kin, Options};

/// Draws that are read before any of them is run: what is held in memory at a time.
const AT_ONCE: usize = 64;

#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct DrawArgs {
    /// Run every case at so many draws of the machine's uncertain numbers as well (those with a
    /// spread or a range); results then have bands, and say how often the verdict holds.
    #[arg(long, value_name = "DRAWS", value_parser = draws)]
    pub(crate) uncertainty: Option<usize>,
}

fn draws(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (LEAST_DRAWS..=MOST_DRAWS).contains(count));
    count.ok_or_else(|| {
        format!(
            "a band needs a whole number of draws from {LEAST_DRAWS} to {MOST_DRAWS}, such as 100"
        )
    })
}

/// The run that draws are of.
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a Path,
    pub(crate) overrides: &'a [(String, String)],
    pub(crate) registry: &'a Registry,
    pub(crate) common: &'a Common,
    /// Whether it is that of the scenario's sweep.
    pub(crate) sweeps: bool,
}

/// What came of every case.
pub(crate) type Drawn = Vec<Option<DrawnCase>>;

fn unknowns(run: &Sweep, draws: usize) -> Unknowns {
    let of: Vec<_> = scenarios(run).collect();
    Unknowns::of(of.iter().copied(), draws, run.base.seed)
}

impl DrawArgs {
    /// Refuses a run in which nothing can be drawn, before anything is simulated.
    pub(crate) fn check(self, path: &Path, run: &Sweep) -> Result<(), Failure> {
        let Some(draws) = self.uncertainty else { return Ok(()) };
        let unknowns = unknowns(run, draws);
        if unknowns.numbers.is_empty() { Err(nothing(path, &unknowns)) } else { Ok(()) }
    }

    /// Adds the draws to the record of `run`, if they were asked for.
    pub(crate) fn draw(
        self,
        asked: &Asked<'_>,
        run: &Sweep,
        traces: &Traces,
        record: &mut RunRecord,
    ) -> Result<(), Failure> {
        let Some(draws) = self.uncertainty else { return Ok(()) };
        let seed = run.base.seed;
        let unknowns = unknowns(run, draws);
        let Asked { path, overrides, registry, sweeps, .. } = *asked;
        let mut scenario = Redrawn::open(path, overrides, registry, sweeps)?;
        let places = Places::of(record, run);
        let options = Options { audit: asked.common.audit, ..Options::default() };
        let bar = progress::bar(draws, asked.common.quiet);
        bar.set_message("draws");
        let (mut all, kin): (Vec<Drawn>, _) = (Vec::new(), Kin::default());
        let numbers: Vec<usize> = (0..draws).collect();
        for part in numbers.chunks(AT_ONCE) {
            let read = |&draw: &usize| -> Result<Sweep, Failure> {
                scenario.draw(&unknowns, draw).map_err(|found| broken(asked, (draw, draws), found))
            };
            let read = part.iter().map(read).collect::<Result<Vec<Sweep>, Failure>>()?;
            let run = |sweep: &Sweep| {
                let figures = simulated(sweep, &places, (traces, &kin), options);
                bar.inc(1);
                figures
            };
            let figures: Vec<Result<Drawn, Failure>> = read.par_iter().map(run).collect();
            for (draw, figures) in part.iter().zip(figures) {
                all.push(figures.map_err(|failure| at_draw(asked, (*draw, draws), failure))?);
            }
        }
        bar.finish_and_clear();
        let cases = (0..record.results.len()).map(|case| all.iter().map(|of| of[case]).collect());
        let cases = cases.collect();
        let Unknowns { numbers, blind, .. } = unknowns;
        record.uncertainty = Some(UncertaintyRecord { draws, seed, numbers, blind, cases });
        Ok(())
    }
}

/// The cases of a draw; its trace is read again only if a number changes it.
fn simulated<'w>(
    sweep: &Sweep,
    places: &Places,
    (traces, kin): (&'w Traces, &Kin<'w>),
    options: Options,
) -> Result<Drawn, Failure> {
    if scenarios(sweep).all(|scenario| traces.has(scenario)) {
        return Ok(drawn(places, sweep, traces, options, kin)?);
    }
    let own = read_traces(scenarios(sweep))?;
    Ok(drawn(places, sweep, &own, options, &Kin::default())?)
}

/// What is said where no number can be drawn.
fn nothing(path: &Path, unknowns: &Unknowns) -> Failure {
    let assumed = match unknowns.blind.len() {
        0 => String::new(),
        1 => format!(" (one of them is assumed: {})", unknowns.blind[0]),
        all => format!(" ({all} of them are assumed, such as {})", unknowns.blind[0]),
    };
    Failure::Input(format!(
        "{}: --uncertainty draws numbers of the machine that have a spread or a range, and here none \
         has{assumed}; write one behind a number's source, such as (gb_per_s(30), assumed(\"why\"), \
         range(gb_per_s(20), gb_per_s(45))), in the hardware file or with --set",
        path.display()
    ))
}

fn broken(asked: &Asked<'_>, draw: (usize, usize), found: Diagnostics) -> Failure {
    at_draw(asked, draw, found.into())
}

/// A problem that only drawn numbers have.
fn at_draw(asked: &Asked<'_>, (draw, draws): (usize, usize), failure: Failure) -> Failure {
    let said = match failure.input() {
        Ok(said) => said,
        Err(other) => return other,
    };
    Failure::Input(format!(
        "{}: draw {} of {draws} cannot be run: {said}\nnarrow the range or the spread of the number \
         that is named, so that every draw is a machine that could be",
        asked.path.display(),
        draw + 1
    ))
}

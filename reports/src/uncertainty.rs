//! What a record says where its machine's numbers were drawn: how often the best is the best, what
//! the answer hangs on, and the band of every figure.
//!
//! The best of the table is held against each other case that pays for every access, and the best of
//! its machine against the best of each other machine, by what cases are ranked by. A verdict flips if another one is quicker in
//! more than one draw of twenty; then the sentence says so, and names the number that decides if
//! there is one that the difference hangs on.
//! Invariant: sentences, JSON and tables are made of the same [`Contest`]s and bands.

mod csv;
mod json;

use crate::column::Column;
use crate::contest::order;
use crate::measure::Measure;
use crate::series::machine_of;
use crate::units::{decimals, time};
use crate::words::{count, rounded, shortened};
use std::cmp::Reverse;
use tiersim_models::results::RunRecord;
use tiersim_models::results::uncertainty::{Band, DrawnCase, Duel, UncertaintyRecord};
use tiersim_models::units::shown::of_times;

pub(crate) use csv::{columns, draws_csv};
pub(crate) use json::summary;

/// Above this share of draws in which another is quicker the verdict flips.
const MOST_LOST: f64 = 0.05;
/// A rank correlation over so many draws that is nearer to 0 names no number that decides: it is
/// three standard deviations of what two things have that know nothing of each other, whose variance
/// is `1 / (n - 1)` (M. Kendall, "Rank Correlation Methods", 1948). Of a dozen numbers one in thirty
/// charts has such a one by chance; with 1.96 of them every second chart would.
pub(crate) fn least_correlation(draws: usize) -> f64 {
    (3.0 / (draws.saturating_sub(1) as f64).sqrt()).min(1.0)
}

/// Most rivals that are named in sentences.
const MOST_NAMED: usize = 3;
/// Most rivals that the best is held against, the next in the table first.
const MOST_CONTESTS: usize = 100;
/// Most characters of a case's name in a sentence.
const MOST_NAME: usize = 60;

/// What of a case has a band: its name with the unit, and the figure.
pub(crate) type Figure = (&'static str, fn(&DrawnCase) -> Option<f64>);

/// Those of `summary.json` and `results.csv`.
const FIGURES: [Figure; 6] = [
    ("step_ms", |of| step(of).map(|ps| ps / 1e9)),
    ("ttft_ms", |of| of.first_token_ms),
    ("tpot_ms", |of| of.per_token_ms),
    ("peak_bytes", |of| Some(of.peak.get() as f64)),
    ("energy_j", |of| of.joules),
    ("cost_used_usd", |of| of.dollars),
];

/// Two that can be compared, the first of which is before the other in the table.
#[derive(Clone, Debug)]
pub(crate) struct Contest {
    /// `cases` or `machines`.
    pub(crate) between: &'static str,
    pub(crate) winner: String,
    pub(crate) other: String,
    pub(crate) duel: Duel,
    /// What both are ranked by, by draw.
    times: [Vec<Option<f64>>; 2],
}

impl Contest {
    /// Whether the other one is quicker too often for the verdict to hold.
    pub(crate) fn flips(&self, draws: usize) -> bool {
        self.duel.losses as f64 > MOST_LOST * draws as f64
    }

    /// The rank correlation of each number with how much longer the winner takes.
    fn correlations(&self, of: &UncertaintyRecord) -> Vec<Option<f64>> {
        let [one, other] = &self.times;
        of.numbers.iter().map(|number| of.of_difference(number, one, other)).collect()
    }
}

/// The best against each other case, and the best machine against each other one.
pub(crate) fn contests(record: &RunRecord, of: &UncertaintyRecord) -> Vec<Contest> {
    let mut ranked: Vec<usize> = (0..record.results.len()).collect();
    ranked.retain(|&case| !record.results[case].emulated);
    order(record, &mut ranked);
    let runs = |&case: &usize| record.results[case].outcome.figures().is_some();
    let Some(best) = ranked.first().copied().filter(runs) else { return Vec::new() };
    let name = |case: usize| record.results[case].label.clone();
    let contest = |between, [winner, other]: [String; 2], times: [Vec<Option<f64>>; 2]| {
        let duel = of.duel(&times[0], &times[1]);
        Contest { between, winner, other, duel, times }
    };
    let measure = Measure::ranking(record);
    let drawn = |case: usize, own: &DrawnCase| measure.drawn(own, record.of(&record.results[case]));
    let least = |cases: &[usize]| of.least(cases, drawn);
    let others = ranked.iter().skip(1).take(MOST_CONTESTS);
    let mut all: Vec<Contest> = others
        .map(|&case| contest("cases", [name(best), name(case)], [least(&[best]), least(&[case])]))
        .collect();
    let machine = |case: usize| machine_of(&record.results[case]);
    let cases_of = |wanted: Option<&String>| -> Vec<usize> {
        ranked.iter().copied().filter(|&case| machine(case) == wanted).collect()
    };
    let mut seen = vec![machine(best)];
    for &case in &ranked {
        let (Some(own), Some(other)) = (machine(best), machine(case)) else { continue };
        if !seen.contains(&Some(other)) {
            seen.push(Some(other));
            let times = [Some(own), Some(other)].map(|machine| least(&cases_of(machine)));
            all.push(contest("machines", [own.clone(), other.clone()], times));
        }
    }
    all
}

/// Lines of the verdict about draws, with the word that each opens with.
pub(crate) fn verdict(record: &RunRecord) -> Vec<(&'static str, String)> {
    let Some(of) = &record.uncertainty else { return Vec::new() };
    let mut lines = vec![("draws", drawn(record, of))];
    let mut contests = contests(record, of);
    // The nearest rival first, and last who is always as quick; equals in the order of the table.
    contests.sort_by_key(|contest| (Reverse(contest.duel.losses), contest.duel.ties == of.draws));
    let flips = contests.iter().filter(|contest| contest.flips(of.draws)).count();
    let (first, others) = contests.split_at(flips.max(1).min(contests.len()));
    lines.extend(first.iter().take(MOST_NAMED).map(|contest| said(contest, of)));
    if flips == 0 {
        let machines = others.iter().filter(|contest| contest.between == "machines");
        lines.extend(machines.take(MOST_NAMED).map(|contest| said(contest, of)));
    }
    if flips > MOST_NAMED {
        let more = count(flips - MOST_NAMED, "other verdict flips", "other verdicts flip");
        lines.push(("flips", format!("{more} too; see `contests` in summary.json")));
    }
    lines.extend(fits(record, of).into_iter().map(|text| ("fits", text)));
    lines
}

/// How many draws of what, and the band of the best.
fn drawn(record: &RunRecord, of: &UncertaintyRecord) -> String {
    let numbers = count(of.numbers.len(), "uncertain number", "uncertain numbers");
    let mut text = format!("{} draws of {numbers}", of.draws);
    let mut ranked: Vec<usize> = (0..record.results.len()).collect();
    ranked.retain(|&case| !record.results[case].emulated);
    order(record, &mut ranked);
    let best = ranked.first().and_then(|&case| Some((case, of.band(case, step)?)));
    if let Some((case, Band { p5, p50, p95 })) = best {
        let [p5, p50, p95] = [p5, p50, p95].map(time);
        let name = name(&record.results[case].label);
        text += &format!(
            ": the step of {name} takes {p5} to {p95} (5th to 95th percentile), median {p50}"
        );
    }
    match of.blind.len() {
        0 => text,
        1 => text + "; 1 assumed number has no range and stays as it is",
        all => text + &format!("; {all} assumed numbers have no range and stay as they are"),
    }
}

fn said(contest: &Contest, of: &UncertaintyRecord) -> (&'static str, String) {
    let Contest { between, winner, other, duel, .. } = contest;
    let (winner, other) = (name(winner), name(other));
    let best = if *between == "machines" { "the best of " } else { "" };
    if duel.ties == of.draws {
        let text = format!("{best}{winner} is as quick as {best}{other} in all {} draws", of.draws);
        return ("holds", text);
    }
    let beats = format!("{best}{winner} beats {best}{other}");
    let mut text = match duel.wins {
        wins if wins == of.draws => format!("{beats} in all {wins} draws"),
        wins => format!("{beats} in {wins} of {} draws", of.draws),
    };
    if duel.ties > 0 {
        text += &format!(" and is as quick in {}", duel.ties);
    }
    let flips = contest.flips(of.draws);
    if flips {
        text += &format!(" and loses in {}: the verdict flips within the band", duel.losses);
    }
    if duel.losses > 0 {
        text += &hangs(of, duel.decides);
    }
    (if flips { "flips" } else { "holds" }, text)
}

/// What a count hangs on, as the rest of a sentence.
fn hangs(of: &UncertaintyRecord, decides: Option<(usize, f64)>) -> String {
    match decides {
        Some((number, by)) if by.abs() >= least_correlation(of.draws) => {
            let name = &of.numbers[number].name;
            format!("; it hangs on {name} (rank correlation {})", rounded(by, 2, false))
        }
        Some(_) => "; it hangs on no single number".to_owned(),
        None => String::new(),
    }
}

/// The cases that fit in some draws and in others not.
fn fits(record: &RunRecord, of: &UncertaintyRecord) -> Vec<String> {
    let some = |&case: &usize| (1..of.draws).contains(&of.fits(case));
    let cases = (0..record.results.len()).filter(some).take(MOST_NAMED);
    let told = |case: usize| {
        let there = |of: &Option<DrawnCase>| if of.is_some() { 0.0 } else { 1.0 };
        let lacking: Vec<f64> = of.cases[case].iter().map(there).collect();
        let hangs = hangs(of, of.decides(&lacking));
        let name = name(&record.results[case].label);
        format!("{name} fits in {} of {} draws{hangs}", of.fits(case), of.draws)
    };
    cases.map(told).collect()
}

fn name(label: &str) -> String {
    shortened(label, MOST_NAME)
}

/// The mean step in picoseconds.
pub(crate) fn step(of: &DrawnCase) -> Option<f64> {
    Some(of.step.ps() as f64)
}

/// The column of bands of steps, or of times to the first token where requests are served: from the
/// 5th to the 95th percentile.
pub(crate) fn band_column(record: &RunRecord, cases: &[usize]) -> Option<Column> {
    let of = record.uncertainty.as_ref()?;
    let served = crate::served::serves(record);
    let figure =
        |of: &DrawnCase| if served { of.first_token_ms.map(|ms| ms * 1e9) } else { step(of) };
    let bands: Vec<Option<Band>> = cases.iter().map(|&case| of.band(case, figure)).collect();
    let (unit, size) = of_times(bands.iter().flatten().map(|band| band.p95).fold(0.0, f64::max));
    let all: Vec<Option<f64>> = bands.iter().map(|band| band.map(|band| band.p5 / size)).collect();
    let digits = decimals(&all);
    let cell = |(band, &case): (&Option<Band>, &usize)| {
        let Some(Band { p5, p95, .. }) = band else { return "-".to_owned() };
        let [from, to] = [p5, p95].map(|end| format!("{:.digits$}", end / size));
        let range = if from == to { from } else { format!("{from} to {to}") };
        match of.fits(case) {
            fits if fits == of.draws => range,
            fits => format!("{range}, {fits} fit"),
        }
    };
    let what = if served { "first token" } else { "step" };
    let header = [what.to_owned(), format!("p5 to p95 of draws {unit}")];
    Some(Column { header, cells: bands.iter().zip(cases).map(cell).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewer_the_draws_the_more_is_chance() {
        for (draws, least) in [(1, 1.0), (10, 1.0), (20, 0.688), (100, 0.302), (1000, 0.095)] {
            let found = least_correlation(draws);
            assert!((found - least).abs() < 5e-4, "{draws} draws: {found}, not {least}");
        }
    }
}

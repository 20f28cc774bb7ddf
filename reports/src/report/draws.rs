//! How sure the answer is: draws of the machine's numbers, who beats whom in how many of them, and
//! which number decides.

use super::correlations::correlations;
use super::folder::Report;
use super::summary::{Contested, Drawn, DrawnFigures, Draws, Ends};
use crate::ChartError;
use crate::html::{Page, Table, Tone};
use crate::text_table::Side::{Left, Right};
use crate::uncertainty::least_correlation;
use crate::units::time;
use crate::words::{count, number, rounded};

/// The figure of times to the first token.
const TTFT: &str = "ttft_ms";
/// Most rows of a table.
const MOST: usize = 100;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let Some(draws) = &report.summary.uncertainty else { return Ok(()) };
    page.heading("Uncertainty");
    let numbers = count(draws.numbers.len(), "number is", "numbers are");
    page.paragraph(&format!(
        "{numbers} not known exactly: measured with a spread, or assumed within a range. Every case \
         was run at {} draws of them (a Latin hypercube, seed {}); in one draw all cases have the same \
         machine. A number that was written once is drawn once for all machines that have it.",
        draws.draws, draws.seed
    ));
    blind(page, draws);
    contests(page, draws);
    if let Some((words, over, shown)) = shown(draws) {
        let title = format!("{}: what the answer hangs on", report.summary.scenario);
        let caption = "Spearman's rank correlation of each drawn number; 1 or -1 where the ranks \
                       follow it alone, near 0 where they do not.";
        page.chart(&correlations(&title, &words, (over, &shown)), caption)?;
    }
    bands(page, report, draws);
    numbers_of(page, draws);
    Ok(())
}

fn blind(page: &mut Page, draws: &Draws) {
    if draws.assumed_without_range.is_empty() {
        return;
    }
    let all = draws.assumed_without_range.len();
    let words = count(all, "assumed number has", "assumed numbers have");
    page.statement(
        Tone::Note,
        &format!("Note: {words} no range and stayed as written, so the bands say nothing of them:"),
    );
    page.list(&draws.assumed_without_range[..all.min(MOST)]);
}

fn contests(page: &mut Page, draws: &Draws) {
    if draws.contests.is_empty() {
        return;
    }
    let columns = [
        ("quicker as written", Left),
        ("other", Left),
        ("between", Left),
        ("wins", Right),
        ("ties", Right),
        ("loses", Right),
        ("verdict", Left),
        ("hangs most on", Left),
        ("rank correlation", Right),
    ];
    let mut table = Table::new("The best against the others, in how many draws", &columns);
    for of in draws.contests.iter().take(MOST) {
        let Contested { winner, other, between, wins, ties, losses, .. } = of;
        let [wins, ties, losses] = [wins, ties, losses].map(ToString::to_string);
        let verdict = if of.flips { "flips" } else { "holds" };
        let least = least_correlation(draws.draws as usize);
        let known = of.rank_correlation.zip(of.decides.clone());
        let [decides, by] = match known {
            Some((by, _)) if by.abs() < least => ["no single number", "-"].map(str::to_owned),
            Some((by, decides)) => [decides, rounded(by, 2, false)],
            None => ["-"; 2].map(str::to_owned),
        };
        let (winner, other, between) = (winner.clone(), other.clone(), between.clone());
        table.row([winner, other, between, wins, ties, losses, verdict.to_owned(), decides, by]);
    }
    page.table(&table);
}

/// A rank correlation of each number by name.
type Correlations = Vec<(String, f64)>;

/// What the chart shows, and over how many draws: of the nearest rival the difference, or without
/// one the step of the best.
fn shown(draws: &Draws) -> Option<(String, usize, Correlations)> {
    let named = |all: &super::summary::Named| -> Correlations {
        let known = all.iter().filter_map(|(name, by)| Some((name.clone(), by.as_f64()?)));
        known.collect()
    };
    let nearest = draws.contests.iter().rev().max_by_key(|of| of.losses);
    let (words, over, shown) = match nearest.filter(|of| of.losses > 0) {
        Some(of) => (
            format!(
                "How much longer {} takes than {}: right of the line, a higher number \
                     speaks for {}.",
                of.winner, of.other, of.other
            ),
            draws.draws,
            named(&of.rank_correlations),
        ),
        None => {
            let winner = &draws.contests.first()?.winner;
            let best = draws.cases.iter().find(|case| case.label == *winner)?;
            let words = format!(
                "The mean step of {winner}: right of the line, a higher number \
                                 makes it longer."
            );
            (words, best.fits, named(&best.rank_correlations))
        }
    };
    (!shown.is_empty()).then_some((words, over as usize, shown))
}

fn bands(page: &mut Page, report: &Report, draws: &Draws) {
    let served = draws.cases.iter().any(|case| case.bands.contains_key(TTFT));
    let mut columns = vec![("case", Left), ("fits in", Right), ("step p5", Right)];
    columns.extend([("p50", Right), ("p95", Right)]);
    if served {
        columns.extend([("TTFT p5", Right), ("TTFT p50", Right), ("TTFT p95", Right)]);
    }
    let mut table = Table::new("Bands of every case over the draws in which it fits", &columns);
    for case in report.summary.order().into_iter().take(MOST) {
        let Some(own) = draws.cases.get(case) else { continue };
        let DrawnFigures { label, fits, bands, .. } = own;
        let mut row = vec![label.clone(), fits.to_string()];
        row.extend(ends(bands.get("step_ms")));
        row.extend(served.then(|| ends(bands.get(TTFT))).into_iter().flatten());
        table.row(row);
        report.link(&mut table, case, false);
    }
    page.table(&table);
}

fn ends(of: Option<&Ends>) -> [String; 3] {
    match of {
        Some(Ends { p5, p50, p95 }) => [p5, p50, p95].map(|ms| time(ms * 1e9)),
        None => ["-"; 3].map(str::to_owned),
    }
}

fn numbers_of(page: &mut Page, draws: &Draws) {
    let columns = [
        ("number", Left),
        ("as written", Left),
        ("law", Left),
        ("least drawn", Right),
        ("greatest drawn", Right),
        ("source", Left),
        ("which, or why", Left),
    ];
    let mut table = Table::new("Numbers that were drawn", &columns);
    for Drawn { path, value, law, least, greatest, confidence, source } in
        draws.numbers.iter().take(MOST)
    {
        let [least, greatest] = [least, greatest].map(|end| end.map_or("-".to_owned(), number));
        let texts = [path, value, law].map(String::clone).into_iter();
        table.row(texts.chain([least, greatest, confidence.clone(), source.clone()]));
    }
    page.table(&table);
}

//! `report.html`: the comparison as a page for people who were not there.

use super::chart::title;
use super::text::unlocked;
use super::{Validation, spec};
use crate::ChartError;
use crate::html::{Page, Table, Tone};
use crate::render::Chart;
use crate::text_table::Side::{self, Left, Right};
use crate::words::count;
use tiersim_models::hardware::Hardware;
use tiersim_models::results::comparison::{
    CaseResult, Compared, DeviceMemory, Errors, Graded, InPlace, Ran, Row, Verdict, error, grade,
    median, overall, overall_spread,
};
use tiersim_models::units::Span;

/// The page of one or several scenarios.
pub(super) fn page(of: Validation, scatter: &Chart) -> Result<String, ChartError> {
    let compared = of.compared;
    let mut page = Page::new(&title(of));
    verdict(&mut page, compared);
    summary(&mut page, compared);
    page.heading("What was compared");
    for one in compared {
        what(&mut page, one, of);
    }
    page.heading("How far predicted times are off");
    for hardware in specs(compared) {
        page.statement(
            Tone::Note,
            &format!("Note on {}: {}", hardware.name, spec::worth(hardware)),
        );
    }
    page.paragraph(spec::HELD_OUT);
    errors(&mut page, compared);
    page.chart(
        scatter,
        "Every measured step of every case. A point on the line was predicted exactly; above it, \
         the prediction is too long.",
    )?;
    in_place(&mut page, compared);
    channels(&mut page, compared);
    page.heading("Every case");
    for one in compared {
        for result in &one.results {
            case(&mut page, one, result, compared.len() > 1);
        }
    }
    numbers(&mut page, compared);
    how_to_read(&mut page);
    Ok(page.finish())
}

fn verdict(page: &mut Page, compared: &[Compared]) {
    let results = || compared.iter().flat_map(|one| &one.results);
    let failures: Vec<String> = results().flat_map(CaseResult::failures).collect();
    let ran = results().filter(|result| result.ran().is_some()).count();
    let unfit = results().count() - ran;
    let all = count(ran, "case", "cases");
    if !failures.is_empty() {
        page.statement(Tone::Bad, &format!("The two machines do NOT agree ({all} ran):"));
        page.list(&failures);
    } else if ran == 0 {
        page.statement(Tone::Bad, "Nothing was compared: no case fits.");
    } else {
        page.statement(
            Tone::Good,
            &format!(
                "Both machines agree in {all}: decisions and bytes over every channel are equal, and \
                 no check of contents failed."
            ),
        );
    }
    if unfit > 0 {
        page.statement(
            Tone::Note,
            &format!(
                "Note: {} not fit.",
                match unfit {
                    1 => "1 case does".to_owned(),
                    n => format!("{n} cases do"),
                }
            ),
        );
    }
}

/// Errors of everything together.
fn summary(page: &mut Page, compared: &[Compared]) {
    let graded = overall(compared);
    if graded.is_empty() {
        return;
    }
    let mut table = error_table("Size of errors, all cases together", "of");
    for (of, errors) in &graded {
        error_row(&mut table, vec![of.clone()], errors, None);
    }
    page.table(&table);
    page.paragraph(&match overall_spread(compared) {
        Some((middle, most)) => format!(
            "Run-to-run spread of the measured steps: median {}, max {}. An error below the spread \
             says nothing.",
            percent(middle),
            percent(most)
        ),
        None => {
            "Each case ran once, so that what the machine itself varies by is not known.".to_owned()
        }
    });
}

fn what(page: &mut Page, one: &Compared, of: Validation) {
    let Compared { scenario, about, fingerprint, seed, hardware, results } = one;
    page.subheading(scenario);
    page.paragraph(about);
    let ran = results.iter().filter_map(CaseResult::ran).next();
    let runs = ran.map_or(0, |ran| ran.measured.len());
    page.facts(&[
        ("predicted for", format!("{}: {}", hardware.name, hardware.about)),
        ("its numbers", spec::counted(hardware)),
        ("measured on", format!("{}, {} of each case", of.machine, count(runs, "run", "runs"))),
        ("seed", seed.to_string()),
        ("fingerprint", fingerprint.clone()),
        ("version", format!("tiersim {}", of.version)),
    ]);
}

/// Each spec once.
fn specs(compared: &[Compared]) -> Vec<&Hardware> {
    let mut specs: Vec<&Hardware> = Vec::new();
    for one in compared {
        let hardware = &*one.hardware;
        if !specs.iter().any(|known| known.facts == hardware.facts) {
            specs.push(hardware);
        }
    }
    specs
}

const ERROR_COLUMNS: [(&str, Side); 4] =
    [("count", Right), ("median", Right), ("p95", Right), ("max", Right)];

fn error_table(caption: &str, of: &str) -> Table {
    let mut columns = vec![(of, Left)];
    columns.extend(ERROR_COLUMNS);
    Table::new(caption, &columns)
}

fn error_row(table: &mut Table, names: Vec<String>, errors: &Errors, spread: Option<String>) {
    let Errors { count, median, p95, max } = *errors;
    let figures = [count.to_string(), percent(median), percent(p95), percent(max)];
    table.row(names.into_iter().chain(figures).chain(spread));
}

/// Errors of steps by case.
fn errors(page: &mut Page, compared: &[Compared]) {
    let columns = [&ERROR_COLUMNS[..], &[("spread (median)", Right)]].concat();
    let mut table = case_table("Size of errors of steps, by case", compared, &columns);
    for (names, _, ran) in cases(compared) {
        let spread = spread(ran, middle(ran.step_spreads(ran.mode())));
        error_row(&mut table, names, &grade(ran.step_pairs(ran.mode())), Some(spread));
    }
    if !table.is_empty() {
        page.table(&table);
    }
}

/// A run-to-run spread; one run has none.
fn spread(ran: &Ran, share: f64) -> String {
    if ran.measured.len() > 1 { percent(share) } else { "-".to_owned() }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// Cases that use objects in place: with the delays of the laws, and for real.
fn in_place(page: &mut Page, compared: &[Compared]) {
    let columns = [
        ("predicted step, ms", Right),
        ("emulated, ms", Right),
        ("error", Right),
        ("real, ms", Right),
        ("error", Right),
        ("spread of real", Right),
    ];
    let caption = "Median step of the cases that use objects in place";
    let mut table = case_table(caption, compared, &columns);
    for (names, _, ran) in cases(compared).filter(|(_, _, ran)| !ran.real.is_empty()) {
        let step = |mode, predicted: bool| -> Span {
            let pairs = ran.step_pairs(mode).into_iter();
            median(&pairs.map(|(p, m)| if predicted { p } else { m }).collect::<Vec<_>>())
        };
        let predicted = step(InPlace::Emulated, true);
        let [emulated, real] = [InPlace::Emulated, InPlace::Real].map(|mode| step(mode, false));
        let off = |measured| percent(error(predicted, measured));
        let spread = spread(ran, middle(ran.step_spreads(InPlace::Real)));
        let figures = [ms(predicted), ms(emulated), off(emulated), ms(real), off(real), spread];
        table.row(names.into_iter().chain(figures));
    }
    if table.is_empty() {
        return;
    }
    page.heading("Use in place: emulated against real");
    page.paragraph(
        "An object that is used where it lies, outside of HBM, makes its op longer. Emulated, the op \
         waits as long as the laws of the spec say; for real, it reaches for the object. The first \
         shows whether the machine keeps the delay, the second whether the law is right.",
    );
    page.table(&table);
}

/// Copies by channel, where the machine times them.
fn channels(page: &mut Page, compared: &[Compared]) {
    let sums = [
        ("channel", Left),
        ("predicted sum, ms", Right),
        ("measured sum, ms", Right),
        ("error", Right),
    ];
    let caption = "Copies over one channel, from start to end: sums and errors";
    let mut table = case_table(caption, compared, &[&sums[..], &ERROR_COLUMNS].concat());
    for (names, one, ran) in cases(compared) {
        let channels = one.channels();
        let singles: Vec<Graded> = ran.errors(ran.mode(), &channels);
        let rows = ran.rows(ran.mode(), &channels).into_iter();
        for row in rows.filter(|row| row.class == "lane") {
            let single = singles.iter().find(|(of, _)| *of == format!("copies {}", row.name));
            let errors = single.map_or_else(Errors::default, |(_, errors)| *errors);
            let error = percent(row.error());
            let sums = [row.name, ms(row.predicted), ms(row.measured), error];
            let names = names.iter().cloned().chain(sums).collect();
            error_row(&mut table, names, &errors, None);
        }
    }
    if !table.is_empty() {
        page.heading("Copies");
        page.table(&table);
    }
}

fn case(page: &mut Page, one: &Compared, result: &CaseResult, several: bool) {
    let label = match several {
        true => format!("{}: {}", one.scenario, result.label),
        false => result.label.clone(),
    };
    page.subheading(&label);
    let ran = match &result.verdict {
        Verdict::DoesNotFit(why) => return page.paragraph(&format!("Does not fit: {why}")),
        Verdict::Ran(ran) => ran,
    };
    let checks: u64 = ran.measured.iter().chain(&ran.real).map(|run| run.checks).sum();
    let decisions = ran.predicted.decisions;
    page.paragraph(&format!(
        "Policy {}: {} and {} per run, {checks} checks of contents.",
        result.policy,
        count(decisions.ops as usize, "op", "ops"),
        count(decisions.copies as usize, "copy", "copies"),
    ));
    page.paragraph(&memory(one, ran));
    for (tier, &(made, wished)) in one.hardware.tiers.iter().zip(&ran.measured[0].slots) {
        if wished < made {
            page.paragraph(&unlocked(&tier.name, made, made - wished));
        }
    }
    for mode in ran.modes() {
        page.table(&times(ran, mode, &one.channels()));
    }
}

/// What was held at most, tier by tier.
fn memory(one: &Compared, ran: &Ran) -> String {
    let tiers = one.hardware.tiers.iter().zip(ran.peaks());
    let tiers: Vec<String> = tiers
        .map(|(tier, (predicted, measured))| match measured {
            Some(measured) => format!("{} {predicted} ({measured} measured)", tier.name),
            None => format!("{} {predicted}", tier.name),
        })
        .collect();
    let device = ran.device().map_or_else(String::new, |memory| {
        let DeviceMemory { peak, rooms } = memory;
        format!(" The device's driver saw {peak} in use; the plan's rooms in it came to {rooms}.")
    });
    format!("Held at most: {}.{device}", tiers.join(", "))
}

fn times(ran: &Ran, mode: InPlace, channels: &[String]) -> Table {
    let caption = match mode {
        InPlace::None => "Times",
        InPlace::Emulated => "Times, use in place emulated",
        InPlace::Real => "Times, use in place for real",
    };
    let columns = [
        ("of", Left),
        ("predicted, ms", Right),
        ("measured, ms", Right),
        ("error", Right),
        ("spread", Right),
    ];
    let mut table = Table::new(caption, &columns);
    for row in ran.rows(mode, channels) {
        let error = percent(row.error());
        let Row { class, name, predicted, measured, spread } = row;
        let of = format!("{class} {name}");
        table.row([of, ms(predicted), ms(measured), error, self::spread(ran, spread)]);
    }
    table
}

fn numbers(page: &mut Page, compared: &[Compared]) {
    page.heading("The numbers that predicted");
    let columns = [("number", Left), ("value", Left), ("source", Left), ("which", Left)];
    for hardware in specs(compared) {
        let mut table = Table::new(&hardware.name, &columns);
        for fact in &hardware.facts {
            let (source, text) = (fact.source.confidence().word(), fact.source.text());
            table.row([&fact.path, &fact.value, source, text]);
        }
        page.table(&table);
    }
}

fn how_to_read(page: &mut Page) {
    page.heading("How to read this");
    page.list(&[
        "A step is one pass of the workload, from the end of the one before; steps of the warm-up \
         are left out."
            .to_owned(),
        "A measured figure is the median of the runs. An error is (predicted - measured) / measured: \
         above zero, the prediction is too long. Tables of sizes of errors leave the sign away; p95 \
         is the size that 95 % of them do not exceed."
            .to_owned(),
        "Spread is (longest - shortest) / median of the runs: what the machine itself varies by."
            .to_owned(),
        "How long an op is to last comes from the scenario; the real machine sizes its work for that, \
         and the op takes what it takes. Errors of ops say how well that works; errors of steps add \
         waiting, copying and overhead."
            .to_owned(),
        "Decisions are what every op and every copy does and the room that it takes, in order. \
         Contents are checked whenever an op reads and a copy arrives: every word in memory says of \
         which object and version it is."
            .to_owned(),
        "The same figures are in validation.json and validation.csv beside this page.".to_owned(),
    ]);
}

/// A share in per cent that no line break tears apart.
fn percent(share: f64) -> String {
    crate::words::percent(share).replace(' ', "\u{a0}")
}

/// A table of cases: columns that name one, the scenario only where there are several, and others.
fn case_table(caption: &str, compared: &[Compared], columns: &[(&str, Side)]) -> Table {
    let all = [("scenario", Left), ("case", Left), ("policy", Left)];
    let naming = &all[usize::from(compared.len() == 1)..];
    Table::new(caption, &[naming, columns].concat())
}

/// The cases that ran, with what names them in such a table.
fn cases(compared: &[Compared]) -> impl Iterator<Item = (Vec<String>, &Compared, &Ran)> {
    let known = usize::from(compared.len() == 1);
    compared.iter().flat_map(move |one| {
        one.ran().map(move |(result, ran)| {
            let all = [&one.scenario, &result.label, &result.policy];
            (all[known..].iter().map(|name| (*name).clone()).collect(), one, ran)
        })
    })
}

fn ms(span: Span) -> String {
    format!("{:.3}", span.as_ms())
}

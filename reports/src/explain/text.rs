//! What `tiersim explain` prints: the findings, then the tables that they rest on.
//!
//! Every table is sorted by time, says its unit in its head, and is cut to what a screen shows;
//! the rest is in `explain.json`.
//! Invariant: nothing of a name reaches the terminal uncleaned.

use super::findings::{mean, mean_bytes, sentences, signed};
use super::json::cause_name;
use super::judged;
use crate::split::{part_name, spoken};
use crate::text_table::{Detail, Side, paragraph, text_table};
use crate::units::time;
use crate::words::{clean, count, elide, number, percent, short_fingerprint};
use tiersim_models::results::PathPart;
use tiersim_models::results::explain::{CauseSum, Explanation, Hot, PathSum, Spender};
use tiersim_models::units::Span;

/// Rows of a table.
const MOST_ROWS: usize = 10;
/// Characters of a name.
const NAME: usize = 28;

/// The findings and tables of an explanation; `version` is tiersim's own. Ends with a line break.
pub fn explain_text(of: &Explanation, version: &str) -> String {
    let width = Detail::Narrow.width();
    let (record, path) = (&of.record, &of.path);
    let mut out = String::new();
    let steps = match path.steps {
        1 => "its last step".to_owned(),
        steps => format!("its last {steps} steps, mean of these"),
    };
    let head = format!(
        "{}, case {}: {steps}, {} long",
        clean(&record.scenario),
        elide(&of.case().label, 60),
        time(path.mean_step().ps() as f64)
    );
    paragraph(&mut out, "", "", &head, width);
    out += "\nfindings\n";
    for (index, sentence) in sentences(of).iter().enumerate() {
        paragraph(&mut out, &format!("{:>3}. ", index + 1), "     ", sentence, width);
    }
    out += &causes(of);
    out += &phases(of);
    out += &lanes(of);
    out += &objects(of);
    out += &ops(of);
    out += &gap(of);
    out += &worths(of);
    out += &elasticities(of);
    let base = record.base();
    let foot = format!(
        "{} · tiersim {version} · seed {} · hardware {} · workload {}",
        short_fingerprint(&record.fingerprint),
        base.seed,
        clean(&base.hardware),
        clean(&base.workload)
    );
    out.push('\n');
    paragraph(&mut out, "", "", &foot, width);
    out
}

/// A table under a heading; nothing without rows.
fn table(heading: &str, head: &[&str], words: usize, rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let left = rows.len().saturating_sub(MOST_ROWS);
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    let all: Vec<Vec<String>> =
        std::iter::once(head).chain(rows.into_iter().take(MOST_ROWS)).collect();
    let columns = all[0].len();
    let mut sides = vec![Side::Left; words];
    sides.resize(columns, Side::Right);
    let more = if left > 0 { format!("  and {left} more, see explain.json\n") } else { "".into() };
    format!("\n{heading}\n{}{more}", text_table(2, &sides, &all))
}

fn share(of: &Explanation, span: Span) -> String {
    percent(of.path.share(span))
}

fn causes(of: &Explanation) -> String {
    let row = |found: &CauseSum| {
        let beside = |span: Span| if span.ps() > 0 { mean(of, span) } else { String::new() };
        let name = elide(&cause_name(of, found.cause), NAME);
        let (setup, queued) = (beside(found.setup), beside(found.queued));
        vec![name, mean(of, found.span), share(of, found.span), setup, queued]
    };
    let rows = of.path.causes().iter().map(row).collect();
    table(
        "where the step goes along its critical path (adds up to it)",
        &["cause", "time", "share", "set-ups", "in line"],
        1,
        rows,
    )
}

fn phases(of: &Explanation) -> String {
    let path = &of.path;
    let rows = path.grouped(path.sums.iter().map(|sum| (sum.phase, sum)));
    let rows = rows.into_iter().map(|(phase, hot)| {
        let own = path.sums.iter().filter(|sum| sum.phase == phase);
        let parts = path.grouped(own.map(|sum| (part_name(of.on(), sum.part), sum)));
        let most = parts.first().map_or(String::new(), |(name, most)| {
            format!("{} {}", elide(&spoken(name), NAME), mean(of, most.span))
        });
        vec![phase.word().to_owned(), most, mean(of, hot.span), share(of, hot.span)]
    });
    table("by phase", &["phase", "the most of it", "time", "share"], 2, rows.collect())
}

fn lanes(of: &Explanation) -> String {
    let names = of.on().channel_names();
    let lanes = of.path.lanes.iter().filter(|lane| lane.channel < names.len());
    let rows = lanes.map(|lane| {
        vec![
            elide(&names[lane.channel], NAME),
            lane.phase.word().to_owned(),
            mean(of, lane.busy),
            mean(of, lane.exposed),
            mean(of, lane.overlapped),
            mean(of, lane.queued),
        ]
    });
    table(
        "channels: busy, of that waited for (exposed) and beside other work (overlapped)",
        &["channel", "phase", "busy", "exposed", "overlapped", "in line"],
        2,
        rows.collect(),
    )
}

/// Sums of copies and use in place, with their object.
fn of_objects(of: &Explanation) -> impl Iterator<Item = (usize, &PathSum)> {
    of.path.sums.iter().filter_map(|sum| match sum.by {
        Spender::Object(object) => Some((object, sum)),
        _ => None,
    })
}

fn objects(of: &Explanation) -> String {
    let path = &of.path;
    let cost = |hot: &Hot| {
        let count = hot.count as f64 / path.steps.max(1) as f64;
        [mean(of, hot.span), share(of, hot.span), mean_bytes(of, hot.bytes), number(count)]
    };
    let row = |names: Vec<String>, hot: &Hot| names.into_iter().chain(cost(hot)).collect();
    // A copy costs on a channel what it crosses and what others stand in line for it.
    let part = |sum: &PathSum| match sum.part {
        PathPart::Queue(channel) => spoken_short(of, PathPart::Copy(channel)),
        part => spoken_short(of, part),
    };
    let single = path.grouped(of_objects(of).map(|(object, sum)| ((object, part(sum)), sum)));
    let single = single.iter().map(|((object, part), hot)| {
        row(vec![elide(&path.objects[*object].name, NAME), part.clone()], hot)
    });
    let kinds = path.grouped(
        of_objects(of).map(|(object, sum)| ((path.objects[object].kind.word(), part(sum)), sum)),
    );
    let kinds =
        kinds.iter().map(|((kind, part), hot)| row(vec![(*kind).to_owned(), part.clone()], hot));
    let modules = path.grouped(
        of_objects(of)
            .map(|(object, sum)| ((path.objects[object].module.as_str(), part(sum)), sum)),
    );
    let modules = modules.iter().filter(|((module, _), _)| !module.is_empty());
    let modules =
        modules.map(|((module, part), hot)| row(vec![elide(module, NAME), part.clone()], hot));
    let head = |what| [what, "on", "time", "share", "bytes", "count"];
    let single: Vec<Vec<String>> = single.collect();
    let (kinds, modules): (Vec<_>, Vec<_>) = (kinds.collect(), modules.collect());
    table(
        "objects: waiting for their copies, or in line behind them; use in place",
        &head("object"),
        2,
        single,
    ) + &table("the same by kind", &head("kind"), 2, kinds)
        + &table("the same by module", &head("module"), 2, modules)
}

fn spoken_short(of: &Explanation, part: PathPart) -> String {
    elide(&spoken(&part_name(of.on(), part)), 20)
}

fn ops(of: &Explanation) -> String {
    let path = &of.path;
    let own = path.sums.iter().filter_map(|sum| match sum.by {
        Spender::Op(op) => Some(((path.ops[op].name.as_str(), part_name(of.on(), sum.part)), sum)),
        _ => None,
    });
    let rows = path.grouped(own).into_iter().map(|((name, part), hot)| {
        let count = hot.count as f64 / path.steps.max(1) as f64;
        let (name, part) = (elide(name, NAME), elide(&spoken(&part), 20));
        vec![name, part, mean(of, hot.span), share(of, hot.span), number(count)]
    });
    table("ops on the path", &["op", "part", "time", "share", "count"], 2, rows.collect())
}

fn gap(of: &Explanation) -> String {
    let gap = &of.gap;
    let total = gap.total();
    let share = |ps: i128| match of.is_at_bound() {
        true => "-".to_owned(),
        false => percent(ps as f64 / (total as f64).abs().max(1.0)),
    };
    let beyond = format!("{}, beyond the bound", elide(&gap.by, NAME));
    let mut rows: Vec<(i128, Vec<String>)> =
        vec![(gap.beyond, vec![beyond, signed(of, gap.beyond), share(gap.beyond)])];
    rows.extend(gap.others.iter().map(|(part, span)| {
        let ps = i128::from(span.ps());
        let name = elide(&spoken(&part_name(of.on(), *part)), NAME);
        (ps, vec![name, signed(of, ps), share(ps)])
    }));
    rows.sort_by_key(|row| std::cmp::Reverse(row.0));
    let heading = format!(
        "gap to the bound: {} of {} (adds up to it)",
        signed(of, total),
        mean(of, of.path.span)
    );
    table(
        &heading,
        &["cause", "time", "of the gap"],
        1,
        rows.into_iter().map(|row| row.1).collect(),
    )
}

/// What more of the machine would take off the bound.
fn worths(of: &Explanation) -> String {
    let some = of.gap.worths.iter().filter(|(_, elasticity)| elasticity.abs() >= 5e-4);
    let rows = some.map(|(of, elasticity)| vec![clean(of), format!("{elasticity:.3}")]);
    let heading = "per cent of the bound per per cent of what the machine has, by its prices";
    table(heading, &["of", "%/%"], 1, rows.collect())
}

fn elasticities(of: &Explanation) -> String {
    let step = of.judged();
    // A difference of less than is printed is none.
    let (shown, none): (Vec<_>, Vec<_>) =
        of.elasticities.iter().partition(|found| found.of(step).abs() >= 5e-5);
    let rows = shown.iter().map(|found| {
        let [below, above] = found.steps.map(|step| time(step.ps() as f64));
        let value = elide(&found.value, 16);
        vec![elide(&found.path, 34), value, format!("{:.3}", found.of(step)), below, above]
    });
    let heading = format!(
        "per cent of {} per per cent of a number (re-runs at +-{} %)",
        judged(of, "step time"),
        number(of.change * 100.0)
    );
    let mut out = table(&heading, &["number", "value", "%/%", "below", "above"], 2, rows.collect());
    if !none.is_empty() {
        let count = none.len();
        out += &format!("  {count} numbers make no difference: less than 0.00005 % per %\n");
    }
    if !of.unchanged.is_empty() {
        let count = count(of.unchanged.len(), "number", "numbers");
        let paths: Vec<String> =
            of.unchanged.iter().take(4).map(|(path, _)| elide(path, 40)).collect();
        let rest = if of.unchanged.len() > paths.len() { ", ..." } else { "" };
        let paths = paths.join(", ");
        out += &format!("  {count} could not be changed, see explain.json: {paths}{rest}\n");
    }
    out
}

//! Findings: one sentence each, with the numbers or the run that show it, what costs most first.
//!
//! A cause that is a channel is told by what most of it is: bytes, set-ups, or standing in line.
//! Sentences about other numbers of the machine come from runs with exactly these numbers.
//! Invariant: the first sentence is about the cause with the most time of the path, and causes are
//! in the order of their time.

use super::judged;
use crate::split::{part_name, spoken};
use crate::units::time;
use crate::words::{clean, elide, number, percent};
use tiersim_models::results::explain::{Cause, CauseSum, Elasticity, Explanation, Hot};
use tiersim_models::units::{Bytes, Span};

/// A cause of less of the step than this is not worth a sentence.
const LEAST: f64 = 0.01;
/// Causes with a sentence.
const MOST_CAUSES: usize = 6;
/// An object or op that has less of a cause than this is not named.
const HOT: f64 = 0.05;
/// Answers to single numbers with a sentence.
const MOST_ANSWERS: usize = 3;
/// A number that a step answers to less than this has no sentence: per cent per per cent.
const ANSWERS: f64 = 0.01;
/// What 1 % more does may differ by this share, and by half of what is printed, from half of what
/// lies between 1 % less and 1 % more.
const EVEN: f64 = 0.05;
const PRINTED: f64 = 0.005;
/// A step that is no shorter than by this share is said not to be shorter.
const NOTHING: f64 = 0.001;

/// All findings of an explanation.
pub fn sentences(of: &Explanation) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for found in of.path.causes().into_iter().take(MOST_CAUSES) {
        if all.is_empty() || of.path.share(found.span) >= LEAST {
            all.push(cause(of, &found));
        }
    }
    all.push(gap(of));
    all.extend(overlap(of));
    let step = of.judged();
    let answers = of.elasticities.iter().filter(|found| found.of(step).abs() >= ANSWERS);
    all.extend(answers.take(MOST_ANSWERS).map(|found| answer(of, found)));
    all.extend(memory(of));
    all
}

/// A time per step.
pub(super) fn mean(of: &Explanation, span: Span) -> String {
    time(span.ps() as f64 / of.path.steps.max(1) as f64)
}

/// Bytes per step.
pub(super) fn mean_bytes(of: &Explanation, bytes: u128) -> String {
    let mean = bytes / u128::from(of.path.steps.max(1));
    Bytes::new(u64::try_from(mean).unwrap_or(u64::MAX)).to_string()
}

/// How many per step, such as `3 copies`.
fn mean_count(of: &Explanation, count: u64, (one, many): (&str, &str)) -> String {
    let mean = count as f64 / of.path.steps.max(1) as f64;
    format!("{} {}", number(mean), if mean == 1.0 { one } else { many })
}

const OPS: Units = ("op", "ops");
const COPIES: Units = ("copy", "copies");

/// What one is called, and several.
type Units = (&'static str, &'static str);

/// A cause as the subject of a sentence, in the plural or not, and what its units are called.
fn subject(of: &Explanation, found: &CauseSum) -> (String, Units) {
    let channel = |channel: usize| clean(&of.on().channel_names()[channel]);
    let tier = |tier: usize| clean(of.on().tier_name(tier));
    match found.cause {
        Cause::Compute => ("Computing is".to_owned(), OPS),
        Cause::Recompute => ("Computing again what had been dropped is".to_owned(), OPS),
        Cause::Cpu => ("Ops on the CPU are".to_owned(), OPS),
        Cause::Launch => ("Launches of ops are".to_owned(), OPS),
        Cause::Collective => ("Collectives are".to_owned(), OPS),
        Cause::Channel(number) => {
            let most = match () {
                () if found.setup.ps() * 2 > found.span.ps() => ", most of it set-ups,",
                () if found.queued.ps() * 2 > found.span.ps() => ", most of it in line,",
                () => "",
            };
            (format!("Copies {}{most} are", channel(number)), COPIES)
        }
        Cause::InPlace(number) => (format!("Use of {} in place is", tier(number)), ("use", "uses")),
        Cause::Allocator => ("Waiting for allocators is".to_owned(), OPS),
        Cause::Delay => ("Delays that the policy states, such as page faults, are".into(), OPS),
        Cause::Bubble => {
            let what = "pipeline bubbles, recorded waits for the host";
            (format!("Idle time that the trace has ({what}) is"), OPS)
        }
        Cause::Arrival => ("Waiting for requests to arrive is".to_owned(), OPS),
        Cause::Framework => {
            ("The framework's own work is".to_owned(), ("op or object", "ops and objects"))
        }
    }
}

fn cause(of: &Explanation, found: &CauseSum) -> String {
    let (subject, units) = subject(of, found);
    let span = found.span;
    let mut words = format!(
        "{subject} {} of the step ({} of {})",
        percent(of.path.share(span)),
        mean(of, span),
        time(of.path.mean_step().ps() as f64)
    );
    let phases: Vec<String> = found
        .phases
        .iter()
        .filter(|(_, own)| own.ps() as f64 >= HOT * span.ps() as f64)
        .map(|(phase, own)| format!("{} in {}", mean(of, *own), phase.word()))
        .collect();
    if !phases.is_empty() {
        words += &format!(": {}", phases.join(", "));
    }
    if let Cause::Channel(_) = found.cause {
        let count = mean_count(of, found.count, COPIES);
        words += &format!("; {count} waited for, {}", mean_bytes(of, found.bytes));
        if found.count > 0 {
            let each = Bytes::new((found.bytes / u128::from(found.count)) as u64);
            words += &format!(" ({each} each)");
        }
        words += &kinds_of_waiting(of, found);
    }
    words += &hottest(of, found, units);
    words + "."
}

/// What of a channel's time is set-up and bytes, and how much of both standing in line.
fn kinds_of_waiting(of: &Explanation, found: &CauseSum) -> String {
    let bytes = Span::from_ps(found.span.ps() - found.setup.ps());
    let kinds = format!("; set-ups {}, bytes {}", mean(of, found.setup), mean(of, bytes));
    if found.queued.ps() == 0 {
        return kinds;
    }
    format!("{kinds}, of both {} in line behind other copies", mean(of, found.queued))
}

fn hottest(of: &Explanation, found: &CauseSum, units: Units) -> String {
    let Some(Hot { name, span, bytes, count }) = found.hottest.first() else {
        return String::new();
    };
    let share = span.ps() as f64 / (found.span.ps() as f64).max(1.0);
    if share < HOT {
        return String::new();
    }
    let bytes = if *bytes > 0 { format!(", {}", mean_bytes(of, *bytes)) } else { String::new() };
    let words = match *count {
        // Its own copies were not waited for, but those that stood in line behind them.
        0 => format!("{} in line behind it", mean(of, *span)),
        count => format!("{} in {}{bytes}", mean(of, *span), mean_count(of, count, units)),
    };
    format!("; the most by {}: {} ({words})", elide(name, 60), percent(share))
}

/// A signed time per step.
pub(super) fn signed(of: &Explanation, ps: i128) -> String {
    let words = time(ps.unsigned_abs() as f64 / of.path.steps.max(1) as f64);
    if ps < 0 { format!("-{words}") } else { words }
}

fn gap(of: &Explanation) -> String {
    let total = of.gap.total();
    let bound = time(of.gap.bound.ps() as f64 / of.path.steps.max(1) as f64);
    let step = time(of.path.mean_step().ps() as f64);
    let by = clean(&of.gap.by);
    if of.is_at_bound() {
        return format!("The step of {step} is at its bound of {bound} ({by}).");
    }
    let name = |part| spoken(&part_name(of.on(), part));
    let others = of.gap.others.iter().take(3);
    let mut words: Vec<String> =
        others.map(|(part, span)| format!("{} {}", name(*part), mean(of, *span))).collect();
    if of.gap.beyond > 0 {
        words.push(format!("{by} beyond the bound {}", signed(of, of.gap.beyond)));
    }
    let covered = match of.gap.beyond {
        beyond if beyond < 0 => {
            format!("; {} of the bound itself runs beside these", signed(of, -beyond))
        }
        _ => String::new(),
    };
    format!(
        "{} lie between the step of {step} and the bound of {bound} ({by}): {}{covered}.",
        signed(of, total),
        words.join(", ")
    )
}

/// The channel that is busy the longest: how much of it is hidden.
fn overlap(of: &Explanation) -> Option<String> {
    let mut sums: Vec<(usize, [Span; 3])> = Vec::new();
    for lane in &of.path.lanes {
        let own = [lane.busy, lane.exposed, lane.overlapped];
        match sums.iter_mut().find(|(channel, _)| *channel == lane.channel) {
            Some((_, sums)) => sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own),
            None => sums.push((lane.channel, own)),
        }
    }
    sums.retain(|(channel, _)| *channel < of.on().channels.len());
    let most = sums.into_iter().rev().max_by_key(|(_, sums)| sums[0])?;
    let (channel, [busy, exposed, overlapped]) = most;
    Some(format!(
        "{} is busy for {} of the step ({}): the step waits for it for {}, and {} of its work is \
         beside something else.",
        clean(&of.on().channel_names()[channel]),
        percent(of.path.share(busy)),
        mean(of, busy),
        mean(of, exposed),
        mean(of, overlapped)
    ))
}

/// How the step, or the latency of requests, answers to a number, and what better values of it
/// bring.
fn answer(of: &Explanation, found: &Elasticity) -> String {
    if let Some(words) = unsteady(of, found) {
        return words;
    }
    let elasticity = found.of(of.judged());
    let mut words = if is_even(of, found) {
        let does = if elasticity < 0.0 { "shortens" } else { "lengthens" };
        format!(
            "1 % more of {} ({}) {does} the {} by {:.2} %",
            clean(&found.path),
            clean(&found.value),
            judged(of, "step"),
            elasticity.abs()
        )
    } else {
        both_ways(of, found)
    };
    for tried in of.tries.iter().filter(|tried| tried.path == found.path) {
        let less = if tried.factor < 1.0 { "less" } else { "more" };
        let per_cent = number((tried.factor - 1.0).abs() * 100.0);
        let (value, buys) = (clean(&tried.tried), buys(of, tried.step));
        words += &format!("; {per_cent} % {less} ({value}) {buys}");
    }
    words + "."
}

/// By which share the step is longer with the one value that was tried and with the other.
fn changes(of: &Explanation, found: &Elasticity) -> [f64; 2] {
    let step = (of.judged().ps() as f64).max(1.0);
    found.steps.map(|other| other.ps() as f64 / step - 1.0)
}

/// A share by which a step is longer, in words.
fn says(change: f64) -> String {
    match format!("{:.2}", change.abs() * 100.0) {
        none if none == "0.00" => "as long".to_owned(),
        size => format!("{size} % {}", if change < 0.0 { "shorter" } else { "longer" }),
    }
}

/// Whether what lies between a little less and a little more is what a little more does: not of
/// counts, of which there is no 1 % more, nor where the step answers to the one and not the other.
fn is_even(of: &Explanation, found: &Elasticity) -> bool {
    let [_, more] = changes(of, found);
    let (between, alone) = (found.of(of.judged()), more / found.above());
    let apart = (between - alone).abs();
    !found.is_of_a_count(of.change) && apart <= EVEN * between.abs() + PRINTED
}

/// What the step is with each of the values that were tried.
fn both_ways(of: &Explanation, found: &Elasticity) -> String {
    let [less, more] = changes(of, found);
    let [below, above] = [0, 1].map(|at| clean(&found.tried[at]));
    let fewer = match found.tried[0] == found.value {
        true => String::new(),
        false => format!(", with {below} {}", says(less)),
    };
    format!(
        "With {above} instead of {} as {} the {} is {}{fewer}",
        clean(&found.value),
        clean(&found.path),
        judged(of, "step"),
        says(more)
    )
}

/// What is said of a number both of whose neighbours change the step in one direction: their
/// difference over its change would be true of neither.
fn unsteady(of: &Explanation, found: &Elasticity) -> Option<String> {
    let [less, more] = changes(of, found);
    let one_way = less * more > 0.0 && less.abs().min(more.abs()) >= NOTHING;
    one_way.then(|| {
        format!(
            "The {} goes one way whichever way {} ({}) does: with {} it is {}, with {} {}.",
            judged(of, "step"),
            clean(&found.path),
            clean(&found.value),
            clean(&found.tried[0]),
            says(less),
            clean(&found.tried[1]),
            says(more)
        )
    })
}

/// How much shorter than what is compared, in words.
fn buys(of: &Explanation, step: Span) -> String {
    let (now, then) = (of.judged().ps() as f64, step.ps() as f64);
    let shorter = 1.0 - then / now.max(1.0);
    let change = format!("({} to {})", time(now), time(then));
    // What would be printed as nothing is nothing.
    if shorter.abs() < NOTHING {
        return format!("buys nothing {change}");
    }
    if shorter < 0.0 {
        return format!("costs {} {change}", percent(-shorter));
    }
    format!("buys {} {change}", percent(shorter))
}

/// What more HBM buys, and from where on nothing.
fn memory(of: &Explanation) -> Vec<String> {
    let fits: Vec<(Bytes, Span)> =
        of.memory.iter().filter_map(|tried| Some((tried.hbm, tried.step?))).collect();
    let Some(&(most, last)) = fits.last() else { return Vec::new() };
    let has = of.case().hbm_budget;
    let same = |step: Span| step.ps().abs_diff(last.ps()) as f64 <= NOTHING * last.ps() as f64;
    let enough = fits.iter().rev().take_while(|(_, step)| same(*step)).last();
    let (enough, step) = enough.copied().unwrap_or((most, last));
    if same(of.judged()) {
        return vec![format!(
            "More HBM for objects than {has} buys nothing: {most} of it make a {} of {}.",
            judged(of, "step"),
            time(last.ps() as f64)
        )];
    }
    let mut all = vec![format!(
        "{enough} of HBM for objects instead of {has} {}{}.",
        buys(of, step),
        if enough < most {
            format!("; more than that buys nothing, up to {most}")
        } else {
            String::new()
        }
    )];
    if let Some((first, step)) = fits.first().filter(|(first, _)| *first < enough) {
        all.insert(0, format!("{first} of HBM for objects instead of {has} {}.", buys(of, *step)));
    }
    all
}

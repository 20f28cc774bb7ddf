//! What `validate` prints for people.

use super::{Validation, spec};
use crate::words::{clean, percent};
use std::fmt::Write;
use tiersim_models::results::comparison::{
    CaseResult, Compared, Errors, Graded, InPlace, Ran, Row, Verdict, launch_us,
    overall as errors_of_all, overall_spread, submit_us,
};

/// One scenario and its cases, and the errors of all cases together.
pub(super) fn text(of: Validation) -> String {
    match of.compared {
        [only] => table(only, of.place) + &overall(of.compared),
        several => overall(several),
    }
}

/// A scenario and its cases.
fn table(one: &Compared, place: &str) -> String {
    let Compared { scenario, about, hardware, results, .. } = one;
    let mut text = format!(
        "{}: {}\npredicted for {} ({}), measured on {}\n",
        scenario,
        clean(about),
        hardware.name,
        spec::counted(hardware),
        place,
    );
    for result in results {
        let _ = writeln!(text, "\n{} ({})", clean(&result.label), result.policy);
        match &result.verdict {
            Verdict::DoesNotFit(why) => {
                let _ = writeln!(text, "  does not fit: {why}");
            }
            Verdict::Ran(ran) => case(&mut text, result, ran, one),
        }
    }
    text
}

/// Errors of all cases together.
fn overall(compared: &[Compared]) -> String {
    let cases = compared.iter().map(|one| one.ran().count()).sum::<usize>();
    if cases == 0 {
        return "\nno case fits: nothing was measured\n".to_owned();
    }
    let mut text = format!("\nall {cases} cases that fit\n");
    for graded in errors_of_all(compared) {
        error_line(&mut text, &graded);
    }
    let _ = match overall_spread(compared) {
        Some((middle, most)) => {
            let (middle, most) = (percent(middle), percent(most));
            writeln!(text, "  run-to-run spread of steps: median {middle}, max {most}")
        }
        None => writeln!(text, "  run-to-run spread of steps: not known from one run"),
    };
    text
}

fn case(text: &mut String, result: &CaseResult, ran: &Ran, of: &Compared) {
    let channels = &of.channels();
    let first = &ran.measured[0];
    let all = || ran.measured.iter().chain(&ran.real);
    let checks: u64 = all().map(|run| run.checks).sum();
    let wrong: u64 = all().map(|run| run.mismatches).sum();
    let agree = if result.failures().is_empty() { "agree" } else { "DO NOT AGREE" };
    let (ops, copies) = (first.decisions.ops, first.decisions.copies);
    let _ = writeln!(
        text,
        "  decisions, bytes per channel and contents {agree}: {} runs of {ops} ops and {copies} \
         copies, {wrong} of {checks} checks wrong",
        all().count()
    );
    for mode in ran.modes() {
        match mode {
            InPlace::None => {}
            InPlace::Emulated => text.push_str("  use in place emulated:\n"),
            InPlace::Real => text.push_str("  use in place for real:\n"),
        }
        for row in ran.rows(mode, channels) {
            let error = row.error();
            let Row { class, name, predicted, measured, spread } = row;
            let _ = writeln!(
                text,
                "  {:<14} predicted {:>11}  measured {:>11}  error {:>8}  spread {:>7}",
                format!("{class} {name}"),
                predicted.to_string(),
                measured.to_string(),
                percent(error),
                percent(spread)
            );
        }
        for graded in ran.errors(mode, channels) {
            error_line(text, &graded);
        }
    }
    let _ = writeln!(
        text,
        "  per command {:.1} us to submit, {:.1} us (median) from ready to running",
        submit_us(&ran.measured),
        launch_us(&ran.measured)
    );
    for (tier, &(made, wished)) in of.hardware.tiers.iter().zip(&first.slots) {
        if wished < made {
            let _ = writeln!(text, "  {}", unlocked(&tier.name, made, made - wished));
        }
    }
}

/// That the system did not give what was asked for.
pub(super) fn unlocked(tier: &str, made: u64, missing: u64) -> String {
    format!(
        "note: {missing} of {made} rooms of {tier} are not locked memory or unbuffered files: the \
         system did not allow it"
    )
}

fn error_line(text: &mut String, (what, errors): &Graded) {
    let Errors { count, median, p95, max } = *errors;
    let [median, p95, max] = [median, p95, max].map(percent);
    let _ = writeln!(text, "  error of {count} {what}: median {median}, p95 {p95}, max {max}");
}

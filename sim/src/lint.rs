//! What the result of a run says that hardware seldom does.
//!
//! Pure: warnings follow from the record alone, in the order of its cases.

use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::Capacity;
use tiersim_models::results::{CaseRecord, ChannelName, Figures, RunRecord, Settled, Steadiness};
use tiersim_models::statistics::Stated;
use tiersim_models::units::Span;

/// Of several cases so many are named.
const MOST_NAMED: usize = 8;
/// The word of statistics that nobody stated.
const MADE_UP: &str = Stated::MadeUp.word();

/// Every warning about what cases of a run did.
pub fn lint_results(record: &RunRecord) -> Vec<Warning> {
    let needless = |case: &CaseRecord| {
        needless_offload(&record.of(case).channels, &record.of(case).baseline, case)
    };
    let drifting = record.results.iter().filter_map(drifts);
    record.results.iter().filter_map(needless).chain(made_up(record)).chain(drifting).collect()
}

/// `steps-drift`: the warm-up ended at its limit, and the measured replays still differ.
fn drifts(case: &CaseRecord) -> Option<Warning> {
    unsteady(&case.label, &case.outcome.figures()?.steady)
}

fn unsteady(label: &str, steady: &Steadiness) -> Option<Warning> {
    // Replays may be alike and yet have copies made for them outside, as where steps come in turns.
    let by_copies = steady.unpaid.abs() > steady.drift.abs();
    let (share, of) = match by_copies {
        true => (steady.unpaid, "of their time is work of other replays"),
        false => (steady.drift, "from step to step"),
    };
    let turns = "; of steps that come in turns as many as a whole number of turns";
    (steady.settled == Settled::Drifts).then(|| Warning {
        rule: "steps-drift",
        place: format!("results.{label}"),
        found: format!("{:+.2} % {of}", 100.0 * share),
        reason: format!("after {} replays of warm-up steps are not yet alike", steady.warmup),
        remedy: format!(
            "raise `warmup`, or measure more replays: raise `repeat`{}",
            if by_copies { turns } else { "" }
        ),
    })
}

/// `made-up-statistics`: what ranks modules was chosen by nobody who knows them. Said once for all
/// cases.
fn made_up(record: &RunRecord) -> Option<Warning> {
    let cases = record.results.iter().filter(|case| case.statistics.as_deref() == Some(MADE_UP));
    let labels: Vec<String> = cases.map(|case| format!("{:?}", case.label)).collect();
    let more = labels.len().saturating_sub(MOST_NAMED);
    let named = labels.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    (!labels.is_empty()).then(|| Warning {
        rule: "made-up-statistics",
        place: "workload.statistics".to_owned(),
        found: if more > 0 { format!("{named} and {more} more") } else { named },
        reason: "these cases rank modules by statistics that the generator of the trace made up"
            .to_owned(),
        remedy: "give them with `statistics: csv(\"file.csv\")`, say `synthetic(seed)`, or take a \
                 recorded trace"
            .to_owned(),
    })
}

/// `offload-although-all-fits`: everything would have fitted, and yet bytes moved or were used
/// outside HBM. What the baseline moves too, as for collectives, is no offload.
fn needless_offload(
    channels: &[ChannelName],
    baseline: &Figures,
    case: &CaseRecord,
) -> Option<Warning> {
    let figures = case.outcome.figures()?;
    let across = |channel: usize| channels.get(channel).is_none_or(|channel| !channel.is_within());
    let anyway = |channel: usize| baseline.moved.get(channel).map_or(0, |bytes| bytes.get());
    let moved = figures.moved.iter().enumerate().filter(|(channel, _)| across(*channel));
    let moved = moved.map(|(channel, bytes)| bytes.get().saturating_sub(anyway(channel)));
    let moved: u128 = moved.map(u128::from).sum();
    let outside = figures.in_place.iter().skip(1).any(|&span| span > Span::ZERO);
    // What leaves for pressure leaves because a threshold lies below what would fit.
    let pressed = case.ran.pressure.as_ref().is_some_and(|pressure| pressure.log.evictions > 0);
    if !case.hbm_budget.holds(case.baseline_peak) || (moved == 0 && !outside) || pressed {
        return None;
    }
    let budget = match case.hbm_budget {
        Capacity::Unlimited => "HBM has no limit".to_owned(),
        Capacity::Limited(bytes) => format!("the case has {bytes} of HBM"),
    };
    Some(Warning {
        rule: "offload-although-all-fits",
        place: format!("results.{}", case.label),
        found: if moved > 0 { format!("{moved} bytes moved") } else { "use in place".to_owned() },
        reason: format!("all of it needs {} and {budget}", case.baseline_peak),
        remedy: "lower the case's `hbm`, or keep everything there".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tiersim_models::results::{CaseRan, Outcome};
    use tiersim_models::units::Bytes;
    use tiersim_policies::policy::Lookahead;

    #[test]
    fn replays_that_differ_say_in_what() {
        let of = |settled, drift, unpaid| {
            let (unpaid_lane, left_over) = (None, Span::ZERO);
            unsteady("a", &Steadiness { settled, warmup: 1, drift, unpaid, unpaid_lane, left_over })
        };
        assert!(of(Settled::Agree, 0.001, 0.0).is_none());
        let slower = of(Settled::Drifts, 0.25, -0.1).expect("it drifts");
        assert_eq!(slower.found, "+25.00 % from step to step");
        let turns = of(Settled::Drifts, 0.0, -0.4).expect("it drifts");
        assert_eq!(turns.found, "-40.00 % of their time is work of other replays");
        assert!(turns.remedy.contains("a whole number of turns"));
    }

    #[test]
    fn nothing_is_moved_where_all_fits() {
        let case = |peak, budget: u64, moved, outside| CaseRecord {
            label: "a".to_owned(),
            details: String::new(),
            params: Default::default(),
            conditions: 0,
            ran: Arc::new(CaseRan {
                runtime: Default::default(),
                packed: Vec::new(),
                policy: "lru".to_owned(),
                emulated: false,
                statistics: None,
                lookahead: Lookahead::Past,
                learned: false,
                hbm_budget: Bytes::new(budget).into(),
                baseline_step: Span::ZERO,
                baseline_peak: Bytes::new(peak),
                bound_step: Span::ZERO,
                bound_by: "critical path".to_owned(),
                outcome: Outcome::from(Figures {
                    moved: vec![Bytes::ZERO, Bytes::new(moved)],
                    in_place: vec![Span::from_ps(7), Span::from_ps(outside)],
                    ..Figures::default()
                }),
                placement: None,
                economics: Default::default(),
                hidden: Vec::new(),
                left_out: 0,
                long_run: None,
                pressure: None,
                hints: None,
            }),
        };
        let given = |moved: Vec<Bytes>, case: &CaseRecord| {
            let baseline = Figures { moved, ..Figures::default() };
            needless_offload(&[], &baseline, case).map(|warning| warning.rule)
        };
        let rule = |case: &CaseRecord| given(Vec::new(), case);
        assert_eq!(rule(&case(100, 100, 1, 0)), Some("offload-although-all-fits"));
        let mut unlimited = case(100, 1, 0, 1);
        unlimited.hbm_budget = Capacity::Unlimited;
        assert_eq!(rule(&unlimited), Some("offload-although-all-fits"));
        assert_eq!(rule(&case(101, 100, 1, 1)), None);
        assert_eq!(rule(&case(100, 100, 0, 0)), None);
        // Collectives are in the baseline too.
        let channels = |bytes| vec![Bytes::ZERO, Bytes::new(bytes)];
        assert_eq!(given(channels(5), &case(100, 100, 5, 0)), None);
        assert_eq!(given(channels(5), &case(100, 100, 6, 0)), Some("offload-although-all-fits"));
    }
}

//! Rows and errors of results written out by hand, against figures worked out by hand.

use super::*;

fn us(us: u64) -> Span {
    Span::from_us(us)
}

fn ran(change: impl Fn(&mut Measured)) -> Ran {
    let predicted = Measured {
        moved: vec![Bytes::new(8)],
        steps: vec![us(100), us(100)],
        ..Measured::default()
    };
    let mut real = Measured { steps: vec![us(110), us(80)], ..predicted.clone() };
    real.ops = vec![(Phase::Forward, us(10), us(12)), (Phase::Backward, us(20), us(20))];
    let copy = |channel, took| CopyTime { channel, predicted: us(40), measured: us(took) };
    real.copies = vec![copy(1, 50), copy(1, 40)];
    change(&mut real);
    Ran { predicted, measured: vec![real], real: Vec::new(), charged: Span::ZERO }
}

fn result(ran: Ran) -> CaseResult {
    let verdict = Verdict::Ran(Box::new(ran));
    CaseResult { label: "case".to_owned(), policy: "lru".to_owned(), verdict }
}

#[test]
fn other_decisions_or_bytes_fail_and_another_time_does_not() {
    let failures = |change: fn(&mut Measured)| result(ran(change)).failures().len();
    assert_eq!(failures(|_| {}), 0);
    assert_eq!(failures(|run| run.decisions.hash += 1), 1);
    assert_eq!(failures(|run| run.decisions.frees += 1), 1);
    assert_eq!(failures(|run| run.moved[0] += Bytes::new(1)), 1);
    assert_eq!(failures(|run| run.launch.push(us(1))), 0);
    assert_eq!(failures(|run| run.steps[0] = us(999)), 0);
    let mut real = ran(|_| {});
    real.real = vec![Measured { moved: vec![Bytes::new(9)], ..real.measured[0].clone() }];
    assert_eq!(result(real).failures().len(), 1, "runs with real use count too");
}

#[test]
fn rows_are_steps_then_ops_then_channels() {
    let channels = ["a->b", "b->a"].map(str::to_owned);
    let mut ran = ran(|_| {});
    let other = Measured { steps: vec![us(120), us(90)], ..ran.measured[0].clone() };
    let third = Measured { steps: vec![us(90), us(70)], ..ran.measured[0].clone() };
    ran.measured.extend([other, third]);
    let rows = ran.rows(InPlace::None, &channels);
    let of = |row: &Row| (row.class, row.name.clone(), row.predicted, row.measured);
    let wanted = [
        ("step", "0".to_owned(), us(100), us(110)),
        ("step", "1".to_owned(), us(100), us(80)),
        ("ops", "forward".to_owned(), us(10), us(12)),
        ("ops", "backward".to_owned(), us(20), us(20)),
        ("lane", "b->a".to_owned(), us(80), us(90)),
    ];
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), wanted);
    assert!((rows[0].spread - 30.0 / 110.0).abs() < 1e-12);
    assert!((rows[1].error() - 0.25).abs() < 1e-12);
    assert!(ran.rows(InPlace::Real, &channels).is_empty());
    let errors = ran.errors(InPlace::None, &channels);
    let of: Vec<(&str, usize)> = errors.iter().map(|(of, e)| (of.as_str(), e.count)).collect();
    let wanted = [("steps", 2), ("forward ops", 3), ("backward ops", 3), ("copies b->a", 6)];
    assert_eq!(of, wanted);
    assert!((errors[3].1.max - 0.2).abs() < 1e-12);
}

#[test]
fn real_use_in_place_is_graded_apart() {
    let mut ran = ran(|_| {});
    ran.charged = us(1);
    ran.real = vec![Measured { steps: vec![us(200), us(200)], ..ran.measured[0].clone() }];
    // What an op was to last comes from the laws, whatever the machine planned for real use.
    ran.real[0].ops[0].1 = us(3);
    let modes: Vec<InPlace> = ran.modes().collect();
    assert_eq!(modes, [InPlace::Emulated, InPlace::Real]);
    let rows = ran.rows(InPlace::Real, &[]);
    assert_eq!((rows[0].measured, rows[2].predicted), (us(200), us(10)));
    assert!((ran.errors(InPlace::Real, &[])[1].1.max - 2.0 / 12.0).abs() < 1e-12);
    let errors = ran.errors(InPlace::Real, &[]);
    assert!((errors[0].1.median - 0.5).abs() < 1e-12);
    assert!(ran.rows(InPlace::None, &[]).is_empty());
}

#[test]
fn errors_are_shares_of_the_measurement() {
    let us = Span::from_us;
    let pairs = [(us(11), us(10)), (us(8), us(10)), (us(10), us(10))];
    let errors = grade(pairs);
    assert_eq!(errors.count, 3);
    assert!((errors.median - 0.1).abs() < 1e-12 && (errors.max - 0.2).abs() < 1e-12);
    assert_eq!(errors.p95, errors.max);
    assert_eq!(grade([]), Errors::default());
}

#[test]
fn spread_is_of_the_median() {
    let us = Span::from_us;
    assert!((spread(&[us(9), us(10), us(12)]) - 0.3).abs() < 1e-12);
}

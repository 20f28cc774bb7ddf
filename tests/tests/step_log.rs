//! The lines of `--log steps` add up to the figures of the run, to the byte and the picosecond.

use tiersim_tests::files;
use tiersim_tests::prelude::*;

#[test]
fn lines_of_steps_add_up_to_the_figures_and_change_none() {
    let path = files::shipped("scenarios").into_iter().find(|path| path.ends_with(NAME));
    let scenario = files::scenario(&path.expect("it ships"), &[]);
    let logged = Options { log: true, extend: false, ..Options::default() };
    let record = files::record(&scenario, logged);
    let plain = files::record(&scenario, Options { extend: false, ..Options::default() });
    let mut stalled = 0;
    for (case, plain) in record.results.iter().zip(&plain.results) {
        let figures = case.outcome.figures().expect("every case runs");
        assert!(!figures.log.is_empty(), "{}", case.label);
        let measured = || figures.log.iter().filter(|line| line.measured);
        assert!(measured().map(|line| line.span).eq(figures.steps.iter()), "{}", case.label);
        let moved: Bytes = measured().map(|line| line.moved).sum();
        assert_eq!(moved, figures.moved.iter().copied().sum(), "{}", case.label);
        let stall = measured().map(|line| line.stall).sum::<Span>();
        assert_eq!(stall, figures.stall.iter().copied().sum(), "{}", case.label);
        stalled += u32::from(stall > Span::ZERO);
        let peak = figures.log.iter().map(|line| line.peak).max();
        assert_eq!(peak, Some(figures.peak[0]), "{}", case.label);
        assert!(figures.log.iter().all(|line| line.live <= line.peak), "{}", case.label);
        let without = Figures { log: Vec::new(), ..figures.clone() };
        assert_eq!(Some(&without), plain.outcome.figures(), "{}", case.label);
    }
    assert!(stalled >= 2, "some cases wait");
}

/// Demand paging with half of the memory and more.
const NAME: &str = "tiny-llama-lru.ron";

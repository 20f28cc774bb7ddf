//! Every picosecond of a step is accounted for, in every case of every shipped scenario.

mod by_hand;
mod timelines;

use tiersim_models::results::PathPart;
use tiersim_tests::files;
use tiersim_tests::prelude::*;

#[test]
fn steps_are_compute_plus_delays_plus_stalls_to_the_picosecond() {
    // No audit, which the checks of the project run over the same files in release.
    let options =
        Options { timeline: true, audit: false, bound_curve: false, ..Options::default() };
    let mut cases = 0;
    for path in ["scenarios", "scenarios/validation"].into_iter().flat_map(files::shipped) {
        let scenario = files::scenario(&path, &[]);
        let traces = files::traces(&scenario);
        let record = files::record(&scenario, options);
        let [slices, steps, samples] = timelines::shown(&record);
        assert!(slices > 0 && steps > 0 && samples > 0, "{}: an empty timeline", scenario.name);
        // Of several streams each has parts of its own, waiting for arrivals is nobody's, and what
        // devices do together takes its time on links.
        let ops = &traces.of(&scenario).trace.ops;
        let alone = |op: &Op| {
            op.stream == 0 && op.release.is_none() && !matches!(op.unit, Unit::Network(_))
        };
        let in_turn = ops.iter().all(alone);
        path_adds_up(
            &record.base().baseline,
            &format!("{}: baseline", scenario.name),
            scenario.workload.ranks,
        );
        for case in &record.results {
            let Some(figures) = case.outcome.figures() else { continue };
            let name = format!("{}: {}", scenario.name, case.label);
            path_adds_up(figures, &name, scenario.workload.ranks);
            let sum = |spans: &[Span]| spans.iter().copied().sum::<Span>();
            // What a framework adds is a stall where an op waits for the copy that it holds up.
            let framework = figures.split.iter().filter(|(part, _)| part.is_of_framework());
            let framework = framework.map(|(_, span)| span).sum::<Span>();
            let delays = figures.delay + figures.allocating + sum(&figures.in_place);
            let parts = figures.compute + delays + sum(&figures.stall);
            let steps = figures.steps.iter().sum::<Span>();
            if in_turn {
                let sums = parts..=parts + framework;
                assert!(sums.contains(&steps), "{name}: {steps}, {sums:?}");
            }
            // And nothing moves for free: a channel is busy for as long as its bytes take at least.
            for (channel, name) in record.base().channels.iter().enumerate() {
                // A channel within a tier has no law of a link.
                let Some(between) = scenario.hardware.channels().nth(channel) else { continue };
                let law = scenario.hardware.channel_law(between);
                let least = law.rate.span_of(figures.moved[channel].get());
                assert!(figures.busy[channel] >= least, "{}: {}", case.label, name.ends);
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 499, "cases that ran");
}

/// The parts of the critical path are the measured steps, and none of them more than there was of
/// it.
fn path_adds_up(figures: &Figures, name: &str, ranks: u32) {
    let (parts, steps) = (u128::from(figures.split.total().ps()), figures.steps.total());
    assert_eq!(parts, steps, "{name}");
    let of = |is: &dyn Fn(&PathPart) -> bool| -> Span {
        figures.split.iter().filter(|(part, _)| is(part)).map(|(_, span)| span).sum()
    };
    let computed = of(&|part| {
        matches!(
            part,
            PathPart::Compute(_) | PathPart::Recompute | PathPart::Launch | PathPart::Bubble
        )
    });
    // Ops that began in the warm-up and ended behind it count whole in the sum, in part on the
    // path. A thousand hours of several devices are more than 64 bits count.
    let most = |sum: Span| u128::from(sum.ps()) * u128::from(ranks);
    let ps = |sum: Span| u128::from(sum.ps());
    assert!(ps(computed) <= most(figures.compute), "{name}: {computed} on the path");
    for (channel, &busy) in figures.busy.iter().enumerate() {
        let copied = of(&|part| *part == PathPart::Copy(channel));
        assert!(ps(copied) <= most(busy), "{name}: channel {channel}, {copied} of {busy}");
    }
    for (tier, &in_place) in figures.in_place.iter().enumerate() {
        let used = of(&|part| *part == PathPart::InPlace(tier));
        assert!(ps(used) <= most(in_place), "{name}: tier {tier}, {used} of {in_place}");
    }
}

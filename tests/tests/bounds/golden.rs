//! Where more is slower: a small case in which a fixed plan loses by getting a faster link.
//!
//! No mistake, but a known anomaly; only links that take whoever is ready have it.

use tiersim_tests::prelude::*;

/// Two places on the link, taken by whoever is ready: the write-back of E makes room for C. If it
/// is slow, B, which the next op needs, is ready before C and gets the second place. If it is
/// quick, C gets it, and the op waits until C has come. Source of the kind: R. L. Graham, "Bounds
/// on multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2), 1969.
#[test]
fn a_faster_link_ends_the_same_plan_later() {
    let end = |evict: u64| {
        let mut traced = Traced::new();
        let [a, b, c, e] = [500, 50, 400, 400].map(|bytes| traced.object(bytes, true));
        // Its room is B's as soon as the second op has ended.
        let scratch = traced.object(50, false);
        traced.op(0, 0, Span::ZERO, &[(scratch, Mode::Write)]);
        traced.op(0, 0, Span::ZERO, &[(scratch, Mode::Read)]);
        traced.op(0, 0, Span::ZERO, &[(b, Mode::Read)]);
        traced.op(0, 0, Span::ZERO, &[(a, Mode::Read), (c, Mode::Read)]);
        let mut hardware = two_tiers(Bytes::new(950), law(0, ONE));
        let link = &mut hardware.links[0];
        link.write.rate = Bandwidth::new(evict).expect("above zero");
        link.service = Some(Service { max_in_flight: NonZeroU32::new(2), ..Service::default() });
        let spans = [0, 100, 1000, 0].map(Span::from_ps).to_vec();
        let world = World::of(hardware, traced.0, spans);
        let evict = Action::Evict { object: e, from: HBM, to: FAR };
        let script = vec![vec![], vec![prefetch(a), evict, prefetch(c)], vec![prefetch(b)]];
        world.scripted(vec![FAR, FAR, FAR, HBM, HBM], script)[3]
    };
    // 400 bytes leave in 400 ps or in 50: B is ready after 100.
    assert_eq!(end(ONE), 1150);
    assert_eq!(end(8 * ONE), 1500);
}

//! Max-min shares against an independent implementation, bytes against sums, and the anomalies
//! that fair sharing is known for, as golden cases.

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use std::cmp::Ordering;
use tiersim_models::service::{Detail, Service};
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::{Remembered, State};
use tiersim_sim::fair_share::{FairShare, GRAINS};

/// An exact fraction, for an oracle without rounding.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    over: i128,
    under: i128,
}

impl Fraction {
    fn new(over: i128, under: i128) -> Fraction {
        let (mut a, mut b) = (over.abs(), under);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Fraction { over: over / a.max(1), under: under / a.max(1) }
    }

    fn minus(self, other: Fraction) -> Fraction {
        let over = self.over * other.under - other.over * self.under;
        Fraction::new(over, self.under * other.under)
    }

    fn below(self, other: Fraction) -> bool {
        (self.over * other.under).cmp(&(other.over * self.under)) == Ordering::Less
    }

    fn is(self, other: Fraction) -> bool {
        self.over * other.under == other.over * self.under
    }
}

/// A network: the rate of each resource, and the resources of each flow.
struct Network {
    rates: Vec<u64>,
    routes: Vec<Vec<usize>>,
}

impl Network {
    fn random(rng: &mut ChaCha12Rng) -> Network {
        let resources = rng.random_range(1..=6);
        let rates = (0..resources).map(|_| rng.random_range(1..=60)).collect();
        let route = |rng: &mut ChaCha12Rng| {
            let mut route: Vec<usize> = (0..resources).filter(|_| rng.random_bool(0.4)).collect();
            if route.is_empty() {
                route.push(rng.random_range(0..resources));
            }
            route
        };
        let routes = (0..rng.random_range(1..=8)).map(|_| route(rng)).collect();
        Network { rates, routes }
    }

    /// Rates of the flows by advertised rates: every resource advertises what it can give each
    /// flow if the flows that get less elsewhere keep to that, every flow takes the least that it
    /// is offered, and again until nothing changes.
    ///
    /// No order of filling, no freezing: it is how switches agree without a centre.
    /// Source: Charny, Clark, Jain, "Congestion control with explicit rate indication", ICC 1995.
    fn advertised(&self) -> Vec<Fraction> {
        let endless = Fraction::new(1 << 40, 1);
        let mut flows = vec![endless; self.routes.len()];
        loop {
            let offers: Vec<Fraction> =
                (0..self.rates.len()).map(|resource| self.offer(resource, &flows)).collect();
            let least = |route: &Vec<usize>| {
                let offered = route.iter().map(|&resource| offers[resource]);
                offered.reduce(|a, b| if b.below(a) { b } else { a }).expect("a route")
            };
            let next: Vec<Fraction> = self.routes.iter().map(least).collect();
            let same = next.iter().zip(&flows).all(|(a, b)| a.is(*b));
            flows = next;
            if same {
                return flows;
            }
        }
    }

    /// The largest share that a resource can give to all its flows that want as much.
    fn offer(&self, resource: usize, flows: &[Fraction]) -> Fraction {
        let crossing = self.routes.iter().zip(flows);
        let mut wants: Vec<Fraction> = crossing
            .filter(|(route, _)| route.contains(&resource))
            .map(|(_, &want)| want)
            .collect();
        wants.sort_by(|a, b| (a.over * b.under).cmp(&(b.over * a.under)));
        let mut left = Fraction::new(i128::from(self.rates[resource]), 1);
        for (index, &want) in wants.iter().enumerate() {
            let share = Fraction::new(left.over, left.under * (wants.len() - index) as i128);
            if share.below(want) {
                return share;
            }
            left = left.minus(want);
        }
        // Nobody wants more: what is left on top of the greediest.
        let most = wants.last().copied().unwrap_or(left);
        Fraction::new(most.over * left.under + left.over * most.under, most.under * left.under)
    }

    fn shares(&self) -> Vec<u128> {
        let rates = self.rates.iter().map(|&rate| Bandwidth::new(rate).expect("above zero"));
        let mut fair = FairShare::new(rates.collect());
        let classes: Vec<_> = self.routes.iter().map(|route| fair.class(route)).collect();
        for &class in &classes {
            fair.join(class, Bytes::new(1), (), Time::ZERO);
        }
        let rates: Vec<_> = fair.rates().collect();
        let rate = |class| rates.iter().find(|(known, _)| known == class).expect("active").1;
        classes.iter().map(rate).collect()
    }
}

#[test]
fn shares_equal_an_independent_water_filling_on_100_000_random_networks() {
    let mut rng = ChaCha12Rng::seed_from_u64(7);
    let mut several_levels = 0;
    for number in 0..100_000 {
        let network = Network::random(&mut rng);
        let (shares, expected) = (network.shares(), network.advertised());
        let mut levels: Vec<u128> = Vec::new();
        for (flow, (share, exact)) in shares.iter().zip(&expected).enumerate() {
            // Rounding down loses less than one grain per flow and resource.
            let grains = exact.over * i128::from(GRAINS);
            let off = *share as i128 * exact.under - grains;
            let most = exact.under * 8;
            assert!(off.abs() <= most, "network {number}, flow {flow}: {share} against {exact:?}");
            levels.push(share / 16);
        }
        levels.sort_unstable();
        levels.dedup();
        several_levels += usize::from(levels.len() > 2);
    }
    assert!(several_levels > 20_000, "only {several_levels} networks with three rates or more");
}

/// Rates with traffic of others, by raising one water level for all flows and stopping each where a
/// resource is full or it has what it asks for.
fn capped(network: &Network, asked: &[Option<u64>]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> = vec![None; network.routes.len()];
    while rates.iter().any(Option::is_none) {
        // How high the level may rise before a resource is full or a flow has what it asks for.
        let room = |resource: usize| {
            let crossing = || {
                let flows = network.routes.iter().zip(&rates);
                flows.filter(|(route, _)| route.contains(&resource)).map(|(_, rate)| *rate)
            };
            let used: f64 = crossing().flatten().sum();
            let open = crossing().filter(Option::is_none).count();
            (open > 0).then(|| (network.rates[resource] as f64 - used) / open as f64)
        };
        let rooms: Vec<Option<f64>> = (0..network.rates.len()).map(room).collect();
        let level = rooms.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let open = || (0..rates.len()).filter(|&flow| rates[flow].is_none());
        let least = open().filter_map(|flow| asked[flow]).min().map(|asked| asked as f64);
        let fixed: Vec<(usize, f64)> = match least.filter(|&least| least <= level) {
            Some(least) => {
                let has = |flow: &usize| asked[*flow].map(|asked| asked as f64) == Some(least);
                open().filter(has).map(|flow| (flow, least)).collect()
            }
            None => {
                let full = |resource: usize| rooms[resource].is_some_and(|r| r <= level + 1e-9);
                let stuck = |flow: &usize| network.routes[*flow].iter().any(|&r| full(r));
                open().filter(stuck).map(|flow| (flow, level)).collect()
            }
        };
        fixed.into_iter().for_each(|(flow, rate)| rates[flow] = Some(rate));
    }
    rates.into_iter().flatten().collect()
}

#[test]
fn others_take_their_fair_share_up_to_what_they_ask_for() {
    let mut rng = ChaCha12Rng::seed_from_u64(9);
    let (mut sated, mut held) = (0, 0);
    for number in 0..20_000 {
        let network = Network::random(&mut rng);
        let mut asked: Vec<Option<u64>> = Vec::new();
        for _ in &network.routes {
            asked.push(rng.random_bool(0.4).then(|| rng.random_range(1..=40)));
        }
        let rate = |&rate: &u64| Bandwidth::new(rate).expect("above zero");
        let mut fair: FairShare<usize> = FairShare::new(network.rates.iter().map(rate).collect());
        let mut classes = Vec::new();
        for (route, asked) in network.routes.iter().zip(&asked) {
            classes.push(match asked {
                Some(asked) => fair.stand(route, rate(asked)),
                None => fair.class(route),
            });
        }
        let plain = || (0..asked.len()).filter(|&flow| asked[flow].is_none());
        plain().for_each(|flow| fair.join(classes[flow], Bytes::new(9), flow, Time::ZERO));
        let rates: Vec<_> = fair.rates().collect();
        assert!(rates.is_sorted_by_key(|(class, _)| *class), "in the order of their numbers");
        for (flow, exact) in capped(&network, &asked).into_iter().enumerate() {
            let share = rates.iter().find(|(class, _)| *class == classes[flow]).expect("active").1;
            let share = share as f64 / f64::from(GRAINS);
            assert!((share - exact).abs() < 1e-4, "network {number}: {share} and {exact}");
            if let Some(asked) = asked[flow] {
                *(if exact == asked as f64 { &mut sated } else { &mut held }) += 1;
            }
        }
        // Only what comes to an end ends.
        let mut ended = Vec::new();
        while let Some(at) = fair.next_end() {
            fair.ended(at, &mut ended);
        }
        assert_eq!((ended.len(), fair.flows()), (plain().count(), 0));
    }
    assert!(sated > 5000 && held > 5000, "{sated} had what they asked for, {held} had not");
}

#[test]
fn no_resource_is_ever_filled_above_its_rate() {
    let mut rng = ChaCha12Rng::seed_from_u64(8);
    for number in 0..10_000 {
        let network = Network::random(&mut rng);
        let shares = network.shares();
        for (resource, &rate) in network.rates.iter().enumerate() {
            let crossing = network.routes.iter().zip(&shares);
            let crossing = crossing.filter(|(route, _)| route.contains(&resource));
            let sum: u128 = crossing.map(|(_, share)| share).sum();
            let full = u128::from(rate) * u128::from(GRAINS);
            assert!(sum <= full, "network {number}, resource {resource}: {sum} of {full}");
        }
    }
}

/// Runs flows of (start, bytes, resources) to their ends; ends by flow, in picoseconds.
fn ends(rates: &[u64], flows: &[(u64, u64, &[usize])]) -> Vec<u64> {
    let rates = rates.iter().map(|&rate| Bandwidth::new(rate).expect("above zero")).collect();
    let mut fair = FairShare::new(rates);
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&flow| flows[flow].0);
    let mut ends = vec![0; flows.len()];
    let mut to_come = order.into_iter().peekable();
    let mut gone = Vec::new();
    loop {
        let arrival = to_come.peek().map(|&flow| Time::from_ps(flows[flow].0));
        let end = fair.next_end();
        let Some(now) = end.into_iter().chain(arrival).min() else { return ends };
        fair.ended(now, &mut gone);
        gone.drain(..).for_each(|flow: usize| ends[flow] = now.ps());
        if arrival == Some(now) {
            let flow = to_come.next().expect("it was seen");
            let class = fair.class(flows[flow].2);
            fair.join(class, Bytes::new(flows[flow].1), flow, now);
        }
    }
}

/// A byte per picosecond.
const ONE: u64 = PS_PER_S;

#[test]
fn a_flow_alone_takes_bytes_over_rate_rounded_up() {
    for (rate, bytes) in [(3, 1), (7_000_000_000_001, 999_999_937), (ONE, 12_345), (ONE, 0)] {
        let exact = (u128::from(bytes) * u128::from(PS_PER_S)).div_ceil(u128::from(rate));
        assert_eq!(u128::from(ends(&[rate], &[(5, bytes, &[0])])[0]), exact + 5);
    }
}

#[test]
fn two_flows_share_and_the_last_has_all_to_itself() {
    // 0 to 10: A alone, 10 bytes. 10 to 30: both, 10 bytes each; B is through. A: 10 more alone.
    assert_eq!(ends(&[ONE], &[(0, 30, &[0]), (10, 10, &[0])]), [40, 30]);
    // A longer route gives no larger share.
    assert_eq!(ends(&[ONE, 3 * ONE], &[(0, 10, &[0]), (0, 10, &[0, 1])]), [20, 20]);
}

#[test]
fn both_directions_meet_in_the_total() {
    // 55 one way and 83 both ways, in bytes per ps: 41.5 each until the first is through.
    let (fetch, evict, total) = (55 * ONE, 55 * ONE, 83 * ONE);
    let rates = [fetch, evict, total];
    assert_eq!(ends(&rates, &[(0, 830, &[0, 2]), (0, 830, &[1, 2])]), [20, 20]);
    // One way alone does not feel the total.
    assert_eq!(ends(&rates, &[(0, 550, &[0, 2])]), [10]);
    // 20 ps together, 830 bytes each; then 275 bytes at 55.
    assert_eq!(ends(&rates, &[(0, 830, &[0, 2]), (0, 830 + 275, &[1, 2])]), [20, 25]);
}

/// Both directions together reach 20 where all goes one way and 30 at half and half, along a line.
/// Where fetches are held to 5 elsewhere, t = 20 + 20 * 5 / t, so t = 10 + sqrt(200).
#[test]
fn the_total_of_a_mix_is_that_of_what_is_sent() {
    const UNIT: f64 = 1e9;
    let rate = |units: u64| Bandwidth::new(units * UNIT as u64).expect("above zero");
    let mix = vec![(0, rate(20)), (50, rate(30)), (100, rate(20))];
    let service = Service { mix, ..Service::default() };
    let sent = |fetch: u64, evict: u64, flows: [usize; 2]| {
        let mut fair = FairShare::new(vec![rate(fetch), rate(evict), rate(30)]);
        fair.mix(2, [0, 1], &service);
        for channel in [0, 1] {
            let class = fair.class(&[channel, 2]);
            (0..flows[channel]).for_each(|_| fair.join(class, Bytes::mib(1), (), Time::ZERO));
        }
        let rates = fair.rates().map(|(_, rate)| rate as f64 / f64::from(GRAINS) / UNIT);
        rates.collect::<Vec<f64>>()
    };
    let total = 10.0 + 200f64.sqrt();
    for (rates, expected) in [
        (sent(40, 40, [1, 1]), [15.0, 15.0]),
        (sent(5, 40, [1, 1]), [5.0, total - 5.0]),
        (sent(40, 5, [1, 1]), [total - 5.0, 5.0]),
        // Three of four are fetched, which reach 25; and where each way is held to 5.
        (sent(40, 40, [3, 1]), [6.25, 6.25]),
        (sent(5, 40, [2, 1]), [2.5, total - 5.0]),
        (sent(40, 5, [1, 2]), [total - 5.0, 2.5]),
    ] {
        let near = rates.iter().zip(expected).all(|(rate, wanted)| (rate - wanted).abs() < 1e-5);
        assert!(near, "{rates:?}, not {expected:?}");
    }
}

#[test]
fn a_resource_reaches_what_so_many_flows_reach_together() {
    let rate = |units: u64| Bandwidth::new(units * ONE).expect("above zero");
    let detail = Detail { depths: vec![(1, rate(40)), (4, rate(100))], ..Detail::default() };
    for (flows, together) in [(1u64, 40), (2, 60), (4, 100), (5, 100)] {
        let mut fair = FairShare::new(vec![rate(100)]);
        fair.ramp(0, &detail);
        let class = fair.class(&[0]);
        (0..flows).for_each(|flow| fair.join(class, Bytes::mib(1), flow, Time::ZERO));
        let each = u128::from(together * ONE) * u128::from(GRAINS) / u128::from(flows);
        assert_eq!(fair.rates().collect::<Vec<_>>(), [(class, each)], "{flows} flows");
    }
}

#[test]
fn what_a_class_sends_is_what_all_its_flows_send() {
    let mut fair = FairShare::new(vec![Bandwidth::new(12 * ONE).expect("above zero")]);
    let rate = Bandwidth::new(3 * ONE).expect("above zero");
    let (flows, others) = (fair.class(&[0]), fair.stand(&[0], rate));
    (0..3).for_each(|flow| fair.join(flows, Bytes::mib(1), flow, Time::ZERO));
    // A quarter each: the one that stands asks for no more.
    assert_eq!(fair.sent_by_class().collect::<Vec<_>>(), [(flows, 9 * ONE), (others, 3 * ONE)]);
}

#[test]
fn flows_that_come_and_go_change_when_the_next_one_ends_until_that_is_asked() {
    let mut fair = FairShare::new(vec![Bandwidth::new(ONE).expect("above zero")]);
    let class = fair.class(&[0]);
    assert!(!fair.has_changed(), "nobody has come");
    fair.join(class, Bytes::new(5), (), Time::ZERO);
    fair.join(class, Bytes::new(9), (), Time::ZERO);
    assert!(fair.has_changed(), "two have come");
    let end = fair.next_end().expect("two are under way");
    assert!(!fair.has_changed(), "it was asked");
    fair.ended(Time::from_ps(end.ps() - 1), &mut Vec::new());
    assert!(!fair.has_changed(), "nobody has gone");
    fair.ended(end, &mut Vec::new());
    assert!(fair.has_changed(), "one has gone");
}

#[test]
fn what_is_under_way_has_left_what_has_not_gone() {
    let mut fair = FairShare::new(vec![Bandwidth::new(ONE / 2).expect("above zero")]);
    let class = fair.class(&[0]);
    fair.join(class, Bytes::new(10), 'a', Time::ZERO);
    let left = |fair: &FairShare<char>, at: u64| -> Vec<(char, u64)> {
        let under_way = fair.under_way(Time::from_ps(at));
        let mut left: Vec<_> = under_way.map(|(item, bytes)| (*item, bytes.get())).collect();
        left.sort_unstable();
        left
    };
    assert_eq!(left(&fair, 0), [('a', 10)], "as soon as it has come");
    assert!(fair.next_end().is_some(), "rates are worked out");
    // Half a byte counts as one.
    assert_eq!(left(&fair, 3), [('a', 9)]);
    fair.join(class, Bytes::new(4), 'b', Time::from_ps(4));
    assert!(fair.next_end().is_some(), "rates are worked out");
    assert_eq!(left(&fair, 8), [('a', 7), ('b', 3)]);
}

#[test]
#[should_panic(expected = "no time passes before rates are worked out")]
fn what_is_left_is_not_asked_for_before_rates_are_worked_out() {
    let mut fair = FairShare::new(vec![Bandwidth::new(ONE).expect("above zero")]);
    let class = fair.class(&[0]);
    fair.join(class, Bytes::new(10), (), Time::ZERO);
    let _ = fair.under_way(Time::from_ps(1)).count();
}

/// Two flows of so many bytes, the second 10 ps after the first; the state `at` ps after that.
fn state(start: u64, bytes: [u64; 2], items: [u64; 2], at: u64) -> Vec<u64> {
    let mut fair = FairShare::new(vec![Bandwidth::new(ONE).expect("above zero")]);
    let class = fair.class(&[0]);
    if start > 0 {
        // Who has been there before.
        fair.join(class, Bytes::new(start / 2), 9, Time::ZERO);
        fair.ended(Time::from_ps(start / 2), &mut Vec::new());
    }
    for (flow, bytes) in bytes.into_iter().enumerate() {
        let begins = Time::from_ps(start + 10 * flow as u64);
        fair.join(class, Bytes::new(bytes), items[flow], begins);
    }
    assert!(fair.next_end().is_some(), "they are under way");
    words(&fair, start + 10 + at)
}

fn words(fair: &FairShare<u64>, at: u64) -> Vec<u64> {
    let mut state = State::new(0);
    state.relative_to(Time::from_ps(at), Ticket(0));
    fair.state(&mut state);
    state.words().to_vec()
}

#[test]
fn the_state_is_that_of_what_is_left_and_of_nothing_else() {
    let one = state(0, [60, 30], [1, 2], 20);
    assert_eq!(state(500, [60, 30], [1, 2], 20), one, "whenever they come");
    assert_ne!(state(0, [60, 30], [1, 2], 21), one, "a picosecond later");
    assert_ne!(state(0, [61, 30], [1, 2], 20), one, "a byte more");
    assert_ne!(state(0, [60, 30], [1, 3], 20), one, "another item");
    let [first, second] = [[1, 2], [2, 1]].map(|items| state(0, [40, 30], items, 0));
    assert_ne!(first, second, "as much is left of both: which of them came first");
    let empty = FairShare::new(vec![Bandwidth::new(ONE).expect("above zero")]);
    assert_eq!(words(&empty, 7), words(&empty, 9), "where nobody is, time makes no difference");
}

#[test]
fn a_resource_works_at_its_full_rate_while_anybody_is_there() {
    // Whoever comes when, the last end of a busy period is its bytes over the rate: within one
    // picosecond per flow, that in which it ends.
    let mut rng = ChaCha12Rng::seed_from_u64(9);
    for number in 0..2000 {
        let flows = rng.random_range(1..40);
        let rate = rng.random_range(1..1_000) * 1_000_000_000;
        let drawn: Vec<(u64, u64, &[usize])> = (0..flows)
            .map(|_| (rng.random_range(0..1000), rng.random_range(10_000..1_000_000), &[0][..]))
            .collect();
        let last = *ends(&[rate], &drawn).iter().max().expect("a flow");
        let bytes: u64 = drawn.iter().map(|flow| flow.1).sum();
        let first = drawn.iter().map(|flow| flow.0).min().expect("a flow");
        let least = (u128::from(bytes) * u128::from(PS_PER_S)).div_ceil(u128::from(rate));
        let took = u128::from(last - first);
        // Grains lost to rounding: a part in 10^13 of the rate.
        let most = least + flows as u128 + least / 1_000_000_000;
        assert!((least..=most).contains(&took), "{number}: {took} of {least} to {most}");
    }
}

#[test]
fn flows_that_end_together_end_in_the_order_in_which_they_began() {
    let mut fair = FairShare::new(vec![Bandwidth::new(ONE).expect("above zero"); 2]);
    let (second, first) = (fair.class(&[1]), fair.class(&[0]));
    for (item, class) in [(0, first), (1, second), (2, first), (3, second)] {
        fair.join(class, Bytes::new(5), item, Time::ZERO);
    }
    assert_eq!((fair.next_end(), fair.flows()), (Some(Time::from_ps(10)), 4));
    let mut ended = Vec::new();
    fair.ended(Time::from_ps(9), &mut ended);
    assert!(ended.is_empty(), "not a picosecond early");
    fair.ended(Time::from_ps(10), &mut ended);
    assert_eq!((ended, fair.flows()), (vec![0, 1, 2, 3], 0));
    assert_eq!(fair.next_end(), None);
}

#[test]
fn anomaly_a_faster_link_can_delay_a_flow() {
    // B crosses both links and C only the second. On the slow first link A holds B back, and C has
    // most of the second; made faster, the first link lets B take half of the second from C.
    let flows: [(u64, u64, &[usize]); 3] = [(0, 90, &[0]), (0, 90, &[0, 1]), (0, 80, &[1])];
    let slow = ends(&[2 * ONE, 10 * ONE], &flows);
    let fast = ends(&[20 * ONE, 10 * ONE], &flows);
    // Slow: B gets 1 and C 9. Fast: B and C get 5 each.
    assert_eq!((slow[2], fast[2]), (9, 16));
    assert!(fast[0] < slow[0] && fast[1] < slow[1], "the others do gain");
}

#[test]
fn anomaly_less_work_can_delay_a_flow() {
    // As before, without A: B takes twice as much of the second link, and that from C.
    let all: [(u64, u64, &[usize]); 3] = [(0, 90, &[0]), (0, 90, &[0, 1]), (0, 720, &[1])];
    let with = ends(&[2 * ONE, 10 * ONE], &all);
    let without = ends(&[2 * ONE, 10 * ONE], &all[1..]);
    assert_eq!((with, without), (vec![90, 90, 80], vec![45, 81]));
}

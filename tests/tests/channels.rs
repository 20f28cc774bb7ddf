//! The links of the simulated machine as stations of queueing theory: c channels, a shared link,
//! and a tandem of three. A million copies each, fixed seeds, against closed formulas.
//!
//! Ops of stream 0 are the source: copy i may start when op i has ended. No planner takes part, so
//! nothing but the machine decides who waits for whom.

use tiersim_tests::prelude::*;

const CUSTOMERS: usize = 1_000_000;
/// Mean service of one channel: 1 us, as so many bytes at a byte per picosecond.
const SERVICE: f64 = 1e6;
/// Arrivals that may be submitted and not yet be ended: more than ever wait.
const AHEAD: usize = 20_000;

pub(crate) fn exponential(rng: &mut ChaCha12Rng, mean: f64) -> u64 {
    let uniform: f64 = 1.0 - rng.random::<f64>();
    (-uniform.ln() * mean).round() as u64
}

/// Mean time from arrival to the end of the last copy, in units of the mean service; each customer
/// is copied once over each link of a chain, `sizes` bytes by customer and link.
fn sojourn(machine: &Hardware, gaps: Vec<Span>, sizes: &[Vec<u64>]) -> f64 {
    let mut traced = Traced::new();
    traced.op(0, 0, Span::ZERO, &[]);
    let world = World::of(machine.clone(), traced.0, gaps);
    let mut sim = world.unplanned();
    let each = 1 + sizes.len();
    let mut arrivals = vec![Time::ZERO; CUSTOMERS];
    let (mut submitted, mut ended, mut total) = (0, 0, 0u128);
    while ended < CUSTOMERS {
        while submitted < CUSTOMERS && submitted < ended + AHEAD {
            let first = submitted * each;
            let op = computing(submitted as u64, 0, [], []);
            sim.submit(command(first, op, None)).expect("it takes an op");
            for (hop, sizes) in sizes.iter().enumerate() {
                let copy = Work::Copy {
                    object: ObjectId(0),
                    bytes: Bytes::new(sizes[submitted]),
                    from: TierId::at(hop + 1),
                    to: TierId::at(hop),
                };
                let copy = command(first + 1 + hop, copy, Some(first + hop));
                sim.submit(copy).expect("it takes a copy");
            }
            submitted += 1;
        }
        let (now, ticket) = sim.next().expect("no fault").expect("more is under way");
        let (customer, part) = (ticket.0 as usize / each, ticket.0 as usize % each);
        if part == 0 {
            arrivals[customer] = now;
        }
        if part == sizes.len() {
            total += u128::from(now.since(arrivals[customer]).ps());
            ended += 1;
        }
    }
    total as f64 / CUSTOMERS as f64 / SERVICE
}

/// A chain of `links` links of a byte per picosecond, each with this service.
fn chain(links: usize, service: Option<Service>) -> Hardware {
    let one = law(0, ONE);
    let kinds = [TierKind::Hbm, TierKind::Dram, TierKind::Cxl, TierKind::Nvme];
    let tiers: Vec<_> =
        kinds[..=links].iter().map(|&kind| (kind, Capacity::Unlimited, one)).collect();
    let joins: Vec<_> = (0..links).map(|near| (near, near + 1, one)).collect();
    let mut machine = hardware(&tiers, &joins);
    machine.links.iter_mut().for_each(|link| link.service = service.clone());
    machine
}

/// The mean of so many runs of a million customers with exponential gaps and services.
fn measured(machine: &Hardware, rate: f64, seed: u64, runs: u64) -> f64 {
    let one = |run: u64| {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        rng.set_stream(run);
        let gap = |_| Span::from_ps(exponential(&mut rng, SERVICE / rate));
        let gaps = (0..CUSTOMERS).map(gap).collect();
        let sizes: Vec<Vec<u64>> = (0..machine.links.len())
            .map(|_| (0..CUSTOMERS).map(|_| exponential(&mut rng, SERVICE)).collect())
            .collect();
        sojourn(machine, gaps, &sizes)
    };
    (0..runs).map(one).sum::<f64>() / runs as f64
}

fn assert_within(what: &str, measured: f64, theory: f64, per_cent: f64) {
    let error = 100.0 * (measured / theory - 1.0);
    eprintln!("{what}: {measured:.4}, theory {theory:.4}, off by {error:.2} %");
    assert!(error.abs() <= per_cent, "{what}: {measured:.4} against {theory:.4}: {error:.2} %");
}

/// Mean time in system of M/M/c in units of the mean service.
///
/// Source: Erlang's C formula; Kleinrock, "Queueing Systems I", 1975, section 3.5.
fn erlang_c(servers: u32, offered: f64) -> f64 {
    // Erlang B by its recursion, then C = B / (1 - rho (1 - B)).
    let blocked = (1..=servers).fold(1.0, |b, n| offered * b / (f64::from(n) + offered * b));
    let rho = offered / f64::from(servers);
    let waits = blocked / (1.0 - rho * (1.0 - blocked));
    1.0 + waits / (f64::from(servers) - offered)
}

#[test]
fn several_channels_follow_erlang_c() {
    assert!((erlang_c(1, 0.5) - 2.0).abs() < 1e-12, "M/M/1");
    for (channels, rho, per_cent) in [(2, 0.7, 1.5), (4, 0.7, 1.5), (16, 0.8, 1.5)] {
        let service = Service { max_in_flight: NonZeroU32::new(channels), ..Service::default() };
        let offered = rho * f64::from(channels);
        let measured = measured(&chain(1, Some(service)), offered, u64::from(channels), 1);
        let theory = erlang_c(channels, offered);
        assert_within(&format!("M/M/{channels} at {rho}"), measured, theory, per_cent);
    }
}

#[test]
fn a_shared_link_of_the_machine_is_a_processor_sharing_queue() {
    let shared = Service { discipline: Discipline::FairShare, ..Service::default() };
    let measured = measured(&chain(1, Some(shared)), 0.5, 21, 1);
    assert_within("shared link at 0.5", measured, 2.0, 1.5);
}

/// When the last of nine copies over a link of three channels ends: copy 9 comes after copy 1,
/// copies 5 to 8 after copy 4.
fn nine_copies(sizes: [u64; 9]) -> u64 {
    let mut traced = Traced::new();
    traced.op(0, 0, Span::ZERO, &[]);
    let three = Service { max_in_flight: NonZeroU32::new(3), ..Service::default() };
    let world = World::of(chain(1, Some(three)), traced.0, vec![Span::ZERO]);
    let mut sim = world.unplanned();
    let after = [None, None, None, None, Some(3), Some(3), Some(3), Some(3), Some(0)];
    for (ticket, (bytes, after)) in sizes.into_iter().zip(after).enumerate() {
        let (object, bytes) = (ObjectId(0), Bytes::new(bytes));
        let copy = Work::Copy { object, bytes, from: TierId(1), to: TierId(0) };
        sim.submit(command(ticket, copy, after)).expect("it takes a copy");
    }
    let ends = std::iter::from_fn(|| sim.next().expect("no fault"));
    ends.last().expect("nine copies end").0.ps()
}

/// Source: Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17(2), 1969;
/// his nine tasks, each made shorter here.
#[test]
fn anomaly_shorter_copies_on_several_channels_can_end_later() {
    assert_eq!(nine_copies([30, 20, 20, 20, 40, 40, 40, 40, 90]), 120);
    assert_eq!(nine_copies([21, 10, 10, 10, 30, 30, 30, 30, 80]), 130);
}

/// Jackson: stations in a row are as if independent, 1 / (mu - lambda) each.
///
/// Source: Jackson, "Networks of waiting lines", Operations Research 5(4), 1957.
#[test]
fn a_tandem_of_three_links_follows_jackson() {
    let measured = measured(&chain(3, None), 0.7, 31, 1);
    assert_within("three links at 0.7", measured, 3.0 / 0.3, 2.5);
}

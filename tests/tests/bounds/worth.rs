//! What more of a machine takes off the bound by linear program, and what links carry that are
//! shared with use in place.

use tiersim_policies::bound::{Direction, Fluid, Horizon, Question, Resource, fluid};
use tiersim_tests::prelude::*;

/// Bytes of an object, and how many there are.
const BYTES: u64 = 1_000_000;
const MANY: u64 = 40;
/// Bytes per second over the link, and in place.
const RATE: u64 = 50_000_000_000;

/// A machine whose tiers and links are scaled, in per cent, and how long an op takes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scaled {
    hbm: u64,
    inwards: u64,
    outwards: u64,
    in_place: u64,
    span: u64,
}

/// One of its numbers.
type Number = fn(&mut Scaled) -> &mut u64;

const PLAIN: Scaled =
    Scaled { hbm: 1000, inwards: 1000, outwards: 1000, in_place: 1000, span: 20_000_000 };

impl Scaled {
    /// HBM holds `objects` objects; numbers are thousandths of what they are.
    fn machine(self, objects: u64, service: Option<Service>) -> Hardware {
        let of = |rate: u64, scale: u64| law(0, rate / 1000 * scale);
        let hbm = Bytes::new(objects * BYTES / 1000 * self.hbm);
        let mut hardware = two_tiers(hbm, law(0, RATE));
        let link = &mut hardware.links[0];
        (link.read, link.write) = (of(RATE, self.inwards), of(RATE, self.outwards));
        link.service = service;
        hardware.tiers[1].access = of(RATE, self.in_place);
        hardware
    }

    /// What no policy beats with these uses, replayed without end.
    fn bound(self, traced: &Traced, hardware: &Hardware) -> Fluid {
        let workload = &Workload::new(traced.0.clone());
        let ops = workload.trace.ops.len() as u64;
        let duration = &|_| Span::from_ps(self.span);
        let memory = &hardware.memory();
        let question = Question { workload, hardware, memory, from: ops, to: 2 * ops, duration };
        fluid(&question, Horizon::Steady).expect("one stream, and too little memory")
    }
}

/// Objects that are read one after the other, over and over.
fn round() -> Traced {
    let mut traced = Traced::new();
    let all: Vec<ObjectId> = (0..MANY).map(|_| traced.object(BYTES, true)).collect();
    for object in all {
        traced.op(0, 0, Span::ZERO, &[(object, Mode::Read)]);
    }
    traced
}

/// A step that goes forward and back and changes what it has read; its results wait for their way
/// back.
fn step() -> Traced {
    let mut traced = Traced::new();
    let weights: Vec<ObjectId> = (0..MANY / 2).map(|_| traced.object(BYTES, true)).collect();
    let made: Vec<ObjectId> = weights.iter().map(|_| traced.object(BYTES, false)).collect();
    for (&weight, &made) in weights.iter().zip(&made) {
        traced.op(0, 0, Span::ZERO, &[(weight, Mode::Read), (made, Mode::Write)]);
    }
    for (&weight, &made) in weights.iter().zip(&made).rev() {
        traced.op(0, 0, Span::ZERO, &[(weight, Mode::ReadWrite), (made, Mode::Read)]);
    }
    traced
}

fn elasticity(found: &Fluid, resource: Resource) -> f64 {
    let own = found.worths.iter().find(|worth| worth.resource == resource);
    own.expect("one cut").elasticity
}

/// What does not stay must come once a round. Over a link that use in place shares that is all the
/// bytes over its rate, however they come; over one of its own they come twice as fast, half of
/// them each way.
#[test]
fn use_in_place_takes_its_part_of_a_shared_link() {
    let (traced, alone) = (round(), Scaled { span: 0, ..PLAIN });
    let away = (MANY - 10) * BYTES;
    let whole = away as f64 / RATE as f64 * 1e12;
    for (service, expected) in [(fair(None, None), whole), (None, whole / 2.0)] {
        let found = alone.bound(&traced, &alone.machine(10, service));
        let off = found.bound.ps as f64 / expected - 1.0;
        assert!((-0.06..1e-3).contains(&off), "{} ps, expected {expected}", found.bound.ps);
        // (B - M) / R: more memory takes off M / (B - M), a quicker link all that it carries.
        let memory = elasticity(&found, Resource::Memory(0));
        assert!((memory + 10.0 / 30.0).abs() < 0.04, "{found:?}");
        let inwards = elasticity(&found, Resource::Rate(0, Direction::In));
        let (least, most) = if expected == whole { (0.97, 1.01) } else { (0.45, 0.55) };
        assert!((least..most).contains(&-inwards), "{found:?}");
    }
}

/// The bound is homogeneous in times: what quicker ones are worth adds up to all of it.
#[test]
fn what_times_are_worth_adds_up_to_the_bound() {
    let traced = step();
    for (objects, total) in [(12, None), (20, None), (28, None), (20, Some(RATE * 3 / 2))] {
        for service in [None, fair(None, total)] {
            let found = PLAIN.bound(&traced, &PLAIN.machine(objects, service));
            let times = found.worths.iter().filter(|w| w.resource != Resource::Memory(0));
            let sum: f64 = times.map(|worth| worth.elasticity).sum();
            assert!((sum + 1.0).abs() < 1e-5, "{sum}: {found:?}");
            assert!(found.worths.iter().all(|worth| worth.elasticity < 1e-6), "{found:?}");
        }
    }
}

/// A thousandth more and less of each number moves the bound by what its price says.
#[test]
fn prices_are_what_the_bound_does_with_other_numbers() {
    let traced = step();
    let mut matter = 0;
    for objects in [12, 16, 20, 24, 28] {
        for service in [None, fair(None, None)] {
            let bound = |scaled: Scaled| {
                let hardware = scaled.machine(objects, service.clone());
                scaled.bound(&traced, &hardware)
            };
            let found = bound(PLAIN);
            let at = |scaled: Scaled| bound(scaled).bound.ps as f64 / found.bound.ps as f64;
            let numbers: [(Resource, Number); 4] = [
                (Resource::Memory(0), |scaled| &mut scaled.hbm),
                (Resource::Rate(0, Direction::In), |scaled| &mut scaled.inwards),
                (Resource::Rate(0, Direction::Out), |scaled| &mut scaled.outwards),
                (Resource::InPlace, |scaled| &mut scaled.in_place),
            ];
            for (resource, change) in numbers {
                let by = |step: i64| {
                    let mut scaled = PLAIN;
                    let own = change(&mut scaled);
                    *own = own.saturating_add_signed(step);
                    at(scaled)
                };
                let [below, above] = [-2, 2].map(by);
                // The bound is convex in each: the price lies between both slopes.
                let [left, right] = [(1.0 - below) * 500.0, (above - 1.0) * 500.0];
                let own = elasticity(&found, resource);
                let (least, most) = (left.min(right) - 0.02, left.max(right) + 0.02);
                assert!(
                    (least..most).contains(&own),
                    "{objects} {resource:?} {own}: {left} {right}"
                );
                matter += u32::from(own < -0.05);
            }
        }
    }
    assert!(matter > 10, "{matter} prices matter");
}

//! The simulated machine and the host's memory do the same work for the same plan.
//!
//! The bodies are in `tests/conformance`, where the command finds them too; here each of them is a
//! test on the host, under its own name.

use std::path::Path;
use tiersim_conformance::soak::soak;
use tiersim_conformance::{BYTES, Check, Counts, Site, TIME, cases, edges, failures, same};
use tiersim_tests::prelude::*;
use tiersim_validation::fault::Fault;
use tiersim_validation::real::Kind;

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs a body on the host.
fn holds(body: fn(&Site) -> Check<Counts>) {
    match body(&Site::new(Kind::Host, scratch())) {
        Ok(counts) => {
            println!("{counts}");
            // What a body says of a machine that cannot be asked.
            let unasked = |what: &str| ["worlds metered", "copies timed"].contains(&what);
            assert!(!counts.0.iter().any(|(what, _)| unasked(what)), "the host meters and times");
        }
        Err(found) => panic!("{found}"),
    }
}

macro_rules! tests {
    ($($room:ident::$name:ident,)*; $($metered:ident::$meter:ident,)*) => {
        $(#[test] fn $name() { holds($room::$name); })*
        $(#[test] fn $meter() { holds($metered::$meter); })*
    };
}

tiersim_conformance::bodies!(tests);

#[test]
fn how_links_serve_is_nothing_to_decisions_bytes_and_contents() {
    const WORLDS: u64 = 30;
    let site = Site::new(Kind::Host, scratch());
    let mut fit = 0;
    for seed in 0..WORLDS {
        let mut world = World::scaled(seed, BYTES, TIME);
        for link in &mut world.hardware.links {
            let total = Some(link.read.rate.max(link.write.rate));
            let discipline = Discipline::FairShare;
            link.service = Some(Service { discipline, total, ..Service::default() });
        }
        let ran = same::everywhere(&site, &world, &|| world.chaos(), |_| Ok(()));
        fit += u64::from(ran.expect("the same everywhere").is_some());
    }
    assert_eq!(fit, 12, "worlds that fit");
}

#[test]
fn a_soak_runs_worlds_with_and_without_delays() {
    // It runs a whole world even if it has no time at all.
    let counts = soak(&Site::new(Kind::Host, scratch()), Span::ZERO).expect("it holds");
    assert_eq!(counts.of("fit"), 1);
    assert!(counts.of("checks of contents") > 0);
}

#[test]
fn a_machine_that_is_not_there_is_said() {
    let found = Site::new(Kind::Cuda, scratch()).probe();
    // On a computer that has one, it must run.
    assert!(found.is_ok() || matches!(found, Err(Fault::NoDevice { .. })), "{found:?}");
}

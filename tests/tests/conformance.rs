//! The simulated machine and the host's memory do the same work for the same plan.
//!
//! The bodies are in `tests/conformance`, where the command finds them too; here each of them is a
//! test on the host, under its own name.

use std::path::Path;
use tiersim_conformance::soak::soak;
use tiersim_conformance::world::World;
use tiersim_conformance::{BODIES, BYTES, Check, Counts, Site, TIME, cases, edges, failures, same};
use tiersim_models::service::{Discipline, Service};
use tiersim_models::units::Span;
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
    ($($room:ident::$name:ident,)*) => {
        $(#[test] fn $name() { holds($room::$name); })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

tests![
    same::random_worlds_are_the_same_everywhere,
    cases::what_was_written_is_written_back_and_comes_back_new,
    cases::what_was_only_read_is_dropped_without_a_copy,
    cases::double_buffering_ends_in_order,
    cases::copies_over_several_links_arrive_whole,
    cases::use_in_place_moves_nothing_and_costs_its_delay,
    cases::without_emulation_nothing_is_added_to_an_op_and_contents_hold_in_place,
    edges::with_all_edges_the_same_delays_show_nothing,
    edges::contents_show_a_missing_arrival_edge,
    edges::contents_show_a_missing_last_use_edge,
    edges::contents_show_a_missing_write_back_edge,
    edges::meters_show_a_missing_room_edge,
    edges::times_of_copies_show_a_missing_turn_edge,
    failures::a_failed_allocation_is_a_clean_error_and_everything_is_given_back,
    failures::a_failed_copy_is_a_clean_error_and_everything_is_given_back,
];

#[test]
fn how_links_serve_is_nothing_to_decisions_bytes_and_contents() {
    const WORLDS: u64 = 30;
    let site = Site::new(Kind::Host, scratch());
    let mut fit = 0;
    for seed in 0..WORLDS {
        let mut world = World::scaled(seed, BYTES, TIME);
        for link in &mut world.hardware.links {
            let total = Some(link.fetch.rate.max(link.evict.rate));
            let discipline = Discipline::FairShare;
            link.service = Some(Service { discipline, total, ..Service::default() });
        }
        let ran = same::everywhere(&site, &world, &|| world.chaos(), |_| Ok(()));
        fit += u64::from(ran.expect("the same everywhere").is_some());
    }
    assert!(fit > WORLDS / 5, "only {fit} of {WORLDS} worlds fit");
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

#[test]
fn every_body_is_tested_here() {
    let names: Vec<&str> = BODIES.iter().map(|body| body.name).collect();
    assert_eq!(TESTED, names);
}

//! The simulated machine and the host's memory do the same work for the same plan.
//!
//! The bodies are in `tests/conformance`, where the command finds them too; here each of them is a
//! test on the host, under its own name.

use tiersim_conformance::soak::soak;
use tiersim_conformance::{BYTES, Check, Counts, Site, TIME, cases, edges, failures, same};
use tiersim_tests::prelude::*;
use tiersim_validation::fault::Fault;
use tiersim_validation::real::Kind;

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// What bodies count, but for those in which chance decides how many worlds show something.
const COUNTS: [(&str, &str); 12] = [
    ("a_failed_allocation_is_a_clean_error_and_everything_is_given_back", "9 failures"),
    ("a_failed_copy_is_a_clean_error_and_everything_is_given_back", "8 failures"),
    ("a_stated_delay_is_kept_on_every_machine", "2 machines"),
    ("copies_over_several_links_arrive_whole", "3 copies, 12 checks of contents"),
    ("double_buffering_ends_in_order", "8 copies, 32 checks of contents"),
    (
        "random_worlds_are_the_same_everywhere",
        "120 worlds, 59 fit, 3008 copies, 10154 checks of contents",
    ),
    ("use_in_place_moves_nothing_and_costs_its_delay", "0 copies, 2 checks of contents"),
    ("what_is_appended_is_all_that_is_written_back", "80 copies, 6280 checks of contents"),
    ("what_was_only_read_is_dropped_without_a_copy", "1 copies, 6 checks of contents"),
    ("what_was_written_is_written_back_and_comes_back_new", "2 copies, 10 checks of contents"),
    ("with_all_edges_the_same_delays_show_nothing", "120 worlds, 59 fit, 5077 checks of contents"),
    (
        "without_emulation_nothing_is_added_to_an_op_and_contents_hold_in_place",
        "4 machines, 8 checks of contents",
    ),
];

/// Runs a body on the host.
fn holds(name: &str, body: fn(&Site) -> Check<Counts>) {
    let counts = body(&Site::new(Kind::Host, scratch())).unwrap_or_else(|found| panic!("{found}"));
    if counts.of("show it") == 0 {
        let wanted = COUNTS.iter().find(|(body, _)| *body == name).map(|(_, counts)| *counts);
        assert_eq!(Some(counts.to_string().as_str()), wanted, "{name}");
    }
}

macro_rules! tests {
    ($($room:ident::$name:ident,)*; $($metered:ident::$meter:ident,)*) => {
        $(#[test] fn $name() { holds(stringify!($name), $room::$name); })*
        $(#[test] fn $meter() { holds(stringify!($meter), $metered::$meter); })*
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

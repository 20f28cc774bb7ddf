//! What every machine of real memory must satisfy, as functions that say what does not hold.
//!
//! A machine is right if, for the same plan, it does the same work as the simulator: same
//! decisions, same bytes, the right contents everywhere, and everything given back however it ends.
//! The bodies here run as tests on the host, and from the command (`tiersim conform`) on computers
//! that have the binary and nothing else, such as one with a GPU. They return words instead of
//! panicking, and take the kind of machine, so that no machine has a suite of its own that is
//! easier.
//! Invariant: a body draws everything from seeds; only the timing of the machine is left to chance.

pub mod build;
pub mod cases;
pub mod chaos;
pub mod edges;
pub mod failures;
pub mod prelude;
pub mod real;
pub mod same;
pub mod scripted;
pub mod soak;
pub mod world;

use std::fmt;
use std::path::{Path, PathBuf};
use tiersim_validation::fault::Fault;
use tiersim_validation::options::Options;
use tiersim_validation::real::Kind;

/// What holds, or words that say what does not.
pub type Check<T = ()> = Result<T, String>;

/// Where bodies run, and how much of it.
#[derive(Clone, Debug)]
pub struct Site {
    /// The machine.
    pub kind: Kind,
    /// Which device of it, counted from 0; a host has no choice.
    pub device: usize,
    /// Folder for tiers that are files.
    pub scratch: PathBuf,
    /// How many random worlds.
    pub worlds: u64,
    /// Seed of the first of them; the others follow.
    pub seed: u64,
}

/// What a body did, in numbers: (of what, how many).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub Vec<(&'static str, u64)>);

/// One body.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    /// Its name: what holds, with `_` between words.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&Site) -> Check<Counts>,
}

/// Hands every body, as `room::name,` one after the other, to another macro: so a test file has a
/// test for each of them, under its own name, and none can be forgotten. Behind the semicolon are
/// those for machines with a meter for each tier only.
#[macro_export]
macro_rules! bodies {
    ($then:ident) => {
        $then! {
            same::random_worlds_are_the_same_everywhere,
            cases::what_was_written_is_written_back_and_comes_back_new,
            cases::what_was_only_read_is_dropped_without_a_copy,
            cases::double_buffering_ends_in_order,
            cases::copies_over_several_links_arrive_whole,
            cases::what_is_appended_is_all_that_is_written_back,
            cases::use_in_place_moves_nothing_and_costs_its_delay,
            cases::a_stated_delay_is_kept_on_every_machine,
            cases::without_emulation_nothing_is_added_to_an_op_and_contents_hold_in_place,
            edges::with_all_edges_the_same_delays_show_nothing,
            edges::contents_show_a_missing_arrival_edge,
            edges::contents_show_a_missing_last_use_edge,
            edges::contents_show_a_missing_write_back_edge,
            edges::times_of_copies_show_a_missing_turn_edge,
            failures::a_failed_allocation_is_a_clean_error_and_everything_is_given_back,
            failures::a_failed_copy_is_a_clean_error_and_everything_is_given_back,
            ;
            edges::meters_show_a_missing_room_edge,
        }
    };
}

macro_rules! table {
    ($($room:ident::$name:ident,)*; $($metered:ident::$meter:ident,)*) => {
        &[$(Body { name: stringify!($name), run: $room::$name },)*
          $(Body { name: stringify!($meter), run: $metered::$meter },)*]
    };
}

/// Every body.
pub const BODIES: &[Body] = bodies!(table);

/// Random worlds of a body, unless told otherwise.
pub const WORLDS: u64 = 120;
/// What is said of shares of fewer worlds than this would be left to chance.
pub(crate) const LEAST: u64 = 60;
/// Random worlds are scaled to objects of 64 bytes to 64 KiB ...
pub const BYTES: u64 = 64;
/// ... and to ops of up to 20 us.
pub const TIME: u64 = 100_000;

impl Site {
    /// The usual amount on a machine.
    pub fn new(kind: Kind, scratch: &Path) -> Site {
        Site { kind, device: 0, scratch: scratch.to_owned(), worlds: WORLDS, seed: 0 }
    }

    /// Is the machine there? Makes a small one and runs it.
    pub fn probe(&self) -> Result<(), Fault> {
        let (world, make) = cases::smallest();
        let Some(planner) = real::planner(&world, &make) else { return Ok(()) };
        real::open(self.kind, &world, &planner, &self.options()).map(drop)
    }

    /// Everything is checked whole.
    pub fn options(&self) -> Options {
        Options { device: self.device, ..real::options(&self.scratch) }
    }

    /// Runs something in an empty folder of its own, which must be empty again after it.
    fn inside<T>(&self, name: &str, body: impl FnOnce(&Site) -> Check<T>) -> Check<T> {
        let folder = self.scratch.join(format!("{name}-{}", std::process::id()));
        let named = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(named)?;
        let done = body(&Site { scratch: folder.clone(), ..self.clone() })?;
        // Refused for a folder with something in it.
        std::fs::remove_dir(&folder).map_err(named)?;
        Ok(done)
    }

    /// Seeds of the random worlds.
    fn seeds(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..count).map(move |n| first.wrapping_add(n))
    }
}

impl Counts {
    /// The count of something; 0 if there is none.
    pub fn of(&self, what: &str) -> u64 {
        self.0.iter().find(|(name, _)| *name == what).map_or(0, |&(_, count)| count)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (what, count)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {what}")?;
        }
        Ok(())
    }
}

/// Says `words` unless `holds`.
pub fn ensure(holds: bool, words: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(words()) }
}

/// Says what was found and what should have been, unless they are equal.
pub fn equal<A, B>(found: &A, wanted: &B, what: &str) -> Check
where
    A: PartialEq<B> + fmt::Debug + ?Sized,
    B: fmt::Debug + ?Sized,
{
    ensure(found == wanted, || format!("{what}: found {found:?}, not {wanted:?}"))
}

//! Mutations: a plan without edges of one kind must show in the contents, or the contents show
//! nothing at all.

use crate::real::{careless, on_real};
use crate::same::enough;
use crate::world::World;
use crate::{BYTES, Check, Counts, LEAST, Site, TIME, ensure};
use tiersim_models::units::Span;
use tiersim_policies::command::Hazard;
use tiersim_validation::options::{Delay, Options};
use tiersim_validation::truth::{Found, Mismatch};

/// Every piece of work starts late by up to 150 us.
pub fn delayed(site: &Site, seed: u64) -> Options {
    Options { delay: Some(Delay { seed, most: Span::from_us(150) }), ..site.options() }
}

/// The control: with every edge in place, late work changes nothing.
pub fn with_all_edges_the_same_delays_show_nothing(site: &Site) -> Check<Counts> {
    let (mut fit, mut checks) = (0, 0);
    for seed in site.seeds(site.worlds) {
        let world = World::scaled(seed, BYTES, TIME);
        let options = delayed(site, seed);
        let ran = on_real(site.kind, &world, &|| world.chaos(), &options, Some(seed));
        if let Some(ran) = ran.map_err(|found| format!("world {seed}: {found}"))? {
            (fit, checks) = (fit + 1, checks + ran.checks);
        }
    }
    enough(fit, site.worlds)?;
    Ok(Counts(vec![("worlds", site.worlds), ("fit", fit), ("checks of contents", checks)]))
}

/// In how many worlds a wrong pattern shows that edges of one kind are missing. Room that is
/// missing does not count. One world in twenty must.
pub fn shown(site: &Site, without: Hazard) -> Check<Counts> {
    let worlds = (site.worlds * 10 / 3).max(LEAST);
    let mut shown = 0;
    for seed in site.seeds(worlds) {
        let world = World::scaled(seed, BYTES, TIME);
        let options = delayed(site, seed);
        let truth = careless(site.kind, &world, &|| world.chaos(), without, &options);
        let truth = truth.map_err(|found| format!("world {seed}: {found}"))?;
        let stale = |mismatch: &Mismatch| mismatch.found != Found::NoRoom;
        shown += u64::from(truth.is_some_and(|truth| truth.first.iter().any(stale)));
    }
    ensure(shown > worlds / 20, || {
        format!("only {shown} of {worlds} worlds show that edges are missing: contents say little")
    })?;
    Ok(Counts(vec![("worlds", worlds), ("show it", shown)]))
}

/// Data is used before it has arrived.
pub fn contents_show_a_missing_arrival_edge(site: &Site) -> Check<Counts> {
    shown(site, Hazard::Arrival)
}

/// Data is overwritten while it is in use.
pub fn contents_show_a_missing_last_use_edge(site: &Site) -> Check<Counts> {
    shown(site, Hazard::LastUse)
}

/// Data is fetched again before it was written back.
pub fn contents_show_a_missing_write_back_edge(site: &Site) -> Check<Counts> {
    shown(site, Hazard::WriteBack)
}

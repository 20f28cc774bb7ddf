//! Random worlds, ever new ones, until the time is over: for what shows once in a thousand runs.

use crate::edges::delayed;
use crate::failures::all_given_back;
use crate::same::{Ran, everywhere_with};
use crate::world::World;
use crate::{BYTES, Check, Counts, Site, TIME};
use tiersim_models::units::Span;
use tiersim_validation::clock::Clock;

/// Runs worlds from the site's seed on, each with and without late work, until `time` is over and
/// at least one has fitted. The world under way is finished.
pub fn soak(site: &Site, time: Span) -> Check<Counts> {
    let clock = Clock::start();
    let (mut worlds, mut fit, mut copies, mut checks) = (0u64, 0, 0, 0);
    loop {
        let seed = site.seed.wrapping_add(worlds);
        let runs = site.inside("soak", |site| one(site, seed));
        let runs = runs.map_err(|found| format!("world {seed}: {found}"))?;
        worlds += 1;
        fit += u64::from(!runs.is_empty());
        for ran in runs {
            (copies, checks) = (copies + ran.copies, checks + ran.checks);
        }
        if fit > 0 && clock.now().ps() >= time.ps() {
            let (copies, checks) = (("copies", copies), ("checks of contents", checks));
            return Ok(Counts(vec![("worlds", worlds), ("fit", fit), copies, checks]));
        }
    }
}

/// One world, as it is and late; nothing if it does not fit.
fn one(site: &Site, seed: u64) -> Check<Vec<Ran>> {
    let world = World::scaled(seed, BYTES, TIME);
    let make = || world.chaos();
    let mut runs = Vec::new();
    for options in [site.options(), delayed(site, seed)] {
        runs.extend(everywhere_with(site, &options, &world, &make, |_| Ok(()))?);
        all_given_back(&options.live, &site.scratch)?;
    }
    Ok(runs)
}

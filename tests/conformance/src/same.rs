//! One world on every machine, plain and with another legal timing: everything must be equal.

use crate::real::{Make, Outcome, on_real, on_sim};
use crate::world::World;
use crate::{BYTES, Check, Counts, LEAST, Site, TIME, ensure};
use tiersim_validation::options::Options;

/// What running a world everywhere came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Copies that the plan asked for.
    pub copies: u64,
    /// Checks of contents, all runs together.
    pub checks: u64,
}

/// Runs a world everywhere and gives every outcome to its check; `None` if it does not fit.
pub fn everywhere(
    site: &Site,
    world: &World,
    make: Make<'_>,
    check: impl Fn(&Outcome) -> Check,
) -> Check<Option<Ran>> {
    everywhere_with(site, &site.options(), world, make, check)
}

/// As [`everywhere`], with other options of the real machine.
pub fn everywhere_with(
    site: &Site,
    options: &Options,
    world: &World,
    make: Make<'_>,
    check: impl Fn(&Outcome) -> Check,
) -> Check<Option<Ran>> {
    let plain = on_sim(world, make, None).map_err(|found| format!("simulator: {found}"))?;
    let machine = site.kind.word();
    let mut ran = plain.as_ref().map(|plain| Ran { copies: plain.decisions.copies, checks: 0 });
    if let Some(plain) = &plain {
        check(plain).map_err(|found| format!("simulator: {found}"))?;
    }
    let real = |jitter| on_real(site.kind, world, make, options, jitter);
    let others: [(String, Check<Option<Outcome>>); 3] = [
        ("simulator, late".to_owned(), on_sim(world, make, Some(1))),
        (machine.to_owned(), real(None)),
        (format!("{machine}, late"), real(Some(2))),
    ];
    for (what, other) in others {
        let named = |found: String| format!("{what}: {found}");
        let other = other.map_err(named)?;
        match (&plain, &other) {
            (None, None) => {}
            (Some(plain), Some(other)) => {
                plain.same_as(other).and_then(|()| check(other)).map_err(named)?;
            }
            _ => return Err(named("it fits on one machine only".to_owned())),
        }
        if let (Some(ran), Some(other)) = (&mut ran, other) {
            ran.checks += other.checks;
        }
    }
    Ok(ran)
}

/// Plans that try everything do the same work on the simulator and on the machine, each also with
/// commands and ends held back at random.
pub fn random_worlds_are_the_same_everywhere(site: &Site) -> Check<Counts> {
    let (mut fit, mut copies, mut checks) = (0, 0, 0);
    for seed in site.seeds(site.worlds) {
        let world = World::scaled(seed, BYTES, TIME);
        let ran = everywhere(site, &world, &|| world.chaos(), |_| Ok(()));
        if let Some(ran) = ran.map_err(|found| format!("world {seed}: {found}"))? {
            (fit, copies, checks) = (fit + 1, copies + ran.copies, checks + ran.checks);
        }
    }
    enough(fit, site.worlds)?;
    let (worlds, fit) = (("worlds", site.worlds), ("fit", fit));
    Ok(Counts(vec![worlds, fit, ("copies", copies), ("checks of contents", checks)]))
}

/// Worlds that do not fit say nothing: about half do, and a fifth must where there are many.
pub(crate) fn enough(fit: u64, worlds: u64) -> Check {
    let least = if worlds < LEAST { 1 } else { worlds / 5 };
    ensure(fit >= least, || {
        format!(
            "only {fit} of {worlds} worlds fit, which says little: use other --worlds or --seed"
        )
    })
}

//! The numbers of a scenario's machines that are not known exactly, and the scenario with other
//! values of them.
//!
//! Every number with a spread or a range is an unknown. Numbers that were written in one place (the
//! same line of the same part) are the same unknown, on however many machines: a part that two
//! machines share cannot be fast in one and slow in the other. Values are a Latin hypercube over all
//! unknowns, and the scenario is read again with each row of it, so a draw obeys every rule that a
//! file would.
//! Invariant: unknowns and their values follow from the files, the number of draws and the seed.

use crate::hardware_file::changed::Drawn;
use crate::scenario::document::open;
use crate::scenario::files::Files;
use crate::scenario::sweep::{Asked, read_points};
use crate::text::ron_text::Document;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Fact, Uncertainty};
use tiersim_models::results::uncertainty::{DrawnNumber, Seen};
use tiersim_policies::scenario::Scenario;
use tiersim_policies::scenario::hypercube::{share, significant, strata};
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::zoo::Registry;

/// Fewest draws that have a band.
pub const LEAST_DRAWS: usize = 10;
/// Most draws of one run.
pub const MOST_DRAWS: usize = 10_000;
/// Significant digits of drawn values: finer than any number of a machine is known.
const DIGITS: usize = 9;

/// The unknowns of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Unknowns {
    /// With their values, in the order of the draws.
    pub numbers: Vec<DrawnNumber>,
    /// Assumed numbers that times rest on and that have neither spread nor range.
    pub blind: Vec<String>,
    /// Where each was written.
    origins: Vec<String>,
}

impl Unknowns {
    /// Those of these scenarios, with `draws` values each from `seed`. A number of several
    /// machines is called by the first that has it.
    pub fn of<'s>(
        scenarios: impl Iterator<Item = &'s Scenario> + Clone,
        draws: usize,
        seed: u64,
    ) -> Unknowns {
        let mut found: Vec<(Uncertainty, DrawnNumber)> = Vec::new();
        let mut blind: Vec<(String, String, &Fact)> = Vec::new();
        for scenario in scenarios {
            let machine = &scenario.hardware;
            for fact in machine.facts.iter().filter(|fact| fact.is_blind()) {
                let known = |(_, path, own): &(String, String, &Fact)| {
                    *path == fact.path && own.value == fact.value && own.source == fact.source
                };
                if !blind.iter().any(known) {
                    blind.push((machine.name.clone(), fact.path.clone(), fact));
                }
            }
            for fact in machine.facts.iter().chain(&machine.economics.facts) {
                let Some(of) = &fact.uncertainty else { continue };
                let seen = Seen { machine: machine.name.clone(), path: fact.path.clone() };
                match found.iter_mut().find(|(known, _)| known.origin == of.origin) {
                    Some((_, number)) if number.seen.contains(&seen) => {}
                    Some((_, number)) => number.seen.push(seen),
                    None => found.push((of.clone(), drawn_number(fact, of, seen))),
                }
            }
        }
        let names: Vec<String> = found.iter().map(|(_, of)| of.seen[0].path.clone()).collect();
        for (index, (of, number)) in found.iter_mut().enumerate() {
            let alone = names.iter().filter(|name| **name == names[index]).count() == 1;
            let Seen { machine, path } = &number.seen[0];
            number.name = if alone { path.clone() } else { format!("{path} on {machine}") };
            number.values = values(of, &number.name, draws, seed);
        }
        let named = |(machine, path, _): &(String, String, &Fact)| {
            // The same path of another machine may be drawn.
            let of_several = names.contains(path);
            let alone = blind.iter().filter(|(_, other, _)| other == path).count() == 1;
            if alone && !of_several { path.clone() } else { format!("{path} on {machine}") }
        };
        let mut blind: Vec<String> = blind.iter().map(named).collect();
        blind.dedup();
        let origins = found.iter().map(|(of, _)| of.origin.clone()).collect();
        Unknowns { numbers: found.into_iter().map(|(_, number)| number).collect(), blind, origins }
    }

    /// The values of a draw.
    fn drawn(&self, draw: usize) -> Drawn {
        let values = self.numbers.iter().map(|number| number.values[draw]);
        self.origins.iter().cloned().zip(values).collect()
    }
}

fn drawn_number(fact: &Fact, of: &Uncertainty, seen: Seen) -> DrawnNumber {
    DrawnNumber {
        name: String::new(),
        seen: vec![seen],
        written: fact.value.clone(),
        law: of.words(),
        unit: of.unit.clone(),
        source: fact.source.clone(),
        values: Vec::new(),
    }
}

/// The values of an unknown, one from each stratum of its law. Its stream follows from its name.
fn values(of: &Uncertainty, name: &str, draws: usize, seed: u64) -> Vec<f64> {
    let digest = Sha256::digest(name.as_bytes());
    let stream = digest.iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte));
    let (strata, mut random) = strata(draws, seed, stream);
    let value = |stratum: usize| {
        // A share of 0 is no quantile of a law without an end.
        let share = share(stratum, draws, &mut random).max(f64::EPSILON);
        let value = of.quantile(share);
        let (least, most) = (of.quantile(f64::EPSILON), of.quantile(1.0 - f64::EPSILON));
        significant(value, DIGITS).clamp(least, most)
    };
    strata.into_iter().map(value).collect()
}

/// A scenario that is read again with each draw.
pub struct Redrawn {
    path: PathBuf,
    document: Document,
    files: Files,
    asked: Asked,
}

impl Redrawn {
    /// Opens a scenario with its overrides: to run it, or with the points of its sweep.
    pub fn open(
        path: &Path,
        overrides: &[(String, String)],
        registry: &Registry,
        sweeps: bool,
    ) -> Result<Redrawn, Diagnostics> {
        let (document, files) = open(path, overrides, registry)?;
        let asked = if sweeps { Asked::Sweep } else { Asked::Run };
        Ok(Redrawn { path: path.to_owned(), document, files, asked })
    }

    /// The scenario, or its points, where the unknowns have the values of a draw.
    ///
    /// # Errors
    /// Lists rules that these values break.
    pub fn draw(&mut self, unknowns: &Unknowns, draw: usize) -> Result<Sweep, Diagnostics> {
        self.files.drawn = unknowns.drawn(draw);
        read_points(&self.path, &self.document, &mut self.files, self.asked.clone())
    }
}

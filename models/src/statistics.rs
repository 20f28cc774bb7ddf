//! What a scenario says of the statistics of a generated trace: Adam's moments and norms of
//! gradients.
//!
//! A recording has them; a trace that is made from the shape of a model has none to give. Policies
//! that rank modules by them rank by what somebody chose, so who chose it is said wherever results
//! are.
//! Invariant: the same statement gives the same statistics on every machine, to the last bit.

use crate::random::split_mix;
use crate::workload::{Object, ObjectKind, Statistics, Trace};

/// Where the statistics of a generated trace come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Stated {
    /// Nobody said: those of the generator, which makes them up by depth.
    #[default]
    MadeUp,
    /// Each drawn evenly between 0 and 1 from the seed and the module's name.
    Synthetic(u64),
    /// There are none.
    Nothing,
    /// By module.
    Given(Vec<Given>),
}

/// The statistics of the weights of some modules.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// A module's name, in which `*` stands for any text.
    pub pattern: String,
    /// Those of each of their weights.
    pub statistics: Statistics,
}

impl Stated {
    /// One word for results: `made up`, `synthetic`, `none` or `given`.
    pub const fn word(&self) -> &'static str {
        match self {
            Stated::MadeUp => "made up",
            Stated::Synthetic(_) => "synthetic",
            Stated::Nothing => "none",
            Stated::Given(_) => "given",
        }
    }

    /// Writes them into a generated trace.
    ///
    /// Errors with the name of the first module with weights that no pattern matches.
    pub fn apply(&self, trace: &mut Trace) -> Result<(), String> {
        if *self == Stated::MadeUp {
            return Ok(());
        }
        let Trace { objects, modules, .. } = trace;
        let owns = |object: &&mut Object| object.kind == ObjectKind::Weight;
        for object in objects.iter_mut().filter(owns) {
            let module = object.module.map_or("", |module| modules[module.index()].as_str());
            object.statistics = match self {
                Stated::Synthetic(seed) => drawn(*seed, module),
                Stated::Nothing | Stated::MadeUp => Statistics::default(),
                Stated::Given(rows) => {
                    let found = rows.iter().find(|row| matches(&row.pattern, module));
                    found.ok_or_else(|| module.to_owned())?.statistics
                }
            };
        }
        Ok(())
    }
}

/// Three numbers between 0 and 1 for a module.
fn drawn(seed: u64, module: &str) -> Statistics {
    // FNV-1a, whose steps are those of its authors.
    let bytes = module.bytes().map(u64::from);
    let name = bytes
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ byte).wrapping_mul(0x0100_0000_01b3));
    let draw = |index| Some((split_mix(seed ^ name, index) >> 11) as f64 / (1u64 << 53) as f64);
    Statistics { adam_m: draw(0), adam_v: draw(1), grad_norm: draw(2) }
}

/// Whether a name is what a pattern says, in which `*` stands for any text.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    // The earliest place of each part leaves the most for those behind it.
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_differs_by_seed_and_module_and_is_the_same_again() {
        let one = drawn(1, "layers.0");
        assert_eq!(one, drawn(1, "layers.0"));
        assert_ne!(one, drawn(2, "layers.0"));
        assert_ne!(one, drawn(1, "layers.1"));
        for value in [one.adam_m, one.adam_v, one.grad_norm].into_iter().flatten() {
            assert!((0.0..1.0).contains(&value));
        }
    }
}

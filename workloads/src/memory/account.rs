//! Accounts: every part of what a rank needs, each on a line with its formula, and the sums.
//!
//! An account is made from a [`Training`] or [`Serving`] and holds numbers and words only; how it
//! looks is decided elsewhere. Invariant: sums are those of the lines, so nothing counts that is
//! not shown.

mod buffers;
mod estimators;
mod job;
mod serving;
mod training;

pub use estimators::estimated;
pub use job::{Keeps, Pipeline, Step, Training};
pub use serving::{Serving, Structured, serving, structured, weights};
pub use training::{advised, of_largest_stage, training};

use super::{Overflow, product, total};
use tiersim_models::results::memory_account::{Account, Constant, Line, Place};

/// An account of `lines`, of which a node has those of `ranks_per_node` ranks.
pub(crate) fn account_of(
    title: String,
    constants: Vec<Constant>,
    lines: Vec<Line>,
    ranks_per_node: u64,
) -> Result<Account, Overflow> {
    let of = |place| total(lines.iter().filter(|line| line.place == place).map(|line| line.bytes));
    let node = |place| product(&[of(place)?, ranks_per_node.into()]);
    let (gpu, cpu_per_node, nvme_per_node) =
        (of(Place::Gpu)?, node(Place::Cpu)?, node(Place::Nvme)?);
    let notes = Vec::new();
    Ok(Account { title, constants, lines, notes, gpu, cpu_per_node, nvme_per_node })
}

/// Adds a line for what takes any bytes.
fn push(
    lines: &mut Vec<Line>,
    (key, name): (&'static str, &'static str),
    formula: String,
    place: Place,
    bytes: u128,
) {
    if bytes > 0 {
        lines.push(Line { key, name, formula, place, bytes });
    }
}

//! The numbers that a scenario writes in its policies: what may be turned there.
//!
//! A number with its unit is one, `share_of_peak(0.9)` as well as `0.3`. What a list names by its
//! place has that place in its path.
//! Invariant: each path is one that `--set` takes, and the value at it is the text given here.

use crate::scenario::document::open;
use crate::text::ron_tree::{Shape, Tree, ValueId};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::zoo::Registry;

/// A number with its path, such as `policies.0.policy.cut.hbm`, and its text: `0.3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenNumber {
    /// As `--set` takes it.
    pub path: String,
    /// As written, with its unit.
    pub value: String,
}

/// Every number that is written below `policies`, in the order of the file.
///
/// # Errors
/// The file cannot be read, or an override has no place in it.
pub fn policy_numbers(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<Vec<WrittenNumber>, Diagnostics> {
    let (document, _) = open(path, overrides, registry)?;
    let tree = document.tree();
    let Some(policies) = tree.find("policies") else { return Ok(Vec::new()) };
    let (mut open, mut found) = (vec![policies], Vec::new());
    while let Some(id) = open.pop() {
        if is_number(tree, id) {
            let (path, value) = (tree.path(id), tree.text(id).into_owned());
            found.push(WrittenNumber { path, value });
            continue;
        }
        let inner = open.len();
        open.extend(tree.children(id));
        open[inner..].reverse();
    }
    Ok(found)
}

/// Whether a value is a number, or one with the word of its unit around it.
fn is_number(tree: &Tree, id: ValueId) -> bool {
    let plain = |id| tree.written(id).replace('_', "").parse::<f64>().is_ok_and(f64::is_finite);
    match tree.shape(id) {
        Shape::Leaf => plain(id),
        Shape::Newtype => {
            tree.children(id).next().is_some_and(|one| tree.shape(one) == Shape::Leaf && plain(one))
        }
        _ => false,
    }
}

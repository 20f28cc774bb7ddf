//! `statistics.csv`: what training makes of each parameter's statistics, step by step.
//!
//! One row per step of a run and object, steps first. The table is dense, so that a policy that
//! ranks again has something to say of every object that it ranked before.
//! Invariant: every step lists the same objects, in rising order.

use super::rows::{Row, push};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_models::ids::ObjectId;
use tiersim_models::workload::Statistics;

/// The table's name.
pub(super) const FILE: &str = "statistics.csv";

/// Where such a table lies, packed or not.
pub(super) fn is_there(folder: &Path) -> Option<PathBuf> {
    let ends = ["", ".gz", ".zst"].into_iter();
    let mut files = ends.map(|end| folder.join(format!("{FILE}{end}")));
    files.find(|file| file.symlink_metadata().is_ok())
}

/// The three columns of a row.
pub(super) fn read_statistics(row: &mut Row<'_>) -> Statistics {
    Statistics {
        adam_m: row.real_or_none("adam_m"),
        adam_v: row.real_or_none("adam_v"),
        grad_norm: row.real_or_none("grad_norm"),
    }
}

/// The rows so far.
#[derive(Default)]
pub(super) struct Steps {
    /// The objects of the first step.
    objects: Vec<u32>,
    /// Step by step, as many as there are objects each.
    values: Vec<Statistics>,
    step: u64,
}

impl Steps {
    /// One more row of a trace with `known` objects.
    pub(super) fn push(&mut self, row: &mut Row<'_>, known: usize) {
        let (step, object): (u64, u32) = (row.whole("step"), row.whole("object"));
        let last = self.values.len().checked_sub(1);
        if step != self.step {
            let of = self.objects.len();
            let whole = last.is_some() && self.values.len().is_multiple_of(of.max(1));
            if step != self.step + 1 || !whole {
                let rule = match whole {
                    true => format!("step {} comes next", self.step + 1),
                    false => format!("step {} lists all objects of step 0", self.step),
                };
                row.problem(rule, step.to_string(), "give every step the same objects, in order");
            }
            self.step = step;
        }
        let place = match step {
            0 => self.objects.len(),
            _ => self.values.len() % self.objects.len().max(1),
        };
        let expected = self.objects.get(place).copied();
        let rising = self.objects.last().is_none_or(|&before| before < object);
        if object as usize >= known {
            let rule = format!("object is a row of objects.csv, which has {known}");
            row.problem(rule, object.to_string(), "name an object of objects.csv");
        } else if step == 0 && !rising {
            let rule = "objects rise within a step";
            row.problem(rule, object.to_string(), "sort the rows of a step by object");
        } else if step > 0 && expected.is_some_and(|expected| expected != object) {
            let rule = format!("object {} of step 0 comes next", expected.unwrap_or_default());
            row.problem(rule, object.to_string(), "give every step the same objects, in order");
        }
        if step == 0 {
            push(&mut self.objects, object);
        }
        let statistics = read_statistics(row);
        for (column, value) in [
            ("adam_m", statistics.adam_m),
            ("adam_v", statistics.adam_v),
            ("grad_norm", statistics.grad_norm),
        ] {
            if value.is_some_and(|value| value < 0.0) {
                let rule = format!("{column} is not negative");
                row.problem(rule, format!("{value:?}"), "write a number from 0 up");
            }
        }
        push(&mut self.values, statistics);
    }

    /// What is known of each object, the first step first.
    ///
    /// Errors in words if the last step is not whole.
    pub(super) fn histories(
        &self,
    ) -> Result<impl Iterator<Item = (ObjectId, Arc<[Statistics]>)>, String> {
        let of = self.objects.len();
        if !self.values.len().is_multiple_of(of.max(1)) {
            return Err(format!("step {} does not list all objects of step 0", self.step));
        }
        Ok(self.objects.iter().enumerate().map(move |(place, &object)| {
            let history = self.values.iter().skip(place).step_by(of).copied().collect();
            (ObjectId(object), history)
        }))
    }
}

//! What the scripts of `validation/frameworks` measured, as they left it in `runs.csv`.

use crate::files::root;
use crate::prelude::*;

/// Medians of a run, by case and quantity. No cell has quotes.
pub struct Measured(BTreeMap<(String, String), f64>);

impl Measured {
    /// Of the run in this folder of the project.
    pub fn read(run: &str) -> Measured {
        let text = fs::read_to_string(root().join(run).join("runs.csv")).expect("it is kept");
        // Only a case's name may have commas.
        let row = |line: &str| {
            let mut cells = line.rsplitn(7, ',').skip(2);
            let [median, _, _, quantity, case] = [(); 5].map(|()| cells.next().expect("a cell"));
            ((case.to_owned(), quantity.to_owned()), median.parse().expect("a number"))
        };
        Measured(text.lines().skip(1).map(row).collect())
    }

    /// The median, in the row's unit.
    pub fn of(&self, case: &str, quantity: &str) -> f64 {
        let found = self.0.get(&(case.to_owned(), quantity.to_owned()));
        *found.unwrap_or_else(|| panic!("no {quantity} of {case}"))
    }
}

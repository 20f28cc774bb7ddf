//! An inverse question and its answer: the least or the largest value for which conditions hold.
//!
//! Everything that was tried is kept, so that an answer can be checked and one that is not monotone
//! is seen.
//! Invariant: what was tried is in the order of values, each once.

/// One value that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// In the unit of the question.
    pub value: f64,
    /// The case that met all conditions, the first in the scenario's order; else why none did.
    pub outcome: Result<String, String>,
    /// The metrics that conditions name, of the case that met them or else of the first case that
    /// has them; none where it has no figure.
    pub metrics: Vec<Option<f64>>,
}

impl Tried {
    /// Whether all conditions were met.
    pub fn holds(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// A question and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solved {
    /// The scenario's name.
    pub scenario: String,
    /// What question the scenario answers.
    pub about: String,
    /// The machine's name.
    pub hardware: String,
    /// `sha256:` and the hash of all points that were tried.
    pub fingerprint: String,
    /// Seed of every draw.
    pub seed: u64,
    /// The path of the value.
    pub path: String,
    /// Its unit as written in files, such as `gib`; empty for a plain number.
    pub unit: String,
    /// Whether the largest value is asked for.
    pub largest: bool,
    /// The conditions as written; that the case fits is always one.
    pub conditions: Vec<String>,
    /// Names of the metrics that conditions are about.
    pub metrics: Vec<String>,
    /// Everything that was tried, by value.
    pub tried: Vec<Tried>,
}

impl Solved {
    /// The answer: the least value, or the largest, of those tried for which conditions hold.
    pub fn answer(&self) -> Option<&Tried> {
        let mut held = self.tried.iter().filter(|tried| tried.holds());
        if self.largest { held.next_back() } else { held.next() }
    }

    /// The nearest value beyond the answer, for which they do not hold; none where the answer is
    /// the end of the range.
    pub fn beyond(&self) -> Option<&Tried> {
        let answer = self.answer()?.value;
        let mut all = self.tried.iter();
        if self.largest {
            all.find(|tried| tried.value > answer)
        } else {
            all.rev().find(|tried| tried.value < answer)
        }
    }

    /// The stretches of values that were tried in which conditions hold, first and last of each.
    pub fn stretches(&self) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = Vec::new();
        let mut held = false;
        for tried in &self.tried {
            match (tried.holds(), all.last_mut()) {
                (true, Some(last)) if held => last.1 = tried.value,
                (true, _) => all.push((tried.value, tried.value)),
                (false, _) => {}
            }
            held = tried.holds();
        }
        all
    }
}

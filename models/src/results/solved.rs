//! Inverse questions and their answers: the least or the largest value of a path for which
//! conditions hold, the best values of several, and the least changes with which a scenario fits.
//!
//! Everything that was tried is kept, so that an answer can be checked and one that is not monotone
//! is seen.
//! Invariant: what was tried along one path is in the order of values, each once.

/// What every question says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The scenario's name.
    pub scenario: String,
    /// What question the scenario answers.
    pub about: String,
    /// The machine's name.
    pub hardware: String,
    /// `sha256:` and the hash of the first points that were tried.
    pub fingerprint: String,
    /// Seed of every draw.
    pub seed: u64,
    /// Whether the largest value is asked for.
    pub largest: bool,
    /// The conditions as written; that the case fits is always one.
    pub conditions: Vec<String>,
    /// Names of the metrics that conditions and the objective are about.
    pub metrics: Vec<String>,
}

/// A path whose value is looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variable {
    /// The path.
    pub path: String,
    /// Its unit as written in files, such as `gib`; empty for a plain number.
    pub unit: String,
}

impl Variable {
    /// A value of it with its unit, as a file has it: `gib(80)`.
    pub fn written(&self, value: f64) -> String {
        match self.unit.as_str() {
            "" => value.to_string(),
            unit => format!("{unit}({value})"),
        }
    }
}

/// One point that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The value of each path, in its unit.
    pub values: Vec<f64>,
    /// The case that met all conditions, the first in the scenario's order; else why none did.
    pub outcome: Result<String, String>,
    /// The metrics that are asked about, of the case that met conditions or else of the first case
    /// that has them; none where it has no figure.
    pub metrics: Vec<Option<f64>>,
}

impl Tried {
    /// Whether all conditions were met.
    pub fn holds(&self) -> bool {
        self.outcome.is_ok()
    }

    /// The value of the only path, or of the first.
    pub fn value(&self) -> f64 {
        self.values.first().copied().unwrap_or(f64::NAN)
    }
}

/// A question about one path and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solved {
    /// The question.
    pub asked: Asked,
    /// The path.
    pub variable: Variable,
    /// Everything that was tried, by value.
    pub tried: Vec<Tried>,
}

impl Solved {
    /// The answer: the least value, or the largest, of those tried for which conditions hold.
    pub fn answer(&self) -> Option<&Tried> {
        let mut held = self.tried.iter().filter(|tried| tried.holds());
        if self.asked.largest { held.next_back() } else { held.next() }
    }

    /// The nearest value beyond the answer, for which they do not hold; none where the answer is
    /// the end of the range.
    pub fn beyond(&self) -> Option<&Tried> {
        let answer = self.answer()?.value();
        let mut all = self.tried.iter();
        if self.asked.largest {
            all.find(|tried| tried.value() > answer)
        } else {
            all.rev().find(|tried| tried.value() < answer)
        }
    }

    /// The stretches of values that were tried in which conditions hold, first and last of each.
    pub fn stretches(&self) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = Vec::new();
        let mut held = false;
        for tried in &self.tried {
            match (tried.holds(), all.last_mut()) {
                (true, Some(last)) if held => last.1 = tried.value(),
                (true, _) => all.push((tried.value(), tried.value())),
                (false, _) => {}
            }
            held = tried.holds();
        }
        all
    }
}

/// A question about several paths at once, or about a metric, and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Optimum {
    /// The question.
    pub asked: Asked,
    /// What is to be least or largest: one of the metrics, or one of the paths.
    pub objective: String,
    /// The paths.
    pub variables: Vec<Variable>,
    /// Where each is looked for: the lower and the upper end.
    pub ranges: Vec<(f64, f64)>,
    /// Everything that was tried, in the order in which it was.
    pub tried: Vec<Tried>,
    /// The step, as a share of each range, at which no neighbour of the answer was better.
    pub settled: Option<f64>,
}

impl Optimum {
    /// The objective at a point that was tried; none where it has no figure.
    pub fn objective(&self, tried: &Tried) -> Option<f64> {
        let path = self.variables.iter().position(|variable| variable.path == self.objective);
        if let Some(index) = path {
            return tried.values.get(index).copied();
        }
        let index = self.asked.metrics.iter().position(|metric| *metric == self.objective)?;
        tried.metrics.get(index).copied().flatten()
    }

    /// How good a point is for which conditions hold: more is better.
    pub fn merit(&self, tried: &Tried) -> Option<f64> {
        let objective = self.objective(tried).filter(|_| tried.holds())?;
        Some(if self.asked.largest { objective } else { -objective })
    }

    /// The answer: the best point of those tried for which conditions hold, the first of equals.
    pub fn answer(&self) -> Option<&Tried> {
        let mut best: Option<(f64, &Tried)> = None;
        for tried in &self.tried {
            let Some(merit) = self.merit(tried) else { continue };
            if best.is_none_or(|(least, _)| merit > least) {
                best = Some((merit, tried));
            }
        }
        best.map(|(_, tried)| tried)
    }

    /// The paths whose answer is an end of its range, beyond which nothing was tried.
    pub fn at_ends(&self) -> Vec<&Variable> {
        let Some(answer) = self.answer() else { return Vec::new() };
        let each = self.variables.iter().zip(&self.ranges).zip(&answer.values);
        let ends = each.filter(|((_, (from, to)), value)| *value == from || *value == to);
        ends.map(|((variable, _), _)| variable).collect()
    }
}

/// What can be changed so that a scenario fits, and how much of it is enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What is changed.
    pub path: String,
    /// What stands there now, as a file has it; none where nothing does.
    pub now: Option<String>,
    /// The least change with which it fits, as a file has it; none where none that was tried does.
    pub least: Option<String>,
    /// The nearest value to the one of now, in the direction of the change, with which it does not
    /// fit, if it was tried, and why.
    pub short: Option<(String, String)>,
    /// The new value over the one of now, where both are numbers.
    pub ratio: Option<f64>,
    /// The case that fits then.
    pub case: Option<String>,
    /// Its metrics.
    pub metrics: Vec<Option<f64>>,
    /// How many values were tried.
    pub tried: usize,
}

/// A scenario that does not fit, and each change by itself that makes it fit.
#[derive(Clone, Debug, PartialEq)]
pub struct LeastChanges {
    /// The question.
    pub asked: Asked,
    /// The case that fits as it is, if one does; else why the first does not.
    pub now: Result<String, String>,
    /// What was tried, in the order of paths.
    pub changes: Vec<Change>,
}

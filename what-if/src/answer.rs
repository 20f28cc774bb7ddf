//! What came of a run, as a page shows it.
//!
//! Values are the figures of `summary.json`, worked out by the same methods; the words beside them
//! are for people.
//! Invariant: a case that ran out of memory has no figures, and says why.

use serde::Serialize;
use tiersim_models::hardware::HBM;
use tiersim_models::results::{Figures, Lookahead, Outcome};
use tiersim_models::units::shown::{size, time};
use tiersim_policies::recipe::Origin;
use tiersim_policies::scenario::{Case, Scenario};

/// All cases of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The line that asks the command the same.
    pub command: String,
    /// In the scenario's order.
    pub cases: Vec<CaseAnswer>,
    /// What the lint says of the machine as it is set and not of the scenario's own.
    pub warnings: Vec<String>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseAnswer {
    /// Its label in tables and charts.
    pub label: String,
    /// The same with what a reader must know before comparing it, in the words of reports, unless it
    /// says so itself.
    pub called: String,
    /// Why it ran out of memory, if it did.
    pub oom: Option<String>,
    /// What is measured: the same ones for every case that ran.
    pub figures: Vec<Figure>,
}

/// A figure of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is, such as `mean step`.
    pub name: String,
    /// Milliseconds or bytes; none where there is nothing to take it over.
    pub value: Option<f64>,
    /// The same for people.
    pub shown: String,
}

/// What is said of a case.
pub(crate) fn of(
    scenario: &Scenario,
    (case, lookahead): (&Case, Lookahead),
    outcome: &Outcome,
) -> CaseAnswer {
    let label = case.label.clone();
    let marks = [
        (lookahead == Lookahead::Oracle, "oracle"),
        (case.policy.origin() == Origin::Learned, "learned"),
        (case.policy.is_emulated(), "emulated"),
    ];
    let marks = marks.into_iter().filter(|(is, mark)| *is && !label.contains(mark));
    let marks: Vec<&str> = marks.map(|(_, mark)| mark).collect();
    let called = match marks.is_empty() {
        true => label.clone(),
        false => format!("{label} ({})", marks.join(", ")),
    };
    let (oom, figures) = match outcome {
        Outcome::Done(figures) => (None, figures_of(scenario, figures)),
        Outcome::OutOfMemory(oom) => (Some(oom.told()), Vec::new()),
    };
    CaseAnswer { label, called, oom, figures }
}

fn figures_of(scenario: &Scenario, figures: &Figures) -> Vec<Figure> {
    let ms = |name: &str, ms: f64| Figure {
        name: name.to_owned(),
        value: Some(ms).filter(|ms| ms.is_finite()),
        shown: if ms.is_finite() { time(ms * 1e9) } else { "-".to_owned() },
    };
    let mut all = match figures.serving.as_deref() {
        Some(serving) => vec![
            ms("mean TTFT", serving.first_token_ms().mean),
            ms("mean TPOT", serving.per_token_ms().mean),
        ],
        None => vec![ms("mean step", figures.mean_step().as_ms())],
    };
    let hbm = &scenario.hardware.tiers[HBM.index()].name;
    let peak = figures.peak[HBM.index()].get() as f64;
    let name = format!("peak {hbm}");
    all.push(Figure { name, value: Some(peak), shown: size(peak) });
    all
}

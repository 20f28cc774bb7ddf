//! What a recording knows of Adam's state: per parameter and plain step, and the norm of the
//! gradient that follows from it.
//!
//! The recorder wrote means of the moments, no gradients. But Adam's second moment is
//! `v_t = beta2 v_(t-1) + (1 - beta2) g_t^2`, element by element, and a mean of sums is the sum of
//! the means: so the sum of the squares of a step's gradient is
//! `n (mean v_t - beta2 mean v_(t-1)) / (1 - beta2)` over the parameter's n elements, exactly; before
//! the optimizer's first step v is 0. Source: Kingma, Ba, "Adam", arXiv:1412.6980, algorithm 1.
//! Invariant: no norm where the steps before are not known, or where the difference is as small as
//! the rounding of the two means.

use std::collections::BTreeMap;
use std::sync::Arc;
use tiersim_models::workload::Statistics;

/// Digits of the means in the table: what the last one leaves open of a mean.
const ROUNDING: f64 = 5e-7;
/// Digits behind the first of a norm that is derived.
const NORM_DIGITS: usize = 6;

/// What one row of the table says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) adam_m: Option<f64>,
    /// Mean of the root of the second moment.
    pub(super) adam_v: Option<f64>,
    /// Mean of the second moment itself.
    pub(super) second: Option<f64>,
    /// Elements of the parameter.
    pub(super) elements: Option<u64>,
}

/// The rows of a recording, by step and parameter.
#[derive(Debug, Default)]
pub(super) struct Adam {
    pub(super) steps: BTreeMap<u32, BTreeMap<String, Row>>,
}

/// What is known of one parameter: last, and step by step.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) last: Statistics,
    pub(super) history: Option<Arc<[Statistics]>>,
}

impl Adam {
    /// By parameter of the last step. `beta2` is Adam's decay of the second moment, if it is known.
    pub(super) fn known(&self, beta2: Option<f64>) -> BTreeMap<String, Known> {
        let Some((last, rows)) = self.steps.last_key_value() else { return BTreeMap::new() };
        let of_step = |step: u32, param: &str| {
            let row = self.steps.get(&step)?.get(param)?;
            let before = match step {
                // Before its first step the optimizer knows nothing.
                0 => Some(0.0),
                _ => self.before(step, param),
            };
            let grad_norm = beta2.and_then(|beta2| norm(row, before?, beta2));
            Some(Statistics { adam_m: row.adam_m, adam_v: row.adam_v, grad_norm })
        };
        // A policy ranks all or none: without a whole history of everybody there is none.
        let whole =
            self.steps.len() > 1 && self.steps.values().all(|step| step.keys().eq(rows.keys()));
        let known = |param: &String| {
            let history = || self.steps.keys().filter_map(|&step| of_step(step, param)).collect();
            let last = of_step(*last, param).expect("the row is there");
            (param.clone(), Known { last, history: whole.then(history) })
        };
        rows.keys().map(known).collect()
    }

    /// The mean of the second moment one step earlier.
    fn before(&self, step: u32, param: &str) -> Option<f64> {
        self.steps.get(&step.checked_sub(1)?)?.get(param)?.second
    }
}

/// The norm of the gradient between two means of the second moment.
fn norm(row: &Row, before: f64, beta2: f64) -> Option<f64> {
    let (second, elements) = (row.second?, row.elements?);
    let grown = second - beta2 * before;
    if grown <= 2.0 * ROUNDING * (second + before) {
        return None;
    }
    let norm = (grown / (1.0 - beta2) * elements as f64).sqrt();
    // No more digits than the means have.
    format!("{norm:.NORM_DIGITS$e}").parse().ok().filter(|norm: &f64| norm.is_finite())
}

/// Adam's second decay in the words of an optimizer, such as `AdamW betas=(0.9,0.999)`.
pub(super) fn beta2(optimizer: &str) -> Option<f64> {
    let (_, behind) = optimizer.split_once("betas=(")?;
    let (pair, _) = behind.split_once(')')?;
    let (_, second) = pair.split_once(',')?;
    second.trim().parse().ok().filter(|beta: &f64| (0.0..1.0).contains(beta))
}

#[cfg(test)]
mod tests {
    use super::{Adam, Row, beta2};

    #[test]
    fn the_decay_is_read_from_the_optimizer_s_words() {
        assert_eq!(beta2("AdamW lr=3e-4 betas=(0.9,0.999) wd=0.01"), Some(0.999));
        assert_eq!(beta2("betas=(0.9, 0.95)"), Some(0.95));
        for none in ["AdamW", "betas=(0.9)", "betas=(0.9,1)", "betas=(0.9,x)", "betas=(0.9,0.9"] {
            assert_eq!(beta2(none), None, "{none}");
        }
    }

    /// Four elements, whose gradients are written down, and Adam's rule element by element.
    #[test]
    fn the_norms_of_gradients_come_back_from_the_means_of_the_second_moment() {
        let gradients =
            [[1.0, -2.0, 0.5, 0.0], [3.0, 0.0, -1.0, 4.0], [0.1, 0.2, 0.3, -0.4], [0.0; 4]];
        let (mut adam, mut v) = (Adam::default(), [0.0; 4]);
        for (step, gradient) in gradients.iter().enumerate() {
            for (v, g) in v.iter_mut().zip(gradient) {
                *v = 0.999 * *v + 0.001 * g * g;
            }
            let mean = v.iter().sum::<f64>() / 4.0;
            let second = format!("{mean:.6e}").parse().ok();
            let row = Row { adam_m: Some(0.0), adam_v: None, second, elements: Some(4) };
            adam.steps.entry(step as u32).or_default().insert("w".to_owned(), row);
        }
        let known = &adam.known(Some(0.999))["w"];
        let history = known.history.as_deref().expect("four steps");
        for (gradient, found) in gradients.iter().zip(history) {
            let norm = gradient.iter().map(|g: &f64| g * g).sum::<f64>().sqrt();
            match found.grad_norm {
                Some(found) => assert!((found / norm - 1.0).abs() < 0.01, "{found} for {norm}"),
                None => assert_eq!(norm, 0.0, "only what rounding hides is not known"),
            }
        }
        assert_eq!(known.last.grad_norm, None);
        assert!(adam.known(None)["w"].history.as_deref().unwrap()[0].grad_norm.is_none());
        // Without the step before the first one nothing is known of it.
        let late = adam.steps.split_off(&2);
        let known = Adam { steps: late }.known(Some(0.999));
        assert_eq!(known["w"].history.as_deref().unwrap()[0].grad_norm, None);
    }

    #[test]
    fn a_history_has_all_parameters_in_every_step() {
        let row = Row { adam_m: Some(0.0), adam_v: None, second: None, elements: None };
        let mut adam = Adam::default();
        for (step, params) in [&["a", "b"] as &[&str], &["a"]].iter().enumerate() {
            let rows = params.iter().map(|param| ((*param).to_owned(), row)).collect();
            adam.steps.insert(step as u32, rows);
        }
        let known = adam.known(Some(0.9));
        assert_eq!(known.keys().collect::<Vec<_>>(), ["a"], "of the last step");
        assert!(known["a"].history.is_none());
    }
}

//! `mode: train(...)` of a model: a training step as written, and what it means.
//!
//! Defaults are chosen here; rules on numbers are those of the step itself
//! ([`Training::problems`]), whose fields are told by their paths in the scenario.

use crate::scenario::raw::work::{RawRouter, RawTrain, RawZero};
use crate::scenario::resolver::Resolver;
use crate::text::quantity::CAPACITY;
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::format::Formats;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Optimizer, Router, Training, Zero,
};

/// What a training step is of.
pub(crate) struct Setting<'a> {
    pub(crate) card: &'a Card,
    pub(crate) formats: Formats,
    /// Devices of one server.
    pub(crate) devices: u32,
}

/// What the value at `path` means; every rule that it breaks is told otherwise.
pub(crate) fn training(
    resolver: &mut Resolver<'_, '_>,
    path: &str,
    raw: &RawTrain,
    setting: Setting<'_>,
) -> Option<Training> {
    let zero = match &raw.zero {
        Some(raw) => raw.meaning(resolver, &format!("{path}.zero"))?,
        None => Zero::default(),
    };
    let router = match raw.router {
        Some(raw) => raw.meaning(resolver, &format!("{path}.router"))?,
        None => Router::default(),
    };
    let training = Training {
        card: setting.card.clone(),
        batch: raw.batch,
        micro_batch: raw.micro_batch.unwrap_or(raw.batch),
        sequence: raw.sequence,
        formats: setting.formats,
        optimizer: raw.optimizer.unwrap_or(Optimizer::AdamW),
        checkpointing: raw.checkpointing.unwrap_or(Checkpointing::None),
        attention: raw.attention.unwrap_or(Attention::Flash),
        dropout: raw.dropout.unwrap_or(false),
        parallel: raw.parallel.unwrap_or_default(),
        zero,
        devices: setting.devices,
        router,
        loader: raw.loader,
    };
    // What is not of the mode stands elsewhere.
    let broken = resolver.broken(&training.problems(), |field| match field.split('.').next() {
        Some("card") => "workload.model".to_owned(),
        Some("formats") => format!("workload.{field}"),
        Some("devices") => "hardware".to_owned(),
        _ => format!("{path}.{field}"),
    });
    (!broken).then_some(training)
}

impl RawZero {
    fn meaning(&self, resolver: &mut Resolver<'_, '_>, path: &str) -> Option<Zero> {
        let default = Zero::default();
        let at = format!("{path}.host_update");
        let share = self.host_update.unwrap_or(0.0);
        let share = resolver.check.number(&at, "`host_update`", share, 0.0, 1.0);
        let at = format!("{path}.bucket");
        let bucket = self.bucket.as_ref();
        let bucket = bucket.and_then(|size| size.value(&mut resolver.check, &at, CAPACITY));
        Some(Zero {
            stage: self.stage,
            // In parts per thousand.
            host_update: (share? * 1000.0).round() as u16,
            bucket: bucket.unwrap_or(default.bucket),
            prefetch: self.prefetch.unwrap_or(default.prefetch),
            overlap: self.overlap.unwrap_or(default.overlap),
        })
    }
}

impl RawRouter {
    pub(crate) fn meaning(self, resolver: &mut Resolver<'_, '_>, path: &str) -> Option<Router> {
        let (at, skew) = (format!("{path}.skew"), self.skew.unwrap_or(0.0));
        let skew = resolver.check.number(&at, "`skew`", skew, 0.0, 10.0)?;
        // In hundredths.
        Some(Router { seed: self.seed.unwrap_or(0), skew: (skew * 100.0).round() as u32 })
    }
}

//! Activations between forward and backward: kept, offloaded, or dropped and recomputed, by layer.
//!
//! What a layer makes in forward and needs again in backward takes HBM for the time between. It can
//! stay, be copied out after its last forward use and back before its first backward use, or be
//! dropped and made again by the layer's forward ops. [`Choice::Best`] decides by layer what makes
//! the step shortest. All other objects are paged on demand by recency.
//! Sources: Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016
//! (recompute from checkpoints); Korthikanti et al., "Reducing Activation Recomputation in Large
//! Transformer Models", MLSys 2023 (a checkpoint per layer); Rhu et al., "vDNN", MICRO 2016
//! (offload).
//! Invariant: recomputed ops are those of the trace; an op that draws random numbers must draw the
//! same.

mod choose;
mod layers;
mod offload;
mod rehearsal;
mod rewrite;
mod saved;
#[cfg(test)]
mod tests;

use crate::entry::{Entry, Fault, Kind, Parameter};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Rewrite, Setting};
use choose::{Made, Search};
use layers::Layers;
use std::collections::BTreeSet;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;

pub use choose::Treatment;
pub use offload::ActivationOffload;

const NAME: &str = "activation-offload";
/// About ten blocks of a transformer in backward. Fetches only take free room, so more does no
/// harm.
const PREFETCH_OPS: u64 = 128;

/// What becomes of the activations of all layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The same for every layer.
    All(Treatment),
    /// What makes the step shortest, layer by layer.
    Best,
    /// One for each layer with something to choose for, in the order of their first ops; those
    /// behind the last stay in HBM.
    Each(Vec<Treatment>),
}

/// Parameters of `activation-offload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivationOffloadConfig {
    /// What becomes of activations.
    pub choice: Choice,
    /// Where objects live that are not in HBM: the first of these with room.
    pub spill: Vec<TierId>,
    /// How many ops before its first backward use an offloaded activation may come back.
    pub prefetch_ops: u64,
    /// Whether each op's saved tensors are copied by themselves, weights too.
    pub per_op: bool,
    /// What was decided, for the rewritten workload.
    decided: Option<Decided>,
}

/// What is known once the workload is rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decided {
    offloaded: BTreeSet<ObjectId>,
    /// Layers that are kept, offloaded, recomputed.
    layers: [usize; 3],
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "ActivationOffload",
    about: "activations are kept, offloaded, or dropped and recomputed, layer by layer",
    parameters: &[
        Parameter::optional("choice", Kind::Word(&["best", "keep", "offload", "recompute"])),
        Parameter::optional("prefetch_ops", Kind::Count { least: 1, most: 65536 }),
        Parameter::optional("saved", Kind::Word(&["per_tensor", "per_op"])),
        Parameter::optional("spill", Kind::HostTiers),
    ],
    make: |params| {
        let choice = match params.word("choice") {
            Some("keep") => Choice::All(Treatment::Keep),
            Some("offload") => Choice::All(Treatment::Offload),
            Some("recompute") => Choice::All(Treatment::Recompute),
            _ => Choice::Best,
        };
        let mut config = ActivationOffloadConfig::new(choice, params.tiers("spill"));
        config.prefetch_ops = params.count("prefetch_ops").unwrap_or(PREFETCH_OPS);
        config.per_op = params.word("saved") == Some("per_op");
        if config.per_op && config.choice != Choice::All(Treatment::Offload) {
            return Err(Fault {
                parameter: "saved",
                rule: "tensors are saved `per_op` where they are all copied out".to_owned(),
                remedy: "write `choice: offload`, or leave it out".to_owned(),
            });
        }
        Ok(config.into())
    },
};

impl ActivationOffloadConfig {
    /// With the default of all else.
    pub fn new(choice: Choice, spill: Vec<TierId>) -> ActivationOffloadConfig {
        let (prefetch_ops, per_op, decided) = (PREFETCH_OPS, false, None);
        ActivationOffloadConfig { choice, spill, prefetch_ops, per_op, decided }
    }

    /// The treatment of each layer with something to choose for, in the order of their first ops:
    /// one of `treatments`, or to keep where another was asked for.
    fn treatments(
        &self,
        setting: &Setting<'_>,
        layers: &Layers,
        treatments: &[Treatment],
    ) -> Result<Vec<Treatment>, String> {
        let count = layers.choosers().len();
        let how = (&self.spill[..], self.prefetch_ops);
        let chosen = match &self.choice {
            Choice::All(Treatment::Recompute) if treatments.contains(&Treatment::Recompute) => {
                // What is made on the treatment may take more memory than there is, in all tiers.
                let all = vec![Treatment::Recompute; count];
                let cost = Search::new(setting, layers, how, treatments)?.cost(&all)?;
                if cost.is_some() { all } else { vec![Treatment::Keep; count] }
            }
            Choice::All(treatment) => vec![*treatment; count],
            Choice::Each(each) => {
                let kept = std::iter::repeat(Treatment::Keep);
                each.iter().copied().chain(kept).take(count).collect()
            }
            Choice::Best => Search::new(setting, layers, how, treatments)?.best()?,
        };
        let allowed = |treatment: Treatment| {
            if treatments.contains(&treatment) { treatment } else { Treatment::Keep }
        };
        Ok(chosen.into_iter().map(allowed).collect())
    }
}

impl Recipe for ActivationOffloadConfig {
    fn name(&self) -> &'static str {
        NAME
    }

    fn details(&self) -> String {
        let choice = match &self.choice {
            Choice::All(Treatment::Keep) => "keep",
            Choice::All(Treatment::Offload) => "offload",
            Choice::All(Treatment::Recompute) => "recompute",
            Choice::Best => "best",
            Choice::Each(_) => "as given",
        };
        let saved = if self.per_op { ", tensors once per op that saves them" } else { "" };
        match &self.decided {
            Some(Decided { layers: [kept, offloaded, recomputed], .. }) => format!(
                "{choice}: {kept} layers kept, {offloaded} offloaded, {recomputed} recomputed{saved}"
            ),
            None => format!("{choice}{saved}"),
        }
    }

    /// For a workload that nobody rewrote for it, layers that would be recomputed are kept.
    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let layers = Layers::of(&setting.workload.trace, self.per_op);
        let offloaded = match &self.decided {
            Some(decided) => decided.offloaded.clone(),
            None => {
                let treatments =
                    self.treatments(setting, &layers, &[Treatment::Keep, Treatment::Offload])?;
                let made = Made::of(setting, &layers, &layers.choosers(), &treatments)?;
                made.offloaded
            }
        };
        let how = (&self.spill[..], self.prefetch_ops);
        Ok(Box::new(ActivationOffload::new(setting, &layers, &offloaded, how)))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(ActivationOffloadConfig { spill, ..self.clone() }.into())
    }

    fn rewrite(&self, setting: &Setting<'_>) -> Result<Option<Rewrite>, String> {
        if self.decided.is_some() {
            return Ok(None);
        }
        let apart = self.per_op.then(|| saved::apart(&setting.workload.trace));
        let apart = apart.transpose()?.map(Workload::new);
        let setting = &Setting { workload: apart.as_ref().unwrap_or(setting.workload), ..*setting };
        let layers = Layers::of(&setting.workload.trace, self.per_op);
        let all = [Treatment::Keep, Treatment::Offload, Treatment::Recompute];
        let treatments = self.treatments(setting, &layers, &all)?;
        let made = Made::of(setting, &layers, &layers.choosers(), &treatments)?;
        let count = |treatment| treatments.iter().filter(|&&other| other == treatment).count();
        let decided = Decided { offloaded: made.offloaded, layers: all.map(count) };
        let policy = ActivationOffloadConfig { decided: Some(decided), ..self.clone() };
        let rewrite = made.rewrite.unwrap_or_else(|| Rewrite::none(setting.workload));
        Ok(Some(Rewrite { policy: Some(policy.into()), ..rewrite }))
    }
}

//! Model state per rank under ZeRO: weights, gradients, optimizer state.
//!
//! Source: Rajbhandari, Rasley, Ruwase, He, "ZeRO", SC 2020 (arXiv 1910.02054), figure 1: with P
//! parameters, w and g bytes per weight and gradient, K bytes of optimizer state and N ranks, a
//! rank holds (w + g + K)P, (w + g)P + KP/N, wP + (g + K)P/N or (w + g + K)P/N at stages 0 to 3.
//! Offload: Ren et al., "ZeRO-Offload", ATC 2021, and Rajbhandari et al., "ZeRO-Infinity", SC 2021.
//! Invariant: each part is rounded up by itself, and no byte is in two places.

use super::{Overflow, product, share};
use tiersim_models::results::memory_account::Place;

/// A million parts are the whole.
pub const MILLION: u32 = 1_000_000;

/// Bytes of the whole model state, before anything is partitioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Weights as products use them.
    pub weights: u128,
    /// Their gradients.
    pub gradients: u128,
    /// What the optimizer keeps, master weights too.
    pub optimizer: u128,
}

impl State {
    /// `params` parameters of `w` and `g` bytes, and `k` bytes of optimizer state.
    pub fn of(params: u128, w: u128, g: u128, k: u128) -> Result<State, Overflow> {
        Ok(State {
            weights: product(&[params, w])?,
            gradients: product(&[params, g])?,
            optimizer: product(&[params, k])?,
        })
    }

    /// All of it.
    pub fn sum(&self) -> Result<u128, Overflow> {
        super::total([self.weights, self.gradients, self.optimizer])
    }

    /// What one of `ranks` has at a stage from 0 to 3; higher ones are 3.
    ///
    /// # Panics
    /// If there are no ranks.
    pub fn of_rank(&self, stage: u8, ranks: u128) -> State {
        let from = |first, bytes| shard(bytes, first, stage, ranks);
        State {
            optimizer: from(1, self.optimizer),
            gradients: from(2, self.gradients),
            weights: from(3, self.weights),
        }
    }
}

/// What one of `ranks` has at a stage of what ZeRO cuts from stage `from` on.
///
/// # Panics
/// If there are no ranks.
pub fn shard(bytes: u128, from: u8, stage: u8, ranks: u128) -> u128 {
    if stage >= from { share(bytes, ranks) } else { bytes }
}

/// What is offloaded. Partitioned gradients (stages 2 and 3) go with the optimizer state: to the
/// host's memory, also where the state itself lies on NVMe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Where the optimizer state lives.
    pub optimizer: Place,
    /// Where weights live; they can leave the GPU at stage 3 only.
    pub weights: Place,
    /// Parts per million of the optimizer state that are offloaded; less than all is twin-flow.
    pub ratio: u32,
}

impl Default for Offload {
    fn default() -> Offload {
        Offload { optimizer: Place::Gpu, weights: Place::Gpu, ratio: MILLION }
    }
}

/// One part of a rank's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatePart {
    /// Weights.
    Weights,
    /// Gradients.
    Gradients,
    /// Optimizer state.
    Optimizer,
}

/// So many bytes of a part in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Of what.
    pub part: StatePart,
    /// Where.
    pub place: Place,
    /// How much.
    pub bytes: u128,
}

/// Where a rank's state is; parts without bytes are left out.
///
/// The offloaded share is rounded up, and the rest stays.
pub fn placed(of_rank: State, stage: u8, offload: Offload) -> Result<Vec<Placed>, Overflow> {
    let mut all = Vec::new();
    let mut add = |part, place, bytes| {
        if bytes > 0 {
            all.push(Placed { part, place, bytes });
        }
    };
    let weights = if stage >= 3 { offload.weights } else { Place::Gpu };
    add(StatePart::Weights, weights, of_rank.weights);
    let away = offload.optimizer != Place::Gpu;
    let gradients = if away && stage >= 2 { Place::Cpu } else { Place::Gpu };
    for (part, bytes, place) in [
        (StatePart::Gradients, of_rank.gradients, gradients),
        (StatePart::Optimizer, of_rank.optimizer, offload.optimizer),
    ] {
        let ratio = if place == Place::Gpu { 0 } else { offload.ratio.min(MILLION) };
        let away = share(product(&[bytes, ratio.into()])?, MILLION.into());
        add(part, Place::Gpu, bytes - away);
        add(part, place, away);
    }
    Ok(all)
}

//! What an iteration costs: FLOPs and bytes, by group of layers.
//!
//! FLOPs are those of matrix products, 2 per multiply-add; attention has 4 x heads x head width per
//! pair of a token and one that it attends to. Bytes: weights once per op, of experts those that
//! tokens can reach at most; keys and values of all positions that are attended to once per
//! request, new ones included; every input and output of a product of the tokens; rows of tables;
//! logits in fp32.
//! Invariant: sums are made in 128 bits.

use crate::transformer::card::{Card, Experts};
use crate::transformer::format::Formats;
use std::ops::Range;
use tiersim_models::units::Bytes;
use tiersim_models::workload::PartialUse;

/// Bytes of a number of logits.
const LOGIT: u128 = 4;

/// Bytes of keys and values of one token in one layer.
pub(super) fn kv_bytes(card: &Card, formats: &Formats) -> u64 {
    2 * u64::from(card.kv_heads) * u64::from(card.head_dim) * formats.kv.bytes()
}

/// What an iteration has to do, or several alike.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// How many; each reads the weights.
    pub(super) iterations: u128,
    /// Tokens that go through the layers.
    pub(super) tokens: u128,
    /// Of which so many have a successor drawn.
    pub(super) drawn: u128,
    /// Pairs of a token and one that it attends to.
    pub(super) pairs: u128,
    /// Positions whose keys and values are touched.
    pub(super) positions: u128,
}

impl Load {
    /// Adds `new` tokens behind `before` others; `drawn` says whether the next one is drawn.
    pub(super) fn add(&mut self, window: Option<u32>, before: u64, new: u64, drawn: bool) {
        let [first, count] = [before, new].map(u128::from);
        // The token at position p attends to p + 1, itself among them, or to the window.
        let most = window.map_or(u128::MAX, u128::from);
        let rising = most.saturating_sub(first).min(count);
        let sum = |count: u128| count * first + count * (count + 1) / 2;
        self.pairs += sum(rising) + if rising < count { (count - rising) * most } else { 0 };
        self.tokens += count;
        self.drawn += u128::from(drawn);
        self.positions += (first + count).min((most - 1).saturating_add(count));
    }
}

/// A model in groups of layers.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    /// The layers of each group.
    pub(super) groups: Vec<Range<u32>>,
    /// Bytes of a layer's weights that every token goes through.
    layer: u128,
    /// Bytes of one expert that is chosen, and how many there are and a token chooses.
    expert: (u128, u128, u128),
    /// FLOPs of a token in a layer, without attention.
    flops: u128,
    /// FLOPs of a pair in a layer.
    pair: u128,
    /// Bytes of a token's inputs and outputs in a layer.
    acts: u128,
    /// Bytes of a position's keys and values in a layer.
    kv: u128,
    hidden: u128,
    vocab: u128,
    /// Bytes of the tables and what belongs to them.
    tables: u128,
    /// Rows of tables that a token reads.
    rows: u128,
    /// Bytes of a weight and of an activation.
    weight: u128,
    activation: u128,
    norm: u128,
}

impl Cost {
    pub(super) fn new(card: &Card, formats: &Formats, groups: u32) -> Cost {
        let [hidden, ffn, heads, kv_heads, dim] =
            [card.hidden, card.ffn, card.heads, card.kv_heads, card.head_dim].map(u128::from);
        let (q, kv) = (heads * dim, kv_heads * dim);
        let attention = hidden * (q + 2 * kv) + q * hidden;
        let up_proj = if card.family.has_biases() { 1 } else { 2 };
        let dense = (up_proj + 1) * hidden * ffn;
        let none = Experts { count: 0, active: 0, ffn: 0, shared: 0 };
        let Experts { count, active, ffn: width, shared } = card.experts.unwrap_or(none);
        let [count, active, width, shared] = [count, active, width, shared].map(u128::from);
        let expert = 3 * hidden * width;
        let (matrix, inner) = match card.experts {
            None => (dense, 2 * ffn),
            Some(_) => (
                hidden * count + (shared + active) * expert,
                2 * (active + shared) * width + 2 * count,
            ),
        };
        let [weight, activation] = [formats.weights, formats.activations].map(|f| f.bytes().into());
        let numbers = u128::from(card.block_parameters()) - count * expert;
        Cost {
            groups: split(card.layers, groups),
            layer: numbers * weight,
            expert: (expert * weight, count, active),
            flops: 2 * (attention + matrix),
            pair: 4 * q,
            acts: (6 * hidden + 2 * (q + 2 * kv) + 2 * q + inner) * activation,
            kv: u128::from(kv_bytes(card, formats)),
            hidden,
            vocab: u128::from(card.vocab),
            rows: if card.family.learns_positions() { 2 } else { 1 },
            tables: u128::from(card.embedding_parameters()) * weight,
            weight,
            activation,
            norm: u128::from(card.norm_parameters()) * weight,
        }
    }

    /// Bytes of the weights of a group.
    pub(super) fn weights(&self, group: usize) -> u128 {
        let (expert, count, _) = self.expert;
        self.layers(group) * (self.layer + expert * count)
    }

    /// Bytes of the tables of tokens and positions.
    pub(super) fn tables(&self) -> u128 {
        self.tables
    }

    /// The rows that the tokens of an iteration look up; `None` for all of the tables.
    pub(super) fn looked_up(&self, load: &Load) -> Option<PartialUse> {
        let rows = load.tokens.div_ceil(load.iterations) * self.rows;
        let whole = u64::try_from(self.tables).map_or(Bytes::MAX, Bytes::new);
        PartialUse::of(rows, self.hidden * self.weight, whole)
    }

    /// Bytes of the last norm and, unless it is tied, the head.
    pub(super) fn head(&self, tied: bool) -> u128 {
        let matrix = if tied { 0 } else { self.vocab * self.hidden * self.weight };
        matrix + self.norm
    }

    /// Bytes of what a layer hands to the next, its widest output, and the logits.
    pub(super) fn workspace(&self, load: &Load) -> u128 {
        let each = |all: u128| all.div_ceil(load.iterations);
        each(load.tokens) * (self.acts / 2 + self.hidden * self.activation)
            + each(load.drawn) * self.vocab * LOGIT
    }

    /// FLOPs and bytes of a group.
    pub(super) fn of(&self, load: &Load, group: usize) -> (u128, u128) {
        let layers = self.layers(group);
        let (expert, count, active) = self.expert;
        let reached = (count * load.iterations).min(load.tokens * active);
        let mut flops = layers * (load.tokens * self.flops + load.pairs * self.pair);
        let mut bytes = layers
            * (load.iterations * self.layer
                + reached * expert
                + load.tokens * self.acts
                + load.positions * self.kv);
        if group == 0 {
            bytes += load.tokens * self.hidden * (self.rows * self.weight + self.activation);
        }
        if group + 1 == self.groups.len() {
            flops += 2 * load.drawn * self.hidden * self.vocab;
            let head = self.vocab * self.hidden * self.weight + self.norm;
            bytes += load.iterations * head
                + load.drawn * (self.hidden * self.activation + self.vocab * LOGIT);
        }
        (flops, bytes)
    }

    fn layers(&self, group: usize) -> u128 {
        self.groups[group].len() as u128
    }
}

/// Layers in groups that differ by one at most.
fn split(layers: u32, groups: u32) -> Vec<Range<u32>> {
    let at = |group: u32| (u64::from(layers) * u64::from(group) / u64::from(groups)) as u32;
    (0..groups).map(|group| at(group)..at(group + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_a_window_are_those_counted_one_by_one() {
        for window in [None, Some(1), Some(4), Some(100)] {
            for before in 0..9u64 {
                for new in 1..9u64 {
                    let mut load = Load::default();
                    load.add(window, before, new, false);
                    let most = window.map_or(u64::MAX, u64::from);
                    let attended = |p: u64| (p + 1).min(most);
                    let pairs: u64 = (before..before + new).map(attended).sum();
                    // From the first that the first new token attends to.
                    let from = before + 1 - attended(before);
                    let found = (load.pairs, load.positions);
                    let expected = (u128::from(pairs), u128::from(before + new - from));
                    assert_eq!(found, expected, "{window:?} {before} {new}");
                }
            }
        }
    }

    #[test]
    fn layers_are_split_evenly() {
        assert_eq!(split(7, 3), [0..2, 2..4, 4..7]);
        assert_eq!(split(4, 4), [0..1, 1..2, 2..3, 3..4]);
    }
}

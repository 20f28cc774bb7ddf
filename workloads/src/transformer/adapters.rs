//! Adapters of low rank beside frozen matrices.
//!
//! LoRA (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, section 4.1): a
//! matrix W of outputs x inputs stays as it is, and y = W x + B A x, where A is r x inputs and B is
//! outputs x r. Of a model only A and B are trained; their factor alpha / r is a part of the second
//! product and takes no memory. Where queries, keys and values are one matrix, A has r rows for
//! each of them that is adapted, and B the rows of those alone (`MergedLinear` of
//! github:microsoft/LoRA), so that parameters and FLOPs are those of separate matrices.
//!
//! Tensor parallelism splits B where W is split by outputs, and A where W is split by inputs; the
//! other one is on every rank of a tensor group, each of which has a part of its gradient.
//! Invariant: an adapter has exactly two modules, A before B.

use super::card::Card;
use super::modules::{Block, Feed, Module, Split, Tensor};
use crate::limits::ShapeProblem;
use serde::Deserialize;

/// A matrix of a block that may have an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// What is behind attention.
    O,
    /// The gate of the feed-forward part, in a family that has one.
    Gate,
    /// The wide matrix of the feed-forward part.
    Up,
    /// The narrow one.
    Down,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 7] =
        [Target::Q, Target::K, Target::V, Target::O, Target::Gate, Target::Up, Target::Down];

    /// The word used in scenarios and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Target::Q => "q",
            Target::K => "k",
            Target::V => "v",
            Target::O => "o",
            Target::Gate => "gate",
            Target::Up => "up",
            Target::Down => "down",
        }
    }
}

/// Some of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Vec<Target>")]
pub struct Targets(u8);

impl Targets {
    /// Queries and values, as in the paper's experiments and in PEFT unless said otherwise.
    pub const QV: Targets = Targets(1 << Target::Q as u8 | 1 << Target::V as u8);

    /// Whether `target` is among them.
    pub const fn has(self, target: Target) -> bool {
        self.0 & (1 << target as u8) > 0
    }

    /// In the order of a block.
    pub fn iter(self) -> impl Iterator<Item = Target> {
        Target::ALL.into_iter().filter(move |&target| self.has(target))
    }
}

impl From<Vec<Target>> for Targets {
    fn from(all: Vec<Target>) -> Targets {
        Targets(all.into_iter().fold(0, |so_far, target| so_far | 1 << target as u8))
    }
}

impl Default for Targets {
    fn default() -> Targets {
        Targets::QV
    }
}

/// Adapters of all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// Rows of A and columns of B.
    pub rank: u32,
    /// The matrices that have them.
    #[serde(default)]
    pub targets: Targets,
}

/// The largest rank.
const MOST: u32 = 1 << 14;

impl Lora {
    /// Parameters of the adapters of a whole model: all that is trained of it.
    pub fn parameters(&self, card: &Card) -> u128 {
        let rank = u128::from(self.rank);
        let each = self.targets.iter().map(|target| {
            let [outputs, inputs] = shape(card, target).map(u128::from);
            rank * (outputs + inputs)
        });
        each.sum::<u128>() * u128::from(card.layers)
    }

    /// Every rule that adapters of this model break; empty for those that make a step.
    pub fn problems(&self, card: &Card) -> Vec<ShapeProblem> {
        let mut found = Vec::new();
        let mut add =
            |field, rule: String, remedy| found.push(ShapeProblem { field, rule, remedy });
        if !(1..=MOST).contains(&self.rank) {
            let rule = format!("`rank` must lie between 1 and {MOST}, it is {}", self.rank);
            add("lora.rank", rule, "write 16");
        }
        if self.targets.0 == 0 {
            let rule = "no matrix has an adapter, so that nothing is trained".to_owned();
            add("lora.targets", rule, "write `[q, v]`");
        }
        let of_feed = [Target::Gate, Target::Up, Target::Down];
        if card.experts.is_some() && of_feed.into_iter().any(|target| self.targets.has(target)) {
            let rule = "experts have no adapters here".to_owned();
            add("lora.targets", rule, "choose from q, k, v and o");
        } else if self.targets.has(Target::Gate) && !card.family.is_gated() {
            let rule = format!("the feed-forward part of {} has no gate", card.family.word());
            add("lora.targets", rule, "leave `gate` out");
        }
        found
    }
}

/// Outputs and inputs of a target.
fn shape(card: &Card, target: Target) -> [u64; 2] {
    let [hidden, ffn] = [card.hidden, card.ffn].map(u64::from);
    match target {
        Target::Q => [card.q_width(), hidden],
        Target::K | Target::V => [card.kv_width(), hidden],
        Target::O => [hidden, card.q_width()],
        Target::Gate | Target::Up => [ffn, hidden],
        Target::Down => [hidden, ffn],
    }
}

/// Gives the matrices of a block their adapters.
pub(crate) fn adapt(block: &mut Block, card: &Card, lora: Lora) {
    let wanted = |all: &[Target]| -> Vec<Target> {
        all.iter().copied().filter(|&target| lora.targets.has(target)).collect()
    };
    let of_attention = [Target::Q, Target::K, Target::V];
    if let [one] = &mut block.qkv[..] {
        put(one, card, lora, &wanted(&of_attention), Split::Rows);
    } else {
        for (part, target) in block.qkv.iter_mut().zip(of_attention) {
            put(part, card, lora, &wanted(&[target]), Split::Rows);
        }
    }
    put(&mut block.out, card, lora, &wanted(&[Target::O]), Split::Columns);
    let Feed::Dense(feed) = &mut block.feed else { return };
    let wide: &[Target] = match feed.up_proj.len() {
        1 => &[Target::Up],
        _ => &[Target::Gate, Target::Up],
    };
    for (part, &target) in feed.up_proj.iter_mut().zip(wide) {
        put(part, card, lora, &wanted(&[target]), Split::Rows);
    }
    put(&mut feed.down_proj, card, lora, &wanted(&[Target::Down]), Split::Columns);
}

/// One adapter of `module` for all of `targets`, whose matrix is divided along `split`.
fn put(module: &mut Module, card: &Card, lora: Lora, targets: &[Target], split: Split) {
    let Some(&first) = targets.first() else { return };
    let rank = u64::from(lora.rank);
    let [_, inputs] = shape(card, first);
    let outputs = targets.iter().map(|&target| shape(card, target)[0]).sum();
    let matrix = |word: &str, rows, columns, split| Module {
        name: format!("{}.lora_{word}", module.name),
        tensors: vec![Tensor { rows, columns, split, product: true, heads: None }],
        adapter: None,
        packs: false,
    };
    let splits = match split {
        Split::Rows => [Split::Whole, Split::Rows],
        _ => [Split::Columns, Split::Whole],
    };
    let a = matrix("A", rank * targets.len() as u64, inputs, splits[0]);
    let b = matrix("B", outputs, rank, splits[1]);
    module.adapter = Some(Box::new([a, b]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::known::known;
    use crate::transformer::modules::block;

    #[test]
    fn trained_parameters_are_those_of_the_paper() {
        let card = |name| known(name).expect("it is known").card();
        let of = |card: &Card, rank, targets| Lora { rank, targets }.parameters(card);
        let gpt_3 = card("megatron-175b");
        // Table 4 of the paper: 4.7M with r = 1 and 37.7M with r = 8, of queries and values.
        assert_eq!(of(&gpt_3, 1, Targets::QV), 4_718_592);
        assert_eq!(of(&gpt_3, 4, Targets::QV), 2 * 4 * 12_288 * 2 * 96);
        assert_eq!(of(&gpt_3, 8, Targets::QV), 37_748_736);
        // PEFT's `print_trainable_parameters` of Llama 2 7B with r = 8 of q and v.
        assert_eq!(of(&card("llama-2-7b"), 8, Targets::QV), 4_194_304);
        // All matrices: 4 of 4096 x 4096 and 3 of 4096 x 11008.
        let all = Targets::from(Target::ALL.to_vec());
        let expected = 32 * 16 * (4 * 2 * 4096 + 3 * (4096 + 11_008));
        assert_eq!(of(&card("llama-2-7b"), 16, all), expected);
    }

    #[test]
    fn modules_have_the_parameters_of_the_formula() {
        for name in ["gpt2", "llama-3-8b", "opt-30b", "bloom-176b", "qwen2.5-7b"] {
            let card = known(name).expect("it is known").card();
            for targets in (1..128).map(Targets) {
                let lora = Lora { rank: 3, targets };
                if !lora.problems(&card).is_empty() {
                    continue;
                }
                let mut block = block(&card, 0, 1);
                adapt(&mut block, &card, lora);
                let modules = block.modules().into_iter();
                let adapters =
                    modules.flat_map(|(module, _)| module.adapter.iter().flat_map(|a| a.iter()));
                let found: u128 = adapters.map(|adapter| adapter.parameters(1)).sum();
                assert_eq!(found * u128::from(card.layers), lora.parameters(&card), "{name}");
            }
        }
    }
}

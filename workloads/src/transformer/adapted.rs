//! The modules of adapters, put beside the matrices that they adapt.
//!
//! Invariant: an adapter has exactly two modules, A before B.

use super::adapters::{Lora, Target, shape};
use super::card::Card;
use super::modules::{Block, Feed, Module, Split, Tensor};

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
        tensors: vec![Tensor { rows, columns, split, product: true, heads: None, least: 0 }],
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
    use crate::transformer::adapters::Targets;
    use crate::transformer::known::known;
    use crate::transformer::modules::block;

    /// The targets whose bits are set.
    fn some(bits: u8) -> Targets {
        let chosen = |&(at, _): &(usize, Target)| bits & (1 << at) > 0;
        let all = Target::ALL.into_iter().enumerate().filter(chosen);
        Targets::from(all.map(|(_, target)| target).collect::<Vec<Target>>())
    }

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
            for targets in (1..128u8).map(some) {
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

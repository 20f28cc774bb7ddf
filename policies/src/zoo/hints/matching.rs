//! Which hint a module of the trace follows.
//!
//! Programs name one module in several ways: `transformer.h.0.mlp` in the whole model, `h.0.mlp` in
//! its body, `layers.0.mlp` in a generated trace. A hint is for the module of its name, else for
//! the one whose name is the same without the wrappers of frameworks, else for all modules inside.
//! Invariant: a module follows the nearest of the hints that fit, and every hint is accounted for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use tiersim_models::results::hints::How;

/// Names that models and wrappers put before their parts.
const PREFIXES: [&str; 7] =
    ["_orig_mod", "module", "base_model", "model", "transformer", "gpt_neox", "decoder"];
/// Names of the list of layers.
const LISTS: [&str; 5] = ["h", "layers", "layer", "blocks", "block"];
/// Names of the table of tokens, of the head and of the parts of a block, and what generated traces
/// call them.
const PARTS: [(&[&str], &str); 4] = [
    (&["wte", "embed_tokens", "word_embeddings", "embed_in", "tok_embeddings"], "embedding"),
    (&["lm_head", "embed_out"], "head"),
    (&["attn", "self_attn", "self_attention"], "attention"),
    (&["feed_forward", "block_sparse_moe"], "mlp"),
];

/// For each module the hint that it follows, by position in `hints`, and how it was found.
pub(super) fn follow(modules: &[impl AsRef<str>], hints: &[&str]) -> Vec<Option<(usize, How)>> {
    let exact: BTreeMap<&str, usize> = hints.iter().copied().zip(0..).collect();
    let mut plain: BTreeMap<String, usize> = BTreeMap::new();
    for (index, hint) in hints.iter().enumerate() {
        plain.entry(canonical(hint)).or_insert(index);
    }
    let find = |module: &str| {
        let name = canonical(module);
        let mut best = exact.get(module).map(|&index| (index, How::Name));
        best = best.or_else(|| plain.get(&name).map(|&index| (index, How::Prefix)));
        // The nearest parent, as the module is written and without prefixes.
        let inside = parents(module).find_map(|parent| exact.get(parent));
        best.or_else(|| {
            let plain = || parents(&name).find_map(|parent| plain.get(parent));
            inside.or_else(plain).map(|&index| (index, How::Parent))
        })
    };
    modules.iter().map(|module| find(module.as_ref())).collect()
}

/// Names of the modules around a module, the nearest first.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('.').map(|(at, _)| &name[..at])
}

/// A name without known prefixes, and with one name for the list of layers and for each part.
fn canonical(name: &str) -> String {
    let name = plain(name);
    let part = |word: &str| {
        let found = PARTS.iter().find(|(words, _)| words.contains(&word));
        found.map_or(word.to_owned(), |(_, part)| (*part).to_owned())
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

fn plain(name: &str) -> String {
    let mut rest = name;
    while let Some((first, inside)) = rest.split_once('.')
        && PREFIXES.contains(&first)
    {
        rest = inside;
    }
    let numbered = |inside: &str| inside.starts_with(|c: char| c.is_ascii_digit());
    let layers = match rest.split_once('.') {
        Some((first, inside)) if LISTS.contains(&first) && numbered(inside) => {
            Cow::from(format!("layers.{inside}"))
        }
        _ => Cow::from(rest),
    };
    layers.into_owned()
}

#[cfg(test)]
mod tests {
    use super::{How, canonical, follow};

    #[test]
    fn one_module_has_one_plain_name_however_it_is_written() {
        for name in ["transformer.h.0.mlp", "h.0.mlp", "layers.0.mlp", "module.model.layers.0.mlp"]
        {
            assert_eq!(canonical(name), "layers.0.mlp", "{name}");
        }
        assert_eq!(canonical("transformer.wte"), "embedding");
        assert_eq!(canonical("model.layers.3.self_attn.q_proj"), "layers.3.attention.q_proj");
        assert_eq!(canonical("h.attention"), "h.attention");
        assert_eq!(canonical("model"), "model");
    }

    #[test]
    fn the_nearest_hint_is_followed() {
        let modules = ["transformer.h.0.mlp", "transformer.h.0.mlp.c_fc", "transformer.h.1.attn"];
        let modules = [modules.as_slice(), &["transformer.wte", "lm_head"]].concat();
        let modules: Vec<String> = modules.into_iter().map(str::to_owned).collect();
        let hints = ["h.0", "h.0.mlp", "nowhere", "transformer", "transformer.h.0.mlp"];
        let found = follow(&modules, &hints);
        assert_eq!(found[0], Some((4, How::Name)));
        assert_eq!(found[1], Some((4, How::Parent)));
        assert_eq!(found[2], Some((3, How::Parent)));
        assert_eq!(found[3], Some((3, How::Parent)));
        assert_eq!(found[4], None);
        assert_eq!(
            follow(&modules, &hints[..2])[..2],
            [Some((1, How::Prefix)), Some((1, How::Parent))]
        );
    }
}

//! The modules before and behind the blocks.

use super::{Module, Source, Split};
use crate::transformer::card::{Card, CardTensor, Family};

/// The modules before and behind the blocks.
#[derive(Clone, Debug)]
pub(crate) struct EmbeddingAndHead {
    pub(crate) tokens: Module,
    pub(crate) positions: Option<Module>,
    /// Token types, in a family that has them.
    pub(crate) types: Option<Module>,
    /// The norm behind the embedding, in a family that has one.
    pub(crate) norm_0: Option<Module>,
    pub(crate) norm: Module,
    pub(crate) head_name: String,
    /// `None` if it is tied.
    pub(crate) head: Option<Module>,
    /// The matrix before the last norm, and the bias of the logits, in a family that has them.
    pub(crate) transform: Option<[Module; 2]>,
}

impl EmbeddingAndHead {
    /// Tables, and a norm behind them.
    pub(crate) fn embedding(&self) -> impl Iterator<Item = &Module> {
        [&self.tokens].into_iter().chain(&self.types).chain(&self.positions).chain(&self.norm_0)
    }

    /// What is behind the blocks, in the order in which it runs.
    pub(crate) fn end(&self) -> impl Iterator<Item = &Module> {
        let [dense, bias] = self.transform.as_ref().map_or([None; 2], |[a, b]| [Some(a), Some(b)]);
        dense.into_iter().chain([&self.norm]).chain(&self.head).chain(bias)
    }

    pub(crate) fn new(card: &Card) -> EmbeddingAndHead {
        let (before, behind) = card.around();
        let all: Vec<CardTensor> = before.into_iter().chain(behind).collect();
        let source = Source { family: card.family, prefix: String::new(), tensors: &all };
        let find = |names: &[&'static str]| names.iter().copied().find(|name| source.has(name));
        let whole = |name: &str| source.take(name, Split::Whole, false);
        let tokens = find(&[
            "transformer.wte",
            "transformer.word_embeddings",
            "gpt_neox.embed_in",
            "model.decoder.embed_tokens",
            "model.embed_tokens",
            "bert.embeddings.word_embeddings",
            "roberta.embeddings.word_embeddings",
        ]);
        let positions = find(&[
            "transformer.wpe",
            "model.decoder.embed_positions",
            "bert.embeddings.position_embeddings",
            "roberta.embeddings.position_embeddings",
        ]);
        let types = find(&[
            "bert.embeddings.token_type_embeddings",
            "roberta.embeddings.token_type_embeddings",
        ]);
        let norm_0 = find(&[
            "transformer.word_embeddings_layernorm",
            "bert.embeddings.LayerNorm",
            "roberta.embeddings.LayerNorm",
        ]);
        let transform = card.family.head_names();
        let norm = find(&[
            "transformer.ln_f",
            "transformer.norm_f",
            "gpt_neox.final_layer_norm",
            "model.decoder.final_layer_norm",
            "model.final_layernorm",
            "model.norm",
        ]);
        let norm = norm.or(transform.map(|[_, _, norm]| norm));
        let has_own = !card.tied;
        EmbeddingAndHead {
            tokens: source.take(tokens.expect("every family has a table"), Split::Rows, false),
            positions: positions.map(whole),
            types: types.map(whole),
            norm_0: norm_0.map(whole),
            norm: whole(norm.expect("every family has a norm")),
            head_name: match card.family {
                Family::Bert => "cls.predictions.decoder".to_owned(),
                Family::Roberta => "lm_head.decoder".to_owned(),
                _ => "lm_head".to_owned(),
            },
            head: has_own.then(|| source.take("lm_head", Split::Rows, true)),
            transform: transform.map(|[bias, dense, _]| {
                let dense = source.take(dense, Split::Whole, true);
                [dense, source.take(bias, Split::Rows, false)]
            }),
        }
    }
}

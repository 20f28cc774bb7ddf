//! The makers' families: what a block is made of, and what its modules are called.
//!
//! What a family has is asked here, each thing of one place; nobody else tells families apart to
//! find out what a block does.

use serde::Deserialize;

/// The makers' families: names of modules, and what a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Learned positions, LayerNorm, biases everywhere, one matrix for queries, keys and values.
    Gpt2,
    /// Rotary positions, RMSNorm, no biases, a gated feed-forward part.
    Llama,
    /// As [`Family::Llama`]; attention may be windowed.
    Mistral,
    /// As [`Family::Mistral`], with experts in the place of the feed-forward part.
    Mixtral,
    /// As [`Family::Llama`]; with biases on queries, keys and values (Qwen2), or without and with a
    /// norm of every head's queries and keys (Qwen3). Either may have experts.
    Qwen,
    /// Learned positions (two rows more than said), LayerNorm, biases everywhere, separate
    /// matrices.
    Opt,
    /// ALiBi, LayerNorm (one behind the embedding too), biases everywhere, one matrix for queries,
    /// keys and values.
    Bloom,
    /// An encoder: tokens attend to all others, LayerNorm behind every sum and behind the
    /// embedding, learned positions and two token types, biases everywhere, GeLU by the error
    /// function; the head for masked language modelling has a matrix, GeLU and a norm before the
    /// tied table and its bias.
    Bert,
    /// As [`Family::Bert`], with one token type.
    Roberta,
    /// As [`Family::Mixtral`], with biases on the four matrices of attention, the router and every
    /// expert, and a number per query head that joins its softmax (a sink).
    GptOss,
    /// As [`Family::Llama`], with a norm behind attention and one behind the feed-forward part too,
    /// before they are added to the residual stream; attention may be windowed. The gate is GeLU.
    Gemma2,
    /// As [`Family::Gemma2`], with a norm of every head's queries and keys.
    Gemma3,
    /// As [`Family::Gemma2`], with biases on queries, keys and values if it says so.
    Glm4,
    /// As [`Family::Llama`] without biases, with experts, of which some serve every token unweighed,
    /// in all blocks but the first ones; keys and values may follow from one compressed row per
    /// token.
    Deepseek,
    /// As [`Family::Deepseek`], keys and values of every head; with biases on queries, keys and
    /// values if it says so.
    Glm4Moe,
    /// As [`Family::Glm4Moe`], with a norm of every head's queries and keys.
    Glm4MoeNormed,
    /// Attention and the feed-forward part side by side, each behind a LayerNorm of its own; rotary
    /// positions, biases everywhere, one matrix for queries, keys and values, GeLU by the error
    /// function.
    GptNeox,
    /// As [`Family::GptNeox`], behind one LayerNorm and without biases of matrices; heads may share
    /// keys and values.
    Falcon,
    /// As [`Family::Falcon`], each part behind a LayerNorm of its own.
    Falcon40b,
    /// As [`Family::GptNeox`], behind one LayerNorm, with separate matrices, the head's with a bias.
    Phi,
    /// As [`Family::Phi`], without biases of attention.
    Gptj,
    /// As [`Family::Llama`], attention and the feed-forward part side by side behind one LayerNorm
    /// without biases; attention may be windowed.
    Cohere,
    /// As [`Family::Cohere`], with a norm of every head's queries and keys, whose weights each head
    /// has of its own.
    CohereNormed,
    /// Rotary positions, LayerNorm, biases everywhere, separate matrices, heads that share keys and
    /// values; attention may be windowed.
    Starcoder2,
    /// As [`Family::Llama`] with LayerNorm; with biases on queries, keys and values if it says so.
    Stablelm,
    /// As [`Family::Llama`], with a norm behind attention and one behind the feed-forward part and
    /// none before them, and a norm of all queries of a token, and of all keys; attention may be
    /// windowed.
    Olmo2,
    /// As [`Family::Olmo2`], with a norm of every head's queries and keys instead.
    Exaone4,
    /// As [`Family::Mixtral`], with a norm of all queries of a token, and of all keys (OLMoE,
    /// MiniMax M2).
    Olmoe,
    /// As [`Family::Llama`] without a gate: squared ReLU.
    Arcee,
    /// As [`Family::Arcee`] with LayerNorm.
    Nemotron,
    /// As [`Family::Mixtral`] with LayerNorm; with biases on the four matrices of attention and the
    /// head's if it says so.
    Phimoe,
    /// As [`Family::Mixtral`]; with biases on the four matrices of attention if it says so.
    Granitemoe,
    /// As [`Family::Mixtral`], with experts that every token goes through unweighed beside the
    /// others, and a norm of every head's queries and keys, without weights; with biases on the
    /// four matrices of attention if it says so.
    Llama4,
    /// ALiBi, LayerNorm without biases, no biases of matrices, one matrix for queries, keys and
    /// values, GeLU by the error function.
    Mpt,
    /// As [`Family::Mixtral`] with LayerNorm without biases, and one matrix for queries, keys and
    /// values.
    Dbrx,
}

/// What a norm computes of a row, and what weights it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// The root of the mean square; a scale for each number.
    Rms,
    /// Mean and variance; a scale and, `biased`, a bias for each number.
    Layer {
        /// Whether there are biases.
        biased: bool,
    },
}

/// Where the norms of a block's residual stream stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlaces {
    /// Before attention, and before the feed-forward part.
    Before,
    /// Behind each sum with the residual stream (post-norm); there is none behind the blocks then.
    BehindSums,
    /// Behind attention and behind the feed-forward part, before each sum.
    BehindParts,
    /// Before and behind attention and the feed-forward part.
    Around,
    /// One, before attention and the feed-forward part, which stand side by side.
    BeforeBoth,
    /// One before each of the two, which stand side by side.
    BeforeEach,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadNorms {
    /// Of each head, all with the same weights.
    Alike,
    /// Of each head, with weights of its own.
    Own,
    /// Of all heads of a token together.
    Together,
    /// Of each head, without weights.
    Weightless,
}

/// Which matrices of a block have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Biases {
    /// None.
    None,
    /// Those of the feed-forward part alone.
    Feed,
    /// Those of attention alone, and experts if there are any.
    Attention,
    /// All.
    All,
    /// Queries, keys and values if a model's maker chose so.
    OpenQkv,
    /// The four of attention if a model's maker chose so.
    OpenAttention,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 35] = [
        Family::Gpt2,
        Family::Llama,
        Family::Mistral,
        Family::Mixtral,
        Family::Qwen,
        Family::Opt,
        Family::Bloom,
        Family::Bert,
        Family::Roberta,
        Family::GptOss,
        Family::Gemma2,
        Family::Gemma3,
        Family::Glm4,
        Family::Deepseek,
        Family::Glm4Moe,
        Family::Glm4MoeNormed,
        Family::GptNeox,
        Family::Falcon,
        Family::Falcon40b,
        Family::Phi,
        Family::Gptj,
        Family::Cohere,
        Family::CohereNormed,
        Family::Starcoder2,
        Family::Stablelm,
        Family::Olmo2,
        Family::Exaone4,
        Family::Olmoe,
        Family::Arcee,
        Family::Nemotron,
        Family::Phimoe,
        Family::Granitemoe,
        Family::Llama4,
        Family::Mpt,
        Family::Dbrx,
    ];

    /// The word used in tables and messages.
    pub const fn word(self) -> &'static str {
        match self {
            Family::Gpt2 => "gpt2",
            Family::Llama => "llama",
            Family::Mistral => "mistral",
            Family::Mixtral => "mixtral",
            Family::Qwen => "qwen",
            Family::Opt => "opt",
            Family::Bloom => "bloom",
            Family::Bert => "bert",
            Family::Roberta => "roberta",
            Family::GptOss => "gpt_oss",
            Family::Gemma2 => "gemma2",
            Family::Gemma3 => "gemma3",
            Family::Glm4 => "glm4",
            Family::Deepseek => "deepseek",
            Family::Glm4Moe => "glm4_moe",
            Family::Glm4MoeNormed => "glm4_moe_normed",
            Family::GptNeox => "gpt_neox",
            Family::Falcon => "falcon",
            Family::Falcon40b => "falcon40b",
            Family::Phi => "phi",
            Family::Gptj => "gptj",
            Family::Cohere => "cohere",
            Family::CohereNormed => "cohere_normed",
            Family::Starcoder2 => "starcoder2",
            Family::Stablelm => "stablelm",
            Family::Olmo2 => "olmo2",
            Family::Exaone4 => "exaone4",
            Family::Olmoe => "olmoe",
            Family::Arcee => "arcee",
            Family::Nemotron => "nemotron",
            Family::Phimoe => "phimoe",
            Family::Granitemoe => "granitemoe",
            Family::Llama4 => "llama4",
            Family::Mpt => "mpt",
            Family::Dbrx => "dbrx",
        }
    }

    /// Whether a token attends to none behind it. Where it does, the model is an encoder and cannot
    /// generate text.
    pub const fn is_causal(self) -> bool {
        !matches!(self, Family::Bert | Family::Roberta)
    }

    /// Where the norms of a block's residual stream stand.
    pub const fn norm_places(self) -> NormPlaces {
        use Family::*;
        match self {
            Bert | Roberta => NormPlaces::BehindSums,
            Olmo2 | Exaone4 => NormPlaces::BehindParts,
            Gemma2 | Gemma3 | Glm4 => NormPlaces::Around,
            Falcon | Phi | Gptj | Cohere | CohereNormed => NormPlaces::BeforeBoth,
            GptNeox | Falcon40b => NormPlaces::BeforeEach,
            _ => NormPlaces::Before,
        }
    }

    /// Whether norms stand behind the sums of a block (post-norm), not before attention and the
    /// feed-forward part; there is none behind the blocks then.
    pub const fn is_post_norm(self) -> bool {
        matches!(self.norm_places(), NormPlaces::BehindSums)
    }

    /// Whether a norm stands behind attention, and one behind the feed-forward part, before each is
    /// added to the residual stream.
    pub const fn norms_parts(self) -> bool {
        matches!(self.norm_places(), NormPlaces::BehindParts | NormPlaces::Around)
    }

    /// Whether attention and the feed-forward part are given the same tokens and added to the
    /// residual stream together.
    pub const fn is_parallel(self) -> bool {
        matches!(self.norm_places(), NormPlaces::BeforeBoth | NormPlaces::BeforeEach)
    }

    /// Norms of the residual stream in a block.
    pub const fn block_norms(self) -> u8 {
        match self.norm_places() {
            NormPlaces::BeforeBoth => 1,
            NormPlaces::Around => 4,
            _ => 2,
        }
    }

    /// What its norms compute.
    pub const fn norm(self) -> NormKind {
        use Family::*;
        match self {
            Gpt2 | Opt | Bloom | Bert | Roberta | GptNeox | Falcon | Falcon40b | Phi | Gptj
            | Starcoder2 | Stablelm | Nemotron | Phimoe => NormKind::Layer { biased: true },
            Cohere | CohereNormed | Mpt | Dbrx => NormKind::Layer { biased: false },
            _ => NormKind::Rms,
        }
    }

    /// Numbers that a norm keeps of a row for its backward pass: its root, or mean and root.
    pub const fn norm_statistics(self) -> u8 {
        match self.norm() {
            NormKind::Rms => 1,
            NormKind::Layer { .. } => 2,
        }
    }

    /// Whether its norms have biases beside scales.
    pub const fn norm_has_bias(self) -> bool {
        matches!(self.norm(), NormKind::Layer { biased: true })
    }

    /// Norms of queries and keys; `qkv_bias` tells Qwen2 from Qwen3.
    pub const fn head_norms(self, qkv_bias: bool) -> Option<HeadNorms> {
        match self {
            Family::Qwen if qkv_bias => None,
            Family::Qwen | Family::Gemma3 | Family::Glm4MoeNormed | Family::Exaone4 => {
                Some(HeadNorms::Alike)
            }
            Family::CohereNormed => Some(HeadNorms::Own),
            Family::Llama4 => Some(HeadNorms::Weightless),
            Family::Olmo2 | Family::Olmoe => Some(HeadNorms::Together),
            _ => None,
        }
    }

    /// Which matrices have biases.
    pub const fn biases(self) -> Biases {
        use Family::*;
        match self {
            Gpt2 | Opt | Bloom | Bert | Roberta | GptNeox | Phi | Starcoder2 => Biases::All,
            Gptj => Biases::Feed,
            GptOss => Biases::Attention,
            Llama | Arcee | Nemotron | Phimoe | Granitemoe | Llama4 => Biases::OpenAttention,
            Qwen | Glm4 | Glm4Moe | Glm4MoeNormed | Stablelm => Biases::OpenQkv,
            _ => Biases::None,
        }
    }

    /// Whether queries, keys and values have biases, unless a model says otherwise.
    pub const fn has_qkv_bias(self) -> bool {
        matches!(self.biases(), Biases::All | Biases::Attention)
    }

    /// Whether a norm follows the embedding.
    pub const fn norms_embedding(self) -> bool {
        matches!(self, Family::Bloom | Family::Bert | Family::Roberta)
    }

    /// Rows of the table of token types; 0 for a family without.
    pub const fn token_types(self) -> u32 {
        match self {
            Family::Bert => 2,
            Family::Roberta => 1,
            _ => 0,
        }
    }

    /// Whether the head has a matrix, an activation and a norm before the product with the table,
    /// which has a bias (the head for masked language modelling).
    pub const fn transforms_head(self) -> bool {
        !self.is_causal()
    }

    /// Whether a head of its own has a bias; where that is open, `qkv_bias` says so too.
    pub const fn head_has_bias(self, qkv_bias: bool) -> bool {
        match self {
            Family::Phi | Family::Gptj => true,
            Family::Phimoe => qkv_bias,
            _ => false,
        }
    }

    /// Whether the head uses the embedding's matrix, unless a model says otherwise.
    pub const fn ties_head(self) -> bool {
        use Family::*;
        matches!(self, Gpt2 | Opt | Bloom | Bert | Roberta)
            || matches!(self, Falcon | Falcon40b | Cohere | CohereNormed | Starcoder2 | Mpt)
    }

    /// Whether queries and keys are turned by position, in pairs of channels.
    pub const fn is_rotary(self) -> bool {
        use Family::*;
        !matches!(self, Gpt2 | Opt | Bloom | Bert | Roberta | Mpt)
    }

    /// Whether attention is as wide as the residual stream, and every head has its own keys and
    /// values.
    pub const fn has_plain_heads(self) -> bool {
        use Family::*;
        matches!(self, Gpt2 | Opt | Bloom | Bert | Roberta | GptNeox | Phi | Gptj | Mpt)
    }

    /// Whether positions have a table of their own.
    pub const fn learns_positions(self) -> bool {
        matches!(self, Family::Gpt2 | Family::Opt | Family::Bert | Family::Roberta)
    }

    /// Whether blocks may have experts, and whether they must.
    pub const fn experts(self) -> (bool, bool) {
        match self {
            Family::Mixtral | Family::GptOss | Family::Olmoe => (true, true),
            Family::Phimoe | Family::Granitemoe | Family::Llama4 | Family::Dbrx => (true, true),
            Family::Qwen | Family::Deepseek | Family::Glm4Moe | Family::Glm4MoeNormed => {
                (true, false)
            }
            _ => (false, false),
        }
    }

    /// Whether blocks may have experts that every token goes through, beside those that it is given
    /// to.
    pub const fn may_share(self) -> bool {
        matches!(self, Family::Qwen | Family::Llama4) || self.has_plain_shared()
    }

    /// Whether blocks in front may be without experts, and experts that every token goes through
    /// are not weighed.
    pub const fn has_plain_shared(self) -> bool {
        matches!(self, Family::Deepseek | Family::Glm4Moe | Family::Glm4MoeNormed)
    }

    /// Whether it is known which kernels run eagerly, one for each operator.
    pub const fn has_known_eager(self) -> bool {
        use Family::*;
        matches!(self, Gpt2 | Llama | Mistral | Mixtral | Qwen | Opt | Bert | Roberta)
    }

    /// Whether it is files with 4 bits for experts alone that makers publish, so that nothing else
    /// of a block is packed.
    pub(crate) const fn packs_experts_only(self) -> bool {
        matches!(self, Family::GptOss)
    }

    /// Whether the feed-forward part multiplies with a gate: three matrices instead of two.
    pub const fn is_gated(self) -> bool {
        matches!(Activation::of(self), Activation::GatedSilu)
    }
}

/// What lies between the matrices of the feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// GeLU by tanh.
    Gelu,
    /// GeLU by the error function, of which eager kernels keep the input alone.
    ErfGelu,
    /// ReLU.
    Relu,
    /// The square of ReLU, whose gradient asks for what it was given.
    SquaredRelu,
    /// SiLU, or in Gemma GeLU, of one half times the other half.
    GatedSilu,
}

impl Activation {
    /// What a family has there.
    pub const fn of(family: Family) -> Activation {
        use Family::*;
        match family {
            Gpt2 | Bloom | Phi | Gptj | Starcoder2 => Activation::Gelu,
            Bert | Roberta | GptNeox | Falcon | Falcon40b | Mpt => Activation::ErfGelu,
            Opt => Activation::Relu,
            Arcee | Nemotron => Activation::SquaredRelu,
            _ => Activation::GatedSilu,
        }
    }
}

//! What passes keep for the backward pass: plain data, which forward passes make and backward
//! passes take.

use std::collections::BTreeMap;
use tiersim_models::ids::ObjectId;

/// What attention keeps beside queries, keys, values and its output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Core {
    /// Nothing: there is no backward pass.
    Nothing,
    /// Sums of the fused kernel.
    Flash(ObjectId),
    /// Softmax; with dropout its mask and what it leaves.
    Scores(ObjectId, Option<(ObjectId, ObjectId)>),
    /// What eager kernels keep of scores.
    EagerScores(KeptScores),
}

/// What a feed-forward part keeps beside its input.
#[derive(Clone, Debug)]
pub(crate) struct SavedFeedForward {
    /// Outputs of the wide matrices, where the activation needs its input.
    pub(crate) up_proj: Vec<ObjectId>,
    /// The gate behind its SiLU.
    pub(crate) gate: Option<ObjectId>,
    pub(crate) active: ObjectId,
    /// What eager kernels of GeLU keep beside.
    pub(crate) gelu: Option<Gelu>,
}

/// What the experts of a block keep.
#[derive(Clone, Debug)]
pub(crate) struct SavedByExperts {
    pub(crate) gates: ObjectId,
    /// Copies of tokens as this rank's experts get them.
    pub(crate) given: ObjectId,
    /// Tokens of each of this rank's experts.
    pub(crate) tokens: Vec<u128>,
    pub(crate) experts: Vec<Option<SavedFeedForward>>,
    /// What comes back for this rank's tokens.
    pub(crate) back: ObjectId,
    pub(crate) shared: Option<SavedByShared>,
    /// Of eager kernels, which have all experts of a layer in one product.
    pub(crate) groups: Option<KeptByGroups>,
}

/// What the experts of every token keep.
#[derive(Clone, Debug)]
pub(crate) struct SavedByShared {
    pub(crate) kept: SavedFeedForward,
    /// Their output and its weight, if it is weighed.
    pub(crate) weighed: Option<[ObjectId; 2]>,
}

/// What follows attention keeps beside its input.
#[derive(Clone, Debug)]
pub(crate) enum SavedFeed {
    Dense(SavedFeedForward),
    Mixture(SavedByExperts),
}

/// What a block keeps for its backward pass.
#[derive(Clone, Debug)]
pub(crate) struct SavedActivations {
    /// The block's input: of its first norm or, post-norm, of its first products.
    pub(crate) input: ObjectId,
    /// What queries, keys and values were made of, and what the feed-forward part was given.
    pub(crate) given: [ObjectId; 2],
    /// Of the norm before attention and of that before the feed-forward part or, post-norm, of
    /// those behind the sums; where there are such.
    pub(crate) normed: [Option<Normed>; 2],
    /// Norms on the way to queries, keys and values: of every head's, of eager kernels, or of what
    /// tokens are compressed to, for queries first.
    pub(crate) qkv_norms: Vec<Normed>,
    pub(crate) qkv: Vec<ObjectId>,
    pub(crate) core: Core,
    pub(crate) mixed: ObjectId,
    /// What attention's last product gave, and the first object behind that product.
    pub(crate) projected: ObjectId,
    pub(crate) behind: ObjectId,
    /// Of dropout behind attention, and behind the feed-forward part.
    pub(crate) masks: [Option<ObjectId>; 2],
    /// Of norms behind attention and the feed-forward part.
    pub(crate) normed_parts: Vec<Normed>,
    pub(crate) feed: SavedFeed,
    /// Of all that what is in 8 bits, without the input.
    pub(crate) compressed: Vec<ObjectId>,
}

/// What all layers of a micro-batch share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    /// Cosines and sines.
    pub(crate) rotary: BTreeMap<u32, [ObjectId; 2]>,
    /// The causal mask of one forward pass, by the name of that pass.
    pub(super) mask: Option<(String, ObjectId)>,
}

/// What attention of two products keeps beside its output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptScores {
    /// Copies of queries, keys and values, as many heads each.
    pub(crate) qkv: [ObjectId; 3],
    /// The softmax, in fp32 or, in GPT-2, in the format of scores.
    pub(crate) softmax: ObjectId,
    /// The softmax as values are multiplied with it, before dropout.
    pub(crate) narrow: ObjectId,
    /// The mask of dropout, and what it leaves.
    pub(crate) dropped: Option<(ObjectId, ObjectId)>,
}

/// What a head keeps that has a product and GeLU before its norm: what both were given, and what
/// the norm is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transformed {
    pub(crate) x: ObjectId,
    pub(crate) out: ObjectId,
    pub(crate) active: ObjectId,
}

/// What a norm was given and gave, and what it keeps beside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normed {
    pub(crate) x: ObjectId,
    pub(crate) y: ObjectId,
    /// Of eager kernels.
    pub(crate) kept: Option<KeptByNorm>,
}

/// What an eager norm keeps beside its input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptByNorm {
    /// One root per row, or mean and root, in fp32.
    pub(crate) statistics: ObjectId,
    /// Of RMSNorm: its input in fp32, and what is multiplied with the weights.
    pub(crate) scaled: Option<(ObjectId, ObjectId)>,
}

/// What grouped products keep beside the input of experts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptByGroups {
    /// The router's probabilities; of those of the chosen experts a copy, their sum per token, and
    /// each over that sum by token and by expert.
    pub(crate) probabilities: ObjectId,
    pub(crate) chosen: ObjectId,
    pub(crate) sums: ObjectId,
    pub(crate) weights: ObjectId,
    /// Outputs of the wide matrices, SiLU of one half, and that times the other.
    pub(crate) gate_up: ObjectId,
    pub(crate) silu: ObjectId,
    pub(crate) active: ObjectId,
}

/// What GeLU keeps beside its input and its output: half of the input, tanh, and 1 more than that.
pub(crate) type Gelu = [ObjectId; 3];

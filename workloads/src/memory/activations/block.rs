//! The tensors that one block keeps for its backward pass, by what the block is made of.
//!
//! For GPT's block the list is that of Korthikanti et al. 2022, section 4.1. Llama's differs as
//! follows: RMSNorm has one statistic per token; keys and values have `kv_heads` heads; without
//! dropout there are no masks and the softmax's output is kept once; the gated feed-forward part
//! keeps the gate before and after SiLU, the other half, and their product, as PyTorch does without
//! fused kernels. ReLU keeps its output only, which is the next matrix's input. Attention in one
//! kernel (FlashAttention, Dao et al. 2022, arXiv 2205.14135) keeps queries, keys, values, its
//! output, and one fp32 logarithm of a sum per head and token. Experts: every token is kept
//! `active` times inside; the router's probabilities are fp32.
//! With adapters ([`crate::transformer::adapters`]) frozen matrices need no input for gradients of
//! their own: what products alone are given is kept where one of them has an adapter, with what A
//! gives.
//! Invariant: what two ops keep in one tensor is listed once.

mod eager;

use super::Batch;
use crate::memory::{Overflow, product};
use crate::transformer::adapters::Target;
use crate::transformer::card::{Card, Experts, Family};
use crate::transformer::graph::eager::attention::softens_wide;
use crate::transformer::training::{Attention, Kernels};

/// What lies between the matrices of the feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// GeLU by tanh.
    Gelu,
    /// GeLU by the error function, of which eager kernels keep the input alone.
    ErfGelu,
    /// ReLU.
    Relu,
    /// SiLU of one half times the other half.
    GatedSilu,
}

/// What a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// Width of the residual stream (h).
    pub hidden: u64,
    /// Width between the matrices of the feed-forward part.
    pub ffn: u64,
    /// Query heads (a).
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// What lies between the matrices.
    pub activation: Activation,
    /// Whether norms subtract the mean (LayerNorm), and so keep two statistics, not one (RMSNorm).
    pub mean: bool,
    /// Whether there is a norm between the embedding and the first block, whose input is kept too.
    pub norm_0: bool,
    /// Whether norms stand behind the sums of a block, not before its parts.
    pub post_norm: bool,
    /// Whether the head has a matrix and an activation before its norm, which keep an input each.
    pub transforms_head: bool,
    /// Whether every head's queries and keys have a norm.
    pub head_norms: bool,
    /// Whether eager kernels have the softmax of attention in fp32.
    pub wide_softmax: bool,
    /// Experts in the place of the feed-forward part.
    pub experts: Option<Experts>,
}

impl Activation {
    /// What a family has there.
    pub const fn of(family: Family) -> Activation {
        match family {
            Family::Gpt2 | Family::Bloom => Activation::Gelu,
            Family::Bert | Family::Roberta => Activation::ErfGelu,
            Family::Opt => Activation::Relu,
            Family::Llama | Family::Mistral | Family::Mixtral | Family::Qwen => {
                Activation::GatedSilu
            }
        }
    }
}

impl BlockShape {
    /// The block of the published formulas: feed-forward part of 4h, GeLU, LayerNorm, no grouped
    /// heads.
    pub const fn gpt(hidden: u64, heads: u64) -> BlockShape {
        BlockShape {
            hidden,
            ffn: 4 * hidden,
            heads,
            kv_heads: heads,
            head_dim: hidden / heads,
            activation: Activation::Gelu,
            mean: true,
            norm_0: false,
            post_norm: false,
            transforms_head: false,
            head_norms: false,
            wide_softmax: true,
            experts: None,
        }
    }

    /// A card's block.
    pub fn of(card: &Card) -> BlockShape {
        BlockShape {
            hidden: card.hidden.into(),
            ffn: card.ffn.into(),
            heads: card.heads.into(),
            kv_heads: card.kv_heads.into(),
            head_dim: card.head_dim.into(),
            activation: Activation::of(card.family),
            mean: card.family.has_biases(),
            norm_0: card.family.norms_embedding(),
            post_norm: card.family.is_post_norm(),
            transforms_head: card.family.transforms_head(),
            head_norms: card.norms_heads(),
            wide_softmax: softens_wide(card.family),
            experts: card.experts,
        }
    }
}

/// What a tensor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Numbers in the format of activations.
    Numbers,
    /// One byte each.
    Mask,
    /// Four bytes each; not in the published formulas.
    Statistics,
    /// Four bytes each, of as many as there are numbers.
    Wide,
}

/// What splits a tensor over the ranks of tensor parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Every rank has its heads or its columns of it.
    Ranks,
    /// Every rank has its tokens of it where there is sequence parallelism, and all of it
    /// elsewhere.
    Tokens,
    /// Nothing: copies of tokens for experts, of which every rank has its columns.
    Nothing,
}

/// One tensor that a block keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedTensor {
    /// What it is.
    pub name: &'static str,
    /// Its numbers before it is split.
    pub numbers: u128,
    /// What they are.
    pub sort: Sort,
    /// What splits it.
    pub over: Over,
    /// Whether it belongs to the core of attention.
    pub core: bool,
    /// Whether the backward pass is done with it before it comes to that.
    pub behind: bool,
}

/// Builds the list.
struct List {
    tokens: u128,
    all: Vec<SavedTensor>,
}

impl List {
    fn add(&mut self, name: &'static str, per_token: &[u64], over: Over) -> Result<(), Overflow> {
        self.put(name, per_token, Sort::Numbers, over)
    }

    fn put(
        &mut self,
        name: &'static str,
        per_token: &[u64],
        sort: Sort,
        over: Over,
    ) -> Result<(), Overflow> {
        let per_token: Vec<u128> = per_token.iter().copied().map(u128::from).collect();
        let numbers = product(&[self.tokens, product(&per_token)?])?;
        self.all.push(SavedTensor { name, numbers, sort, over, core: false, behind: false });
        Ok(())
    }
}

/// What A of each of these adapters gives: all of it on every rank.
fn low_rank(list: &mut List, batch: &Batch, targets: &[Target]) -> Result<(), Overflow> {
    let Some(lora) = batch.lora else { return Ok(()) };
    for _ in targets.iter().filter(|&&target| lora.targets.has(target)) {
        list.add("output of an adapter's first matrix", &[lora.rank.into()], Over::Nothing)?;
    }
    Ok(())
}

/// What one block keeps for one micro-batch, before it is split.
pub fn kept(block: &BlockShape, batch: &Batch) -> Result<Vec<SavedTensor>, Overflow> {
    let tokens = product(&[batch.tokens.into(), batch.sequences.into()])?;
    let mut list = List { tokens, all: Vec::new() };
    if batch.kernels == Kernels::Eager {
        eager::kept(&mut list, block, batch)?;
        return Ok(list.all);
    }
    attention(&mut list, block, batch)?;
    let from = list.all.len();
    feed_forward(&mut list, block, batch)?;
    list.all[from..].iter_mut().for_each(|tensor| tensor.behind = true);
    Ok(list.all)
}

/// Whether the backward pass of a norm needs its input as it is.
pub(super) fn keeps_input(block: &BlockShape, batch: &Batch) -> bool {
    batch.kernels != Kernels::Eager || eager::keeps_input(block, batch)
}

/// Bytes per row that an eager norm keeps beside its input and its output; 0 of other kernels.
pub(super) fn beside_norm(block: &BlockShape, batch: &Batch) -> Result<u128, Overflow> {
    if batch.kernels != Kernels::Eager {
        return Ok(0);
    }
    let mut list = List { tokens: 1, all: Vec::new() };
    eager::beside_norm(&mut list, block, batch, (1, block.hidden), Over::Tokens)?;
    let of = |tensor: &SavedTensor| {
        let bytes = if tensor.sort == Sort::Numbers { batch.format.bytes() } else { 4 };
        product(&[tensor.numbers, bytes.into()])
    };
    let all = list.all.iter().map(of).collect::<Result<Vec<u128>, Overflow>>()?;
    crate::memory::total(all)
}

fn attention(list: &mut List, block: &BlockShape, batch: &Batch) -> Result<(), Overflow> {
    let BlockShape { hidden, heads, kv_heads, head_dim, .. } = *block;
    if !block.post_norm {
        norm(list, block, ["input of attention's norm", "attention's norm"])?;
    }
    let of_qkv = [Target::Q, Target::K, Target::V];
    if batch.keeps_input(&of_qkv) {
        list.add("input of queries, keys and values", &[hidden], Over::Tokens)?;
    }
    low_rank(list, batch, &of_qkv)?;
    list.add("queries", &[heads, head_dim], Over::Ranks)?;
    list.add("keys", &[kv_heads, head_dim], Over::Ranks)?;
    list.add("values", &[kv_heads, head_dim], Over::Ranks)?;
    match batch.attention {
        Attention::Flash => {
            list.put("attention's sums", &[heads], Sort::Statistics, Over::Ranks)?
        }
        Attention::Eager => {
            let from = list.all.len();
            list.add("softmax", &[heads, batch.tokens], Over::Ranks)?;
            if batch.dropout {
                list.put("softmax's mask", &[heads, batch.tokens], Sort::Mask, Over::Ranks)?;
                list.add("softmax after dropout", &[heads, batch.tokens], Over::Ranks)?;
            }
            list.all[from..].iter_mut().for_each(|tensor| tensor.core = true);
        }
    }
    if batch.attention == Attention::Flash || batch.keeps_input(&[Target::O]) {
        list.add("input of attention's projection", &[heads, head_dim], Over::Ranks)?;
    }
    low_rank(list, batch, &[Target::O])?;
    if batch.dropout {
        list.put("attention's mask", &[hidden], Sort::Mask, Over::Tokens)?;
        list.all.iter_mut().rev().take(1).for_each(|tensor| tensor.behind = true);
    }
    Ok(())
}

/// The input of a norm and its statistics, by these names.
fn norm(
    list: &mut List,
    block: &BlockShape,
    [input, kept]: [&'static str; 2],
) -> Result<(), Overflow> {
    list.add(input, &[block.hidden], Over::Tokens)?;
    list.put(kept, &[if block.mean { 2 } else { 1 }], Sort::Statistics, Over::Tokens)
}

/// The feed-forward part with its norm; post-norm with that of attention before it.
fn feed_forward(list: &mut List, block: &BlockShape, batch: &Batch) -> Result<(), Overflow> {
    let hidden = block.hidden;
    if block.post_norm {
        norm(list, block, ["input of attention's norm", "attention's norm"])?;
    }
    norm(list, block, ["input of the feed-forward part's norm", "feed-forward part's norm"])?;
    let wide = [Target::Gate, Target::Up];
    if batch.keeps_input(&wide) {
        list.add("input of the feed-forward part", &[hidden], Over::Tokens)?;
    }
    low_rank(list, batch, &[wide[0], wide[1], Target::Down])?;
    let activation = |list: &mut List, width| activation(list, block.activation, width, batch);
    match block.experts {
        None => activation(list, block.ffn)?,
        Some(experts) => {
            let (active, ffn) = (u64::from(experts.active), u64::from(experts.ffn));
            list.put(
                "router's probabilities",
                &[experts.count.into()],
                Sort::Statistics,
                Over::Nothing,
            )?;
            // Tokens are sorted by expert, and what comes back is weighted: both are kept.
            if batch.keeps_input(&[]) {
                list.add("input of experts", &[active, hidden], Over::Nothing)?;
            }
            activation(list, active.saturating_mul(ffn))?;
            list.add("output of experts", &[active, hidden], Over::Nothing)?;
            if experts.shared > 0 {
                activation(list, u64::from(experts.shared) * ffn)?;
                list.add("output of shared experts", &[hidden], Over::Nothing)?;
                list.add("weight of shared experts", &[1], Over::Nothing)?;
            }
        }
    }
    if batch.dropout {
        list.put("feed-forward part's mask", &[hidden], Sort::Mask, Over::Tokens)?;
    }
    Ok(())
}

fn activation(
    list: &mut List,
    activation: Activation,
    width: u64,
    batch: &Batch,
) -> Result<(), Overflow> {
    match activation {
        Activation::Gelu | Activation::ErfGelu => {
            list.add("input of GeLU", &[width], Over::Ranks)?
        }
        Activation::Relu => {}
        Activation::GatedSilu => {
            list.add("gate", &[width], Over::Ranks)?;
            // A fused kernel computes it again.
            if batch.kernels != Kernels::Fused {
                list.add("gate after SiLU", &[width], Over::Ranks)?;
            }
            list.add("other half", &[width], Over::Ranks)?;
        }
    }
    // The gradient of ReLU follows from its output.
    if activation == Activation::Relu || batch.keeps_input(&[Target::Down]) {
        list.add("input of the last matrix", &[width], Over::Ranks)?;
    }
    Ok(())
}

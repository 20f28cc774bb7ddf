//! The tensors that one block keeps for its backward pass, by what the block is made of.
//!
//! For GPT's block the list is that of Korthikanti et al. 2022, section 4.1. Llama's differs as follows:
//! RMSNorm has one statistic per token; keys and values have `kv_heads` heads; without dropout there are no masks and the
//! softmax's output is kept once; the gated feed-forward part is one kernel that keeps both halves and
//! their product, as Megatron-LM's fused SwiGLU does (without fusion, the gate after SiLU is kept too). ReLU keeps its output only, which is
//! the next matrix's input. Attention in one kernel (FlashAttention, Dao et al. 2022, arXiv 2205.14135)
//! keeps queries, keys, values, its output, and one fp32 logarithm of a sum per head and token.
//! Experts: every token is kept `active` times inside; the router's probabilities are fp32.
//! Invariant: what two ops keep in one tensor is listed once.

use super::Batch;
use crate::memory::{Overflow, product};
use crate::transformer::card::{Card, Experts, Family};
use crate::transformer::training::Attention;

/// What lies between the matrices of the feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// GeLU.
    Gelu,
    /// ReLU.
    Relu,
    /// SiLU of one half times the other half.
    GatedSilu,
}

/// What a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
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
    pub between: Between,
    /// Whether norms subtract the mean (LayerNorm), and so keep two statistics, not one (RMSNorm).
    pub mean: bool,
    /// Experts in the place of the feed-forward part.
    pub experts: Option<Experts>,
}

impl Block {
    /// The block of the published formulas: feed-forward part of 4h, GeLU, LayerNorm, no grouped heads.
    pub const fn gpt(hidden: u64, heads: u64) -> Block {
        Block {
            hidden,
            ffn: 4 * hidden,
            heads,
            kv_heads: heads,
            head_dim: hidden / heads,
            between: Between::Gelu,
            mean: true,
            experts: None,
        }
    }

    /// A card's block.
    pub fn of(card: &Card) -> Block {
        let (between, mean) = match card.family {
            Family::Gpt2 | Family::Bloom => (Between::Gelu, true),
            Family::Opt => (Between::Relu, true),
            Family::Llama | Family::Mistral | Family::Mixtral | Family::Qwen => {
                (Between::GatedSilu, false)
            }
        };
        Block {
            hidden: card.hidden.into(),
            ffn: card.ffn.into(),
            heads: card.heads.into(),
            kv_heads: card.kv_heads.into(),
            head_dim: card.head_dim.into(),
            between,
            mean,
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
}

/// One tensor that a block keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What it is.
    pub name: &'static str,
    /// Its numbers before it is split.
    pub numbers: u128,
    /// What they are.
    pub sort: Sort,
    /// Whether tensor parallelism splits it.
    pub split: bool,
    /// Whether it belongs to the core of attention.
    pub core: bool,
}

/// Builds the list.
struct List {
    tokens: u128,
    all: Vec<Kept>,
}

impl List {
    fn add(&mut self, name: &'static str, per_token: &[u64], split: bool) -> Result<(), Overflow> {
        self.put(name, per_token, Sort::Numbers, split)
    }

    fn put(
        &mut self,
        name: &'static str,
        per_token: &[u64],
        sort: Sort,
        split: bool,
    ) -> Result<(), Overflow> {
        let per_token: Vec<u128> = per_token.iter().copied().map(u128::from).collect();
        let numbers = product(&[self.tokens, product(&per_token)?])?;
        self.all.push(Kept { name, numbers, sort, split, core: false });
        Ok(())
    }
}

/// What one block keeps for one micro-batch, before it is split.
pub fn kept(block: &Block, batch: &Batch) -> Result<Vec<Kept>, Overflow> {
    let tokens = product(&[batch.tokens.into(), batch.sequences.into()])?;
    let mut list = List { tokens, all: Vec::new() };
    attention(&mut list, block, batch)?;
    feed_forward(&mut list, block, batch)?;
    Ok(list.all)
}

fn attention(list: &mut List, block: &Block, batch: &Batch) -> Result<(), Overflow> {
    let Block { hidden, heads, kv_heads, head_dim, .. } = *block;
    let statistics = if block.mean { 2 } else { 1 };
    list.add("input of attention's norm", &[hidden], false)?;
    list.put("attention's norm", &[statistics], Sort::Statistics, false)?;
    list.add("input of queries, keys and values", &[hidden], false)?;
    list.add("queries", &[heads, head_dim], true)?;
    list.add("keys", &[kv_heads, head_dim], true)?;
    list.add("values", &[kv_heads, head_dim], true)?;
    match batch.attention {
        Attention::Flash => list.put("attention's sums", &[heads], Sort::Statistics, true)?,
        Attention::Materialised => {
            let from = list.all.len();
            list.add("softmax", &[heads, batch.tokens], true)?;
            if batch.dropout {
                list.put("softmax's mask", &[heads, batch.tokens], Sort::Mask, true)?;
                list.add("softmax after dropout", &[heads, batch.tokens], true)?;
            }
            list.all[from..].iter_mut().for_each(|tensor| tensor.core = true);
        }
    }
    list.add("input of attention's projection", &[heads, head_dim], true)?;
    if batch.dropout {
        list.put("attention's mask", &[hidden], Sort::Mask, false)?;
    }
    Ok(())
}

fn feed_forward(list: &mut List, block: &Block, batch: &Batch) -> Result<(), Overflow> {
    let hidden = block.hidden;
    list.add("input of the feed-forward part's norm", &[hidden], false)?;
    let statistics = if block.mean { 2 } else { 1 };
    list.put("feed-forward part's norm", &[statistics], Sort::Statistics, false)?;
    list.add("input of the feed-forward part", &[hidden], false)?;
    match block.experts {
        None => between(list, block.between, block.ffn)?,
        Some(experts) => {
            let (active, ffn) = (u64::from(experts.active), u64::from(experts.ffn));
            list.put("router's probabilities", &[experts.count.into()], Sort::Statistics, false)?;
            // Tokens are sorted by expert, and what comes back is weighted: both are kept.
            list.add("input of experts", &[active, hidden], false)?;
            between(list, block.between, active.saturating_mul(ffn))?;
            list.add("output of experts", &[active, hidden], false)?;
            if experts.shared > 0 {
                between(list, block.between, u64::from(experts.shared) * ffn)?;
            }
        }
    }
    if batch.dropout {
        list.put("feed-forward part's mask", &[hidden], Sort::Mask, false)?;
    }
    Ok(())
}

fn between(list: &mut List, between: Between, width: u64) -> Result<(), Overflow> {
    match between {
        Between::Gelu => list.add("input of GeLU", &[width], true)?,
        Between::Relu => {}
        Between::GatedSilu => {
            list.add("gate", &[width], true)?;
            list.add("other half", &[width], true)?;
        }
    }
    list.add("input of the last matrix", &[width], true)
}

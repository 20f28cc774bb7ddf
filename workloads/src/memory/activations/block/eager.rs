//! What a block of eager kernels keeps: what PyTorch's autograd saves for each operation of the
//! makers' code.
//!
//! RMSNorm keeps its input, where it has 16 bits a copy in fp32 instead, one root per row and the
//! input times it; LayerNorm a mean and a root. Attention of products keeps copies of queries and
//! of keys and values for every query head, and its softmax, in fp32 too. GeLU by tanh keeps half
//! its input, tanh and 1 more than tanh. Experts as grouped products keep the wide matrices'
//! outputs, SiLU, their product, and the weights of what is chosen. A fused kernel of attention
//! keeps what it does elsewhere.

use super::{Activation, BlockShape, List, Over, Sort};
use crate::memory::Overflow;
use crate::memory::activations::Batch;
use crate::transformer::card::Experts;
use crate::transformer::format::Format;
use crate::transformer::training::Attention;

/// The list of a block.
pub(super) fn kept(list: &mut List, block: &BlockShape, batch: &Batch) -> Result<(), Overflow> {
    attention(list, block, batch)?;
    let from = list.all.len();
    norm(list, block, batch)?;
    if block.post_norm {
        // What it gives is the next block's input.
        list.add("input of norm", &[block.hidden], Over::Tokens)?;
        beside_norm(list, block, batch, (1, block.hidden), Over::Tokens)?;
    }
    match block.experts {
        Some(experts) => mixture(list, experts, block.hidden)?,
        None => activation(list, block.activation, block.ffn)?,
    }
    if batch.dropout {
        list.put("feed-forward part's mask", &[block.hidden], Sort::Mask, Over::Tokens)?;
    }
    list.all[from..].iter_mut().for_each(|tensor| tensor.behind = true);
    Ok(())
}

/// Whether a norm's backward pass needs its input, not a copy of it in fp32.
pub(super) fn keeps_input(block: &BlockShape, batch: &Batch) -> bool {
    block.mean || batch.format == Format::Fp32
}

/// What a norm of `rows` rows of `width` keeps beside its input and its output.
pub(super) fn beside_norm(
    list: &mut List,
    block: &BlockShape,
    batch: &Batch,
    (rows, width): (u64, u64),
    over: Over,
) -> Result<(), Overflow> {
    if block.mean {
        return list.put("norm's mean and root", &[2, rows], Sort::Statistics, over);
    }
    list.put("norm's root", &[rows], Sort::Statistics, over)?;
    if batch.format != Format::Fp32 {
        list.put("norm's input in fp32", &[rows, width], Sort::Wide, over)?;
    }
    list.add("norm's input times its root", &[rows, width], over)
}

fn norm(list: &mut List, block: &BlockShape, batch: &Batch) -> Result<(), Overflow> {
    if keeps_input(block, batch) {
        list.add("input of norm", &[block.hidden], Over::Tokens)?;
    }
    beside_norm(list, block, batch, (1, block.hidden), Over::Tokens)?;
    list.add("output of norm", &[block.hidden], Over::Tokens)
}

fn attention(list: &mut List, block: &BlockShape, batch: &Batch) -> Result<(), Overflow> {
    let BlockShape { hidden, heads, kv_heads, head_dim, .. } = *block;
    match block.post_norm {
        true => list.add("input of queries, keys and values", &[hidden], Over::Tokens)?,
        false => norm(list, block, batch)?,
    }
    if block.head_norms {
        for heads in [heads, kv_heads] {
            if keeps_input(block, batch) {
                list.add("input of heads' norm", &[heads, head_dim], Over::Ranks)?;
            }
            beside_norm(list, block, batch, (heads, head_dim), Over::Ranks)?;
        }
    }
    match batch.attention {
        Attention::Flash => {
            list.add("queries", &[heads, head_dim], Over::Ranks)?;
            list.add("keys and values", &[2, kv_heads, head_dim], Over::Ranks)?;
            list.put("attention's sums", &[heads], Sort::Statistics, Over::Ranks)?;
        }
        Attention::Eager => scores(list, block, batch)?,
    }
    list.add("input of attention's projection", &[heads, head_dim], Over::Ranks)?;
    if batch.dropout {
        list.put("attention's mask", &[block.hidden], Sort::Mask, Over::Tokens)?;
        list.all.iter_mut().rev().take(1).for_each(|tensor| tensor.behind = true);
    }
    Ok(())
}

fn scores(list: &mut List, block: &BlockShape, batch: &Batch) -> Result<(), Overflow> {
    let BlockShape { heads, head_dim, .. } = *block;
    let from = list.all.len();
    list.add("copies of queries, keys and values", &[3, heads, head_dim], Over::Ranks)?;
    let is_copied = block.wide_softmax && batch.format != Format::Fp32;
    if is_copied {
        list.put("softmax in fp32", &[heads, batch.tokens], Sort::Wide, Over::Ranks)?;
    }
    // Values are multiplied with what dropout leaves of the copy.
    if !(is_copied && batch.dropout) {
        list.add("softmax", &[heads, batch.tokens], Over::Ranks)?;
    }
    if batch.dropout {
        list.put("softmax's mask", &[heads, batch.tokens], Sort::Mask, Over::Ranks)?;
        list.add("softmax after dropout", &[heads, batch.tokens], Over::Ranks)?;
    }
    list.all[from..].iter_mut().for_each(|tensor| tensor.core = true);
    Ok(())
}

fn activation(list: &mut List, activation: Activation, width: u64) -> Result<(), Overflow> {
    match activation {
        Activation::Relu => {}
        Activation::Gelu => {
            list.add("input of GeLU, half of it, tanh and more", &[4, width], Over::Ranks)?;
        }
        Activation::ErfGelu => list.add("input of GeLU", &[width], Over::Ranks)?,
        Activation::GatedSilu => {
            list.add("gate, SiLU and other half", &[3, width], Over::Ranks)?;
        }
    }
    list.add("input of the last matrix", &[width], Over::Ranks)
}

fn mixture(list: &mut List, experts: Experts, hidden: u64) -> Result<(), Overflow> {
    let (active, ffn) = (u64::from(experts.active), u64::from(experts.ffn));
    let count = u64::from(experts.count);
    list.put("router's probabilities", &[count], Sort::Wide, Over::Nothing)?;
    list.put("sums of the chosen", &[1], Sort::Wide, Over::Nothing)?;
    list.put("the chosen, by token and by expert", &[2, active], Sort::Wide, Over::Nothing)?;
    list.add("input and output of experts", &[2, active, hidden], Over::Nothing)?;
    list.add("gate, other half, SiLU and product", &[4, active, ffn], Over::Ranks)
}

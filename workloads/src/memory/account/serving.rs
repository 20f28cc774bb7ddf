//! The accounts of serving a model and of a structured operator.

use super::{Keeps, Pipeline, account_of, push};
use crate::memory::inference::{Kv, Sequences};
use crate::memory::rank::{Bytes, Rank};
use crate::memory::semiseparable::{Formats, Shape, levels, operator};
use crate::memory::{Overflow, product, share, total};
use crate::transformer::card::{Card, Experts};
use crate::transformer::format::Format;
use crate::transformer::packed::Packed;
use tiersim_models::results::memory_account::Place;
use tiersim_models::results::memory_account::{Account, Constant, Line, Value};

/// A model that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Parameters of the model.
    pub params: u64,
    /// Format of weights.
    pub weights: Format,
    /// How the matrices of this model's blocks are stored, if not in it.
    pub packed: Option<(Packed, Card)>,
    /// Experts of its blocks, if it has them, and the parameters that one token goes through.
    pub experts: Option<(Experts, u64)>,
    /// What keys and values are made of, if shapes are known.
    pub kv: Option<Kv>,
    /// Sequences at once.
    pub batch: u64,
    /// Tokens of each, prompt and answer.
    pub context: u64,
    /// Tokens of a page.
    pub page: u64,
    /// All GPUs of one copy of the model: `tensor x pipeline x context_ranks`.
    pub gpus: u64,
    /// Those of one node.
    pub gpus_per_node: u64,
    /// Ranks that matrices and heads are split over.
    pub tensor: u64,
    /// Ranks that blocks are split over.
    pub pipeline: u64,
    /// Ranks that the pages of a sequence are shared out over, each with the same weights.
    pub context_ranks: u64,
    /// Where weights live.
    pub offload_weights: Place,
    /// Where keys and values live.
    pub offload_kv: Place,
    /// Bytes of the GPU that nothing of this can have.
    pub reserved: u64,
}

/// The account of a model that is served.
pub fn serving(job: &Serving) -> Result<Account, Overflow> {
    let packed = job.packed.as_ref().map(|(packed, card)| (*packed, card));
    let weights = weights(job.params, job.weights, packed, [job.tensor, job.pipeline])?;
    let mut lines = Vec::new();
    let mut visiting = Vec::new();
    let formula = match packed.map(|(packed, _)| packed.has_8_bits()) {
        None => "w P / (t p)".to_owned(),
        Some(true) => "a byte of blocks' matrices, w of the rest".to_owned(),
        Some(false) => "4 bits and scales of blocks' matrices, w of the rest".to_owned(),
    };
    push(&mut lines, ("weights", "weights"), formula, job.offload_weights, weights);
    let mut constants = Vec::new();
    let mut add = |key, name, value: Value| constants.push(Constant { key, name, value });
    add("params", "parameters (P)", job.params.into());
    add("weight_bytes_per_parameter", "bytes per weight (w)", job.weights.bytes().into());
    if let Some((packed, _)) = &job.packed {
        add("packed", "matrices of blocks are stored as", Value::Word(packed.word()));
    }
    add("gpus", "GPUs", job.gpus.into());
    add("gpus_per_node", "GPUs per node", job.gpus_per_node.into());
    add("tensor", "tensor-parallel ranks (t)", job.tensor.into());
    add("pipeline", "pipeline stages (p)", job.pipeline.into());
    if job.context_ranks > 1 {
        add("context", "ranks that each sequence is split over", job.context_ranks.into());
    }
    add("offload_param", "weights go to", job.offload_weights.word().into());
    if let Some(kv) = &job.kv {
        add("layers", "blocks", kv.layers.into());
        match kv.latent {
            Some(numbers) => add("latent", "numbers of a compressed row", numbers.into()),
            None => {
                add("kv_heads", "key-value heads", kv.heads.into());
                add("head_dim", "width of a head", kv.head_dim.into());
            }
        }
        add("kv_bytes_per_number", "bytes per number of keys and values", kv.bytes.into());
        add(
            "kv_bytes_per_token",
            "bytes of a token's keys and values",
            Value::Whole(kv.of_token()?),
        );
        add("batch", "sequences at once", job.batch.into());
        add("sequence", "tokens of each", job.context.into());
        add("kv_block", "tokens of a page", job.page.into());
        add("offload_kv", "keys and values go to", job.offload_kv.word().into());
        if let Some(windows) = kv.windows {
            let tokens = u64::from(windows.tokens);
            add("window", "tokens of a window of attention", tokens.into());
            let name = "blocks that attend to all tokens";
            add("full_layers", name, kv.full_layers().into());
        }
        let (count, tokens, page) = (job.batch, job.context, job.page);
        let sequences = Sequences { count, tokens, page, ranks: job.context_ranks };
        let shared = if job.context_ranks > 1 { ", of a rank" } else { "" };
        let each = if kv.latent.is_some() { "row x blocks" } else { "2 x blocks x heads x width" };
        let formula = format!("{each} x bytes, per token, in whole pages{shared}");
        let bytes = kv.of_rank(sequences, job.tensor, job.pipeline)?;
        push(&mut lines, ("kv", "keys and values"), formula, job.offload_kv, bytes);
        let blocks = kv.layers.div_ceil(job.pipeline);
        let away = [(job.offload_weights, weights), (job.offload_kv, bytes)];
        let away = away.into_iter().filter(|(place, _)| *place != Place::Gpu);
        visiting.extend(away.map(|(_, bytes)| share(bytes, blocks.max(1).into())));
    }
    if !visiting.is_empty() {
        let formula = "a block's share of what is kept elsewhere".to_owned();
        let bytes = total(visiting)?;
        push(&mut lines, ("visiting", "a block that visits"), formula, Place::Gpu, bytes);
    }
    let given = "as given".to_owned();
    push(&mut lines, ("reserved", "reserved"), given, Place::Gpu, job.reserved.into());
    let title = format!("inference, {} GPU(s)", job.gpus);
    let mut account = account_of(title, constants, lines, job.gpus_per_node)?;
    if job.kv.is_none() {
        let note =
            "keys and values are left out: they need --layers, --heads, --hidden and --sequence";
        account.notes.push(note.to_owned());
    } else {
        let note = "hidden states and logits of a prompt are left out: a run of `generate` or `serve` \
                    has them";
        account.notes.push(note.to_owned());
    }
    Ok(account)
}

/// Bytes of the weights of a rank of the first stage, of `tensor` ranks and `stages`: an equal part
/// of all numbers, or what it has of matrices that are packed and of the rest.
pub fn weights(
    params: u64,
    weights: Format,
    packed: Option<(Packed, &Card)>,
    [tensor, stages]: [u64; 2],
) -> Result<u128, Overflow> {
    let Some((packed, card)) = packed else {
        let split = u128::from(tensor) * u128::from(stages);
        return product(&[share(params.into(), split), weights.bytes().into()]);
    };
    let split = Pipeline { tensor, stages, ..Pipeline::default() };
    let (packed, optimizer) = (Some(packed), Keeps::PerParameter(0));
    let bytes = Bytes { weights, packed, gradients: weights, optimizer };
    Ok(Rank::of(card, None, &split, 1).state(&bytes, 0)?.weights)
}

/// A structured operator over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured {
    /// Its size (N).
    pub size: u64,
    /// How its levels follow one another.
    pub shape: Shape,
    /// Formats of its parts, and of the dense matrix beside it.
    pub formats: Formats,
    /// Operators of this size.
    pub layers: u64,
    /// GPUs that share the columns of U and V.
    pub gpus: u64,
    /// Those of one node.
    pub gpus_per_node: u64,
    /// Where U and V live.
    pub offload: Place,
}

/// The account of a structured operator, with the dense one beside it as constants.
pub fn structured(job: &Structured) -> Result<Account, Overflow> {
    let Structured { size, shape, formats, gpus, .. } = *job;
    let one = operator(size, shape, formats, gpus)?;
    let times = |bytes| product(&[bytes, job.layers.into()]);
    let each = |format: Format| format.bytes();
    let (cores, every) = match shape {
        Shape::Sum(_) => ("", ", of each level"),
        Shape::Nested => (", and of each core", ", and of each core"),
    };
    let line = |key, name, formula, place, bytes| Line { key, name, formula, place, bytes };
    let tridiagonal = format!("{} (3 N - 2){cores}; on every rank", each(formats.tridiagonal));
    let factors = format!("{} x 2 x N x ceil(r / ranks){every}", each(formats.factors));
    let (t, uv) = (times(one.tridiagonal)?, times(one.of_rank)?);
    let lines = vec![
        line("tridiagonal", "tridiagonal parts", tridiagonal, Place::Gpu, t),
        line("factors", "U and V", factors, job.offload, uv),
    ];
    let levels = levels(size, shape);
    let ranks: Vec<String> = levels.iter().map(|level| level.rank.to_string()).collect();
    let mut constants = Vec::new();
    let mut add = |key, name, value: Value| constants.push(Constant { key, name, value });
    add("size", "size (N)", size.into());
    let form = match shape {
        Shape::Sum(1) => "T + U V^T",
        Shape::Sum(_) => "T + sum of U_k V_k^T",
        Shape::Nested => "T + U C V^T, C of the same form",
    };
    add("form", "form", form.into());
    add("ranks_of_levels", "ranks of the levels, ceil(log2)", Value::Word(ranks.join(", ")));
    add("tridiagonal_format", "format of T", formats.tridiagonal.word().into());
    add("factors_format", "format of U and V", formats.factors.word().into());
    add("dense_format", "format of the dense matrix", formats.dense.word().into());
    add("layers", "operators", job.layers.into());
    add("gpus", "GPUs", gpus.into());
    add("gpus_per_node", "GPUs per node", job.gpus_per_node.into());
    add("offload_param", "U and V go to", job.offload.word().into());
    add("all_factors_bytes", "U and V of all ranks, bytes", Value::Whole(times(one.factors)?));
    add("dense_bytes", "dense, bytes", Value::Whole(times(one.dense)?));
    let dense = times(one.dense_of_rank)?;
    add("dense_bytes_per_gpu", "dense, bytes per GPU", Value::Whole(dense));
    let whole = total([one.tridiagonal, one.factors])?;
    let reduction = 100.0 * (1.0 - whole as f64 / one.dense as f64);
    add("reduction_percent", "less than dense, %", Value::Number(reduction));
    let title = format!("structured operator of size {}, {} GPU(s)", job.size, job.gpus);
    account_of(title, constants, lines, job.gpus_per_node)
}

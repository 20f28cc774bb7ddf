//! The account of a training step: model state under ZeRO, activations, buffers, the data pipeline.
//!
//! Invariant: without a [`Step`] and without sizes of buffers it is the model state alone, to the
//! byte.

use super::job::{Keeps, Pipeline, Step, Training};
use super::{account_of, buffers, push};
use crate::memory::optimizer::needs_shapes;
use crate::memory::zero::{MILLION, StatePart, placed};
use crate::memory::{Overflow, loader};
use crate::transformer::card::{Card, Family};
use crate::transformer::training::{
    Attention, Checkpointing, Kernels, Loader, Loss, UpdateTime, own_sequence,
};
use tiersim_models::results::memory_account::{Account, Constant, Line, Place, Value};

/// The account of a training job.
pub fn training(job: &Training) -> Result<Account, Overflow> {
    let mut lines = state_lines(job)?;
    buffers::lines(job, &mut lines)?;
    if let Some(step) = &job.step {
        step_lines(job, step, &mut lines)?;
    }
    let title = format!("training, ZeRO stage {}, {} GPU(s)", job.stage, job.gpus);
    let mut account = account_of(title, constants(job)?, lines, job.gpus_per_node)?;
    account.notes = notes(job);
    Ok(account)
}

/// The account of the stage of a pipeline that needs most of its GPUs: the first, which keeps most
/// micro-batches, or the last, which has norm, head and loss. A note says so if it is the last.
pub fn of_largest_stage(job: &Training) -> Result<Account, Overflow> {
    let first = training(job)?;
    let Some(last) = job.last_stage() else { return Ok(first) };
    let last = training(&last)?;
    if last.gpu <= first.gpu {
        return Ok(first);
    }
    let gb = first.gpu as f64 / 1e9;
    let note = format!("of the last stage, which has the head; the first one needs {gb:.2} GB");
    let notes = [note].into_iter().chain(last.notes).collect();
    Ok(Account { title: first.title, constants: first.constants, notes, ..last })
}

/// The same, with what other kernels would need said beside it.
pub fn advised(job: &Training) -> Result<Account, Overflow> {
    let mut account = of_largest_stage(job)?;
    let needs = eager(job, account.gpu)?;
    account.notes.extend(needs);
    Ok(account)
}

/// What most programs need that are run as they are written, where that is more than `compiled`: few
/// people compile, and what they keep is of other kernels.
fn eager(job: &Training, compiled: u128) -> Result<Option<String>, Overflow> {
    let Some(step) = job.step.as_ref().filter(|step| step.kernels == Kernels::Compiled) else {
        return Ok(None);
    };
    let step = Some(Step { kernels: Kernels::Eager, ..step.clone() });
    let eager = Training { step, ..job.clone() };
    // Of other models such kernels are not known.
    let known = eager.working().is_some_and(|of| of.1 == Kernels::Eager || job.lora.is_some());
    if !known {
        return Ok(None);
    }
    let need = of_largest_stage(&eager)?.gpu;
    let words = |need| {
        let gb = need as f64 / 1e9;
        format!("PyTorch without a compiler needs {gb:.1} GB of each GPU: --kernels eager")
    };
    Ok((need > compiled).then(|| words(need)))
}

fn state_lines(job: &Training) -> Result<Vec<Line>, Overflow> {
    let mut of_rank = job.state(job.stage)?;
    let streamed = job.streamed_gradients()?;
    of_rank.gradients = streamed.unwrap_or(of_rank.gradients);
    let mut lines = Vec::new();
    for placed in placed(of_rank, job.stage, job.offload)? {
        let (key, name, per_param, from) = match placed.part {
            StatePart::Weights => ("weights", "weights", "w P", 3),
            StatePart::Gradients => ("gradients", "gradients", "g P", 2),
            StatePart::Optimizer => ("optimizer", "optimizer state", "K P", 1),
        };
        let per_param = match (job.lora, placed.part) {
            (None, _) => per_param.to_owned(),
            (Some(_), StatePart::Weights) if job.packed.is_some() => {
                "4 bits and scales of blocks' matrices, w of the rest".to_owned()
            }
            (Some(_), StatePart::Weights) => "w (P + T)".to_owned(),
            (Some(_), _) => per_param.replace('P', "T"),
        };
        let over = if job.stage >= from { " / N" } else { "" };
        let away = placed.place != Place::Gpu;
        let ratio = f64::from(job.offload.ratio) / f64::from(MILLION);
        let part = match (placed.part, away) {
            (StatePart::Weights, _) => String::new(),
            (_, true) if ratio < 1.0 => format!(", {ratio} of it"),
            (part, false)
                if ratio < 1.0
                    && job.offload.optimizer != Place::Gpu
                    && (part == StatePart::Optimizer || job.stage >= 2) =>
            {
                format!(", 1 - {ratio} of it")
            }
            _ => String::new(),
        };
        let formula = match (placed.part, streamed) {
            (StatePart::Gradients, Some(_)) => {
                format!("g x what waits for its update in the backward pass{part}")
            }
            _ => format!("{per_param}{over}{part}"),
        };
        lines.push(Line { key, name, formula, place: placed.place, bytes: placed.bytes });
    }
    Ok(lines)
}

fn step_lines(job: &Training, step: &Step, lines: &mut Vec<Line>) -> Result<(), Overflow> {
    let found = job.activations(step)?;
    let split = &job.split;
    let stages = match (split.stages, split.interleave) {
        (1, _) => "L".to_owned(),
        (_, 1) => "L on the first stage".to_owned(),
        (p, m) => format!("L (1 + (p-1)/(p m)) on the first stage, p = {p}, m = {m}"),
    };
    let each = match split.context {
        1 => formula(job, step),
        _ => format!("{}, s / {} of a rank", formula(job, step), split.context),
    };
    for (names, formula, bytes) in [
        (("activations", "activations"), format!("{each}, times {stages}"), found.kept),
        (
            ("activation_statistics", "statistics of norms and attention"),
            "4 bytes each; not in the published formula".to_owned(),
            found.statistics,
        ),
        (
            ("recomputed_activations", "activations computed again"),
            "what one stretch between checkpoints keeps, beyond what is gone by then".to_owned(),
            found.recomputed,
        ),
        (
            ("embedding_activations", "dropout behind the embedding"),
            if split.by_sequence {
                "s b h / t, of all in flight"
            } else {
                "s b h, of all in flight"
            }
            .to_owned(),
            found.embedding,
        ),
        (("head_activations", head_name(step)), head_formula(step, split).to_owned(), found.head),
    ] {
        push(lines, names, formula, Place::Gpu, bytes);
    }
    if let Some(Loader { workers, prefetch, token_bytes }) = step.loader {
        let bytes = loader::bytes(
            workers.into(),
            prefetch.into(),
            step.batch,
            own_sequence(step.sequence, split.context),
            token_bytes.into(),
        )?;
        let formula = "workers x prefetch x batch x sequence x bytes".to_owned();
        push(lines, ("loader", "data pipeline"), formula, Place::Cpu, bytes);
    }
    Ok(())
}

const fn head_name(step: &Step) -> &'static str {
    match step.loss {
        Loss::Eager => "last norm, head and logits",
        Loss::Fused => "last norm and head",
    }
}

const fn head_formula(step: &Step, split: &Pipeline) -> &'static str {
    if matches!(step.kernels, Kernels::Eager) {
        return "sum over the tensors of norm, head and loss";
    }
    match (step.loss, split.by_sequence) {
        (Loss::Eager, false) => "4 s b h + 4 s b v / t",
        (Loss::Eager, true) => "4 s b h / t + 4 s b v / t",
        (Loss::Fused, false) => "4 s b h",
        (Loss::Fused, true) => "4 s b h / t",
    }
}

/// The formula of one block: in closed form where the block is that of the paper.
fn formula(job: &Training, step: &Step) -> String {
    let split = &job.split;
    let (t, by_sequence) = (split.tensor > 1, split.by_sequence);
    let input = if by_sequence { "2 s b h / t" } else { "2 s b h" };
    match step.checkpointing {
        Checkpointing::Full => return input.to_owned(),
        Checkpointing::Every(k) => return format!("{input} for every {k} blocks"),
        Checkpointing::Layers(n) => return format!("{input} for {n} blocks, all of the others"),
        Checkpointing::None | Checkpointing::Selective => {}
    }
    if !(is_published(step) && step.dropout && step.format.bytes() == 2) || job.lora.is_some() {
        return "sum over a block's tensors".to_owned();
    }
    let core = step.attention == Attention::Eager && step.checkpointing == Checkpointing::None;
    match (t, by_sequence, core) {
        (false, _, true) => "s b h (34 + 5 a s / h)",
        (false, _, false) => "34 s b h",
        (true, false, true) => "s b h (10 + 24/t + 5 a s / (h t))",
        (true, false, false) => "s b h (10 + 24/t)",
        (true, true, true) => "s b h / t (34 + 5 a s / h)",
        (true, true, false) => "34 s b h / t",
    }
    .to_owned()
}

/// Whether a block is that of the published formulas: GPT's, with a feed-forward part of 4h.
fn is_published(step: &Step) -> bool {
    let Card { family, hidden, ffn, heads, kv_heads, .. } = step.shape;
    let widths = step.shape.q_width() == hidden.into() && u64::from(ffn) == 4 * u64::from(hidden);
    step.kernels != Kernels::Eager && family == Family::Gpt2 && heads == kv_heads && widths
}

fn constants(job: &Training) -> Result<Vec<Constant>, Overflow> {
    let mut all = Vec::new();
    let mut add = |key, name, value: Value| all.push(Constant { key, name, value });
    let (split, offload) = (&job.split, &job.offload);
    let params = job.params_of_rank()?;
    let k = match job.optimizer {
        Keeps::PerParameter(millionths) => millionths as f64 / 1e6,
        Keeps::Named(_) => job.state(0)?.optimizer as f64 / job.trained()?.max(1) as f64,
    };
    add("params", "parameters (P)", job.params.into());
    add("weight_bytes_per_parameter", "bytes per weight (w)", job.weights.bytes().into());
    add("gradient_bytes_per_parameter", "bytes per gradient (g)", job.gradients.bytes().into());
    add("optimizer_bytes_per_parameter", "optimizer bytes per parameter (K)", Value::Number(k));
    add("gpus", "GPUs", job.gpus.into());
    add("gpus_per_node", "GPUs per node", job.gpus_per_node.into());
    add("data", "data-parallel ranks (N)", job.data().into());
    add("stage", "ZeRO stage", u64::from(job.stage).into());
    if split.expert > 1 {
        add("expert", "ranks that share experts", split.expert.into());
    }
    if split.context > 1 {
        add("context", "ranks that each sequence is split over, of N", split.context.into());
    }
    if split.tensor * split.stages > 1 {
        add("tensor", "tensor-parallel ranks (t)", split.tensor.into());
        add("pipeline", "pipeline stages (p)", split.stages.into());
        add("interleave", "virtual stages per stage (m)", split.interleave.into());
        let what = match job.card {
            Some(_) => "parameters of a rank of the first stage",
            None => "parameters per rank, P / (t p)",
        };
        add("params_of_rank", what, Value::Whole(params));
    }
    all.extend(frozen(job)?);
    let mut add = |key, name, value: Value| all.push(Constant { key, name, value });
    add("offload_optimizer", "optimizer state goes to", offload.optimizer.word().into());
    add("offload_param", "weights go to", offload.weights.word().into());
    if offload.optimizer != Place::Gpu {
        let ratio = f64::from(offload.ratio) / f64::from(MILLION);
        add("offload_ratio", "share of that", Value::Number(ratio));
    }
    if job.stage >= 3 && job.largest_layer > 0 {
        add("largest_layer", "parameters of the largest layer", job.largest_layer.into());
    }
    if let Some(step) = &job.step {
        add("layers", "blocks (L)", u64::from(step.shape.layers).into());
        add("hidden", "width (h)", u64::from(step.shape.hidden).into());
        add("heads", "heads (a)", u64::from(step.shape.heads).into());
        add("sequence", "tokens of a sequence (s)", step.sequence.into());
        add("micro_batch", "sequences at once (b)", step.micro_batch.into());
        add("batch", "sequences per replica and step", step.batch.into());
        add("vocab", "logits per token (v)", u64::from(step.shape.vocab).into());
        add("activation_format", "format of activations", step.format.word().into());
        add("attention", "attention", attention_word(step.attention).into());
        if step.update == UpdateTime::InBackward {
            add("update", "update of weights", "in the backward pass".into());
        }
        if step.kernels != Kernels::Compiled {
            add("kernels", "kernels", step.kernels.word().into());
        }
        if let Some(kernels) = step.optimizer_kernels {
            add("optimizer_kernels", "kernels of the optimizer", kernels.word().into());
        }
        if step.loss == Loss::Fused {
            add("loss", "head and loss", "fused".into());
        }
        let checkpointing = match step.checkpointing {
            Checkpointing::None => "none".to_owned(),
            Checkpointing::Selective => "selective".to_owned(),
            Checkpointing::Full => "full".to_owned(),
            Checkpointing::Every(k) => format!("every {k} blocks"),
            Checkpointing::Layers(n) => format!("{n} blocks of a virtual stage"),
        };
        add("checkpointing", "checkpointing", Value::Word(checkpointing));
    }
    Ok(all)
}

const fn attention_word(attention: Attention) -> &'static str {
    match attention {
        Attention::Flash => "flash",
        Attention::Eager => "eager",
    }
}

/// How frozen weights are stored, and what is trained beside them.
fn frozen(job: &Training) -> Result<Vec<Constant>, Overflow> {
    let mut all = Vec::new();
    let mut add = |key, name, value: Value| all.push(Constant { key, name, value });
    if let Some(packed) = job.packed {
        add("packed", "matrices of blocks are stored as", Value::Word(packed.word()));
    }
    if let Some(lora) = job.lora {
        let targets: Vec<&str> = lora.targets.iter().map(|target| target.word()).collect();
        let trained = Value::Whole(job.trained()?);
        add("trained_of_rank", "parameters of a rank's adapters (T)", trained);
        add("lora", "rank of adapters", u64::from(lora.rank).into());
        add("lora_targets", "matrices with adapters", Value::Word(targets.join(",")));
    }
    Ok(all)
}

/// What the account leaves out.
fn notes(job: &Training) -> Vec<String> {
    let mut notes = Vec::new();
    if let Keeps::Named(named) = job.optimizer
        && needs_shapes(named)
        && job.card.is_none()
    {
        let part = "second moments per row, column or block are left out: they need shapes";
        notes.push(part.to_owned());
    }
    if job.step.is_none() {
        notes.push(
            "activations are left out: they need --layers, --hidden, --heads and --sequence"
                .to_owned(),
        );
    }
    let counted = job.card.is_some() && job.step.is_some();
    if job.stage == 3 && job.largest_layer == 0 && !counted {
        notes.push(
            "weights gathered for one layer are left out: they need --largest-layer".to_owned(),
        );
    }
    if job.bucket.is_none() && !counted {
        notes.push("buffers for communication are left out: they need --bucket".to_owned());
    }
    let front = job.card.as_ref().and_then(|card| card.experts).map_or(0, |of| of.dense_first);
    if front > 0 && job.split.stages > 1 {
        let rule = "stages behind the first, all of whose blocks have experts, may need more";
        notes.push(rule.to_owned());
    }
    match (&job.step, &job.card) {
        (Some(step), Some(_)) => match job.working() {
            None => {
                let rule =
                    "working buffers are left out: no step is made of this model in this split";
                notes.push(rule.to_owned());
            }
            Some((_, kernels)) if kernels != step.kernels => {
                let rule = "working buffers are those of compiled kernels, the least: no step is \
                            made of this model with the kernels that were asked for";
                notes.push(rule.to_owned());
            }
            Some(_) => {}
        },
        (Some(_), None) => {
            notes.push("working buffers are left out: they need --model".to_owned());
        }
        _ => {}
    }
    notes
}

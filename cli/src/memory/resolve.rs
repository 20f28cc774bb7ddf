//! From what was typed to what it means, or why it means nothing.
//!
//! Invariant: a message names the rule, the value found and what to type instead.

mod frozen;
mod others;
mod refusals;

use super::options::{Convention, MemoryArgs};
use crate::typed::Millionths;
pub(in crate::memory) use frozen::packed_files;
use frozen::{lora, packed};
use others::{deepspeed, structured};
use refusals::{
    OF_DEEPSPEED, OF_LOADER, OF_OPERATORS, OF_SERVING, OF_SHAPE, OF_STEP, is_typed, of_training,
    refuse,
};
use tiersim_input::import::card::ModelFiles;
use tiersim_models::results::memory_account::Place;
use tiersim_workloads::memory::account::{Keeps, Pipeline, Serving, Step, Structured, Training};
use tiersim_workloads::memory::deepspeed::Question;
use tiersim_workloads::memory::inference::Kv;
use tiersim_workloads::memory::zero::{MILLION, Offload};
use tiersim_workloads::transformer::card::{Card, Family};
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loader, Optimizer, OptimizerKernels, UpdateTime, Zero,
};

/// What is asked.
pub(crate) enum MemoryQuestion {
    /// What training needs.
    Training(Box<Training>),
    /// What serving needs.
    Serving(Box<Serving>),
    /// What a structured operator needs.
    Structured(Structured),
    /// What DeepSpeed estimates for a stage.
    Estimated(Question, u8),
}

/// What was asked.
pub(crate) fn asked(
    args: &MemoryArgs,
    model: Option<&ModelFiles>,
) -> Result<MemoryQuestion, String> {
    if args.semiseparable.is_some() {
        refuse("--semiseparable", args, &["--fit", "--table"])?;
        refuse("--semiseparable", args, &["--model"])?;
    }
    if model.is_some() {
        refuse("--model", args, &[&OF_SHAPE[..6], &["--params", "--layers"]].concat())?;
    }
    if args.convention == Some(Convention::Deepspeed) {
        refuse("--convention deepspeed", args, &["--fit", "--table"])?;
    }
    if let Some(size) = args.semiseparable {
        return structured(args, size).map(MemoryQuestion::Structured);
    }
    refuse("an account without --semiseparable", args, &OF_OPERATORS)?;
    if args.convention == Some(Convention::Deepspeed) {
        return deepspeed(args, model);
    }
    refuse("an account without --convention deepspeed", args, &OF_DEEPSPEED)?;
    if args.inference {
        refuse("--inference", args, &["--table"])?;
        return serving(args, model).map(|job| MemoryQuestion::Serving(Box::new(job)));
    }
    refuse("training (an account without --inference)", args, &OF_SERVING)?;
    training(args, model).map(|job| MemoryQuestion::Training(Box::new(job)))
}

/// All GPUs and those of one node.
fn gpus(args: &MemoryArgs, few: u64) -> Result<(u64, u64), String> {
    let (gpus, per_node) = match (args.gpus, args.gpus_per_node, args.nodes) {
        (Some(gpus), Some(per_node), _) => (gpus, per_node.min(gpus)),
        (Some(gpus), None, Some(nodes)) => (gpus, gpus.div_ceil(nodes)),
        (Some(gpus), None, None) => (gpus, gpus.min(few)),
        (None, per_node, nodes) => {
            let per_node = per_node.unwrap_or(1);
            let gpus = per_node.checked_mul(nodes.unwrap_or(1));
            (
                gpus.ok_or("--gpus-per-node times --nodes must be below 2^64; lower one of them")?,
                per_node,
            )
        }
    };
    let nodes = args.nodes.unwrap_or(gpus / per_node);
    if per_node.checked_mul(nodes) != Some(gpus) {
        return Err(format!(
            "every node must have the same number of GPUs (found {gpus} GPUs, {per_node} per node, {nodes} \
             node(s)); change --gpus, --gpus-per-node or --nodes"
        ));
    }
    Ok((gpus, per_node))
}

fn params(args: &MemoryArgs, model: Option<&ModelFiles>) -> Result<u64, String> {
    model.map(|model| model.card.parameters()).or(args.params).ok_or_else(|| {
        "the model's size is missing; say --params, such as --params 7.5B, or --model".to_owned()
    })
}

/// Refuses a whole that is not of equal parts.
fn multiple(name: &str, of: &str, whole: u64, part: u64) -> Result<(), String> {
    if whole.is_multiple_of(part) {
        return Ok(());
    }
    Err(format!("{name} must be a multiple of {of} (found {whole} and {part}); change one"))
}

/// Ranks that matrices and blocks are split over: whole replicas of the model.
fn split(args: &MemoryArgs, gpus: u64) -> Result<(u64, u64), String> {
    let (tensor, stages) = (args.tensor.unwrap_or(1), args.pipeline.unwrap_or(1));
    let ranks = tensor.checked_mul(stages).filter(|ranks| gpus.is_multiple_of(*ranks));
    if ranks.is_none() {
        return Err(format!(
            "GPUs must be a multiple of --tensor times --pipeline (found {gpus} GPUs, tensor {tensor}, \
             pipeline {stages}); change one of them"
        ));
    }
    Ok((tensor, stages))
}

/// A number of a shape, which cards hold in 32 bits.
fn small(name: &str, value: u64) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("{name} must be below 2^32 (found {value}); lower it"))
}

/// The model's shape, if one was typed; then all of it must be.
fn whole_shape(args: &MemoryArgs, model: Option<&ModelFiles>) -> Result<Option<Card>, String> {
    if let Some(model) = model {
        return Ok(Some(model.card.clone()));
    }
    let (Some(layers), Some(hidden), Some(heads)) = (args.layers, args.hidden, args.heads) else {
        let any = is_typed(args, &OF_SHAPE[..5]) || args.layers.is_some();
        let rule = "a shape has blocks, width and heads";
        return if any {
            Err(format!("{rule}, and one is missing; say --layers, --hidden and --heads"))
        } else {
            Ok(None)
        };
    };
    let kv_heads = args.kv_heads.unwrap_or(heads);
    multiple("--hidden", "heads", hidden, heads)?;
    multiple("--heads", "heads", heads, kv_heads)?;
    let family = args.family.unwrap_or(Family::Gpt2);
    if family.experts().1 {
        let rule = format!("experts of --family {} need a model card", family.word());
        return Err(format!("{rule}; say another family"));
    }
    let ffn = match args.ffn {
        Some(ffn) => ffn,
        None if !family.is_gated() => {
            hidden.checked_mul(4).ok_or("--hidden times 4 must be below 2^64; lower --hidden")?
        }
        None => {
            let rule = "a gated feed-forward part has no usual width";
            return Err(format!("{rule} (found no --ffn); say --ffn, such as --ffn 14336"));
        }
    };
    Ok(Some(Card {
        name: String::new(),
        family,
        layers: small("--layers", layers)?,
        hidden: small("--hidden", hidden)?,
        ffn: small("--ffn", ffn)?,
        heads: small("--heads", heads)?,
        kv_heads: small("--kv-heads", kv_heads)?,
        head_dim: small("--hidden", hidden / heads)?,
        vocab: small("--vocab", args.vocab.unwrap_or(0))?,
        positions: 0,
        tied: !family.is_causal(),
        // Biases, and in Qwen no norms of heads.
        qkv_bias: true,
        experts: None,
        window: None,
        full_attention_every: None,
        latent: None,
    }))
}

/// The shape that counts: a model's only with tokens.
fn shape(args: &MemoryArgs, model: Option<&ModelFiles>) -> Result<Option<Card>, String> {
    Ok(whole_shape(args, model)?.filter(|_| model.is_none() || args.sequence.is_some()))
}

fn training(args: &MemoryArgs, model: Option<&ModelFiles>) -> Result<Training, String> {
    let (gpus, gpus_per_node) = gpus(args, 8)?;
    let (tensor, stages) = split(args, gpus)?;
    // As `trace generate` has it; what has 8 bits is not trained.
    let own = model.and_then(|model| model.format).filter(|format| format.bytes() > 1);
    let weights = args.precision.or(own).unwrap_or(Format::Bf16);
    let optimizer = match (args.optimizer_bytes, args.optimizer) {
        (Some(_), Some(_)) => {
            let rule = "--optimizer-bytes says what --optimizer would";
            return Err(format!("{rule} (found both); leave one of them out"));
        }
        (Some(Millionths(bytes)), None) => Keeps::PerParameter(bytes),
        (None, named) => Keeps::Named(named.unwrap_or(Optimizer::AdamW)),
    };
    let interleave = args.interleave.unwrap_or(1);
    if interleave > 1 && stages == 1 {
        let rule = "--interleave splits the stages of a pipeline";
        return Err(format!("{rule} (found {interleave} and one stage); say --pipeline"));
    }
    if args.sequence_parallel && tensor == 1 {
        let rule = "--sequence-parallel splits over the ranks of --tensor (found 1)";
        return Err(format!("{rule}; say --tensor"));
    }
    let context = context(args, gpus / (tensor * stages))?;
    let expert = experts(args, model, gpus / (tensor * stages * context))?;
    // As steps gather them.
    let is_step = model.is_some() && args.sequence.is_some();
    let prefetch = if is_step { Zero::default().prefetch } else { 0 };
    Ok(Training {
        params: params(args, model)?,
        card: model.map(|model| model.card.clone()),
        weights,
        gradients: args.gradients.unwrap_or(weights),
        optimizer,
        gpus,
        gpus_per_node,
        stage: args.stage.unwrap_or(0),
        offload: offload(args)?,
        split: Pipeline {
            tensor,
            context,
            by_sequence: args.sequence_parallel,
            overlap: Pipeline::default().overlap,
            stages,
            interleave,
            expert,
        },
        bucket: args.bucket,
        pinned: args.pinned.unwrap_or(0),
        reserved: args.reserve.unwrap_or(0),
        largest_layer: args.largest_layer.unwrap_or(0),
        prefetch: args.prefetch_layers.unwrap_or(prefetch).into(),
        reshard: Zero::default().reshard,
        packed: packed(args, model)?.map(|(packed, _)| packed),
        step: step(args, model, (tensor, stages, interleave), weights)?,
        lora: lora(args, model)?,
    })
}

/// That a model with a table of positions has one for each token.
fn in_table(args: &MemoryArgs, model: Option<&ModelFiles>) -> Result<(), String> {
    let positions = model.map_or(0, |model| u64::from(model.card.positions));
    match args.sequence {
        Some(tokens) if positions > 0 && tokens > positions => {
            let rule = format!("the model has a table of {positions} positions");
            Err(format!("{rule} (found --sequence {tokens}); say no more of them"))
        }
        _ => Ok(()),
    }
}

/// Ranks that experts are spread over: some of `data`, each with as many experts.
fn experts(args: &MemoryArgs, model: Option<&ModelFiles>, data: u64) -> Result<u64, String> {
    let Some(ranks) = args.expert.filter(|&ranks| ranks != 1) else { return Ok(1) };
    let of = model.and_then(|model| model.card.experts);
    let Some(experts) = of else {
        let rule = "--expert spreads the experts of a model over ranks";
        return Err(format!("{rule} (found none); leave it out, or name a --model with experts"));
    };
    for (name, whole) in [("data-parallel ranks", data), ("experts", experts.count.into())] {
        if !whole.is_multiple_of(ranks) {
            return Err(format!(
                "--expert must divide the {name} (found {ranks} and {whole}); change it"
            ));
        }
    }
    Ok(ranks)
}

fn offload(args: &MemoryArgs) -> Result<Offload, String> {
    let stage = args.stage.unwrap_or(0);
    let (optimizer, weights) =
        (args.offload_optimizer.unwrap_or_default(), args.offload_param.unwrap_or_default());
    if optimizer != Place::Gpu && stage == 0 {
        return Err(
            "optimizer state is offloaded from stage 1 on (found stage 0); say --stage 1, 2 or 3"
                .to_owned(),
        );
    }
    if weights != Place::Gpu && stage < 3 {
        return Err(format!(
            "weights are offloaded at stage 3 only (found stage {stage}); say --stage 3"
        ));
    }
    let ratio = args.offload_ratio.map_or(u64::from(MILLION), |Millionths(ratio)| ratio);
    let ratio = u32::try_from(ratio).ok().filter(|&ratio| ratio <= MILLION);
    let ratio = ratio.ok_or("--offload-ratio must be from 0 to 1; say 1 for all of it")?;
    if args.offload_ratio.is_some() && optimizer == Place::Gpu {
        let rule = "--offload-ratio is a share of offloaded optimizer state, and none is";
        return Err(format!("{rule}; say --offload-optimizer cpu or nvme"));
    }
    Ok(Offload { optimizer, weights, ratio })
}

fn step(
    args: &MemoryArgs,
    model: Option<&ModelFiles>,
    (tensor, stages, interleave): (u64, u64, u64),
    weights: Format,
) -> Result<Option<Step>, String> {
    let (shape, sequence) = match (shape(args, model)?, args.sequence) {
        (Some(shape), Some(sequence)) => (shape, sequence),
        (None, None) => {
            let needs = [&OF_STEP[..], &OF_LOADER, &["--batch"]].concat();
            let without = match model {
                Some(_) => "an account without --sequence",
                None => "an account without --sequence, --layers, --hidden and --heads",
            };
            return refuse(without, args, &needs).map(|()| None);
        }
        (None, Some(_)) => {
            return Err("--sequence needs a shape; say --layers, --hidden and --heads".to_owned());
        }
        (Some(_), None) => return Err("a shape needs tokens; say --sequence".to_owned()),
    };
    if model.is_none() && args.update == Some(UpdateTime::InBackward) {
        let rule = "gradients of one module at a time need the modules of a model";
        return Err(format!("{rule} (found --update in-backward without --model); say --model"));
    }
    if model.is_none() && args.kernels == Some(Kernels::Eager) {
        let rule = "eager kernels keep what the modules of a model say";
        return Err(format!("{rule} (found --kernels eager without --model); say --model"));
    }
    let layers = u64::from(shape.layers);
    let ways = stages.saturating_mul(interleave);
    if interleave > 1 {
        multiple("--layers", "--pipeline times --interleave", layers, ways)?;
        let batch = args.batch.or(args.micro_batch).unwrap_or(1);
        let micros = batch / args.micro_batch.unwrap_or(batch).max(1);
        multiple("micro-batches of a step", "--pipeline, with --interleave", micros, stages)?;
    } else if stages > layers {
        return Err(format!(
            "every stage must have a layer (found {layers} layers and {stages} stages); lower --pipeline"
        ));
    }
    multiple("--heads", "--tensor", shape.heads.into(), tensor)?;
    choices(args, layers.div_ceil(ways.max(1)))?;
    in_table(args, model)?;
    let attention = match (args.attention, shape.latent) {
        (Some(Attention::Eager), Some(_)) => {
            let rule = "only attention in one kernel is known of compressed keys and values";
            return Err(format!("{rule} (found --attention eager); say flash"));
        }
        (None, Some(_)) => Attention::Flash,
        (attention, _) => attention.unwrap_or(Attention::Eager),
    };
    let batch = args.batch.or(args.micro_batch).unwrap_or(1);
    let micro_batch = args.micro_batch.unwrap_or(batch);
    multiple("--batch", "--micro-batch", batch, micro_batch)?;
    let dropout = args.dropout.unwrap_or(!shape.family.is_rotary());
    Ok(Some(Step {
        shape,
        batch,
        micro_batch,
        sequence,
        format: args.activations.unwrap_or(weights),
        attention,
        kernels: args.kernels.unwrap_or_default(),
        optimizer_kernels: args.optimizer_kernels,
        loss: args.loss.unwrap_or_default(),
        dropout,
        checkpointing: args.checkpointing.unwrap_or(Checkpointing::None),
        update: args.update.unwrap_or_default(),
        loader: data_pipeline(args)?,
    }))
}

/// What a step does not have: more blocks to compute again than there are, a loop over parameters of
/// another optimizer than AdamW.
fn choices(args: &MemoryArgs, blocks: u64) -> Result<(), String> {
    if let Some(Checkpointing::Layers(first)) = args.checkpointing
        && !(1..=blocks).contains(&first.into())
    {
        let rule = format!("a virtual stage has {blocks} blocks");
        return Err(format!("{rule} (found --checkpointing layers:{first}); say fewer"));
    }
    let is_adam = |of| matches!(of, Optimizer::AdamW | Optimizer::AdamWithoutMaster);
    let loops = args.optimizer_kernels == Some(OptimizerKernels::ForLoop);
    if loops && args.optimizer.is_some_and(|of| !is_adam(of)) {
        let rule = "PyTorch's loop over parameters is known of AdamW";
        return Err(format!("{rule} (found --optimizer-kernels for-loop); say fused"));
    }
    Ok(())
}

fn data_pipeline(args: &MemoryArgs) -> Result<Option<Loader>, String> {
    let Some(workers) = args.workers else {
        return refuse("an account without --workers", args, &OF_LOADER[1..]).map(|()| None);
    };
    Ok(Some(Loader {
        workers: small("--workers", workers)?,
        prefetch: small("--prefetch", args.prefetch.unwrap_or(2))?,
        token_bytes: small("--token-bytes", args.token_bytes.unwrap_or(8))?,
    }))
}

/// Ranks that each sequence is split over, of `replicas` with the same part of the model.
fn context(args: &MemoryArgs, replicas: u64) -> Result<u64, String> {
    let context = args.context_parallel.unwrap_or(1);
    multiple("GPUs per part of the model", "--context-parallel", replicas, context)?;
    let Some(sequence) = args.sequence.filter(|_| context > 1) else { return Ok(context) };
    multiple("--sequence", "twice --context-parallel", sequence, 2 * context)?;
    if args.attention != Some(Attention::Flash) || args.kernels == Some(Kernels::Eager) {
        let rule = "--context-parallel: only attention in one kernel goes around a ring";
        return Err(format!("{rule}; say --attention flash, and no --kernels eager"));
    }
    Ok(context)
}

fn serving(args: &MemoryArgs, model: Option<&ModelFiles>) -> Result<Serving, String> {
    let mut others = of_training();
    others.retain(|name| *name != "--context-parallel");
    refuse("--inference", args, &others)?;
    refuse("--inference", args, &["--stage", "--offload-optimizer", "--largest-layer"])?;
    let (gpus, gpus_per_node) = gpus(args, 8)?;
    let (tensor, pipeline) = split(args, gpus)?;
    let context_ranks = args.context_parallel.unwrap_or(1);
    let replicas = gpus / (tensor * pipeline);
    multiple("GPUs per part of the model", "--context-parallel", replicas, context_ranks)?;
    let own = args.precision.or(model.and_then(|model| model.format)).unwrap_or(Format::Bf16);
    let shape = shape(args, model)?;
    let card = model.map(|model| &model.card).or(shape.as_ref());
    if let Some(problem) = card.and_then(Card::generation_problem) {
        return Err(format!("--inference: {}; {}", problem.rule, problem.remedy));
    }
    if shape.is_some() != args.sequence.is_some() {
        return Err("keys and values need a shape and tokens; say --layers, --hidden, --heads and --sequence".to_owned());
    }
    if shape.is_none() && context_ranks > 1 {
        let rule = "--context-parallel splits keys and values, which need tokens";
        return Err(format!("{rule} (found none); say --sequence"));
    }
    in_table(args, model)?;
    let bytes = args.kv.unwrap_or(own).bytes();
    let kv = shape.map(|card| Kv::of(&card, bytes));
    Ok(Serving {
        params: params(args, model)?,
        weights: own,
        packed: packed(args, model)?,
        experts: model
            .and_then(|model| Some((model.card.experts?, model.card.active_parameters()))),
        kv,
        batch: args.batch.unwrap_or(1),
        context: args.sequence.unwrap_or(0),
        page: args.kv_block.unwrap_or(16),
        gpus,
        gpus_per_node,
        tensor,
        pipeline,
        context_ranks,
        offload_weights: args.offload_param.unwrap_or_default(),
        offload_kv: args.offload_kv.unwrap_or_default(),
        reserved: args.reserve.unwrap_or(0),
    })
}

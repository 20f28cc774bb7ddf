//! `trace generate`: the trace of a model, and the list of models that can be named.
//!
//! Invariant: nothing is written for a step that breaks a rule.

use crate::messages::say_note;
use crate::output::{Failure, print};
use crate::typed::{
    attention, checkpointing, format, kernels, loss, optimizer, optimizer_kernels, packed, size,
    targets, update,
};
use clap::{ArgAction, Args as ClapArgs};
use std::path::{Path, PathBuf};
use tiersim_input::import::card::{ModelFiles, known_model, known_names, read_model};
use tiersim_input::trace::{Packing, info, write_trace};
use tiersim_models::units::Bytes;
use tiersim_reports::text_table::{Side, cells, text_table};
use tiersim_workloads::ShapeProblem;
use tiersim_workloads::transformer::adapters::{Lora, Targets};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::known::KNOWN;
use tiersim_workloads::transformer::packed::Packed;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loader, Loss, Optimizer, OptimizerKernels, Parallel, Router,
    Training, UpdateTime, Zero,
};

#[derive(Debug, ClapArgs)]
pub(crate) struct GenerateArgs {
    /// List the models that can be named, with their parameters.
    #[arg(long, exclusive = true)]
    list: bool,
    /// A model by its name, or a config.json of Hugging Face.
    #[arg(long, value_name = "NAME|FILE", required_unless_present = "list")]
    model: Option<String>,
    /// Its weights as the truth about sizes: .safetensors, .index.json, or a header as .json.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// What it does: one step of training of one rank.
    #[arg(long, required_unless_present = "list")]
    train: bool,
    /// Folder of the trace to write.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    out: Option<PathBuf>,
    #[command(flatten)]
    step: StepArgs,
}

#[derive(Debug, ClapArgs)]
struct StepArgs {
    /// Sequences of one step of one replica.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: u32,
    /// Sequences that go through the model at once [default: --batch].
    #[arg(long, value_name = "N")]
    micro_batch: Option<u32>,
    /// Tokens of a sequence.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    sequence: u64,
    /// Format of weights, gradients and activations: fp32, tf32, fp16, bf16, fp8 or int8 [default:
    /// what the model's files say, or bf16].
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    precision: Option<Format>,
    /// How the matrices of blocks are stored beside --lora: nf4, nf4-double or int4, with :G for G
    /// weights per scale, or mxfp4 [default: as --precision says].
    #[arg(long, value_name = "HOW", value_parser = packed)]
    quantize: Option<Packed>,
    /// Format of gradients [default: that of --precision].
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    gradients: Option<Format>,
    /// Format of what is kept for the backward pass; int8 compresses it [default: --precision].
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    activations: Option<Format>,
    /// adamw, adam-without-master, adam-8bit, adam-mini, adafactor, lion, sgd or sgd-momentum
    /// [default: adamw].
    #[arg(long, value_name = "NAME", value_parser = optimizer)]
    optimizer: Option<Optimizer>,
    /// What is kept for the backward pass: none (everything), selective, full, every:K
    /// or layers:N [default: none].
    #[arg(long, value_name = "WHAT", value_parser = checkpointing)]
    checkpointing: Option<Checkpointing>,
    /// When weights are updated: after the backward pass, or in-backward, each module as soon as
    /// its gradient is complete [default: after].
    #[arg(long, value_name = "WHEN", value_parser = update)]
    update: Option<UpdateTime>,
    /// flash or eager [default: flash].
    #[arg(long, value_name = "HOW", value_parser = attention)]
    attention: Option<Attention>,
    /// Which kernels run: compiled, eager or fused [default: compiled].
    #[arg(long, value_name = "WHICH", value_parser = kernels)]
    kernels: Option<Kernels>,
    /// Which kernels update weights by AdamW: for-loop or fused [default: for-loop with --kernels
    /// eager, fused otherwise].
    #[arg(long, value_name = "WHICH", value_parser = optimizer_kernels)]
    optimizer_kernels: Option<OptimizerKernels>,
    /// How head and loss are computed: eager, or fused in chunks of tokens [default: eager].
    #[arg(long, value_name = "HOW", value_parser = loss)]
    loss: Option<Loss>,
    /// Rank of adapters (LoRA), which alone are trained [default: all is trained].
    #[arg(long, value_name = "R")]
    lora: Option<u32>,
    /// Matrices that have adapters, of q, k, v, o, gate, up and down [default: q,v].
    #[arg(long, value_name = "LIST", value_parser = targets, requires = "lora")]
    lora_targets: Option<Targets>,
    /// Keeps the masks of dropout.
    #[arg(long, action = ArgAction::SetTrue)]
    dropout: bool,
    /// Replicas of the model.
    #[arg(long, value_name = "N", default_value_t = 1)]
    data: u32,
    /// Ranks that each sequence is split over, whose keys and values go around a ring.
    #[arg(long, value_name = "N", default_value_t = 1)]
    context_parallel: u32,
    /// Ranks that each matrix is split over.
    #[arg(long, value_name = "N", default_value_t = 1)]
    tensor: u32,
    /// Splits by sequence over the same ranks what --tensor leaves whole.
    #[arg(long)]
    sequence_parallel: bool,
    /// Stages of the pipeline.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u32,
    /// Stretches of blocks per stage.
    #[arg(long, value_name = "N", default_value_t = 1)]
    interleave: u32,
    /// Ranks that the experts of a block are spread over.
    #[arg(long, value_name = "N", default_value_t = 1)]
    expert: u32,
    /// Stage of ZeRO.
    #[arg(long, value_name = "0..3", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    stage: u8,
    /// Parts per thousand of the update that run on the host's processors.
    #[arg(long, value_name = "0..1000", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1000))]
    host_update: u16,
    /// Bytes of gradients that are reduced at once, such as 500MB [default: 500MB].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bucket: Option<u64>,
    /// Blocks whose weights are gathered ahead in stage 3.
    #[arg(long, value_name = "N", default_value_t = 1)]
    prefetch: u32,
    /// In stage 3, what a forward pass gathers stays whole for the backward pass.
    #[arg(long)]
    no_reshard: bool,
    /// Communication waits for computing and computing for communication.
    #[arg(long)]
    no_overlap: bool,
    /// Devices of one server [default: all ranks, 8 at most].
    #[arg(long, value_name = "N")]
    devices: Option<u32>,
    /// Processes that prepare batches, per rank [default: their memory is left out].
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
}

/// Lists models, or writes the trace of one.
pub(crate) fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    if args.list {
        return print(&listing());
    }
    let (name, out) = args.model.as_deref().zip(args.out.as_deref()).expect("clap asks for both");
    let model = model(name, args.weights.as_deref())?;
    model.remarks.iter().for_each(|remark| say_note(name, remark));
    let training = args.step.training(&model);
    let problems = training.problems();
    if !problems.is_empty() {
        let lines: Vec<String> = problems.iter().map(told).collect();
        return Err(Failure::Input(lines.join("\nerror: ")));
    }
    let trace = training.trace();
    write_trace(&trace, out, Packing::Smaller)?;
    print(&format!("{}\nwritten to {}\n", info(&trace), out.display()))
}

fn model(name: &str, weights: Option<&Path>) -> Result<ModelFiles, Failure> {
    if name.ends_with(".json") {
        return Ok(read_model(Path::new(name), weights)?);
    }
    let known = known_model(name, weights).ok_or_else(|| {
        let known = known_names().join(", ");
        let name: String = name.chars().take(80).collect();
        Failure::Input(format!(
            "--model: no model called {name:?}; name a config.json, or one of {known}"
        ))
    })?;
    Ok(known?)
}

/// One line per model that can be named.
fn listing() -> String {
    let mut rows = vec![cells(["model", "family", "parameters", "active", "source"])];
    rows.extend(KNOWN.iter().map(|known| {
        let card = known.card();
        let (all, active) = (card.parameters(), card.active_parameters());
        let (name, family, source) = (known.name, known.family.word(), known.source);
        cells([name, family, &all.to_string(), &active.to_string(), source])
    }));
    text_table(0, &[Side::Left, Side::Left, Side::Right, Side::Right], &rows)
}

/// A rule that a step breaks, by the option that it is about.
fn told(problem: &ShapeProblem) -> String {
    let ShapeProblem { field, rule, remedy } = problem;
    let option = match *field {
        field if field.starts_with("card") => "--model".to_owned(),
        "formats.weights" => "--quantize".to_owned(),
        "lora.rank" => "--lora".to_owned(),
        "lora.targets" => "--lora-targets".to_owned(),
        "parallel.sequence" => "--sequence-parallel".to_owned(),
        "parallel.context" => "--context-parallel".to_owned(),
        field => {
            let last = field.rsplit('.').next().unwrap_or(field);
            format!("--{}", last.replace('_', "-"))
        }
    };
    format!("{option}: {rule}; {remedy}")
}

impl StepArgs {
    fn training(&self, model: &ModelFiles) -> Training {
        let all = self.precision.or(model.format).unwrap_or(Format::Bf16);
        let parallel = Parallel {
            data: self.data,
            context: self.context_parallel,
            tensor: self.tensor,
            sequence: self.sequence_parallel,
            overlap: Parallel::default().overlap,
            pipeline: self.pipeline,
            interleave: self.interleave,
            expert: self.expert,
        };
        let zero = Zero::default();
        let loader = self.workers.map(|workers| Loader { workers, prefetch: 2, token_bytes: 8 });
        Training {
            card: model.card.clone(),
            batch: self.batch,
            micro_batch: self.micro_batch.unwrap_or(self.batch),
            sequence: self.sequence,
            formats: Formats {
                packed: self.quantize,
                gradients: self.gradients.unwrap_or(all),
                activations: self.activations.unwrap_or(all),
                ..Formats::all(all)
            },
            optimizer: self.optimizer.unwrap_or(Optimizer::AdamW),
            update: self.update.unwrap_or_default(),
            checkpointing: self.checkpointing.unwrap_or(Checkpointing::None),
            attention: self.attention.unwrap_or(Attention::Flash),
            kernels: self.kernels.unwrap_or_default(),
            optimizer_kernels: self.optimizer_kernels,
            loss: self.loss.unwrap_or_default(),
            dropout: self.dropout,
            parallel,
            zero: Zero {
                stage: self.stage,
                host_update: self.host_update,
                bucket: self.bucket.map_or(zero.bucket, Bytes::new),
                prefetch: self.prefetch,
                reshard: !self.no_reshard,
                overlap: !self.no_overlap,
            },
            devices: self.devices.unwrap_or(parallel.ranks().clamp(1, 8) as u32),
            router: Router::default(),
            loader,
            lora: self
                .lora
                .map(|rank| Lora { rank, targets: self.lora_targets.unwrap_or_default() }),
        }
    }
}

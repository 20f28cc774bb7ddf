//! `from`: what a framework's own file means here, as a scenario that is run at once.
//!
//! Invariant: what is printed is what is run, and it says of every key what became of it.

mod accelerate;
mod flexgen;
mod megatron;
mod shown;

use crate::hardware::machine;
use crate::new::settings_text;
use crate::output::Failure;
use accelerate::{AccelerateArgs, of_accelerate};
use clap::{Args, Subcommand};
use flexgen::{FlexGenArgs, of_flexgen};
use megatron::{MegatronArgs, of_megatron};
use shown::{Precision, command_line, shown};
use std::path::{Path, PathBuf};
use tiersim_input::guide::{Engine, Job, Load, Server, deepspeed, serve};
use tiersim_input::import::card::{known_model, read_model};
use tiersim_input::project::{machine_of, machine_with};
use tiersim_models::hardware::HBM;
use tiersim_policies::zoo::Registry;

#[derive(Debug, Args)]
pub(crate) struct FromArgs {
    #[command(subcommand)]
    framework: Framework,
}

#[derive(Debug, Subcommand)]
enum Framework {
    /// A ds_config.json of DeepSpeed.
    #[command(
        name = "deepspeed",
        after_help = "Examples:\n  tiersim from deepspeed examples/frameworks/zero3-offload.json --model gpt2-xl --sequence 1024 --device rtx-4090"
    )]
    DeepSpeed(DeepSpeedArgs),
    /// A command line of vLLM: `vllm serve MODEL --flags`, or the flags, or a file that holds them.
    #[command(
        after_help = "Examples:\n  tiersim from vllm 'vllm serve meta-llama/Llama-2-13b-hf --cpu-offload-gb 8 --max-num-seqs 4' --device rtx-4090"
    )]
    Vllm(ServeArgs),
    /// A command line of SGLang: `python -m sglang.launch_server --flags`, or a file that holds it.
    #[command(
        after_help = "Examples:\n  tiersim from sglang 'python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --kv-cache-dtype fp8_e5m2' --device a100"
    )]
    Sglang(ServeArgs),
    /// A command line of FlexGen: `python -m flexgen.flex_opt --flags`, or a file that holds it.
    #[command(
        name = "flexgen",
        after_help = "Examples:\n  tiersim from flexgen '--model facebook/opt-6.7b --percent 20 80 0 100 0 100 --gpu-batch-size 16 --num-gpu-batches 2 --gen-len 4' --device h100"
    )]
    FlexGen(FlexGenArgs),
    /// Arguments of Megatron-LM, or a shell script that holds them.
    #[command(
        after_help = "Examples:\n  tiersim from megatron examples/frameworks/megatron-8b.sh --device h100"
    )]
    Megatron(MegatronArgs),
    /// A YAML of `accelerate config`, or a device_map.
    #[command(
        after_help = "Examples:\n  tiersim from accelerate examples/frameworks/fsdp-offload.yaml --model llama-2-7b --device a100\n  tiersim from accelerate auto --max-memory 0=16GiB,cpu=60GiB --model llama-2-13b --device rtx-4090"
    )]
    Accelerate(AccelerateArgs),
}

#[derive(Debug, Args)]
struct DeepSpeedArgs {
    /// The configuration.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The model: a name of `tiersim memory --model`, or a config.json.
    #[arg(long, value_name = "NAME")]
    model: String,
    /// The machine: one of `tiersim hardware list`, or a word such as 4090, A100 or laptop.
    #[arg(long, value_name = "NAME")]
    device: String,
    /// GPUs, one replica each.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=8))]
    gpus: u64,
    /// Tokens of a sequence.
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    sequence: u64,
    /// Sequences of a micro-batch, where the file does not say [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    micro_batch: Option<u64>,
    /// Micro-batches of a step, where the file does not say [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    accumulation: Option<u64>,
    /// ZeRO's stage, where the file says auto [default: 2].
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u64).range(0..=3))]
    stage: Option<u64>,
    /// Precision, where the file does not say [default: the first that it leaves open, else fp32].
    #[arg(long, value_enum)]
    precision: Option<Precision>,
    /// GiB of the host's memory, in the place of the machine's.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    host_memory: Option<u64>,
    /// The program keeps only the inputs of blocks, and computes the rest again.
    #[arg(long)]
    checkpointing: bool,
    /// Print the scenario and do not run it.
    #[arg(long)]
    no_run: bool,
    /// Folder to write results to [default: out/FILE].
    #[arg(long, value_name = "DIR", conflicts_with = "no_run")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// The command line in quotes, or the path of a file that holds it.
    #[arg(value_name = "ARGS", allow_hyphen_values = true)]
    words: String,
    /// The machine: one of `tiersim hardware list`, or a word such as 4090, A100 or laptop.
    #[arg(long, value_name = "NAME")]
    device: String,
    /// The model, in the place of the command line's: a name of `tiersim memory --model`, or a config.json.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Tokens of each request that are in the cache at first.
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    prompt: u64,
    /// Tokens that come, one step each.
    #[arg(long, value_name = "TOKENS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    tokens: u64,
    /// Requests under way at once, as far as the flags allow.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    requests: u64,
    /// Print the scenario and do not run it.
    #[arg(long)]
    no_run: bool,
    /// Folder to write results to [default: out/vllm, out/sglang, or out/FILE].
    #[arg(long, value_name = "DIR", conflicts_with = "no_run")]
    out: Option<PathBuf>,
}

/// Prints the scenario, and runs it.
pub(crate) fn from(args: &FromArgs, registry: &Registry) -> Result<(), Failure> {
    match &args.framework {
        Framework::DeepSpeed(args) => of_deepspeed(args, registry),
        Framework::Vllm(args) => of_server(args, Engine::Vllm, registry),
        Framework::Sglang(args) => of_server(args, Engine::Sglang, registry),
        Framework::FlexGen(args) => of_flexgen(args, registry),
        Framework::Megatron(args) => of_megatron(args, registry),
        Framework::Accelerate(args) => of_accelerate(args, registry),
    }
}

fn of_deepspeed(args: &DeepSpeedArgs, registry: &Registry) -> Result<(), Failure> {
    let text = settings_text(&args.file)?;
    let ships = machine_with(&args.device, args.gpus).filter(|name| machine(name).is_ok());
    let Some(device) = ships else {
        return Err(Failure::Input(format!(
            "--device {}: no machine with {} of these ships; choose one of `tiersim hardware \
             list`, or another number of --gpus",
            args.device, args.gpus
        )));
    };
    let precision = args.precision.map(Precision::word);
    let found = deepspeed(
        &args.file,
        &text,
        &Job {
            model: &args.model,
            device,
            gpus: args.gpus,
            sequence: args.sequence,
            micro_batch: args.micro_batch,
            accumulation: args.accumulation,
            precision,
            stage: args.stage,
            host_gib: args.host_memory,
            checkpointing: args.checkpointing,
        },
    )?;
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    shown(&found, &stem, args.no_run, args.out.as_deref(), registry)
}

fn of_server(args: &ServeArgs, engine: Engine, registry: &Registry) -> Result<(), Failure> {
    let own = match engine {
        Engine::Vllm => "vllm",
        Engine::Sglang => "sglang",
    };
    let line = command_line(&args.words, own)?;
    // A word that is no machine with one device either is refused as what was typed.
    if machine_of(&args.device, 1).or(machine_of(&args.device, 8)).is_none() {
        machine(&args.device)?;
    }
    let ships = |devices| {
        let name = machine_with(&args.device, devices)?;
        let (_, hardware) = machine(name).ok()?;
        let bytes = hardware.tiers[HBM.index()].capacity.limit()?.get();
        Some(Server { machine: name.to_owned(), bytes })
    };
    let parameters = |name: &str| {
        let model = known_model(name, None).unwrap_or_else(|| read_model(Path::new(name), None));
        model.ok().map(|model| model.card.parameters())
    };
    let load = Load {
        model: args.model.as_deref(),
        machine: &ships,
        parameters: &parameters,
        prompt: args.prompt,
        tokens: args.tokens,
        requests: args.requests,
    };
    let found = serve(&line.file, &line.text, engine, &load)?;
    shown(&found, &line.stem, args.no_run, args.out.as_deref(), registry)
}

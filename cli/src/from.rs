//! `from`: what a framework's own file means here, as a scenario that is run at once.
//!
//! Invariant: what is printed is what is run, and it says of every key what became of it.

mod accelerate;
mod flexgen;
mod megatron;
mod shared;
mod shown;

use crate::new::settings_text;
use crate::output::Failure;
use accelerate::{AccelerateArgs, of_accelerate};
use clap::{Args, Subcommand};
use flexgen::{FlexGenArgs, of_flexgen};
use megatron::{MegatronArgs, of_megatron};
use shared::{Asked, Generation, SERVER, Training, Typed};
use shown::Precision;
use std::path::{Path, PathBuf};
use tiersim_input::guide::{Engine, Job, Load, Server, deepspeed, serve};
use tiersim_input::import::card::{known_model, read_model};
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
    /// GPUs, one replica each.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    gpus: u64,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    asked: Asked,
    /// Precision, where the file does not say [default: the first that it leaves open, else fp32].
    #[arg(long, value_enum)]
    precision: Option<Precision>,
}

#[derive(Debug, Args)]
#[command(mut_arg("out", |out| out.help(
    "Folder to write results to [default: out/vllm, out/sglang, or out/FILE]"
)))]
struct ServeArgs {
    #[command(flatten)]
    typed: Typed,
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    generation: Generation,
    /// Requests under way at once, as far as the flags allow.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    requests: u64,
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
    let DeepSpeedArgs { file, asked, gpus, training, precision } = args;
    let text = settings_text(file)?;
    let Some((device, machine)) = asked.ships((*gpus).min(SERVER)) else {
        return Err(Failure::Input(format!(
            "--device {}: no machine with {gpus} of these ships; choose one of `tiersim hardware \
             list`, or another number of --gpus",
            asked.device
        )));
    };
    let devices = u64::from(machine.server.devices);
    if *gpus > devices && !gpus.is_multiple_of(devices) {
        return Err(Failure::Input(format!(
            "--gpus {gpus}: replicas fill servers of {devices} devices; say up to {devices}, or a \
             multiple of it"
        )));
    }
    let job = Job {
        model: &training.model,
        device: &device,
        gpus: *gpus,
        sequence: training.sequence,
        micro_batch: training.micro_batch,
        accumulation: training.accumulation,
        precision: precision.map(Precision::word),
        stage: training.stage,
        host_gib: training.host_memory,
        checkpointing: training.checkpointing,
    };
    // FusedAdam is DeepSpeed's own.
    let kernels = training.kernels(true);
    let found = deepspeed(file, &text, &job)?.with_kernels(kernels.as_deref());
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    asked.shown(found, file, &stem, registry)
}

fn of_server(args: &ServeArgs, engine: Engine, registry: &Registry) -> Result<(), Failure> {
    let own = match engine {
        Engine::Vllm => "vllm",
        Engine::Sglang => "sglang",
    };
    let line = args.typed.line(own)?;
    args.asked.known()?;
    let ships = |devices| {
        let (machine, hardware) = args.asked.ships(devices)?;
        let bytes = hardware.tiers[HBM.index()].capacity.limit()?.get();
        Some(Server { machine, bytes })
    };
    let files = |name: &str| {
        let model = known_model(name, None).unwrap_or_else(|| read_model(Path::new(name), None));
        model.ok()
    };
    let load = Load {
        model: args.typed.model.as_deref(),
        machine: &ships,
        files: &files,
        prompt: args.generation.prompt,
        tokens: args.generation.tokens,
        requests: args.requests,
    };
    let found = serve(&line.file, &line.text, engine, &load)?;
    args.asked.shown(found, &line.file, &line.stem, registry)
}

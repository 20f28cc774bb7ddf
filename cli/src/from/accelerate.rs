//! `from accelerate`: a configuration of `accelerate config`, or a `device_map`, on a machine.
//!
//! Invariant: which of the two a file is, its keys say; the command adds what no key says.

use super::shown::{Precision, shown};
use crate::hardware::machine;
use crate::new::settings_text;
use crate::output::Failure;
use clap::Args;
use std::path::{Component, Path, PathBuf};
use tiersim_input::guide::{Launch, MapLoad, Opened, accelerate, device_map, is_device_map};
use tiersim_input::project::{machine_of, machine_with};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::zoo::Registry;

/// Most devices of a server that a word such as `a100` stands for.
const SERVER: u64 = 8;

#[derive(Debug, Args)]
pub(super) struct AccelerateArgs {
    /// The configuration, a device_map as JSON, or `auto` for device_map="auto".
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The model: a name of `tiersim memory --model`, or a config.json.
    #[arg(long, value_name = "NAME")]
    model: String,
    /// The machine: one of `tiersim hardware list`, or a word such as 4090, A100 or laptop.
    #[arg(long, value_name = "NAME")]
    device: String,
    /// Processes, one replica each, in the place of the configuration's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    gpus: Option<u64>,
    /// Tokens of a sequence.
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    sequence: u64,
    /// Sequences of a micro-batch, which the program says [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    micro_batch: Option<u64>,
    /// Micro-batches of a step, in the place of the configuration's [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    accumulation: Option<u64>,
    /// ZeRO's stage, where a file of DeepSpeed says auto [default: 2].
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u64).range(0..=3))]
    stage: Option<u64>,
    /// GiB of the host's memory, in the place of the machine's.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    host_memory: Option<u64>,
    /// The program keeps only the inputs of blocks, and computes the rest again.
    #[arg(long)]
    checkpointing: bool,
    /// Of a device_map: what weights may use of the card and of the host, as in 0=20GiB,cpu=60GiB.
    #[arg(long, value_name = "SIZES")]
    max_memory: Option<String>,
    /// Of a device_map: the precision.
    #[arg(long, value_enum, default_value_t = Precision::Fp16)]
    precision: Precision,
    /// Of a device_map: tokens of each request that are in the cache at first.
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    prompt: u64,
    /// Of a device_map: tokens that come, one step each.
    #[arg(long, value_name = "TOKENS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    tokens: u64,
    /// Of a device_map: sequences at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    batch: u64,
    /// Print the scenario and do not run it.
    #[arg(long)]
    no_run: bool,
    /// Folder to write results to [default: out/FILE].
    #[arg(long, value_name = "DIR", conflicts_with = "no_run")]
    out: Option<PathBuf>,
}

pub(super) fn of_accelerate(args: &AccelerateArgs, registry: &Registry) -> Result<(), Failure> {
    let auto = args.file.as_os_str() == "auto" && !args.file.exists();
    let text = if auto { String::new() } else { settings_text(&args.file)? };
    let known = |processes: u64| machine_of(&args.device, processes.min(SERVER));
    // A word that is no machine with one device either is refused as what was typed.
    if known(1).or(known(SERVER)).is_none() {
        machine(&args.device)?;
    }
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    let found = if auto || is_device_map(&args.file, &text) {
        let device = known(1).unwrap_or(&args.device);
        let (_, hardware) = machine(device)?;
        let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !args.file.components().all(inside) {
            return Err(Failure::Input(format!(
                "{}: a scenario names the map from its own folder; copy it into this folder, or run \
                 the command in the map's",
                args.file.display()
            )));
        }
        let load = MapLoad {
            model: &args.model,
            device,
            precision: args.precision.word(),
            prompt: args.prompt,
            tokens: args.tokens,
            batch: args.batch,
            pageable: hardware.links.iter().any(|link| link.pageable.is_some()),
            max_memory: sizes(args.max_memory.as_deref())?,
        };
        device_map((!auto).then_some(&args.file), &text, &load)?
    } else {
        let ships = |processes: u64| {
            let name = machine_with(&args.device, processes.min(SERVER))?;
            machine(name).is_ok().then(|| name.to_owned())
        };
        let launch = Launch {
            model: &args.model,
            machine: &ships,
            gpus: args.gpus,
            sequence: args.sequence,
            micro_batch: args.micro_batch,
            accumulation: args.accumulation,
            stage: args.stage,
            host_gib: args.host_memory,
            checkpointing: args.checkpointing,
            open: &|name| opened(&args.file, name),
        };
        accelerate(&args.file, &text, &launch)?
    };
    shown(&found, &stem, args.no_run, args.out.as_deref(), registry)
}

/// A file that a configuration names: beside it, or where the command runs.
fn opened(from: &Path, name: &str) -> Opened {
    let beside = from.parent().unwrap_or(Path::new("")).join(name);
    let file = if beside.is_file() { beside } else { name.into() };
    match settings_text(&file) {
        Ok(text) => Ok((file, text)),
        Err(_) => {
            let rule =
                "a configuration's `deepspeed_config_file` lies beside it, or in this folder";
            let remedy = "put it there, or pass it to `tiersim from deepspeed`";
            Err(Diagnostics::one(from, None, rule, name, remedy))
        }
    }
}

/// `max_memory` of the card and of the host, in bytes.
fn sizes(text: Option<&str>) -> Result<[Option<u64>; 2], Failure> {
    let mut all = [None; 2];
    for part in text.iter().flat_map(|text| text.split(',')) {
        let read = part.split_once('=').and_then(|(key, size)| {
            let place = match key.trim() {
                "0" | "cuda:0" => 0,
                "cpu" => 1,
                _ => return None,
            };
            Some((place, bytes(size.trim())?))
        });
        let Some((place, bytes)) = read.filter(|(place, _)| all[*place].is_none()) else {
            return Err(Failure::Input(format!(
                "--max-memory: sizes of 0, the card, and of cpu, each once (found {part}); write \
                 0=20GiB,cpu=60GiB"
            )));
        };
        all[place] = Some(bytes);
    }
    Ok(all)
}

/// A size as accelerate has it: `20GiB`, `500MB`, or bytes.
fn bytes(text: &str) -> Option<u64> {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("GB", 1_000_000_000)];
    let units = units.into_iter().chain([("MB", 1_000_000), ("KB", 1000), ("", 1)]);
    let lower = text.to_ascii_lowercase();
    let mut found = units
        .filter_map(|(unit, many)| Some((lower.strip_suffix(&unit.to_ascii_lowercase())?, many)));
    let (digits, many) = found.next()?;
    let number: f64 = digits.trim().parse().ok()?;
    let bytes = number * f64::from(many);
    (1.0..=1e18).contains(&bytes).then_some(bytes as u64)
}

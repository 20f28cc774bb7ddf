//! `from accelerate`: a configuration of `accelerate config`, or a `device_map`, on a machine.
//!
//! Invariant: which of the two a file is, its keys say; the command adds what no key says.

use super::shared::{Asked, Generation, SERVER, Training};
use super::shown::Precision;
use crate::hardware::machine;
use crate::new::settings_text;
use crate::output::Failure;
use clap::Args;
use std::path::{Component, Path, PathBuf};
use tiersim_input::guide::{Launch, MapLoad, Opened, accelerate, device_map, is_device_map};
use tiersim_input::project::machine_of;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::zoo::Registry;

#[derive(Debug, Args)]
#[command(
    mut_arg("micro_batch", |micro_batch| micro_batch.help(
        "Sequences of a micro-batch, which the program says [default: 1]"
    )),
    mut_arg("accumulation", |accumulation| accumulation.help(
        "Micro-batches of a step, in the place of the configuration's [default: 1]"
    )),
    mut_arg("stage", |stage| stage.help(
        "ZeRO's stage, where a file of DeepSpeed says auto [default: 2]"
    )),
    mut_arg("prompt", |prompt| prompt.help(
        "Of a device_map: tokens of each request that are in the cache at first"
    )),
    mut_arg("tokens", |tokens| tokens.help("Of a device_map: tokens that come, one step each")),
)]
pub(super) struct AccelerateArgs {
    /// The configuration, a device_map as JSON, or `auto` for device_map="auto".
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Processes, one replica each, in the place of the configuration's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    gpus: Option<u64>,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    asked: Asked,
    /// Of a device_map: what weights may use of the card and of the host, as in 0=20GiB,cpu=60GiB.
    #[arg(long, value_name = "SIZES")]
    max_memory: Option<String>,
    /// The precision, where the configuration does not say [default: what a file of DeepSpeed leaves open first, else
    /// fp32; of a device_map fp16].
    #[arg(long, value_enum)]
    precision: Option<Precision>,
    #[command(flatten)]
    generation: Generation,
    /// Of a device_map: sequences at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    batch: u64,
}

pub(super) fn of_accelerate(args: &AccelerateArgs, registry: &Registry) -> Result<(), Failure> {
    let auto = args.file.as_os_str() == "auto" && !args.file.exists();
    let text = if auto { String::new() } else { settings_text(&args.file)? };
    let AccelerateArgs { asked, training, generation, .. } = args;
    asked.known()?;
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    let found = if auto || is_device_map(&args.file, &text) {
        let device = machine_of(&asked.device, 1).unwrap_or(&asked.device);
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
            model: &training.model,
            device,
            precision: args.precision.unwrap_or(Precision::Fp16).word(),
            prompt: generation.prompt,
            tokens: generation.tokens,
            batch: args.batch,
            pageable: hardware.links.iter().any(|link| link.pageable.is_some()),
            max_memory: sizes(args.max_memory.as_deref())?,
        };
        if training.kernels.is_some() {
            return Err(Failure::Input(
                "--kernels: of training, and a device_map generates text; leave it out".to_owned(),
            ));
        }
        device_map((!auto).then_some(&args.file), &text, &load)?
    } else {
        let ships = |processes: u64| {
            let (name, hardware) = asked.ships(processes.min(SERVER))?;
            Some((name, hardware.server.devices.into()))
        };
        let launch = Launch {
            model: &training.model,
            machine: &ships,
            gpus: args.gpus,
            sequence: training.sequence,
            micro_batch: training.micro_batch,
            accumulation: training.accumulation,
            precision: args.precision.map(Precision::word),
            stage: training.stage,
            host_gib: training.host_memory,
            checkpointing: training.checkpointing,
            open: &|name| opened(&args.file, name),
        };
        let kernels = training.kernels(false);
        accelerate(&args.file, &text, &launch)?.with_kernels(kernels.as_deref())
    };
    asked.shown(found, &args.file, &stem, registry)
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

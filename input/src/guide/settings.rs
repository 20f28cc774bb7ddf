//! What each key of a guide means here.
//!
//! A key counts by its last word, whatever section it is in; a few sections name their keys
//! (`offload_optimizer: device: cpu`). Invariant: every entry gets one row.

use super::reader::Reader;
use super::yaml::Entry;
use super::{Fate, Row, Said};
use crate::project::machine_of as machine;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// What a scenario is written of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) model: String,
    pub(super) hardware: String,
    pub(super) devices: u64,
    pub(super) precision: &'static str,
    /// Products of 32-bit floats may cut them to 10 bits of mantissa.
    pub(super) tf32: bool,
    pub(super) micro_batch: u64,
    pub(super) accumulation: u64,
    pub(super) sequence: u64,
    pub(super) checkpointing: bool,
    pub(super) eager_attention: bool,
    pub(super) zero_stage: u64,
    /// Products of weights run in fp8 where the device can.
    pub(super) fp8_products: bool,
    /// What a forward pass gathers stays whole for the backward pass.
    pub(super) keeps_gathered: bool,
    /// Where optimizer state and weights go, as tiers; `None` for HBM.
    pub(super) optimizer: Option<&'static str>,
    pub(super) parameters: Option<&'static str>,
    pub(super) host_gib: Option<u64>,
    /// The tier that is watched, and the share of it at which something is done.
    pub(super) threshold: Option<(&'static str, f64)>,
    /// The least micro-batch, where it changes.
    pub(super) least: Option<u64>,
    pub(super) loader: Option<(u64, u64)>,
    /// Where activations go, as a tier.
    pub(super) activations: Option<&'static str>,
    /// The share of optimizer state that goes there, and is updated there.
    pub(super) optimizer_share: Option<f64>,
    /// What changes the weights, as the scenario's word.
    pub(super) update: Option<&'static str>,
    /// The format of gradients, where it is not the precision.
    pub(super) gradients: Option<&'static str>,
    /// Bytes of a bucket of gradients, and of what may be fetched ahead; 0 for nothing.
    pub(super) bucket: Option<u64>,
    pub(super) prefetch: Option<u64>,
    /// Blocks whose weights are gathered ahead, where that is said.
    pub(super) ahead: Option<u64>,
    /// The case's policy, where it is none that is worked out of the other fields.
    pub(super) policy: Option<String>,
    /// Bytes of the host's memory, in the place of the machine's.
    pub(super) host_bytes: Option<u64>,
    /// Communication shares the stream of what computes.
    pub(super) one_stream: bool,
    /// Copies are of pageable memory.
    pub(super) pageable: bool,
    /// Hooks copy each weight right before its module, wait for it, and drop it behind: with where
    /// that is known from.
    pub(super) hooks: Option<&'static str>,
    /// Text is generated, in the place of training.
    pub(super) generate: Option<Generate>,
    /// Training of a model that several kinds of ranks split, in the place of replicas alone.
    pub(super) ranks: Option<Ranks>,
    /// What became of options, and defaults that change bytes or time.
    pub(super) told: Vec<Row>,
}

/// How ranks split a model, and what comes with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ranks {
    /// The model's dimensions, in the place of its name.
    pub(super) card: Option<String>,
    pub(super) tensor: u64,
    /// Fields of `parallel`.
    pub(super) parallel: Vec<String>,
    /// What is kept for the backward pass, as the scenario's word.
    pub(super) checkpointing: Option<String>,
    pub(super) dropout: bool,
    /// Weights are updated in Megatron-LM's passes of mixed precision.
    pub(super) passes: bool,
}

/// What is generated, and with how much of the card.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Generate {
    pub(super) prompt: u64,
    pub(super) tokens: u64,
    pub(super) batch: u64,
    /// Formats of weights and of keys and values, where they are not the precision.
    pub(super) weights: Option<String>,
    pub(super) kv: Option<&'static str>,
    /// Bytes of each card that may be used, where not all of them are.
    pub(super) hbm: Option<u64>,
    /// The share of weights that is offloaded.
    pub(super) share: f64,
    /// FlexGen's way: whole runs in blocks of batches, placed by percentages.
    pub(super) block: Option<Block>,
}

/// A run of FlexGen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    /// Batches that go through a layer one after the other.
    pub(super) batches: u64,
    /// Percent of weights, cache and activations on the GPU and on the host.
    pub(super) percent: [u64; 6],
    pub(super) sep_layer: bool,
    /// Ops ahead for which objects come.
    pub(super) ahead: u64,
    /// Decode steps attend on the host's processors.
    pub(super) host_attention: bool,
}

/// Keys that change neither bytes nor time, with the reason.
const NO_MATTER: [(&[&str], &str); 5] = [
    (
        &[
            "learning_rate",
            "lr",
            "weight_decay",
            "warmup_steps",
            "warmup_ratio",
            "lr_scheduler",
            "adam_beta1",
            "adam_beta2",
            "adam_epsilon",
            "max_grad_norm",
            "gradient_clipping",
        ],
        "a number of the update: it changes neither bytes nor time",
    ),
    (
        &[
            "epochs",
            "num_epochs",
            "num_train_epochs",
            "max_steps",
            "save_steps",
            "eval_steps",
            "logging_steps",
            "seed",
        ],
        "how long or how often: a step is the same",
    ),
    (
        &[
            "nvme_path",
            "output_dir",
            "data_path",
            "dataset",
            "dataset_name",
            "cache_dir",
            "log_dir",
        ],
        "a path of one computer",
    ),
    (
        &["persistent_workers", "drop_last", "shuffle"],
        "how samples come: a step has its samples when it starts",
    ),
    (
        &["torch_compile", "cudnn_benchmark"],
        "which kernels run: `time` and `kernels` of the scenario say it",
    ),
];

/// The word by which a key counts, given the section that it is in.
fn word(path: &[String]) -> &str {
    let key = path.last().map_or("", String::as_str);
    let section = path.len().checked_sub(2).map(|at| path[at].as_str());
    match (section, key) {
        (Some("offload_optimizer"), "device") => "offload_optimizer",
        (Some("offload_param" | "offload_params"), "device") => "offload_params",
        (Some("zero_optimization" | "zero"), "stage") => "zero_stage",
        (Some("dynamic_batching"), "enabled") => "dynamic_batching",
        (Some("gradient_checkpointing" | "activation_checkpointing"), "enabled") => {
            "gradient_checkpointing"
        }
        (_, "model_name" | "model_name_or_path") => "model",
        (_, "gpu" | "device_name" | "machine") => "hardware",
        (_, "precision" | "dtype") => "mixed_precision",
        (_, "tf32") => "allow_tf32",
        (
            _,
            "micro_batch_size" | "per_device_train_batch_size" | "train_micro_batch_size_per_gpu",
        ) => "batch_size",
        (_, "max_seq_length" | "max_sequence_length" | "seq_length") => "sequence_length",
        (_, "activation_checkpointing") => "gradient_checkpointing",
        (_, "offload_param" | "offload_parameters") => "offload_params",
        (_, "world_size" | "num_devices") => "num_gpus",
        (_, "system_memory_gb" | "host_memory_gb") => "cpu_memory_gb",
        (_, "use_flash_attention" | "flash_attn") => "flash_attention",
        (_, "dataloader_num_workers") => "num_workers",
        (_, "dataloader_pin_memory") => "pin_memory",
        (_, "dataloader_prefetch_factor") => "prefetch_factor",
        _ => key,
    }
}

/// What the entries mean, and what became of each.
pub(super) fn settings(
    file: &Path,
    entries: &[Entry],
    said: Said<'_>,
) -> Result<(Settings, Vec<Row>), Diagnostics> {
    let mut of = Reader::new(file, entries, |path| word(path).to_owned());
    let devices = of.number("num_gpus", [1, 8], "parallel: (data: {})").unwrap_or(1);
    let mut settings = Settings { devices, ..Settings::default() };
    model_and_machine(&mut of, said, &mut settings);
    settings.precision = precision(&mut of);
    let told = ["time: roofline(precision: \"fp32\")", "time: roofline(precision: \"tf32\")"];
    settings.tf32 = of.flag("allow_tf32", told).unwrap_or(false);
    if settings.precision != "fp32" {
        of.ignore("allow_tf32", "nothing is multiplied in 32 bits");
    }
    work(&mut of, &mut settings);
    memory(&mut of, &mut settings);
    for (keys, why) in NO_MATTER {
        keys.iter().for_each(|key| of.ignore(key, why));
    }
    of.done().map(|rows| (settings, rows))
}

fn model_and_machine(of: &mut Reader<'_>, said: Said<'_>, settings: &mut Settings) {
    match said.model {
        Some(model) => {
            of.ignore("model", "the command says another");
            settings.model = model.to_owned();
        }
        None => match of.text("model", |model| Fate::Taken(format!("model: {model:?}"))) {
            Some((model, place)) => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
                if model.is_empty() || model.len() > 200 || !model.chars().all(plain) {
                    let rule = "a model is a name of `tiersim memory --model`, or a config.json";
                    of.wrong(place, rule, model, "write such a name, or pass --model NAME");
                }
                settings.model = model.to_owned();
            }
            None => of.missing("model", "pass --model NAME"),
        },
    }
    match said.hardware {
        Some(hardware) => {
            of.ignore("hardware", "the command says another");
            settings.hardware = hardware.to_owned();
        }
        None => {
            let devices = settings.devices;
            let told = |word: &str| {
                let name = machine(word, devices).unwrap_or(word);
                Fate::Taken(format!("hardware: {name:?}"))
            };
            match of.text("hardware", told) {
                Some((word, place)) => match machine(word, devices) {
                    Some(name) => settings.hardware = name.to_owned(),
                    None => {
                        let rule = format!("no machine with {devices} of these ships");
                        let remedy = "pass --hardware NAME, one of `tiersim hardware list`";
                        of.wrong(place, &rule, word, remedy);
                    }
                },
                None => of.missing("gpu", "pass --hardware NAME"),
            }
        }
    }
}

fn precision(of: &mut Reader<'_>) -> &'static str {
    let known = |value: &str| match value.to_ascii_lowercase().as_str() {
        "bf16" | "bfloat16" => Some("bf16"),
        "fp16" | "float16" | "half" | "true" => Some("fp16"),
        "fp32" | "float32" | "no" | "none" | "false" => Some("fp32"),
        _ => None,
    };
    let told = |value: &str| Fate::Taken(format!("precision: {}", known(value).unwrap_or("")));
    let Some((value, place)) = of.text("mixed_precision", told) else { return "fp32" };
    known(value).unwrap_or_else(|| {
        let rule = "`mixed_precision` is `bf16`, `fp16` or `no`";
        of.wrong(place, rule, value, "write one of these");
        "fp32"
    })
}

fn work(of: &mut Reader<'_>, settings: &mut Settings) {
    let sizes = [1, 1 << 20];
    settings.accumulation =
        of.number("gradient_accumulation_steps", sizes, "batch: {} micro-batches").unwrap_or(1);
    settings.micro_batch = of.number("batch_size", sizes, "micro_batch: {}").unwrap_or(1);
    settings.sequence = match of.find("sequence_length") {
        Some(_) => of.number("sequence_length", [1, 1 << 24], "sequence: {}").unwrap_or(1),
        None => {
            of.missing("sequence_length", "no other key says it");
            1
        }
    };
    let told = ["checkpointing: none", "checkpointing: full"];
    settings.checkpointing = of.flag("gradient_checkpointing", told).unwrap_or(false);
    let told = ["attention: eager", "attention: flash"];
    settings.eager_attention = !of.flag("flash_attention", told).unwrap_or(true);
    settings.zero_stage = of.number("zero_stage", [0, 3], "zero: (stage: {})").unwrap_or(0);
    if settings.devices == 1 && settings.zero_stage > 0 {
        of.ignore("zero_stage", "one device has nothing to divide its state among");
        settings.zero_stage = 0;
    }
    let workers = of.number("num_workers", [0, 1024], "loader: (workers: {})");
    let prefetch = of.number("prefetch_factor", [1, 1024], "loader: (prefetch: {})");
    settings.loader = workers.filter(|&workers| workers > 0).map(|w| (w, prefetch.unwrap_or(2)));
    if settings.loader.is_none() {
        of.ignore("prefetch_factor", "no worker prepares batches");
    }
}

fn memory(of: &mut Reader<'_>, settings: &mut Settings) {
    settings.optimizer = of.place("offload_optimizer", "optimizer");
    settings.parameters = of.place("offload_params", "parameters");
    settings.host_gib = of.number("cpu_memory_gb", [1, 1 << 20], "capacity: {\"dram\": gib({})}");
    let told = "pressure on HBM: critical at {}";
    let near = of.share("gpu_memory_threshold", told);
    let far = of.share("cpu_memory_threshold", "pressure on the host's memory: critical at {}");
    settings.threshold = near.map(|share| ("near", share)).or(far.map(|share| ("far", share)));
    let dynamic = of.flag("dynamic_batching", ["one micro-batch", "pressure: (micro_batch: ...)"]);
    let sizes = [1, 1 << 20];
    let least = of.number("min_batch_size", sizes, "micro_batch: (min: {})");
    let most = of.number("max_batch_size", sizes, "micro_batch: {}, the first and the largest");
    if dynamic == Some(true) {
        settings.micro_batch = most.unwrap_or(settings.micro_batch);
        if most.is_some() {
            of.ignore("batch_size", "the micro-batch changes, and begins with `max_batch_size`");
        }
        settings.least = Some(least.unwrap_or(1).min(settings.micro_batch));
    } else {
        for key in ["min_batch_size", "max_batch_size"] {
            of.ignore(key, "the batch does not change: `dynamic_batching` is not on");
        }
    }
    if near.is_some() || settings.least.is_some() {
        let one = "a case watches one tier, and this one watches HBM";
        of.ignore("cpu_memory_threshold", one);
        settings.threshold = near.map(|share| ("near", share));
    }
    let pinned = "copies are of pinned memory unless a `runtime` says otherwise";
    match of.find("pin_memory").and_then(|(_, entry)| entry.value.as_deref()) {
        Some("false" | "no" | "off") => of.ignore(
            "pin_memory",
            "how samples come; for all copies write `runtime: (copies: pageable, source: \"...\")`",
        ),
        _ => of.ignore("pin_memory", pinned),
    }
}

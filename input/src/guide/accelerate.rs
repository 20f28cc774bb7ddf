//! `accelerate config`'s YAML, to a scenario that trains; and a `device_map`, to one that generates.
//!
//! What is divided over processes is FSDP's, DeepSpeed's or nothing: `deepspeed_config` goes to the
//! reader of DeepSpeed, key by key or as the file that it names. How large a step is, the program
//! says, and so the command does. Invariant: every key has one row, those of a section that is not
//! in use included.

mod device_map;
mod reasons;
mod sharding;

use super::deepspeed::{self, Job};
use super::fsdp as keys;
use super::reader::Reader;
use super::settings::{Ranks, Settings};
use super::yaml::{self, Entry};
use super::{Fate, Guide, Row, write};
pub use device_map::{MapLoad, device_map, is_device_map};
use reasons::reason;
use sharding::fsdp;
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::Diagnostics;

/// The text of a file that the configuration names, and what problems call it.
pub type Opened = Result<(PathBuf, String), Diagnostics>;

/// What the configuration leaves to the program.
pub struct Launch<'a> {
    /// The model.
    pub model: &'a str,
    /// The machine on which so many processes run, and the devices of one of its servers.
    pub machine: &'a dyn Fn(u64) -> Option<(String, u64)>,
    /// Processes, in the place of the configuration's.
    pub gpus: Option<u64>,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Sequences of a micro-batch.
    pub micro_batch: Option<u64>,
    /// Micro-batches of a step.
    pub accumulation: Option<u64>,
    /// The precision, where the configuration does not say: `bf16`, `fp16` or `fp32`.
    pub precision: Option<&'static str>,
    /// ZeRO's stage, where it is left open.
    pub stage: Option<u64>,
    /// GiB of the host's memory, in the place of the machine's.
    pub host_gib: Option<u64>,
    /// The program keeps inputs of blocks only, and computes the rest again.
    pub checkpointing: bool,
    /// A file that the configuration names.
    pub open: &'a dyn Fn(&str) -> Opened,
}

/// Gradients of `DistributedDataParallel` are reduced in buckets of so many bytes.
const DDP_BUCKET: u64 = 25 << 20;

/// What divides a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Alone,
    Replicas,
    Fsdp,
    DeepSpeed,
}

/// A key by its path; those of DeepSpeed by DeepSpeed's own.
fn word(path: &[String]) -> String {
    let key = path.join(".");
    match key.as_str() {
        "deepspeed_config.zero_stage" => "zero_optimization.stage",
        "deepspeed_config.offload_optimizer_device" => "zero_optimization.offload_optimizer.device",
        "deepspeed_config.offload_param_device" => "zero_optimization.offload_param.device",
        "deepspeed_config.offload_optimizer_nvme_path" => {
            "zero_optimization.offload_optimizer.nvme_path"
        }
        "deepspeed_config.offload_param_nvme_path" => "zero_optimization.offload_param.nvme_path",
        "deepspeed_config.gradient_accumulation_steps" => "gradient_accumulation_steps",
        "deepspeed_config.gradient_clipping" => "gradient_clipping",
        "fsdp_config.fsdp_backward_prefetch_policy" => keys::BACKWARD,
        // Axolotl and the Trainer write FSDP's own names.
        other => match other.strip_prefix("fsdp_config.") {
            Some(own) if !own.starts_with("fsdp_") => return format!("fsdp_config.fsdp_{own}"),
            _ => other,
        },
    }
    .to_owned()
}

/// The scenario that a configuration means. `file` is what problems name.
///
/// # Errors
/// The text is no YAML of this kind, a value is not what its key wants, keys contradict each other,
/// or what divides the job is not modelled.
pub fn accelerate(file: &Path, text: &str, launch: &Launch<'_>) -> Result<Guide, Diagnostics> {
    let entries = yaml::entries(file, text)?;
    let mut of = Reader::new(file, &entries, word);
    let mut settings = Settings {
        model: launch.model.to_owned(),
        sequence: launch.sequence,
        checkpointing: launch.checkpointing,
        host_gib: launch.host_gib,
        ..Settings::default()
    };
    let said = precision(&mut of).or(launch.precision);
    settings.precision = said.unwrap_or("fp32");
    let kind = processes(&mut of, launch, &mut settings);
    let job = Job {
        model: launch.model,
        device: &settings.hardware.clone(),
        gpus: settings.devices,
        sequence: launch.sequence,
        micro_batch: launch.micro_batch,
        accumulation: launch.accumulation,
        // A file of DeepSpeed that leaves it open decides as it does by itself.
        precision: said,
        stage: launch.stage,
        host_gib: launch.host_gib,
        checkpointing: launch.checkpointing,
    };
    let mut named = None;
    if kind == Kind::DeepSpeed {
        let key = "deepspeed_config.deepspeed_config_file";
        let told = |name: &str| Fate::Taken(format!("{name}, whose keys follow"));
        match of.text(key, told) {
            Some((name, _)) => {
                let (file, text) = (launch.open)(name)?;
                let mut guide = deepspeed::deepspeed(&file, &text, &job)?;
                if launch.precision.is_none() {
                    contradicted(&mut of, &mut guide);
                }
                named = Some(guide);
                for key in ["gradient_accumulation_steps", "zero_optimization.stage"] {
                    of.ignore(key, "the file that is named says it");
                }
            }
            None => deepspeed::parts(&mut of, &job, &mut settings),
        }
    } else {
        batches(&mut of, launch, &mut settings);
        fsdp(&mut of, kind, &mut settings);
    }
    rest(&mut of, &entries, kind);
    let rows = of.done()?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
    match named {
        // The scenario is the file's; what both say is told once for each.
        Some(guide) => {
            let file = |row: Row| Row { key: format!("deepspeed: {}", row.key), ..row };
            let rows = rows.into_iter().chain(guide.rows.into_iter().map(file)).collect();
            Ok(Guide { rows, ..guide })
        }
        None => {
            let told = ["as accelerate launches", "tiersim from accelerate FILE"];
            Ok(write::guide(&name.unwrap_or_default(), &settings, told, rows))
        }
    }
}

/// A precision of the configuration that its file of DeepSpeed outvotes is the key's, not the
/// command's.
fn contradicted(of: &mut Reader<'_>, guide: &mut Guide) {
    let found = guide.rows.iter().position(|row| row.line == 0 && row.key == "--precision");
    let Some(index) = found else { return };
    if let Fate::Ignored(why) = guide.rows.remove(index).fate {
        of.ignore(keys::PRECISION, &why);
    }
}

fn precision(of: &mut Reader<'_>) -> Option<&'static str> {
    let known = |value: &str| match value.to_ascii_lowercase().as_str() {
        "bf16" => Some("bf16"),
        "fp16" => Some("fp16"),
        "fp8" => Some("bf16"),
        "no" | "false" | "none" | "null" | "" => Some("fp32"),
        _ => None,
    };
    let told = |value: &str| {
        let fp8 = value.eq_ignore_ascii_case("fp8");
        let note = "; for products in fp8 write `precision: \"fp8\"` in `time`";
        let note = if fp8 { note } else { "" };
        Fate::Taken(format!("precision: {}{note}", known(value).unwrap_or("")))
    };
    let (value, place) = of.text(keys::PRECISION, told)?;
    let found = known(value);
    if found.is_none() {
        let rule = "`mixed_precision` is no, fp16, bf16 or fp8";
        of.wrong(place, rule, value, "write one of these");
    }
    found
}

/// What divides the job, and over how many processes.
fn processes(of: &mut Reader<'_>, launch: &Launch<'_>, settings: &mut Settings) -> Kind {
    let said = of.number(keys::PROCESSES, [1, 1 << 16], "parallel: (data: {})");
    if launch.gpus.is_some() {
        of.ignore(keys::PROCESSES, "the command says how many there are");
    }
    let many = launch.gpus.or(said).unwrap_or(1);
    if of.flag("use_cpu", ["on the device", ""]) == Some(true) {
        let place = of.find("use_cpu").expect("it was read").1.place;
        of.wrong(place, "training runs on the device", "true", "write use_cpu: false");
    }
    let meaning = |word: &str| {
        Some(match word.to_ascii_uppercase().as_str() {
            "NO" | "FALSE" => Kind::Alone,
            "MULTI_GPU" => Kind::Replicas,
            "FSDP" => Kind::Fsdp,
            "DEEPSPEED" => Kind::DeepSpeed,
            _ => return None,
        })
    };
    let told = |word: &str| {
        Fate::Taken(match meaning(word) {
            Some(Kind::Alone) => "one process".to_owned(),
            Some(Kind::Replicas) => format!("replicas: gradients in buckets of {DDP_BUCKET} bytes"),
            Some(Kind::Fsdp) => "zero, as `fsdp_config` says".to_owned(),
            _ => "zero, as `deepspeed_config` says".to_owned(),
        })
    };
    let read = of.text(keys::TYPE, told);
    let by_count = if many > 1 { Kind::Replicas } else { Kind::Alone };
    let kind = read.map_or(by_count, |(word, place)| {
        meaning(word).unwrap_or_else(|| {
            let rule = "`distributed_type` is modelled as one of NO, MULTI_GPU, FSDP, DEEPSPEED";
            let remedy = match word.to_ascii_uppercase().as_str() {
                "MEGATRON_LM" => "pass Megatron's arguments to `tiersim from megatron`",
                _ => "write one of these",
            };
            of.wrong(place, rule, word, remedy);
            by_count
        })
    });
    if let (Kind::Alone, Some((_, entry))) = (kind, of.find(keys::PROCESSES))
        && many > 1
    {
        let rule = "one process runs where `distributed_type` is NO";
        of.wrong(entry.place, rule, &many.to_string(), "write distributed_type: MULTI_GPU");
    }
    settings.devices = many;
    let (hardware, devices) = (launch.machine)(many).unwrap_or_else(|| {
        let rule = format!("no machine with {many} of the devices ships");
        let place = of.find(keys::PROCESSES).map(|(_, entry)| entry.place);
        let remedy = "choose another --device, or another number of processes";
        of.problems.push(of.file, place, rule, "", remedy);
        (String::new(), 1)
    });
    settings.hardware = hardware;
    servers(of, many, devices, launch.gpus.is_some());
    parallelism(of, kind, settings);
    if settings.ranks.is_none() {
        filled(of, many, devices);
    }
    kind
}

/// Replicas over several servers leave no part of one idle.
fn filled(of: &mut Reader<'_>, many: u64, devices: u64) {
    if many > devices && !many.is_multiple_of(devices) {
        let rule = format!("processes fill servers of {devices} devices");
        let place = of.find(keys::PROCESSES).map(|(_, entry)| entry.place);
        let remedy = format!("write up to {devices}, or a multiple of it");
        of.problems.push(of.file, place, rule, many.to_string(), remedy);
    }
}

/// Servers of as many processes as the machine has devices; others are told.
fn servers(of: &mut Reader<'_>, many: u64, devices: u64, is_told: bool) {
    let key = "num_machines";
    let told = format!("servers: {{}}, of {} processes each", many.min(devices));
    let Some(servers) = of.number(key, [1, 1 << 16], &told) else { return };
    if is_told {
        of.ignore(key, "the command says how many processes there are");
    } else if !many.is_multiple_of(servers) {
        let place = of.find(key).expect("it was read").1.place;
        let rule = format!("each server has as many of the {many} processes");
        of.wrong(place, &rule, &servers.to_string(), "mend it, or `num_processes`");
    } else if many / servers != many.min(devices) {
        let each = many / servers;
        of.ignore(key, &not_filled(each, many, devices));
    }
}

/// Why servers with fewer or more ranks than the machine has devices say nothing.
pub(super) fn not_filled(each: u64, ranks: u64, devices: u64) -> String {
    let within = ranks.min(devices);
    format!(
        "not modelled: ranks fill servers of {devices}, so that {within} share one where the job has \
         {each}; what they exchange is quicker or slower than over its network"
    )
}

/// `parallelism_config`: processes of which some share a sequence or a matrix.
fn parallelism(of: &mut Reader<'_>, kind: Kind, settings: &mut Settings) {
    let mut size = |name: &str, told: &str| {
        let key = format!("parallelism_config.parallelism_config_{name}_size");
        of.number(&key, [1, 1 << 16], told)
    };
    let replicas = size("dp_replicate", "replicas: {}");
    let shards = size("dp_shard", "shards: {}");
    let tensor = size("tp", "parallel: (tensor: {})").unwrap_or(1);
    let both = ["cp", "sp"].map(|name| size(name, "parallel: (context: {})").unwrap_or(1));
    let context = both[0].max(both[1]);
    let model = tensor * context;
    let place = |of: &Reader<'_>| {
        let is = |entry: &&Entry| entry.path[0] == "parallelism_config";
        of.entries.iter().find(is).map(|entry| entry.place)
    };
    if !settings.devices.is_multiple_of(model) {
        let rule =
            format!("processes are a multiple of tensor x context, here {tensor} x {context}");
        let (at, found) = (place(of), settings.devices.to_string());
        of.problems.push(of.file, at, rule, found, "mend one of them, or `num_processes`");
        return;
    }
    let [copies, parts] = [replicas, shards].map(|said| said.unwrap_or(1));
    let said = replicas.is_some() || shards.is_some();
    let data = settings.devices / model;
    let mut refuse = |rule: String, found: String, remedy: &str| {
        let at = place(of);
        of.problems.push(of.file, at, rule, found, remedy);
    };
    if both[0] > 1 && both[1] > 1 {
        let rule = "a sequence is split by cp or by sp, not by both".to_owned();
        refuse(rule, format!("{} and {}", both[0], both[1]), "leave one of them out");
    }
    if said && copies * parts != data {
        let rule = format!(
            "dp_replicate x dp_shard x tensor x context are all {} processes, here {copies} x {parts} \
             x {tensor} x {context}",
            settings.devices
        );
        let found = (copies * parts * model).to_string();
        return refuse(rule, found, "mend one of them, or `num_processes`");
    }
    if kind == Kind::Fsdp && copies > 1 && parts == 1 {
        let rule = "FSDP shards over the ranks of `parallelism_config_dp_shard_size`".to_owned();
        let remedy = "write it in the place of dp_replicate, or distributed_type: MULTI_GPU";
        refuse(rule, "1".to_owned(), remedy);
    }
    if copies > 1 && parts > 1 && kind == Kind::Fsdp {
        let rule = "replicas of what is sharded are not modelled".to_owned();
        let remedy = "shard over all processes: leave parallelism_config_dp_replicate_size out";
        refuse(rule, copies.to_string(), remedy);
    }
    if model > 1 {
        let words = [("data", data), ("context", context), ("tensor", tensor)];
        let parallel = words.iter().filter(|(_, many)| *many > 1);
        let parallel = parallel.map(|(name, many)| format!("{name}: {many}")).collect();
        settings.ranks = Some(Ranks { parallel, tensor, ..Ranks::default() });
    }
}

fn batches(of: &mut Reader<'_>, launch: &Launch<'_>, settings: &mut Settings) {
    settings.micro_batch = launch.micro_batch.unwrap_or(1);
    let key = "gradient_accumulation_steps";
    let steps = of.number(key, [1, 1 << 20], "batch: {} micro-batches");
    if launch.accumulation.is_some() {
        of.ignore(key, "the command says another");
    }
    settings.accumulation = launch.accumulation.or(steps).unwrap_or(1);
}

/// Keys that say nothing, and those of sections that are not in use.
fn rest(of: &mut Reader<'_>, entries: &[Entry], kind: Kind) {
    for (index, entry) in entries.iter().enumerate() {
        if of.rows[index].is_some() {
            continue;
        }
        let used = match entry.path[0].as_str() {
            "deepspeed_config" => kind == Kind::DeepSpeed,
            keys::SECTION => kind == Kind::Fsdp,
            "megatron_lm_config" => false,
            _ => true,
        };
        let why = match (used, entry.value.as_deref()) {
            (_, Some("{}")) => Some("an empty section"),
            (false, _) => Some("of what `distributed_type` does not name"),
            _ => {
                let key = word(&entry.path);
                reason(&key).or((kind == Kind::DeepSpeed).then(|| deepspeed::why(&key)).flatten())
            }
        };
        of.rows[index] = why.map(|why| Fate::Ignored(why.to_owned()));
    }
}

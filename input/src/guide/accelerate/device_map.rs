//! A `device_map` of `transformers` or accelerate, to a scenario that generates.
//!
//! A map that is spelled out is the placement itself (`Hints` reads the file as it is); `auto` is
//! the policy that works one out. Invariant: a module goes where the map says, or is refused.

use super::super::reader::{Reader, not_said};
use super::super::settings::{Generate, Settings};
use super::super::yaml::{self, Entry};
use super::super::{Fate, Guide, Row, write};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// What a map leaves to who asks.
#[derive(Clone, Copy, Debug)]
pub struct MapLoad<'a> {
    /// The model.
    pub model: &'a str,
    /// The machine, by its name.
    pub device: &'a str,
    /// `fp16`, `bf16` or `fp32`.
    pub precision: &'static str,
    /// Tokens that are there when a step begins, and that come.
    pub prompt: u64,
    /// Tokens of each answer.
    pub tokens: u64,
    /// Sequences at a time.
    pub batch: u64,
    /// Whether the machine says what copies of pageable memory reach.
    pub pageable: bool,
    /// `max_memory`: bytes of the card and of the host that weights may use.
    pub max_memory: [Option<u64>; 2],
}

/// Whether a text is a map of modules and not a configuration.
pub fn is_device_map(file: &Path, text: &str) -> bool {
    let of_config = ["distributed_type", "num_processes", "compute_environment", "mixed_precision"];
    let entries = yaml::entries(file, text).unwrap_or_default();
    let is_place = |value: &str| value.parse::<u64>().is_ok() || place(value).is_some();
    let fits = |entry: &Entry| {
        entry.path.len() == 1
            && !of_config.contains(&entry.path[0].as_str())
            && entry
                .value
                .as_deref()
                .is_some_and(|value| is_place(value) || value.starts_with("cuda:"))
    };
    !entries.is_empty() && entries.iter().all(fits)
}

/// Where a word of a map sends a module.
fn place(word: &str) -> Option<&'static str> {
    match word {
        "0" | "cuda" | "cuda:0" | "gpu" => Some("HBM"),
        "cpu" => Some("the host's memory"),
        "disk" => Some("the drive"),
        _ => None,
    }
}

/// The scenario of a map that lies in `file`, or of `auto` where there is none.
///
/// # Errors
/// The text is no map of modules, or one goes to a second device.
pub fn device_map(
    file: Option<&Path>,
    text: &str,
    load: &MapLoad<'_>,
) -> Result<Guide, Diagnostics> {
    let mut settings = Settings {
        model: load.model.to_owned(),
        hardware: load.device.to_owned(),
        devices: 1,
        precision: load.precision,
        ..Settings::default()
    };
    let mut generate = Generate {
        prompt: load.prompt,
        tokens: load.tokens,
        batch: load.batch,
        ..Generate::default()
    };
    let [card, host] = load.max_memory;
    let mut rows = Vec::new();
    let told = |key: &str, bytes: u64, told: String| Row {
        line: 0,
        key: format!("max_memory {key}"),
        value: bytes.to_string(),
        fate: Fate::Taken(told),
    };
    let name = match file {
        None => {
            let words = [("hbm", card), ("cpu", host)];
            let fields =
                words.iter().filter_map(|(name, bytes)| Some(format!("{name}: b({})", (*bytes)?)));
            let fields: Vec<String> = fields.collect();
            settings.policy = Some(format!("DeviceMap({})", fields.join(", ")));
            rows.extend(card.map(|bytes| told("0", bytes, format!("DeviceMap(hbm: b({bytes}))"))));
            rows.extend(
                host.map(|bytes| told("cpu", bytes, format!("DeviceMap(cpu: b({bytes}))"))),
            );
            "device_map=\"auto\"".to_owned()
        }
        Some(file) => {
            rows = modules(file, text)?;
            generate.hbm = card;
            settings.host_bytes = host;
            rows.extend(card.map(|bytes| told("0", bytes, format!("hbm: b({bytes})"))));
            let capacity = |bytes| format!("capacity: {{\"dram\": b({bytes})}}");
            rows.extend(host.map(|bytes| told("cpu", bytes, capacity(bytes))));
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            settings.policy = Some(format!("Hints(file: {:?})", file.to_string_lossy()));
            name
        }
    };
    settings.generate = Some(generate);
    if file.is_none()
        || rows.iter().any(|row| matches!(&row.fate, Fate::Taken(told) if is_away(told)))
    {
        hooks(load, &mut settings, &mut rows);
    }
    let told = ["as the map says", "tiersim from accelerate FILE"];
    Ok(write::guide(&name, &settings, told, rows))
}

/// Where accelerate's hooks copy from, and how: its code, read in version 1.15.
const HOOKS: &str = "accelerate 1.15: AlignDevicesHook.pre_forward in hooks.py sets each weight of a \
                     module by set_module_tensor_to_device, a plain .to(device) that waits, of the \
                     checkpoint's tensors, which are not pinned; the thread's own time is not in it";

/// Whether a module that is told to be there has to come for its op.
fn is_away(told: &str) -> bool {
    ["cpu", "disk"].iter().filter_map(|word| place(word)).any(|there| told == format!("in {there}"))
}

/// What the hooks of modules off the card do.
fn hooks(load: &MapLoad<'_>, settings: &mut Settings, rows: &mut Vec<Row>) {
    (settings.hooks, settings.pageable) = (Some(HOOKS), load.pageable);
    let (how, memory) = match load.pageable {
        true => (", copies: pageable", "pageable memory"),
        false => ("", "memory, as the machine does not say what pageable memory reaches"),
    };
    let told = format!(
        "runtime: (blocking: true, ahead: true{how}): weights come one after the other, each waited \
         for, from {memory}"
    );
    not_said(rows, "hooks", &told);
}

/// A row for each module.
fn modules(file: &Path, text: &str) -> Result<Vec<Row>, Diagnostics> {
    let entries = yaml::entries(file, text)?;
    let mut of = Reader::new(file, &entries, |path| path.join("."));
    for (index, entry) in entries.iter().enumerate() {
        let value = entry.value.as_deref().unwrap_or("");
        match place(value) {
            Some(tier) => of.rows[index] = Some(Fate::Taken(format!("in {tier}"))),
            None => {
                let rule = "a map of one device has modules on 0, cpu and disk";
                of.wrong(entry.place, rule, value, "write one of these, or a scenario with ranks");
            }
        }
        if entry.path.concat().is_empty() {
            let rule = "a map names modules";
            let remedy = "name the blocks, such as model.layers.0, or pass auto";
            of.wrong(entry.place, rule, "the whole model", remedy);
        }
    }
    of.done()
}

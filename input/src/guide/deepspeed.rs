//! `ds_config.json` of DeepSpeed, to a scenario.
//!
//! Keys are those of its page of configuration and of its source, older names among them; numbers
//! count elements, as DeepSpeed counts them. `auto`, which `transformers` fills in, is what the
//! command says, or else what is written in the report.
//! Invariant: every key has one row, and what cannot be together is refused.

mod comments;
pub(super) mod keys;
mod offload;
mod reasons;
mod shape;
mod without_zero;

use super::reader::Reader;
use super::settings::Settings;
use super::{Fate, Guide, Row, write, yaml};
use comments::without_comments;
use offload::offload;
pub(super) use reasons::reason as why;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// What the configuration leaves to the program.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The model.
    pub model: &'a str,
    /// The machine, by its name.
    pub device: &'a str,
    /// GPUs, one replica each.
    pub gpus: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Sequences of a micro-batch and micro-batches of a step, where the file says `auto` or nothing.
    pub micro_batch: Option<u64>,
    /// Micro-batches of a step, likewise.
    pub accumulation: Option<u64>,
    /// The precision, likewise: `bf16`, `fp16` or `fp32`.
    pub precision: Option<&'static str>,
    /// ZeRO's stage, likewise.
    pub stage: Option<u64>,
    /// GiB of the host's memory, in the place of the machine's.
    pub host_gib: Option<u64>,
    /// The program keeps inputs of blocks only, and computes the rest again.
    pub checkpointing: bool,
}

/// The scenario that a configuration means for a job. `file` is what problems name.
///
/// # Errors
/// The text is no JSON, a value is not what its key wants, keys contradict each other, or no
/// machine of this name ships with so many devices.
pub fn deepspeed(file: &Path, text: &str, job: &Job<'_>) -> Result<Guide, Diagnostics> {
    let entries = yaml::entries(file, &without_comments(text))?;
    let mut of = Reader::new(file, &entries, word);
    let mut settings = Settings {
        model: job.model.to_owned(),
        hardware: job.device.to_owned(),
        devices: job.gpus,
        sequence: job.sequence,
        checkpointing: job.checkpointing,
        host_gib: job.host_gib,
        ..Settings::default()
    };
    settings.precision = precision(&mut of, job, &mut settings.told);
    parts(&mut of, job, &mut settings);
    for (index, entry) in entries.iter().enumerate() {
        if of.rows[index].is_none() {
            of.rows[index] = why(&word(&entry.path)).map(|why| Fate::Ignored(why.to_owned()));
        }
    }
    if !entries.is_empty() && of.rows.iter().all(Option::is_none) {
        let rule = "no key of this file is one of DeepSpeed's";
        let (place, key) = (entries[0].place, entries[0].path.join("."));
        of.wrong(place, rule, &key, "name the file that DeepSpeed is handed, its ds_config.json");
    }
    let rows = of.done()?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
    let told = ["as ds_config says", "tiersim from deepspeed FILE"];
    Ok(write::guide(&name.unwrap_or_default(), &settings, told, rows))
}

/// Everything but the precision, of entries whose keys count by DeepSpeed's words.
pub(super) fn parts(of: &mut Reader<'_>, job: &Job<'_>, settings: &mut Settings) {
    batches(of, job, settings);
    update(of, settings);
    let said = gradients(of, settings);
    zero(of, job, settings);
    offload(of, settings);
    if settings.zero_stage == 0 {
        without_zero::without_zero(of, settings, said);
    }
    checkpoints(of, settings);
    shape::splits(of);
    shape::sections(of);
}

/// A key by its whole path, in today's names.
fn word(path: &[String]) -> String {
    keys::today(&path.join(".")).to_owned()
}

impl Reader<'_> {
    fn is_auto(&self, key: &str) -> bool {
        self.find(key).and_then(|(_, entry)| entry.value.as_deref()) == Some("auto")
    }

    /// A value that the program fills in.
    fn is_left_to_the_program(&mut self, key: &str, told: &str) -> bool {
        let auto = self.is_auto(key);
        if auto {
            self.ignore(key, told);
        }
        auto
    }

    /// A count of elements or of samples, which may be written as 5e8.
    fn count(&mut self, key: &str, told: impl Fn(u64) -> String) -> Option<u64> {
        let whole = |value: &str| {
            let number: f64 = value.replace('_', "").parse().ok()?;
            let is_count = number.fract() == 0.0 && (0.0..=1e15).contains(&number);
            is_count.then_some(number as u64)
        };
        let (value, place) =
            self.text(key, |value| Fate::Taken(whole(value).map(&told).unwrap_or_default()))?;
        if whole(value).is_none() {
            let rule = format!("`{key}` is a whole number from 0 to 1e15, or `auto`");
            self.wrong(place, &rule, value, "write such a number");
        }
        whole(value)
    }

    fn on(&mut self, key: &str, told: [&str; 2]) -> Option<bool> {
        if self.is_left_to_the_program(key, "left to the program, which says nothing here") {
            return None;
        }
        self.flag(key, told)
    }
}

/// An option that says another thing than the file, which counts.
fn outvoted(
    told: &mut Vec<Row>,
    of: &Reader<'_>,
    [option, typed]: [&str; 2],
    [key, is]: [&str; 2],
) {
    if typed == is {
        return;
    }
    let why = match of.find(key) {
        Some((_, entry)) => {
            let (name, line) = (entry.path.join("."), entry.place.line);
            format!("`{name}` of line {line} says {is}, and the file counts")
        }
        None => format!("it is for `{key}: auto`, and the file does not say it: {is}"),
    };
    let (key, value) = (option.to_owned(), typed.to_owned());
    told.push(Row { line: 0, key, value, fate: Fate::Ignored(why) });
}

/// The one that is on; else the one that is left open and that the command names, or the first.
fn precision(of: &mut Reader<'_>, job: &Job<'_>, told: &mut Vec<Row>) -> &'static str {
    let (open, said): (Vec<_>, Vec<_>) =
        keys::PRECISIONS.into_iter().partition(|(key, _)| of.is_auto(key));
    let mut on = Vec::new();
    for (key, name) in said {
        if of.flag(key, ["another precision", &format!("precision: {name}")]) == Some(true) {
            on.push((key, name));
        }
    }
    if let [(first, _), (second, name)] = on[..] {
        let place = of.find(second).expect("it is there").1.place;
        let rule = format!("`{first}` and `{second}` are not both on");
        of.wrong(place, &rule, name, "switch one of them off");
    }
    let first = open.first().map_or("fp32", |(_, name)| name);
    let chosen = on.first().map_or(job.precision.unwrap_or(first), |(_, name)| name);
    if let (Some((key, _)), Some(typed)) = (on.first(), job.precision) {
        outvoted(told, of, ["--precision", typed], [key, chosen]);
    }
    for (key, name) in open {
        let index = of.find(key).expect("it is auto").0;
        of.rows[index] = Some(match chosen == name {
            true => Fate::Taken(format!("precision: {name}")),
            false => Fate::Ignored(format!("left to the program: precision: {chosen}")),
        });
    }
    chosen
}

/// Micro-batch and accumulation: `train_batch_size` is their product, times the GPUs.
fn batches(of: &mut Reader<'_>, job: &Job<'_>, settings: &mut Settings) {
    let keys = [keys::MICRO_BATCH, keys::ACCUMULATION, keys::BATCH];
    let left = "left to the program: --micro-batch and --accumulation say it, or else 1";
    let [micro, steps, all] = keys.map(|key| {
        if of.is_left_to_the_program(key, left) {
            return None;
        }
        let told = |number: u64| match key {
            keys::MICRO_BATCH => format!("micro_batch: {number}"),
            keys::ACCUMULATION => format!("batch: {number} micro-batches"),
            _ => format!("batch: {number} / {} GPUs", job.gpus),
        };
        let number = of.count(key, told)?;
        if !(1..=1 << 20).contains(&number) {
            let place = of.find(key).expect("it was read").1.place;
            let rule = format!("`{key}` is a whole number from 1 to {}", 1 << 20);
            of.wrong(place, &rule, &number.to_string(), "write such a number");
        }
        Some(number.clamp(1, 1 << 20))
    });
    for (option, typed, key, said) in [
        ("--micro-batch", job.micro_batch, keys::MICRO_BATCH, micro),
        ("--accumulation", job.accumulation, keys::ACCUMULATION, steps),
    ] {
        if let (Some(typed), Some(said)) = (typed, said) {
            let both = [typed, said].map(|number| number.to_string());
            outvoted(&mut settings.told, of, [option, &both[0]], [key, &both[1]]);
        }
    }
    let share = all.map(|all| all / job.gpus);
    let micro = micro.or(job.micro_batch).or(match (share, steps.or(job.accumulation)) {
        (Some(share), steps) => Some((share / steps.unwrap_or(1)).max(1)),
        (None, _) => None,
    });
    settings.micro_batch = micro.unwrap_or(1);
    let steps = steps.or(job.accumulation).or(share.map(|share| share / settings.micro_batch));
    settings.accumulation = steps.unwrap_or(1).max(1);
    let product = settings.micro_batch * settings.accumulation * job.gpus;
    if let Some(all) = all.filter(|&all| all != product) {
        let place = of.find(keys::BATCH).expect("it was read").1.place;
        let rule = format!(
            "`train_batch_size` is micro-batch x accumulation x GPUs, here {} x {} x {} = {product}",
            settings.micro_batch, settings.accumulation, job.gpus
        );
        let remedy = "mend one of them, or pass --gpus, --micro-batch or --accumulation";
        of.wrong(place, &rule, &all.to_string(), remedy);
    }
}

/// What changes the weights.
fn update(of: &mut Reader<'_>, settings: &mut Settings) {
    let told = |name: &str| match keys::optimizer(name) {
        Some(word) => Fate::Taken(format!("optimizer: {word}")),
        None => Fate::Ignored(
            "not modelled: the scenario has AdamW, whose state is two moments".to_owned(),
        ),
    };
    let read = of.text(keys::OPTIMIZER, told);
    let word = read.and_then(|(name, _)| keys::optimizer(name));
    settings.update = word.filter(|&word| word != "adam_w");
    let key = keys::MOMENTUM;
    if word != Some("sgd()") {
        return of.ignore(key, "a number of the update: it changes neither bytes nor time");
    }
    let number = |value: &str| value.parse::<f64>().ok().filter(|of| (0.0..=1.0).contains(of));
    let told = |value: &str| match number(value) {
        Some(0.0) | None => Fate::Taken("optimizer: sgd()".to_owned()),
        Some(_) => Fate::Taken("optimizer: sgd(momentum: true)".to_owned()),
    };
    let Some((value, place)) = of.text(key, told) else { return };
    match number(value) {
        Some(momentum) if momentum > 0.0 => settings.update = Some("sgd(momentum: true)"),
        Some(_) => {}
        None => of.wrong(place, "`momentum` is a number from 0 to 1", value, "write 0.9"),
    }
}

/// What gradients are summed up in, and whether the file says it.
fn gradients(of: &mut Reader<'_>, settings: &mut Settings) -> bool {
    let known = |value: &str| match value.to_ascii_lowercase().as_str() {
        "fp32" | "float32" => Some("fp32"),
        "fp16" | "float16" | "half" => Some("fp16"),
        "bf16" | "bfloat16" => Some("bf16"),
        _ => None,
    };
    let key = keys::GRADIENTS;
    if of.is_left_to_the_program(key, "left to the program: the precision") {
        return false;
    }
    let told = |value: &str| match known(value) {
        Some(word) => Fate::Taken(format!("formats: (gradients: {word})")),
        None => Fate::Ignored("the precision, as where it is not said".to_owned()),
    };
    let Some((value, place)) = of.text(key, told) else { return false };
    let is_none = matches!(value.to_ascii_lowercase().as_str(), "none" | "null" | "~" | "");
    if known(value).is_none() && !is_none {
        let rule = "`grad_accum_dtype` is fp32, fp16 or bf16";
        of.wrong(place, rule, value, "write one of these, or leave it out");
    }
    settings.gradients = known(value).filter(|word| *word != settings.precision);
    known(value).is_some()
}

/// The stage; older files say whether it is on.
fn stage(of: &mut Reader<'_>, job: &Job<'_>) -> u64 {
    let key = keys::STAGE;
    if of.is_auto(key) {
        let stage = job.stage.unwrap_or(2);
        let index = of.find(key).expect("it is auto").0;
        of.rows[index] = Some(Fate::Taken(format!("zero: (stage: {stage})")));
        return stage;
    }
    let found = of.find(key).map(|(_, entry)| entry);
    let alone = found.filter(|entry| entry.path.len() == 1);
    let old = alone.and_then(|entry| match entry.value.as_deref() {
        Some("true") => Some((1, "zero: (stage: 1)")),
        Some("false" | "null" | "{}") => Some((0, "nothing is partitioned")),
        _ => None,
    });
    if let Some((stage, told)) = old {
        let index = of.find(key).expect("it was found").0;
        of.rows[index] = Some(Fate::Taken(told.to_owned()));
        return stage;
    }
    if let Some(entry) = alone {
        let value = entry.value.as_deref().unwrap_or("a list");
        let rule = "`zero_optimization` is a section, or true or false";
        of.wrong(entry.place, rule, value, "write { \"stage\": 2 }");
        return 0;
    }
    of.number(key, [0, 3], "zero: (stage: {})").unwrap_or(0)
}

fn zero(of: &mut Reader<'_>, job: &Job<'_>, settings: &mut Settings) {
    settings.zero_stage = stage(of, job);
    if let Some(typed) = job.stage {
        let both = [typed, settings.zero_stage].map(|number| number.to_string());
        outvoted(&mut settings.told, of, ["--stage", &both[0]], [keys::STAGE, &both[1]]);
    }
    let wide = keys::element(settings.precision);
    let key = keys::BUCKET;
    if !of.is_left_to_the_program(key, "left to the program: the scenario's own, 500 MB") {
        let told = |elements| format!("zero: (bucket: b({}))", elements * wide);
        let elements = of.count(key, told);
        settings.bucket = elements.map(|elements| elements * wide).filter(|&bytes| bytes > 0);
    }
    let told = ["zero: (overlap: false)", "communication has a stream of its own"];
    let overlap = of.on(keys::OVERLAP, told);
    // Only stage 3 overlaps unless it is told to.
    settings.one_stream = !overlap.unwrap_or(settings.zero_stage == 3);
    if settings.zero_stage == 0 || settings.devices == 1 {
        (settings.bucket, settings.one_stream) = (None, false);
        for key in [keys::BUCKET, keys::OVERLAP] {
            of.ignore(key, "one device reduces nothing");
        }
    }
}

fn checkpoints(of: &mut Reader<'_>, settings: &mut Settings) {
    let key = keys::CPU_CHECKPOINTING;
    let told = ["activations in HBM", "checkpointing: full, ZeroOffload(activations: \"far\")"];
    if of.on(key, told) == Some(true) {
        settings.checkpointing = true;
        settings.activations = Some("far");
    }
}

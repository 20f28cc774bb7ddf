//! A command line of FlexGen's `flex_opt`, to a scenario that generates text by its percentages.
//!
//! Flags, defaults and what they do are those of `flexgen/flex_opt.py`; as Python's `argparse` does,
//! a flag may be cut short (`--cpu` for `--cpu-cache-compute`).
//! Invariant: every flag has one row, and what would be other attention is refused.

use super::reader::Reader;
use super::serve::model;
use super::settings::{Block, Generate, Settings};
use super::shell::Word;
use super::words::{Grammar, LAUNCHER, entries, flags_alone, program};
use super::{Fate, Guide, write};
use std::ops::Range;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// What `flex_opt` takes.
const FLAGS: [&str; 19] = [
    "model",
    "path",
    "offload-dir",
    "prompt-len",
    "gen-len",
    "cut-gen-len",
    "debug-mode",
    "gpu-batch-size",
    "num-gpu-batches",
    "percent",
    "sep-layer",
    "pin-weight",
    "cpu-cache-compute",
    "attn-sparsity",
    "compress-weight",
    "compress-cache",
    "log-file",
    "verbose",
    "overlap",
];

const FLEXGEN: Grammar =
    Grammar { call, names_model: false, alone: &["cpu", "compress-", "no-log", "hh-all"] };

/// Ops ahead for which weights come: those of a layer, as FlexGen loads the next layer's.
const AHEAD: u64 = 20;

/// Why flags say nothing, by how they begin.
const REASONS: [(&[&str], &str); 6] = [
    (&["launcher.program"], "the program whose flags these are"),
    (&["path", "offload-dir"], "a path of one computer"),
    (
        &["cut-gen-len", "debug-mode"],
        "FlexGen runs a part and projects the rest; here all of it is run",
    ),
    (&["log-file", "no-log", "verbose"], "what is printed: a run is the same"),
    (&["warmup-input-path", "test-input-path"], "what is written does not matter, how much does"),
    (&["$"], "a variable of the shell"),
];

fn call(words: &[Word]) -> Option<Range<usize>> {
    let programs = ["flex_opt.py", "flex_llama.py", ".flex_opt", ".flex_llama"];
    program(words, &programs).or_else(|| flags_alone(words))
}

/// A flag in full; one that could be several stays as it is.
fn word(path: &[String]) -> String {
    let flag = path.join(".").replace('_', "-");
    let begins = FLAGS.iter().filter(|known| known.starts_with(&flag));
    match (FLAGS.contains(&flag.as_str()), &begins.collect::<Vec<_>>()[..]) {
        (false, [known]) => (**known).to_owned(),
        _ => flag,
    }
}

/// The scenario that a command line means on a machine. `file` is what problems name.
///
/// # Errors
/// The text is no command line of FlexGen, a value is not what its flag wants, or a flag asks for
/// what is not modelled.
pub fn flexgen(
    file: &Path,
    text: &str,
    said: Option<&str>,
    machine: &str,
) -> Result<Guide, Diagnostics> {
    let entries = entries(file, text, &FLEXGEN)?;
    let mut of = Reader::of_flags(file, &entries, word);
    let mut settings = Settings {
        model: match said.is_none() && of.find("model").is_none() {
            true => "opt-6.7b".to_owned(),
            false => model(&mut of, said).unwrap_or_default(),
        },
        hardware: machine.to_owned(),
        devices: 1,
        precision: "fp16",
        ..Settings::default()
    };
    stage(&mut of, said);
    let block = block(&mut of);
    settings.pageable = pageable(&mut of, &block);
    settings.generate = Some(generate(&mut of, block));
    refused(&mut of);
    of.unknown(|_| false);
    for (index, entry) in entries.iter().enumerate() {
        if of.rows[index].is_none() {
            let key = word(&entry.path);
            let begins = |(starts, _): &&(&[&str], &str)| starts.iter().any(|s| key.starts_with(s));
            let why = REASONS.iter().find(begins).map(|(_, why)| *why);
            let launcher = (entry.path[0] == LAUNCHER)
                .then_some("of what starts the program: a scenario's `numa` says where memory is");
            of.rows[index] = why.or(launcher).map(|why| Fate::Ignored(why.to_owned()));
        }
    }
    let rows = of.done()?;
    let told = ["as FlexGen runs", "tiersim from flexgen ARGS"];
    Ok(write::guide("flexgen", &settings, told, rows))
}

/// `opt-175b-stage` is a quarter of a model.
fn stage(of: &mut Reader<'_>, said: Option<&str>) {
    let Some((_, entry)) = of.find("model").filter(|_| said.is_none()) else { return };
    if let Some(name) = entry.value.as_deref().filter(|name| name.ends_with("-stage")) {
        let rule = "a model is whole, not one stage of a pipeline";
        of.wrong(entry.place, rule, name, "name the whole model, or pass --model config.json");
    }
}

/// Python's words for yes and no, as FlexGen reads them; a flag alone is yes.
fn switch(of: &mut Reader<'_>, key: &str, told: [&str; 2]) -> Option<bool> {
    let meaning = |value: &str| match value.to_ascii_lowercase().as_str() {
        "yes" | "true" | "t" | "y" | "1" => Some(true),
        "no" | "false" | "f" | "n" | "0" => Some(false),
        _ => None,
    };
    let (value, place) = of.text(key, |value| {
        Fate::Taken(told[usize::from(meaning(value) == Some(true))].to_owned())
    })?;
    if meaning(value).is_none() {
        of.wrong(place, &format!("`{key}` is true or false"), value, "write one of these");
    }
    meaning(value)
}

fn block(of: &mut Reader<'_>) -> Block {
    let sep_layer = switch(of, "sep-layer", ["sep_layer: false", "sep_layer: true"]);
    let ahead = format!("access: migrate(prefetch_ops: {AHEAD})");
    let overlap = switch(of, "overlap", ["access: migrate(prefetch_ops: 0)", &ahead]);
    let told = ["attention_on: device", "attention_on: host"];
    Block {
        batches: of.number("num-gpu-batches", [1, 1 << 20], "batches: {}").unwrap_or(1),
        percent: percent(of).unwrap_or([100, 0, 100, 0, 100, 0]),
        sep_layer: sep_layer.unwrap_or(true),
        ahead: if overlap.unwrap_or(true) { AHEAD } else { 0 },
        host_attention: switch(of, "cpu-cache-compute", told).unwrap_or(false),
    }
}

/// Six numbers: weights, cache and activations on the GPU and on the host.
fn percent(of: &mut Reader<'_>) -> Option<[u64; 6]> {
    let kinds = ["weights", "cache", "activations"];
    let told = |value: &str| {
        let six: Vec<&str> = value.split_whitespace().collect();
        let pair = |(kind, pair): (&str, &[&str])| format!("{kind} {}", pair.join(" and "));
        let pairs: Vec<String> = kinds.into_iter().zip(six.chunks(2)).map(pair).collect();
        Fate::Taken(format!("{} on GPU and host", pairs.join(", ")))
    };
    let (value, place) = of.text("percent", told)?;
    let parts: Vec<&str> = value.split_whitespace().collect();
    let six: Option<Vec<u64>> = parts.iter().map(|part| part.parse().ok()).collect();
    let Some(six) = six.and_then(|six| <[u64; 6]>::try_from(six).ok()) else {
        let rule = "`percent` is six whole numbers: weights, cache and activations on GPU and host";
        of.wrong(place, rule, value, "write six, such as 20 80 0 100 0 100");
        return None;
    };
    for (kind, pair) in kinds.into_iter().zip(six.chunks(2)) {
        if pair[0].saturating_add(pair[1]) > 100 {
            let rule = format!("percentages of {kind} on GPU and host are at most 100 together");
            let found = format!("{} and {}", pair[0], pair[1]);
            of.wrong(place, &rule, &found, "lower one of them; the rest is on the drive");
            return None;
        }
    }
    Some(six)
}

/// Memory of the cache and of activations is pinned whatever is said of weights.
fn pageable(of: &mut Reader<'_>, block: &Block) -> bool {
    let told = ["copies of pageable memory", "copies of pinned memory"];
    let pinned = switch(of, "pin-weight", told).unwrap_or(true);
    let [_, weights, cache, _, activations, _] = block.percent;
    let all = weights > 0 && cache == 100 && activations == 100;
    if !pinned && !all {
        let why = match weights {
            0 => "no weights are in the host's memory",
            _ => "all copies of a case are alike, and others are of pinned memory",
        };
        of.ignore("pin-weight", why);
    }
    !pinned && all
}

fn generate(of: &mut Reader<'_>, block: Block) -> Generate {
    let told = [
        "weights in fp16",
        // Two numbers of 16 bits for each group of 64 are as many bytes as one for 32.
        "formats: (weights: int4(group: 32)): 4 bits, and 32 more for each 64 of them",
    ];
    let packed = switch(of, "compress-weight", told).unwrap_or(false);
    Generate {
        prompt: of.number("prompt-len", [1, 1 << 24], "prompt: {}").unwrap_or(512),
        tokens: of.number("gen-len", [1, 1 << 16], "tokens: {}").unwrap_or(32),
        batch: of.number("gpu-batch-size", [1, 1 << 20], "batch: {}").unwrap_or(4),
        weights: packed.then(|| "int4(group: 32)".to_owned()),
        block: Some(block),
        ..Generate::default()
    }
}

/// What reads another part of the cache than all of it, or another form.
fn refused(of: &mut Reader<'_>) {
    let told = ["keys and values in fp16", ""];
    if switch(of, "compress-cache", told) == Some(true) {
        let place = of.find("compress-cache").expect("it was read").1.place;
        let remedy = "leave it out, or write `formats: (kv: int8)` or a `compression` of kv into \
                      the scenario";
        of.wrong(place, "keys and values of 4 bits are not modelled", "", remedy);
    }
    let key = "attn-sparsity";
    let share = of.text(key, |_| Fate::Taken("attention to all of the cache".to_owned()));
    if let Some((value, place)) = share
        && value.parse::<f64>().ok().is_none_or(|share| share < 1.0)
    {
        let rule = "attention to a part of the values is not modelled";
        of.wrong(place, rule, value, "leave it out: the answer is then that of all of them");
    }
    let of_forks = ["hh-ratio", "hh-all", "max-num-kv", "partial-weight-ratio", "alpha"];
    for key in of_forks {
        if let Some((_, entry)) = of.find(key) {
            let rule = "attention to a part of the cache is not modelled";
            let found = entry.value.as_deref().unwrap_or("");
            of.wrong(
                entry.place,
                rule,
                found,
                "leave it out: the answer is then that of all of it",
            );
        }
    }
}

//! Flags of vLLM and of SGLang, to a scenario that generates text.
//!
//! What a flag means is decided once, by vLLM's name of it; SGLang's names are another table.
//! How many requests come and how long they are, no flag says: the command does.
//! Invariant: every flag has one row, and what would be another model of work is refused.

mod load;
pub(super) mod names;
mod reasons;
pub(super) mod values;

use super::containers::is_manifest;
use super::reader::{Reader, not_said};
use super::settings::{Generate, Settings};
use super::shell::Word;
use super::words::{Grammar, LAUNCHER, entries, flags_alone};
use super::{Fate, Guide, Row, write, yaml};
use crate::import::card::ModelFiles;
use names::{known_as, packed_as, sglang, vllm};
use reasons::{is_idle, reason, refusal};
use std::ops::Range;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_workloads::transformer::card::Card;
use values::{
    Choice, DTYPES, KV_DTYPES, QUANTIZATIONS, UTILIZATION, cached, packed_word, share_of,
    stored_as, usable, weights,
};

/// Whose flags they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `vllm serve`.
    Vllm,
    /// `python -m sglang.launch_server`.
    Sglang,
}

/// A machine that a server runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub machine: String,
    /// Bytes of memory of each of its devices.
    pub bytes: u64,
}

/// What the flags leave to who asks.
pub struct Load<'a> {
    /// The model, in the place of the flags' one.
    pub model: Option<&'a str>,
    /// The machine with so many devices.
    pub machine: &'a dyn Fn(u64) -> Option<Server>,
    /// A model, by a name of `tiersim memory --model` or the path of a config.json.
    pub files: &'a dyn Fn(&str) -> Option<ModelFiles>,
    /// Tokens that are there when a step begins, and that come.
    pub prompt: u64,
    /// Tokens of each answer.
    pub tokens: u64,
    /// Requests that are under way at once, as far as the flags allow.
    pub requests: u64,
}

const VLLM: Grammar = Grammar { call: vllm_call, names_model: true, alone: names::ALONE };
const SGLANG: Grammar = Grammar { call: sglang_call, names_model: true, alone: names::ALONE };

fn vllm_call(words: &[Word]) -> Option<Range<usize>> {
    let calls = [
        ["vllm", "serve"],
        ["-m", "vllm.entrypoints.openai.api_server"],
        ["-m", "vllm.entrypoints.api_server"],
    ];
    // The image of a container starts the server by itself.
    let image = |words: &[Word]| {
        let at = words.iter().position(|word| word.text.contains("/vllm-openai"))?;
        Some(at..at + 1)
    };
    called(words, &calls).or_else(|| image(words)).or_else(|| flags_alone(words))
}

fn sglang_call(words: &[Word]) -> Option<Range<usize>> {
    let calls = [["-m", "sglang.launch_server"], ["sglang", "serve"]];
    called(words, &calls).or_else(|| flags_alone(words))
}

/// Two words that start a program, the first as the end of a path.
fn called(words: &[Word], calls: &[[&str; 2]]) -> Option<Range<usize>> {
    let is = |pair: &[Word]| {
        let first = pair[0].text.rsplit('/').next().unwrap_or_default();
        calls.iter().any(|[a, b]| *a == first && *b == pair[1].text)
    };
    let at = words.windows(2).position(is)?;
    Some(at..at + 2)
}

/// The scenario that a command line means under a load. `file` is what problems name.
///
/// # Errors
/// The text is no command line of this engine, a value is not what its flag wants, a flag asks for
/// what is not modelled, or no machine ships with so many devices.
pub fn serve(
    file: &Path,
    text: &str,
    engine: Engine,
    load: &Load<'_>,
) -> Result<Guide, Diagnostics> {
    let (grammar, word, name): (_, fn(&[String]) -> String, _) = match engine {
        Engine::Vllm => (VLLM, vllm, "vllm"),
        Engine::Sglang => (SGLANG, sglang, "sglang"),
    };
    // Both read their flags from a file of such settings as well.
    let is_yaml =
        !is_manifest(text) && file.extension().is_some_and(|ends| ends == "yaml" || ends == "yml");
    let entries = match is_yaml {
        true => yaml::entries(file, text)?,
        false => entries(file, text, &grammar)?,
    };
    let mut of = Reader::of_flags(file, &entries, word);
    let mut settings = Settings::default();
    let mut text = Generate { prompt: load.prompt, tokens: load.tokens, ..Generate::default() };
    settings.model = model(&mut of, load.model).unwrap_or_default();
    let files = (load.files)(&settings.model);
    let mut defaults = Vec::new();
    formats(&mut of, load, files.as_ref(), &mut settings, &mut text, &mut defaults);
    let (server, replicas) = machine(&mut of, load, &mut settings);
    let card = files.as_ref().map(|files| &files.card);
    memory(&mut of, card, &server, &mut settings, &mut text);
    let kv = stored_as(settings.precision, text.kv).0;
    let cached = |page| card.map_or(1, |card| cached(card, kv, load, page, settings.devices));
    load::requests(&mut of, load, replicas, cached, &mut text);
    if engine == Engine::Vllm && text.batch > USUAL && of.find(names::REQUESTS).is_none() {
        let told = format!("batch: {}: no bound is assumed, and vLLM has its own", text.batch);
        not_said(&mut defaults, names::REQUESTS, &told);
    }
    of.unknown(is_idle);
    for (index, entry) in entries.iter().enumerate() {
        let key = word(&entry.path);
        let value = entry.value.as_deref().unwrap_or("");
        if of.rows[index].is_none() && value != "false" {
            if let Some((why, remedy)) = refusal(&key, value) {
                of.wrong(entry.place, why, value, remedy);
            }
            let launcher = (entry.path[0] == LAUNCHER).then_some("of what starts the server");
            of.rows[index] = launcher.or(reason(&key)).map(|why| Fate::Ignored(why.to_owned()));
        }
    }
    if !entries.is_empty() && of.rows.iter().all(Option::is_none) {
        let rule = format!("no key of this file is one of {name}'s flags");
        let (place, key) = (entries[0].place, entries[0].path.join("."));
        of.wrong(place, &rule, &key, "name a file of flags, a script, or the command itself");
    }
    settings.generate = Some(text);
    let mut rows = of.done()?;
    rows.append(&mut defaults);
    let by = format!("tiersim from {name} ARGS");
    Ok(write::guide(name, &settings, [&format!("as {name} serves"), &by], rows))
}

/// Requests at once that vLLM takes without being told, on most cards and in most versions.
const USUAL: u64 = 256;

/// The model that the flags name, unless the command names another; a problem where there is none.
pub(super) fn model(of: &mut Reader<'_>, said: Option<&str>) -> Option<String> {
    if let Some(model) = said {
        of.ignore(names::MODEL, "the command says another");
        return Some(model.to_owned());
    }
    let told = |name: &str| Fate::Taken(format!("model: {:?}", known_as(name).unwrap_or_default()));
    let Some((name, place)) = of.text(names::MODEL, told) else {
        of.missing(names::MODEL, "pass --model NAME");
        return None;
    };
    let known = known_as(name);
    if known.is_none() {
        let rule = "no model of this name is known here";
        let remedy = "pass --model with a name of `tiersim memory --model`, or a config.json";
        of.wrong(place, rule, name, remedy);
    }
    known
}

/// One of a table's words; what is not in the table is refused.
fn choice<T: Copy>(of: &mut Reader<'_>, key: &str, table: &[Choice<T>]) -> Option<T> {
    let find = |value: &str| table.iter().find(|(words, ..)| words.contains(&value));
    let told = |value: &str| {
        Fate::Taken(find(value).map_or(String::new(), |(_, _, told)| (*told).to_owned()))
    };
    let (value, place) = of.text(key, told)?;
    let found = find(value).map(|(_, meaning, _)| *meaning);
    if found.is_none() {
        let key = of.named(key);
        let all: Vec<&str> = table.iter().flat_map(|(words, ..)| words.iter().copied()).collect();
        let rule = format!("`{key}` is modelled as one of {}", all.join(", "));
        of.wrong(place, &rule, value, "write one of these");
    }
    found
}

fn formats(
    of: &mut Reader<'_>,
    load: &Load<'_>,
    files: Option<&ModelFiles>,
    settings: &mut Settings,
    text: &mut Generate,
    defaults: &mut Vec<Row>,
) {
    settings.precision = choice(of, names::DTYPE, &DTYPES).unwrap_or("bf16");
    text.weights = choice(of, names::QUANTIZATION, &QUANTIZATIONS).flatten().map(str::to_owned);
    let by_config = files.and_then(|files| files.quantised).map(packed_word);
    if let Some(word) = by_config.filter(|_| of.find(names::QUANTIZATION).is_none()) {
        let told = format!("formats: (weights: {word}), as the config.json has it");
        not_said(defaults, names::QUANTIZATION, &told);
        text.weights = Some(word);
    }
    // A checkpoint that was packed says so in its config, and in its name.
    if load.model.is_none()
        && of.find(names::QUANTIZATION).is_none()
        && let Some((index, entry)) = of.find(names::MODEL)
        && let Some(word) = entry.value.as_deref().and_then(packed_as)
    {
        if let Some(Fate::Taken(told)) = &mut of.rows[index] {
            told.push_str(&format!(", formats: (weights: {word})"));
        }
        text.weights = Some(word);
    }
    text.kv = choice(of, names::KV_DTYPE, &KV_DTYPES).flatten();
}

/// The machine that has as many devices as the model is split over, and how many such there are.
fn machine(of: &mut Reader<'_>, load: &Load<'_>, settings: &mut Settings) -> (Server, u64) {
    let key = names::TENSOR;
    settings.devices = of.number(key, [1, 1024], "tensor: {}").unwrap_or(1);
    let replicas = load::replicas(of, load, settings.devices);
    experts_apart(of, replicas);
    let pipeline = names::PIPELINE;
    if of.number(pipeline, [1, 1024], "one stage").unwrap_or(1) > 1 {
        let (_, entry) = of.find(pipeline).expect("it was read");
        let value = entry.value.clone().unwrap_or_default();
        let rule = "generation in stages of layers is not modelled";
        of.wrong(entry.place, rule, &value, "split by --tensor-parallel-size, within one server");
    }
    let server = (load.machine)(settings.devices)
        .inspect(|server| settings.hardware.clone_from(&server.machine))
        .unwrap_or_else(|| {
            let rule = format!("no machine with {} of the devices ships", settings.devices);
            let place = of.find(key).map(|(_, entry)| entry.place);
            let remedy = "choose another --device, or split over fewer";
            of.problems.push(of.file, place, rule, "", remedy);
            Server { machine: String::new(), bytes: 0 }
        });
    (server, replicas)
}

/// Experts are spread over tensor-parallel ranks or split there, which is as large; over replicas
/// they are spread where the flags say so.
fn experts_apart(of: &mut Reader<'_>, replicas: u64) {
    let apart = of.value("enable-expert-parallel").is_some_and(|on| on != "false");
    if let Some((_, entry)) = of.find("enable-expert-parallel").filter(|_| apart && replicas > 1) {
        let rule = "experts that are spread over replicas of the rest are not modelled";
        let remedy = "leave one of both flags out, or write --tensor-parallel-size for the ranks";
        of.wrong(entry.place, rule, &format!("{replicas} replicas"), remedy);
    }
}

fn memory(
    of: &mut Reader<'_>,
    card: Option<&Card>,
    server: &Server,
    settings: &mut Settings,
    text: &mut Generate,
) {
    let number = |value: &str| value.parse().ok().filter(|number: &f64| number.is_finite());
    let key = names::UTILIZATION;
    let mut share = UTILIZATION;
    let bytes = |share| usable(server.bytes, share);
    if of.find(names::CACHE).is_some() {
        of.ignore(key, "the bytes of `kv-cache-memory-bytes` take its place");
        share = 1.0;
    } else if let Some((value, place)) = of
        .text(key, |value| Fate::Taken(format!("hbm: b({})", bytes(number(value).unwrap_or(0.0)))))
    {
        share = number(value).filter(|share| *share > 0.0 && *share <= 1.0).unwrap_or_else(|| {
            let rule = format!("`{}` is a share above 0, and 1 at most", of.named(key));
            of.wrong(place, &rule, value, "write 0.9 for nine tenths");
            1.0
        });
    }
    text.hbm = Some(bytes(share));
    let stored = stored_as(settings.precision, text.weights.as_deref());
    let all = card.map_or(0.0, |card| weights(card, stored, settings.devices));
    let of_all = |gib| share_of(gib, all);
    let key = names::OFFLOAD;
    let told = |value: &str| match of_all(number(value).unwrap_or(0.0)) {
        0.0 => Fate::Taken("weights in HBM".to_owned()),
        share => Fate::Taken(format!(
            "ZeroOffload(parameters: \"far\", parameters_share: {share:?}), of {:.1} GiB",
            all / (1_u64 << 30) as f64
        )),
    };
    if let Some((value, place)) = of.text(key, told) {
        match number(value).filter(|gib| (0.0..=1e6).contains(gib)) {
            Some(gib) => text.share = of_all(gib),
            None => {
                let rule = format!("`{}` is GiB per device, from 0 to 1e6", of.named(key));
                of.wrong(place, &rule, value, "write 8 for eight");
            }
        }
    }
    settings.parameters = (text.share > 0.0).then_some("far");
}

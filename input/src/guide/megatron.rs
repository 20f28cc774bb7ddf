//! Arguments of Megatron-LM, or a shell script that holds them, to a scenario that trains.
//!
//! Flags, defaults and what follows from what are those of `megatron/training/arguments.py`, older
//! names among them. Dimensions become a card: a block with a gated feed-forward part is one of
//! Llama, any other one of GPT-2. Invariant: every flag has one row; defaults that change bytes have
//! one as well; and what would be another model of work is refused.

mod kept;
mod model;
mod reasons;

use super::accelerate::not_filled;
use super::deepspeed::keys::MASTER;
use super::reader::{Reader, not_said};
use super::settings::{Ranks, Settings};
use super::shell::Word;
use super::words::{Grammar, LAUNCHER, entries, program};
use super::{Fate, Guide, Row, write};
use kept::{attention, checkpoints, dropout};
use model::card;
use reasons::{ALONE, is_idle, reason, refusal};
use std::ops::Range;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// What the arguments leave to who asks.
pub struct Cluster<'a> {
    /// The model, in the place of the arguments' dimensions.
    pub model: Option<&'a str>,
    /// The machine on which so many ranks run, some of them if it is one server of several.
    pub machine: &'a dyn Fn(u64) -> Option<(String, u64)>,
    /// Devices of all servers, where nothing that starts the program says it.
    pub gpus: Option<u64>,
    /// Words of the vocabulary, where the arguments leave them to a file.
    pub vocab: Option<u64>,
}

const MEGATRON: Grammar = Grammar { call, names_model: false, alone: ALONE };

fn call(words: &[Word]) -> Option<Range<usize>> {
    let starts = ["--num-layers", "--tensor-model-parallel-size", "--hidden-size"];
    let is_dimension =
        |word: &Word| starts.iter().any(|start| word.text.replace('_', "-").starts_with(start));
    words.iter().any(is_dimension).then(|| program(words, &[".py"]).unwrap_or(0..0))
}

/// A flag by today's name.
fn word(path: &[String]) -> String {
    let flag = path.join(".").replace('_', "-");
    match flag.as_str() {
        "model-parallel-size" => "tensor-model-parallel-size",
        "batch-size" => "micro-batch-size",
        "checkpoint-activations" | "activations-checkpoint" => "checkpoint-activations",
        "activations-checkpoint-method" => "recompute-method",
        "activations-checkpoint-num-layers" | "checkpoint-num-layers" => "recompute-num-layers",
        "activations-checkpoint-granularity" => "recompute-granularity",
        "use-custom-fsdp" => "use-megatron-fsdp",
        "launcher.nproc-per-node" | "launcher.num-gpus" | "launcher.gpus-per-node" => {
            "launcher.nproc-per-node"
        }
        "launcher.nnodes" | "launcher.num-nodes" | "launcher.nodes" => "launcher.nnodes",
        other => other,
    }
    .to_owned()
}

/// The scenario that arguments mean. `file` is what problems name.
///
/// # Errors
/// The text has no such command, a value is not what its flag wants, flags contradict each other, or
/// one asks for what is not modelled.
pub fn megatron(file: &Path, text: &str, cluster: &Cluster<'_>) -> Result<Guide, Diagnostics> {
    let entries = entries(file, text, &MEGATRON)?;
    let mut of = Reader::of_flags(file, &entries, word);
    let mut defaults = Vec::new();
    let mut settings = Settings { devices: 1, ..Settings::default() };
    let mut ranks = Ranks::default();
    settings.precision = precision(&mut of);
    settings.gradients = gradients(&mut of, settings.precision, &mut defaults);
    let told = "time: op_times(precision: \"fp8\") where products of it are measured of the device; \
                else they take as long as those of `precision`, up to twice as long";
    settings.fp8_products = of.text("fp8-format", |_| Fate::Taken(told.to_owned())).is_some();
    let replicas = parallel(&mut of, cluster, &mut settings, &mut ranks);
    batches(&mut of, replicas[0], &mut settings);
    match cluster.model {
        Some(model) => {
            settings.model = model.to_owned();
            model::said_elsewhere(&mut of);
        }
        None => {
            let tensor = ranks.tensor;
            let found = card(&mut of, settings.sequence, tensor, cluster.vocab, &mut defaults);
            (settings.model, ranks.card) = found;
        }
    }
    attention(&mut of, &mut settings, &mut defaults);
    ranks.dropout = dropout(&mut of, &mut defaults);
    ranks.checkpointing = checkpoints(&mut of);
    sharding(&mut of, replicas, &mut settings);
    update(&mut of, &mut settings);
    // What offloads or divides more than optimizer state has another optimizer.
    let own = settings.optimizer.is_none() && settings.zero_stage <= 1;
    ranks.passes = own && settings.precision != "fp32";
    settings.ranks = Some(ranks);
    of.unknown(is_idle);
    for (index, entry) in entries.iter().enumerate() {
        let key = word(&entry.path);
        if of.rows[index].is_some() || entry.value.as_deref() == Some("false") {
            continue;
        }
        let value = entry.value.as_deref().unwrap_or("");
        if let Some((why, remedy)) = refusal(&key, value) {
            of.wrong(entry.place, why, value, remedy);
        }
        let launcher = (entry.path[0] == LAUNCHER).then_some("of what starts the program");
        of.rows[index] = reason(&key).or(launcher).map(|why| Fate::Ignored(why.to_owned()));
    }
    let mut rows = of.done()?;
    rows.append(&mut defaults);
    let told = ["as Megatron trains", "tiersim from megatron ARGS"];
    Ok(write::guide("megatron", &settings, told, rows))
}

fn precision(of: &mut Reader<'_>) -> &'static str {
    let mut found = "fp32";
    for name in ["fp16", "bf16"] {
        if of.flag(name, ["another precision", &format!("precision: {name}")]) == Some(true) {
            if found != "fp32" {
                let place = of.find(name).expect("it was read").1.place;
                of.wrong(place, "`fp16` and `bf16` are not both given", name, "leave one out");
            }
            found = name;
        }
    }
    found
}

/// Gradients are added up in 32 bits: in bf16 unless that is switched off, in fp16 if it is on.
fn gradients(
    of: &mut Reader<'_>,
    precision: &str,
    defaults: &mut Vec<Row>,
) -> Option<&'static str> {
    let told = "formats: (gradients: fp32)";
    let on = of.flag("accumulate-allreduce-grads-in-fp32", ["", told]).unwrap_or(false);
    let off = of.flag("grad-reduce-in-bf16", ["", "gradients in bf16"]).unwrap_or(false);
    let wide = on || precision == "bf16" && !off;
    if precision == "fp32" {
        of.ignore("accumulate-allreduce-grads-in-fp32", "they are: nothing has 16 bits");
    } else if precision == "bf16" && wide && !on {
        not_said(
            defaults,
            "accumulate-allreduce-grads-in-fp32",
            &format!("{told}, as bf16 has it"),
        );
    }
    (wide && precision != "fp32").then_some("fp32")
}

/// How ranks split the model; replicas, and ranks over which their state may be divided.
fn parallel(
    of: &mut Reader<'_>,
    cluster: &Cluster<'_>,
    settings: &mut Settings,
    ranks: &mut Ranks,
) -> [u64; 2] {
    let mut count = |key: &str, name: &str| {
        of.number(key, [1, 1 << 16], &format!("parallel: ({name}: {{}})")).unwrap_or(1)
    };
    ranks.tensor = count("tensor-model-parallel-size", "tensor");
    let pipeline = count("pipeline-model-parallel-size", "pipeline");
    let context = count("context-parallel-size", "context");
    let expert = count("expert-model-parallel-size", "expert");
    let [mut per_node, mut nodes] = [None; 2];
    if cluster.gpus.is_none() {
        let key = "launcher.nproc-per-node";
        per_node = of.number(key, [1, 1 << 16], "ranks: {} of each server");
        nodes = of.number("launcher.nnodes", [1, 1 << 16], "ranks: of {} servers");
    }
    let model = ranks.tensor * pipeline.min(1 << 16) * context.min(1 << 16);
    let started = per_node.map(|ranks| ranks * nodes.unwrap_or(1));
    let all = cluster.gpus.or(started).unwrap_or(model);
    if cluster.gpus.is_some() {
        for key in ["launcher.nproc-per-node", "launcher.nnodes"] {
            of.ignore(key, "the command says how many there are");
        }
    }
    if !all.is_multiple_of(model) {
        let place = of.find("tensor-model-parallel-size").map(|(_, entry)| entry.place);
        let rule = format!(
            "ranks are a multiple of tensor x pipeline x context, here {} x {pipeline} x {context}",
            ranks.tensor
        );
        let remedy = "mend one of them, or pass --gpus N, those of all servers";
        of.problems.push(of.file, place, rule, all.to_string(), remedy);
    }
    let data = (all / model).max(1);
    let (hardware, devices) = (cluster.machine)(all).unwrap_or_else(|| {
        let rule = format!("no machine with {all} of the devices ships");
        let remedy = "choose another --device, or other --gpus";
        of.problems.push(of.file, None, rule, "", remedy);
        (String::new(), 1)
    });
    settings.hardware = hardware;
    if let Some(each) = per_node.filter(|&each| each != all.min(devices)) {
        of.ignore("launcher.nproc-per-node", &not_filled(each, all, devices));
    }
    let told = ["norms whole on each rank", "parallel: (sequence: true)"];
    let mut sequence = of.flag("sequence-parallel", told).unwrap_or(false);
    if ranks.tensor == 1 {
        of.ignore("sequence-parallel", "one rank has nothing to split");
        sequence = false;
    }
    let interleave = interleave(of, pipeline);
    ranks.parallel = [
        ("data", data),
        ("context", context),
        ("tensor", ranks.tensor),
        ("pipeline", pipeline),
        ("interleave", interleave),
        ("expert", expert),
    ]
    .iter()
    .filter(|(_, many)| *many > 1)
    .map(|(name, many)| format!("{name}: {many}"))
    .chain(sequence.then(|| "sequence: true".to_owned()))
    .chain((!overlaps(of, ranks.tensor, sequence)).then(|| "overlap: false".to_owned()))
    .collect();
    [data, data * context]
}

/// Whether tensor ranks exchange beside gradients of products.
fn overlaps(of: &mut Reader<'_>, tensor: u64, sequence: bool) -> bool {
    let key = "no-async-tensor-model-parallel-allreduce";
    let told = ["parallel: (overlap: true)", "parallel: (overlap: false)"];
    let off = of.flag(key, told).unwrap_or(false);
    let why = match (tensor, sequence) {
        (1, _) => "one rank has nothing to exchange",
        (_, true) => "of jobs without --sequence-parallel, which exchanges beside products anyhow",
        _ => return !off,
    };
    of.ignore(key, why);
    true
}

/// Stretches of layers per stage.
fn interleave(of: &mut Reader<'_>, pipeline: u64) -> u64 {
    let key = "num-virtual-stages-per-pipeline-rank";
    if let Some(many) = of.number(key, [1, 1 << 16], "parallel: (interleave: {})") {
        return many;
    }
    let key = "num-layers-per-virtual-pipeline-stage";
    let layers = of.number("num-layers", [1, 1 << 16], "").unwrap_or(0);
    let Some((_, entry)) = of.find(key) else { return 1 };
    let Some(each) = of.number(key, [1, 1 << 16], "") else { return 1 };
    let many = layers / pipeline / each;
    if many == 0 || many * each * pipeline != layers {
        let rule = format!(
            "`{key}` divides the layers of a stage, here {layers} layers in {pipeline} stages"
        );
        of.wrong(entry.place, &rule, &each.to_string(), "write one that does");
    }
    of.text(key, |_| Fate::Taken(format!("parallel: (interleave: {many})")));
    many.max(1)
}

fn batches(of: &mut Reader<'_>, replicas: u64, settings: &mut Settings) {
    let sizes = [1, 1 << 20];
    settings.micro_batch = of.number("micro-batch-size", sizes, "micro_batch: {}").unwrap_or(1);
    let key = "global-batch-size";
    let told = format!("batch: {{}} / {replicas} replicas");
    let all = of.number(key, [1, 1 << 24], &told);
    let once = settings.micro_batch * replicas;
    if let Some(all) = all.filter(|all| all % once != 0) {
        let place = of.find(key).expect("it was read").1.place;
        let rule = format!(
            "`{key}` is a multiple of micro-batch x replicas, here {} x {replicas}",
            settings.micro_batch
        );
        of.wrong(place, &rule, &all.to_string(), "mend one of them, or pass --gpus N");
    }
    settings.accumulation = all.map_or(1, |all| (all / once).max(1));
    settings.sequence = match of.find("seq-length") {
        Some(_) => of.number("seq-length", [1, 1 << 24], "sequence: {}").unwrap_or(1),
        None => {
            of.missing("seq-length", "pass the arguments that say it");
            1
        }
    };
}

/// What is divided over replicas, and when it is exchanged.
fn sharding(of: &mut Reader<'_>, [data, shared]: [u64; 2], settings: &mut Settings) {
    let told = ["", "zero: (stage: 1)"];
    let first = of.flag("use-distributed-optimizer", told).unwrap_or(false);
    let third = of.flag("use-torch-fsdp2", ["", "zero: (stage: 3)"]).unwrap_or(false);
    let fsdp = of.flag("use-megatron-fsdp", ["", "zero, by the strategy"]).unwrap_or(false);
    let key = "data-parallel-sharding-strategy";
    let stage = |word: &str| {
        ["no_shard", "optim", "optim_grads", "optim_grads_params"].iter().position(|w| *w == word)
    };
    let told =
        |word: &str| Fate::Taken(format!("zero: (stage: {})", stage(word).unwrap_or_default()));
    let strategy = of.text(key, told);
    if let Some((word, place)) = strategy.filter(|(word, _)| stage(word).is_none()) {
        let rule = format!("`{key}` is no_shard, optim, optim_grads or optim_grads_params");
        of.wrong(place, &rule, word, "write one of these");
    }
    settings.zero_stage = match (third, fsdp, first) {
        (true, ..) => 3,
        (_, true, _) => strategy.and_then(|(word, _)| stage(word)).unwrap_or(0) as u64,
        (_, _, first) => u64::from(first),
    };
    if !fsdp {
        of.ignore(key, "of --use-megatron-fsdp");
    }
    let told = ["zero: (overlap: false)", "communication has a stream of its own"];
    let overlap = of.flag("overlap-grad-reduce", told).unwrap_or(false);
    of.flag("overlap-param-gather", told);
    settings.one_stream = !(overlap || third || fsdp);
    if data == 1 {
        let why = "one replica exchanges no gradients";
        ["overlap-grad-reduce", "overlap-param-gather"].iter().for_each(|key| of.ignore(key, why));
        settings.one_stream = false;
    }
    if shared == 1 {
        let why = "one replica has nothing to divide its state among";
        for key in ["use-distributed-optimizer", "use-torch-fsdp2", "use-megatron-fsdp", key] {
            of.ignore(key, why);
        }
        settings.zero_stage = 0;
    }
}

/// What changes the weights, and where.
fn update(of: &mut Reader<'_>, settings: &mut Settings) {
    let known = |name: &str| match name {
        "adam" => Some("adam_w"),
        "sgd" => Some("sgd(momentum: true)"),
        _ => None,
    };
    let told = |name: &str| match known(name) {
        Some(word) => Fate::Taken(format!("optimizer: {word}")),
        None => Fate::Ignored(
            "not modelled: the scenario has AdamW, whose state is two moments".to_owned(),
        ),
    };
    let read = of.text("optimizer", told);
    settings.update = read.and_then(|(name, _)| known(name)).filter(|&word| word != "adam_w");
    let told = ["", "ZeroOffload(optimizer: \"far\")"];
    let offload = of.flag("optimizer-cpu-offload", told).unwrap_or(false);
    let key = "optimizer-offload-fraction";
    let share = of.text(key, |value| Fate::Taken(format!("optimizer_share: {value}")));
    let number = share.map_or(Some(1.0), |(value, _)| value.parse().ok());
    let number = number.filter(|share: &f64| (0.0..=1.0).contains(share));
    if let Some((value, place)) = share.filter(|_| number.is_none()) {
        let rule = format!("`{key}` is a share from 0 to 1");
        of.wrong(place, &rule, value, "write 0.5 for one half");
    }
    if !offload {
        of.ignore(key, "of --optimizer-cpu-offload");
        return;
    }
    let place = of.find("optimizer-cpu-offload").expect("it was read").1.place;
    if settings.precision == "fp32" {
        of.wrong(place, MASTER, "fp32", "add --bf16 or --fp16");
    }
    if let Some(share) = number.filter(|&share| share > 0.0) {
        settings.optimizer = Some("far");
        settings.optimizer_share = Some(share).filter(|&share| share < 1.0);
    }
}

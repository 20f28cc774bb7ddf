//! A case as a command line of vLLM or of SGLang.
//!
//! A scenario of `generate` is read back as what it was where it begins behind the prompt; one of
//! `serve` has its scheduler's numbers written, which `from` has no use for.
//! Source of the flags: vLLM's and SGLang's pages of server arguments.
//! Invariant: `tiersim from vllm` and `tiersim from sglang` take what is written.

mod memory;

use super::case::{self, formats as shown, machine, measuring, model};
use super::parts::{Ask, Back, Parts, quoted};
use crate::guide::serve::Engine;
use crate::guide::serve::names::{self, checkpoint, sglang_flag};
use crate::guide::serve::values::{DTYPES, KV_DTYPES, QUANTIZATIONS, packed_word, written};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::scenario::{ServingSource, TraceSource};
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::packed::Packed;
use tiersim_workloads::transformer::serving::Serving;
use tiersim_workloads::transformer::training::{Kernels, Router};

/// Tokens of a block that servers take; others are written in blocks of 16.
const BLOCKS: [u64; 7] = [1, 8, 16, 32, 64, 128, 256];

/// A command line that is being written.
#[derive(Debug)]
struct Line<'a, 'p> {
    parts: &'p mut Parts<'a>,
    engine: Engine,
    flags: Vec<(&'static str, String)>,
    /// How weights are stored, as what is written has it.
    weights: (Format, Option<Packed>),
    devices: u64,
}

impl Line<'_, '_> {
    /// The engine's own name of a flag.
    fn own(&self, flag: &'static str) -> &'static str {
        match self.engine {
            Engine::Vllm => flag,
            Engine::Sglang => sglang_flag(flag),
        }
    }

    fn set(&mut self, flag: &'static str, value: impl ToString) {
        let flag = self.own(flag);
        self.flags.push((flag, value.to_string()));
    }

    /// Writes a flag that a part of the scenario says.
    fn say(&mut self, at: &str, part: impl ToString, flag: &'static str, value: impl ToString) {
        let value = value.to_string();
        self.parts.said(at, part.to_string(), format!("--{} {value}", self.own(flag)));
        self.set(flag, value);
    }

    /// Writes one that is not read back.
    fn one_way(&mut self, at: &str, part: impl ToString, flag: &'static str, value: impl ToString) {
        let value = value.to_string();
        self.parts.one_way(at, part.to_string(), format!("--{} {value}", self.own(flag)));
        self.set(flag, value);
    }

    fn name(&self) -> &'static str {
        match self.engine {
            Engine::Vllm => "vLLM",
            Engine::Sglang => "SGLang",
        }
    }
}

/// The command line of a case.
///
/// # Errors
/// The workload is not of a model that generates text.
pub fn serve(ask: &Ask<'_>, engine: Engine) -> Result<Back, Diagnostics> {
    let mut parts = Parts::new(ask);
    let (card, formats, tensor) = match &ask.scenario.workload.trace {
        TraceSource::Model(Work::Generate(of)) => (&of.card, &of.formats, of.tensor),
        TraceSource::Serving(of) => (&of.serving.card, &of.serving.formats, of.serving.tensor),
        TraceSource::Model(_) | TraceSource::Training(_) => {
            let remedy = "ask for its configuration of training: `tiersim to deepspeed` or \
                          `tiersim to fsdp`";
            return parts.refused("a server generates text", "another work of a model", remedy);
        }
        TraceSource::Folder(_) | TraceSource::Recording { .. } => {
            let remedy = "write the workload as `Model(mode: generate(...))`: a recording does not \
                          say its model";
            return parts.refused("a server generates text", "a recorded trace", remedy);
        }
    };
    let name = model(&mut parts, card);
    machine(&mut parts, false);
    let devices = u64::from(tensor);
    let weights = (Format::Bf16, None);
    let mut line = Line { parts: &mut parts, engine, flags: Vec::new(), weights, devices };
    format_flags(&mut line, formats);
    line.say("workload.mode.tensor", tensor, names::TENSOR, tensor);
    if tensor > 1 {
        line.set(names::PIPELINE, 1);
    }
    let hbm = memory::budget(&mut line);
    memory::offload(&mut line, card);
    let load = match &ask.scenario.workload.trace {
        TraceSource::Serving(source) => requests(&mut line, source, hbm),
        TraceSource::Model(Work::Generate(of)) => generation(&mut line, of),
        _ => String::new(),
    };
    let flags = std::mem::take(&mut line.flags);
    let framework = line.name();
    case::case(&mut parts, framework, case::Told { hbm: true, runtime: false });
    measuring(&mut parts);
    let text = written_line(engine, checked(&name, card), &flags);
    let own = if engine == Engine::Vllm { "vllm" } else { "sglang" };
    let device = quoted(&ask.scenario.hardware.name);
    let from = Some(format!("tiersim from {own} FILE --device {device}{load}"));
    Ok(parts.back(text, from))
}

/// The checkpoint of the model, if hubs have one; else its name here.
fn checked<'n>(name: &'n str, card: &Card) -> &'n str {
    checkpoint(&card.name).filter(|_| card.name == name).unwrap_or(name)
}

/// One flag a line, as shells continue them.
fn written_line(engine: Engine, model: &str, flags: &[(&str, String)]) -> String {
    let mut text = match engine {
        Engine::Vllm => format!("vllm serve {}", quoted(model)),
        Engine::Sglang => format!(
            "python -m sglang.launch_server --{} {}",
            sglang_flag(names::MODEL),
            quoted(model)
        ),
    };
    for (flag, value) in flags {
        text.push_str(&format!(" \\\n  --{flag} {}", quoted(value)));
    }
    text.push('\n');
    text
}

fn format_flags(of: &mut Line<'_, '_>, formats: &Formats) {
    let Formats { weights, packed, gradients: _, activations, kv } = formats;
    let at = "workload.precision";
    let format = match activations {
        Format::Fp32 | Format::Tf32 => Format::Fp32,
        Format::Fp16 => Format::Fp16,
        _ => Format::Bf16,
    };
    let base = format.word();
    if let Some(word) = written(&DTYPES, &base) {
        of.say(at, base, names::DTYPE, word);
    }
    let why = format!("products are in --dtype: {base} is written");
    of.parts.unless(activations.word() == base, at, activations.word(), &why);
    let stored = match packed {
        None if weights == activations => None,
        None => Some(weights.word().to_owned()),
        Some(packed) => Some(packed_word(*packed)),
    };
    of.weights = (format, None);
    let known = packed.map_or((*weights, None), |packed| (format, Some(packed)));
    if let Some(stored) = stored {
        let at = "workload.formats.weights";
        let row = QUANTIZATIONS.iter().find(|(_, known, _)| *known == Some(stored.as_str()));
        // Of vLLM a checkpoint of int8 says itself what it is.
        let is_word = |word: &&str| !(of.engine == Engine::Vllm && word.ends_with("int8"));
        let word = row.map(|(words, ..)| words[0]).filter(is_word);
        match (row, word) {
            (Some(_), Some(word)) => {
                of.weights = known;
                of.say(at, &stored, names::QUANTIZATION, word);
            }
            (Some(_), None) => {
                of.weights = known;
                let why = "a checkpoint that is stored so says it: name one";
                of.parts.unsaid(at, &stored, why);
            }
            _ => of.parts.unsaid(at, &stored, "no kernel of the engine is of this format"),
        }
    }
    if kv == activations {
        return;
    }
    let at = "workload.formats.kv";
    match written(&KV_DTYPES, &Some(kv.word())) {
        Some(word) => of.say(at, kv.word(), names::KV_DTYPE, word),
        None => of.parts.unsaid(at, shown(formats), "keys and values are 16 bits or fp8"),
    }
}

/// Decode steps of requests that begin together: what the command is asked beside the flags.
fn generation(of: &mut Line<'_, '_>, made: &Generation) -> String {
    let Generation {
        card: _,
        formats: _,
        batch,
        batches,
        prompt,
        tokens,
        prefill,
        attention,
        kernels,
        kv_block,
        tensor: _,
        context,
        devices: _,
        router,
    } = made;
    let mode = |field: &str| format!("workload.mode.{field}");
    of.say(&mode("batch"), batch, names::REQUESTS, batch);
    let length = prompt.saturating_add(u64::from(*tokens));
    of.say(&mode("prompt, tokens"), length, names::LENGTH, length);
    let load = format!(" --requests {batch} --prompt {prompt} --tokens {tokens}");
    of.parts.asked(&mode("batch, prompt, tokens"), batch, load.trim_start());
    if let Some(tokens) = kv_block.filter(|tokens| BLOCKS.contains(tokens)) {
        of.one_way(&mode("kv_block"), tokens, names::BLOCK, tokens);
    } else if let Some(tokens) = kv_block {
        of.parts.unsaid(&mode("kv_block"), tokens, "blocks are powers of two up to 256 tokens");
    }
    let rows = [
        ("prefill", !prefill, "true", "flags are read as decode steps, behind the prompt"),
        ("batches", *batches == 1, "several", "requests are one batch"),
        ("attention_on", *attention == AttentionOn::Device, "host", "attention is on the card"),
        ("kernels", *kernels == Kernels::Fused, kernels.word(), "servers run fused kernels"),
        ("context", *context == 1, "several ranks", "ranks split matrices, not sequences"),
        ("router", *router == Router::default(), "a skewed one", "tokens choose, not flags"),
    ];
    for (field, plain, value, why) in rows {
        of.parts.unless(plain, &mode(field), value, why);
    }
    load
}

/// A scheduler's numbers. What is asked is in the trace of requests.
fn requests(of: &mut Line<'_, '_>, source: &ServingSource, hbm: Option<u64>) -> String {
    let ServingSource { requests, first: _, until: _, serving, device: _ } = source;
    let Serving {
        card,
        formats,
        block_tokens,
        kv_blocks,
        max_batch,
        max_tokens_per_step,
        layer_groups: _,
        merge: _,
        kernels,
        tensor: _,
        devices: _,
    } = serving;
    let mode = |field: &str| format!("workload.mode.{field}");
    let why = "flags are read as decode steps of requests that begin together: --requests, \
               --prompt and --tokens say how many and how long";
    let file = requests.file_name().unwrap_or_default().to_string_lossy();
    of.parts.unsaid(&mode("requests"), file, why);
    of.one_way(&mode("max_batch"), max_batch, names::REQUESTS, max_batch);
    let room = u64::from(*block_tokens).saturating_mul(*kv_blocks);
    let (step, all) = match of.engine {
        Engine::Vllm => ("max-num-batched-tokens", names::BLOCKS),
        Engine::Sglang => ("chunked-prefill-size", names::CACHED),
    };
    of.one_way(&mode("max_tokens_per_step"), max_tokens_per_step, step, max_tokens_per_step);
    let said = BLOCKS.contains(&u64::from(*block_tokens));
    let block = if said { u64::from(*block_tokens) } else { 16 };
    of.one_way(&mode("block_tokens"), block_tokens, names::BLOCK, block);
    if !said {
        let why = "blocks are powers of two up to 256 tokens: as much room is in blocks of 16";
        of.parts.unsaid(&mode("block_tokens"), block_tokens, why);
    }
    if memory::holds(of, hbm, (card, formats.kv), room) {
        let amount = if of.engine == Engine::Vllm { room / block } else { room };
        of.one_way(&mode("kv_blocks"), kv_blocks, all, amount);
    } else {
        let why = format!(
            "they are of all tiers, and more than the card has room for beside weights: without \
             --{all} {} makes as many as fit",
            of.name()
        );
        of.parts.unsaid(&mode("kv_blocks"), kv_blocks, why);
    }
    let why = "servers run fused kernels";
    of.parts.unless(*kernels == Kernels::Fused, &mode("kernels"), kernels.word(), why);
    String::new()
}

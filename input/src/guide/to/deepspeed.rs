//! A case as a `ds_config.json` of DeepSpeed.
//!
//! Numbers count elements, as DeepSpeed counts them. What every scenario means and no key of it
//! says is written too: small parameters are offloaded like all others, what was fetched goes when
//! no op within the window uses it, the buffers of a drive hold the largest tensor.
//! Source of the keys: DeepSpeed's page of configuration, and runtime/zero/config.py and
//! offload_config.py of its source.
//! Invariant: `tiersim from deepspeed` takes what is written.

mod drives;
mod offload;

use super::case::{self, machine, measuring};
use super::parts::{Ask, Back, Parts, quoted};
use super::training::{offload as policy, precision, program, training};
use crate::guide::deepspeed::keys;
use serde_json::{Map, Value, json};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_workloads::transformer::training::{Checkpointing, Optimizer, Training, Zero};

const NAME: &str = "DeepSpeed";

/// That of most programs: any but 0 keeps as much.
const USUAL_MOMENTUM: f64 = 0.9;

/// DeepSpeed's word for a home, and the role of the tier.
type Home = Option<(&'static str, &'static str)>;

/// A file that is being written.
#[derive(Debug)]
struct Config<'a, 'p> {
    parts: &'p mut Parts<'a>,
    file: Map<String, Value>,
    /// What is computed in.
    precision: &'static str,
    training: &'a Training,
}

impl Config<'_, '_> {
    /// Writes a key by its whole path.
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        let mut section = &mut self.file;
        let (sections, last) = key.rsplit_once('.').unwrap_or(("", key));
        for name in sections.split('.').filter(|name| !name.is_empty()) {
            let inside = section.entry(name).or_insert_with(|| json!({}));
            section = inside.as_object_mut().expect("a section has no value of its own");
        }
        section.insert(last.to_owned(), value.into());
    }

    /// Writes a key that a part of the scenario says.
    fn say(&mut self, at: &str, shown: impl ToString, key: &str, value: impl Into<Value>) {
        let value = value.into();
        self.parts.said(at, shown.to_string(), format!("{key}: {value}"));
        self.set(key, value);
    }

    /// Elements of so many bytes; what is left over is told.
    fn elements(&mut self, at: &str, bytes: u64) -> u64 {
        let wide = keys::element(self.precision);
        if !bytes.is_multiple_of(wide) || bytes == 0 {
            let why = format!("DeepSpeed counts elements of {wide} bytes, 1 and more");
            self.parts.unsaid(at, format!("{bytes} B"), why);
        }
        (bytes / wide).max(1)
    }
}

/// The configuration of a case.
///
/// # Errors
/// The workload is no training.
pub fn deepspeed(ask: &Ask<'_>) -> Result<Back, Diagnostics> {
    let mut parts = Parts::new(ask);
    let training = training(&mut parts, NAME)?;
    let model = program(&mut parts, training);
    let host = machine(&mut parts, true);
    let precision = precision(&mut parts, &training.formats);
    let mut config = Config { parts: &mut parts, file: Map::new(), precision, training };
    batches(&mut config);
    for (key, word) in keys::PRECISIONS {
        config.set(key, word == precision);
    }
    let switched = keys::PRECISIONS.iter().find(|(_, word)| *word == precision);
    let told =
        switched.map_or("neither bf16 nor fp16".to_owned(), |(key, _)| format!("{key}: true"));
    config.parts.said("workload.precision", precision, told);
    update(&mut config);
    let homes = policy(config.parts, &ask.case.policy, NAME);
    let stage = offload::stage(&mut config, homes);
    partition(&mut config, stage);
    let offloads = offload::offload(&mut config, homes, stage);
    let checkpointing = checkpoints(&mut config, homes.is_some_and(offload::activations));
    let Config { file, .. } = config;
    case::case(&mut parts, NAME, case::Told { hbm: false, runtime: offloads });
    measuring(&mut parts);
    let gpus = training.parallel.data;
    if gpus > 8 {
        let why = "the way back takes at most --gpus 8: a server";
        parts.unsaid("workload.mode.parallel.data", gpus, why);
    }
    let mut from = format!("tiersim from deepspeed FILE --model {}", quoted(&model));
    from.push_str(&format!(" --device {}", quoted(&ask.scenario.hardware.name)));
    from.push_str(&format!(" --gpus {} --sequence {}", gpus.min(8), training.sequence));
    if checkpointing {
        from.push_str(" --checkpointing");
    }
    if let Some(gib) = host {
        from.push_str(&format!(" --host-memory {gib}"));
    }
    let text = format!("{:#}\n", Value::Object(file));
    Ok(parts.back(text, Some(from)))
}

fn batches(of: &mut Config<'_, '_>) {
    let Training { batch, micro_batch, parallel, .. } = of.training;
    let (steps, gpus) = (batch.div_ceil((*micro_batch).max(1)), parallel.data);
    of.say("workload.mode.micro_batch", micro_batch, keys::MICRO_BATCH, *micro_batch);
    of.say("workload.mode.batch", batch, keys::ACCUMULATION, steps);
    let all = u64::from(*micro_batch) * u64::from(steps) * u64::from(gpus);
    if all != u64::from(*batch) * u64::from(gpus) {
        let why = "a batch is whole micro-batches there: it is rounded up";
        of.parts.unsaid("workload.mode.batch", batch, why);
    }
    of.say("workload.mode.parallel.data", gpus, keys::BATCH, all);
    if gpus > 1 {
        of.parts.asked("workload.mode.parallel.data", gpus, format!("--gpus {gpus}"));
    }
}

fn update(of: &mut Config<'_, '_>) {
    let at = "workload.mode.optimizer";
    let word = of.training.optimizer.word();
    let momentum = of.training.optimizer == Optimizer::Sgd { momentum: true };
    let plain = if momentum { "sgd()" } else { word };
    let known = keys::OPTIMIZERS.iter().find(|(_, known)| *known == plain);
    let Some((names, _)) = known else {
        return of.parts.unsaid(at, word, "the program hands DeepSpeed its own optimizer");
    };
    of.say(at, word, keys::OPTIMIZER, names[0]);
    if momentum {
        of.say(at, word, keys::MOMENTUM, USUAL_MOMENTUM);
    }
}

/// What goes over the wire, where there is one.
fn partition(of: &mut Config<'_, '_>, stage: u8) {
    let Zero { stage: _, host_update: _, bucket, prefetch, reshard, overlap } = of.training.zero;
    let usual = Zero::default();
    let [at_bucket, at_overlap] = ["bucket", "overlap"].map(|f| format!("workload.mode.zero.{f}"));
    if stage > 0 && of.training.parallel.data > 1 {
        let elements = of.elements(&at_bucket, bucket.get());
        of.say(&at_bucket, bucket, keys::BUCKET, elements);
        of.say(&at_overlap, overlap, keys::OVERLAP, overlap);
    } else {
        let several = of.training.parallel.data > 1;
        let why = match several {
            true => {
                "without ZeRO gradients are reduced behind the backward pass, in buffers of \
                     DeepSpeed's own size"
            }
            false => "one device reduces nothing",
        };
        of.parts.unless(bucket == usual.bucket, &at_bucket, bucket, why);
        of.parts.unless(overlap == (usual.overlap && !several), &at_overlap, overlap, why);
        if stage == 0 && of.precision == "bf16" {
            let why = "DeepSpeed without ZeRO sums gradients of bf16 in 32 bits, and divides \
                       optimizer state among ranks";
            of.parts.unsaid("workload.formats.gradients", "bf16", why);
        }
    }
    let why = "DeepSpeed gathers ahead by elements (stage3_prefetch_bucket_size), not by blocks";
    of.parts.unless(prefetch == usual.prefetch, "workload.mode.zero.prefetch", prefetch, why);
    let why = "DeepSpeed gathers again for the backward pass what it does not find in its cache";
    of.parts.unless(reshard || stage < 3, "workload.mode.zero.reshard", reshard, why);
}

/// Whether the program is asked to keep the inputs of blocks only.
fn checkpoints(of: &mut Config<'_, '_>, far: bool) -> bool {
    let at = "workload.mode.checkpointing";
    let full = of.training.checkpointing == Checkpointing::Full;
    match of.training.checkpointing {
        Checkpointing::None => {}
        Checkpointing::Full => {
            of.parts.asked(at, "full", "--checkpointing: the program wraps its blocks");
        }
        other => {
            let why = "which blocks are computed again is the program's own code";
            of.parts.unsaid(at, other.word(), why);
        }
    }
    let at = of.parts.of_case("policy.activations");
    if far && !full {
        let why = "DeepSpeed moves the inputs of blocks, where nothing else is kept: `full`";
        of.parts.unsaid(&at, "offloaded", why);
    } else if far || full {
        of.say(&at, if far { "far" } else { "near" }, keys::CPU_CHECKPOINTING, far);
    }
    full
}

//! What frameworks of training have in common.
//!
//! Invariant: every field of a training is told here, or by who asks: batches, optimizer,
//! checkpointing and ZeRO are.

use super::case::{formats, model};
use super::parts::Parts;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::TierId;
use tiersim_policies::recipe::PolicyConfig;
use tiersim_policies::scenario::TraceSource;
use tiersim_policies::zoo::zero_offload::ZeroOffloadConfig;
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::training::{
    Attention, Kernels, Loss, OptimizerKernels, Parallel, Router, Training, UpdateTime,
};

/// What the program says, whatever framework it uses.
const PROGRAM: &str = "the program's own code says it";

/// The training of a scenario that has one.
///
/// # Errors
/// The workload is another.
pub(super) fn training<'a>(
    parts: &mut Parts<'a>,
    framework: &str,
) -> Result<&'a Training, Diagnostics> {
    let rule = format!("a configuration of {framework} is of training");
    match &parts.ask.scenario.workload.trace {
        TraceSource::Model(Work::Train(training)) => Ok(training),
        TraceSource::Training(run) => {
            let why = "how long sequences are is the data's, step by step";
            let lengths = format!("{} lengths", run.sequences.len());
            parts.unsaid("workload.mode.sequences", lengths, why);
            Ok(&run.training)
        }
        TraceSource::Folder(_) | TraceSource::Recording { .. } => {
            let remedy = "write the workload as `Model(mode: train(...))`: a recording does not say \
                          its batch, precision or stage";
            parts.refused(&rule, "a recorded trace", remedy)
        }
        TraceSource::Model(Work::Generate(_)) | TraceSource::Serving(_) => {
            let remedy = "ask for the flags of a server: `tiersim to vllm` or `tiersim to sglang`";
            parts.refused(&rule, "a model that generates text", remedy)
        }
        TraceSource::Model(Work::Operators(_)) => {
            let remedy = "write the workload as `Model(mode: train(...))`";
            parts.refused(&rule, "structured operators", remedy)
        }
    }
}

/// What the program says of a training, and its model.
pub(super) fn program(parts: &mut Parts<'_>, of: &Training) -> String {
    let Training {
        card,
        batch: _,
        micro_batch: _,
        sequence,
        formats: _,
        optimizer: _,
        update,
        checkpointing: _,
        attention,
        kernels,
        optimizer_kernels,
        loss,
        dropout,
        parallel,
        zero: _,
        devices: _,
        router,
        loader,
        lora,
    } = of;
    let model = model(parts, card);
    parts.asked("workload.mode.sequence", sequence, format!("--sequence {sequence}"));
    let mode = |field: &str| format!("workload.mode.{field}");
    let rows = [
        ("update", *update == UpdateTime::After, "in_backward"),
        ("attention", *attention == Attention::Flash, "eager"),
        ("kernels", *kernels == Kernels::Compiled, kernels.word()),
        (
            "optimizer_kernels",
            optimizer_kernels.is_none(),
            optimizer_kernels.map_or("", OptimizerKernels::word),
        ),
        ("loss", *loss == Loss::Eager, "fused"),
        ("dropout", !dropout, "true"),
        ("router", *router == Router::default(), "a skewed one"),
        ("loader", loader.is_none(), "one that counts"),
        ("lora", lora.is_none(), "adapters"),
    ];
    for (field, plain, value) in rows {
        parts.unless(plain, &mode(field), value, PROGRAM);
    }
    // The program splits nothing, so that there is nothing to overlap.
    let Parallel { data: _, context, tensor, sequence, overlap: _, pipeline, interleave, expert } =
        parallel;
    let ways = [
        ("context", *context),
        ("tensor", *tensor),
        ("pipeline", *pipeline),
        ("interleave", *interleave),
        ("expert", *expert),
    ];
    let whole = "only replicas are counted: the program splits models";
    parts.unless(!sequence, "workload.mode.parallel.sequence", sequence, whole);
    for (field, ranks) in ways {
        let at = format!("workload.mode.parallel.{field}");
        parts.unless(ranks == 1, &at, ranks, whole);
    }
    model
}

/// The word of one precision for everything that a framework can switch on, with what it leaves.
pub(super) fn precision(parts: &mut Parts<'_>, of: &Formats) -> &'static str {
    let base = match of.weights {
        Format::Fp32 | Format::Tf32 => Format::Fp32,
        Format::Fp16 => Format::Fp16,
        _ => Format::Bf16,
    };
    let why = format!("one precision is for all: {} is written", base.word());
    parts.unless(*of == Formats::all(base), "workload.formats", formats(of), &why);
    base.word()
}

/// The homes of ZeRO-Offload, if the case has them or needs none.
pub(super) fn offload<'a>(
    parts: &mut Parts<'_>,
    policy: &'a PolicyConfig,
    framework: &str,
) -> Option<&'a ZeroOffloadConfig> {
    let at = "policy";
    let found = policy.get::<ZeroOffloadConfig>();
    if found.is_none() && policy.name() != "all-hbm" {
        let words = format!("{}({})", policy.name(), policy.details());
        let why = format!(
            "{framework} has no counterpart, so nothing is offloaded; what modules it places is \
             written by `tiersim to device-map` and `tiersim hints`"
        );
        parts.unsaid(&parts.of_case(at), words, why);
    }
    found
}

/// The tier that a scenario's word for a role means on its machine, if there is one.
pub(super) fn role(parts: &Parts<'_>, role: &str) -> Option<TierId> {
    crate::scenario::resolver::by_role(role, &parts.ask.scenario.hardware)
}

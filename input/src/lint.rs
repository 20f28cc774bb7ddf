//! What a scenario and its trace say that recordings and models seldom do.
//!
//! Invariant: one warning a rule and a scenario, with the first place and how many there are.

use crate::import::recording::element_type;
use crate::scenario::{Budget, Case, OpTime, Scenario, TraceSource};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::{HBM, TierKind};
use tiersim_models::ids::{ModuleId, ObjectId, RankId, TierId};
use tiersim_models::kernel::{Kernel, Streaming, Work};
use tiersim_models::runtime::Runtime;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{Object, ObjectKind, Op, Phase, Trace, Unit};
use tiersim_workloads::memory::account;
use tiersim_workloads::memory::zero::Offload;
use tiersim_workloads::transformer::Work as Modelled;

/// A recording and a roofline that differ by more than this are not of the same work.
const UNLIKE: f64 = 1e6;
/// An op that counts so many times the bytes of what it touches, or so small a part of them, says
/// one of the two wrong. Below a kilobyte nothing is told from that.
const BYTES: u64 = 1000;
const LEAST_BYTES: u64 = 1024;
/// A budget of more than so many times the peak is a percentage that was taken for a share.
const MOST_SHARE: f64 = 4.0;

/// Element types that no recording has the bytes of, and short spellings of generated traces.
const OTHER_DTYPES: &str = "bits16 bits8 complex32 float4_e2m1fn_x2 float8_e4m3fnuz \
                            float8_e5m2fnuz float8_e8m0fnu int1 int2 int4 qint32 qint8 quint2x4 \
                            quint4x2 quint8 uint1 uint2 uint4 bf16 fp16 fp32 fp8 fp6 fp4 tf32";

/// Every warning about a scenario with its trace.
pub fn lint_scenario(scenario: &Scenario, trace: &Trace) -> Vec<Warning> {
    let of_trace = [
        far_from_processors(scenario, trace),
        idle_experts(scenario, trace),
        launched_for_nothing(scenario, trace),
        out_of_order(trace),
        unlike_roofline(scenario, trace),
        unlike_uses(trace),
        odd_dtypes(trace),
        backward_first(trace),
        nothing_to_place(trace),
    ];
    let of_cases = [
        alike(scenario),
        far_above_peak(scenario),
        slower_first(scenario),
        empty_parts(scenario),
        missed_shares(scenario, trace),
        coarse_iterations(scenario),
        last_stage(scenario),
    ];
    of_trace.into_iter().chain(of_cases).flatten().collect()
}

/// The warning about what there is: the first, and how many; none where there is nothing.
fn warning(
    [rule, place]: [&'static str; 2],
    (first, count): (Option<String>, usize),
    reason: impl Into<String>,
    remedy: &str,
) -> Option<Warning> {
    let mut found = first?;
    if count > 1 {
        found += &format!(" and {} more", count - 1);
    }
    let (place, reason, remedy) = (place.to_owned(), reason.into(), remedy.to_owned());
    Some(Warning { rule, place, found, reason, remedy })
}

/// `cxl-at-the-rate-of-dram`: the host's processors reach all of its memory at one rate.
fn far_from_processors(scenario: &Scenario, trace: &Trace) -> Option<Warning> {
    let cpu = scenario.hardware.cpu.as_ref()?;
    let slow = scenario
        .hardware
        .tiers
        .iter()
        .find(|tier| tier.kind == TierKind::Cxl && tier.access.rate < cpu.memory)?;
    let count = trace.ops.iter().filter(|op| op.unit == Unit::Cpu).count();
    let first = (count > 0).then(|| slow.name.to_string());
    let reason = "ops of the host that use what is there take as long as in its own memory, which is \
                  quicker";
    let remedy =
        "keep what the host updates in `dram`, or lower `cpu.memory` to the rate of that tier";
    warning(["cxl-at-the-rate-of-dram", "hardware"], (first, 1), reason, remedy)
}

/// `eager-without-host-time`: kernels of single operations are so short that a program is slower to
/// launch them than a device to run them.
fn launched_for_nothing(scenario: &Scenario, trace: &Trace) -> Option<Warning> {
    let priced = matches!(scenario.workload.time, OpTime::Priced { .. });
    if !priced || scenario.cases.iter().all(|case| case.runtime != Runtime::default()) {
        return None;
    }
    let unfused = |kernel: &Kernel| {
        use Streaming::{LayerNorm, Reduction, Strided, Vectorized};
        matches!(kernel.work, Work::Streaming(Vectorized | Strided | Reduction | LayerNorm))
    };
    let single = |op: &&Op| op.kernels.as_ref().is_some_and(|kernels| kernels.iter().any(unfused));
    let mut ops = trace.ops.iter().filter(single);
    let first = ops.next().map(|op| op.name.to_string());
    let reason = "kernels of single operations run one after the other, and launching them takes no \
                  time of the host here: 25 us an op were measured, of which small ones wait";
    let remedy = "say what the program takes: `runtime: (per_op: ..., ahead: true, source: ...)`";
    warning(["eager-without-host-time", "runtime"], (first, 1 + ops.count()), reason, remedy)
}

/// `idle-experts`: what no token of a replay chooses is never wanted, and the rest is the same in
/// every replay.
fn idle_experts(scenario: &Scenario, trace: &Trace) -> Option<Warning> {
    if scenario.workload.repeat < 2 {
        return None;
    }
    let of_expert = |object: &&Object| {
        let name = object.module.map_or("", |module| trace.modules[module.index()].as_str());
        object.kind == ObjectKind::Weight && name.contains(".mlp.experts.")
    };
    let used: BTreeSet<ObjectId> = trace.uses.iter().map(|one| one.object).collect();
    let all = trace.objects.iter().enumerate().filter(|(_, object)| of_expert(object));
    let (mut count, mut idle) = (0, 0);
    for (index, _) in all {
        count += 1;
        idle += usize::from(!used.contains(&ObjectId::at(index)));
    }
    // A few are idle in any run.
    let first = (idle * 10 > count).then(|| format!("{idle} of {count} matrices of experts"));
    let reason = "no token of the trace chooses them, and every replay chooses as the first did, so that \
                  fetching experts costs less than it would";
    let remedy = "generate more tokens, or write `repeat: 1` and `warmup: 0`";
    warning(["idle-experts", "workload.repeat"], (first, 1), reason, remedy)
}

/// `nothing-to-place`: policies decide where objects are.
fn nothing_to_place(trace: &Trace) -> Option<Warning> {
    let all = trace.objects.is_empty() && !trace.ops.is_empty();
    let first = all.then(|| format!("0 objects beside {} ops", trace.ops.len()));
    let reason =
        "without objects no policy has anything to place, so that all of them are as quick";
    let remedy =
        "record memory too (`profile_memory=True`), or join an execution trace to the file";
    warning(["nothing-to-place", "workload"], (first, 1), reason, remedy)
}

/// `recorded-times-overlap`: a stream does one op after the other.
fn out_of_order(trace: &Trace) -> Option<Warning> {
    let mut last: BTreeMap<(u16, RankId), Time> = BTreeMap::new();
    let (mut first, mut count) = (None, 0);
    for (index, op) in trace.ops.iter().enumerate() {
        let Some(at) = op.at else { continue };
        let over = at + op.duration.unwrap_or(Span::ZERO);
        let before = last.insert((op.stream, op.rank), over);
        if before.is_some_and(|before| at < before) {
            count += 1;
            first.get_or_insert(format!("op {index} ({})", op.name));
        }
    }
    let reason = "it starts before the op before it on its stream is over";
    let remedy = "check `at_ns` and `duration_ns` of the recording, and which ops share a stream";
    warning(["recorded-times-overlap", "workload.trace"], (first, count), reason, remedy)
}

/// `durations-unlike-roofline`: recorded times of nothing, or of other units.
fn unlike_roofline(scenario: &Scenario, trace: &Trace) -> Option<Warning> {
    let OpTime::Recorded { scale } = scenario.workload.time else { return None };
    if !scenario.workload.trace.is_recorded() {
        return None;
    }
    let device = |op: &&Op| op.unit == Unit::Device;
    let spans = trace.ops.iter().filter(device).filter_map(|op| op.duration);
    let recorded: f64 = spans.map(|span| span.ps() as f64 / 1e12).sum::<f64>() * scale;
    let place = ["durations-unlike-roofline", "workload.time"];
    let remedy = "check the unit of `duration_ns`, or write `time: roofline(...)`";
    if recorded == 0.0 && trace.ops.iter().any(|op| op.flops > 0 || op.bytes > Bytes::ZERO) {
        let reason = "all recorded durations are 0, so only copies take time";
        return warning(place, (Some("0 s".to_owned()), 1), reason, remedy);
    }
    let compute = scenario.hardware.compute.as_ref()?;
    let precision = &trace.meta.precision;
    let known =
        compute.flops.iter().find(|(name, _)| name == precision).or(compute.flops.last())?;
    let time = |op: &Op| compute.roofline(&known.0, op.flops, op.bytes);
    let roofline: Option<Vec<Span>> = trace.ops.iter().filter(device).map(time).collect();
    let roofline: f64 = roofline?.iter().map(|span| span.ps() as f64 / 1e12).sum();
    let far = roofline > 0.0 && (recorded / roofline > UNLIKE || roofline / recorded > UNLIKE);
    let reason = format!("the roofline of {} says {roofline:.3e} s for the same ops", compute.name);
    warning(place, (far.then(|| format!("{recorded:.3e} s")), 1), reason, remedy)
}

/// `bytes-unlike-uses`: an op reads and writes what it touches, once or some times.
fn unlike_uses(trace: &Trace) -> Option<Warning> {
    let (mut first, mut count) = (None, 0);
    for (index, op) in trace.ops.iter().enumerate() {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        // Of what is used in part an op may touch as little as it likes.
        if op.bytes.get() < LEAST_BYTES || uses.iter().any(|one| one.part.is_some()) {
            continue;
        }
        let touched: u64 =
            uses.iter().map(|one| trace.objects[one.object.index()].bytes.get()).sum();
        if touched >= LEAST_BYTES && op.bytes.get() / BYTES > touched {
            count += 1;
            let words =
                format!("op {index} ({}): {} of {}", op.name, op.bytes, Bytes::new(touched));
            first.get_or_insert(words);
        }
    }
    let reason = format!("it counts more than {BYTES} times the bytes of all that it touches");
    let remedy =
        "check the unit of `bytes` in ops.csv and in objects.csv, and that no use is missing";
    warning(["bytes-unlike-uses", "workload.trace"], (first, count), reason, remedy)
}

/// `unknown-dtype`: a type that no framework has is a slip of the pen.
fn odd_dtypes(trace: &Trace) -> Option<Warning> {
    let other = |dtype: &str| OTHER_DTYPES.split(' ').any(|known| known == dtype);
    let known = |dtype: &str| element_type(dtype).is_some() || other(dtype);
    // A type that is not said is no slip: imports do not know any.
    let odd = trace.objects.iter().filter(|object| !object.dtype.is_empty());
    let odd: Vec<_> = odd.filter(|object| !known(&object.dtype)).collect();
    let first = odd.first().map(|object| format!("{:?} of {}", object.dtype, object.name));
    let reason = "neither PyTorch nor a generated trace spells an element type so";
    let remedy = "write it in PyTorch's spelling, such as float32 or bfloat16";
    warning(["unknown-dtype", "workload.trace"], (first, odd.len()), reason, remedy)
}

/// `backward-before-forward`: what has a forward pass in a step has it before its backward pass.
fn backward_first(trace: &Trace) -> Option<Warning> {
    // First op of each pass by step and module.
    let mut passes: BTreeMap<(u32, ModuleId), [Option<usize>; 2]> = BTreeMap::new();
    for (index, op) in trace.ops.iter().enumerate() {
        let pass = match op.phase {
            Phase::Forward => 0,
            Phase::Backward => 1,
            _ => continue,
        };
        let Some(module) = op.module else { continue };
        passes.entry((op.step, module)).or_default()[pass].get_or_insert(index);
    }
    let early = |(&(step, module), passes): (&(u32, ModuleId), &[Option<usize>; 2])| match *passes {
        [Some(forward), Some(backward)] if backward < forward => Some((step, module)),
        _ => None,
    };
    let found: Vec<_> = passes.iter().filter_map(early).collect();
    let name = |&(step, module): &(u32, ModuleId)| {
        format!("{} in step {step}", trace.modules[module.index()])
    };
    let reason = "its backward pass begins before its forward pass of the same step";
    let remedy = "check the order of the ops, and their `phase` and `step`";
    warning(
        ["backward-before-forward", "workload.trace"],
        (found.first().map(name), found.len()),
        reason,
        remedy,
    )
}

/// `names-alike`: two names that only a careful eye tells apart.
fn alike(scenario: &Scenario) -> Option<Warning> {
    let plain = |name: &str| {
        let letters = name.chars().filter(|letter| !letter.is_whitespace());
        letters.flat_map(char::to_lowercase).collect::<String>()
    };
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let mut pairs = Vec::new();
    for case in &scenario.cases {
        if let Some(other) = seen.insert(plain(&case.label), &case.label) {
            pairs.push(format!("{other:?} and {:?}", case.label));
        }
    }
    let reason = "the names of these cases differ by spaces or case only";
    let remedy = "give one of them a name that says how they differ";
    warning(["names-alike", "policies"], (pairs.first().cloned(), pairs.len()), reason, remedy)
}

/// `budget-far-above-need`: a share of the peak is a factor and no percentage.
fn far_above_peak(scenario: &Scenario) -> Option<Warning> {
    let above = |case: &Case| match case.hbm {
        Budget::ShareOfPeak(share) if share > MOST_SHARE => Some((case.label.clone(), share)),
        _ => None,
    };
    let found: Vec<_> = scenario.cases.iter().filter_map(above).collect();
    let first = found.first().map(|(label, share)| format!("{label:?}: share_of_peak({share})"));
    let reason = format!("that is more than {MOST_SHARE} times what everything in HBM needs");
    let remedy = "a share of three quarters is written share_of_peak(0.75)";
    warning(["budget-far-above-need", "policies"], (first, found.len()), reason, remedy)
}

/// `slower-tier-first`: what leaves HBM goes to the first tier of a list that has room.
fn slower_first(scenario: &Scenario) -> Option<Warning> {
    let tiers = &scenario.hardware.tiers;
    let slower = |pair: &&[TierId]| {
        let [near, far] = [pair[0], pair[1]].map(|tier| tiers[tier.index()].access);
        near.rate < far.rate && near.setup > far.setup
    };
    let wrong = |case: &&Case| {
        case.policy.nearest_first().is_some_and(|list| list.windows(2).any(|pair| slower(&pair)))
    };
    let found: Vec<_> = scenario.cases.iter().filter(wrong).collect();
    let words = |case: &&Case| {
        let list = case.policy.nearest_first().unwrap_or_default().iter();
        let names: Vec<&str> = list.map(|tier| tiers[tier.index()].name.as_str()).collect();
        format!("{:?}: {}", case.label, names.join(", "))
    };
    let reason = "an earlier tier of the list is slower than a later one, and is filled first";
    let remedy = "write the nearest tier first";
    warning(
        ["slower-tier-first", "policies"],
        (found.first().map(words), found.len()),
        reason,
        remedy,
    )
}

/// `empty-part`: a cut that leaves a tier without a module.
fn empty_parts(scenario: &Scenario) -> Option<Warning> {
    let cases = scenario.cases.iter();
    let empty = |case: &Case| Some((case.label.clone(), case.policy.empty_part()?));
    let found: Vec<_> = cases.filter_map(empty).collect();
    let first = found.first().map(|(label, part)| format!("{label:?}: {part}"));
    let reason = "its second part ends where the first does, so no module goes there";
    let remedy =
        "raise `cpu` above `hbm`, or write shares(...) where the second number counts by itself";
    warning(["empty-part", "policies"], (first, found.len()), reason, remedy)
}

/// `share-missed`: whole objects come nowhere near a percentage. Chunks come near any.
fn missed_shares(scenario: &Scenario, trace: &Trace) -> Option<Warning> {
    let cases = scenario.cases.iter().filter(|case| case.chunk.is_none());
    let missed = |case: &Case| Some((case.label.clone(), case.policy.missed_share(trace)?));
    let found: Vec<_> = cases.filter_map(missed).collect();
    let first = found.first().map(|(label, share)| format!("{label:?}: {share}"));
    let reason = "objects stay whole, and a layer has few of them";
    let remedy = "split them: give the case a `chunk`, such as `chunk: mib(32)`";
    warning(["share-missed", "policies"], (first, found.len()), reason, remedy)
}

/// `last-stage-needs-more`: a trace is of the first stage of a pipeline, which may fit where the one
/// with the head does not.
fn last_stage(scenario: &Scenario) -> Option<Warning> {
    let TraceSource::Model(Modelled::Train(job)) = &scenario.workload.trace else { return None };
    let job = account::Training::of(job, Offload::default());
    let [first, last] = [account::training(&job), account::of_largest_stage(&job)];
    let (first, last) = (first.ok()?.gpu, last.ok()?.gpu);
    let room = |case: &Case| match case.hbm {
        Budget::Hardware => scenario.hardware.tiers[HBM.index()].capacity.limit(),
        Budget::Bytes(bytes) => Some(bytes),
        Budget::ShareOfPeak(_) => None,
    };
    let is_between = |room: Bytes| (first..last).contains(&room.get().into());
    let all_hbm = scenario.cases.iter().filter(|case| case.policy.name() == "all-hbm");
    let found: Vec<&Case> = all_hbm.filter(|case| room(case).is_some_and(is_between)).collect();
    let gib = |bytes: u128| bytes as f64 / f64::from(1 << 30);
    let told = |case: &&Case| format!("{:?}: {:.1} GiB", case.label, gib(last));
    let reason = format!(
        "the trace is of the first stage, which needs {:.1} GiB; the last one has norm, head and loss, \
         and does not fit",
        gib(first)
    );
    let remedy = "lower `micro_batch`, write `loss: fused`, or ask `tiersim memory` what fits";
    let all = (found.first().map(told), found.len());
    warning(["last-stage-needs-more", "workload.mode.parallel.pipeline"], all, reason, remedy)
}

/// `coarse-iterations`: what an op has brought in is there for the next one, which uses it again.
fn coarse_iterations(scenario: &Scenario) -> Option<Warning> {
    let TraceSource::Serving(source) = &scenario.workload.trace else { return None };
    let serving = &source.serving;
    let layers = serving.card.layers;
    let said = match (serving.layer_groups < layers, serving.merge > 1) {
        (false, false) => return None,
        (true, false) => format!("layer_groups: {}", serving.layer_groups),
        (false, true) => format!("merge: {}", serving.merge),
        (true, true) => {
            format!("layer_groups: {}, merge: {}", serving.layer_groups, serving.merge)
        }
    };
    let cases = || scenario.cases.iter().filter(|case| case.policy.has_homes_outside());
    let first = cases().next().map(|case| format!("{:?} with {said}", case.label));
    let reason = format!(
        "an op of several of the {layers} layers, or of several iterations, reads at once what each of \
         them would fetch or read anew, so that what lives outside HBM costs too little or nothing"
    );
    let remedy = format!("write `layer_groups: {layers}` and `merge: 1`");
    let all = (first, cases().count());
    warning(["coarse-iterations", "workload"], all, reason, &remedy)
}

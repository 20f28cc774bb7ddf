//! The shipped recording against what is known about it from elsewhere: the shipped trace, the
//! profiler's shapes of the same run, the module hooks' output sizes, and the rule of thumb.

use crate::files::{folder, shared};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tiersim_input::import::recording::{Imported, import_recording};
use tiersim_input::trace::{Packing, info, read_trace, write_trace};
use tiersim_models::workload::{Mode, ObjectKind, Op, Phase, Trace};

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/gpt2-train-cpu")
}

fn imported() -> &'static Imported {
    static ONCE: OnceLock<Imported> = OnceLock::new();
    ONCE.get_or_init(|| import_recording(&shipped().join("recording")).unwrap())
}

fn trace() -> &'static Trace {
    &imported().trace
}

/// The text of a packed file of the same run.
fn beside(name: &str) -> Option<String> {
    let mut text = String::new();
    let file = fs::File::open(shared(&format!("gpt2-train-cpu/{name}"))?).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    Some(text)
}

fn module(trace: &Trace, op: &Op) -> String {
    op.module.map(|id| trace.modules[id.index()].to_string()).unwrap_or_default()
}

fn is_product(op: &Op) -> bool {
    matches!(op.name.as_str(), "aten.mm.default" | "aten.addmm.default")
}

fn is_attention(op: &Op) -> bool {
    op.name.contains("scaled_dot_product")
}

/// Unpacked where packed: the compressor's version is no part of what the project promises.
fn table(folder: &Path, name: &str) -> String {
    let mut text = String::new();
    match fs::File::open(folder.join(format!("{name}.gz"))) {
        Ok(file) => GzDecoder::new(file).read_to_string(&mut text).unwrap(),
        Err(_) => fs::File::open(folder.join(name)).unwrap().read_to_string(&mut text).unwrap(),
    };
    text
}

#[test]
fn the_shipped_trace_is_what_the_shipped_recording_gives() {
    let folder = folder("again");
    write_trace(trace(), &folder, Packing::Smaller).unwrap();
    for name in ["trace.ron", "objects.csv", "ops.csv", "uses.csv"] {
        assert!(table(&folder, name) == table(&shipped(), name), "{name} differs");
    }
    assert_eq!(&read_trace(&shipped()).unwrap(), trace());
}

#[test]
fn every_dropped_row_is_counted() {
    let c = &imported().counts;
    assert_eq!((c.recorded_ops, c.kept_ops), (6292, 3528));
    let dropped = c.views + c.marks + c.step_counter_ops + c.scalar_reads;
    assert_eq!(c.recorded_ops - c.kept_ops, dropped);
    assert_eq!((c.views, c.marks, c.step_counter_ops, c.scalar_reads), (1570, 600, 592, 2));
    assert_eq!(c.recorded_objects - c.kept_objects, c.step_counters + c.unused_objects);
    assert_eq!((c.made_persistent, c.never_freed), (0, 0));
}

#[test]
fn parameters_gradients_and_adam_have_the_known_sizes() {
    let info = info(trace());
    let bytes = |kind: &str| info.kinds.iter().find(|sum| sum.kind == kind).unwrap().bytes;
    let parameters = 124_439_808 * 4;
    assert_eq!(bytes("weight"), parameters);
    assert_eq!(bytes("gradient"), 2 * parameters);
    assert_eq!(bytes("optimizer"), 2 * parameters);
    // An unforeseen way to count the same peak: the recorder's birth and death columns.
    assert_eq!(info.peak.bytes, recorded_peak());
}

/// Peak of the kept objects, from the raw table.
fn recorded_peak() -> u64 {
    let text = table(&shipped().join("recording"), "objects.csv");
    let mut change = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[3].ends_with(".step") {
            continue;
        }
        let bytes: i64 = fields[1].parse().unwrap();
        let lasting = fields[8].is_empty();
        let birth: u64 = if lasting { 0 } else { fields[6].parse().unwrap() };
        *change.entry(birth).or_insert(0) += bytes;
        if !lasting {
            *change.entry(fields[8].parse().unwrap()).or_insert(0) -= bytes;
        }
    }
    let mut alive = 0;
    let each = change.into_values().map(|bytes| {
        alive += bytes;
        alive
    });
    each.max().unwrap() as u64
}

#[test]
fn weights_carry_the_statistics_of_the_last_plain_step() {
    let trace = trace();
    let weights: Vec<_> = trace.objects.iter().filter(|o| o.kind == ObjectKind::Weight).collect();
    assert_eq!(weights.len(), 148);
    assert!(weights.iter().all(|w| w.statistics.adam_m.is_some() && w.persistent));
    let text = table(&shipped().join("recording"), "adam_state.csv");
    let line = text.lines().find(|line| line.starts_with("39,transformer.wpe.weight,")).unwrap();
    let fields: Vec<&str> = line.split(',').collect();
    let wpe = weights.iter().find(|w| w.name == "transformer.wpe.weight").unwrap();
    assert_eq!(wpe.statistics.adam_m, fields[4].parse().ok());
    assert_eq!(wpe.statistics.adam_v, fields[6].parse().ok());
}

/// Rows of the recorded means by step and parameter: mean |m|, mean v, mean sqrt(v), elements.
fn means() -> BTreeMap<(u32, String), [f64; 4]> {
    let text = table(&shipped().join("recording"), "adam_state.csv");
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<f64>().unwrap();
        let key = (fields[0].parse().unwrap(), fields[1].to_owned());
        (key, [number(4), number(5), number(6), number(3)])
    });
    rows.collect()
}

/// After Adam's first step m = 0.1 g and v = 0.001 g^2, so the means of |m| and of sqrt(v) have the
/// ratio of 0.1 to the root of 0.001: the decays that the recording's words name are those that ran.
/// And the root of the mean of squares is no less than the mean.
#[test]
fn gradient_norms_follow_from_the_recorded_moments() {
    let (trace, means) = (trace(), means());
    let (mut seen, mut vague) = (0, 0u32);
    for weight in trace.objects.iter().filter(|object| object.kind == ObjectKind::Weight) {
        let history = weight.history.as_deref().unwrap();
        assert_eq!(history.len(), 40);
        let of = |step: u32| means[&(step, weight.name.to_string())];
        let [m, _, root, elements] = of(0);
        assert!((m / root / (0.1 / 0.001f64.sqrt()) - 1.0).abs() < 1e-5, "{}", weight.name);
        let norm = |step: usize| history[step].grad_norm.unwrap();
        let mean = m / 0.1;
        assert!(norm(0) >= elements.sqrt() * mean * (1.0 - 1e-5), "{}", weight.name);
        for step in 1..40u32 {
            let ([_, now, ..], [_, before, ..]) = (of(step), of(step - 1));
            let square = elements * (now - 0.999 * before) / 0.001;
            let ratio = norm(step as usize) / square.sqrt();
            assert!((ratio - 1.0).abs() < 1e-5, "{} in step {step}", weight.name);
            // What seven digits of two means leave open of the norm.
            let open = |mean: f64| 0.5 * 10f64.powf(mean.log10().floor() - 6.0);
            let error = (open(now) + open(before)) / (now - 0.999 * before) / 2.0;
            assert!(error < 0.053, "{} in step {step}: {error}", weight.name);
            vague += u32::from(error > 0.01);
            seen += 1;
        }
        assert_eq!(history[39], weight.statistics);
    }
    assert_eq!((seen, vague), (148 * 39, 80), "norms, and those that are not known within 1 %");
    assert!(trace.meta.about.ends_with("Gradient norms are derived from Adam's second moment."));
}

#[test]
fn a_module_s_last_forward_op_writes_the_output_that_the_hooks_saw() {
    let Some(text) = beside("module_access.csv.gz") else { return };
    let trace = trace();
    let mut last: BTreeMap<String, &Op> = BTreeMap::new();
    for op in trace.ops.iter().filter(|op| op.phase == Phase::Forward && op.step == 40) {
        last.insert(module(trace, op), op);
    }
    let mut compared = 0;
    for line in text.lines().filter(|line| line.starts_with("39,")) {
        let fields: Vec<&str> = line.split(',').collect();
        // step, seq, phase, module, start, duration, cpu, param_bytes, in_bytes, out_bytes
        if fields[2] != "fwd" || fields[7] == "0" {
            continue;
        }
        let op = last.get(fields[3]).unwrap_or_else(|| panic!("no op of module {}", fields[3]));
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let written = uses.iter().filter(|u| u.mode == Mode::Write);
        // A layer norm also writes means and deviations, which are not its output.
        let output = written.map(|u| trace.objects[u.object.index()].bytes.get()).max();
        assert_eq!(output, fields[9].parse().ok(), "{}", fields[3]);
        compared += 1;
    }
    assert_eq!(compared, 76, "75 modules with parameters and the tied output layer");
}

#[test]
fn flops_of_products_and_attention_equal_the_profiler_s_shapes() {
    let Some(text) = beside("kineto.pt.trace.json.gz") else { return };
    let kineto: Value = serde_json::from_str(&text).unwrap();
    // Two steps were profiled, 42 and 43; the recorded ones are 40 and 41.
    let (mut products, mut attention, steps) = (0u64, 0u64, 2);
    for event in kineto["traceEvents"].as_array().unwrap() {
        let name = event["name"].as_str().unwrap_or_default();
        let dims: Vec<Vec<u64>> =
            serde_json::from_value(event["args"]["Input Dims"].clone()).unwrap_or_default();
        let forward = "aten::_scaled_dot_product_flash_attention_for_cpu";
        match name {
            "aten::mm" => products += 2 * dims[0][0] * dims[0][1] * dims[1][1],
            "aten::addmm" => {
                products += (2 * dims[1][1] + 1) * dims[1][0] * dims[2][1];
            }
            _ if name == forward => {
                attention += 4 * dims[0].iter().product::<u64>() * dims[1][2];
            }
            _ if name.strip_suffix("_backward") == Some(forward) => {
                attention += 10 * dims[1].iter().product::<u64>() * dims[2][2];
            }
            _ => {}
        }
    }
    for step in [40, 41] {
        let sum = |which: fn(&Op) -> bool| {
            let ops = trace().ops.iter().filter(|op| op.step == step && which(op));
            ops.map(|op| op.flops).sum::<u64>()
        };
        assert_eq!(sum(is_product), products / steps);
        assert_eq!(sum(is_attention), attention / steps);
    }
}

#[test]
fn flops_are_near_six_per_parameter_and_token() {
    // 6 N T counts the products with weights; here come attention (4 %), the rest per element
    // (0.7 %), and N still counts the positions' table, which is looked up (-0.6 %).
    let expected = 6.0 * 124_439_808.0 * 512.0;
    for step in info(trace()).steps {
        let ratio = step.all.flops as f64 / expected;
        assert!((1.0..1.08).contains(&ratio), "step {}: {ratio}", step.step);
    }
}

#[test]
fn only_products_and_attention_matter_among_the_flops() {
    let flops = |which: fn(&Op) -> bool| {
        trace().ops.iter().filter(|op| which(op)).map(|op| op.flops as f64).sum::<f64>()
    };
    let small = 1.0 - (flops(is_product) + flops(is_attention)) / flops(|_| true);
    assert!(small < 0.01, "{small}");
}

#[test]
fn backward_ops_belong_to_the_module_they_differentiate() {
    let trace = trace();
    let layer = |name: &str| format!("transformer.h.3.{name}");
    let of = |name: &str| -> Vec<String> {
        let ops = trace.ops.iter().filter(|op| op.phase == Phase::Backward && op.step == 40);
        let ops = ops.filter(|op| module(trace, op) == name);
        ops.map(|op| op.name.split('.').nth(1).unwrap().to_owned()).collect()
    };
    // Two products with the tied weight, which itself belongs to the embedding.
    assert_eq!(of("lm_head"), ["mm", "mm"]);
    assert_eq!(of("transformer.wte"), ["embedding_dense_backward", "add"]);
    assert_eq!(of("transformer.wpe"), ["embedding_dense_backward"]);
    assert_eq!(of(&layer("mlp.c_fc")), ["mm", "mm", "sum"]);
    assert_eq!(of(&layer("attn.c_attn")), ["mm", "mm", "sum"]);
    let attention = "_scaled_dot_product_flash_attention_for_cpu_backward";
    assert_eq!(of(&layer("attn")), [attention, "cat"]);
    assert_eq!(of(&layer("mlp.act")).len(), 11);
    // Only the loss has no module.
    let none = of("");
    assert_eq!(none, ["ones_like", "nll_loss_backward", "_log_softmax_backward_data"]);
}

#[test]
fn optimizer_ops_belong_to_the_owner_of_what_they_update() {
    let trace = trace();
    for op in trace.ops.iter().filter(|op| op.phase == Phase::Optimizer) {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let owned = uses.iter().map(|u| &trace.objects[u.object.index()]);
        for object in owned.filter(|object| object.kind != ObjectKind::Buffer) {
            assert_eq!(object.module, op.module, "{} in {}", object.name, op.name);
        }
        assert!(op.module.is_some());
    }
}

#[test]
fn a_lookup_reads_the_rows_that_it_gathers() {
    let op = trace().ops.iter().find(|op| op.name == "aten.embedding.default").unwrap();
    let (tokens, width) = (512, 768);
    assert_eq!(op.bytes.get(), 2 * tokens * width * 4 + tokens * 8);
}

/// Prefill and decode of the same model: no `run.json`, no `params.csv`, keys and values labelled.
#[test]
fn the_recording_of_inference_makes_the_shipped_trace() {
    let Some(folder) = shared("gpt2-infer-cpu") else { return };
    let made = import_recording(&folder).unwrap().trace;
    assert_eq!((made.meta.batch, made.meta.sequence, made.meta.precision.as_str()), (4, 1, "fp32"));
    let ours = read_trace(&shipped().join("../gpt2-infer-cpu")).unwrap();
    assert_eq!(made.objects, ours.objects);
    assert_eq!(made.ops, ours.ops);
    assert_eq!((made.uses, made.modules), (ours.uses, ours.modules));
}

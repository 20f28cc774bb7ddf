//! Each rule of the lint that looks for slips: one file that trips it, and one beside it that does
//! not.

use crate::common::trace_text::TraceText;
use crate::common::{CASE, Project, shipped};
use std::fs;

const MACHINE: &str = "hardware-specs/small.ron";
const HBM: &str = "bandwidth: (gb_per_s(1000), assumed(\"test\"))";

/// The machine with a device.
fn with_device(memory: &str, launch: &str, flops: &str) -> Project {
    let project = Project::new();
    let compute = format!(
        "compute: (name: \"d\", flops: [{flops}], memory: ({memory}, assumed(\"test\")), \
         launch: ({launch}, assumed(\"test\"))),\n)\n"
    );
    let text = project.text(MACHINE);
    project.write(MACHINE, text.trim_end().trim_end_matches(')').to_owned() + &compute);
    project
}

fn flops(precision: &str, rate: &str) -> String {
    format!("(precision: \"{precision}\", rate: ({rate}, assumed(\"test\")))")
}

fn edited(file: &str, edits: &[(&str, &str)]) -> Project {
    let project = Project::new();
    edits.iter().for_each(|(from, to)| project.edit(file, from, to));
    project
}

fn traced(table: &str, from: &str, to: &str) -> Project {
    let project = Project::new();
    TraceText::tiny().edited(table, from, to).write(&project.path("traces/tiny"));
    project
}

/// `check` warns of the rule in one project and not in the other, and so does `run`, which denies
/// it.
#[track_caller]
fn tells(rule: &str, wrong: &Project, right: &Project) {
    let line = format!("{rule}: ");
    let ran = wrong.run(&["check", CASE]).ends_with(0);
    assert!(ran.stderr.contains(&line), "{rule} is not tripped: {}", ran.stderr);
    let ran = right.run(&["check", CASE]).ends_with(0);
    assert!(!ran.stderr.contains(&line), "{rule} is tripped: {}", ran.stderr);
    let expect = "expect=[]";
    let run = ["run", CASE, "--out", "o", "--deny", "warnings", "--set", expect];
    wrong.run(&run).ends_with(2).says(&[&line]);
    assert!(wrong.files("o").is_empty(), "denied before anything runs");
    assert!(!right.run(&run).stderr.contains(&line));
}

#[test]
fn rates_of_one_memory_are_of_one_size() {
    let bf16 = flops("bf16", "tflops(100)");
    let at = |memory| with_device(memory, "us(2)", &bf16);
    tells("memory-rates-differ", &at("tb_per_s(1000)"), &at("gb_per_s(900)"));
    tells("memory-rates-differ", &at("gb_per_s(1)"), &at("gb_per_s(125)"));
}

#[test]
fn a_launch_is_no_second_and_a_rate_is_one_of_a_device() {
    let bf16 = flops("bf16", "tflops(100)");
    let launch = |launch| with_device("gb_per_s(1000)", launch, &bf16);
    tells("long-launch", &launch("s(2)"), &launch("ms(1)"));
    let rate = |of: &str, rate| with_device("gb_per_s(1000)", "us(2)", &flops(of, rate));
    let right = rate("bf16", "tflops(794)");
    tells("beyond-known-devices", &rate("bf16", "tflops(794000)"), &right);
    tells("beyond-known-devices", &rate("bf16", "gflops(0.794)"), &right);
    tells("unknown-precision", &rate("bf61", "tflops(794)"), &right);
}

#[test]
fn memory_is_no_larger_and_no_faster_than_any_known() {
    let plain = Project::new();
    let fast = (HBM, "bandwidth: (tb_per_s(1000), assumed(\"test\"))");
    tells("beyond-known-devices", &edited(MACHINE, &[fast]), &plain);
    let large = ("capacity: (mib(64), ", "capacity: (tib(64), ");
    tells("beyond-known-devices", &edited(MACHINE, &[large]), &plain);
}

#[test]
fn a_link_is_not_far_faster_than_what_lies_behind_it() {
    let link = |rate: &str| {
        let number = format!("({rate}, assumed(\"test\"))");
        let links = format!(
            "links: [(name: \"bus\", near: \"hbm\", far: \"dram\", setup: (us(1), assumed(\"test\")), \
             read: {number}, write: {number}), (name: \"drive\", near: \"dram\", far: \"nvme\", \
             setup: (us(1), assumed(\"test\")), read: (gb_per_s(5), assumed(\"test\")), \
             write: (gb_per_s(5), assumed(\"test\")))],\n)\n"
        );
        let project = Project::new();
        let text = project.text(MACHINE);
        project.write(MACHINE, text.trim_end().trim_end_matches(')').to_owned() + &links);
        project
    };
    tells("link-outruns-tier", &link("tb_per_s(50)"), &link("gb_per_s(100)"));
}

#[test]
fn something_has_a_setup() {
    let none = [("setup: (us(1), ", "setup: (us(0), "), ("setup: (us(50), ", "setup: (us(0), ")];
    let wrong = edited(MACHINE, &none);
    tells("no-setup", &wrong, &edited(MACHINE, &none[..1]));
}

#[test]
fn lists_of_tiers_go_from_near_to_far() {
    let spill = |list: &str| edited(CASE, &[("spill: [\"dram\"]", list)]);
    let (wrong, right) = ("spill: [\"nvme\", \"dram\"]", "spill: [\"dram\", \"nvme\"]");
    tells("slower-tier-first", &spill(wrong), &spill(right));
    let tiers =
        |list: &str| edited(CASE, &[("cpu: 0.4), ", &format!("cpu: 0.4), tiers: {list}, "))]);
    let (wrong, right) = ("[\"nvme\", \"dram\", \"hbm\"]", "[\"hbm\", \"dram\", \"nvme\"]");
    tells("slower-tier-first", &tiers(wrong), &tiers(right));
}

#[test]
fn a_part_of_a_cut_holds_something() {
    let cut = |cut: &str| edited(CASE, &[("shares(hbm: 0.3, cpu: 0.4)", cut)]);
    let empty = cut("cumulative(hbm: 0.5, cpu: 0.3)");
    tells("empty-part", &empty, &cut("cumulative(hbm: 0.3, cpu: 0.5)"));
    tells("empty-part", &empty, &cut("cumulative(hbm: 1.0, cpu: 1.0)"));
}

#[test]
fn percentages_are_what_objects_come_to() {
    let percent = |numbers: &str| {
        let policy = format!("Percentages({numbers})");
        edited(CASE, &[("Lru(spill: [\"dram\"])", &policy)])
    };
    let chunks = percent("act_cpu: 20");
    chunks.edit(CASE, "hbm: share_of_peak(0.75)", "hbm: share_of_peak(0.75), chunk: kib(4)");
    // Weights are whole tensors in FlexGen too.
    tells("share-missed", &percent("act_cpu: 20"), &percent("weights_cpu: 20"));
    tells("share-missed", &percent("act_cpu: 20"), &chunks);
}

#[test]
fn budgets_are_shares_and_names_differ() {
    let budget = |share: &str| edited(CASE, &[("share_of_peak(0.75)", share)]);
    let wide = ("capacity: (mib(64), ", "capacity: (gib(64), ");
    let (wrong, right) = (budget("share_of_peak(75)"), budget("share_of_peak(4)"));
    wrong.edit(MACHINE, wide.0, wide.1);
    right.edit(MACHINE, wide.0, wide.1);
    tells("budget-far-above-need", &wrong, &right);
    let named = |name: &str| {
        let fits = ("expect: [fits(\"all\"), faster(case: \"all\", than: \"lru\")]", "expect: []");
        edited(CASE, &[("name: \"lru\"", &format!("name: \"{name}\"")), fits])
    };
    tells("names-alike", &named("A ll"), &named("all of it"));
}

#[test]
fn policies_have_something_to_place() {
    let project = Project::new();
    let text = TraceText::tiny();
    let header = |table: &str| format!("{}\n", table.lines().next().unwrap());
    let bare = TraceText::of(&header(&text.objects), &text.ops, &header(&text.uses));
    bare.write(&project.path("traces/tiny"));
    tells("nothing-to-place", &project, &Project::new());
}

#[test]
fn recorded_times_follow_each_other() {
    let right = Project::new();
    tells("recorded-times-overlap", &traced("ops", ",400000,\n", ",399999,\n"), &right);
    tells("recorded-times-overlap", &traced("ops", ",900000,\n", ",1,\n"), &right);
}

#[test]
fn recorded_times_are_like_a_roofline() {
    let bf16 = flops("bf16", "tflops(100)");
    let at = |unit: &str| {
        let project = with_device("gb_per_s(1000)", "us(2)", &bf16);
        let mut text = TraceText::tiny();
        for span in ["100000", "200000", "50000"] {
            text.ops = text.ops.replace(&format!(",0,0,{span},"), &format!(",0,0,{unit},"));
        }
        // Starts say nothing of a unit that was mistaken.
        text.ops = text.ops.replace(",at_ns,", ",left,");
        let rows = text.ops.lines().map(|line| line.to_owned()).collect::<Vec<_>>();
        text.ops = rows.iter().map(|row| without(row, 10) + "\n").collect();
        text.write(&project.path("traces/tiny"));
        project
    };
    tells("durations-unlike-roofline", &at("0"), &at("100000"));
    tells("durations-unlike-roofline", &at("1000000000000"), &at("1000000"));
}

/// A row without one of its fields.
fn without(row: &str, field: usize) -> String {
    let fields = row.split(',').enumerate().filter(|(index, _)| *index != field);
    fields.map(|(_, field)| field).collect::<Vec<_>>().join(",")
}

#[test]
fn what_an_op_moves_is_what_it_touches() {
    let right = Project::new();
    let wrong = traced("ops", ",1000000,5242880,", ",1000000,52428800000000,");
    tells("bytes-unlike-uses", &wrong, &right);
    tells(
        "unknown-dtype",
        &traced(
            "objects",
            "5,c.moments,optimizer,8388608,float32",
            "5,c.moments,optimizer,8388608,flaot32",
        ),
        &right,
    );
    let early = traced("ops", "0,0,forward,mm,a,", "0,0,backward,mm,b,");
    tells("backward-before-forward", &early, &right);
}

#[test]
fn two_seeds_are_refused() {
    let project = Project::new();
    let both = ["run", CASE, "--seed", "2", "--set", "seed=3"];
    project.run(&both).ends_with(2).says(&["--seed 2", "--set seed=3", "leave one"]);
    project.run(&["run", CASE, "--seed", "2", "--out", "o"]).ends_with(0);
}

#[test]
fn a_sweep_over_what_changes_nothing_is_told() {
    let sweep = |path: &str, values: &str, jitter: &str| {
        let project = Project::new();
        let axis = format!("(name: \"a\", path: \"{path}\", values: choices([{values}]))");
        project.sweep(&axis);
        project.edit_scenario("warmup: 1)", &format!("warmup: 1{jitter})"));
        project
    };
    let seeds = "(\"one\", \"1\"), (\"two\", \"2\")";
    let texts = "(\"one\", \"\\\"x\\\"\"), (\"two\", \"\\\"y\\\"\")";
    let rule = "axis-without-effect: sweep.axes.a";
    for command in ["check", "sweep"] {
        let told = |project: Project| {
            let out = ["--out", "o"];
            let out = if command == "check" { &out[..0] } else { &out[..] };
            project.run(&[&[command, CASE], out].concat()).ends_with(0).stderr.contains(rule)
        };
        assert!(told(sweep("seed", seeds, "")), "{command}: nothing is drawn");
        assert!(told(sweep("about", texts, "")), "{command}");
        assert!(!told(sweep("seed", seeds, ", jitter: 0.1")), "{command}: ops are drawn");
    }
}

#[test]
fn check_says_what_a_run_and_a_sweep_would_refuse() {
    let hidden = "hidden: [(tier: \"hbm\", what: context, bytes: mib(64))],\n    policies:";
    let full = edited(CASE, &[("policies:", &hidden.replace("64", "65"))]);
    let same = full.run(&["run", CASE]).ends_with(2).stderr;
    let said = full.run(&["check", CASE]).ends_with(2).stderr;
    assert!(said.contains("hidden memory takes 65.0 MiB of hbm"), "{said}");
    assert!(same.contains("hidden memory takes 65.0 MiB of hbm"), "{same}");

    let axes = "sweep: (axes: [(name: \"a\", path: \"policies.2.hbm\", \
                values: choices([(\"one\", \"mib(8)\"), (\"two\", \"mib(8, 9)\")]))]),\n    seed: 1,";
    let bad = edited(CASE, &[("seed: 1,", axes)]);
    bad.run(&["sweep", CASE]).ends_with(2).says(&["`mib` takes one value"]);
    bad.run(&["check", CASE]).ends_with(2).says(&["`mib` takes one value"]);
}

#[test]
fn what_a_mode_does_not_heed_is_said() {
    let with = |formats: &str, mode: &str| {
        let project = Project::new();
        let text = format!(
            "Scenario(schema: 2, about: \"said\", hardware: \"h100-sxm-pcie5\", workload: Model(model: \
             \"gpt2\", precision: bf16, formats: ({formats}), mode: {mode}, \
             time: roofline(precision: \"bf16\")), policies: [(name: \"all\", policy: AllHbm)])"
        );
        project.write(CASE, text);
        project
    };
    let rule = "setting-without-effect";
    let (train, generate) =
        ("train(batch: 1, sequence: 8)", "generate(batch: 1, prompt: 4, tokens: 2)");
    tells(rule, &with("kv: fp8", train), &with("kv: fp8", generate));
    tells(rule, &with("gradients: fp32", generate), &with("gradients: fp32", train));
    let routed = "train(batch: 1, sequence: 8, router: (seed: 2))";
    tells(rule, &with("", routed), &with("", train));
    let kept = |attention: &str| {
        format!("train(batch: 1, sequence: 8, checkpointing: selective, attention: {attention})")
    };
    tells(rule, &with("", &kept("flash")), &with("", &kept("eager")));
}

#[test]
fn eager_kernels_are_launched_by_somebody() {
    let with = |kernels: &str, runtime: &str| {
        let project = Project::new();
        let text = format!(
            "Scenario(schema: 2, about: \"eager\", hardware: \"h100-sxm-pcie5\", workload: Model(model: \
             \"gpt2\", precision: bf16, mode: generate(batch: 1, prompt: 4, tokens: 2, \
             kernels: {kernels}), time: op_times(precision: \"bf16\")), {runtime} \
             policies: [(name: \"all\", policy: AllHbm)])"
        );
        project.write(CASE, text);
        project
    };
    let rule = "eager-without-host-time";
    let runtime = "runtime: (per_op: us(25), ahead: true, source: \"here\"),";
    tells(rule, &with("eager", ""), &with("eager", runtime));
    tells(rule, &with("eager", ""), &with("compiled", ""));
    tells(rule, &with("eager", ""), &with("fused", ""));
}

#[test]
fn tokens_of_a_replay_choose_most_experts() {
    let experts = |tokens: u32, repeat: u32| {
        let project = Project::new();
        let text = format!(
            "Scenario(schema: 2, about: \"experts\", hardware: \"h100-sxm-pcie5\", workload: Model(\
             card: (family: mixtral, layers: 2, hidden: 64, ffn: 64, heads: 2, kv_heads: 1, vocab: 99, \
             experts: (count: 64, active: 2)), mode: generate(batch: 1, prompt: 4, tokens: {tokens}, \
             prefill: false), precision: bf16, repeat: {repeat}, warmup: {}, \
             time: roofline(device: \"h100-sxm-pcie5\", precision: \"bf16\")), \
             policies: [(name: \"all\", policy: AllHbm)])",
            repeat - 1
        );
        project.write(CASE, text);
        project
    };
    tells("idle-experts", &experts(2, 2), &experts(400, 2));
    tells("idle-experts", &experts(20, 2), &experts(2, 1));
}

#[test]
fn processors_reach_an_expander_no_quicker_than_it_is() {
    let with = |tier: &str| {
        let project = Project::new();
        let text = fs::read_to_string(shipped("hardware-specs/cxl2-x16-direct.ron")).unwrap();
        let parts = "    parts: [(file: \"parts/cpu-two-sockets-ddr5\")],\n    tiers: [";
        project.write("hardware-specs/host.ron", text.replacen("    tiers: [", parts, 1));
        let text = format!(
            "Scenario(schema: 2, about: \"host\", hardware: \"{tier}\", workload: Model(model: \"gpt2\", \
             precision: bf16, mode: train(batch: 1, sequence: 64, zero: (stage: 1, host_update: 1.0)), \
             time: roofline(precision: \"bf16\")), policies: [(name: \"all\", policy: AllHbm)])"
        );
        project.write(CASE, text);
        project
    };
    tells("cxl-at-the-rate-of-dram", &with("host"), &with("dgx-h100"));
}

/// Seven blocks of Qwen 2.5 7B with their head need 56.7 GiB, and those in front 48.0.
#[test]
fn the_stage_with_the_head_fits_as_well() {
    let with = |gib: u32| {
        let project = Project::new();
        let text = format!(
            "Scenario(schema: 2, about: \"stages\", hardware: \"dgx-h100\", workload: Model(model: \
             \"qwen2.5-7b\", precision: bf16, mode: train(batch: 16, micro_batch: 4, sequence: 8192, \
             checkpointing: full, parallel: (pipeline: 4)), time: roofline(precision: \"bf16\")), \
             policies: [(name: \"all\", policy: AllHbm, hbm: gib({gib}))])"
        );
        project.write(CASE, text);
        project
    };
    tells("last-stage-needs-more", &with(52), &with(60));
}

//! What a scenario's values mean, what is left out, what is overridden, and what is the same.

use crate::specs::project::{GOOD, HINTS, Project, assert_says, edited};
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_input::scenario::read::read_scenario;
use tiersim_models::hardware::{HBM, Source, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::op_times::AttentionKernel;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::ObjectKind;
use tiersim_policies::access::{Access, Charge};
use tiersim_policies::scenario::expectation::{Expectation, Figure, Metric};
use tiersim_policies::scenario::{Budget, OpTime};
use tiersim_policies::zoo::adam_state::rescore::RescoredConfig;
use tiersim_policies::zoo::adam_state::{AdamStateConfig, Count, Cut};
use tiersim_policies::zoo::all_hbm::AllHbm;
use tiersim_policies::zoo::demand::DemandConfig;
use tiersim_policies::zoo::hints::HintsConfig;

#[test]
fn a_good_scenario_means_what_it_says() {
    let scenario = Project::new().read(GOOD).unwrap();
    assert_eq!(scenario.name, "case");
    assert_eq!(scenario.hardware.tiers[0].capacity, Bytes::gib(2).into());
    assert_eq!((scenario.workload.repeat, scenario.workload.warmup), (3, 1));
    let OpTime::Priced { compute, precision } = &scenario.workload.time else { panic!() };
    assert_eq!((compute.name.as_str(), precision.as_str()), ("H100 SXM 80 GB", "tf32"));
    let [all, adam, hints, lru, lru_bytes] = &scenario.cases[..] else { panic!() };
    assert_eq!((&all.policy, all.hbm), (&AllHbm.into(), Budget::Hardware));
    let adam: &AdamStateConfig = adam.policy.get().unwrap();
    assert_eq!(adam.cut, Cut::Shares { hbm: 0.3, cpu: 0.5 });
    assert_eq!(adam.by, Count::Modules);
    assert_eq!(adam.tiers, [TierId(0), TierId(1), TierId(2)]);
    assert_eq!(adam.access, Access::InPlace(Charge::ModuleOutput));
    let hints: &HintsConfig = hints.policy.get().unwrap();
    assert_eq!(hints.hints["h.1.mlp"], TierKind::Nvme);
    assert_eq!(hints.kinds, [ObjectKind::Weight]);
    assert_eq!(lru.hbm, Budget::ShareOfPeak(0.25));
    assert_eq!(lru_bytes.hbm, Budget::Bytes(Bytes::gib(1)));
    let spill: &DemandConfig = lru_bytes.policy.get().unwrap();
    assert_eq!(spill.spill, [TierId(1), TierId(2)]);
    assert_eq!(scenario.expect.len(), 7);
    assert_eq!(
        scenario.expect[2],
        Expectation::Within {
            metric: Metric::StepTime,
            case: 1,
            at_least: None,
            at_most: Some(Figure::Time(Span::from_ps(30_000_000_000)))
        }
    );
    let Expectation::Within { metric: Metric::Moved(channel), .. } = scenario.expect[5] else {
        panic!()
    };
    assert_eq!(scenario.hardware.channel_name(channel), "dram->hbm");
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let text = r#"Scenario(schema: 2, about: "x", hardware: "seed-tiers",
        workload: Trace(path: "traces/small", time: recorded()),
        policies: [(name: "a", policy: AdamState(cut: cumulative(hbm: 0.9, cpu: 0.2))),
                   (name: "l", policy: Lru())])"#;
    let scenario = Project::new().read(text).unwrap();
    let work = &scenario.workload;
    assert_eq!((work.repeat, work.warmup, work.jitter, scenario.seed), (3, 1, 0.0, 1));
    assert_eq!(work.time, OpTime::Recorded { scale: 1.0 });
    let adam: &AdamStateConfig = scenario.cases[0].policy.get().unwrap();
    assert_eq!(adam.tiers, [HBM, TierId(1), TierId(2)]);
    assert_eq!(adam.access, Access::Migrate { prefetch_ops: 0 });
    assert_eq!(adam.kinds.len(), 4);
    let lru: &DemandConfig = scenario.cases[1].policy.get().unwrap();
    // dram, cxl, nvme: by kind, not by position in the file.
    assert_eq!(lru.spill, [TierId(1), TierId(3), TierId(2)]);
    // A framework that was given no drive uses none.
    for policy in ["LayerHooks", "UnifiedMemory", "CorrelationPrefetch", "ActivationOffload"] {
        let text = text.replace("Lru()", &format!("{policy}()"));
        let scenario = Project::new().read(&text).unwrap();
        let spill = scenario.cases[1].policy.spill().expect("it moves objects");
        assert_eq!(spill, [TierId(1), TierId(3)], "{policy}");
    }
}

#[test]
fn training_attends_by_cudnn_unless_it_is_told_otherwise() {
    let of = |machine: &str, mode: &str, attention: &str| {
        let text = format!(
            r#"Scenario(schema: 2, about: "x", hardware: "{machine}", workload: Model(
                card: (family: llama, layers: 2, hidden: 64, ffn: 96, heads: 4, kv_heads: 2, vocab: 100),
                precision: bf16, mode: {mode}, time: op_times(precision: "bf16"{attention})),
                policies: [(name: "a", policy: AllHbm)])"#
        );
        Project::new().read(&text)
    };
    let read = |machine: &str, mode: &str, attention: &str| {
        let scenario = of(machine, mode, attention).unwrap();
        let OpTime::Priced { compute, .. } = &scenario.workload.time else { panic!() };
        (compute.attention, fingerprint(&scenario, "a trace"))
    };
    let train = "train(batch: 2, sequence: 16)";
    let generate = "generate(batch: 2, prompt: 16, tokens: 2)";
    let (usual, print) = read("h100-sxm-pcie5", train, "");
    assert_eq!(usual, Some(AttentionKernel::Cudnn));
    assert_eq!(read("h100-sxm-pcie5", generate, "").0, None);
    assert_eq!(read("a100-80g-pcie4", train, "").0, None, "it has one kind of attention");
    for (word, kernel) in AttentionKernel::WORDS.iter().zip(AttentionKernel::ALL) {
        let told = format!(", attention: {word}");
        for mode in [train, generate] {
            assert_eq!(read("h100-sxm-pcie5", mode, &told).0, Some(kernel));
        }
        let same = read("h100-sxm-pcie5", train, &told).1 == print;
        assert_eq!(same, kernel == AttentionKernel::Cudnn, "another kernel is another question");
    }
    let flash = ", attention: flash_attention_2";
    assert_eq!(read("a100-80g-pcie4", train, flash).0, Some(AttentionKernel::FlashAttention2));
    let problems = of("a100-80g-pcie4", train, ", attention: cudnn").unwrap_err();
    assert_says(&problems, &["have no numbers for cudnn", "write flash_attention_2"]);
}

#[test]
fn default_tiers_need_their_kinds() {
    let project = Project::new();
    project.write(
        "hardware-specs/one.ron",
        r#"Hardware(schema: 2, about: "one tier", tiers: [(name: "hbm", kind: hbm,
            setup: (us(1), assumed("t")), bandwidth: (gb_per_s(1), assumed("t")))])"#,
    );
    let text = r#"Scenario(schema: 2, about: "x", hardware: "one",
        workload: Trace(path: "traces/small", time: recorded()),
        policies: [(name: "a", policy: AdamState(cut: shares(hbm: 0.5, cpu: 0.2))),
                   (name: "l", policy: Lru()),
                   (name: "h", policy: Hints(file: "hints.json"))])"#;
    let problems = project.read(text).unwrap_err();
    assert_says(&problems, &["no tiers of kind dram and nvme", "only one tier"]);
    assert_says(
        &problems,
        &["hints.json:1:27: module `h.0.mlp` goes to a tier that the machine lacks"],
    );
}

#[test]
fn large_and_deep_hint_files_are_refused() {
    let says = |text: &str, expected: &str| {
        let project = Project::new();
        project.write("scenarios/hints.json", text);
        assert_says(&project.read(GOOD).unwrap_err(), &[expected]);
    };
    says(&" ".repeat(2 << 20), "at most 1048576 bytes");
    says(&"{\"a\":".repeat(100_000), "not a JSON object of words");
    let all: String = (0..30_000).map(|i| format!("\"m{i}\": \"NO\", ")).collect();
    says(&format!("{{{all}\"z\": \"HBM\"}}"), "unknown tier");
}

#[test]
fn overrides_obey_the_same_rules() {
    let project = Project::new();
    let path = project.scenario(GOOD);
    let set = |at: &str, value: &str| read_scenario(&path, &[(at.into(), value.into())]);
    assert_eq!(set("seed", "7").unwrap().seed, 7);
    // A shell eats quotes; where a string stands, a bare word is one.
    assert_eq!(set("hardware", "h200-sxm-pcie5").unwrap().hardware.name, "h200-sxm-pcie5");
    let adam = |s: tiersim_policies::scenario::Scenario| {
        s.cases[1].policy.get::<AdamStateConfig>().unwrap().cut
    };
    let cut = Cut::Shares { hbm: 0.2, cpu: 0.5 };
    assert_eq!(adam(set("policies.1.policy.cut.hbm", "0.2").unwrap()), cut);
    assert_eq!(adam(set("policies.adam.policy.cut.hbm", "0.2").unwrap()), cut);
    let more = set("capacity.dram", "gib(9)").unwrap();
    assert_eq!(more.hardware.tiers[1].capacity, Bytes::gib(9).into());
    assert_eq!(set("policies.0.hbm", "mib(5)").unwrap().cases[0].hbm, Budget::Bytes(Bytes::mib(5)));
    assert_eq!(
        set("capacity.hbm.0", "3").unwrap().hardware.tiers[0].capacity,
        Bytes::gib(3).into()
    );
    let says = |at: &str, value: &str, expected: &[&str]| {
        assert_says(&set(at, value).unwrap_err(), expected);
    };
    says(
        "policies.1.policy.cut.hbm",
        "0.9",
        &["17:18: the shares", "[--set policies.1.policy.cut.hbm=0.9]"],
    );
    says("policies.1.policy.cut.hmb", "0.9", &["has no field `hmb`", "did you mean `hbm`?"]);
    says("policies.1.policy.cutt.hbm", "0.9", &["has no `cutt`", "did you mean `cut`?"]);
    says("policies.9.policy", "AllHbm", &["has no `9`", "4 other elements"]);
    says("capacity.hbm", "4", &["6:23: a size needs its unit", "[--set capacity.hbm=4]"]);
    says("seed", "1, about: \"\"", &["text after the end of the value", "[--set seed"]);
    says("seed", "/*", &["a comment is never closed"]);
    says("seed", "", &["the file is empty"]);
    // A comment behind the value must not swallow what follows in the file.
    assert_eq!(set("seed", "8 // mine").unwrap().seed, 8);
}

#[test]
fn equal_meaning_has_an_equal_fingerprint() {
    let project = Project::new();
    let print = |text: &str| fingerprint(&project.read(text).unwrap(), "abc");
    let base = print(GOOD);
    assert!(base.starts_with("sha256:") && base.len() == 71);
    assert_eq!(base, print(&format!("/* again */ {GOOD} // end")));
    assert_eq!(base, print(&edited("gib(2)}", "mib(2048)}")));
    assert_eq!(base, print(&edited("\"all features\"", "\"other words\"")));
    assert_eq!(
        base,
        print(&edited(
            "[weight, gradient, optimizer, master]",
            "[master, weight, optimizer, gradient]"
        ))
    );
    let moved = edited("    seed: 1,\n", "").replace("schema: 2,", "seed: 1, schema: 2,");
    assert_eq!(base, print(&moved));
    let defaults = edited("        repeat: 3,\n", "").replace("            by: modules,\n", "");
    assert_eq!(base, print(&defaults));
    for (from, to) in [
        ("seed: 1", "seed: 2"),
        ("hbm: 0.3", "hbm: 0.31"),
        ("gib(2)}", "gib(3)}"),
        ("repeat: 3", "repeat: 4"),
        ("precision: \"tf32\"", "precision: \"bf16\""),
        ("at_most: 3.0", "at_most: 4.0"),
        ("name: \"hints\"", "name: \"hint\""),
    ] {
        assert_ne!(base, print(&edited(from, to)), "{to}");
    }
    assert_ne!(base, fingerprint(&project.read(GOOD).unwrap(), "abd"));
    assert_eq!(HINTS.lines().count(), 1);
}

#[test]
fn an_override_of_a_capacity_counts_as_assumed() {
    let scenario = Project::new().read(GOOD).unwrap();
    let fact =
        scenario.hardware.facts.iter().find(|fact| fact.path == "tiers.hbm.capacity").unwrap();
    assert_eq!(fact.value, "gib(2)");
    assert!(matches!(fact.source, Source::Assumed(_)));
}

#[test]
fn another_devices_facts_come_along() {
    let text = edited("device: \"h100-sxm-pcie5\"", "device: \"a100-80g-pcie4\"");
    let scenario = Project::new().read(&text).unwrap();
    let facts = &scenario.hardware.facts;
    assert!(facts.iter().any(|fact| fact.path == "device.a100-80g-pcie4.compute.flops.tf32"));
}

#[test]
fn ranks_are_followed_every_so_many_steps() {
    let rescored = |rescore: &str| {
        let policy = format!("AdamState(cut: shares(hbm: 0.5, cpu: 0.5), rescore: {rescore})");
        Project::new().read(&edited("Lru(spill: [\"dram\", \"nvme\"])", &policy))
    };
    let scenario = rescored("steps(10)").unwrap_or_else(|problems| panic!("{problems}"));
    let case = scenario.cases.iter().find(|case| case.label == "lru").expect("the case");
    let config: &RescoredConfig = case.policy.get().expect("the policy");
    assert_eq!((config.every, config.rule.by), (10, Count::Modules));
    for (wrong, said) in [
        ("steps(0)", "every 0 steps is never"),
        ("steps(-1)", "whole number"),
        ("10", "steps"),
        ("ops(3)", "steps"),
    ] {
        assert_says(&rescored(wrong).expect_err(wrong), &[said]);
    }
}

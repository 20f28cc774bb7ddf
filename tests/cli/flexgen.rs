//! `from flexgen`: command lines and scripts of FlexGen and its forks become scenarios.

use crate::common::*;
use crate::frameworks::hold;
use serde_json::Value;

fn turned(project: &Project, line: &str, more: &[&str]) -> Ran {
    project.run(&[&["from", "flexgen", line, "--no-run"], more].concat())
}

/// In the ways in which guides and benchmarks write them, with what shows that they were read.
const COMMAND_LINES: [(&str, &[&str], &[&str]); 6] = [
    // github.com/FMInference/FlexiGen, benchmark/flexgen/bench_suite.py, suite_175b_1x1; four tokens.
    (
        "--model facebook/opt-175b --path _DUMMY_ --pin-weight 0 --percent 0 50 0 0 0 100 --gpu-batch-size 32 \
         --num-gpu-batches 8 --cpu --debug fewer_batch --gen-len 4",
        &["--device", "t4-flexgen"],
        &[
            "model: \"opt-175b\"",
            "batch: 32,",
            "batches: 8,",
            "attention_on: host",
            "prompt: 512",
            "tokens: 4",
            "weights_gpu: 0, weights_cpu: 50",
            "cache_gpu: 0, cache_cpu: 0",
            "act_gpu: 0, act_cpu: 100",
            "tiers: [\"near\", \"far\", \"drive\"]",
            "pin-weight: 0 -> ignored: all copies of a case are alike",
            "path: _DUMMY_ -> ignored",
            "debug: fewer_batch -> ignored: FlexGen runs a part",
        ],
    ),
    // The same file, suite_6b7_1x1 and suite_1b3_test.
    (
        "python -m flexgen.flex_opt --model facebook/opt-6.7b --path _DUMMY_ --prompt-len 256 --gen-len 32 \
         --percent 100 0 100 0 100 0 --gpu-batch-size 4 --overlap False",
        &["--device", "t4"],
        &[
            "prompt: 256",
            "prefetch_ops: 0",
            "sep_layer: true",
            "tiers: [\"near\", \"far\", \"far\"]",
        ],
    ),
    (
        "--model facebook/opt-1.3b --gpu-batch-size 16 --percent 50 50 100 0 100 0 --cut-gen-len 8 --compress-weight --pin-weight no",
        &["--device", "t4"],
        &[
            "formats: (weights: int4(group: 32))",
            "runtime: (copies: pageable",
            "cut-gen-len: 8 -> ignored",
            "prefetch_ops: 20",
        ],
    ),
    // A script of experiments on nodes of memory (x-ai, 256 tokens): what starts the program is
    // accounted for.
    (
        "numactl --cpubind 1 --interleave 0,1 python3 x-ai/flexgen/flex_opt.py --model \"facebook/opt-66b\" --prompt-len 2000 \
         --gen-len 4 --num-gpu-batches 10 --gpu-batch-size 4 --cpu-cache-compute --sep-layer False --pin-weight False \
         --percent 0 100 4 96 0 100 --zz 1",
        &["--device", "a100"],
        &[
            "launcher.interleave: 0,1 -> ignored",
            "sep_layer: false",
            "cache_gpu: 4, cache_cpu: 96",
            "zz: 1 -> ignored: unknown key",
        ],
    ),
    // A script whose command grows in a variable.
    (
        "HERE=$PWD/..\n# WHICH=\"meta-llama/Llama-3.2-1B\"\nWHICH=\"meta-llama/Llama-2-13b-hf\"\n\n\
         ALL=\"--model $WHICH\"\nALL=$ALL\" --percent 40 60 50 50 100 0\"\n\
         ALL=$ALL\" --gpu-batch-size 8 --num-gpu-batches 1 --prompt-len 1600 --gen-len 32 --cpu-cache-compute \
         --computation-policy default\"\npython -m flexgen.flex_llama $ALL\n",
        &["--device", "4090"],
        &[
            "line 5: model: meta-llama/Llama-2-13b-hf -> model: \"llama-2-13b\"",
            "weights_gpu: 40, weights_cpu: 60",
            "line 6: percent: 40 60 50 50 100 0",
            "computation-policy: default -> ignored",
        ],
    ),
    // Nothing said is what FlexGen's defaults say.
    (
        "python3 flexgen/flex_opt.py > out.log 2>&1",
        &["--device", "t4", "--model", "gpt2"],
        &["model: \"gpt2\"", "batch: 4,", "weights_gpu: 100, weights_cpu: 0"],
    ),
];

#[test]
fn command_lines_of_flexgen_become_scenarios_that_hold() {
    hold(&COMMAND_LINES, turned);
}

/// FlexGen's own line of the published run is the scenario that ships for it: the same placement,
/// the same bytes over every link, the same time to the last digit.
#[test]
fn the_published_run_is_the_scenario_that_ships() {
    let project = Project::shipped();
    // github.com/FMInference/FlexiGen, benchmark/flexgen/bench_suite.py, suite_30b_1x1; two tokens.
    let line = "--model facebook/opt-30b --path _DUMMY_ --percent 20 80 0 100 0 100 --gpu-batch-size 48 \
                --num-gpu-batches 3 --cpu --debug fewer_batch --gen-len 2";
    let ours = turned(&project, line, &["--device", "t4-flexgen"]).ends_with(0);
    project.write("ours.ron", &ours.stdout);
    let quick = ["--no-png", "--no-bound-curve", "-q"];
    project.run(&[&["run", "ours.ron", "--out", "ours"][..], &quick].concat()).ends_with(0);
    let shipped = "scenarios/opt-30b-t4.ron";
    let text = std::fs::read_to_string(project.path(shipped)).expect("it ships");
    let (text, _) = text.split_once("    expect:").expect("it expects");
    let two = text.replace("tokens: 32", "tokens: 2");
    assert_ne!(two, text, "it has as many tokens as FlexGen's default");
    project.write("two.ron", format!("{two})\n"));
    project.run(&[&["run", "two.ron", "--out", "two"][..], &quick].concat()).ends_with(0);
    let case = |folder: &str| {
        let text = std::fs::read_to_string(project.path(&format!("{folder}/summary.json")));
        let summary: Value = serde_json::from_str(&text.expect("written")).expect("JSON");
        summary["results"][0].clone()
    };
    let (ours, shipped) = (case("ours"), case("two"));
    for key in ["step_ms", "peak_bytes", "moved_bytes", "stall_ms", "throughput"] {
        assert!(!shipped[key].is_null(), "{key}");
        assert_eq!(ours[key], shipped[key], "{key}");
    }
}

#[test]
fn command_lines_of_flexgen_that_ask_for_other_work_are_refused() {
    let project = Project::shipped();
    for (line, says) in [
        // github.com/snu-comparch/InfiniGen, README.md
        (
            "python -m flexgen.flex_opt --model huggingface/opt-6.7b --percent 100 0 0 100 100 0 --overlap false \
             --gpu-batch-size 2 --num-gpu-batches 1 --prompt-len 384 --gen-len 128 --alpha 4 --partial-weight-ratio 0.2 \
             --max-num-kv 102",
            &["attention to a part of the cache is not modelled (found 102)"][..],
        ),
        // github.com/FMInference/H2O, h2o_flexgen/benchmark/xsum/xsum.sh
        (
            "python ../../flexgen/flex_opt.py --model facebook/opt-30b --percent 20 80 0 100 0 100 --gpu-batch-size 3 \
             --num-gpu-batches 35 --cpu --prompt-len 1978 --gen-len 64 --debug fewer_batch --hh-ratio 0.05 --hh-all",
            &["attention to a part of the cache is not modelled (found 0.05)"],
        ),
        // github.com/FMInference/FlexiGen, benchmark/flexgen/bench_suite.py
        (
            "--model facebook/opt-6.7b --percent 100 0 100 0 100 0 --gpu-batch-size 128 --compress-weight --compress-cache",
            &["flexgen:1:", "keys and values of 4 bits are not modelled", "`compression` of kv"],
        ),
        ("--model facebook/opt-1.3b --cpu --attn-sparsity 0.1", &["a part of the values"]),
        ("--model facebook/opt-175b-stage", &["not one stage of a pipeline"]),
        // A loop over percentages.
        (
            "for weight in 10 20; do\npython -m flexgen.flex_opt --model facebook/opt-66b --percent $weight $((100-$weight)) 100 0 100 0\ndone",
            &["flexgen:2:", "`percent` is six whole numbers", "$weight $((100-$weight))"],
        ),
        ("--percent 20 80 0 100 0", &["`percent` is six whole numbers"]),
        (
            "--percent 20 81 0 100 0 100",
            &["of weights on GPU and host are at most 100 together (found 20 and 81)"],
        ),
        ("--percent 18446744073709551615 1 0 0 0 0", &["at most 100 together"]),
        ("--percent -1 1 0 0 0 0", &["`percent` is six whole numbers"]),
        ("--overlap maybe", &["`overlap` is true or false"]),
        ("--model facebook/galactica-30b", &["no model of this name is known here"]),
        ("--overlap True --overlap maybe", &["`overlap` is true or false (found maybe)"]),
        (
            "python -m flexgen.flex_opt --model opt-6.7b $MORE",
            &["is said in the same script, under no condition (found $MORE)"],
        ),
        (
            "python -m flexgen.flex_opt --model gpt2\npython -m flexgen.flex_opt --model opt-6.7b",
            &["flexgen:2:1: a script starts one program"],
        ),
        ("echo nothing", &["no command with such flags is in it"]),
        ("", &["no command with such flags is in it"]),
        ("--model 'gpt2", &["a quote has its end"]),
    ] {
        let ran = turned(&project, line, &["--device", "t4"]).ends_with(2).says(says);
        assert_eq!(ran.stdout, "", "nothing is printed");
    }
    // Variables that double each other stay small.
    let mut script = "A=--xxxxxxxxxxxxxxxx\n".to_owned();
    script.extend((0..40).map(|_| "A=$A$A\n"));
    let ran =
        turned(&project, &format!("{script}python -m flexgen.flex_opt $A"), &["--device", "t4"]);
    ran.ends_with(2).says(&["variables of a script stay below"]);
}

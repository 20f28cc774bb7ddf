//! `memory`: what it prints is what the formulas say. What it refuses is in `tests/errors`.

use crate::common::*;

fn run(args: &[&str]) -> Ran {
    let all: Vec<&str> = ["memory"].iter().chain(args).copied().collect();
    Project::empty().run(&all)
}

fn json(args: &[&str]) -> Value {
    let all: Vec<&str> = args.iter().chain(&["--format", "json"]).copied().collect();
    run(&all).ends_with(0).json()
}

/// The options that `line` has, as a shell would part them.
fn options(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn bytes(line: &str, key: &str) -> u64 {
    let found = json(&options(line));
    found[key].as_u64().unwrap_or_else(|| panic!("{line}: no {key} in {found}"))
}

#[test]
fn zero_at_every_stage() {
    for (stage, bytes_of_gpu) in
        [120_000_000_000, 31_406_250_000, 16_640_625_000, 1_875_000_000].into_iter().enumerate()
    {
        let line = format!("--params 7.5B --gpus 64 --stage {stage} --optimizer-bytes 12");
        assert_eq!(bytes(&line, "gpu_bytes"), bytes_of_gpu);
        assert_eq!(bytes(&line, "model_state_bytes"), bytes_of_gpu);
    }
    for (stage, gb) in ["56", "31.5", "19.25", "7"].into_iter().enumerate() {
        let line = format!("--params 7e9 --gpus 8 --stage {stage} --optimizer adam-without-master");
        let found = json(&options(&line));
        assert_eq!(found["gpu_bytes"].as_f64(), Some(gb.parse::<f64>().unwrap() * 1e9));
        assert_eq!(found["constants"]["optimizer_bytes_per_parameter"], 4.0);
    }
}

#[test]
fn the_text_shows_every_constant_and_both_units() {
    let line = "--params 7500000000 --gpus 64 --stage 2";
    let ran = run(&options(line)).ends_with(0);
    let ran = ran.shows(&[
        "training, ZeRO stage 2, 64 GPU(s)",
        "optimizer bytes per parameter (K)",
        "data-parallel ranks (N)",
        "16,640,625,000  16.641  15.498",
        "K P / N",
        "note: activations are left out",
    ]);
    let k = ran.stdout.lines().find(|line| line.contains("(K)")).expect("K is shown");
    assert!(k.ends_with(" 12"), "{k}");
}

#[test]
fn the_published_activations() {
    let gib = (1u64 << 30) as f64;
    let small = "--params 22B --gpus 8 --tensor 8 --layers 48 --hidden 6144 --heads 64 --sequence 2048 \
                 --micro-batch 4";
    let large = "--params 175B --gpus 64 --tensor 8 --pipeline 8 --interleave 3 --layers 96 --hidden 12288 \
                 --heads 96 --sequence 2048 --micro-batch 1 --batch 64";
    let selective = "--checkpointing selective --sequence-parallel";
    for (model, how, expected) in [
        (small, "", 59.25),
        (large, "", 66.84),
        (small, selective, 9.56),
        (large, selective, 12.35),
    ] {
        let found = bytes(&format!("{model} {how}"), "activations_bytes") as f64 / gib;
        assert!((found - expected).abs() < 0.01, "{found} {expected}");
    }
}

/// An account of every kind, with every part.
const EXAMPLES: [&str; 8] = [
    "--model llama-2-7b --gpus 8 --stage 3 --sequence 2048 --batch 8",
    "--params 7B --gpus 8 --layers 32 --hidden 4096 --heads 32 --sequence 2048 --batch 8 --fit gib(24)",
    "--params 7B --gpus 16 --gpus-per-node 4 --stage 3 --offload-optimizer cpu --offload-param nvme \
         --offload-ratio 0.25 --bucket 1GB --pinned 2GB --reserve mib(500) --largest-layer 200M \
         --prefetch-layers 2 --layers 32 --hidden 4096 --heads 32 --sequence 4096 --batch 8 --micro-batch 2 \
         --checkpointing every:4 --attention flash --workers 4 --vocab 50257",
    "--params 70B --inference --gpus 8 --tensor 8 --layers 80 --hidden 8192 --heads 64 --kv-heads 8 \
         --ffn 28672 --family llama --sequence 1M --batch 4 --kv fp8 --offload-kv cpu",
    "--semiseparable 1M --gpus 8 --offload-param nvme",
    "--model gpt2-xl --sequence 1024 --batch 8 --table rtx-4090",
    "--params 7B --gpus 8 --stage 3 --offload-optimizer nvme --offload-param cpu",
    "--params 7B --convention deepspeed --stage 3 --largest-layer 131M",
];

#[test]
fn parts_add_up_to_the_sums() {
    for line in EXAMPLES.into_iter().filter(|line| !line.contains("deepspeed")) {
        let found = json(&options(line));
        let of = |place: &str| -> u64 {
            let parts = found["parts"].as_array().expect("a list").iter();
            parts
                .filter(|part| part["place"] == place)
                .map(|part| part["bytes"].as_u64().unwrap())
                .sum()
        };
        let per_node = found["constants"]["gpus_per_node"].as_u64().expect("it is shown");
        assert_eq!(found["gpu_bytes"], of("gpu"), "{line}");
        assert_eq!(found["cpu_bytes_per_node"], of("cpu") * per_node, "{line}");
        assert_eq!(found["nvme_bytes_per_node"], of("nvme") * per_node, "{line}");
        for part in found["parts"].as_array().expect("a list") {
            assert_eq!(found[part["key"].as_str().expect("a key")], part["bytes"], "{line}");
        }
    }
}

#[test]
fn keys_and_values_are_counted_by_group() {
    let line = "--params 70B --inference --precision fp16 --layers 80 --hidden 8192 --heads 64 --kv-heads 8 \
                --ffn 28672 --family llama --sequence 1000001 --batch 2";
    assert_eq!(bytes(line, "kv_bytes"), 2 * 80 * 8 * 128 * 2 * 1_000_016 * 2);
    assert_eq!(bytes(line, "weights_bytes"), 140_000_000_000);
}

#[test]
fn blocks_that_attend_to_a_window_keep_its_pages() {
    // gpt-oss-120b: every second of 36 blocks attends to 128 tokens, in pages of 16; heads of 64.
    let line = "--model gpt-oss-120b --inference --sequence 8192 --batch 8";
    let page = 16 * 8 * 2 * 64 * 2;
    assert_eq!(bytes(line, "kv_bytes"), 8 * 18 * (8192 / 16 + 128 / 16 + 1) * page);
    // DeepSeek-V3: 512 numbers and 64 of a key that heads share, on every rank.
    let line = "--model deepseek-v3 --inference --sequence 8192 --batch 8 --gpus 8 --tensor 8";
    assert_eq!(bytes(line, "kv_bytes"), 8 * 8192 * 61 * 576 * 2);
    // As published: matrices of blocks in 8 bits, tables and norms in 16. Every rank has the products
    // that compress, the routers and the norms whole, and an eighth of the rest.
    let tables = 2 * 129_280 * 7168;
    let norms = 61 * (2 * 7168 + 1536 + 512) + 7168;
    let whole = 61 * 7168 * (1536 + 576) + 58 * 256 * 7168;
    let matrices = (671_026_404_352 - tables - norms - whole) / 8 + whole;
    assert_eq!(bytes(line, "weights_bytes"), matrices + 2 * (tables / 8 + norms));
    assert_eq!(bytes(&format!("{line} --precision bf16"), "weights_bytes"), 671_026_404_352 / 4);
    let trained = "--model deepseek-v2-lite --gpus 8 --sequence 64";
    let eager = run(&options(&format!("{trained} --attention eager"))).ends_with(2);
    eager.says(&["only attention in one kernel is known of compressed keys and values"]);
    run(&options(&format!("{trained} --lora 8"))).ends_with(2).says(&["adapters are not known"]);
    assert_eq!(bytes(trained, "weights_bytes"), 2 * 15_706_484_224);
    let stages = run(&options(&format!("{trained} --pipeline 2"))).ends_with(0);
    stages.shows(&["stages behind the first, all of whose blocks have experts, may need more"]);
}

#[test]
fn a_table_of_positions_has_one_for_every_token() {
    for line in ["--model gpt2 --sequence 8192", "--model gpt2 --inference --sequence 8192"] {
        let refused = run(&options(line)).ends_with(2);
        refused.says(&["a table of 1024 positions (found --sequence 8192)"]);
    }
}

#[test]
fn the_numbers_of_a_model_have_the_format_of_its_files() {
    let project = Project::empty();
    let config = r#"{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
        "vocab_size": 50257, "n_positions": 1024, "torch_dtype": "float32"}"#;
    project.write("config.json", config);
    let run = |line: &str| {
        let all = ["memory", "--format", "json", "--model", "config.json"].into_iter();
        project.run(&all.chain(options(line)).collect::<Vec<&str>>())
    };
    let weights = |line: &str| run(line).ends_with(0).json()["weights_bytes"].clone();
    for more in ["", "--inference"] {
        assert_eq!(weights(more), 4 * 124_439_808, "{more}");
        assert_eq!(weights(&format!("{more} --precision bf16")), 2 * 124_439_808, "{more}");
    }
    run("--inference --sequence 1025")
        .ends_with(2)
        .says(&["the model has a table of 1024 positions (found --sequence 1025)"]);
}

#[test]
fn a_hundred_million_tokens_go_beyond_64_bits() {
    let line =
        "--params 1T --gpus 512 --stage 3 --layers 128 --hidden 25600 --heads 160 --sequence 100M";
    let all: Vec<&str> = options(line).into_iter().chain(["--format", "json"]).collect();
    let ran = run(&all).ends_with(0);
    let (s, h, a) = (100_000_000u128, 25_600, 160);
    let kept = 128 * (34 * s * h + 5 * a * s * s);
    assert!(ran.stdout.contains(&format!("\"activations_bytes\": {kept},")), "{}", ran.stdout);
}

/// The options of one row of DeepSpeed's answers.
fn row(names: &[&str], fields: &[&str]) -> Vec<String> {
    let of = |name: &str| {
        let at = names.iter().position(|found| *found == name).expect("the table has the column");
        fields[at]
    };
    let mut options: Vec<String> =
        ["memory", "--convention", "deepspeed", "--format", "json"].map(str::to_owned).to_vec();
    for (option, column) in [
        ("--params", "total_params"),
        ("--largest-layer", "largest_layer_params"),
        ("--gpus-per-node", "gpus_per_node"),
        ("--nodes", "nodes"),
        ("--stage", "stage"),
        ("--offload-optimizer", "offload_optimizer_cpu"),
        ("--offload-param", "offload_params_cpu"),
        ("--zero-init", "zero_init"),
        ("--buffer-factor", "additional_buffer_factor"),
    ] {
        let value = match (of(column), column) {
            ("", _) => continue,
            ("1", "offload_optimizer_cpu" | "offload_params_cpu") => "cpu",
            ("0", "offload_optimizer_cpu" | "offload_params_cpu") => "none",
            ("1", "zero_init") => "true",
            ("0", "zero_init") => "false",
            (other, _) => other,
        };
        options.extend([option.to_owned(), value.to_owned()]);
    }
    options
}

#[test]
fn every_row_of_deepspeeds_own_answers_is_met_to_the_byte() {
    let Some(table) = beside("deepspeed/deepspeed_mem.csv") else { return };
    let table = std::fs::read_to_string(table).expect("it reads");
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let project = Project::empty();
    let mut rows = 0;
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let options = row(&names, &fields);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let found = project.run(&options).ends_with(0).json();
        for (key, column) in [
            ("cpu_bytes_per_node", "cpu_bytes_per_node"),
            ("gpu_bytes", "gpu_bytes_per_gpu"),
            ("largest_layer_bytes", "largest_layer_bytes"),
        ] {
            let at = names.iter().position(|name| *name == column).expect("the column");
            let expected: Option<u64> = fields[at].parse().ok();
            assert_eq!(found[key].as_u64(), expected, "{line}: {key}");
        }
        rows += 1;
    }
    assert_eq!(rows, 1228);
}

#[test]
fn a_7b_model_is_made_to_fit_a_small_gpu() {
    let project = Project::shipped();
    let line = "memory --model llama-2-7b --gpus 1 --sequence 2048 --batch 4 --attention flash --format json";
    let fit = |gpu: &str, code| -> Value {
        let all: Vec<&str> = options(line).into_iter().chain(["--fit", gpu]).collect();
        project.run(&all).ends_with(code).json()["fit"].clone()
    };
    let found = fit("rtx-4090", 0);
    assert_eq!(found["fits"], false);
    let all = found["options"].as_array().expect("a list");
    assert!(!all.is_empty());
    assert_eq!(all.iter().filter(|one| one["smallest"] == true).count(), 1);
    for one in all {
        assert!(one["gpu_bytes"].as_u64() <= found["gpu_room_bytes"].as_u64());
        let more = one["more_cpu_bytes_per_node"].as_u64().expect("a number");
        let room = found["cpu_room_bytes"].as_u64().map(|room| room + more);
        assert!(one["cpu_bytes_per_node"].as_u64() <= room);
        assert!(one["slowdown"].as_f64() >= Some(1.0), "{one}");
        let sequences = one["tokens_per_s"].as_f64().expect("all rates are known");
        let tokens = sequences * one["seconds_per_step"].as_f64().expect("all rates are known");
        assert!((tokens - 4.0 * 2048.0).abs() < 1e-3, "{one}");
        // 13.5 GB of weights, as many of gradients and 81 GB of state do not fit 24 GB.
        let changes: Vec<&str> =
            one["changes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(
            changes.iter().any(|change| change.starts_with("--offload-optimizer")),
            "{changes:?}"
        );
    }
    assert_eq!(fit("gib(2000)", 0)["fits"], true);
    assert_eq!(fit("1MiB", 1)["options"].as_array().map(Vec::len), Some(0));
}

/// The published table of structured operators at N = 2048: bytes and reductions against a dense
/// matrix in fp32.
#[test]
fn structured_operators_take_what_was_published() {
    for (options, bytes_of_gpu, reduction) in [
        ("--precision fp32", 204_792, 98.78),
        ("", 114_680, 99.32),
        ("--flat", 114_680, 99.32),
        ("--precision fp32 --levels 3", 303_096, 98.19),
        ("--precision fp32 --levels nested", 205_404, 98.78),
    ] {
        let line = format!("--semiseparable 2048 {options}");
        let found = json(&self::options(&line));
        assert_eq!(found["gpu_bytes"], bytes_of_gpu, "{line}");
        let of = found["constants"]["reduction_percent"].as_f64().expect("a number");
        assert!((of - reduction).abs() < 0.005, "{line}: {of}");
    }
    let line = "--semiseparable 2048 --precision fp32 --dense fp16";
    let found = json(&options(line));
    assert_eq!(found["constants"]["dense_bytes"], 2 * 2048 * 2048);
}

/// What `llama-3.1-405b-128` holds: 58.3 GB of each GPU, far from 86.6.
#[test]
fn a_large_job_needs_what_its_run_holds() {
    let line = "--model llama-3.1-405b --gpus 128 --tensor 8 --sequence-parallel --stage 3 --sequence 8192 --batch 4 \
                --micro-batch 1 --checkpointing full --attention flash --prefetch-layers 1";
    let found = bytes(line, "gpu_bytes");
    assert!((58_000_000_000..61_500_000_000).contains(&found), "{found}");
    let project = Project::shipped();
    let served = ["--inference", "--model", "llama-2-13b", "--sequence", "4096", "--batch", "16"];
    let all: Vec<&str> =
        ["memory"].into_iter().chain(served).chain(["--fit", "rtx-4090"]).collect();
    project.run(&all).ends_with(0).shows(&[
        "tokens/s",
        "--offload-param cpu",
        // Of tokens here: a step of fewer sequences is shorter, and does less.
        "x is the time for as much work over that of the quickest",
        "LoRA is not offered",
    ]);
}

/// Of Qwen 2.5 7B over four stages: seven blocks, norm and head have 2,176,405,504 parameters with
/// 16 bytes each, where the table in front is less work; by hand.
#[test]
fn the_stage_with_the_head_counts_where_it_needs_more() {
    let line = "--model qwen2.5-7b --sequence 8192 --batch 16 --micro-batch 4 --checkpointing full \
                --attention flash --pipeline 4 --gpus 4";
    let state: u64 = ["weights_bytes", "gradients_bytes", "optimizer_bytes"]
        .iter()
        .map(|key| bytes(line, key))
        .sum();
    assert_eq!(state, 16 * 2_176_405_504);
    let alone = line.replace("--pipeline 4 --gpus 4", "");
    assert_eq!(bytes(line, "head_activations_bytes"), bytes(&alone, "head_activations_bytes"));
    let ran = run(&options(line)).ends_with(0);
    ran.shows(&["note: of the last stage, which has the head; the first one needs 51.5"]);
    let fits = |room: &str| {
        let ran = run(&options(&format!("{line} --fit {room}"))).ends_with(0);
        ran.stdout.contains("it fits as it is")
    };
    assert!(!fits("55GB") && fits("61GB"));
    // Full first stages keep more micro-batches: nothing else is said.
    let long = "--model llama-3-8b --sequence 8192 --batch 8 --micro-batch 1 --pipeline 4 --gpus 4 \
                --attention flash";
    let ran = run(&options(long)).ends_with(0);
    assert!(!ran.stdout.contains("last stage"), "{}", ran.stdout);
}

/// However the model is said: by its config, or by numbers.
#[test]
fn an_encoder_has_no_cache_that_is_served() {
    let project = Project::empty();
    let numbers = r#""num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12"#;
    let config = format!(
        r#"{{"model_type": "bert", {numbers}, "intermediate_size": 3072, "vocab_size": 30522,
            "max_position_embeddings": 512, "type_vocab_size": 2}}"#
    );
    project.write("bert.json", config);
    for model in
        ["--model bert.json", "--family bert --layers 12 --hidden 768 --heads 12 --params 110M"]
    {
        let line = format!("memory --inference {model} --sequence 128 --batch 4");
        let ran = project.run(&line.split(' ').collect::<Vec<_>>()).ends_with(2);
        ran.says(&["--inference: bert is an encoder: it has no cache"]);
    }
}

#[test]
fn steps_that_no_scenario_has_are_refused() {
    let job = "--model llama-3-8b --sequence 2048 --batch 8 --micro-batch 1 --gpus 8";
    for (more, says) in [
        ("--checkpointing layers:100", "has 32 blocks (found --checkpointing layers:100)"),
        ("--pipeline 4 --checkpointing layers:9", "has 8 blocks"),
        ("--optimizer lion --optimizer-kernels for-loop", "is known of AdamW"),
        ("--pipeline 4 --interleave 2 --batch 2", "--pipeline, with --interleave"),
    ] {
        let said = more.contains("--batch");
        let line = if said { job.replace(" --batch 8", "") } else { job.to_owned() };
        run(&options(&format!("{line} {more}"))).ends_with(2).says(&[says]);
    }
    run(&options("--model llama-2-7b --checkpointing full"))
        .ends_with(2)
        .says(&["an account without --sequence does not go with --checkpointing"]);
}

#[test]
fn a_model_is_named_or_read() {
    let project = Project::empty();
    let config = r#"{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
        "vocab_size": 50257, "n_positions": 1024, "n_ctx": 1024}"#;
    project.write("config.json", config);
    let run = |line: &str| -> Value {
        let all: Vec<&str> =
            ["memory", "--format", "json"].into_iter().chain(options(line)).collect();
        project.run(&all).ends_with(0).json()
    };
    let read = run("--model config.json --stage 1 --gpus 2");
    assert_eq!(read["constants"]["params"], 124_439_808);
    assert_eq!(read["gpu_bytes"], 4 * 124_439_808 + 6 * 124_439_808u64);
    // GPT-2 has 74 matrices and vectors of rows and columns that Adafactor keeps sums of: by hand
    // for one block 2 (768 + 2304), 2304; (768 + 768), 768; ..., and the tables.
    let block = (768 + 2304)
        + 2304
        + (768 + 768)
        + 768
        + (768 + 3072)
        + 3072
        + (3072 + 768)
        + 768
        + 4 * 768;
    let sums = 12 * block + (50_257 + 768) + (1024 + 768) + 2 * 768u64;
    let read = run("--model config.json --optimizer adafactor");
    assert_eq!(read["optimizer_bytes"], 4 * 124_439_808 + 4 * sums);
    // DeepSpeed's largest layer is the embedding.
    let read = run("--model config.json --convention deepspeed --stage 3");
    assert_eq!(read["largest_layer_bytes"], 4 * 50_257 * 768);
}

#[test]
fn examples_of_the_page_print_what_it_says() {
    let page = page("docs/howto/memory.md");
    let blocks: Vec<&str> = page.split("```\n$ tiersim ").skip(1).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let text = block.split("```").next().expect("the block ends");
        let (line, printed) = text.split_once('\n').expect("a command and what it prints");
        let ran = Project::shipped().run(&options(line)).ends_with(0);
        assert_eq!(ran.stdout, printed, "{line}");
    }
}

#[test]
fn the_table_on_the_page_is_what_the_command_prints() {
    let page = page("docs/howto/memory.md");
    let (_, section) = page.split_once("## Switch by switch").expect("the section");
    let (_, block) = section.split_once("```sh\ntiersim ").expect("a command");
    let (line, rest) = block.split_once('\n').expect("one line");
    let (_, printed) = rest.split_once("```text\n").expect("what it prints");
    let printed = printed.split("```").next().expect("the block ends");
    let ran = Project::shipped().run(&options(line)).ends_with(0);
    assert!(ran.stdout.ends_with(printed), "{}", ran.stdout);
}

#[test]
fn the_page_names_every_key_and_option() {
    let page = page("docs/howto/memory.md");
    for line in EXAMPLES {
        let found = json(&options(line));
        let fit = &found["fit"];
        let table = &found["table"];
        let turned = &table["switches"][0];
        let table = [table, &table["as_typed"], turned, &turned["alone"], &turned["in_turn"]];
        for map in [&found, &found["parts"][0], fit, &fit["options"][0]].into_iter().chain(table) {
            for key in map.as_object().into_iter().flat_map(|map| map.keys()) {
                assert!(page.contains(&format!("`{key}`")), "docs/howto/memory.md lacks `{key}`");
            }
        }
    }
    fn names(help: &str) -> Vec<&str> {
        let options = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
        options.filter_map(|rest| rest.split([' ', '`']).next()).collect()
    }
    let help = run(&["--help"]).ends_with(0).stdout;
    let of_every_verb = Project::empty().run(&["--help"]).ends_with(0).stdout;
    let everywhere = names(&of_every_verb);
    let own = names(&help).into_iter().filter(|name| !everywhere.contains(name));
    let own: Vec<&str> = own.filter(|name| *name != "help").collect();
    assert!(own.len() > 30, "{own:?}");
    for name in own {
        let stands = [" ", "`"].iter().any(|end| page.contains(&format!("`--{name}{end}")));
        assert!(stands, "docs/howto/memory.md lacks --{name}");
    }
}

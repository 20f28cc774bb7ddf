//! Every command of README, ARCHITECTURE, docs/ and `--help`, run in a copy of what ships.
//!
//! A line of a block of commands and a whole command between backticks are run as they stand; a
//! placeholder (`SCENARIO`) gets a value, `[options]` of a synopsis are left out. The exit code
//! must be 0, or what the line's comment says (`# exit 1`). A mention of a verb alone must be a
//! verb. What a page shows right behind a command, as a block of text, is what that prints, up to
//! `...`. Where a command works for minutes, [`QUICK`] has smaller sizes; what other programs do is
//! in [`ELSEWHERE`]. Each has its reason.

pub(crate) mod extract;

use crate::common::*;
use extract::{Command, commands};
use std::sync::Mutex;

/// Starts of commands, what is said beside them here so that they end soon, and why.
const QUICK: &[(&str, &[&str], &str)] = &[
    ("conform", &["--worlds", "2"], "120 worlds are what tests/cli/conform.rs needs no more of"),
    ("validate", &["--repeat-runs", "1"], "once shows as much of the command as three times"),
    ("train-policy", &["--generations", "1", "--population", "4"], "20 generations take minutes"),
    (
        "sweep scenarios/gpt2-threshold-sweep.ron",
        &["--set", SHARES, "--set", REST, "--set", MOVED],
        "882 points take a minute unoptimized",
    ),
    (
        "run scenarios/learned-against-written.ron",
        &[
            "--set",
            "policies=[(name: \"LRU\", policy: Lru(spill: [\"dram\"]), hbm: share_of_peak(0.7))]",
            "--set",
            "expect=[]",
        ],
        "one case of 21 shows that the workload is read; contract.rs runs all with what they expect",
    ),
];
const SHARES: &str = "sweep.axes.0.values=list([0.7, 0.75])";
const REST: &str = "sweep.axes.1.values=list([0.25])";
const MOVED: &str = "sweep.axes.2.values=choices([(\"migrate\", \"migrate(prefetch_ops: 32)\")])";

/// Commands that are not run here: how they start, and where they are or why nowhere.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cargo test", "this is one of them"),
    ("cargo bench", "asserts nothing, and takes minutes"),
    ("cargo xtask soak", ".ci/run runs it"),
    ("cargo xtask what-if", ".ci/run runs it"),
    ("cargo xtask dist", "builds for minutes with a target of its own"),
    (WHAT_IF, "needs what `cargo xtask what-if` builds; what_if.rs runs it"),
    ("cargo publish", "builds for minutes; a test of xtask compares what packages hold and embed"),
    ("cargo xtask reference", "a test of xtask compares what it writes"),
    ("cargo install --path cli", "builds for minutes; outside.rs runs what it would install"),
    ("cargo run --release -p newest-out", "examples/newest-out/tests runs it"),
    ("cargo run --release --manifest-path", ".ci/run builds it"),
    (
        "tiersim calibrate --machine host",
        "calibrate.rs runs it; measuring twice at once measures neither",
    ),
    (
        "tiersim trace import rank0.json rank1.json --execution-trace",
        "profiler.rs ties real ranks with an execution trace each",
    ),
    ("tiersim calibrate --from-trace", "from_trace.rs runs it on recordings that show a machine"),
    (
        "tiersim run SCENARIO --trace resnet_kineto.json.gz",
        "from_trace.rs runs the recording on the machine that it makes",
    ),
    ("tiersim run --report scenarios/", "contract.rs runs every scenario with its report"),
    ("tiersim sweep --report scenarios/", "goldens.rs runs every sweep with its report"),
    ("tiersim merge DIR", "journals.rs merges shards"),
    ("tiersim serve", "serves until somebody ends it; serve.rs asks it"),
    ("pip install ./record", "record/tests run the recorder"),
    ("pip install ./python", ".ci/run builds the wheel and runs python/tests on it"),
    ("pip install torch", "nothing of ours"),
];

const WHAT_IF: &str = "tiersim run SCENARIO --report --what-if";

/// Documents and machines of placeholders, in what ships.
const SCENARIO: &str = "scenarios/gpt2-adam-tiering.ron";
const SMOKE: &str = "scenarios/validation/host-smoke.ron";

/// What stands for a word of a command; `verb` is the command's first word, `before` the one
/// before.
fn stand_in(verb: &str, before: &str, word: &str) -> String {
    let scenario = match verb {
        "sweep" => "scenarios/gpt2-threshold-sweep.ron",
        "train-policy" => "scenarios/train-scored.ron",
        "validate" => SMOKE,
        _ => SCENARIO,
    };
    let value = match (word.trim_end_matches("..."), verb, before) {
        ("SCENARIO", ..) => scenario,
        // The others hold gigabytes of real memory.
        ("scenarios/validation/*.ron" | "scenarios/validation/gpt2-124m-train.ron", ..) => SMOKE,
        ("NAME", "new", _) => "second",
        ("NAME", "hardware", _) => "h100-sxm-pcie5",
        ("NAME", "cache", _) => "lru",
        ("NAME.ron", ..) => "first.ron",
        ("FILE", _, "--kernels") => "VIT_b1280.kernels.csv",
        ("FILE", _, "--tensors") => "VIT_b1280.tensors.csv",
        ("FILE", "trace", "import") => "trace.json",
        ("FILE", "check", _) => SCENARIO,
        ("FILE", "cache", _) => "blocks.csv",
        ("FILE" | "FILE.csv" | "FILE.csv.gz", "ops", _) => "products.csv",
        ("NAME", "ops", _) => "h100-sxm-pcie5",
        ("FILE", "allocator", _) | ("SNAPSHOT", ..) => "tiny.pickle.gz",
        ("PART.ron", ..) => "hardware-specs/parts/h100-sxm.ron",
        ("N", "cache", _) => "8192",
        ("DIR", "report", _) => "results",
        ("DIR", "man", _) => "out/man",
        ("TRACE", _, "--out") => "out/trace",
        ("TRACE" | "RECORDING", ..) => "traces/gpt2-train-cpu",
        ("MACHINE", ..) | ("host|cuda", ..) => "host",
        _ => word,
    };
    value.to_owned()
}

/// Files that a page tells its reader to save: the block behind the words.
fn saved(page: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(shipped(page)).unwrap();
    let mut found = Vec::new();
    for rest in text.split("ave this as `").skip(1) {
        let (name, rest) = rest.split_once('`').unwrap();
        let (_, block) = rest.split_once("```ron\n").unwrap();
        found.push((name.to_owned(), block.split("```").next().unwrap().to_owned()));
    }
    found
}

/// What has run: documents say the same more than once.
static SEEN: Mutex<BTreeSet<Vec<String>>> = Mutex::new(BTreeSet::new());

/// A project with everything that documents name and do not ship.
fn project() -> Project {
    let project = Project::shipped();
    let snapshot = fs::read(shipped("tests/data/snapshots/tiny.pickle.gz")).unwrap();
    project.write("tiny.pickle.gz", snapshot);
    let profiled = fs::read(shipped("tests/data/fuzz/profiler/seed~trace.json")).unwrap();
    project.write("trace.json", profiled);
    let ranks = fs::read(shipped("tests/data/fuzz/archive/packed~a.tar")).unwrap();
    project.write("ranks.tar.gz", ranks);
    recordings(&project);
    project.write("blocks.csv", "object,bytes\n1,4096\n2,4096\n1,4096\n");
    let products = (1..61).map(|m| format!("bf16,{m},{},4096,{}\n", 64 * m, 3 + m / 4));
    project.write("products.csv", format!("dtype,m,n,k,us\n{}", products.collect::<String>()));
    let requests = fs::read(project.path("traces/requests-conversation/requests.jsonl")).unwrap();
    project.write("conversation_trace.jsonl", requests);
    // Three kernels, of which each needs three of the five tensors that there are at most.
    let kernels = "kernel,name,cycles,reads,writes\n0,A_Forward,1200,1,4\n1,B_Forward,1200,2;4,5\n\
                   2,C_Forward,1200,3;5,6\n";
    project.write("VIT_b1280.kernels.csv", kernels);
    let tensor = |id: u32| format!("{id},4096,{}\n", u32::from(id < 4));
    let tensors: String = (1..=6).map(tensor).collect();
    project.write("VIT_b1280.tensors.csv", format!("tensor,bytes,global\n{tensors}"));
    let read = |file: &str| fs::read(project.path(file)).unwrap();
    project.write("hardware-specs/measured/host.ron", read("hardware-specs/h100-sxm-pcie5.ron"));
    project.write("my/spec.ron", read("hardware-specs/host-smoke.ron"));
    project.write("config.json", CONFIG);
    for card in ["a100", "h100", "rtx-3090", "rtx-4090"] {
        let file = format!("examples/guides/{card}.yaml");
        project.write(&file, page(&file));
    }
    for name in ["zero3-offload.json", "megatron-8b.sh", "fsdp-offload.yaml"] {
        let file = format!("examples/frameworks/{name}");
        project.write(&file, page(&file));
    }
    let block = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"];
    let block = block.iter().chain(&["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]);
    let block = block.chain(&["input_layernorm", "post_attention_layernorm"]);
    let names = block.map(|name| format!("model.layers.0.{name}"));
    let names = names.chain(["model.embed_tokens", "model.norm", "lm_head"].map(str::to_owned));
    let map: Vec<String> =
        names.map(|name| format!("\"{name}.weight\": \"a.safetensors\"")).collect();
    let index = format!(
        "{{\"metadata\": {{\"total_size\": 147840}}, \"weight_map\": {{{}}}}}",
        map.join(",")
    );
    project.write("model.safetensors.index.json", index);
    let nodes = read("hardware-specs/h100-dual-socket.ron");
    project.write("hardware-specs/measured/host-nodes.ron", nodes);
    let pages = [
        "docs/tutorial/trace-to-slide.md",
        "docs/tutorial/tiering-experiment.md",
        "docs/howto/a-machine-that-does-not-exist-yet.md",
    ];
    let files: Vec<(String, String)> = pages.iter().flat_map(|page| saved(page)).collect();
    assert_eq!(files.len(), 4, "files that pages have their readers save");
    for (name, text) in files {
        project.write(&name, text);
    }
    project.run(&["new", "first"]).ends_with(0);
    project.run(&["run", SCENARIO, "--out", "results", "-q"]).ends_with(0);
    project
}

/// Recordings of every kind, by the names that documents give them.
fn recordings(project: &Project) {
    let read = |file: &str| fs::read(shipped(&format!("tests/data/{file}"))).unwrap();
    let pack = |bytes: &[u8]| gzip(bytes, Compression::default());
    project.write("snapshot.pickle", read("snapshots/train.pickle.gz"));
    project.write("timeline.raw.json.gz", pack(&read("fuzz/timeline/seed~t.raw.json")));
    for rank in 0..2 {
        project.write(&format!("rank{rank}.json"), rank_of_two(rank));
    }
    project.write("app.lackey", read("fuzz/lackey/seed~a.lackey"));
    project.write("app.lackey.gz", pack(&read("fuzz/lackey/seed~a.lackey")));
    project.write("app.perf", read("fuzz/perf/seed~a.txt"));
    project.write("app.damon", read("fuzz/damon/seed~a.txt"));
    project.write("requests.oracleGeneral.bin.gz", pack(&read("fuzz/block/records~b.bin")));
    project.write("accesses.csv.gz", pack(&read("fuzz/block/seed~a.csv")));
    project.write("hm_0.csv.gz", pack(&read("fuzz/block/msr~a.csv")));
    project.write("job.iolog", read("fuzz/block/fio~a.iolog"));
    project.write("2018-10-01-01.tgz", pack(b"1538323200,8,16,1,1063\n1538323201,15,2,0,1063\n"));
    project.write("trace.txt", "42932745\n42932746\n42932745\n");
    let lines = "1,33898,2a,512,42932745\n1,33898,2a,6656,40409911\n1,33899,2a,512,42932745\n";
    project.write("trace.csv", format!("version,time,op,size,lbn\n{lines}"));
}

/// What the PyTorch profiler would say of a rank that does nothing but take part in an all-reduce.
fn rank_of_two(rank: u32) -> String {
    format!(
        r#"{{"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 2}}, "traceEvents": [
{{"ph":"X","cat":"user_annotation","name":"nccl:all_reduce","pid":1,"tid":7,"ts":10.0,"dur":9,"args":{{"Input Dims":[[256]],"Input type":["float"]}}}},
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":7,"ts":11.0,"dur":5,"args":{{"correlation":1}}}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(","pid":0,"tid":20,"ts":17.0,"dur":4,"args":{{"correlation":1,"stream":20,"device":0}}}}]}}"#
    )
}

/// A model of one layer: 73,920 parameters.
const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 256,
    "num_key_value_heads": 4, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16"}"#;

/// Runs a command, or sees that another place does; how many were run.
fn run(project: &Project, command: &Command) -> usize {
    let place = format!("{}: {}", command.place, command.words.join(" "));
    let line = command.words.join(" ");
    if ELSEWHERE.iter().any(|(start, _)| line.starts_with(start)) {
        return 0;
    }
    // The binary of this build is what `cargo run` would build.
    let words = match line.starts_with("cargo run --release -- ") {
        true => &command.words[4..],
        false => match command.words.split_first() {
            Some((first, words)) if first == "tiersim" => words,
            _ => panic!("{place}: nothing runs it"),
        },
    };
    let verbs =
        words.iter().take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    let mention = command.inline && verbs.count() == words.len() && words != ["hardware", "list"];
    if mention {
        let help: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        project.run(&help).ends_with(0);
        return 0;
    }
    let verb = words[0].as_str();
    let mut args: Vec<String> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).map_or("", |before| words[before].as_str());
        args.push(stand_in(verb, before, word));
    }
    let typed = args.join(" ");
    let quick: Vec<_> = QUICK.iter().filter(|(start, ..)| typed.starts_with(start)).collect();
    for (_, more, _) in &quick {
        args.extend(more.iter().map(|word| (*word).to_owned()));
    }
    // Of smaller sizes other figures are printed.
    let shown = if quick.is_empty() { &command.shown[..] } else { &[] };
    if !SEEN.lock().unwrap().insert(args.clone()) && shown.is_empty() {
        return 1;
    }
    // Each command is one that somebody types first.
    let _ = fs::remove_file(project.path("second.ron"));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = project.run(&args);
    let said = format!("{place}\n{args:?}\n{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, Some(command.exit), "{said}");
    for line in shown {
        assert!(prints(&format!("{}{}", ran.stdout, ran.stderr), line), "lacks {line:?}\n{said}");
    }
    1
}

/// Whether a line of a page is one of what was printed, up to where the page says `...`.
fn prints(printed: &str, line: &str) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = printed.lines().map(squeezed);
    match line.split_once("...") {
        Some((start, _)) => lines.any(|own| own.starts_with(&squeezed(start))),
        None => lines.any(|own| own == squeezed(line)),
    }
}

#[test]
fn a_line_of_a_page_is_one_that_was_printed() {
    let printed = "case  mean\nlru    1.2  of 3\n";
    for (line, is_one) in [
        ("lru 1.2  of 3", true),
        ("lru    1.2 ...", true),
        ("...", true),
        ("lru    1.2", false),
        ("lru    1.3 ...", false),
    ] {
        assert_eq!(prints(printed, line), is_one, "{line}");
    }
}

fn runs_all(documents: &[&str], at_least: usize) {
    let project = project();
    let mut ran = 0;
    for document in documents {
        let text = fs::read_to_string(shipped(document)).unwrap();
        for command in commands(document, &text) {
            ran += run(&project, &command);
        }
    }
    assert!(ran >= at_least, "{ran} commands of {documents:?}");
}

#[test]
fn commands_of_the_readme_do_what_they_say() {
    runs_all(&["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"], 1);
}

/// The pages of one kind.
fn pages(kind: &str) -> Vec<String> {
    let entries = fs::read_dir(shipped(&format!("docs/{kind}"))).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    // promises.rs runs every command of that page and looks at what it prints.
    names.retain(|name| name != "promises.md");
    names.sort();
    names.iter().map(|name| format!("docs/{kind}/{name}")).collect()
}

fn runs_kinds(kinds: &[&str], at_least: usize) {
    let names: Vec<String> = kinds.iter().flat_map(|kind| pages(kind)).collect();
    runs_all(&names.iter().map(String::as_str).collect::<Vec<_>>(), at_least);
}

#[test]
fn commands_of_the_tutorial_do_what_they_say() {
    runs_kinds(&["tutorial"], 18);
}

#[test]
fn commands_of_the_reference_do_what_they_say() {
    runs_kinds(&["reference"], 20);
}

#[test]
fn commands_of_other_documents_do_what_they_say() {
    runs_kinds(&["howto", "explanation"], 16);
    runs_all(&["docs/README.md", "docs/development.md"], 0);
}

#[test]
fn examples_of_every_help_do_what_they_say() {
    let project = project();
    let (mut ran, mut left) = (0, vec![Vec::<String>::new()]);
    while let Some(verbs) = left.pop() {
        let args: Vec<&str> = verbs.iter().map(String::as_str).chain(["--help"]).collect();
        let help = project.run(&args).ends_with(0).stdout;
        let examples = help.split_once("Examples:\n").map_or("", |(_, examples)| examples);
        let text: String = examples.lines().map(|line| format!("    {}\n", line.trim())).collect();
        for command in commands(&format!("tiersim {}", args.join(" ")), &text) {
            ran += run(&project, &command);
        }
        // Verbs stand in groups behind the usage and before the options, where there are any.
        let below = help.split_once("<COMMAND>\n").map_or("", |(_, rest)| rest);
        let below = below.split("\nOptions:\n").next().unwrap_or_default();
        // A verb that may stand alone has arguments behind its own verbs.
        let below = below.split("\nArguments:\n").next().unwrap_or_default().lines();
        let names = below.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        for name in
            names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
        {
            left.push(verbs.iter().cloned().chain([name.to_owned()]).collect());
        }
    }
    assert!(ran >= 12, "{ran} examples");
}

//! Cards that scenarios spell out: what they mean, and when two of them are the same.

use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_input::traces::read_traces;
use tiersim_policies::scenario::TraceSource;
use tiersim_tests::files;
use tiersim_tests::prelude::*;
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::card::{Card, Experts, Family, Latent};
use tiersim_workloads::transformer::known::KNOWN;
use tiersim_workloads::transformer::training::Training;

/// A project of this test's own with one machine, and a scenario of the workload.
fn file(test: &str, workload: &str) -> PathBuf {
    let root = files::own_project(concat!(env!("CARGO_TARGET_TMPDIR"), "/cards"), test);
    let text = format!(
        "Scenario(schema: 2, about: \"a card\", hardware: \"host-layered\", workload: {workload}, \
         policies: [(name: \"all\", policy: AllHbm)], sweep: (axes: [\
         (name: \"layers\", path: \"workload.card.layers\", values: list([1, 2])), \
         (name: \"sequence\", path: \"workload.mode.sequence\", values: range(from: 8, to: 24, step: 8)), \
         ]))"
    );
    fs::write(root.join("case.ron"), text).expect("it can be written");
    root.join("case.ron")
}

const GPT2: &str = "Model(card: (family: gpt2, layers: 2, hidden: 64, ffn: 256, heads: 4, \
    vocab: 100), precision: bf16, mode: train(batch: 2, sequence: 16), \
    time: roofline(precision: \"bf16\"))";

fn print(scenario: &Scenario) -> String {
    fingerprint(scenario, files::traces(scenario).hash(scenario))
}

/// The step of training that a scenario is about.
fn training(scenario: &Scenario) -> &Training {
    match &scenario.workload.trace {
        TraceSource::Model(Work::Train(training)) => training,
        other => panic!("not a step of training: {other:?}"),
    }
}

#[test]
fn defaults_are_those_of_the_family() {
    let scenario = files::scenario(&file("defaults", GPT2), &[]);
    let gpt2 = Card {
        name: "gpt2-2x64".to_owned(),
        family: Family::Gpt2,
        layers: 2,
        hidden: 64,
        ffn: 256,
        heads: 4,
        kv_heads: 4,
        head_dim: 16,
        vocab: 100,
        positions: 1024,
        tied: true,
        qkv_bias: true,
        experts: None,
        window: None,
        full_attention_every: None,
        latent: None,
    };
    assert_eq!(training(&scenario).card, gpt2);
    assert_eq!((scenario.workload.repeat, scenario.workload.warmup), (3, 1));
    for (family, positions, is_old) in
        [(Family::Llama, 0, false), (Family::Opt, 2048, true), (Family::Bloom, 0, true)]
    {
        let text = GPT2.replace("gpt2", family.word());
        let scenario = files::scenario(&file(&format!("defaults-{}", family.word()), &text), &[]);
        let name = format!("{}-2x64", family.word());
        let (tied, qkv_bias) = (is_old, is_old);
        let card = Card { name, family, positions, tied, qkv_bias, ..gpt2.clone() };
        assert_eq!(training(&scenario).card, card);
    }
}

/// Every known model, spelled out, is itself.
#[test]
fn a_known_model_spelled_out_is_the_known_model() {
    for known in KNOWN {
        let card = known.card();
        let experts = card.experts.map_or(String::new(), |experts| {
            let Experts { count, active, shared, dense_first, ffn } = experts;
            format!(
                "experts: (count: {count}, active: {active}, shared: {shared}, \
                 dense_first: {dense_first}, ffn: {ffn}),"
            )
        });
        let latent =
            card.latent.map_or(String::new(), |Latent { queries, rank, rotary, value }| {
                let queries =
                    queries.map_or(String::new(), |queries| format!("queries: {queries}, "));
                format!("latent: ({queries}rank: {rank}, rotary: {rotary}, value: {value}),")
            });
        let mode = match card.latent {
            Some(_) => "generate(batch: 1, prompt: 8, tokens: 2)",
            None => "train(batch: 1, sequence: 16)",
        };
        let some = |key: &str, value: Option<u32>| {
            value.map_or(String::new(), |value| format!("{key}: {value},"))
        };
        let every = some("full_attention_every", card.full_attention_every);
        let window = some("window", card.window) + &every;
        let Card { name, family, layers, hidden, ffn, heads, kv_heads, head_dim, vocab, .. } =
            &card;
        let (family, positions, tied) = (family.word(), card.positions, card.tied);
        let text = format!(
            "Model(card: (name: {name:?}, family: {family}, layers: {layers}, hidden: {hidden}, \
             ffn: {ffn}, heads: {heads}, kv_heads: {kv_heads}, head_dim: {head_dim}, \
             vocab: {vocab}, positions: {positions}, tied: {tied}, qkv_bias: {}, {experts} \
             {window} {latent}), precision: bf16, mode: {mode}, \
             time: roofline(precision: \"bf16\"))",
            card.qkv_bias
        );
        let scenario = files::scenario(&file("known", &text), &[]);
        let found = match &scenario.workload.trace {
            TraceSource::Model(Work::Train(training)) => &training.card,
            TraceSource::Model(Work::Generate(job)) => &job.card,
            other => panic!("not a model: {other:?}"),
        };
        assert_eq!(*found, card);
    }
}

#[test]
fn fingerprints_are_equal_if_and_only_if_cards_are() {
    let path = file("fingerprints", GPT2);
    let first = print(&files::scenario(&path, &[]));
    let written_out = "vocab: 100, tied: true, positions: 1024, kv_heads: 4, head_dim: 16";
    let same = file("fingerprints-same", &GPT2.replace("vocab: 100", written_out));
    assert_eq!(print(&files::scenario(&same, &[])), first);
    let mut seen = BTreeSet::from([first]);
    for (at, value) in [
        ("workload.card.family", "opt"),
        ("workload.card.layers", "3"),
        ("workload.card.hidden", "128"),
        ("workload.card.ffn", "128"),
        ("workload.card.heads", "2"),
        ("workload.card.vocab", "101"),
        ("workload.card.positions", "16"),
        ("workload.card.tied", "false"),
        ("workload.precision", "fp32"),
        ("workload.precision", "fp16"),
        ("workload.mode.batch", "3"),
        ("workload.mode.sequence", "15"),
        ("workload.mode", "train(batch: 2, sequences: [16])"),
        ("workload.mode", "train(batch: 2, sequences: [16, 16])"),
        ("workload.mode", "generate(batch: 2, prompt: 15, tokens: 1, prefill: false)"),
        ("workload.mode", "generate(batch: 2, prompt: 14, tokens: 2, prefill: false)"),
    ] {
        let scenario = files::scenario(&path, &[(at, value)]);
        assert!(seen.insert(print(&scenario)), "{at}={value} makes no difference");
    }
}

#[test]
fn a_sweep_turns_over_cards() {
    let sweep = read_sweep(&file("sweep", GPT2), &[]).unwrap_or_else(|found| panic!("{found}"));
    let shapes: Vec<(u32, u64)> = sweep
        .points
        .iter()
        .map(|point| training(&point.scenario))
        .map(|training| (training.card.layers, training.sequence))
        .collect();
    let of = |layers| [8, 16, 24].map(|sequence| (layers, sequence));
    assert_eq!(shapes, [of(1), of(2)].concat());
    let points = sweep.points.iter().map(|point| &point.scenario);
    let traces = read_traces(points).expect("they are made");
    let ops = |index: usize| traces.of(&sweep.points[index].scenario).trace.ops.len();
    // Per layer two norms, four products, attention, activation and two residuals forward; two
    // norms, attention and activation and four products backward, and six updates.
    assert_eq!(ops(3) - ops(0), 10 + 8 + 6);
}

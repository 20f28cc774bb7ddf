//! Settings in YAML, as guides write them: what is taken, what is not, and what is refused where.

use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::guide::{Fate, Guide, Said, guide};
use tiersim_input::scenario::read::read_scenario;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project").to_owned()
}

fn of(text: &str) -> Guide {
    guide(Path::new("s.yaml"), text, Said::default()).unwrap_or_else(|told| panic!("{told}"))
}

fn refused(text: &str) -> String {
    match guide(Path::new("s.yaml"), text, Said::default()) {
        Ok(taken) => panic!("{text:?} is taken: {}", taken.scenario),
        Err(problems) => problems.to_string(),
    }
}

/// What is needed, and some more.
fn with(more: &str) -> String {
    format!("model: gpt2\ngpu: A100\nsequence_length: 128\n{more}\n")
}

#[test]
fn the_presets_are_what_their_settings_come_to() {
    for name in ["rtx-3090", "rtx-4090", "a100", "h100"] {
        let path = root().join(format!("examples/guides/{name}.yaml"));
        let text = fs::read_to_string(&path).expect("it ships");
        let found = guide(&path, &text, Said::default()).unwrap_or_else(|told| panic!("{told}"));
        let keys_told = found.rows.len();
        let scenario = root().join(format!("scenarios/guide-{name}.ron"));
        let read = read_scenario(&scenario, &[]).unwrap_or_else(|told| panic!("{told}"));
        // As the command writes it, which knows the machine.
        let found = found.measured(&read.hardware);
        if std::env::var_os("TIERSIM_RENEW").is_some() {
            fs::write(&scenario, &found.scenario).expect("the folder of scenarios can be written");
        }
        let ships = fs::read_to_string(&scenario).expect("it ships");
        assert_eq!(found.scenario, ships, "{name}: TIERSIM_RENEW=1 writes it anew");
        assert!(read.cases.iter().any(|case| case.label == "as the guide says"));
        let keys = text.lines().filter(|line| !line.starts_with('#') && line.contains(": "));
        assert_eq!(keys_told, keys.count(), "{name}: each key has a row");
    }
}

#[test]
fn every_key_is_taken_or_ignored_with_a_reason() {
    let text = with(
        "learning_rate: 1e-4\nnvme_path: /mnt\nfrobnicate: 7\ntags: [a, {b: c}]\n\
                     zero_stage: 2\nmax_batch_size: 8",
    );
    let rows = of(&text).rows;
    let row = |key: &str| rows.iter().find(|row| row.key == key).expect("it has a row");
    assert_eq!(row("gpu").fate, Fate::Taken("hardware: \"a100-80g-pcie4\"".to_owned()));
    for (key, why) in [
        ("learning_rate", "neither bytes nor time"),
        ("nvme_path", "a path of one computer"),
        ("frobnicate", "unknown key"),
        ("tags", "unknown key"),
        ("zero_stage", "one device has nothing to divide"),
        ("max_batch_size", "`dynamic_batching` is not on"),
    ] {
        let Fate::Ignored(said) = &row(key).fate else { panic!("{key} is taken") };
        assert!(said.contains(why), "{key}: {said}");
    }
    assert_eq!((row("frobnicate").line, row("tags").value.as_str()), (6, "a list"));
}

#[test]
fn keys_mean_the_same_in_sections_and_under_other_names() {
    let flat = with(
        "offload_optimizer: cpu\nbatch_size: 2\ngradient_checkpointing: true\n\
                     dynamic_batching: true\nmin_batch_size: 1\ngpu_memory_threshold: 0.9",
    );
    let deep = "a:\n  model_name: gpt2\n  b: {device_name: NVIDIA A100 80GB}\nmax_seq_length: 128\n\
                offload_optimizer:\n  device: cpu\nper_device_train_batch_size: 2\n\
                activation_checkpointing: {enabled: yes}\nmemory: {gpu_memory_threshold: 0.9}\n\
                dynamic_batching:\n  enabled: on\n  min_batch_size: 1\n";
    assert_eq!(of(&flat).scenario, of(deep).scenario);
    let text = of(&flat).scenario;
    for words in [
        "ZeroOffload(optimizer: \"far\")",
        "zero: (stage: 0, host_update: 1.0)",
        "micro_batch: (min: 1)",
        "critical: 0.9, emergency: 0.95",
        "checkpointing: full",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn floats_of_32_bits_are_cut_where_that_is_allowed() {
    for (more, peak) in [
        ("", "fp32"),
        ("allow_tf32: true", "tf32"),
        ("tf32: false", "fp32"),
        ("mixed_precision: bf16\nallow_tf32: true", "bf16"),
    ] {
        let text = of(&with(more)).scenario;
        assert!(text.contains(&format!("roofline(precision: {peak:?})")), "{more}: {text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let most = "a: 1\n".repeat(20_000);
    let nested = format!("{}1", "{a: ".repeat(200));
    let many: String = (0..1500).map(|key| format!("k{key}: 1\n")).collect();
    let bomb = "a: &a [x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n";
    for (text, told) in [
        (with("batch_size: some"), "s.yaml:4:1: `batch_size` is a whole number from 1 to 1048576"),
        (with("batch_size: 0"), "(found 0)"),
        (with("gpu_memory_threshold: 90"), "`gpu_memory_threshold` is a share from 0.2 to below 1"),
        (with("gpu_memory_threshold: nan"), "share"),
        (with("offload_optimizer: moon"), "is `cpu`, `nvme` or `none`"),
        (with("dynamic_batching: perhaps"), "is true or false"),
        (with("mixed_precision: fp7"), "`mixed_precision` is `bf16`, `fp16` or `no`"),
        (with("zero_stage: [1]"), "`zero_stage` is one value"),
        (with("batch_size: 1\nbatch_size: 2"), "s.yaml:5:1: a key is given twice"),
        (with("batch_size: 1\nmicro_batch_size: 2"), "`micro_batch_size` says the same"),
        (with("num_gpus: 4").replace("A100", "RTX 4090"), "no machine with 4 of these ships"),
        (with("x: 'open"), "this is no YAML"),
        (bomb.to_owned(), "s.yaml:1:4: settings have no anchors and no aliases"),
        ("a: *b".to_owned(), "this is no YAML"),
        (most, "has at most 64 KiB"),
        (many, "has at most 1000 keys"),
        (nested, "at most 8 deep"),
        ("- a\n- b\n".to_owned(), "is a mapping of keys to values"),
        ("word".to_owned(), "is a mapping of keys to values"),
        ("? {a: 1}\n: 2".to_owned(), "a key is a word"),
        (with("---\na: 1"), "one document"),
        (String::new(), "the settings do not say `model`"),
        ("model: gpt2\n".to_owned(), "do not say `gpu`"),
        ("model: \"gpt2\\u0007\"\n".to_owned(), "a model is a name"),
    ] {
        let found = refused(&text);
        let shown: String = text.chars().take(60).collect();
        assert!(found.contains(told), "{shown:?}: {told} in {found}");
    }
}

#[test]
fn the_command_says_what_settings_do_not() {
    let said = Said { model: Some("gpt2"), hardware: Some("rtx-4090") };
    let found = guide(Path::new("s.yaml"), "sequence_length: 64\n", said);
    let text = found.unwrap_or_else(|told| panic!("{told}")).scenario;
    assert!(text.contains("model: \"gpt2\"") && text.contains("hardware: \"rtx-4090\""), "{text}");
}

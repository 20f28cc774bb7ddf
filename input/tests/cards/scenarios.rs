//! `workload: Model(...)` in a scenario.

use crate::cards::files::{TINY, header, safetensors};
use crate::files::folder;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::scenario::read::read_scenario;
use tiersim_models::units::Bytes;
use tiersim_policies::scenario::{Scenario, TraceSource};
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::packed::Packed;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loader, Loss, Optimizer, Parallel, Router, Training,
    UpdateTime, Zero,
};

/// A scenario over a workload, in a project with one of the shipped machines.
fn scenario(project: &Path, workload: &str) -> PathBuf {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware-specs");
    let name = "host-layered.ron";
    fs::create_dir_all(project.join("hardware-specs")).expect("a folder is made");
    fs::copy(specs.join(name), project.join("hardware-specs").join(name)).expect("a spec");
    let text = format!(
        "Scenario(schema: 2, about: \"a model\", hardware: \"host-layered\", workload: {workload}, \
         policies: [(name: \"all\", policy: AllHbm)], expect: [fits(\"all\")])"
    );
    let path = project.join("scenario.ron");
    fs::write(&path, text).expect("the scenario is written");
    path
}

fn read(project: &Path, workload: &str) -> Scenario {
    let path = scenario(project, workload);
    read_scenario(&path, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn training(scenario: &Scenario) -> &Training {
    let TraceSource::Model(Work::Train(training)) = &scenario.workload.trace else {
        panic!("{:?}", scenario.workload.trace);
    };
    training
}

const TIME: &str = "time: roofline(precision: \"bf16\")";

/// What is served in 8 bits has its tables in the precision, what is trained in 8 bits has not.
#[test]
fn weights_of_8_bits_are_matrices_of_blocks_where_a_model_is_served() {
    let read = |formats: &str, mode: &str| {
        let text = format!("Model(model: \"gpt2\", {formats}, mode: {mode}, {TIME})");
        let scenario = read(&folder("eight-bits"), &text);
        match &scenario.workload.trace {
            TraceSource::Model(Work::Train(training)) => training.formats,
            TraceSource::Model(Work::Generate(generation)) => generation.formats,
            other => panic!("{other:?}"),
        }
    };
    let [train, generate] =
        ["train(batch: 2, sequence: 128)", "generate(batch: 1, prompt: 8, tokens: 2)"];
    let bf16 = Formats::all(Format::Bf16);
    for (word, packed, format) in
        [("fp8", Packed::Fp8, Format::Fp8), ("int8", Packed::Int8, Format::Int8)]
    {
        let said = format!("precision: bf16, formats: (weights: {word})");
        assert_eq!(read(&said, generate), Formats { packed: Some(packed), ..bf16 });
        assert_eq!(read(&said, train), Formats { weights: format, ..bf16 });
        // Of activations where no precision is said.
        let each = "gradients: bf16, activations: fp32, kv: bf16";
        let said = format!("formats: (weights: {word}, {each})");
        let wide = Formats { weights: Format::Fp32, activations: Format::Fp32, ..bf16 };
        assert_eq!(read(&said, generate), Formats { packed: Some(packed), ..wide });
        let said = format!("precision: {word}");
        assert_eq!(read(&said, generate), Formats::all(format));
    }
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let workload = format!(
        "Model(model: \"gpt2\", precision: bf16, mode: train(batch: 2, sequence: 128), {TIME})"
    );
    let scenario = read(&folder("defaults"), &workload);
    let expected = Training {
        card: known("gpt2").expect("it is known").card(),
        batch: 2,
        micro_batch: 2,
        sequence: 128,
        formats: Formats::all(Format::Bf16),
        optimizer: Optimizer::AdamW,
        update: UpdateTime::After,
        checkpointing: Checkpointing::None,
        attention: Attention::Flash,
        kernels: Kernels::Compiled,
        optimizer_kernels: None,
        loss: Loss::Eager,
        dropout: false,
        parallel: Parallel::default(),
        zero: Zero::default(),
        devices: 1,
        router: Router::default(),
        loader: None,
        lora: None,
    };
    assert_eq!(training(&scenario), &expected);
    assert_eq!((scenario.workload.ranks, scenario.warnings.len()), (1, 0));
}

#[test]
fn every_field_means_what_it_says() {
    let workload = format!(
        "Model(
            model: \"llama-2-7b\",
            precision: bf16,
            formats: (gradients: fp32, activations: int8),
            mode: train(
                batch: 4,
                micro_batch: 2,
                sequence: 1024,
                optimizer: sgd(momentum: true),
                checkpointing: every(4),
                attention: eager,
                kernels: fused,
                dropout: true,
                parallel: (data: 4, tensor: 2),
                zero: (stage: 2, host_update: 0.25, bucket: mb(100), prefetch: 3, reshard: true, overlap: false),
                loader: (workers: 4),
            ),
            {TIME},
        )"
    );
    let scenario = read(&folder("every-field"), &workload);
    let found = training(&scenario);
    let formats = Formats {
        packed: None,
        gradients: Format::Fp32,
        activations: Format::Int8,
        ..Formats::all(Format::Bf16)
    };
    assert_eq!(found.formats, formats);
    assert_eq!((found.batch, found.micro_batch, found.sequence), (4, 2, 1024));
    assert_eq!(found.optimizer, Optimizer::Sgd { momentum: true });
    assert_eq!(found.checkpointing, Checkpointing::Every(4));
    assert_eq!((found.attention, found.dropout), (Attention::Eager, true));
    assert_eq!(found.kernels, Kernels::Fused);
    assert_eq!(found.parallel, Parallel { data: 4, tensor: 2, ..Parallel::default() });
    let bucket = Bytes::new(100_000_000);
    assert_eq!(
        found.zero,
        Zero { stage: 2, host_update: 250, bucket, prefetch: 3, reshard: true, overlap: false }
    );
    assert_eq!(found.loader, Some(Loader { workers: 4, prefetch: 2, token_bytes: 8 }));
    // One device has one rank, whatever the job has.
    assert_eq!((scenario.workload.ranks, found.devices), (1, 1));
}

#[test]
fn files_of_the_model_say_sizes_and_format() {
    let project = folder("files");
    fs::write(project.join("config.json"), TINY).expect("the config is written");
    let card = |vocab: u32| {
        let model = tiersim_input::import::card::read_model(&project.join("config.json"), None);
        tiersim_workloads::transformer::Card { vocab, ..model.expect("it reads").card }
    };
    let rows: Vec<_> = card(104).stored().map(|one| (one.name, "F16", one.shape)).collect();
    let (text, data) = header(&rows);
    let weights = project.join("model.safetensors");
    fs::write(weights, safetensors(&text, data)).expect("the weights are written");
    let workload = |more: &str| {
        format!(
            "Model(model: \"config.json\", weights: \"model.safetensors\", {more} \
             mode: train(batch: 1, sequence: 16), {TIME})"
        )
    };
    let scenario = read(&project, &workload(""));
    assert_eq!(training(&scenario).card.vocab, 104);
    assert_eq!(training(&scenario).formats, Formats::all(Format::Fp16));
    let [warning] = &scenario.warnings[..] else { panic!("{:?}", scenario.warnings) };
    assert!(
        warning.to_string().starts_with("weights-differ: workload.model: the card says 100 rows")
    );
    let scenario = read(&project, &workload("precision: bf16,"));
    assert_eq!(training(&scenario).formats, Formats::all(Format::Bf16));
    let said = scenario.warnings[1].to_string();
    assert!(said.contains("the scenario says bf16 for weights (found fp16)"), "{said}");
}

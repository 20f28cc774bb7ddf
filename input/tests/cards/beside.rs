//! Files as makers published them, which lie beside the checkout in development.

use crate::files::{file, shared};
use tiersim_input::import::card::{read_model, read_weights};
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::known::known;

#[test]
fn llama_70b_is_what_its_index_says() {
    let Some(folder) = shared("model-configs") else { return };
    let config = folder.join("llama-3-70b.config.json");
    let index = folder.join("llama-3-70b.model.safetensors.index.json");
    let model = read_model(&config, Some(&index)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(model.bytes, Some(282_215_219_200));
    assert_eq!(model.card.parameters() * 4, 282_215_219_200);
    assert_eq!((model.format, model.remarks), (Some(Format::Fp32), Vec::new()));
    let names: Vec<String> = read_weights(&index).expect("it reads").names.into_iter().collect();
    let mut ours: Vec<String> = model.card.tensors().map(|tensor| tensor.name).collect();
    ours.sort();
    assert_eq!(ours, names);
    assert_eq!(ours.len(), 723);
}

#[test]
fn gpt2_and_bloom_are_the_known_ones() {
    let Some(folder) = shared("model-configs") else { return };
    for (name, file) in [("gpt2", "gpt2-small"), ("bloom-176b", "bloom-176b")] {
        let model = read_model(&folder.join(format!("{file}.config.json")), None);
        let mut card = model.unwrap_or_else(|problems| panic!("{problems}")).card;
        card.name = name.to_owned();
        assert_eq!(card, known(name).expect("it is known").card());
    }
}

#[test]
fn a_bare_header_of_gpt2_agrees_with_its_config() {
    let Some(folder) = shared("model-configs") else { return };
    let header = folder.join("gpt2.safetensors.header.json");
    let model = read_model(&folder.join("gpt2-small.config.json"), Some(&header));
    let model = model.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((model.bytes, model.format), (Some(4 * 124_439_808), Some(Format::Fp32)));
    assert_eq!((model.card.tied, model.remarks), (true, Vec::new()));
    // With the vocabulary of another config the header still wins.
    let text = std::fs::read_to_string(folder.join("gpt2-small.config.json")).expect("it reads");
    let other = file("other-vocabulary", "config.json", text.replace("50257", "50304"));
    let model = read_model(&other, Some(&header)).expect("it reads");
    assert_eq!(model.card.parameters(), 124_439_808);
    assert_eq!(model.remarks.len(), 1, "{:?}", model.remarks);
}

//! Every tensor of a small model of each type: same name and shape as in `transformers` 5.24, from
//! the `config.json` that it saves.
//!
//! `transformers/make.py` wrote both files, on PyTorch's meta device and without weights.

use crate::files::file;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_input::import::card::read_model;

type Tensors = BTreeSet<(String, Vec<u64>)>;

fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cards/transformers");
    std::fs::read_to_string(folder.join(name)).expect("the table is there")
}

/// What `transformers` has, by model.
fn theirs() -> BTreeMap<String, Tensors> {
    let mut all: BTreeMap<String, Tensors> = BTreeMap::new();
    for line in data("params.csv").lines().skip(1) {
        let [model, name, shape]: [&str; 3] =
            line.split(',').collect::<Vec<_>>().try_into().expect("three columns");
        let shape = shape.split('x').map(|size| size.parse().expect("a size")).collect();
        all.entry(model.to_owned()).or_default().insert((name.to_owned(), shape));
    }
    all
}

#[test]
fn a_saved_config_means_the_tensors_of_its_class() {
    let (theirs, configs) = (theirs(), data("configs.json"));
    let mut seen = 0;
    for line in configs.lines().filter(|line| line.starts_with(' ')) {
        let (name, config) = line.split_once(": ").expect("a name and a config");
        let name = name.trim().trim_matches('"');
        let path = file(&format!("same-{name}"), "config.json", config.trim_end_matches(','));
        let card = read_model(&path, None).unwrap_or_else(|all| panic!("{name}: {all}")).card;
        let ours: Tensors = card.tensors().map(|tensor| (tensor.name, tensor.shape)).collect();
        assert_eq!(ours, theirs[name], "{name}");
        seen += 1;
    }
    assert_eq!(seen, theirs.len());
}

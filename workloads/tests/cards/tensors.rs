//! Every tensor of eight models: same name, same shape, same order as in `transformers` 5.23, or 5.24.
//!
//! `model-cards/*.params.csv` were written by that library on PyTorch's meta device, from the
//! published dimensions and without weights.

use std::path::Path;
use tiersim_workloads::transformer::card::TensorKind;
use tiersim_workloads::transformer::known::known;

fn rows(name: &str) -> Vec<(String, Vec<u64>, u64)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model-cards");
    let text = std::fs::read_to_string(folder.join(format!("{name}.params.csv")));
    let text = text.expect("the table is there");
    let rows = text.lines().skip(1).map(|line| {
        let [name, shape, numel]: [&str; 3] =
            line.split(',').collect::<Vec<_>>().try_into().expect("three columns");
        let shape = shape.split('x').map(|size| size.parse().expect("a size")).collect();
        (name.to_owned(), shape, numel.parse().expect("a number"))
    });
    rows.collect()
}

/// Same tensors, and the total that their numbers amount to.
fn check(name: &str, total: u64) {
    let card = known(name).expect("it is known").card();
    let ours: Vec<_> =
        card.tensors().map(|t| (t.name.clone(), t.shape.clone(), t.numel())).collect();
    let theirs = rows(name);
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!(our, their, "{name}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}");
    assert_eq!(theirs.iter().map(|row| row.2).sum::<u64>(), total, "{name}");
    assert_eq!(card.parameters(), total, "{name}");
}

#[test]
fn tensors_are_those_of_the_makers_code() {
    check("gpt2", 124_439_808);
    check("llama-3-8b", 8_030_261_248);
    check("mixtral-8x7b", 46_702_792_704);
    check("opt-30b", 29_974_540_288);
    check("opt-175b", 174_604_468_224);
    check("gemma-3-1b", 999_885_952);
    check("deepseek-v2-lite", 15_706_484_224);
    check("deepseek-v3", 671_026_404_352);
}

#[test]
fn a_tensor_says_its_module_block_and_kind() {
    let card = known("mixtral-8x7b").expect("it is known").card();
    let of = |name: &str| card.tensors().find(|tensor| tensor.name == name).expect(name);
    let experts = of("model.layers.31.mlp.experts.down_proj");
    assert_eq!(experts.module(), "model.layers.31.mlp.experts");
    assert_eq!((experts.block, experts.kind), (Some(31), TensorKind::Expert));
    assert_eq!(of("model.layers.0.mlp.gate.weight").kind, TensorKind::Router);
    let norm = of("model.norm.weight");
    assert_eq!((norm.module(), norm.block, norm.kind), ("model.norm", None, TensorKind::Norm));
    assert_eq!(of("model.embed_tokens.weight").kind, TensorKind::Embedding);
    assert_eq!(of("lm_head.weight").kind, TensorKind::Head);
}

#[test]
fn experts_are_stored_one_by_one() {
    for name in ["mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "phi-3.5-moe"] {
        let card = known(name).expect("it is known").card();
        let experts = card.experts.expect("it has experts");
        let stored: Vec<_> = card.stored().collect();
        assert_eq!(stored.iter().map(|tensor| tensor.numel()).sum::<u64>(), card.parameters());
        let matrices = stored.iter().filter(|tensor| tensor.kind == TensorKind::Expert).count();
        assert_eq!(matrices as u32, 3 * experts.count * card.layers, "{name}");
    }
    // 1,739 tensors of Mixtral 8x22B's weights, as their index lists them.
    assert_eq!(known("mixtral-8x22b").expect("it is known").card().stored().count(), 1739);
}

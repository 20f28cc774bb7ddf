//! A card and the weights' own table: where they disagree, the weights win.
//!
//! What a checkpoint of a model may have changed is corrected and said: rows of the vocabulary or
//! of the positions, a head of its own, the format of its numbers. Another number of blocks or
//! another width is another model, and is refused.
//! Invariant: a card that is returned has the parameters of the table, or a remark says of which
//! tensors it does not.

use super::ModelFiles;
use super::tensors::{Stored, WeightTable};
use crate::text::check::MAX_PROBLEMS;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::card::{Tensor, TensorKind};
use tiersim_workloads::transformer::format::Format;

/// The model with the sizes of its weights; `card` is the file of the card, `path` that of the
/// table.
pub(super) fn apply(
    mut model: ModelFiles,
    card: &Path,
    table: &WeightTable,
    path: &Path,
) -> Result<ModelFiles, Diagnostics> {
    let names: BTreeSet<&str> = table.names.iter().map(|name| bare(name)).collect();
    let tensors: BTreeMap<&str, &Stored> =
        table.tensors.iter().map(|tensor| (bare(&tensor.name), tensor)).collect();
    let remarks = &mut model.remarks;
    head(&mut model.card, &names, &tensors, remarks);
    tables(&mut model.card, &tensors, remarks);
    let mut problems = Diagnostics::default();
    let expected = layout(&model.card, &names);
    missing(&model.card, &expected, &names, (card, path), &mut problems);
    if problems.0.is_empty() {
        shapes(&expected, &tensors, (card, path), &mut problems, remarks);
    }
    for problem in model.card.problems() {
        problems.push(path, None, problem.rule, "", problem.remedy);
    }
    if !problems.0.is_empty() {
        return Err(problems);
    }
    let format = match table.tensors.is_empty() {
        false => table.format(),
        true => per_parameter(&model.card, table.bytes, model.format),
    };
    others(&expected, &names, &tensors, remarks);
    amount(&model.card, table.bytes, format, remarks);
    if let (Some(said), Some(stored)) = (model.format, format)
        && said != stored
    {
        remarks.push(format!("the card says {}, the weights are {}", said.word(), stored.word()));
    }
    model.format = format.or(model.format);
    model.bytes = Some(table.bytes);
    Ok(model)
}

/// A name without what classes put before it: files are written by the model with or without its
/// head.
fn bare(name: &str) -> &str {
    let name = name.strip_prefix("model.").or(name.strip_prefix("transformer.")).unwrap_or(name);
    name.strip_prefix("decoder.").unwrap_or(name)
}

/// Every tensor by its bare name, experts one by one or all in one as the table has them.
fn layout(card: &Card, names: &BTreeSet<&str>) -> Vec<Tensor> {
    let loaded: Vec<Tensor> = card.tensors().collect();
    let together = |tensor: &Tensor| tensor.kind == TensorKind::Expert;
    match loaded.iter().find(|tensor| together(tensor)) {
        Some(first) if !names.contains(bare(&first.name)) => card.stored().collect(),
        _ => loaded,
    }
}

/// Whether the head is the embedding's matrix.
fn head(
    card: &mut Card,
    names: &BTreeSet<&str>,
    tensors: &BTreeMap<&str, &Stored>,
    remarks: &mut Vec<String>,
) {
    let embedding = embedding(card);
    let (own, table) = (names.contains("lm_head.weight"), names.contains(embedding.as_str()));
    if card.tied && own && table {
        // Where both have data, the file holds the matrix twice.
        if ["lm_head.weight", &embedding].iter().all(|name| tensors.contains_key(name)) {
            card.tied = false;
            remarks.push(
                "the card says that the head is the embedding's matrix, and the weights have one for each: \
                 both count"
                    .to_owned(),
            );
        }
    } else if !card.tied && !own && table {
        card.tied = true;
        remarks.push(
            "the card says that the head has a matrix of its own, and the weights have none: it is the \
             embedding's"
                .to_owned(),
        );
    }
}

/// The bare name of the table of tokens.
fn embedding(card: &Card) -> String {
    let (before, _) = card.around();
    before.first().map_or(String::new(), |part| bare(&part.name).to_owned())
}

/// Rows of the tables.
fn tables(card: &mut Card, tensors: &BTreeMap<&str, &Stored>, remarks: &mut Vec<String>) {
    let (before, _) = card.around();
    let tables = before.iter().filter(|part| part.kind == TensorKind::Embedding);
    for (index, part) in tables.enumerate() {
        let stored = tensors.get(bare(&part.name));
        // A tied matrix may be stored under the head's name.
        let stored = stored.or_else(|| tensors.get("lm_head.weight").filter(|_| index == 0));
        let Some(stored) = stored.filter(|stored| stored.shape.len() == 2) else { continue };
        let (rows, said) = (stored.shape[0], part.shape[0]);
        if rows == said || stored.shape[1] != part.shape[1] {
            continue;
        }
        let Ok(rows) = u32::try_from(rows) else { continue };
        let what = if index == 0 { "tokens" } else { "positions" };
        remarks.push(format!(
            "the card says {said} rows of {what}, the weights have {rows}: {rows} count"
        ));
        match index {
            0 => card.vocab = rows,
            // Two rows of OPT's table are for padding.
            _ => card.positions = rows.saturating_sub(said as u32 - card.positions),
        }
    }
}

/// Tensors of the card that the table lacks, and blocks that it has besides.
fn missing(
    card: &Card,
    expected: &[Tensor],
    names: &BTreeSet<&str>,
    (file, path): (&Path, &Path),
    problems: &mut Diagnostics,
) {
    let alias = embedding(card);
    let there = |name: &str| {
        // The head's name may stand for both, if they are one.
        names.contains(name) || card.tied && name == alias && names.contains("lm_head.weight")
    };
    let absent: Vec<&Tensor> =
        expected.iter().filter(|tensor| !there(bare(&tensor.name))).collect();
    if let Some(first) = absent.first() {
        let rule = format!(
            "these are not the weights of {}: {} of its {} tensors are missing",
            file.display(),
            absent.len(),
            expected.len()
        );
        let remedy = "name the weights of the same model";
        problems.push(path, None, rule, format!("no `{}`", first.name), remedy);
    }
    let beyond = card.block_prefix(card.layers);
    if let Some(name) =
        names.range(bare(&beyond)..).next().filter(|name| name.starts_with(bare(&beyond)))
    {
        let rule = format!(
            "these are not the weights of {}, which has {} blocks",
            file.display(),
            card.layers
        );
        problems.push(
            path,
            None,
            rule,
            format!("`{name:.120}`"),
            "name the weights of the same model",
        );
    }
}

/// Shapes that differ. Numbers that are packed into others have other shapes.
fn shapes(
    expected: &[Tensor],
    tensors: &BTreeMap<&str, &Stored>,
    (file, path): (&Path, &Path),
    problems: &mut Diagnostics,
    remarks: &mut Vec<String>,
) {
    let mut packed = 0;
    for tensor in expected {
        let Some(stored) = tensors.get(bare(&tensor.name)) else { continue };
        if stored.shape == tensor.shape {
            continue;
        }
        if matches!(stored.dtype.word, "U8" | "I32" | "U32") {
            packed += 1;
        } else if problems.0.len() < MAX_PROBLEMS {
            let rule = format!(
                "these are not the weights of {}: `{}` has the shape {:?}",
                file.display(),
                tensor.name,
                tensor.shape
            );
            let found = format!("{:.80}", format!("{:?}", stored.shape));
            problems.push(path, None, rule, found, "name the weights of the same model");
        }
    }
    if packed > 0 {
        remarks.push(format!(
            "the numbers of {packed} tensors are packed into others: their shapes are the card's, their \
             bytes the weights'"
        ));
    }
}

/// Tensors of the table that the card lacks: scales of quantised weights, masks.
fn others(
    expected: &[Tensor],
    names: &BTreeSet<&str>,
    tensors: &BTreeMap<&str, &Stored>,
    remarks: &mut Vec<String>,
) {
    let mut known: BTreeSet<&str> = expected.iter().map(|tensor| bare(&tensor.name)).collect();
    known.insert("lm_head.weight");
    let other: Vec<&&str> = names.difference(&known).collect();
    let Some(first) = other.first() else { return };
    let bytes: u64 = other.iter().filter_map(|name| tensors.get(**name)).map(|one| one.bytes).sum();
    let held = if tensors.is_empty() { String::new() } else { format!(", {bytes} bytes") };
    remarks.push(format!(
        "{} tensors of the weights are none of the card's, such as `{first:.120}`{held}: they are not in \
         traces",
        other.len()
    ));
}

/// The format of weights of which only all bytes are known: one of the card's, or the usual one, of
/// as many bytes.
fn per_parameter(card: &Card, bytes: u64, said: Option<Format>) -> Option<Format> {
    let each =
        (u128::from(bytes) + u128::from(card.parameters()) / 2) / u128::from(card.parameters());
    if let Some(said) = said.filter(|said| u128::from(said.bytes()) == each) {
        return Some(said);
    }
    match each {
        4 => Some(Format::Fp32),
        2 => Some(Format::Bf16),
        1 => Some(Format::Int8),
        _ => None,
    }
}

/// What the card amounts to in the format of the weights, and what they have.
fn amount(card: &Card, bytes: u64, format: Option<Format>, remarks: &mut Vec<String>) {
    let parameters = card.parameters();
    match format {
        Some(format) if u128::from(parameters) * u128::from(format.bytes()) == u128::from(bytes) => {}
        Some(format) => {
            let ours = u128::from(parameters) * u128::from(format.bytes());
            let word = format.word();
            remarks.push(format!(
                "{parameters} parameters of {word} have {ours} bytes, the weights {bytes}: {}",
                difference(ours, bytes.into())
            ));
        }
        None => remarks.push(format!(
            "the weights have {bytes} bytes for {parameters} parameters, which is no known format: say \
             which one they have when they are used"
        )),
    }
}

fn difference(ours: u128, theirs: u128) -> String {
    let (more, word) = match theirs > ours {
        true => (theirs - ours, "more"),
        false => (ours - theirs, "fewer"),
    };
    let permille = more * 1000 / ours.max(1);
    format!("{more} {word} ({}.{} %)", permille / 10, permille % 10)
}

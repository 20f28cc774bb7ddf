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
use tiersim_workloads::transformer::card::{CardTensor, Tensor, TensorKind};
use tiersim_workloads::transformer::format::Format;

/// The model with the sizes of its weights; `card` is the file of the card, `path` that of the
/// table.
pub(super) fn apply(
    mut model: ModelFiles,
    card: &Path,
    table: &WeightTable,
    path: &Path,
) -> Result<ModelFiles, Diagnostics> {
    let names = table.names.iter().map(|name| bare(name)).collect();
    let tensors = table.tensors.iter().map(|tensor| (bare(&tensor.name), tensor)).collect();
    let problems = Diagnostics::default();
    let remarks = std::mem::take(&mut model.remarks);
    let mut check = Check { names, tensors, file: card, path, problems, remarks };
    check.head(&mut model.card);
    check.tables(&mut model.card);
    let expected = check.layout(&model.card);
    check.missing(&model.card, &expected);
    if check.problems.0.is_empty() {
        check.shapes(&expected);
    }
    for problem in model.card.problems() {
        check.problems.push(path, None, problem.rule, "", problem.remedy);
    }
    if !check.problems.0.is_empty() {
        return Err(check.problems);
    }
    let format = match table.tensors.is_empty() {
        false => table.format(),
        true => per_parameter(&model.card, table.bytes, model.format),
    };
    check.others(&expected);
    let mut remarks = check.remarks;
    remarks.extend(amount(&model.card, table.bytes, format));
    if let (Some(said), Some(stored)) = (model.format, format)
        && said != stored
    {
        remarks.push(format!("the card says {}, the weights are {}", said.word(), stored.word()));
    }
    model.format = format.or(model.format);
    model.bytes = Some(table.bytes);
    model.remarks = remarks;
    Ok(model)
}

/// A name without what classes put before it: files are written by the model with or without its
/// head.
fn bare(name: &str) -> &str {
    let name = name.strip_prefix("model.").or(name.strip_prefix("transformer.")).unwrap_or(name);
    name.strip_prefix("decoder.").unwrap_or(name)
}

/// A card's file and the weights' table side by side: what is wrong, and what is said besides.
struct Check<'a> {
    /// Bare names of all tensors of the table.
    names: BTreeSet<&'a str>,
    /// Those of which more is known.
    tensors: BTreeMap<&'a str, &'a Stored>,
    file: &'a Path,
    path: &'a Path,
    problems: Diagnostics,
    remarks: Vec<String>,
}

impl Check<'_> {
    /// Every tensor by its bare name, experts one by one or all in one as the table has them.
    fn layout(&self, card: &Card) -> Vec<Tensor> {
        let loaded: Vec<Tensor> = card.tensors().collect();
        let together = |tensor: &Tensor| tensor.kind == TensorKind::Expert;
        let tensors = match loaded.iter().find(|tensor| together(tensor)) {
            Some(first) if !self.names.contains(bare(&first.name)) => card.stored().collect(),
            _ => loaded,
        };
        let joined: [(&str, &[&str]); 2] = [
            ("qkv_proj", &["q_proj", "k_proj", "v_proj"]),
            ("gate_up_proj", &["gate_proj", "up_proj"]),
        ];
        joined.into_iter().fold(tensors, |tensors, (one, parts)| self.joined(tensors, one, parts))
    }

    /// Matrices as one, where the table has them so: their rows follow each other.
    fn joined(&self, tensors: Vec<Tensor>, one: &str, parts: &[&str]) -> Vec<Tensor> {
        let mut found: Vec<Tensor> = Vec::new();
        for tensor in tensors {
            let part = parts.iter().position(|part| tensor.name.contains(&format!(".{part}.")));
            let name = part.map(|at| tensor.name.replace(parts[at], one));
            match name.filter(|name| self.names.contains(bare(name))) {
                None => found.push(tensor),
                Some(name) if part == Some(0) => found.push(Tensor { name, ..tensor }),
                Some(_) => {
                    let first = found.last_mut().expect("the first part comes first");
                    first.shape[0] += tensor.shape[0];
                }
            }
        }
        found
    }

    /// Whether the head is the embedding's matrix.
    fn head(&mut self, card: &mut Card) {
        let embedding = embedding(card);
        let (own, table) =
            (self.names.contains("lm_head.weight"), self.names.contains(embedding.as_str()));
        if card.tied && own && table {
            // Where both have data, the file holds the matrix twice.
            if ["lm_head.weight", &embedding].iter().all(|name| self.tensors.contains_key(name)) {
                card.tied = false;
                self.remarks.push(
                    "the card says that the head is the embedding's matrix, and the weights have \
                     one for each: both count"
                        .to_owned(),
                );
            }
        } else if !card.tied && !own && table {
            card.tied = true;
            self.remarks.push(
                "the card says that the head has a matrix of its own, and the weights have none: \
                 it is the embedding's"
                    .to_owned(),
            );
        }
    }

    /// Rows of the tables.
    fn tables(&mut self, card: &mut Card) {
        let (before, _) = card.around();
        let is_type = |part: &&CardTensor| part.name.contains("token_type");
        let tables = before.iter().filter(|part| part.kind == TensorKind::Embedding);
        let tables = tables.filter(|part| !is_type(part));
        for (index, part) in tables.enumerate() {
            let stored = self.tensors.get(bare(&part.name));
            // A tied matrix may be stored under the head's name.
            let stored =
                stored.or_else(|| self.tensors.get("lm_head.weight").filter(|_| index == 0));
            let Some(stored) = stored.filter(|stored| stored.shape.len() == 2) else { continue };
            let (rows, said) = (stored.shape[0], part.shape[0]);
            if rows == said || stored.shape[1] != part.shape[1] {
                continue;
            }
            let Ok(rows) = u32::try_from(rows) else { continue };
            let what = if index == 0 { "tokens" } else { "positions" };
            self.remarks.push(format!(
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
    fn missing(&mut self, card: &Card, expected: &[Tensor]) {
        let alias = embedding(card);
        let there = |name: &str| {
            // The head's name may stand for both, if they are one.
            self.names.contains(name)
                || card.tied && name == alias && self.names.contains("lm_head.weight")
        };
        let absent: Vec<&Tensor> =
            expected.iter().filter(|tensor| !there(bare(&tensor.name))).collect();
        if let Some(first) = absent.first() {
            let rest = format!(": {} of its {} tensors are missing", absent.len(), expected.len());
            self.another_model(&rest, format!("no `{}`", first.name));
        }
        let beyond = card.block_prefix(card.layers);
        if let Some(name) =
            self.names.range(bare(&beyond)..).next().filter(|name| name.starts_with(bare(&beyond)))
        {
            let rest = format!(", which has {} blocks", card.layers);
            self.another_model(&rest, format!("`{name:.120}`"));
        }
    }

    /// Shapes that differ. Numbers that are packed into others have other shapes.
    fn shapes(&mut self, expected: &[Tensor]) {
        let mut packed = 0;
        for tensor in expected {
            let Some(stored) = self.tensors.get(bare(&tensor.name)) else { continue };
            if stored.shape == tensor.shape {
                continue;
            }
            if matches!(stored.dtype.word, "U8" | "I32" | "U32") {
                packed += 1;
            } else if self.problems.0.len() < MAX_PROBLEMS {
                let rest = format!(": `{}` has the shape {:?}", tensor.name, tensor.shape);
                let found = format!("{:.80}", format!("{:?}", stored.shape));
                self.another_model(&rest, found);
            }
        }
        if packed > 0 {
            self.remarks.push(format!(
                "the numbers of {packed} tensors are packed into others: their shapes are the \
                 card's, their bytes the weights'"
            ));
        }
    }

    /// Tensors of the table that the card lacks: scales of quantised weights, masks.
    fn others(&mut self, expected: &[Tensor]) {
        let mut known: BTreeSet<&str> = expected.iter().map(|tensor| bare(&tensor.name)).collect();
        known.insert("lm_head.weight");
        let other: Vec<&&str> = self.names.difference(&known).collect();
        let Some(first) = other.first() else { return };
        let bytes: u64 =
            other.iter().filter_map(|name| self.tensors.get(**name)).map(|one| one.bytes).sum();
        let held = if self.tensors.is_empty() { String::new() } else { format!(", {bytes} bytes") };
        self.remarks.push(format!(
            "{} tensors of the weights are none of the card's, such as `{first:.120}`{held}: they \
             are not in traces",
            other.len()
        ));
    }

    /// That the weights are those of another model.
    fn another_model(&mut self, rest: &str, found: String) {
        let rule = format!("these are not the weights of {}{rest}", self.file.display());
        self.problems.push(self.path, None, rule, found, "name the weights of the same model");
    }
}

/// The bare name of the table of tokens.
fn embedding(card: &Card) -> String {
    let (before, _) = card.around();
    before.first().map_or(String::new(), |part| bare(&part.name).to_owned())
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

/// Where the card amounts to other bytes in the format of the weights than they have.
fn amount(card: &Card, bytes: u64, format: Option<Format>) -> Option<String> {
    let parameters = card.parameters();
    let Some(format) = format else {
        return Some(format!(
            "the weights have {bytes} bytes for {parameters} parameters, which is no known format: \
             say which one they have when they are used"
        ));
    };
    let ours = u128::from(parameters) * u128::from(format.bytes());
    let (word, difference) = (format.word(), difference(ours, bytes.into()));
    (ours != u128::from(bytes)).then(|| {
        format!(
            "{parameters} parameters of {word} have {ours} bytes, the weights {bytes}: {difference}"
        )
    })
}

fn difference(ours: u128, theirs: u128) -> String {
    let (more, word) = match theirs > ours {
        true => (theirs - ours, "more"),
        false => (ours - theirs, "fewer"),
    };
    let permille = more * 1000 / ours.max(1);
    format!("{more} {word} ({}.{} %)", permille / 10, permille % 10)
}

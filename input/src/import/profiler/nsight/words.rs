//! Words of the PyTorch profiler for what Nsight Systems says in numbers, and what texts of ranges
//! say.
//!
//! Invariant: a copy is called as the profiler would call it.

use super::super::values::Shapes;
use serde::de::Deserialize;
use std::collections::BTreeMap;

/// `CUpti_ActivityMemcpyKind`.
const COPIES: [&str; 11] =
    ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];

/// Kinds of memory, as `ENUM_CUDA_MEM_KIND` numbers them.
const MEMORY: [&str; 7] =
    ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];

/// What Nsight Systems itself calls kinds of copies and of memory, and operations on memory, in the
/// numbers that they have here. Its tables of such words come with an export, and go before numbers.
const LABELS: [(&str, &[(&str, i64)]); 3] = [
    (
        "ENUM_CUDA_MEMCPY_OPER",
        &[
            ("unknown", 0),
            ("host-to-device", 1),
            ("device-to-host", 2),
            ("host-to-array", 3),
            ("array-to-host", 4),
            ("array-to-array", 5),
            ("array-to-device", 6),
            ("device-to-array", 7),
            ("device-to-device", 8),
            ("host-to-host", 9),
            ("peer-to-peer", 10),
            ("unified host-to-device", 1),
            ("unified device-to-host", 2),
            ("unified device-to-device", 8),
        ],
    ),
    (
        "ENUM_CUDA_MEM_KIND",
        &[
            ("pageable", 0),
            ("pinned", 1),
            ("device", 2),
            ("array", 3),
            ("managed", 4),
            ("device static", 5),
            ("managed static", 6),
            ("unknown", 7),
        ],
    ),
    ("ENUM_CUDA_DEV_MEM_EVENT_OPER", &[("allocation", 0), ("deallocation", 1)]),
];

/// Numbers of an export's own, by the label of each, as the numbers here.
#[derive(Debug, Default)]
pub(super) struct Numbers([BTreeMap<i64, i64>; 3]);

/// Which of its tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Words {
    Copies,
    Memory,
    Operations,
}

impl Numbers {
    /// Names of the tables.
    pub(super) const TABLES: [&'static str; 3] = [LABELS[0].0, LABELS[1].0, LABELS[2].0];

    /// Takes a row of one of them.
    pub(super) fn take(&mut self, table: usize, id: i64, label: &str) {
        let label = label.trim().to_ascii_lowercase().replace('_', "-");
        let known = LABELS[table].1.iter().find(|(word, _)| *word == label);
        if let Some(&(_, number)) = known.filter(|_| self.0[table].len() < 64) {
            self.0[table].insert(id, number);
        }
    }

    /// What a number of the export's is here.
    pub(super) fn of(&self, words: Words, number: Option<i64>) -> Option<i64> {
        let number = number?;
        Some(self.0[words as usize].get(&number).copied().unwrap_or(match (words, number) {
            // Copies of unified memory are copies, where no table says so.
            (Words::Copies, 11) => 1,
            (Words::Copies, 12) => 2,
            (Words::Copies, 13) => 8,
            _ => number,
        }))
    }
}

/// What a kind of memory is called.
pub(super) fn memory(kind: Option<i64>) -> Option<&'static str> {
    MEMORY.get(usize::try_from(kind?).ok()?).copied()
}

/// Whether a kind of memory is the host's.
pub(super) fn is_host(kind: Option<i64>) -> bool {
    matches!(kind, Some(0 | 1))
}

/// The name of a copy of this kind, between these kinds of memory.
pub(super) fn copy(kind: Option<i64>, from: Option<i64>, to: Option<i64>) -> String {
    let kind = kind.and_then(|kind| usize::try_from(kind).ok()).unwrap_or(0);
    let kind = COPIES.get(kind).unwrap_or(&COPIES[0]);
    match (memory(from), memory(to)) {
        (Some(from), Some(to)) => format!("Memcpy {kind} ({from} -> {to})"),
        _ => format!("Memcpy {kind}"),
    }
}

/// The name of a fill of this kind of memory.
pub(super) fn fill(kind: Option<i64>) -> String {
    memory(kind).map_or_else(|| "Memset".to_owned(), |kind| format!("Memset ({kind})"))
}

/// What the text of a range says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    pub(super) name: String,
    /// Whether it is an op of PyTorch, and no range of the program.
    pub(super) op: bool,
    pub(super) sequence: Option<i64>,
    pub(super) shapes: Vec<Vec<i64>>,
}

/// Reads the text of a range: `torch.autograd.profiler.emit_nvtx` writes `aten::mm, seq = 3, op_id =
/// 7, sizes = [[2, 3], [3, 4]]`; programs number their steps in words of their own.
pub(super) fn said(text: &str) -> Said {
    const MARKS: [&str; 3] = [", seq = ", ", op_id = ", ", sizes = "];
    if let Some(number) = step(text) {
        return Said { name: format!("ProfilerStep#{number}"), ..Said::default() };
    }
    let behind = |mark: &str| text.find(mark).map(|at| &text[at + mark.len()..]);
    let end = MARKS.iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
    let name = text[..end].to_owned();
    let sequence = behind(MARKS[0]).and_then(|rest| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    });
    let shapes = behind(MARKS[2]).and_then(|rest| {
        let mut parser = serde_json::Deserializer::from_str(rest);
        Shapes::deserialize(&mut parser).ok().map(|shapes| shapes.0)
    });
    let op = end < text.len() || name.starts_with("aten::") || name.starts_with("autograd::");
    Said { name, op, sequence, shapes: shapes.unwrap_or_default() }
}

/// The number of a step that a program counts: `step 3`, `iteration_3`, `Iter: 3`.
fn step(text: &str) -> Option<u32> {
    const WORDS: [&str; 5] = ["iteration", "iter", "training step", "train_step", "step"];
    let lower = text.trim().to_ascii_lowercase();
    let rest = WORDS.iter().find_map(|word| lower.strip_prefix(word))?;
    let digits = rest.trim_start_matches([' ', '_', '#', ':', '-', '=']);
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::{Said, copy, fill, said};

    #[test]
    fn copies_are_called_as_the_profiler_calls_them() {
        assert_eq!(copy(Some(1), Some(1), Some(2)), "Memcpy HtoD (Pinned -> Device)");
        assert_eq!(copy(Some(10), Some(2), Some(2)), "Memcpy PtoP (Device -> Device)");
        assert_eq!(copy(Some(2), None, None), "Memcpy DtoH");
        assert_eq!(copy(Some(-1), Some(99), None), "Memcpy Unknown");
        assert_eq!(
            (fill(Some(2)), fill(Some(0xFFFF))),
            ("Memset (Device)".into(), "Memset".into())
        );
    }

    #[test]
    fn texts_of_ranges_say_ops_steps_and_anything() {
        let name = |text: &str| said(text).name;
        for (text, wanted) in [
            ("step 3", "ProfilerStep#3"),
            ("iteration_17", "ProfilerStep#17"),
            ("Iter: 4", "ProfilerStep#4"),
            ("Training step 5", "ProfilerStep#5"),
            ("step", "step"),
            ("stepwise 3", "stepwise 3"),
            ("step 99999999999", "step 99999999999"),
            ("forward", "forward"),
        ] {
            assert_eq!(name(text), wanted);
        }
        let op = said("aten::mm, seq = 3, op_id = 7, sizes = [[2, 3], [3, 4]], input_op_ids = []");
        let shapes = vec![vec![2, 3], vec![3, 4]];
        let wanted = Said { name: "aten::mm".into(), op: true, sequence: Some(3), shapes };
        assert_eq!(op, wanted);
        assert_eq!(said("aten::t, sizes = [[2").shapes, Vec::<Vec<i64>>::new());
        assert!(!said("block 3").op);
    }
}

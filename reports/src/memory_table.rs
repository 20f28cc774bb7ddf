//! An account of memory as text and as JSON.
//!
//! Invariant: bytes are printed whole; GB (10^9) and GiB (2^30) stand beside them, never instead.

use crate::text_table::{Side, cells, text_table};
use crate::{ChartError, pretty};
use serde::{Serialize, Serializer};
use tiersim_models::results::memory_account::{Account, Constant, Line, Place, Value};

/// Version of the meaning of the keys.
pub const MEMORY_SCHEMA: u32 = 1;

/// A value of JSON whose whole numbers may be of 128 bits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Json {
    Whole(u128),
    /// A difference of two of them.
    Signed(i128),
    /// What is not finite is written as `null`.
    Number(f64),
    Text(String),
    Flag(bool),
    Nothing,
    List(Vec<Json>),
    Map(#[serde(serialize_with = "as_map")] Vec<(String, Json)>),
}

fn as_map<S: Serializer>(all: &[(String, Json)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(all.iter().map(|(key, value)| (key, value)))
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Json {
        match value {
            Value::Whole(number) => Json::Whole(*number),
            Value::Number(number) => Json::Number(*number),
            Value::Word(word) => Json::Text(word.clone()),
        }
    }
}

/// Builds maps.
pub(crate) fn entry(key: &str, value: impl Into<Json>) -> (String, Json) {
    (key.to_owned(), value.into())
}

impl From<u128> for Json {
    fn from(number: u128) -> Json {
        Json::Whole(number)
    }
}

impl From<f64> for Json {
    fn from(number: f64) -> Json {
        Json::Number(number)
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or(Json::Nothing, Into::into)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

/// Model state of a rank on its GPU.
const STATE: [&str; 3] = ["weights", "gradients", "optimizer"];

/// The key of a line: places beside the GPU say their name.
fn key(line: &Line) -> String {
    match line.place {
        Place::Gpu => format!("{}_bytes", line.key),
        place => format!("{}_{}_bytes", line.key, place.word()),
    }
}

/// The account as JSON, described in docs/howto/memory.md. `version` is tiersim's own.
pub fn memory_json(account: &Account, version: &str) -> Result<String, ChartError> {
    pretty(&Json::Map(entries(account, version)))
}

pub(crate) fn entries(account: &Account, version: &str) -> Vec<(String, Json)> {
    let mut all = vec![
        entry("schema", u128::from(MEMORY_SCHEMA)),
        entry("tiersim", version),
        entry("about", account.title.as_str()),
        entry("gpu_bytes", account.gpu),
        entry("cpu_bytes_per_node", account.cpu_per_node),
        entry("nvme_bytes_per_node", account.nvme_per_node),
    ];
    if account.lines.iter().any(|line| STATE.contains(&line.key)) {
        let state = STATE.map(|key| account.bytes(key, Place::Gpu));
        all.push(entry("model_state_bytes", state.iter().sum::<u128>()));
        let away = |key: &&&str| account.bytes(key, Place::Gpu) == 0;
        all.extend(STATE.iter().filter(away).map(|key| entry(&format!("{key}_bytes"), 0)));
    }
    all.extend(account.lines.iter().map(|line| entry(&key(line), line.bytes)));
    let constants = account.constants.iter();
    let constants = constants.map(|Constant { key, value, .. }| (key.to_string(), value.into()));
    all.push(entry("constants", Json::Map(constants.collect())));
    let part = |line: &Line| {
        Json::Map(vec![
            entry("key", key(line).as_str()),
            entry("name", line.name),
            entry("place", place(line.place)),
            entry("bytes", line.bytes),
            entry("formula", line.formula.as_str()),
        ])
    };
    all.push(entry("parts", Json::List(account.lines.iter().map(part).collect())));
    let notes = account.notes.iter().map(|note| Json::Text(note.clone()));
    all.push(entry("notes", Json::List(notes.collect())));
    all
}

/// The word for a place in results.
fn place(place: Place) -> &'static str {
    match place {
        Place::Gpu => "gpu",
        other => other.word(),
    }
}

/// A whole number in groups of three.
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A name, and bytes, GB and GiB.
fn amounts(name: &str, bytes: u128) -> Vec<String> {
    let (gb, gib) = (bytes as f64 / 1e9, bytes as f64 / (1u64 << 30) as f64);
    vec![name.to_owned(), grouped(bytes), format!("{gb:.3}"), format!("{gib:.3}")]
}

const SIDES: [Side; 4] = [Side::Left, Side::Right, Side::Right, Side::Right];

/// The account as text.
pub fn memory_text(account: &Account) -> String {
    let mut text = format!("{}\n\n", account.title);
    let mut constants = Vec::new();
    for Constant { name, value, .. } in &account.constants {
        let value = match value {
            Value::Whole(number) => grouped(*number),
            Value::Number(number) => number.to_string(),
            Value::Word(word) => word.clone(),
        };
        constants.push(vec![name.to_string(), value]);
    }
    text += &text_table(2, &SIDES, &constants);
    let mut rows = Vec::new();
    for (heading, of) in [
        ("per GPU", Place::Gpu),
        ("host memory per rank", Place::Cpu),
        ("NVMe per rank", Place::Nvme),
    ] {
        let lines: Vec<&Line> = account.lines.iter().filter(|line| line.place == of).collect();
        if lines.is_empty() && of != Place::Gpu {
            continue;
        }
        rows.extend([Vec::new(), cells([heading, "bytes", "GB", "GiB", "formula"])]);
        rows.extend(lines.iter().map(|line| {
            let mut row = amounts(line.name, line.bytes);
            row.push(line.formula.to_string());
            row
        }));
    }
    rows.extend([
        Vec::new(),
        cells(["all", "bytes", "GB", "GiB"]),
        amounts("per GPU", account.gpu),
        amounts("host memory per node", account.cpu_per_node),
        amounts("NVMe per node", account.nvme_per_node),
    ]);
    text += &text_table(2, &SIDES, &rows);
    if !account.notes.is_empty() {
        text.push('\n');
    }
    for note in &account.notes {
        text += &format!("  note: {note}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_groups_of_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_345_678, "12,345,678"),
            (u128::MAX, "340,282,366,920,938,463,463,374,607,431,768,211,455"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn large_amounts_stay_apart() {
        let rows = [1, 20_480_590_490_084_179_968, u128::MAX].map(|bytes| amounts("all", bytes));
        let table = text_table(0, &SIDES, &rows);
        assert!(table.lines().all(|line| line.split_whitespace().count() == 4), "{table}");
    }
}

//! `summary.json` as the page reads it: the contract of docs/reference/summary.md, and nothing beside it.
//!
//! A page shows what the file says, so whoever has the file can make the page, and page and file
//! cannot disagree. Figures are kept as the numbers that they are in the file.
//! Invariant: whatever bytes come in, the answer is a summary or a sentence; places are those of
//! the file.

use crate::measure::Measure;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::results::MACHINE;

/// The version of the contract that is read.
const SCHEMA: u64 = 1;

/// Numbers by name, in the order of the file; null where there is none.
pub(crate) type Named = Map<String, Value>;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Summary {
    schema: u64,
    pub(super) tiersim: String,
    pub(crate) scenario: String,
    pub(super) fingerprint: String,
    pub(crate) hardware: String,
    pub(super) workload: String,
    pub(super) seed: u64,
    pub(super) assumed_numbers: u64,
    pub(crate) results: Vec<Case>,
    pub(super) about: String,
    pub(super) op_time: String,
    /// Files of earlier versions do not say it.
    #[serde(default)]
    pub(super) devices: u64,
    pub(super) skipped: Vec<Skipped>,
    pub(super) warnings: Vec<Warning>,
    pub(super) power_and_price: Vec<Number>,
    /// Files of earlier versions have neither of these.
    #[serde(default)]
    pub(super) assumed: Vec<Number>,
    #[serde(default)]
    pub(super) verdict: Vec<Said>,
    #[serde(default)]
    pub(super) ranked_by: String,
    /// There only where several are compared.
    #[serde(default)]
    pub(super) machines: Vec<Machine>,
    /// There only where numbers were drawn.
    pub(super) uncertainty: Option<Draws>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Draws {
    pub(super) draws: u64,
    pub(super) seed: u64,
    pub(super) numbers: Vec<Drawn>,
    pub(super) assumed_without_range: Vec<String>,
    pub(super) cases: Vec<DrawnFigures>,
    pub(super) contests: Vec<Contested>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Drawn {
    pub(super) path: String,
    pub(super) value: String,
    pub(super) law: String,
    pub(super) least: Option<f64>,
    pub(super) greatest: Option<f64>,
    pub(super) confidence: String,
    pub(super) source: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct DrawnFigures {
    pub(super) label: String,
    pub(super) fits: u64,
    /// By figure.
    pub(super) bands: BTreeMap<String, Ends>,
    pub(super) rank_correlations: Named,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Ends {
    pub(super) p5: f64,
    pub(super) p50: f64,
    pub(super) p95: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Contested {
    pub(super) between: String,
    pub(super) winner: String,
    pub(super) other: String,
    pub(super) wins: u64,
    pub(super) losses: u64,
    pub(super) ties: u64,
    pub(super) flips: bool,
    pub(super) decides: Option<String>,
    pub(super) rank_correlation: Option<f64>,
    pub(super) rank_correlations: Named,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) label: String,
    pub(super) policy: String,
    pub(super) details: String,
    pub(super) params: Named,
    pub(super) step_ms: Option<Spread>,
    pub(super) throughput: Option<Throughput>,
    pub(super) baseline_step_ms: f64,
    pub(super) slowdown: Option<f64>,
    pub(super) throughput_change_percent: Option<f64>,
    pub(super) bound_step_ms: f64,
    pub(super) bound_by: String,
    pub(super) gap_to_bound: Option<f64>,
    pub(super) emulated: bool,
    rank: Option<u64>,
    pub(super) learned: bool,
    pub(super) sight: String,
    pub(super) statistics: Option<String>,
    pub(super) peak_bytes: Option<Named>,
    pub(super) moved_bytes: Option<Named>,
    pub(crate) transfers: Vec<Transfers>,
    pub(super) stall_ms: Option<Named>,
    pub(super) in_place_ms: Option<Named>,
    pub(super) delay_ms: Option<f64>,
    pub(super) allocator_ms: Option<f64>,
    pub(super) energy_j: Option<f64>,
    pub(super) cost_usd: Option<f64>,
    pub(super) steady: Option<Steady>,
    pub(super) split: Option<Split>,
    pub(super) oom: bool,
    pub(super) oom_reason: Option<OutOfMemory>,
    pub(super) serving: Option<Serving>,
    pub(crate) hardware: String,
    pub(super) workload: String,
    pub(super) op_time: String,
    /// Files of earlier versions do not say it.
    #[serde(default)]
    pub(super) devices: u64,
    /// All that the file says of it.
    #[serde(skip)]
    pub(crate) all: Named,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Spread {
    pub(super) mean: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p95: Option<f64>,
    pub(super) p99: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Throughput {
    pub(super) value: Option<f64>,
    pub(super) unit: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Transfers {
    pub(crate) lane: String,
    pub(crate) per_step: f64,
    pub(super) mean_ms: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Steady {
    pub(super) settled: String,
    pub(super) warmup_replays: u64,
    pub(super) drift: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Split {
    pub(super) steps: u64,
    pub(super) parts_ps: Named,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct OutOfMemory {
    pub(super) text: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Serving {
    pub(super) ttft_ms: Spread,
    pub(super) tpot_ms: Spread,
    pub(super) latency_ms: Spread,
    pub(super) queued_ms: Spread,
    pub(super) kv_hit_ratio: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Skipped {
    pub(super) params: Named,
    pub(super) reason: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Warning {
    pub(super) rule: String,
    pub(super) place: String,
    pub(super) found: String,
    pub(super) reason: String,
    pub(super) remedy: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Number {
    pub(super) path: String,
    pub(super) value: String,
    pub(super) confidence: String,
    pub(super) source: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Machine {
    pub(super) hardware: String,
    pub(super) assumed_numbers: u64,
    pub(super) assumed: Vec<Number>,
    pub(super) power_and_price: Vec<Number>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Said {
    pub(super) word: String,
    pub(super) text: String,
}

/// The results once more, as they are.
#[derive(Deserialize)]
struct Raw {
    results: Vec<Named>,
}

impl Summary {
    /// The summary in these bytes; else line, column and what is wrong there.
    pub(crate) fn read(bytes: &[u8]) -> Result<Summary, String> {
        let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if begins.is_some_and(|byte| *byte != b'{') {
            return Err("it does not begin with {, so it is not the summary of a run".to_owned());
        }
        let mut summary: Summary = serde_json::from_slice(bytes).map_err(|error| said(&error))?;
        if summary.schema != SCHEMA {
            let found = summary.schema;
            return Err(format!("schema is {found}, and this tiersim reads {SCHEMA}"));
        }
        let raw: Raw = serde_json::from_slice(bytes).map_err(|error| said(&error))?;
        for (case, all) in summary.results.iter_mut().zip(raw.results) {
            case.all = all;
        }
        Ok(summary)
    }

    /// Indices of the cases in the order of the text table: by rank, then emulated ones by what they
    /// would be ranked by, then those out of memory; equals in the scenario's order.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.results.len()).collect();
        order.sort_by(|&a, &b| {
            let (one, other) = (&self.results[a], &self.results[b]);
            let key = |case: &Case| (case.oom, case.emulated, case.rank.unwrap_or(u64::MAX));
            let unranked = || match one.rank {
                Some(_) => Ordering::Equal,
                None => self.cost_ms(one).total_cmp(&self.cost_ms(other)),
            };
            key(one).cmp(&key(other)).then_with(unranked).then(a.cmp(&b))
        });
        order
    }

    /// What a case is ranked by, as the file says; what files of earlier versions have is the step.
    pub(crate) fn measure(&self) -> Measure {
        let of = [Measure::Token, Measure::Latency];
        of.into_iter().find(|of| self.ranked_by == of.words()).unwrap_or(Measure::Step)
    }

    /// That in milliseconds.
    pub(crate) fn cost_ms(&self, case: &Case) -> f64 {
        let cost = match self.measure() {
            Measure::Token => {
                let rate = case.throughput.as_ref().and_then(|of| of.value);
                rate.map(|per_second| 1e3 / per_second)
            }
            Measure::Latency => case.serving.as_ref().and_then(|of| of.latency_ms.mean),
            _ => case.step(),
        };
        cost.unwrap_or(f64::INFINITY)
    }

    /// What the cases have of a text, each once and in their order; of no cases the file's `own`.
    pub(crate) fn each<'s>(&'s self, own: &'s str, of: fn(&Case) -> &String) -> Vec<&'s str> {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let all = self.results.iter().map(|case| of(case).as_str());
        let all: Vec<&str> = all.filter(|text| seen.insert(text)).collect();
        if all.is_empty() { vec![own] } else { all }
    }

    /// The quickest case that pays for every access.
    pub(crate) fn best(&self) -> Option<&Case> {
        let first = &self.results[*self.order().first()?];
        (!first.oom && !first.emulated).then_some(first)
    }
}

impl Case {
    /// Whether it is a point of a sweep, and not only on one of several machines.
    pub(super) fn is_swept(&self) -> bool {
        self.params.keys().any(|axis| axis != MACHINE)
    }

    /// Its mean step in milliseconds.
    pub(crate) fn step(&self) -> Option<f64> {
        self.step_ms.and_then(|step| step.mean)
    }

    /// Name of HBM, which is the first tier, and the case's peak of it in bytes.
    pub(super) fn peak_hbm(&self) -> Option<(&str, f64)> {
        let (name, bytes) = self.peak_bytes.as_ref()?.iter().next()?;
        Some((name, bytes.as_f64()?))
    }

    /// Its label with these, unless it says so itself.
    pub(crate) fn called(&self) -> String {
        let marks = self.marks().into_iter().filter(|mark| !self.label.contains(mark));
        let marks: Vec<&str> = marks.collect();
        match marks.is_empty() {
            true => self.label.clone(),
            false => format!("{} ({})", self.label, marks.join(", ")),
        }
    }

    /// What a reader must know before comparing it.
    pub(super) fn marks(&self) -> Vec<&'static str> {
        let oracle = self.sight == "all";
        let marks = [(oracle, "oracle"), (self.learned, "learned"), (self.emulated, "emulated")];
        marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark).collect()
    }

    /// The parts of its measured steps, in picoseconds of all of them.
    pub(super) fn parts(&self) -> Vec<(String, u64)> {
        let parts = self.split.iter().flat_map(|split| &split.parts_ps);
        parts.filter_map(|(name, ps)| Some((name.clone(), ps.as_u64()?))).collect()
    }
}

/// What serde_json says, with the place first.
fn said(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    if error.is_eof() {
        return format!("line {line}, column {column}: the file ends too early: {what}");
    }
    format!("line {line}, column {column}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::order;
    use crate::{common, summary_json};

    #[test]
    fn what_is_written_is_read_and_in_the_order_of_the_table() {
        for record in common::all() {
            let json = summary_json(&record, "0").expect("a summary");
            let summary = Summary::read(json.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
            let mut cases: Vec<usize> = (0..record.results.len()).collect();
            order(&record, &mut cases);
            assert_eq!(summary.order(), cases, "{}", record.scenario);
        }
    }

    #[test]
    fn what_is_no_summary_is_said_with_its_place() {
        let json = summary_json(&common::training(), "0").expect("a summary");
        let cut = &json[..json.len() / 2];
        for (text, expected) in [
            ("", "line 1, column 0: the file ends too early"),
            (cut, "the file ends too early"),
            ("[]", "it does not begin with {"),
            ("\0\u{1}", "it does not begin with {"),
            ("{}", "missing field `schema`"),
            (&json.replacen("\"schema\": 1", "\"schema\": 2", 1), "schema is 2, and this"),
            (&json.replacen("\"seed\": 1", "\"seed\": -1", 1), "line 8, column 12: invalid value"),
            (&json.replacen("\"seed\": 1", "\"seed\": 1e999", 1), "number out of range"),
            (&"{\"a\":".repeat(100_000), "line 1, column "),
        ] {
            let found = Summary::read(text.as_bytes()).expect_err(expected);
            assert!(found.contains(expected), "{found}, and not {expected}");
        }
    }
}

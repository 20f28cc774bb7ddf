//! What nccl-tests and rccl-tests print: one collective at many sizes.
//!
//! Columns are those that the header names, as versions differ in them; times are those out of
//! place. A log may have other lines between. Which collective it is only newer versions say: else
//! the program's name, in the text or in the file's name, or the ratio of the two bandwidths.
//! Invariant: what is not certain is asked for, and runs over several hosts are none of one server.

use super::{OP_BYTES, PRECISIONS, bytes_of};
use crate::trace::tables::{Findings, ReadBudget, Source, describe};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::measured_op::{MeasuredOp, What};
use tiersim_models::units::Bytes;

/// Names of the programs without `_perf`.
const PROGRAMS: [(&str, CollectiveKind); 4] = [
    ("all_reduce", CollectiveKind::AllReduce),
    ("all_gather", CollectiveKind::AllGather),
    ("reduce_scatter", CollectiveKind::ReduceScatter),
    ("alltoall", CollectiveKind::AllToAll),
];
/// Programs whose collectives are not priced.
const OTHERS: [&str; 6] = ["broadcast", "reduce", "gather", "scatter", "sendrecv", "hypercube"];
/// Kinds of numbers as these programs call them, beside those of all tables.
const TYPES: [(&str, &str); 4] =
    [("uint8", "int8"), ("char", "int8"), ("f8e4m3", "fp8"), ("f8e5m2", "fp8")];

/// Whether a text that begins so is such a log.
pub(super) fn is_log(head: &str) -> bool {
    head.lines().any(|line| header(line).is_some())
}

/// The columns that a header names.
fn header(line: &str) -> Option<Vec<&str>> {
    let columns: Vec<&str> = line.trim().strip_prefix('#')?.split_whitespace().collect();
    let has = |name| columns.contains(&name);
    (has("size") && has("type") && has("time") && has("busbw")).then_some(columns)
}

/// What is known by and by of one run of a program.
#[derive(Default)]
struct Log {
    ranks: BTreeSet<u64>,
    hosts: BTreeSet<String>,
    program: Option<String>,
    columns: Vec<String>,
    rows: Vec<Measured>,
    /// Of the row that took longest.
    longest: Option<Longest>,
}

struct Longest {
    us: f64,
    /// The bandwidth of the bus over that of the algorithm.
    ratio: f64,
    sums: bool,
}

/// One row.
struct Measured {
    line: u64,
    precision: &'static str,
    bytes: u64,
    us: f64,
}

/// The ops of a log, which may be of several programs one after the other.
pub(super) fn read(source: Source) -> Result<Vec<MeasuredOp>, Diagnostics> {
    let Source { path, text } = source;
    let (mut reader, mut line, mut number) = (BufReader::new(text), String::new(), 0);
    let (mut log, mut ops, mut findings) = (Log::default(), Vec::new(), Findings::default());
    let mut budget = ReadBudget::default();
    loop {
        line.clear();
        match reader.read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => number += 1,
            Err(error) => return Err(describe(&path, &error)),
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if !log.rows.is_empty() && begins(&words) {
            ops.extend(std::mem::take(&mut log).ops(&path)?);
        }
        let rows = log.rows.len();
        let taken = log.take(number, &line, &words);
        let live = (log.rows.len() - rows) * (OP_BYTES + 2 * size_of::<Measured>());
        budget.take(line.len(), live).map_err(|rule| {
            let remedy = "split the log, or check what it is";
            Diagnostics::one(&path, Some(Place { line: number, column: 1 }), rule, "more", remedy)
        })?;
        if let Err((rule, found)) = taken {
            let place = Some(Place { line: number, column: 1 });
            findings.push(&path, place, rule, found, "correct the line, or take it out");
        }
    }
    findings.finish().into_result(())?;
    if ops.is_empty() || !log.rows.is_empty() {
        ops.extend(log.ops(&path)?);
    }
    Ok(ops)
}

/// Whether a program begins with this line.
fn begins(words: &[&str]) -> bool {
    matches!(words, ["#", "nThread", ..]) || words.iter().any(|word| program(word).is_some())
}

impl Measured {
    fn op(&self, kind: CollectiveKind, ranks: u32) -> MeasuredOp {
        let of = Collective::within(kind, Bytes::new(self.bytes), ranks);
        MeasuredOp {
            line: self.line,
            precision: self.precision,
            what: What::Collective(of, bytes_of(self.precision) > 1),
            seconds: Some(self.us * 1e-6),
        }
    }
}

impl Log {
    /// A line; its rule and what was found where it breaks one.
    fn take(&mut self, number: u64, line: &str, words: &[&str]) -> Result<(), (String, String)> {
        if let Some(columns) = header(line) {
            self.columns = columns.into_iter().map(str::to_owned).collect();
            return Ok(());
        }
        if let ["#", "Rank", rank, ..] = words {
            self.ranks.extend(rank.parse::<u64>().ok());
            let host = words.iter().position(|word| *word == "on").and_then(|at| words.get(at + 1));
            self.hosts.extend(host.map(|host| (*host).to_owned()));
        }
        if let Some(program) = words.iter().find_map(|word| program(word)) {
            self.program = Some(program.to_owned());
        }
        // Its bytes and how many numbers these are.
        let row = words.len() > 2 && words[..2].iter().all(|word| word.parse::<u64>().is_ok());
        match row && !self.columns.is_empty() {
            true => self.row(number, words),
            false => Ok(()),
        }
    }

    fn ops(self, path: &Path) -> Result<Vec<MeasuredOp>, Diagnostics> {
        if self.rows.is_empty() {
            let rule = "a log of nccl-tests has rows";
            return Err(Diagnostics::one(path, None, rule, "", "let it run to its end"));
        }
        let ranks = self.within_one_server(path)?;
        let kind = self.kind(path)?;
        Ok(self.rows.iter().map(|row| row.op(kind, ranks)).collect())
    }

    fn row(&mut self, line: u64, words: &[&str]) -> Result<(), (String, String)> {
        let field = |name: &str| {
            let at = self.columns.iter().position(|column| column == name);
            at.and_then(|at| words.get(at)).copied().unwrap_or_default()
        };
        let above_zero = |name: &str| {
            let number = field(name).parse::<f64>().ok().filter(|&x| x > 0.0 && x < 1e12);
            number.ok_or_else(|| (format!("{name} is a number above 0"), field(name).to_owned()))
        };
        let known = PRECISIONS.iter().chain(&TYPES).find(|(word, _)| *word == field("type"));
        let Some(&(_, precision)) = known else {
            let words: Vec<&str> = PRECISIONS.iter().chain(&TYPES).map(|(word, _)| *word).collect();
            return Err((format!("type is one of {}", words.join(", ")), field("type").to_owned()));
        };
        let us = above_zero("time")?;
        let bytes = field("size").parse::<u64>().unwrap_or_default().min(1 << 60);
        // Fewer numbers than ranks, of which nothing is sent.
        if bytes == 0 {
            return Ok(());
        }
        if self.longest.as_ref().is_none_or(|longest| longest.us < us) {
            let ratio = match (above_zero("busbw"), above_zero("algbw")) {
                (Ok(bus), Ok(own)) => bus / own,
                _ => 0.0,
            };
            let sums = !["", "none"].contains(&field("redop"));
            self.longest = Some(Longest { us, ratio, sums });
        }
        self.rows.push(Measured { line, precision, bytes, us });
        Ok(())
    }

    /// Which collective it is.
    fn kind(&self, path: &Path) -> Result<CollectiveKind, Diagnostics> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let known = |name: &str| PROGRAMS.iter().find(|(own, _)| name.contains(own));
        if let Some(program) = &self.program {
            let found = PROGRAMS.iter().find(|(own, _)| own == program);
            return found.map(|(_, kind)| *kind).ok_or_else(|| {
                let rule = "collectives of one server that are priced are all-reduce, all-gather, \
                            reduce-scatter and all-to-all";
                let remedy = "give the log of another program";
                Diagnostics::one(path, None, rule, format!("{program}_perf"), remedy)
            });
        }
        if let Some((_, kind)) = known(&name) {
            return Ok(*kind);
        }
        let ranks = self.ranks.len() as f64;
        match &self.longest {
            Some(Longest { ratio, sums: true, .. }) if ranks > 1.0 => {
                // 2 (n - 1) / n of an all-reduce, half of that or, in older versions, 1.
                let of_all_reduce = 2.0 * (ranks - 1.0) / ranks;
                Ok(match (ratio - of_all_reduce).abs() < 0.05 && ranks > 2.0 {
                    true => CollectiveKind::AllReduce,
                    false if (ratio - of_all_reduce / 2.0).abs() < 0.05 => {
                        CollectiveKind::ReduceScatter
                    }
                    false => return Err(unknown(path)),
                })
            }
            _ => Err(unknown(path)),
        }
    }

    /// The ranks, which are of one host.
    fn within_one_server(&self, path: &Path) -> Result<u32, Diagnostics> {
        let rule = "collectives are priced between 2 and 65536 devices of one server";
        let found = match (self.hosts.len(), self.ranks.len()) {
            (0 | 1, ranks @ 2..=65536) => return Ok(ranks as u32),
            (0 | 1, ranks) => format!("{ranks} lines `# Rank`"),
            (hosts, _) => format!("{hosts} hosts"),
        };
        Err(Diagnostics::one(path, None, rule, found, "give the log of such a run, whole"))
    }
}

/// The program of which a word is the name or the path, without `_perf`.
fn program(word: &str) -> Option<&str> {
    let name = word.rsplit('/').next()?.strip_suffix("_perf")?;
    let known = PROGRAMS.iter().map(|(own, _)| own).chain(&OTHERS);
    known.copied().find(|own| *own == name)
}

fn unknown(path: &Path) -> Diagnostics {
    let rule = "the log does not say which collective it is of";
    let remedy = "give the file a name with all_reduce, all_gather, reduce_scatter or alltoall";
    Diagnostics::one(path, None, rule, "", remedy)
}

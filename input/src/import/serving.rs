//! Requests to a served model, as published traces have them: the Azure LLM inference traces
//! (`azure`), BurstGPT (`burst`), those of other simulators (`simulators`), and lines as Mooncake's
//! (`mooncake`).
//!
//! The file's name says the format, `.csv` or `.jsonl`, and its columns which table it is; either may be packed with gzip or
//! Zstandard. Files are streamed: what is held is the requests, not the text.
//! Invariant: what is returned has one request or more, sorted by arrival, those of one moment in
//! the order of the file.

mod azure;
mod burst;
mod info;
pub(crate) mod mooncake;
mod shape;
mod simulators;
mod table;

pub use info::{BlocksInfo, RequestsInfo, TokensInfo, requests_info};
pub use shape::requests_shape;

use crate::trace::tables::{Findings, Limits, describe, unpacked, unpacked_name};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::requests::{MOST_TOKENS, RequestProblem, ServingRequests};

/// Tokens of a block of Mooncake's traces, where nothing else is said.
pub const MOONCAKE_BLOCK: u32 = 512;
/// The most requests of a trace: 2^24.
pub const MOST_REQUESTS: u64 = 1 << 24;

/// A month of requests is a few gigabytes. Hashes pack to a third at best, columns of lengths to a
/// tenth.
const LIMITS: Limits = Limits { expanded: 8 << 30, ratio: 100, free: 16 << 20 };
/// Problems of a file after which it is not read on.
const ENOUGH: u64 = 50;

/// Tables that are known.
const TABLES: [table::Table; 4] =
    [azure::TABLE, burst::TABLE, simulators::VIDUR, simulators::SPLITWISE];

/// The table that begins with such a line.
fn table_of(header: &str) -> Option<&'static table::Table> {
    let columns: Vec<&str> = header.split(',').map(|name| name.trim_matches('"')).collect();
    let has_all = |table: &&table::Table| table.told_by.iter().all(|name| columns.contains(name));
    TABLES.iter().find(has_all)
}

/// Whether a table that begins with such a line is one of requests.
pub(crate) fn is_header(header: &str) -> bool {
    table_of(header).is_some()
}

/// Reads a trace of requests.
///
/// `block_tokens`: the tokens of one of its named blocks; where that is left open, as many as the
/// first request with names says, or [`MOONCAKE_BLOCK`]. Not used for a trace without names. Panics
/// if it is 0.
///
/// # Errors
/// No such file, no known format, and everything that is wrong with its rows, up to a number of
/// problems.
pub fn read_requests(
    path: &Path,
    block_tokens: impl Into<Option<u32>>,
) -> Result<ServingRequests, Diagnostics> {
    let name = unpacked_name(path);
    let mut requests = if name.ends_with(".csv") {
        let header = header(path)?;
        let Some(table) = table_of(&header) else {
            let place = Some(Place { line: 1, column: 0 });
            let rule =
                "a table of requests begins with the names of its columns, of which none are known";
            let known: Vec<String> = TABLES.iter().map(|of| of.told_by.join(" and ")).collect();
            let remedy = format!("known tables have {}", known.join(", or "));
            let found: String = header.chars().take(80).collect();
            return Err(Diagnostics::one(path, place, rule, format!("{found:?}"), remedy));
        };
        table::read(path, table)?
    } else if name.ends_with(".jsonl") {
        mooncake::read(path, block_tokens.into())?
    } else {
        let rule = "the name of a trace of requests says its format";
        let remedy = "call it .csv (columns of the Azure LLM inference traces, BurstGPT, Vidur or \
                      splitwise-sim) or .jsonl (Mooncake's objects), packed .gz or .zst after it";
        return Err(Diagnostics::one(path, None, rule, format!("{name:?}"), remedy));
    };
    if requests.list.is_empty() {
        let remedy = "name a trace that holds some";
        return Err(Diagnostics::one(path, None, "a trace has one request or more", "0", remedy));
    }
    requests.sort();
    Ok(requests)
}

/// The first line of a table, as far as columns that are known reach.
fn header(path: &Path) -> Result<String, Diagnostics> {
    let (text, _) = unpacked(path, LIMITS)?;
    let mut line = Vec::new();
    let read = BufReader::new(text.take(1024)).read_until(b'\n', &mut line);
    read.map_err(|error| describe(path, &error))?;
    Ok(String::from_utf8_lossy(&line).trim_start_matches('\u{feff}').trim_end().to_owned())
}

/// Says what is wrong with the request of a line.
fn refused(
    problem: RequestProblem,
    (prompt, output, names): (u64, u64, usize),
    (path, line): (&Path, u64),
    findings: &mut Findings,
) {
    let (rule, found, remedy) = match problem {
        RequestProblem::Prompt => (
            format!("a prompt has 1 to {MOST_TOKENS} tokens"),
            prompt.to_string(),
            "remove the request, or correct its length",
        ),
        RequestProblem::Output => (
            format!("an answer has 1 to {MOST_TOKENS} tokens"),
            output.to_string(),
            "remove the request, or correct its length",
        ),
        RequestProblem::Blocks(blocks) => (
            format!("a prompt of {prompt} tokens has {blocks} hash_ids"),
            names.to_string(),
            "write one per block of the prompt, or say how many tokens a block has, as `block_tokens` of \
             `serve` in a scenario",
        ),
        RequestProblem::TooMany => {
            ("a trace has less than 2^32 hash_ids".to_owned(), "more".to_owned(), "split the trace")
        }
    };
    findings.push(path, Some(Place { line, column: 0 }), rule, found, remedy);
}

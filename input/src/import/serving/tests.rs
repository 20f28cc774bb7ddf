//! Traces of requests: what is read, what is refused, and the published files themselves.

use super::*;
use std::path::PathBuf;
use tiersim_models::units::Time;

/// A file in a folder of its own.
fn file(test: &str, name: &str, text: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("tiersim-serving-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

/// What is said of a file, line by line.
fn said(path: &Path) -> Vec<String> {
    let problems = read_requests(path, MOONCAKE_BLOCK).expect_err("it is wrong");
    std::fs::remove_file(path).expect("it was there");
    let name = |text: String| text.rsplit('/').next().unwrap_or_default().to_owned();
    problems.0.iter().map(|problem| name(problem.to_string())).collect()
}

/// A published trace beside the checkout, or none, which is said.
fn published(name: &str) -> Option<PathBuf> {
    let folders = ["../../shared/data", "../../../shared/data"].map(PathBuf::from);
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("{name} is not there: this test has looked at nothing");
    }
    found
}

#[test]
fn rows_of_azure_become_requests_from_the_first_on() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
                2023-11-16 18:15:47.0000001,396,109\r\n\
                2023-11-16 18:15:46.9999999,374,44\r\n\
                2023-11-16 18:15:47.0000001,91,16";
    let path = file("azure", "rows.csv", text);
    let requests = read_requests(&path, 1).expect("it is right");
    let rows = requests.list.iter().map(|one| (one.arrival.ps(), one.prompt, one.output));
    assert_eq!(rows.collect::<Vec<_>>(), [(0, 374, 44), (200_000, 396, 109), (200_000, 91, 16)]);
    assert_eq!((requests.block_tokens, requests.names), (None, vec![]));
}

#[test]
fn lines_of_mooncake_become_requests_with_blocks() {
    let text = "{\"timestamp\": 27, \"input_length\": 513, \"output_length\": 5, \"hash_ids\": [7, 8]}\n\
                {\"timestamp\": 3, \"input_length\": 1, \"output_length\": 2, \"hash_ids\": [9], \"x\": 0}";
    let requests = read_requests(&file("mooncake", "lines.jsonl", text), 512).expect("right");
    let [first, second] = &requests.list[..] else { panic!("two requests") };
    assert_eq!((first.arrival, first.prompt), (Time::from_ps(3_000_000_000), 1));
    assert_eq!((requests.names_of(first), requests.names_of(second)), (&[9][..], &[7, 8][..]));
}

#[test]
fn what_is_wrong_with_a_table_is_said_with_its_line() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n\
                2023-11-16 18:15:47,x,1\n2023-11-16 18:15:47,1\n";
    let found = said(&file("bad-azure", "bad.csv", text));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("bad.csv:2: TIMESTAMP is YYYY-MM-DD"), "{found:?}");
    assert!(found[1].starts_with("bad.csv:3: ContextTokens is a whole number"), "{found:?}");
    assert!(found[2].starts_with("bad.csv:4: a row has 3 fields"), "{found:?}");
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:47,1,0\n\
                2024-11-16 18:15:47,1,1\n";
    let found = said(&file("bad-azure", "long.csv", text));
    assert!(found[0].starts_with("long.csv:2: an answer has 1 to 1073741824"), "{found:?}");
    assert!(found[1].starts_with("long.csv:3: a request arrives less than 213 days"), "{found:?}");
    let found = said(&file("bad-azure", "none.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"));
    assert_eq!(
        found,
        ["none.csv: a trace has one request or more (found 0); name a trace that holds some"]
    );
}

#[test]
fn what_is_wrong_with_a_line_is_said_with_its_place() {
    let text = "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1}\n\
                {\"timestamp\": -1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [0]}\n\
                {\"timestamp\": 1, \"input_length\": 0, \"output_length\": 1, \"hash_ids\": []}\n\
                {\"timestamp\": 1, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [1]}\n\
                {\"timestamp\": 18446744073709551615, \"input_length\": 1, \"output_length\": 1, \
                \"hash_ids\": [1]}\nnonsense\n";
    let found = said(&file("bad-mooncake", "bad.jsonl", text));
    for (line, (rule, said)) in [
        (":1:55: missing field `hash_ids`", &found[0]),
        (":2:16: invalid value", &found[1]),
        (":3: a prompt has 1 to", &found[2]),
        (":4: a prompt of 600 tokens has 2 hash_ids (found 1)", &found[3]),
        (":5: timestamp is milliseconds", &found[4]),
        (":6:2: expected", &found[5]),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(said.starts_with(&format!("bad.jsonl{rule}")), "{line}: {said}");
    }
    // Only so many problems are looked for.
    let found = said(&file("bad-mooncake", "long.jsonl", &"{}\n".repeat(1000)));
    assert_eq!(found.len() as u64, ENOUGH);
    let found = said(&file("bad-mooncake", "x.txt", ""));
    assert!(found[0].contains("says its format"), "{found:?}");
}

#[test]
fn the_published_trace_of_azure_is_read() {
    let Some(path) = published("azure-llm/AzureLLMInferenceTrace_conv.csv") else { return };
    let requests = read_requests(&path, 1).expect("it is right");
    assert_eq!(requests.list.len(), 19_366);
    let first = &requests.list[0];
    assert_eq!((first.arrival, first.prompt, first.output), (Time::ZERO, 374, 44));
    // 18:15:50.9951690 after 18:15:46.6805900.
    assert_eq!(requests.list[1].arrival, Time::from_ps(4_314_579_000_000));
    let most = requests.list.iter().map(|one| one.prompt).max();
    assert_eq!(most, Some(14_050));
}

#[test]
fn the_published_trace_of_mooncake_is_read() {
    let Some(path) = published("mooncake/conversation_trace.jsonl") else { return };
    let requests = read_requests(&path, MOONCAKE_BLOCK).expect("it is right");
    assert_eq!((requests.list.len(), requests.names.len()), (12_031, 288_500));
    let last = requests.list.last().expect("there are some");
    assert_eq!(last.arrival, Time::from_ps(3_536_999_000_000_000));
    let wrong = read_requests(&path, 16).expect_err("blocks have 512 tokens");
    assert_eq!(wrong.0.len() as u64, ENOUGH);
}

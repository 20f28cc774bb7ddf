//! Traces of requests: what is read, and the published files themselves.

use crate::files::{file, shared};
use tiersim_input::import::serving::{
    BlocksInfo, MOONCAKE_BLOCK, TokensInfo, read_requests, requests_info,
};
use tiersim_models::units::Time;

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

/// As release 1.1 and release 2.0 have it.
#[test]
fn rows_of_burstgpt_become_requests_but_for_those_that_failed() {
    let old = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
               5,ChatGPT,472,18,490,Conversation log\n1106,ChatGPT,0,0,0,Conversation log\n\
               45,ChatGPT,1087,230,1317,Conversation log";
    let new = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n\
               5.25,a,1.5,GPT-4,472,18,490,API log\r\n9,,2,GPT-4,10,0,10,API log\r\n45.25,a,3,ChatGPT,1087,230,1317,\r\n";
    for text in [old, new] {
        let requests = read_requests(&file("burst", "burst.csv", text), 1).expect("it is right");
        let rows = requests.list.iter().map(|one| (one.arrival.ps(), one.prompt, one.output));
        assert_eq!(rows.collect::<Vec<_>>(), [(0, 472, 18), (40_000_000_000_000, 1087, 230)]);
        assert_eq!(requests.failed, 1);
        let info = requests_info(&requests).to_string();
        assert!(info.contains("1 more failed: without an answer they are left out"), "{info}");
    }
    for (row, told) in [
        ("-5,a,1,1", "Timestamp is seconds from 0 on"),
        ("1.12x,a,1,1", "Timestamp is seconds from 0 on"),
        ("5,a,1e3,1", "Request tokens is a whole number"),
        ("5,a,0,1", "a prompt has 1 to"),
        ("99999999999,a,1,1", "Timestamp is seconds from 0 on"),
    ] {
        let text = format!("Timestamp,Model,Request tokens,Response tokens\n5,a,1,1\n{row}\n");
        let told_of = read_requests(&file("bad-burst", "burst.csv", text), 1).expect_err("wrong");
        assert!(told_of.to_string().contains(told), "{row}: {told_of}");
    }
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

/// The traces of 2024 have a zone, and no decimals at whole seconds.
#[test]
fn clocks_with_a_zone_and_times_with_decimals_are_read() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01+00:00,2399,6\n";
    let requests = read_requests(&file("azure-zone", "week.csv", text), 1).expect("it is right");
    let at: Vec<u64> = requests.list.iter().map(|one| one.arrival.ps()).collect();
    assert_eq!(at, [0, 990_070_000_000]);
    let line = |at: &str| {
        format!(
            "{{\"timestamp\": {at}, \"input_length\": 1, \"output_length\": 2, \"hash_ids\": [9]}}\n"
        )
    };
    let text = line("0.0") + &line("12.5") + &line("1e3");
    let requests = read_requests(&file("decimals", "a.jsonl", text), 512).expect("it is right");
    let at: Vec<u64> = requests.list.iter().map(|one| one.arrival.ps()).collect();
    assert_eq!(at, [0, 12_500_000_000, 1_000_000_000_000]);
    for bad in ["-1", "-0.5", "1e30", "\"1\"", "null"] {
        assert!(read_requests(&file("bad", "a.jsonl", line(bad)), 512).is_err(), "{bad}");
    }
}

type Row = (u64, u32, u32);

fn rows(name: &str, text: &str) -> Vec<Row> {
    let requests = read_requests(&file("others", name, text), None).expect("it is right");
    requests.list.iter().map(|one| (one.arrival.ps(), one.prompt, one.output)).collect()
}

/// As Vidur, splitwise-sim, Qwen's traces and LLMServingSim have them.
#[test]
fn tables_and_lines_of_others_become_requests() {
    let s = 1_000_000_000_000;
    let vidur = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,374,44\n4.314579,396,109\n\
                 4.6000000000000005,879,55\n";
    let expected = [(0, 374, 44), (3_814_579_000_000, 396, 109), (4 * s + s / 10, 879, 55)];
    assert_eq!(rows("vidur.csv", vidur), expected);
    let splitwise = "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n\
                     0,2,0,1,1,4096,32\n1,2,0,3,1,2048,8\n";
    assert_eq!(rows("splitwise.csv", splitwise), [(0, 4096, 32), (2 * s, 2048, 8)]);
    let quoted = "\"TIMESTAMP\",\"GeneratedTokens\",\"ContextTokens\",\"Extra\"\n\
                  2023-11-16 18:15:46.5,44,374,x\n2023-11-16 18:15:47.0,1,2,y\n";
    assert_eq!(rows("azure.csv", quoted), [(0, 374, 44), (s / 2, 2, 1)]);
    // Its times are seconds, and a block has 16 tokens.
    let qwen = "\u{feff}{\"chat_id\": 7, \"parent_chat_id\": -1, \"timestamp\": 61.114, \
                \"input_length\": 33, \"output_length\": 5, \"turn\": 1, \"hash_ids\": [1, 2, 3]}\n";
    assert_eq!(rows("qwen.jsonl", qwen), [(61_114_000_000_000, 33, 5)]);
    let read = read_requests(&file("others", "qwen.jsonl", qwen), None).expect("it is right");
    assert_eq!(read.block_tokens, Some(16));
    // As many as Mooncake's, where that fits too.
    let read = read_requests(&file("others", "mooncake.jsonl", qwen.replace(", 2, 3", "")), None);
    assert_eq!(read.expect("it is right").block_tokens, Some(MOONCAKE_BLOCK));
    let plain = "{\"timestamp\": 27, \"input_length\": 513, \"output_length\": 5}\n";
    assert_eq!(rows("plain.jsonl", plain), [(27_000_000_000, 513, 5)]);
    let serving_sim = "{\"input_toks\": 10, \"output_toks\": 70, \"arrival_time_ns\": 46926808}\n";
    assert_eq!(rows("sim.jsonl", serving_sim), [(46_926_808_000, 10, 70)]);
    let wrong = |name: &str, text: String| {
        read_requests(&file("others", name, text), None).expect_err("it is wrong").to_string()
    };
    let mixed =
        wrong("mixed.jsonl", plain.to_owned() + &plain.replace('}', ", \"hash_ids\": [1]}"));
    assert!(mixed.contains(":2: hash_ids stand in all lines or in none (found some)"), "{mixed}");
    let when = wrong("when.jsonl", plain.replace("timestamp", "time"));
    assert!(when.contains("timestamp is milliseconds"), "{when}");
    let none = wrong("none.csv", "a,b\n1,2\n".to_owned());
    assert!(
        none.contains("none are known (found \"a,b\")") && none.contains("arrived_at"),
        "{none}"
    );
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n";
    for name in ["lfs.csv", "lfs.jsonl", "lfs.csv.gz"] {
        let told = wrong(name, pointer.to_owned());
        assert!(told.contains("this is a pointer of Git LFS"), "{name}: {told}");
    }
}

#[test]
fn only_so_many_problems_are_looked_for() {
    let path = file("bad-mooncake", "long.jsonl", "{}\n".repeat(1000));
    assert_eq!(read_requests(&path, 1).expect_err("it is wrong").0.len(), 50);
}

#[test]
fn the_published_trace_of_azure_is_read() {
    let Some(path) = shared("azure-llm/AzureLLMInferenceTrace_conv.csv") else { return };
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
    let Some(path) = shared("mooncake/conversation_trace.jsonl") else { return };
    let requests = read_requests(&path, MOONCAKE_BLOCK).expect("it is right");
    assert_eq!((requests.list.len(), requests.names.len()), (12_031, 288_500));
    let last = requests.list.last().expect("there are some");
    assert_eq!(last.arrival, Time::from_ps(3_536_999_000_000_000));
    // As a few lines of Python count.
    let info = requests_info(&requests);
    let blocks = BlocksInfo { tokens: 512, all: 288_500, different: 182_790, found: 105_710 };
    assert_eq!(info.blocks, Some(blocks));
    let TokensInfo { sum, p50, p95, p99, .. } = info.prompt;
    assert_eq!((sum, p50, p95, p99), (144_793_823, 6_909, 39_552, 85_401));
    let wrong = read_requests(&path, 16).expect_err("blocks have 512 tokens");
    assert_eq!(wrong.0.len(), 50);
}

//! What a file is by its first bytes.
//!
//! Invariant: nothing but the bytes and the length of the file counts.

use super::FileKind;
use crate::import::accesses::{self, TextKind};
use crate::import::chakra::{begins_json, is_chakra, is_chakra_json};
use crate::import::requests::binary::is_records;
use crate::import::requests::head::of_text;
use crate::import::serving::is_header;
use crate::packed::{Packing, packed_otherwise};
use crate::trace::tables::LFS_POINTER;

pub(super) fn of_head(head: &[u8], size: u64) -> Option<FileKind> {
    if head.starts_with(LFS_POINTER) {
        return Some(FileKind::LfsPointer);
    }
    if let Some(words) = packed_otherwise(head) {
        return Some(FileKind::PackedOtherwise(words));
    }
    if is_records(head, size) {
        return Some(FileKind::BlockRecords);
    }
    if !begins_json(head) && is_chakra(head) {
        return Some(FileKind::ChakraTrace);
    }
    if Packing::of_head(head).is_some() {
        return Some(FileKind::Packed);
    }
    match head {
        [b'P', b'K', 3, 4, ..] => return Some(FileKind::Zip),
        [0x80, 2..=5, ..] => return Some(FileKind::Pickle),
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => return Some(FileKind::Utf16),
        _ if head.starts_with(b"PAR1") => return Some(FileKind::Parquet),
        _ if head.starts_with(b"PERFILE2") => return Some(FileKind::PerfData),
        _ if head.starts_with(b"SQLite format 3\0") => return Some(FileKind::Sqlite),
        _ => {}
    }
    if let Some((length, [b'{', ..])) = head.split_first_chunk::<8>()
        && u64::from_le_bytes(*length) < size
    {
        return Some(FileKind::Safetensors);
    }
    // The end of the head may lie within a letter.
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    // Lines of accesses may begin with a space that counts.
    let whole = text.trim_start_matches('\u{feff}');
    let text = whole.trim_start();
    match text.as_bytes().first()? {
        b'{' => of_json(text),
        b'[' => of_list(text),
        _ => of_table(text).or_else(|| of_ron(text)).or_else(|| of_accesses(whole)),
    }
}

fn of_json(text: &str) -> Option<FileKind> {
    let has =
        |key: &str| text.contains(&format!("\"{key}\":")) || text.contains(&format!("\"{key}\" :"));
    if has("tiersim:fingerprint") {
        Some(FileKind::Hints)
    } else if has("schema") && has("tiersim") {
        Some(FileKind::Results)
    } else if has("traceEvents") || has("deviceProperties") || has("schemaVersion") {
        Some(FileKind::ProfilerTrace)
    } else if has("schema") && has("nodes") {
        Some(FileKind::ExecutionTrace)
    } else if is_chakra_json(text) {
        Some(FileKind::ChakraTrace)
    } else if has("device_traces") || (has("segments") && has("total_size")) {
        Some(FileKind::SnapshotText)
    } else if has("input_length") && (has("hash_ids") || has("output_length"))
        || has("input_toks") && has("output_toks")
    {
        Some(FileKind::Requests)
    } else if has("model_type") || has("hidden_size") || has("architectures") {
        Some(FileKind::ModelCard)
    } else {
        None
    }
}

/// A list of lists of whole numbers is a timeline, one of kdamonds a record of damo.
fn of_list(text: &str) -> Option<FileKind> {
    let rest = text.strip_prefix('[')?.trim_start();
    if rest.starts_with('{') {
        let has = |key: &str| rest.contains(&format!("\"{key}\""));
        if has("segment_type") && has("total_size") {
            // What `torch.cuda.memory_snapshot()` returns: its reader says what is missing.
            return Some(FileKind::SnapshotText);
        }
        return has("kdamond_idx").then_some(FileKind::DamoRecord);
    }
    let first = rest.strip_prefix('[')?.split([',', ']']).next()?;
    first.trim().parse::<i64>().ok().map(|_| FileKind::MemoryTimeline)
}

fn of_accesses(text: &str) -> Option<FileKind> {
    Some(match accesses::of_text(text)? {
        TextKind::Lackey => FileKind::Lackey,
        TextKind::Perf => FileKind::PerfScript,
        TextKind::DamonTracepoint => FileKind::DamonTracepoint,
        TextKind::DamonReport => FileKind::DamonReport,
    })
}

/// First columns of the tables of a trace.
const TABLES: [&str; 3] =
    ["id,name,kind,bytes,dtype", "id,step,phase,name,module", "op,object,mode"];

fn of_table(text: &str) -> Option<FileKind> {
    if TABLES.iter().any(|columns| text.starts_with(columns)) {
        return Some(FileKind::TraceTable);
    }
    let header = text.lines().next()?;
    if is_header(header) {
        return Some(FileKind::Requests);
    }
    of_text(text).map(FileKind::BlockText)
}

fn of_ron(text: &str) -> Option<FileKind> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let code = code.join("\n");
    let code = code.trim_start();
    let (word, rest) = code.split_once('(')?;
    let field = |name: &str| {
        let begins = |line: &str| line.trim_start().starts_with(&format!("{name}:"));
        begins(rest) || rest.lines().any(begins)
    };
    match word.trim() {
        "Scenario" => Some(FileKind::Scenario),
        "Hardware" => Some(FileKind::Hardware),
        "Part" => Some(FileKind::Part),
        "OpTimes" => Some(FileKind::OpTimes),
        "" if field("recorded") && field("rows") => Some(FileKind::TraceHeader),
        "" if field("weights") && !field("policies") => Some(FileKind::Weights),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::requests::Reader;

    fn kind(text: &[u8]) -> Option<FileKind> {
        of_head(text, text.len() as u64)
    }

    #[test]
    fn a_file_is_told_by_its_first_bytes() {
        for (text, wanted) in [
            (&b"// why\nScenario(schema: 2"[..], Some(FileKind::Scenario)),
            (b"Hardware (\n", Some(FileKind::Hardware)),
            (b"Part(", Some(FileKind::Part)),
            (b"OpTimes(schema: 2", Some(FileKind::OpTimes)),
            (b"(\n    schema: 1,\n    recorded: (),\n    rows: (", Some(FileKind::TraceHeader)),
            (b"id,step,phase,name,module,stream\n", Some(FileKind::TraceTable)),
            (b"{\n  \"tiersim:fingerprint\": \"a\"", Some(FileKind::Hints)),
            (b"{\"schema\": 1, \"tiersim\": \"0.1.0\"", Some(FileKind::Results)),
            (b"{\"model_type\": \"llama\"", Some(FileKind::ModelCard)),
            (b"\x10\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"}}", Some(FileKind::Safetensors)),
            (b"version https://git-lfs.github.com/spec/v1\n", Some(FileKind::LfsPointer)),
            (b"\x80\x04\x95", Some(FileKind::Pickle)),
            (b"{\"segments\": [{\"device\": 0, \"total_size\": 1", Some(FileKind::SnapshotText)),
            (b"[[-1, 1, 37888, 7], [", Some(FileKind::MemoryTimeline)),
            (b"[{\"ph\": \"X\"", None),
            (b"[]", None),
            (b" L 1fff000688,8\n", Some(FileKind::Lackey)),
            (b"==1114== Lackey, an example Valgrind tool\n", Some(FileKind::Lackey)),
            (b"==1114== Memcheck, a memory error detector\n", None),
            (b"app 1 [000] 12.500000: cpu/mem-loads/P: 7f00\n", Some(FileKind::PerfScript)),
            (b"12.5: cpu/mem-loads/P:\n", None),
            (
                b"k 1 [0] 1.5: damon:damon_aggregated: target_id=0 nr_regions=1 1-5: 0\n",
                Some(FileKind::DamonTracepoint),
            ),
            (b"base_time_absolute: 8 m 59.809 s\n\n", Some(FileKind::DamonReport)),
            (b"[{\"kdamond_idx\": 0", Some(FileKind::DamoRecord)),
            (b"PERFILE2\0\0", Some(FileKind::PerfData)),
            (b"PAR1\x15\x04", Some(FileKind::Parquet)),
            (b"\xff\xfe{\0\"\0", Some(FileKind::Utf16)),
            (b"SQLite format 3\0", Some(FileKind::Sqlite)),
            (b"at_ns,object,bytes\n", Some(FileKind::BlockText(Reader::Table))),
            (b"object\n", Some(FileKind::BlockText(Reader::Table))),
            (b"object,op\n", None),
            (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", Some(FileKind::Requests)),
            (b"Timestamp,Model,Request tokens,Response tokens\n", Some(FileKind::Requests)),
            (b"Timestamp,Model\n", None),
            (b"\"TIMESTAMP\",\"GeneratedTokens\",\"ContextTokens\"\n", Some(FileKind::Requests)),
            (
                b"arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n",
                Some(FileKind::Requests),
            ),
            (
                b"request_id,arrival_timestamp,prompt_size,token_size\n0,1,4096,32\n",
                Some(FileKind::Requests),
            ),
            (b"{\"input_length\": 6, \"output_length\": 1}", Some(FileKind::Requests)),
            (b"{\"input_toks\": 6, \"output_toks\": 1}", Some(FileKind::Requests)),
            (
                b"{\"timestamp\": 0, \"input_length\": 6, \"hash_ids\": []}",
                Some(FileKind::Requests),
            ),
            (b"\x1f\x8b\x08", Some(FileKind::Packed)),
            (b"PK\x03\x04", Some(FileKind::Zip)),
            (b"\xFD7zXZ\0", Some(FileKind::PackedOtherwise("packed by xz"))),
            (b"\x04\x22\x4D\x18", Some(FileKind::PackedOtherwise("packed by lz4"))),
            (b"{\n \"version\": \"1\"\n}{\"type\": \"COMP_NODE\"", Some(FileKind::ChakraTrace)),
            (b"{\"workload_graph\": [", Some(FileKind::ChakraTrace)),
            (b"\x00\x02\x08\x01", Some(FileKind::ChakraTrace)),
            (b"\x08\x12\x06\x0a\x04time\x05\x08\x01\x12\x01a", Some(FileKind::ChakraTrace)),
            (b"\x00\x02", None),
            (b"", None),
            (b"(policies: [])", None),
            (b"{}", None),
            (b"\xff\xfd", None),
        ] {
            assert_eq!(kind(text), wanted, "{}", String::from_utf8_lossy(text));
        }
    }
}

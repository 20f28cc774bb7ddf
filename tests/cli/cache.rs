//! `cache`: block traces through replacement policies, and what is said of binary files that hold
//! none. What else it refuses is in `tests/errors`.

use crate::common::*;

const POLICIES: [&str; 12] = [
    "arc",
    "belady",
    "clock",
    "fifo",
    "lfu",
    "lirs",
    "lirs-paper",
    "lru",
    "s3-fifo",
    "sieve",
    "slru",
    "two-q",
];

/// Requests for objects with sizes: few objects, the earlier ones more often.
fn requests() -> Vec<(u64, u32)> {
    let mut state = 7u64;
    let mut drawn = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % below
    };
    let object = |_| {
        let most = drawn(60) + 1;
        let object = drawn(most);
        (object * 0x1_0000_0001, 100 + 37 * (object as u32 % 11))
    };
    (0..5000).map(object).collect()
}

/// The requests as records, with the request that comes next for the same object.
fn records(requests: &[(u64, u32)]) -> Vec<u8> {
    let mut next = vec![-1i64; requests.len()];
    let mut coming = BTreeMap::new();
    for (index, (object, _)) in requests.iter().enumerate().rev() {
        next[index] = coming.insert(object, index as i64).unwrap_or(-1);
    }
    let mut bytes = Vec::new();
    for (index, ((object, size), next)) in requests.iter().zip(next).enumerate() {
        bytes.extend((index as u32 / 100).to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(next.to_le_bytes());
    }
    bytes
}

/// The requests as a table.
fn table(requests: &[(u64, u32)]) -> String {
    let mut text = "at_ns,object,bytes,mode\n".to_owned();
    for (index, (object, size)) in requests.iter().enumerate() {
        let mode = ["r", "w", "rw"][index % 3];
        text += &format!("{}.5,{object},{size},{mode}\n", index / 2);
    }
    text
}

/// A Zstandard frame of raw blocks (RFC 8878): magic number, descriptor, window of 1 MiB, blocks.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    let blocks = bytes.chunks(100_000);
    let last = blocks.len() - 1;
    for (index, block) in blocks.enumerate() {
        let header = (block.len() as u32) << 3 | u32::from(index == last);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}

/// A project with the requests as a plain file.
fn project() -> Project {
    let project = Project::empty();
    project.write("t.oracleGeneral", records(&requests()));
    project
}

/// What the command says in JSON.
#[track_caller]
fn json(project: &Project, args: &[&str]) -> Value {
    let args = [&["cache"], args, &["--format", "json"]].concat();
    project.run(&args).ends_with(0).json()
}

#[test]
fn a_trace_is_replayed_drawn_and_written() {
    let project = project();
    let args = ["cache", "t.oracleGeneral", "--policy", "LRU", "--unit", "--capacity", "5"];
    let ran = project.run(&args).ends_with(0);
    ran.shows(&["t.oracleGeneral: lru", "5000 requests", "every object counts 1", "miss ratio"]);
    let expected = ["csv", "json", "png", "svg"].map(|end| format!("miss-ratio-lru.{end}"));
    assert_eq!(project.names("out/t"), expected);
    let printed =
        json(&project, &["t.oracleGeneral", "--policy", "lru", "--unit", "--capacity", "5"]);
    let written = project.json("out/t/miss-ratio-lru.json");
    assert_eq!(printed, written, "what is printed is what is written");
    assert_eq!((&written["schema"], &written["requests"]), (&Value::from(1), &Value::from(5000)));
    let row = &written["results"][0];
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
    assert_eq!(number("miss_ratio"), number("misses") / 5000.0);
    assert_eq!(number("byte_miss_ratio"), number("bytes_missed") / number("bytes_requested"));
    let size: u64 = requests().iter().map(|(_, size)| u64::from(*size)).sum();
    assert_eq!(row["bytes_requested"], Value::from(size));
    // The curve ends where every object has room and misses only once.
    let curve = written["curve"].as_array().expect("a list");
    let last = curve.last().expect("points");
    assert_eq!(last["misses"], written["objects"]);
    let csv = project.text("out/t/miss-ratio-lru.csv");
    assert_eq!(csv.lines().filter(|line| line.starts_with("5,true,5000,")).count(), 1, "{csv}");
    assert!(!csv.contains("\n5,false"), "{csv}");
}

#[test]
fn a_pass_for_many_capacities_is_a_pass_for_each() {
    let project = project();
    for policy in POLICIES {
        for (unit, capacities) in [(true, ["3", "25"]), (false, ["400", "1000000TiB"])] {
            let with = |capacities: &[&str]| {
                let mut args = vec!["t.oracleGeneral", "--policy", policy];
                args.extend(unit.then_some("--unit"));
                capacities.iter().for_each(|capacity| args.extend(["--capacity", capacity]));
                json(&project, &args)["results"].as_array().expect("a list").clone()
            };
            let together = with(&capacities);
            let alone: Vec<Value> = capacities.iter().flat_map(|one| with(&[one])).collect();
            assert_eq!(together, alone, "{policy}");
            if policy == "lru" && unit {
                assert_eq!(with(&["25,3", "25"]), alone, "a list, in any order");
            }
        }
    }
}

#[test]
fn packed_plain_and_tables_give_the_same() {
    let project = project();
    let (records, table) = (records(&requests()), table(&requests()));
    project.write("t.oracleGeneral.gz", gzip(&records, Compression::best()));
    project.write("t.oracleGeneral.bin.zst", zstd(&records));
    project.write("t.csv", &table);
    project.write("t.csv.gz", gzip(table.as_bytes(), Compression::best()));
    project.write("folder/accesses.csv.zst", zstd(table.as_bytes()));
    for policy in ["lru", "belady", "arc"] {
        for unit in [&["--unit", "--capacity", "9"][..], &["--capacity", "3000"]] {
            let of = |file: &str| {
                let mut json = json(&project, &[&[file, "--policy", policy], unit].concat());
                json.as_object_mut().expect("a map").remove("trace");
                json
            };
            let plain = of("t.oracleGeneral");
            for file in
                ["t.oracleGeneral.gz", "t.oracleGeneral.bin.zst", "t.csv", "t.csv.gz", "folder"]
            {
                assert_eq!(of(file), plain, "{policy} {file}");
            }
        }
    }
}

/// Lists and tables of libCacheSim, of which somebody says the columns.
#[test]
fn foreign_tables_give_what_ours_gives() {
    let project = Project::empty();
    let requests = requests();
    project.write("t.csv", table(&requests));
    let (mut list, mut foreign) = (String::new(), "v;size;id\n".to_owned());
    for (object, size) in &requests {
        list += &format!("{object}\n");
        foreign += &format!("1;{size};{object}\n");
    }
    project.write("t.txt", list);
    project.write("f.csv", foreign);
    let columns = "obj-id-col=3, obj-size-col=2, delimiter=;, has-header=true";
    for policy in ["lru", "belady", "arc"] {
        let of = |args: &[&str]| {
            let mut json = json(&project, &[args, &["--policy", policy]].concat());
            json.as_object_mut().expect("a map").remove("trace");
            json
        };
        let sized = ["--capacity", "3000"];
        let ours = of(&[&["t.csv"], &sized[..]].concat());
        assert_eq!(of(&[&["f.csv", "-t", columns], &sized[..]].concat()), ours, "{policy}");
        let pages = ["--object-bytes", "4KiB", "--capacity", "64KiB"];
        let ours = of(&[&["t.csv"], &pages[..]].concat());
        assert_eq!(of(&[&["t.txt"], &pages[..]].concat()), ours, "{policy}");
    }
}

#[test]
fn what_is_larger_than_the_cache_is_not_cached() {
    let project = Project::empty();
    // The large object between leaves the small one where it is.
    project.write("t.csv", "object,bytes\n1,10\n2,11\n1,10\n2,11\n");
    for policy in ["lru", "fifo", "clock", "sieve", "lfu", "arc", "belady"] {
        let json = json(&project, &["t.csv", "--policy", policy, "--capacity", "10"]);
        assert_eq!(json["results"][0]["misses"], Value::from(3), "{policy}");
        assert_eq!(json["results"][0]["bytes_missed"], Value::from(32), "{policy}");
    }
    // Objects count 1 with --unit; a table need not say their sizes then.
    project.write("t.csv", "object\n1\n2\n1\n2\n");
    let json = json(&project, &["t.csv", "--policy", "lru", "--capacity", "1,2", "--unit"]);
    let misses = [0, 1].map(|index| json["results"][index]["misses"].as_u64());
    assert_eq!(misses, [Some(4), Some(2)]);
}

#[test]
fn every_row_of_the_table_made_with_another_simulator_is_met() {
    let Some(folder) = beside("cache-oracle") else { return };
    let table = std::fs::read_to_string(folder.join("oracle.csv")).expect("it reads");
    let mut groups: BTreeMap<(&str, &str), Vec<(&str, u64)>> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let misses = fields[5].parse().expect("a number");
        groups.entry((fields[0], fields[2])).or_default().push((fields[3], misses));
    }
    assert!(groups.len() >= 22, "both traces and all policies");
    let project = Project::empty();
    for ((trace, policy), rows) in groups {
        let file = folder.join(format!("{trace}.gz")).display().to_string();
        let capacities: Vec<&str> = rows.iter().map(|(capacity, _)| *capacity).collect();
        let capacities = capacities.join(",");
        let json =
            json(&project, &[&file, "--policy", policy, "--unit", "--capacity", &capacities]);
        let found: Vec<Option<u64>> = json["results"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|row| row["misses"].as_u64())
            .collect();
        let expected: Vec<Option<u64>> = rows.iter().map(|(_, misses)| Some(*misses)).collect();
        assert_eq!(found, expected, "{trace} {policy} at {capacities}");
    }
}

/// Requests in Mooncake's format; every prompt has one block more than the one before.
fn mooncake(requests: &[(u64, u32)]) -> String {
    let mut text = String::new();
    let mut from = 0;
    for (at, blocks) in (1..).map(|blocks| blocks * 500).enumerate() {
        let to = requests.len().min(from + blocks);
        let ids: Vec<u64> = requests[from..to].iter().map(|(object, _)| *object).collect();
        let tokens = ids.len() * 512;
        text += &format!(
            "{{\"timestamp\": {at}, \"input_length\": {tokens}, \"output_length\": 1, \
             \"hash_ids\": {ids:?}}}\n"
        );
        from = to;
        if from == requests.len() {
            return text;
        }
    }
    unreachable!("requests end")
}

#[test]
fn blocks_of_requests_are_replayed_as_a_table_of_them_is() {
    let project = Project::empty();
    let requests = requests();
    project.write("t.csv", table(&requests));
    project.write("t.jsonl", mooncake(&requests));
    // No break after the last line, another name.
    project.write("t.requests", mooncake(&requests).trim_end());
    project.write("t.jsonl.gz", gzip(mooncake(&requests).as_bytes(), Compression::best()));
    for policy in ["lru", "belady", "arc"] {
        let of = |file: &[&str]| {
            let with = ["--policy", policy, "--unit", "--capacity", "9"];
            json(&project, &[file, &with].concat())["results"][0]["misses"].clone()
        };
        let expected = of(&["t.csv"]);
        for file in [&["t.jsonl"][..], &["t.jsonl.gz"], &["t.requests", "--reader", "mooncake"]] {
            assert_eq!(of(file), expected, "{policy} {file:?}");
        }
    }
}

#[test]
fn the_hit_ratios_of_the_published_conversations_are_met() {
    let Some(file) = beside("mooncake/conversation_trace.jsonl") else { return };
    let project = Project::empty();
    let file = file.display().to_string();
    let capacity = "10000,50000,1000000";
    let args = ["--reader", "mooncake", "--policy", "lru", "--unit", "--capacity", capacity];
    let json = json(&project, &[&[file.as_str()], &args[..]].concat());
    assert_eq!((&json["requests"], &json["objects"]), (&288_500.into(), &182_790.into()));
    for (index, published) in [0.2112, 0.3546, 0.3664].into_iter().enumerate() {
        let found = 1.0 - json["results"][index]["miss_ratio"].as_f64().expect("a number");
        assert!((found - published).abs() <= 0.0005, "{found} where {published} is published");
    }
}

#[test]
fn bad_traces_are_refused_with_place_and_remedy_and_nothing_is_written() {
    let whole = records(&requests()[..40]);
    let mut empty_object = whole.clone();
    empty_object[24 * 3 + 12..24 * 3 + 16].fill(0);
    let mut liar = records(&[(1, 9), (2, 9), (1, 9), (2, 9)]);
    liar[16..24].copy_from_slice(&3i64.to_le_bytes());
    let packed = gzip(&whole, Compression::best());
    let mut damaged = packed.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    // 100 MB of one record in a few hundred KB.
    let bomb = gzip(&whole[..24].repeat(4 << 20), Compression::best());
    let cases: [(&str, Vec<u8>, &[&str]); 8] = [
        (
            "t.bin",
            whole[..whole.len() - 5].to_vec(),
            &["t.bin: record 39: ", "24 bytes (found 19)"],
        ),
        ("t.bin", empty_object, &["record 3: a size of 1 byte or more (found 0)", "remove"]),
        ("t.bin", liar, &["record 3: ", "next_access_vtime", "write the field anew"]),
        ("t.bin.gz", packed[..packed.len() - 9].to_vec(), &["t.bin.gz: ", "copy the file again"]),
        ("t.bin.gz", damaged, &["t.bin.gz: "]),
        ("t.bin.gz", whole.clone(), &["t.bin.gz: the packed data is damaged"]),
        ("t.bin.zst", whole, &["t.bin.zst: the packed data is damaged"]),
        ("t.bin.gz", bomb, &["t.bin.gz: the file unpacks to more than is allowed"]),
    ];
    for (name, bytes, pieces) in cases {
        let project = Project::empty();
        project.write(name, bytes);
        let policy = if name == "t.bin" { "belady" } else { "lru" };
        let args = ["cache", name, "--policy", policy, "--capacity", "64"];
        project.run(&args).ends_with(2).says(pieces);
        assert!(!project.path("out").exists(), "{pieces:?} wrote");
    }
}

/// Names that fall onto one slot in a table whose hash is a product of the name: multiples of a
/// large power of two, and names that differ in a few bits only. A search that degenerates takes
/// longer than every run may.
#[test]
fn names_with_a_pattern_do_not_hold_it_up() {
    let project = Project::empty();
    let names = (0..200_000u64).flat_map(|n| [n << 44, n.reverse_bits()]);
    let requests: Vec<(u64, u32)> = names.map(|name| (name, 512)).collect();
    project.write("t.bin", records(&requests));
    let args = ["cache", "t.bin", "--policy", "lru", "--capacity", "64", "--unit", "-q"];
    project.run(&args).ends_with(0);
}

//! Sweeps that are cut off, and sweeps in parts: what is finished is never lost and never simulated
//! again, and no file can tell from an uninterrupted run.

use crate::common::*;
use std::process::{Command, Stdio};
use std::time::Instant;

const JOURNAL: &str = "points.journal";

/// Thirty points of one policy, twelve of which are alike, and two policies that no axis touches.
const SHARES: &str = "(name: \"share\", path: \"policies.1.policy.cut.hbm\", values: range(from: \
                      0.02, to: 0.6, step: 0.02))";

/// A machine in each point.
const LINKS: &str = r#"(name: "rate", path: "hardware.tiers.dram.bandwidth", values: choices([
    ("10", "gb_per_s(10)"), ("20", "gb_per_s(20)"), ("30", "gb_per_s(30)"), ("40", "gb_per_s(40)"),
    ("60", "gb_per_s(60)"), ("70", "gb_per_s(70)"), ("80", "gb_per_s(80)"), ("90", "gb_per_s(90)"),
]))"#;

fn swept(axes: &str) -> Project {
    let project = Project::new();
    project.sweep(axes);
    project
}

/// The numbers of the cases that a journal has, each of which it may have once.
fn cases(project: &Project, folder: &str) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let Ok(text) = fs::read_to_string(project.path(folder).join(JOURNAL)) else { return found };
    // The last one may have been cut off.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines().skip(1) {
        let (sum, json) = line.split_at(9);
        assert_eq!(sum, format!("{:08x} ", crc(json.as_bytes())), "{line}");
        let line: Value = serde_json::from_str(json).expect("a line is JSON");
        let case = line.get("case").or(line.get("like")).map(|line| &line["case"]);
        if let Some(case) = case.and_then(Value::as_u64) {
            assert!(found.insert(case), "case {case} was simulated twice");
        }
    }
    found
}

/// CRC-32 as in ISO 3309, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (if crc & 1 == 1 { 0xEDB8_8320 } else { 0 })
        })
    })
}

/// A clock, to spread kills over the time that a run takes; no figure depends on it.
#[expect(clippy::disallowed_methods, reason = "when a kill comes is no result")]
fn now() -> Instant {
    Instant::now()
}

/// Kills sweeps at moments spread over their time, and goes on with each until it ends.
/// `TIERSIM_KILLS` says how many kills; a few by default.
#[test]
fn a_sweep_that_is_killed_goes_on_and_no_file_can_tell() {
    let project = swept(SHARES);
    let kills = std::env::var("TIERSIM_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: u32 = kills.unwrap_or(40);
    let begun = now();
    project.run(&["sweep", CASE, "--no-png", "--out", "whole"]).ends_with(0);
    let takes = now() - begun;
    let whole = project.files("whole");
    let (mut ended, mut early, mut within) = (0, 0, 0);
    for kill in 0..kills {
        let before = cases(&project, "made/o");
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiersim"))
            .args(["sweep", CASE, "--quiet", "--no-png", "--resume", "--out", "made/o"])
            .current_dir(&project.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let at = now() + takes * (kill * 7 % 23 + 1) / 24;
        while now() < at && child.try_wait().expect("it is ours").is_none() {
            std::thread::yield_now();
        }
        child.kill().expect("it can be killed");
        let ran = child.wait().expect("it has ended");
        if ran.success() || project.path("made/o/summary.json").exists() {
            // All of it is there, with or without what the next one takes away.
            let mut files = project.files("made/o");
            files.remove(JOURNAL);
            assert_eq!(files, whole, "kill {kill}");
            fs::remove_dir_all(project.path("made")).expect("ours");
            ended += 1;
            continue;
        }
        let after = cases(&project, "made/o");
        assert!(after.is_superset(&before), "kill {kill} lost {before:?} - {after:?}");
        if after.is_empty() {
            early += 1;
        } else {
            within += 1;
        }
    }
    println!("{kills} kills: {early} before the first case, {within} within, {ended} sweeps ended");
    project.run(&["sweep", CASE, "--no-png", "--resume", "--out", "made/o"]).ends_with(0);
    assert_eq!(project.files("made/o"), whole);
}

#[test]
fn shards_put_together_are_the_sweep() {
    for axes in [SHARES, LINKS] {
        let project = swept(axes);
        project.run(&["sweep", CASE, "--out", "whole"]).ends_with(0);
        for of in [1, 2, 5] {
            let mut seen = BTreeSet::new();
            for shard in 1..=of {
                let name = format!("{shard}/{of}");
                let out = format!("parts-{of}");
                let args = ["sweep", CASE, "--shard", &name, "--out", &out];
                project.run(&args).ends_with(0).shows(&[&format!("shard {name}: ")]);
                let own = cases(&project, &format!("{out}/{shard}-of-{of}"));
                assert!(own.is_disjoint(&seen), "{own:?} {seen:?}");
                seen.extend(own);
            }
            let out = format!("merged-{of}");
            project.run(&["merge", &format!("parts-{of}"), "--out", &out]).ends_with(0);
            assert_eq!(project.files(&out), project.files("whole"), "{of} shards, {axes}");
        }
    }
}

#[test]
fn a_shard_that_is_missing_or_of_another_sweep_is_named() {
    let project = swept(SHARES);
    for shard in ["1/3", "2/3", "3/3"] {
        project.run(&["sweep", CASE, "--shard", shard, "--out", "parts"]).ends_with(0);
    }
    let [one, two, three] = ["parts/1-of-3", "parts/2-of-3", "parts/3-of-3"];
    let merge = |folders: &[&str]| {
        let args = [&["merge"], folders, &["--out", "merged"]].concat();
        project.run(&args)
    };
    let ran = merge(&[one, three]).ends_with(2);
    let ran = ran.says(&["cases are in none of the journals", "--shard I/N --resume"]);
    assert!(!project.path("merged").exists(), "{}", ran.stderr);
    merge(&["parts", one]).ends_with(0);
    // A folder without any.
    merge(&["scenarios"]).ends_with(2).says(&["scenarios: holds no points.journal"]);
    merge(&["nowhere"])
        .ends_with(2)
        .says(&["nowhere: cannot read", "name a folder that tiersim sweep wrote"]);
    // Other seeds, other bounds.
    let other = ["sweep", CASE, "--shard", "2/3", "--out", "others", "--seed", "9"];
    project.run(&other).ends_with(0);
    let ran = merge(&[one, "others", three]).ends_with(2);
    ran.says(&["others/2-of-3/points.journal: has another scenario, machine or trace"]);
    let bounded = ["sweep", CASE, "--shard", "2/3", "--out", "bounded", "--bound", "lp"];
    project.run(&bounded).ends_with(0);
    merge(&[one, "bounded"]).ends_with(2).says(&["has another --bound (lp) than", "(quick)"]);
    // What shards were made of is gone.
    merge(&["parts", "--seed", "3"]).ends_with(2).says(&["those of the shards"]);
    project.edit_scenario("seed: 1,", "seed: 2,");
    let ran = merge(&[one, two, three]).ends_with(2);
    ran.says(&["the shards have another scenario, machine or trace (sha256:"]);
    project.edit_scenario("seed: 2,", "seed: 1,");
    fs::rename(project.path(CASE), project.path("scenarios/moved.ron")).expect("ours");
    merge(&["parts"]).ends_with(2).says(&["case.ron"]);
    merge(&["parts", "--scenario", "scenarios/moved.ron"]).ends_with(0);
}

#[test]
fn parts_are_counted_from_one() {
    let project = swept(SHARES);
    for wrong in ["0/2", "3/2", "1", "a/b", "1/0", "1/70000"] {
        let ran = project.run(&["sweep", CASE, "--shard", wrong]).ends_with(2);
        ran.says(&["counted from 1", "such as 2/8"]);
    }
    let ran = project.run(&["sweep", CASE, "--shard", "1/2", "--report"]).ends_with(2);
    ran.says(&["cannot be used with"]);
    let args = ["sweep", CASE, "--shard", "2/2", "--out", "o", "--format", "json"];
    let json = project.run(&args).ends_with(0).json();
    let own = cases(&project, "o/2-of-2").len();
    assert_eq!(json["ran"].as_u64(), Some(own as u64));
    assert_eq!(json["shard"], serde_json::json!({ "index": 2, "of": 2 }));
    assert_eq!(json["journal"], "o/2-of-2/points.journal");
}

/// A journal with all cases of the sweep.
fn left_behind(project: &Project, folder: &str) -> String {
    project.run(&["sweep", CASE, "--shard", "1/1", "--out", "all"]).ends_with(0);
    let text = project.text("all/1-of-1/points.journal");
    let (head, rest) = text.split_once('\n').expect("a first line");
    let json = head[9..].replace("\"shard\":[1,1]", "\"shard\":null");
    let text = format!("{:08x} {json}\n{rest}", crc(json.as_bytes()));
    project.write(&format!("{folder}/{JOURNAL}"), &text);
    text
}

#[test]
fn a_journal_is_gone_on_with_when_that_is_said() {
    let project = swept(SHARES);
    project.run(&["sweep", CASE, "--out", "whole"]).ends_with(0);
    let text = left_behind(&project, "o");
    let ran = project.run(&["sweep", CASE, "--out", "o"]).ends_with(2);
    ran.says(&["o/points.journal: holds ", "cases of this very sweep", "--resume"]);
    assert_eq!(project.text("o/points.journal"), text);
    let ran = project.run(&["sweep", CASE, "--out", "o", "--resume", "--bound", "lp"]).ends_with(2);
    ran.says(&["was begun with another --bound (quick; now lp)"]);
    let ran = project.run(&["sweep", CASE, "--out", "o", "--resume", "--seed", "2"]).ends_with(2);
    ran.says(&["was begun with another scenario, machine or trace"]);
    // Numbers are the same, and what results say of them is not.
    let machine = project.text("hardware-specs/small.ron");
    project.edit("hardware-specs/small.ron", "assumed(\"test\")", "assumed(\"a guess\")");
    let ran = project.run(&["sweep", CASE, "--out", "o", "--resume"]).ends_with(2);
    ran.says(&["was begun with another name or source of a machine's numbers"]);
    project.write("hardware-specs/small.ron", machine);
    assert_eq!(project.text("o/points.journal"), text);
    project.run(&["sweep", CASE, "--out", "o", "--resume"]).ends_with(0);
    assert_eq!(project.files("o"), project.files("whole"), "and the journal is gone");
    // One of another sweep is of no use, and its place is taken.
    project.write("p/points.journal", &text);
    project.run(&["sweep", CASE, "--out", "p", "--set", "seed=5"]).ends_with(0);
    assert!(!project.path("p/points.journal").exists());
    // With nothing to go on with it begins.
    project.run(&["sweep", CASE, "--out", "q", "--resume"]).ends_with(0);
    assert_eq!(project.files("q"), project.files("whole"));
}

#[test]
fn damage_costs_the_damaged_lines_only() {
    let project = swept(SHARES);
    project.run(&["sweep", CASE, "--out", "whole"]).ends_with(0);
    let text = left_behind(&project, "o");
    let lines: Vec<&str> = text.lines().collect();
    // Cut off anywhere in its last line, or in its first.
    let last = text.len() - lines[lines.len() - 1].len() - 1;
    for cut in [last + 1, last + 9, last + 40, text.len() - 1, 0, 5, lines[0].len()] {
        project.write("o/points.journal", &text[..cut]);
        let ran = project.run(&["sweep", CASE, "--out", "o", "--resume"]).ends_with(0);
        assert!(!ran.stderr.contains("damaged"), "{}", ran.stderr);
        assert_eq!(project.files("o"), project.files("whole"), "cut at {cut}");
    }
    // A flipped bit in any part of a line.
    let end = lines.len() - 1;
    for (line, at) in [(2, 0), (4, 8), (7, 30), (end, lines[end].len() - 10)] {
        let mut damaged: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        damaged[line][at] ^= 1;
        project.write("o/points.journal", [damaged.join(&b'\n'), b"\n".to_vec()].concat());
        let ran = project.run(&["sweep", CASE, "--out", "o", "--resume"]).ends_with(0);
        ran.says(&["damaged and not used: ", &format!("the first is line {}", line + 1)]);
        assert_eq!(project.files("o"), project.files("whole"), "line {line}");
    }
    // Another file by that name is nobody's to overwrite by mistake.
    project.write("o/points.journal", "notes\n");
    let ran = project.run(&["sweep", CASE, "--out", "o", "--resume"]).ends_with(2);
    ran.says(&["points.journal, line 1: this is no journal of a sweep"]);
    assert_eq!(project.text("o/points.journal"), "notes\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_that_fails_ends_the_sweep_and_it_goes_on_later() {
    let project = swept(SHARES);
    project.run(&["sweep", CASE, "--out", "whole"]).ends_with(0);
    let bytes = left_behind(&project, "o").len();
    fs::remove_file(project.path("o/points.journal")).expect("ours");
    // No file may be larger than so many blocks of 512 bytes, as if the drive was full.
    let most = bytes / 512;
    for blocks in [0, 1, 2, most / 4, most / 2, most - 2] {
        let limit = format!("trap '' XFSZ; ulimit -f {blocks}");
        let ran = run_with(&project.root, &["sweep", CASE, "--out", "o", "--resume"], &limit);
        let ran = ran.ends_with(2).says(&["o/points.journal: cannot write: "]);
        assert!(blocks < 3 || ran.stderr.contains("--resume goes on with it"), "{}", ran.stderr);
        assert!(!project.path("o/summary.json").exists());
        let kept = cases(&project, "o");
        assert_eq!(kept.is_empty(), blocks < most / 4, "{blocks}: {kept:?}");
    }
    project.run(&["sweep", CASE, "--out", "o", "--resume"]).ends_with(0);
    assert_eq!(project.files("o"), project.files("whole"));
}

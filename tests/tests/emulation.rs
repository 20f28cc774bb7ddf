//! The classic emulated-tiering hook on the shipped trace, against the formula summed apart.
//!
//! Nothing here uses the planner, the policy, the machine or the library's own arithmetic: the
//! tables of the trace are read as text, modules are ranked, cut and charged by a second
//! implementation, and the sums must be equal to the picosecond.

use tiersim_tests::files::{self, Row, record, root, shipped_scenario};
use tiersim_tests::prelude::*;

/// Rows of a table of the shipped trace.
fn table(name: &str) -> Vec<Row> {
    files::table(&root().join("traces/gpt2-train-cpu").join(format!("{name}.gz")))
}

/// The ranked modules that own weights: the statistics of their own parameters, averaged.
fn ranked() -> Vec<String> {
    let mut scores: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for object in table("objects.csv").iter().filter(|object| object["kind"] == "weight") {
        let number = |column: &str| object[column].parse::<f64>().expect("a number");
        let (sum, count) = scores.entry(object["module"].clone()).or_default();
        *sum += number("adam_m") + number("adam_v");
        *count += 1.0;
    }
    let mut ranked: Vec<(String, f64)> =
        scores.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect();
    ranked.sort_by(|a, b| b.1.partial_cmp(&a.1).expect("finite").then(a.0.cmp(&b.0)));
    ranked.into_iter().map(|(name, _)| name).collect()
}

/// Output bytes of each (step, module): what the module's last forward op that writes, writes.
fn outputs() -> BTreeMap<(String, String), u64> {
    let bytes: Vec<u64> =
        table("objects.csv").iter().map(|o| o["bytes"].parse().expect("bytes")).collect();
    let ops = table("ops.csv");
    let mut written: BTreeMap<usize, u64> = BTreeMap::new();
    for row in table("uses.csv").iter().filter(|row| row["mode"].contains('w')) {
        let op: usize = row["op"].parse().expect("an op");
        let object: usize = row["object"].parse().expect("an object");
        *written.entry(op).or_default() += bytes[object];
    }
    let mut outputs = BTreeMap::new();
    for (op, bytes) in written {
        let row = &ops[op];
        if row["phase"] == "forward" && !row["module"].is_empty() {
            // Later ops of the same module replace earlier ones.
            outputs.insert((row["step"].clone(), row["module"].clone()), bytes);
        }
    }
    outputs
}

#[test]
fn charges_by_weight_bytes_are_paid_once_in_every_pass() {
    let access = [("policies.0.policy.access", "in_place(charge: module_weights)")];
    let scenario = shipped_scenario("seed-two-spellings", &access);
    let record = record(&scenario, Options::default());
    let figures = record.results[0].outcome.figures().expect("it fits");

    let objects = table("objects.csv");
    let mut weights: BTreeMap<&str, u128> = BTreeMap::new();
    for object in objects.iter().filter(|object| object["kind"] == "weight") {
        *weights.entry(&object["module"]).or_default() +=
            object["bytes"].parse::<u128>().expect("bytes");
    }
    // One charge for each (step, phase, module) in which an op uses a weight of the module: the
    // phases of this trace follow each other without interleaving.
    let ops = table("ops.csv");
    let mut charged = std::collections::BTreeSet::new();
    for row in table("uses.csv") {
        let object = &objects[row["object"].parse::<usize>().expect("an object")];
        let op = &ops[row["op"].parse::<usize>().expect("an op")];
        if object["kind"] == "weight" {
            charged.insert((op["step"].clone(), op["phase"].clone(), object["module"].clone()));
        }
    }
    let ranked = ranked();
    let mut expected = BTreeMap::from([("cpu", 0), ("ssd", 0)]);
    for (_, _, module) in charged {
        let bytes = weights[module.as_str()];
        match ranked.iter().position(|name| *name == module).expect("owners are ranked") {
            0..22 => {}
            22..60 => *expected.get_mut("cpu").unwrap() += 5_000_000 + (bytes * 1000).div_ceil(150),
            _ => *expected.get_mut("ssd").unwrap() += 30_000_000 + (bytes * 1000).div_ceil(10),
        }
    }
    for (name, sum) in expected {
        let tier = record.base().tiers.iter().position(|(tier, _)| tier == name).expect("a tier");
        assert!(sum > 0);
        assert_eq!(u128::from(figures.in_place[tier].ps()), sum, "{name}");
    }
}

#[test]
fn in_place_delays_of_the_seed_tiers_equal_the_formula_summed_independently() {
    let ranked = ranked();
    assert_eq!(ranked.len(), 75);
    for (spelling, first, second) in [("shares", 22, 60), ("cumulative", 22, 37)] {
        let cut = format!("{spelling}(hbm: 0.3, cpu: 0.5)");
        let set = [("policies.0.policy.cut", cut.as_str())];
        let scenario = shipped_scenario("seed-two-spellings", &set);
        let record = record(&scenario, Options { audit: true, ..Options::default() });
        let figures = record.results[0].outcome.figures().expect("it fits");

        let (mut cpu, mut ssd) = (0u128, 0u128);
        for ((_, module), bytes) in outputs() {
            let rank = ranked.iter().position(|name| *name == module);
            // setup + ceil(bytes / bandwidth), in ps: 150 GB/s is 0.15 bytes per ps.
            let bytes = u128::from(bytes);
            match rank {
                Some(rank) if (first..second).contains(&rank) => {
                    cpu += 5_000_000 + (bytes * 1000).div_ceil(150);
                }
                Some(rank) if rank >= second => ssd += 30_000_000 + (bytes * 1000).div_ceil(10),
                _ => {}
            }
        }
        let tier = |kind| record.base().tiers.iter().position(|(_, k)| *k == kind).expect("a tier");
        assert!(cpu > 0 && ssd > 0);
        assert_eq!(u128::from(figures.in_place[tier(TierKind::Dram)].ps()), cpu, "{spelling}");
        assert_eq!(u128::from(figures.in_place[tier(TierKind::Nvme)].ps()), ssd, "{spelling}");
        // The delays are all that such a run adds to the baseline.
        let baseline = record.base().baseline.steps.total();
        assert_eq!(figures.steps.total(), baseline + cpu + ssd, "{spelling}");
    }
}

//! `to device-map`: where weights are, as accelerate's map of modules.
//!
//! The oracles are the other way out, `hints`, and the map itself, followed as hints.

use crate::common::*;

/// The device of a module: that of the entry nearest to its name.
fn device<'m>(map: &'m serde_json::Map<String, Value>, module: &str) -> &'m Value {
    let mut name = module;
    loop {
        if let Some(device) = map.get(name) {
            return device;
        }
        name = match name.rsplit_once('.') {
            Some((above, _)) => above,
            None if name.is_empty() => panic!("no entry is above {module}"),
            None => "",
        };
    }
}

const MAPPED: &str = r#"Scenario(schema: 2, about: "a map", hardware: "h100-sxm-pcie5", capacity: {"hbm": gib(24)},
    workload: Model(model: "llama-2-13b", precision: fp16,
        mode: generate(prompt: 16, tokens: 2, batch: 1), time: roofline(precision: "fp16"),
        repeat: 1, warmup: 0),
    policies: [(name: "map", policy: POLICY)])"#;

/// A map, followed as hints, is the same map; and the placement that `hints` writes is the map's.
#[test]
fn a_device_map_followed_as_hints_is_itself() {
    let project = Project::shipped();
    let policy = "DeviceMap(hbm: gib(16), cpu: gib(4))";
    project.write("map.ron", MAPPED.replace("POLICY", policy));
    let first = project.run(&["to", "device-map", "map.ron"]).ends_with(0).json();
    let map = first.as_object().expect("a map");
    let limits = project.run(&["to", "device-map", "map.ron", "--max-memory"]).ends_with(0);
    let limits =
        limits.says(&["policies.map.policy.hbm: 16.000 GiB", "policies.map.policy.cpu: 4.000 GiB"]);
    let limits = limits.json();
    assert_eq!(limits, serde_json::json!({ "0": 16_u64 << 30, "cpu": 4_u64 << 30 }));
    let word = |device: &Value| match device.as_str() {
        None => "HBM",
        Some("cpu") => "CPU",
        Some(_) => "SSD",
    };
    let hints: BTreeMap<&str, &str> =
        map.iter().map(|(name, device)| (name.as_str(), word(device))).collect();
    let kinds: BTreeSet<&str> = hints.values().copied().collect();
    assert_eq!(kinds.len(), 3, "all three places are used: {hints:?}");
    project.write("hints.json", serde_json::to_string(&hints).expect("JSON"));
    project.write("hints.ron", MAPPED.replace("POLICY", "Hints(file: \"hints.json\")"));
    let second = project.run(&["to", "device-map", "hints.ron"]).ends_with(0).json();
    assert_eq!(second, first);
    let placed = project.run(&["hints", "hints.ron"]).ends_with(0).json();
    let placed = placed.as_object().expect("modules");
    let modules = placed.iter().filter(|(name, _)| name.contains("model") || *name == "lm_head");
    let mut count = 0;
    for (module, tier) in modules {
        assert_eq!(word(device(map, module)), tier.as_str().expect("a tier"), "{module}");
        count += 1;
    }
    assert!(count > 40 * 7, "{count} modules: every matrix of 40 blocks");
}

/// A limit is told with what says it: the case's budget, or a tier of the machine.
#[test]
fn a_limit_names_its_own_source() {
    let project = Project::shipped();
    let of = |policy: &str| {
        project.write("map.ron", MAPPED.replace("POLICY", policy));
        let ran = project.run(&["to", "device-map", "map.ron", "--max-memory"]).ends_with(0);
        let lines = ran.stderr.lines().filter_map(|line| line.split_once(" -> max_memory["));
        let at = |(said, limit): (&str, &str)| {
            let (at, _) = said.trim().rsplit_once(": ").expect("a value");
            let (name, _) = limit.split_once(']').expect("a device");
            format!("{name}: {at}")
        };
        lines.map(at).collect::<Vec<_>>()
    };
    let machine = ["0: hardware.tiers.hbm.capacity", "cpu: hardware.tiers.dram.capacity"];
    assert_eq!(of("AllHbm"), machine);
    assert_eq!(of("AllHbm, hbm: gib(20)"), ["0: policies.map.hbm", machine[1]]);
    assert_eq!(of("DeviceMap()"), machine);
    let own = ["0: policies.map.policy.hbm", "cpu: policies.map.policy.cpu"];
    assert_eq!(of("DeviceMap(hbm: gib(16), cpu: gib(4))"), own);
    // Less than the map asks for is all that there is.
    assert_eq!(of("DeviceMap(hbm: gib(60))"), machine);
}

#[test]
fn a_map_of_one_place_names_what_is_outermost_and_a_tied_head_has_an_entry() {
    let project = Project::shipped();
    project.write("all.ron", MAPPED.replace("POLICY", "ZeroOffload(parameters: \"far\")"));
    let all = project.run(&["to", "device-map", "all.ron"]).ends_with(0).json();
    assert_eq!(all, serde_json::json!({ "model": "cpu", "lm_head": "cpu" }));
    let tied = MAPPED.replace("llama-2-13b", "gpt2");
    project.write("tied.ron", tied.replace("POLICY", "DeviceMap(hbm: mib(120))"));
    let tied = project.run(&["to", "device-map", "tied.ron"]).ends_with(0).json();
    let map = tied.as_object().expect("a map");
    assert_eq!(device(map, "lm_head"), device(map, "transformer.wte"));
}

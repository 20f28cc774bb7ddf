//! Device maps equal those of Hugging Face accelerate, name by name.
//!
//! `cases.json`: answers of accelerate 1.15.0's `infer_auto_device_map` to small random modules
//! with and without shared tensors; sizes are bytes. The large cases, four Llama-shaped models with
//! one or two GPUs, are beside the checkout where there are any.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_policies::zoo::device_map::infer::{Device, DeviceKind, Module, infer};

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn devices(gpus: &[u64], cpu: u64) -> Vec<Device> {
    let gpus = gpus.iter().map(|&memory| Device { kind: DeviceKind::Gpu, memory });
    gpus.chain([
        Device { kind: DeviceKind::Cpu, memory: cpu },
        Device { kind: DeviceKind::Disk, memory: 0 },
    ])
    .collect()
}

/// Devices by the names that accelerate gives them.
fn named(map: BTreeMap<String, usize>, gpus: usize) -> BTreeMap<String, String> {
    let name = |device: usize| match device.checked_sub(gpus) {
        None => device.to_string(),
        Some(0) => "cpu".to_owned(),
        Some(_) => "disk".to_owned(),
    };
    map.into_iter().map(|(module, device)| (module, name(device))).collect()
}

fn expected(map: &Value) -> BTreeMap<String, String> {
    let map = map.as_object().expect("a map");
    map.iter().map(|(module, device)| (module.clone(), text(device))).collect()
}

fn module(value: &Value) -> Module {
    Module {
        name: text(&value["name"]),
        whole: value["whole"].as_bool().expect("a flag"),
        tensors: list(&value["tensors"]).iter().map(|t| (text(&t[0]), number(&t[1]))).collect(),
        children: list(&value["children"]).iter().map(module).collect(),
    }
}

#[test]
fn random_modules_with_shared_tensors_are_mapped_as_accelerate_maps_them() {
    let cases: Value =
        serde_json::from_str(include_str!("device_map/cases.json")).expect("the file is JSON");
    let mut shared = 0;
    for (index, case) in list(&cases).iter().enumerate() {
        let tied: Vec<Vec<String>> = list(&case["tied"])
            .iter()
            .map(|group| list(group).iter().map(text).collect())
            .collect();
        let gpus: Vec<u64> = list(&case["gpus"]).iter().map(number).collect();
        let devices = devices(&gpus, number(&case["cpu"]));
        let map = named(infer(&module(&case["model"]), &tied, &devices), gpus.len());
        assert_eq!(map, expected(&case["map"]), "case {index}");
        shared += usize::from(!tied.is_empty());
    }
    assert!(shared >= 30, "only {shared} cases share tensors");
}

/// A module without children that owns one tensor.
fn leaf(name: &str, bytes: u64) -> Module {
    let tensors = vec![("weight".to_owned(), bytes)];
    Module { name: name.to_owned(), tensors, ..Module::default() }
}

fn parent(name: &str, children: Vec<Module>) -> Module {
    Module { name: name.to_owned(), children, ..Module::default() }
}

/// A Llama-shaped model in 16 bits.
fn llama(hidden: u64, ffn: u64, layers: u64, vocab: u64, no_split: bool) -> Module {
    let linear = |name, rows: u64, columns: u64| leaf(name, 2 * rows * columns);
    let layer = |index: u64| {
        let attention = ["q_proj", "k_proj", "v_proj", "o_proj"];
        let attention = attention.map(|name| linear(name, hidden, hidden)).to_vec();
        let mlp = ["gate_proj", "up_proj", "down_proj"].map(|name| linear(name, hidden, ffn));
        let children = vec![
            parent("self_attn", attention),
            parent("mlp", mlp.to_vec()),
            linear("input_layernorm", hidden, 1),
            linear("post_attention_layernorm", hidden, 1),
        ];
        Module { whole: no_split, ..parent(&index.to_string(), children) }
    };
    let children = vec![
        linear("embed_tokens", vocab, hidden),
        parent("layers", (0..layers).map(layer).collect()),
        linear("norm", hidden, 1),
        linear("lm_head", vocab, hidden),
    ];
    parent("", children)
}

fn bytes_of(module: &Module) -> u64 {
    let own: u64 = module.tensors.iter().map(|(_, bytes)| bytes).sum();
    own + module.children.iter().map(bytes_of).sum::<u64>()
}

/// Bytes by device of what is at or below `name`.
fn bytes_by_device(
    module: &Module,
    name: &str,
    above: Option<&String>,
    map: &BTreeMap<String, String>,
    sums: &mut BTreeMap<String, u64>,
) {
    let device = map.get(name).or(above);
    for (tensor, bytes) in &module.tensors {
        let own = map.get(&format!("{name}.{tensor}")).or(device);
        *sums.entry(own.expect("everything is placed").clone()).or_default() += bytes;
    }
    for child in &module.children {
        let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
        bytes_by_device(child, &format!("{prefix}{}", child.name), device, map, sums);
    }
}

#[test]
fn every_large_case_equals_accelerates_own_answer() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/accelerate");
    let deeper = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/accelerate");
    let folder = [root, deeper].into_iter().find(|folder| Path::new(folder).is_dir());
    let Some(folder) = folder else {
        eprintln!("not checked: no device maps beside the checkout");
        return;
    };
    let file = std::fs::read_to_string(format!("{folder}/device_maps.json"));
    let file: Value = serde_json::from_str(&file.expect("it reads")).expect("it is JSON");
    let cases = list(&file["cases"]);
    assert_eq!(cases.len(), 115);
    for (index, case) in cases.iter().enumerate() {
        let [hidden, ffn, layers, vocab] =
            ["hidden", "ffn", "layers", "vocab"].map(|key| number(&case[key]));
        let model = llama(hidden, ffn, layers, vocab, case["no_split"] == Value::Bool(true));
        assert_eq!(bytes_of(&model), number(&case["total_bytes"]), "case {index}");
        let limits = case["max_memory"].as_object().expect("a map");
        let mut gpus: Vec<(u64, u64)> = limits
            .iter()
            .filter_map(|(name, limit)| Some((name.parse().ok()?, number(limit))))
            .collect();
        gpus.sort_unstable();
        let gpus: Vec<u64> = gpus.into_iter().map(|(_, limit)| limit).collect();
        let devices = devices(&gpus, number(&limits["cpu"]));
        let map = named(infer(&model, &[], &devices), gpus.len());
        assert_eq!(map, expected(&case["device_map"]), "case {index}");
        let mut sums = BTreeMap::new();
        bytes_by_device(&model, "", None, &map, &mut sums);
        let wanted = case["bytes_per_device"].as_object().expect("a map");
        let wanted = wanted.iter().map(|(name, bytes)| (name.clone(), number(bytes)));
        assert_eq!(sums, wanted.collect(), "case {index}");
    }
}

//! What the command is made of, as a list of components by CycloneDX 1.5.
//!
//! From `cargo metadata`: the packages that the command reaches on a target by dependencies that
//! are linked or run while it is built; those of tests alone are left out.
//! Invariant: the same lock file and target give the same bytes, so nothing says when it was made.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The list of components of package `root` from what `cargo metadata` says.
///
/// Errors in words if the metadata is not what Cargo writes.
pub(crate) fn sbom(metadata: &Value, root: &str) -> Result<String, String> {
    let list = |value: &Value, what: &str| {
        value.as_array().cloned().ok_or_else(|| format!("cargo metadata has no {what}"))
    };
    let packages = list(&metadata["packages"], "packages")?;
    let by_id = |package: &Value| Some((package["id"].as_str()?.to_owned(), package.clone()));
    let packages: BTreeMap<String, Value> = packages.iter().filter_map(by_id).collect();
    let nodes = list(&metadata["resolve"]["nodes"], "resolved packages")?;
    let nodes: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let first = packages.iter().find(|(_, package)| package["name"] == root);
    let (first, itself) = first.ok_or_else(|| format!("there is no package {root}"))?;
    let (mut open, mut reached) = (vec![first.as_str()], BTreeSet::new());
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        let needs = nodes.get(id).and_then(|node| node["deps"].as_array());
        for need in needs.into_iter().flatten() {
            let kinds = need["dep_kinds"].as_array();
            if kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev")) {
                open.extend(need["pkg"].as_str());
            }
        }
    }
    reached.remove(first.as_str());
    let components: Vec<Value> = reached.iter().map(|id| component(&packages[*id])).collect();
    let bom = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": component(itself) },
        "components": components,
    });
    Ok(format!("{bom:#}\n"))
}

fn component(package: &Value) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let (name, version) = (text("name"), text("version"));
    let mut component = json!({
        "type": "library", "name": name, "version": version,
        "licenses": [{ "expression": text("license") }],
    });
    // What lies in this repository comes from no registry.
    if package["source"].is_string() {
        component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_or_built_with_is_listed_and_what_tests_need_is_not() {
        let package = |name: &str| {
            let source = (name != "root").then_some("registry");
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT",
                "source": source })
        };
        let node = |name: &str, needs: &[(&str, Value)]| {
            let need = |(name, kind): &(&str, Value)| {
                let kinds = [json!({ "kind": kind })];
                json!({ "pkg": name, "dep_kinds": kinds })
            };
            json!({ "id": name, "deps": needs.iter().map(need).collect::<Vec<_>>() })
        };
        let needs = [("lib", Value::Null), ("dev", json!("dev")), ("build", json!("build"))];
        let packages = ["build", "deep", "dev", "lib", "root"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                node("root", &needs),
                node("lib", &[("deep", Value::Null)]),
                node("deep", &[]), node("dev", &[]), node("build", &[]),
            ]},
        });
        let bom: Value = serde_json::from_str(&sbom(&metadata, "root").unwrap()).unwrap();
        let names = bom["components"].as_array().unwrap().iter().map(|one| one["name"].clone());
        assert_eq!(names.collect::<Vec<_>>(), ["build", "deep", "lib"]);
        assert_eq!(bom["components"][1]["purl"], "pkg:cargo/deep@1.0.0");
        assert_eq!(bom["metadata"]["component"]["purl"], Value::Null);
        assert!(sbom(&metadata, "none").is_err() && sbom(&json!({}), "root").is_err());
    }
}

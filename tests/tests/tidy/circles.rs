//! Modules of one crate that use each other in a circle.
//!
//! A module is a file. It uses another where its shipped text names a path of it from `crate`,
//! `super` or `self`; naming only what a parent hands on counts as using the parent.

use super::{shipped, sources};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::BTreeMap;
use tiersim_tests::files::root;

const CRATES: [&str; 9] =
    ["models", "workloads", "policies", "input", "sim", "reports", "validation", "what-if", "cli"];

/// The text of every module of a crate by its path, `""` for the root.
fn modules(room: &str) -> BTreeMap<String, String> {
    let source = root().join(room).join("src");
    let module = |(path, text): (std::path::PathBuf, String)| {
        let path = path.strip_prefix(&source).expect("it is below").with_extension("");
        let parts: Vec<_> = path.iter().map(|part| part.to_str().expect("UTF-8")).collect();
        let name =
            if matches!(parts[..], ["lib" | "main"]) { String::new() } else { parts.join("::") };
        let lines = shipped(&text).lines().map(|line| line.split("//").next().unwrap_or(line));
        (name, lines.collect::<Vec<_>>().join("\n"))
    };
    sources(&format!("{room}/src")).into_iter().map(module).collect()
}

/// The paths of a tree of `use`, such as `crate::a::{b, c::{self, d}}`.
fn paths(before: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        found.push(format!("{before}{}", tree.split(" as ").next().unwrap_or(tree).trim()));
        return;
    };
    let before = format!("{before}{}", head.trim());
    let rest = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in rest.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                paths(&before, &rest[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !rest[start..].trim().is_empty() {
        paths(&before, &rest[start..], found);
    }
}

/// Every path in a text that begins with one of the words for modules of the same crate.
fn named(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = String::new();
    for (index, part) in text.split("use ").enumerate() {
        let is_use =
            index > 0 && ["crate::", "super::", "self::"].iter().any(|word| part.starts_with(word));
        match part.split_once(';') {
            Some((tree, after)) if is_use => {
                paths("", tree, &mut found);
                rest.push_str(after);
            }
            _ => rest.push_str(part),
        }
    }
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = rest.split(|letter| !is_path(letter));
    found.extend(
        words
            .filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
            .map(str::to_owned),
    );
    found
}

/// The module that a path written in `here` is about: the longest part of it that is one.
fn resolved(here: &str, path: &str, known: &BTreeMap<String, usize>) -> Option<usize> {
    let mut parts: Vec<&str> = here.split("::").filter(|part| !part.is_empty()).collect();
    let mut path: Vec<&str> = path.split("::").map(str::trim).collect();
    match path[0] {
        "crate" => parts.clear(),
        "self" => {}
        _ => {
            while path.first() == Some(&"super") {
                parts.pop();
                path.remove(0);
            }
            path.insert(0, "super");
        }
    }
    parts.extend(&path[1..]);
    (1..=parts.len()).rev().find_map(|count| known.get(&parts[..count].join("::")).copied())
}

fn circles(room: &str) -> Vec<Vec<String>> {
    let modules = modules(room);
    let mut graph = DiGraph::<&str, ()>::new();
    let nodes: Vec<_> = modules.keys().map(|name| graph.add_node(name)).collect();
    let known: BTreeMap<String, usize> = modules.keys().cloned().zip(0..).collect();
    for (from, (here, text)) in modules.iter().enumerate() {
        for to in named(text).iter().filter_map(|path| resolved(here, path, &known)) {
            graph.update_edge(nodes[from], nodes[to], ());
        }
    }
    let groups = kosaraju_scc(&graph).into_iter().filter(|group| group.len() > 1);
    let names = |group: Vec<NodeIndex>| {
        let mut names: Vec<String> = group.into_iter().map(|node| graph[node].to_owned()).collect();
        names.sort_unstable();
        names
    };
    groups.map(names).collect()
}

#[test]
fn no_modules_of_a_crate_use_each_other_in_a_circle() {
    for room in CRATES {
        assert_eq!(circles(room), Vec::<Vec<String>>::new(), "{room}");
    }
}

#[test]
fn circles_are_found() {
    let mut all = Vec::new();
    paths("", "crate::a::{b, c::{self, d}, e as f}", &mut all);
    assert_eq!(all, ["crate::a::b", "crate::a::c::self", "crate::a::c::d", "crate::a::e"]);
    let text = "use crate::a::B;\nlet c = super::d::e(crate::f::G);\nuse self::h::I;";
    assert_eq!(named(text), ["crate::a::B", "self::h::I", "super::d::e", "crate::f::G"]);
    let known = ["", "a", "a::h", "d", "f"].map(str::to_owned);
    let known: BTreeMap<String, usize> = known.into_iter().zip(0..).collect();
    let of = |path| resolved("a", path, &known);
    assert_eq!(
        [of("crate::f::G"), of("self::h::I"), of("super::d::e")],
        [Some(4), Some(2), Some(3)]
    );
    assert_eq!(of("crate::nothing"), None);
}

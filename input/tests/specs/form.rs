//! The scanner: places, substitution, and reading in linear time.

use crate::specs::project::{GOOD, shipped};
use proptest::prelude::*;
use std::path::Path;
use tiersim_input::text::ron_scan::MAX_DEPTH;
use tiersim_input::text::ron_text::Document;
use tiersim_models::diagnostic::Place;

fn document(text: &str) -> Document {
    Document::from_text(Path::new("x.ron"), text.to_string()).unwrap()
}

fn check(text: &str, line: u64, column: u64, rule: &str) {
    let problems = Document::from_text(Path::new("x.ron"), text.to_string()).unwrap_err();
    let first = &problems.0[0];
    assert_eq!(first.place, Some(Place { line, column }), "{problems}");
    assert!(first.rule.contains(rule), "{problems}");
}

#[test]
fn names_of_structs_and_variants_are_not_part_of_a_path() {
    let good = document(GOOD);
    for (path, value) in [
        ("policies.1.policy.cut.hbm", "0.3"),
        ("policies.adam.policy.cut.hbm", "0.3"),
        ("capacity.hbm", "gib(2)"),
        ("capacity.hbm.0", "2"),
        ("policies.3.hbm", "share_of_peak(0.25)"),
        ("policies.2.policy.kinds.0", "weight"),
        ("sweep.axes.1.values.1.0", "\"migrate\""),
        ("expect.5.at_least", "gib(1)"),
        ("workload.time.precision", "\"tf32\""),
        ("policies.0.policy", "AllHbm"),
    ] {
        assert_eq!(good.value(path).as_deref(), Some(value), "{path}");
    }
    assert_eq!(good.value("policies.1.policy.cut.nvme"), None);
    assert_eq!(good.value("policies.adam.policy.cut.hbm.0"), None);
    assert_eq!(good.place("policies.1.policy.cut.hbm"), Place { line: 17, column: 30 });
    // What does not exist has the place of what is around it.
    assert_eq!(good.place("policies.1.policy.cut.nvme.x"), Place { line: 17, column: 18 });
}

#[test]
fn comments_strings_and_numbers_of_every_kind_are_read_over() {
    let text = "/* a /* b */ ( */ (a /*x*/ : // y ) \n 'x', b: '\\'', c: r#\"a\"b)\"#, d: b\"\\\"(\",\
                e: br#\"(\"#, f: -1_000.5e+3, r#g: \"é\\u{e9}\", h: Some((1, \"z\")), i: {1: [], \"k\": {}},)";
    let doc = document(text);
    for (path, value) in [
        ("a", "'x'"),
        ("b", "'\\''"),
        ("c", "r#\"a\"b)\"#"),
        ("d", "b\"\\\"(\""),
        ("e", "br#\"(\"#"),
        ("f", "-1_000.5e+3"),
        ("g", "\"é\\u{e9}\""),
        ("h.1", "\"z\""),
        ("i.1", "[]"),
        ("i.k", "{}"),
    ] {
        assert_eq!(doc.value(path).as_deref(), Some(value), "{path}");
    }
    assert_eq!(doc.place("a"), Place { line: 2, column: 2 });
}

#[test]
fn nesting_is_capped_at_the_limit_and_not_before() {
    let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    document(&nested(MAX_DEPTH));
    check(&nested(MAX_DEPTH + 1), 1, MAX_DEPTH as u64 + 1, "nested deeper than 128 levels");
    // What is put in counts as if it stood there.
    let deep = document(&nested(MAX_DEPTH - 1));
    let innermost = vec!["0"; MAX_DEPTH - 1].join(".");
    assert!(deep.with(&innermost, "[1]", "test").is_ok());
    assert!(deep.with(&innermost, "[[1]]", "test").is_err());
}

/// Of all values, in the order of the file.
fn paths(document: &Document) -> Vec<String> {
    document.tree().values().map(|id| document.tree().path(id)).collect()
}

#[test]
fn substituting_a_value_by_itself_changes_nothing() {
    let mut texts = vec![GOOD.to_string()];
    for folder in [shipped(), shipped().join("parts")] {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.is_file());
        texts.extend(files.map(|path| std::fs::read_to_string(path).unwrap()));
    }
    for text in texts {
        let doc = document(&text);
        let mut seen = 0;
        for id in doc.tree().values() {
            let path = doc.tree().path(id);
            let value = doc.tree().text(id);
            let found = doc.tree().find(&path).unwrap_or_else(|| panic!("no {path}"));
            // The text of a newtype's content has a path of its own only if it is a leaf.
            let whole = doc.tree().text(found);
            assert!(whole.contains(&*value));
            if !path.is_empty() && !path.contains(' ') {
                let same = doc.with(&path, &whole, "test").unwrap();
                assert_eq!(same.value(&path).unwrap(), whole, "{path}");
                assert_eq!(same.place(&path), doc.place(&path), "{path}");
                assert_eq!(paths(&same), paths(&doc), "{path}");
                seen += 1;
            }
        }
        assert!(seen > 5);
    }
}

#[test]
fn a_list_as_long_as_a_file_may_be_is_read() {
    // An untyped reader needs time in the square of this; `cargo bench` prints how ours grows.
    let n = ((1 << 20) - 2) / "0.5, ".len();
    let doc = document(&format!("[{}]", "0.5, ".repeat(n)));
    assert_eq!(doc.parse::<Vec<f64>>().unwrap().raw.len(), n);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_makes_the_scanner_panic(text in "[\\(\\)\\[\\]\\{\\}:,\"'#rb/\\*\\\\a1é \n]{0,60}") {
        if let Ok(document) = Document::from_text(Path::new("x.ron"), text.clone()) {
            let tree = document.tree();
            for id in tree.values() {
                prop_assert!(text.contains(tree.written_with_name(id)));
                prop_assert!(tree.find(&tree.path(id)).is_some() || tree.path(id).contains('"'));
            }
        }
    }

    #[test]
    fn no_edit_of_a_scenario_makes_the_reader_panic(
        at in 0usize..GOOD.len(),
        cut in 0usize..40,
        put in "[\\(\\)\\[\\]\\{\\}:,\"#a1. -]{0,4}",
    ) {
        let (mut start, mut end) = (at, (at + cut).min(GOOD.len()));
        while !GOOD.is_char_boundary(start) { start -= 1; }
        while !GOOD.is_char_boundary(end) { end += 1; }
        let text = format!("{}{put}{}", &GOOD[..start], &GOOD[end..]);
        if let Ok(doc) = Document::from_text(Path::new("x.ron"), text) {
            let _ = doc.parse::<tiersim_input::scenario::raw::RawScenario>();
        }
    }
}

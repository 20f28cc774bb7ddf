//! `docs/reference/models.md` lists the known models as they are.

use std::path::Path;
use tiersim_workloads::transformer::known::KNOWN;

/// A number with commas.
fn commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_page_lists_every_known_model() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/models.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let rows = KNOWN.iter().map(|known| {
        let card = known.card();
        format!(
            "| `{}` | {} | {} | {} | {} | {} |",
            known.name,
            known.family.word(),
            commas(card.parameters()),
            commas(card.active_parameters()),
            if known.published.is_some() { "yes" } else { "no" },
            known.source
        )
    });
    let rows: Vec<String> = rows.collect();
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !listed.contains(&&***row)).collect();
    assert!(missing.is_empty(), "docs/reference/models.md lacks:\n{}", rows.join("\n"));
}

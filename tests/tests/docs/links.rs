//! Links of pages lead to files and headings that exist, and every page is in the index.
//!
//! What is checked are the pages of `docs/`, those at the root, and the notes beside what ships.
//! Addresses outside are not looked at: tests have no network.

use std::collections::BTreeSet;
use std::path::Component;
use tiersim_tests::files::{pages, root};
use tiersim_tests::prelude::*;

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// The lines of a page that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Where the links of a page lead, those outside left out.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // A link may be broken between two lines, and code between backticks holds none.
    let text = prose(text).collect::<Vec<_>>().join("\n");
    let text: String = text.split('`').step_by(2).collect::<Vec<_>>().join("`");
    for rest in text.split("](").skip(1) {
        let target = rest.split(')').next().unwrap_or_default();
        if !target.contains("://") && !target.starts_with("mailto:") {
            found.push(target.to_owned());
        }
    }
    found
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Everything that people read, but the changes of versions that are past.
fn all() -> Vec<PathBuf> {
    let at_root =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    let beside = ["docs/README.md", "docs/glossary.md", "docs/development.md"];
    let python = ["record/README.md", "python/README.md"];
    let others = at_root.into_iter().chain(beside).chain(python).map(|name| root().join(name));
    others.chain(pages()).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let (mut wrong, mut followed) = (Vec::new(), 0);
    for path in all() {
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => path.clone(),
                file => plain(&path.parent().expect("a folder").join(file)),
            };
            followed += 1;
            let found = if heading.is_empty() {
                target.exists()
            } else {
                let text = fs::read_to_string(&target).unwrap_or_default();
                prose(&text).any(|line| line.starts_with('#') && anchor(line) == heading)
            };
            if !found {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links to nothing:\n  {}", wrong.join("\n  "));
    assert!(followed > 400, "{followed}");
}

#[test]
fn the_index_has_every_page() {
    let index = root().join("docs/README.md");
    let text = fs::read_to_string(&index).expect("the index");
    let linked: BTreeSet<PathBuf> =
        links(&text).iter().map(|link| plain(&root().join("docs").join(link))).collect();
    // What has an index of its own is linked there.
    let own_index = |page: &PathBuf| {
        let index = page.with_file_name("README.md");
        index.exists() && *page != index
    };
    let pages = pages().into_iter().filter(|page| !own_index(page));
    let missing: Vec<PathBuf> = pages.filter(|page| !linked.contains(&plain(page))).collect();
    assert!(missing.is_empty(), "docs/README.md does not link {missing:?}");
}

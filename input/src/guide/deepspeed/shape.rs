//! What a configuration may not be: one of ranks that split a model, or words where sections belong.
//!
//! Invariant: what would make another case than replicas is refused, and not passed over.

use super::super::Fate;
use super::super::reader::Reader;
use super::keys;

/// What splits a model among ranks is refused: without it the case would be another one.
pub(super) fn splits(of: &mut Reader<'_>) {
    let off = |of: &Reader<'_>, section: &str| {
        let found = of.find(&format!("{section}.enabled"));
        found.is_some_and(|(_, entry)| entry.value.as_deref() == Some("false"))
    };
    for (key, axis) in keys::SPLITS {
        let section = key.split_once('.').map_or(key, |(section, _)| section);
        if off(of, section) || of.is_auto(key) {
            continue;
        }
        let Some(ranks) = of.number(key, [0, 1 << 16], "one rank: nothing is split") else {
            continue;
        };
        if ranks > 1 {
            let place = of.find(key).expect("it was read").1.place;
            let rule = format!("`{key}` splits the model, and a configuration is read as replicas");
            let remedy = format!("write a scenario with `parallel: ({axis}: {ranks})`");
            of.wrong(place, &rule, &ranks.to_string(), &remedy);
        } else {
            of.ignore(key, "one rank: nothing is split");
        }
    }
}

/// Sections that are empty say nothing; what is no section where one belongs is refused.
pub(super) fn sections(of: &mut Reader<'_>) {
    for key in keys::SECTIONS {
        let Some((index, entry)) = of.find(key) else { continue };
        match entry.value.as_deref() {
            Some("{}" | "null" | "~" | "") => {
                of.rows[index] = Some(Fate::Ignored("an empty section".to_owned()));
            }
            value => {
                let rule = format!("`{key}` is a section");
                let found = value.unwrap_or("a list");
                of.wrong(entry.place, &rule, found, "write { } with the section's keys in it");
            }
        }
    }
}

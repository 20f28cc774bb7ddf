//! A text with marks made into a page.

use super::homes::{Homes, Page, mark};
use super::table::{Place, table};
use super::types::Types;
use super::wrap::wrapped;

/// The line that a generated page begins with.
const NOTE: &str = "<!-- Written by `cargo xtask reference` from the types and from \
                    xtask/reference. Change those. -->";

impl Page {
    /// The page that the text means.
    pub(crate) fn written(&self, homes: &Homes, types: &Types) -> Result<String, String> {
        let place = Place { page: &self.name, homes, types };
        let mut page = format!("{NOTE}\n\n");
        let mut in_code = false;
        for line in self.text.lines() {
            in_code ^= line.starts_with("```");
            let lines = match mark(line).filter(|_| !in_code) {
                Some(mark) => match mark.strip_prefix("columns ") {
                    Some(constant) => columns(constant, types)?,
                    None => table(&types.named(mark)?, &place)?,
                },
                None => line.to_owned(),
            };
            if lines.is_empty() {
                page.push('\n');
            }
            for line in lines.lines() {
                page += &if in_code { line.to_owned() } else { homes.linked(line, &self.name)? };
                page.push('\n');
            }
        }
        Ok(wrapped(&page))
    }
}

/// The columns of a table: a constant names them, its doc comment says what each is, as a list of
/// ``* `name`: type; meaning``.
fn columns(constant: &str, types: &Types) -> Result<String, String> {
    let (text, docs) = types.texts.get(constant).ok_or(format!("no text is called {constant}"))?;
    let mut items: Vec<String> = Vec::new();
    for line in docs {
        match (line.strip_prefix("* "), items.last_mut()) {
            (Some(item), _) => items.push(item.to_owned()),
            (None, Some(item)) if !line.is_empty() => *item += &format!(" {line}"),
            _ => {}
        }
    }
    let mut table = "| column | | type | meaning |\n|---|---|---|---|\n".to_owned();
    let mut said = items.iter();
    for word in text.split(' ') {
        let name = word.trim_end_matches('?');
        let needed = if name == word { "required" } else { "optional" };
        let item = said.next().and_then(|item| item.strip_prefix(&format!("`{name}`: ")));
        let (of, meaning) = item
            .and_then(|item| item.split_once("; "))
            .ok_or(format!("{constant}: the doc comment does not say what `{name}` is"))?;
        let meaning = meaning.trim_end_matches('.');
        table += &format!("| `{name}` | {needed} | {of} | {meaning} |\n");
    }
    match said.next() {
        Some(item) => Err(format!("{constant} has no column for: {item}")),
        None => Ok(table.trim_end().to_owned()),
    }
}

//! Writes a machine on top of another: some numbers are told, with their sources, and all others
//! are the other machine's and say so.
//!
//! [`super::write`] writes what a measurement alone makes; a machine that keeps what nobody measured
//! has whatever a file may have, so its text is that of the other machine, its parts put together,
//! with values put in.
//! Invariant: what is returned has been read back, and means the machine that the values make.

use super::changed::{MachineText, spelled};
use super::parts;
use super::write::{quantity, spread_text};
use crate::project::Project;
use crate::text::quantity::{Bandwidth, Dimension, Duration, Size};
use crate::text::ron_text::{Document, quoted};
use crate::text::ron_tree::Shape;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Hardware, Uncertainty};
use tiersim_models::recorded::{Told, Value};

/// What a machine is that is written on top of another.
#[derive(Clone, Copy, Debug)]
pub struct OnTop<'a> {
    /// Where its file will lie; the machine is called like it.
    pub file: &'a Path,
    /// What it is, in a sentence.
    pub about: &'a str,
    /// Lines above it.
    pub comment: &'a str,
    /// What stands before the source of each number that is not told.
    pub mark: &'a str,
    /// Whether such numbers are assumed, whatever they were.
    pub assumed: bool,
    /// The file of op times beside it, without its ending, if there is one: it need not be there
    /// yet.
    pub op_times: Option<&'a str>,
}

impl MachineText {
    /// The text of a file that means this machine with the numbers of `told`, and the machine; of
    /// one with op times beside it those that this machine has.
    ///
    /// # Errors
    /// The rules that the machine breaks.
    pub fn on_top(&self, of: &OnTop<'_>, told: &[Told]) -> Result<(String, Hardware), Diagnostics> {
        let mut document = marked(&self.whole.document, of)?;
        document = document.put("about", quoted(of.about), "")?;
        for one in told {
            document = put(document, one)?;
        }
        let name = of.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let machine = Hardware { name: name.clone(), ..self.meaning(&document)? };
        let text = |document: &Document| {
            let comment: String = of
                .comment
                .lines()
                .map(|line| format!("// {line}").trim_end().to_owned() + "\n")
                .collect();
            comment + &document.tree().laid_out()
        };
        let read = read_back(of.file, text(&document), name, self.project.as_ref())?;
        if plain(read) != plain(machine.clone()) {
            let rule = "the text would mean another machine";
            let remedy = "report this with the machine that it was made from";
            return Err(Diagnostics::one(of.file, None, rule, "", remedy));
        }
        if let Some(times) = of.op_times {
            let times = format!("(of: {})", quoted(times));
            document = document.put("compute.op_times", times, "")?;
        }
        Ok((text(&document), machine))
    }
}

/// The machine that a text means; names that it has are looked for where its file will lie.
fn read_back(
    file: &Path,
    text: String,
    name: String,
    project: Option<&Project>,
) -> Result<Hardware, Diagnostics> {
    parts::resolve(&Document::from_text(file, text)?, name, project)
}

/// Without the words of numbers and their places, which are those of a text: a table has other
/// spaces in it.
fn plain(mut machine: Hardware) -> Hardware {
    let facts = machine.facts.all().iter_mut().chain(&mut machine.economics.facts);
    for fact in facts {
        fact.value.clear();
        if let Some(of) = &mut fact.uncertainty {
            *of = Uncertainty { place: String::new(), origin: String::new(), ..of.clone() };
        }
    }
    machine
}

/// Every source with the mark before its words.
fn marked(document: &Document, of: &OnTop<'_>) -> Result<Document, Diagnostics> {
    let tree = document.tree();
    let sources = tree.values().filter_map(|id| {
        let word = tree.written(id).split('(').next()?.trim();
        let is_source = ["measured", "datasheet", "announced", "assumed"].contains(&word);
        (is_source && tree.shape(id) == Shape::Newtype).then_some((tree.path(id), word, id))
    });
    sources.into_iter().try_fold(document.clone(), |document, (path, word, id)| {
        let words = tree.children(id).next().map_or("\"\"", |words| tree.written(words));
        let word = if of.assumed { "assumed" } else { word };
        // The quote, of a plain or a raw text, is followed by the words.
        let at = words.find('"').map_or(0, |at| at + 1);
        document.put(&path, format!("{word}({}{}{})", &words[..at], of.mark, &words[at..]), "")
    })
}

/// A document with a value that is told; what it stands in is made if it is not there.
fn put(document: Document, told: &Told) -> Result<Document, Diagnostics> {
    let note = "";
    let path = spelled(&document, &told.path);
    let sourced = |number: String| {
        let source = &told.source;
        let (word, words) = (source.confidence().word(), quoted(source.text()));
        let spread = told.spread.map(spread_text).unwrap_or_default();
        format!("({number}, {word}({words}){spread})")
    };
    let text = match &told.value {
        Value::Rate(rate) => sourced(quantity(rate.get(), Bandwidth::UNIT)),
        Value::Time(span) => sourced(quantity(span.ps(), Duration::UNIT)),
        Value::Size(bytes) => sourced(quantity(bytes.get(), Size::UNIT)),
        Value::Name(name) => quoted(name),
        Value::Nothing => "None".to_owned(),
        Value::Times(factor) => return document.with(&path, &format!("times({factor})"), note),
    };
    let (outer, _) = path.rsplit_once('.').unwrap_or(("", &path));
    let is_there = document.tree().find(outer).is_some();
    let document = if is_there { document } else { document.put(outer, "()".to_owned(), note)? };
    document.put(&path, text, note)
}

//! Descriptions of containers as the shell commands that they start: Compose's `services`,
//! Kubernetes' `containers`, a Dockerfile.
//!
//! Each container becomes one command: its entry point, or its image where that starts the program
//! by itself, and its arguments, behind assignments of its environment. What a list holds is quoted,
//! so that a shell would hand over the same words. Invariant: memory is a multiple of the text, and
//! a word stands on the line of the file that it was written in.

use super::yaml::{MAX_BYTES, no_yaml, place};
use saphyr_parser::{Event, Parser};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// Most mappings and lists inside each other.
const MAX_DEPTH: usize = 64;

/// A value of YAML, with the line that it begins in.
enum Node {
    Word(String, u64),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// A value that is being read, and the key that waits for one.
enum Open {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<String>),
}

/// What a container starts.
#[derive(Default)]
struct Container<'a> {
    image: Option<&'a str>,
    entry: Option<&'a Node>,
    arguments: Option<&'a Node>,
    environment: Option<&'a Node>,
}

/// The first line that says something.
fn first(text: &str) -> Option<&str> {
    text.lines().map(str::trim_end).find(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Whether a text describes containers in YAML; a script that writes such a file begins otherwise.
pub(super) fn is_manifest(text: &str) -> bool {
    let key =
        first(text).and_then(|line| line.split(':').next().filter(|key| key.len() < line.len()));
    let is_key = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let begins = first(text) == Some("---") || key.is_some_and(is_key);
    let of_containers =
        |line: &str| line.starts_with("services:") || line.starts_with("apiVersion:");
    begins && text.lines().any(of_containers)
}

/// The commands that a description of containers starts; `None` of any other text.
///
/// # Errors
/// It is no YAML, or too long.
pub(super) fn script(file: &Path, text: &str) -> Result<Option<String>, Diagnostics> {
    if text.len() > MAX_BYTES {
        // The reader of commands says so.
        return Ok(None);
    }
    if is_manifest(text) {
        let documents = documents(file, text)?;
        let mut containers = Vec::new();
        documents.iter().for_each(|document| found(document, &mut containers));
        return Ok(Some(commands(&containers)));
    }
    let is_dockerfile =
        first(text).is_some_and(|line| line.starts_with("FROM ") || line.starts_with("ARG "));
    Ok(is_dockerfile.then(|| built(text)))
}

/// The documents of a file.
fn documents(file: &Path, text: &str) -> Result<Vec<Node>, Diagnostics> {
    let mut open: Vec<Open> = Vec::new();
    let mut all = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => return Err(no_yaml(file, &error)),
        };
        let line = span.start.line() as u64;
        let done = match event {
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                None
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Vec::new(), None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|last| match last {
                Open::List(nodes) => Node::List(nodes),
                Open::Map(pairs, _) => Node::Map(pairs),
            }),
            Event::Scalar(word, ..) => Some(Node::Word(word.into_owned(), line)),
            // What stands elsewhere is not looked up.
            Event::Alias(_) => Some(Node::Word(String::new(), line)),
            _ => None,
        };
        if open.len() > MAX_DEPTH {
            let (at, remedy) = (Some(place(span)), "write the command alone");
            return Err(Diagnostics::one(file, at, "values are at most 64 deep", "", remedy));
        }
        let Some(node) = done else { continue };
        match (open.last_mut(), node) {
            (None, node) => all.push(node),
            (Some(Open::List(nodes)), node) => nodes.push(node),
            (Some(Open::Map(pairs, key)), node) => match (key.take(), node) {
                (Some(key), node) => pairs.push((key, node)),
                (None, Node::Word(word, _)) => *key = Some(word),
                // A key that is no word is none that is looked for.
                (None, _) => *key = Some(String::new()),
            },
        }
    }
    Ok(all)
}

impl Node {
    fn get(&self, key: &str) -> Option<&Node> {
        let Node::Map(pairs) = self else { return None };
        pairs.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    fn word(&self) -> Option<&str> {
        match self {
            Node::Word(word, _) => Some(word),
            _ => None,
        }
    }
}

/// The containers of a document: services of Compose, and what stands below `containers`.
fn found<'a>(node: &'a Node, all: &mut Vec<Container<'a>>) {
    let of = |node: &'a Node, [entry, arguments, environment]: [&str; 3]| Container {
        image: node.get("image").and_then(Node::word),
        entry: node.get(entry),
        arguments: node.get(arguments),
        environment: node.get(environment),
    };
    match node {
        Node::Word(..) => {}
        Node::List(nodes) => nodes.iter().for_each(|node| found(node, all)),
        Node::Map(pairs) => {
            for (key, value) in pairs {
                match (key.as_str(), value) {
                    ("services", Node::Map(services)) => all.extend(
                        services
                            .iter()
                            .map(|(_, node)| of(node, ["entrypoint", "command", "environment"])),
                    ),
                    ("containers", Node::List(nodes)) => {
                        all.extend(nodes.iter().map(|node| of(node, ["command", "args", "env"])));
                    }
                    _ => found(value, all),
                }
            }
        }
    }
}

/// A word in quotes, in which variables still count; `$(X)` is Kubernetes' way to write `${X}`.
fn quoted(word: &str) -> String {
    // Lines of a script would move all behind it.
    let word = word.replace("\\\n", " ").replace('\n', "; ");
    let mut text = String::from("\"");
    let mut rest = word.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('$', Some('$')) => {
                rest.next();
                text.push_str("\\$");
            }
            ('$', Some('(')) => {
                let name: String = rest.clone().skip(1).take_while(|&c| c != ')').collect();
                let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                text.push('$');
                if is_name && !name.is_empty() {
                    rest.nth(name.chars().count() + 1);
                    text.push_str(&format!("{{{name}}}"));
                }
            }
            ('"' | '\\' | '`', _) => text.extend(['\\', c]),
            _ => text.push(c),
        }
    }
    text + "\""
}

/// The words of an entry point or of arguments: quoted those of a list, as they are those of a text.
fn words(node: Option<&Node>) -> Vec<(String, u64)> {
    match node {
        Some(Node::Word(text, line)) if !text.is_empty() => vec![(text.replace('\n', " "), *line)],
        Some(Node::List(nodes)) => {
            let word = |node: &Node| match node {
                Node::Word(word, line) => Some((quoted(word), *line)),
                _ => None,
            };
            nodes.iter().filter_map(word).collect()
        }
        _ => Vec::new(),
    }
}

/// Assignments of an environment: a mapping, a list of `A=b`, or one of names with values.
fn assignments(node: Option<&Node>) -> Vec<String> {
    let one = |name: &str, value: &str| {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name && !name.is_empty()).then(|| format!("{name}={}; ", quoted(value)))
    };
    match node {
        Some(Node::Map(pairs)) => {
            pairs.iter().filter_map(|(name, value)| one(name, value.word()?)).collect()
        }
        Some(Node::List(nodes)) => {
            let of = |node: &Node| match node {
                Node::Word(text, _) => {
                    text.split_once('=').and_then(|(name, value)| one(name, value))
                }
                other => one(other.get("name")?.word()?, other.get("value")?.word()?),
            };
            nodes.iter().filter_map(of).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether an image starts the program of which these are the arguments.
fn starts_by_itself(first: Option<&(String, u64)>) -> bool {
    let first = first.map_or("", |(word, _)| word.trim_start_matches('"'));
    let name = first.split([' ', '"']).next().unwrap_or_default();
    let name = name.rsplit_once("bin/").map_or(name, |(_, name)| name);
    let programs = ["python", "python3", "vllm", "sh", "bash", "env", "exec", "torchrun", "ray"];
    !name.is_empty() && !programs.contains(&name)
}

/// A shell's text of the commands, each word on its own line of the file where they follow one
/// another.
fn commands(containers: &[Container<'_>]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for of in containers {
        let mut all = words(of.entry);
        let by_image = of.entry.is_none();
        let arguments = words(of.arguments);
        if let Some(image) = of.image.filter(|_| by_image && starts_by_itself(arguments.first())) {
            let line = arguments.first().map_or(1, |(_, line)| *line);
            all.push((quoted(image), line));
        }
        all.extend(arguments);
        let Some(&(_, first)) = all.first() else { continue };
        let in_order = all.is_sorted_by_key(|(_, line)| *line) && lines.len() < first as usize;
        let mut at = if in_order { first as usize } else { lines.len() + 1 };
        lines.resize(lines.len().max(at), String::new());
        lines[at - 1].push_str(&assignments(of.environment).concat());
        for (word, line) in all {
            while in_order && at < line as usize {
                lines[at - 1].push_str(" \\");
                lines.push(String::new());
                at += 1;
            }
            lines[at - 1].extend([" ", &word]);
        }
    }
    lines.join("\n")
}

/// The command that a Dockerfile's image starts.
fn built(text: &str) -> String {
    let (mut image, mut entry, mut arguments) = (None, Vec::new(), Vec::new());
    let mut before = String::new();
    let mut open: Option<(u64, String)> = None;
    for (line, written) in (1..).zip(text.lines()) {
        let written = written.trim();
        if written.starts_with('#') || written.is_empty() {
            continue;
        }
        let (start, so_far) = open.take().unwrap_or((line, String::new()));
        let whole = so_far + written.trim_end_matches('\\') + " ";
        if written.ends_with('\\') {
            open = Some((start, whole));
            continue;
        }
        let Some((instruction, rest)) = whole.trim().split_once(char::is_whitespace) else {
            continue;
        };
        let words = || match serde_json::from_str::<Vec<String>>(rest.trim()) {
            Ok(words) => words.iter().map(|word| (quoted(word), start)).collect(),
            Err(_) => vec![(rest.trim().to_owned(), start)],
        };
        match instruction.to_ascii_uppercase().as_str() {
            "FROM" => {
                image =
                    rest.split_whitespace().find(|word| !word.starts_with("--")).map(str::to_owned)
            }
            "ENV" | "ARG" if rest.contains('=') => before.push_str(&format!("{}; ", rest.trim())),
            "ENTRYPOINT" => entry = words(),
            "CMD" => arguments = words(),
            _ => {}
        }
    }
    let by_image = entry.is_empty() && starts_by_itself(arguments.first());
    let mut all: Vec<(String, u64)> = entry;
    let line = arguments.first().or(all.first()).map_or(1, |(_, line)| *line);
    all.extend(image.filter(|_| by_image).map(|image| (quoted(&image), line)));
    all.extend(arguments);
    let words: Vec<String> = all.into_iter().map(|(word, _)| word).collect();
    "\n".repeat(line.saturating_sub(1) as usize) + &before + &words.join(" ")
}

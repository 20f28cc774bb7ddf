//! Shell scripts that start a program: the one command, with the variables of the same file.
//!
//! Nothing is run and nothing is read: `$1`, `$(...)` and what is assigned under a condition stay as
//! they are written, and who needs their value says so.
//! Invariant: memory is a small multiple of the text, whatever variables say.

mod branch;
mod job;
mod statements;
mod sum;
mod tokens;

use branch::{Branch, and, holds};
use job::{handed, scheduled};
use statements::{Statement, statements};
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tokens::{Letters, Piece, Raw, Token, text, tokens};

/// Most letters and words of what variables expand to.
const MAX_LETTERS: usize = 256 << 10;
const MAX_WORDS: usize = 1000;

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) place: Place,
    /// What it may hold, where it is a variable of which a condition decides that cannot be told.
    pub(super) may: Vec<String>,
}

/// The one command of a script that is wanted, its variables filled in as far as the script says
/// them. Flags alone are one command, whatever lines they go over.
///
/// # Errors
/// No command is wanted, several are, or a variable becomes too long.
pub(super) fn command(
    file: &Path,
    text: &str,
    wanted: impl Fn(&[Word]) -> bool,
) -> Result<Vec<Word>, Diagnostics> {
    let mut script = Script { variables: scheduled(text), ..Script::default() };
    let mut found: Vec<Vec<Word>> = Vec::new();
    let too_long = |place| {
        let rule = "variables of a script stay below 256 thousand letters and 1000 words";
        Diagnostics::one(file, Some(place), rule, "", "write the command alone")
    };
    let lines_end_commands = !text.trim_start().starts_with('-');
    for statement in statements(&tokens(file, text, lines_end_commands)?) {
        let words = script.run(&statement).map_err(too_long)?;
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let Some(inside) = handed(&texts).map(|at| &words[at]) else {
            found.extend((!words.is_empty() && wanted(&words)).then_some(words));
            continue;
        };
        // What cannot be read as a script is none that is looked for.
        let Ok(inner) = tokens(file, &inside.text, true) else { continue };
        for statement in statements(&inner) {
            let mut words = script.run(&statement).map_err(|_| too_long(inside.place))?;
            words.iter_mut().for_each(|word| word.place = inside.place);
            found.extend((!words.is_empty() && wanted(&words)).then_some(words));
        }
    }
    // The same command behind `echo`, or in two branches, is one command.
    found.retain(|words| words[0].text != "echo");
    // What `eval` is given has its files in the text.
    let is_file =
        |word: &Word| word.text.trim_start_matches(['&', '1', '2']).starts_with(['>', '|']);
    for words in found.iter_mut().filter(|words| words[0].text == "eval") {
        words.truncate(words.iter().position(is_file).unwrap_or(words.len()));
    }
    let texts = |words: &[Word]| words.iter().map(|word| word.text.clone()).collect::<Vec<_>>();
    found.dedup_by_key(|words| texts(words));
    match found.len() {
        0 => {
            let remedy = "write the command, or a script that has it";
            Err(Diagnostics::one(file, None, "no command with such flags is in it", "", remedy))
        }
        1 => Ok(found.remove(0)),
        several => {
            let place = Some(found[1][0].place);
            let rule = "a script starts one program, which is what is read";
            let remedy = "write the one command that is meant";
            Err(Diagnostics::one(file, place, rule, format!("{several} commands"), remedy))
        }
    }
}

/// What a script has said so far.
#[derive(Default)]
struct Script {
    variables: BTreeMap<String, Vec<Letters>>,
    /// What variables were assigned where it is not known whether that is run.
    may: BTreeMap<String, Vec<Letters>>,
    /// Each `if`, `for` and the like that is open.
    branches: Vec<Branch>,
    /// How the command before ended, where that can be told.
    ended: Option<bool>,
}

impl Script {
    /// Takes a statement's assignments; the words of its command, if it has one.
    fn run(&mut self, statement: &Statement<'_>) -> Result<Vec<Word>, Place> {
        let mut rest = &statement.tokens[..];
        while let Some(Token::Word(raw)) = rest.first() {
            match (plain(raw).as_str(), self.branches.last_mut()) {
                ("if", _) => self.branches.push(Branch::default()),
                ("for" | "while" | "until" | "case" | "select", _) => {
                    self.branches.push(Branch { asks: false, ..Branch::default() });
                }
                ("fi" | "done" | "esac", _) => drop(self.branches.pop()),
                ("then", Some(branch)) => branch.asks = false,
                ("elif" | "else", Some(branch)) => branch.other(plain(raw) == "elif"),
                (
                    "then" | "else" | "elif" | "do" | "export" | "declare" | "local" | "readonly"
                    | "-x" | "-a" | "{" | "}",
                    _,
                ) => {}
                // What the shell itself is set to.
                ("set", _) => return Ok(Vec::new()),
                _ => break,
            }
            rest = &rest[1..];
        }
        if self.branches.last().is_some_and(|branch| branch.asks) {
            let words = self.words(rest)?;
            let answer = self.holds(&words);
            let branch = self.branches.last_mut().expect("it asks");
            branch.asked(statement.joint, answer);
            return Ok(Vec::new());
        }
        let live = self.branches.iter().map(|branch| branch.live);
        let Some(known) =
            live.fold(Some(true), and).map_or(Some(false), |live| live.then_some(true))
        else {
            return Ok(Vec::new());
        };
        let goes = match statement.joint {
            None => Some(true),
            Some('&') => self.ended,
            Some(_) => self.ended.map(|well| !well),
        };
        // `[ -n "$X" ] && ...`, of which the test says that it is not run.
        if goes == Some(false) {
            return Ok(Vec::new());
        }
        let before = self.assignments(&mut rest, known && goes == Some(true))?;
        let mut words = self.words(rest)?;
        self.ended = goes.and_then(|_| self.holds(&words));
        // Variables before a command are the command's.
        if !words.is_empty() {
            words.splice(0..0, before);
        }
        Ok(words)
    }

    /// Takes assignments off the front of `rest`; they count if it is `known` that they are run.
    fn assignments(&mut self, rest: &mut &[&Token], known: bool) -> Result<Vec<Word>, Place> {
        let mut before = Vec::new();
        while let Some(Token::Word(raw)) = rest.first() {
            let Some((name, adds, value)) = assigned(raw) else { break };
            *rest = &rest[1..];
            let mut values = match rest.first() {
                Some(Token::Mark('(', _)) => {
                    let end = rest.iter().position(|token| matches!(token, Token::Mark(')', _)));
                    let inside = &rest[1..end.unwrap_or(rest.len()).max(1)];
                    *rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
                    let mut values = Vec::new();
                    for token in inside {
                        if let Token::Word(raw) = token {
                            values.extend(self.expanded(raw)?);
                        }
                    }
                    values
                }
                _ => {
                    let raw = Raw { pieces: value, place: raw.place };
                    vec![self.joined(&raw)]
                }
            };
            let told: Vec<String> = values.iter().map(|letters| text(letters)).collect();
            let text = format!("{name}={}", told.join(" "));
            before.push(Word { text, place: raw.place, may: Vec::new() });
            let adds = adds || !known && self.is_longer(&name, &mut values);
            if !known {
                self.may.entry(name.clone()).or_default().extend(values.iter().cloned());
            }
            if adds && let Some(old) = self.variables.get(&name) {
                values = match (old.len(), values.len()) {
                    (1, 1) => vec![[&old[0][..], &values[0]].concat()],
                    _ => [&old[..], &values].concat(),
                };
            }
            let too_long = |values: &Vec<Letters>| {
                values.iter().map(Vec::len).sum::<usize>() > MAX_LETTERS || values.len() > MAX_WORDS
            };
            if too_long(&values) || self.may.get(&name).is_some_and(too_long) {
                return Err(raw.place);
            }
            if !known {
                // What is there stays, and what may come is a word of its own.
                let text = format!("${{{name}[@]}}");
                let may = text.chars().map(|c| (c, raw.place)).collect();
                values =
                    if adds { self.variables.remove(&name).unwrap_or_default() } else { vec![] };
                values.push(may);
            }
            self.variables.insert(name, values);
        }
        Ok(before)
    }

    /// Whether a value is the variable's own with more behind it, as in `X="$X more"`; it becomes what
    /// is behind.
    fn is_longer(&self, name: &str, values: &mut [Letters]) -> bool {
        let ([value], Some(old)) = (values, self.variables.get(name)) else { return false };
        let own: Vec<String> = old.iter().map(|letters| text(letters)).collect();
        let own: Vec<char> = own.join(" ").chars().collect();
        let begins = value.len() >= own.len() && value.iter().zip(&own).all(|((c, _), o)| c == o);
        if begins {
            value.drain(..own.len());
        }
        begins
    }

    /// How a test ends, where its words say it.
    fn holds(&self, words: &[Word]) -> Option<bool> {
        let words: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
        holds(&words, &|word| self.unset(word))
    }

    /// Whether a word is a variable that nothing of the script sets: the shell's own, or empty.
    fn unset(&self, word: &str) -> bool {
        let name = word.trim_start_matches(['$', '{']).trim_end_matches('}');
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        word.starts_with('$') && is_name && !self.may.contains_key(name)
    }

    /// The words of a command without what its files are.
    fn words(&self, tokens: &[&Token]) -> Result<Vec<Word>, Place> {
        let mut words: Vec<Word> = Vec::new();
        let mut into_file = false;
        for token in tokens {
            match token {
                Token::Mark('<' | '>', at) => {
                    // The number of a stream stands right before: `2>&1`.
                    words.pop_if(|word| {
                        ["1", "2"].contains(&word.text.as_str())
                            && (word.place.line, word.place.column + 1) == (at.line, at.column)
                    });
                    into_file = true;
                }
                Token::Mark(..) => {}
                Token::Word(_) if into_file => into_file = false,
                Token::Word(raw) => {
                    let expanded = self.expanded(raw)?;
                    words.extend(expanded.into_iter().map(|letters| {
                        let text = text(&letters);
                        let place = letters.first().map_or(raw.place, |(_, place)| *place);
                        Word { may: self.may(&text), text, place }
                    }));
                    if words.len() > MAX_WORDS {
                        return Err(raw.place);
                    }
                }
            }
        }
        Ok(words)
    }

    /// What a word may hold that stands for a variable which is not known.
    fn may(&self, word: &str) -> Vec<String> {
        let name = word.strip_prefix("${").and_then(|word| word.strip_suffix("[@]}"));
        let values = name.and_then(|name| self.may.get(name)).into_iter().flatten();
        let words = values.flat_map(|letters| {
            text(letters).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        });
        words.collect()
    }

    /// A word as the words that it becomes.
    fn expanded(&self, raw: &Raw) -> Result<Vec<Letters>, Place> {
        let mut done: Vec<Letters> = Vec::new();
        let mut open: Option<Letters> = None;
        let mut letters = 0;
        for piece in &raw.pieces {
            match piece {
                Piece::Text(text) => open.get_or_insert_default().extend(text),
                Piece::Dollar(raw, quoted) => {
                    let values = self.values(raw);
                    let is_list = text(raw).ends_with("[@]}");
                    for (index, value) in values.iter().enumerate() {
                        if index > 0 && (is_list || !quoted) {
                            done.extend(open.take());
                        }
                        for &(c, place) in value {
                            match !quoted && c.is_whitespace() {
                                true => done.extend(open.take()),
                                false => open.get_or_insert_default().push((c, place)),
                            }
                        }
                        letters += value.len();
                        if letters > MAX_LETTERS || done.len() > MAX_WORDS {
                            return Err(self::first(raw));
                        }
                    }
                }
            }
        }
        done.extend(open);
        Ok(done)
    }

    /// A word as one, as assignments have it.
    fn joined(&self, raw: &Raw) -> Letters {
        let mut all = Letters::new();
        for piece in &raw.pieces {
            match piece {
                Piece::Text(letters) => all.extend(letters),
                Piece::Dollar(letters, _) => {
                    let place = first(letters);
                    for (index, value) in self.values(letters).iter().enumerate() {
                        all.extend((index > 0).then_some((' ', place)));
                        all.extend(value);
                    }
                }
            }
            // One letter more than may be: who keeps it says that it is too long.
            all.truncate(MAX_LETTERS + 1);
        }
        all
    }

    /// What `$...` stands for, or itself.
    fn values(&self, raw: &Letters) -> Vec<Letters> {
        let place = first(raw);
        let written = text(raw);
        let letters = |text: &str| text.chars().map(|c| (c, place)).collect::<Letters>();
        if let Some(inside) = written.strip_prefix("$((").and_then(|text| text.strip_suffix("))")) {
            let value = |name: &str| text(self.variables.get(name)?.first()?).trim().parse().ok();
            return match sum::sum(inside, &value) {
                Some(number) => vec![letters(&number.to_string())],
                None => vec![raw.clone()],
            };
        }
        let name = written.trim_start_matches(['$', '{']).trim_end_matches('}');
        let (name, default) = match name.split_once(":-").or_else(|| name.split_once(":=")) {
            Some((name, default)) => (name, Some(default)),
            None => (name.trim_end_matches("[@]").trim_end_matches("[*]"), None),
        };
        match (self.variables.get(name), default) {
            (Some(values), _) => values.clone(),
            // What a default is made of is not looked into.
            (None, Some(default)) if !default.contains('$') => {
                vec![letters(default.trim_matches('"'))]
            }
            _ => vec![raw.clone()],
        }
    }
}

fn first(letters: &Letters) -> Place {
    letters.first().map_or(Place { line: 1, column: 1 }, |(_, place)| *place)
}

/// A word without variables and quotes.
fn plain(raw: &Raw) -> String {
    match &raw.pieces[..] {
        [Piece::Text(letters)] => text(letters),
        _ => String::new(),
    }
}

/// `NAME=` or `NAME+=`, and what stands behind it.
fn assigned(raw: &Raw) -> Option<(String, bool, Vec<Piece>)> {
    let Some(Piece::Text(letters)) = raw.pieces.first() else { return None };
    let at = letters.iter().position(|(c, _)| *c == '=')?;
    let name = text(&letters[..at]);
    let (name, adds) = match name.strip_suffix('+') {
        Some(name) => (name.to_owned(), true),
        None => (name, false),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let mut value = vec![Piece::Text(letters[at + 1..].to_vec())];
    value.extend(raw.pieces[1..].iter().cloned());
    (starts && name.chars().all(plain)).then_some((name, adds, value))
}

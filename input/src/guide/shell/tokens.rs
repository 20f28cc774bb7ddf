//! A shell's text as words and marks.
//!
//! Quotes, `\`, comments and continued lines are understood; what stands behind `$` is a piece of a
//! word that may be filled in. Invariant: every letter keeps its place, also through variables.

use super::super::yaml::MAX_BYTES;
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;
use tiersim_models::diagnostic::{Diagnostics, Place};

/// Most words, as written.
pub(super) const MAX_WORDS: usize = 5000;

/// Text of which each letter knows where it was written.
pub(super) type Letters = Vec<(char, Place)>;

/// A part of a word.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(Letters),
    /// What stands behind `$`, as written, and whether it is in quotes.
    Dollar(Letters, bool),
}

/// A word as written.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) pieces: Vec<Piece>,
    pub(super) place: Place,
}

/// A word, or one of the characters that end one.
#[derive(Clone, Debug)]
pub(super) enum Token {
    Word(Raw),
    Mark(char, Place),
}

/// The text of letters.
pub(super) fn text(letters: &[(char, Place)]) -> String {
    letters.iter().map(|(c, _)| c).collect()
}

struct Tokens<'a> {
    rest: Peekable<Chars<'a>>,
    at: Place,
    open: Option<Raw>,
    tokens: Vec<Token>,
    /// The line that ends the text which begins with the next line.
    document: Option<String>,
}

/// The tokens of a text; in a script lines end commands, otherwise they are spaces.
pub(super) fn tokens(file: &Path, text: &str, script: bool) -> Result<Vec<Token>, Diagnostics> {
    let wrong = |place, rule: &str, found: &str, remedy: &str| {
        Err(Diagnostics::one(file, place, rule, found, remedy))
    };
    if text.len() > MAX_BYTES {
        return wrong(None, "a command line has at most 64 KiB", "", "leave out what is no flag");
    }
    let at = Place { line: 1, column: 1 };
    let mut of = Tokens {
        rest: text.chars().peekable(),
        at,
        open: None,
        tokens: Vec::new(),
        document: None,
    };
    while let Some((c, place)) = of.next() {
        match c {
            '\\' => of.escaped(false),
            '\'' | '"' => {
                of.letters();
                if !of.quoted(c) {
                    return wrong(Some(place), "a quote has its end", "none", "write it");
                }
            }
            '#' if of.open.is_none() => while of.next_if(|next| next != '\n').is_some() {},
            '$' => of.dollar(place, false),
            '`' if script => of.backquoted(place, false),
            '\n' if script => {
                of.mark(c, place);
                of.skip_document();
            }
            '<' if script && of.next_if(|next| next == '<').is_some() => of.document(),
            '|' | '&' | ';' | '<' | '>' | '`' => of.mark(c, place),
            '(' | ')' if script => of.mark(c, place),
            _ if c.is_whitespace() => of.close(),
            _ => of.letters().push((c, place)),
        }
        if of.tokens.len() > MAX_WORDS {
            let rule = format!("a command line has at most {MAX_WORDS} words");
            return wrong(Some(of.at), &rule, "", "leave some out");
        }
    }
    of.close();
    Ok(of.tokens)
}

impl Tokens<'_> {
    fn next(&mut self) -> Option<(char, Place)> {
        let (c, place) = (self.rest.next()?, self.at);
        match c {
            '\n' => self.at = Place { line: place.line + 1, column: 1 },
            _ => self.at.column += 1,
        }
        Some((c, place))
    }

    fn next_if(&mut self, wanted: impl Fn(char) -> bool) -> Option<(char, Place)> {
        self.rest.peek().copied().filter(|&c| wanted(c)).and_then(|_| self.next())
    }

    /// Behind `<<`: the word that ends the document; `<<<` has a word alone.
    fn document(&mut self) {
        self.close();
        if self.next_if(|c| c == '<').is_some() {
            return;
        }
        while self.next_if(|c| c == ' ' || c == '-').is_some() {}
        let mut word = String::new();
        while let Some((c, _)) = self.next_if(|c| !c.is_whitespace() && !";|&<>)".contains(c)) {
            word.push(c);
        }
        self.document = Some(word.trim_matches(['\'', '"', '\\']).to_owned());
    }

    /// Passes over a document, which is no command.
    fn skip_document(&mut self) {
        let Some(end) = self.document.take() else { return };
        loop {
            let mut line = String::new();
            while let Some((c, _)) = self.next_if(|c| c != '\n') {
                line.push(c);
            }
            if self.next().is_none() || line.trim() == end {
                return;
            }
        }
    }

    fn close(&mut self) {
        self.tokens.extend(self.open.take().map(Token::Word));
    }

    fn mark(&mut self, c: char, place: Place) {
        self.close();
        self.tokens.push(Token::Mark(c, place));
    }

    fn piece(&mut self, piece: Piece) {
        let place = match &piece {
            Piece::Text(letters) | Piece::Dollar(letters, _) => letters.first().map(|(_, at)| *at),
        };
        let place = place.unwrap_or(self.at);
        self.open.get_or_insert_with(|| Raw { pieces: Vec::new(), place }).pieces.push(piece);
    }

    /// The text that is being written; an open word has one at its end.
    fn letters(&mut self) -> &mut Letters {
        let place = Place { line: self.at.line, column: self.at.column.saturating_sub(1).max(1) };
        let open = self.open.get_or_insert_with(|| Raw { pieces: Vec::new(), place });
        if !matches!(open.pieces.last(), Some(Piece::Text(_))) {
            open.pieces.push(Piece::Text(Vec::new()));
        }
        match open.pieces.last_mut() {
            Some(Piece::Text(letters)) => letters,
            _ => unreachable!("it was pushed"),
        }
    }

    /// Behind a backslash; between double quotes most characters keep theirs.
    fn escaped(&mut self, in_quotes: bool) {
        let Some((next, place)) = self.next() else { return };
        match next {
            '\n' => {}
            // Files of another system end their lines so.
            '\r' if self.next_if(|c| c == '\n').is_some() => {}
            _ if in_quotes && !"\"\\$`".contains(next) => {
                self.letters().extend([('\\', place), (next, place)]);
            }
            _ => self.letters().push((next, place)),
        }
    }

    /// To the end of a quote; whether there is one.
    fn quoted(&mut self, with: char) -> bool {
        while let Some((c, place)) = self.next() {
            match (c, with) {
                _ if c == with => return true,
                ('\\', '"') => self.escaped(true),
                ('$', '"') => self.dollar(place, true),
                ('`', '"') => self.backquoted(place, true),
                _ => self.letters().push((c, place)),
            }
        }
        false
    }

    /// Behind a backquote: what another program would print.
    fn backquoted(&mut self, place: Place, quoted: bool) {
        let mut raw = vec![('`', place)];
        while let Some(next) = self.next() {
            raw.push(next);
            if next.0 == '`' {
                break;
            }
        }
        self.piece(Piece::Dollar(raw, quoted));
    }

    /// Behind `$`: a name, or what braces and parentheses hold.
    fn dollar(&mut self, place: Place, quoted: bool) {
        let mut raw = vec![('$', place)];
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self.rest.peek() {
            Some(&open @ ('{' | '(')) => {
                let close = if open == '{' { '}' } else { ')' };
                let mut deep = 0usize;
                while let Some((c, at)) = self.next() {
                    raw.push((c, at));
                    deep = if c == open { deep + 1 } else { deep - usize::from(c == close) };
                    if deep == 0 {
                        break;
                    }
                }
            }
            Some(&c) if plain(c) => {
                let one = c.is_ascii_digit();
                raw.extend(self.next());
                while !one && let Some(next) = self.next_if(plain) {
                    raw.push(next);
                }
            }
            Some('@' | '*' | '#' | '?') => raw.extend(self.next()),
            _ => {
                self.letters().push(('$', place));
                return;
            }
        }
        self.piece(Piece::Dollar(raw, quoted));
    }
}

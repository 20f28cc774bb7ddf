//! Where the pieces of a RON text end: blanks, words, strings, numbers.
//!
//! Free functions from a byte offset to a byte offset. They only find ends; whether `1.5.2` is a
//! number is for ron to say.

/// The end of the word that starts at `at`, if one does; a string with a letter in front is none.
pub(crate) fn word_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let raw = rest.starts_with("r#") && !rest[2..].starts_with(['"', '#']);
    let prefix = if raw { 2 } else { 0 };
    let first = rest[prefix..].chars().next()?;
    if !(first == '_' || first.is_alphabetic()) {
        return None;
    }
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    let end = rest[prefix..].find(|c| !is_part(c)).map_or(rest.len(), |end| prefix + end);
    let string = matches!(&rest[..end], "r" | "b" | "br");
    if string && rest[end..].starts_with(['"', '#', '\'']) {
        return None;
    }
    Some(at + end)
}

/// The end of the string, character, number or word at `at`, or why there is none.
pub(crate) fn leaf_end(text: &str, at: usize) -> Result<usize, &'static str> {
    let rest = &text[at..];
    let prefix = rest.len() - rest.trim_start_matches(['b', 'r']).len();
    let raw = rest[..prefix.min(2)].contains('r');
    match rest[prefix..].chars().next() {
        Some('"' | '#') if raw && prefix <= 2 => {
            raw_string_end(text, at + prefix).ok_or("a raw string is never closed")
        }
        Some(quote @ ('"' | '\'')) if prefix <= 1 => {
            quoted_end(text, at + prefix + 1, quote).ok_or("a string is never closed")
        }
        _ => {
            let is_part = |c: char| matches!(c, '_' | '.' | '+' | '-') || c.is_alphanumeric();
            match rest.find(|c| !is_part(c)).unwrap_or(rest.len()) {
                0 => Err("a value is expected here"),
                length => Ok(at + length),
            }
        }
    }
}

fn quoted_end(text: &str, from: usize, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (offset, c) in text[from..].char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return Some(from + offset + 1);
        }
    }
    None
}

fn raw_string_end(text: &str, from: usize) -> Option<usize> {
    let rest = &text[from..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    // A file of hashes must not cost a search per hash: 255 are more than anybody writes.
    if hashes > 255 || !rest[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = from + hashes + 1;
    text[body..].find(&end).map(|found| body + found + end.len())
}

/// Where the white space and the comments from `at` on end; `Err` with the start of a comment that
/// never does.
pub(crate) fn blank_end(text: &str, mut at: usize) -> Result<usize, usize> {
    let blank = |c: char| {
        matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0B' | '\x0C' | '\u{85}')
            || matches!(c, '\u{200E}' | '\u{200F}' | '\u{2028}' | '\u{2029}')
    };
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start_matches(blank);
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            at += trimmed.find('\n').unwrap_or(trimmed.len());
        } else if trimmed.starts_with("/*") {
            at = comment_end(text.as_bytes(), at).ok_or(at)?;
        } else {
            return Ok(at);
        }
    }
}

/// Behind the `*/` of the comment at `start`; comments nest.
fn comment_end(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0usize);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

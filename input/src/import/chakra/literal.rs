//! Values as Python prints them, as JSON.
//!
//! Invariant: what comes out is at most twice as long, and a text within quotes stays that text.

/// Lists, numbers, texts, `True`, `False` and `None` as JSON has them; tuples as lists.
pub(super) fn json(python: &str) -> String {
    let mut out = String::with_capacity(python.len());
    let mut quote = None;
    let mut letters = python.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '\'' | '"') => {
                quote = Some(letter);
                out.push('"');
            }
            (Some(open), _) if letter == open => {
                quote = None;
                out.push('"');
            }
            (Some(_), '"') => out.push_str("\\\""),
            (Some(_), '\\') if letters.peek() == Some(&'\'') => {
                letters.next();
                out.push('\'');
            }
            (Some(_), '\\') => {
                out.push('\\');
                // What is escaped ends no text.
                out.push(letters.next().unwrap_or('\\'));
            }
            (None, 'T') => out.push('t'),
            (None, 'F') => out.push('f'),
            (None, '(') => out.push('['),
            (None, ')') => out.push(']'),
            (None, 'N') => {
                out.push_str("null");
                while letters.next_if(char::is_ascii_alphabetic).is_some() {}
            }
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn what_python_prints_is_json_then() {
        for (python, wanted) in [
            ("[[1, 2, 'cuda:0'], True, None]", r#"[[1, 2, "cuda:0"], true, null]"#),
            (r#"["it's", 'a "b"', 'c\'d']"#, r#"["it's", "a \"b\"", "c'd"]"#),
            ("(1, False)", "[1, false]"),
            ("['True', '(']", r#"["True", "("]"#),
        ] {
            assert_eq!(json(python), wanted);
            assert!(serde_json::from_str::<serde_json::Value>(wanted).is_ok());
        }
    }
}

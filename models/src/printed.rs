//! What text may hold that people are shown.
//!
//! A trace comes from somewhere else, so a name in it may hold an escape sequence for the terminal, a
//! control character that XML forbids, or a mark that reverses the text after it. Names that a rule
//! calls printable hold none of these, and what is shown of any other text is cleaned.
//! Invariant: what [`clean`] returns prints left to right, on one line, and is legal XML text.

/// Whether a character is a control character, a bidirectional mark or invisible.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}')
        || matches!(c, '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF0}'..='\u{FFFF}')
}

/// What stands for a character that cannot be shown.
const SHOWN: char = char::REPLACEMENT_CHARACTER;

/// Whether a name shows all that it holds.
pub fn is_printable(text: &str) -> bool {
    !text.chars().any(|c| is_hidden(c) && c != SHOWN)
}

/// `text` with every control character, bidirectional mark and invisible character replaced by
/// U+FFFD, so that a reader sees that something was there.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { SHOWN } else { c }).collect()
}

/// The same of text that has several lines.
pub fn clean_lines(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) && c != '\n' { SHOWN } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_become_visible() {
        assert_eq!(clean("a\u{1b}[31mb\u{202e}c\nd"), "a�[31mb�c�d");
        assert_eq!(clean_lines("a\u{1b}[31mb\u{202e}c\nd\r"), "a�[31mb�c\nd�");
        assert_eq!(clean("größe <x> & “y”"), "größe <x> & “y”");
    }

    #[test]
    fn a_name_shows_all_that_it_holds() {
        for name in ["größe <x> & “y”", "a b", "a�b"] {
            assert!(is_printable(name), "{name}");
        }
        for name in ["a\nb", "a\u{1b}b", "a\u{202e}b", "a\u{200b}b", "\u{feff}a", "a\u{85}b"] {
            assert!(!is_printable(name), "{name:?}");
        }
    }
}

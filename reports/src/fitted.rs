//! Texts that fit a width: cut, with an ellipsis that says so, or broken into lines.
//!
//! Invariant: what comes out is cleaned, and no wider than was asked for, but for a single ellipsis.

use crate::font::text_width;
use crate::words::{clean, elide, shortened};

/// `text` cut with an ellipsis so that it is at most `most` pixels wide.
pub(crate) fn fit(text: &str, size: f64, most: f64) -> String {
    cut(text, size, most, elide)
}

/// The same of a name: its middle is left out, as names of one chart often differ at their end.
pub(crate) fn fit_name(name: &str, size: f64, most: f64) -> String {
    cut(name, size, most, shortened)
}

/// `text` with as many characters as `most` pixels have room for, at least one.
fn cut(text: &str, size: f64, most: f64, shorter: impl Fn(&str, usize) -> String) -> String {
    let text = clean(text);
    if text_width(&text, size) <= most {
        return text;
    }
    // Width grows with the number of characters, up to kerning.
    let (mut low, mut high) = (1, text.chars().count());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if text_width(&shorter(&text, middle), size) <= most {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    shorter(&text, low)
}

/// `text` broken at spaces into at most `lines` lines of `most` pixels; the last is elided.
pub(crate) fn wrap(text: &str, size: f64, most: f64, lines: usize) -> Vec<String> {
    let text = clean(text);
    let mut done: Vec<String> = Vec::new();
    let mut rest: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    while !rest.is_empty() && done.len() < lines {
        if done.len() + 1 == lines {
            done.push(fit(&rest.join(" "), size, most));
            break;
        }
        let fits = |n: &usize| text_width(&rest[..*n].join(" "), size) <= most;
        // A word wider than the line stands alone and is elided.
        let n = (1..=rest.len()).take_while(fits).last().unwrap_or(1);
        done.push(fit(&rest[..n].join(" "), size, most));
        rest.drain(..n);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_and_wrapped_to_its_width() {
        let long = "the quick brown fox jumps over the lazy dog again and again";
        assert!(text_width(&fit(long, 14.0, 100.0), 14.0) <= 100.0);
        let lines = wrap(long, 14.0, 150.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with('…'));
        assert_eq!(wrap(long, 14.0, 9000.0, 2), vec![long]);
        assert_eq!(fit(&"W".repeat(9999), 14.0, 5.0), "…");
        let name = fit_name(long, 14.0, 200.0);
        assert!(text_width(&name, 14.0) <= 200.0, "{name}");
        assert!(name.starts_with("the quick") && name.ends_with("again") && name.contains('…'));
    }
}

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

/// A title with its unit, or a name with its marks: what stands in brackets at its end, such as
/// ` (ms, logarithmic)` or ` (emulated)`, stays, and the name before it is cut. Without that a reader
/// would not know what it is that was measured.
pub(crate) fn fit_titled(text: &str, size: f64, most: f64) -> String {
    let text = clean(text);
    let brackets = text.rfind(" (").filter(|_| text.ends_with(')')).unwrap_or(text.len());
    let (name, rest) = text.split_at(brackets);
    let room = most - text_width(rest, size);
    // Less than a few letters of a name say nothing.
    match room >= 3.0 * size {
        true => fit(name, size, room) + rest,
        false => fit_name(&text, size, most),
    }
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

    #[test]
    fn a_title_that_is_cut_keeps_its_unit_and_a_name_its_mark() {
        for (text, rest) in [
            ("mean time per output token, TPOT (ms, logarithmic)", "… (ms, logarithmic)"),
            ("price of device, host and each tier's peak bytes (USD)", "… (USD)"),
            ("cut by shares, in place (emulated)", "… (emulated)"),
        ] {
            let cut = fit_titled(text, 14.0, 200.0);
            assert!(text_width(&cut, 14.0) <= 200.0 && cut.ends_with(rest), "{cut}");
            assert_eq!(fit_titled(text, 14.0, 900.0), text);
        }
        let none = fit_titled("a name without any such end, and a long one", 14.0, 100.0);
        assert!(none.ends_with('…') && text_width(&none, 14.0) <= 100.0, "{none}");
    }
}

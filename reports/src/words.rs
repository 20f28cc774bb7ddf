//! Words and numbers for people: cleaned names, shortened text, figures with sensible digits.
//!
//! Invariant: what is shortened or escaped here is cleaned.

pub use tiersim_models::printed::clean;
use tiersim_models::results::{AxisValue, OutOfMemory};

/// Of a name that is too long so many characters at its end stay: points of a sweep differ there.
const TAIL: usize = 22;

/// What to ask next where a job does not fit a machine.
pub fn what_fits(machine: &str) -> String {
    // The name of a machine that a scenario changed cannot be typed.
    let machine = if machine.contains(char::is_whitespace) { "MACHINE" } else { machine };
    format!("what fits: tiersim memory --model NAME ... --fit {}", clean(machine))
}

/// `text` cleaned, and nothing but text within an element or an attribute of XML or HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// `text` cleaned and cut to at most `most` characters, the last of them `…` where it was cut.
pub fn elide(text: &str, most: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= most {
        return text;
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// A name cleaned, and with its middle left out if it has more than `most` characters.
pub(crate) fn shortened(label: &str, most: usize) -> String {
    let all: Vec<char> = clean(label).chars().collect();
    if all.len() <= most {
        return all.into_iter().collect();
    }
    let tail = TAIL.min(most / 2);
    let head: String = all[..most - tail - 1].iter().collect();
    let tail: String = all[all.len() - tail..].iter().collect();
    format!("{}…{}", head.trim_end(), tail.trim_start())
}

/// `text` broken at spaces into lines of at most `most` characters, unless one word is longer.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A share in per cent: `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `value`, or `None` for NaN and the infinities, which no output may hold.
pub fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// A number with at most four significant digits and no trailing zeros: `0.3`, `12.35`, `1500`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if !(-5.0..9.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// So many decimals, with a sign where one is asked for; what is rounded to nothing has none.
pub(crate) fn rounded(value: f64, decimals: usize, signed: bool) -> String {
    let text = if signed { format!("{value:+.decimals$}") } else { format!("{value:.decimals$}") };
    match text.parse::<f64>() {
        Ok(0.0) => format!("{:.decimals$}", 0.0),
        _ => text,
    }
}

/// How many decimals a column or an axis needs for its largest value to keep about five digits.
pub fn decimals_for(largest: f64) -> usize {
    match largest {
        v if v >= 10_000.0 => 0,
        v if v >= 1_000.0 => 1,
        v if v >= 100.0 => 2,
        v if v >= 1.0 => 3,
        v if v >= 0.01 => 5,
        _ => 7,
    }
}

/// An axis value in words.
pub fn axis_value(value: &AxisValue) -> String {
    match value {
        AxisValue::Number(n) => number(*n),
        AxisValue::Text(text) => clean(text),
    }
}

/// Why a case ran out of memory, as a sentence.
pub fn oom_reason(oom: &OutOfMemory) -> String {
    // What is placed before the first op is at no op.
    let at = if oom.at.starts_with("before ") { "" } else { "at " };
    format!(
        "{} needs {} in {}, which has {} of {} free{}{}, {at}{}{}",
        elide(&oom.object, 60),
        oom.shown(oom.need),
        clean(&oom.tier),
        oom.shown(oom.free),
        oom.capacity,
        oom.pieces(),
        oom.beside(),
        elide(&oom.at, 80),
        oom.remedy.as_ref().map_or_else(String::new, |remedy| format!("; {remedy}"))
    )
}

/// `sha256:` and twelve digits: enough to tell two runs apart by eye.
pub fn short_fingerprint(fingerprint: &str) -> String {
    let digits = fingerprint.strip_prefix("sha256:").unwrap_or(fingerprint);
    let short: String = clean(digits).chars().take(12).collect();
    format!("sha256:{short}")
}

/// `1 assumed number`, `3 assumed numbers`.
pub fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::results::Outcome;
    use tiersim_models::units::Bytes;

    #[test]
    fn numbers_keep_four_digits_and_no_noise() {
        for (value, text) in [
            (0.1 + 0.2, "0.3"),
            (12.3456, "12.35"),
            (1500.0, "1500"),
            (-0.25, "-0.25"),
            (0.0, "0"),
            (f64::NAN, "n/a"),
            (123_456.0, "123456"),
            (9.99999, "10"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn what_is_rounded_to_nothing_has_no_sign() {
        for (value, plain, signed) in [
            (-0.0049, "0.00", "0.00"),
            (0.0, "0.00", "0.00"),
            (-0.25, "-0.25", "-0.25"),
            (0.998, "1.00", "+1.00"),
        ] {
            let texts = [false, true].map(|with_sign| rounded(value, 2, with_sign));
            assert_eq!(texts, [plain, signed], "{value}");
        }
    }

    #[test]
    fn what_is_out_of_memory_before_the_first_op_is_at_no_op() {
        let record = crate::common::training();
        let mut cases = record.results.into_iter();
        let oom = cases.find_map(|case| match &case.outcome {
            Outcome::OutOfMemory(oom) => Some(oom.clone()),
            Outcome::Done(_) => None,
        });
        let mut oom = oom.expect("one case runs out of memory");
        oom.at = "op 12 of the run".to_owned();
        assert!(oom_reason(&oom).contains(", at op 12 of the run"), "{}", oom_reason(&oom));
        oom.at = "before the first op".to_owned();
        assert!(oom_reason(&oom).contains(", before the first op"), "{}", oom_reason(&oom));
    }

    #[test]
    fn amounts_that_differ_read_apart() {
        let (need, free) = (Bytes::new(10_000_001), Bytes::new(10_000_000));
        let oom = OutOfMemory {
            tier: "dram".to_owned(),
            capacity: Bytes::new(20_000_000).into(),
            need,
            free,
            largest: None,
            hidden: Vec::new(),
            object: "b".to_owned(),
            at: "before the first op".to_owned(),
            remedy: None,
        };
        assert_eq!(
            oom_reason(&oom),
            "b needs 10000001 bytes in dram, which has 10000000 bytes of 19.1 MiB free, before the \
             first op"
        );
        let told = "ran out of memory in dram (10000001 bytes needed for b, 10000000 bytes free of \
                    19.1 MiB, before the first op)";
        assert_eq!(oom.told(), told);
        let enough = OutOfMemory { free: Bytes::mib(12), largest: Some(free), ..oom.clone() };
        assert!(
            enough.told().contains("12.0 MiB free of 19.1 MiB in pieces of at most 10000000 bytes")
        );
        let less = OutOfMemory { free: Bytes::mib(9), ..oom };
        assert!(oom_reason(&less).starts_with("b needs 9.5 MiB in dram, which has 9.0 MiB of"));
    }

    #[test]
    fn a_cut_text_says_so() {
        assert_eq!(elide("abcdef", 6), "abcdef");
        assert_eq!(elide("abcdefg", 6), "abcde…");
    }
}

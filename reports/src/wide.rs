//! How many columns of a terminal a text takes, and which characters the font of charts lacks.
//!
//! Characters of East Asian scripts and emoji take two columns, marks that are written over others
//! none (Unicode Standard Annex 11; ranges are those of whole blocks). The font of charts has none of
//! the wide ones.
//! Invariant: a text of ASCII takes as many columns as it has characters.

use tiersim_models::results::RunRecord;

/// Blocks of characters that take two columns.
const WIDE: [(char, char); 13] = [
    ('\u{1100}', '\u{115f}'),
    ('\u{2e80}', '\u{303e}'),
    ('\u{3041}', '\u{4dbf}'),
    ('\u{4e00}', '\u{a4cf}'),
    ('\u{a960}', '\u{a97f}'),
    ('\u{ac00}', '\u{d7a3}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{fe30}', '\u{fe6f}'),
    ('\u{ff01}', '\u{ff60}'),
    ('\u{ffe0}', '\u{ffe6}'),
    ('\u{1f300}', '\u{1f64f}'),
    ('\u{1f680}', '\u{1faff}'),
    ('\u{20000}', '\u{3fffd}'),
];
/// Those that take none.
const NONE: [(char, char); 5] = [
    ('\u{300}', '\u{36f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{20d0}', '\u{20ff}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{1f3fb}', '\u{1f3ff}'),
];

fn is_in(blocks: &[(char, char)], c: char) -> bool {
    blocks.iter().any(|(from, to)| (*from..=*to).contains(&c))
}

/// Columns of a terminal that a text takes.
pub(crate) fn columns(text: &str) -> usize {
    let of = |c: char| match () {
        () if is_in(&NONE, c) => 0,
        () if is_in(&WIDE, c) => 2,
        () => 1,
    };
    text.chars().map(of).sum()
}

/// What is to be said of the charts of a record: names whose characters the font has not.
pub fn boxes(record: &RunRecord) -> Option<String> {
    let cases = record.results.iter().map(|case| case.label.as_str());
    let lacks = |name: &str| name.chars().any(|c| is_in(&WIDE, c));
    let name = cases.chain([record.scenario.as_str(), record.about.as_str()]).find(|n| lacks(n))?;
    Some(format!(
        "charts as PNG have a box for each character of East Asian scripts and emoji, which their \
         font lacks, such as those of \"{}\"; take the SVG, or a Latin name",
        crate::words::elide(name, 40)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        let cases =
            [("abc", 3), ("é", 1), ("e\u{301}", 1), ("分層", 4), ("ｱ", 1), ("😀 x", 4), ("…·×", 3)];
        for (text, wide) in cases {
            assert_eq!(columns(text), wide, "{text}");
        }
    }

    #[test]
    fn names_that_the_font_has_not_are_said_and_others_are_not() {
        let mut record = common::training();
        assert_eq!(boxes(&record), None);
        record.results[0].label = "分層 😀".to_owned();
        assert!(boxes(&record).is_some_and(|said| said.contains("分層 😀")));
    }
}

//! Prose in lines of at most 100 columns.
//!
//! A link is longer on a page than in its text, since it names the page. Code, tables, headings and
//! formulas stay as they are, and what stands between backticks stays on one line.

/// Columns of a line.
const WIDTH: usize = 100;

/// A page with its paragraphs and points broken anew.
pub(crate) fn wrapped(page: &str) -> String {
    let (mut text, mut paragraph) = (String::new(), Vec::new());
    let mut in_code = false;
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        let indented = line.starts_with("    ") && paragraph.is_empty();
        let fixed = in_code || is_fence || indented || line.is_empty();
        in_code ^= is_fence;
        let starts = |marks: &[&str]| marks.iter().any(|mark| line.starts_with(mark));
        if fixed || starts(&["|", "#", "<!--"]) {
            flush(&mut paragraph, &mut text);
            text += line;
            text.push('\n');
        } else {
            if !point(line).is_empty() {
                flush(&mut paragraph, &mut text);
            }
            paragraph.push(line);
        }
    }
    flush(&mut paragraph, &mut text);
    text
}

/// The mark that a point of a list begins with, with its space.
fn point(line: &str) -> &str {
    let digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let number = line.len() - digits.len();
    match line {
        _ if line.starts_with("* ") => "* ",
        _ if number > 0 && digits.starts_with(". ") => &line[..number + 2],
        _ => "",
    }
}

fn flush(paragraph: &mut Vec<&str>, text: &mut String) {
    let Some(first) = paragraph.first() else { return };
    let mark = point(first);
    let hang = " ".repeat(mark.len());
    let joined: Vec<&str> = paragraph.iter().map(|line| line.trim()).collect();
    let joined = joined.join(" ");
    let mut line = mark.to_owned();
    for word in words(&joined[mark.len()..]) {
        // What would be the mark of a point at the start of a line stays behind its word.
        let is_mark = ["*", "+", "-", "#"].contains(&word.as_str());
        let is_mark = is_mark || !point(&format!("{word} ")).is_empty();
        if line.trim() == mark.trim() {
            line += &word;
        } else if line.chars().count() + 1 + word.chars().count() > WIDTH && !is_mark {
            *text += &line;
            text.push('\n');
            line = format!("{hang}{word}");
        } else {
            line.push(' ');
            line += &word;
        }
    }
    *text += &line;
    text.push('\n');
    paragraph.clear();
}

/// Words, of which what stands between backticks is one.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut in_code = false;
    for letter in text.chars() {
        in_code ^= letter == '`';
        match letter {
            ' ' if !in_code => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

//! Comments as Hjson has them, which DeepSpeed reads and YAML does not.
//!
//! Invariant: every character that stays keeps its place.

/// The text with spaces for tabs, which YAML refuses, and for comments that YAML does not know:
/// DeepSpeed reads Hjson, which has `//` and `/* */`. Every character keeps its place.
pub(super) fn without_comments(text: &str) -> String {
    #[derive(PartialEq)]
    enum In {
        Text,
        Quotes,
        Line,
        Block,
    }
    let (mut out, mut within) = (String::with_capacity(text.len()), In::Text);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        match (&within, c, next) {
            (In::Text, '"', _) => within = In::Quotes,
            (In::Quotes, '"', _) => within = In::Text,
            (In::Quotes, '\\', Some(_)) => {
                out.push(c);
                out.extend(rest.next());
                continue;
            }
            (In::Text, '/', Some('/')) => within = In::Line,
            (In::Text, '/', Some('*')) => within = In::Block,
            (In::Line, '\n', _) => within = In::Text,
            (In::Block, '*', Some('/')) => {
                out.push_str("  ");
                rest.next();
                within = In::Text;
                continue;
            }
            _ => {}
        }
        let blank = matches!(within, In::Line | In::Block) && c != '\n' || c == '\t';
        out.push(if blank { ' ' } else { c });
    }
    out
}

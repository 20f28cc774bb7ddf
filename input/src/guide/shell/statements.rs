//! Tokens of a script as its commands.
//!
//! Invariant: every token is in one statement, but for what separates them.

use super::tokens::Token;

/// Tokens up to the end of a command.
#[derive(Default)]
pub(super) struct Statement<'a> {
    pub(super) tokens: Vec<&'a Token>,
    /// Behind `&&` or `||`: it is run only if the one before ended so or so.
    pub(super) joint: Option<char>,
}

/// The commands of a script, in its order.
pub(super) fn statements(tokens: &[Token]) -> Vec<Statement<'_>> {
    let mut all = Vec::new();
    let mut open = Statement::default();
    let (mut inside, mut last) = (0usize, ' ');
    for token in tokens {
        let mark = match token {
            Token::Mark(c, _) => *c,
            Token::Word(_) => ' ',
        };
        inside = match mark {
            '(' => inside + 1,
            ')' => inside.saturating_sub(1),
            _ => inside,
        };
        match mark {
            // Lines of an array.
            '\n' if inside > 0 => {}
            '\n' | ';' | '|' | '&' if !(mark == '&' && last == '>') => {
                if !open.tokens.is_empty() {
                    all.push(std::mem::take(&mut open));
                }
                if mark == last && "&|".contains(mark) {
                    open.joint = Some(mark);
                }
            }
            _ => open.tokens.push(token),
        }
        last = mark;
    }
    all.push(open);
    all
}

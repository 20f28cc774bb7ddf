//! Which branch of an `if` of a script is run, as far as words and numbers that are known say it.
//!
//! Invariant: what is not known is `None`, and neither run nor left out.

/// An `if`: which of its branches is run, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    /// Between `if` and `then`.
    pub(super) asks: bool,
    pub(super) live: Option<bool>,
    /// Whether a branch before this one was run.
    pub(super) done: Option<bool>,
}

impl Default for Branch {
    fn default() -> Branch {
        Branch { asks: true, live: None, done: Some(false) }
    }
}

impl Branch {
    /// One test of those before `then`, joined with those before it.
    pub(super) fn asked(&mut self, joint: Option<char>, answer: Option<bool>) {
        let not = |answer: Option<bool>| answer.map(|answer| !answer);
        self.live = match joint {
            None => and(not(self.done), answer),
            Some('&') => and(self.live, answer),
            Some(_) => not(and(not(self.live), not(and(not(self.done), answer)))),
        };
    }

    /// The next branch, which asks first or is run if none before was.
    pub(super) fn other(&mut self, asks: bool) {
        let not = |answer: Option<bool>| answer.map(|answer| !answer);
        self.done = not(and(not(self.done), not(self.live)));
        (self.asks, self.live) = (asks, not(self.done));
    }
}

/// Both, where one may be unknown.
pub(super) fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Whether `[ ... ]` or `[[ ... ]]` holds, where only words and numbers are compared.
pub(super) fn holds(words: &[String], unset: &dyn Fn(&str) -> bool) -> Option<bool> {
    let text = |word: &String| if unset(word) { String::new() } else { word.clone() };
    let words: Vec<String> = words.iter().map(text).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let inside = match words[..] {
        ["[", ref inside @ .., "]"] | ["[[", ref inside @ .., "]]"] => inside,
        _ => return None,
    };
    if inside.iter().any(|word| word.contains(['$', '*', '`'])) {
        return None;
    }
    let number = |word: &str| word.parse::<i64>().ok();
    match *inside {
        ["-z", word] => Some(word.is_empty()),
        ["-n", word] | [word] => Some(!word.is_empty()),
        [a, "=" | "==", b] => Some(a == b),
        [a, "!=", b] => Some(a != b),
        [a, sign, b] => {
            let order = number(a)?.cmp(&number(b)?);
            Some(match sign {
                "-eq" => order.is_eq(),
                "-ne" => order.is_ne(),
                "-gt" => order.is_gt(),
                "-ge" => order.is_ge(),
                "-lt" => order.is_lt(),
                "-le" => order.is_le(),
                _ => return None,
            })
        }
        _ => None,
    }
}

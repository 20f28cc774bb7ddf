//! Whole numbers between `$((` and `))`.
//!
//! Invariant: what overflows, divides by zero or nests deeper than 16 is none.

/// The value of an expression, given what names stand for.
pub(super) fn sum(text: &str, value: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    let letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut of = Sum { letters: &letters, at: 0, value };
    let found = of.terms(0)?;
    (of.at == letters.len()).then_some(found)
}

struct Sum<'a> {
    letters: &'a [char],
    at: usize,
    value: &'a dyn Fn(&str) -> Option<i64>,
}

impl Sum<'_> {
    fn next_if(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        let c = self.letters.get(self.at).copied().filter(|&c| wanted(c))?;
        self.at += 1;
        Some(c)
    }

    fn terms(&mut self, deep: usize) -> Option<i64> {
        let mut all = self.factors(deep)?;
        while let Some(sign) = self.next_if(|c| "+-".contains(c)) {
            let next = self.factors(deep)?;
            all = if sign == '+' { all.checked_add(next)? } else { all.checked_sub(next)? };
        }
        Some(all)
    }

    fn factors(&mut self, deep: usize) -> Option<i64> {
        let mut all = self.one(deep)?;
        while let Some(sign) = self.next_if(|c| "*/%".contains(c)) {
            let next = self.one(deep)?;
            all = match sign {
                '*' => all.checked_mul(next)?,
                '/' => all.checked_div(next)?,
                _ => all.checked_rem(next)?,
            };
        }
        Some(all)
    }

    fn one(&mut self, deep: usize) -> Option<i64> {
        if self.next_if(|c| c == '(').is_some() {
            let inside = (deep < 16).then(|| self.terms(deep + 1)).flatten()?;
            return self.next_if(|c| c == ')').map(|_| inside);
        }
        let braced = self.next_if(|c| c == '$').is_some() && self.next_if(|c| c == '{').is_some();
        let mut word = String::new();
        while let Some(c) = self.next_if(|c| c.is_ascii_alphanumeric() || c == '_') {
            word.push(c);
        }
        if braced {
            self.next_if(|c| c == '}')?;
        }
        match word.starts_with(|c: char| c.is_ascii_digit()) {
            true => word.parse().ok(),
            false => (self.value)(&word),
        }
    }
}

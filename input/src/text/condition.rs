//! Conditions on numbers with names: `hbm + cpu <= 1`, `2 * slowdown < 2.1`.
//!
//! Sums of names and numbers, each with a factor if need be, on both sides of one comparison: what
//! thresholds, budgets and limits of a design need, and no more. A name with other characters than
//! letters, digits, `_` and `.` stands in quotes: `'HBM share' <= 0.5`.
//! Invariant: reading takes time linear in the text, which has at most 500 bytes.

use std::fmt;

/// Longest condition in bytes.
const MAX_LENGTH: usize = 500;
/// How far apart, in parts of the numbers compared, two sides may be and still be equal: 0.1 + 0.2
/// is 0.3 here.
const TOLERANCE: f64 = 1e-9;

/// How two sides compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<=`
    AtMost,
    /// `<`
    Below,
    /// `>=`
    AtLeast,
    /// `>`
    Above,
    /// `==`
    Equal,
}

/// A linear condition: the sum of factors times names, and a constant, compared with 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    /// Factor and name, both sides brought to the left.
    terms: Vec<(f64, String)>,
    constant: f64,
    relation: Relation,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn parse(text: &str) -> Result<Condition, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("a condition has at most {MAX_LENGTH} bytes"));
        }
        let mut condition = Condition {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            terms: Vec::new(),
            constant: 0.0,
            relation: Relation::Equal,
        };
        let mut tokens = Tokens { rest: text };
        condition.side(&mut tokens, 1.0)?;
        condition.relation = match tokens.next()? {
            Some(Token::Relation(relation)) => relation,
            _ => return Err("a condition compares two sides by <=, <, >=, > or ==".to_owned()),
        };
        condition.side(&mut tokens, -1.0)?;
        match tokens.next()? {
            None if condition.terms.is_empty() => Err("a condition names something".to_owned()),
            None => Ok(condition),
            Some(_) => Err("a condition is one comparison of two sums".to_owned()),
        }
    }

    /// Every name in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|(_, name)| name.as_str())
    }

    /// Whether it holds for these values; `None` if one of them is not known.
    pub fn holds(&self, value: impl Fn(&str) -> Option<f64>) -> Option<bool> {
        self.slack(value).map(|slack| match self.relation {
            Relation::Below | Relation::Above => slack > 0.0,
            _ => slack >= 0.0,
        })
    }

    /// By how much it holds, in the numbers' own unit: above 0 inside, 0 at the edge (and near it,
    /// as far as rounding goes), below 0 where it is broken. `None` if a value is not known.
    pub fn slack(&self, value: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let (mut sum, mut size) = (self.constant, self.constant.abs());
        for (factor, name) in &self.terms {
            let term = factor * value(name)?;
            sum += term;
            size += term.abs();
        }
        if !sum.is_finite() {
            return None;
        }
        let sum = if sum.abs() <= TOLERANCE * size { 0.0 } else { sum };
        Some(match self.relation {
            Relation::AtMost | Relation::Below => -sum,
            Relation::AtLeast | Relation::Above => sum,
            Relation::Equal => -sum.abs(),
        })
    }

    /// A sum, up to a relation or the end.
    fn side(&mut self, tokens: &mut Tokens<'_>, side: f64) -> Result<(), String> {
        let mut sign = side;
        loop {
            let mut token = tokens.next()?;
            while let Some(Token::Sign(own)) = token {
                sign *= own;
                token = tokens.next()?;
            }
            let (mut factor, mut name) = (sign, None);
            loop {
                match token {
                    Some(Token::Number(number)) => factor *= number,
                    Some(Token::Name(found)) if name.is_none() => name = Some(found),
                    Some(Token::Name(_)) => {
                        return Err("a product has one name; the rest are numbers".to_owned());
                    }
                    _ => return Err("a number or a name is missing".to_owned()),
                }
                if !tokens.takes('*') {
                    break;
                }
                token = tokens.next()?;
            }
            match name {
                Some(name) => self.terms.push((factor, name.to_owned())),
                None => self.constant += factor,
            }
            match tokens.sign() {
                Some(own) => sign = side * own,
                None => return Ok(()),
            }
        }
    }
}

enum Token<'t> {
    Number(f64),
    Name(&'t str),
    Sign(f64),
    Relation(Relation),
}

struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    fn next(&mut self) -> Result<Option<Token<'t>>, String> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        if let Some(sign) = self.sign() {
            return Ok(Some(Token::Sign(sign)));
        }
        const RELATIONS: [(&str, Relation); 5] = [
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("==", Relation::Equal),
            ("<", Relation::Below),
            (">", Relation::Above),
        ];
        for (word, relation) in RELATIONS {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(Some(Token::Relation(relation)));
            }
        }
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let (name, rest) = rest.split_once('\'').ok_or("a name's second ' is missing")?;
            self.rest = rest;
            return Ok(Some(Token::Name(name)));
        }
        let is_word = |c: char| c == '_' || c == '.' || c.is_alphanumeric();
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        if first.is_ascii_digit() || first == '.' {
            let end = exponent(self.rest, end);
            let (number, rest) = self.rest.split_at(end);
            self.rest = rest;
            let read = number.parse::<f64>().ok().filter(|number| number.is_finite());
            return read.map(|number| Some(Token::Number(number))).ok_or_else(|| {
                format!("`{number}` is no number; a name that begins so stands in quotes")
            });
        }
        if end == 0 {
            return Err(format!("`{first}` has no meaning in a condition"));
        }
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(Some(Token::Name(name)))
    }

    fn sign(&mut self) -> Option<f64> {
        [('+', 1.0), ('-', -1.0)].into_iter().find_map(|(c, sign)| self.takes(c).then_some(sign))
    }

    fn takes(&mut self, c: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

/// Where a number ends that `end` may have cut in its exponent: `1e-3`.
fn exponent(text: &str, end: usize) -> usize {
    let cut = text[..end].ends_with(['e', 'E']) && text[end..].starts_with(['-', '+']);
    if !cut {
        return end;
    }
    let digits = text[end + 1..].chars().take_while(char::is_ascii_digit).count();
    if digits == 0 { end } else { end + 1 + digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, values: &[(&str, f64)]) -> Option<bool> {
        let value = |name: &str| values.iter().find(|(known, _)| *known == name).map(|v| v.1);
        Condition::parse(text).unwrap().holds(value)
    }

    #[test]
    fn sums_are_compared() {
        let at = [("hbm", 0.1), ("cpu", 0.2), ("HBM share", 3.0)];
        assert_eq!(holds("hbm + cpu <= 0.3", &at), Some(true));
        assert_eq!(holds("hbm+cpu>=0.3", &at), Some(true));
        assert_eq!(holds("hbm + cpu == 0.3", &at), Some(true));
        assert_eq!(holds("hbm + cpu < 0.3", &at), Some(false));
        assert_eq!(holds("hbm + cpu > 0.3", &at), Some(false));
        assert_eq!(holds("1 - hbm >= 4.5 * cpu", &at), Some(true));
        assert_eq!(holds("cpu * 2e-1 - -hbm <= .14", &at), Some(true));
        assert_eq!(holds("'HBM share' < 3.1 - 1e-3", &at), Some(true));
        assert_eq!(holds("-hbm > -cpu", &at), Some(true));
        assert_eq!(holds("dram < 1", &at), None);
    }

    #[test]
    fn slack_is_in_the_numbers_unit() {
        let condition = Condition::parse("slowdown <= 1.05").unwrap();
        let slack = condition.slack(|_| Some(1.0)).unwrap();
        assert!((slack - 0.05).abs() < 1e-12);
        assert_eq!(condition.to_string(), "slowdown <= 1.05");
        assert_eq!(condition.names().collect::<Vec<_>>(), ["slowdown"]);
    }

    #[test]
    fn what_is_no_condition_is_told() {
        for (text, rule) in [
            ("", "missing"),
            ("hbm", "compares"),
            ("1 <= 2", "names something"),
            ("hbm <= ", "missing"),
            ("hbm <= 1 <= 2", "one comparison"),
            ("hbm * cpu <= 1", "one name"),
            ("hbm ? 1", "`?`"),
            ("3hbm <= 1", "`3hbm`"),
            ("'hbm <= 1", "second '"),
            ("1e999 * a < 1", "`1e999`"),
        ] {
            let said = Condition::parse(text).unwrap_err();
            assert!(said.contains(rule), "{text}: {said}");
        }
    }
}

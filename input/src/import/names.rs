//! Names of kernels, ops and ranges, each kept once.
//!
//! Kernels of templates have names of several thousand bytes, repeated in every event; a trace
//! keeps the first 256.
//! Invariant: a name that is kept can stand in a trace: not empty, short enough, printable.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use tiersim_models::printed::is_printable;
use tiersim_models::trace_rules::MAX_NAME_BYTES;

/// Names by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    list: Vec<Box<str>>,
    /// By the hash of a name: the first that has it. Others with the same hash are kept again.
    ids: BTreeMap<u64, u32>,
}

impl Names {
    /// The number of a name, and how many bytes more are kept for it.
    pub(super) fn id(&mut self, name: &str) -> (u32, usize) {
        let short = shortened(name);
        let mut hasher = DefaultHasher::new();
        short.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(&id) = self.ids.get(&hash)
            && *self.list[id as usize] == *short
        {
            return (id, 0);
        }
        let id = self.list.len() as u32;
        let more = short.len() + 64;
        self.ids.entry(hash).or_insert(id);
        self.list.push(short.into());
        (id, more)
    }

    /// As much of a text as a trace keeps of a name.
    pub(super) fn kept(&mut self, text: &str) -> String {
        let id = self.id(text).0;
        self.get(id).to_owned()
    }

    /// The name of a number.
    pub(super) fn get(&self, id: u32) -> &str {
        &self.list[id as usize]
    }
}

/// As much of a text as a name may have, in whole letters.
pub(super) fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// As much as is kept of what a recording says of itself, such as the name of its device.
pub(super) fn told(text: &str) -> String {
    if text.is_empty() { String::new() } else { shortened(text).into_owned() }
}

/// As much of a name as a trace keeps.
fn shortened(name: &str) -> std::borrow::Cow<'_, str> {
    let name = cut(name);
    if name.is_empty() {
        return "(no name)".into();
    }
    if !is_printable(name) {
        // What is hidden takes a byte or more, and a space one: the name stays short.
        let shown = |c: char| if is_printable(c.encode_utf8(&mut [0; 4])) { c } else { ' ' };
        return name.chars().map(shown).collect::<String>().into();
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn a_name_is_kept_once_and_can_stand_in_a_trace() {
        let mut names = Names::default();
        let (first, more) = names.id("gemm");
        assert!(more > 0);
        assert_eq!(names.id("gemm"), (first, 0));
        let (long, _) = names.id(&"é".repeat(3000));
        assert_eq!(names.get(long).len(), 256);
        let (odd, _) = names.id("a\nb");
        assert_eq!(names.get(odd), "a b");
        let (turned, _) = names.id("a\u{202e}b");
        assert_eq!(names.get(turned), "a b");
        let (none, _) = names.id("");
        assert_eq!(names.get(none), "(no name)");
    }
}

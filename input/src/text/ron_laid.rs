//! A tree as text that people read: a field a line where a line would be long, a number with its
//! source on one.
//!
//! Comments of the files that its values stand in are not kept.
//! Invariant: the text scans, and every value of the tree stands in it.

use crate::text::ron_tree::{Shape, Tree, ValueId};

/// What is longer is laid out over several lines.
const WIDE: usize = 90;

impl Tree {
    /// The text of the whole, with what was put into it; fields that hold `None` and sections with
    /// nothing in them are left out.
    pub(crate) fn laid_out(&self) -> String {
        let mut text = String::new();
        self.lay(self.root(), 0, &mut text);
        text + "\n"
    }

    /// Recursion: nesting is capped, also of what is put in.
    fn lay(&self, id: ValueId, depth: usize, text: &mut String) {
        let mut flat = String::new();
        self.show(id, &mut flat);
        let [open, close] = match self.shape(id) {
            _ if flat.len() + 4 * depth <= WIDE => return *text += &flat,
            Shape::Leaf | Shape::Tuple | Shape::Newtype => return *text += &flat,
            Shape::List => ['[', ']'],
            Shape::Map => ['{', '}'],
            Shape::Struct => ['(', ')'],
        };
        *text += flat.split(open).next().unwrap_or_default();
        text.push(open);
        let is_empty = |child: ValueId| {
            let is_section = depth == 0 && self.shape(child) == Shape::List;
            self.written(child) == "None" || is_section && self.children(child).next().is_none()
        };
        for child in self.children(id).filter(|&child| !is_empty(child)) {
            *text += &format!("\n{:1$}", "", 4 * (depth + 1));
            match self.name(child) {
                Some(name) if self.shape(id) == Shape::Map => *text += &format!("{name:?}: "),
                Some(name) => *text += &format!("{name}: "),
                None => {}
            }
            self.lay(child, depth + 1, text);
            text.push(',');
        }
        *text += &format!("\n{:1$}{close}", "", 4 * depth);
    }
}

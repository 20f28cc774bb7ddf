//! Where a program asked for memory: what the frames of an entry say.
//!
//! Frames go from the innermost outwards. A site is named by the innermost one of the program itself,
//! and what was at work is told by the innermost frame of PyTorch's that says it.
//! Invariant: a list of frames is looked at once, however many entries share it, and not beyond
//! [`FRAMES`]: work is bounded by the file's bytes.

use crate::import::names::Names;
use crate::import::snapshot::tree::{Item, Node, Tree};
use std::collections::BTreeMap;

/// Frames of an entry that are looked at.
const FRAMES: usize = 64;
/// Keys of a frame: it has three, and newer versions a few more.
const KEYS: usize = 16;

/// What a program was at when it asked for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The frames do not say, or there are none.
    #[default]
    Unknown,
    /// It made a module, or moved one to the device.
    Module,
    /// It ran a module forward.
    Forward,
    /// It ran the backward pass.
    Backward,
    /// It ran an optimizer.
    Optimizer,
}

/// Where a program asked for memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Such as `forward (model.py:12)`.
    pub name: String,
    /// What was at work there.
    pub role: Role,
}

/// The sites of a file, each once.
#[derive(Debug)]
pub(super) struct Sites {
    names: Names,
    /// By the number of a name and a role: the site.
    ids: BTreeMap<(u32, u8), u32>,
    /// By list of frames: the site.
    lists: BTreeMap<u32, u32>,
    pub(super) list: Vec<Site>,
}

impl Default for Sites {
    /// The first site is that of entries without frames.
    fn default() -> Sites {
        let nowhere = Site { name: "memory".to_owned(), role: Role::Unknown };
        let (names, ids, lists) = Default::default();
        Sites { names, ids, lists, list: vec![nowhere] }
    }
}

impl Sites {
    /// The number of the site that an entry names.
    pub(super) fn of(&mut self, tree: &Tree, frames: Option<Item>) -> u32 {
        let Some(Item::Node(Node::List(list))) = frames else { return 0 };
        if let Some(&known) = self.lists.get(&list) {
            return known;
        }
        let site = self.read(tree, Item::Node(Node::List(list)));
        self.lists.insert(list, site);
        site
    }

    fn read(&mut self, tree: &Tree, frames: Item) -> u32 {
        let (mut name, mut outer, mut role) = (None, None, Role::Unknown);
        for frame in tree.list(frames).into_iter().flatten().take(FRAMES) {
            if tree.keys(frame) > KEYS {
                continue;
            }
            let text = |key: &str| tree.get(frame, key).and_then(|item| tree.text(item));
            let (file, function) = (text("filename").unwrap_or(""), text("name").unwrap_or(""));
            if role == Role::Unknown {
                role = role_of(file, function);
            }
            let python = file.ends_with(".py");
            let own = python && !file.contains("/torch/") && !file.starts_with("torch/");
            if !function.is_empty() && function != "??" && name.is_none() {
                let line = match tree.get(frame, "line") {
                    Some(Item::Int(line)) if python => format!(":{line}"),
                    _ => String::new(),
                };
                let file = file.rsplit(['/', '\\']).next().unwrap_or("");
                let shown =
                    if python { format!("{function} ({file}{line})") } else { function.to_owned() };
                match own {
                    true => name = Some(shown),
                    false => outer = outer.or(Some(shown)),
                }
            }
        }
        match name.or(outer) {
            Some(name) => self.id(&name, role),
            None if role == Role::Unknown => 0,
            None => self.id("memory", role),
        }
    }

    fn id(&mut self, name: &str, role: Role) -> u32 {
        // What comes before a name in the name of an op, and behind it in that of an object.
        let mut end = name.len().min(200);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let (number, _) = self.names.id(&name[..end]);
        let next = self.list.len() as u32;
        let id = *self.ids.entry((number, role as u8)).or_insert(next);
        if id == next {
            self.list.push(Site { name: self.names.get(number).to_owned(), role });
        }
        id
    }
}

/// What a frame of PyTorch's says.
fn role_of(file: &str, function: &str) -> Role {
    if file.contains("torch/optim/") {
        return Role::Optimizer;
    }
    let engine = function.contains("torch::autograd::Engine");
    if engine || (file.contains("torch/autograd/") && function.contains("backward")) {
        return Role::Backward;
    }
    if file.ends_with("torch/nn/parameter.py") {
        return Role::Module;
    }
    let modules = file.contains("torch/nn/modules/");
    if modules && ["__init__", "_apply", "reset_parameters"].contains(&function) {
        return Role::Module;
    }
    let called = ["_call_impl", "_wrapped_call_impl"].contains(&function);
    if function == "forward" || (modules && called) { Role::Forward } else { Role::Unknown }
}

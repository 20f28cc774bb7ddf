//! Accounts: every part of what a rank needs, each on a line with its formula, and the sums.
//!
//! An account is made from a [`Training`] or [`Serving`] and holds numbers and words only; how it
//! looks is decided elsewhere. Invariant: sums are those of the lines, so nothing counts that is
//! not shown.

mod buffers;
mod estimators;
mod serving;
mod training;

pub use estimators::estimated;
pub use serving::{Serving, Structured, serving, structured};
pub use training::{Keeps, Pipeline, Step, Training, training};

use super::zero::Place;
use super::{Overflow, product, total};

/// A number that the account rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Key for programs.
    pub key: &'static str,
    /// What it is.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
}

/// A value of a constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u128),
    /// Any number.
    Number(f64),
    /// A choice.
    Word(String),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Word(value.to_owned())
    }
}

/// One line: so many bytes of one rank in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Key for programs, without the place.
    pub key: &'static str,
    /// What it is.
    pub name: &'static str,
    /// How the bytes come about, in words.
    pub formula: String,
    /// Where they are.
    pub place: Place,
    /// How many, for one rank.
    pub bytes: u128,
}

/// What a rank and a node need.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// What it is about, in one line.
    pub title: String,
    /// What it rests on.
    pub constants: Vec<Constant>,
    /// Every part.
    pub lines: Vec<Line>,
    /// What it leaves out, in words.
    pub notes: Vec<String>,
    /// Of each GPU.
    pub gpu: u128,
    /// Of the host's memory, of each node.
    pub cpu_per_node: u128,
    /// Of the host's drives, of each node.
    pub nvme_per_node: u128,
}

impl Account {
    /// An account of `lines`, of which a node has those of `ranks_per_node` ranks.
    pub(crate) fn of(
        title: String,
        constants: Vec<Constant>,
        lines: Vec<Line>,
        ranks_per_node: u64,
    ) -> Result<Account, Overflow> {
        let of =
            |place| total(lines.iter().filter(|line| line.place == place).map(|line| line.bytes));
        let node = |place| product(&[of(place)?, ranks_per_node.into()]);
        let (gpu, cpu_per_node, nvme_per_node) =
            (of(Place::Gpu)?, node(Place::Cpu)?, node(Place::Nvme)?);
        let notes = Vec::new();
        Ok(Account { title, constants, lines, notes, gpu, cpu_per_node, nvme_per_node })
    }

    /// The bytes of a part in a place, for one rank.
    pub fn bytes(&self, key: &str, place: Place) -> u128 {
        let of = |line: &&Line| line.key == key && line.place == place;
        self.lines.iter().filter(of).map(|line| line.bytes).sum()
    }
}

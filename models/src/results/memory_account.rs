//! Accounts of memory: every part of what a rank needs, each on a line with its formula, and the
//! sums.
//!
//! An account holds numbers and words only; how it looks is decided elsewhere.

crate::words! {
    /// Where a part of the state lives, by the words of DeepSpeed's configuration.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Place {
        /// On the GPU.
        #[default]
        Gpu = "none",
        /// In the host's memory.
        Cpu = "cpu",
        /// On the host's NVMe drives.
        Nvme = "nvme",
    }
}

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
    /// The bytes of a part in a place, for one rank.
    pub fn bytes(&self, key: &str, place: Place) -> u128 {
        let of = |line: &&Line| line.key == key && line.place == place;
        self.lines.iter().filter(of).map(|line| line.bytes).sum()
    }
}

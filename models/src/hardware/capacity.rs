//! How much memory there is, where there may be no limit.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much memory there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Capacity {
    /// So many bytes.
    Limited(Bytes),
    /// More than anybody asks for.
    Unlimited,
}

impl Capacity {
    /// The bytes; `None` where there is no limit.
    pub const fn limit(self) -> Option<Bytes> {
        match self {
            Capacity::Limited(bytes) => Some(bytes),
            Capacity::Unlimited => None,
        }
    }

    /// The most bytes that can be there: without a limit as many as can be counted.
    pub const fn most(self) -> Bytes {
        match self {
            Capacity::Limited(bytes) => bytes,
            Capacity::Unlimited => Bytes::new(u64::MAX),
        }
    }

    /// Whether so many bytes fit.
    pub fn holds(self, bytes: Bytes) -> bool {
        bytes <= self.most()
    }

    /// What `of` makes of a limit; no limit stays none.
    pub fn map(self, of: impl FnOnce(u64) -> u64) -> Capacity {
        match self {
            Capacity::Limited(bytes) => Capacity::Limited(Bytes::new(of(bytes.get()))),
            Capacity::Unlimited => Capacity::Unlimited,
        }
    }

    /// What is left when `bytes` of it are taken, at least nothing.
    pub fn less(self, bytes: Bytes) -> Capacity {
        self.map(|all| all.saturating_sub(bytes.get()))
    }
}

impl From<Bytes> for Capacity {
    fn from(bytes: Bytes) -> Capacity {
        Capacity::Limited(bytes)
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Capacity::Limited(bytes) => bytes.fmt(f),
            Capacity::Unlimited => f.write_str("unlimited"),
        }
    }
}

//! The nodes of a host's memory: which there are, what they reach, and the machine they make.
//!
//! Linux says which cores and which memory belong together, how far nodes are from each other and
//! next to which of them a device sits ([`topology`]); threads that are kept to the cores of one
//! node measure memory that is kept to another ([`mod@bench`]); and both make a machine with a tier for
//! every node, which the simulator can place objects on ([`machine`]).
//! Invariant: every number of that machine says whether it was measured here, stands in the
//! firmware's table, or was worked out from a distance and is assumed.

pub mod bench;
pub mod machine;
pub mod topology;

pub use bench::{Bound, Pair, figures, keep_to, pairs};
pub use machine::machine_of_nodes;
pub use topology::{Topology, read};

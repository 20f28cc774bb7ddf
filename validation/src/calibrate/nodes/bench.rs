//! Measures memory of one node from the cores of another.
//!
//! Threads are kept to the cores of a node (`sched_setaffinity`) and memory to a node (`mbind`)
//! before it is touched for the first time. All cores of the node read and then write the memory
//! together, and one of them follows a chain of addresses through it, each of which is known only
//! when the one before has come.
//! Invariant: what cannot be kept to its node is not measured, and is said.

use crate::calibrate::figures::figure;
use crate::calibrate::nodes::topology::Topology;
use tiersim_models::results::calibration::Figure;

/// Repeats of each measurement.
const REPEATS: usize = 5;

/// What the cores of one node make of the memory of one node. All values, as they were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Positions of the node of the cores and of the node of the memory.
    pub nodes: (usize, usize),
    /// Bytes per second that all cores read.
    pub reads: Vec<f64>,
    /// Bytes per second that all cores write.
    pub writes: Vec<f64>,
    /// Seconds of one dependent read.
    pub latencies: Vec<f64>,
}

/// Who measures a pair of nodes: this computer, or a test.
pub trait Bound {
    /// Measures memory of so many bytes that is kept to node `memory`, from `cores`, so many times.
    ///
    /// Errors in words where threads or memory cannot be kept to their nodes.
    fn pair(
        &mut self,
        cores: &[u32],
        memory: u32,
        bytes: usize,
        repeats: usize,
    ) -> Result<[Vec<f64>; 3], String>;
}

/// Every pair of a node with cores and a node with memory, and why one was not measured.
pub fn pairs(topology: &Topology, bound: &mut dyn Bound, bytes: usize) -> (Vec<Pair>, Vec<String>) {
    let (mut pairs, mut refused) = (Vec::new(), Vec::new());
    for (from, cores) in topology.nodes.iter().enumerate().filter(|(_, n)| !n.cores.is_empty()) {
        for (to, memory) in topology.nodes.iter().enumerate() {
            // Room for the measurement beside what the system needs of a small node.
            if (bytes as u64).saturating_mul(2) > memory.memory.get() {
                continue;
            }
            match bound.pair(&cores.cores, memory.id, bytes, REPEATS) {
                Ok([reads, writes, latencies]) => {
                    pairs.push(Pair { nodes: (from, to), reads, writes, latencies });
                }
                Err(why) => refused.push(format!(
                    "memory of node {} was not measured from node {}: {why}",
                    memory.id, cores.id
                )),
            }
        }
    }
    (pairs, refused)
}

/// What was measured, as figures beside the laws.
pub fn figures(topology: &Topology, pairs: &[Pair]) -> Vec<Figure> {
    let figures = |pair: &Pair| {
        let (from, to) = (&topology.nodes[pair.nodes.0], topology.nodes[pair.nodes.1].id);
        let (cores, id) = (from.cores.len(), from.id);
        let per = |values: &[f64], unit: f64| values.iter().map(|value| value / unit).collect();
        [
            (format!("read of memory of node {to} by {cores} cores of node {id}"), &pair.reads),
            (format!("write of memory of node {to} by {cores} cores of node {id}"), &pair.writes),
        ]
        .map(|(name, values)| figure(name, "GB/s", per(values, 1e9)))
        .into_iter()
        .chain([figure(
            format!("dependent read of memory of node {to} from node {id}"),
            "ns",
            per(&pair.latencies, 1e-9),
        )])
        .collect::<Vec<Figure>>()
    };
    pairs.iter().flat_map(figures).collect()
}

/// This computer.
#[derive(Debug, Default)]
pub struct Here;

#[cfg(target_os = "linux")]
pub use linux::keep_to;
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Bound, Here};

    /// Nothing keeps threads to cores here.
    pub fn keep_to(_: &[u32]) -> Result<(), String> {
        Err("only Linux keeps threads to cores here".to_owned())
    }

    impl Bound for Here {
        fn pair(&mut self, _: &[u32], _: u32, _: usize, _: usize) -> Result<[Vec<f64>; 3], String> {
            Err("only Linux keeps memory to nodes here".to_owned())
        }
    }
}
#[cfg(not(target_os = "linux"))]
pub use elsewhere::keep_to;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod linux;

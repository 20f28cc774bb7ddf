//! The host's nodes of memory: read, threads kept beside the device, measured, made a machine.
//!
//! Invariant: nodes of a copy of another host's `/sys` are never measured here.

use super::CalibrateArgs;
use crate::output::Failure;
use std::path::Path;
use tiersim_models::hardware::Hardware;
use tiersim_models::results::calibration::Figure;
use tiersim_validation::calibrate::nodes::{self, Pair, Topology};
use tiersim_validation::calibrate::{MeasuredMachine, bench};
use tiersim_validation::real::Kind;

/// Bytes of memory that nodes are measured with; `--quick` takes less, which caches may hold.
const BYTES: usize = 512 << 20;
const QUICK_BYTES: usize = 32 << 20;

/// What is known of the host's nodes.
pub(super) struct Nodes {
    pub(super) topology: Topology,
    /// What a reader of the calibration has to know.
    pub(super) notes: Vec<String>,
    /// Whether the nodes are this computer's.
    here: bool,
    address: Option<String>,
    pairs: Vec<Pair>,
}

/// Reads the nodes of this host, or of a copy of another's.
pub(super) fn read(args: &CalibrateArgs) -> Result<Nodes, Failure> {
    let root = args.system.as_deref().unwrap_or(Path::new("/"));
    let topology = nodes::read(root).map_err(Failure::Input)?;
    if let (Some(given), true) = (&args.system, topology.nodes.is_empty()) {
        return Err(Failure::Input(format!(
            "--system {}: no nodes in sys/devices/system/node; give the folder that holds the copy \
             of /sys",
            given.display()
        )));
    }
    let here = args.system.is_none();
    Ok(Nodes { topology, notes: Vec::new(), here, address: None, pairs: Vec::new() })
}

impl Nodes {
    /// The bench, with all its threads on the cores next to the device where there are others.
    pub(super) fn bench(
        &mut self,
        which: (Kind, usize),
        scratch: &Path,
    ) -> Result<Box<dyn MeasuredMachine>, Failure> {
        // Where the device is, the bench says; its threads and memory come after that.
        if self.here && self.with_cores() > 1 {
            self.address = bench(which, scratch)?.address();
            self.keep();
        }
        Ok(bench(which, scratch)?)
    }

    fn with_cores(&self) -> usize {
        self.topology.nodes.iter().filter(|node| !node.cores.is_empty()).count()
    }

    fn keep(&mut self) {
        let near = self.topology.near(self.address.as_deref());
        let Some(node) = near.map(|near| &self.topology.nodes[near]) else { return };
        if node.cores.is_empty() {
            return;
        }
        self.notes.push(match nodes::keep_to(&node.cores) {
            Ok(()) => format!("threads kept to the {} cores of node {}", node.cores.len(), node.id),
            Err(why) => format!("node {}: {why}", node.id),
        });
    }

    /// Measures every pair of nodes of this host, last of all, since threads are moved for it.
    pub(super) fn measure(&mut self, quick: bool) -> Vec<Figure> {
        let count = self.topology.nodes.len();
        if !self.here {
            let what = format!("{count} nodes of memory were read from a copy, and not measured");
            self.notes.push(what);
            return Vec::new();
        }
        if count == 1 {
            self.notes.push("one node of memory: nothing is far".to_owned());
        }
        let bytes = if quick { QUICK_BYTES } else { BYTES };
        let mut here = nodes::bench::Here;
        let (pairs, refused) = nodes::pairs(&self.topology, &mut here, bytes);
        self.notes.extend(refused);
        self.pairs = pairs;
        nodes::figures(&self.topology, &self.pairs)
    }

    /// The machine with a tier for every node, where there are several.
    pub(super) fn machine(
        &self,
        calibrated: &Hardware,
        notes: &mut Vec<String>,
    ) -> Option<Hardware> {
        let address = self.address.as_deref();
        let made = nodes::machine_of_nodes(calibrated, &self.topology, &self.pairs, address);
        let (machine, more) = made?;
        notes.extend(more);
        Some(machine)
    }
}

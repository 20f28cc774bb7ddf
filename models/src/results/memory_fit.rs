//! What makes a job fit into memory: sets of changes, what they cost, and the rates behind it.

/// What one rank does in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// FLOPs; 0 where the shape is not known.
    pub flops: u128,
    /// Bytes over the link to the host, both ways.
    pub host: u128,
    /// Bytes of the node's drives, of all its ranks.
    pub nvme: u128,
    /// Bytes of the host's memory that its Adam moves, of all ranks of the node.
    pub adam: u128,
    /// Bytes that collectives of ZeRO send.
    pub between_gpus: u128,
    /// Bytes of the device's memory that its own update moves.
    pub update: u128,
    /// Bytes of the device's memory that compressing activations moves, both ways.
    pub compressed: u128,
}

/// Work per second; `None` where nothing is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// FLOPs of the device.
    pub flops: Option<f64>,
    /// Bytes of the link to the host.
    pub host: Option<f64>,
    /// Bytes of the drives.
    pub nvme: Option<f64>,
    /// Bytes that the host's processors reach in its memory.
    pub host_memory: Option<f64>,
    /// Bytes that the device reaches in its own.
    pub memory: Option<f64>,
}

impl Cost {
    /// Seconds of all but computing and compressing; `None` if there is work at a rate that is not known.
    pub fn seconds_away(&self, rates: &Rates) -> Option<f64> {
        let parts = [
            (self.host, rates.host),
            (self.nvme, rates.nvme),
            (self.adam, rates.host_memory),
            (self.update, rates.memory),
        ];
        let of = |(work, rate): (u128, Option<f64>)| match rate {
            _ if work == 0 => Some(0.0),
            rate => rate.map(|rate| work as f64 / rate),
        };
        parts.into_iter().map(of).sum()
    }

    /// Whether nothing of it leaves the device but what collectives send.
    pub fn computes_only(&self) -> bool {
        self.host + self.nvme + self.adam == 0
    }
}

/// Room for a job; `None` where nothing is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Of each GPU.
    pub gpu: u128,
    /// Of each node's host memory.
    pub cpu: Option<u128>,
    /// Of each node's drives.
    pub nvme: Option<u128>,
}

/// A set of changes, and what a job comes to with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// What is changed, as options of the command.
    pub changes: Vec<String>,
    /// What it needs then, of a GPU, of a node's host and of its drives.
    pub bytes: [u128; 3],
    /// Memory of each node's host that it needs beyond the room, where it can have more.
    pub more_cpu: u128,
    /// Estimated seconds of a step; `None` where rates are missing for it.
    pub seconds: Option<f64>,
    /// Tokens of all replicas per second.
    pub tokens_per_s: Option<f64>,
    /// Estimated time for as much work over that of the quickest setting that fits, which may be
    /// none of these: of steps of training, and of tokens of a model that is served. In a table of
    /// switches, a step's over that of the job as it was asked about.
    pub slowdown: Option<f64>,
    /// What a step does.
    pub cost: Cost,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FitSearch {
    /// Whether the job fits as it is.
    pub fits: bool,
    /// Settings that were tried.
    pub tried: usize,
    /// Least sets of changes, the quickest first.
    pub least: Vec<Fit>,
}

impl FitSearch {
    /// The set with the fewest changes; of several the quickest.
    pub fn smallest(&self) -> Option<usize> {
        let changes = |at: usize| {
            let fit = &self.least[at];
            fit.changes.len() + usize::from(fit.more_cpu > 0)
        };
        (0..self.least.len()).min_by_key(|&at| (changes(at), at))
    }
}

/// What one switch saves and costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Switched {
    /// The job with this switch alone.
    pub alone: Fit,
    /// Whether that fits.
    pub alone_fits: bool,
    /// The job with this switch and all before it.
    pub in_turn: Fit,
    /// Whether that fits.
    pub in_turn_fits: bool,
}

/// What all switches of a job save and cost.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchTable {
    /// The job as it was asked about.
    pub base: Fit,
    /// Whether that fits.
    pub base_fits: bool,
    /// The switches, in the order in which they are turned.
    pub rows: Vec<Switched>,
}

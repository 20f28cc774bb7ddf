//! Demand paging by object, under any replacement algorithm.
//!
//! Objects that exist before the first op start outside HBM; an op fetches what it needs, and to
//! make room the objects leave that the algorithm names. With `write: back` a changed object is
//! written back when it leaves; with `write: through` it is copied out right after the op that
//! changed it, and leaves for nothing. The executor is [`executor::Demand`].

pub mod executor;

use crate::entry::{Entry, Kind, Parameter, Params};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::replacement::{Algorithm, Replacement, Visit};
use crate::visits::Visits;
use executor::Demand;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::TierId;

/// Parameters of every demand policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandConfig {
    /// Which object leaves.
    pub algorithm: Algorithm,
    /// Where objects live that are not in HBM: the first of these with room.
    pub spill: Vec<TierId>,
    /// When changed objects are copied out.
    pub write: Write,
}

/// When a changed object is copied out of HBM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Write {
    /// When it leaves.
    #[default]
    Back,
    /// Right after the op that changed it, so that it leaves for nothing. Not where a copy needs
    /// new room that would leave its tier with less than HBM has.
    Through,
}

impl DemandConfig {
    /// Least recently used first out, with write-back.
    pub fn lru(spill: Vec<TierId>) -> DemandConfig {
        DemandConfig { algorithm: Algorithm::Lru, spill, write: Write::Back }
    }
}

const PARAMETERS: &[Parameter] = &[
    Parameter::optional("spill", Kind::Spill),
    Parameter::optional("write", Kind::Word(&["back", "through"])),
];

fn make(algorithm: Algorithm, params: &Params) -> PolicyConfig {
    let write = match params.word("write") {
        Some("through") => Write::Through,
        _ => Write::Back,
    };
    DemandConfig { algorithm, spill: params.tiers("spill"), write }.into()
}

macro_rules! entries {
    ($($entry:ident: $spelling:literal, $algorithm:ident, $about:literal;)*) => {$(
        #[doc = concat!("How scenarios spell `", $spelling, "`.")]
        pub const $entry: Entry = Entry {
            spelling: $spelling,
            about: concat!("demand paging by object, ", $about),
            parameters: PARAMETERS,
            make: |params| Ok(make(Algorithm::$algorithm, params)),
        };
    )*};
}

entries! {
    ARC: "Arc", Arc, "adaptive between recency and frequency";
    BELADY: "Belady", Belady, "farthest next use first out: knows the future";
    CLOCK: "Clock", Clock, "first in first out with a second chance";
    FIFO: "Fifo", Fifo, "first in first out";
    LFU: "Lfu", Lfu, "least frequently used first out";
    LIRS: "Lirs", LirsPaper, "low inter-reference recency kept";
    LRU: "Lru", Lru, "least recently used first out";
    S3_FIFO: "S3Fifo", S3Fifo, "three queues, first in first out";
    SIEVE: "Sieve", Sieve, "first unused under a moving hand out";
    SLRU: "Slru", Slru, "least recently used in four segments";
    TWO_Q: "TwoQ", TwoQ, "new objects in a queue of their own";
}

impl Recipe for DemandConfig {
    /// Paging holds no more than there is, so `lirs` is the paper's whichever was asked for.
    fn name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::LirsPaper => Algorithm::Lirs.name(),
            algorithm => algorithm.name(),
        }
    }

    fn details(&self) -> String {
        match self.write {
            Write::Back => "on demand".to_owned(),
            Write::Through => "on demand, write-through".to_owned(),
        }
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let algorithm = match self.algorithm {
            Algorithm::Lirs => Algorithm::LirsPaper,
            algorithm => algorithm,
        };
        let capacity = setting.memory.usable(HBM).most().get();
        Ok(algorithm.with(capacity, Build { config: self, setting }))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(DemandConfig { spill, ..*self }.into())
    }
}

struct Build<'a> {
    config: &'a DemandConfig,
    setting: &'a Setting<'a>,
}

impl Visit for Build<'_> {
    type Out = Box<dyn Policy>;

    fn visit<R: Replacement + 'static>(self, rule: R) -> Box<dyn Policy> {
        let Build { config, setting } = self;
        let future = R::ORACLE.then(|| (Visits::new(setting.workload), setting.repeat.into()));
        let objects = setting.workload.trace.objects.len();
        Box::new(Demand::new(config, rule, objects, future))
    }
}

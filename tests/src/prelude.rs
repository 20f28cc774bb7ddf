//! What suites name again and again: the words of `conformance`, and those of scenarios, policies
//! and results.

pub use crate::play::Played;
pub use crate::setting::{case, policy_of, replays, with_setting};
pub use crate::soak::{Chosen, Trial, seed_of};
pub use std::collections::{BTreeMap, BTreeSet};
pub use std::fs;
pub use std::num::NonZeroU32;
pub use std::path::{Path, PathBuf};
pub use tiersim_conformance::prelude::*;
pub use tiersim_models::allocator::{
    AllocatorSpec, BucketsConfig, BuddyConfig, CachingConfig, Compaction, Fragmentation,
};
pub use tiersim_models::hardware::DeviceRequests;
pub use tiersim_models::loaded::{Curve, Loaded};
pub use tiersim_models::nodes::{Node, NodeKind};
pub use tiersim_models::results::{CaseRecord, Figures, RunRecord};
pub use tiersim_models::routes::CopyTimes;
pub use tiersim_models::server::Cpu;
pub use tiersim_models::service::Detail;
pub use tiersim_models::workload::{Collective, CollectiveKind, Op, Statistics};
pub use tiersim_policies::access::{Access, Charge};
pub use tiersim_policies::cpu_ops;
pub use tiersim_policies::recipe::Recipe;
pub use tiersim_policies::replacement::Algorithm;
pub use tiersim_policies::scenario::{Budget, Case, Params, Said, Scenario, Terms, WorkloadSpec};
pub use tiersim_policies::static_placement::StaticPlacement;
pub use tiersim_policies::zoo;
pub use tiersim_policies::zoo::demand::DemandConfig;
pub use tiersim_sim::run::{Options, run};

//! What nearly every test and body names: the words of machines, traces and plans, and how to build
//! small ones.

pub use crate::build::{
    FAR, ONE, Traced, command, computing, fair, fetch, free, hardware, law, prefetch, rate,
    two_tiers,
};
pub use crate::scripted::Scripted;
pub use crate::world::World;
pub use rand::rngs::ChaCha12Rng;
pub use rand::{RngExt, SeedableRng};
pub use tiersim_models::hardware::{Capacity, HBM, Hardware, Law, Link, Memory, TierKind};
pub use tiersim_models::ids::{LinkId, ModuleId, NodeId, ObjectId, OpId, TierId};
pub use tiersim_models::lifetime::Workload;
pub use tiersim_models::service::{Discipline, Service};
pub use tiersim_models::units::{Bandwidth, Bytes, FlopRate, PS_PER_S, Span, Time};
pub use tiersim_models::workload::{Mode, ObjectKind, PartialUse, Phase, Trace, Unit};
pub use tiersim_policies::command::{Command, Hazard, Machine, Ticket, Work};
pub use tiersim_policies::drive::{DriveError, drive};
pub use tiersim_policies::planner::{PlanError, Planner};
pub use tiersim_policies::policy::{Action, Lookahead, Policy};
pub use tiersim_policies::recipe::{PolicyConfig, Setting};
pub use tiersim_policies::step::Step;
pub use tiersim_policies::view::View;
pub use tiersim_sim::durations::Durations;
pub use tiersim_sim::machine::SimMachine;

//! Measurements in words, for tables, files and charts alike.
//!
//! Invariant: different kinds of one machine have different names, and none has a comma.

use crate::calibrate::{Access, FileAccess, Kind, Memory, Start, Way};
use tiersim_models::hardware::Hardware;

impl Kind {
    /// What is measured, in words; `skeleton` names tiers and lanes.
    pub fn name(self, skeleton: &Hardware) -> String {
        match self {
            Kind::Lane { lane, start } => {
                let how = match start {
                    Start::Busy => "back to back",
                    Start::Idle => "alone",
                    Start::Both => "both ways at once",
                };
                format!("{} {how}", skeleton.lane_name(lane))
            }
            Kind::Bare { way, memory, both } => {
                let way = match way {
                    Way::ToDevice => "to device",
                    Way::FromDevice => "from device",
                };
                let memory = match memory {
                    Memory::Pinned => "pinned",
                    Memory::Pageable => "pageable",
                };
                let both = if both { " both ways at once" } else { "" };
                format!("bare copy {way} {memory}{both}")
            }
            Kind::Stream(access) => {
                let access = match access {
                    Access::Read => "read",
                    Access::Write => "write",
                    Access::Copy => "copy",
                };
                format!("device memory {access}")
            }
            Kind::Launch => "op without objects".to_owned(),
            Kind::Gemm(precision) => format!("matrix product {}", precision.word()),
            Kind::File { access, .. } => match access {
                FileAccess::Read => "file read".to_owned(),
                FileAccess::Write => "file write".to_owned(),
            },
            Kind::InPlace { tier, writes } => {
                let tier = &skeleton.tiers[tier.index()].name;
                format!("{tier} {} in place", if writes { "written" } else { "read" })
            }
        }
    }

    /// Block in bytes and blocks in flight, of a file's measurement.
    pub const fn queue(self) -> Option<(u32, u16)> {
        match self {
            Kind::File { block, depth, .. } => Some((block, depth)),
            _ => None,
        }
    }
}

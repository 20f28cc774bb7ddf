//! What cases run on, and what they are held against.
//!
//! The cases of a scenario share one machine and one workload, so one baseline and one bound. The
//! points of a sweep need not: what is said of one of them is never said of another.
//! Invariant: the first of a record's conditions is that of the file as it stands, whether or not a
//! case runs under it; every other one is of a case.

use super::{CaseRecord, ChannelName, Figures, RunRecord};
use crate::hardware::TierKind;
use crate::shared::Shared;
use crate::units::{Bytes, Span};
use serde::{Deserialize, Serialize};

/// Machine, workload and seed of some cases, with their baseline and their bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The machine's name.
    pub hardware: Shared<String>,
    /// Name and kind of each of its tiers; the first is the device's memory.
    pub tiers: Shared<Vec<(String, TierKind)>>,
    /// Name of each direction of each of its links, such as `dram->hbm`, and the link's name.
    pub channels: Shared<Vec<ChannelName>>,
    /// The trace's name.
    pub workload: Shared<String>,
    /// How op durations were made, in words, such as `roofline on h100-sxm-pcie5, tf32`.
    pub op_time: Shared<String>,
    /// Seed of every draw.
    pub seed: u64,
    /// How many numbers of the hardware that times rest on are assumed.
    pub assumed_numbers: usize,
    /// Tokens that one step processes.
    pub tokens_per_step: u64,
    /// Devices that these tokens are of together; every other figure is one device's, also what it
    /// takes and costs: [`Conditions::of_all`].
    pub devices: u64,
    /// Whether nobody knows how many tokens a step has, so that a step counts as one.
    pub counts_steps: bool,
    /// Same workload with unlimited HBM.
    pub baseline: Shared<Figures>,
    /// No policy on this hardware can have a shorter mean step, whatever HBM it has.
    pub bound: Span,
    /// No policy can have a shorter mean step with so many bytes of HBM, by rising bytes; empty
    /// where cases have workloads of their own.
    pub bound_curve: Vec<(Bytes, Span)>,
}

impl Conditions {
    /// Holds what it has as `other` has it together with that one.
    pub fn share(&mut self, other: &Conditions) {
        let Conditions { hardware, tiers, channels, workload, op_time, baseline, .. } = self;
        hardware.share(&other.hardware);
        tiers.share(&other.tiers);
        channels.share(&other.channels);
        workload.share(&other.workload);
        op_time.share(&other.op_time);
        baseline.share(&other.baseline);
    }

    /// What all devices take or cost together where one takes or costs so much. Whatever is held
    /// against tokens, or against cases of another number of devices, is this.
    pub fn of_all(&self, one: f64) -> f64 {
        one * self.devices.max(1) as f64
    }

    /// What work per second is counted in.
    pub fn rate(&self) -> &'static str {
        if self.counts_steps { "steps/s" } else { "tokens/s" }
    }

    /// Name of each channel, unique: `dram->hbm`, or `dram->hbm (nvlink)` where two links join the
    /// same tiers.
    pub fn channel_names(&self) -> Vec<String> {
        let twice =
            |ends: &str| self.channels.iter().filter(|channel| channel.ends == ends).count() > 1;
        let name = |channel: &ChannelName| match twice(&channel.ends) {
            true => format!("{} ({})", channel.ends, channel.link),
            false => channel.ends.clone(),
        };
        self.channels.iter().map(name).collect()
    }

    /// Channels of the link called `link`, by index.
    pub fn channels_of(&self, link: &str) -> Vec<usize> {
        let own = self.channels.iter().enumerate().filter(|(_, channel)| channel.link == link);
        own.map(|(index, _)| index).collect()
    }

    /// Name of the tier with this index.
    pub fn tier_name(&self, tier: usize) -> &str {
        &self.tiers[tier].0
    }
}

impl RunRecord {
    /// Those of the file as it stands.
    pub fn base(&self) -> &Conditions {
        &self.conditions[0]
    }

    /// Those of a case.
    pub fn of(&self, case: &CaseRecord) -> &Conditions {
        &self.conditions[case.conditions]
    }

    /// Those that all cases have; none if two cases differ. Those of the file where there are no
    /// cases.
    pub fn shared(&self) -> Option<&Conditions> {
        let mut used = self.results.iter().map(|case| case.conditions);
        let first = used.next().unwrap_or(0);
        used.all(|other| other == first).then(|| &self.conditions[first])
    }

    /// What a figure of the conditions is for every case, if it is the same for all of them.
    pub fn common<T: PartialEq>(&self, figure: impl Fn(&Conditions) -> T) -> Option<T> {
        let mut values = self.used().into_iter().map(figure);
        let first = values.next()?;
        values.all(|other| other == first).then_some(first)
    }

    /// Each conditions that some case has, in the record's order; those of the file where there are
    /// no cases.
    pub fn used(&self) -> Vec<&Conditions> {
        let mut used: Vec<usize> = self.results.iter().map(|case| case.conditions).collect();
        used.sort_unstable();
        used.dedup();
        if used.is_empty() {
            used.push(0);
        }
        used.into_iter().map(|index| &self.conditions[index]).collect()
    }

    /// Tokens per second of a case that ran to its end.
    pub fn tokens_per_s(&self, case: &CaseRecord) -> Option<f64> {
        case.outcome.figures().map(|figures| figures.tokens_per_s(self.of(case).tokens_per_step))
    }
}

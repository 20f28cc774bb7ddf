//! From what a scenario says about allocators to one [`AllocatorSpec`] per tier.
//!
//! The scenario's list holds for every case; a case's own list replaces what it says of the tiers
//! that it names. Tiers that nobody names are exact.

use crate::scenario::raw::{RawAllocator, RawCompaction, RawCosts, RawModel};
use crate::scenario::resolver::Resolver;
use crate::text::quantity::{BYTES, Duration, Quantity, SETUP, Size};
use tiersim_models::allocator::caching::LARGE_SEGMENT;
use tiersim_models::allocator::{
    AllocatorSpec, BucketsConfig, BuddyConfig, COMPACT_ABOVE, CachingConfig, Compaction, Costs,
    Model,
};
use tiersim_models::hardware::{Hardware, MAX_TIERS};
use tiersim_models::units::{Bytes, Span};

/// The largest smallest block of buddies.
const MOST_LEAST: u64 = 1 << 30;

/// `base` with the entries of a list at `at`; `None` after problems. Empty if all are exact.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    raw: &[RawAllocator],
    base: &[AllocatorSpec],
    hardware: &Hardware,
) -> Option<Vec<AllocatorSpec>> {
    let mut specs = base.to_vec();
    specs.resize(hardware.tiers.len(), AllocatorSpec::default());
    let mut named = [false; MAX_TIERS];
    let mut good = true;
    let raw = resolver.check.at_most(at, "allocators", raw, MAX_TIERS);
    for (index, allocator) in raw.iter().enumerate() {
        let here = format!("{at}.{index}");
        let tier = resolver.tier(&format!("{here}.tier"), &allocator.tier, hardware);
        let spec = resolver.allocator(&here, allocator);
        let (Some(tier), Some(spec)) = (tier, spec) else {
            good = false;
            continue;
        };
        if std::mem::replace(&mut named[tier.index()], true) {
            let rule = "a tier has one allocator, and this one is listed twice";
            resolver.check.fault(&format!("{here}.tier"), rule, "keep one of them");
            good = false;
        }
        specs[tier.index()] = spec;
    }
    if specs.iter().all(AllocatorSpec::is_exact) {
        specs.clear();
    }
    good.then_some(specs)
}

impl Resolver<'_, '_> {
    fn allocator(&mut self, at: &str, raw: &RawAllocator) -> Option<AllocatorSpec> {
        let model = self.model(&format!("{at}.model"), &raw.model);
        let path = format!("{at}.compaction");
        let compaction = raw.compaction.as_ref().map(|raw| self.compaction(&path, raw));
        let model = model?;
        if compaction.is_some() && !model.moves() {
            let rule = format!("`{}` cannot move its blocks", model.name());
            let remedy = "leave `compaction` out, or choose pool, buckets or buddy";
            self.check.fault(&path, rule, remedy);
            return None;
        }
        match compaction {
            Some(compaction) => Some(AllocatorSpec { model, compaction: Some(compaction?) }),
            None => Some(AllocatorSpec { model, compaction: None }),
        }
    }

    fn compaction(&mut self, at: &str, raw: &RawCompaction) -> Option<Compaction> {
        let above = raw.above.unwrap_or(COMPACT_ABOVE);
        let above = self.check.number(&format!("{at}.above"), "`above`", above, 0.0, 1.0);
        let at_once = match &raw.at_once {
            Some(bytes) => self.size(&format!("{at}.at_once"), bytes, 1, u64::MAX),
            None => Some(Bytes::MAX),
        };
        Some(Compaction { above: above?, at_once: at_once? })
    }

    fn model(&mut self, at: &str, raw: &RawModel) -> Option<Model> {
        Some(match raw {
            RawModel::Exact => Model::Exact,
            RawModel::Pool => Model::Pool,
            RawModel::Buckets { adaptive } => {
                Model::Buckets(BucketsConfig { adaptive: adaptive.unwrap_or(false) })
            }
            RawModel::Buddy { least } => match least {
                None => Model::Buddy(BuddyConfig::default()),
                Some(least) => {
                    let path = format!("{at}.least");
                    let least = self.size(&path, least, 1, MOST_LEAST)?;
                    if !least.get().is_power_of_two() {
                        let rule = "the smallest block is a power of two";
                        self.check.fault(&path, rule, "write such as b(512) or kib(4)");
                        return None;
                    }
                    Model::Buddy(BuddyConfig { least })
                }
            },
            RawModel::Caching {
                expandable_segments,
                max_split,
                roundup_power2_divisions,
                garbage_collection_threshold,
                costs,
            } => {
                let costs = match costs {
                    Some(costs) => self.costs(&format!("{at}.costs"), costs),
                    None => Some(Costs::MEASURED),
                };
                let max_split = match max_split {
                    // PyTorch refuses less too: its segments of 20 MiB could not be split.
                    Some(size) => {
                        let path = format!("{at}.max_split");
                        Some(self.size(&path, size, LARGE_SEGMENT + 1, u64::MAX))
                    }
                    None => None,
                };
                let path = format!("{at}.roundup_power2_divisions");
                let divisions = self.divisions(&path, *roundup_power2_divisions);
                let path = format!("{at}.garbage_collection_threshold");
                let threshold = garbage_collection_threshold.unwrap_or(0.0);
                let what = "`garbage_collection_threshold`";
                let threshold = self.check.number(&path, what, threshold, 0.0, 1.0);
                Model::Caching(CachingConfig {
                    expandable_segments: expandable_segments.unwrap_or(false),
                    max_split: match max_split {
                        Some(size) => Some(size?),
                        None => None,
                    },
                    roundup_power2_divisions: divisions?,
                    garbage_collection_threshold: threshold?,
                    costs: costs?,
                })
            }
        })
    }

    /// What is not written is as measured.
    fn costs(&mut self, at: &str, raw: &RawCosts) -> Option<Costs> {
        let mut cost = |name: &str, raw: &Option<Quantity<Duration>>, measured: Span| match raw {
            Some(cost) => cost.value(&mut self.check, &format!("{at}.{name}"), SETUP),
            None => Some(measured),
        };
        let hit = cost("hit", &raw.hit, Costs::MEASURED.hit);
        let split = cost("split", &raw.split, Costs::MEASURED.split);
        let take = cost("take", &raw.take, Costs::MEASURED.take);
        let give = cost("give", &raw.give, Costs::MEASURED.give);
        Some(Costs { hit: hit?, split: split?, take: take?, give: give? })
    }

    fn divisions(&mut self, path: &str, raw: Option<u32>) -> Option<u32> {
        let divisions = raw.unwrap_or(0);
        if divisions != 0 && !(divisions.is_power_of_two() && divisions <= 1 << 16) {
            let rule = "the number of divisions is 0 or a power of two up to 65536";
            self.check.fault(path, rule, "write such as 4 or 8");
            return None;
        }
        Some(divisions)
    }

    fn size(&mut self, path: &str, raw: &Quantity<Size>, least: u64, most: u64) -> Option<Bytes> {
        let bytes = raw.value(&mut self.check, path, BYTES)?;
        if !(least..=most).contains(&bytes.get()) {
            let (least, most) = (Bytes::new(least), Bytes::new(most));
            let rule = match most {
                Bytes::MAX => format!("this size is at least {least} ({} bytes)", least.get()),
                most => format!("this size lies between {least} and {most}"),
            };
            self.check.fault(path, rule, "write another size");
            return None;
        }
        Some(bytes)
    }
}

//! From what a scenario says about allocators to one [`AllocatorSpec`] per tier.
//!
//! The scenario's list holds for every case; a case's own list replaces what it says of the tiers
//! that it names. Tiers that nobody names are exact.

use crate::scenario::files::Files;
use crate::scenario::raw::{RawAllocator, RawCompaction, RawCosts, RawModel};
use crate::scenario::resolver::Resolver;
use crate::text::check::Check;
use crate::text::quantity::{BYTES, Duration, Quantity, SETUP, Size};
use crate::text::ron_text::Document;
use crate::text::typed::Parsed;
use std::path::Path;
use tiersim_models::allocator::caching::LARGE_SEGMENT;
use tiersim_models::allocator::{
    AllocatorSpec, BucketsConfig, BuddyConfig, COMPACT_ABOVE, CachingConfig, Compaction, Costs,
    Model,
};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Hardware, MAX_TIERS};
use tiersim_models::units::{Bytes, Span};
use tiersim_policies::zoo::Registry;

/// The largest smallest block of buddies.
const MOST_LEAST: u64 = 1 << 30;

/// `base` with the entries of a list at `at`. Empty if all are exact.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    raw: &[RawAllocator],
    base: &[AllocatorSpec],
    hardware: &Hardware,
) -> Vec<AllocatorSpec> {
    let mut specs = base.to_vec();
    specs.resize(hardware.tiers.len(), AllocatorSpec::default());
    let mut named = [false; MAX_TIERS];
    let raw = resolver.check.at_most(at, "allocators", raw, MAX_TIERS);
    for (index, allocator) in raw.iter().enumerate() {
        let here = format!("{at}.{index}");
        let tier = resolver.tier(&format!("{here}.tier"), &allocator.tier, hardware);
        let spec = resolver.allocator(&here, allocator);
        let Some((tier, spec)) = tier.zip(spec) else { continue };
        if std::mem::replace(&mut named[tier.index()], true) {
            let rule = "a tier has one allocator, and this one is listed twice";
            resolver.check.fault(&format!("{here}.tier"), rule, "keep one of them");
        }
        specs[tier.index()] = spec;
    }
    // Every point of a sweep keeps it.
    if specs.iter().all(AllocatorSpec::is_exact) { Vec::new() } else { specs }
}

/// An allocator as it is typed: `text` is what stands behind `model` in a scenario.
///
/// Errors say what is wrong with it and where in the text.
pub fn typed_allocator(text: &str) -> Result<AllocatorSpec, Diagnostics> {
    let named = Path::new("--allocator");
    let document = Document::from_text(named, text.to_owned())?;
    let Parsed { raw, mut problems } = document.parse::<RawModel>()?;
    let mut files = Files::around(Path::new(""), &Registry::default())?;
    let check = Check::new(&document);
    let mut resolver = Resolver {
        check,
        files: &mut files,
        outside: Diagnostics::default(),
        warnings: Vec::new(),
        lacking: 0,
        left_out: Vec::new(),
        across: Vec::new(),
    };
    let model = resolver.model("", &raw);
    problems.0.append(&mut resolver.check.problems.0);
    problems.into_result(())?;
    let model = model.expect("what gives nothing has a problem");
    Ok(AllocatorSpec { model, compaction: None })
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
        }
        Some(AllocatorSpec { model, compaction: compaction.flatten() })
    }

    fn compaction(&mut self, at: &str, raw: &RawCompaction) -> Option<Compaction> {
        let above = raw.above.unwrap_or(COMPACT_ABOVE);
        let above = self.check.number(&format!("{at}.above"), "`above`", above, 0.0, 1.0);
        let at_once = format!("{at}.at_once");
        let at_once = raw.at_once.as_ref().and_then(|size| self.size(&at_once, size, 1, u64::MAX));
        let by = raw.by.unwrap_or_default();
        Some(Compaction { above: above?, by, at_once })
    }

    fn model(&mut self, at: &str, raw: &RawModel) -> Option<Model> {
        Some(match raw {
            RawModel::Exact => Model::Exact,
            RawModel::Pool => Model::Pool,
            RawModel::Buckets { adaptive } => {
                Model::Buckets(BucketsConfig { adaptive: adaptive.unwrap_or(false) })
            }
            RawModel::Buddy { least: None } => Model::Buddy(BuddyConfig::default()),
            RawModel::Buddy { least: Some(least) } => {
                let path = format!("{at}.least");
                let least = self.size(&path, least, 1, MOST_LEAST)?;
                if !least.get().is_power_of_two() {
                    let rule = "the smallest block is a power of two";
                    self.check.fault(&path, rule, "write such as b(512) or kib(4)");
                }
                Model::Buddy(BuddyConfig { least })
            }
            RawModel::Caching {
                expandable_segments,
                max_split,
                roundup_power2_divisions,
                garbage_collection_threshold,
                costs,
            } => {
                let costs = costs.as_ref().map(|costs| self.costs(&format!("{at}.costs"), costs));
                // PyTorch refuses less too: its segments of 20 MiB could not be split.
                let max_split = max_split.as_ref().and_then(|size| {
                    self.size(&format!("{at}.max_split"), size, LARGE_SEGMENT + 1, u64::MAX)
                });
                let divisions = roundup_power2_divisions.unwrap_or(0);
                if divisions != 0 && !(divisions.is_power_of_two() && divisions <= 1 << 16) {
                    let rule = "the number of divisions is 0 or a power of two up to 65536";
                    let path = format!("{at}.roundup_power2_divisions");
                    self.check.fault(&path, rule, "write such as 4 or 8");
                }
                let path = format!("{at}.garbage_collection_threshold");
                let threshold = garbage_collection_threshold.unwrap_or(0.0);
                let what = "`garbage_collection_threshold`";
                let threshold = self.check.number(&path, what, threshold, 0.0, 1.0);
                Model::Caching(CachingConfig {
                    expandable_segments: expandable_segments.unwrap_or(false),
                    max_split,
                    roundup_power2_divisions: divisions,
                    garbage_collection_threshold: threshold?,
                    costs: costs.unwrap_or(Costs::MEASURED),
                })
            }
        })
    }

    /// What is not written is as measured.
    fn costs(&mut self, at: &str, raw: &RawCosts) -> Costs {
        let mut cost = |name: &str, raw: &Option<Quantity<Duration>>, measured: Span| {
            let path = format!("{at}.{name}");
            let cost = raw.as_ref().and_then(|cost| cost.value(&mut self.check, &path, SETUP));
            cost.unwrap_or(measured)
        };
        Costs {
            hit: cost("hit", &raw.hit, Costs::MEASURED.hit),
            split: cost("split", &raw.split, Costs::MEASURED.split),
            take: cost("take", &raw.take, Costs::MEASURED.take),
            give: cost("give", &raw.give, Costs::MEASURED.give),
        }
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

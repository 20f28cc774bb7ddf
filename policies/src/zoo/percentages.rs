//! Weights, KV cache and activations each by percent of GPU, CPU and disk: FlexGen's six numbers.
//!
//! In a layer, objects of a group are taken in the order of the trace's table; one whose middle
//! lies below the disk's percent of the layer's bytes goes to disk, below disk and CPU together to
//! the CPU, and the others to the GPU. A layer is a block, the part of a module's name up to its
//! first number, or else the module. Gradients, optimizer state and master weights follow the
//! percentages of weights, each kind by itself; buffers stay in HBM. FlexGen splits caches and
//! activations inside a tensor; objects are not split here, so a layer of few objects is rounded
//! coarsely.
//! Source: Sheng et al., "FlexGen", ICML 2023, section 4.3, and its `init_weight_list`.
//! Invariant: the six numbers are percentages, and those of a group add up to at most 100.

pub mod search;
mod six;

use self::search::search;
pub use self::six::{Group, Six};
use crate::access::Access;
use crate::entry::{Entry, Fault, Kind, Parameter, Params};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::residents::spill_among;
use crate::static_placement::StaticPlacement;
use crate::visits::block;
use std::collections::BTreeMap;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, ObjectKind, Trace};

/// Room for rounding where percentages are added up.
const ROUNDING: f64 = 1e-9;

/// What whole objects come to may be so many points of per cent off what was asked for.
const MOST_MISSED: f64 = 10.0;

/// Parameters of `percentages`.
#[derive(Clone, Debug, PartialEq)]
pub struct PercentagesConfig {
    /// The six numbers; `None` to search for them.
    pub six: Option<Six>,
    /// Whether the parts of a block, such as attention and feed-forward, count as layers.
    pub sep_layer: bool,
    /// The tiers of the GPU, the CPU and the disk.
    pub tiers: [TierId; 3],
    /// How objects outside HBM are touched.
    pub access: Access,
}

const PERCENT: Kind = Kind::Number { least: 0.0, most: 100.0 };
/// The names of the six numbers, by group.
const NAMES: [[&str; 2]; 3] =
    [["weights_gpu", "weights_cpu"], ["cache_gpu", "cache_cpu"], ["act_gpu", "act_cpu"]];

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "Percentages",
    about: "weights, KV cache and activations by percent of GPU, CPU and disk, as in FlexGen",
    parameters: &[
        Parameter::optional(NAMES[0][0], PERCENT),
        Parameter::optional(NAMES[0][1], PERCENT),
        Parameter::optional(NAMES[1][0], PERCENT),
        Parameter::optional(NAMES[1][1], PERCENT),
        Parameter::optional(NAMES[2][0], PERCENT),
        Parameter::optional(NAMES[2][1], PERCENT),
        Parameter::optional("search", Kind::Flag),
        Parameter::optional("sep_layer", Kind::Flag),
        Parameter::optional("tiers", Kind::ThreeTiers),
        Parameter::optional("access", Kind::Access),
    ],
    make,
};

fn make(params: &Params) -> Result<PolicyConfig, Fault> {
    let tiers = params.tiers("tiers").try_into().expect("three tiers");
    let access = params.access("access");
    let written = NAMES.iter().flatten().find(|name| params.number(name).is_some());
    let six = match (params.flag("search"), written) {
        (Some(true), Some(name)) => {
            return Err(Fault {
                parameter: name,
                rule: "`search: true` finds the percentages itself".to_owned(),
                remedy: "leave out `search` or the percentages".to_owned(),
            });
        }
        (Some(true), None) => None,
        _ => Some(six(params)?),
    };
    let sep_layer = params.flag("sep_layer").unwrap_or(false);
    Ok(PercentagesConfig { six, sep_layer, tiers, access }.into())
}

/// What is left out is 100 for the GPU, or what the CPU leaves of it, and 0 for the CPU.
fn six(params: &Params) -> Result<Six, Fault> {
    let mut six = [[0.0; 2]; 3];
    for (numbers, [gpu, cpu]) in six.iter_mut().zip(NAMES) {
        let on_cpu = params.number(cpu).unwrap_or(0.0);
        *numbers = [params.number(gpu).unwrap_or(100.0 - on_cpu), on_cpu];
        if numbers[0] + numbers[1] > 100.0 + ROUNDING {
            return Err(Fault {
                parameter: cpu,
                rule: format!("`{gpu}` and `{cpu}` add up to more than 100"),
                remedy: "lower one of them; what both leave goes to disk".to_owned(),
            });
        }
    }
    Ok(Six(six))
}

impl Recipe for PercentagesConfig {
    fn name(&self) -> &'static str {
        "percentages"
    }

    fn has_homes_outside(&self) -> bool {
        self.six.is_none_or(|Six([weights, cache, _])| weights[0] < 100.0 || cache[0] < 100.0)
    }

    fn details(&self) -> String {
        let numbers = match &self.six {
            Some(Six(six)) => {
                let words: Vec<String> =
                    six.iter().map(|[gpu, cpu]| format!("{gpu}/{cpu}")).collect();
                words.join(" ")
            }
            None => "searched".to_owned(),
        };
        let by = if self.sep_layer { ", parts of blocks" } else { "" };
        format!("{numbers}{by}, {}", self.access)
    }

    fn knows_times(&self) -> bool {
        // Those that are searched for are the quickest.
        self.six.is_none()
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let six = self.six.unwrap_or_else(|| search(setting, &self.tiers, self.access));
        let homes = homes(trace, &six, self.sep_layer, &self.tiers);
        let placed = StaticPlacement::of_objects(self.name(), trace, homes, self.access)
            .spilling(&spill_among(self.tiers))
            .confined();
        let searched = self.six.is_none();
        Ok(Box::new(if searched { placed.foreseen() } else { placed }))
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }

    fn missed_share(&self, trace: &Trace) -> Option<String> {
        let Six(six) = self.six?;
        let homes = homes(trace, &Six(six), self.sep_layer, &self.tiers);
        let bytes = |group: Group, is_there: &dyn Fn(TierId) -> bool| -> f64 {
            let objects = trace.objects.iter().zip(&homes);
            let own = objects.filter(|(object, _)| Group::of(object.kind) == Some(group));
            own.filter(|(_, home)| is_there(**home)).map(|(own, _)| own.bytes.get() as f64).sum()
        };
        // Of weights FlexGen takes whole tensors too.
        [Group::Cache, Group::Activations].into_iter().find_map(|group| {
            let (names, asked) = (NAMES[group as usize], six[group as usize]);
            let all = bytes(group, &|_| true);
            let share = |at: usize| 100.0 * bytes(group, &|home| home == self.tiers[at]) / all;
            let is_missed = |&at: &usize| (asked[at] - share(at)).abs() > MOST_MISSED;
            let at = (0..names.len()).filter(|_| all > 0.0).find(is_missed)?;
            Some(format!("{}: {} comes to {:.0}", names[at], asked[at], share(at)))
        })
    }
}

/// The home of every object, by object id.
pub fn homes(trace: &Trace, six: &Six, sep_layer: bool, tiers: &[TierId; 3]) -> Vec<TierId> {
    let mut layers: BTreeMap<(ObjectKind, [&str; 2]), Vec<usize>> = BTreeMap::new();
    for (index, object) in trace.objects.iter().enumerate() {
        layers.entry((object.kind, layer(trace, object, sep_layer))).or_default().push(index);
    }
    let mut homes = vec![HBM; trace.objects.len()];
    for ((kind, _), objects) in layers {
        let Some(group) = Group::of(kind) else { continue };
        let bytes: Vec<Bytes> = objects.iter().map(|&index| trace.objects[index].bytes).collect();
        for (index, part) in objects.into_iter().zip(parts(&bytes, six.0[group as usize])) {
            homes[index] = tiers[part];
        }
    }
    homes
}

/// For each object of a layer, in order: 0 for the GPU, 1 for the CPU, 2 for the disk.
pub fn parts(bytes: &[Bytes], [gpu, cpu]: [f64; 2]) -> Vec<usize> {
    let total: u128 = bytes.iter().map(|bytes| u128::from(bytes.get())).sum();
    let disk = 100.0 - gpu - cpu;
    let mut before = 0u128;
    let part = |bytes: &Bytes| {
        let twice = 2 * before + u128::from(bytes.get());
        before += u128::from(bytes.get());
        let middle = 100.0 * twice as f64 / (2 * total).max(1) as f64;
        match () {
            () if middle < disk => 2,
            // Whatever is left over by rounding is the GPU's if it has a share at all.
            () if middle < disk + cpu || gpu <= 0.0 => 1,
            () => 0,
        }
    };
    bytes.iter().map(part).collect()
}

/// The layer of an object: its module's name up to the first number in it, and the part behind it if
/// parts count; or all of it.
fn layer<'t>(trace: &'t Trace, object: &Object, sep_layer: bool) -> [&'t str; 2] {
    let Some(module) = object.module else { return [""; 2] };
    let name = trace.modules[module.index()].as_str();
    let block = block(name);
    let behind = name[block.len()..].strip_prefix('.').filter(|_| sep_layer);
    [block, behind.map_or("", part)]
}

/// The part of a block that a module is in, by what the makers' code calls it: FlexGen's layers of
/// attention and of feed-forward have the norm before them, whose name need not say so.
fn part(module: &str) -> &str {
    match module.split('.').next().unwrap_or(module) {
        "self_attn"
        | "attn"
        | "self_attention"
        | "attention"
        | "self_attn_layer_norm"
        | "input_layernorm"
        | "ln_1" => "attention",
        "mlp"
        | "fc1"
        | "fc2"
        | "activation_fn"
        | "final_layer_norm"
        | "post_attention_layernorm"
        | "ln_2" => "feed-forward",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::ids::ModuleId;

    #[test]
    fn a_block_has_the_two_parts_of_flexgen_in_every_family() {
        let families = [
            ["self_attn_layer_norm", "self_attn.q_proj", "final_layer_norm", "fc1"],
            ["input_layernorm", "self_attn.k_norm", "post_attention_layernorm", "mlp.experts.3"],
            ["input_layernorm", "self_attention.dense", "post_attention_layernorm", "mlp"],
            ["ln_1", "attn.c_attn", "ln_2", "mlp.c_fc"],
        ];
        for names in families {
            let modules = names.map(|name| format!("model.layers.7.{name}").into()).to_vec();
            let (meta, objects, ops, uses) = Default::default();
            let trace = Trace { meta, modules, objects, ops, uses };
            let of = |index: usize, sep_layer| {
                let object = Object::new("o", ObjectKind::Weight, Bytes::new(1));
                let object = Object { module: Some(ModuleId::at(index)), ..object };
                layer(&trace, &object, sep_layer)
            };
            let (block, parts) = ("model.layers.7", ["attention", "feed-forward"]);
            for index in 0..4 {
                assert_eq!(of(index, true), [block, parts[index / 2]], "{}", names[index]);
                assert_eq!(of(index, false), [block, ""], "{}", names[index]);
            }
        }
    }
}

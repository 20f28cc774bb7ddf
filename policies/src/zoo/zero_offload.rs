//! ZeRO-Offload and ZeRO-Infinity: a home for each kind of model state.
//!
//! Optimizer state and master weights, parameters, gradients and activations live in the tier that
//! the policy names for them, all or a share of their bytes (twin-flow). What is at home elsewhere
//! is fetched a window of ops ahead, through prefetch_budget buffers of a stated size, and leaves
//! when no op within the window uses it: written back if it changed. Gradients live with the
//! optimizer, so they leave as soon as backward is done with them. Sources: Ren et al.,
//! "ZeRO-Offload", USENIX ATC 2021, arXiv:2101.06840; Rajbhandari et al., "ZeRO-Infinity", SC 2021,
//! arXiv:2104.07857; twin-flow: DeepSpeed, ZeRO-Offload++; the root: `fully_shard` of PyTorch 2.11,
//! whose root module has `reshard_after_forward` false unless it is said otherwise.
//! Invariant: all of a module's optimizer state has one home, and so have all of its parameters.

use crate::access::Access;
use crate::entry::{Entry, Fault, Kind, Parameter, Params};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::residents::spill_among;
use crate::static_placement::StaticPlacement;
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, TierKind};
use tiersim_models::ids::{ModuleId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, ObjectKind, Trace};

const NAME: &str = "zero-offload";

/// Parameters of `zero-offload`.
#[derive(Clone, Debug, PartialEq)]
pub struct ZeroOffloadConfig {
    /// Home of optimizer state and master weights.
    pub optimizer: TierId,
    /// Home of parameters.
    pub parameters: TierId,
    /// Home of gradients of offloaded optimizer state.
    pub gradients: TierId,
    /// Home of activations.
    pub activations: TierId,
    /// Share of the bytes of optimizer state that goes there, 0 to 1.
    pub optimizer_share: f64,
    /// Share of the bytes of parameters that goes there, 0 to 1.
    pub parameters_share: f64,
    /// How many ops ahead is fetched.
    pub prefetch_ops: u32,
    /// Bytes that may lie in HBM ahead of the op that uses them; `None` for as much as is free.
    pub prefetch_budget: Option<Bytes>,
    /// The tier in which what is fetched from beyond it is put together whole before it goes on;
    /// `None` where chunks of an object follow one another over the links.
    pub relay: Option<TierId>,
    /// Whether weights and gradients in no block, once in HBM, stay until the backward pass has
    /// ended.
    pub keep_root: bool,
    /// Where objects may go whose home is full, beside the tiers that are named as homes.
    pub spill: Vec<TierId>,
}

const SHARE: Kind = Kind::Number { least: 0.0, most: 1.0 };

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "ZeroOffload",
    about: "a home for each kind of model state, fetched a window ahead, as in ZeRO-Offload",
    parameters: &[
        Parameter::optional("optimizer", Kind::Tier),
        Parameter::optional("parameters", Kind::Tier),
        Parameter::optional("gradients", Kind::Tier),
        Parameter::optional("activations", Kind::Tier),
        Parameter::optional("optimizer_share", SHARE),
        Parameter::optional("parameters_share", SHARE),
        Parameter::optional("prefetch_ops", Kind::Count { least: 0, most: 65536 }),
        Parameter::optional("prefetch_budget", Kind::Size),
        Parameter::optional("relay", Kind::Tier),
        Parameter::optional("keep_root", Kind::Flag),
        Parameter::optional("spill", Kind::MoreTiers),
    ],
    make,
};

fn make(params: &Params) -> Result<PolicyConfig, Fault> {
    let home = |name| params.tier(name).unwrap_or(HBM);
    if params.tier("relay") == Some(HBM) {
        return Err(Fault {
            parameter: "relay",
            rule: "`relay` is a tier between HBM and the homes".to_owned(),
            remedy: "name the host's memory, or leave it out".to_owned(),
        });
    }
    let config = ZeroOffloadConfig {
        optimizer: home("optimizer"),
        parameters: home("parameters"),
        gradients: params.tier("gradients").unwrap_or_else(|| home("optimizer")),
        activations: home("activations"),
        optimizer_share: params.number("optimizer_share").unwrap_or(1.0),
        parameters_share: params.number("parameters_share").unwrap_or(1.0),
        prefetch_ops: params.count("prefetch_ops").unwrap_or(4) as u32,
        prefetch_budget: params.size("prefetch_budget"),
        relay: params.tier("relay"),
        keep_root: params.flag("keep_root").unwrap_or(false),
        spill: params.tiers("spill"),
    };
    Ok(config.into())
}

impl Recipe for ZeroOffloadConfig {
    fn name(&self) -> &'static str {
        NAME
    }

    fn has_homes_outside(&self) -> bool {
        self.parameters != HBM && self.parameters_share > 0.0
    }

    fn details(&self) -> String {
        let percent = |share: f64| match share {
            share if share < 1.0 => format!("{}% of ", (share * 1000.0).round() / 10.0),
            _ => String::new(),
        };
        let (optimizer, parameters) =
            (percent(self.optimizer_share), percent(self.parameters_share));
        let mut words = Vec::new();
        if self.optimizer != HBM {
            words.push(format!("{optimizer}optimizer"));
        }
        if self.parameters != HBM {
            words.push(format!("{parameters}parameters"));
        }
        if self.activations != HBM {
            words.push("activations".to_owned());
        }
        let what = if words.is_empty() { "nothing".to_owned() } else { words.join(" and ") };
        format!("{what} offloaded, {} ops ahead", self.prefetch_ops)
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let access = Access::Migrate { prefetch_ops: self.prefetch_ops };
        // Of several nodes of DRAM, which one an object gets is not said here.
        let tiers = &setting.hardware.tiers;
        let is_dram = |tier: &TierId| tiers[tier.index()].kind == TierKind::Dram;
        let nodes = setting.hardware.tier_ids().filter(is_dram).count();
        let homes = self.homes(trace);
        // The frameworks have no other place for what they do not offload.
        let kept = match self.spill.is_empty() {
            true => homes.iter().map(|&home| home == HBM).collect(),
            false => Vec::new(),
        };
        let placed = StaticPlacement::of_objects(NAME, trace, homes, access)
            .spilling(&self.tiers())
            .keeping(kept)
            .confined()
            .prefetch_budget(self.prefetch_budget.unwrap_or(Bytes::MAX))
            .relayed(self.relay.filter(|relay| nodes < 2 || !is_dram(relay)))
            .held(if self.keep_root { outside_blocks(trace) } else { Vec::new() });
        Ok(Box::new(placed))
    }

    fn keeps_to(&self) -> Option<Vec<TierId>> {
        Some(self.tiers())
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(ZeroOffloadConfig { spill, ..self.clone() }.into())
    }
}

/// Objects that have one home together: those of a module, or one without a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Module(ModuleId),
    Alone(usize),
}

impl Group {
    fn of((index, object): (usize, &Object)) -> Group {
        object.module.map_or(Group::Alone(index), Group::Module)
    }
}

impl ZeroOffloadConfig {
    /// The tiers outside HBM that it uses: those that are named. The frameworks have no way to any
    /// other.
    fn tiers(&self) -> Vec<TierId> {
        let homes = [self.optimizer, self.parameters, self.gradients, self.activations];
        let named = homes.into_iter().chain(self.relay).chain(self.spill.iter().copied());
        spill_among(named)
    }

    /// The home of every object, by object id.
    pub fn homes(&self, trace: &Trace) -> Vec<TierId> {
        use ObjectKind::{Activation, Buffer, Gradient, Kv, Master, Optimizer, State, Weight};
        let state = offloaded(trace, &[Optimizer, Master], self.optimizer_share);
        let weights = offloaded(trace, &[Weight], self.parameters_share);
        let home = |(index, object): (usize, &Object)| {
            let group = Group::of((index, object));
            // A gradient goes where it is used: what has no optimizer state of its own does so by
            // the share.
            let offloads = |groups: &BTreeMap<Group, bool>, share: f64| {
                groups.get(&group).copied().unwrap_or(share > 0.0)
            };
            let (home, goes) = match object.kind {
                Optimizer | Master => (self.optimizer, offloads(&state, self.optimizer_share)),
                Gradient => (self.gradients, offloads(&state, self.optimizer_share)),
                Weight => (self.parameters, offloads(&weights, self.parameters_share)),
                Activation => (self.activations, true),
                Kv | Buffer | State => (HBM, false),
            };
            if goes { home } else { HBM }
        };
        trace.objects.iter().enumerate().map(home).collect()
    }
}

/// By object: whether it is a weight or a gradient of what FSDP2 calls the root, what is in no
/// block.
fn outside_blocks(trace: &Trace) -> Vec<bool> {
    let is_outside = |module: ModuleId| {
        let mut parts = trace.modules[module.index()].split('.');
        !parts.any(|part| part.parse::<u64>().is_ok())
    };
    let of_root = |object: &Object| {
        let is_kept = matches!(object.kind, ObjectKind::Weight | ObjectKind::Gradient);
        is_kept && object.module.is_some_and(is_outside)
    };
    trace.objects.iter().map(of_root).collect()
}

/// Which groups go, so that the bytes of these kinds that go stay as near to the share as whole
/// groups can, from the first to each.
fn offloaded(trace: &Trace, kinds: &[ObjectKind], share: f64) -> BTreeMap<Group, bool> {
    let mut bytes: BTreeMap<Group, u128> = BTreeMap::new();
    let mut order = Vec::new();
    let objects = trace.objects.iter().enumerate();
    for (index, object) in objects.filter(|(_, object)| kinds.contains(&object.kind)) {
        let group = Group::of((index, object));
        if !bytes.contains_key(&group) {
            order.push(group);
        }
        *bytes.entry(group).or_default() += u128::from(object.bytes.get());
    }
    let (mut seen, mut gone) = (0u128, 0u128);
    let decide = |group: Group| {
        let own = bytes[&group];
        seen += own;
        let goes = gone as f64 + own as f64 / 2.0 <= share * seen as f64;
        gone += if goes { own } else { 0 };
        (group, goes)
    };
    order.into_iter().map(decide).collect()
}

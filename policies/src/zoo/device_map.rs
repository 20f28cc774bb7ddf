//! Modules placed as Hugging Face accelerate's `device_map="auto"` does: the first in HBM, the next
//! in host memory, the rest on disk.
//!
//! The order is the model's, room for the largest layer is kept, and a part of HBM is left to
//! whatever is not of the kinds that are placed ([`infer()`] has the rule). A module's size is what
//! it owns of these kinds for good; what it makes anew, such as gradients, follows it. One storage
//! is one object of a trace, so tied weights are in the module that owns them.
//! Source: accelerate 1.15.0; it leaves a tenth of the device free too when it is given no limits.
//! Invariant: what the map says of HBM is at most what it was given.

pub mod infer;

use self::infer::{Device, DeviceKind, Module, infer};
use crate::access::Access;
use crate::entry::{Entry, Fault, Kind, Parameter};
use crate::policy::Policy;
use crate::recipe::{Recipe, Setting};
use crate::residents::spill_among;
use crate::static_placement::StaticPlacement;
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, Memory};
use tiersim_models::ids::{ModuleId, ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Trace};

/// Parts of a module's name beyond this many count as one.
const MOST_DEPTH: usize = 32;

/// Parameters of `device-map`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceMapConfig {
    /// How much of the first tier the map may use.
    pub hbm: Limit,
    /// How much of the second; `None` for all that objects can have.
    pub cpu: Option<Bytes>,
    /// Whether blocks stay whole: modules whose name ends in a number.
    pub no_split: bool,
    /// The tiers of the GPU, the CPU and the disk.
    pub tiers: [TierId; 3],
    /// Kinds of a module's objects that are placed; all others stay in HBM.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

/// How much of a tier a map may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// So many bytes.
    Bytes(Bytes),
    /// All that objects can have there but for this share.
    Reserve(f64),
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "DeviceMap",
    about: "modules in order to HBM, host memory and disk, as Hugging Face accelerate's device_map",
    parameters: &[
        Parameter::optional("hbm", Kind::Size),
        Parameter::optional("cpu", Kind::Size),
        Parameter::optional("reserve", Kind::Number { least: 0.0, most: 1.0 }),
        Parameter::optional("no_split", Kind::Flag),
        Parameter::optional("tiers", Kind::ThreeTiers),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
    ],
    make: |params| {
        let hbm = match (params.size("hbm"), params.number("reserve")) {
            (Some(_), Some(_)) => {
                return Err(Fault {
                    parameter: "reserve",
                    rule: "`hbm` says how much the map may use, so nothing is reserved".to_owned(),
                    remedy: "leave out one of the two".to_owned(),
                });
            }
            (Some(bytes), None) => Limit::Bytes(bytes),
            (None, share) => Limit::Reserve(share.unwrap_or(0.1)),
        };
        let (cpu, no_split) = (params.size("cpu"), params.flag("no_split").unwrap_or(true));
        let tiers = params.tiers("tiers").try_into().expect("three tiers");
        let (kinds, access) = (params.kinds("kinds"), params.access("access"));
        Ok(DeviceMapConfig { hbm, cpu, no_split, tiers, kinds, access }.into())
    },
};

impl Recipe for DeviceMapConfig {
    fn name(&self) -> &'static str {
        "device-map"
    }

    fn has_homes_outside(&self) -> bool {
        true
    }

    fn details(&self) -> String {
        let hbm = match self.hbm {
            Limit::Bytes(bytes) => format!("hbm {bytes}"),
            Limit::Reserve(share) => format!("reserve {share}"),
        };
        let cpu = self.cpu.map_or(String::new(), |bytes| format!(", cpu {bytes}"));
        let blocks = if self.no_split { "blocks whole" } else { "blocks split" };
        format!("{hbm}{cpu}, {blocks}, {}", self.access)
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let homes = self.homes(&setting.workload.trace, setting.memory);
        let placed =
            StaticPlacement::of_objects(self.name(), &setting.workload.trace, homes, self.access);
        Ok(Box::new(placed.spilling(&spill_among(self.tiers)).confined()))
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }
}

impl DeviceMapConfig {
    /// The home of every object, by object id.
    pub fn homes(&self, trace: &Trace, memory: &Memory) -> Vec<TierId> {
        let all = |part: usize| memory.usable(self.tiers[part]).most();
        let gpu = match self.hbm {
            Limit::Bytes(bytes) => bytes.min(all(0)),
            Limit::Reserve(share) => Bytes::new((all(0).get() as f64 * (1.0 - share)) as u64),
        };
        let cpu = self.cpu.map_or(all(1), |bytes| bytes.min(all(1)));
        let device = |kind, bytes: Bytes| Device { kind, memory: bytes.get() };
        let devices = [
            device(DeviceKind::Gpu, gpu),
            device(DeviceKind::Cpu, cpu),
            device(DeviceKind::Disk, Bytes::ZERO),
        ];
        let model = self.model(trace);
        let map = infer(&model, &[], &devices);
        let objects = trace.objects.iter().enumerate();
        let home = |(index, object): (usize, &tiersim_models::workload::Object)| {
            let module = object.module.filter(|_| self.kinds.contains(&object.kind));
            let Some(module) = module else { return HBM };
            let path = path(&trace.modules[module.index()]);
            let own = format!("{path}.{}", tensor(ObjectId::at(index)));
            let found = lookup(&map, &own).or_else(|| below(&map, &path));
            self.tiers[found.unwrap_or(0)]
        };
        objects.map(home).collect()
    }

    /// The model that a trace tells of: its modules in the order in which the table of objects
    /// first names them, with the lasting objects of the kinds that are placed.
    pub fn model(&self, trace: &Trace) -> Module {
        let mut owned: Vec<Vec<(String, u64)>> = vec![Vec::new(); trace.modules.len()];
        let mut order: Vec<ModuleId> = Vec::new();
        for (index, object) in trace.objects.iter().enumerate().filter(|(_, o)| o.persistent) {
            let Some(module) = object.module.filter(|_| self.kinds.contains(&object.kind)) else {
                continue;
            };
            let tensors = &mut owned[module.index()];
            if tensors.is_empty() {
                order.push(module);
            }
            tensors.push((tensor(ObjectId::at(index)), object.bytes.get()));
        }
        let mut model = Module::default();
        for module in order {
            let mut at = &mut model;
            for part in path(&trace.modules[module.index()]).split('.') {
                let known = at.children.iter().position(|child| child.name == part);
                let index = known.unwrap_or_else(|| {
                    let whole = self.no_split && part.parse::<u64>().is_ok();
                    let (name, tensors, children) = (part.to_owned(), Vec::new(), Vec::new());
                    at.children.push(Module { name, whole, tensors, children });
                    at.children.len() - 1
                });
                at = &mut at.children[index];
            }
            at.tensors.append(&mut owned[module.index()]);
        }
        model
    }
}

/// What an object is called in the model: names of objects need not be those of tensors.
fn tensor(object: ObjectId) -> String {
    format!("#{}", object.0)
}

/// A module's name, without levels beyond the deepest that is told apart.
fn path(module: &str) -> String {
    let parts: Vec<&str> = module.splitn(MOST_DEPTH, '.').collect();
    let last = parts.len() - 1;
    let deep = parts[last].replace('.', "/");
    parts[..last].iter().copied().chain([deep.as_str()]).collect::<Vec<_>>().join(".")
}

/// The device of what is called `name`: its own entry or that of what it is in.
fn lookup(map: &BTreeMap<String, usize>, name: &str) -> Option<usize> {
    let mut name = name;
    loop {
        if let Some(device) = map.get(name) {
            return Some(*device);
        }
        name = match name.rsplit_once('.') {
            Some((above, _)) => above,
            None if name.is_empty() => return None,
            None => "",
        };
    }
}

/// The device of the first entry below a module.
fn below(map: &BTreeMap<String, usize>, module: &str) -> Option<usize> {
    let prefix = format!("{module}.");
    let (name, device) = map.range(prefix.clone()..).next()?;
    name.starts_with(&prefix).then_some(*device)
}

//! Which module each item works for.
//!
//! A profiler with `with_stack` and `with_modules` records calls of `nn.Module`; a module is named by
//! those that it lies in, outermost first. Without them ranges that the program named stand for
//! modules. What runs backward works for the module of what ran forward for it.
//! Invariant: a name is at most as long as a trace allows.

use super::host::{Host, NOWHERE, Sequences};
use super::items::Item;
use super::tables::{Kind, Tables};
use crate::import::names::cut;
use std::collections::BTreeMap;
use tiersim_models::ids::ModuleId;
use tiersim_models::workload::Name;

/// Where modules come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Calls,
    Ranges,
    Nothing,
}

/// Modules by item.
#[derive(Debug)]
pub(super) struct Modules {
    pub(super) names: Vec<Name>,
    pub(super) of: Vec<Option<ModuleId>>,
    pub(super) from: From,
}

impl Modules {
    pub(super) fn new(
        tables: &Tables,
        host: &Host,
        sequences: &Sequences,
        items: &[Item],
    ) -> Modules {
        let is = |kind: Kind| tables.ranges.iter().any(|range| range.kind == kind);
        let (kind, from) = match (is(Kind::Module), is(Kind::Label)) {
            (true, _) => (Kind::Module, From::Calls),
            (_, true) => (Kind::Label, From::Ranges),
            _ => (Kind::Module, From::Nothing),
        };
        let mut modules = Modules { names: Vec::new(), of: Vec::new(), from };
        let paths = modules.paths(tables, host, kind);
        let path = |range: u32| {
            let within = host.of(range);
            let innermost = if kind == Kind::Module { within.module } else { within.label };
            paths.get(innermost as usize).copied().flatten()
        };
        let of = |item: &Item| {
            let node = host.of(item.range).node;
            let forward = || sequences.forward(tables.ranges.get(node as usize)?);
            path(item.range).or_else(|| path(forward()?))
        };
        modules.of = items.iter().map(of).collect();
        if modules.of.iter().all(Option::is_none) {
            (modules.names, modules.from) = (Vec::new(), From::Nothing);
        }
        modules
    }

    /// By range: the module that it is.
    fn paths(&mut self, tables: &Tables, host: &Host, kind: Kind) -> Vec<Option<ModuleId>> {
        let mut ids: BTreeMap<String, ModuleId> = BTreeMap::new();
        let mut paths = vec![None; tables.ranges.len()];
        // Outer ranges come first.
        for &id in &host.order {
            let range = &tables.ranges[id as usize];
            let name = tables.names.get(range.name);
            if range.kind != kind || (kind == Kind::Label && is_no_module(name)) {
                continue;
            }
            let outside = host.of(host.of(id).parent);
            let outer = if kind == Kind::Module { outside.module } else { outside.label };
            let outer: Option<ModuleId> = match outer {
                NOWHERE => None,
                outer => paths[outer as usize],
            };
            let mut path = match outer {
                Some(outer) => format!("{}.{name}", self.names[outer.index()]),
                None => name.to_owned(),
            };
            path.truncate(cut(&path).len());
            let next = ModuleId::at(self.names.len());
            let module = *ids.entry(path.clone()).or_insert(next);
            if module == next {
                self.names.push(path.into());
            }
            paths[id as usize] = Some(module);
        }
        paths
    }
}

/// Ranges of PyTorch itself that stand for no module.
fn is_no_module(name: &str) -> bool {
    ["nccl:", "enumerate(", "Optimizer.", "record_param_comms", "c10d::", "Torch-Compiled"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

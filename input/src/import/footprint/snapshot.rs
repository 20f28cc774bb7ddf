//! The footprint of a CUDA memory snapshot: blocks by the address that they were given at.
//!
//! An entry's size is what was asked for, and so are the sizes of objects here: what the allocator
//! adds to it is for `tiersim allocator` to say. A block that is there at the end and that no entry
//! gave was there before the first entry, as was one that an entry takes back and none gave: a
//! history is a ring, and its oldest entries are lost. Where the file has the history alone, what
//! was there before and stays is not in it.
//! Invariant: an address is of one object at a time.

use super::build::{Event, Footprint};
use super::{Account, Imported};
use crate::import::profiler::day;
use crate::import::snapshot::{Action, Device, Role, Snapshot, What, read_snapshot};
use crate::trace::tables::{Findings, unpacked_name};
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{ObjectKind, Phase, Recorded, TraceMeta};

/// Bytes of a file that an entry takes at least, in files as PyTorch writes them.
const BYTES_PER_ENTRY: usize = 50;

/// Makes a trace of a device of a snapshot: of `wanted`, or else of the one that has the longest
/// history.
///
/// # Errors
/// What is wrong with the file, or that the device has no history.
pub fn import_snapshot(path: &Path, wanted: Option<u32>) -> Result<Imported, Diagnostics> {
    let snapshot = read_snapshot(path)?;
    let device = chosen(path, &snapshot, wanted)?;
    let others = snapshot.devices.iter().filter(|one| one.number != device.number);
    let others = others.filter(|one| !one.actions.is_empty());
    let others = others.map(|one| (one.number as u64, one.actions.len() as u64));
    let mut taking = Taking::new(&snapshot, device);
    if let Err(rule) = taking.all() {
        let remedy = "record fewer entries (max_entries), or check what wrote the file";
        return Err(Diagnostics::one(path, None, rule, "", remedy));
    }
    let mut footprint = taking.footprint;
    if footprint.count() == 0 {
        let rule = format!("device {} has blocks that were given", device.number);
        let remedy = "record while the program asks for memory";
        return Err(Diagnostics::one(path, None, rule, "none", remedy));
    }
    footprint.account = Account {
        rows: device.actions.len() as u64,
        rows_are: "entries",
        device: format!("device {}", device.number),
        others: others.collect(),
        has_segments: snapshot.has_segments,
        kinds_by: "where the program asked for it, and where it gave it back",
        pairs_by: "by address",
        ..footprint.account
    };
    let first = device.actions.iter().find_map(|action| action.time_us).unwrap_or(0);
    let (trace, account) = footprint.finish(meta(path, device, first));
    let mut findings = Findings::default();
    findings.unsound(path, &trace);
    findings.finish().into_result(Imported { trace, account })
}

/// The device that is meant.
fn chosen<'s>(
    path: &Path,
    snapshot: &'s Snapshot,
    wanted: Option<u32>,
) -> Result<&'s Device, Diagnostics> {
    let there = || snapshot.devices.iter().filter(|device| !device.actions.is_empty());
    let of = |number: u32| there().find(|device| device.number == number as usize);
    let found = match wanted {
        Some(number) => of(number),
        None => there().rev().max_by_key(|device| device.actions.len()),
    };
    found.ok_or_else(|| {
        let numbers: Vec<String> = there().take(16).map(|one| one.number.to_string()).collect();
        let (rule, found, remedy) = match (wanted, numbers.is_empty()) {
            (Some(number), false) => (
                format!("device {number} has a history"),
                format!("none in device_traces; devices {} have", numbers.join(", ")),
                "name one of these with --device",
            ),
            _ => (
                "a device has a history".to_owned(),
                "none in device_traces".to_owned(),
                "call torch.cuda.memory._record_memory_history() before the first tensor",
            ),
        };
        Diagnostics::one(path, None, rule, found, remedy)
    })
}

fn meta(path: &Path, device: &Device, first: u64) -> TraceMeta {
    let name = unpacked_name(path);
    let name = name.trim_end_matches(".pickle").trim_end_matches(".json");
    let name = if name.is_empty() { "snapshot" } else { name };
    let about = "Imported from a CUDA memory snapshot: objects, sizes as asked for, lifetimes and where they \
                 were made. Ops are events of the host, and durations are the host's."
        .to_owned();
    let recorded = Recorded {
        how: "torch.cuda.memory._dump_snapshot".to_owned(),
        when: day(i128::from(first) * 1_000_000).unwrap_or_default(),
        on: format!("device {}", device.number),
    };
    let (batch, sequence, precision) = (1, 1, "recorded".to_owned());
    TraceMeta { name: name.to_owned(), about, precision, batch, sequence, recorded }
}

struct Taking<'a> {
    snapshot: &'a Snapshot,
    device: &'a Device,
    footprint: Footprint,
    /// The object at each address, and whether the program has given it back.
    live: BTreeMap<u64, (u32, bool)>,
    /// By object: what was at work when it was made.
    roles: Vec<Role>,
}

impl<'a> Taking<'a> {
    fn new(snapshot: &'a Snapshot, device: &'a Device) -> Taking<'a> {
        let (footprint, live, roles) = Default::default();
        Taking { snapshot, device, footprint, live, roles }
    }

    fn all(&mut self) -> Result<(), String> {
        self.footprint.read(self.device.actions.len() * BYTES_PER_ENTRY)?;
        self.begin()?;
        for action in &self.device.actions {
            self.take(action)?;
        }
        let left: Vec<u32> = self.live.values().map(|&(id, _)| id).collect();
        for id in left {
            self.settle(id, None);
        }
        Ok(())
    }

    /// What was there before the first entry.
    fn begin(&mut self) -> Result<(), String> {
        // With whether only what takes it back shows it.
        let mut now: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        for block in self.device.segments.iter().flat_map(|segment| &segment.used) {
            now.insert(block.at, (block.requested.max(1), false));
        }
        for action in self.device.actions.iter().rev() {
            match action.what {
                What::Alloc => drop(now.remove(&action.at)),
                What::FreeCompleted => drop(now.insert(action.at, (action.bytes.max(1), true))),
                // It is given back, and a stream was still at work on it when the file was written.
                What::FreeRequested => {
                    now.entry(action.at).or_insert((action.bytes.max(1), true));
                }
                _ => {}
            }
        }
        for (at, (bytes, taken_back)) in now {
            if taken_back {
                self.footprint.account.only_taken_back += 1;
            }
            let id = self.footprint.before("memory", ObjectKind::State, bytes)?;
            self.live.insert(at, (id, false));
            self.roles.push(Role::Unknown);
        }
        Ok(())
    }

    fn take(&mut self, action: &Action) -> Result<(), String> {
        let site = self.snapshot.site(action);
        let (role, phase) = (site.role, phase(site.role));
        let unit_ps = 1_000_000;
        let event = |name| Event { name, phase, at: action.time_us, unit_ps };
        match action.what {
            What::Alloc if action.bytes == 0 => self.footprint.account.empty += 1,
            What::Alloc => {
                if let Some((lost, _)) = self.live.remove(&action.at) {
                    // That it was freed is not in the file, but its address is given again.
                    self.footprint.account.contradictions += 1;
                    self.footprint.freed(lost);
                    self.settle(lost, None);
                }
                let name = format!("alloc {}", site.name);
                let named = (site.name.as_str(), ObjectKind::Buffer);
                let id = self.footprint.made(&event(&shortened(&name)), named, action.bytes)?;
                self.live.insert(action.at, (id, false));
                self.roles.push(role);
            }
            What::FreeRequested => match self.live.get_mut(&action.at) {
                Some((id, given_back)) if !*given_back => {
                    *given_back = true;
                    let (id, name) = (*id, format!("free {}", site.name));
                    self.footprint.given_back(&event(&shortened(&name)), id)?;
                    self.settle(id, Some(role));
                }
                _ => self.footprint.account.contradictions += 1,
            },
            What::FreeCompleted => match self.live.remove(&action.at) {
                Some((id, given_back)) => {
                    if !given_back {
                        // That it was asked for is lost with the oldest entries.
                        let name = format!("free {}", site.name);
                        self.footprint.given_back(&event(&shortened(&name)), id)?;
                        self.settle(id, Some(role));
                    }
                    self.footprint.freed(id);
                }
                None => self.footprint.account.contradictions += 1,
            },
            What::Grow | What::Release | What::OutOfMemory | What::Mark => {}
        }
        Ok(())
    }

    /// What an object is, by who made it and who gave it back, if anybody did.
    fn settle(&mut self, id: u32, ended: Option<Role>) {
        if self.footprint.kind(id) == ObjectKind::State {
            return;
        }
        let kind = match (self.roles[id as usize], ended) {
            (Role::Module, _) => ObjectKind::Weight,
            (Role::Optimizer, None) => ObjectKind::Optimizer,
            (Role::Backward, None | Some(Role::Optimizer | Role::Module)) => ObjectKind::Gradient,
            (Role::Forward, Some(Role::Backward)) => ObjectKind::Activation,
            _ => ObjectKind::Buffer,
        };
        self.footprint.is_of(id, kind);
    }
}

fn shortened(name: &str) -> String {
    crate::import::names::cut(name).to_owned()
}

fn phase(role: Role) -> Phase {
    match role {
        Role::Forward => Phase::Forward,
        Role::Backward => Phase::Backward,
        Role::Optimizer => Phase::Optimizer,
        Role::Module | Role::Unknown => Phase::Other,
    }
}

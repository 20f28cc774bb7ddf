//! Which device each module of a model goes to: Hugging Face accelerate's `infer_auto_device_map`.
//!
//! Modules go in their order to the first device with room and never back to an earlier one. A
//! module that does not fit is split into its tensors and children unless it must stay whole. The
//! first GPU and the CPU keep room for the largest layer that is still to be placed: it has to
//! visit. Modules that share a tensor go together. In the end modules whose parts are all on one
//! device are named as a whole.
//! Source: accelerate 1.15.0, `utils/modeling.py` (Apache-2.0), whose behaviour this repeats
//! without its code, also where names are compared as text.
//! Invariant: every tensor is on one device, and every device but the last stays within its memory.

use std::collections::BTreeMap;

/// A module of a model, with what it owns, in the order of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// The last part of its name; that of the model itself is empty.
    pub name: String,
    /// Whether it must not be split.
    pub whole: bool,
    /// Its own tensors: name and bytes.
    pub tensors: Vec<(String, u64)>,
    /// The modules in it.
    pub children: Vec<Module>,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Computes. The first one keeps room for the largest layer.
    Gpu,
    /// Host memory; keeps room for the largest layer.
    Cpu,
    /// Without limit.
    Disk,
}

/// A device and how much of it the model may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Bytes; those of a disk do not matter.
    pub memory: u64,
}

/// The position in `devices` of the device of every module or tensor that is placed as one, by its
/// full name; all that is below goes there too. `""` is the whole model.
///
/// `tied`: groups of full names of tensors that are one. What fits nowhere goes to the disk;
/// without a disk in the list one comes after the last device.
pub fn infer(model: &Module, tied: &[Vec<String>], devices: &[Device]) -> BTreeMap<String, usize> {
    let mut devices = devices.to_vec();
    if devices.iter().all(|device| device.kind != DeviceKind::Disk) {
        devices.push(Device { kind: DeviceKind::Disk, memory: 0 });
    }
    let mut sizes = BTreeMap::new();
    measure(model, "", tied, &mut Vec::new(), &mut sizes);
    let mut queue = parts(model, "");
    queue.reverse();
    let mut placing =
        Placing { sizes, tied, queue, map: BTreeMap::new(), layers: Layers::default() };
    placing.find_layers(true);
    placing.place(&devices);
    let mut map = placing.map;
    join(&mut map, "");
    map
}

/// Something to be placed.
#[derive(Clone, Debug)]
struct Item<'m> {
    /// Its full name.
    name: String,
    /// `None` for a tensor.
    module: Option<&'m Module>,
}

impl<'m> Item<'m> {
    /// The module, if it may be split.
    fn splits(&self) -> Option<&'m Module> {
        self.module.filter(|module| !module.whole && !module.children.is_empty())
    }
}

/// The full name of what is called `name` in the module `prefix`.
fn full(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// The tensors and children of a module.
fn parts<'m>(module: &'m Module, prefix: &str) -> Vec<Item<'m>> {
    let tensors =
        module.tensors.iter().map(|(name, _)| Item { name: full(prefix, name), module: None });
    let children = module.children.iter();
    tensors
        .chain(children.map(|child| Item { name: full(prefix, &child.name), module: Some(child) }))
        .collect()
}

/// Bytes by full name. A tensor that is tied to one before it counts as nothing.
fn measure(
    module: &Module,
    name: &str,
    tied: &[Vec<String>],
    seen: &mut Vec<usize>,
    sizes: &mut BTreeMap<String, u64>,
) -> u64 {
    let mut sum = 0;
    for (tensor, bytes) in &module.tensors {
        let tensor = full(name, tensor);
        let group = tied.iter().position(|group| group.contains(&tensor));
        let counted = group.is_none_or(|group| !seen.contains(&group));
        seen.extend(group);
        let bytes = if counted { *bytes } else { 0 };
        sizes.insert(tensor, bytes);
        sum += bytes;
    }
    for child in &module.children {
        sum += measure(child, &full(name, &child.name), tied, seen, sizes);
    }
    sizes.insert(name.to_owned(), sum);
    sum
}

/// The largest layers that are still to be placed.
#[derive(Debug, Default)]
struct Layers {
    bytes: u64,
    names: Vec<String>,
}

/// The state of a placement.
struct Placing<'m> {
    sizes: BTreeMap<String, u64>,
    tied: &'m [Vec<String>],
    /// What is to be placed, the next one last.
    queue: Vec<Item<'m>>,
    map: BTreeMap<String, usize>,
    layers: Layers,
}

/// What has to be on the device of a module because of shared tensors.
struct Ties {
    /// Shared tensors outside the module.
    tensors: Vec<String>,
    /// What they are in, as it stands in the queue: one for each tensor.
    holders: Vec<String>,
    /// Bytes of the module and of the holders.
    bytes: u64,
}

impl<'m> Placing<'m> {
    fn place(&mut self, devices: &[Device]) {
        let first_gpu = devices.iter().position(|device| device.kind == DeviceKind::Gpu);
        let (mut device, mut used) = (0, 0i128);
        while let Some(item) = self.queue.pop() {
            let below = format!("{}.", item.name);
            self.layers.names.retain(|name| *name != item.name && !name.starts_with(&below));
            if self.layers.names.is_empty() {
                self.find_layers(false);
            }
            let keeps = Some(device) == first_gpu || devices[device].kind == DeviceKind::Cpu;
            let kept = if keeps { i128::from(self.layers.bytes) } else { 0 };
            let free = match devices[device].kind {
                DeviceKind::Disk => i128::MAX,
                _ => i128::from(devices[device].memory) - kept - used,
            };
            let ties = self.ties(&item.name);
            if i128::from(ties.bytes) <= free {
                used += i128::from(ties.bytes);
                self.queue.retain(|other| !ties.holders.contains(&other.name));
                for name in ties.holders.into_iter().chain([item.name]) {
                    self.map.insert(name, device);
                }
                continue;
            }
            let alone = i128::from(self.sizes[&item.name]);
            if !ties.tensors.is_empty() && alone <= free && self.split_holder(&ties, &item) {
                continue;
            }
            if alone >= free
                && let Some(module) = item.splits()
            {
                self.queue.extend(parts(module, &item.name).into_iter().rev());
                self.find_layers(false);
                continue;
            }
            self.queue.push(item);
            (device, used) = (device + 1, 0);
        }
    }

    /// The largest layers of the queue: modules without children, and those that stay whole; at the
    /// start of all also the tensors that the model itself owns.
    fn find_layers(&mut self, tensors: bool) {
        self.layers = Layers::default();
        let mut stack: Vec<Item<'_>> = self.queue.clone();
        stack.retain(|item| item.module.is_some() || tensors);
        while let Some(item) = stack.pop() {
            if let Some(module) = item.splits() {
                let children = parts(module, &item.name).into_iter().rev();
                stack.extend(children.filter(|part| part.module.is_some()));
                continue;
            }
            let bytes = self.sizes[&item.name];
            if bytes > self.layers.bytes {
                self.layers = Layers { bytes, names: vec![item.name] };
            } else if bytes == self.layers.bytes {
                self.layers.names.push(item.name);
            }
        }
    }

    /// What must come along. A group counts if one of its names contains the module's name followed
    /// by a dot and another does not: the source compares so.
    fn ties(&self, name: &str) -> Ties {
        let below = format!("{name}.");
        let inside = |tensor: &&String| format!("{tensor}.").contains(&below);
        let mut ties = Ties { tensors: Vec::new(), holders: Vec::new(), bytes: self.sizes[name] };
        for group in self.tied.iter().filter(|group| group.iter().any(|t| inside(&t))) {
            for tensor in group.iter().filter(|tensor| !inside(tensor)) {
                let holds = |item: &&Item<'_>| {
                    *tensor == item.name || tensor.starts_with(&format!("{}.", item.name))
                };
                // One that is placed already has its device.
                let Some(holder) = self.queue.iter().rev().find(holds) else { continue };
                ties.bytes += self.sizes[&holder.name] - self.sizes[tensor];
                ties.tensors.push(tensor.clone());
                ties.holders.push(holder.name.clone());
            }
        }
        ties
    }

    /// Splits the first holder of a shared tensor that may be split, and puts the module back.
    fn split_holder(&mut self, ties: &Ties, item: &Item<'m>) -> bool {
        let split = ties.holders.iter().find_map(|holder| {
            let at = self.queue.iter().position(|other| other.name == *holder)?;
            Some((at, self.queue[at].splits()?))
        });
        let Some((at, module)) = split else { return false };
        let name = self.queue[at].name.clone();
        self.queue.splice(at..=at, parts(module, &name).into_iter().rev());
        self.queue.push(item.clone());
        self.find_layers(false);
        true
    }
}

/// Names a module as a whole where all of it is on one device.
fn join(map: &mut BTreeMap<String, usize>, module: &str) {
    let prefix = if module.is_empty() { String::new() } else { format!("{module}.") };
    let below = |map: &BTreeMap<String, usize>| -> Vec<(String, usize)> {
        let parts = map.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        parts.map(|(name, device)| (name.clone(), *device)).collect()
    };
    let parts = below(map);
    if parts.len() > 1 && parts.iter().all(|(_, device)| *device == parts[0].1) {
        for (name, _) in &parts {
            map.remove(name);
        }
        map.insert(module.to_owned(), parts[0].1);
    }
    let depth = if module.is_empty() { 1 } else { module.split('.').count() + 1 };
    let mut children: Vec<String> = below(map)
        .into_iter()
        .filter(|(name, _)| name.len() > module.len())
        .map(|(name, _)| name.split('.').take(depth).collect::<Vec<_>>().join("."))
        .collect();
    children.dedup();
    for child in children {
        join(map, &child);
    }
}

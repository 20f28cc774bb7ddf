//! What Linux writes about the nodes of memory and about who sits next to them.
//!
//! Everything is read below a root, so that a copy of another machine's `/sys` is read as it is.
//! Invariant: nothing is guessed: a file that is missing leaves out what it would say, and one that
//! does not say what such files say is a problem with its path.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_models::results::calibration::{HostDevice, HostNode};
use tiersim_models::units::{Bandwidth, Bytes, Span};

/// Most nodes and cores that are believed: more is a file that says something else.
const MOST: u32 = 1 << 16;
/// Makers of the graphics of a host's own management controller, which computes nothing: ASPEED,
/// Matrox.
const CONSOLES: [&str; 2] = ["0x1a03", "0x102b"];

/// The nodes of a host, by rising number, and the devices that compute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Every node that is online.
    pub nodes: Vec<Numa>,
    /// Display controllers and accelerators on the PCI bus, by address.
    pub devices: Vec<HostDevice>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numa {
    /// Its number, as the system has it.
    pub id: u32,
    /// Its cores; none for memory that hangs on another node, such as a CXL expander's.
    pub cores: Vec<u32>,
    /// Its memory; none for a node of cores alone.
    pub memory: Bytes,
    /// To every node of the list, in its order: 10 to itself, more to others.
    pub distances: Vec<u32>,
    /// What the firmware says of accesses from the nodes that are nearest to it.
    pub firmware: Option<Firmware>,
}

/// A row of the firmware's table of memory (ACPI HMAT), as the system gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// Numbers of the nodes whose accesses it is about.
    pub from: Vec<u32>,
    /// Latency of a read.
    pub latency: Span,
    /// Rates of reads and of writes.
    pub rates: [Bandwidth; 2],
}

impl Topology {
    /// Position of a node in the list.
    pub fn position(&self, id: u32) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    /// Position of the node that a device sits at: that of the PCI address, else of the first
    /// device that says its node, else the first node with cores.
    pub fn near(&self, address: Option<&str>) -> Option<usize> {
        let of = |device: &HostDevice| device.node.and_then(|id| self.position(id));
        let named = |device: &&HostDevice| Some(device.address.as_str()) == address;
        let named = self.devices.iter().find(named).and_then(of);
        let first = || self.devices.iter().find_map(of);
        let cores = || self.nodes.iter().position(|node| !node.cores.is_empty());
        named.or_else(first).or_else(cores)
    }

    /// What reports see of it.
    pub fn told(&self) -> Vec<HostNode> {
        let told = |node: &Numa| HostNode {
            id: node.id,
            cores: node.cores.len(),
            memory: node.memory,
            distances: node.distances.clone(),
            devices: self.devices.iter().filter(|d| d.node == Some(node.id)).cloned().collect(),
        };
        self.nodes.iter().map(told).collect()
    }
}

/// The nodes below a root, such as `/`; none where the system does not say.
///
/// Errors in words, with the file, where one does not say what such a file says.
pub fn read(root: &Path) -> Result<Topology, String> {
    let folder = root.join("sys/devices/system/node");
    let mut ids: Vec<u32> = names(&folder)
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .filter(|id| *id < MOST)
        .collect();
    ids.sort_unstable();
    // Distances are listed in the order of the nodes that are online.
    let nodes: Vec<Numa> = ids
        .iter()
        .map(|&id| numa(&folder.join(format!("node{id}")), id))
        .collect::<Result<_, _>>()?;
    for node in &nodes {
        if node.distances.len() != nodes.len() {
            let file = folder.join(format!("node{}/distance", node.id));
            return Err(format!(
                "{}: {} distances, and there are {} nodes; copy the whole folder",
                file.display(),
                node.distances.len(),
                nodes.len()
            ));
        }
    }
    Ok(Topology { nodes, devices: devices(&root.join("sys/bus/pci/devices"))? })
}

fn numa(folder: &Path, id: u32) -> Result<Numa, String> {
    let cores = match text(&folder.join("cpulist")) {
        Some((file, text)) => list(&text).ok_or_else(|| wrong(&file, &text, "0-3,8"))?,
        None => Vec::new(),
    };
    let memory = match text(&folder.join("meminfo")) {
        Some((file, text)) => total(&text).ok_or_else(|| wrong(&file, "", "MemTotal: 1024 kB"))?,
        None => Bytes::ZERO,
    };
    let distances = match text(&folder.join("distance")) {
        Some((file, text)) => {
            let all = text.split_whitespace().map(|word| word.parse().ok().filter(|d| *d >= 10));
            all.collect::<Option<_>>().ok_or_else(|| wrong(&file, &text, "10 21"))?
        }
        None => Vec::new(),
    };
    Ok(Numa { id, cores, memory, distances, firmware: firmware(folder)? })
}

/// The firmware's row of the nearest accesses.
fn firmware(folder: &Path) -> Result<Option<Firmware>, String> {
    let folder = folder.join("access0/initiators");
    let number = |name: &str| -> Result<Option<u64>, String> {
        let Some((file, text)) = text(&folder.join(name)) else { return Ok(None) };
        let number = text.parse::<u64>().ok().filter(|number| *number < 1 << 40);
        // What is not known stands as 0.
        number
            .map(|number| Some(number).filter(|n| *n > 0))
            .ok_or_else(|| wrong(&file, &text, "90"))
    };
    let (latency, read, write) =
        (number("read_latency")?, number("read_bandwidth")?, number("write_bandwidth")?);
    let (Some(latency), Some(read)) = (latency, read) else { return Ok(None) };
    // In nanoseconds and in MB/s: Documentation/admin-guide/mm/numaperf.rst.
    let rate = |mb: u64| Bandwidth::new(mb * 1_000_000).expect("above zero");
    let from = names(&folder);
    let from = from.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    let rates = [rate(read), rate(write.unwrap_or(read))];
    Ok(Some(Firmware { from, latency: Span::from_ps(latency * 1000), rates }))
}

/// Controllers of class 03 (display) and 12 (processing accelerators).
fn devices(folder: &Path) -> Result<Vec<HostDevice>, String> {
    let mut found = Vec::new();
    for address in names(folder) {
        let word = |name: &str| text(&folder.join(&address).join(name)).map(|(_, text)| text);
        let Some(class) = word("class") else { continue };
        let computes = class.starts_with("0x03") || class.starts_with("0x12");
        let (vendor, device) = (word("vendor").unwrap_or_default(), word("device"));
        if !computes || CONSOLES.contains(&vendor.as_str()) {
            continue;
        }
        let node = match text(&folder.join(&address).join("numa_node")) {
            // -1 where the firmware does not say.
            Some((file, text)) => match text.parse::<i64>() {
                Ok(node) => u32::try_from(node).ok(),
                Err(_) => return Err(wrong(&file, &text, "1")),
            },
            None => None,
        };
        let plain = |id: &str| id.trim_start_matches("0x").to_owned();
        let mut what = plain(&vendor);
        let _ = write!(what, ":{}", device.map(|id| plain(&id)).unwrap_or_default());
        found.push(HostDevice { address, what, node });
    }
    Ok(found)
}

/// The names in a folder, sorted; none where there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// A file's text without the blanks around it; `None` where it cannot be read.
fn text(file: &Path) -> Option<(PathBuf, String)> {
    let text = fs::read_to_string(file).ok()?;
    Some((file.to_owned(), text.trim().to_owned()))
}

fn wrong(file: &Path, found: &str, like: &str) -> String {
    let found: String = found.chars().take(40).collect();
    format!("{}: {found:?} is not what such a file says, as {like:?}", file.display())
}

/// `0-3,8` in full.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// `Node 0 MemTotal:  131072 kB`
fn total(text: &str) -> Option<Bytes> {
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let (_, value) = line.split_once(':')?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10).map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_in_full() {
        assert_eq!(list("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(list(""), Some(Vec::new()));
        for wrong in ["3-0", "x", "0-", "0-4294967295", "99999999999"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn memory_is_in_kib() {
        assert_eq!(total("Node 0 MemTotal:   2048 kB\nNode 0 MemFree: 1 kB"), Some(Bytes::mib(2)));
        assert_eq!(total("MemTotal: 99999999999999999999 kB"), None);
        assert_eq!(total("nothing"), None);
    }

    #[test]
    fn this_host_reads_as_it_is() {
        let here = read(Path::new("/")).expect("files of the kernel");
        let cores: usize = here.nodes.iter().map(|node| node.cores.len()).sum();
        if let Some(near) = here.near(None) {
            assert!(cores > 0 && here.nodes[near].distances[near] == 10, "{here:?}");
        }
    }
}

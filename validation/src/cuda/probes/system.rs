//! What a device, its driver and its bus say about themselves.
//!
//! Numbers come from the driver and, for the bus and the driver's own version, from where Linux
//! writes them; what cannot be read is left out.
//! Invariant: nothing is guessed.

use crate::calibrate::Device as Described;
use crate::calibrate::host::system::{UNKNOWN, file_system, memory, read};
use crate::cuda::driver::{Device, attribute};
use crate::fault::Fault;
use std::path::Path;
use tiersim_models::hardware::{Hardware, Link, Source, Tier, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;

/// Names and numbers of a device; `notes` are the caller's.
pub(super) fn describe(
    device: &Device,
    scratch: &Path,
    notes: Vec<String>,
) -> Result<Described, Fault> {
    let cuda = device.cuda_version()?;
    let speaks = format!("CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
    let driver = match read("/proc/driver/nvidia/version") {
        Some(text) => format!("{speaks}; {}", text.lines().next().unwrap_or_default()),
        None => speaks,
    };
    let (skeleton, capacities) = skeleton(device, scratch)?;
    let clocks = clocks(device)?;
    let name = device.name.clone();
    Ok(Described { name, driver, clocks, notes, skeleton, capacities })
}

fn clocks(device: &Device) -> Result<Vec<(String, String)>, Fault> {
    let get = |which| device.attribute(which);
    let mhz = |khz: u64| (khz > 0).then(|| format!("{} MHz", khz / 1000));
    let some = |value: u64, unit: &str| (value > 0).then(|| format!("{value}{unit}"));
    let capability = format!("{}.{}", get(attribute::MAJOR)?, get(attribute::MINOR)?);
    let bus = format!(
        "/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0",
        get(attribute::PCI_DOMAIN)?,
        get(attribute::PCI_BUS)?,
        get(attribute::PCI_DEVICE)?
    );
    let link = |what: &str| read(&format!("{bus}/{what}"));
    let all = [
        ("compute capability", Some(capability)),
        ("multiprocessors", some(u64::from(device.multiprocessors), "")),
        ("copy engines", some(get(attribute::COPY_ENGINES)?, "")),
        ("highest clock", mhz(get(attribute::CLOCK_KHZ)?)),
        ("highest memory clock", mhz(get(attribute::MEMORY_CLOCK_KHZ)?)),
        ("memory bus", some(get(attribute::MEMORY_BUS_BITS)?, " bits")),
        ("L2 cache", some(get(attribute::CACHE_BYTES)?, " B")),
        ("PCI Express speed", link("current_link_speed")),
        ("PCI Express lanes", link("current_link_width")),
        ("PCI Express speed at most", link("max_link_speed")),
    ];
    Ok(all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// The device's memory, the host's, and files.
fn skeleton(device: &Device, scratch: &Path) -> Result<(Hardware, Vec<Source>), Fault> {
    // Whole MiB: that the last few bytes are lost matters less than that the number can be read.
    let whole = |bytes: u64| Bytes::new((bytes >> 20 << 20).max(1 << 20));
    let (free, total) = device.memory()?;
    let room = file_system(scratch).map_err(|error| {
        Fault::io("asks for the size of", &scratch.display().to_string(), &error)
    })?;
    let tier = |name: &str, kind, capacity| Tier {
        name: name.to_owned(),
        kind,
        capacity,
        access: UNKNOWN,
        loaded: None,
    };
    let link = |name: &str, near, far| {
        let (near, far) = (TierId(near), TierId(far));
        Link { name: name.to_owned(), near, far, fetch: UNKNOWN, evict: UNKNOWN, service: None }
    };
    let dram = whole(memory().map_or(1 << 30, Bytes::get));
    let hardware = Hardware {
        name: String::new(),
        about: format!("{}: its memory, the host's, and files", device.name),
        tiers: vec![
            tier("hbm", TierKind::Hbm, whole(free.get())),
            tier("dram", TierKind::Dram, dram),
            tier("nvme", TierKind::Nvme, whole(room)),
        ],
        links: vec![link("pcie", 0, 1), link("drive", 1, 2)],
        compute: None,
        chunk: Bytes::mib(4),
        hidden: Vec::new(),
        facts: Vec::new(),
    };
    let dram = match memory() {
        Some(_) => Source::Measured("all of the system's memory (MemTotal)".to_owned()),
        None => Source::Assumed("the system does not say how much memory it has".to_owned()),
    };
    let hbm = format!("free on the device (cuMemGetInfo) of {total} in all");
    let nvme = "free on the file system of the scratch folder (statvfs)";
    Ok((hardware, vec![Source::Measured(hbm), dram, Source::Measured(nvme.to_owned())]))
}

//! What a device, its driver and its bus say about themselves.
//!
//! Numbers come from the driver and, for the bus and the driver's own version, from where Linux
//! writes them; what cannot be read is left out.
//! Invariant: nothing is guessed.

use crate::calibrate::host::system::{memory, read, room};
use crate::calibrate::probe::Device as Described;
use crate::calibrate::skeleton;
use crate::cuda::driver::Attribute::*;
use crate::cuda::driver::Device;
use crate::fault::Result;
use std::path::Path;
use tiersim_models::hardware::{Hardware, Source};
use tiersim_models::units::Bytes;

/// Names and numbers of a device; `notes` are the caller's.
pub(super) fn describe(device: &Device, scratch: &Path, notes: Vec<String>) -> Result<Described> {
    let cuda = device.cuda_version()?;
    let speaks = format!("CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
    let driver = match read("/proc/driver/nvidia/version") {
        Some(text) => format!("{speaks}; {}", text.lines().next().unwrap_or_default()),
        None => speaks,
    };
    let (skeleton, capacities) = skeleton(device, scratch)?;
    let clocks = clocks(device)?;
    let name = device.name.clone();
    Ok(Described { name, driver, clocks, notes, skeleton, capacities, parks: false })
}

/// Where it is on the host's PCI bus.
pub(super) fn address(device: &Device) -> Result<String> {
    let get = |which| device.attribute(which);
    Ok(format!(
        "{:04x}:{:02x}:{:02x}.0",
        get(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
        get(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
        get(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?
    ))
}

fn clocks(device: &Device) -> Result<Vec<(String, String)>> {
    let get = |which| device.attribute(which);
    let mhz = |khz: u64| (khz > 0).then(|| format!("{} MHz", khz / 1000));
    let some = |value: u64, unit: &str| (value > 0).then(|| format!("{value}{unit}"));
    let capability = format!(
        "{}.{}",
        get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?
    );
    let bus = format!("/sys/bus/pci/devices/{}", address(device)?);
    let link = |what: &str| read(&format!("{bus}/{what}"));
    let all = [
        ("compute capability", Some(capability)),
        ("multiprocessors", some(u64::from(device.multiprocessors), "")),
        ("copy engines", some(get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)?, "")),
        ("highest clock", mhz(get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?)),
        ("highest memory clock", mhz(get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?)),
        ("memory bus", some(get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?, " bits")),
        ("L2 cache", some(get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?, " B")),
        ("PCI Express speed", link("current_link_speed")),
        ("PCI Express lanes", link("current_link_width")),
        ("PCI Express speed at most", link("max_link_speed")),
    ];
    Ok(all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// The device's memory, the host's, and files.
fn skeleton(device: &Device, scratch: &Path) -> Result<(Hardware, Vec<Source>)> {
    let (free, total) = device.memory()?;
    let (host, room) = (memory(), room(scratch)?);
    let sizes = [free.get(), host.map_or(1 << 30, Bytes::get), room];
    let hardware = skeleton::of(&sizes, &["host-link", "drive"], Bytes::mib(4));
    let about = format!("{}: its memory, the host's, and files", device.name);
    let dram = match host {
        Some(_) => Source::Measured("all of the system's memory (MemTotal)".to_owned()),
        None => Source::Assumed("the system does not say how much memory it has".to_owned()),
    };
    let hbm = format!("free on the device (cuMemGetInfo) of {total} in all");
    Ok((
        Hardware { about: about.into(), ..hardware },
        vec![Source::Measured(hbm), dram, skeleton::files()],
    ))
}

//! What the system says about itself: names, clocks, sizes.
//!
//! Everything is read where Linux writes it; elsewhere, or where a file is missing, it is left out
//! or said to be unknown.
//! Invariant: nothing is guessed.

use super::KIB;
use crate::calibrate::probe::Device;
use crate::calibrate::skeleton;
use crate::fault::{Fault, Result};
use crate::files::DirectFile;
use std::path::Path;
use tiersim_models::hardware::{Hardware, Source};
use tiersim_models::units::Bytes;

pub(super) fn describe(
    scratch: &Path,
    file: &DirectFile,
    locked: usize,
    cache: Option<u64>,
) -> Result<Device> {
    let name = field("/proc/cpuinfo", "model name").unwrap_or("unknown processor".to_owned());
    let driver = read("/proc/sys/kernel/osrelease")
        .map_or(std::env::consts::OS.to_owned(), |v| format!("{} {v}", std::env::consts::OS));
    let clocks = [
        ("processor clock", field("/proc/cpuinfo", "cpu MHz").map(|mhz| mhz + " MHz")),
        ("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        ("last cache", cache.map(|bytes| Bytes::new(bytes).to_string())),
        ("memory", memory().map(|bytes| bytes.to_string())),
        ("cores", std::thread::available_parallelism().ok().map(|n| n.to_string())),
    ];
    let clocks = clocks.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let files = if file.is_direct() { "around the page cache" } else { "through the page cache" };
    let notes = vec![
        format!("files {files}, by {}", file.backend().word()),
        format!("up to {} can be locked", Bytes::new(locked as u64)),
    ];
    let (skeleton, capacities) = skeleton(scratch, &name)?;
    let clocks = clocks.collect();
    Ok(Device { name, driver, clocks, notes, skeleton, capacities, parks: true })
}

/// Memory twice, once for HBM and once for DRAM, and files.
fn skeleton(scratch: &Path, name: &str) -> Result<(Hardware, Vec<Source>)> {
    let (all, room) = (memory(), room(scratch)?);
    let half = all.map_or(1 << 30, |bytes| bytes.get() / 2);
    let hardware = skeleton::of(&[half, half, room], &["memory", "drive"], Bytes::mib(1));
    let about = format!("{name}: memory stands for HBM and DRAM, files for NVMe");
    // Both are the same memory, and somebody has to divide it.
    let halved = Source::Assumed(match all {
        Some(all) => {
            format!("half of the {all} of memory of the system (MemTotal), which both share")
        }
        None => "the system does not say how much memory it has".to_owned(),
    });
    Ok((
        Hardware { about: about.into(), ..hardware },
        vec![halved.clone(), halved, skeleton::files()],
    ))
}

/// Free bytes where the scratch folder is.
pub(crate) fn room(scratch: &Path) -> Result<u64> {
    file_system(scratch).map_err(Fault::io("asks for the size of", scratch.display()))
}

pub(crate) fn memory() -> Option<Bytes> {
    let text = field("/proc/meminfo", "MemTotal")?;
    let kib: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(kib * KIB))
}

pub(crate) fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The first value of a `name : value` file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the size of a file system is a system call without a safe wrapper")]
fn file_system(path: &Path) -> std::io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a path that ends in 0 and a struct of the call's own type; zeros are a valid value of
    // it, whatever the call leaves out.
    let (result, found) = unsafe {
        let result = libc::statvfs(path.as_ptr(), found.as_mut_ptr());
        (result, found.assume_init())
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error());
    }
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "widths differ by system"
    )]
    let (blocks, size) = (found.f_bavail as u64, found.f_frsize as u64);
    Ok(blocks.saturating_mul(size))
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> std::io::Result<u64> {
    Err(std::io::ErrorKind::Unsupported.into())
}

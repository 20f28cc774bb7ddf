//! `allocator`: a CUDA memory snapshot against the model of PyTorch's caching allocator.
//!
//! Every device with a history is replayed; what comes of it is printed, drawn and written.
//! Invariant: nothing is written before all devices are replayed.

use crate::VERSION;
use crate::output::{Failure, Format, print, print_exact, stem, write_all};
use crate::typed::{capacity, share};
use clap::{ArgAction, Args as ClapArgs};
use std::path::PathBuf;
use tiersim_input::import::snapshot::replay::replay;
use tiersim_input::import::snapshot::{Device, Snapshot, read_snapshot};
use tiersim_models::results::snapshot::Replay;
use tiersim_models::units::Bytes;
use tiersim_reports::words::number;
use tiersim_reports::{AllocatorReplay, allocator_artefacts, allocator_json, allocator_text};

#[derive(Debug, ClapArgs)]
pub(crate) struct AllocatorArgs {
    /// What torch.cuda.memory._dump_snapshot wrote, or the same as JSON; may be packed with gzip or
    /// Zstandard.
    #[arg(value_name = "FILE")]
    pub(crate) snapshot: PathBuf,
    /// Which device of the snapshot, counted from 0 [default: each that has a history].
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<usize>,
    /// Memory of the device, such as 80GiB, or what set_per_process_memory_fraction leaves of it
    /// [default: the snapshot shows when memory was out].
    #[arg(long, value_name = "SIZE", value_parser = capacity)]
    pub(crate) capacity: Option<u64>,
    /// Largest deviation that is no failure, as a share of what the snapshot says.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share)]
    pub(crate) at_most: f64,
    /// Folder to write to [default: out/allocator-FILE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

/// Replays, compares, writes.
pub(crate) fn allocator(args: &AllocatorArgs) -> Result<(), Failure> {
    let snapshot = read_snapshot(&args.snapshot)?;
    if !snapshot.has_segments {
        return Err(Failure::Input(format!(
            "{}: the snapshot has a list \"segments\" (found none); write it with \
             torch.cuda.memory._dump_snapshot(path), or see what it holds by `tiersim trace info`",
            args.snapshot.display()
        )));
    }
    let devices = chosen(&snapshot, args)?;
    let mut replays = Vec::new();
    for device in devices {
        let capacity = args.capacity.map(Bytes::new);
        let found = replay(device, &snapshot.settings, capacity, args.at_most);
        replays.push(found.map_err(|problem| {
            let file = args.snapshot.display();
            Failure::Input(format!(
                "{file}: device {}: the state before the first entry can be (found {problem}); \
                 record again, or give a larger --capacity",
                device.number
            ))
        })?);
    }
    let name = stem(&args.snapshot, "snapshot");
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| PathBuf::from("out").join(format!("allocator-{name}")));
    let (file, settings) = (args.snapshot.display().to_string(), &snapshot.settings);
    let (limit, version) = (args.at_most, VERSION);
    let all = AllocatorReplay { snapshot: &file, settings, limit, replays: &replays, version };
    write_all(&out, &allocator_artefacts(all, &name)?)?;
    match args.format {
        _ if args.quiet => {}
        Format::Json => print_exact(&allocator_json(all)?)?,
        Format::Text => {
            let (table, out) = (allocator_text(all), out.display());
            print(&format!("{file}: {table}\nwritten to {out}\n"))?;
        }
    }
    let failed: Vec<String> =
        replays.iter().filter_map(|found| above(found, args.at_most)).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::Expectation(failed)) }
}

/// The devices to replay: those with a history, or the one that was asked for.
fn chosen<'a>(snapshot: &'a Snapshot, args: &AllocatorArgs) -> Result<Vec<&'a Device>, Failure> {
    let mut devices: Vec<&Device> = snapshot.devices.iter().collect();
    devices.retain(|device| !device.actions.is_empty());
    let numbers: Vec<String> = devices.iter().map(|device| device.number.to_string()).collect();
    let file = args.snapshot.display();
    if devices.is_empty() {
        return Err(Failure::Input(format!(
            "{file}: a device has a history (found none in device_traces); call \
             torch.cuda.memory._record_memory_history() before the first tensor"
        )));
    }
    if let Some(number) = args.device {
        devices.retain(|device| device.number == number);
        if devices.is_empty() {
            let there = numbers.join(", ");
            return Err(Failure::Input(format!(
                "{file}: --device {number} has a history (found none); choose from {there}"
            )));
        }
    }
    Ok(devices)
}

/// What is above the limit on a device.
fn above(found: &Replay, limit: f64) -> Option<String> {
    let worst = found.worst();
    if worst <= limit {
        return None;
    }
    let firsts = [found.reserved.first_above, found.active.first_above];
    let first = firsts.into_iter().flatten().min();
    let place =
        first.map_or("only at the end".to_owned(), |entry| format!("first at entry {entry}"));
    let (device, most) = (found.device, number(limit * 100.0));
    Some(format!("device {device}: deviation {} % > {most} %, {place}", number(worst * 100.0)))
}

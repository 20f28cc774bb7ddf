//! `allocator`: a CUDA memory snapshot against the model of PyTorch's caching allocator.
//!
//! Every device with a history is replayed; what comes of it is printed, drawn and written.
//! Invariant: nothing is written before all devices are replayed.

use crate::allocator_report::{chart, json, text};
use crate::args::{AllocatorArgs, Format};
use crate::output::{Failure, pretty, print, write_all};
use std::path::{Path, PathBuf};
use tiersim_input::import::snapshot::deviation::Replay;
use tiersim_input::import::snapshot::replay::replay;
use tiersim_input::import::snapshot::{Device, Snapshot, read_snapshot};
use tiersim_models::units::Bytes;
use tiersim_reports::words::{clean, number};

/// Replays, compares, writes.
pub(crate) fn allocator(args: &AllocatorArgs) -> Result<(), Failure> {
    let snapshot = read_snapshot(&args.snapshot)?;
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
    let name = stem(&args.snapshot);
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| PathBuf::from("out").join(format!("allocator-{name}")));
    let report = pretty(&json(&args.snapshot, &snapshot.settings, args.at_most, &replays))?;
    let mut files = vec![("allocator.json".to_owned(), report.clone().into_bytes())];
    for found in &replays {
        let drawn = chart(&name, found);
        let fault = |error| Failure::Internal(format!("the chart cannot be drawn: {error}"));
        let file = format!("device-{}", found.device);
        files.push((format!("{file}.svg"), drawn.svg().map_err(fault)?.into_bytes()));
        files.push((format!("{file}.png"), drawn.png().map_err(fault)?));
    }
    write_all(&out, &files)?;
    match args.format {
        _ if args.quiet => {}
        Format::Json => print(&report)?,
        Format::Text => {
            let table = text(&snapshot.settings, args.at_most, &replays);
            print(&format!(
                "{}: {table}\nwritten to {}\n",
                args.snapshot.display(),
                out.display()
            ))?;
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

/// The file's name without its endings.
fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = clean(&name.unwrap_or_default());
    match name.split('.').find(|part| !part.is_empty()) {
        Some(part) => part.to_owned(),
        None => "snapshot".to_owned(),
    }
}

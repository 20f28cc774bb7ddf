//! `calibrate --from-trace`: a machine of what a recording shows of it, on top of one that is named
//! or has the recording's device.
//!
//! Invariant: nothing is written for a recording that shows nothing.

use super::{CalibrateArgs, folders, slug, today, write_calibration};
use crate::VERSION;
use crate::any_trace::any_trace;
use crate::hardware::{machine_text, project};
use crate::messages::say_warnings;
use crate::output::{Failure, print};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use tiersim_input::file_kind::FileKind;
use tiersim_input::hardware_file::read_hardware_of;
use tiersim_input::hardware_file::told::OnTop;
use tiersim_input::import::gather::holds_files;
use tiersim_input::import::profiler::import_profiler;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Compute, HBM, Hardware, Uncertainty};
use tiersim_models::lint::lint_hardware;
use tiersim_models::recorded::{Profile, Told};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Gaps, Trace};
use tiersim_reports::{
    calibration_artefacts, calibration_comment, calibration_text, fit_ron, fit_text,
};
use tiersim_validation::calibrate::recorded::{Base, FromTrace, from_trace as told};

/// Memory of one device that is sold in one size differs by what firmware keeps.
const LIKE: f64 = 0.15;

/// Reads, fits, writes.
pub(super) fn from_trace(args: &CalibrateArgs, path: &Path) -> Result<(), Failure> {
    let (trace, profile) = recording(path)?;
    let device = profile.device.clone().or_else(|| named(&trace));
    let found = base(args, path, device.as_ref())?;
    let (_, text) = machine_text(&found.name)?;
    let hardware = text.with(&[])?;
    let base = Base { hardware: &hardware, another: found.another };
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of_device = device.as_ref().and_then(|device| slug(&device.0));
    let name = args.name.clone().or(of_device).unwrap_or_else(|| "trace".to_owned());
    let command = format!("calibrate --from-trace {file} --base {}", found.name);
    let made = told((&trace, &profile), base, [&file, &name, &command, &today()]);
    let FromTrace { told, mut record, op_fit } = made.map_err(|why| nothing(path, &why.0))?;
    record.notes.splice(0..0, found.notes);
    let (folder, out) = folders(args, &name);
    let times = op_fit.as_ref().map(|_| format!("{name}-op-times"));
    let spec = folder.join(format!("{name}.ron"));
    let about = format!("what {file} shows of its machine, and {} elsewhere", hardware.name);
    let of = OnTop {
        file: &spec,
        about: &about,
        comment: &calibration_comment(&record, VERSION, false),
        mark: &base.mark(),
        assumed: base.another,
        op_times: times.as_deref(),
    };
    let (text, machine) = text.on_top(&of, &told)?;
    let mut specs: Vec<(PathBuf, String)> = vec![(spec.clone(), text)];
    let mut fitted = String::new();
    if let (Some(fit), Some(compute), Some(times)) = (&op_fit, &machine.compute, times) {
        let compute = Compute { op_times: None, ..compute.clone().own() };
        specs.push((folder.join(format!("{times}.ron")), fit_ron(fit, &file, &compute)));
        fitted = format!("\n{}", fit_text(fit, &file, &compute.name));
    }
    let said = write_calibration(&specs, &calibration_artefacts(&record, VERSION)?, &out)?;
    say_warnings(&spec.display().to_string(), &lint_hardware(&machine));
    if !args.quiet {
        print(&(calibration_text(&record) + &numbers(&told, &machine) + &fitted + &said))?;
    }
    Ok(())
}

/// The numbers that the recording told, as the spec has them.
fn numbers(told: &[Told], machine: &Hardware) -> String {
    let mut text = "\nnumbers of the spec from the trace, or that follow from them:\n".to_owned();
    for fact in machine.facts.iter().filter(|fact| told.iter().any(|of| of.path == fact.path)) {
        let word = fact.source.confidence().word();
        let spread = fact.uncertainty.as_ref().and_then(Uncertainty::relative);
        let spread = spread.map(|share| format!(", one standard error {:.1} %", share * 100.0));
        text += &format!("  {} {} ({word}{})\n", fact.path, fact.value, spread.unwrap_or_default());
    }
    let kept = machine.facts.len() - text.lines().count().saturating_sub(2);
    text + &format!("kept: {kept} others\n")
}

/// The trace, and of a profiler's file what it says beyond that.
fn recording(path: &Path) -> Result<(Trace, Profile), Failure> {
    let one = matches!(FileKind::of(path), Some(FileKind::ProfilerTrace | FileKind::Sqlite));
    if one && !holds_files(path) {
        let imported = import_profiler(path, Gaps::Keep)?;
        return Ok((imported.trace, imported.account.profile));
    }
    Ok((any_trace(path)?.0, Profile::default()))
}

/// The device by what a trace says it was recorded on: `device 0 (Tesla V100)`.
fn named(trace: &Trace) -> Option<(String, Option<Bytes>)> {
    let on = &trace.meta.recorded.on;
    let name = on.split_once('(').and_then(|(_, name)| name.strip_suffix(')')).unwrap_or(on);
    (!["", "host"].contains(&name)).then(|| (name.to_owned(), None))
}

fn nothing(path: &Path, why: &[String]) -> Failure {
    let rule = "a machine is made of the copies and kernels of a device, and this recording has too \
                few";
    let remedy = "record steps that copy, with activities=[ProfilerActivity.CPU, \
                  ProfilerActivity.CUDA] or `nsys profile --trace=cuda`; or measure the machine with --machine";
    Failure::Problems(Diagnostics::one(path, None, rule, why.join("; "), remedy))
}

/// The machine that is built on.
struct Found {
    name: String,
    another: bool,
    notes: Vec<String>,
}

/// The machine that was named, or of those with the device the one whose device's name shares the
/// most words with it, and of these the simplest.
fn base(
    args: &CalibrateArgs,
    path: &Path,
    device: Option<&(String, Option<Bytes>)>,
) -> Result<Found, Failure> {
    if let Some(name) = &args.base {
        let (_, hardware) = crate::hardware::machine(name)?;
        let another = !device.is_some_and(|device| is_of(&hardware, device));
        return Ok(Found { name: name.clone(), another, notes: Vec::new() });
    }
    let project = project()?;
    let mut found = Vec::new();
    for (name, path) in project.machines() {
        // What was measured is no base of what is measured, and a broken file is none.
        if name.contains('/') {
            continue;
        }
        let (Ok(hardware), Some(device)) = (read_hardware_of(&path, &project), device) else {
            continue;
        };
        if is_of(&hardware, device) {
            let Hardware { tiers, nodes, links, .. } = &hardware;
            let parts = tiers.len() + nodes.len() + links.len();
            found.push((Reverse(shared(&hardware, &device.0)), parts, name));
        }
    }
    found.sort();
    let found: Vec<String> = found.into_iter().map(|(.., name)| name).collect();
    let Some(name) = found.first().cloned() else {
        let rule = "no machine that can be named has the recording's device";
        let found = device.map_or("a recording without a device", |device| &device.0);
        let remedy = "name the machine that has what the recording does not show: --base NAME, one \
                      of `tiersim hardware list`";
        return Err(Failure::Problems(Diagnostics::one(path, None, rule, found, remedy)));
    };
    let others = found[1..].join(", ");
    let notes = if others.is_empty() {
        Vec::new()
    } else {
        vec![format!("on top of {name}; of the same device are {others} (--base)")]
    };
    Ok(Found { name, another: false, notes })
}

/// Whether a machine's device is that of a recording: the word of its name that says the model,
/// which is the first with a digit, is one of the recording's, and their memories are alike.
fn is_of(hardware: &Hardware, (name, memory): &(String, Option<Bytes>)) -> bool {
    let Some(compute) = &hardware.compute else { return false };
    let model =
        words(&compute.name).into_iter().find(|word| word.bytes().any(|b| b.is_ascii_digit()));
    let has = model.is_some_and(|model| words(name).contains(&model));
    let alike = |memory: Bytes| {
        let own = hardware.tiers[HBM.index()].capacity.limit();
        own.is_none_or(|own| (memory.get() as f64 / own.get() as f64 - 1.0).abs() <= LIKE)
    };
    has && memory.is_none_or(alike)
}

/// Words of a name in small letters.
fn words(text: &str) -> Vec<String> {
    let all = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    all.map(str::to_ascii_lowercase).collect()
}

/// How many words the names of a machine's device and of the recording's share.
fn shared(hardware: &Hardware, name: &str) -> usize {
    let (own, of) = (hardware.compute.as_ref().map(|compute| words(&compute.name)), words(name));
    own.unwrap_or_default().iter().filter(|word| of.contains(word)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_by_model_and_memory() {
        let project = project().expect("a project");
        let of = |name: &str, gb: u64| -> Vec<String> {
            let device = (name.to_owned(), (gb > 0).then(|| Bytes::new(gb * 1_000_000_000)));
            let machines = project.machines().into_iter().filter(|(name, path)| {
                let machine = read_hardware_of(path, &project).expect("it is sound");
                !name.contains('/') && is_of(&machine, &device)
            });
            machines.map(|(name, _)| name).collect()
        };
        assert_eq!(
            of("Tesla V100-SXM2-32GB", 34),
            ["v100-32g-dgx2", "v100-32g-dgx2-busy", "v100-32g-pcie3"]
        );
        assert!(of("NVIDIA A100-PG509-200", 42).contains(&"a100-40g-pcie4".to_owned()));
        assert!(!of("NVIDIA A100-PG509-200", 42).contains(&"a100-80g-pcie4".to_owned()));
        assert_eq!(of("NVIDIA GeForce RTX 3090", 25), ["rtx-3090"]);
        assert_eq!(of("NVIDIA GeForce RTX 2080 Ti", 11), [""; 0]);
        assert_eq!(of("AMD Radeon Graphics", 68), [""; 0]);
    }
}

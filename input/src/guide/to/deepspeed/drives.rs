//! What DeepSpeed has to be told of a drive: a folder, buffers of whole tensors, how it is asked.
//!
//! None of it is a choice of the scenario: it follows from the model, the optimizer and the machine.
//! Source: DeepSpeed, runtime/zero/offload_config.py (buffer_count "at least the number of states
//! maintained per parameter", buffer_size in elements, max_in_cpu) and runtime/swap_tensor, which
//! asserts that a tensor's part fits into one buffer.

use super::{Config, Home};
use crate::guide::deepspeed::keys;
use crate::guide::to::training::role;
use serde_json::{Value, json};
use tiersim_models::hardware::Link;
use tiersim_models::units::{Bandwidth, Bytes};
use tiersim_workloads::transformer::training::Optimizer;

/// Stands for the folder of a drive, as DeepSpeed's own pages have it.
const FOLDER: &str = "/local_nvme";

/// Writes what follows for the sections whose home is a drive.
pub(super) fn drives(of: &mut Config<'_, '_>, state: Home, parameters: Home) {
    let is_drive = |home: Home| home.is_some_and(|(_, role)| role == "drive");
    let sections = [is_drive(state), is_drive(parameters)];
    for (section, _) in keys::OFFLOADED.into_iter().zip(sections).filter(|(_, is)| *is) {
        imply(of, &keys::within(section, "nvme_path"), json!(FOLDER));
    }
    if sections[0] {
        // The parameter, its gradient, and what the optimizer keeps of it.
        let states = match of.training.optimizer {
            Optimizer::Lion | Optimizer::Sgd { momentum: true } => 3,
            Optimizer::Sgd { momentum: false } => 2,
            _ => 4,
        };
        imply(of, &keys::within(keys::OFFLOADED[0], "buffer_count"), json!(states));
    }
    if sections[1] {
        let ranks = u64::from(of.training.parallel.replicas()).max(1);
        let tensors = of.training.card.tensors();
        let largest = tensors.map(|tensor| tensor.numel()).max().unwrap_or(1);
        imply(of, &keys::within(keys::OFFLOADED[1], "buffer_size"), json!(largest.div_ceil(ranks)));
        imply(of, &keys::within(keys::OFFLOADED[1], "max_in_cpu"), json!(0));
    }
    if sections.contains(&true) {
        let (size, depth) = asked(of);
        if let Some(size) = size {
            imply(of, "aio.block_size", json!(size.get()));
        }
        if let Some(depth) = depth {
            imply(of, "aio.queue_depth", json!(depth));
        }
    }
}

fn imply(of: &mut Config<'_, '_>, key: &str, value: Value) {
    of.parts.implied("hardware", "its drive", format!("{key}: {value}"));
    of.set(key, value);
}

/// The least size of a copy, and the least copies at once, with which the drive is read as quickly
/// as it can be; `None` for what the machine does not say.
fn asked(of: &Config<'_, '_>) -> (Option<Bytes>, Option<u32>) {
    let hardware = &of.parts.ask.scenario.hardware;
    let drive = role(of.parts, "drive");
    let leads = |link: &&Link| drive.is_some() && hardware.tier_of(link.far) == drive;
    let service = hardware.links.iter().find(leads).and_then(|link| link.service.as_ref());
    let read = service.map(|service| &service.read);
    (read.and_then(|read| quickest(&read.sizes)), read.and_then(|read| quickest(&read.depths)))
}

/// The first that reaches the highest rate.
fn quickest<T: Copy>(rates: &[(T, Bandwidth)]) -> Option<T> {
    let most = rates.iter().map(|(_, rate)| rate.get()).max()?;
    rates.iter().find(|(_, rate)| rate.get() == most).map(|(what, _)| *what)
}

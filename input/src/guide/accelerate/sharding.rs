//! What FSDP divides, and what it keeps on the host.
//!
//! Invariant: of two words for one strategy the newer one counts, and the other is told.

use super::super::Fate;
use super::super::fsdp as keys;
use super::super::reader::Reader;
use super::super::settings::Settings;
use super::{DDP_BUCKET, Kind};

/// The newer word for the strategy, of FSDP 2.
const RESHARD: &str = "fsdp_config.fsdp_reshard_after_forward";

/// What FSDP divides, and what it keeps on the host.
pub(super) fn fsdp(of: &mut Reader<'_>, kind: Kind, settings: &mut Settings) {
    if kind == Kind::Replicas {
        settings.bucket = Some(DDP_BUCKET);
    }
    if kind != Kind::Fsdp {
        return;
    }
    settings.zero_stage = sharding(of);
    let on = "checkpointing: full";
    let again = of.flag(keys::CHECKPOINTING, ["as the program says", on]);
    settings.checkpointing |= again == Some(true);
    let told = [
        "optimizer state and weights in HBM",
        "ZeroOffload(optimizer: \"far\", parameters: \"far\"), and host_update: 1",
    ];
    let key = keys::OFFLOAD;
    if of.flag(key, told) == Some(true) {
        (settings.optimizer, settings.parameters) = (Some("far"), Some("far"));
        kept_shards(of, settings);
    }
    let key = keys::BACKWARD;
    // Numbers are those of the plugin's enumeration; what comes behind the block is not ahead.
    let ahead = |word: &str| match word.to_ascii_uppercase().as_str() {
        "1" => Some(1),
        "BACKWARD_POST" | "2" | "3" | "NONE" | "NULL" | "" => Some(0),
        word => keys::BACKWARD_PREFETCHES
            .iter()
            .find(|(own, _)| *own == word)
            .map(|(_, n)| u64::from(*n)),
    };
    let told =
        |word: &str| Fate::Taken(format!("zero: (prefetch: {})", ahead(word).unwrap_or_default()));
    if let Some((word, place)) = of.text(key, told) {
        settings.ahead = ahead(word);
        if settings.ahead.is_none() {
            let rule = "`fsdp_backward_prefetch` is BACKWARD_PRE, BACKWARD_POST or NO_PREFETCH";
            of.wrong(place, rule, word, "write one of these");
        }
    }
    if settings.zero_stage < 3 || settings.keeps_gathered {
        of.ignore(key, "weights stay gathered: nothing is fetched ahead");
        settings.ahead = None;
    }
    if settings.devices == 1 {
        for key in [keys::SHARDING, RESHARD, keys::BACKWARD] {
            of.ignore(key, "one device has nothing to divide its state among");
        }
        (settings.zero_stage, settings.ahead, settings.keeps_gathered) = (0, None, false);
    }
}

/// What FSDP offloads is shards, whatever its strategy: what is not resharded after forward is
/// gathered once for both passes (torch, `fsdp/_flat_param.py` and `_fsdp_param_group.py`).
fn kept_shards(of: &mut Reader<'_>, settings: &mut Settings) {
    if settings.zero_stage != 2 {
        return;
    }
    (settings.zero_stage, settings.keeps_gathered) = (3, true);
    let told = "zero: (stage: 3, reshard: false): shards are offloaded, gathered forward and whole \
                until backward is over";
    let says = [RESHARD, keys::SHARDING].into_iter().find(|key| of.find(key).is_some());
    if let Some(key) = says {
        of.text(key, |_| Fate::Taken(told.to_owned()));
    }
}

/// The stage of ZeRO that FSDP's strategy is.
fn sharding(of: &mut Reader<'_>) -> u64 {
    let machines = of.find("num_machines").and_then(|(_, entry)| entry.value.as_deref());
    let several = machines.is_some_and(|many| many != "1");
    let stage = |word: &str| {
        Some(match word.to_ascii_uppercase().as_str() {
            "1" | "TRUE" | "YES" => 3,
            "2" | "FALSE" | "NO" => 2,
            "3" => 0,
            "HYBRID_SHARD" | "4" if !several => 3,
            "HYBRID_SHARD_ZERO2" | "5" if !several => 2,
            word => {
                let known = keys::STRATEGIES.iter().find(|(own, _)| *own == word);
                return known.map(|(_, stage)| u64::from(*stage));
            }
        })
    };
    let mut found = None;
    for key in [RESHARD, keys::SHARDING] {
        let told =
            |word: &str| Fate::Taken(format!("zero: (stage: {})", stage(word).unwrap_or_default()));
        let Some((word, place)) = of.text(key, told) else { continue };
        if stage(word).is_none() {
            let hybrid = word.to_ascii_uppercase().starts_with("HYBRID") || "45".contains(word);
            let rule = match hybrid {
                true => "replicas of what is sharded within a server are not modelled".to_owned(),
                false => format!("`{key}` is true, false, FULL_SHARD, SHARD_GRAD_OP or NO_SHARD"),
            };
            of.wrong(place, &rule, word, "write FULL_SHARD, or run on one server");
        }
        match found {
            None => found = stage(word),
            Some(_) => of.ignore(key, "`fsdp_reshard_after_forward`, which is newer, says it"),
        }
    }
    found.unwrap_or(3)
}

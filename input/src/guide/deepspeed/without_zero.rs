//! What a configuration means that switches ZeRO off, or does not name it.
//!
//! Gradients are reduced behind the backward pass on the stream that computes (engine.py,
//! `allreduce_gradients` and `buffered_allreduce_fallback`), whatever `overlap_comm` says. Those of
//! bf16 are of 32 bits unless the file says otherwise (`get_data_types`), and then the update is
//! `BF16_Optimizer`'s: each rank has its part of master weights and moments, and gathers what the
//! others have updated, as in stage 1.
//! Invariant: each of these has a row.

use super::super::Fate;
use super::super::reader::{Reader, not_said};
use super::super::settings::Settings;
use super::keys;

/// Changes what the settings are without ZeRO; `said` is whether the file names the format of
/// gradients.
pub(super) fn without_zero(of: &mut Reader<'_>, settings: &mut Settings, said: bool) {
    let wide = settings.precision == "bf16" && !said;
    let divides = settings.precision == "bf16" && (wide || settings.gradients == Some("fp32"));
    if wide {
        settings.gradients = Some("fp32");
        let told = "formats: (gradients: fp32), as DeepSpeed sums those of bf16 without ZeRO";
        not_said(&mut settings.told, keys::GRADIENTS, told);
    }
    if settings.devices == 1 {
        return;
    }
    settings.one_stream = true;
    let mut told =
        "zero: (stage: 0, overlap: false): gradients are reduced behind the backward pass";
    if divides {
        settings.zero_stage = 1;
        told = "zero: (stage: 1, overlap: false): DeepSpeed's BF16_Optimizer divides master weights \
                and moments without ZeRO too; gradients are reduced behind the backward pass, by an \
                all-reduce that sends twice what stage 1's reduce-scatter does";
    }
    match of.find(keys::STAGE) {
        Some((index, _)) => of.rows[index] = Some(Fate::Taken(told.to_owned())),
        None => not_said(&mut settings.told, keys::STAGE, told),
    }
    of.text(keys::OVERLAP, |_| {
        Fate::Taken("zero: (overlap: false), which it is without ZeRO".to_owned())
    });
    of.ignore(keys::BUCKET, "without ZeRO gradients are reduced in buffers of 500 million of them");
}

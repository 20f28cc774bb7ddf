//! What is offloaded, by the sections `offload_optimizer` and `offload_param`.
//!
//! Invariant: what DeepSpeed refuses or passes over at a stage is refused or told.

use super::super::Fate;
use super::super::reader::Reader;
use super::super::settings::Settings;
use super::keys;

/// Homes of optimizer state and of parameters, and how copies go there.
pub(super) fn offload(of: &mut Reader<'_>, settings: &mut Settings) {
    let [optimizer, parameters] = keys::OFFLOADED.map(|section| keys::within(section, "device"));
    let home = |of: &mut Reader<'_>, key: &str, what: &str| {
        let empty = of.find(key).is_some_and(|(_, entry)| entry.value.as_deref() == Some("{}"));
        if empty {
            of.ignore(key, "an empty section: nothing is offloaded");
        }
        match empty || of.is_left_to_the_program(key, "left to the program: HBM") {
            true => None,
            false => of.place(key, what),
        }
    };
    settings.optimizer = home(of, &optimizer, "optimizer");
    settings.parameters = home(of, &parameters, "parameters");
    let stage = settings.zero_stage;
    if let Some(tier) = settings.optimizer {
        let place = of.find(&optimizer).expect("it was read").1.place;
        if stage == 0 {
            let rule = "`offload_optimizer` is of stages 1 to 3";
            of.wrong(place, rule, "stage 0", "write \"stage\": 2");
        } else if tier == "drive" && stage < 3 {
            let rule = "`offload_optimizer` goes to NVMe in stage 3 only";
            of.wrong(place, rule, &format!("stage {stage}"), "write \"stage\": 3, or cpu");
        } else if settings.precision == "fp32" {
            of.wrong(
                place,
                keys::MASTER,
                "fp32",
                "switch bf16 or fp16 on, or pass --precision bf16",
            );
        }
    }
    if settings.parameters.is_some() && stage < 3 {
        of.ignore(&parameters, "DeepSpeed offloads parameters in stage 3 only");
        settings.parameters = None;
    }
    let key = keys::RATIO;
    let share = of.text(key, |value| Fate::Taken(format!("optimizer_share: {value}")));
    if let Some((value, place)) = share {
        let number = value.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
        if number.is_none() {
            of.wrong(place, "`ratio` is a share from 0 to 1", value, "write 0.3 for three tenths");
        }
        if settings.optimizer.is_some() && stage < 3 {
            of.ignore(key, keys::RATIO_OF_STAGE_3);
        } else if settings.optimizer.is_none() || number == Some(0.0) {
            of.ignore(key, "nothing of it is offloaded");
            settings.optimizer = None;
        } else {
            settings.optimizer_share = number.filter(|&share| share < 1.0);
        }
    }
    let key = keys::PREFETCH;
    if settings.parameters.is_none() {
        let why = "what is gathered ahead of parameters in HBM is counted in blocks here: \
                   `zero: (prefetch: ...)`";
        of.ignore(key, why);
    } else if !of.is_left_to_the_program(key, "left to the program: what is free") {
        let wide = keys::element(settings.precision);
        let told = |elements| match elements {
            0 => "prefetch_ops: 0".to_owned(),
            _ => format!("prefetch_budget: b({})", elements * wide),
        };
        settings.prefetch = of.count(key, told).map(|elements| elements * wide);
    }
    pinned(of, settings);
}

/// Copies are of pageable memory where what is offloaded is not pinned, as by default.
fn pinned(of: &mut Reader<'_>, settings: &mut Settings) {
    let mut pageable = Vec::new();
    for (section, home) in
        keys::OFFLOADED.into_iter().zip([settings.optimizer, settings.parameters])
    {
        let key = keys::within(section, "pin_memory");
        let pinned = of.flag(&key, ["copies of pageable memory", "copies of pinned memory"]);
        match home {
            Some(_) => pageable.push((key, !pinned.unwrap_or(false))),
            None => of.ignore(&key, "nothing of it is offloaded"),
        }
    }
    settings.pageable = !pageable.is_empty() && pageable.iter().all(|(_, pageable)| *pageable);
    // One `runtime` is for all copies of a case.
    if !settings.pageable {
        for (key, _) in pageable.iter().filter(|(_, pageable)| *pageable) {
            of.ignore(key, "all copies of a case are alike, and others are of pinned memory");
        }
    }
}

//! What is asked of a structured operator and of DeepSpeed's estimators.

use super::super::model::largest_module;
use super::super::options::MemoryArgs;
use super::refusals::{OF_DEEPSPEED, OF_SERVING, OF_SHAPE, of_training, refuse};
use super::{MemoryQuestion, gpus, params};
use tiersim_input::import::card::ModelFiles;
use tiersim_models::results::memory_account::Place;
use tiersim_workloads::memory::account::Structured;
use tiersim_workloads::memory::deepspeed::Question;
use tiersim_workloads::memory::semiseparable::{Formats, Shape};

pub(super) fn structured(args: &MemoryArgs, size: u64) -> Result<Structured, String> {
    let mut all = [&of_training()[..], &OF_SHAPE, &OF_SERVING, &OF_DEEPSPEED].concat();
    all.retain(|name| *name != "--precision");
    refuse("--semiseparable", args, &all)?;
    let state = ["--params", "--stage", "--offload-optimizer", "--largest-layer", "--convention"];
    refuse("--semiseparable", args, &state)?;
    let (gpus, gpus_per_node) = gpus(args, 8)?;
    let formats = Formats {
        factors: args.precision.unwrap_or(Formats::MIXED.factors),
        dense: args.dense.unwrap_or(Formats::MIXED.dense),
        ..Formats::MIXED
    };
    Ok(Structured {
        size,
        shape: args.levels.unwrap_or(Shape::Sum(1)),
        formats,
        layers: args.layers.unwrap_or(1),
        gpus,
        gpus_per_node,
        offload: args.offload_param.unwrap_or_default(),
    })
}

pub(super) fn deepspeed(
    args: &MemoryArgs,
    model: Option<&ModelFiles>,
) -> Result<MemoryQuestion, String> {
    let with = "--convention deepspeed";
    refuse(with, args, &[&of_training()[..], &OF_SHAPE, &OF_SERVING].concat())?;
    refuse(with, args, &["--layers"])?;
    let stage = args.stage.unwrap_or(0);
    if stage == 0 {
        return Err("DeepSpeed estimates stages 1, 2 and 3 (found 0); say --stage".to_owned());
    }
    let place = |name: &str, place: Option<Place>| match place {
        Some(Place::Nvme) => Err(format!(
            "DeepSpeed's estimators know cpu and none (found {name} nvme); say {name} cpu"
        )),
        other => Ok(other == Some(Place::Cpu)),
    };
    let offload_optimizer = place("--offload-optimizer", args.offload_optimizer)?;
    let offload_params = place("--offload-param", args.offload_param)?;
    if offload_params && !(stage == 3 && offload_optimizer) {
        return Err(format!(
            "DeepSpeed's estimator takes --offload-param cpu at stage 3 and with --offload-optimizer cpu only \
             (found stage {stage}); say both, or --offload-param none"
        ));
    }
    let of_model = model.and_then(|model| largest_module(&model.card));
    let largest_layer = match args.largest_layer.or(of_model.filter(|_| stage == 3)) {
        None if stage == 3 => {
            let rule = "stage 3 gathers the largest layer, whose size is missing";
            return Err(format!("{rule}; say --largest-layer, such as --largest-layer 200M"));
        }
        found => found.unwrap_or(0),
    };
    let buffer_factor = args.buffer_factor.unwrap_or(1.5);
    if !(buffer_factor.is_finite() && (0.0..=1e6).contains(&buffer_factor)) {
        let rule = "--buffer-factor must be from 0 to 1000000";
        return Err(format!("{rule} (found {buffer_factor}); say 1.5"));
    }
    let (gpus, gpus_per_node) = gpus(args, 8)?;
    let question = Question {
        params: params(args, model)?,
        largest_layer,
        gpus_per_node,
        nodes: gpus / gpus_per_node,
        offload_optimizer,
        offload_params,
        zero_init: args.zero_init.unwrap_or(true),
        buffer_factor,
    };
    Ok(MemoryQuestion::Estimated(question, stage))
}

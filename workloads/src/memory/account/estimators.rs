//! The account of DeepSpeed's estimators: their two figures, and what they are made of.

use crate::memory::deepspeed::{Answer, Question, zero2, zero3};
use tiersim_models::results::memory_account::Place;
use tiersim_models::results::memory_account::{Account, Constant, Line, Value};

/// What DeepSpeed estimates for stage 1, 2 or 3; `None` beyond 2^53 bytes.
pub fn estimated(asked: &Question, stage: u8) -> Option<Account> {
    let third = stage >= 3;
    let answer = if third { zero3(asked) } else { zero2(asked) }?;
    let Answer { cpu_bytes, gpu_bytes, largest_layer_bytes } = answer;
    let mut lines = Vec::new();
    let mut add = |key, name, formula: &str, bytes: u64| {
        let (formula, place, bytes) = (formula.to_owned(), Place::Gpu, bytes.into());
        lines.push(Line { key, name, formula, place, bytes });
    };
    if third {
        add("largest_layer", "largest layer", "4 x largest layer", largest_layer_bytes);
    }
    let (gpu, cpu) = formulas(asked, third);
    add("model_state_of_gpu", "model state", gpu, gpu_bytes - largest_layer_bytes);
    let mut constants = Vec::new();
    let mut add = |key, name, value: Value| constants.push(Constant { key, name, value });
    let word = |yes: bool| if yes { "cpu" } else { "none" }.into();
    add("params", "parameters (P)", asked.params.into());
    add("stage", "ZeRO stage", u64::from(stage).into());
    add("gpus_per_node", "GPUs per node (G)", asked.gpus_per_node.into());
    add("nodes", "nodes (n)", asked.nodes.into());
    add("offload_optimizer", "optimizer state goes to", word(asked.offload_optimizer));
    add("buffer_factor", "host memory is multiplied by", Value::Number(asked.buffer_factor));
    if third {
        add("largest_layer", "parameters of the largest layer", asked.largest_layer.into());
        add("offload_param", "weights go to", word(asked.offload_params));
        let built = if asked.zero_init { "true" } else { "false" };
        add("zero_init", "built in parts (zero.Init)", built.into());
    }
    Some(Account {
        title: format!("DeepSpeed's estimate, ZeRO stage {stage}"),
        constants,
        lines,
        notes: vec![format!("host memory per node: {cpu}, times the buffer factor")],
        gpu: gpu_bytes.into(),
        cpu_per_node: cpu_bytes.into(),
        nvme_per_node: 0,
    })
}

/// What a GPU and a node's host have, in words.
fn formulas(asked: &Question, third: bool) -> (&'static str, &'static str) {
    let init = asked.zero_init;
    match (third, asked.offload_optimizer, asked.offload_params) {
        (false, true, _) => ("2 P", "P max(4 G n, 16)"),
        (false, false, _) => ("2 P + 18 P / (G n)", "4 P G"),
        (true, true, true) if init => ("0", "18 P / n"),
        (true, true, true) => ("0", "P max(4 G, 18 / n)"),
        (true, true, false) if init => ("2 P / (G n)", "16 P / n"),
        (true, true, false) => ("2 P / (G n)", "P max(4 G, 16 / n)"),
        (true, false, _) if init => ("18 P / (G n)", "4 G x largest layer"),
        (true, false, _) => ("18 P / (G n)", "4 P G"),
    }
}

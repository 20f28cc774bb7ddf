//! DeepSpeed's own estimators of model state, as they are and not as one would write them.
//!
//! Source: DeepSpeed, `deepspeed/runtime/zero/stage_1_and_2.py`,
//! `estimate_zero2_model_states_mem_needs`, and `stage3.py`,
//! `estimate_zero3_model_states_mem_needs`. They count 18 bytes per parameter (fp32 gradients
//! beside the 16-bit ones, the fp32 master copy and two moments); whole copies are counted per GPU
//! of the host, and their buffer factor is a float.
//! Invariant: amounts of up to 2^53 bytes are the same to the byte. Shares of GPUs are integer
//! divisions, which agree with theirs up to there; host amounts follow their order of
//! multiplication.

/// What the estimators are asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Parameters of the model.
    pub params: u64,
    /// Parameters of the largest layer; stage 3 only.
    pub largest_layer: u64,
    /// GPUs of one node.
    pub gpus_per_node: u64,
    /// Nodes.
    pub nodes: u64,
    /// Whether optimizer state lives on the host.
    pub offload_optimizer: bool,
    /// Whether parameters do too; stage 3 only.
    pub offload_params: bool,
    /// Whether the model is built in parts (`zero.Init`); stage 3 only.
    pub zero_init: bool,
    /// What host memory is multiplied by.
    pub buffer_factor: f64,
}

/// What they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Host memory per node.
    pub cpu_bytes: u64,
    /// Memory of each GPU.
    pub gpu_bytes: u64,
    /// The largest layer's weights and gradients in 16 bits; 0 below stage 3.
    pub largest_layer_bytes: u64,
}

/// Largest amount that a float counts exactly.
const EXACT: u128 = 1 << 53;

/// `params x bytes / ways` in whole bytes; `None` beyond 2^53.
fn part(params: u64, bytes: u64, ways: u64) -> Option<u64> {
    let all = u128::from(params) * u128::from(bytes);
    (all <= EXACT).then(|| (all / u128::from(ways)) as u64)
}

/// A host amount, cut to whole bytes as Python's `int` does; `None` beyond 2^53.
fn whole(bytes: f64) -> Option<u64> {
    (bytes.is_finite() && bytes >= 0.0 && bytes <= EXACT as f64).then(|| bytes.trunc() as u64)
}

/// Stages 1 and 2. `None` beyond 2^53 bytes or without GPUs.
pub fn zero2(asked: &Question) -> Option<Answer> {
    let params = asked.params as f64;
    let gpus = asked.nodes.checked_mul(asked.gpus_per_node).filter(|&gpus| gpus > 0)?;
    let (gpu_bytes, cpu) = if asked.offload_optimizer {
        let per_param = gpus.checked_mul(4)?.max(16);
        let cpu = params * per_param as f64 * asked.buffer_factor;
        (part(asked.params, 2, 1)?, cpu)
    } else {
        // 2 for weights; 2 for gradients, 4 for fp32 gradients, 4 for the master copy, 8 for
        // moments.
        let gpu = part(asked.params, 2, 1)?.checked_add(part(asked.params, 18, gpus)?)?;
        let cpu = params * asked.gpus_per_node.checked_mul(4)? as f64 * asked.buffer_factor;
        (gpu, cpu)
    };
    Some(Answer { cpu_bytes: whole(cpu)?, gpu_bytes, largest_layer_bytes: 0 })
}

/// Stage 3. `None` beyond 2^53 bytes or without GPUs.
pub fn zero3(asked: &Question) -> Option<Answer> {
    let params = asked.params as f64;
    let gpus = asked.nodes.checked_mul(asked.gpus_per_node).filter(|&gpus| gpus > 0)?;
    let of_node = 1.0 / asked.nodes as f64;
    let whole_copies = asked.gpus_per_node.checked_mul(4)? as f64;
    let largest = part(asked.largest_layer, 4, 1)?;
    // With zero.Init a node's part; without, every process builds the model in fp32 first.
    let host = |bytes: f64| {
        let per_param = bytes * of_node;
        // Their order: parameters times bytes, then the node's part, then the factor.
        if asked.zero_init {
            params * bytes * of_node * asked.buffer_factor
        } else {
            params * whole_copies.max(per_param) * asked.buffer_factor
        }
    };
    let (held, cpu) = match (asked.offload_optimizer, asked.offload_params) {
        (true, true) => (0, host(18.0)),
        (true, false) => (part(asked.params, 2, gpus)?, host(16.0)),
        (false, _) => {
            let built = if asked.zero_init { asked.largest_layer } else { asked.params };
            let cpu = built as f64 * whole_copies * asked.buffer_factor;
            (part(asked.params, 18, gpus)?, cpu)
        }
    };
    Some(Answer {
        cpu_bytes: whole(cpu)?,
        gpu_bytes: largest.checked_add(held)?,
        largest_layer_bytes: largest,
    })
}

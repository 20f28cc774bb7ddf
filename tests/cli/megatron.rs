//! `from megatron`: scripts and arguments of Megatron-LM become scenarios of training.

use crate::common::*;
use serde_json::Value;

fn turned(project: &Project, line: &str, more: &[&str]) -> Ran {
    project.run(&[&["from", "megatron", line, "--no-run"], more].concat())
}

/// As repositories have them, shortened where they say how to log and to save.
const SCRIPTS: [(&str, &[&str], &[&str]); 5] = [
    // github.com/NVIDIA/Megatron-LM, examples/gpt3/train_gpt3_175b_distributed.sh; on 16 servers,
    // with a batch of 64.
    (
        r#"#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
MASTER_ADDR=localhost
NUM_NODES=16
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINT_PATH=$1 #<Specify path>
VOCAB_FILE=$3 #<Specify path to file>/gpt2-vocab.json
MERGE_FILE=$4
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
GPT_MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto # Can use (flash/fused/unfused/local)
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 64
    --rampup-batch-size 16 16 5859375
    --weight-decay 0.1
    --fp16
    --lr 6.0e-5
)
MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size 16
)
DATA_ARGS=(
    --vocab-file $VOCAB_FILE
    --merge-file $MERGE_FILE
    --split 949,50,1
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_MODEL_ARGS[@]} \
    ${TRAINING_ARGS[@]} \
    ${MODEL_PARALLEL_ARGS[@]} \
    ${DATA_ARGS[@]}
"#,
        &["--device", "a100"],
        &[
            "hardware: \"dgx-a100-80g\"",
            "family: gpt2, layers: 96, hidden: 12288, ffn: 49152, heads: 96, vocab: 51200, positions: 2048, tied: true",
            "batch: 64,",
            "micro_batch: 1,",
            "parallel: (tensor: 8, pipeline: 16)",
            "attention: flash",
            "dropout: true",
            "line 16: num-layers: 96 ->",
        ],
    ),
    // github.com/NVIDIA/Megatron-LM, examples/llama/train_llama3_8b_h100_fp8.sh: tests of what is known.
    (
        r#"CHECKPOINT_PATH=${1:-"checkpoints/llama3_8b_fp8"}
TOKENIZER_ARG=${3:-"MOCK"} # Path to tokenizer model, or "MOCK"
DATA_ARG=${4:-"MOCK"}     # Data prefix, or "MOCK"
mkdir -p "$(dirname "$CHECKPOINT_PATH")"
PRETRAIN_SCRIPT_PATH="pretrain_gpt.py"
TP_SIZE=1
SEQ_LENGTH=8192
DTYPE="fp8"
DISTRIBUTED_ARGS=(--nproc_per_node 8 --nnodes 1)
MODEL_ARGS=(
    --use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length $SEQ_LENGTH
    --max-position-embeddings $SEQ_LENGTH --position-embedding-type rope --rotary-base 1000000
    --attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --attention-backend fused --apply-layernorm-1p
    --untie-embeddings-and-output-weights --disable-bias-linear
)
TRAINING_ARGS=(--micro-batch-size 1 --global-batch-size 128 --lr 0.00015 --bf16 --grad-reduce-in-bf16
    --cross-entropy-loss-fusion --manual-gc)
DTYPE_ARGS=()
if [[ "$DTYPE" == "fp8" ]]; then
    DTYPE_ARGS+=(
        "--fp8-format hybrid"
        "--fp8-param-gather"
    )
fi
MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP_SIZE
    # --pipeline-model-parallel-size $PP_SIZE
    --sequence-parallel
)
DDP_ARGS=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
TRAINING_ARGS+=("${DDP_ARGS[@]}")
DATA_ARGS_LIST=()
if [[ "$TOKENIZER_ARG" == "MOCK" ]] || [[ "$DATA_ARG" == "MOCK" ]] || [[ -z "$TOKENIZER_ARG" ]]; then
    DATA_ARGS_LIST+=("--mock-data" "--tokenizer-type NullTokenizer" "--vocab-size 128256")
else
    DATA_ARGS_LIST+=("--data-path $DATA_ARG" "--vocab-size 99")
fi
if [ -n "${WANDB_API_KEY}" ]; then
    DATA_ARGS_LIST+=(--wandb-project ${WANDB_PROJECT:-"x"})
fi
if [ ! -f "$PRETRAIN_SCRIPT_PATH" ]; then
    echo "Error: pretrain_gpt.py not found at $PRETRAIN_SCRIPT_PATH"
    exit 1
fi
torchrun ${DISTRIBUTED_ARGS[@]} \
    "$PRETRAIN_SCRIPT_PATH" \
    ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} ${DTYPE_ARGS[@]} ${MODEL_PARALLEL_ARGS[@]} ${DATA_ARGS_LIST[@]}
set +x"#,
        &["--device", "h100"],
        &[
            "hardware: \"dgx-h100\"",
            "family: llama, layers: 32, hidden: 4096, ffn: 14336, heads: 32, kv_heads: 8, head_dim: 128, vocab: 128256, tied: false",
            "batch: 16,",
            "parallel: (data: 8)",
            "zero: (stage: 1),",
            "precision: bf16,\n        mode",
            "fp8-format: hybrid -> ignored: products run in `precision`",
            "sequence-parallel: true -> ignored: one rank has nothing to split",
        ],
    ),
    // github.com/msrasys/nnscaler, benchmark/megatron/benchmark_gpt.sh
    (
        "GPT_ARGS=\"--num-layers 24 \\\n --hidden-size 1024 \\\n --num-attention-heads 16 \\\n --seq-length 1024 \\\n\
         --max-position-embeddings 1024 \\\n --micro-batch-size 8 \\\n --global-batch-size 8 \\\n --lr 0.00015 \\\n\
         --fp16 \\\n --fp16-lm-cross-entropy \\\n --no-masked-softmax-fusion\"\n\
         DISTRIBUTED_ARGS=\"--nproc_per_node 8 \\\n --nnodes 1\"\ncd Megatron-LM\n\
         OMP_NUM_THREADS=4 python -m torch.distributed.launch $DISTRIBUTED_ARGS \\\n pretrain_gpt_synthetic.py $GPT_ARGS \\\n\
         --tensor-model-parallel-size 8 \\\n --pipeline-model-parallel-size 1 \\\n --DDP-impl torch\n\ncd ..\n",
        &["--device", "a100", "--vocab", "50304"],
        &[
            "vocab: 51200",
            "parallel: (tensor: 8)",
            "line 2: hidden-size: 1024 ->",
            "$OMP_NUM_THREADS: 4 -> ignored: a variable of the shell",
            "DDP-impl: torch -> ignored",
        ],
    ),
    // github.com/NVIDIA/Megatron-LM, examples/mixtral/train_mixtral_8x7b_distributed.sh
    (
        "NNODES=${SLURM_NNODES:-\"1\"}\nDISTRIBUTED_ARGS=(--nproc_per_node 2 --nnodes $NNODES)\n\
         MODEL_ARGS=(--disable-bias-linear --seq-length 256 --max-position-embeddings 2048 --num-layers 2 --hidden-size 256\n\
         --ffn-hidden-size 896 --num-attention-heads 2 --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm\n\
         --position-embedding-type rope --swiglu --untie-embeddings-and-output-weights --group-query-attention\n\
         --num-query-groups 2 --no-position-embedding)\n\
         MOE_ARGS=(--num-experts 2 --moe-router-topk 2 --moe-aux-loss-coeff 1e-2\n#    --moe-grouped-gemm\n--overlap-grad-reduce)\n\
         torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} ${MOE_ARGS[@]} --tokenizer-type Llama2Tokenizer \\\n\
         --micro-batch-size 1 --global-batch-size 4 --expert-model-parallel-size 2 --use-distributed-optimizer",
        &["--device", "h100", "--vocab", "32000"],
        &[
            "family: mixtral",
            "experts: (count: 2, active: 2)",
            "parallel: (data: 2, expert: 2)",
            "batch: 2,",
            "precision: fp32",
            "zero: (stage: 1),",
        ],
    ),
    // The arguments alone, with what offloads, checkpoints and interleaves.
    (
        "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --swiglu --vocab-size 32000 --bf16 \
         --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 \
         --sequence-parallel --micro-batch-size 1 --global-batch-size 8 --recompute-granularity full --recompute-method block \
         --recompute-num-layers 1 --optimizer-cpu-offload --optimizer-offload-fraction 0.5 --hidden-dropout 0 \
         --attention-dropout 0 --new-flag 3",
        &["--device", "a100"],
        &[
            "ffn: 10880",
            "formats: (gradients: fp32)",
            "line 0: ffn-hidden-size: not said -> ffn: 10880",
            "parallel: (tensor: 2, pipeline: 4, interleave: 4, sequence: true)",
            "checkpointing: layers(1)",
            "ZeroOffload(optimizer: \"far\", optimizer_share: 0.5)",
            "host_update: 0.5",
            "new-flag: 3 -> ignored: unknown key",
        ],
    ),
];

#[test]
fn scripts_of_megatron_become_scenarios_that_hold() {
    let project = Project::shipped();
    for (text, more, shows) in SCRIPTS {
        let ran = turned(&project, text, more).ends_with(0).shows(shows);
        project.write("train.sh", text);
        let same = turned(&project, "train.sh", more).ends_with(0);
        assert_eq!(same.stdout, ran.stdout, "a file that holds it says the same");
        project.write("turned.ron", &ran.stdout);
        project.run(&["check", "turned.ron"]).ends_with(0);
    }
    project.run(&["run", "turned.ron", "--no-png", "--no-bound-curve"]).ends_with(0);
}

/// The published run of 22 billion parameters, as arguments: the scenario that ships for it names the
/// model, this one its dimensions, and memory and time are the same.
#[test]
fn the_published_run_is_the_scenario_that_ships() {
    let project = Project::shipped();
    let line = "--num-layers 48 --hidden-size 6144 --num-attention-heads 64 --seq-length 2048 --max-position-embeddings 2048 \
                --vocab-size 51200 --tensor-model-parallel-size 8 --micro-batch-size 4 --global-batch-size 4 --fp16 \
                --recompute-granularity full --recompute-method uniform --transformer-impl local";
    let ours = turned(&project, line, &["--device", "a100"]).ends_with(0);
    project.write("ours.ron", &ours.stdout);
    let text = std::fs::read_to_string(project.path("scenarios/megatron-22b-full.ron"));
    let text = text.expect("it ships");
    let (text, _) = text.split_once("    expect:").expect("it expects");
    project.write(
        "ships.ron",
        format!("{text})\n").replace("repeat: 1,", "repeat: 2,\n        warmup: 0,"),
    );
    let [ours, ships] = ["ours", "ships"].map(|name| {
        let file = format!("{name}.ron");
        let quick = ["run", &file, "--out", name, "--no-png", "--no-bound-curve", "-q"];
        project.run(&quick).ends_with(0);
        let text = std::fs::read_to_string(project.path(&format!("{name}/summary.json")));
        let summary: Value = serde_json::from_str(&text.expect("written")).expect("JSON");
        summary["results"][0].clone()
    });
    for key in ["step_ms", "peak_bytes", "moved_bytes", "throughput"] {
        assert!(!ships[key].is_null(), "{key}");
        assert_eq!(ours[key], ships[key], "{key}");
    }
}

#[test]
fn arguments_that_contradict_each_other_or_ask_for_other_work_are_refused() {
    let project = Project::shipped();
    let good = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --vocab-size 1024";
    for (more, says) in [
        (
            "--tensor-model-parallel-size 2 --global-batch-size 3 --micro-batch-size 2",
            &[
                "megatron:1:",
                "`global-batch-size` is a multiple of micro-batch x replicas, here 2 x 1 (found 3)",
            ][..],
        ),
        ("--bf16 --fp16", &["`fp16` and `bf16` are not both given"]),
        ("--multi-latent-attention", &["latent attention is not modelled"]),
        ("--mtp-num-layers 1", &["that predict further tokens"]),
        ("--num-experts 4 --swiglu --moe-layer-freq ([0]*1+[1]*3)", &["blocks without experts"]),
        ("--num-experts 4", &["add --swiglu"]),
        ("--cpu-offloading-num-layers 2", &["ActivationOffload"]),
        ("--decoder-first-pipeline-num-layers 1", &["stages have as many layers"]),
        ("--optimizer-cpu-offload", &["an update on the host is of a master copy"]),
        (
            "--optimizer-cpu-offload --bf16 --optimizer-offload-fraction 2",
            &["is a share from 0 to 1 (found 2)"],
        ),
        ("--recompute-granularity some", &["is full or selective (found some)"]),
        ("--attention-backend magic", &["`attention-backend` is auto, flash"]),
        ("--max-position-embeddings 64", &["no less than `seq-length`, here 128 (found 64)"]),
        ("--hidden-dropout 2", &["is a rate from 0 to below 1"]),
        (
            "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3",
            &["divides the layers of a stage"],
        ),
        ("--tensor-model-parallel-size 0", &["a whole number from 1"]),
        ("--num-layers $LAYERS", &["says the same as `num-layers`"]),
        (
            "--lr 1 $MORE_ARGS",
            &["under no condition (found $MORE_ARGS)", "write the flags in its place"],
        ),
        // github.com/NVIDIA/Megatron-LM, examples/azure/run-175b.sh, of Megatron-DeepSpeed
        (
            "--checkpoint-activations --deepspeed-activation-checkpointing --zero-stage=3 --deepspeed_config=ds_config.json",
            &["`tiersim from deepspeed`"],
        ),
    ] {
        let line = format!("torchrun --nnodes 1 pretrain_gpt.py {good} {more}");
        let ran = turned(&project, &line, &["--device", "a100"]).ends_with(2).says(says);
        assert_eq!(ran.stdout, "", "nothing is printed");
    }
    let at = "--device a100".split(' ').collect::<Vec<_>>();
    for (line, more, says) in [
        (
            "--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 8",
            &[][..],
            "pass --vocab N",
        ),
        (
            "--num-layers 2 --seq-length 8 --vocab-size 9",
            &[],
            "the settings do not say `hidden-size`",
        ),
        (
            "pretrain_gpt.py --hidden-size 64 --tensor-model-parallel-size 3",
            &["--gpus", "8"],
            "ranks are a multiple of tensor x pipeline x context, here 3 x 1 x 1",
        ),
        (
            "for n in 1 2; do pretrain_gpt.py --num-layers $n --hidden-size 8; done",
            &[],
            "`num-layers` is a whole number",
        ),
        ("echo hello", &[], "no command with such flags is in it"),
    ] {
        turned(&project, line, &[&at[..], more].concat()).ends_with(2).says(&[says]);
    }
    turned(&project, good, &["--device", "abacus"]).ends_with(2).says(&["abacus"]);
    let line = format!("{good} --tensor-model-parallel-size 2");
    turned(&project, &line, &["--device", "4090"])
        .ends_with(2)
        .says(&["no machine with 2 of the devices ships"]);
}

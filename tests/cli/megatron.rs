//! `from megatron`: scripts and arguments of Megatron-LM become scenarios of training.

use crate::common::*;
use crate::frameworks::hold;
use serde_json::Value;

fn turned(project: &Project, line: &str, more: &[&str]) -> Ran {
    project.run(&[&["from", "megatron", line, "--no-run"], more].concat())
}

/// A 176B model of BigScience, in the way of tr11-176B-ml.slurm of their repository: a command that
/// `srun` hands to another shell, and servers that Slurm counts. What a condition says that cannot be
/// told is of data alone, and what is in backquotes another program would print.
const SLURM: &str = r#"#!/bin/bash
#SBATCH --nodes=12
#SBATCH --ntasks-per-node=1          # one launcher for each
NNODES=$SLURM_NNODES
GPUS_PER_NODE=8
DATA_ARGS="--num-workers 2 --tokenizer-type PretrainedFromHF"
if [ -z ${DATA_PATH+x} ]; then
    DATA_ARGS="$DATA_ARGS --mock-data"
else
    DATA_ARGS="$DATA_ARGS --data-path $DATA_PATH"
fi
GPT_ARGS=" \
    --pp-partition-method 'type:transformer|embedding' \
    --num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 \
    --micro-batch-size 2 --global-batch-size 32 --embed-layernorm --bf16 \
    --position-embedding-type alibi --pad-vocab-size-to 250880 \
    --tensorboard-dir `pwd`/logs \
    "
export LAUNCHER="python -u -m torch.distributed.run \
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES \
    "
export CMD=" \
    pretrain_gpt.py \
    --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 \
    $GPT_ARGS $DATA_ARGS \
    "
srun --jobid $SLURM_JOBID bash -c "$LAUNCHER --node_rank \$SLURM_PROCID $CMD" 2>&1 | tee -a main_log.txt
"#;

/// Written in the ways in which scripts of public repositories are, with their dimensions.
const SCRIPTS: [(&str, &[&str], &[&str]); 8] = [
    (
        SLURM,
        &["--device", "a100"],
        &[
            "family: bloom, layers: 70, hidden: 14336, ffn: 57344, heads: 112, vocab: 250880, tied: true",
            "parallel: (data: 2, tensor: 4, pipeline: 12)",
            "launcher.nnodes: 12 -> ranks: of 12 servers",
            "$flags.mock-data.data-path: ${DATA_ARGS[@]} -> ignored: a condition that cannot be told decides",
        ],
    ),
    // GPT-3 175B: lists, a product of variables, arguments of the script itself.
    (
        r#"#!/bin/bash
# One job on sixteen servers.
PER_SERVER=8
SERVERS=16
RANKS=$(($PER_SERVER*$SERVERS))
WORDS=$1 # where the words are
MERGES=$2
LAUNCH=(
    --nproc_per_node $PER_SERVER
    --nnodes $SERVERS
)
SHAPE=(
    --num-layers 96
    --hidden-size 12288 --num-attention-heads 96
    --seq-length 2048 --max-position-embeddings 2048
    --attention-backend auto # flash, where there is one
)
STEP=(--micro-batch-size 1 --global-batch-size 64 --rampup-batch-size 16 16 5859375 --fp16 --lr 6.0e-5)
SPLIT=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size 16
)
torchrun ${LAUNCH[@]} pretrain_gpt.py \
    ${SHAPE[@]} ${STEP[@]} \
    ${SPLIT[@]} --vocab-file $WORDS --merge-file $MERGES --split 949,50,1
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
            "line 13: num-layers: 96 ->",
        ],
    ),
    // Llama 3 8B: defaults of variables, tests of what is known and of what is not, lists that grow.
    (
        r#"PLACE=${1:-"runs/8b"}
WORDS=${2:-"NONE"} # a tokenizer, or NONE
mkdir -p "$(dirname "$PLACE")"
PROGRAM="pretrain_gpt.py"
WAYS=1
LENGTH=8192
KIND="fp8"
SHAPE=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length $LENGTH
    --max-position-embeddings $LENGTH --position-embedding-type rope --swiglu --disable-bias-linear
    --attention-dropout 0.0 --hidden-dropout 0.0 --attention-backend fused
    --untie-embeddings-and-output-weights
)
MORE=()
if [[ "$KIND" == "fp8" ]]; then
    MORE+=(
        "--fp8-format hybrid"
    )
fi
SPLIT=(
    --tensor-model-parallel-size $WAYS
    # --pipeline-model-parallel-size 2
    --sequence-parallel
)
STATE=(--use-distributed-optimizer --overlap-grad-reduce)
MORE+=("${STATE[@]}")
if [[ "$WORDS" == "NONE" ]] || [[ -z "$WORDS" ]]; then
    MORE+=("--mock-data" "--vocab-size 128256")
else
    MORE+=("--data-path $WORDS" "--vocab-size 99")
fi
if [ -n "${LOG_KEY}" ]; then
    MORE+=(--wandb-project ${LOG_NAME:-"x"})
fi
if [ ! -f "$PROGRAM" ]; then
    echo "no $PROGRAM here"
    exit 1
fi
torchrun --nproc_per_node 8 --nnodes 1 \
    "$PROGRAM" ${SHAPE[@]} ${MORE[@]} ${SPLIT[@]} \
    --micro-batch-size 1 --global-batch-size 128 --bf16 --grad-reduce-in-bf16
set +x"#,
        &["--device", "h100"],
        &[
            "hardware: \"dgx-h100\"",
            "family: llama, layers: 32, hidden: 4096, ffn: 14336, heads: 32, kv_heads: 8, head_dim: 128, vocab: 128256, tied: false",
            "batch: 16,",
            "parallel: (data: 8)",
            "zero: (stage: 1),",
            "precision: bf16,\n        mode",
            "time: op_times(precision: \"fp8\")",
            "fp8-format: hybrid -> time: op_times(precision: \"fp8\") where products of it are measured",
            "sequence-parallel: true -> ignored: one rank has nothing to split",
        ],
    ),
    // Lists in one text of several lines, a variable for the one command, an older launcher.
    (
        "SHAPE=\"--num-layers 24 \\\n --hidden-size 1024 \\\n --num-attention-heads 16 --seq-length 1024 \\\n\
         --max-position-embeddings 1024 --fp16\"\nLAUNCH=\"--nproc_per_node 8 \\\n --nnodes 1\"\ncd there\n\
         OMP_NUM_THREADS=4 python -m torch.distributed.launch $LAUNCH \\\n pretrain_gpt.py $SHAPE \\\n\
         --micro-batch-size 8 --global-batch-size 8 --tensor-model-parallel-size 8 \\\n --DDP-impl torch\n\ncd ..\n",
        &["--device", "a100", "--vocab", "50304"],
        &[
            "vocab: 51200",
            "parallel: (tensor: 8)",
            "line 2: hidden-size: 1024 ->",
            "$OMP_NUM_THREADS: 4 -> ignored: a variable of the shell",
            "DDP-impl: torch -> ignored",
        ],
    ),
    // Experts, and a default that is a number.
    (
        "SERVERS=${COUNT:-\"1\"}\nSHAPE=(--seq-length 256 --max-position-embeddings 2048 --num-layers 2 --hidden-size 256\n\
         --ffn-hidden-size 896 --num-attention-heads 2 --group-query-attention --num-query-groups 2\n\
         --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm --swiglu --disable-bias-linear\n\
         --position-embedding-type rope --untie-embeddings-and-output-weights)\n\
         EXPERTS=(--num-experts 2 --moe-router-topk 2\n#    --moe-grouped-gemm\n--overlap-grad-reduce)\n\
         torchrun --nproc_per_node 2 --nnodes $SERVERS pretrain_gpt.py ${SHAPE[@]} ${EXPERTS[@]} \\\n\
         --micro-batch-size 1 --global-batch-size 4 --expert-model-parallel-size 2 --use-distributed-optimizer",
        &["--device", "h100", "--vocab", "32000"],
        &[
            "family: mixtral",
            "experts: (count: 2, active: 2)",
            "parallel: (data: 2, expert: 2)",
            "batch: 2,",
            "precision: fp32",
            "time: roofline(precision: \"tf32\")",
            "zero: (stage: 1),",
        ],
    ),
    // BERT, of which the program tells; numbers that are given twice; one text that is run as a
    // command, with the file that it writes to.
    (
        "PLACE=$1\nLAUNCH=\"--nproc_per_node 8 \\\n --nnodes 1\"\n\
         SHAPE=\"--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 --max-position-embeddings 512\"\n\
         STEP=\"--micro-batch-size 4 --global-batch-size 32 --fp16 --weight-decay 1e-2 --clip-grad 1.0 \\\n\
         --weight-decay 1e-2 --clip-grad 1.0 --lr 1e-4\"\n\
         run=\"torchrun $LAUNCH pretrain_bert.py $SHAPE $STEP --save $PLACE &> $PLACE/log\"\necho ${run}\neval ${run}\n",
        &["--device", "h100", "--vocab", "30522"],
        &[
            "launcher.program: pretrain_bert.py -> family: bert",
            "family: bert, layers: 24, hidden: 1024, ffn: 4096, heads: 16, vocab: 30592, positions: 512, tied: true",
            "parallel: (data: 8)",
            "line 5: clip-grad: 1.0 -> ignored: `clip-grad` of line 6 says it again, and the last counts",
        ],
    ),
    // A list of what is only loaded, where it cannot be told whether it is.
    (
        "train() {\n  MORE=()\n  if [ -f latest ] || ls iter_* >/dev/null 2>&1; then\n    MORE=(--load here --no-load-optim)\n  fi\n\
         torchrun --nproc_per_node=8 --nnodes=${SERVERS:-1} x/pretrain_gpt.py --num-layers 4 --hidden-size 256 \\\n\
         --num-attention-heads 4 --seq-length 128 --vocab-size 1024 --bf16 \"${MORE[@]}\"\n}\nwhile true; do\n  train\ndone\n",
        &["--device", "h100"],
        &[
            "$flags.load.no-load-optim: ${MORE[@]} -> ignored: a condition that cannot be told decides, and a step is the same",
            "parallel: (data: 8)",
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
            "//   ffn-hidden-size: not said -> ffn: 10880",
            "parallel: (tensor: 2, pipeline: 4, interleave: 4, sequence: true)",
            "checkpointing: layers(1)",
            "ZeroOffload(optimizer: \"far\", gradients: \"near\", optimizer_share: 0.5)",
            "position-embedding-type: not said -> ignored: Megatron's default is learned_absolute, a table of 16777216 parameters",
            "host_update: 0.5",
            "new-flag: 3 -> ignored: unknown key",
        ],
    ),
];

#[test]
fn scripts_of_megatron_become_scenarios_that_hold() {
    hold(&SCRIPTS, turned);
}

#[test]
fn experts_in_every_layer_are_said_as_a_list_too() {
    let project = Project::shipped();
    let line = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --vocab-size 1024 --swiglu \
                --num-experts 4 --moe-layer-freq ([1]*4)";
    let of_list = turned(&project, line, &["--device", "a100"]).ends_with(0).stdout;
    assert!(of_list.contains("experts: (count: 4, active: 2)"), "{of_list}");
    // What the command says takes the place of a number that another program would print.
    let line = format!("torchrun --nproc_per_node `nvidia-smi -L | wc -l` pretrain_gpt.py {line}");
    project.write("line.sh", line);
    let ran = turned(&project, "line.sh", &["--device", "a100", "--gpus", "2"]).ends_with(0);
    ran.shows(&["parallel: (data: 2)"]);
}

#[test]
fn exchange_beside_products_is_switched_off_and_on_as_megatron_has_it() {
    let project = Project::shipped();
    let line = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --vocab-size 1024 \
                --no-async-tensor-model-parallel-allreduce --tp-comm-overlap";
    for (more, says) in [
        (
            "--tensor-model-parallel-size 2",
            &[
                "parallel: (tensor: 2, overlap: false)",
                "no-async-tensor-model-parallel-allreduce: true -> parallel: (overlap: false)",
                "tp-comm-overlap: true -> ignored: products do not overlap with their own exchange here: that of the \
                 forward pass is exposed",
            ][..],
        ),
        (
            "--tensor-model-parallel-size 2 --sequence-parallel",
            &[
                "parallel: (tensor: 2, sequence: true)",
                "ignored: of jobs without --sequence-parallel, which exchanges beside products anyhow",
            ],
        ),
        ("", &["ignored: one rank has nothing to exchange"]),
    ] {
        turned(&project, &format!("{line} {more}"), &["--device", "a100"]).ends_with(0).shows(says);
    }
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
        // What a framework does is priced by measurement where its machine has some.
        format!("{text})\n")
            .replace("repeat: 1,", "repeat: 2,\n        warmup: 0,")
            .replace("time: roofline(", "time: op_times("),
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
        ("--multi-latent-attention", &["of compressed keys and values are not modelled"]),
        ("--mtp-num-layers 1", &["that predict further tokens"]),
        ("--num-experts 4 --swiglu --moe-layer-freq ([0]*1+[1]*3)", &["blocks without experts"]),
        ("--num-experts 4", &["add --swiglu"]),
        ("--cpu-offloading-num-layers 2", &["ActivationOffload"]),
        ("--decoder-first-pipeline-num-layers 1", &["stages have as many layers"]),
        ("--optimizer-cpu-offload", &["the host updates an fp32 copy of its own"]),
        (
            "--optimizer-cpu-offload --bf16 --optimizer-offload-fraction 2",
            &["is a share from 0 to 1 (found 2)"],
        ),
        ("--recompute-granularity some", &["is full or selective (found some)"]),
        (
            "--recompute-granularity full",
            &["megatron:1:", "has a `recompute-method`", "add --recompute-method uniform"],
        ),
        ("--account-for-loss-in-pipeline-split", &["interleaved stages have to divide them"]),
        ("--attention-backend magic", &["`attention-backend` is auto, flash"]),
        ("--max-position-embeddings 64", &["no less than `seq-length`, here 128 (found 64)"]),
        ("--hidden-dropout 2", &["is a rate from 0 to below 1"]),
        (
            "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3",
            &["divides the layers of a stage"],
        ),
        ("--tensor-model-parallel-size 0", &["a whole number from 1"]),
        ("--num-layers $LAYERS", &["`num-layers` is a whole number", "(found $LAYERS)"]),
        (
            "--lr 1 $MORE_ARGS",
            &["under no condition (found $MORE_ARGS)", "write the flags in its place"],
        ),
        // Of Megatron-DeepSpeed.
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
        (
            "pretrain_t5.py --num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 8",
            &["--vocab", "9"],
            "programs of Megatron that train GPT or BERT are modelled (found pretrain_t5.py)",
        ),
        (
            "pretrain_bert.py --num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 8 \
             --tensor-model-parallel-size 2",
            &["--vocab", "9"],
            "layers of BERT are whole on each rank here (found 2)",
        ),
        (
            "if [ -f x ]; then M=(--load y --bf16); fi\npretrain_gpt.py --num-layers 2 --hidden-size 64 ${M[@]}",
            &[],
            "is said in the same script, under no condition (found ${M[@]})",
        ),
    ] {
        turned(&project, line, &[&at[..], more].concat()).ends_with(2).says(&[says]);
    }
    turned(&project, good, &["--device", "abacus"]).ends_with(2).says(&["abacus"]);
    let line = format!("{good} --tensor-model-parallel-size 2");
    turned(&project, &line, &["--device", "4090"])
        .ends_with(2)
        .says(&["no machine with 2 of the devices ships"]);
}

/// Four ranks of each server, where the machine's servers have eight: told, and not taken.
#[test]
fn servers_that_the_machine_does_not_have_are_told() {
    let project = Project::shipped();
    let good = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 \
                --vocab-size 1024 --max-position-embeddings 128";
    let line = format!("torchrun --nproc_per_node 4 --nnodes 2 pretrain_gpt.py {good}");
    let ran = turned(&project, &line, &["--device", "a100"]).ends_with(0);
    ran.shows(&["ignored: not modelled: ranks fill servers of 8, so that 8 share one"]);
}

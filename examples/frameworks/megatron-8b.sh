#!/bin/bash
# Llama 3 8B on one server of eight GPUs, as Megatron-LM's own examples are written.
GPUS_PER_NODE=8
TP=2
SEQ=4096

DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes 1)

MODEL_ARGS="
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --seq-length $SEQ
    --max-position-embeddings $SEQ
    --position-embedding-type rope
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --vocab-size 128256
"

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py $MODEL_ARGS \
    --tensor-model-parallel-size $TP \
    --sequence-parallel \
    --micro-batch-size 1 \
    --global-batch-size $((GPUS_PER_NODE / TP * 4)) \
    --recompute-granularity selective \
    --use-distributed-optimizer \
    --overlap-grad-reduce \
    --bf16 \
    --lr 3e-4 \
    --train-iters 1000

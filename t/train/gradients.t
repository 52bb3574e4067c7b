#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --grad-reduce-in-bf16 on CPUs: losses next to those with gradients in fp32, every layout, resume,
# memory, bad input.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/losses.sh"
llama+=(--qk-layernorm)
bert=("${gpt[@]}" --masked-lm --post-norm --exact-gelu --num-token-types 2 --bert-binary-head --mask-id 59)

# --- Next to the same run with gradients in fp32
for family in gpt llama bert; do
    declare -n model=$family
    train 1 "${model[@]}" --train-iters 12
    is "$rc $(wc -l <<<"$losses")" "0 12" "$family with gradients in fp32 trains" || diag "$(tail -n 3 "$scratch/out")"
    expected=$losses
    for more in "" "--optimizer sgd" "--fp8-format hybrid"; do
        [ -z "$more" ] || { train 1 "${model[@]}" --train-iters 12 $more; expected=$losses; }
        train 1 "${model[@]}" --train-iters 12 --grad-reduce-in-bf16 $more
        near "$family${more:+ $more}: losses near those with gradients in fp32" 5e-3
        [ "$losses" != "$expected" ]
        ok "$family${more:+ $more}: but not the same ones"
        is "$(head -n 1 <<<"$losses")" "$(head -n 1 <<<"$expected")" "$family${more:+ $more}: the first forward pass is the same"
    done
done

# --- Layouts give one rank's losses, within the rounding of gradients.
declare -A layout=([tp2]="2 --tensor-model-parallel-size 2" [tp2-sp]="2 --tensor-model-parallel-size 2 --sequence-parallel"
    [dp2]=2 [dp4]=4 [pp2]="2 --pipeline-model-parallel-size 2" [cp2]="2 --context-parallel-size 2"
    [interleaved]="2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1"
    [dp2-pp2]="4 --pipeline-model-parallel-size 2" [tp2-pp2]="4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"
    [evaluated]="2 --eval-iters 1 --eval-interval 2 --log-params-norm" [recomputed]="1 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    [offloaded]="1 --optimizer-cpu-offload" [buckets]="2 --ddp-bucket-size 5000")
train 1 "${gpt[@]}" --train-iters 8 --grad-reduce-in-bf16
whole=$losses
expected=$(head -n 4 <<<"$whole") # later rounding has grown
for name in tp2 tp2-sp dp2 dp4 pp2 cp2 dp2-pp2 tp2-pp2 evaluated interleaved recomputed offloaded buckets; do
    # shellcheck disable=SC2086
    train ${layout[$name]} "${gpt[@]}" --train-iters 4 --grad-reduce-in-bf16
    near "$name: the losses of one rank" 1e-4
done

# --- Resume is exact: gradients are no part of a checkpoint, which either kind of run continues.
train 1 "${gpt[@]}" --train-iters 4 --grad-reduce-in-bf16 --save "$scratch/saved" --save-interval 4
is "$rc" 0 "a run saves a checkpoint"
train 1 "${gpt[@]}" --train-iters 8 --grad-reduce-in-bf16 --load "$scratch/saved"
expected=$(tail -n 4 <<<"$whole")
is "$losses" "$expected" "and another continues it exactly"
train 1 "${gpt[@]}" --train-iters 8 --load "$scratch/saved"
near "also with gradients in fp32" 1e-3

# --- Memory
gradients() { # OPTION...
    try "$megatron" train --dry-run --world-size 1 --megatron-model gpt2-345m --micro-batch-size 1 --train-iters 1 --lr 1e-4 --bf16 \
        --mock-data "$@"
    sed -nE 's/.*gradients +([0-9.]+).*/\1/p' <<<"$out" | head -n 1
}
both="$(gradients) $(gradients --grad-reduce-in-bf16)"
is "$(gradients --grad-reduce-in-bf16 --main-grads-dtype fp32)" "${both#* }" "--main-grads-dtype fp32 does not undo --grad-reduce-in-bf16"
awk '{ exit !($1 > 1 && $2 > 0.49 * $1 && $2 < 0.51 * $1) }' <<<"$both"
ok "gradients need half the memory" || diag "$both"
planned "a run on CPUs takes no more memory than planned" --grad-reduce-in-bf16

# --- Bad input
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 --grad-reduce-in-bf16 --optimizer muon
is "$rc" 2 "Muon needs gradients in fp32"
like "$out" '^megatron train: --grad-reduce-in-bf16 cannot be used with --optimizer muon' "with the reason"
try "$megatron" train --dry-run --world-size 1 --megatron-model gpt2-345m --micro-batch-size 1 --train-iters 1 --lr 1e-4 --mock-data \
    --grad-reduce-in-bf16
is "$rc" 2 "on GPUs it needs --bf16"
like "$out" '^megatron train: --grad-reduce-in-bf16 requires --bf16' "with the reason"
done_testing

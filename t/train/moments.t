#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Adam's moments in bf16 (--use-precision-aware-optimizer) on CPUs: losses next to those with moments in fp32, layouts, offload,
# resume, files, memory, bad input.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/losses.sh"
aware=(--use-precision-aware-optimizer --adam-beta2 0.95)
both=("${aware[@]}" --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16)

# --- Next to the same run with moments in fp32
for family in gpt llama; do
    declare -n model=$family
    train 1 "${model[@]}" --train-iters 12 "${aware[@]}"
    is "$rc $(wc -l <<<"$losses")" "0 12" "$family with moments in fp32 trains" || diag "$(tail -n 3 "$scratch/out")"
    expected=$losses
    train 1 "${model[@]}" --train-iters 12 --adam-beta2 0.95
    is "$losses" "$expected" "$family: --use-precision-aware-optimizer by itself changes nothing"
    for types in "--exp-avg-dtype bf16" "--exp-avg-sq-dtype bf16" "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"; do
        # shellcheck disable=SC2086
        train 1 "${model[@]}" --train-iters 12 "${aware[@]}" $types
        near "$family $types: losses near those in fp32" 5e-3
        [ "$losses" != "$expected" ]
        ok "$family $types: but not the same ones"
        is "$(head -n 1 <<<"$losses")" "$(head -n 1 <<<"$expected")" "$family $types: the first forward pass is the same"
    done
done

# --- Layouts give one rank's losses; moments are rounded alike wherever they are.
train 1 "${gpt[@]}" --train-iters 4 "${both[@]}"
expected=$losses
declare -A layout=([tp2]="2 --tensor-model-parallel-size 2" [dp2]=2 [dp4]=4 [pp2]="2 --pipeline-model-parallel-size 2"
    [buckets]="2 --ddp-bucket-size 5000" [narrow-gradients]="2 --main-grads-dtype bf16")
for name in tp2 dp2 dp4 pp2 buckets narrow-gradients; do
    # shellcheck disable=SC2086
    train ${layout[$name]} "${gpt[@]}" --train-iters 4 "${both[@]}"
    near "$name: the losses of one rank" $([ $name = narrow-gradients ] && echo 1e-3 || echo 1e-4)
done

# The norm of the weights, also of master weights, which CPUs have with weights in fp8.
norms() { grep -oE 'params norm: [0-9.]+' "$scratch/out"; }
for more in "" "--fp8-format hybrid --fp8-param-gather"; do
    # shellcheck disable=SC2086
    train 1 "${gpt[@]}" --train-iters 3 "${both[@]}" --log-params-norm $more
    expected="3 $(norms)"
    # shellcheck disable=SC2086
    train 1 "${gpt[@]}" --train-iters 3 "${both[@]}" --log-params-norm $more --optimizer-cpu-offload --optimizer-offload-fraction 0.4
    is "$(norms | wc -l) $(norms)" "$expected" "the norm of the weights, a part of the state in host memory${more:+, $more}"
done

# --- State in host memory, and resume, are exact with each combination of types.
for types in "--exp-avg-dtype bf16" "--exp-avg-sq-dtype bf16" "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"; do
    # shellcheck disable=SC2206
    run=("${gpt[@]}" --train-iters 8 "${aware[@]}" $types)
    half=(--optimizer-cpu-offload --optimizer-offload-fraction 0.4)
    rm -rf "$scratch"/{saved,parts}
    train 1 "${run[@]}"
    whole=$losses expected=$(tail -n 4 <<<"$losses")
    for part in 1 0.4; do
        train 1 "${run[@]}" --optimizer-cpu-offload --optimizer-offload-fraction $part
        is "$losses" "$whole" "$types: $part of the state in host memory: the same losses"
    done
    train 1 "${run[@]}" --train-iters 4 --save "$scratch/saved" --save-interval 4 --async-save
    is "$rc" 0 "$types: a run saves a checkpoint"
    train 1 "${run[@]}" --load "$scratch/saved"
    is "$losses" "$expected" "$types: and another continues it exactly"
    train 1 "${run[@]}" --load "$scratch/saved" "${half[@]}"
    is "$losses" "$expected" "$types: also with a part of its state in host memory"
    train 1 "${run[@]}" --train-iters 4 --save "$scratch/parts" --save-interval 4 "${half[@]}"
    train 1 "${run[@]}" --load "$scratch/parts"
    is "$losses" "$expected" "$types: also if the part was there when it was saved"
    train 2 "${run[@]}" --load "$scratch/saved" --ddp-bucket-size 5000
    near "$types: also with two ranks" 1e-4
    train 1 "${run[@]}" --load "$scratch/saved" --save "$scratch/weights" --save-interval 2 --no-save-optim
    is "$rc $losses" "0 $expected" "$types: a run that saves weights only continues in the same way"
    rm -rf "$scratch/weights"
done
train 1 "${gpt[@]}" --train-iters 8 "${aware[@]}" --load "$scratch/saved"
near "a run with moments in fp32 continues one in bf16" 2e-3
train 1 "${gpt[@]}" --train-iters 4 --adam-beta2 0.95 --save "$scratch/wide" --save-interval 4
train 1 "${gpt[@]}" --train-iters 8 "${both[@]}" --load "$scratch/wide"
near "and the other way round" 2e-3
train 1 "${gpt[@]}" --train-iters 8 "${both[@]}" --memory-efficient-fp16 --save "$scratch/half" --save-interval 4
whole=$losses
rm -rf "$scratch/half/iter_0000008"
train 1 "${gpt[@]}" --train-iters 8 "${both[@]}" --memory-efficient-fp16 --load "$scratch/half"
is "$losses" "$(tail -n 4 <<<"$whole")" "fp16 weights without master weights are resumed exactly"

# --- Memory
optimizer() { # OPTION...
    try "$megatron" train --dry-run --world-size 1 --megatron-model gpt2-345m --micro-batch-size 1 --train-iters 1 --lr 1e-4 --bf16 \
        --mock-data "$@"
    sed -nE 's/.*optimizer +([0-9.]+).*/\1/p' <<<"$out" | head -n 1
}
sizes="$(optimizer) $(optimizer "${aware[@]}" --exp-avg-dtype bf16) $(optimizer "${both[@]}")"
awk '{ a = $2 / $1; b = $3 / $1; exit !($1 > 1 && a > 0.825 && a < 0.841 && b > 0.658 && b < 0.675) }' <<<"$sizes"
ok "of 12 bytes per parameter each of them saves two" || diag "$sizes"

# --- Bad input
refused() { # NAME TEXT OPTION...
    local name=$1 text=$2
    shift 2
    try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 "$@"
    is "$rc" 2 "$name"
    like "$out" "^megatron train: $text" "  with the reason"
}
refused "a type without the option that allows it" '--exp-avg-dtype and --exp-avg-sq-dtype require --use-precision-aware-optimizer; add it' \
    --exp-avg-dtype bf16
refused "another optimizer" '--exp-avg-dtype and --exp-avg-sq-dtype require --optimizer adam' "${both[@]}" --optimizer sgd
refused "Muon" '--exp-avg-dtype and --exp-avg-sq-dtype require --optimizer adam' "${both[@]}" --optimizer muon
refused "a type that is not supported" '.*exp-avg-sq-dtype.*fp8' --use-precision-aware-optimizer --exp-avg-sq-dtype fp8
refused "another type of master weights" '.*main-params-dtype.*fp16' --main-params-dtype fp16
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 --use-precision-aware-optimizer --main-grads-dtype fp32 \
    --main-params-dtype fp32 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16
is "$rc" 0 "the options of a script for Megatron-LM"
like "$out" 'with --exp-avg-sq-dtype bf16 and --adam-beta2 0.999 the average of squared gradients cannot follow them' \
    "a warning that beta2 is too large"
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 "${both[@]}"
unlike "$out" 'cannot follow' "and none with a small one"
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 --optimizer sgd --use-precision-aware-optimizer
like "$out" 'use-precision-aware-optimizer has no effect without --optimizer adam' "a warning with another optimizer"
done_testing

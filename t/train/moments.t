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
train 1 "${gpt[@]}" --train-iters 8 "${both[@]}"
whole=$losses
expected=$(head -n 4 <<<"$whole")
declare -A layout=([tp2]="2 --tensor-model-parallel-size 2" [dp2]=2 [dp4]=4 [pp2]="2 --pipeline-model-parallel-size 2"
    [buckets]="2 --ddp-bucket-size 5000" [narrow-gradients]="2 --grad-reduce-in-bf16" [params-norm]="2 --log-params-norm")
for name in tp2 dp2 dp4 pp2 buckets params-norm narrow-gradients; do
    # shellcheck disable=SC2086
    train ${layout[$name]} "${gpt[@]}" --train-iters 4 "${both[@]}"
    near "$name: the losses of one rank" $([ $name = narrow-gradients ] && echo 1e-3 || echo 1e-4)
done
for part in 1 0.4; do
    train 1 "${gpt[@]}" --train-iters 8 "${both[@]}" --optimizer-cpu-offload --optimizer-offload-fraction $part
    is "$losses" "$whole" "$part of the state in host memory: the same losses"
done
train 1 "${gpt[@]}" --train-iters 8 "${both[@]}" --fp8-format hybrid --fp8-param-gather
is "$rc $(wc -l <<<"$losses")" "0 8" "weights that are kept in fp8, with master weights" || diag "$(tail -n 3 "$scratch/out")"

# --- Resume is exact, also of a part that was in host memory and in another layout; either kind of run continues.
train 1 "${gpt[@]}" --train-iters 4 "${both[@]}" --save "$scratch/saved" --save-interval 4 --optimizer-cpu-offload --optimizer-offload-fraction 0.4
is "$rc" 0 "a run saves a checkpoint"
expected=$(tail -n 4 <<<"$whole")
train 1 "${gpt[@]}" --train-iters 8 "${both[@]}" --load "$scratch/saved"
is "$losses" "$expected" "and another continues it exactly"
train 1 "${gpt[@]}" --train-iters 8 "${both[@]}" --load "$scratch/saved" --optimizer-cpu-offload
is "$losses" "$expected" "also with its state in host memory"
train 2 "${gpt[@]}" --train-iters 8 "${both[@]}" --load "$scratch/saved"
near "also with two ranks" 1e-4
train 1 "${gpt[@]}" --train-iters 8 "${aware[@]}" --load "$scratch/saved"
near "also with moments in fp32" 2e-3
train 1 "${gpt[@]}" --train-iters 4 --adam-beta2 0.95 --save "$scratch/wide" --save-interval 4
train 1 "${gpt[@]}" --train-iters 8 "${both[@]}" --load "$scratch/wide"
is "$rc $(wc -l <<<"$losses")" "0 4" "moments in fp32 continue in bf16" || diag "$(tail -n 3 "$scratch/out")"
near "  with nearly the same losses" 2e-3

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
refused "another type of master weights" '.*main-params-dtype.*master weights are fp32' --main-params-dtype fp16
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 --use-precision-aware-optimizer --exp-avg-sq-dtype bf16
like "$rc $out" '^0 .*with --exp-avg-sq-dtype bf16 and --adam-beta2 0.999 the average of squared gradients hardly falls' \
    "a warning that beta2 is too large"
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 "${both[@]}"
unlike "$out" 'hardly falls' "and none with a small one"
done_testing

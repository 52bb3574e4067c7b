#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training in fp8 with blockwise scales, emulated on CPUs: losses next to fp32, every layout, checkpoints, Inf, bad input.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/losses.sh"
sizes=(--num-layers 2 --hidden-size 256 --num-attention-heads 4 --kv-channels 64 --ffn-hidden-size 512 --seq-length 128
    --global-batch-size 2 --lr 3e-4)
gpt=("${sizes[@]}")
llama=("${sizes[@]}" --swiglu --position-embedding-type rope --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 4)
blocks=(--fp8-format e4m3 --fp8-recipe blockwise)

# --- Next to the same run in fp32. Later losses are below 1, and the differences grow: 1.1 % after 11 steps on one CPU.
for family in gpt llama; do
    declare -n model=$family
    train 1 "${model[@]}" --train-iters 10
    expected=$losses
    is "$(wc -l <<<"$losses")" 10 "$family in fp32" || diag "$(tail -n 3 "$scratch/out")"
    for options in "--fp8-format e4m3" "--fp8-format hybrid"; do
        # shellcheck disable=SC2086
        train 1 "${model[@]}" --train-iters 10 --fp8-recipe blockwise $options
        near "$family, $options: 10 losses within 1 %" 0.01
        [ "$losses" != "$expected" ]
        ok "  and not the same"
    done
done
train 1 "${llama[@]}" --train-iters 10 "${blocks[@]}" --fp8-bf16-fc2-input --no-fp8-wgrad
near "llama, fc2's input and gradients of weights without fp8" 0.01

# --- Layouts. A part of a rank consists of whole blocks.
train 1 "${llama[@]}" "${blocks[@]}" --train-iters 4
expected=$losses
train 1 "${llama[@]}" "${blocks[@]}" --train-iters 4 --recompute-granularity full
is "$losses" "$expected" "full recomputation: the same losses"
train 1 "${llama[@]}" "${blocks[@]}" --train-iters 4 --recompute-activations
is "$losses" "$expected" "selective recomputation: the same losses"
train 1 "${llama[@]}" "${blocks[@]}" --train-iters 4 --random-order
is "$losses" "$expected" "streams in random order: the same losses"
t=--tensor-model-parallel-size p=--pipeline-model-parallel-size
while read -r ranks layout; do
    # shellcheck disable=SC2086
    train "$ranks" "${llama[@]}" "${blocks[@]}" --train-iters 4 $layout
    near "${layout//--/}: losses within 0.1 %" 0.001
done <<EOT
2 $t 2
2 $t 2 --sequence-parallel
2 $p 2
2 --context-parallel-size 2 --micro-batch-size 2
1 --micro-batch-size 2
2 --grad-reduce-in-bf16
4 $t 2 $p 2
EOT

# --- Weights in fp8 only: the border of a shard is within a square. Weights shrink, so that scales change.
gather=(--train-iters 2 --global-batch-size 3 --weight-decay 2500)
train 3 "${gpt[@]}" "${blocks[@]}" "${gather[@]}" --save-hf "$scratch/hf"
expected=$losses
train 3 "${gpt[@]}" "${blocks[@]}" "${gather[@]}" --save-hf "$scratch/hf8" --fp8-param-gather --random-order
is "$losses" "$expected" "weights in fp8 only: the same losses" || diag "$(tail -n 3 "$scratch/out")"
cmp "$scratch"/hf{,8}/model.safetensors
ok "  and master weights"

# --- Checkpoints. There is no state to take over: the file says which recipe it was.
train 1 "${gpt[@]}" "${blocks[@]}" --train-iters 5 --save "$scratch/whole"
expected=$(tail -n 2 <<<"$losses")
train 1 "${gpt[@]}" "${blocks[@]}" --train-iters 3 --save "$scratch/parts"
like "$(head -c 128 "$scratch/parts/iter_0000003/fp8_scales")" '^megatron fp8 scales 1 e4m3 blockwise count 24 history 1 ' "the checkpoint names the recipe"
is "$(od -An -v -tf4 -w4 -j128 "$scratch/parts/iter_0000003/fp8_scales" | grep -vc '^ *0$')" 0 "  and has no scales"
train 1 "${gpt[@]}" "${blocks[@]}" --train-iters 5 --load "$scratch/parts" --save "$scratch/parts"
is "$losses" "$expected" "a resumed run continues with the same losses"
unlike "$(cat "$scratch/out")" 'the checkpoint was trained|no fp8 scales' "  without a warning"
cmp "$scratch"/{whole,parts}/iter_0000005/fp8_scales && cmp "$scratch"/{whole,parts}/iter_0000005/rank_00000.safetensors
ok "  and ends with the same bytes"
train 2 "${gpt[@]}" "${blocks[@]}" --train-iters 7 --load "$scratch/whole" $t 2
is "$rc $(wc -l <<<"$losses")" "0 2" "resumed on another layout"
while IFS='|' read -r options text; do
    # shellcheck disable=SC2086
    train 1 "${gpt[@]}" --train-iters 6 --load "$scratch/whole" $options
    is "$rc $(grep -c 'lm loss' "$scratch/out")" "0 1" "checkpoint of other settings: $options"
    like "$(cat "$scratch/out")" "warning: the checkpoint $text" "  says so"
done <<'EOT'
|was trained in fp8 \(e4m3, blockwise scaling\), and this run does not use fp8; to continue in fp8, use --fp8-format
--fp8-format e4m3 --fp8-recipe tensorwise|was trained with other settings of fp8: --fp8-recipe \(blockwise, here tensorwise\); the first step uses current amaxes, no action is needed
--fp8-format hybrid --fp8-recipe blockwise|was trained with other settings of fp8: --fp8-format \(e4m3, here hybrid\); the first step uses current amaxes
EOT
"$megatron" checkpoint verify "$scratch/whole" >"$scratch/out" 2>&1
is $? 0 "megatron checkpoint verify"
"$megatron" evaluate "${common[@]}" "${gpt[@]}" --load "$scratch/whole" "${blocks[@]}" --eval-iters 1 --split 50,50,0 >"$scratch/out" 2>&1
like "$(cat "$scratch/out")" 'validation loss at iteration [0-9]+ on validation set' "megatron evaluate" || diag "$(tail -n 3 "$scratch/out")"

# --- Inf and NaN
train 1 "${gpt[@]}" "${blocks[@]}" --train-iters 4 --lr 1e30 --clip-grad 0
is "$(grep -c 'warning: an input, weight or gradient of an fp8 layer was inf or NaN' "$scratch/out")" 1 "inf or NaN is reported once"
like "$(grep 'iteration *4/' "$scratch/out")" 'skipped iterations: *1 ' "  and its step is skipped"

# --- What is said at the start
try "$megatron" train "${common[@]}" "${gpt[@]}" --dry-run --world-size 1 --train-iters 1 --ffn-hidden-size 528 "${blocks[@]}" \
    --first-last-layers-bf16 --num-layers-at-start-in-bf16 0
like "$out" '> fp8: linear layers in e4m3, blockwise scaling by powers of two, emulated on the CPU' "the start-up lines: the recipe"
like "$out" '> fp8: fc1 of every layer stays in fp32: its 256 inputs and 528 outputs per rank are not both multiples of 128' "  sizes"
like "$out" '> fp8: the last 1 layer stays in fp32' "  layers"
try "$megatron" train --dry-run --megatron-model gpt2-345m --micro-batch-size 4 --train-iters 1 --lr 1e-4 --bf16 "${blocks[@]}"
like "$out" '^  A100-80: no fp8$' "the verdict: GPUs without fp8" || diag "$out"
like "$out" '^  B200: no fp8 with blockwise scales$' "  and without blockwise scales"
like "$out" '^  H200: [0-9.]* GiB free' "  and one that has them"

# --- Memory: copies of the weights in fp8 are paid for by what is kept in fp8, here for layers of Llama 3 8B and of GPT.
total() { # OPTION...
    "$megatron" train --dry-run --device cuda --world-size 1 --vocab-size 32000 --train-iters 1 --lr 1e-4 --bf16 "$@" 2>&1 |
        sed -nE 's/.*memory \(GiB\): .* total ([0-9.]+).*/\1/p'
}
llama8b=(--num-layers 8 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --micro-batch-size 4 --global-batch-size 4 --swiglu
    --position-embedding-type rope --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights
    --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336)
gpt345m=(--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --micro-batch-size 32 --global-batch-size 32)
for name in llama8b gpt345m; do
    declare -n layers=$name
    most=$(total "${layers[@]}")
    for options in "--fp8-format hybrid" "${blocks[*]}"; do
        # shellcheck disable=SC2086
        needed=$(total "${layers[@]}" $options)
        [ -n "$most" ] && [ -n "$needed" ] && awk -v a="$needed" -v b="$most" 'BEGIN { exit !(a < b) }'
        ok "$name, $options: less memory than in bf16" || diag "$needed GiB, in bf16 $most GiB"
    done
done

# --- Bad input
while IFS='|' read -r options text; do
    # shellcheck disable=SC2086
    try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 "${blocks[@]}" $options
    is "$rc" 2 "refused: $options" || diag "$out"
    like "$out" "$text" "  with the reason"
done <<'EOT'
--seq-length 144|fp8 with blockwise scaling: the number of tokens per rank must be a multiple of 128; --micro-batch-size x --seq-length / --context-parallel-size is 144
--hidden-size 144 --num-attention-heads 2 --kv-channels 16 --ffn-hidden-size 144|fp8 with blockwise scaling needs linear layers whose sizes are multiples of 128, and this model has none: --hidden-size=144
EOT
done_testing

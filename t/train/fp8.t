#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training in fp8, emulated on CPUs: losses next to those without fp8, every layout, checkpoints, bad input.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/losses.sh"
llama+=(--group-query-attention --num-query-groups 2)
history=(--fp8-format hybrid --fp8-amax-history-len 3 --fp8-amax-compute-algo max)

# --- Next to the same run without fp8
for family in gpt llama; do
    declare -n model=$family
    train 1 "${model[@]}" --train-iters 12
    expected=$losses
    is "$(wc -l <<<"$losses")" 12 "$family without fp8" || diag "$(tail -n 3 "$scratch/out")"
    for options in "--fp8-format hybrid" "--fp8-format e4m3 --fp8-recipe tensorwise"; do
        # shellcheck disable=SC2086
        train 1 "${model[@]}" --train-iters 12 $options
        near "$family, $options: losses within 1 %" 0.01
        [ "$losses" != "$expected" ]
        ok "  and not the same"
    done
done
train 1 "${llama[@]}" --train-iters 12 --fp8-format hybrid --fp8-bf16-fc2-input --no-fp8-wgrad
near "llama, fc2's input and gradients of weights without fp8" 0.01

# --- Layouts: scales of the first step are those of a rank's own part.
train 1 "${llama[@]}" "${history[@]}" --train-iters 4
expected=$losses
train 1 "${llama[@]}" "${history[@]}" --train-iters 4 --recompute-granularity full
is "$losses" "$expected" "full recomputation: the same losses"
train 1 "${llama[@]}" "${history[@]}" --train-iters 4 --random-order
is "$losses" "$expected" "streams in random order: the same losses"
t=--tensor-model-parallel-size p=--pipeline-model-parallel-size
for layout in "$t 2" "$p 2 --num-layers-per-virtual-pipeline-stage 1" "--context-parallel-size 2" "--micro-batch-size 2"; do
    ranks=2
    [ "$layout" = "--micro-batch-size 2" ] && ranks=1
    # shellcheck disable=SC2086
    train $ranks "${llama[@]}" "${history[@]}" --train-iters 4 $layout
    near "${layout//--/}: losses within 0.1 %" 0.001
done
train 1 "${llama[@]}" "${history[@]}" --train-iters 4 --fp8-param-gather
is "$losses" "$expected" "weights in fp8 only: the same losses"
train 2 "${llama[@]}" "${history[@]}" --train-iters 4
near "data-parallel: losses within 0.1 %" 0.001

# --- Weights in fp8 only, cast from shards of fp32 master weights: without the option they are cast from fp32, too.
expected=$losses
train 2 "${llama[@]}" "${history[@]}" --train-iters 4 --fp8-param-gather --ddp-bucket-size 5000 --random-order
is "$losses" "$expected" "data-parallel, weights in fp8 only: the same losses"
like "$(cat "$scratch/out")" '> fp8: weights are kept and gathered in e4m3' "  the start-up lines"
while read -r ranks layout; do
    for gather in "" "--fp8-param-gather --random-order"; do
        expected=$losses
        # shellcheck disable=SC2086
        train "$ranks" "${gpt[@]}" --fp8-format e4m3 --fp8-recipe tensorwise --train-iters 4 $layout --save-hf "$scratch/hf${gather%% *}" $gather
    done
    is "$losses" "$expected" "tensorwise, ${layout//--/}: the same losses" || diag "$(tail -n 3 "$scratch/out")"
    cmp "$scratch"/hf{,--fp8-param-gather}/model.safetensors
    ok "  and Hugging Face weights"
    rm -rf "$scratch"/hf*
done <<EOT
4 $t 2 --optimizer muon
2 --optimizer-cpu-offload --optimizer-offload-fraction 0.6 --grad-reduce-in-bf16 --fp8-bf16-fc2-input
EOT

# --- Checkpoints
train 1 "${gpt[@]}" "${history[@]}" --train-iters 5 --save "$scratch/whole"
expected=$(tail -n 2 <<<"$losses")
train 2 "${gpt[@]}" "${history[@]}" --train-iters 3 --save "$scratch/two" $p 2
train 1 "${gpt[@]}" "${history[@]}" --train-iters 3 --save "$scratch/parts"
is "$(od -An -v -tf4 -w4 -j128 -N$((48 * 4)) "$scratch/two/iter_0000003/fp8_scales" | grep -vc '^ *0$')" 48 \
    "two pipeline stages save the scales of all layers"
train 1 "${gpt[@]}" "${history[@]}" --train-iters 5 --load "$scratch/parts" --save "$scratch/parts"
is "$losses" "$expected" "a resumed run continues with the same losses"
cmp "$scratch"/{whole,parts}/iter_0000005/fp8_scales && cmp "$scratch"/{whole,parts}/iter_0000005/rank_00000.safetensors
ok "  and ends with the same bytes"
train 1 "${gpt[@]}" "${history[@]}" --train-iters 5 --load "$scratch/parts" --ckpt-step 3 --fp8-param-gather --save "$scratch/gather"
is "$losses" "$expected" "  also with weights in fp8 only"
cmp "$scratch"/{whole,gather}/iter_0000005/fp8_scales
ok "  and the same scales"
train 1 "${gpt[@]}" "${history[@]}" --train-iters 6 --load "$scratch/whole"
whole=$losses
train 1 "${gpt[@]}" "${history[@]}" --train-iters 6 --load "$scratch/gather" --fp8-param-gather
is "$rc $losses" "0 $whole" "  which a resumed run continues with the same losses"
train 2 "${gpt[@]}" "${history[@]}" --train-iters 5 --load "$scratch/two" $t 2
near "resumed on another layout" 0.001
load=(--train-iters 4 --load "$scratch/two")
while IFS='|' read -r options text; do
    # shellcheck disable=SC2086
    train 1 "${gpt[@]}" "${load[@]}" $options
    is "$rc $(grep -c 'lm loss' "$scratch/out")" "0 1" "checkpoint of other settings: $options"
    like "$(cat "$scratch/out")" "warning: the checkpoint $text" "  says so"
done <<'EOT'
|was trained in fp8 \(hybrid, delayed scaling\), and this run does not use fp8; to continue in fp8, use --fp8-format
--fp8-format e4m3 --fp8-amax-history-len 3 --fp8-amax-compute-algo max|was trained with other settings of fp8: --fp8-format \(hybrid, here e4m3\); the first step uses current amaxes, no action is needed
--fp8-format hybrid --fp8-recipe tensorwise|was trained with other settings of fp8: --fp8-recipe \(delayed, here tensorwise\); the first step uses current amaxes
--fp8-format hybrid --fp8-amax-history-len 2 --fp8-amax-compute-algo max|was trained with other settings of fp8: --fp8-amax-history-len \(3, here 2\); the amax history is taken over, no action is needed
--fp8-format hybrid --fp8-margin 2|.*: --fp8-amax-history-len \(3, here 1\), --fp8-margin \(0, here 2\), --fp8-amax-compute-algo \(max, here most_recent\); the amax history is taken over, and the first step uses current amaxes
EOT
train 1 "${gpt[@]}" "${load[@]}" --fp8-format hybrid --fp8-recipe tensorwise
expected=$losses
for options in "--fp8-amax-compute-algo most_recent" "--fp8-margin 1"; do
    # shellcheck disable=SC2086
    train 1 "${gpt[@]}" "${history[@]}" "${load[@]}" $options --save "$scratch/other"
    is "$losses" "$expected" "checkpoint of another ${options%% *}: the first step uses current amaxes"
    is "$(od -An -v -tf4 -w4 -j$((128 + 2 * 48 * 4)) "$scratch/other/iter_0000004/fp8_scales" | grep -vc '^ *0$')" 96 "  and keeps the history"
    rm -r "$scratch/other"
done
train 1 "${gpt[@]}" "${history[@]}" "${load[@]}"
expected=$losses
unlike "$(cat "$scratch/out")" 'warning: the checkpoint' "checkpoint of the same settings: no warning"
train 1 "${gpt[@]}" "${history[@]}" "${load[@]}" --fp8-amax-history-len 5
is "$losses" "$expected" "  of a shorter history: the first step uses its scales"
train 1 "${gpt[@]}" --train-iters 3 --save "$scratch/plain"
train 1 "${gpt[@]}" --train-iters 4 --load "$scratch/plain" --fp8-format hybrid
like "$(cat "$scratch/out")" 'warning: the checkpoint has no fp8 scales' "fp8 from a checkpoint without it"
"$megatron" checkpoint verify "$scratch/whole" >"$scratch/out" 2>&1
is $? 0 "megatron checkpoint verify"
train 1 "${gpt[@]}" "${history[@]}" --train-iters 3 --save "$scratch/lost" --save-interval 1
expected=$(tail -n 1 <<<"$losses")
mv "$scratch/lost/iter_0000003/fp8_scales" "$scratch"
like "$("$megatron" checkpoint verify "$scratch/lost" 2>&1)" 'iter_0000003: damaged: .*fp8_scales.*No such file' "  of lost scales"
train 1 "${gpt[@]}" "${history[@]}" --train-iters 3 --load "$scratch/lost"
like "$(cat "$scratch/out")" 'warning: checkpoint iter_0000003 is damaged: .*fp8_scales.*; trying the one before it' \
    "a run does not resume from a checkpoint that lost its scales"
is "$losses" "$expected" "  but from the one before it" || diag "$(tail -n 3 "$scratch/out")"
cp "$scratch/lost/iter_0000002/fp8_scales" "$scratch/lost/iter_0000003"
like "$("$megatron" checkpoint verify "$scratch/lost" 2>&1)" 'fp8_scales has a wrong size or checksum' "  nor with the scales of another checkpoint"
mv "$scratch/fp8_scales" "$scratch/lost/iter_0000003"
"$megatron" checkpoint verify "$scratch/lost" >/dev/null 2>&1
is $? 0 "  the right ones make it intact"
printf X | dd of="$scratch/whole/iter_0000005/fp8_scales" bs=1 seek=300 conv=notrunc status=none
like "$("$megatron" checkpoint verify "$scratch/whole" 2>&1)" 'fp8_scales has a wrong size or checksum' "  of damaged scales"
"$megatron" evaluate "${common[@]}" "${gpt[@]}" --load "$scratch/two" --fp8-format hybrid --eval-iters 1 --split 50,50,0 >"$scratch/out" 2>&1
like "$(cat "$scratch/out")" 'validation loss at iteration [0-9]+ on validation set' "megatron evaluate in fp8" || diag "$(tail -n 3 "$scratch/out")"
expected=$(grep 'validation loss' "$scratch/out")
"$megatron" evaluate "${common[@]}" "${gpt[@]}" --load "$scratch/two" --fp8-format hybrid --fp8-param-gather --eval-iters 1 --split 50,50,0 >"$scratch/out" 2>&1
is "$(grep 'validation loss' "$scratch/out")" "$expected" "  with weights in fp8 only: the same losses"

# --- Inf and NaN
train 1 "${gpt[@]}" --fp8-format hybrid --train-iters 5 --lr 1e30 --clip-grad 0
is "$(grep -c 'warning: an input, weight or gradient of an fp8 layer was inf or NaN' "$scratch/out")" 1 \
    "an amax that is inf or NaN is reported once"
like "$(grep 'iteration *5/' "$scratch/out")" 'skipped iterations: *1 ' "  and its step is skipped"

# --- What is said at the start
try "$megatron" train "${common[@]}" "${gpt[@]}" --dry-run --world-size 1 --train-iters 1 --ffn-hidden-size 40 --fp8-format hybrid \
    --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 2
like "$out" '> fp8: linear layers in e4m3, their gradients in e5m2, tensorwise scaling' "the start-up lines: the recipe"
like "$out" '> fp8: fc1 of every layer stays in fp32: its 32 inputs and 40 outputs per rank are not both multiples of 16' "  sizes"
like "$out" '> fp8: the last 2 layers stay in fp32' "  layers"
try "$megatron" train --dry-run --megatron-model gpt2-345m --micro-batch-size 4 --train-iters 1 --lr 1e-4 --bf16 --fp8-format hybrid
like "$out" '^  A100-80: no fp8$' "the verdict names GPUs without fp8" || diag "$out"
memory='s/.*memory \(GiB\): weights ([0-9.]+), .* activations ([0-9.]+), .*/\1 \2/p'
before=$(sed -nE "$memory" <<<"$out")
try "$megatron" train --dry-run --megatron-model gpt2-345m --micro-batch-size 4 --train-iters 1 --lr 1e-4 --bf16 --fp8-format hybrid \
    --fp8-param-gather
after=$(sed -nE "$memory" <<<"$out")
# 24 layers of 12 x 1024 x 1024 weights: one byte less in each of both.
is "$(awk '{ printf "%.2f %.2f", $1 - $3, $2 - $4 }' <<<"$before $after")" "0.28 0.28" "weights in fp8 only: two bytes less per weight" ||
    diag "$before, $after"
planned "a run on CPUs takes no more memory than planned" --fp8-format hybrid
# With 48 tensors, 5000000 steps take 0.894 GiB: once in the run, and twice while a checkpoint is written.
try "$megatron" train "${common[@]}" "${gpt[@]}" --dry-run --world-size 1 --train-iters 1 --fp8-format hybrid --fp8-amax-history-len 5000000 \
    --save "$scratch/none"
like "$out" 'activations 0\.89[45], .*; checkpoint copy in host memory 1\.78[89]$' "the history is planned for"
try "$megatron" train "${common[@]}" "${gpt[@]}" --dry-run --world-size 1 --train-iters 1 --hidden-size 1024 --fp8-format hybrid
# The factors of fc1: 32 x 1024 and 4096 x 1024 in fp32.
like "$out" 'workspace for matrix products 0\.016$' "  and says what it needs to emulate fp8"

# --- Bad input
while IFS='|' read -r options text; do
    # shellcheck disable=SC2086
    try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 $options
    is "$rc" 2 "refused: $options" || diag "$out"
    like "$out" "$text" "  with the reason"
done <<'EOT'
--fp8-format e5m2|--fp8-format=e5m2 is unknown; use e4m3.hybrid
--fp8-format hybrid --fp8-amax-history-len 0|--fp8-amax-history-len=0
--fp8-format hybrid --fp8-amax-history-len 5592404|^megatron train: --fp8-amax-history-len=5592404 is too long: with 4 layers a checkpoint holds up to 5592403 steps; lower it
--fp8-format hybrid --fp8-amax-history-len 2147483647|--fp8-amax-history-len=2147483647 is too long
--fp8-format hybrid --fp8-margin 99|--fp8-margin=99
--fp8-format hybrid --fp8-recipe mxfp8|--fp8-recipe mxfp8 is not supported: .*; use delayed, tensorwise or blockwise
--fp8-format hybrid --first-last-layers-bf16|cannot be used with delayed scaling; use --fp8-recipe tensorwise or blockwise
--fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 3|leave none of the 4 layers in fp8
--fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-start-in-bf16 9223372036854775807|leave none of the 4 layers in fp8
--fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 9223372036854775807|leave none of the 4 layers in fp8
--fp8-format hybrid --fp16|--fp8-format and --fp16 cannot be used together; drop one
--fp8-format hybrid --seq-length 24 --micro-batch-size 1|multiple of 16; --micro-batch-size x --seq-length / --context-parallel-size is 24
--fp8-format hybrid --hidden-size 40|fp8 needs linear layers whose sizes are multiples of 16, and this model has none: --hidden-size=40
--tp-only-amax-red|amaxes are reduced over all ranks
EOT
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 --fp8-recipe tensorwise --fp8-param-gather
like "$out" 'warning: --fp8-recipe.* no effect without --fp8-format' "options without --fp8-format"
like "$out" 'warning: --fp8-param-gather.* no effect without --fp8-format' "  and another one"
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 --fp8-format hybrid --fp8-recipe tensorwise --fp8-margin 1 \
    --fp8-amax-history-len 2147483647 --fp8-amax-compute-algo max
is "$rc $(grep -c 'warning: --fp8-.* has no effect without --fp8-recipe delayed; drop it' <<<"$out")" "0 3" \
    "options of delayed scaling with another recipe" || diag "$out"
try "$megatron" train "${common[@]}" "${gpt[@]}" --train-iters 1 --fp8-format hybrid --fp8-margin -1
like "$out" 'fp8_margin \.+ -1$' "a negative margin is printed"
unlike "$out" 'no effect' "  and has an effect"
done_testing

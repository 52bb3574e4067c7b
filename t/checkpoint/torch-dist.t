#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Distributed (torch_dist) checkpoints: those of Megatron core in torch-dist/ are imported and have the loss of its model;
# exports in both of Megatron-LM's formats come back with equal bytes; damaged and hostile files are an error each. The
# script t/peers/torch-dist made the checkpoints, and compares the exports with Megatron core.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
data=$top/t/checkpoint/torch-dist
check() { try "$megatron" checkpoint "$@"; }

loss_of() {
    try "$megatron" evaluate --load "$1" --data-path "$data/data" --data-cache-path cache --split 0,100,0 --device cpu \
        --cpu-threads 1 --micro-batch-size 1 --global-batch-size 1 --eval-iters 1 --hidden-dropout 0 --attention-dropout 0
    sed -nE 's/.*lm loss value: ([^ ]+) .*/\1/p' <<<"$out"
}
while read -r name expected; do
    check import "$data/$name" "$name" --format torch_dist
    is "$rc" 0 "$name: import" || diag "$out"
    like "$out" 'distributed checkpoint .torch_dist. with arguments, .*vocabulary 61; the optimizer state is not imported' "  and what it is"
    loss=$(loss_of "$name")
    awk -v a="$loss" -v b="$expected" 'BEGIN { d = a - b; exit !(a > 0 && d < 2e-6 * a && d > -2e-6 * a) }'
    ok "  with the loss of Megatron core's model" || diag "$loss instead of $expected"
done <"$data/losses.txt"
same llama-stacked llama-halves "gate and rest in one tensor or in two: the same model"
check import "$data/gpt-stacked" again --format megatron
same gpt-stacked again "--format megatron finds out by itself"

# back NAME FOLDER: what was exported to FOLDER is the same checkpoint.
back() {
    rm -rf imported
    check import "$2" imported --format megatron
    same "$1" imported "$3" || diag "$out"
}
for name in gpt-stacked llama-stacked; do
    while read -r options; do
        rm -rf exported
        # shellcheck disable=SC2086
        check export $name exported $options
        is "$rc" 0 "$name: export $options" || diag "$out"
        back $name exported "  and back"
    done <<'END'
--format torch_dist
--format torch_dist --max-shard-size 5k --make-vocab-size-divisible-by 7
--format megatron
--format megatron --transformer-impl local --make-vocab-size-divisible-by 1
--format megatron --target-tensor-parallel-size 2 --target-pipeline-parallel-size 2
END
    ok "  in a directory per rank" test -f exported/release/mp_rank_01_001/model_optim_rng.pt
    is "$(cat exported/latest_checkpointed_iteration.txt)" release "  which is a release"
done
check export interleaved-stacked exported-pairs --format torch_dist --rotary-interleaved
back interleaved-stacked exported-pairs "--rotary-interleaved is recognized in the arguments"
check export interleaved-stacked exported-halves --format megatron
back interleaved-stacked exported-halves "  or not needed"
train 1 --position-embedding-type rope --rotary-interleaved --exit-interval 1
like "$out" 'note: --rotary-interleaved has no effect on training here' "train --rotary-interleaved says what it means"
check export gpt-stacked gpt-hf --dtype bf16
for format in torch_dist megatron; do
    rm -rf half imported half-hf
    check export gpt-stacked half --format $format --dtype bf16
    check import half imported --format $format
    check export imported half-hf --dtype bf16
    ok "bf16, $format" cmp gpt-hf/model.safetensors half-hf/model.safetensors
done
train 1 --save run --exit-interval 1
check export run trained --format torch_dist
ok "a run's iteration is kept" test -f trained/iter_0000001/.metadata
is "$(cat trained/latest_checkpointed_iteration.txt)" 1 "  and named"
train 1 --load trained
is "$rc" 2 "train --load of one"
like "$out" 'trained contains a Megatron-LM checkpoint \(torch_dist\); import it first: megatron checkpoint import' "  says how"
unlike "$out" damaged "  and nothing is damaged"
try "$megatron" checkpoint inspect trained
is "$rc" 2 "inspect of one"
like "$out" 'trained contains a Megatron-LM checkpoint \(torch_dist\); import it first' "  says the same"
train 1 --load trained/iter_0000001
is "$rc" 2 "train --load of its iteration"
like "$out" 'iter_0000001 contains a Megatron-LM checkpoint \(torch_dist\); import it first' "  says the same"
try "$megatron" checkpoint inspect trained/iter_0000001
is "$rc" 2 "inspect of its iteration"
like "$out" 'iter_0000001 contains a Megatron-LM checkpoint \(torch_dist\); import it first' "  says the same"

# Damaged and hostile files: one line, and nothing is left.
refused() {
    local name=$1 text=$2
    rm -rf bad
    check import broken bad --format torch_dist
    is "$rc $(wc -l <<<"$out")" "2 1" "$name is an error"
    like "$out" "$text" "  and named"
    [ ! -e bad/iter_0000000 ]
    ok "  and leaves nothing"
    rm -rf broken
}
copy() { rm -rf broken; cp -r "$data/gpt-stacked" broken; chmod -R u+w broken; }
edit() { copy; perl -0777 -pi -e "$2" "broken/$1"; }
copy; truncate -s 20000 broken/__0_0.distcp
refused "a cut file" '__0_0.distcp is truncated: a chunk at byte [0-9]+ has [0-9]+ bytes, but the file has 20000'
copy; rm broken/__0_1.distcp
refused "a missing file" 'cannot open broken/__0_1.distcp'
copy; : >broken/__0_1.distcp
refused "an empty file" '__0_1.distcp is empty'
edit __0_0.distcp 's/^.{8000}\K(.*)/$1 =~ tr|\0-\377|\1-\377\0|r/se'
refused "other bytes" '__0_0.distcp, byte [0-9]+: '
copy; truncate -s 3000 broken/.metadata
refused "a cut index" '.metadata: byte [0-9]+ of the pickle: it ends too early'
copy; printf 'i\n.' >broken/.metadata
refused "an unknown operation" '.metadata: byte 0 of the pickle: operation 0x69 is not supported'
copy; printf '\200\2}.' >broken/.metadata
refused "an index without tensors" '.metadata: it has no storage_data'
edit .metadata 's/storage_data/storage_dat_/'
refused "an index without places" '.metadata: it has no storage_data'
edit .metadata 's|__0_0.distcp|../_0.distcp|'
refused "a file of another directory" 'storage_data of .* is invalid'
edit .metadata 's/relative_path/relative-path/'
refused "a chunk without a file" 'storage_data of .* is invalid'
edit .metadata 's/decoder.final_layernorm.bias/decoder.final_layernorm.boas/g'
refused "an unknown tensor" 'unknown tensor decoder.final_layernorm.boas; only GPT and Llama models'
edit .metadata 's/decoder.layers.mlp.linear_fc2.weight/optimizer.laye.mlp.linear_fc2.weight/g'
refused "a missing tensor" 'has no transformer layers; only GPT checkpoints can be imported'
edit metadata.json 's/torch_dist/zarr/'
refused "another backend" 'a distributed checkpoint in the format "zarr", which cannot be imported'
copy; truncate -s 500 broken/common.pt
refused "cut arguments" 'broken/common.pt: it is not a complete zip archive'
copy; rm broken/common.pt
check import broken bad --format torch_dist
is "$rc" 2 "without arguments"
like "$out" 'number of attention heads is not stored in the checkpoint .hidden size 16.; add --num-attention-heads N' "  the heads are asked for"

while IFS='|' read -r options code text; do
    rm -rf bad
    # shellcheck disable=SC2086
    check export gpt-stacked bad $options
    is "$rc $(wc -l <<<"$out")" "$code 1" "export $options is an error"
    like "$out" "$text" "  and named"
    ok "  and leaves nothing" test ! -e bad/latest_checkpointed_iteration.txt
done <<'END'
--format megatron --target-tensor-parallel-size 3|2|2 attention heads, 2 query groups and an ffn hidden size of 64 cannot be divided among 3
--format megatron --target-pipeline-parallel-size 3|2|2 layers cannot be divided into 3 stages
--format megatron --max-shard-size 1GB|2|--max-shard-size cannot be used with --format megatron
--format torch_dist --target-tensor-parallel-size 2|2|a torch_dist checkpoint can be loaded with any of them
--make-vocab-size-divisible-by 8|2|can only be used with --format megatron or torch_dist
--format torch_dist --rotary-interleaved|2|the model has no rotary position embeddings that could be interleaved
--format fairseq|2|export does not support this format; use --format hf, megatron or torch_dist
END
check export gpt-stacked trained --format torch_dist
like "$out" 'trained already contains checkpoints; choose another directory' "nothing is overwritten"
train 1 --save qk --exit-interval 1 --qk-layernorm
check export qk bad --format torch_dist
like "$out" "does not support the model's norms of query and key heads" "models that are not mapped are refused"
done_testing

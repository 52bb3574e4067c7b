#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Datasets that are small or missing, as a user meets them: data that is left out is reported; an error ends all ranks with
# code 2, before weights are made if it can be known then.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
[ -f "$MEGATRON_BUILD/runtime/engine/comm/comm_tcp.so" ] || skip_all "built without OpenSSL"
tokenizer=(--tokenizer-type NullTokenizer --vocab-size 99)
# dataset NAME DOCUMENTS: PREFIX is NAME_text_document.
dataset() {
    for i in $(seq "$2"); do echo "{\"text\": \"$i 2 3 4 5 6 7 8 9 10 $i 11 12 13 14 15\"}"; done >"$1.jsonl"
    "$megatron" preprocess "${tokenizer[@]}" --input "$1.jsonl" --output-prefix "$1" --append-eod >/dev/null 2>&1
}
dataset large 60
dataset tiny 1
large=large_text_document tiny=tiny_text_document
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --lr 1e-3 "${tokenizer[@]}"
    --train-iters 2 --device cpu --cpu-threads 1 --log-interval 1 --eval-iters 1 --eval-interval 2)
train() { try "$megatron" train "${small[@]}" "$@"; }
# Two ranks, of which only the first reads the data.
train_two() { try timeout 100 "${launch[@]}" 2 -- "$megatron" train "${small[@]}" "$@"; }

train --data-path 0.5 $large 0.5 $tiny --split 8,1,1
is "$rc" 0 "a blend with a dataset too small for validation data" || diag "$out"
like "$out" '^ > 1 dataset is too small for validation data: tiny_text_document$' "  says so"
like "$out" 'validation loss at iteration 2 ' "  and evaluates on the others"
like "$out" '^ > 1 dataset is too small for test data: tiny_text_document$' "  for each kind of data"
train --data-path $tiny --split 8,1,1
is "$rc" 0 "the same dataset alone"
like "$out" '^ > no validation data: its part of the data is shorter than one sample$' "  has no validation data"
train --data-path $large --split 100,0,0
like "$out" '^ > no test data: --split assigns none to it$' "no test data wanted"

while IFS='|' read -r name options text; do
    # shellcheck disable=SC2086
    train_two $options
    is "$rc" 2 "$name: code 2 of all ranks" || diag "$out"
    like "$out" "megatron( train)?: $text" "  with the reason"
    is "$(grep -oE 'megatron( train)?: ' <<<"$out" | wc -l)" 1 "  once"
done <<END_OF_ROWS
a split without training data|--data-path $large --split 0,1,0|no training data: the split assigns none to it; change --split
only validation data|--valid-data-path $large|no data: use --data-path, --train-data-path or --mock-data
a split that leaves no training data of a dataset|--data-path 1 $large 1 $tiny --split 1,9|tiny_text_document: none of its 1 sequences is training data; change --split
a dataset shorter than a sample|--data-path $large $tiny --split 1,0,0|tiny_text_document: its training data is shorter than one sample; drop it from the blend
small datasets for validation only|--train-data-path $large --valid-data-path $tiny $tiny|tiny_text_document, tiny_text_document: shorter than one sample of validation data; use more data
a cache that cannot be written|--data-path $large --data-cache-path /dev/null/x|.*no writable directory for the index cache.*; choose one with --data-cache-path
END_OF_ROWS
train --data-path $large --split 0,1,0
unlike "$out" 'number of parameters' "what --split shows is said before weights are made"

# An evaluation needs no training data.
train --data-path $large --save run
is "$rc" 0 "a run" || diag "$out"
try "$megatron" evaluate --load run "${tokenizer[@]}" --data-path $large --split 0,1,0 --device cpu --cpu-threads 1 --micro-batch-size 2 --eval-iters 1
is "$rc" 0 "megatron evaluate --split 0,1,0" || diag "$out"
like "$out" 'validation loss at iteration 2 on validation set ' "  names the iteration of the weights"
try "$megatron" evaluate --load run "${tokenizer[@]}" --data-path $large --split 1,0,0 --device cpu --cpu-threads 1 --micro-batch-size 2 --eval-iters 1
is "$rc" 2 "without anything to evaluate on: code 2"
like "$out" '^megatron( evaluate)?: no data to evaluate on: there is no validation or test data; change --split, or use --valid-data-path' "  with the reason"
done_testing

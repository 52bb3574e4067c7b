#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tokenizer, data and model have the same vocabulary, or the message names the two that disagree.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --micro-batch-size 2 --lr 1e-3
    --train-iters 2 --device cpu --eval-iters 0 --log-interval 1 --cpu-threads 1 --split 1,0,0)
for i in $(seq 40); do echo "{\"text\": \"The answer to question $i is zebra, and the next one is yours to find.\"}"; done >text.jsonl
try "$megatron" preprocess --input text.jsonl --output-prefix data --append-eod
is "$rc" 0 "a small corpus" || diag "$out"

try "$megatron" train "${small[@]}" --data-path data_text_document --tokenizer-type GPT2BPETokenizer
like "$out" 'iteration +2/' "the tokenizer of the data" || diag "$out"
while IFS='|' read -r options expected; do
    # shellcheck disable=SC2086
    try "$megatron" train "${small[@]}" --data-path data_text_document $options
    is "$rc" 2 "rejected: $options"
    like "$out" "$expected" "  both are named"
done <<'END'
--vocab-size 32000|data_text_document.bin contains token [0-9]+ \(sequence 0\), but the vocabulary has 32000 tokens \(from --vocab-size\)
--tokenizer-type NullTokenizer --vocab-size 1000|but the vocabulary has 1001 tokens \(from --vocab-size plus the end-of-document token\)
--vocab-size 32000 --tokenizer-type GPT2BPETokenizer|the tokenizer has 50257 tokens, but the vocabulary of the model \(--vocab-size\) has 32000; drop --vocab-size
END
done_testing

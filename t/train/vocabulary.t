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

# --- The file beside the data tells which tokenizer made it
warnings() { grep -c '^megatron: warning: ' <<<"$out"; }
bpe=(--tokenizer-type GPT2BPETokenizer --vocab-file bpe/vocab.json --merge-file bpe/merges.txt)
"$megatron" tokenizer train --input text.jsonl --output bpe --vocab-size 300 >log 2>&1 || diag "$(cat log)"
"$megatron" preprocess --input text.jsonl --output-prefix other --append-eod "${bpe[@]}" >log 2>&1 || diag "$(cat log)"
"$megatron" preprocess --input text.jsonl --output-prefix endless >log 2>&1 || diag "$(cat log)"
sed 's/"special": true}$/&, {"id": 300, "content": "newword", "special": false}/' bpe/tokenizer.json >more.json
mkdir bare
for name in data other endless; do cp ${name}_text_document.{bin,idx} bare; done
sed 's/"bin_bytes": /&1/' data_text_document.tokenizer >stale

while IFS='|' read -r rc_expected warned options; do
    case $options in *STALE*) cp stale bare/data_text_document.tokenizer ;; esac
    # shellcheck disable=SC2086
    try "$megatron" train "${small[@]}" ${options/STALE/}
    is "$rc $(warnings)" "$rc_expected $warned" "$options" || diag "$out"
    rm -f bare/*.tokenizer
done <<'END'
0|0|--data-path data_text_document --tokenizer-type GPT2BPETokenizer
2|0|--data-path other_text_document --tokenizer-type GPT2BPETokenizer
2|0|--data-path 0.9 data_text_document 0.1 other_text_document --tokenizer-type GPT2BPETokenizer
2|0|--data-path data_text_document other_text_document --vocab-size 50257
0|0|--data-path other_text_document --tokenizer-type HuggingFaceTokenizer --tokenizer-model more.json
2|0|--data-path data_text_document --tokenizer-type HuggingFaceTokenizer --tokenizer-model more.json
0|1|--data-path other_text_document --vocab-size 50257
0|0|--data-path other_text_document --vocab-size 50257 --eod-id 0
0|1|--data-path endless_text_document --tokenizer-type GPT2BPETokenizer
0|0|--data-path bare/data_text_document --tokenizer-type GPT2BPETokenizer
0|1|--data-path bare/other_text_document --tokenizer-type GPT2BPETokenizer
0|1|--data-path bare/other_text_document bare/other_text_document --tokenizer-type GPT2BPETokenizer
0|1|--data-path bare/endless_text_document --tokenizer-type GPT2BPETokenizer
0|1|--data-path bare/data_text_document --tokenizer-type GPT2BPETokenizer STALE
END

# Long enough to tell a small vocabulary by the largest token; documents end with the same id.
perl -e 'print join(" ", map { $_ % 90 } 1 .. 300), "\n" for 1 .. 16' >numbers
"$megatron" preprocess --input numbers --input-format lines --output-prefix low --append-eod --tokenizer-type NullTokenizer \
    --vocab-size 99 >log 2>&1 || diag "$(cat log)"
cp low_text_document.{bin,idx} bare
try "$megatron" train "${small[@]}" --data-path bare/low_text_document --vocab-size 1000 --eod-id 99
is "$rc $(warnings)" "0 1" "tokens far below the size of the vocabulary" || diag "$out"
try "$megatron" train "${small[@]}" --data-path bare/low_text_document --vocab-size 150 --eod-id 99
is "$rc $(warnings)" "0 0" "tokens all over the vocabulary" || diag "$out"

# A model that was trained with one tokenizer meets data of another one.
try "$megatron" train "${small[@]}" --data-path data_text_document --tokenizer-type GPT2BPETokenizer --save ck --save-interval 2
for options in '--load ck --finetune' '--load ck --finetune --tokenizer-type GPT2BPETokenizer'; do
    # shellcheck disable=SC2086
    try "$megatron" train "${small[@]}" $options --data-path other_text_document
    is "$rc" 2 "train $options"
    # shellcheck disable=SC2086
    try "$megatron" evaluate "${small[@]}" ${options/--finetune/} --data-path other_text_document --split 1,1,1 --eval-iters 1
    is "$rc" 2 "evaluate ${options/--finetune/}" || diag "$out"
done
done_testing

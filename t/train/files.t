#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Lists of datasets in files: --data-args-path, --per-split-data-args-path; and the whole validation data in each
# evaluation.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
[ -f "$MEGATRON_BUILD/runtime/engine/comm/comm_tcp.so" ] || skip_all "built without OpenSSL"
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
for i in $(seq 60); do echo "{\"text\": \"$i 2 3 4 5 6 7 8 9 10 $i 11 12 13 14 15\"}"; done >text.jsonl
"$megatron" preprocess --tokenizer-type NullTokenizer --vocab-size 99 --input text.jsonl --output-prefix d --append-eod >/dev/null 2>&1
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --micro-batch-size 2 --lr 1e-3 --vocab-size 100
    --train-iters 4 --device cpu --cpu-threads 1 --log-interval 1 --eval-iters 2 --eval-interval 2 --split 80,20,0)
losses() { sed -nE 's/.*lm loss( value)?: ([0-9.E+-]+) .*/\2/p' <<<"$out" | xargs; }

# --- A list in a file is that of the command line.
try "$megatron" train "${small[@]}" --data-path 0.3 d_text_document 0.7 d_text_document
expected=$(losses)
is "$(wc -w <<<"$expected")" 6 "a blend" || diag "$out"
printf '0.3 d_text_document\n0.7\td_text_document\n' >list
try "$megatron" train "${small[@]}" --data-args-path list
is "$(losses)" "$expected" "--data-args-path"
try "$megatron" train "${small[@]}" --train-data-path d_text_document --valid-data-path d_text_document
expected=$(losses)
echo '{"train": ["d_text_document"], "valid": "d_text_document", "test": null}' >splits.json
try "$megatron" train "${small[@]}" --per-split-data-args-path splits.json
is "$(losses)" "$expected" "--per-split-data-args-path" || diag "$out"
echo '{"train": ["d_text_document"], "validation": ["d_text_document"]}' >misnamed
while IFS='|' read -r options text; do
    # shellcheck disable=SC2086
    try "$megatron" train "${small[@]}" $options
    is "$rc" 2 "rejected: $options"
    like "$out" "$text" "  and why"
done <<'END'
--data-args-path none|--data-args-path: cannot open none
--data-args-path /dev/null|names no datasets
--data-args-path list --data-path d_text_document|--data-args-path and --data-path cannot be used together
--per-split-data-args-path misnamed|--per-split-data-args-path: misnamed: "validation" is not "train", "valid" or "test"; correct it
--per-split-data-args-path list|--per-split-data-args-path: list: is not valid JSON
END

# --- The whole validation data: each evaluation of unchanged weights gives the same loss.
try "$megatron" train "${small[@]}" --data-path d_text_document --full-validation --lr 0
is "$(sed -nE 's/.*lm loss value: ([0-9.E+-]+) .*/\1/p' <<<"$out" | sort | uniq -c | xargs | cut -d ' ' -f 1)" 2 "--full-validation" || diag "$out"
try timeout 60 "${launch[@]}" 2 -- "$megatron" train "${small[@]}" --data-path d_text_document --full-validation --global-batch-size 100
is "$rc $(grep -c 'iteration  *1/' <<<"$out")" "2 0" "  of less than a global batch is refused before the first step" || diag "$out"
like "$out" 'megatron: --full-validation: the validation data have fewer samples \([0-9]+\) than a global batch; lower --global-batch-size' "  with the reason"
done_testing

#!/bin/bash
# What Megatron's own preprocess_data.py wrote for the same documents.
. "$(dirname "$0")/../tap.sh"
data=$shared/data
[ -d "$data/tokenized" ] || skip_all "no reference data in ../shared"
. "$(dirname "$0")/fixture.sh"
for name in sample tricky; do
    for family in gpt2 llama2; do
        options=()
        [ $family = gpt2 ] || options=(--tokenizer-type Llama2Tokenizer --tokenizer-model "$data/llama2/tokenizer.model")
        expected=$(ls "$data"/tokenized/$name.$family*eod.bin)
        try "$megatron" preprocess --input "$data/tokenized/$name.jsonl" --output-prefix $name.$family \
            --append-eod --workers 2 --chunk-bytes 200000 "${options[@]}"
        is "$rc" 0 "$name with $family"
        cmp "$expected" ${name}.${family}_text_document.bin
        ok "its .bin is Megatron's" || diag "$out"
        cmp "${expected%bin}idx" ${name}.${family}_text_document.idx
        ok "and its .idx"
    done
done
done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --split-sentences gives NLTK's sentences: the files are those of lists of its sentences.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"
data=$top/t/preprocess/punkt
run() { "$megatron" preprocess --append-eod --output-prefix "$@" >log 2>&1 || cat log; }
for rules in 3.8 3.10; do
    for kept in sentences kept; do
        flag=()
        [ $kept = sentences ] || flag=(--keep-newlines)
        run want --overwrite --input "$data/$kept-$rules.jsonl"
        run got --overwrite --input "$data/texts.jsonl" --split-sentences --punkt-data "$data" --nltk-rules $rules "${flag[@]}"
        cmp want_text_document.bin got_text_sentence.bin && cmp want_text_document.idx got_text_sentence.idx
        ok "$kept of NLTK $rules"
    done
done
rm got_*
ranks 3 --input "$data/texts.jsonl" --output-prefix got --split-sentences --punkt-data "$data/english" --nltk-rules 3.10 \
    --keep-newlines --append-eod --chunk-bytes 300 --tokenizer-type GPT2BPETokenizer
cmp want_text_document.bin got_text_sentence.bin && cmp want_text_document.idx got_text_sentence.idx
ok "on 3 ranks, in small pieces"
like "$("$megatron" data inspect got_text_sentence 2>&1)" 'documents: +22' "documents are the texts"
mkdir -p nltk/tokenizers/punkt_tab
cp -r "$data/english" nltk/tokenizers/punkt_tab/
NLTK_DATA=/nowhere:$PWD/nltk run env --input "$data/texts.jsonl" --split-sentences --nltk-rules 3.10 --keep-newlines
cmp want_text_document.bin env_text_sentence.bin
ok "the data is found by NLTK_DATA"

# A long text is cut every 1,000,000 characters, wherever that falls: here within "Mr. X".
python3 -c 'print("{\"text\": \"" + "é" * 999995 + " Mr. X went. He left.\"}")' >long.jsonl 2>/dev/null ||
    awk 'BEGIN { printf "{\"text\": \""; for (i = 0; i < 999995; i++) printf "é"; print " Mr. X went. He left.\"}" }' >long.jsonl
run long --input long.jsonl --split-sentences --punkt-data "$data" --tokenizer-type GPT2BPETokenizer
is "$(od -An -tu8 -j18 -N8 long_text_sentence.idx | xargs)" 3 "a cut between characters, not bytes" || cat log

fails() { # MESSAGE, then options
    local message=$1
    shift
    try "$megatron" preprocess --input "$data/texts.jsonl" --output-prefix bad --split-sentences "$@"
    is "$rc" 2 "exit code 2: $message"
    like "$out" "$message" "  $message"
}
fails 'has no punkt_tab/german; correct --lang, or give --punkt-data' --punkt-data "$data" --lang german
fails 'is not the name of a language' --punkt-data "$data" --lang ../english
fails 'cannot be used with Fairseq' --punkt-data "$data" --tokenizer-type FairseqBPE
cp -r "$data/english" broken
printf 'the\t300\n' >broken/ortho_context.tab
fails 'ortho_context.tab, line 1: the text after the tab is not a number from 0 to 127' --punkt-data broken
printf 'the 3\n' >broken/ortho_context.tab
fails 'ortho_context.tab, line 1: the line has no tab' --punkt-data broken
cp "$data/english/ortho_context.tab" broken
printf 'a\tb\n' >broken/abbrev_types.txt
fails 'abbrev_types.txt, line 1: the line has a tab, but should be one word' --punkt-data broken
rm broken/collocations.tab
cp "$data/english/abbrev_types.txt" broken
fails 'collocations.tab' --punkt-data broken
done_testing

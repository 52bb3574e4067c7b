#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron data: shows what a pair of files contains, and whether it is complete.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"
printf '{"text":"1 2 3"}\n{"text":""}\n{"text":["4","5 6"]}\n' >d.jsonl
try "${pre[@]}" --input d.jsonl --output-prefix d
try "$megatron" data inspect d_text_document
is "$rc" 0 "inspect"
like "$out" '^  documents: +3$' "counts documents"
like "$out" '^  sequences: +3$' "and sequences"
like "$out" '^  tokens: +8, uint16$' "and tokens"
like "$out" '^  per document: +0 to 4, 2\.7 on average$' "and lengths"
like "$out" '^ +empty +1$' "with a histogram"
like "$out" '^ +4 - 7 +2 \*+$' "of powers of two"
rows=('0|1 2 3 60000' '1|' '2|4 5 6 60000')
for row in "${rows[@]}"; do
    IFS='|' read -r n ids <<<"$row"
    try "$megatron" data inspect d_text_document --document "$n" --ids
    is "$rc $(xargs <<<"$out")" "0 $ids" "the ids of document $n"
done
try "$megatron" data inspect d_text_document --document 3
like "$out" '^megatron data: inspect: --document=3 is out of range: d_text_document has documents 0 to 2$' "one that is not there"
printf '{"text":"Hello, \\u00e9t\\u00e9!"}\n' >e.jsonl
try "$megatron" preprocess --input e.jsonl --output-prefix e --append-eod
try "$megatron" data inspect e_text_document --document 0
is "$out" "Hello, été!<|endoftext|>" "decoded text"
try "$megatron" preprocess --input e.jsonl --output-prefix plain --append-eod --no-append-eod
try "$megatron" data inspect plain_text_document --document 0
is "$rc $out" "0 Hello, été!" "  without its end"
try "$megatron" preprocess --input e.jsonl --output-prefix words --tokenizer-type FairseqWords --no-append-eod
is "$rc" 2 "  which fairseq's files have"
try "$megatron" data inspect e_text_document --document 0 --limit 2
is "$out" "Hello," "two tokens of it"

# --- The tokenizer that made a pair
try "$megatron" data inspect d_text_document
like "$out" '^  tokenizer: +NullTokenizer \(60001 tokens\)$' "inspect shows the tokenizer"
like "$out" '^  end of document: 60000$' "and the end of a document"
"$megatron" tokenizer train --input e.jsonl --output bpe --vocab-size 260 >/dev/null 2>&1
try "$megatron" data inspect e_text_document --document 0 --vocab-file bpe/vocab.json --merge-file bpe/merges.txt
is "$rc" 2 "the text of another tokenizer's ids is refused"
try "$megatron" data inspect e_text_document --document 0 --vocab-file bpe/vocab.json --merge-file bpe/merges.txt --ids
is "$rc" 0 "their numbers are not"
cp d_text_document.tokenizer e_text_document.tokenizer
try "$megatron" data verify e_text_document
is "$rc" 2 "verify finds a file about another pair"
rm e_text_document.tokenizer

try "$megatron" data verify d_text_document e_text_document.idx
is "$rc" 0 "verify"
like "$out" '^d_text_document: intact, 3 documents, 8 tokens$' "a whole pair"
try "$megatron" data verify nowhere d_text_document nothing e_text_document
is "$rc $(grep -c ': intact, ' <<<"$out") $(grep -c '^megatron data: verify: no[a-z]*\.idx: cannot open' <<<"$out") $(tail -n 1 <<<"$out")" \
    "1 2 2 megatron data: verify: 2 of 4 are damaged or cannot be read; see above" "verify continues after a damaged pair" || diag "$out"
for damage in 'truncate -s -2 d_text_document.bin' 'truncate -s +2 d_text_document.bin' \
    'truncate -s -1 d_text_document.idx' 'dd of=d_text_document.idx bs=1 seek=34 conv=notrunc status=none' \
    'rm d_text_document.bin'; do
    cp d_text_document.bin d_text_document.idx e.jsonl "$(mkdir -p keep; echo keep)"
    printf '\001\001' | $damage
    try "$megatron" data verify d_text_document
    is "$rc" 1 "$damage"
    like "$out" '^megatron data: verify: d_text_document\.' "is noticed: ${out#megatron data: verify: }"
    cp keep/d_* .
done
try "$megatron" data verfiy x
like "$out" '^megatron data: unknown action verfiy; use inspect, verify, extract, filter, dedup, decontaminate, mix, merge or stats$' "an unknown action"
is "$rc" 2 "  is a usage error"
done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fairseq's data-bin: the bytes of fairseq-preprocess (0.12.2), its dictionaries, and bad ones.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"
golden=$top/t/train/roberta
mkdir bin
for part in train valid test; do
    "$megatron" preprocess --tokenizer-type FairseqWords --input "$golden/$part" --output-prefix bin/$part \
        --chunk-bytes 5000 >log 2>&1 || cat log
done
for file in dict.txt {train,valid,test}.{bin,idx}; do
    cmp "bin/$file" "$golden/data-bin/$file"
    ok "$file is fairseq's, byte by byte"
done
is "$(grep -c '"tokenizer": "FairseqWords".*"append_eod": true' bin/{train,valid,test}.tokenizer | cut -d: -f2 | xargs)" "1 1 1" \
    "and the tokenizer is written beside each pair"
ls bin/*.lock bin/*.work >/dev/null 2>&1 && false || true
ok "nothing is left over"

mkdir four
ranks 4 --tokenizer-type FairseqWords --input "$golden/train" --output-prefix four/train --chunk-bytes 3000
cmp four/dict.txt "$golden/data-bin/dict.txt" && cmp four/train.bin bin/train.bin && cmp four/train.idx bin/train.idx
ok "4 ranks build one dictionary and the same files"

# Words are what Python's split() finds; ties go by code point; <unk> in a text is the id.
printf ' b a\xc2\xa0b  c\xe3\x80\x80a <unk> \n\n\t\na é z\n' >words
mkdir small
"$megatron" preprocess --tokenizer-type FairseqWords --input words --output-prefix small/t --padding-factor 1 >log 2>&1
is "$(cat small/dict.txt)" "$(printf 'a 3\nb 2\nc 1\nz 1\n\303\251 1')" "words by falling count, then by code point"
is "$(od -An -tu2 -v small/t.bin | xargs)" "5 4 5 6 4 3 2 2 2 4 8 7 2" "every line ends with </s>, and an empty line is only </s>"
printf 'a 3\n<mask> 2\n' >listed
"$megatron" preprocess --tokenizer-type FairseqWords --vocab-file listed --input - --output-prefix small/l <<<'a <mask> b' >log 2>&1
"$megatron" preprocess --tokenizer-type FairseqWords --vocab-file small/dict.txt --input - --output-prefix small/m <<<'a <mask>' >>log 2>&1
is "$(od -An -tu2 -v small/l.bin | xargs), $(od -An -tu2 -v small/m.bin | xargs)" "4 5 3 2, 4 3 2" \
    "<mask> is a word if dict.txt has it" || diag "$(cat log)"
rm small/t.*
"$megatron" preprocess --tokenizer-type FairseqWords --input words --output-prefix small/t >log 2>&1
is "$(od -An -tu2 -v small/t.bin | xargs)" "5 4 5 6 4 3 2 2 2 4 8 7 2" "an existing dict.txt is used"
mkdir limits
"$megatron" preprocess --tokenizer-type FairseqWords --input words --output-prefix limits/t --threshold-src 2 \
    --padding-factor 8 >log 2>&1
is "$(cat limits/dict.txt)" "$(printf 'a 3\nb 2\nmadeupword0000 0\nmadeupword0001 0')" "a threshold, and fillers"
is "$(od -An -tu2 -v limits/t.bin | xargs)" "5 4 5 3 4 3 2 2 2 4 3 3 2" "other words are <unk>"
mkdir most
"$megatron" preprocess --tokenizer-type FairseqWords --input words --output-prefix most/t --nwords-src 7 \
    --padding-factor 1 >log 2>&1
is "$(cat most/dict.txt)" "$(printf 'a 3\nb 2\nc 1')" "the largest number of ids counts the specials"

# RoBERTa's ids for GPT-2's tokens.
is "$("$megatron" tokenize --tokenizer-type FairseqBPE 'Hello world!')" "31414 232 328" "RoBERTa's ids"
printf ' Hello world! \n\nthe,\n' >lines
"$megatron" preprocess --tokenizer-type FairseqBPE --input lines --output-prefix small/bpe >log 2>&1
is "$(od -An -tu2 -v small/bpe.bin | xargs)" "31414 232 328 2 2 627 6 2" "lines are stripped and end with </s>"
awk 'BEGIN { for (i = 0; i < 65495; i++) print "w" i, 1 }' >dict16
awk 'BEGIN { for (i = 0; i < 65496; i++) print "w" i, 1 }' >dict32
for bits in 16 32; do
    "$megatron" preprocess --tokenizer-type FairseqWords --vocab-file dict$bits --input lines \
        --output-prefix small/d$bits >log 2>&1
done
is "$(od -An -tu1 -j17 -N1 small/d16.idx | xargs) $(od -An -tu1 -j17 -N1 small/d32.idx | xargs)" "8 9" \
    "65499 ids are uint16, 65500 are uint32"
like "$("$megatron" data verify small/d32 2>&1)" 'intact, 3 documents, 6 tokens' "and can be read back"

# Bad input.
fails() { # MESSAGE, then arguments
    local message=$1
    shift
    like "$("$megatron" preprocess --input lines --output-prefix small/x --overwrite "$@" 2>&1)" "$message" "$message"
}
printf 'a 1\nb\n' >bad
fails 'bad, line 2: the line is not a word, a space and its count' --tokenizer-type FairseqWords --vocab-file bad
printf 'a 1\na 2\n' >bad
fails 'bad, line 2: "a" is in the dictionary already' --tokenizer-type FairseqWords --vocab-file bad
: >bad
fails 'bad: the dictionary is empty' --tokenizer-type FairseqWords --vocab-file bad
printf 'the 5\n' >bad
fails "^megatron [a-z]+: bad, line 1: \"the\" is not one of GPT-2's ids" --tokenizer-type FairseqBPE --vocab-file bad
printf '13 5\n262 4\n' >bad
fails 'bad, line 1: id 13 is too large for a dictionary of 7 entries; copy the whole dict.txt again' --tokenizer-type FairseqBPE --vocab-file bad
{ seq 0 50255 | sed 101d | sed 's/$/ 1/'; echo madeupword0000 0; } >bad
fails "bad: the dictionary has no line for GPT-2's id 100; get its files again" --tokenizer-type FairseqBPE --vocab-file bad
fails 'reads one pair of files' --tokenizer-type FairseqWords --output-shards 2
mkdir pipe
like "$("$megatron" preprocess --tokenizer-type FairseqWords --input - --output-prefix pipe/x </dev/null 2>&1)" \
    'standard input can be read only once' "standard input needs a dictionary"
done_testing

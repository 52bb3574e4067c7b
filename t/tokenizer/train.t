#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron tokenizer train: vocabularies from a corpus.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/../preprocess/fixture.sh"
pre=("$megatron" tokenizer)
corpus=$top/t/tokenizer/gpt2-reference.jsonl
train() { try "$megatron" tokenizer train "$@"; }

train --input "$corpus" --output bpe --vocab-size 1000
is "$rc" 0 "a byte-level BPE vocabulary" || diag "$out"
like "$out" 'documents read: +243 ' "it says what was read"
like "$out" 'tokens: +1000$' "  and how many tokens there are"
ok "the merges are those of Hugging Face's trainer, in the same order" \
    cmp bpe/merges.txt "$top/t/tokenizer/train-merges.txt"
ok "nothing but the output is left" test ! -e bpe.work
text=$'Hello World, don\'t: 12345  foo_bar\n\ttab \xe6\x97\xa5\xe6\x9c\xac <|endoftext|>'
of_files=$("$megatron" tokenize --vocab-file bpe/vocab.json --merge-file bpe/merges.txt "$text")
json() { printf -- '--tokenizer-type HuggingFaceTokenizer --tokenizer-model %s/tokenizer.json' "$1"; }
# shellcheck disable=SC2046
is "$("$megatron" tokenize $(json bpe) "$text")" "$of_files" "tokenizer.json has the ids of vocab.json and merges.txt"
# shellcheck disable=SC2046,SC2086
is "$("$megatron" detokenize $(json bpe) $of_files)" "$text" "and back to text"
is "${of_files##* }" 0 "the special token is the first"

# The output does not depend on the number of ranks, threads or pieces.
ranks 3 train --input "$corpus" --output ranks --vocab-size 1000 --workers 2 --chunk-bytes 4k
is "$ranked" "0 0 0" "three ranks" || diag <rank0.log
for file in tokenizer.json vocab.json merges.txt; do
    ok "  write the same $file" cmp "bpe/$file" "ranks/$file"
done

for split in llama3 o200k; do
    train --input "$corpus" --output "$split" --vocab-size 600 --split "$split"
    # shellcheck disable=SC2046
    is "$("$megatron" tokenize $(json "$split") "$text" | "$megatron" detokenize $(json "$split"))" "$text" "--split $split"
done

train --type unigram --input "$corpus" --output unigram --vocab-size 1500 --workers 2
is "$rc" 0 "a Unigram vocabulary" || diag "$out"
sentencepiece=(--tokenizer-type GPTSentencePieceTokenizer --tokenizer-model unigram/tokenizer.model)
text=$'Hello World, don\'t: 12345\n\ttab \xe6\x97\xa5\xe6\x9c\xac'
of_model=$("$megatron" tokenize "${sentencepiece[@]}" "$text")
# shellcheck disable=SC2046
is "$("$megatron" tokenize $(json unigram) "$text")" "$of_model" "tokenizer.json has the ids of tokenizer.model"
# shellcheck disable=SC2086
is "$("$megatron" detokenize "${sentencepiece[@]}" $of_model)" "$text" "and back to text, by bytes where there is no piece"
is "$(grep -c '^      \[' unigram/tokenizer.json)" 1500 "as many pieces as were asked for"
mixed() { # DIRECTORY: its pieces, except bytes, that mix letters with digits or punctuation
    grep '^      \["' "$1/tokenizer.json" | grep -v '<0x\|\\' |
        grep -cE '\["[^"]*([A-Za-z][0-9,.:@]|[0-9,.:@][A-Za-z])'
}
is "$(mixed unigram)" 0 "no piece mixes letters with digits or punctuation"
train --type unigram --input "$corpus" --output mixed --vocab-size 1500 --no-split-by-unicode-script
is "$rc" 0 "--no-split-by-unicode-script" || diag "$out"
ok "  lets pieces mix them" test "$(mixed mixed)" -gt 0
ranks 3 train --type unigram --input "$corpus" --output unigram1 --vocab-size 1500 --workers 1 --chunk-bytes 4k
ok "the same bytes with three ranks of one thread" cmp unigram/tokenizer.model unigram1/tokenizer.model

train --type wordpiece --input "$corpus" --output wordpiece --vocab-size 1400
is "$rc" 0 "a WordPiece vocabulary" || diag "$out"
bert=(--tokenizer-type BertWordPieceLowerCase --vocab-file wordpiece/vocab.txt)
# shellcheck disable=SC2046
is "$("$megatron" tokenize $(json wordpiece) 'The Worlds of tokens')" \
    "$("$megatron" tokenize "${bert[@]}" 'The Worlds of tokens')" "tokenizer.json has the ids of vocab.txt"
is "$(head -n 5 wordpiece/vocab.txt | xargs)" "[PAD] [UNK] [CLS] [SEP] [MASK]" "BERT's special tokens come first"
unlike "$(cat wordpiece/vocab.txt)" '^[A-Z]$' "lower case"
train --type wordpiece --input "$corpus" --output cased --vocab-size 1400 --cased
like "$(cat cased/vocab.txt)" $'\nT\n' "--cased keeps upper case"

# --- One tokenizer is the same in all file forms: the file beside the data tells so
text_hash() { # OPTION...
    "$megatron" preprocess --input "$corpus" --max-documents 3 --output-prefix id --overwrite "$@" >log 2>&1 || diag "$(cat log)"
    sed 's/.*"texts": "\([0-9a-f]*\)".*/\1/' id_text_document.tokenizer
}
# shellcheck disable=SC2046
{
    bpe=$(text_hash $(json bpe))
    is "$(text_hash --vocab-file bpe/vocab.json --merge-file bpe/merges.txt)" "$bpe" "vocab.json and tokenizer.json are one tokenizer"
    is "$(text_hash "${sentencepiece[@]}")" "$(text_hash $(json unigram))" "  tokenizer.model and tokenizer.json"
    is "$(text_hash "${bert[@]}")" "$(text_hash $(json wordpiece))" "  vocab.txt and tokenizer.json"
    is "$(text_hash --vocab-file "$top/runtime/data/tokenizer/gpt2/vocab.json" --merge-file "$top/runtime/data/tokenizer/gpt2/merges.txt")" \
        "$(text_hash)" "  GPT-2's vocab.json and the installed one"
    unlike "$(text_hash $(json llama3))" "$bpe" "another vocabulary is another one"
}

# --- Wrong usage --------------------------------------------------------------------------------
fails() { # PATTERN NAME ARGUMENT...
    local pattern=$1 name=$2
    shift 2
    train "$@"
    is "$rc" 2 "$name" || diag "$out"
    like "$out" "$pattern" "  says why"
}
fails 'bpe/tokenizer.json exists; use --overwrite' "output that exists" --input "$corpus" --output bpe
fails 'vocabulary of 100 tokens is too small.* already take 257' "fewer tokens than bytes" --input "$corpus" --output x --vocab-size 100
fails '41 pieces besides special tokens and bytes are too few: .*; use a larger vocabulary' "fewer pieces than characters" --type unigram --input "$corpus" --output x --vocab-size 300
fails 'vocabulary of 60 tokens is too small: special tokens and bytes already take 259' "fewer pieces than bytes" --type unigram --input "$corpus" --output x --vocab-size 60
fails '--split requires --type bpe' "an option of another type" --type unigram --split llama3 --input "$corpus" --output x
fails '--no-split-by-unicode-script requires --type unigram' "an option of Unigram" --no-split-by-unicode-script --input "$corpus" --output x
fails 'must contain \[UNK\]' "WordPiece without [UNK]" --type wordpiece --special-tokens '[A]' --input "$corpus" --output x
fails '--output is required' "no output" --input "$corpus"
try "$megatron" tokenizer learn
like "$rc: $out" '2: .*unknown action learn; use train' "another action"
: >empty.jsonl
fails 'the input has no words' "an empty corpus" --input empty.jsonl --output x
printf 'plain text\nand more\n' >plain.txt
printf '{"body":"a text"}\n{"body":"another one"}\n' >body.jsonl
fails '^megatron tokenizer: train: all 2 lines are invalid; the first: plain\.txt: line 1: not valid JSON; every line must be a JSON object such as {"text": "\.\.\."}$' \
    "plain text" --input plain.txt --output x
fails '^megatron tokenizer: train: all 2 lines are invalid; the first: body\.jsonl: line 1: a key is missing \("text"\); name the key of the text with --key$' \
    "another key" --input body.jsonl --output x/below
train --input body.jsonl --key body --output body --vocab-size 280
is "$rc" 0 "  which can be named" || diag "$out"
ok "nothing is left of these" test ! -e x -a ! -e x.work
mkdir -p x/below
fails 'all 2 lines are invalid' "plain text, and directories that exist" --input plain.txt --output x/below/new
ok "  only new ones are removed" test -d x/below -a ! -e x/below/new
fails 'all 2 lines are invalid' "plain text, and an empty directory" --input plain.txt --output x/below
ok "  which stays" test -d x/below
fails 'cannot create directory new/.*: File name too long' "a directory that can be created only in part" --input plain.txt --output "new/a/$(printf %0300d 0)/b"
ok "  of which nothing stays" test ! -e new
train --input "$corpus" --output few --vocab-size 50000
like "$out" 'warning: the vocabulary has [0-9]+ tokens instead of 50000' "a corpus that has no more"
train --input "$corpus" --output words --vocab-size 400 --max-words 1000
like "$out" 'learning from [0-9]+ of [0-9]+ different words' "--max-words says what it left out"
done_testing

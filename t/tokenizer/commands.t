#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron tokenize and detokenize as users call them.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_INST/bin/megatron
[ -x "$megatron" ] || megatron=$MEGATRON_BUILD/runtime/megatron
[ -x "$megatron" ] || skip_all "megatron is not built"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

is "$("$megatron" tokenize 'Hello world')" "15496 995" "a word on the command line"
is "$("$megatron" tokenize --append-eod a b)" $'64 50256\n65 50256' "two texts, each with its end"
is "$(printf 'Hello\nworld' | "$megatron" tokenize)" "15496 198 6894" "all of the input is one text"
is "$(printf 'Hello\nworld\n' | "$megatron" tokenize --lines)" $'15496\n6894' "or every line is"
is "$("$megatron" tokenize --count 'Hello world')" "2" "the number of ids"
is "$("$megatron" tokenize --pieces $'a\n')" $'64\t"a"\n198\t"\\n"' "ids with their texts"
is "$("$megatron" tokenize '<|endoftext|>')" "50256" "a special token in a text"
is "$("$megatron" tokenize --special-tokens-as-text '<|endoftext|>')" "27 91 437 1659 5239 91 29" \
    "the same as text"
is "$("$megatron" tokenize --tokenizer-type=NullTokenizer --vocab-size 10 --append-eod '1 2 3')" \
    "1 2 3 10" "NullTokenizer"
is "$("$megatron" detokenize 15496 995)" "Hello world" "and back"
is "$(printf '15496\n995\n' | "$megatron" detokenize --lines)" $'Hello\n world' "line by line"

# A tokenizer.model of Llama 3 has ranks only; its special tokens depend on the release.
perl -MMIME::Base64 -e 'print encode_base64(chr, ""), " $_\n" for 0 .. 255' >"$work/llama3"
llama3=(tokenize --tokenizer-type Llama3Tokenizer --tokenizer-model "$work/llama3")
is "$("$megatron" "${llama3[@]}" --pieces '<|eot_id|><|reserved_special_token_5|>')" \
    $'265\t"<|eot_id|>"\n266\t"<|reserved_special_token_5|>"' "special tokens of Llama 3"
is "$("$megatron" "${llama3[@]}" --tokenizer-llama3-release 3.1 \
    '<|begin_of_text|><|finetune_right_pad_id|><|reserved_special_token_2|><|eom_id|><|eot_id|><|python_tag|><|reserved_special_token_3|>')" \
    "256 260 261 264 265 266 267" "  and of 3.1"
is "$("$megatron" "${llama3[@]}" --count '<|python_tag|>')" 14 "  whose names are text in 3"

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' hello '##s' world '!' >"$work/vocab.txt"
bert=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt")
is "$("$megatron" tokenize "${bert[@]}" --append-eod 'HELLOS, World!')" "5 6 1 7 8 3" "BERT's words"
is "$("$megatron" tokenize "${bert[@]}" --tokenizer-add-bos 'world')" "2 7" "[CLS] before them"
for option in --tokenizer-hf-use-fast --tokenizer-hf-no-include-special-tokens; do
    is "$("$megatron" tokenize "${bert[@]}" $option 'world')" 7 "$option changes nothing"
done
try "$megatron" tokenize "${bert[@]}" --tokenizer-hf-no-use-fast world
is "$rc" 2 "--tokenizer-hf-no-use-fast is refused"
like "$out" "does not exist here; the ids are always those of Hugging Face's fast tokenizers" "  and why"
is "$("$megatron" detokenize "${bert[@]}" 5 6 7)" "hellos world" "and back to text"
is "$("$megatron" tokenize --tokenizer-type BertWordPieceCase --vocab-file "$work/vocab.txt" 'Hello hello')" "1 5" \
    "cased"
printf '{"text": "Hello world!"}\n{"text": "world"}\n' >"$work/in.jsonl"
"$megatron" preprocess --input "$work/in.jsonl" --output-prefix "$work/out" "${bert[@]}" --append-eod >"$work/log" 2>&1 ||
    diag <"$work/log"
is "$(od -An -v -tu2 "$work/out_text_document.bin" | xargs)" "5 7 8 3 7 3" "preprocess takes BERT's vocabulary"

head -c 300000 /dev/urandom >"$work/bytes"
"$megatron" tokenize <"$work/bytes" | "$megatron" detokenize >"$work/back"
ok "random bytes come back" cmp "$work/bytes" "$work/back"
: >"$work/empty"
is "$("$megatron" tokenize <"$work/empty" | "$megatron" detokenize | wc -c)" 0 "nothing, too"

fails() { # SENTENCE ARGUMENTS...
    local sentence=$1 out
    shift
    out=$("$megatron" "$@" 2>&1 </dev/null)
    is "$?: $out" "${code:-1}: megatron $sentence" "$sentence"
}
code=2 fails "detokenize: id 50257 is not in the tokenizer's vocabulary of 50257; use the tokenizer that made the ids" detokenize 50257
code=2 fails "detokenize: id=x is not a whole number; write digits only, as in 16" detokenize x
code=2 fails "tokenize: Llama2Tokenizer needs a SentencePiece model; name it with --tokenizer-model" \
    tokenize --tokenizer-type Llama2Tokenizer a
code=2 fails "tokenize: cannot open $work/none: No such file or directory; check the path" \
    tokenize --tokenizer-type Llama2Tokenizer --tokenizer-model "$work/none" a
code=2 fails "tokenize: BertWordPieceCase needs a vocabulary file, BERT's vocab.txt; name it with --vocab-file" \
    tokenize --tokenizer-type BertWordPieceCase a
code=2 fails "tokenize: NullTokenizer needs a vocabulary size; set it with --vocab-size" tokenize --tokenizer-type NullTokenizer 1
code=2 fails "tokenize: the vocabulary file must be used together with the merge file; use both --vocab-file and --merge-file, or neither for GPT-2's files" \
    tokenize --vocab-file x a
"$megatron" tokenize --help | grep -q -- '--tokenizer-model FILE'
ok "--help"
[ ! -w /dev/full ] || {
    out=$(seq 100000 | "$megatron" tokenize 2>&1 >/dev/full)
    is "$out" "megatron tokenize: cannot write to standard output: No space left on device; free disk space there, or choose another directory" "a full disk is an error"
}
done_testing

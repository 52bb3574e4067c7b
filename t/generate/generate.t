#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron generate: the same texts on every layout and from every form of the weights, sampling, where
# texts end, where prompts come from, and what it says about bad input.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/../checkpoint/common.sh"
numbers=(--tokenizer-type NullTokenizer)

# generate RANKS OPTION...: standard output is in $out, standard error in $said.
generate() {
    local ranks=$1 run=()
    shift
    [ "$ranks" = 1 ] || run=("${launch[@]}" "$ranks" --)
    out=$(timeout 240 "${run[@]}" "$megatron" generate --device cpu --cpu-threads 1 "$@" 2>said </dev/null)
    rc=$?
    said=$(cat said)
}
tokens() { sed 's/.*"tokens": \[\([^]]*\)\].*/\1/' <<<"$out"; }

# Weights far from each other, so that no rounding decides between tokens.
common+=(--init-method-std 0.4 --save-interval 4)
train 2 $t 2 --save gpt --save-hf gpt-hf
is "$rc" 0 "a GPT, trained with tp 2" || diag "$(tail -n 3 <<<"$out")"
train 2 $p 2 --save llama --save-hf llama-hf --position-embedding-type rope --use-rope-scaling --normalization RMSNorm \
    --swiglu --untie-embeddings-and-output-weights --disable-bias-linear --group-query-attention --num-query-groups 2 \
    --max-position-embeddings 80 --hidden-dropout 0 --attention-dropout 0
is "$rc" 0 "a Llama with grouped queries, trained with pp 2" || diag "$(tail -n 3 <<<"$out")"

texts=(--prompt '5 6 7 8' --prompt '200 1' --prompt '17 18 19' --num-tokens 24 --json --ignore-eod)
for net in gpt llama; do
    generate 1 --load $net "${numbers[@]}" "${texts[@]}"
    is "$rc $(wc -l <<<"$out") $(tokens | tr -cd , | wc -c)" "0 3 69" "$net: 24 tokens after each of three prompts" ||
        diag "$said"
    expected=$out
    for layout in "2 $t 2" "2 $p 2" "4 $t 2 $p 2" "2" "4 $t 4"; do
        [ "$net $layout" != "llama 4 $t 4" ] || continue
        generate $layout --load $net "${numbers[@]}" "${texts[@]}"
        is "$out" "$expected" "$net: the same texts with layout $layout" || diag "$said"
    done
    generate 1 --load $net-hf "${numbers[@]}" "${texts[@]}"
    is "$out" "$expected" "$net: the same texts from Hugging Face's format" || diag "$said"
    generate 1 --load $net "${numbers[@]}" "${texts[@]}" --micro-batch-size 1
    is "$out" "$expected" "$net: the same texts with a micro-batch of 1"
    generate 1 --load $net "${numbers[@]}" "${texts[@]}" --temperature 1.2 --top-p 0.9 --seed 3
    sampled=$out
    unlike "$sampled" "^$(head -n 1 <<<"$expected" | sed 's/[][]/./g')$" "$net: sampling differs from greedy decoding"
    generate 4 $t 2 $p 2 --load $net "${numbers[@]}" "${texts[@]}" --temperature 1.2 --top-p 0.9 --seed 3
    is "$out" "$sampled" "$net: the same seed gives the same samples on another layout" || diag "$said"
    generate 1 --load $net "${numbers[@]}" "${texts[@]}" --temperature 1.2 --top-p 0.9 --seed 4
    [ "$out" != "$sampled" ]
    ok "$net: another seed gives other samples"
    generate 1 --load $net "${numbers[@]}" "${texts[@]}" --top-k 1 --temperature 2
    is "$out" "$expected" "$net: top-k 1 is greedy"
done
like "$said" '^megatron: note: 72 tokens generated; .* tokens/s' "the speed is printed on standard error"

# The logits of the texts: logits FILE [TARGET...] prints type and tokens of each prompt, type, size of the vocabulary and the
# most likely token after each, and the loss of the first prompt whose next tokens are TARGET.
logits() {
    perl -e 'use strict; use warnings;
        local $/; my $all = <STDIN>; my $n = unpack("Q<", $all); my $head = substr($all, 8, $n);
        while ($head =~ /"(\w+)\.(\d+)":\{"dtype":"(\w+)","shape":\[([\d,]+)\],"data_offsets":\[(\d+),(\d+)\]\}/g) {
            my ($name, $i, $type, $shape, $part) = ($1, $2, $3, $4, substr($all, 8 + $n + $5, $6 - $5));
            my @shape = split /,/, $shape;
            if ($name eq "tokens") { print "$type tokens $i ", join(" ", unpack("l<*", $part)), "\n"; next }
            my ($rows, $cols) = @shape; my @all = unpack("f<*", $part); my @best; my $loss = 0;
            for my $r (0 .. $rows - 1) {
                my @row = @all[$r * $cols .. ($r + 1) * $cols - 1]; my $best = 0; my $sum = 0;
                for my $c (0 .. $cols - 1) { $best = $c if $row[$c] > $row[$best]; $sum += exp($row[$c]) }
                push @best, $best;
                $loss += log($sum) - $row[$ARGV[$r]] if defined $ARGV[$r];
            }
            print "$type $cols best $i @best\n"; printf("loss %.6f\n", $loss / @ARGV) if @ARGV && $i == 0;
        }' "${@:2}" <"$1"
}
for net in gpt llama; do
    generate 1 --load $net "${numbers[@]}" "${texts[@]}" --logits one.safetensors
    is "$rc $(tokens | tr -cd , | wc -c)" "0 69" "$net: --logits" || diag "$said"
    expected=$out
    got=$(logits one.safetensors)
    is "$(grep -c '^F32 300 best' <<<"$got") $(grep -c '^I32 tokens' <<<"$got")" "3 3" "  has logits and tokens of three prompts"
    wrong=0
    for i in 0 1 2; do
        read -ra read_ < <(sed -n "s/^I32 tokens $i //p" <<<"$got")
        read -ra best < <(sed -n "s/^F32 300 best $i //p" <<<"$got")
        read -ra prompt < <(sed -n "$((i + 1))s/.*\"prompt_tokens\": \[\([^]]*\)\].*/\1/p" <<<"$out" | tr -d ,)
        read -ra new < <(tokens | sed -n "$((i + 1))p" | tr -d ,)
        [ "${read_[*]} ${best[*]: -1}" = "${prompt[*]} ${new[*]}" ] || wrong=$((wrong + 1))
        [ "${best[*]:${#prompt[@]}-1}" = "${new[*]}" ] || wrong=$((wrong + 1))
    done
    is "$wrong" 0 "  the tokens of the text, each the most likely one" || diag "$got" "$out"
    for layout in "2 $t 2" "4 $t 2 $p 2" "2"; do
        generate $layout --load $net "${numbers[@]}" "${texts[@]}" --logits many.safetensors
        is "$out" "$expected" "  the same texts on ranks $layout" || diag "$said"
        is "$(logits many.safetensors)" "$got" "  and the same most likely tokens"
    done
done
# `megatron evaluate` has the loss of the same tokens.
seq -s ' ' 7 38 >text
"$megatron" preprocess --input text --input-format lines --output-prefix text "${numbers[@]}" --vocab-size 300 >log 2>&1
try "$megatron" evaluate --load gpt --valid-data-path text_text_document --seq-length 31 --micro-batch-size 1 --eval-iters 1 \
    --device cpu --cpu-threads 1
loss=$(sed -nE 's/.*validation loss at .* \| lm loss value: ([^ ]+) .*/\1/p' <<<"$out")
generate 1 --load gpt "${numbers[@]}" --prompt "$(seq -s ' ' 7 37)" --num-tokens 1 --ignore-eod --logits one.safetensors
# shellcheck disable=SC2046
mine=$(logits one.safetensors $(seq 8 38) | sed -n 's/^loss //p')
awk -v a="$loss" -v b="$mine" 'BEGIN { d = a - b; exit !(a > 0 && d < 2e-6 * a && d > -2e-6 * a) }'
ok "the logits have the loss of megatron evaluate" || diag "$loss, $mine"
mkdir odd
for config in '{"model_type": "t5"}' '{"model_type": "gpt2", "n_layer": 1, "n_head": 3, "n_embd": 4, "vocab_size": 5, "n_positions": 8}' '{'; do
    echo "$config" >odd/config.json
    generate 1 --load odd "${numbers[@]}" --prompt '5 6'
    is "$rc $(grep -c odd/config.json <<<"$said")" "2 1" "a model that can never work: $config" || diag "$said"
done
generate 1 --load gpt "${numbers[@]}" --prompt '5 6' --logits nowhere/x
is "$rc" 2 "--logits in a directory that does not exist"
mkdir folder && generate 1 --load gpt "${numbers[@]}" --prompt '5 6' --logits folder
is "$rc $(ls folder | wc -l)" "2 0" "  or as a directory"

# Where texts end.
generate 1 --load gpt "${numbers[@]}" --prompt '5 6' --json --ignore-eod
is "$(tokens | tr -cd , | wc -c)" 29 "30 tokens by default"
generate 1 --load gpt "${numbers[@]}" --prompt '5 6 7 8' --json --num-tokens 20 --ignore-eod
like "$(sed 's/.*"prompt_tokens"/"prompt_tokens"/' <<<"$out")" '^"prompt_tokens": .*"tokens": .*"finish": "length"}$' \
    "the parts of a line"
all=$(tokens)
stop=$(cut -d, -f7 <<<"$all" | tr -d ' ')
generate 1 --load gpt "${numbers[@]}" --prompt '5 6 7 8' --json --eod-id "$stop"
head=${all%%[ ,]$stop[,]*}
is "$(tokens)" "${head%,}" "a text ends before its end-of-document token"
like "$out" '"finish": "stop"}' "and reports it"
generate 1 --load gpt "${numbers[@]}" --prompt '5 6 7 8' --json --out-seq-length 10
is "$(tokens | tr -cd , | wc -c)" 5 "--out-seq-length counts the prompt"
generate 1 --load gpt "${numbers[@]}" --prompt '5 6 7 8' --json --num-tokens 100 --ignore-eod
is "$(tokens | tr -cd , | wc -c)" 27 "a text ends with the positions of the model"

# Where prompts come from.
generate 1 --load gpt "${numbers[@]}" --prompt '1 2' --prompt '3 4' --num-tokens 3
lines=$out
is "$(wc -l <<<"$lines") $(sed -n 2p <<<"$lines")" "3 " "texts are separated by an empty line"
like "$lines" '^3 4 [0-9]+ [0-9]+ [0-9]+$' "a text begins with its prompt"
printf '1 2\n\n3 4\r\n' >prompts
generate 1 --load gpt "${numbers[@]}" --prompt-file prompts --num-tokens 3
is "$out" "$lines" "prompts from a file"
# As srun, which passes its standard input to rank 0.
port=$((21000 + RANDOM % 9000))
rank() { # NUMBER
    env RANK="$1" WORLD_SIZE=2 LOCAL_RANK="$1" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port MEGATRON_SECRET=0123456789abcdef \
        "$megatron" generate --device cpu --cpu-threads 1 $t 2 --load gpt "${numbers[@]}" --num-tokens 3
}
rank 1 >/dev/null 2>&1 </dev/null &
out=$(rank 0 2>said <prompts)
wait $!
is "$out" "$lines" "and from standard input, on two ranks" || diag "$(cat said)"
"$megatron" generate --device cpu --cpu-threads 1 --load gpt "${numbers[@]}" --prompt '1 2' --num-tokens 20 2>said |
    perl -e 'while (sysread(STDIN, $part, 65536)) { $parts++; $cut++ if $part !~ /\n\z/ } print $parts && !$cut ? "whole\n" : "cut\n"' >parts
is "$(cat parts)" whole "a pipe gets whole lines: some launchers lose parts of lines" || diag "$(cat said)"
if command -v script >/dev/null; then
    out=$(script -qec "$megatron generate --device cpu --cpu-threads 1 --load gpt ${numbers[*]} --prompt-file prompts --num-tokens 3 2>said" \
        /dev/null | tr -d '\r')
    is "$out" "$lines" "a terminal gets the same" || diag "$(cat said)"
else
    skip "a terminal gets the same" "no script(1)"
fi
generate 1 --load gpt "${numbers[@]}" --prompts '1 2' '3 4' --num-tokens 3
is "$out" "$lines" "several prompts after one option"

# A tokenizer next to the weights.
files=$top/runtime/data/tokenizer/gpt2
train 1 --vocab-size 50257 --num-layers 2 --train-iters 1 --lr-warmup-iters 0 --save gpt2 --save-hf gpt2-hf
is "$rc" 0 "a model with GPT-2's vocabulary" || diag "$(tail -n 3 <<<"$out")"
generate 1 --load gpt2 --prompt 'Call me Ishmael.' --num-tokens 5
like "$out" '^Call me Ishmael\.' "GPT-2's own for 50257 tokens" || diag "$said"
text=$out
cp "$files/vocab.json" "$files/merges.txt" gpt2-hf
generate 1 --load gpt2-hf --prompt 'Call me Ishmael.' --num-tokens 5
is "$out" "$text" "vocab.json and merges.txt next to the weights"
try "$megatron" checkpoint import gpt2-hf imported
generate 1 --load imported --prompt 'Call me Ishmael.' --num-tokens 5
is "$out" "$text" "they come along with an import" || diag "$said"
train 1 --load imported --finetune --vocab-size 50257 --num-layers 2 --train-iters 1 --lr-warmup-iters 0 --lr 0 --save tuned --save-hf tuned-hf
ok "and with --save-hf" cmp "$files/merges.txt" tuned-hf/merges.txt
generate 1 --load tuned --prompt 'Call me Ishmael.' --num-tokens 5
is "$out" "$text" "and with the run that begins there" || diag "$said"
train 1 --tokenizer-type GPT2BPETokenizer --vocab-file "$files/vocab.json" --merge-file "$files/merges.txt" --vocab-size 50257 \
    --num-layers 2 --train-iters 1 --lr-warmup-iters 0 --save named
generate 1 --load named --prompt 'Call me Ishmael.' --num-tokens 5
is "$out" "$text" "a run keeps the tokenizer that it named" || diag "$said"
generate 1 --load gpt2 --prompt '' --num-tokens 5 --json
like "$out" '"prompt_tokens": \[50256\]' "an empty prompt begins a document" || diag "$said"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin]' <<<"$out"
    ok "a line of JSON"
else
    skip "a line of JSON" "no python3"
fi

# A text starts with exactly one beginning-of-sequence token, whether from the post-processor or, as
# in transformers, from a Llama's settings.
cp -r llama-hf begun
mark=$'\xe2\x96\x81'
cat >begun/tokenizer.json <<EOT
{"added_tokens": [], "pre_tokenizer": {"type": "Metaspace", "replacement": "$mark", "prepend_scheme": "never"},
 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
     {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}}},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2, "</s>": 3}, "merges": []}}
EOT
echo '{"bos_token": "<s>", "eos_token": "</s>"}' >begun/tokenizer_config.json
for option in "" --tokenizer-add-bos --tokenizer-hf-include-special-tokens; do
    # shellcheck disable=SC2086
    generate 1 --load begun --prompt ab --num-tokens 1 --json $option
    like "$out" '"prompt_tokens": \[2, 0, 1\]' "one begin of a text${option:+ with $option}" || diag "$said"
done

# refused PATTERN NAME OPTION...
refused() {
    local pattern=$1 name=$2
    shift 2
    generate 1 "$@"
    is "$rc $(wc -l <<<"$said")" "${code:-2} 1" "$name" && like "$said" "$pattern" "  and why" || diag "$said"
}
mkdir -p empty theirs/iter_0000001/mp_rank_00
refused '--load is required' "no --load" --prompt x
refused 'directory nowhere does not exist' "no directory" --load nowhere --prompt x
refused 'empty contains neither checkpoints \(iter_\*\) nor Hugging Face weights' "no weights" --load empty --prompt x
refused 'theirs contains a Megatron-LM checkpoint; import it first' "weights to import first" --load theirs --prompt x
refused 'gpt/iter_0000008 is a single checkpoint; use its parent directory' "one checkpoint" --load gpt/iter_0000008 --prompt x
refused 'no prompt to continue; use --prompt' "no prompt" --load gpt "${numbers[@]}"
refused 'gpt contains no tokenizer ' "no tokenizer" --load gpt --prompt x
refused 'tokenizer has 50257 tokens, but the model in gpt has only 300' "another tokenizer" --load gpt --prompt x \
    --tokenizer-type GPT2BPETokenizer
refused 'cannot both be added; drop --tokenizer-add-bos or' "two ways to begin a text" --load begun --prompt a --tokenizer-add-bos \
    --tokenizer-hf-include-special-tokens
rm named/merges.txt
refused 'the file of "merges" is missing' "a tokenizer that lost a file" --load named --prompt x
echo '{"type": "Other"}' >named/megatron_tokenizer.json
refused 'unknown tokenizer type Other; choose a tokenizer with --tokenizer-type' "an unknown one" --load named --prompt x
refused 'prompt 2 has 32 tokens, but the model supports 32 positions' "a prompt that is too long" --load gpt "${numbers[@]}" \
    --prompt 1 --prompt "$(seq -s ' ' 32)"
refused 'leaves no room for generated tokens: .*; raise --out-seq-length$' "a text that is too short" --load gpt "${numbers[@]}" --prompt '1 2 3' --out-seq-length 3
refused '--top-p=2 must be from 0 to 1' "a share above 1" --load gpt "${numbers[@]}" --prompt 1 --top-p 2
for x in -3 -1; do
    refused "--temperature=$x must not be negative" "a temperature of $x" --load gpt "${numbers[@]}" --prompt 1 --temperature $x
    refused "--top-p=$x must be from 0 to 1" "a probability of $x" --load gpt "${numbers[@]}" --prompt 1 --top-p $x
done
refused 'token 300 is not in the vocabulary \(0 to 299\), so no text would end; change --eod-id$' "an end token that never occurs" \
    --load gpt "${numbers[@]}" --prompt 1 --eod-id 300
printf '1 2\n3\0 4\n5 6\n' >binary
refused 'binary is not a text file: line 2 contains a NUL byte; prompts must be UTF-8' "prompts with a NUL byte" --load gpt \
    "${numbers[@]}" --prompt-file binary
refused '--greedy and --top-k cannot be used together; drop one' "greedy and not" --load gpt "${numbers[@]}" --prompt 1 --greedy --top-k 3
refused '--tensor-model-parallel-size=2 does not divide 1 task;' "a layout of more ranks than there are" --load gpt "${numbers[@]}" --prompt 1 $t 2
# An error on all ranks is reported once.
while IFS='|' read -r words text; do
    # shellcheck disable=SC2086
    said=$(for rank in 0 1 2; do
        RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$megatron" generate \
            --device cpu "${numbers[@]}" --prompt 1 $words 2>&1
    done)
    is "$said" "megatron generate: $text" "three ranks with $words"
done <<EOT
--load gpt $t 3|--tensor-model-parallel-size=3 does not divide the 4 attention heads of the model; use 1, 2 or 4
--load gpt --top-p 2|--top-p=2 must be from 0 to 1
--load nowhere|directory nowhere does not exist; check the path
EOT
generate 1 --load gpt "${numbers[@]}" --prompt 1 --bf16
is "$rc $said" "2 megatron generate: the cpu device supports fp32 only; drop --bf16 or --fp16" "a type that the device does not support"
refused 'unexpected argument hello; use --prompt to pass a prompt' "a word" --load gpt hello
rm gpt-hf/model.safetensors
refused 'gpt-hf' "a folder without its tensors" --load gpt-hf "${numbers[@]}" --prompt 1

# The newest checkpoint is damaged: the one before it is used.
truncate -s 100 gpt/iter_0000008/index.json
generate 1 --load gpt "${numbers[@]}" --prompt '5 6 7 8' --json
is "$rc" 0 "a damaged index" || diag "$said"
like "$said" 'iter_0000008 is damaged' "is named"
done_testing

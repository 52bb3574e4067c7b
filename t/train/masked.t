#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Masked language models: passes of RoBERTa, BERT and MegatronBert against what transformers computed (masked/, written
# by t/peers/masked --write), Hugging Face folders in and out, fill-mask, presets, and what is refused.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
single=$MEGATRON_BUILD/t/peers/masked-pass
models=$top/t/train/masked
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
[ -x "$single" ] || make -s -C "$MEGATRON_BUILD/t" peers/masked-pass >make.log 2>&1

# numbers FILE: the loss, the Euclidean norm of all gradients and the sum of absolute logits.
numbers() {
    perl -e '
        open my $f, "<:raw", $ARGV[0] or die; my $loss = <$f>; my ($norm, $sum) = (0, 0);
        while (my $line = <$f>) {
            my ($name, $rows, $cols) = split " ", $line;
            read $f, my $data, 4 * $rows * $cols;
            for (unpack "f<*", $data) { $name eq "logits" ? ($sum += abs) : ($norm += $_ * $_) }
        }
        printf "%.9g %.9g %.9g\n", $loss, sqrt $norm, $sum' "$1"
}

# close GOT EXPECTED NAME: numbers agree to 2e-6 of their size.
close() {
    perl -e 'my @a = split " ", $ARGV[0]; my @b = split " ", $ARGV[1];
        exit 1 if @a != @b || !@a; for (0 .. $#a) { exit 1 if abs($a[$_] - $b[$_]) > 2e-6 * abs $b[$_] }' "$1" "$2"
    ok "$3" || { diag "got:      $1"; diag "expected: $2"; }
}

for model in roberta bert-pairs megatron-bert-pairs; do
    expected=$(cat "$models/$model/expected")
    for again in none selective full; do
        try "$single" "$models/$model" "$models/$model/batch" out cpu fp32 $again
        close "$(numbers out)" "$expected" "$model: loss, gradients and logits, recomputation $again"
    done
    try "$megatron" checkpoint import "$models/$model" $model
    is "$rc" 0 "  import"
    try "$megatron" checkpoint inspect $model
    like "$out" 'masked language model' "  inspect names the kind of model"
    try "$megatron" checkpoint export $model $model-hf --dtype fp32
    is "$rc" 0 "  export"
    try "$single" $model-hf "$models/$model/batch" out
    close "$(numbers out)" "$expected" "  and the exported folder computes the same"
done
like "$(cat roberta-hf/config.json)" '"layer_norm_eps": 1e-05' "config.json has what is not the default of transformers"

# --- fairseq's files, which have no token types: other gradients.
for form in new old; do
    try "$megatron" checkpoint import "$models/roberta/$form.pt" $form --format fairseq
    is "$rc" 0 "fairseq, $form names: import"
    try "$megatron" checkpoint export $form $form-hf --dtype fp32
    try "$single" $form-hf "$models/roberta/batch" out
    close "$(numbers out | cut -d ' ' -f 1,3)" "$(cut -d ' ' -f 1,3 "$models/roberta/expected")" "  loss and logits"
done
try "$megatron" checkpoint import "$models/roberta/batch" none --format fairseq
is "$rc" 2 "a file that is not a model of fairseq"

# --- fill-mask
words=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$models/bert-pairs/vocab.txt" --device cpu --cpu-threads 1)
try "$megatron" fill-mask --load bert-pairs "${words[@]}" --prompt 'w10 w11 [MASK] w12' --top-k 3 --json
is "$(tr '{' '\n' <<<"$out" | sed -n 's/.*"score": \([^,]*\), "token": \([0-9]*\), "token_str": "\([^"]*\)".*/\1 \2 \3/p' |
    while read -r score rest; do printf '%.6f %s\n' "$score" "$rest"; done)" "$(cat "$models/bert-pairs/filled")" \
    "fill-mask: the tokens and scores of transformers"
like "$out" '"sequence": "w10 w11 w24 w12"' "  and the text with each"
try "$megatron" fill-mask --load "$models/bert-pairs" "${words[@]}" --prompt '[MASK] w5[MASK]' --top-k 2
is "$(grep -c '^mask [12]:$' <<<"$out") $(grep -c '^  0\.' <<<"$out")" "2 4" "several masks, a Hugging Face folder"
texts=()
for text in '3 <mask> 4' '3<mask>4' '<mask> <mask> 4 5' '3 4 <mask> '; do texts+=(--prompt "$text"); done
try "$megatron" fill-mask --load "$models/roberta" --tokenizer-type NullTokenizer --mask-id 60 "${texts[@]}" --json --device cpu --cpu-threads 1
is "$rc $(wc -l <<<"$out")" "0 4" "fill-mask: masks between the numbers of NullTokenizer" || diag "$out"
is "$(sed -n 1p <<<"$out")" "$(sed -n 2p <<<"$out")" "  with and without spaces"
try "$megatron" fill-mask --load bert-pairs "${words[@]}" --prompt 'w10 w11 w9 w12' --pseudo-perplexity --json
close "$(sed -n 's/.*"pseudo_perplexity": \(.*\)}/\1/p' <<<"$out")" "$(cat "$models/bert-pairs/pseudo-perplexity")" \
    "pseudo-perplexity"
expected=$(tail -n 1 <<<"$out")
try "$megatron" evaluate --load bert-pairs "${words[@]}" --prompt 'w10 w11 w9 w12' --pseudo-perplexity --json
is "$rc $(tail -n 1 <<<"$out")" "0 $expected" "  also with evaluate"
try "$megatron" evaluate --load bert-pairs "${words[@]}" --prompt 'w10 w11 w9 w12' --pseudo_perplexity --json
is "$rc $(tail -n 1 <<<"$out")" "0 $expected" "  and with _ for -"

# RoBERTa's tokens: the mask takes the spaces before it, not those after it.
try "$megatron" train --masked-lm --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 16 --position-offset 2 \
    --post-norm --exact-gelu --vocab-size 50265 --mask-id 50264 --mock-data --micro-batch-size 1 --train-iters 1 --lr 1e-4 \
    --eval-iters 0 --device cpu --cpu-threads 1 --save-hf bytes
try "$megatron" fill-mask --load bytes --prompt 'Paris is the <mask> of France.' --top-k 1 --json --device cpu --cpu-threads 1
like "$out" '"token_str": "([^"]*)", "sequence": "Paris is the\1 of France\."' "RoBERTa's tokenizer: the text after a mask" || diag "$out"
try "$megatron" fill-mask --load bytes --prompt '<mask>, is<mask>the' --top-k 1 --json --device cpu --cpu-threads 1
like "$out" '"sequence": "[^"]*, is<mask>the"' "  with and without spaces" || diag "$out"

# --- Presets: parameters as fairseq and transformers count them; the padding of the vocabulary is counted here.
while read -r name parameters options; do
    # shellcheck disable=SC2086
    try "$megatron" train --dry-run --megatron-model $name --micro-batch-size 1 --mock-data --train-iters 1 --lr 1e-4 \
        --make-vocab-size-divisible-by 1 $options
    like "$out" "rank \\(0, 0\\): $parameters\$" "$name $options: parameters"
done <<'LIST'
roberta-base 124696665
roberta-base 124697433 --num-token-types 1
roberta-large 355411033
bert-base 109514298 --bert-no-binary-head
bert-large 336226108
LIST

# --- What is refused. refused TEXT NAME COMMAND...: exit code 2 and this line.
refused() {
    local text=$1 name=$2
    shift 2
    try "$megatron" "$@"
    is "$rc" 2 "$name: exit code"
    like "$out" "$text" "  and a line that explains it"
}
train=(train --micro-batch-size 1 --mock-data --train-iters 1 --lr 1e-4 --device cpu)
small=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --vocab-size 61)
"$megatron" "${train[@]}" "${small[@]}" --eval-iters 0 --save-hf causal --cpu-threads 1 >train.log 2>&1
refused 'cannot generate text; use megatron fill-mask' "generate with a masked model" \
    generate --load roberta "${words[@]}" --prompt w5
refused 'no masks to fill; use megatron generate' "fill-mask with a causal model" \
    fill-mask --load causal "${words[@]}" --prompt 'w5 [MASK]'
refused 'has no \[MASK\]; write \[MASK\] where a token is missing$' "a prompt without a mask" fill-mask --load bert-pairs "${words[@]}" --prompt 'w5 w6'
refused '35 tokens, but the model has 32 positions' "a prompt that is too long" \
    fill-mask --load bert-pairs "${words[@]}" --prompt "[MASK]$(printf ' w%d' {10..41})"
refused 'the tokenizer has no mask token .*give the id of the mask token with --mask-id' "a tokenizer without a mask" \
    fill-mask --load bert-pairs --tokenizer-type NullTokenizer --prompt '5 <mask>' --device cpu
refused 'the mask token 61 is not in the vocabulary of 61 tokens; give the id of the mask token with --mask-id' "  of mock data" \
    "${train[@]}" --masked-lm --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --vocab-size 61 --mask-id 61
refused 'tokens selected for prediction on this rank, but memory was planned for [0-9]+; raise --max-masked-tokens' "too few masked tokens" \
    "${train[@]}" --masked-lm --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --vocab-size 61 --mask-id 5 \
    --max-masked-tokens 1 --mask-prob 0.5
refused 'the mask token 61 is not in the vocabulary of 61 tokens; give the id of the mask token with --mask-id' "a mask that is not a token" \
    fill-mask --load bert-pairs "${words[@]}" --prompt 'w5 [MASK]' --mask-id 61
refused "--save-hf: the model has a binary head, which Hugging Face's RoBERTa does not have" "RoBERTa with a binary head" \
    "${train[@]}" "${small[@]}" --masked-lm --post-norm --exact-gelu --position-offset 2 --bert-binary-head --save-hf pairs
refused '--post-norm requires --masked-lm' "an option of masked models" "${train[@]}" "${small[@]}" --post-norm
for option in --swiglu --geglu "--window-size 4,0" "--norm-placement output" --use-parallel-residual "--final-logit-softcapping 3"; do
    # shellcheck disable=SC2086
    refused "${option% *} and --masked-lm cannot be used together" "$option" "${train[@]}" "${small[@]}" --masked-lm $option
done
refused '--post-norm requires --normalization LayerNorm' "RMSNorm after branches" \
    "${train[@]}" "${small[@]}" --masked-lm --post-norm --normalization RMSNorm
refused '--seq-length=513 is greater than --max-position-embeddings=514 less --position-offset' "too long samples" \
    "${train[@]}" --megatron-model roberta-base --seq-length 513
try "$megatron" "${train[@]}" --megatron-model roberta-large --vocab-size 267753 --mask-id 4 --micro-batch-size 8192
like "$out" 'vocabulary of 267753 tokens takes 4.09 GiB of it as a table, and .* masked tokens' "too little memory"
sed 's/"hidden_act": "gelu"/"hidden_act": "relu"/' "$models/roberta/config.json" >config.json
cp "$models/roberta/model.safetensors" .
try "$megatron" checkpoint import . other
like "$out" 'hidden_act relu is not supported, only gelu is; use another model' "another activation"
done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A run of fairseq 0.12.2, replayed: the same losses, gradient norms and validation to all printed digits,
# on every layout of ranks and after a resume; and the errors for data that does not fit.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron golden=$top/t/train/roberta
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99

model=(--load-hf "$golden" --num-token-types 0 --hidden-dropout 0 --attention-dropout 0)
recipe=(--recipe fairseq --tokens-per-sample 64 --sample-break-mode complete --lr 6e-3 --warmup-updates 4
    --total-num-update 20 --clip-norm 1)
common=(--data-path "$golden/data-bin" --log-interval 1 --log-format json --device cpu --cpu-threads 1
    --distributed-timeout-minutes 5)

# train RANKS OPTION...: the run, its output in 'out'.
train() {
    local ranks=$1 run=()
    shift
    [ "$ranks" = 1 ] || run=("${launch[@]}" "$ranks" --)
    timeout 600 "${run[@]}" "$megatron" train "${recipe[@]}" "${common[@]}" "$@" >out 2>&1
}

# values KEY: its values in the order of the lines, without the quotes.
values() { grep -o "\"$1\": \"[^\"]*\"" out | cut -d'"' -f4 | xargs; }

losses="8.22 8.273 8.168 8.099 7.97 7.822 7.724 7.547" norms="1.903 2.077 1.46 1.568 1.542 1.309 1.345 1.369"
train 1 "${model[@]}" --max-sentences 8 --max-update 8 || diag "$(tail -n 3 out)"
is "$(values loss)" "$losses" "fairseq's losses"
is "$(values gnorm)" "$norms" "fairseq's gradient norms"
is "$(values lr)" "0.0015 0.003 0.0045 0.006 0.005625 0.00525 0.004875 0.0045" "fairseq's learning rates"
is "$(values wpb)" "416 336 496 363 477 500 506 340" "fairseq's tokens"
is "$(values valid_loss)" 7.33 "fairseq's validation loss"
is "$(values ppl)" "298.14 309.32 287.65 274.17 250.69 226.22 211.49 187.05" "perplexities to base 2"
like "$(grep -m1 train_inner out)" \
    '^[0-9-]+ [0-9:]+ \| INFO \| train_inner \| \{"epoch": 1, "update": 0\.022, "loss": "8\.22", "ppl": "298\.14", "wps": "[0-9.e+]+", "ups": "[0-9.]+", "wpb": "416", "bsz": "8", "num_updates": "1", "lr": "0\.0015", "gnorm": "1\.903", "clip": "100", "train_wall": "[0-9]+", "wall": "[0-9]+"\}$' \
    "fairseq's line"
train 1 "${model[@]}" --max-sentences 8 --max-update 8 --log-interval 4
is "$(values wpb) $(values num_updates) $(values gnorm)" "402.8 455.8 4 8 1.752 1.391" "an interval of 4 steps: means"
# Weighted by tokens: (60 * 8.2198 + 49 * 8.2729 + 73 * 8.1682 + 55 * 8.0989) / 237
is "$(values loss)" "8.187 7.784" "  and the loss of all tokens"

# Into the second epoch: the lines at the end of an epoch and of the run, also in the other outputs.
train 1 "${model[@]}" --max-sentences 16 --update-freq 2 --max-update 14 --log-interval 5 --metrics-file metrics
is "$(values train_loss) $(values train_gnorm) $(values train_wpb) $(values train_bsz) $(values train_clip) $(values train_lr)" \
    "7.63 6.842 1.253 1.063 1525.7 1607 30.6 28 100 50 0.003 0.00225" "fairseq's lines of epochs" || diag "$(tail -n 3 out)"
is "$(values valid_loss) $(values valid_wpb) $(values valid_bsz) $(values valid_best_loss)" "6.83 6.697 630.5 630.5 12 12 6.697" \
    "  and of validation"
is "$(grep -o '| [a-z_]* | {"epoch": [0-9]' out | tr -d '|{\n"' | xargs)" \
    "train_inner epoch: 1 train_inner epoch: 1 valid epoch: 1 train epoch: 1 train_inner epoch: 2 valid epoch: 2 train epoch: 2 test epoch: 2" \
    "  in its order"
is "$(grep -c '"set":"validation"' metrics) $(grep -c 'validation loss at' out)" "2 0" "  --metrics-file has the validation, too"

# The same data in Megatron's lines.
train 1 "${model[@]}" --max-sentences 8 --max-update 2 --log-format megatron
like "$(grep 'iteration  *1/' out)" 'lm loss: 5.697564E\+00' "Megatron's line: the loss in nats"

# Two sentences per batch: 4 ranks, or 2 with twice the micro-batches, or one, take the same batches.
train 1 "${model[@]}" --max-sentences 2 --update-freq 4 --max-update 4
expected="$(values loss) $(values gnorm) $(values valid_loss)"
is "$(wc -w <<<"$expected")" 9 "one rank with --update-freq 4" || diag "$(tail -n 3 out)"
if [ -f "$MEGATRON_LIBRARY_DIR/comm_tcp.so" ]; then
    t=--tensor-model-parallel-size p=--pipeline-model-parallel-size c=--context-parallel-size
    for row in "4 1" "2 2" "2 4 $t 2 --make-vocab-size-divisible-by 1" "2 4 $p 2" "2 4 $c 2"; do
        read -r ranks freq more <<<"$row"
        train "$ranks" "${model[@]}" --max-sentences 2 --update-freq "$freq" --max-update 4 $more
        is "$(values loss) $(values gnorm) $(values valid_loss)" "$expected" "$ranks ranks, --update-freq $freq $more" ||
            diag "$(tail -n 3 out)"
    done
else
    skip "layouts of ranks" "built without OpenSSL"
fi

# A run that is resumed continues exactly, into the second epoch.
small=("${model[@]}" --max-sentences 16 --eval-iters 0 --update-freq 2)
train 1 "${small[@]}" --max-update 16
expected=$(values loss)
train 1 "${small[@]}" --max-update 16 --save ck --exit-interval 10
first=$(values loss)
network=(--masked-lm --num-layers 2 --hidden-size 32 --ffn-hidden-size 64 --num-attention-heads 4 --post-norm --exact-gelu
    --position-offset 2 --hidden-dropout 0 --attention-dropout 0)
small=("${network[@]}" --max-sentences 16 --eval-iters 0 --update-freq 2)
train 1 "${small[@]}" --load ck --max-update 16 || diag "$(tail -n 3 out)"
is "$first $(values loss)" "$expected" "a resumed run continues with the same losses"
like "$(grep train_inner out | tail -n 1)" '"epoch": 2, "update": 1\.' "  in the second epoch"

# fp16 weights without a copy in fp32, emulated here: every update rounds them.
half=("${small[@]}" --memory-efficient-fp16 --log-format megatron --max-update 6)
nats() { grep -o 'lm loss: [^ ]*' out | cut -d' ' -f3 | xargs; }
train 1 "${small[@]}" --log-format megatron --max-update 6
wide=$(nats)
train 1 "${half[@]}" || diag "$(tail -n 3 out)"
expected=$(nats)
like "$(tail -n 1 out)" 'loss scale: 128\.0' "--memory-efficient-fp16 has a loss scale"
is "$(paste <(tr ' ' '\n' <<<"$wide") <(tr ' ' '\n' <<<"$expected") |
    awk '{ d = ($1 - $2) / $1; near += d * d < 1e-6; same += $1 == $2 } END { print near, same < 3 }')" "6 1" \
    "  losses are close to those of fp32, but not the same" || diag "$wide; $expected"
planned=$(grep -m1 'memory (GiB)' out)
train 1 "${half[@]}" --dry-run --vocab-size "$(sed -n 's/.*padded vocab (size: \([0-9]*\)).*/\1/p' out)"
is "$(grep -m1 'memory (GiB)' out)" "$planned" "  --dry-run --device cpu prints the memory of the run"
train 1 "${half[@]}" --save half --exit-interval 3
first=$(nats)
"$megatron" checkpoint export half exported >log 2>&1 || diag "$(tail -n 3 log)"
size=$(od -An -tu8 -N8 exported/model.safetensors)
is "$(od -An -v -tu4 -w4 -j $((size + 8)) exported/model.safetensors |
    awk 'int($1 / 8388608) % 256 > 112 { n++; wide += $1 % 8192 > 0 } END { print (n > 10000), wide + 0 }')" "1 0" \
    "  weights of a checkpoint are fp16 numbers"
train 1 "${half[@]}" --load half
is "$first $(nats)" "$expected" "  a resumed run continues with the same losses"

# Masks by option.
train 1 "${model[@]}" --max-sentences 8 --max-update 1 --eval-iters 0 --mask-prob .4
is "$(values loss | wc -w)" 1 "more masked tokens: memory is planned for them" || diag "$(tail -n 3 out)"
train 1 "${model[@]}" --max-sentences 8 --max-update 1 --eval-iters 0 --masking fairseq-main
unlike "$(values loss)" '^8.22$' "other draws, other masks"
hf=(--max-sentences 8 --eval-iters 0 --masking huggingface)
train 1 "${model[@]}" "${hf[@]}" --max-update 4
expected=$(values loss)
# The first two have the initial weights: t/peers/masks computes them with transformers.
is "$(cut -d' ' -f1,2 <<<"$expected")" "8.243 8.239" "the losses of transformers on its collator's masks" || diag "$(tail -n 3 out)"
train 1 "${model[@]}" "${hf[@]}" --max-update 4 --save hf --exit-interval 2
train 1 "${network[@]}" "${hf[@]}" --max-update 4 --load hf || diag "$(tail -n 3 out)"
is "$(values loss)" "$(cut -d' ' -f3,4 <<<"$expected")" "  also after a resume"
if [ -f "$MEGATRON_LIBRARY_DIR/comm_tcp.so" ]; then
    train 1 "${model[@]}" "${hf[@]}" --max-sentences 2 --update-freq 2 --max-update 3
    expected=$(values loss)
    train 2 "${model[@]}" "${hf[@]}" --max-sentences 2 --update-freq 1 --max-update 3
    is "$(wc -w <<<"$expected") $(values loss)" "3 $expected" "  and on 2 ranks" || diag "$(tail -n 3 out)"
else
    skip "  and on 2 ranks" "built without OpenSSL"
fi
train 1 "${model[@]}" "${hf[@]}" --max-update 1 --mask-prob .5
is "$(values loss | wc -w)" 1 "  memory is planned for as many masked tokens as there can be" || diag "$(tail -n 3 out)"

samples=$MEGATRON_BUILD/t/peers/masked-samples
[ -x "$samples" ] || make -s -C "$MEGATRON_BUILD/t" peers/masked-samples >make.log 2>&1

# masked PAD LINES OPTION...: these lines after masking, sorted.
masked() {
    local pad=$1 lines=$2
    shift 2
    "$samples" "$lines" "${recipe[@]}" --masked-lm --num-layers 1 --hidden-size 16 --num-attention-heads 2 --max-update 9 \
        --sample-break-mode eos --max-sentences 1 --eval-iters 0 --device cpu --masking huggingface "$@" >samples 2>log || cat log
    od -An -v -td4 -w256 -j16 samples |
        awk -v pad="( $pad)+\$" 'NR % 2 { gsub(/ +/, " "); sub(/^ /, ""); sub(pad, ""); print }' | sort
}
mkdir words unknown
cut -f1 "$golden/words.txt" >lines
"$megatron" preprocess --tokenizer-type FairseqBPE --input lines --output-prefix words/train >log 2>&1 || diag "$(cat log)"
is "$(masked 1 "$(wc -l <lines)" --tokenizer-type FairseqBPE --data-path words --mask-whole-words --mask-prob .5)" \
    "$(cut -f2 "$golden/words.txt" | sort)" "the whole words that transformers masks"
cp "$golden/data-bin/dict.txt" unknown
echo "w0 unknown w1 w2 unheard w3" >lines
"$megatron" preprocess --tokenizer-type FairseqWords --vocab-file unknown/dict.txt --input lines --output-prefix unknown/train \
    >log 2>&1 || diag "$(cat log)"
most=(--mask-prob .9999 --leave-unmasked-prob 0 --random-token-prob 0)
is "$(masked 1 1 --data-path unknown "${most[@]}")" "0 304 3 304 304 3 304 2" "special tokens are not masked"
train 1 "${model[@]}" --max-sentences 8 --max-update 2 --eval-iters 0 --freq-weighted-replacement
is "$(values loss | wc -w)" 2 "replacements by frequency train" || diag "$(tail -n 3 out)"
train 1 "${model[@]}" --max-sentences 8 --max-update 2 --eval-iters 0 --max-tokens 256
is "$(values bsz)" "$(values bsz | awk '$1 <= 8 && $2 <= 8')" "a limit of tokens" || diag "$(tail -n 3 out)"

# Several samples in a row: each sees only itself, so the loss of the validation data is the same.
for mode in eos complete; do
    train 1 "${model[@]}" --max-sentences 8 --max-update 1 --sample-break-mode $mode
    padded=$(values valid_loss)
    train 1 "${model[@]}" --max-sentences 8 --max-update 1 --sample-break-mode $mode --pack
    is "$(values valid_loss)" "$padded" "packed rows, --sample-break-mode $mode" || diag "$(tail -n 3 out)"
done
like "$(cat out)" '> [0-9]+ training samples in [0-9]+ rows of 64 tokens \([0-9.]+ % padding\)' "the share of padding is printed"

# Megatron's BERT, from sentences.
{
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n##s\n.\n'
    printf '%s\n' the a dog cat runs sits on mat big red and he she it was is
} >vocab.txt
awk 'BEGIN {
    srand(3); split("the a dog cat runs sits on mat big red and he she it was is", word, " ")
    for (d = 0; d < 40; d++) {
        text = ""; sentences = 2 + int(8 * rand())
        for (s = 0; s < sentences; s++) {
            n = 3 + int(6 * rand()); text = text (s ? " " : "") "The"
            for (i = 0; i < n; i++) text = text " " word[1 + int(16 * rand())] (rand() < .2 ? "s" : "")
            text = text "."
        }
        print "{\"text\": \"" text "\"}"
    }
}' >c.jsonl
bert=(--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt)
echo '{"text": "the dogs zebra sits"}' >d.jsonl
"$megatron" preprocess --input d.jsonl --output-prefix d "${bert[@]}" --append-eod >log 2>&1 || diag "$(cat log)"
is "$(masked 0 1 "${bert[@]}" --train-data-path d_text_document --masked-data fairseq "${most[@]}")" "2 4 4 4 1 4 3" \
    "BERT's special tokens are not masked"
"$megatron" preprocess --input c.jsonl --output-prefix b "${bert[@]}" --split-sentences \
    --punkt-data "$top/t/preprocess/punkt" >log 2>&1 || diag "$(cat log)"
bert+=(--masked-lm --bert-binary-head --num-token-types 2 --num-layers 2 --hidden-size 32 --num-attention-heads 4
    --seq-length 32 --micro-batch-size 2 --global-batch-size 8 --train-iters 4 --lr 1e-3 --lr-decay-style constant
    --data-path b_text_sentence --split 80,20,0 --log-interval 1 --eval-iters 2 --device cpu --cpu-threads 1)
try "$megatron" train "${bert[@]}"
expected=$(sed -nE 's/.*(lm loss|loss value): ([^ ]+) .*/\2/p' <<<"$out" | xargs)
is "$(wc -w <<<"$expected")" 5 "Megatron's BERT trains on pairs of sentences" || diag "$(tail -n 3 <<<"$out")"
try "$megatron" train "${bert[@]}" --micro-batch-size 4
unlike "$(sed -nE 's/.*(lm loss|loss value): ([^ ]+) .*/\2/p' <<<"$out" | xargs)" '^$' "  with other micro-batches"
numbers() { sed -nE 's/.*lm loss: ([^ ]+) .*grad norm: ([^ ]+) .*/\1 \2/p' <<<"$out"; }
tokens=(--bert-no-binary-head --masked-data bert --calculate-per-token-loss)
try "$megatron" train "${bert[@]}" "${tokens[@]}" --micro-batch-size 8
expected_numbers=$(numbers)
try "$megatron" train "${bert[@]}" "${tokens[@]}"
paste <(echo "$expected_numbers") <(numbers) | awk '
    { d = $1 / $3 - 1; e = $2 - $4; if (NF != 4 || d > 1e-5 || d < -1e-5 || e > 2e-3 || e < -2e-3) bad = 1 } END { exit bad || NR != 4 }'
ok "  per token they do not matter" || diag "$expected_numbers, $(numbers)"
try "$megatron" train "${bert[@]}" --data-path 0.4 b_text_sentence 0.6 b_text_sentence
is "$rc $(grep -c 'lm loss:' <<<"$out")" "0 4" "  on a blend" || diag "$(tail -n 3 <<<"$out")"
if [ -f "$MEGATRON_LIBRARY_DIR/comm_tcp.so" ]; then
    try "${launch[@]}" 2 -- "$megatron" train "${bert[@]}"
    is "$(sed -nE 's/.*(lm loss|loss value): ([^ ]{7})[^ ]* .*/\2/p' <<<"$out" | xargs)" \
        "$(sed -E 's/([0-9.]{7})[^ ]*/\1/g' <<<"$expected")" "  on 2 ranks, with the same losses" || diag "$(tail -n 3 <<<"$out")"
else
    skip "  on 2 ranks" "built without OpenSSL"
fi

# Bad input.
fails() { # MESSAGE, then options
    local message=$1
    shift
    "$megatron" train --recipe fairseq --lr 6e-3 --tokens-per-sample 64 --max-sentences 8 --max-update 2 --device cpu "$@" >out 2>&1
    is $? 2 "exit code 2: $message"
    like "$(grep -E '^megatron( train)?: ' out | tail -n 1)" "$message" "  $message"
}
small=(--masked-lm --num-layers 1 --hidden-size 16 --num-attention-heads 2 --position-offset 2)
cp -r "$golden/data-bin" bin
head -n 100 "$golden/data-bin/dict.txt" >bin/dict.txt
fails 'train.bin contains token [0-9]+ \(sequence [0-9]+\), but the vocabulary has 105 tokens \(from bin/dict.txt\); the data were made with another' \
    "${small[@]}" --data-path bin
fails 'dict.txt has 305 ids, the model only 200' "${small[@]}" --vocab-size 200 --data-path "$golden/data-bin"
rm bin/dict.txt
fails 'the mask token is unknown: there is no dict.txt' "${small[@]}" --vocab-size 305 --data-path bin
fails '--data-path=none: there is no such directory; check the path' "${small[@]}" --data-path none
echo '{"text": "the dogs sit"}' >d.jsonl
"$megatron" preprocess --input d.jsonl --output-prefix causal --append-eod >log 2>&1 || diag "$(cat log)"
rm causal_text_document.tokenizer # as data from other tools and older versions
fails "causal_text_document.bin: its documents end with token 50256, .*; make it with .*--tokenizer-type FairseqBPE" "${small[@]}" \
    --tokenizer-type FairseqBPE --train-data-path causal_text_document --eval-iters 0
fails 'has no token <mask> or \[MASK\]' "${small[@]}" --tokenizer-type GPT2BPETokenizer --data-path bin
fails 'is not a directory; a masked language model reads train.bin' "${small[@]}" --data-path "$golden/data-bin/train" \
    --vocab-size 305 --mask-id 304
fails 'are longer than 16 tokens, .*; raise --tokens-per-sample' "${small[@]}" --data-path "$golden/data-bin" --tokens-per-sample 16
fails '--mask-prob requires --masked-lm' --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
    --mask-prob 0.2 --vocab-size 100 --mock-data
fails 'is not two numbers of at least 0 and less than 1; write them like \(0.9,0.98\)' "${small[@]}" --adam-betas 0.9 --data-path "$golden/data-bin"
fails '--update-freq and --global-batch-size cannot be used together' "${small[@]}" --update-freq 2 --global-batch-size 16 \
    --data-path "$golden/data-bin"
fails '--memory-efficient-fp16 and --bf16 cannot be used together' "${small[@]}" --memory-efficient-fp16 --bf16 --vocab-size 305 \
    --mock-data
fails '--memory-efficient-fp16 requires --optimizer adam' "${small[@]}" --memory-efficient-fp16 --optimizer sgd --vocab-size 305 \
    --mock-data
fails 'counts of a dict.txt' "${small[@]}" --vocab-size 305 --mask-id 304 --freq-weighted-replacement --mock-data
fails 'needs pairs of sentences' "${small[@]}" --bert-binary-head --masked-data fairseq --vocab-size 305 --mask-id 304 --mock-data
fails '--pack cannot be used with --masked-data bert' "${bert[@]}" --pack
fails '--calculate-per-token-loss cannot be used with the binary head' "${bert[@]}" --calculate-per-token-loss
fails 'make it with `megatron preprocess --split-sentences`' --masked-lm --num-layers 1 --hidden-size 16 --num-attention-heads 2 --bert-binary-head \
    --num-token-types 2 --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt --data-path bin/valid --vocab-size 400
fails '--data-path=bin is a directory, but BERT.s samples are made from sentences: .*, or use --bert-no-binary-head' "${small[@]}" \
    --bert-binary-head --num-token-types 2 --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt --data-path bin --vocab-size 400
fails '--mask-whole-words needs to know where words begin' "${small[@]}" --mask-whole-words --data-path "$golden/data-bin"
hf=("${small[@]}" --masking huggingface --vocab-size 305 --mask-id 304)
fails 'the spaces between words, which BertWordPieceLowerCase does not keep; use --tokenizer-type FairseqBPE' "${hf[@]}" \
    --mask-whole-words --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt --mock-data
fails 'must be 0 with --mask-whole-words and --masking huggingface' "${hf[@]}" --vocab-size 50265 --mask-whole-words \
    --tokenizer-type FairseqBPE --random-token-prob .1 --mock-data
fails '--freq-weighted-replacement and --masking huggingface cannot be used together' "${hf[@]}" --freq-weighted-replacement \
    --data-path "$golden/data-bin"
done_testing

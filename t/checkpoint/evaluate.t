#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron evaluate computes the loss that training computed for the same weights and data.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
loss() { sed -nE "s/.*validation loss at $1 \| lm loss value: ([^ ]+) .*/\1/p" <<<"$out"; }

train 2 $t 2 --save run --save-hf hf --eval-interval 8 --eval-iters 2
is "$rc" 0 "a run that evaluates at its end" || diag "$(tail -n 3 <<<"$out")"
expected=$(loss 'iteration 8')
like "$expected" '^[0-9.]+E' "with a loss"
evaluate() {
    local ranks=$1 run=()
    shift
    [ "$ranks" = 1 ] || run=("${launch[@]}" "$ranks" --)
    try "${run[@]}" "$megatron" evaluate --mock-data --device cpu --cpu-threads 1 --micro-batch-size 2 \
        --global-batch-size 16 --eval-iters 2 "$@"
}
near() { awk -v a="$expected" -v b="$1" 'BEGIN { d = a - b; exit !(b > 0 && d < 1e-5 * a && d > -1e-5 * a) }'; }
evaluate 2 $t 2 --load run
is "$rc" 0 "evaluate" || diag "$(tail -n 3 <<<"$out")"
is "$(loss 'iteration 8 on validation set')" "$expected" "the same loss on the same layout"
evaluate 1 --load run
near "$(loss 'iteration 8 on validation set')"
ok "the same to rounding on another" || diag "$(tail -n 3 <<<"$out")"
evaluate 1 --load-hf hf --seq-length 32
near "$(loss 'iteration 0 on validation set')"
ok "and for weights of Hugging Face's form" || diag "$(tail -n 3 <<<"$out")"
evaluate 1 --load hf
near "$(loss 'iteration 0 on validation set')"
ok "or with --load, as their directory tells what they are" || diag "$(tail -n 3 <<<"$out")"
unlike "$out" 'iteration +1/' "nothing is trained"
evaluate 1 --load run "${model[@]}" --vocab-size 300
near "$(loss 'iteration 8 on validation set')"
ok "options of the network may be repeated" || diag "$(tail -n 3 <<<"$out")"
while IFS='|' read -r options pattern; do
    # shellcheck disable=SC2086
    evaluate 1 --load run $options
    is "$rc $(wc -l <<<"$out")" "2 1" "rejected: $options"
    like "$out" "$pattern" "  and why"
done <<'END'
--num-layers 6|--num-layers=6 does not match the weights in run, which have 4; drop it
--vocab-size 301|--vocab-size=301 does not match the weights in run, which have 300
--normalization RMSNorm|--normalization=RMSNorm does not match the weights in run, which have LayerNorm
--norm-epsilon 1e-6|--norm-epsilon=1e-06 does not match the weights in run, which have 1e-05
--swiglu|--swiglu does not match the weights in run
--disable-bias-linear|--disable-bias-linear does not match the weights in run
--max-position-embeddings 64|--max-position-embeddings=64 does not match the weights in run, which have 32
--tokenizer-type GPT2BPETokenizer|the tokenizer has 50257 tokens, but the vocabulary of the model .the checkpoint. has 300; use the tokenizer that
--megatron-model 1.7B|--megatron-model 1.7B sets --num-layers to 24, but the weights in run have 4
END
# A training that resumes takes its network from the checkpoint unless its options name it.
resume=(--micro-batch-size 2 --global-batch-size 16 --lr 1e-3 --train-iters 9 --mock-data --log-interval 1 --eval-iters 0
    --device cpu --cpu-threads 1 --override-opt_param-scheduler)
try "$megatron" train "${resume[@]}" --load run
like "$out" 'iteration +9/ ' "train --load alone resumes" || diag "$out"
try "$megatron" train "${resume[@]}" --load run --num-layers 6
like "$out" '--num-layers=6 does not match the weights in run, which have 4' "  a conflicting option is rejected"
try "$megatron" train "${resume[@]}" --load run --num-layers 6 --use-checkpoint-args
like "$out" 'note: --use-checkpoint-args: --num-layers is taken from the checkpoint' "  or overridden"
like "$out" 'iteration +9/ ' "  and it resumes" || diag "$out"
try "$megatron" train "${resume[@]}" --load nothing
is "$rc" 2 "  without a checkpoint"
like "$out" '--num-layers is required' "  the options are required"
# A training that starts with a directory's weights has its model configuration, too.
begin=(--micro-batch-size 2 --global-batch-size 16 --lr 1e-3 --train-iters 1 --mock-data --log-interval 1 --eval-iters 0
    --device cpu --cpu-threads 1)
try "$megatron" train "${begin[@]}" --load-hf hf
like "$out" 'seq_length .* 32$' "train --load-hf: the network is taken from config.json" || diag "$out"
like "$out" 'iteration +1/ ' "  and trained"
try "$megatron" train "${begin[@]}" --load-hf hf --norm-epsilon 1e-6
like "$out" '--norm-epsilon=1e-06 does not match the weights in hf, which have 1e-05' "  a conflicting option is rejected"
try "$megatron" train "${begin[@]}" "${model[@]}" --seq-length 32 --vocab-size 300 --swiglu --save-hf out
is "$rc" 2 "--save-hf of a network that Hugging Face does not have"
like "$out" '--save-hf: Hugging Face has no such model' "  and why"
unlike "$out" 'iteration +1/' "  reported before training"
try "$megatron" train "${begin[@]}" "${model[@]}" --seq-length 32 --vocab-size 300 --save-hf /dev/null/x
like "$out" '--save-hf: cannot create the directory /dev/null/x' "--save-hf to a place that cannot be written to"
unlike "$out" 'iteration +1/' "  reported before training"
try "$megatron" train "${begin[@]}" "${model[@]}" --seq-length 32 --vocab-size 300 --train-iters 2 --exit-interval 1 --save-hf early
is "$rc $(ls early)" "75 " "a run that ended early writes no weights for others"

# Data for only one of the splits.
seq 20000 | awk '{ printf "%s%s", $1 % 250, $1 % 40 ? " " : "\n" }' | sed 's/.*/{"text": "&"}/' >text.jsonl
try "$megatron" preprocess --input text.jsonl --output-prefix data --tokenizer-type NullTokenizer --vocab-size 299 --append-eod
is "$rc" 0 "a small corpus" || diag "$out"
for split in valid test; do
    try "$megatron" evaluate --load run --$split-data-path data_text_document --device cpu --cpu-threads 1 --eval-iters 2
    is "$rc $(grep -c 'lm loss value: [0-9.]*E' <<<"$out")" "0 1" "--$split-data-path alone" || diag "$(tail -n 3 <<<"$out")"
done
try "$megatron" evaluate --load run --device cpu
like "$out" 'no data: use --data-path, --valid-data-path or --mock-data' "no data"
evaluate 1 --load nowhere
like "$out" '--load: directory nowhere does not exist' "no directory"
evaluate 1
like "$out" 'requires --load or --load-hf' "no weights"
evaluate 1 --load run --save x
like "$out" 'evaluation does not save anything' "no --save"
done_testing

#!/bin/bash
# megatron evaluate gives the loss that the training gave for the same weights and data.
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
    [ "$ranks" = 1 ] || run=(mpirun --oversubscribe -n "$ranks")
    try "${run[@]}" "$megatron" evaluate --mock-data --device cpu --cpu-threads 1 --micro-batch-size 2 \
        --global-batch-size 16 --eval-iters 2 "$@"
}
near() { awk -v a="$expected" -v b="$1" 'BEGIN { d = a - b; exit !(b > 0 && d < 1e-5 * a && d > -1e-5 * a) }'; }
evaluate 2 $t 2 --load run
is "$rc" 0 "evaluate" || diag "$(tail -n 3 <<<"$out")"
is "$(loss 'the start for validation data')" "$expected" "the same loss on the same layout"
evaluate 1 --load run
near "$(loss 'the start for validation data')"
ok "the same to rounding on another" || diag "$(tail -n 3 <<<"$out")"
evaluate 1 --load-hf hf --seq-length 32
near "$(loss 'the start for validation data')"
ok "and for weights of Hugging Face's form" || diag "$(tail -n 3 <<<"$out")"
evaluate 1 --load hf
near "$(loss 'the start for validation data')"
ok "or with --load, as their directory tells what they are" || diag "$(tail -n 3 <<<"$out")"
unlike "$out" 'iteration +1/' "nothing is trained"
evaluate 1 --load run "${model[@]}" --vocab-size 300
near "$(loss 'the start for validation data')"
ok "options of the network may be repeated" || diag "$(tail -n 3 <<<"$out")"
while IFS='|' read -r options pattern; do
    # shellcheck disable=SC2086
    evaluate 1 --load run $options
    is "$rc $(wc -l <<<"$out")" "1 1" "refused: $options"
    like "$out" "$pattern" "  and why"
done <<'END'
--num-layers 6|--num-layers=6 is given, and the weights in run have 4; leave it out
--vocab-size 301|--vocab-size=301 is given, and the weights in run have 300
--normalization RMSNorm|--normalization=RMSNorm is given, and the weights in run have LayerNorm
--norm-epsilon 1e-6|--norm-epsilon=1e-06 is given, and the weights in run have 1e-05
--swiglu|--swiglu is given, and the weights in run are of a network without it
--disable-bias-linear|--disable-bias-linear is given, and the weights in run are of a network without it
--max-position-embeddings 64|--max-position-embeddings=64 is given, and the weights in run have 32
--tokenizer-type GPT2BPETokenizer|the tokenizer has 50257 tokens, and the weights in run are of a network with 300
--megatron-model 1.7B|--megatron-model 1.7B has --num-layers 24, and the weights in run have 4
END
evaluate 1 --load nowhere
like "$out" '--load: there is no directory nowhere' "no directory"
evaluate 1
like "$out" 'needs --load or --load-hf' "no weights"
evaluate 1 --load run --save x
like "$out" 'an evaluation saves nothing' "no --save"
done_testing

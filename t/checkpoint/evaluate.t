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
    try "${run[@]}" "$megatron" evaluate "${model[@]}" "${common[@]}" --eval-iters 2 "$@"
}
near() { awk -v a="$expected" -v b="$1" 'BEGIN { d = a - b; exit !(b > 0 && d < 1e-5 * a && d > -1e-5 * a) }'; }
evaluate 2 $t 2 --load run
is "$rc" 0 "evaluate" || diag "$(tail -n 3 <<<"$out")"
is "$(loss 'the start for validation data')" "$expected" "the same loss on the same layout"
evaluate 1 --load run
near "$(loss 'the start for validation data')"
ok "the same to rounding on another" || diag "$(tail -n 3 <<<"$out")"
evaluate 1 --load-hf hf
near "$(loss 'the start for validation data')"
ok "and for weights of Hugging Face's form" || diag "$(tail -n 3 <<<"$out")"
unlike "$out" 'iteration +1/' "nothing is trained"
evaluate 1
like "$out" 'needs --load or --load-hf' "no weights"
evaluate 1 --load run --save x
like "$out" 'an evaluation saves nothing' "no --save"
done_testing

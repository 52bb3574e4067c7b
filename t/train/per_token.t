#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tokens that are masked (--eod-mask-loss), very unequally over the samples. With --calculate-per-token-loss every layout takes
# the gradient of the mean over all trained tokens of a step: that of one micro-batch with the whole batch. Logged and evaluated
# losses are means over tokens with and without it.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/losses.sh"
command -v perl >/dev/null || skip_all "perl is missing"

# Documents of 33 tokens as .bin and .idx. Half of them consist mostly of the token that ends documents.
perl -e '
    my ($prefix, $count, $length, $end) = ("$ARGV[0]/text", 96, 33, 59);
    open(my $bin, ">:raw", "$prefix.bin");
    open(my $idx, ">:raw", "$prefix.idx");
    for my $d (0 .. $count - 1) {
        print $bin pack("v*", map { $d % 2 && $_ % 8 ? $end : (7 * $d + $_) % 50 } 1 .. $length);
    }
    print $idx "MMIDIDX\0\0", pack("Q< C Q< Q<", 1, 8, $count, $count + 1), pack("l<*", ($length) x $count),
        pack("q<*", map { 2 * $length * $_ } 0 .. $count - 1), pack("q<*", 0 .. $count);' "$scratch"

common+=(--global-batch-size 8 --train-iters 3 --eod-mask-loss --data-path "$scratch/text" --data-cache-path "$scratch/cache"
    --split 60,20,20)
for i in "${!common[@]}"; do
    [ "${common[i]}" != --mock-data ] || unset "common[i]"
done
token=--calculate-per-token-loss

# steps RANKS OPTION...: $steps has "loss norm" of each step, one per line.
steps() {
    train "$@"
    steps=$(sed -nE 's/.*lm loss: ([^ ]+) .*grad norm: ([^ ]+) .*/\1 \2/p' "$scratch/out")
}

# same NAME: $steps are those of $expected, to rounding.
same() {
    paste <(echo "$expected") <(echo "$steps") | awk '
        NF != 4 { bad = 1 }
        { d = $1 - $3; e = $2 - $4; if (d < 0) d = -d; if (e < 0) e = -e
          if (d > 1e-5 * $1 || e > 1e-3 * $2 + 1e-3) bad = 1 }
        END { exit bad || NR != 3 }'
    ok "$1" || { diag "expected ${expected//$'\n'/, }"; diag "got      ${steps//$'\n'/, }"; diag "$(tail -n 3 "$scratch/out")"; }
}

t=--tensor-model-parallel-size p=--pipeline-model-parallel-size c=--context-parallel-size
v=--num-layers-per-virtual-pipeline-stage
# Whole batches, one after the other: the mean over the tokens of a step, with or without the option.
steps 1 "${gpt[@]}" --micro-batch-size 8
expected=$steps
is "$(wc -l <<<"$expected")" 3 "one micro-batch" || diag "$(tail -n 3 "$scratch/out")"
steps 1 "${gpt[@]}" --micro-batch-size 8 $token
is "$steps" "$expected" "one micro-batch, per token: the same numbers"
while read -r ranks options; do
    # shellcheck disable=SC2086
    steps $ranks "${gpt[@]}" $options $token
    same "per token, ranks $ranks $options"
done <<EOT
1 --micro-batch-size 1
1 --micro-batch-size 2 --random-order
1 --micro-batch-size 4 --recompute-granularity full
2 --micro-batch-size 1
2 --micro-batch-size 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
4 --micro-batch-size 1 --ddp-bucket-size 1 --random-order
2 --micro-batch-size 2 $t 2
2 --micro-batch-size 2 $t 2 --sequence-parallel
2 --micro-batch-size 1 $c 2
2 --micro-batch-size 1 $p 2
2 --micro-batch-size 1 $p 2 $v 1 --random-order
4 --micro-batch-size 2 $c 2
4 --micro-batch-size 1 $c 2 $t 2 --sequence-parallel
4 --micro-batch-size 1 $t 2 $p 2
4 --micro-batch-size 1 $p 2 $v 1
8 --micro-batch-size 2 $t 2 $p 2 --use-distributed-optimizer
EOT

# Clipping and loss scales apply to that gradient.
for more in "--clip-grad 0.05" "--clip-grad 0" "--loss-scale 1000" "--optimizer sgd"; do
    # shellcheck disable=SC2086
    steps 1 "${llama[@]}" --micro-batch-size 8 $more
    expected=$steps
    # shellcheck disable=SC2086
    steps 4 "${llama[@]}" --micro-batch-size 1 $p 2 $more $token
    same "llama per token, dp 2 x pp 2, $more"
done

# Without the option: the mean of each micro-batch, then of micro-batches and ranks.
steps 1 "${gpt[@]}" --micro-batch-size 1
whole=$(head -n 1 <<<"$steps")
expected=$steps
for layout in 2 "2 $c 2" "2 $p 2" "4 $t 2"; do
    # shellcheck disable=SC2086
    steps $layout "${gpt[@]}" --micro-batch-size 1
    same "mean of micro-batches, ranks $layout"
done
steps 1 "${gpt[@]}" --micro-batch-size 8
read -r _ one <<<"$(head -n 1 <<<"$steps")"
read -r _ many <<<"$whole"
awk "BEGIN { exit !($many > 1.02 * $one || $many < 0.98 * $one) }"
ok "the gradient differs" || diag "$many, $one"
expected=${whole% *} losses=$(head -n 1 <<<"$losses")
near "but the logged loss of the same weights is the same" 1e-6

# Several steps in a line, then losses on validation and test data.
evaluated() { sed -nE 's/.*(lm loss|lm loss value): ([^ ]+) .*/\2/p' "$scratch/out"; }
train 1 "${gpt[@]}" --micro-batch-size 8 --lr 0 --log-interval 3 --eval-iters 2 --eval-interval 2 --save "$scratch/saved"
expected=$(evaluated)
is "$(wc -l <<<"$expected")" 4 "a line of three steps, two validations and a test" || diag "$(tail -n 5 "$scratch/out")"
while read -r ranks options; do
    # shellcheck disable=SC2086
    train $ranks "${gpt[@]}" $options --lr 0 --log-interval 3 --eval-iters 2 --eval-interval 2
    losses=$(evaluated)
    near "logged and evaluated losses, ranks $ranks $options" 1e-6
done <<EOT
1 --micro-batch-size 1
1 --micro-batch-size 2 $token
2 --micro-batch-size 1
2 --micro-batch-size 1 $c 2
2 --micro-batch-size 2 $p 2
2 --micro-batch-size 2 $t 2
4 --micro-batch-size 1 $p 2 $v 1
EOT
expected=$(sed -n '1p;4p' <<<"$expected") # the first samples of each split
for options in "--micro-batch-size 8" "--micro-batch-size 1"; do
    # shellcheck disable=SC2086
    try "$megatron" evaluate "${common[@]}" "${gpt[@]}" --load "$scratch/saved" --eval-iters 2 --eval-interval 2 $options
    losses=$(sed -nE 's/.*lm loss value: ([^ ]+) .*/\1/p' <<<"$out")
    near "megatron evaluate $options" 1e-6
done
done_testing

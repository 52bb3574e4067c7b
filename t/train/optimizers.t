#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The optimizers: three steps of AdamW, SGD and Muon against torch (optimizers.txt, written by t/peers/optimizers --write),
# and a run with Muon that is resumed.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
steps=$MEGATRON_BUILD/t/peers/optimizer-steps
table=$top/t/train/optimizers.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
[ -x "$steps" ] || make -s -C "$MEGATRON_BUILD/t" peers/optimizer-steps >make.log 2>&1

# The first and the last value of each parameter, and the sum of their sizes.
while IFS='|' read -r name words; do
    # shellcheck disable=SC2086
    "$steps" $words | perl -lane 'my ($name, $rows, $cols, @v) = @F; my $sum = 0; $sum += abs for @v; print "$name $v[0] $v[-1] $sum"' >got
    awk -v name="$name" '/\|/ { on = index($0, name "|") == 1; next } on' "$table" >expected
    paste -d' ' got expected | awk '
        function far(a, b, by) { return (a > b ? a - b : b - a) > by }
        NF != 8 || $1 != $5 || far($2, $6, 1e-6) || far($3, $7, 1e-6) || far($4, $8, 1e-6 * $8 + 1e-6) { print; bad = 1 }
        END { exit bad || NR < 20 }' >differences
    ok "$name: the weights of torch after three steps" || diag "$(head -n 3 differences)"
done < <(grep '|' "$table")

# --- Muon's momentum is saved: a resumed run goes on as if it had not stopped.
muon=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --vocab-size 50 --mock-data --micro-batch-size 2
    --lr 1e-2 --lr-decay-style constant --optimizer muon --muon-use-nesterov --device cpu --cpu-threads 1 --eval-iters 0
    --log-interval 1 --train-iters 6)
losses() { "$megatron" train "${muon[@]}" "$@" 2>&1 | sed -nE 's/.* iteration +([0-9]+).*lm loss: ([^ ]+) .*/\1 \2/p'; }
whole=$(losses)
is "$(wc -l <<<"$whole")" 6 "a run with Muon"
first=$(losses --save run --exit-interval 3)
second=$(losses --save run --load run)
is "$first
$second" "$whole" "  stopped and resumed"
[ "$(losses --muon-num-ns-steps 10)" != "$whole" ]
ok "  another number of Newton-Schulz steps takes other steps"
is "$(losses --optimizer-cpu-offload --random-order)" "$whole" "  with its state in host memory"
try "$megatron" train "${muon[@]}" --optimizer adam --load run --override-opt_param-scheduler
like "$rc: ${out##*$'\n'}" '^2: .*it was saved with optimizer muon, but this run uses optimizer adam; use --no-load-optim or --finetune' "  another optimizer is refused"

# --- State in host memory is updated to the same numbers, and loaded wherever it is kept.
muon+=(--optimizer adam)
whole=$(losses)
first=$(losses --save there --exit-interval 3 --optimizer-cpu-offload --optimizer-offload-fraction 0.4 --random-order)
second=$(losses --load there)
third=$(losses --load there --optimizer-cpu-offload)
is "$first
$second" "$whole" "Adam's state in host memory, resumed with it on the device"
is "$third" "$second" "  resumed with all of it in host memory"
plan=(--dry-run --megatron-model llama2-7b --mock-data --micro-batch-size 1 --global-batch-size 8 --bf16 --train-iters 1 --lr 1e-4)
try "$megatron" train "${plan[@]}" --optimizer-cpu-offload
like "$out" 'optimizer 0\.094, .*optimizer in host memory 75\.30' "  12 bytes per parameter there, two pieces on the GPU"
done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A run that is stopped and resumed ends with the checkpoint of an uninterrupted one, bit-identical
# on the same layout and within rounding on any other. STOPS: random stops of each layout (2), of
# ITERATIONS (8). MATRIX: the numbers of the layouts that save, of all tp 1, 2, 4 x pp 1, 2 x dp 1,
# 2, all of which then load. See t/campaign/reshard.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"

losses() { sed -nE 's/.*consumed samples: +([0-9]+) .*lm loss: ([^ ]+) .*/\1 \2/p' <<<"$out"; }

# close EXPECTED GOT: the same samples, and losses up to rounding.
close() {
    paste <(echo "$1") <(echo "$2") | awk '
        NF != 4 || $1 != $3 { bad = 1 }
        { d = $2 - $4; if (d < 0) d = -d; if (d > 1e-4 * $2) bad = 1 }
        END { exit bad || NR == 0 }'
}

RANDOM=${SEED:-$$}
diag "SEED=${SEED:-$$}"
iterations=${ITERATIONS:-8}
last=$(printf 'iter_%07d' "$iterations")
# stops SEED: random iterations before the last one, in order.
stops() {
    RANDOM=$1
    for ((at = 1; at < iterations; at++)); do echo "$RANDOM $at"; done | sort -n | head -n "${STOPS:-2}" | cut -d' ' -f2 | sort -n
}
bit_exact() {
    local name=$1 ranks=$2 stop seed=$RANDOM
    shift 2
    rm -rf whole parts
    set -- --train-iters "$iterations" "$@"
    train "$ranks" --save whole "$@"
    is "$rc" 0 "$name: a run without interruption" || diag "$(tail -n 5 <<<"$out")"
    for stop in $(stops $seed); do
        train "$ranks" --save parts --load parts --exit-interval $stop "$@"
        is "$rc" 75 "$name: stopped at iteration $stop with the code for it" || diag "$(tail -n 5 <<<"$out")"
        rm -rf early && cp -r parts early
        train "$ranks" --save early --load early "$@"
        is "$rc" 0 "$name: resumed at iteration $stop" || diag "$(tail -n 5 <<<"$out")"
        same "whole/$last" "early/$last" "$name: stopped at $stop, the end is the same"
    done
}
# A save overlaps with the next step, whatever the device runs first: all checkpoints equal those of
# a run that waits for each. Steps have few operations, so that an update that does not wait for the
# copies often overtakes them.
beside() {
    local ranks=$1 small=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --micro-batch-size 1
        --global-batch-size "$1" --vocab-size 60 --make-vocab-size-divisible-by 4 --eval-iters 0 --train-iters 40 --save-interval 1)
    rm -rf waited beside
    train "$ranks" "${small[@]}" --save waited
    is "$rc" 0 "$2: a run that waits for its saves" || diag "$(tail -n 5 <<<"$out")"
    train "$ranks" "${small[@]}" --save beside --async-save --random-order
    is "$rc" 0 "$2: one that does not, in random order" || diag "$(tail -n 5 <<<"$out")"
    is "$(find beside -name index.json | wc -l)" 40 "$2: every step is saved"
    rm -f waited/.[!.]* beside/.[!.]*
    same waited beside "$2: the same checkpoints"
}
if [ -z "${MATRIX:-}" ]; then
    beside 1 "one rank"
    beside 2 "dp 2"
    bit_exact "one rank" 1
    bit_exact "one rank, async" 1 --async-save --save-interval 1
    bit_exact "tp 2 x pp 2, random order" 4 $t 2 $p 2 --random-order --async-save --save-interval 1
    bit_exact "dp 2 x cp 2" 4 $c 2
    bit_exact "pp 2 interleaved x dp 2" 4 $p 2 --num-layers-per-virtual-pipeline-stage 1 --async-save --save-interval 2
fi

train 1
expected=$(losses | tail -n 4)
[ -z "${STOPS:-}" ] || done_testing
layouts=("1" "2 $t 2" "4 $t 4" "2 $p 2" "2" "4 $t 2 $p 2" "4 $c 2" "8 $t 2 $p 2")
[ -z "${MATRIX:-}" ] || layouts=("1" "2" "2 $p 2" "4 $p 2" "2 $t 2" "4 $t 2" "4 $t 2 $p 2" "8 $t 2 $p 2" "4 $t 4" "8 $t 4"
    "8 $t 4 $p 2" "16 $t 4 $p 2")
n=${#layouts[@]}
for i in ${MATRIX:-$(seq 0 $((n - 1)))}; do
    rm -rf from
    # shellcheck disable=SC2086
    train ${layouts[i]} --save from --exit-interval 4
    is "$rc" 75 "ranks, options ${layouts[i]}: saved at iteration 4" || diag "$(tail -n 5 <<<"$out")"
    # Each layout is read by another one, or by all.
    for ((j = 0; j < n; j++)); do
        [ -n "${MATRIX:-}" ] || [ $j = $(((i * 3 + 5) % n)) ] || continue
        # shellcheck disable=SC2086
        train ${layouts[j]} --load from
        close "$expected" "$(losses)"
        ok "saved by ${layouts[i]}, continued by ${layouts[j]}" ||
            { diag "expected" $expected; diag "got     " "$(losses)"; diag "$(tail -n 5 <<<"$out")"; }
    done
done
done_testing

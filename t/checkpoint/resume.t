#!/bin/bash
# A run that is stopped and resumed ends with the checkpoint of one that was not, bit by bit on the same
# layout and within rounding on any other.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"

losses() { sed -nE 's/.*consumed samples: +([0-9]+) .*lm loss: ([^ ]+) .*/\1 \2/p' <<<"$out"; }

# close EXPECTED GOT: the same samples, and losses to rounding.
close() {
    paste <(echo "$1") <(echo "$2") | awk '
        NF != 4 || $1 != $3 { bad = 1 }
        { d = $2 - $4; if (d < 0) d = -d; if (d > 1e-4 * $2) bad = 1 }
        END { exit bad || NR == 0 }'
}

RANDOM=${SEED:-$$}
diag "SEED=${SEED:-$$}"
bit_exact() {
    local name=$1 ranks=$2 stop
    shift 2
    rm -rf whole parts
    train "$ranks" --save whole "$@"
    is "$rc" 0 "$name: a run without interruption" || diag "$(tail -n 5 <<<"$out")"
    for stop in $((RANDOM % 3 + 1)) $((RANDOM % 3 + 4)); do
        train "$ranks" --save parts --load parts --exit-interval $stop "$@"
        is "$rc" 75 "$name: stopped at iteration $stop with the code for it" || diag "$(tail -n 5 <<<"$out")"
        rm -rf early && cp -r parts early
        train "$ranks" --save early --load early "$@"
        is "$rc" 0 "$name: resumed at iteration $stop" || diag "$(tail -n 5 <<<"$out")"
        same whole/iter_0000008 early/iter_0000008 "$name: stopped at $stop, the end is the same"
    done
}
bit_exact "one rank" 1
bit_exact "one rank, async" 1 --async-save --save-interval 1
bit_exact "tp 2 x pp 2, random order" 4 $t 2 $p 2 --random-order --async-save --save-interval 1
bit_exact "dp 2 x cp 2" 4 $c 2
bit_exact "pp 2 interleaved x dp 2" 4 $p 2 --num-layers-per-virtual-pipeline-stage 1 --async-save --save-interval 2

train 1
expected=$(losses | tail -n 4)
layouts=("1" "2 $t 2" "4 $t 4" "2 $p 2" "2" "4 $t 2 $p 2" "4 $c 2" "8 $t 2 $p 2")
n=${#layouts[@]}
for ((i = 0; i < n; i++)); do
    rm -rf from
    # shellcheck disable=SC2086
    train ${layouts[i]} --save from --exit-interval 4
    is "$rc" 75 "ranks, options ${layouts[i]}: saved at iteration 4" || diag "$(tail -n 5 <<<"$out")"
    # Each layout is read by another one; FULL=1 lets all read all.
    for ((j = 0; j < n; j++)); do
        [ -n "${FULL:-}" ] || [ $j = $(((i * 3 + 5) % n)) ] || continue
        # shellcheck disable=SC2086
        train ${layouts[j]} --load from
        close "$expected" "$(losses)"
        ok "saved by ${layouts[i]}, gone on with by ${layouts[j]}" ||
            { diag "expected" $expected; diag "got     " "$(losses)"; diag "$(tail -n 5 <<<"$out")"; }
    done
done
done_testing

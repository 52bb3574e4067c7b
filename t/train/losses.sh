# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that compare the losses of runs on CPUs, after tap.sh: $megatron, $scratch and the array 'common' of options
# that all runs have are set by the test.

# train RANKS OPTION...: $losses has the loss of each step, one per line, $rc the exit status, $scratch/out the output.
train() {
    local ranks=$1 run=()
    shift
    [ "$ranks" = 1 ] || run=("$megatron" launch --nproc-per-node "$ranks" --)
    timeout 120 "${run[@]}" "$megatron" train "${common[@]}" "$@" >"$scratch/out" 2>&1
    rc=$?
    read_losses
}

# $losses of the run whose output is in $scratch/out
read_losses() {
    losses=$(sed -nE 's/.*lm loss: ([^ ]+) .*/\1/p' "$scratch/out")
}

# near NAME BOUND: as many losses as $expected has, each within the bound, relative.
near() {
    paste <(echo "$expected") <(echo "$losses") | awk -v bound="$2" '
        NF != 2 { bad = 1 }
        { d = $1 - $2; if (d < 0) d = -d; if (d > bound * $1) bad = 1 }
        END { exit bad }'
    ok "$1" || { diag "expected ${expected//$'\n'/ }"; diag "got      ${losses//$'\n'/ }"; diag "$(tail -n 3 "$scratch/out")"; }
}

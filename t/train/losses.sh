# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that compare the losses of runs on CPUs, after tap.sh. Sets $megatron, $scratch (a directory that is removed
# at the end), the models gpt and llama, and common: options that all runs have.
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

gpt=(--num-layers 4 --hidden-size 32 --num-attention-heads 2)
llama=("${gpt[@]}" --swiglu --ffn-hidden-size 64 --position-embedding-type rope --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights)
common=(--seq-length 32 --micro-batch-size 1 --global-batch-size 4 --lr 3e-3 --lr-decay-style constant --lr-decay-iters 20
    --vocab-size 60 --make-vocab-size-divisible-by 16 --mock-data --log-interval 1 --eval-iters 0 --device cpu --cpu-threads 1
    --distributed-timeout-minutes 1 --hidden-dropout 0 --attention-dropout 0)

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

# unplanned OPTION...: the MiB that a run with large layers takes beyond what it plans.
unplanned() {
    "${PYTHON:-python3}" - "$megatron" train "${common[@]}" --num-layers 1 --hidden-size 1024 --num-attention-heads 8 --vocab-size 50000 \
        --seq-length 256 --global-batch-size 1 --train-iters 1 "$@" <<'EOT'
import re, resource, subprocess, sys
out = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
planned = re.search(r'([0-9.]+) GiB planned', out.stdout)
if out.returncode or not planned:
    sys.exit(out.stdout)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024 - int(1024 * float(planned[1])))
EOT
}

# planned NAME OPTION...: the options take memory only as far as it is planned.
planned() {
    local name=$1 with without
    shift
    command -v "${PYTHON:-python3}" >/dev/null || { skip "$name" "python3 is missing"; return; }
    # shellcheck disable=SC2016
    bash -c 'ulimit -v 800000; exec "$@"' limited "$megatron" --version >/dev/null 2>&1 ||
        { skip "$name" "this build has sanitizers, which need memory, too"; return; }
    without=$(unplanned 2>&1) with=$(unplanned "$@" 2>&1)
    [[ $without =~ ^-?[0-9]+$ && $with =~ ^-?[0-9]+$ && $with -le $((without + 16)) ]]
    ok "$name" || diag "$with MiB beyond the plan, without the options $without"
}

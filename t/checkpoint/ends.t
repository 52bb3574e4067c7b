#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A run that ends early, or that all ranks reject, ends its step with the right exit code, even if
# one rank is still running when the others have exited: srun then sends it SIGTERM, and would
# return the code of that.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_INST/lib/megatron/comm_tcp.so" ] || skip_all "no installed tree; run ./quickstart build"
command -v "${CC:-cc}" >/dev/null || skip_all "no compiler"
cluster_up --nodes 1 --gpus 0 --cpus 4
work=$(mktemp -d)
trap 'cluster_down; rm -rf "$work"' EXIT
chmod 777 "$work"
cd "$work" || exit 1

# Rank 1 hangs when it exits.
"${CC:-cc}" -shared -fPIC -o slow.so -xc - <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((destructor)) static void hang(void)
{
    FILE *file;

    if (!getenv("SLURM_PROCID") || strcmp(getenv("SLURM_PROCID"), "1") != 0)
        return;
    file = fopen("stays", "w");
    if (file)
        fclose(file);
    for (;;)
        pause();
}
END
ok "a rank can be made slow to end"
# ends CODE NAME OPTION...
ends() {
    local code=$1 name=$2
    shift 2
    rm -f stays
    try as_user srun --chdir="$work" -n3 --megatron-tp=1 --kill-on-bad-exit=1 --export="ALL,LD_PRELOAD=$work/slow.so" \
        "$MEGATRON_INST/bin/megatron" train --num-layers 1 --hidden-size 8 --num-attention-heads 2 --seq-length 8 \
        --micro-batch-size 1 --train-iters 2 --lr 1e-3 --vocab-size 16 --make-vocab-size-divisible-by 8 --mock-data \
        --eval-iters 0 --device cpu --cpu-threads 1 "$@"
    is "$rc" "$code" "$name: its code" || diag "$out"
    ok "$name: although a rank hung" test -e stays
}
ends 2 "a checkpoint that is not there" --load nowhere
is "$(grep -c 'megatron: nowhere contains no checkpoint' <<<"$out")" 1 "and is reported once"
ends 75 "a run that ends early" --exit-interval 1 --save run
is "$(cat run/latest_checkpointed_iteration.txt)" 1 "and is saved"
done_testing
